//! Occurrences: the points in time that a pattern gives in a time zone.
//!
//! The pattern is searched in civil time, which knows no zones. Between two transitions of the zone (the clocks are set forward or back there, or the law changes) its offset stays the
//! same, so civil time and real time run alike. The search goes from one such stretch to the next, and sees at each transition which civil times were left out, or come again.

use super::{Calendar, Gap, Overlap};
use croner::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset};

/// Whether a pattern has no run in all of time.
pub(super) fn is_empty(cron: &Cron) -> bool {
    cron.find_next_occurrence(&DateTime::constant(1900, 1, 1, 0, 0, 0, 0), true).is_err()
}

/// The first occurrence after a point in time.
pub(super) fn next(calendar: &Calendar, after: Timestamp) -> Option<Timestamp> {
    let find = |from: DateTime, inclusive| calendar.cron.find_next_occurrence(&from, inclusive).ok();
    let mut offset = calendar.zone.to_offset(after);
    let mut found = find(offset.to_datetime(after), false)?;
    for transition in calendar.zone.following(after) {
        // The clock on the wall would show `end`, and shows `start`.
        let (end, start) = (offset.to_datetime(transition.timestamp()), transition.offset().to_datetime(transition.timestamp()));
        while found < end {
            if calendar.is_wanted(found, offset) {
                return offset.to_timestamp(found).ok();
            }
            found = find(found, false)?;
        }
        if found < start {
            if calendar.gap == Gap::End {
                return Some(transition.timestamp());
            }
            found = find(start, true)?;
        } else if start < end && calendar.overlap != Overlap::First {
            found = find(start, true)?;
        }
        offset = transition.offset();
    }
    offset.to_timestamp(found).ok()
}

impl Calendar {
    /// Whether a civil time counts, as it is with that offset: there may be two.
    fn is_wanted(&self, time: DateTime, offset: Offset) -> bool {
        match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Fold { before, after } => match self.overlap {
                Overlap::First => offset == before,
                Overlap::Second => offset == after,
                Overlap::Both => true,
            },
            _ => true,
        }
    }
}
