//! A store in memory that does some calls otherwise: a test says which, and all others are those of
//! [`Memory`].

use std::time::SystemTime;
use wheelwork_durable::contract::{
    Gate, Lease, Outcome, Position, SliceLimit, Store, StoreSize, Target, Write,
};
use wheelwork_durable::{
    DeadLetter, DurableId, Memory, Partition, Row, Rule, StoreError, StoreTime,
};

/// The calls of a store over one in memory. What is not written anew is done by [`Memory`].
pub trait OverMemory: Send + 'static {
    fn memory(&mut self) -> &mut Memory;

    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.memory().acquire()
    }

    /// Whether the store can be opened again. No, unless a test says so.
    fn can_reopen(&self) -> bool {
        false
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.memory().reopen()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.memory().release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.memory().new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.memory().commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.memory().load(partition, after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.memory().hand_out(upto)
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.memory().rules()
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.memory().has_news_of_rules()
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        self.memory().clock(node)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.memory().get(target)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.memory().dead(after, limit)
    }

    fn payload_max(&self) -> usize {
        usize::MAX
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.memory().upkeep()
    }
}

/// The store.
pub struct Over<T>(pub T);

impl<T: OverMemory> Store for Over<T> {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.0.acquire()
    }

    fn can_reopen(&self) -> bool {
        self.0.can_reopen()
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.0.reopen()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.0.release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.0.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.0.commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.0.load(partition, after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.0.hand_out(upto)
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        self.0.clock(node)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.0.get(target)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.0.dead(after, limit)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.0.memory().size()
    }

    fn payload_max(&self) -> usize {
        self.0.payload_max()
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.0.rules()
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.0.has_news_of_rules()
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.0.upkeep()
    }
}
