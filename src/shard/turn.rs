//! Turn: one pass of a shard, without waiting. It drains the lanes into the wheel, advances the
//! wheel, and dispatches the due entries.

use super::counters::{Count, Counters};
use super::elimination::EliminationTable;
use super::prefetch_queue::PrefetchQueue;
use crate::dispatch::{BATCH, Dispatcher, EntryBatch, LookAgain};
use crate::entry::Entry;
use crate::entry_wheel::EntryWheel;
use crate::lane::{Arrival, Drain};
use crate::sync::{Fault, broken};
use crate::time::TickLength;
use std::cell::Cell;
use std::sync::Arc;

/// Entries dispatched before the lanes are drained again.
const TURN_MAX: usize = 64 * BATCH;

/// A drain with this many pairs of an insert and its tombstone lets producers recall inserts. A
/// recall saves about 10 ns of a pair, and costs a drain a heavy fence. With one heavy fence a
/// millisecond, two threads that re-armed timers and recalled none took 3 % longer.
const PAIRS_RECALLED: u64 = if cfg!(loom) { 1 } else { 512 };

/// After such a drain, producers may recall inserts during this many drains.
const DRAINS_RECALLED: u32 = 8;

/// Entries of large slots that a shard cascades in a millisecond, ahead of time. They take about
/// 0.2 ms of it.
const CASCADED_PER_MS: u64 = 16_384;

/// Entries of large slots that a shard cascades in a tick.
pub(crate) fn pace(tick: TickLength) -> u64 {
    (CASCADED_PER_MS * tick.nanos() / 1_000_000).max(1)
}

/// A shard. One thread at a time has it.
pub(crate) struct Shard {
    tick: TickLength,
    lanes: Drain<Entry>,
    elimination: EliminationTable,
    /// Drains for which producers may still recall inserts.
    drains_recalled: u32,
    prefetch_queue: PrefetchQueue,
    wheel: EntryWheel,
    /// Due entries that were not submitted yet.
    batch: EntryBatch,
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
    /// More is due, but the dispatcher has no room until the workers catch up.
    pub(crate) held: bool,
    /// The dispatcher has work that the shard has to look after.
    pub(crate) look: LookAgain,
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
            elimination: EliminationTable::new(),
            drains_recalled: 0,
            prefetch_queue: PrefetchQueue::EMPTY,
            wheel: EntryWheel::new(now, pace),
            batch: Vec::with_capacity(BATCH),
            dispatcher,
            counters,
        }
    }

    /// Moves the messages of the lanes into the wheel. An insert whose tombstone waits in the lanes
    /// too goes nowhere. Returns the number of messages. Runs no user code.
    pub(crate) fn drain(&mut self, now_ns: impl Fn() -> u64) -> u64 {
        let (tick, claimed_ns) = (self.tick, Cell::new(0));
        let (wheel, elimination) = (&mut self.wheel, &mut self.elimination);
        let queue = &mut self.prefetch_queue;
        let prefetches = wheel.prefetches();
        let mut accept = |message| {
            if prefetches {
                queue.push(message, wheel)
            } else {
                wheel.accept(message)
            }
        };
        let too_early_ns = if broken(Fault::DoubtReadTooEarly) {
            Some(now_ns())
        } else {
            None
        };
        // ShareFile. A processor may read its clock before a load that precedes it: 1 us covers
        // that.
        let claimed = || claimed_ns.set(too_early_ns.unwrap_or_else(&now_ns) + 1_000);
        let found = self.lanes.drain(claimed, |message, arrival| {
            let message = match arrival {
                Arrival::Came => message,
                // Its deadline is right if it was armed at `good_ns` or before. It was armed before
                // the claim. See `engine::shared_clock`.
                Arrival::InDoubt(good_ns) => {
                    message.delayed(tick.deadline(claimed_ns.get().saturating_sub(good_ns)))
                }
                Arrival::Recalled => message.tombstone(),
            };
            elimination.offer(message, &mut accept);
        });
        if found.messages > 0 {
            elimination.flush(accept);
            if prefetches {
                queue.flush(wheel);
            }
            self.counters.add(Count::Drained, found.messages);
            let pairs = found.recalled + elimination.take_eliminated();
            self.note_pairs(pairs);
        }
        found.messages
    }

    /// Counts pairs that met in a drain, and decides whether producers may recall inserts.
    fn note_pairs(&mut self, pairs: u64) {
        self.counters.add(Count::Eliminated, pairs);
        self.drains_recalled = if pairs >= PAIRS_RECALLED {
            DRAINS_RECALLED
        } else {
            self.drains_recalled.saturating_sub(1)
        };
        self.lanes.let_recall(self.drains_recalled > 0);
    }

    /// Takes one turn. Messages that were pushed before it are in the wheel after it. Entries that
    /// are due by then are dispatched, as far as there is room.
    pub(crate) fn turn(&mut self, now_ns: impl Fn() -> u64 + Copy) -> Turn {
        let drained = self.drain(now_ns);
        // The clock is read after the drain: a drained timer may be due at once.
        let now_ns = now_ns();
        let now = self.tick.floor(now_ns);
        let (batch, dispatcher) = (&mut self.batch, &mut self.dispatcher);
        // Entries for which the last turn had no room.
        if !batch.is_empty() {
            dispatcher.submit(batch);
        }
        let (mut dispatched, room) = (
            0,
            if batch.is_empty() {
                dispatcher.room()
            } else {
                0
            },
        );
        let more = self.wheel.advance(now, TURN_MAX.min(room), |entries| {
            dispatched += entries.len();
            // The dispatcher's buffers hold `BATCH` entries.
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
        // One slab a turn. In a quiet the turns follow at once. Not during a burst.
        let is_more_to_trim = (!more || dispatched == 0) && self.wheel.trim();
        Turn {
            now_ns,
            drained,
            dispatched,
            more: more || held || is_more_to_trim && dispatched == 0,
            held,
            look,
        }
    }

    fn count_wheel(&self) {
        self.counters.set(Count::Cascaded, self.wheel.cascaded());
        self.counters
            .set(Count::Compactions, self.wheel.compactions());
        self.counters.set(Count::Holes, self.wheel.holes());
        self.counters.set(Count::Due, self.wheel.due());
        self.counters.set_levels(&self.wheel.levels());
        self.counters.set(
            Count::NextEvent,
            self.wheel.next_event().map_or(0, |tick| tick + 1),
        );
    }

    /// The next tick at which a turn has something to do, if no messages come.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.wheel.next_event()
    }

    /// Whether a turn would find messages in the lanes.
    pub(crate) fn has_messages(&self) -> bool {
        self.lanes.has_messages()
    }

    /// Prepares a long sleep, so that no dead entry ends it and no buffer is kept through it.
    /// Returns whether there is more to do.
    pub(crate) fn settle(&mut self) -> bool {
        self.lanes.trim();
        let more = self.wheel.settle() || self.wheel.trim();
        self.count_wheel();
        more
    }

    /// Drops dead entries and memory when a storm of cancels is over. Returns whether there is more
    /// to do.
    pub(crate) fn shrink(&mut self) -> bool {
        let more = self.wheel.shrink() || self.wheel.trim();
        self.count_wheel();
        more
    }

    /// Drops dead entries and memory before a long quiet. Returns whether there is more to do.
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

    /// A dispatcher that keeps due entries while there is room.
    #[derive(Clone)]
    struct Kept {
        due: Arc<Mutex<Vec<u32>>>,
        room: Arc<Mutex<usize>>,
    }

    impl Kept {
        fn new() -> Self {
            Self {
                due: Arc::default(),
                room: Arc::new(Mutex::new(usize::MAX)),
            }
        }

        /// A shard with this dispatcher, and a lane to the shard.
        fn shard(&self) -> (Shard, Sender<Entry>) {
            let (inbox, drain) = Inbox::new();
            (
                Shard::new(
                    TickLength::new(MS),
                    drain,
                    0,
                    1_000,
                    Box::new(self.clone()),
                    Arc::default(),
                ),
                inbox.attach(),
            )
        }
    }

    impl Dispatcher for Kept {
        fn room(&self) -> usize {
            *self.room.lock().unwrap()
        }

        fn submit(&mut self, batch: &mut EntryBatch) {
            assert!(batch.len() <= BATCH);
            self.due
                .lock()
                .unwrap()
                .extend(batch.drain(..).map(Entry::cell));
        }
    }

    /// A message in doubt is delayed by the time from its good word to the drain, rounded up to
    /// ticks.
    #[test]
    fn a_message_in_doubt_is_due_later() {
        let kept = Kept::new();
        let (mut shard, mut lane) = kept.shard();
        // The drain adds a microsecond to its time.
        let drained_ns = 50 * MS - 1_000;
        for (cell, good_ns) in [
            (1, 50 * MS),
            (2, 50 * MS - 1),
            (3, 49 * MS),
            (4, 49 * MS - 1),
            (5, u64::MAX),
            (6, 0),
        ] {
            lane.settle_doubts(false);
            // Each message has a group of its own.
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
        assert_eq!(due(drained_ns), [0_u32; 0]);
        assert_eq!(due(100 * MS - 1), [0_u32; 0]);
        assert_eq!(
            (due(100 * MS), due(101 * MS), due(102 * MS)),
            (vec![1, 5], vec![2, 3], vec![4])
        );
        assert_eq!((due(150 * MS - 1), due(150 * MS)), (vec![], vec![6]));
    }

    /// Takes a turn. Returns whether it dispatched entries, whether more is to do, and whether the
    /// turn is held.
    fn turn(shard: &mut Shard, now: u64) -> (bool, bool, bool) {
        let turn = shard.turn(|| now * MS);
        (turn.dispatched > 0, turn.more, turn.held)
    }

    /// No memory goes back during the burst. After it, turns follow at once until all of it is
    /// gone.
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
            assert_eq!(
                (turn(&mut shard, 100), shard.wheel.slabs()),
                ((false, left > 1, false), left)
            );
        }
    }

    /// Whatever slices the wheel gives. `Kept` checks the length.
    #[test]
    fn no_batch_is_longer_than_its_buffers() {
        for first in 1..100 {
            let kept = Kept::new();
            let (mut shard, mut lane) = kept.shard();
            (0..first).for_each(|cell| _ = lane.push(Entry::new(1, cell, 0)));
            (first..3_000).for_each(|cell| _ = lane.push(Entry::new(2, cell, 0)));
            assert_eq!(
                (turn(&mut shard, 0), turn(&mut shard, 2)),
                ((false, false, false), (true, false, false))
            );
            assert_eq!(kept.due.lock().unwrap().len(), 3_000);
        }
    }

    /// The memory of cancelled timers does not wait for blocked workers.
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
        assert!(
            shard.wheel.slabs() < 8,
            "{} slabs left",
            shard.wheel.slabs()
        );
        *kept.room.lock().unwrap() = 1;
        while turn(&mut shard, 100).1 {}
        assert_eq!(*kept.due.lock().unwrap(), [0]);
    }
}
