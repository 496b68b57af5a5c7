//! Occurrences: the points in time that a pattern gives in a time zone.
//!
//! The pattern is searched in civil time, which knows no zones. At a transition of the zone the
//! clocks are set forward or back, or the law changes. Between two transitions the offset stays,
//! so civil time and real time run alike. The search goes from one such stretch to the next. At
//! each transition it sees which civil times are left out, and which come again.

use super::policy::{Gap, Overlap};
use super::search::Search;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// What decides when something runs.
#[derive(Clone, Debug)]
pub(super) struct Occurrences {
    pub(super) search: Search,
    pub(super) zone: TimeZone,
    pub(super) gap: Gap,
    pub(super) overlap: Overlap,
}

impl Occurrences {
    /// The first occurrence after a point in time.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let search = &self.search;
        let mut offset = self.zone.to_offset(after);
        let mut found = search.after(offset.to_datetime(after));
        for transition in self.zone.following(after) {
            // The clock on the wall would show `end`, and shows `start`.
            let (end, start) = (
                offset.to_datetime(transition.timestamp()),
                transition.offset().to_datetime(transition.timestamp()),
            );
            while let Some(time) = found.filter(|&time| time < end) {
                if self.is_wanted(time, offset) {
                    return offset.to_timestamp(time).ok();
                }
                found = search.after(time);
            }
            if found.is_some_and(|time| time < start) {
                if self.gap == Gap::End {
                    return Some(transition.timestamp());
                }
                found = search.at_or_after(start);
            } else if start < end && self.overlap != Overlap::First {
                // The last civil time of all may come again here.
                found = search.at_or_after(start);
            }
            // A later transition goes back to no civil time before this one.
            found?;
            offset = transition.offset();
        }
        offset.to_timestamp(found?).ok()
    }

    /// Whether a civil time counts with this offset. At an overlap it has two.
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
