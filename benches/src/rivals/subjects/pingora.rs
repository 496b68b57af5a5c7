//! pingora-timeout's sleep: timers on a grid of 10 ms, each thread's in a tree of its own, and a thread that looks at all of them.

use super::wakers::waker;
use super::{Producer, Subject};
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

pub(crate) struct Pingora;

pub(crate) struct PingoraProducer;

impl Subject for Pingora {
    type Producer = PingoraProducer;

    fn start() -> Self {
        Self
    }

    fn within(&self, work: impl FnOnce(&mut PingoraProducer)) {
        work(&mut PingoraProducer);
    }
}

impl Producer for PingoraProducer {
    type Handle = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle {
        let mut timer: Self::Handle = Box::pin(pingora_timeout::sleep(delay));
        let _ = timer.as_mut().poll(&mut Context::from_waker(&waker(due_ns)));
        timer
    }

    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        *handle = self.arm(delay, 0);
    }
}
