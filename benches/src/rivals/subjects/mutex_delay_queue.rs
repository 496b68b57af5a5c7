//! tokio-util's `DelayQueue` in a mutex, with a thread that polls it.

use super::{Producer, Subject};
use crate::book::{self, PERIODIC};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

#[derive(Default)]
struct Queue {
    timers: DelayQueue<u64>,
    /// Whether any timer has expired: keys may be stale then.
    any_expired: bool,
}

impl Queue {
    fn insert_periodic(&mut self, due_ns: u64) {
        self.timers.insert(due_ns | PERIODIC, book::delay_until(due_ns));
    }
}

pub(crate) struct Locked {
    queue: Arc<Mutex<Queue>>,
    runtime: Handle,
}

pub(crate) struct LockedProducer(Arc<Mutex<Queue>>);

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fires what has expired, and has the thread woken for the next.
fn poll(queue: &Mutex<Queue>, context: &mut Context<'_>, due: &mut Vec<u64>) -> Poll<()> {
    loop {
        let mut locked = lock(queue);
        while let Poll::Ready(Some(expired)) = locked.timers.poll_expired(context) {
            locked.any_expired = true;
            due.push(expired.into_inner());
        }
        drop(locked);
        // Tasks run without the lock.
        due.retain_mut(|payload| book::ran(*payload).map(|due_ns| *payload = due_ns).is_some());
        if due.is_empty() {
            return Poll::Pending;
        }
        let mut locked = lock(queue);
        due.drain(..).for_each(|due_ns| locked.insert_periodic(due_ns));
    }
}

impl Subject for Locked {
    type Producer = LockedProducer;

    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime starts");
        let subject = Self { queue: Arc::default(), runtime: runtime.handle().clone() };
        let (queue, mut due) = (subject.queue.clone(), Vec::new());
        let run = move || runtime.block_on(poll_fn(|context| poll(&queue, context, &mut due)));
        thread::Builder::new().name("delayqueue".to_string()).spawn(run).expect("a thread can be spawned");
        subject
    }

    fn within(&self, work: impl FnOnce(&mut LockedProducer)) {
        let _entered = self.runtime.enter();
        work(&mut LockedProducer(self.queue.clone()));
    }
}

impl Producer for LockedProducer {
    type Handle = Key;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Key {
        lock(&self.0).timers.insert(due_ns, delay)
    }

    fn cancel(&mut self, handle: Key) {
        lock(&self.0).timers.try_remove(&handle);
    }

    fn rearm(&mut self, handle: &mut Key, delay: Duration) {
        let mut queue = lock(&self.0);
        if !queue.any_expired {
            queue.timers.reset(handle, delay);
            return;
        }
        // `reset` panics if the timer has expired.
        queue.timers.try_remove(handle);
        *handle = queue.timers.insert(0, delay);
    }

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        lock(&self.0).insert_periodic(due_ns);
        Ok(())
    }
}
