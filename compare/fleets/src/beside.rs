//! Beside users' transactions: how late a node's timers fire while clients of the same database arm
//! and cancel other timers in transactions that last.

use crate::database::Database;
use crate::fires::Armed;
use crate::job::Job;
use crate::store::Store;
use crate::workload::Workload;
use fastrand::Rng;
use postgres::error::SqlState;
use postgres::{Client, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;

/// Timers a second of which the lateness is measured. They have no keys.
const RATE: u64 = 1_000;

/// How long a transaction stays open after its call.
const HOLD: Duration = Duration::from_millis(100);

/// Keys of clients that do not share one.
const KEYS: u32 = 100_000;

/// A client that waits longer for another's lock gives up. All clients of one key take five
/// seconds.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '30s'";

const CANCEL: &str = "SELECT wheelwork.wheelwork_cancel_key($1)";
const SCHEDULE: &str =
    "SELECT wheelwork.wheelwork_schedule('other', now() + interval '1 hour', '\\x', $1)";

pub(crate) fn measure(job: &Job, store: &Store) -> Result<Figures, String> {
    let Store::Postgres(database) = store else {
        return Err("it has no users' transactions".to_string());
    };
    let time = job.time();
    let count = (RATE as f64 * time.as_secs_f64()) as u64;
    let armed = Armed::arm(job, store, count, time.as_millis() as u64)?;
    let clients = Clients::start(job, database)?;
    armed.fire(store, || clients.end())
}

/// Clients, on a thread and a connection each.
struct Clients {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Tally, String>>>,
    start: Instant,
}

/// What a client has done.
#[derive(Default)]
struct Tally {
    /// How long each call took, of transactions that were committed.
    call_ms: Vec<f64>,
    /// Transactions that the server has rolled back: to be tried again.
    failed: u64,
}

impl Clients {
    fn start(job: &Job, database: &Database) -> Result<Self, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let connections = (0..job.count).map(|_| database.connect());
        let connections = connections.collect::<Result<Vec<_>, _>>()?;
        let is_hot = job.workload == Workload::BesideHot;
        let threads = connections.into_iter().enumerate().map(|(number, client)| {
            let is_over = is_over.clone();
            let rng = Rng::with_seed(job.seed.wrapping_mul(7919).wrapping_add(number as u64));
            thread::spawn(move || transactions(client, rng, is_hot, &is_over))
        });
        Ok(Self {
            threads: threads.collect(),
            is_over,
            start: Instant::now(),
        })
    }

    /// Waits until each has ended its transaction. Tells what they have done.
    fn end(self) -> Result<Figures, String> {
        // Ordering: Relaxed. Nothing else is published by it.
        self.is_over.store(true, Relaxed);
        let (mut call_ms, mut failed) = (Vec::new(), 0);
        for thread in self.threads {
            let tally = thread.join().map_err(|_| "a client has panicked")??;
            call_ms.extend(tally.call_ms);
            failed += tally.failed;
        }
        let seconds = self.start.elapsed().as_secs_f64();
        call_ms.sort_by(f64::total_cmp);
        let mut figures = Figures::from([
            ("calls_per_s", call_ms.len() as f64 / seconds),
            ("failed", failed as f64),
        ]);
        for (name, part) in [("call_ms_p50", 0.5), ("call_ms_p99", 0.99)] {
            let quantile = call_ms.get((call_ms.len() as f64 * part) as usize);
            figures.extend(quantile.map(|ms| (name, *ms)));
        }
        Ok(figures)
    }
}

/// Transactions of one call each, until it is over.
fn transactions(
    mut client: Client,
    mut rng: Rng,
    is_hot: bool,
    is_over: &AtomicBool,
) -> Result<Tally, String> {
    let failed = |error: Error| format!("a client's transaction: {error:?}");
    client.batch_execute(LOCK_TIMEOUT).map_err(failed)?;
    let mut tally = Tally::default();
    // Ordering: Relaxed. Nothing else is published by it.
    while !is_over.load(Relaxed) {
        let key = match is_hot {
            true => "hot".to_string(),
            false => format!("key-{}", rng.u32(..KEYS)),
        };
        let call = if rng.bool() { CANCEL } else { SCHEDULE };
        match transaction(&mut client, call, &key) {
            Ok(took) => tally.call_ms.push(took.as_secs_f64() * 1e3),
            Err(error) if is_to_be_repeated(&error) => tally.failed += 1,
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(tally)
}

/// Returns how long the call took.
fn transaction(client: &mut Client, call: &str, key: &str) -> Result<Duration, Error> {
    let mut transaction = client.transaction()?;
    let begun = Instant::now();
    transaction.query_one(call, &[&key])?;
    let took = begun.elapsed();
    thread::sleep(HOLD);
    transaction.commit()?;
    Ok(took)
}

fn is_to_be_repeated(error: &Error) -> bool {
    let states = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.code().is_some_and(|code| states.contains(code))
}
