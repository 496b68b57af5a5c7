//! Ledger: the harness's own book of every timer, independent of what the library says.
//!
//! A timer's payload is its line in the book. What became of it is written there by whoever sees it happen, with `Instant` as the clock, and counted
//! besides. At the end each line that was opened must show an outcome, and there must be as many outcomes as such lines: so none was lost, and none
//! doubled. Flags and counts, not a counter in each line: no locked instruction for a timer, which would be the dearest part of firing it.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How a timer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fired,
    Cancelled,
    HandedBack,
}

/// One timer: whether it was armed, and the outcomes that were seen of it.
#[derive(Default)]
struct Line {
    open: AtomicBool,
    fired: AtomicBool,
    ended: AtomicBool,
}

/// Lateness is kept in units of 16 ns: up to 68 s in 32 bits.
const LATENESS_UNIT_NS: u64 = 16;

pub(crate) struct Ledger {
    origin: Instant,
    lines: Box<[Line]>,
    times: Times,
    fired: Box<[Striped]>,
    cancelled: AtomicU64,
    handed_back: AtomicU64,
    early: AtomicU64,
    refused: AtomicU64,
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
    /// Calls that found no timer, though it was not due.
    pub(crate) refused: u64,
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
        let zero = || AtomicU64::new(0);
        let (cancelled, handed_back, early, refused) = (zero(), zero(), zero(), zero());
        Self { origin: Instant::now(), lines: touched(lines), times, fired, cancelled, handed_back, early, refused }
    }

    /// Opens a line, before its timer is armed.
    pub(crate) fn open(&self, line: u32, due: Instant) {
        self.set_due(line, self.nanos(due));
        self.lines[line as usize].open.store(true, Relaxed);
    }

    /// Notes that a timer has been moved to this time or later.
    pub(crate) fn moved(&self, line: u32, due: Instant) {
        self.set_due(line, self.nanos(due));
    }

    /// Moves a timer to this time or later; `moves` returns whether it could be. It may fire
    /// meanwhile: until it is moved the earlier one of both times counts.
    pub(crate) fn move_to(&self, line: u32, due: Instant, moves: impl FnOnce() -> bool) {
        self.set_due(line, self.due_ns(line).min(self.nanos(due)));
        if moves() {
            self.moved(line, due);
        } else {
            self.gone([line], 1);
        }
    }

    /// So many of these timers were found gone. Those that are due have fired, or are about to: a
    /// program may be stopped for longer than it left itself time. The rest were refused.
    pub(crate) fn gone(&self, lines: impl IntoIterator<Item = u32>, count: u64) {
        if count > 0 {
            let now_ns = self.nanos(Instant::now());
            let due = lines.into_iter().filter(|&line| self.due_ns(line) <= now_ns).count() as u64;
            self.refused.fetch_add(count.saturating_sub(due), Relaxed);
        }
    }

    fn set_due(&self, line: u32, ns: u64) {
        match &self.times {
            Times::Each { due_ns, .. } => due_ns[line as usize].store(ns, Relaxed),
            Times::Same { due_ns, .. } if line == 0 => due_ns.store(ns, Relaxed),
            Times::Same { .. } => {}
        }
    }

    /// Begins to note timers that fire together. Costs a reading of the clock at the end, for as many as come.
    pub(crate) fn firing(&self, start: Instant) -> Firing<'_> {
        // Without an allocation until something fires.
        Firing { ledger: self, start_ns: self.nanos(start), count: 0, lines: Vec::new() }
    }

    /// Notes an outcome in its line. It has to be counted, too.
    pub(crate) fn close(&self, line: u32, outcome: Outcome) {
        let line = &self.lines[line as usize];
        let flag = if outcome == Outcome::Fired { &line.fired } else { &line.ended };
        flag.store(true, Relaxed);
    }

    /// Counts outcomes that are noted in their lines.
    pub(crate) fn count(&self, outcome: Outcome, by: u64) {
        let counter = match outcome {
            Outcome::Fired => &self.fired[0].0,
            Outcome::Cancelled => &self.cancelled,
            Outcome::HandedBack => &self.handed_back,
        };
        counter.fetch_add(by, Relaxed);
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
                    if line.fired.load(Relaxed) {
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

    /// Compares lines and counts.
    pub(crate) fn balance(&self) -> Balance {
        let mut balance = Balance {
            fired: self.fired_so_far(),
            cancelled: self.cancelled.load(Relaxed),
            handed_back: self.handed_back.load(Relaxed),
            early: self.early.load(Relaxed),
            refused: self.refused.load(Relaxed),
            ..Balance::default()
        };
        let mut closed = 0;
        for line in &self.lines {
            let open = line.open.load(Relaxed);
            let ended = line.fired.load(Relaxed) || line.ended.load(Relaxed);
            balance.armed += u64::from(open);
            balance.lost += u64::from(open && !ended);
            closed += u64::from(open && ended);
        }
        // Outcomes beyond the first of a line; or of a line that was never opened.
        balance.doubled = (balance.fired + balance.cancelled + balance.handed_back).saturating_sub(closed);
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
    count: u64,
    /// Lines whose lateness is to be noted.
    lines: Vec<u32>,
}

impl Firing<'_> {
    /// Notes that a timer fired.
    pub(crate) fn fired(&mut self, line: u32) {
        self.ledger.close(line, Outcome::Fired);
        if self.start_ns < self.ledger.due_ns(line) {
            self.ledger.early.fetch_add(1, Relaxed);
        }
        self.count += 1;
        if let Times::Each { .. } = self.ledger.times {
            self.lines.push(line);
        }
    }
}

impl Drop for Firing<'_> {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
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
        // A stripe for each worker, more or less.
        let stripe = (&raw const *self).addr() / 4096 % self.ledger.fired.len();
        self.ledger.fired[stripe].0.fetch_add(self.count, Relaxed);
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
            (self.refused > 0, format!("{} gone before they were due", self.refused)),
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
        self.refused += other.refused;
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
        ledger.count(Outcome::Cancelled, 1);
        ledger.firing(Instant::now()).fired(0); // doubled
        ledger.firing(Instant::now()).fired(1);
        ledger.close(2, Outcome::HandedBack);
        ledger.count(Outcome::HandedBack, 1);
        // 3 is lost
        ledger.firing(Instant::now()).fired(4); // early
        ledger.firing(Instant::now()).fired(5); // never opened
        let balance = ledger.balance();
        assert_eq!((balance.armed, balance.fired, balance.cancelled, balance.handed_back), (5, 4, 1, 1));
        assert_eq!((balance.early, balance.lost, balance.doubled, balance.refused), (1, 1, 2, 0));
        assert_eq!(balance.broken().len(), 4);
        assert_eq!(ledger.fired_so_far(), 4);
        assert_eq!(Balance::default().broken(), [""; 0]);
    }

    #[test]
    fn a_timer_that_is_gone_was_due_or_refused() {
        let (ledger, now) = (Ledger::each(4), Instant::now());
        let minute = Duration::from_secs(60);
        [now, now, now + minute, now + minute].into_iter().zip(0..).for_each(|(due, line)| ledger.open(line, due));
        ledger.gone([0], 1);
        ledger.gone(0..4, 2);
        assert_eq!(ledger.balance().refused, 0, "two are due");
        ledger.gone(0..4, 3);
        ledger.gone([2], 1);
        assert_eq!(ledger.balance().refused, 2);
        // A timer that is due cannot be moved; one that is moved is due later.
        ledger.move_to(0, now + minute, || false);
        ledger.move_to(1, now + minute, || true);
        ledger.gone([0, 1], 2);
        assert_eq!(ledger.balance().refused, 3);
        // While it is moved it may fire at either time, whichever is earlier.
        ledger.move_to(2, now, || {
            ledger.firing(Instant::now()).fired(2);
            true
        });
        ledger.move_to(1, now + 2 * minute, || {
            ledger.firing(Instant::now()).fired(1);
            true
        });
        assert_eq!((ledger.balance().early, ledger.balance().refused), (1, 3), "line 1 was not due for a minute");
        assert_eq!(ledger.balance().broken().last().map(String::as_str), Some("3 gone before they were due"));
    }
}
