//! The store of a simulation: one in memory that fails, is slow, and is where processes die.

use super::super::simulated::{Call, Fate, Faulty, struck};
use super::world::Shared;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{
    Gate, Lease, Outcome, Position, SliceLimit, Store, StoreSize, Target, Write,
};
use wheelwork_durable::{DeadLetter, DurableId, Partition, Row, StoreError, StoreTime};

/// One life's store.
pub struct LifeStore {
    pub inner: Box<dyn Store>,
    pub world: Shared,
    pub life: u32,
}

/// Tells the ledger what it is asked.
struct Watched<'a> {
    gate: &'a mut dyn Gate,
    world: &'a Shared,
}

impl Gate for Watched<'_> {
    fn let_go(&mut self, id: DurableId) -> bool {
        let is_ours = self.gate.let_go(id);
        self.world.lock().ledger.asked(id, is_ours);
        is_ours
    }
}

impl Faulty for LifeStore {
    fn fate(&self, call: Call) -> Fate {
        self.world.lock().fate(call, self.life)
    }

    fn fail(&self, dies: bool) {
        self.world.fail(dies);
    }

    fn pass(&self, time: Duration, _: bool) {
        if !time.is_zero() {
            self.world.pass_in_store(time);
        }
    }

    // (A call that is on its way is made, though the process may have died meanwhile.)
    fn is_lost(&self, is_made: bool) -> bool {
        is_made && self.world.lock().is_over(self.life)
    }
}

impl Store for LifeStore {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.call(Call::Acquire, |store| {
            let leases = store.inner.acquire()?;
            let mut world = store.world.lock();
            let setup = world.setup.clone();
            world.ledger.opened(setup);
            Ok(leases)
        })
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.call(Call::Release, |store| {
            store.inner.release()?;
            store.world.lock().ledger.released();
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
        let outcomes = self.call(Call::Commit, |store| {
            let world = store.world.clone();
            // (A disk that is full has its answer before the gate is asked, or after.)
            let mut gate = Watched {
                gate,
                world: &world,
            };
            let outcomes = store.inner.commit(writes.clone(), &mut gate)?;
            let struck = struck(&mut *store.inner, &outcomes)?;
            let mut world = world.lock();
            world.check_bytes(&writes);
            let (now, passed) = (world.now(), world.passed());
            for (write, outcome) in writes.iter().zip(&outcomes) {
                world.ledger.wrote(write, outcome, &struck, now, passed);
            }
            Ok(outcomes)
        });
        self.world.lock().ledger.committed();
        outcomes
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.call(Call::Load, |store| {
            let rows = store.inner.load(partition, after, until, limit)?;
            store.world.lock().ledger.loaded(&rows);
            Ok(rows)
        })
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.call(Call::HandOut, |store| {
            store.inner.hand_out(upto)?;
            store.world.lock().ledger.claimed(upto);
            Ok(())
        })
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        self.call(Call::Clock, |store| store.inner.clock(node))
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

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.call(Call::Look, |store| store.inner.upkeep())
    }
}
