//! Memory: a store without a disk, for tests. Other stores are held against it.
//!
//! All that it has lies in maps under one lock. A clone of a [`Memory`] is another node: it has no
//! lease before it calls `acquire`, and then the former holder has none any more.

use crate::store::contract::{DoneStore, Gate, Lease, Store, StoreError, StoreSize};
use crate::store::done::{DoneForgotten, DoneListed, DonePlace, DoneRange, DoneTimer};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DeadLetter, DurableId, Held, Partition, Position, Row, StoreTime};
use crate::store::rule::{Rule, Rules};
use crate::store::write::{
    Amendment, KindSlice, Outcome, Replacement, Settled, SliceLimit, Target, TrialBegun, Write,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The only partition.
const PARTITION: Partition = 0;

/// A store that lasts as long as one of its clones. For tests: it survives no crash of the process.
///
/// Clones name one store, so a test can start a service again on what the last one has left. To
/// drop a service is a stop in order. A test that has it forgotten, by `std::mem::forget`, sees
/// what a program sees that starts again after a crash. Cost: each call takes a lock, and some
/// lookups in maps.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let store = Memory::new();
/// let timers = Durable::builder(store.clone()).start()?;
/// let id = timers.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
/// timers.stop()?;
///
/// let again = Durable::builder(store).start()?;
/// assert!(again.get(id)?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
    /// The epoch under which this clone has the lease, if it took one.
    epoch: Option<u64>,
    /// The rules were changed since this clone was asked for them last.
    has_news_of_rules: bool,
}

/// What the clones of a store share.
#[derive(Debug, Default)]
struct Kept {
    rows: BTreeMap<DurableId, Row>,
    /// The positions of `rows`.
    order: BTreeSet<Position>,
    /// The rows of `rows` that have a key.
    keys: BTreeMap<Arc<str>, DurableId>,
    dead: BTreeMap<DurableId, DeadLetter>,
    rules: Rules,
    done: BTreeMap<DonePlace, DoneTimer>,
    /// Ids given so far. They begin with 1: nothing is before the first position.
    ids: u64,
    /// The last epoch.
    epoch: u64,
    /// Rows due by then may have been handed out. `None`: no row may.
    watermark: Option<StoreTime>,
}

impl Memory {
    /// An empty store. Costs an allocation.
    ///
    /// # Example
    /// See [`Memory`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, for what only the holder of the lease may do.
    fn held(&self) -> Result<MutexGuard<'_, Kept>, StoreError> {
        let kept = self.kept();
        if self.epoch == Some(kept.epoch) {
            Ok(kept)
        } else {
            Err(StoreError::InUse("this store in memory".into()))
        }
    }
}

/// Another handle of the store. It has no lease.
impl Clone for Memory {
    fn clone(&self) -> Self {
        Self {
            kept: self.kept.clone(),
            epoch: None,
            has_news_of_rules: true,
        }
    }
}

impl Kept {
    fn find(&self, target: &Target) -> Option<&Row> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(key)?,
        };
        self.rows.get(id)
    }

    fn insert(&mut self, row: Row) {
        self.order.insert(row.position());
        if let Some(key) = &row.key {
            self.keys.insert(key.clone(), row.id);
        }
        let former = self.rows.insert(row.id, row);
        debug_assert_eq!(former, None, "an id names one row");
    }

    fn remove(&mut self, id: DurableId) -> Option<Row> {
        let row = self.rows.remove(&id)?;
        self.order.remove(&row.position());
        if let Some(key) = &row.key {
            self.keys.remove(key);
        }
        Some(row)
    }

    /// Changes a row's deadline. Returns it as it is then.
    fn set_due(&mut self, id: DurableId, due: StoreTime) -> Option<&mut Row> {
        let row = self.rows.get_mut(&id)?;
        self.order.remove(&row.position());
        row.set_due(due);
        self.order.insert(row.position());
        Some(row)
    }

    /// Holds a row that was handed out, or could be.
    fn hold(&mut self, of: &Settled, held: Held) -> Outcome {
        let mut can_hold = true;
        let outcome = self.settle(of, |kept, mut row| {
            let former = row.position();
            can_hold = row.hold(held);
            kept.order.remove(&former);
            kept.order.insert(row.position());
            kept.rows.insert(row.id, row.clone());
            Some(row)
        });
        if can_hold {
            outcome
        } else {
            Outcome::Settled(false, None)
        }
    }

    /// A row that was handed out is to fire again.
    fn put_again(
        &mut self,
        id: DurableId,
        due: StoreTime,
        attempts: u32,
        crashes: u32,
    ) -> Option<Row> {
        let row = self.set_due(id, due)?;
        (row.attempts, row.crashes, row.suspect) = (attempts, crashes, false);
        Some(row.clone())
    }

    /// The row, if it was not handed out.
    fn not_handed_out(&self, target: &Target, gate: &mut dyn Gate) -> Option<&Row> {
        self.find(target).filter(|row| gate.let_go(row.id))
    }

    /// The row that was handed out under this epoch, and was not settled since.
    fn in_flight(&self, of: &Settled) -> Option<&Row> {
        let row = self.rows.get(&of.id)?;
        (of.epoch == self.epoch && of.due == row.due).then_some(row)
    }

    fn arm(&mut self, row: Row, gate: &mut dyn Gate) -> Outcome {
        let gone = self.take_key(&row, gate);
        self.insert(row);
        Outcome::Armed(gone)
    }

    /// The row that has a new row's key is deleted, and returned, or superseded.
    fn take_key(&mut self, row: &Row, gate: &mut dyn Gate) -> Option<DurableId> {
        let former = *self.keys.get(row.key.as_ref()?)?;
        if gate.let_go(former) || is_broken(DurableFault::KeyTakenBlindly) {
            self.remove(former);
            return Some(former);
        }
        if let Some(former) = self.rows.get_mut(&former) {
            (former.superseded, former.key) = (true, None);
        }
        None
    }

    fn replace(&mut self, of: Replacement, gate: &mut dyn Gate) -> Outcome {
        let key = of.row.key.as_ref();
        if !of.is_for(key.and_then(|key| self.keys.get(key)).copied()) {
            return Outcome::Replaced(false, None);
        }
        let gone = self.take_key(&of.row, gate);
        self.insert(of.row);
        Outcome::Replaced(true, gone)
    }

    fn amend(&mut self, of: Amendment, gate: &mut dyn Gate) -> Outcome {
        let refused = Outcome::Amended(false, None);
        let Some(row) = self.rows.get(&of.id).filter(|row| !row.superseded) else {
            return refused;
        };
        if of.moves() && !of.may_move(row.due) {
            return refused;
        }
        let is_free = gate.let_go(of.id);
        if of.moves() {
            if !is_free {
                return refused;
            }
            self.set_due(of.id, of.due);
        }
        let Some(row) = self.rows.get_mut(&of.id) else {
            return refused;
        };
        of.amend(row);
        Outcome::Amended(true, is_free.then(|| row.clone()))
    }

    fn cancel(&mut self, target: &Target, gate: &mut dyn Gate) -> Option<DurableId> {
        let id = self.find(target)?.id;
        if gate.let_go(id) {
            self.remove(id);
            return Some(id);
        }
        self.strike(id)
    }

    /// A row is handled just now: if it has a calendar, this run is its last one.
    fn strike(&mut self, id: DurableId) -> Option<DurableId> {
        let row = self.rows.get_mut(&id)?;
        if row.superseded || row.calendar.is_none() {
            return None;
        }
        row.superseded = !is_broken(DurableFault::StruckRunsOn);
        if let Some(key) = row.key.take() {
            self.keys.remove(&key);
        }
        Some(id)
    }

    fn cancel_kind(&mut self, slice: &KindSlice, gate: &mut dyn Gate) -> Outcome {
        let (mut at, mut rows, mut bytes) = (slice.after, 0, 0);
        let mut gone = Vec::new();
        while !slice.limit.is_reached(rows, bytes) {
            let Some(position) = self.next_after(at, Position::MAX) else {
                return Outcome::CancelledMany(gone, None);
            };
            let row = &self.rows[&position.id];
            (at, rows, bytes) = (position, rows + 1, bytes + row.bytes());
            if row.kind == slice.kind {
                gone.extend(self.cancel(&Target::Id(position.id), gate));
            }
        }
        Outcome::CancelledMany(gone, Some(at))
    }

    /// The first position after `after`, up to `end`.
    fn next_after(&self, after: Position, end: Position) -> Option<Position> {
        let behind = (Bound::Excluded(after), Bound::Included(end));
        self.order.range(behind).next().copied()
    }

    fn reschedule(&mut self, target: &Target, due: StoreTime, gate: &mut dyn Gate) -> Option<Row> {
        if self.find(target)?.superseded {
            return None;
        }
        let id = self.not_handed_out(target, gate)?.id;
        self.set_due(id, due).cloned()
    }

    /// Notes the crashes of a suspect that is handed out, or was not after all.
    fn begin(&mut self, of: &Settled, crashes: u32) -> TrialBegun {
        let Some(&Row { id, superseded, .. }) = self.in_flight(of) else {
            return TrialBegun::Refused;
        };
        if superseded {
            self.remove(id);
            return TrialBegun::Superseded;
        }
        if let Some(row) = self.rows.get_mut(&id) {
            (row.crashes, row.suspect) = (crashes, true);
        }
        TrialBegun::Noted
    }

    /// Ends a delivery: deletes a superseded row, has `settle` decide on another one.
    fn settle(
        &mut self,
        of: &Settled,
        settle: impl FnOnce(&mut Self, Row) -> Option<Row>,
    ) -> Outcome {
        let Some(row) = self.in_flight(of).cloned() else {
            return Outcome::Settled(false, None);
        };
        if row.superseded {
            self.remove(row.id);
            return Outcome::Settled(true, None);
        }
        Outcome::Settled(true, settle(self, row))
    }

    fn apply(&mut self, write: Write, gate: &mut dyn Gate) -> Outcome {
        match write {
            Write::Arm(row) => self.arm(row, gate),
            Write::Replace(of) => self.replace(*of, gate),
            Write::Amend(of) => self.amend(*of, gate),
            Write::Cancel(target) => Outcome::Cancelled(self.cancel(&target, gate)),
            Write::Move(target, due) => Outcome::Moved(self.reschedule(&target, due, gate)),
            Write::CancelKind(slice) => self.cancel_kind(&slice, gate),
            Write::Begin { of, crashes } => Outcome::Begun(self.begin(&of, crashes)),
            Write::Ack { of, next: None } => self.settle(&of, |kept, row| {
                kept.remove(row.id);
                None
            }),
            Write::Ack {
                of,
                next: Some(next),
            } => self.settle(&of, |kept, row| kept.put_again(row.id, next, 0, 0)),
            Write::AckKept { of, next, kept } => {
                let outcome = self.apply(Write::Ack { of, next }, gate);
                let is_made = matches!(outcome, Outcome::Settled(true, _));
                if is_made || is_broken(DurableFault::DoneUnfenced) {
                    self.done.insert(kept.place(), *kept);
                }
                outcome
            }
            Write::Retry {
                of,
                at,
                attempts,
                crashes,
            } => self.settle(&of, |kept, row| {
                kept.put_again(row.id, at, attempts, crashes)
            }),
            Write::Hold { of, why, since } => self.hold(&of, Held { why, since }),
            Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } => self.settle(&of, |kept, mut letter| {
                (letter.attempts, letter.crashes, letter.suspect) = (attempts, crashes, false);
                letter.set_due(letter.wanted());
                let still_to_fire = match next {
                    None => {
                        kept.remove(letter.id);
                        None
                    }
                    Some((next, copy)) => {
                        let row = kept.put_again(letter.id, next, 0, 0);
                        (letter.id, letter.key, letter.calendar) = (copy, None, None);
                        row
                    }
                };
                kept.dead
                    .insert(letter.id, DeadLetter::new(letter, cause, since));
                still_to_fire
            }),
            Write::Revive(id, due) => Outcome::Revived(self.dead.remove(&id).map(|letter| {
                let mut row = letter.row;
                row.set_due(due);
                (row.key, row.attempts, row.crashes) = (None, 0, 0);
                self.insert(row.clone());
                row
            })),
            Write::Discard(id) => Outcome::Discarded(self.dead.remove(&id).is_some()),
            Write::Rule(of, change) => match self.rules.change(&of, change) {
                Ok(is_changed) => Outcome::Ruled(is_changed),
                Err(why) => Outcome::Refused(why.into()),
            },
        }
    }

    /// A life has ended without a release: what it may have handed out is suspect.
    fn suspect(&mut self, watermark: StoreTime) {
        for position in self.order.range(..=Position::end_of(watermark)) {
            if let Some(row) = self.rows.get_mut(&position.id) {
                row.suspect = true;
                row.crashes += u32::from(is_broken(DurableFault::WatermarkCharged));
            }
        }
    }
}

#[doc(hidden)]
impl Store for Memory {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        let mut kept = self.kept();
        if let Some(watermark) = kept.watermark.take() {
            kept.suspect(watermark);
        }
        kept.epoch += 1;
        let epoch = kept.epoch;
        drop(kept);
        self.epoch = Some(epoch);
        self.has_news_of_rules = true;
        Ok(vec![Lease {
            partition: PARTITION,
            epoch,
        }])
    }

    fn can_reopen(&self) -> bool {
        true
    }

    /// (What another clone has taken stays with it.)
    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        if is_broken(DurableFault::HealRaisesEpoch) {
            return self.acquire();
        }
        let epoch = self.held()?.epoch;
        self.has_news_of_rules = true;
        Ok(vec![Lease {
            partition: PARTITION,
            epoch,
        }])
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.held()?.watermark = None;
        self.epoch = None;
        Ok(())
    }

    fn new_id(&mut self, _: Option<&str>, due: StoreTime) -> DurableId {
        let mut kept = self.kept();
        kept.ids += 1;
        DurableId::new(PARTITION, due, kept.ids)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut kept = self.held()?;
        let outcomes = writes.into_iter().map(|write| kept.apply(write, gate));
        let outcomes: Vec<_> = outcomes.collect();
        drop(kept);
        self.has_news_of_rules |= outcomes.contains(&Outcome::Ruled(true));
        Ok(outcomes)
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.has_news_of_rules = false;
        Ok(self.kept().rules.all())
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.has_news_of_rules
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let kept = self.held()?;
        let (mut at, end) = (after, Position::end_of(until));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while !limit.is_reached(rows.len(), bytes) && partition == PARTITION && at < end {
            let Some(position) = kept.next_after(at, end) else {
                break;
            };
            at = position;
            let row = kept.rows[&position.id].clone();
            bytes += row.bytes();
            rows.push(row);
        }
        Ok(rows)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let mut kept = self.held()?;
        kept.watermark = kept.watermark.max(Some(upto));
        Ok(())
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        Ok(self.kept().find(target).cloned())
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut letters, mut bytes) = (Vec::new(), 0);
        for (_, letter) in self.kept().dead.range((from, Bound::Unbounded)) {
            if limit.is_reached(letters.len(), bytes) {
                break;
            }
            bytes += letter.row.bytes();
            letters.push(letter.clone());
        }
        Ok(letters)
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let kept = self.kept();
        Ok(StoreSize::new(
            kept.rows.len() as u64,
            kept.dead.len() as u64,
            None,
        ))
    }
}

#[doc(hidden)]
impl DoneStore for Memory {
    fn node(&self) -> Arc<str> {
        "".into()
    }

    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError> {
        if range.is_empty() {
            return Ok(DoneListed::default());
        }
        let bounds = (Bound::Excluded(range.above), Bound::Excluded(range.below));
        let kept = self.kept();
        let found = kept.done.range(bounds).map(|(_, done)| done.clone());
        let done: Vec<_> = match range.newest_first {
            true => found.rev().take(limit).collect(),
            false => found.take(limit).collect(),
        };
        let next = done.last().map(DoneTimer::place);
        let next = next.filter(|_| done.len() == limit);
        Ok(DoneListed {
            done,
            next,
            unreadable: Vec::new(),
        })
    }

    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError> {
        let mut kept = self.held()?;
        let mut gone = 0;
        while gone < limit
            && let Some(first) = kept.done.first_entry()
            && first.key().ended < before
        {
            first.remove();
            gone += 1;
        }
        let oldest = kept.done.first_key_value().map(|(place, _)| place.ended);
        Ok(DoneForgotten {
            has_more: oldest.is_some_and(|oldest| oldest < before),
            oldest,
        })
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        Ok(self.kept().done.len() as u64)
    }
}
