//! Snapshot: all that a frame of the picture shows.

use std::time::Duration;
use wheelwork::ShardStats;

#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// What runs.
    pub(super) title: String,
    /// Since the picture was opened.
    pub(super) elapsed: Duration,
    pub(super) tick: Duration,
    pub(super) phase: Option<Phase>,
    /// Phases that are over, and what they took.
    pub(super) over: Vec<(String, Duration)>,
    pub(super) sample: Sample,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) what: String,
    pub(super) total: u64,
    pub(super) done: u64,
}

/// What the stats of the service at work say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Of each event, a second.
    pub(super) rates: [f64; EVENTS.len()],
    /// Of each event, since the service's start.
    pub(super) totals: [u64; EVENTS.len()],
    /// p99 of what fired in each frame, the last one last; `None`: nothing fired.
    pub(super) lateness: Vec<Option<Duration>>,
    /// Of all that fired: p50, p99, the greatest. `None`: nothing has.
    pub(super) lateness_of_all: Option<[Duration; 3]>,
    /// Each shard's. Nothing if no service is at work.
    pub(super) shards: Vec<ShardStats>,
    /// The greatest number of entries that a level of a shard has had.
    pub(super) peak: u64,
}

/// Reads a counter of a shard.
type Counter = fn(&ShardStats) -> u64;

/// The events that are counted, the most interesting first, and where.
pub(super) const EVENTS: [(&str, Counter); 12] = [
    ("armed", |shard| shard.timers.armed),
    ("cancelled", |shard| shard.timers.cancelled),
    ("re-armed", |shard| shard.timers.rearmed),
    ("fired", |shard| shard.timers.fired),
    ("wake-ups", |shard| shard.machinery.wakeups),
    ("rings", |shard| shard.machinery.rings),
    ("turns", |shard| shard.machinery.turns),
    ("messages", |shard| shard.machinery.drained),
    ("pairs met", |shard| shard.machinery.eliminated),
    ("cascaded", |shard| shard.machinery.cascaded),
    ("compacted", |shard| shard.machinery.compactions),
    ("held", |shard| shard.machinery.held),
];
