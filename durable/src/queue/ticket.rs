//! Ticket: the answer to a call, when the writer has it.
//!
//! The caller and the writer share one place, under a lock. It has the waker of the task that
//! waits, or the answer. Whoever waits without a task waits for the place's condition variable.
//!
//! Ground rule: no user code runs under the lock. A waker is cloned before it, and woken or dropped
//! after it.

use crate::handler::caught::caught;
use crate::handler::error::DurableError;
use crate::sync::{Condvar, Fault, Mutex, MutexGuard, broken};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use wheelwork::run_as_task;

type Answer<T> = Result<T, DurableError>;

/// What is known of an answer.
enum AnswerState<T> {
    /// There is none yet.
    Pending {
        /// Of the task that polled last.
        waker: Option<Waker>,
        /// A thread waits for the condition variable.
        is_waited: bool,
    },
    /// The answer.
    Ready(Answer<T>),
    /// The ticket has it.
    Taken,
}

impl<T> AnswerState<T> {
    const NEW: Self = Self::Pending {
        waker: None,
        is_waited: false,
    };
}

struct Answering<T> {
    state: Mutex<AnswerState<T>>,
    told: Condvar,
}

impl<T> Answering<T> {
    fn lock(&self) -> MutexGuard<'_, AnswerState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a call, when the change is durable. Made by the calls whose names end in
/// `_ticket`, and by `stop_async`.
///
/// [`wait`](Self::wait) blocks the thread. As a future it can be awaited under any runtime, without
/// a Cargo feature. A thread may have many tickets in flight: their changes are stored together.
///
/// A ticket that is dropped changes nothing: the call goes on.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// let hour = Duration::from_secs(3_600);
/// let tickets: Vec<_> = (0..1_000)
///     .map(|number| timers.schedule_ticket("mail", hour, format!("{number}")))
///     .collect::<Result<_, _>>()?;
/// for ticket in tickets {
///     let _id = ticket.wait()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "without an answer it is not known whether the change is durable"]
pub struct Ticket<T> {
    place: Arc<Answering<T>>,
}

impl<T> Ticket<T> {
    /// Blocks until the change is durable.
    ///
    /// # Errors
    /// See [`DurableError`]. If it is [`Stopped`](DurableError::Stopped), nothing was stored
    /// (or the ticket has given its answer before, as a future).
    pub fn wait(self) -> Result<T, DurableError> {
        // TicketWait.
        let mut state = self.place.lock();
        loop {
            match std::mem::replace(&mut *state, AnswerState::Taken) {
                AnswerState::Ready(answer) => return answer,
                // A ticket that was polled to its end has no answer any more.
                AnswerState::Taken => return Err(DurableError::Stopped),
                AnswerState::Pending { waker, .. } => {
                    *state = AnswerState::Pending {
                        waker,
                        is_waited: true,
                    };
                }
            }
            state = self
                .place
                .told
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Ticket<T> {
    /// Nobody waits any more: an answer wakes no task.
    pub(crate) fn forget(self) {
        let former = std::mem::replace(&mut *self.place.lock(), AnswerState::Taken);
        // (Its waker is the user's.)
        drop(former);
    }

    /// Blocks until there is an answer, and leaves it there.
    pub(super) fn wait_for_answer(&self) {
        let mut state = self.place.lock();
        while let AnswerState::Pending { is_waited, .. } = &mut *state {
            *is_waited = true;
            state = self
                .place
                .told
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, DurableError>;

    /// Polled again after it was ready, it is ready with [`DurableError::Stopped`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // TicketPoll.
        let waker = context.waker().clone();
        let mut state = self.place.lock();
        let (poll, unused) = match std::mem::replace(&mut *state, AnswerState::Taken) {
            AnswerState::Ready(answer) => (Poll::Ready(answer), Some(waker)),
            AnswerState::Taken => (Poll::Ready(Err(DurableError::Stopped)), Some(waker)),
            AnswerState::Pending {
                waker: former,
                is_waited,
            } => {
                *state = AnswerState::Pending {
                    waker: Some(waker),
                    is_waited,
                };
                (Poll::Pending, former)
            }
        };
        drop(state);
        drop(unused);
        poll
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

/// The writer's end of a ticket. Dropped without an answer it answers that the service has stopped,
/// so that nobody waits after the writer has ended.
pub(crate) struct Teller<T> {
    place: Option<Arc<Answering<T>>>,
}

impl<T> Teller<T> {
    /// TicketTell: leaves the answer, and wakes whoever waits for it.
    pub(crate) fn tell(mut self, answer: Answer<T>) {
        self.leave(answer);
    }

    fn leave(&mut self, answer: Answer<T>) {
        let Some(place) = self.place.take() else {
            return;
        };
        let mut early = None;
        if broken(Fault::TicketToldTooEarly) {
            early = Some(std::mem::replace(&mut *place.lock(), AnswerState::NEW));
            place.told.notify_all();
        }
        // At one instant: who looks before it leaves its waker, or says that it waits for the
        // condition variable; who looks after it finds the answer.
        let mut state = place.lock();
        let former = std::mem::replace(&mut *state, AnswerState::Ready(answer));
        drop(state);
        let is_told = early.is_some();
        let AnswerState::Pending { waker, is_waited } = early.unwrap_or(former) else {
            return;
        };
        // (To notify is a system call, whether anybody waits or not.)
        if is_waited && !is_told {
            place.told.notify_all();
        }
        if let Some(waker) = waker {
            // A waker that panics is its runtime's affair. The writer goes on. If the waker drops
            // the timers' owner, the writer does not wait for itself.
            run_as_task(|| caught(|| waker.wake()));
        }
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        self.leave(Err(DurableError::Stopped));
    }
}

/// A ticket and its writer's end.
pub(crate) fn ticket<T>() -> (Teller<T>, Ticket<T>) {
    let place = Arc::new(Answering {
        state: Mutex::new(AnswerState::NEW),
        told: Condvar::new(),
    });
    let teller = Teller {
        place: Some(place.clone()),
    };
    (teller, Ticket { place })
}
