//! Upkeep: when a shard looks after the arena, which does not say when cells are freed.

use crate::cell::Maintenance;

/// The arena is looked at so long after the first activity that followed its last upkeep.
const AFTER_NS: u64 = 250_000_000;

pub(super) struct Upkeep {
    next: Maintenance,
    /// Whether anything happened since the last activity that led to a look.
    active: bool,
}

impl Upkeep {
    pub(super) const fn new() -> Self {
        Self { next: Maintenance::Done, active: false }
    }

    /// To be called for each turn, whatever else it leaves to do.
    pub(super) fn note(&mut self, is_active: bool) {
        self.active |= is_active;
    }

    /// Calls `maintain` if it is time for it. Returns when to call again, in nanoseconds since the clock's origin; `u64::MAX`: when something has happened.
    pub(super) fn run(&mut self, now_ns: u64, maintain: impl FnOnce(u64) -> Maintenance) -> u64 {
        match self.next {
            Maintenance::Done if std::mem::take(&mut self.active) => self.next = Maintenance::At(now_ns + AFTER_NS),
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

    /// What is drained in a turn that leaves more to do, or while a look is awaited, leads to a look after it.
    #[test]
    fn every_activity_is_followed_by_a_look() {
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
        assert_eq!(second, 300_000_000 + AFTER_NS, "what came while the first was awaited");
        assert_eq!(upkeep.run(second, |_| Maintenance::Soon), second + 1);
        assert_eq!(upkeep.run(second + 1, |now_ns| Maintenance::At(now_ns + 5)), second + 6);
        assert_eq!(upkeep.run(second + 6, |_| Maintenance::Done), u64::MAX);
        assert_eq!(upkeep.run(second + 7, never), u64::MAX);
    }
}
