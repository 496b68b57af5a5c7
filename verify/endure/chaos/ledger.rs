//! Ledger: a line for each timer. What became of it, how often its payload was dropped, and the
//! time before which it must not fire.
//!
//! It is none of `million`'s: there payloads are numbers, and a line is three flags, since noting
//! must cost next to nothing. Here whoever has a timer has its line, and outcomes are counted.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wheelwork_kit::lock::lock;

/// Faults that are printed; the others are counted.
const PRINTED_MAX: u64 = 20;

/// Locks of a ledger: threads that arm at the same time rarely meet.
const STRIPES: usize = 16;

/// What may become of a timer, as whoever brings it about tells. A timer that a stop, `cancel_all`,
/// `cancel_many` or a guard ended has none of these: how many they are, the service has counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Fired,
    Cancelled,
    Refused,
}

const OUTCOMES: [Outcome; 3] = [Outcome::Fired, Outcome::Cancelled, Outcome::Refused];

/// One timer.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) is_periodic: bool,
    /// Nanoseconds since the ledger's start.
    not_before_ns: AtomicU64,
    outcomes: [AtomicU8; OUTCOMES.len()],
    drops: AtomicU8,
    /// Somebody has moved it.
    is_moved: AtomicBool,
    /// How far it was moved is not known: `not_before_ns` is a bound, no more.
    is_unsure: AtomicBool,
    /// `cancel_and_wait` has returned: nothing of it may begin.
    pub(crate) is_over: AtomicBool,
}

impl Line {
    pub(crate) fn close(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, SeqCst);
    }

    pub(crate) fn dropped(&self) {
        self.drops.fetch_add(1, SeqCst);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.drops.load(SeqCst) > 0
    }

    fn count(&self, outcome: Outcome) -> u8 {
        self.outcomes[outcome as usize].load(SeqCst)
    }

    /// Before a move that may make it earlier.
    pub(crate) fn may_fire_from(&self, at_ns: u64) {
        self.is_moved.store(true, SeqCst);
        self.is_unsure.store(true, SeqCst);
        self.not_before_ns.fetch_min(at_ns, SeqCst);
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.is_moved.load(SeqCst)
    }

    /// After a move, by the only one who moves it.
    pub(crate) fn fires_from(&self, at_ns: u64) {
        self.not_before_ns.store(at_ns, SeqCst);
        self.is_unsure.store(false, SeqCst);
    }

    pub(crate) fn not_before_ns(&self) -> u64 {
        self.not_before_ns.load(SeqCst)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = OUTCOMES.map(|outcome| (outcome, self.count(outcome)));
        let (number, drops) = (self.number, self.drops.load(SeqCst));
        let kind = if self.is_periodic { "periodic " } else { "" };
        write!(
            f,
            "{kind}timer {number}: {counts:?}, payload dropped {drops} times"
        )
    }
}

/// The lines of one service, and what was found wrong with it.
pub(crate) struct Ledger {
    start: Instant,
    lines: [Mutex<Vec<Arc<Line>>>; STRIPES],
    opened: AtomicU64,
    faults: AtomicU64,
    /// Payloads go through a channel: `cancel_and_wait` knows nothing of who receives them.
    pub(crate) is_deferred: bool,
    /// `stop` fires what waits: whatever its deadline.
    pub(crate) fires_all: AtomicBool,
}

/// What the lines say in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) lines: u64,
    /// Periodic ones among them.
    pub(crate) periodic: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) refused: u64,
}

impl Ledger {
    pub(crate) fn new(is_deferred: bool) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            lines: Default::default(),
            opened: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            is_deferred,
            fires_all: AtomicBool::new(false),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn after_ns(&self, delay: Duration) -> u64 {
        u64::try_from(delay.as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(self.now_ns())
    }

    /// A line for a timer that is about to be armed.
    pub(crate) fn open(&self, not_before_ns: u64, is_periodic: bool) -> Arc<Line> {
        let number = self.opened.fetch_add(1, Relaxed);
        let line = Arc::new(Line {
            number,
            is_periodic,
            not_before_ns: AtomicU64::new(not_before_ns),
            ..Line::default()
        });
        lock(&self.lines[number as usize % STRIPES]).push(line.clone());
        line
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

    /// A timer fires.
    pub(crate) fn fires(&self, line: &Line) {
        if line.is_over.load(SeqCst) && !self.is_deferred {
            self.fault(format_args!("begins after cancel_and_wait: {line:?}"));
        }
        let early_ns = line.not_before_ns().saturating_sub(self.now_ns());
        if early_ns > 0 && !self.fires_all.load(SeqCst) {
            self.fault(format_args!("early by {early_ns} ns: {line:?}"));
        }
    }

    fn for_each(&self, mut f: impl FnMut(&Line)) {
        for stripe in &self.lines {
            lock(stripe).iter().for_each(|line| f(line));
        }
    }

    /// How many payloads that were to fire before a time still exist, and one of them.
    pub(crate) fn missing(&self, before_ns: u64) -> (u64, Option<String>) {
        let (mut missing, mut example) = (0, None);
        self.for_each(|line| {
            let is_near = line.not_before_ns() < before_ns && !line.is_unsure.load(SeqCst);
            if is_near && !line.is_dropped() && !line.is_periodic {
                missing += 1;
                example.get_or_insert_with(|| format!("{line:?}"));
            }
        });
        (missing, example)
    }

    /// How many payloads still exist.
    pub(crate) fn alive(&self) -> u64 {
        let mut alive = 0;
        self.for_each(|line| alive += u64::from(!line.is_dropped()));
        alive
    }

    /// Checks every line: one outcome at the most, its payload dropped once.
    pub(crate) fn check(&self) -> Totals {
        let mut totals = Totals::default();
        self.for_each(|line| {
            let [fired, cancelled, refused] =
                OUTCOMES.map(|outcome| u64::from(line.count(outcome)));
            if fired + cancelled + refused > 1 || line.drops.load(SeqCst) != 1 {
                self.fault(format_args!("{line:?}"));
            }
            totals.fired += fired;
            totals.cancelled += cancelled;
            totals.refused += refused;
            totals.periodic += u64::from(line.is_periodic);
            totals.lines += 1;
        });
        totals
    }
}
