//! Spawned: what a task leaves for whoever awaits its handle. All on one thread.
//!
//! A handle that a task of this executor awaits keeps the task's number, not its waker: so a task
//! that waits for a task that waits for ever is found to wait for ever, too.

use super::executor::find_current;
use super::ready::{BLOCK_ON, Ready};
use pin_project_lite::pin_project;
use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A task of [`spawn`](super::spawn): a future of what the task gives. Dropping it lets the task
/// run on.
///
/// If the task panics, `block_on` does: nobody gets to see a handle of such a task.
///
/// # Panics
/// When it is polled after it was ready; and when its task had not ended before its `block_on`.
///
/// # Example
/// See [`spawn`](super::spawn).
#[must_use = "the task runs on without it"]
pub struct JoinHandle<T>(Rc<RefCell<JoinState<T>>>);

enum JoinState<T> {
    Runs(Option<Waiter>),
    Done(T),
    Taken,
    /// The task was dropped with its `block_on`.
    Dropped,
}

/// Who awaits a handle.
enum Waiter {
    Task(Arc<Ready>, u64),
    Other(Waker),
}

impl Waiter {
    fn of(waker: &Waker) -> Self {
        find_current()
            .and_then(|executor| executor.polled_with(waker))
            .map_or_else(
                || Self::Other(waker.clone()),
                |(ready, task)| Self::Task(ready, task),
            )
    }

    fn wake(self) {
        match self {
            Self::Task(ready, task) => ready.wake(task),
            Self::Other(waker) => waker.wake(),
        }
    }
}

/// The task's end of a handle.
pub(super) struct JoinSender<T>(Rc<RefCell<JoinState<T>>>);

impl<T> JoinSender<T> {
    pub(super) fn send(self, value: T) {
        self.end(JoinState::Done(value));
    }

    fn end(&self, state: JoinState<T>) {
        if let JoinState::Runs(Some(waiter)) = self.0.replace(state) {
            waiter.wake();
        }
    }
}

impl<T> Drop for JoinSender<T> {
    fn drop(&mut self) {
        let runs = matches!(*self.0.borrow(), JoinState::Runs(_));
        if runs {
            self.end(JoinState::Dropped);
        }
    }
}

pin_project! {
    /// A task: a future, and its end of the handle. (An `async` block would drop the future while a
    /// panic of its poll unwinds. If the drop panics too, that aborts.)
    pub(super) struct Sending<F: Future> {
        #[pin]
        future: F,
        sender: Option<JoinSender<F::Output>>,
    }
}

impl<F: Future> Future for Sending<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.future.poll(context).map(|value| {
            if let Some(sender) = this.sender.take() {
                sender.send(value);
            }
        })
    }
}

/// A task that runs a future, and the handle to what that gives.
pub(super) fn pair<F: Future>(future: F) -> (Sending<F>, JoinHandle<F::Output>) {
    let state = Rc::new(RefCell::new(JoinState::Runs(None)));
    let sender = Some(JoinSender(state.clone()));
    (Sending { future, sender }, JoinHandle(state))
}

impl<T> JoinHandle<T> {
    /// Whether the task has ended.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{future::sleep, testing};
    ///
    /// testing::block_on(async {
    ///     let task = testing::spawn(sleep(Duration::from_secs(5)));
    ///     sleep(Duration::from_secs(4)).await;
    ///     assert!(!task.is_finished());
    ///     sleep(Duration::from_secs(2)).await;
    ///     assert!(task.is_finished());
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !matches!(*self.0.borrow(), JoinState::Runs(_))
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.is_finished() {
            let waiter = Waiter::of(context.waker());
            let old = self.0.replace(JoinState::Runs(Some(waiter)));
            drop(old);
            return Poll::Pending;
        }
        match self.0.replace(JoinState::Taken) {
            JoinState::Done(value) => Poll::Ready(value),
            JoinState::Dropped => panic!("the task was dropped at the end of {BLOCK_ON}"),
            JoinState::Runs(_) | JoinState::Taken => panic!("polled after it was ready"),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
