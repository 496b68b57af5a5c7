//! Expired: a value on its way out of a queue.

use super::key::Key;
use std::time::{Duration, Instant};

/// When a value comes, not rounded: nanoseconds after an instant, the base of its queue. Half as
/// large as an `Instant`: a million values are more than the processor's caches hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(i64);

impl Deadline {
    /// A time by the service's clock, if the base is its origin.
    #[inline]
    pub(super) fn of_ns(at_ns: u64) -> Self {
        Self(i64::try_from(at_ns).unwrap_or(i64::MAX))
    }

    /// Any instant. At most 292 years before or after the base.
    #[cold]
    pub(super) fn of_instant(at: Instant, base: Instant) -> Self {
        let between = |earlier: Instant, later: Instant| {
            let between = later.saturating_duration_since(earlier).as_nanos();
            i64::try_from(between).unwrap_or(i64::MAX)
        };
        Self(between(base, at) - between(at, base))
    }

    /// What is left of a paused value, in the place of its deadline.
    pub(super) fn of_left(left: Duration) -> Self {
        Self(i64::try_from(left.as_nanos()).unwrap_or(i64::MAX))
    }

    /// What `of_left` took.
    pub(super) fn as_left(self) -> Duration {
        Duration::from_nanos(self.0.unsigned_abs())
    }

    pub(super) fn instant(self, base: Instant) -> Instant {
        let distance = Duration::from_nanos(self.0.unsigned_abs());
        let instant = if self.0 < 0 {
            base.checked_sub(distance)
        } else {
            base.checked_add(distance)
        };
        instant.unwrap_or(base)
    }
}

/// A value of a queue.
#[derive(Debug)]
pub(super) struct Queued<T> {
    /// Of a paused value, what is left.
    pub(super) deadline: Deadline,
    pub(super) value: T,
}

/// A value that came out of a [`DelayQueue`](super::DelayQueue), with the key and the deadline that
/// it had there. The key names no value any more.
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
/// use wheelwork::future::DelayQueue;
///
/// # futures_lite::future::block_on(async {
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("a session", Duration::from_millis(2));
/// let expired = queue.next().await.unwrap();
/// assert_eq!((expired.key(), *expired.get_ref()), (key, "a session"));
/// assert!(expired.deadline() <= Instant::now());
/// assert_eq!(expired.into_inner(), "a session");
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Expired<T> {
    key: Key,
    deadline: Instant,
    value: T,
}

impl<T> Expired<T> {
    pub(super) fn new(key: Key, deadline: Instant, value: T) -> Self {
        Self {
            key,
            deadline,
            value,
        }
    }

    /// The key that it had.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// Its deadline, as the caller gave it: not rounded.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The value.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value, to change it.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert(1, Duration::ZERO);
    /// let mut tries = queue.next().await.unwrap();
    /// *tries.get_mut() += 1;
    /// queue.insert(tries.into_inner(), Duration::from_secs(1));
    /// # });
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value alone.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_kept_to_the_nanosecond() {
        assert_eq!(size_of::<Queued<u64>>(), 16);
        let base = Instant::now();
        for ns in [
            0,
            1,
            999_999_999,
            1_000_000_000,
            30 * 31_557_600 * 1_000_000_000,
        ] {
            let distance = Duration::from_nanos(ns);
            let later = base + distance;
            assert_eq!(Deadline::of_instant(later, base).instant(base), later);
            assert_eq!(Deadline::of_ns(ns).instant(base), later);
            // (Not each system has instants of 30 years ago.)
            if let Some(earlier) = base.checked_sub(distance) {
                assert_eq!(Deadline::of_instant(earlier, base).instant(base), earlier);
            }
        }
        assert_eq!(Deadline::of_ns(u64::MAX).0, i64::MAX);
        if let Some(last) = base.checked_add(Duration::from_secs(10_000_000_000)) {
            assert_eq!(Deadline::of_instant(last, base).0, i64::MAX);
        }
    }
}
