//! Expired: a value on its way out of a queue.

use super::key::Key;
use crate::time::Clock;
use std::time::Instant;

/// When a value comes, not rounded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    /// As the caller gave it.
    At(Instant),
    /// By the service's clock, of a delay that the caller gave. Most values are removed, and nobody
    /// asks for their instants.
    Ns(u64),
}

impl Deadline {
    pub(super) fn instant(self, clock: &Clock) -> Instant {
        match self {
            Self::At(instant) => instant,
            Self::Ns(at_ns) => clock.instant(at_ns),
        }
    }
}

/// A value of a queue.
#[derive(Debug)]
pub(super) struct Queued<T> {
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
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// Its deadline, as the caller gave it: not rounded.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The value.
    ///
    /// # Example
    /// See the [type](Self)'s.
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
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}
