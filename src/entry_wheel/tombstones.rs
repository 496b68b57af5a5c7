//! Tombstones: which entries are dead, by cell and generation.
//!
//! Each entry of a cell has a greater generation than the entry before it, and a timer ends before
//! its cell gets the next entry. So a tombstone says that all earlier entries of its cell are dead,
//! too. One number for each cell is enough: the first generation that may be alive. It stays true
//! for ever, whatever is forgotten of other cells.
//!
//! The numbers lie in pages, and the pages in slabs. A page has as many cells as threads hand on at
//! a time, because such cells are often cancelled together. A table has the place of each page, and
//! how many unmatched tombstones the page has. A tombstone is unmatched until the wheel has dropped
//! its entry. So a tombstone needs one cache line of the table, which is small, and one of its
//! page.
//!
//! A page without unmatched tombstones is idle. `sweep` frees the pages that stayed idle since the
//! last sweep. It does not free them sooner, because to get a slab from the system takes longer
//! than all tombstones of a page take the wheel. `trim` gives slabs without pages back to the
//! system, one by one. A storm of cancels may leave hundreds of slabs, and each takes ten
//! microseconds or more.

use crate::entry::{Entry, GENERATION_BITS};
use crate::mem::{Zeroable, Zeroed};
use crate::prefetch::prefetch_to_write;

/// Cells of a page: as many as a magazine of free cells has. The cells of timers that end one after
/// the other may lie anywhere, except that those of a magazine lie together.
const PAGE_CELLS: u32 = 64;

/// Pages of a slab: 129 KiB with their numbers.
const SLAB_PAGES: usize = 256;

/// This many slabs fit into a processor's own caches.
const CACHED_SLABS: usize = 4;

/// The place of all pages that do not exist. It is in the first slab, and no page is ever put
/// there. Its numbers stay 0, so no entry is dead there.
const NOWHERE: u32 = 0;

/// A sweep looks at this many slabs: a quarter of a millisecond.
const SWEPT_MAX: usize = 256;

/// A table for this many pages is kept when no page is left.
const TABLE_KEPT: usize = 1 << 12;

/// How many generations a number may fall behind its cell. Beyond that the cell's next entry raises
/// it, because generations that are half a round apart cannot be compared.
const BEHIND_MAX: i64 = 1 << (GENERATION_BITS - 2);

/// The tombstones of a wheel.
#[derive(Default)]
pub(super) struct Tombstones {
    /// What is known of each page, by its number.
    pages: Vec<TombstonePage>,
    slabs: Vec<Option<Zeroed<TombstoneSlab>>>,
    /// Slabs and pages that exist.
    slab_count: usize,
    page_count: u32,
    /// No slab before this one has a free place.
    first_free: usize,
    /// Where the next sweep goes on.
    swept: usize,
    /// Slabs without pages, which are not given back yet.
    leaving: Vec<Zeroed<TombstoneSlab>>,
    /// Tombstones of all pages whose entries the wheel has not dropped yet.
    unmatched: u64,
}

/// What is known of a page.
#[derive(Clone, Copy, Default)]
struct TombstonePage {
    /// Where its numbers lie. [`NOWHERE`] if the page does not exist.
    place: u32,
    /// Twice the number of tombstones whose entries the wheel has not dropped yet, plus 1 if a
    /// tombstone has come since the last sweep.
    uses: u32,
}

const USED: u32 = 1;
const UNMATCHED: u32 = 2;

/// Places for pages.
struct TombstoneSlab {
    /// A bit for each place that has a page.
    taken: [u64; SLAB_PAGES / 64],
    /// No place from this one on was ever taken, so the numbers there are 0.
    fresh: usize,
    /// The number of the page at each place.
    pages: [u32; SLAB_PAGES],
    numbers: [[FirstAlive; PAGE_CELLS as usize]; SLAB_PAGES],
}

// SAFETY: integers.
unsafe impl Zeroable for TombstoneSlab {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            taken: [0; SLAB_PAGES / 64],
            fresh: 0,
            pages: [0; SLAB_PAGES],
            numbers: [[FirstAlive(0); PAGE_CELLS as usize]; SLAB_PAGES],
        }
    }
}

impl TombstonePage {
    /// Notes that a dead entry of the page is dropped. Returns how many tombstones it matches.
    #[inline]
    fn match_one(&mut self) -> u64 {
        // A tombstone that comes after its deadline is not recorded. If its entry lies at a later
        // deadline, a later tombstone of the cell makes that entry dead too. So the wheel may drop
        // more entries than tombstones were counted.
        if self.uses < UNMATCHED {
            return 0;
        }
        self.uses -= UNMATCHED;
        1
    }
}

impl TombstoneSlab {
    /// The number of places that are taken: those with a page, and in the first slab `NOWHERE`.
    fn count(&self) -> u32 {
        self.taken.iter().map(|taken| taken.count_ones()).sum()
    }

    /// Adds a page. Returns its place, if there is one.
    fn add(&mut self, page: u32) -> Option<usize> {
        let word = self.taken.iter().position(|&taken| taken != u64::MAX)?;
        let bit = self.taken[word].trailing_ones();
        self.taken[word] |= 1 << bit;
        let place = 64 * word + bit as usize;
        self.pages[place] = page;
        if place < self.fresh {
            self.numbers[place] = [FirstAlive(0); PAGE_CELLS as usize];
        }
        self.fresh = self.fresh.max(place + 1);
        Some(place)
    }

    /// The number of an entry's cell, in the page at this place.
    #[inline]
    fn number(&mut self, place: usize, entry: Entry) -> &mut FirstAlive {
        &mut self.numbers[place % SLAB_PAGES][(entry.cell() % PAGE_CELLS) as usize]
    }

    /// Frees the pages that were idle since the last sweep, from the place `first` on. Returns how
    /// many.
    fn sweep(&mut self, first: usize, table: &mut [TombstonePage]) -> u32 {
        let mut freed = 0;
        for place in first..SLAB_PAGES {
            let (word, bit) = (place / 64, 1 << (place % 64));
            if self.taken[word] & bit == 0 {
                continue;
            }
            let page = &mut table[self.pages[place] as usize];
            let uses = page.uses;
            page.uses &= !USED;
            if uses == 0 {
                page.place = NOWHERE;
                self.taken[word] &= !bit;
                freed += 1;
            }
        }
        freed
    }
}

/// The first generation of a cell that may be alive. 0 if no tombstone has come for the cell.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FirstAlive(u64);

/// Set in each number, so that generation 0 is not 0.
const KNOWN: u64 = 1 << 63;

impl FirstAlive {
    #[inline]
    fn from(generation: u64) -> Self {
        Self(generation | KNOWN)
    }

    /// Whether an entry of this cell is dead.
    #[inline]
    fn is_after(self, entry: Entry) -> bool {
        self.0 & KNOWN != 0 && entry.is_before(self.0)
    }
}

/// The number of an entry's page.
#[inline]
fn page_of(entry: Entry) -> usize {
    (entry.cell() / PAGE_CELLS) as usize
}

impl Tombstones {
    /// The place of a cell's page. `None` if no page with this number or a greater one ever had a
    /// tombstone.
    #[inline]
    fn place(&self, entry: Entry) -> Option<usize> {
        Some(self.pages.get(page_of(entry))?.place as usize)
    }

    /// The slab of a place.
    #[inline]
    fn slab(&mut self, place: usize) -> Option<&mut TombstoneSlab> {
        let slab = self.slabs.get_mut(place / SLAB_PAGES)?.as_mut()?;
        Some(slab.first_mut())
    }

    /// Whether no page exists: then no entry is dead.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.page_count == 0
    }

    /// Whether there are more slabs than a processor's own caches hold.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.slab_count > CACHED_SLABS
    }

    /// Cells for which there is memory.
    pub(super) fn cells(&self) -> u64 {
        (self.slab_count * SLAB_PAGES) as u64 * u64::from(PAGE_CELLS)
    }

    /// Records a tombstone: the entry that it names is dead, and all earlier ones of its cell.
    #[inline]
    pub(super) fn insert(&mut self, tombstone: Entry) {
        let place = match self.pages.get_mut(page_of(tombstone)) {
            Some(page) if page.place != NOWHERE => {
                page.uses = (page.uses + UNMATCHED) | USED;
                page.place as usize
            }
            _ => self.add_page(page_of(tombstone)),
        };
        self.unmatched += 1;
        let Some(slab) = self.slab(place) else {
            return;
        };
        let first_alive = slab.number(place, tombstone);
        let next = tombstone.generation() + 1;
        // Tombstones of several lanes come in any order.
        if *first_alive == FirstAlive(0) || Entry::distance(first_alive.0, next) > 0 {
            *first_alive = FirstAlive::from(next);
        }
    }

    /// Adds a page for a tombstone, in the first slab that has a free place. Returns the place.
    #[cold]
    #[inline(never)]
    fn add_page(&mut self, page: usize) -> usize {
        if self.pages.len() <= page {
            let len = (page + 1).next_power_of_two();
            self.pages.resize(len, TombstonePage::default());
        }
        let place = loop {
            let number = self.first_free;
            if self.slabs.len() == number {
                self.slabs.push(None);
            }
            let slab = self.slabs[number].get_or_insert_with(|| {
                self.slab_count += 1;
                let mut slab = self.leaving.pop().unwrap_or_else(|| {
                    let slab = Zeroed::new(1);
                    // The first slab may get only a few tombstones.
                    if number > 0 {
                        slab.populate(usize::MAX);
                    }
                    slab
                });
                slab.first_mut().taken = [0; SLAB_PAGES / 64];
                if number == 0 {
                    // This place is `NOWHERE`.
                    slab.first_mut().add(0);
                }
                slab
            });
            match slab.first_mut().add(page as u32) {
                Some(place) => break number * SLAB_PAGES + place,
                None => self.first_free += 1,
            }
        };
        self.page_count += 1;
        self.pages[page] = TombstonePage {
            place: place as u32,
            uses: UNMATCHED | USED,
        };
        place
    }

    /// Whether an entry is dead. The caller drops a dead entry: its tombstone is matched now.
    #[inline]
    pub(super) fn is_dead(&mut self, entry: Entry) -> bool {
        let Some(place) = self.place(entry) else {
            return false;
        };
        let Some(slab) = self.slab(place) else {
            return false;
        };
        let is_dead = slab.number(place, entry).is_after(entry);
        if is_dead {
            self.match_one(entry);
        }
        is_dead
    }

    /// `is_dead` for an entry that comes to the wheel for the first time. Raises a number that has
    /// fallen far behind.
    #[inline]
    pub(super) fn is_dead_on_arrival(&mut self, entry: Entry) -> bool {
        let Some(place) = self.place(entry) else {
            return false;
        };
        let Some(slab) = self.slab(place) else {
            return false;
        };
        let first_alive = slab.number(place, entry);
        if first_alive.is_after(entry) {
            self.match_arrival(entry);
            return true;
        }
        if *first_alive != FirstAlive(0)
            && Entry::distance(first_alive.0, entry.generation()) > BEHIND_MAX
        {
            *first_alive = FirstAlive::from(entry.generation());
        }
        false
    }

    /// Notes that an entry is dropped on its way to the wheel. (As a call of its own, so that
    /// `accept` saves no registers.)
    #[inline(never)]
    fn match_arrival(&mut self, entry: Entry) {
        self.match_one(entry);
    }

    /// Notes that a dead entry is dropped.
    #[inline]
    fn match_one(&mut self, entry: Entry) {
        if let Some(page) = self.pages.get_mut(page_of(entry)) {
            self.unmatched -= page.match_one();
        }
    }

    /// Frees the pages that were idle since a sweep last looked at them. Slabs without pages wait
    /// for `trim`.
    pub(super) fn sweep(&mut self) {
        let slabs = self.slabs.iter_mut().enumerate().skip(self.swept);
        for (number, place) in slabs.take(SWEPT_MAX) {
            let Some(slab) = place else {
                continue;
            };
            let slab = slab.first_mut();
            self.page_count -= slab.sweep(usize::from(number == 0), &mut self.pages);
            let pages = slab.count();
            if pages < SLAB_PAGES as u32 {
                self.first_free = self.first_free.min(number);
            }
            if pages == u32::from(number == 0) {
                self.leaving.extend(place.take());
                self.slab_count -= 1;
            }
        }
        self.swept += SWEPT_MAX;
        if self.swept >= self.slabs.len() {
            self.swept = 0;
        }
        if self.page_count == 0 && self.pages.len() > TABLE_KEPT {
            self.clear();
        }
    }

    /// Gives one slab without pages back to the system. Returns whether there is another.
    #[inline]
    pub(super) fn trim(&mut self) -> bool {
        self.leaving.pop().is_some() && !self.leaving.is_empty()
    }

    /// Prefetches the cache line that the other calls need for this message.
    #[inline]
    pub(super) fn prefetch(&self, message: Entry) {
        if let Some(place) = self.place(message)
            && let Some(Some(slab)) = self.slabs.get(place / SLAB_PAGES)
        {
            let page = &slab.first().numbers[place % SLAB_PAGES];
            prefetch_to_write(&raw const page[(message.cell() % PAGE_CELLS) as usize]);
        }
    }

    /// Tombstones whose entries the wheel has not dropped yet.
    #[inline]
    pub(super) fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Forgets all tombstones. `trim` gives their memory back.
    pub(super) fn clear(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.extend(self.slabs.drain(..).flatten());
        *self = Self {
            leaving,
            ..Self::default()
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32, generation: u64) -> Entry {
        Entry::new(30_000, cell, generation)
    }

    fn pages(tombstones: &Tombstones) -> u32 {
        let count = tombstones.page_count;
        let slabs = tombstones.slabs.iter().flatten();
        let taken: u32 = slabs.map(|slab| slab.first().count()).sum();
        let is_first = tombstones.slabs.first().is_some_and(Option::is_some);
        assert_eq!(taken, count + u32::from(is_first));
        let places = tombstones.pages.iter().filter(|page| page.place != NOWHERE);
        assert_eq!(places.count(), count as usize);
        let slabs = tombstones.slabs.iter().flatten().count();
        assert_eq!(slabs, tombstones.slab_count);
        count
    }

    #[test]
    fn a_tombstone_kills_its_entry_and_those_before_it() {
        let mut tombstones = Tombstones::default();
        assert!(
            !tombstones.is_dead(entry(7, 3)) && !tombstones.is_dead_on_arrival(entry(7, 3)),
            "no page"
        );
        tombstones.insert(entry(7, 3).tombstone());
        let mut dead = |cell, generation| {
            tombstones.is_dead(entry(cell, generation))
                || tombstones.is_dead_on_arrival(entry(cell, generation))
        };
        assert!(
            !dead(6, 3) && !dead(8, 3) && !dead(7 + PAGE_CELLS, 3) && !dead(6, 0),
            "other cells"
        );
        assert!(dead(7, 3) && dead(7, 2) && dead(7, 0) && !dead(7, 4) && !dead(7, 5));
        // An older tombstone that comes late changes nothing.
        tombstones.insert(entry(7, 1).tombstone());
        assert!(tombstones.is_dead(entry(7, 3)) && !tombstones.is_dead(entry(7, 4)));
        tombstones.insert(entry(7, 4).tombstone());
        assert!(
            tombstones.is_dead_on_arrival(entry(7, 4))
                && !tombstones.is_dead_on_arrival(entry(7, 5))
        );
    }

    #[test]
    fn generations_that_go_round_kill_no_entry() {
        let mut tombstones = Tombstones::default();
        let (round, half) = (1u64 << GENERATION_BITS, 1u64 << (GENERATION_BITS - 1));
        tombstones.insert(entry(1, 0).tombstone());
        tombstones.insert(entry(2, round - 1).tombstone());
        // A cell without tombstones, in a page that exists: no generation is dead.
        assert!(
            [0, 1, half - 1, half, half + 1, round - 1]
                .iter()
                .all(|&generation| !tombstones.is_dead(entry(3, generation))
                    && !tombstones.is_dead_on_arrival(entry(3, generation)))
        );
        assert!(
            tombstones.is_dead(entry(2, round - 1))
                && tombstones.is_dead(entry(2, half + 5))
                && !tombstones.is_dead(entry(2, 0))
                && !tombstones.is_dead(entry(2, 5))
        );
        // A cell that is armed again and again, and never cancelled.
        let step = BEHIND_MAX as u64 - 1;
        for generation in (1..20).map(|steps| (1 + steps * step) % round) {
            assert!(
                !tombstones.is_dead_on_arrival(entry(1, generation))
                    && !tombstones.is_dead(entry(1, generation)),
                "{generation}"
            );
        }
    }

    /// Cells of a page that are cancelled one by one, each before the next: the page stays.
    #[test]
    fn a_page_that_is_used_is_kept() {
        let mut tombstones = Tombstones::default();
        for round in 0..3 {
            for cell in (0..3).map(|page| page * PAGE_CELLS + round) {
                tombstones.insert(entry(cell, 5).tombstone());
                assert!(tombstones.is_dead(entry(cell, 5)));
            }
            assert_eq!(pages(&tombstones), 3);
            tombstones.sweep();
            assert_eq!(pages(&tombstones), 3, "they were used");
        }
        tombstones.insert(entry(0, 6).tombstone());
        tombstones.sweep();
        assert_eq!(pages(&tombstones), 1, "the others are idle");
        tombstones.sweep();
        assert_eq!(pages(&tombstones), 1, "its entry may still come");
        assert!(tombstones.is_dead_on_arrival(entry(0, 6)));
        tombstones.sweep();
        assert_eq!(pages(&tombstones), 0);
    }

    #[test]
    fn idle_pages_go() {
        let mut tombstones = Tombstones::default();
        let cells =
            || (0..10).flat_map(|page| [page * PAGE_CELLS, page * PAGE_CELLS + PAGE_CELLS - 1]);
        for _ in 0..3 {
            for (before, cell) in (0..).zip(cells()) {
                tombstones.insert(entry(cell, 5).tombstone());
                assert_eq!(pages(&tombstones), before / 2 + 1);
            }
            tombstones.sweep();
            for (gone, cell) in (0..).zip(cells()) {
                tombstones.sweep();
                assert_eq!(pages(&tombstones), 10 - gone / 2, "after {gone}");
                assert!(if cell % 2 == 0 {
                    tombstones.is_dead(entry(cell, 5))
                } else {
                    tombstones.is_dead_on_arrival(entry(cell, 5))
                });
            }
            tombstones.sweep();
            assert_eq!(pages(&tombstones), 0);
        }
        tombstones.insert(entry(7, 5).tombstone());
        tombstones.clear();
        assert_eq!(pages(&tombstones), 0);
    }

    /// To give all memory of a storm back at once would delay other timers.
    #[test]
    fn the_memory_of_a_storm_goes_in_steps() {
        let slabs = 2 * SWEPT_MAX;
        let storm = |tombstones: &mut Tombstones| {
            let pages = 0..(slabs * SLAB_PAGES) as u32 - 1;
            for cell in pages.map(|page| page * PAGE_CELLS) {
                tombstones.insert(entry(cell, 5).tombstone());
                assert!(tombstones.is_dead(entry(cell, 5)));
            }
            assert_eq!(tombstones.slab_count, slabs);
        };
        let mut tombstones = Tombstones::default();
        storm(&mut tombstones);
        // Two sweeps see all that was used, and two more that it is idle.
        for left in [slabs, slabs, slabs - SWEPT_MAX, 0] {
            tombstones.sweep();
            assert_eq!(tombstones.slab_count, left);
        }
        assert_eq!((tombstones.leaving.len(), pages(&tombstones)), (slabs, 0));
        storm(&mut tombstones);
        assert_eq!(tombstones.leaving.len(), 0, "they are used again");
        // What is left of the first storm makes nothing dead.
        assert!(!tombstones.is_dead(entry(1, 5)) && !tombstones.is_dead(entry(u32::MAX / 2, 5)));
        tombstones.clear();
        assert_eq!(tombstones.leaving.len(), slabs);
        assert!((1..slabs).all(|_| tombstones.trim()));
        assert!(!tombstones.trim() && tombstones.leaving.is_empty() && !tombstones.trim());
    }
}
