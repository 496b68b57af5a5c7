//! A node's store in memory that takes time for each call, on a manual clock.

#![allow(dead_code, reason = "each test uses a part")]

use super::shared_memory::SharedMemory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{
    Gate, Lease, LeaseNews, Listed, Outcome, Position, RowFilter, SharedStore, SliceLimit, Store,
    StoreClock, StoreSize, Target, Write,
};
use wheelwork_durable::{
    DeadLetter, DurableId, Fleet, Partition, Row, Rule, StoreError, StoreTime,
};

/// A renewal that takes longer says that the node is slow: as with `Postgres`.
const SLOW_RENEWAL: Duration = Duration::from_millis(150);

/// How long a call takes, and how much longer for each row and each KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    pub call: Duration,
    pub row: Duration,
    pub kib: Duration,
}

/// What others do after the next looks at rows, one after each.
pub type AfterLooks = Arc<Mutex<VecDeque<Box<dyn FnOnce() + Send>>>>;

/// A node's store that takes time.
pub struct Slow {
    inner: SharedMemory,
    clock: ManualClock,
    speed: Arc<Mutex<Speed>>,
    /// Renewals in a row that took long.
    slow_renewals: u32,
    after_looks: AfterLooks,
}

impl Slow {
    pub fn new(inner: SharedMemory, clock: ManualClock, speed: Speed) -> Self {
        Self {
            inner,
            clock,
            speed: Arc::new(Mutex::new(speed)),
            slow_renewals: 0,
            after_looks: AfterLooks::default(),
        }
    }

    /// Its speed, which may be changed.
    pub fn speed(&self) -> Arc<Mutex<Speed>> {
        Arc::clone(&self.speed)
    }

    /// What others do after its looks.
    pub fn after_looks(&self) -> AfterLooks {
        Arc::clone(&self.after_looks)
    }

    fn pass(&self, rows: usize, bytes: usize) {
        let rows = u32::try_from(rows).unwrap();
        let kib = u32::try_from(bytes >> 10).unwrap();
        let speed = *self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let time = speed.call + speed.row * rows + speed.kib * kib;
        if !time.is_zero() {
            self.clock.advance(time);
        }
    }

    fn read<R>(
        &mut self,
        read: impl FnOnce(&mut SharedMemory) -> Result<R, StoreError>,
        size: impl FnOnce(&R) -> (usize, usize),
    ) -> Result<R, StoreError> {
        let found = read(&mut self.inner)?;
        let (rows, bytes) = size(&found);
        self.pass(rows, bytes);
        Ok(found)
    }
}

fn size_of(rows: &[Row]) -> (usize, usize) {
    (rows.len(), rows.iter().map(Row::bytes).sum())
}

impl Store for Slow {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.inner.acquire()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.inner.release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (mut rows, mut bytes) = (writes.len(), 0);
        for write in &writes {
            match write {
                Write::Arm(row) => bytes += row.bytes(),
                Write::Replace(of) => bytes += of.row.bytes(),
                Write::Amend(of) => bytes += of.bytes(),

                Write::CancelKind(slice) => rows += slice.limit.rows,
                _ => {}
            }
        }
        self.pass(rows, bytes);
        self.inner.commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.inner.load(partition, after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.inner.hand_out(upto)
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        Store::clock(&mut self.inner, node)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.pass(0, 0);
        self.inner.get(target)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let size = |letters: &Vec<DeadLetter>| {
            let bytes = letters.iter().map(|letter| letter.row.bytes());
            (letters.len(), bytes.sum())
        };
        self.read(|store| store.dead(after, limit), size)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.inner.size()
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.pass(0, 0);
        self.inner.rules()
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.inner.has_news_of_rules()
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for Slow {
    fn partitions(&self) -> u32 {
        self.inner.partitions()
    }

    fn claim_ahead(&self) -> Duration {
        self.inner.claim_ahead()
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        let begun = self.clock.elapsed();
        self.pass(0, 0);
        let is_slow = self.clock.elapsed() - begun > SLOW_RENEWAL;
        self.slow_renewals = if is_slow { self.slow_renewals + 1 } else { 0 };
        self.inner.set_slow(self.slow_renewals > 1);
        self.inner.renew()
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.pass(0, 0);
        self.inner.give_back(leases)
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.pass(0, 0);
        self.inner.claim(leases, upto)
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.read(
            |store| store.load_many(partitions, after, until, limit),
            |rows| size_of(rows),
        )
    }

    fn list_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let listed = self.read(
            |store| store.list_many(partitions, after, until, filter, limit),
            |listed| listed.looked_at,
        );
        let mut acts = self.after_looks.lock().unwrap();
        let act = acts.pop_front();
        drop(acts);
        if let Some(act) = act {
            act();
        }
        listed
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.pass(0, 0);
        self.inner.next_due(partitions, from)
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        SharedStore::clock(&self.inner)
    }

    fn takes_clock(&self) -> bool {
        true
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.inner.on_news(wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.inner.fleet()
    }
}
