//! A timing wheel for one thread. The caller owns it, and moves its time.
//!
//! [`Wheel`] keeps timers, each with a key of your type. It starts no threads, reads no clock and
//! takes no locks. [`TimerService`](crate::TimerService) does all of this for you.
//!
//! # When to use it
//!
//! Use it if your program has a thread of its own, a time of its own, and many timers, most of
//! which are cancelled or moved before they are due:
//!
//! - an event loop that sleeps in `epoll` or the like,
//! - a simulation, whose time is a number of its own,
//! - a game, which counts frames,
//! - a protocol stack, with a timeout for each connection.
//!
//! Use [`TimerService`](crate::TimerService) if several threads arm and cancel timers, or if timers
//! should fire without a loop of yours.
//!
//! # Example
//!
//! An event loop. It sleeps until the next deadline, or until there is something to read.
//! ```
//! use wheelwork::wheel::Wheel;
//!
//! // Ticks are milliseconds here.
//! let mut wheel = Wheel::new(0);
//! let answer = wheel.insert(30_000, "no answer from a");
//! wheel.insert(500, "say hello to b");
//! // The answer has come.
//! assert_eq!(wheel.cancel(answer), Some("no answer from a"));
//!
//! // The loop may sleep until here.
//! assert_eq!(wheel.next_deadline(), Some(500));
//! while let Some((deadline, what)) = wheel.pop_due(501) {
//!     assert_eq!((deadline, what), (500, "say hello to b"));
//! }
//! assert!(wheel.is_empty());
//! ```
//!
//! # Time and order
//!
//! - **Ticks.** A tick is whatever you like: a millisecond, a frame, a packet. Deadlines are exact
//!   at any distance. The last tick is 2^52 - 1 (142,000 years of milliseconds). Later deadlines
//!   and times are held at it.
//! - **Order.** Timers come out in order of deadlines, over all calls. Timers of one deadline come
//!   in no particular order. But the order is the same in each run that makes the same calls.
//!
//! # Cost
//!
//! | call | cost |
//! |---|---|
//! | [`insert`](Wheel::insert) | O(1): takes a free cell, and appends 12 bytes to a slot |
//! | [`cancel`](Wheel::cancel), [`reschedule`](Wheel::reschedule) | O(1), amortized |
//! | [`next_deadline`](Wheel::next_deadline) | O(1) |
//! | [`peek`](Wheel::peek) | the timers of one slot, or of a few |
//! | [`advance`](Wheel::advance), [`pop_due`](Wheel::pop_due) | O(1), amortized, for each timer |
//!
//! - A cancel, and a move to an earlier deadline, leave a dead entry behind. When there are 64 more
//!   dead entries than timers, all of them are dropped at once: two entries of work for each.
//! - A timer moves from level to level at most six times before it is due, usually once or twice.
//! - Empty time costs nothing: an `advance` by a year costs only the timers that are due in it.
//!
//! # Memory
//!
//! - An empty wheel takes about 70 KB.
//! - A timer takes a cell: its key and about 32 bytes. Cells are used again, and kept until the
//!   wheel is dropped. [`reserve`](Wheel::reserve) takes them ahead of time.
//! - A timer takes an entry of 12 bytes, or 16 bytes if it is due 2^32 ticks later. Entries take
//!   memory in steps of 256 KiB, and give it back.
//!
//! # Limits
//!
//! - *Pauses.* When time enters a slot, all its timers move to the level below in one go. A million
//!   timers that are due within one minute cost some milliseconds at its start.
//! - *Sweeps.* To drop dead entries, the wheel looks at all entries. So one cancel in a million,
//!   with a million timers, takes some milliseconds.
//! - *Later deadlines.* A timer that was moved to a later deadline costs a second insert when its
//!   old deadline comes.
//! - *Number.* At 2^32 timers (some 200 GB) `insert` panics.
//! - *Speed.* A textbook wheel of linked lists is faster today. With 1,000 to 1,000,000 timers, an
//!   `insert` takes 1.4 to 2.8 times as long here, a `cancel` 3 to 7 times, an `advance` up to 7
//!   times; with a million timers it takes two thirds of the time. The figures are of one
//!   repetition on one thread; docs/comparison.md has all of them.

// How it works. Each timer has a cell (`keys.rs`) and one live entry in the wheel of entries, at
// `Timer::entry_at`. The wheel of entries gives out whole chunks. So its due entries wait in `due`
// until the caller takes them. Every other entry that it gives out is dead: its cell has another
// generation, or its timer has its entry at another deadline.
//
// Ground rules:
//  - The wheel of entries moves one event at a time, and only when no entry in `due` has to go back
//    into it. So a timer that was moved to a later deadline goes back before time has passed that
//    deadline, and deadlines come out in order.
//  - No code of the caller runs while a timer is half in and half out.

mod contents;
mod keys;

pub use keys::Handle;

use crate::entry::{DEADLINE_MAX, Entry};
use crate::entry_wheel::EntryWheel;
use keys::{Keys, Timer};
use std::collections::VecDeque;

/// This many dead entries are not worth a sweep.
const DEAD_MIN: usize = 64;

/// A timing wheel for one thread: timers with a key of type `K` each, and a time that the caller
/// moves.
///
/// The [module](self) says when to use it, what it costs, and what its limits are. If the closure
/// of [`advance`](Self::advance) panics, the wheel goes on without that one key.
///
/// # Example
/// ```
/// use wheelwork::wheel::Wheel;
///
/// let mut wheel = Wheel::new(0);
/// let idle = wheel.insert(60_000, "connection 7 is idle");
/// // A packet has come: the timeout starts again.
/// assert!(wheel.reschedule(idle, 70_000));
/// assert_eq!(wheel.pop_due(60_000), None);
/// assert_eq!(wheel.pop_due(70_000), Some((70_000, "connection 7 is idle")));
/// ```
pub struct Wheel<K> {
    entries: EntryWheel,
    keys: Keys<K>,
    /// Due entries that the wheel of entries has given out, in order.
    due: VecDeque<Entry>,
    /// The latest tick to which the caller has moved the wheel.
    now: u64,
    /// Dead entries, in `entries` and in `due`.
    dead: usize,
}

impl<K> Wheel<K> {
    /// An empty wheel at tick `now`.
    ///
    /// # Example
    /// ```
    /// let wheel = wheelwork::wheel::Wheel::<u32>::new(1_000);
    /// assert_eq!((wheel.now(), wheel.len()), (1_000, 0));
    /// ```
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self::with_capacity(now, 0)
    }

    /// An empty wheel at tick `now`, with memory for the cells of `capacity` timers: see
    /// [`capacity`](Self::capacity).
    ///
    /// # Panics
    /// As [`reserve`](Self::reserve).
    ///
    /// # Example
    /// ```
    /// let wheel = wheelwork::wheel::Wheel::<u32>::with_capacity(0, 1_000);
    /// assert!(wheel.capacity() >= 1_000);
    /// ```
    #[must_use]
    pub fn with_capacity(now: u64, capacity: usize) -> Self {
        let now = now.min(DEADLINE_MAX);
        Self {
            entries: EntryWheel::new(now, u64::MAX),
            keys: Keys::with_capacity(capacity),
            due: VecDeque::new(),
            now,
            dead: 0,
        }
    }

    /// Arms a timer. O(1).
    ///
    /// A deadline before [`now`](Self::now) is held at `now`: the timer is due at the next
    /// [`advance`](Self::advance), to whatever tick. A deadline after 2^52 - 1 is held at 2^52 - 1.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(100);
    /// let late = wheel.insert(7, 'a');
    /// assert_eq!(wheel.deadline(late), Some(100));
    /// assert_eq!(wheel.pop_due(0), Some((100, 'a')));
    /// ```
    pub fn insert(&mut self, deadline: u64, key: K) -> Handle {
        let deadline = self.held(deadline);
        let handle = self.keys.put(Timer {
            deadline,
            entry_at: deadline,
            key,
        });
        self.entries.accept(handle.entry(deadline));
        handle
    }

    /// Removes a timer and returns its key; `None` if the timer is gone already. O(1) amortized.
    ///
    /// A timer that is due but was not given out yet can be cancelled too. The wheel holds at most
    /// as many dead entries as timers, plus 64.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, String::from("key"));
    /// assert_eq!(wheel.cancel(handle).as_deref(), Some("key"));
    /// assert_eq!(wheel.cancel(handle), None);
    /// ```
    pub fn cancel(&mut self, handle: Handle) -> Option<K> {
        let timer = self.keys.take(handle)?;
        self.count_dead();
        Some(timer.key)
    }

    /// Moves a timer to another deadline. Its handle stays valid. `false` if the timer is gone.
    /// O(1) amortized.
    ///
    /// Deadlines are held as in [`insert`](Self::insert). A later deadline is only noted in the
    /// timer's cell. When the old deadline comes, the timer's entry moves once, however often the
    /// timer was moved before. So a timeout that each packet puts off costs one store a packet.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(10, "idle");
    /// assert!(wheel.reschedule(handle, 20));
    /// assert_eq!(wheel.pop_due(19), None);
    /// assert!(wheel.reschedule(handle, 15), "due at once");
    /// assert_eq!(wheel.pop_due(19), Some((19, "idle")));
    /// assert!(!wheel.reschedule(handle, 30));
    /// ```
    pub fn reschedule(&mut self, handle: Handle, deadline: u64) -> bool {
        let deadline = self.held(deadline);
        let Some(timer) = self.keys.get_mut(handle) else {
            return false;
        };
        timer.deadline = deadline;
        if deadline < timer.entry_at {
            timer.entry_at = deadline;
            self.entries.accept(handle.entry(deadline));
            self.count_dead();
        }
        true
    }

    /// Moves time to `now` and gives `f` the deadlines and keys of due timers, at most `limit` of
    /// them. Returns whether more timers are due.
    ///
    /// Time does not go back: an earlier `now` counts as the latest one. A due timer beyond the
    /// limit stays for the next call, and can be cancelled or moved until then. `f` cannot arm
    /// timers: to do so, collect what `f` gets, or use [`pop_due`](Self::pop_due).
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// (0..5).for_each(|key| _ = wheel.insert(10 + key, key));
    /// let mut due = Vec::new();
    /// assert!(wheel.advance(13, 3, |deadline, key| due.push((deadline, key))));
    /// assert_eq!(due, [(10, 0), (11, 1), (12, 2)]);
    /// assert!(!wheel.advance(13, 3, |_, key| assert_eq!(key, 3)));
    /// assert_eq!(wheel.len(), 1);
    /// ```
    pub fn advance(&mut self, now: u64, limit: usize, mut f: impl FnMut(u64, K)) -> bool {
        for _ in 0..limit {
            let Some((deadline, key)) = self.pop_due(now) else {
                return false;
            };
            f(deadline, key);
        }
        self.move_to(now);
        self.first_due().is_some()
    }

    /// Moves time to `now` and removes the timer that is due first. Returns its deadline and key;
    /// `None` if none is due.
    ///
    /// Like [`advance`](Self::advance) with a limit of one, but other calls may be made between two
    /// calls. Beware: a loop that always arms a timer for `now` or earlier does not end.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// wheel.insert(100, "every 100 ticks");
    /// let now = 103;
    /// while let Some((deadline, key)) = wheel.pop_due(now) {
    ///     wheel.insert(deadline + 100, key);
    /// }
    /// assert_eq!(wheel.next_deadline(), Some(200));
    /// ```
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, K)> {
        let (_, deadline, key) = self.pop_first(now)?;
        Some((deadline, key))
    }

    /// `pop_due`, with the handle that the timer had.
    #[inline]
    pub(crate) fn pop_first(&mut self, now: u64) -> Option<(Handle, u64, K)> {
        self.move_to(now);
        let first = self.first_due()?;
        self.due.pop_front();
        let Timer { deadline, key, .. } = self.keys.take(first)?;
        Some((first, deadline, key))
    }

    /// The tick for the next call of [`advance`](Self::advance); `None` if the wheel is empty.
    /// O(1).
    ///
    /// It is never after the earliest deadline. If a timer is due it is not after `now`. Usually it
    /// is the earliest deadline itself. It may be earlier in two cases:
    ///
    /// - The timer with the earliest deadline was cancelled, or moved to a later one. Then it may
    ///   be the old deadline.
    /// - More than 4,096 entries lie in the slot that comes next. Then it may be a tick around the
    ///   slot's start, so that the slot is sorted before its timers are due.
    ///
    /// An `advance` to such a tick finds no due timer, and `next_deadline` is later after it.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// assert_eq!(wheel.next_deadline(), None);
    /// wheel.insert(86_400_000, "tomorrow");
    /// assert_eq!(wheel.next_deadline(), Some(86_400_000));
    ///
    /// // A simulation goes from one deadline to the next.
    /// while let Some(next) = wheel.next_deadline() {
    ///     while let Some((deadline, event)) = wheel.pop_due(next) {
    ///         assert_eq!((deadline, wheel.now(), event), (next, next, "tomorrow"));
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if self.keys.len() == 0 {
            return None;
        }
        self.due
            .front()
            .map(|entry| entry.deadline())
            .or_else(|| self.entries.next_event())
    }

    /// The timer with the earliest deadline; `None` if the wheel is empty. Of timers with one
    /// deadline it is any. It does not move time, so the timer need not be due.
    ///
    /// Cost: a look at all timers of the first slot that has any. That is one tick if they are due
    /// within some 256 ticks, 256 ticks if they are due within some 65,536, and so on. If they were
    /// moved to later deadlines, the next slots cost too.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// assert_eq!(wheel.peek(), None);
    /// let (late, soon) = (wheel.insert(900, "late"), wheel.insert(700, "soon"));
    /// assert_eq!(wheel.peek(), Some(soon));
    /// assert!(wheel.reschedule(soon, 1_000));
    /// assert_eq!(wheel.peek(), Some(late));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<Handle> {
        let tick_of = |entry| self.keys.deadline_of(entry);
        let given_out = self.due.iter();
        let given_out =
            given_out.filter_map(|&entry| self.keys.deadline_of(entry).map(|tick| (tick, entry)));
        let first = given_out.min_by_key(|&(tick, _)| tick);
        let others = self.entries.earliest(tick_of);
        let (_, entry) = first
            .into_iter()
            .chain(others)
            .min_by_key(|&(tick, _)| tick)?;
        Handle::of(entry)
    }

    /// The deadline as the wheel keeps it.
    fn held(&self, deadline: u64) -> u64 {
        deadline.clamp(self.now, DEADLINE_MAX)
    }

    fn move_to(&mut self, now: u64) {
        self.now = self.now.max(now.min(DEADLINE_MAX));
    }

    /// The timer that is due first. Its entry is then the first of `due`.
    fn first_due(&mut self) -> Option<Handle> {
        loop {
            while let Some(&entry) = self.due.front() {
                if let Some(first) = self.due_timer(entry) {
                    return Some(first);
                }
                self.due.pop_front();
            }
            if !self.fill_due(1) {
                return None;
            }
        }
    }

    /// Moves the wheel of entries to its next event, and about `limit` due entries to `due`.
    /// Returns `false` if no entry is due.
    fn fill_due(&mut self, limit: usize) -> bool {
        let event = self
            .entries
            .next_event()
            .map_or(self.now, |event| event.min(self.now));
        let more = self
            .entries
            .advance(event, limit, |entries| self.due.extend(entries));
        // No other thread is held up by this.
        while self.entries.trim() {}
        more || event < self.now || !self.due.is_empty()
    }

    /// The timer of a due entry. `None`: the entry is dead, or its timer was moved to a later
    /// deadline. In the second case this inserts a new entry there.
    fn due_timer(&mut self, entry: Entry) -> Option<Handle> {
        let Some((handle, timer)) = self.keys.by_entry(entry) else {
            self.dead = self.dead.saturating_sub(1);
            return None;
        };
        if timer.deadline == timer.entry_at {
            return Some(handle);
        }
        timer.entry_at = timer.deadline;
        self.entries.accept(handle.entry(timer.entry_at));
        None
    }

    /// Counts an entry that has become dead. It stays until it is due, or until the next sweep.
    fn count_dead(&mut self) {
        self.dead += 1;
        if self.dead > DEAD_MIN + self.keys.len() {
            self.sweep();
        }
    }

    /// Drops all dead entries. Cost: all entries, most of which are dead.
    #[cold]
    fn sweep(&mut self) {
        let Self {
            keys,
            entries,
            due,
            dead,
            ..
        } = self;
        entries.retain(|entry| keys.by_entry(entry).is_some());
        due.retain(|&entry| keys.by_entry(entry).is_some());
        while entries.trim() {}
        *dead = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
