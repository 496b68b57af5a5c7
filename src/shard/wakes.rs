//! Wakes: how often a shard's thread woke up when its sleep was over, and how often late.
//!
//! The shard's thread alone touches it. A wake-up is late because the thread did not get its core:
//! others had it. Whoever chose the core looks at the two numbers from time to time.

/// A wake-up counts as late if it comes this much after the end of its sleep. Timers of the default
/// tick are then a tick later.
const LATE_NS: u64 = 1_000_000;

/// The wake-ups of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakes {
    /// Those at the end of a sleep. (Some sleeps end sooner, by a ring.)
    pub(crate) timed: u64,
    /// Those of them that were late.
    pub(crate) late: u64,
}

impl Wakes {
    /// Notes a wake-up at `now_ns`. `ends_ns` is when the sleep was to end.
    pub(super) fn note(&mut self, ends_ns: u64, now_ns: u64) {
        if let Some(late_ns) = now_ns.checked_sub(ends_ns) {
            self.timed += 1;
            self.late += u64::from(late_ns >= LATE_NS);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_counts_at_its_end_and_a_millisecond_makes_it_late() {
        let mut wakes = Wakes::default();
        let notes = [
            (5_000_000, 4_999_999, (0, 0)),
            (5_000_000, 5_000_000, (1, 0)),
            (5_000_000, 5_999_999, (2, 0)),
            (5_000_000, 6_000_000, (3, 1)),
            (u64::MAX, 6_000_000, (3, 1)),
        ];
        for (ends_ns, now_ns, (timed, late)) in notes {
            wakes.note(ends_ns, now_ns);
            assert_eq!(wakes, Wakes { timed, late });
        }
    }
}
