//! Periodic timer under chaos. Its runs do not overlap, are not early, and end when they
//! are told to.

use super::ledger::{Line, Outcome};
use super::payload::{Cargo, World};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use wheelwork::{Missed, TimerId};

struct Periodic<C: Cargo> {
    line: Arc<Line>,
    world: Arc<World<C>>,
    first_ns: u64,
    period: Duration,
    is_rate: bool,
    runs: u32,
    last_end_ns: u64,
    runs_now: AtomicBool,
    panics_at: u32,
}

impl<C: Cargo> Periodic<C> {
    fn run(&mut self) {
        let ledger = &self.world.ledger;
        if self.runs_now.swap(true, SeqCst) {
            ledger.fault(format_args!("two runs at a time: {:?}", self.line));
        }
        if self.line.is_over.load(SeqCst) {
            ledger.fault(format_args!("runs after cancel_and_wait: {:?}", self.line));
        }
        let period_ns = self.period.as_nanos() as u64;
        let not_before_ns = match (self.is_rate, self.runs) {
            (_, 0) => self.first_ns,
            (true, runs) => self.first_ns + period_ns * u64::from(runs),
            (false, _) => self.last_end_ns + period_ns,
        };
        // A timer that is moved has its next run at another time.
        if ledger.now_ns() < not_before_ns && !self.line.is_moved() {
            ledger.fault(format_args!(
                "run {} early by {} ns: {:?}",
                self.runs,
                not_before_ns - ledger.now_ns(),
                self.line
            ));
        }
        self.runs += 1;
        let panics = self.runs == self.panics_at;
        self.last_end_ns = ledger.now_ns();
        self.runs_now.store(false, SeqCst);
        assert!(!panics, "chaos: a run panics");
    }
}

impl<C: Cargo> Drop for Periodic<C> {
    fn drop(&mut self) {
        self.line.dropped();
    }
}

/// Starts a periodic timer. `None` if the service refused it.
pub(crate) fn start<C: Cargo>(
    world: &Arc<World<C>>,
    rng: &mut Rng,
) -> Option<(TimerId, Arc<Line>)> {
    let (first, period) = (
        Duration::from_micros(rng.u64(..20_000)),
        Duration::from_micros(rng.u64(100..20_000)),
    );
    let first_ns = world.ledger.after_ns(first);
    let line = world.ledger.open(first_ns, true);
    let is_rate = rng.bool();
    let mut periodic_run = Periodic {
        line: line.clone(),
        world: world.clone(),
        first_ns,
        period,
        is_rate,
        runs: 0,
        last_end_ns: 0,
        runs_now: AtomicBool::new(false),
        panics_at: rng.u32(1..30),
    };
    let periodic = if is_rate {
        world.handle.every(period)
    } else {
        world.handle.every_after(period)
    };
    let missed = [Missed::Skip, Missed::Delay, Missed::Burst(3)][rng.usize(..3)];
    let periodic = periodic.missed(missed).first(first);
    let periodic = if rng.bool() {
        periodic.times(rng.u64(1..50))
    } else {
        periodic
    };
    match periodic.start(move || periodic_run.run()) {
        Ok(id) => Some((id, line)),
        Err(_) => {
            line.close(Outcome::Refused);
            None
        }
    }
}
