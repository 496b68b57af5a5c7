//! Write: a change that a store is asked to make, and its outcome.
//!
//! A change has methods that say which row, key or dead letter it names. An outcome has methods
//! that say which rows were ended or moved. So stores and the writer need not match all kinds of
//! changes.

use super::done::DoneTimer;
use super::fault::{DurableFault, is_broken};
#[cfg(feature = "postgres")]
use super::row::Partition;
use super::row::{Cause, DurableId, HeldWhy, Position, Row, StoreTime};
use super::rule::{RuleChange, RuleFor};
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

/// A row that is armed if its key is as the caller has read it.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The new row.
    pub row: Row,
    /// The row that had the key. `None`: no row had it.
    pub former: Option<DurableId>,
}

impl Replacement {
    /// Whether the row that has the key is the one that the caller has read.
    pub(crate) fn is_for(&self, holder: Option<DurableId>) -> bool {
        holder == self.former || is_broken(DurableFault::ReplacedUnseen)
    }
}

/// What a row with a calendar has from now on. It keeps its id.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amendment {
    /// The row.
    pub id: DurableId,
    /// Its calendar.
    pub calendar: Arc<str>,
    /// Its payload.
    pub payload: Arc<[u8]>,
    /// The trace in which it was armed.
    pub trace: Option<Arc<str>>,
    /// Its deadline, as the caller has read it. Of a held row it may be the one that it had before.
    pub former_due: StoreTime,
    /// The deadline that it gets. If that is `former_due`, the row keeps the one that it has.
    pub due: StoreTime,
}

impl Amendment {
    /// Whether the row gets another deadline.
    pub(crate) fn moves(&self) -> bool {
        self.due != self.former_due
    }

    /// Whether a row that is due then may be moved: it is due when the caller has read it.
    pub(crate) fn may_move(&self, due: StoreTime) -> bool {
        let is_same = due == self.former_due || due == self.former_due.held();
        is_same || is_broken(DurableFault::AmendedUnseen)
    }

    /// Gives the row its payload and calendar.
    pub(crate) fn amend(&self, row: &mut Row) {
        row.payload = self.payload.clone();
        row.calendar = Some(self.calendar.clone());
        row.set_traceparent(self.trace.clone());
    }

    /// Bytes of the row that it brings.
    pub fn bytes(&self) -> usize {
        let trace = self.trace.as_ref().map_or(0, |trace| trace.len());
        self.payload.len() + self.calendar.len() + trace
    }
}

/// How much a call of a store takes at once. A slice ends when either limit is reached.
///
/// The row that reaches `bytes` is the last one of the slice. So all rows before it have fewer than
/// `bytes` together.
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
    /// The most rows. With zero a slice has no row.
    pub rows: usize,
    /// Bytes of payloads, kinds, keys, calendars and traces, as [`Row::bytes`] counts them.
    pub bytes: usize,
}

impl SliceLimit {
    /// A limit of rows, however large they are.
    pub const fn rows(rows: usize) -> Self {
        let bytes = usize::MAX;
        Self { rows, bytes }
    }

    /// Whether a slice with this many rows and bytes is full.
    pub const fn is_reached(self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows || bytes >= self.bytes
    }
}

/// A part of a store in which the rows of a kind are cancelled.
///
/// A store has an order of its own for this. In it a row keeps its place as long as its deadline
/// does not change. [`Position::MIN`] is before all rows.
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
    /// The store looks at the rows after this one, in its order.
    pub after: Position,
    /// How many rows the store looks at, including those of other kinds.
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
    /// Puts a row in. If another row has its key, that row is deleted, unless it was handed out. A
    /// row that was handed out loses its key, and is marked as superseded. Outcome:
    /// [`Outcome::Armed`].
    Arm(Row),
    /// Does what [`Arm`](Self::Arm) does, if the key has the row that is named, or none. Outcome:
    /// [`Outcome::Replaced`].
    Replace(Box<Replacement>),
    /// Gives a row another payload and calendar, whether it was handed out or not. If it is to have
    /// another deadline, nothing is changed if it was handed out, or is not due when it was read.
    /// Outcome: [`Outcome::Amended`].
    Amend(Box<Amendment>),
    /// Deletes a row that was not handed out. A row that was handed out and has a calendar is
    /// struck: it loses its key, and is marked as superseded. Outcome: [`Outcome::Cancelled`], with
    /// `None` if the row was superseded before.
    Cancel(Target),
    /// Gives a row that was not handed out another deadline. Its id stays, and a suspect stays a
    /// suspect. A row that was [held](Row::held) is held no more. Outcome: [`Outcome::Moved`].
    Move(Target, StoreTime),
    /// Does what [`Cancel`](Self::Cancel) does to all rows of a kind in a part of the store.
    /// Outcome: [`Outcome::CancelledMany`], which includes the rows that are struck.
    CancelKind(KindSlice),
    /// Sets the number of crashes of a suspect, which stays a suspect. Before the row is handed
    /// out, the writer sets one more than the row has. If the row was not handed out after all, the
    /// writer sets the former number again. A superseded row is deleted. Outcome:
    /// [`Outcome::Begun`].
    Begin {
        /// The row.
        of: Settled,
        /// How many ends of a process the row is charged with.
        crashes: u32,
    },
    /// A handler has done its work. Deletes the row, or moves it to its calendar's next run and
    /// sets its attempts and crashes to zero. A superseded row is deleted. Outcome:
    /// [`Outcome::Settled`].
    Ack {
        /// The row.
        of: Settled,
        /// The calendar's next run.
        next: Option<StoreTime>,
    },
    /// Does what [`Ack`](Self::Ack) does, and keeps a record of the run if it has: a run that is
    /// not acknowledged leaves none. A store without room may leave the record out. For stores
    /// with [`done`](crate::contract::Store::done) alone. Outcome: [`Outcome::Settled`].
    AckKept {
        /// The row.
        of: Settled,
        /// The calendar's next run.
        next: Option<StoreTime>,
        /// The record.
        kept: Box<DoneTimer>,
    },
    /// A handler has failed. Moves the row to `at`, and sets its attempts and crashes. The row is
    /// no longer a suspect. A superseded row is deleted. Outcome: [`Outcome::Settled`], with the
    /// row unless it was deleted.
    Retry {
        /// The row.
        of: Settled,
        /// When it is to be tried again.
        at: StoreTime,
        /// Attempts so far.
        attempts: u32,
        /// How many ends of a process the row is charged with.
        crashes: u32,
    },
    /// Holds a row that was handed out, or could be: nobody hands it out until it is moved. It goes
    /// behind all rows that are not held, in the order of deadlines. Its attempts and crashes stay,
    /// and it is no longer a suspect. A row that is held already gets another reason. A row that is
    /// due after the year 6429 is not held. A superseded row is deleted. Outcome:
    /// [`Outcome::Settled`].
    #[doc(hidden)]
    Hold {
        /// The row.
        of: Settled,
        /// Why it is held.
        why: HeldWhy,
        /// Since when it is held.
        since: StoreTime,
    },
    /// Makes a row a dead letter. A held row has the deadline then that it had before. If the row
    /// has a calendar and a next run, `next` has the run's deadline and an id. Then the row stays,
    /// due at that deadline, with no attempts and no crashes. The dead letter is a copy with that
    /// id, without calendar and key. A superseded row is deleted. Outcome: [`Outcome::Settled`].
    Bury {
        /// The row.
        of: Settled,
        /// Why it becomes a dead letter.
        cause: Cause,
        /// Since when it is dead.
        since: StoreTime,
        /// Attempts so far.
        attempts: u32,
        /// How many ends of a process the row is charged with.
        crashes: u32,
        /// The calendar's next run, and the id of the dead letter.
        next: Option<(StoreTime, DurableId)>,
    },
    /// Makes a dead letter a row again, due at the given time, with no attempts, no crashes and no
    /// key. Outcome: [`Outcome::Revived`].
    Revive(DurableId, StoreTime),
    /// Deletes a dead letter. Outcome: [`Outcome::Discarded`].
    Discard(DurableId),
    /// Changes a part of a rule. A rule without a part is deleted. Refused if there can be no such
    /// rule, or if there are 1,000. Outcome: [`Outcome::Ruled`].
    Rule(RuleFor, RuleChange),
}

/// What has become of a [`Write`].
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The row is stored. The id is that of the row that was deleted for it, if there was one.
    Armed(Option<DurableId>),
    /// Whether the row is stored: `false` if the key has another row. Then the id of the row that
    /// was deleted for it, if there was one.
    Replaced(bool, Option<DurableId>),
    /// Whether the row was changed. Then the row as it is now, if it was not handed out.
    Amended(bool, Option<Row>),
    /// The row that was deleted or struck. `None` if there was none, or if it could not be
    /// cancelled any more.
    Cancelled(Option<DurableId>),
    /// The row as it is now. `None` if there was none, or if it was handed out.
    Moved(Option<Row>),
    /// The rows that were deleted or struck, and the position of the last row that the store looked
    /// at. In place of the position `None` if no rows come after that one.
    CancelledMany(Vec<DurableId>, Option<Position>),
    /// What has become of a [`Write::Begin`].
    Begun(TrialBegun),
    /// Whether the change was made: `false` if the epoch is over, or the row is gone. Then the row
    /// as it is now, if it is still to fire.
    Settled(bool, Option<Row>),
    /// The row as it is now, if there was such a dead letter.
    Revived(Option<Row>),
    /// Whether there was such a dead letter.
    Discarded(bool),
    /// Whether the rule was another one before.
    Ruled(bool),
    /// This change was not made, and the others were. The writer gets the change back, and tries it
    /// again. In a store to which others write, another transaction has locked what the change
    /// needs. In a store in a file, a change that a handler has asked for waits for room on the
    /// disk.
    Blocked(Box<Write>),
    /// The same, but the store has not tried this change by itself, since others of the commit that
    /// are blocked have taken long enough. The writer tries it before those.
    PutOff(Box<Write>),
    /// The store refuses this change, and says why. The change was not made, and the others were.
    Refused(Arc<str>),
}

/// What has become of a [`Write::Begin`].
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialBegun {
    /// The row's crashes are stored.
    Noted,
    /// Another row had taken its key, so the row is deleted.
    Superseded,
    /// The epoch is over, or the row is gone.
    Refused,
}

impl Write {
    /// The acknowledgement of a run, of which a record may be kept.
    pub(crate) fn ack(
        of: Settled,
        next: Option<StoreTime>,
        record: Option<Box<DoneTimer>>,
    ) -> Self {
        match record.filter(|_| !is_broken(DurableFault::DoneLost)) {
            None => Self::Ack { of, next },
            Some(kept) => Self::AckKept { of, next, kept },
        }
    }

    /// The row that it names by its id.
    pub(crate) fn names_row(&self) -> Option<DurableId> {
        match self {
            Self::Cancel(Target::Id(id)) | Self::Move(Target::Id(id), _) => Some(*id),
            Self::Amend(of) => Some(of.id),
            _ => self.settles().map(|of| of.id),
        }
    }

    /// The key that it names, or takes.
    pub(crate) fn names_key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Arm(row) => row.key.as_ref(),
            Self::Replace(of) => of.row.key.as_ref(),
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

    /// The row that the change names, if it is a change of a row that was handed out or is about to
    /// be.
    pub(crate) const fn settles(&self) -> Option<&Settled> {
        match self {
            Self::Begin { of, .. }
            | Self::Ack { of, .. }
            | Self::AckKept { of, .. }
            | Self::Retry { of, .. }
            | Self::Hold { of, .. }
            | Self::Bury { of, .. } => Some(of),
            _ => None,
        }
    }
}

/// For the store that sorts the changes of a commit into statements.
#[cfg(feature = "postgres")]
impl Write {
    /// The new id under which it puts in a row or a dead letter.
    pub(crate) fn puts(&self) -> Option<DurableId> {
        match self {
            Self::Arm(row) => Some(row.id),
            Self::Replace(of) => Some(of.row.id),
            Self::Bury { next, .. } => next.map(|(_, copy)| copy),
            _ => None,
        }
    }

    /// The deadline that it gives to a row that was not handed out.
    pub(crate) fn sets_due(&self) -> Option<StoreTime> {
        match self {
            Self::Arm(row) => Some(row.due),
            Self::Replace(of) => Some(of.row.due),
            Self::Amend(of) => of.moves().then_some(of.due),
            Self::Move(_, due) | Self::Revive(_, due) => Some(*due),
            _ => None,
        }
    }

    /// The partition of what it names or puts in. `of_key` returns the partition of a key. `None`
    /// if the change is for a whole kind, or of a rule.
    pub(crate) fn partition(&self, of_key: impl Fn(&str) -> Partition) -> Option<Partition> {
        let id = self.names_row().or(self.names_dead()).or(self.puts());
        id.map(DurableId::partition)
            .or_else(|| self.names_key().map(|key| of_key(key)))
    }

    /// The texts that it names or stores, except payloads and causes.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (kind, calendar) = match self {
            Self::Arm(row) => (Some(&row.kind), row.calendar.as_ref()),
            Self::Replace(of) => (Some(&of.row.kind), of.row.calendar.as_ref()),
            Self::Amend(of) => (None, Some(&of.calendar)),
            Self::CancelKind(slice) => (Some(&slice.kind), None),
            Self::Rule(of, _) => (Some(of.text()), None),
            Self::AckKept { kept, .. } => (Some(&kept.kind), kept.key.as_ref()),
            _ => (None, None),
        };
        let texts = [kind, calendar, self.names_key()];
        texts.into_iter().flatten().map(|text| &**text)
    }

    /// Its outcome if what it names is not there, or may not be changed.
    pub(crate) fn unchanged(&self) -> Outcome {
        match self {
            Self::Arm(_) => Outcome::Armed(None),
            Self::Replace(_) => Outcome::Replaced(false, None),
            Self::Amend(_) => Outcome::Amended(false, None),
            Self::Cancel(_) => Outcome::Cancelled(None),
            Self::Move(..) => Outcome::Moved(None),
            Self::CancelKind(_) => Outcome::CancelledMany(Vec::new(), None),
            Self::Begin { .. } => Outcome::Begun(TrialBegun::Refused),
            Self::Ack { .. }
            | Self::AckKept { .. }
            | Self::Retry { .. }
            | Self::Hold { .. }
            | Self::Bury { .. } => Outcome::Settled(false, None),
            Self::Revive(..) => Outcome::Revived(None),
            Self::Discard(_) => Outcome::Discarded(false),
            Self::Rule(..) => Outcome::Ruled(false),
        }
    }
}

impl Outcome {
    /// Whether the change was made: what it names was there, and could be changed.
    pub(crate) const fn is_made(&self) -> bool {
        match self {
            Self::Armed(_) | Self::CancelledMany(..) => true,
            Self::Cancelled(gone) => gone.is_some(),
            Self::Moved(row) | Self::Revived(row) => row.is_some(),
            Self::Begun(begun) => !matches!(begun, TrialBegun::Refused),
            Self::Settled(is_made, _)
            | Self::Amended(is_made, _)
            | Self::Replaced(is_made, _)
            | Self::Discarded(is_made)
            | Self::Ruled(is_made) => *is_made,
            Self::Blocked(_) | Self::PutOff(_) | Self::Refused(_) => false,
        }
    }

    /// Whether the change was not made, and is to be tried again.
    pub(crate) const fn is_held_up(&self) -> bool {
        matches!(self, Self::Blocked(_) | Self::PutOff(_))
    }

    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// The row as it is now, if it got another deadline, or was amended, and is to fire.
    pub(crate) fn into_row(self) -> Option<Row> {
        match self {
            Self::Moved(row)
            | Self::Revived(row)
            | Self::Amended(_, row)
            | Self::Settled(_, row) => row,
            _ => None,
        }
    }

    /// The rows that the change has ended, moved or amended.
    pub(crate) fn rows(&self) -> impl Iterator<Item = DurableId> {
        let (one, many): (_, &[DurableId]) = match self {
            Self::Armed(id) | Self::Replaced(_, id) | Self::Cancelled(id) => (*id, &[]),
            Self::CancelledMany(ids, _) => (None, ids),
            Self::Moved(row)
            | Self::Revived(row)
            | Self::Amended(_, row)
            | Self::Settled(_, row) => (row.as_ref().map(|row| row.id), &[]),
            Self::Discarded(_)
            | Self::Ruled(_)
            | Self::Begun(_)
            | Self::Blocked(_)
            | Self::PutOff(_)
            | Self::Refused(_) => (None, &[]),
        };
        one.into_iter().chain(many.iter().copied())
    }
}
