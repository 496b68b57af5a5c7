//! Records of runs that are done, as bytes. Their keys have when they ended, their timer, and when
//! they were due.
//!
//! | record | bytes |
//! |---|---|
//! | flags: has a key, has begun, has crashes, has an ending, has a node, has more | 1 |
//! | when it began, if it has | 6 |
//! | how long it took, in microseconds | varint |
//! | attempts | varint |
//! | crashes, if there are any | varint |
//! | its ending, if that is not `Ok` of its handler: its number | varint |
//! | kind; key and node, if it has them: length and text | varint, text |
//! | if it has more: length, and as many bytes | varint, bytes |
//! | checksum, over all of this and the key | 4 |
//!
//! A record does not raise the floor, so programs of format 4 have to read the records of later
//! ones.
//!
//! - **What is added goes to the bytes of "more".** This program writes none, passes over them when
//!   it reads, and keeps them when it copies. They are for what a reader may miss. A program that
//!   adds a part puts it behind those that are there, and passes over what is behind those that it
//!   knows.
//! - **A new ending is a new number.** A program that does not know it shows
//!   [`DoneEnding::Other`].
//! - **The flags 32 and 64 are for later formats**, whose programs raise the floor before they set
//!   one.

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
/// It has ended in another way than with `Ok` of its handler.
const ENDING: u8 = 8;
/// It was handled by a node of several.
const NODE: u8 = 16;
/// Bytes follow that this program does not know.
const MORE: u8 = 128;

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
        (ENDING, done.ending != DoneEnding::Done),
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
    if done.ending != DoneEnding::Done {
        put_number(&mut out, done.ending.number().into());
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

/// Whether a value at a place is as a program has written it, which may be a later one.
pub(super) fn is_sound(place: DonePlace, bytes: &[u8]) -> Result<(), Flaw> {
    match decode(place, bytes, &mut Names::default()) {
        Ok(_) => Ok(()),
        Err(flaw) if flaw == LATER => Ok(()),
        Err(flaw) => Err(flaw),
    }
}

/// The record at a place.
pub(super) fn decode(place: DonePlace, bytes: &[u8], names: &mut Names) -> Result<DoneTimer, Flaw> {
    let mut rest = unseal(under(place), bytes)?;
    let flags = *take(&mut rest, 1)?.first().ok_or("it is too short")?;
    if flags & !(KEY | BEGAN | CRASHES | ENDING | NODE | MORE) != 0 {
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
    let ending = match has(ENDING) {
        false => DoneEnding::Done,
        true => DoneEnding::of_number(number(&mut rest)?),
    };
    let kind = names.share(text(&mut rest)?);
    let key = has(KEY).then(|| text(&mut rest)).transpose()?;
    let node = match has(NODE) {
        false => "",
        true => text(&mut rest)?,
    };
    let more = match has(MORE) {
        false => 0,
        true => skip(&mut rest)?,
    };
    if has(CRASHES) && crashes == 0
        || has(ENDING) && ending == DoneEnding::Done
        || has(NODE) && node.is_empty()
        || has(MORE) && more == 0
    {
        return Err("it has none of what it has");
    }
    if !rest.is_empty() {
        return Err("it is too long");
    }
    let mut done = DoneTimer::new(place.id, place.due, kind, place.ended);
    (done.key, done.began) = (key.map(Into::into), began);
    (done.took, done.attempts, done.crashes) = (took, attempts, crashes);
    (done.node, done.ending) = (names.share(node), ending);
    Ok(done)
}

/// Passes over a length, and as many bytes. Returns how many.
fn skip(rest: &mut &[u8]) -> Result<usize, Flaw> {
    let len = usize::try_from(number(rest)?).map_err(|_| "it is too short")?;
    take(rest, len).map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, is_sound, under};
    use crate::store::done::{DoneEnding, DoneTimer};
    use crate::store::row::{DurableId, StoreTime};
    use crate::stores::redb::bytes::{Flaw, LATER, seal};
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
        let mut other = plain.clone();
        other.ending = DoneEnding::Other;
        vec![plain, full, left_out, other]
    }

    /// The record without its checksum, changed, and with a checksum that is right.
    fn changed(done: &DoneTimer, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut value = encode(done);
        value.truncate(value.len() - 4);
        change(&mut value);
        seal(under(done.place()), &mut value, 0);
        value
    }

    fn read(done: &DoneTimer, value: &[u8]) -> Result<DoneTimer, Flaw> {
        decode(done.place(), value, &mut Names::default())
    }

    /// A later program has added something that a reader may miss.
    #[test]
    fn what_a_record_has_more_is_passed_over() {
        for done in records() {
            let long = [[200, 1].to_vec(), vec![9; 200]].concat();
            for more in [&[1, 7][..], &[3, 0, 0, 0], &long] {
                let value = changed(&done, |value| {
                    value[0] |= 128;
                    value.extend_from_slice(more);
                });
                assert_eq!(read(&done, &value), Ok(done.clone()));
                assert_eq!(is_sound(done.place(), &value), Ok(()));
            }
            // None at all, fewer than there should be, and some behind them.
            for more in [&[][..], &[0], &[2, 7], &[1, 7, 7], &[255; 10]] {
                let value = changed(&done, |value| {
                    value[0] |= 128;
                    value.extend_from_slice(more);
                });
                assert!(read(&done, &value).is_err_and(|flaw| flaw != LATER));
                assert!(is_sound(done.place(), &value).is_err());
            }
        }
    }

    #[test]
    fn an_ending_of_a_later_program_is_another_one() {
        let mut other = records().remove(0);
        other.ending = DoneEnding::Other;
        // (Behind the flags, a time of 6 bytes, the microseconds and the attempts.)
        for number in [&[2][..], &[254, 1], &[255, 1], &[128, 128, 4]] {
            let value = changed(&other, |value| {
                value.splice(9..11, number.iter().copied());
            });
            assert_eq!(read(&other, &value), Ok(other.clone()));
        }
        let none = changed(&other, |value| {
            value.splice(9..11, [0]);
        });
        assert_eq!(read(&other, &none), Err("it has none of what it has"));
        for number in 0..=u8::MAX {
            let ending = DoneEnding::of_number(number.into());
            let is_known = ending != DoneEnding::Other || number == u8::MAX;
            assert_eq!(ending.number() == number, is_known);
        }
    }

    #[test]
    fn a_flag_of_a_later_format_is_told_as_that() {
        for done in records() {
            for flag in [32, 64, 96, 160] {
                let value = changed(&done, |value| value[0] |= flag);
                assert_eq!(read(&done, &value), Err(LATER));
                assert_eq!(is_sound(done.place(), &value), Ok(()));
            }
        }
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
