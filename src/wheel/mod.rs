//! A timing wheel for one thread. The caller owns it, and moves its time.
//!
//! [`Wheel`] keeps timers, each with a key of your type, which comes back when the timer is due. It
//! starts no threads, reads no clock and takes no locks. [`TimerService`](crate::TimerService) does
//! all of this for you.
//!
//! It needs `core` and `alloc` alone. Without the crate's default features it is all that the crate
//! has, `no_std`, and without dependencies.
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
//! use std::sync::mpsc::channel;
//! use std::time::{Duration, Instant};
//! use wheelwork::wheel::Wheel;
//!
//! let (network, packets) = channel();
//! network.send("the answer of a").unwrap();
//!
//! // Ticks are milliseconds since the start, rounded down.
//! let start = Instant::now();
//! let now = || start.elapsed().as_millis() as u64;
//! let mut wheel = Wheel::new(now());
//! // One tick more, for the part of a tick that has passed.
//! let answer = wheel.insert(now() + 30_000 + 1, "no answer from a");
//! wheel.insert(now() + 5 + 1, "say hello to b");
//!
//! let mut said = Vec::new();
//! while let Some(deadline) = wheel.next_deadline() {
//!     let wait = Duration::from_millis(deadline).saturating_sub(start.elapsed());
//!     if let Ok("the answer of a") = packets.recv_timeout(wait) {
//!         assert_eq!(wheel.cancel(answer), Some("no answer from a"));
//!     }
//!     while let Some((_, what)) = wheel.pop_due(now()) {
//!         said.push(what);
//!     }
//! }
//! assert_eq!(said, ["say hello to b"]);
//! ```
//!
//! The example `event_loop` has connections that are idle, and pings.
//!
//! # Time and order
//!
//! - **Ticks.** A tick is whatever you like: a millisecond, a frame, a packet. Deadlines are exact
//!   at any distance. The last tick is 2^52 - 1 (142,000 years of milliseconds). Later deadlines
//!   and times are held at it.
//! - **Never early.** A tick that stands for a part of a clock's time is rounded down, and a delay
//!   from now takes one tick more, as above. Otherwise a timer may come up to a tick early.
//! - **Order.** Timers come out in order of deadlines, over all calls. Timers of one deadline come
//!   in no particular order. But the order is the same in each run that makes the same calls.
//!
//! # Cost
//!
//! | call | cost |
//! |---|---|
//! | [`insert`](Wheel::insert) | O(1), amortized: a free cell becomes the head of a list |
//! | [`cancel`](Wheel::cancel) | O(1): the cells before and after it are linked |
//! | [`reschedule`](Wheel::reschedule) | O(1): to a later deadline one store |
//! | [`next_deadline`](Wheel::next_deadline) | O(1) |
//! | [`peek`](Wheel::peek) | the timers of one slot, or of a few |
//! | [`advance`](Wheel::advance), [`pop_due`](Wheel::pop_due) | O(1), amortized, for each timer |
//!
//! - A timer moves from level to level at most six times before it is due, usually once or twice;
//!   and once more for each time that it was put off and its old deadline has come.
//! - Empty time costs nothing: an `advance` to a tick before the next slot that has timers is one
//!   comparison, and one by a year costs only the timers that are due, or move down, in it.
//!
//! # Memory
//!
//! - An empty wheel takes about 50 KB.
//! - A timer takes its key and about 24 bytes: 32 in all with a `u64`. Of these, 8 are its links,
//!   in a second `Vec`. Both `Vec`s double when they are full: [`reserve`](Wheel::reserve) avoids
//!   that. They are used again, and kept until the wheel is dropped.
//!
//! # Limits
//!
//! - *Pauses.* When time enters a slot, all its timers move to the levels below in one go. Slots
//!   have 256, 65,536, 2^24 ticks and so on, and begin at multiples of them. So at a multiple of
//!   65,536 all timers of the next 65,536 ticks move, also those that were armed just before it; at
//!   a multiple of 2^24 those of the next 2^24 ticks.
//! - *Later deadlines.* A timer that was moved to a later deadline stays in its slot until time
//!   enters the slot, which happens at the old deadline at the latest. Until then
//!   [`next_deadline`](Wheel::next_deadline) may be earlier than the earliest deadline. The same
//!   happens after a cancel of the first timer of a slot. An `advance` to that tick corrects it.
//! - *Number.* At 2^31 - 1 timers (some 64 GB) `insert` panics.

// How it works. Each timer has a cell (`nodes.rs`), and the cell has a link (`link.rs`), by which
// it is in the list of a slot (`levels.rs`).
//
// With many timers, cells and links are fetched into the cache before they are needed (`levels.rs`,
// `ahead.rs`).
//
// There are two times: `Wheel::now`, to which the caller has moved the wheel, and that of the
// levels, up to which slots were entered.
//
// Ground rules:
//  - A timer lies in the slot that its deadline has by the time of the levels, or in one that
//    begins earlier: then it was moved to a later deadline, and goes on when that slot is entered.
//  - The time of the levels is never after the caller's, and stands at the tick of the timers that
//    are given out, until they are. So deadlines come out in order, and a timer that is armed
//    meanwhile has its place among them.
//  - No code of the caller runs while a timer is only partly put in or taken out.

mod ahead;
mod cascade;
mod contents;
mod levels;
mod link;
mod nodes;
mod occupied;
mod slot;

pub use nodes::Handle;

use levels::SlotLists;
use link::lists;
use nodes::{Gone, Nodes};
use slot::SlotNumber;

/// The last tick. Later deadlines are held at it.
const DEADLINE_MAX: u64 = (1 << 52) - 1;

// The service holds its deadlines at the same tick.
#[cfg(feature = "std")]
const _: () = assert!(DEADLINE_MAX == crate::entry::DEADLINE_MAX);

/// With fewer timers than this, the processor can hardly predict whether a timer is alone in its
/// slot (`SlotLists::unlink`).
const FEW: usize = 2_048;

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
    levels: SlotLists,
    nodes: Nodes<K>,
    /// The latest tick to which the caller has moved the wheel.
    now: u64,
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
        let nodes = Nodes::with_capacity(capacity);
        Self {
            levels: SlotLists::new(now, nodes.capacity()),
            nodes,
            now,
        }
    }

    /// Arms a timer. O(1), amortized.
    ///
    /// A deadline before [`now`](Self::now) is held at `now`: the timer is due at the next
    /// [`advance`](Self::advance), to whatever tick. A deadline after 2^52 - 1 is held at 2^52 - 1.
    ///
    /// # Panics
    /// At 2^31 - 1 timers.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(100);
    /// let late = wheel.insert(7, 'a');
    /// assert_eq!(wheel.deadline(late), Some(100));
    /// assert_eq!(wheel.pop_due(0), Some((100, 'a')));
    /// ```
    #[inline(always)]
    pub fn insert(&mut self, deadline: u64, key: K) -> Handle {
        // (Always inlined, as `cancel`: a caller that is optimized for size, or is one unit of
        // code, would pass the key through memory.)
        self.put(deadline, key)
    }

    /// `insert`, inlined: a key of several fields need not go through memory.
    #[inline(always)]
    pub(crate) fn put(&mut self, deadline: u64, key: K) -> Handle {
        let deadline = self.held(deadline);
        let put = self.nodes.put(deadline, key);
        let handle = put.unwrap_or_else(|key| self.put_into_new(deadline, key));
        self.levels.put(handle.cell(), deadline, self.nodes.len());
        handle
    }

    #[cold]
    #[inline(never)]
    fn put_into_new(&mut self, deadline: u64, key: K) -> Handle {
        let cells = self.nodes.add();
        self.levels.add(self.nodes.capacity(), cells);
        let put = self.nodes.put(deadline, key);
        put.unwrap_or_else(|_| unreachable!("cells were added"))
    }

    /// Removes a timer and returns its key; `None` if the timer is gone already. O(1).
    ///
    /// A timer that is due but was not given out yet can be cancelled too. Nothing of a cancelled
    /// timer stays in memory. Only its tick may stay the one that
    /// [`next_deadline`](Self::next_deadline) returns.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(0);
    /// let handle = wheel.insert(7, String::from("key"));
    /// assert_eq!(wheel.cancel(handle).as_deref(), Some("key"));
    /// assert_eq!(wheel.cancel(handle), None);
    /// ```
    #[inline(always)]
    pub fn cancel(&mut self, handle: Handle) -> Option<K> {
        let Gone { key, .. } = self.nodes.take(handle)?;
        self.unlink(handle.cell());
        Some(key)
    }

    /// Moves a timer to another deadline. Its handle stays valid. `false` if the timer is gone.
    /// O(1).
    ///
    /// Deadlines are held as in [`insert`](Self::insert). A later deadline is only noted in the
    /// timer's cell. When time enters the slot in which the timer lies, at the old deadline at the
    /// latest, it moves once, however often its deadline was moved before. So a timeout that each
    /// packet puts off costs one store a packet.
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
        let Some(former) = self.nodes.set_deadline(handle, deadline) else {
            return false;
        };
        if deadline < former {
            self.unlink(handle.cell());
            self.levels.put(handle.cell(), deadline, self.nodes.len());
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
    #[inline]
    pub fn advance(&mut self, now: u64, limit: usize, f: impl FnMut(u64, K)) -> bool {
        self.move_to(now);
        !self.levels.pass(self.now) && self.give_out_all(limit, f)
    }

    /// (Not inlined: most ticks have no timers, and then nothing but `pass` should run.)
    #[inline(never)]
    fn give_out_all(&mut self, limit: usize, mut f: impl FnMut(u64, K)) -> bool {
        let mut left = limit;
        while let Some(slot) = self.next_tick() {
            let gains = self.levels.gains();
            let mut is_last = false;
            while !is_last {
                if left == 0 {
                    return self.first_due().is_some();
                }
                if gains {
                    self.look_ahead(slot);
                }
                let cell;
                (cell, is_last) = self.levels.pop(slot);
                match self.nodes.deadline(cell) {
                    Some(later) if later > self.levels.time() => {
                        self.levels.put(cell, later, self.nodes.len());
                    }
                    _ => {
                        if let Some(Gone { deadline, key, .. }) = self.nodes.take_cell(cell) {
                            left -= 1;
                            f(deadline, key);
                        }
                    }
                }
            }
        }
        false
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
        if self.levels.pass(self.now) {
            return None;
        }
        let due = self.first_due()?;
        self.give_out(due)
    }

    /// A tick at or before the earliest deadline, for the next call of [`advance`](Self::advance);
    /// `None` if the wheel is empty. O(1).
    ///
    /// If a timer is due it is not after `now`. It is the earliest deadline itself, unless a timer
    /// that was armed for an earlier tick was cancelled or moved: then it may be that tick. An
    /// `advance` to such a tick finds no due timer, and `next_deadline` is later after it.
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
        self.levels.earliest()
    }

    /// The timer with the earliest deadline; `None` if the wheel is empty. Of timers with one
    /// deadline it is any. It does not move time, so the timer need not be due.
    ///
    /// Cost: a look at all timers of the first slot that has any. That is one tick before the next
    /// multiple of 256, 256 ticks before the next multiple of 65,536, and so on. If they were moved
    /// to later deadlines, the next slots cost too.
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
        let mut first: Option<(u64, u32)> = None;
        for (slot, begin) in self.levels.all() {
            if first.is_some_and(|(deadline, _)| deadline <= begin) {
                break;
            }
            first = match self.levels.only_list(slot) {
                Some(list) => self.first_of(list, first),
                None => lists(slot).fold(first, |first, list| self.first_of(list, first)),
            };
        }
        self.nodes.handle(first?.1)
    }

    /// The first of a list's timers and another one, by deadline.
    #[inline]
    fn first_of(&self, list: u32, other: Option<(u64, u32)>) -> Option<(u64, u32)> {
        let cells = self.levels.cells_of(list);
        let timers = cells.filter_map(|cell| Some((self.nodes.deadline(cell)?, cell)));
        timers.chain(other).min()
    }

    /// The deadline as the wheel keeps it.
    fn held(&self, deadline: u64) -> u64 {
        deadline.max(self.now).min(DEADLINE_MAX)
    }

    /// (A branch that is easy to predict: so the next call need not wait for this one's store.)
    #[inline]
    fn move_to(&mut self, now: u64) {
        if now > self.now {
            self.now = now.min(DEADLINE_MAX);
        }
    }

    /// The cell of the timer that is due first.
    #[inline]
    fn first_due(&mut self) -> Option<u32> {
        while let Some(slot) = self.next_tick() {
            if self.levels.gains() {
                self.look_ahead(slot);
            }
            if let Some(due) = self.due_in(slot) {
                return Some(due);
            }
        }
        None
    }

    /// Enters slots up to the first one of a tick that has timers, at most up to `now`.
    #[inline]
    fn next_tick(&mut self) -> Option<SlotNumber> {
        loop {
            let slot = self.levels.enter(self.now)?;
            if slot.is_tick() {
                return Some(slot);
            }
            self.cascade(slot);
        }
    }

    /// The cell of a timer that is due in the slot of the tick that was entered. Timers that were
    /// put off go on when they come first. Only the first is looked at: a search for a due one
    /// behind it would visit the whole slot again for each timer.
    #[inline]
    fn due_in(&mut self, slot: SlotNumber) -> Option<u32> {
        loop {
            let head = self.levels.head(slot)?;
            let deadline = self.nodes.deadline(head)?;
            if deadline <= self.levels.time() {
                return Some(head);
            }
            self.unlink(head);
            self.levels.put(head, deadline, self.nodes.len());
        }
    }

    /// A timer of a slot is given out next: fetches some of the next ticks' meanwhile.
    #[inline(never)]
    fn look_ahead(&mut self, slot: SlotNumber) {
        self.levels.given_out(slot);
        // Two steps for one, to get ahead.
        for _ in 0..2 {
            if let Some(cell) = self.levels.look_ahead() {
                self.prefetch(cell);
            }
        }
    }

    #[inline]
    fn prefetch(&self, cell: u32) {
        self.levels.prefetch(cell);
        self.nodes.prefetch(cell);
    }

    /// Takes a cell out of its list.
    #[inline]
    fn unlink(&mut self, cell: u32) {
        self.levels.unlink(cell, self.nodes.len() < FEW);
    }

    /// Removes the timer of a cell.
    #[inline]
    fn give_out(&mut self, cell: u32) -> Option<(Handle, u64, K)> {
        let gone = self.nodes.take_cell(cell)?;
        self.unlink(cell);
        Some((gone.handle, gone.deadline, gone.key))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
