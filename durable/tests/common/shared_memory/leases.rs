//! Leases: who owns which partition. A node takes its share of those that are free.

use super::kept::{Kept, Node};
use super::node::SharedMemory;
use super::{StoreBreak, lock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Lease, LeaseNews, Position};
use wheelwork_durable::{Partition, StoreTime};

/// A partition that was taken for a kind does not count to the share for so long.
const KEPT: Duration = Duration::from_secs(60);

/// One for kinds that this node lacks is left alone for so long.
const LEFT: Duration = Duration::from_secs(2);

/// Between two looks for free leases at least.
const LOOK_MIN: Duration = Duration::from_millis(200);

/// From the end of another node's lease to the next look at that lease.
const AFTER_END: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct LeaseRow {
    pub owner: Option<u64>,
    pub epoch: u64,
    pub until: SystemTime,
    /// Rows due by then may have been handed out. `None`: no row may.
    pub claimed: Option<StoreTime>,
    /// Rows due by then are suspect, if they were not written in this epoch.
    pub raise_upto: Option<StoreTime>,
    /// The last owner has given it back: what it has handed out is settled.
    pub is_clean: bool,
    /// The last owner has given it away, for nodes that have one of these kinds.
    pub wants: Vec<Arc<str>>,
}

impl Kept {
    /// The lease was another's, or nobody's: rows that were perhaps handed out are suspect.
    fn take(&mut self, partition: Partition, node: u64, until: SystemTime) -> Lease {
        let lease = self.leases[usize::from(partition)].clone();
        let claimed = self.claimed(partition);
        let is_lost = self.is(StoreBreak::WatermarkLost);
        let handed_out = claimed.filter(|_| !lease.is_clean);
        let raise_upto = lease.raise_upto.max(handed_out);
        self.leases[usize::from(partition)] = LeaseRow {
            owner: Some(node),
            epoch: lease.epoch + 1,
            until,
            claimed: claimed.filter(|_| !is_lost),
            raise_upto,
            is_clean: false,
            wants: Vec::new(),
        };
        let epoch = lease.epoch + 1;
        Lease { partition, epoch }
    }

    /// Whether a partition has no suspects by its watermarks.
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
    pub fn change_leases(&mut self) -> LeaseNews {
        let now = self.clock.now();
        let until = now + self.lease;
        let kept = self.kept.clone();
        let mut kept = lock(&kept);
        let own_node = Node {
            name: self.name.clone(),
            until,
            is_slow: self.is_slow,
            looks: self.looks,
            kinds: self.kinds.clone(),
            upto: kept.nodes.get(&self.node).and_then(|node| node.upto),
            wake: self.wake.clone(),
        };
        kept.nodes.insert(self.node, own_node);
        let others: Vec<bool> = kept
            .nodes
            .iter()
            .filter(|(node, state)| **node != self.node && state.until > now && !state.looks)
            .map(|(_, state)| state.is_slow)
            .collect();
        let fast = others.iter().filter(|&&is_slow| !is_slow).count();
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
        for (&partition, &epoch) in &self.own {
            if former.get(&partition) != Some(&epoch) {
                news.taken.push(Lease { partition, epoch });
            }
        }
        let share = match (self.is_slow, fast) {
            _ if self.looks => 0,
            (true, 1..) => 0,
            (true, 0) => usize::from(kept.making.partitions).div_ceil(others.len() + 1),
            (false, fast) => usize::from(kept.making.partitions).div_ceil(fast + 1),
        };
        let free: Vec<_> = (0..kept.making.partitions)
            .filter(|&partition| {
                let lease = kept.lease(partition);
                lease.owner.is_none() || lease.until <= now
            })
            .collect();
        let wanted = share.saturating_sub(self.own.len());
        for partition in self.choose(&kept, free, share, wanted, now) {
            let lease = kept.take(partition, self.node, until);
            self.own.insert(lease.partition, lease.epoch);
            news.taken.push(lease);
        }
        (self.extra).retain(|number, until| self.own.contains_key(number) && *until > now);
        self.surplus = self.own.len().saturating_sub(share + self.extra.len());
        news.surplus = self.surplus;
        if let Some(wait) = first_end.and_then(|end| end.duration_since(now).ok()) {
            news.again = news.again.min((wait + AFTER_END).max(LOOK_MIN));
        } else if (self.own.len() < share || !self.left.is_empty()) && first_end.is_some() {
            news.again = news.again.min(LOOK_MIN);
        }
        drop(kept);
        if !news.taken.is_empty() && news.surplus == 0 {
            self.tell();
        }
        news
    }

    /// Which of these free partitions are taken: those that were given away for a kind of this
    /// node's, and others up to its share. One for other kinds is left alone for a moment.
    fn choose(
        &mut self,
        kept: &Kept,
        free: Vec<Partition>,
        share: usize,
        wanted: usize,
        now: SystemTime,
    ) -> Vec<Partition> {
        let (mut parts, mut others, mut left) = (Vec::new(), Vec::new(), BTreeMap::new());
        for partition in free {
            let wants = &kept.lease(partition).wants;
            let has = wants.iter().any(|kind| self.kinds.contains(kind));
            if wants.is_empty() || kept.is(StoreBreak::WantsIgnored) {
                others.push(partition);
            } else if has && parts.len() < share.max(1) {
                parts.push(partition);
                self.extra.insert(partition, now + KEPT);
            } else if !has {
                let since = self.left.get(&partition).copied().unwrap_or(now);
                left.insert(partition, since);
                if now >= since + LEFT {
                    others.push(partition);
                }
            }
        }
        self.left = left;
        let begin = self.node as usize % others.len().max(1);
        let others = others
            .iter()
            .cycle()
            .skip(begin)
            .take(wanted.min(others.len()));
        parts.extend(others);
        parts
    }

    /// The same, each for nodes with one of these kinds.
    pub fn give_away_now(&mut self, leases: &[(Lease, Vec<Arc<str>>)]) {
        let mut kept = lock(&self.kept);
        for (lease, kinds) in leases {
            let row = &mut kept.leases[usize::from(lease.partition)];
            if row.epoch == lease.epoch && row.owner == Some(self.node) {
                row.wants.clone_from(kinds);
            }
        }
        drop(kept);
        let leases: Vec<_> = leases.iter().map(|(lease, _)| *lease).collect();
        self.give_back_now(&leases);
    }

    pub fn give_back_now(&mut self, leases: &[Lease]) {
        let now = self.clock.now();
        let mut kept = lock(&self.kept);
        for lease in leases {
            let is_settled = kept.is_settled(lease.partition);
            let claimed = kept.claimed(lease.partition);
            let row = &mut kept.leases[usize::from(lease.partition)];
            if row.epoch == lease.epoch && row.owner == Some(self.node) {
                (row.owner, row.until, row.is_clean) = (None, now, true);
                row.raise_upto = row.raise_upto.filter(|_| !is_settled);
                row.claimed = claimed;
            }
        }
        drop(kept);
        for lease in leases {
            self.own.remove(&lease.partition);
        }
        self.surplus = self.surplus.saturating_sub(leases.len());
    }
}
