//! Contents: what is in a wheel, and all of it out at once.

use super::keys::{Handle, Timer};
use super::{EntryWheel, Wheel};
use std::fmt;

impl<K> Wheel<K> {
    /// The key of a timer; `None` if it is gone. O(1).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, "key");
    /// assert_eq!(wheel.get(handle), Some(&"key"));
    /// ```
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&K> {
        self.keys.get(handle).map(|timer| &timer.key)
    }

    /// The key of a timer, to change it; `None` if it is gone. O(1).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, 1);
    /// if let Some(tries) = wheel.get_mut(handle) {
    ///     *tries += 1;
    /// }
    /// assert_eq!(wheel.pop_due(7), Some((7, 2)));
    /// ```
    #[must_use]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut K> {
        self.keys.get_mut(handle).map(|timer| &mut timer.key)
    }

    /// The deadline of a timer, as the wheel keeps it; `None` if it is gone. O(1).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, ());
    /// assert!(wheel.reschedule(handle, 9));
    /// assert_eq!(wheel.deadline(handle), Some(9));
    /// ```
    #[must_use]
    pub fn deadline(&self, handle: Handle) -> Option<u64> {
        self.keys.get(handle).map(|timer| timer.deadline)
    }

    /// The latest tick that the wheel was moved to. What is due at it may be in the wheel still, if a limit was met.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::<()>::new(0);
    /// wheel.advance(12, usize::MAX, |_, ()| ());
    /// wheel.advance(11, usize::MAX, |_, ()| ());
    /// assert_eq!(wheel.now(), 12);
    /// ```
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many timers there are: armed, neither given out nor cancelled. O(1).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// wheel.insert(7, ());
    /// assert_eq!(wheel.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no timer. O(1).
    ///
    /// # Example
    /// ```
    /// assert!(wheelwork::wheel::Wheel::<()>::new(0).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All timers with their deadlines and keys, in no particular order. As much work as there were timers at once, ever.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, "key");
    /// assert!(wheel.iter().eq([(handle, 7, &"key")]));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Handle, u64, &K)> {
        self.keys.iter().map(|(handle, timer)| (handle, timer.deadline, &timer.key))
    }

    /// Takes all timers out: deadlines and keys, in no particular order. Their handles name nothing any more; `now` stays.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, "key");
    /// assert_eq!(wheel.drain(), [(7, "key")]);
    /// assert_eq!(wheel.cancel(handle), None);
    /// ```
    pub fn drain(&mut self) -> Vec<(u64, K)> {
        self.entries = EntryWheel::new(self.now, u64::MAX);
        self.due.clear();
        self.dead = 0;
        let handles: Vec<Handle> = self.keys.iter().map(|(handle, _)| handle).collect();
        let timers = handles.into_iter().filter_map(|handle| self.keys.take(handle));
        timers.map(|Timer { deadline, key, .. }| (deadline, key)).collect()
    }

    /// Drops all timers. As [`drain`](Self::drain).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// wheel.insert(7, "key");
    /// wheel.clear();
    /// assert_eq!(wheel.next_deadline(), None);
    /// ```
    pub fn clear(&mut self) {
        drop(self.drain());
    }
}

/// Time, number of timers, and next deadline; keys need not be `Debug`.
impl<K> fmt::Debug for Wheel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wheel = f.debug_struct("Wheel");
        wheel.field("now", &self.now).field("len", &self.len()).field("next_deadline", &self.next_deadline()).finish_non_exhaustive()
    }
}
