//! Ledger: a line for each timer, independent of what the library says. It has the timer's one
//! outcome, whether its payload was dropped, and the time before which it must not fire.
//!
//! Whatever is noted a second time is a fault at once.
//!
//! A line may have one timer after the other: a run of days takes as much memory as timers may be
//! pending at a time. Whoever arms the next one there is one thread at a time, and does so when the
//! last one has an outcome. A timer has a number, so one that comes a second time, or after it was
//! cancelled, is known.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wheelwork_kit::lock::lock;

/// Faults that are printed; the others are counted.
const PRINTED_MAX: u64 = 20;

/// Locks of a ledger: threads that open lines at the same time rarely meet.
const STRIPES: usize = 16;

/// What may become of a timer, as whoever brings it about tells. A timer that `cancel_all`,
/// `cancel_many`, a guard or the end of its service ended may have none of these: how many they
/// are, the service has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fired = 1,
    Cancelled,
    Refused,
    HandedBack,
}

const OUTCOMES: [Outcome; 4] = {
    use Outcome::{Cancelled, Fired, HandedBack, Refused};
    [Fired, Cancelled, Refused, HandedBack]
};

/// In a line's word: the outcome, 0 if there is none yet.
pub(crate) const OUTCOME: u64 = 7;
/// Its payload was dropped.
const DROPPED: u64 = 1 << 3;
/// Somebody has moved it.
pub(crate) const MOVED: u64 = 1 << 4;
/// How far it was moved is not known: `due_ns` is a bound, no more.
const UNSURE: u64 = 1 << 5;
/// `cancel_and_wait` has returned: nothing of it may begin.
pub(crate) const OVER: u64 = 1 << 6;
/// Above these: the timer's number.
const NUMBER_SHIFT: u32 = 32;

/// The line of one timer, or of one after the other.
pub(crate) struct Line {
    word: AtomicU64,
    /// Nanoseconds since the ledger's start.
    due_ns: AtomicU64,
    pub(crate) is_periodic: bool,
}

impl Line {
    fn new(word: u64, due_ns: u64, is_periodic: bool) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(word),
            due_ns: AtomicU64::new(due_ns),
            is_periodic,
        })
    }

    fn word(&self) -> u64 {
        self.word.load(SeqCst)
    }

    /// Whether the timer that has the line has one of these.
    pub(crate) fn has(&self, flags: u64) -> bool {
        self.word() & flags != 0
    }

    /// Of the timer that has the line.
    pub(crate) fn number(&self) -> u32 {
        (self.word() >> NUMBER_SHIFT) as u32
    }

    /// `cancel_and_wait` has returned.
    pub(crate) fn ends(&self) {
        self.word.fetch_or(OVER, SeqCst);
    }

    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns.load(SeqCst)
    }

    /// Before a move that may make it earlier.
    pub(crate) fn may_fire_from(&self, at_ns: u64) {
        self.word.fetch_or(MOVED | UNSURE, SeqCst);
        self.due_ns.fetch_min(at_ns, SeqCst);
    }

    /// After a move to a later time, or before one to an earlier time. Nobody else moves it.
    pub(crate) fn fires_from(&self, at_ns: u64) {
        self.due_ns.store(at_ns, SeqCst);
        self.word.fetch_and(!UNSURE, SeqCst);
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        let outcome = OUTCOMES
            .into_iter()
            .find(|outcome| *outcome as u64 == word & OUTCOME);
        let kind = if self.is_periodic { "periodic " } else { "" };
        write!(f, "{kind}timer {}: {outcome:?}", word >> NUMBER_SHIFT)?;
        for (flag, what) in [
            (DROPPED, "payload dropped"),
            (MOVED, "moved"),
            (UNSURE, "nobody knows how far"),
            (OVER, "waited for"),
        ] {
            if word & flag != 0 {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

/// The lines of one service, and what was found wrong with it.
pub(crate) struct Ledger {
    start: Instant,
    lines: [Mutex<Vec<Arc<Line>>>; STRIPES],
    opened: AtomicU64,
    periodic: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES.len()],
    faults: AtomicU64,
    /// Payloads go through a channel: `cancel_and_wait` knows nothing of who receives them.
    pub(crate) is_deferred: bool,
    /// `stop` fires what waits: whatever its deadline.
    pub(crate) fires_all: AtomicBool,
}

/// What was noted in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) lines: u64,
    /// Periodic ones among them.
    pub(crate) periodic: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) refused: u64,
    pub(crate) handed_back: u64,
}

impl Ledger {
    pub(crate) fn new(is_deferred: bool) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            lines: Default::default(),
            opened: AtomicU64::new(0),
            periodic: AtomicU64::new(0),
            outcomes: Default::default(),
            faults: AtomicU64::new(0),
            is_deferred,
            fires_all: AtomicBool::new(false),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.ns(Instant::now())
    }

    pub(crate) fn ns(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.start).as_nanos() as u64
    }

    pub(crate) fn instant(&self, ns: u64) -> Instant {
        self.start + Duration::from_nanos(ns)
    }

    pub(crate) fn after_ns(&self, delay: Duration) -> u64 {
        u64::try_from(delay.as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(self.now_ns())
    }

    /// The time so long ago.
    pub(crate) fn ago_ns(&self, time: Duration) -> u64 {
        self.now_ns().saturating_sub(time.as_nanos() as u64)
    }

    /// A line for a timer that is about to be armed.
    pub(crate) fn open(&self, due_ns: u64, is_periodic: bool) -> Arc<Line> {
        let number = self.opened.fetch_add(1, Relaxed);
        self.periodic.fetch_add(u64::from(is_periodic), Relaxed);
        let line = Line::new(number << NUMBER_SHIFT, due_ns, is_periodic);
        lock(&self.lines[number as usize % STRIPES]).push(line.clone());
        line
    }

    /// A line that no timer had yet.
    pub(crate) fn blank(&self) -> Arc<Line> {
        let line = Line::new(OUTCOME | DROPPED, 0, false);
        lock(&self.lines[0]).push(line.clone());
        line
    }

    /// Another timer is about to be armed on the line of one that has an outcome. Returns its
    /// number.
    pub(crate) fn open_again(&self, line: &Line, due_ns: u64) -> u32 {
        let number = self.opened.fetch_add(1, Relaxed);
        let before = line.word();
        if before & OUTCOME == 0 || before & DROPPED == 0 {
            self.fault(format_args!("its line has another timer soon: {line:?}"));
        }
        line.due_ns.store(due_ns, SeqCst);
        line.word.store(number << NUMBER_SHIFT, SeqCst);
        number as u32
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    pub(crate) fn fault(&self, what: fmt::Arguments<'_>) {
        if self.faults.fetch_add(1, SeqCst) < PRINTED_MAX {
            eprintln!("FAULT: {what}");
        }
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(SeqCst)
    }

    /// Sets flags in the line of a timer, if it has it and if `may_be` allows it.
    fn set(&self, line: &Line, number: u32, flags: u64, may_be: impl Fn(u64) -> bool) -> bool {
        let set = |word| {
            let is_its = (word >> NUMBER_SHIFT) as u32 == number;
            (is_its && may_be(word)).then_some(word | flags)
        };
        line.word.fetch_update(SeqCst, SeqCst, set).is_ok()
    }

    /// Sets flags of a timer for the first time. If it is not the first time, that is a fault.
    fn set_once(&self, line: &Line, number: u32, mask: u64, flags: u64, what: &str) -> bool {
        let is_first = self.set(line, number, flags, |word| word & mask == 0);
        if !is_first {
            let what = format_args!("timer {number}: {what}, though its line says {line:?}");
            self.fault(what);
        }
        is_first
    }

    fn conclude(&self, line: &Line, number: u32, outcome: Outcome, flags: u64) -> bool {
        self.outcomes[outcome as usize - 1].fetch_add(1, Relaxed);
        let what = format!("{outcome:?}");
        self.set_once(line, number, OUTCOME, flags | outcome as u64, &what)
    }

    /// Notes the one outcome of the timer that has a line of its own.
    pub(crate) fn note(&self, line: &Line, outcome: Outcome) {
        self.conclude(line, line.number(), outcome, 0);
    }

    /// The payload of a timer is dropped: once.
    pub(crate) fn dropped(&self, line: &Line, number: u32) {
        self.set_once(line, number, DROPPED, DROPPED, "dropped");
    }

    /// The same as both where a payload is a number, at one instant: the line may have another
    /// timer then. Returns whether this is the first outcome.
    pub(crate) fn end(&self, line: &Line, number: u32, outcome: Outcome) -> bool {
        self.conclude(line, number, outcome, DROPPED)
    }

    /// A timer fires at this time. Whether it is the first one to do so, its end says.
    pub(crate) fn fires(&self, line: &Line, due_ns: u64, now_ns: u64) {
        if line.has(OVER) && !self.is_deferred {
            self.fault(format_args!("begins after cancel_and_wait: {line:?}"));
        }
        let early_ns = due_ns.saturating_sub(now_ns);
        if early_ns > 0 && !self.fires_all.load(SeqCst) {
            self.fault(format_args!("early by {early_ns} ns: {line:?}"));
        }
    }

    fn for_each(&self, mut f: impl FnMut(&Line)) {
        for stripe in &self.lines {
            lock(stripe).iter().for_each(|line| f(line));
        }
    }

    /// How many lines there are of that kind, and one of them.
    fn count(&self, is_so: impl Fn(&Line) -> bool) -> (u64, Option<String>) {
        let (mut count, mut example) = (0, None);
        self.for_each(|line| {
            if is_so(line) {
                count += 1;
                example.get_or_insert_with(|| format!("{line:?}"));
            }
        });
        (count, example)
    }

    /// How many payloads that were to fire before a time still exist, and one of them.
    pub(crate) fn missing(&self, before_ns: u64) -> (u64, Option<String>) {
        self.count(|line| {
            let is_near = line.due_ns() < before_ns && !line.has(UNSURE);
            is_near && !line.has(DROPPED) && !line.is_periodic
        })
    }

    /// How many periodic timers should have run before a time, and have not.
    pub(crate) fn overdue(&self, before_ns: u64) -> u64 {
        self.count(|line| line.is_periodic && line.due_ns() < before_ns)
            .0
    }

    /// How many timers have no outcome yet, without the periodic ones.
    pub(crate) fn pending(&self) -> u64 {
        self.count(|line| !line.has(OUTCOME) && !line.is_periodic).0
    }

    /// How many payloads still exist.
    pub(crate) fn alive(&self) -> u64 {
        self.count(|line| !line.has(DROPPED)).0
    }

    /// Looks at every line: its payload is dropped.
    pub(crate) fn check(&self) -> Totals {
        self.for_each(|line| {
            if !line.has(DROPPED) {
                self.fault(format_args!("never dropped: {line:?}"));
            }
        });
        self.totals()
    }

    pub(crate) fn totals(&self) -> Totals {
        let [fired, cancelled, refused, handed_back] =
            OUTCOMES.map(|outcome| self.outcomes[outcome as usize - 1].load(Relaxed));
        Totals {
            lines: self.opened(),
            periodic: self.periodic.load(Relaxed),
            fired,
            cancelled,
            refused,
            handed_back,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A timer that is due at once fires.
    fn fires(ledger: &Ledger, line: &Line, number: u32) -> bool {
        let due_ns = line.due_ns();
        let is_first = ledger.end(line, number, Outcome::Fired);
        if is_first {
            ledger.fires(line, due_ns, ledger.now_ns());
        }
        is_first
    }

    #[test]
    fn every_kind_of_fault_is_seen() {
        let ledger = Ledger::new(false);
        let line = ledger.blank();
        let first = ledger.open_again(&line, ledger.now_ns());
        assert_eq!((ledger.pending(), ledger.alive()), (1, 1));
        let fired = |line: &Line, number, faults, what: &str| {
            let is_first = fires(&ledger, line, number);
            assert_eq!(ledger.faults(), faults, "{what}");
            is_first
        };
        assert!(fired(&line, first, 0, "once"));
        assert_eq!((ledger.pending(), ledger.alive()), (0, 0));
        assert!(!fired(&line, first, 1, "twice"));
        let second = ledger.open_again(&line, ledger.now_ns());
        assert_eq!((second, ledger.alive(), ledger.faults()), (1, 1, 1));
        assert!(!fired(&line, first, 2, "of the timer before"));
        assert!(ledger.end(&line, second, Outcome::Cancelled));
        assert!(!fired(&line, second, 3, "after its cancel"));
        ledger.end(&line, second, Outcome::Cancelled);
        assert_eq!(ledger.faults(), 4, "cancelled twice");
        ledger.dropped(&line, second);
        assert_eq!(ledger.faults(), 5, "dropped twice");
        let early = ledger.open(ledger.after_ns(MINUTE), false);
        assert!(fired(&early, early.number(), 6, "early"));
        let late = ledger.open(ledger.now_ns(), false);
        late.ends();
        assert!(fired(&late, late.number(), 7, "over"));
        let kept = ledger.open(ledger.now_ns(), true);
        ledger.note(&kept, Outcome::Refused);
        ledger.open_again(&kept, 0);
        assert_eq!(ledger.faults(), 8, "its payload was there");
        let totals = ledger.check();
        assert_eq!(ledger.faults(), 9, "never dropped");
        assert_eq!((totals.lines, totals.periodic), (6, 1));
        assert_eq!((totals.fired, totals.cancelled, totals.refused), (6, 2, 1));
    }

    #[test]
    fn what_may_be_missed_is_what_was_surely_due() {
        let ledger = Ledger::new(false);
        let line = ledger.open(ledger.now_ns(), false);
        line.fires_from(ledger.after_ns(MINUTE));
        assert_eq!(ledger.missing(ledger.ago_ns(Duration::ZERO)).0, 0);
        line.fires_from(ledger.now_ns());
        std::thread::sleep(Duration::from_millis(1));
        let missing = [Duration::ZERO, MINUTE].map(|ago| ledger.missing(ledger.ago_ns(ago)).0);
        assert_eq!(missing, [1, 0], "lost");
        line.may_fire_from(0);
        assert_eq!(ledger.missing(ledger.now_ns()).0, 0, "perhaps moved later");
        let periodic = ledger.open(5, true);
        assert_eq!([5, 6].map(|before| ledger.overdue(before)), [0, 1]);
        periodic.fires_from(9);
        assert_eq!(ledger.overdue(9), 0, "it has run");
    }

    /// Where payloads go through a channel, `cancel_and_wait` does not wait for who receives them;
    /// and a stop that fires all fires before its time.
    #[test]
    fn what_is_allowed_is_no_fault() {
        let ledger = Ledger::new(true);
        let line = ledger.open(ledger.after_ns(MINUTE), false);
        line.ends();
        ledger.fires_all.store(true, SeqCst);
        assert!(fires(&ledger, &line, line.number()));
        assert_eq!((ledger.faults(), ledger.check().fired), (0, 1));
    }
}
