//! Rows: what the columns of the tables are in this crate.

use crate::store::row::{Cause, DurableId, Held, HeldWhy, Partition, Row, RowMore, StoreTime};
use uuid::Uuid;

pub(crate) fn uuid(id: DurableId) -> Uuid {
    Uuid::from_u128(id.to_bits())
}

pub(in crate::stores::postgres) fn durable_id(id: Uuid) -> DurableId {
    DurableId::from_bits(id.as_u128())
}

pub(crate) fn millis(time: StoreTime) -> i64 {
    // (At most 48 bits.)
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A partition's number as it is stored: its 16 bits.
pub(crate) fn part(partition: Partition) -> i16 {
    partition.cast_signed()
}

/// A partition from its number.
pub(in crate::stores::postgres) fn partition(part: i16) -> Partition {
    part.cast_unsigned()
}

/// An epoch as it is stored.
pub(crate) fn epoch(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

/// How many gates there are, whatever the number of partitions.
const GATES: u32 = 256;

/// The gate of a partition, of this many: partitions beside each other share one.
pub(in crate::stores::postgres) fn gate(partition: Partition, partitions: u32) -> i16 {
    // (Below 256, also of a partition that there is not.)
    (u32::from(partition) * GATES / partitions.max(GATES)).min(GATES - 1) as i16
}

/// The partition of a key, of this many: by the first 16 bits of its MD5, as the SQL functions
/// compute it, too. Of 256 it is the first byte.
pub(in crate::stores::postgres) fn partition_of_key(key: &str, partitions: u32) -> Partition {
    use md5::Digest;
    let digest = md5::Md5::digest(key.as_bytes());
    let hash = u64::from(u16::from_be_bytes([digest[0], digest[1]]));
    // (Below the number of partitions.)
    ((hash * u64::from(partitions)) >> 16) as Partition
}

/// A time from its milliseconds.
pub(in crate::stores::postgres) fn time(millis: i64) -> StoreTime {
    StoreTime::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// How many columns a row has in an answer.
pub(super) const ROW_COLUMNS: usize = 14;

/// A row from its columns: deadline, id, kind, key, payload, attempts, calendar, superseded,
/// crashes; then those that few rows have: the mark of one that is held, since when, when it
/// expires, its time limit, its trace.
pub(in crate::stores::postgres) fn row_of(columns: &tokio_postgres::Row) -> Row {
    let kind: &str = columns.get(2);
    let payload: &[u8] = columns.get(4);
    let mut row = Row::new(
        durable_id(columns.get(1)),
        time(columns.get(0)),
        kind.into(),
        payload.into(),
    );
    row.key = columns.get::<_, Option<&str>>(3).map(Into::into);
    row.attempts = u32::try_from(columns.get::<_, i64>(5)).unwrap_or(u32::MAX);
    row.calendar = columns.get::<_, Option<&str>>(6).map(Into::into);
    row.superseded = columns.get(7);
    row.crashes = u32::try_from(columns.get::<_, i64>(8)).unwrap_or(u32::MAX);
    let mark: i16 = columns.get(9);
    let [expires, limit] = [11, 12].map(|at| columns.get::<_, Option<i64>>(at));
    let trace: Option<&str> = columns.get(13);
    if mark != 0 || expires.is_some() || limit.is_some() || trace.is_some() {
        let since = columns.get::<_, Option<i64>>(10).map(time);
        let held = held_of(mark, since.unwrap_or_default());
        row.set_more(|more| {
            more.expires = expires.map(time);
            more.limit_ms = limit.and_then(limit_of);
            more.trace = trace
                .filter(|trace| RowMore::is_trace(trace))
                .map(Into::into);
        });
        // (A program of number 3 leaves the mark when it moves a row, which is a release.)
        row.set_held(held.filter(|_| row.due.is_held()));
    }
    row
}

/// A time limit from its milliseconds. Others may have written it: `None` if it is none.
fn limit_of(millis: i64) -> Option<u64> {
    let millis = u64::try_from(millis).ok();
    millis.filter(|&millis| RowMore::is_limit(millis))
}

/// Why a row is held, as it is stored. 0: it is not.
pub(super) fn held_mark(why: HeldWhy) -> i16 {
    match why {
        HeldWhy::Unhandled => 1,
        HeldWhy::Paused => 2,
        HeldWhy::Limited => 3,
    }
}

/// The mark of a held row from its columns. A program that knows another reason raises the floor,
/// so its rows are not seen here. (If they are: such a row is due after the year 6429.)
fn held_of(mark: i16, since: StoreTime) -> Option<Held> {
    let why = match mark {
        1 => HeldWhy::Unhandled,
        2 => HeldWhy::Paused,
        3 => HeldWhy::Limited,
        _ => return None,
    };
    Some(Held { why, since })
}

/// A cause as it is stored.
pub(super) fn cause_parts(cause: &Cause) -> (i16, String) {
    let (tag, why) = match cause {
        Cause::UnknownKind => (0, ""),
        Cause::Undecodable(why) => (1, &**why),
        Cause::Failed(why) => (2, &**why),
        Cause::Crashed => (3, ""),
        Cause::GivenUp(why) => (4, &**why),
        Cause::Expired => (5, ""),
    };
    // (A text of the database has none.)
    (tag, why.replace('\0', "\u{fffd}"))
}

/// A cause from its columns.
pub(super) fn cause_of(tag: i16, why: &str) -> Cause {
    match tag {
        0 => Cause::UnknownKind,
        1 => Cause::Undecodable(why.into()),
        2 => Cause::Failed(why.into()),
        3 => Cause::Crashed,
        4 => Cause::GivenUp(why.into()),
        5 => Cause::Expired,
        later => {
            let line = format!("cause {later}, of a later program");
            let why = if why.is_empty() {
                String::new()
            } else {
                format!(": {why}")
            };
            Cause::Failed((line + &why).into())
        }
    }
}
