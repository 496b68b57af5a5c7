//! Stats: what a service has done so far. `read_stats.rs` reads the counters.

use super::lateness::LatenessHistogram;
use crate::entry_wheel::LEVELS;

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
    /// Handlers and tasks that panicked, functions of `every_by`, and drops of payloads that nobody
    /// took and of closures of periodic timers that end.
    pub panics: u64,
    /// Hooks that panicked themselves, and functions of an executor, subscribers of `tracing`, and
    /// wakers of a [`StopFuture`](crate::StopFuture) that did; and drops of what a forgotten
    /// `StopFuture` would have handed back.
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
    /// Timers that fired: a worker has claimed them. Runs of periodic timers, of calendars, and of
    /// timers for a time of day are in [`runs`](Self::runs) instead; [`Stats::lateness`] has both.
    /// What a stop fires ([`FireAll`](crate::StopPolicy::FireAll)) is not in the lateness, and
    /// timers for a time of day that it runs are in [`ended`](Self::ended) alone.
    pub fired: u64,
    /// Timers that fired and whose payloads were dropped because nobody took them. The handler left
    /// them in its batch, or panicked before it took them, or an executor dropped the job, or the
    /// channel has no receiver. They are in [`fired`](Self::fired) too. Payloads that are in a
    /// channel when its last receiver goes are not among them.
    pub dropped: u64,
    /// Timers that were cancelled or taken.
    pub cancelled: u64,
    /// Timers that `stop` handed back.
    pub handed_back: u64,
    /// Periodic timers, timers of calendars and those for a time of day that ended: after their
    /// last run, when the service stopped, or when an executor dropped their run.
    pub ended: u64,
    /// Timers that wait: armed, and without an outcome yet.
    pub pending: u64,
    /// Times that a timer was moved to another deadline.
    pub rearmed: u64,
    /// Runs of periodic timers, of calendars, and of timers for a time of day.
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
    /// Jobs that were given to rayon. In a pool of ours these are the first job after 0.2 s without
    /// work, and those for which a worker was held up or that were more than some 50 us of work for
    /// one worker. In a pool of yours it is each job. Rayon wakes one or two sleeping threads for
    /// each.
    pub announcements: u64,
}

/// What one shard has done so far.
///
/// # Example
/// ```
/// let service = wheelwork::TimerService::builder().start()?;
/// for (number, shard) in service.stats().shards.iter().enumerate() {
///     let (pending, wakeups) = (shard.timers.pending, shard.machinery.wakeups());
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
/// What any shard has is read by a call. How the wheel is laid out may change from version to
/// version, so its figures have names instead: [`figures`](Self::figures) lists them.
///
/// # Example
/// See [`ShardStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machinery {
    pub(super) lane_depth: u64,
    pub(super) lane_waiting: u64,
    pub(super) pool_backlog: u64,
    pub(super) held: u64,
    pub(super) stalls: u64,
    pub(super) turns: u64,
    pub(super) wakeups: u64,
    pub(super) rings: u64,
    pub(super) drained: u64,
    pub(super) eliminated: u64,
    pub(super) dispatched: u64,
    pub(super) due: u64,
    pub(super) cascaded: u64,
    pub(super) compactions: u64,
    pub(super) holes: u64,
    pub(super) levels: [u64; LEVELS],
}

/// The names of the figures that tell how many entries each level of the wheel has.
const LEVEL_NAMES: [&str; LEVELS] = [
    "level_0", "level_1", "level_2", "level_3", "level_4", "level_5", "level_6",
];

impl Machinery {
    /// Messages in the lanes now: inserts and tombstones that the shard has not taken in. The
    /// figure `lane_waiting` of [`figures`](Self::figures) says how many of them the shard has left
    /// there on purpose.
    #[must_use]
    pub const fn lane_depth(&self) -> u64 {
        self.lane_depth
    }

    /// Batches in the pool now that no worker has begun.
    #[must_use]
    pub const fn pool_backlog(&self) -> u64 {
        self.pool_backlog
    }

    /// Turns that left due timers in the wheel, because the pool was too far behind or the channel
    /// was full.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Times that the shard took no turn although it was time. Counted only if the builder's
    /// [`on_stall`](crate::Builder::on_stall) was called.
    #[must_use]
    pub const fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Turns: passes over lanes and wheel.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Times that the shard's thread slept and woke up. An idle shard naps: each nap is as long as
    /// the quiet has lasted. After some seconds of quiet it does not wake up before the next
    /// deadline (`docs/promises.md` has the exceptions).
    #[must_use]
    pub const fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Times that another thread woke the shard's thread, at the cost of a system call: most of all
    /// one that arms or moves a timer, but also one that cancels many, one that ends, and a stop.
    #[must_use]
    pub const fn rings(&self) -> u64 {
        self.rings
    }

    /// Messages that were taken from the lanes: inserts (also those recalled in their lane) and
    /// tombstones.
    #[must_use]
    pub const fn drained(&self) -> u64 {
        self.drained
    }

    /// Inserts that never reached the wheel: each was recalled in its lane, or met its tombstone
    /// there.
    #[must_use]
    pub const fn eliminated(&self) -> u64 {
        self.eliminated
    }

    /// Due entries that were handed to the dispatcher: of timers that fired, of runs of periodic
    /// timers, of timers that were moved to later and whose old deadline has come, and of timers
    /// that were cancelled too late for the wheel to know.
    #[must_use]
    pub const fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// Entries that are due and still in the wheel, of living and of cancelled timers: the pool is
    /// too far behind, or the channel is full.
    #[must_use]
    pub const fn due(&self) -> u64 {
        self.due
    }

    /// Entries in the wheel after the shard's last turn, of living timers and of cancelled ones
    /// that are still there, without those that are [due](Self::due). Timers of which the shard has
    /// not heard yet are in [`lane_depth`](Self::lane_depth).
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.levels.iter().sum()
    }

    /// All figures, each with its name: those that a call reads, by the name of the call, and
    /// others. The names of the others are no part of the interface that semantic versioning
    /// covers: a version may add figures, and leave some out.
    ///
    /// These have no call:
    ///
    /// | name | figure |
    /// |---|---|
    /// | `lane_waiting` | of `lane_depth`, inserts that the shard has looked at and left there, cancelled ones among them |
    /// | `cascaded` | entries that a cascade moved to a lower level, or found dead |
    /// | `compactions` | slots that were compacted: their dead entries were removed |
    /// | `holes` | tombstones that its slots count now: about the number of dead entries |
    /// | `level_0` to `level_6` | entries in each level after the shard's last turn |
    ///
    /// `holes` leaves out tombstones that still wait in a lane, and some timers that were moved or
    /// that shared a reading of the clock.
    ///
    /// Level `n` holds what is due less than 256^(n + 1) ticks after that turn. With a tick of
    /// 1 ms: 256 ms in level 0, 66 s in level 1, 4.7 h in level 2.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// for shard in &service.stats().shards {
    ///     for (name, value) in shard.machinery.figures() {
    ///         println!("{name}: {value}");
    ///     }
    /// }
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let scalars = [
            ("lane_depth", self.lane_depth),
            ("lane_waiting", self.lane_waiting),
            ("pool_backlog", self.pool_backlog),
            ("held", self.held),
            ("stalls", self.stalls),
            ("turns", self.turns),
            ("wakeups", self.wakeups),
            ("rings", self.rings),
            ("drained", self.drained),
            ("eliminated", self.eliminated),
            ("dispatched", self.dispatched),
            ("due", self.due),
            ("entries", self.entries()),
            ("cascaded", self.cascaded),
            ("compactions", self.compactions),
            ("holes", self.holes),
        ];
        scalars
            .into_iter()
            .chain(LEVEL_NAMES.into_iter().zip(self.levels))
    }

    /// The figure of this name, one of [`figures`](Self::figures). `None` if there is none.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let shard = &service.stats().shards[0];
    /// assert_eq!(shard.machinery.figure("holes"), Some(0));
    /// assert_eq!(shard.machinery.figure("spokes"), None);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<u64> {
        self.figures()
            .find_map(|(other, value)| (other == name).then_some(value))
    }

    #[cfg(feature = "metrics")]
    pub(crate) const fn cascaded(&self) -> u64 {
        self.cascaded
    }

    #[cfg(feature = "metrics")]
    pub(crate) const fn compactions(&self) -> u64 {
        self.compactions
    }

    #[cfg(feature = "metrics")]
    pub(crate) const fn lane_waiting(&self) -> u64 {
        self.lane_waiting
    }

    #[cfg(feature = "metrics")]
    pub(crate) const fn holes(&self) -> u64 {
        self.holes
    }

    /// Entries in each level of the wheel.
    #[cfg(feature = "metrics")]
    pub(crate) const fn levels(&self) -> &[u64; LEVELS] {
        &self.levels
    }
}

impl Stats {
    /// The sum of one counter over all shards: for figures of the [`Machinery`]. Sums of the
    /// [`TimerCounts`] are in [`timers`](Self::timers) already.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let wakeups = service.stats().sum(|shard| shard.machinery.wakeups());
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
