//! Arms: how many are durable in a second.

use crate::job::Job;
use crate::node::Node;
use crate::process;
use crate::store::Store;
use crate::timers::{Plan, now_ms};
use std::time::Duration;
use wheelwork_kit::line::Figures;

/// Far enough that nothing fires while it is measured.
pub(crate) const FAR_MS: u64 = 3_600_000;

/// CPU time of a process and of the server since this was made.
pub(crate) struct Spent {
    own: Duration,
    server: Duration,
}

impl Spent {
    pub(crate) fn start(node: &Node, store: &Store) -> Self {
        Self {
            own: process::cpu_time(node.id()),
            server: store.cpu_time(),
        }
    }

    /// In seconds.
    pub(crate) fn so_far(&self, node: &Node, store: &Store) -> [f64; 2] {
        let own = process::cpu_time(node.id()).saturating_sub(self.own);
        let server = store.cpu_time().saturating_sub(self.server);
        [own, server].map(|time| time.as_secs_f64())
    }

    /// For each of these operations.
    pub(crate) fn each(&self, operations: u64, node: &Node, store: &Store) -> Figures {
        let [own, server] = self.so_far(node, store);
        let each = |seconds: f64| seconds * 1e6 / operations.max(1) as f64;
        Figures::from([("cpu_us", each(own)), ("server_cpu_us", each(server))])
    }
}

/// Callers that arm for a time, or none and the subject's own call for many. The timers are due in
/// an hour to two, at random.
pub(crate) fn measure(job: &Job, store: &Store, callers: usize) -> Result<Figures, String> {
    let mut node = Node::start(job, &store.url()?, false)?;
    let spent = Spent::start(&node, store);
    let armed = node.arm(Plan {
        callers,
        count: 0,
        ms: job.time().as_millis() as u64,
        seed: job.seed,
        from_ms: now_ms() + FAR_MS,
        spread_ms: FAR_MS,
    })?;
    let mut figures = armed.figures;
    figures.0.extend(spent.each(armed.count, &node, store).0);
    node.close()?;
    Ok(figures)
}
