//! Levels: the slots of all levels around one point in time, and the sets of slots that need work.
//!
//! A large slot is cascaded ahead of time, in steps. Meanwhile it has levels of its own, whose time
//! is the slot's first tick (`Slot::ahead`). The slots of these levels are called the *slots ahead*
//! of the large slot.

use super::chunk::Form;
use super::marks::Marks;
use super::parts::WheelParts;
use super::place::{LEVELS, Place, SLOTS};
use super::slot::{LARGE_SLOT, Slot};
use super::slot_set::SlotSet;
use crate::entry::Entry;

pub(super) struct Levels {
    pub(super) now: u64,
    slots: Box<[[Slot<Levels>; SLOTS]; LEVELS]>,
    /// Slots that are not empty.
    occupied: [SlotSet; LEVELS],
    /// Slots that are cascaded in steps.
    large: Marks,
    /// Slots that wait for a compaction.
    to_be_compacted: Marks,
}

impl Levels {
    /// Empty levels around the tick `now`.
    pub(super) fn new(now: u64) -> Self {
        let mut slots = Vec::with_capacity(LEVELS);
        for _ in 0..LEVELS {
            slots.push([Slot::EMPTY; SLOTS]);
        }
        Self {
            now,
            slots: slots
                .into_boxed_slice()
                .try_into()
                .unwrap_or_else(|_| unreachable!("LEVELS of them")),
            occupied: [SlotSet::default(); LEVELS],
            large: Marks::default(),
            to_be_compacted: Marks::default(),
        }
    }

    /// The place of a deadline at or after `now`.
    #[inline]
    fn place(&self, deadline: u64) -> Place {
        Place::of(deadline, self.now)
    }

    /// Puts an entry into its slot. Its deadline is not before `now`.
    // (`always`: otherwise its callers would have to pass all arguments on, some of them in other
    // registers.)
    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry, parts: &mut WheelParts) {
        let Place { level, index } = self.place(entry.deadline());
        parts.levels[level] += 1;
        self.occupied[level].set(index);
        let slot = &mut self.slots[level][index];
        if slot.len() == LARGE_SLOT {
            self.large.set(Place { level, index });
        }
        // (This comes last. So it can be a tail call, for which no registers are saved.)
        slot.push(
            entry,
            Form::of_span(Place::span_bits(level)),
            &mut parts.pool,
        );
    }

    /// Counts a hole in the slot of a deadline, because a tombstone came for an entry there. If the
    /// slot is now mostly dead, compacts it or marks it for a compaction.
    #[inline]
    pub(super) fn count_hole(&mut self, deadline: u64, parts: &mut WheelParts) {
        let place = self.place(deadline);
        let slot = &mut self.slots[place.level][place.index];
        if slot.ahead.is_some() {
            // (This comes last. So it can be a tail call, for which no registers are saved.)
            self.count_hole_ahead(place, deadline, parts);
        } else if !slot.is_empty() {
            slot.holes += 1;
            parts.holes += 1;
            if slot.is_to_be_compacted() {
                self.compact_soon(place, parts);
            }
        }
    }

    /// Counts a hole in a slot that is being cascaded: in one of its slots ahead, even if the entry
    /// was not moved there yet. The cascade drops dead entries as it moves them.
    #[cold]
    #[inline(never)]
    fn count_hole_ahead(&mut self, place: Place, deadline: u64, parts: &mut WheelParts) {
        if let Some(ahead) = &mut self.slots[place.level][place.index].ahead {
            ahead.count_hole(deadline, parts);
            if ahead.first_to_be_compacted().is_some() {
                self.to_be_compacted.set(place);
            }
        }
    }

    #[inline]
    pub(super) fn slot(&self, place: Place) -> &Slot<Self> {
        &self.slots[place.level][place.index]
    }

    /// Compacts a slot that is mostly dead. This is done now if the slot is small, inserts have
    /// paid for it, and not too many entries were moved in this way since the last `advance`.
    /// Otherwise the slot is marked, and compacted later.
    #[cold]
    fn compact_soon(&mut self, place: Place, parts: &mut WheelParts) {
        if parts.compacts_at_once(self.slot(place).is_compacted_at_once()) {
            let begin = parts.moved;
            self.compact(place, u64::MAX, parts);
            parts.spend(parts.moved - begin);
        } else {
            self.to_be_compacted.set(place);
        }
    }

    /// Compacts a slot. In a large slot this stops when `budget_end` entries have been moved, and a
    /// later call does the rest.
    pub(super) fn compact(&mut self, place: Place, budget_end: u64, parts: &mut WheelParts) {
        if self.slot(place).ahead.is_some() {
            return self.compact_ahead(place, budget_end, parts);
        }
        self.update(place, parts, |slot, _, parts| {
            slot.compact(budget_end, parts)
        });
        if !is_waiting(self.slot(place)) {
            self.to_be_compacted.clear(place);
        }
    }

    /// Compacts the slots ahead of a slot that is being cascaded. The cascade goes on first, to its
    /// end if the budget allows, because the slots ahead also count the holes of entries that have
    /// not been moved.
    fn compact_ahead(&mut self, place: Place, budget_end: u64, parts: &mut WheelParts) {
        self.cascade(place, 0, budget_end, parts);
        if !self.slot(place).has_steps_left()
            && let Some(ahead) = &mut self.slots[place.level][place.index].ahead
        {
            ahead.compact_marked(budget_end, parts);
            if ahead.first_to_be_compacted().is_none() {
                self.to_be_compacted.clear(place);
            }
        }
    }

    /// Compacts the slots that wait for it, until `budget_end` entries have been moved.
    pub(super) fn compact_marked(&mut self, budget_end: u64, parts: &mut WheelParts) {
        while parts.moved < budget_end
            && let Some(place) = self.first_to_be_compacted()
        {
            self.compact(place, budget_end, parts);
        }
    }

    /// Marks the slots for which `is_marked` holds for a compaction. If a slot is being cascaded,
    /// also marks such slots among its slots ahead. Checks every slot that is not empty.
    pub(super) fn mark(&mut self, is_marked: fn(&Slot<Self>) -> bool) {
        for (level, slots) in self.slots.iter_mut().enumerate() {
            for index in self.occupied[level].iter() {
                let slot = &mut slots[index];
                if let Some(ahead) = &mut slot.ahead {
                    ahead.mark(is_marked);
                }
                if is_marked(slot) || slot.has_entries_behind() || is_waiting(slot) {
                    self.to_be_compacted.set(Place { level, index });
                }
            }
        }
    }

    /// Calls `work` with a slot and its start. `work` may move entries out of the slot, so the
    /// counts and the sets are corrected afterwards.
    pub(super) fn update(
        &mut self,
        place @ Place { level, index }: Place,
        parts: &mut WheelParts,
        work: impl FnOnce(&mut Slot<Self>, u64, &mut WheelParts),
    ) {
        let start = self.start(place);
        let slot = &mut self.slots[level][index];
        let before = slot.len();
        work(slot, start, parts);
        parts.levels[level] -= u64::from(before - slot.len());
        if slot.is_empty() {
            slot.forget_holes(parts);
            self.occupied[level].clear(index);
        }
        if !slot.is_large() {
            self.large.clear(place);
        }
    }

    /// The first occupied slot. Lower levels come first, because they hold the near future.
    #[inline]
    pub(super) fn first(&self) -> Option<(Place, &Slot<Self>)> {
        for level in 0..LEVELS {
            if let Some(index) = self.occupied[level].first() {
                return Some((Place { level, index }, &self.slots[level][index]));
            }
        }
        None
    }

    /// The first large slot that has to be cascaded. Slots of level 0 are never cascaded.
    #[inline]
    pub(super) fn first_large(&self) -> Option<Place> {
        self.large.first(1)
    }

    /// The first slot that is to be compacted.
    #[inline]
    pub(super) fn first_to_be_compacted(&self) -> Option<Place> {
        self.to_be_compacted.first(0)
    }

    /// The first tick of a slot in the future.
    #[inline]
    pub(super) fn start(&self, place: Place) -> u64 {
        place.start(self.now)
    }

    /// Moves time to the start of a slot and takes the slot out. Also returns whether there may be
    /// tombstones for some of its entries.
    #[inline]
    pub(super) fn enter(
        &mut self,
        place @ Place { level, index }: Place,
        parts: &mut WheelParts,
    ) -> (Slot<Self>, bool) {
        self.now = self.start(place);
        self.occupied[level].clear(index);
        self.large.clear(place);
        self.to_be_compacted.clear(place);
        let mut slot = std::mem::replace(&mut self.slots[level][index], Slot::EMPTY);
        let has_dead = slot.holes > 0 || slot.is_in_compaction();
        slot.end_compaction(self.now, parts);
        parts.levels[level] -= u64::from(slot.len());
        (slot, has_dead)
    }

    /// Takes over the slots of `levels` on the levels below `level`. Those of `self` are empty.
    pub(super) fn adopt(&mut self, mut levels: Self, level: usize) {
        self.slots[..level].swap_with_slice(&mut levels.slots[..level]);
        self.occupied[..level].copy_from_slice(&levels.occupied[..level]);
        self.large.adopt(&levels.large, level);
        self.to_be_compacted.adopt(&levels.to_be_compacted, level);
    }

    /// Entries in all slots, and those that were cascaded ahead of time.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.slots
            .iter()
            .flatten()
            .map(|slot| slot.len() as usize + slot.ahead.as_ref().map_or(0, |ahead| ahead.len()))
            .sum()
    }

    /// Checks counts and sets against the slots. Returns the holes that the slots count, and adds
    /// the entries of each level to `levels`, and those that compactions have still to examine to
    /// `examining`.
    #[cfg(all(test, not(loom)))]
    pub(super) fn check(
        &self,
        pool: &super::chunk::ChunkPool,
        levels: &mut [u64; LEVELS],
        examining: &mut u64,
    ) -> u64 {
        let mut holes = 0;
        for (level, slots) in self.slots.iter().enumerate() {
            for (index, slot) in slots.iter().enumerate() {
                let is_in = |marks: &Marks| marks.contains(Place { level, index });
                let (mut entries, mut earliest) = (0, u64::MAX);
                pool.for_each(slot.entries, |entry| {
                    entries += 1;
                    earliest = earliest.min(entry.deadline());
                });
                assert_eq!(entries, slot.len());
                levels[level] += u64::from(entries);
                assert!(slot.is_large() || slot.earliest <= earliest);
                assert_eq!(self.occupied[level].contains(index), !slot.is_empty());
                assert_eq!(is_in(&self.large), slot.is_large());
                // An insert may take a slot beyond `COMPACTED_IN_STEPS`. From then on it is
                // compacted when a third is dead, but only the next tombstone marks it. So only
                // more than half is checked here.
                assert!(
                    is_in(&self.to_be_compacted) || !slot.is_in_compaction() && !slot.has_holes(2)
                );
                assert!(is_in(&self.to_be_compacted) || slot.ahead.is_none() || !is_waiting(slot));
                assert!(slot.holes == 0 || !slot.is_empty());
                *examining += slot.examining();
                holes += u64::from(slot.holes)
                    + slot
                        .ahead
                        .as_ref()
                        .map_or(0, |ahead| ahead.check(pool, levels, examining));
            }
        }
        holes
    }
}

/// Whether a compaction of the slot has more to do. If the slot is being cascaded: whether one of
/// its slots ahead does.
fn is_waiting(slot: &Slot<Levels>) -> bool {
    match &slot.ahead {
        Some(ahead) => ahead.first_to_be_compacted().is_some(),
        None => slot.is_to_be_compacted(),
    }
}
