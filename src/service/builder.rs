//! Builder: what a service is made of.

use super::core::{Cells, Core, SHARDS_MAX};
use super::fire::Batch;
use super::inner::{Handler, Inner, ShardHouse};
use super::task::Task;
use super::{ManualShards, TimerHandle, TimerService};
use crate::dispatch::{Dispatch, Dispatcher, Inline, Pooled, WAITING_MAX};
use crate::error::StartError;
use crate::shard::turn::{Shard, pace};
use crate::shard::{Counters, worker};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, StaticU32, ThreadBuilder, prepare_fences};
use crate::time::{Clock, ManualClock, TickLength};
use core_affinity::CoreId;
use crossbeam_utils::CachePadded;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const TICK_MIN: Duration = Duration::from_micros(1);
const TICK_MAX: Duration = Duration::from_secs(24 * 3600);

/// The system's set of cores has room for so many; `core_affinity` panics beyond.
const CORES_MAX: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 1024 } else { 64 };

/// Settings of a service to be. Made by [`TimerService::builder`].
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
    tick: Duration,
    shards: Option<usize>,
    cores: Vec<usize>,
    pin: bool,
    name: String,
    dispatch: Option<Dispatch>,
    clock: Option<ManualClock>,
    cascade_budget: bool,
    handler: Box<Handler<T>>,
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
            cascade_budget: true,
            handler: Box::new(|tasks| tasks.for_each(Task::run)),
        }
    }
}

impl<T: Send + 'static> Builder<T> {
    /// The resolution: deadlines round up to a multiple of it. From 1 us to 24 h; 1 ms unless set.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The number of shards, 1 to 4,096: each is a thread with a wheel of its own. Unless set, one for every four cores, at least one: a
    /// shard keeps up with several producers (ARCHITECTURE.md has the measurement).
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The cores to pin shards to, in turn, by their numbers. Unless set, all that the process may use.
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = cores.into_iter().collect();
        self
    }

    /// Whether shard threads are pinned to cores; they are unless set. A thread that cannot be pinned runs unpinned, and is counted in
    /// [`Stats::unpinned_shards`](crate::Stats::unpinned_shards).
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// The beginning of the names of the service's threads, without a NUL; `wheelwork` unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Where handlers run: a rayon pool of the service's own unless set; inline on a manual clock.
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = Some(dispatch);
        self
    }

    /// Runs the service on a clock that a test moves. It then has no shard threads.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Whether large slots of the wheel are cascaded ahead of time, in steps; they are unless set. For measuring what that is good for.
    #[doc(hidden)]
    pub fn cascade_budget(mut self, cascade_budget: bool) -> Self {
        self.cascade_budget = cascade_budget;
        self
    }

    /// Sets the handler, and with it the type of the payload: it is called with batches of payloads whose timers fired, from several
    /// threads at the same time. A panic in it is counted, and the rest of the batch is handled by a new call; one that comes before it took anything
    /// costs a payload, which is dropped.
    pub fn on_expire<U, F>(self, handler: F) -> Builder<U>
    where
        U: Send + 'static,
        F: Fn(&mut Batch<'_, U>) + Send + Sync + 'static,
    {
        let Self { tick, shards, cores, pin, name, dispatch, clock, cascade_budget, handler: _ } = self;
        Builder { tick, shards, cores, pin, name, dispatch, clock, cascade_budget, handler: Box::new(handler) }
    }

    /// Starts the service: its shard threads and its pool.
    ///
    /// # Errors
    /// A tick or a number of shards out of range, a name that no thread can have, a pool without threads, or a thread that the system did not give.
    pub fn start(self) -> Result<TimerService<T>, StartError> {
        if !(TICK_MIN..=TICK_MAX).contains(&self.tick) {
            return Err(StartError::Tick(self.tick));
        }
        let shards = self.shards.unwrap_or_else(default_shards);
        if !(1..=SHARDS_MAX).contains(&shards) {
            return Err(StartError::Shards(shards));
        }
        if self.name.contains('\0') {
            return Err(StartError::Name(self.name));
        }
        prepare_fences();
        let tick = TickLength::new(crate::time::nanos(self.tick));
        let manual = self.clock.clone();
        let clock = self.clock.map_or_else(Clock::monotonic, Clock::Manual);
        let inline = if manual.is_some() { Dispatch::Inline } else { Dispatch::Rayon };
        let pool = pool(self.dispatch.unwrap_or(inline), &self.name)?;
        let now = tick.floor(clock.now_ns());
        let pace = if self.cascade_budget { pace(tick) } else { u64::MAX };
        let (core, drains) = Core::new(next_tag(), shards);
        let inner = Arc::new(Inner {
            cells: Cells::new(core),
            clock,
            tick,
            handler: self.handler,
            counters: (0..shards).map(|_| Arc::default()).collect(),
            running: CachePadded::new(AtomicUsize::new(0)),
            fired: CachePadded::new(AtomicU64::new(0)),
            panics: AtomicU64::new(0),
            unpinned: AtomicUsize::new(0),
        });
        // Whoever moves a manual clock may be the pool's only worker: it does not wait for room.
        let waiting_max = if manual.is_some() { usize::MAX } else { WAITING_MAX };
        let shards = drains.into_iter().zip(&inner.counters).map(|(drain, counters): (_, &Arc<Counters>)| {
            let dispatcher: Box<dyn Dispatcher> = match &pool {
                None => Box::new(Inline::new(inner.clone())),
                Some(pool) => Box::new(Pooled::new(inner.clone(), pool.clone(), waiting_max)),
            };
            Shard::new(drain, now, pace, dispatcher, counters.clone())
        });
        let handle = TimerHandle { inner: inner.clone() };
        let mut service = TimerService { handle, threads: Mutex::new(Vec::new()), manual: None };
        if let Some(clock) = manual {
            let manual = Arc::new(ManualShards { inner: inner.clone(), shards: Mutex::new(shards.collect()) });
            let driven: Arc<dyn crate::time::Driven> = manual.clone();
            clock.register(Arc::downgrade(&driven));
            service.manual = Some(manual);
            return Ok(service);
        }
        let cores = if self.pin { cores(self.cores) } else { Vec::new() };
        for (number, shard) in shards.enumerate() {
            let house = ShardHouse { inner: inner.clone(), shard: number };
            let core = (!cores.is_empty()).then(|| cores[number % cores.len()]);
            let pin = self.pin;
            // On an error the service is dropped, which stops the threads that have started.
            let thread = ThreadBuilder::new()
                .name(format!("{}-shard-{number}", self.name))
                .spawn(move || {
                    if pin && !core.is_some_and(pin_to) {
                        house.inner.count_unpinned();
                    }
                    worker::run(shard, &house);
                })
                .map_err(StartError::Thread)?;
            service.threads.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).push(thread);
        }
        Ok(service)
    }
}

/// One shard for four cores. Measured, see ARCHITECTURE.md.
fn default_shards() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(4))
}

fn cores(asked: Vec<usize>) -> Vec<CoreId> {
    if asked.is_empty() { core_affinity::get_core_ids().unwrap_or_default() } else { asked.into_iter().map(|id| CoreId { id }).collect() }
}

/// Pins the calling thread to a core. Whether that worked.
fn pin_to(core: CoreId) -> bool {
    core.id < CORES_MAX && core_affinity::set_for_current(core)
}

fn pool(dispatch: Dispatch, name: &str) -> Result<Option<Arc<ThreadPool>>, StartError> {
    let threads = match dispatch {
        Dispatch::Inline => return Ok(None),
        Dispatch::Pool(pool) => return Ok(Some(pool)),
        Dispatch::RayonThreads(0) => return Err(StartError::Pool("it would have no threads".to_string())),
        Dispatch::RayonThreads(threads) => threads,
        Dispatch::Rayon => thread::available_parallelism().map_or(1, usize::from),
    };
    let name = name.to_string();
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |number| format!("{name}-pool-{number}"))
        .build()
        .map(|pool| Some(Arc::new(pool)))
        .map_err(|error| StartError::Pool(error.to_string()))
}

/// A tag for each service.
fn next_tag() -> NonZeroU32 {
    static NEXT: StaticU32 = StaticU32::new(1);
    loop {
        // Ordering: Relaxed. Only the number matters.
        if let Some(tag) = NonZeroU32::new(NEXT.fetch_add(1, Ordering::Relaxed)) {
            return tag;
        }
    }
}
