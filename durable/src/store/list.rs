//! List: what a look at many rows asks for, and what it has found.

use super::row::{DurableId, Position, Row};
use super::write::SliceLimit;
use std::collections::HashSet;
use std::sync::Arc;

/// Which rows a look is for. Without a part it is for all of them.
///
/// # Example
/// See [`Store::list`](crate::contract::Store::list).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Rows of this kind.
    pub kind: Option<Arc<str>>,
    /// Rows with a key that begins so.
    pub key_prefix: Option<Arc<str>>,
    /// Rows with a calendar alone.
    pub recurring: bool,
}

impl RowFilter {
    /// All rows.
    pub const ALL: Self = Self {
        kind: None,
        key_prefix: None,
        recurring: false,
    };

    /// Whether it is for all rows.
    pub const fn is_all(&self) -> bool {
        self.kind.is_none() && self.key_prefix.is_none() && !self.recurring
    }

    /// Whether it is for this row.
    pub fn takes(&self, row: &Row) -> bool {
        self.takes_parts(&row.kind, row.key.as_deref(), row.calendar.is_some())
    }

    /// Whether it is for a row of this kind, with this key, and with a calendar or without one.
    pub(crate) fn takes_parts(&self, kind: &str, key: Option<&str>, recurs: bool) -> bool {
        let is_kind = self.kind.as_ref().is_none_or(|wanted| **wanted == *kind);
        let prefix = self.key_prefix.as_ref();
        let has_prefix = |prefix: &Arc<str>| key.is_some_and(|key| key.starts_with(&**prefix));
        is_kind && prefix.is_none_or(has_prefix) && (recurs || !self.recurring)
    }

    /// Whether one of its texts has a zero byte, which no text of a database has.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_zero(&self) -> bool {
        let mut texts = [&self.kind, &self.key_prefix].into_iter().flatten();
        texts.any(|text| text.contains('\0'))
    }
}

/// A slice of a store's rows, as a look has found it.
///
/// # Example
/// See [`Store::list`](crate::contract::Store::list).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Rows that the filter takes, in the order of their positions.
    pub rows: Vec<Row>,
    /// How many rows were looked at, and their bytes, as far as they were read.
    pub looked_at: (usize, usize),
    /// Where to go on: all rows up to here were looked at. `None`: there are no more.
    pub next: Option<Position>,
}

impl Listed {
    /// Rows that a load of up to `limit` has returned.
    pub fn of(mut rows: Vec<Row>, limit: SliceLimit, filter: &RowFilter) -> Self {
        let looked_at = (rows.len(), rows.iter().map(Row::bytes).sum());
        let is_full = limit.is_reached(looked_at.0, looked_at.1);
        let next = rows.last().map(Row::position).filter(|_| is_full);
        rows.retain(|row| filter.takes(row));
        Self {
            rows,
            looked_at,
            next,
        }
    }

    /// Adds what was found in another part of the store. From where one of them has ended first,
    /// nothing is known of that part. A row that was found before, and has come to that part
    /// meanwhile, is there as it was found last.
    pub(crate) fn add(&mut self, other: Self) {
        if !self.rows.is_empty() && !other.rows.is_empty() {
            let found: HashSet<DurableId> = other.rows.iter().map(|row| row.id).collect();
            self.rows.retain(|row| !found.contains(&row.id));
        }
        self.rows.extend(other.rows);
        self.looked_at.0 += other.looked_at.0;
        self.looked_at.1 += other.looked_at.1;
        self.next = self.next.into_iter().chain(other.next).min();
        if let Some(end) = self.next {
            self.rows.retain(|row| row.shown_position() <= end);
        }
        self.rows.sort_by_key(Row::shown_position);
    }
}

/// In which state a timer is, for [`ListQuery::state`](crate::ListQuery::state). A timer is in one
/// of them.
///
/// # Example
/// See [`DurableClient::list_page`](crate::DurableClient::list_page).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerState {
    /// Its deadline is to come: the first one, or the one of its next attempt.
    Waiting,
    /// Its deadline is over, and this process has not begun with it: it is about to be handed out,
    /// or another node of the fleet has it.
    Due,
    /// This process has it: its handler does, or it waits for a place or a thread.
    Handled,
    /// A process may have ended while it was handled. It runs after the others, on trial.
    Suspect,
    /// It waits for a handler of its kind, is paused, or waits for a rate or a limit of calls,
    /// whatever its deadline is. [`Row::held`](crate::Row::held) says which.
    Held,
}
