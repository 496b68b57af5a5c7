//! Trim: gives the segments back that the tracks of an inbox keep for reuse.
//!
//! Only the shard calls it. This file has the step TrimFence, and `track.rs` has the others.
//! Protocol and proof: README.md of this room.

use super::inbox::Drain;
use super::pair::Book;
use super::segment::{LEN, RECENT};
use crate::sync::{Fault, broken, heavy_fence};

/// If `trim_unused` keeps more segments than this, it has to be called again, even if nothing is
/// sent.
const KEPT_MAX: u64 = 64;

impl<M: Copy> Drain<M> {
    /// Frees the segments that the tracks keep for reuse, except the newest of each track. Leaves
    /// out deferred tracks in which messages wait.
    pub(crate) fn trim(&mut self) {
        self.keeps = false;
        self.trim_beyond(|book, track, _| match track {
            1 if book.deferral.is_open() => u64::MAX,
            _ => RECENT as u64,
        });
    }

    /// Frees the segments that the tracks keep beyond as many as were sent since the last call,
    /// except the newest segments of each track.
    pub(crate) fn trim_unused(&mut self) {
        let mut kept = 0;
        self.trim_beyond(|book, track, published| {
            let before = std::mem::replace(&mut book.looked[track], published);
            let sent = (published - before).div_ceil(LEN as u64);
            kept += sent;
            sent + RECENT as u64
        });
        self.keeps = kept > KEPT_MAX;
    }

    /// Whether `trim_unused` should be called again, because the last call has kept segments that
    /// may no longer be needed.
    pub(crate) fn keeps_segments(&self) -> bool {
        self.keeps
    }

    /// Trims the tracks. `beyond` says how many segments stay. It gets the number of each track in
    /// its lane, and how many messages were published.
    fn trim_beyond(&mut self, mut beyond: impl FnMut(&mut Book<M>, usize, u64) -> u64) {
        let mut is_fenced = broken(Fault::LaneTrimUnfenced);
        // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
        let lanes = unsafe { self.inbox.lanes() };
        for lane in lanes {
            let trim = |book: &mut Book<M>| {
                // Most lanes never had a message in the deferred track.
                let used = 1 + usize::from(book.has_deferred);
                for number in 0..used {
                    let track = if number == 0 {
                        &lane.express
                    } else {
                        &lane.deferred
                    };
                    let beyond = beyond(book, number, track.published());
                    if beyond == u64::MAX || !track.has_spare(beyond) {
                        continue;
                    }
                    if number > 0 && book.deferral.is_open() && !is_fenced {
                        is_fenced = true;
                        // Ordering: full (TrimFence). Pairs with RecallEnter's fence: PassDead
                        // has claimed messages without one.
                        heavy_fence();
                    }
                    track.trim(beyond);
                }
            };
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            unsafe { lane.with_book(trim) };
        }
    }
}
