//! async-io's `Timer`: a tree of exact deadlines behind a queue of operations, and a thread that waits for them in the poller.

use super::wakers::waker;
use super::{Producer, Subject};
use async_io::Timer;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// The delay of the timer that shows that everything has been taken in. It must not be over before it is registered.
const SHORTLY: Duration = Duration::from_micros(100);

pub(crate) struct AsyncIo;

pub(crate) struct AsyncIoProducer;

struct Settled(Sender<()>);

impl Wake for Settled {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more: all the same.
        let _ = self.0.send(());
    }
}

fn arm(delay: Duration, waker: &Waker) -> Timer {
    let mut timer = Timer::after(delay);
    let _ = Pin::new(&mut timer).poll(&mut Context::from_waker(waker));
    timer
}

impl Subject for AsyncIo {
    type Producer = AsyncIoProducer;

    fn start() -> Self {
        Self
    }

    fn within(&self, work: impl FnOnce(&mut AsyncIoProducer)) {
        work(&mut AsyncIoProducer);
    }

    fn settle(&self) {
        // Operations are handled in order, and a timer fires when its own was. One that was over too soon says nothing.
        loop {
            let (tell, told) = mpsc::channel();
            let _timer = arm(SHORTLY, &Arc::new(Settled(tell)).into());
            if told.recv().is_ok() {
                return;
            }
        }
    }
}

impl Producer for AsyncIoProducer {
    type Handle = Timer;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Timer {
        arm(delay, &waker(due_ns))
    }

    fn cancel(&mut self, handle: Timer) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut Timer, delay: Duration) {
        handle.set_after(delay);
    }
}
