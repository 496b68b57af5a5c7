//! The wheel alone against a `BTreeMap`: every live entry comes out once, at its tick, whatever is
//! cancelled and however time moves.
//!
//! A failure prints the start tick and the shortest sequence that fails. `PROPTEST_RNG_SEED=1` (any
//! number) makes every run try the same sequences.

use super::slot::LARGE_SLOT;
use super::*;
use crate::entry::DEADLINE_MAX;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use std::collections::BTreeMap;

mod large;
mod large_model;

/// The pace of a tick of 1 ms.
const PACE: u64 = 16_384;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    /// Cancels a live timer: the tombstone comes after the entry.
    Cancel(usize),
    /// Inserts a dead entry: the tombstone comes first.
    Reversed(u64),
    Advance(u64),
    ToNext,
    Settle,
    Tidy,
    Shrink,
}

/// Delays and jumps, many of them at the edges of levels.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..600,
        3 => (0u32..7, -1i64..=1)
            .prop_map(|(level, off)| (1u64 << (8 * level)).saturating_add_signed(off)),
        2 => (0u32..52, any::<u64>()).prop_map(|(bits, low)| low & ((1 << bits) - 1)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => span().prop_map(Step::Insert),
        4 => any::<usize>().prop_map(Step::Cancel),
        1 => span().prop_map(Step::Reversed),
        3 => span().prop_map(Step::Advance),
        1 => Just(Step::ToNext),
        1 => Just(Step::Settle),
        1 => Just(Step::Tidy),
        1 => Just(Step::Shrink),
    ]
}

/// Start ticks: one tick before, at and after 1, 3 and 255 times `256^level` for each level; and
/// the start of each of 100 years with a tick of 1 ms.
fn starts() -> impl Iterator<Item = u64> {
    let edges =
        (0..=6).flat_map(|level| [1u64, 3, 255].map(|times| (times << (8 * level)) & DEADLINE_MAX));
    edges
        .flat_map(|edge| [edge - 1, edge, edge + 1])
        .chain((0..=100).map(|years| years * 31_557_600_000))
}

/// Takes all due entries out, in calls of a few entries, and checks them against the model.
fn advance(
    wheel: &mut EntryWheel,
    now: u64,
    limit: usize,
    model: &mut BTreeMap<(u64, u32), ()>,
    dead: &mut BTreeMap<(u64, u32), ()>,
) {
    let mut more = true;
    while more {
        let mut given = 0;
        more = wheel.advance(now, limit, |entries| {
            given += entries.len();
            for entry in entries {
                assert!(entry.deadline() <= now, "early");
                let key = (entry.deadline(), entry.cell());
                assert!(
                    model.remove(&key).is_some() || dead.remove(&key).is_some(),
                    "{entry:?} came twice or from nowhere"
                );
            }
        });
        assert!(
            given < limit.saturating_add(84),
            "{given} at a time, asked for {limit}"
        );
    }
    assert!(
        model.range(..=(now, u32::MAX)).next().is_none(),
        "something due at {now} did not come: {model:?}"
    );
    assert_eq!(wheel.levels.now, now);
}

/// Checks the whole structure, and its counts.
fn check(wheel: &EntryWheel) {
    let (mut levels, mut examining) = ([0; LEVELS], 0);
    let parts = &wheel.parts;
    let holes = wheel.levels.check(&parts.pool, &mut levels, &mut examining);
    assert_eq!((holes, examining), (wheel.holes(), parts.examining));
    assert!(parts.leaving <= examining);
    assert_eq!(&levels, wheel.levels());
    assert_eq!(wheel.due() + levels.iter().sum::<u64>(), wheel.len() as u64);
}

/// Runs all compactions that wait.
fn compact_all(wheel: &mut EntryWheel) {
    // The calls after the last tombstones, and those that find none.
    for _ in 0..2 {
        while wheel.advance(wheel.levels.now, usize::MAX, |_| {
            unreachable!("nothing is due")
        }) {}
    }
}

#[test]
fn does_what_a_map_does() {
    let sequences = (1usize..200, prop::collection::vec(step(), 1..400));
    for start in starts() {
        let config = ProptestConfig {
            cases: 9,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome =
            TestRunner::new(config).run(&sequences, |(limit, steps)| run(start, limit, steps));
        outcome.unwrap_or_else(|why| panic!("from {start}: {why}"));
    }
}

fn run(start: u64, limit: usize, steps: Vec<Step>) -> TestCaseResult {
    let mut wheel = EntryWheel::new(start, PACE);
    let mut now = start;
    let mut cell = 0;
    // One far timer is always there.
    let far = Entry::new(DEADLINE_MAX, u32::MAX, 7);
    wheel.accept(far);
    let mut model = BTreeMap::from([((far.deadline(), far.cell()), ())]);
    let mut dead = BTreeMap::new();
    let at = |now: u64, span: u64| (now + span).min(DEADLINE_MAX - 1);
    for step in steps {
        match step {
            Step::Insert(span) => {
                cell += 1;
                let entry = Entry::new(at(now, span), cell, cell.wrapping_mul(77).into());
                wheel.accept(entry);
                model.insert((entry.deadline(), cell), ());
            }
            Step::Cancel(which) if model.len() > 1 => {
                let (&(deadline, cell), ()) = model.iter().nth(which % (model.len() - 1)).unwrap();
                model.remove(&(deadline, cell));
                dead.insert((deadline, cell), ());
                wheel.accept(Entry::new(deadline, cell, cell.wrapping_mul(77).into()).tombstone());
            }
            Step::Cancel(_) => {}
            Step::Reversed(span) => {
                cell += 1;
                let entry = Entry::new(at(now, span), cell, cell.wrapping_mul(77).into());
                wheel.accept(entry.tombstone());
                wheel.accept(entry);
                dead.insert((entry.deadline(), cell), ());
            }
            Step::Advance(span) => {
                now = at(now, span);
                advance(&mut wheel, now, limit, &mut model, &mut dead);
            }
            Step::ToNext => {
                let next = wheel.next_event().unwrap();
                prop_assert!(
                    next <= model.first_key_value().unwrap().0.0,
                    "sleeps past a deadline"
                );
                if next < DEADLINE_MAX && next > now {
                    now = next;
                    advance(&mut wheel, now, limit, &mut model, &mut dead);
                }
            }
            Step::Settle | Step::Tidy | Step::Shrink => {
                match step {
                    Step::Tidy => wheel.tidy(),
                    Step::Shrink => wheel.shrink(),
                    _ => wheel.settle(),
                };
                let next = wheel.next_event().unwrap();
                prop_assert!(next <= model.first_key_value().unwrap().0.0);
            }
        }
    }
    check(&wheel);
    advance(&mut wheel, DEADLINE_MAX, limit, &mut model, &mut dead);
    prop_assert_eq!(
        (wheel.len(), wheel.holes(), *wheel.levels()),
        (0, 0, [0; LEVELS])
    );
    prop_assert_eq!(wheel.next_event(), None);
    Ok(())
}

#[test]
fn at_most_half_of_the_entries_are_dead() {
    let mut wheel = EntryWheel::new(0, PACE);
    // A window of 100 live timers moves through 100,000 timers, all in the range of one slot.
    for cell in 0..100_000u32 {
        wheel.accept(Entry::new(30_000, cell, 1));
        if let Some(old) = cell.checked_sub(100) {
            wheel.accept(Entry::new(30_000, old, 1).tombstone());
            compact_all(&mut wheel);
        }
        assert!(
            wheel.len() <= 100 + 101 + 2,
            "{} entries at {cell}",
            wheel.len()
        );
    }
}

#[test]
fn a_cancel_costs_a_few_entries_of_compaction() {
    let mut wheel = EntryWheel::new(0, PACE);
    let timers = 100_000u32;
    (0..timers).for_each(|cell| wheel.accept(Entry::new(30_000, cell, 1)));
    for cell in (0..timers).rev() {
        wheel.accept(Entry::new(30_000, cell, 1).tombstone());
        compact_all(&mut wheel);
    }
    // From one compaction to the next, a large slot loses a third of its entries, a small slot a
    // half. From 100,000 down to 32 that is at most 14 compactions.
    assert!(wheel.compactions() <= 14, "{}", wheel.compactions());
    assert!(
        wheel.parts.moved <= 3 * u64::from(timers),
        "{}",
        wheel.parts.moved
    );
    wheel.settle();
    assert_eq!(wheel.len(), 0);
    assert_eq!(wheel.next_event(), None);
}

/// Many slots of the same size, each with entries of all of these cells.
const SLOTS: u32 = 200;
const SLOT_ENTRIES: u32 = 2_000;

fn entry_of_many_slots(cell: u32, generation: u64) -> Entry {
    Entry::new(256 * u64::from(1 + cell % SLOTS), cell, generation)
}

/// A turn at which nothing is due. Returns whether there is more to do.
fn turn(wheel: &mut EntryWheel) -> bool {
    wheel.advance(0, usize::MAX, |_| unreachable!("nothing is due"))
}

/// All slots of a level become mostly dead at one time. Then turns are short, and the slots wait:
/// so few live entries are moved. The first turn after the storm goes on.
#[test]
fn slots_wait_in_a_storm_of_cancels() {
    const A_TURN: u32 = 10_000;
    let mut wheel = EntryWheel::new(0, PACE);
    let cells = SLOTS * SLOT_ENTRIES;
    (0..cells).for_each(|cell| wheel.accept(entry_of_many_slots(cell, 1)));
    wheel.earn(cells.into());
    assert!(!turn(&mut wheel));
    // Each turn may go over what it is allowed by a slot.
    let (mut allowed, mut waited) = (wheel.parts.earned, 0);
    for first in (0..cells).step_by(A_TURN as usize) {
        let tombstones = (first..first + A_TURN).map(|cell| entry_of_many_slots(cell, 1));
        tombstones.for_each(|entry| wheel.accept(entry.tombstone()));
        waited += u32::from(!turn(&mut wheel));
        allowed += STORM_MOVES + u64::from(SLOT_ENTRIES);
        assert!(wheel.parts.moved <= allowed, "{}", wheel.parts.moved);
    }
    assert!(waited > cells / A_TURN / 3, "{waited} turns");
    let moved = wheel.parts.moved;
    check(&wheel);
    while turn(&mut wheel) {}
    check(&wheel);
    let moved = wheel.parts.moved - moved;
    assert!(moved <= u64::from(cells), "{moved} moves after the storm");
    assert!(wheel.len() as u64 <= u64::from(SLOTS) * 32);
}

/// After a storm many timers are armed. Then turns are short again, and what the storm has left
/// goes in small steps, until the flood is over.
#[test]
fn slots_wait_in_a_flood_of_inserts() {
    let mut wheel = EntryWheel::new(0, PACE);
    let cells = SLOTS * SLOT_ENTRIES;
    (0..cells).for_each(|cell| wheel.accept(entry_of_many_slots(cell, 1)));
    (0..cells).for_each(|cell| wheel.accept(entry_of_many_slots(cell, 1).tombstone()));
    assert!(!turn(&mut wheel) && wheel.puts_off());
    // The moves of the next call. It may go over what it is allowed by a slot.
    let moves = |wheel: &mut EntryWheel, is_more: bool| {
        let moved = wheel.parts.moved;
        assert_eq!(turn(wheel), is_more);
        wheel.parts.moved - moved
    };
    let few = STORM_MOVES..STORM_MOVES + u64::from(SLOT_ENTRIES);
    // Between the turns of a flood there may be some with less.
    for _ in 0..4 {
        wheel.earn(FLOOD);
        assert!(few.contains(&moves(&mut wheel, false)));
        wheel.earn(FLOOD - 1);
        assert!(few.contains(&moves(&mut wheel, false)));
    }
    // A tombstone makes it a storm, in which inserts pay.
    wheel.earn(FLOOD);
    wheel.accept(entry_of_many_slots(0, 1).tombstone());
    assert!(moves(&mut wheel, false) > few.end);
    for _ in 1..FLOOD_CALLS {
        assert!(few.contains(&moves(&mut wheel, false)));
    }
    assert!(moves(&mut wheel, true) >= *BUDGET.end());
    while turn(&mut wheel) {}
    check(&wheel);
    assert!(wheel.len() as u64 <= u64::from(SLOTS) * 32);
}

/// Floods and storms take turns: each time all timers are armed, and then cancelled. The dead do
/// not become more and more.
#[test]
fn floods_and_storms_in_turn_keep_what_is_dead_small() {
    const A_TURN: u32 = 20_000;
    let mut wheel = EntryWheel::new(0, PACE);
    let cells = SLOTS * SLOT_ENTRIES;
    let mut most = 0;
    for generation in 1..40 {
        for tombstones in [false, true] {
            for first in (0..cells).step_by(A_TURN as usize) {
                for cell in first..first + A_TURN {
                    let entry = entry_of_many_slots(cell, generation);
                    wheel.accept(if tombstones { entry.tombstone() } else { entry });
                }
                if !tombstones {
                    wheel.earn(A_TURN.into());
                }
                turn(&mut wheel);
                most = most.max(wheel.len() as u64);
            }
        }
    }
    check(&wheel);
    assert!(most <= 5 * u64::from(cells), "{most} entries");
}

/// Where cancels come at a pace, dead entries do not wait for the end.
#[test]
fn slots_do_not_wait_where_cancels_come_at_a_pace() {
    const A_TURN: u32 = 300;
    let mut wheel = EntryWheel::new(0, PACE);
    let cells = SLOTS * SLOT_ENTRIES;
    (0..cells).for_each(|cell| wheel.accept(entry_of_many_slots(cell, 1)));
    for first in (0..cells).step_by(A_TURN as usize) {
        let tombstones =
            (first..cells.min(first + A_TURN)).map(|cell| entry_of_many_slots(cell, 1));
        tombstones.for_each(|entry| wheel.accept(entry.tombstone()));
        turn(&mut wheel);
        let live = u64::from(cells.saturating_sub(first + A_TURN));
        let len = wheel.len() as u64;
        assert!(
            len <= 3 * live + 64 * u64::from(SLOTS),
            "{len} entries, {live} live"
        );
    }
}

/// A cancel and an arm in each turn, after a storm in a slot that is compacted in steps: its dead
/// entries go all the same.
#[test]
fn a_trickle_does_not_keep_what_a_storm_has_left() {
    const CELLS: u32 = 400_000;
    let mut wheel = EntryWheel::new(0, PACE);
    let entry = |cell: u32, generation: u64| Entry::new(30_000, cell, generation);
    (0..CELLS).for_each(|cell| wheel.accept(entry(cell, 1)));
    let live = CELLS / 100;
    (live..CELLS).for_each(|cell| wheel.accept(entry(cell, 1).tombstone()));
    for cell in 0..400 {
        wheel.accept(entry(cell, 1).tombstone());
        wheel.accept(entry(cell, 2));
        wheel.earn(1);
        turn(&mut wheel);
    }
    check(&wheel);
    let len = wheel.len() as u64;
    assert!(len <= u64::from(2 * live + 32), "{len} entries");
}

/// A short tick has a small budget, but as many timers are armed.
#[test]
fn inserts_pay_at_each_pace() {
    for pace in [1_024, PACE] {
        inserts_pay(pace);
    }
}

/// Where as many timers are armed as cancelled, at full speed, the dead do not become more.
fn inserts_pay(pace: u64) {
    const A_TURN: u32 = 20_000;
    let mut wheel = EntryWheel::new(0, pace);
    let cells = SLOTS * SLOT_ENTRIES;
    (0..cells).for_each(|cell| wheel.accept(entry_of_many_slots(cell, 1)));
    let mut rng = fastrand::Rng::with_seed(5);
    let mut generations = vec![1u64; cells as usize];
    let mut most = 0;
    for _ in 0..80 {
        for _ in 0..A_TURN {
            let cell = rng.u32(..cells);
            let generation = &mut generations[cell as usize];
            wheel.accept(entry_of_many_slots(cell, *generation).tombstone());
            *generation += 1;
            wheel.accept(entry_of_many_slots(cell, *generation));
        }
        wheel.earn(A_TURN.into());
        turn(&mut wheel);
        most = most.max(wheel.len() as u64);
    }
    check(&wheel);
    assert!(most <= 9 * u64::from(cells) / 4, "{most} entries at {pace}");
}

/// A storm of cancels of timers that were cascaded ahead of time, and time that stands still just
/// before their slot. The dead entries do not wait until time enters it, nor for a long quiet.
#[test]
fn dead_entries_ahead_do_not_wait_for_their_slot() {
    const CELLS: u32 = 100_000;
    let mut wheel = EntryWheel::new(0, PACE);
    // The first slot of level 1 that is not entered at once. Its entries come to level 0 ahead.
    let entry = |cell: u32| Entry::new(256 + u64::from(cell % 256), cell, 1);
    (0..CELLS).for_each(|cell| wheel.accept(entry(cell)));
    let advance = |wheel: &mut EntryWheel| {
        for _ in 0..2 {
            while wheel.advance(255, usize::MAX, |_| unreachable!("nothing is due")) {}
        }
        check(wheel);
    };
    advance(&mut wheel);
    // Not in the order of the slots: all of them become mostly dead at one time.
    let cells = (0..CELLS).map(|n| (u64::from(n) * 40_503 % u64::from(CELLS)) as u32);
    for (n, cell) in cells.enumerate() {
        wheel.accept(entry(cell).tombstone());
        if n == CELLS as usize * 2 / 3 {
            advance(&mut wheel);
            let pending = CELLS as usize / 3;
            assert!(wheel.len() <= 2 * pending + 32 * 256, "{}", wheel.len());
        }
    }
    advance(&mut wheel);
    assert!(wheel.len() <= 32 * 256, "{} entries", wheel.len());
    while wheel.tidy() {}
    check(&wheel);
    while wheel.shrink() {}
    assert_eq!((wheel.len(), wheel.holes()), (0, 0));
}

/// In a long quiet, or when a storm is over, a slot is compacted in steps. Until the last step its
/// tombstones are needed.
#[test]
fn tombstones_stay_until_the_last_step() {
    let entry = |cell: u32| Entry::new(30_000, cell, 1);
    let (all, dead) = (100_000, 20_000);
    let tidy: [fn(&mut EntryWheel) -> bool; 2] = [EntryWheel::tidy, EntryWheel::shrink];
    for (tidy, timers) in tidy.into_iter().zip([all, 22_000]) {
        let mut wheel = EntryWheel::new(0, PACE);
        (0..timers).for_each(|cell| wheel.accept(entry(cell)));
        // Memory for the tombstones of many more cells than there are.
        let cells = (0..all)
            .step_by(2)
            .map(|cell| Entry::new(40_000, 7 * all + cell, 1));
        cells.for_each(|entry| wheel.accept(entry.tombstone()));
        (0..dead).for_each(|cell| wheel.accept(entry(cell).tombstone()));
        wheel.parts.earned = 0;
        for _ in 0..100 {
            while tidy(&mut wheel) {}
        }
        check(&wheel);
        assert_eq!(wheel.len(), (timers - dead) as usize);
    }
}

/// `settle` comes before a sleep, so it must be short.
#[test]
fn settling_leaves_a_large_slot_alone() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..=LARGE_SLOT).for_each(|cell| wheel.accept(Entry::new(30_000, cell, 1)));
    wheel.accept(Entry::new(30_000, 0, 1).tombstone());
    wheel.settle();
    assert_eq!(
        (wheel.compactions(), wheel.len()),
        (0, LARGE_SLOT as usize + 1)
    );
    // A small slot is compacted.
    wheel.accept(Entry::new(300, 0, 2));
    wheel.accept(Entry::new(300, 0, 2).tombstone());
    wheel.settle();
    assert_eq!(
        (wheel.compactions(), wheel.len(), wheel.holes()),
        (1, LARGE_SLOT as usize + 1, 1)
    );
}

/// An empty slot counts no holes, and a dead entry does not get into a slot.
#[test]
fn tombstones_before_their_entries_leave_nothing() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..100_000u32).for_each(|cell| wheel.accept(Entry::new(30_000, cell, 1).tombstone()));
    assert_eq!((wheel.holes(), wheel.next_event()), (0, None));
    (0..100_000u32).for_each(|cell| wheel.accept(Entry::new(30_000, cell, 1)));
    assert_eq!(
        (wheel.len(), wheel.compactions(), wheel.next_event()),
        (0, 0, None)
    );
    // Beside a few live entries they cost a few compactions.
    (0..100).for_each(|cell| wheel.accept(Entry::new(30_000, cell, 2)));
    for cell in 100_000..200_000 {
        wheel.accept(Entry::new(30_000, cell, 1).tombstone());
        wheel.accept(Entry::new(30_000, cell, 1));
        compact_all(&mut wheel);
    }
    assert_eq!(wheel.len(), 100);
    assert!(
        wheel.parts.moved <= 200_000 && wheel.holes() <= 51,
        "{} moved, {} holes",
        wheel.parts.moved,
        wheel.holes()
    );
}

#[test]
fn advance_gives_about_the_limit() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..1_000).for_each(|cell| wheel.accept(Entry::new(1, cell, 0)));
    let (mut came, mut more) = (0, true);
    while more {
        let before = came;
        more = wheel.advance(1, 100, |entries| came += entries.len());
        assert!(came - before < 184, "{} at a time", came - before);
    }
    assert_eq!(came, 1_000);
}

#[test]
fn a_far_timer_is_one_event() {
    let mut wheel = EntryWheel::new(12_345, PACE);
    wheel.accept(Entry::new(12_345 + 3_600_000, 1, 1));
    assert_eq!(wheel.next_event(), Some(12_345 + 3_600_000));
}

#[test]
fn memory_goes_back() {
    let mut wheel = EntryWheel::new(0, PACE);
    let timers = 2_000_000;
    (0..timers)
        .for_each(|cell| wheel.accept(Entry::new(1_000 + u64::from(cell % 50_000), cell, 1)));
    assert!(wheel.slabs() > 80);
    (0..timers).for_each(|cell| {
        wheel.accept(Entry::new(1_000 + u64::from(cell % 50_000), cell, 1).tombstone())
    });
    compact_all(&mut wheel);
    while wheel.settle() || wheel.trim() {}
    assert_eq!(wheel.len(), 0);
    assert!(wheel.slabs() <= 2, "{} slabs left", wheel.slabs());
}

/// Not during the burst: it takes time, and interrupts each core that runs the process.
#[test]
fn memory_of_a_burst_goes_back_when_it_is_over() {
    let mut wheel = EntryWheel::new(0, PACE);
    (0..500_000).for_each(|cell| wheel.accept(Entry::new(100, cell, 1)));
    let slabs = wheel.slabs();
    assert!(slabs > 20);
    while wheel.advance(100, 1_000, |_| ()) {
        assert_eq!(wheel.slabs(), slabs);
    }
    for left in (1..slabs).rev() {
        assert_eq!((wheel.trim(), wheel.slabs()), (left > 1, left));
    }
    assert!(!wheel.trim());
}

/// In a long quiet few dead entries are left, in later slots and in large ones too.
#[test]
fn tidying_leaves_few_dead() {
    let mut wheel = EntryWheel::new(0, PACE);
    let entry = |cell: u32| Entry::new(300 << (8 * (cell % 3)), cell, 1);
    let (timers, dead) = (150_000, 20_000);
    (0..timers).for_each(|cell| wheel.accept(entry(cell)));
    (0..dead).for_each(|cell| wheel.accept(entry(cell).tombstone()));
    compact_all(&mut wheel);
    assert_eq!(
        (wheel.len(), wheel.holes()),
        (timers as usize, dead.into()),
        "not mostly dead"
    );
    let mut steps = 0u64;
    loop {
        let moved = wheel.parts.moved;
        let is_more = wheel.tidy();
        assert!(wheel.parts.moved - moved <= 2 * PACE, "in steps");
        steps += 1;
        if !is_more {
            break;
        }
    }
    assert_eq!((wheel.len(), wheel.holes()), ((timers - dead) as usize, 0));
    assert!(steps >= u64::from(timers) / PACE);
    // A slot with few dead entries is left alone.
    (dead..dead + 1_000).for_each(|cell| wheel.accept(entry(cell).tombstone()));
    let compactions = wheel.compactions();
    while wheel.tidy() {}
    assert_eq!((wheel.compactions(), wheel.holes()), (compactions, 1_000));
}

/// Slots with a few dead entries are left alone, and a few of them keep the memory for the
/// tombstones of all cells. Not after a storm of cancels, however many timers come meanwhile.
#[test]
fn the_memory_of_tombstones_goes_back_after_a_storm() {
    let mut wheel = EntryWheel::new(0, PACE);
    let entry = |cell: u32| Entry::new(1_000 + u64::from(cell % 50_000), cell, 1);
    let (timers, left) = (200_000, 1_000);
    (0..timers).for_each(|cell| wheel.accept(entry(cell)));
    let cancels = |cells: std::ops::Range<u32>, wheel: &mut EntryWheel| {
        // In any order.
        cells
            .map(|cell| (u64::from(cell) * 77_773 % u64::from(timers)) as u32)
            .filter(|cell| cell % (timers / left) != 0)
            .for_each(|cell| {
                wheel.accept(entry(cell).tombstone());
                if cell % 1_000 == 7 {
                    compact_all(wheel);
                }
            });
        compact_all(wheel);
    };
    // Half of them: no storm is over.
    cancels(0..timers / 2, &mut wheel);
    let (holes, compactions) = (wheel.holes(), wheel.compactions());
    assert!(holes > 0 && !wheel.shrink() && !wheel.shrink());
    assert_eq!((wheel.holes(), wheel.compactions()), (holes, compactions));
    cancels(timers / 2..timers, &mut wheel);
    let (holes, cells) = (wheel.holes(), wheel.parts.tombstones.cells());
    assert!(
        holes > 0 && cells > u64::from(timers / 2),
        "{holes} {cells}"
    );
    for cell in timers.. {
        wheel.accept(entry(cell));
        let moved = wheel.parts.moved;
        let is_more = wheel.shrink();
        assert!(wheel.parts.moved - moved <= 2 * PACE, "in steps");
        if !is_more {
            break;
        }
    }
    assert_eq!(wheel.holes(), 0);
    assert!(wheel.drops_tombstones() && wheel.parts.tombstones.is_large());
    // Of an entry that has not come yet.
    wheel.accept(Entry::new(70_000, 3, 2).tombstone());
    assert!(!wheel.shrink());
    assert!(!wheel.drops_tombstones() && !wheel.parts.tombstones.is_large());
    let live = wheel.len();
    assert!(
        (left as usize..left as usize + 100).contains(&live),
        "{live} live"
    );
    let mut came = 0;
    while wheel.advance(60_000, usize::MAX, |entries| came += entries.len()) {}
    assert_eq!(came, live);
}

/// A tombstone may come while its entry is still in another lane.
#[test]
fn a_tombstone_without_an_entry_hides_no_timer() {
    let mut wheel = EntryWheel::new(0, PACE);
    wheel.accept(Entry::new(300, 1, 0).tombstone());
    wheel.accept(Entry::new(400, 2, 0));
    wheel.accept(Entry::new(70_000, 3, 0));
    assert!(
        wheel.next_event().is_some_and(|next| next <= 400),
        "{:?}",
        wheel.next_event()
    );
    wheel.settle();
    assert!(
        wheel.next_event().is_some_and(|next| next <= 400),
        "{:?}",
        wheel.next_event()
    );
}
