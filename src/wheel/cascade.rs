//! Cascade: moves the timers of a slot that time has entered to the slots of their deadlines.

use super::Wheel;
use super::levels::SlotLists;
use super::slot::SlotNumber;

/// Cells whose numbers differ by less lie side by side.
const NEAR: u32 = 64;

/// How the cells of a slot lie in memory.
#[derive(Default)]
struct Layout {
    cells: usize,
    /// Cells that came first in their list, and lie near one of the two cells that did so before.
    near: usize,
}

/// The two cells that came first in a list before.
#[derive(Clone, Copy, Default)]
struct Former([u32; 2]);

impl Former {
    /// Whether a cell that comes first now lies near them. (Two: a list that came from a list that
    /// was read from both ends has in turn a cell of the one end and of the other. After two such
    /// readings it has four streams, which are taken for scattered.)
    #[inline]
    fn is_near(&mut self, cell: u32) -> bool {
        let is_near = self.0.iter().any(|former| former.abs_diff(cell) < NEAR);
        self.0 = [cell, self.0[0]];
        is_near
    }
}

impl<K> Wheel<K> {
    /// Moves the timers of a slot to the slots of their deadlines. The next cell of a list is known
    /// only when the present one was loaded. So the list is read from both ends, by two loads at a
    /// time.
    #[inline(never)]
    pub(super) fn cascade(&mut self, slot: SlotNumber) {
        if self.levels.are_many(self.nodes.len()) {
            return self.cascade_among_many(slot);
        }
        let mut ends = self.levels.take_list(slot.link());
        while let Some(two) = ends {
            ends = self.levels.between(two);
            self.file(two, SlotLists::put_entered);
        }
    }

    /// The same as `cascade`, if further lists may have cells.
    #[inline(never)]
    fn cascade_among_many(&mut self, slot: SlotNumber) {
        let Layout { cells, near } = match self.levels.only_list(slot) {
            Some(list) => self.cascade_list(list),
            None => self.cascade_lists(slot),
        };
        // (Two at a time are taken out of a list: half of them come first in it.)
        let are_scattered = near < cells / 4;
        self.levels
            .entered(slot, cells, are_scattered, self.nodes.len());
    }

    /// `cascade`, of a list.
    #[inline]
    fn cascade_list(&mut self, list: u32) -> Layout {
        let (mut layout, mut former) = (Layout::default(), Former::default());
        let mut ends = self.levels.take_list(list);
        while let Some(two) = ends {
            layout.near += usize::from(former.is_near(two.0));
            ends = self.levels.between(two);
            layout.cells += self.file(two, SlotLists::put_entered_among_many);
        }
        layout
    }

    /// `cascade`, of several lists: in turn, each from both ends. What comes next in one is fetched
    /// while the others have their turn, if it does not lie near.
    #[inline(never)]
    fn cascade_lists(&mut self, slot: SlotNumber) -> Layout {
        let mut layout = Layout::default();
        let mut lists = self
            .levels
            .take_all(slot)
            .map(|ends| (ends, Former::default()));
        while lists.iter().any(|(ends, _)| ends.is_some()) {
            for (ends, former) in &mut lists {
                let Some(two) = *ends else {
                    continue;
                };
                *ends = self.levels.between(two);
                if let Some((first, last)) = *ends {
                    if former.is_near(first) {
                        layout.near += 1;
                    } else {
                        self.prefetch(first);
                        self.prefetch(last);
                    }
                }
                layout.cells += self.file(two, SlotLists::put_entered_among_many);
            }
        }
        layout
    }

    /// Puts two cells that are in no list, or one if they are the same, into the slots of their
    /// deadlines, as `put` does. Returns how many they are.
    #[inline]
    fn file(
        &mut self,
        (first, last): (u32, u32),
        put: impl Fn(&mut SlotLists, u32, u64, usize),
    ) -> usize {
        let timers = self.nodes.len();
        let mut file = |cell| {
            if let Some(deadline) = self.nodes.deadline(cell) {
                put(&mut self.levels, cell, deadline, timers);
            }
        };
        file(first);
        if first == last {
            return 1;
        }
        file(last);
        2
    }
}
