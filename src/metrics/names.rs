//! Names: what each figure of [`Stats`] is called in a report, what it means, and how it is read.
//!
//! A name is `wheelwork_` and the path of the field or call in [`Stats`] or [`ShardStats`], with
//! `_` for `.`; counters end in `_total`. So `machinery.turns` is
//! `wheelwork_machinery_turns_total`.

use crate::engine::figures::stats::{ShardStats, Stats};
use metrics::{KeyName, SharedString, Unit};

/// One figure of a report.
pub(crate) struct Figure<S> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) read: fn(&S) -> u64,
}

impl<S> Figure<S> {
    pub(crate) fn description(&self) -> (KeyName, Option<Unit>, SharedString) {
        (self.name.into(), Some(Unit::Count), self.help.into())
    }
}

pub(crate) const fn figure<S>(
    name: &'static str,
    help: &'static str,
    read: fn(&S) -> u64,
) -> Figure<S> {
    Figure { name, help, read }
}

/// A histogram: the lateness of timers that fired, and of runs.
pub(super) const LATENESS: &str = "wheelwork_lateness_seconds";
pub(super) const LATENESS_HELP: &str = "How long after their deadlines timers fired and periodic \
    timers ran, up to 2 us above the truth, then rounded up by a quarter at the most.";

/// Counters of each shard.
pub(super) const SHARD_COUNTERS: [Figure<ShardStats>; 18] = [
    figure(
        "wheelwork_timers_armed_total",
        "Timers that were armed.",
        |shard| shard.timers.armed,
    ),
    figure(
        "wheelwork_timers_fired_total",
        "Timers that fired.",
        |shard| shard.timers.fired,
    ),
    figure(
        "wheelwork_timers_cancelled_total",
        "Timers that were cancelled or taken.",
        |shard| shard.timers.cancelled,
    ),
    figure(
        "wheelwork_timers_rearmed_total",
        "Times that a timer was moved to another deadline.",
        |shard| shard.timers.rearmed,
    ),
    figure(
        "wheelwork_timers_handed_back_total",
        "Timers that stop handed back.",
        |shard| shard.timers.handed_back,
    ),
    figure(
        "wheelwork_timers_dropped_total",
        "Timers that fired and whose payloads nobody took.",
        |shard| shard.timers.dropped,
    ),
    figure(
        "wheelwork_timers_ended_total",
        "Periodic timers that ended.",
        |shard| shard.timers.ended,
    ),
    figure(
        "wheelwork_timers_runs_total",
        "Runs of periodic timers.",
        |shard| shard.timers.runs,
    ),
    figure(
        "wheelwork_machinery_stalls_total",
        "Times that a shard took no turn although it was time; counted only with on_stall.",
        |shard| shard.machinery.stalls(),
    ),
    figure(
        "wheelwork_machinery_turns_total",
        "Passes over lanes and wheel.",
        |shard| shard.machinery.turns(),
    ),
    figure(
        "wheelwork_machinery_held_total",
        "Turns that left due timers in the wheel.",
        |shard| shard.machinery.held(),
    ),
    figure(
        "wheelwork_machinery_wakeups_total",
        "Times that a shard's thread slept and woke up.",
        |shard| shard.machinery.wakeups(),
    ),
    figure(
        "wheelwork_machinery_rings_total",
        "Times that another thread woke a shard's thread.",
        |shard| shard.machinery.rings(),
    ),
    figure(
        "wheelwork_machinery_drained_total",
        "Messages taken from the lanes.",
        |shard| shard.machinery.drained(),
    ),
    figure(
        "wheelwork_machinery_eliminated_total",
        "Inserts that were recalled in their lane, or met their tombstone there.",
        |shard| shard.machinery.eliminated(),
    ),
    figure(
        "wheelwork_machinery_dispatched_total",
        "Due entries handed to the dispatcher.",
        |shard| shard.machinery.dispatched(),
    ),
    figure(
        "wheelwork_machinery_cascaded_total",
        "Entries that a cascade moved to a lower level, or found dead.",
        |shard| shard.machinery.cascaded(),
    ),
    figure(
        "wheelwork_machinery_compactions_total",
        "Slots that were compacted.",
        |shard| shard.machinery.compactions(),
    ),
];

/// Gauges of each shard.
pub(super) const SHARD_GAUGES: [Figure<ShardStats>; 6] = [
    figure("wheelwork_timers_pending", "Timers that wait.", |shard| {
        shard.timers.pending
    }),
    figure(
        "wheelwork_machinery_lane_depth",
        "Messages in the lanes that the shard has not taken in yet.",
        |shard| shard.machinery.lane_depth(),
    ),
    figure(
        "wheelwork_machinery_lane_waiting",
        "Messages in the lanes that the shard has looked at and left there.",
        |shard| shard.machinery.lane_waiting(),
    ),
    figure(
        "wheelwork_machinery_pool_backlog",
        "Batches in the pool that no worker has begun.",
        |shard| shard.machinery.pool_backlog(),
    ),
    figure(
        "wheelwork_machinery_holes",
        "Tombstones that the slots of the wheel count now.",
        |shard| shard.machinery.holes(),
    ),
    figure(
        "wheelwork_machinery_due",
        "Entries that are due and still in the wheel.",
        |shard| shard.machinery.due(),
    ),
];

/// A gauge of each level of each shard's wheel.
pub(super) const LEVEL: &str = "wheelwork_machinery_levels";
pub(super) const LEVEL_HELP: &str =
    "Entries in a level of the wheel, of living timers and of cancelled ones that are still there.";

/// Counters of the whole service.
pub(super) const COUNTERS: [Figure<Stats>; 4] = [
    figure(
        "wheelwork_panics_total",
        "Handlers and tasks that panicked.",
        |stats| stats.panics,
    ),
    figure(
        "wheelwork_hook_panics_total",
        "Hooks that panicked themselves.",
        |stats| stats.hook_panics,
    ),
    figure(
        "wheelwork_pool_calls_total",
        "Times that the pool's attendant was woken.",
        |stats| stats.pool.calls,
    ),
    figure(
        "wheelwork_pool_announcements_total",
        "Jobs that rayon was given.",
        |stats| stats.pool.announcements,
    ),
];

/// Gauges of the whole service.
pub(super) const GAUGES: [Figure<Stats>; 1] = [figure(
    "wheelwork_unpinned_shards",
    "Shard threads that are to be pinned and are not: it could not be done, or others keep the core busy.",
    |stats| stats.unpinned_shards as u64,
)];
