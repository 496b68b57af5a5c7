//! Builder: what a service is made of.

use super::fire::Batch;
use super::hooks::{Hooks, Users};
use super::inner::Handler;
use super::task::Task;
use super::watchdog::THRESHOLD_MIN;
use crate::dispatch::Dispatch;
use crate::dispatch::channel::Outbox;
use crate::time::ManualClock;
use crossbeam_channel::Receiver;
use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// Settings of a service to be. Made by [`TimerService::builder`](crate::TimerService::builder).
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Dispatch, TimerService};
///
/// let service = TimerService::builder()
///     .tick(Duration::from_millis(1))
///     .shards(2)
///     .pin(false)
///     .name("timeouts")
///     .dispatch(Dispatch::RayonThreads(2))
///     .on_expire(|sessions: &mut wheelwork::Batch<'_, u64>| {
///         for session in sessions {
///             println!("session {session} has timed out");
///         }
///     })
///     .start()?;
/// service.schedule(Duration::from_secs(30), 4711u64)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it is started"]
pub struct Builder<T = Task> {
    pub(super) tick: Duration,
    pub(super) shards: Option<usize>,
    pub(super) cores: Vec<usize>,
    pub(super) pin: bool,
    pub(super) name: String,
    pub(super) dispatch: Option<Dispatch>,
    pub(super) clock: Option<ManualClock>,
    pub(super) spin: Duration,
    pub(super) wakeups: Option<NonZeroU32>,
    pub(super) boottime: bool,
    pub(super) max_pending: usize,
    pub(super) cascade_budget: bool,
    pub(super) hooks: Hooks,
    pub(super) outlet: Outlet<T>,
    pub(super) let_go: fn(T),
}

/// Where payloads go.
pub(super) enum Outlet<T> {
    Handler(Box<Handler<T>>),
    Channel(Outbox<T>),
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("shards", &self.shards)
            .field("cores", &self.cores)
            .field("pin", &self.pin)
            .field("name", &self.name)
            .field("dispatch", &self.dispatch)
            .field("clock", &self.clock)
            .field("spin", &self.spin)
            .field("wakeups", &self.wakeups)
            .field("boottime", &self.boottime)
            .field("max_pending", &self.max_pending)
            .finish_non_exhaustive()
    }
}

impl Builder<Task> {
    pub(super) fn new() -> Self {
        Self {
            tick: Duration::from_millis(1),
            shards: None,
            cores: Vec::new(),
            pin: true,
            name: "wheelwork".to_string(),
            dispatch: None,
            clock: None,
            spin: Duration::ZERO,
            wakeups: None,
            boottime: false,
            max_pending: usize::MAX,
            cascade_budget: true,
            hooks: Hooks::default(),
            outlet: Outlet::Handler(Box::new(|tasks| tasks.for_each(Task::run))),
            let_go: drop,
        }
    }
}

impl<T: Send + 'static> Builder<T> {
    /// The resolution: deadlines round up to a multiple of it. From 1 us to 24 h; 1 ms unless set.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().tick(Duration::from_micros(100)).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The number of shards, 1 to 4,096: each is a thread with a wheel of its own. Unless set, one for every four cores, at least one: a
    /// shard keeps up with several producers (ARCHITECTURE.md has the measurement). With short tasks that run [inline](Dispatch::Inline), one for every core fires bursts soonest.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().shards(2).start()?;
    /// assert_eq!(service.shards(), 2);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The cores to pin shards to, in turn, by their numbers. Unless set, all that the process may use.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().cores([0]).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = cores.into_iter().collect();
        self
    }

    /// Whether shard threads are pinned to cores; they are unless set. A thread that cannot be pinned runs unpinned, and is counted in
    /// [`Stats::unpinned_shards`](crate::Stats::unpinned_shards).
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().pin(false).start()?;
    /// assert_eq!(service.stats().unpinned_shards, 0, "nobody tried");
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// The beginning of the names of the service's threads, without a NUL; `wheelwork` unless set.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().name("timeouts").start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Where handlers run: a rayon pool of the service's own unless set; inline on a manual clock.
    ///
    /// # Example
    /// See [`Dispatch`].
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = Some(dispatch);
        self
    }

    /// What `cancel_all` does with payloads, in place of dropping them.
    #[cfg(feature = "async")]
    pub(crate) fn let_go(mut self, let_go: fn(T)) -> Self {
        self.let_go = let_go;
        self
    }

    /// The same, unless it was set.
    #[cfg(feature = "async")]
    pub(crate) fn dispatch_unless_set(mut self, dispatch: Dispatch) -> Self {
        self.dispatch.get_or_insert(dispatch);
        self
    }

    /// Runs the service on a clock that a test moves. It then has no shard threads.
    ///
    /// # Example
    /// See [`ManualClock`].
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// A spin margin: a shard's thread that sleeps to a deadline wakes up so much earlier, and spins for the rest. The system wakes a thread some 0.1 ms late;
    /// with a margin of 100 us timers fire within a microsecond of their tick, for the time of one core during the margin; while each is nearer than the margin
    /// to the one before, for all of that core. With [`Duration::MAX`] a shard never sleeps, and is never rung: for a core that it has to itself. None unless set.
    ///
    /// While a shard waits for workers that are behind ([`held`](crate::ShardStats::held)) it naps,
    /// whatever its margin.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().tick(Duration::from_micros(10)).spin(Duration::from_micros(100)).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn spin(mut self, margin: Duration) -> Self {
        self.spin = margin;
        self
    }

    /// A budget for a tick below a millisecond: each shard wakes up at most so many times a second, on
    /// average, at the tick of what is due. Beyond that wake-ups are put together: what is due fires at
    /// the next full millisecond, as with a tick of 1 ms. A shard saves up to 64 wake-ups for a burst.
    /// No limit unless set; with a tick of a millisecond or more it changes nothing.
    ///
    /// A wake-up takes some 25 us of CPU. With a tick of 100 us, and no budget, 10,000 timers a second
    /// that fire at random times cause 6,000 wake-ups a second; with a budget of 1,000 they cause
    /// 1,000. Where few timers fire each is 0.1 ms late, in place of 0.6.
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroU32;
    /// use std::time::Duration;
    ///
    /// let builder = wheelwork::TimerService::builder().tick(Duration::from_micros(100));
    /// let service = builder.wakeups_per_s(NonZeroU32::new(1_000).unwrap()).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn wakeups_per_s(mut self, budget: NonZeroU32) -> Self {
        self.wakeups = Some(budget);
        self
    }

    /// Counts the time for which the machine is suspended, too (CLOCK_BOOTTIME, Linux only): a timer of an hour fires an hour later by any clock. After the
    /// machine wakes up, what is due fires within a second; for that a shard with timers pending wakes up once a second. An `Instant` does not count such time:
    /// for `schedule_at` it means what is left until then. Of no use with a manual clock.
    ///
    /// # Example
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// let service = wheelwork::TimerService::builder().boottime(true).start()?;
    /// # }
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn boottime(mut self, boottime: bool) -> Self {
        self.boottime = boottime;
        self
    }

    /// Whether large slots of the wheel are cascaded ahead of time, in steps; they are unless set. For measuring what that is good for.
    #[doc(hidden)]
    pub fn cascade_budget(mut self, cascade_budget: bool) -> Self {
        self.cascade_budget = cascade_budget;
        self
    }

    /// The number of timers that may be pending at a time, exactly: one more is refused with [`ScheduleError::Full`](crate::ScheduleError::Full), and
    /// there is room again as soon as one has fired or was cancelled (of a periodic timer that runs, as soon as that run has ended). Unless set nobody counts, which is cheaper: the count is one that all threads share.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ScheduleError, TimerService};
    ///
    /// let service = TimerService::builder().max_pending(1).start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ()).unwrap();
    /// assert!(matches!(service.schedule(Duration::from_secs(5), || ()), Err(ScheduleError::Full(_))));
    /// service.cancel(id);
    /// assert!(service.schedule(Duration::from_secs(5), || ()).is_ok());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn max_pending(mut self, timers: usize) -> Self {
        self.max_pending = timers;
        self
    }

    /// Sets the handler, and with it the type of the payload: it is called with batches of payloads whose timers fired, from several
    /// threads at the same time. What it leaves in a batch is dropped: see [`on_dropped`](Self::on_dropped). A panic in it is counted, and the rest of the batch is
    /// handled by a new call; one that comes before it took anything costs a payload, which is dropped.
    ///
    /// # Example
    /// See the [builder](Self)'s.
    pub fn on_expire<U, F>(self, handler: F) -> Builder<U>
    where
        U: Send + 'static,
        F: Fn(&mut Batch<'_, U>) + Send + Sync + 'static,
    {
        self.outlet(Outlet::Handler(Box::new(handler)))
    }

    /// Sets a hook that is called when a shard takes no turn though it was time, for more than `threshold` (at least 10 ms): with the shard's number,
    /// and by how much it is overdue. Its thread gets no processor, or is inside a handler that runs inline and blocks. It is told once for each stall,
    /// one to two thresholds after it began.
    ///
    /// The hook runs on a thread of its own, which looks at the shards twice in each threshold: a service that sets it is never quite idle. Without it there is no such
    /// thread. Nothing is watched on a manual clock. A hook that panics is counted in [`Stats::hook_panics`](crate::Stats::hook_panics), and nothing more.
    ///
    /// # Example
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wheelwork::{Dispatch, TimerService};
    ///
    /// let (send, stalls) = mpsc::channel();
    /// let service = TimerService::builder()
    ///     .shards(1)
    ///     .dispatch(Dispatch::Inline)
    ///     .on_stall(Duration::from_millis(10), move |shard, overdue| _ = send.send((shard, overdue)))
    ///     .start()?;
    /// // Too long for a task that runs inline.
    /// service.schedule(Duration::ZERO, || std::thread::sleep(Duration::from_millis(100)))?;
    /// let (shard, overdue) = stalls.recv()?;
    /// assert!(shard == 0 && overdue > Duration::from_millis(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_stall(mut self, threshold: Duration, hook: impl Fn(usize, Duration) + Send + Sync + 'static) -> Self {
        self.hooks.on_stall = Some((crate::time::nanos(threshold.max(THRESHOLD_MIN)), Users::new(Box::new(hook))));
        self
    }

    /// Sends payloads to a channel in place of a handler, in batches of at most 64, and sets the type of the payload. The shards' threads send; a
    /// [`dispatch`](Self::dispatch) that was set is not used.
    ///
    /// The channel holds `capacity` batches, at least one, and up to one more for each further shard; with `None` as many as memory does. While it is full no timer fires: what is due stays in the wheel,
    /// can be cancelled, is handed back by `stop`, and is counted in turns ([`ShardStats::held`](crate::ShardStats::held)); on a manual clock it
    /// fires in the next `advance` for which there is room. Once all receivers are gone payloads are dropped as their timers fire, and counted in
    /// [`ShardStats::dropped`](crate::ShardStats::dropped). Periodic timers run on the shard's thread. Batches that are in the channel when the service stops can
    /// still be received; it is disconnected when the service and its handles are gone.
    ///
    /// Cost: an allocation for each batch.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let (builder, expired) = TimerService::builder().on_expire_channel::<u64>(Some(1_000));
    /// let service = builder.start()?;
    /// service.schedule(Duration::from_millis(1), 4711)?;
    /// let batch: Vec<u64> = expired.recv()?;
    /// assert_eq!(batch, [4711]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_expire_channel<U: Send + 'static>(self, capacity: Option<usize>) -> (Builder<U>, Receiver<Vec<U>>) {
        let (outbox, receiver) = Outbox::new(capacity);
        (self.outlet(Outlet::Channel(outbox)), receiver)
    }

    fn outlet<U>(self, outlet: Outlet<U>) -> Builder<U> {
        let Self {
            tick,
            shards,
            cores,
            pin,
            name,
            dispatch,
            clock,
            spin,
            wakeups,
            boottime,
            max_pending,
            cascade_budget,
            hooks,
            outlet: _,
            let_go: _,
        } = self;
        Builder {
            tick,
            shards,
            cores,
            pin,
            name,
            dispatch,
            clock,
            spin,
            wakeups,
            boottime,
            max_pending,
            cascade_budget,
            hooks,
            outlet,
            let_go: drop,
        }
    }

    /// Sets a hook that is called with each panic of a handler or task, after it was caught, on the thread where it was. Without one a panic is
    /// counted, and what the process's panic hook prints is all that is seen of it (and an event, with the feature `tracing`).
    ///
    /// The tasks that the same worker has claimed wait for it. If it panics itself, that is counted in
    /// [`Stats::hook_panics`](crate::Stats::hook_panics), and nothing more.
    ///
    /// # Example
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let (send, receive) = mpsc::channel();
    /// let service = TimerService::builder()
    ///     .on_panic(move |panic| {
    ///         let message = panic.downcast_ref::<&str>().copied().unwrap_or("no message");
    ///         let _ = send.send(message.to_string());
    ///     })
    ///     .start()?;
    /// service.schedule(Duration::ZERO, || panic!("a bug"))?;
    /// assert_eq!(receive.recv()?, "a bug");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(mut self, hook: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) -> Self {
        self.hooks.on_panic = Some(Users::new(Box::new(hook)));
        self
    }

    /// Sets a hook that is called when payloads of timers that fired were dropped, since nobody took them: with how many there were. The handler left them in
    /// its batch, or panicked before it took anything; an executor dropped its job; or all receivers of the channel are gone. Without a hook they are counted, in
    /// [`ShardStats::dropped`](crate::ShardStats::dropped) (and told by an event, with the feature `tracing`).
    ///
    /// It is called on the thread that dropped them, after that. A hook that panics is counted in [`Stats::hook_panics`](crate::Stats::hook_panics), and nothing
    /// more.
    ///
    /// # Example
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let (send, receive) = mpsc::channel();
    /// let service = TimerService::builder()
    ///     .on_dropped(move |timers| _ = send.send(timers))
    ///     .on_expire(|batch: &mut Batch<'_, &str>| drop(batch.next()))
    ///     .start()?;
    /// service.schedule_many([(Duration::ZERO, "taken"), (Duration::ZERO, "left")]);
    /// assert_eq!(receive.recv()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_dropped(mut self, hook: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.hooks.on_dropped = Some(Users::new(Box::new(hook)));
        self
    }

    /// Sets a hook that is called when timers fire later than `threshold` after their deadlines: with the greatest lateness among them, and how many
    /// they are, at most 64.
    ///
    /// Lateness is measured when a worker claims due timers, before it runs them; so a hook that takes long makes them later. It is never negative,
    /// and at most 1 us more than the truth. A hook that panics is counted in [`Stats::hook_panics`](crate::Stats::hook_panics), and nothing more.
    /// Cost: a comparison for each timer that fires.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder()
    ///     .on_late(Duration::from_millis(100), |lateness, timers| eprintln!("{timers} timers are late, by {lateness:?} at the most"))
    ///     .start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn on_late(mut self, threshold: Duration, hook: impl Fn(Duration, u64) + Send + Sync + 'static) -> Self {
        self.hooks.on_late = Some((crate::time::nanos(threshold), Users::new(Box::new(hook))));
        self
    }
}
