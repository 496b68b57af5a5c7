//! W11: timers that are armed at full speed and cancelled a window of inserts later, with a probe
//! beside them.

use crate::job::Job;
use crate::ledger;
use crate::producers::start;
use crate::subjects::{Producer, Subject};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::in_flight::{CancelledBy, InFlight, Plan, Timers, fly};
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// How long to wait for timers of the probe that have not fired though they are due.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks whether they have.
const LOOK: Duration = Duration::from_millis(10);

/// A subject, as what is flown.
struct Flown<S: 'static>(&'static S);

/// A thread's way to it.
struct Calls<'a, P>(&'a mut P);

impl<S: Subject> InFlight for Flown<S> {
    type Handle = <S::Producer as Producer>::Handle;
    type Timers<'a> = Calls<'a, S::Producer>;

    fn now_ns() -> u64 {
        // The origin is the start of the process or so: it has passed.
        ledger::now_ns()
    }

    fn within(&self, work: impl FnOnce(&mut Calls<'_, S::Producer>) + Send) {
        self.0.within(|producer| work(&mut Calls(producer)));
    }

    fn settle(&self) {
        self.0.settle();
        self.0.work_off();
    }

    fn resident_bytes_after(&self) -> u64 {
        system::trimmed_bytes()
    }
}

impl<P: Producer> Timers for Calls<'_, P> {
    type Handle = P::Handle;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> P::Handle {
        self.0.arm(delay, due_ns)
    }

    fn cancel(&mut self, handle: P::Handle) {
        self.0.cancel(handle);
    }

    fn settle(&mut self) {
        self.0.settle();
    }
}

/// Flies a subject. N is the window of each thread that arms.
pub(crate) fn window<S: Subject>(job: &Job, cancelled_by: CancelledBy) -> Figures {
    let mut plan = Plan {
        window: job.timers,
        threads: job.threads,
        cancelled_by,
        time: Duration::from_millis(if job.quick { 300 } else { 3_000 }),
        has_probe: S::SHARED,
        seed: job.seed,
        resident_bytes_max: u64::MAX,
    };
    // What grows without a bound takes half of what is free, and no more.
    plan.resident_bytes_max = system::available_bytes().map_or(u64::MAX, |free| free / 2);
    let pending = plan.pending();
    let (_, flight) = fly(&plan, || Flown(start::<S>(job)), |_| ());
    let fired = || ledger::lateness().count();
    let since = Instant::now();
    while fired() < flight.probes && since.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    let resident = &flight.resident;
    let millions = flight.pairs.max(1) as f64 / 1e6;
    let mut figures = Figures::from([
        ("mops", flight.settled_per_s / 1e6),
        ("cpu_s_per_mop", flight.cpu.as_secs_f64() / millions),
        ("settle_ms", flight.settling.as_secs_f64() * 1e3),
        ("pending", pending as f64),
        ("resident_bytes_max", resident.most() as f64),
        ("resident_bytes_last", resident.thirds()[1] as f64),
        ("left_bytes", resident.left() as f64),
    ]);
    if S::SHARED {
        figures.0.extend(ledger::lateness().figures().0);
        figures.extend([("lost", flight.probes.saturating_sub(fired()) as f64)]);
    }
    let cut_short = flight
        .cut_short
        .map(|time| ("cut_short_s", time.as_secs_f64()));
    figures.extend(cut_short);
    figures
}
