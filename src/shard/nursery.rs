//! Nursery: where inserts wait during a drain for a tombstone that comes in the same drain.
//!
//! The timeout of a request that was answered quickly never reaches the wheel: its insert and its tombstone annihilate here. A direct-mapped
//! table by cell, small enough for the processor's inner caches; a newcomer sends the insert that it finds in its place on to the wheel.

use crate::entry::Entry;

/// Places: 32 KiB. Enough for the requests in flight of some threads.
const PLACES: usize = 2048;

const FREE: Entry = Entry::NONE;

pub(super) struct Nursery {
    places: Box<[Entry; PLACES]>,
    taken: [u64; PLACES / 64],
    annihilated: u64,
}

impl Nursery {
    pub(super) fn new() -> Self {
        Self { places: Box::new([FREE; PLACES]), taken: [0; PLACES / 64], annihilated: 0 }
    }

    /// Takes a message in; gives `file` what has to go on to the wheel for it.
    #[inline]
    pub(super) fn pass(&mut self, message: Entry, file: impl FnOnce(Entry)) {
        let place = message.cell() as usize % PLACES;
        let (word, bit) = (place / 64, 1 << (place % 64));
        if !message.is_tombstone() {
            let before = std::mem::replace(&mut self.places[place], message);
            self.taken[word] |= bit;
            if before != FREE {
                file(before);
            }
        } else if self.places[place].is_buried_by(message) {
            self.places[place] = FREE;
            self.taken[word] &= !bit;
            self.annihilated += 1;
        } else {
            file(message);
        }
    }

    /// Gives `file` all that is left.
    pub(super) fn leave(&mut self, mut file: impl FnMut(Entry)) {
        for word in 0..self.taken.len() {
            let mut bits = std::mem::take(&mut self.taken[word]);
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                file(std::mem::replace(&mut self.places[place], FREE));
            }
        }
    }

    /// Pairs that met, since the last call.
    pub(super) fn take_annihilated(&mut self) -> u64 {
        std::mem::take(&mut self.annihilated)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pairs_annihilate_and_all_else_goes_on() {
        let mut nursery = Nursery::new();
        let mut filed = Vec::new();
        let entry = |cell| Entry::new(30_000, cell, u64::from(cell) + 1);
        // A window of 100: every insert's tombstone comes 100 inserts later, but for the last 100.
        for cell in 0..10_000 {
            nursery.pass(entry(cell), |record| filed.push(record));
            if let Some(old) = cell.checked_sub(100) {
                nursery.pass(entry(old).tombstone(), |record| filed.push(record));
            }
        }
        assert_eq!((filed.len(), nursery.take_annihilated()), (0, 9_900));
        nursery.leave(|record| filed.push(record));
        assert_eq!(filed.len(), 100);
        assert!((9_900..10_000).all(|cell| filed.contains(&entry(cell))));
        // Two cells of one place, and a tombstone without its insert.
        filed.clear();
        nursery.pass(entry(1), |record| filed.push(record));
        nursery.pass(entry(1 + PLACES as u32), |record| filed.push(record));
        nursery.pass(entry(1).tombstone(), |record| filed.push(record));
        nursery.leave(|record| filed.push(record));
        assert_eq!(filed, [entry(1), entry(1).tombstone(), entry(1 + PLACES as u32)]);
        nursery.leave(|_| unreachable!("it is empty"));
    }
}
