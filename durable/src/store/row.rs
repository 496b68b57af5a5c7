//! Row: a durable timer as a store has it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A point in time by the store's clock, in milliseconds since the Unix epoch.
///
/// Deadlines round up to a millisecond, readings of the clock round down, so no timer fires early.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork_durable::StoreTime;
///
/// let due = StoreTime::due_at(SystemTime::UNIX_EPOCH + Duration::from_micros(1_500));
/// assert_eq!(due, StoreTime::from_millis(2));
/// assert_eq!(due.since(StoreTime::from_millis(1)), Duration::from_millis(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(u64);

impl StoreTime {
    /// The Unix epoch. All rows are due after it, or at it.
    pub const MIN: Self = Self(0);

    /// The last time that a store can hold, 8,900 years from the epoch. Later deadlines are moved
    /// to it.
    pub const MAX: Self = Self((1 << 48) - 1);

    /// From here on no row falls due, for it is the year 6429. A [held](Row::held) row is due at
    /// its deadline after this, so it stays in the order of deadlines, behind all others.
    const HELD_BASE: Self = Self(1 << 47);

    /// The time this number of milliseconds after the Unix epoch, at most [`MAX`](Self::MAX).
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// A deadline: the first millisecond at or after `time`. Times before the epoch are the epoch.
    pub fn due_at(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::MIN.after(since)
    }

    /// A reading of a clock: the last millisecond at or before `time`.
    pub fn reading(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The first millisecond at or after `delay` from here.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let millis = u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// How much later this is than `earlier`; zero, if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The deadline of a held row that wants this one. Of a held row, its own.
    pub(crate) const fn held(self) -> Self {
        if self.is_held() {
            self
        } else {
            Self(self.0 + Self::HELD_BASE.0)
        }
    }

    /// The deadline that a held row wants.
    const fn unheld(self) -> Self {
        Self(self.0.saturating_sub(Self::HELD_BASE.0))
    }

    /// Whether a row that is due then may be held.
    pub(crate) const fn is_held(self) -> bool {
        self.0 >= Self::HELD_BASE.0
    }

    /// This time for other libraries.
    pub fn system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.0)
    }
}

/// A part of a store that one node owns at a time. A store for one process has one, number 0.
///
/// # Example
/// See [`DurableId`].
pub type Partition = u16;

/// Names a durable timer for ever: in all processes, and after it has ended. Files have no ids in
/// common, but by a chance of one in many billions. A copy of a file that is restored may give an
/// id again: if `N` timers were armed since the copy was made, and the restored store arms `K`, the
/// chance is about `N + K` in 2^32 (1 % after 43 million).
///
/// An id that is stored elsewhere, as text or as bits, names the timer after a restart too.
/// Keys ([`DurableClient::key`](crate::DurableClient::key)) are names of your own.
///
/// # Example
/// ```
/// use wheelwork_durable::DurableId;
///
/// let id = DurableId::from_bits(0x2a);
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurableId(u128);

impl DurableId {
    /// An id of a row: its partition, the time at which it was due first, and a number that no
    /// other row of the partition has.
    #[doc(hidden)]
    pub const fn new(partition: Partition, first_due: StoreTime, number: u64) -> Self {
        Self((partition as u128) << 112 | (first_due.0 as u128) << 64 | number as u128)
    }

    /// The partition in which the row is.
    pub const fn partition(self) -> Partition {
        (self.0 >> 112) as Partition
    }

    /// When the row was due first. It may have been moved since.
    pub const fn first_due(self) -> StoreTime {
        StoreTime((self.0 >> 64) as u64 & StoreTime::MAX.0)
    }

    /// The number of the row in its partition.
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// The id as a number, to be stored elsewhere.
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// The id that [`to_bits`](Self::to_bits) gave. Any number is an id; most name no timer.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for DurableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for DurableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableId({self})")
    }
}

/// A text that is no [`DurableId`].
///
/// # Example
/// See [`DurableId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseIdError;

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of a durable timer has 32 hexadecimal digits")
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for DurableId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseIdError);
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| ParseIdError)
    }
}

/// As its text where people read it (JSON), since many programs keep no number of 128 bits;
/// elsewhere its [bits](DurableId::to_bits), a `u128`.
#[cfg(feature = "serde")]
impl serde::Serialize for DurableId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u128(self.to_bits())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for DurableId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(IdVisitor)
        } else {
            deserializer.deserialize_u128(IdVisitor)
        }
    }
}

/// Reads an id from its text or its bits.
#[cfg(feature = "serde")]
struct IdVisitor;

#[cfg(feature = "serde")]
impl serde::de::Visitor<'_> for IdVisitor {
    type Value = DurableId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of a durable timer, as 32 hexadecimal digits in a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DurableId, E> {
        let wrong = |_| E::invalid_value(serde::de::Unexpected::Str(text), &self);
        text.parse().map_err(wrong)
    }

    fn visit_u128<E: serde::de::Error>(self, bits: u128) -> Result<DurableId, E> {
        Ok(DurableId::from_bits(bits))
    }
}

/// A durable timer as a store has it.
///
/// # Example
/// See [`DurableClient::get`](crate::DurableClient::get).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub id: DurableId,
    /// When it is to fire.
    pub due: StoreTime,
    /// Which handler gets it.
    pub kind: Arc<str>,
    /// The key by which it can be found. At most one row of a store has a key, but for rows that
    /// are [superseded](Self::superseded).
    pub key: Option<Arc<str>>,
    /// What the handler gets.
    pub payload: Arc<[u8]>,
    /// Deliveries that have failed: the handler failed or gave the timer up, or the payload could
    /// not be read. A wait for a handler of its kind counts none.
    pub attempts: u32,
    /// How often a process has ended while the timer was on trial, as a suspect. From shortly
    /// before a trial until the timer is settled it is one more: a crash is noted before the call.
    pub crashes: u32,
    /// A process has ended, and may have been handling the timer then: it was due by the watermark
    /// of an epoch that did not end well, and has not been settled since. Such a timer runs after
    /// the others, on trial.
    pub suspect: bool,
    /// A calendar, as text. When the row is acknowledged, it stays, due at the calendar's next run.
    pub calendar: Option<Arc<str>>,
    /// It was handed out when another row took its key, or when it was cancelled; then it has a
    /// calendar. It is not delivered again.
    pub superseded: bool,
    /// What few rows have. `None`, and not a value without parts, if there is nothing.
    more: Option<Box<RowMore>>,
}

/// What few rows have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowMore {
    /// The mark of a row that is held. Without a deadline that is, it means nothing.
    pub(crate) held: Option<Held>,
    /// The row is shown to a caller, with its own deadline, and this is its mark. Never stored.
    pub(crate) shown: Option<Held>,
    pub(crate) expires: Option<StoreTime>,
    /// In milliseconds, as [`RowMore::is_limit`] has it.
    pub(crate) limit_ms: Option<u64>,
    /// As [`RowMore::is_trace`] has it.
    pub(crate) trace: Option<Arc<str>>,
}

/// That a timer is held: nobody hands it out, whatever its deadline.
///
/// # Example
/// See [`Row::held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Why.
    pub why: HeldWhy,
    /// Since when.
    pub since: StoreTime,
}

/// Why a timer is held.
///
/// # Example
/// See [`Row::held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldWhy {
    /// No node that could hand it out has a handler of its kind.
    Unhandled,
    /// Its kind is paused, or all timers are whose key begins as its own
    /// ([`Ruled::pause`](crate::Ruled::pause)).
    Paused,
    /// It waits for a rate ([`Ruled::set_rate`](crate::Ruled::set_rate)) or a limit of calls
    /// ([`Ruled::set_calls`](crate::Ruled::set_calls)).
    Limited,
}

/// The longest trace, in bytes. That of W3C's version 00 has 55, and later ones may have more.
const TRACE_MAX: usize = 128;

/// A time limit in milliseconds: rounded up, one at least, and at most as many as
/// [`StoreTime::MAX`] has.
pub(crate) fn limit_ms(limit: Duration) -> u64 {
    StoreTime::MIN.after(limit).0.max(1)
}

/// Whether a calendar's text sets an offset. Programs that know files of format 3 and schemas of
/// number 3 cannot read such a text, and would make a dead letter of its row.
#[cfg(any(feature = "redb", feature = "postgres"))]
pub(crate) fn has_offset(calendar: &str) -> bool {
    let mut settings = calendar.split(';').skip(1);
    settings.any(|setting| setting.trim_start().starts_with("offset"))
}

impl RowMore {
    /// Whether a row may have this time limit, in milliseconds. Each store can keep it.
    #[cfg(any(feature = "redb", feature = "postgres"))]
    pub(crate) const fn is_limit(millis: u64) -> bool {
        0 < millis && millis <= StoreTime::MAX.0
    }

    /// Whether a row may have this trace. Each store, and each header, can keep it.
    pub(crate) fn is_trace(trace: &str) -> bool {
        (1..=TRACE_MAX).contains(&trace.len()) && trace.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl Row {
    /// A row without key, attempts, crashes and calendar.
    #[doc(hidden)]
    pub fn new(id: DurableId, due: StoreTime, kind: Arc<str>, payload: Arc<[u8]>) -> Self {
        Self {
            id,
            due,
            kind,
            key: None,
            payload,
            attempts: 0,
            crashes: 0,
            suspect: false,
            calendar: None,
            superseded: false,
            more: None,
        }
    }

    /// The parts that few rows have.
    #[cfg(any(feature = "redb", feature = "postgres"))]
    pub(crate) fn more(&self) -> Option<&RowMore> {
        self.more.as_deref()
    }

    /// Changes these parts.
    pub(crate) fn set_more(&mut self, change: impl FnOnce(&mut RowMore)) {
        let mut more = self.more.take().unwrap_or_default();
        change(&mut more);
        self.more = (*more != RowMore::default()).then_some(more);
    }

    /// It is not handed out after this ([`not_after`](crate::TimerBuilder::not_after)).
    #[must_use]
    pub fn expires(&self) -> Option<StoreTime> {
        self.more.as_ref()?.expires
    }

    /// Sets after when it is not handed out.
    #[doc(hidden)]
    pub fn set_expires(&mut self, expires: Option<StoreTime>) {
        self.set_more(|more| more.expires = expires);
    }

    /// How long one attempt may take, if the timer has a limit of its own
    /// ([`time_limit`](crate::TimerBuilder::time_limit)).
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.more.as_ref()?.limit_ms.map(Duration::from_millis)
    }

    /// Sets how long one attempt may take: rounded up to a millisecond, one at least, and at most
    /// as many as [`StoreTime::MAX`] has.
    #[doc(hidden)]
    pub fn set_time_limit(&mut self, limit: Option<Duration>) {
        self.set_more(|more| more.limit_ms = limit.map(limit_ms));
    }

    /// The trace in which it was armed, as the header `traceparent` of W3C has it
    /// ([`traceparent`](crate::TimerBuilder::traceparent)).
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.more.as_ref()?.trace.as_deref()
    }

    /// Sets the trace in which it was armed. A text that is none (not 1 to 128 ASCII characters
    /// without spaces) is left out: it is no reason to refuse a timer.
    #[doc(hidden)]
    pub fn set_traceparent(&mut self, trace: Option<Arc<str>>) {
        let trace = trace.filter(|trace| RowMore::is_trace(trace));
        self.set_more(|more| more.trace = trace);
    }

    /// Whether it is held, why, and since when. A timer that is held waits, whatever its deadline:
    /// it has no handler, or is paused, or a rate or a limit of calls lets others go first
    /// ([`HeldWhy`]).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, HeldWhy, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).on("mail", |_| Ok(())).start()?;
    /// let id = timers.schedule("report", Duration::ZERO, "")?;
    /// # while timers.get(id)?.is_some_and(|row| row.held().is_none()) {}
    /// // A moment later:
    /// let held = timers.get(id)?.and_then(|row| row.held());
    /// assert_eq!(held.map(|held| held.why), Some(HeldWhy::Unhandled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn held(&self) -> Option<Held> {
        // (A program that does not know of the mark leaves it when it moves the row, and that is a
        // release. So a stored row is held exactly if it has a deadline that only such rows have.)
        self.mark().or(self.more.as_ref()?.shown)
    }

    /// The mark of a row as it is stored, if it is held.
    fn mark(&self) -> Option<Held> {
        let held = self.more.as_ref()?.held;
        held.filter(|_| self.due.is_held())
    }

    /// The row as calls show it: if it is held, with the deadline that it had before.
    #[doc(hidden)]
    #[must_use]
    pub fn shown(mut self) -> Self {
        let held = self.mark();
        if held.is_some() {
            self.due = self.wanted();
            self.set_more(|more| (more.held, more.shown) = (None, held));
        }
        self
    }

    /// Sets the mark, without the deadline. For tests, and for stores that read a row.
    #[doc(hidden)]
    pub fn set_held(&mut self, held: Option<Held>) {
        self.set_more(|more| more.held = held);
    }

    /// Holds it: it keeps its place among the held rows, and ends to be a suspect. A held row is
    /// held for another reason. Returns whether it could be held: a row that wants to fire after
    /// the year 6429 cannot.
    pub(crate) fn hold(&mut self, held: Held) -> bool {
        if self.due.is_held() && self.mark().is_none() {
            return false;
        }
        self.due = self.due.held();
        self.suspect = false;
        self.set_held(Some(held));
        true
    }

    /// Gives it another deadline. It is held no more.
    pub(crate) fn set_due(&mut self, due: StoreTime) {
        self.due = due;
        if self.more.is_some() {
            self.set_held(None);
        }
    }

    /// Its deadline; of a held row, the one that it had before.
    pub(crate) fn wanted(&self) -> StoreTime {
        match self.mark() {
            Some(_) => self.due.unheld(),
            None => self.due,
        }
    }

    /// Where it stands in a list: by its deadline, of a held row by the one that it had before.
    pub(crate) fn shown_position(&self) -> Position {
        Position {
            due: self.wanted(),
            id: self.id,
        }
    }

    /// Whether it may end the process, so that it is handed out on trial only.
    pub(crate) const fn is_on_trial(&self) -> bool {
        self.suspect || self.crashes > 0
    }

    /// Bytes of its payload, kind, key, calendar and trace.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{DurableId, Row, StoreTime};
    ///
    /// let (id, due) = (DurableId::from_bits(1), StoreTime::from_millis(1));
    /// assert_eq!(Row::new(id, due, "mail".into(), b"hello".as_slice().into()).bytes(), 9);
    /// ```
    #[doc(hidden)]
    pub fn bytes(&self) -> usize {
        let texts = [Some(&self.kind), self.key.as_ref(), self.calendar.as_ref()];
        let texts = texts.into_iter().flatten().map(|text| text.len());
        let trace = self.traceparent().map_or(0, str::len);
        self.payload.len() + texts.sum::<usize>() + trace
    }

    /// Where the row stands in the order of deadlines.
    #[doc(hidden)]
    pub fn position(&self) -> Position {
        Position {
            due: self.due,
            id: self.id,
        }
    }
}

/// A place in the order in which rows are due.
///
/// # Example
/// See [`Store`](crate::contract::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The deadline.
    pub due: StoreTime,
    /// Among rows of one deadline, the id.
    pub id: DurableId,
}

impl Position {
    /// Before all rows.
    pub const MIN: Self = Self {
        due: StoreTime::MIN,
        id: DurableId::from_bits(0),
    };

    /// After all rows.
    pub const MAX: Self = Self {
        due: StoreTime::MAX,
        id: DurableId::from_bits(u128::MAX),
    };

    /// After all rows that fall due, and before those that are held.
    pub(crate) const BEFORE_HELD: Self = Self::end_of(StoreTime(StoreTime::HELD_BASE.0 - 1));

    /// Where a row is, while it is held, whose deadline is here.
    pub(crate) const fn held(self) -> Self {
        let due = self.due.held();
        Self { due, ..self }
    }

    /// Where the deadline is of a row that is held here.
    pub(crate) const fn unheld(self) -> Self {
        let due = self.due.unheld();
        Self { due, ..self }
    }

    /// The last position before this one.
    pub(crate) const fn before(self) -> Self {
        Self {
            due: self.due,
            id: DurableId::from_bits(self.id.to_bits().saturating_sub(1)),
        }
    }

    /// After all rows that are due at `due`.
    pub const fn end_of(due: StoreTime) -> Self {
        Self {
            due,
            id: DurableId::from_bits(u128::MAX),
        }
    }
}

/// Why a row is dead.
///
/// # Example
/// See [`DurableBuilder::on_dead`](crate::DurableBuilder::on_dead).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No handler has had its kind for a week, or for the time of
    /// [`bury_unhandled_after`](crate::DurableBuilder::bury_unhandled_after).
    UnknownKind,
    /// Its payload is not what the handler reads: what was wrong with it, up to 4 KiB of that.
    Undecodable(Arc<str>),
    /// Its handler failed, and may not try again: its last error, up to 4 KiB of that.
    Failed(Arc<str>),
    /// The process has crashed, or was killed, as often as the policy's `crash_attempts` allows
    /// while the timer was on trial alone.
    Crashed,
    /// Its handler has given it up by [`GiveUp`](crate::GiveUp): why, up to 4 KiB of that.
    GivenUp(Arc<str>),
    /// It was not handed out in time ([`not_after`](crate::TimerBuilder::not_after)), or was to be
    /// put off beyond that time.
    Expired,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind => f.write_str("no handler has its kind"),
            Self::Undecodable(why) => write!(f, "its payload cannot be read: {why}"),
            Self::Failed(why) => write!(f, "its handler failed: {why}"),
            Self::Crashed => f.write_str("the process ended too often while it was being handled"),
            Self::GivenUp(why) => write!(f, "its handler gave it up: {why}"),
            Self::Expired => f.write_str("it expired"),
        }
    }
}

/// A timer that is kept, and not fired any more: a dead letter.
///
/// # Example
/// See [`DurableClient::dead_letters`](crate::DurableClient::dead_letters).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The timer. Its key is free for others.
    pub row: Row,
    /// Why it is dead.
    pub cause: Cause,
    /// Since when it is dead.
    pub since: StoreTime,
}

impl DeadLetter {
    /// A dead letter.
    #[doc(hidden)]
    pub const fn new(row: Row, cause: Cause, since: StoreTime) -> Self {
        Self { row, cause, since }
    }
}
