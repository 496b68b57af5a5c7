//! Gather: takes surplus free cells out of the depot until pages are complete, or most of a page's
//! memory is free.
//!
//! The shard that has won `gathering` owns it; `arena.rs` retires the pages that are complete
//! (RetireGather in README.md of this room), and strips the cells of others (StripNote). A call is
//! one bounded step: a look at the depot, or some pages' worth of cells.
//!
//! Two looks in a row that find more than half of all cells in the depot start a gathering. It
//! gathers as many magazines as both looks have seen: cells that nobody needed in between. When it
//! has freed memory, it looks again later. When it has freed none, and nothing came to the depot
//! meanwhile, there is nothing to do until somebody frees cells again.
//!
//! Threads keep some cells that they have freed. After cancels in random order these are all over
//! the pages, so that no page is complete. Then the free cells of a page give their memory back and
//! keep their places: a cell that a thread keeps costs a page of the system, not a page of cells.

use super::depot::Depot;
use super::magazine::{CELLS, Full, Magazine, OwnMagazine};
use crate::sync::{Fault, broken};
use std::ops::{Range, RangeInclusive};

/// From one look at the depot to the next, when nothing is being gathered.
pub(super) const LOOK_EVERY_NS: u64 = 250_000_000;

/// From a look that has found a surplus to the next, and from a gathering that has freed much: more
/// may have come meanwhile.
pub(super) const LOOK_AGAIN_NS: u64 = 100_000_000;

/// After a gathering that freed little, the time to the next one doubles, up to this limit, unless
/// the free cells double, or half of those in use become free.
const LOOK_EVERY_NS_MAX: u64 = 4_000_000_000;

/// Pages whose cells must be free before it gathers.
#[cfg(not(loom))]
const SURPLUS_MIN_PAGES: usize = 4;
#[cfg(loom)]
const SURPLUS_MIN_PAGES: usize = 1;

/// A gathering is to take about this many steps each way.
const STEPS: usize = 64;

/// Pages that are retired, gathered or put back in one step, if there are many: each is a look at
/// all of its cells. (After cancels in random order nearly all pages become complete in the last
/// step.)
#[cfg(not(loom))]
const STEP_PAGES: RangeInclusive<usize> = 1..=32;
#[cfg(loom)]
const STEP_PAGES: RangeInclusive<usize> = 64..=64;

/// Cells without memory that are gathered, for each one that has some. They come in runs, and cost
/// little.
const BARE_SHARE: usize = 16;

/// When the arena wants its next `maintain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Nothing to do until somebody frees cells; or another shard sees to it.
    Done,
    /// There is more to gather.
    Soon,
    /// Another look, in nanoseconds since the clock's origin.
    At(u64),
}

/// What is done with the cells that a gathering has.
pub(super) trait Gathered {
    /// Retires a page that is complete.
    fn retire(&mut self, number: u32);

    /// Strips successive cells of a page that is not. Returns whether they have no memory now.
    fn strip(&mut self, first: u32, cells: u32) -> bool;
}

/// The cells of a page that were gathered: a bit each.
struct GatheredPage {
    bits: Box<[u64]>,
    cells: usize,
}

impl GatheredPage {
    fn new(page_cells: usize) -> Self {
        Self {
            bits: vec![0; page_cells.div_ceil(64)].into(),
            cells: 0,
        }
    }

    /// Adds successive cells.
    fn add(&mut self, position: usize, cells: usize) {
        let end = position + cells;
        let mut position = position;
        while position < end {
            let here = (64 - position % 64).min(end - position);
            let bits = u64::MAX >> (64 - here) << (position % 64);
            let word = &mut self.bits[position / 64];
            debug_assert!(*word & bits == 0, "a cell came twice");
            *word |= bits;
            position += here;
        }
        self.cells += cells;
    }

    /// The positions from `from` on, up to the first one whose bit is not this.
    fn same(&self, from: usize, bit: bool) -> Range<usize> {
        let end = self.bits.len() * 64;
        let mut position = from;
        while position < end {
            let word = self.bits[position / 64];
            let others = if bit { !word } else { word } >> (position % 64);
            if others != 0 {
                position += others.trailing_zeros() as usize;
                break;
            }
            position = (position / 64 + 1) * 64;
        }
        from..position.min(end)
    }

    /// The runs of successive cells.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let run = self.same(self.same(from, false).end, true);
            from = run.end;
            (!run.is_empty()).then_some(run)
        })
    }
}

/// Indices taken from the depot, by page, until a page is complete.
pub(super) struct Gather {
    /// Cells in a page.
    page_cells: usize,
    /// Magazines that a page fills.
    page_magazines: usize,
    /// Pages of one step.
    step_pages: usize,
    by_page: Vec<Option<GatheredPage>>,
    /// Pages that are complete, and not retired yet.
    complete: Vec<u32>,
    /// Magazines to take before the rest is put back; 0: not gathering.
    magazines_left: usize,
    /// Cells without memory to take, so that their pages become complete too.
    bare_left: usize,
    /// Cells that are put back, and are too few for a magazine.
    loose: Option<OwnMagazine>,
    /// Surplus magazines that the depot had at the last look.
    surplus: usize,
    /// Magazines that the depot had when the gathering began.
    seen: usize,
    /// Cells whose memory this gathering has given back, or that had none before.
    freed: usize,
    /// Cells that had none.
    were_bare: usize,
    /// Cells that the magazines of this gathering have.
    wanted: usize,
    look_at_ns: u64,
    /// From the end of a gathering to the next one.
    rest_ns: u64,
    rests_until_ns: u64,
    /// Magazines that the last gathering had.
    had: usize,
    /// Cells that were in use at the last look that was not within a rest.
    used: usize,
}

impl Gather {
    pub(super) const fn new(page_cells: usize, page_magazines: usize) -> Self {
        Self {
            page_cells,
            page_magazines,
            step_pages: *STEP_PAGES.start(),
            by_page: Vec::new(),
            complete: Vec::new(),
            magazines_left: 0,
            bare_left: 0,
            loose: None,
            surplus: 0,
            seen: 0,
            freed: 0,
            were_bare: 0,
            wanted: 0,
            look_at_ns: 0,
            rest_ns: LOOK_EVERY_NS,
            rests_until_ns: 0,
            had: 0,
            used: 0,
        }
    }

    /// How many pages one step may free.
    pub(super) fn step_pages(&self) -> usize {
        self.step_pages
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
        let full = depot.full_len();
        let used = self.used_of(depot, pages, full);
        if now_ns < self.rests_until_ns {
            if full < 2 * self.had && used > self.used / 2 {
                self.look_at_ns = self.rests_until_ns.min(now_ns + LOOK_EVERY_NS);
                return Maintenance::At(self.look_at_ns);
            }
            self.rests_until_ns = 0;
        }
        let surplus = self.surplus_of(depot, pages);
        self.look_at_ns = now_ns
            + if surplus > 0 {
                LOOK_AGAIN_NS
            } else {
                LOOK_EVERY_NS
            };
        let unused = surplus.min(std::mem::replace(&mut self.surplus, surplus));
        (self.magazines_left, self.seen) = (unused, full);
        self.used = used;
        (self.freed, self.were_bare, self.wanted) = (0, 0, unused * CELLS);
        self.bare_left = depot.bare_cells().min(BARE_SHARE * self.wanted);
        let pages = (self.wanted + self.bare_left) / self.page_cells;
        self.step_pages = (pages / STEPS).clamp(*STEP_PAGES.start(), *STEP_PAGES.end());
        match (unused, surplus) {
            (0, 0) => Maintenance::Done,
            (0, _) => Maintenance::At(self.look_at_ns),
            _ => Maintenance::Soon,
        }
    }

    /// Cells that have memory, and are not in the depot's full magazines.
    fn used_of(&self, depot: &Depot, pages: usize, full: usize) -> usize {
        let cells = (pages * self.page_cells).saturating_sub(depot.bare_cells());
        cells.saturating_sub(full * CELLS)
    }

    /// Magazines of the depot, if their cells are more than half of those that have memory.
    fn surplus_of(&self, depot: &Depot, pages: usize) -> usize {
        let full = depot.full_len();
        let cells = (pages * self.page_cells).saturating_sub(depot.bare_cells());
        if full * CELLS >= SURPLUS_MIN_PAGES * self.page_cells && full * CELLS > cells / 2 {
            full
        } else {
            0
        }
    }

    /// Gathers some magazines (RetireGather), or puts cells of incomplete pages back.
    pub(super) fn step(
        &mut self,
        depot: &Depot,
        now_ns: u64,
        gathered: &mut dyn Gathered,
    ) -> Maintenance {
        let mut room = self.step_pages * self.page_magazines;
        while room > 0 && self.magazines_left > 0 {
            (room, self.magazines_left) = (room - 1, self.magazines_left - 1);
            let Some(full) = depot.pop_full(0) else {
                self.magazines_left = 0;
                break;
            };
            depot.drop_empty(1);
            full.for_each(|cell| self.sort(cell, 1));
        }
        while room > 0 && self.bare_left > 0 {
            room -= 1;
            let Some((first, cells)) = depot.pop_bare() else {
                self.bare_left = 0;
                break;
            };
            self.bare_left = self.bare_left.saturating_sub(cells as usize);
            self.were_bare += cells as usize;
            self.sort(first, cells as usize);
        }
        let left = self.complete.len().saturating_sub(self.step_pages);
        self.complete
            .drain(left..)
            .for_each(|number| gathered.retire(number));
        if self.magazines_left > 0
            || self.bare_left > 0
            || !self.complete.is_empty()
            || self.put_back(depot, gathered)
        {
            return Maintenance::Soon;
        }
        self.rest(depot, now_ns)
    }

    /// Sorts successive cells of a page to its others. The page may be complete now.
    fn sort(&mut self, cell: u32, cells: usize) {
        // A page has a power of two of cells.
        let number = (cell >> self.page_cells.trailing_zeros()) as usize;
        while self.by_page.len() <= number {
            self.by_page.push(None);
        }
        let page = self.by_page[number].get_or_insert_with(|| GatheredPage::new(self.page_cells));
        page.add(cell as usize % self.page_cells, cells);
        if page.cells >= self.page_cells - usize::from(broken(Fault::RetireIncomplete)) {
            self.by_page[number] = None;
            self.freed += self.page_cells;
            self.complete.push(number as u32);
        }
    }

    /// Gives the cells of some incomplete pages back to the depot, without their memory where that
    /// is possible. Returns whether there are more.
    fn put_back(&mut self, depot: &Depot, gathered: &mut dyn Gathered) -> bool {
        let mut room = self.step_pages;
        while room > 0
            && let Some(page) = self.by_page.pop()
        {
            let Some(page) = page else { continue };
            room -= 1;
            let first = self.by_page.len() * self.page_cells;
            for run in page.runs() {
                let cells = first + run.start..first + run.end;
                let strips = if broken(Fault::StripAll) {
                    gathered.strip(first as u32, self.page_cells as u32)
                } else {
                    gathered.strip(cells.start as u32, cells.len() as u32)
                };
                if strips {
                    self.freed += cells.len();
                    for from in cells.clone().step_by(CELLS) {
                        depot.push_bare(from as u32, (cells.end - from).min(CELLS) as u32);
                    }
                } else {
                    cells.for_each(|cell| self.put(cell as u32, depot));
                }
            }
        }
        if self.by_page.is_empty()
            && let Some(loose) = self.loose.take()
        {
            depot.take_in(loose);
        }
        !self.by_page.is_empty()
    }

    /// Puts a cell back that has its memory.
    fn put(&mut self, cell: u32, depot: &Depot) {
        let mut loose = self.loose.take().unwrap_or_else(Magazine::alone);
        loose.push(cell).expect("it is not full");
        if loose.is_full() {
            depot.push_full(Full::of(loose), 0);
        } else {
            self.loose = Some(loose);
        }
    }

    /// Ends the gathering, and says when to look again.
    fn rest(&mut self, depot: &Depot, now_ns: u64) -> Maintenance {
        depot.drop_empty(self.seen);
        let freed = self.freed.saturating_sub(self.were_bare);
        let (look_ns, rest_ns);
        (look_ns, rest_ns, self.surplus) = if freed > self.wanted / 4 {
            // What came meanwhile is gathered at the next look, if nobody needs it until then.
            (LOOK_AGAIN_NS, LOOK_AGAIN_NS, depot.full_len())
        } else {
            // The next gathering needs two looks, so that it has what came meanwhile too.
            (LOOK_EVERY_NS, (2 * self.rest_ns).min(LOOK_EVERY_NS_MAX), 0)
        };
        self.rest_ns = rest_ns;
        // (Not what the depot has: more may have come meanwhile, of a storm that went on.)
        self.had = self.wanted / CELLS;
        self.rests_until_ns = now_ns + rest_ns;
        self.look_at_ns = now_ns + look_ns;
        // Cells that came since the first of the two looks were not gathered. The shard does not
        // hear of them: timers may go on firing after the shard has given them away.
        if freed > 0 || depot.full_len() > self.had {
            Maintenance::At(self.look_at_ns)
        } else {
            Maintenance::Done
        }
    }
}
