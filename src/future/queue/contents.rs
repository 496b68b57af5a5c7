//! Contents: calls that look at a queue's values, or take all of them out.

use super::expired::Expired;
use super::key::Key;
use super::{DelayQueue, PAUSED};
use crate::engine::drops::Drops;
use std::time::Instant;

impl<T> DelayQueue<T> {
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
        let queued = self.wheel.get(self.handle(key)?)?;
        Some(&queued.value)
    }

    /// The value of a key, to change it, as long as it is in the queue.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let key = queue.insert(1, std::time::Duration::MAX);
    /// *queue.get_mut(key).unwrap() += 1;
    /// assert_eq!(queue.remove(key), Some(2));
    /// ```
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let queued = self.wheel.get_mut(self.handle(key)?)?;
        Some(&mut queued.value)
    }

    /// Whether a value's deadline has passed, or the value is gone.
    pub(in crate::future) fn is_over(&self, key: Key) -> bool {
        let deadline = self.deadline(key);
        deadline.is_none_or(|deadline| self.home.is_over(self.clock.instant_ns(deadline)))
    }

    /// The deadline of a value, as the caller gave it: not rounded. One more than 292 years away
    /// from the origin of the clock, which is about the service's start, is held there. `None` if
    /// the value is gone, in another queue, or [paused](Self::pause).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let at = Instant::now() + Duration::from_secs(60);
    /// let key = queue.insert_at('a', at);
    /// assert_eq!(queue.deadline(key), Some(at));
    /// ```
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<Instant> {
        if self.is_paused(key) {
            return None;
        }
        let queued = self.wheel.get(self.handle(key)?)?;
        Some(queued.deadline.instant(self.base))
    }

    /// The key of the value that comes next; `None` if the queue is empty, or has only paused
    /// values. Of values that come at one tick it is any. The value need not be due.
    ///
    /// It costs a [`Wheel::peek`](crate::wheel::Wheel::peek), which looks at all values of the
    /// wheel's first slot that has any.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert("late", Duration::from_secs(90));
    /// let soon = queue.insert("soon", Duration::from_secs(60));
    /// assert_eq!(queue.peek(), Some(soon));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        let key = self.key(self.wheel.peek()?);
        (!self.is_paused(key)).then_some(key)
    }

    /// The number of values for which the queue has memory: it takes no more for values before it
    /// has more than that at one time.
    ///
    /// # Example
    /// See [`reserve`](Self::reserve).
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.wheel.capacity()
    }

    /// Takes memory for `additional` values more than there are.
    ///
    /// # Panics
    /// If a `Vec` cannot have this many. If the system has no memory the process aborts, as it does
    /// for a `Vec`.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::<u32>::new();
    /// queue.reserve(1_000);
    /// assert!(queue.capacity() >= 1_000);
    /// ```
    pub fn reserve(&mut self, additional: usize) {
        self.wheel.reserve(additional);
    }

    /// Removes and drops all values. If a task waits, it is woken and gets `None`. If drops panic,
    /// all values are dropped, and the first panic goes on.
    ///
    /// # Example
    /// ```
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let key = queue.insert('a', std::time::Duration::MAX);
    /// queue.clear();
    /// assert!(queue.is_empty() && queue.get(key).is_none());
    /// ```
    pub fn clear(&mut self) {
        let values = self.wheel.take_all();
        self.wake_if_empty();
        Drops::all(values.into_iter());
    }

    /// Removes all values and returns them with their keys and deadlines, in no particular order.
    /// The deadline of a paused value is that which it would have if it were resumed now.
    /// If a task waits, it is woken and gets `None`.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// queue.insert("late", Duration::from_secs(90));
    /// queue.insert("soon", Duration::from_secs(60));
    /// let mut left = queue.drain();
    /// left.sort_by_key(|value| value.deadline());
    /// assert_eq!(*left[0].get_ref(), "soon");
    /// assert!(queue.is_empty());
    /// ```
    pub fn drain(&mut self) -> Vec<Expired<T>> {
        let queued = self.wheel.take_all().into_iter();
        let values = queued.map(|(timer, tick, mut queued)| {
            if tick == PAUSED {
                queued.deadline = self.after(queued.deadline.as_left()).0;
            }
            self.expired(timer, queued)
        });
        let values = values.collect();
        self.wake_if_empty();
        values
    }
}
