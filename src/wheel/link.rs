//! Link: a place in a ring, of a slot, of a further list of a slot, or of a cell.

use super::slot::{ALL, FURTHER, SPLIT, SlotNumber};
use core::iter;

/// The link of the first cell. Before it come those of slots, then those of their further lists.
pub(super) const FIRST_CELL: u32 = (ALL + FURTHER * SPLIT.end.abs_diff(SPLIT.start)) as u32;

/// A slot's or a cell's place in a ring. A link is named by a number: first come those of the
/// slots, then those of their further lists, then those of the cells.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) before: u32,
    pub(super) next: u32,
}

impl Link {
    /// The ring of a list without timers.
    pub(super) const fn alone(list: u32) -> Self {
        Self {
            before: list,
            next: list,
        }
    }
}

/// The link of a cell.
#[inline]
pub(super) const fn link_of(cell: u32) -> u32 {
    FIRST_CELL + cell
}

/// The cell that has a link; `None` if a list has it.
#[inline]
pub(super) const fn cell_of(link: u32) -> Option<u32> {
    link.checked_sub(FIRST_CELL)
}

/// The link of one of the further lists of a slot that has some: which one, modulo their number.
#[inline]
pub(super) const fn further(slot: usize, which: u32) -> u32 {
    let list = which as usize % FURTHER;
    (ALL + list * (SPLIT.end - SPLIT.start) + slot - SPLIT.start) as u32
}

/// The links of all lists of a slot.
pub(super) fn lists(slot: SlotNumber) -> impl Iterator<Item = u32> {
    let further = (0..FURTHER as u32)
        .filter(move |_| SPLIT.contains(&slot.index()))
        .map(move |list| further(slot.index(), list));
    iter::once(slot.link()).chain(further)
}
