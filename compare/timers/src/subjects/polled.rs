//! Timers that are futures: polled once to register them, dropped to cancel them. A thread of their
//! own crate's drives them, and does nothing else.

use super::wakers::waker;
use super::{Producer, Subject, runtime};
use crate::name::Name;
use std::future::{Future, Pending, pending};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

/// Whose futures they are.
pub(crate) trait Futures: 'static {
    type Timer: Send;

    /// A timer that was polled once.
    fn arm(delay: Duration, waker: &Waker) -> Self::Timer;

    /// Another timer, where it cannot be moved.
    fn rearm(timer: &mut Self::Timer, delay: Duration) {
        *timer = Self::arm(delay, Waker::noop());
    }

    /// What they need around them.
    fn runtime() -> Option<Handle> {
        None
    }

    /// See [`Subject::settle`].
    fn settle() {}

    /// See [`Subject::rings`]. Starts the service, if there is one.
    fn rings() -> Option<u64> {
        None
    }
}

/// One that is over before it was polled, since its thread was held up, has fired too.
fn polled<F: Future + ?Sized>(mut future: Pin<Box<F>>, waker: &Waker) -> Pin<Box<F>> {
    let polled = future.as_mut().poll(&mut Context::from_waker(waker));
    if polled.is_ready() {
        waker.wake_by_ref();
    }
    future
}

pub(crate) struct TokioSleeps;

impl Futures for TokioSleeps {
    type Timer = Pin<Box<Sleep>>;

    fn arm(delay: Duration, waker: &Waker) -> Self::Timer {
        polled(Box::pin(tokio::time::sleep(delay)), waker)
    }

    fn rearm(timer: &mut Self::Timer, delay: Duration) {
        timer.as_mut().reset(Instant::now() + delay);
    }

    fn runtime() -> Option<Handle> {
        Some(runtime::driven())
    }
}

/// One of these until a time, for a timer that is due then.
pub(super) fn sleep_until(time: std::time::Instant, due_ns: u64) -> Pin<Box<Sleep>> {
    polled(
        Box::pin(tokio::time::sleep_until(time.into())),
        &waker(due_ns),
    )
}

/// Timeouts around a future that is never ready.
pub(crate) struct TokioTimeouts;

impl Futures for TokioTimeouts {
    type Timer = Pin<Box<tokio::time::Timeout<Pending<()>>>>;

    fn arm(delay: Duration, waker: &Waker) -> Self::Timer {
        polled(Box::pin(tokio::time::timeout(delay, pending())), waker)
    }

    fn runtime() -> Option<Handle> {
        Some(runtime::driven())
    }
}

/// The same by wheelwork.
pub(crate) struct OurTimeouts;

impl Futures for OurTimeouts {
    type Timer = Pin<Box<wheelwork::future::Timeout<Pending<()>>>>;

    fn arm(delay: Duration, waker: &Waker) -> Self::Timer {
        polled(
            Box::pin(wheelwork::future::timeout(delay, pending())),
            waker,
        )
    }

    fn runtime() -> Option<Handle> {
        Some(runtime::driven())
    }

    fn rings() -> Option<u64> {
        super::wheelwork::rings_of_futures()
    }
}

/// pingora-timeout's sleep: timers on a grid of 10 ms, each thread's in a tree of its own, and a
/// thread that looks at all of them.
pub(crate) struct Pingora;

impl Futures for Pingora {
    type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn arm(delay: Duration, waker: &Waker) -> Self::Timer {
        polled(Box::pin(pingora_timeout::sleep(delay)), waker)
    }
}

/// async-io's `Timer`: a tree of exact deadlines behind a queue of operations, and a thread that
/// waits for them in the poller.
pub(crate) struct AsyncIo;

/// The delay of the timer that shows that everything has been taken in. It must not be over before
/// it is registered.
const SHORTLY: Duration = Duration::from_micros(100);

/// One that was polled once, and whether it was over by then.
fn registered(delay: Duration, waker: &Waker) -> (async_io::Timer, bool) {
    let mut timer = async_io::Timer::after(delay);
    let polled = Pin::new(&mut timer).poll(&mut Context::from_waker(waker));
    (timer, polled.is_ready())
}

impl Futures for AsyncIo {
    type Timer = async_io::Timer;

    fn arm(delay: Duration, waker: &Waker) -> Self::Timer {
        let (timer, is_over) = registered(delay, waker);
        if is_over {
            waker.wake_by_ref();
        }
        timer
    }

    fn rearm(timer: &mut Self::Timer, delay: Duration) {
        timer.set_after(delay);
    }

    fn settle() {
        // Operations are handled in order, and a timer fires when its own was. One that was over
        // too soon says nothing.
        loop {
            let (tell, told) = mpsc::channel();
            let _timer = registered(SHORTLY, &Arc::new(Settled(tell)).into());
            if told.recv().is_ok() {
                return;
            }
        }
    }
}

struct Settled(Sender<()>);

impl Wake for Settled {
    fn wake(self: Arc<Self>) {
        // Nobody listens any more: all the same.
        let _ = self.0.send(());
    }
}

pub(crate) struct Polled<F>(Option<Handle>, PhantomData<fn() -> F>);

pub(crate) struct PolledProducer<F>(PhantomData<fn() -> F>);

impl<F: Futures> Subject for Polled<F> {
    type Producer = PolledProducer<F>;

    fn start(_: Name) -> Self {
        F::rings();
        let runtime = F::runtime();
        let entered = runtime.as_ref().map(Handle::enter);
        // A thread of the timers' own starts with the first of them, on the cores of the thread
        // that arms it. This thread is not pinned, and producers are.
        drop(F::arm(Duration::from_secs(3_600), Waker::noop()));
        drop(entered);
        Self(runtime, PhantomData)
    }

    fn within(&self, work: impl FnOnce(&mut PolledProducer<F>)) {
        let _entered = self.0.as_ref().map(Handle::enter);
        work(&mut PolledProducer(PhantomData));
    }

    fn settle(&self) {
        F::settle();
    }

    fn rings(&self) -> Option<u64> {
        F::rings()
    }
}

impl<F: Futures> Producer for PolledProducer<F> {
    type Handle = F::Timer;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> F::Timer {
        F::arm(delay, &waker(due_ns))
    }

    fn cancel(&mut self, handle: F::Timer) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut F::Timer, delay: Duration) {
        F::rearm(handle, delay);
    }
}
