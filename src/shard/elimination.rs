//! Elimination table: during a drain, an insert waits here for its tombstone.
//!
//! A request that is answered quickly arms and cancels a timeout before the shard's next drain. Its
//! insert and its tombstone meet here, and never reach the wheel. (Elimination: Hendler et al.)
//!
//! The table is direct-mapped by cell. It is small enough for the processor's inner caches. A new
//! insert sends the insert that has its place on to the wheel. Empty between two drains.

use crate::entry::Entry;

/// Places: 32 KiB. Enough for the requests that some threads have in flight.
const PLACES: usize = 2048;

const FREE: Entry = Entry::NONE;

pub(super) struct EliminationTable {
    places: Box<[Entry; PLACES]>,
    taken: [u64; PLACES / 64],
    eliminated: u64,
}

impl EliminationTable {
    pub(super) fn new() -> Self {
        Self {
            places: Box::new([FREE; PLACES]),
            taken: [0; PLACES / 64],
            eliminated: 0,
        }
    }

    /// Accepts a message. Gives `next` the entry or tombstone that has to go on to the wheel.
    #[inline(always)]
    pub(super) fn offer(&mut self, message: Entry, next: impl FnOnce(Entry)) {
        let position = message.cell() as usize % PLACES;
        let (word, bit) = (position / 64, 1 << (position % 64));
        if !message.is_tombstone() {
            let before = std::mem::replace(&mut self.places[position], message);
            self.taken[word] |= bit;
            if before != FREE {
                next(before);
            }
        } else if self.places[position].is_cancelled_by(message) {
            self.places[position] = FREE;
            self.taken[word] &= !bit;
            self.eliminated += 1;
        } else {
            next(message);
        }
    }

    /// Gives `next` all inserts that are left.
    pub(super) fn flush(&mut self, mut next: impl FnMut(Entry)) {
        for word in 0..self.taken.len() {
            let mut bits = std::mem::take(&mut self.taken[word]);
            while bits != 0 {
                let position = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                next(std::mem::replace(&mut self.places[position], FREE));
            }
        }
    }

    /// Pairs that have met since the last call.
    pub(super) fn take_eliminated(&mut self) -> u64 {
        std::mem::take(&mut self.eliminated)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_eliminated_and_all_else_goes_on() {
        let mut elimination = EliminationTable::new();
        let mut filed = Vec::new();
        let insert = |cell| Entry::new(30_000, cell, u64::from(cell) + 1);
        // A window of 100: a tombstone comes 100 inserts after its insert. The last 100 inserts
        // have none.
        for cell in 0..10_000 {
            elimination.offer(insert(cell), |entry| filed.push(entry));
            if let Some(old) = cell.checked_sub(100) {
                elimination.offer(insert(old).tombstone(), |entry| filed.push(entry));
            }
        }
        assert_eq!((filed.len(), elimination.take_eliminated()), (0, 9_900));
        elimination.flush(|entry| filed.push(entry));
        assert_eq!(filed.len(), 100);
        assert!((9_900..10_000).all(|cell| filed.contains(&insert(cell))));
        // Two cells of one place, and a tombstone whose insert has gone on.
        filed.clear();
        elimination.offer(insert(1), |entry| filed.push(entry));
        elimination.offer(insert(1 + PLACES as u32), |entry| filed.push(entry));
        elimination.offer(insert(1).tombstone(), |entry| filed.push(entry));
        elimination.flush(|entry| filed.push(entry));
        assert_eq!(
            filed,
            [insert(1), insert(1).tombstone(), insert(1 + PLACES as u32)]
        );
        elimination.flush(|_| unreachable!("it is empty"));
    }
}
