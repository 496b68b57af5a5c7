//! Periodic timers beside the load: each must go on, at its rate.

use crate::ledger::Ledger;
use crate::periodic::Runs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::ServiceHandle;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lock::lock;

/// How many there are, and the ticks between two runs of one.
pub(crate) const COUNT: usize = 64;
const PERIOD_TICKS: u32 = 1_000;

pub(crate) struct Periodic {
    period: Duration,
    runs: AtomicU64,
    /// How much later than a period after the run before.
    lateness: Mutex<Lateness>,
}

impl Periodic {
    pub(crate) fn start(
        handle: &ServiceHandle<u64>,
        ledger: &Arc<Ledger>,
        tick: Duration,
    ) -> Result<Arc<Self>, String> {
        let all = Arc::new(Self {
            period: tick * PERIOD_TICKS,
            runs: AtomicU64::new(0),
            lateness: Mutex::default(),
        });
        for _ in 0..COUNT {
            let (all, ledger) = (all.clone(), ledger.clone());
            let line = ledger.open(ledger.after_ns(all.period), true);
            let mut runs = Runs::new(&ledger, &line, all.period, true);
            let run = move || {
                runs.run();
                let now_ns = ledger.now_ns();
                all.runs.fetch_add(1, Relaxed);
                lock(&all.lateness).late(line.due_ns(), now_ns);
                // The next one.
                line.fires_from(ledger.after_ns(all.period));
            };
            let started = handle.every(tick * PERIOD_TICKS).start(run);
            started.map_err(|error| format!("no periodic timer: {error}"))?;
        }
        Ok(all)
    }

    /// Runs so far.
    pub(crate) fn count(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    /// Whether most runs are late by a period or more: the rate is not kept.
    pub(crate) fn is_slow(&self) -> bool {
        let median_ns = lock(&self.lateness).quantile_ns(0.5);
        u128::from(median_ns) >= self.period.as_nanos()
    }
}
