//! Promise: a connection that is too old is shut down gracefully, and dropped when its grace time
//! is over: under a real server of hyper, whose clients send half a head, half a body, or never
//! read.
//!
//! Time moves by hand; all else waits for events.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2 as http2_client;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::future::{pending, poll_fn, ready};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use wheelwork::future::{Elapsed, Timers, sleep};
use wheelwork::testing::{self, block_on};
use wheelwork::tower::Graceful;
use wheelwork::{ManualClock, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const AGE: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(30);

/// Answers with the body of the request, or with a megabyte.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = match request.uri().path() {
        "/large" => Bytes::from_static(&[b'x'; 1 << 20]),
        _ => request.into_body().collect().await?.to_bytes(),
    };
    Ok(Response::new(Full::new(body)))
}

type Server = JoinHandle<Result<hyper::Result<()>, Elapsed>>;

/// A server of HTTP/1 without any other limit, whose connections get old, and a client of it.
fn serve() -> (ManualClock, Timers, DuplexStream, Server) {
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
    let (client, server) = duplex(1 << 12);
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(server), service_fn(answer));
    let served = Graceful::on(&timers, connection, GRACE, |connection| {
        connection.graceful_shutdown();
    });
    let server = tokio::spawn(served.max_age(AGE, Duration::ZERO));
    (clock, timers, client, server)
}

/// Lets the other tasks of this thread do what they can.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Of a connection that does not end by itself: lives until the grace time is over.
async fn ends_with_its_grace_time(clock: &ManualClock, timers: &Timers, server: Server) {
    settle().await;
    clock.advance(AGE - MS);
    settle().await;
    assert_eq!(timers.handle().stats().timers.fired, 0);
    clock.advance(MS);
    settle().await;
    clock.advance(GRACE - MS);
    settle().await;
    assert!(!server.is_finished());
    clock.advance(MS);
    assert!(server.await.unwrap().is_err());
    assert!(timers.handle().is_empty());
    let counts = timers.handle().stats().timers;
    assert_eq!((counts.armed, counts.fired), (2, 2), "one timer at a time");
}

const HEAD: &str = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n";

#[tokio::test]
async fn half_a_head_does_not_hold_its_connection() {
    let (clock, timers, mut client, server) = serve();
    client.write_all(&HEAD.as_bytes()[..20]).await.unwrap();
    ends_with_its_grace_time(&clock, &timers, server).await;
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
}

#[tokio::test]
async fn half_a_body_does_not_hold_its_connection() {
    let (clock, timers, mut client, server) = serve();
    client.write_all(HEAD.as_bytes()).await.unwrap();
    client.write_all(b"xy").await.unwrap();
    ends_with_its_grace_time(&clock, &timers, server).await;
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_hold_its_connection() {
    let (clock, timers, mut client, server) = serve();
    let head = "GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    ends_with_its_grace_time(&clock, &timers, server).await;
}

#[tokio::test]
async fn a_connection_without_requests_ends_at_once() {
    let (clock, timers, mut client, server) = serve();
    settle().await;
    clock.advance(AGE);
    server.await.unwrap().unwrap().unwrap();
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    assert!(timers.handle().is_empty());
    assert_eq!(clock.elapsed(), AGE);
}

#[tokio::test]
async fn a_request_in_flight_is_answered_and_is_the_last_one() {
    let (clock, timers, mut client, server) = serve();
    client.write_all(HEAD.as_bytes()).await.unwrap();
    client.write_all(b"ab").await.unwrap();
    settle().await;
    clock.advance(AGE);
    settle().await;
    clock.advance(GRACE - MS);
    client.write_all(b"cd").await.unwrap();
    // The client's next request comes too late.
    client.write_all(HEAD.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("abcd") && answer.matches("200 OK").count() == 1);
    server.await.unwrap().unwrap().unwrap();
    assert!(timers.handle().is_empty());
}

/// A server of HTTP/2 whose connections get old, and a client that takes 64 KiB of a body before it
/// is read.
async fn serve_http2() -> (
    ManualClock,
    Timers,
    http2_client::SendRequest<Full<Bytes>>,
    JoinHandle<hyper::Result<()>>,
    Server,
) {
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
    let (client, server) = duplex(1 << 16);
    let connection = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(server), service_fn(answer));
    let served = Graceful::on(&timers, connection, GRACE, |connection| {
        connection.graceful_shutdown();
    });
    let server = tokio::spawn(served.max_age(AGE, Duration::ZERO));
    let (requests, connection) = http2_client::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1 << 16)
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    (clock, timers, requests, tokio::spawn(connection), server)
}

fn large() -> Request<Full<Bytes>> {
    let request = Request::get("http://localhost/large");
    request.body(Full::default()).unwrap()
}

#[tokio::test]
async fn a_connection_of_http2_ends_after_its_streams() {
    let (clock, timers, mut requests, client, server) = serve_http2().await;
    let hello = Request::new(Full::new(Bytes::from("hello")));
    let response = requests.send_request(hello).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "hello");
    // A body that is on its way.
    let response = requests.send_request(large()).await.unwrap();
    clock.advance(AGE);
    settle().await;
    assert!(!server.is_finished());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 1 << 20);
    server.await.unwrap().unwrap().unwrap();
    drop(requests);
    client.await.unwrap().unwrap();
    assert!(timers.handle().is_empty());
}

/// The connection's bytes flow, and its stream does not.
#[tokio::test]
async fn a_client_of_http2_that_does_not_read_does_not_hold_its_connection() {
    let (clock, timers, mut requests, client, server) = serve_http2().await;
    let response = requests.send_request(large()).await.unwrap();
    ends_with_its_grace_time(&clock, &timers, server).await;
    let body = response.into_body().collect().await;
    assert!(body.is_err(), "the rest is lost");
    drop(requests);
    let _ = client.await.unwrap();
}

/// A connection that counts how often it is shut down, and ends as long after that.
fn connection(ends_after: Option<Duration>) -> (impl Future<Output = u32>, Shared) {
    let shared = Shared::default();
    let own = shared.clone();
    let connection = async move {
        poll_fn(|context| {
            own.0.borrow_mut().1 = Some(context.waker().clone());
            match own.0.borrow().0 {
                0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
        match ends_after {
            Some(delay) => sleep(delay).await,
            None => pending().await,
        }
        own.0.borrow().0
    };
    (connection, shared)
}

#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<(u32, Option<std::task::Waker>)>>);

impl Shared {
    fn shut_down<C>(self) -> impl FnOnce(Pin<&mut C>) {
        move |_| self.0.borrow_mut().0 += 1
    }
}

#[test]
fn a_connection_that_ends_by_itself_gives_its_outcome() {
    block_on(async {
        let timers = Timers::current();
        let served = Graceful::new(ready(7), GRACE, |_| panic!("too early"));
        assert_eq!(served.max_age(AGE, Duration::ZERO).await, Ok(7));
        let slow = async {
            sleep(AGE - MS).await;
            7
        };
        let served = Graceful::new(slow, GRACE, |_: Pin<&mut _>| panic!("too early"));
        assert_eq!(served.max_age(AGE, Duration::ZERO).await, Ok(7));
        assert!(timers.handle().is_empty());
        // Without an age, and without another event, for ever.
        let served = Graceful::new(sleep(100 * AGE), GRACE, |_| panic!("too early"));
        assert_eq!(served.await, Ok(()));
    });
}

#[test]
fn another_event_begins_the_end_and_the_grace_time() {
    block_on(async {
        for (delay, expected) in [
            (Some(Duration::ZERO), Ok(1)),
            (Some(GRACE - MS), Ok(1)),
            // Both at once: the connection wins.
            (Some(GRACE), Ok(1)),
            (Some(GRACE + MS), Err("cut off")),
            (None, Err("cut off")),
        ] {
            for age in [None, Some(AGE)] {
                let start = testing::clock().elapsed();
                let (connection, shared) = connection(delay);
                let served = Graceful::new(connection, GRACE, shared.clone().shut_down());
                let served = match age {
                    Some(age) => served.max_age(age, Duration::ZERO),
                    None => served,
                };
                // A connection is polled again after its shutdown, in the same poll.
                let outcome = served.when(sleep(5 * SECOND)).await;
                assert_eq!(outcome.map_err(|_| "cut off"), expected);
                let took = testing::clock().elapsed() - start;
                assert_eq!(took, 5 * SECOND + delay.unwrap_or(GRACE).min(GRACE));
                assert_eq!(shared.0.borrow().0, 1);
            }
        }
        assert!(Timers::current().handle().is_empty());
    });
}

#[test]
fn the_first_of_age_and_event_counts() {
    block_on(async {
        for (seconds, expected) in [(1, 1), (600, 600), (601, 600)] {
            let start = testing::clock().elapsed();
            let (connection, shared) = connection(Some(Duration::ZERO));
            let served = Graceful::new(connection, GRACE, shared.shut_down());
            let served = served.max_age(AGE, Duration::ZERO);
            assert_eq!(served.when(sleep(seconds * SECOND)).await, Ok(1));
            let took = testing::clock().elapsed() - start;
            assert_eq!(took, expected * SECOND);
        }
    });
}

#[test]
fn the_first_of_several_events_counts() {
    block_on(async {
        for order in [
            [1, 2, 3],
            [1, 3, 2],
            [2, 1, 3],
            [2, 3, 1],
            [3, 1, 2],
            [3, 2, 1],
        ] {
            let start = testing::clock().elapsed();
            let (connection, shared) = connection(Some(Duration::ZERO));
            let served = Graceful::new(connection, GRACE, shared.shut_down())
                .when(sleep(order[0] * SECOND))
                .when(sleep(order[1] * SECOND))
                .max_age(AGE, Duration::ZERO)
                .when(sleep(order[2] * SECOND));
            assert_eq!(served.await, Ok(1));
            assert_eq!(testing::clock().elapsed() - start, SECOND);
        }
        assert!(Timers::current().handle().is_empty());
    });
}

#[test]
fn ages_are_spread() {
    block_on(async {
        let mut ages = Vec::new();
        for _ in 0..1_000 {
            let start = testing::clock().elapsed();
            let (connection, shared) = connection(Some(Duration::ZERO));
            let served = Graceful::new(connection, GRACE, shared.shut_down());
            assert_eq!(served.max_age(AGE, AGE / 10).await, Ok(1));
            ages.push(testing::clock().elapsed() - start);
        }
        assert!(
            ages.iter()
                .all(|age| (AGE * 9 / 10..=AGE + MS).contains(age))
        );
        // Each tenth of the window has some: of 1,000, none is empty by chance.
        let tenths: std::collections::BTreeSet<_> = ages
            .iter()
            .map(|age| (*age - AGE * 9 / 10).as_millis() / 6_000)
            .collect();
        assert!(tenths.len() >= 10, "{tenths:?}");
        // More jitter than age, and no end of either.
        for (age, jitter) in [(SECOND, AGE), (SECOND, Duration::MAX)] {
            let start = testing::clock().elapsed();
            let (connection, shared) = connection(Some(Duration::ZERO));
            let served = Graceful::new(connection, GRACE, shared.shut_down());
            assert_eq!(served.max_age(age, jitter).await, Ok(1));
            assert!(testing::clock().elapsed() - start <= age + MS);
        }
        let served = Graceful::new(sleep(SECOND), Duration::MAX, |_| ());
        let served = served.max_age(Duration::MAX, Duration::ZERO);
        assert_eq!(served.await, Ok(()));
    });
}
