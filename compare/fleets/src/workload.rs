//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{
    CALL_MAX, CALL_P50, CALL_P99, Column, EARLY, KOPS, LOAD, LOST, column, rate,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Arms by each subject's call for many, from one process
    ArmBulk,
    /// Callers of one process that each arm a timer, wait until it is durable, and arm another
    Arm,
    /// Timers due at one instant, armed before: from then until the last ack is durable
    FireAck,
    /// Timers due at random instants, this number a second, armed before: how late they fire
    Lateness,
    /// Timers an hour away, and a worker that waits: what the server does meanwhile
    Idle,
    /// Timers that a worker has taken when it is killed: how long until another has fired them
    Killed,
    /// Timers due at random instants, 1,000 a second, while clients arm and cancel others, a random
    /// key each, in transactions of 100 ms: how late they fire
    BesideRandom,
    /// The same, and all clients have one key
    BesideHot,
}

/// Shown as more than the patience where timers are missing.
pub(crate) const RECOVERED: Column = column("recovered_s", "recovered s", 2);

const CPU: Column = column("cpu_us", "CPU us", 1);
const SERVER_CPU: Column = column("server_cpu_us", "server us", 1);
const LATE_P50: Column = column("late_ms_p50", "p50 ms", 1);
const LATE_P99: Column = column("late_ms_p99", "p99 ms", 1);
const LATE_MAX: Column = column("late_ms_max", "max ms", 0);
const FIRED: Column = rate("fired_per_s", "fired/s");
const AGAIN: Column = column("again", "again", 0);
const IDLE_CPU: Column = column("server_cpu_s", "server CPU s", 2);
const IDLE_OWN_CPU: Column = column("worker_cpu_s", "worker CPU s", 2);
const COMMITS: Column = column("transactions_per_s", "commits/s", 1);
const ROWS: Column = column("rows_per_s", "rows read/s", 0);
const CALLS: Column = rate("calls_per_s", "calls/s");
const CLIENT_P50: Column = column("call_ms_p50", "call p50 ms", 1);
const CLIENT_P99: Column = column("call_ms_p99", "call p99 ms", 1);
const FAILED: Column = column("failed", "failed", 0);
const TAKEN: Column = column("taken", "taken", 0);

impl Workload {
    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::ArmBulk => &[KOPS, CPU, SERVER_CPU],
            Self::Arm => &[KOPS, CALL_P50, CALL_P99, CALL_MAX, CPU, SERVER_CPU],
            Self::FireAck => &[KOPS, FIRED, CPU, SERVER_CPU, EARLY, LOST, AGAIN],
            Self::Lateness => &[LATE_P99, LATE_P50, LATE_MAX, FIRED, EARLY, LOST, AGAIN],
            Self::Idle => &[IDLE_CPU, IDLE_OWN_CPU, COMMITS, ROWS, LOAD],
            Self::Killed => &[RECOVERED, TAKEN, LOST, AGAIN],
            Self::BesideRandom | Self::BesideHot => &[
                LATE_P99, LATE_P50, LATE_MAX, FIRED, EARLY, LOST, AGAIN, CALLS, CLIENT_P50,
                CLIENT_P99, FAILED,
            ],
        }
    }

    /// What its number counts.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::ArmBulk => "process",
            Self::Arm => "callers",
            Self::Lateness => "timers a second",
            Self::FireAck | Self::Idle | Self::Killed => "timers",
            Self::BesideRandom | Self::BesideHot => "clients",
        }
    }

    /// Whether it needs SQL functions that users call in transactions of their own.
    pub(crate) fn is_beside(self) -> bool {
        matches!(self, Self::BesideRandom | Self::BesideHot)
    }
}
