//! The public wheel against an ordered set of deadlines: each key comes out once, at its deadline,
//! in order, as many as asked for; handles of any age tell the truth.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::rc::Rc;
use wheelwork::wheel::{Handle, Wheel};
use wheelwork_fuzz::Span;

const TICK_MAX: u64 = (1 << 52) - 1;

/// Timers of one input: more than a slot cascades at once, few enough for many inputs a second.
const TIMERS_MAX: usize = 6_000;

#[derive(Arbitrary, Debug)]
struct Input {
    start: Span,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Insert(Span),
    /// `2^n` timers of one deadline.
    Burst(u8, Span),
    /// The timer that was armed so many ago, dead or alive. So below.
    Cancel(u16),
    /// Of the last so many timers, each at this distance.
    CancelMany(u16, u8),
    Reschedule(u16, Span),
    Look(u16),
    Advance(Span, Option<u8>),
    PopDue(Span),
    ToNext,
    List,
    Drain,
    Clear,
}

/// Its number, and a share of the token: so many are there as keys are alive.
struct Key(usize, #[expect(dead_code, reason = "it is counted")] Rc<()>);

/// A wheel, and what should be in it.
struct World {
    wheel: Wheel<Key>,
    now: u64,
    /// Deadlines and numbers of keys.
    order: BTreeSet<(u64, usize)>,
    /// Every timer that there ever was, by number; without a deadline it is gone.
    timers: Vec<(Handle, Option<u64>)>,
    /// The deadline that came last.
    last: u64,
    token: Rc<()>,
}

impl World {
    fn new(now: u64) -> Self {
        let now = now.min(TICK_MAX);
        Self {
            wheel: Wheel::new(now),
            now,
            order: BTreeSet::new(),
            timers: Vec::new(),
            last: 0,
            token: Rc::new(()),
        }
    }

    fn move_to(&mut self, now: u64) {
        self.now = self.now.max(now.min(TICK_MAX));
    }

    /// Notes a timer's deadline, which is held between now and the last tick; or that it is gone.
    fn put(&mut self, number: usize, deadline: Option<u64>) {
        let deadline = deadline.map(|deadline| deadline.clamp(self.now, TICK_MAX));
        if let Some(old) = std::mem::replace(&mut self.timers[number].1, deadline) {
            assert!(self.order.remove(&(old, number)));
        }
        self.order
            .extend(deadline.map(|deadline| (deadline, number)));
    }

    fn insert(&mut self, deadline: u64) {
        let number = self.timers.len();
        if number < TIMERS_MAX {
            self.timers.push((
                self.wheel.insert(deadline, Key(number, self.token.clone())),
                None,
            ));
            self.put(number, Some(deadline));
        }
    }

    fn pick(&self, ago: u16) -> Option<usize> {
        (self.timers.len().checked_sub(1)?).checked_sub(usize::from(ago) % self.timers.len())
    }

    fn cancel(&mut self, number: usize) {
        let (handle, deadline) = self.timers[number];
        assert_eq!(
            self.wheel.cancel(handle).map(|key| key.0),
            deadline.map(|_| number)
        );
        self.put(number, None);
    }

    fn reschedule(&mut self, number: usize, to: u64) {
        let (handle, deadline) = self.timers[number];
        assert_eq!(self.wheel.reschedule(handle, to), deadline.is_some());
        self.put(number, deadline.map(|_| to));
    }

    fn look(&mut self, number: usize) {
        let (handle, deadline) = self.timers[number];
        assert_eq!(self.wheel.deadline(handle), deadline);
        assert_eq!(
            self.wheel.get(handle).map(|key| key.0),
            deadline.map(|_| number)
        );
        assert_eq!(
            self.wheel.get_mut(handle).map(|key| key.0),
            deadline.map(|_| number)
        );
    }

    fn due(&self) -> usize {
        self.order.range(..=(self.now, usize::MAX)).count()
    }

    /// What the wheel has given: at its deadline, and no earlier one is left behind.
    fn given(&mut self, deadline: u64, number: usize) {
        assert_eq!(
            self.timers[number].1,
            Some(deadline),
            "it came twice, or at another deadline"
        );
        assert!(deadline <= self.now, "early");
        assert!(
            deadline >= self.last
                && self
                    .order
                    .first()
                    .is_some_and(|&(first, _)| first >= deadline),
            "out of order"
        );
        self.last = deadline;
        self.put(number, None);
    }

    fn advance(&mut self, now: u64, limit: usize) {
        self.move_to(now);
        let due = self.due();
        let mut came = Vec::new();
        let more = self
            .wheel
            .advance(now, limit, |deadline, key| came.push((deadline, key.0)));
        assert_eq!((came.len(), more), (due.min(limit), due > limit));
        came.into_iter()
            .for_each(|(deadline, number)| self.given(deadline, number));
    }

    fn pop_due(&mut self, now: u64) {
        self.move_to(now);
        let popped = self.wheel.pop_due(now);
        assert_eq!(popped.is_some(), self.due() > 0);
        popped
            .into_iter()
            .for_each(|(deadline, key)| self.given(deadline, key.0));
    }

    /// To the tick that the wheel names.
    fn follow(&mut self) {
        let Some(next) = self.wheel.next_deadline() else {
            return;
        };
        let before = self.order.len();
        self.advance(next, usize::MAX);
        assert!(
            self.order.len() < before || self.wheel.next_deadline() > Some(next),
            "nothing came, and it does not know better now"
        );
    }

    fn list(&self) {
        let mut listed: Vec<_> = self
            .wheel
            .iter()
            .map(|(handle, deadline, key)| (deadline, key.0, handle))
            .collect();
        listed.sort_unstable_by_key(|&(deadline, number, _)| (deadline, number));
        assert!(
            listed
                .into_iter()
                .eq(self.order.iter().map(|&(deadline, number)| (
                    deadline,
                    number,
                    self.timers[number].0
                )))
        );
    }

    fn drain(&mut self) {
        let mut drained: Vec<_> = self
            .wheel
            .drain()
            .iter()
            .map(|(deadline, key)| (*deadline, key.0))
            .collect();
        drained.sort_unstable();
        assert!(drained.into_iter().eq(self.order.iter().copied()));
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.order.clear();
        self.timers.iter_mut().for_each(|timer| timer.1 = None);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(span) => self.insert(span.tick(self.now)),
            Step::Burst(log, span) => {
                (0..1 << (log % 13)).for_each(|_| self.insert(span.tick(self.now)))
            }
            Step::Cancel(ago) => _ = self.pick(ago).map(|number| self.cancel(number)),
            Step::CancelMany(last, each) => {
                let last = self.timers.len().saturating_sub(last.into())..self.timers.len();
                last.step_by(usize::from(each) + 1)
                    .for_each(|number| self.cancel(number));
            }
            Step::Reschedule(ago, span) => {
                _ = self
                    .pick(ago)
                    .map(|number| self.reschedule(number, span.tick(self.now)))
            }
            Step::Look(ago) => _ = self.pick(ago).map(|number| self.look(number)),
            Step::Advance(span, limit) => {
                self.advance(span.tick(self.now), limit.map_or(usize::MAX, usize::from))
            }
            Step::PopDue(span) => self.pop_due(span.tick(self.now)),
            Step::ToNext => self.follow(),
            Step::List => self.list(),
            Step::Drain => self.drain(),
            Step::Clear => {
                self.wheel.clear();
                self.forget_all();
            }
        }
    }

    /// What is to be true between any two calls.
    fn check(&self) {
        assert_eq!(
            (self.wheel.now(), self.wheel.len(), self.wheel.is_empty()),
            (self.now, self.order.len(), self.order.is_empty())
        );
        assert_eq!(
            Rc::strong_count(&self.token),
            1 + self.order.len(),
            "a key was dropped twice, or not at all"
        );
        let (next, first) = (self.wheel.next_deadline(), self.order.first());
        assert_eq!(next.is_some(), first.is_some());
        assert!(
            next.zip(first)
                .is_none_or(|(next, &(first, _))| next <= first),
            "{next:?} is after {first:?}"
        );
        let peeked = self.wheel.peek().map(|handle| self.wheel.deadline(handle));
        assert_eq!(peeked, first.map(|&(first, _)| Some(first)));
    }
}

fuzz_target!(|input: Input| {
    let mut world = World::new(input.start.tick(0));
    for step in input.steps {
        world.step(step);
        world.check();
    }
    world.list();
    world.advance(u64::MAX, usize::MAX);
    world.check();
    assert!(world.wheel.is_empty());
});
