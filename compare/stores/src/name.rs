//! The subjects by name: what there is to know of each before it is measured.

use crate::workload::Workload;
use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Name {
    /// `wheelwork_durable` on `Redb`
    Wheelwork,
    /// redb alone: one table, by deadline and id
    Redb,
    /// fjall alone: one keyspace, by deadline and id
    #[cfg(feature = "rivals")]
    Fjall,
    /// SQLite alone: one table, by deadline and id
    #[cfg(feature = "rivals")]
    Sqlite,
    /// Redis: a sorted set by deadline, and a hash of payloads
    #[cfg(feature = "rivals")]
    Redis,
    /// apalis, a job queue, on SQLite
    #[cfg(feature = "rivals")]
    Apalis,
}

impl Name {
    /// Whether it is a job queue, a hundred times slower than the others.
    fn is_queue(self) -> bool {
        #[cfg(feature = "rivals")]
        return self == Self::Apalis;
        #[cfg(not(feature = "rivals"))]
        false
    }

    /// Why it is not measured in a workload, if it is not.
    pub(crate) fn refuses(self, workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::Floor if self == Self::Wheelwork => Some("redb is below it"),
            Workload::ArmCancel if self.is_queue() => Some("it has no call that cancels a task"),
            Workload::Floor if self.is_queue() => Some("it is no engine: sqlite is below it"),
            Workload::Sweep if self.is_queue() => Some("it would take hours"),
            _ => None,
        }
    }

    /// What part of the timers it gets where all of them would take too long.
    pub(crate) fn part(self, workload: Workload) -> usize {
        match workload {
            Workload::FireAck | Workload::Stored if self.is_queue() => 1_000,
            _ => 1,
        }
    }

    /// What there is to say of how it does a workload.
    pub(crate) fn remark(self, workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::FireAck | Workload::Stored if self.is_queue() => {
                Some("a thousandth of the timers")
            }
            Workload::Lateness if self.is_queue() => Some("deadlines in whole seconds"),
            _ => None,
        }
    }
}
