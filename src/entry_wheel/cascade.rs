//! Cascade: a large slot is moved to lower levels ahead of time, in steps.
//!
//! The lower levels are made as they will be at the slot's start. When time enters the slot, the
//! wheel takes them over (`Levels::adopt`).

use super::levels::Levels;
use super::parts::WheelParts;
use super::place::Place;
use super::slot::Slot;

impl Levels {
    /// Cascades a slot ahead of its start, until at most `rest` entries are left in it, or
    /// `budget_end` entries have been moved.
    pub(super) fn cascade(
        &mut self,
        place: Place,
        rest: u32,
        budget_end: u64,
        parts: &mut WheelParts,
    ) {
        self.update(place, parts, |slot, start, parts| {
            cascade(slot, start, rest, budget_end, parts)
        });
    }
}

/// Moves entries of a slot to the levels ahead, which stand at `start`, the slot's first tick.
fn cascade(
    slot: &mut Slot<Levels>,
    start: u64,
    rest: u32,
    budget_end: u64,
    parts: &mut WheelParts,
) {
    if slot.ahead.is_none() {
        slot.end_compaction(start, parts);
    }
    let ahead = slot
        .ahead
        .get_or_insert_with(|| Box::new(Levels::new(start)));
    while slot.entries.len() > rest && parts.moved < budget_end {
        let Some(block) = parts.pop_cascaded(&mut slot.entries) else {
            break;
        };
        block.iter().for_each(|&entry| ahead.insert(entry, parts));
        parts.pool.done(block);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::entry_wheel::chunk::Form;
    use crate::entry_wheel::slot::{COMPACTED_IN_STEPS, LARGE_SLOT};

    fn entry(cell: u32) -> Entry {
        Entry::new(30_000 + u64::from(cell), cell, 1)
    }

    /// A slot of which the first `dead` entries are dead.
    fn slot(entries: u32, dead: u32, parts: &mut WheelParts) -> Slot<Levels> {
        let mut slot = Slot::EMPTY;
        (0..entries).for_each(|cell| slot.push(entry(cell), Form::Narrow, &mut parts.pool));
        (0..dead).for_each(|cell| parts.tombstones.insert(entry(cell).tombstone()));
        slot.holes = dead;
        parts.holes += u64::from(dead);
        slot
    }

    #[test]
    fn a_cascade_ends_with_its_budget_and_drops_the_dead() {
        let parts = &mut WheelParts::new();
        let mut slot = slot(1_000, 100, parts);
        // A chunk holds 84.
        for (budget_end, left) in [(1, 916), (84, 916), (85, 832)] {
            cascade(&mut slot, 29_952, 0, budget_end, parts);
            assert_eq!(
                (parts.moved, parts.cascaded, slot.len()),
                (1_000 - left, 1_000 - left, left as u32)
            );
        }
        assert_eq!((slot.holes, parts.holes), (0, 0));
        for (rest, left) in [(748, 748), (747, 664)] {
            cascade(&mut slot, 29_952, rest, u64::MAX, parts);
            assert_eq!(slot.len(), left);
        }
        assert!(slot.has_steps_left() && !slot.is_large() && !slot.is_empty());
        cascade(&mut slot, 29_952, 0, u64::MAX, parts);
        assert!(
            !slot.has_steps_left() && !slot.is_empty(),
            "entries ahead are its own"
        );
        assert_eq!(slot.ahead.as_ref().map(|ahead| ahead.len()), Some(900));
        assert_eq!(
            slot.earliest,
            entry(0).deadline(),
            "not after the deadline of any"
        );
    }

    /// The cascade examines all entries.
    #[test]
    fn a_cascade_takes_over_from_a_compaction() {
        let parts = &mut WheelParts::new();
        let (entries, dead) = (COMPACTED_IN_STEPS + 1, COMPACTED_IN_STEPS / 2);
        let mut slot = slot(entries, dead, parts);
        slot.compact(1_000, parts);
        cascade(&mut slot, 29_952, LARGE_SLOT, u64::MAX, parts);
        assert!(slot.earliest == 29_952 && !slot.is_large() && slot.has_steps_left());
        cascade(&mut slot, 29_952, 0, u64::MAX, parts);
        assert_eq!(
            slot.ahead.as_ref().map(|ahead| ahead.len()),
            Some((entries - dead) as usize)
        );
    }
}
