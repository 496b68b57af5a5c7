//! Deadlines that move, by choice of timers.

use clap::ValueEnum;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::Context;
use std::time::Duration;
use wheelwork::{Batch, TimerId, TimerService};

/// A deadline that moves.
pub(crate) trait Deadline: Send + 'static {
    fn after(time: Duration) -> Self;

    /// Moves it to so long from now. Its task waits for it afterwards.
    fn reset(self: Pin<&mut Self>, time: Duration);

    /// Its task waits for it, if it is a future. Should it be over after all, the next message
    /// moves it.
    fn wait(self: Pin<&mut Self>, _: &mut Context<'_>) {}
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// No timers: what all else costs
    None,
    /// tokio's `Sleep::reset`
    Tokio,
    /// pingora-timeout's `sleep`, a new one at each reset
    Pingora,
    /// wheelwork's `Sleep::reset`
    Wheelwork,
    /// wheelwork without futures: `TimerService::reschedule`
    WheelworkIds,
}

/// It is never over.
pub(crate) struct Never;

impl Deadline for Never {
    fn after(_: Duration) -> Self {
        Self
    }

    fn reset(self: Pin<&mut Self>, _: Duration) {}
}

impl Deadline for tokio::time::Sleep {
    fn after(time: Duration) -> Self {
        tokio::time::sleep(time)
    }

    fn reset(self: Pin<&mut Self>, time: Duration) {
        self.reset(tokio::time::Instant::now() + time);
    }

    fn wait(self: Pin<&mut Self>, context: &mut Context<'_>) {
        let _ = self.poll(context);
    }
}

/// It can't be moved: each reset makes a new one. Boxed, since the type of a `sleep` has no name.
pub(crate) struct PingoraDeadline(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Deadline for PingoraDeadline {
    fn after(time: Duration) -> Self {
        Self(Box::pin(pingora_timeout::sleep(time)))
    }

    fn reset(mut self: Pin<&mut Self>, time: Duration) {
        *self = Self::after(time);
    }

    fn wait(mut self: Pin<&mut Self>, context: &mut Context<'_>) {
        let _ = self.0.as_mut().poll(context);
    }
}

impl Deadline for wheelwork::future::Sleep {
    fn after(time: Duration) -> Self {
        wheelwork::future::sleep(time)
    }

    fn reset(self: Pin<&mut Self>, time: Duration) {
        self.get_mut().reset(time);
    }

    fn wait(self: Pin<&mut Self>, context: &mut Context<'_>) {
        let _ = self.poll(context);
    }
}

/// A timer with a connection's number. Its handler closes what is over, so nobody polls for that.
pub(crate) struct WheelworkId(TimerId);

fn service() -> &'static TimerService<u64> {
    static SERVICE: OnceLock<TimerService<u64>> = OnceLock::new();
    let close = |batch: &mut Batch<'_, u64>| batch.for_each(|connection| _ = black_box(connection));
    SERVICE.get_or_init(|| {
        TimerService::builder()
            .on_expire(close)
            .start()
            .expect("a service starts")
    })
}

impl Deadline for WheelworkId {
    fn after(time: Duration) -> Self {
        Self(service().schedule(time, 0u64).expect("the service runs"))
    }

    fn reset(self: Pin<&mut Self>, time: Duration) {
        service().reschedule(self.0, time);
    }
}
