//! Core: what every step of a turn works on. The store, the window, and how far the partitions are
//! loaded that are this process's.

use super::aside::Aside;
use super::hold::{HeldRows, ToHold};
use super::queues::Queues;
use super::window::{ClockReading, Window};
use crate::handler::delivery::Delivery;
use crate::queue::link::DurableShared;
use crate::store::contract::{Lease, Store, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, HeldWhy, Partition, Position, Row, StoreTime};
use crate::store::why::panic_text;
use crate::store::write::{Outcome, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the writer looks at the system's clock, and counts the store's rows, while it has
/// something to watch.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A partition that this process owns.
pub(super) struct Owned {
    pub(super) lease: Lease,
    /// Up to here all rows are in the window.
    pub(super) loaded: Position,
    /// Of a store that is shared: the watermark of the partition.
    pub(super) claimed: StoreTime,
    /// It is given back as soon as nothing of it is being handled.
    pub(super) is_leaving: bool,
    /// The same, for nodes that hand out one of these kinds; until when, by the node's clock.
    pub(super) wants: Vec<Arc<str>>,
    pub(super) goes_until: Duration,
    /// Since when it is owned, or was last tried to be given away.
    pub(super) since: Duration,
}

impl Owned {
    pub(super) fn new(lease: Lease) -> Self {
        Self {
            lease,
            loaded: Position::MIN,
            claimed: StoreTime::MIN,
            is_leaving: false,
            wants: Vec::new(),
            goes_until: Duration::ZERO,
            since: Duration::ZERO,
        }
    }

    /// Whether nothing more of it is handed out, so that it can be given back.
    pub(super) fn rests(&self) -> bool {
        self.is_leaving || !self.wants.is_empty()
    }
}

/// What every step of a turn works on.
pub(super) struct Core {
    pub(super) store: Box<dyn Store>,
    pub(super) shared: Arc<DurableShared>,
    pub(super) window: Window,
    /// What waits for somebody's transaction.
    pub(super) aside: Aside,
    /// What is known of rows that are held, or are to be.
    pub(super) held: HeldRows,
    /// Rows that are held by limits.
    pub(super) queues: Queues,
    /// By partition.
    pub(super) owned: Vec<Owned>,
    /// The watermark.
    pub(super) claimed: StoreTime,
    /// The store may have rows, so that a step of the system's clock matters.
    pub(super) has_rows: bool,
    /// Of rows with a calendar that is behind: the runs in a row that were made up for.
    pub(super) made_up: IdMap<DurableId, u32>,
    /// Nothing is handed out any more.
    pub(super) is_stopping: bool,
    /// Rows that the next load asks for at most. It follows from their sizes.
    pub(super) slice_rows: usize,
    /// On a manual clock: how long the writer waits for something to do. Twice as long each time
    /// that it has measured the store, until something happens.
    pub(super) look_every: Duration,
}

impl Core {
    /// What holds between two turns, and comments state.
    pub(super) fn check(&self) {
        let is_before = |one: &Owned, other: &Owned| one.lease.partition < other.lease.partition;
        debug_assert!(
            self.owned.is_sorted_by(is_before),
            "partitions are found by a binary search"
        );
        debug_assert!(
            self.window.is_counted_right(),
            "the window counts what it has"
        );
        debug_assert!(
            self.aside.is_counted_right(),
            "what waits is found by its row or key"
        );
    }

    /// What the window's clock shows.
    pub(super) fn time(&self) -> Instant {
        self.window.service().now()
    }

    /// Reads the node's clocks, the system's first: what is due by the other one is due by it.
    pub(super) fn read_clocks(&self) -> ClockReading {
        let system = self.shared.now();
        let monotonic = self.time();
        ClockReading { system, monotonic }
    }

    /// The epoch of a partition's lease.
    pub(super) fn epoch(&self, partition: Partition) -> u64 {
        self.owner(partition).map_or(0, |owned| owned.lease.epoch)
    }

    pub(super) fn owner(&self, partition: Partition) -> Option<&Owned> {
        let by_partition = |owned: &Owned| owned.lease.partition.cmp(&partition);
        let at = self.owned.binary_search_by(by_partition).ok()?;
        self.owned.get(at)
    }

    /// Whether a row is due in the part of the window that is loaded.
    pub(super) fn is_loaded(&self, row: &Row) -> bool {
        self.owner(row.id.partition())
            .is_some_and(|owned| row.position() <= owned.loaded)
    }

    /// A row came back that this node may not hand out just now: it is loaded anew, if the node may
    /// again.
    pub(super) fn look_again(&mut self, row: &Row) {
        let due = row.due.as_millis().saturating_sub(1);
        let before = Position::end_of(StoreTime::from_millis(due));
        for owned in &mut self.owned {
            if owned.lease.partition == row.id.partition() {
                owned.loaded = owned.loaded.min(before);
            }
        }
    }

    /// TurnCommit: stores these changes, if there are any.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.has_rows = true;
        let count = writes.len() as u64;
        let begun = self.time();
        // A store may be a user's. What it has stored before it panicked is not known.
        let commit = || self.store.commit(writes, &mut self.window);
        let outcomes = catch_unwind(AssertUnwindSafe(commit))
            .unwrap_or_else(|panic| Err(StoreError::Io(panic_text(&*panic).into())))?;
        if outcomes.len() as u64 != count {
            let why = format!("{count} changes have {} outcomes", outcomes.len());
            return Err(StoreError::Damaged(why.into()));
        }
        let took = self.time().saturating_duration_since(begun);
        let counts = &self.shared.counts;
        counts.commits.add(1);
        counts.writes.add(count);
        counts.commit_time.record(took, 1);
        Ok(outcomes)
    }

    /// A row as a handler gets it, in the place in which the window's timer has it.
    pub(super) fn delivery(&self, row: Row) -> Box<Delivery> {
        // (A lease may have been lost meanwhile. Then another node finds the row.)
        let fence = self.epoch(row.id.partition());
        let made_up = match row.calendar {
            Some(_) => self.made_up.get(&row.id).copied().unwrap_or_default(),
            None => 0,
        };
        Box::new(Delivery {
            row,
            fence,
            made_up,
            limit: None,
        })
    }

    /// Takes a row into the window: a suspect waits there.
    pub(super) fn take(&mut self, mut delivery: Box<Delivery>, clocks: ClockReading) {
        let suspects = &mut self.window.suspects;
        suspects.correct(&mut delivery.row, delivery.fence);
        let Some(delivery) = self.hold_back(delivery) else {
            return;
        };
        let row = &delivery.row;
        let kinds = &self.shared.kinds;
        if row.is_on_trial() && !kinds.retry_of(&row.kind).has_crashed_out(row.crashes) {
            self.window.hold(*delivery, clocks.monotonic);
        } else {
            self.window.insert(delivery, clocks);
        }
    }

    /// HoldPlan: if this process does not hand out the row, the row is to be held, and does not
    /// come into the window. Returns it otherwise.
    fn hold_back(&mut self, delivery: Box<Delivery>) -> Option<Box<Delivery>> {
        let row = &delivery.row;
        let Some(why) = self.held_for(row) else {
            return Some(delivery);
        };
        self.window.remove(row.id);
        if !self.is_stopping {
            let kind = row.kind.clone();
            let of = delivery.settled();
            self.held.push(ToHold {
                of,
                kind,
                why,
                refused: None,
            });
        }
        None
    }

    /// Why this process does not hand out a row, if it does not: it has no handler, or a rule
    /// pauses the row.
    pub(super) fn held_for(&self, row: &Row) -> Option<HeldWhy> {
        let unhandled = self.shared.kinds.held_for(&row.kind);
        let unhandled = unhandled.filter(|_| !is_broken(DurableFault::LooksBuries));
        unhandled.or_else(|| self.is_paused(row).then_some(HeldWhy::Paused))
    }

    /// Whether a rule pauses a row.
    pub(super) fn is_paused(&self, row: &Row) -> bool {
        self.shared.pauses.has(row)
    }

    /// A run of a row has been made, and this many in a row were made up for.
    pub(super) fn note_made_up(&mut self, id: DurableId, made_up: u32) {
        if made_up > 0 {
            self.made_up.insert(id, made_up);
        } else if !self.made_up.is_empty() {
            self.made_up.remove(&id);
        }
    }

    /// Takes back what was noted of suspects that have left the window, before they are read again.
    pub(super) fn take_back_notes(&mut self) -> Result<(), StoreError> {
        let writes = self.window.suspects.taken_back(false);
        let outcomes = self.commit(writes.clone());
        if outcomes.is_err() {
            writes.iter().for_each(|write| self.take_back_later(write));
        }
        for outcome in outcomes? {
            if let Outcome::Blocked(write) | Outcome::PutOff(write) = outcome {
                self.take_back_later(&write);
            }
        }
        Ok(())
    }

    /// Somebody's transaction holds a row up whose charge is taken back: the next turn tries again.
    pub(super) fn take_back_later(&mut self, write: &Write) {
        if let Write::Begin { of, crashes } = write
            && !is_broken(DurableFault::HealKeepsCharges)
        {
            let suspects = &mut self.window.suspects;
            suspects.take_back_later(of.clone(), *crashes);
        }
    }

    /// More was armed into the window than it may hold: what is due last leaves it.
    pub(super) fn shrink(&mut self) {
        let Some(last) = self.window.shrink() else {
            return;
        };
        if is_broken(DurableFault::ShrunkKeepsLoaded) {
            return;
        }
        for owned in &mut self.owned {
            owned.loaded = owned.loaded.min(last);
        }
    }

    /// TurnFail: nothing that was loaded is trusted any more. The window lets go of all rows that
    /// are not being handled, and nothing is claimed.
    pub(super) fn forget_loaded(&mut self) {
        if !is_broken(DurableFault::HealKeepsLoaded) {
            for owned in &mut self.owned {
                owned.loaded = Position::MIN;
            }
        }
        if !is_broken(DurableFault::HealKeepsClaim) {
            self.claimed = StoreTime::MIN;
            self.shared.unclaim();
        }
        self.window.forget();
        self.held.forget();
        self.queues.forget();
        self.shared.throttle.forget_grants();
    }

    /// RulesFollow: rows that were not handed out leave the window, and are read again.
    pub(super) fn load_anew(&mut self) {
        for owned in &mut self.owned {
            owned.loaded = Position::MIN;
        }
        self.window.empty();
        self.held.forget_to_hold();
    }

    /// TurnBack: what was said in a commit whose outcome is not known is refused, if the lease is
    /// another one by now.
    pub(super) fn refuse_answers(&mut self) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.are_refused(|of| self.epoch(of.id.partition()) != of.epoch);
        self.aside = aside;
    }

    /// A row of a process's own store may lie where it is not looked for.
    pub(super) fn load_all_again(&mut self) {
        if self.shared.rights.is_none() {
            for owned in &mut self.owned {
                owned.loaded = Position::MIN;
            }
        }
    }

    /// StopDeliver: the window lets go of all rows that are not being handled.
    pub(super) fn empty(&mut self) {
        self.is_stopping = true;
        self.shared.throttle.end();
        for owned in &mut self.owned {
            owned.loaded = Position::MIN;
        }
        self.window.empty();
        self.held.forget();
        self.queues.forget();
    }

    /// Whether this process has no handler: it hands nothing out, and leaves alone what is due.
    pub(super) fn only_looks(&self) -> bool {
        self.shared.kinds.is_empty() && !is_broken(DurableFault::LooksBuries)
    }
}
