//! Inspect: what can be asked of a service and its timers. Each answer is a snapshot.
//!
//! A function whose name ends in `_ns` uses nanoseconds since the origin of the service's clock.
//! The rooms above the service use these, not `Instant`s: a clock that runs on while the machine is
//! suspended moves against an `Instant`.

use super::handle::ServiceHandle;
use crate::engine::figures::stats::Stats;
use crate::engine::id::TimerId;
use crate::shard::Count;
use crate::time::Tick;
#[cfg(feature = "async")]
use crate::time::{Clock, TickLength};
use std::time::{Duration, Instant, SystemTime};

/// A reading of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallReading {
    pub(crate) time: SystemTime,
    /// The service's time then.
    #[cfg(feature = "calendar")]
    pub(crate) now_ns: u64,
    /// How often a manual clock's time of day had been set.
    pub(crate) sets: u64,
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// Whether a timer is pending: it has not fired, and was neither cancelled nor handed back. A
    /// periodic timer is pending during its runs too, and a timer while it is
    /// [paused](Self::pause). The answer may be out of date when you look at it.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert!(service.is_pending(id));
    /// service.cancel(id);
    /// assert!(!service.is_pending(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_pending(&self, id: TimerId) -> bool {
        let engine = &*self.engine;
        engine
            .cells
            .with_local(|local| engine.cells.is_pending(local, id))
    }

    /// The time until a timer's deadline, which is a whole tick. Zero if the timer is due, and for
    /// a periodic timer that runs. Of a timer that is [paused](Self::pause), what is left. `None`
    /// where [`is_pending`](Self::is_pending) returns `false`.
    ///
    /// A timer that shares a reading of the clock with others of its thread (see
    /// [`schedule`](Self::schedule)) may be filed later than this says: by a tick, or, if the
    /// thread or the shard was held up just then, by that time. Then the answer is too short. The
    /// timer does not fire early.
    ///
    /// Cost: two looks at the timer's cell. If another thread moves, pauses or resumes the timer at
    /// that moment, the call sleeps for some 0.1 ms at a time, until that thread goes on.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert!(service.remaining(id).unwrap() > Duration::from_secs(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remaining(&self, id: TimerId) -> Option<Duration> {
        self.engine.remaining_of(id)
    }

    /// A timer's deadline, rounded up to a tick. A timer that is [paused](Self::pause) has none.
    /// Otherwise like [`remaining`](Self::remaining).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let at = Instant::now() + Duration::from_secs(5);
    /// let id = service.schedule_at(at, || ())?;
    /// assert!(service.deadline(id).unwrap() >= at);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadline(&self, id: TimerId) -> Option<Instant> {
        let deadline = Tick(self.engine.deadline_of(id)?);
        let start_ns = self.engine.tick.start(deadline).0;
        Some(self.engine.clock.instant(start_ns))
    }

    /// The number of pending timers: [`TimerCounts::pending`](crate::TimerCounts::pending) of all
    /// shards.
    ///
    /// A snapshot, summed over the counters of all threads. It is exact if no call and no fire is
    /// in progress. A timer that a worker has claimed counts as fired, although its task may run a
    /// little later. Cost: as [`stats`](Self::stats).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert_eq!(service.len(), 1);
    /// service.cancel(id);
    /// assert!(service.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stats().timers.pending
    }

    /// Whether no timer is pending: [`len`](Self::len) is zero. Cost: as [`stats`](Self::stats).
    ///
    /// # Example
    /// See [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the service has done so far.
    ///
    /// Cost: some microseconds for a handful of shards and threads. It takes a lock (which threads
    /// take at their first call to a shard too), and reads the counters of each shard and of each
    /// thread.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// service.cancel(id);
    /// let stats = service.stats();
    /// assert_eq!((stats.timers.armed, stats.timers.cancelled), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Whether the service has been stopped: from the moment in which a `stop`, or a drain, begins,
    /// and for ever after; and in a process that was forked off, unless the service is on a manual
    /// clock. Every timer is refused then. (In a forked process that is so on Linux; elsewhere a
    /// timer may be accepted there, and never fires.) Tasks may still run: those of a drain, and
    /// those for which the stop waits. Cost: some loads.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let handle = service.handle();
    /// assert!(!handle.is_stopped());
    /// drop(service);
    /// assert!(handle.is_stopped());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.engine.cells.shared.refuses_all()
    }

    /// The number of shards.
    ///
    /// # Example
    /// ```
    /// # let service = wheelwork::TimerService::builder().shards(3).start()?;
    /// assert_eq!(service.shards(), 3);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn shards(&self) -> usize {
        self.engine.cells.shared.shards()
    }

    /// The present time by the service's clock: the system's clock, or the
    /// [`ManualClock`](crate::ManualClock) that drives the service.
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
        self.engine.clock.instant(self.engine.clock.now_ns())
    }

    /// The present time of day: the system's, or that of the [`ManualClock`](crate::ManualClock)
    /// that drives the service.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(service.system_time(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn system_time(&self) -> SystemTime {
        self.engine.clock.system_time()
    }

    /// When the shard with this number has something to do next, as of its last turn. `None`: it
    /// knew of nothing to do then, the service has stopped, or there is no such shard. Timers that
    /// are paused, or that the shard has not seen yet, do not count. The answer is at or before the
    /// earliest deadline of the timers that the shard has taken in, and has not given to the pool
    /// yet. (Of due timers for which a full channel has no room it may not know.) It may be before
    /// that deadline, if a timer was cancelled or moved, or if many timers lie in one slot of the
    /// wheel, which the shard cascades ahead of time. Cost: a look at a counter.
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
        if self.engine.cells.shared.is_stopped() {
            return None;
        }
        let next = self
            .engine
            .counters
            .get(shard)?
            .get(Count::NextEvent)
            .checked_sub(1)?;
        Some(
            self.engine
                .clock
                .instant(self.engine.tick.start(Tick(next)).0),
        )
    }

    /// The pending timers of the shard with this number, in no order, each with the time until its
    /// deadline. Empty if there is no such shard.
    ///
    /// A timer that is armed, moved or ends meanwhile may be there or not. No timer comes twice.
    ///
    /// Cost: some nanoseconds for each cell that was ever in use, in all shards. Shards and other
    /// callers are not held up.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().shards(1).start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// let pending: Vec<_> = service.pending(0).collect();
    /// assert_eq!(pending[0].0, id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending(&self, shard: usize) -> impl Iterator<Item = (TimerId, Duration)> + '_ {
        let engine = &*self.engine;
        engine.cells.indices().filter_map(move |cell| {
            let (id, look) = engine
                .cells
                .with_local(|local| engine.cells.look_at(local, cell))?;
            let remaining = || engine.remaining(look.due_at, look.left_ns);
            (look.due_at.shard() == shard).then(|| (id, remaining()))
        })
    }

    /// The present time. Rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        self.engine.clock.now_ns()
    }

    /// The present time, or up to 2 us later: to compute a deadline from. Costs half as much as
    /// [`now_ns`](Self::now_ns).
    #[inline]
    pub(crate) fn soon_ns(&self) -> u64 {
        let engine = &self.engine;
        engine
            .cells
            .with_local(|local| engine.clock.arming_now_ns(&mut local.anchor))
    }

    /// The service's clock.
    #[cfg(feature = "async")]
    pub(crate) fn clock(&self) -> &Clock {
        &self.engine.clock
    }

    /// The time of an `Instant`.
    #[cfg(feature = "async")]
    pub(crate) fn instant_ns(&self, instant: Instant) -> u64 {
        self.engine.clock.instant_ns(instant)
    }

    /// The `Instant` of a time.
    #[cfg(feature = "async")]
    pub(crate) fn instant(&self, at_ns: u64) -> Instant {
        self.engine.clock.instant(at_ns)
    }

    /// The service's ticks.
    #[cfg(feature = "async")]
    pub(crate) fn ticks(&self) -> TickLength {
        self.engine.tick
    }

    /// What the wall clock shows (a manual clock's, if the service has one).
    pub(crate) fn wall_clock(&self) -> WallReading {
        // First of all: whoever sets the clock later is noticed.
        let sets = self.engine.clock.wall_sets();
        WallReading {
            time: self.engine.clock.system_time(),
            #[cfg(feature = "calendar")]
            now_ns: self.engine.clock.now_ns(),
            sets,
        }
    }
}
