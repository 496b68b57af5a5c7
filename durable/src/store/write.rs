//! Write: what a store is asked to change, and what has become of it.
//!
//! A change says what it names, and an outcome which rows it has ended or moved. So a store, or the
//! writer, that wants to know needs no list of all changes.

#[cfg(feature = "postgres")]
use super::row::Partition;
use super::row::{Cause, DurableId, Position, Row, StoreTime};
use std::sync::Arc;

/// Names a row.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By its id.
    Id(DurableId),
    /// By its key.
    Key(Arc<str>),
}

/// What became of a delivery. It names the row by id and by the deadline that it had when it was
/// handed out.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The row.
    pub id: DurableId,
    /// Its deadline.
    pub due: StoreTime,
    /// The epoch of the lease under which it was handed out.
    pub epoch: u64,
}

/// How much a call of a store takes at once: whichever of the two is reached first.
///
/// The row that reaches the bytes is the last one. So a slice has less than `bytes`, and one row
/// more.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::SliceLimit;
///
/// let limit = SliceLimit { rows: 10, bytes: 1_000 };
/// assert!(!limit.is_reached(1, 999));
/// assert!(limit.is_reached(10, 0) && limit.is_reached(1, 1_000));
/// assert!(!SliceLimit::rows(10).is_reached(9, usize::MAX - 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceLimit {
    /// The most rows. Zero: none.
    pub rows: usize,
    /// Bytes of payloads, kinds, keys and calendars, as [`Row::bytes`] counts them.
    pub bytes: usize,
}

impl SliceLimit {
    /// A limit of rows, however large they are.
    pub const fn rows(rows: usize) -> Self {
        let bytes = usize::MAX;
        Self { rows, bytes }
    }

    /// Whether a slice that has this is full.
    pub const fn is_reached(self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows || bytes >= self.bytes
    }
}

/// A part of a store in which the rows of a kind are cancelled.
///
/// A store has an order of its own for this, in which a row has one place for as long as its
/// deadline stays. [`Position::MIN`] is before all rows.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::{Gate, KindSlice, Outcome, Position, SliceLimit, Store, Write};
/// use wheelwork_durable::{DurableId, Memory, Row, StoreTime};
///
/// struct AllMayGo;
/// impl Gate for AllMayGo {
///     fn let_go(&mut self, _: DurableId) -> bool {
///         true
///     }
/// }
///
/// let mut store = Memory::new();
/// store.acquire()?;
/// let mut ids = Vec::new();
/// for millis in [1, 2, 3] {
///     let due = StoreTime::from_millis(millis);
///     ids.push(store.new_id(None, due));
///     let row = Row::new(ids[ids.len() - 1], due, "mail".into(), b"hello".as_slice().into());
///     store.commit(vec![Write::Arm(row)], &mut AllMayGo)?;
/// }
/// let slice = KindSlice {
///     kind: "mail".into(),
///     after: Position::MIN,
///     limit: SliceLimit::rows(2),
/// };
/// let outcomes = store.commit(vec![Write::CancelKind(slice.clone())], &mut AllMayGo)?;
/// let [Outcome::CancelledMany(gone, Some(after))] = &outcomes[..] else {
///     panic!("there is another row");
/// };
/// assert_eq!(gone, &ids[..2]);
/// let slice = KindSlice { after: *after, ..slice };
/// let outcomes = store.commit(vec![Write::CancelKind(slice)], &mut AllMayGo)?;
/// assert_eq!(outcomes, [Outcome::CancelledMany(vec![ids[2]], None)]);
/// # Ok::<(), wheelwork_durable::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSlice {
    /// The kind.
    pub kind: Arc<str>,
    /// Rows after this one are looked at, in the store's order.
    pub after: Position,
    /// How many rows are looked at, those of other kinds too.
    pub limit: SliceLimit,
}

impl KindSlice {
    /// All of the store.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::contract::{KindSlice, Position};
    ///
    /// assert_eq!(KindSlice::all("mail").after, Position::MIN);
    /// ```
    pub fn all(kind: &str) -> Self {
        Self {
            kind: kind.into(),
            after: Position::MIN,
            limit: SliceLimit::rows(usize::MAX),
        }
    }
}

/// A change that a store makes.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Write {
    /// Puts a row in. If another row has its key: that row goes, unless it was handed out. Then it
    /// is marked as superseded, and has no key any more. Outcome: [`Outcome::Armed`].
    Arm(Row),
    /// Deletes a row that was not handed out. One that was, and has a calendar, is struck: it is
    /// marked as superseded, and has no key any more. Outcome: [`Outcome::Cancelled`], with `None`
    /// if it was superseded before.
    Cancel(Target),
    /// Gives a row that was not handed out another deadline; its id stays. A suspect stays one.
    /// Outcome: [`Outcome::Moved`].
    Move(Target, StoreTime),
    /// As [`Cancel`](Self::Cancel), all rows of a kind in a part of the store. Outcome:
    /// [`Outcome::CancelledMany`], with those that are struck, too.
    CancelKind(KindSlice),
    /// Sets the crashes of a suspect, which stays one: one more, before it is handed out; or as
    /// many as before, if it was not handed out after all. A superseded row is deleted. Outcome:
    /// [`Outcome::Begun`].
    Begin {
        /// The row.
        of: Settled,
        /// Ends of a process that it is charged with.
        crashes: u32,
    },
    /// A handler has done its work: deletes the row, or moves it to its calendar's next run, with
    /// no attempts and no crashes. A superseded row is deleted. Outcome: [`Outcome::Settled`].
    Ack {
        /// The row.
        of: Settled,
        /// The calendar's next run.
        next: Option<StoreTime>,
    },
    /// A handler has failed: moves the row to `at` and sets its attempts and crashes; it is no
    /// suspect any more. A superseded row is deleted. Outcome: [`Outcome::Settled`], with the row
    /// unless it was deleted.
    Retry {
        /// The row.
        of: Settled,
        /// When it is to be tried again.
        at: StoreTime,
        /// Attempts so far.
        attempts: u32,
        /// Ends of a process that it is charged with.
        crashes: u32,
    },
    /// Makes a row a dead letter. If it has a calendar, it stays as well, due at `next` with no
    /// attempts and no crashes, and the dead letter is a copy with the id `copy`, without calendar
    /// and key. A superseded row is deleted. Outcome: [`Outcome::Settled`].
    Bury {
        /// The row.
        of: Settled,
        /// Why.
        cause: Cause,
        /// Since when it is dead.
        since: StoreTime,
        /// Attempts so far.
        attempts: u32,
        /// Ends of a process that it is charged with.
        crashes: u32,
        /// The calendar's next run, and the id of the copy.
        next: Option<(StoreTime, DurableId)>,
    },
    /// Makes a dead letter a row again, due at the given time, with no attempts, no crashes and no
    /// key.
    /// Outcome: [`Outcome::Revived`].
    Revive(DurableId, StoreTime),
    /// Deletes a dead letter. Outcome: [`Outcome::Discarded`].
    Discard(DurableId),
}

/// What has become of a [`Write`].
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The row is in. The row that went for it, if one did.
    Armed(Option<DurableId>),
    /// The row that is gone, or struck; `None`: there was none, or it was handed out.
    Cancelled(Option<DurableId>),
    /// The row as it is now; `None`: there was none, or it was handed out.
    Moved(Option<Row>),
    /// The rows that are gone or struck, and the last row that was looked at. `None`: there are no
    /// more rows behind it.
    CancelledMany(Vec<DurableId>, Option<Position>),
    /// What has become of the note that a suspect begins.
    Begun(TrialBegun),
    /// Whether it was done; `false`: the epoch is over, or the row is gone. The row as it is now,
    /// if it is still to fire.
    Settled(bool, Option<Row>),
    /// The row, if there was such a dead letter.
    Revived(Option<Row>),
    /// Whether there was such a dead letter.
    Discarded(bool),
    /// It was not made, and the others were. The writer tries it again: here it is. Of a store that
    /// others write to: somebody's transaction has locked what the change needs. Of one in a file:
    /// what a handler has said has to wait for room on the disk.
    Blocked(Box<Write>),
    /// The store refuses this change, and no other: why. It was not made, and the others were.
    Refused(Arc<str>),
}

/// What has become of a [`Write::Begin`].
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialBegun {
    /// Its crashes are stored.
    Noted,
    /// Another row has taken its key: it is deleted.
    Superseded,
    /// The epoch is over, or the row is gone.
    Refused,
}

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

impl Outcome {
    /// Whether the change was made: what it names was there, and might be changed.
    pub(crate) const fn is_made(&self) -> bool {
        match self {
            Self::Armed(_) | Self::CancelledMany(..) => true,
            Self::Cancelled(gone) => gone.is_some(),
            Self::Moved(row) | Self::Revived(row) => row.is_some(),
            Self::Begun(begun) => !matches!(begun, TrialBegun::Refused),
            Self::Settled(is_made, _) | Self::Discarded(is_made) => *is_made,
            Self::Blocked(_) | Self::Refused(_) => false,
        }
    }

    /// The row as it is now, if it got another deadline and is to fire.
    pub(crate) fn into_row(self) -> Option<Row> {
        match self {
            Self::Moved(row) | Self::Revived(row) | Self::Settled(_, row) => row,
            _ => None,
        }
    }

    /// The rows that it has ended or moved.
    pub(crate) fn rows(&self) -> impl Iterator<Item = DurableId> {
        let (one, many): (_, &[DurableId]) = match self {
            Self::Armed(id) | Self::Cancelled(id) => (*id, &[]),
            Self::CancelledMany(ids, _) => (None, ids),
            Self::Moved(row) | Self::Revived(row) | Self::Settled(_, row) => {
                (row.as_ref().map(|row| row.id), &[])
            }
            Self::Discarded(_) | Self::Begun(_) | Self::Blocked(_) | Self::Refused(_) => {
                (None, &[])
            }
        };
        one.into_iter().chain(many.iter().copied())
    }
}
