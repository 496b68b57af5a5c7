//! Start: from settings to a service whose threads can be started.
//!
//! Runs on the thread that starts the service; nobody else knows the service yet.

mod backend;
mod cores;
mod pools;
pub(crate) mod settings;
mod tenure;
mod thread_name;
pub(crate) mod threads;

use crate::cold_drop::ColdDrop;
use crate::counters::Counter;
use crate::dispatch::channel::Outgoing;
use crate::dispatch::{Dispatch, WAITING_MAX};
use crate::engine::cells::Cells;
use crate::engine::life::in_flight::InFlight;
use crate::engine::life::wall::WallTimers;
use crate::engine::local::shared_clock;
use crate::engine::local::thread_local::forget_last;
use crate::engine::manual::ManualShards;
#[cfg(feature = "tracing")]
use crate::engine::notices::events::Events;
use crate::engine::notices::hooks::{Hooks, Users};
use crate::engine::shared::{SHARDS_MAX, Shared};
use crate::engine::{Engine, Handler};
use crate::entry::Entry;
use crate::error::StartError;
use crate::lane::Drain;
use crate::shard::Counters;
use crate::shard::turn::{Shard, pace};
use crate::sync::{
    AtomicU64, AtomicUsize, Mutex, Ordering, StaticU32, prepare_fences, prepare_forks,
};
use crate::time::{Clock, Driven, Nanos, TickLength};
use backend::{Backend, backend, dispatcher};
use settings::{Outlet, Settings};
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use threads::{Started, Unstarted};

const TICK_MIN: Duration = Duration::from_micros(1);
const TICK_MAX: Duration = Duration::from_secs(24 * 3600);

/// What takes the payloads of due timers.
struct Sink<T> {
    handler: Box<Handler<T>>,
    /// The channel, if there is one. No payload comes to the handler then.
    channel: Option<Arc<dyn Outgoing<T>>>,
    backend: Backend<T>,
}

/// Makes a service, and says which threads it needs. On a manual clock it needs none.
pub(crate) fn prepare<T: Send + 'static>(
    mut settings: Settings,
    outlet: Outlet<T>,
    let_go: fn(T),
) -> Result<(Started<T>, Option<Unstarted>), StartError> {
    let count = check(&settings)?;
    prepare_fences();
    prepare_forks(forget_last);
    let clock = clock(&settings)?;
    let sink = sink(outlet, &mut settings)?;
    let is_manual = settings.clock.is_some();
    let (shared, drains) = Shared::new(next_tag(), count, settings.max_pending, is_manual);
    let (manual, name) = (settings.clock.clone(), settings.name.clone());
    let pinning = std::mem::take(&mut settings.pinning);
    let is_cascaded_ahead = settings.cascade_budget;
    let relief_threads = settings.relief_threads;
    let is_told = settings.is_start_told;
    let (engine, backend) = engine(&mut settings, shared, clock, sink, let_go);
    let shards = shards(&engine, drains, &backend, is_cascaded_ahead, relief_threads);
    if is_told {
        engine.tell_start();
    }
    let mut started = Started {
        engine: engine.clone(),
        threads: Mutex::new(Vec::new()),
        manual: None,
    };
    let Some(clock) = manual else {
        let unstarted = Unstarted {
            shards,
            name,
            pinning,
        };
        return Ok((started, Some(unstarted)));
    };
    let manual = Arc::new(ManualShards::new(engine, shards));
    let driven: Arc<dyn Driven> = manual.clone();
    clock.register(Arc::downgrade(&driven));
    started.manual = Some(manual);
    Ok((started, None))
}

/// The clock that the settings ask for.
fn clock(settings: &Settings) -> Result<Clock, StartError> {
    Ok(match &settings.clock {
        Some(manual) => Clock::Manual(manual.clone()),
        None if settings.boot_time => Clock::boot().ok_or(StartError::BootTime)?,
        None if !Clock::IS_THERE => return Err(StartError::Thread(ErrorKind::Unsupported.into())),
        None => Clock::monotonic(),
    })
}

/// What takes the payloads, by the outlet and the settings.
fn sink<T>(outlet: Outlet<T>, settings: &mut Settings) -> Result<Sink<T>, StartError> {
    let is_manual = settings.clock.is_some();
    let handler = match outlet {
        Outlet::Handler(handler) => handler,
        Outlet::Channel(channel) => {
            return Ok(Sink {
                handler: Box::new(|_| ()),
                channel: Some(channel.clone()),
                backend: Backend::Channel(channel),
            });
        }
    };
    let dispatch = settings.dispatch.take().unwrap_or(if is_manual {
        Dispatch::Inline
    } else {
        Dispatch::Rayon
    });
    Ok(Sink {
        handler,
        channel: None,
        backend: backend(dispatch, &settings.name, is_manual)?,
    })
}

/// The engine, and where its timers fire.
fn engine<T: Send + 'static>(
    settings: &mut Settings,
    shared: Arc<Shared>,
    clock: Clock,
    sink: Sink<T>,
    let_go: fn(T),
) -> (Arc<Engine<T>>, Backend<T>) {
    let (tick, shards) = (
        TickLength::new(crate::time::nanos(settings.tick())),
        shared.shards(),
    );
    let (counters, stalls, backlogs) = counts(shards);
    let shares_readings =
        settings.shared_readings || matches!(clock, Clock::Monotonic { .. }) || cfg!(loom);
    let engine = Engine {
        cells: Cells::new(shared, clock.clone(), tick),
        shared_slack_ns: if shares_readings {
            shared_clock::slack_ns(tick.nanos())
        } else {
            0
        },
        clock,
        tick,
        spin_ns: spin_ns(settings.spin),
        wakeup_ns: settings.wakeup_ns(),
        handler: Users::new(sink.handler),
        channel: sink.channel,
        let_go,
        hooks: hooks(settings),
        counters,
        stalls,
        backlogs,
        in_flight: InFlight::default(),
        panics: AtomicU64::new(0),
        unpinned: AtomicUsize::new(0),
        woken: sink.backend.woken(),
        wall_timers: settings.clock.is_some().then(WallTimers::new),
    };
    (Arc::new(engine), sink.backend)
}

/// What is counted for each shard: by the shard, by the watchdog, and in the pool.
#[expect(clippy::type_complexity, reason = "fields of the engine")]
fn counts(
    shards: usize,
) -> (
    ColdDrop<Vec<Arc<Counters>>>,
    Vec<Counter>,
    ColdDrop<Vec<Arc<AtomicUsize>>>,
) {
    let (mut counters, mut stalls, mut backlogs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..shards {
        counters.push(Arc::default());
        stalls.push(Counter::default());
        backlogs.push(Arc::default());
    }
    (ColdDrop::new(counters), stalls, ColdDrop::new(backlogs))
}

/// The hooks, taken out of the settings.
fn hooks(settings: &mut Settings) -> ColdDrop<Hooks> {
    ColdDrop::new(Hooks {
        #[cfg(feature = "tracing")]
        events: Events::of(&settings.name),
        ..std::mem::take(&mut settings.hooks)
    })
}

/// The shards, which take no turn yet.
fn shards<T: Send + 'static>(
    engine: &Arc<Engine<T>>,
    drains: Vec<Drain<Entry>>,
    backend: &Backend<T>,
    is_cascaded_ahead: bool,
    relief_threads: usize,
) -> Vec<ColdDrop<Shard>> {
    let now = engine.tick.floor(Nanos(engine.clock.now_ns())).0;
    let pace = if is_cascaded_ahead {
        pace(engine.tick)
    } else {
        u64::MAX
    };
    // Whoever moves a manual clock may be the pool's only worker: it does not wait for room.
    // Nor does anybody look at its jobs while it stands.
    let (waiting_max, relief_threads) = if matches!(engine.clock, Clock::Manual(_)) {
        (usize::MAX, 0)
    } else {
        (WAITING_MAX, relief_threads)
    };
    let mut shards = Vec::new();
    for (number, drain) in drains.into_iter().enumerate() {
        let dispatcher = dispatcher(engine, number, backend, waiting_max, relief_threads);
        let counters = engine.counters[number].clone();
        let shard = Shard::new(engine.tick, drain, now, pace, dispatcher, counters);
        shards.push(shard);
    }
    shards
}

/// The number of shards, if the settings are valid.
fn check(settings: &Settings) -> Result<usize, StartError> {
    if !(TICK_MIN..=TICK_MAX).contains(&settings.tick()) {
        return Err(StartError::Tick(settings.tick()));
    }
    let shards = settings.shards.unwrap_or_else(default_shards);
    if !(1..=SHARDS_MAX).contains(&shards) {
        return Err(StartError::Shards(shards));
    }
    if settings.name.as_bytes().contains(&0) {
        return Err(StartError::Name(settings.name.clone()));
    }
    Ok(shards)
}

/// The spin margin in nanoseconds. No sleep is longer than an endless margin.
fn spin_ns(margin: Duration) -> u64 {
    if margin == Duration::MAX {
        u64::MAX
    } else {
        crate::time::nanos(margin)
    }
}

/// One shard for each four cores, by measurement.
fn default_shards() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(4))
}

/// The next service's tag.
fn next_tag() -> NonZeroU32 {
    static NEXT: StaticU32 = StaticU32::new(1);
    loop {
        // Ordering: Relaxed. Only the number matters.
        if let Some(tag) = NonZeroU32::new(NEXT.fetch_add(1, Ordering::Relaxed)) {
            return tag;
        }
    }
}
