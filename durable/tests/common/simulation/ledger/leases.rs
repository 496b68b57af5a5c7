//! Leases: who has which partition, as the ledger knows it. A process has the only one for as long
//! as it lives.

use super::runs::Start;
use super::{Ledger, Said, State, Tally};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::Lease;
use wheelwork_durable::{Partition, StoreTime};

/// How long a process has its lease, when nobody else may take it.
pub const FOR_EVER: Duration = Duration::from_secs(100 * 31_536_000);

/// How the lease of an epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It ran out, or its process ended.
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

    pub fn epoch(&self, partition: Partition) -> u64 {
        self.records.get(&partition).map_or(0, |of| of.epoch)
    }

    pub fn claimed(&self, partition: Partition) -> Option<StoreTime> {
        self.records.get(&partition).and_then(|of| of.claimed)
    }

    /// The highest watermark of all.
    pub fn claimed_max(&self) -> Option<StoreTime> {
        let records = self.records.values().filter_map(|of| of.claimed);
        records.chain(self.uptos.values().copied()).max()
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
    pub fn raise(&mut self, node: usize, upto: StoreTime) {
        let of = self.uptos.entry(node).or_default();
        *of = upto.max(*of);
        let upto = *of;
        let records = self.records.values_mut();
        for of in records.filter(|of| of.owner == Some(node)) {
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
        if !self.scene.is_fleet() {
            of.claimed = None;
            self.leases.uptos.clear();
        }
        self.leases.taken += 1;
        let is_over = former.over.contains_key(&former.epoch)
            || former.until.is_none_or(|until| until <= now)
            || !self.scene.is_fleet();
        self.demand(is_over && lease.epoch > former.epoch, || {
            format!("partition {number} is taken from an owner that has it: {former:?}")
        });
        self.count_deaths(number, &former);
        if !self.scene.is_fleet() {
            self.begin_life(&former, former.owner != Some(node));
        }
    }

    /// A lease has ended. What was handled alone may have ended its node.
    fn count_deaths(&mut self, number: Partition, former: &LeaseRecord) {
        let timers = self.timers.values_mut();
        let stored = timers.filter(|timer| timer.state == State::Stored);
        for timer in stored.filter(|timer| timer.row.id.partition() == number) {
            let is_out = |start: &Start| start.epoch == former.epoch;
            let is_out = timer.charged.is_some() || timer.starts.iter().any(is_out);
            timer.deaths += u32::from(is_out && timer.row.crashes > 1);
            timer.charged = None;
        }
    }

    /// A process has the store. What the one before may have handed out, if it has not ended well,
    /// is suspect.
    fn begin_life(&mut self, former: &LeaseRecord, is_new: bool) {
        let timers = self.timers.values_mut();
        for timer in timers.filter(|timer| timer.state == State::Stored) {
            timer.row.suspect |= Some(timer.row.due) <= former.claimed;
        }
        self.lost_is_refused();
        if is_new {
            self.tally = Tally::default();
        }
        self.let_go.clear();
    }

    /// A node has given partitions back: nothing of them is handled, and what was is settled.
    pub fn given_back(&mut self, node: usize, leases: &[Lease]) {
        for lease in leases {
            let is_fleet = self.scene.is_fleet();
            let of = self.leases.entry(lease.partition);
            if of.owner != Some(node) || of.epoch != lease.epoch {
                continue;
            }
            of.over.insert(lease.epoch, Over::GivenBack);
            (of.owner, of.until) = (None, None);
            if !is_fleet {
                of.claimed = None;
            }
            self.note(format_args!("  node {node} gives {} back", lease.partition));
            self.demand_idle(node, *lease);
        }
    }

    fn demand_idle(&mut self, node: usize, lease: Lease) {
        let Lease { partition, epoch } = lease;
        let is_out = |start: &Start| {
            start.node == node && (start.said == Said::Nothing || start.epoch == epoch)
        };
        let timers = self.stored();
        let timers: Vec<_> = timers
            .filter(|timer| timer.row.id.partition() == partition)
            .collect();
        let handled = timers.iter().find(|of| of.starts.iter().any(is_out));
        let token = handled.map(|timer| timer.token);
        let charged = timers.iter().filter(|of| of.charged == Some(epoch));
        let charged: Vec<_> = charged.map(|timer| timer.token).collect();
        self.demand(token.is_none(), || {
            format!("partition {partition} is given back while {token:?} is handled")
        });
        self.demand(charged.is_empty(), || {
            format!("released, and {charged:?} are charged, and were not called")
        });
    }
}
