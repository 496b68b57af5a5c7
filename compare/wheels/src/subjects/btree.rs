//! A B-tree ordered by deadline, std's. A cancelled timer is taken out at once.

use super::Subject;
use std::collections::BTreeMap;

/// Deadline, and the number of the insert, which tells timers of one deadline apart.
type Place = (u64, u64);

pub(crate) struct Btree {
    keys: BTreeMap<Place, u64>,
    inserts: u64,
}

impl Subject for Btree {
    type Handle = Place;

    fn new() -> Self {
        Self {
            keys: BTreeMap::new(),
            inserts: 0,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> Place {
        self.inserts += 1;
        let place = (deadline, self.inserts);
        self.keys.insert(place, key);
        place
    }

    fn cancel(&mut self, handle: Place) {
        self.keys.remove(&handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while let Some(first) = self.keys.first_entry().filter(|first| first.key().0 <= now) {
            fire(first.remove());
        }
    }
}
