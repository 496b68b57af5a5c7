//! What a thread does when many of its messages wait for their shard: wake it, or slow down.
//!
//! Only the rule, without the doorbell and the pause themselves: `Cells::ease` asks it.

use crate::lane::Backlog;

/// More messages than this in a lane wake a sleeping shard, whatever their deadlines. So the memory
/// of waiting messages is bounded.
const BACKLOG_MAX: u64 = 32_768;

/// More messages than this in a lane wake a shard that sleeps for longer than it ever naps. So what
/// was cancelled meanwhile does not wait for the next deadline, which may be hours away.
const UNSEEN_MAX: u64 = 1_024;

/// A shard that sleeps is also rung when a thread has sent its allowance this many times.
const OVERLOAD_MAX: u64 = 8;

/// Whether the shard is rung, if it sleeps.
fn must_ring(backlog: Backlog) -> bool {
    backlog.waiting() > BACKLOG_MAX || backlog.overload() >= OVERLOAD_MAX
}

/// Whether a thread with this backlog has to look after its shard: for one of the reasons below.
#[inline]
pub(in crate::engine) fn is_large(backlog: Backlog) -> bool {
    backlog.is_above(UNSEEN_MAX)
}

/// The tick by which the shard has to look at its messages, if it sleeps: as if one of them was due
/// then. `nap_end` gives a tick by which every nap has ended.
pub(in crate::engine) fn seen_by(backlog: Backlog, nap_end: impl FnOnce() -> u64) -> u64 {
    if must_ring(backlog) { 0 } else { nap_end() }
}

/// What the thread knows of its shard and of itself.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Situation {
    /// Whether the shard is awake, or naps.
    pub(in crate::engine) shard_is_awake: bool,
    pub(in crate::engine) is_on_manual_clock: bool,
    pub(in crate::engine) is_inside_job: bool,
}

/// Whether the shard may be behind this thread, and should not have its core (`company.rs`).
///
/// A shard that sleeps is not behind. On a manual clock no shard works meanwhile. A thread inside a
/// task may be the shard's.
pub(in crate::engine) fn is_ahead(situation: Situation) -> bool {
    situation.shard_is_awake && !situation.is_on_manual_clock && !situation.is_inside_job
}

/// How many times its allowance the thread has sent, for which it slows down. 0: it does not.
pub(in crate::engine) fn overload_to_ease(backlog: Backlog, situation: Situation) -> u64 {
    if is_ahead(situation) {
        backlog.overload()
    } else {
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ALLOWANCE: u64 = 2_048;
    const BUSY: Situation = Situation {
        shard_is_awake: true,
        is_on_manual_clock: false,
        is_inside_job: false,
    };

    fn backlog(waiting: u64) -> Backlog {
        Backlog::new(waiting, ALLOWANCE)
    }

    #[test]
    fn a_burst_of_a_few_allowances_does_not_ring() {
        for waiting in [0, ALLOWANCE, 7 * ALLOWANCE, 8 * ALLOWANCE - 1] {
            assert!(!must_ring(backlog(waiting)), "{waiting}");
        }
        assert!(must_ring(backlog(8 * ALLOWANCE)));
    }

    #[test]
    fn a_large_allowance_rings_by_the_messages_alone() {
        let with_most = |waiting| Backlog::new(waiting, 65_536);
        assert!(!must_ring(with_most(BACKLOG_MAX)));
        assert!(must_ring(with_most(BACKLOG_MAX + 1)));
    }

    #[test]
    fn a_thousand_messages_wake_a_shard_that_sleeps_for_long() {
        let by = |waiting| is_large(backlog(waiting)).then(|| seen_by(backlog(waiting), || 77));
        assert_eq!(by(UNSEEN_MAX), None);
        assert_eq!(by(UNSEEN_MAX + 1), Some(77));
        assert_eq!(by(8 * ALLOWANCE - 1), Some(77));
        assert_eq!(by(8 * ALLOWANCE), Some(0), "this wakes one that naps, too");
    }

    #[test]
    fn a_thread_slows_down_beyond_its_allowance() {
        assert!(is_ahead(BUSY));
        assert_eq!(overload_to_ease(backlog(ALLOWANCE - 1), BUSY), 0);
        assert_eq!(overload_to_ease(backlog(ALLOWANCE), BUSY), 1);
        assert_eq!(overload_to_ease(backlog(20 * ALLOWANCE), BUSY), 20);
    }

    #[test]
    fn a_thread_does_not_slow_down_for_a_shard_that_is_not_behind() {
        for situation in [
            Situation {
                shard_is_awake: false,
                ..BUSY
            },
            Situation {
                is_on_manual_clock: true,
                ..BUSY
            },
            Situation {
                is_inside_job: true,
                ..BUSY
            },
        ] {
            assert_eq!(overload_to_ease(backlog(20 * ALLOWANCE), situation), 0);
            assert!(!is_ahead(situation), "the shard need not leave its core");
        }
    }
}
