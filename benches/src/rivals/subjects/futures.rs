//! Timers that are futures, by wheelwork, tokio and others, so that only the timer differs: in tasks
//! of a runtime of tokio's, or as timeouts that are polled once.

use super::tokio::runtime;
use super::wakers::waker;
use super::{Producer, Subject};
use crate::book::{self, PERIOD};
use crate::paced;
use fastrand::Rng;
use std::future::{Future, Pending, pending};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Whose futures they are.
pub(crate) trait Timers: 'static {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send;

    /// Tells the book each period. By sleeps, where there is no better way.
    fn every(mut due_ns: u64) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                Self::sleep(book::delay_until(due_ns)).await;
                book::fired(due_ns);
                due_ns = book::next_ns(due_ns);
            }
        }
    }

    /// See [`Subject::rings`]. Starts the service, if there is one.
    fn rings() -> Option<u64> {
        None
    }
}

/// Those that have timeouts around futures.
pub(crate) trait Timeouts: Timers {
    type Timeout: Future + Send;

    fn timeout(delay: Duration) -> Self::Timeout;
}

pub(crate) struct Ours;

impl Timers for Ours {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send {
        wheelwork::future::sleep(delay)
    }

    async fn every(mut due_ns: u64) {
        let mut interval = wheelwork::future::interval(PERIOD).first(book::delay_until(due_ns));
        loop {
            interval.tick().await;
            book::fired(due_ns);
            due_ns = book::next_ns(due_ns);
        }
    }

    fn rings() -> Option<u64> {
        let timers = wheelwork::future::Timers::global().expect("a service starts");
        Some(timers.handle().stats().sum(|shard| shard.rings))
    }
}

impl Timeouts for Ours {
    type Timeout = wheelwork::future::Timeout<Pending<()>>;

    fn timeout(delay: Duration) -> Self::Timeout {
        wheelwork::future::timeout(delay, pending())
    }
}

pub(crate) struct Tokios;

impl Timers for Tokios {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(delay)
    }

    async fn every(mut due_ns: u64) {
        let delay = book::delay_until(due_ns);
        // After the delay was computed: else the timer may be early.
        let start = Instant::now() + delay;
        let mut interval = tokio::time::interval_at(start.into(), PERIOD);
        loop {
            interval.tick().await;
            book::fired(due_ns);
            due_ns = book::next_ns(due_ns);
        }
    }
}

impl Timeouts for Tokios {
    type Timeout = tokio::time::Timeout<Pending<()>>;

    fn timeout(delay: Duration) -> Self::Timeout {
        tokio::time::timeout(delay, pending())
    }
}

pub(crate) struct AsyncIos;

impl Timers for AsyncIos {
    async fn sleep(delay: Duration) {
        async_io::Timer::after(delay).await;
    }
}

pub(crate) struct Pingoras;

impl Timers for Pingoras {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send {
        pingora_timeout::sleep(delay)
    }
}

/// A task for each timer, which waits for it again and again.
pub(crate) struct Tasks<T>(Handle, PhantomData<fn() -> T>);

impl<T: Timers> Subject for Tasks<T> {
    const TASKS: bool = true;

    type Producer = Self;

    fn start() -> Self {
        T::rings();
        Self(runtime(), PhantomData)
    }

    fn within(&self, work: impl FnOnce(&mut Self)) {
        work(&mut Self(self.0.clone(), PhantomData));
    }

    fn rings(&self) -> Option<u64> {
        T::rings()
    }
}

impl<T: Timers> Producer for Tasks<T> {
    type Handle = ();

    /// It is not cancelled.
    fn arm(&mut self, delay: Duration, due_ns: u64) {
        self.0.spawn(async move {
            T::sleep(delay).await;
            book::fired(due_ns);
        });
    }

    fn cancel(&mut self, (): ()) {}

    fn rearm(&mut self, (): &mut (), _: Duration) {}

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        self.0.spawn(T::every(due_ns));
        Ok(())
    }

    fn wander(&mut self, mut rng: Rng) -> Result<(), String> {
        self.0.spawn(async move {
            loop {
                let delay = paced::delay(&mut rng);
                let due_ns = book::now_ns() + delay.as_nanos() as u64;
                T::sleep(delay).await;
                book::fired(due_ns);
            }
        });
        Ok(())
    }
}

/// Timeouts around a future that is never ready: polled once to register them, dropped to cancel
/// them. The thread of the runtime does nothing else.
pub(crate) struct Polled<T>(Handle, PhantomData<fn() -> T>);

pub(crate) struct PolledProducer<T>(PhantomData<fn() -> T>);

impl<T: Timeouts> Subject for Polled<T> {
    type Producer = PolledProducer<T>;

    fn start() -> Self {
        T::rings();
        Self(runtime(), PhantomData)
    }

    fn within(&self, work: impl FnOnce(&mut PolledProducer<T>)) {
        let _entered = self.0.enter();
        work(&mut PolledProducer(PhantomData));
    }

    fn rings(&self) -> Option<u64> {
        T::rings()
    }
}

impl<T: Timeouts> Producer for PolledProducer<T> {
    type Handle = Pin<Box<T::Timeout>>;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle {
        let mut timeout = Box::pin(T::timeout(delay));
        let _ = timeout.as_mut().poll(&mut Context::from_waker(&waker(due_ns)));
        timeout
    }

    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn rearm(&mut self, handle: &mut Self::Handle, delay: Duration) {
        *handle = self.arm(delay, 0);
    }
}
