//! Shared: what the store does for nodes that share it, lease by lease.

use super::grants::grant;
use super::leases::LEASES_AT_ONCE;
use super::listen;
use super::session::Live;
use super::statements::lease::{
    Claim, GiveBack, Kinds, NextWatermark, Nodes, OldWatermark, Partitions, Probe,
    Want as WantKinds,
};
use super::statements::load::{Load, LoadUnlocked, NextDue};
use super::statements::rows::{epoch, gate, millis, part, uuid};
use super::store::Postgres;
use crate::store::contract::{Lease, LeaseNews, NodeKinds, SharedStore, StoreClock, StoreError};
use crate::store::fleet::{Fleet, FleetNode, FleetPartition};
use crate::store::grant::{Grant, Want};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Partition, Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Error;

/// Rows of a partition that a load asks for at least.
const SLICE_MIN: usize = 16;

/// How often a row of a watermark is written.
const WRITTEN_MAX: u32 = 1_000;

/// The watermark goes into another row, in one transaction.
async fn next_watermark(live: &Live, claim: &Claim) -> Result<Vec<(i64, i64)>, Error> {
    live.client.batch_execute("BEGIN").await?;
    let written = async {
        let stored = live.ask(claim).await?;
        if let Some(&(upto, _)) = stored.first() {
            let next = NextWatermark {
                node: claim.node,
                number: claim.number + 1,
                upto,
            };
            live.ask(&next).await?;
        }
        Ok(stored)
    };
    let written = written.await;
    let end = if written.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    live.client.batch_execute(end).await?;
    written
}

/// How many rows of each partition one statement reads if `rows` of them all are wanted.
pub(super) fn each_of(rows: usize, partitions: usize) -> usize {
    let each = rows.div_ceil(partitions.max(1));
    each.saturating_mul(2).max(SLICE_MIN).min(rows)
}

/// A reading of rows that is under way.
struct Reading {
    until: StoreTime,
    /// Of payloads, for one statement.
    bytes: usize,
    /// Partitions of which only those rows are read that nobody has locked.
    gated: BTreeSet<Partition>,
    /// Rows that were read, in order.
    read: BTreeMap<Position, Row>,
    /// Up to where those partitions are read that have more.
    more: BTreeMap<Partition, Position>,
}

#[doc(hidden)]
impl SharedStore for Postgres {
    fn partitions(&self) -> u32 {
        self.leases.partitions
    }

    fn handles(&mut self, kinds: &[Arc<str>]) {
        self.leases.handles(kinds);
    }

    fn claim_ahead(&self) -> Duration {
        Duration::from_millis(25)
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        self.with(Self::change_leases)
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.with(|store| {
            store.give_back_now(leases)?;
            store.tell();
            Ok(())
        })
    }

    fn give_away(&mut self, leases: &[(Lease, Vec<Arc<str>>)]) -> Result<(), StoreError> {
        self.with(|store| {
            let node = store.leases.node;
            for (lease, kinds) in leases {
                let wants: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                let want = WantKinds {
                    node,
                    part: part(lease.partition),
                    epoch: epoch(lease.epoch),
                    wants: &wants,
                };
                store.session.run(async |live| live.ask(&want).await)?;
            }
            let leases: Vec<_> = leases.iter().map(|(lease, _)| *lease).collect();
            store.give_back_now(&leases)?;
            store.tell();
            Ok(())
        })
    }

    fn node_kinds(&mut self) -> Result<Vec<NodeKinds>, StoreError> {
        self.with(|store| {
            let this = store.leases.node;
            let nodes = store.session.run(async |live| live.ask(&Kinds {}).await)?;
            let nodes = nodes.into_iter().map(|(node, name, kinds)| NodeKinds {
                name,
                kinds: kinds.map(|kinds| kinds.into_iter().map(Arc::from).collect()),
                is_this: node == this,
            });
            Ok(nodes.collect())
        })
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.with(|store| {
            store.read_before_claim(upto)?;
            if !store.raise_watermark(millis(upto))? {
                store.leases.own.clear();
                return Ok(leases.to_vec());
            }
            store.probe(leases.iter().map(|lease| lease.partition))?;
            // (A lease that is lost is found by the next renewal. Until then it has run out.)
            Ok(Vec::new())
        })
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.with(|store| store.read(partitions, after, until, limit))
    }

    fn list_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        self.with(|store| store.look(partitions, after, until, filter, limit))
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.with(|store| {
            let parts: Vec<_> = partitions.iter().map(|&number| part(number)).collect();
            let sent = store.clock.elapsed();
            let next = NextDue {
                part: &parts,
                from: millis(from),
            };
            let next = store.session.run(async |live| live.ask(&next).await)?;
            let Some(&(due, now, rules)) = next.first() else {
                return Ok(None);
            };
            store.rules.seen = rules;
            store.clock.read(sent, store.clock.elapsed(), now);
            Ok(due)
        })
    }

    fn grant(&mut self, wants: &[Want]) -> Result<Vec<Grant>, StoreError> {
        self.with(|store| {
            let node = store.leases.node;
            let mut granted = Vec::with_capacity(wants.len());
            for want in wants {
                let begin = store.rules.held_up.begin(&want.of);
                let grant = async |live: &Live| grant(live, node, want, begin).await;
                let grant = store.session.run(grant)?;
                store.rules.held_up.note(&want.of, grant.is_held_up);
                granted.push(grant);
            }
            Ok(granted)
        })
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        self.clock.clone()
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.news = Some(wake);
        self.listen();
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.with(|store| {
            let this = store.leases.node;
            let (nodes, partitions) = store.session.run(async |live| {
                let nodes = live.ask(&Nodes {}).await?;
                Ok((nodes, live.ask(&Partitions {}).await?))
            })?;
            let mut fleet = Fleet::default();
            let mut owners = Vec::new();
            for found in partitions {
                let now = found.now * 1_000.0;
                let lag_ms = (found.oldest).map_or(0.0, |due| (now - due as f64).max(0.0));
                owners.push(found.node);
                fleet.partitions.push(FleetPartition {
                    number: found.number,
                    owner: found.name,
                    epoch: found.epoch,
                    lag: Duration::from_secs_f64(lag_ms / 1_000.0),
                });
            }
            // (The database has the numbers as 16 bits with a sign.)
            fleet.partitions.sort_by_key(|partition| partition.number);
            for (node, name) in nodes {
                fleet.nodes.push(FleetNode {
                    name,
                    partitions: owners.iter().filter(|owner| **owner == Some(node)).count(),
                    is_this: node == this,
                });
            }
            Ok(fleet)
        })
    }
}

impl Postgres {
    /// Hears what other nodes tell, by a new listener.
    pub(super) fn listen(&mut self) {
        // (Its thread ends before the next one begins to connect, or a little later.)
        self.listener = None;
        if let Some(news) = self.news.clone() {
            let (connect, clock) = (self.connect.clone(), self.clock.clone());
            self.listener = listen::Listener::start(&self.schema, connect, clock, news);
        }
    }

    /// Before a claim: what is due by then is handed out by a clock that was read just now.
    pub(super) fn read_before_claim(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let clock = self.clock.clone();
        if !clock.due_soon(upto) {
            return Ok(());
        }
        self.session
            .run(async |live| clock.read_by(&live.client).await)
    }

    /// ClaimRaise: commits the node's watermark. `false`: the node is not known any more.
    fn raise_watermark(&mut self, upto: i64) -> Result<bool, StoreError> {
        let node = self.leases.node;
        let (gen_, written) = (self.leases.watermark.gen_, self.leases.watermark.written);
        let claim = Claim {
            node,
            number: gen_,
            upto,
        };
        let stored = if written < WRITTEN_MAX {
            self.session.run(async |live| live.ask(&claim).await)?
        } else {
            self.session
                .run(async |live| next_watermark(live, &claim).await)?
        };
        let Some(&(upto, rules)) = stored.first() else {
            return Ok(false);
        };
        self.rules.seen = Some(rules);
        let watermark = &mut self.leases.watermark;
        watermark.upto = upto;
        watermark.written += 1;
        if written >= WRITTEN_MAX {
            watermark.gen_ = gen_ + 1;
            watermark.written = 0;
            let old = OldWatermark { node, number: gen_ };
            self.session.run(async |live| live.ask(&old).await)?;
        }
        Ok(true)
    }

    /// GateProbe: in which of these partitions nobody ends or moves a row just now. Whoever comes
    /// later sees the watermark that was committed before.
    fn probe(&mut self, of: impl Iterator<Item = Partition>) -> Result<(), StoreError> {
        let gates: BTreeSet<i16> = of
            .map(|number| gate(number, self.leases.partitions))
            .collect();
        let gates: Vec<i16> = gates.into_iter().collect();
        let probe = Probe { part: &gates };
        let free = self.session.run(async |live| live.ask(&probe).await)?;
        let watermark = &mut self.leases.watermark;
        for gate in free {
            watermark.free.insert(gate, watermark.upto);
        }
        Ok(())
    }

    /// Rows of these partitions that are to be handed out, in order: those are left out that a
    /// transaction is ending or moving.
    fn read(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let slice = each_of(limit.rows, partitions.len());
        let mut reading = Reading {
            until,
            bytes: limit.bytes,
            gated: self.gated(partitions, until)?,
            read: BTreeMap::new(),
            more: BTreeMap::new(),
        };
        let (mut rows, mut bytes) = (Vec::<Row>::new(), 0);
        self.read_slice(partitions, after, slice, &mut reading)?;
        while !limit.is_reached(rows.len(), bytes) {
            let more = reading.more.iter();
            let first_more = more.map(|(&number, &position)| (position, number)).min();
            let next = reading.read.first_entry();
            let is_known = |position: Position| first_more.is_none_or(|(to, _)| position <= to);
            match (next, first_more) {
                (Some(next), _) if is_known(*next.key()) => {
                    let row = next.remove();
                    bytes += row.bytes();
                    rows.push(row);
                }
                (_, Some((position, number))) => {
                    // Rows of one deadline go by partition: the rest of this one.
                    reading.more.remove(&number);
                    let slice = (limit.rows - rows.len()).max(SLICE_MIN);
                    self.read_slice(&[number], position, slice, &mut reading)?;
                }
                _ => break,
            }
        }
        Ok(rows)
    }

    /// Those of these partitions in which somebody may be ending or moving a row.
    fn gated(
        &mut self,
        partitions: &[Partition],
        until: StoreTime,
    ) -> Result<BTreeSet<Partition>, StoreError> {
        let is_gated = |store: &Self, number: &Partition| {
            let gate = gate(*number, store.leases.partitions);
            let free = store.leases.watermark.free.get(&gate);
            free.is_none_or(|&upto| upto < millis(until))
        };
        let gated = |store: &Self| -> BTreeSet<Partition> {
            let gated = partitions.iter().filter(|number| is_gated(store, number));
            gated.copied().collect()
        };
        let closed = gated(self);
        if closed.is_empty() {
            return Ok(closed);
        }
        self.probe(closed.iter().copied())?;
        Ok(gated(self))
    }

    /// Reads up to `slice` rows of each partition. Notes up to where those are read that have more.
    fn read_slice(
        &mut self,
        partitions: &[Partition],
        after: Position,
        slice: usize,
        reading: &mut Reading,
    ) -> Result<(), StoreError> {
        if slice == 0 {
            return Ok(());
        }
        let (gated, open): (Vec<Partition>, Vec<Partition>) = partitions
            .iter()
            .partition(|number| reading.gated.contains(number));
        let (due, id, until) = (millis(after.due), uuid(after.id), millis(reading.until));
        let limit = i64::try_from(slice).unwrap_or(i64::MAX);
        // (If they cut rows off, so do they in `read`, which counts more for each row.)
        let bytes = i64::try_from(reading.bytes).unwrap_or(i64::MAX);
        let mut loaded = Vec::new();
        if !open.is_empty() {
            let part: Vec<i16> = open.into_iter().map(part).collect();
            let load = Load {
                part: &part,
                due,
                id,
                until,
                limit,
                bytes,
            };
            loaded.extend(self.session.run(async |live| live.ask(&load).await)?);
        }
        if !gated.is_empty() {
            let part: Vec<i16> = gated.into_iter().map(part).collect();
            let load = LoadUnlocked {
                part: &part,
                due,
                id,
                until,
                limit,
                bytes,
            };
            loaded.extend(self.session.run(async |live| live.ask(&load).await)?);
        }
        let mut counts = BTreeMap::new();
        for (mut row, row_epoch) in loaded {
            let count: &mut usize = counts.entry(row.id.partition()).or_default();
            *count += 1;
            if *count == slice {
                reading.more.insert(row.id.partition(), row.position());
            }
            row.suspect = self.is_suspect(&row, row_epoch);
            reading.read.insert(row.position(), row);
        }
        Ok(())
    }

    /// TakeOverSuspect: whether an owner before may have handed out a row of this node's, which has
    /// this epoch.
    pub(super) fn is_suspect(&self, row: &Row, row_epoch: i64) -> bool {
        let number = row.id.partition();
        let own = self.leases.own.get(&number).map_or(0, |&own| epoch(own));
        let owed = self.leases.owed.get(&number).copied().unwrap_or(-1);
        millis(row.due) <= owed && row_epoch < own
    }

    pub(super) fn give_back_now(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        let node = self.leases.node;
        let parts: Vec<_> = leases.iter().map(|lease| part(lease.partition)).collect();
        let epochs: Vec<_> = leases.iter().map(|lease| epoch(lease.epoch)).collect();
        self.leases.gives_back = true;
        for (part, epoch) in parts
            .chunks(LEASES_AT_ONCE)
            .zip(epochs.chunks(LEASES_AT_ONCE))
        {
            let give_back = GiveBack { node, part, epoch };
            self.session.run(async |live| live.ask(&give_back).await)?;
        }
        self.leases.gives_back = false;
        for lease in leases {
            self.leases.own.remove(&lease.partition);
            self.leases.owed.remove(&lease.partition);
        }
        self.leases.surplus = self.leases.surplus.saturating_sub(leases.len());
        Ok(())
    }
}
