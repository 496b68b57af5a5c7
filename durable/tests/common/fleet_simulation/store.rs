//! The store of a node of a simulated fleet: it fails, is slow, and loses answers.

use super::super::shared_memory::SharedMemory;
use super::super::simulated::{Call, Fate, Faulty, struck};
use super::world::Shared;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{
    Gate, Lease, LeaseNews, Outcome, Position, SharedStore, SliceLimit, Store, StoreClock,
    StoreSize, Target, Write,
};
use wheelwork_durable::{DeadLetter, DurableId, Fleet, Partition, Row, StoreError, StoreTime};

/// One node's store.
pub struct FaultyNode {
    pub inner: SharedMemory,
    pub world: Shared,
    pub node: usize,
}

impl Faulty for FaultyNode {
    fn fate(&self, call: Call) -> Fate {
        self.world.lock().fate(call, self.node)
    }

    fn fail(&self, _: bool) {
        self.world.fail(self.node);
    }

    fn pass(&self, time: Duration, stands: bool) {
        self.world.pass_in_store(self.node, time, stands);
    }

    fn is_lost(&self, _: bool) -> bool {
        self.world.lock().nodes[self.node].has_failed
    }
}

impl FaultyNode {
    /// The clock is read: it showed the time of the call between its begin and its end.
    fn read<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let time = self.world.lock().nodes[self.node].time.clone();
        let sent = time.elapsed();
        let mut showed = None;
        let answer = self.call(call, |store| {
            showed = Some(time.now_exactly());
            make(store)
        });
        if let (Some(showed), Ok(_)) = (showed, &answer) {
            time.read(sent, showed);
        }
        answer
    }
}

impl Store for FaultyNode {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.read(Call::Acquire, |store| {
            let leases = store.inner.acquire()?;
            let mut world = store.world.lock();
            let now = world.nodes[store.node].time.now_exactly();
            let until = now + world.lease;
            world.ledger.renewed(store.node, &leases, &[], until, now);
            Ok(leases)
        })
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.call(Call::Release, |store| {
            store.inner.release()?;
            let mut world = store.world.lock();
            let leases = world.ledger.leases.of_node(store.node);
            world.ledger.given_back(store.node, &leases);
            Ok(())
        })
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.call(Call::Commit, |store| {
            let outcomes = store.inner.commit(writes.clone(), gate)?;
            let struck = struck(&mut store.inner, &outcomes)?;
            let mut world = store.world.lock();
            let now = world.nodes[store.node].time.now_exactly();
            for (mut write, outcome) in writes.into_iter().zip(&outcomes) {
                // (What was due before is due now, in others' partitions.)
                if let Write::Arm(row) = &mut write
                    && let Some(stored) = store.inner.get(&Target::Id(row.id))?
                {
                    row.due = row.due.max(stored.due);
                }
                world
                    .ledger
                    .wrote(store.node, &write, outcome, &struck, now);
            }
            Ok(outcomes)
        })
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
        self.inner.hand_out(upto)
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        Store::clock(&mut self.inner, node)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.call(Call::Look, |store| store.inner.get(target))
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.call(Call::Look, |store| store.inner.dead(after, limit))
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.call(Call::Look, |store| store.inner.size())
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for FaultyNode {
    fn partitions(&self) -> Partition {
        self.inner.partitions()
    }

    fn claim_ahead(&self) -> Duration {
        self.inner.claim_ahead()
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        self.read(Call::Renew, |store| {
            let news = store.inner.renew()?;
            let mut world = store.world.lock();
            let now = world.nodes[store.node].time.now_exactly();
            let until = now + world.lease;
            let (taken, lost) = (&news.taken, &news.lost);
            world.ledger.renewed(store.node, taken, lost, until, now);
            Ok(news)
        })
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.call(Call::GiveBack, |store| {
            store.inner.give_back(leases)?;
            let mut world = store.world.lock();
            world.ledger.given_back(store.node, leases);
            Ok(())
        })
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.call(Call::Claim, |store| {
            let lost = store.inner.claim(leases, upto)?;
            let mut world = store.world.lock();
            if lost.is_empty() {
                world.ledger.leases.claimed(store.node, upto);
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
        self.call(Call::Load, |store| {
            let rows = store.inner.load_many(partitions, after, until, limit)?;
            store.world.lock().ledger.loaded(&rows);
            Ok(rows)
        })
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.call(Call::Load, |store| store.inner.next_due(partitions, from))
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        SharedStore::clock(&self.inner)
    }

    fn takes_clock(&self) -> bool {
        self.inner.takes_clock()
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.inner.on_news(wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.call(Call::Look, |store| store.inner.fleet())
    }
}
