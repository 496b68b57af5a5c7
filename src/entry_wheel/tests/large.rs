//! Large slots: no call moves more than its budget, and no entry is late, lost or doubled. The
//! tests count entries, and measure no time.

use super::{PACE, check};
use crate::entry::DEADLINE_MAX;
use crate::entry_wheel::slot::{COMPACTED_IN_STEPS, LARGE_SLOT};
use crate::entry_wheel::*;

/// Entries that one call may move: the budget, and one slot that is compacted as a whole, or one
/// small slot that is compacted, cascaded, and compacted again.
pub(super) const MOVED_MAX: u64 = PACE + COMPACTED_IN_STEPS as u64 + 3 * LARGE_SLOT as u64;

const TIMERS: u32 = 1_000_000;

pub(super) fn entry(deadline: u64, cell: u32) -> Entry {
    Entry::new(deadline, cell, cell.wrapping_mul(77).into())
}

/// Runs a wheel to its end, like a shard whose turns take one tick each. A probe timer of one tick
/// arms itself again and again. Checks that no call moves too much, that ticks come in order, and
/// that the probe is at most two ticks late. Returns the entries that came.
fn run(wheel: &mut EntryWheel, mut now: u64) -> Vec<Entry> {
    const PROBE: u32 = u32::MAX;
    let mut came = Vec::new();
    let (mut probe, mut last) = (now + 1, 0);
    wheel.accept(entry(probe, PROBE));
    let mut is_armed = true;
    while let Some(next) = wheel.next_event() {
        now = next.max(now + 1);
        let (moved, before) = (wheel.parts.moved, came.len());
        wheel.advance(now, usize::MAX, |entries| {
            for &entry in entries {
                assert!(
                    last <= entry.deadline() && entry.deadline() <= now,
                    "{entry:?} at {now} after {last}"
                );
                last = entry.deadline();
                if entry.cell() == PROBE {
                    assert!(now <= probe + 2, "{} ticks late", now - probe);
                    is_armed = false;
                } else {
                    came.push(entry);
                }
            }
        });
        let moved = wheel.parts.moved - moved;
        assert!(moved <= MOVED_MAX, "{moved} entries in one call");
        // The probe runs as long as other entries are there.
        if !is_armed && (wheel.next_event().is_some() || came.len() > before) {
            probe = now + 1;
            wheel.accept(entry(probe, PROBE));
            is_armed = true;
        }
    }
    assert_eq!(wheel.len(), 0);
    came
}

fn assert_all_once(came: &[Entry], timers: u32) {
    assert_eq!(came.len(), timers as usize);
    let mut seen = vec![false; timers as usize];
    came.iter().for_each(|entry| {
        assert!(
            !std::mem::replace(&mut seen[entry.cell() as usize], true),
            "{entry:?} came twice"
        )
    });
}

#[test]
fn a_timer_of_one_tick_is_not_delayed_by_a_large_slot() {
    let start = 3 << 16;
    // The next slot of level 2 begins 5,000 ticks later. Likewise for the two levels above.
    for (level, now) in [
        (2, start - 5_000),
        (3, (1 << 24) - 300),
        (4, (7u64 << 32) - 500),
    ] {
        let first = (now >> (8 * level) << (8 * level)) + (1 << (8 * level));
        let spans: [&dyn Fn(u32) -> u64; 4] = [
            // Over the slot's first 50,000 ticks; at one tick of it; at its first tick; before it
            // and in it.
            &|cell| first + u64::from(cell.wrapping_mul(2_654_435_761) % 50_000),
            &|_| first + 3_333,
            &|_| first,
            &|cell| first - 200 + u64::from(cell % 400),
        ];
        for deadline in spans {
            let mut wheel = EntryWheel::new(now, PACE);
            (0..TIMERS).for_each(|cell| wheel.accept(entry(deadline(cell), cell)));
            let came = run(&mut wheel, now);
            assert_all_once(&came, TIMERS);
            assert!(
                came.iter()
                    .all(|entry| entry.deadline() == deadline(entry.cell()))
            );
        }
    }
}

#[test]
fn a_cascade_begins_no_earlier_than_it_must() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..TIMERS).for_each(|cell| wheel.accept(entry(65_536 + u64::from(cell % 60_000), cell)));
    let begin = 65_536 - (u64::from(TIMERS) + SLACK).div_ceil(PACE);
    assert_eq!(wheel.next_event(), Some(begin));
    assert!(!wheel.advance(begin - 1, usize::MAX, |_| unreachable!("nothing is due")));
    assert_eq!(wheel.cascaded(), 0);
    // One step a tick, until the first deadline.
    let mut steps = 0;
    while wheel.levels.first_large().is_some() {
        let now = wheel.next_event().unwrap();
        assert!((begin..65_536).contains(&now));
        assert!(!wheel.advance(now, usize::MAX, |_| unreachable!("nothing is due")));
        assert!(wheel.next_event().unwrap() > now);
        steps += 1;
    }
    assert_eq!(steps, u64::from(TIMERS - LARGE_SLOT).div_ceil(PACE));
    assert_eq!(wheel.next_event(), Some(65_536));
}

#[test]
fn a_wheel_without_a_pace_cascades_in_one_go() {
    let mut wheel = EntryWheel::new(0, u64::MAX);
    (0..TIMERS).for_each(|cell| wheel.accept(entry(65_536 + u64::from(cell % 60_000), cell)));
    let begin = wheel.next_event().unwrap();
    assert_eq!(begin, 65_535);
    assert!(!wheel.advance(begin, usize::MAX, |_| unreachable!("nothing is due")));
    assert!(wheel.cascaded() >= u64::from(TIMERS - LARGE_SLOT));
}

/// The clock jumps over all slots: no cascade can begin ahead of time, but the steps are as short.
#[test]
fn a_jump_over_large_slots_is_taken_in_steps() {
    let mut wheel = EntryWheel::new(12_345, PACE);
    for cell in 0..TIMERS {
        let level = cell % 6;
        wheel.accept(entry(
            (3 << (8 * level)) + 20_000 + u64::from(cell % 100),
            cell,
        ));
    }
    let slabs = wheel.slabs();
    let (mut came, mut last) = (Vec::new(), 0);
    loop {
        let moved = wheel.parts.moved;
        let is_more = wheel.advance(DEADLINE_MAX, 1_000, |entries| {
            came.extend_from_slice(entries)
        });
        assert!(wheel.parts.moved - moved <= MOVED_MAX);
        assert!(wheel.slabs() <= slabs + 4);
        if !is_more {
            break;
        }
    }
    came.iter().for_each(|entry| {
        assert!(std::mem::replace(&mut last, entry.deadline()) <= entry.deadline())
    });
    assert_all_once(&came, TIMERS);
    assert_eq!((wheel.levels.now, wheel.len()), (DEADLINE_MAX, 0));
}

/// In a random order and in the order of arming; in one tick and over the whole slot.
#[test]
fn a_storm_of_cancels_is_compacted_in_steps() {
    let deadlines: [fn(u32) -> u64; 2] = [|_| 70_000, |cell| 65_536 + u64::from(cell % 65_536)];
    let orders: [fn(u32) -> u32; 2] = [
        |step| step,
        |step| (u64::from(step) * 7_368_787 % u64::from(TIMERS)) as u32,
    ];
    for deadline in deadlines {
        for order in orders {
            let mut wheel = EntryWheel::new(0, PACE);
            (0..TIMERS).for_each(|cell| wheel.accept(entry(deadline(cell), cell)));
            let mut chunks_max = 0.0f64;
            for step in 0..TIMERS {
                let moved = wheel.parts.moved;
                let cell = order(step);
                wheel.accept(entry(deadline(cell), cell).tombstone());
                assert!(
                    wheel.parts.moved - moved <= u64::from(COMPACTED_IN_STEPS),
                    "one cancel"
                );
                if step % 500 == 0 {
                    let moved = wheel.parts.moved;
                    wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due"));
                    let turn = wheel.parts.moved - moved;
                    assert!(turn <= MOVED_MAX + BUDGETS_EARNED * PACE, "{turn}");
                    let (live, entries) = ((TIMERS - step) as usize, wheel.len());
                    assert!(
                        entries <= 2 * live + 8_192,
                        "{entries} entries for {live} timers"
                    );
                    if entries > 100_000 {
                        chunks_max = chunks_max
                            .max(wheel.parts.pool.chunks() as f64 * 84.0 / entries as f64);
                    }
                }
            }
            for _ in 0..2 {
                while wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due")) {}
            }
            assert!(
                chunks_max < 1.02,
                "{chunks_max} of the chunks that are needed"
            );
            assert!(
                wheel.parts.moved <= 4 * u64::from(TIMERS),
                "{} entries moved",
                wheel.parts.moved
            );
            assert!(!wheel.settle());
            assert_eq!((wheel.len(), wheel.next_event()), (0, None));
        }
    }
}

/// All in one drain: compactions beyond a drain's share wait for the next turns.
#[test]
fn many_slots_that_are_mostly_dead_at_once_are_compacted_in_steps() {
    let mut wheel = EntryWheel::new(0, PACE);
    let deadline = |cell: u32| u64::from(1 + cell % 250) << 8;
    (0..TIMERS / 2).for_each(|cell| wheel.accept(entry(deadline(cell), cell)));
    (0..TIMERS / 2).for_each(|cell| wheel.accept(entry(deadline(cell), cell).tombstone()));
    assert!(wheel.parts.moved <= 65_536 + u64::from(COMPACTED_IN_STEPS));
    // The call after the tombstones returns when what inserts have paid for is used up.
    let mut calls = 0;
    let mut is_more = true;
    while is_more || calls < 2 {
        calls += 1;
        let moved = wheel.parts.moved;
        is_more = wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due"));
        // The first call may move more, since inserts have paid for it.
        assert!(wheel.parts.moved - moved <= MOVED_MAX + BUDGETS_EARNED * PACE);
    }
    assert!(
        wheel.len() < 250 * 2 * LARGE_SLOT as usize / 10,
        "{} entries",
        wheel.len()
    );
}

/// The first timers of a program with millions in flight are cancelled in the order in which they
/// were armed, while later ones wait in lanes. The dead entries and their tombstones would take
/// memory beside what waits there.
#[test]
fn what_is_dead_stays_bounded_while_inserts_wait_in_lanes() {
    const A_TURN: u32 = 16_384;
    const TURNS: u32 = 240;
    let entry = |cell: u32| entry(30_000 + u64::from(cell % 300), cell);
    // The most dead entries, and the most moves of a call.
    let storm = |is_waiting: bool| {
        let mut wheel = EntryWheel::new(0, PACE);
        (0..TURNS * A_TURN).for_each(|cell| wheel.accept(entry(cell)));
        let (mut dead, mut most, mut moves) = (0, 0, 0);
        for first in (0..TURNS * A_TURN).step_by(A_TURN as usize) {
            (first..first + A_TURN).for_each(|cell| wheel.accept(entry(cell).tombstone()));
            dead += A_TURN;
            wheel.note_waiting(if is_waiting { dead.into() } else { 0 });
            let moved = wheel.parts.moved;
            assert!(!wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due")));
            moves = moves.max(wheel.parts.moved - moved);
            most = most.max(wheel.len() as u64 - u64::from(TURNS * A_TURN - dead));
        }
        check(&wheel);
        (most, moves)
    };
    let all = u64::from(TURNS * A_TURN);
    let (most, moves) = storm(true);
    assert!(most < DEAD_MANY + all / 8, "{most} of {all}");
    assert!(moves <= MANY_MOVES + MOVED_MAX, "{moves} moves");
    let (most, moves) = storm(false);
    assert!(most > all * 3 / 4, "{most} of {all}");
    assert!(moves <= STORM_MOVES + MOVED_MAX, "{moves} moves");
}

/// Tombstones of entries that a compaction has still to reach are not among the unmatched ones.
#[test]
fn a_compaction_in_steps_leaves_no_tombstone_unmatched() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..TIMERS).for_each(|cell| wheel.accept(entry(30_000, cell)));
    let (mut calls, mut next) = (0, 0..TIMERS);
    while !next.is_empty() || calls == 0 || wheel.parts.examining > 0 {
        for cell in next.by_ref().take(10_000) {
            wheel.accept(entry(30_000, cell).tombstone());
        }
        assert_eq!(wheel.unmatched(), 0);
        wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due"));
        assert_eq!(wheel.unmatched(), 0);
        check(&wheel);
        calls += 1;
    }
    assert!(wheel.len() <= 32 && calls >= TIMERS / 10_000);
}

/// Tombstones come while half of the entries are cascaded, or before their entries.
#[test]
fn cancels_during_a_cascade_find_their_entries() {
    for is_tombstone_first in [false, true] {
        let mut wheel = EntryWheel::new(0, PACE);
        let deadline = |cell: u32| 65_536 + 300 + u64::from(cell % 50_000);
        (0..TIMERS).for_each(|cell| wheel.accept(entry(deadline(cell), cell)));
        let begin = wheel.next_event().unwrap();
        (begin..begin + 20)
            .for_each(|now| assert!(!wheel.advance(now, 1000, |_| unreachable!("nothing is due"))));
        for cell in 0..TIMERS {
            let late = entry(deadline(cell), TIMERS + cell);
            let messages = [late, late.tombstone()];
            wheel.accept(messages[usize::from(is_tombstone_first)]);
            wheel.accept(entry(deadline(cell), cell).tombstone());
            wheel.accept(messages[usize::from(!is_tombstone_first)]);
        }
        let mut came = Vec::new();
        while wheel.advance(DEADLINE_MAX, usize::MAX, |entries| {
            came.extend_from_slice(entries)
        }) {}
        assert!(came.is_empty(), "{} came that were dead", came.len());
        assert_eq!(wheel.len(), 0);
    }
}

#[test]
fn settling_is_done_in_steps() {
    let mut wheel = EntryWheel::new(0, PACE);
    let timers = 100_000u32;
    for cell in 0..timers {
        let deadline = 1_000 + u64::from(cell % 200);
        wheel.accept(entry(deadline, cell));
        if !(cell / 200).is_multiple_of(4) {
            wheel.accept(entry(deadline, cell).tombstone());
        }
    }
    let mut calls = 0;
    loop {
        let moved = wheel.parts.moved;
        let is_more = wheel.settle();
        assert!(wheel.parts.moved - moved <= MOVED_MAX);
        calls += 1;
        if !is_more {
            break;
        }
    }
    assert!(calls <= 1 + 2 * u64::from(timers) / PACE);
}
