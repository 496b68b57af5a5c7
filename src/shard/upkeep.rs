//! Upkeep: when a shard maintains the arena, and shrinks its wheel. The arena does not report freed
//! cells.

use crate::cell::Maintenance;

/// The time from the first activity after the last upkeep to the next upkeep.
const AFTER_NS: u64 = 250_000_000;

/// A shard's plans for upkeep.
pub(super) struct Upkeep {
    /// Of the arena. The other shards rely on the time that it says.
    arena: Maintenance,
    /// Of the shard's wheel.
    wheel: Maintenance,
    /// Whether there was activity since the next upkeep was planned.
    active: bool,
}

impl Upkeep {
    pub(super) const fn new() -> Self {
        Self {
            arena: Maintenance::Done,
            wheel: Maintenance::Done,
            active: false,
        }
    }

    /// Notes whether a turn was active. To be called for each turn.
    pub(super) fn note(&mut self, is_active: bool) {
        self.active |= is_active;
    }

    /// Calls `maintain` and `shrink` if it is time for them. Returns when to call `run` again, in
    /// nanoseconds since the clock's origin. `u64::MAX`: after the next activity.
    pub(super) fn run(
        &mut self,
        now_ns: u64,
        maintain: impl FnOnce(u64) -> Maintenance,
        shrink: impl FnOnce(u64) -> Maintenance,
    ) -> u64 {
        let is_done = self.arena == Maintenance::Done && self.wheel == Maintenance::Done;
        if is_done && std::mem::take(&mut self.active) {
            let first = Maintenance::At(now_ns + AFTER_NS);
            (self.arena, self.wheel) = (first, first);
        }
        if time_of(self.arena, now_ns) <= now_ns {
            self.arena = maintain(now_ns);
        }
        if time_of(self.wheel, now_ns) <= now_ns {
            self.wheel = shrink(now_ns);
        }
        let next_ns = time_of(self.arena, now_ns).min(time_of(self.wheel, now_ns));
        next_ns.max(now_ns + 1)
    }
}

/// The time that a plan says.
fn time_of(plan: Maintenance, now_ns: u64) -> u64 {
    match plan {
        Maintenance::Done => u64::MAX,
        Maintenance::Soon => now_ns,
        Maintenance::At(at_ns) => at_ns,
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
        let run = |upkeep: &mut Upkeep, now_ns, maintain: &dyn Fn(u64) -> Maintenance| {
            upkeep.run(now_ns, maintain, |_| Maintenance::Done)
        };
        assert_eq!(
            run(&mut upkeep, 0, &never),
            u64::MAX,
            "nothing has happened"
        );
        upkeep.note(true);
        upkeep.note(false);
        assert_eq!(run(&mut upkeep, 10, &never), 10 + AFTER_NS);
        upkeep.note(true);
        assert_eq!(run(&mut upkeep, 20, &never), 10 + AFTER_NS);
        let done = |_| Maintenance::Done;
        assert_eq!(run(&mut upkeep, 10 + AFTER_NS, &done), u64::MAX);
        let second = run(&mut upkeep, 300_000_000, &never);
        assert_eq!(
            second,
            300_000_000 + AFTER_NS,
            "activity before the first upkeep"
        );
        let soon = |_| Maintenance::Soon;
        assert_eq!(run(&mut upkeep, second, &soon), second + 1);
        let later = |now_ns| Maintenance::At(now_ns + 5);
        assert_eq!(run(&mut upkeep, second + 1, &later), second + 6);
        assert_eq!(run(&mut upkeep, second + 6, &done), u64::MAX);
        assert_eq!(run(&mut upkeep, second + 7, &never), u64::MAX);
    }

    /// The wheel is shrunk in steps, and the time that the arena has said is kept meanwhile.
    #[test]
    fn arena_and_wheel_have_plans_of_their_own() {
        let mut upkeep = Upkeep::new();
        let never = |_| -> Maintenance { unreachable!("not yet") };
        let soon = |_| Maintenance::Soon;
        let done = |_| Maintenance::Done;
        let after = |ns| move |now_ns| Maintenance::At(now_ns + ns);
        upkeep.note(true);
        assert_eq!(upkeep.run(0, never, never), AFTER_NS);
        assert_eq!(upkeep.run(AFTER_NS, after(100), soon), AFTER_NS + 1);
        upkeep.note(true);
        assert_eq!(upkeep.run(AFTER_NS + 1, never, soon), AFTER_NS + 2);
        assert_eq!(upkeep.run(AFTER_NS + 2, never, done), AFTER_NS + 100);
        assert_eq!(upkeep.run(AFTER_NS + 3, never, never), AFTER_NS + 100);
        let last = upkeep.run(AFTER_NS + 100, done, never);
        assert_eq!(last, u64::MAX);
        // The activity meanwhile.
        let second = upkeep.run(AFTER_NS + 101, never, never);
        assert_eq!(second, 2 * AFTER_NS + 101);
        assert_eq!(upkeep.run(second, done, after(7)), second + 7);
        assert_eq!(upkeep.run(second + 7, never, done), u64::MAX);
        assert_eq!(upkeep.run(second + 8, never, never), u64::MAX);
    }
}
