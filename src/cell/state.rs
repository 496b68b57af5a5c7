//! Cell: state word, place and content of one timer, and looks at them. States and protocol: README.md of this room.

use super::word::{COUNT_LAST, LAG_MAX, State, Word};
use crate::entry::{DEADLINE_BITS, DEADLINE_MAX, Entry};
#[cfg(not(loom))]
use crate::mem::Zeroable;
use crate::sync::{AtomicU64, Fault, Ordering, UnsafeCell, broken, ordering, pause};
use crate::time::Repeat;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Bits of a shard's number, beside the deadline in one word.
pub(crate) const SHARD_BITS: u32 = 64 - DEADLINE_BITS;

/// A deadline (a tick) and a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(super) u64);

impl Place {
    #[inline]
    pub(crate) fn new(deadline: u64, shard: usize) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX && shard < 1 << SHARD_BITS);
        Self((shard as u64) << DEADLINE_BITS | deadline)
    }

    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.0 & DEADLINE_MAX
    }

    #[inline]
    pub(crate) fn shard(self) -> usize {
        (self.0 >> DEADLINE_BITS) as usize
    }
}

/// What a timer was armed with.
#[derive(Debug)]
pub(crate) enum Content<T> {
    Payload(T),
    Repeat(Box<Repeat>),
}

/// What can be put into a cell: known when it is compiled, so that arming a payload costs nothing for those that repeat.
pub(crate) trait Fill<T>: Sized {
    /// Whether it is a `Repeat`.
    const REPEATS: bool;

    /// What the caller gets back if it is refused.
    type Back;

    /// As it lies in the cell.
    fn stored(self) -> Stored<T>;

    /// Back to the caller.
    fn back(self) -> Self::Back;

    /// What was put in, back to the caller.
    fn of(content: Content<T>) -> Self::Back;
}

/// A payload to be put into a cell.
pub(crate) struct Payload<T>(pub(crate) T);

impl<T> Fill<T> for Payload<T> {
    const REPEATS: bool = false;

    type Back = T;

    #[inline]
    fn stored(self) -> Stored<T> {
        Stored { payload: ManuallyDrop::new(self.0) }
    }

    fn back(self) -> T {
        self.0
    }

    fn of(content: Content<T>) -> T {
        match content {
            Content::Payload(payload) => payload,
            Content::Repeat(_) => unreachable!("it was a payload"),
        }
    }
}

impl<T> Fill<T> for Box<Repeat> {
    const REPEATS: bool = true;

    type Back = Self;

    fn stored(self) -> Stored<T> {
        Stored { repeat: ManuallyDrop::new(self) }
    }

    fn back(self) -> Self {
        self
    }

    fn of(content: Content<T>) -> Self {
        match content {
            Content::Repeat(repeat) => repeat,
            Content::Payload(_) => unreachable!("it was a repeat"),
        }
    }
}

/// A content in its cell: the word says which, and whether there is one.
pub(crate) union Stored<T> {
    payload: ManuallyDrop<T>,
    repeat: ManuallyDrop<Box<Repeat>>,
}

/// One timer's shared state: 16 bytes and the content.
#[repr(C)]
pub(crate) struct Cell<T> {
    pub(super) word: AtomicU64,
    pub(super) place: AtomicU64,
    content: UnsafeCell<MaybeUninit<Stored<T>>>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell<u64>>() == 24 && size_of::<Cell<u8>>() == 24);

/// What is needed of timers that were re-armed only. Apart from the cells, so that others neither touch nor pay for it.
pub(crate) struct Side {
    /// The count of the first filing of a timer that has moved often: what its id names.
    pub(super) birth: AtomicU64,
    /// `count << 16 | lag`: an entry that came before its deadline was put back, at this lag. A hint of where the tombstone has to go.
    pub(super) put_back: AtomicU64,
}

// SAFETY: a cell hands its content from thread to thread, never shares it: it belongs to whoever wins the way out of ARMED.
unsafe impl<T: Send> Sync for Cell<T> {}

// SAFETY: atomics of zero are VACANT of count 0; the content may be uninitialized; it is not dropped with the cell (stop claims all).
#[cfg(not(loom))]
unsafe impl<T> Zeroable for Cell<T> {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl<T> crate::mem::Zeroable for Cell<T> {
    fn zeroed() -> Self {
        Self { word: AtomicU64::new(0), place: AtomicU64::new(0), content: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

// SAFETY: zeros.
#[cfg(not(loom))]
unsafe impl Zeroable for Side {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl crate::mem::Zeroable for Side {
    fn zeroed() -> Self {
        Self { birth: AtomicU64::new(0), put_back: AtomicU64::new(0) }
    }
}

/// A cell of the arena, with its side.
pub(crate) struct Slot<'a, T> {
    pub(super) index: u32,
    pub(super) cell: &'a Cell<T>,
    pub(super) side: &'a Side,
}

#[cfg(any(loom, test))]
impl<'a, T> Slot<'a, T> {
    /// A cell without an arena, for models and tests.
    pub(crate) fn alone(cell: &'a Cell<T>, side: &'a Side) -> Self {
        Self { index: 0, cell, side }
    }
}

impl<T> Clone for Slot<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<'_, T> {}

/// An entry, and the shard that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filed {
    pub(crate) entry: Entry,
    pub(crate) shard: usize,
}

impl<T> Cell<T> {
    /// The count of the cell's present or next filing.
    pub(super) fn count(&self) -> u64 {
        // Ordering: Acquire. Pairs with the Release of C3: for a holder of the index that is its own, or came with the depot.
        Word(self.word.load(Ordering::Acquire)).count()
    }

    /// What is left of a cell whose page is freed: who looks at it makes a model fail.
    #[cfg(loom)]
    pub(super) fn poison(&mut self) {
        self.word.set(u64::MAX);
    }

    /// Lets a cell of a new page start at a count that its predecessors have not used.
    pub(crate) fn start_at(&self, count: u64) {
        // Ordering: Relaxed. The page is not published yet.
        self.word.store(Word::new(count, State::Vacant).0, Ordering::Relaxed);
    }

    /// # Safety
    /// The content is the caller's, and was moved out, or never there.
    #[inline]
    pub(super) unsafe fn put_content(&self, content: impl Fill<T>) {
        let stored = content.stored();
        // SAFETY: the caller's promise.
        self.content.with_mut(|slot| unsafe { (*slot).write(stored) });
    }

    /// # Safety
    /// The content is the caller's, it is there, and it is a payload.
    #[inline]
    pub(super) unsafe fn take_payload(&self) -> T {
        // SAFETY: the caller's promise: it is read once.
        let stored = self.content.with(|slot| unsafe { slot.read() });
        // SAFETY: the caller's promise: it is there.
        let stored = unsafe { stored.assume_init() };
        // SAFETY: the caller's promise: it is a payload.
        ManuallyDrop::into_inner(unsafe { stored.payload })
    }

    /// # Safety
    /// The content is the caller's, it is there, and `word` is what the cell had when it was put there.
    #[inline]
    pub(super) unsafe fn take_content(&self, word: Word) -> Content<T> {
        // SAFETY: the caller's promise: it is read once.
        let stored = self.content.with(|slot| unsafe { slot.read() });
        // SAFETY: the caller's promise: it is there.
        let stored = unsafe { stored.assume_init() };
        if word.repeats() {
            // SAFETY: REPEATS is set exactly where a `Repeat` was put.
            Content::Repeat(ManuallyDrop::into_inner(unsafe { stored.repeat }))
        } else {
            // SAFETY: as above.
            Content::Payload(ManuallyDrop::into_inner(unsafe { stored.payload }))
        }
    }

    /// From `word` to `next`, if nothing has changed. If something has: what is there now.
    #[inline]
    pub(super) fn exchange(&self, word: Word, next: Word) -> Result<(), Word> {
        if broken(Fault::ClaimNotAtomic) {
            // Ordering: Release. The broken variant: two threads may both get here.
            self.word.store(next.0, Ordering::Release);
            return Ok(());
        }
        // Ordering: AcqRel (C3) if won: the content is read after it, or was written before it, and `stop` that sees the word sees the winner's job
        // begun (F1). Acquire if lost, for the same reason: the look of `stop` may be the one that fails here, and X5 leans on it.
        let won = ordering(Ordering::AcqRel, Fault::ClaimRelaxed);
        let lost = ordering(Ordering::Acquire, Fault::ClaimLostRelaxed);
        self.word.compare_exchange(word.0, next.0, won, lost).map(|_| ()).map_err(Word)
    }
}

impl<T> Slot<'_, T> {
    #[inline]
    pub(super) fn load(&self) -> Word {
        // Ordering: Acquire (C1). Pairs with the Release of A2 and of whoever changed the word since; publishes content, place and side.
        let word = Word(self.cell.word.load(Ordering::Acquire));
        debug_assert!(!cfg!(loom) || word.0 != u64::MAX, "a look at a page that is freed");
        word
    }

    #[inline]
    pub(super) fn place(&self) -> Place {
        // Ordering: Relaxed (C2). Belongs to the word that was loaded before, or the exchange that follows fails.
        Place(self.cell.place.load(Ordering::Relaxed))
    }

    /// The count that the timer's id names.
    #[inline]
    pub(super) fn birth(&self, word: Word) -> u64 {
        // Ordering: Relaxed. As the place.
        word.birth().unwrap_or_else(|| self.side.birth.load(Ordering::Relaxed))
    }

    pub(super) fn filed(&self, deadline: u64, shard: usize, word: Word) -> Filed {
        Filed { entry: Entry::new(deadline, self.index, word.count()), shard }
    }

    /// Where the timer's entry is, as far as one can know: while it is being put back, it may be on the way.
    #[inline]
    pub(super) fn whereabouts(&self, word: Word, place: Place) -> Filed {
        let mut deadline = place.deadline();
        if word.lag() > 0 {
            // Ordering: Relaxed. A hint: a wrong one leaves a dead entry and a tombstone where they are until they are due.
            let put_back = self.side.put_back.load(Ordering::Relaxed);
            if put_back >> 16 == word.count() {
                deadline += put_back & LAG_MAX;
            }
        }
        self.filed(deadline, place.shard(), word)
    }

    /// The index, for the caller to hold, unless the cell's count is used up.
    #[inline]
    pub(super) fn index(&self, word: Word) -> Option<u32> {
        (word.count() < COUNT_LAST).then_some(self.index)
    }

    /// Whether the timer of this birth still waits, or runs and comes again.
    #[inline]
    pub(crate) fn is_pending(&self, birth: u64) -> bool {
        let word = self.load();
        matches!(word.state(), State::Armed | State::Held | State::Queued | State::Running) && self.birth(word) == birth
    }

    /// The timer that waits here: birth and deadline.
    pub(crate) fn look(&self) -> Option<(u64, Place)> {
        loop {
            let word = self.load();
            let (place, birth) = (self.place(), self.birth(word));
            match word.state() {
                State::Armed | State::Queued | State::Running => {}
                State::Held => {
                    // The deadline is being changed: a matter of nanoseconds, unless the thread that does it is preempted.
                    pause();
                    continue;
                }
                State::Vacant | State::Doomed | State::Left | State::Ended => return None,
            }
            // Ordering: AcqRel. A read that cannot be reordered before those above: if the word is the same still, they belong to it.
            if self.cell.word.compare_exchange(word.0, word.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some((birth, Place::new(place.deadline() + word.lag(), place.shard())));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Its count never wraps: no id and no entry that names it can mean another timer.
    #[test]
    fn a_cell_that_has_counted_to_the_end_is_held_no_more() {
        let (word, place, content) = (AtomicU64::new(0), AtomicU64::new(0), UnsafeCell::new(MaybeUninit::uninit()));
        let cell = Cell { word, place, content };
        let side = Side { birth: AtomicU64::new(0), put_back: AtomicU64::new(0) };
        for (count, index) in [(COUNT_LAST - 1, Some(0)), (COUNT_LAST, None)] {
            cell.start_at(count);
            let slot = Slot::alone(&cell, &side);
            // SAFETY: nobody else has to do with the cell.
            let birth = unsafe { slot.arm(Place::new(7, 3), Payload("payload")) };
            assert_eq!(birth, count);
            let claimed = slot.claim_id(birth).expect("it is armed");
            assert!(matches!(claimed.content, Some(Content::Payload("payload"))));
            assert_eq!((claimed.place, claimed.index), (Place::new(7, 3), index));
            assert!(!slot.is_pending(birth));
        }
    }
}
