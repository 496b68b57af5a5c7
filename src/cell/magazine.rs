//! Magazines and depot: free cells, a pair of arrays a thread, exchanged whole (Bonwick and Adams 2001).
//!
//! A thread that frees what it arms never leaves its own pair. Where one thread arms and another fires, one exchange moves
//! [`CELLS`] indices. Two magazines, not one, so that a thread on the edge does not exchange at every call.
//! Full ones lie on shelves: a thread has its own, and looks on the others when that is empty. Cells in the order of their indices go through the depot as [`Runs`], without a magazine.

use crate::mem::prefetch_all_to_write;
use crate::sync::{AtomicUsize, Fault, Ordering, Queue, broken};

/// Indices in a magazine.
#[cfg(not(loom))]
pub(super) const CELLS: usize = 64;
#[cfg(loom)]
pub(super) const CELLS: usize = 1;

/// Shelves of the depot. Threads that free cells at the same time would wait for each other at the end of a single queue.
#[cfg(not(loom))]
const SHELVES: usize = 8;
#[cfg(loom)]
const SHELVES: usize = 2;

/// Whether the depot tells runs from others. Not in a model, where every magazine would be one.
const TELLS_RUNS: bool = cfg!(not(loom));

/// Whether a thread's magazines come from the one that had them before. Not in a model: its queue is a mutex, which orders threads that get nothing from
/// each other, and hides faults.
const RECYCLED: bool = cfg!(not(loom));

/// Free cells' indices; whoever has the magazine holds them.
#[derive(Debug)]
pub(super) struct Magazine {
    len: usize,
    cells: [u32; CELLS],
}

impl Magazine {
    pub(super) fn empty() -> Box<Self> {
        Box::new(Self { len: 0, cells: [0; CELLS] })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == CELLS
    }

    /// Fills it, backwards: the first cell is taken first.
    fn fill(&mut self, runs: Runs) {
        let (second, first) = self.cells.split_at_mut(CELLS - runs.split as usize);
        first.iter_mut().rev().zip(runs.first..).for_each(|(place, cell)| *place = cell);
        second.iter_mut().rev().zip(runs.second..).for_each(|(place, cell)| *place = cell);
        self.len = CELLS;
    }

    /// The cells of a full one, if they are runs.
    fn runs(&self) -> Option<Runs> {
        let (first, last) = (self.cells[0], self.cells[CELLS - 1]);
        // In one run or two, the middle cell is where it is in one with the first, or with the last. Most others are told by that.
        if !TELLS_RUNS || self.cells[CELLS / 2] != first + (CELLS / 2) as u32 && self.cells[CELLS / 2] + (CELLS / 2) as u32 != last + 1 {
            return None;
        }
        let breaks: u32 = self.cells.iter().zip(&self.cells[1..]).map(|(cell, next)| u32::from(cell + 1 != *next)).sum();
        // Those of a second run are not where they would be if it were one.
        let split: u32 = self.cells.iter().zip(first..).map(|(&cell, followed)| u32::from(cell == followed)).sum();
        let second = self.cells.get(split as usize).copied().unwrap_or(0);
        (breaks <= 1).then_some(Runs { first, split, second })
    }

    #[inline]
    pub(super) fn push(&mut self, cell: u32) -> Result<(), u32> {
        *self.cells.get_mut(self.len).ok_or(cell)? = cell;
        self.len += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.cells[self.len])
    }
}

/// Cells one after the other from `first` on; so many, and then from `second` on: as many as a magazine has. Timers that were armed one after the other and end in that order leave these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    first: u32,
    split: u32,
    second: u32,
}

impl Runs {
    /// One, from `first` on.
    pub(super) fn one(first: u32) -> Self {
        Self { first, split: CELLS as u32, second: 0 }
    }
}

/// The cells of a full magazine, as the depot keeps them.
#[derive(Debug)]
pub(super) enum Full {
    /// They need no memory, which a million that end at once would have to wait for.
    Runs(Runs),
    /// In any order.
    Any(Box<Magazine>),
}

const _: () = assert!(size_of::<Full>() == 16);

impl Full {
    fn of(magazine: Box<Magazine>) -> Self {
        match magazine.runs() {
            Some(runs) => Self::Runs(runs),
            None => Self::Any(magazine),
        }
    }

    /// The last one first.
    pub(super) fn for_each(self, f: impl FnMut(u32)) {
        match self {
            Self::Runs(Runs { first, split, second }) => {
                (first..first + split).chain(second..second + CELLS as u32 - split).rev().for_each(f)
            }
            Self::Any(magazine) => magazine.cells.into_iter().rev().for_each(f),
        }
    }
}

/// Where threads exchange magazines.
#[derive(Debug)]
pub(crate) struct Depot {
    full: [Queue<Full>; SHELVES],
    /// Pairs of magazines that there have been: each puts what is full on the shelf of its number, and looks there first.
    pairs: AtomicUsize,
    empty: Queue<Box<Magazine>>,
    /// Neither full nor empty, from threads that have ended: a few, since whoever adds one fills up another.
    partial: Queue<Box<Magazine>>,
}

impl Depot {
    pub(crate) fn new() -> Self {
        Self { full: std::array::from_fn(|_| Queue::new()), pairs: AtomicUsize::new(0), empty: Queue::new(), partial: Queue::new() }
    }

    /// Full magazines.
    pub(super) fn full_len(&self) -> usize {
        self.full.iter().map(Queue::len).sum()
    }

    /// Of this shelf, or the next one that has any.
    pub(super) fn pop_full(&self, shelf: usize) -> Option<Full> {
        // A queue found empty by its indices alone costs no fence.
        (shelf..shelf + SHELVES).map(|shelf| &self.full[shelf % SHELVES]).filter(|full| !full.is_empty()).find_map(Queue::pop)
    }

    pub(super) fn push_full(&self, full: Full, shelf: usize) {
        self.full[shelf % SHELVES].push(full);
    }

    pub(super) fn pop_empty(&self) -> Box<Magazine> {
        self.empty.pop().unwrap_or_else(Magazine::empty)
    }

    /// Frees an empty magazine.
    pub(super) fn drop_empty(&self) {
        drop(self.empty.pop());
    }

    /// Takes a magazine in, however full it is.
    pub(super) fn take_in(&self, mut magazine: Box<Magazine>) {
        while magazine.len > 0 {
            if magazine.len == CELLS {
                return self.push_full(Full::of(magazine), 0);
            }
            let Some(mut other) = self.partial.pop() else { return self.partial.push(magazine) };
            while magazine.len > 0 && other.len < CELLS {
                other.cells[other.len] = magazine.cells[magazine.len - 1];
                (other.len, magazine.len) = (other.len + 1, magazine.len - 1);
            }
            if other.len == CELLS {
                self.push_full(Full::of(other), 0);
            } else {
                self.partial.push(other);
            }
        }
        if RECYCLED {
            self.empty.push(magazine);
        }
    }
}

/// A thread's pair of magazines.
#[derive(Debug)]
pub(crate) struct Magazines {
    loaded: Box<Magazine>,
    /// Full or empty: what was loaded before.
    previous: Box<Magazine>,
    /// Where full ones go.
    shelf: usize,
}

impl Magazines {
    pub(crate) fn new(depot: &Depot) -> Self {
        let empty = || if RECYCLED { depot.pop_empty() } else { Magazine::empty() };
        // Ordering: Relaxed. Only the number is taken from it.
        Self { loaded: empty(), previous: empty(), shelf: depot.pairs.fetch_add(1, Ordering::Relaxed) % SHELVES }
    }

    /// A free cell from the pair.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.loaded.len == 0 {
            std::mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.pop()
    }

    /// The cell that `take` would give next, if it is at hand.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u32> {
        self.loaded.cells.get(self.loaded.len.wrapping_sub(1)).copied()
    }

    /// Fills the pair, found empty, from the depot. Whether there was something.
    #[cold]
    pub(crate) fn refill(&mut self, depot: &Depot) -> bool {
        match depot.pop_full(self.shelf).or_else(|| depot.partial.pop().map(Full::Any)) {
            Some(Full::Runs(runs)) => self.loaded.fill(runs),
            Some(Full::Any(full)) => {
                // It was last touched long ago, maybe by another core.
                prefetch_all_to_write(&*full);
                depot.empty.push(std::mem::replace(&mut self.loaded, full));
            }
            None => return false,
        }
        true
    }

    /// Fills the pair, found empty, with so many fresh cells, a magazine's at most: the depot had none.
    pub(super) fn fill(&mut self, first: u32, cells: u32) {
        if cells == CELLS as u32 {
            return self.loaded.fill(Runs::one(first));
        }
        (first..first + cells).rev().for_each(|cell| self.loaded.push(cell).expect("no more than a magazine has"));
    }

    /// Puts a cell back that the caller holds.
    #[inline]
    pub(crate) fn put(&mut self, cell: u32, depot: &Depot) {
        if self.loaded.push(cell).is_err() {
            self.exchange(depot);
            self.loaded.push(cell).expect("the exchange left an empty magazine");
        }
    }

    /// Makes `loaded`, found full, an empty one.
    #[cold]
    fn exchange(&mut self, depot: &Depot) {
        if self.previous.len > 0 {
            let full = match self.previous.runs() {
                Some(runs) => {
                    self.previous.len = 0;
                    Full::Runs(runs)
                }
                None => {
                    let empty = depot.pop_empty();
                    prefetch_all_to_write(&*empty);
                    let full = std::mem::replace(&mut self.previous, empty);
                    if broken(Fault::MagazineKept) {
                        self.loaded.cells = full.cells;
                    }
                    Full::Any(full)
                }
            };
            depot.push_full(full, self.shelf);
        }
        std::mem::swap(&mut self.loaded, &mut self.previous);
    }

    /// Gives everything back, when the thread ends.
    pub(crate) fn give_back(self, depot: &Depot) {
        depot.take_in(self.loaded);
        depot.take_in(self.previous);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Threads that free one cell and end leave their cells together.
    #[test]
    fn partial_magazines_are_put_together() {
        let depot = Depot::new();
        for cell in 0..1_000 {
            let mut magazines = Magazines::new(&depot);
            magazines.put(cell, &depot);
            magazines.give_back(&depot);
        }
        assert_eq!((depot.full_len(), depot.partial.len()), (1_000 / CELLS, 1));
        assert!(depot.empty.len() <= 4, "{} empty ones", depot.empty.len());
        let mut magazines = Magazines::new(&depot);
        let mut cells = Vec::new();
        loop {
            cells.extend(std::iter::from_fn(|| magazines.take()));
            if !magazines.refill(&depot) {
                break;
            }
        }
        cells.sort_unstable();
        assert!(cells.into_iter().eq(0..1_000), "a cell is lost, or came twice");
    }

    #[test]
    fn a_thread_on_the_edge_exchanges_rarely() {
        let depot = Depot::new();
        let mut magazines = Magazines::new(&depot);
        let cells = CELLS as u32;
        assert_eq!((magazines.take(), magazines.peek(), magazines.refill(&depot)), (None, None, false));
        (0..2 * cells).for_each(|cell| magazines.put(cell, &depot));
        assert_eq!(depot.full_len(), 0, "two magazines are the thread's own");
        magazines.put(2 * cells, &depot);
        assert_eq!(depot.full_len(), 1);
        for cell in (0..=2 * cells).rev().take(CELLS + 1) {
            assert_eq!((magazines.peek().unwrap_or(cell), magazines.take()), (cell, Some(cell)));
        }
        assert_eq!((magazines.peek(), magazines.take()), (None, None));
        magazines.put(9, &depot);
        assert_eq!((depot.full_len(), magazines.peek(), magazines.take()), (1, Some(9), Some(9)));
        assert!(magazines.refill(&depot));
        assert_eq!((depot.full_len(), magazines.peek()), (0, Some(0)));
        assert!((0..cells).eq(std::iter::from_fn(|| magazines.take())), "the first one of a run is taken first");
    }

    #[test]
    fn each_has_a_shelf_and_looks_there_first() {
        let (depot, cells) = (Depot::new(), CELLS as u32);
        let mut pairs: Vec<_> = (0..=SHELVES).map(|_| Magazines::new(&depot)).collect();
        for (pair, first) in pairs.iter_mut().zip((0..).step_by(1_000)) {
            (first..=first + 2 * cells).for_each(|cell| pair.put(cell, &depot));
        }
        let shelves: Vec<_> = depot.full.iter().map(Queue::len).collect();
        assert_eq!(shelves, [2, 1, 1, 1, 1, 1, 1, 1], "the last pair shares the first one's");
        let mut taken = |pair: usize| {
            let taker = &mut pairs[pair];
            while taker.take().is_some() {}
            taker.refill(&depot).then(|| taker.peek().unwrap_or(0) / 1_000)
        };
        assert_eq!([3, 3, 3, 7, 7, 7].map(&mut taken), [3, 4, 5, 7, 0, 8].map(Some), "then on the next ones");
        assert_eq!([3, 3, 3].map(taken), [Some(6), Some(1), Some(2)]);
        assert_eq!((depot.full_len(), depot.pop_full(5).is_none()), (0, true));
    }

    /// What a thread gets back that puts these cells, and then empties the depot; and whether they had a magazine there.
    fn through_the_depot(cells: &[u32]) -> (Vec<u32>, bool) {
        let (depot, other) = (Depot::new(), Depot::new());
        let mut magazines = Magazines::new(&other);
        cells.iter().for_each(|&cell| magazines.put(cell, &depot));
        // The pair is full: one more leads to an exchange.
        (0..=CELLS as u32).for_each(|_| magazines.put(0, &depot));
        assert_eq!(depot.full_len(), 1);
        let mut taker = Magazines::new(&other);
        assert!(taker.refill(&depot) && !Magazines::new(&other).refill(&depot));
        (std::iter::from_fn(|| taker.take()).collect(), !depot.empty.is_empty())
    }

    #[test]
    fn runs_need_no_magazine_in_the_depot() {
        let len = CELLS as u32;
        for split in 0..=len {
            for second in [0, 2_000] {
                let cells: Vec<_> = (1_000..1_000 + split).chain(second..second + len - split).collect();
                assert_eq!(through_the_depot(&cells), (cells, false), "{split} {second}");
            }
        }
        let one_off = |place: usize| (0..len).map(|cell| if cell as usize == place { 5_000 } else { cell }).collect::<Vec<_>>();
        for place in 0..CELLS {
            let (cells, in_magazine) = through_the_depot(&one_off(place));
            assert!(cells.iter().rev().eq(&one_off(place)) || cells == one_off(place));
            assert_eq!(in_magazine, 0 < place && place < CELLS - 1, "three runs");
        }
        let backwards: Vec<_> = (0..len).rev().collect();
        assert_eq!(through_the_depot(&backwards), ((0..len).collect(), true));
    }

    #[test]
    fn each_form_gives_all_its_cells() {
        let all = |full: Full| {
            let mut cells = Vec::new();
            full.for_each(|cell| cells.push(cell));
            cells
        };
        let mut magazine = Magazine::empty();
        magazine.fill(Runs { first: 0, split: 10, second: 100 });
        assert!(magazine.is_full() && magazine.runs().is_none());
        magazine.cells.reverse();
        let runs = magazine.runs().expect("two");
        assert!(all(Full::Runs(runs)).iter().rev().eq(&magazine.cells));
        assert!(all(Full::Any(magazine)).into_iter().rev().eq((0..10).chain(100..154)));
        assert!(all(Full::Runs(Runs::one(7))).into_iter().rev().eq(7..71));
    }

    #[test]
    fn nothing_is_lost_however_full_they_are() {
        let depot = Depot::new();
        let mut cells = 0u32..;
        for len in (0..=CELLS).chain((0..=CELLS).rev()) {
            let mut magazine = Magazine::empty();
            cells.by_ref().take(len).for_each(|cell| magazine.push(cell).expect("there is room"));
            depot.take_in(magazine);
            assert!(depot.partial.len() <= 1, "two are put together");
        }
        let sum = CELLS * (CELLS + 1);
        assert_eq!((depot.full_len(), depot.partial.len()), (sum / CELLS, usize::from(!sum.is_multiple_of(CELLS))));
        let mut magazines = Magazines::new(&depot);
        let mut all = Vec::new();
        while magazines.refill(&depot) {
            all.extend(std::iter::from_fn(|| magazines.take()));
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..sum as u32));
    }

    #[test]
    fn empty_ones_are_used_again_or_dropped() {
        let depot = Depot::new();
        Magazines::new(&depot).give_back(&depot);
        assert_eq!(depot.empty.len(), 2);
        let magazines = Magazines::new(&depot);
        assert_eq!(depot.empty.len(), 0);
        magazines.give_back(&depot);
        for left in [1, 0, 0] {
            depot.drop_empty();
            assert_eq!(depot.empty.len(), left);
        }
    }
}
