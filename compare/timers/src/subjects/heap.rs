//! A binary heap: in a mutex, and one in each thread. A cancelled timer is flagged, and stays in
//! the heap until it is due.

use super::Producer;
use super::keeper::{Keeper, Pending};
use super::owned::{self, LoopTime};
use crate::ledger::{self, PERIODIC};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

pub(crate) struct Timer {
    due_ns: u64,
    payload: u64,
    cancelled: Arc<AtomicBool>,
}

impl Timer {
    fn new(due_ns: u64, payload: u64) -> Self {
        Self {
            due_ns,
            payload,
            cancelled: Arc::default(),
        }
    }
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
        self.push(Reverse(Timer::new(due_ns, due_ns | PERIODIC)));
    }

    fn arm(keeper: &Keeper<Self>, due_ns: u64, payload: u64) -> Self::Handle {
        let timer = Timer::new(due_ns, payload);
        let cancelled = timer.cancelled.clone();
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

/// The one of a thread.
pub(crate) struct Owner {
    timers: Timers,
    time: LoopTime,
}

impl owned::Owner for Owner {
    fn begin() -> Self {
        Self {
            timers: Timers::new(),
            time: LoopTime::begin(),
        }
    }
}

impl Producer for Owner {
    type Handle = Arc<AtomicBool>;

    fn arm(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.time.called();
        let timer = Timer::new(self.time.due_ns(delay, payload), payload);
        let cancelled = timer.cancelled.clone();
        self.timers.push(Reverse(timer));
        cancelled
    }

    fn cancel(&mut self, handle: Self::Handle) {
        // Ordering: Relaxed. See `pop`.
        handle.store(true, Relaxed);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        self.cancel(handle.clone());
        *handle = self.arm(delay, 0);
    }

    fn serve(&mut self) {
        while let Some(first_ns) = self.timers.first_ns() {
            thread::sleep(ledger::delay_until(first_ns));
            let fired = Pending::pop(&mut self.timers);
            fired.into_iter().for_each(ledger::fired);
        }
    }

    /// The next phase begins with a reading.
    fn settle(&mut self) {
        self.time.read();
    }
}
