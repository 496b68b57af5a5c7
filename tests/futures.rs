//! Promise: futures wait for their timers under any runtime, are never early, are woken once, and
//! leave nothing behind.

use futures_lite::StreamExt;
use futures_lite::future::block_on;
use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::future::{
    DelayQueue, Sleep, Timers, interval, sleep, sleep_until, timeout, timeout_at,
};
use wheelwork::{ManualClock, Missed, TimerService};

const MS: Duration = Duration::from_millis(1);

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A task of the test's own.
struct Task {
    count: Arc<Count>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let count = Arc::new(Count::default());
        Self {
            waker: count.clone().into(),
            count,
        }
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker))
    }

    fn woken(&self) -> usize {
        self.count.0.load(SeqCst)
    }
}

fn manual() -> (Timers, ManualClock) {
    let clock = ManualClock::new();
    (
        Timers::start(TimerService::builder().shards(1).clock(clock.clone())).unwrap(),
        clock,
    )
}

fn armed(timers: &Timers) -> u64 {
    timers.handle().stats().timers.armed
}

#[test]
fn a_sleep_arms_at_its_first_poll_and_wakes_once() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    assert_eq!((timers.handle().len(), sleep.is_elapsed()), (0, false));
    for _ in 0..3 {
        assert_eq!(task.poll(&mut sleep), Poll::Pending);
        assert_eq!(timers.handle().len(), 1);
    }
    clock.advance(9 * MS);
    assert_eq!((task.poll(&mut sleep), task.woken()), (Poll::Pending, 0));
    clock.advance(MS);
    assert_eq!((task.woken(), sleep.is_elapsed()), (1, true));
    for _ in 0..2 {
        assert_eq!(task.poll(&mut sleep), Poll::Ready(()));
    }
    clock.advance(100 * MS);
    assert_eq!(
        (task.woken(), timers.handle().len(), armed(&timers)),
        (1, 0, 1)
    );
}

#[test]
fn one_whose_time_has_come_arms_nothing() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut late = timers.sleep(5 * MS);
    clock.advance(5 * MS);
    assert!(late.is_elapsed());
    for sleep in [
        &mut late,
        &mut timers.sleep(Duration::ZERO),
        &mut timers.sleep_until(clock.now() - 3 * MS),
    ] {
        assert_eq!(task.poll(sleep), Poll::Ready(()));
    }
    assert_eq!((armed(&timers), task.woken()), (0, 0));
}

#[test]
fn dropping_cancels() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleeps: Vec<Sleep> = (1..=100).map(|ms| timers.sleep(ms * MS)).collect();
    sleeps
        .iter_mut()
        .for_each(|sleep| assert!(task.poll(sleep).is_pending()));
    assert_eq!(
        (timers.handle().len(), Arc::strong_count(&task.count)),
        (100, 102)
    );
    sleeps.truncate(50);
    assert_eq!(
        (timers.handle().len(), Arc::strong_count(&task.count)),
        (50, 52)
    );
    clock.advance(200 * MS);
    drop(sleeps);
    assert_eq!(
        (
            timers.handle().len(),
            Arc::strong_count(&task.count),
            task.woken()
        ),
        (0, 2, 50)
    );
}

#[test]
fn the_last_waker_is_woken_and_no_other() {
    let (timers, clock) = manual();
    let (first, second) = (Task::new(), Task::new());
    let mut sleep = timers.sleep(10 * MS);
    assert!(first.poll(&mut sleep).is_pending() && second.poll(&mut sleep).is_pending());
    assert_eq!(timers.handle().len(), 1);
    assert!(first.poll(&mut sleep).is_pending() && second.poll(&mut sleep).is_pending());
    clock.advance(10 * MS);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert!(first.poll(&mut sleep).is_ready(), "whoever asks");
    // The time comes between two polls with different wakers.
    let mut sleep = timers.sleep(10 * MS);
    assert!(first.poll(&mut sleep).is_pending());
    clock.advance(10 * MS);
    assert!(second.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleep_is_moved_and_used_again() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    sleep.reset(20 * MS);
    assert_eq!(
        (sleep.deadline(), timers.handle().len()),
        (clock.now() + 20 * MS, 0)
    );
    assert!(task.poll(&mut sleep).is_pending());
    // Later, without a poll.
    sleep.reset(50 * MS);
    clock.advance(49 * MS);
    assert_eq!(task.woken(), 0);
    // Earlier, too.
    sleep.reset(100 * MS);
    sleep.reset(2 * MS);
    clock.advance(2 * MS);
    assert_eq!((task.woken(), task.poll(&mut sleep)), (1, Poll::Ready(())));
    // Again.
    sleep.reset_at(clock.now() + 5 * MS);
    assert!(!sleep.is_elapsed() && task.poll(&mut sleep).is_pending());
    clock.advance(5 * MS);
    assert_eq!((task.woken(), task.poll(&mut sleep)), (2, Poll::Ready(())));
    // It has fired, and nobody has looked.
    sleep.reset(5 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(5 * MS);
    sleep.reset(5 * MS);
    assert!(task.poll(&mut sleep).is_pending());
    clock.advance(5 * MS);
    assert!(task.poll(&mut sleep).is_ready());
}

#[test]
fn a_sleep_that_is_moved_to_the_past_is_over_at_once() {
    let (timers, clock) = manual();
    // Between two ticks, and before any time that the clock knows.
    clock.advance(Duration::from_micros(5_500));
    let now = clock.now();
    for at in [
        now,
        now - Duration::from_micros(100),
        now - 5 * MS,
        now - Duration::from_secs(3_600),
    ] {
        let task = Task::new();
        let mut sleep = timers.sleep(10 * MS);
        sleep.reset_at(at);
        assert_eq!(
            (sleep.is_elapsed(), task.poll(&mut sleep)),
            (true, Poll::Ready(())),
            "not polled before"
        );
        let mut sleep = timers.sleep(10 * MS);
        assert!(task.poll(&mut sleep).is_pending());
        sleep.reset_at(at);
        assert_eq!(
            (task.woken(), sleep.is_elapsed(), task.poll(&mut sleep)),
            (1, true, Poll::Ready(())),
            "polled before"
        );
        // Again, and not into the past.
        sleep.reset(10 * MS);
        assert!(task.poll(&mut sleep).is_pending());
        sleep.reset_at(at);
        sleep.reset(10 * MS);
        assert_eq!(
            (task.woken(), sleep.is_elapsed(), task.poll(&mut sleep)),
            (2, false, Poll::Pending)
        );
        sleep.reset(Duration::ZERO);
        assert_eq!(
            (task.woken(), sleep.is_elapsed(), task.poll(&mut sleep)),
            (3, true, Poll::Ready(()))
        );
        drop(sleep);
        assert_eq!(
            (timers.handle().len(), Arc::strong_count(&task.count)),
            (0, 2)
        );
    }
}

#[test]
fn a_queue_s_values_of_the_past_come_at_once() {
    let (timers, clock) = manual();
    clock.advance(Duration::from_micros(5_500));
    let now = clock.now();
    for at in [
        now,
        now - Duration::from_micros(100),
        now - 5 * MS,
        now - Duration::from_secs(3_600),
    ] {
        let task = Task::new();
        let mut queue = timers.delay_queue();
        let expired =
            |queue: &mut DelayQueue<u32>| queue.poll_expired(&mut Context::from_waker(&task.waker));
        queue.insert_at(1, at);
        assert_eq!(
            expired(&mut queue),
            Poll::Ready(Some(1)),
            "nobody has waited"
        );
        let later = queue.insert(2, 10 * MS);
        assert_eq!(expired(&mut queue), Poll::Pending);
        queue.insert_at(3, at);
        assert_eq!(
            (task.woken(), expired(&mut queue)),
            (1, Poll::Ready(Some(3))),
            "somebody waits"
        );
        assert_eq!(expired(&mut queue), Poll::Pending);
        assert!(queue.reset_at(later, at));
        assert_eq!(
            (task.woken(), expired(&mut queue)),
            (2, Poll::Ready(Some(2)))
        );
        assert_eq!(expired(&mut queue), Poll::Ready(None));
    }
}

#[test]
fn a_full_service_is_asked_again() {
    let clock = ManualClock::new();
    let timers = Timers::start(
        TimerService::builder()
            .shards(1)
            .clock(clock.clone())
            .max_pending(1),
    )
    .unwrap();
    let (task, other) = (Task::new(), Task::new());
    let (mut first, mut second) = (timers.sleep(5 * MS), timers.sleep(5 * MS));
    assert!(task.poll(&mut first).is_pending() && other.poll(&mut second).is_pending());
    assert_eq!(
        (task.woken(), other.woken()),
        (0, 1),
        "at once, to try again"
    );
    drop(first);
    assert!(other.poll(&mut second).is_pending());
    clock.advance(5 * MS);
    assert_eq!(
        (other.woken(), other.poll(&mut second)),
        (2, Poll::Ready(()))
    );
}

#[test]
fn a_timeout_gives_so_much_time() {
    let (timers, clock) = manual();
    let task = Task::new();
    assert_eq!(
        task.poll(&mut timers.timeout(Duration::ZERO, ready(5))),
        Poll::Ready(Ok(5))
    );
    assert_eq!(armed(&timers), 0, "one that is ready costs no timer");
    let mut over = Box::pin(timers.timeout(10 * MS, pending::<()>()));
    assert!(task.poll(&mut over).is_pending());
    clock.advance(9 * MS);
    assert!(task.poll(&mut over).is_pending());
    clock.advance(MS);
    assert!(task.woken() == 1 && matches!(task.poll(&mut over), Poll::Ready(Err(_))));
    // The future comes first.
    let mut inner = Box::pin(timers.timeout_at(clock.now() + 10 * MS, timers.sleep(3 * MS)));
    assert!(task.poll(&mut inner).is_pending());
    clock.advance(3 * MS);
    assert_eq!(task.poll(&mut inner), Poll::Ready(Ok(())));
    drop(inner);
    assert!(timers.handle().is_empty());
}

#[test]
fn an_interval_keeps_its_rate() {
    let (timers, clock) = manual();
    let task = Task::new();
    let start = clock.now();
    let tick = |interval: &mut wheelwork::future::Interval| {
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
    interval: &mut wheelwork::future::Interval,
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
            .boottime(true),
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

#[test]
fn values_come_when_their_time_has_come() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut queue = timers.delay_queue();
    let expired =
        |queue: &mut DelayQueue<u32>| queue.poll_expired(&mut Context::from_waker(&task.waker));
    assert_eq!(expired(&mut queue), Poll::Ready(None));
    let far = queue.insert(1, 60_000 * MS);
    let gone = queue.insert(2, 50 * MS);
    assert_eq!(expired(&mut queue), Poll::Pending);
    // One that comes before what is waited for wakes the task in time.
    queue.insert(3, 20 * MS);
    clock.advance(19 * MS);
    assert_eq!((task.woken(), expired(&mut queue)), (0, Poll::Pending));
    clock.advance(MS);
    assert_eq!(
        (task.woken(), expired(&mut queue)),
        (1, Poll::Ready(Some(3)))
    );
    assert_eq!(
        (queue.remove(gone), queue.remove(gone), queue.len()),
        (Some(2), None, 1)
    );
    assert_eq!(expired(&mut queue), Poll::Pending);
    assert!(queue.reset(far, 5 * MS) && !queue.reset(gone, MS));
    clock.advance(5 * MS);
    assert_eq!(
        (expired(&mut queue), expired(&mut queue)),
        (Poll::Ready(Some(1)), Poll::Ready(None))
    );
    // A thousand, in order, never early.
    for value in 0..1_000 {
        queue.insert(value * 7_919 % 1_000, (value * 7_919 % 1_000) * MS);
    }
    let start = clock.now();
    let mut came = 0;
    while !queue.is_empty() {
        match expired(&mut queue) {
            Poll::Ready(Some(value)) => {
                assert!(
                    value == came && clock.now() - start >= value * MS,
                    "{value} after {came}"
                );
                came += 1;
            }
            _ => clock.advance(MS),
        }
    }
    assert_eq!(came, 1_000);
}

#[test]
fn removing_the_last_value_wakes_the_task_and_cancels_the_timer() {
    let (timers, clock) = manual();
    for delay in [50 * MS, Duration::MAX] {
        let task = Task::new();
        let mut queue = timers.delay_queue();
        let expired =
            |queue: &mut DelayQueue<u32>| queue.poll_expired(&mut Context::from_waker(&task.waker));
        let keys = [1, 2].map(|value| queue.insert(value, delay));
        assert_eq!(
            (expired(&mut queue), timers.handle().len()),
            (Poll::Pending, 1)
        );
        assert_eq!(
            (queue.remove(keys[0]), task.woken()),
            (Some(1), 0),
            "there is another one"
        );
        assert_eq!(
            (queue.remove(keys[1]), task.woken(), timers.handle().len()),
            (Some(2), 1, 0)
        );
        assert_eq!((expired(&mut queue), task.woken()), (Poll::Ready(None), 1));
        // Nobody waits.
        let key = queue.insert(3, delay);
        assert_eq!(
            (queue.remove(key), queue.remove(key), task.woken()),
            (Some(3), None, 1)
        );
        // It goes on.
        queue.insert(4, 10 * MS);
        assert_eq!(
            (expired(&mut queue), timers.handle().len()),
            (Poll::Pending, 1)
        );
        clock.advance(10 * MS);
        assert_eq!(
            (task.woken(), expired(&mut queue), expired(&mut queue)),
            (2, Poll::Ready(Some(4)), Poll::Ready(None))
        );
        assert_eq!(
            (timers.handle().len(), Arc::strong_count(&task.count)),
            (0, 2)
        );
    }
}

#[test]
fn a_value_comes_when_a_sleep_would() {
    for tick in [Duration::from_micros(100), MS, 7 * MS] {
        let clock = ManualClock::new();
        let timers = Timers::start(
            TimerService::builder()
                .shards(1)
                .clock(clock.clone())
                .tick(tick),
        )
        .unwrap();
        // Made between two ticks.
        clock.advance(tick * 2 + tick / 3);
        let mut queue = timers.delay_queue();
        let (for_sleep, for_queue) = (Task::new(), Task::new());
        for step in 0..200 {
            let deadline = clock.now() + tick * step / 60;
            let mut sleep = timers.sleep_until(deadline);
            queue.insert_at(step, deadline);
            loop {
                let ready = for_sleep.poll(&mut sleep).is_ready();
                let expired = queue.poll_expired(&mut Context::from_waker(&for_queue.waker));
                assert_eq!(
                    expired.is_ready(),
                    ready,
                    "tick {tick:?}, {:?} after {deadline:?}",
                    clock.now().checked_duration_since(deadline)
                );
                assert_eq!(
                    (for_sleep.woken(), ready && clock.now() < deadline),
                    (for_queue.woken(), false)
                );
                if ready {
                    break;
                }
                clock.advance(tick / 10);
            }
        }
    }
}

#[test]
fn a_queue_knows_its_own_keys() {
    let (timers, _clock) = manual();
    let (mut queue, mut other) = (timers.delay_queue(), timers.delay_queue());
    let key = queue.insert("mine", 10 * MS);
    other.insert("another's", 10 * MS);
    assert_eq!((other.get(key).copied(), other.remove(key)), (None, None));
    assert!(!other.reset(key, 20 * MS) && !other.reset_at(key, Instant::now()));
    assert_eq!(
        (other.len(), queue.get(key).copied(), queue.remove(key)),
        (1, Some("mine"), Some("mine"))
    );
    drop(queue);
    let mut third = timers.delay_queue();
    assert_ne!(third.insert("one more", MS), key);
}

#[test]
fn cancelling_all_wakes_those_who_wait() {
    let (timers, clock) = manual();
    let tasks: Vec<Task> = (0..100).map(|_| Task::new()).collect();
    let mut sleeps: Vec<Sleep> = tasks.iter().map(|_| timers.sleep(10 * MS)).collect();
    tasks
        .iter()
        .zip(&mut sleeps)
        .for_each(|(task, sleep)| assert!(task.poll(sleep).is_pending()));
    assert_eq!(timers.handle().cancel_all(), 100);
    for (task, sleep) in tasks.iter().zip(&mut sleeps) {
        assert_eq!((task.woken(), task.poll(sleep)), (1, Poll::Pending));
    }
    assert_eq!((timers.handle().len(), armed(&timers)), (100, 200));
    clock.advance(10 * MS);
    assert!(
        tasks
            .iter()
            .zip(&mut sleeps)
            .all(|(task, sleep)| task.woken() == 2 && task.poll(sleep).is_ready())
    );
    // What is dropped is not woken.
    let mut sleep = timers.sleep(10 * MS);
    assert!(tasks[0].poll(&mut sleep).is_pending());
    drop(sleep);
    assert_eq!(
        (
            tasks[0].woken(),
            timers.handle().cancel_all(),
            Arc::strong_count(&tasks[0].count)
        ),
        (2, 0, 2)
    );
}

/// Whoever has the handle can end a future's timer, or let it go off too soon.
const ENDS: [fn(&Timers, &ManualClock); 3] = [
    |timers, _| assert_eq!(timers.handle().cancel_all(), 1),
    |timers, _| {
        let (id, _) = timers.handle().pending(0).next().unwrap();
        assert!(timers.handle().take(id).is_some());
    },
    |timers, clock| {
        let (id, _) = timers.handle().pending(0).next().unwrap();
        assert!(timers.handle().reschedule(id, MS));
        clock.advance(MS);
        assert!(timers.handle().is_empty());
    },
];

#[test]
fn a_sleep_whose_timer_somebody_ended_waits_on() {
    for end in ENDS {
        for other_waker in [false, true] {
            let (timers, clock) = manual();
            let (first, second) = (Task::new(), Task::new());
            let last = if other_waker { &second } else { &first };
            let start = clock.now();
            let mut sleep = timers.sleep(3_600_000 * MS);
            assert!(first.poll(&mut sleep).is_pending());
            end(&timers, &clock);
            assert!(!sleep.is_elapsed(), "an hour early");
            for _ in 0..3 {
                assert_eq!(
                    (last.poll(&mut sleep), timers.handle().len()),
                    (Poll::Pending, 1),
                    "an hour early"
                );
            }
            let woken = last.woken();
            clock.advance(3_599_999 * MS - (clock.now() - start));
            assert_eq!((last.woken(), sleep.is_elapsed()), (woken, false));
            clock.advance(MS);
            assert_eq!(
                (last.woken(), last.poll(&mut sleep)),
                (woken + 1, Poll::Ready(()))
            );
        }
    }
}

#[test]
fn nor_are_timeouts_intervals_and_queues_early() {
    for end in ENDS {
        let task = Task::new();
        let (timers, clock) = manual();
        let mut timeout = Box::pin(timers.timeout(60_000 * MS, pending::<()>()));
        assert!(task.poll(&mut timeout).is_pending());
        end(&timers, &clock);
        assert!(task.poll(&mut timeout).is_pending());
        clock.advance(60_000 * MS);
        assert!(task.poll(&mut timeout).is_ready());

        let (timers, clock) = manual();
        let mut interval = timers.interval(60_000 * MS);
        let mut tick = || interval.poll_tick(&mut Context::from_waker(&task.waker));
        assert!(tick().is_ready() && tick().is_pending());
        end(&timers, &clock);
        assert!(tick().is_pending());
        clock.advance(60_000 * MS);
        assert!(tick().is_ready());

        let (timers, clock) = manual();
        let mut queue = timers.delay_queue();
        queue.insert(7, 60_000 * MS);
        let mut expired = || queue.poll_expired(&mut Context::from_waker(&task.waker));
        assert!(expired().is_pending());
        end(&timers, &clock);
        assert_eq!(
            (expired(), timers.handle().len()),
            (Poll::Pending, 1),
            "and it comes back"
        );
        let woken = task.woken();
        clock.advance(60_000 * MS);
        assert_eq!((task.woken(), expired()), (woken + 1, Poll::Ready(Some(7))));
    }
}

#[test]
fn time_ends_for_sleeps_too() {
    for tick in [Duration::from_micros(1), 7 * MS] {
        let clock = ManualClock::new();
        let timers = Timers::start(
            TimerService::builder()
                .shards(1)
                .clock(clock.clone())
                .tick(tick),
        )
        .unwrap();
        let task = Task::new();
        let (mut longest, mut queue) = (timers.sleep(Duration::MAX), timers.delay_queue());
        queue.insert(1, Duration::MAX);
        assert!(task.poll(&mut longest).is_pending());
        assert!(
            queue
                .poll_expired(&mut Context::from_waker(&task.waker))
                .is_pending()
        );
        clock.advance(Duration::MAX);
        assert_eq!((task.woken(), timers.handle().len()), (2, 0));
        assert!(longest.is_elapsed() && task.poll(&mut longest).is_ready());
        assert_eq!(
            queue.poll_expired(&mut Context::from_waker(&task.waker)),
            Poll::Ready(Some(1))
        );
        assert!(
            task.poll(&mut timers.sleep(MS)).is_ready(),
            "there is no later tick"
        );
    }
}

/// A waker whose last reference panics as it goes.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        std::mem::forget(self);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a waker that panics when it is dropped");
    }
}

#[test]
fn a_waker_that_panics_when_it_goes_makes_no_sleep_early() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    let bomb = Waker::from(Arc::new(Bomb));
    assert!(
        Pin::new(&mut sleep)
            .poll(&mut Context::from_waker(&bomb))
            .is_pending()
    );
    // The sleep has the last reference.
    drop(bomb);
    assert!(
        catch_unwind(AssertUnwindSafe(|| task.poll(&mut sleep))).is_err(),
        "the old waker goes"
    );
    assert!(!sleep.is_elapsed());
    // The new one is armed all the same.
    clock.advance(9 * MS);
    assert_eq!((task.woken(), timers.handle().len()), (0, 1));
    clock.advance(MS);
    assert_eq!((task.woken(), task.poll(&mut sleep)), (1, Poll::Ready(())));
}

/// The old one's drop would panic, too, and two at a time abort the process.
#[test]
fn a_waker_whose_clone_panics_leaves_the_sleep_as_it_was() {
    static TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("deliberate"), |_| (), |_| (), |_| ());
    let (timers, clock) = manual();
    let mut sleep = timers.sleep(10 * MS);
    let bomb = Arc::new(Bomb);
    assert!(
        Pin::new(&mut sleep)
            .poll(&mut Context::from_waker(&Waker::from(bomb.clone())))
            .is_pending()
    );
    // SAFETY: its functions touch nothing.
    let new = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) };
    assert!(
        catch_unwind(AssertUnwindSafe(
            || Pin::new(&mut sleep).poll(&mut Context::from_waker(&new))
        ))
        .is_err()
    );
    assert_eq!(
        (Arc::strong_count(&bomb), timers.handle().len()),
        (2, 1),
        "armed with the old one"
    );
    clock.advance(10 * MS);
    assert!(sleep.is_elapsed());
    std::mem::forget(bomb);
}

#[test]
fn a_service_lives_as_long_as_its_futures() {
    let timers = Timers::start(TimerService::builder().shards(1)).unwrap();
    let (task, mut sleep) = (Task::new(), timers.sleep(MS));
    assert!(task.poll(&mut sleep).is_pending());
    drop(timers);
    block_on(sleep);
    assert_eq!(task.woken(), 0, "block_on has a waker of its own");
}

/// All of it, with real time, as a task of whatever runtime this is.
async fn everything() {
    let start = Instant::now();
    sleep(3 * MS).await;
    assert!(start.elapsed() >= 3 * MS);
    sleep_until(start + 6 * MS).await;
    assert!(start.elapsed() >= 6 * MS);
    assert_eq!(timeout(Duration::from_secs(60), async { 7 }).await, Ok(7));
    assert!(timeout(2 * MS, pending::<()>()).await.is_err());
    assert_eq!(
        timeout_at(Instant::now() + Duration::from_secs(60), sleep(MS)).await,
        Ok(())
    );
    let mut ticks = pin!(interval(2 * MS).take(4));
    let mut last = None;
    while let Some(at) = ticks.next().await {
        assert!(Instant::now() >= at && last.is_none_or(|last| at >= last + 2 * MS));
        last = Some(at);
    }
    let mut queue = DelayQueue::new();
    let from = Instant::now();
    (0..100)
        .rev()
        .for_each(|value| _ = queue.insert_at(value, from + value / 10 * MS));
    let values: Vec<u32> = queue.collect().await;
    assert!(values.len() == 100 && values.is_sorted_by_key(|value| value / 10));
}

#[test]
fn under_block_on() {
    block_on(everything());
}

#[test]
fn under_tokio() {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(everything());
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..100).map(|_| threads.spawn(everything())).collect();
    threads.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn under_smol() {
    let tasks: Vec<_> = (0..100).map(|_| smol::spawn(everything())).collect();
    smol::block_on(async {
        for task in tasks {
            task.await;
        }
    });
}

/// One of two futures wins, on many threads: whoever loses cancels while its timer fires.
#[test]
fn drops_against_fires() {
    let timers = Timers::start(TimerService::builder().tick(Duration::from_micros(10))).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let timers = &timers;
            scope.spawn(move || {
                block_on(async {
                    for step in 0..2_000u64 {
                        let inner = timers.sleep(Duration::from_nanos(
                            20_000 + (step * 7 + thread) % 20 * 1_000,
                        ));
                        let _ = timers.timeout(Duration::from_micros(30), inner).await;
                    }
                });
            });
        }
    });
    assert!(timers.handle().is_empty());
}
