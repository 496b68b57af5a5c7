//! A store in memory that several nodes share: what `Postgres` does, without a database.
//!
//! All that it has lies in maps under one lock. A node is a handle of it, made by
//! [`SharedPlace::node`]. The test has the clock.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

mod grants;
mod kept;
mod leases;
mod node;
mod users;

pub use node::SharedMemory;
pub use users::Told;

use kept::Kept;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::StoreClock;
use wheelwork_durable::{DeadLetter, Partition, Row};

/// The store's clock, as a node has it.
pub trait MemoryClock: StoreClock {
    /// What it shows just now. The store alone asks.
    fn now(&self) -> SystemTime;
}

/// A node's clock that is exactly the store's.
pub struct Exact(pub ManualClock);

impl StoreClock for Exact {
    fn at_least(&self) -> SystemTime {
        self.0.system_time()
    }

    fn at_most(&self) -> SystemTime {
        self.0.system_time()
    }
}

impl MemoryClock for Exact {
    fn now(&self) -> SystemTime {
        self.0.system_time()
    }
}

/// A way in which the store can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBreak {
    /// A settlement is not asked for its epoch.
    EpochIgnored,
    /// The watermark does not count when a row is ended, moved or replaced.
    WatermarkIgnored,
    /// Who takes a partition over begins without a watermark.
    WatermarkLost,
    /// What was perhaps handed out by an owner before is not suspect.
    NoneSuspect,
    /// A row that a user's transaction has locked is handed out.
    LockIgnored,
    /// A user's transaction has an old snapshot, and believes the watermark in it.
    OldWatermark,
    /// What a user's transaction has changed stays, though it was rolled back.
    RollbackStays,
    /// A held row keeps its deadline, and so falls due.
    HeldFallsDue,
    /// A held row that is moved is held still.
    MoveKeepsHeld,
    /// A row whose key another has taken is held, or tried again.
    SupersededStays,
    /// A row that is tried again has lost when it expires.
    RetryForgetsParts,
    /// A run leaves a record, though what its handler said is refused.
    DoneUnfenced,
    /// Who takes partitions does not ask for which kinds they were given away.
    WantsIgnored,
    /// A node that stops keeps its share.
    LeavingIgnored,
}

/// Those that a fleet without held rows notices.
pub const STORE_BREAKS: [StoreBreak; 7] = [
    StoreBreak::EpochIgnored,
    StoreBreak::WatermarkIgnored,
    StoreBreak::WatermarkLost,
    StoreBreak::NoneSuspect,
    StoreBreak::LockIgnored,
    StoreBreak::OldWatermark,
    StoreBreak::RollbackStays,
];

/// Those of held rows, and of what few rows have.
pub const HELD_BREAKS: [StoreBreak; 5] = [
    StoreBreak::EpochIgnored,
    StoreBreak::HeldFallsDue,
    StoreBreak::MoveKeepsHeld,
    StoreBreak::SupersededStays,
    StoreBreak::RetryForgetsParts,
];

/// How a store is made.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    pub partitions: Partition,
    pub partition_of_key: fn(&str) -> Partition,
    /// How long a lease lasts.
    pub lease: Duration,
    pub claim_ahead: Duration,
    /// Nodes are told of what concerns them.
    pub has_news: bool,
    /// A recurring row that may have been handed out can be cancelled: it is struck.
    pub strikes: bool,
    pub broken: Option<StoreBreak>,
}

/// A store in memory, outside of its nodes.
#[derive(Clone)]
pub struct SharedPlace(Arc<Mutex<Kept>>);

impl SharedPlace {
    /// An empty store, at this time of its clock.
    pub fn new(making: Making, now: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(Kept::new(making, now))))
    }

    /// How it is made.
    pub fn making(&self) -> Making {
        lock(&self.0).making
    }

    /// A new node.
    pub fn node(&self, name: &str, clock: Arc<dyn MemoryClock>) -> SharedMemory {
        let mut kept = lock(&self.0);
        kept.nodes_ever += 1;
        SharedMemory {
            node: kept.nodes_ever,
            lease: kept.making.lease,
            kept: self.0.clone(),
            name: name.to_owned(),
            clock,
            own: BTreeMap::new(),
            surplus: 0,
            is_slow: false,
            looks: false,
            kinds: Vec::new(),
            extra: BTreeMap::new(),
            left: BTreeMap::new(),
            turn: 0,
            wake: None,
            rules_read: None,
            rules_seen: 0,
        }
    }

    /// All rows, by position, and all dead letters.
    pub fn contents(&self) -> (Vec<Row>, Vec<DeadLetter>) {
        let kept = lock(&self.0);
        let mut rows: Vec<_> = kept.rows.values().cloned().collect();
        rows.sort_unstable_by_key(Row::position);
        (rows, kept.dead.values().cloned().collect())
    }

    /// All leases have run out: those of nodes that count here as dead.
    pub fn expire(&self, nodes: impl Fn(u64) -> bool, now: SystemTime) {
        let mut kept = lock(&self.0);
        for lease in &mut kept.leases {
            if lease.owner.is_some_and(&nodes) {
                lease.until = now;
            }
        }
        for (number, node) in &mut kept.nodes {
            if nodes(*number) {
                node.until = now;
            }
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
