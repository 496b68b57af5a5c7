//! Names: what a change names, and what it puts in. So a store, or the writer, that wants to know
//! needs no list of all changes.

#[cfg(feature = "postgres")]
use super::contract::{Outcome, TrialBegun};
use super::contract::{Settled, Target, Write};
use super::row::DurableId;
#[cfg(feature = "postgres")]
use super::row::{Partition, StoreTime};
use std::sync::Arc;

impl Write {
    /// The row that it names by its id.
    pub(crate) fn names_row(&self) -> Option<DurableId> {
        match self {
            Self::Cancel(Target::Id(id)) | Self::Move(Target::Id(id), _) => Some(*id),
            _ => self.settles().map(|of| of.id),
        }
    }

    /// The key that it names, or takes.
    pub(crate) fn names_key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Arm(row) => row.key.as_ref(),
            Self::Cancel(Target::Key(key)) | Self::Move(Target::Key(key), _) => Some(key),
            _ => None,
        }
    }

    /// The dead letter that it names.
    pub(crate) const fn names_dead(&self) -> Option<DurableId> {
        match self {
            Self::Revive(id, _) | Self::Discard(id) => Some(*id),
            _ => None,
        }
    }

    /// The row that was handed out, or is about to be, of which it says what becomes of it.
    pub(crate) const fn settles(&self) -> Option<&Settled> {
        match self {
            Self::Begin { of, .. }
            | Self::Ack { of, .. }
            | Self::Retry { of, .. }
            | Self::Bury { of, .. } => Some(of),
            _ => None,
        }
    }
}

/// What the store asks that sorts the changes of a commit into statements.
#[cfg(feature = "postgres")]
impl Write {
    /// The row, or the dead letter, that it puts in under a new id.
    pub(crate) fn puts(&self) -> Option<DurableId> {
        match self {
            Self::Arm(row) => Some(row.id),
            Self::Bury { next, .. } => next.map(|(_, copy)| copy),
            _ => None,
        }
    }

    /// The deadline that it gives to a row that was not handed out.
    pub(crate) const fn sets_due(&self) -> Option<StoreTime> {
        match self {
            Self::Arm(row) => Some(row.due),
            Self::Move(_, due) | Self::Revive(_, due) => Some(*due),
            _ => None,
        }
    }

    /// The partition of what it names or puts in. A store knows that of a key. `None`: it is for a
    /// whole kind.
    pub(crate) fn partition(&self, of_key: impl Fn(&str) -> Partition) -> Option<Partition> {
        let id = self.names_row().or(self.names_dead()).or(self.puts());
        id.map(DurableId::partition)
            .or_else(|| self.names_key().map(|key| of_key(key)))
    }

    /// The texts that it names or stores, but for payloads and causes.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (kind, calendar) = match self {
            Self::Arm(row) => (Some(&row.kind), row.calendar.as_ref()),
            Self::CancelKind(slice) => (Some(&slice.kind), None),
            _ => (None, None),
        };
        let texts = [kind, calendar, self.names_key()];
        texts.into_iter().flatten().map(|text| &**text)
    }

    /// Its outcome, where what it names is not there, or may not be changed.
    pub(crate) fn unchanged(&self) -> Outcome {
        match self {
            Self::Arm(_) => Outcome::Armed(None),
            Self::Cancel(_) => Outcome::Cancelled(None),
            Self::Move(..) => Outcome::Moved(None),
            Self::CancelKind(_) => Outcome::CancelledMany(Vec::new(), None),
            Self::Begin { .. } => Outcome::Begun(TrialBegun::Refused),
            Self::Ack { .. } | Self::Retry { .. } | Self::Bury { .. } => {
                Outcome::Settled(false, None)
            }
            Self::Revive(..) => Outcome::Revived(None),
            Self::Discard(_) => Outcome::Discarded(false),
        }
    }
}
