//! Shared clock: a reading of the clock that several timers of a thread share.
//!
//! Each [`Local`](super::Local) owns one; its thread alone touches it. README.md of this
//! room has the protocol (ShareCheck to ShareFile) and its proof.
//!
//! # Why
//!
//! A reading takes 10 ns. It also waits for all loads before it, and all loads after it wait for
//! it, on the processor of the measurement: a random load takes 12 ns in a loop, where loads
//! overlap, and 186 ns with a reading between each two. So a thread that has just read the clock
//! dates its next timers by that reading plus a slack.
//!
//! # How it works
//!
//! - A deadline is right if its timer was armed by that date. It stays right for somewhat longer,
//!   because deadlines are rounded up to ticks: until `good_ns`.
//! - The thread sees that it was right if it reads the clock again before `good_ns`.
//! - Else the shard sees to it. The messages are **in doubt** (see the lane): the shard files a
//!   message that it takes in after `good_ns` later by the difference.
//! - Nothing is shared while the shard sleeps. A shard that has fallen asleep just then is woken.
//! - A reading is shared until the shard drains. So a message in doubt was dated after the drain
//!   before.
//!
//! Limit: the longer a shard is held up between two drains, the later such a timer may fire.

use crate::doorbell::Doorbell;
use crate::entry::Entry;
use crate::lane::Sender;
use crate::sync::{Fault, broken};

/// The slack is at least a tick divided by this.
const SLACK_PART: u64 = 128;

/// Where that is less, the slack is a tick divided by this, up to `SLACK_NS`: what it is at a tick
/// of 1 ms. So timers share readings at finer ticks as well.
const SLACK_PART_FINE: u64 = 16;
const SLACK_NS: u64 = 1_000_000 / SLACK_PART;

/// By how much a timer that shares a reading is later at most, in nanoseconds.
pub(crate) fn slack_ns(tick_ns: u64) -> u64 {
    (tick_ns / SLACK_PART).max(SLACK_NS.min(tick_ns / SLACK_PART_FINE))
}

/// The most timers that share a reading, beside the timer for which it was made.
const SHARERS: u32 = if cfg!(loom) { 2 } else { 16 };

/// A reading is shared if timers are armed so quickly that this many fit into the slack.
const FIT: u64 = SHARERS as u64 + 1;

/// A thread shares readings after this many readings in quick succession. The last timers before a
/// pause stay in doubt, and so fire later than necessary, by the time to the next drain and a tick.
/// In bursts of a few timers most timers would be such; at full speed none is.
const STREAK: u32 = if cfg!(loom) { 1 } else { 64 };

/// A thread's latest reading, shared by timers for its home shard.
#[derive(Debug, Default)]
pub(super) struct SharedClock {
    at_ns: u64,
    /// Timers that were dated by the reading.
    dated: u64,
    /// Timers that may still be dated by it.
    left: u32,
    /// Readings of this thread in quick succession, up to this one.
    streak: u32,
    /// The date of the timers that share it: the reading plus the slack.
    date_ns: u64,
    /// The deadlines of these timers are right if they were armed by then.
    good_ns: u64,
    /// Messages that the shard had seen when the reading was first shared.
    seen: u64,
}

impl SharedClock {
    /// ShareCheck. The date for the next timer; `None` if the clock must be read.
    #[inline]
    pub(crate) fn date(&self, lane: &Sender<Entry>, bell: &Doorbell) -> Option<u64> {
        (lane.seen() == self.seen && bell.is_awake()).then_some(self.date_ns)
    }

    /// Whether there may be a date. Cheaper than `date`.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.left > 0
    }

    /// ShareDate. A timer takes the date; its deadline was rounded up by `rounded_ns`. Returns
    /// until when the deadlines are right, to be sent with the timer.
    #[inline]
    pub(crate) fn take(&mut self, rounded_ns: u64) -> u64 {
        self.left -= 1;
        self.dated += 1;
        let before_ns = if broken(Fault::ReadingForgetsOthers) {
            u64::MAX
        } else {
            self.good_ns
        };
        self.good_ns = before_ns.min(self.date_ns + rounded_ns);
        self.good_ns
    }

    /// Notes a reading of the clock for a timer, which has been sent.
    #[inline]
    pub(crate) fn note<'a>(
        &mut self,
        now_ns: u64,
        slack_ns: u64,
        lane: impl FnOnce() -> Option<&'a mut Sender<Entry>>,
    ) {
        // A reading may be up to a microsecond before the last one.
        let took_ns = now_ns.checked_sub(self.at_ns).unwrap_or(u64::MAX);
        let (is_over, is_quick) = (self.dated > 1, took_ns < self.dated * slack_ns / FIT);
        (self.at_ns, self.dated, self.left) = (now_ns, 1, 0);
        self.streak = if is_quick {
            self.streak.saturating_add(1)
        } else {
            0
        };
        let is_shared = self.streak >= STREAK;
        if (is_over || is_shared)
            && let Some(lane) = lane()
        {
            self.renew(is_shared.then_some(slack_ns), lane);
        }
    }

    /// ShareVouch. Settles the timers that shared the reading before this one. Lets this reading be
    /// shared, if there is a slack.
    #[inline(never)]
    fn renew(&mut self, slack_ns: Option<u64>, lane: &mut Sender<Entry>) {
        // These timers were armed before this reading.
        let has_messages =
            lane.settle_doubts(self.at_ns <= self.good_ns || broken(Fault::ReadingVouchesBlindly));
        // A drain ends the sharing, so there must be something to drain.
        if has_messages && let Some(slack_ns) = slack_ns {
            (self.left, self.date_ns, self.good_ns, self.seen) =
                (SHARERS, self.at_ns + slack_ns, u64::MAX, lane.seen());
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/shared_clock.rs"]
mod tests;
