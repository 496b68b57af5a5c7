//! Node: a process that arms, cancels, moves and handles, until it is told to stop, or killed.

use super::args::Args;
use super::handlers;
use super::work::{Foreign, Work, Worker, first_number};
use crate::process::{self, OrderReader};
use crate::wire::{Event, Order, Teller};
use std::collections::VecDeque;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::Dispatch;
use wheelwork_durable::{Durable, DurableId, Postgres, PostgresOutbox};
use wheelwork_kit::lock::lock;
use wheelwork_kit::mix::mix;

/// The connection string of nodes.
pub(crate) const DATABASE: &str = "WHEELWORK_FLEET_DATABASE";

/// How long calls wait for the server. No trouble lasts longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Threads that call handlers.
const THREADS: usize = 4;

/// Threads that call for timers; one more has transactions of its own.
const WORKERS: u32 = 3;

const REPORT: Duration = Duration::from_secs(1);

pub(crate) fn serve(args: &Args, node: u32) -> ExitCode {
    process::serve(|teller| run(args, node, teller))
}

fn open(args: &Args, node: u32, teller: &Arc<Teller>) -> Result<(Durable, PostgresOutbox), String> {
    let database = std::env::var(DATABASE).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let name = format!("node-{node}");
    // (While the server is down a node that opens its store is told so.)
    let store = loop {
        let store = Postgres::builder(&database)
            .node_name(&name)
            .lease(args.ttl())
            .patience(PATIENCE)
            .connect();
        match store {
            Ok(store) => break store,
            Err(error) if begun.elapsed() > PATIENCE => return Err(format!("opening: {error}")),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    };
    let outbox = store.outbox();
    let first = first_number(node);
    let failed = teller.clone();
    let builder = Durable::builder(store)
        .dispatch(Dispatch::RayonThreads(THREADS))
        .bury_unhandled_after(Duration::from_secs(args.bury_after))
        .on_store_failed(move |error| {
            failed.tell_or_end(&[Event::Failed(format!("its store: {error}"))]);
        });
    let builder = handlers::set(builder, teller, &database, first, args.without.as_deref());
    let timers = builder
        .start()
        .map_err(|error| format!("starting: {error}"))?;
    Ok((timers, outbox))
}

fn run(args: &Args, node: u32, teller: &Arc<Teller>) -> Result<(), String> {
    let (timers, outbox) = open(args, node, teller)?;
    teller.tell_or_end(&[Event::Ready]);
    let work = Work {
        teller: teller.clone(),
        timers: timers.client(),
        foreign: Foreign::default(),
        next: AtomicU64::new(first_number(node)),
        is_quiet: AtomicBool::new(args.quiet),
        offset_ns: args.offset_ns,
    };
    let seed = args.seed.wrapping_mul(1_000) + u64::from(node);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = |number: u32, part: f64| Worker {
            work: &work,
            random: fastrand::Rng::with_seed(seed ^ mix(number.into())),
            rate: f64::from(args.rate) * part,
            own: VecDeque::new(),
        };
        let mut threads = Vec::new();
        for number in 0..WORKERS {
            let worker = worker(number, 0.9 / f64::from(WORKERS));
            threads.push(scope.spawn(move || worker.run()));
        }
        let worker = worker(WORKERS, 0.1);
        // As the guide says: a transaction that stands still with its node does not keep a lease.
        let (outbox, database) = (&outbox, std::env::var(DATABASE).unwrap_or_default());
        let idle_ms = args.ttl().as_millis() / 2;
        let database =
            format!("{database} options='-c idle_in_transaction_session_timeout={idle_ms}'");
        threads.push(scope.spawn(move || worker.run_outbox(outbox, &database)));
        let (is_over, timers) = (&is_over, &timers);
        scope.spawn(move || {
            while !is_over.load(Relaxed) {
                teller.tell_or_end(&[Event::Stale(timers.stats().stale)]);
                thread::park_timeout(REPORT);
            }
        });
        let mut orders = OrderReader::new(io::stdin().lock());
        while let Ok(order) = orders.next() {
            match order {
                Order::Take(timers) => {
                    let foreign = timers.into_iter();
                    let foreign = foreign.map(|(number, id)| (number, DurableId::from_bits(id)));
                    lock(&work.foreign).extend(foreign);
                }
                Order::Quiet | Order::Stop => {
                    work.is_quiet.store(true, Relaxed);
                    for thread in threads.drain(..) {
                        thread.join().map_err(|_| "a thread panicked")?;
                    }
                    if order == Order::Quiet {
                        teller.tell_or_end(&[Event::Quiet]);
                        continue;
                    }
                    is_over.store(true, Relaxed);
                    timers
                        .stop()
                        .map_err(|error| format!("stopping: {error}"))?;
                    // (What is left others handle.)
                    teller.tell_or_end(&[Event::Stopped { rows: 0, dead: 0 }]);
                    return Ok(());
                }
                Order::Resolve(_) | Order::Arm { .. } | Order::Begin => {}
            }
        }
        // The parent has gone.
        std::process::exit(3);
    })
}
