//! Builder: the settings of a service, and its start.

use super::handle::{ServiceHandle, TimerService};
use crate::dispatch::channel::Outbox;
use crate::dispatch::{Dispatch, Receiver};
use crate::engine::life::batch::Batch;
use crate::engine::notices::hooks::Users;
use crate::engine::notices::news::{Dropped, Late, Stall};
use crate::engine::notices::watchdog::THRESHOLD_MIN;
use crate::engine::start;
use crate::engine::start::settings::{Outlet, Pinning, Settings};
use crate::engine::task::Task;
use crate::error::StartError;
use crate::time::{ManualClock, nanos};
use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a service that is not started yet. [`TimerService::builder`] makes one.
///
/// The calls that change a setting never fail: [`start`](Self::start) checks all settings.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Batch, Dispatch, Pinning, TimerService};
///
/// let service = TimerService::builder()
///     .tick(Duration::from_millis(1))
///     .shards(2)
///     .pinning(Pinning::Off)
///     .name("timeouts")
///     .dispatch(Dispatch::RayonThreads(2))
///     .on_expire(|sessions: &mut Batch<'_, u64>| {
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
    settings: Settings,
    outlet: Outlet<T>,
    let_go: fn(T),
}

impl TimerService<Task> {
    /// Settings for a service; [`start`](Builder::start) starts it.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn builder() -> Builder<Task> {
        Builder {
            settings: Settings::default(),
            outlet: Outlet::Handler(Box::new(|tasks| tasks.for_each(Task::run))),
            let_go: drop,
        }
    }
}

impl<T: Send + 'static> Builder<T> {
    /// Sets the handler, and with it the type `U` of the payload. The handler gets batches of
    /// payloads whose timers fired. Several threads call it at once.
    ///
    /// Payloads that the handler leaves in a batch are dropped: see
    /// [`on_dropped`](Self::on_dropped). If the handler panics, the panic is caught and counted,
    /// and a new call gets the rest of the batch. If it panics before it has taken a payload, one
    /// payload is dropped.
    pub fn on_expire<U, F>(self, handler: F) -> Builder<U>
    where
        U: Send + 'static,
        F: Fn(&mut Batch<'_, U>) + Send + Sync + 'static,
    {
        self.outlet(Outlet::Handler(Box::new(handler)))
    }

    /// Sends payloads to a channel instead of a handler, in batches of at most 64, and sets the
    /// type `U` of the payload. The shards' threads send; [`dispatch`](Self::dispatch) has no
    /// effect.
    ///
    /// The channel holds `capacity` batches. A capacity of 0 counts as 1. Shards that find the last
    /// free place at one instant all use it, so the channel may hold one batch more for each shard
    /// beyond the first. `None` means no limit but memory.
    ///
    /// While the channel is full no timer fires. Due timers stay in the wheel: they can be
    /// cancelled, `stop` hands them back, and each turn that leaves them there counts in
    /// [`Machinery::held`](crate::Machinery::held). On a manual clock they fire in the next
    /// `advance` for which there is room.
    ///
    /// Once all receivers are gone, payloads are dropped when their timers fire, and counted in
    /// [`TimerCounts::dropped`](crate::TimerCounts::dropped). Periodic timers run on the shard's
    /// thread. Batches that are in the channel when the service stops can still be received. The
    /// channel is disconnected when the service and its handles are gone.
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
    pub fn on_expire_channel<U: Send + 'static>(
        self,
        capacity: Option<usize>,
    ) -> (Builder<U>, Receiver<U>) {
        let (outbox, receiver) = Outbox::new(capacity);
        (self.outlet(Outlet::Channel(Arc::new(outbox))), receiver)
    }

    /// The tick: deadlines round up to a multiple of it. From 1 us to 24 h. Default: 0.2 ms, with a
    /// budget of 1,000 wake-ups a second (see [`max_wakeups_per_s`](Self::max_wakeups_per_s)).
    ///
    /// A tick that is set has no budget unless that is set too. With a tick of 1 ms timers are up
    /// to 0.8 ms later, and where a thousand fire in a second they take three quarters of the CPU.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let service = TimerService::builder().tick(Duration::from_micros(100)).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.tick = Some(tick);
        self
    }

    /// Where handlers run. Default: in the rayon pool that all services of the process share;
    /// inline if the service is on a manual clock.
    ///
    /// # Example
    /// See [`Dispatch`].
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.settings.dispatch = Some(dispatch);
        self
    }

    /// The number of shards, 1 to 4,096. Each shard is a thread with a wheel of its own. Default:
    /// one shard for every four cores, rounded up. (A CPU quota counts as cores, as for
    /// [`Dispatch::Rayon`].)
    ///
    /// One shard keeps up with several producers. Short tasks that run
    /// [inline](Dispatch::Inline) in a burst end soonest with one shard for every core.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().shards(2).start()?;
    /// assert_eq!(service.shards(), 2);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.settings.shards = Some(shards);
        self
    }

    /// The cores on which the shards' threads run. Default: [`Pinning::AllCores`]. A thread that
    /// cannot be pinned, or has let go of a busy core, runs unpinned, and is counted in
    /// [`Stats::unpinned_shards`](crate::Stats::unpinned_shards).
    ///
    /// # Example
    /// ```
    /// use wheelwork::{Pinning, TimerService};
    ///
    /// let service = TimerService::builder().pinning(Pinning::Cores(vec![0])).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.settings.pinning = pinning;
        self
    }

    /// The beginning of the names of the threads of the service's shards, its watchdog and its own
    /// pool, without a NUL character. Default:
    /// `wheelwork`.
    ///
    /// A shard's thread is named `timeouts-shard-0`, a worker of a pool of the service's own
    /// `timeouts-pool-0`. Linux shows 15 characters of a thread's name, other systems up to 63. A
    /// longer name loses the end of what was given here, and keeps its number: `timeout-shard-0`.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().name("timeouts").start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Runs the service on a clock that a test moves. The service then has no shard threads.
    ///
    /// # Example
    /// See [`ManualClock`].
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// The greatest number of timers that may be pending at once, exactly. One more is refused
    /// with [`ScheduleError::Full`](crate::ScheduleError::Full). There is room again as soon as a
    /// timer has fired or was cancelled; for a periodic timer that runs, as soon as its run has
    /// ended. Default: no limit but the number of cells.
    ///
    /// Cost: with a limit all threads count in one shared number.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{ScheduleError, TimerService};
    ///
    /// let service = TimerService::builder().max_pending(1).start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ()).unwrap();
    /// let refused = service.schedule(Duration::from_secs(5), || ());
    /// assert!(matches!(refused, Err(ScheduleError::Full(_))));
    /// service.cancel(id);
    /// assert!(service.schedule(Duration::from_secs(5), || ()).is_ok());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn max_pending(mut self, timers: usize) -> Self {
        self.settings.max_pending = timers;
        self
    }

    /// Sets a hook that gets each panic of a handler or task, after it was caught, on the thread
    /// where it happened.
    ///
    /// Without the hook a panic is counted in [`Stats::panics`](crate::Stats::panics), and the
    /// process's panic hook prints it. With the feature `tracing` it is an event too.
    ///
    /// Tasks that the worker has claimed already wait for the hook. If the hook panics, that is
    /// counted in [`Stats::hook_panics`](crate::Stats::hook_panics).
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
        self.settings.hooks.on_panic = Some(Users::new(Box::new(hook)));
        self
    }

    /// Sets a hook that is called when timers fire later than `threshold` after their deadlines.
    /// [`Late`] says how late, and how many they are.
    ///
    /// Lateness is measured when a worker claims due timers, before it runs them; so a slow hook
    /// makes them later. (A run of a periodic timer that the hook cancels or pauses is told of,
    /// too.) Lateness is never negative, and at most 2 us more than the truth. If a timer is later
    /// because it shared a reading of the clock (see [`schedule`](crate::ServiceHandle::schedule)),
    /// the time that this adds is not measured.
    ///
    /// If the hook panics, that is counted in [`Stats::hook_panics`](crate::Stats::hook_panics).
    ///
    /// Cost: a comparison for each timer that fires.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let service = TimerService::builder()
    ///     .on_late(Duration::from_millis(100), |late| {
    ///         eprintln!("{} timers are late, by at most {:?}", late.timers, late.max_lateness);
    ///     })
    ///     .start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn on_late(
        mut self,
        threshold: Duration,
        hook: impl Fn(&Late) + Send + Sync + 'static,
    ) -> Self {
        self.settings.hooks.on_late = Some((nanos(threshold), Users::new(Box::new(hook))));
        self
    }

    /// Sets a hook that is called when timers fired and nobody took their payloads, on the thread
    /// that has just dropped them. [`Dropped`] says how many they are. There are three causes:
    ///
    ///  - The handler left payloads in its batch, or panicked before it took one.
    ///  - An executor dropped its job.
    ///  - All receivers of the channel are gone. (What is in the channel when the last one goes is
    ///    lost with it, and nobody is told.)
    ///
    /// Without the hook they are counted in
    /// [`TimerCounts::dropped`](crate::TimerCounts::dropped). With the feature `tracing` they are
    /// an event too. If the hook panics, that is counted in
    /// [`Stats::hook_panics`](crate::Stats::hook_panics).
    ///
    /// # Example
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let (send, receive) = mpsc::channel();
    /// let service = TimerService::builder()
    ///     .on_dropped(move |dropped| _ = send.send(dropped.timers))
    ///     .on_expire(|batch: &mut Batch<'_, &str>| drop(batch.next()))
    ///     .start()?;
    /// service.schedule_many([(Duration::ZERO, "taken"), (Duration::ZERO, "left")]);
    /// assert_eq!(receive.recv()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_dropped(mut self, hook: impl Fn(&Dropped) + Send + Sync + 'static) -> Self {
        self.settings.hooks.on_dropped = Some(Users::new(Box::new(hook)));
        self
    }

    /// Sets a hook that is called when a shard stalls: it takes no turn although it is overdue by
    /// more than `threshold` (at least 10 ms). [`Stall`] says which shard, and by how much it is
    /// overdue. The hook is called once for each stall, one to two thresholds after that began, if
    /// its thread gets a processor and no earlier call of the hook holds it up.
    ///
    /// A shard stalls when its thread gets no processor, or when code of yours blocks there: a
    /// handler that runs inline, an executor's function, a hook. With
    /// [`boot_time`](Self::boot_time), a suspension of the machine in which a timer came due counts
    /// as a stall too, if the threshold is less than a second.
    ///
    /// The hook runs on a thread of its own. The thread looks at the shards twice in each
    /// threshold, so a service with this hook is never quite idle. Without the hook there is no
    /// such thread. On a manual clock nothing is watched. If the hook panics, that is counted in
    /// [`Stats::hook_panics`](crate::Stats::hook_panics).
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
    ///     .on_stall(Duration::from_millis(10), move |stall| {
    ///         let _ = send.send(stall.clone());
    ///     })
    ///     .start()?;
    /// // Too long for a task that runs inline.
    /// service.schedule(Duration::ZERO, || std::thread::sleep(Duration::from_millis(100)))?;
    /// let stall = stalls.recv()?;
    /// assert!(stall.shard == 0 && stall.overdue > Duration::from_millis(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_stall(
        mut self,
        threshold: Duration,
        hook: impl Fn(&Stall) + Send + Sync + 'static,
    ) -> Self {
        self.settings.hooks.on_stall = Some((
            nanos(threshold.max(THRESHOLD_MIN)),
            Users::new(Box::new(hook)),
        ));
        self
    }

    /// A spin margin: a shard's thread that sleeps until a deadline wakes up `margin` earlier and
    /// spins until the deadline. Default: none.
    ///
    /// Linux wakes a thread some 0.1 ms late. With a margin of 100 us the shard's thread is awake
    /// at the tick: p99 of the lateness is 0.03 to 0.06 ms at a tick of 10 us, by the machine.
    /// Other systems may wake it later, and need a greater margin. The cost is one core for the
    /// time of each margin; if timers follow each other within the margin, that core is busy all
    /// the time. With [`Duration::MAX`] a shard never sleeps and is never rung: for a core that it
    /// has to itself.
    ///
    /// A shard that waits for workers that are behind ([`held`](crate::Machinery::held)) naps,
    /// whatever its margin.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let service = TimerService::builder()
    ///     .tick(Duration::from_micros(10))
    ///     .spin(Duration::from_micros(100))
    ///     .start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn spin(mut self, margin: Duration) -> Self {
        self.settings.spin = margin;
        self
    }

    /// A budget of wake-ups a second for each shard, on average. Default: 1,000, and no limit if a
    /// [`tick`](Self::tick) or a [`spin`](Self::spin) margin was set. With a tick of more than half
    /// a millisecond it has no effect. It is no limit: beyond it a shard still wakes up a thousand
    /// times a second, and more often where messages ring or the pool has no room.
    ///
    /// Within the budget a shard wakes up at the tick of each due timer. Beyond it what is due
    /// fires at the next full millisecond, as with a tick of 1 ms. So does what is due while more
    /// than 4,096 timers a millisecond are armed or cancelled. A shard saves up to 64 wake-ups for
    /// a burst. Naps in which it waits for messages are charged only if one of
    /// these rings.
    ///
    /// A wake-up takes some 25 us of CPU. With a tick of 100 us and no budget, 10,000 timers a
    /// second that fire at random times cause 6,000 wake-ups a second. With the default settings
    /// they cause 1,000. Where few timers fire, each is some 0.2 ms late in place of 0.55 ms at a
    /// tick of 1 ms. These figures are of Linux.
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroU32;
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let builder = TimerService::builder().tick(Duration::from_micros(100));
    /// let service = builder.max_wakeups_per_s(NonZeroU32::new(1_000).unwrap()).start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn max_wakeups_per_s(mut self, budget: NonZeroU32) -> Self {
        self.settings.wakeups = Some(budget);
        self
    }

    /// Whether time counts while the machine is suspended (CLOCK_BOOTTIME, Linux only). Default:
    /// no. With a manual clock it has no effect.
    ///
    /// If it counts, a timer of an hour fires an hour later, also if the machine was suspended
    /// meanwhile. What is due when the machine wakes up fires within a second; for that a shard
    /// with pending timers wakes up once a second. An `Instant` does not count suspended time:
    /// `schedule_at` takes what is left until it as a delay.
    ///
    /// # Example
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// let service = wheelwork::TimerService::builder().boot_time(true).start()?;
    /// # }
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn boot_time(mut self, boot_time: bool) -> Self {
        self.settings.boot_time = boot_time;
        self
    }

    /// Has up to this number of threads of each shard relieve the pool: they run due timers while
    /// all workers of the pool are blocked. Default: none. With an executor they do so too, so what
    /// is due may then run on a thread that is not the executor's. Inline, with a channel, and on a
    /// manual clock, it has no effect.
    ///
    /// When no worker has taken a due timer for 10 ms, the shard starts a thread, named
    /// `wheelwork-relief` (`wheelwork-relie` on Linux). The thread works at what is due and ends.
    /// If its handler blocks too, the shard starts the next one. The handler can ask
    /// [`is_relief_thread`](crate::is_relief_thread) and leave to others what would block this
    /// thread. While something is due, the shard looks every 5 ms; otherwise it costs nothing.
    ///
    /// # Example
    /// ```
    /// use std::sync::{Barrier, mpsc};
    /// use std::time::Duration;
    /// use wheelwork::{Batch, Dispatch, TimerService, is_relief_thread};
    ///
    /// let (say, said) = mpsc::channel();
    /// // The first timer blocks the only worker until the second one has come.
    /// static BOTH: Barrier = Barrier::new(2);
    /// let service = TimerService::builder()
    ///     .dispatch(Dispatch::RayonThreads(1))
    ///     .max_relief_threads(1)
    ///     .on_expire(move |names: &mut Batch<'_, &str>| {
    ///         for _ in names {
    ///             BOTH.wait();
    ///             let _ = say.send(is_relief_thread());
    ///         }
    ///     })
    ///     .start()?;
    /// service.schedule(Duration::ZERO, "first")?;
    /// service.schedule(Duration::from_millis(20), "second")?;
    /// let mut by_relief: Vec<bool> = said.iter().take(2).collect();
    /// by_relief.sort();
    /// assert_eq!(by_relief, [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_relief_threads(mut self, threads: usize) -> Self {
        self.settings.relief_threads = threads;
        self
    }

    /// Starts the service: its shard threads, and its pool unless that is there already.
    ///
    /// # Errors
    /// Each variant of [`StartError`] is one setting that is out of range, or one thing that the
    /// system did not provide.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{StartError, TimerService};
    ///
    /// assert!(TimerService::builder().start().is_ok());
    /// let error = TimerService::builder().tick(Duration::ZERO).start().unwrap_err();
    /// assert!(matches!(error, StartError::Tick(_)));
    /// ```
    pub fn start(self) -> Result<TimerService<T>, StartError> {
        let (started, unstarted) = start::prepare(self.settings, self.outlet, self.let_go)?;
        let engine = started.engine.clone();
        let handle = ServiceHandle { engine };
        // From here on an error drops the service, which stops the threads that have started.
        let started = Arc::new(started);
        let service = TimerService { handle, started };
        if let Some(unstarted) = unstarted {
            service.started.spawn(unstarted)?;
        }
        Ok(service)
    }

    /// Leaves the event of the start to the caller (`Engine::tell_start`): for a service that a
    /// subscriber may ask for while it is told.
    pub(crate) fn untold(mut self) -> Self {
        self.settings.is_start_told = false;
        self
    }

    fn outlet<U>(self, outlet: Outlet<U>) -> Builder<U> {
        Builder {
            settings: self.settings,
            outlet,
            let_go: drop,
        }
    }

    /// What `cancel_all` does with payloads instead of dropping them.
    #[cfg(feature = "async")]
    pub(crate) fn let_go(mut self, let_go: fn(T)) -> Self {
        self.let_go = let_go;
        self
    }

    /// Like [`dispatch`](Self::dispatch), unless that was called.
    #[cfg(feature = "async")]
    pub(crate) fn dispatch_unless_set(mut self, dispatch: Dispatch) -> Self {
        self.settings.dispatch.get_or_insert(dispatch);
        self
    }

    /// These settings, on the manual clock that they have, or else on a new one; and that clock.
    #[cfg(feature = "async")]
    pub(crate) fn manual_clock(mut self) -> (Self, ManualClock) {
        let clock = self.settings.clock.get_or_insert_default().clone();
        (self, clock)
    }

    /// Whether large slots of the wheel are cascaded ahead of time, in steps. Default: yes.
    #[cfg(any(loom, feature = "__internals"))]
    pub(crate) fn cascade_budget(mut self, cascade_budget: bool) -> Self {
        self.settings.cascade_budget = cascade_budget;
        self
    }

    /// Whether timers on a manual clock share readings, too. Default: no.
    #[cfg(any(loom, feature = "__internals"))]
    pub(crate) fn shared_readings(mut self, shared_readings: bool) -> Self {
        self.settings.shared_readings = shared_readings;
        self
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.settings).finish()
    }
}
