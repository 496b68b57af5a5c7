//! Done: the records of runs that are done, how long they are kept, and their list.

use super::builder::DurableBuilder;
use super::client::{DurableClient, millis};
use super::list::LIMIT;
use crate::handler::error::DurableError;
use crate::queue::paging::DonePaged;
use crate::queue::request::Request;
use crate::store::contract::Store;
use crate::store::cursor::DoneCursor;
use crate::store::done::{DonePlace, DoneRange, DoneTimer};
use crate::store::list::RowFilter;
use crate::store::row::{DurableId, StoreTime};
use std::ops::{RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Which runs that are done a list has: all that are kept, the newest first, 100 to a page, unless
/// filters and a limit are set. A run has to meet all filters.
///
/// # Example
/// See [`DurableClient::done_page`].
#[derive(Clone, Debug)]
pub struct DoneQuery {
    /// `None`: it is empty.
    range: Option<RangeInclusive<StoreTime>>,
    filter: RowFilter,
    id: Option<DurableId>,
    oldest_first: bool,
    limit: usize,
    after: Option<DoneCursor>,
}

/// A page of the list of runs that are done.
///
/// # Example
/// See [`DurableClient::done_page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DonePage {
    /// The runs, by when they have ended: the newest first, unless the query says otherwise.
    pub done: Vec<DoneTimer>,
    /// How many records are left out, because this version cannot read them: damage of a file, or
    /// a later version, has made them so. Filters do not count here.
    /// [`Redb::check`](crate::Redb::check) tells them one by one.
    pub unreadable: usize,
    /// Where the next page begins. `None`: this is the last one. A next page may have no runs.
    pub next: Option<DoneCursor>,
}

impl Default for DoneQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl DoneQuery {
    /// All runs, the newest first, 100 to a page.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            range: Some(StoreTime::MIN..=StoreTime::MAX),
            filter: RowFilter::ALL,
            id: None,
            oldest_first: false,
            limit: LIMIT,
            after: None,
        }
    }

    /// Runs that have ended in a range of time.
    #[must_use]
    pub fn ended(mut self, range: impl RangeBounds<SystemTime>) -> Self {
        self.range = millis(&range);
        self
    }

    /// Runs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Runs with a key that begins so. An empty text takes all runs that had a key.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.filter.key_prefix = Some(prefix.into());
        self
    }

    /// Runs of this timer. Cost: all records of the range of time are read, because no store has an
    /// index of them by id.
    #[must_use]
    pub const fn id(mut self, id: DurableId) -> Self {
        self.id = Some(id);
        self
    }

    /// The run that has ended first comes first.
    #[must_use]
    pub const fn oldest_first(mut self) -> Self {
        self.oldest_first = true;
        self
    }

    /// The most runs of a page. 0 counts as 1.
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = if limit == 0 { 1 } else { limit };
        self
    }

    /// The page that begins where another one has ended: [`DonePage::next`].
    #[must_use]
    pub const fn after(mut self, cursor: DoneCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// What is to be read. `None`: there is nothing.
    fn paged(&self) -> Option<DonePaged> {
        let ended = self.range.as_ref()?;
        let range = DoneRange {
            above: DonePlace::begin_of(*ended.start()),
            below: DonePlace::end_of(*ended.end()),
            newest_first: !self.oldest_first,
        };
        let range = self.after.map_or(range, |cursor| range.behind(cursor.0));
        Some(DonePaged {
            range,
            filter: self.filter.clone(),
            id: self.id,
        })
    }
}

impl<S: Store> DurableBuilder<S> {
    /// Keeps a record of each run that is done, for this time: when it was due, began and ended,
    /// how long it took, its attempts and crashes, and its node, but not its payload.
    /// [`done_page`](DurableClient::done_page) lists them. None is kept unless this is set, and
    /// then they cost nothing.
    ///
    /// - The record is stored in the commit that stores the handler's `Ok`; of a handler in a
    ///   transaction in that transaction. So a run that is done has one record, and an answer that
    ///   the store refuses has none. (While the disk is full a run has none. Two runs of one
    ///   calendar that were due at one time, and ended in one millisecond, share one.) A calendar
    ///   leaves a record of each run that was made, and with
    ///   [`Missed::SkipAfter`](wheelwork::calendar::Missed::SkipAfter) one of runs that were left
    ///   out one after another. Retries leave none,
    ///   [`Later`](crate::Later) leaves none, and what becomes a dead letter is among the [dead
    ///   letters](DurableClient::dead_letters).
    /// - Records are removed when their time is over, a slice at a time, with a rest of three times
    ///   as long after each. So it takes a while if millions are over at once. The program looks
    ///   for them after each sixteenth of that time, but at most once a second, and at least once a
    ///   minute. What counts is the time that this program sets, and not the one that wrote the
    ///   records. Where nodes share the store, each node removes the records of its own partitions.
    ///   So all nodes should set one time.
    /// - A program that does not set this leaves the records alone that are there. With a time of
    ///   zero it keeps none, and removes those that are there.
    /// - While the disk of a file is full, no records are written or removed.
    ///
    /// Cost: in a file about 50 bytes for each run, and its kind and key, which are a part of the
    /// commit. In PostgreSQL some 200 bytes and kind, key and node; a commit that acknowledges
    /// timers has one statement more, which inserts a row for each. A store of yours that has no
    /// records refuses to start.
    ///
    /// # Example
    /// See [`DurableClient::done_page`].
    pub fn keep_done(mut self, time: Duration) -> Self {
        self.hooks.keep_done = Some(time);
        self
    }
}

impl DurableClient {
    /// Returns a page of the runs that are done and still kept
    /// ([`keep_done`](DurableBuilder::keep_done)), and where the next page begins. The run that has
    /// ended last comes first. In a fleet the page has the runs of all nodes. Where no records are
    /// kept, it is empty.
    ///
    /// A record that stays while the pages are read is on exactly one of them. A record that comes
    /// meanwhile may be on a page or not: a run ends a moment before its record is stored.
    ///
    /// A page is read in slices, as that of [`list_page`](Self::list_page) is.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: the records of the page are read (in a fleet at least
    /// four of each partition). With a filter also all records between them.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{DoneQuery, Durable, Memory};
    ///
    /// let clock = ManualClock::new();
    /// let day = Duration::from_secs(86_400);
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .on("mail", |_| Ok(()))
    ///     .keep_done(7 * day)
    ///     .start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// clock.advance(Duration::from_secs(60));
    /// let page = timers.done_page(&DoneQuery::new().kind("mail"))?;
    /// assert_eq!((page.done[0].id, page.done[0].attempts, page.next), (id, 1, None));
    ///
    /// clock.advance(8 * day);
    /// assert!(timers.done_page(&DoneQuery::new())?.done.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn done_page(&self, query: &DoneQuery) -> Result<DonePage, DurableError> {
        let Some(paged) = query.paged() else {
            return Ok(DonePage::default());
        };
        let found = self
            .shared
            .ask_and_wait(|teller| Request::done(paged, query.limit, teller))?;
        Ok(DonePage {
            done: found.slices.into_iter().flatten().collect(),
            unreadable: found.unreadable,
            next: found.next.map(DoneCursor),
        })
    }
}
