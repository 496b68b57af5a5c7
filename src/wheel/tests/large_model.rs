//! Large slots against a map: thousands of timers at once, at the edges of levels, cancelled before and after they are cascaded.

use super::large::{MOVED_MAX, entry};
use super::{PACE, check};
use crate::entry::DEADLINE_MAX;
use crate::wheel::slot::LARGE_SLOT;
use crate::wheel::*;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    /// So many timers, that far ahead, over so many ticks.
    Insert(u32, u64, u64),
    /// Cancels a share of those that were armed last, in percent.
    Cancel(u32),
    /// The same, of timers that are only armed afterwards.
    Reversed(u32, u64),
    Advance(u64),
    ToNext(u32),
    Settle,
    Tidy,
}

fn span() -> impl Strategy<Value = u64> {
    prop_oneof![(1u32..6, -1i64..=1).prop_map(|(level, off)| (1u64 << (8 * level)).saturating_add_signed(off)), 1u64..100_000]
}

fn step() -> impl Strategy<Value = Step> {
    let many = || prop_oneof![100u32..1000, LARGE_SLOT - 1..LARGE_SLOT + 2, 8_000u32..30_000];
    prop_oneof![
        4 => (many(), span(), prop_oneof![Just(1u64), 1u64..70_000]).prop_map(|(count, span, width)| Step::Insert(count, span, width)),
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
        self.now = now;
        let mut last = 0;
        let timers = &mut self.timers;
        loop {
            let moved = self.wheel.stock.moved;
            let is_more = self.wheel.advance(now, 5_000, |entries| {
                for entry in entries {
                    assert!(last <= entry.deadline() && entry.deadline() <= now);
                    last = entry.deadline();
                    let timer = timers.remove(&entry.cell());
                    assert_eq!(timer.map(|(deadline, _)| deadline), Some(entry.deadline()), "{entry:?} came twice or from nowhere");
                }
            });
            assert!(self.wheel.stock.moved - moved <= MOVED_MAX);
            if !is_more {
                break;
            }
        }
        timers.retain(|_, (deadline, is_alive)| {
            assert!(*deadline > now || !*is_alive, "one for {deadline} has not come at {now}");
            *deadline > now
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn large_slots_do_what_a_map_does(level in 1u32..6, times in prop_oneof![Just(1u64), Just(5), Just(255)], off in prop_oneof![0u64..3, 0u64..1000], pace in prop_oneof![Just(PACE), 20u64..2000], steps in prop::collection::vec(step(), 1..25)) {
        let now = (times << (8 * level)) + 1 - off.min(255);
        let mut model = Model { wheel: EntryWheel::new(now, pace), now, cells: 0, timers: HashMap::new() };
        // Always one far timer.
        let far = model.insert(DEADLINE_MAX, true);
        model.wheel.file(far);
        for step in steps {
            match step {
                Step::Insert(count, span, width) => {
                    for number in 0..u64::from(count) {
                        let entry = model.insert(model.now + span + number.wrapping_mul(2_654_435_761) % width, true);
                        model.wheel.file(entry);
                    }
                }
                Step::Cancel(percent) => {
                    for cell in (model.cells.saturating_sub(30_000)..=model.cells).filter(|&cell| cell != far.cell() && cell.wrapping_mul(61) % 100 < percent) {
                        if let Some((deadline, is_alive)) = model.timers.get_mut(&cell).filter(|(_, is_alive)| *is_alive) {
                            *is_alive = false;
                            model.wheel.file(entry(*deadline, cell).tombstone());
                        }
                    }
                }
                Step::Reversed(count, span) => {
                    let entries: Vec<_> = (0..count).map(|_| model.insert(model.now + span, false)).collect();
                    entries.iter().for_each(|entry| model.wheel.file(entry.tombstone()));
                    entries.iter().for_each(|&entry| model.wheel.file(entry));
                }
                Step::Advance(span) => model.advance(model.now + span),
                Step::ToNext(times) => {
                    for _ in 0..times {
                        let Some(next) = model.wheel.next_event().filter(|&next| next < DEADLINE_MAX) else { break };
                        model.advance(next.max(model.now + 1));
                    }
                }
                Step::Settle => while model.wheel.settle() {},
                Step::Tidy => _ = model.wheel.tidy(),
            }
            check(&model.wheel);
            let first = model.timers.values().filter(|(_, is_alive)| *is_alive).map(|&(deadline, _)| deadline).min();
            prop_assert!(first.is_none_or(|first| model.wheel.next_event().is_some_and(|next| next <= first)), "sleeps past a deadline");
        }
        model.advance(DEADLINE_MAX);
        prop_assert_eq!((model.wheel.len(), model.wheel.next_event()), (0, None));
    }
}
