//! tokio's `Sleep`: polled once to register it, dropped to cancel it. The runtime's time driver has a thread for itself.

use super::wakers::waker;
use super::{Producer, Subject};
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::Context;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, Sleep, sleep};

pub(crate) struct Tokio(Handle);

pub(crate) struct TokioProducer;

/// A runtime whose thread does nothing but drive its timers.
pub(crate) fn runtime() -> Handle {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let handle = runtime.handle().clone();
    let driver = move || runtime.block_on(pending::<()>());
    thread::Builder::new().name("tokio".to_string()).spawn(driver).expect("a thread can be spawned");
    handle
}

impl Subject for Tokio {
    type Producer = TokioProducer;

    fn start() -> Self {
        Self(runtime())
    }

    fn within(&self, work: impl FnOnce(&mut TokioProducer)) {
        let _entered = self.0.enter();
        work(&mut TokioProducer);
    }
}

impl Producer for TokioProducer {
    type Handle = Pin<Box<Sleep>>;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle {
        let mut timer = Box::pin(sleep(delay));
        let _ = timer.as_mut().poll(&mut Context::from_waker(&waker(due_ns)));
        timer
    }

    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        handle.as_mut().reset(Instant::now() + delay);
    }
}
