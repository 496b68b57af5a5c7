//! The subjects by name: what there is to know of each before it is measured.

use crate::workload::Workload;
use clap::ValueEnum;

/// To insert more timers than this takes an ordered list minutes.
const ORDERED_MAX: usize = 10_000;

/// To fire more timers than this takes an unordered list minutes.
const UNORDERED_MAX: usize = 100_000;

/// The room in a slot is a constant of the type; this number of timers takes half a gigabyte of it,
/// most of which stays empty.
const BITWHEEL_MAX: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// Its `Wheel`
    Wheelwork,
    /// Its `future::DelayQueue`, under a clock that is moved by hand
    WheelworkDelayqueue,
    /// The crate's `Wheel`
    NexusTimer,
    /// The crate's `BitWheel`, which fires early
    Bitwheel,
    /// hierarchical_hash_wheel_timer's cancellable wheel
    Hhwt,
    /// tokio-util's, under a clock that is moved by hand
    Delayqueue,
    /// Scheme: each tick looks at all timers
    UnorderedList,
    /// Scheme: each insert goes along the list
    OrderedList,
    /// Scheme: a binary heap; what is cancelled stays in it
    Heap,
    /// Scheme: a B-tree
    Btree,
    /// Scheme: a wheel of 4,096 slots and a list of what is due later
    OneWheel,
    /// Scheme: a wheel of 4,096 slots for all rounds
    HashedWheel,
    /// Scheme: four levels of 256 slots, linked lists
    LinkedWheel,
}

impl Name {
    /// Why it is not measured, if it is not.
    pub(crate) fn refuses(self, workload: Workload, timers: usize) -> Option<&'static str> {
        match self {
            Self::OrderedList if timers > ORDERED_MAX => {
                Some("not above 10,000 timers: each insert goes along the list")
            }
            Self::UnorderedList if timers > UNORDERED_MAX && workload == Workload::Fire => {
                Some("not above 100,000 timers: each tick looks at all of them")
            }
            Self::Bitwheel if timers > BITWHEEL_MAX => {
                Some("not above 1,000,000 timers: its slots have a fixed size")
            }
            _ => None,
        }
    }

    /// What there is to say of how it does a workload.
    pub(crate) fn remark(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::Bitwheel, Workload::Fire) => Some("up to 4,095 ticks early, no cascades"),
            (Self::Delayqueue, Workload::Fire) => Some("with a turn of the runtime for each tick"),
            (Self::WheelworkDelayqueue, Workload::Fire) => {
                Some("with a turn of the service for each tick")
            }
            (Self::NexusTimer, Workload::Fire) => Some("memory is not given back"),
            (Self::Heap | Self::Hhwt, Workload::Cancel | Workload::Churn) => {
                Some("what is cancelled stays until it is due")
            }
            _ => None,
        }
    }
}
