//! Cell: state word, `due_at` and content of one timer, and looks at them.
//!
//! The arena owns cells; any thread may look at one through a [`CellRef`]. `claim.rs` and
//! `rearm.rs` have the transitions. States and protocol: README.md of this room.

use super::content::{Content, Fill, Stored};
use super::word::{GENERATION_LAST, LAG_BITS, LAG_MAX, Pause, State, Word};
use crate::entry::{DEADLINE_BITS, DEADLINE_MAX, Entry};
#[cfg(not(loom))]
use crate::mem::Zeroable;
use crate::sync::{AtomicU64, Fault, Ordering, UnsafeCell, cas_unless, ordering, pause};
use std::mem::{ManuallyDrop, MaybeUninit};

/// Bits of a shard's number, beside the deadline in one word.
pub(crate) const SHARD_BITS: u32 = 64 - DEADLINE_BITS;

/// Beside a deadline: it is what is left of a paused timer, in nanoseconds.
const LEFT: u64 = 1 << 63;

/// A deadline (a tick) and a shard. Of a paused timer that was claimed, what is left and a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueAt {
    deadline: u64,
    shard: usize,
}

impl DueAt {
    #[inline]
    pub(crate) fn new(deadline: u64, shard: usize) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX && shard < 1 << SHARD_BITS);
        Self { deadline, shard }
    }

    /// Both as one number, for a cell.
    #[inline]
    pub(super) fn packed(self) -> u64 {
        (self.shard as u64) << DEADLINE_BITS | self.deadline
    }

    #[inline]
    fn unpacked(packed: u64) -> Self {
        Self::new(packed & DEADLINE_MAX, (packed >> DEADLINE_BITS) as usize)
    }

    /// Of a paused timer.
    pub(super) fn left(left_ns: u64, shard: usize) -> Self {
        let deadline = left_ns | LEFT;
        Self { deadline, shard }
    }

    /// What is left of a paused timer. `None`: it has a deadline.
    pub(crate) fn left_ns(self) -> Option<u64> {
        (self.deadline & LEFT != 0).then_some(self.deadline & !LEFT)
    }

    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        debug_assert!(self.left_ns().is_none());
        self.deadline
    }

    #[inline]
    pub(crate) fn shard(self) -> usize {
        self.shard
    }
}

/// One timer's shared state: 16 bytes and the content.
#[repr(C)]
pub(crate) struct Cell<T> {
    pub(super) word: AtomicU64,
    pub(super) due_at: AtomicU64,
    content: UnsafeCell<MaybeUninit<Stored<T>>>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell<u64>>() == 24 && size_of::<Cell<u8>>() == 24);

/// The part of a timer's state that only re-armed timers need. It lies apart from the cells: other
/// timers neither touch it nor pay for it.
pub(crate) struct Side {
    /// The birth of a timer that has moved often: the generation of its first filing, in its id.
    pub(super) birth: AtomicU64,
    /// `generation << LAG_BITS | lag`: the entry of this filing came early and was put back, at
    /// this lag. A hint of where the tombstone has to go.
    pub(super) put_back: AtomicU64,
}

/// The part of a timer's state that only timers that are paused need, or that go by the wall clock.
/// It lies apart from the cells and from the sides.
pub(crate) struct PauseSide {
    /// What is left of a PAUSED timer, in nanoseconds.
    pub(super) left_ns: AtomicU64,
    /// The generation that the timer gets if it is resumed as it was paused.
    pub(super) resumed: AtomicU64,
    /// By how much the latest resume, or run after one, has rounded the deadline up. The word says
    /// whether that holds for the present filing. Of a PAUSED timer: for how long its time had
    /// passed when it was paused, before the tick to which that was rounded up.
    pub(super) rounded_ns: AtomicU64,
    /// The birth of the cell's latest timer by the wall clock, + 1.
    pub(super) by_wall: AtomicU64,
}

// SAFETY: a cell hands its content from thread to thread and never shares it. The content belongs
// to the thread that wins the exchange out of ARMED, HELD or RUNNING.
unsafe impl<T: Send> Sync for Cell<T> {}

// SAFETY: a word of zero is VACANT of generation 0. The content may be uninitialized. It is not
// dropped with the cell: `stop` claims all cells.
#[cfg(not(loom))]
unsafe impl<T> Zeroable for Cell<T> {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl<T> crate::mem::Zeroable for Cell<T> {
    fn zeroed() -> Self {
        Self {
            word: AtomicU64::new(0),
            due_at: AtomicU64::new(0),
            content: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

// SAFETY: zero is a value of each of its atomics.
#[cfg(not(loom))]
unsafe impl Zeroable for Side {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl crate::mem::Zeroable for Side {
    fn zeroed() -> Self {
        Self {
            birth: AtomicU64::new(0),
            put_back: AtomicU64::new(0),
        }
    }
}

// SAFETY: zero is a value of each of its atomics.
#[cfg(not(loom))]
unsafe impl Zeroable for PauseSide {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl crate::mem::Zeroable for PauseSide {
    fn zeroed() -> Self {
        Self {
            left_ns: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            rounded_ns: AtomicU64::new(0),
            by_wall: AtomicU64::new(0),
        }
    }
}

/// A cell of the arena, with its index and its sides.
pub(crate) struct CellRef<'a, T> {
    pub(super) index: u32,
    pub(super) cell: &'a Cell<T>,
    pub(super) side: &'a Side,
    /// Where its page begins: the pause sides are looked up when they are needed.
    #[cfg(not(any(loom, test)))]
    pub(super) page: *const (),
    /// (In tests a cell may be alone, without a page.)
    #[cfg(any(loom, test))]
    pub(super) pause_side: &'a PauseSide,
}

#[cfg(any(loom, test))]
impl<'a, T> CellRef<'a, T> {
    /// A cell without an arena, for models and tests.
    pub(crate) fn alone(cell: &'a Cell<T>, side: &'a Side, pause_side: &'a PauseSide) -> Self {
        Self {
            index: 0,
            cell,
            side,
            pause_side,
        }
    }
}

impl<T> Clone for CellRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CellRef<'_, T> {}

/// What is left of a timer that is paused. One of the two is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) left_ns: u64,
    /// For how long its time had passed when it was paused, before the tick to which that was
    /// rounded up. If this were forgotten, a timer that is paused at each of its ticks would never
    /// fire.
    pub(crate) over_ns: u64,
}

impl Left {
    pub(super) fn until(due_ns: u64, now_ns: u64) -> Self {
        Self {
            left_ns: due_ns.saturating_sub(now_ns),
            over_ns: now_ns.saturating_sub(due_ns),
        }
    }
}

/// What a look at a timer that waits has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) birth: u64,
    /// The deadline; if the timer is paused, the one that it had, and its shard.
    pub(crate) due_at: DueAt,
    /// What is left of a paused timer. (Of one whose run is in progress, 0.)
    pub(crate) left_ns: Option<u64>,
    /// Whether it is periodic.
    repeats: bool,
}

/// An entry, and the shard to whose wheel it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filed {
    pub(crate) entry: Entry,
    pub(crate) shard: usize,
}

impl<T> Cell<T> {
    /// The generation of the cell's present or next filing.
    pub(super) fn generation(&self) -> u64 {
        // Ordering: Acquire. Pairs with the Release of ClaimExchange. The thread that holds the
        // index made that exchange itself, or got the index and the word through the depot.
        Word(self.word.load(Ordering::Acquire)).generation()
    }

    /// Marks a cell whose page is freed. A look at it makes a model fail.
    #[cfg(loom)]
    pub(super) fn poison(&mut self) {
        self.word.set(u64::MAX);
    }

    /// Lets a cell of a new page, or one that was stripped, start at a generation that no earlier
    /// timer of its index has had.
    pub(crate) fn start_at(&self, generation: u64) {
        // Ordering: Relaxed. The page is not published yet, or the caller holds the index: others
        // see a word that is VACANT, before and after. ArmPublish publishes what follows.
        self.word
            .store(Word::new(generation, State::Vacant).0, Ordering::Relaxed);
    }

    /// Dress. `start_at`, if the cell's word was zeroed. The caller holds the index.
    pub(super) fn dress(&self, generation: u64) {
        // Ordering: Relaxed. The caller holds the index: it got the word with it, by the depot.
        if self.word.load(Ordering::Relaxed) == 0 {
            self.start_at(generation);
        }
    }

    /// StripZero, in a model.
    #[cfg(loom)]
    pub(super) fn strip(&self) {
        // Ordering: Relaxed. As the system does it.
        self.word.store(0, Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.due_at.store(0, Ordering::Relaxed);
        self.content.with_mut(|_| ());
    }

    /// Puts a content in.
    ///
    /// # Safety
    /// The content belongs to the caller, and was moved out or never there.
    #[inline]
    pub(super) unsafe fn put_content(&self, content: impl Fill<T>) {
        let stored = content.stored();
        // SAFETY: the caller's promise.
        self.content
            .with_mut(|content| unsafe { (*content).write(stored) });
    }

    /// Takes a payload out.
    ///
    /// # Safety
    /// The content belongs to the caller, it is there, and it is a payload.
    #[inline]
    pub(super) unsafe fn take_payload(&self) -> T {
        // SAFETY: the caller's promise: it is read once.
        let stored = self.content.with(|content| unsafe { content.read() });
        // SAFETY: the caller's promise: it is there.
        let stored = unsafe { stored.assume_init() };
        // SAFETY: the caller's promise: it is a payload.
        ManuallyDrop::into_inner(unsafe { stored.payload })
    }

    /// Takes the content out.
    ///
    /// # Safety
    /// The content belongs to the caller, it is there, and `word` has the REPEATS bit with which it
    /// was put there.
    #[inline]
    pub(super) unsafe fn take_content(&self, word: Word) -> Content<T> {
        // SAFETY: the caller's promise: it is read once.
        let stored = self.content.with(|content| unsafe { content.read() });
        // SAFETY: the caller's promise: it is there.
        let stored = unsafe { stored.assume_init() };
        if word.repeats() {
            // SAFETY: REPEATS is set exactly if the content is a `Repeat`.
            Content::Repeat(ManuallyDrop::into_inner(unsafe { stored.repeat }))
        } else {
            // SAFETY: as above.
            Content::Payload(ManuallyDrop::into_inner(unsafe { stored.payload }))
        }
    }

    #[inline]
    pub(super) fn due_at(&self) -> DueAt {
        // Ordering: Relaxed (ClaimCompare). Belongs to the word that was loaded before, or the
        // exchange that follows fails.
        DueAt::unpacked(self.due_at.load(Ordering::Relaxed))
    }

    /// Changes the word from `word` to `next`. If the word is another one by now, fails and returns
    /// that one.
    ///
    /// This decides a timer's outcome: of the threads that want to fire, cancel, move or hand back
    /// a timer, the one whose exchange succeeds gets it.
    #[inline]
    pub(super) fn exchange(&self, word: Word, next: Word) -> Result<(), Word> {
        // Ordering: AcqRel if won (ClaimExchange), Acquire if lost. Pairs with every other exchange
        // of this word, and with ClaimLoad. Won: the content is read after it, or was written
        // before it; and a `stop` that sees the word sees the winner's job begun (FireBegin). Lost:
        // the look of `stop` may be the one that fails here, and StopWait leans on what it
        // acquires.
        let won = ordering(Ordering::AcqRel, Fault::ClaimRelaxed);
        let lost = ordering(Ordering::Acquire, Fault::ClaimLostRelaxed);
        let (change, orderings) = ((word.0, next.0), (won, lost));
        cas_unless(Fault::ClaimNotAtomic, &self.word, change, orderings)
            .map(|_| ())
            .map_err(Word)
    }
}

/// The index of a cell whose filing of this generation the caller has claimed. The caller frees the
/// cell, and holds the index from then on. `None` if the cell's generations are used up.
#[inline]
pub(crate) fn index_after(index: u32, generation: u64) -> Option<u32> {
    (generation < GENERATION_LAST).then_some(index)
}

impl<T> CellRef<'_, T> {
    #[inline]
    pub(super) fn load(&self) -> Word {
        // Ordering: Acquire (ClaimLoad). Pairs with the Release of ArmPublish and of each later
        // exchange of the word; publishes content, `due_at` and side.
        let word = Word(self.cell.word.load(Ordering::Acquire));
        debug_assert!(
            !cfg!(loom) || word.0 != u64::MAX,
            "a look at a page that is freed"
        );
        word
    }

    #[inline]
    pub(super) fn due_at(&self) -> DueAt {
        self.cell.due_at()
    }

    /// The generation that the timer's id names.
    #[inline]
    pub(super) fn birth(&self, word: Word) -> u64 {
        // Ordering: Relaxed. As `due_at`.
        word.birth()
            .unwrap_or_else(|| self.side.birth.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn filed(&self, deadline: u64, shard: usize, word: Word) -> Filed {
        Filed {
            entry: Entry::new(deadline, self.index, word.generation()),
            shard,
        }
    }

    /// Where the timer's entry is. A hint: while the entry is being put back, it may be on its way.
    #[inline]
    pub(super) fn whereabouts(&self, word: Word, due_at: DueAt) -> Filed {
        let mut deadline = due_at.deadline();
        if word.lag() > 0 {
            // Ordering: Relaxed. A hint: a wrong one leaves a dead entry and a tombstone where they
            // are until they are due.
            let put_back = self.side.put_back.load(Ordering::Relaxed);
            if put_back >> LAG_BITS == word.generation() {
                deadline += put_back & LAG_MAX;
            }
        }
        self.filed(deadline, due_at.shard(), word)
    }

    /// The index, for the caller to hold. `None` if the cell's generations are used up.
    #[inline]
    pub(super) fn index(&self, word: Word) -> Option<u32> {
        index_after(self.index, word.generation())
    }

    /// Whether the timer of this birth still waits, or is periodic and runs.
    #[inline]
    pub(crate) fn is_pending(&self, birth: u64) -> bool {
        let word = self.load();
        matches!(
            word.state(),
            State::Armed | State::Held | State::Running | State::Paused
        ) && self.birth(word) == birth
    }

    /// What is left of the timer, which is PAUSED.
    #[inline]
    pub(super) fn left_ns(&self) -> u64 {
        // Ordering: Relaxed. As `due_at`.
        self.pause_side().left_ns.load(Ordering::Relaxed)
    }

    /// The same, and for how long nothing had been left. One of the two is zero.
    pub(super) fn left(&self) -> Left {
        // Ordering: Relaxed. As `due_at`.
        let over_ns = self.pause_side().rounded_ns.load(Ordering::Relaxed);
        Left {
            left_ns: self.left_ns(),
            over_ns,
        }
    }

    /// The deadline of the timer that waits here, unless it is paused or periodic. Waits as `look`
    /// does.
    pub(crate) fn payload_due_at(&self) -> Option<DueAt> {
        let look = self.look(false)?;
        (!look.repeats && look.left_ns.is_none()).then_some(look.due_at)
    }

    /// The timer that waits here: what is found is all of one filing. Waits while another thread
    /// moves the timer or pauses it, unless `is_forked`: then that thread is in another process,
    /// and the deadline may be off by a lag.
    pub(crate) fn look(&self, is_forked: bool) -> Option<Look> {
        loop {
            let word = self.load();
            let (due_at, birth) = (self.due_at(), self.birth(word));
            let (lag, left_ns) = match word.state() {
                State::Armed | State::Running => (word.lag(), None),
                State::Held if is_forked => (word.lag(), None),
                State::Held => {
                    // A re-arm changes the deadline just now. That takes nanoseconds, unless its
                    // thread is preempted.
                    pause();
                    continue;
                }
                State::Paused => match word.pause_state() {
                    Pause::Waits => (0, Some(self.left_ns())),
                    Pause::Runs => (0, Some(0)),
                    Pause::Pausing if is_forked => (0, None),
                    Pause::Changing if is_forked => (0, Some(self.left_ns())),
                    Pause::Pausing | Pause::Changing => {
                        // As above.
                        pause();
                        continue;
                    }
                },
                State::Vacant | State::Doomed | State::Left | State::Ended => return None,
            };
            // Ordering: AcqRel. The exchange is a read that is not reordered before the loads of
            // `due_at`, of the birth, and of what is left. If the word has not changed, these
            // belong to it.
            if self
                .cell
                .word
                .compare_exchange(word.0, word.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                let deadline = (due_at.deadline() + lag).min(DEADLINE_MAX);
                return Some(Look {
                    birth,
                    due_at: DueAt::new(deadline, due_at.shard()),
                    left_ns,
                    repeats: word.repeats(),
                });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::content::Payload;
    use super::*;

    /// A cell's generation never wraps around. So no id and no entry that names an old filing can
    /// mean a later timer.
    #[test]
    fn a_cell_at_its_last_generation_is_held_no_more() {
        let (word, due_at, content) = (
            AtomicU64::new(0),
            AtomicU64::new(0),
            UnsafeCell::new(MaybeUninit::uninit()),
        );
        let cell = Cell {
            word,
            due_at,
            content,
        };
        let side = Side {
            birth: AtomicU64::new(0),
            put_back: AtomicU64::new(0),
        };
        let pause_side = PauseSide {
            left_ns: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            rounded_ns: AtomicU64::new(0),
            by_wall: AtomicU64::new(0),
        };
        for (generation, index) in [(GENERATION_LAST - 1, Some(0)), (GENERATION_LAST, None)] {
            cell.start_at(generation);
            let cell_ref = CellRef::alone(&cell, &side, &pause_side);
            // SAFETY: no other thread uses the cell.
            let birth = unsafe { cell_ref.fill(DueAt::new(7, 3), Payload("payload")) };
            assert_eq!(birth, generation);
            let claimed = cell_ref.claim_id(birth).expect("it is armed");
            assert!(matches!(claimed.content, Some(Content::Payload("payload"))));
            assert_eq!((claimed.due_at, claimed.index), (DueAt::new(7, 3), index));
            assert_eq!(index_after(0, birth), index);
            assert!(!cell_ref.is_pending(birth));
        }
    }
}
