//! Delay queue: values that come when their time has come.

use super::timers::{Home, Timers};
use super::waiting::Waiting;
use crate::sync::{Ordering, StaticU64};
use crate::time::nanos;
use crate::wheel::{Handle, Wheel};
use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Names one value of one [`DelayQueue`].
///
/// Plain `Copy` data of 16 bytes, safe to keep for ever. If its value is gone, or with another
/// queue, each call answers that there is no such value.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::DelayQueue;
///
/// let (mut queue, mut other) = (DelayQueue::new(), DelayQueue::new());
/// let key = queue.insert("mine", Duration::from_secs(60));
/// other.insert("another's", Duration::from_secs(60));
/// assert_eq!(other.remove(key), None);
/// assert_eq!(queue.remove(key), Some("mine"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    queue: u64,
    handle: Handle,
}

const _: () = assert!(size_of::<Option<Key>>() == 16);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}:{:?})", self.queue, self.handle)
    }
}

/// A number for each queue.
fn next_number() -> u64 {
    static NEXT: StaticU64 = StaticU64::new(0);
    // Ordering: Relaxed. Numbers only have to differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A queue whose values come when their time has come. It is for one task with many deadlines, such
/// as a cache, or sessions that expire. It is also a stream of the values.
///
/// A value comes when a [`Sleep`](super::Sleep) with its deadline would be ready: at the service's
/// first tick at or after the deadline, or at once if that has passed. While the queue is empty,
/// the stream gives `None`; after an insert it goes on. When a remove empties the queue, the task
/// that waits is woken and gets this `None`.
///
/// The queue has a [`Wheel`] of its own, and one timer, for the value that comes first. So an
/// insert or a remove sends no message and costs other threads nothing.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::DelayQueue;
///
/// # futures_lite::future::block_on(async {
/// let mut sessions = DelayQueue::new();
/// let first = sessions.insert("first", Duration::from_secs(60));
/// sessions.insert("second", Duration::from_millis(2));
/// // The first one is alive.
/// assert!(sessions.reset(first, Duration::from_secs(60)));
/// assert_eq!(sessions.next().await, Some("second"));
/// assert_eq!(sessions.remove(first), Some("first"));
/// assert_eq!(sessions.next().await, None);
/// # });
/// ```
#[derive(Debug)]
pub struct DelayQueue<T> {
    /// Which queue it is, for its keys.
    number: u64,
    home: Home,
    /// In ticks of the service.
    wheel: Wheel<T>,
    /// Until the wheel has something to do. `None` while nobody waits for it.
    waiting: Option<Waiting>,
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue, with the shared service.
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Timers::shared())
    }

    pub(super) fn at(home: Home) -> Self {
        let now = home.handle().ticks().whole(home.handle().now_ns());
        Self {
            number: next_number(),
            home,
            wheel: Wheel::new(now),
            waiting: None,
        }
    }

    /// The tick of a time. Rounds up; but for a time that has passed, the present tick or an
    /// earlier one.
    fn tick_of(&self, at_ns: u64) -> u64 {
        let ticks = self.home.handle().ticks();
        if self.home.is_over(at_ns) {
            ticks.whole(at_ns)
        } else {
            ticks.deadline(at_ns)
        }
    }

    /// The tick of now + `delay`.
    fn tick_after(&self, delay: Duration) -> u64 {
        let at_ns = self.home.handle().soon_ns().saturating_add(nanos(delay));
        if delay.is_zero() {
            self.tick_of(at_ns)
        } else {
            self.home.handle().ticks().deadline(at_ns)
        }
    }

    fn tick_at(&self, deadline: Instant) -> u64 {
        self.tick_of(self.home.handle().instant_ns(deadline))
    }

    /// What a key of this queue names.
    fn handle(&self, key: Key) -> Option<Handle> {
        (key.queue == self.number).then_some(key.handle)
    }

    /// Inserts a value that comes after `delay`. Amortized O(1).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn insert(&mut self, value: T, delay: Duration) -> Key {
        self.put(value, self.tick_after(delay))
    }

    /// Inserts a value that comes at a point in time; at once if that has passed. Amortized O(1).
    ///
    /// # Example
    /// ```
    /// use std::time::Instant;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert_at("now", Instant::now());
    /// assert_eq!(queue.next().await, Some("now"));
    /// # });
    /// ```
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        self.put(value, self.tick_at(deadline))
    }

    fn put(&mut self, value: T, tick: u64) -> Key {
        let handle = self.wheel.insert(tick, value);
        self.hurry();
        Key {
            queue: self.number,
            handle,
        }
    }

    /// Removes a value and returns it. `None` if it has come, was removed, or is in another queue.
    /// Amortized O(1).
    ///
    /// If the queue is empty afterwards, the task that waits is woken. If its waker panics, the
    /// value is dropped.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.wheel.cancel(self.handle(key)?)?;
        if self.wheel.is_empty()
            && let Some(waiting) = &mut self.waiting
        {
            // Nothing is left to wait for.
            waiting.move_to(0);
        }
        Some(value)
    }

    /// Lets a value come after `delay`. `false` if it is gone. Amortized O(1).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn reset(&mut self, key: Key, delay: Duration) -> bool {
        self.move_to(key, self.tick_after(delay))
    }

    /// Lets a value come at a point in time; at once if that has passed. `false` if it is gone.
    /// Amortized O(1).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let key = queue.insert("soon", Duration::from_secs(60));
    /// assert!(queue.reset_at(key, Instant::now()));
    /// assert_eq!(queue.next().await, Some("soon"));
    /// # });
    /// ```
    pub fn reset_at(&mut self, key: Key, deadline: Instant) -> bool {
        self.move_to(key, self.tick_at(deadline))
    }

    fn move_to(&mut self, key: Key, tick: u64) -> bool {
        let is_there = self
            .handle(key)
            .is_some_and(|handle| self.wheel.reschedule(handle, tick));
        self.hurry();
        is_there
    }

    /// The number of values in the queue.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert('a', std::time::Duration::MAX);
    /// assert!(queue.len() == 1 && !queue.is_empty());
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether the queue has no values.
    ///
    /// # Example
    /// See [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// The value of a key, as long as it is in the queue.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let key = queue.insert('a', std::time::Duration::MAX);
    /// assert_eq!(queue.get(key), Some(&'a'));
    /// ```
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.wheel.get(self.handle(key)?)
    }

    /// Waits for the next value. `None` if the queue is empty. If this future is dropped before it
    /// is ready, no value is lost.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_expired(context)).await
    }

    /// Returns the next value if its time has come.
    ///
    /// It does not yield by itself: a loop over a million due values polls them all in one go.
    ///
    /// # Example
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(queue.poll_expired(&mut context), Poll::Ready(None));
    /// queue.insert('a', std::time::Duration::MAX);
    /// assert_eq!(queue.poll_expired(&mut context), Poll::Pending);
    /// ```
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let (handle, ticks) = (self.home.handle(), self.home.handle().ticks());
        loop {
            if let Some((_, value)) = self.wheel.pop_due(ticks.whole(handle.now_ns())) {
                return Poll::Ready(Some(value));
            }
            let Some(next) = self.wheel.next_deadline() else {
                self.waiting = None;
                return Poll::Ready(None);
            };
            let at_ns = ticks.start(next);
            let waiting = self
                .waiting
                .get_or_insert_with(|| Waiting::new(self.home.clone(), at_ns));
            if waiting.at_ns() != at_ns {
                waiting.move_to(at_ns);
            }
            ready!(waiting.poll(context));
        }
    }

    /// A value was inserted or moved, and may come before the time for which the queue waits.
    fn hurry(&mut self) {
        let Some(next) = self.wheel.next_deadline() else {
            return;
        };
        let at_ns = self.home.handle().ticks().start(next);
        if let Some(waiting) = self
            .waiting
            .as_mut()
            .filter(|waiting| at_ns < waiting.at_ns())
        {
            waiting.move_to(at_ns);
        }
    }
}

impl<T: Unpin> Stream for DelayQueue<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_expired(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}
