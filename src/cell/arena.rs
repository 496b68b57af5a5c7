//! Arena: pages of cells, found by index, made on demand, retired when a spike is over.
//!
//! Any thread looks up cells and makes pages; one shard at a time gathers pages to retire. The
//! directory maps an index to its page. Fresh cells come from the newest page, a magazine's worth
//! at a time; used ones from magazines and depot.
//!
//! Ground rules: a look-up is pinned, or its caller holds an index of the page. A page with fresh
//! cells is never retired. Limits: 2^30 cells; `PAGES_MAX` pages. Protocol and proof: README.md of
//! this room.

use super::claim::Claimed;
use super::depot::Depot;
use super::gather::{Gather, Gathered, LOOK_EVERY_NS, Maintenance};
use super::magazine::{CELLS, Full, Runs};
use super::page::{Page, Start};
use super::pair::Magazines;
use super::pins::{Limbo, Pinned, Pins};
use super::state::{Cell, CellRef};
use crate::mem::{Zeroable, Zeroed};
use crate::prefetch::prefetch_to_write;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Fault, Ordering, Queue, UnsafeCell, broken,
    cas_unless, ordering,
};
use std::ptr;
use std::sync::Arc;

/// A page whose cells take at most this many bytes gets all its memory when it is made. Cells of a
/// larger page get theirs one by one.
const POPULATED_BYTES: usize = 256 << 10;

/// Limit of pages: 2^30 timers with payloads of up to 1,008 bytes each, or at least half a tebibyte
/// of larger ones.
#[cfg(not(loom))]
const PAGES_MAX: u32 = 1 << 18;
#[cfg(loom)]
const PAGES_MAX: u32 = 4;

/// Entries of the directory: with pages of 4,096 cells one for every `u32` index, so that a look-up
/// needs no bounds check. With smaller pages it needs one. Unused entries are untouched memory.
#[cfg(not(loom))]
const DIRECTORY: usize = 1 << 20;
#[cfg(loom)]
const DIRECTORY: usize = PAGES_MAX as usize;

/// A directory entry. Zero: no page.
#[repr(transparent)]
struct PagePtr<T>(AtomicPtr<Start<T>>);

/// The part of a page's state that only making and retiring it need.
struct Record<T> {
    page: AtomicPtr<Page<T>>,
    /// The least generation that no timer of this page number has had.
    generation: AtomicU64,
}

// SAFETY: a null pointer.
unsafe impl<T> Zeroable for PagePtr<T> {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

// SAFETY: a null pointer and zero.
unsafe impl<T> Zeroable for Record<T> {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            page: AtomicPtr::new(ptr::null_mut()),
            generation: AtomicU64::new(0),
        }
    }
}

/// What the shard that gathers pages has.
struct Retirement<T> {
    gather: Gather,
    limbo: Limbo<Box<Page<T>>>,
}

pub(crate) struct Arena<T> {
    directory: Zeroed<[PagePtr<T>; DIRECTORY]>,
    records: Zeroed<Record<T>>,
    /// The page that fresh cells come from: `page number << 32 | cells handed out of it`.
    fresh: AtomicU64,
    /// The least page number that was never used.
    numbers: AtomicU32,
    /// Page numbers of retired pages.
    free_numbers: Queue<u32>,
    /// How many pages exist.
    pages: AtomicU32,
    depot: Arc<Depot>,
    gathering: AtomicBool,
    /// When the shard comes again that has done the last step: no other shard need come before
    /// that. 0: no shard was told a time by the last step.
    planned_ns: AtomicU64,
    retirement: UnsafeCell<Retirement<T>>,
}

// SAFETY: cells are Sync; the directory's pointers are owned by the arena; `gathering` guards
// `retirement`.
unsafe impl<T: Send> Send for Arena<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Arena<T> {}

impl<T: Send + 'static> Arena<T> {
    /// Cells in a page.
    const PAGE_CELLS: u32 = Page::<T>::CELLS;

    /// How many fresh cells are handed out at once: a magazine's worth, or a page's if that is
    /// less.
    const RUN: u32 = if Self::PAGE_CELLS < CELLS as u32 {
        Self::PAGE_CELLS
    } else {
        CELLS as u32
    };

    /// Magazines gathered in one step: about one page's worth of cells, some 10 us of work.
    const STEP_MAGAZINES: usize = if cfg!(loom) {
        64
    } else {
        (Self::PAGE_CELLS / Self::RUN) as usize
    };

    pub(crate) fn new(depot: Arc<Depot>, pins: Pins) -> Self {
        Self {
            directory: Zeroed::new(1),
            records: Zeroed::new(PAGES_MAX as usize),
            fresh: AtomicU64::new(u64::from(Self::PAGE_CELLS)),
            numbers: AtomicU32::new(0),
            free_numbers: Queue::new(),
            pages: AtomicU32::new(0),
            depot,
            gathering: AtomicBool::new(false),
            planned_ns: AtomicU64::new(0),
            retirement: UnsafeCell::new(Retirement {
                gather: Gather::new(Self::PAGE_CELLS as usize, Self::STEP_MAGAZINES),
                limbo: Limbo::new(pins),
            }),
        }
    }

    /// The cell of an index, or `None` if its page was never made, or is retired.
    #[inline]
    pub(crate) fn get<'a>(&'a self, index: u32, _pinned: &'a Pinned<'_>) -> Option<CellRef<'a, T>> {
        let number = (index / Self::PAGE_CELLS) as usize;
        // (Not `get`: with some settings the compiler compares its reference to null.)
        if number >= DIRECTORY {
            return None;
        }
        // Ordering: Acquire. Pairs with the Release in `make_page`; publishes the page's cells.
        let page = self.directory.first()[number].0.load(Ordering::Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: the page was in the directory after this thread pinned itself (PinFence), so
        // RetireLook sees the pin, and the page is freed after its end.
        Some(unsafe { Page::cell_ref(page, index) })
    }

    /// Whether two cells lie in one page.
    #[inline]
    pub(crate) fn same_page(one: u32, other: u32) -> bool {
        one / Self::PAGE_CELLS == other / Self::PAGE_CELLS
    }

    /// The cell of an index that the caller holds.
    ///
    /// # Safety
    /// The caller holds this index, or another one of its page: it came from a magazine, or from a
    /// claim.
    #[inline]
    pub(crate) unsafe fn held(&self, index: u32) -> CellRef<'_, T> {
        // Ordering: Acquire. As in `get`.
        let page = self.directory.first()[(index / Self::PAGE_CELLS) as usize]
            .0
            .load(Ordering::Acquire);
        debug_assert!(!page.is_null());
        // SAFETY: the caller holds an index of this page. So no shard holds all of them
        // (RetireGather), and the page is not retired.
        unsafe { Page::cell_ref(page, index) }
    }

    /// Asks for the cell's cache lines, to write: one, or two where the cell straddles them.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(page) = self
            .directory
            .first()
            .get((index / Self::PAGE_CELLS) as usize)
        {
            // Ordering: Relaxed. Only an address to prefetch: nothing is read.
            let cell = Page::address(page.0.load(Ordering::Relaxed), index);
            prefetch_to_write(cell);
            prefetch_to_write(cell.wrapping_add(1).wrapping_byte_sub(1));
        }
    }

    /// A free cell, for the caller to hold. `None` if 2^30 cells are in use.
    #[inline]
    pub(crate) fn take(&self, magazines: &mut Magazines) -> Option<u32> {
        match magazines.take() {
            Some(cell) => Some(cell),
            None => self.refill(magazines),
        }
    }

    #[cold]
    fn refill(&self, magazines: &mut Magazines) -> Option<u32> {
        if !magazines.refill(&self.depot) {
            let (first, cells) = match self.depot.pop_bare() {
                Some((first, cells)) => {
                    self.dress(first, cells);
                    (first, cells)
                }
                None => (self.take_run()?, Self::RUN),
            };
            // The lowest index is taken first, so that memory is used in order.
            magazines.fill(first, cells);
        }
        magazines.take()
    }

    /// Dress. Gives stripped cells generations that none of their timers had. The caller holds
    /// these cells of one page.
    fn dress(&self, first: u32, cells: u32) {
        let record = &self.records[(first / Self::PAGE_CELLS) as usize];
        // Ordering: Relaxed. StripNote came before the cells went into the depot, from where the
        // caller has them. A greater generation of a later one is as good.
        let generation = record.generation.load(Ordering::Relaxed);
        for cell in first..first + cells {
            // SAFETY: the caller holds it.
            unsafe { self.held(cell) }.cell.dress(generation);
        }
    }

    /// Takes the memory of successive cells of a page, as far as whole pages of the system lie in
    /// it. Returns whether there were any; else the cells stay as they are. The caller holds the
    /// cells.
    fn strip(&self, first: u32, cells: u32) -> bool {
        let record = &self.records[(first / Self::PAGE_CELLS) as usize];
        let generation = (first..first + cells)
            // SAFETY: the caller holds it.
            .map(|cell| unsafe { self.held(cell) }.cell.generation())
            .max();
        // Ordering: Relaxed (StripNote). Ordered by the depot: see `dress`.
        record.generation.fetch_max(
            generation
                .filter(|_| !broken(Fault::StripForgetsGeneration))
                .unwrap_or(0),
            Ordering::Relaxed,
        );
        // Ordering: Relaxed. As in `retire_page`: the caller got the cells through the depot.
        let page = record.page.load(Ordering::Relaxed);
        let position = first % Self::PAGE_CELLS;
        // SAFETY: `make_page` made it, and this thread holds cells of it, so it is not retired.
        let page = unsafe { &*page };
        // SAFETY: the caller holds these cells of this page.
        if unsafe { page.strip(position..position + cells) } {
            return true;
        }
        // Some may have been stripped before, with others.
        self.dress(first, cells);
        false
    }

    /// Takes `RUN` fresh cells. Returns the first one.
    fn take_run(&self) -> Option<u32> {
        loop {
            // Ordering: Acquire. Pairs with the Release that publishes the page below; the page is
            // in the directory.
            let fresh = self
                .fresh
                .load(ordering(Ordering::Acquire, Fault::FreshRelaxed));
            let (number, used) = ((fresh >> 32) as u32, fresh as u32);
            if used + Self::RUN <= Self::PAGE_CELLS {
                // Ordering: Acquire on success, as above: another thread may have made the page. A
                // page with fresh cells is never retired, so its number does not come back while
                // this exchange may succeed.
                let next = fresh + u64::from(Self::RUN);
                let won = ordering(Ordering::AcqRel, Fault::FreshRelaxed);
                let (change, orderings) = ((fresh, next), (won, Ordering::Relaxed));
                if cas_unless(Fault::FreshNotAtomic, &self.fresh, change, orderings).is_ok() {
                    return Some(number * Self::PAGE_CELLS + used);
                }
                continue;
            }
            let number = self.make_page()?;
            let next = u64::from(number) << 32 | u64::from(Self::RUN);
            // Ordering: Release. Pairs with the Acquire above; publishes the page.
            match self.fresh.compare_exchange(
                fresh,
                next,
                ordering(Ordering::AcqRel, Fault::FreshRelaxed),
                Ordering::Relaxed,
            ) {
                Ok(_) => {}
                // Another thread made a page meanwhile: the rest of this one is spare.
                Err(_) => self.give_rest(number),
            }
            return Some(number * Self::PAGE_CELLS);
        }
    }

    /// Gives a fresh page's cells to the depot, all but the first run. So none is lost.
    fn give_rest(&self, number: u32) {
        for first in (Self::RUN..Self::PAGE_CELLS)
            .step_by(Self::RUN as usize)
            .map(|used| number * Self::PAGE_CELLS + used)
        {
            self.depot.push_full(Full::Runs(Runs::one(first)), 0);
        }
    }

    /// A new page, in the directory. `None` if there are as many as there can be.
    fn make_page(&self) -> Option<u32> {
        let number = self.free_numbers.pop().or_else(|| {
            // Ordering: Relaxed. Only the number is taken from it.
            self.numbers
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
                    (number < PAGES_MAX).then_some(number + 1)
                })
                .ok()
        })?;
        let page = Page::<T>::new();
        // The first page may have only a few timers.
        if number > 0 && Page::<T>::CELLS_BYTES <= POPULATED_BYTES {
            page.populate();
        }
        let record = &self.records[number as usize];
        // Ordering: Relaxed. Written before the number was put on the queue of free numbers, which
        // orders it.
        let generation = record.generation.load(Ordering::Relaxed);
        if generation > 0 {
            page.cells().for_each(|cell| cell.start_at(generation));
        }
        let cells = page.start();
        // Ordering: Relaxed. Read by the shard that retires the page, which got all its indices
        // through the depot.
        record
            .page
            .store(Box::into_raw(Box::new(page)), Ordering::Relaxed);
        // Ordering: Release. Pairs with the Acquire in `get` and `held`; publishes the cells.
        self.directory.first()[number as usize]
            .0
            .store(cells, Ordering::Release);
        // Ordering: Relaxed. A counter.
        self.pages.fetch_add(1, Ordering::Relaxed);
        Some(number)
    }

    /// Indices of all cells of all pages that were ever made.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + use<T> {
        // Ordering: Acquire. Pairs with nothing by itself: the fence of `stop` (StopFence) makes
        // every page visible whose cells may be armed.
        let numbers = self.numbers.load(Ordering::Acquire);
        (0..numbers).flat_map(|number| {
            number * Self::PAGE_CELLS..number * Self::PAGE_CELLS + Self::PAGE_CELLS
        })
    }

    /// Claims every armed cell and gives it to `f`: for `stop`.
    pub(crate) fn claim_all(
        &self,
        pinned: &Pinned<'_>,
        with_running: bool,
        mut f: impl FnMut(Claimed<T>),
    ) {
        for index in self.indices() {
            let claim = |cell: CellRef<'_, T>| {
                if with_running {
                    cell.claim_any()
                } else {
                    cell.claim_waiting()
                }
            };
            if let Some(claimed) = self.get(index, pinned).and_then(claim) {
                f(claimed);
            }
        }
    }

    /// Gives pages back that have been empty for a while, one step at a time of some 10 us. Returns
    /// when to call again, which the caller has to do: the other shards rely on it, and do not come
    /// themselves. `gather.rs` says when it looks, and what it gathers.
    pub(crate) fn maintain(&self, now_ns: u64) -> Maintenance {
        // Ordering: Relaxed. It is a time, and publishes nothing. A look at that time sees the
        // cells for which this call came: they were freed a quarter of a second ago. (What is freed
        // now leads to another call.)
        if now_ns < self.planned_ns.load(Ordering::Relaxed) {
            return Maintenance::Done;
        }
        // Ordering: Acquire. Pairs with the Release below: one shard gathers after the other. If
        // another shard gathers now, that is enough.
        let is_ours = self
            .gathering
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !is_ours && !broken(Fault::GatherTogether) {
            return Maintenance::At(now_ns + LOOK_EVERY_NS);
        }
        let next = self.retirement.with_mut(|retirement| {
            // SAFETY: this thread holds `gathering`, which guards it.
            self.retire_step(unsafe { &mut *retirement }, now_ns)
        });
        let planned_ns = match next {
            Maintenance::At(at_ns) => at_ns,
            Maintenance::Soon | Maintenance::Done => 0,
        };
        // Ordering: Relaxed. It is the load's partner above, and hands nothing over.
        self.planned_ns.store(planned_ns, Ordering::Relaxed);
        // Ordering: Release. Pairs with the Acquire above.
        self.gathering.store(false, Ordering::Release);
        next
    }

    fn retire_step(&self, retirement: &mut Retirement<T>, now_ns: u64) -> Maintenance {
        let Retirement { gather, limbo } = retirement;
        if limbo.sweep() {
            return Maintenance::Soon;
        }
        let next = if gather.is_in_progress() {
            gather.step(&self.depot, now_ns, &mut Retiring { arena: self, limbo })
        } else {
            // Ordering: Relaxed. A counter.
            let pages = self.pages.load(Ordering::Relaxed) as usize;
            gather.look(&self.depot, pages, now_ns)
        };
        if next != Maintenance::Soon || limbo.has_enough() {
            limbo.look();
        }
        // RetireFree. A few pages in a step: the system takes its time for it.
        (0..gather.step_pages())
            .map_while(|_| limbo.take())
            .for_each(|page| page.free());
        if limbo.has_free() {
            return Maintenance::Soon;
        }
        match next {
            Maintenance::Soon => next,
            Maintenance::At(at_ns) if limbo.is_waiting() => {
                Maintenance::At(at_ns.min(now_ns + LOOK_EVERY_NS))
            }
            Maintenance::Done if limbo.is_waiting() => Maintenance::At(now_ns + LOOK_EVERY_NS),
            Maintenance::At(_) | Maintenance::Done => next,
        }
    }

    /// RetireUnlink. The caller holds all indices of the page.
    fn retire_page(&self, number: u32, limbo: &mut Limbo<Box<Page<T>>>) {
        let record = &self.records[number as usize];
        // Ordering: Relaxed. Published with the page; the indices came through the depot after
        // that.
        let page = record.page.swap(ptr::null_mut(), Ordering::Relaxed);
        if broken(Fault::RetireIncomplete) && page.is_null() {
            return;
        }
        // SAFETY: `make_page` made it, and the swap took it out once. It is not freed before
        // RetireFree.
        let generation = unsafe { &*page }.cells().map(Cell::generation).max();
        // Ordering: Relaxed. Ordered by the queue of free numbers. Not less than StripNote, which
        // counts for cells that were not dressed since.
        record.generation.fetch_max(
            generation
                .filter(|_| !broken(Fault::RetireForgetsGeneration))
                .unwrap_or(0),
            Ordering::Relaxed,
        );
        let unlink = || {
            // Ordering: Release (RetireUnlink), as the store of a page. What makes a later look-up
            // find no page is RetireFence: see PinFence.
            self.directory.first()[number as usize]
                .0
                .store(ptr::null_mut(), Ordering::Release);
        };
        if !broken(Fault::UnlinkedLate) {
            unlink();
        }
        // SAFETY: `make_page` boxed it.
        let page = unsafe { Box::from_raw(page) };
        if broken(Fault::RetireAtOnce) {
            page.free();
        } else {
            limbo.add(page);
        }
        if broken(Fault::UnlinkedLate) {
            limbo.look();
            unlink();
        }
        // Ordering: Relaxed. A counter.
        self.pages.fetch_sub(1, Ordering::Relaxed);
        self.free_numbers.push(number);
    }
}

/// What a gathering does with the cells that it has.
struct Retiring<'a, T> {
    arena: &'a Arena<T>,
    limbo: &'a mut Limbo<Box<Page<T>>>,
}

impl<T: Send + 'static> Gathered for Retiring<'_, T> {
    fn retire(&mut self, number: u32) {
        self.arena.retire_page(number, self.limbo);
    }

    fn strip(&mut self, first: u32, cells: u32) -> bool {
        self.arena.strip(first, cells)
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        // Ordering: Relaxed. `&mut self`: no other thread is left.
        let numbers = self.numbers.load(Ordering::Relaxed) as usize;
        for record in self.records.iter().take(numbers) {
            // Ordering: Relaxed. As above.
            let page = record.page.load(Ordering::Relaxed);
            if !page.is_null() {
                // SAFETY: `make_page` boxed it, and it was not retired: this thread frees it.
                drop(unsafe { Box::from_raw(page) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
