//! Done: a run that has ended well, as a store keeps it for a time.

use super::row::{DurableId, StoreTime};
use std::sync::Arc;
use std::time::Duration;

/// A run of a timer that is done: its record, which a program with
/// [`keep_done`](crate::DurableBuilder::keep_done) keeps. The payload is not kept.
///
/// # Example
/// See [`DurableClient::done_page`](crate::DurableClient::done_page).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoneTimer {
    /// The timer. All runs of a calendar have one id.
    pub id: DurableId,
    /// When this run was due. A retry's time, if it was one: [`DurableId::first_due`] has the first
    /// deadline.
    pub due: StoreTime,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its key, as its handler got it.
    pub key: Option<Arc<str>>,
    /// When its handler was called. `None`: no handler was.
    pub began: Option<StoreTime>,
    /// When its handler had answered, by the store's clock.
    pub ended: StoreTime,
    /// How long the last attempt took, by the node's monotonic clock, in whole microseconds. A
    /// timer of a batch has the time of the batch.
    pub took: Duration,
    /// Attempts: those that have failed, and the last one. Calls that said `Later`, that were made
    /// again after a conflict, or during which a process ended, do not count.
    pub attempts: u32,
    /// How often a process has ended while the timer was on trial.
    pub crashes: u32,
    /// The node that has handled it, by its name in the [fleet](crate::DurableClient::fleet). Empty
    /// where one process has the store for itself.
    pub node: Arc<str>,
    /// How it has ended.
    pub ending: DoneEnding,
}

/// How a run has ended that is done.
///
/// # Example
/// See [`DurableClient::done_page`](crate::DurableClient::done_page).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DoneEnding {
    /// Its handler has said `Ok`.
    Done,
    /// It was too late for this run of a calendar, so no handler was called.
    LeftOut,
    /// In a way that a later version of this library has stored, and that this version does not
    /// know.
    Other,
}

#[cfg(any(feature = "redb", feature = "postgres"))]
impl DoneEnding {
    /// Its number in a store. A number has one meaning for ever, and no ending gets 255. A new one
    /// raises no floor: a program that does not know it shows it as `Other`.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::LeftOut => 1,
            Self::Other => u8::MAX,
        }
    }

    /// The ending of this number.
    pub(crate) const fn of_number(number: u64) -> Self {
        match number {
            0 => Self::Done,
            1 => Self::LeftOut,
            _ => Self::Other,
        }
    }
}

impl DoneTimer {
    /// A record of a run that took no time, at its first attempt, without a key and a node.
    #[doc(hidden)]
    pub fn new(id: DurableId, due: StoreTime, kind: Arc<str>, ended: StoreTime) -> Self {
        Self {
            id,
            due,
            kind,
            key: None,
            began: Some(ended),
            ended,
            took: Duration::ZERO,
            attempts: 1,
            crashes: 0,
            node: "".into(),
            ending: DoneEnding::Done,
        }
    }

    /// Where it stands in the order of records.
    #[doc(hidden)]
    pub fn place(&self) -> DonePlace {
        DonePlace {
            ended: self.ended,
            id: self.id,
            due: self.due,
        }
    }

    /// Bytes of its texts, and of its numbers about.
    pub(crate) fn bytes(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.len());
        64 + self.kind.len() + key + self.node.len()
    }
}

/// A place in the order in which runs have ended.
///
/// # Example
/// See [`DoneStore`](crate::contract::DoneStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DonePlace {
    /// When the run has ended.
    pub ended: StoreTime,
    /// Among those of one millisecond, the timer.
    pub id: DurableId,
    /// Among runs of one timer, when it was due.
    pub due: StoreTime,
}

impl DonePlace {
    /// Before all records.
    pub const MIN: Self = Self {
        ended: StoreTime::MIN,
        id: DurableId::from_bits(0),
        due: StoreTime::MIN,
    };

    /// After all records that have ended by then.
    pub const fn end_of(ended: StoreTime) -> Self {
        Self {
            ended,
            id: DurableId::from_bits(u128::MAX),
            due: StoreTime::MAX,
        }
    }

    /// Before all records that have ended then or later.
    pub const fn begin_of(ended: StoreTime) -> Self {
        match ended.as_millis() {
            0 => Self::MIN,
            millis => Self::end_of(StoreTime::from_millis(millis - 1)),
        }
    }
}

/// Which records are to be read, and in which order.
///
/// # Example
/// See [`DoneStore`](crate::contract::DoneStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneRange {
    /// Those behind this place.
    pub above: DonePlace,
    /// Those before this place.
    pub below: DonePlace,
    /// The last one comes first.
    pub newest_first: bool,
}

impl DoneRange {
    /// All, the first one first.
    pub const ALL: Self = Self {
        above: DonePlace::MIN,
        below: DonePlace::end_of(StoreTime::MAX),
        newest_first: false,
    };

    /// What is left of it behind this record.
    #[must_use]
    pub(crate) fn behind(mut self, place: DonePlace) -> Self {
        if self.newest_first {
            self.below = self.below.min(place);
        } else {
            self.above = self.above.max(place);
        }
        self
    }

    /// Whether a place comes before another one in this order, or is that one.
    pub(crate) fn is_upto(&self, place: DonePlace, last: DonePlace) -> bool {
        match self.newest_first {
            true => place >= last,
            false => place <= last,
        }
    }

    /// Whether no record is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.above >= self.below
    }
}

/// Records that were read.
///
/// # Example
/// See [`DoneStore`](crate::contract::DoneStore).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneListed {
    /// In the order that was asked for.
    pub done: Vec<DoneTimer>,
    /// Where records between them are left out, because this program cannot read them.
    pub unreadable: Vec<DonePlace>,
    /// Where to go on: all records up to here were read. `None`: there are no more.
    pub next: Option<DonePlace>,
}

/// What was removed of records.
///
/// # Example
/// See [`DoneStore`](crate::contract::DoneStore).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoneForgotten {
    /// There may be more to remove.
    pub has_more: bool,
    /// When the first one that is left has ended, if that is known without a search.
    pub oldest: Option<StoreTime>,
}
