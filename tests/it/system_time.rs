//! Promise: a sleep, a time limit and the runs of a calendar follow the system's clock, wherever it
//! is set. None is ready while the clock shows an earlier time, and none stays behind.

use crate::tasks::{MS, Task, armed, manual};
use futures_core::FusedStream;
use proptest::prelude::*;
use std::future::{pending, ready};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wheelwork::calendar::{Calendar, Missed};
use wheelwork::future::{CalendarRuns, Timers, calendar_runs, sleep, sleep_until_system_time};
use wheelwork::{TimerService, testing};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn at(time: Duration) -> SystemTime {
    UNIX_EPOCH + time
}

#[test]
fn a_sleep_is_ready_when_the_clock_shows_its_time() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(at(10 * HOUR));
    assert_eq!(sleep.deadline(), at(10 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(10 * HOUR - MS);
    assert!(task.woken() == 0 && !sleep.is_elapsed());
    clock.advance(MS);
    assert!(task.woken() == 1 && sleep.is_elapsed());
    assert!(task.poll(&mut sleep).is_ready() && task.poll(&mut sleep).is_ready());
    assert_eq!(armed(&timers), 1, "nothing looks in vain on a manual clock");
    // A time that has passed.
    let mut sleep = timers.sleep_until_system_time(at(HOUR));
    assert!(task.poll(&mut sleep).is_ready());
    assert_eq!(armed(&timers), 1);
}

#[test]
fn a_sleep_follows_a_clock_that_is_set() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(at(10 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    // Forward: it is nearer now.
    clock.set_system_time(at(9 * HOUR));
    clock.advance(HOUR - MS);
    assert!(task.poll(&mut sleep).is_pending());
    // Back.
    clock.set_system_time(at(HOUR));
    clock.advance(2 * HOUR);
    assert!(task.poll(&mut sleep).is_pending());
    // Past its time.
    clock.set_system_time(at(11 * HOUR));
    let woken = task.woken();
    clock.advance(MS);
    assert_eq!(task.woken(), woken + 1);
    assert!(task.poll(&mut sleep).is_ready());
    // It was over once.
    clock.set_system_time(at(HOUR));
    assert!(task.poll(&mut sleep).is_ready() && sleep.is_elapsed());
    assert!(timers.handle().is_empty());
}

/// Whenever the task polls: before the turn that brings the look forward, too.
#[test]
fn a_poll_sees_a_clock_that_was_set_just_before() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(at(10 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    clock.set_system_time(at(10 * HOUR));
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleep_can_be_moved() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(at(10 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    sleep.reset_at(at(HOUR));
    clock.advance(HOUR);
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut sleep).is_ready());
    sleep.reset_at(at(3 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    sleep.reset_at(at(4 * HOUR));
    clock.set_system_time(at(4 * HOUR) - 5 * MS);
    clock.advance(5 * MS);
    assert!(task.poll(&mut sleep).is_ready());
    sleep.reset_at(at(50 * HOUR));
    assert!(task.poll(&mut sleep).is_pending());
    let woken = task.woken();
    sleep.reset_at(at(HOUR));
    assert_eq!(task.woken(), woken + 1, "at once");
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_time_limit_follows_a_clock_that_is_set() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut done = timers.timeout_at_system_time(at(HOUR), ready(5));
    assert_eq!(task.poll(&mut done), Poll::Ready(Ok(5)));
    assert_eq!(armed(&timers), 0);
    let mut hangs = timers.timeout_at_system_time(at(HOUR), pending::<()>());
    assert!(task.poll(&mut hangs).is_pending());
    clock.set_system_time(at(2 * HOUR));
    clock.advance(MS);
    assert_eq!(task.woken(), 1);
    assert!(matches!(task.poll(&mut hangs), Poll::Ready(Err(_))));
}

/// By the system's clock, of which nobody tells: at least once a minute.
#[test]
fn a_real_clock_is_looked_at_once_a_minute() {
    let timers = Timers::start(TimerService::builder().shards(1)).unwrap();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(timers.handle().system_time() + DAY);
    let every_day = Calendar::daily(12, 0).unwrap().zone("UTC").unwrap();
    let mut runs = timers.calendar_runs(every_day);
    assert!(task.poll(&mut sleep).is_pending());
    assert!(next(&mut runs, &task).is_pending());
    let looks: Vec<_> = timers.handle().pending(0).collect();
    assert_eq!(looks.len(), 2);
    let most = Duration::from_secs(60) + 2 * MS;
    assert!(looks.iter().all(|(_, left)| *left <= most), "{looks:?}");
    drop((sleep, runs));
    assert!(timers.handle().is_empty());
}

/// Sets the clock while another thread polls.
#[test]
fn a_clock_that_is_set_while_a_sleep_is_polled_is_noticed() {
    for round in 0..300 {
        let (timers, clock) = manual();
        let task = Task::new();
        let mut sleep = timers.sleep_until_system_time(at(10 * HOUR));
        std::thread::scope(|scope| {
            scope.spawn(|| clock.set_system_time(at(10 * HOUR)));
            if task.poll(&mut sleep).is_ready() {
                assert_eq!(clock.system_time(), at(10 * HOUR));
            }
        });
        if !sleep.is_elapsed() || task.poll(&mut Watched(&mut sleep)).is_pending() {
            panic!("{round}: it does not see the time");
        }
        // Without a further poll: the task is woken.
        let mut sleep = timers.sleep_until_system_time(at(20 * HOUR));
        let mut was_ready = false;
        std::thread::scope(|scope| {
            scope.spawn(|| clock.set_system_time(at(20 * HOUR)));
            was_ready = task.poll(&mut sleep).is_ready();
        });
        clock.advance(MS);
        assert!(was_ready || task.woken() > 0, "{round}: it is not woken");
    }
}

/// A future by reference.
struct Watched<'a, F>(&'a mut F);

impl<F: Future + Unpin> Future for Watched<'_, F> {
    type Output = F::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<F::Output> {
        std::pin::Pin::new(&mut *self.0).poll(context)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The task polls only when it is woken. Time passes, and the clock is set.
    #[test]
    fn a_sleep_is_never_early_and_never_left_behind(
        steps in prop::collection::vec((0..3_u8, 0..2_000_u64), 1..60),
        until in 1..3_000_u64,
    ) {
        let (timers, clock) = manual();
        let task = Task::new();
        let until = at(Duration::from_micros(until * 100));
        let mut sleep = timers.sleep_until_system_time(until);
        let mut is_ready = task.poll(&mut sleep).is_ready();
        let mut polled = task.woken();
        for (kind, time) in steps {
            let time = Duration::from_micros(time * 100);
            match kind {
                0 => clock.set_system_time(at(time)),
                _ => clock.advance(time),
            }
            if task.woken() > polled && !is_ready {
                polled = task.woken();
                is_ready = task.poll(&mut sleep).is_ready();
                prop_assert!(!is_ready || clock.system_time() >= until, "early");
            }
        }
        // It may wait for a tick at which it sees the time.
        let is_past = clock.system_time() >= until;
        clock.advance(MS);
        prop_assert!(is_ready || !is_past || task.woken() > polled, "left behind");
    }
}

/// The next run, if it has come.
fn next(runs: &mut CalendarRuns, task: &Task) -> Poll<Option<SystemTime>> {
    let mut next = Box::pin(runs.next());
    task.poll(&mut next)
}

/// A time that a clock never shows: 292 years are the end of a service's time.
#[test]
fn a_wait_beyond_the_end_of_time_does_not_end() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep_until_system_time(at(1_000 * 366 * DAY));
    let yearly = Calendar::cron("0 0 1 1 *").unwrap().zone("UTC").unwrap();
    let mut runs = timers.calendar_runs(yearly);
    assert!(task.poll(&mut sleep).is_pending());
    assert!(next(&mut runs, &task).is_pending());
    clock.advance(Duration::MAX);
    for _ in 0..3 {
        assert!(task.poll(&mut sleep).is_pending());
    }
    // The run of the year in which time has ended, as all others are missed.
    assert!(next(&mut runs, &task).is_ready());
    assert!(next(&mut runs, &task).is_pending());

    // Nor does it keep a test from its end.
    testing::block_on(async {
        let (send, receive) = smol::channel::bounded(1);
        std::thread::spawn(move || send.send_blocking("the answer"));
        let far = at(1_000 * 366 * DAY);
        let answer = wheelwork::future::timeout_at_system_time(far, receive.recv());
        assert_eq!(answer.await, Ok(Ok("the answer")));
    });
}

#[test]
fn runs_come_at_the_times_of_the_calendar() {
    testing::block_on(async {
        let nine = Calendar::daily(9, 0)
            .unwrap()
            .zone("Europe/Berlin")
            .unwrap();
        let expected: Vec<_> = nine.after(UNIX_EPOCH).take(400).collect();
        let mut runs = calendar_runs(nine);
        for time in expected {
            assert_eq!(runs.next().await, Some(time));
            assert_eq!(testing::clock().system_time(), time);
        }
    });
}

#[test]
fn runs_follow_a_clock_that_is_set() {
    let (timers, clock) = manual();
    let task = Task::new();
    let nine = Calendar::daily(9, 0).unwrap().zone("UTC").unwrap();
    let mut runs = timers.calendar_runs(nine);
    assert!(next(&mut runs, &task).is_pending());
    // Forward, past a run.
    clock.set_system_time(at(10 * HOUR));
    clock.advance(MS);
    assert_eq!(task.woken(), 1);
    assert_eq!(next(&mut runs, &task), Poll::Ready(Some(at(9 * HOUR))));
    assert!(next(&mut runs, &task).is_pending());
    // Back by an hour or two: the run is not made again.
    clock.set_system_time(at(8 * HOUR));
    clock.advance(2 * HOUR);
    assert!(next(&mut runs, &task).is_pending());
    // Back by more: the clock was wrong before.
    clock.set_system_time(at(5 * HOUR));
    clock.advance(MS);
    assert!(next(&mut runs, &task).is_pending());
    clock.advance(4 * HOUR);
    assert_eq!(next(&mut runs, &task), Poll::Ready(Some(at(9 * HOUR))));
    assert!(next(&mut runs, &task).is_pending());
    clock.advance(DAY);
    assert_eq!(
        next(&mut runs, &task),
        Poll::Ready(Some(at(DAY + 9 * HOUR)))
    );
    drop(runs);
    assert!(timers.handle().is_empty());
}

#[test]
fn a_task_that_takes_long_misses_runs_by_the_calendar_s_policy() {
    for (missed, expected) in [
        (Missed::Once, vec![1, 2, 5, 6]),
        (Missed::Burst(2), vec![1, 2, 3, 5]),
        (Missed::BURST_ALL, vec![1, 2, 3, 4]),
        (Missed::SkipAfter(HOUR / 2), vec![1, 5, 6, 7]),
    ] {
        testing::block_on(async {
            let hourly = Calendar::cron("0 * * * *").unwrap().zone("UTC").unwrap();
            let mut runs = calendar_runs(hourly.missed(missed));
            let mut made = Vec::new();
            for run in 0..4 {
                let time = runs.next().await.unwrap();
                made.push(time.duration_since(UNIX_EPOCH).unwrap().as_secs() / 3_600);
                if run == 0 {
                    // Until a quarter to five.
                    sleep(HOUR * 15 / 4).await;
                }
            }
            assert_eq!(made, expected, "{missed:?}");
        });
    }
}

#[test]
fn a_stream_of_runs_ends_with_its_calendar() {
    let (timers, clock) = manual();
    let task = Task::new();
    let once = Calendar::cron("0 0 9 1 1 * 1970")
        .unwrap()
        .zone("UTC")
        .unwrap();
    let mut runs = timers.calendar_runs(once);
    assert!(next(&mut runs, &task).is_pending());
    clock.advance(9 * HOUR);
    assert_eq!(next(&mut runs, &task), Poll::Ready(Some(at(9 * HOUR))));
    assert!(!runs.is_terminated());
    assert_eq!(next(&mut runs, &task), Poll::Ready(None));
    assert_eq!(next(&mut runs, &task), Poll::Ready(None));
    assert!(runs.is_terminated());
}

#[test]
fn they_run_by_the_real_clock() {
    smol::block_on(async {
        let until = SystemTime::now() + 5 * MS;
        sleep_until_system_time(until).await;
        assert!(SystemTime::now() >= until);
        let every_second = Calendar::cron("* * * * * *").unwrap();
        let mut runs = calendar_runs(every_second);
        let run = runs.next().await.unwrap();
        assert!(SystemTime::now() >= run);
    });
}
