//! tokio's alternative timer, in a build with `--cfg tokio_unstable`. A worker has a wheel of its
//! own, and takes timers in or out between its tasks. So a producer is a task, on a runtime with
//! one worker that no other producer shares.
//!
//! Producers are written as threads are, and do not return in between. Each runs on a stack of its
//! own, which the task leaves after some calls, for the worker to do its part.

use super::owned::LoopTime;
use super::polled::sleep_until;
use super::{Producer, Subject, runtime};
use crate::ledger::Awaited;
use crate::name::Name;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Sleep, sleep};
use wheelwork_kit::system;

/// Of a producer's stack.
const STACK_BYTES: usize = 1 << 20;

/// Why a producer leaves its stack.
enum Pause {
    /// The worker takes in and out what was handed over.
    Turn,
    /// Timers fire meanwhile.
    For(Duration),
}

type Work = Box<dyn FnOnce(&mut Owner) + Send>;

pub(crate) struct Alt;

impl Subject for Alt {
    const SHARED: bool = false;

    type Producer = Owner;

    fn start(_: Name) -> Self {
        Self
    }

    fn within(&self, work: impl FnOnce(&mut Owner) + Send) {
        let runtime = runtime::with_alternative_timer(system::pin_as_caller());
        let work: Box<dyn FnOnce(&mut Owner) + Send + '_> = Box::new(work);
        // SAFETY: only the lifetime changes. What it borrows outlives this call, which returns when
        // the task has ended that calls it; a panic in it ends the process.
        let work = unsafe { std::mem::transmute::<_, Work>(work) };
        let task = runtime.spawn(unconstrained(OneWorker(Box::pin(run(work)))));
        runtime.block_on(task).expect("it does not panic");
    }
}

/// A future that is polled by the one worker of its runtime, from first to last.
struct OneWorker(Pin<Box<dyn Future<Output = ()>>>);

// SAFETY: before it is polled for the first time it holds what is `Send`, a `Work`. From then on
// the one thread that polls it drops it too.
unsafe impl Send for OneWorker {}

impl Future for OneWorker {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

/// Runs a producer's work on a stack of its own.
async fn run(work: Work) {
    let stack = corosensei::stack::DefaultStack::new(STACK_BYTES).expect("there is memory");
    let mut coroutine = Coroutine::with_stack(stack, |yielder: &Yielder<(), Pause>, ()| {
        work(&mut Owner {
            yielder,
            time: LoopTime::begin(),
            awaited: Awaited::default(),
        });
    });
    loop {
        match coroutine.resume(()) {
            CoroutineResult::Yield(Pause::Turn) => yield_now().await,
            CoroutineResult::Yield(Pause::For(time)) => sleep(time).await,
            CoroutineResult::Return(()) => return,
        }
    }
}

pub(crate) struct Owner {
    /// Of the coroutine that this is used in.
    yielder: *const Yielder<(), Pause>,
    /// The worker has a turn after each of the loop's.
    time: LoopTime,
    awaited: Awaited,
}

impl Owner {
    fn pause(&self, pause: Pause) {
        // SAFETY: the coroutine lent it for as long as it runs, and it is what calls this.
        let yielder = unsafe { &*self.yielder };
        yielder.suspend(pause);
    }

    /// Counts a call.
    fn called(&mut self) {
        if self.time.called() {
            self.pause(Pause::Turn);
        }
    }
}

impl Producer for Owner {
    type Handle = Pin<Box<Sleep>>;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle {
        self.awaited.armed(delay, due_ns);
        let armed = sleep_until(self.time.due(delay, due_ns), due_ns);
        self.called();
        armed
    }

    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
        self.called();
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        handle.as_mut().reset(self.time.due(delay, 0).into());
        self.called();
    }

    fn serve(&mut self) {
        while let Some(time) = self.awaited.left() {
            self.pause(Pause::For(time));
        }
    }

    fn settle(&mut self) {
        self.pause(Pause::Turn);
        self.time.read();
    }
}
