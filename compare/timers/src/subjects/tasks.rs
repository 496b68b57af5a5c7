//! A task of tokio's for each timer, which waits for it again and again: by wheelwork's futures,
//! tokio's and others, so that only the timer differs.

use super::{Producer, Subject, runtime};
use crate::ledger::{self, PERIOD};
use crate::name::Name;
use fastrand::Rng;
use std::future::Future;
use std::marker::PhantomData;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Whose futures they are.
pub(crate) trait Timers: 'static {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send;

    /// Tells the ledger each period. By sleeps, where there is no better way.
    fn every(mut due_ns: u64) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                Self::sleep(ledger::delay_until(due_ns)).await;
                due_ns = ledger::fired_again(due_ns);
            }
        }
    }

    /// See [`Subject::rings`]. Starts the service, if there is one.
    fn rings() -> Option<u64> {
        None
    }
}

pub(crate) struct Ours;

impl Timers for Ours {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send {
        wheelwork::future::sleep(delay)
    }

    async fn every(mut due_ns: u64) {
        let first = ledger::delay_until(due_ns);
        let mut interval = wheelwork::future::interval(PERIOD).first(first);
        loop {
            interval.tick().await;
            due_ns = ledger::fired_again(due_ns);
        }
    }

    fn rings() -> Option<u64> {
        super::wheelwork::rings_of_futures()
    }
}

pub(crate) struct Tokios;

impl Timers for Tokios {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(delay)
    }

    async fn every(mut due_ns: u64) {
        let delay = ledger::delay_until(due_ns);
        // After the delay was computed: else the timer may be early.
        let start = Instant::now() + delay;
        let mut interval = tokio::time::interval_at(start.into(), PERIOD);
        loop {
            interval.tick().await;
            due_ns = ledger::fired_again(due_ns);
        }
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

pub(crate) struct Tasks<T>(Handle, PhantomData<fn() -> T>);

impl<T: Timers> Subject for Tasks<T> {
    const TASKS: bool = true;

    type Producer = Self;

    fn start(_: Name) -> Self {
        T::rings();
        Self(runtime::driven(), PhantomData)
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
            ledger::fired(due_ns);
        });
    }

    fn cancel(&mut self, (): ()) {}

    fn rearm(&mut self, (): &mut (), _: Duration) {}

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        self.0.spawn(T::every(due_ns));
        Ok(())
    }

    fn wander(&mut self, mut rng: Rng, delay: fn(&mut Rng) -> Duration) -> Result<(), String> {
        self.0.spawn(async move {
            loop {
                let delay = delay(&mut rng);
                let due_ns = ledger::now_ns() + delay.as_nanos() as u64;
                T::sleep(delay).await;
                ledger::fired(due_ns);
            }
        });
        Ok(())
    }
}
