//! bitwheel: gears of 64 slots of `CAP` timers each, a tick of a millisecond, no cascades.
//!
//! A timer stays in the gear that its delay names, and fires when that gear's slot comes up: of a
//! delay of 4,096 ticks and more up to 4,095 ticks before its deadline, of 64 and more up to 63. So
//! it does less than the others. One that has fired so must not be cancelled: until its deadline
//! the crate takes it for one that stands. All memory is taken when it is made. Without room in its
//! slot a timer goes to a later one, then nowhere. It takes instants, as nexus-timer does.

use super::Subject;
use bitwheel::timer::{self, Timer, TimerHandle};
use std::time::{Duration, Instant};

/// Enough for delays of 64^3 ticks.
const GEARS: usize = 3;
const TICK_MS: u64 = 1;
const PROBES: usize = 3;

struct Key(u64);

impl Timer for Key {
    type Context = Vec<u64>;

    fn fire(&mut self, due: &mut Vec<u64>) {
        due.push(self.0);
    }
}

pub(crate) struct BitWheel<const CAP: usize> {
    wheel: Box<timer::BitWheel<Key, GEARS, TICK_MS, CAP, PROBES>>,
    start: Instant,
    due: Vec<u64>,
}

impl<const CAP: usize> BitWheel<CAP> {
    fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }
}

impl<const CAP: usize> Subject for BitWheel<CAP> {
    type Handle = TimerHandle;

    fn new() -> Self {
        let start = Instant::now();
        Self {
            wheel: timer::BitWheel::boxed_with_epoch(start),
            start,
            due: Vec::new(),
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> TimerHandle {
        let inserted = self.wheel.insert(self.instant(deadline), Key(key));
        inserted.unwrap_or_else(|_| panic!("no room in four slots of {CAP} timers"))
    }

    fn cancel(&mut self, handle: TimerHandle) {
        self.wheel.cancel(handle);
    }

    fn advance(&mut self, now: u64, fire: impl FnMut(u64)) {
        self.wheel.poll(self.instant(now), &mut self.due);
        self.due.drain(..).for_each(fire);
    }
}
