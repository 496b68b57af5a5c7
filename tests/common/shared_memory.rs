//! A store in memory that several nodes share: what `Postgres` does, without a database.
//!
//! All that it has lies in maps under one lock. A node is a handle of it, made by
//! [`SharedMemory::node`]. The test has the clock.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::durable::{
    DeadLetter, DurableId, Fleet, FleetNode, FleetPartition, Gate, Lease, LeaseNews, Outcome,
    Partition, Position, Row, Settled, SharedStore, Store, StoreClock, StoreError, StoreSize,
    StoreTime, Target, Write,
};

/// Between two looks for free leases at least.
const LOOK_MIN: Duration = Duration::from_millis(200);

/// When another node's lease runs out, it is looked at so much later.
const AFTER_END: Duration = Duration::from_millis(20);

/// A row that is armed into another node's partition is told of, if it is due so soon.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// The store's clock, as a node has it.
pub trait MemoryClock: StoreClock {
    /// What it shows just now. The store alone asks.
    fn now(&self) -> SystemTime;
}

/// A way in which the store can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBreak {
    /// A settlement is not asked for its epoch.
    EpochIgnored,
    /// The watermark does not count when a row is ended, moved or replaced.
    WatermarkIgnored,
    /// Who takes a partition over begins without a watermark.
    WatermarkLost,
    /// Who takes a partition over adds no attempts.
    AttemptsNotRaised,
}

/// All of them.
pub const STORE_BREAKS: [StoreBreak; 4] = [
    StoreBreak::EpochIgnored,
    StoreBreak::WatermarkIgnored,
    StoreBreak::WatermarkLost,
    StoreBreak::AttemptsNotRaised,
];

/// How a store is made.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    pub partitions: Partition,
    pub partition_of_key: fn(&str) -> Partition,
    /// How long a lease lasts.
    pub lease: Duration,
    pub claim_ahead: Duration,
    /// Nodes are told of what concerns them.
    pub has_news: bool,
    pub broken: Option<StoreBreak>,
}

#[derive(Clone, Copy, Debug)]
struct LeaseRow {
    owner: Option<u64>,
    epoch: u64,
    until: SystemTime,
    /// Rows due by then may have been handed out. `None`: no row may.
    claimed: Option<StoreTime>,
    /// Rows due by then are owed an attempt, if they were not written in this epoch.
    raise_upto: Option<StoreTime>,
    /// The last owner has given it back, and no row is owed an attempt.
    is_clean: bool,
}

struct Node {
    name: String,
    until: SystemTime,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

struct Kept {
    making: Making,
    rows: BTreeMap<DurableId, Row>,
    /// The epochs in which they were written by the owner. 0: by another node.
    epochs: BTreeMap<DurableId, u64>,
    /// The positions of `rows`, by partition.
    order: BTreeSet<(Partition, Position)>,
    keys: BTreeMap<Arc<str>, DurableId>,
    dead: BTreeMap<DurableId, DeadLetter>,
    leases: Vec<LeaseRow>,
    nodes: BTreeMap<u64, Node>,
    /// Nodes that there ever were, and ids that were ever given.
    nodes_ever: u64,
    ids: u64,
}

/// A node's handle of the store.
pub struct SharedMemory {
    kept: Arc<Mutex<Kept>>,
    node: u64,
    name: String,
    clock: Arc<dyn MemoryClock>,
    lease: Duration,
    /// Epochs by partition, as this node knows them.
    own: BTreeMap<Partition, u64>,
    /// Up to when rows of those partitions are owed an attempt.
    owed: BTreeMap<Partition, StoreTime>,
    surplus: Vec<Partition>,
    turn: usize,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A store in memory, outside of its nodes.
#[derive(Clone)]
pub struct SharedPlace(Arc<Mutex<Kept>>);

impl SharedPlace {
    /// An empty store, at this time of its clock.
    pub fn new(making: Making, now: SystemTime) -> Self {
        let lease = LeaseRow {
            owner: None,
            epoch: 0,
            until: now,
            claimed: None,
            raise_upto: None,
            is_clean: true,
        };
        Self(Arc::new(Mutex::new(Kept {
            making,
            rows: BTreeMap::new(),
            epochs: BTreeMap::new(),
            order: BTreeSet::new(),
            keys: BTreeMap::new(),
            dead: BTreeMap::new(),
            leases: vec![lease; making.partitions.into()],
            nodes: BTreeMap::new(),
            nodes_ever: 0,
            ids: 0,
        })))
    }

    /// A new node.
    pub fn node(&self, name: &str, clock: Arc<dyn MemoryClock>) -> SharedMemory {
        let mut kept = lock(&self.0);
        kept.nodes_ever += 1;
        SharedMemory {
            node: kept.nodes_ever,
            lease: kept.making.lease,
            kept: self.0.clone(),
            name: name.to_owned(),
            clock,
            own: BTreeMap::new(),
            owed: BTreeMap::new(),
            surplus: Vec::new(),
            turn: 0,
            wake: None,
        }
    }

    /// All rows, by position, and all dead letters.
    pub fn contents(&self) -> (Vec<Row>, Vec<DeadLetter>) {
        let kept = lock(&self.0);
        let mut rows: Vec<_> = kept.rows.values().cloned().collect();
        rows.sort_unstable_by_key(Row::position);
        (rows, kept.dead.values().cloned().collect())
    }

    /// All leases have run out: those of nodes that count here as dead.
    pub fn expire(&self, nodes: impl Fn(u64) -> bool, now: SystemTime) {
        let mut kept = lock(&self.0);
        for lease in &mut kept.leases {
            if lease.owner.is_some_and(&nodes) {
                lease.until = now;
            }
        }
        for (number, node) in &mut kept.nodes {
            if nodes(*number) {
                node.until = now;
            }
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The epoch of a row that a node writes, and that nobody has handed out: it is not owed an
/// attempt, if it is the node's.
fn own_epoch(own: &BTreeMap<Partition, u64>, id: DurableId) -> u64 {
    own.get(&id.partition()).copied().unwrap_or(0)
}

impl Kept {
    fn is(&self, broken: StoreBreak) -> bool {
        self.making.broken == Some(broken)
    }

    fn lease(&self, partition: Partition) -> &LeaseRow {
        &self.leases[usize::from(partition)]
    }

    fn find(&self, target: &Target) -> Option<&Row> {
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

    /// Changes a row's deadline and attempts. Returns it as it is then.
    fn set(&mut self, id: DurableId, due: StoreTime, attempts: u32) -> Option<Row> {
        let row = self.rows.get_mut(&id)?;
        self.order.remove(&(id.partition(), row.position()));
        (row.due, row.attempts) = (due, attempts);
        self.order.insert((id.partition(), row.position()));
        Some(row.clone())
    }

    /// Whether the row may be ended, moved or replaced: no owner may have handed it out.
    fn may_go(&self, row: &Row) -> bool {
        let claimed = self.lease(row.id.partition()).claimed;
        Some(row.due) > claimed || self.is(StoreBreak::WatermarkIgnored)
    }

    fn arm(&mut self, row: Row, epoch: u64) -> Outcome {
        let former = row.key.as_ref().and_then(|key| self.keys.get(key)).copied();
        let mut gone = None;
        if let Some(former) = former {
            if self.may_go(&self.rows[&former]) {
                self.remove(former);
                gone = Some(former);
            } else if let Some(former) = self.rows.get_mut(&former) {
                (former.superseded, former.key) = (true, None);
            }
        }
        self.insert(row, epoch);
        Outcome::Armed(gone)
    }

    fn cancel(&mut self, target: &Target) -> Option<DurableId> {
        let id = self.find(target).filter(|row| self.may_go(row))?.id;
        self.remove(id);
        Some(id)
    }

    fn cancel_kind(&mut self, kind: &str) -> Vec<DurableId> {
        let of_kind = self.rows.values().filter(|row| *row.kind == *kind);
        let ids: Vec<_> = of_kind.map(|row| row.id).collect();
        ids.into_iter()
            .filter_map(|id| self.cancel(&Target::Id(id)))
            .collect()
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
        let (id, attempts) = (row.id, row.attempts);
        let written = self.epochs.entry(id).or_default();
        *written = (*written).max(own_epoch(own, id));
        self.set(id, due, attempts)
    }

    /// A row that was handed out is to fire again.
    fn again(&mut self, of: &Settled, due: StoreTime, attempts: u32) -> Option<Row> {
        self.epochs.insert(of.id, of.epoch);
        self.set(of.id, due, attempts)
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
        if row.superseded {
            self.remove(row.id);
            return Outcome::Settled(true, None);
        }
        Outcome::Settled(true, settle(self, row))
    }

    fn apply(&mut self, write: Write, own: &BTreeMap<Partition, u64>) -> Outcome {
        match write {
            Write::Arm(row) => {
                let epoch = own_epoch(own, row.id);
                self.arm(row, epoch)
            }
            Write::Cancel(target) => Outcome::Cancelled(self.cancel(&target)),
            Write::Move(target, due) => Outcome::Moved(self.reschedule(&target, due, own)),
            Write::CancelKind(kind) => Outcome::CancelledMany(self.cancel_kind(&kind)),
            Write::Ack { of, next } => self.settle(&of, |kept, row| match next {
                Some(next) => kept.again(&of, next, 0),
                None => {
                    kept.remove(row.id);
                    None
                }
            }),
            Write::Retry { of, at, attempts } => {
                self.settle(&of, |kept, _| kept.again(&of, at, attempts))
            }
            Write::Bury {
                of,
                cause,
                since,
                attempts,
                next,
            } => self.settle(&of, |kept, row| {
                let mut letter = row;
                letter.attempts = attempts;
                let still_to_fire = match next {
                    None => {
                        kept.remove(letter.id);
                        None
                    }
                    Some((next, copy)) => {
                        let row = kept.again(&of, next, 0);
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
                (row.due, row.key, row.attempts) = (due, None, 0);
                self.insert(row.clone(), own_epoch(own, id));
                row
            })),
            Write::Discard(id) => Outcome::Discarded(self.dead.remove(&id).is_some()),
            other => panic!("{other:?}"),
        }
    }

    /// The lease was another's, or nobody's: rows that were perhaps handed out are owed an attempt.
    /// Returns also up to when.
    fn take(
        &mut self,
        partition: Partition,
        node: u64,
        until: SystemTime,
    ) -> (Lease, Option<StoreTime>) {
        let lease = self.leases[usize::from(partition)];
        let is_lost = self.is(StoreBreak::WatermarkLost);
        let raise_upto = lease.raise_upto.max(lease.claimed);
        let raise_upto = raise_upto.filter(|_| !lease.is_clean);
        self.leases[usize::from(partition)] = LeaseRow {
            owner: Some(node),
            epoch: lease.epoch + 1,
            until,
            claimed: lease.claimed.filter(|_| !is_lost),
            raise_upto,
            is_clean: false,
        };
        let epoch = lease.epoch + 1;
        (Lease { partition, epoch }, raise_upto)
    }

    /// The row as it is loaded under this epoch. `None`: another has taken its key, and it ends.
    fn load(&mut self, id: DurableId, epoch: u64, owed: Option<StoreTime>) -> Option<Row> {
        let is_current = self.lease(id.partition()).epoch == epoch;
        let is_owed = Some(self.rows[&id].due) <= owed && self.epochs[&id] < epoch;
        if is_owed && is_current {
            if self.rows[&id].superseded {
                self.remove(id);
                return None;
            }
            self.epochs.insert(id, epoch);
            if !self.is(StoreBreak::AttemptsNotRaised) {
                let row = self.rows.get_mut(&id)?;
                row.attempts = row.attempts.saturating_add(1);
            }
        }
        self.rows.get(&id).cloned()
    }

    /// Whether no row of a partition is owed an attempt.
    fn is_settled(&self, partition: Partition) -> bool {
        let lease = self.lease(partition);
        let Some(upto) = lease.raise_upto else {
            return true;
        };
        let from = (partition, Position::MIN);
        let mut rows = self.order.range(from..=(partition, Position::end_of(upto)));
        !rows.any(|(_, position)| self.epochs[&position.id] < lease.epoch)
    }
}

impl SharedMemory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// The number of this node.
    pub fn number(&self) -> u64 {
        self.node
    }

    fn tell(&self) {
        let kept = self.kept();
        if !kept.making.has_news {
            return;
        }
        let others = kept.nodes.iter().filter(|(node, _)| **node != self.node);
        let wakes: Vec<_> = others.filter_map(|(_, node)| node.wake.clone()).collect();
        drop(kept);
        wakes.iter().for_each(|wake| wake());
    }

    fn change_leases(&mut self) -> LeaseNews {
        let now = self.clock.now();
        let until = now + self.lease;
        let kept = self.kept.clone();
        let mut kept = lock(&kept);
        let own_node = Node {
            name: self.name.clone(),
            until,
            wake: self.wake.clone(),
        };
        kept.nodes.insert(self.node, own_node);
        let others = kept
            .nodes
            .iter()
            .filter(|(node, state)| **node != self.node && state.until > now)
            .count();
        let mut renewed = BTreeMap::new();
        let mut first_end: Option<SystemTime> = None;
        for partition in 0..kept.making.partitions {
            let lease = &mut kept.leases[usize::from(partition)];
            if lease.owner == Some(self.node) {
                lease.until = until;
                renewed.insert(partition, lease.epoch);
            } else {
                first_end = Some(first_end.map_or(lease.until, |end| end.min(lease.until)));
            }
        }
        let mut news = LeaseNews::new(self.lease - self.lease / 10, self.lease / 3);
        let former = std::mem::replace(&mut self.own, renewed);
        news.lost = former
            .keys()
            .filter(|partition| !self.own.contains_key(partition))
            .copied()
            .collect();
        // (One that was taken, and the answer was lost, is new here, too.)
        self.owed.clear();
        for (&partition, &epoch) in &self.own {
            let raise_upto = kept.lease(partition).raise_upto;
            self.owed.extend(raise_upto.map(|upto| (partition, upto)));
            if former.get(&partition) != Some(&epoch) {
                news.taken.push(Lease { partition, epoch });
            }
        }
        let share = usize::from(kept.making.partitions).div_ceil(others + 1);
        let free: Vec<_> = (0..kept.making.partitions)
            .filter(|&partition| {
                let lease = kept.lease(partition);
                lease.owner.is_none() || lease.until <= now
            })
            .collect();
        let wanted = share.saturating_sub(self.own.len()).min(free.len());
        let begin = self.node as usize % free.len().max(1);
        for &partition in free.iter().cycle().skip(begin).take(wanted) {
            let (lease, raise_upto) = kept.take(partition, self.node, until);
            self.own.insert(lease.partition, lease.epoch);
            self.owed.remove(&lease.partition);
            self.owed
                .extend(raise_upto.map(|upto| (lease.partition, upto)));
            news.taken.push(lease);
        }
        let surplus = self.own.len().saturating_sub(share);
        self.surplus = self.own.keys().rev().take(surplus).copied().collect();
        news.surplus = self.surplus.clone();
        if let Some(wait) = first_end.and_then(|end| end.duration_since(now).ok()) {
            news.again = news.again.min((wait + AFTER_END).max(LOOK_MIN));
        } else if self.own.len() < share && first_end.is_some() {
            news.again = news.again.min(LOOK_MIN);
        }
        drop(kept);
        if !news.taken.is_empty() && news.surplus.is_empty() {
            self.tell();
        }
        news
    }

    fn give_back_now(&mut self, leases: &[Lease]) {
        let now = self.clock.now();
        let mut kept = lock(&self.kept);
        for lease in leases {
            let is_clean = kept.is_settled(lease.partition);
            let row = &mut kept.leases[usize::from(lease.partition)];
            if row.epoch == lease.epoch && row.owner == Some(self.node) {
                (row.owner, row.until, row.is_clean) = (None, now, is_clean);
            }
        }
        drop(kept);
        for lease in leases {
            self.own.remove(&lease.partition);
            self.owed.remove(&lease.partition);
        }
        self.surplus.clear();
    }

    fn is_news(&self, write: &Write) -> bool {
        let soon = StoreTime::reading(self.clock.at_most()).after(TELL_WITHIN);
        let is_others =
            |due: StoreTime, partition| due <= soon && !self.own.contains_key(&partition);
        match write {
            Write::Arm(row) => is_others(row.due, row.id.partition()),
            Write::Move(Target::Id(id), due) | Write::Revive(id, due) => {
                is_others(*due, id.partition())
            }
            Write::Move(Target::Key(key), due) => {
                is_others(*due, (self.kept().making.partition_of_key)(key))
            }
            _ => false,
        }
    }
}

impl Store for SharedMemory {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        Ok(self.change_leases().taken)
    }

    fn release(&mut self) -> Result<(), StoreError> {
        let own = self.own.iter();
        let leases: Vec<_> = own
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        self.give_back_now(&leases);
        self.kept().nodes.remove(&self.node);
        self.tell();
        Ok(())
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        let mut kept = lock(&self.kept);
        kept.ids += 1;
        let partition = match key {
            Some(key) => (kept.making.partition_of_key)(key),
            None => {
                let own = self.own.len() - self.surplus.len().min(self.own.len());
                self.turn = (self.turn + 1) % own.max(1);
                let own = self.own.keys().nth(self.turn).filter(|_| own > 0);
                let any = (kept.ids % u64::from(kept.making.partitions)) as Partition;
                own.copied().unwrap_or(any)
            }
        };
        DurableId::new(partition, due, kept.ids)
    }

    fn commit(
        &mut self,
        mut writes: Vec<Write>,
        _: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        // Other nodes look for what is due, not for what was.
        let now = StoreTime::reading(self.clock.at_most());
        let partition_of_key = self.kept().making.partition_of_key;
        for write in &mut writes {
            let (partition, due) = match write {
                Write::Arm(row) => (row.id.partition(), &mut row.due),
                Write::Move(Target::Id(id), due) => (id.partition(), due),
                Write::Move(Target::Key(key), due) => (partition_of_key(key), due),
                _ => continue,
            };
            if !self.own.contains_key(&partition) {
                *due = now.max(*due);
            }
        }
        let is_news = writes.iter().any(|write| self.is_news(write));
        let mut kept = lock(&self.kept);
        let own = &self.own;
        let outcomes = writes.into_iter().map(|write| kept.apply(write, own));
        let outcomes = outcomes.collect();
        drop(kept);
        if is_news {
            self.tell();
        }
        Ok(outcomes)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.load_many(&[partition], after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let own = self.own.iter();
        let leases: Vec<_> = own
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        self.claim(&leases, upto).map(drop)
    }

    fn clock(&mut self, _: SystemTime) -> Result<StoreTime, StoreError> {
        Ok(StoreTime::reading(self.clock.at_least()))
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        Ok(self.kept().find(target).cloned())
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let kept = self.kept();
        let letters = kept.dead.range((from, Bound::Unbounded)).take(limit);
        Ok(letters.map(|(_, letter)| letter.clone()).collect())
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let kept = self.kept();
        Ok(StoreSize::new(
            kept.rows.len() as u64,
            kept.dead.len() as u64,
            None,
        ))
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for SharedMemory {
    fn partitions(&self) -> Partition {
        self.kept().making.partitions
    }

    fn claim_ahead(&self) -> Duration {
        self.kept().making.claim_ahead
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        Ok(self.change_leases())
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.give_back_now(leases);
        self.tell();
        Ok(())
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        let mut kept = self.kept();
        let mut lost = Vec::new();
        for lease in leases {
            let row = &mut kept.leases[usize::from(lease.partition)];
            if row.owner == Some(self.node) && row.epoch == lease.epoch {
                row.claimed = row.claimed.max(Some(upto));
            } else {
                lost.push(*lease);
            }
        }
        Ok(lost)
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut kept = lock(&self.kept);
        let mut positions = Vec::new();
        if after < Position::end_of(until) {
            for &partition in partitions {
                let from = Bound::Excluded((partition, after));
                let to = Bound::Included((partition, Position::end_of(until)));
                let of = kept.order.range((from, to));
                positions.extend(of.map(|(_, position)| *position));
            }
        }
        positions.sort_unstable();
        let rows = positions.iter().filter_map(|position| {
            let partition = position.id.partition();
            let epoch = self.own.get(&partition).copied().unwrap_or(0);
            kept.load(position.id, epoch, self.owed.get(&partition).copied())
        });
        Ok(rows.take(limit).collect())
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        let kept = self.kept();
        let least = Position {
            due: from,
            id: DurableId::from_bits(0),
        };
        let firsts = partitions.iter().filter_map(|&partition| {
            let of = (partition, least)..=(partition, Position::MAX);
            kept.order.range(of).next().map(|(_, first)| first.due)
        });
        Ok(firsts.min())
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        self.clock.clone()
    }

    fn takes_clock(&self) -> bool {
        true
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.wake = Some(wake.clone());
        if let Some(node) = lock(&self.kept).nodes.get_mut(&self.node) {
            node.wake = Some(wake);
        }
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        let now = self.clock.now();
        let kept = self.kept();
        let mut fleet = Fleet::default();
        for (&number, node) in kept.nodes.iter().filter(|(_, node)| node.until > now) {
            let is_owned = |lease: &&LeaseRow| lease.owner == Some(number) && lease.until > now;
            let mut entry = FleetNode::default();
            entry.name = node.name.clone();
            entry.partitions = kept.leases.iter().filter(is_owned).count();
            entry.is_this = number == self.node;
            fleet.nodes.push(entry);
        }
        for partition in 0..kept.making.partitions {
            let lease = kept.lease(partition);
            let owner = lease.owner.filter(|_| lease.until > now);
            let from = (partition, Position::MIN);
            let first = kept.order.range(from..=(partition, Position::MAX)).next();
            let mut entry = FleetPartition::default();
            entry.number = partition;
            entry.owner = owner.and_then(|owner| Some(kept.nodes.get(&owner)?.name.clone()));
            entry.epoch = lease.epoch;
            let now = StoreTime::reading(now);
            entry.lag = first.map_or(Duration::ZERO, |(_, first)| now.since(first.due));
            fleet.partitions.push(entry);
        }
        Ok(fleet)
    }
}
