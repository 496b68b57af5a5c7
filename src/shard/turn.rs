//! Turn: one pass of a shard as a step without waiting. Drain the lanes into the wheel, advance the wheel, dispatch what is due.

use super::nursery::Nursery;
use super::{Count, Counters};
use crate::dispatch::{BATCH, Batch, Dispatcher};
use crate::entry::Entry;
use crate::lane::{Drain, Told};
use crate::sync::{Fault, broken};
use crate::time::TickLength;
use crate::wheel::EntryWheel;
use std::cell::Cell;
use std::sync::Arc;

/// Entries dispatched before the lanes are drained again.
const TURN_MAX: usize = 64 * BATCH;

/// So many messages wait in a drain for what was asked for.
const AHEAD: usize = 16;

/// With so many pairs of an insert and its tombstone in a drain, inserts may be recalled for some drains. That saves some 10 ns of a pair, and costs a drain a heavy fence: with
/// one a millisecond, two threads that re-armed timers, and recalled none, took 3 % longer.
const PAIRS_RECALLED: u64 = if cfg!(loom) { 1 } else { 512 };

/// For so many drains.
const DRAINS_RECALLED: u32 = 8;

/// Records of large slots that a shard moves in a millisecond, ahead of time. They take some 0.2 ms of it.
const CASCADED_PER_MS: u64 = 16_384;

/// The same for a tick.
pub(crate) fn pace(tick: TickLength) -> u64 {
    (CASCADED_PER_MS * tick.nanos() / 1_000_000).max(1)
}

pub(crate) struct Shard {
    tick: TickLength,
    lanes: Drain<Entry>,
    nursery: Nursery,
    /// Drains until inserts are not recalled any more.
    drains_recalled: u32,
    /// Empty between drains.
    line: Line,
    wheel: EntryWheel,
    batch: Batch,
    dispatcher: Box<dyn Dispatcher>,
    counters: Arc<Counters>,
}

/// What a turn found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The time of the turn.
    pub(crate) now_ns: u64,
    /// Messages taken from the lanes.
    pub(crate) drained: u64,
    /// Entries dispatched.
    pub(crate) dispatched: usize,
    /// More is due already, or to be cascaded, or there is memory to give back.
    pub(crate) more: bool,
    /// More is due, but the dispatcher has no room: the workers have to catch up first.
    pub(crate) held: bool,
    /// What was dispatched has to be looked after.
    pub(crate) look: bool,
}

/// Messages on their way into the wheel: what one needs there is asked for some messages before it is its turn.
struct Line {
    waiting: [Entry; AHEAD],
    /// The place of the one that has waited longest.
    next: usize,
}

impl Line {
    const EMPTY: Self = Self { waiting: [Entry::NONE; AHEAD], next: 0 };

    #[inline]
    fn pass(&mut self, message: Entry, wheel: &mut EntryWheel) {
        wheel.prefetch(message);
        self.turn(message, wheel);
    }

    /// Files all that wait.
    fn leave(&mut self, wheel: &mut EntryWheel) {
        (0..AHEAD).for_each(|_| self.turn(Entry::NONE, wheel));
    }

    #[inline]
    fn turn(&mut self, message: Entry, wheel: &mut EntryWheel) {
        let first = std::mem::replace(&mut self.waiting[self.next], message);
        self.next = (self.next + 1) % AHEAD;
        if first != Entry::NONE {
            wheel.file(first);
        }
    }
}

impl Shard {
    pub(crate) fn new(
        tick: TickLength,
        lanes: Drain<Entry>,
        now: u64,
        pace: u64,
        dispatcher: Box<dyn Dispatcher>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            tick,
            lanes,
            nursery: Nursery::new(),
            drains_recalled: 0,
            line: Line::EMPTY,
            wheel: EntryWheel::new(now, pace),
            batch: Vec::with_capacity(BATCH),
            dispatcher,
            counters,
        }
    }

    /// Moves what waits in the lanes into the wheel, but for inserts whose tombstones wait there too. Returns how many messages. Runs no user code.
    pub(crate) fn drain(&mut self, now_ns: impl Fn() -> u64) -> u64 {
        let (tick, claimed_ns) = (self.tick, Cell::new(0));
        let (wheel, nursery, line) = (&mut self.wheel, &mut self.nursery, &mut self.line);
        let ahead = wheel.prefetches();
        let mut file = |message| if ahead { line.pass(message, wheel) } else { wheel.file(message) };
        let too_early_ns = if broken(Fault::DoubtReadTooEarly) { Some(now_ns()) } else { None };
        // Some processors may read their clock that much before the load that it comes after (G5).
        let claimed = || claimed_ns.set(too_early_ns.unwrap_or_else(&now_ns) + 1_000);
        let found = self.lanes.drain(claimed, |message, told| {
            let message = match told {
                Told::Came => message,
                // Its deadline is right if it was armed by then. It was armed before it was claimed. See `service::reading`.
                Told::InDoubt(good_ns) => message.delayed(tick.deadline(claimed_ns.get().saturating_sub(good_ns))),
                Told::Recalled => message.tombstone(),
            };
            nursery.pass(message, &mut file);
        });
        if found.messages > 0 {
            nursery.leave(file);
            if ahead {
                line.leave(wheel);
            }
            self.counters.add(Count::Drained, found.messages);
            let pairs = found.recalled + nursery.take_annihilated();
            self.counters.add(Count::Annihilated, pairs);
            self.drains_recalled = if pairs >= PAIRS_RECALLED { DRAINS_RECALLED } else { self.drains_recalled.saturating_sub(1) };
            self.lanes.let_recall(self.drains_recalled > 0);
        }
        found.messages
    }

    /// One turn: what was pushed before it is in the wheel, what is due by then is dispatched.
    pub(crate) fn turn(&mut self, now_ns: impl Fn() -> u64 + Copy) -> Turn {
        let drained = self.drain(now_ns);
        // The clock after the drain: what is drained may be due at once.
        let now_ns = now_ns();
        let now = self.tick.floor(now_ns);
        let (batch, dispatcher) = (&mut self.batch, &mut self.dispatcher);
        // What there was no room for last time.
        if !batch.is_empty() {
            dispatcher.submit(batch);
        }
        let (mut dispatched, room) = (0, if batch.is_empty() { dispatcher.room() } else { 0 });
        let more = self.wheel.advance(now, TURN_MAX.min(room), |entries| {
            dispatched += entries.len();
            // The next stage has buffers for as many.
            if batch.len() + entries.len() > BATCH {
                dispatcher.submit(batch);
            }
            batch.extend_from_slice(entries);
        });
        if !batch.is_empty() {
            dispatcher.submit(batch);
        }
        let look = dispatcher.look();
        self.counters.add(Count::Turns, 1);
        if dispatched > 0 {
            self.counters.add(Count::Dispatched, dispatched as u64);
        }
        self.count_wheel();
        let held = !self.batch.is_empty() || more && room <= dispatched;
        self.counters.add(Count::Held, u64::from(held));
        // One in a turn; when it is quiet turns follow at once. Not while a burst goes on.
        let is_more_to_trim = (!more || dispatched == 0) && self.wheel.trim();
        Turn { now_ns, drained, dispatched, more: more || held || is_more_to_trim && dispatched == 0, held, look }
    }

    fn count_wheel(&self) {
        self.counters.set(Count::Cascaded, self.wheel.cascaded());
        self.counters.set(Count::Compactions, self.wheel.compactions());
        self.counters.set(Count::Holes, self.wheel.holes());
        self.counters.set(Count::Due, self.wheel.due());
        self.counters.set_levels(&self.wheel.levels());
        self.counters.set(Count::NextEvent, self.wheel.next_event().map_or(0, |tick| tick + 1));
    }

    /// The next tick at which a turn has something to do, apart from what comes through the lanes.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.wheel.next_event()
    }

    /// Whether a turn would find something in the lanes.
    pub(crate) fn has_messages(&self) -> bool {
        self.lanes.has_messages()
    }

    /// Before a long sleep: no dead entry shall end it, no buffer shall be kept through it. Whether there is more to do.
    pub(crate) fn settle(&mut self) -> bool {
        self.lanes.trim();
        let more = self.wheel.settle() || self.wheel.trim();
        self.count_wheel();
        more
    }

    /// In a long quiet: little shall lie through it that nobody needs. Whether there is more to do.
    pub(crate) fn tidy(&mut self) -> bool {
        let more = self.wheel.tidy() || self.wheel.trim();
        self.count_wheel();
        more
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lane::{Inbox, Sender};
    use std::sync::Mutex;

    const MS: u64 = 1_000_000;

    /// Keeps what is due, as long as there is room.
    #[derive(Clone)]
    struct Kept {
        due: Arc<Mutex<Vec<u32>>>,
        room: Arc<Mutex<usize>>,
    }

    impl Kept {
        fn new() -> Self {
            Self { due: Arc::default(), room: Arc::new(Mutex::new(usize::MAX)) }
        }

        /// A shard that has it, and a lane to it.
        fn shard(&self) -> (Shard, Sender<Entry>) {
            let (inbox, drain) = Inbox::new();
            (Shard::new(TickLength::new(MS), drain, 0, 1_000, Box::new(self.clone()), Arc::default()), inbox.attach())
        }
    }

    impl Dispatcher for Kept {
        fn room(&self) -> usize {
            *self.room.lock().unwrap()
        }

        fn submit(&mut self, batch: &mut Batch) {
            assert!(batch.len() <= BATCH);
            self.due.lock().unwrap().extend(batch.drain(..).map(Entry::cell));
        }
    }

    /// By as much as the drain comes after the time until which its deadline is right, rounded up to ticks.
    #[test]
    fn what_is_in_doubt_is_filed_later() {
        let kept = Kept::new();
        let (mut shard, mut lane) = kept.shard();
        // The drain's time counts a microsecond more.
        let drained_ns = 50 * MS - 1_000;
        for (cell, good_ns) in [(1, 50 * MS), (2, 50 * MS - 1), (3, 49 * MS), (4, 49 * MS - 1), (5, u64::MAX), (6, 0)] {
            lane.settle_doubts(false);
            // A group of its own each.
            lane.push_in_doubt(Entry::new(100, cell, 0), good_ns);
            (1..64).for_each(|_| _ = lane.push(Entry::new(100, cell + 1_000, 0)));
            lane.push_in_doubt(Entry::new(100, cell + 2_000, 0).tombstone(), good_ns);
            (1..64).for_each(|_| _ = lane.push(Entry::new(100, cell + 1_000, 0)));
        }
        let mut due = |now_ns| {
            let turn = shard.turn(|| now_ns);
            assert_eq!(turn.now_ns, now_ns);
            let mut due = std::mem::take(&mut *kept.due.lock().unwrap());
            due.retain(|&cell| cell < 1_000);
            due.sort_unstable();
            due
        };
        assert_eq!(due(drained_ns), []);
        assert_eq!(due(100 * MS - 1), []);
        assert_eq!((due(100 * MS), due(101 * MS), due(102 * MS)), (vec![1, 5], vec![2, 3], vec![4]));
        assert_eq!((due(150 * MS - 1), due(150 * MS)), (vec![], vec![6]));
    }

    /// Whether a turn dispatches something, whether it leaves more to do, and whether that is held.
    fn turn(shard: &mut Shard, now: u64) -> (bool, bool, bool) {
        let turn = shard.turn(|| now * MS);
        (turn.dispatched > 0, turn.more, turn.held)
    }

    /// Not before the burst is over; then turns follow at once until all of it has. They leave nothing that is due, whether there is room or not.
    #[test]
    fn the_memory_of_a_burst_goes_back_after_it() {
        let kept = Kept::new();
        let (mut shard, mut lane) = kept.shard();
        (0..4 * TURN_MAX as u32).for_each(|cell| _ = lane.push(Entry::new(100, cell, 0)));
        assert_eq!(turn(&mut shard, 0), (false, false, false));
        let slabs = shard.wheel.slabs();
        for left in [true, true, true, false] {
            assert_eq!(shard.wheel.slabs(), slabs);
            assert_eq!(turn(&mut shard, 100), (true, left, false));
        }
        *kept.room.lock().unwrap() = 0;
        assert!(slabs > 10);
        for left in (1..slabs - 1).rev() {
            assert_eq!((turn(&mut shard, 100), shard.wheel.slabs()), ((false, left > 1, false), left));
        }
    }

    /// However the slices come that it is put together from. `Kept` looks at its length.
    #[test]
    fn no_batch_is_longer_than_its_buffers() {
        for first in 1..100 {
            let kept = Kept::new();
            let (mut shard, mut lane) = kept.shard();
            (0..first).for_each(|cell| _ = lane.push(Entry::new(1, cell, 0)));
            (first..3_000).for_each(|cell| _ = lane.push(Entry::new(2, cell, 0)));
            assert_eq!((turn(&mut shard, 0), turn(&mut shard, 2)), ((false, false, false), (true, false, false)));
            assert_eq!(kept.due.lock().unwrap().len(), 3_000);
        }
    }

    /// Where workers are blocked, cancelled timers' memory does not wait for them.
    #[test]
    fn a_held_shard_gives_memory_back() {
        let kept = Kept::new();
        let (mut shard, mut lane) = kept.shard();
        let far = |cell: u32| Entry::new(1_000 + u64::from(cell % 60_000), cell, 1);
        _ = lane.push(Entry::new(100, 0, 1));
        (1..400_000).for_each(|cell| _ = lane.push(far(cell)));
        assert_eq!(turn(&mut shard, 0), (false, false, false));
        *kept.room.lock().unwrap() = 0;
        assert!(shard.wheel.slabs() > 15);
        (1..400_000).for_each(|cell| _ = lane.push(far(cell).tombstone()));
        (0..500).for_each(|_| assert_eq!(turn(&mut shard, 100), (false, true, true)));
        assert!(shard.wheel.slabs() < 8, "{} slabs left", shard.wheel.slabs());
        *kept.room.lock().unwrap() = 1;
        while turn(&mut shard, 100).1 {}
        assert_eq!(*kept.due.lock().unwrap(), [0]);
    }

    /// A tombstone overtakes no entry of its lane, and nothing stays behind.
    #[test]
    fn messages_that_wait_come_in_order_and_all() {
        let mut wheel = EntryWheel::new(0, 1_000);
        let mut line = Line::EMPTY;
        let entry = |cell: usize| Entry::new(30_000, cell as u32, 1);
        for (round, messages) in [1, AHEAD - 1, AHEAD, AHEAD + 1, 100].into_iter().enumerate() {
            let from = round * 1_000;
            (from..from + messages).for_each(|cell| line.pass(entry(cell), &mut wheel));
            assert_eq!(wheel.len(), messages.saturating_sub(AHEAD), "{AHEAD} wait");
            line.leave(&mut wheel);
            assert_eq!((wheel.len(), wheel.holes()), (messages, 0));
            assert!(line.waiting.iter().all(|&message| message == Entry::NONE));
            (from..from + messages).for_each(|cell| line.pass(entry(cell).tombstone(), &mut wheel));
            line.leave(&mut wheel);
            // Their slot counts them, or has been compacted.
            wheel.retain(|entry| entry.cell() as usize / 1_000 != round);
            assert_eq!(wheel.len(), 0);
        }
    }
}
