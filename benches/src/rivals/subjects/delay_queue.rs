//! tokio-util's `DelayQueue` with one owner, who arms, cancels and polls it.

use super::{Producer, Subject};
use crate::book;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

pub(crate) struct Owned;

pub(crate) struct Owner {
    runtime: Rc<Runtime>,
    queue: DelayQueue<u64>,
}

impl Subject for Owned {
    type Producer = Owner;

    fn start() -> Self {
        Self
    }

    fn within(&self, work: impl FnOnce(&mut Owner)) {
        let runtime = Rc::new(Builder::new_current_thread().enable_time().build().expect("a runtime starts"));
        let entered = runtime.clone();
        let _entered = entered.enter();
        work(&mut Owner { runtime, queue: DelayQueue::new() });
    }
}

impl Producer for Owner {
    type Handle = Key;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Key {
        self.queue.insert(due_ns, delay)
    }

    fn cancel(&mut self, handle: Key) {
        self.queue.try_remove(&handle);
    }

    fn rearm(&mut self, handle: &mut Key, delay: Duration) {
        self.queue.reset(handle, delay);
    }

    fn serve(&mut self) {
        let queue = &mut self.queue;
        self.runtime.block_on(async {
            while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
                book::fired(expired.into_inner());
            }
        });
    }
}
