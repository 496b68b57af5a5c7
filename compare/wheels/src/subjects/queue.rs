//! wheelwork's `future::DelayQueue` with one owner, under a clock that stands still but for
//! `advance`. `delay_queue.rs` has tokio-util's.
//!
//! When time moves on, the service's clock is moved, which takes the turns that wake the queue's
//! task, and the queue is polled until it has nothing.

use super::Subject;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wheelwork::future::{DelayQueue, Key, Timers};
use wheelwork::{ManualClock, TimerService};

pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    start: Instant,
    now: u64,
    clock: ManualClock,
}

impl Queue {
    fn at(&self, deadline: u64) -> Instant {
        self.start + Duration::from_millis(deadline)
    }
}

impl Subject for Queue {
    type Handle = Key;

    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = TimerService::builder().shards(1).clock(clock.clone());
        let timers = Timers::start(builder).expect("the settings are right");
        Self {
            queue: timers.delay_queue(),
            start: clock.now(),
            now: 0,
            clock,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> Key {
        self.queue.insert_at(key, self.at(deadline))
    }

    fn cancel(&mut self, handle: Key) {
        self.queue.remove(handle);
    }

    fn rearm(&mut self, handle: Key, deadline: u64, _: u64) -> Key {
        self.queue.reset_at(handle, self.at(deadline));
        handle
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        self.clock.advance(Duration::from_millis(now - self.now));
        self.now = now;
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            fire(expired.into_inner());
        }
    }
}
