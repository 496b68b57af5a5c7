//! tokio-util's `DelayQueue` with one owner, under a clock of tokio's that stands still but for
//! `advance`. `queue.rs` has wheelwork's.
//!
//! An insert or a cancel is the queue's call and no more. When time moves on, the runtime's clock
//! is moved, the runtime turns once so that the queue's own timer in it fires, and the queue is
//! polled until it has nothing: that is what a program pays that awaits it, but for the system call
//! to sleep.

use super::Subject;
use std::future::poll_fn;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    start: Instant,
    now: u64,
    _entered: EnterGuard<'static>,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime starts")
    })
}

impl Subject for Queue {
    type Handle = Key;

    fn new() -> Self {
        let entered = runtime().enter();
        Self {
            queue: DelayQueue::new(),
            start: Instant::now(),
            now: 0,
            _entered: entered,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> Key {
        self.queue
            .insert_at(key, self.start + Duration::from_millis(deadline))
    }

    fn cancel(&mut self, handle: Key) {
        self.queue.remove(&handle);
    }

    fn rearm(&mut self, handle: Key, deadline: u64, _: u64) -> Key {
        let deadline = self.start + Duration::from_millis(deadline);
        self.queue.reset_at(&handle, deadline);
        handle
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        let ticks = now - self.now;
        self.now = now;
        let queue = &mut self.queue;
        runtime().block_on(async {
            tokio::time::advance(Duration::from_millis(ticks)).await;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    fire(expired.into_inner());
                }
                Poll::Ready(())
            })
            .await;
        });
    }
}
