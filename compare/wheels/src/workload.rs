//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{Column, column};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Insert N timers where N were inserted and cancelled before
    Insert,
    /// Insert N timers into a new one, which has no memory yet
    InsertCold,
    /// Cancel N in random order
    Cancel,
    /// Move N in random order to other deadlines
    Rearm,
    /// Advance over N, tick by tick, until all have fired
    Fire,
    /// N standing; cancel a random one, insert another; time stands still
    Churn,
}

impl Workload {
    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> Vec<Column> {
        let mut columns = vec![
            column("ns_per_op", "ns/op", 1),
            column("call_ns_p50", "p50 ns", 0),
            column("call_ns_p99", "p99 ns", 0),
            column("call_ns_p999", "p99.9 ns", 0),
            column("call_ns_max", "max ns", 0),
            column("cpu_share", "on CPU", 2),
        ];
        match self {
            Self::InsertCold => columns.push(column("bytes_per_timer", "B/timer", 1)),
            Self::Fire => columns.push(column("ns_per_tick", "ns/tick", 1)),
            Self::Insert | Self::Cancel | Self::Rearm | Self::Churn => {}
        }
        columns
    }
}
