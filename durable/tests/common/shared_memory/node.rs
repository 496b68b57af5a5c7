//! Node: a handle of the store, which reads, writes and asks for leases.

use super::kept::Kept;
use super::leases::LeaseRow;
use super::users::name_of;
use super::{MemoryClock, StoreBreak, lock};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{
    DoneForgotten, DoneListed, DonePlace, DoneRange, DoneStore, Gate, Grant, Lease, LeaseNews,
    Listed, NodeKinds, Outcome, Position, RowFilter, SharedStore, SliceLimit, Store, StoreClock,
    StoreSize, Target, Want, Write,
};
use wheelwork_durable::{
    DeadLetter, DoneTimer, DurableId, Fleet, FleetNode, FleetPartition, Partition, Row, Rule,
    StoreError, StoreTime,
};

/// A node is told of a row that another node arms into its partition, if the row is due within this
/// time.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// A node's handle of the store.
pub struct SharedMemory {
    pub(super) kept: Arc<Mutex<Kept>>,
    pub(super) node: u64,
    pub(super) name: String,
    pub(super) clock: Arc<dyn MemoryClock>,
    pub(super) lease: Duration,
    /// Epochs by partition, as this node knows them.
    pub(super) own: BTreeMap<Partition, u64>,
    pub(super) surplus: usize,
    pub(super) is_slow: bool,
    pub(super) looks: bool,
    pub(super) kinds: Vec<Arc<str>>,
    /// Partitions that were taken for a kind, and until when they do not count to the share.
    pub(super) extra: BTreeMap<Partition, SystemTime>,
    /// Those that are left to nodes with other kinds, and since when.
    pub(super) left: BTreeMap<Partition, SystemTime>,
    pub(super) turn: usize,
    pub(super) wake: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The number of all rules when they were read last, and as it was seen last.
    pub(super) rules_read: Option<u64>,
    pub(super) rules_seen: u64,
}

impl SharedMemory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// The number of this node.
    pub fn number(&self) -> u64 {
        self.node
    }

    /// It is far from the store: others do its work, if there are any that are not. The next
    /// renewal says so.
    pub fn set_slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
    }

    pub(super) fn tell(&self) {
        let kept = self.kept();
        if !kept.making.has_news {
            return;
        }
        let others = kept.nodes.iter().filter(|(node, _)| **node != self.node);
        let wakes: Vec<_> = others.filter_map(|(_, node)| node.wake.clone()).collect();
        drop(kept);
        wakes.iter().for_each(|wake| wake());
    }

    fn is_news(&self, write: &Write) -> bool {
        let soon = StoreTime::reading(self.clock.at_most()).after(TELL_WITHIN);
        let is_others =
            |due: StoreTime, partition| due <= soon && !self.own.contains_key(&partition);
        match write {
            Write::Arm(row) => is_others(row.due, row.id.partition()),
            Write::Replace(of) => is_others(of.row.due, of.row.id.partition()),
            Write::Amend(of) => of.due != of.former_due && is_others(of.due, of.id.partition()),

            Write::Move(Target::Id(id), due) | Write::Revive(id, due) => {
                is_others(*due, id.partition())
            }
            Write::Move(Target::Key(key), due) => {
                is_others(*due, (self.kept().making.partition_of_key)(key))
            }
            Write::Rule(..) => true,
            _ => false,
        }
    }
}

impl Store for SharedMemory {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        Ok(self.change_leases().taken)
    }

    fn can_reopen(&self) -> bool {
        true
    }

    /// As after a pause: a lease goes on, if nobody has taken it.
    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.rules_read = None;
        self.change_leases();
        let own = self.own.iter();
        let leases = own.map(|(&partition, &epoch)| Lease { partition, epoch });
        Ok(leases.collect())
    }

    fn release(&mut self) -> Result<(), StoreError> {
        let own = self.own.iter();
        let leases: Vec<_> = own
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        self.give_back_now(&leases);
        self.kept().leave(self.node);
        self.tell();
        Ok(())
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        let mut kept = lock(&self.kept);
        kept.ids += 1;
        let partition = match key {
            Some(key) => (kept.making.partition_of_key)(key),
            None => {
                let own = self.own.len() - self.surplus.min(self.own.len());
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
                Write::Replace(of) => (of.row.id.partition(), &mut of.row.due),
                Write::Amend(of) if of.due != of.former_due => (of.id.partition(), &mut of.due),
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
        let mut held_up = Vec::new();
        // It takes time to find out that a key is another's. There is some for one key alone.
        let mut has_time = true;
        let outcomes = writes.into_iter().map(|write| {
            let name = name_of(&write);
            let is_behind = name.as_ref().is_some_and(|name| held_up.contains(name));
            let puts_key = matches!(&write, Write::Arm(_) | Write::Replace(_)) && name.is_some();
            if is_behind || (has_time || !puts_key) && kept.is_blocked(&write) {
                has_time &= !puts_key;
                held_up.extend(name);
                return Outcome::Blocked(Box::new(write));
            }
            if puts_key && !has_time {
                held_up.extend(name);
                return Outcome::PutOff(Box::new(write));
            }
            kept.apply(write, own)
        });
        let outcomes: Vec<_> = outcomes.collect();
        drop(kept);
        if outcomes.contains(&Outcome::Ruled(true)) {
            self.rules_read = None;
        }
        if is_news {
            self.tell();
        }
        Ok(outcomes)
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        let kept = self.kept();
        let (number, rules) = (kept.rules_number, kept.rules.all());
        drop(kept);
        (self.rules_read, self.rules_seen) = (Some(number), number);
        Ok(rules)
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.rules_read != Some(self.rules_seen)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
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

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let kept = self.kept();
        Ok(StoreSize::new(
            kept.rows.len() as u64,
            kept.dead.len() as u64,
            None,
        ))
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl DoneStore for SharedMemory {
    fn node(&self) -> Arc<str> {
        (*self.name).into()
    }

    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError> {
        if range.above >= range.below {
            return Ok(DoneListed::default());
        }
        let kept = self.kept();
        let bounds = (Bound::Excluded(range.above), Bound::Excluded(range.below));
        let found = kept.done.range(bounds).map(|(_, done)| done.clone());
        let done: Vec<DoneTimer> = match range.newest_first {
            true => found.rev().take(limit).collect(),
            false => found.take(limit).collect(),
        };
        let last = done.last().map(DoneTimer::place);
        let next = last.filter(|_| done.len() == limit);
        Ok(DoneListed {
            done,
            next,
            unreadable: Vec::new(),
        })
    }

    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError> {
        let mut kept = lock(&self.kept);
        let over = kept
            .done
            .keys()
            .filter(|place| place.ended < before && self.own.contains_key(&place.id.partition()));
        let over: Vec<DonePlace> = over.take(limit).copied().collect();
        for place in &over {
            kept.done.remove(place);
        }
        Ok(DoneForgotten {
            has_more: over.len() == limit,
            oldest: None,
        })
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        Ok(self.kept().done.len() as u64)
    }
}

impl SharedStore for SharedMemory {
    fn partitions(&self) -> u32 {
        self.kept().making.partitions.into()
    }

    fn handles(&mut self, kinds: &[Arc<str>]) {
        let is_leaving = kinds.is_empty() && !self.kinds.is_empty();
        if is_leaving && self.kept().is(StoreBreak::LeavingIgnored) {
            return;
        }
        self.looks = kinds.is_empty();
        self.kinds = kinds.to_vec();
    }

    fn give_away(&mut self, leases: &[(Lease, Vec<Arc<str>>)]) -> Result<(), StoreError> {
        self.give_away_now(leases);
        self.tell();
        Ok(())
    }

    fn node_kinds(&mut self) -> Result<Vec<NodeKinds>, StoreError> {
        let now = self.clock.now();
        let kept = self.kept();
        let alive = (kept.nodes.iter()).filter(|(_, node)| node.until > now && !node.looks);
        let nodes = alive.map(|(number, node)| {
            let mut kinds = NodeKinds::default();
            kinds.name.clone_from(&node.name);
            kinds.kinds = Some(node.kinds.clone());
            kinds.is_this = *number == self.node;
            kinds
        });
        Ok(nodes.collect())
    }

    fn grant(&mut self, wants: &[Want]) -> Result<Vec<Grant>, StoreError> {
        let now = self.clock.now();
        let node = self.node;
        let mut kept = self.kept();
        Ok(wants
            .iter()
            .map(|want| kept.grant(node, now, want))
            .collect())
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
        // One watermark for all its partitions. (A lease that is lost has run out, too.)
        let mut kept = self.kept();
        let Some(node) = kept.nodes.get_mut(&self.node) else {
            return Ok(leases.to_vec());
        };
        node.upto = node.upto.max(Some(upto));
        let rules = kept.rules_number;
        drop(kept);
        self.rules_seen = rules;
        Ok(Vec::new())
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let kept = lock(&self.kept);
        let mut positions = Vec::new();
        if after < Position::end_of(until) {
            for &partition in partitions {
                let from = Bound::Excluded((partition, after));
                let to = Bound::Included((partition, Position::end_of(until)));
                let of = kept.order.range((from, to));
                positions.extend(of.map(|(_, position)| *position));
            }
        }
        positions.retain(|position| !kept.is_passed_over(position.id));
        positions.sort_unstable();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for position in positions {
            if limit.is_reached(rows.len(), bytes) {
                break;
            }
            let row = kept.seen(&kept.rows[&position.id], &self.own);
            bytes += row.bytes();
            rows.push(row);
        }
        Ok(rows)
    }

    /// (A user's transaction is in nobody's way who looks.)
    fn list_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let kept = lock(&self.kept);
        let wanted = kept.order.iter().filter(|(partition, position)| {
            partitions.contains(partition) && after < *position && position.due <= until
        });
        let mut positions: Vec<Position> = wanted.map(|(_, position)| *position).collect();
        positions.sort_unstable();
        let mut listed = Listed::default();
        for position in positions {
            let (rows, bytes) = listed.looked_at;
            if limit.is_reached(rows, bytes) {
                return Ok(listed);
            }
            let row = kept.seen(&kept.rows[&position.id], &self.own);
            listed.looked_at = (rows + 1, bytes + row.bytes());
            listed.next = Some(position);
            if filter.takes(&row) {
                listed.rows.push(row);
            }
        }
        listed.next = None;
        Ok(listed)
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
        let (first, rules) = (firsts.min(), kept.rules_number);
        drop(kept);
        self.rules_seen = rules;
        Ok(first)
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
