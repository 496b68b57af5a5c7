//! Watchdog: notices shards that take no turn although they should.
//!
//! A thread of its own, which runs only if the builder's `on_stall` was called.
//!
//! # How it works
//!
//! The watchdog looks at every shard twice in each threshold. It reads figures that a shard has in
//! any case, so a watched shard pays nothing:
//!
//! - the tick until which the shard has announced to sleep, in its doorbell;
//! - the shard's number of turns.
//!
//! A shard that announced its sleep is overdue from the end of the sleep. A shard that is awake (in
//! a turn, in a nap, or rung and not yet scheduled) is overdue from when the watchdog first saw it
//! awake: up to half a threshold late.

use crate::engine::Engine;
use crate::shard::Count;
use crate::sync::park;
use crate::time::Tick;
use std::time::Duration;

/// The shortest threshold. A shard naps for a millisecond without an announcement, and systems wake
/// threads late.
pub(crate) const THRESHOLD_MIN: Duration = Duration::from_millis(10);

/// What the watchdog last saw of a shard.
struct Watched {
    turns: u64,
    /// When its announced sleep ends. `None`: the shard is awake.
    sleeps_until_ns: Option<u64>,
    /// Since when turns and sleep are unchanged.
    since_ns: u64,
    /// Whether the hook was called for this stall.
    is_reported: bool,
}

impl Watched {
    const fn new(now_ns: u64) -> Self {
        Self {
            turns: 0,
            sleeps_until_ns: None,
            since_ns: now_ns,
            is_reported: false,
        }
    }

    /// Looks again. Returns by how much the shard is overdue if that is above the threshold, once
    /// for each stall.
    fn look(
        &mut self,
        now_ns: u64,
        turns: u64,
        sleeps_until_ns: Option<u64>,
        threshold_ns: u64,
    ) -> Option<u64> {
        if (turns, sleeps_until_ns) != (self.turns, self.sleeps_until_ns) {
            let is_reported = self.is_reported && turns == self.turns;
            *self = Self {
                turns,
                sleeps_until_ns,
                since_ns: now_ns,
                is_reported,
            };
        }
        let overdue_ns = now_ns.saturating_sub(self.sleeps_until_ns.unwrap_or(self.since_ns));
        if self.is_reported || overdue_ns <= threshold_ns {
            return None;
        }
        self.is_reported = true;
        Some(overdue_ns)
    }
}

/// Watches the shards until the service is stopped.
pub(crate) fn run<T: Send + 'static>(engine: &Engine<T>, threshold_ns: u64) {
    let shared = &engine.cells.shared;
    let mut shards: Vec<_> = (0..shared.shards())
        .map(|_| Watched::new(engine.clock.now_ns()))
        .collect();
    let look = || {
        for (number, watched) in shards.iter_mut().enumerate() {
            let sleeps_until_ns = shared
                .bell(number)
                .sleeps_until()
                .map(|tick| engine.tick.start(Tick(tick)).0);
            let turns = engine.counters[number].get(Count::Turns);
            // The time is read last: it is not before what was seen.
            if let Some(overdue_ns) =
                watched.look(engine.clock.now_ns(), turns, sleeps_until_ns, threshold_ns)
            {
                engine.stalls[number].add(1);
                engine.hooks.stalled(number, overdue_ns);
            }
        }
    };
    let rest = || park(Some(Duration::from_nanos(threshold_ns / 2)));
    look_until(|| shared.is_stopped(), look, rest);
}

/// Looks, and rests after each look, until stopped. `look` calls the hook, which may park, and so
/// use up the unpark of a stop that comes meanwhile. So there is no rest after such a stop.
fn look_until(is_stopped: impl Fn() -> bool, mut look: impl FnMut(), rest: impl Fn()) {
    while !is_stopped() {
        look();
        if !is_stopped() {
            rest();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    const THRESHOLD_NS: u64 = 100;

    #[test]
    fn a_stop_during_a_look_is_seen_before_the_rest() {
        let (looks, rests) = (Cell::new(0), Cell::new(0));
        // The hook of the second look takes the unpark of a stop: a rest would be a whole one.
        look_until(
            || looks.get() == 2,
            || looks.set(looks.get() + 1),
            || rests.set(rests.get() + 1),
        );
        assert_eq!((looks.get(), rests.get()), (2, 1));
    }

    #[test]
    fn an_announced_sleep_is_overdue_from_its_end() {
        let mut shard = Watched::new(0);
        let mut look = |now_ns, turns, until_ns| shard.look(now_ns, turns, until_ns, THRESHOLD_NS);
        assert_eq!(look(10, 1, Some(1_000)), None);
        assert_eq!(look(900, 1, Some(1_000)), None);
        assert_eq!(look(1_100, 1, Some(1_000)), None);
        assert_eq!(look(1_101, 1, Some(1_000)), Some(101));
        assert_eq!(look(5_000, 1, Some(1_000)), None, "once");
        assert_eq!(look(5_000, 1, None), None);
        assert_eq!(
            look(5_500, 1, None),
            None,
            "it was rung, and has taken no turn: one stall"
        );
        assert_eq!(look(5_600, 2, Some(6_000)), None);
        assert_eq!(look(6_200, 2, Some(6_000)), Some(200), "another one");
    }

    #[test]
    fn a_turn_is_overdue_from_when_it_was_seen() {
        let mut shard = Watched::new(0);
        let mut look = |now_ns, turns, until_ns| shard.look(now_ns, turns, until_ns, THRESHOLD_NS);
        assert_eq!(look(50, 7, None), None);
        assert_eq!(look(100, 8, None), None);
        assert_eq!(look(200, 8, None), None);
        assert_eq!(look(201, 8, None), Some(101));
        // A long sleep, a ring, and a turn that has not come yet.
        assert_eq!(look(300, 9, Some(u64::MAX)), None);
        assert_eq!(look(1_000_000, 9, Some(u64::MAX)), None);
        assert_eq!(look(1_000_050, 9, None), None);
        assert_eq!(look(1_000_100, 10, None), None);
    }

    #[test]
    fn a_thread_that_never_comes_is_overdue() {
        let mut shard = Watched::new(500);
        assert_eq!(shard.look(600, 0, None, THRESHOLD_NS), None);
        assert_eq!(shard.look(650, 0, None, THRESHOLD_NS), Some(150));
    }
}
