//! Graves: which filings of each cell are dead.
//!
//! The tags of a cell's filings rise, and none begins before the one before it has ended. So a tombstone says of all earlier filings too that they are dead, and one number for a
//! cell is enough: the first tag that may be alive. It stays true for ever, whatever is forgotten of others.
//!
//! The numbers lie in pages. A page whose tombstones have all met their entries is not needed any more, and goes back to the system, all but one.

use crate::entry::Entry;
use crate::mem::{Zeroable, Zeroed, prefetch_to_write};

/// Cells of a page: 128 KiB.
const PAGE_CELLS: u32 = 1 << 14;

/// Pages kept though nobody is awaited in them.
const SPARE_PAGES: u32 = 1;

/// So many pages fit into a processor's own caches.
const CACHED_PAGES: u32 = 4;

/// Filings that a number may lie behind: it goes along before tags have gone half a round.
const BEHIND_MAX: i64 = 1 << 38;

#[derive(Default)]
pub(super) struct Graves {
    pages: Vec<Option<Page>>,
    /// Pages that exist.
    there: u32,
    /// Those of them in which nobody is awaited.
    spare: u32,
}

struct Page {
    graves: Zeroed<Grave>,
    /// Tombstones whose entries have not come by.
    awaited: u32,
}

/// The first tag of a cell that may be alive, beside a bit that says that there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Grave(u64);

const KNOWN: u64 = 1 << 63;

// SAFETY: an integer.
unsafe impl Zeroable for Grave {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self(0)
    }
}

impl Grave {
    #[inline]
    fn from(tag: u64) -> Self {
        Self(tag | KNOWN)
    }

    #[inline]
    fn holds(self, entry: Entry) -> bool {
        self.0 & KNOWN != 0 && entry.is_before(self.0)
    }
}

impl Graves {
    #[inline]
    fn place(entry: Entry) -> (usize, usize) {
        ((entry.cell() / PAGE_CELLS) as usize, (entry.cell() % PAGE_CELLS) as usize)
    }

    /// Whether nothing is known of anybody.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.there == 0
    }

    /// Whether they may be too many for the processor's own caches.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.there > CACHED_PAGES
    }

    /// Takes in a tombstone: the filing that it names is dead, and all before it. Its entry is awaited.
    pub(super) fn dig(&mut self, tombstone: Entry) {
        let (number, position) = Self::place(tombstone);
        if !matches!(self.pages.get(number), Some(Some(_))) {
            self.add_page(number);
        }
        let Some(Some(page)) = self.pages.get_mut(number) else { return };
        self.spare -= u32::from(page.awaited == 0);
        page.awaited += 1;
        let grave = &mut page.graves[position];
        let next = tombstone.tag() + 1;
        // Tombstones of several lanes come in any order.
        if *grave == Grave(0) || Entry::distance(grave.0, next) > 0 {
            *grave = Grave::from(next);
        }
    }

    #[cold]
    fn add_page(&mut self, number: usize) {
        if self.pages.len() <= number {
            self.pages.resize_with(number + 1, || None);
        }
        let graves = Zeroed::new(PAGE_CELLS as usize);
        // The first one may have a few graves only.
        if number > 0 {
            graves.populate(usize::MAX);
        }
        self.pages[number] = Some(Page { graves, awaited: 0 });
        self.there += 1;
        self.spare += 1;
    }

    /// Whether an entry is dead. If so it has come by, and is not awaited any more: the caller drops it.
    #[inline]
    pub(super) fn takes(&mut self, entry: Entry) -> bool {
        let (number, position) = Self::place(entry);
        let Some(Some(page)) = self.pages.get_mut(number) else { return false };
        let is_dead = page.graves[position].holds(entry);
        if is_dead {
            self.came_by(number);
        }
        is_dead
    }

    /// The same of an entry that is filed for the first time.
    #[inline]
    pub(super) fn takes_new(&mut self, entry: Entry) -> bool {
        let (number, position) = Self::place(entry);
        let Some(Some(page)) = self.pages.get_mut(number) else { return false };
        let grave = &mut page.graves[position];
        if grave.holds(entry) {
            self.came_by(number);
            return true;
        }
        if *grave != Grave(0) && Entry::distance(grave.0, entry.tag()) > BEHIND_MAX {
            *grave = Grave::from(entry.tag());
        }
        false
    }

    /// An awaited entry has come by.
    #[inline]
    fn came_by(&mut self, number: usize) {
        let Some(Some(page)) = self.pages.get_mut(number) else { return };
        // Of two entries whose tombstones name wrong deadlines, one may come by that was not counted.
        if page.awaited == 0 {
            return;
        }
        page.awaited -= 1;
        if page.awaited == 0 {
            if self.spare == SPARE_PAGES {
                self.pages[number] = None;
                self.there -= 1;
            } else {
                self.spare += 1;
            }
        }
    }

    /// Asks for the line that the other calls need for this one.
    #[inline]
    pub(super) fn prefetch(&self, message: Entry) {
        let (number, position) = Self::place(message);
        if let Some(Some(page)) = self.pages.get(number) {
            prefetch_to_write(page.graves.as_ptr().wrapping_add(position));
        }
    }

    /// Forgets everything: nobody is awaited.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32, tag: u64) -> Entry {
        Entry::new(30_000, cell, tag)
    }

    fn pages(graves: &Graves) -> u32 {
        assert_eq!(graves.pages.iter().flatten().count(), graves.there as usize);
        graves.there
    }

    #[test]
    fn a_tombstone_kills_its_filing_and_those_before_it() {
        let mut graves = Graves::default();
        assert!(!graves.takes(entry(7, 3)) && !graves.takes_new(entry(7, 3)), "no page");
        graves.dig(entry(7, 3).tombstone());
        let mut dead = |cell, tag| graves.takes(entry(cell, tag)) || graves.takes_new(entry(cell, tag));
        assert!(!dead(6, 3) && !dead(8, 3) && !dead(7 + PAGE_CELLS, 3) && !dead(6, 0), "other cells");
        assert!(dead(7, 3) && dead(7, 2) && dead(7, 0) && !dead(7, 4) && !dead(7, 5));
        // One that comes late takes nothing back.
        graves.dig(entry(7, 1).tombstone());
        assert!(graves.takes(entry(7, 3)) && !graves.takes(entry(7, 4)));
        graves.dig(entry(7, 4).tombstone());
        assert!(graves.takes_new(entry(7, 4)) && !graves.takes_new(entry(7, 5)));
    }

    #[test]
    fn counts_that_go_round_kill_nobody() {
        let mut graves = Graves::default();
        let (round, half) = (1u64 << 40, 1u64 << 39);
        graves.dig(entry(1, 0).tombstone());
        graves.dig(entry(2, round - 1).tombstone());
        // In a page that is there a cell without tombstones: whatever its tag.
        assert!(
            [0, 1, half - 1, half, half + 1, round - 1].iter().all(|&tag| !graves.takes(entry(3, tag)) && !graves.takes_new(entry(3, tag)))
        );
        assert!(
            graves.takes(entry(2, round - 1))
                && graves.takes(entry(2, half + 5))
                && !graves.takes(entry(2, 0))
                && !graves.takes(entry(2, 5))
        );
        // It is filed again and again, and never cancelled.
        let step = BEHIND_MAX as u64 - 1;
        for tag in (1..20).map(|steps| (1 + steps * step) % round) {
            assert!(!graves.takes_new(entry(1, tag)) && !graves.takes(entry(1, tag)), "{tag}");
        }
    }

    #[test]
    fn pages_in_which_nobody_is_awaited_go() {
        let mut graves = Graves::default();
        let cells = || (0..10).flat_map(|page| [page * PAGE_CELLS, page * PAGE_CELLS + PAGE_CELLS - 1]);
        for _ in 0..3 {
            for (there, cell) in (0..).zip(cells()) {
                graves.dig(entry(cell, 5).tombstone());
                assert_eq!(pages(&graves), there / 2 + 1);
            }
            assert_eq!(graves.spare, 0);
            for (gone, cell) in (0..).zip(cells()) {
                assert_eq!(pages(&graves), (10 - gone / 2 + 1).min(10), "after {gone}");
                assert!(if cell % 2 == 0 { graves.takes(entry(cell, 5)) } else { graves.takes_new(entry(cell, 5)) });
            }
            assert_eq!((pages(&graves), graves.spare), (1, 1));
            assert!(graves.takes(entry(0, 5)), "the kept one's numbers stay true");
            assert_eq!(graves.spare, 1);
            graves.clear();
            assert_eq!((pages(&graves), graves.spare), (0, 0));
        }
    }
}
