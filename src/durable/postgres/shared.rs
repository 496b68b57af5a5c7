//! Shared: what the store does for nodes that share it, lease by lease.

use super::leases::{PARTITIONS, epoch, part, partition};
use super::rows::{self, millis, row_of, uuid};
use super::store::Postgres;
use super::{listen, sql};
use crate::durable::{
    Fleet, FleetNode, FleetPartition, Lease, LeaseNews, Partition, Position, Row, SharedStore,
    SliceLimit, StoreClock, StoreError, StoreTime,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Rows of a partition that a load asks for at least.
const SLICE_MIN: usize = 16;

impl SharedStore for Postgres {
    fn partitions(&self) -> Partition {
        PARTITIONS
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

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.with(|store| {
            store.read_before_claim(upto)?;
            let node = store.leases.node;
            let parts: Vec<_> = leases.iter().map(|lease| part(lease.partition)).collect();
            let epochs: Vec<_> = leases.iter().map(|lease| epoch(lease.epoch)).collect();
            let claimed = store.session.run(async |live| {
                let params: [&(dyn ToSql + Sync); 4] = [&node, &parts, &epochs, &millis(upto)];
                live.rows_unlocked(sql::CLAIM, sql::CLAIM_UNLOCKED, &params)
                    .await
            })?;
            let claimed: Vec<_> = claimed.iter().map(|row| partition(row.get(0))).collect();
            let is_lost = |lease: &&Lease| !claimed.contains(&lease.partition);
            let lost: Vec<_> = leases.iter().filter(is_lost).copied().collect();
            for lease in &lost {
                // One that was only locked is found, and told of, by the next renewal.
                if store.leases.own.get(&lease.partition) == Some(&lease.epoch) {
                    store.leases.own.remove(&lease.partition);
                }
            }
            Ok(lost)
        })
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.with(|store| {
            let each = limit.rows.div_ceil(partitions.len().max(1));
            let slice = each.saturating_mul(2).max(SLICE_MIN).min(limit.rows);
            let (mut rows, mut bytes) = (Vec::<Row>::new(), 0);
            // Rows that were read, in order; and up to where of the partitions that have more.
            let mut read = BTreeMap::new();
            let mut more = BTreeMap::new();
            store.read_slice(partitions, after, until, slice, &mut read, &mut more)?;
            while !limit.is_reached(rows.len(), bytes) {
                let first_more = more
                    .iter()
                    .map(|(&number, &position)| (position, number))
                    .min();
                let next = read.first_entry();
                let is_known = |position: Position| first_more.is_none_or(|(to, _)| position <= to);
                match (next, first_more) {
                    (Some(next), _) if is_known(*next.key()) => {
                        let row = next.remove();
                        bytes += row.bytes();
                        rows.push(row);
                    }
                    (_, Some((position, number))) => {
                        // Rows of one deadline go by partition: the rest of this one.
                        more.remove(&number);
                        let slice = (limit.rows - rows.len()).max(SLICE_MIN);
                        let number = [number];
                        store.read_slice(&number, position, until, slice, &mut read, &mut more)?;
                    }
                    _ => break,
                }
            }
            Ok(rows)
        })
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.with(|store| {
            let parts: Vec<_> = partitions.iter().map(|&number| part(number)).collect();
            let sent = store.clock.elapsed();
            let rows = store
                .session
                .run(async |live| live.rows(sql::NEXT_DUE, &[&parts, &millis(from)]).await)?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            store.clock.read(sent, store.clock.elapsed(), row.get(1));
            Ok(row.get::<_, Option<i64>>(0).map(rows::time))
        })
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        self.clock.clone()
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.listener =
            listen::Listener::start(&self.schema, self.connect.clone(), self.clock.clone(), wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.with(|store| {
            let this = store.leases.node;
            let (nodes, partitions) = store.session.run(async |live| {
                let nodes = live.rows(sql::NODES, &[]).await?;
                Ok((nodes, live.rows(sql::FLEET, &[]).await?))
            })?;
            let mut fleet = Fleet::default();
            let mut owners = Vec::new();
            for row in &partitions {
                let now = row.get::<_, f64>(5) * 1_000.0;
                let oldest = row.get::<_, Option<i64>>(4);
                let lag_ms = oldest.map_or(0.0, |due| (now - due as f64).max(0.0));
                owners.push(row.get::<_, Option<Uuid>>(3));
                fleet.partitions.push(FleetPartition {
                    number: partition(row.get(0)),
                    owner: row.get(2),
                    epoch: u64::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
                    lag: Duration::from_secs_f64(lag_ms / 1_000.0),
                });
            }
            for row in &nodes {
                let node: Uuid = row.get(0);
                fleet.nodes.push(FleetNode {
                    name: row.get(1),
                    partitions: owners.iter().filter(|owner| **owner == Some(node)).count(),
                    is_this: node == this,
                });
            }
            Ok(fleet)
        })
    }
}

impl Postgres {
    /// Before a claim: what is due by then is handed out by a clock that was read just now.
    pub(super) fn read_before_claim(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let clock = self.clock.clone();
        if !clock.due_soon(upto) {
            return Ok(());
        }
        self.session
            .run(async |live| clock.read_by(&live.client).await)
    }

    /// Reads up to `slice` rows of each partition. Notes up to where those are read that have more.
    fn read_slice(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        slice: usize,
        read: &mut BTreeMap<Position, Row>,
        more: &mut BTreeMap<Partition, Position>,
    ) -> Result<(), StoreError> {
        if slice == 0 {
            return Ok(());
        }
        let parts: Vec<_> = partitions.iter().map(|&number| part(number)).collect();
        let (due, id) = (millis(after.due), uuid(after.id));
        let limit = i64::try_from(slice).unwrap_or(i64::MAX);
        let loaded = self.session.run(async |live| {
            live.rows(sql::LOAD, &[&parts, &due, &id, &millis(until), &limit])
                .await
        })?;
        // (Rows count that end when they are raised, too.)
        let mut counts = BTreeMap::new();
        for row in loaded.iter().map(row_of) {
            let count: &mut usize = counts.entry(row.id.partition()).or_default();
            *count += 1;
            if *count == slice {
                more.insert(row.id.partition(), row.position());
            }
        }
        let loaded = self.raise(loaded.iter())?;
        read.extend(loaded.into_iter().map(|row| (row.position(), row)));
        Ok(())
    }

    /// TakeOverRaise: adds an attempt to those rows that an owner before may have handed out.
    /// Leaves those out whose key another row has taken: they end.
    fn raise<'a>(
        &mut self,
        loaded: impl Iterator<Item = &'a tokio_postgres::Row>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let (mut parts, mut dues, mut ids, mut epochs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut at = Vec::new();
        for columns in loaded {
            let row = row_of(columns);
            let number = row.id.partition();
            let own = self.leases.own.get(&number).map_or(0, |&own| epoch(own));
            let owed = self.leases.owed.get(&number).copied().unwrap_or(-1);
            if millis(row.due) <= owed && columns.get::<_, i64>(8) < own {
                at.push(rows.len());
                parts.push(part(number));
                dues.push(millis(row.due));
                ids.push(uuid(row.id));
                epochs.push(own);
            }
            rows.push(row);
        }
        if ids.is_empty() {
            return Ok(rows);
        }
        let ended = self.session.run(async |live| {
            let params: [&(dyn ToSql + Sync); 4] = [&parts, &dues, &ids, &epochs];
            let ended = live.rows(sql::ACK_SUPERSEDED, &params).await?;
            live.rows(sql::RAISE, &params).await?;
            Ok(ended)
        })?;
        // (One that was not raised just now was raised before, by a call whose answer was lost.)
        for number in at {
            rows[number].attempts = rows[number].attempts.saturating_add(1);
        }
        let ended: Vec<Uuid> = ended.iter().map(|columns| columns.get(0)).collect();
        rows.retain(|row| !ended.contains(&uuid(row.id)));
        Ok(rows)
    }

    pub(super) fn give_back_now(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        let node = self.leases.node;
        let parts: Vec<_> = leases.iter().map(|lease| part(lease.partition)).collect();
        let epochs: Vec<_> = leases.iter().map(|lease| epoch(lease.epoch)).collect();
        self.session
            .run(async |live| live.rows(sql::GIVE_BACK, &[&node, &parts, &epochs]).await)?;
        for lease in leases {
            self.leases.own.remove(&lease.partition);
            self.leases.owed.remove(&lease.partition);
        }
        self.leases.surplus.clear();
        Ok(())
    }
}
