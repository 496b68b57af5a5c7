//! Anchor: a pair of readings, counter and `Instant`, on which arming times are laid for a
//! millisecond.
//!
//! Each thread that arms has one, and so has each delay queue; nobody else touches it.
//!
//! # What it may rely on
//!
//! The counter's rate was measured once in the process. `Instant` may leave it all the same. A time
//! server slews the clock: chrony by up to 8 %, Linux by 10 % at most. A machine that moves to
//! another host may get a counter of another rate. On old machines counters differ between cores.
//! So each new anchor is held against the one before it:
//!
//!  - They agree: the counter is used for a further millisecond.
//!  - They do not agree: the counter is in doubt. Each reading is one of `Instant`, for 16 ms. Then
//!    the counter is used again, by its former rate if that is right by now, or else by what it has
//!    counted in that time. After each further doubt the rest is twice as long, up to 65 s: a
//!    counter that jumps now and then is used rarely.
//!  - There is none before it, in a new thread: the counter is used after a millisecond in which it
//!    was right.
//!
//! Limit: a time that is laid on an anchor may be too early by as much as the clocks part while
//! that anchor is used. In a steady slew that is no longer than until the next anchor, or the next
//! but one if the thread has paused: then the slew may be a small part of the time between them.

use super::rate::{Pair, Rate};

/// The greatest time between the readings of an anchor.
const WIDTH_MAX_NS: u64 = 1_000;

/// The greatest age of an anchor. The bias is 1/1024 of that: below 1 us.
const AGE_MAX_NS: u32 = 1_000_000;

/// How long a new thread holds the counter against `Instant` before it uses it.
const PROBATION_NS: u64 = 1_000_000;

/// How long a counter in doubt is not used, the first time. Long enough to measure its rate: two
/// pairs as wide as they may be are an eighth of the bias.
const REST_NS: u64 = 16_000_000;

/// The most times that the rest doubles.
const DOUBLINGS_MAX: u32 = 12;

/// A thread's latest pair of readings, and what it knows of the counter.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    counter: u64,
    nanos: u64,
    /// It is valid for fewer counts than this: 0 is no anchor.
    valid_counts: u64,
    /// With the bias.
    rate: Rate,
    watch: Watch,
    /// How often the counter was in doubt.
    doubts: u32,
}

/// What a thread knows of the counter.
#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    #[default]
    New,
    /// The counter is not used before this time.
    Rests { base: Pair, until_ns: u64 },
    /// The counter had this rate at its last pair.
    Agrees { base: Pair, rate: Rate },
}

impl Anchor {
    /// The time that the counter shows. `None` if there is no anchor any more.
    #[inline]
    pub(super) fn time_ns(&self, counter: u64) -> Option<u64> {
        // If the counter went back, this is more than any anchor is valid for.
        let counts = counter.wrapping_sub(self.counter);
        (counts < self.valid_counts).then(|| self.nanos + self.rate.few_nanos(counts))
    }

    /// Reads the time, and takes an anchor if it can. `rate` is the rate that the process has
    /// measured.
    pub(super) fn renew(
        &mut self,
        rate: Rate,
        now_ns: impl Fn() -> u64,
        counter: impl Fn() -> u64,
    ) -> u64 {
        self.valid_counts = 0;
        if let Watch::Rests { until_ns, .. } = self.watch {
            let now_ns = now_ns();
            if now_ns < until_ns {
                return now_ns;
            }
        }
        let pair = Pair::read(now_ns, counter);
        // If the thread was interrupted in between, all times would be later by that.
        if pair.width_ns() <= WIDTH_MAX_NS {
            self.note(rate, pair);
        }
        pair.after_ns
    }

    fn note(&mut self, of_the_process: Rate, pair: Pair) {
        let agrees = |base, rate: &Rate| !rate.is_wrong(base, pair);
        let rate = match self.watch {
            Watch::New => {
                self.rest(pair, PROBATION_NS);
                return;
            }
            Watch::Agrees { base, rate } => Some(rate).filter(|rate| agrees(base, rate)),
            Watch::Rests { base, until_ns } => {
                let has_rested = until_ns - base.after_ns >= REST_NS;
                let measured = || Rate::measured(base, pair).filter(|_| has_rested);
                Some(of_the_process)
                    .filter(|rate| agrees(base, rate))
                    .or_else(measured)
            }
        };
        // A counter so slow that a millisecond has no count is of no use.
        match rate.map(|rate| (rate, rate.counts(AGE_MAX_NS))) {
            None | Some((_, 0)) => {
                self.rest(pair, REST_NS << self.doubts.min(DOUBLINGS_MAX));
                self.doubts += 1;
            }
            Some((rate, valid_counts)) => {
                // The counter was read before `after_ns`: that makes times later, not earlier.
                (self.counter, self.nanos) = (pair.counter, pair.after_ns);
                (self.rate, self.valid_counts) = (rate.with_bias(), valid_counts);
                self.watch = Watch::Agrees { base: pair, rate };
            }
        }
    }

    fn rest(&mut self, base: Pair, rest_ns: u64) {
        self.watch = Watch::Rests {
            base,
            until_ns: base.after_ns.saturating_add(rest_ns),
        };
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/anchor.rs"]
mod tests;
