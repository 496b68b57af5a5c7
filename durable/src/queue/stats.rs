//! Stats: what has happened, and what is there.

use crate::queue::counter::Counter;
use crate::store::row::StoreTime;
use crate::sync::{CountU64, Ordering};
use std::time::Duration;
use wheelwork::{LatenessHistogram, LatenessRecorder};

/// A turn that has lasted so long counts as lag.
const STALL_MIN: Duration = Duration::from_secs(1);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the writer counts. It alone writes them, but for one.
#[derive(Default)]
pub(crate) struct WriterCounts {
    pub(crate) armed: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) moved: Counter,
    pub(crate) done: Counter,
    pub(crate) failed: Counter,
    pub(crate) snoozed: Counter,
    pub(crate) given_up: Counter,
    pub(crate) expired: Counter,
    /// (Threads of handlers count these.)
    over_time: CountU64,
    pub(crate) died: Counter,
    pub(crate) superseded: Counter,
    pub(crate) stale: Counter,
    pub(crate) commits: Counter,
    pub(crate) writes: Counter,
    pub(crate) window_rows: Counter,
    pub(crate) window_bytes: Counter,
    /// Milliseconds since the epoch. 0: nothing is due.
    pub(crate) oldest_due: Counter,
    /// When the writer's present turn began, in nanoseconds that have passed on this node, and one
    /// more. 0: it waits for something to do.
    pub(super) turn_began: Counter,
    pub(crate) rows: Counter,
    pub(crate) dead: Counter,
    pub(crate) unhandled: Counter,
    pub(crate) paused: Counter,
    pub(crate) limited: Counter,
    pub(crate) done_kept: Counter,
    pub(crate) disk_bytes: Counter,
    pub(crate) outages: Counter,
    /// 1 while the store does not work.
    pub(crate) down: Counter,
    pub(crate) lateness: LatenessRecorder,
    pub(crate) commit_time: LatenessRecorder,
}

/// What has happened since the service was started, and what is there now. A snapshot: other
/// threads go on counting while it is taken.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// timers.schedule("mail", Duration::from_secs(60), "hello")?;
/// let stats = timers.stats();
/// assert_eq!((stats.armed, stats.lag), (1, Duration::ZERO));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DurableStats {
    /// Timers that were armed, by calls of this program.
    pub armed: u64,
    /// Timers that were cancelled, by calls of this program.
    pub cancelled: u64,
    /// Timers that got another deadline by a call of this program, but by `schedule_calendar`.
    pub moved: u64,
    /// Deliveries whose handler said `Ok`.
    pub done: u64,
    /// Deliveries whose handler said `Err`, or panicked.
    pub failed: u64,
    /// Deliveries whose handler said [`Later`](crate::Later), or whose transaction has met others
    /// and may not be repeated now, because of a pause. A timer that is put off beyond its expiry
    /// counts as [`expired`](Self::expired) instead.
    pub snoozed: u64,
    /// Deliveries whose handler said [`GiveUp`](crate::GiveUp). They are also among those that
    /// died.
    pub given_up: u64,
    /// Deliveries whose handler has taken longer than its time limit
    /// ([`time_limit`](crate::DurableBuilder::time_limit)).
    pub over_time: u64,
    /// Timers that were not handed out in time ([`not_after`](crate::TimerBuilder::not_after)), or
    /// that their handler put off beyond it. They are also among those that died.
    pub expired: u64,
    /// Timers that have become dead letters, or would have if no other timer had taken their key,
    /// or their calendar had not been cancelled, while they were handled.
    pub died: u64,
    /// Timers that were being handled when another took their key, or when their calendar was
    /// cancelled, and that were then to be tried again or to come later. One whose last attempt
    /// this was is among those that [died](Self::died) instead.
    pub superseded: u64,
    /// Answers of handlers that the store refused: another node had taken over, or what was said is
    /// stored already.
    pub stale: u64,
    /// Commits of what calls, handlers and rules change. Those of the watermark, of sweeps, of
    /// leases, of records that are removed, and of handlers in transactions do not count.
    pub commits: u64,
    /// Changes in these commits.
    pub writes: u64,
    /// Timers in the store, those that are being handled included, as of the last second or so; in
    /// a fleet of the last minute or minutes.
    pub rows: u64,
    /// Dead letters in the store, as of the last second or so; in a fleet of the last minute or
    /// minutes.
    pub dead: u64,
    /// Timers that wait for a handler of their kind, as of the last minute or so; in a fleet those
    /// of this node's partitions.
    pub unhandled: u64,
    /// Timers that are due, or are about to be, and are paused ([`Ruled::pause`]), as of the last
    /// minute or so; in a fleet those of this node's partitions. Those without a handler count as
    /// [`unhandled`](Self::unhandled) alone.
    ///
    /// [`Ruled::pause`]: crate::Ruled::pause
    pub paused: u64,
    /// Timers that are held by a rate or a limit of calls, as of the last minute or so; in a fleet
    /// those of this node's partitions.
    pub limited: u64,
    /// Records of runs that are done ([`keep_done`](crate::DurableBuilder::keep_done)), as of the
    /// last second or so; in a fleet of the last minute or minutes, of all nodes. 0 in a program
    /// that does not keep them.
    pub done_kept: u64,
    /// Size of the store on disk, in bytes, as of the last second or so. `None`: it is not known.
    pub disk_bytes: Option<u64>,
    /// Timers in the window, those that are being handled included.
    pub window_rows: u64,
    /// Bytes of their payloads, keys, kinds, calendars and traces, without those of suspects that
    /// wait.
    pub window_bytes: u64,
    /// How long ago the oldest timer was due that waits for its handler, or is in it. The figure to
    /// alert on, with [`health`](crate::DurableClient::health): a store that has failed is not
    /// measured. Timers that are counted as [`unhandled`](Self::unhandled),
    /// [`paused`](Self::paused) or [`limited`](Self::limited) do not count here. While the store
    /// hangs, it is at least [`turn`](Self::turn), if that is 1 s or more. Zero after a stop.
    pub lag: Duration,
    /// How long the writer's present turn has lasted: it stores what callers and handlers want, and
    /// loads what is due soon. Milliseconds, unless a call of the store hangs. Zero: it waits for
    /// something to do.
    pub turn: Duration,
    /// How often the store has failed.
    pub outages: u64,
    /// Whether the store does not work now. [`health`](crate::DurableClient::health) says why.
    pub down: bool,
    /// How late timers were handed to their handlers.
    pub lateness: LatenessHistogram,
    /// How long these [`commits`](Self::commits) took.
    pub commit_time: LatenessHistogram,
}

impl WriterCounts {
    /// The writer's turn begins, so long after the origin of its clock.
    pub(crate) fn begin_turn(&self, elapsed: Duration) {
        self.turn_began.set(nanos(elapsed).saturating_add(1));
    }

    /// A handler has taken longer than it may.
    pub(crate) fn note_over_time(&self) {
        // Ordering: Relaxed. A counter.
        self.over_time.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end_turn(&self) {
        self.turn_began.set(0);
    }

    /// How long the present turn has lasted.
    pub(super) fn turn(&self, elapsed: Duration) -> Duration {
        match self.turn_began.get() {
            0 => Duration::ZERO,
            began => Duration::from_nanos(nanos(elapsed).saturating_sub(began - 1)),
        }
    }

    /// A snapshot. `elapsed`: on the clock of `begin_turn`.
    pub(crate) fn read(&self, now: StoreTime, elapsed: Duration) -> DurableStats {
        let oldest = self.oldest_due.get();
        let overdue = match oldest {
            0 => Duration::ZERO,
            oldest => now.since(StoreTime::from_millis(oldest)),
        };
        let turn = self.turn(elapsed);
        let stalled = Some(turn).filter(|&turn| turn >= STALL_MIN);
        let disk_bytes = self.disk_bytes.get();
        DurableStats {
            armed: self.armed.get(),
            cancelled: self.cancelled.get(),
            moved: self.moved.get(),
            done: self.done.get(),
            failed: self.failed.get(),
            snoozed: self.snoozed.get(),
            given_up: self.given_up.get(),
            expired: self.expired.get(),
            // Ordering: Relaxed. A counter.
            over_time: self.over_time.load(Ordering::Relaxed),
            died: self.died.get(),
            superseded: self.superseded.get(),
            stale: self.stale.get(),
            commits: self.commits.get(),
            writes: self.writes.get(),
            rows: self.rows.get(),
            dead: self.dead.get(),
            unhandled: self.unhandled.get(),
            paused: self.paused.get(),
            limited: self.limited.get(),
            done_kept: self.done_kept.get(),
            disk_bytes: (disk_bytes > 0).then_some(disk_bytes),
            window_rows: self.window_rows.get(),
            window_bytes: self.window_bytes.get(),
            lag: overdue.max(stalled.unwrap_or_default()),
            turn,
            outages: self.outages.get(),
            down: self.down.get() > 0,
            lateness: self.lateness.snapshot(),
            commit_time: self.commit_time.snapshot(),
        }
    }
}
