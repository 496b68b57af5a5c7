//! Calendar runs: a stream that gives the times of a calendar when they have come.

use super::timers::{Home, Timers};
use super::wall::{Look, WallWaiting};
use crate::calendar::{Agenda, Calendar};
use futures_core::{FusedStream, Stream};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

/// A stream of a calendar's runs: each comes when the system's clock shows its time, and is that
/// time. [`calendar_runs`] makes one.
///
/// It follows the system's clock as the timers of
/// [`schedule_calendar`](crate::ServiceHandle::schedule_calendar) do: it reads it at least once a
/// minute, rounded up to a tick, and so notices within that time that it was set, or that the
/// machine was suspended. It wakes its shard and its task for that. A run is missed if the next one
/// is due before the stream is polled for it: the calendar's
/// [`Missed`](crate::calendar::Missed) says what becomes of it. (With `SkipAfter` a run is left
/// out, too, if the stream is polled for it later than that.) So a task that takes long for a run
/// does not find all later ones waiting. Runs count from when the stream was made. After the
/// calendar's last run, if it has one, the stream ends.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork::calendar::Calendar;
/// use wheelwork::{future::calendar_runs, testing};
///
/// testing::block_on(async {
///     let hourly = Calendar::cron("0 * * * *")?.zone("UTC")?;
///     let mut runs = calendar_runs(hourly);
///     for hour in 1..=48 {
///         let at = runs.next().await.expect("it has no end");
///         assert_eq!(at, SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3_600));
///         assert_eq!(at, testing::clock().system_time());
///     }
///     Ok::<(), wheelwork::calendar::CalendarError>(())
/// })?;
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct CalendarRuns {
    agenda: Agenda,
    wall: WallWaiting,
    has_ended: bool,
}

/// The runs of a calendar, as a stream, with the shared service: see [`CalendarRuns`].
///
/// # Panics
/// As [`sleep`](super::sleep()).
///
/// # Example
/// See [`CalendarRuns`].
pub fn calendar_runs(calendar: Calendar) -> CalendarRuns {
    CalendarRuns::new(Timers::shared(), calendar)
}

impl Timers {
    /// The runs of a calendar, as a stream: see [`CalendarRuns`].
    ///
    /// # Example
    /// See [`CalendarRuns`].
    pub fn calendar_runs(&self, calendar: Calendar) -> CalendarRuns {
        CalendarRuns::new(self.home(), calendar)
    }
}

impl CalendarRuns {
    fn new(home: Home, calendar: Calendar) -> Self {
        let wall = home.handle().wall_clock();
        Self {
            agenda: Agenda::new(calendar, wall.time, wall.now_ns),
            wall: WallWaiting::new(home),
            has_ended: false,
        }
    }

    /// Waits for the next run, and returns the time for which it is meant. `None` if there is none
    /// any more. If this future is dropped before it is ready, no run is lost.
    pub async fn next(&mut self) -> Option<SystemTime> {
        poll_fn(|context| self.poll_run(context)).await
    }

    fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<Option<SystemTime>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let agenda = &mut self.agenda;
        let run = std::task::ready!(self.wall.poll(context, |wall| {
            match agenda.look(wall.time, wall.now_ns) {
                None => Look::Over(None),
                Some(Duration::ZERO) => Look::Over(agenda.made()),
                Some(left) => Look::Lasts(left),
            }
        }));
        self.has_ended = run.is_none();
        Poll::Ready(run)
    }
}

impl Stream for CalendarRuns {
    type Item = SystemTime;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<SystemTime>> {
        self.get_mut().poll_run(context)
    }
}

impl FusedStream for CalendarRuns {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl fmt::Debug for CalendarRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalendarRuns")
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}
