//! A binary heap in a mutex. A cancelled timer is flagged, and stays in the heap until it is due.

use super::keeper::{Keeper, Pending};
use super::{Producer, Subject};
use crate::book::{self, PERIODIC};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

struct Timer {
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
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

type Timers = BinaryHeap<Reverse<Timer>>;

impl Pending for Timers {
    fn first_ns(&self) -> Option<u64> {
        self.peek().map(|Reverse(timer)| timer.due_ns)
    }

    fn pop(&mut self) -> Option<u64> {
        let Reverse(timer) = self.pop()?;
        // Ordering: Relaxed. The flag publishes nothing; who cancels too late has cancelled too late.
        (!timer.cancelled.load(Relaxed)).then_some(timer.payload)
    }

    fn push_periodic(&mut self, due_ns: u64) {
        self.push(Reverse(Timer { due_ns, payload: due_ns | PERIODIC, cancelled: Arc::default() }));
    }
}

pub(crate) struct Heap(Arc<Keeper<Timers>>);

pub(crate) struct HeapProducer(Arc<Keeper<Timers>>);

impl Subject for Heap {
    type Producer = HeapProducer;

    fn start() -> Self {
        Self(Keeper::start())
    }

    fn within(&self, work: impl FnOnce(&mut HeapProducer)) {
        work(&mut HeapProducer(self.0.clone()));
    }
}

impl Producer for HeapProducer {
    type Handle = Arc<AtomicBool>;

    fn arm(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        let cancelled = Arc::new(AtomicBool::new(false));
        let due_ns = book::now_ns() + delay.as_nanos() as u64;
        let timer = Timer { due_ns, payload, cancelled: cancelled.clone() };
        self.0.change(|timers| timers.push(Reverse(timer)));
        cancelled
    }

    fn cancel(&mut self, handle: Self::Handle) {
        // Ordering: Relaxed. See `pop`.
        handle.store(true, Relaxed);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        // Ordering: Relaxed. See `pop`.
        handle.store(true, Relaxed);
        *handle = self.arm(delay, 0);
    }

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        self.0.change(|timers| timers.push_periodic(due_ns));
        Ok(())
    }
}
