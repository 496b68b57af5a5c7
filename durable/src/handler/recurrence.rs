//! Recurrence: the runs of a row with a calendar.
//!
//! Such a row is due at one of its calendar's runs. When it is due, [`due_run`] says whether to
//! make that run. When the run has been made, [`next_run`] gives the one after it. The calendar's
//! policy for missed runs decides both. A row whose calendar cannot be read becomes a dead letter.

use crate::store::row::StoreTime;
use std::time::{Duration, SystemTime};
#[cfg(feature = "calendar")]
use wheelwork::calendar::Calendar;

/// What becomes of a run whose time has come.
#[cfg_attr(
    not(feature = "calendar"),
    expect(dead_code, reason = "no calendar can be read")
)]
pub(crate) enum DueRun {
    /// It is made.
    Made,
    /// It is too late. The row waits for this one; `None`: it was the last.
    LeftOut(Option<StoreTime>),
}

/// What becomes of the run of a calendar that was meant for `due`. An error: it is no calendar.
#[cfg(feature = "calendar")]
pub(crate) fn due_run(calendar: &str, due: StoreTime, now: SystemTime) -> Result<DueRun, String> {
    let run = read(calendar)?.in_time(due.system_time(), now);
    Ok(match run.map(StoreTime::due_at) {
        Some(run) if run == due => DueRun::Made,
        run => DueRun::LeftOut(run),
    })
}

/// When a run was begun that was meant for `due` and came so late.
pub(crate) fn begun(due: StoreTime, lateness_ns: u64) -> StoreTime {
    due.after(Duration::from_nanos(lateness_ns))
}

/// What a run leaves behind when it has been made.
#[derive(Default)]
pub(crate) struct NextRun {
    /// When the row is due next. `None`: its calendar has no more runs, or it has no calendar.
    pub(crate) at: Option<StoreTime>,
    /// The runs in a row, up to this one, that were made up for.
    pub(crate) made_up: u32,
}

/// The run of a row with this calendar after the one that was meant for `due` and was begun at
/// `begun`. `made_up` counts the runs in a row before it that were made up for. An error: it is no
/// calendar.
pub(crate) fn next_run(
    calendar: Option<&str>,
    due: StoreTime,
    begun: StoreTime,
    made_up: u32,
) -> Result<NextRun, String> {
    match calendar {
        None => Ok(NextRun::default()),
        Some(calendar) => following(calendar, due, begun, made_up),
    }
}

#[cfg(feature = "calendar")]
fn following(
    calendar: &str,
    due: StoreTime,
    begun: StoreTime,
    mut made_up: u32,
) -> Result<NextRun, String> {
    let (due, begun) = (due.system_time(), begun.system_time());
    let run = read(calendar)?.following(due, begun, &mut made_up);
    let at = run.map(StoreTime::due_at);
    Ok(NextRun { at, made_up })
}

#[cfg(feature = "calendar")]
fn read(calendar: &str) -> Result<Calendar, String> {
    calendar
        .parse()
        .map_err(|error: wheelwork::calendar::CalendarError| error.to_string())
}

/// Why no calendar can be read.
#[cfg(not(feature = "calendar"))]
const MISSING: &str = "this program has no calendars: wheelwork's feature \"calendar\" is off";

#[cfg(not(feature = "calendar"))]
pub(crate) fn due_run(_: &str, _: StoreTime, _: SystemTime) -> Result<DueRun, String> {
    Err(MISSING.to_owned())
}

#[cfg(not(feature = "calendar"))]
fn following(_: &str, _: StoreTime, _: StoreTime, _: u32) -> Result<NextRun, String> {
    Err(MISSING.to_owned())
}
