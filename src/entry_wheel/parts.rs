//! Wheel parts: what all slots of a wheel share. The pool of chunks, the tombstones, and the counts
//! of work.

use super::chunk::{Block, ChunkList, ChunkPool};
use super::place::LEVELS;
use super::tombstones::Tombstones;

/// A small slot is compacted when a tombstone comes, while the slot is in the processor's caches.
/// Between two calls of `advance` this moves at most this many entries, as far as inserts have paid
/// for it. Other slots wait for `advance`.
pub(super) const AT_ONCE: u64 = 16_384;

pub(super) struct WheelParts {
    pub(super) pool: ChunkPool,
    pub(super) tombstones: Tombstones,
    /// Entries in the slots of each level. An entry that was cascaded ahead of time counts at its
    /// new level.
    pub(super) levels: [u64; LEVELS],
    /// Holes of all slots.
    pub(super) holes: u64,
    /// Entries that compactions in steps have still to examine.
    pub(super) examining: u64,
    /// Holes that these compactions counted as they began, and have not dropped yet.
    pub(super) leaving: u64,
    /// Compactions that were begun.
    pub(super) compactions: u64,
    /// Entries that cascades have moved to a lower level, or dropped since they were dead.
    pub(super) cascaded: u64,
    /// Entries that cascades and compactions have moved or dropped.
    pub(super) moved: u64,
    /// Moves that inserts have paid for.
    pub(super) earned: u64,
    /// When `moved` reaches this, no slot is compacted when its tombstone comes.
    at_once_end: u64,
}

impl WheelParts {
    pub(super) fn new() -> Self {
        Self {
            pool: ChunkPool::new(),
            tombstones: Tombstones::default(),
            levels: [0; LEVELS],
            holes: 0,
            examining: 0,
            leaving: 0,
            compactions: 0,
            cascaded: 0,
            moved: 0,
            earned: 0,
            at_once_end: AT_ONCE,
        }
    }

    /// Notes that compactions have examined or given up this number of entries, and dropped some.
    pub(super) fn examined(&mut self, entries: u32, dropped: u32) {
        self.examining -= u64::from(entries);
        self.leaving = self
            .leaving
            .saturating_sub(dropped.into())
            .min(self.examining);
    }

    /// Whether slots may have dead entries whose tombstones are still needed. (While a slot is
    /// compacted in steps, it counts no holes for the dead entries that are still to come.)
    pub(super) fn has_dead(&self) -> bool {
        self.holes > 0 || self.examining > 0
    }

    /// What `moved` will be when a budget that begins now is used up.
    #[inline]
    pub(super) fn budget_end(&self, budget: u64) -> u64 {
        self.moved.saturating_add(budget)
    }

    /// Allows small slots to be compacted at once again.
    #[inline]
    pub(super) fn renew_at_once(&mut self) {
        self.at_once_end = self.budget_end(AT_ONCE);
    }

    /// Whether a slot is compacted when its tombstone comes. If not, it waits for `advance`.
    pub(super) fn compacts_at_once(&self, small: bool) -> bool {
        small && self.earned > 0 && self.moved < self.at_once_end
    }

    /// Notes that moves were made that inserts have paid for.
    #[inline]
    pub(super) fn spend(&mut self, moves: u64) {
        self.earned = self.earned.saturating_sub(moves);
    }

    /// Takes the first chunk of a list out, and drops its dead entries. For cascades and
    /// compactions.
    #[inline]
    pub(super) fn pop_live(&mut self, entries: &mut ChunkList) -> Option<Block> {
        let mut block = self.pool.pop(entries)?;
        self.moved += block.len() as u64;
        self.drop_dead(&mut block);
        Some(block)
    }

    /// Drops the dead entries of a block.
    pub(super) fn drop_dead(&mut self, block: &mut Block) {
        if !self.tombstones.is_empty() {
            if self.tombstones.is_large() {
                block
                    .iter()
                    .for_each(|&entry| self.tombstones.prefetch(entry));
            }
            block.retain(|entry| !self.tombstones.is_dead(entry));
        }
    }

    /// `pop_live` for a cascade: counts the entries as cascaded too.
    #[inline]
    pub(super) fn pop_cascaded(&mut self, entries: &mut ChunkList) -> Option<Block> {
        let moved = self.moved;
        let block = self.pop_live(entries);
        self.cascaded += self.moved - moved;
        block
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_is_compacted_at_once() {
        let mut parts = WheelParts::new();
        parts.moved = AT_ONCE - 1;
        assert!(!parts.compacts_at_once(true), "no insert has paid for it");
        parts.earned = 100;
        assert!(parts.compacts_at_once(true) && !parts.compacts_at_once(false));
        parts.moved = AT_ONCE;
        assert!(!parts.compacts_at_once(true));
        parts.renew_at_once();
        parts.spend(99);
        assert!(parts.compacts_at_once(true));
        parts.spend(99);
        assert!(!parts.compacts_at_once(true));
    }
}
