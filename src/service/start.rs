//! Start: from settings to a running service: its shards, their threads, and their ways to where timers fire.

use super::builder::{Builder, Outlet};
use super::cells::Cells;
use super::core::{Core, SHARDS_MAX};
#[cfg(feature = "tracing")]
use super::events::Events;
use super::hooks::{Hooks, Users};
use super::inner::{Handler, Inner};
use super::reading;
use super::running::Running;
use super::watchdog;
use super::{ManualShards, TimerHandle, TimerService};
use crate::count::Counter;
use crate::dispatch::channel::{Outbox, ToChannel};
use crate::dispatch::job::inside_for_good;
use crate::dispatch::pool::{Pool, may_attend};
use crate::dispatch::pooled::{Execute, Executor, Pooled};
use crate::dispatch::{Dispatch, Dispatcher, Inline, WAITING_MAX};
use crate::error::StartError;
use crate::shard::turn::{Shard, pace};
use crate::shard::worker;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, StaticU32, ThreadBuilder, prepare_fences};
use crate::time::{Clock, TickLength};
use core_affinity::CoreId;
use rayon::ThreadPoolBuilder;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const TICK_MIN: Duration = Duration::from_micros(1);
const TICK_MAX: Duration = Duration::from_secs(24 * 3600);

/// The system's set of cores has room for so many; `core_affinity` panics beyond.
const CORES_MAX: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 1024 } else { 64 };

impl<T: Send + 'static> Builder<T> {
    /// Starts the service: its shard threads and its pool.
    ///
    /// # Errors
    /// A tick or a number of shards out of range, a name that no thread can have, a pool without threads or that can't be made, a thread that the system did not give, or no clock that
    /// counts suspended time.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{StartError, TimerService};
    ///
    /// assert!(TimerService::builder().start().is_ok());
    /// assert!(matches!(TimerService::builder().tick(Duration::ZERO).start(), Err(StartError::Tick(_))));
    /// ```
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
        let clock = match self.clock {
            Some(manual) => Clock::Manual(manual),
            None if self.boottime => Clock::boot().ok_or(StartError::Boottime)?,
            None => Clock::monotonic(),
        };
        let inline = if manual.is_some() { Dispatch::Inline } else { Dispatch::Rayon };
        let (handler, outbox, way): (Box<Handler<T>>, _, _) = match self.outlet {
            Outlet::Handler(handler) => (handler, None, way(self.dispatch.unwrap_or(inline), &self.name, manual.is_none())?),
            // No payload comes to this handler.
            Outlet::Channel(outbox) => (Box::new(|_| ()), Some(outbox.clone()), Way::Channel(outbox)),
        };
        let now = tick.floor(clock.now_ns());
        let pace = if self.cascade_budget { pace(tick) } else { u64::MAX };
        let (core, drains) = Core::new(next_tag(), shards, self.max_pending);
        let inner = Arc::new(Inner {
            cells: Cells::new(core),
            shared_slack_ns: if matches!(clock, Clock::Monotonic { .. }) || cfg!(loom) { tick.nanos() / reading::SLACK } else { 0 },
            clock,
            tick,
            spin_ns: spin_ns(self.spin),
            wakeup_ns: self.wakeups.map_or(0, |per_s| 1_000_000_000 / u64::from(per_s.get())),
            handler: Users::new(handler),
            outbox,
            let_go: self.let_go,
            hooks: Hooks {
                #[cfg(feature = "tracing")]
                events: Events::of(&self.name),
                ..self.hooks
            },
            counters: (0..shards).map(|_| Arc::default()).collect(),
            stalls: (0..shards).map(|_| Counter::default()).collect(),
            backlogs: (0..shards).map(|_| Arc::default()).collect(),
            running: Running::default(),
            panics: AtomicU64::new(0),
            unpinned: AtomicUsize::new(0),
            woken: if let Way::Pool(pool) = &way { pool.woken() } else { Arc::default() },
        });
        // Whoever moves a manual clock may be the pool's only worker: it does not wait for room.
        let waiting_max = if manual.is_some() { usize::MAX } else { WAITING_MAX };
        let shards = drains.into_iter().enumerate().map(|(number, drain)| {
            let house = inner.house(number);
            let waiting = inner.backlogs[number].clone();
            let dispatcher: Box<dyn Dispatcher> = match &way {
                Way::Inline => Box::new(Inline::new(house)),
                Way::Pool(pool) => Box::new(Pooled::new(house, pool.clone(), waiting, waiting_max)),
                Way::Executor(execute) => Box::new(Pooled::new(house, executor(&inner, execute), waiting, waiting_max)),
                Way::Channel(outbox) => Box::new(ToChannel::new(house, outbox.clone())),
            };
            Shard::new(tick, drain, now, pace, dispatcher, inner.counters[number].clone())
        });
        let handle = TimerHandle { inner: inner.clone() };
        #[cfg(feature = "tracing")]
        inner.hooks.tell(|events| events.starts(handle.shards(), self.tick));
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
            let house = inner.house(number);
            let core = (!cores.is_empty()).then(|| cores[number % cores.len()]);
            let pin = self.pin;
            // On an error the service is dropped, which stops the threads that have started.
            let thread = ThreadBuilder::new()
                .name(format!("{}-shard-{number}", self.name))
                .spawn(move || {
                    inside_for_good();
                    if pin && !core.is_some_and(pin_to) {
                        house.inner.count_unpinned();
                        #[cfg(feature = "tracing")]
                        house.inner.hooks.tell(|events| events.unpinned(number));
                    }
                    worker::run(shard, &*house);
                })
                .map_err(StartError::Thread)?;
            service.threads.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).push(thread);
        }
        if let Some(threshold_ns) = inner.hooks.on_stall.as_ref().map(|(threshold_ns, _)| *threshold_ns) {
            let watch = move || {
                inside_for_good();
                watchdog::run(&inner, threshold_ns);
            };
            let thread = ThreadBuilder::new().name(format!("{}-watchdog", self.name)).spawn(watch).map_err(StartError::Thread)?;
            service.threads.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).push(thread);
        }
        Ok(service)
    }
}

/// An endless margin is one that no sleep is longer than.
fn spin_ns(margin: Duration) -> u64 {
    if margin == Duration::MAX { u64::MAX } else { crate::time::nanos(margin) }
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

/// A shard's way to where its timers fire.
enum Way<T> {
    Inline,
    Pool(Pool),
    Executor(Arc<Execute>),
    Channel(Outbox<T>),
}

fn way<T>(dispatch: Dispatch, name: &str, attended: bool) -> Result<Way<T>, StartError> {
    let threads = match dispatch {
        Dispatch::Inline => return Ok(Way::Inline),
        Dispatch::Pool(threads) => return Ok(Way::Pool(Pool::of(threads))),
        Dispatch::Executor(execute) => return Ok(Way::Executor(execute)),
        Dispatch::RayonThreads(0) => return Err(StartError::Pool("RayonThreads(0): it has one thread at least".to_string())),
        Dispatch::RayonThreads(threads) => threads,
        Dispatch::Rayon => thread::available_parallelism().map_or(1, usize::from),
    };
    own_pool(threads, name, attended).map(Way::Pool)
}

/// A pool of so many threads. On a manual clock nobody looks again after what was left to a thread
/// that is held up, so none attends.
fn own_pool(threads: usize, name: &str, attended: bool) -> Result<Pool, StartError> {
    let mut started = Vec::new();
    let spawn = |thread: rayon::ThreadBuilder| {
        let number = thread.index();
        let builder = ThreadBuilder::new().name(format!("{name}-pool-{number}"));
        let run = || {
            may_attend();
            thread.run();
        };
        started.push((number, builder.spawn(run)?.thread().clone()));
        Ok(())
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads).spawn_handler(spawn).build();
    let pool = Arc::new(pool.map_err(|error| StartError::Pool(error.to_string()))?);
    if !attended {
        return Ok(Pool::of(pool));
    }
    started.sort_unstable_by_key(|&(number, _)| number);
    Ok(Pool::attended(pool, started.into_iter().map(|(_, thread)| thread)))
}

/// A user's executor, whose panics are caught as those of hooks are.
fn executor<T: Send + 'static>(inner: &Arc<Inner<T>>, execute: &Arc<Execute>) -> Executor {
    let (inner, execute) = (inner.clone(), Users::new(execute.clone()));
    Executor(Arc::new(move |job| inner.hooks.call(|| execute(job))))
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
