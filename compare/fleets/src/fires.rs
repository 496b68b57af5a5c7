//! What fires: how many in a second, and how late.

use crate::arms::Spent;
use crate::job::Job;
use crate::node::Node;
use crate::store::Store;
use crate::timers::{Plan, now_ms};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;

/// Before the first deadline, beside the time that arming takes.
const LEAD_MS: u64 = 2_000;

/// After the last deadline a second is waited for this number of timers, and [`PATIENCE`] more.
const FIRED_PER_S: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(15);

/// One process arms timers, and handles them when they are due: at one instant, or at random ones
/// of this time.
pub(crate) fn measure(
    job: &Job,
    store: &Store,
    count: u64,
    spread_ms: u64,
) -> Result<Figures, String> {
    let armed = Armed::arm(job, store, count, spread_ms)?;
    armed.fire(store, || Ok(Figures::default()))
}

/// A process that has armed timers, none of which is due.
pub(crate) struct Armed {
    node: Node,
    count: u64,
    from_ms: u64,
    spread_ms: u64,
    /// Lateness is also that of timers that have not fired by the end of patience.
    counts_unfired: bool,
}

impl Armed {
    pub(crate) fn arm(
        job: &Job,
        store: &Store,
        count: u64,
        spread_ms: u64,
    ) -> Result<Self, String> {
        let mut node = Node::start(job, &store.url()?, false)?;
        node.work()?;
        let lead_ms = LEAD_MS + count * 1_000 / job.subject.armed_per_s();
        // Who keeps whole seconds is late by the rest of none.
        let from_ms = (now_ms() + lead_ms).next_multiple_of(1_000);
        node.arm(Plan {
            callers: job.subject.callers(),
            count,
            ms: 0,
            seed: job.seed,
            from_ms,
            spread_ms,
        })?;
        Ok(Self {
            node,
            count,
            from_ms,
            spread_ms,
            counts_unfired: job.workload.is_beside(),
        })
    }

    /// Waits until all have fired. Then ends what happens beside it, which has figures of its own.
    pub(crate) fn fire(
        self,
        store: &Store,
        end_beside: impl FnOnce() -> Result<Figures, String>,
    ) -> Result<Figures, String> {
        let Self {
            mut node,
            count,
            from_ms,
            spread_ms,
            counts_unfired,
        } = self;
        let now = now_ms();
        if now >= from_ms {
            return Err(format!("arming took {} ms too long", now - from_ms));
        }
        thread::sleep(Duration::from_millis(from_ms - now));
        let spent = Spent::start(&node, store);
        let patience = PATIENCE + Duration::from_secs(count / FIRED_PER_S);
        let end = Instant::now() + Duration::from_millis(spread_ms) + patience;
        let fired = node.wait_until_fired(count, end)?;
        let acked = node.wait_until_acked(end)?;
        let acked_ms = now_ms().saturating_sub(from_ms) as f64;
        let mut told = node.told()?;
        if counts_unfired {
            told.add_unfired(count, patience);
        }
        let mut figures = told.figures(count);
        figures.0.extend(spent.each(fired, &node, store).0);
        figures.0.extend(end_beside()?.0);
        if fired == 0 {
            return Err(format!("none of {count} has fired after {patience:?}"));
        }
        let fired_ms = (told.last_ms - from_ms as f64).max(1.0);
        figures.extend([("fired_per_s", fired as f64 * 1e3 / fired_ms)]);
        if acked {
            figures.extend([
                ("kops", fired as f64 / acked_ms.max(1.0)),
                ("acked_ms", acked_ms),
            ]);
        }
        node.close()?;
        Ok(figures)
    }
}
