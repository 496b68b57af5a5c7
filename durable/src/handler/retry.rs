//! Retry: when a timer whose handler failed is tried again.

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
    first: Duration,
    cap: Duration,
    attempts: u32,
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
            first: Duration::from_secs(1),
            cap: Duration::from_secs(3_600),
            attempts: 25,
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
        self.first = wait;
        self
    }

    /// The longest wait before any attempt.
    #[must_use]
    pub const fn cap(mut self, wait: Duration) -> Self {
        self.cap = wait;
        self
    }

    /// The number of attempts, the first one included. After the last one the timer is a dead
    /// letter. 0 counts as 1. If the number was lowered, a timer that has had as many attempts
    /// already gets one more.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// How often the process may crash, or be killed, while the timer is on trial alone. After the
    /// last of these crashes the timer becomes a dead letter ([`Cause::Crashed`]) in place of its
    /// next trial. Unless set: 5. 0 counts as 1.
    ///
    /// After a crash a timer is a suspect if its handler may have been running. Suspects run after
    /// all other timers that are due, first in groups. If the process crashes again, that counts as
    /// a crash of each timer of the group, but not towards this number. After that these timers run
    /// one at a time. Each waits for a second after the start, and twice as long after each further
    /// crash, up to a minute. So a timer that crashes its process each time does so once unnoticed,
    /// once in a group, and this number of times alone.
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
        if attempts >= self.attempts {
            return None;
        }
        let doubled = 1_u32
            .checked_shl(attempts.saturating_sub(1))
            .and_then(|times| self.first.checked_mul(times))
            .unwrap_or(Duration::MAX);
        let longest = doubled.min(self.cap);
        Some(
            longest
                .mul_f64(0.5 + 0.5 * share(id, attempts))
                .min(longest),
        )
    }

    /// The longest wait before any attempt.
    #[cfg(feature = "calendar")]
    pub(crate) const fn longest(&self) -> Duration {
        self.cap
    }

    /// Whether a timer with this number of crashes has crashed the process too often. The first of
    /// its crashes was that of a group, and does not count.
    pub(crate) const fn has_crashed_out(&self, crashes: u32) -> bool {
        crashes > self.crash_attempts
    }
}

/// A number from 0 to 1 that looks random: the mixing function of splitmix64 (Steele et al. 2014).
fn share(id: DurableId, attempts: u32) -> f64 {
    let bits = id.to_bits();
    let mut x = (bits as u64) ^ ((bits >> 64) as u64).rotate_left(32) ^ u64::from(attempts) << 48;
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
