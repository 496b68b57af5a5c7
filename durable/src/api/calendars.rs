//! Calendars: the timers that have one, and when they run next.

use super::client::DurableClient;
use super::list::ListQuery;
use crate::handler::error::DurableError;
use crate::store::cursor::ListCursor;
use crate::store::row::{Row, StoreTime};
use std::time::SystemTime;
use wheelwork::calendar::Calendar;

/// Timers with a calendar, and when they run next.
///
/// # Example
/// See [`DurableClient::calendars`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalendarPage {
    /// The timers, in the order of their next runs.
    pub rows: Vec<CalendarRow>,
    /// Where the next page begins. `None`: this is the last one. A next page may have no timers.
    pub next: Option<ListCursor>,
}

/// A timer with a calendar, and when it runs next.
///
/// # Example
/// See [`DurableClient::calendars`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalendarRow {
    /// The timer. Its calendar is a text.
    pub row: Row,
    /// Its next runs. The first one is the timer's deadline. It lies in the past if the run is
    /// being made or waits for its turn. If the last attempt has failed, it is the time of the next
    /// one. The other runs are the calendar's times after that, and after now. There are fewer runs
    /// if the calendar comes to an end, and only the first if this program cannot read it.
    pub runs: Vec<SystemTime>,
}

impl CalendarRow {
    fn new(row: Row, runs: usize, now: SystemTime) -> Self {
        let due = row.due.system_time();
        let calendar = row.calendar.as_deref().map(str::parse::<Calendar>);
        let mut times = vec![due];
        if let Some(Ok(calendar)) = calendar {
            let later = calendar.after(due.max(now)).take(runs.saturating_sub(1));
            times.extend(later.map(|time| StoreTime::due_at(time).system_time()));
        }
        times.truncate(runs);
        Self { row, runs: times }
    }
}

impl DurableClient {
    /// Returns a page of up to `limit` timers (0 counts as 1) that have a calendar, each with up to
    /// `runs` of its next runs, in the order of their deadlines. The pages begin after a cursor, as
    /// those of [`list_page`](Self::list_page) do.
    ///
    /// A timer whose calendar was cancelled while it is handled is among them until its handler has
    /// answered: it is [superseded](Row::superseded), and makes no further run.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: all timers up to the last one of the page are read, as
    /// with a filter of [`list_page`](Self::list_page); and some tens of microseconds for each
    /// calendar and each run, on the calling thread.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork::calendar::Calendar;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let mornings = Calendar::daily(9, 0)?.zone("UTC")?;
    /// timers.schedule_calendar("report", mornings, "sales")?;
    /// timers.schedule("mail", Duration::from_secs(60), "hello")?;
    ///
    /// let page = timers.calendars(None, 100, 3)?;
    /// assert_eq!((page.rows.len(), page.next), (1, None));
    /// let runs = &page.rows[0].runs;
    /// assert_eq!(runs.len(), 3);
    /// assert_eq!(runs[1].duration_since(runs[0])?, Duration::from_secs(86_400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn calendars(
        &self,
        after: Option<ListCursor>,
        limit: usize,
        runs: usize,
    ) -> Result<CalendarPage, DurableError> {
        let mut query = ListQuery::new().recurring().limit(limit);
        if let Some(after) = after {
            query = query.after(after);
        }
        let page = self.list_page(&query)?;
        let now = self.shared.now();
        let rows = page.rows.into_iter();
        Ok(CalendarPage {
            rows: rows.map(|row| CalendarRow::new(row, runs, now)).collect(),
            next: page.next,
        })
    }
}
