//! What users of `tokio_util::time::DelayQueue` rely on.

use super::{MS, Task, timers};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wheelwork::future::{DelayQueue, Expired};

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
        assert_eq!(expired(&task, &mut queue), []);
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
    assert_eq!(expired(&task, &mut queue), []);
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
    assert_eq!(expired(&task, &mut queue), []);
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
    assert_eq!(expired(&task, &mut queue), []);
    assert!(queue.reset(one, 100 * MS));
    assert!(queue.reset_at(two, clock.now() + 5 * MS));
    clock.advance(5 * MS);
    assert_eq!(expired(&task, &mut queue), [2]);
    clock.advance(94 * MS);
    assert_eq!(expired(&task, &mut queue), []);
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
    assert_eq!(poll(&mut queue), Poll::Pending);
    clock.advance(MS);
    assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    assert_eq!(poll(&mut queue), Poll::Ready(None));
}

#[test]
fn removing_the_last_value_ends_the_wait() {
    let (timers, _clock) = timers();
    let (task, mut queue) = (Task::new(), timers.delay_queue());
    let key = queue.insert(1, MS);
    assert_eq!(expired(&task, &mut queue), []);
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
    assert_eq!(expired(&task, &mut queue), []);
    clock.advance(three_years);
    assert_eq!(expired(&task, &mut queue), [1]);
}
