//! A thread that arms, on a counter and an `Instant` that the test makes.

use super::*;
use std::cell::Cell;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Nanoseconds a count.
const PROCESS: Rate = Rate::of_2_32_counts((1 << 32) + 1);

/// A machine: what its clocks show, by the time that has passed.
struct Machine<F, G> {
    passed_ns: Cell<u64>,
    instant: F,
    counter: G,
}

/// What a thread's arming times were, in a stretch of time.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    early_ns: u64,
    late_ns: u64,
    /// By the counter.
    counted: u32,
    /// By `Instant`.
    read: u32,
}

impl<F: Fn(u64) -> u64, G: Fn(u64) -> u64> Machine<F, G> {
    fn new(instant: F, counter: G) -> Self {
        Self {
            passed_ns: Cell::new(0),
            instant,
            counter,
        }
    }

    /// A reading takes some nanoseconds.
    fn now_ns(&self) -> u64 {
        self.passed_ns.set(self.passed_ns.get() + 25);
        (self.instant)(self.passed_ns.get())
    }

    fn count(&self) -> u64 {
        self.passed_ns.set(self.passed_ns.get() + 10);
        (self.counter)(self.passed_ns.get())
    }

    /// Arms twice in a microsecond until so much time has passed.
    fn arm_until(&self, anchor: &mut Anchor, passed_ns: u64, is_broken: bool) -> Seen {
        let mut seen = Seen::default();
        while self.passed_ns.get() < passed_ns {
            self.passed_ns.set(self.passed_ns.get() + 450);
            let before_ns = (self.instant)(self.passed_ns.get());
            let time_ns = if let Some(time_ns) = anchor.time_ns(self.count()) {
                seen.counted += 1;
                time_ns
            } else {
                if is_broken && matches!(anchor.watch, Watch::Agrees { .. }) {
                    // It has nothing to hold the next pair against.
                    let base = Pair::read(|| self.now_ns(), || self.count());
                    let rate = PROCESS;
                    anchor.watch = Watch::Agrees { base, rate };
                }
                seen.read += 1;
                anchor.renew(PROCESS, || self.now_ns(), || self.count())
            };
            let after_ns = (self.instant)(self.passed_ns.get());
            seen.early_ns = seen.early_ns.max(before_ns.saturating_sub(time_ns));
            seen.late_ns = seen.late_ns.max(time_ns.saturating_sub(after_ns));
        }
        seen
    }
}

/// Time by which a clock that runs faster by one in `part`, from `from_ns` to `to_ns`, is ahead.
fn slewed(passed_ns: u64, part: u64, from_ns: u64, to_ns: u64) -> u64 {
    passed_ns + passed_ns.clamp(from_ns, to_ns).saturating_sub(from_ns) / part
}

#[test]
fn a_counter_that_agrees_is_used_and_nothing_is_early() {
    let machine = Machine::new(|ns| ns, |ns| ns + 7);
    let mut anchor = Anchor::default();
    let new = machine.arm_until(&mut anchor, MS, false);
    assert_eq!((new.counted, new.early_ns, new.late_ns), (0, 0, 0));
    let seen = machine.arm_until(&mut anchor, 200 * MS, false);
    assert!(seen.early_ns == 0 && seen.late_ns <= 2 * US, "{seen:?}");
    assert!(seen.read <= 201 && seen.counted > 300_000, "{seen:?}");
    assert_eq!(anchor.doubts, 0);
}

/// By a tenth, as fast as Linux slews, for 60 ms.
#[test]
fn a_clock_that_is_slewed_is_noticed_at_the_next_anchor() {
    for part in [10, 12, 100] {
        let (from_ns, to_ns) = (20 * MS + 300 * US, 80 * MS);
        let machine = Machine::new(|ns| slewed(ns, part, from_ns, to_ns), |ns| ns);
        let mut anchor = Anchor::default();
        assert_eq!(machine.arm_until(&mut anchor, from_ns, false).early_ns, 0);
        let first = machine.arm_until(&mut anchor, from_ns + 2 * MS, false);
        assert!(first.early_ns <= MS / part, "{first:?}");
        assert_eq!(anchor.doubts, 1);
        // The rate is measured again; after that the counter is used.
        let seen = machine.arm_until(&mut anchor, to_ns, false);
        assert!(seen.early_ns == 0 && seen.late_ns <= 2 * US, "{seen:?}");
        assert!(seen.counted > 40_000, "{seen:?}");
        assert_eq!(anchor.doubts, 1);
        // The slew ends: late for a millisecond, and then right, by the process's rate.
        let seen = machine.arm_until(&mut anchor, to_ns + 2 * MS, false);
        assert!(
            seen.early_ns == 0 && seen.late_ns <= MS / part + 2 * US,
            "{seen:?}"
        );
        let seen = machine.arm_until(&mut anchor, 200 * MS, false);
        assert!(seen.early_ns == 0 && seen.late_ns <= 2 * US, "{seen:?}");
        assert!(seen.counted > 100_000, "{seen:?}");
        assert_eq!(anchor.doubts, 2);
    }
}

#[test]
fn a_thread_that_begins_in_a_slew_is_never_early() {
    let machine = Machine::new(|ns| slewed(ns, 12, 0, u64::MAX), |ns| ns);
    let mut anchor = Anchor::default();
    let seen = machine.arm_until(&mut anchor, 100 * MS, false);
    assert!(seen.early_ns == 0 && seen.counted > 100_000, "{seen:?}");
}

/// As on a host of another rate.
#[test]
fn a_counter_of_another_rate_is_measured_again() {
    for (by, of) in [(1, 2), (3, 2), (9, 10)] {
        let counter = |ns: u64| ns.min(10 * MS) + ns.saturating_sub(10 * MS) * by / of;
        let machine = Machine::new(|ns| ns, counter);
        let mut anchor = Anchor::default();
        machine.arm_until(&mut anchor, 10 * MS, false);
        let first = machine.arm_until(&mut anchor, 12 * MS, false);
        assert!(first.early_ns <= MS, "{first:?}");
        let seen = machine.arm_until(&mut anchor, 200 * MS, false);
        assert!(seen.early_ns == 0 && seen.late_ns <= 2 * US, "{seen:?}");
        assert!(
            seen.counted > 100_000 && anchor.doubts == 1,
            "{seen:?} {anchor:?}"
        );
    }
}

/// A thread that the system moves each 3 ms between cores whose counters are 0.4 ms apart.
#[test]
fn counters_that_differ_by_core_are_used_ever_less() {
    let counter = |ns: u64| MS + ns - ns / (3 * MS) % 2 * 400 * US;
    let machine = Machine::new(|ns| ns, counter);
    let (mut anchor, mut early) = (Anchor::default(), 0);
    for ms in 1..=2_000 {
        let seen = machine.arm_until(&mut anchor, ms * MS, false);
        assert!(seen.early_ns <= 400 * US, "{seen:?}");
        early += u32::from(seen.early_ns > 0);
    }
    // Rests of 16 ms, 32 ms, and so on.
    assert!(early <= 2 * anchor.doubts && anchor.doubts <= 9, "{early}");
}

#[test]
fn a_pair_that_was_interrupted_is_no_anchor_and_shows_nothing() {
    // The thread loses its core for 5 us in each 8: most pairs are wide.
    let machine = Machine::new(
        |ns| ns + ns / (8 * US) * 5 * US,
        |ns| ns + ns / (8 * US) * 5 * US,
    );
    let mut anchor = Anchor::default();
    let seen = machine.arm_until(&mut anchor, 100 * MS, false);
    assert!(seen.early_ns == 0 && seen.counted > 0, "{seen:?}");
    assert_eq!(anchor.doubts, 0);
}

#[test]
fn broken_an_anchor_that_is_held_against_nothing_stays_early() {
    let machine = Machine::new(|ns| slewed(ns, 12, 20 * MS, u64::MAX), |ns| ns);
    let mut anchor = Anchor::default();
    machine.arm_until(&mut anchor, 60 * MS, true);
    let seen = machine.arm_until(&mut anchor, 100 * MS, true);
    assert!(seen.early_ns > 70 * US, "{seen:?}");
    assert_eq!(anchor.doubts, 0);
}
