//! Names: what each figure of [`Stats`] is called, what it means, and where it is found.

use crate::service::{ShardStats, Stats};
use metrics::{KeyName, SharedString, Unit};

/// A figure: its name, its description, and how it is read.
pub(super) struct Figure<S> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&S) -> u64,
}

impl<S> Figure<S> {
    pub(super) fn description(&self) -> (KeyName, Option<Unit>, SharedString) {
        (self.name.into(), Some(Unit::Count), self.help.into())
    }
}

const fn figure<S>(name: &'static str, help: &'static str, read: fn(&S) -> u64) -> Figure<S> {
    Figure { name, help, read }
}

/// A histogram: the lateness of timers that fired, and of runs.
pub(super) const LATENESS: &str = "wheelwork_lateness_seconds";
pub(super) const LATENESS_HELP: &str =
    "How long after their deadlines timers fired and periodic timers ran, rounded up by a quarter at the most.";

/// Counters of each shard.
pub(super) const SHARD_COUNTERS: [Figure<ShardStats>; 18] = [
    figure("wheelwork_timers_armed_total", "Timers that were armed.", |shard| shard.armed),
    figure("wheelwork_timers_fired_total", "Timers that fired.", |shard| shard.fired),
    figure("wheelwork_timers_cancelled_total", "Timers that were cancelled or taken.", |shard| shard.cancelled),
    figure("wheelwork_timers_rearmed_total", "Times that a timer was moved.", |shard| shard.rearmed),
    figure("wheelwork_timers_handed_back_total", "Timers that stop handed back.", |shard| shard.handed_back),
    figure("wheelwork_timers_dropped_total", "Timers that fired and whose payloads nobody took.", |shard| shard.dropped),
    figure("wheelwork_timers_ended_total", "Periodic timers that came to their end.", |shard| shard.ended),
    figure("wheelwork_runs_total", "Runs of periodic timers.", |shard| shard.runs),
    figure("wheelwork_stalls_total", "Times that a shard took no turn though it was time; counted with on_stall only.", |shard| {
        shard.stalls
    }),
    figure("wheelwork_turns_total", "Passes over lanes and wheel.", |shard| shard.turns),
    figure("wheelwork_turns_held_total", "Turns that left due timers in the wheel.", |shard| shard.held),
    figure("wheelwork_wakeups_total", "Times that a shard's thread slept and woke up.", |shard| shard.wakeups),
    figure("wheelwork_rings_total", "Times that a scheduling thread woke a shard's thread.", |shard| shard.rings),
    figure("wheelwork_messages_drained_total", "Messages taken from the lanes.", |shard| shard.drained),
    figure("wheelwork_messages_annihilated_total", "Inserts that were recalled in their lane, or met their tombstone there.", |shard| {
        shard.annihilated
    }),
    figure("wheelwork_entries_dispatched_total", "Due entries handed to the dispatcher.", |shard| shard.dispatched),
    figure("wheelwork_entries_cascaded_total", "Entries moved to a lower level, or found dead on the way.", |shard| shard.cascaded),
    figure("wheelwork_compactions_total", "Slots that were rid of their dead entries.", |shard| shard.compactions),
];

/// Gauges of each shard.
pub(super) const SHARD_GAUGES: [Figure<ShardStats>; 5] = [
    figure("wheelwork_timers_pending", "Timers that wait.", |shard| shard.pending),
    figure("wheelwork_lane_depth", "Messages in the lanes that the shard has not taken in.", |shard| shard.lane_depth),
    figure("wheelwork_pool_backlog", "Batches in the pool that no worker has begun.", |shard| shard.pool_backlog),
    figure("wheelwork_holes", "Tombstones that the slots of the wheel count.", |shard| shard.holes),
    figure("wheelwork_due", "Entries that are due and still in the wheel.", |shard| shard.due),
];

/// A gauge of each level of each shard's wheel.
pub(super) const LEVEL: &str = "wheelwork_level_entries";
pub(super) const LEVEL_HELP: &str = "Entries in a level of the wheel, of living timers and of cancelled ones that are still there.";

/// Counters of the whole service.
pub(super) const COUNTERS: [Figure<Stats>; 4] = [
    figure("wheelwork_panics_total", "Handlers and tasks that panicked.", |stats| stats.panics),
    figure("wheelwork_hook_panics_total", "Hooks that panicked themselves.", |stats| stats.hook_panics),
    figure("wheelwork_pool_calls_total", "Times that the pool's attendant was woken.", |stats| stats.pool_calls),
    figure("wheelwork_pool_announcements_total", "Jobs that rayon was given.", |stats| stats.pool_announcements),
];

/// Gauges of the whole service.
pub(super) const GAUGES: [Figure<Stats>; 1] =
    [figure("wheelwork_unpinned_shards", "Shard threads that could not be pinned.", |stats| stats.unpinned_shards as u64)];
