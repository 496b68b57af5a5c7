//! Codec: rows, dead letters and tombstones as bytes.
//!
//! Every value ends in a checksum ([`bytes`](super::bytes)). There is one encoding of each value,
//! so what decodes encodes to the same bytes.
//!
//! | row | bytes |
//! |---|---|
//! | flags: has a key, has a calendar, superseded, has attempts, moved, suspect, has crashes, has more | 1 |
//! | first deadline | 6 |
//! | deadline, if it is not the first one | 6 |
//! | epoch in which it was last written | varint |
//! | attempts, crashes, if there are any | varint |
//! | if it has more: flags: held, expires, has a time limit, has a trace | varint |
//! | if it is held: why, and since when | 1, 6 |
//! | if it expires: the last time at which it is handed out | 6 |
//! | time limit, in milliseconds, if it has one | varint |
//! | trace, if it has one: length and text | varint, text |
//! | kind; key and calendar, if it has them: length and text | varint, text |
//! | payload | the rest |
//! | checksum | 4 |

use super::bytes::{
    Flaw, LATER, number, put_number, put_text, put_time, saturated, seal, take, text, time, unseal,
};
use crate::store::row::{
    Cause, DeadLetter, DurableId, Held, HeldWhy, Row, RowMore, StoreTime, has_offset,
};
use crate::store::write::Amendment;
use std::collections::HashSet;
use std::sync::Arc;

/// A row has a key.
const KEY: u8 = 1;
/// A row has a calendar.
const CALENDAR: u8 = 2;
/// Another row has taken its key.
const SUPERSEDED: u8 = 4;
/// It has attempts.
const ATTEMPTS: u8 = 8;
/// Its deadline is not its first one.
const MOVED: u8 = 16;
/// It was suspect when it was written last.
const SUSPECT: u8 = 32;
/// It has crashes.
const CRASHES: u8 = 64;

/// It has parts that format 3 does not know. More flags follow.
const MORE: u8 = 128;

/// It is held.
const HELD: u64 = 1;
/// It is not handed out after a time.
const EXPIRES: u64 = 2;
/// Each attempt has a time limit.
const LIMIT: u64 = 4;
/// It has a trace.
const TRACE: u64 = 8;

/// Kinds that are kept to be shared by rows.
const NAMES_MAX: usize = 1_024;

/// A row in its encoding. All but the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowView<'a> {
    pub(crate) first_due: StoreTime,
    pub(crate) due: StoreTime,
    /// The epoch in which the row was last written.
    pub(crate) epoch: u64,
    /// A later program may count further than a [`Row`] does.
    pub(crate) attempts: u64,
    pub(crate) crashes: u64,
    /// It was suspect when it was written last. An earlier epoch may make it so as well.
    pub(crate) suspect: bool,
    pub(crate) kind: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) calendar: Option<&'a str>,
    pub(crate) superseded: bool,
    /// `None` if it has none of these parts.
    pub(crate) more: Option<MoreView<'a>>,
    pub(crate) payload: &'a [u8],
}

/// What few rows have. As [`RowMore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoreView<'a> {
    held: Option<Held>,
    expires: Option<StoreTime>,
    limit_ms: Option<u64>,
    trace: Option<&'a str>,
}

impl<'a> MoreView<'a> {
    fn of(row: &'a Row) -> Option<Self> {
        let more = row.more()?;
        Self {
            held: row.held(),
            expires: more.expires,
            limit_ms: more.limit_ms,
            trace: more.trace.as_deref(),
        }
        .some()
    }

    fn some(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let parts = [
            (HELD, self.held.is_some()),
            (EXPIRES, self.expires.is_some()),
            (LIMIT, self.limit_ms.is_some()),
            (TRACE, self.trace.is_some()),
        ];
        let flags = parts.into_iter().filter(|(_, is_set)| *is_set);
        put_number(out, flags.map(|(flag, _)| flag).sum());
        if let Some(Held { why, since }) = self.held {
            out.push(match why {
                HeldWhy::Unhandled => 1,
                HeldWhy::Paused => 2,
                HeldWhy::Limited => 3,
            });
            put_time(out, since);
        }
        if let Some(expires) = self.expires {
            put_time(out, expires);
        }
        if let Some(limit_ms) = self.limit_ms {
            put_number(out, limit_ms);
        }
        if let Some(trace) = self.trace {
            put_text(out, trace);
        }
    }

    fn read(rest: &mut &'a [u8], due: StoreTime) -> Result<Self, Flaw> {
        let flags = number(rest)?;
        if flags > HELD | EXPIRES | LIMIT | TRACE {
            return Err(LATER);
        }
        let mut more = Self::default();
        if flags & HELD != 0 {
            let why = match take(rest, 1)?.first() {
                Some(1) => HeldWhy::Unhandled,
                Some(2) => HeldWhy::Paused,
                Some(3) => HeldWhy::Limited,
                Some(0) | None => return Err("it is held for nothing"),
                Some(_) => return Err(LATER),
            };
            let since = time(rest)?;
            more.held = Some(Held { why, since });
            if !due.is_held() {
                return Err("it is held, and falls due");
            }
        }
        if flags & EXPIRES != 0 {
            more.expires = Some(time(rest)?);
        }
        if flags & LIMIT != 0 {
            more.limit_ms = match number(rest)? {
                0 => return Err("its time limit is none"),
                millis if RowMore::is_limit(millis) => Some(millis),
                _ => return Err(LATER),
            };
        }
        if flags & TRACE != 0 {
            more.trace = match text(rest)? {
                "" => return Err("its trace is none"),
                trace if RowMore::is_trace(trace) => Some(trace),
                // (It is longer, or has other characters.)
                _ => return Err(LATER),
            };
        }
        more.some().ok_or("it has none of what it has")
    }

    fn more(&self) -> RowMore {
        RowMore {
            held: self.held,
            expires: self.expires,
            limit_ms: self.limit_ms,
            trace: self.trace.map(Into::into),
            shown: None,
        }
    }
}

impl<'a> RowView<'a> {
    /// As [`Row::bytes`].
    pub(crate) fn bytes(&self) -> usize {
        let trace = self.more.and_then(|more| more.trace);
        let texts = [Some(self.kind), self.key, self.calendar, trace];
        self.payload.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }

    pub(crate) fn of(row: &'a Row, epoch: u64) -> Self {
        Self {
            first_due: row.id.first_due(),
            due: row.due,
            epoch,
            attempts: row.attempts.into(),
            crashes: row.crashes.into(),
            suspect: row.suspect,
            kind: &row.kind,
            key: row.key.as_deref(),
            calendar: row.calendar.as_deref(),
            superseded: row.superseded,
            more: MoreView::of(row),
            payload: &row.payload,
        }
    }

    /// Gives it another deadline. It is held no more.
    pub(crate) fn set_due(&mut self, due: StoreTime) {
        self.due = due;
        self.more = self
            .more
            .and_then(|more| MoreView { held: None, ..more }.some());
    }

    /// As [`Amendment::amend`].
    pub(crate) fn amend(&mut self, of: &'a Amendment) {
        self.payload = &of.payload;
        self.calendar = Some(&*of.calendar);
        let more = MoreView {
            trace: of.trace.as_deref(),
            ..self.more.unwrap_or_default()
        };
        self.more = more.some();
    }

    /// As [`Row::hold`].
    pub(crate) fn hold(&mut self, held: Held) -> bool {
        let mark = self.more.unwrap_or_default();
        if self.due.is_held() && mark.held.is_none() {
            return false;
        }
        self.due = self.due.held();
        self.suspect = false;
        self.more = Some(MoreView {
            held: Some(held),
            ..mark
        });
        true
    }

    /// The first format that has rows of this shape.
    pub(crate) fn format(&self) -> u64 {
        let is_later = self.more.is_some() || self.calendar.is_some_and(has_offset);
        if is_later { 4 } else { 3 }
    }

    pub(crate) fn row(&self, number: u64, names: &mut Names) -> Row {
        let id = DurableId::new(0, self.first_due, number);
        let mut row = Row::new(id, self.due, names.share(self.kind), self.payload.into());
        row.key = self.key.map(Into::into);
        let [attempts, crashes] = [self.attempts, self.crashes].map(saturated);
        (row.attempts, row.crashes) = (attempts, crashes);
        row.suspect = self.suspect;
        row.calendar = self.calendar.map(Into::into);
        row.superseded = self.superseded;
        if let Some(more) = &self.more {
            row.set_more(|parts| *parts = more.more());
        }
        row
    }
}

/// Kinds that rows share, so that loading a row allocates its payload alone.
#[derive(Default)]
pub(crate) struct Names(HashSet<Arc<str>>);

impl Names {
    pub(super) fn share(&mut self, name: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(name) {
            return shared.clone();
        }
        if self.0.len() == NAMES_MAX {
            self.0.clear();
        }
        let shared: Arc<str> = name.into();
        self.0.insert(shared.clone());
        shared
    }
}

/// Appends a row to `out`.
pub(crate) fn encode_row(out: &mut Vec<u8>, number: u64, row: &RowView<'_>) {
    let begin = out.len();
    put_row(out, row);
    seal(number.into(), out, begin);
}

/// A row of this number.
pub(crate) fn decode_row(number: u64, bytes: &[u8]) -> Result<RowView<'_>, Flaw> {
    row(unseal(number.into(), bytes)?)
}

/// Appends an entry of the tombstones to `out`, which is empty.
pub(crate) fn encode_tombstones(out: &mut Vec<u8>, sequence: u64, numbers: &[u64]) {
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    seal(sequence.into(), out, 0);
}

/// The numbers of an entry of the tombstones.
pub(crate) fn decode_tombstones(
    sequence: u64,
    bytes: &[u8],
) -> Result<impl Iterator<Item = u64> + '_, Flaw> {
    let (numbers, rest) = unseal(sequence.into(), bytes)?.as_chunks();
    if rest.is_empty() {
        Ok(numbers.iter().map(|&bytes| u64::from_le_bytes(bytes)))
    } else {
        Err("a number is cut off")
    }
}

/// A dead letter. Its row's id is its key.
pub(crate) fn encode_dead(letter: &DeadLetter) -> Vec<u8> {
    let mut out = Vec::new();
    put_time(&mut out, letter.since);
    let (tag, why) = match &letter.cause {
        Cause::UnknownKind => (0, ""),
        Cause::Undecodable(why) => (1, &**why),
        Cause::Failed(why) => (2, &**why),
        Cause::Crashed => (3, ""),
        Cause::GivenUp(why) => (4, &**why),
        Cause::Expired => (5, ""),
    };
    out.push(tag);
    put_text(&mut out, why);
    put_row(&mut out, &RowView::of(&letter.row, 0));
    seal(letter.row.id.to_bits(), &mut out, 0);
    out
}

/// The first format that has dead letters like this one.
pub(crate) fn format_of_dead(letter: &DeadLetter) -> u64 {
    let format = RowView::of(&letter.row, 0).format();
    match letter.cause {
        Cause::GivenUp(_) | Cause::Expired => format.max(4),
        _ => format,
    }
}

/// The dead letter of this id.
pub(crate) fn decode_dead(id: u128, bytes: &[u8], names: &mut Names) -> Result<DeadLetter, Flaw> {
    let mut rest = unseal(id, bytes)?;
    let since = time(&mut rest)?;
    let tag = *take(&mut rest, 1)?.first().ok_or("it is too short")?;
    let why = text(&mut rest)?;
    let cause = match tag {
        1 => Cause::Undecodable(why.into()),
        2 => Cause::Failed(why.into()),
        0 if why.is_empty() => Cause::UnknownKind,
        3 if why.is_empty() => Cause::Crashed,
        4 => Cause::GivenUp(why.into()),
        5 if why.is_empty() => Cause::Expired,
        // (It has another number, or a text that this program would not read.)
        _ => return Err(LATER),
    };
    let view = row(rest)?;
    let id = DurableId::from_bits(id);
    if id.first_due() != view.first_due || id.partition() != 0 || view.epoch != 0 {
        return Err("it is another timer's");
    }
    Ok(DeadLetter::new(view.row(id.number(), names), cause, since))
}

fn put_row(out: &mut Vec<u8>, row: &RowView<'_>) {
    let mut flags = 0;
    let parts = [
        (KEY, row.key.is_some()),
        (CALENDAR, row.calendar.is_some()),
        (SUPERSEDED, row.superseded),
        (ATTEMPTS, row.attempts > 0),
        (MOVED, row.due != row.first_due),
        (SUSPECT, row.suspect),
        (CRASHES, row.crashes > 0),
        (MORE, row.more.is_some()),
    ];
    for (flag, is_set) in parts {
        flags |= if is_set { flag } else { 0 };
    }
    out.push(flags);
    put_time(out, row.first_due);
    if row.due != row.first_due {
        put_time(out, row.due);
    }
    put_number(out, row.epoch);
    if row.attempts > 0 {
        put_number(out, row.attempts);
    }
    if row.crashes > 0 {
        put_number(out, row.crashes);
    }
    if let Some(more) = &row.more {
        more.put(out);
    }
    put_text(out, row.kind);
    for text in [row.key, row.calendar].into_iter().flatten() {
        put_text(out, text);
    }
    out.extend_from_slice(row.payload);
}

fn row(mut rest: &[u8]) -> Result<RowView<'_>, Flaw> {
    let flags = *take(&mut rest, 1)?.first().ok_or("it is too short")?;
    let first_due = time(&mut rest)?;
    let mut due = first_due;
    if flags & MOVED != 0 {
        due = time(&mut rest)?;
        if due == first_due {
            return Err("it was moved to where it was");
        }
    }
    let epoch = number(&mut rest)?;
    let mut count = |flag| {
        if flags & flag == 0 {
            return Ok(0);
        }
        match number(&mut rest)? {
            0 => Err("it has none of what it has"),
            count => Ok(count),
        }
    };
    let (attempts, crashes) = (count(ATTEMPTS)?, count(CRASHES)?);
    let more = (flags & MORE != 0)
        .then(|| MoreView::read(&mut rest, due))
        .transpose()?;
    let kind = text(&mut rest)?;
    let key = (flags & KEY != 0).then(|| text(&mut rest)).transpose()?;
    let calendar = (flags & CALENDAR != 0)
        .then(|| text(&mut rest))
        .transpose()?;
    Ok(RowView {
        first_due,
        due,
        epoch,
        attempts,
        crashes,
        suspect: flags & SUSPECT != 0,
        kind,
        key,
        calendar,
        superseded: flags & SUPERSEDED != 0,
        more,
        payload: rest,
    })
}
