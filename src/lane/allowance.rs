//! Allowance: how many messages of a track may wait for the shard before the track's producer is
//! slowed down.
//!
//! A shard has one `Allowance` for its inbox, which notes how long the shard needs for a message. A
//! message that is due soon waits behind those that were sent before it, so what counts is time.
//! Where many threads share a core, the shard gets little of the core and needs longer for each
//! message. Then the allowance is smaller.

/// The greatest allowance of a track, in messages.
pub(super) const MAX: u64 = 65_536;

/// The least allowance of a track. A producer learns of its backlog only once in 256 messages.
pub(super) const MIN: u64 = 2_048;

/// The allowance of all tracks together is what the shard takes in within this time.
const TIME_NS: u64 = 400_000;

/// Each of `n` tracks has at least this number divided by `n * n`. With few tracks a large
/// allowance needs little memory, and slows threads down less often.
const FEW: u64 = 2 * MAX;

/// Drains of fewer messages say nothing of the rate.
const DRAIN_MIN: u64 = 4_096;

/// Each drain counts for one part in this many of the rate.
const DRAINS: u64 = 8;

pub(super) struct Allowance {
    /// Messages that were taken in, and the time that this took, both for some eight drains.
    messages: u64,
    time_ns: u64,
}

impl Allowance {
    pub(super) const fn new() -> Self {
        Self {
            messages: 0,
            time_ns: 0,
        }
    }

    /// Notes that a drain has taken this number of messages in, and the time for it.
    pub(super) fn note(&mut self, messages: u64, time_ns: u64) {
        if messages >= DRAIN_MIN {
            self.messages = self.messages - self.messages / DRAINS + messages;
            self.time_ns = (self.time_ns - self.time_ns / DRAINS).saturating_add(time_ns);
        }
    }

    /// The allowance of each track, if this number of tracks is busy.
    pub(super) fn of_each(&self, tracks: u64) -> u64 {
        let tracks = tracks.max(1);
        let in_time =
            u128::from(self.messages) * u128::from(TIME_NS) / u128::from(self.time_ns.max(1));
        let all = if self.messages == 0 {
            2 * MAX
        } else {
            u64::try_from(in_time).unwrap_or(u64::MAX).min(2 * MAX)
        };
        (all / tracks).max(FEW / (tracks * tracks)).clamp(MIN, MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn few_tracks_have_much_and_many_share_what_the_shard_takes_in() {
        let mut allowance = Allowance::new();
        let each = |allowance: &Allowance| [0, 1, 2, 4, 8, 32, 1_000].map(|n| allowance.of_each(n));
        let before = [MAX, MAX, MAX, MAX / 2, MAX / 4, 4_096, MIN];
        assert_eq!(each(&allowance), before);
        // 100 messages a microsecond, and then 20.
        allowance.note(10_000, 100_000);
        allowance.note(DRAIN_MIN - 1, u64::MAX);
        assert_eq!(allowance.of_each(10), 4_000);
        (0..100).for_each(|_| allowance.note(20_000, 1_000_000));
        assert_eq!(
            each(&allowance),
            [MAX, MAX, MAX / 2, MAX / 8, MIN, MIN, MIN]
        );
        // It gets better at once.
        (0..16).for_each(|_| allowance.note(1_000_000, 1_000_000));
        assert!(allowance.of_each(32) > 4_000);
        // The clock stood still, or was held up for long.
        allowance.note(u64::from(u32::MAX), 0);
        allowance.note(DRAIN_MIN, u64::MAX);
        allowance.note(DRAIN_MIN, u64::MAX);
        assert_eq!(allowance.of_each(100), MIN);
    }
}
