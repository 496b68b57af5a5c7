//! Keyed: the wheel alone, for one thread and its keys.
//!
//! Every timer has a cell (`keys.rs`), and one live entry in the wheel of entries, at `filed`. What the wheel hands out waits in `due` until it is
//! given to the caller, since the wheel hands out whole chunks. All other entries that come are dead: their cell has another generation, or
//! its timer is filed elsewhere.
//!
//! Ground rules:
//!  - The wheel of entries is moved to one event at a time, and only when nothing waits in `due` that is to be filed again. So a timer that was moved
//!    to a later deadline goes back before time has passed it, and deadlines come in order.
//!  - No caller's code runs while a timer is half in, half out.

mod contents;
mod keys;

pub use keys::Handle;

use super::EntryWheel;
use crate::entry::{DEADLINE_MAX, Entry};
use keys::{Keys, Timer};
use std::collections::VecDeque;

/// Dead entries that are not worth a sweep.
const DEAD_MIN: usize = 64;

/// A timing wheel for one thread: timers with a key of type `K` each, and a time that the caller moves.
///
/// For event loops, simulations, games, protocol stacks: whoever has a thread of its own, and a time of its own, and many timers of which
/// most are cancelled or moved before they are due. It starts no threads, reads no clock, and takes no locks;
/// [`TimerService`](crate::TimerService) is the one that does all this for you.
///
/// **Time** is counted in ticks of whatever you like: milliseconds, frames, packets. Deadlines are exact, at any distance; ticks after 2^52 - 1
/// (142,000 years of milliseconds) are taken for that one, deadlines and time alike.
///
/// **Order.** Deadlines come in order, over all calls. Timers of one deadline come in no particular order, but in the same one whenever
/// the same calls are made.
///
/// **Cost.** All calls on one timer are O(1), amortized. `insert` takes a free cell and appends 12 bytes to a slot; `cancel` and a move to
/// an earlier deadline leave an entry for dead. When the dead outnumber the living they are swept out, all at once: two entries of work for each.
/// On its way down the levels a timer is moved at most six times, once or twice as a rule. Empty time is skipped: `advance` by a year costs
/// what is due in it.
///
/// **Memory.** Some 70 KB for an empty wheel; a timer takes a cell (its key and some 32 bytes), and 12 bytes for its entry (16 if it is due 2^32 ticks later), which come 256
/// KiB at a time. Entries give their memory back; cells are used again, and kept until the wheel is dropped.
///
/// **Limits.** A slot is sorted into the level below in one go when time enters it, and a sweep looks at all entries: a million timers due within the same
/// minute cost some milliseconds at its start, and one cancel in a million some milliseconds. A timer moved to a later deadline costs a second filing when its old one comes. Nothing panics below 2^32
/// timers (200 GB); if the closure of `advance` does, the wheel goes on without that one key.
///
/// **Against a plain one.** A textbook wheel of linked lists is faster today: with 1,000 to 1,000,000
/// timers an `insert` takes 1.4 to 2.8 times as long here, a `cancel` 3 to 7 times, an `advance` up to 7
/// times (at a million two thirds). README.md has the figures, of one repetition on one thread.
///
/// # Example
/// ```
/// use wheelwork::wheel::Wheel;
///
/// let mut wheel = Wheel::new(0);
/// let answer = wheel.insert(30_000, "no answer from a");
/// wheel.insert(500, "say hello to b");
/// // The answer has come.
/// assert_eq!(wheel.cancel(answer), Some("no answer from a"));
///
/// // The loop sleeps until here, or until there is something to read.
/// assert_eq!(wheel.next_deadline(), Some(500));
/// while let Some((deadline, what)) = wheel.pop_due(501) {
///     assert_eq!((deadline, what), (500, "say hello to b"));
/// }
/// assert!(wheel.is_empty());
/// ```
pub struct Wheel<K> {
    entries: EntryWheel,
    keys: Keys<K>,
    /// Entries that the wheel has handed out, in order.
    due: VecDeque<Entry>,
    /// The latest tick that the caller has named.
    now: u64,
    /// Dead entries, in the wheel and in `due`.
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
        let now = now.min(DEADLINE_MAX);
        Self { entries: EntryWheel::new(now, u64::MAX), keys: Keys::new(), due: VecDeque::new(), now, dead: 0 }
    }

    /// Arms a timer. O(1).
    ///
    /// A deadline before [`now`](Self::now) is held at `now`: it is due at the next [`advance`](Self::advance), whatever tick that names.
    /// One after 2^52 - 1 is held at that.
    ///
    /// # Example
    /// ```
    /// let mut wheel = wheelwork::wheel::Wheel::new(100);
    /// let late = wheel.insert(7, 'a');
    /// assert_eq!(wheel.deadline(late), Some(100));
    /// assert_eq!(wheel.pop_due(0), Some((100, 'a')));
    /// ```
    pub fn insert(&mut self, deadline: u64, key: K) -> Handle {
        let deadline = self.hold(deadline);
        let handle = self.keys.put(Timer { deadline, filed: deadline, key });
        self.entries.file(handle.entry(deadline));
        handle
    }

    /// Takes a timer away and gives its key back; `None` if it is gone already. O(1) amortized.
    ///
    /// A timer that is due but was not given out yet can be cancelled too. Dead entries do not outnumber the living, but for 64.
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
        self.bury();
        Some(timer.key)
    }

    /// Moves a timer to another deadline; its handle stays valid. `false` if the timer is gone. O(1) amortized.
    ///
    /// Deadlines are held as by [`insert`](Self::insert). A later deadline is only noted in the timer's cell: its entry moves when the old deadline
    /// comes, once, however often the timer was moved until then. So a timeout that each packet puts off costs a store for each.
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
        let deadline = self.hold(deadline);
        let Some(timer) = self.keys.get_mut(handle) else { return false };
        timer.deadline = deadline;
        if deadline < timer.filed {
            timer.filed = deadline;
            self.entries.file(handle.entry(deadline));
            self.bury();
        }
        true
    }

    /// Moves time to `now` and gives `f` the deadlines and keys of what is due, at most `limit` of them. Returns whether more is due.
    ///
    /// Time does not go back: an earlier `now` counts as the latest one. What is left over is due at the next call, and can be cancelled
    /// and moved until then. To arm timers for what is due, collect what `f` gets, or use [`pop_due`](Self::pop_due).
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
            let Some((deadline, key)) = self.pop_due(now) else { return false };
            f(deadline, key);
        }
        self.move_to(now);
        self.first_due().is_some()
    }

    /// Moves time to `now` and takes the timer out that is due first, if one is: its deadline and key.
    ///
    /// As [`advance`](Self::advance) with a limit of one, but the wheel is free between two calls. A loop that arms timers for `now` at the
    /// latest does not end.
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
        self.move_to(now);
        let first = self.first_due()?;
        self.due.pop_front();
        let Timer { deadline, key, .. } = self.keys.take(first)?;
        Some((deadline, key))
    }

    /// When to call [`advance`](Self::advance) again: never after the earliest deadline, not after `now` if something is due; `None` if the
    /// wheel is empty. O(1).
    ///
    /// It is the earliest deadline itself, but for two cases. A timer that came before all others may have been cancelled, or moved to a
    /// later deadline: then it may be that timer's old one. And if more than 4,096 entries lie in the slot that comes next, it may be an
    /// earlier tick, around the slot's first one, so that it is sorted before its timers are due. An `advance` to that tick finds nothing
    /// due, and `next_deadline` says a later one then.
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
        if self.is_empty() {
            return None;
        }
        self.due.front().map(|entry| entry.deadline()).or_else(|| self.entries.next_event())
    }

    /// The deadline as the wheel keeps it.
    fn hold(&self, deadline: u64) -> u64 {
        deadline.clamp(self.now, DEADLINE_MAX)
    }

    fn move_to(&mut self, now: u64) {
        self.now = self.now.max(now.min(DEADLINE_MAX));
    }

    /// The timer that is due first; its entry is the first of `due` then.
    fn first_due(&mut self) -> Option<Handle> {
        loop {
            while let Some(&entry) = self.due.front() {
                if let Some(first) = self.look(entry) {
                    return Some(first);
                }
                self.due.pop_front();
            }
            if !self.take_out(1) {
                return None;
            }
        }
    }

    /// Moves the wheel of entries to its next event, and some `limit` entries of it to `due`. `false`: nothing is due in it.
    fn take_out(&mut self, limit: usize) -> bool {
        let event = self.entries.next_event().map_or(self.now, |event| event.min(self.now));
        let more = self.entries.advance(event, limit, |entries| self.due.extend(entries));
        // There is nobody else to hold up.
        while self.entries.trim() {}
        more || event < self.now || !self.due.is_empty()
    }

    /// The timer that an entry which is due stands for. `None`: the entry is dead, or its timer was moved to a later deadline, and is filed there now.
    fn look(&mut self, entry: Entry) -> Option<Handle> {
        let Some((handle, timer)) = self.keys.filed(entry) else {
            self.dead = self.dead.saturating_sub(1);
            return None;
        };
        if timer.deadline == timer.filed {
            return Some(handle);
        }
        timer.filed = timer.deadline;
        self.entries.file(handle.entry(timer.filed));
        None
    }

    /// An entry is dead from now on: it stays until it is due, or until there are too many.
    fn bury(&mut self) {
        self.dead += 1;
        if self.dead > DEAD_MIN + self.len() {
            self.sweep();
        }
    }

    /// Drops the dead. It is as much work as there are entries: dead ones, and fewer living ones.
    #[cold]
    fn sweep(&mut self) {
        let Self { keys, entries, due, dead, .. } = self;
        entries.retain(|entry| keys.filed(entry).is_some());
        due.retain(|&entry| keys.filed(entry).is_some());
        while entries.trim() {}
        *dead = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
