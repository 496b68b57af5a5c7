//! Periodic timer: its runs do not overlap, are not early, and end when they are told to.

use super::ledger::{Ledger, Line, MOVED, OVER};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The runs of one periodic timer, as its closure has them.
pub(crate) struct Runs {
    ledger: Arc<Ledger>,
    line: Arc<Line>,
    number: u32,
    first_ns: u64,
    period: Duration,
    /// At a fixed rate; else from the end of the run before.
    is_rate: bool,
    runs: u32,
    last_end_ns: u64,
    runs_now: AtomicBool,
}

impl Runs {
    /// Of a timer whose line was opened with the time of its first run.
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        line: &Arc<Line>,
        period: Duration,
        is_rate: bool,
    ) -> Self {
        Self {
            ledger: ledger.clone(),
            number: line.number(),
            first_ns: line.due_ns(),
            line: line.clone(),
            period,
            is_rate,
            runs: 0,
            last_end_ns: 0,
            runs_now: AtomicBool::new(false),
        }
    }

    /// It runs now: for the how manieth time, from 1.
    pub(crate) fn run(&mut self) -> u32 {
        let ledger = &self.ledger;
        if self.runs_now.swap(true, SeqCst) {
            ledger.fault(format_args!("two runs at a time: {:?}", self.line));
        }
        if self.line.has(OVER) {
            ledger.fault(format_args!("runs after cancel_and_wait: {:?}", self.line));
        }
        let period_ns = self.period.as_nanos() as u64;
        let not_before_ns = match (self.is_rate, self.runs) {
            (_, 0) => self.first_ns,
            (true, runs) => self.first_ns + period_ns * u64::from(runs),
            (false, _) => self.last_end_ns + period_ns,
        };
        let early_ns = not_before_ns.saturating_sub(ledger.now_ns());
        // A timer that is moved has its next run at another time.
        if early_ns > 0 && !self.line.has(MOVED) {
            let (nth, line) = (self.runs, &self.line);
            ledger.fault(format_args!("run {nth} early by {early_ns} ns: {line:?}"));
        }
        self.runs += 1;
        self.last_end_ns = ledger.now_ns();
        self.runs_now.store(false, SeqCst);
        self.runs
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.ledger.dropped(&self.line, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_early_or_comes_after_the_end_is_a_fault() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let ledger = Ledger::new(false);
        for (is_rate, faults) in [(true, 1), (false, 2)] {
            let line = ledger.open(ledger.now_ns(), true);
            let mut runs = Runs::new(&ledger, &line, HOUR, is_rate);
            assert_eq!((runs.run(), ledger.faults()), (1, faults - 1));
            assert_eq!((runs.run(), ledger.faults()), (2, faults), "an hour early");
        }
        let line = ledger.open(ledger.now_ns(), true);
        let mut runs = Runs::new(&ledger, &line, Duration::ZERO, true);
        runs.run();
        line.ends();
        runs.run();
        assert_eq!(ledger.faults(), 3, "after the end");
        drop(runs);
        ledger.dropped(&line, line.number());
        assert_eq!(ledger.faults(), 4, "dropped twice");
    }
}
