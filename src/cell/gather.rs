//! Gather: takes surplus free cells out of the depot, page by page, until pages are complete.
//!
//! The shard that has won `gathering` owns it; `arena.rs` retires the pages that are complete
//! (RetireGather in README.md of this room). A call is one bounded step: a look at the depot, or
//! one page's worth of magazines.
//!
//! Two looks in a row that find more than half of all cells in the depot start a gathering. It
//! gathers as many magazines as both looks have seen: cells that nobody needed in between. When it
//! has freed pages, it looks again later. When it has freed none, and nothing came to the depot
//! meanwhile, there is nothing to do until somebody frees cells again.

use super::depot::Depot;
use super::magazine::{CELLS, Magazine};
use crate::sync::{Fault, broken};

/// From one look at the depot to the next, when nothing is being gathered.
pub(super) const LOOK_EVERY_NS: u64 = 250_000_000;

/// After a gathering that freed little, the time to the next look doubles, up to this limit.
const LOOK_EVERY_NS_MAX: u64 = 4_000_000_000;

/// Pages whose cells must be free before it gathers.
#[cfg(not(loom))]
const SURPLUS_MIN_PAGES: usize = 4;
#[cfg(loom)]
const SURPLUS_MIN_PAGES: usize = 1;

/// Pages that are retired in one step: each is a look at all of its cells. (After cancels in random
/// order nearly all pages become complete in the last step.)
#[cfg(not(loom))]
const RETIRED_MAX: usize = 1;
#[cfg(loom)]
const RETIRED_MAX: usize = usize::MAX;

/// When the arena wants its next `maintain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Nothing to do until somebody frees cells.
    Done,
    /// There is more to gather.
    Soon,
    /// Another look, in nanoseconds since the clock's origin.
    At(u64),
}

/// Indices taken from the depot, by page, until a page is complete.
pub(super) struct Gather {
    /// Cells in a page.
    page_cells: usize,
    /// Magazines of one step.
    step_magazines: usize,
    by_page: Vec<Vec<u32>>,
    /// Pages that are complete, and not retired yet.
    complete: Vec<u32>,
    /// Magazines to take before the rest is put back; 0: not gathering.
    magazines_left: usize,
    /// Surplus magazines that the depot had at the last look.
    surplus: usize,
    /// Magazines that the depot had when the gathering began.
    seen: usize,
    /// Pages that this gathering has retired.
    retired: usize,
    /// Pages that the magazines of this gathering would make.
    wanted: usize,
    look_at_ns: u64,
    /// From the end of a gathering to the next look.
    rest_ns: u64,
}

impl Gather {
    pub(super) const fn new(page_cells: usize, step_magazines: usize) -> Self {
        Self {
            page_cells,
            step_magazines,
            by_page: Vec::new(),
            complete: Vec::new(),
            magazines_left: 0,
            surplus: 0,
            seen: 0,
            retired: 0,
            wanted: 0,
            look_at_ns: 0,
            rest_ns: LOOK_EVERY_NS,
        }
    }

    /// Whether a gathering is in progress, or is being put back.
    pub(super) fn is_in_progress(&self) -> bool {
        self.magazines_left > 0 || !self.complete.is_empty() || !self.by_page.is_empty()
    }

    /// Looks how many cells the depot has, of `pages` pages, and decides whether to gather.
    pub(super) fn look(&mut self, depot: &Depot, pages: usize, now_ns: u64) -> Maintenance {
        if now_ns < self.look_at_ns {
            return Maintenance::At(self.look_at_ns);
        }
        self.look_at_ns = now_ns + LOOK_EVERY_NS;
        let cells = pages * self.page_cells;
        let full = depot.full_len();
        let surplus =
            if full * CELLS >= SURPLUS_MIN_PAGES * self.page_cells && full * CELLS > cells / 2 {
                full
            } else {
                0
            };
        let unused = surplus.min(std::mem::replace(&mut self.surplus, surplus));
        (self.magazines_left, self.seen) = (unused, full);
        (self.retired, self.wanted) = (0, unused * CELLS / self.page_cells);
        match (unused, surplus) {
            (0, 0) => Maintenance::Done,
            (0, _) => Maintenance::At(self.look_at_ns),
            _ => Maintenance::Soon,
        }
    }

    /// Gathers some magazines (RetireGather), or puts cells of incomplete pages back. Calls
    /// `retire` with the number of a page that is complete.
    pub(super) fn step(
        &mut self,
        depot: &Depot,
        now_ns: u64,
        mut retire: impl FnMut(u32),
    ) -> Maintenance {
        for _ in 0..self.step_magazines.min(self.magazines_left) {
            self.magazines_left -= 1;
            let Some(full) = depot.pop_full(0) else {
                self.magazines_left = 0;
                break;
            };
            depot.drop_empty();
            full.for_each(|cell| {
                if let Some(number) = self.sort(cell) {
                    self.retired += 1;
                    self.complete.push(number);
                }
            });
        }
        let left = self.complete.len().saturating_sub(RETIRED_MAX);
        self.complete.drain(left..).for_each(&mut retire);
        if self.magazines_left > 0 || !self.complete.is_empty() || self.put_back(depot) {
            return Maintenance::Soon;
        }
        self.rest(depot, now_ns)
    }

    /// Sorts a cell to the others of its page. The page's number, if that is complete now.
    fn sort(&mut self, cell: u32) -> Option<u32> {
        // A page has a power of two of cells.
        let number = (cell >> self.page_cells.trailing_zeros()) as usize;
        if self.by_page.len() <= number {
            self.by_page.resize_with(number + 1, Vec::new);
        }
        let cells = &mut self.by_page[number];
        cells.push(cell);
        if cells.len() != self.page_cells - usize::from(broken(Fault::RetireIncomplete)) {
            return None;
        }
        *cells = Vec::new();
        Some(number as u32)
    }

    /// Gives some of the cells of incomplete pages back to the depot. Whether there are more.
    fn put_back(&mut self, depot: &Depot) -> bool {
        for _ in 0..self.step_magazines {
            let mut magazine = Magazine::empty();
            while let Some(cells) = self.by_page.last_mut()
                && !magazine.is_full()
            {
                match cells.pop() {
                    Some(cell) => magazine.push(cell).expect("it is not full"),
                    None => _ = self.by_page.pop(),
                }
            }
            if self.by_page.is_empty() && magazine.is_empty() {
                break;
            }
            depot.take_in(magazine);
        }
        !self.by_page.is_empty()
    }

    /// Ends the gathering, and says when to look again.
    fn rest(&mut self, depot: &Depot, now_ns: u64) -> Maintenance {
        self.surplus = 0;
        self.rest_ns = if self.retired > self.wanted / 4 {
            LOOK_EVERY_NS
        } else {
            (2 * self.rest_ns).min(LOOK_EVERY_NS_MAX)
        };
        self.look_at_ns = now_ns + self.rest_ns;
        // Cells that were freed since the two looks are left. The shard does not hear of them:
        // timers may go on firing after the shard has given them away.
        if self.retired > 0 || depot.full_len() > self.seen {
            Maintenance::At(self.look_at_ns)
        } else {
            Maintenance::Done
        }
    }
}
