//! Cells: the core, and the cells of one type of payload. What a call does to a timer, and what it sends to the shards.

use super::core::Core;
use super::id::TimerId;
use super::local::{self, Local};
use super::tally::Event;
use crate::cell::{Arena, Claimed, Content, Due, Filed, Fill, Maintenance, Payload, Place, Rearmed, Slot};
use crate::entry::{DEADLINE_MAX, Entry};
use crate::error::ScheduleError;
use crate::lane::Sent;
use crate::sync::{Fault, Guard, broken};
use crate::time::Repeat;
use std::sync::Arc;

/// So many messages in a lane wake a sleeping shard, whatever their deadlines: memory that waits is bounded.
const BACKLOG_MAX: u64 = 16_384;

/// A cell comes from memory in the time of about so many claims.
const AHEAD: usize = 32;

pub(crate) struct Cells<T> {
    pub(crate) core: Arc<Core>,
    pub(super) arena: Arena<T>,
}

/// How a timer's deadline came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Date {
    /// By a reading of the clock, or without one.
    Read,
    /// By a reading that it shares, for the home shard; it was rounded up by so much.
    Shared { rounded_ns: u64 },
}

/// A run of a periodic timer that has come due. A hint until it begins: its timer may be cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(super) cell: u32,
    /// The filing that came due.
    pub(super) tag: u64,
    pub(super) place: Place,
}

impl<T: Send + 'static> Cells<T> {
    pub(crate) fn new(core: Core) -> Self {
        let arena = Arena::new(core.depot().clone(), core.collector().clone());
        Self { core: Arc::new(core), arena }
    }

    /// Gives `f` the calling thread's local. See [`local::with`].
    #[inline]
    pub(super) fn with_local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        local::with(&self.core, f)
    }

    /// Sends an insert, and wakes the shard if it sleeps past the deadline.
    #[inline]
    fn send(&self, local: &mut Local, filed: Filed) {
        let sent = local.send(filed.shard, filed.entry);
        self.ring(Place::new(filed.entry.deadline(), filed.shard), sent.waiting);
    }

    /// Sends a tombstone: nobody is woken for it.
    #[inline]
    fn bury(&self, local: &mut Local, filed: Filed) {
        if local.send(filed.shard, filed.entry.tombstone()).waiting > BACKLOG_MAX {
            self.core.bell(filed.shard).ring(0);
        }
    }

    /// Takes an index back that is the caller's to hold.
    #[inline]
    fn put(&self, local: &mut Local, index: Option<u32>) {
        if let Some(cell) = index {
            local.magazines.put(cell, self.core.depot());
        }
    }

    /// Arms a timer for a tick, in a shard.
    #[inline]
    pub(crate) fn schedule<C: Fill<T>>(
        &self,
        local: &mut Local,
        place: Place,
        content: C,
        date: Date,
    ) -> Result<TimerId, ScheduleError<C::Back>> {
        if self.core.is_closed() {
            return Err(ScheduleError::Stopped(content.back())); // S1
        }
        let Some(cell) = self.take_cell(local) else {
            return Err(ScheduleError::Full(content.back()));
        };
        // SAFETY: we have just taken the cell.
        let (birth, sent) = unsafe { self.arm(local, cell, place, content, date) }; // S2, S3
        // What is in doubt does not wait.
        let waits = date == Date::Read || broken(Fault::DoubtWaits);
        self.ring(if waits { place } else { Place::new(0, place.shard()) }, sent.waiting); // S4, G3
        if self.core.is_closed() && !broken(Fault::StopNotSeenAfterArm) {
            return self.take_back::<C>(local, place.shard(), TimerId::new(birth, cell, self.core.tag(), sent.position)); // S5
        }
        Ok(TimerId::new(birth, cell, self.core.tag(), sent.position))
    }

    /// Arms timers of one shard, and gives `f` the results in order.
    pub(super) fn schedule_many(
        &self,
        local: &mut Local,
        shard: usize,
        timers: impl Iterator<Item = (Place, Payload<T>)>,
        mut f: impl FnMut(Result<TimerId, ScheduleError<T>>),
    ) {
        let (mut earliest, mut waiting) = (Place::new(DEADLINE_MAX, shard), 0);
        let mut armed = Vec::with_capacity(timers.size_hint().0);
        for (place, content) in timers {
            armed.push(if self.core.is_closed() {
                Err(ScheduleError::Stopped(content.back()))
            } else if let Some(cell) = self.take_cell(local) {
                // SAFETY: we have just taken the cell.
                let (birth, sent) = unsafe { self.arm(local, cell, place, content, Date::Read) };
                earliest = if place.deadline() < earliest.deadline() { place } else { earliest };
                waiting = waiting.max(sent.waiting);
                Ok(TimerId::new(birth, cell, self.core.tag(), sent.position))
            } else {
                Err(ScheduleError::Full(content.back()))
            });
        }
        self.ring(earliest, waiting);
        let closed = self.core.is_closed();
        armed.into_iter().for_each(|result| match result {
            Ok(id) if closed => f(self.take_back::<Payload<T>>(local, shard, id)),
            result => f(result),
        });
    }

    /// Wakes the shard if it sleeps past the deadline, or so many messages wait.
    #[inline]
    fn ring(&self, place: Place, waiting: u64) {
        let bell = self.core.bell(place.shard());
        bell.ring(place.deadline());
        if waiting > BACKLOG_MAX {
            bell.ring(0);
        }
    }

    /// A cell for one more timer, to hold. `None`: there are as many as may be.
    #[inline]
    fn take_cell(&self, local: &mut Local) -> Option<u32> {
        if !self.core.reserve() {
            return None;
        }
        let cell = self.arena.take(&mut local.magazines);
        if cell.is_none() {
            self.core.release(1);
        }
        cell
    }

    /// S2, S3. The timer's birth, and what was sent. (Not its id: one that is put together here would go through memory.)
    ///
    /// # Safety
    /// The caller holds the cell, and gives it up.
    #[inline]
    unsafe fn arm<C: Fill<T>>(&self, local: &mut Local, cell: u32, place: Place, content: C, date: Date) -> (u64, Sent) {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.arena.held(cell) };
        // SAFETY: the caller's promise. From here on the cell belongs to whoever claims the timer.
        let birth = unsafe { slot.arm(place, content) };
        let insert = Entry::new(place.deadline(), cell, birth);
        let sent = match date {
            Date::Read => local.send_counted(place.shard(), insert, Event::Armed),
            Date::Shared { rounded_ns } => local.send_in_doubt(insert, rounded_ns),
        };
        (birth, sent)
    }

    #[cold]
    fn take_back<C: Fill<T>>(&self, local: &mut Local, shard: usize, id: TimerId) -> Result<TimerId, ScheduleError<C::Back>> {
        let claimed = self.look_up(local, id, |slot| slot.claim_id(id.birth())).flatten();
        let Some(claimed) = claimed else { return Ok(id) };
        match self.settle(local, claimed) {
            Some(content) => {
                // It was counted as armed, which it was not.
                local.count(shard, Event::Armed, 1u64.wrapping_neg());
                Err(ScheduleError::Stopped(C::of(content)))
            }
            None => {
                // A periodic timer that runs already (and maybe stops the service): it does not come again, and its run leaves it to us to say so.
                if !broken(Fault::RunTakenBackNotCounted) {
                    local.count(shard, Event::Ended, 1);
                }
                Ok(id)
            }
        }
    }

    /// Gives `f` the cell of an id. `None` if there is no such cell (any more), or the id is another service's.
    #[inline]
    fn look_up<R>(&self, local: &mut Local, id: TimerId, f: impl FnOnce(Slot<'_, T>) -> R) -> Option<R> {
        if id.service != self.core.tag() {
            return None;
        }
        let guarded = |held| Arena::<T>::same_page(held, id.cell) || broken(Fault::LookUpUnguarded);
        if local.magazines.peek().is_some_and(guarded) {
            // SAFETY: the magazine holds an index of that page, and keeps it until `f` is done: the page stays (T1). This is the usual case for
            // timers that are cancelled soon, and saves the pin.
            return Some(f(unsafe { self.arena.held(id.cell) }));
        }
        // The cell comes while we pin.
        self.arena.prefetch(id.cell);
        let pinned = local.epoch.pin();
        self.arena.get(id.cell, &pinned).map(f)
    }

    /// Settles a timer that was claimed, and counts that.
    #[inline]
    fn end(&self, local: &mut Local, claimed: Claimed<T>, how: Event) -> Option<Content<T>> {
        local.count(claimed.place.shard(), how, 1);
        self.settle(local, claimed)
    }

    /// Frees the cell of a timer that was claimed, and sends the tombstone of its entry. Returns the content: `None` if a run has it.
    #[inline]
    fn settle(&self, local: &mut Local, claimed: Claimed<T>) -> Option<Content<T>> {
        self.put(local, claimed.index);
        if let Some(filed) = claimed.filed {
            self.bury(local, filed);
        }
        if claimed.content.is_some() {
            self.core.release(1);
        }
        claimed.content
    }

    /// Takes a timer's payload away, if the timer was never moved and does not repeat: the usual case. `None`: try the others.
    #[inline]
    pub(crate) fn take_first(&self, local: &mut Local, id: TimerId) -> Option<T> {
        let (payload, place, index) = self.look_up(local, id, |slot| slot.claim_first(id.birth()))??;
        self.put(local, index);
        let entry = Entry::new(place.deadline(), id.cell, id.birth());
        let waiting = local.unsend_counted(place.shard(), id.position(), entry, Event::Cancelled);
        if waiting > BACKLOG_MAX {
            self.core.bell(place.shard()).ring(0);
        }
        self.core.release(1);
        Some(payload)
    }

    /// Cancels a timer. `None`: there is none. The content is dropped by the caller, who has no local then; a periodic timer's that runs by its run.
    pub(crate) fn cancel(&self, local: &mut Local, id: TimerId) -> Option<Option<Content<T>>> {
        let claimed = self.look_up(local, id, |slot| slot.claim_id(id.birth()))??;
        Some(self.end(local, claimed, Event::Cancelled))
    }

    /// Takes a timer's payload away before it fires.
    pub(crate) fn take(&self, local: &mut Local, id: TimerId) -> Option<T> {
        let claimed = self.look_up(local, id, |slot| slot.claim_payload(id.birth()))??;
        match self.end(local, claimed, Event::Cancelled) {
            Some(Content::Payload(payload)) => Some(payload),
            _ => None,
        }
    }

    /// Cancels timers, and gives `f` their contents. Returns how many were cancelled.
    pub(super) fn cancel_many(&self, local: &mut Local, ids: &[TimerId], mut f: impl FnMut(Option<Content<T>>)) -> usize {
        self.prefetch(ids);
        let first = |local: &mut Local, id| self.take_first(local, id).map(|payload| Some(Content::Payload(payload)));
        ids.iter().filter_map(|&id| first(local, id).or_else(|| self.cancel(local, id))).map(&mut f).count()
    }

    /// Moves timers to a tick. Returns how many were moved.
    pub(super) fn rearm_many(&self, local: &mut Local, ids: &[TimerId], deadline: u64) -> usize {
        self.prefetch(ids);
        ids.iter().filter(|&&id| self.rearm(local, id, deadline)).count()
    }

    /// Asks for the cells of all these.
    #[inline]
    pub(super) fn prefetch(&self, ids: &[TimerId]) {
        ids.iter().filter(|id| id.service == self.core.tag()).for_each(|id| self.arena.prefetch(id.cell));
    }

    /// Moves a timer to another tick. Whether there was one.
    #[inline]
    pub(crate) fn rearm(&self, local: &mut Local, id: TimerId, deadline: u64) -> bool {
        match self.look_up(local, id, |slot| slot.rearm(id.birth(), deadline)).unwrap_or(Rearmed::Gone) {
            Rearmed::Gone => false,
            Rearmed::Done { shard } => {
                local.count(shard, Event::Rearmed, 1);
                true
            }
            Rearmed::Refiled { old, new } => {
                // The tombstone first: it may meet its entry in the nursery.
                self.bury(local, old);
                self.send(local, new);
                local.count(new.shard, Event::Rearmed, 1);
                true
            }
            Rearmed::Cancelled { old, index } => {
                self.bury(local, old);
                self.put(local, index);
                false
            }
        }
    }

    pub(crate) fn is_pending(&self, local: &mut Local, id: TimerId) -> bool {
        self.look_up(local, id, |slot| slot.is_pending(id.birth())).unwrap_or(false)
    }

    /// Where a timer waits.
    pub(super) fn look(&self, local: &mut Local, id: TimerId) -> Option<Place> {
        let (birth, place) = self.look_up(local, id, |slot| slot.look())??;
        (birth == id.birth()).then_some(place)
    }

    /// The timer that waits in a cell.
    pub(super) fn look_at(&self, local: &mut Local, cell: u32) -> Option<(TimerId, Place)> {
        let pinned = local.epoch.pin();
        let (birth, place) = self.arena.get(cell, &pinned)?.look()?;
        Some((TimerId::new(birth, cell, self.core.tag(), 0), place))
    }

    /// Cancels the timer that waits in a cell.
    pub(super) fn cancel_at(&self, local: &mut Local, cell: u32) -> Option<Option<Content<T>>> {
        let pinned = local.epoch.pin();
        let claimed = self.arena.get(cell, &pinned)?.claim_any()?;
        Some(self.end(local, claimed, Event::Cancelled))
    }

    /// Cancels the periodic timer that waits in a cell.
    pub(super) fn end_periodic_at(&self, local: &mut Local, cell: u32) -> Option<Option<Content<T>>> {
        let pinned = local.epoch.pin();
        let claimed = self.arena.get(cell, &pinned)?.claim_repeat()?;
        Some(self.end(local, claimed, Event::Ended))
    }

    /// All cells that there have been.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + use<T> {
        self.arena.indices()
    }

    /// Claims what a batch of due entries names, frees the cells; gives `fire` the payloads, each with its entry and how many came before it, and `run` the runs of
    /// periodic timers. Returns how many payloads there were.
    #[inline]
    pub(crate) fn claim_due(
        &self,
        local: &mut Local,
        entries: &[Entry],
        mut fire: impl FnMut(usize, Entry, T),
        mut run: impl FnMut(Run),
    ) -> usize {
        entries.iter().take(AHEAD).for_each(|entry| self.arena.prefetch(entry.cell()));
        let pinned = local.epoch.pin();
        let mut fired = 0;
        for (position, &entry) in entries.iter().enumerate() {
            if let Some(next) = entries.get(position + AHEAD) {
                self.arena.prefetch(next.cell());
            }
            let plain = self.arena.get(entry.cell(), &pinned).and_then(|slot| slot.claim_due_plain(entry));
            if let Some((payload, index)) = plain.or_else(|| self.claim_due_other(local, entry, &pinned, &mut run)) {
                self.put(local, index);
                fire(fired, entry, payload);
                fired += 1;
            }
        }
        // Before any of them runs: there is room for what it arms.
        self.core.release(fired);
        fired
    }

    /// Whatever else a due entry finds.
    #[inline(never)]
    fn claim_due_other(&self, local: &mut Local, entry: Entry, pinned: &Guard, run: &mut impl FnMut(Run)) -> Option<(T, Option<u32>)> {
        match self.arena.get(entry.cell(), pinned)?.claim_due(entry) {
            Due::Dead => return None,
            Due::Payload(payload, index) => return Some((payload, index)),
            Due::Run(place) => run(Run { cell: entry.cell(), tag: entry.tag(), place }),
            Due::Later(filed) => self.send(local, filed),
        }
        None
    }

    /// U1. Begins a run: what the timer was armed with is the caller's until `file_again` or `end_run`. `None`: it was cancelled since it came due.
    pub(super) fn begin_run(&self, local: &mut Local, run: Run) -> Option<Box<Repeat>> {
        let pinned = local.epoch.pin();
        self.arena.get(run.cell, &pinned)?.begin(run.tag)
    }

    /// U2. Files a periodic timer for its next run. If it was cancelled meanwhile it has ended: what it was armed with is returned.
    pub(super) fn file_again(&self, local: &mut Local, run: Run, repeat: Box<Repeat>) -> Option<Box<Repeat>> {
        // SAFETY: no magazine has the index of a cell that is RUNNING: its page is not retired.
        let slot = unsafe { self.arena.held(run.cell) };
        // SAFETY: who has the repeat has begun the run, and ends it here.
        match unsafe { slot.file_again(repeat, run.place) } {
            Ok(filed) => {
                self.send(local, filed);
                None
            }
            Err((repeat, index)) => {
                self.put(local, index);
                self.core.release(1);
                Some(repeat)
            }
        }
    }

    /// Ends a periodic timer after its last run, or instead of it. The caller has begun the run.
    pub(super) fn end_run(&self, local: &mut Local, run: Run) {
        // SAFETY: as in `file_again`.
        let slot = unsafe { self.arena.held(run.cell) };
        // SAFETY: as in `file_again`.
        let (index, cancelled) = unsafe { slot.end() };
        self.put(local, index);
        self.core.release(1);
        if !cancelled {
            local.count(run.place.shard(), Event::Ended, 1);
        }
    }

    /// X4, as `stop` does it.
    #[cfg(loom)]
    pub(crate) fn hand_back_all(&self, local: &mut Local, f: impl FnMut(u64, Content<T>)) {
        self.claim_all(local, Event::HandedBack, f);
    }

    /// X4. Claims everything that is armed; gives `f` deadline and content.
    pub(super) fn claim_all(&self, local: &mut Local, how: Event, mut f: impl FnMut(u64, Content<T>)) {
        let pinned = local.epoch.pin();
        // What is fired is not taken from under a run: that sees that the service is closed, and does what is to be done.
        self.arena.claim_all(&pinned, how != Event::Fired, |claimed| {
            let deadline = claimed.place.deadline();
            let how = if matches!(claimed.content, Some(Content::Payload(_))) { how } else { Event::Ended };
            // The shards are gone: no tombstones.
            if let Some(content) = self.end(local, Claimed { filed: None, ..claimed }, how) {
                f(deadline, content);
            }
        });
    }

    pub(crate) fn maintain(&self, now_ns: u64) -> Maintenance {
        self.arena.maintain(now_ns)
    }
}
