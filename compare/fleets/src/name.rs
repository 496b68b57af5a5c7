//! The subjects by name: what there is to know of each before it is measured.

use crate::workload::Workload;
use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Name {
    /// `wheelwork_durable` on `Postgres`
    Wheelwork,
    /// A table by deadline, `FOR UPDATE SKIP LOCKED LIMIT 1000` each second
    Poller,
    /// graphile-worker, a job queue for Node.js
    GraphileWorker,
    /// pg-boss, a job queue for Node.js
    PgBoss,
    /// BullMQ, a job queue for Node.js, on Redis
    #[value(name = "bullmq")]
    BullMq,
    /// apalis, a job queue
    Apalis,
    /// tokio-cron-scheduler, with its store on PostgreSQL
    TokioCron,
}

impl Name {
    /// The feature that it needs, if it was not built with it.
    fn missing(self) -> Option<&'static str> {
        match self {
            Self::Apalis | Self::TokioCron if cfg!(not(feature = "rivals")) => {
                Some("built without the feature rivals")
            }
            _ => None,
        }
    }

    /// Whether its timers are in Redis.
    pub(crate) fn is_on_redis(self) -> bool {
        self == Self::BullMq
    }

    /// The program of one that is for Node.js.
    pub(crate) fn script(self) -> Option<&'static str> {
        match self {
            Self::GraphileWorker => Some("graphile-worker.mjs"),
            Self::PgBoss => Some("pg-boss.mjs"),
            Self::BullMq => Some("bullmq.mjs"),
            _ => None,
        }
    }

    /// Why it is not measured in a workload, if it is not.
    pub(crate) fn refuses(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::TokioCron, Workload::ArmBulk) => Some("it has no call that arms several"),
            (Self::TokioCron, Workload::Killed) => Some(
                "never: a row is marked before its closure has run, and closures are not stored",
            ),
            _ => self.missing(),
        }
    }

    /// What part of the timers it gets where all of them would take too long.
    pub(crate) fn part(self, workload: Workload) -> usize {
        match (self, workload) {
            (Self::TokioCron, Workload::FireAck | Workload::Idle) => 10,
            _ => 1,
        }
    }

    /// Arms in a second at the least, on a slow machine: timers are armed that long before they are
    /// due.
    pub(crate) fn armed_per_s(self) -> u64 {
        match self {
            Self::BullMq | Self::PgBoss => 3_000,
            Self::TokioCron => 400,
            _ => 10_000,
        }
    }

    /// Callers that arm many timers: 0 where it has a call for that.
    pub(crate) fn callers(self) -> usize {
        match self {
            Self::TokioCron => 64,
            _ => 0,
        }
    }

    /// What there is to say of how it does a workload.
    pub(crate) fn remark(self, workload: Workload) -> Option<&'static str> {
        match (self, workload) {
            (Self::TokioCron, Workload::FireAck | Workload::Idle) => Some("a tenth of the timers"),
            (Self::TokioCron, Workload::Lateness) => {
                Some("whole seconds, polls each 0.5 s, no acks")
            }
            (Self::Apalis, Workload::Lateness) => Some("whole seconds, polls each 0.1 s"),
            (Self::GraphileWorker, Workload::Lateness) => Some("its default: polls each 2 s"),
            (Self::PgBoss, Workload::Lateness) => Some("its shortest: polls each 0.5 s"),
            (Self::Poller, Workload::Lateness) => Some("polls each second"),
            (Self::GraphileWorker, Workload::Killed) => {
                Some("its default: a job stays locked for 4 hours")
            }
            (Self::PgBoss, Workload::Killed) => Some("heartbeat 10 s, supervisor each 60 s"),
            (Self::BullMq, Workload::Killed) => Some("its default: lock 30 s, a look each 30 s"),
            (Self::Poller, Workload::Killed) => Some("locks go with the connection"),
            (Self::Apalis, Workload::Killed) => Some("heartbeat 1 s, 10 may be missed"),
            (Self::BullMq, Workload::Idle) => Some("commands of Redis in place of commits"),
            _ => None,
        }
    }
}
