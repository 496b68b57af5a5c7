//! Promise: what is done again and again allocates nothing for a timer, and grows nothing: moves,
//! takes, batches, a week of heartbeats. The runs of periodic timers: a list for those that are due
//! together.
//!
//! Under a manual clock, which runs the shards on this thread: each block is counted, and each
//! count is the same every time. A program of its own, without the test harness, whose threads
//! allocate when they like.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wheelwork::{Batch, ManualClock, TimerId, TimerService};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const TIMERS: u64 = 2_000;

/// Segments of a lane for two messages a timer. A shard on a manual clock gives them back each time
/// it looks for the next event, as one does before a long sleep.
const SEGMENTS: u64 = 20;

fn main() {
    let tests: [(&str, fn()); 4] = [
        ("an empty service", an_empty_service_is_small),
        (
            "moves, takes and batches",
            moves_takes_and_batches_allocate_nothing,
        ),
        (
            "runs of a periodic timer",
            runs_of_a_periodic_timer_allocate_a_list_for_those_due_together,
        ),
        ("a week of heartbeats", a_week_of_heartbeats_is_flat),
    ];
    for (name, test) in tests {
        let _profiler = dhat::Profiler::builder().testing().build();
        test();
        println!("{name}: ok");
    }
}

fn blocks() -> u64 {
    dhat::HeapStats::get().total_blocks
}

fn bytes_in_use() -> usize {
    dhat::HeapStats::get().curr_bytes
}

fn service() -> (TimerService<u64>, ManualClock) {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    (service, clock)
}

/// What the heap has of it; the wheel's slots are most of it.
fn an_empty_service_is_small() {
    let before = bytes_in_use();
    let (service, clock) = service();
    assert!(service.cancel(service.schedule(MS, 1).unwrap()));
    clock.advance(SECOND);
    let bytes = bytes_in_use() - before;
    println!("  {bytes} bytes");
    assert!(
        bytes <= 256 * 1024,
        "{bytes} bytes of heap for an empty service"
    );
}

/// Blocks of one round of `work`, the fourth: by then lanes, cells and tables are as large as they
/// get.
fn blocks_of(clock: &ManualClock, mut work: impl FnMut(&ManualClock)) -> u64 {
    let mut round = || {
        let before = blocks();
        work(clock);
        blocks() - before
    };
    (0..3).for_each(|_| _ = round());
    round()
}

fn moves_takes_and_batches_allocate_nothing() {
    let (service, clock) = service();
    // The call of `advance` itself: its list of services.
    let of_advance = blocks_of(&clock, |clock| clock.advance(Duration::ZERO));
    let mut ids: Vec<TimerId> = (0..TIMERS)
        .map(|timer| service.schedule(DAY, timer).unwrap())
        .collect();
    let check = |what: &str, allowed: u64, work: &mut dyn FnMut()| {
        let allocated = blocks_of(&clock, |clock| {
            work();
            clock.advance(Duration::ZERO);
        });
        println!(
            "  {what}: {allocated} blocks for {TIMERS} timers, {of_advance} of them by `advance`"
        );
        assert!(
            allocated <= of_advance + allowed,
            "{what}: {allocated} blocks for {TIMERS} timers, {of_advance} of them by `advance`"
        );
    };
    check("later", 0, &mut || {
        ids.iter()
            .for_each(|&id| assert!(service.reschedule(id, DAY + SECOND)))
    });
    let mut far = true;
    check("earlier, and much later", SEGMENTS, &mut || {
        far = !far;
        let delay = if far { DAY * 3 } else { SECOND };
        ids.iter()
            .for_each(|&id| assert!(service.reschedule(id, delay)));
    });
    check("many, later", SEGMENTS, &mut || {
        assert_eq!(
            service.reschedule_many(ids.iter().copied(), DAY * 4),
            TIMERS as usize
        )
    });
    check("many, earlier and later", SEGMENTS, &mut || {
        far = !far;
        let delay = if far { DAY * 5 } else { SECOND };
        assert_eq!(
            service.reschedule_many(ids.iter().copied(), delay),
            TIMERS as usize
        );
    });
    check("take, and arm again", SEGMENTS, &mut || {
        ids.iter_mut()
            .for_each(|id| *id = service.schedule(DAY, service.take(*id).unwrap()).unwrap());
    });
    // One for what is dropped when the thread's part is free again.
    check("cancel many, and arm again", SEGMENTS + 1, &mut || {
        assert_eq!(service.cancel_many(ids.iter().copied()), TIMERS as usize);
        ids.iter_mut()
            .for_each(|id| *id = service.schedule(DAY, 1).unwrap());
    });
}

/// Not quite nothing: a list for those that a worker found due together, which grows as they are
/// found.
fn runs_of_a_periodic_timer_allocate_a_list_for_those_due_together() {
    const TICKS: u64 = 100;
    for (timers, blocks_a_tick) in [(1, 2), (100, 11)] {
        let (service, clock) = service();
        let runs = Arc::new(AtomicU64::new(0));
        for _ in 0..timers {
            let runs = runs.clone();
            service
                .every(MS)
                .start(move || _ = runs.fetch_add(1, Ordering::Relaxed))
                .unwrap();
        }
        let of_advance = blocks_of(&clock, |clock| clock.advance(Duration::ZERO));
        let before = runs.load(Ordering::Relaxed);
        let allocated = blocks_of(&clock, |clock| clock.advance(MS * TICKS as u32));
        let runs = (runs.load(Ordering::Relaxed) - before) / 4;
        println!("  {allocated} blocks for {runs} runs, {timers} at a time");
        assert_eq!(runs, timers * TICKS);
        assert!(
            allocated <= of_advance + blocks_a_tick * TICKS,
            "{allocated} blocks for {runs} runs, {timers} at a time"
        );
    }
}

/// Each connection is heard of every ten seconds, and gets thirty more; now and then one is silent
/// and times out, and another takes its place.
fn a_week_of_heartbeats_is_flat() {
    const CONNECTIONS: usize = 200;
    let (service, clock) = service();
    let mut ids: Vec<TimerId> = (0..CONNECTIONS)
        .map(|_| service.schedule(SECOND * 30, 0).unwrap())
        .collect();
    let mut first_day = None;
    for day in 1..=7 {
        for beat in 0..24 * 360 {
            for (connection, id) in ids.iter_mut().enumerate() {
                let is_silent = (beat / 5 + connection) % 97 == 0;
                if !is_silent && !service.reschedule(*id, SECOND * 30) {
                    *id = service.schedule(SECOND * 30, 0).unwrap();
                }
            }
            clock.advance(SECOND * 10);
        }
        let stats = service.stats();
        let (bytes, holes, pending) = (
            bytes_in_use(),
            stats.sum(|shard| shard.machinery.figure("holes").unwrap()),
            stats.timers.pending,
        );
        println!(
            "  day {day}: {bytes} bytes, {holes} holes, {pending} pending, {} fired",
            stats.timers.fired
        );
        let first = *first_day.get_or_insert(bytes);
        assert!(
            bytes <= first + 4096,
            "day {day}: {bytes} bytes, {first} on the first one"
        );
        assert!(
            holes <= 33 && pending <= CONNECTIONS as u64 && stats.timers.fired > 0,
            "day {day}: {holes} holes, {pending} pending"
        );
    }
}
