//! Bulk: calls that change many timers or dead letters, in slices.

use super::client::DurableClient;
use super::list::ListQuery;
use crate::handler::error::DurableError;
use crate::queue::bulk::{BulkCounts, BulkTask, DeadFilter, Shifted};
use crate::queue::request::Request;
use crate::queue::ticket::{Ticket, ticket};
use crate::store::row::{Cause, StoreTime};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// Which dead letters a call is for: all of them, unless filters are set. A letter has to meet all
/// filters.
///
/// # Example
/// See [`DurableClient::revive_all`].
#[derive(Clone, Debug, Default)]
pub struct DeadQuery {
    filter: DeadFilter,
}

impl DeadQuery {
    /// All dead letters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Dead letters of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Dead letters with a cause like this one. What the cause says beside does not count: with
    /// `Cause::Failed("".into())` it is for all timers whose handlers have failed.
    #[must_use]
    pub fn cause(mut self, cause: &Cause) -> Self {
        self.filter.cause = Some(std::mem::discriminant(cause));
        self
    }

    /// Dead letters that have become it then, or later.
    #[must_use]
    pub fn since(mut self, time: SystemTime) -> Self {
        self.filter.since = StoreTime::due_at(time);
        self
    }
}

/// By how much, or to when, [`move_all`](DurableClient::move_all) moves timers.
///
/// # Example
/// See [`DurableClient::move_all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shift {
    /// Each timer is due that much later than it was.
    Later(Duration),
    /// Each timer is due that much sooner than it was. One that would be due in the past is due at
    /// once.
    Sooner(Duration),
    /// All of them are due at this time.
    To(SystemTime),
}

/// A call that changes many timers or dead letters, while it is being done.
///
/// [`wait`](Self::wait) blocks until it is done. As a future it can be awaited under any runtime.
/// If it is dropped, the call goes on.
///
/// # Example
/// See [`DurableClient::revive_all`].
#[must_use = "without an answer it is not known whether all changes were made"]
pub struct Bulk {
    ticket: Ticket<usize>,
    counts: Arc<BulkCounts>,
}

/// How far a call has come that changes many timers or dead letters.
///
/// # Example
/// See [`DurableClient::revive_all`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Timers or dead letters that it has looked at.
    pub looked_at: u64,
    /// Those that it has changed. The changes are stored.
    pub changed: u64,
}

impl Bulk {
    /// Blocks until the call is done. Returns how many timers or dead letters it has changed.
    ///
    /// # Errors
    /// See [`DurableError`]. The changes that [`progress`](Self::progress) counts were made all the
    /// same. The call can be made again, and then does what is left to do. There is one exception:
    /// [`move_all`](DurableClient::move_all) with [`Shift::Later`] or [`Shift::Sooner`] moves a
    /// timer again that it has moved before, if the query still matches the timer.
    pub fn wait(self) -> Result<usize, DurableError> {
        self.ticket.wait()
    }

    /// How far it has come. Cost: some nanoseconds.
    #[must_use]
    pub fn progress(&self) -> BulkProgress {
        BulkProgress {
            looked_at: self.counts.looked_at.get(),
            changed: self.counts.changed.get(),
        }
    }
}

impl Future for Bulk {
    type Output = Result<usize, DurableError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ticket).poll(context)
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk")
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}

impl DurableClient {
    /// Makes all dead letters of a query timers again, as [`revive`](Self::revive) does with one.
    /// They are due at once.
    ///
    /// It returns at once, unless 65,536 calls wait, and is done in slices of up to 4,096 dead
    /// letters; in a fleet, of as many as the database changes in some 12 ms. Other calls are
    /// served, and timers fire, between the slices. So it is not done at one instant. A letter that
    /// comes meanwhile may be among them or not. If the service stops meanwhile, or the store
    /// fails, a part is done.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel), at once or as the answer. Cost: all dead letters are read.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Cause, DeadQuery, Durable, Memory, RetryPolicy};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .retry_policy(RetryPolicy::new().attempts(1))
    ///     .on("mail", |_| Err("the server is down".into()))
    ///     .start()?;
    /// timers.schedule_many((0..3).map(|_| ("mail", Duration::ZERO, "")))?;
    /// clock.advance(Duration::from_secs(1));
    ///
    /// let failed = DeadQuery::new().kind("mail").cause(&Cause::Failed("".into()));
    /// let revival = timers.revive_all(&failed)?;
    /// assert_eq!(revival.progress().changed, 3);
    /// assert_eq!(revival.wait()?, 3);
    ///
    /// // They fail again.
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timers.discard_all(&failed)?.wait()?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn revive_all(&self, query: &DeadQuery) -> Result<Bulk, DurableError> {
        let due = StoreTime::due_at(self.shared.now());
        self.bulk(BulkTask::Revive(None, query.filter.clone(), due))
    }

    /// Deletes all dead letters of a query, as [`discard_dead`](Self::discard_dead) does with one.
    /// It is done in slices, as [`revive_all`](Self::revive_all) is.
    ///
    /// # Errors
    /// As [`revive_all`](Self::revive_all).
    ///
    /// # Example
    /// See [`revive_all`](Self::revive_all).
    pub fn discard_all(&self, query: &DeadQuery) -> Result<Bulk, DurableError> {
        self.bulk(BulkTask::Discard(None, query.filter.clone()))
    }

    /// Moves all timers of a query that [`reschedule`](Self::reschedule) would move. A timer that
    /// its handler has already is not moved. The query's limit does not count. It is done in
    /// slices, as [`revive_all`](Self::revive_all) is, and moves no timer twice, unless its handler
    /// has had the timer meanwhile. Then its next attempt, or the next run of its calendar, may be
    /// moved, too.
    ///
    /// A timer that another call moves meanwhile may be moved by both or by one of them. A timer
    /// that is armed meanwhile may be moved or not.
    ///
    /// # Errors
    /// As [`revive_all`](Self::revive_all). Cost: all timers of the query's range of time are read.
    /// While it goes on, the ids of timers that it has moved to where it has yet to come take some
    /// 40 bytes of memory each.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, ListQuery, Memory, Shift};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let hour = Duration::from_secs(3_600);
    /// timers.key("eu/1").schedule("mail", hour, "hello")?;
    /// timers.key("us/1").schedule("mail", hour, "hello")?;
    ///
    /// let before = timers.key("eu/1").get()?.expect("is armed").due;
    /// let europe = ListQuery::new().kind("mail").key_prefix("eu/");
    /// assert_eq!(timers.move_all(&europe, Shift::Later(hour))?.wait()?, 1);
    /// let after = timers.key("eu/1").get()?.expect("is armed").due;
    /// assert_eq!(after.since(before), hour);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn move_all(&self, query: &ListQuery, shift: Shift) -> Result<Bulk, DurableError> {
        let shift = match shift {
            Shift::Later(by) => Shifted::Later(by),
            Shift::Sooner(by) => Shifted::Sooner(by),
            Shift::To(time) => Shifted::To(StoreTime::due_at(time)),
        };
        let Some(paged) = query.paged() else {
            let (teller, ticket) = ticket();
            teller.tell(Ok(0));
            let counts = Arc::default();
            return Ok(Bulk { ticket, counts });
        };
        self.bulk(BulkTask::Move(Box::new(paged), shift))
    }

    fn bulk(&self, task: BulkTask) -> Result<Bulk, DurableError> {
        let counts = Arc::<BulkCounts>::default();
        let told = counts.clone();
        let ticket = self
            .shared
            .ask(|teller| Request::bulk(task, told, teller))?;
        Ok(Bulk { ticket, counts })
    }
}
