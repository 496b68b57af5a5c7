//! Policy: what becomes of a run at a time that the clock on the wall leaves out, shows twice, or
//! has passed already.

use std::time::Duration;

/// What becomes of a run at a time that the clock on the wall leaves out, when it is set forward
/// for summer.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, Gap};
///
/// // In Berlin there is no 02:30 on the last Sunday of March: it runs at 03:00 then.
/// let nightly = Calendar::daily(2, 30)?.zone("Europe/Berlin")?.gap(Gap::End);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// It comes when the gap ends. Several runs in one gap make one run. The default of a pattern
    /// with given hours, steps in a range (`0-23/2`) included.
    End,
    /// It is left out. The default of a pattern with an item of hours that begins with `*` (`*`,
    /// `*/2`), or is an open step of Quartz (`0/2`): such a pattern counts real time.
    Skip,
}

/// What becomes of a run at a time that the clock on the wall shows twice, when it is set back for
/// winter.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, Overlap};
///
/// // In Berlin 02:30 comes twice on the last Sunday of October.
/// let nightly = Calendar::daily(2, 30)?.zone("Europe/Berlin")?.overlap(Overlap::Second);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overlap {
    /// It comes the first time. The default of a pattern with given hours, steps in a range
    /// (`0-23/2`) included.
    First,
    /// It comes the second time.
    Second,
    /// It comes both times. The default of a pattern with an item of hours that begins with `*`
    /// (`*`, `*/2`), or is an open step of Quartz (`0/2`): such a pattern counts real time.
    Both,
}

/// What a timer of a calendar does about missed runs: the clock was set forward, the machine was
/// suspended, or the run before took too long.
///
/// Timers with a period have [`wheelwork::Missed`](crate::Missed), whose words mean nearly the
/// same. (With `Burst(n)` a calendar makes the first `n` of several missed runs, and the late one
/// counts; a timer with a period makes the late one, and then the last `n`.) They may leave all
/// missed runs out, because the next one is never far. A run at nine o'clock that comes at ten is
/// worth more than none, so a calendar makes one of them up, unless it is told how late a run may
/// be.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::calendar::{Calendar, Missed};
///
/// // A report that nobody reads in the afternoon.
/// let morning = Missed::SkipAfter(Duration::from_secs(3 * 3_600));
/// let report = Calendar::daily(9, 0)?.missed(morning);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// Missed runs are made up for by one run, at once. The default.
    #[default]
    Once,
    /// Missed runs are made up for, one a tick (beyond the budget of wake-ups one a millisecond),
    /// up to this number (at least 1). The others are left out.
    Burst(u32),
    /// A run that comes later than this is left out, whatever made it late: a clock that was set, a
    /// suspension, a long run, or a busy pool. The others that were missed are made up for by one
    /// run, at once. Each run is late by up to a tick and a wake-up, so give it a second or more:
    /// with zero no run ever comes, except on a manual clock whose time of day is at a tick.
    SkipAfter(Duration),
}

impl Missed {
    /// All missed runs are made up for, one a tick (beyond the budget of wake-ups one a
    /// millisecond).
    pub const BURST_ALL: Self = Self::Burst(u32::MAX);
}
