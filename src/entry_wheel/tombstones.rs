//! Tombstones: which entries are dead, by cell and generation.
//!
//! The generations of a cell rise: each entry of the cell has a greater one than the entry before
//! it, and a timer ends before its cell gets the next one. So a tombstone says that all earlier
//! entries of its cell are dead too. One number for a cell is enough: the first generation that may
//! be alive. It stays true for ever, whatever is forgotten of other cells.
//!
//! The numbers lie in pages. A page counts its unmatched tombstones: those whose entries the wheel
//! has not dropped yet. A page without any is idle. `sweep` gives the pages back to the system that
//! were idle since the last sweep: to give a page back at once, and to get it again, takes the
//! system longer than all its tombstones take the wheel.

use crate::entry::Entry;
use crate::mem::{Zeroable, Zeroed, prefetch_to_write};

/// Cells of a page: 128 KiB.
const PAGE_CELLS: u32 = 1 << 14;

/// This many pages fit into a processor's own caches.
const CACHED_PAGES: u32 = 4;

/// How many generations a number may fall behind its cell. Beyond that the cell's next entry raises
/// it: generations that are half a round apart cannot be compared.
const BEHIND_MAX: i64 = 1 << 38;

/// The tombstones of a wheel.
#[derive(Default)]
pub(super) struct Tombstones {
    pages: Vec<Option<TombstonePage>>,
    /// Pages that exist.
    page_count: u32,
    /// Those of all pages whose entries the wheel has not dropped yet.
    unmatched: u64,
}

struct TombstonePage {
    cells: Zeroed<FirstAlive>,
    /// Tombstones whose entries the wheel has not dropped yet.
    unmatched: u32,
    /// A tombstone has come since the last sweep.
    is_used: bool,
}

/// The first generation of a cell that may be alive. 0: no tombstone has come for the cell.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FirstAlive(u64);

/// Set in each number, so that generation 0 is not 0.
const KNOWN: u64 = 1 << 63;

// SAFETY: an integer.
unsafe impl Zeroable for FirstAlive {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self(0)
    }
}

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

impl Tombstones {
    /// The number of a cell's page, and the cell's position in it.
    #[inline]
    fn position(entry: Entry) -> (usize, usize) {
        (
            (entry.cell() / PAGE_CELLS) as usize,
            (entry.cell() % PAGE_CELLS) as usize,
        )
    }

    /// Whether no page exists: then no entry is dead.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.page_count == 0
    }

    /// Whether there are more pages than a processor's own caches hold.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.page_count > CACHED_PAGES
    }

    /// Cells for which there is memory.
    pub(super) fn cells(&self) -> u64 {
        u64::from(self.page_count) * u64::from(PAGE_CELLS)
    }

    /// Records a tombstone: the entry that it names is dead, and all earlier ones of its cell.
    #[inline]
    pub(super) fn insert(&mut self, tombstone: Entry) {
        let (number, position) = Self::position(tombstone);
        if !matches!(self.pages.get(number), Some(Some(_))) {
            self.add_page(number);
        }
        let Some(Some(page)) = self.pages.get_mut(number) else {
            return;
        };
        page.unmatched += 1;
        page.is_used = true;
        self.unmatched += 1;
        let first_alive = &mut page.cells[position];
        let next = tombstone.generation() + 1;
        // Tombstones of several lanes come in any order.
        if *first_alive == FirstAlive(0) || Entry::distance(first_alive.0, next) > 0 {
            *first_alive = FirstAlive::from(next);
        }
    }

    #[cold]
    fn add_page(&mut self, number: usize) {
        while self.pages.len() <= number {
            self.pages.push(None);
        }
        let cells = Zeroed::new(PAGE_CELLS as usize);
        // The first page may get a few tombstones only.
        if number > 0 {
            cells.populate(usize::MAX);
        }
        self.pages[number] = Some(TombstonePage {
            cells,
            unmatched: 0,
            is_used: true,
        });
        self.page_count += 1;
    }

    /// Whether an entry is dead. The caller drops a dead entry: its tombstone is matched now.
    #[inline]
    pub(super) fn is_dead(&mut self, entry: Entry) -> bool {
        let (number, position) = Self::position(entry);
        let Some(Some(page)) = self.pages.get_mut(number) else {
            return false;
        };
        let is_dead = page.cells[position].is_after(entry);
        if is_dead {
            self.match_one(number);
        }
        is_dead
    }

    /// `is_dead` for an entry that comes to the wheel for the first time. Raises a number that has
    /// fallen far behind.
    #[inline]
    pub(super) fn is_dead_on_arrival(&mut self, entry: Entry) -> bool {
        let (number, position) = Self::position(entry);
        let Some(Some(page)) = self.pages.get_mut(number) else {
            return false;
        };
        let first_alive = &mut page.cells[position];
        if first_alive.is_after(entry) {
            self.match_arrival(number);
            return true;
        }
        if *first_alive != FirstAlive(0)
            && Entry::distance(first_alive.0, entry.generation()) > BEHIND_MAX
        {
            *first_alive = FirstAlive::from(entry.generation());
        }
        false
    }

    /// `match_one`, called. (So `accept` needs no saved registers.)
    #[inline(never)]
    fn match_arrival(&mut self, number: usize) {
        self.match_one(number);
    }

    /// A dead entry of this page is dropped.
    #[inline]
    fn match_one(&mut self, number: usize) {
        let Some(Some(page)) = self.pages.get_mut(number) else {
            return;
        };
        // A tombstone that comes after its deadline is not recorded. If its entry lies at a later
        // deadline, a later tombstone of the cell makes that entry dead too. So the wheel may drop
        // more entries than tombstones were counted.
        let matched = page.unmatched.min(1);
        page.unmatched -= matched;
        self.unmatched -= u64::from(matched);
    }

    /// Gives the pages back that were idle since the last sweep.
    pub(super) fn sweep(&mut self) {
        for page in &mut self.pages {
            let is_idle = page
                .as_mut()
                .is_some_and(|page| !std::mem::take(&mut page.is_used) && page.unmatched == 0);
            if is_idle {
                *page = None;
                self.page_count -= 1;
            }
        }
    }

    /// Prefetches the cache line that the other calls need for this message.
    #[inline]
    pub(super) fn prefetch(&self, message: Entry) {
        let (number, position) = Self::position(message);
        if let Some(Some(page)) = self.pages.get(number) {
            prefetch_to_write(page.cells.as_ptr().wrapping_add(position));
        }
    }

    /// Tombstones whose entries the wheel has not dropped yet.
    #[inline]
    pub(super) fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Forgets all tombstones.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32, generation: u64) -> Entry {
        Entry::new(30_000, cell, generation)
    }

    fn pages(tombstones: &Tombstones) -> u32 {
        assert_eq!(
            tombstones.pages.iter().flatten().count(),
            tombstones.page_count as usize
        );
        tombstones.page_count
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
        let (round, half) = (1u64 << 40, 1u64 << 39);
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
}
