//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{Column, EARLY, column, rate};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Insert N new keys, each with a time of 1 s to 60 s
    Insert,
    /// N standing; get a random own key, which has 10 minutes left afterwards
    Renew,
    /// N standing; get a random own key, which leaves its time as it is
    Get,
    /// Remove N in random order
    Remove,
    /// N due over 2 s: how late it is told, and what that costs
    Expire,
    /// Resident bytes of an entry: a key and a value of eight bytes each
    Memory,
}

impl Workload {
    /// Memory is the same with any number of threads.
    pub(crate) fn threads(self, chosen: &[usize]) -> &[usize] {
        if self == Self::Memory { &[1] } else { chosen }
    }

    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> Vec<Column> {
        match self {
            Self::Insert | Self::Renew | Self::Get | Self::Remove => {
                let mops = Column {
                    digits: 2,
                    ..rate("mops", "M op/s")
                };
                let mut columns = vec![
                    mops,
                    column("cpu_s_per_mop", "CPU s/M", 3),
                    column("settle_ms", "settle ms", 1),
                ];
                if self == Self::Insert {
                    columns.push(column("expired", "expired", 0));
                }
                columns
            }
            Self::Expire => vec![
                column("late_ms_p50", "p50 ms", 2),
                column("late_ms_p99", "p99 ms", 2),
                column("late_ms_max", "max ms", 2),
                EARLY,
                column("cpu_s", "CPU s", 3),
            ],
            Self::Memory => vec![column("bytes_per_entry", "B/entry", 1)],
        }
    }
}
