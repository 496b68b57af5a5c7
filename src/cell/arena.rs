//! Arena: pages of cells, found by index, made on demand, given back when a spike is over.
//!
//! Any thread looks up, any thread makes pages, one shard at a time gathers pages to retire. Ground rules and proof: README.md of this room.

use super::claim::Claimed;
use super::magazine::{CELLS, Depot, Full, Magazine, Magazines, Runs};
use super::page::{Page, Start};
use super::state::{Cell, Slot};
use crate::mem::{Zeroable, Zeroed, prefetch_to_write};
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Collector, Fault, Guard, Ordering, Queue, UnsafeCell, broken, ordering, retire,
};
use std::ptr;
use std::sync::Arc;

/// The cells of a page that takes no more than this get their memory at once. Larger payloads come one by one.
const POPULATED_BYTES: usize = 256 << 10;

/// Pages at the most: 2^30 timers; if they take more than a kilobyte, half a tebibyte of them at least.
#[cfg(not(loom))]
const PAGES_MAX: u32 = 1 << 18;
#[cfg(loom)]
const PAGES_MAX: u32 = 4;

/// Entries of the directory: one for every index that there could be, so that a look needs no check;
/// in pages of less than 4,096 cells it does. It is untouched memory until it is used.
#[cfg(not(loom))]
const DIRECTORY: usize = 1 << 20;
#[cfg(loom)]
const DIRECTORY: usize = PAGES_MAX as usize;

/// Between two looks at the depot, when nothing is being gathered.
const LOOK_EVERY_NS: u64 = 250_000_000;

/// After a gathering that freed little the next look is later, twice as late each time: but no later than that.
const LOOK_EVERY_NS_MAX: u64 = 4_000_000_000;

/// Pages whose cells must be free to be worth gathering.
#[cfg(not(loom))]
const SURPLUS_MIN_PAGES: usize = 4;
#[cfg(loom)]
const SURPLUS_MIN_PAGES: usize = 1;

/// A directory entry. Zero: no page.
#[repr(transparent)]
struct PagePtr<T>(AtomicPtr<Start<T>>);

/// What is needed of a page only when it is made and retired.
struct Record<T> {
    page: AtomicPtr<Page<T>>,
    /// The first count that no timer of this page number has had.
    count: AtomicU64,
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
        Self { page: AtomicPtr::new(ptr::null_mut()), count: AtomicU64::new(0) }
    }
}

pub(crate) struct Arena<T> {
    directory: Zeroed<[PagePtr<T>; DIRECTORY]>,
    records: Zeroed<Record<T>>,
    /// `page number << 32 | cells handed out of it`: where fresh cells come from.
    fresh: AtomicU64,
    /// Page numbers never used so far start here.
    numbers: AtomicU32,
    /// Page numbers of retired pages.
    free_numbers: Queue<u32>,
    /// Pages that exist.
    pages: AtomicU32,
    depot: Arc<Depot>,
    collector: Collector,
    gathering: AtomicBool,
    gather: UnsafeCell<Gather>,
}

// SAFETY: cells are Sync; the directory's pointers are owned by the arena; `gather` is guarded by `gathering`.
unsafe impl<T: Send> Send for Arena<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Arena<T> {}

/// Indices taken from the depot, by page, until a page is complete.
struct Gather {
    by_page: Vec<Vec<u32>>,
    /// Magazines to look at before the rest is put back; 0: not gathering.
    magazines_left: usize,
    /// Magazines that the depot had at the last look.
    surplus: usize,
    /// Magazines that the depot had when the gathering began.
    seen: usize,
    /// Pages that this gathering has retired, and those that its magazines would have made.
    retired: usize,
    wanted: usize,
    look_at_ns: u64,
    /// From the end of a gathering to the next look.
    rest_ns: u64,
}

impl Gather {
    const fn new() -> Self {
        Self { by_page: Vec::new(), magazines_left: 0, surplus: 0, seen: 0, retired: 0, wanted: 0, look_at_ns: 0, rest_ns: LOOK_EVERY_NS }
    }
}

/// When the arena wants its next `maintain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    /// Nothing to do, however long it takes until somebody frees cells.
    Done,
    /// There is more to gather.
    Soon,
    /// Another look, in nanoseconds since the clock's origin.
    At(u64),
}

impl<T: Send + 'static> Arena<T> {
    /// Cells in a page.
    const PAGE_CELLS: u32 = Page::<T>::CELLS;

    /// Fresh cells are handed out by the magazine, and by the page where that has fewer.
    const RUN: u32 = if Self::PAGE_CELLS < CELLS as u32 { Self::PAGE_CELLS } else { CELLS as u32 };

    /// Magazines gathered in one step, about as many as have the cells of a page: some 10 us of work.
    const STEP_MAGAZINES: usize = if cfg!(loom) { 64 } else { (Self::PAGE_CELLS / Self::RUN) as usize };

    pub(crate) fn new(depot: Arc<Depot>, collector: Collector) -> Self {
        Self {
            directory: Zeroed::new(1),
            records: Zeroed::new(PAGES_MAX as usize),
            fresh: AtomicU64::new(u64::from(Self::PAGE_CELLS)),
            numbers: AtomicU32::new(0),
            free_numbers: Queue::new(),
            pages: AtomicU32::new(0),
            depot,
            collector,
            gathering: AtomicBool::new(false),
            gather: UnsafeCell::new(Gather::new()),
        }
    }

    /// The cell of an index, or `None` if there is no such page (any more).
    #[inline]
    pub(crate) fn get<'a>(&'a self, cell: u32, _pinned: &'a Guard) -> Option<Slot<'a, T>> {
        let page = self.directory.first().get((cell / Self::PAGE_CELLS) as usize)?;
        // Ordering: Acquire. Pairs with the Release in `make_page`; publishes the page's cells.
        let page = page.0.load(Ordering::Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: the page was in the directory after we pinned, so T3 frees it after we unpin.
        Some(unsafe { Page::slot(page, cell) })
    }

    /// Whether two cells lie in the same page.
    #[inline]
    pub(crate) fn same_page(one: u32, other: u32) -> bool {
        one / Self::PAGE_CELLS == other / Self::PAGE_CELLS
    }

    /// The cell of an index that the caller holds.
    ///
    /// # Safety
    /// The caller holds this index, or another one of the same page: it came from a magazine, or from a claim.
    #[inline]
    pub(crate) unsafe fn held(&self, cell: u32) -> Slot<'_, T> {
        // Ordering: Acquire. As in `get`.
        let page = self.directory.first()[(cell / Self::PAGE_CELLS) as usize].0.load(Ordering::Acquire);
        debug_assert!(!page.is_null());
        // SAFETY: the page of an index that is held cannot be complete in anybody's hands (T1), so it is not retired.
        unsafe { Page::slot(page, cell) }
    }

    /// Asks for the cell's cache lines, to write: one, or two where it straddles them.
    #[inline]
    pub(crate) fn prefetch(&self, cell: u32) {
        if let Some(page) = self.directory.first().get((cell / Self::PAGE_CELLS) as usize) {
            // Ordering: Relaxed. Only an address to prefetch: nothing is read.
            let cell = Page::address(page.0.load(Ordering::Relaxed), cell);
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
            let first = self.take_run()?;
            // The lowest index is taken first, so that memory is used in order.
            magazines.fill(first, Self::RUN);
        }
        magazines.take()
    }

    /// The first of Self::RUN fresh cells.
    fn take_run(&self) -> Option<u32> {
        loop {
            // Ordering: Acquire. Pairs with the Release in `make_page`'s publication below; the page is in the directory.
            let fresh = self.fresh.load(ordering(Ordering::Acquire, Fault::FreshRelaxed));
            let (number, used) = ((fresh >> 32) as u32, fresh as u32);
            if used + Self::RUN <= Self::PAGE_CELLS {
                // Ordering: Acquire on success, as above (the page may be another's). A page with fresh cells is never retired, so its
                // number does not come back while this may succeed.
                let next = fresh + u64::from(Self::RUN);
                if broken(Fault::FreshNotAtomic) {
                    // Ordering: Release. The broken variant: two threads may both get here.
                    self.fresh.store(next, Ordering::Release);
                    return Some(number * Self::PAGE_CELLS + used);
                }
                let won = ordering(Ordering::AcqRel, Fault::FreshRelaxed);
                if self.fresh.compare_exchange_weak(fresh, next, won, Ordering::Relaxed).is_ok() {
                    return Some(number * Self::PAGE_CELLS + used);
                }
                continue;
            }
            let number = self.make_page()?;
            let next = u64::from(number) << 32 | u64::from(Self::RUN);
            // Ordering: Release. Pairs with the Acquire above; publishes the page.
            match self.fresh.compare_exchange(fresh, next, ordering(Ordering::AcqRel, Fault::FreshRelaxed), Ordering::Relaxed) {
                Ok(_) => {}
                // Another thread made a page at the same time.
                Err(_) => self.give_rest(number),
            }
            return Some(number * Self::PAGE_CELLS);
        }
    }

    /// All of a fresh page but its first run goes to the depot, so that nothing is lost.
    fn give_rest(&self, number: u32) {
        for first in (Self::RUN..Self::PAGE_CELLS).step_by(Self::RUN as usize).map(|used| number * Self::PAGE_CELLS + used) {
            self.depot.push_full(Full::Runs(Runs::one(first)), 0);
        }
    }

    /// A new page, in the directory. `None` if there are as many as there can be.
    fn make_page(&self) -> Option<u32> {
        let number = self.free_numbers.pop().or_else(|| {
            // Ordering: Relaxed. Only the number is taken from it.
            self.numbers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| (number < PAGES_MAX).then_some(number + 1)).ok()
        })?;
        let page = Page::<T>::new();
        // The first one may have a few timers only.
        if number > 0 && Page::<T>::CELLS_BYTES <= POPULATED_BYTES {
            page.populate();
        }
        let record = &self.records[number as usize];
        // Ordering: Relaxed. Written before the number was put on the queue of free numbers, which orders it.
        let count = record.count.load(Ordering::Relaxed);
        if count > 0 {
            page.cells().for_each(|cell| cell.start_at(count));
        }
        let cells = page.start();
        // Ordering: Relaxed. Read by whoever retires the page, who got all its indices through the depot.
        record.page.store(Box::into_raw(Box::new(page)), Ordering::Relaxed);
        // Ordering: Release. Pairs with the Acquire in `get` and `held`; publishes the cells.
        self.directory.first()[number as usize].0.store(cells, Ordering::Release);
        // Ordering: Relaxed. A counter.
        self.pages.fetch_add(1, Ordering::Relaxed);
        Some(number)
    }

    /// Indices of all cells of all pages that there have been so far.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + use<T> {
        // Ordering: Acquire. Pairs with nothing by itself: the fence of `stop` makes every page visible whose cells may be armed.
        let numbers = self.numbers.load(Ordering::Acquire);
        (0..numbers).flat_map(|number| number * Self::PAGE_CELLS..number * Self::PAGE_CELLS + Self::PAGE_CELLS)
    }

    /// Claims every armed cell and gives it to `f`: for `stop`.
    pub(crate) fn claim_all(&self, pinned: &Guard, with_running: bool, mut f: impl FnMut(Claimed<T>)) {
        for cell in self.indices() {
            let claim = |slot: Slot<'_, T>| if with_running { slot.claim_any() } else { slot.claim_waiting() };
            if let Some(claimed) = self.get(cell, pinned).and_then(claim) {
                f(claimed);
            }
        }
    }

    /// Gives pages back that have been empty for a while, a little at a time. Returns when to call again.
    ///
    /// Two looks in a row that find more than half of all cells in the depot start a gathering of what both have seen: cells that nobody
    /// needed in between. When it has freed pages it looks again; when it has not, and nothing came to the depot meanwhile, there is nothing to do until somebody frees cells again. Costs some 10 us a step.
    pub(crate) fn maintain(&self, now_ns: u64) -> Maintenance {
        // Ordering: Acquire. Pairs with the Release below: one gathers after the other. If somebody does, that is enough.
        let is_ours = self.gathering.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_ours && !broken(Fault::GatherTogether) {
            return Maintenance::At(now_ns + LOOK_EVERY_NS);
        }
        let next = self.gather.with_mut(|gather| {
            // SAFETY: we hold `gathering`, which guards it.
            let gather = unsafe { &mut *gather };
            let gathers = gather.magazines_left > 0 || !gather.by_page.is_empty();
            if gathers { self.gather_step(gather, now_ns) } else { self.look(gather, now_ns) }
        });
        // Ordering: Release. Pairs with the Acquire above.
        self.gathering.store(false, Ordering::Release);
        next
    }

    fn look(&self, gather: &mut Gather, now_ns: u64) -> Maintenance {
        if now_ns < gather.look_at_ns {
            return Maintenance::At(gather.look_at_ns);
        }
        gather.look_at_ns = now_ns + LOOK_EVERY_NS;
        // Ordering: Relaxed. A counter.
        let cells = self.pages.load(Ordering::Relaxed) as usize * Self::PAGE_CELLS as usize;
        let full = self.depot.full_len();
        let surplus = if full * CELLS >= SURPLUS_MIN_PAGES * Self::PAGE_CELLS as usize && full * CELLS > cells / 2 { full } else { 0 };
        let unused = surplus.min(std::mem::replace(&mut gather.surplus, surplus));
        (gather.magazines_left, gather.seen) = (unused, full);
        (gather.retired, gather.wanted) = (0, unused * CELLS / Self::PAGE_CELLS as usize);
        match (unused, surplus) {
            (0, 0) => Maintenance::Done,
            (0, _) => Maintenance::At(gather.look_at_ns),
            _ => Maintenance::Soon,
        }
    }

    fn gather_step(&self, gather: &mut Gather, now_ns: u64) -> Maintenance {
        let epoch = self.collector.register();
        for _ in 0..Self::STEP_MAGAZINES.min(gather.magazines_left) {
            gather.magazines_left -= 1;
            let Some(full) = self.depot.pop_full(0) else {
                gather.magazines_left = 0;
                break;
            };
            self.depot.drop_empty();
            full.for_each(|cell| {
                let number = cell / Self::PAGE_CELLS;
                if gather.by_page.len() <= number as usize {
                    gather.by_page.resize_with(number as usize + 1, Vec::new);
                }
                let cells = &mut gather.by_page[number as usize];
                cells.push(cell);
                if cells.len() == Self::PAGE_CELLS as usize - usize::from(broken(Fault::RetireIncomplete)) {
                    *cells = Vec::new();
                    gather.retired += 1;
                    self.retire_page(number, &epoch.pin());
                }
            });
        }
        if gather.magazines_left > 0 {
            return Maintenance::Soon;
        }
        if self.put_back(&mut gather.by_page) {
            return Maintenance::Soon;
        }
        // Let the collector come round: it frees what was retired two epochs ago.
        (0..4).for_each(|_| epoch.pin().flush());
        gather.surplus = 0;
        gather.rest_ns = if gather.retired > gather.wanted / 4 { LOOK_EVERY_NS } else { (2 * gather.rest_ns).min(LOOK_EVERY_NS_MAX) };
        gather.look_at_ns = now_ns + gather.rest_ns;
        // What was freed since its looks is left: timers may go on firing after the shard has given them away, and it does not hear of their ends.
        if gather.retired > 0 || self.depot.full_len() > gather.seen { Maintenance::At(gather.look_at_ns) } else { Maintenance::Done }
    }

    /// Gives some of the cells of incomplete pages back to the depot. Whether there are more.
    fn put_back(&self, by_page: &mut Vec<Vec<u32>>) -> bool {
        for _ in 0..Self::STEP_MAGAZINES {
            let mut magazine = Magazine::empty();
            while let Some(cells) = by_page.last_mut()
                && !magazine.is_full()
            {
                match cells.pop() {
                    Some(cell) => magazine.push(cell).expect("it is not full"),
                    None => _ = by_page.pop(),
                }
            }
            if by_page.is_empty() && magazine.is_empty() {
                break;
            }
            self.depot.take_in(magazine);
        }
        !by_page.is_empty()
    }

    /// T2, T3. The caller has all indices of the page in hand.
    fn retire_page(&self, number: u32, pinned: &Guard) {
        let record = &self.records[number as usize];
        // Ordering: Relaxed. Published with the page; the indices came through the depot after that.
        let page = record.page.swap(ptr::null_mut(), Ordering::Relaxed);
        if broken(Fault::RetireIncomplete) && page.is_null() {
            return;
        }
        // SAFETY: made by `make_page`, taken out once, here; not freed before the collector runs the closure below.
        let count = unsafe { &*page }.cells().map(Cell::count).max();
        // Ordering: Relaxed. Ordered by the queue of free numbers.
        record.count.store(count.filter(|_| !broken(Fault::RetireForgetsGeneration)).unwrap_or(0), Ordering::Relaxed);
        let unlink = || {
            // Ordering: Release (T2). A later look-up finds no page; one that found it is pinned.
            self.directory.first()[number as usize].0.store(ptr::null_mut(), Ordering::Release);
        };
        if !broken(Fault::UnlinkedLate) {
            unlink();
        }
        // SAFETY: `make_page` boxed it.
        let page = unsafe { Box::from_raw(page) };
        if broken(Fault::RetireAtOnce) {
            page.free();
        } else {
            // SAFETY: T3. Unreachable since T2: no directory entry, and no index of it in anybody's
            // hands but ours.
            unsafe { retire(pinned, move || page.free()) };
        }
        if broken(Fault::UnlinkedLate) {
            unlink();
        }
        // Ordering: Relaxed. A counter.
        self.pages.fetch_sub(1, Ordering::Relaxed);
        self.free_numbers.push(number);
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        // Ordering: Relaxed. `&mut self`: everybody else is gone.
        let numbers = self.numbers.load(Ordering::Relaxed) as usize;
        for record in self.records.iter().take(numbers) {
            // Ordering: Relaxed. As above.
            let page = record.page.load(Ordering::Relaxed);
            if !page.is_null() {
                // SAFETY: boxed by `make_page`, not retired: ours to free.
                drop(unsafe { Box::from_raw(page) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
