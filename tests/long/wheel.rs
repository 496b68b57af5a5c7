//! Promise: the public wheel does what an ordered set of deadlines would do. Each key comes out
//! once: at its deadline, or by `cancel`, or by `drain`; deadlines come in order, as many as asked
//! for; handles tell the truth at any age.
//!
//! Arbitrary sequences of calls, begun around every edge between two levels and at ages up to a
//! hundred years, nearly always with a far timer. A failure prints where the sequence began and the
//! shortest one that fails; `PROPTEST_RNG_SEED=1` (any number) makes every run try the same. That
//! lists, slots and cells agree is in `src/wheel/tests.rs`.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use wheelwork::wheel::{Handle, Wheel};

const TICK_MAX: u64 = (1 << 52) - 1;

/// A tick, from the wheel's time.
#[derive(Clone, Copy, Debug)]
enum Span {
    Back(u64),
    On(u64),
    /// To the next multiple of `256^level`, and ticks more or less.
    ToEdge(u32, i64),
    Max,
}

impl Span {
    fn from(self, now: u64) -> u64 {
        match self {
            Self::Back(ticks) => now.saturating_sub(ticks),
            Self::On(ticks) => now + ticks,
            Self::ToEdge(level, off) => {
                (((now >> (8 * level)) + 1) << (8 * level)).saturating_add_signed(off)
            }
            Self::Max => u64::MAX,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(Span),
    Burst(u32, Span),
    Cancel(usize),
    CancelMany(usize),
    Move(usize, Span),
    Advance(Span, usize),
    PopDue(Span),
    /// To the tick that the wheel names.
    ToNext,
    Reserve(usize),
    Drain,
    Clear,
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        2 => (0u64..600).prop_map(Span::Back),
        10 => (0u64..600).prop_map(Span::On),
        5 => (0u32..7, -1i64..=1).prop_map(|(level, off)| Span::On((1u64 << (8 * level)).saturating_add_signed(off))),
        5 => (1u32..7, -1i64..=1).prop_map(|(level, off)| Span::ToEdge(level, off)),
        3 => (0u32..52, any::<u64>()).prop_map(|(bits, low)| Span::On(low & ((1 << bits) - 1))),
    ]
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), 0usize..4, 60usize..66, 0usize..1000]
}

fn step() -> impl Strategy<Value = Step> {
    let deadline = || prop_oneof![40 => span(), 1 => Just(Span::Max)];
    prop_oneof![
        120 => deadline().prop_map(Step::Insert),
        16 => (1u32..300, deadline()).prop_map(|(timers, span)| Step::Burst(timers, span)),
        1 => (4_000u32..5_000, span()).prop_map(|(timers, span)| Step::Burst(timers, span)),
        80 => any::<usize>().prop_map(Step::Cancel),
        12 => any::<usize>().prop_map(Step::CancelMany),
        100 => (any::<usize>(), deadline()).prop_map(|(which, span)| Step::Move(which, span)),
        60 => (span(), limit()).prop_map(|(span, limit)| Step::Advance(span, limit)),
        30 => span().prop_map(Step::PopDue),
        20 => Just(Step::ToNext),
        4 => (0usize..2_000).prop_map(Step::Reserve),
        1 => Just(Step::Drain),
        1 => Just(Step::Clear),
    ]
}

/// One tick before, at and after `256^level`, a multiple of it, and the last one before the next
/// level (or the end of time); and every year of a hundred, with a tick of a millisecond.
fn starts() -> impl Iterator<Item = u64> {
    let edges =
        (0..=6).flat_map(|level| [1u64, 3, 255].map(|times| (times << (8 * level)) & TICK_MAX));
    edges
        .flat_map(|edge| [edge - 1, edge, edge + 1])
        .chain((0..=100).map(|years| years * 31_557_600_000))
}

/// Counts how often each key was dropped.
type Drops = Rc<RefCell<Vec<u32>>>;

struct Key {
    number: usize,
    drops: Drops,
}

impl Drop for Key {
    fn drop(&mut self) {
        self.drops.borrow_mut()[self.number] += 1;
    }
}

fn key(drops: &Drops) -> Key {
    drops.borrow_mut().push(0);
    Key {
        number: drops.borrow().len() - 1,
        drops: drops.clone(),
    }
}

/// A wheel, and what should be in it.
struct World {
    wheel: Wheel<Key>,
    now: u64,
    /// Deadlines and numbers of keys.
    order: BTreeSet<(u64, usize)>,
    handles: BTreeMap<usize, (Handle, u64)>,
    stale: Vec<Handle>,
    /// The key of the far timer, if there is always one.
    far: Option<usize>,
    /// The deadline that came last.
    last: u64,
    drops: Drops,
}

impl World {
    fn new(now: u64, has_far: bool) -> Self {
        let mut world = Self {
            wheel: Wheel::new(now),
            now,
            order: BTreeSet::new(),
            handles: BTreeMap::new(),
            stale: Vec::new(),
            far: None,
            last: 0,
            drops: Drops::default(),
        };
        world.far = has_far.then(|| world.insert(u64::MAX));
        world
    }

    fn hold(&self, deadline: u64) -> u64 {
        deadline.clamp(self.now, TICK_MAX)
    }

    fn move_to(&mut self, now: u64) {
        self.now = self.now.max(now.min(TICK_MAX));
    }

    fn insert(&mut self, deadline: u64) -> usize {
        let key = key(&self.drops);
        let number = key.number;
        let handle = self.wheel.insert(deadline, key);
        let deadline = self.hold(deadline);
        self.order.insert((deadline, number));
        self.handles.insert(number, (handle, deadline));
        number
    }

    /// All keys but that of the far timer.
    fn others(&self) -> impl Iterator<Item = usize> {
        self.handles
            .keys()
            .copied()
            .filter(|&number| Some(number) != self.far)
    }

    fn pick(&self, which: usize) -> Option<usize> {
        self.others().nth(which % self.others().count().max(1))
    }

    fn forget(&mut self, number: usize) -> u64 {
        let (handle, deadline) = self
            .handles
            .remove(&number)
            .expect("a key came twice, or from nowhere");
        self.stale.push(handle);
        self.order.remove(&(deadline, number));
        deadline
    }

    fn cancel(&mut self, number: usize) {
        let key = self
            .wheel
            .cancel(self.handles[&number].0)
            .expect("it is armed");
        assert_eq!(key.number, number);
        self.forget(number);
    }

    fn shift(&mut self, number: usize, deadline: u64) {
        let (handle, old) = self.handles[&number];
        assert!(self.wheel.reschedule(handle, deadline));
        let deadline = self.hold(deadline);
        self.order.remove(&(old, number));
        self.order.insert((deadline, number));
        self.handles.insert(number, (handle, deadline));
    }

    fn due(&self) -> usize {
        self.order.range(..=(self.now, usize::MAX)).count()
    }

    /// What the wheel has given: at its deadline, and no earlier one is left behind.
    fn given(&mut self, deadline: u64, number: usize) {
        assert_eq!(self.forget(number), deadline);
        assert!(deadline <= self.now, "early");
        assert!(
            deadline >= self.last
                && self
                    .order
                    .first()
                    .is_none_or(|&(first, _)| first >= deadline),
            "out of order"
        );
        self.last = deadline;
    }

    fn advance(&mut self, now: u64, limit: usize) {
        self.move_to(now);
        let due = self.due();
        let mut came = Vec::new();
        let more = self.wheel.advance(now, limit, |deadline, key| {
            came.push((deadline, key.number))
        });
        assert_eq!((came.len(), more), (due.min(limit), due > limit));
        came.into_iter()
            .for_each(|(deadline, number)| self.given(deadline, number));
    }

    fn pop_due(&mut self, now: u64) {
        self.move_to(now);
        let popped = self.wheel.pop_due(now);
        assert_eq!(popped.is_some(), self.due() > 0);
        if let Some((deadline, key)) = popped {
            self.given(deadline, key.number);
        }
    }

    fn follow(&mut self) {
        let Some(next) = self.wheel.next_deadline() else {
            return;
        };
        let before = self.due();
        self.advance(next, usize::MAX);
        // Nothing came: then it knows better now.
        assert!(
            before > 0 || self.wheel.next_deadline().is_none_or(|later| later > next),
            "the wheel wakes twice at {next}"
        );
    }

    fn reserve(&mut self, additional: usize) {
        let before = self.wheel.capacity();
        self.wheel.reserve(additional);
        let capacity = self.wheel.capacity();
        assert!(capacity >= before && capacity >= self.order.len() + additional);
    }

    fn empty(&mut self, drain: bool) {
        let capacity = self.wheel.capacity();
        if drain {
            let mut drained: Vec<_> = self
                .wheel
                .drain()
                .iter()
                .map(|(deadline, key)| (*deadline, key.number))
                .collect();
            drained.sort_unstable();
            assert!(drained.iter().eq(&self.order));
        } else {
            self.wheel.clear();
        }
        self.stale
            .extend(self.handles.values().map(|(handle, _)| handle));
        self.order.clear();
        self.handles.clear();
        assert_eq!(self.wheel.capacity(), capacity);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(span) => _ = self.insert(span.from(self.now)),
            Step::Burst(timers, span) => {
                (0..timers).for_each(|_| _ = self.insert(span.from(self.now)))
            }
            Step::Cancel(which) => _ = self.pick(which).map(|number| self.cancel(number)),
            Step::CancelMany(which) => {
                let many: Vec<_> = self
                    .others()
                    .skip(which % 10)
                    .step_by(1 + which % 3)
                    .collect();
                many.into_iter().for_each(|number| self.cancel(number));
            }
            Step::Move(which, span) => {
                _ = self
                    .pick(which)
                    .map(|number| self.shift(number, span.from(self.now)))
            }
            Step::Advance(span, limit) => self.advance(span.from(self.now), limit),
            Step::PopDue(span) => self.pop_due(span.from(self.now)),
            Step::ToNext => self.follow(),
            Step::Reserve(additional) => self.reserve(additional),
            Step::Drain => self.empty(true),
            Step::Clear => self.empty(false),
        }
        if self.far.is_some_and(|far| !self.handles.contains_key(&far)) {
            self.far = Some(self.insert(u64::MAX));
        }
    }

    /// Everything that can be asked.
    fn check(&mut self) {
        assert_eq!(
            (self.wheel.now(), self.wheel.len(), self.wheel.is_empty()),
            (self.now, self.order.len(), self.order.is_empty())
        );
        let (next, first) = (self.wheel.next_deadline(), self.order.first());
        assert_eq!(next.is_none(), first.is_none());
        assert!(
            next.zip(first)
                .is_none_or(|(next, &(first, _))| next <= first),
            "{next:?} is after {first:?}"
        );
        let peeked = self.wheel.peek().map(|handle| self.wheel.deadline(handle));
        assert_eq!(peeked, first.map(|&(first, _)| Some(first)));
        assert!(self.wheel.capacity() >= self.wheel.len());
        if let Some(number) = self.pick(self.stale.len()) {
            let (handle, deadline) = self.handles[&number];
            assert_eq!(self.wheel.deadline(handle), Some(deadline));
            assert_eq!(self.wheel.get(handle).map(|key| key.number), Some(number));
            assert_eq!(
                self.wheel.get_mut(handle).map(|key| key.number),
                Some(number)
            );
        }
        for &handle in self.stale.iter().rev().step_by(7).take(20) {
            assert!(
                self.wheel.get(handle).is_none()
                    && self.wheel.get_mut(handle).is_none()
                    && self.wheel.deadline(handle).is_none()
            );
            assert!(
                self.wheel.cancel(handle).is_none() && !self.wheel.reschedule(handle, self.now + 1)
            );
        }
    }
}

#[test]
fn does_what_an_ordered_set_does() {
    let sequences = (
        prop::bool::weighted(0.9),
        prop::collection::vec(step(), 1..300),
        any::<bool>(),
    );
    for start in starts() {
        let config = ProptestConfig {
            cases: 3,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(config).run(&sequences, |(has_far, steps, drop_all)| {
            let mut world = World::new(start, has_far);
            for step in steps {
                world.step(step);
                world.check();
            }
            let listed: BTreeMap<_, _> = world
                .wheel
                .iter()
                .map(|(handle, deadline, key)| (key.number, (handle, deadline)))
                .collect();
            prop_assert!(listed == world.handles);
            if !drop_all {
                world.advance(u64::MAX, usize::MAX);
                prop_assert!(world.wheel.is_empty() && world.wheel.next_deadline().is_none());
            }
            let World { wheel, drops, .. } = world;
            drop(wheel);
            prop_assert!(
                drops.borrow().iter().all(|&times| times == 1),
                "a key was dropped twice or never"
            );
            Ok(())
        });
        outcome.unwrap_or_else(|why| panic!("from {start}: {why}"));
    }
}

#[test]
fn every_edge_from_every_edge() {
    let around =
        |level: u32| (-1i64..=1).map(move |off| (1u64 << (8 * level)).saturating_add_signed(off));
    let edges: Vec<u64> = (0..7)
        .flat_map(around)
        .chain([0, TICK_MAX - 1, TICK_MAX, u64::MAX])
        .collect();
    for &start in &edges {
        // One jump over all, or from edge to edge.
        for stops in [&edges[..0], &edges[..]] {
            let mut wheel = Wheel::new(start);
            edges
                .iter()
                .for_each(|&deadline| _ = wheel.insert(deadline, deadline));
            let mut expected: Vec<_> = edges
                .iter()
                .map(|&deadline| (deadline.max(start).min(TICK_MAX), deadline))
                .collect();
            let mut came = Vec::new();
            for &stop in stops.iter().chain([&u64::MAX]) {
                assert!(
                    !wheel.advance(stop, usize::MAX, |deadline, key| came.push((deadline, key)))
                );
                assert!(
                    came.last()
                        .is_none_or(|&(deadline, _)| deadline <= wheel.now()),
                    "early"
                );
            }
            assert!(
                came.is_sorted_by_key(|&(deadline, _)| deadline),
                "out of order from {start}"
            );
            came.sort_unstable();
            expected.sort_unstable();
            assert_eq!(came, expected);
        }
    }
}

/// Beyond 262,144 timers slots have further lists: each timer still comes once, at its deadline, in
/// order, while the number goes up and down.
#[test]
fn many_timers_come_as_few_do() {
    const MANY: usize = 300_000;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut wheel = Wheel::with_capacity(0, MANY / 2);
    // By key: handle and deadline of the timers that are pending.
    let mut pending: Vec<Option<(Handle, u64)>> = Vec::new();
    for (horizon, steps) in [(1_000, 40), (60_000, 300), (20_000_000, 50)] {
        let begin = wheel.now();
        while wheel.len() < MANY {
            let deadline = begin + rng.u64(..horizon);
            pending.push(Some((wheel.insert(deadline, pending.len()), deadline)));
        }
        for key in (0..pending.len()).filter(|key| key % 3 != 0) {
            let Some((handle, deadline)) = &mut pending[key] else {
                continue;
            };
            if key % 3 == 1 {
                assert_eq!(wheel.cancel(*handle), Some(key));
                pending[key] = None;
            } else {
                *deadline = begin + rng.u64(..horizon);
                assert!(wheel.reschedule(*handle, *deadline));
            }
        }
        for step in 1..=steps {
            // Many again half the way.
            while step == steps / 2 && wheel.len() < MANY {
                let deadline = wheel.now() + rng.u64(..2 * horizon);
                pending.push(Some((wheel.insert(deadline, pending.len()), deadline)));
            }
            let now = begin + horizon * step / steps;
            let (mut last, before) = (0, wheel.len());
            let mut came = 0;
            assert!(!wheel.advance(now, usize::MAX, |deadline, key| {
                assert!((last..=now).contains(&deadline));
                let timer = pending[key].take();
                assert_eq!(timer.map(|(_, deadline)| deadline), Some(deadline));
                last = deadline;
                came += 1;
            }));
            assert_eq!(wheel.len(), before - came);
            if step % 10 == 0 {
                let first = pending
                    .iter()
                    .flatten()
                    .map(|&(_, deadline)| deadline)
                    .min();
                assert!(first.is_none_or(|first| first > now));
                let next = wheel.next_deadline();
                assert!(next.is_none() == first.is_none() && next <= first);
                let peeked = wheel.peek().and_then(|handle| wheel.deadline(handle));
                assert_eq!(peeked, first);
            }
        }
        pending.retain(Option::is_some);
        let keys: Vec<_> = wheel.drain();
        assert_eq!(keys.len(), pending.len());
        pending.clear();
    }
}

#[test]
fn a_limit_is_kept_to_the_timer() {
    for limit in [0, 1, 2, 62, 63, 64, 126, 127, 199, 200, 201, usize::MAX] {
        let mut wheel = Wheel::new(0);
        (0..200).for_each(|key| _ = wheel.insert(5 + key / 150, key));
        let mut came = 0;
        assert_eq!(wheel.advance(100, limit, |_, _| came += 1), limit < 200);
        assert_eq!((came, wheel.len()), (limit.min(200), 200 - limit.min(200)));
    }
}

#[test]
fn what_waits_behind_a_limit_can_be_cancelled_and_moved() {
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (0..10).map(|key| wheel.insert(5, key)).collect();
    assert!(wheel.advance(8, 1, |deadline, _| assert_eq!(deadline, 5)));
    let waiting: Vec<_> = handles
        .into_iter()
        .filter(|&handle| wheel.get(handle).is_some())
        .collect();
    let (cancelled, moved, pulled) = (waiting[0], waiting[1], waiting[2]);
    assert!(wheel.cancel(cancelled).is_some());
    assert!(wheel.reschedule(moved, 9));
    assert!(wheel.reschedule(pulled, 2));
    assert_eq!(wheel.deadline(pulled), Some(8), "held at the present");
    let mut deadlines = Vec::new();
    assert!(!wheel.advance(8, 100, |deadline, _| deadlines.push(deadline)));
    assert_eq!(deadlines, [5, 5, 5, 5, 5, 5, 8]);
    assert_eq!((wheel.len(), wheel.next_deadline()), (1, Some(9)));
}

#[test]
fn the_next_deadline_is_exact_but_for_the_cases_it_names() {
    let mut wheel = Wheel::new(77);
    for deadline in [u64::MAX, 1 << 50, 90_000_000, 70_001, 70_000, 400, 78] {
        wheel.insert(deadline, deadline);
        assert_eq!(wheel.next_deadline(), Some(deadline.min(TICK_MAX)));
    }
    while let Some(next) = wheel.next_deadline() {
        assert!(!wheel.advance(next - 1, usize::MAX, |_, key| panic!("{key} came early")));
        assert_eq!(
            wheel.pop_due(next).map(|(deadline, _)| deadline),
            Some(next)
        );
    }
    // One that was armed for an earlier tick was pulled before it, and is gone: another one of its
    // slot is left.
    let mut wheel = Wheel::new(0);
    let (pulled, _stays) = (wheel.insert(300, "pulled"), wheel.insert(400, "stays"));
    assert!(wheel.reschedule(pulled, 100));
    assert_eq!(wheel.pop_due(100), Some((100, "pulled")));
    let next = wheel.next_deadline().expect("one is there");
    assert!((101..=400).contains(&next) && wheel.pop_due(next).is_none() == (next < 400));
    wheel.advance(399, 1, |_, _| panic!("it is not due"));
    assert_eq!(wheel.next_deadline(), Some(400));
    // The timer that came first is gone, and one is put off: a wake-up for nothing at the most.
    let mut wheel = Wheel::new(0);
    let (gone, put_off) = (wheel.insert(30, "gone"), wheel.insert(60, "put off"));
    wheel.cancel(gone);
    wheel.reschedule(put_off, 90);
    assert!(
        wheel
            .next_deadline()
            .is_some_and(|next| (30..=90).contains(&next))
    );
    assert!(!wheel.advance(60, 1, |_, _| panic!("it is put off")));
    assert_eq!(wheel.next_deadline(), Some(90));
    // Many in one slot of an upper level: around its start, 512.
    let mut wheel = Wheel::new(0);
    (0..5_000).for_each(|key| _ = wheel.insert(600, key));
    while let Some(next) = wheel.next_deadline().filter(|&next| next < 600) {
        assert!((500..=512).contains(&next), "{next}");
        assert!(!wheel.advance(next, 1, |_, _| panic!("early")));
        assert!(wheel.next_deadline() > Some(next));
    }
    assert_eq!(wheel.next_deadline(), Some(600));
}

#[test]
fn the_first_timer_is_found_wherever_it_lies() {
    // In a large slot, cascaded ahead of time or not; in a slot of an upper level; given out and
    // beyond a limit; moved away from the place where its entry lies.
    let mut wheel = Wheel::new(0);
    (0..5_000).for_each(|key| _ = wheel.insert(700 - key % 100, key));
    let (soon, late) = (wheel.insert(600, 5_000), wheel.insert(70_000, 5_001));
    for now in [0, 1, 510, 511, 512, 599] {
        assert!(!wheel.advance(now, usize::MAX, |_, _| panic!("early")));
        assert_eq!(wheel.peek(), Some(soon), "at {now}");
    }
    assert!(wheel.reschedule(soon, 602));
    let first = wheel.peek().and_then(|first| wheel.deadline(first));
    assert_eq!(first, Some(601));
    assert!(wheel.advance(650, 10, |deadline, _| assert_eq!(deadline, 601)));
    let first = wheel.peek().and_then(|first| wheel.deadline(first));
    assert_eq!(first, Some(601), "what waits behind the limit");
    assert!(wheel.reschedule(late, 0));
    assert!(!wheel.advance(700, usize::MAX, |_, _| ()));
    assert_eq!(wheel.peek(), None);
    // Dead entries, and entries of timers that were put off, hide nothing.
    let mut wheel = Wheel::new(0);
    let put_off: Vec<_> = (0..300).map(|key| wheel.insert(1 + key, key)).collect();
    let last = wheel.insert(1_000_000, 300);
    for (key, handle) in put_off.into_iter().enumerate() {
        assert_eq!(wheel.peek(), Some(handle));
        if key % 2 == 0 {
            assert!(wheel.reschedule(handle, 2_000_000));
        } else {
            assert!(wheel.cancel(handle).is_some());
        }
    }
    assert_eq!(wheel.peek(), Some(last));
}

#[test]
fn a_closure_that_panics_costs_its_own_key() {
    let drops = Drops::default();
    let mut wheel = Wheel::new(0);
    (0..100).for_each(|_| _ = wheel.insert(1, key(&drops)));
    let advance = || {
        wheel.advance(1, usize::MAX, |_, key| {
            assert!(key.number != 70, "on purpose")
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(advance)).is_err());
    let left = wheel.len();
    let mut came = 0;
    assert!(!wheel.advance(1, usize::MAX, |_, _| came += 1));
    assert_eq!(came, left);
    assert!(drops.borrow().iter().all(|&times| times == 1));
}

#[test]
fn the_same_calls_give_the_same_order() {
    let run = || {
        let mut wheel = Wheel::new(0);
        let handles: Vec<_> = (0..5_000u64)
            .map(|key| wheel.insert(1 + key * key % 1_000, key))
            .collect();
        handles
            .iter()
            .step_by(3)
            .for_each(|&handle| _ = wheel.cancel(handle));
        handles
            .iter()
            .step_by(4)
            .for_each(|&handle| _ = wheel.reschedule(handle, 500));
        let mut came = Vec::new();
        (0..=1_000)
            .step_by(7)
            .for_each(|now| while wheel.advance(now, 5, |_, key| came.push(key)) {});
        came
    };
    assert_eq!(run(), run());
}

#[test]
fn a_wheel_goes_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Wheel<Box<u32>>>();
    assert_eq!((size_of::<Handle>(), size_of::<Option<Handle>>()), (8, 8));
    let mut wheel = Wheel::new(3);
    wheel.insert(9, is_send::<u32> as fn());
    assert_eq!(
        format!("{wheel:?}"),
        "Wheel { now: 3, len: 1, next_deadline: Some(9), .. }"
    );
}
