//! Pause: the calls that pause a timer and let it go on. `engine/life/pausing.rs` has the steps.

use super::handle::ServiceHandle;
use crate::cell::Left;
use crate::engine::id::TimerId;
#[cfg(feature = "async")]
use crate::error::ScheduleError;
use crate::time::Nanos;

impl<T: Send + 'static> ServiceHandle<T> {
    /// Pauses a timer: it does not fire until [`resume`](Self::resume), which goes on with the time
    /// that is left now.
    ///
    /// `true`: the timer is paused. Its id stays valid. `false`: nothing has changed. The timer is
    /// paused already ([`is_paused`](Self::is_paused) tells), or it has fired (or is about to), was
    /// cancelled or handed back, or the id belongs to another service. If two threads pause a timer
    /// at the same time, one of the calls returns `true`.
    ///
    /// A paused timer is pending. It counts against [`max_pending`](crate::Builder::max_pending),
    /// can be cancelled and taken, and wakes no shard, except perhaps once at its old deadline.
    ///
    ///  - [`remaining`](Self::remaining) and [`pending`](Self::pending) give what is left, to the
    ///    nanosecond; zero for a timer for a time of day, or of a calendar.
    ///    [`deadline`](Self::deadline) is `None`.
    ///  - [`reschedule`](Self::reschedule) sets what is left, and the timer stays paused.
    ///  - A stop hands it back with what is left. A stop that fires all fires it too. A drain does
    ///    not wait for it. A periodic timer, or one of a calendar, ends at a stop.
    ///  - A periodic timer that runs just now does not run again until it is resumed. What is left
    ///    then is counted from the end of the run. If that run is its last one, the timer ends
    ///    all the same.
    ///  - A timer for a time of day, or of a calendar, looks at the wall clock when it is resumed.
    ///    If its time has come meanwhile, a timer for a time of day runs then. A calendar does what
    ///    its policy for missed runs says.
    ///
    /// What is left is counted from the deadline that [`deadline`](Self::deadline) gives, with the
    /// exception that [`remaining`](Self::remaining) names.
    ///
    /// Any thread may call this. It takes no lock, with the exceptions that
    /// [`cancel`](Self::cancel) names. Cost: a reading of the clock, two compare-and-swaps and one
    /// message. If another thread moves, pauses or resumes the timer at that moment, the call
    /// sleeps for some 0.1 ms at a time, until that thread goes on.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// let id = service.schedule(Duration::from_secs(10), || println!("the game is over"))?;
    /// clock.advance(Duration::from_secs(4));
    /// assert!(service.pause(id));
    /// clock.advance(Duration::from_secs(3_600));
    /// assert_eq!(service.remaining(id), Some(Duration::from_secs(6)));
    /// assert!(service.resume(id));
    /// clock.advance(Duration::from_secs(6));
    /// assert!(!service.is_pending(id), "it has fired");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self, id: TimerId) -> bool {
        self.engine.halt(id)
    }

    /// Lets a timer go on that is paused: it fires when what was left of it has passed, rounded up
    /// to a tick. If nothing was left it fires at once, or at the next tick.
    ///
    /// `true`: the timer goes on. `false`: nothing has changed. The timer is not paused, or it is
    /// gone.
    ///
    /// However often a timer is paused, the rounding does not add up, over the runs of a periodic
    /// timer either. A periodic timer of a fixed rate goes on with its period from the run that was
    /// left.
    ///
    /// Cost: as [`schedule`](Self::schedule), and another compare-and-swap. It may wait as
    /// [`pause`](Self::pause) does.
    ///
    /// # Example
    /// See [`pause`](Self::pause).
    pub fn resume(&self, id: TimerId) -> bool {
        self.engine.resume(id, |now, left| match left {
            Left {
                over_ns: 0,
                left_ns,
            } => now + left_ns.max(1),
            // (Its tick may have come. Then it is due at once.)
            Left { over_ns, .. } => Nanos(now.0.saturating_sub(over_ns).max(1)),
        })
    }

    /// Whether a timer is paused. `false` if it is gone, too. Cost: as
    /// [`remaining`](Self::remaining).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(10), || ())?;
    /// assert!(!service.is_paused(id));
    /// service.pause(id);
    /// assert!(service.is_paused(id) && service.is_pending(id));
    /// assert!(!service.pause(id), "it is paused already");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_paused(&self, id: TimerId) -> bool {
        self.engine.is_paused(id)
    }

    /// [`resume`](Self::resume), to a time in nanoseconds since the clock's origin.
    #[cfg(feature = "async")]
    pub(crate) fn resume_at_ns(&self, id: TimerId, at_ns: u64) -> bool {
        self.engine.resume(id, |now, _| Nanos(at_ns).max(now + 1))
    }

    /// Arms a timer that is paused from the beginning, and has this time left.
    #[cfg(feature = "async")]
    pub(crate) fn schedule_paused(
        &self,
        left_ns: u64,
        payload: T,
    ) -> Result<TimerId, ScheduleError<T>> {
        self.engine.arm_paused(payload, left_ns)
    }
}
