//! Calls: what a thread pays for each call, and a shard's turn for what the calls send. The service
//! is on a manual clock, so this thread does it all.

use crate::count::{Count, OPERATIONS, counted};
use fastrand::Rng;
use std::hint::black_box;
use std::time::Duration;
use wheelwork::{Dispatch, ManualClock, TimerId, TimerService};

pub(crate) const COUNTS: &[Count] = &[
    Count::new("arm", arm),
    Count::new("arm_and_cancel", arm_and_cancel),
    Count::new("arm_and_recall", arm_and_recall),
    Count::new("arm_and_cancel_closure", arm_and_cancel_closure),
    Count::new("window", window),
    Count::new("cancel", cancel),
    Count::new("take", take),
    Count::new("reschedule_later", || reschedule(LATER)),
    Count::new("reschedule_earlier", || reschedule(EARLIER)),
    Count::new("schedule_many", schedule_many),
    Count::new("cancel_many", cancel_many),
    Count::new("reschedule_many", reschedule_many),
    Count::new("turn_of_inserts", turn_of_inserts),
    Count::new("turn_of_pairs", turn_of_pairs),
    Count::new("turn_of_recalled", turn_of_recalled),
    Count::new("fire_at_once", fire_at_once),
    Count::new("fire_spread", fire_spread),
    Count::new("run_periodic", run_periodic),
];

/// So that `LATER` is a move for which no message is sent.
const TICK: Duration = Duration::from_millis(1);

/// The delay of a request's timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Before all that are armed.
const EARLIER: Duration = Duration::from_millis(500);

/// After all that are armed, and by less than 262,144 ticks.
const LATER: Duration = Duration::from_secs(62);

/// Timers in flight.
const WINDOW: usize = 1_000;

/// Timers in one call.
const BATCH: usize = 1_000;

struct Bench {
    clock: ManualClock,
    service: TimerService<u64>,
    rng: Rng,
}

impl Bench {
    /// A service in which as many timers as will be counted were armed and cancelled before.
    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = TimerService::builder()
            .tick(TICK)
            .shards(1)
            .clock(clock.clone());
        let service = builder
            .on_expire(|batch| batch.for_each(|payload| _ = black_box(payload)))
            .start()
            .expect("the settings are right");
        let mut bench = Self {
            clock,
            service,
            rng: Rng::with_seed(1),
        };
        let ids = bench.armed();
        bench.service.cancel_many(ids);
        bench.turn();
        bench
    }

    /// Uniform from 1 s to 60 s.
    fn delays(&mut self) -> Vec<Duration> {
        (0..OPERATIONS)
            .map(|_| Duration::from_millis(self.rng.u64(1_000..60_000)))
            .collect()
    }

    /// Timers with such delays, in the wheel.
    fn armed(&mut self) -> Vec<TimerId> {
        let ids = self
            .delays()
            .into_iter()
            .map(|delay| self.arm(delay))
            .collect();
        self.turn();
        ids
    }

    /// The same, in random order.
    fn shuffled(&mut self) -> Vec<TimerId> {
        let mut ids = self.armed();
        self.rng.shuffle(&mut ids);
        ids
    }

    /// One whose inserts can be recalled: after pairs in two turns.
    fn recalling() -> Self {
        let bench = Self::new();
        for _ in 0..2 {
            bench.pairs();
            bench.turn();
        }
        bench
    }

    fn pairs(&self) {
        (0..OPERATIONS).for_each(|_| assert!(self.service.cancel(self.arm(TIMEOUT))));
    }

    /// Inlined, as a caller's one call would be.
    #[inline(always)]
    fn arm(&self, delay: Duration) -> TimerId {
        self.service.schedule(delay, 0u64).expect("there is room")
    }

    /// Drains the lane.
    fn turn(&self) {
        self.clock.advance(Duration::ZERO);
    }
}

fn arm() {
    let mut bench = Bench::new();
    let delays = bench.delays();
    counted(|| {
        delays
            .iter()
            .for_each(|&delay| _ = black_box(bench.arm(delay)))
    });
}

fn arm_and_cancel() {
    let bench = Bench::new();
    counted(|| bench.pairs());
}

/// The same once the shard lets inserts be recalled.
fn arm_and_recall() {
    let bench = Bench::recalling();
    counted(|| bench.pairs());
    assert_eq!(
        bench
            .service
            .stats()
            .sum(|shard| shard.machinery.lane_depth()),
        OPERATIONS as u64
    );
}

fn arm_and_cancel_closure() {
    let service = TimerService::builder()
        .shards(1)
        .clock(ManualClock::new())
        .start()
        .expect("the settings are right");
    let pairs = |pairs| {
        (0..pairs).for_each(|number: usize| {
            let id = service
                .schedule(TIMEOUT, move || _ = black_box(number))
                .expect("there is room");
            assert!(service.cancel(id));
        });
    };
    pairs(1);
    counted(|| pairs(OPERATIONS));
}

/// A cancel 1,000 timers after its arm.
fn window() {
    let bench = Bench::new();
    let mut ids: Vec<_> = (0..WINDOW).map(|_| bench.arm(TIMEOUT)).collect();
    counted(|| {
        (0..OPERATIONS).for_each(|step| {
            let oldest = std::mem::replace(&mut ids[step % WINDOW], bench.arm(TIMEOUT));
            assert!(bench.service.cancel(oldest));
        });
    });
}

fn cancel() {
    let mut bench = Bench::new();
    let ids = bench.shuffled();
    counted(|| ids.iter().for_each(|&id| assert!(bench.service.cancel(id))));
}

fn take() {
    let mut bench = Bench::new();
    let ids = bench.shuffled();
    counted(|| {
        ids.iter()
            .for_each(|&id| assert!(bench.service.take(id).is_some()))
    });
}

/// Moves timers once each.
fn reschedule(delay: Duration) {
    let mut bench = Bench::new();
    let ids = bench.shuffled();
    counted(|| {
        ids.iter()
            .for_each(|&id| assert!(bench.service.reschedule(id, delay)))
    });
}

fn schedule_many() {
    let mut bench = Bench::new();
    let delays = bench.delays();
    counted(|| {
        delays.chunks(BATCH).for_each(|delays| {
            let armed = bench
                .service
                .schedule_many(delays.iter().map(|&delay| (delay, 0u64)));
            assert!(armed.iter().all(Result::is_ok));
        });
    });
}

fn cancel_many() {
    let mut bench = Bench::new();
    let ids = bench.shuffled();
    counted(|| {
        ids.chunks(BATCH)
            .for_each(|ids| assert_eq!(bench.service.cancel_many(ids.iter().copied()), ids.len()))
    });
}

/// To a later deadline.
fn reschedule_many() {
    let mut bench = Bench::new();
    let ids = bench.shuffled();
    counted(|| {
        ids.chunks(BATCH).for_each(|ids| {
            assert_eq!(
                bench.service.reschedule_many(ids.iter().copied(), LATER),
                ids.len()
            )
        })
    });
}

/// What a shard pays for an insert that stays.
fn turn_of_inserts() {
    let mut bench = Bench::new();
    bench
        .delays()
        .into_iter()
        .for_each(|delay| _ = bench.arm(delay));
    counted(|| bench.turn());
}

/// What a shard pays for a timer that was armed and cancelled since its last turn.
fn turn_of_pairs() {
    let bench = Bench::new();
    bench.pairs();
    counted(|| bench.turn());
}

/// The same for one that was recalled.
fn turn_of_recalled() {
    let bench = Bench::recalling();
    bench.pairs();
    counted(|| bench.turn());
}

/// Timers of one tick, from the wheel to the handler.
fn fire_at_once() {
    let bench = Bench::new();
    let delay = Duration::from_millis(1);
    (0..OPERATIONS).for_each(|_| _ = bench.arm(delay));
    bench.turn();
    counted(|| bench.clock.advance(delay));
    assert!(bench.service.is_empty());
}

/// Timers of a minute, with the turns and cascades on the way.
fn fire_spread() {
    let mut bench = Bench::new();
    bench.armed();
    counted(|| bench.clock.advance(Duration::from_secs(60)));
    assert!(bench.service.is_empty());
}

/// Runs of periodic timers that are due together, in jobs as those of a pool: from the wheel to the
/// message that files the next run.
fn run_periodic() {
    let (clock, period) = (ManualClock::new(), Duration::from_secs(1));
    let builder = TimerService::builder().shards(1).clock(clock.clone());
    let service = builder
        .dispatch(Dispatch::executor(|job| job()))
        .start()
        .expect("the settings are right");
    for number in 0..OPERATIONS {
        let mut runs = number;
        let run = move || runs = black_box(runs + 1);
        service.every(period).start(run).expect("there is room");
    }
    // Buffers, and the lane of the thread.
    clock.advance(period);
    counted(|| clock.advance(period));
    let runs = service.stats().timers.runs;
    assert_eq!(runs, 2 * OPERATIONS as u64);
}
