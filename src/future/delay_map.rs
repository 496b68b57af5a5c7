//! Delay map: values by key, each of which goes when its time has come.
//!
//! Each value lies in a [`DelayQueue`] with its key. A map has the place of each key's value there.
//! A value that has expired and was not given yet is no longer in the map for callers, but is in
//! the queue. If a new value comes for its key, the map has the place of the new one.

use super::queue::{DelayQueue, Expired, Key};
use super::timers::Timers;
use crate::engine::drops::Drops;
use futures_core::Stream;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A map whose values expire, each at a time of its own. It is for one task: a cache, sessions by
/// their numbers, peers by their addresses. It is also a stream of what has expired.
///
/// From its deadline on, a value is not found any more: [`get`](Self::get),
/// [`reset`](Self::reset) and [`remove`](Self::remove) return `None`. It then comes from
/// [`next`](Self::next), with its key, when a [`Sleep`](super::Sleep) with this deadline would be
/// ready. So each value leaves the map exactly once: by `remove`, by an [`insert`](Self::insert)
/// that replaces it, by [`clear`](Self::clear), or by `next`. While the map is empty, `next` gives
/// `None`.
///
/// Until it comes from `next`, a value that has expired takes memory, and counts in
/// [`len`](Self::len). So call `next` now and then, even if you do not need what has expired.
///
/// It is a [`DelayQueue`] with a `HashMap` beside it. It has one timer for all values. A key is
/// cloned once for each value: if that is dear, use an `Arc`.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::DelayMap;
///
/// # futures_lite::future::block_on(async {
/// const MINUTE: Duration = Duration::from_secs(60);
/// let mut sessions = DelayMap::new();
/// sessions.insert("alice", 1, MINUTE);
/// sessions.insert("bob", 2, Duration::from_millis(2));
/// // Alice has sent something.
/// assert_eq!(sessions.reset("alice", MINUTE), Some(&mut 1));
/// assert_eq!(sessions.next().await, Some(("bob", 2)));
/// assert_eq!(sessions.get("bob"), None);
/// assert_eq!(sessions.remove("alice"), Some(1));
/// # });
/// ```
///
/// With the same time for all values, and a `reset` at each use, the value that expires first is
/// the one that was not used for the longest time, to a tick. So a bound for a small cache is one
/// line, as long as nothing has expired: take what has before ([`next`](Self::next),
/// [`poll_expired`](Self::poll_expired)), because `remove` does not remove it. The bound costs a
/// [`peek`](Self::peek) for each value that comes:
/// ```
/// use std::time::Duration;
/// use wheelwork::future::DelayMap;
///
/// const HOUR: Duration = Duration::from_secs(3_600);
/// let mut cache = DelayMap::new();
/// for number in 0..1_000 {
///     cache.insert(number, "value", HOUR);
///     if cache.len() > 100 && let Some((&first, _)) = cache.peek() {
///         cache.remove(&first);
///     }
/// }
/// assert_eq!(cache.len(), 100);
/// ```
pub struct DelayMap<K, V> {
    /// Where each key's value lies. It may have expired.
    places: HashMap<K, Key>,
    /// All values, with their keys.
    queue: DelayQueue<(K, V)>,
}

impl<K: Hash + Eq + Clone, V> Default for DelayMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for DelayMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayMap")
            .field("len", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl Timers {
    /// A map whose values expire: see [`DelayMap`].
    ///
    /// # Example
    /// See [`DelayMap`].
    pub fn delay_map<K: Hash + Eq + Clone, V>(&self) -> DelayMap<K, V> {
        DelayMap::of(self.delay_queue())
    }
}

impl<K: Hash + Eq + Clone, V> DelayMap<K, V> {
    /// An empty map, with the shared service. The first use of that service starts its thread.
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    #[must_use]
    pub fn new() -> Self {
        Self::of(DelayQueue::new())
    }

    fn of(queue: DelayQueue<(K, V)>) -> Self {
        Self {
            places: HashMap::new(),
            queue,
        }
    }

    /// The place of a key's value, if that has not expired.
    fn place<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Key>
    where
        K: Borrow<Q>,
    {
        let place = *self.places.get(key)?;
        (!self.queue.is_over(place)).then_some(place)
    }

    /// Inserts a value that expires after `delay`. Returns the value that the key had, unless that
    /// has expired: then it comes from [`next`](Self::next) all the same. Amortized O(1).
    pub fn insert(&mut self, key: K, value: V, delay: Duration) -> Option<V> {
        let place = self.queue.insert((key.clone(), value), delay);
        let old = self.places.insert(key, place)?;
        if self.queue.is_over(old) {
            return None;
        }
        let (_, value) = self.queue.remove(old)?;
        Some(value)
    }

    /// The value of a key, if it has not expired. Costs a reading of the clock.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (_, value) = self.queue.get(self.place(key)?)?;
        Some(value)
    }

    /// Lets a key's value live for `delay` from now on, and returns it. `None` if there is none, or
    /// it has expired. Costs a reading of the clock and amortized O(1).
    pub fn reset<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, delay: Duration) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key)?;
        self.queue.reset(place, delay);
        let (_, value) = self.queue.get_mut(place)?;
        Some(value)
    }

    /// Removes a key's value and returns it. `None` if there is none, or it has expired: then it
    /// comes from [`next`](Self::next). Amortized O(1).
    ///
    /// If the map is empty afterwards, the task that waits is woken, and gets `None`.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key)?;
        self.places.remove(key);
        let (_, value) = self.queue.remove(place)?;
        Some(value)
    }

    /// When a key's value expires: the time that was given, not rounded. `None` if there is none,
    /// or it has expired.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut map = wheelwork::future::DelayMap::new();
    /// let begun = Instant::now();
    /// map.insert("key", 1, Duration::from_secs(60));
    /// assert!(map.deadline("key") >= Some(begun + Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn deadline<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.queue.deadline(self.place(key)?)
    }

    /// The key and the value that expire first, or have expired and come from
    /// [`next`](Self::next) first. Of several with one tick it is any.
    ///
    /// Costs what [`DelayQueue::peek`] does: it looks at all values of the wheel's first slot that
    /// has any. With the default tick, values that expire after the next multiple of 13 s since the
    /// service's start share a slot if they expire within the same 13 s. After the next multiple of
    /// 56 min they do if within the same 56 min, however soon that multiple comes; and so on with
    /// 9.9 days. If ten thousand share a slot, a call may look at ten thousand.
    #[must_use]
    pub fn peek(&self) -> Option<(&K, &V)> {
        let (key, value) = self.queue.get(self.queue.peek()?)?;
        Some((key, value))
    }

    /// The number of values, with those that have expired and have not come from
    /// [`next`](Self::next).
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the map has no values: [`len`](Self::len) is zero.
    ///
    /// # Example
    /// ```
    /// let mut map = wheelwork::future::DelayMap::new();
    /// map.insert("key", 1, std::time::Duration::MAX);
    /// assert!(!map.is_empty());
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Removes and drops all keys and values. If a task waits, it is woken and gets `None`. If
    /// drops panic, all are dropped, and the first panic goes on.
    pub fn clear(&mut self) {
        let mut drops = Drops::default();
        drops.add(self.places.drain());
        drops.add(std::iter::once_with(|| self.queue.clear()));
        drops.finish();
    }

    /// Waits for the next value to expire. `None` if the map is empty. If this future is dropped
    /// before it is ready, no value is lost.
    pub async fn next(&mut self) -> Option<(K, V)> {
        poll_fn(|context| self.poll_expired(context)).await
    }

    /// Returns the next value that has expired.
    ///
    /// # Example
    /// A cache that nothing waits for is cleared of what has expired now and then:
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let mut cache = wheelwork::future::DelayMap::new();
    /// cache.insert("key", 1, std::time::Duration::ZERO);
    /// let mut context = Context::from_waker(Waker::noop());
    /// while let Poll::Ready(Some((key, _))) = cache.poll_expired(&mut context) {
    ///     assert_eq!(key, "key");
    /// }
    /// assert!(cache.is_empty());
    /// ```
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        let expired = std::task::ready!(self.queue.poll_expired(context));
        Poll::Ready(expired.map(|expired| self.leave(expired)))
    }

    /// A value that has left the queue. A newer one may have its key by now.
    fn leave(&mut self, expired: Expired<(K, V)>) -> (K, V) {
        let place = expired.key();
        let (key, value) = expired.into_inner();
        if self.places.get(&key) == Some(&place) {
            self.places.remove(&key);
        }
        (key, value)
    }
}

impl<K: Hash + Eq + Clone + Unpin, V: Unpin> Stream for DelayMap<K, V> {
    type Item = (K, V);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        self.get_mut().poll_expired(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}
