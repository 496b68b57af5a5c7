//! The subjects by name: what there is to know of each before it is measured.

use crate::workload::Workload;
use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// A `DelayMap` for each thread, which polls its own
    Wheelwork,
    /// 16 `DelayMap`s for all threads, each in a mutex
    WheelworkMutexes,
    /// moka's `Cache`, with an `Expiry`
    Moka,
    /// moka's `SegmentedCache` of 16 segments, with the same `Expiry`
    MokaSegments,
    /// moka's `Cache`, with `time_to_idle`: one time for all entries
    MokaIdle,
    /// quick_cache's `Cache`: nothing expires
    QuickCache,
}

impl Name {
    /// Why it is not measured, if it is not.
    pub(crate) fn refuses(self, workload: Workload, threads: usize) -> Option<&'static str> {
        match (self, workload) {
            (Self::WheelworkMutexes | Self::MokaSegments, _) if threads == 1 => {
                Some("for more than one thread")
            }
            (Self::MokaIdle, Workload::Get) => Some("each get renews"),
            (Self::MokaIdle, Workload::Expire) => Some("one time for all entries"),
            (Self::QuickCache, Workload::Renew | Workload::Expire) => Some("nothing expires"),
            _ => None,
        }
    }

    /// What there is to say of how it does a workload.
    pub(crate) fn remark(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::Moka | Self::MokaSegments, Workload::Expire) => {
                Some("run_pending_tasks each 10 ms")
            }
            (Self::MokaIdle, _) => Some("one time for all entries"),
            (Self::QuickCache, _) => Some("nothing expires"),
            _ => None,
        }
    }
}
