//! Nanos: times in nanoseconds since the origin of the service's clock, for what is built on a
//! service.
//!
//! An `Instant` cannot stand for them: a clock that runs on while the machine is suspended moves
//! against it.

use super::TimerHandle;
use super::id::TimerId;
use super::task::IntoPayload;
use crate::error::ScheduleError;
use crate::time::TickLength;
use std::time::Instant;

impl<T: Send + 'static> TimerHandle<T> {
    /// What time it is. Rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        self.inner.clock.now_ns()
    }

    /// Now, or up to 1 us later: to compute a deadline from. Half the cost of
    /// [`now_ns`](Self::now_ns).
    #[inline]
    pub(crate) fn soon_ns(&self) -> u64 {
        let inner = &self.inner;
        inner.cells.with_local(|local| inner.clock.arming_now_ns(&mut local.anchor))
    }

    /// The time of an `Instant`.
    pub(crate) fn instant_ns(&self, instant: Instant) -> u64 {
        self.inner.clock.instant_ns(instant)
    }

    /// The `Instant` of a time.
    pub(crate) fn instant(&self, at_ns: u64) -> Instant {
        self.inner.clock.instant(at_ns)
    }

    /// The service's ticks: a timer fires at the first one at or after its time.
    pub(crate) fn ticks(&self) -> TickLength {
        self.inner.tick
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
