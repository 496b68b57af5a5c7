//! Internals: the parts by themselves, for benches and models. Built only under the feature
//! `__internals` or `--cfg loom`; no part of the public interface.
//!
//! Ground rule: a function here calls one function of the room that it opens. No step of a protocol
//! is written here.

#[cfg(loom)]
#[doc(hidden)]
pub mod loom;
#[cfg(not(loom))]
mod turns;

use crate::doorbell::SecondLook;
use crate::entry_wheel::EntryWheel;
use crate::repeat::Repeat;
use crate::{Builder, TimerId, cell, doorbell, entry, lane};
use std::sync::Arc;
#[cfg(not(loom))]
pub use turns::{Shard, take_shards};

/// Sleeps for ever, unless rung.
pub const FOREVER: u64 = doorbell::FOREVER;

/// Whether large slots of the wheel are cascaded ahead of time, in steps. Default: yes. The benches
/// measure the difference.
pub fn cascade_budget<T: Send + 'static>(builder: Builder<T>, cascade_budget: bool) -> Builder<T> {
    builder.cascade_budget(cascade_budget)
}

/// Whether timers of a service on a manual clock share readings, as they do on the real clock.
/// Default: no. Such a timer may fire some ticks later.
pub fn shared_readings<T: Send + 'static>(
    builder: Builder<T>,
    shared_readings: bool,
) -> Builder<T> {
    builder.shared_readings(shared_readings)
}

/// A shard's lanes.
pub struct Inbox<M>(Arc<lane::Inbox<M>>);

/// The consumer's end of an inbox.
pub struct Drain<M>(lane::Drain<M>);

/// A producer's end of a lane.
pub struct Sender<M: Copy>(lane::Sender<M>);

impl<M: Copy> Inbox<M> {
    /// An inbox and its one consumer.
    pub fn new() -> (Self, Drain<M>) {
        let (inbox, drain) = lane::Inbox::new();
        (Self(inbox), Drain(drain))
    }

    /// A lane for the calling thread.
    pub fn attach(&self) -> Sender<M> {
        Sender(self.0.attach())
    }

    /// How many messages are in the lanes.
    pub fn depth(&self) -> u64 {
        self.0.depth()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.0.lane_count()
    }

    /// Whether a thread that has ended has to ring the shard.
    pub fn wants_ring(&self) -> bool {
        self.0.wants_ring()
    }
}

/// Takes the messages of a drain.
struct Taken<F> {
    now: u64,
    take: F,
}

/// A present, with little patience.
fn present(now: u64) -> lane::Present {
    lane::Present {
        now,
        pace: u64::MAX,
        patience: 4,
        dead: 0,
    }
}

impl<M, F: FnMut(M, lane::Arrival)> lane::Taker<M> for Taken<F> {
    fn take(&mut self, message: M, arrival: lane::Arrival) {
        (self.take)(message, arrival);
    }

    fn lateness(&self, word: u64) -> u64 {
        word
    }

    fn present(&self) -> lane::Present {
        present(self.now)
    }
}

impl<M> Clone for Inbox<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Copy> Drain<M> {
    /// Whether messages that come after the next drain may be recalled.
    pub fn let_recall(&mut self, may_recall: bool) {
        self.0.let_recall(may_recall);
    }

    /// Gives `f` each message that is published, and whether it was recalled just now. Messages
    /// that were recalled earlier are left out. Returns how many messages were published.
    pub fn drain(&mut self, f: impl FnMut(M, bool)) -> u64 {
        self.drain_at(0, f)
    }

    /// The same when `now` is the present key. Messages that wait are left out.
    pub fn drain_at(&mut self, now: u64, mut f: impl FnMut(M, bool)) -> u64 {
        let take = |message, arrival| f(message, arrival == lane::Arrival::Recalled);
        self.0.drain(&mut Taken { now, take }).messages
    }

    /// As [`drain_at`](Self::drain_at), and gives `f` the producer's word with a message that is in
    /// doubt, or was so when it was seen.
    pub fn drain_doubts_at(&mut self, now: u64, mut f: impl FnMut(M, bool, Option<u64>)) {
        let word = |arrival| match arrival {
            lane::Arrival::InDoubt(word) | lane::Arrival::Late(word) => Some(word),
            _ => None,
        };
        let take = |message, arrival| f(message, arrival == lane::Arrival::Recalled, word(arrival));
        self.0.drain(&mut Taken { now, take });
    }

    /// As [`drain_doubts_at`](Self::drain_doubts_at), when 0 is the present key.
    pub fn drain_doubts(&mut self, f: impl FnMut(M, bool, Option<u64>)) {
        self.drain_doubts_at(0, f);
    }

    /// Has far messages wait in the lanes that were busy in the last drain. `now` is the present
    /// key.
    pub fn defer(&mut self, now: u64) {
        self.0.defer(present(now));
    }

    /// Whether a drain would find messages.
    pub fn has_messages(&self) -> bool {
        self.0.has_messages()
    }

    /// Frees segments that wait for reuse.
    pub fn trim(&mut self) {
        self.0.trim();
    }

    /// Frees segments that wait for reuse, beyond what was sent since the last call.
    pub fn trim_unused(&mut self) {
        self.0.trim_unused();
    }

    /// Frees lanes whose threads have ended, as far as it can in one look.
    pub fn look(&mut self) {
        self.0.begin_look();
        while self.0.give_back() {}
    }

    /// Whether there may be such lanes.
    pub fn wants_look(&self) -> bool {
        self.0.wants_look()
    }
}

impl<M: Copy> Sender<M> {
    /// Sends a message.
    #[inline]
    pub fn push(&mut self, message: M) {
        self.0.push(message);
    }

    /// Sends a message. Returns its position.
    pub fn send(&mut self, message: M) -> u32 {
        self.0.push(message).position
    }

    /// Sends a message with a key. It may wait. Returns its position.
    pub fn send_by_key(&mut self, message: M, key: u64) -> u32 {
        self.0.push_by_key(message, key).position
    }

    /// Settles the messages that were sent in doubt since the last call: if `vouched`, they are no
    /// longer in doubt.
    pub fn settle_doubts(&mut self, vouched: bool) {
        self.0.settle_doubts(vouched);
    }

    /// Sends a message in doubt, with a word. Returns its position.
    pub fn push_in_doubt(&mut self, message: M, word: u64) -> u32 {
        self.push_in_doubt_by_key(message, 0, word)
    }

    /// Sends a message in doubt, with a word and a key. It may wait. Returns its position.
    pub fn push_in_doubt_by_key(&mut self, message: M, key: u64, word: u64) -> u32 {
        self.0.push_in_doubt(message, key, word).position
    }

    /// Recalls the message at this position. `true`: the shard will not get it.
    pub fn recall(&mut self, position: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        self.0.recall(position, message)
    }
}

/// The doorbell of one shard.
pub struct Doorbell(doorbell::Doorbell);

impl Doorbell {
    /// A doorbell that nobody sleeps at.
    #[expect(clippy::new_without_default, reason = "like the room's own")]
    pub fn new() -> Self {
        Self(doorbell::Doorbell::new())
    }

    /// Wakes the shard if it sleeps past the deadline.
    pub fn ring(&self, deadline: u64) {
        self.0.ring(deadline);
    }

    /// Names the calling thread as the one that waits.
    ///
    /// # Safety
    /// Once, before the first `wait`.
    pub unsafe fn attach(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.attach() };
    }

    /// Sleeps until rung, unless `work_waits`. That function may drain lanes.
    ///
    /// # Safety
    /// Only the thread that attached.
    pub unsafe fn wait(&self, wake_at: u64, work_waits: impl FnOnce() -> bool) {
        // SAFETY: the caller's promise.
        unsafe {
            self.0
                .wait(wake_at, || SecondLook::work_or_park(work_waits()))
        };
    }

    /// How many times a ringer unparked the shard.
    pub fn rings(&self) -> u64 {
        self.0.rings()
    }
}

/// What names an armed timer in lanes, wheel and dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub(crate) entry::Entry);

impl Entry {
    /// An entry for any deadline, cell and generation.
    #[must_use]
    pub fn new(deadline: u64, cell: u32, generation: u64) -> Self {
        Self(entry::Entry::new(deadline, cell, generation))
    }

    /// The entry that `schedule` pushed for this timer.
    #[must_use]
    pub fn of(id: TimerId, deadline: u64) -> Self {
        Self::new(deadline, id.cell(), id.birth())
    }

    /// Its tombstone.
    #[must_use]
    #[inline]
    pub fn tombstone(self) -> Self {
        Self(self.0.tombstone())
    }

    /// Its deadline.
    #[must_use]
    pub fn deadline(self) -> u64 {
        self.0.deadline()
    }

    /// Whether it is a tombstone.
    #[must_use]
    pub fn is_tombstone(self) -> bool {
        self.0.is_tombstone()
    }
}

/// Cells by index, with the depot for free ones.
pub struct Arena {
    arena: cell::Arena<u64>,
    depot: Arc<cell::Depot>,
}

/// A thread's free cells.
pub struct Magazines(cell::Magazines);

impl Arena {
    /// An arena without pages.
    #[expect(clippy::new_without_default, reason = "like the room's own")]
    pub fn new() -> Self {
        let depot = Arc::new(cell::Depot::new());
        Self {
            arena: cell::Arena::new(depot.clone(), cell::Pins::new()),
            depot,
        }
    }

    /// Magazines for the calling thread.
    pub fn magazines(&self) -> Magazines {
        Magazines(cell::Magazines::new(&self.depot))
    }

    /// A free cell for the caller to hold.
    pub fn take(&self, magazines: &mut Magazines) -> Option<u32> {
        self.arena.take(&mut magazines.0)
    }

    /// Arms the cell. Returns the timer's entry.
    ///
    /// # Safety
    /// The caller holds the cell, and gives it up.
    pub unsafe fn arm(&self, cell: u32, deadline: u64, payload: u64) -> Entry {
        // SAFETY: the caller's promise.
        let cell_ref = unsafe { self.arena.held(cell) };
        // SAFETY: as above.
        let birth = unsafe { cell_ref.fill(cell::DueAt::new(deadline, 0), cell::Payload(payload)) };
        Entry::new(deadline, cell, birth)
    }

    /// A worker's claim of a timer that was never moved. If the claim succeeds, the caller holds
    /// the cell.
    ///
    /// # Safety
    /// The entry's cell was armed here, and no page is retired meanwhile.
    pub unsafe fn claim_due(&self, entry: Entry) -> Option<u64> {
        // SAFETY: the caller's promise.
        let cell = unsafe { self.arena.held(entry.0.cell()) };
        cell.claim_due_plain(entry.0)
    }

    /// Arms the cell and claims it again. Returns its birth, and the payload.
    ///
    /// # Safety
    /// The caller holds the cell.
    pub unsafe fn use_once(&self, cell: u32, payload: u64) -> (u64, Option<u64>) {
        // SAFETY: the caller's promise.
        let cell = unsafe { self.arena.held(cell) };
        // SAFETY: the caller's promise.
        let birth = unsafe { cell.fill(cell::DueAt::new(1, 0), cell::Payload(payload)) };
        (birth, cell.claim_id(birth).and_then(payload_of))
    }

    /// Frees a cell that the caller holds.
    pub fn put(&self, magazines: &mut Magazines, cell: u32) {
        magazines.0.put(cell, &self.depot);
    }

    /// Gives all free cells to the depot, as a thread does when it ends.
    pub fn give_back(&self, magazines: Magazines) {
        magazines.0.give_back(&self.depot);
    }

    /// A step of upkeep: looks for empty pages, or gathers and retires them.
    pub fn maintain(&self, now_ns: u64) {
        self.arena.maintain(now_ns);
    }
}

/// The number of a claim.
fn payload_of(claimed: cell::Claimed<u64>) -> Option<u64> {
    match claimed.content? {
        cell::Content::Payload(payload) => Some(payload),
        cell::Content::Repeat(repeat) => no_payload(repeat),
    }
}

/// (By value: else the claim would lie in memory, so that this can be dropped there.)
#[cold]
#[inline(never)]
fn no_payload(_: Box<Repeat>) -> Option<u64> {
    None
}

/// The wheel of a shard.
pub struct Wheel(EntryWheel);

impl Wheel {
    /// An empty wheel at tick `now`. It cascades large slots ahead of time, `pace` entries a tick.
    #[must_use]
    pub fn new(now: u64, pace: u64) -> Self {
        Self(EntryWheel::new(now, pace))
    }

    /// Inserts an entry, or a tombstone.
    pub fn file(&mut self, entry: Entry) {
        self.0.accept(entry.0);
    }

    /// Moves time to `now`, and gives `f` the number of due entries in each block. Returns whether
    /// there is more to do.
    pub fn advance(&mut self, now: u64, mut f: impl FnMut(usize)) -> bool {
        self.0.advance(now, usize::MAX, |entries| f(entries.len()))
    }
}
