//! Flight: the threads of a plan, from the start of the service until its memory is back.

use super::crew::{Done, producers};
use super::plan::Plan;
use super::probe::{handles, probe};
use super::resident::Resident;
use super::service::InFlight;
use crate::lock::lock;
use crate::system;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// A service's threads have begun by then.
const AWAKE: Duration = Duration::from_millis(100);

/// Between two samples of the memory.
const SAMPLE: Duration = Duration::from_millis(100);

/// After the end memory has this time to come back.
const BACK: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    /// Timers that were armed and cancelled while the windows were full.
    pub pairs: u64,
    /// Pairs a second of all threads, while they were armed and cancelled.
    pub pairs_per_s: f64,
    /// Pairs a second until the last one had settled.
    pub settled_per_s: f64,
    /// How long that took after the last cancel.
    pub settling: Duration,
    /// CPU time of all threads until then.
    pub cpu: Duration,
    /// Resident memory.
    pub resident: Resident,
    /// Timers that the probe has armed.
    pub probes: u64,
    /// It ended after this time, because the memory was more than the plan allows.
    pub cut_short: Option<Duration>,
}

/// Flies a plan. Tells `watch` the service ten times a second, and at the end. The service that
/// `start` starts lives until its memory has been looked at, and so do the threads.
pub fn fly<S: InFlight>(
    plan: &Plan,
    start: impl FnOnce() -> S,
    mut watch: impl FnMut(&S),
) -> (S, Flight) {
    let mut crew = producers::<S::Handle>(plan);
    let mut probes = if plan.has_probe {
        handles(plan.time)
    } else {
        Vec::new()
    };
    let gate = &Barrier::new(crew.len() + 2);
    let service: OnceLock<S> = OnceLock::new();
    let (is_over, armed) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let done = &Mutex::new(Vec::with_capacity(crew.len()));
    let mut flight = Flight::default();
    thread::scope(|scope| {
        let started = || service.get().expect("the service has started");
        for producer in &mut crew {
            scope.spawn(move || {
                system::pin(producer.core);
                gate.wait();
                gate.wait();
                started().within(|timers| {
                    let work = producer.work(timers, is_over);
                    lock(done).push(work);
                    gate.wait();
                    gate.wait();
                });
            });
        }
        let probes = &mut probes;
        scope.spawn(move || {
            gate.wait();
            gate.wait();
            started().within(|timers| {
                // Ordering: Relaxed. It is read after the gate.
                armed.store(probe::<S>(timers, probes, is_over), Relaxed);
                gate.wait();
                gate.wait();
            });
        });
        gate.wait();
        let resident = &mut flight.resident;
        resident
            .during
            .reserve((plan.time.as_millis() / SAMPLE.as_millis()) as usize + 1);
        resident.before = system::resident_bytes();
        let service = service.get_or_init(start);
        thread::sleep(AWAKE);
        resident.empty = system::resident_bytes();
        let cpu = system::cpu_time();
        let start = Instant::now();
        gate.wait();
        let left = || plan.time.saturating_sub(start.elapsed());
        while !left().is_zero() {
            thread::sleep(SAMPLE.min(left()));
            let bytes = system::resident_bytes();
            resident.during.push(bytes);
            watch(service);
            if bytes > plan.resident_bytes_max {
                flight.cut_short = Some(start.elapsed());
                break;
            }
        }
        // Ordering: Relaxed. It publishes nothing.
        is_over.store(true, Relaxed);
        gate.wait();
        let end = Instant::now();
        service.settle();
        flight.settling = end.elapsed();
        flight.cpu = system::cpu_time() - cpu;
        thread::sleep(BACK);
        resident.after = service.resident_bytes_after();
        watch(service);
        gate.wait();
    });
    // Ordering: Relaxed. The gate is between the store and this.
    flight.probes = armed.load(Relaxed);
    flight.count(&lock(done));
    let service = service.into_inner().expect("the service has started");
    (service, flight)
}

impl Flight {
    /// Adds up what the producers have done.
    fn count(&mut self, done: &[Done]) {
        let cancelled = done.iter().filter(|done| !done.time.is_zero());
        for &Done { pairs, time } in cancelled {
            self.pairs += pairs;
            self.pairs_per_s += pairs as f64 / time.as_secs_f64();
            self.settled_per_s += pairs as f64 / (time + self.settling).as_secs_f64();
        }
    }
}
