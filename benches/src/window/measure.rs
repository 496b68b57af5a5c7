//! One row: a service with default settings, and its figures.

use crate::args::Row;
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{ShardStats, TimerId, TimerService};
use wheelwork_kit::in_flight::{Flight, InFlight, Timers, fly};
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::line::Figures;
use wheelwork_kit::lock::lock;

/// How long to wait for timers of the probe that have not fired though they are due.
const PATIENCE: Duration = Duration::from_secs(20);

/// With fewer timers the bytes of each say nothing.
const PENDING_TOLD: usize = 10_000;

/// Between two looks whether they have.
const LOOK: Duration = Duration::from_millis(10);

/// What the probe's timers have told.
static LATENESS: Mutex<Option<Lateness>> = Mutex::new(None);

fn late(due_ns: u64) {
    // The others are all cancelled, or are 30 s late.
    if due_ns > 0 {
        let now_ns = Service::now_ns();
        let lateness = &mut *lock(&LATENESS);
        lateness.get_or_insert_default().fired(due_ns, now_ns);
    }
}

struct Service(TimerService<u64>);

impl Service {
    fn start() -> Self {
        let builder = TimerService::builder().on_expire(|batch| batch.for_each(late));
        Self(builder.start().expect("a service starts"))
    }
}

/// A thread's way to it.
struct Calls<'a>(&'a TimerService<u64>);

impl InFlight for Service {
    type Handle = TimerId;
    type Timers<'a> = Calls<'a>;

    fn now_ns() -> u64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        1 + ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn within(&self, work: impl FnOnce(&mut Calls<'_>)) {
        work(&mut Calls(&self.0));
    }
}

impl Timers for Calls<'_> {
    type Handle = TimerId;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> TimerId {
        let armed = self.0.schedule(delay, due_ns);
        armed.expect("the service runs")
    }

    fn cancel(&mut self, handle: TimerId) {
        self.0.cancel(handle);
    }
}

/// The most that was seen of figures that come and go.
#[derive(Default)]
struct Most {
    in_lanes: u64,
    in_wheels: u64,
}

impl Most {
    fn see(&mut self, service: &Service) {
        let stats = service.0.stats();
        let in_lanes = stats.sum(|shard| shard.machinery.lane_depth());
        let in_wheels = stats.sum(|shard| shard.machinery.entries());
        self.in_lanes = self.in_lanes.max(in_lanes);
        self.in_wheels = self.in_wheels.max(in_wheels);
    }
}

/// Measures a row in this process.
pub(crate) fn measure(row: &Row) -> Figures {
    let plan = row.plan();
    *lock(&LATENESS) = Some(Lateness::ready());
    let mut most = Most::default();
    let (service, flight) = fly(&plan, Service::start, |service| most.see(service));
    let fired = || lock(&LATENESS).as_ref().map_or(0, Lateness::count);
    let start = Instant::now();
    while fired() < flight.probes && start.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    let mut figures = figures(&flight, row);
    figures.extend([("lost", flight.probes.saturating_sub(fired()) as f64)]);
    if let Some(lateness) = &*lock(&LATENESS) {
        figures.0.extend(lateness.figures().0);
    }
    let stats = service.0.stats();
    let sum = |counter: fn(&ShardStats) -> u64| stats.sum(counter) as f64;
    figures.extend([
        ("in_lanes_max", most.in_lanes as f64),
        ("in_wheels_max", most.in_wheels as f64),
        ("drained", sum(|shard| shard.machinery.drained())),
        ("eliminated", sum(|shard| shard.machinery.eliminated())),
        ("dispatched", sum(|shard| shard.machinery.dispatched())),
        (
            "cascaded",
            sum(|shard| shard.machinery.figure("cascaded").unwrap()),
        ),
        (
            "compactions",
            sum(|shard| shard.machinery.figure("compactions").unwrap()),
        ),
        ("turns", sum(|shard| shard.machinery.turns())),
        ("wakeups", sum(|shard| shard.machinery.wakeups())),
        ("rings", sum(|shard| shard.machinery.rings())),
    ]);
    figures
}

/// Those of the flight itself.
fn figures(flight: &Flight, row: &Row) -> Figures {
    let resident = &flight.resident;
    let [middle, last] = resident.thirds();
    let pending = row.plan().pending();
    let mut figures = Figures::from([
        ("pairs", flight.pairs as f64),
        ("mops", flight.pairs_per_s / 1e6),
        (
            "cpu_s_per_mop",
            flight.cpu.as_secs_f64() * 1e6 / flight.pairs.max(1) as f64,
        ),
        ("pending", pending as f64),
        ("resident_bytes_max", resident.most() as f64),
        ("resident_bytes_middle", middle as f64),
        ("resident_bytes_last", last as f64),
        ("left_bytes", resident.left() as f64),
        ("probes", flight.probes as f64),
    ]);
    let cut_short = flight
        .cut_short
        .map(|time| ("cut_short_s", time.as_secs_f64()));
    figures.extend(cut_short);
    if pending >= PENDING_TOLD {
        figures.extend([("bytes_per_timer", resident.bytes_each(pending))]);
    }
    figures
}
