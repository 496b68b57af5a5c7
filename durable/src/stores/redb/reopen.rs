//! Reopen: what a file is known to have, when its store has failed and it is opened again in the
//! same process.
//!
//! Nothing that was read before is kept. If the file has the epoch that this process has begun, no
//! other process has had it meanwhile, because each one begins an epoch of its own before it does
//! anything else. Then the epoch goes on: what handlers have in hand is still theirs, and no row
//! becomes a suspect. Otherwise a new epoch begins, as after a crash.
//!
//! A file that lacks what this process has stored is not gone on with: it is an older copy, or
//! another store. What was acknowledged is not in it. Nor is a file that has been written meanwhile
//! by something else than a store: an older copy may have been put into it. Its numbers may be
//! those that are known, because most commits do not change them.

use super::file::{FileStamp, OpenPath};
use super::row_changes::NUMBERS_AHEAD;
use super::state::StoreState;
use crate::store::row::StoreTime;
use std::io;
use std::path::PathBuf;

/// Numbers that the processes of one epoch give at most. A file with higher ones is another store:
/// the numbers of each begin by chance, in 62 bits.
const NUMBERS_OF_EPOCH_MAX: u64 = 1 << 40;

/// What a file is known to have: what the calls have stored that have returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) epoch: u64,
    claimed_upto: Option<StoreTime>,
    next_number: u64,
    /// The next number that this process gives. A call whose outcome is not known may have stored
    /// rows with lower ones.
    pub(super) next: u64,
}

impl Known {
    /// After a call that has returned.
    pub(super) fn of(state: &StoreState, next: u64) -> Self {
        Self {
            epoch: state.epoch,
            claimed_upto: state.claimed_upto,
            next_number: state.next_number,
            next,
        }
    }

    /// The watermark is about to go.
    pub(super) fn release(&mut self) {
        self.claimed_upto = None;
    }

    /// Whether a file with this state has all that is known, and is the same store.
    pub(super) fn is_in(&self, state: &StoreState) -> bool {
        let is_later = state.epoch >= self.epoch && state.next_number >= self.next_number;
        let more = match state.epoch.saturating_sub(self.epoch) {
            0 => NUMBERS_AHEAD,
            lives => lives.saturating_mul(NUMBERS_OF_EPOCH_MAX),
        };
        let is_near = state.next_number <= self.next_number.max(self.next).saturating_add(more);
        // (An epoch that has ended well has no watermark.)
        let is_claimed = state.epoch > self.epoch || state.claimed_upto >= self.claimed_upto;
        is_later && is_near && is_claimed
    }
}

/// A file as this process has left it, since its store has failed.
#[derive(Debug)]
pub(super) struct LeftFile {
    path: PathBuf,
    stamp: Option<FileStamp>,
    /// Somebody else has written to it.
    pub(super) is_changed: bool,
}

impl LeftFile {
    /// The file that is open now.
    pub(super) fn of(opened: &OpenPath) -> Self {
        Self {
            path: opened.path().into(),
            stamp: opened.stamp().ok(),
            is_changed: false,
        }
    }

    /// Looks whether the file is as it was left, before this process goes on with it.
    pub(super) fn look(&mut self, opened: Option<&OpenPath>) {
        if let (Some(left), Ok(now)) = (self.stamp, self.now(opened)) {
            // (While another file is there, nothing is known of this one.)
            self.is_changed |= left.id == now.id && left != now;
        }
    }

    /// Notes how this process leaves the file.
    pub(super) fn leave(&mut self, opened: Option<&OpenPath>) {
        if let Ok(now) = self.now(opened)
            && self.stamp.is_none_or(|left| left.id == now.id)
        {
            self.stamp = Some(now);
        }
    }

    fn now(&self, opened: Option<&OpenPath>) -> io::Result<FileStamp> {
        opened.map_or_else(|| FileStamp::at(&self.path), OpenPath::stamp)
    }
}
