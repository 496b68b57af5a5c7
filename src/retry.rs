//! Retry: how often something that failed is tried again, and after which waits.

use crate::spread::random;
use crate::time::YEARS_30;
use std::time::Duration;

/// How often something that failed is tried again, and after which waits.
///
/// The longest wait after attempt n is `first * 2^(n - 1)`, or `cap` if that is less. The wait
/// itself is between half of the longest wait and all of it (jitter), so that callers that failed
/// together do not try again together. It is random, unless a [`key`](Self::key) decides.
///
/// Unless set otherwise there are 5 attempts. The first wait is at most 100 ms, and no wait is
/// longer than 10 s. All waits together take between 0.75 s and 1.5 s.
///
/// `future::retry`, of the feature `async`, follows it. In closures, use
/// [`wait_after`](Self::wait_after). The crate wheelwork-durable has a policy of this name and
/// these words for stored timers. Its defaults are longer, because its timers survive their
/// process.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::RetryPolicy;
///
/// let policy = RetryPolicy::new()
///     .first(Duration::from_millis(200))
///     .cap(Duration::from_secs(60))
///     .attempts(3);
/// let wait = policy.wait_after(2).expect("there is a third attempt");
/// assert!((Duration::from_millis(200)..=Duration::from_millis(400)).contains(&wait));
/// assert_eq!(policy.wait_after(3), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    first: Duration,
    cap: Duration,
    attempts: u32,
    key: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryPolicy {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: Duration::from_millis(100),
            cap: Duration::from_secs(10),
            attempts: 5,
            key: None,
        }
    }

    /// No attempt but the first.
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

    /// The number of attempts, the first one included. 0 counts as 1. [`u32::MAX`] has no end.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Lets the waits follow from a key: the same for the same key. For tests that are to be alike,
    /// and for callers that have a number of their own.
    ///
    /// # Example
    /// ```
    /// use wheelwork::RetryPolicy;
    ///
    /// let of_node = |number| RetryPolicy::new().key(number).wait_after(1);
    /// assert_eq!(of_node(7), of_node(7));
    /// assert_ne!(of_node(7), of_node(8));
    /// ```
    #[must_use]
    pub const fn key(mut self, key: u64) -> Self {
        self.key = Some(key);
        self
    }

    /// The longest wait before any attempt, which [`cap`](Self::cap) has set.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.cap
    }

    /// The wait after this number of attempts, which all failed. `None`: there is no further one.
    /// 0 counts as 1.
    #[must_use]
    pub fn wait_after(&self, attempts: u32) -> Option<Duration> {
        let attempts = attempts.max(1);
        if attempts >= self.attempts && self.attempts < u32::MAX {
            return None;
        }
        // (A hundred doublings are more than a `Duration` has room for, but of zero.)
        let doubled = (1..attempts.min(100))
            .try_fold(self.first, |wait, _| wait.checked_mul(2))
            .unwrap_or(Duration::MAX);
        // (So that the product below is a `Duration`, whatever it rounds to.)
        let longest = doubled.min(self.cap).min(YEARS_30);
        let key = self.key.unwrap_or_else(random);
        let wait = longest.mul_f64(0.5 + 0.5 * share(key, attempts));
        Some(wait.min(longest))
    }
}

/// A number from 0 to 1 that looks random: the mixing function of splitmix64 (Steele et al. 2014).
fn share(key: u64, attempts: u32) -> f64 {
    let mut x = key ^ u64::from(attempts) << 48;
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_double_up_to_the_cap_and_end() {
        let policy = RetryPolicy::new()
            .first(100 * MS)
            .cap(1_000 * MS)
            .attempts(9);
        for key in 0..1_000 {
            for policy in [policy, policy.key(key)] {
                for (attempts, longest) in [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]
                    .into_iter()
                    .enumerate()
                {
                    let wait = policy.wait_after(attempts as u32 + 1).unwrap();
                    let longest = longest * MS;
                    assert!(
                        (longest / 2..=longest).contains(&wait),
                        "{attempts} {wait:?}"
                    );
                }
                assert_eq!(policy.wait_after(9), None);
                assert_eq!(policy.wait_after(u32::MAX), None);
                assert_eq!(policy.key(key).wait_after(0), policy.key(key).wait_after(1));
            }
        }
    }

    #[test]
    fn waits_are_spread_evenly() {
        let first = RetryPolicy::new().first(1_000 * MS);
        for random in [true, false] {
            let mut tenths = [0; 10];
            for key in 0..10_000 {
                let policy = if random { first } else { first.key(key) };
                let wait = policy.wait_after(1).unwrap() - 500 * MS;
                tenths[(wait.as_millis() / 50).min(9) as usize] += 1;
            }
            // 1,000 each, with a standard deviation of 30.
            assert!(
                tenths.iter().all(|count| (800..=1_200).contains(count)),
                "{tenths:?}"
            );
        }
    }

    #[test]
    fn any_policy_has_an_answer() {
        let endless = RetryPolicy::new().attempts(u32::MAX);
        for attempts in [1, 32, 33, 34, u32::MAX] {
            let none = endless.first(Duration::ZERO);
            assert_eq!(none.wait_after(attempts), Some(Duration::ZERO));
        }
        let hour = 3_600_000 * MS;
        let late = endless.first(Duration::from_nanos(1)).cap(hour);
        for (attempts, longest) in [(34, Duration::from_nanos(1 << 33)), (45, hour)] {
            let wait = late.wait_after(attempts).unwrap();
            assert!((longest / 2..=longest).contains(&wait), "{wait:?}");
        }
        assert!(endless.wait_after(u32::MAX).unwrap() <= Duration::from_secs(10));
        let longest = endless.first(Duration::MAX).cap(Duration::MAX);
        assert!(longest.wait_after(1).unwrap() >= YEARS_30 / 2);
        assert!(longest.first(MS).wait_after(u32::MAX).unwrap() >= YEARS_30 / 2);
        let none = RetryPolicy::new().first(Duration::ZERO);
        assert_eq!(none.wait_after(1), Some(Duration::ZERO));
        assert_eq!(RetryPolicy::never().wait_after(1), None);
        assert_eq!(RetryPolicy::new().attempts(0), RetryPolicy::never());
    }
}
