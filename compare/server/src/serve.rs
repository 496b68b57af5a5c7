//! The server: HTTP/1.1 by hyper on tokio. Each request has a time-out, each connection an idle
//! one, which starts anew at each request.
//!
//! The system chooses its port, which is the first line that it prints. For each line that it reads
//! it prints its figures. It ends when its standard input does.

use crate::backend::Backend;
use crate::open_files;
use crate::timers::{Deadline, Name, NoTimers, Pingora, Timers, Tokio, Wheelwork};
use clap::Args;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use wheelwork_kit::line::Figures;
use wheelwork_kit::program::say;
use wheelwork_kit::system;

const HERE_YOU_ARE: &[u8] = b"here you are\n";
const TOO_LATE: &[u8] = b"too late\n";

/// How a server is set.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    #[arg(long, value_name = "NAME")]
    pub(crate) timers: Name,
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: usize,
    /// Connections that it must be able to hold
    #[arg(long, value_name = "COUNT")]
    pub(crate) connections: usize,
    /// How much later an answer comes; with 0 it comes after a turn of the scheduler
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "0s")]
    pub(crate) answer_after: Duration,
    /// The time-out of a request
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "30s")]
    pub(crate) timeout: Duration,
    /// The idle time-out of a connection
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "60s")]
    pub(crate) idle: Duration,
}

/// What all connections of the server share.
struct Shared {
    settings: Settings,
    backend: Option<Backend>,
    open: AtomicUsize,
}

/// Serves until standard input ends.
pub(crate) fn serve(settings: &Settings) -> Result<(), String> {
    match settings.timers {
        Name::None => serve_with::<NoTimers>(settings),
        Name::Tokio => serve_with::<Tokio>(settings),
        Name::Pingora => serve_with::<Pingora>(settings),
        Name::Wheelwork => serve_with::<Wheelwork>(settings),
        Name::WheelworkIds => Err("a server's time-outs are futures".to_string()),
    }
}

fn serve_with<T: Timers>(settings: &Settings) -> Result<(), String> {
    open_files::allow(settings.connections)?;
    let (runtime, port, shared) = listen::<T>(settings)?;
    say(format_args!("{port}"));
    for _ in io::stdin().lines().map_while(Result::ok) {
        let figures = Figures::from([
            ("cpu_s", system::cpu_time().as_secs_f64()),
            ("open", shared.open.load(Relaxed) as f64),
        ]);
        // Who asked may be gone.
        if writeln!(io::stdout(), "{}", figures.to_json()).is_err() {
            break;
        }
    }
    runtime.shutdown_background();
    Ok(())
}

/// Accepts connections on a port that the system chooses. All is done by the runtime's workers: the
/// calling thread only answers what it is asked.
fn listen<T: Timers>(settings: &Settings) -> Result<(Runtime, u16, &'static Shared), String> {
    let answer_after = settings.answer_after;
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        settings: settings.clone(),
        backend: (!answer_after.is_zero()).then(|| Backend::start(answer_after)),
        open: AtomicUsize::new(0),
    }));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder
        .worker_threads(settings.threads)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let bound = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = bound.map_err(|error| format!("no port: {error}"))?;
    let address = listener.local_addr();
    let address = address.map_err(|error| format!("no address: {error}"))?;
    runtime.spawn(accept::<T>(listener, shared));
    Ok((runtime, address.port(), shared))
}

async fn accept<T: Timers>(listener: TcpListener, shared: &'static Shared) {
    loop {
        // An error is that of a connection which is gone again: there are enough file descriptors.
        if let Ok((stream, _)) = listener.accept().await {
            // Small answers shall not wait for each other.
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                shared.open.fetch_add(1, Relaxed);
                connection::<T>(stream, shared).await;
                shared.open.fetch_sub(1, Relaxed);
            });
        }
    }
}

/// Serves a connection until its client closes it, or it has been idle for too long.
async fn connection<T: Timers>(stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let begun = AtomicU64::new(0);
    let service = service_fn(|request| {
        begun.fetch_add(1, Relaxed);
        respond::<T>(request, shared)
    });
    let mut connection =
        pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    let mut idle = pin!(T::Deadline::after(shared.settings.idle));
    let mut seen = 0;
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let begun = begun.load(Relaxed);
        if begun != seen {
            seen = begun;
            idle.as_mut().reset(shared.settings.idle);
        }
        idle.as_mut().poll(context)
    })
    .await;
}

/// Answers a request, or says that it took too long.
async fn respond<T: Timers>(
    request: Request<Incoming>,
    shared: &Shared,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = answer(request.uri().path() == "/never", shared);
    let (status, text) = match T::within(shared.settings.timeout, answer).await {
        Some(text) => (StatusCode::OK, text),
        None => (StatusCode::GATEWAY_TIMEOUT, TOO_LATE),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text)));
    *response.status_mut() = status;
    Ok(response)
}

/// What a server does for a request: it waits for somebody else.
async fn answer(never: bool, shared: &Shared) -> &'static [u8] {
    if never {
        pending::<()>().await;
    }
    match &shared.backend {
        Some(backend) => backend.answer().await,
        None => tokio::task::yield_now().await,
    }
    HERE_YOU_ARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idlers;
    use std::pin::Pin;
    use std::task::Context;

    /// Timers that never fire, and count what they are asked for.
    struct Counting;

    struct CountingDeadline;

    static ARMED: AtomicUsize = AtomicUsize::new(0);
    static RESET: AtomicUsize = AtomicUsize::new(0);
    static WITHIN: AtomicUsize = AtomicUsize::new(0);

    const IDLE: Duration = Duration::from_secs(60);
    const TIMEOUT: Duration = Duration::from_secs(30);

    impl Deadline for CountingDeadline {
        fn after(time: Duration) -> Self {
            assert_eq!(time, IDLE);
            ARMED.fetch_add(1, Relaxed);
            Self
        }

        fn reset(self: Pin<&mut Self>, time: Duration) {
            assert_eq!(time, IDLE);
            RESET.fetch_add(1, Relaxed);
        }
    }

    impl Future for CountingDeadline {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl Timers for Counting {
        type Deadline = CountingDeadline;

        async fn within<F: Future + Send>(time: Duration, future: F) -> Option<F::Output> {
            assert_eq!(time, TIMEOUT);
            WITHIN.fetch_add(1, Relaxed);
            Some(future.await)
        }
    }

    #[test]
    fn each_request_has_a_timeout_and_moves_its_connections_deadline() {
        let settings = Settings {
            timers: Name::None,
            threads: 1,
            connections: 2,
            answer_after: Duration::ZERO,
            timeout: TIMEOUT,
            idle: IDLE,
        };
        let (_runtime, port, _) = listen::<Counting>(&settings).expect("it starts");
        let clients = idlers::open(port, 2).expect("they are answered");
        for client in clients.iter().cycle().take(2 * 50) {
            idlers::ask(client).expect("it is answered");
        }
        // A request's deadline was moved when the task waited for its answer.
        let counts = [&ARMED, &RESET, &WITHIN].map(|count| count.load(Relaxed));
        assert_eq!(counts, [2, 102, 102]);
    }
}
