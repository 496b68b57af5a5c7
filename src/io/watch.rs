//! Watch: the limits of one stream, and the one timer that all of them share.
//!
//! Owned by its stream, so one thread at a time calls it. The timer wakes tasks from another
//! thread, by way of [`Wakers`].
//!
//! Bytes move no timer. They only note a time, or end a wait. The timer fires at the earliest time
//! that could have been over when it was last set, and wakes the tasks of both ways. Each looks:
//! either a limit is over, or the timer is set to the earliest limit of this way. It is moved to an
//! earlier time only if a way waits whose limit is over before the time of the timer.
//!
//! Invariant: the timer is set to no later time than that of each limit of a way that waits, or the
//! task of that way has been woken and will look.

use super::limits::{ElapsedLimit, Limits};
use super::wakers::{Wakers, Way};
use crate::future::{Sleep, Timers};
use crate::time::later;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Watch {
    limits: Limits,
    timers: Timers,
    begun: Instant,
    /// When bytes last went either way, if there is an idle limit.
    moved: Instant,
    /// Since when a read and a write wait, if they have limits.
    reads_since: Option<Instant>,
    writes_since: Option<Instant>,
    /// Made at the first wait.
    sleep: Option<Sleep>,
    wakers: Arc<Wakers>,
    /// Made of `wakers`.
    waker: Waker,
}

impl Watch {
    pub(super) fn new(timers: &Timers, limits: Limits) -> Self {
        let (begun, wakers) = (timers.handle().now(), Arc::<Wakers>::default());
        Self {
            limits,
            timers: timers.clone(),
            begun,
            moved: begun,
            reads_since: None,
            writes_since: None,
            sleep: None,
            waker: wakers.clone().into(),
            wakers,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Tasks that wait look again, with the new limits.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        if self.limits.idle.is_none() {
            // Nothing was noted so far.
            self.moved = self.now();
        }
        // A limit that is set again later does not count a wait of before.
        if limits.read.is_none() {
            self.reads_since = None;
        }
        if limits.write.is_none() {
            self.writes_since = None;
        }
        self.limits = limits;
        self.wakers.wake_all();
    }

    /// Whether the limit of the whole stream lets a read or a write begin.
    pub(super) fn begin(&self) -> io::Result<()> {
        match self.limits.max_age {
            Some(age) if self.now() >= later(self.begun, age) => Err(ElapsedLimit::Age.into()),
            _ => Ok(()),
        }
    }

    /// What a poll of the stream gave, or an error if it has waited for too long.
    pub(super) fn end<R>(
        &mut self,
        way: Way,
        context: &Context<'_>,
        outcome: Poll<io::Result<R>>,
        bytes: impl FnOnce(&R) -> usize,
    ) -> Poll<io::Result<R>> {
        match outcome {
            Poll::Ready(outcome) => {
                *self.since(way) = None;
                if self.limits.idle.is_some() && outcome.as_ref().is_ok_and(|done| bytes(done) > 0)
                {
                    self.moved = self.now();
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => self.wait(way, context).map(|over| Err(over.into())),
        }
    }

    fn wait(&mut self, way: Way, context: &Context<'_>) -> Poll<ElapsedLimit> {
        let limit = match way {
            Way::Read => self.limits.read,
            Way::Write => self.limits.write,
        };
        if limit.is_some() && self.since(way).is_none() {
            *self.since(way) = Some(self.now());
        }
        // Without a limit too: one may be set while the task waits.
        self.wakers.of(way).register(context.waker());
        let Some((over_at, which)) = self.earliest(way) else {
            return Poll::Pending;
        };
        let mut sleep = match self.sleep.take() {
            Some(sleep) => sleep,
            None => self.timers.sleep_until(over_at),
        };
        if sleep.deadline() > over_at {
            sleep.reset_at(over_at);
        }
        let outcome = loop {
            let of_timer = &mut Context::from_waker(&self.waker);
            if Pin::new(&mut sleep).poll(of_timer).is_pending() {
                break Poll::Pending;
            }
            let fired_at = sleep.deadline();
            if fired_at >= over_at {
                break Poll::Ready(which);
            }
            // It was the time of the other way, or one that bytes have renewed. If the other way
            // still waits, its task sets the timer to its own limit.
            sleep.reset_at(over_at);
            self.wakers.of(way.other()).wake();
        };
        self.sleep = Some(sleep);
        outcome
    }

    /// The limit of this way that is over first.
    fn earliest(&self, way: Way) -> Option<(Instant, ElapsedLimit)> {
        let of_way = match way {
            Way::Read => (self.reads_since.zip(self.limits.read), ElapsedLimit::Read),
            Way::Write => (
                self.writes_since.zip(self.limits.write),
                ElapsedLimit::Write,
            ),
        };
        let idle = self.limits.idle.map(|limit| (self.moved, limit));
        let age = self.limits.max_age.map(|limit| (self.begun, limit));
        [of_way, (idle, ElapsedLimit::Idle), (age, ElapsedLimit::Age)]
            .into_iter()
            .filter_map(|(since, which)| Some((since?, which)))
            .map(|((since, limit), which)| (later(since, limit), which))
            .min_by_key(|(at, _)| *at)
    }

    fn since(&mut self, way: Way) -> &mut Option<Instant> {
        match way {
            Way::Read => &mut self.reads_since,
            Way::Write => &mut self.writes_since,
        }
    }

    fn now(&self) -> Instant {
        self.timers.handle().now()
    }
}
