//! Timers that are futures: polled once to register them, dropped to cancel them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

pub(super) fn polled<F: Future + ?Sized>(mut future: Pin<Box<F>>) -> Pin<Box<F>> {
    let _ = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    future
}
