//! Directory: finds a track's segment by the number of a message.
//!
//! Only the producer has it. It holds the segments that the shard has not read to the end, and the
//! newest `RECENT`. So a recall finds each message that is not claimed, in O(1).

use super::segment::{LEN, RECENT, Segment};
use std::ptr;

/// Segment number `i` is at `i % segments.len()`. The length is a power of two.
pub(super) struct Directory<M> {
    segments: Box<[*mut Segment<M>]>,
}

/// The least length.
const MIN: usize = RECENT.next_power_of_two();

/// A directory of up to this length, 32 KiB, is kept.
const KEPT: usize = 4096;

impl<M> Directory<M> {
    pub(super) fn new() -> Self {
        Self {
            segments: Box::new([ptr::null_mut(); MIN]),
        }
    }

    /// The segment of a message. This is right only if the message was not read, or lies in one of
    /// the newest `RECENT` segments.
    #[inline]
    pub(super) fn at(&self, number: u64) -> *mut Segment<M> {
        let mask = self.segments.len() - 1;
        self.segments[(number / LEN as u64) as usize & mask]
    }

    /// Adds the segment that begins with the message `begin`. The messages below `head` were read.
    /// Allocates if the segments do not fit, or if a large directory has much more room than they
    /// need.
    pub(super) fn add(&mut self, begin: u64, segment: *mut Segment<M>, head: u64) {
        let number = begin / LEN as u64;
        let needed = (number - head / LEN as u64 + 1) as usize;
        let len = self.segments.len();
        if needed > len {
            self.resize(number, 2 * needed);
        } else if len > KEPT && needed < KEPT / 8 {
            self.resize(number, KEPT);
        }
        let mask = self.segments.len() - 1;
        self.segments[number as usize & mask] = segment;
    }

    /// Makes room for `len` segments: segment `number` and those before it.
    #[cold]
    fn resize(&mut self, number: u64, len: usize) {
        let len = len.next_power_of_two().max(MIN);
        let mut segments = vec![ptr::null_mut(); len].into_boxed_slice();
        let kept = self.segments.len().min(len).min(number as usize) as u64;
        for number in number - kept..number {
            segments[number as usize & (len - 1)] = self.at(number * LEN as u64);
        }
        self.segments = segments;
    }
}
