//! Reschedule: the calls that move a timer. `engine/life/arm.rs` has the steps.

use super::handle::ServiceHandle;
use crate::engine::id::TimerId;
use crate::time;
use crate::time::Nanos;
use std::time::{Duration, Instant};

impl<T: Send + 'static> ServiceHandle<T> {
    /// Moves a timer's deadline to now + `delay`.
    ///
    /// `true`: the timer will not fire at its old deadline. Its id stays valid. `false`: nothing
    /// has changed. The timer has fired (or is about to), was cancelled or handed back, or the id
    /// belongs to another service; or it is a periodic timer whose run is in progress. (A run that
    /// waits for a worker is moved too, and does not come.) A timer for a time of day looks at the
    /// wall clock once a minute: while it does, the answer may be `false` too.
    ///
    /// A timer that is [paused](Self::pause) stays so. What is left of it is then the time until
    /// the new deadline, which is a whole tick.
    ///
    /// A periodic timer is moved with all its later runs, unless it is to be due at the tick at
    /// which it is due already. If two threads move a timer at the same time, one call takes
    /// effect after the other; each counts from its own reading of the clock.
    ///
    /// Lock-free, from any thread, with the exceptions that [`cancel`](Self::cancel) names. Also,
    /// if another thread is just [pausing](Self::pause) or resuming this timer, the call waits for
    /// that thread. Cost: a later deadline costs one compare-and-swap and no message; the shard
    /// learns of it when the old deadline comes, by a message from a worker. An earlier deadline
    /// costs two messages. So does one that is more than 262,143 ticks after the tick at which the
    /// timer is filed.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let idle = service.schedule(Duration::from_secs(60), || println!("connection is idle"))?;
    /// // Something came in:
    /// assert!(service.reschedule(idle, Duration::from_secs(60)));
    /// service.cancel(idle);
    /// assert!(!service.reschedule(idle, Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn reschedule(&self, id: TimerId, delay: Duration) -> bool {
        let delay_ns = time::nanos(delay).max(1);
        self.engine.rearm(id, |now| now + delay_ns)
    }

    /// Moves a timer's deadline to a point in time. If that has passed, the timer fires at the next
    /// tick. Otherwise like [`reschedule`](Self::reschedule).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(60), || println!("now"))?;
    /// assert!(service.reschedule_at(id, Instant::now()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule_at(&self, id: TimerId, deadline: Instant) -> bool {
        let at_ns = self.engine.clock.instant_ns(deadline);
        self.engine.rearm(id, |now| Nanos(at_ns).max(now + 1))
    }

    /// [`reschedule_at`](Self::reschedule_at) for a time in nanoseconds since the clock's origin.
    #[cfg(feature = "async")]
    pub(crate) fn reschedule_at_ns(&self, id: TimerId, at_ns: u64) -> bool {
        self.engine.rearm(id, |now| Nanos(at_ns).max(now + 1))
    }
}
