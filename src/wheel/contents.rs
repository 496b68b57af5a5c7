//! Contents: calls that look at a wheel's timers, or remove all of them.

use super::Wheel;
use super::nodes::Handle;
use alloc::vec::Vec;
use core::fmt;

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
        self.nodes.get(handle).map(|(_, key)| key)
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
        self.nodes.get_mut(handle)
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
        self.nodes.get(handle).map(|(deadline, _)| deadline)
    }

    /// The latest tick to which the wheel was moved. Timers that are due at it may still be in the
    /// wheel, if a limit ended the last [`advance`](Self::advance).
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

    /// The number of timers: armed, neither given out nor cancelled. O(1).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// wheel.insert(7, ());
    /// assert_eq!(wheel.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the wheel has no timer. O(1).
    ///
    /// # Example
    /// ```
    /// assert!(wheelwork::wheel::Wheel::<()>::new(0).is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All timers with their deadlines and keys, in no particular order. Cost: the greatest number
    /// of timers that the wheel ever had at one time.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, "key");
    /// assert!(wheel.iter().eq([(handle, 7, &"key")]));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Handle, u64, &K)> {
        self.nodes.iter()
    }

    /// The number of timers for which the wheel has cells: it takes no memory for more cells before
    /// it has more timers than that at one time. O(1).
    ///
    /// # Example
    /// See [`reserve`](Self::reserve).
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Takes memory for the cells of `additional` timers more than there are.
    ///
    /// # Panics
    /// If a `Vec` cannot have this many. If the system has no memory the process aborts, as it does
    /// for a `Vec`.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// wheel.insert(7, ());
    /// wheel.reserve(999);
    /// let capacity = wheel.capacity();
    /// assert!(capacity >= 1_000);
    /// (1..1_000).for_each(|deadline| _ = wheel.insert(deadline, ()));
    /// assert_eq!(wheel.capacity(), capacity);
    /// ```
    pub fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional);
        self.levels.reserve_to(self.nodes.capacity());
    }

    /// Removes all timers and returns their deadlines and keys, in no particular order. Their
    /// handles name no timer after that. `now` stays, and so does `capacity`. Cost: as
    /// [`iter`](Self::iter).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, "key");
    /// assert_eq!(wheel.drain(), [(7, "key")]);
    /// assert_eq!(wheel.cancel(handle), None);
    /// ```
    pub fn drain(&mut self) -> Vec<(u64, K)> {
        let timers = self.take_all().into_iter();
        timers.map(|(_, deadline, key)| (deadline, key)).collect()
    }

    /// `drain`, with the handles that the timers had.
    pub(crate) fn take_all(&mut self) -> Vec<(Handle, u64, K)> {
        self.levels.clear(self.now);
        let mut all = Vec::with_capacity(self.nodes.len());
        all.extend((0..self.nodes.cells()).filter_map(|cell| {
            let gone = self.nodes.take_cell(cell)?;
            Some((gone.handle, gone.deadline, gone.key))
        }));
        all
    }

    /// Removes and drops all timers, like [`drain`](Self::drain), whose `Vec` it takes memory for.
    /// If the drop of a key panics, the others are dropped, and the panic goes on; if a second one
    /// panics, the process aborts, as with a `Vec`.
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

/// Shows time, number of timers, and next deadline. Keys need not be `Debug`.
impl<K> fmt::Debug for Wheel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wheel = f.debug_struct("Wheel");
        wheel
            .field("now", &self.now)
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
