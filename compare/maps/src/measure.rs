//! The measurements. Times and choices are made before the clock starts.

use crate::clock::now_ns;
use crate::job::Job;
use crate::name::Name;
use crate::phase::{self, Cost};
use crate::subjects::moka::Moka;
use crate::subjects::quick_cache::QuickCache;
use crate::subjects::wheelwork::{Owned, Shared};
use crate::subjects::{Map, TURN};
use crate::workload::Workload;
use fastrand::Rng;
use std::mem;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// What entries have that are inserted.
const TIMES_NS: RangeInclusive<u64> = 1_000_000_000..=60_000_000_000;

/// What those have that none may expire of meanwhile.
const LONG_NS: RangeInclusive<u64> = 300_000_000_000..=600_000_000_000;

/// When entries are due that do expire, after the first instant.
const SPREAD_NS: u64 = 2_000_000_000;
const SPREAD_NS_QUICK: u64 = 500_000_000;

/// Inserting takes at most this time, and [`LEAD_NS_EACH`] more for each entry: in the slowest
/// map, on a slow machine.
const LEAD_NS: u64 = 500_000_000;
const LEAD_NS_EACH: u64 = 6_000;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    match job.subject {
        Name::Wheelwork => by::<Owned>(job),
        Name::WheelworkMutexes => by::<Shared>(job),
        Name::Moka | Name::MokaIdle => by::<Moka<moka::sync::Cache<u64, u64>>>(job),
        Name::MokaSegments => by::<Moka<moka::sync::SegmentedCache<u64, u64>>>(job),
        Name::QuickCache => by::<QuickCache>(job),
    }
}

/// What a thread owns: its keys, how long each of them has, and the keys that it asks for.
struct Own {
    keys: Range<u64>,
    times_ns: Vec<u64>,
    order: Vec<u64>,
    found: usize,
}

impl Own {
    fn shares(job: &Job) -> Vec<Self> {
        let begin = |thread: usize| (job.entries * thread / job.threads) as u64;
        let times_ns = match job.workload {
            Workload::Insert => TIMES_NS,
            Workload::Expire if job.quick => 0..=SPREAD_NS_QUICK,
            Workload::Expire => 0..=SPREAD_NS,
            Workload::Renew | Workload::Get | Workload::Remove | Workload::Memory => LONG_NS,
        };
        let own = |thread| {
            let keys = begin(thread)..begin(thread + 1);
            let mut rng = Rng::with_seed(job.seed.wrapping_mul(1009).wrapping_add(thread as u64));
            let order = match job.workload {
                Workload::Renew | Workload::Get => {
                    (0..job.gets()).map(|_| rng.u64(keys.clone())).collect()
                }
                Workload::Remove => {
                    let mut all: Vec<u64> = keys.clone().collect();
                    rng.shuffle(&mut all);
                    all
                }
                Workload::Insert | Workload::Expire | Workload::Memory => Vec::new(),
            };
            Self {
                times_ns: keys.clone().map(|_| rng.u64(times_ns.clone())).collect(),
                keys,
                order,
                found: 0,
            }
        };
        (0..job.threads).map(own).collect()
    }

    /// Inserts all keys. The clock is read once for each turn.
    fn insert<M: Map>(&mut self, map: &mut M) {
        let mut keys = self.keys.clone();
        for times_ns in self.times_ns.chunks(TURN) {
            let now_ns = now_ns();
            for (&time_ns, key) in times_ns.iter().zip(&mut keys) {
                map.insert(key, now_ns + time_ns, Duration::from_nanos(time_ns));
            }
            map.turn();
        }
    }

    /// Inserts all keys, each due its time after that instant.
    fn insert_due<M: Map>(&mut self, map: &mut M, first_ns: u64) {
        for (time_ns, key) in self.times_ns.iter().zip(self.keys.clone()) {
            let due_ns = first_ns + time_ns;
            let time = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
            map.insert(key, due_ns, time);
        }
    }

    /// Asks for keys in order, and counts those that are found.
    fn ask<M: Map>(&mut self, map: &mut M, ask: impl Fn(&mut M, u64) -> Option<u64>) {
        for keys in self.order.chunks(TURN) {
            let found = keys.iter().filter(|&&key| ask(map, key).is_some());
            self.found += found.count();
            map.turn();
        }
    }
}

fn by<M: Map>(job: &Job) -> Result<Figures, String> {
    // From then on there is what the subject starts once.
    let mut first = Own::shares(&Job {
        entries: job.threads,
        workload: Workload::Memory,
        ..job.clone()
    });
    let mut maps = M::of_threads(job, job.threads);
    phase::run(&mut maps, &mut first, |map, own| own.insert(map));
    mem::forget(maps);

    let mut owns = Own::shares(job);
    let before = system::trimmed_bytes();
    let mut maps = M::of_threads(job, job.entries);
    let figures = match job.workload {
        Workload::Insert => {
            let (cost, expired) = insert(job, &mut maps, &mut owns);
            let mut figures = rates(job.entries, &cost);
            figures.extend([("expired", expired as f64)]);
            Ok(figures)
        }
        Workload::Renew => asked(job, &mut maps, &mut owns, M::renew),
        Workload::Get => asked(job, &mut maps, &mut owns, M::get),
        Workload::Remove => asked(job, &mut maps, &mut owns, M::remove),
        Workload::Expire => expire(job, &mut maps, &mut owns),
        Workload::Memory => {
            insert(job, &mut maps, &mut owns);
            let bytes = system::trimmed_bytes().saturating_sub(before) as f64;
            let each = bytes / job.entries as f64;
            Ok(Figures::from([("bytes_per_entry", each)]))
        }
    };
    // The process ends without them.
    mem::forget(maps);
    figures
}

/// All threads insert their keys. Returns what that took, and how many entries have expired.
fn insert<M: Map>(job: &Job, maps: &mut [M], owns: &mut [Own]) -> (Cost, usize) {
    let cost = phase::run(maps, owns, |map, own| own.insert(map));
    (cost, job.entries - M::len(maps))
}

/// The figures of a phase of `operations` calls.
fn rates(operations: usize, cost: &Cost) -> Figures {
    let millions = operations as f64 / 1e6;
    Figures::from([
        ("mops", millions / cost.elapsed.as_secs_f64()),
        ("cpu_s_per_mop", cost.cpu.as_secs_f64() / millions),
        ("settle_ms", cost.settling.as_secs_f64() * 1e3),
    ])
}

/// All are there; then all threads ask for their keys, and find them.
fn asked<M: Map>(
    job: &Job,
    maps: &mut [M],
    owns: &mut [Own],
    ask: impl Fn(&mut M, u64) -> Option<u64> + Sync,
) -> Result<Figures, String> {
    insert(job, maps, owns);
    let cost = phase::run(maps, owns, |map, own| own.ask(map, &ask));
    let asked: usize = owns.iter().map(|own| own.order.len()).sum();
    let found: usize = owns.iter().map(|own| own.found).sum();
    let left = M::len(maps);
    let stay = if job.workload == Workload::Remove {
        0
    } else {
        job.entries
    };
    if (found, left) != (asked, stay) {
        return Err(format!("found {found} of {asked}, and {left} were left"));
    }
    Ok(rates(asked, &cost))
}

/// Entries are due uniformly over a time, which begins when all are there.
fn expire<M: Map>(job: &Job, maps: &mut [M], owns: &mut [Own]) -> Result<Figures, String> {
    let lead_ns = LEAD_NS + job.entries as u64 * LEAD_NS_EACH;
    let first_ns = now_ns() + lead_ns;
    phase::run(maps, owns, |map, own| own.insert_due(map, first_ns));
    if now_ns() >= first_ns {
        let (entries, ms) = (job.entries, lead_ns / 1_000_000);
        return Err(format!("{entries} entries were not there in {ms} ms"));
    }
    let cpu = system::cpu_time();
    let lateness = M::serve(maps);
    let cpu = system::cpu_time() - cpu;
    if lateness.count() != job.entries as u64 {
        let (told, entries) = (lateness.count(), job.entries);
        return Err(format!("{told} of {entries} entries were told"));
    }
    let mut figures = lateness.figures();
    figures.extend([("cpu_s", cpu.as_secs_f64())]);
    Ok(figures)
}
