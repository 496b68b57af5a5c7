//! Timers that share a reading of the clock: src/engine/README.md, ShareCheck to ShareFile, by the
//! service itself, its arming and its shard's turns, on a clock of the model's. Two timers share a
//! reading here. A timer's payload says before which time it must not fire.

use loom::thread::JoinHandle;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::internals::loom::{
    Fault, Local, attach_to, drained, local_of, move_by, pass_time, schedule_by, sleep_until,
    take_by, take_turn,
};
use wheelwork::{Batch, ManualClock, ScheduleError, TimerId, TimerService};
use wheelwork_loom_tests::{Held, explore_service, service_must_fail, spawn};

const TICK: Duration = Duration::from_millis(1);

/// By a reading at the beginning of a tick, and the slack, that is a whole tick: nothing is rounded
/// up, which would make up for a late arming.
const DELAY: Duration = Duration::from_nanos(3_000_000 - 1_000_000 / 128);

/// What passes between two armings of a thread that is held up.
const PAUSE: Duration = Duration::from_millis(5);

/// Ticks by which all have fired that were armed in time, or late by a pause.
const TICKS: usize = 12;

type Service = Held<Arc<TimerService<Timer>>>;

/// A number, and the time before which it must not fire.
#[derive(Clone, Copy, Debug)]
struct Timer {
    number: usize,
    not_before: Duration,
}

/// A service with its clock, and what has fired, when.
struct World {
    clock: ManualClock,
    service: Service,
    fired: Arc<Mutex<Vec<(Timer, Duration)>>>,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        pass_time(&clock, TICK);
        let fired = Arc::new(Mutex::new(Vec::new()));
        let (noted, at) = (fired.clone(), clock.clone());
        let builder = TimerService::builder()
            .clock(clock.clone())
            .tick(TICK)
            .shards(1);
        let note = move |batch: &mut Batch<'_, Timer>| {
            let now = at.elapsed();
            noted
                .lock()
                .unwrap()
                .extend(batch.map(|timer| (timer, now)));
        };
        Self {
            clock,
            service: Held::new(Arc::new(
                builder
                    .on_expire(note)
                    .start()
                    .expect("a manual service starts"),
            )),
            fired,
        }
    }

    /// Arms a timer, `delay` from now on.
    fn try_arm(
        &self,
        local: &mut Local,
        number: usize,
        delay: Duration,
    ) -> Result<TimerId, ScheduleError<Timer>> {
        let timer = Timer {
            number,
            not_before: self.clock.elapsed() + delay,
        };
        schedule_by(&self.service, local, delay, timer)
    }

    fn arm(&self, local: &mut Local, number: usize) -> TimerId {
        self.try_arm(local, number, DELAY).expect("not stopped")
    }

    /// A thread's part of the service, which has armed timers 0 and 1 so quickly that the next ones
    /// share a reading.
    fn quick_local(&self) -> Held<Local> {
        let mut local = Held::new(local_of(&self.service));
        (0..2).for_each(|number| _ = self.arm(&mut local, number));
        local
    }

    /// The same, after a pair of a timer and its cancel, which has the shard let timers be
    /// recalled.
    fn quick_local_with_recalls(&self) -> Held<Local> {
        let mut local = Held::new(local_of(&self.service));
        let id = self.arm(&mut local, 7);
        assert!(take_by(&self.service, &mut local, id).is_some());
        take_turn(&self.service);
        let id = self.arm(&mut local, 7);
        take_turn(&self.service);
        assert!(take_by(&self.service, &mut local, id).is_some());
        (0..2).for_each(|number| _ = self.arm(&mut local, number));
        local
    }

    /// A thread that takes turns of the shard.
    fn turns(&self, turns: usize) -> JoinHandle<()> {
        let service = self.service.clone();
        spawn(move || (0..turns).for_each(|_| _ = take_turn(&service)))
    }

    /// Lets time pass, tick by tick, until `timers` timers have fired; each has, once, and not
    /// early.
    fn end(&self, timers: usize) {
        let fired = || self.fired.lock().unwrap();
        // From here on it is the beginning of a tick.
        let now_ns = self.clock.elapsed().as_nanos() as u64;
        pass_time(
            &self.clock,
            Duration::from_nanos(now_ns.next_multiple_of(1_000_000) - now_ns),
        );
        for _ in 0..TICKS {
            take_turn(&self.service);
            if fired().len() >= timers {
                break;
            }
            pass_time(&self.clock, TICK);
        }
        for (timer, at) in fired().iter() {
            assert!(
                *at >= timer.not_before,
                "fired early: {} at {at:?}, not before {:?}",
                timer.number,
                timer.not_before
            );
        }
        let mut numbers: Vec<_> = fired().iter().map(|(timer, _)| timer.number).collect();
        numbers.sort_unstable();
        assert!(
            numbers.iter().copied().eq(0..timers),
            "each fires once: {numbers:?}"
        );
    }
}

/// A thread that is held up between two that share a reading, and reads the clock then.
fn held_up_between_two() {
    let world = World::new();
    let mut local = world.quick_local();
    let shard = world.turns(1);
    world.arm(&mut local, 2);
    pass_time(&world.clock, PAUSE);
    world.arm(&mut local, 3);
    world.arm(&mut local, 4);
    shard.join().unwrap();
    world.end(5);
}

/// Both were armed a little late, for which the rounding of the second one makes up, and that of
/// the first one does not.
fn held_up_before_two() {
    let world = World::new();
    let mut local = world.quick_local();
    let shard = world.turns(1);
    pass_time(&world.clock, TICK / 4);
    world.arm(&mut local, 2);
    world
        .try_arm(&mut local, 3, DELAY - TICK / 2)
        .expect("not stopped");
    world.arm(&mut local, 4);
    shard.join().unwrap();
    world.end(5);
}

/// A thread that arms a timer late by its reading, and ends. The next one, which has its lane,
/// reads the clock so quickly that it shares a reading of its own.
fn left_before_the_next_reading() {
    let world = World::new();
    let mut local = world.quick_local();
    let shard = world.turns(1);
    pass_time(&world.clock, PAUSE);
    world.arm(&mut local, 2);
    drop(local);
    let mut next = Held::new(local_of(&world.service));
    (3..6).for_each(|number| _ = world.arm(&mut next, number));
    shard.join().unwrap();
    world.end(6);
}

/// A timer that was armed late by a shared reading is cancelled in its lane, or after the shard has
/// filed it later than its cell says; another one is armed in its cell.
fn cancelled_in_doubt() {
    let world = World::new();
    let mut local = world.quick_local_with_recalls();
    let shard = world.turns(1);
    pass_time(&world.clock, PAUSE);
    let id = world.arm(&mut local, 7);
    assert!(
        take_by(&world.service, &mut local, id).is_some(),
        "it is not due"
    );
    world.arm(&mut local, 2);
    shard.join().unwrap();
    world.end(3);
}

/// A timer that was armed late by a shared reading is moved while the shard files it, later (by a
/// lag) or sooner (filed anew): it is not early by either.
fn moved_in_doubt(first: Duration, delay: Duration) {
    let world = World::new();
    let mut local = world.quick_local();
    let shard = world.turns(1);
    pass_time(&world.clock, PAUSE);
    let timer = Timer {
        number: 2,
        not_before: world.clock.elapsed() + delay,
    };
    let id = schedule_by(&world.service, &mut local, first, timer).expect("not stopped");
    assert!(
        move_by(&world.service, &mut local, id, delay),
        "it is not due"
    );
    shard.join().unwrap();
    world.end(3);
}

/// The shard may fall asleep while a timer is armed. By a reading of its own it is due before the
/// shard wakes by itself; if it shares one it is not, and the shard is woken all the same: it has
/// to see how late the timer is.
fn while_the_shard_falls_asleep() {
    let world = World::new();
    let mut local = world.quick_local();
    take_turn(&world.service);
    // A reading is shared while something waits in the lane: once more.
    (2..4).for_each(|number| _ = world.arm(&mut local, number));
    let service = world.service.clone();
    let shard = spawn(move || {
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { attach_to(&service) };
        loop {
            take_turn(&service);
            if drained(&service) == 5 {
                return;
            }
            // SAFETY: this thread has attached.
            unsafe { sleep_until(&service, 3) };
        }
    });
    world.try_arm(&mut local, 4, TICK).expect("not stopped");
    shard.join().unwrap();
}

/// The service stops between a timer that was armed late by a shared reading and the reading that
/// would settle it; a turn of the shard may be in progress.
fn stopped_before_the_next_reading(turns: usize) {
    let world = World::new();
    let mut local = world.quick_local();
    let shard = world.turns(turns);
    let service = world.service.clone();
    let stopper = spawn(move || {
        service
            .stop()
            .into_iter()
            .map(|unfired| unfired.payload.number)
            .collect::<Vec<_>>()
    });
    pass_time(&world.clock, PAUSE);
    let refused = (2..5).filter(|&number| world.try_arm(&mut local, number, DELAY).is_err());
    let mut outcomes: Vec<_> = refused.collect();
    outcomes.extend(stopper.join().unwrap());
    shard.join().unwrap();
    assert!(!take_turn(&world.service), "it has stopped");
    outcomes.extend(
        world
            .fired
            .lock()
            .unwrap()
            .iter()
            .map(|(timer, _)| timer.number),
    );
    outcomes.sort_unstable();
    assert_eq!(outcomes, [0, 1, 2, 3, 4], "every timer has one outcome");
}

fn stopped() {
    stopped_before_the_next_reading(0);
}

fn stopped_while_the_shard_turns() {
    stopped_before_the_next_reading(1);
}

#[test]
fn what_shares_a_reading_is_not_early() {
    explore_service(Some(2), held_up_between_two);
}

#[test]
fn the_least_of_those_that_share_a_reading_decides() {
    explore_service(Some(2), held_up_before_two);
}

#[test]
fn what_an_ended_thread_left_in_doubt_is_not_early() {
    explore_service(Some(2), left_before_the_next_reading);
}

#[test]
fn what_is_in_doubt_is_cancelled_once() {
    explore_service(Some(2), cancelled_in_doubt);
}

fn moved_later_in_doubt() {
    moved_in_doubt(DELAY, DELAY + 3 * TICK);
}

fn moved_sooner_in_doubt() {
    moved_in_doubt(DELAY + 8 * TICK, DELAY - TICK);
}

#[test]
fn what_is_in_doubt_is_moved_later() {
    explore_service(Some(2), moved_later_in_doubt);
}

#[test]
fn what_is_in_doubt_is_moved_sooner() {
    explore_service(Some(2), moved_sooner_in_doubt);
}

#[test]
fn broken_publishing_of_a_move() {
    service_must_fail(
        Fault::LanePublishRelaxed,
        "Causality violation",
        Some(2),
        moved_sooner_in_doubt,
    );
}

#[test]
fn broken_cancel_in_doubt() {
    service_must_fail(
        Fault::DoubtReadTooEarly,
        "it is not due",
        Some(2),
        cancelled_in_doubt,
    );
}

#[test]
fn broken_move_in_doubt() {
    service_must_fail(
        Fault::ClaimIgnoresDeadline,
        "fired early",
        Some(2),
        moved_later_in_doubt,
    );
}

#[test]
fn a_shard_that_falls_asleep_is_woken_for_a_doubt() {
    explore_service(Some(2), while_the_shard_falls_asleep);
}

#[test]
fn what_shares_a_reading_has_one_outcome_when_the_service_stops() {
    explore_service(Some(2), stopped);
}

#[test]
fn the_same_while_the_shard_turns() {
    explore_service(Some(1), stopped_while_the_shard_turns);
}

#[test]
fn broken_vouching() {
    service_must_fail(
        Fault::ReadingVouchesBlindly,
        "fired early",
        Some(2),
        held_up_between_two,
    );
}

#[test]
fn broken_reading_of_the_shard() {
    service_must_fail(
        Fault::DoubtReadTooEarly,
        "fired early",
        Some(2),
        held_up_between_two,
    );
}

#[test]
fn broken_least_of_those_that_share() {
    service_must_fail(
        Fault::ReadingForgetsOthers,
        "fired early",
        Some(2),
        held_up_before_two,
    );
}

#[test]
fn broken_vouching_of_the_next_thread() {
    service_must_fail(
        Fault::ReadingVouchesBlindly,
        "fired early",
        Some(2),
        left_before_the_next_reading,
    );
}

#[test]
fn broken_ring_for_a_doubt() {
    service_must_fail(
        Fault::DoubtWaits,
        "deadlock",
        Some(2),
        while_the_shard_falls_asleep,
    );
}

#[test]
fn broken_stop() {
    service_must_fail(
        Fault::StopNotSeenAfterArm,
        "every timer has one outcome",
        Some(2),
        stopped,
    );
}

#[test]
fn broken_stop_while_the_shard_turns() {
    service_must_fail(
        Fault::StopNotSeenAfterArm,
        "every timer has one outcome",
        Some(1),
        stopped_while_the_shard_turns,
    );
}
