//! What users of `tokio_util::time::DelayQueue` rely on.

use super::{MS, Task, timers};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork::future::{DelayQueue, Expired, Key};

/// The values that have come.
fn expired<T: Copy>(task: &Arc<Task>, queue: &mut DelayQueue<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Poll::Ready(Some(expired)) = task.with(|context| queue.poll_expired(context)) {
        all.push(expired.into_inner());
    }
    all
}

#[test]
fn values_come_in_the_order_of_their_deadlines_and_not_before() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    for ms in [30u32, 10, 20] {
        queue.insert(ms, MS * ms);
    }
    assert_eq!((expired(&task, &mut queue), queue.len()), (vec![], 3));
    for ms in [10, 20, 30] {
        clock.advance(9 * MS);
        assert_eq!(expired(&task, &mut queue), [0; 0]);
        clock.advance(MS);
        assert_eq!(expired(&task, &mut queue), [ms]);
    }
    assert!(queue.is_empty());
}

#[test]
fn values_that_come_together_are_polled_in_order() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    for ms in [30u32, 10, 20] {
        queue.insert(ms, MS * ms);
    }
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    clock.advance(50 * MS);
    assert_eq!(queue.len(), 3, "until they are polled they are in it");
    assert_eq!(
        (task.woken(), expired(&task, &mut queue)),
        (1, vec![10, 20, 30])
    );
}

#[test]
fn a_value_whose_time_has_passed_comes_at_the_next_poll() {
    let (timers, clock) = timers();
    clock.advance(100 * MS);
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    queue.insert_at(1, clock.now() - 50 * MS);
    queue.insert_at(2, clock.now());
    queue.insert(3, Duration::ZERO);
    let mut values = expired(&task, &mut queue);
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3]);
}

#[test]
fn an_earlier_value_wakes_the_task_that_waits() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    queue.insert(1, 1_000 * MS);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    queue.insert(2, 10 * MS);
    clock.advance(10 * MS);
    assert!(task.woken() > 0);
    assert_eq!(expired(&task, &mut queue), [2]);
}

#[test]
fn a_value_that_was_removed_does_not_come() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let (one, _two) = (queue.insert(1, 10 * MS), queue.insert(2, 10 * MS));
    assert_eq!(queue.remove(one), Some(1));
    clock.advance(10 * MS);
    assert_eq!(expired(&task, &mut queue), [2]);
}

/// A difference: `remove` and `reset` panic there for a key that is not in the queue. (`try_remove`
/// gives an `Option`.)
#[test]
fn a_key_of_a_value_that_is_gone_does_nothing() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let key = queue.insert(1, MS);
    clock.advance(MS);
    assert_eq!(expired(&task, &mut queue), [1]);
    assert_eq!((queue.remove(key), queue.get(key)), (None, None));
    assert!(!queue.reset(key, MS) && !queue.reset_at(key, clock.now()));
    let other = queue.insert(2, MS);
    assert_ne!(key, other);
    assert_eq!(queue.remove(key), None, "nor when its place is used again");
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_reset_moves_a_value_to_later_or_sooner() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let (one, two) = (queue.insert(1, 10 * MS), queue.insert(2, 50 * MS));
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    assert!(queue.reset(one, 100 * MS));
    assert!(queue.reset_at(two, clock.now() + 5 * MS));
    clock.advance(5 * MS);
    assert_eq!(expired(&task, &mut queue), [2]);
    clock.advance(94 * MS);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    clock.advance(MS);
    assert_eq!(expired(&task, &mut queue), [1]);
}

#[test]
fn an_empty_queue_gives_none_and_goes_on_after_an_insert() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let poll = |queue: &mut DelayQueue<u32>| {
        let expired = task.with(|context| queue.poll_expired(context));
        expired.map(|expired| expired.map(Expired::into_inner))
    };
    assert_eq!(poll(&mut queue), Poll::Ready(None));
    queue.insert(1, MS);
    assert_eq!(task.woken(), 1, "the task that was told of the end");
    assert_eq!(poll(&mut queue), Poll::Pending);
    queue.insert(2, MS * 2);
    assert_eq!(task.woken(), 1, "it waits for the first value");
    clock.advance(MS);
    assert_eq!(task.woken(), 2);
    assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    clock.advance(MS);
    assert_eq!(poll(&mut queue), Poll::Ready(Some(2)));
    assert_eq!(poll(&mut queue), Poll::Ready(None));
    queue.insert(1, MS);
    clock.advance(MS);
    assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    assert_eq!(poll(&mut queue), Poll::Ready(None));
}

#[test]
fn removing_the_last_value_ends_the_wait() {
    let (timers, _clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let key = queue.insert(1, MS);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    queue.remove(key);
    assert_eq!(task.woken(), 1);
    let expired = task.with(|context| queue.poll_expired(context));
    assert!(matches!(expired, Poll::Ready(None)));
}

/// A difference: there a delay of more than two years panics.
#[test]
fn a_delay_of_any_length_is_taken() {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let three_years = Duration::from_secs(3 * 365 * 24 * 3_600);
    queue.insert(1, three_years);
    queue.insert(2, Duration::MAX);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    clock.advance(three_years);
    assert_eq!(expired(&task, &mut queue), [1]);
}

/// Three values, the first of which is 10 ms away, in a queue in which a task waits.
fn waiting() -> (ManualClock, Arc<Task>, DelayQueue<u32>, [Key; 3]) {
    let (timers, clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let keys = [30, 10, 20].map(|ms| queue.insert(ms, MS * ms));
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    (clock, task, queue, keys)
}

#[test]
fn what_has_expired_tells_its_key_its_deadline_and_its_value() {
    let (clock, task, mut queue, keys) = waiting();
    let start = clock.now();
    clock.advance(10 * MS);
    let polled = task.with(|context| queue.poll_expired(context));
    let Poll::Ready(Some(mut expired)) = polled else {
        panic!("it is due");
    };
    assert_eq!(expired.key(), keys[1]);
    assert_eq!(expired.deadline(), start + 10 * MS);
    assert_eq!(*expired.get_ref(), 10);
    *expired.get_mut() += 1;
    assert_eq!(expired.into_inner(), 11);
}

/// Also when it comes late, between two ticks, or was moved.
#[test]
fn a_deadline_is_the_one_that_was_given() {
    let (clock, task, mut queue, keys) = waiting();
    let given = clock.now() + Duration::from_micros(12_345);
    assert!(queue.reset_at(keys[0], given));
    assert_eq!(queue.deadline(keys[0]), Some(given));
    queue.remove(keys[1]);
    clock.advance(500 * MS);
    let expired = task.with(|context| queue.poll_expired(context));
    let Poll::Ready(Some(expired)) = expired else {
        panic!("it is due");
    };
    assert_eq!((expired.key(), expired.deadline()), (keys[0], given));
}

/// A difference: `deadline` panics there for a key that is not in the queue.
#[test]
fn a_deadline_of_what_is_gone_is_none() {
    let (clock, task, mut queue, keys) = waiting();
    let start = clock.now();
    assert_eq!(queue.deadline(keys[2]), Some(start + 20 * MS));
    queue.remove(keys[2]);
    clock.advance(10 * MS);
    assert_eq!(expired(&task, &mut queue), [10]);
    let deadlines = keys.map(|key| queue.deadline(key));
    assert_eq!(deadlines, [Some(start + 30 * MS), None, None]);
}

/// The next one, whether it is due or not. It stays in the queue.
#[test]
fn a_peek_gives_the_key_of_the_value_that_comes_next() {
    let (clock, task, mut queue, keys) = waiting();
    assert_eq!((queue.peek(), queue.len()), (Some(keys[1]), 3));
    queue.reset(keys[1], 25 * MS);
    assert_eq!(queue.peek(), Some(keys[2]));
    clock.advance(50 * MS);
    assert_eq!(queue.peek(), Some(keys[2]), "due, and not polled");
    assert_eq!(expired(&task, &mut queue), [20, 10, 30]);
    assert_eq!(queue.peek(), None);
}

#[test]
fn a_clear_drops_all_values_and_ends_the_wait() {
    let (clock, task, mut queue, keys) = waiting();
    queue.clear();
    assert!(queue.is_empty() && task.woken() == 1);
    let polled = task.with(|context| queue.poll_expired(context));
    assert!(matches!(polled, Poll::Ready(None)));
    assert_eq!(keys.map(|key| queue.remove(key)), [None; 3]);
    clock.advance(50 * MS);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    // It is used again.
    queue.insert(4, MS);
    assert_eq!(expired(&task, &mut queue), [0; 0]);
    clock.advance(MS);
    assert_eq!(expired(&task, &mut queue), [4]);
}

/// What tokio-util lacks: all values at once, with their keys and deadlines, due or not.
#[test]
fn a_drain_gives_all_values() {
    let (clock, task, mut queue, keys) = waiting();
    let start = clock.now();
    let mut drained = queue.drain();
    drained.sort_by_key(Expired::deadline);
    let drained: Vec<_> = drained
        .into_iter()
        .map(|expired| (expired.key(), expired.deadline(), expired.into_inner()))
        .collect();
    let expect = |at: usize, ms: u32| (keys[at], start + MS * ms, ms);
    assert_eq!(drained, [expect(1, 10), expect(2, 20), expect(0, 30)]);
    assert!(queue.is_empty() && task.woken() == 1);
}

/// What was reserved is there before it is needed. A difference: nothing gives it back but the drop
/// of the queue (there `compact` and `shrink_to_fit` do).
#[test]
fn capacity_is_taken_ahead_and_kept() {
    assert!(DelayQueue::<u32>::with_capacity(100).capacity() >= 100);
    let (timers, _clock) = timers();
    let mut queue = timers.delay_queue();
    let insert = |queue: &mut DelayQueue<u32>, values| {
        (0..values).for_each(|value| _ = queue.insert(value, 1_000 * MS));
    };
    insert(&mut queue, 100);
    queue.reserve(1_000);
    let capacity = queue.capacity();
    assert!(capacity >= 1_100, "on top of those that are there");
    insert(&mut queue, 1_000);
    assert_eq!((queue.capacity(), queue.len()), (capacity, 1_100));
    queue.clear();
    assert_eq!((queue.capacity(), queue.len()), (capacity, 0));
}
