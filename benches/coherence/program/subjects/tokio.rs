//! tokio's sleeps, on a runtime whose timers are driven by whoever blocks on it. Time is real: the
//! driver waits for what is due in its turn.

use super::polled::polled;
use super::{Subject, TURN};
use std::pin::Pin;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::time::{Instant, Sleep};
use wheelwork_coherence::Start;

pub(crate) struct Tokio(Handle);

impl Subject for Tokio {
    type Timer = Pin<Box<Sleep>>;
    type Entered = EnterGuard<'static>;

    const IS_OPEN: bool = false;
    const DROP_CANCELS: bool = true;

    fn start(_: usize, _: usize) -> (&'static Self, Vec<Start>) {
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime starts");
        let tokio = Box::leak(Box::new(Self(runtime.handle().clone())));
        (tokio, vec![turns(runtime)])
    }

    fn enter(&'static self) -> EnterGuard<'static> {
        self.0.enter()
    }

    fn pass(&self) {
        thread::sleep(TURN);
    }

    fn arm(&self, delay: Duration) -> Self::Timer {
        polled(Box::pin(tokio::time::sleep(delay)))
    }

    fn cancel(&self, timer: Self::Timer) {
        drop(timer);
    }

    fn rearm(&self, timer: &mut Self::Timer, delay: Duration) {
        timer.as_mut().reset(Instant::now() + delay);
    }
}

/// The driver looks at its wheel when its task yields.
fn turns(runtime: Runtime) -> Start {
    Box::new(move || {
        let runtime = runtime;
        Box::new(move |_| runtime.block_on(tokio::task::yield_now()))
    })
}
