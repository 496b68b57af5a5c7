//! State: what the store knows of itself, and the other values of the table `meta`, as bytes.

use super::bytes::{Flaw, number, put_number, seal, time_of, unseal};
use super::codec::{Names, RowView};
use crate::store::row::{Row, StoreTime};

/// What the store knows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreState {
    /// The epoch of the lease that was taken last.
    pub(crate) epoch: u64,
    /// Rows due up to here may have been handed out in this epoch.
    pub(crate) claimed_upto: Option<StoreTime>,
    /// The watermarks of earlier epochs that did not end well. The epochs rise, the watermarks
    /// fall.
    pub(crate) earlier: Vec<(u64, StoreTime)>,
    /// No row has this number or a higher one.
    pub(crate) next_number: u64,
}

/// Earlier watermarks that are kept apart. There is more than one only if the clock was set back.
const EARLIER_MAX: usize = 16;

impl StoreState {
    /// The row of this number as it is now: it may have become suspect since it was written.
    pub(crate) fn row(&self, view: &RowView<'_>, number: u64, names: &mut Names) -> Row {
        let mut row = view.row(number, names);
        row.suspect |= self.was_handed_out(view);
        row
    }

    /// Whether a row may have been handed out in an earlier epoch, and was not written since.
    pub(crate) fn was_handed_out(&self, row: &RowView<'_>) -> bool {
        self.earlier
            .iter()
            .any(|&(epoch, upto)| row.epoch <= epoch && row.due <= upto)
    }

    /// Begins the next epoch.
    pub(crate) fn begin_epoch(&mut self) {
        if let Some(upto) = self.claimed_upto.take() {
            // A later epoch with a higher watermark says all that an earlier one does.
            self.earlier.retain(|&(_, other)| other > upto);
            self.earlier.truncate(EARLIER_MAX - 1);
            self.earlier.push((self.epoch, upto));
        }
        self.epoch += 1;
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.epoch);
        put_number(&mut out, self.next_number);
        // Zero: there is none.
        put_number(
            &mut out,
            self.claimed_upto.map_or(0, |upto| upto.as_millis() + 1),
        );
        put_number(&mut out, self.earlier.len() as u64);
        for &(epoch, upto) in &self.earlier {
            put_number(&mut out, epoch);
            put_number(&mut out, upto.as_millis());
        }
        seal(0, &mut out, 0);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut rest = unseal(0, bytes)?;
        let epoch = number(&mut rest)?;
        let next_number = number(&mut rest)?;
        let claimed = number(&mut rest)?.checked_sub(1);
        let claimed_upto = claimed.map(time_of).transpose()?;
        let count = number(&mut rest)?;
        if count > EARLIER_MAX as u64 {
            return Err("too many watermarks");
        }
        let mut earlier = Vec::new();
        for _ in 0..count {
            earlier.push((number(&mut rest)?, time_of(number(&mut rest)?)?));
        }
        let is_ordered = earlier
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1);
        if !rest.is_empty() || !is_ordered {
            return Err("the state is out of order");
        }
        Ok(Self {
            epoch,
            claimed_upto,
            earlier,
            next_number,
        })
    }
}

/// The version of the format as it is stored.
pub(crate) fn encode_version(version: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, version);
    seal(0, &mut out, 0);
    out
}

/// The version of a file's format.
pub(crate) fn decode_version(bytes: &[u8]) -> Result<u64, Flaw> {
    let mut rest = unseal(0, bytes)?;
    let version = number(&mut rest)?;
    if rest.is_empty() {
        Ok(version)
    } else {
        Err("the version is too long")
    }
}

/// A part of `meta` that is bytes: a text, or the identity of the store.
pub(crate) fn encode_part(part: &[u8]) -> Vec<u8> {
    let mut out = part.to_vec();
    seal(0, &mut out, 0);
    out
}

/// The bytes of a part of `meta`.
pub(crate) fn decode_part(bytes: &[u8]) -> Result<&[u8], Flaw> {
    unseal(0, bytes)
}
