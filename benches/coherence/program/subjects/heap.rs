//! A binary heap in a mutex. A cancelled timer is flagged, and stays in the heap until it is due.

use super::{Subject, TURN};
use std::cmp::{self, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wheelwork_coherence::Start;

type Flag = Arc<AtomicBool>;

#[derive(Default)]
pub(crate) struct Heap {
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    now_ns: AtomicU64,
}

struct Timer {
    due_ns: u64,
    is_cancelled: Flag,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

impl Heap {
    fn fire(&self) {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed. Nothing depends on the time.
        let now_ns = self.now_ns.load(Relaxed);
        while let Some(first) = timers.peek_mut()
            && first.0.due_ns <= now_ns
        {
            let Reverse(timer) = PeekMut::pop(first);
            // Ordering: Relaxed. The flag publishes nothing.
            black_box(timer.is_cancelled.load(Relaxed));
        }
    }
}

impl Subject for Heap {
    type Timer = Flag;
    type Entered = ();

    const IS_OPEN: bool = false;
    const DROP_CANCELS: bool = false;

    fn start(_: usize, _: usize) -> (&'static Self, Vec<Start>) {
        let heap: &'static Self = Box::leak(Box::default());
        let turns = || -> Box<dyn FnMut(usize)> { Box::new(|_| heap.fire()) };
        (heap, vec![Box::new(turns)])
    }

    fn enter(&'static self) {}

    fn pass(&self) {
        // Ordering: Relaxed. Nothing depends on the time.
        self.now_ns.fetch_add(TURN.as_nanos() as u64, Relaxed);
    }

    fn arm(&self, delay: Duration) -> Flag {
        let flag = Flag::default();
        // Ordering: Relaxed. Nothing depends on the time.
        let due_ns = self.now_ns.load(Relaxed) + delay.as_nanos() as u64;
        let timer = Timer {
            due_ns,
            is_cancelled: flag.clone(),
        };
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        timers.push(Reverse(timer));
        flag
    }

    fn cancel(&self, timer: Flag) {
        // Ordering: Relaxed. The flag publishes nothing.
        timer.store(true, Relaxed);
    }

    fn rearm(&self, timer: &mut Flag, delay: Duration) {
        self.cancel(timer.clone());
        *timer = self.arm(delay);
    }
}
