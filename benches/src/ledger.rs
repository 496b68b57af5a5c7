//! Ledger: the harness's own book of every timer, independent of what the library says.
//!
//! A timer's payload is its line in the book. What became of it is written there by whoever sees it happen, with `Instant` as the clock. At the end
//! each line that was opened must show exactly one outcome.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How a timer ended; the number is the place of the outcome's counter in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fired = 0,
    Cancelled = 5,
    HandedBack = 10,
}

const COUNTER_MASK: u16 = 0b11111;

/// The line is in use.
const OPEN: u16 = 1 << 15;

/// Lateness is kept in units of 16 ns: up to 68 s in 32 bits.
const LATENESS_UNIT_NS: u64 = 16;

pub(crate) struct Ledger {
    origin: Instant,
    lines: Box<[AtomicU16]>,
    times: Times,
    fired: Box<[Striped]>,
    early: AtomicU64,
}

/// When the timers are due, and how late they fired.
enum Times {
    /// Each at its own time.
    Each { due_ns: Box<[AtomicU64]>, lateness: Box<[AtomicU32]> },
    /// All at one time; the first and the last that fired.
    Same { due_ns: AtomicU64, first_ns: AtomicU64, last_ns: AtomicU64 },
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Striped(AtomicU64);

/// What the whole book shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balance {
    pub(crate) armed: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) handed_back: u64,
    pub(crate) early: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
}

impl Ledger {
    /// A book of so many lines, each with a time of its own.
    pub(crate) fn each(lines: usize) -> Self {
        let times = Times::Each { due_ns: touched(lines), lateness: touched(lines) };
        Self::new(lines, times)
    }

    /// A book of so many lines, all due at the same time.
    pub(crate) fn same(lines: usize) -> Self {
        let times = Times::Same { due_ns: AtomicU64::new(0), first_ns: AtomicU64::new(u64::MAX), last_ns: AtomicU64::new(0) };
        Self::new(lines, times)
    }

    fn new(lines: usize, times: Times) -> Self {
        let fired = (0..64).map(|_| Striped::default()).collect();
        Self { origin: Instant::now(), lines: touched(lines), times, fired, early: AtomicU64::new(0) }
    }

    /// Opens a line, before its timer is armed.
    pub(crate) fn open(&self, line: u32, due: Instant) {
        match &self.times {
            Times::Each { due_ns: all, .. } => all[line as usize].store(self.nanos(due), Relaxed),
            Times::Same { due_ns, .. } if line == 0 => due_ns.store(self.nanos(due), Relaxed),
            Times::Same { .. } => {}
        }
        self.lines[line as usize].store(OPEN, Relaxed);
    }

    /// Begins to note timers that fire together. Costs two readings of the clock for as many as come.
    pub(crate) fn firing(&self) -> Firing<'_> {
        Firing { ledger: self, start_ns: self.nanos(Instant::now()), lines: Vec::with_capacity(64) }
    }

    /// Notes an outcome.
    pub(crate) fn close(&self, line: u32, outcome: Outcome) {
        self.lines[line as usize].fetch_add(1 << outcome as u32, Relaxed);
    }

    /// Timers that have fired so far.
    pub(crate) fn fired_so_far(&self) -> u64 {
        self.fired.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }

    fn due_ns(&self, line: u32) -> u64 {
        match &self.times {
            Times::Each { due_ns, .. } => due_ns[line as usize].load(Relaxed),
            Times::Same { due_ns, .. } => due_ns.load(Relaxed),
        }
    }

    /// The last moment at which a line is due.
    pub(crate) fn last_due(&self) -> Instant {
        let last_ns = match &self.times {
            Times::Each { due_ns, .. } => due_ns.iter().map(|due_ns| due_ns.load(Relaxed)).max().unwrap_or(0),
            Times::Same { due_ns, .. } => due_ns.load(Relaxed),
        };
        self.origin + Duration::from_nanos(last_ns)
    }

    /// Lateness in nanoseconds of all that fired; of the first and the last, where all are due at the same time.
    pub(crate) fn lateness(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 37, 3).expect("bounds and digits are fine");
        match &self.times {
            Times::Each { lateness, .. } => {
                for (line, lateness) in self.lines.iter().zip(lateness) {
                    if line.load(Relaxed) & COUNTER_MASK > 0 {
                        histogram.saturating_record(u64::from(lateness.load(Relaxed)) * LATENESS_UNIT_NS);
                    }
                }
            }
            Times::Same { due_ns, first_ns, last_ns } => {
                for ns in [first_ns, last_ns] {
                    histogram.saturating_record(ns.load(Relaxed).saturating_sub(due_ns.load(Relaxed)));
                }
            }
        }
        histogram
    }

    /// Counts outcomes line by line.
    pub(crate) fn balance(&self) -> Balance {
        let mut balance = Balance { early: self.early.load(Relaxed), ..Balance::default() };
        for line in &self.lines {
            let line = line.load(Relaxed);
            let of = |outcome: Outcome| u64::from(line >> outcome as u32 & COUNTER_MASK);
            let outcomes = of(Outcome::Fired) + of(Outcome::Cancelled) + of(Outcome::HandedBack);
            // An outcome of a line that was never opened is one too many.
            let armed = u64::from(line & OPEN != 0);
            balance.armed += armed;
            balance.fired += of(Outcome::Fired);
            balance.cancelled += of(Outcome::Cancelled);
            balance.handed_back += of(Outcome::HandedBack);
            balance.lost += armed.saturating_sub(outcomes);
            balance.doubled += outcomes.saturating_sub(armed);
        }
        balance
    }

    fn nanos(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.origin).as_nanos() as u64
    }
}

/// So many zeros, whose memory has been touched.
fn touched<T: Default>(lines: usize) -> Box<[T]> {
    (0..lines).map(|_| T::default()).collect()
}

/// Timers of one batch as their tasks run. Each is checked for earliness by the time at which the batch began, and its lateness is the time at which
/// the batch ended: both to the library's disadvantage.
pub(crate) struct Firing<'a> {
    ledger: &'a Ledger,
    start_ns: u64,
    lines: Vec<u32>,
}

impl Firing<'_> {
    /// Notes that a timer fired.
    pub(crate) fn fired(&mut self, line: u32) {
        self.ledger.close(line, Outcome::Fired);
        if self.start_ns < self.ledger.due_ns(line) {
            self.ledger.early.fetch_add(1, Relaxed);
        }
        self.lines.push(line);
    }
}

impl Drop for Firing<'_> {
    fn drop(&mut self) {
        let Some(&first) = self.lines.first() else { return };
        let end_ns = self.ledger.nanos(Instant::now());
        match &self.ledger.times {
            Times::Each { due_ns, lateness } => {
                for &line in &self.lines {
                    let late_ns = end_ns.saturating_sub(due_ns[line as usize].load(Relaxed));
                    lateness[line as usize].store((late_ns / LATENESS_UNIT_NS).try_into().unwrap_or(u32::MAX), Relaxed);
                }
            }
            Times::Same { first_ns, last_ns, .. } => {
                first_ns.fetch_min(end_ns, Relaxed);
                last_ns.fetch_max(end_ns, Relaxed);
            }
        }
        let stripe = first as usize / 64 % self.ledger.fired.len();
        self.ledger.fired[stripe].0.fetch_add(self.lines.len() as u64, Relaxed);
    }
}

impl Balance {
    /// The promises that are broken, in words.
    pub(crate) fn broken(&self) -> Vec<String> {
        let outcomes = self.fired + self.cancelled + self.handed_back;
        let checks = [
            (self.armed != outcomes, format!("{} armed, but {outcomes} outcomes (fired + cancelled + handed back)", self.armed)),
            (self.early > 0, format!("{} fired early", self.early)),
            (self.lost > 0, format!("{} lost", self.lost)),
            (self.doubled > 0, format!("{} doubled", self.doubled)),
        ];
        checks.into_iter().filter_map(|(broken, what)| broken.then_some(what)).collect()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.armed += other.armed;
        self.fired += other.fired;
        self.cancelled += other.cancelled;
        self.handed_back += other.handed_back;
        self.early += other.early;
        self.lost += other.lost;
        self.doubled += other.doubled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_broken_promise_is_seen() {
        let (ledger, now) = (Ledger::each(6), Instant::now());
        (0..4).for_each(|line| ledger.open(line, now));
        ledger.open(4, now + Duration::from_secs(60));
        ledger.close(0, Outcome::Cancelled);
        ledger.firing().fired(0); // doubled
        ledger.firing().fired(1);
        ledger.close(2, Outcome::HandedBack);
        // 3 is lost
        ledger.firing().fired(4); // early
        ledger.firing().fired(5); // never opened
        let balance = ledger.balance();
        assert_eq!((balance.armed, balance.fired, balance.cancelled, balance.handed_back), (5, 4, 1, 1));
        assert_eq!((balance.early, balance.lost, balance.doubled), (1, 1, 2));
        assert_eq!(balance.broken().len(), 4);
        assert_eq!(ledger.fired_so_far(), 4);
        assert_eq!(Balance::default().broken(), [""; 0]);
    }
}
