//! A binary heap in a mutex. A cancelled timer is flagged, and stays in the heap until it is due.

use super::keeper::{Keeper, Pending};
use crate::ledger::PERIODIC;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) struct Timer {
    due_ns: u64,
    payload: u64,
    cancelled: Arc<AtomicBool>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

pub(crate) type Timers = BinaryHeap<Reverse<Timer>>;

impl Pending for Timers {
    type Handle = Arc<AtomicBool>;

    fn first_ns(&self) -> Option<u64> {
        self.peek().map(|Reverse(timer)| timer.due_ns)
    }

    fn pop(&mut self) -> Option<u64> {
        let Reverse(timer) = self.pop()?;
        // Ordering: Relaxed. The flag publishes nothing; who cancels too late has cancelled too
        // late.
        (!timer.cancelled.load(Relaxed)).then_some(timer.payload)
    }

    fn push_periodic(&mut self, due_ns: u64) {
        self.push(Reverse(Timer {
            due_ns,
            payload: due_ns | PERIODIC,
            cancelled: Arc::default(),
        }));
    }

    fn arm(keeper: &Keeper<Self>, due_ns: u64, payload: u64) -> Self::Handle {
        let cancelled = Self::Handle::default();
        let timer = Timer {
            due_ns,
            payload,
            cancelled: cancelled.clone(),
        };
        keeper.change(|timers| timers.push(Reverse(timer)));
        cancelled
    }

    fn cancel(_: &Keeper<Self>, handle: &Self::Handle) {
        // Ordering: Relaxed. See `pop`.
        handle.store(true, Relaxed);
    }

    fn rearm(keeper: &Keeper<Self>, handle: &mut Self::Handle, due_ns: u64) {
        Self::cancel(keeper, handle);
        *handle = Self::arm(keeper, due_ns, 0);
    }
}
