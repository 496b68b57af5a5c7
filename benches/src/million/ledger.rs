//! Ledger: the harness's own record of every timer, independent of what the library says.
//!
//! A timer's payload is its line in the ledger. What became of it is written there by whoever sees
//! it happen, with `Instant` as the clock, and counted besides. At the end each line that was
//! opened must show an outcome, and there must be as many outcomes as such lines: so none was lost,
//! and none doubled. Flags and counts, not a counter in each line: no locked instruction for a
//! timer, which would be the dearest part of firing it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wheelwork_kit::lateness::{Lateness, Stripe, fired_so_far, sum};
use wheelwork_kit::lock::lock;

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

pub(crate) struct Ledger {
    origin: Instant,
    lines: Box<[Line]>,
    due: Due,
    stripes: Box<[Stripe]>,
    cancelled: AtomicU64,
    handed_back: AtomicU64,
    refused: AtomicU64,
}

/// When the timers are due, in nanoseconds.
enum Due {
    /// Each at its own time.
    Each(Box<[AtomicU64]>),
    /// All at one time: the first and the last that fired are noted, not how late each was.
    Same(AtomicU64),
}

/// More than threads fire, as a rule: each has one for itself.
const STRIPES: usize = 16;

/// What the whole ledger shows.
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
    /// A ledger with this number of lines, each with a time of its own.
    pub(crate) fn each(lines: usize) -> Self {
        Self::new(lines, Due::Each(touched(lines)), Lateness::ready)
    }

    /// A ledger with this number of lines, all due at the same time.
    pub(crate) fn same(lines: usize) -> Self {
        Self::new(lines, Due::Same(AtomicU64::new(0)), Lateness::default)
    }

    fn new(lines: usize, due: Due, lateness: fn() -> Lateness) -> Self {
        let stripe = |_| Stripe {
            fired: AtomicU64::new(0),
            lateness: Mutex::new(lateness()),
        };
        Self {
            origin: Instant::now(),
            lines: touched(lines),
            due,
            stripes: (0..STRIPES).map(stripe).collect(),
            cancelled: AtomicU64::new(0),
            handed_back: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
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

    /// The number of these timers that were found gone. Those that are due have fired, or are about
    /// to: a program may be stopped for longer than it left itself time. The rest were refused.
    pub(crate) fn gone(&self, lines: impl IntoIterator<Item = u32>, count: u64) {
        if count > 0 {
            let now_ns = self.nanos(Instant::now());
            let due = lines
                .into_iter()
                .filter(|&line| self.due_ns(line) <= now_ns)
                .count() as u64;
            self.refused.fetch_add(count.saturating_sub(due), Relaxed);
        }
    }

    fn set_due(&self, line: u32, ns: u64) {
        match &self.due {
            Due::Each(due_ns) => due_ns[line as usize].store(ns, Relaxed),
            Due::Same(due_ns) if line == 0 => due_ns.store(ns, Relaxed),
            Due::Same(_) => {}
        }
    }

    /// Begins to note timers that fire together. Costs a reading of the clock at the end, for as
    /// many as come.
    pub(crate) fn firing(&self, start: Instant) -> Firing<'_> {
        // Without an allocation until something fires.
        Firing {
            ledger: self,
            start_ns: self.nanos(start),
            count: 0,
            early: 0,
            lines: Vec::new(),
        }
    }

    /// Notes an outcome in its line. It has to be counted, too.
    pub(crate) fn close(&self, line: u32, outcome: Outcome) {
        let line = &self.lines[line as usize];
        let flag = if outcome == Outcome::Fired {
            &line.fired
        } else {
            &line.ended
        };
        flag.store(true, Relaxed);
    }

    /// Counts outcomes that are noted in their lines.
    pub(crate) fn count(&self, outcome: Outcome, by: u64) {
        let counter = match outcome {
            Outcome::Fired => &own(&self.stripes).fired,
            Outcome::Cancelled => &self.cancelled,
            Outcome::HandedBack => &self.handed_back,
        };
        counter.fetch_add(by, Relaxed);
    }

    /// Timers that have fired so far.
    pub(crate) fn fired_so_far(&self) -> u64 {
        fired_so_far(self.stripes.iter())
    }

    fn due_ns(&self, line: u32) -> u64 {
        match &self.due {
            Due::Each(due_ns) => due_ns[line as usize].load(Relaxed),
            Due::Same(due_ns) => due_ns.load(Relaxed),
        }
    }

    /// The last moment at which a line is due.
    pub(crate) fn last_due(&self) -> Instant {
        let last_ns = match &self.due {
            Due::Each(due_ns) => due_ns.iter().map(|due_ns| due_ns.load(Relaxed)).max(),
            Due::Same(due_ns) => Some(due_ns.load(Relaxed)),
        };
        self.origin + Duration::from_nanos(last_ns.unwrap_or(0))
    }

    /// Of all that fired.
    pub(crate) fn lateness(&self) -> Lateness {
        sum(self.stripes.iter())
    }

    /// When the first and the last fired, in milliseconds after the one instant at which all are
    /// due.
    pub(crate) fn first_and_last_ms(&self) -> [f64; 2] {
        let Lateness {
            first_ns, last_ns, ..
        } = self.lateness();
        [first_ns, last_ns].map(|ns| ns.saturating_sub(self.due_ns(0)) as f64 / 1e6)
    }

    /// Compares lines and counts.
    pub(crate) fn balance(&self) -> Balance {
        let early = |stripe: &Stripe| lock(&stripe.lateness).early;
        let mut balance = Balance {
            fired: self.fired_so_far(),
            cancelled: self.cancelled.load(Relaxed),
            handed_back: self.handed_back.load(Relaxed),
            early: self.stripes.iter().map(early).sum(),
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
        balance.doubled =
            (balance.fired + balance.cancelled + balance.handed_back).saturating_sub(closed);
        balance
    }

    fn nanos(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.origin).as_nanos() as u64
    }
}

/// A vector of zeros, whose memory has been touched.
fn touched<T: Default>(lines: usize) -> Box<[T]> {
    (0..lines).map(|_| T::default()).collect()
}

/// The calling thread's.
fn own(stripes: &[Stripe]) -> &Stripe {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Ordering: Relaxed. A number only.
        static OWN: usize = THREADS.fetch_add(1, Relaxed);
    }
    &stripes[OWN.with(|own| own % stripes.len())]
}

/// Timers of one batch as their tasks run. Each is checked for earliness by the time at which the
/// batch began, and its lateness is the time at which the batch ended: both to the library's
/// disadvantage.
pub(crate) struct Firing<'a> {
    ledger: &'a Ledger,
    start_ns: u64,
    count: u64,
    early: u64,
    /// Lines whose lateness is to be noted.
    lines: Vec<u32>,
}

impl Firing<'_> {
    /// Notes that a timer fired.
    pub(crate) fn fired(&mut self, line: u32) {
        self.ledger.close(line, Outcome::Fired);
        self.early += u64::from(self.start_ns < self.ledger.due_ns(line));
        self.count += 1;
        if let Due::Each(_) = self.ledger.due {
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
        let stripe = own(&self.ledger.stripes);
        let mut lateness = lock(&stripe.lateness);
        lateness.early += self.early;
        lateness.stamp(end_ns);
        for &line in &self.lines {
            lateness.late(self.ledger.due_ns(line), end_ns);
        }
        stripe.fired.fetch_add(self.count, Relaxed);
    }
}

impl Balance {
    /// Of timers; by their names in the report.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("armed", self.armed),
            ("fired", self.fired),
            ("cancelled", self.cancelled),
            ("handed_back", self.handed_back),
            ("early", self.early),
            ("lost", self.lost),
            ("doubled", self.doubled),
        ]
    }

    /// The promises that are broken, in words.
    pub(crate) fn broken(&self) -> Vec<String> {
        let (armed, outcomes) = (self.armed, self.fired + self.cancelled + self.handed_back);
        let mut broken = Vec::new();
        if armed != outcomes {
            let outcomes = format!("{outcomes} outcomes (fired + cancelled + handed back)");
            broken.push(format!("{armed} armed, but {outcomes}"));
        }
        for (count, what) in [
            (self.early, "fired early"),
            (self.lost, "lost"),
            (self.doubled, "doubled"),
            (self.refused, "gone before they were due"),
        ] {
            broken.extend((count > 0).then(|| format!("{count} {what}")));
        }
        broken
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
        let counts = balance.counts().map(|(_, count)| count);
        assert_eq!(counts, [5, 4, 1, 1, 1, 1, 2]);
        assert_eq!(balance.broken().len(), 4);
        assert_eq!(ledger.fired_so_far(), 4);
        assert_eq!(Balance::default().broken(), [""; 0]);
    }

    #[test]
    fn a_timer_that_is_gone_was_due_or_refused() {
        let (ledger, now) = (Ledger::each(4), Instant::now());
        let minute = Duration::from_secs(60);
        [now, now, now + minute, now + minute]
            .into_iter()
            .zip(0..)
            .for_each(|(due, line)| ledger.open(line, due));
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
        assert_eq!(
            (ledger.balance().early, ledger.balance().refused),
            (1, 3),
            "line 1 was not due for a minute"
        );
        assert_eq!(
            ledger.balance().broken().last().map(String::as_str),
            Some("3 gone before they were due")
        );
    }
}
