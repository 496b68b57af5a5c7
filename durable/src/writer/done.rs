//! Done: when records of runs are removed next, and how many at once.
//!
//! They go a slice at a time, so that nothing is held up: between two slices the writer rests for
//! three times as long as the slice took. `forget.rs` has the steps.

use crate::store::done::DoneTimer;
use std::time::Duration;

/// How long a slice should take, and where nodes share the store: a statement takes longer there.
pub(super) const SLICE: Duration = Duration::from_millis(2);
pub(super) const SLICE_SHARED: Duration = Duration::from_millis(12);

/// Records of a slice, at first, at least and at most.
const SLICE_FIRST: usize = 256;
const SLICE_LEAST: usize = 64;
const SLICE_MOST: usize = 8_192;

/// The rest after a slice lasts this many times as long as the slice took.
pub(super) const REST: u32 = 3;

/// A look for records whose time is over comes after this part of the time that they are kept, but
/// within these bounds.
pub(super) const LOOK_PART: u32 = 16;
pub(super) const LOOK_LEAST: Duration = Duration::from_secs(1);
pub(super) const LOOK_MOST: Duration = Duration::from_secs(60);

/// A tick of the store's clock.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// When records are removed next.
pub(super) struct DoneWork {
    /// By the node's clock. `None`: there are none.
    pub(super) at: Option<Duration>,
    pub(super) slice: usize,
    /// A run has left a record since the last look.
    pub(super) is_noted: bool,
}

impl Default for DoneWork {
    fn default() -> Self {
        Self {
            at: Some(Duration::ZERO),
            slice: SLICE_FIRST,
            is_noted: false,
        }
    }
}

impl DoneWork {
    /// A run leaves a record, if it has one.
    pub(super) fn note(&mut self, record: Option<&DoneTimer>) {
        self.is_noted |= record.is_some();
    }

    /// A slice was removed. It should take as long as `goal`.
    pub(super) fn follow(&mut self, took: Duration, goal: Duration) {
        if took > goal {
            self.slice = (self.slice / 2).max(SLICE_LEAST);
        } else if took < goal / 2 {
            self.slice = (self.slice * 2).min(SLICE_MOST);
        }
    }
}
