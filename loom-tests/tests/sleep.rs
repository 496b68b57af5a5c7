//! Sleep: a poll, a second one with another waker, and a drop, against the alarm, and against
//! somebody who ends its timer. The task's part is the model's own thread.

use loom::sync::Notify;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use wheelwork::internals::loom::{Cells, Clock, Entry, Fault, Shard, Sleep};
use wheelwork_loom_tests::{Held, explore, must_fail};

const DUE: u64 = 1;
const LATER: u64 = 2;

/// A task that waits until it is woken.
struct Task {
    woken: Notify,
    wakes: AtomicUsize,
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            woken: Notify::new(),
            wakes: AtomicUsize::new(0),
        })
    }

    fn wakes(&self) -> usize {
        // Ordering: Relaxed. A count of the model's, looked at after a join.
        self.wakes.load(Ordering::Relaxed)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // Ordering: Relaxed. As above.
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.woken.notify();
    }
}

/// Time passes. The shard takes in what has been sent, and lets off what is due.
fn alarm(cells: &Cells<Waker>, shard: &mut Shard, clock: &Clock) {
    alarm_at(DUE, cells, shard, clock);
}

fn alarm_at(tick: u64, cells: &Cells<Waker>, shard: &mut Shard, clock: &Clock) {
    clock.set(tick);
    let mut local = Held::new(cells.local());
    let mut due: Vec<Entry> = Vec::new();
    shard.drain(|entry| due.push(entry));
    for entry in due.into_iter().filter(|entry| !entry.is_tombstone()) {
        if let Some(waker) = cells.claim_due(&mut local, entry) {
            waker.wake();
        }
    }
}

/// Polls with the first waker, then with the second one, while the alarm may go off; then waits for
/// whatever it was armed with last.
fn polls(second: bool) {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let tasks = [Task::new(), Task::new()];
    let (mut local, clock) = (Held::new(cells.local()), Clock::new());
    let mut sleep = Sleep::new(DUE, clock.clone());
    let waker = |task: usize| Waker::from(tasks[task].clone());
    assert!(sleep.poll(&cells, &mut local, &waker(0)).is_pending());
    let (shard_cells, shard_clock) = (cells.clone(), clock.clone());
    let shard = thread::spawn(move || {
        alarm(&shard_cells, &mut lanes, &shard_clock);
        lanes
    });
    let last = usize::from(second);
    let seen = sleep.poll(&cells, &mut local, &waker(last));
    let mut lanes = shard.join().unwrap();
    // What was armed anew.
    alarm(&cells, &mut lanes, &clock);
    if seen.is_pending() {
        tasks[last].woken.wait();
        assert_eq!(tasks[last].wakes(), 1);
    }
    assert_eq!(
        sleep.poll(&cells, &mut local, &waker(last)),
        Poll::Ready(())
    );
    assert!(
        tasks.iter().map(|task| task.wakes()).sum::<usize>() <= 1,
        "woken twice"
    );
    assert!(!sleep.cancel(&cells, &mut local));
    assert!(
        tasks.iter().all(|task| Arc::strong_count(task) == 1),
        "a waker is left behind"
    );
}

/// Moves it while the alarm may go off: to a tick that has passed, or to a later one.
fn moves(later: bool) {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let task = Task::new();
    let waker = Waker::from(task.clone());
    let (mut local, clock) = (Held::new(cells.local()), Clock::new());
    let mut sleep = Sleep::new(DUE, clock.clone());
    assert!(sleep.poll(&cells, &mut local, &waker).is_pending());
    let (shard_cells, shard_clock) = (cells.clone(), clock.clone());
    let shard = thread::spawn(move || {
        alarm(&shard_cells, &mut lanes, &shard_clock);
        lanes
    });
    sleep.move_to(&cells, &mut local, if later { LATER } else { 0 });
    if !later {
        task.woken.wait();
    }
    let mut lanes = shard.join().unwrap();
    if later {
        // It was woken by the alarm that the move came too late for, or is by the next one.
        let seen = sleep.poll(&cells, &mut local, &waker);
        assert!(seen.is_pending(), "ready early");
        alarm_at(LATER, &cells, &mut lanes, &clock);
        task.woken.wait();
    } else {
        alarm(&cells, &mut lanes, &clock);
        assert_eq!(task.wakes(), 1);
    }
    assert_eq!(sleep.poll(&cells, &mut local, &waker), Poll::Ready(()));
    assert!(!sleep.cancel(&cells, &mut local));
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1, "a waker is left behind");
}

/// Drops it while the alarm may go off.
fn drops() {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let task = Task::new();
    let (mut local, clock) = (Held::new(cells.local()), Clock::new());
    let mut sleep = Sleep::new(DUE, clock.clone());
    assert!(
        sleep
            .poll(&cells, &mut local, &Waker::from(task.clone()))
            .is_pending()
    );
    let shard_cells = cells.clone();
    let shard = thread::spawn(move || {
        alarm(&shard_cells, &mut lanes, &clock);
        lanes
    });
    let was_pending = sleep.cancel(&cells, &mut local);
    let _lanes = shard.join().unwrap();
    assert_eq!(
        task.wakes(),
        usize::from(!was_pending),
        "cancelled, or woken"
    );
    assert_eq!(Arc::strong_count(&task), 1, "a waker is left behind");
}

/// Polls, with the same waker or another one, while somebody ends its timer: drops its waker, or
/// wakes it as `cancel_all` does. Then the time comes, or meanwhile.
fn ended(second: bool, meanwhile: bool, wakes: bool) {
    let (cells, lanes) = Cells::new();
    let (cells, mut lanes) = (Held::new(Arc::new(cells)), Held::new(lanes));
    let tasks = [Task::new(), Task::new()];
    let (mut local, clock) = (Held::new(cells.local()), Clock::new());
    let mut sleep = Sleep::new(DUE, clock.clone());
    let waker = |task: usize| Waker::from(tasks[task].clone());
    assert!(sleep.poll(&cells, &mut local, &waker(0)).is_pending());
    let ender_cells = cells.clone();
    let ender = thread::spawn(move || {
        let mut local = Held::new(ender_cells.local());
        ender_cells.claim_all(
            &mut local,
            |_, waker| if wakes { waker.wake() } else { drop(waker) },
        );
    });
    let (shard_cells, shard_clock) = (cells.clone(), clock.clone());
    let shard = thread::spawn(move || {
        if meanwhile {
            alarm(&shard_cells, &mut lanes, &shard_clock);
        }
        lanes
    });
    let last = usize::from(second);
    let seen = sleep.poll(&cells, &mut local, &waker(last));
    assert!(meanwhile || seen.is_pending(), "ready early");
    ender.join().unwrap();
    let mut lanes = shard.join().unwrap();
    // If its timer was ended after the poll, and nobody was woken for it, then it is polled for
    // another reason.
    let seen = if wakes {
        seen
    } else {
        sleep.poll(&cells, &mut local, &waker(last))
    };
    assert!(meanwhile || seen.is_pending(), "ready early");
    alarm(&cells, &mut lanes, &clock);
    if seen.is_pending() {
        tasks[last].woken.wait();
    }
    assert_eq!(
        sleep.poll(&cells, &mut local, &waker(last)),
        Poll::Ready(())
    );
    assert!(
        tasks.iter().map(|task| task.wakes()).sum::<usize>() <= 1 + usize::from(wakes),
        "woken twice"
    );
    assert!(!sleep.cancel(&cells, &mut local));
    assert!(
        tasks.iter().all(|task| Arc::strong_count(task) == 1),
        "a waker is left behind"
    );
}

#[test]
fn a_poll_sees_the_alarm_or_is_woken() {
    explore(None, || polls(false));
}

#[test]
fn the_last_waker_is_woken() {
    explore(Some(3), || polls(true));
}

#[test]
fn a_sleep_that_is_moved_to_the_past_wakes_its_task_once() {
    explore(None, || moves(false));
}

#[test]
fn one_that_is_moved_later_is_woken_then() {
    explore(Some(3), || moves(true));
}

#[test]
fn broken_move_to_the_past() {
    must_fail(Fault::SleepMovedInSilence, "deadlock", None, || {
        moves(false)
    });
}

#[test]
fn a_drop_cancels_or_was_woken() {
    explore(None, drops);
}

#[test]
fn a_sleep_whose_timer_is_ended_arms_anew() {
    explore(None, || ended(false, false, false));
    explore(Some(3), || ended(true, false, false));
}

#[test]
fn nor_does_it_miss_the_alarm_meanwhile() {
    explore(Some(3), || ended(false, true, false));
    explore(Some(2), || ended(true, true, false));
}

#[test]
fn one_whose_timer_is_ended_with_a_wake_up_needs_no_other() {
    explore(None, || ended(false, false, true));
    explore(Some(3), || ended(true, false, true));
    explore(Some(2), || ended(true, true, true));
}

#[test]
fn broken_timer_that_is_gone() {
    must_fail(Fault::SleepTakesGoneForOver, "ready early", None, || {
        ended(false, false, false)
    });
}

#[test]
fn broken_change_of_the_waker() {
    must_fail(Fault::SleepKeepsWaker, "deadlock", None, || polls(true));
}
