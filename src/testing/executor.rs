//! Executor: the tasks of one `block_on`, on the thread that called it.
//!
//! Owned by `block_on`; the thread's tasks find it in a thread-local. Other threads know its
//! [`Ready`] alone.
//!
//! Ground rule: no `RefCell` is borrowed while the user's code runs: a poll, a drop of a future, a
//! timer that fires.

use super::ready::{BLOCK_ON, Hold, Ready, Stuck, TaskWaker};
use crate::dispatch::inside::inside_job;
use crate::engine::drops::Drops;
use crate::engine::notices::hooks::discard;
use crate::sync::per_thread;
use crate::time::ManualClock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

per_thread! {
    /// The executor whose `block_on` runs on this thread. `Leave` takes it out. Without a
    /// destructor: the destructors of other thread-locals may call `block_on` too.
    static CURRENT: RefCell<ManuallyDrop<Option<Rc<TestExecutor>>>> = const {
        RefCell::new(ManuallyDrop::new(None))
    };
}

/// The number of the future that `block_on` was given.
const MAIN: u64 = 0;

/// The tasks of one `block_on`.
pub(super) struct TestExecutor {
    clock: ManualClock,
    ready: Arc<Ready>,
    /// By number. A task that is being polled, or has ended, has no future here.
    tasks: RefCell<BTreeMap<u64, SpawnedTask>>,
    next: Cell<u64>,
    /// The task that is being polled, and its waker.
    polled: RefCell<Option<(u64, Waker)>>,
}

/// A task that was spawned and has not ended.
struct SpawnedTask {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: TaskName,
}

/// A task's waker, and the reference that tells how many others there are.
struct TaskName {
    counted: Arc<TaskWaker>,
    waker: Waker,
}

impl TaskName {
    fn new(ready: &Arc<Ready>, task: u64) -> Self {
        let counted = ready.waker(task);
        Self {
            waker: counted.clone().into(),
            counted,
        }
    }

    /// Whether nobody else has a waker of this task.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.counted) == 2
    }
}

/// The executor whose `block_on` runs on this thread, if there is one.
pub(super) fn find_current() -> Option<Rc<TestExecutor>> {
    CURRENT.with(|current| Option::clone(&current.borrow()))
}

/// The same, for what works inside of `block_on` alone: panics if there is none.
pub(super) fn current() -> Rc<TestExecutor> {
    find_current().unwrap_or_else(|| panic!("called outside of {BLOCK_ON}"))
}

/// Takes the executor from its thread.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        let left = CURRENT.with(|current| current.borrow_mut().take());
        drop(left);
    }
}

impl TestExecutor {
    /// Runs a future, and the tasks that it spawns, until the future is ready. Then drops the
    /// tasks. A panic of any of them goes on.
    pub(super) fn run<F: Future>(clock: ManualClock, future: F) -> F::Output {
        let executor = Rc::new(Self {
            clock,
            ready: Arc::default(),
            tasks: RefCell::default(),
            next: Cell::new(MAIN + 1),
            polled: RefCell::new(None),
        });
        assert!(
            find_current().is_none(),
            "{BLOCK_ON} was called inside another one"
        );
        CURRENT.with(|current| **current.borrow_mut() = Some(executor.clone()));
        let _leave = Leave;
        let mut future = Box::pin(future);
        let outcome = catch_unwind(AssertUnwindSafe(|| executor.poll_all(future.as_mut())));
        let main = catch_unwind(AssertUnwindSafe(|| drop(future)));
        let tasks = catch_unwind(AssertUnwindSafe(|| executor.drop_tasks()));
        let (output, panic) = match outcome {
            Ok(output) => (Some(output), None),
            Err(panic) => (None, Some(panic)),
        };
        let panics = [panic, main.err(), tasks.err()];
        let mut panics = panics.into_iter().flatten();
        match (output, panics.next()) {
            (Some(output), None) => output,
            (output, first) => {
                // No user's code runs while the first panic unwinds: a second one would abort.
                panics.for_each(discard);
                let output = catch_unwind(AssertUnwindSafe(|| drop(output)));
                output.err().into_iter().for_each(discard);
                resume_unwind(first.expect("without an output there is a panic"))
            }
        }
    }

    fn poll_all<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let main = TaskName::new(&self.ready, MAIN);
        self.ready.wake(MAIN);
        loop {
            match self.ready.next() {
                Some(MAIN) => {
                    let poll = self.poll(MAIN, &main.waker, future.as_mut());
                    if let Poll::Ready(output) = poll {
                        return output;
                    }
                }
                Some(task) => self.poll_task(task),
                None => self.move_clock(&main),
            }
        }
    }

    fn poll<F: Future + ?Sized>(
        &self,
        task: u64,
        waker: &Waker,
        future: Pin<&mut F>,
    ) -> Poll<F::Output> {
        drop(self.polled.replace(Some((task, waker.clone()))));
        let poll = future.poll(&mut Context::from_waker(waker));
        drop(self.polled.replace(None));
        poll
    }

    fn poll_task(&self, task: u64) {
        let taken = self
            .tasks
            .borrow_mut()
            .get_mut(&task)
            .and_then(|task| Some((task.future.take()?, task.waker.waker.clone())));
        // A waker of a task that has ended was woken.
        let Some((mut future, waker)) = taken else {
            return;
        };
        let polled = catch_unwind(AssertUnwindSafe(|| {
            self.poll(task, &waker, future.as_mut())
        }));
        let poll = match polled {
            Ok(poll) => poll,
            Err(panic) => {
                // Its drop may panic too, and must not while this panic unwinds.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
                dropped.err().into_iter().for_each(discard);
                resume_unwind(panic)
            }
        };
        if poll.is_pending() {
            let mut tasks = self.tasks.borrow_mut();
            if let Some(spawned) = tasks.get_mut(&task) {
                spawned.future = Some(future);
            }
            return;
        }
        self.ready.ended();
        let ended = self.tasks.borrow_mut().remove(&task);
        drop((ended, future));
    }

    /// Nothing is ready.
    fn move_clock(&self, main: &TaskName) {
        match self.clock.step() {
            Ok(true) => {}
            Ok(false) => {
                let rest = self.ready.rest(|| self.is_stuck(main));
                if let Err(Stuck) = rest {
                    let tasks = match self.tasks.borrow().len() {
                        0 => "the future waits".to_string(),
                        spawned => format!("the future and its tasks ({spawned}) wait"),
                    };
                    panic!(
                        "{tasks} for ever: no timer is pending on the clock, and nobody else has \
                         a waker"
                    );
                }
            }
            Err(_) => {
                assert!(
                    !(self.clock.is_driving() && inside_job()),
                    "{BLOCK_ON} was called by a timer of the clock that it has to move"
                );
                // Another thread moves the clock, or stops a service on it.
                _ = self.ready.rest(|| false);
            }
        }
    }

    /// Whether nobody but the executor has a waker of its tasks.
    fn is_stuck(&self, main: &TaskName) -> bool {
        let tasks = self.tasks.borrow();
        main.is_alone() && tasks.values().all(|task| task.waker.is_alone())
    }

    pub(super) fn clock(&self) -> &ManualClock {
        &self.clock
    }

    pub(super) fn hold(&self) -> Hold {
        self.ready.hold()
    }

    pub(super) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let task = self.next.get();
        self.next.set(task + 1);
        let spawned = SpawnedTask {
            future: Some(Box::pin(future)),
            waker: TaskName::new(&self.ready, task),
        };
        self.tasks.borrow_mut().insert(task, spawned);
        self.ready.wake(task);
    }

    /// The task that is polled with this waker: what wakes it, without a reference to its waker.
    pub(super) fn polled_with(&self, waker: &Waker) -> Option<(Arc<Ready>, u64)> {
        let polled = self.polled.borrow();
        let (task, own) = polled.as_ref()?;
        own.will_wake(waker).then(|| (self.ready.clone(), *task))
    }

    /// Drops the tasks that have not ended, in the order in which they were spawned, and those that
    /// they spawn meanwhile.
    fn drop_tasks(&self) {
        let tasks = || self.tasks.borrow_mut().pop_first();
        Drops::all(std::iter::from_fn(tasks));
    }
}
