//! Slot: the entries of one span of ticks, the holes among them, and their compaction.
//!
//! A large slot is compacted and cascaded in steps. It knows how far each of the two has come.

use super::chunk::{Block, ChunkList, ChunkPool, Form};
use super::parts::WheelParts;
use crate::entry::Entry;

/// A slot with more entries than this is large: it is cascaded in steps, ahead of time. 4,096
/// entries take about 40 us.
pub(super) const LARGE_SLOT: u32 = 4096;

/// A slot with more entries than this is compacted in steps. 16,384 entries take about 160 us.
pub(super) const COMPACTED_IN_STEPS: u32 = 16_384;

/// A slot with this many holes or fewer is not worth a compaction.
pub(super) const HOLES_MIN: u32 = 32;

/// `L` is the type of the levels below, into which a slot is cascaded ahead of time.
pub(super) struct Slot<L> {
    pub(super) entries: ChunkList,
    /// Tombstones that have come for this slot since its last compaction began. A dead entry of the
    /// slot is counted here, or the compaction has still to reach it.
    pub(super) holes: u32,
    /// Entries at the front that the compaction has still to examine; 0: no compaction goes on.
    to_examine: u32,
    /// Not after the earliest deadline. Not known during a compaction.
    pub(super) earliest: u64,
    /// The lower levels as they will be at the slot's start: what has been cascaded ahead of time.
    pub(super) ahead: Option<Box<L>>,
}

// There are 1,792 of them in a wheel. With pointers of 32 bits a slot may be smaller.
const _: () = assert!(
    size_of::<Slot<()>>() == 40 || cfg!(target_pointer_width = "32") && size_of::<Slot<()>>() < 40
);

impl<L> Slot<L> {
    pub(super) const EMPTY: Self = Self {
        entries: ChunkList::EMPTY,
        holes: 0,
        to_examine: 0,
        earliest: u64::MAX,
        ahead: None,
    };

    /// Appends an entry.
    // (`always`, as `ChunkPool::push`: the forms would be compared once more.)
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry, form: Form, pool: &mut ChunkPool) {
        self.earliest = self.earliest.min(entry.deadline());
        match form {
            Form::Narrow => pool.push(&mut self.entries, entry, Form::Narrow),
            Form::Wide => pool.push(&mut self.entries, entry, Form::Wide),
        }
    }

    /// Entries in the slot. Those that were cascaded ahead of time are not counted.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Whether the slot has no entries, neither here nor ahead.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ahead.is_none()
    }

    /// Whether the slot is cascaded in steps.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.len() > LARGE_SLOT || self.is_in_compaction()
    }

    /// Whether the slot needs another step of its cascade before time enters it: it is large, or it
    /// was large when the cascade began.
    #[inline]
    pub(super) fn has_steps_left(&self) -> bool {
        self.is_large() || self.has_entries_behind()
    }

    /// Whether the slot is cascaded, and has entries that are not ahead yet.
    #[inline]
    pub(super) fn has_entries_behind(&self) -> bool {
        self.ahead.is_some() && !self.entries.is_empty()
    }

    #[inline]
    pub(super) fn is_in_compaction(&self) -> bool {
        self.to_examine > 0
    }

    /// Entries that its compaction has still to examine.
    #[cfg(all(test, not(loom)))]
    pub(super) fn examining(&self) -> u64 {
        self.to_examine.into()
    }

    /// Whether the slot is compacted as a whole, not in steps.
    #[inline]
    pub(super) fn is_compacted_at_once(&self) -> bool {
        self.len() <= COMPACTED_IN_STEPS && !self.is_in_compaction()
    }

    /// Whether the slot is due for a compaction: more than half of its entries are holes; of a slot
    /// that is compacted in steps, more than a third.
    #[inline]
    pub(super) fn is_to_be_compacted(&self) -> bool {
        let share = if self.len() > COMPACTED_IN_STEPS {
            3
        } else {
            2
        };
        self.is_in_compaction() || self.has_holes(share)
    }

    /// Whether more than an eighth of the entries are holes: then a compaction is worth its cost in
    /// a long quiet.
    #[inline]
    pub(super) fn is_partly_dead(&self) -> bool {
        self.has_holes(8)
    }

    /// Whether some entries are holes. False while the slot is cascaded.
    #[inline]
    pub(super) fn has_any_holes(&self) -> bool {
        self.holes > 0 && self.ahead.is_none()
    }

    /// Whether there are more than `HOLES_MIN` holes, and `times` as many are more than all
    /// entries. False while the slot is cascaded.
    #[inline]
    pub(super) fn has_holes(&self, times: u64) -> bool {
        self.holes > HOLES_MIN
            && times * u64::from(self.holes) > u64::from(self.len())
            && self.ahead.is_none()
    }

    /// Drops the dead entries. A slot that is compacted in steps stops when `budget_end` entries
    /// have been moved. Not to be called for a slot that is cascaded: its entries come to smaller
    /// slots soon.
    pub(super) fn compact(&mut self, budget_end: u64, parts: &mut WheelParts) {
        debug_assert!(self.ahead.is_none());
        let (at_once, form) = (self.is_compacted_at_once(), self.entries.form());
        let holes = self.holes;
        if !self.is_in_compaction() {
            parts.compactions += 1;
            self.forget_holes(parts);
            self.earliest = u64::MAX;
        }
        if at_once {
            let mut all = std::mem::replace(&mut self.entries, ChunkList::EMPTY);
            while let Some(block) = parts.pop_live(&mut all) {
                self.keep(block, form, &mut parts.pool);
            }
            return;
        }
        if !self.is_in_compaction() {
            self.to_examine = self.len();
            parts.examining += u64::from(self.to_examine);
            parts.leaving += u64::from(holes);
        }
        // Live entries are appended at the end. So an entry of the last chunk may be examined
        // twice.
        while self.is_in_compaction() && parts.moved < budget_end {
            let before = self.len();
            let Some(block) = parts.pop_live(&mut self.entries) else {
                break;
            };
            let (popped, left) = (before - self.len(), self.to_examine);
            self.to_examine = left.saturating_sub(popped);
            parts.examined(left - self.to_examine, popped - block.len() as u32);
            self.keep(block, form, &mut parts.pool);
        }
    }

    /// Appends the live entries of a block.
    fn keep(&mut self, live: Block, form: Form, pool: &mut ChunkPool) {
        self.earliest = live.iter().fold(self.earliest, |earliest, entry| {
            earliest.min(entry.deadline())
        });
        pool.extend(&mut self.entries, &live, form);
        pool.done(live);
    }

    #[inline]
    pub(super) fn forget_holes(&mut self, parts: &mut WheelParts) {
        parts.holes -= u64::from(std::mem::take(&mut self.holes));
    }

    /// Prepares the first step of a cascade. A compaction that goes on is over: the cascade
    /// examines all entries on their way.
    #[inline]
    pub(super) fn end_compaction(&mut self, start: u64, parts: &mut WheelParts) {
        self.forget_holes(parts);
        let left = std::mem::take(&mut self.to_examine);
        if left > 0 {
            self.earliest = start;
            parts.examined(left, 0);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32) -> Entry {
        Entry::new(30_000 + u64::from(cell), cell, 1)
    }

    /// A slot of which the first `dead` entries are dead.
    fn slot(entries: u32, dead: u32, parts: &mut WheelParts) -> Slot<()> {
        let mut slot = Slot::EMPTY;
        (0..entries).for_each(|cell| slot.push(entry(cell), Form::Narrow, &mut parts.pool));
        (0..dead).for_each(|cell| parts.tombstones.insert(entry(cell).tombstone()));
        slot.holes = dead;
        parts.holes += u64::from(dead);
        slot
    }

    #[test]
    fn is_compacted_when_more_than_half_is_dead() {
        for (entries, dead, compact) in [
            // A few holes are left, whatever their share.
            (32, 32, false),
            (33, 33, true),
            (200, 100, false),
            (200, 101, true),
            (COMPACTED_IN_STEPS, COMPACTED_IN_STEPS / 2, false),
            (COMPACTED_IN_STEPS, COMPACTED_IN_STEPS / 2 + 1, true),
            // A third, where it is done in steps.
            (COMPACTED_IN_STEPS + 2, COMPACTED_IN_STEPS / 3, false),
            (COMPACTED_IN_STEPS + 2, COMPACTED_IN_STEPS / 3 + 2, true),
        ] {
            let slot = slot(entries, dead, &mut WheelParts::new());
            assert_eq!(slot.is_to_be_compacted(), compact, "{dead} of {entries}");
            assert_eq!(slot.is_compacted_at_once(), entries <= COMPACTED_IN_STEPS);
        }
    }

    #[test]
    fn is_worth_a_compaction_in_a_quiet_from_an_eighth_on() {
        for (entries, dead, worth) in [
            (40, 32, false),
            (40, 33, true),
            (800, 100, false),
            (799, 100, true),
            (1_000, 300, true),
        ] {
            assert_eq!(
                slot(entries, dead, &mut WheelParts::new()).is_partly_dead(),
                worth,
                "{dead} of {entries}"
            );
        }
    }

    /// The cells of the slot's entries, in order.
    fn cells(slot: &Slot<()>, parts: &WheelParts) -> Vec<u32> {
        let mut cells = Vec::new();
        parts
            .pool
            .for_each(slot.entries, |entry| cells.push(entry.cell()));
        cells
    }

    #[test]
    fn a_compaction_keeps_live_entries_in_order() {
        for (entries, dead) in [
            (100, 40),
            (63, 63),
            (64, 1),
            (5_000, 2_501),
            (5_000, 0),
            (0, 0),
        ] {
            let parts = &mut WheelParts::new();
            let mut slot = slot(entries, dead, parts);
            // Neither the overestimate of the dead nor the budget matters.
            slot.holes += 7;
            parts.holes += 7;
            slot.compact(0, parts);
            assert!(cells(&slot, parts).into_iter().eq(dead..entries));
            assert_eq!(
                (slot.len(), slot.holes, parts.holes, parts.compactions),
                (entries - dead, 0, 0, 1)
            );
            assert_eq!((parts.moved, parts.cascaded), (u64::from(entries), 0));
            assert_eq!(
                slot.earliest,
                if dead < entries {
                    entry(dead).deadline()
                } else {
                    u64::MAX
                }
            );
            assert_eq!(
                (slot.is_empty(), slot.is_large()),
                (dead == entries, entries - dead > LARGE_SLOT)
            );
        }
    }

    #[test]
    fn a_compaction_in_steps_ends_with_its_budget() {
        let parts = &mut WheelParts::new();
        let (entries, dead) = (COMPACTED_IN_STEPS + 1, COMPACTED_IN_STEPS / 2);
        let mut slot = slot(entries, dead, parts);
        for budget_end in [84u64, 168, 1_000] {
            slot.compact(budget_end, parts);
            let seen = budget_end.next_multiple_of(84);
            assert_eq!((parts.moved, slot.len()), (seen, entries - seen as u32));
            assert!(
                slot.is_large()
                    && slot.has_steps_left()
                    && slot.is_to_be_compacted()
                    && !slot.is_compacted_at_once()
            );
        }
        // An entry that comes meanwhile is not examined.
        slot.push(
            Entry::new(29_999, entries, 1),
            Form::Narrow,
            &mut parts.pool,
        );
        slot.compact(u64::MAX, parts);
        assert_eq!(
            (slot.len(), slot.holes, parts.holes, parts.compactions),
            (entries - dead + 1, 0, 0, 1)
        );
        assert!(slot.is_large() && !slot.is_to_be_compacted());
        assert_eq!(slot.earliest, 29_999);
    }
}
