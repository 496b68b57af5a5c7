//! Depot: where threads exchange full magazines.
//!
//! All threads use it, through the pairs of `pair.rs`; the shard that gathers pages takes full
//! magazines out and puts cells back. Full magazines lie in stripes: each pair has its own stripe,
//! and looks at the others when that is empty.

use super::magazine::{Full, Magazine, OwnMagazine};
use crate::sync::{AtomicUsize, Ordering, Queue};

/// Stripes of the depot. At the end of one single queue, threads that free cells at one time would
/// wait for each other.
#[cfg(not(loom))]
const STRIPES: usize = 8;
#[cfg(loom)]
const STRIPES: usize = 2;

/// Whether a pair gets magazines that another pair had before. Not in a model: the queue there is a
/// mutex, which would order threads that get nothing from each other, and hide faults.
const RECYCLES: bool = cfg!(not(loom));

/// Where threads exchange magazines.
#[derive(Debug)]
pub(crate) struct Depot {
    full: [Queue<Full>; STRIPES],
    /// Pairs of magazines that were ever made: the next pair's number, which gives its stripe.
    pairs: AtomicUsize,
    /// Free cells that have no memory: the first one, and how many follow each other. A thread
    /// takes them when there are no others.
    bare: Queue<(u32, u32)>,
    /// How many these are.
    bare_cells: AtomicUsize,
    empty: Queue<OwnMagazine>,
    /// Magazines of threads that have ended, neither full nor empty. There are few, because a
    /// thread that adds one fills up another.
    partial: Queue<OwnMagazine>,
}

impl Depot {
    pub(crate) fn new() -> Self {
        Self {
            full: std::array::from_fn(|_| Queue::new()),
            pairs: AtomicUsize::new(0),
            bare: Queue::new(),
            bare_cells: AtomicUsize::new(0),
            empty: Queue::new(),
            partial: Queue::new(),
        }
    }

    /// The stripe of a new pair.
    pub(super) fn next_stripe(&self) -> usize {
        // Ordering: Relaxed. Only the number is taken from it.
        self.pairs.fetch_add(1, Ordering::Relaxed) % STRIPES
    }

    /// How many full magazines there are.
    pub(super) fn full_len(&self) -> usize {
        self.full.iter().map(Queue::len).sum()
    }

    /// A full magazine of this stripe, or of the next one that has any.
    pub(super) fn pop_full(&self, stripe: usize) -> Option<Full> {
        // A queue that its indices alone show to be empty costs no fence.
        for stripe in stripe..stripe + STRIPES {
            let full = &self.full[stripe % STRIPES];
            if !full.is_empty()
                && let Some(full) = full.pop()
            {
                return Some(full);
            }
        }
        None
    }

    pub(super) fn push_full(&self, full: Full, stripe: usize) {
        self.full[stripe % STRIPES].push(full);
    }

    /// Successive cells without memory, and how many: at most a magazine's.
    pub(super) fn pop_bare(&self) -> Option<(u32, u32)> {
        let bare = self.bare.pop()?;
        // Ordering: Relaxed. A counter.
        self.bare_cells
            .fetch_sub(bare.1 as usize, Ordering::Relaxed);
        Some(bare)
    }

    /// Takes cells without memory in: from `first` on, at most a magazine's.
    pub(super) fn push_bare(&self, first: u32, cells: u32) {
        // Ordering: Relaxed. A counter, raised first, so that it is never less than nothing.
        self.bare_cells.fetch_add(cells as usize, Ordering::Relaxed);
        self.bare.push((first, cells));
    }

    /// How many cells have no memory.
    pub(super) fn bare_cells(&self) -> usize {
        // Ordering: Relaxed. A counter.
        self.bare_cells.load(Ordering::Relaxed)
    }

    pub(super) fn pop_partial(&self) -> Option<OwnMagazine> {
        self.partial.pop()
    }

    pub(super) fn pop_empty(&self) -> OwnMagazine {
        self.empty.pop().unwrap_or_else(|| self.new_slab())
    }

    /// Adds a slab of empty magazines, all but the one that is returned.
    #[cold]
    fn new_slab(&self) -> OwnMagazine {
        let mut magazines = Magazine::slab();
        let first = magazines.next().expect("a slab has some");
        magazines.for_each(|magazine| self.push_empty(magazine));
        first
    }

    pub(super) fn push_empty(&self, magazine: OwnMagazine) {
        self.empty.push(magazine);
    }

    /// An empty magazine for a new pair.
    pub(super) fn empty_for_pair(&self) -> OwnMagazine {
        if RECYCLES {
            self.empty.pop().unwrap_or_else(Magazine::alone)
        } else {
            Magazine::alone()
        }
    }

    /// Frees the empty magazines that there are, up to this number of them.
    pub(super) fn drop_empty(&self, most: usize) {
        (0..most).map_while(|_| self.empty.pop()).for_each(drop);
    }

    /// Takes a magazine in, however full it is.
    pub(super) fn take_in(&self, mut magazine: OwnMagazine) {
        while !magazine.is_empty() {
            if magazine.is_full() {
                return self.push_full(Full::of(magazine), 0);
            }
            let Some(mut other) = self.partial.pop() else {
                return self.partial.push(magazine);
            };
            magazine.move_to(&mut other);
            if other.is_full() {
                self.push_full(Full::of(other), 0);
            } else {
                self.partial.push(other);
            }
        }
        if RECYCLES {
            self.empty.push(magazine);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::magazine::CELLS;
    use super::super::pair::Magazines;
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
        assert!(
            cells.into_iter().eq(0..1_000),
            "a cell is lost, or came twice"
        );
    }

    #[test]
    fn each_has_a_stripe_and_looks_there_first() {
        let (depot, cells) = (Depot::new(), CELLS as u32);
        let mut pairs: Vec<_> = (0..=STRIPES).map(|_| Magazines::new(&depot)).collect();
        for (pair, first) in pairs.iter_mut().zip((0..).step_by(1_000)) {
            (first..=first + 2 * cells).for_each(|cell| pair.put(cell, &depot));
        }
        let stripes: Vec<_> = depot.full.iter().map(Queue::len).collect();
        assert_eq!(
            stripes,
            [2, 1, 1, 1, 1, 1, 1, 1],
            "the last pair shares the first one's"
        );
        let mut taken = |pair: usize| {
            let taker = &mut pairs[pair];
            while taker.take().is_some() {}
            taker
                .refill(&depot)
                .then(|| taker.peek().unwrap_or(0) / 1_000)
        };
        assert_eq!(
            [3, 3, 3, 7, 7, 7].map(&mut taken),
            [3, 4, 5, 7, 0, 8].map(Some),
            "then on the next ones"
        );
        assert_eq!([3, 3, 3].map(taken), [Some(6), Some(1), Some(2)]);
        assert_eq!((depot.full_len(), depot.pop_full(5).is_none()), (0, true));
    }

    /// What a thread gets back that puts these cells, and then empties the depot; and whether they
    /// had a magazine there.
    fn through_the_depot(cells: &[u32]) -> (Vec<u32>, bool) {
        let (depot, other) = (Depot::new(), Depot::new());
        let mut magazines = Magazines::new(&other);
        cells.iter().for_each(|&cell| magazines.put(cell, &depot));
        // The pair is full: one more leads to an exchange.
        (0..=CELLS as u32).for_each(|_| magazines.put(0, &depot));
        assert_eq!(depot.full_len(), 1);
        let mut taker = Magazines::new(&other);
        assert!(taker.refill(&depot) && !Magazines::new(&other).refill(&depot));
        (
            std::iter::from_fn(|| taker.take()).collect(),
            !depot.empty.is_empty(),
        )
    }

    #[test]
    fn runs_need_no_magazine_in_the_depot() {
        let len = CELLS as u32;
        for split in 0..=len {
            for second in [0, 2_000] {
                let cells: Vec<_> = (1_000..1_000 + split)
                    .chain(second..second + len - split)
                    .collect();
                assert_eq!(
                    through_the_depot(&cells),
                    (cells, false),
                    "{split} {second}"
                );
            }
        }
        let one_off = |place: usize| {
            (0..len)
                .map(|cell| if cell as usize == place { 5_000 } else { cell })
                .collect::<Vec<_>>()
        };
        for place in 0..CELLS {
            let (cells, in_magazine) = through_the_depot(&one_off(place));
            assert!(cells.iter().rev().eq(&one_off(place)) || cells == one_off(place));
            assert_eq!(in_magazine, 0 < place && place < CELLS - 1, "three runs");
        }
        let backwards: Vec<_> = (0..len).rev().collect();
        assert_eq!(through_the_depot(&backwards), ((0..len).collect(), true));
    }

    #[test]
    fn nothing_is_lost_however_full_they_are() {
        let depot = Depot::new();
        let mut cells = 0u32..;
        for len in (0..=CELLS).chain((0..=CELLS).rev()) {
            let mut magazine = Magazine::alone();
            cells
                .by_ref()
                .take(len)
                .for_each(|cell| magazine.push(cell).expect("there is room"));
            depot.take_in(magazine);
            assert!(depot.partial.len() <= 1, "two are put together");
        }
        let sum = CELLS * (CELLS + 1);
        assert_eq!(
            (depot.full_len(), depot.partial.len()),
            (sum / CELLS, usize::from(!sum.is_multiple_of(CELLS)))
        );
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
            depot.drop_empty(1);
            assert_eq!(depot.empty.len(), left);
        }
    }
}
