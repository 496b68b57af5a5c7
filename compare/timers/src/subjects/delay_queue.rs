//! tokio-util's `DelayQueue`: one in each thread, which arms, cancels and polls it; and one in a
//! mutex, with a thread that polls it.

use super::owned::{self, LoopTime, runtime_of_thread};
use super::{Producer, Subject, runtime};
use crate::ledger::{self, PERIODIC};
use crate::name::Name;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{EnterGuard, Handle, Runtime};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;
use wheelwork_kit::lock::lock;

pub(crate) struct Owner {
    queue: DelayQueue<u64>,
    time: LoopTime,
    runtime: &'static Runtime,
    _entered: EnterGuard<'static>,
}

impl owned::Owner for Owner {
    fn begin() -> Self {
        let (runtime, _entered) = runtime_of_thread();
        Self {
            queue: DelayQueue::new(),
            time: LoopTime::begin(),
            runtime,
            _entered,
        }
    }
}

impl Producer for Owner {
    type Handle = Key;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Key {
        self.time.called();
        let at = self.time.due(delay, due_ns);
        self.queue.insert_at(due_ns, at.into())
    }

    fn cancel(&mut self, handle: Key) {
        self.queue.try_remove(&handle);
    }

    fn rearm(&mut self, handle: &mut Key, delay: Duration) {
        self.time.called();
        self.queue.reset_at(handle, self.time.due(delay, 0).into());
    }

    fn serve(&mut self) {
        let queue = &mut self.queue;
        self.runtime.block_on(async {
            while let Some(expired) = poll_fn(|context| queue.poll_expired(context)).await {
                ledger::fired(expired.into_inner());
            }
        });
    }

    /// The next phase begins with a reading.
    fn settle(&mut self) {
        self.time.read();
    }
}

#[derive(Default)]
struct Queue {
    timers: DelayQueue<u64>,
    /// Whether any timer has expired: keys may be stale then.
    any_expired: bool,
}

impl Queue {
    fn insert_periodic(&mut self, due_ns: u64) {
        let delay = ledger::delay_until(due_ns);
        self.timers.insert(due_ns | PERIODIC, delay);
    }
}

pub(crate) struct Locked {
    queue: Arc<Mutex<Queue>>,
    runtime: Handle,
}

pub(crate) struct LockedProducer(Arc<Mutex<Queue>>);

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
        due.retain_mut(|payload| {
            let again = ledger::ran(*payload);
            again.map(|due_ns| *payload = due_ns).is_some()
        });
        if due.is_empty() {
            return Poll::Pending;
        }
        let mut locked = lock(queue);
        let again = due.drain(..);
        again.for_each(|due_ns| locked.insert_periodic(due_ns));
    }
}

impl Subject for Locked {
    type Producer = LockedProducer;

    fn start(_: Name) -> Self {
        let runtime = runtime::new();
        let subject = Self {
            queue: Arc::default(),
            runtime: runtime.handle().clone(),
        };
        let (queue, mut due) = (subject.queue.clone(), Vec::new());
        runtime::spawn("delayqueue", move || {
            runtime.block_on(poll_fn(|context| poll(&queue, context, &mut due)));
        });
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
