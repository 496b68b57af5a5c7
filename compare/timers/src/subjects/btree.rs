//! A B-tree in a mutex, ordered by deadline. A cancelled timer is taken out at once.

use super::keeper::{Keeper, Pending};
use crate::ledger::PERIODIC;
use std::collections::BTreeMap;

/// Deadline, and a number that tells timers of one deadline apart.
type Key = (u64, u64);

#[derive(Default)]
pub(crate) struct Timers {
    by_deadline: BTreeMap<Key, u64>,
    armed: u64,
}

impl Timers {
    fn insert(&mut self, due_ns: u64, payload: u64) -> Key {
        self.armed += 1;
        let key = (due_ns, self.armed);
        self.by_deadline.insert(key, payload);
        key
    }
}

impl Pending for Timers {
    type Handle = Key;

    fn first_ns(&self) -> Option<u64> {
        let first = self.by_deadline.first_key_value();
        first.map(|(&(due_ns, _), _)| due_ns)
    }

    fn pop(&mut self) -> Option<u64> {
        self.by_deadline.pop_first().map(|(_, payload)| payload)
    }

    fn push_periodic(&mut self, due_ns: u64) {
        self.insert(due_ns, due_ns | PERIODIC);
    }

    fn arm(keeper: &Keeper<Self>, due_ns: u64, payload: u64) -> Key {
        keeper.change(|timers| timers.insert(due_ns, payload))
    }

    fn cancel(keeper: &Keeper<Self>, handle: &Key) {
        keeper.lock().by_deadline.remove(handle);
    }

    fn rearm(keeper: &Keeper<Self>, handle: &mut Key, due_ns: u64) {
        *handle = keeper.change(|timers| {
            let payload = timers.by_deadline.remove(handle).unwrap_or(0);
            timers.insert(due_ns, payload)
        });
    }
}
