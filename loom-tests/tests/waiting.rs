//! Timers whose messages wait in their lane: a service, its arming, its shard's turns and its
//! sleeps, with an open deferred track (src/lane/README.md). Cancels have opened the track, as they
//! do outside of a model. The models move the service's clock.

use loom::thread::JoinHandle;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::internals::loom::{
    FOREVER, Fault, Local, attach_to, lanes_of, local_of, move_by, nap_until, next_event,
    pass_time, schedule_by, settle, sleep_until, take_by, take_turn,
};
use wheelwork::{Batch, ManualClock, TimerId, TimerService};
use wheelwork_loom_tests::{Held, explore_service, service_must_fail, spawn};

const TICK: Duration = Duration::from_millis(1);

/// How far ahead of the present a message is that waits, and the tick of its timer in a world that
/// begins at `BEGIN`.
const FAR: Duration = Duration::from_millis(20);
const BEGIN: Duration = Duration::from_millis(10);
const DEADLINE: u64 = 30;

/// When a shard looks for the lanes of threads that have ended.
const LOOK: Duration = Duration::from_millis(400);

/// The time after which a track is closed to which nothing was sent.
const PATIENCE: Duration = Duration::from_millis(64);

/// Timers that are cancelled before a model begins, and so open the lane's deferred track.
const CANCELLED: usize = 3;

/// A service with its clock, and the timers that have fired.
struct World {
    clock: ManualClock,
    service: Held<Arc<TimerService<usize>>>,
    /// The numbers of the timers, and when they have fired.
    fired: Arc<Mutex<Vec<(usize, Duration)>>>,
}

impl World {
    /// A world at this time, and a thread's part of its service, in whose lane messages wait.
    fn open(begin: Duration) -> (Self, Held<Local>) {
        // No two timers share a reading of the clock.
        Self::open_by(begin, TICK)
    }

    /// The same, with this time between the thread's timers.
    fn open_by(begin: Duration, pause: Duration) -> (Self, Held<Local>) {
        let clock = ManualClock::new();
        let fired = Arc::new(Mutex::new(Vec::new()));
        let (noted, at) = (fired.clone(), clock.clone());
        let service = TimerService::builder()
            .clock(clock.clone())
            .tick(TICK)
            .shards(1)
            .on_expire(move |batch: &mut Batch<'_, usize>| {
                let now = at.elapsed();
                noted
                    .lock()
                    .unwrap()
                    .extend(batch.map(|number| (number, now)));
            })
            .start()
            .expect("a manual service starts");
        let world = Self {
            clock,
            service: Held::new(Arc::new(service)),
            fired,
        };
        let mut local = Held::new(local_of(&world.service));
        pass_time(&world.clock, begin - pause * CANCELLED as u32);
        let ids = [(); CANCELLED].map(|()| {
            pass_time(&world.clock, pause);
            world.arm(&mut local, 7, FAR)
        });
        for id in ids {
            assert!(take_by(&world.service, &mut local, id).is_some());
        }
        take_turn(&world.service);
        (world, local)
    }

    /// The same with timer 0, which the shard has seen in the lane.
    fn with_one(begin: Duration) -> (Self, Held<Local>, TimerId) {
        let (world, mut local) = Self::open(begin);
        let id = world.arm(&mut local, 0, FAR);
        take_turn(&world.service);
        assert_eq!(world.waiting(), 1, "it waits in the lane");
        (world, local, id)
    }

    fn arm(&self, local: &mut Local, number: usize, delay: Duration) -> TimerId {
        schedule_by(&self.service, local, delay, number).expect("not stopped")
    }

    /// How many messages are in the lanes.
    fn waiting(&self) -> u64 {
        self.service.stats().shards[0].machinery.lane_depth()
    }

    /// A thread that takes turns of the shard.
    fn turns(&self, turns: usize) -> JoinHandle<()> {
        let service = self.service.clone();
        spawn(move || (0..turns).for_each(|_| _ = take_turn(&service)))
    }

    /// The timers that have fired.
    fn fired(&self) -> Vec<usize> {
        let mut fired: Vec<_> = self.fired.lock().unwrap().iter().map(|&(n, _)| n).collect();
        fired.sort_unstable();
        fired
    }

    /// Lets time pass, tick by tick, until `timers` timers have fired.
    fn fire(&self, timers: usize) {
        for _ in 0..3 * FAR.as_millis() {
            take_turn(&self.service);
            if self.fired().len() >= timers {
                break;
            }
            pass_time(&self.clock, TICK);
        }
        assert!(self.fired().into_iter().eq(0..timers), "each fires once");
    }
}

/// A shard that sleeps without an end unless it finds a message (`sleep_until`), or that takes in
/// what is there, and sleeps for a time (`nap_until`).
unsafe fn sleep_long(service: &TimerService<usize>) {
    // SAFETY: the caller's promise.
    unsafe { sleep_until(service, FOREVER) };
}

unsafe fn nap(service: &TimerService<usize>) {
    // SAFETY: the caller's promise.
    unsafe { nap_until(service, DEADLINE + 1) };
}

/// A shard's thread, which turns and sleeps until it knows of a timer. Returns when it will have
/// something to do.
fn until_it_knows(world: &World, sleep: unsafe fn(&TimerService<usize>)) -> JoinHandle<u64> {
    let service = world.service.clone();
    spawn(move || {
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { attach_to(&service) };
        loop {
            take_turn(&service);
            if let Some(event) = next_event(&service) {
                return event;
            }
            // SAFETY: this thread has attached.
            unsafe { sleep(&service) };
        }
    })
}

/// A timer is armed whose message waits, while the shard falls asleep. The shard sees the message,
/// or is rung: it knows then when it has to take it.
fn armed_while_the_shard_falls_asleep(sleep: unsafe fn(&TimerService<usize>)) {
    let (world, mut local) = World::open(BEGIN);
    let shard = until_it_knows(&world, sleep);
    world.arm(&mut local, 0, FAR);
    // A unit of the key before.
    assert_eq!(shard.join().unwrap(), DEADLINE - 1);
    assert_eq!(world.waiting(), 1, "it waits in the lane");
    pass_time(&world.clock, FAR);
    take_turn(&world.service);
    assert_eq!(world.fired(), [0]);
}

fn armed_while_the_shard_begins_a_long_sleep() {
    armed_while_the_shard_falls_asleep(sleep_long);
}

fn armed_while_the_shard_begins_a_nap() {
    armed_while_the_shard_falls_asleep(nap);
}

/// The same while the shard closes the track, since nothing has come for long. The message may be
/// in the closed track.
fn armed_while_the_track_is_closed() {
    let (world, mut local) = World::open(BEGIN);
    pass_time(&world.clock, PATIENCE);
    let shard = until_it_knows(&world, sleep_long);
    world.arm(&mut local, 0, FAR);
    shard.join().unwrap();
    world.fire(1);
    assert_eq!(world.clock.elapsed(), BEGIN + PATIENCE + FAR);
}

/// A timer is cancelled while the shard takes it, because it is due, and falls asleep. Another one
/// is armed then, in the same cell or in another one, and is due at once.
fn cancelled_while_it_is_due() {
    let (world, mut local, id) = World::with_one(BEGIN);
    pass_time(&world.clock, FAR);
    let (service, fired) = (world.service.clone(), world.fired.clone());
    let shard = spawn(move || {
        // SAFETY: once, before the waits below; no other thread waits.
        unsafe { attach_to(&service) };
        loop {
            take_turn(&service);
            if fired.lock().unwrap().iter().any(|&(number, _)| number == 1) {
                return;
            }
            // SAFETY: this thread has attached.
            unsafe { sleep_until(&service, FOREVER) };
        }
    });
    let mut outcomes: Vec<_> = take_by(&world.service, &mut local, id)
        .into_iter()
        .collect();
    world.arm(&mut local, 1, Duration::ZERO);
    shard.join().unwrap();
    outcomes.extend(world.fired());
    assert_eq!(outcomes, [0, 1], "every timer has one outcome");
}

/// A timer is cancelled while the shard takes it, which is a tick before it is due. Nothing is left
/// of it.
fn cancelled_while_it_is_taken() {
    let (world, mut local, id) = World::with_one(BEGIN);
    pass_time(&world.clock, FAR - TICK);
    let shard = world.turns(1);
    let taken = take_by(&world.service, &mut local, id);
    assert_eq!(taken, Some(0), "it is not due");
    shard.join().unwrap();
    take_turn(&world.service);
    settle(&world.service);
    let stats = world.service.stats();
    assert_eq!(
        (
            next_event(&world.service),
            stats.shards[0].machinery.figure("holes").unwrap()
        ),
        (None, 0),
        "nothing of it is left"
    );
    pass_time(&world.clock, FAR);
    take_turn(&world.service);
    assert_eq!((world.fired(), world.waiting()), (vec![], 0));
}

/// A timer is moved to sooner while its message waits, or the shard takes it: another one of its
/// segment is due.
fn moved_while_it_is_taken() {
    let delay = 2 * TICK;
    let (world, mut local, id) = World::with_one(BEGIN);
    world.arm(&mut local, 1, FAR - 4 * TICK);
    take_turn(&world.service);
    assert_eq!(world.waiting(), 2, "it waits in the lane, too");
    pass_time(&world.clock, FAR - 5 * TICK);
    let shard = world.turns(1);
    assert!(
        move_by(&world.service, &mut local, id, delay),
        "it is not due"
    );
    shard.join().unwrap();
    world.fire(2);
    let fired = world.fired.lock().unwrap().clone();
    let begin = BEGIN + FAR - 5 * TICK;
    assert_eq!(
        fired,
        [(1, begin + TICK), (0, begin + delay)],
        "they fire then"
    );
    settle(&world.service);
    let stats = world.service.stats();
    assert_eq!(
        (
            next_event(&world.service),
            stats.shards[0].machinery.figure("holes").unwrap()
        ),
        (None, 0),
        "nothing of it is left"
    );
}

/// Two timers share a reading of the clock, and their thread is held up between them. Their
/// messages wait.
fn held_up_between_two() {
    let (world, mut local) = World::open_by(BEGIN, Duration::ZERO);
    let shard = world.turns(1);
    // By a reading at the beginning of a tick, and the slack, that is a whole tick.
    let delay = FAR - TICK / 128;
    world.arm(&mut local, 0, delay);
    pass_time(&world.clock, 5 * TICK);
    let not_before = world.clock.elapsed() + delay;
    world.arm(&mut local, 1, delay);
    world.arm(&mut local, 2, delay);
    shard.join().unwrap();
    world.fire(3);
    for &(number, at) in world.fired.lock().unwrap().iter() {
        assert!(number == 0 || at >= not_before, "fired early: {number}");
    }
}

/// The service stops while a message waits that is due, and another one comes. The shard takes
/// turns meanwhile.
fn stopped_while_messages_wait(turns: usize) {
    let (world, mut local, _) = World::with_one(BEGIN);
    pass_time(&world.clock, FAR);
    let shard = world.turns(turns);
    let service = world.service.clone();
    let stopper = spawn(move || {
        let unfired = service.stop();
        unfired.into_iter().map(|unfired| unfired.payload).collect()
    });
    let refused = schedule_by(&world.service, &mut local, FAR, 1).is_err();
    let mut outcomes: Vec<usize> = stopper.join().unwrap();
    outcomes.extend(refused.then_some(1));
    shard.join().unwrap();
    assert!(!take_turn(&world.service), "it has stopped");
    outcomes.extend(world.fired());
    outcomes.sort_unstable();
    assert_eq!(outcomes, [0, 1], "every timer has one outcome");
    let timers = world.service.stats().timers;
    assert_eq!(
        (timers.pending, timers.fired + timers.handed_back),
        (0, 2 - u64::from(refused)),
        "every timer is counted once"
    );
}

fn stopped() {
    stopped_while_messages_wait(0);
}

fn stopped_while_the_shard_turns() {
    stopped_while_messages_wait(1);
}

/// A thread ends while messages of it wait, and the shard looks for lanes to free. The next thread
/// cancels one of its timers. The other one fires, and the lane is freed after that.
fn left_by_its_thread() {
    let (world, mut local) = World::open(LOOK - TICK);
    pass_time(&world.clock, TICK);
    let shard = world.turns(2);
    let id = world.arm(&mut local, 0, FAR);
    world.arm(&mut local, 1, FAR);
    drop(local);
    let mut next = Held::new(local_of(&world.service));
    let taken = take_by(&world.service, &mut next, id);
    assert_eq!(taken, Some(0), "it is not due");
    drop(next);
    shard.join().unwrap();
    pass_time(&world.clock, FAR);
    take_turn(&world.service);
    take_turn(&world.service);
    assert_eq!(world.fired(), [1], "one fires");
    pass_time(&world.clock, LOOK);
    (0..4).for_each(|_| _ = take_turn(&world.service));
    pass_time(&world.clock, LOOK);
    (0..4).for_each(|_| _ = take_turn(&world.service));
    assert_eq!(lanes_of(&world.service), 0, "it is freed");
}

#[test]
fn a_shard_that_sleeps_long_knows_what_waits() {
    explore_service(Some(4), armed_while_the_shard_begins_a_long_sleep);
}

#[test]
fn a_shard_that_naps_knows_what_waits() {
    explore_service(Some(4), armed_while_the_shard_begins_a_nap);
}

#[test]
fn a_shard_that_closes_a_track_knows_what_comes() {
    explore_service(None, armed_while_the_track_is_closed);
}

#[test]
fn what_waits_is_moved_sooner() {
    explore_service(None, moved_while_it_is_taken);
}

#[test]
fn what_waits_and_shares_a_reading_is_not_early() {
    explore_service(Some(2), held_up_between_two);
}

#[test]
fn what_waits_fires_or_is_cancelled() {
    explore_service(Some(3), cancelled_while_it_is_due);
}

#[test]
fn of_what_was_recalled_nothing_is_left() {
    explore_service(None, cancelled_while_it_is_taken);
}

#[test]
fn what_waits_has_one_outcome_when_the_service_stops() {
    explore_service(Some(3), stopped);
}

#[test]
fn the_same_while_the_shard_turns() {
    explore_service(Some(3), stopped_while_the_shard_turns);
}

#[test]
fn what_waits_outlives_its_thread() {
    explore_service(Some(2), left_by_its_thread);
}

#[test]
fn broken_look_at_what_waits() {
    service_must_fail(
        Fault::LaneUnseenIgnored,
        "deadlock",
        Some(2),
        armed_while_the_shard_begins_a_long_sleep,
    );
}

#[test]
fn broken_ring_for_what_waits() {
    service_must_fail(
        Fault::DoorbellNoRingFence,
        "deadlock",
        Some(2),
        armed_while_the_shard_begins_a_nap,
    );
}

#[test]
fn broken_key_of_what_waits() {
    service_must_fail(
        Fault::LaneKeyForgotten,
        "deadlock",
        Some(2),
        armed_while_the_shard_begins_a_nap,
    );
}

#[test]
fn broken_claim_of_what_waits() {
    service_must_fail(
        Fault::ClaimNotAtomic,
        "every timer has one outcome",
        Some(2),
        cancelled_while_it_is_due,
    );
}

#[test]
fn broken_recall_of_what_waits() {
    service_must_fail(
        Fault::LaneNoRecallFence,
        "nothing of it is left",
        Some(3),
        cancelled_while_it_is_taken,
    );
}

#[test]
fn broken_settling_of_what_waits() {
    service_must_fail(
        Fault::LaneUnsureSkipped,
        "nothing of it is left",
        Some(3),
        cancelled_while_it_is_taken,
    );
}

#[test]
fn broken_stop_while_messages_wait() {
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

#[test]
fn broken_end_of_a_lane_of_which_messages_wait() {
    service_must_fail(
        Fault::LaneEndWaiting,
        "one fires",
        Some(2),
        left_by_its_thread,
    );
}

#[test]
fn broken_look_at_a_closed_track() {
    service_must_fail(
        Fault::LaneUnseenIgnored,
        "deadlock",
        Some(2),
        armed_while_the_track_is_closed,
    );
}

#[test]
fn broken_publishing_of_a_move() {
    service_must_fail(
        Fault::LanePublishRelaxed,
        "Causality violation",
        Some(2),
        moved_while_it_is_taken,
    );
}

#[test]
fn broken_vouching_for_what_waits() {
    service_must_fail(
        Fault::ReadingVouchesBlindly,
        "fired early",
        Some(2),
        held_up_between_two,
    );
}

#[test]
fn broken_claim_of_what_is_recalled() {
    service_must_fail(
        Fault::LaneNoDrainFence,
        "nothing of it is left",
        None,
        cancelled_while_it_is_taken,
    );
}
