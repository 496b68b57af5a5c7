//! Leases: who has which partition of a simulated fleet, as the ledger knows it.

use super::ledger::Ledger;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::Lease;
use wheelwork_durable::{Partition, StoreTime};

/// How the lease of an epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It ran out.
    RunOut,
    /// It was given back.
    GivenBack,
}

/// The lease of a partition.
#[derive(Clone, Debug, Default)]
pub struct LeaseRecord {
    pub epoch: u64,
    pub owner: Option<usize>,
    pub until: Option<SystemTime>,
    /// The watermark.
    pub claimed: Option<StoreTime>,
    /// How leases of earlier epochs ended.
    pub over: BTreeMap<u64, Over>,
}

#[derive(Default)]
pub struct Leases {
    records: BTreeMap<Partition, LeaseRecord>,
    /// The watermarks of nodes.
    uptos: BTreeMap<usize, StoreTime>,
    /// How often a partition was taken.
    pub taken: u64,
}

impl Leases {
    pub fn of(&self, partition: Partition) -> LeaseRecord {
        self.records.get(&partition).cloned().unwrap_or_default()
    }

    fn entry(&mut self, partition: Partition) -> &mut LeaseRecord {
        self.records.entry(partition).or_default()
    }

    /// Whether a lease has ended that nobody has taken yet.
    pub fn is_some_free(&self, now: SystemTime) -> bool {
        let mut records = self.records.values();
        records.any(|of| of.until.is_none_or(|until| until <= now))
    }

    /// What this node has.
    pub fn of_node(&self, node: usize) -> Vec<Lease> {
        let own = self.records.iter();
        own.filter(|(_, of)| of.owner == Some(node))
            .map(|(&partition, of)| Lease {
                partition,
                epoch: of.epoch,
            })
            .collect()
    }

    /// A node's watermark: that of all partitions which it has, or takes later.
    pub fn claimed(&mut self, node: usize, upto: StoreTime) {
        let of = self.uptos.entry(node).or_default();
        *of = upto.max(*of);
        let upto = *of;
        for of in self
            .records
            .values_mut()
            .filter(|of| of.owner == Some(node))
        {
            of.claimed = of.claimed.max(Some(upto));
        }
    }
}

/// The longest wait until a partition has another owner, after an end of a node.
pub fn recovery(lease: Duration) -> Duration {
    lease + lease / 3 + Duration::from_secs(1)
}

impl Ledger {
    /// A node has renewed its leases, or taken some.
    pub fn renewed(
        &mut self,
        node: usize,
        taken: &[Lease],
        lost: &[Partition],
        until: SystemTime,
        now: SystemTime,
    ) {
        for lease in taken {
            self.take(node, *lease, now);
        }
        if !taken.is_empty() || !lost.is_empty() {
            let taken: Vec<_> = taken.iter().map(|lease| lease.partition).collect();
            self.note(format_args!(
                "  node {node} takes {taken:?}, has lost {lost:?}"
            ));
        }
        for (number, of) in &mut self.leases.records {
            if of.owner == Some(node) && !lost.contains(number) {
                of.until = Some(until);
            }
        }
        for lease in taken {
            self.leases.entry(lease.partition).until = Some(until);
        }
    }

    fn take(&mut self, node: usize, lease: Lease, now: SystemTime) {
        let number = lease.partition;
        let upto = self.leases.uptos.get(&node).copied();
        let of = self.leases.entry(number);
        let former = of.clone();
        if former.epoch > 0 {
            of.over.entry(former.epoch).or_insert(Over::RunOut);
        }
        (of.owner, of.epoch) = (Some(node), lease.epoch);
        of.claimed = of.claimed.max(upto);
        self.leases.taken += 1;
        let is_over = former.over.contains_key(&former.epoch)
            || former.until.is_none_or(|until| until <= now);
        self.demand(is_over && lease.epoch > former.epoch, || {
            format!("partition {number} is taken from an owner that has it: {former:?}")
        });
    }

    /// A node has given partitions back.
    pub fn given_back(&mut self, node: usize, leases: &[Lease]) {
        for lease in leases {
            let of = self.leases.entry(lease.partition);
            if of.owner != Some(node) || of.epoch != lease.epoch {
                continue;
            }
            of.over.insert(lease.epoch, Over::GivenBack);
            (of.owner, of.until) = (None, None);
            let number = lease.partition;
            self.note(format_args!("  node {node} gives {number} back"));
            self.demand_idle(node, number);
        }
    }
}
