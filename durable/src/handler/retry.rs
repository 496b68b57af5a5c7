//! Retry: when a timer whose handler failed is tried again. wheelwork's policy has the waits.

use crate::store::row::DurableId;
use std::time::Duration;

/// When a timer whose handler failed is tried again, and how often.
///
/// The longest wait before attempt n + 1 is `first * 2^(n - 1)`, or `cap` if that is less. The wait
/// itself is between half of the longest wait and all of it (jitter), so that timers that failed
/// together are not tried again together. The timer's id and the attempt alone decide how long it
/// is.
///
/// Unless set otherwise there are 25 attempts. The wait before the second one is at most 1 s, and
/// no wait is longer than 1 h. All waits together take about ten hours: at least 6.6, and at most
/// 13.1.
///
/// Crashes of the process are counted separately: see [`crash_attempts`](Self::crash_attempts).
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::RetryPolicy;
///
/// let policy = RetryPolicy::new()
///     .first(Duration::from_millis(200))
///     .cap(Duration::from_secs(60))
///     .attempts(5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    waits: wheelwork::RetryPolicy,
    crash_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryPolicy {
    /// The policy of kinds for which none was set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            waits: wheelwork::RetryPolicy::new()
                .first(Duration::from_secs(1))
                .cap(Duration::from_secs(3_600))
                .attempts(25),
            crash_attempts: 5,
        }
    }

    /// No attempt but the first: a timer whose handler fails becomes a dead letter at once. A crash
    /// of the process is no failure. A timer whose handler may have been running then is handed out
    /// again, up to [`crash_attempts`](Self::crash_attempts).
    #[must_use]
    pub const fn never() -> Self {
        Self::new().attempts(1)
    }

    /// The longest wait before the second attempt.
    #[must_use]
    pub const fn first(mut self, wait: Duration) -> Self {
        self.waits = self.waits.first(wait);
        self
    }

    /// The longest wait before any attempt.
    #[must_use]
    pub const fn cap(mut self, wait: Duration) -> Self {
        self.waits = self.waits.cap(wait);
        self
    }

    /// The number of attempts, the first one included. After the last one the timer is a dead
    /// letter. 0 counts as 1. If the number was lowered, a timer that has had as many attempts
    /// already gets one more.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.waits = self.waits.attempts(attempts);
        self
    }

    /// How often the process may crash, or be killed, while the timer is on trial alone. After the
    /// last of these crashes the timer becomes a dead letter ([`Cause::Crashed`]) in place of its
    /// next trial. Unless set: 5. 0 counts as 1.
    ///
    /// After a crash a timer is a suspect if its handler may have been running. Suspects begin
    /// after the other timers that are due (but get a place of `max_calls` in the order of
    /// deadlines), first in groups. If the process crashes again, that counts as a crash of each
    /// timer of the group, but not towards this number. After that these timers run one at a time.
    /// Each waits for a second after the start, and twice as long after each further crash, up to a
    /// minute. So a timer that crashes its process each time does so once unnoticed, once in a
    /// group, and this number of times alone.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory, RetryPolicy};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on("render", |_| Ok(()))
    ///     .retry_policy_for("render", RetryPolicy::new().crash_attempts(2))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Cause::Crashed`]: crate::Cause::Crashed
    #[must_use]
    pub const fn crash_attempts(mut self, crashes: u32) -> Self {
        self.crash_attempts = if crashes == 0 { 1 } else { crashes };
        self
    }

    /// The wait after this number of attempts; `None`: it was the last one.
    pub(crate) fn wait_after(&self, attempts: u32, id: DurableId) -> Option<Duration> {
        self.waits.key(key_of(id)).wait_after(attempts)
    }

    /// The longest wait before any attempt.
    #[cfg(feature = "calendar")]
    pub(crate) const fn longest(&self) -> Duration {
        self.waits.longest()
    }

    /// Whether a timer with this number of crashes has crashed the process too often. The first of
    /// its crashes was that of a group, and does not count.
    pub(crate) const fn has_crashed_out(&self, crashes: u32) -> bool {
        crashes > self.crash_attempts
    }
}

/// The number of a timer that decides its waits.
const fn key_of(id: DurableId) -> u64 {
    let bits = id.to_bits();
    (bits as u64) ^ ((bits >> 64) as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored timers wait for their next attempt: another version must not change their waits.
    #[test]
    fn the_waits_of_an_id_stay_as_they_are() {
        let waits = |bits| {
            let id = DurableId::from_bits(bits);
            [1, 2, 3].map(|attempts| RetryPolicy::new().wait_after(attempts, id).unwrap())
        };
        let millis = |waits: [Duration; 3]| waits.map(|wait| wait.as_millis());
        assert_eq!(millis(waits(1)), [501, 1_539, 3_616]);
        let other = waits(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        assert_eq!(millis(other), [761, 1_242, 3_872]);
        let last = RetryPolicy::new().wait_after(25, DurableId::from_bits(1));
        assert_eq!(last, None);
    }
}
