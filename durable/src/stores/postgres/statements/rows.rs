//! Rows: what the columns of the tables are in this crate.

use crate::store::row::{Cause, DurableId, Partition, Row, StoreTime};
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

/// The partition of a key: the first byte of its MD5, as the SQL functions compute it, too.
pub(in crate::stores::postgres) fn partition_of_key(key: &str) -> Partition {
    use md5::Digest;
    md5::Md5::digest(key.as_bytes())[0].into()
}

/// A time from its milliseconds.
pub(in crate::stores::postgres) fn time(millis: i64) -> StoreTime {
    StoreTime::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// A row from its columns: deadline, id, kind, key, payload, attempts, calendar, superseded,
/// crashes.
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
    row
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
