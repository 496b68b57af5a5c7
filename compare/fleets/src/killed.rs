//! A worker that is killed: how long until another one has fired its timers.

use crate::job::Job;
use crate::node::Node;
use crate::store::Store;
use crate::timers::{Plan, now_ms};
use fastrand::Rng;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;

const LEAD_MS: u64 = 1_000;

/// For a worker to take timers that are due.
const TAKES: Duration = Duration::from_secs(30);

/// After its first one, for it to take more: who polls fetches all that it takes at once.
const TAKES_MORE: Duration = Duration::from_millis(500);

/// How long the other worker has looked for timers when the first one is killed: longer than its
/// first look, and at another place between two of its looks in each repetition.
fn looks_for(seed: u64) -> Duration {
    Duration::from_millis(500 + Rng::with_seed(seed).u64(..1_000))
}

/// The handlers of one worker never end. It takes what is due; another worker starts, whose
/// handlers end at once; the first one is killed. What it had not taken the other one fires soon;
/// the last timers are those that it had.
pub(crate) fn measure(job: &Job, store: &Store) -> Result<Figures, String> {
    let url = store.url()?;
    let mut first = Node::start(job, &url, true)?;
    first.work()?;
    first.arm(Plan {
        callers: 0,
        count: job.timers(),
        ms: 0,
        seed: job.seed,
        from_ms: now_ms() + LEAD_MS,
        spread_ms: 1,
    })?;
    if first.wait_until_fired(1, Instant::now() + TAKES)? == 0 {
        return Err("the first worker has taken nothing".to_string());
    }
    thread::sleep(TAKES_MORE);
    let taken = first.fired()?;
    let mut second = Node::start(job, &url, false)?;
    second.work()?;
    thread::sleep(looks_for(job.seed));
    let killed_ms = now_ms() as f64;
    first.kill()?;
    second.wait_until_fired(job.timers(), Instant::now() + job.patience())?;
    let told = second.told()?;
    let mut figures = told.figures(job.timers());
    figures.extend([("taken", taken as f64)]);
    let is_whole = figures.0.get("lost") == Some(&0.0);
    figures.extend([match is_whole {
        true => ("recovered_s", (told.last_ms - killed_ms).max(0.0) / 1e3),
        false => ("waited_s", job.patience().as_secs_f64()),
    }]);
    second.close()?;
    Ok(figures)
}
