//! Two stores that nodes can share, `Postgres` and the one in memory: how a test has them.

pub mod demands;
pub mod held;
pub mod histories;
mod tables;

pub use tables::Tables;

use super::shared_memory::{Making, MemoryClock, SharedPlace, StoreBreak};
use md5::Digest;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Gate, SharedStore, Store, StoreClock};
use wheelwork_durable::{DurableId, Partition, StoreTime};

const HOUR: Duration = Duration::from_secs(3_600);

pub const fn at(millis: u64) -> StoreTime {
    StoreTime::from_millis(millis)
}

pub fn partition_of_key(key: &str) -> Partition {
    md5::Md5::digest(key.as_bytes())[0].into()
}

/// No store that is shared asks.
pub struct Unasked;

impl Gate for Unasked {
    fn let_go(&mut self, id: DurableId) -> bool {
        panic!("{id}: no gate knows what other nodes have handed out");
    }
}

/// A clock that stands still.
pub struct Standing;

pub fn standing() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

impl StoreClock for Standing {
    fn at_least(&self) -> SystemTime {
        standing()
    }

    fn at_most(&self) -> SystemTime {
        standing()
    }
}

impl MemoryClock for Standing {
    fn now(&self) -> SystemTime {
        standing()
    }
}

pub fn memory() -> SharedPlace {
    broken_memory(None)
}

pub fn broken_memory(broken: Option<StoreBreak>) -> SharedPlace {
    let making = Making {
        partitions: 256,
        partition_of_key,
        lease: HOUR,
        claim_ahead: Duration::from_millis(25),
        has_news: false,
        strikes: true,
        broken,
    };
    SharedPlace::new(making, standing())
}

/// What a store is asked for, in both.
pub trait Both: Store + SharedStore {}

impl<S: Store + SharedStore> Both for S {}
