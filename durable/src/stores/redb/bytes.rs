//! Bytes: what values of the file are made of: numbers, times, texts, and a checksum at their end.
//!
//! A checksum (CRC-32) is over the value and the number or id under which it is stored.

use crate::store::row::StoreTime;

/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// Bytes of a time: [`StoreTime::MAX`] has 48 bits.
const TIME: usize = 6;

/// A value that this program cannot read, and that no damage has made.
pub(super) const LATER: Flaw = "a later program has written it";

/// What is wrong with a value.
pub(crate) type Flaw = &'static str;

/// Appends the checksum of what follows `begin`.
pub(super) fn seal(under: u128, out: &mut Vec<u8>, begin: usize) {
    let sum = checksum(under, &out[begin..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// What is before the checksum, if that is right.
pub(super) fn unseal(under: u128, bytes: &[u8]) -> Result<&[u8], Flaw> {
    let (body, sum) = bytes
        .split_last_chunk::<CHECKSUM>()
        .ok_or("it is too short")?;
    if checksum(under, body).to_le_bytes() == *sum {
        Ok(body)
    } else {
        Err("its checksum is wrong")
    }
}

fn checksum(under: u128, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&under.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

pub(super) fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Flaw> {
    let (taken, after) = rest.split_at_checked(len).ok_or("it is too short")?;
    *rest = after;
    Ok(taken)
}

pub(super) fn put_time(out: &mut Vec<u8>, time: StoreTime) {
    out.extend_from_slice(&time.as_millis().to_be_bytes()[8 - TIME..]);
}

pub(super) fn time(rest: &mut &[u8]) -> Result<StoreTime, Flaw> {
    let mut bytes = [0; 8];
    bytes[8 - TIME..].copy_from_slice(take(rest, TIME)?);
    time_of(u64::from_be_bytes(bytes))
}

pub(super) fn time_of(millis: u64) -> Result<StoreTime, Flaw> {
    let time = StoreTime::from_millis(millis);
    if time.as_millis() == millis {
        Ok(time)
    } else {
        Err("a time is too late")
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn number(rest: &mut &[u8]) -> Result<u64, Flaw> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *take(rest, 1)?.first().ok_or("it is too short")?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err("a number is too large");
        }
        number |= bits << shift;
        if byte < 0x80 {
            if byte == 0 && shift > 0 {
                return Err("a number is too long");
            }
            return Ok(number);
        }
    }
    Err("a number is too long")
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Flaw> {
    let len = usize::try_from(number(rest)?).map_err(|_| "a text is too long")?;
    std::str::from_utf8(take(rest, len)?).map_err(|_| "a text is not UTF-8")
}

/// A count as a [`Row`](crate::store::row::Row) has it.
pub(super) fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
