//! Promise: memory follows what is pending. A spike of timers is given back to the system (but for
//! what the allocator keeps), whether it is cancelled or fires; an empty service is small, and so
//! is a timer.
//!
//! By the resident set that the system says, so this is a program of its own, with nothing else in
//! it. `scripts/check memory` runs it with ten million timers.

#![cfg_attr(not(target_os = "linux"), allow(unused))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, Dispatch, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something stays for ever.
const STAYS: Duration = Duration::from_secs(60);

/// A timer with a `u64`: its cell, its entry, and what they lie in.
const BYTES_OF_A_TIMER_MAX: f64 = 42.0;

/// What a service keeps once it has been large: the wheel's table for tombstones (512 KiB), its
/// spare slab and those in which a chunk is left (256 KiB each), the batches that went round in a
/// burst (64 of 25 KiB), and a few emptied magazines.
const KEPT_MAX: u64 = 3 << 20;

/// An empty service with a shard and two workers, that has done nothing yet.
const BYTES_EMPTY_MAX: u64 = 1 << 20;

fn main() {
    #[cfg(target_os = "linux")]
    {
        let spike = std::env::var("WHEELWORK_SPIKE").map_or(1_000_000, |timers| {
            timers
                .parse()
                .expect("WHEELWORK_SPIKE is a number of timers")
        });
        an_empty_service_is_small();
        services_that_come_and_go_leave_nothing();
        a_spike_is_given_back(spike, End::Cancelled);
        a_spike_is_given_back(spike, End::Fired);
        a_spike_on_several_shards_is_given_back(spike);
        cancels_in_any_order_by_threads_that_live_on(spike);
        a_spike_is_given_back_while_the_pool_is_blocked(spike);
        dead_entries_do_not_wait_for_a_tick(spike);
        threads_that_come_and_go_leave_nothing();
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: takes an integer.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Has the allocator give back what it keeps.
fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes an integer, and is safe among threads.
        unsafe { libc::malloc_trim(0) };
    }
}

struct Fixture {
    service: TimerService<u64>,
    fired: Arc<AtomicU64>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|| ())
    }

    /// With something to do before each batch.
    fn with(before: impl Fn() + Send + Sync + 'static) -> Self {
        let fired = Arc::new(AtomicU64::new(0));
        let count = fired.clone();
        let handler = move |batch: &mut Batch<'_, u64>| {
            before();
            batch.for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed))
        };
        let service = TimerService::builder()
            .shards(1)
            .pinning(wheelwork::Pinning::Off)
            .dispatch(Dispatch::RayonThreads(2))
            .on_expire(handler)
            .start()
            .unwrap();
        Self { service, fired }
    }

    /// Waits until the shard has taken in all messages.
    fn taken_in(&self) {
        wait("messages", || {
            self.service
                .stats()
                .sum(|shard| shard.machinery.lane_depth())
                == 0
        });
    }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let patience = Instant::now() + STAYS;
    while !done() {
        assert!(
            Instant::now() < patience,
            "{what}: not within {STAYS:?}, {} KiB resident",
            resident() / 1024
        );
        thread::sleep(MS * 5);
    }
}

fn an_empty_service_is_small() {
    // What the program itself, the threads' library and the clock need once.
    drop(Fixture::new());
    let before = resident();
    let fixture = Fixture::new();
    fixture.service.schedule(MS, 0).unwrap();
    wait("a timer", || fixture.fired.load(Ordering::Relaxed) == 1);
    let bytes = resident().saturating_sub(before);
    println!("empty service: {} KiB", bytes / 1024);
    assert!(
        bytes <= BYTES_EMPTY_MAX,
        "{bytes} bytes for an empty service"
    );
}

/// Cells and wheels of a million timers, lanes with their messages, taken in or not.
fn services_that_come_and_go_leave_nothing() {
    let timers = 50_000;
    let come_and_go = || {
        let fixture = Fixture::new();
        (0..timers).for_each(|timer| {
            _ = fixture
                .service
                .schedule(Duration::from_secs(3600), timer)
                .unwrap()
        });
        assert_eq!(fixture.service.stop().len(), timers as usize);
    };
    come_and_go();
    trim();
    let before = resident();
    (0..20).for_each(|_| come_and_go());
    trim();
    let bytes = resident().saturating_sub(before);
    println!(
        "20 services of {timers} timers that came and went: {} KiB more",
        bytes / 1024
    );
    assert!(bytes <= KEPT_MAX, "{bytes} bytes more after 20 services");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Cancelled,
    Fired,
}

fn a_spike_is_given_back(timers: u64, end: End) {
    // A tenth of the timers was there before, and stays: what is over is measured against them, not
    // against nothing.
    let base = timers / 10;
    let day = Duration::from_secs(24 * 3600);
    let empty = resident();
    let fixture = Fixture::new();
    let service = &fixture.service;
    (0..base).for_each(|timer| _ = service.schedule(day, timer).unwrap());
    fixture.taken_in();
    let before = resident();
    let mut ids = Vec::new();
    let peak = {
        let delay = if end == End::Cancelled {
            day
        } else {
            Duration::from_secs(3)
        };
        if end == End::Cancelled {
            ids.reserve_exact(timers as usize);
        }
        for timer in 0..timers {
            let id = service.schedule(delay, timer).unwrap();
            if end == End::Cancelled {
                ids.push(id);
            }
        }
        resident()
    };
    if end == End::Cancelled {
        fixture.taken_in();
        // The lanes' segments of one long sleep are given back, or not: they belong to the spike.
        let of_ids = (ids.capacity() * size_of::<wheelwork::TimerId>()) as u64;
        let each = (resident() - empty - of_ids) as f64 / (timers + base) as f64;
        println!("{timers} timers: {each:.1} bytes each");
        assert!(
            each <= BYTES_OF_A_TIMER_MAX,
            "{each:.1} bytes for each of {timers} timers"
        );
        assert_eq!(service.cancel_many(ids.drain(..)), timers as usize);
        drop(ids);
    } else {
        wait("they fire", || {
            fixture.fired.load(Ordering::Relaxed) == timers
        });
    }
    // Cells and wheel are given back to the system; of magazines and lanes the allocator keeps for
    // later what it likes.
    wait("more stays than the allocator keeps", || {
        trim();
        resident() <= before + before / 5 + KEPT_MAX
    });
    println!(
        "{timers} {end:?}: {} KiB before, {} at the spike, {} after",
        before / 1024,
        peak / 1024,
        resident() / 1024
    );
    assert_eq!(service.stop().len(), base as usize);
}

/// One shard looks for all of them. What a service keeps, each shard keeps.
fn a_spike_on_several_shards_is_given_back(timers: u64) {
    const SHARDS: u64 = 4;
    let service = TimerService::builder()
        .shards(SHARDS as usize)
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    let mut ids = Vec::with_capacity(timers as usize);
    let before = resident() + timers * size_of::<TimerId>() as u64;
    let arm = |timer| {
        let shard = (timer % SHARDS) as usize;
        let hour = Duration::from_secs(3600);
        service.schedule_on(shard, hour, timer).unwrap()
    };
    ids.extend((0..timers).map(arm));
    let peak = resident();
    assert_eq!(service.cancel_many(ids.iter().copied()), timers as usize);
    wait("more stays than the shards keep", || {
        trim();
        resident() <= before + SHARDS * KEPT_MAX
    });
    println!(
        "{timers} on {SHARDS} shards: {} KiB before, {} at the spike, {} after",
        before / 1024,
        peak / 1024,
        resident() / 1024
    );
}

/// Each of the threads keeps free cells, which lie all over the pages. A page of the system stays
/// for each of them, and not the memory of a million timers.
fn cancels_in_any_order_by_threads_that_live_on(timers: u64) {
    let fixture = Fixture::new();
    let service = &fixture.service;
    let mut ids = Vec::with_capacity(timers as usize);
    let before = resident() + timers * size_of::<TimerId>() as u64;
    ids.extend((0..timers).map(|_| service.schedule(Duration::from_secs(3600), 0).unwrap()));
    fixture.taken_in();
    let peak = resident();
    fastrand::Rng::with_seed(1).shuffle(&mut ids);
    let (cancelled, over) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for ids in ids.chunks(ids.len().div_ceil(2)) {
            let (cancelled, over) = (&cancelled, &over);
            scope.spawn(move || {
                assert!(ids.iter().all(|&id| service.cancel(id)));
                cancelled.wait();
                over.wait();
            });
        }
        cancelled.wait();
        wait("more stays than two bytes a timer", || {
            trim();
            resident() <= before + 2 * timers + KEPT_MAX
        });
        println!(
            "{timers} cancelled in any order: {} KiB before, {} at the spike, {} after",
            before / 1024,
            peak / 1024,
            resident() / 1024
        );
        over.wait();
    });
}

/// The handlers are blocked, and more is due than the pool takes. The timers that are due behind it
/// are cancelled meanwhile.
fn a_spike_is_given_back_while_the_pool_is_blocked(timers: u64) {
    let gate = Arc::new(RwLock::new(()));
    let fixture = {
        let gate = gate.clone();
        Fixture::with(move || drop(gate.read().unwrap()))
    };
    let service = &fixture.service;
    let closed = gate.write().unwrap();
    // Each batch has up to 1,024 of them, and the pool takes 64.
    let due = 200_000;
    (0..due).for_each(|timer| _ = service.schedule(Duration::ZERO, timer).unwrap());
    let held = || service.stats().sum(|shard| shard.machinery.held());
    wait("the pool takes everything", || held() > 0);
    let before = resident();
    let mut ids = Vec::with_capacity(timers as usize);
    ids.extend((0..timers).map(|_| service.schedule(Duration::ZERO, 0).unwrap()));
    fixture.taken_in();
    let peak = resident();
    assert_eq!(service.cancel_many(ids.drain(..)), timers as usize);
    drop(ids);
    let held_before = held();
    wait("a blocked pool keeps memory", || {
        trim();
        resident() <= before + before / 5 + KEPT_MAX
    });
    assert!(held() > held_before, "the pool is blocked no more");
    println!(
        "{timers} cancelled behind a blocked pool: {} KiB before, {} at the spike, {} after",
        before / 1024,
        peak / 1024,
        resident() / 1024
    );
    drop(closed);
    wait("they fire", || fixture.fired.load(Ordering::Relaxed) == due);
}

/// A storm of cancels in random order, at a tick of a day. Its dead entries do not wait for a tick.
fn dead_entries_do_not_wait_for_a_tick(timers: u64) {
    let service = TimerService::builder()
        .tick(Duration::from_secs(24 * 3600))
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut ids: Vec<_> = (0..timers)
        .map(|_| Duration::from_secs(3600 * rng.u64(48..24 * 60_000)))
        .map(|delay| service.schedule(delay, 0).unwrap())
        .collect();
    rng.shuffle(&mut ids);
    // In some 500 slots: the last turns of the storm find more that is dead than they may move.
    let holes = || {
        service
            .stats()
            .sum(|shard| shard.machinery.figure("holes").unwrap())
    };
    let depth = || service.stats().sum(|shard| shard.machinery.lane_depth());
    assert_eq!(service.cancel_many(ids), timers as usize);
    // Fewer messages than this do not wake the shard.
    wait("dead entries are dropped", || {
        depth() <= 32_768 && holes() <= 32 * 512
    });
    println!(
        "{timers} cancelled at a tick of a day: {} dead entries after",
        holes()
    );
}

/// Ten thousand threads, a wave after the other. Each timer of theirs is cancelled or fires, and
/// what one wave leaves serves the next.
fn threads_that_come_and_go_leave_nothing() {
    let (threads, timers) = (100, 50);
    let fixture = Fixture::new();
    let mut pending = 0;
    let mut wave = || {
        let cancelled = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let arm = |timer| fixture.service.schedule(MS * 5, timer).unwrap();
                    let ids: Vec<_> = (0..timers).map(arm).collect();
                    let cancels = ids.iter().step_by(2);
                    let done = cancels.filter(|&&id| fixture.service.cancel(id)).count();
                    cancelled.fetch_add(done as u64, Ordering::Relaxed);
                });
            }
        });
        pending += threads * timers - cancelled.into_inner();
        wait("a timer is lost", || {
            let fired = fixture.fired.load(Ordering::Relaxed);
            assert!(fired <= pending, "{fired} of {pending} have fired");
            fired == pending
        });
    };
    (0..10).for_each(|_| wave());
    trim();
    let before = resident();
    (0..90).for_each(|_| wave());
    wait("threads that have ended leave memory", || {
        trim();
        resident() <= before + KEPT_MAX
    });
    println!(
        "10,000 threads: {} KiB, {} after",
        before / 1024,
        resident() / 1024
    );
    assert_eq!(fixture.service.stop().len(), 0);
}
