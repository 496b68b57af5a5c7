//! Turn: one pass of a shard, without waiting. It drains the lanes into the wheel, advances the
//! wheel, and dispatches the due entries.

use super::counters::{Count, Counters};
use super::elimination::EliminationTable;
use super::prefetch_queue::PrefetchQueue;
use crate::cell::Maintenance;
use crate::cold_drop::ColdDrop;
use crate::dispatch::{BATCH, Dispatcher, EntryBatch, LookAgain};
use crate::entry::Entry;
use crate::entry_wheel::EntryWheel;
use crate::lane::{Arrival, Drain, Drained, MessageSink, Messages, Present, Taker};
use crate::sync::{Fault, broken};
use crate::time::{Nanos, TickLength};
use std::sync::Arc;

/// A turn dispatches about this many entries. Then the lanes are drained again.
const TURN_MAX: usize = 64 * BATCH;

/// A drain that finds this many pairs of an insert and its tombstone lets producers recall inserts.
/// A recall saves about 10 ns for each pair, but each drain then needs a heavy fence. With one
/// heavy fence in a millisecond, two threads that re-armed timers and recalled none took 3 %
/// longer.
const PAIRS_RECALLED: u64 = if cfg!(loom) { 1 } else { 512 };

/// After such a drain, producers may recall inserts during this many drains.
const DRAINS_RECALLED: u32 = 8;

/// How many entries of large slots a shard cascades in a millisecond, ahead of time. That takes
/// about 0.2 ms.
const CASCADED_PER_MS: u64 = 16_384;

/// Entries of large slots that a shard cascades in a tick.
#[inline]
pub(crate) fn pace(tick: TickLength) -> u64 {
    (CASCADED_PER_MS * tick.nanos() / 1_000_000).max(1)
}

/// Tombstones are dropped this time after the wheel has been shrunk, if nothing happens meanwhile.
const DROP_AFTER_NS: u64 = 250_000_000;

/// After a drain with this many inserts and this many cancels, the lanes' far inserts wait for
/// their cancels, if there was at least one cancel for four inserts.
const CANCELS_DEFERRED: u64 = if cfg!(loom) { 3 } else { 512 };

/// A processor may read its clock before a load that precedes it. This time covers that.
const READ_EARLY_NS: u64 = 1_000;

/// When no message has come to a deferred track for this long, the shard takes in all messages that
/// wait there.
const PATIENCE_NS: u64 = 64_000_000;

/// How often a shard looks for memory of lanes to give back: segments that were not needed since
/// the last look, and the lanes of threads that have ended.
const TRIM_NS: u64 = 400_000_000;

/// How often a shard frees pages of tombstones that are idle. At full speed a large window of
/// timers uses all its cells within some 0.3 s, so a page is idle for that long in between.
const SWEEP_NS: u64 = 50_000_000;

/// The most slabs of each kind that a turn gives back. Each takes a system call, which stops other
/// threads for a moment.
const SLABS_A_TURN: usize = 4;

/// Takes the messages of a drain.
struct Intake<'a, N> {
    tick: TickLength,
    wheel: &'a mut EntryWheel,
    elimination: &'a mut EliminationTable,
    queue: &'a mut PrefetchQueue,
    prefetches: bool,
    now_ns: N,
    /// All messages that the drain has found were sent before this.
    looked_ns: u64,
}

/// Takes the messages of one express track. It has what it needs for a message in one place, which
/// the compiler keeps in registers.
struct Sieve<'a> {
    tick: TickLength,
    looked_ns: u64,
    prefetches: bool,
    wheel: &'a mut EntryWheel,
    elimination: &'a mut EliminationTable,
    queue: &'a mut PrefetchQueue,
}

impl MessageSink<Entry> for Sieve<'_> {
    #[inline(always)]
    fn accept(&mut self, _: u64, message: Entry, arrival: Arrival) {
        let (tick, looked_ns) = (self.tick, self.looked_ns);
        let message = arrived(message, arrival, |good_ns| {
            lateness(tick, looked_ns, good_ns)
        });
        let (wheel, queue, prefetches) = (&mut *self.wheel, &mut *self.queue, self.prefetches);
        self.elimination
            .offer(message, |message| accept(message, wheel, queue, prefetches));
    }
}

/// How many ticks an entry in doubt is due after the deadline that it has.
fn lateness(tick: TickLength, looked_ns: u64, good_ns: u64) -> u64 {
    tick.deadline(Nanos(looked_ns.saturating_sub(good_ns))).0
}

/// The message as it goes to the wheel.
#[inline(always)]
fn arrived(message: Entry, arrival: Arrival, lateness: impl Fn(u64) -> u64) -> Entry {
    match arrival {
        Arrival::Came => message,
        Arrival::InDoubt(good_ns) => message.delayed(lateness(good_ns)),
        Arrival::Late(ticks) => message.delayed(ticks),
        Arrival::Recalled => message.tombstone(),
    }
}

/// Gives a message to the wheel, after its prefetch.
#[inline(always)]
fn accept(message: Entry, wheel: &mut EntryWheel, queue: &mut PrefetchQueue, prefetches: bool) {
    if prefetches {
        queue.push(message, wheel);
    } else {
        wheel.accept(message);
    }
}

impl<N: Fn() -> u64> Taker<Entry> for Intake<'_, N> {
    /// ShareFile.
    fn looked(&mut self) {
        if !broken(Fault::DoubtReadTooEarly) {
            self.looked_ns = (self.now_ns)();
        }
        self.looked_ns += READ_EARLY_NS;
    }

    fn take(&mut self, message: Entry, arrival: Arrival) {
        let message = arrived(message, arrival, |good_ns| self.lateness(good_ns));
        let (wheel, queue, prefetches) = (&mut *self.wheel, &mut *self.queue, self.prefetches);
        self.elimination
            .offer(message, |message| accept(message, wheel, queue, prefetches));
    }

    #[inline(always)]
    fn take_all(&mut self, messages: impl Messages<Entry>) -> Drained {
        let mut sieve = Sieve {
            tick: self.tick,
            looked_ns: self.looked_ns,
            prefetches: self.prefetches,
            wheel: self.wheel,
            elimination: self.elimination,
            queue: self.queue,
        };
        messages.give(&mut sieve)
    }

    fn flush(&mut self) {
        let (wheel, queue, prefetches) = (&mut *self.wheel, &mut *self.queue, self.prefetches);
        self.elimination
            .flush(|message| accept(message, wheel, queue, prefetches));
        if self.prefetches {
            self.queue.flush(self.wheel);
        }
    }

    /// The entry's deadline is right if the entry was armed at `good_ns` or before. The entry was
    /// armed before the look. So its deadline is too early by the time from `good_ns` to the look
    /// at most. See `engine::local::shared_clock`.
    fn lateness(&self, good_ns: u64) -> u64 {
        lateness(self.tick, self.looked_ns, good_ns)
    }

    fn is_dead(&mut self, message: Entry) -> bool {
        self.wheel.drop_dead(message)
    }

    fn present(&self) -> Present {
        Present {
            // Without what `looked` has added.
            now: self
                .tick
                .floor(Nanos(self.looked_ns.saturating_sub(READ_EARLY_NS)))
                .0,
            pace: pace(self.tick),
            patience: PATIENCE_NS.div_ceil(self.tick.nanos()),
            dead: self.wheel.unmatched(),
        }
    }
}

/// A shard. One thread at a time has it.
pub(crate) struct Shard {
    tick: TickLength,
    lanes: Drain<Entry>,
    elimination: EliminationTable,
    /// Drains for which producers may still recall inserts.
    drains_recalled: u32,
    /// When the last drain looked for messages.
    looked_ns: u64,
    prefetch_queue: PrefetchQueue,
    wheel: EntryWheel,
    /// Due entries that were not submitted yet.
    batch: EntryBatch,
    dispatcher: Box<dyn Dispatcher>,
    counters: Arc<Counters>,
    /// When the next look for lanes that are quiet comes.
    trim_at_ns: u64,
    sweep_at_ns: u64,
}

/// What a turn found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The time of the turn.
    pub(crate) now_ns: u64,
    /// Messages of the lanes that the shard saw for the first time.
    pub(crate) drained: u64,
    /// Entries dispatched.
    pub(crate) dispatched: usize,
    /// The next turn should follow at once: more entries are due or have to be moved, more messages
    /// are to be taken, or more memory is to be given back.
    pub(crate) more: bool,
    /// More is due, but the dispatcher has no room until the workers catch up.
    pub(crate) held: bool,
    /// Slots of the wheel wait for a turn that finds no cancels.
    pub(crate) put_off: bool,
    /// Lanes of threads that have ended are being given back, and there is more to do for that.
    pub(crate) gave_back: bool,
    /// Whether, and when, the shard has to check on work that the dispatcher has.
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
    ) -> ColdDrop<Self> {
        ColdDrop::new(Self {
            tick,
            lanes,
            elimination: EliminationTable::new(),
            drains_recalled: 0,
            looked_ns: 0,
            prefetch_queue: PrefetchQueue::EMPTY,
            wheel: EntryWheel::new(now, pace),
            batch: Vec::with_capacity(BATCH),
            dispatcher,
            counters,
            trim_at_ns: TRIM_NS,
            sweep_at_ns: SWEEP_NS,
        })
    }

    /// Moves messages of the lanes into the wheel, except those that wait there. An insert whose
    /// tombstone is in the lanes too goes nowhere. Returns the number of messages that it saw for
    /// the first time. Runs no user code.
    pub(crate) fn drain(&mut self, now_ns: impl Fn() -> u64) -> u64 {
        let mut intake = Intake {
            tick: self.tick,
            prefetches: self.wheel.prefetches(),
            wheel: &mut self.wheel,
            elimination: &mut self.elimination,
            queue: &mut self.prefetch_queue,
            looked_ns: if broken(Fault::DoubtReadTooEarly) {
                now_ns()
            } else {
                0
            },
            now_ns,
        };
        let found = self.lanes.drain(&mut intake);
        self.looked_ns = intake.looked_ns;
        if found.messages == 0 {
            return found.came;
        }
        let present = intake.present();
        self.counters.add(Count::Drained, found.messages);
        let pairs = found.recalled + self.elimination.take_eliminated();
        self.note_pairs(pairs);
        let cancels = pairs + self.wheel.take_tombstones();
        let inserts = found.messages.saturating_sub(cancels);
        // `inserts` still counts the insert of each eliminated pair, and nothing of a recalled one.
        let filed = inserts.saturating_sub(pairs - found.recalled);
        self.wheel.earn(filed);
        if cancels >= CANCELS_DEFERRED.max(inserts / 4) && inserts >= CANCELS_DEFERRED {
            self.lanes.defer(present);
        }
        found.came
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

    /// Takes one turn. Messages that were pushed before it are in the wheel after it, unless they
    /// wait in their lane, or a drain's bound leaves them to the next turn (`more`). Entries that
    /// are due by then are dispatched, as far as there is room.
    pub(crate) fn turn(&mut self, now_ns: impl Fn() -> u64 + Copy) -> Turn {
        let drained = self.drain(now_ns);
        // The clock is read after the drain: a drained timer may be due at once.
        let now_ns = now_ns();
        self.lanes
            .note_time(drained, now_ns.saturating_sub(self.looked_ns));
        let now = self.tick.floor(Nanos(now_ns)).0;
        let (batch, dispatcher) = (&mut self.batch, &mut self.dispatcher);
        // Entries for which the last turn had no room come first.
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
        self.wheel.note_waiting(self.lanes.messages_waiting());
        let more = self.wheel.advance(now, TURN_MAX.min(room), |entries| {
            dispatched += entries.len();
            // The dispatcher's buffers hold `BATCH` entries.
            if batch.len() + entries.len() > BATCH {
                dispatcher.submit(batch);
            }
            // Most often it is one entry. A push is cheaper for that: `extend_from_slice` is a
            // call, and calls another function to copy.
            if let &[entry] = entries {
                batch.push(entry);
            } else {
                batch.extend_from_slice(entries);
            }
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
        if now_ns >= self.trim_at_ns {
            self.trim_at_ns = now_ns.saturating_add(TRIM_NS);
            self.lanes.trim_unused();
            self.lanes.begin_look();
        }
        if now_ns >= self.sweep_at_ns {
            self.sweep_at_ns = now_ns.saturating_add(SWEEP_NS);
            self.wheel.sweep();
        }
        // No memory is given back during a burst. While nothing is due, the next turn follows at
        // once if there is more to give back.
        let has_time = !more || dispatched == 0;
        let gave_back = has_time && self.lanes.give_back();
        let trims = has_time && (0..SLABS_A_TURN).all(|_| self.wheel.trim());
        let is_more_to_trim = trims || gave_back;
        Turn {
            now_ns,
            drained,
            dispatched,
            more: more || held || self.lanes.has_more() || is_more_to_trim && dispatched == 0,
            held,
            put_off: self.wheel.puts_off(),
            gave_back,
            look,
        }
    }

    fn count_wheel(&self) {
        self.counters.set(Count::Cascaded, self.wheel.cascaded());
        self.counters
            .set(Count::Compactions, self.wheel.compactions());
        self.counters.set(Count::Holes, self.wheel.holes());
        self.counters.set(Count::Due, self.wheel.due());
        self.counters.set_levels(self.wheel.levels());
        self.counters.set(
            Count::NextEvent,
            self.next_known().map_or(0, |tick| tick + 1),
        );
    }

    /// The next tick at which a turn has something to do, if no messages come.
    pub(crate) fn next_event(&self) -> Option<u64> {
        if self.lanes.has_more() {
            return Some(0);
        }
        self.next_known()
    }

    /// The next event of what is in the wheel, or was seen in the lanes.
    fn next_known(&self) -> Option<u64> {
        match (self.wheel.next_event(), self.lanes.wants_at()) {
            (Some(event), Some(waiting)) => Some(event.min(waiting)),
            (event, waiting) => event.or(waiting),
        }
    }

    /// When a turn should come that gives lanes or segments back. `u64::MAX`: there is nothing to
    /// give back.
    pub(crate) fn gives_back_at_ns(&self) -> u64 {
        if self.lanes.wants_look() || self.lanes.keeps_segments() {
            self.trim_at_ns
        } else {
            u64::MAX
        }
    }

    /// Whether a turn would find messages in the lanes.
    pub(crate) fn has_messages(&self) -> bool {
        self.lanes.has_messages()
    }

    /// Prepares a long sleep, so that no dead entry ends it and no buffer is kept through it.
    /// Returns whether there is more to do.
    pub(crate) fn settle(&mut self) -> bool {
        self.lanes.trim();
        let compactions = self.wheel.compactions();
        let more = self.wheel.settle() || self.wheel.trim();
        // The last turn has set the other figures of the wheel.
        if self.wheel.compactions() != compactions {
            self.count_wheel();
        }
        more
    }

    /// Drops dead entries and memory when a storm of cancels is over. Returns when to call it
    /// again.
    pub(crate) fn shrink(&mut self, now_ns: u64) -> Maintenance {
        // Entries that wait in their lane have not come yet, so their tombstones have to stay.
        let waits = self.lanes.waits();
        let more = !waits && self.wheel.shrink() || self.wheel.trim();
        self.count_wheel();
        if more {
            Maintenance::Soon
        } else if !waits && self.wheel.drops_tombstones() {
            Maintenance::At(now_ns + DROP_AFTER_NS)
        } else {
            Maintenance::Done
        }
    }

    /// Drops dead entries and memory before a long sleep. Returns whether there is more to do.
    pub(crate) fn tidy(&mut self) -> bool {
        let more = !self.lanes.waits() && self.wheel.tidy() || self.wheel.trim();
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
        fn shard(&self) -> (ColdDrop<Shard>, Sender<Entry>) {
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
            lane.push_in_doubt(Entry::new(100, cell, 0), 100, good_ns);
            (1..64).for_each(|_| _ = lane.push(Entry::new(100, cell + 1_000, 0)));
            lane.push_in_doubt(Entry::new(100, cell + 2_000, 0).tombstone(), 0, good_ns);
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
        while turn(&mut shard, 0) == (false, true, false) {}
        let slabs = shard.wheel.slabs();
        for left in [true, true, true, false] {
            assert_eq!(shard.wheel.slabs(), slabs);
            assert_eq!(turn(&mut shard, 100), (true, left, false));
        }
        *kept.room.lock().unwrap() = 0;
        assert!(slabs > 10);
        let mut before = shard.wheel.slabs();
        while before > 1 {
            let left = before.saturating_sub(SLABS_A_TURN).max(1);
            let is_more = before > left && before - left == SLABS_A_TURN && left > 1;
            assert_eq!(
                (turn(&mut shard, 100), shard.wheel.slabs()),
                ((false, is_more, false), left)
            );
            before = left;
        }
    }

    /// A storm of cancels of entries in many slots, with time standing still. The turn that takes
    /// the cancels in says that it has put compactions off, so that its thread does not sleep for
    /// long. It does not say that there is more to do. The next ones make up for it.
    #[test]
    fn what_a_storm_puts_off_is_told_and_made_up_for() {
        const CELLS: u32 = 30_000;
        let entry = |cell: u32| Entry::new(256 * u64::from(1 + cell % 15), cell, 1);
        let (mut shard, mut lane) = Kept::new().shard();
        (0..CELLS).for_each(|cell| _ = lane.push(entry(cell)));
        // Until the inserts are no flood any more.
        (0..10).for_each(|_| _ = shard.turn(|| 0));
        (0..CELLS).for_each(|cell| _ = lane.push(entry(cell).tombstone()));
        let turn = shard.turn(|| 0);
        assert_eq!(
            (turn.more, turn.put_off),
            (false, true),
            "{} left",
            shard.wheel.len()
        );
        let mut turns = 0;
        while shard.wheel.puts_off() {
            let turn = shard.turn(|| 0);
            assert_eq!((turn.drained, turn.more), (0, turn.put_off));
            turns += 1;
        }
        assert!(turns > 5 && shard.wheel.len() == 0, "{turns} turns");
    }

    /// A program fills the wheel with the first of its timers. While it cancels these, later ones
    /// wait in the lane, and what is dead in the wheel leaves it.
    #[test]
    fn the_first_of_many_timers_in_flight_leave_the_wheel() {
        const A_TURN: u32 = 16_384;
        const TIMERS: u32 = 125 * A_TURN;
        let (inbox, drain) = Inbox::new();
        let dispatcher = Box::new(Kept::new());
        let tick = TickLength::new(MS);
        let mut shard = Shard::new(tick, drain, 0, pace(tick), dispatcher, Arc::default());
        let mut lane = inbox.attach();
        let entry = |cell: u32, generation| Entry::new(30_000, cell, generation);
        (0..TIMERS).for_each(|cell| _ = lane.push(entry(cell, 1)));
        while turn(&mut shard, 0).1 {}
        for first in (0..TIMERS).step_by(A_TURN as usize) {
            for cell in first..first + A_TURN {
                _ = lane.push(entry(cell, 1).tombstone());
                _ = lane.push_by_key(entry(cell, 2), 30_000);
            }
            turn(&mut shard, 0);
        }
        let (waiting, filed) = (inbox.waiting(), shard.wheel.len());
        assert!(waiting > 2_000_000, "{waiting} messages wait");
        assert!(filed < 1_300_000, "{filed} entries in the wheel");
    }

    /// A thread stops. Its lane still has what it has used lately, and no message wakes the shard.
    #[test]
    fn a_shard_wakes_for_segments_that_are_used_no_more() {
        let (mut shard, mut lane) = Kept::new().shard();
        let mut gives_back_at = |messages, now| {
            (0..messages).for_each(|cell| _ = lane.push(Entry::new(100_000, cell, 0)));
            while turn(&mut shard, now).1 {}
            shard.gives_back_at_ns()
        };
        let trim_ms = TRIM_NS / MS;
        assert_eq!(gives_back_at(30_000, 0), u64::MAX);
        assert_eq!(gives_back_at(0, trim_ms), 2 * TRIM_NS);
        assert_eq!(gives_back_at(0, 2 * trim_ms), u64::MAX);
        // Few messages are not worth a wake-up.
        assert_eq!(gives_back_at(5_000, 3 * trim_ms), u64::MAX);
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
        while turn(&mut shard, 0) == (false, true, false) {}
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
