//! pingora-timeout's sleeps: timers on a grid of 10 ms, each thread's in a tree of its own. The
//! thread that looks at all trees is the crate's own, acts as no core, and so is not counted.

use super::Subject;
use super::polled::polled;
use std::pin::Pin;
use std::time::Duration;
use wheelwork_coherence::Start;

pub(crate) struct Pingora;

impl Subject for Pingora {
    type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;
    type Entered = ();

    const IS_OPEN: bool = false;
    const DROP_CANCELS: bool = true;

    fn start(_: usize, _: usize) -> (&'static Self, Vec<Start>) {
        (&Self, Vec::new())
    }

    fn enter(&'static self) {}

    fn pass(&self) {}

    fn arm(&self, delay: Duration) -> Self::Timer {
        polled(Box::pin(pingora_timeout::sleep(delay)))
    }

    fn cancel(&self, timer: Self::Timer) {
        drop(timer);
    }

    fn rearm(&self, timer: &mut Self::Timer, delay: Duration) {
        *timer = self.arm(delay);
    }
}
