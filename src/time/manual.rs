//! Manual clock: time that stands still until a test moves it.
//!
//! Any thread may move it. One thread at a time *drives*: it takes the turns of all services on the
//! clock, from event to event, until the target is reached.
//!
//! Ground rules:
//!  - Only the thread that set [`DRIVEN`] drives.
//!  - A thread that wants more time raises the target, and counts a request. If somebody drives, it
//!    returns: the driver cannot stop while there is a request that it has not seen.
//!
//! The functions that move a clock are `inline`, so only programs that move one compile them.

use super::driven::{Busy, Driven, Pass};
use super::nanos::{NANOS_MAX, nanos};
use super::origin::Origin;
use super::watch::TimeOfDayWatch;
use crate::sync::{AtomicU64, Mutex as SyncMutex, Ordering, pause};
use std::any::Any;
use std::fmt;
use std::mem::{forget, replace};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Bit of `requests`: a thread drives.
const DRIVEN: u64 = 1;

/// The first panic of a watch, in one call that drives.
type Told = Result<(), Box<dyn Any + Send>>;

/// Calls what may be a user's code, and keeps its panic if it is the first one.
fn keep_panic(told: &mut Told, call: impl FnOnce()) {
    match catch_unwind(AssertUnwindSafe(call)) {
        Err(panic) if told.is_ok() => *told = Err(panic),
        // (Not dropped: that could panic, too.)
        Err(panic) => forget(panic),
        Ok(()) => (),
    }
}

/// Drops services and watches. (One by one: a second panic within one drop would end the process.)
fn drop_each(services: Vec<Arc<dyn Driven>>, told: &mut Told) {
    for service in services {
        keep_panic(told, || drop(service));
    }
}

/// Time for tests. It stands still until a test moves it.
///
/// A service on a manual clock has no shard threads. [`advance`](Self::advance) does their work on
/// the calling thread, from event to event. Handlers run inside `advance`, unless the builder names
/// another dispatch. Where they do, every timer fires exactly at its tick, and each run of a test
/// is alike. On a pool or an executor, or behind a channel that is full, time may have moved on
/// before a timer fires.
///
/// Several services may share a clock: clones name the same clock.
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
/// service.schedule(Duration::from_secs(3600), move || {
///     counter.fetch_add(1, Ordering::Relaxed);
/// })?;
///
/// clock.advance(Duration::from_secs(3599));
/// assert_eq!(fired.load(Ordering::Relaxed), 0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(fired.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<ManualState>);

/// What the clones of a clock share.
struct ManualState {
    origin: Origin,
    now_ns: AtomicU64,
    /// The time up to which `advance` has to go. A task may raise it while it runs.
    target_ns: AtomicU64,
    /// Twice the calls of `drive` so far, and [`DRIVEN`]. A driver that ends compares the whole
    /// word: so it sees the calls of other threads, which left their work to it.
    requests: AtomicU64,
    services: Mutex<Vec<Weak<dyn Driven>>>,
    /// Due entries that the turns have dispatched so far.
    dispatched: AtomicU64,
    /// How many services were ever registered.
    registered: AtomicU64,
    /// The wall clock's reading, and the time since the origin at which it was set.
    wall: SyncMutex<(SystemTime, u64)>,
    /// How often it was set. Changed under the lock of `wall`.
    wall_sets: AtomicU64,
    /// How many of these the services were told of. The driver only.
    wall_told: AtomicU64,
}

/// A time plus nanoseconds; the last time that a `SystemTime` can show, if that is sooner.
fn later_or_last(time: SystemTime, nanos: u64) -> SystemTime {
    let later = |time: SystemTime, nanos| time.checked_add(Duration::from_nanos(nanos));
    // Less can be added than `nanos`: find it bit by bit, the highest bit first.
    let last = || {
        (0..u64::BITS)
            .rev()
            .fold(time, |time, bit| later(time, 1 << bit).unwrap_or(time))
    };
    later(time, nanos).unwrap_or_else(last)
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("elapsed", &self.elapsed())
            .finish()
    }
}

impl ManualClock {
    /// A clock at its origin. Costs an allocation.
    ///
    /// # Example
    /// ```
    /// let clock = wheelwork::ManualClock::new();
    /// assert_eq!(clock.elapsed(), std::time::Duration::ZERO);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(ManualState {
            origin: Origin::now(),
            now_ns: AtomicU64::new(0),
            target_ns: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            dispatched: AtomicU64::new(0),
            services: Mutex::new(Vec::new()),
            registered: AtomicU64::new(0),
            wall: SyncMutex::new((SystemTime::UNIX_EPOCH, 0)),
            wall_sets: AtomicU64::new(0),
            wall_told: AtomicU64::new(0),
        }))
    }

    /// How far the clock has been moved since it was made.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let clock = wheelwork::ManualClock::new();
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(clock.elapsed(), Duration::from_secs(5));
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    /// The clock's time as an `Instant`, for [`schedule_at`](crate::ServiceHandle::schedule_at).
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
        let origin = self.0.origin.instant();
        origin.checked_add(self.elapsed()).unwrap_or(origin)
    }

    /// The time of day on this clock. It starts at the Unix epoch and moves with the clock. It
    /// stops at the last time that a `SystemTime` can show.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = wheelwork::ManualClock::new();
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(clock.system_time(), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn system_time(&self) -> SystemTime {
        let (set_to, at_ns) = *self.0.wall.lock().unwrap_or_else(PoisonError::into_inner);
        later_or_last(set_to, self.now_ns() - at_ns)
    }

    /// Sets the time of day on this clock, as an administrator sets the system's. No time passes.
    /// Timers for a time of day, and those of calendars, read it again on the next tick.
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
    #[inline]
    pub fn set_system_time(&self, time: SystemTime) {
        let mut wall = self.0.wall.lock().unwrap_or_else(PoisonError::into_inner);
        *wall = (time, self.now_ns());
        // Ordering: Release (SetStore). Pairs with the Acquire in `tell_wall_news`: the driver sees
        // the timers that were filed by threads which had the lock before (SetRecheck).
        self.0.wall_sets.fetch_add(1, Ordering::Release);
    }

    /// Has a closure called whenever the time of day was [set](Self::set_system_time), until the
    /// watch is dropped. (If another thread is just about to make a call, it may do so after the
    /// drop has returned.) Use it in a crate that is built on top of a service and goes by the time
    /// of day, to read that time again. The services of the clock do so by themselves.
    ///
    /// A thread that moves the clock makes the call, by [`advance`](Self::advance) or
    /// [`advance_to_next`](Self::advance_to_next), before time moves on. An `advance` by nothing
    /// does so too. Several changes before that are one call. The closure may arm and cancel
    /// timers, and read the clock. If it moves the clock, the `advance` that has called it goes on
    /// to that time. A panic of the closure goes to the thread that moves the clock: when an
    /// `advance` has moved time, or before an `advance_to_next` moves it. Between its calls the
    /// watch costs next to nothing.
    ///
    /// # Example
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = wheelwork::ManualClock::new();
    /// let count = Arc::new(AtomicU32::new(0));
    /// let counter = count.clone();
    /// let watch = clock.watch_time_of_day(move || {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// clock.set_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(3_600));
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(count.load(Ordering::Relaxed), 1);
    /// drop(watch);
    /// clock.set_system_time(SystemTime::UNIX_EPOCH);
    /// clock.advance(Duration::ZERO);
    /// assert_eq!(count.load(Ordering::Relaxed), 1);
    /// ```
    pub fn watch_time_of_day(&self, tell: impl Fn() + Send + Sync + 'static) -> TimeOfDayWatch {
        let watch = TimeOfDayWatch::new(tell);
        self.register(watch.watcher());
        watch
    }

    /// How often the time of day was set. A thread that files a timer by the time of day calls this
    /// before it reads that time, and again when the timer is filed.
    pub(crate) fn wall_sets(&self) -> u64 {
        let _wall = self.0.wall.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed. Changed under the lock.
        self.0.wall_sets.load(Ordering::Relaxed)
    }

    /// Whether the time of day was set and the services were not told. The driver only.
    fn has_wall_news(&self) -> bool {
        // Ordering: Acquire. Pairs with SetStore.
        let sets = self.0.wall_sets.load(Ordering::Acquire);
        // Ordering: Relaxed. One driver comes after the other.
        self.0.wall_told.load(Ordering::Relaxed) != sets
    }

    /// SetTell. Tells the services that the time of day was set. The driver only. All are told,
    /// whichever watch panics: the first panic goes to `told`.
    #[inline]
    fn tell_wall_news(&self, services: &[Arc<dyn Driven>], told: &mut Told) {
        // Ordering: Acquire, Relaxed. As above.
        let sets = self.0.wall_sets.load(Ordering::Acquire);
        self.0.wall_told.store(sets, Ordering::Relaxed);
        for service in services {
            keep_panic(told, || service.wall_was_set());
        }
    }

    /// Moves time forward by `by`. Fires the timers that become due, each at its own tick, in order
    /// of ticks. (On a pool or an executor, or behind a channel that is full, they may fire later.)
    ///
    /// A call from a task that an `advance` runs, or from a second thread during it, extends that
    /// `advance` and returns at once. Costs a turn of every shard, and one or more for each tick on
    /// which something is due, or is moved in a wheel. Time ends 292 years after the origin.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// let id = service.schedule(Duration::from_secs(10), || println!("ten seconds"))?;
    /// clock.advance(Duration::from_secs(9));
    /// assert_eq!(service.remaining(id), Some(Duration::from_secs(1)));
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(service.remaining(id), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn advance(&self, by: Duration) {
        let by = nanos(by);
        // Ordering: Relaxed. The request in `drive` publishes it.
        let _ = self
            .0
            .target_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |target| {
                Some(target.saturating_add(by).min(NANOS_MAX))
            });
        self.drive();
    }

    /// Moves time forward to the next tick on which a timer is due, and fires the timer. Returns
    /// how far it moved, or `None` if there is no timer that will be due, or if all timers wait for
    /// room in a channel.
    ///
    /// Timers that are due already fire first. The wheel may still have the old tick of a timer
    /// that was cancelled or moved. Then time stops at that tick, and nothing fires. From inside a
    /// task that a running `advance` has fired, and while another thread advances, this call moves
    /// nothing and returns `None`.
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
    #[inline]
    pub fn advance_to_next(&self) -> Option<Duration> {
        if self.is_driving() {
            return None;
        }
        self.drive();
        let start_ns = self.now_ns();
        let has_moved = self.advance_past(self.dispatched()).ok()?;
        has_moved.then(|| Duration::from_nanos(self.now_ns() - start_ns))
    }

    /// Fires what is due. If nothing is, moves time to the next tick on which something is due, and
    /// fires that. `false`: there is no timer. `Err`: the caller is a task that the clock runs, or
    /// another thread moves the clock.
    #[cfg(feature = "async")]
    pub(crate) fn step(&self) -> Result<bool, Busy> {
        if self.is_driving() {
            return Err(Busy);
        }
        let dispatched = self.dispatched();
        self.drive();
        self.advance_past(dispatched)
    }

    /// Moves time until more than `dispatched` entries were dispatched. `false`: there is no timer.
    #[inline]
    fn advance_past(&self, dispatched: u64) -> Result<bool, Busy> {
        // A wheel has other events too: it cascades a large slot ahead of time.
        while self.dispatched() == dispatched {
            let Some(event_ns) = self.next_event_ns()? else {
                return Ok(false);
            };
            // Does not wait for a thread that drives since then: its tasks may wait for this one.
            if self.is_driving() {
                return Err(Busy);
            }
            self.advance(Duration::from_nanos(event_ns.saturating_sub(self.now_ns())));
        }
        Ok(true)
    }

    /// Whether an `advance` runs: the caller is one of its tasks, or another thread advances.
    pub(crate) fn is_driving(&self) -> bool {
        // Ordering: Relaxed. A task sees the store of its own thread; for others it is a hint.
        self.0.requests.load(Ordering::Relaxed) & DRIVEN != 0
    }

    pub(crate) fn now_ns(&self) -> u64 {
        // Ordering: Acquire. Pairs with the Release in `drive_to_target`: a thread that sees the
        // time sees what fired before it.
        self.0.now_ns.load(Ordering::Acquire)
    }

    /// Moves time at once, and fires nothing on the way. A process that was stopped, or that waited
    /// for something, sees time move like this. For the simulation of fleets.
    #[doc(hidden)]
    #[inline]
    pub fn jump(&self, by: Duration) {
        let by = nanos(by);
        let add = |time: u64| Some(time.saturating_add(by).min(NANOS_MAX));
        // Ordering: Release. Pairs with the Acquire in `now_ns`.
        let before = self
            .0
            .now_ns
            .fetch_update(Ordering::Release, Ordering::Relaxed, add);
        let now = before.unwrap_or_default().saturating_add(by).min(NANOS_MAX);
        // Ordering: Relaxed. See `advance`.
        self.0.target_ns.fetch_max(now, Ordering::Relaxed);
    }

    /// Moves time without a driver. For models, in which time orders nothing.
    #[cfg(loom)]
    pub(crate) fn pass(&self, by_ns: u64) {
        // Ordering: Relaxed. Publishes nothing but the time.
        self.0.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    pub(crate) fn register(&self, service: Weak<dyn Driven>) {
        let mut services = self
            .0
            .services
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        services.retain(|service| service.strong_count() > 0);
        services.push(service);
        // Ordering: Relaxed. See `registered`.
        self.0.registered.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn services(&self) -> Vec<Arc<dyn Driven>> {
        let services = self
            .0
            .services
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        services.iter().filter_map(Weak::upgrade).collect()
    }

    #[inline]
    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        let mut next_ns = None;
        for service in self.services() {
            if let Some(event_ns) = service.next_event_ns()? {
                next_ns = Some(next_ns.map_or(event_ns, |next| event_ns.min(next)));
            }
        }
        Ok(next_ns)
    }

    /// How many due entries the turns have dispatched so far, of services that have ended, too.
    fn dispatched(&self) -> u64 {
        // Ordering: Relaxed. The driver counts, and reads what it has counted.
        self.0.dispatched.load(Ordering::Relaxed)
    }

    /// Drives until the target is reached. If another thread drives, that thread goes on to our
    /// target. A panic of a watch comes out of it when time has moved so far.
    #[inline]
    fn drive(&self) {
        let request = |requests: u64| Some((requests + 2) | DRIVEN);
        // Ordering: AcqRel. Pairs with itself and the AcqRel below: one thread drives after the
        // other, and the one that drives for us sees our target.
        let Ok(before) = self
            .0
            .requests
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, request)
        else {
            return;
        };
        if before & DRIVEN != 0 {
            return;
        }
        let (mut served, mut told) = ((before + 2) | DRIVEN, Ok(()));
        loop {
            self.drive_to_target(&mut told);
            // Ordering: AcqRel; Acquire if there are new requests. Pairs with the AcqRel above:
            // sees the targets of those requests.
            match self.0.requests.compare_exchange(
                served,
                served & !DRIVEN,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(requests) => served = requests,
            }
        }
        if let Err(panic) = told {
            resume_unwind(panic);
        }
    }

    /// A service's next event. Another thread may look at it just then. The driver waits for that
    /// thread. This takes a short time, because no other thread takes turns.
    #[inline]
    fn wait_for_event(&self, service: &dyn Driven) -> Option<u64> {
        loop {
            match service.next_event_ns() {
                Ok(event) => return event,
                Err(Busy) => pause(),
            }
        }
    }

    /// How many services were ever registered.
    fn registered(&self) -> u64 {
        // Ordering: Relaxed. A task's own thread sees its store. (A service that another thread
        // starts at the same time has no order to this.)
        self.0.registered.load(Ordering::Relaxed)
    }

    #[inline]
    fn drive_to_target(&self, told: &mut Told) {
        let (mut registered, mut services) = (self.registered(), self.services());
        loop {
            let pass = loop {
                let mut pass = Pass::default();
                for service in &services {
                    pass = pass.and(service.turn());
                }
                // Ordering: Relaxed. As in `dispatched`.
                self.0
                    .dispatched
                    .fetch_add(pass.dispatched, Ordering::Relaxed);
                // A service that holds entries may have room again, because something has fired.
                if !(pass.is_more || pass.is_held && pass.dispatched > 0) {
                    break pass;
                }
            };
            // A task may have started a service.
            if self.registered() != registered {
                registered = self.registered();
                let before = replace(&mut services, self.services());
                drop_each(before, told);
                continue;
            }
            if self.has_wall_news() {
                self.tell_wall_news(&services, told);
                continue;
            }
            let now = self.now_ns();
            // Ordering: Relaxed. See `advance`.
            let target = self.0.target_ns.load(Ordering::Relaxed);
            let (mut time, mut is_event) = (target, false);
            for service in &services {
                let event = self.wait_for_event(&**service);
                if let Some(event) = event.filter(|&event| event <= time) {
                    (time, is_event) = (event, true);
                }
            }
            if time > now {
                // Another thread may have made a jump beyond it meanwhile.
                // Ordering: Release. Pairs with the Acquire in `now_ns`.
                self.0.now_ns.fetch_max(time, Ordering::Release);
            }
            // If there is no event up to the target, a turn at the target finds what other threads
            // have done meanwhile: they have armed timers, or made room.
            let finds = || {
                let has_messages = || services.iter().any(|service| service.has_messages());
                pass.is_held || self.has_wall_news() || has_messages()
            };
            if !is_event && (time == now || !finds()) {
                break;
            }
        }
        // A watch that a task has dropped is dropped here, with its closure.
        drop_each(services, told);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A service without timers. Another thread does something just when its event is asked for.
    #[derive(Default)]
    struct Idle {
        turns: AtomicU64,
        is_held: bool,
        is_armed_late: bool,
        has_messages: AtomicBool,
    }

    impl Driven for Idle {
        fn turn(&self) -> Pass {
            self.turns.fetch_add(1, Ordering::Relaxed);
            self.has_messages.store(false, Ordering::Relaxed);
            Pass {
                is_held: self.is_held,
                ..Pass::default()
            }
        }

        fn has_messages(&self) -> bool {
            self.has_messages.load(Ordering::Relaxed)
        }

        fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
            let is_first = self.turns.load(Ordering::Relaxed) == 1;
            self.has_messages
                .store(self.is_armed_late && is_first, Ordering::Relaxed);
            Ok(None)
        }

        fn wall_was_set(&self) {}
    }

    /// A service beside which another thread makes a jump, just when its event is asked for.
    struct Jumped(ManualClock);

    impl Driven for Jumped {
        fn turn(&self) -> Pass {
            Pass::default()
        }

        fn has_messages(&self) -> bool {
            false
        }

        fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
            self.0.jump(Duration::from_secs(1));
            Ok(None)
        }

        fn wall_was_set(&self) {}
    }

    #[test]
    fn a_jump_beside_an_advance_is_not_undone() {
        let clock = ManualClock::new();
        let driven: Arc<dyn Driven> = Arc::new(Jumped(clock.clone()));
        clock.register(Arc::downgrade(&driven));
        clock.advance(Duration::from_millis(1));
        assert!(clock.elapsed() >= Duration::from_secs(1));
    }

    /// A turn at the target, if another thread has armed a timer since the last one, or may have
    /// made room.
    #[test]
    fn what_comes_while_time_moves_is_not_left_to_the_next_advance() {
        for (is_held, is_armed_late, turns) in
            [(false, false, 1), (true, false, 2), (false, true, 2)]
        {
            let clock = ManualClock::new();
            let idle = Arc::new(Idle {
                is_held,
                is_armed_late,
                ..Idle::default()
            });
            let driven: Arc<dyn Driven> = idle.clone();
            clock.register(Arc::downgrade(&driven));
            clock.advance(Duration::from_millis(1));
            assert_eq!(clock.elapsed(), Duration::from_millis(1));
            assert_eq!(idle.turns.load(Ordering::Relaxed), turns);
            assert!(!idle.has_messages());
        }
    }
}
