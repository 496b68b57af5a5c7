//! Kept: what the store has, rows and dead letters, and what each write does to them.

use super::grants::Granted;
use super::leases::LeaseRow;
use super::users::{Lock, User};
use super::{Making, StoreBreak};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;
use wheelwork_durable::contract::{
    Amendment, DonePlace, Held, KindSlice, Outcome, Position, Replacement, Rules, Settled, Target,
    TrialBegun, Write,
};
use wheelwork_durable::{DeadLetter, DoneTimer, DurableId, Partition, Row, StoreTime};

pub struct Node {
    pub name: String,
    pub until: SystemTime,
    pub is_slow: bool,
    /// It has no handlers, and owns nothing.
    pub looks: bool,
    pub kinds: Vec<Arc<str>>,
    /// Rows of its partitions due by then may have been handed out. `None`: no row may.
    pub upto: Option<StoreTime>,
    pub wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

pub struct Kept {
    pub making: Making,
    pub rows: BTreeMap<DurableId, Row>,
    /// The epochs in which they were written by the owner. 0: by another node.
    pub epochs: BTreeMap<DurableId, u64>,
    /// The positions of `rows`, by partition.
    pub order: BTreeSet<(Partition, Position)>,
    pub keys: BTreeMap<Arc<str>, DurableId>,
    pub dead: BTreeMap<DurableId, DeadLetter>,
    pub rules: Rules,
    /// Each change of a rule raises it.
    pub rules_number: u64,
    pub granted: Granted,
    pub done: BTreeMap<DonePlace, DoneTimer>,
    pub leases: Vec<LeaseRow>,
    pub nodes: BTreeMap<u64, Node>,
    /// Nodes that there ever were, and ids that were ever given.
    pub nodes_ever: u64,
    pub ids: u64,
    /// Transactions of users that are open, and what they have locked.
    pub users: BTreeMap<u64, User>,
    pub locks: BTreeMap<DurableId, Lock>,
    pub key_locks: BTreeMap<Arc<str>, u64>,
}

/// A held row is due at its deadline after this.
pub const HELD_BASE: StoreTime = StoreTime::from_millis(1 << 47);

/// The deadline of a held row that wants this one. Of a held row, its own.
fn held_due(due: StoreTime) -> StoreTime {
    match due < HELD_BASE {
        true => StoreTime::from_millis(HELD_BASE.as_millis() + due.as_millis()),
        false => due,
    }
}

/// The epoch of a row that a node writes, and that nobody has handed out: it is not suspect, if it
/// is the node's.
fn own_epoch(own: &BTreeMap<Partition, u64>, id: DurableId) -> u64 {
    own.get(&id.partition()).copied().unwrap_or(0)
}

impl Kept {
    /// Nothing, at this time of the store's clock.
    pub fn new(making: Making, now: SystemTime) -> Self {
        let lease = LeaseRow {
            owner: None,
            epoch: 0,
            until: now,
            claimed: None,
            raise_upto: None,
            is_clean: true,
            wants: Vec::new(),
        };
        Self {
            making,
            rows: BTreeMap::new(),
            epochs: BTreeMap::new(),
            order: BTreeSet::new(),
            keys: BTreeMap::new(),
            dead: BTreeMap::new(),
            rules: Rules::default(),
            rules_number: 0,
            granted: Granted::default(),
            done: BTreeMap::new(),
            leases: vec![lease; making.partitions.into()],
            nodes: BTreeMap::new(),
            nodes_ever: 0,
            ids: 0,
            users: BTreeMap::new(),
            locks: BTreeMap::new(),
            key_locks: BTreeMap::new(),
        }
    }

    pub fn is(&self, broken: StoreBreak) -> bool {
        self.making.broken == Some(broken)
    }

    pub fn lease(&self, partition: Partition) -> &LeaseRow {
        &self.leases[usize::from(partition)]
    }

    pub fn find(&self, target: &Target) -> Option<&Row> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(key)?,
        };
        self.rows.get(id)
    }

    fn insert(&mut self, row: Row, epoch: u64) {
        self.epochs.insert(row.id, epoch);
        self.order.insert((row.id.partition(), row.position()));
        if let Some(key) = &row.key {
            self.keys.insert(key.clone(), row.id);
        }
        let former = self.rows.insert(row.id, row);
        assert_eq!(former, None, "an id names one row");
    }

    fn remove(&mut self, id: DurableId) -> Option<Row> {
        let row = self.rows.remove(&id)?;
        self.epochs.remove(&id);
        self.order.remove(&(id.partition(), row.position()));
        if let Some(key) = &row.key {
            self.keys.remove(key);
        }
        Some(row)
    }

    /// Changes a row's deadline. Returns it as it is then.
    fn set_due(&mut self, id: DurableId, due: StoreTime) -> Option<&mut Row> {
        let row = self.rows.get_mut(&id)?;
        self.order.remove(&(id.partition(), row.position()));
        row.due = due;
        row.set_held(None);
        self.order.insert((id.partition(), row.position()));
        Some(row)
    }

    /// A node has gone. (A lease that it did not give back needs its watermark.)
    pub fn leave(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            (node.until, node.wake) = (SystemTime::UNIX_EPOCH, None);
        }
    }

    /// The watermark of a partition: what was written down of owners before, and its owner's.
    pub fn claimed(&self, partition: Partition) -> Option<StoreTime> {
        let lease = self.lease(partition);
        let node = lease.owner.and_then(|owner| self.nodes.get(&owner));
        lease.claimed.max(node.and_then(|node| node.upto))
    }

    /// Whether the row may be ended, moved or replaced: no owner may have handed it out.
    fn may_go(&self, row: &Row) -> bool {
        if let Some(lock) = self.locks.get(&row.id) {
            // The user that has locked it has looked. Nobody else comes here.
            return lock.is_free;
        }
        let claimed = self.claimed(row.id.partition());
        Some(row.due) > claimed || self.is(StoreBreak::WatermarkIgnored)
    }

    fn arm(&mut self, row: Row, epoch: u64) -> Outcome {
        let gone = self.take_key(&row);
        self.insert(row, epoch);
        Outcome::Armed(gone)
    }

    /// The row that has a new row's key is deleted, and returned, or superseded.
    fn take_key(&mut self, row: &Row) -> Option<DurableId> {
        let former = *self.keys.get(row.key.as_ref()?)?;
        if self.may_go(&self.rows[&former]) {
            self.remove(former);
            return Some(former);
        }
        if let Some(former) = self.rows.get_mut(&former) {
            (former.superseded, former.key) = (true, None);
        }
        None
    }

    fn replace(&mut self, of: Replacement, epoch: u64) -> Outcome {
        let key = of.row.key.as_ref();
        if key.and_then(|key| self.keys.get(key)).copied() != of.former {
            return Outcome::Replaced(false, None);
        }
        let gone = self.take_key(&of.row);
        self.insert(of.row, epoch);
        Outcome::Replaced(true, gone)
    }

    fn amend(&mut self, of: &Amendment, own: &BTreeMap<Partition, u64>) -> Outcome {
        let refused = Outcome::Amended(false, None);
        let Some(row) = self.rows.get(&of.id).filter(|row| !row.superseded) else {
            return refused;
        };
        let moves = of.due != of.former_due;
        let is_as_read = row.clone().shown().due == of.former_due;
        if moves && !(is_as_read && self.may_go(row)) {
            return refused;
        }
        let moved = moves.then(|| self.reschedule(&Target::Id(of.id), of.due, own));
        let Some(row) = self.rows.get_mut(&of.id) else {
            return refused;
        };
        (row.payload, row.calendar) = (of.payload.clone(), Some(of.calendar.clone()));
        row.set_traceparent(of.trace.clone());
        Outcome::Amended(true, moved.map(|_| row.clone()))
    }

    fn cancel(&mut self, target: &Target) -> Option<DurableId> {
        let row = self.find(target)?.clone();
        if self.may_go(&row) {
            self.remove(row.id);
            return Some(row.id);
        }
        if row.superseded || row.calendar.is_none() || !self.making.strikes {
            return None;
        }
        // A recurring row that may have been handed out is struck.
        let row = self.rows.get_mut(&row.id)?;
        row.superseded = true;
        if let Some(key) = row.key.take() {
            self.keys.remove(&key);
        }
        Some(row.id)
    }

    /// Partition by partition.
    fn cancel_kind(&mut self, slice: &KindSlice) -> Outcome {
        let (mut rows, mut bytes) = (0, 0);
        let (mut at, mut gone) = (slice.after, Vec::new());
        while !slice.limit.is_reached(rows, bytes) {
            let after = Bound::Excluded((at.id.partition(), at));
            let mut behind = self.order.range((after, Bound::Unbounded));
            let Some(&(_, position)) = behind.next() else {
                return Outcome::CancelledMany(gone, None);
            };
            let row = &self.rows[&position.id];
            (at, rows, bytes) = (position, rows + 1, bytes + row.bytes());
            if row.kind == slice.kind && !self.is_locked(position.id) {
                gone.extend(self.cancel(&Target::Id(position.id)));
            }
        }
        Outcome::CancelledMany(gone, Some(at))
    }

    fn reschedule(
        &mut self,
        target: &Target,
        due: StoreTime,
        own: &BTreeMap<Partition, u64>,
    ) -> Option<Row> {
        let row = self.find(target)?;
        if row.superseded || !self.may_go(row) {
            return None;
        }
        let (id, held) = (row.id, row.held());
        let written = self.epochs.entry(id).or_default();
        *written = (*written).max(own_epoch(own, id));
        match held {
            Some(held) if self.is(StoreBreak::MoveKeepsHeld) => {
                let row = self.set_due(id, held_due(due))?;
                row.set_held(Some(held));
                Some(row.clone())
            }
            _ => self.set_due(id, due).cloned(),
        }
    }

    /// A row goes behind all that are not held.
    fn hold(&mut self, of: &Settled, held: Held) -> Option<Row> {
        self.epochs.insert(of.id, of.epoch);
        let due = match self.is(StoreBreak::HeldFallsDue) {
            true => of.due,
            false => held_due(of.due),
        };
        let row = self.set_due(of.id, due)?;
        row.set_held(Some(held));
        Some(row.clone())
    }

    /// Whether a row is as late as a held one, and is not held: it cannot be.
    fn is_late(&self, of: &Settled) -> bool {
        let row = self.rows.get(&of.id).filter(|row| !row.superseded);
        row.is_some_and(|row| row.due >= HELD_BASE && row.held().is_none())
    }

    /// A row that was handed out is to fire again. `counts`: its attempts and crashes.
    fn again(&mut self, of: &Settled, due: StoreTime, counts: (u32, u32)) -> Option<Row> {
        self.epochs.insert(of.id, of.epoch);
        let parts_go = self.is(StoreBreak::RetryForgetsParts);
        let row = self.set_due(of.id, due)?;
        (row.attempts, row.crashes) = counts;
        if parts_go {
            row.set_expires(None);
        }
        Some(row.clone())
    }

    /// Notes the crashes of a suspect that is handed out, or was not after all.
    fn begin(&mut self, of: &Settled, crashes: u32) -> TrialBegun {
        let is_current = self.lease(of.id.partition()).epoch == of.epoch;
        let row = self.rows.get(&of.id).filter(|row| row.due == of.due);
        let Some(row) = row.filter(|_| is_current) else {
            return TrialBegun::Refused;
        };
        if row.superseded {
            self.remove(of.id);
            return TrialBegun::Superseded;
        }
        if let Some(row) = self.rows.get_mut(&of.id) {
            row.crashes = crashes;
        }
        // (Its epoch stays, so it stays a suspect.)
        TrialBegun::Noted
    }

    /// Ends a delivery: deletes a superseded row, has `settle` decide on another one.
    fn settle(
        &mut self,
        of: &Settled,
        settle: impl FnOnce(&mut Self, Row) -> Option<Row>,
    ) -> Outcome {
        let lease = self.lease(of.id.partition());
        let is_current = lease.epoch == of.epoch || self.is(StoreBreak::EpochIgnored);
        let row = self.rows.get(&of.id).filter(|row| row.due == of.due);
        let Some(row) = row.filter(|_| is_current).cloned() else {
            return Outcome::Settled(false, None);
        };
        if row.superseded && !self.is(StoreBreak::SupersededStays) {
            self.remove(row.id);
            return Outcome::Settled(true, None);
        }
        Outcome::Settled(true, settle(self, row))
    }

    pub fn apply(&mut self, write: Write, own: &BTreeMap<Partition, u64>) -> Outcome {
        match write {
            Write::Arm(row) => {
                let epoch = own_epoch(own, row.id);
                self.arm(row, epoch)
            }
            Write::Replace(of) => {
                let epoch = own_epoch(own, of.row.id);
                self.replace(*of, epoch)
            }
            Write::Amend(of) => self.amend(&of, own),
            Write::Cancel(target) => Outcome::Cancelled(self.cancel(&target)),
            Write::Move(target, due) => Outcome::Moved(self.reschedule(&target, due, own)),
            Write::CancelKind(slice) => self.cancel_kind(&slice),
            Write::Begin { of, crashes } => Outcome::Begun(self.begin(&of, crashes)),
            Write::Ack { of, next } => self.settle(&of, |kept, row| match next {
                Some(next) => kept.again(&of, next, (0, 0)),
                None => {
                    kept.remove(row.id);
                    None
                }
            }),
            Write::AckKept { of, next, kept } => {
                let outcome = self.apply(Write::Ack { of, next }, own);
                let is_made = matches!(outcome, Outcome::Settled(true, _));
                if is_made || self.is(StoreBreak::DoneUnfenced) {
                    self.done.insert(kept.place(), *kept);
                }
                outcome
            }
            Write::Retry {
                of,
                at,
                attempts,
                crashes,
            } => self.settle(&of, |kept, _| kept.again(&of, at, (attempts, crashes))),
            Write::Hold { of, .. } if self.is_late(&of) => Outcome::Settled(false, None),
            Write::Hold { of, why, since } => {
                self.settle(&of, |kept, _| kept.hold(&of, Held { why, since }))
            }
            Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } => self.settle(&of, |kept, row| {
                let mut letter = row;
                if letter.held().is_some() {
                    letter.due = StoreTime::MIN.after(letter.due.since(HELD_BASE));
                }
                letter.set_held(None);
                (letter.attempts, letter.crashes) = (attempts, crashes);
                let still_to_fire = match next {
                    None => {
                        kept.remove(letter.id);
                        None
                    }
                    Some((next, copy)) => {
                        let row = kept.again(&of, next, (0, 0));
                        (letter.id, letter.key, letter.calendar) = (copy, None, None);
                        row
                    }
                };
                let letter = DeadLetter::new(letter, cause, since);
                kept.dead.insert(letter.row.id, letter);
                still_to_fire
            }),
            Write::Revive(id, due) => Outcome::Revived(self.dead.remove(&id).map(|letter| {
                let mut row = letter.row;
                (row.due, row.key) = (due, None);
                row.set_held(None);
                (row.attempts, row.crashes) = (0, 0);
                self.insert(row.clone(), own_epoch(own, id));
                row
            })),
            Write::Discard(id) => Outcome::Discarded(self.dead.remove(&id).is_some()),
            Write::Rule(of, change) => match self.rules.change(&of, change) {
                Ok(is_changed) => {
                    self.rules_number += u64::from(is_changed);
                    Outcome::Ruled(is_changed)
                }
                Err(why) => Outcome::Refused(why.into()),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The row as its owner reads it: an owner before may have handed it out.
    pub fn seen(&self, row: &Row, own: &BTreeMap<Partition, u64>) -> Row {
        let lease = self.lease(row.id.partition());
        let is_owed = Some(row.due) <= lease.raise_upto && self.epochs[&row.id] < lease.epoch;
        let mut row = row.clone();
        let is_own = own.get(&row.id.partition()) == Some(&lease.epoch);
        row.suspect |= is_owed && is_own && !self.is(StoreBreak::NoneSuspect);
        row
    }
}
