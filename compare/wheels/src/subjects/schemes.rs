//! The schemes of the literature that hang timers in doubly linked lists: they differ in which list
//! a deadline belongs to, and in what a tick does.

use super::Subject;
use super::lists::Lists;
use std::marker::PhantomData;

pub(crate) trait Scheme {
    const LISTS: usize;

    /// Where a deadline belongs.
    fn list(now: u64, deadline: u64) -> usize;

    /// Into its list, at the head.
    fn insert(lists: &mut Lists, now: u64, deadline: u64, key: u64) -> u32 {
        lists.insert(Self::list(now, deadline), deadline, key)
    }

    /// Time has moved on by a tick.
    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64));
}

pub(crate) struct Listed<S> {
    lists: Lists,
    now: u64,
    _scheme: PhantomData<S>,
}

impl<S: Scheme> Subject for Listed<S> {
    type Handle = u32;

    fn new() -> Self {
        Self {
            lists: Lists::new(S::LISTS),
            now: 0,
            _scheme: PhantomData,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        S::insert(&mut self.lists, self.now, deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            self.now += 1;
            S::tick(&mut self.lists, self.now, &mut fire);
        }
    }
}

/// One list without order: an insert or a cancel touches one place, each tick looks at all timers.
pub(crate) type UnorderedList = Listed<Unordered>;

pub(crate) enum Unordered {}

impl Scheme for Unordered {
    const LISTS: usize = 1;

    fn list(_: u64, _: u64) -> usize {
        0
    }

    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64)) {
        lists.fire_due(0, now, fire);
    }
}

/// One list ordered by deadline: an insert goes along it from its head, a tick looks at the head
/// only.
pub(crate) type OrderedList = Listed<Ordered>;

pub(crate) enum Ordered {}

impl Scheme for Ordered {
    const LISTS: usize = 1;

    fn list(_: u64, _: u64) -> usize {
        0
    }

    fn insert(lists: &mut Lists, _: u64, deadline: u64, key: u64) -> u32 {
        let mut before = None;
        let mut next = lists.first(0);
        while let Some(node) = next.filter(|&node| lists.deadline(node) < deadline) {
            (before, next) = (next, lists.next(node));
        }
        lists.insert_after(before, 0, deadline, key)
    }

    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64)) {
        while let Some(node) = lists.first(0).filter(|&node| lists.deadline(node) <= now) {
            fire(lists.remove(node));
        }
    }
}

/// Slots of the wheels of one level.
const SLOTS: u64 = 4_096;

fn slot(deadline: u64) -> usize {
    (deadline % SLOTS) as usize
}

/// A hashed wheel: deadlines of all rounds lie in the slot of their remainder, and each tick looks
/// at all of its slot. A comparison of deadlines tells the rounds apart, in place of a count of
/// rounds in each timer.
pub(crate) type HashedWheel = Listed<Hashed>;

pub(crate) enum Hashed {}

impl Scheme for Hashed {
    const LISTS: usize = SLOTS as usize;

    fn list(_: u64, deadline: u64) -> usize {
        slot(deadline)
    }

    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64)) {
        lists.fire_due(slot(now), now, fire);
    }
}

/// One wheel with a slot for each of the next ticks, and a list without order for what is due after
/// them, which is looked through once a round.
pub(crate) type OneWheel = Listed<One>;

pub(crate) enum One {}

/// The list that comes after the slots.
const OVERFLOW: usize = SLOTS as usize;

impl Scheme for One {
    const LISTS: usize = OVERFLOW + 1;

    fn list(now: u64, deadline: u64) -> usize {
        if deadline < now + SLOTS {
            slot(deadline)
        } else {
            OVERFLOW
        }
    }

    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64)) {
        if now.is_multiple_of(SLOTS) {
            // What is due in the round that begins.
            lists.relink_all(OVERFLOW, |deadline| {
                Some(Self::list(now, deadline)).filter(|&list| list != OVERFLOW)
            });
        }
        lists.fire_all(slot(now), fire);
    }
}

/// A hierarchical wheel whose slots are linked lists: four levels of 256 slots, as wheelwork's
/// lowest ones, one node a timer.
pub(crate) type LinkedWheel = Listed<Linked>;

pub(crate) enum Linked {}

const LEVELS: u32 = 4;
const BITS: u32 = 8;
const LEVEL_SLOTS: u64 = 1 << BITS;

/// The list of a level's slot in which a tick lies.
fn list_of_level(level: u32, tick: u64) -> usize {
    let slot = tick >> (level * BITS) & (LEVEL_SLOTS - 1);
    (u64::from(level) * LEVEL_SLOTS + slot) as usize
}

impl Scheme for Linked {
    const LISTS: usize = LEVELS as usize * LEVEL_SLOTS as usize;

    /// At the level of the highest digit in which it is not `now`'s.
    fn list(now: u64, deadline: u64) -> usize {
        let level = (deadline ^ now).checked_ilog2().unwrap_or(0) / BITS;
        list_of_level(level.min(LEVELS - 1), deadline)
    }

    fn tick(lists: &mut Lists, now: u64, fire: &mut impl FnMut(u64)) {
        // The timers of the slots that `now` enters go lower.
        let levels = (1..LEVELS).rev();
        for level in levels.filter(|level| now.trailing_zeros() >= level * BITS) {
            let entered = list_of_level(level, now);
            lists.relink_all(entered, |deadline| Some(Self::list(now, deadline)));
        }
        lists.fire_all(list_of_level(0, now), fire);
    }
}
