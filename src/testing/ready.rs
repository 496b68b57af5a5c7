//! Ready: which tasks are to be polled, and what holds the clock up.
//!
//! Any thread wakes a task, and drops a hold. The thread of `block_on` takes tasks, moves the clock
//! and waits. One lock guards all of it, and one condition variable announces changes.
//!
//! A waker, on any thread:
//!
//!  - `WakeQueue`: under the lock, put the task into the queue, unless it is there; announce
//!
//! The drop of a hold, on any thread:
//!
//!  - `HoldEnd`: under the lock, count one hold less; announce the last one
//!
//! `block_on`:
//!
//!  - `NextTake`: under the lock, take the first task of the queue; the clock stands still
//!  - `NextHeld`: the queue is empty and there are holds: wait for an announcement, look again
//!  - `NextMove`: the queue is empty and there is no hold: leave the lock, move the clock
//!  - `RestStuck`: no timer is pending. Under the lock, with an empty queue: if no waker is left
//!    elsewhere, no wake will come
//!  - `RestWait`: else wait for an announcement, for a short time, and begin anew
//!
//! **What a thread sends before it drops its hold is seen before the clock moves.** `WakeQueue`
//! comes before `HoldEnd`, both under the lock, so whoever sees no hold sees the task in the queue.
//!
//! **No wake is lost.** The queue is looked at under the lock, and the wait gives the lock up.
//!
//! **`RestStuck` is right.** A thread that is about to wake a task has a reference to its waker
//! until it has left `WakeQueue`. So with the lock held and the queue empty its reference is seen.
//! References come from references: a task that is not polled hands none out.
//!
//! `RestWait` looks again after a short time, since a thread that wakes nobody may arm a timer.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// How messages call it.
pub(super) const BLOCK_ON: &str = "`wheelwork::testing::block_on`";

/// Rounds in which tasks only yield, until the clock moves all the same.
const ROUNDS_MAX: u32 = 100_000;

/// How long `RestWait` waits, until it asks the clock for timers again.
const LOOK_AFTER: Duration = Duration::from_millis(5);

/// The tasks that are to be polled.
#[derive(Debug, Default)]
pub(super) struct Ready {
    changes: Mutex<Changes>,
    announced: Condvar,
}

/// What the lock guards.
#[derive(Debug, Default)]
struct Changes {
    queue: VecDeque<u64>,
    /// What the queue has.
    queued: BTreeSet<u64>,
    /// The task that is being polled.
    polled: Option<u64>,
    /// Tasks of this round that were not polled yet. A round polls each task that is in the queue
    /// when the round begins.
    round: usize,
    /// Rounds since a task was woken by another one, a timer or a thread, or has ended.
    rounds: u32,
    /// Values that keep the clock from being moved.
    holds: usize,
}

/// There is no timer, and no waker: the tasks wait for ever.
#[derive(Debug)]
pub(super) struct Stuck;

/// Keeps a [`block_on`](super::block_on) from moving its clock, as long as it lives.
/// [`hold`](super::hold) makes one. Any thread may have it, and drop it.
///
/// # Example
/// See [`hold`](super::hold).
#[derive(Debug)]
#[must_use = "the clock is held until this is dropped"]
pub struct Hold(Arc<Ready>);

impl Drop for Hold {
    fn drop(&mut self) {
        // HoldEnd.
        let mut changes = self.0.changes();
        changes.holds -= 1;
        if changes.holds == 0 {
            self.0.announced.notify_one();
        }
    }
}

/// A task's waker.
#[derive(Debug)]
pub(super) struct TaskWaker {
    ready: Arc<Ready>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.wake(self.task);
    }
}

impl Ready {
    /// What a task's wakers are made of.
    pub(super) fn waker(self: &Arc<Self>, task: u64) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            ready: self.clone(),
            task,
        })
    }

    pub(super) fn hold(self: &Arc<Self>) -> Hold {
        self.changes().holds += 1;
        Hold(self.clone())
    }

    pub(super) fn wake(&self, task: u64) {
        // WakeQueue.
        let mut changes = self.changes();
        if changes.polled != Some(task) {
            changes.rounds = 0;
        }
        if changes.queued.insert(task) {
            changes.queue.push_back(task);
            self.announced.notify_one();
        }
    }

    /// A task has ended.
    pub(super) fn ended(&self) {
        self.changes().rounds = 0;
    }

    /// The next task to poll. Waits while the clock is held. `None`: the clock may move.
    pub(super) fn next(&self) -> Option<u64> {
        let mut changes = self.changes();
        changes.polled = None;
        while changes.queue.is_empty() && changes.holds > 0 {
            // NextHeld.
            changes = self
                .announced
                .wait(changes)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if changes.round == 0 {
            changes.round = changes.queue.len();
            changes.rounds += 1;
        }
        if changes.rounds > ROUNDS_MAX && changes.holds == 0 {
            changes.rounds = 0;
            return None; // NextMove
        }
        // NextTake; NextMove if there is none.
        let task = changes.queue.pop_front()?;
        changes.queued.remove(&task);
        changes.polled = Some(task);
        changes.round = changes.round.saturating_sub(1);
        Some(task)
    }

    /// There is no timer, or another thread has the clock. Waits for a wake, for a short time,
    /// unless tasks are ready. `is_stuck` says whether the tasks have no waker elsewhere; it runs
    /// under the lock.
    pub(super) fn rest(&self, is_stuck: impl FnOnce() -> bool) -> Result<(), Stuck> {
        let changes = self.changes();
        if changes.queue.is_empty() {
            if is_stuck() {
                return Err(Stuck); // RestStuck
            }
            // RestWait.
            drop(self.announced.wait_timeout(changes, LOOK_AFTER));
        }
        Ok(())
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
