//! Periodic timers whose runs are a worker's, against the shard's turns, a cancel, a stop, and
//! whoever waits: src/cell/README.md (RunBegin, RunFile), by the service itself.

use loom::sync::Notify;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::internals::loom::{
    Entry, Fault, arm_look, look_after, pass_time, run_job, set_pins, take_turn,
};
use wheelwork::{ManualClock, StopPolicy, TimerId, TimerService};
use wheelwork_loom_tests::{Held, Ledger, explore_service, service_must_fail, spawn};

const TICK: Duration = Duration::from_micros(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A service whose time the model moves.
fn service(clock: &ManualClock) -> Held<Arc<TimerService>> {
    let builder = TimerService::builder();
    let service = builder.clock(clock.clone()).tick(TICK).shards(1).start();
    Held::new(Arc::new(service.expect("a manual service starts")))
}

/// A service with a periodic timer, and how often that has run.
struct World {
    clock: ManualClock,
    service: Held<Arc<TimerService>>,
    id: TimerId,
    runs: Arc<Ledger<1>>,
}

impl World {
    fn new() -> Self {
        let (clock, runs) = (ManualClock::new(), Arc::new(Ledger::new()));
        let service = service(&clock);
        let counted = runs.clone();
        let id = service
            .every(TICK)
            .start(move || _ = counted.add(0))
            .expect("not stopped");
        Self {
            clock,
            service,
            id,
            runs,
        }
    }

    /// With a timer for a time of day. It looks at the clock at its first tick; if that was set
    /// back meanwhile, its time has not come.
    fn of_day(is_set_back: bool) -> Self {
        let world = Self::new();
        assert!(world.service.cancel(world.id));
        let runs = world.runs.clone();
        let at = world.clock.system_time();
        let timer = world
            .service
            .schedule_at_system_time(at, move || _ = runs.add(0));
        if is_set_back {
            world.clock.set_system_time(at - DAY);
        }
        Self {
            id: timer.expect("not stopped"),
            ..world
        }
    }

    /// A worker that has its first run to do.
    fn worker(&self) -> loom::thread::JoinHandle<()> {
        let (handle, entry) = (self.service.handle(), Entry::of(self.id, 1));
        spawn(move || run_job(&handle, entry))
    }

    fn has_ended(&self) {
        let timers = self.service.stats().timers;
        assert!(!self.service.is_pending(self.id), "it is still armed");
        assert_eq!((timers.ended, timers.pending), (1, 0), "it ends once");
    }

    fn no_panics(&self) {
        assert_eq!(
            self.service.stats().panics,
            0,
            "loom complained inside the run"
        );
    }
}

/// The worker files the timer again while the shard drains, and while it is cancelled. Then it runs
/// no more.
fn run_against_turn_and_cancel() {
    let world = World::new();
    let worker = world.worker();
    take_turn(&world.service);
    assert!(
        world.service.cancel(world.id),
        "it can be cancelled, run or no run"
    );
    worker.join().unwrap();
    let runs = world.runs.counts();
    for _ in 0..3 {
        pass_time(&world.clock, TICK);
        take_turn(&world.service);
    }
    assert_eq!(world.runs.counts(), runs, "it runs on");
    world.no_panics();
}

/// When stop returns the run is over, and none begins.
fn run_against_stop() {
    let world = World::new();
    let worker = world.worker();
    assert!(world.service.stop().is_empty(), "it is not handed back");
    // A causality violation, if it may still run.
    let runs = world.runs.counts();
    worker.join().unwrap();
    assert_eq!(world.runs.counts(), runs, "a run after stop");
    world.no_panics();
}

/// The same for a drain through which periodic timers run on.
fn run_against_drain() {
    let world = World::new();
    let worker = world.worker();
    let policy = StopPolicy::DrainWithPeriodic(Duration::ZERO);
    assert!(world.service.stop_with(policy).is_empty());
    // As above.
    let runs = world.runs.counts();
    worker.join().unwrap();
    assert_eq!(world.runs.counts(), runs, "a run after the drain");
    world.has_ended();
    world.no_panics();
}

/// A stop that fires all leaves a timer that runs to its run, which files it no more.
fn run_against_fire_all() {
    let world = World::new();
    let worker = world.worker();
    assert!(world.service.stop_with(StopPolicy::FireAll).is_empty());
    worker.join().unwrap();
    world.has_ended();
    world.no_panics();
}

/// A timer for a time of day runs, or it was cancelled.
fn run_of_day_against_cancel() {
    let world = World::of_day(false);
    let worker = world.worker();
    let is_cancelled = world.service.cancel(world.id);
    worker.join().unwrap();
    assert_eq!(
        world.runs.counts(),
        [u32::from(!is_cancelled)],
        "one of both"
    );
    world.no_panics();
}

/// Or it is paused.
fn run_of_day_against_pause() {
    let world = World::of_day(false);
    // (It is filed again for a later tick.)
    pass_time(&world.clock, TICK);
    let worker = world.worker();
    let is_paused = world.service.pause(world.id);
    worker.join().unwrap();
    assert_eq!(world.runs.counts(), [u32::from(!is_paused)], "one of both");
    assert_eq!(world.service.is_paused(world.id), is_paused);
    world.no_panics();
}

/// One whose time has not come runs by a stop that fires all, or it was cancelled before.
fn look_of_day_against_cancel_and_fire_all() {
    let world = World::of_day(true);
    let worker = world.worker();
    let is_cancelled = world.service.cancel(world.id);
    assert!(world.service.stop_with(StopPolicy::FireAll).is_empty());
    worker.join().unwrap();
    assert_eq!(
        world.runs.counts(),
        [u32::from(!is_cancelled)],
        "one of both"
    );
    world.no_panics();
}

/// The same for whoever has cancelled it, and waited.
fn run_against_cancel_and_wait() {
    let world = World::new();
    let worker = world.worker();
    assert_eq!(world.service.cancel_and_wait(world.id), Ok(true));
    // As above.
    let runs = world.runs.counts();
    worker.join().unwrap();
    assert_eq!(world.runs.counts(), runs, "a run after the wait");
    world.no_panics();
}

/// Pages are gathered while a run has a cell of one of them, which it frees at its end. Freed
/// memory is noted.
fn last_run_against_upkeep() {
    const LOOK_NS: u64 = 250_000_000;
    set_pins(true);
    let service = TimerService::builder()
        .clock(ManualClock::new())
        .tick(TICK)
        .shards(1)
        .start()
        .expect("a manual service starts");
    set_pins(false);
    let service = Held::new(service);
    let runs = Arc::new(Ledger::<1>::new());
    let counted = runs.clone();
    let id = service
        .every(TICK)
        .times(1)
        .start(move || _ = counted.add(0))
        .expect("not stopped");
    // The other cell of its page, and another page: all in the depot. Two looks see it.
    let others = [(); 3].map(|()| service.schedule(TICK, || ()).expect("not stopped"));
    others.iter().for_each(|&id| assert!(service.cancel(id)));
    (0..2).for_each(|look| look_after(&service, look * LOOK_NS));
    let handle = service.handle();
    let worker = spawn(move || run_job(&handle, Entry::of(id, 1)));
    look_after(&service, 2 * LOOK_NS);
    worker.join().unwrap();
    assert_eq!(
        (runs.counts(), service.is_pending(id)),
        ([1], false),
        "it has run, and ended"
    );
    assert_eq!(service.stats().panics, 0, "loom complained inside the run");
}

/// A timer for a time of day that is paused in its look, and a stop that fires all.
fn look_of_day_against_pause_and_fire_all() {
    let world = World::of_day(true);
    let worker = world.worker();
    _ = world.service.pause(world.id);
    assert!(world.service.stop_with(StopPolicy::FireAll).is_empty());
    worker.join().unwrap();
    assert_eq!(world.runs.counts(), [1], "it fires once");
    assert!(!world.service.is_pending(world.id), "it is still armed");
    world.no_panics();
}

/// The same for one that is periodic, and is paused in its run.
fn run_against_pause_and_fire_all() {
    let world = World::new();
    let worker = world.worker();
    _ = world.service.pause(world.id);
    assert!(world.service.stop_with(StopPolicy::FireAll).is_empty());
    worker.join().unwrap();
    assert!(!world.service.is_pending(world.id), "it is still armed");
    world.no_panics();
}

/// A timer for a time of day is armed while the look of its run stops the service, by a stop that
/// fires all: it fires, or was refused, and is counted once.
fn arming_against_a_look_that_stops() {
    let clock = ManualClock::new();
    let (service, runs) = (service(&clock), Arc::new(Ledger::<1>::new()));
    let (handle, counted) = (service.handle(), runs.clone());
    let stopper = service.clone();
    let turn = spawn(move || clock.advance(TICK));
    let stop = move || assert!(stopper.stop_with(StopPolicy::FireAll).is_empty());
    let arming = spawn(move || arm_look(&handle, stop, move || _ = counted.add(0)).is_ok());
    let accepted = u32::from(arming.join().unwrap());
    turn.join().unwrap();
    assert_eq!(service.stop_with(StopPolicy::FireAll).len(), 0);
    assert_eq!(runs.counts(), [accepted], "what is accepted fires");
    let (timers, accepted) = (service.stats().timers, u64::from(accepted));
    assert_eq!(
        (timers.armed, timers.ended, timers.pending),
        (accepted, accepted, 0),
        "it is counted once"
    );
    assert_eq!(service.stats().panics, 0, "loom complained inside the run");
}

/// A drain comes when a stop that fires all has begun, in the look of a timer for a time of day.
/// The drain leaves that timer to its run.
fn look_that_fires_all_against_a_later_drain() {
    let (service, runs) = (service(&ManualClock::new()), Arc::new(Ledger::<1>::new()));
    let (stopper, has_begun) = (service.clone(), Arc::new(Notify::new()));
    let (counted, begun) = (runs.clone(), has_begun.clone());
    let stop = move || {
        assert!(stopper.stop_with(StopPolicy::FireAll).is_empty());
        begun.notify();
    };
    let (handle, job) = (service.handle(), service.handle());
    let id = arm_look(&handle, stop, move || _ = counted.add(0)).expect("not stopped");
    let worker = spawn(move || run_job(&job, Entry::of(id, 1)));
    // (Loom wakes for nothing, too.)
    while !service.is_stopped() {
        has_begun.wait();
    }
    let drain = StopPolicy::Drain(Duration::ZERO);
    assert!(service.stop_with(drain).is_empty());
    worker.join().unwrap();
    assert_eq!(runs.counts(), [1], "the first stop fires it");
    assert!(!service.is_pending(id), "it is still armed");
    assert_eq!(service.stats().panics, 0, "loom complained inside the run");
}

/// Two stops, one of which fires all. A timer for a time of day whose run has only looked at the
/// clock fires if another timer does, which comes back otherwise.
fn look_of_day_against_two_stops() {
    let world = World::of_day(true);
    let fired = Arc::new(Ledger::<1>::new());
    let noted = fired.clone();
    let timer = world.service.schedule(DAY, move || _ = noted.add(0));
    timer.expect("not stopped");
    let worker = world.worker();
    let other = world.service.clone();
    let fires_all = spawn(move || other.stop_with(StopPolicy::FireAll).len());
    let unfired = world.service.stop().len() + fires_all.join().unwrap();
    worker.join().unwrap();
    let [fired] = fired.counts();
    assert_eq!(fired as usize + unfired, 1, "every timer has one outcome");
    assert_eq!(world.runs.counts(), [fired], "both fire, or none");
    world.no_panics();
}

#[test]
fn what_is_armed_while_its_look_stops_the_service_fires_or_is_refused() {
    explore_service(Some(2), arming_against_a_look_that_stops);
}

#[test]
fn broken_recheck_that_takes_a_timer_from_its_run() {
    service_must_fail(
        Fault::RunTakenFromFireAll,
        "what is accepted fires",
        Some(2),
        arming_against_a_look_that_stops,
    );
}

#[test]
fn a_drain_leaves_to_a_stop_what_that_fires() {
    explore_service(Some(2), look_that_fires_all_against_a_later_drain);
}

#[test]
fn broken_drain_that_ends_what_a_stop_fires() {
    service_must_fail(
        Fault::DrainEndsWhatFires,
        "the first stop fires it",
        Some(2),
        look_that_fires_all_against_a_later_drain,
    );
}

#[test]
fn of_two_stops_the_first_decides_for_all() {
    explore_service(Some(2), look_of_day_against_two_stops);
}

#[test]
fn broken_mark_of_a_further_stop() {
    service_must_fail(
        Fault::FurtherStopMarksItsOwn,
        "both fire, or none",
        Some(2),
        look_of_day_against_two_stops,
    );
}

#[test]
fn a_runs_page_stays() {
    explore_service(Some(3), last_run_against_upkeep);
}

#[test]
fn broken_gathering_of_a_runs_page() {
    service_must_fail(
        Fault::RetireIncomplete,
        "it has run",
        Some(3),
        last_run_against_upkeep,
    );
}

#[test]
fn a_run_is_filed_again_while_the_shard_turns() {
    explore_service(Some(3), run_against_turn_and_cancel);
}

#[test]
fn stop_waits_for_a_run() {
    explore_service(Some(3), run_against_stop);
}

#[test]
fn a_drain_waits_for_a_run_and_then_there_is_none() {
    explore_service(Some(2), run_against_drain);
}

#[test]
fn broken_count_of_a_run_that_is_drained() {
    service_must_fail(
        Fault::JobNotCounted,
        "Causality violation",
        Some(2),
        run_against_drain,
    );
}

#[test]
fn a_run_sees_that_a_stop_fires_all() {
    explore_service(Some(2), run_against_fire_all);
}

#[test]
fn broken_look_of_a_run_that_has_filed_its_timer() {
    service_must_fail(
        Fault::RunNotSeenAfterFile,
        "it is still armed",
        Some(2),
        run_against_fire_all,
    );
}

#[test]
fn a_run_of_a_time_of_day_sees_a_cancel() {
    explore_service(Some(2), run_of_day_against_cancel);
}

#[test]
fn broken_look_of_a_run_for_a_cancel() {
    service_must_fail(
        Fault::RunUnawareOfCancel,
        "one of both",
        Some(2),
        run_of_day_against_cancel,
    );
}

#[test]
fn a_run_of_a_time_of_day_sees_a_pause() {
    explore_service(Some(2), run_of_day_against_pause);
}

#[test]
fn broken_look_of_a_run_for_a_pause() {
    service_must_fail(
        Fault::RunUnawareOfPause,
        "one of both",
        Some(2),
        run_of_day_against_pause,
    );
}

#[test]
fn a_look_at_the_time_of_day_sees_a_cancel_before_a_stop() {
    explore_service(Some(2), look_of_day_against_cancel_and_fire_all);
}

#[test]
fn broken_look_of_a_look_for_a_cancel() {
    service_must_fail(
        Fault::RunUnawareOfCancel,
        "one of both",
        Some(2),
        look_of_day_against_cancel_and_fire_all,
    );
}

#[test]
fn a_pause_in_a_look_and_a_stop_that_fires_all() {
    explore_service(Some(3), look_of_day_against_pause_and_fire_all);
}

#[test]
fn broken_fence_of_a_look_that_was_paused() {
    service_must_fail(
        Fault::RunPausedWithoutFence,
        "it fires once",
        Some(3),
        look_of_day_against_pause_and_fire_all,
    );
}

#[test]
fn a_pause_in_a_run_and_a_stop_that_fires_all() {
    explore_service(Some(3), run_against_pause_and_fire_all);
}

#[test]
fn broken_fence_of_a_run_that_was_paused() {
    service_must_fail(
        Fault::RunPausedWithoutFence,
        "it is still armed",
        Some(3),
        run_against_pause_and_fire_all,
    );
}

#[test]
fn cancel_and_wait_waits_for_a_run() {
    explore_service(Some(2), run_against_cancel_and_wait);
}

#[test]
fn broken_end_of_a_run() {
    service_must_fail(
        Fault::RunFilesBlindly,
        "it runs on",
        Some(3),
        run_against_turn_and_cancel,
    );
}

#[test]
fn broken_count_of_a_run_that_is_stopped() {
    service_must_fail(
        Fault::JobNotCounted,
        "Causality violation",
        Some(3),
        run_against_stop,
    );
}

#[test]
fn broken_count_of_a_run_that_is_awaited() {
    service_must_fail(
        Fault::JobNotCounted,
        "Causality violation",
        Some(2),
        run_against_cancel_and_wait,
    );
}
