//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{
    CALL_MAX, CALL_P50, CALL_P99, Column, EARLY, KOPS, LOAD, LOST, column, rate,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// One row a commit, by the engine's own call, on the thread that wants it
    Floor,
    /// Callers that each arm a timer, wait until it is durable, and arm another
    Arm,
    /// Two threads that arm without waiting, with this number of timers under way
    Pipelined,
    /// The same callers; 90 % of the timers are cancelled, 20,000 arms later
    ArmCancel,
    /// Timers that are due within a second: from the first deadline until the last ack is durable
    FireAck,
    /// Timers at random instants, this number in a second: how late they fire
    Lateness,
    /// 64 callers that arm, while the stored timers are swept, loaded, fired and acknowledged
    Sweep,
    /// Timers stored: load, memory, and how long until the first overdue one fires after a restart
    Stored,
}

const WRITTEN: Column = column("written_bytes", "written B", 0);
const FILES: Column = column("file_bytes", "files B", 0);
const CPU: Column = column("cpu_us", "CPU us", 2);
const LATE_P50: Column = column("late_ms_p50", "p50 ms", 2);
const LATE_P99: Column = column("late_ms_p99", "p99 ms", 2);
const LATE_MAX: Column = column("late_ms_max", "max ms", 1);
const ARMED: Column = rate("armed_per_s", "armed/s");
const OVER: Column = column("over_ms", "over ms", 1);
const WITHOUT: Column = column("without_ms_max", "without ms", 1);
const WITH: Column = column("with_ms_max", "with ms", 1);
const REOPEN: Column = column("reopen_ms", "reopen ms", 0);
const KILLED: Column = column("killed_ms", "killed ms", 0);
const RSS: Column = column("rss_mb", "RSS MB", 0);
const USED_RSS: Column = column("used_rss_mb", "used MB", 0);

impl Workload {
    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Floor => &[CALL_P50, CALL_P99, CALL_MAX, KOPS, WRITTEN],
            Self::Arm | Self::Pipelined | Self::ArmCancel => {
                &[KOPS, CALL_P50, CALL_P99, CALL_MAX, WRITTEN, FILES, CPU]
            }
            Self::FireAck => &[KOPS, WRITTEN, CPU, EARLY, LOST],
            Self::Lateness => &[LATE_P99, LATE_P50, LATE_MAX, ARMED, EARLY, LOST],
            Self::Sweep => &[WITH, WITHOUT, OVER, CALL_P50, CALL_P99, KOPS],
            Self::Stored => &[REOPEN, KILLED, RSS, USED_RSS, FILES, LOAD],
        }
    }

    /// What its number counts.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Floor | Self::Arm | Self::ArmCancel => "callers",
            Self::Pipelined => "timers under way",
            Self::Lateness => "timers a second",
            Self::FireAck | Self::Sweep | Self::Stored => "timers",
        }
    }
}
