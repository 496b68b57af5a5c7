//! Look: what can be asked of timers that wait. Snapshots: by the time you look at an answer it may have changed.

use super::TimerHandle;
use super::id::TimerId;
use super::inner::Inner;
use crate::shard::Count;
use std::time::{Duration, Instant};

impl<T: Send + 'static> TimerHandle<T> {
    /// What time it is by the service's clock: that of the system, or the [`ManualClock`](crate::ManualClock) that drives it.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(service.now(), clock.now());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        self.inner.clock.instant(self.inner.clock.now_ns())
    }

    /// Whether a timer still waits: it has not fired, and was not cancelled or handed back; or it is a periodic timer that runs. By the time you look at the
    /// answer it may have.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert!(service.is_pending(id));
    /// service.cancel(id);
    /// assert!(!service.is_pending(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_pending(&self, id: TimerId) -> bool {
        let inner = &*self.inner;
        inner.cells.with_local(|local| inner.cells.is_pending(local, id))
    }

    /// What is left until a timer's deadline, which is a whole tick; zero if it is due. `None` where [`is_pending`](Self::is_pending) says `false`. Of a
    /// periodic timer that runs: zero.
    ///
    /// Of a timer that shares its thread's reading of the clock ([`schedule`](Self::schedule)) it may be some less than is left.
    ///
    /// Costs two looks at the timer's cell. While another thread moves the timer it waits for it, some nanoseconds.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert!(service.remaining(id).unwrap() > Duration::from_secs(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self, id: TimerId) -> Option<Duration> {
        let deadline = self.inner.deadline_of(id)?;
        Some(self.inner.until(deadline))
    }

    /// A timer's deadline, rounded up to a tick as it fires. Otherwise like [`remaining`](Self::remaining).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let at = Instant::now() + Duration::from_secs(5);
    /// let id = service.schedule_at(at, || ())?;
    /// assert!(service.deadline(id).unwrap() >= at);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadline(&self, id: TimerId) -> Option<Instant> {
        let deadline = self.inner.deadline_of(id)?;
        Some(self.inner.clock.instant(self.inner.tick.start(deadline)))
    }

    /// When a shard has something to do next, as of its last turn: at or before the earliest deadline of its timers. `None`: it has none (or there is no such
    /// shard). Timers that it has not taken in yet are not in it.
    ///
    /// It may be before the earliest deadline where a timer was cancelled or moved, or where many timers lie in one slot of the wheel, which is sorted ahead
    /// of time. Costs a look at a counter.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).shards(1).start()?;
    /// assert_eq!(service.next_deadline(0), None);
    /// service.schedule(Duration::from_secs(5), || ())?;
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(service.next_deadline(0), Some(clock.now() + Duration::from_secs(5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn next_deadline(&self, shard: usize) -> Option<Instant> {
        if self.inner.cells.core.is_stopped() {
            return None;
        }
        let next = self.inner.counters.get(shard)?.get(Count::NextEvent).checked_sub(1)?;
        Some(self.inner.clock.instant(self.inner.tick.start(next)))
    }

    /// The timers that wait in a shard, each with what is left until its deadline, in no order. One that is armed, moved or ends meanwhile may be
    /// there or not; no timer comes twice. Of a shard that there is not: nothing.
    ///
    /// Cost: some nanoseconds for each cell that was ever in use, in all shards; shards and callers are not held up.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().shards(1).start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// let pending: Vec<_> = service.pending(0).collect();
    /// assert_eq!(pending[0].0, id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending(&self, shard: usize) -> impl Iterator<Item = (TimerId, Duration)> + '_ {
        let inner = &*self.inner;
        inner.cells.indices().filter_map(move |cell| {
            let (id, place) = inner.cells.with_local(|local| inner.cells.look_at(local, cell))?;
            (place.shard() == shard).then(|| (id, inner.until(place.deadline())))
        })
    }
}

impl<T: Send + 'static> Inner<T> {
    fn deadline_of(&self, id: TimerId) -> Option<u64> {
        self.cells.with_local(|local| self.cells.look(local, id)).map(|place| place.deadline())
    }

    /// From now to the beginning of a tick.
    pub(super) fn until(&self, deadline: u64) -> Duration {
        Duration::from_nanos(self.tick.start(deadline).saturating_sub(self.clock.now_ns()))
    }
}
