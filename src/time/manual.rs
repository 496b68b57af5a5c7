//! Manual clock: time that stands still until a test moves it.

use crate::sync::{AtomicU64, Ordering, pause};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Somebody runs turns.
const DRIVEN: u64 = 1;

/// Somebody takes a turn of the shards, perhaps for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// What a manual clock moves: the shards of one service.
pub(crate) trait Driven: Send + Sync {
    /// One turn of every shard. Whether anything was drained or fired.
    fn turn(&self) -> bool;

    /// The next time at which a turn has something to do, in nanoseconds since the clock's origin. `Err`: somebody else takes a turn.
    fn next_event_ns(&self) -> Result<Option<u64>, Busy>;

    /// Due entries that its turns have dispatched so far.
    fn dispatched(&self) -> u64;
}

/// Time for tests: stands still until it is moved, and moves the shards of its services with it.
///
/// A service on a manual clock has no shard threads: [`advance`](Self::advance) runs the turns of its shards on the calling
/// thread, from event to event, so that every timer fires at exactly its tick and a test is the same each time. Handlers run inline
/// in `advance` unless the builder names another dispatch.
///
/// # Example
/// ```
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// use std::time::Duration;
/// use wheelwork::{ManualClock, TimerService};
///
/// let clock = ManualClock::new();
/// let service = TimerService::builder().clock(clock.clone()).start()?;
/// let fired = Arc::new(AtomicU32::new(0));
/// let counter = fired.clone();
/// service.schedule(Duration::from_secs(3600), move || { counter.fetch_add(1, Ordering::Relaxed); })?;
///
/// clock.advance(Duration::from_secs(3599));
/// assert_eq!(fired.load(Ordering::Relaxed), 0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(fired.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Shared>);

struct Shared {
    origin: Instant,
    now_ns: AtomicU64,
    /// How far `advance` has been asked to go: a task may ask for more while it runs.
    target_ns: AtomicU64,
    /// Twice the calls of `drive` so far, and [`DRIVEN`]: so whoever drives cannot end without seeing those that left it to him.
    requests: AtomicU64,
    services: Mutex<Vec<Weak<dyn Driven>>>,
    /// How many services there have been.
    registered: AtomicU64,
    /// The wall clock at a time since the origin.
    wall: Mutex<(SystemTime, u64)>,
}

/// So many nanoseconds after a time; the last time that there is, if that is sooner.
fn later_or_last(time: SystemTime, nanos: u64) -> SystemTime {
    let later = |time: SystemTime, nanos| time.checked_add(Duration::from_nanos(nanos));
    // What can be added is less than that: it is found bit by bit, the highest one first.
    let last = || (0..u64::BITS).rev().fold(time, |time, bit| later(time, 1 << bit).unwrap_or(time));
    later(time, nanos).unwrap_or_else(last)
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("elapsed", &self.elapsed()).finish()
    }
}

impl ManualClock {
    /// A clock at its origin. Costs an allocation.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            origin: Instant::now(),
            now_ns: AtomicU64::new(0),
            target_ns: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            services: Mutex::new(Vec::new()),
            registered: AtomicU64::new(0),
            wall: Mutex::new((SystemTime::UNIX_EPOCH, 0)),
        }))
    }

    /// How far the clock has been moved since it was made.
    ///
    /// # Example
    /// See [`set_system_time`](Self::set_system_time).
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    /// The clock's present as an `Instant`, for [`schedule_at`](crate::TimerHandle::schedule_at).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// let id = service.schedule_at(clock.now() + Duration::from_secs(2), || ())?;
    /// assert_eq!(service.remaining(id), Some(Duration::from_secs(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.origin.checked_add(self.elapsed()).unwrap_or(self.0.origin)
    }

    /// The clock's wall clock: the Unix epoch at first, moved with the clock. At the last time that
    /// a `SystemTime` can show it stands still.
    ///
    /// # Example
    /// See [`set_system_time`](Self::set_system_time).
    #[must_use]
    pub fn system_time(&self) -> SystemTime {
        let (set_to, at_ns) = *self.0.wall.lock().unwrap_or_else(PoisonError::into_inner);
        later_or_last(set_to, self.now_ns() - at_ns)
    }

    /// Sets the clock's wall clock, as somebody sets the system's: no time passes.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = wheelwork::ManualClock::new();
    /// clock.set_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(3_600));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.system_time(), SystemTime::UNIX_EPOCH + Duration::from_secs(3_601));
    /// assert_eq!(clock.elapsed(), Duration::from_secs(1));
    /// ```
    pub fn set_system_time(&self, time: SystemTime) {
        *self.0.wall.lock().unwrap_or_else(PoisonError::into_inner) = (time, self.now_ns());
    }

    /// Moves time forward by `by` and fires what falls due on the way, each timer at its own tick, in order of ticks.
    ///
    /// Called from a task that an `advance` runs (or from a second thread meanwhile), it extends that `advance` and returns at
    /// once. Costs a turn of every shard for each tick on which something is due. Time ends 292 years after the origin.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn advance(&self, by: Duration) {
        let by = super::nanos(by);
        // Ordering: Relaxed. Published by the request in `drive`.
        let _ = self
            .0
            .target_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |target| Some(target.saturating_add(by).min(super::tick::NANOS_MAX)));
        self.drive();
    }

    /// Moves time forward to the next tick on which a timer is due and fires it. Returns how far, or `None` if there is no timer.
    ///
    /// The next tick may turn out to be one at which only a timer was due that was cancelled or moved. What is due already fires first. From inside a task, and while
    /// another thread advances, it moves nothing and returns `None`.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// service.schedule(Duration::from_secs(3600), || ())?;
    /// assert_eq!(clock.advance_to_next(), Some(Duration::from_secs(3600)));
    /// assert_eq!(clock.advance_to_next(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance_to_next(&self) -> Option<Duration> {
        if self.is_driving() {
            return None;
        }
        self.drive();
        let (start_ns, dispatched) = (self.now_ns(), self.dispatched());
        // A wheel has other events too: it moves a large slot to a lower level ahead of time.
        while self.dispatched() == dispatched {
            // Without waiting for one who has begun to drive since: his tasks may wait for us.
            let by = self.next_event_ns().ok()??.saturating_sub(self.now_ns());
            if self.is_driving() {
                return None;
            }
            self.advance(Duration::from_nanos(by));
        }
        Some(Duration::from_nanos(self.now_ns() - start_ns))
    }

    /// Whether some `advance` runs: this is called by one of its tasks, or another thread advances.
    fn is_driving(&self) -> bool {
        // Ordering: Relaxed. A task sees its own thread's store; for other threads it is a hint.
        self.0.requests.load(Ordering::Relaxed) & DRIVEN != 0
    }

    pub(crate) fn now_ns(&self) -> u64 {
        // Ordering: Acquire. Pairs with the Release in `drive`: a thread that sees the time sees what fired before it.
        self.0.now_ns.load(Ordering::Acquire)
    }

    /// Time passes, and nobody drives: for models, in which it orders nothing.
    #[cfg(loom)]
    pub(crate) fn pass(&self, by_ns: u64) {
        // Ordering: Relaxed. Only the time is taken from it.
        self.0.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }

    pub(super) fn origin(&self) -> Instant {
        self.0.origin
    }

    pub(crate) fn register(&self, service: Weak<dyn Driven>) {
        let mut services = self.0.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.retain(|service| service.strong_count() > 0);
        services.push(service);
        // Ordering: Relaxed. See `registered`.
        self.0.registered.fetch_add(1, Ordering::Relaxed);
    }

    fn services(&self) -> Vec<Arc<dyn Driven>> {
        let services = self.0.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.iter().filter_map(Weak::upgrade).collect()
    }

    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        let events: Vec<_> = self.services().iter().map(|service| service.next_event_ns()).collect::<Result<_, _>>()?;
        Ok(events.into_iter().flatten().min())
    }

    fn dispatched(&self) -> u64 {
        self.services().iter().map(|service| service.dispatched()).sum()
    }

    /// Runs turns until the target is reached, unless somebody does already, who then does it for us.
    fn drive(&self) {
        let request = |requests: u64| Some((requests + 2) | DRIVEN);
        // Ordering: AcqRel. Pairs with itself and the one below: one drives after the other, and who drives for us sees our target.
        let Ok(before) = self.0.requests.fetch_update(Ordering::AcqRel, Ordering::Relaxed, request) else { return };
        if before & DRIVEN != 0 {
            return;
        }
        let mut served = (before + 2) | DRIVEN;
        loop {
            self.drive_to_target();
            // Ordering: AcqRel, Acquire if there are new requests. See above.
            match self.0.requests.compare_exchange(served, served & !DRIVEN, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(requests) => served = requests,
            }
        }
    }

    /// A service's next event. Whoever drives waits for those who look at it, which is short: nobody else takes turns.
    fn wait_for_event(&self, service: &dyn Driven) -> Option<u64> {
        loop {
            match service.next_event_ns() {
                Ok(event) => return event,
                Err(Busy) => pause(),
            }
        }
    }

    /// Services that there have been.
    fn registered(&self) -> u64 {
        // Ordering: Relaxed. A task's own thread sees its store. (Of a service that another thread starts meanwhile nobody knows when.)
        self.0.registered.load(Ordering::Relaxed)
    }

    fn drive_to_target(&self) {
        let (mut registered, mut services) = (self.registered(), self.services());
        loop {
            while services.iter().filter(|service| service.turn()).count() > 0 {
                // A task may have started a service.
                if self.registered() != registered {
                    (registered, services) = (self.registered(), self.services());
                }
            }
            let now = self.now_ns();
            // Ordering: Relaxed. See `advance`.
            let target = self.0.target_ns.load(Ordering::Relaxed);
            let next = services.iter().filter_map(|service| self.wait_for_event(&**service)).min();
            let next = next.unwrap_or(u64::MAX).min(target);
            if next <= now {
                break;
            }
            // Ordering: Release. Pairs with the Acquire in `now_ns`.
            self.0.now_ns.store(next, Ordering::Release);
        }
    }
}
