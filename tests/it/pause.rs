//! Promise: a paused timer keeps what is left of it, does not fire, and has every other outcome
//! that a timer has: cancel, take, stop, drop. When it is resumed it fires once what was left has
//! passed, and not before.

use std::ops::ControlFlow::Continue;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork::{Batch, ManualClock, StopPolicy, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

struct World {
    clock: ManualClock,
    service: TimerService,
    /// When something ran, since the beginning.
    ran: Arc<Mutex<Vec<Duration>>>,
}

impl World {
    fn new() -> Self {
        Self::with_tick(MS)
    }

    fn with_tick(tick: Duration) -> Self {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .tick(tick)
            .shards(1)
            .start()
            .unwrap();
        Self {
            clock,
            service,
            ran: Arc::default(),
        }
    }

    fn note(&self) -> impl Fn() + Send + 'static {
        let (clock, ran) = (self.clock.clone(), self.ran.clone());
        move || ran.lock().unwrap().push(clock.elapsed())
    }

    fn ran(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }

    fn pause(&self, id: TimerId) {
        assert!(self.service.pause(id) && self.service.is_paused(id));
    }
}

#[test]
fn a_paused_timer_fires_when_the_rest_has_passed() {
    let world = World::new();
    let id = world.service.schedule(10 * MS, world.note()).unwrap();
    assert!(!world.service.is_paused(id) && !world.service.resume(id));
    world.clock.advance(4 * MS);
    world.pause(id);
    assert!(!world.service.pause(id), "it is paused");
    world.clock.advance(HOUR);
    assert_eq!(world.ran(), []);
    let service = &world.service;
    assert!(service.is_pending(id) && service.len() == 1);
    assert_eq!(service.remaining(id), Some(6 * MS));
    assert_eq!(service.deadline(id), None);
    assert_eq!(service.pending(0).collect::<Vec<_>>(), [(id, 6 * MS)]);
    assert_eq!(
        service.next_deadline(0),
        None,
        "its shard waits for nothing"
    );
    assert!(service.resume(id) && !service.resume(id));
    assert_eq!(service.remaining(id), Some(6 * MS));
    world.clock.advance(5 * MS);
    assert_eq!(world.ran(), []);
    world.clock.advance(MS);
    assert_eq!(world.ran(), [HOUR + 10 * MS]);
    assert!(!world.service.pause(id) && !world.service.resume(id));
    assert!(!world.service.is_paused(id));
}

#[test]
fn pauses_add_nothing_up_and_take_nothing_away() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let id = service.schedule(10 * MS, || ()).unwrap();
    let third = MS / 3;
    let mut passed = Duration::ZERO;
    while service.is_pending(id) {
        clock.advance(third);
        passed += third;
        if service.pause(id) {
            clock.advance(7 * MS + third);
            assert!(service.resume(id));
        }
    }
    assert!(passed >= 10 * MS, "early: {passed:?}");
    assert!(passed < 12 * MS, "pauses add nothing up: {passed:?}");
}

/// A fixed rate that is paused once a period.
#[test]
fn pauses_of_a_fixed_rate_add_nothing_up() {
    let world = World::new();
    let id = world.service.every(10 * MS).start(world.note()).unwrap();
    let (step, mut passed, mut steps) = (MS / 4, Duration::ZERO, 0_u32);
    let mut runs = 0;
    while runs < 100 {
        world.clock.advance(step);
        runs += world.ran().len();
        passed += step;
        steps += 1;
        if steps.is_multiple_of(37) {
            assert!(world.service.pause(id));
            world.clock.advance(7 * MS + MS / 3);
            assert!(world.service.resume(id));
        }
    }
    assert!(passed >= 1_000 * MS, "early: {passed:?}");
    // The first pause counts from a deadline that was rounded up, the last run is, too.
    assert!(passed < 1_003 * MS, "pauses add nothing up: {passed:?}");
}

/// Its deadline is the same tick before and after.
#[test]
fn pauses_within_a_tick_count_for_all_later_runs() {
    let world = World::with_tick(SECOND);
    world.clock.advance(100 * MS);
    let id = world
        .service
        .every(10 * SECOND)
        .start(world.note())
        .unwrap();
    let (step, mut passed, mut runs) = (100 * MS, Duration::ZERO, 0_u32);
    while runs < 50 {
        world.clock.advance(step);
        passed += step;
        let ran = world.ran().len();
        runs += u32::try_from(ran).unwrap();
        if ran > 0 {
            assert!(passed >= runs * 10 * SECOND, "run {runs} after {passed:?}");
            // (The first pause counts from a deadline that was rounded up, the run is, too.)
            assert!(passed < runs * 10 * SECOND + 3 * SECOND, "{passed:?}");
            assert!(world.service.pause(id));
            world.clock.advance(800 * MS);
            assert!(world.service.resume(id));
        }
    }
}

/// Its time has passed at each of these pauses, and its tick has not come.
#[test]
fn a_timer_that_is_paused_at_each_tick_fires() {
    let world = World::with_tick(SECOND);
    let id = world.service.schedule(10 * SECOND, world.note()).unwrap();
    let mut passed = Duration::ZERO;
    while passed < 13 * SECOND && world.ran().is_empty() {
        world.clock.advance(900 * MS);
        passed += 900 * MS;
        world.service.pause(id);
        world.clock.advance(100 * MS);
        world.service.resume(id);
    }
    assert!(passed >= 10 * SECOND && passed < 12 * SECOND, "{passed:?}");
    // So do the runs of a fixed rate, with nothing added up.
    let world = World::new();
    let id = world.service.every(2 * MS).start(world.note()).unwrap();
    let mut runs = 0;
    for _ in 0..10_000 {
        world.clock.advance(3 * MS / 10);
        world.service.pause(id);
        world.clock.advance(3 * MS / 10);
        world.service.resume(id);
        runs += world.ran().len();
    }
    assert!((1_498..=1_500).contains(&runs), "{runs}");
}

/// The tick to which a resume has rounded up may be the tick of a move after it.
#[test]
fn a_move_to_the_tick_of_a_resume_is_not_early() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone());
    let service = builder.tick(SECOND).start().unwrap();
    clock.advance(100 * MS);
    let id = service.schedule(10 * SECOND, || ()).unwrap();
    assert!(service.pause(id));
    clock.advance(100 * MS);
    assert!(service.resume(id), "its deadline is rounded up by 0.9 s");
    let before = service.deadline(id);
    assert!(service.reschedule(id, 11_700 * MS));
    assert_eq!(service.deadline(id), before, "the same tick");
    assert!(service.pause(id));
    assert!(service.remaining(id) >= Some(11_700 * MS), "it is early");
}

#[test]
fn a_timer_that_is_due_can_be_paused_until_it_fires() {
    let world = World::new();
    let note = world.note();
    let first = world.service.schedule(MS, world.note()).unwrap();
    // It is due at the same tick as the task that pauses it, or has fired before that.
    let handle = world.service.handle();
    world
        .service
        .schedule(MS, move || {
            handle.pause(first);
            note();
        })
        .unwrap();
    world.clock.advance(MS);
    let is_paused = world.service.is_paused(first);
    assert_eq!(world.ran().len(), 2 - usize::from(is_paused));
    if is_paused {
        assert_eq!(world.service.remaining(first), Some(Duration::ZERO));
        world.clock.advance(HOUR);
        assert!(world.service.resume(first));
        world.clock.advance(MS);
        assert_eq!(world.ran(), [HOUR + 2 * MS]);
    }
}

#[test]
fn a_paused_timer_is_cancelled_and_taken() {
    let service = TimerService::builder()
        .clock(ManualClock::new())
        .on_expire(|batch: &mut Batch<'_, Arc<()>>| batch.for_each(drop))
        .max_pending(3)
        .start()
        .unwrap();
    let alive = Arc::new(());
    let arm = || service.schedule(SECOND, alive.clone()).unwrap();
    let ids = [arm(), arm(), arm()];
    assert!(ids.iter().all(|&id| service.pause(id)));
    assert!(
        service.schedule(SECOND, alive.clone()).is_err(),
        "it is full"
    );
    assert!(service.cancel(ids[0]) && !service.cancel(ids[0]));
    assert!(service.take(ids[1]).is_some());
    assert_eq!(service.cancel_many(ids), 1);
    assert_eq!((Arc::strong_count(&alive), service.len()), (1, 0));
    assert!(
        ids.iter()
            .all(|&id| !service.resume(id) && !service.pause(id))
    );
    let again = arm();
    service.pause(again);
    assert_eq!(service.cancel_all(), 1);
    let again = arm();
    service.pause(again);
    drop(service);
    assert_eq!(Arc::strong_count(&alive), 1, "dropped with the service");
}

/// The clock moves on while paused timers are moved: all that was asked for is left.
#[test]
fn a_move_of_a_paused_timer_takes_nothing_away() {
    let world = World::new();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                world.clock.advance(MS);
            }
        });
        let id = world.service.schedule(HOUR, || ()).unwrap();
        world.pause(id);
        let mut short = 0;
        for round in 0..300_000 {
            if round % 2 == 0 {
                assert!(world.service.reschedule(id, SECOND));
            } else {
                assert_eq!(world.service.reschedule_many([id], SECOND), 1);
            }
            short += u32::from(world.service.remaining(id) < Some(SECOND));
        }
        ends.store(true, Relaxed);
        assert_eq!(short, 0, "too little is left");
    });
}

/// A shard that sleeps would not look for free memory.
#[test]
fn the_shard_is_told_of_a_paused_timer_that_is_cancelled() {
    let world = World::new();
    let drained = || {
        world.clock.advance(Duration::ZERO);
        world.service.stats().shards[0].machinery.drained()
    };
    let id = world.service.schedule(HOUR, || ()).unwrap();
    world.pause(id);
    let before = drained();
    assert!(world.service.cancel(id));
    assert_eq!(drained(), before + 1);
    let machinery = world.service.stats().shards[0].machinery;
    assert!(
        machinery
            .figures()
            .all(|(name, figure)| name != "holes" || figure == 0)
    );
}

#[test]
fn a_move_sets_what_is_left() {
    let world = World::new();
    let service = &world.service;
    let id = service.schedule(10 * MS, world.note()).unwrap();
    world.pause(id);
    world.clock.advance(HOUR);
    assert!(service.reschedule(id, 3 * MS) && service.is_paused(id));
    assert_eq!(service.remaining(id), Some(3 * MS));
    assert!(service.reschedule_at(id, world.clock.now() + 5 * MS));
    assert_eq!(service.remaining(id), Some(5 * MS));
    assert_eq!(service.reschedule_many([id], 2 * MS), 1);
    assert_eq!(service.remaining(id), Some(2 * MS));
    assert_eq!(service.stats().timers.rearmed, 3);
    world.clock.advance(HOUR);
    assert_eq!(world.ran(), []);
    assert!(service.resume(id));
    world.clock.advance(2 * MS);
    assert_eq!(world.ran(), [2 * HOUR + 2 * MS]);
}

#[test]
fn a_stop_has_paused_timers() {
    let payloads = |policy| {
        let clock = ManualClock::new();
        let fired = Arc::new(AtomicU64::new(0));
        let counted = fired.clone();
        let service = TimerService::builder()
            .clock(clock.clone())
            .on_expire(move |batch: &mut Batch<'_, u64>| {
                counted.fetch_add(batch.map(|_| 1).sum::<u64>(), Relaxed);
            })
            .start()
            .unwrap();
        let id = service.schedule(10 * MS, 7).unwrap();
        clock.advance(3 * MS);
        assert!(service.pause(id));
        clock.advance(HOUR);
        let unfired = service.stop_with(policy);
        let unfired: Vec<_> = unfired.iter().map(|u| (u.payload, u.remaining)).collect();
        assert!(!service.resume(id) && !service.pause(id) && !service.is_paused(id));
        (unfired, fired.load(Relaxed))
    };
    let left = (vec![(7, 7 * MS)], 0);
    assert_eq!(payloads(StopPolicy::HandBack), left);
    // It waits for none that is paused: nobody moves the clock.
    assert_eq!(payloads(StopPolicy::Drain(HOUR)), left);
    assert_eq!(payloads(StopPolicy::FireAll), (vec![], 1));
}

#[test]
fn a_periodic_timer_goes_on_from_there() {
    let world = World::new();
    let id = world.service.every(10 * MS).start(world.note()).unwrap();
    world.clock.advance(24 * MS);
    world.pause(id);
    world.clock.advance(SECOND);
    assert_eq!(world.ran(), [10 * MS, 20 * MS]);
    assert_eq!(world.service.remaining(id), Some(6 * MS));
    assert!(world.service.resume(id));
    world.clock.advance(16 * MS);
    let first = SECOND + 30 * MS;
    assert_eq!(world.ran(), [first, first + 10 * MS], "none was missed");
    world.pause(id);
    assert!(world.service.cancel(id), "it has an end");
    assert_eq!(world.service.stats().timers.pending, 0);
}

#[test]
fn a_run_pauses_its_own_timer() {
    let world = World::new();
    let (handle, note) = (world.service.handle(), world.note());
    let mut runs = 0;
    let id = world
        .service
        .every(10 * MS)
        .start_while(move |run| {
            note();
            runs += 1;
            if runs == 2 {
                assert!(handle.pause(run.id()) && !handle.pause(run.id()));
                assert!(handle.is_paused(run.id()) && handle.is_pending(run.id()));
            }
            if runs == 3 {
                assert!(handle.pause(run.id()) && handle.resume(run.id()));
            }
            Continue(())
        })
        .unwrap();
    world.clock.advance(SECOND);
    assert_eq!(world.ran(), [10 * MS, 20 * MS]);
    assert_eq!(world.service.stats().panics, 0);
    assert_eq!(world.service.remaining(id), Some(10 * MS));
    assert!(world.service.resume(id));
    world.clock.advance(20 * MS);
    assert_eq!(world.ran(), [SECOND + 10 * MS, SECOND + 20 * MS]);
    assert_eq!(world.service.stats().panics, 0);
    // A stop that fires all ends it, without a run.
    world.pause(id);
    assert!(world.service.stop_with(StopPolicy::FireAll).is_empty());
    assert_eq!((world.ran(), world.service.len()), (vec![], 0));
}

#[test]
fn a_paused_run_in_progress_ends_with_its_service() {
    for policy in [StopPolicy::HandBack, StopPolicy::FireAll] {
        let service = Arc::new(TimerService::builder().start().unwrap());
        let (begun, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let id = service
            .every(MS)
            .start(move || {
                begun.send(()).unwrap();
                let _ = goes.recv();
            })
            .unwrap();
        begins.recv().unwrap();
        assert!(service.pause(id));
        let stopping = service.clone();
        let stop = thread::spawn(move || stopping.stop_with(policy).len());
        while !service.is_stopped() {
            thread::yield_now();
        }
        drop(go);
        assert_eq!(stop.join().unwrap(), 0);
        assert_eq!(service.stats().timers.pending, 0);
        assert_eq!(begins.try_iter().count(), 0, "one run");
    }
}

#[test]
fn a_timer_for_a_time_of_day_looks_at_the_clock_when_it_is_resumed() {
    let world = World::new();
    let noon = SystemTime::UNIX_EPOCH + 12 * HOUR;
    world.clock.set_system_time(noon - HOUR);
    let at_noon = |world: &World| {
        world
            .service
            .schedule_at_system_time(noon, world.note())
            .unwrap()
    };
    // Resumed before its time: it keeps it.
    let id = at_noon(&world);
    world.pause(id);
    world.clock.advance(HOUR / 2);
    assert!(world.service.resume(id));
    world.clock.advance(HOUR / 2);
    assert_eq!(world.ran(), [HOUR]);
    // Resumed after it: at once.
    world.clock.set_system_time(noon - HOUR);
    let id = at_noon(&world);
    world.pause(id);
    world.clock.advance(4 * HOUR);
    assert_eq!(world.ran(), []);
    assert!(world.service.resume(id));
    world.clock.advance(MS);
    assert_eq!(world.ran(), [5 * HOUR + MS]);
    // The clock is set while it is paused.
    world.clock.set_system_time(noon - 2 * HOUR);
    let id = at_noon(&world);
    world.pause(id);
    world.clock.set_system_time(noon - HOUR);
    world.clock.advance(Duration::ZERO);
    assert!(world.service.is_paused(id));
    assert!(world.service.resume(id));
    world.clock.advance(HOUR - MS);
    assert_eq!(world.ran(), []);
    world.clock.advance(MS);
    assert_eq!(world.ran().len(), 1);
}

/// Two threads pause and resume a timer that a third one keeps alive, and a fourth cancels at the
/// end. It never fires, and is cancelled once.
#[test]
fn threads_pause_and_resume_what_others_keep_alive() {
    const ROUNDS: u32 = 2_000;
    let service = TimerService::builder().start().unwrap();
    for _ in 0..20 {
        let fired = Arc::new(AtomicBool::new(false));
        let fires = fired.clone();
        let id = service
            .schedule(HOUR, move || fires.store(true, Relaxed))
            .unwrap();
        let counts = [(); 2].map(|()| AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        counts[0].fetch_add(u64::from(service.pause(id)), Relaxed);
                        counts[1].fetch_add(u64::from(service.resume(id)), Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    assert!(service.reschedule(id, HOUR + MS * (round % 7)));
                    assert!(service.remaining(id).unwrap() > HOUR / 2);
                }
            });
        });
        let [pauses, resumes] = counts.map(AtomicU64::into_inner);
        assert_eq!(pauses, resumes + u64::from(service.is_paused(id)));
        assert!(service.cancel(id) && !service.cancel(id));
        assert!(!fired.load(Relaxed));
    }
    assert!(service.is_empty());
}

/// Timers that are due all the time are paused and resumed. Each fires once.
#[test]
fn each_timer_fires_once_though_it_is_paused() {
    const TIMERS: u64 = 2_000;
    let service = TimerService::builder()
        .tick(Duration::from_micros(100))
        .start()
        .unwrap();
    let fired = Arc::new(AtomicU64::new(0));
    let ids: Vec<_> = (0..TIMERS)
        .map(|number| {
            let fired = fired.clone();
            let delay = Duration::from_micros(100 * (number % 50));
            let task = move || _ = fired.fetch_add(1, Relaxed);
            service.schedule(delay, task).unwrap()
        })
        .collect();
    thread::scope(|scope| {
        for part in 0..2 {
            let (service, ids) = (&service, &ids);
            scope.spawn(move || {
                for &id in ids.iter().skip(part).step_by(2) {
                    if service.pause(id) {
                        assert!(service.resume(id), "nobody else resumes it");
                    }
                }
            });
        }
    });
    while !service.is_empty() {
        thread::yield_now();
    }
    assert!(service.stop().is_empty());
    assert_eq!(fired.load(Relaxed), TIMERS);
}
