//! Tasks that a test polls by hand, and futures on a clock that it moves.

#![allow(dead_code, reason = "each test uses a part")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wheelwork::future::Timers;
use wheelwork::{ManualClock, TimerService};

pub const MS: Duration = Duration::from_millis(1);

/// A waker that counts.
#[derive(Default)]
pub struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A task of the test's own.
pub struct Task {
    pub count: Arc<Count>,
    pub waker: Waker,
}

impl Task {
    pub fn new() -> Self {
        let count = Arc::new(Count::default());
        Self {
            waker: count.clone().into(),
            count,
        }
    }

    pub fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    pub fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    pub fn woken(&self) -> usize {
        self.count.0.load(SeqCst)
    }
}

/// A service of one shard, with a tick of 1 ms, on a clock of its own.
pub fn manual() -> (Timers, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder().shards(1);
    let builder = builder.tick(Duration::from_millis(1));
    (Timers::start(builder.clock(clock.clone())).unwrap(), clock)
}

/// Timers that were ever armed.
pub fn armed(timers: &Timers) -> u64 {
    timers.handle().stats().timers.armed
}
