//! nexus-timer's unbounded wheel: 7 levels of 64 slots, each level 8 times as coarse as the one
//! below; its default tick is a millisecond.
//!
//! It takes instants: each call pays for making one of a tick. The memory of a timer that has fired
//! stays until its handle is given back; here nobody does that, so it is in no figure.

use super::Subject;
use nexus_timer::{TimerHandle, Wheel};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Timers for which memory is taken at a time.
const CHUNK: usize = 4_096;

pub(crate) struct Nexus {
    wheel: Wheel<u64>,
    start: Instant,
    due: Vec<u64>,
}

impl Nexus {
    fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl Subject for Nexus {
    /// Handles may not be dropped, but those of timers that have fired are left.
    type Handle = ManuallyDrop<TimerHandle<u64>>;

    fn new() -> Self {
        let start = Instant::now();
        Self {
            wheel: Wheel::unbounded(CHUNK, start),
            start,
            due: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> Self::Handle {
        ManuallyDrop::new(self.wheel.schedule(self.instant(deadline), key))
    }

    fn cancel(&mut self, handle: Self::Handle) {
        self.wheel.cancel(ManuallyDrop::into_inner(handle));
    }

    fn advance(&mut self, now: u64, fire: impl FnMut(u64)) {
        self.wheel
            .poll_and_rebalance(self.instant(now), &mut self.due);
        self.due.drain(..).for_each(fire);
    }
}
