//! Promise: a delay map has the newest value of each key until its deadline, and not longer. Each
//! value leaves it once: removed, replaced, or as an expired one.

use crate::tasks::{MS, Task, manual};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use wheelwork::future::DelayMap;
use wheelwork::testing;

fn expired<V>(map: &mut DelayMap<u8, V>, task: &Task) -> Poll<Option<(u8, V)>> {
    map.poll_expired(&mut task.context())
}

#[test]
fn a_value_is_there_until_its_deadline() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut map = timers.delay_map();
    assert_eq!(expired(&mut map, &task), Poll::Ready(None));
    assert_eq!(map.insert(1, 'a', 10 * MS), None);
    assert_eq!(task.woken(), 1, "it was told that the map is empty");
    assert_eq!(map.deadline(&1), Some(clock.now() + 10 * MS));
    assert_eq!(expired(&mut map, &task), Poll::Pending);
    clock.advance(9 * MS);
    assert_eq!((map.get(&1), map.get(&2)), (Some(&'a'), None));
    assert_eq!(map.peek(), Some((&1, &'a')));
    clock.advance(MS);
    assert_eq!(task.woken(), 2);
    assert_eq!((map.get(&1), map.deadline(&1)), (None, None));
    assert_eq!((map.remove(&1), map.reset(&1, MS)), (None, None));
    assert_eq!((map.len(), map.peek()), (1, Some((&1, &'a'))));
    assert_eq!(expired(&mut map, &task), Poll::Ready(Some((1, 'a'))));
    assert_eq!(expired(&mut map, &task), Poll::Ready(None));
    assert!(map.is_empty());
}

/// To the nanosecond, though it comes from `next` at the next tick.
#[test]
fn it_is_gone_before_the_tick_of_its_deadline() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut map = timers.delay_map();
    map.insert(1, 'a', MS / 4);
    assert_eq!(expired(&mut map, &task), Poll::Pending);
    clock.advance(MS / 4);
    assert_eq!(map.get(&1), None);
    assert_eq!(expired(&mut map, &task), Poll::Pending);
    clock.advance(MS * 3 / 4);
    assert_eq!(expired(&mut map, &task), Poll::Ready(Some((1, 'a'))));
}

#[test]
fn a_value_that_is_renewed_lives_on() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut map = timers.delay_map();
    map.insert(1, 0, 10 * MS);
    for uses in 1..50 {
        assert_eq!(expired(&mut map, &task), Poll::Pending);
        clock.advance(9 * MS);
        *map.reset(&1, 10 * MS).unwrap() += 1;
        assert_eq!(map.get(&1), Some(&uses));
    }
    clock.advance(10 * MS);
    assert_eq!(expired(&mut map, &task), Poll::Ready(Some((1, 49))));
}

#[test]
fn a_value_that_is_replaced_is_returned_or_has_expired() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut map = timers.delay_map();
    map.insert(1, 'a', 10 * MS);
    clock.advance(9 * MS);
    assert_eq!(map.insert(1, 'b', 5 * MS), Some('a'));
    clock.advance(5 * MS);
    assert_eq!(map.insert(1, 'c', 5 * MS), None, "b has expired");
    assert_eq!((map.get(&1), map.len()), (Some(&'c'), 2));
    assert_eq!(expired(&mut map, &task), Poll::Ready(Some((1, 'b'))));
    assert_eq!(map.get(&1), Some(&'c'), "the key has its new value");
    assert_eq!(map.remove(&1), Some('c'));
    assert_eq!(expired(&mut map, &task), Poll::Ready(None));
}

#[test]
fn a_task_that_waits_is_woken_when_the_map_is_empty() {
    let (timers, _clock) = manual();
    let task = Task::new();
    let mut map = timers.delay_map();
    map.insert(1, 'a', 10 * MS);
    assert_eq!(expired(&mut map, &task), Poll::Pending);
    assert_eq!((map.remove(&1), task.woken()), (Some('a'), 1));
    assert_eq!(expired(&mut map, &task), Poll::Ready(None));
    map.insert(1, 'b', 10 * MS);
    assert_eq!(expired(&mut map, &task), Poll::Pending);
    map.clear();
    assert_eq!((task.woken(), map.get(&1)), (3, None));
    drop(map);
    assert!(timers.handle().is_empty());
}

#[test]
fn clearing_drops_all_though_drops_of_keys_and_values_panic() {
    let (timers, _clock) = manual();
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut map = timers.delay_map();
    for number in 0..10 {
        map.insert(Bomb::new(number, &dropped), Bomb::new(number, &dropped), MS);
    }
    let made = 10 * (1 + 2);
    assert!(catch_unwind(AssertUnwindSafe(|| map.clear())).is_err());
    assert_eq!((map.len(), timers.handle().len()), (0, 0));
    // (The queue has a copy of each key.)
    assert_eq!(dropped.load(Relaxed), made);
}

/// Its drop is counted, and panics if the number is odd.
#[derive(Clone)]
struct Bomb(u32, Arc<AtomicUsize>);

impl Bomb {
    fn new(number: u32, dropped: &Arc<AtomicUsize>) -> Self {
        Self(number, dropped.clone())
    }
}

impl PartialEq for Bomb {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Bomb {}

impl Hash for Bomb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
        assert!(
            self.0.is_multiple_of(2) || std::thread::panicking(),
            "deliberate"
        );
    }
}

#[test]
fn keys_are_looked_up_by_what_they_borrow() {
    testing::block_on(async {
        let mut map = DelayMap::default();
        map.insert("alice".to_string(), 1, 10 * MS);
        map.insert("bob".to_string(), 2, 5 * MS);
        assert_eq!(map.get("alice"), Some(&1));
        assert_eq!(map.reset("alice", 20 * MS), Some(&mut 1));
        assert_eq!(map.next().await, Some(("bob".to_string(), 2)));
        assert_eq!(map.next().await, Some(("alice".to_string(), 1)));
        assert_eq!(map.next().await, None);
        assert_eq!(testing::clock().elapsed(), 20 * MS);
    });
}

/// A step of a user: a key, and for how many milliseconds.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u8),
    Renew(u8, u8),
    Remove(u8),
    Pass(u8),
    Poll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4_u8, 0..30_u8).prop_map(|(key, ms)| Step::Insert(key, ms)),
        (0..4_u8, 0..30_u8).prop_map(|(key, ms)| Step::Renew(key, ms)),
        (0..4_u8).prop_map(Step::Remove),
        (0..20_u8).prop_map(Step::Pass),
        Just(Step::Poll),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Against a map of deadlines, and a list of what has expired.
    #[test]
    fn it_does_as_a_model_does(steps in steps()) {
        let (timers, clock) = manual();
        let task = Task::new();
        let mut map = timers.delay_map();
        // What the key has: its value, and when that expires.
        let mut model = HashMap::<u8, (u32, Duration)>::new();
        let mut gone = HashMap::<u32, u8>::new();
        let token = Rc::new(());
        for (number, step) in (0..).zip(steps) {
            let now = clock.elapsed();
            let (late, alive): (Vec<_>, Vec<_>) =
                model.drain().partition(|(_, (_, until))| *until <= now);
            model.extend(alive);
            gone.extend(late.into_iter().map(|(key, (value, _))| (value, key)));
            match step {
                Step::Insert(key, ms) => {
                    let until = now + u32::from(ms) * MS;
                    let old = map.insert(key, (number, token.clone()), u32::from(ms) * MS);
                    let expected = model.insert(key, (number, until)).map(|(value, _)| value);
                    prop_assert_eq!(old.map(|(value, _)| value), expected);
                }
                Step::Renew(key, ms) => {
                    let found = map.reset(&key, u32::from(ms) * MS).map(|&mut (value, _)| value);
                    let expected = model.get_mut(&key).map(|(value, until)| {
                        *until = now + u32::from(ms) * MS;
                        *value
                    });
                    prop_assert_eq!(found, expected);
                }
                Step::Remove(key) => {
                    let removed = map.remove(&key).map(|(value, _)| value);
                    prop_assert_eq!(removed, model.remove(&key).map(|(value, _)| value));
                }
                Step::Pass(ms) => clock.advance(u32::from(ms) * MS),
                Step::Poll => {
                    while let Poll::Ready(Some((key, (value, _)))) = expired(&mut map, &task) {
                        prop_assert_eq!(gone.remove(&value), Some(key));
                    }
                    prop_assert!(gone.is_empty());
                }
            }
            let now = clock.elapsed();
            for key in 0..4 {
                let expected = model.get(&key).filter(|(_, until)| *until > now);
                let found = map.get(&key).map(|(value, _)| *value);
                prop_assert_eq!(found, expected.map(|(value, _)| *value));
            }
            prop_assert_eq!(map.len(), model.len() + gone.len());
            prop_assert_eq!(Rc::strong_count(&token), 1 + map.len());
        }
    }
}
