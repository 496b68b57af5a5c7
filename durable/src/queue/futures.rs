//! Futures: those of handlers that have begun and not ended, for which a stop waits.
//!
//! When a stop has ended the window's service, no alarm rings any more. A future whose attempt has
//! a limit leaves its waker here then, and the thread that waits for the futures wakes it when the
//! limit is over. So a stop ends, though a future never would.

use crate::handler::caught::caught;
use crate::handler::limit::Limit;
use crate::store::row::DurableId;
use crate::sync::{ThreadId, current};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use wheelwork::run_as_task;

/// How often limits are looked at that are by a manual clock: nothing tells of its moves then.
const MANUAL_LOOK: Duration = Duration::from_millis(10);

/// The futures of handlers that run.
#[derive(Default)]
pub(crate) struct RunningFutures {
    running: Mutex<Running>,
    /// All have ended, or there is another limit.
    changed: Condvar,
}

#[derive(Default)]
struct Running {
    /// How many there are, by the thread that polled them last.
    by_thread: HashMap<ThreadId, usize>,
    /// Those that are to be woken when their limit is over, by their timer and its epoch.
    limits: HashMap<(DurableId, u64), (Arc<Limit>, Waker)>,
}

impl RunningFutures {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One is polled for the first time, by this thread. `None`: the service stops, and does not
    /// wait for a future that has not begun.
    pub(super) fn begin(&self, delivers: impl FnOnce() -> bool) -> Option<ThreadId> {
        let here = current().id();
        // The lock orders us: a stop that this does not see looks at the futures later.
        let mut running = self.lock();
        if !delivers() {
            return None;
        }
        *running.by_thread.entry(here).or_default() += 1;
        Some(here)
    }

    /// One is polled by this thread. The former poll was on `former`.
    pub(crate) fn move_here(&self, former: ThreadId) -> ThreadId {
        let here = current().id();
        if here != former {
            let mut running = self.lock();
            running.take_one(former);
            *running.by_thread.entry(here).or_default() += 1;
        }
        here
    }

    /// One has ended, which this thread has polled last.
    pub(crate) fn end(&self, polled_by: ThreadId) {
        let mut running = self.lock();
        running.take_one(polled_by);
        if running.by_thread.is_empty() {
            self.changed.notify_all();
        }
    }

    /// One is to be woken when its limit is over, in place of the alarm that a stop has ended.
    pub(crate) fn wake_at(&self, of: (DurableId, u64), limit: &Arc<Limit>, waker: &Waker) {
        let limit = (limit.clone(), waker.clone());
        let former = self.lock().limits.insert(of, limit);
        self.changed.notify_all();
        drop(former);
    }

    /// It need not be woken any more.
    pub(crate) fn forget_limit(&self, of: (DurableId, u64)) {
        let former = self.lock().limits.remove(&of);
        drop(former);
    }

    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        !self.lock().by_thread.is_empty()
    }

    /// Whether this thread has polled one of them last, so that it may have to poll it again.
    pub(crate) fn has_polled(&self) -> bool {
        self.lock().by_thread.contains_key(&current().id())
    }

    /// Waits until all have ended. Wakes those whose limit is over meanwhile.
    pub(crate) fn wait(&self) {
        let mut running = self.lock();
        while !running.by_thread.is_empty() {
            let over = running.take_over();
            if !over.is_empty() {
                // (An executor may poll in `wake`, or panic.)
                drop(running);
                for waker in over {
                    run_as_task(|| caught(|| waker.wake()));
                }
                running = self.lock();
                continue;
            }
            running = match running.next_look() {
                None => self.changed.wait(running),
                Some(wait) => (self.changed.wait_timeout(running, wait))
                    .map(|(running, _)| running)
                    .map_err(|error| PoisonError::new(error.into_inner().0)),
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Running {
    /// Counts one less among those that this thread has polled last.
    fn take_one(&mut self, thread: ThreadId) {
        if let Entry::Occupied(mut count) = self.by_thread.entry(thread) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Takes out those whose limit is over.
    fn take_over(&mut self) -> Vec<Waker> {
        let over = self
            .limits
            .extract_if(|_, (limit, _)| limit.left() == Duration::ZERO);
        over.map(|(_, (_, waker))| waker).collect()
    }

    /// When limits are to be looked at again.
    fn next_look(&self) -> Option<Duration> {
        let looks = self
            .limits
            .values()
            .map(|(limit, _)| match limit.is_manual() {
                true => MANUAL_LOOK,
                false => limit.left(),
            });
        looks.min()
    }
}
