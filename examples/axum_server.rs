//! A server of axum whose limits all run on wheelwork: `cargo run --example axum_server --features
//! full`. It serves one client of its own. With an address it serves any, until it is killed:
//! `... -- 127.0.0.1:8080 idle=5 age=60.5`, with limits in seconds.
//!
//! | limit | of | what it is good for |
//! |---|---|---|
//! | header | hyper | a client that sends half a head |
//! | body | a stream in the middleware | a client that stops in the middle of a body |
//! | request | `TimeoutLayer` | a handler that takes long, a body that drips in |
//! | write | `TimeoutIo` | a client that does not read |
//! | idle | `IdleService` | a client that has gone, or does not know what to ask for |
//! | age and grace | `Graceful` | a client that never goes |

use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::map_request;
use axum::routing::{get, post};
use axum::{BoxError, Router};
use futures_lite::StreamExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use wheelwork::future::Timers;
use wheelwork::io::{Limits as IoLimits, TimeoutIo};
use wheelwork::tower::{Graceful, IdleService, TimeoutLayer};

/// How long what may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From the end of the last request to the end of the next one's head. Longer than `idle`.
    header: Duration,
    /// Between two chunks of a request's body.
    body: Duration,
    /// A call, up to the head of its response.
    request: Duration,
    /// Until the client takes more bytes.
    write: Duration,
    /// Without a call.
    idle: Duration,
    /// A connection. Each ends a little earlier, by up to `jitter`.
    age: Duration,
    jitter: Duration,
    /// A connection that is to end, for the rest of its requests and responses.
    grace: Duration,
}

/// A body whose chunks come in time, or which ends with an error.
fn limit_body(timers: &Timers, limit: Duration, body: Body) -> Body {
    let chunks = timers.stream_timeout(limit, body.into_data_stream());
    Body::from_stream(chunks.map(|chunk| -> Result<Bytes, BoxError> { Ok(chunk??) }))
}

/// The program's routes, with the limits of calls and bodies.
fn app(timers: &Timers, limits: &Limits) -> Router {
    let (body_timers, body_limit) = (timers.clone(), limits.body);
    let sleeper = timers.clone();
    Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/echo", post(|body: Bytes| async { body }))
        .route(
            "/large",
            get(|| async { Bytes::from_static(&[b'x'; 1 << 25]) }),
        )
        .route(
            "/slow",
            get(|| async move {
                sleeper.sleep(Duration::from_secs(3_600)).await;
                "late\n"
            }),
        )
        .layer(map_request(move |request: Request| {
            let timers = body_timers.clone();
            async move { request.map(|body| limit_body(&timers, body_limit, body)) }
        }))
        .layer((
            HandleErrorLayer::new(|_: BoxError| async { StatusCode::GATEWAY_TIMEOUT }),
            TimeoutLayer::on(timers, limits.request),
        ))
}

/// Serves one connection, to its end. Why it ended.
async fn serve(stream: TcpStream, app: Router, timers: &Timers, limits: &Limits) -> &'static str {
    let stream = TimeoutIo::on(timers, stream, IoLimits::new().write(limits.write));
    let (service, idle) = IdleService::on(timers, app, limits.idle);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(timers.clone())
        .header_read_timeout(limits.header);
    builder
        .http2()
        .timer(timers.clone())
        .keep_alive_interval(limits.idle)
        .keep_alive_timeout(limits.write);
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let served = Graceful::on(timers, connection, limits.grace, |connection| {
        connection.graceful_shutdown();
    });
    match served.max_age(limits.age, limits.jitter).when(idle).await {
        Ok(Ok(())) => "it was closed",
        Ok(Err(_)) => "a limit was over, or it broke",
        Err(_) => "the grace time was over",
    }
}

/// Serves all who connect.
async fn serve_all(
    listener: TcpListener,
    timers: Timers,
    limits: Limits,
    tell: impl Fn(&'static str) + Clone + Send + 'static,
) {
    let app = app(&timers, &limits);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process has too many open files, say. Some are closed soon.
            timers.sleep(SECOND / 10).await;
            continue;
        };
        let (app, timers, tell) = (app.clone(), timers.clone(), tell.clone());
        tokio::spawn(async move {
            let why = serve(stream, app, &timers, &limits).await;
            tell(why);
        });
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// What a public server could have.
const LIMITS: Limits = Limits {
    header: Duration::from_secs(70),
    body: Duration::from_secs(10),
    request: Duration::from_secs(30),
    write: Duration::from_secs(20),
    idle: Duration::from_secs(60),
    age: Duration::from_secs(3_600),
    jitter: Duration::from_secs(360),
    grace: Duration::from_secs(300),
};

impl Limits {
    /// Sets the limit that an argument is about, for example `idle=60`. `None`: it is about none.
    fn set(&mut self, argument: &str) -> Option<()> {
        let (name, seconds) = argument.split_once('=')?;
        let limit = match name {
            "header" => &mut self.header,
            "body" => &mut self.body,
            "request" => &mut self.request,
            "write" => &mut self.write,
            "idle" => &mut self.idle,
            "age" => &mut self.age,
            "jitter" => &mut self.jitter,
            "grace" => &mut self.grace,
            _ => return None,
        };
        *limit = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        Some(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axum_server: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(address) = arguments.next() else {
        return serve_one_client().await;
    };
    let mut limits = LIMITS;
    for argument in arguments {
        let wrong = || io::Error::other(format!("no limit in seconds: {argument}"));
        limits.set(&argument).ok_or_else(wrong)?;
    }
    let wrong = |_| io::Error::other(format!("no address with a port: {address}"));
    let address = address.parse().map_err(wrong)?;
    serve_until_killed(address, limits).await
}

/// Serves all who connect. Prints from time to time how it goes.
async fn serve_until_killed(address: SocketAddr, limits: Limits) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    // With the 128 of `TcpListener::bind` clients of a busy server wait for seconds.
    let listener = socket.listen(4_096)?;
    println!("listening on {}", listener.local_addr()?);
    let timers = Timers::current();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |why| _ = tell.send(why);
    tokio::spawn(serve_all(listener, timers.clone(), limits, tell));
    let mut ends = BTreeMap::<_, u64>::new();
    loop {
        timers.sleep(10 * SECOND).await;
        while let Ok(why) = told.try_recv() {
            *ends.entry(why).or_default() += 1;
        }
        println!("pending timers: {}; ends: {ends:?}", timers.handle().len());
    }
}

/// Serves one client, which asks once.
async fn serve_one_client() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    let limits = Limits {
        idle: SECOND / 10,
        ..LIMITS
    };
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |why| _ = tell.send(why);
    tokio::spawn(serve_all(listener, Timers::current(), limits, tell));
    let mut client = TcpStream::connect(address).await?;
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await?;
    // Then it says nothing more, and the server closes.
    let mut answer = String::new();
    client.read_to_string(&mut answer).await?;
    println!("{answer}");
    println!(
        "the connection ended: {}",
        told.recv().await.unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use wheelwork::{ManualClock, TimerService};

    const MS: Duration = Duration::from_millis(1);

    /// A server on a clock that the test moves, and a client that is connected to it.
    struct Setup {
        clock: ManualClock,
        timers: Timers,
        told: UnboundedReceiver<&'static str>,
        client: TcpStream,
    }

    impl Setup {
        async fn new(limits: Limits) -> Self {
            let clock = ManualClock::new();
            let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (tell, told) = unbounded_channel();
            let tell = move |why| _ = tell.send(why);
            tokio::spawn(serve_all(listener, timers.clone(), limits, tell));
            let client = TcpStream::connect(address).await.unwrap();
            let setup = Self {
                clock,
                timers,
                told,
                client,
            };
            // For age and idle time.
            setup.until_timers(2).await;
            setup
        }

        /// Waits until this number of timers is armed.
        async fn until_timers(&self, timers: usize) {
            while self.timers.handle().len() as usize != timers {
                tokio::task::yield_now().await;
            }
        }

        /// Moves the clock, and waits until the server has armed a timer then, or moved one.
        async fn advance(&self, time: Duration) {
            let timers = || {
                let counts = self.timers.handle().stats().timers;
                (counts.armed, counts.rearmed)
            };
            let before = timers();
            self.clock.advance(time);
            while timers() == before {
                tokio::task::yield_now().await;
            }
        }

        async fn send(&mut self, bytes: &str) {
            self.client.write_all(bytes.as_bytes()).await.unwrap();
        }

        /// Reads the head of a response, and a body of this length.
        async fn read(&mut self, body: usize) -> String {
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(self.client.read_u8().await.unwrap());
            }
            let head = answer.len();
            answer.resize(head + body, 0);
            self.client.read_exact(&mut answer[head..]).await.unwrap();
            String::from_utf8(answer).unwrap()
        }

        /// The rest of what the server says, which then has closed; and why it has.
        async fn end(mut self) -> (String, &'static str) {
            let mut rest = String::new();
            // If it closes with bytes unread, the rest may be lost.
            let _ = self.client.read_to_string(&mut rest).await;
            let why = self.told.recv().await.unwrap();
            while !self.timers.handle().is_empty() {
                tokio::task::yield_now().await;
            }
            (rest, why)
        }
    }

    /// Whether all went as usual, in spite of what else the connection had to bear.
    async fn ask(setup: &mut Setup) {
        setup
            .send("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let answer = setup.read(6).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello\n"));
    }

    #[test]
    fn limits_are_set_by_name() {
        let mut limits = LIMITS;
        assert_eq!(limits.set("idle=0.5"), Some(()));
        assert_eq!((limits.idle, limits.age), (SECOND / 2, LIMITS.age));
        for wrong in ["idle", "idle=", "idle=-1", "idle=1e30", "idel=1", ""] {
            assert_eq!(limits.set(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_silent_client_is_closed_when_it_is_idle() {
        let setup = Setup::new(LIMITS).await;
        setup.clock.advance(60 * SECOND);
        // hyper-util does not know yet which version of HTTP it is, and calls that broken.
        assert_eq!(
            setup.end().await,
            (String::new(), "a limit was over, or it broke")
        );

        let mut setup = Setup::new(LIMITS).await;
        for _ in 0..3 {
            ask(&mut setup).await;
            setup.clock.advance(59 * SECOND);
        }
        ask(&mut setup).await;
        setup.clock.advance(60 * SECOND);
        assert_eq!(setup.end().await, (String::new(), "it was closed"));
    }

    #[tokio::test]
    async fn half_a_head_does_not_hold_its_connection() {
        let mut setup = Setup::new(LIMITS).await;
        setup.send("GET / HTTP/1.1\r\nhost: lo").await;
        // For the head. hyper sees first which version of HTTP it is.
        setup.until_timers(3).await;
        // Idle: the shutdown waits for the rest of the head, for its time.
        setup.advance(60 * SECOND).await;
        setup.clock.advance(10 * SECOND);
        assert_eq!(setup.end().await.1, "a limit was over, or it broke");
        // Without a limit for the head the grace time is the limit.
        let mut setup = Setup::new(Limits {
            header: 1_000 * SECOND,
            ..LIMITS
        })
        .await;
        setup.send("GET / HTTP/1.1\r\nhost: lo").await;
        setup.until_timers(3).await;
        setup.advance(60 * SECOND).await;
        setup.clock.advance(300 * SECOND);
        assert_eq!(setup.end().await.1, "the grace time was over");
        // After a request hyper takes the connection for an idle one until a head is complete.
        let mut setup = Setup::new(LIMITS).await;
        ask(&mut setup).await;
        setup.send("GET / HTTP/1.1\r\nhost: lo").await;
        setup.clock.advance(60 * SECOND);
        assert_eq!(setup.end().await, (String::new(), "it was closed"));
    }

    const HALF_A_BODY: &str =
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nxy";

    #[tokio::test]
    async fn a_body_that_stops_is_given_up() {
        let mut setup = Setup::new(LIMITS).await;
        setup.send(HALF_A_BODY).await;
        // Age, idle time, the call and its body.
        setup.until_timers(4).await;
        setup.clock.advance(10 * SECOND);
        let answer = setup.read(0).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
    }

    #[tokio::test]
    async fn a_body_that_drips_in_has_the_time_of_the_request() {
        let mut setup = Setup::new(LIMITS).await;
        setup.send(HALF_A_BODY).await;
        setup.until_timers(4).await;
        for _ in 0..5 {
            let before = setup.timers.handle().stats().timers;
            setup.clock.advance(5 * SECOND);
            setup.send("z").await;
            // The chunk has its time anew.
            let timers = || setup.timers.handle().stats().timers;
            while (timers().armed, timers().rearmed) == (before.armed, before.rearmed) {
                tokio::task::yield_now().await;
            }
        }
        setup.clock.advance(5 * SECOND);
        let answer = setup.read(0).await;
        assert!(
            answer.starts_with("HTTP/1.1 504 Gateway Timeout"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_handler_has_the_time_of_the_request() {
        let mut setup = Setup::new(LIMITS).await;
        setup
            .send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        setup.until_timers(4).await;
        setup.clock.advance(30 * SECOND);
        let answer = setup.read(0).await;
        assert!(
            answer.starts_with("HTTP/1.1 504 Gateway Timeout"),
            "{answer}"
        );
        ask(&mut setup).await;
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_cut_off() {
        let mut setup = Setup::new(LIMITS).await;
        setup
            .send("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        // Age, idle time, and the write, when all buffers on the way are full.
        setup.until_timers(3).await;
        setup.clock.advance(20 * SECOND);
        assert_eq!(
            setup.told.recv().await,
            Some("a limit was over, or it broke")
        );
        // A client that reads slowly gets all of it.
        let mut setup = Setup::new(LIMITS).await;
        setup
            .send("GET /large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await;
        setup.until_timers(3).await;
        setup.clock.advance(20 * SECOND - MS);
        let mut answer = vec![0; 1 << 23];
        setup.client.read_exact(&mut answer).await.unwrap();
        let (rest, why) = setup.end().await;
        assert!(rest.len() > (1 << 25) - (1 << 23) && rest.ends_with("xxx"));
        assert_eq!(why, "it was closed");
    }

    #[tokio::test]
    async fn a_client_that_never_goes_is_sent_away() {
        let mut setup = Setup::new(LIMITS).await;
        let mut asked = 0;
        loop {
            setup
                .send("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .await;
            // Its answer, or the end, if that came first.
            let mut first = [0];
            if setup.client.read(&mut first).await.unwrap_or(0) == 0 {
                break;
            }
            setup.read(6).await;
            asked += 1;
            setup.clock.advance(30 * SECOND);
        }
        let seconds = 30 * asked;
        assert!((3_240..=3_630).contains(&seconds), "{seconds}");
        assert_eq!(setup.end().await.1, "it was closed");
    }

    #[tokio::test]
    async fn what_is_in_flight_has_the_grace_time() {
        // The call would take longer than the age of its connection.
        let limits = Limits {
            request: 1_000 * SECOND,
            age: 100 * SECOND,
            jitter: Duration::ZERO,
            ..LIMITS
        };
        let mut setup = Setup::new(limits).await;
        setup
            .send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        setup.until_timers(4).await;
        setup.advance(100 * SECOND).await;
        setup.clock.advance(300 * SECOND - MS);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(setup.told.try_recv().is_err());
        setup.clock.advance(MS);
        assert_eq!(setup.end().await.1, "the grace time was over");
        // One that ends within the grace time is answered.
        let limits = Limits {
            request: 200 * SECOND,
            ..limits
        };
        let mut setup = Setup::new(limits).await;
        setup
            .send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        setup.until_timers(4).await;
        setup.advance(100 * SECOND).await;
        setup.clock.advance(100 * SECOND);
        let (answer, why) = setup.end().await;
        assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("connection: close"));
        assert_eq!(why, "it was closed");
    }
}
