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
    ledger: Arc<Ledger>,
    period: Duration,
    runs: AtomicU64,
    /// When each ran last, in nanoseconds since the ledger's start.
    ran_ns: [AtomicU64; COUNT],
    /// How much later than a period after the run before.
    lateness: Mutex<Lateness>,
}

impl Periodic {
    pub(crate) fn start(
        handle: &ServiceHandle<u64>,
        ledger: &Arc<Ledger>,
        tick: Duration,
    ) -> Result<Arc<Self>, String> {
        let now_ns = ledger.now_ns();
        let all = Arc::new(Self {
            ledger: ledger.clone(),
            period: tick * PERIOD_TICKS,
            runs: AtomicU64::new(0),
            ran_ns: std::array::from_fn(|_| AtomicU64::new(now_ns)),
            lateness: Mutex::new(Lateness::ready()),
        });
        for number in 0..COUNT {
            let all = all.clone();
            let line = ledger.open(ledger.after_ns(all.period), true);
            let mut runs = Runs::new(ledger, &line, all.period, true);
            handle
                .every(all.period)
                .start(move || {
                    runs.run();
                    all.runs(number);
                })
                .map_err(|error| format!("no periodic timer: {error}"))?;
        }
        Ok(all)
    }

    fn runs(&self, number: usize) {
        let now_ns = self.ledger.now_ns();
        self.runs.fetch_add(1, Relaxed);
        let before_ns = self.ran_ns[number].swap(now_ns, Relaxed);
        lock(&self.lateness).late(before_ns + self.period.as_nanos() as u64, now_ns);
    }

    /// Runs so far.
    pub(crate) fn count(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    /// Those that should have run before a time and have not.
    pub(crate) fn overdue(&self, before_ns: u64) -> u64 {
        let period_ns = self.period.as_nanos() as u64;
        let ran_ns = self.ran_ns.iter().map(|ran_ns| ran_ns.load(Relaxed));
        ran_ns
            .filter(|ran_ns| ran_ns + period_ns < before_ns)
            .count() as u64
    }

    /// Whether most runs are late by a period or more: the rate is not kept.
    pub(crate) fn is_slow(&self) -> bool {
        let median_ns = lock(&self.lateness).quantile_ns(0.5);
        u128::from(median_ns) >= self.period.as_nanos()
    }
}
