//! Lessons: what has gone wrong in other timers, each class with a test that would have caught it
//! here.
//!
//! | class | seen in | test |
//! |---|---|---|
//! | silent hang after twelve days of uptime, behind a timer that is far away | tokio#8334 | `silent_hang_after_days_of_uptime` |
//! | cancelled entries that stay for two years | tokio#8252 | `cancelled_entries_that_stay_for_years`, and all of `cancelled_means_gone.rs` |
//! | 1.13 million stale entries for eleven messages | nats-server#8594 | `a_million_stale_entries_for_eleven_timers` |
//! | lost wake-ups | tokio#6683, #8274, #8320 | `lost_wake_up_of_a_sleeping_shard`, `lost_wake_up_after_a_cancel`; the models in `loom-tests/tests/doorbell.rs` |
//! | use after free of timer nodes | moka#524, #548, #566 | `use_after_free_of_timer_nodes`; `race.rs` under sanitizers |
//! | a stop that cancels nothing | netty#14081 | `a_stop_that_cancels_nothing` |
//! | ten thousand slow tasks that delay all others | netty#11724 | `ten_thousand_slow_tasks_delay_no_expiry`; `slow_tasks.rs` |
//! | panics on big durations | tokio#5536, #6612 | `panics_on_big_durations`; `total_functions.rs` |

use fastrand::Rng;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use wheelwork::wheel::Wheel;
use wheelwork::{Batch, Dispatch, ManualClock, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What fired, and when.
type Log = Arc<Mutex<Vec<(Duration, u64)>>>;

/// A service on a manual clock that notes what fires, and when.
fn manual(tick: Duration) -> (TimerService<u64>, ManualClock, Log) {
    let (clock, log) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let (time, sink) = (clock.clone(), log.clone());
    let handler = move |batch: &mut Batch<'_, u64>| {
        batch.for_each(|payload| sink.lock().unwrap().push((time.elapsed(), payload)))
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(tick)
        .on_expire(handler)
        .start()
        .unwrap();
    (service, clock, log)
}

/// A timer of years waits from the start. At each age short ones fire at their ticks all the same,
/// across the age at which it would lie in the same level as they do.
#[test]
fn silent_hang_after_days_of_uptime() {
    for tick in [MS, Duration::from_micros(1), Duration::from_secs(1)] {
        let of_level = (1..=5).map(|level| {
            tick * 256 * 256u32.pow(level.min(3) - 1) * 256u32.pow(level.saturating_sub(3))
        });
        let of_bits =
            [30, 31, 32, 36].map(|bits| Duration::from_nanos((tick.as_nanos() as u64) << bits));
        let days = [11.9, 12.0, 12.1, 12.427, 24.8, 24.9, 49.7, 49.8].map(|days| DAY.mul_f64(days));
        let mut ages: Vec<_> = of_level
            .chain(of_bits)
            .chain(days)
            .filter(|&age| age < YEAR * 100)
            .collect();
        ages.sort_unstable();
        let (service, clock, log) = manual(tick);
        service.schedule(YEAR * 110, 0).unwrap();
        let runs = Arc::new(AtomicU64::new(0));
        let count = runs.clone();
        // The periodic task runs in every span that is looked at, and is moved over those between.
        let periodic = service
            .every(tick * 333)
            .start(move || _ = count.fetch_add(1, Ordering::Relaxed))
            .unwrap();
        for age in ages {
            let begin = age - tick * 50;
            assert!(service.reschedule(periodic, begin.saturating_sub(clock.elapsed())));
            clock.advance(begin.saturating_sub(clock.elapsed()));
            let now = clock.elapsed();
            let delays = [1, 2, 49, 50, 51, 100, 255, 256, 257, 300, 333, 15_000];
            for delay in delays {
                service.schedule(tick * delay, u64::from(delay)).unwrap();
            }
            let before = runs.load(Ordering::Relaxed);
            clock.advance(tick * 20_000);
            let ceil = |at: Duration| {
                Duration::from_nanos(at.as_nanos().next_multiple_of(tick.as_nanos()) as u64)
            };
            let expected: Vec<_> = delays
                .iter()
                .map(|&delay| (ceil(now + tick * delay), u64::from(delay)))
                .collect();
            assert_eq!(
                std::mem::take(&mut *log.lock().unwrap()),
                expected,
                "tick {tick:?}, age {age:?}"
            );
            assert!(
                runs.load(Ordering::Relaxed) >= before + 60,
                "tick {tick:?}, age {age:?}: the periodic one has stopped"
            );
        }
        assert!(service.cancel(periodic));
        assert_eq!(service.len(), 1, "the far one waits");
    }
}

/// Cancelled at once, or when the wheel has them, or by a thread whose messages come first: nothing
/// of them stays.
#[test]
fn cancelled_entries_that_stay_for_years() {
    const TIMERS: u64 = 20_000;
    let (service, clock, _) = manual(MS);
    let (to_canceller, ids) = mpsc::channel::<Vec<TimerId>>();
    let (cancelled, done) = mpsc::channel();
    let handle = service.handle();
    let canceller = thread::spawn(move || {
        // Its lane is the first one.
        assert!(handle.cancel(handle.schedule(YEAR, 0).unwrap()));
        cancelled.send(()).unwrap();
        for ids in ids {
            ids.into_iter().for_each(|id| assert!(handle.cancel(id)));
            cancelled.send(()).unwrap();
        }
    });
    done.recv().unwrap();
    // What comes first is alive, so that no look for the next event tidies up behind it.
    let near = service.schedule(MS, 0).unwrap();
    for (taken_in_first, timers) in [
        (false, TIMERS),
        (true, TIMERS),
        (false, 1_000),
        (true, 1_000),
    ] {
        let ids = (0..timers)
            .map(|timer| service.schedule(YEAR * 2, timer).unwrap())
            .collect();
        if taken_in_first {
            clock.advance(Duration::ZERO);
        }
        to_canceller.send(ids).unwrap();
        done.recv_timeout(HANGS).unwrap();
        clock.advance(Duration::ZERO);
        let holes = service
            .stats()
            .sum(|shard| shard.machinery.figure("holes").unwrap());
        assert!(
            holes <= 33,
            "{holes} entries of {timers} stay for two years (taken in first: {taken_in_first})"
        );
    }
    drop(to_canceller);
    canceller.join().unwrap();
    assert!(service.cancel(near));
    assert_eq!(clock.advance_to_next(), None);
}

/// Eleven timers that are moved and replaced for ever need the wheel entries of eleven timers, and
/// a few.
#[test]
fn a_million_stale_entries_for_eleven_timers() {
    const LIVE: usize = 11;
    let (service, clock, log) = manual(MS);
    let arm = |timer: usize| service.schedule(DAY * 28, timer as u64).unwrap();
    let mut ids: Vec<_> = (0..LIVE).map(arm).collect();
    for round in 0..100_000usize {
        let timer = round % LIVE;
        match round % 3 {
            // Earlier: a tombstone and an entry.
            0 => assert!(service.reschedule(ids[timer], DAY * 28 - MS * (round % 1_000) as u32)),
            1 => assert!(service.reschedule(ids[timer], DAY * 28)),
            _ => {
                assert!(service.cancel(ids[timer]));
                ids[timer] = arm(timer);
            }
        }
        if round % 50 == 0 {
            clock.advance(MS);
            let holes = service
                .stats()
                .sum(|shard| shard.machinery.figure("holes").unwrap());
            // Two slots at the most: what is moved crosses from one to the next.
            assert!(
                holes <= LIVE as u64 + 2 * 33,
                "round {round}: {holes} stale entries for {LIVE} timers"
            );
        }
    }
    clock.advance(DAY * 29);
    let mut fired: Vec<_> = log
        .lock()
        .unwrap()
        .drain(..)
        .map(|(_, timer)| timer)
        .collect();
    fired.sort_unstable();
    assert_eq!(fired, (0..LIVE as u64).collect::<Vec<_>>());
    let stats = service.stats();
    assert_eq!(
        (
            stats.sum(|shard| shard.machinery.figure("holes").unwrap()),
            clock.advance_to_next()
        ),
        (0, None)
    );
}

/// A pause of a length that the scheduler does not choose alone.
fn pause(random: &mut Rng) {
    match random.u64(..4) {
        0 => {}
        1 => thread::yield_now(),
        2 => (0..random.u64(..20_000)).for_each(|_| std::hint::spin_loop()),
        _ => thread::sleep(Duration::from_micros(random.u64(..3_000))),
    }
}

/// Real clock: a shard that falls asleep, or is asleep, hears of each timer that is due before its
/// sleep ends.
#[test]
fn lost_wake_up_of_a_sleeping_shard() {
    let service = TimerService::builder()
        .shards(1)
        .pinning(wheelwork::Pinning::Off)
        .dispatch(Dispatch::Inline)
        .start()
        .unwrap();
    let fire = |delay: Duration| {
        let (send, receive) = mpsc::channel();
        service
            .schedule(delay, move || send.send(()).unwrap())
            .unwrap();
        receive
            .recv_timeout(HANGS)
            .expect("a timer was slept through");
    };
    let mut random = Rng::with_seed(8274);
    // What it sleeps for.
    service
        .schedule(DAY, || unreachable!("handed back"))
        .unwrap();
    for _ in 0..1_500 {
        pause(&mut random);
        fire(Duration::from_micros(random.u64(..2_000)));
    }
    // Long enough without a message: the sleep is deep, and has no end of its own.
    for delay in [Duration::ZERO, MS, MS * 5] {
        // It lingers for 2 s after a message.
        thread::sleep(MS * 2_300);
        fire(delay);
    }
    assert_eq!(service.stop().len(), 1);
}

/// Armed, cancelled and armed again, from several threads: the last one fires, whatever was rung
/// for before.
#[test]
fn lost_wake_up_after_a_cancel() {
    const THREADS: u64 = 3;
    let service = TimerService::builder()
        .shards(2)
        .pinning(wheelwork::Pinning::Off)
        .dispatch(Dispatch::Inline)
        .start()
        .unwrap();
    thread::scope(|scope| {
        for seed in 1..=THREADS {
            let service = &service;
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed * 6683);
                for _ in 0..400 {
                    let first = service
                        .schedule(Duration::from_micros(50_000 + random.u64(..2_000)), || ())
                        .unwrap();
                    pause(&mut random);
                    assert!(service.cancel(first) || !service.is_pending(first));
                    pause(&mut random);
                    let (send, receive) = mpsc::channel();
                    let last = service
                        .schedule(DAY, move || send.send(()).unwrap())
                        .unwrap();
                    pause(&mut random);
                    // An earlier deadline, that of a timer which the shard has gone to sleep for.
                    assert!(service.reschedule(last, Duration::from_micros(random.u64(..2_000))));
                    receive
                        .recv_timeout(HANGS)
                        .expect("a timer was slept through");
                }
            });
        }
    });
    assert!(service.stop().is_empty());
}

/// Whoever gets it finds what was put in, once: no other timer's, nothing that was freed.
struct Payload(Vec<u64>);

const POISON: u64 = 0xdead_beef_dead_beef;

impl Payload {
    fn new(number: u64) -> Self {
        Self((0..8).map(|place| number.wrapping_mul(place + 1)).collect())
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let number = self.0[0];
        assert!(
            (0..8).all(|place| self.0[place] == number.wrapping_mul(place as u64 + 1)),
            "not a payload: {:x?}",
            self.0
        );
        self.0.fill(POISON);
    }
}

/// Threads arm far more than they keep, and cancel, take, move and look at ids of timers that are
/// long gone, while pages of cells come and go.
#[test]
fn use_after_free_of_timer_nodes() {
    const THREADS: u64 = 3;
    const BURST: u64 = 12_000;
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let handler = move |batch: &mut Batch<'_, Payload>| {
        batch.for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed))
    };
    let service = TimerService::builder()
        .shards(2)
        .pinning(wheelwork::Pinning::Off)
        .dispatch(Dispatch::RayonThreads(2))
        .on_expire(handler)
        .start()
        .unwrap();
    let (old, ended) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (service, old, ended) = (&service, &old, &ended);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed * 524);
                for _ in 0..6 {
                    let ids: Vec<_> = (0..BURST)
                        .map(|_| {
                            service
                                .schedule(
                                    Duration::from_micros(random.u64(..200_000)),
                                    Payload::new(random.u64(..1 << 60) | 1),
                                )
                                .unwrap()
                        })
                        .collect();
                    let mut others = std::mem::replace(&mut *old.lock().unwrap(), ids.clone());
                    others.extend(ids);
                    for &id in &others {
                        let end = match random.u64(..4) {
                            0 => service.cancel(id),
                            1 => service.take(id).is_some(),
                            2 => {
                                service
                                    .reschedule(id, Duration::from_micros(random.u64(..100_000)));
                                false
                            }
                            _ => {
                                let _ = service.is_pending(id);
                                false
                            }
                        };
                        ended.fetch_add(usize::from(end), Ordering::Relaxed);
                    }
                    // Long enough for pages to be given back, in some rounds.
                    thread::sleep(MS * random.u64(..400) as u32);
                    others.iter().for_each(|&id| _ = service.reschedule(id, MS));
                }
            });
        }
    });
    let handed_back = service.stop().len();
    let fired = dropped.load(Ordering::Relaxed);
    assert_eq!(
        fired + ended.load(Ordering::Relaxed) + handed_back,
        (THREADS * 6 * BURST) as usize
    );
    assert_eq!(
        service.stats().panics,
        0,
        "a payload was not what was put in"
    );
}

/// What `stop` hands back is over: no id of it is pending, nothing fires, and each payload is there
/// once.
#[test]
fn a_stop_that_cancels_nothing() {
    const TIMERS: u64 = 5_000;
    let (service, clock, log) = manual(MS);
    let ids: Vec<_> = (0..TIMERS)
        .map(|timer| {
            service
                .schedule(MS * (1 + timer as u32 % 500), timer)
                .unwrap()
        })
        .collect();
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let periodic = service
        .every(MS)
        .start(move || _ = count.fetch_add(1, Ordering::Relaxed))
        .unwrap();
    clock.advance(MS * 100);
    let before = (log.lock().unwrap().len(), runs.load(Ordering::Relaxed));
    assert_eq!(before, (1_000, 100));
    let mut unfired: Vec<_> = service
        .stop()
        .into_iter()
        .map(|unfired| unfired.payload)
        .collect();
    unfired.sort_unstable();
    assert_eq!(
        unfired,
        (0..TIMERS)
            .filter(|timer| timer % 500 >= 100)
            .collect::<Vec<_>>()
    );
    assert!(
        ids.iter()
            .chain([&periodic])
            .all(|&id| !service.is_pending(id)
                && !service.cancel(id)
                && service.take(id).is_none())
    );
    clock.advance(DAY);
    assert_eq!(
        (log.lock().unwrap().len(), runs.load(Ordering::Relaxed)),
        before,
        "fired after stop"
    );
    assert_eq!(
        (service.len(), service.stats().timers.handed_back),
        (0, 4_000)
    );
}

/// The pool is full of tasks that wait. The shard goes on: timers are armed, cancelled, moved, and
/// come due, and a channel's receiver or another service is not held up.
#[test]
fn ten_thousand_slow_tasks_delay_no_expiry() {
    const SLOW: u64 = 10_000;
    let service = TimerService::builder()
        .shards(1)
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (gate, ran) = (
        Arc::new((Mutex::new(false), std::sync::Condvar::new())),
        Arc::new(AtomicU64::new(0)),
    );
    for _ in 0..SLOW {
        let (gate, ran) = (gate.clone(), ran.clone());
        let slow = move || {
            let closed = gate.0.lock().unwrap();
            drop(
                gate.1
                    .wait_timeout_while(closed, HANGS, |open| !*open)
                    .unwrap(),
            );
            ran.fetch_add(1, Ordering::Relaxed);
        };
        service.schedule(MS, slow).unwrap();
    }
    let dispatched = || service.stats().sum(|shard| shard.machinery.dispatched());
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let patience = Instant::now() + HANGS;
        while !done() {
            assert!(Instant::now() < patience, "{what}");
            thread::sleep(MS);
        }
    };
    wait("the shard waits for slow tasks", &|| dispatched() == SLOW);
    // What comes due behind them is handed on, and what is cancelled never runs.
    let ids: Vec<_> = (0..1_000)
        .map(|_| {
            service
                .schedule(MS * 2, || unreachable!("cancelled in time"))
                .unwrap()
        })
        .collect();
    wait("timers behind slow tasks do not come due", &|| {
        dispatched() == SLOW + 1_000
    });
    assert!(ids.into_iter().all(|id| service.cancel(id)));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    wait("slow tasks were lost", &|| {
        ran.load(Ordering::Relaxed) == SLOW
    });
    assert!(service.stop().is_empty());
}

#[test]
fn panics_on_big_durations() {
    const FAR: [Duration; 5] = [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_nanos(u64::MAX),
        Duration::from_secs(i64::MAX as u64),
        Duration::from_millis(u64::MAX),
    ];
    for tick in [Duration::from_micros(1), MS, DAY] {
        let (service, clock, log) = manual(tick);
        clock.advance(YEAR);
        let mut wall = Vec::new();
        let far_instants = FAR
            .iter()
            .filter_map(|&far| clock.now().checked_add(far))
            .chain([clock.now() + YEAR * 200]);
        let mut ids: Vec<_> = far_instants
            .map(|instant| service.schedule_at(instant, 1).unwrap())
            .collect();
        let near = service.schedule(DAY * 2, 2).unwrap();
        for far in FAR {
            ids.push(service.schedule(far, 1).unwrap());
            ids.push(service.schedule_within(far..=far, 1).unwrap());
            ids.push(service.schedule_on(usize::MAX, far, 1).unwrap());
            ids.extend(
                service
                    .schedule_many([(far, 1)])
                    .into_iter()
                    .map(Result::unwrap),
            );
            assert!(service.reschedule(near, far) && service.reschedule(near, DAY * 2));
            assert_eq!(service.reschedule_many([near], far), 1);
            assert!(service.reschedule_at(near, clock.now() + DAY * 2));
            ids.push(
                service
                    .every(far)
                    .first(far)
                    .start(|| unreachable!("at the end of time"))
                    .unwrap(),
            );
            ids.push(
                service
                    .every_after(far)
                    .start(|| unreachable!("at the end of time"))
                    .unwrap(),
            );
            if let Some(time) = SystemTime::UNIX_EPOCH.checked_add(far) {
                wall.push(
                    service
                        .schedule_at_system_time(time, || unreachable!("at the end of time"))
                        .unwrap(),
                );
            }
        }
        assert!(
            ids.iter()
                .all(|&id| service.remaining(id).is_some_and(|left| left > YEAR * 100))
        );
        clock.advance(DAY * 3);
        assert_eq!(
            log.lock()
                .unwrap()
                .drain(..)
                .map(|(_, timer)| timer)
                .collect::<Vec<_>>(),
            [2]
        );
        // Those of the wall clock are looked at now and then.
        ids.extend(wall);
        assert_eq!(service.cancel_many(ids.iter().copied()), ids.len());
        let stats = service.stats();
        assert_eq!((service.len(), stats.panics), (0, 0));
    }
    let mut wheel = Wheel::new(0);
    let far = wheel.insert(u64::MAX, "far");
    wheel.insert(1, "near");
    let mut due = Vec::new();
    while wheel.advance(u64::MAX / 8192, 16, |_, key| due.push(key)) {}
    assert_eq!(due, ["near"]);
    assert!(wheel.reschedule(far, 0) && wheel.reschedule(far, u64::MAX));
    assert_eq!(wheel.cancel(far), Some("far"));
}
