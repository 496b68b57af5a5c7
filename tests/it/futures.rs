//! Promise: futures wait for their timers under any runtime, are never early, are woken once, and
//! leave nothing behind.

use crate::tasks::{MS, Task, armed, manual};
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::future::{
    DelayQueue, Expired, Sleep, Timers, interval, sleep, sleep_until, timeout, timeout_at,
};
use wheelwork::{ManualClock, TimerService};

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
        // It was ready already, and stays so. Nobody waits.
        sleep.reset_at(at);
        assert_eq!(
            (task.woken(), sleep.is_elapsed(), task.poll(&mut sleep)),
            (3, true, Poll::Ready(()))
        );
        sleep.reset(Duration::ZERO);
        assert_eq!(task.poll(&mut sleep), Poll::Ready(()));
        // Nor is it too late to wait again.
        sleep.reset_at(now + 10 * MS);
        assert_eq!(
            (task.woken(), sleep.is_elapsed(), task.poll(&mut sleep)),
            (3, false, Poll::Pending)
        );
        drop(sleep);
        assert_eq!(
            (timers.handle().len(), Arc::strong_count(&task.count)),
            (0, 2)
        );
    }
}

/// On the system's clocks, where no two readings agree.
#[test]
fn nor_does_a_reset_to_now_wait_on_any_clock() {
    for boot_time in [false, true] {
        let builder = TimerService::builder().shards(1).boot_time(boot_time);
        let Ok(timers) = Timers::start(builder) else {
            continue;
        };
        let task = Task::new();
        for wait in 0..1_000 {
            let mut sleep = timers.sleep(Duration::from_secs(3_600));
            if wait % 2 == 0 {
                assert!(task.poll(&mut sleep).is_pending());
            }
            sleep.reset(Duration::ZERO);
            assert_eq!(task.poll(&mut sleep), Poll::Ready(()), "{boot_time} {wait}");
        }
        assert_eq!(task.woken(), 500);
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
        let mut expired = || {
            let expired = queue.poll_expired(&mut Context::from_waker(&task.waker));
            expired.map(|expired| expired.map(Expired::into_inner))
        };
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
        assert!(
            queue
                .poll_expired(&mut Context::from_waker(&task.waker))
                .is_ready()
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
    let values: Vec<u32> = queue.map(Expired::into_inner).collect().await;
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
