//! Reading: timers that are armed in quick succession share a reading of the clock.
//!
//! A reading takes 10 ns. What is worse, on the processor that this was measured on it waits for all loads before it, and all loads behind it wait for it: a random load
//! takes 12 ns in a loop, where they overlap, and 186 with a reading between each two. So a thread that has just read the clock dates its next timers by that reading and
//! some slack.
//!
//! Their deadlines are right if they were armed by that date; and somewhat longer, since deadlines are rounded up to ticks: until `good_ns`. Whether they were, the thread
//! sees if it reads the clock again before that. Else the shard sees to it: their messages are **in doubt** (see the lane), and what it takes in after `good_ns` it files so
//! much later. That must not take long. So nothing is shared while the shard sleeps; should it have fallen asleep just then, it is woken.
//!
//! A reading is shared until the shard drains. So what is in doubt was dated after the drain before: the more a shard is held up between two drains, the later it may fire.

use crate::doorbell::Doorbell;
use crate::entry::Entry;
use crate::lane::Sender;
use crate::sync::{Fault, broken};

/// The part of a tick that is the slack.
pub(super) const SLACK: u64 = 128;

/// Timers that share a reading, beside the one that it was made for.
const SHARERS: u32 = if cfg!(loom) { 2 } else { 16 };

/// A reading is shared if timers are armed so quickly that so many fit into the slack.
const FIT: u64 = SHARERS as u64 + 1;

/// A thread shares readings from so many on that came in quick succession. What comes last before a
/// pause is in doubt, and so a tick later than need be: in bursts of a few timers that would be most of
/// them, at full speed it is none.
const STREAK: u32 = if cfg!(loom) { 1 } else { 64 };

/// A thread's latest reading, shared by timers for its home.
#[derive(Debug, Default)]
pub(super) struct Reading {
    at_ns: u64,
    /// Timers that were dated by it.
    dated: u64,
    /// Timers that may still be.
    left: u32,
    /// Readings in quick succession, of this thread, up to this one.
    streak: u32,
    /// What those that share it are dated: the reading, and the slack.
    date_ns: u64,
    /// The deadlines of those are right if they were armed by then.
    good_ns: u64,
    /// Messages that the shard had drained when it was first shared.
    drained: u64,
}

impl Reading {
    /// The date for the next timer; `None` if the clock must be read.
    #[inline]
    pub(super) fn date(&self, lane: &Sender<Entry>, bell: &Doorbell) -> Option<u64> {
        (lane.drained() == self.drained && bell.is_awake()).then_some(self.date_ns) // G1
    }

    /// Whether there may be a date: cheaper than to look for it.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.left > 0
    }

    /// A timer takes the date, and its deadline was rounded up by so much. Returns until when the deadlines are right: to be sent with the timer.
    #[inline]
    pub(super) fn take(&mut self, rounded_ns: u64) -> u64 {
        self.left -= 1;
        self.dated += 1;
        // G2.
        let before_ns = if broken(Fault::ReadingForgetsOthers) { u64::MAX } else { self.good_ns };
        self.good_ns = before_ns.min(self.date_ns + rounded_ns);
        self.good_ns
    }

    /// The clock was read for a timer, which has been sent.
    #[inline]
    pub(super) fn note<'a>(&mut self, now_ns: u64, slack_ns: u64, lane: impl FnOnce() -> Option<&'a mut Sender<Entry>>) {
        // (A reading may be a microsecond before the last one.)
        let took_ns = now_ns.checked_sub(self.at_ns).unwrap_or(u64::MAX);
        let (is_over, is_quick) = (self.dated > 1, took_ns < self.dated * slack_ns / FIT);
        (self.at_ns, self.dated, self.left) = (now_ns, 1, 0);
        self.streak = if is_quick { self.streak.saturating_add(1) } else { 0 };
        let is_shared = self.streak >= STREAK;
        if (is_over || is_shared)
            && let Some(lane) = lane()
        {
            self.renew(is_shared.then_some(slack_ns), lane);
        }
    }

    /// Settles what shared the reading before this one; and lets this one be shared, if there is a slack.
    #[inline(never)]
    fn renew(&mut self, slack_ns: Option<u64>, lane: &mut Sender<Entry>) {
        // They were armed before this reading (G4).
        let has_messages = lane.settle_doubts(self.at_ns <= self.good_ns || broken(Fault::ReadingVouchesBlindly));
        // A drain ends that: there must be something to drain.
        if has_messages && let Some(slack_ns) = slack_ns {
            (self.left, self.date_ns, self.good_ns, self.drained) = (SHARERS, self.at_ns + slack_ns, u64::MAX, lane.drained());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cell::{Payload, Place};
    use crate::doorbell::Look;
    use crate::lane::{Drain, Inbox, Told};
    use crate::service::cells::{Cells, Date};
    use crate::service::core::Core;
    use crate::service::local::Local;
    use std::num::NonZeroU32;

    const SLACK_NS: u64 = 17_000;

    struct Fixture {
        reading: Reading,
        lane: Sender<Entry>,
        drain: Drain<Entry>,
        bell: Doorbell,
        sent: u32,
        /// Whether many came in quick succession before.
        is_quick: bool,
    }

    impl Fixture {
        fn new() -> Self {
            let (inbox, drain) = Inbox::new();
            Self { reading: Reading::default(), lane: inbox.attach(), drain, bell: Doorbell::new(), sent: 0, is_quick: true }
        }

        /// Arms a timer at this time. Its date, and whether the clock was read for it.
        fn arm(&mut self, now_ns: u64, rounded_ns: u64) -> (u64, bool) {
            self.sent += 1;
            if self.is_quick {
                self.reading.streak = STREAK;
            }
            let entry = Entry::new(0, self.sent, 0);
            if self.reading.is_shared()
                && let Some(date_ns) = self.reading.date(&self.lane, &self.bell)
            {
                self.lane.push_in_doubt(entry, self.reading.take(rounded_ns));
                return (date_ns, false);
            }
            self.lane.push(entry);
            self.reading.note(now_ns, SLACK_NS, || Some(&mut self.lane));
            (now_ns, true)
        }

        /// Arms so many, one in so many nanoseconds, from this time on. How many readings that took.
        fn arm_many(&mut self, from_ns: u64, timers: u64, apart_ns: u64) -> usize {
            (0..timers).filter(|timer| self.arm(from_ns + timer * apart_ns, 0).1).count()
        }

        /// What is said of the messages in doubt: their numbers, from 1, and until when they are good.
        fn doubts(&mut self) -> Vec<(u32, u64)> {
            let mut doubts = Vec::new();
            self.drain.drain(
                || (),
                |entry, told| {
                    if let Told::InDoubt(good_ns) = told {
                        doubts.push((entry.cell(), good_ns));
                    }
                },
            );
            doubts
        }
    }

    #[test]
    fn quick_timers_share_a_reading() {
        let mut fixture = Fixture::new();
        let at = 1_000_000;
        assert_eq!((fixture.arm(at, 0), fixture.arm(at + 999, 0)), ((at, true), (at + 999, true)));
        for timer in 0..SHARERS {
            assert_eq!(fixture.arm(at + 1_000, 0), (at + 999 + SLACK_NS, false), "{timer}");
        }
        assert_eq!(fixture.arm(at + 2_000, 0), (at + 2_000, true));
        assert_eq!(fixture.arm_many(at + 3_000, 1_700, 100), 100, "one in 17");
    }

    #[test]
    fn the_first_of_a_burst_do_not() {
        let mut fixture = Fixture::new();
        fixture.is_quick = false;
        for at in [1_000_000, 2_000_000] {
            assert_eq!(fixture.arm_many(at, u64::from(STREAK) + 1, 0), STREAK as usize + 1, "each has its own");
            assert_eq!(fixture.arm_many(at, 16, 0), 0, "those behind do not");
            assert_eq!(fixture.doubts().len(), SHARERS as usize);
        }
    }

    #[test]
    fn slow_ones_do_not() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.arm_many(1_000_000, 100, 1_000), 100);
        fixture.arm_many(2_000_000, 2, 0);
        assert_eq!(fixture.arm_many(2_000_000, 16, 1_000_000), 0, "what comes then is not known");
        assert_eq!(fixture.arm_many(20_000_000, 2, 0), 2, "but after that");
    }

    /// What shares a reading that is followed by another one in time is doubted no more.
    #[test]
    fn what_was_armed_too_late_stays_in_doubt() {
        let mut fixture = Fixture::new();
        let at = 1_000_000;
        fixture.arm_many(at, 2, 0);
        for rounded_ns in [300, 200, 400] {
            assert_eq!(fixture.arm(at, rounded_ns), (at + SLACK_NS, false));
        }
        fixture.reading.left = 0;
        // The last moment that is good for all of them.
        fixture.arm_many(at + SLACK_NS + 200, 3, 0);
        fixture.reading.left = 0;
        // One nanosecond too late for the one that was armed since.
        fixture.arm_many(at + 2 * SLACK_NS + 201, 4, 0);
        let good_ns = at + 2 * SLACK_NS + 200;
        assert_eq!(fixture.doubts(), [(8, good_ns), (11, good_ns), (12, good_ns)], "the least of those around");
    }

    #[test]
    fn one_reading_in_time_vouches_though_it_is_not_shared() {
        let (mut fixture, at) = (Fixture::new(), 1_000_000);
        fixture.arm_many(at, 5, 0);
        fixture.reading.left = 0;
        fixture.arm(at + SLACK_NS, 0);
        assert!(!fixture.reading.is_shared());
        assert_eq!(fixture.doubts(), []);
    }

    /// Nor does what was in doubt before make others later.
    #[test]
    fn a_pause_is_not_counted() {
        let mut fixture = Fixture::new();
        for at in [1_000_000, 3_600_000_000_000, 7_200_000_000_000] {
            fixture.arm_many(at, 3, 0);
            assert_eq!(fixture.doubts(), [(fixture.sent, at + SLACK_NS)]);
        }
    }

    #[test]
    fn nothing_is_shared_without_a_message_to_drain() {
        let mut fixture = Fixture::new();
        fixture.arm_many(1_000_000, 1, 0);
        fixture.doubts();
        fixture.reading.streak = STREAK;
        fixture.reading.note(1_000_000, SLACK_NS, || Some(&mut fixture.lane));
        assert!(!fixture.reading.is_shared(), "nothing would end it");
        assert_eq!(fixture.arm_many(999_999, 2, 0), 2, "back in time is not quick");
        assert!(fixture.reading.is_shared());
    }

    #[test]
    fn a_reading_is_shared_until_a_drain() {
        let mut fixture = Fixture::new();
        fixture.arm_many(1_000_000, 4, 0);
        assert_eq!(fixture.reading.left, SHARERS - 2);
        fixture.doubts();
        assert_eq!(fixture.arm_many(1_000_000, 3, 0), 1);
        assert_eq!(fixture.doubts().len(), 2);
    }

    #[test]
    fn nothing_is_shared_while_the_shard_sleeps() {
        let mut fixture = Fixture::new();
        fixture.arm_many(1_000_000, 4, 0);
        // SAFETY: called once, before the wait, by the only thread there is.
        unsafe { fixture.bell.attach() };
        let Fixture { reading, lane, bell, .. } = &fixture;
        let look = || {
            assert_eq!(reading.date(lane, bell), None);
            Look::Work
        };
        // SAFETY: this thread attached.
        unsafe { bell.wait(10, look) };
        assert!(reading.date(lane, bell).is_some());
    }

    /// Though it is due long after the shard wakes.
    #[test]
    fn a_message_in_doubt_does_not_wait_for_a_shard_that_sleeps() {
        let (core, _drains) = Core::new(NonZeroU32::MIN, 1, usize::MAX);
        let cells = Cells::<u64>::new(core);
        let mut local = Local::attach(&cells.core);
        let place = Place::new(1_000, 0);
        for at_ns in [5; STREAK as usize + 1] {
            cells.schedule(&mut local, place, Payload(0), Date::Read).unwrap();
            local.note_reading(at_ns, SLACK_NS);
        }
        assert_eq!(local.shared_date(), Some(5 + SLACK_NS));
        let bell = cells.core.bell(0);
        // SAFETY: called once, before the wait, by the only thread there is.
        unsafe { bell.attach() };
        let look = || {
            cells.schedule(&mut local, place, Payload(0), Date::Read).unwrap();
            assert_eq!(bell.rings(), 0);
            cells.schedule(&mut local, place, Payload(0), Date::Shared { rounded_ns: 0 }).unwrap();
            assert_eq!(bell.rings(), 1);
            Look::Work
        };
        // SAFETY: this thread attached.
        unsafe { bell.wait(10, look) };
    }

    #[test]
    fn without_slack_nothing_is_shared() {
        let mut reading = Reading::default();
        let (inbox, _drain) = Inbox::new();
        let mut lane = inbox.attach();
        (0..10 * STREAK).for_each(|_| reading.note(5, 0, || Some(&mut lane)));
        assert_eq!(reading.left, 0);
    }
}
