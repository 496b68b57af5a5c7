//! Delay queue: values that come when their time has come.

mod contents;
mod expired;
mod key;
mod pausing;

pub use expired::Expired;
pub use key::Key;

use super::timers::{Home, Timers};
use super::waiting::Waiting;
use crate::entry::DEADLINE_MAX;
use crate::time::{Anchor, Clock, NANOS_MAX, Nanos, Tick, TickLength, YEARS_30, nanos};
use crate::wheel::{Handle, Wheel};
use expired::{Deadline, Queued};
use futures_core::Stream;
use key::next_number;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// Delays up to this one lead to instants that each system has.
const YEARS_30_NS: u64 = YEARS_30.as_nanos() as u64;

/// The tick at which a paused value lies in the wheel, its last one.
const PAUSED: u64 = DEADLINE_MAX;

/// The last tick of a value that is not paused.
const TICK_MAX: u64 = PAUSED - 1;

/// When a tick of the wheel begins. (For that of paused values, the end of time.)
fn start_ns(ticks: TickLength, tick: u64) -> u64 {
    if tick == PAUSED {
        return NANOS_MAX;
    }
    ticks.start(Tick(tick)).0
}

/// A deadline that is further than this from when the queue was polled has not passed, for all that
/// it knows.
const NEAR_NS: u64 = 1_000_000_000;

/// A queue whose values come when their time has come. It is for one task with many deadlines, such
/// as a cache, or sessions that expire. It is also a stream. Each value comes as an [`Expired`],
/// with its key and its deadline.
///
/// A value comes when a [`Sleep`](super::Sleep) with its deadline would be ready: at the service's
/// first tick at or after the deadline, or at once if that has passed. While the queue is empty,
/// the stream gives `None`; an insert wakes the task that got it, and the stream goes on. When
/// [`remove`](Self::remove), [`clear`](Self::clear) or [`drain`](Self::drain) empties the queue,
/// the task that waits is woken and gets this `None`.
///
/// A value can be [paused](Self::pause). A queue that has only paused values is not empty: its
/// stream waits.
///
/// "At once" has one exception: an `Instant` more than a second after the queue was made, or was
/// last polled when nothing was due. The queue takes it for one that is still to come, without a
/// look at the clock. If it has just passed, its value comes at the next tick.
///
/// The queue has a [`Wheel`] of its own, and one timer, for the value that comes first. So an
/// insert or a remove sends no message and costs other threads nothing, but while a task waits: a
/// value that comes before all others moves that timer, and a remove that empties the queue wakes
/// the task.
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
/// assert_eq!(sessions.next().await.unwrap().into_inner(), "second");
/// assert_eq!(sessions.remove(first), Some("first"));
/// assert!(sessions.next().await.is_none());
/// # });
/// ```
#[derive(Debug)]
pub struct DelayQueue<T> {
    /// Which queue it is, for its keys.
    number: u64,
    home: Home,
    /// The service's, at hand: an insert touches nothing of the service.
    clock: Clock,
    ticks: TickLength,
    /// The clock's origin; if its instants change, any instant.
    base: Instant,
    /// For readings of the clock.
    anchor: Anchor,
    /// In ticks of the service.
    wheel: Wheel<Queued<T>>,
    /// When it was made, or polled last with nothing due that it knew of.
    polled_ns: u64,
    /// The wait for the wheel's next deadline, if a task has waited since the queue was empty.
    waiting: Option<Waiting>,
    /// The task that was told that the queue is empty, until a value comes.
    at_end: Option<Waker>,
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue, with the shared service. The first use of that service starts its thread.
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty queue with memory for `capacity` values, with the shared service: see
    /// [`capacity`](Self::capacity).
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()), and as [`reserve`](Self::reserve).
    ///
    /// # Example
    /// ```
    /// let queue = wheelwork::future::DelayQueue::<u32>::with_capacity(1_000);
    /// assert!(queue.capacity() >= 1_000);
    /// ```
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::at(Timers::shared(), capacity)
    }

    pub(super) fn at(home: Home, capacity: usize) -> Self {
        let (clock, ticks) = (home.handle().clock().clone(), home.handle().ticks());
        let polled_ns = clock.now_ns();
        let Tick(now) = ticks.whole(Nanos(polled_ns));
        Self {
            number: next_number(),
            home,
            base: clock.instant(0),
            clock,
            ticks,
            anchor: Anchor::default(),
            wheel: Wheel::with_capacity(now, capacity),
            polled_ns,
            waiting: None,
            at_end: None,
        }
    }

    /// The tick of a time. Rounds up; but for a time that has passed, unless long after the last
    /// reading, the present tick or an earlier one. (A reading of the clock costs as much as the
    /// rest of an insert.)
    fn tick_of(&self, at_ns: u64) -> u64 {
        let is_near = at_ns.saturating_sub(self.polled_ns) <= NEAR_NS;
        if is_near && self.home.is_over(at_ns) {
            self.ticks.whole(Nanos(at_ns)).0
        } else {
            self.ticks.deadline(Nanos(at_ns)).0
        }
    }

    /// Now + `delay`, and its tick.
    #[inline]
    fn after(&mut self, delay: Duration) -> (Deadline, u64) {
        let delay_ns = nanos(delay);
        if self.clock.has_instants() && (1..=YEARS_30_NS).contains(&delay_ns) {
            // At most 292 years and 30 years: a `u64` holds 584.
            let at_ns = self.clock.arming_now_ns(&mut self.anchor) + delay_ns;
            return (Deadline::of_ns(at_ns), self.ticks.deadline(Nanos(at_ns)).0);
        }
        self.after_any(delay)
    }

    /// The same for no delay, for a very long one, and by a clock whose instants change.
    #[cold]
    fn after_any(&self, delay: Duration) -> (Deadline, u64) {
        let (instant, at_ns) = self.home.after(delay);
        let tick = if delay.is_zero() {
            self.ticks.whole(Nanos(at_ns)).0
        } else {
            self.ticks.deadline(Nanos(at_ns)).0
        };
        (Deadline::of_instant(instant, self.base), tick)
    }

    /// A deadline, and its tick.
    #[inline]
    fn at_instant(&self, deadline: Instant) -> (Deadline, u64) {
        let at_ns = self.clock.instant_ns(deadline);
        let tick = self.tick_of(at_ns);
        // (0 is also what lies before the origin.)
        let is_exact = at_ns > 0 && self.clock.has_instants();
        let deadline = if is_exact {
            Deadline::of_ns(at_ns)
        } else {
            Deadline::of_instant(deadline, self.base)
        };
        (deadline, tick)
    }

    /// The key of a timer of the wheel.
    fn key(&self, handle: Handle) -> Key {
        Key {
            queue: self.number,
            handle,
        }
    }

    /// A value that has left the wheel, and was not paused.
    fn expired(&self, timer: Handle, queued: Queued<T>) -> Expired<T> {
        let Queued { deadline, value } = queued;
        Expired::new(self.key(timer), deadline.instant(self.base), value)
    }

    /// What a key of this queue names.
    fn handle(&self, key: Key) -> Option<Handle> {
        (key.queue == self.number).then_some(key.handle)
    }

    /// Inserts a value that comes after `delay`. Amortized O(1).
    pub fn insert(&mut self, value: T, delay: Duration) -> Key {
        let deadline = self.after(delay);
        self.put(value, deadline)
    }

    /// Inserts a value that comes at a point in time; at once if that has passed. Amortized O(1).
    ///
    /// # Example
    /// ```
    /// use std::time::Instant;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let now = Instant::now();
    /// queue.insert_at("now", now);
    /// let expired = queue.next().await.unwrap();
    /// assert_eq!((*expired.get_ref(), expired.deadline()), ("now", now));
    /// # });
    /// ```
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        self.put(value, self.at_instant(deadline))
    }

    #[inline]
    fn put(&mut self, value: T, (deadline, tick): (Deadline, u64)) -> Key {
        let handle = self
            .wheel
            .put(tick.min(TICK_MAX), Queued { deadline, value });
        self.hurry();
        self.key(handle)
    }

    /// Removes a value and returns it. `None` if it has come, was removed, or is in another queue.
    /// Amortized O(1).
    ///
    /// If the queue is empty afterwards, the task that waits is woken. If its waker panics, the
    /// value is dropped.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let Queued { value, .. } = self.wheel.cancel(self.handle(key)?)?;
        self.wake_if_empty();
        Some(value)
    }

    /// Wakes the task that waits if nothing is left to wait for.
    fn wake_if_empty(&mut self) {
        if self.wheel.is_empty()
            && let Some(waiting) = &mut self.waiting
        {
            waiting.resume();
            waiting.move_to(0);
        }
    }

    /// Lets a value come after `delay`. `false` if it is gone. Amortized O(1).
    pub fn reset(&mut self, key: Key, delay: Duration) -> bool {
        if self.is_paused(key) {
            return self.set_left(key, delay);
        }
        let deadline = self.after(delay);
        self.move_to(key, deadline)
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
    /// assert_eq!(queue.next().await.unwrap().key(), key);
    /// # });
    /// ```
    pub fn reset_at(&mut self, key: Key, deadline: Instant) -> bool {
        self.move_to(key, self.at_instant(deadline))
    }

    fn move_to(&mut self, key: Key, (deadline, tick): (Deadline, u64)) -> bool {
        if self.is_paused(key) {
            let now = self.home.handle().now();
            let left = deadline.instant(self.base).saturating_duration_since(now);
            return self.set_left(key, left);
        }
        let queued = self
            .handle(key)
            .filter(|&handle| self.wheel.reschedule(handle, tick.min(TICK_MAX)))
            .and_then(|handle| self.wheel.get_mut(handle));
        let Some(queued) = queued else {
            return false;
        };
        queued.deadline = deadline;
        self.hurry();
        true
    }

    /// Waits for the next value. `None` if the queue is empty. If this future is dropped before it
    /// is ready, no value is lost.
    pub async fn next(&mut self) -> Option<Expired<T>> {
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
    /// assert!(matches!(queue.poll_expired(&mut context), Poll::Ready(None)));
    /// queue.insert('a', std::time::Duration::MAX);
    /// assert!(queue.poll_expired(&mut context).is_pending());
    /// ```
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        // What was due at the last reading of the clock comes without another reading.
        let mut now = self.wheel.now();
        loop {
            if let Some((timer, _, queued)) = self.wheel.pop_first(now) {
                return Poll::Ready(Some(self.expired(timer, queued)));
            }
            self.polled_ns = self.clock.now_ns();
            // (At the end of time, too, paused values stay.)
            let Tick(later) = self.ticks.whole(Nanos(self.polled_ns)).min(Tick(TICK_MAX));
            if now < later {
                now = later;
                continue;
            }
            let Some(next) = self.wheel.next_deadline() else {
                self.waiting = None;
                self.at_end = Some(context.waker().clone());
                return Poll::Ready(None);
            };
            let at_ns = start_ns(self.ticks, next);
            let waiting = self
                .waiting
                .get_or_insert_with(|| Waiting::new(self.home.clone(), at_ns));
            if next == PAUSED {
                // It waits for a call that lets a value go on, and for no time. (What is left means
                // nothing. If it were nothing, that call would wake the task at once.)
                waiting.pause(0);
            } else if waiting.resume().is_some() || waiting.at_ns() != at_ns {
                // It is after the reading above.
                waiting.move_ahead(at_ns);
            }
            ready!(waiting.poll(context));
        }
    }

    /// A value was inserted or moved, and may come before the time for which the queue waits.
    #[inline]
    fn hurry(&mut self) {
        if self.waiting.is_some() || self.at_end.is_some() {
            self.hurry_the_waiting();
        }
    }

    #[cold]
    fn hurry_the_waiting(&mut self) {
        if let Some(waker) = self.at_end.take() {
            waker.wake();
        }
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let Some(next) = self.wheel.next_deadline() else {
            return;
        };
        let at_ns = start_ns(self.ticks, next);
        if next != PAUSED && waiting.resume().is_some() || at_ns < waiting.at_ns() {
            waiting.move_to(at_ns);
        }
    }
}

impl<T: Unpin> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}
