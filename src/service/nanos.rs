//! Nanos: times in nanoseconds since the origin of the service's clock, for what is built on a service.
//!
//! An `Instant` cannot stand for them: a clock that runs on while the machine is suspended moves against it.

use super::TimerHandle;
use super::id::TimerId;
use super::task::IntoPayload;
use crate::error::ScheduleError;
use std::time::Instant;

impl<T: Send + 'static> TimerHandle<T> {
    /// What time it is. Rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        self.inner.clock.now_ns()
    }

    /// Now, or up to 1 us later: to compute a deadline from. Half the cost of [`now_ns`](Self::now_ns).
    #[inline]
    pub(crate) fn soon_ns(&self) -> u64 {
        let inner = &self.inner;
        inner.cells.with_local(|local| inner.clock.arming_now_ns(&mut local.anchor))
    }

    /// Whether it is this time or later.
    pub(crate) fn is_over(&self, at_ns: u64) -> bool {
        // Most of the time the cheaper reading shows that it is not.
        self.soon_ns() >= at_ns && self.now_ns() >= at_ns
    }

    /// The time of an `Instant`; that of the last tick, should the instant come after it.
    pub(crate) fn instant_ns(&self, instant: Instant) -> u64 {
        let (at_ns, tick) = (self.inner.clock.instant_ns(instant), self.inner.tick);
        at_ns.min(tick.start(tick.deadline(at_ns)))
    }

    /// [`schedule_at`](Self::schedule_at) for such a time.
    pub(crate) fn schedule_at_ns(&self, at_ns: u64, payload: impl IntoPayload<T>) -> Result<TimerId, ScheduleError<T>> {
        self.inner.arm(payload.into_payload(), None, |now_ns| at_ns.max(now_ns + 1))
    }

    /// [`reschedule_at`](Self::reschedule_at) for such a time.
    pub(crate) fn reschedule_at_ns(&self, id: TimerId, at_ns: u64) -> bool {
        self.inner.rearm(id, |now_ns| at_ns.max(now_ns + 1))
    }
}
