//! Promise: an interval keeps its rate, whatever is done to it: ticks return the times for which
//! they were meant, come when these have come, and wake the task that waits for them, though the
//! interval is moved meanwhile.

use crate::tasks::{MS, Task, armed, manual};
use futures_lite::future::block_on;
use proptest::prelude::*;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wheelwork::future::{Interval, Timers, interval_at};
use wheelwork::{ManualClock, Missed, TimerService};

#[test]
fn an_interval_keeps_its_rate() {
    let (timers, clock) = manual();
    let task = Task::new();
    let start = clock.now();
    let tick = |interval: &mut Interval| {
        interval
            .poll_tick(&mut Context::from_waker(&task.waker))
            .map(|at| at - start)
    };
    let mut interval = timers.interval(10 * MS);
    assert_eq!(tick(&mut interval), Poll::Ready(Duration::ZERO), "at once");
    for tick_number in 1..1_000 {
        assert_eq!(tick(&mut interval), Poll::Pending);
        clock.advance(10 * MS);
        assert_eq!(task.woken(), tick_number as usize);
        assert_eq!(
            tick(&mut interval),
            Poll::Ready(10 * tick_number * MS),
            "no drift"
        );
    }
    // Three are missed: 10,000, 10,010 and 10,020 ms.
    clock.advance(35 * MS);
    let now = clock.now() - start;
    assert_eq!(
        (tick(&mut interval), tick(&mut interval)),
        (Poll::Ready(now - 25 * MS), Poll::Pending)
    );
    clock.advance(5 * MS);
    assert_eq!(tick(&mut interval), Poll::Ready(now + 5 * MS));
    let mut burst = timers
        .interval(10 * MS)
        .first(10 * MS)
        .missed(Missed::Burst(2));
    let from = clock.now() - start;
    assert_eq!(tick(&mut burst), Poll::Pending);
    clock.advance(35 * MS);
    assert_eq!(
        (tick(&mut burst), tick(&mut burst)),
        (Poll::Ready(from + 10 * MS), Poll::Ready(from + 20 * MS))
    );
    assert_eq!(
        (tick(&mut burst), tick(&mut burst)),
        (Poll::Ready(from + 30 * MS), Poll::Pending)
    );
    burst.reset();
    clock.advance(9 * MS);
    assert_eq!(tick(&mut burst), Poll::Pending);
    clock.advance(MS);
    assert_eq!(tick(&mut burst), Poll::Ready(from + 45 * MS));
}

#[test]
fn the_first_tick_comes_at_once() {
    let timers = Timers::start(TimerService::builder().shards(1)).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut late = 0;
    for _ in 0..1_000 {
        late += u32::from(
            timers
                .interval(10 * MS)
                .poll_tick(&mut context)
                .is_pending(),
        );
        late += u32::from(
            timers
                .interval(10 * MS)
                .first(Duration::ZERO)
                .poll_tick(&mut context)
                .is_pending(),
        );
    }
    assert_eq!((late, armed(&timers)), (0, 0));
}

/// The most ticks that are given one after the other, in `polls` polls. Each poll is followed by
/// `step` of time.
fn in_a_row(
    interval: &mut Interval,
    clock: &ManualClock,
    polls: usize,
    step: Duration,
) -> (usize, usize) {
    let task = Task::new();
    let (mut row, mut longest, mut ticks) = (0, 0, 0);
    for _ in 0..polls {
        let woken = task.woken();
        if interval
            .poll_tick(&mut Context::from_waker(&task.waker))
            .is_ready()
        {
            (row, ticks) = (row + 1, ticks + 1);
            longest = longest.max(row);
            clock.advance(step);
        } else {
            row = 0;
            if task.woken() == woken {
                // Not in order to yield.
                clock.advance(MS);
            }
        }
    }
    (longest, ticks)
}

#[test]
fn a_loop_over_ticks_yields() {
    for period in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
    ] {
        let (timers, clock) = manual();
        let mut interval = timers.interval(period);
        assert_eq!(interval.period(), MS, "as good as a tick");
        // The first one, then one a tick, whatever the phase.
        assert_eq!(in_a_row(&mut interval, &clock, 1, Duration::ZERO), (1, 1));
        for missed in [Missed::Skip, Missed::Delay, Missed::Burst(u32::MAX)] {
            let mut interval = timers.interval(period).missed(missed);
            let start = clock.now();
            let (longest, ticks) = in_a_row(&mut interval, &clock, 1_000, Duration::ZERO);
            assert_eq!((longest, ticks, clock.now() - start), (1, 500, 500 * MS));
        }
        // A body that takes longer than the period.
        let mut interval = timers.interval(period);
        assert!(in_a_row(&mut interval, &clock, 1_000, 10 * MS).0 <= 4);
        // A million ticks to make up for.
        let mut interval = timers.interval(period).missed(Missed::Burst(u32::MAX));
        assert_eq!(in_a_row(&mut interval, &clock, 1, 1_000_000 * MS), (1, 1));
        let (longest, ticks) = in_a_row(&mut interval, &clock, 1_500_000, Duration::ZERO);
        assert!(
            longest <= 4 && ticks >= 1_000_000,
            "{ticks}, {longest} in a row"
        );
    }
}

#[test]
fn a_tick_that_is_late_by_a_rounding_is_not_missed() {
    for phase_us in [0, 1, 500, 999] {
        let (timers, clock) = manual();
        clock.advance(Duration::from_micros(phase_us));
        let start = clock.now();
        let mut interval = timers.interval(MS);
        let mut tick = || interval.poll_tick(&mut Context::from_waker(Waker::noop()));
        assert_eq!(tick(), Poll::Ready(start));
        // The task gets to each 300 us after the service's tick.
        clock.advance(Duration::from_micros(1_300 - phase_us));
        let mut number = 0;
        for _ in 0..400 {
            if let Poll::Ready(at) = tick() {
                number += 1;
                assert_eq!(at, start + number * MS, "{phase_us} us: some were skipped");
                assert_eq!(tick(), Poll::Pending, "{phase_us} us: two in one tick");
            }
            clock.advance(MS);
        }
        assert!(number >= 399, "{phase_us} us: {number} of 400");
    }
}

#[test]
fn an_interval_keeps_its_rate_on_a_clock_that_runs_on_in_suspension() {
    let period = Duration::from_micros(150);
    let Ok(timers) = Timers::start(
        TimerService::builder()
            .shards(1)
            .tick(period)
            .boot_time(true),
    ) else {
        return;
    };
    block_on(async {
        let mut interval = timers.interval(period);
        let first = interval.tick().await;
        for _ in 0..200 {
            let since = interval.tick().await - first;
            assert_eq!(since.as_nanos() % period.as_nanos(), 0, "{since:?}");
        }
    });
}

/// Moves an interval, at this time.
type Move = fn(&mut Interval, Instant);

/// How long after the call the next tick comes.
const MOVES: [(Move, Duration); 6] = [
    (|interval, _| interval.reset(), Duration::from_millis(10)),
    (|interval, _| interval.reset_immediately(), Duration::ZERO),
    (
        |interval, _| interval.reset_after(3 * MS),
        Duration::from_millis(3),
    ),
    (
        |interval, _| interval.reset_after(25 * MS),
        Duration::from_millis(25),
    ),
    (
        |interval, now| interval.reset_at(now + 4 * MS),
        Duration::from_millis(4),
    ),
    (|interval, now| interval.reset_at(now), Duration::ZERO),
];

#[test]
fn a_reset_moves_the_next_tick_and_wakes_the_task_then() {
    for (number, (reset, delay)) in MOVES.into_iter().enumerate() {
        // Nobody waits; a task waits; its tick has come, and was not taken.
        for waited in [None, Some(6 * MS), Some(12 * MS)] {
            let (timers, clock) = manual();
            let task = Task::new();
            let mut interval = timers.interval(10 * MS).missed(Missed::Burst(9));
            let mut context = task.context();
            assert!(interval.poll_tick(&mut context).is_ready());
            if let Some(waited) = waited {
                assert!(interval.poll_tick(&mut context).is_pending());
                clock.advance(waited);
            }
            let woken = usize::from(waited == Some(12 * MS));
            assert_eq!(task.woken(), woken);
            let now = clock.now();
            reset(&mut interval, now);
            let waits = waited == Some(6 * MS);
            if delay.is_zero() {
                let woken = woken + usize::from(waits);
                assert_eq!(task.woken(), woken, "move {number}: at once");
                assert_eq!(interval.poll_tick(&mut context), Poll::Ready(now));
            } else {
                if !waits {
                    assert!(interval.poll_tick(&mut context).is_pending());
                }
                clock.advance(delay - MS);
                assert_eq!(task.woken(), woken, "move {number}: early");
                clock.advance(MS);
                assert_eq!(task.woken(), woken + 1, "move {number}");
                assert_eq!(interval.poll_tick(&mut context), Poll::Ready(now + delay));
            }
            // The others follow a period apart. None is made up for.
            assert!(interval.poll_tick(&mut context).is_pending());
            clock.advance(10 * MS);
            let next = now + delay + 10 * MS;
            assert_eq!(interval.poll_tick(&mut context), Poll::Ready(next));
            drop(interval);
            assert!(timers.handle().is_empty());
        }
    }
}

#[test]
fn a_start_in_the_past_is_the_first_tick_and_gives_the_phase() {
    // 2 ms after the clock's origin, and 3 s after it: the start is before the origin, or not.
    for since_origin in [2 * MS, 3_000 * MS] {
        for (missed, second) in [
            (Missed::Skip, 30 * MS),
            (Missed::Delay, 35 * MS),
            (Missed::Burst(9), 10 * MS),
            (Missed::Burst(1), 20 * MS),
        ] {
            for moved in [false, true] {
                let (timers, clock) = manual();
                clock.advance(since_origin);
                let start = clock.now() - 25 * MS;
                let mut interval = if moved {
                    timers.interval(10 * MS).missed(missed)
                } else {
                    timers.interval_at(start, 10 * MS).missed(missed)
                };
                let task = Task::new();
                let tick = |interval: &mut Interval| interval.poll_tick(&mut task.context());
                if moved {
                    assert!(tick(&mut interval).is_ready() && tick(&mut interval).is_pending());
                    interval.reset_at(start);
                    assert_eq!(task.woken(), 1, "it has passed");
                }
                assert_eq!(tick(&mut interval), Poll::Ready(start), "{missed:?}");
                clock.advance((start + second).saturating_duration_since(clock.now()));
                assert_eq!(
                    tick(&mut interval),
                    Poll::Ready(start + second),
                    "{missed:?}"
                );
            }
        }
    }
    // With the shared service, and a start before it had a clock.
    let start = Instant::now() - Duration::from_secs(1);
    let mut interval = interval_at(start, Duration::from_secs(3_600));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(interval.poll_tick(&mut context), Poll::Ready(start));
    assert!(interval.poll_tick(&mut context).is_pending());
}

#[test]
fn a_start_in_the_future_is_waited_for() {
    let (timers, clock) = manual();
    let task = Task::new();
    let start = clock.now() + 7 * MS;
    let mut interval = timers.interval_at(start, 10 * MS);
    assert!(interval.poll_tick(&mut task.context()).is_pending());
    clock.advance(6 * MS);
    assert_eq!(task.woken(), 0);
    clock.advance(MS);
    assert_eq!(interval.poll_tick(&mut task.context()), Poll::Ready(start));
    assert!(interval.poll_tick(&mut task.context()).is_pending());
    clock.advance(10 * MS);
    let next = Poll::Ready(start + 10 * MS);
    assert_eq!(
        (interval.poll_tick(&mut task.context()), task.woken()),
        (next, 2)
    );
}

#[test]
fn a_new_period_counts_from_the_next_tick() {
    struct Heart {
        beats: Interval,
    }
    let (timers, clock) = manual();
    let (task, start) = (Task::new(), clock.now());
    let mut heart = Heart {
        beats: timers.interval(10 * MS),
    };
    let beat = |heart: &mut Heart| {
        let beat = heart.beats.poll_tick(&mut task.context());
        beat.map(|at| at - start)
    };
    assert_eq!(beat(&mut heart), Poll::Ready(Duration::ZERO));
    assert_eq!(beat(&mut heart), Poll::Pending);
    heart.beats.set_period(4 * MS);
    assert_eq!(heart.beats.period(), 4 * MS);
    for at in [10, 14, 18] {
        clock.advance(start + at * MS - clock.now() - MS);
        assert_eq!(beat(&mut heart), Poll::Pending, "{at}");
        clock.advance(MS);
        assert_eq!(beat(&mut heart), Poll::Ready(at * MS));
    }
    // With a reset from now on.
    assert_eq!(beat(&mut heart), Poll::Pending);
    let woken = task.woken();
    heart.beats.set_period(100 * MS);
    heart.beats.reset();
    clock.advance(99 * MS);
    assert_eq!((task.woken(), beat(&mut heart)), (woken, Poll::Pending));
    clock.advance(MS);
    assert_eq!(
        (task.woken(), beat(&mut heart)),
        (woken + 1, Poll::Ready(118 * MS))
    );
    // As good as a tick.
    heart.beats.set_period(Duration::ZERO);
    assert_eq!(heart.beats.period(), MS);
    // So may the policy be changed.
    clock.advance(130 * MS);
    heart.beats.set_missed(Missed::Burst(1));
    assert_eq!(beat(&mut heart), Poll::Ready(218 * MS));
    assert_eq!(beat(&mut heart), Poll::Ready(248 * MS));
    heart.beats.set_missed(Missed::Skip);
    clock.advance(50 * MS);
    assert_eq!(beat(&mut heart), Poll::Ready(249 * MS));
    assert_eq!(beat(&mut heart), Poll::Pending);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Poll,
    Advance(u64),
    Reset,
    ResetAfter(u64),
    /// Before or after now.
    ResetAt(i64),
    SetPeriod(u64),
    SetMissed(u32),
}

/// All in microseconds.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Poll),
        6 => (0u64..20_000).prop_map(Step::Advance),
        1 => Just(Step::Reset),
        2 => (0u64..20_000).prop_map(Step::ResetAfter),
        2 => (-40_000i64..20_000).prop_map(Step::ResetAt),
        1 => (1_000u64..15_000).prop_map(Step::SetPeriod),
        1 => (0u32..6).prop_map(Step::SetMissed),
    ]
}

/// An interval as it should be, in microseconds since the clock's origin.
struct Model {
    at: i64,
    /// When the tick may be given.
    until: i64,
    /// Whether a timer is armed for it, which fires at a tick of the service.
    is_armed: bool,
    period: i64,
    missed: Missed,
}

impl Model {
    fn is_due(&self, now: i64) -> bool {
        let armed_for = (self.until + 999).div_euclid(1_000) * 1_000;
        now >= if self.is_armed { armed_for } else { self.until }
    }

    fn move_to(&mut self, at: i64, now: i64) {
        self.is_armed &= !self.is_due(now) && at > now;
        (self.at, self.until) = (at, at);
    }

    fn give(&mut self, now: i64) -> i64 {
        let (given, begun) = (self.at, now / 1_000 * 1_000);
        let missed = (begun - given).max(0) / self.period;
        self.at += match self.missed {
            Missed::Delay if missed > 0 => now + self.period - given,
            Missed::Skip => (missed + 1) * self.period,
            Missed::Burst(most) => (1 + (missed - i64::from(most)).max(0)) * self.period,
            _ => self.period,
        };
        self.until = if self.at <= begun {
            self.at
        } else {
            (self.at.max(now + 1) + 999) / 1_000 * 1_000
        };
        self.is_armed = false;
        given
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn does_what_a_model_does(steps in prop::collection::vec(step(), 1..200)) {
        let (timers, clock) = manual();
        let (origin, task) = (clock.now(), Task::new());
        let instant = |at: i64| match u64::try_from(at) {
            Ok(at) => origin + Duration::from_micros(at),
            Err(_) => origin - Duration::from_micros(at.unsigned_abs()),
        };
        let mut interval = timers.interval(5 * MS);
        let mut model = Model { at: 0, until: 0, period: 5_000, missed: Missed::Skip, is_armed: false };
        let (mut now, mut in_a_row, mut woken_before) = (0, 0, None);
        for step in steps {
            match step {
                Step::Poll => {
                    let before = task.woken();
                    let tick = interval.poll_tick(&mut task.context());
                    let is_due = model.is_due(now);
                    let is_ready = is_due && in_a_row < 4;
                    model.is_armed |= !is_due;
                    let expected = is_ready.then(|| model.give(now)).map(instant);
                    prop_assert_eq!(tick, expected.map_or(Poll::Pending, Poll::Ready));
                    in_a_row = if is_ready { in_a_row + 1 } else { 0 };
                    woken_before = (!is_ready).then_some(before);
                }
                Step::Advance(time) => {
                    clock.advance(Duration::from_micros(time));
                    now += time as i64;
                }
                Step::Reset => {
                    interval.reset();
                    model.move_to(now + model.period, now);
                }
                Step::ResetAfter(delay) => {
                    interval.reset_after(Duration::from_micros(delay));
                    model.move_to(now + delay as i64, now);
                }
                Step::ResetAt(off) => {
                    interval.reset_at(instant(now + off));
                    model.move_to(now + off, now);
                }
                Step::SetPeriod(period) => {
                    interval.set_period(Duration::from_micros(period));
                    model.period = period as i64;
                }
                Step::SetMissed(which) => {
                    model.missed = match which {
                        0 => Missed::Skip,
                        1 => Missed::Delay,
                        most => Missed::Burst(most - 2),
                    };
                    interval.set_missed(model.missed);
                }
            }
            if let Some(before) = woken_before.filter(|_| model.is_due(now)) {
                prop_assert!(task.woken() > before, "its tick has come, and nobody is woken");
            }
            prop_assert!(timers.handle().len() <= 1);
        }
    }
}
