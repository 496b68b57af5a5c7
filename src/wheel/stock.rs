//! Stock: what all slots of a wheel share: the pool of chunks, the graves, and the counts of work done.

use super::chunk::{Block, Chain, Pool};
use super::graves::Graves;
use super::rows::LEVELS;

/// Entries that are looked at by compactions of small slots between two calls of `advance`: at once, while they are in the processor's caches. What is more
/// than that waits for `advance`.
const AT_ONCE: u64 = 65_536;

pub(super) struct Stock {
    pub(super) pool: Pool,
    pub(super) graves: Graves,
    /// Entries in the slots of each level. What was cascaded ahead of time counts at the level where it is now.
    pub(super) levels: [u64; LEVELS],
    /// Tombstones that the slots count.
    pub(super) holes: u64,
    /// Times that a slot was compacted.
    pub(super) compactions: u64,
    /// Entries that were filed again at a lower level, or were dead by then.
    pub(super) cascaded: u64,
    /// Entries that were moved in all, by cascades and compactions.
    pub(super) moved: u64,
    /// When so many have been moved, no slot is compacted while a tombstone is taken in.
    at_once_end: u64,
}

impl Stock {
    pub(super) fn new() -> Self {
        Self {
            pool: Pool::new(),
            graves: Graves::default(),
            levels: [0; LEVELS],
            holes: 0,
            compactions: 0,
            cascaded: 0,
            moved: 0,
            at_once_end: AT_ONCE,
        }
    }

    /// Where a budget of entries to move ends that begins now.
    pub(super) fn budget_end(&self, budget: u64) -> u64 {
        self.moved.saturating_add(budget)
    }

    /// Lets small slots be compacted at once again.
    pub(super) fn renew_at_once(&mut self) {
        self.at_once_end = self.budget_end(AT_ONCE);
    }

    /// Whether a slot is to be compacted while a tombstone is taken in, or later.
    pub(super) fn compacts_at_once(&self, small: bool) -> bool {
        small && self.moved < self.at_once_end
    }

    /// Takes the first chunk of a chain that is compacted or cascaded, and the dead out of it.
    pub(super) fn pop_living(&mut self, entries: &mut Chain) -> Option<Block> {
        let mut block = self.pool.pop(entries)?;
        self.moved += block.len() as u64;
        self.drop_dead(&mut block);
        Some(block)
    }

    /// Takes the dead out of a block.
    pub(super) fn drop_dead(&mut self, block: &mut Block) {
        if !self.graves.is_empty() {
            block.iter().for_each(|&entry| self.graves.prefetch(entry));
            block.retain(|entry| !self.graves.takes(entry));
        }
    }

    /// The same of one that is cascaded.
    pub(super) fn pop_cascaded(&mut self, entries: &mut Chain) -> Option<Block> {
        let moved = self.moved;
        let block = self.pop_living(entries);
        self.cascaded += self.moved - moved;
        block
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_is_compacted_at_once() {
        let mut stock = Stock::new();
        stock.moved = AT_ONCE - 1;
        assert!(stock.compacts_at_once(true) && !stock.compacts_at_once(false));
        stock.moved = AT_ONCE;
        assert!(!stock.compacts_at_once(true));
        stock.renew_at_once();
        assert!(stock.compacts_at_once(true));
    }
}
