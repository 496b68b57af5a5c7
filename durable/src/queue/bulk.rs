//! Bulk: what a call asks for that changes many timers or dead letters, and how far it has come.

use super::counter::Counter;
use super::paging::Paged;
use crate::store::row::{Cause, DeadLetter, DurableId, Row, StoreTime};
use std::sync::Arc;
use std::time::Duration;

/// Which dead letters are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadFilter {
    pub(crate) kind: Option<Arc<str>>,
    /// The cause, whatever it says beside.
    pub(crate) cause: Option<std::mem::Discriminant<Cause>>,
    /// Letters that are dead since then, or later.
    pub(crate) since: StoreTime,
}

impl DeadFilter {
    pub(crate) fn takes(&self, letter: &DeadLetter) -> bool {
        let of = |cause: &Cause| std::mem::discriminant(cause);
        self.kind
            .as_ref()
            .is_none_or(|kind| *kind == letter.row.kind)
            && self.cause.is_none_or(|cause| cause == of(&letter.cause))
            && self.since <= letter.since
    }
}

/// By how much, or to when, timers are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shifted {
    Later(Duration),
    Sooner(Duration),
    To(StoreTime),
}

impl Shifted {
    /// When a row is due that is moved so.
    pub(crate) fn due_of(self, row: &Row) -> StoreTime {
        let due = row.wanted();
        match self {
            Self::Later(by) => due.after(by),
            Self::Sooner(by) => {
                let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                StoreTime::from_millis(due.as_millis().saturating_sub(millis))
            }
            Self::To(time) => time,
        }
    }
}

/// What is to be done with each timer, or each letter, and where to go on.
#[derive(Clone, Debug)]
pub(crate) enum BulkTask {
    /// They are due then.
    Revive(Option<DurableId>, DeadFilter, StoreTime),
    Discard(Option<DurableId>, DeadFilter),
    Move(Box<Paged>, Shifted),
}

/// How far a call has come.
#[derive(Debug, Default)]
pub(crate) struct BulkCounts {
    pub(crate) looked_at: Counter,
    pub(crate) changed: Counter,
}
