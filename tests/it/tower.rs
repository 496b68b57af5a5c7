//! Promise: the layers for `tower` limit calls and idle connections, by the clock of their service,
//! under a real server and client of hyper.
//!
//! Time moves by hand; all else waits for events: a request that has come, a response, an end.

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;
use wheelwork::future::{Elapsed, Timers, sleep};
use wheelwork::testing;
use wheelwork::tower::{IdleService, TimeoutLayer};
use wheelwork::{ManualClock, TimerService};

const SECOND: Duration = Duration::from_secs(1);

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Answers "/" at once, "/gate" when it is let go, and nothing else ever.
#[derive(Clone)]
struct Handler {
    came: mpsc::UnboundedSender<String>,
    gate: Arc<Notify>,
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Boxed<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let handler = self.clone();
        Box::pin(async move {
            let path = request.uri().path();
            handler.came.send(path.to_string()).unwrap();
            match path {
                "/" => {}
                "/gate" => handler.gate.notified().await,
                _ => pending().await,
            }
            Ok(Response::new(Empty::new()))
        })
    }
}

/// Makes a response of an error, as axum's `HandleErrorLayer` does.
#[derive(Clone)]
struct Recover<S>(S);

impl<S> Service<Request<Incoming>> for Recover<S>
where
    S: Service<
            Request<Incoming>,
            Response = Response<Empty<Bytes>>,
            Error = Box<dyn Error + Send + Sync>,
        >,
    S::Future: Send + 'static,
{
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Boxed<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context).map(|_| Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let call = self.0.call(request);
        Box::pin(async move {
            Ok(call.await.unwrap_or_else(|error| {
                let mut response = Response::new(Empty::new());
                *response.status_mut() = if error.is::<Elapsed>() {
                    StatusCode::GATEWAY_TIMEOUT
                } else {
                    StatusCode::INTERNAL_SERVER_ERROR
                };
                response
            }))
        })
    }
}

/// A clock, a service for futures on it, a listener; what a test needs to talk to a server.
struct Setup {
    clock: ManualClock,
    timers: Timers,
    listener: TcpListener,
    handler: Handler,
    came: mpsc::UnboundedReceiver<String>,
}

impl Setup {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (send, came) = mpsc::unbounded_channel();
        let gate = Arc::default();
        let handler = Handler { came: send, gate };
        Self {
            clock,
            timers,
            listener,
            handler,
            came,
        }
    }

    /// A connection: the client's end, and the server's.
    async fn connect(&self) -> (Client, TcpStream) {
        let address = self.listener.local_addr().unwrap();
        let connect = async { TcpStream::connect(address).await.unwrap() };
        let accept = async { self.listener.accept().await.unwrap().0 };
        let (client, server) = tokio::join!(connect, accept);
        let (requests, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        (
            Client {
                requests,
                connection,
            },
            server,
        )
    }
}

struct Client {
    requests: SendRequest<Empty<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Client {
    async fn get(&mut self, path: &str) -> StatusCode {
        self.requests.ready().await.unwrap();
        let request = Request::builder()
            .uri(path)
            .header("host", "localhost")
            .body(Empty::new())
            .unwrap();
        let response = self.requests.send_request(request).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    }
}

#[tokio::test]
async fn a_call_of_a_server_has_its_time_and_no_more() {
    let mut setup = Setup::new().await;
    let (mut client, stream) = setup.connect().await;
    let layer = TimeoutLayer::on(&setup.timers, 30 * SECOND);
    let service = Recover(layer.layer(setup.handler.clone()));
    let server = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let server = tokio::spawn(server);

    assert_eq!(client.get("/").await, StatusCode::OK);
    assert_eq!(setup.came.recv().await.as_deref(), Some("/"));
    let armed = |setup: &Setup| setup.timers.handle().stats().timers.armed;
    assert_eq!(
        armed(&setup),
        0,
        "a call that is ready at once costs no timer"
    );

    // Not over a moment before.
    let clock = setup.clock.clone();
    let (status, ()) = tokio::join!(client.get("/gate"), async {
        assert_eq!(setup.came.recv().await.as_deref(), Some("/gate"));
        clock.advance(30 * SECOND - SECOND / 1_000);
        // The call has its turn, and goes on.
        tokio::task::yield_now().await;
        setup.handler.gate.notify_one();
    });
    assert_eq!(status, StatusCode::OK);
    // The timer went with the call; another one is needed for the next.
    assert_eq!((armed(&setup), setup.timers.handle().len()), (1, 0));
    let (status, ()) = tokio::join!(client.get("/never"), async {
        assert_eq!(setup.came.recv().await.as_deref(), Some("/never"));
        clock.advance(30 * SECOND);
    });
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    // The connection goes on.
    assert_eq!(client.get("/").await, StatusCode::OK);
    drop(client.requests);
    client.connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
    assert!(setup.timers.handle().is_empty());
}

#[tokio::test]
async fn a_connection_on_which_nothing_happens_is_closed() {
    let mut setup = Setup::new().await;
    let (mut client, stream) = setup.connect().await;
    let (service, idle) = IdleService::on(&setup.timers, setup.handler.clone(), 60 * SECOND);
    let server = tokio::spawn(async move {
        let connection = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        tokio::select! {
            end = connection.as_mut() => end.map(|()| "by the client"),
            () = idle => {
                connection.as_mut().graceful_shutdown();
                connection.await.map(|()| "idle")
            }
        }
    });

    let clock = setup.clock.clone();
    for _ in 0..5 {
        assert_eq!(client.get("/").await, StatusCode::OK);
        assert_eq!(setup.came.recv().await.as_deref(), Some("/"));
        clock.advance(59 * SECOND);
    }
    // A call is not idle, however long it takes.
    let (status, ()) = tokio::join!(client.get("/gate"), async {
        assert_eq!(setup.came.recv().await.as_deref(), Some("/gate"));
        clock.advance(3_600 * SECOND);
        // The task that waits has its turn, and keeps waiting.
        tokio::task::yield_now().await;
        setup.handler.gate.notify_one();
    });
    assert_eq!(status, StatusCode::OK);
    clock.advance(59 * SECOND);
    assert_eq!(client.get("/").await, StatusCode::OK);
    clock.advance(60 * SECOND);
    assert_eq!(server.await.unwrap().unwrap(), "idle");
    client.connection.await.unwrap().unwrap();
    assert!(client.requests.is_closed());
    assert!(setup.timers.handle().is_empty());
}

/// The guide's recipe: hyper limits the time for a request's head, which a graceful shutdown waits
/// for. The time for a head is longer than the one between two requests, so it is only met where a
/// head has begun.
#[tokio::test]
async fn half_a_head_does_not_hold_its_connection() {
    let setup = Setup::new().await;
    let address = setup.listener.local_addr().unwrap();
    let connect = async { TcpStream::connect(address).await.unwrap() };
    let (mut client, (stream, _)) =
        tokio::join!(connect, async { setup.listener.accept().await.unwrap() });
    let half = b"GET / HTTP/1.1\r\nhost: lo";
    client.write_all(half).await.unwrap();
    // The server finds it at its first look.
    let mut there = [0; 64];
    while stream.peek(&mut there).await.unwrap() < half.len() {}

    let (service, idle) = IdleService::on(&setup.timers, setup.handler.clone(), 60 * SECOND);
    let mut builder = http1::Builder::new();
    builder
        .timer(setup.timers.clone())
        .header_read_timeout(90 * SECOND);
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = tokio::spawn(async move {
        let connection =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            end = connection.as_mut() => end,
            () = idle => {
                connection.as_mut().graceful_shutdown();
                tell.send(()).unwrap();
                connection.await
            }
        }
    });
    // Both timers are armed.
    while setup.timers.handle().len() < 2 {
        tokio::task::yield_now().await;
    }
    setup.clock.advance(60 * SECOND);
    told.recv().await.unwrap();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished(), "the rest of the head may come");
    setup.clock.advance(30 * SECOND);
    let error = server.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    // (Of what the server says before, this is the end.)
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(setup.timers.handle().is_empty());
}

/// A service for tests without a connection: takes as many seconds as it is asked for.
#[derive(Clone)]
struct Seconds(Rc<()>);

impl Service<u32> for Seconds {
    type Response = u32;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<u32>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, seconds: u32) -> Self::Future {
        let used = self.0.clone();
        Box::pin(async move {
            sleep(seconds * SECOND).await;
            drop(used);
            match seconds {
                13 => Err(std::io::Error::other("thirteen")),
                _ => Ok(seconds),
            }
        })
    }
}

#[test]
fn errors_are_those_of_the_service_or_of_time() {
    testing::block_on(async {
        let used = Rc::new(());
        let mut service = TimeoutLayer::new(30 * SECOND).layer(Seconds(used.clone()));
        poll_fn(|context| service.poll_ready(context))
            .await
            .unwrap();
        assert_eq!(service.call(30).await.unwrap(), 30);
        let error = service.call(13).await.unwrap_err();
        assert_eq!(error.to_string(), "thirteen");
        assert!(error.is::<std::io::Error>());
        // The time begins with the call, not with the first poll.
        let begun = service.call(25);
        sleep(10 * SECOND).await;
        let start = testing::clock().elapsed();
        assert!(begun.await.unwrap_err().is::<Elapsed>());
        assert_eq!(testing::clock().elapsed() - start, 20 * SECOND);
        // What was called is dropped with the call.
        let error = service.call(31).await.unwrap_err();
        assert!(error.is::<Elapsed>());
        drop(service);
        assert_eq!(Rc::strong_count(&used), 1);
    });
}

#[test]
fn the_time_without_calls_counts() {
    let elapsed = || testing::clock().elapsed();
    testing::block_on(async {
        // From the beginning.
        let (_service, idle) = IdleService::new(Seconds(Rc::default()), 60 * SECOND);
        idle.await;
        assert_eq!(elapsed(), 60 * SECOND);
    });
    testing::block_on(async {
        // Several calls at a time, by clones; one is dropped.
        let (mut service, idle) = IdleService::new(Seconds(Rc::default()), 60 * SECOND);
        let idle = testing::spawn(idle);
        let mut other = service.clone();
        let (long, short) = (service.call(500), other.call(100));
        let long = testing::spawn(long);
        drop(other);
        short.await.unwrap();
        let given_up = service.call(1_000);
        long.await.unwrap();
        sleep(200 * SECOND).await;
        assert!(!idle.is_finished());
        drop(given_up);
        drop(service);
        idle.await;
        assert_eq!(elapsed(), 760 * SECOND);
    });
    testing::block_on(async {
        // Errors are passed on, and end a call.
        let (mut service, idle) = IdleService::new(Seconds(Rc::default()), SECOND);
        poll_fn(|context| service.poll_ready(context))
            .await
            .unwrap();
        let error = service.call(13).await.unwrap_err();
        assert_eq!(error.to_string(), "thirteen");
        idle.await;
        assert_eq!(elapsed(), 14 * SECOND);
    });
    testing::block_on(async {
        // What keeps it busy counts as a call, with calls and without, before and after the limit.
        let (mut service, idle) = IdleService::new(Seconds(Rc::default()), 60 * SECOND);
        let idle = testing::spawn(idle);
        let first = service.clone().keep_busy();
        service.call(10).await.unwrap();
        let second = service.keep_busy();
        drop(first);
        sleep(100 * SECOND).await;
        assert!(!idle.is_finished());
        drop(second);
        sleep(59 * SECOND).await;
        drop(service.keep_busy());
        idle.await;
        assert_eq!(elapsed(), 229 * SECOND);
    });
    testing::block_on(async {
        // A long one, and none.
        let (_service, never) = IdleService::new((), Duration::MAX);
        let never = testing::spawn(never);
        let (_service, at_once) = IdleService::new((), Duration::ZERO);
        at_once.await;
        assert_eq!((elapsed(), never.is_finished()), (Duration::ZERO, false));
    });
}

/// A service whose call panics.
struct Panics;

impl Service<()> for Panics {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        panic!("deliberate")
    }
}

#[test]
fn a_call_that_panics_is_over() {
    testing::block_on(async {
        let (mut service, idle) = IdleService::new(Panics, 60 * SECOND);
        let call = std::panic::AssertUnwindSafe(|| drop(service.call(())));
        assert!(std::panic::catch_unwind(call).is_err());
        idle.await;
    });
}

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Calls end on several threads at once; the last one wakes the task.
#[test]
fn calls_on_many_threads_are_counted() {
    #[derive(Clone)]
    struct Instantly;
    impl Service<()> for Instantly {
        type Response = ();
        type Error = Infallible;
        type Future = Ready<Result<(), Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            ready(Ok(()))
        }
    }
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
    let (mut service, idle) = IdleService::on(&timers, Instantly, 60 * SECOND);
    let in_flight = service.call(());
    let woken = Arc::new(Woken::default());
    let waker = woken.clone().into();
    let (mut idle, mut context) = (pin!(idle), Context::from_waker(&waker));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut service, clock) = (service.clone(), clock.clone());
            scope.spawn(move || {
                for _ in 0..1_000 {
                    let call = service.call(());
                    clock.advance(SECOND / 10);
                    drop(call);
                }
            });
        }
        for _ in 0..1_000 {
            assert!(idle.as_mut().poll(&mut context).is_pending());
        }
    });
    assert!(clock.elapsed() == 400 * SECOND && idle.as_mut().poll(&mut context).is_pending());
    let before = woken.0.load(SeqCst);
    std::thread::spawn(move || drop(in_flight)).join().unwrap();
    assert_eq!(woken.0.load(SeqCst), before + 1);
    assert!(idle.as_mut().poll(&mut context).is_pending());
    clock.advance(60 * SECOND);
    assert!(idle.as_mut().poll(&mut context).is_ready());
}
