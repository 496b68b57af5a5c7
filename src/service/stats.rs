//! Stats: what a service has done so far, and what it has to do.

use super::lateness::LatenessHistogram;

/// Counters of a service since its start. A snapshot: the counters are read one after the other while the service runs.
///
/// # Example
/// ```
/// # let service = wheelwork::TimerService::builder().start()?;
/// let stats = service.stats();
/// assert_eq!((stats.fired, stats.panics), (0, 0));
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers that fired: a worker has claimed them. Runs of periodic timers are not among them, but are in [`lateness`](Self::lateness).
    pub fired: u64,
    /// Handlers and tasks that panicked.
    pub panics: u64,
    /// Hooks that panicked themselves.
    pub hook_panics: u64,
    /// Shard threads that could not be pinned to their core (in a container, say) and run unpinned.
    pub unpinned_shards: usize,
    /// Times that the attendant of the service's own pool was woken: the one worker that waits for
    /// due timers by itself. Of a pool that services share: by all of them. Zero for other ways to
    /// dispatch.
    pub pool_calls: u64,
    /// Jobs that rayon was given, for which it wakes one or two of the pool's threads if they sleep: a
    /// worker was held up, or there was more to do than one does in some 50 us.
    pub pool_announcements: u64,
    /// How late timers fired.
    pub lateness: LatenessHistogram,
    /// Each shard's own.
    pub shards: Vec<ShardStats>,
}

/// Counters of one shard.
///
/// # Example
/// ```
/// # let service = wheelwork::TimerService::builder().start()?;
/// for (number, shard) in service.stats().shards.iter().enumerate() {
///     println!("shard {number}: {} timers wait, {} wake-ups", shard.pending, shard.wakeups);
/// }
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Timers that were armed here.
    pub armed: u64,
    /// Of these, timers that fired.
    pub fired: u64,
    /// Of those that fired, timers whose payloads were dropped since nobody took them: the handler left them in its batch, or panicked before it took anything, an
    /// executor dropped the job, or all receivers of the channel are gone.
    pub dropped: u64,
    /// Timers that were cancelled (or taken).
    pub cancelled: u64,
    /// Timers that `stop` handed back.
    pub handed_back: u64,
    /// Periodic timers that came to their end: after their last run, or when the service stopped.
    pub ended: u64,
    /// Timers that wait: armed, and neither fired, nor cancelled, nor handed back, nor ended.
    pub pending: u64,
    /// Times that a timer was moved.
    pub rearmed: u64,
    /// Runs of periodic timers. They are not in `fired`.
    pub runs: u64,
    /// Messages in the lanes now: inserts and tombstones that the shard has not taken in.
    pub lane_depth: u64,
    /// Batches in the pool now that no worker has begun.
    pub pool_backlog: u64,
    /// Turns that left due timers in the wheel: the pool was too far behind, or the channel was full.
    pub held: u64,
    /// Times that it took no turn though it was time. Counted only if the builder's [`on_stall`](crate::Builder::on_stall) was called.
    pub stalls: u64,
    /// Passes over lanes and wheel.
    pub turns: u64,
    /// Times that the shard's thread slept and woke up. An idle shard does not, once nothing has come or fired for some seconds; until then it naps, each time as long as the
    /// quiet has lasted.
    pub wakeups: u64,
    /// Times that a scheduling thread had to wake the shard's thread, at the cost of a system call.
    pub rings: u64,
    /// Messages taken from the lanes: inserts, those that were recalled there too, and tombstones.
    pub drained: u64,
    /// Inserts that never reached the wheel: they were recalled in their lane, or met their tombstone there.
    pub annihilated: u64,
    /// Due entries handed to the dispatcher: timers that fired, and those cancelled too late for the wheel to know.
    pub dispatched: u64,
    /// Entries that were moved to a lower level, or found dead on the way.
    pub cascaded: u64,
    /// Slots that were rid of their dead entries.
    pub compactions: u64,
    /// Tombstones that the slots of the wheel count now: at least as many as there are cancelled timers whose entries are still there.
    pub holes: u64,
    /// Entries that are due and still in the wheel, of living timers and of cancelled ones: the pool is too far behind, or the channel is full.
    pub due: u64,
    /// Entries in each level of the wheel, of living timers and of cancelled ones that are still there, as of the shard's last turn. What is in level `n` is due less
    /// than 256^(n + 1) ticks after that: with a tick of 1 ms, 256 ms in level 0, 66 s in level 1, 4.7 h in level 2. Timers of which the shard has not
    /// heard yet are in [`lane_depth`](Self::lane_depth).
    pub levels: [u64; 7],
}

impl Stats {
    /// The sum of one counter over all shards.
    ///
    /// # Example
    /// ```
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let wakeups = service.stats().sum(|shard| shard.wakeups);
    /// # let _ = wakeups;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&ShardStats) -> u64) -> u64 {
        self.shards.iter().map(counter).sum()
    }
}
