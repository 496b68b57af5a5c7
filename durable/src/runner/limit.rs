//! Limit: LimitBegin and LimitEnd, how long one attempt may take.
//!
//! A future is dropped when its limit is over, and so is told by an alarm: a timer of the window's
//! service, whose ticket the future's task polls. All other handlers look at their delivery, and
//! what they answer counts.

use crate::handler::delivery::Delivery;
use crate::handler::limit::Limit;
use crate::queue::fired::Fired;
use crate::queue::link::DurableShared;
use crate::queue::ticket::{Ticket, ticket};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::DurableId;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wheelwork::TimerId;

/// How long an attempt may take. `of_kind`: the limit of its kind, which the timer's own comes
/// before.
pub(super) fn limit_of(of_kind: Option<Duration>, delivery: &Delivery) -> Option<Duration> {
    delivery.row.time_limit().or(of_kind)
}

/// LimitBegin: an attempt begins. From now on its delivery has a limit, if there is one.
pub(super) fn begin_limit(
    shared: &DurableShared,
    of_kind: Option<Duration>,
    delivery: &mut Delivery,
) {
    let lasts = limit_of(of_kind, delivery);
    delivery.limit = lasts.map(|lasts| Arc::new(Limit::begin(lasts, shared.limit_clock())));
}

/// LimitEnd, of a handler that has answered: counts it if it has taken too long.
pub(super) fn note_over_time(shared: &DurableShared, delivery: &Delivery) {
    if delivery.is_over_time() {
        shared.counts.note_over_time();
        #[cfg(feature = "tracing")]
        crate::queue::events::over_time(delivery);
    }
}

/// What wakes a future whose limit is over.
pub(super) struct Alarm {
    /// `None`: the service has stopped.
    timer: Option<TimerId>,
    /// It is told when the limit is over. `None`: it will not be told, and the stop wakes the task.
    rings: Option<Ticket<()>>,
}

impl Alarm {
    /// Sets the alarm of an attempt that has begun. `None`: it has no limit.
    pub(super) fn set(shared: &DurableShared, delivery: &Delivery) -> Option<Self> {
        let limit = delivery.limit.as_ref()?;
        let (teller, rings) = ticket();
        let timer = shared.schedule(limit.lasts, Fired::Limit(teller));
        let rings = timer.is_some().then_some(rings);
        Some(Self { timer, rings })
    }

    /// LimitEnd, of a future that is polled: whether it has taken too long. If not, its task is
    /// woken then.
    pub(super) fn is_over(
        &mut self,
        shared: &DurableShared,
        delivery: &Delivery,
        context: &mut Context<'_>,
    ) -> bool {
        let told = self
            .rings
            .as_mut()
            .map(|rings| Pin::new(rings).poll(context));
        let has_rung = matches!(told, Some(Poll::Ready(Ok(()))));
        if matches!(told, Some(Poll::Ready(_))) {
            // (Or a stop has ended it.)
            self.rings = None;
        }
        let is_over = has_rung || delivery.is_over_time();
        if !is_over
            && self.rings.is_none()
            && let Some(limit) = &delivery.limit
        {
            shared
                .futures
                .wake_at(attempt_of(delivery), limit, context.waker());
        }
        is_over && !is_broken(DurableFault::LimitForgotten)
    }

    /// The attempt has ended.
    pub(super) fn clear(self, shared: &DurableShared, delivery: &Delivery) {
        match self.rings {
            Some(rings) => rings.forget(),
            None => shared.futures.forget_limit(attempt_of(delivery)),
        }
        if let Some(timer) = self.timer {
            shared.unschedule(timer);
        }
    }
}

/// What names an attempt in this process.
const fn attempt_of(delivery: &Delivery) -> (DurableId, u64) {
    (delivery.row.id, delivery.fence)
}
