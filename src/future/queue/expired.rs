//! Expired: a value on its way out of a queue.

use super::key::Key;
use std::time::Instant;

/// A value of a queue.
#[derive(Clone, Debug)]
pub(super) struct Queued<T> {
    /// As the caller gave it: not rounded.
    pub(super) deadline: Instant,
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
    queued: Queued<T>,
}

impl<T> Expired<T> {
    pub(super) fn new(key: Key, queued: Queued<T>) -> Self {
        Self { key, queued }
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
        self.queued.deadline
    }

    /// The value.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.queued.value
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
        &mut self.queued.value
    }

    /// The value alone.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.queued.value
    }
}
