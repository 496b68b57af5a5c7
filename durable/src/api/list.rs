//! List: timers in pages, by what they are.

use super::client::{DurableClient, millis};
use crate::handler::error::DurableError;
use crate::queue::paging::Paged;
use crate::queue::request::Request;
use crate::store::cursor::ListCursor;
use crate::store::list::{RowFilter, TimerState};
use crate::store::row::{Position, Row, StoreTime};
use std::ops::{RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::time::SystemTime;

/// Timers or records of a page, unless another limit is set.
pub(super) const LIMIT: usize = 100;

/// Which timers a list has: all timers of the store, 100 to a page, unless filters and a limit are
/// set. A timer has to meet all filters.
///
/// # Example
/// See [`DurableClient::list_page`].
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// `None`: it is empty.
    range: Option<RangeInclusive<StoreTime>>,
    filter: RowFilter,
    state: Option<TimerState>,
    limit: usize,
    after: Option<ListCursor>,
}

/// A page of a list.
///
/// # Example
/// See [`DurableClient::list_page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// The timers, in the order of their deadlines.
    pub rows: Vec<Row>,
    /// Where the next page begins. `None`: this is the last one. A next page may have no timers.
    pub next: Option<ListCursor>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl ListQuery {
    /// All timers, 100 to a page.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            range: Some(StoreTime::MIN..=StoreTime::MAX),
            filter: RowFilter::ALL,
            state: None,
            limit: LIMIT,
            after: None,
        }
    }

    /// Timers that are due in a range of time.
    #[must_use]
    pub fn due(mut self, range: impl RangeBounds<SystemTime>) -> Self {
        self.range = millis(&range);
        self
    }

    /// Timers of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Timers with a key that begins so. An empty text takes all timers that have a key.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.filter.key_prefix = Some(prefix.into());
        self
    }

    /// Timers with a calendar.
    #[must_use]
    pub const fn recurring(mut self) -> Self {
        self.filter.recurring = true;
        self
    }

    /// Timers in this state, as it is when they are read.
    #[must_use]
    pub const fn state(mut self, state: TimerState) -> Self {
        self.state = Some(state);
        self
    }

    /// The most timers of a page. 0 counts as 1.
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = if limit == 0 { 1 } else { limit };
        self
    }

    /// The page that begins where another one has ended: [`ListPage::next`].
    #[must_use]
    pub const fn after(mut self, cursor: ListCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// What is to be read. `None`: there is nothing.
    pub(super) fn paged(&self) -> Option<Paged> {
        let range = self.range.as_ref()?;
        let first = match range.start().as_millis().checked_sub(1) {
            Some(before) => Position::end_of(StoreTime::from_millis(before)),
            None => Position::MIN,
        };
        let after = self.after.map_or(first, |cursor| cursor.0.max(first));
        Some(Paged {
            after,
            until: *range.end(),
            filter: self.filter.clone(),
            state: self.state,
        })
    }
}

impl DurableClient {
    /// Returns a page of the store's timers, in the order of their deadlines, and where the next
    /// page begins. Timers that are being handled are among them, and in a fleet those of all
    /// nodes.
    ///
    /// Pages go on inside one deadline, however many timers have it. A timer that stays as it is
    /// while the pages are read is on exactly one of them. A timer that is armed or ends meanwhile
    /// may be on a page or not, and one that is moved may be on two.
    ///
    /// A page is read in slices, as the timers of [`list`](Self::list) are, and other calls have
    /// their turn between the slices.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: the timers of the page are read. In a fleet at least 16
    /// of each partition are: with 256 partitions up to 4,096, so ask there for pages of some
    /// thousands. With a filter or a state also all timers between them, so a page that finds few
    /// timers reads many; in a fleet the database reads those, and does not send their payloads.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, ListQuery, Memory, TimerState};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let hour = Duration::from_secs(3_600);
    /// timers.schedule_many((0..250).map(|order| ("order.unpaid", hour, format!("{order}"))))?;
    /// timers.key("report/daily").schedule("report", hour, "")?;
    ///
    /// let mut query = ListQuery::new().kind("order.unpaid").state(TimerState::Waiting);
    /// let mut orders = 0;
    /// loop {
    ///     let page = timers.list_page(&query)?;
    ///     orders += page.rows.len();
    ///     let Some(next) = page.next else { break };
    ///     query = query.after(next);
    /// }
    /// assert_eq!(orders, 250);
    /// let reports = timers.list_page(&ListQuery::new().key_prefix("report/"))?;
    /// assert_eq!(reports.rows.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list_page(&self, query: &ListQuery) -> Result<ListPage, DurableError> {
        let Some(paged) = query.paged() else {
            return Ok(ListPage::default());
        };
        let (found, next) = self
            .shared
            .ask_and_wait(|teller| Request::page(paged, query.limit, teller))?;
        Ok(ListPage {
            rows: found.into_iter().flatten().collect(),
            next: next.map(ListCursor),
        })
    }

    /// Returns up to `limit` timers that are due in a range of time, in the order of their
    /// deadlines: the first page of a [list](Self::list_page), as one call.
    ///
    /// More than 4,096 timers, or 8 MiB, are read in several slices. Other calls have their turn
    /// between the slices. In a fleet slices are smaller if the database is slow. A timer that is
    /// moved meanwhile may be in the list twice, or not at all.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: the timers are read, and take memory all at once.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// let hour = SystemTime::now() + Duration::from_secs(3_600);
    /// assert_eq!(timers.list(..hour, 100)?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(
        &self,
        due: impl RangeBounds<SystemTime>,
        limit: usize,
    ) -> Result<Vec<Row>, DurableError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let page = self.list_page(&ListQuery::new().due(due).limit(limit))?;
        Ok(page.rows)
    }
}
