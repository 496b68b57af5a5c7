//! Cells: the arena of one type of payload, and the way to the shards.
//!
//! Owned by the engine. All threads touch it, by `&self`; each brings its own [`Local`]. The steps
//! of the calls are methods of `Cells` in the files of this room that are named after them.

use super::affinity::core_of_this_thread;
use super::id::TimerId;
use super::local::Local;
use super::local::pressure::{Situation, is_ahead, is_large, overload_to_ease, seen_by};
use super::local::thread_local;
use super::shared::Shared;
use crate::cell::{Arena, CellRef, DueAt, Filed, Maintenance};
use crate::dispatch::inside::inside_job;
use crate::lane::Backlog;
use crate::shard::LINGER_NS;
use crate::sync::{Fault, broken, give_way};
use crate::time::{Clock, NANOS_MAX, Nanos, TickLength};
use std::sync::Arc;

pub(crate) struct Cells<T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) arena: Arena<T>,
    clock: Clock,
    tick: TickLength,
}

impl<T: Send + 'static> Cells<T> {
    pub(crate) fn new(shared: Arc<Shared>, clock: Clock, tick: TickLength) -> Self {
        let arena = Arena::new(shared.depot().clone(), shared.pins().clone());
        Self {
            shared,
            arena,
            clock,
            tick,
        }
    }

    /// Gives `f` the calling thread's local. See [`thread_local::with`].
    #[inline]
    pub(crate) fn with_local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        thread_local::with(&self.shared, f)
    }

    /// Sends an insert, and wakes the shard if it sleeps past the deadline.
    #[inline]
    pub(crate) fn send(&self, local: &mut Local, filed: Filed) {
        let sent = local.send(filed.shard, filed.entry);
        self.ring(
            DueAt::new(filed.entry.deadline(), filed.shard),
            sent.backlog,
        );
    }

    /// Sends the tombstone of an entry. It wakes the shard only if too many messages wait.
    #[inline]
    pub(super) fn send_tombstone(&self, local: &mut Local, filed: Filed) {
        let sent = local.send(filed.shard, filed.entry.tombstone());
        self.ease(filed.shard, sent.backlog);
    }

    /// Takes back an index that the caller holds.
    #[inline]
    pub(crate) fn put(&self, local: &mut Local, index: Option<u32>) {
        if let Some(cell) = index {
            local.magazines.put(cell, self.shared.depot());
        }
    }

    /// Wakes the shard if it sleeps past the deadline, or if too many messages wait.
    #[inline]
    pub(crate) fn ring(&self, due_at: DueAt, backlog: Backlog) {
        let bell = self.shared.bell(due_at.shard());
        bell.ring(due_at.deadline());
        self.ease(due_at.shard(), backlog);
    }

    /// Wakes the shard if too many messages wait. Slows this thread down if the shard cannot keep
    /// up with it.
    #[inline]
    pub(crate) fn ease(&self, shard: usize, backlog: Backlog) {
        if is_large(backlog) {
            self.slow_down(shard, backlog);
        }
    }

    #[cold]
    #[inline(never)]
    fn slow_down(&self, shard: usize, backlog: Backlog) {
        // No shard takes the messages in a process that was forked off.
        if self.shared.is_forked() {
            return;
        }
        let bell = self.shared.bell(shard);
        bell.ring_asleep(|| seen_by(backlog, || self.end_of_naps()));
        let situation = Situation {
            shard_is_awake: bell.is_awake(),
            is_on_manual_clock: self.shared.is_on_manual_clock(),
            is_inside_job: inside_job(),
        };
        if is_ahead(situation)
            && let Some(core) = core_of_this_thread()
        {
            self.shared.company(shard).note(core);
        }
        match overload_to_ease(backlog, situation) {
            0 => {}
            overload => give_way(overload),
        }
    }

    /// A tick that comes after the end of a nap that lasts now.
    fn end_of_naps(&self) -> u64 {
        let nap_ns = LINGER_NS.max(self.tick.nanos());
        let end_ns = self.clock.now_ns().saturating_add(nap_ns).min(NANOS_MAX);
        self.tick.floor(Nanos(end_ns)).0
    }

    /// Gives `f` the cell of an id. `none`: what it returns if there is no such cell (any more), or
    /// if the id belongs to another service. (An `Option` around what `f` returns would be looked
    /// at once more.)
    // (`always`: a crate that is one unit of code, or is optimized for size, would call it
    // otherwise, and what `f` returns would go through memory.)
    #[inline(always)]
    pub(super) fn look_up<R>(
        &self,
        local: &mut Local,
        id: TimerId,
        none: R,
        f: impl FnOnce(CellRef<'_, T>) -> R,
    ) -> R {
        if !id.is_of(self.shared.tag()) {
            return none;
        }
        let guarded =
            |held| Arena::<T>::same_page(held, id.cell()) || broken(Fault::LookUpUnguarded);
        if local.magazines.peek().is_some_and(guarded) {
            // The usual case for timers that are cancelled soon. It saves the pin.
            // SAFETY: the magazine holds an index of this page until `f` is done, so the page stays
            // (RetireGather).
            return f(unsafe { self.arena.held(id.cell()) });
        }
        // The cell is fetched while this thread pins.
        self.arena.prefetch(id.cell());
        let pinned = local.pinner.pin();
        match self.arena.get(id.cell(), &pinned) {
            Some(cell) => f(cell),
            None => none,
        }
    }

    /// Fetches the cells of these ids ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, ids: &[TimerId]) {
        ids.iter()
            .filter(|id| id.is_of(self.shared.tag()))
            .for_each(|id| self.arena.prefetch(id.cell()));
    }

    /// The indices of all cells that were ever in use.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + use<T> {
        self.arena.indices()
    }

    pub(crate) fn maintain(&self, now_ns: u64) -> Maintenance {
        self.arena.maintain(now_ns)
    }
}
