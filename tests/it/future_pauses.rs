//! Promise: sleeps, intervals and values of a queue keep what is left while they are paused, wake
//! no task meanwhile, and wake the task that waits when the rest has passed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wheelwork::future::{Interval, Sleep, Timers};
use wheelwork::{ManualClock, Missed, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn timers() -> (ManualClock, Timers) {
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
    (clock, timers)
}

/// A task, which counts how often it is woken.
#[derive(Default)]
struct Task(AtomicU64);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Task {
    fn new() -> (Arc<Self>, Waker) {
        let task = Arc::new(Self::default());
        (task.clone(), task.into())
    }

    fn woken(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}

fn is_ready(sleep: &mut Sleep, waker: &Waker) -> bool {
    Pin::new(sleep)
        .poll(&mut Context::from_waker(waker))
        .is_ready()
}

fn ticks(interval: &mut Interval, waker: &Waker) -> u32 {
    let mut count = 0;
    while interval
        .poll_tick(&mut Context::from_waker(waker))
        .is_ready()
    {
        count += 1;
    }
    count
}

#[test]
fn a_sleep_is_paused_before_and_after_its_first_poll() {
    for polls_before in [true, false] {
        for polls_in_pause in [None, Some(true), Some(false)] {
            let (clock, timers) = timers();
            let ((task, waker), (_, other)) = (Task::new(), Task::new());
            let mut sleep = timers.sleep(10 * MS);
            let deadline = sleep.deadline();
            if polls_before {
                assert!(!is_ready(&mut sleep, &waker));
            }
            clock.advance(4 * MS);
            assert!(!sleep.is_paused() && !sleep.resume());
            assert!(sleep.pause() && !sleep.pause() && sleep.is_paused());
            clock.advance(HOUR);
            assert!(!sleep.is_elapsed());
            if let Some(is_same) = polls_in_pause {
                assert!(!is_ready(&mut sleep, if is_same { &waker } else { &other }));
                assert!(!is_ready(&mut sleep, &waker));
            }
            assert_eq!(task.woken(), 0);
            assert!(sleep.resume() && !sleep.resume() && !sleep.is_paused());
            assert_eq!(sleep.deadline(), deadline + HOUR);
            if !polls_before && polls_in_pause.is_none() {
                assert!(!is_ready(&mut sleep, &waker));
            }
            clock.advance(5 * MS);
            assert_eq!((task.woken(), sleep.is_elapsed()), (0, false));
            clock.advance(MS);
            assert_eq!((task.woken(), sleep.is_elapsed()), (1, true));
            assert!(is_ready(&mut sleep, &waker));
            assert!(!sleep.pause(), "it is over");
            assert!(timers.handle().is_empty());
        }
    }
}

#[test]
fn a_reset_sets_what_is_left_of_a_paused_sleep() {
    let (clock, timers) = timers();
    let (task, waker) = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    assert!(!is_ready(&mut sleep, &waker) && sleep.pause());
    clock.advance(HOUR);
    sleep.reset(3 * MS);
    assert!(sleep.is_paused());
    clock.advance(HOUR);
    assert!(!is_ready(&mut sleep, &waker) && task.woken() == 0);
    assert!(sleep.resume());
    clock.advance(2 * MS);
    assert_eq!(task.woken(), 0);
    clock.advance(MS);
    assert!(task.woken() == 1 && is_ready(&mut sleep, &waker));
    // Dropped while it is paused: nothing is left of it.
    let mut dropped = timers.sleep(HOUR);
    assert!(!is_ready(&mut dropped, &waker) && dropped.pause());
    assert_eq!(timers.handle().len(), 1);
    drop(dropped);
    assert!(timers.handle().is_empty());
}

/// What others do to the timer of a paused sleep makes it ready no sooner, and loses no wake-up.
#[test]
fn others_may_have_the_timer_of_a_paused_sleep() {
    let (clock, timers) = timers();
    let (task, waker) = Task::new();
    let mut sleep = timers.sleep(10 * MS);
    let pauses = |sleep: &mut Sleep| {
        assert!(!is_ready(sleep, &waker));
        assert!(sleep.pause());
        timers.handle().pending(0).next().unwrap().0
    };
    // Resumed, so it wakes the task; which finds the sleep paused.
    let id = pauses(&mut sleep);
    assert!(timers.handle().resume(id));
    clock.advance(HOUR);
    assert_eq!(task.woken(), 1);
    assert!(!is_ready(&mut sleep, &waker));
    assert!(sleep.resume());
    clock.advance(10 * MS);
    assert!(task.woken() == 1 && is_ready(&mut sleep, &waker));
    // All timers cancelled: the task is woken.
    sleep.reset(10 * MS);
    pauses(&mut sleep);
    assert_eq!(timers.handle().cancel_all(), 1);
    assert!(task.woken() == 1 && !is_ready(&mut sleep, &waker));
    assert!(sleep.resume());
    clock.advance(10 * MS);
    assert!(task.woken() == 1 && is_ready(&mut sleep, &waker));
}

#[test]
fn ticks_are_later_by_the_time_of_the_pause() {
    let (clock, timers) = timers();
    let (task, waker) = Task::new();
    let mut interval = timers.interval(10 * MS).missed(Missed::BURST_ALL);
    assert_eq!(ticks(&mut interval, &waker), 1);
    clock.advance(14 * MS);
    assert_eq!((task.woken(), ticks(&mut interval, &waker)), (1, 1));
    assert!(interval.pause() && !interval.pause() && interval.is_paused());
    clock.advance(HOUR);
    assert_eq!((task.woken(), ticks(&mut interval, &waker)), (0, 0));
    assert!(interval.resume() && !interval.resume());
    clock.advance(5 * MS);
    assert_eq!((task.woken(), ticks(&mut interval, &waker)), (0, 0));
    clock.advance(MS);
    assert_eq!((task.woken(), ticks(&mut interval, &waker)), (1, 1));
    clock.advance(10 * MS);
    assert_eq!(ticks(&mut interval, &waker), 1);
    // A tick that is due comes after the pause, and the next one a period after its time.
    clock.advance(10 * MS);
    assert!(interval.pause());
    assert_eq!(ticks(&mut interval, &waker), 0);
    clock.advance(HOUR);
    assert!(interval.resume());
    assert_eq!(ticks(&mut interval, &waker), 1);
    clock.advance(10 * MS);
    assert_eq!(ticks(&mut interval, &waker), 1);
    // A reset counts from the present, and keeps the pause.
    assert!(interval.pause());
    clock.advance(HOUR);
    interval.reset_after(3 * MS);
    clock.advance(HOUR);
    assert_eq!(ticks(&mut interval, &waker), 0);
    assert!(interval.resume());
    clock.advance(3 * MS);
    assert_eq!(ticks(&mut interval, &waker), 1);
    clock.advance(9 * MS);
    assert_eq!(ticks(&mut interval, &waker), 0);
    clock.advance(MS);
    assert_eq!(ticks(&mut interval, &waker), 1);
}

#[test]
fn a_paused_value_of_a_queue_does_not_come() {
    let (clock, timers) = timers();
    let (task, waker) = Task::new();
    let mut context = Context::from_waker(&waker);
    let mut queue = timers.delay_queue();
    let first = queue.insert("first", 10 * MS);
    let second = queue.insert("second", 20 * MS);
    assert!(queue.poll_expired(&mut context).is_pending());
    clock.advance(4 * MS);
    assert!(!queue.is_paused(first) && !queue.resume(first));
    assert!(queue.pause(first) && !queue.pause(first) && queue.is_paused(first));
    assert_eq!((queue.deadline(first), queue.peek()), (None, Some(second)));
    clock.advance(16 * MS);
    let Poll::Ready(Some(expired)) = queue.poll_expired(&mut context) else {
        panic!("the second one is due")
    };
    assert_eq!(expired.key(), second);
    task.woken();
    // It is all that is left: the queue is not empty.
    assert!(queue.poll_expired(&mut context).is_pending());
    assert_eq!(
        (queue.len(), queue.peek(), queue.get(first)),
        (1, None, Some(&"first"))
    );
    clock.advance(HOUR);
    assert!(task.woken() == 0 && queue.poll_expired(&mut context).is_pending());
    // A reset sets what is left.
    assert!(queue.reset(first, 5 * MS) && queue.is_paused(first));
    assert!(queue.reset_at(first, clock.now() + 3 * MS) && queue.is_paused(first));
    clock.advance(HOUR);
    assert!(queue.resume(first) && !queue.is_paused(first));
    assert_eq!(queue.deadline(first), Some(clock.now() + 3 * MS));
    clock.advance(2 * MS);
    assert!(task.woken() == 0 && queue.poll_expired(&mut context).is_pending());
    clock.advance(MS);
    assert!(task.woken() == 1 && queue.poll_expired(&mut context).is_ready());
    // Removed, or drained, while it is paused.
    let keys = [queue.insert("a", 7 * MS), queue.insert("b", 9 * MS)];
    assert!(keys.iter().all(|&key| queue.pause(key)));
    clock.advance(HOUR);
    assert_eq!(queue.remove(keys[0]), Some("a"));
    let drained = queue.drain();
    assert_eq!(drained[0].deadline(), clock.now() + 9 * MS);
    assert!(!queue.resume(keys[0]) && !queue.pause(keys[1]) && queue.is_empty());
}

/// The clock moves on while an interval is resumed.
#[test]
fn no_tick_comes_before_its_time() {
    let (clock, timers) = timers();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                clock.advance(MS);
            }
        });
        let mut frames = timers.interval(5 * MS);
        let mut context = Context::from_waker(Waker::noop());
        let mut early = 0;
        for _ in 0..20_000 {
            frames.pause();
            frames.resume();
            if let Poll::Ready(at) = frames.poll_tick(&mut context) {
                early += u32::from(at > clock.now());
            }
        }
        ends.store(true, Relaxed);
        assert_eq!(early, 0, "ticks are meant for later times");
    });
}

/// A queue of paused values waits for no time: not for the end of time either.
#[test]
fn a_queue_of_paused_values_waits_for_calls() {
    for tick in [MS, MS / 1_000] {
        let clock = ManualClock::new();
        let builder = TimerService::builder().clock(clock.clone()).tick(tick);
        let timers = Timers::start(builder).unwrap();
        let (task, waker) = Task::new();
        let mut context = Context::from_waker(&waker);
        let mut queue = timers.delay_queue();
        let keys = [10, 20].map(|ms| queue.insert(ms, ms * MS));
        assert!(queue.poll_expired(&mut context).is_pending());
        assert!(keys.map(|key| queue.pause(key)) == [true; 2]);
        clock.advance(HOUR);
        while task.woken() > 0 {
            assert!(queue.poll_expired(&mut context).is_pending());
            clock.advance(HOUR);
        }
        // One that comes before.
        let key = queue.insert(5, 5 * MS);
        clock.advance(5 * MS);
        assert_eq!(task.woken(), 1);
        let Poll::Ready(Some(expired)) = queue.poll_expired(&mut context) else {
            panic!("its time has come")
        };
        assert_eq!(expired.key(), key);
        assert!(queue.poll_expired(&mut context).is_pending());
        // One that goes on.
        assert!(queue.resume(keys[1]));
        clock.advance(20 * MS);
        assert_eq!(task.woken(), 1);
        let Poll::Ready(Some(expired)) = queue.poll_expired(&mut context) else {
            panic!("its time has come")
        };
        assert_eq!(expired.into_inner(), 20);
        assert!(queue.poll_expired(&mut context).is_pending());
        clock.advance(Duration::MAX);
        assert_eq!(task.woken(), 0);
        assert!(queue.poll_expired(&mut context).is_pending(), "paused");
        // The last one goes.
        assert_eq!(queue.remove(keys[0]), Some(10));
        assert_eq!(task.woken(), 1);
        assert!(matches!(
            queue.poll_expired(&mut context),
            Poll::Ready(None)
        ));
    }
}
