//! The process of a server. It tells its addresses, then answers each line of its input with what
//! it has used so far, and ends when there are no more.

use crate::limits::Limits;
use crate::name::Name;
use crate::subjects::{Subject, Work, with};
use serde_json::json;
use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpSocket};
use wheelwork_kit::system;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Serve {
    #[arg(long)]
    subject: Name,
    /// Worker threads
    #[arg(long)]
    threads: usize,
    /// Of the connections of an address, one for each of these
    #[arg(long, required = true)]
    limits: Vec<Limits>,
}

/// Serves until nobody asks any more.
pub(crate) fn serve(of: &Serve) -> ExitCode {
    match with(of.subject, Server(of)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Server<'a>(&'a Serve);

impl Work for Server<'_> {
    fn by<S: Subject>(self, subject: S) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.0.threads)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let counts = Arc::new(Counts::default());
        let mut addresses = Vec::new();
        for limits in &self.0.limits {
            let listener = runtime.block_on(async { listen() });
            let listener = listener.map_err(|error| format!("no address: {error}"))?;
            let address = listener
                .local_addr()
                .map_err(|error| format!("no address: {error}"))?;
            addresses.push(address.to_string());
            runtime.spawn(accept(listener, subject.clone(), *limits, counts.clone()));
        }
        tell(&json!({ "addresses": addresses }))?;
        for line in std::io::stdin().lock().lines() {
            line.map_err(|error| format!("no question: {error}"))?;
            // Ordering: Acquire. Pairs with the Release of `Open::drop`: of a connection that is
            // seen to be closed, it is also seen that it was taken.
            let open = counts.open.load(Ordering::Acquire);
            // Ordering: Relaxed. Ordered by the Acquire above.
            let taken = counts.taken.load(Ordering::Relaxed);
            tell(&json!({
                "cpu_s": system::cpu_time().as_secs_f64(),
                "resident_bytes": system::resident_bytes(),
                "armed": subject.armed(),
                "open": open,
                "taken": taken,
            }))?;
        }
        // Connections end with the process.
        process::exit(0)
    }
}

fn tell(answer: &serde_json::Value) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let told = writeln!(out, "{answer}").and_then(|()| out.flush());
    told.map_err(|error| format!("no answer: {error}"))
}

/// Connections.
#[derive(Default)]
struct Counts {
    /// Since the start.
    taken: AtomicUsize,
    open: AtomicUsize,
}

/// Counts a connection while it is open.
struct Open(Arc<Counts>);

impl Open {
    fn new(counts: &Arc<Counts>) -> Self {
        // Ordering: Relaxed. Counts to look at.
        counts.open.fetch_add(1, Ordering::Relaxed);
        // Ordering: Relaxed. Published by the Release of `drop`.
        counts.taken.fetch_add(1, Ordering::Relaxed);
        Self(counts.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Ordering: Release. Pairs with the Acquire of `by`; publishes that it was taken.
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

/// On any free port. With the usual 128 clients that wait, some of thousands that connect at once
/// would try again only after a second.
fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(4_096)
}

async fn accept<S: Subject>(
    listener: TcpListener,
    subject: S,
    limits: Limits,
    counts: Arc<Counts>,
) {
    let app = subject.app(&limits);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                eprintln!("no connection: {error}");
                process::exit(1);
            }
        };
        // It may have ended already.
        let _ = stream.set_nodelay(true);
        let (subject, app, open) = (subject.clone(), app.clone(), Open::new(&counts));
        tokio::spawn(async move {
            subject.serve(stream, app, &limits).await;
            drop(open);
        });
    }
}
