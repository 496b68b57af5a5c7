//! Stats: what a service has done so far. `read_stats.rs` reads the counters.

use super::lateness::LatenessHistogram;

/// What a service has done since its start. A snapshot: the counters are read one after the other
/// while the service runs.
///
/// The fields of `Stats` are for users of timers. What the shards do to get there is in
/// [`ShardStats::machinery`].
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(5), || ())?;
/// service.cancel(id);
/// let stats = service.stats();
/// assert_eq!((stats.timers.armed, stats.timers.cancelled), (1, 1));
/// assert_eq!((stats.timers.pending, stats.panics), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What became of timers, in all shards.
    pub timers: TimerCounts,
    /// How late timers fired.
    pub lateness: LatenessHistogram,
    /// Handlers and tasks that panicked.
    pub panics: u64,
    /// Hooks that panicked themselves.
    pub hook_panics: u64,
    /// Shard threads that are to be pinned to a core and are not: it could not be done, in a
    /// container for example, or others keep the core busy
    /// ([`Pinning::AllCores`](crate::Pinning::AllCores)).
    pub unpinned_shards: usize,
    /// How often the service told its rayon pool of due timers.
    pub pool: PoolCounts,
    /// The figures of each shard.
    pub shards: Vec<ShardStats>,
}

/// What became of timers: of a whole service ([`Stats::timers`]) or of one shard
/// ([`ShardStats::timers`]).
///
/// A timer that was armed is `pending`, or it has exactly one of the outcomes `fired`, `cancelled`,
/// `handed_back` and `ended`.
///
/// # Example
/// See [`Stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerCounts {
    /// Timers that were armed.
    pub armed: u64,
    /// Timers that fired: a worker has claimed them. Runs of periodic timers are in
    /// [`runs`](Self::runs) instead; [`Stats::lateness`] has both.
    pub fired: u64,
    /// Timers that fired and whose payloads were dropped because nobody took them. The handler left
    /// them in its batch, or panicked before it took them, or an executor dropped the job, or the
    /// channel has no receiver. They are in [`fired`](Self::fired) too.
    pub dropped: u64,
    /// Timers that were cancelled or taken.
    pub cancelled: u64,
    /// Timers that `stop` handed back.
    pub handed_back: u64,
    /// Periodic timers that ended: after their last run, or when the service stopped.
    pub ended: u64,
    /// Timers that wait: armed, and without an outcome yet.
    pub pending: u64,
    /// Times that a timer was moved to another deadline.
    pub rearmed: u64,
    /// Runs of periodic timers.
    pub runs: u64,
}

/// How often the service told its rayon pool of due timers. Where services share a pool, each
/// counts what it told itself: mostly of its own timers, and of others' that waited behind a worker
/// that was held up. Zero where the service does not dispatch to a pool.
///
/// # Example
/// See [`Stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Times that the pool's attendant was woken: the one worker that waits for due timers.
    pub calls: u64,
    /// Jobs that were given to rayon, because a worker was held up or because there were more than
    /// some 50 us of work for one worker. Rayon wakes one or two sleeping threads for each.
    pub announcements: u64,
}

/// What one shard has done so far.
///
/// # Example
/// ```
/// let service = wheelwork::TimerService::builder().start()?;
/// for (number, shard) in service.stats().shards.iter().enumerate() {
///     let (pending, wakeups) = (shard.timers.pending, shard.machinery.wakeups);
///     println!("shard {number}: {pending} timers wait, {wakeups} wake-ups");
/// }
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// What became of the timers of this shard.
    pub timers: TimerCounts,
    /// What the shard did to get there.
    pub machinery: Machinery,
}

/// The figures of a shard's machinery: its lanes, its thread and its wheel. They explain where time
/// and memory go. ARCHITECTURE.md says what the parts are.
///
/// # Example
/// See [`ShardStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Machinery {
    /// Messages in the lanes now: inserts and tombstones that the shard has not taken in.
    pub lane_depth: u64,
    /// Batches in the pool now that no worker has begun.
    pub pool_backlog: u64,
    /// Turns that left due timers in the wheel, because the pool was too far behind or the channel
    /// was full.
    pub held: u64,
    /// Times that the shard took no turn although it was time. Counted only if the builder's
    /// [`on_stall`](crate::Builder::on_stall) was called.
    pub stalls: u64,
    /// Turns: passes over lanes and wheel.
    pub turns: u64,
    /// Times that the shard's thread slept and woke up. An idle shard naps: each nap is as long as
    /// the quiet has lasted. After some seconds of quiet it does not wake up at all.
    pub wakeups: u64,
    /// Times that a scheduling thread woke the shard's thread, at the cost of a system call.
    pub rings: u64,
    /// Messages that were taken from the lanes: inserts (also those recalled in their lane) and
    /// tombstones.
    pub drained: u64,
    /// Inserts that never reached the wheel: each was recalled in its lane, or met its tombstone
    /// there.
    pub eliminated: u64,
    /// Due entries that were handed to the dispatcher: of timers that fired, and of timers that
    /// were cancelled too late for the wheel to know.
    pub dispatched: u64,
    /// Entries that a cascade moved to a lower level, or found dead.
    pub cascaded: u64,
    /// Slots that were compacted: their dead entries were removed.
    pub compactions: u64,
    /// Tombstones that the slots of the wheel count now. At least as many as there are cancelled
    /// timers whose entries are still in the wheel.
    pub holes: u64,
    /// Entries that are due and still in the wheel, of living and of cancelled timers: the pool is
    /// too far behind, or the channel is full.
    pub due: u64,
    /// Entries in each level of the wheel after the shard's last turn, of living timers and of
    /// cancelled ones that are still there. Level `n` holds what is due less than 256^(n + 1) ticks
    /// after that turn. With a tick of 1 ms: 256 ms in level 0, 66 s in level 1, 4.7 h in level 2.
    /// Timers of which the shard has not heard yet are in [`lane_depth`](Self::lane_depth).
    pub levels: [u64; 7],
}

impl Stats {
    /// The sum of one counter over all shards: for figures of the [`Machinery`]. Sums of the
    /// [`TimerCounts`] are in [`timers`](Self::timers) already.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let wakeups = service.stats().sum(|shard| shard.machinery.wakeups);
    /// println!("{wakeups} wake-ups");
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&ShardStats) -> u64) -> u64 {
        self.shards.iter().map(counter).sum()
    }
}

impl TimerCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.armed += other.armed;
        self.fired += other.fired;
        self.dropped += other.dropped;
        self.cancelled += other.cancelled;
        self.handed_back += other.handed_back;
        self.ended += other.ended;
        self.pending += other.pending;
        self.rearmed += other.rearmed;
        self.runs += other.runs;
    }
}
