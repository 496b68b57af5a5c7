//! Delay queue: values that come when their time has come.

use super::Sleep;
use super::timers::{Home, Timers};
use crate::time::later;
use crate::wheel::{Handle, Wheel};
use futures_core::Stream;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The queue's own tick.
const TICK: Duration = Duration::from_millis(1);

/// A queue whose values come when their time has come: for one task with many deadlines, such as a cache, or sessions that expire. A stream of the values.
///
/// It has a [`Wheel`] of its own, and one timer for the value that comes first; so an insert or a removal costs no message, and no other thread anything. Values come at
/// the first millisecond at or after their deadline. While it is empty the stream gives `None`; it goes on when something is inserted.
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
/// // It is alive.
/// assert!(sessions.reset(first, Duration::from_secs(60)));
/// assert_eq!(sessions.next().await, Some("second"));
/// assert_eq!(sessions.remove(first), Some("first"));
/// assert_eq!(sessions.next().await, None);
/// # });
/// ```
#[derive(Debug)]
pub struct DelayQueue<T> {
    home: Home,
    /// By milliseconds since `origin`.
    wheel: Wheel<T>,
    origin: Instant,
    /// Until the wheel has something to do; there once it was waited for.
    sleep: Option<Sleep>,
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue, with the service that all share.
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
        let origin = home.handle().now();
        Self { home, wheel: Wheel::new(0), origin, sleep: None }
    }

    /// The tick of a deadline: rounds up.
    fn deadline(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.origin);
        u64::try_from(since.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX)
    }

    /// The tick that it is: rounds down.
    fn now(&self) -> u64 {
        let since = self.home.handle().now().saturating_duration_since(self.origin);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn instant(&self, tick: u64) -> Instant {
        later(self.origin, Duration::from_millis(tick))
    }

    /// Puts a value in, to come after so long. Amortized O(1).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn insert(&mut self, value: T, delay: Duration) -> Handle {
        let at = self.home.deadline(delay);
        self.insert_at(value, at)
    }

    /// Puts a value in, to come at a point in time.
    ///
    /// # Example
    /// ```
    /// use std::time::Instant;
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert_at("now", Instant::now());
    /// assert_eq!(queue.next().await, Some("now"));
    /// # });
    /// ```
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Handle {
        let handle = self.wheel.insert(self.deadline(deadline), value);
        self.hurry();
        handle
    }

    /// Takes a value out; `None` if it has come, or was removed. Amortized O(1).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.wheel.cancel(handle)
    }

    /// Lets a value come so long from now. `false` if it is gone. Amortized O(1).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn reset(&mut self, handle: Handle, delay: Duration) -> bool {
        let at = self.home.deadline(delay);
        self.reset_at(handle, at)
    }

    /// Lets a value come at a point in time. `false` if it is gone.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let handle = queue.insert("soon", Duration::from_secs(60));
    /// assert!(queue.reset_at(handle, Instant::now()));
    /// assert_eq!(queue.next().await, Some("soon"));
    /// # });
    /// ```
    pub fn reset_at(&mut self, handle: Handle, deadline: Instant) -> bool {
        let is_there = self.wheel.reschedule(handle, self.deadline(deadline));
        self.hurry();
        is_there
    }

    /// Values in it.
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

    /// Whether nothing is in it.
    ///
    /// # Example
    /// See [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// The value of a handle, as long as it is in the queue.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let handle = queue.insert('a', std::time::Duration::MAX);
    /// assert_eq!(queue.get(handle), Some(&'a'));
    /// ```
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.wheel.get(handle)
    }

    /// The next value, when its time has come; `None` if nothing is in the queue. Nothing is lost if this is dropped before it is ready.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_expired(context)).await
    }

    /// The next value, if its time has come.
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
        loop {
            if let Some((_, value)) = self.wheel.pop_due(self.now()) {
                return Poll::Ready(Some(value));
            }
            let Some(next) = self.wheel.next_deadline() else { return Poll::Ready(None) };
            let at = self.instant(next);
            let sleep = match &mut self.sleep {
                Some(sleep) if sleep.deadline() == at => sleep,
                Some(sleep) => {
                    sleep.reset_at(at);
                    sleep
                }
                none => none.insert(self.home.clone().sleep_until(at)),
            };
            ready!(Pin::new(sleep).poll(context));
        }
    }

    /// What was put in, or moved, may come before what is waited for.
    fn hurry(&mut self) {
        let Some(next) = self.wheel.next_deadline() else { return };
        let at = self.instant(next);
        if let Some(sleep) = self.sleep.as_mut().filter(|sleep| at < sleep.deadline()) {
            sleep.reset_at(at);
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
