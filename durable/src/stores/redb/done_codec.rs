//! Records of runs that are done, as bytes. Their keys have when they ended, their timer, and when
//! they were due.
//!
//! | record | bytes |
//! |---|---|
//! | flags: has a key, has begun, has crashes, was left out, has a node | 1 |
//! | when it began, if it has | 6 |
//! | how long it took, in microseconds | varint |
//! | attempts | varint |
//! | crashes, if there are any | varint |
//! | kind; key and node, if it has them: length and text | varint, text |
//! | checksum, over all of this and the key | 4 |

use super::bytes::{
    Flaw, LATER, number, put_number, put_text, put_time, saturated, seal, take, text, time, unseal,
};
use super::codec::Names;
use crate::store::done::{DoneEnding, DonePlace, DoneTimer};
use std::time::Duration;

/// Its timer had a key.
const KEY: u8 = 1;
/// A handler was called.
const BEGAN: u8 = 2;
/// It has crashes.
const CRASHES: u8 = 4;
/// It was left out.
const LEFT_OUT: u8 = 8;
/// It was handled by a node of several.
const NODE: u8 = 16;

/// What the checksum is of, beside the bytes.
fn under(place: DonePlace) -> u128 {
    let DonePlace { ended, id, due } = place;
    let times = u128::from(ended.as_millis()) << 64 | u128::from(due.as_millis());
    id.to_bits().rotate_left(16) ^ times
}

/// A record.
pub(super) fn encode(done: &DoneTimer) -> Vec<u8> {
    let parts = [
        (KEY, done.key.is_some()),
        (BEGAN, done.began.is_some()),
        (CRASHES, done.crashes > 0),
        (LEFT_OUT, done.ending == DoneEnding::LeftOut),
        (NODE, !done.node.is_empty()),
    ];
    let flags = parts.into_iter().filter(|(_, is_set)| *is_set);
    let mut out = vec![flags.map(|(flag, _)| flag).sum()];
    if let Some(began) = done.began {
        put_time(&mut out, began);
    }
    put_number(
        &mut out,
        u64::try_from(done.took.as_micros()).unwrap_or(u64::MAX),
    );
    put_number(&mut out, done.attempts.into());
    if done.crashes > 0 {
        put_number(&mut out, done.crashes.into());
    }
    put_text(&mut out, &done.kind);
    if let Some(key) = &done.key {
        put_text(&mut out, key);
    }
    if !done.node.is_empty() {
        put_text(&mut out, &done.node);
    }
    seal(under(done.place()), &mut out, 0);
    out
}

/// The record at a place.
pub(super) fn decode(place: DonePlace, bytes: &[u8], names: &mut Names) -> Result<DoneTimer, Flaw> {
    let mut rest = unseal(under(place), bytes)?;
    let flags = *take(&mut rest, 1)?.first().ok_or("it is too short")?;
    if flags > KEY | BEGAN | CRASHES | LEFT_OUT | NODE {
        return Err(LATER);
    }
    let has = |flag| flags & flag != 0;
    let began = has(BEGAN).then(|| time(&mut rest)).transpose()?;
    let took = Duration::from_micros(number(&mut rest)?);
    let attempts = saturated(number(&mut rest)?);
    let crashes = match has(CRASHES) {
        false => 0,
        true => saturated(number(&mut rest)?),
    };
    let kind = names.share(text(&mut rest)?);
    let key = has(KEY).then(|| text(&mut rest)).transpose()?;
    let node = match has(NODE) {
        false => "",
        true => text(&mut rest)?,
    };
    if has(CRASHES) && crashes == 0 || has(NODE) && node.is_empty() {
        return Err("it has none of what it has");
    }
    if !rest.is_empty() {
        return Err("it is too long");
    }
    let mut done = DoneTimer::new(place.id, place.due, kind, place.ended);
    (done.key, done.began) = (key.map(Into::into), began);
    (done.took, done.attempts, done.crashes) = (took, attempts, crashes);
    done.node = names.share(node);
    if has(LEFT_OUT) {
        done.ending = DoneEnding::LeftOut;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::store::done::{DoneEnding, DoneTimer};
    use crate::store::row::{DurableId, StoreTime};
    use crate::stores::redb::codec::Names;
    use std::time::Duration;

    fn records() -> Vec<DoneTimer> {
        let (due, ended) = (StoreTime::from_millis(5), StoreTime::from_millis(70));
        let plain = DoneTimer::new(DurableId::new(0, due, 9), due, "mail".into(), ended);
        let mut full = plain.clone();
        (full.key, full.node) = (Some("order-1".into()), "node 1".into());
        (full.took, full.attempts, full.crashes) = (Duration::from_micros(4_711), 300, 2);
        let mut left_out = full.clone();
        (left_out.began, left_out.ending) = (None, DoneEnding::LeftOut);
        vec![plain, full, left_out]
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for done in records() {
            let read = decode(done.place(), &encode(&done), &mut Names::default());
            assert_eq!(read, Ok(done));
        }
    }

    #[test]
    fn a_record_at_another_place_or_with_another_bit_is_refused() {
        for done in records() {
            let value = encode(&done);
            for bit in 0..value.len() * 8 {
                let mut other = value.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(done.place(), &other, &mut Names::default()).is_err());
            }
            for part in 0..3 {
                let mut place = done.place();
                match part {
                    0 => place.ended = StoreTime::from_millis(71),
                    1 => place.due = StoreTime::from_millis(6),
                    _ => place.id = DurableId::new(0, place.due, 10),
                }
                assert!(decode(place, &value, &mut Names::default()).is_err());
            }
        }
    }
}
