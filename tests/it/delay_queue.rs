//! Promise: a delay queue gives each value once, with its key and deadline: when a sleep with this
//! deadline would be ready, or by a remove, a drain. It wakes the task that waits in time, also
//! when nothing is left to wait for. Keys tell the truth at any age, with any queue.

use crate::tasks::{MS, Task, manual};
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use wheelwork::future::{DelayQueue, Expired, Key, Timers};
use wheelwork::{ManualClock, TimerService};

/// The value that comes next, if its time has come.
fn poll<T>(queue: &mut DelayQueue<T>, task: &Task) -> Poll<Option<T>> {
    let expired = queue.poll_expired(&mut task.context());
    expired.map(|expired| expired.map(Expired::into_inner))
}

#[test]
fn values_come_when_their_time_has_come() {
    let (timers, clock) = manual();
    let task = Task::new();
    let mut queue = timers.delay_queue();
    let expired = |queue: &mut DelayQueue<u32>| poll(queue, &task);
    assert_eq!(expired(&mut queue), Poll::Ready(None));
    let far = queue.insert(1, 60_000 * MS);
    let gone = queue.insert(2, 50 * MS);
    assert_eq!(expired(&mut queue), Poll::Pending);
    // One that comes before what is waited for wakes the task in time.
    queue.insert(3, 20 * MS);
    clock.advance(19 * MS);
    // (Once it was woken by the first insert.)
    assert_eq!((task.woken(), expired(&mut queue)), (1, Poll::Pending));
    clock.advance(MS);
    assert_eq!(
        (task.woken(), expired(&mut queue)),
        (2, Poll::Ready(Some(3)))
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
        let expired = |queue: &mut DelayQueue<u32>| poll(queue, &task);
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

/// A second after the last poll, it may take them until the next tick.
#[test]
fn a_value_of_the_past_comes_at_the_next_tick_at_the_latest() {
    let (timers, clock) = manual();
    let task = Task::new();
    for (polled, comes_at_once) in [(900, true), (1_100, false)] {
        let mut queue = timers.delay_queue();
        let expired = |queue: &mut DelayQueue<u32>| poll(queue, &task);
        assert_eq!(expired(&mut queue), Poll::Ready(None));
        clock.advance(polled * MS + Duration::from_micros(500));
        queue.insert_at(1, clock.now() - Duration::from_micros(100));
        queue.insert_at(2, clock.now() - MS);
        assert_eq!(expired(&mut queue), Poll::Ready(Some(2)));
        if !comes_at_once {
            assert_eq!(expired(&mut queue), Poll::Pending);
            clock.advance(Duration::from_micros(500));
        }
        assert_eq!(expired(&mut queue), Poll::Ready(Some(1)));
        clock.advance(Duration::from_micros(500));
    }
}

/// Also while a tick is far longer than a second.
#[test]
fn a_value_of_now_comes_at_once_whatever_the_tick() {
    for seconds in [1, 10, 3_600, 86_400] {
        let clock = ManualClock::new();
        let tick = Duration::from_secs(seconds);
        let builder = TimerService::builder().shards(1).tick(tick);
        let timers = Timers::start(builder.clock(clock.clone())).unwrap();
        clock.advance(tick * 7 / 2);
        let task = Task::new();
        let mut queue = timers.delay_queue();
        let expired = |queue: &mut DelayQueue<u32>| poll(queue, &task);
        assert_eq!(expired(&mut queue), Poll::Ready(None));
        queue.insert_at(1, clock.now() - Duration::from_micros(10));
        assert_eq!(expired(&mut queue), Poll::Ready(Some(1)));
        let key = queue.insert_at(2, clock.now());
        assert!(queue.reset(key, Duration::ZERO));
        assert_eq!(expired(&mut queue), Poll::Ready(Some(2)));
        // Not polled for long.
        clock.advance(tick * 3 + Duration::from_millis(1_100));
        queue.insert(3, Duration::ZERO);
        assert_eq!(expired(&mut queue), Poll::Ready(Some(3)));
    }
}

/// No clock that runs says that it is not quite over.
#[test]
fn without_a_delay_the_first_poll_is_ready() {
    let timers = Timers::start(TimerService::builder().tick(MS * 100)).unwrap();
    let task = Task::new();
    let mut queue = timers.delay_queue();
    for value in 0..1_000 {
        queue.insert(value, Duration::ZERO);
        assert_eq!(poll(&mut queue, &task), Poll::Ready(Some(value)));
        let key = queue.insert(value, Duration::MAX);
        assert!(queue.reset(key, Duration::ZERO));
        assert_eq!(poll(&mut queue, &task), Poll::Ready(Some(value)));
        let mut sleep = pin!(timers.sleep(Duration::ZERO));
        assert!(sleep.as_mut().poll(&mut task.context()).is_ready());
    }
}

#[test]
fn removing_the_last_value_wakes_the_task_and_cancels_the_timer() {
    let (timers, clock) = manual();
    for delay in [50 * MS, Duration::MAX] {
        let task = Task::new();
        let mut queue = timers.delay_queue();
        let expired = |queue: &mut DelayQueue<u32>| poll(queue, &task);
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
        // Nobody waits, but the task was told of the end: an insert wakes it, once.
        let key = queue.insert(3, delay);
        assert_eq!(
            (queue.remove(key), queue.remove(key), task.woken()),
            (Some(3), None, 2)
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
            (3, Poll::Ready(Some(4)), Poll::Ready(None))
        );
        // (It has a waker again, of the task that was told of the end.)
        assert_eq!(
            (timers.handle().len(), Arc::strong_count(&task.count)),
            (0, 3)
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
                let expired = queue.poll_expired(&mut for_queue.context());
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
fn a_value_comes_with_its_key_and_its_deadline() {
    let (timers, clock) = manual();
    clock.advance(Duration::from_micros(5_300));
    let task = Task::new();
    let mut queue = timers.delay_queue();
    let (start, half) = (clock.now(), Duration::from_micros(500));
    // In the past, between two ticks, and moved there.
    let past = (queue.insert_at("past", start - 2 * MS), start - 2 * MS);
    let soon = (queue.insert("soon", 3 * MS + half), start + 3 * MS + half);
    let moved = (queue.insert("moved", 60_000 * MS), start + 7 * MS + half);
    assert!(queue.reset_at(moved.0, moved.1));
    for (key, deadline) in [past, soon, moved] {
        assert_eq!(queue.deadline(key), Some(deadline));
        assert_eq!(queue.peek(), Some(key));
        let mut expired = loop {
            match queue.poll_expired(&mut task.context()) {
                Poll::Ready(expired) => break expired.unwrap(),
                Poll::Pending => clock.advance(MS),
            }
        };
        assert_eq!((expired.key(), expired.deadline()), (key, deadline));
        assert!(clock.now() >= deadline);
        *expired.get_mut() = "changed";
        assert_eq!(
            (*expired.get_ref(), expired.into_inner()),
            ("changed", "changed")
        );
        assert_eq!((queue.deadline(key), queue.get(key)), (None, None));
    }
    assert_eq!(queue.peek(), None);
    // As a stream, and by `next`.
    let keys = [2, 1].map(|ms| queue.insert("both", ms * MS));
    clock.advance(3 * MS);
    let expired = block_on(async { [StreamExt::next(&mut queue).await, queue.next().await] });
    assert_eq!(
        expired.map(|expired| expired.unwrap().key()),
        [keys[1], keys[0]]
    );
}

/// Takes all values out, and returns them.
type TakeAll = fn(&mut DelayQueue<u32>) -> Vec<u32>;

const TAKE_ALL: [TakeAll; 3] = [
    |queue| {
        let values = [7, 8].map(|value| u32::from(queue.len() == 2) * value);
        queue.clear();
        values.into()
    },
    |queue| {
        let mut drained = queue.drain();
        drained.sort_by_key(Expired::deadline);
        drained.into_iter().map(Expired::into_inner).collect()
    },
    |queue| {
        let keys: Vec<Key> = std::iter::from_fn(|| {
            let key = queue.peek()?;
            queue.reset(key, Duration::MAX);
            Some(key)
        })
        .take(2)
        .collect();
        keys.into_iter()
            .map(|key| queue.remove(key).unwrap())
            .collect()
    },
];

#[test]
fn taking_all_values_out_wakes_the_task_and_cancels_the_timer() {
    for take_all in TAKE_ALL {
        let (timers, clock) = manual();
        let task = Task::new();
        let mut queue = timers.delay_queue();
        let keys = [(8, 60_000), (7, 50)].map(|(value, ms)| queue.insert(value, ms * MS));
        assert_eq!(poll(&mut queue, &task), Poll::Pending);
        assert_eq!(take_all(&mut queue), [7, 8]);
        assert_eq!(
            (task.woken(), timers.handle().len(), queue.len()),
            (1, 0, 0)
        );
        assert_eq!(poll(&mut queue, &task), Poll::Ready(None));
        for key in keys {
            assert_eq!((queue.get(key), queue.deadline(key)), (None, None));
            assert_eq!((queue.remove(key), queue.reset(key, MS)), (None, false));
        }
        assert_eq!((queue.peek(), queue.drain().len()), (None, 0));
        // Nobody waits now. It goes on.
        queue.clear();
        assert_eq!(task.woken(), 1);
        queue.insert(9, 10 * MS);
        assert_eq!(poll(&mut queue, &task), Poll::Pending);
        clock.advance(10 * MS);
        assert_eq!(
            (task.woken(), poll(&mut queue, &task)),
            (3, Poll::Ready(Some(9)))
        );
        assert_eq!(Arc::strong_count(&task.count), 2);
    }
}

#[test]
fn clearing_wakes_the_task_though_a_value_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("deliberate");
        }
    }
    let (timers, _clock) = manual();
    let task = Task::new();
    let mut queue = timers.delay_queue();
    queue.insert(Bomb, 50 * MS);
    assert!(queue.poll_expired(&mut task.context()).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
    assert_eq!(
        (task.woken(), queue.len(), timers.handle().len()),
        (1, 0, 0)
    );
    assert!(matches!(
        queue.poll_expired(&mut task.context()),
        Poll::Ready(None)
    ));
}

#[test]
fn memory_is_taken_ahead_of_time_and_kept() {
    let (timers, _clock) = manual();
    let mut queue = timers.delay_queue();
    queue.insert(0, MS);
    queue.reserve(999);
    let capacity = queue.capacity();
    assert!(capacity >= 1_000);
    for round in 0..3 {
        queue.clear();
        assert_eq!(queue.capacity(), capacity, "round {round}");
        (0..capacity).for_each(|value| _ = queue.insert(value, MS));
        assert_eq!((queue.capacity(), queue.len()), (capacity, capacity));
    }
    assert!(DelayQueue::<u32>::with_capacity(100).capacity() >= 100);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Times in microseconds, from now; some have passed.
    Insert(i64),
    InsertAfter(u64),
    Remove(usize),
    ResetAt(usize, i64),
    Reset(usize, u64),
    Advance(u64),
    Poll,
    Drain,
    Clear,
    /// Keys of another queue do nothing.
    Foreign,
}

fn step() -> impl Strategy<Value = Step> {
    let time = || prop_oneof![8 => -20_000i64..100_000, 1 => Just(3_600_000_000)];
    let after = || prop_oneof![4 => 1u64..100_000, 1 => 1u64..400_000_000];
    prop_oneof![
        10 => time().prop_map(Step::Insert),
        10 => after().prop_map(Step::InsertAfter),
        6 => any::<usize>().prop_map(Step::Remove),
        6 => (any::<usize>(), time()).prop_map(|(which, time)| Step::ResetAt(which, time)),
        6 => (any::<usize>(), after()).prop_map(|(which, after)| Step::Reset(which, after)),
        12 => after().prop_map(Step::Advance),
        30 => Just(Step::Poll),
        1 => Just(Step::Drain),
        1 => Just(Step::Clear),
        1 => Just(Step::Foreign),
    ]
}

/// A queue, and what should be in it. Times are in microseconds since the clock's origin, a tick
/// has 1,000.
struct World {
    timers: Timers,
    clock: ManualClock,
    origin: Instant,
    task: Task,
    queue: DelayQueue<usize>,
    other: DelayQueue<usize>,
    /// Each key that there ever was, by the value's number.
    keys: Vec<Key>,
    /// Deadline and tick of each value.
    values: BTreeMap<usize, (Instant, u64)>,
    /// The last poll at which the queue read the clock, and its tick.
    polled_us: u64,
    polled_at: u64,
    /// How often the task was woken before it began to wait.
    waits: Option<usize>,
}

impl World {
    fn new() -> Self {
        let (timers, clock) = manual();
        clock.advance(Duration::from_micros(50_300));
        let mut other = timers.delay_queue();
        other.insert(usize::MAX, Duration::MAX);
        Self {
            origin: clock.now() - clock.elapsed(),
            task: Task::new(),
            queue: timers.delay_queue(),
            other,
            keys: Vec::new(),
            values: BTreeMap::new(),
            polled_us: 50_300,
            polled_at: 50,
            waits: None,
            timers,
            clock,
        }
    }

    fn now_us(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    /// A time as the caller gives it, and the tick at which its value comes.
    fn at(&self, off: i64) -> (Instant, u64) {
        let at = self.now_us().saturating_add_signed(off);
        // More than a second after that poll the queue does not know that it has passed.
        let is_near = at.saturating_sub(self.polled_us) <= 1_000_000;
        let tick = if off <= 0 && is_near {
            at / 1_000
        } else {
            at.div_ceil(1_000)
        };
        (
            self.origin + Duration::from_micros(at),
            tick.max(self.polled_at),
        )
    }

    /// A value that is there, or, where there is none, one that is gone.
    fn pick(&self, which: usize) -> Option<usize> {
        let there = self.values.keys().nth(which % self.values.len().max(1));
        there.copied().or_else(|| self.keys.len().checked_sub(1))
    }

    fn first(&self) -> Option<u64> {
        self.values.values().map(|&(_, tick)| tick).min()
    }

    fn put(&mut self, key: Key, at: (Instant, u64)) {
        self.values.insert(self.keys.len(), at);
        self.keys.push(key);
    }

    fn moved(&mut self, number: usize, at: (Instant, u64), is_there: bool) {
        assert_eq!(is_there, self.values.contains_key(&number));
        if is_there {
            self.values.insert(number, at);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(off) => {
                let at = self.at(off);
                let key = self.queue.insert_at(self.keys.len(), at.0);
                self.put(key, at);
            }
            Step::InsertAfter(after) => {
                let at = self.at(after as i64);
                let delay = Duration::from_micros(after);
                let key = self.queue.insert(self.keys.len(), delay);
                self.put(key, at);
            }
            Step::Remove(which) => {
                if let Some(number) = self.pick(which) {
                    let was_there = self.values.remove(&number).is_some();
                    let removed = self.queue.remove(self.keys[number]);
                    assert_eq!(removed, was_there.then_some(number));
                }
            }
            Step::ResetAt(which, off) => {
                if let Some(number) = self.pick(which) {
                    let at = self.at(off);
                    let is_there = self.queue.reset_at(self.keys[number], at.0);
                    self.moved(number, at, is_there);
                }
            }
            Step::Reset(which, after) => {
                if let Some(number) = self.pick(which) {
                    let at = self.at(after as i64);
                    let delay = Duration::from_micros(after);
                    let is_there = self.queue.reset(self.keys[number], delay);
                    self.moved(number, at, is_there);
                }
            }
            Step::Advance(time) => self.clock.advance(Duration::from_micros(time)),
            Step::Poll => self.poll(),
            Step::Drain => {
                let drained = self.queue.drain().into_iter();
                let drained: BTreeMap<_, _> = drained
                    .map(|value| (*value.get_ref(), (value.key(), value.deadline())))
                    .collect();
                let expected = self.values.iter();
                let expected: BTreeMap<_, _> = expected
                    .map(|(&number, &(deadline, _))| (number, (self.keys[number], deadline)))
                    .collect();
                assert_eq!(drained, expected);
                self.values.clear();
            }
            Step::Clear => {
                self.queue.clear();
                self.values.clear();
            }
            Step::Foreign => {
                for &key in self.keys.iter().rev().take(3) {
                    assert_eq!(
                        (self.other.get(key), self.other.deadline(key)),
                        (None, None)
                    );
                    assert_eq!((self.other.remove(key), self.other.len()), (None, 1));
                    assert!(!self.other.reset(key, MS));
                }
            }
        }
    }

    fn poll(&mut self) {
        let woken = self.task.woken();
        let expired = self.queue.poll_expired(&mut self.task.context());
        self.waits = expired.is_pending().then_some(woken);
        // The queue reads the clock when nothing was due at its last reading.
        if self.first().is_none_or(|tick| tick > self.polled_at) {
            self.polled_us = self.now_us();
            self.polled_at = self.polled_us / 1_000;
        }
        match expired {
            Poll::Pending => assert!(self.first().is_some_and(|tick| tick > self.polled_at)),
            Poll::Ready(None) => assert!(self.values.is_empty()),
            Poll::Ready(Some(expired)) => {
                let first = self.first();
                let (deadline, tick) = self.values.remove(expired.get_ref()).unwrap();
                assert_eq!(Some(tick), first, "out of order");
                assert!(
                    tick <= self.polled_at && deadline <= self.clock.now(),
                    "early"
                );
                assert_eq!(expired.key(), self.keys[*expired.get_ref()]);
                assert_eq!(expired.deadline(), deadline);
            }
        }
    }

    /// What is true between any two calls.
    fn check(&self) {
        let is_empty = self.values.is_empty();
        assert_eq!(
            (self.queue.len(), self.queue.is_empty()),
            (self.values.len(), is_empty)
        );
        assert!(self.queue.capacity() >= self.queue.len());
        let peeked = self.queue.peek().map(|key| self.queue.get(key).unwrap());
        assert_eq!(peeked.map(|number| self.values[number].1), self.first());
        for (number, &key) in self.keys.iter().enumerate() {
            let value = self.values.get(&number);
            assert_eq!(
                self.queue.deadline(key),
                value.map(|&(deadline, _)| deadline)
            );
            assert_eq!(self.queue.get(key).copied(), value.map(|_| number));
        }
        let comes = self
            .first()
            .is_none_or(|tick| tick <= self.now_us() / 1_000);
        if let Some(woken) = self.waits.filter(|_| comes) {
            assert!(
                self.task.woken() > woken,
                "the task waits for what is there, or gone"
            );
        }
        assert!(self.timers.handle().len() <= 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn does_what_an_ordered_map_does(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
        world.clock.advance(Duration::MAX);
        (0..=world.values.len()).for_each(|_| world.poll());
        world.check();
        prop_assert!(world.values.is_empty() && world.timers.handle().is_empty());
    }
}
