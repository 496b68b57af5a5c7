//! What users of `tokio::time` rely on: `sleep`, `timeout`, `interval`.

use super::{MS, Task, timers};
use std::future::{pending, poll_fn, ready};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use wheelwork::ManualClock;
use wheelwork::Missed;
use wheelwork::future::{Interval, interval, sleep};
use wheelwork::testing;

/// The ticks that are ready now, each as the time from `start` for which it was meant.
fn ticks(task: &std::sync::Arc<Task>, interval: &mut Interval, start: Instant) -> Vec<Duration> {
    std::iter::from_fn(|| match task.with(|context| interval.poll_tick(context)) {
        Poll::Ready(at) => Some(at.duration_since(start)),
        Poll::Pending => None,
    })
    .collect()
}

/// The ticks of a task that polls whenever it was woken, until `end`.
fn ticks_until(clock: &ManualClock, interval: &mut Interval, end: Duration) -> Vec<Duration> {
    let (task, start) = (Task::new(), clock.now() - clock.elapsed());
    let (mut all, mut seen) = (ticks(&task, interval, start), 0);
    loop {
        // It is woken by its timer, or has yielded.
        while task.woken() > seen {
            seen = task.woken();
            all.extend(ticks(&task, interval, start));
        }
        if clock.elapsed() >= end {
            return all;
        }
        clock.advance(MS);
    }
}

#[test]
fn a_sleep_is_over_at_its_deadline_and_not_before() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut sleep = timers.sleep(100 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(99 * MS);
    assert!(task.poll(&mut sleep).is_pending() && !sleep.is_elapsed());
    clock.advance(MS);
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready() && sleep.is_elapsed());
}

#[test]
fn a_sleep_until_a_past_instant_is_over_at_once() {
    let (timers, clock) = timers();
    clock.advance(10 * MS);
    let task = Task::new();
    assert!(task.poll(&mut timers.sleep_until(clock.now())).is_ready());
    assert!(
        task.poll(&mut timers.sleep_until(clock.now() - 5 * MS))
            .is_ready()
    );
    assert!(task.poll(&mut timers.sleep(Duration::ZERO)).is_ready());
}

#[test]
fn a_sleep_of_the_greatest_duration_does_not_overflow() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut sleep = timers.sleep(Duration::MAX);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(Duration::from_secs(100 * 365 * 24 * 3_600));
    assert!(task.poll(&mut sleep).is_pending() && task.woken() == 0);
}

#[test]
fn dropping_a_sleep_cancels_it() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    drop(sleep);
    assert!(timers.handle().is_empty());
    clock.advance(20 * MS);
    assert_eq!(task.woken(), 0);
}

#[test]
fn a_reset_moves_a_sleep_before_and_after_its_end() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    let later = clock.now() + 30 * MS;
    sleep.reset_at(later);
    assert_eq!(sleep.deadline(), later);
    clock.advance(29 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(MS);
    assert!(task.poll(&mut sleep).is_ready());
    sleep.reset(10 * MS);
    assert!(task.poll(&mut sleep).is_pending() && !sleep.is_elapsed());
    clock.advance(10 * MS);
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_timeout_gives_what_the_future_gives_or_an_error() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut quick = pin!(timers.timeout(10 * MS, ready(5)));
    assert_eq!(task.poll(&mut quick), Poll::Ready(Ok(5)));
    let mut slow = pin!(timers.timeout(10 * MS, pending::<()>()));
    assert!(task.poll(&mut slow).is_pending());
    clock.advance(9 * MS);
    assert!(task.poll(&mut slow).is_pending());
    clock.advance(MS);
    let Poll::Ready(Err(elapsed)) = task.poll(&mut slow) else {
        panic!("the time is over");
    };
    assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
}

/// The future is asked first, also when the deadline has passed.
#[test]
fn a_future_that_is_ready_at_the_deadline_wins() {
    let (timers, clock) = timers();
    let task = Task::new();
    let is_open = std::cell::Cell::new(false);
    let gate = poll_fn(|_| {
        if is_open.get() {
            Poll::Ready(1)
        } else {
            Poll::Pending
        }
    });
    let mut timeout = pin!(timers.timeout(10 * MS, gate));
    assert!(task.poll(&mut timeout).is_pending());
    clock.advance(50 * MS);
    is_open.set(true);
    assert_eq!(task.poll(&mut timeout), Poll::Ready(Ok(1)));
    let past = clock.now() - 5 * MS;
    let mut timeout = pin!(timers.timeout_at(past, ready(2)));
    assert_eq!(task.poll(&mut timeout), Poll::Ready(Ok(2)));
    let mut timeout = pin!(timers.timeout_at(past, pending::<()>()));
    assert!(matches!(task.poll(&mut timeout), Poll::Ready(Err(_))));
}

#[test]
fn dropping_a_timeout_drops_its_future_and_its_timer() {
    let (timers, _clock) = timers();
    let task = Task::new();
    let alive = std::sync::Arc::new(());
    let held = alive.clone();
    let future = Box::pin(async move {
        pending::<()>().await;
        drop(held);
    });
    let mut timeout = timers.timeout(10 * MS, future);
    assert!(task.poll(&mut timeout).is_pending());
    assert_eq!(
        (timers.handle().len(), std::sync::Arc::strong_count(&alive)),
        (1, 2)
    );
    drop(timeout);
    assert_eq!(
        (timers.handle().len(), std::sync::Arc::strong_count(&alive)),
        (0, 1)
    );
}

#[test]
fn a_timeout_gives_its_future_back() {
    let (timers, _clock) = timers();
    let timeout = timers.timeout(MS, ready(7));
    assert_eq!(timeout.into_inner().into_inner(), 7);
}

#[test]
fn the_first_tick_comes_at_once_and_the_others_a_period_apart() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS);
    assert_eq!(interval.period(), 10 * MS);
    assert_eq!(
        ticks_until(&clock, &mut interval, 35 * MS),
        [0, 10, 20, 30].map(|ms| MS * ms)
    );
}

#[test]
fn the_first_tick_may_come_later() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS).first(5 * MS);
    assert_eq!(
        ticks_until(&clock, &mut interval, 30 * MS),
        [5, 15, 25].map(|ms| MS * ms)
    );
}

/// The ticks of an interval of 10 ms that nobody polled from 10 ms to 35 ms.
fn missed(missed: Option<Missed>) -> Vec<u32> {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS);
    if let Some(missed) = missed {
        interval = interval.missed(missed);
    }
    let mut all = ticks_until(&clock, &mut interval, 5 * MS);
    clock.advance(30 * MS);
    all.extend(ticks_until(&clock, &mut interval, 70 * MS));
    all.iter().map(|at| at.as_millis() as u32).collect()
}

#[test]
fn a_burst_makes_up_for_all_missed_ticks() {
    assert_eq!(
        missed(Some(Missed::BURST_ALL)),
        [0, 10, 20, 30, 40, 50, 60, 70]
    );
}

#[test]
fn a_delay_begins_anew_from_the_late_tick() {
    assert_eq!(missed(Some(Missed::Delay)), [0, 10, 45, 55, 65]);
}

#[test]
fn a_skip_goes_on_at_the_next_multiple() {
    assert_eq!(missed(Some(Missed::Skip)), [0, 10, 40, 50, 60, 70]);
}

/// A difference: tokio makes up for missed ticks unless it is told otherwise.
#[test]
fn missed_ticks_are_skipped_unless_set() {
    assert_eq!(missed(None), missed(Some(Missed::Skip)));
}

/// A difference: tokio panics.
#[test]
fn a_period_of_zero_is_a_tick() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(Duration::ZERO);
    assert_eq!(
        ticks_until(&clock, &mut interval, 3 * MS),
        [0, 1, 2, 3].map(|ms| MS * ms)
    );
}

#[test]
fn a_reset_starts_a_period_now() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS);
    assert_eq!(ticks_until(&clock, &mut interval, 7 * MS), [Duration::ZERO]);
    interval.reset();
    assert_eq!(
        ticks_until(&clock, &mut interval, 30 * MS),
        [17, 27].map(|ms| MS * ms)
    );
}

/// A tick that nobody waits for to the end stays.
#[test]
fn a_tick_may_be_dropped_and_asked_for_again() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS).first(10 * MS);
    let task = Task::new();
    assert!(task.poll(&mut Box::pin(interval.tick())).is_pending());
    clock.advance(10 * MS);
    let at = task.poll(&mut Box::pin(interval.tick()));
    assert_eq!(at, Poll::Ready(clock.now()));
}

/// A way to move an interval's next tick.
type Move = fn(&mut Interval);

/// The next two ticks of an interval of 100 ms that is moved when its first tick was `idle` ago.
fn moved(idle: Duration, missed: Missed, by: Move) -> [Duration; 2] {
    testing::block_on(async {
        let mut interval = interval(100 * MS).missed(missed);
        interval.tick().await;
        sleep(idle).await;
        by(&mut interval);
        let mut ticks = [Duration::ZERO; 2];
        for tick in &mut ticks {
            interval.tick().await;
            *tick = testing::clock().elapsed() - idle;
        }
        ticks
    })
}

/// Each kind of reset says when the next tick comes. The others follow from there, and ticks that
/// were missed before do not come, whatever the policy.
#[test]
fn a_reset_of_each_kind_moves_the_next_tick_and_those_behind_it() {
    let kinds: [(Move, [u32; 2]); 6] = [
        (Interval::reset, [100, 200]),
        (Interval::reset_immediately, [0, 100]),
        (|interval| interval.reset_after(20 * MS), [20, 120]),
        (|interval| interval.reset_after(Duration::ZERO), [0, 100]),
        (
            |interval| interval.reset_at(testing::clock().now() + 30 * MS),
            [30, 130],
        ),
        (
            |interval| {
                interval.set_period(10 * MS);
                interval.reset();
            },
            [10, 20],
        ),
    ];
    for (number, (by, expected)) in kinds.into_iter().enumerate() {
        for missed in [Missed::Skip, Missed::Delay, Missed::BURST_ALL] {
            for idle in [50, 350] {
                assert_eq!(
                    moved(MS * idle, missed, by),
                    expected.map(|ms| MS * ms),
                    "kind {number}, {missed:?}, after {idle} ms"
                );
            }
        }
    }
}

#[test]
fn an_interval_at_a_time_to_come_begins_there() {
    let (timers, clock) = timers();
    let mut interval = timers.interval_at(clock.now() + 7 * MS, 10 * MS);
    assert_eq!(
        ticks_until(&clock, &mut interval, 30 * MS),
        [7, 17, 27].map(|ms| MS * ms)
    );
}

/// The first tick comes at once, and is the start. What came to pass since then was missed.
#[test]
fn an_interval_at_a_past_time_has_missed_the_ticks_since() {
    for (missed, expected) in [
        (Missed::BURST_ALL, vec![25, 35, 45, 55, 65]),
        (Missed::Skip, vec![25, 55, 65]),
        (Missed::Delay, vec![25, 60, 70]),
    ] {
        let (timers, clock) = timers();
        clock.advance(50 * MS);
        let start = clock.now() - 25 * MS;
        let mut interval = timers.interval_at(start, 10 * MS).missed(missed);
        let ticks = ticks_until(&clock, &mut interval, 70 * MS);
        let expected: Vec<_> = expected.into_iter().map(|ms| MS * ms).collect();
        assert_eq!(ticks, expected, "{missed:?}");
    }
}

/// A reset into the past does the like, for a live interval.
#[test]
fn a_reset_to_a_past_time_is_a_tick_at_once() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS);
    assert_eq!(ticks_until(&clock, &mut interval, 8 * MS), [Duration::ZERO]);
    interval.reset_at(clock.now() - 5 * MS);
    assert_eq!(
        ticks_until(&clock, &mut interval, 30 * MS),
        [3, 13, 23].map(|ms| MS * ms)
    );
}

/// What tokio's interval lacks: the next tick comes when it would have come, and the period counts
/// from there on.
#[test]
fn a_live_interval_may_have_another_period() {
    let (timers, clock) = timers();
    let mut interval = timers.interval(10 * MS);
    assert_eq!(ticks_until(&clock, &mut interval, 7 * MS), [Duration::ZERO]);
    interval.set_period(4 * MS);
    assert_eq!(interval.period(), 4 * MS);
    assert_eq!(
        ticks_until(&clock, &mut interval, 20 * MS),
        [10, 14, 18].map(|ms| MS * ms)
    );
}

/// It counts for the ticks that were missed already.
#[test]
fn the_policy_of_a_live_interval_may_be_changed() {
    for (set, expected) in [
        (Missed::Skip, vec![10, 40, 50]),
        (Missed::Delay, vec![10, 45, 55]),
        (Missed::BURST_ALL, vec![10, 20, 30, 40, 50]),
    ] {
        let (timers, clock) = timers();
        let mut interval = timers.interval(10 * MS).missed(Missed::Burst(0));
        assert_eq!(ticks_until(&clock, &mut interval, 5 * MS), [Duration::ZERO]);
        clock.advance(30 * MS);
        interval.set_missed(set);
        let expected: Vec<_> = expected.into_iter().map(|ms| MS * ms).collect();
        assert_eq!(ticks_until(&clock, &mut interval, 55 * MS), expected);
    }
}
