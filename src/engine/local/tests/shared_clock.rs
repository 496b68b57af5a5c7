//! Shared clock: which timers share a reading, and which stay in doubt.

use super::*;
use crate::cell::{DueAt, Payload};
use crate::doorbell::SecondLook;
use crate::engine::cells::Cells;
use crate::engine::life::arm::Dating;
use crate::engine::local::Local;
use crate::engine::shared::Shared;
use crate::lane::{Arrival, Drain, Inbox, Present, Taker};
use crate::time::{Clock, TickLength};
use std::num::NonZeroU32;

const SLACK_NS: u64 = 17_000;

/// Takes messages, and notes those in doubt.
struct Doubts(Vec<(u32, u64)>);

impl Taker<Entry> for Doubts {
    fn take(&mut self, entry: Entry, arrival: Arrival) {
        if let Arrival::InDoubt(good_ns) = arrival {
            self.0.push((entry.cell(), good_ns));
        }
    }

    fn present(&self) -> Present {
        Present {
            now: 0,
            pace: 1,
            patience: 1,
            dead: 0,
        }
    }
}

struct Fixture {
    shared_clock: SharedClock,
    lane: Sender<Entry>,
    drain: Drain<Entry>,
    bell: Doorbell,
    sent: u32,
    /// Whether the thread has armed many timers in quick succession before.
    is_quick: bool,
}

impl Fixture {
    fn new() -> Self {
        let (inbox, drain) = Inbox::new();
        Self {
            shared_clock: SharedClock::default(),
            lane: inbox.attach(),
            drain,
            bell: Doorbell::new(),
            sent: 0,
            is_quick: true,
        }
    }

    /// Arms a timer at this time. Returns its date, and whether the clock was read for it.
    fn arm(&mut self, now_ns: u64, rounded_ns: u64) -> (u64, bool) {
        self.sent += 1;
        if self.is_quick {
            self.shared_clock.streak = STREAK;
        }
        let entry = Entry::new(0, self.sent, 0);
        if self.shared_clock.is_shared()
            && let Some(date_ns) = self.shared_clock.date(&self.lane, &self.bell)
        {
            self.lane
                .push_in_doubt(entry, 0, self.shared_clock.take(rounded_ns));
            return (date_ns, false);
        }
        self.lane.push(entry);
        self.shared_clock
            .note(now_ns, SLACK_NS, || Some(&mut self.lane));
        (now_ns, true)
    }

    /// Arms `timers` timers from this time on, `apart_ns` apart. Returns how many readings of the
    /// clock that took.
    fn arm_many(&mut self, from_ns: u64, timers: u64, apart_ns: u64) -> usize {
        (0..timers)
            .filter(|timer| self.arm(from_ns + timer * apart_ns, 0).1)
            .count()
    }

    /// Drains. Returns the messages in doubt: their numbers, from 1, and until when they are good.
    fn doubts(&mut self) -> Vec<(u32, u64)> {
        let mut doubts = Doubts(Vec::new());
        self.drain.drain(&mut doubts);
        doubts.0
    }
}

#[test]
fn quick_timers_share_a_reading() {
    let mut fixture = Fixture::new();
    let at = 1_000_000;
    assert_eq!(
        (fixture.arm(at, 0), fixture.arm(at + 999, 0)),
        ((at, true), (at + 999, true))
    );
    for timer in 0..SHARERS {
        assert_eq!(
            fixture.arm(at + 1_000, 0),
            (at + 999 + SLACK_NS, false),
            "{timer}"
        );
    }
    assert_eq!(fixture.arm(at + 2_000, 0), (at + 2_000, true));
    assert_eq!(fixture.arm_many(at + 3_000, 1_700, 100), 100, "one in 17");
}

#[test]
fn the_first_of_a_burst_do_not() {
    let mut fixture = Fixture::new();
    fixture.is_quick = false;
    for at in [1_000_000, 2_000_000] {
        assert_eq!(
            fixture.arm_many(at, u64::from(STREAK) + 1, 0),
            STREAK as usize + 1,
            "each timer has its own reading"
        );
        assert_eq!(fixture.arm_many(at, 16, 0), 0, "later timers share one");
        assert_eq!(fixture.doubts().len(), SHARERS as usize);
    }
}

#[test]
fn slow_ones_do_not() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.arm_many(1_000_000, 100, 1_000), 100);
    fixture.arm_many(2_000_000, 2, 0);
    assert_eq!(
        fixture.arm_many(2_000_000, 16, 1_000_000),
        0,
        "they share: nobody knows when the next timer comes"
    );
    assert_eq!(
        fixture.arm_many(20_000_000, 2, 0),
        2,
        "then they do not share"
    );
}

/// A timer whose reading is followed in time by another reading is no longer in doubt.
#[test]
fn what_was_armed_too_late_stays_in_doubt() {
    let mut fixture = Fixture::new();
    let at = 1_000_000;
    fixture.arm_many(at, 2, 0);
    for rounded_ns in [300, 200, 400] {
        assert_eq!(fixture.arm(at, rounded_ns), (at + SLACK_NS, false));
    }
    fixture.shared_clock.left = 0;
    // The last moment that is good for all three timers.
    fixture.arm_many(at + SLACK_NS + 200, 3, 0);
    fixture.shared_clock.left = 0;
    // One nanosecond too late for the timer that was armed since.
    fixture.arm_many(at + 2 * SLACK_NS + 201, 4, 0);
    let good_ns = at + 2 * SLACK_NS + 200;
    assert_eq!(
        fixture.doubts(),
        [(8, good_ns), (11, good_ns), (12, good_ns)],
        "the least word of the messages around"
    );
}

#[test]
fn one_reading_in_time_vouches_though_it_is_not_shared() {
    let (mut fixture, at) = (Fixture::new(), 1_000_000);
    fixture.arm_many(at, 5, 0);
    fixture.shared_clock.left = 0;
    fixture.arm(at + SLACK_NS, 0);
    assert!(!fixture.shared_clock.is_shared());
    assert_eq!(fixture.doubts(), []);
}

/// A message that was in doubt before the pause does not make later timers late.
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
    fixture.shared_clock.streak = STREAK;
    fixture
        .shared_clock
        .note(1_000_000, SLACK_NS, || Some(&mut fixture.lane));
    assert!(!fixture.shared_clock.is_shared(), "nothing would end it");
    assert_eq!(
        fixture.arm_many(999_999, 2, 0),
        2,
        "back in time is not quick"
    );
    assert!(fixture.shared_clock.is_shared());
}

#[test]
fn a_reading_is_shared_until_a_drain() {
    let mut fixture = Fixture::new();
    fixture.arm_many(1_000_000, 4, 0);
    assert_eq!(fixture.shared_clock.left, SHARERS - 2);
    fixture.doubts();
    assert_eq!(fixture.arm_many(1_000_000, 3, 0), 1);
    assert_eq!(fixture.doubts().len(), 2);
}

#[test]
fn nothing_is_shared_while_the_shard_sleeps() {
    let mut fixture = Fixture::new();
    fixture.arm_many(1_000_000, 4, 0);
    // SAFETY: called once, before the wait, by the only thread.
    unsafe { fixture.bell.attach() };
    let Fixture {
        shared_clock,
        lane,
        bell,
        ..
    } = &fixture;
    let look = || {
        assert_eq!(shared_clock.date(lane, bell), None);
        SecondLook::Work
    };
    // SAFETY: this thread attached.
    unsafe { bell.wait(10, look) };
    assert!(shared_clock.date(lane, bell).is_some());
}

/// Even if it is due long after the shard wakes.
#[test]
fn a_message_in_doubt_does_not_wait_for_a_shard_that_sleeps() {
    let (shared, _drains) = Shared::new(NonZeroU32::MIN, 1, usize::MAX, false);
    let cells = Cells::<u64>::new(shared, Clock::monotonic(), TickLength::new(1_000_000));
    let mut local = Local::attach(&cells.shared);
    let due_at = DueAt::new(1_000, 0);
    for at_ns in [5; STREAK as usize + 1] {
        cells
            .admit(&mut local, due_at, Payload(0), Dating::Exact)
            .unwrap();
        local.note_reading(at_ns, SLACK_NS);
    }
    assert_eq!(local.shared_date(), Some(5 + SLACK_NS));
    let bell = cells.shared.bell(0);
    // SAFETY: called once, before the wait, by the only thread.
    unsafe { bell.attach() };
    let look = || {
        cells
            .admit(&mut local, due_at, Payload(0), Dating::Exact)
            .unwrap();
        assert_eq!(bell.rings(), 0);
        cells
            .admit(
                &mut local,
                due_at,
                Payload(0),
                Dating::Shared { rounded_ns: 0 },
            )
            .unwrap();
        assert_eq!(bell.rings(), 1);
        SecondLook::Work
    };
    // SAFETY: this thread attached.
    unsafe { bell.wait(10, look) };
}

#[test]
fn without_slack_nothing_is_shared() {
    let mut shared_clock = SharedClock::default();
    let (inbox, _drain) = Inbox::new();
    let mut lane = inbox.attach();
    (0..10 * STREAK).for_each(|_| shared_clock.note(5, 0, || Some(&mut lane)));
    assert_eq!(shared_clock.left, 0);
}

/// At a tick of 1 ms or more a 128th of it; as much at finer ticks, down to a 16th of the tick.
#[test]
fn the_slack_follows_the_tick() {
    let ticks = [
        1_000, 50_000, 100_000, 125_000, 200_000, 1_000_000, 16_000_000,
    ];
    let slacks = [62, 3_125, 6_250, 7_812, 7_812, 7_812, 125_000];
    assert_eq!(ticks.map(slack_ns), slacks);
}
