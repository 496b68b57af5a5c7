//! Local: what each thread has of each service, found through thread-local storage.
//!
//! Its magazines, its lane to each shard, its counters, its epoch handle and its clock reading: all that the calls of one thread need without touching a line that
//! another thread writes. Made at a thread's first call, given back when the thread ends. A thread whose thread-locals are gone (a call from
//! the destructor of one) makes a local for the one call and gives it back at once.
//!
//! Ground rules: a local is used by its thread alone, and no code of a user runs while one is borrowed.

use super::core::Core;
use super::lateness::Histogram;
use super::reading::Reading;
use super::tally::{Event, Tally};
use crate::cell::Magazines;
use crate::count::Own;
use crate::entry::Entry;
use crate::lane::{Sender, Sent};
use crate::sync::LocalHandle;
use crate::time::Anchor;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

pub(crate) struct Local {
    /// The shard to which this thread's timers go. `NO_HOME` until it arms one: threads that only fire timers take no part in the distribution.
    home: usize,
    pub(super) anchor: Anchor,
    reading: Reading,
    /// There until the local is dropped.
    pub(super) magazines: ManuallyDrop<Magazines>,
    pub(super) epoch: LocalHandle,
    /// To the home, made on first use. It has its own place, so that nothing waits for a timer's cell to say which shard it has: see `way_to`.
    home_way: Option<Way>,
    /// To the other shards.
    ways: Box<[Option<Way>]>,
    /// There once this thread has claimed what was due.
    lateness: Option<Own<Histogram>>,
    core: Arc<Core>,
}

/// What a thread has to do with one shard.
struct Way {
    /// Its lane, made when it first sends something.
    lane: Option<Sender<Entry>>,
    tally: Own<Tally>,
}

const NO_HOME: usize = usize::MAX;

impl Local {
    /// A local for the calling thread.
    pub(crate) fn attach(core: &Arc<Core>) -> Self {
        Self {
            home: if core.shards() == 1 { 0 } else { NO_HOME },
            anchor: Anchor::default(),
            reading: Reading::default(),
            magazines: ManuallyDrop::new(Magazines::new(core.depot())),
            epoch: core.collector().register(),
            home_way: None,
            ways: (0..core.shards()).map(|_| None).collect(),
            lateness: None,
            core: core.clone(),
        }
    }

    /// The shard to which this thread's timers go.
    #[inline]
    pub(super) fn home(&mut self) -> usize {
        if self.home == NO_HOME {
            self.find_home();
        }
        self.home
    }

    #[cold]
    #[inline(never)]
    fn find_home(&mut self) {
        self.home = self.core.next_home();
        self.home_way = self.ways[self.home].take();
    }

    /// The date that the next timer for the home may share. `None`: read the clock.
    #[inline]
    pub(super) fn shared_date(&mut self) -> Option<u64> {
        if !self.reading.is_shared() {
            return None;
        }
        let Some(Way { lane: Some(lane), .. }) = &self.home_way else { return None };
        self.reading.date(lane, self.core.bell(self.home))
    }

    /// The clock was read for a timer, which has been sent.
    #[inline]
    pub(super) fn note_reading(&mut self, now_ns: u64, slack_ns: u64) {
        self.reading.note(now_ns, slack_ns, || self.home_way.as_mut()?.lane.as_mut());
    }

    /// Sends the insert of a timer that shares the date to the home, and counts it.
    #[inline]
    pub(super) fn send_in_doubt(&mut self, insert: Entry, rounded_ns: u64) -> Sent {
        match &mut self.home_way {
            Some(Way { lane: Some(lane), tally }) => {
                tally.add(Event::Armed, 1);
                lane.push_in_doubt(insert, self.reading.take(rounded_ns))
            }
            _ => unreachable!("the date came by this lane"),
        }
    }

    /// Sends a message to a shard. Returns where it lies, and how many wait there, at the end of each segment (else 0).
    #[inline]
    pub(super) fn send(&mut self, shard: usize, message: Entry) -> Sent {
        match self.way_to(shard) {
            Some(Way { lane: Some(lane), .. }) => lane.push(message),
            _ => self.send_first(shard, message),
        }
    }

    /// Sends a message, and counts what it is for.
    #[inline]
    pub(super) fn send_counted(&mut self, shard: usize, message: Entry, event: Event) -> Sent {
        match self.way_to(shard) {
            Some(Way { lane: Some(lane), tally }) => {
                tally.add(event, 1);
                lane.push(message)
            }
            _ => self.send_first_counted(shard, message, event),
        }
    }

    /// Takes an insert back that this thread sent lately, or sends its tombstone, and counts what that is for. Returns how many messages wait, as `send`.
    #[inline]
    pub(super) fn unsend_counted(&mut self, shard: usize, position: u32, insert: Entry, event: Event) -> u64 {
        match self.way_to(shard) {
            Some(Way { lane: Some(lane), tally }) => {
                tally.add(event, 1);
                if lane.recall(position, insert) { 0 } else { lane.push(insert.tombstone()).waiting }
            }
            _ => self.send_first_counted(shard, insert.tombstone(), event).waiting,
        }
    }

    #[cold]
    #[inline(never)]
    fn send_first(&mut self, shard: usize, message: Entry) -> Sent {
        let lane = self.core.inbox(shard).attach();
        self.way(shard).lane.insert(lane).push(message)
    }

    #[cold]
    #[inline(never)]
    fn send_first_counted(&mut self, shard: usize, message: Entry, event: Event) -> Sent {
        self.count(shard, event, 1);
        self.send_first(shard, message)
    }

    /// Counts what this thread does to a shard's timers.
    #[inline]
    pub(super) fn count(&mut self, shard: usize, event: Event, timers: u64) {
        match self.way_to(shard) {
            Some(way) => way.tally.add(event, timers),
            None => self.way(shard).tally.add(event, timers),
        }
    }

    /// The way to a shard, if there is one. A timer's shard comes from its cell, which may be a cache miss away, and what is counted or sent is a store. If its
    /// address had to wait for the cell, so would, on a processor that lets no load pass a store whose address it does not know, every load behind it,
    /// and with it the next call. A branch is predicted, and does not wait.
    #[inline]
    fn way_to(&mut self, shard: usize) -> &mut Option<Way> {
        if shard == self.home { &mut self.home_way } else { &mut self.ways[shard] }
    }

    #[cold]
    fn way(&mut self, shard: usize) -> &mut Way {
        let tallies = self.core.tallies(shard).clone();
        self.way_to(shard).get_or_insert_with(|| Way { lane: None, tally: tallies.attach() })
    }

    /// Gives `f` this thread's histogram beside the local.
    #[inline]
    pub(super) fn with_lateness<R>(&mut self, f: impl FnOnce(&mut Self, &Histogram) -> R) -> R {
        let lateness = self.lateness.take().unwrap_or_else(|| self.core.lateness().attach());
        let result = f(self, &lateness);
        self.lateness = Some(lateness);
        result
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used after.
        let magazines = unsafe { ManuallyDrop::take(&mut self.magazines) };
        magazines.give_back(self.core.depot());
    }
}

const NOBODY: (*const Core, *mut Local) = (ptr::null(), ptr::null_mut());

/// The locals of a thread. Not many: a thread rarely uses more than one service.
struct Locals(Vec<*mut Local>);

thread_local! {
    /// Core and local of the service that the thread used last. Needs no destructor, so it is there as long as the thread is.
    static LAST: Cell<(*const Core, *mut Local)> = const { Cell::new(NOBODY) };

    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals(Vec::new())) };
}

impl Drop for Locals {
    fn drop(&mut self) {
        LAST.set(NOBODY);
        for local in self.0.drain(..) {
            // SAFETY: boxed by `find`; `LAST` names it no more, and no call is in progress in this thread.
            drop(unsafe { Box::from_raw(local) });
        }
    }
}

/// Gives `f` the calling thread's local of a service. `f` runs no user code, and does not call `with` again.
#[inline]
pub(super) fn with<R>(core: &Arc<Core>, f: impl FnOnce(&mut Local) -> R) -> R {
    if cfg!(loom) {
        return with_lent(core, f);
    }
    let (last, mut local) = LAST.get();
    let mut is_temporary = false;
    if !ptr::eq(last, Arc::as_ptr(core)) {
        (local, is_temporary) = find_another(core);
    }
    // Called in one place, so that what it captures need not go through memory.
    // SAFETY: boxed in this thread, by `find` and not freed while `LAST` names it, or for this call; it is this core's, whose address is no other's as long as the
    // local has it; `f` does not come here again.
    let result = f(unsafe { &mut *local });
    if is_temporary {
        // SAFETY: boxed for this call, and nobody else knows it.
        give_back(unsafe { Box::from_raw(local) });
    }
    result
}

#[cfg(loom)]
crate::sync::per_thread! {
    /// What the calling thread's calls use, in a model that lends it.
    static LENT: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
}

/// Has the calls in `f` use this local, in a model.
#[cfg(loom)]
pub(crate) fn lend<R>(local: &mut Local, f: impl FnOnce() -> R) -> R {
    LENT.with(|lent| lent.set(local));
    let result = f();
    LENT.with(|lent| lent.set(ptr::null_mut()));
    result
}

/// Gives `f` the local that a model lends the thread, or one for this call: all threads of a model are
/// one thread to `LAST`.
fn with_lent<R>(core: &Arc<Core>, f: impl FnOnce(&mut Local) -> R) -> R {
    #[cfg(loom)]
    if let lent = LENT.with(Cell::get)
        && !lent.is_null()
    {
        // SAFETY: `lend` has it mutably, for this thread and as long as it is set; `f` does not come
        // here again.
        return f(unsafe { &mut *lent });
    }
    f(&mut Local::attach(core))
}

/// The thread's local of a service that it did not use last; or, if its thread-locals are gone, one for one call, which is the caller's to free.
#[cold]
#[inline(never)]
fn find_another(core: &Arc<Core>) -> (*mut Local, bool) {
    match LOCALS.try_with(|locals| find(&mut locals.borrow_mut(), core)) {
        Ok(local) => {
            LAST.set((Arc::as_ptr(core), local));
            (local, false)
        }
        Err(_) => (Box::into_raw(Box::new(Local::attach(core))), true),
    }
}

#[cold]
#[inline(never)]
fn give_back(local: Box<Local>) {
    drop(local);
}

/// The thread's local of a service, made if it has none. Locals of services that have stopped are dropped on the way.
fn find(locals: &mut Locals, core: &Arc<Core>) -> *mut Local {
    // SAFETY: the pointers in the list are ours and alive; nobody has a reference to what they point to between calls.
    let core_of = |local: *mut Local| unsafe { &(*local).core };
    if let Some(&local) = locals.0.iter().find(|&&local| Arc::ptr_eq(core_of(local), core)) {
        return local;
    }
    LAST.set(NOBODY);
    locals.0.retain(|&local| {
        let keep = !core_of(local).is_stopped();
        if !keep {
            // SAFETY: boxed below, and off the list now; `LAST` was cleared.
            drop(unsafe { Box::from_raw(local) });
        }
        keep
    });
    let local = Box::into_raw(Box::new(Local::attach(core)));
    locals.0.push(local);
    local
}
