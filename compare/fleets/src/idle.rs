//! Idle: what the server does for a worker that has nothing to do.

use crate::arms::{FAR_MS, Spent};
use crate::job::Job;
use crate::node::Node;
use crate::store::Store;
use crate::timers::{Plan, now_ms};
use std::thread;
use std::time::Duration;
use wheelwork_kit::line::Figures;

/// Times the length of other measurements.
const LONG: u32 = 6;

/// Until what follows on the arms is over: sessions that tell of them, connections that close.
const REST: Duration = Duration::from_secs(12);

/// Many timers, an hour away. The worker starts before they are cleared up after.
pub(crate) fn measure(job: &Job, store: &mut Store) -> Result<Figures, String> {
    let mut node = Node::start(job, &store.url()?, false)?;
    node.work()?;
    let mut figures = Figures::default();
    if job.timers() > 0 {
        let armed = node.arm(Plan {
            callers: job.subject.callers(),
            count: job.timers(),
            ms: 0,
            seed: job.seed,
            from_ms: now_ms() + FAR_MS,
            spread_ms: FAR_MS,
        })?;
        let load = armed.figures.0.get("kops").copied();
        figures.extend(load.map(|kops| ("load_kops", kops)));
    }
    store.settle()?;
    let (rest, time) = match job.quick {
        true => (REST / 12, job.time() * 4),
        false => (REST, job.time() * LONG),
    };
    thread::sleep(rest);
    let spent = Spent::start(&node, store);
    let before = store.done()?;
    thread::sleep(time);
    let after = store.done()?;
    let [own, server] = spent.so_far(&node, store);
    let a_second = |count: u64| count as f64 / time.as_secs_f64();
    figures.extend([
        ("server_cpu_s", server),
        ("worker_cpu_s", own),
        (
            "transactions_per_s",
            a_second(after.transactions.saturating_sub(before.transactions)),
        ),
        (
            "rows_per_s",
            a_second(after.rows_read.saturating_sub(before.rows_read)),
        ),
    ]);
    node.close()?;
    Ok(figures)
}
