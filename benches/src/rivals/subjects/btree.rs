//! A B-tree in a mutex, ordered by deadline. A cancelled timer is taken out at once.

use super::keeper::{Keeper, Pending};
use super::{Producer, Subject};
use crate::book::{self, PERIODIC};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    fn first_ns(&self) -> Option<u64> {
        self.by_deadline.first_key_value().map(|(&(due_ns, _), _)| due_ns)
    }

    fn pop(&mut self) -> Option<u64> {
        self.by_deadline.pop_first().map(|(_, payload)| payload)
    }

    fn push_periodic(&mut self, due_ns: u64) {
        self.insert(due_ns, due_ns | PERIODIC);
    }
}

pub(crate) struct Btree(Arc<Keeper<Timers>>);

pub(crate) struct BtreeProducer(Arc<Keeper<Timers>>);

impl Subject for Btree {
    type Producer = BtreeProducer;

    fn start() -> Self {
        Self(Keeper::start())
    }

    fn within(&self, work: impl FnOnce(&mut BtreeProducer)) {
        work(&mut BtreeProducer(self.0.clone()));
    }
}

impl Producer for BtreeProducer {
    type Handle = Key;

    fn arm(&mut self, delay: Duration, payload: u64) -> Key {
        let due_ns = book::now_ns() + delay.as_nanos() as u64;
        self.0.change(|timers| timers.insert(due_ns, payload))
    }

    fn cancel(&mut self, handle: Key) {
        self.0.lock().by_deadline.remove(&handle);
    }

    fn rearm(&mut self, handle: &mut Key, delay: Duration) {
        let due_ns = book::now_ns() + delay.as_nanos() as u64;
        *handle = self.0.change(|timers| {
            let payload = timers.by_deadline.remove(handle).unwrap_or(0);
            timers.insert(due_ns, payload)
        });
    }

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        self.0.change(|timers| timers.push_periodic(due_ns));
        Ok(())
    }
}
