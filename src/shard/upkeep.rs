//! Upkeep: when a shard maintains the arena. The arena does not report freed cells.

use crate::cell::Maintenance;

/// The time from the first activity after the last upkeep to the next upkeep.
const AFTER_NS: u64 = 250_000_000;

/// A shard's plan for the arena's upkeep.
pub(super) struct Upkeep {
    next: Maintenance,
    /// Whether there was activity since the next upkeep was planned.
    active: bool,
}

impl Upkeep {
    pub(super) const fn new() -> Self {
        Self {
            next: Maintenance::Done,
            active: false,
        }
    }

    /// Notes whether a turn was active. To be called for each turn.
    pub(super) fn note(&mut self, is_active: bool) {
        self.active |= is_active;
    }

    /// Calls `maintain` if it is time for it. Returns when to call `run` again, in nanoseconds
    /// since the clock's origin. `u64::MAX`: after the next activity.
    pub(super) fn run(&mut self, now_ns: u64, maintain: impl FnOnce(u64) -> Maintenance) -> u64 {
        match self.next {
            Maintenance::Done if std::mem::take(&mut self.active) => {
                self.next = Maintenance::At(now_ns + AFTER_NS)
            }
            Maintenance::Done => {}
            Maintenance::At(at_ns) if now_ns < at_ns => {}
            _ => self.next = maintain(now_ns),
        }
        match self.next {
            Maintenance::Done => u64::MAX,
            Maintenance::Soon => now_ns + 1,
            Maintenance::At(at_ns) => at_ns,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Activity in a turn that leaves more to do, or while an upkeep is planned, leads to another
    /// upkeep.
    #[test]
    fn every_activity_is_followed_by_an_upkeep() {
        let mut upkeep = Upkeep::new();
        let never = |_| -> Maintenance { unreachable!("not yet") };
        assert_eq!(upkeep.run(0, never), u64::MAX, "nothing has happened");
        upkeep.note(true);
        upkeep.note(false);
        assert_eq!(upkeep.run(10, never), 10 + AFTER_NS);
        upkeep.note(true);
        assert_eq!(upkeep.run(20, never), 10 + AFTER_NS);
        assert_eq!(upkeep.run(10 + AFTER_NS, |_| Maintenance::Done), u64::MAX);
        let second = upkeep.run(300_000_000, never);
        assert_eq!(
            second,
            300_000_000 + AFTER_NS,
            "activity before the first upkeep"
        );
        assert_eq!(upkeep.run(second, |_| Maintenance::Soon), second + 1);
        assert_eq!(
            upkeep.run(second + 1, |now_ns| Maintenance::At(now_ns + 5)),
            second + 6
        );
        assert_eq!(upkeep.run(second + 6, |_| Maintenance::Done), u64::MAX);
        assert_eq!(upkeep.run(second + 7, never), u64::MAX);
    }
}
