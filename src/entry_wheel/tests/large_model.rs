//! Large slots against a map: thousands of timers at once, at the edges of levels, cancelled before
//! and after their cascade.

use super::large::{MOVED_MAX, entry};
use super::{PACE, check};
use crate::entry::DEADLINE_MAX;
use crate::entry_wheel::slot::LARGE_SLOT;
use crate::entry_wheel::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::mem;

#[derive(Clone, Debug)]
enum Step {
    /// Arms timers: how many, how far ahead, over how many ticks.
    Insert(u32, u64, u64),
    /// Cancels a share of the timers that were armed last, in percent.
    Cancel(u32),
    /// Inserts dead entries, tombstones first: how many, how far ahead.
    Reversed(u32, u64),
    Advance(u64),
    ToNext(u32),
    Settle,
    Tidy,
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        (1u32..6, -1i64..=1)
            .prop_map(|(level, off)| (1u64 << (8 * level)).saturating_add_signed(off)),
        1u64..100_000
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let many = || {
        prop_oneof![
            100u32..1000,
            LARGE_SLOT - 1..LARGE_SLOT + 2,
            8_000u32..30_000
        ]
    };
    prop_oneof![
        4 => (many(), span(), prop_oneof![Just(1u64), 1u64..70_000])
            .prop_map(|(count, span, width)| Step::Insert(count, span, width)),
        3 => (1u32..=100).prop_map(Step::Cancel),
        1 => (many(), span()).prop_map(|(count, span)| Step::Reversed(count, span)),
        2 => span().prop_map(Step::Advance),
        4 => (1u32..300).prop_map(Step::ToNext),
        1 => Just(Step::Settle),
        1 => Just(Step::Tidy),
    ]
}

/// A wheel and what it should hold.
struct Model {
    wheel: EntryWheel,
    now: u64,
    cells: u32,
    /// Deadlines by cell, and whether the timer is alive.
    timers: HashMap<u32, (u64, bool)>,
}

impl Model {
    fn insert(&mut self, deadline: u64, is_alive: bool) -> Entry {
        self.cells += 1;
        self.timers.insert(self.cells, (deadline, is_alive));
        entry(deadline, self.cells)
    }

    fn advance(&mut self, now: u64) {
        let mut last = mem::replace(&mut self.now, now) + 1;
        loop {
            let moved = self.wheel.parts.moved;
            let is_more = self.wheel.advance(now, 5_000, |entries| {
                for entry in entries {
                    assert!(
                        last <= entry.deadline() && entry.deadline() <= now,
                        "{entry:?} comes at {now}, after {last}"
                    );
                    last = entry.deadline();
                    let timer = self.timers.remove(&entry.cell());
                    assert_eq!(
                        timer.map(|(deadline, _)| deadline),
                        Some(entry.deadline()),
                        "{entry:?} came twice or from nowhere"
                    );
                }
            });
            assert!(self.wheel.parts.moved - moved <= MOVED_MAX + BUDGETS_EARNED * PACE);
            if !is_more {
                break;
            }
        }
    }

    /// Forgets the timers whose time is over: all of them came, but for cancelled ones.
    fn forget_past(&mut self) {
        let now = self.now;
        self.timers.retain(|_, (deadline, is_alive)| {
            assert!(
                *deadline > now || !*is_alive,
                "one for {deadline} has not come at {now}"
            );
            *deadline > now
        });
    }

    /// Cancels this share of the last 30,000 timers, but not the far one.
    fn cancel(&mut self, percent: u32, far: Entry) {
        let from = self.cells.saturating_sub(30_000);
        let is_chosen = |cell: &u32| *cell != far.cell() && cell.wrapping_mul(61) % 100 < percent;
        for cell in (from..=self.cells).filter(is_chosen) {
            if let Some((deadline, is_alive)) =
                self.timers.get_mut(&cell).filter(|(_, is_alive)| *is_alive)
            {
                *is_alive = false;
                self.wheel.accept(entry(*deadline, cell).tombstone());
            }
        }
    }

    fn run(&mut self, step: Step, far: Entry) {
        match step {
            Step::Insert(count, span, width) => {
                for number in 0..u64::from(count) {
                    let off = number.wrapping_mul(2_654_435_761) % width;
                    let entry = self.insert(self.now + span + off, true);
                    self.wheel.accept(entry);
                }
            }
            Step::Cancel(percent) => self.cancel(percent, far),
            Step::Reversed(count, span) => {
                let entries: Vec<_> = (0..count)
                    .map(|_| self.insert(self.now + span, false))
                    .collect();
                for entry in &entries {
                    self.wheel.accept(entry.tombstone());
                }
                for &entry in &entries {
                    self.wheel.accept(entry);
                }
            }
            Step::Advance(span) => self.advance(self.now + span),
            Step::ToNext(times) => {
                for _ in 0..times {
                    let next = self.wheel.next_event();
                    let Some(next) = next.filter(|&next| next < DEADLINE_MAX) else {
                        break;
                    };
                    self.advance(next.max(self.now + 1));
                }
            }
            Step::Settle => while self.wheel.settle() {},
            Step::Tidy => _ = self.wheel.tidy(),
        }
        self.forget_past();
    }

    /// The earliest live deadline.
    fn first(&self) -> Option<u64> {
        let live = self.timers.values().filter(|(_, is_alive)| *is_alive);
        live.map(|&(deadline, _)| deadline).min()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn large_slots_do_what_a_map_does(
        level in 1u32..6,
        times in prop_oneof![Just(1u64), Just(5), Just(255)],
        off in prop_oneof![0u64..3, 0u64..1000],
        pace in prop_oneof![Just(PACE), 20u64..2000],
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let now = (times << (8 * level)) + 1 - off.min(255);
        let wheel = EntryWheel::new(now, pace);
        let mut model = Model { wheel, now, cells: 0, timers: HashMap::new() };
        // One far timer is always there.
        let far = model.insert(DEADLINE_MAX, true);
        model.wheel.accept(far);
        for step in steps {
            model.run(step, far);
            check(&model.wheel);
            let next = model.wheel.next_event();
            prop_assert!(
                model.first().is_none_or(|first| next.is_some_and(|next| next <= first)),
                "sleeps past a deadline"
            );
        }
        model.advance(DEADLINE_MAX);
        model.forget_past();
        prop_assert_eq!((model.wheel.len(), model.wheel.next_event()), (0, None));
    }
}
