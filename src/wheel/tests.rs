//! What the public calls do not show: that lists, slots and cells agree after each call. What the
//! calls promise is in `tests/long/wheel.rs`.

use super::link::lists;
use super::*;
use fastrand::Rng;

impl<K> Wheel<K> {
    /// Looks at all slots and cells.
    fn check(&self) {
        let (mut count, mut last) = (0, 0);
        let (event, next) = self.levels.event();
        if let Some(next) = next {
            assert_eq!(self.levels.all().next(), Some((next, event)));
        }
        for (slot, begin) in self.levels.all() {
            assert!(begin >= last && begin >= event, "slots come in order");
            last = begin;
            let mut is_empty = true;
            for list in lists(slot) {
                let is_occupied = self.levels.cells_of(list).next().is_some();
                assert_eq!(self.levels.has(list), is_occupied);
                let mut before = list;
                for cell in self.levels.cells_of(list) {
                    let deadline = self.nodes.deadline(cell).expect("it has a timer");
                    assert!(deadline >= begin, "a timer lies in no later slot");
                    assert!(deadline >= self.levels.earliest_of(slot));
                    let links = self.levels.links_of(cell);
                    assert_eq!(links[0], before, "both directions agree");
                    before = links[1];
                    count += 1;
                    is_empty = false;
                }
            }
            assert!(!is_empty, "a slot that is occupied has timers");
        }
        assert_eq!(count, self.len(), "each timer is in one list");
        assert!(self.levels.time() <= self.now);
    }
}

#[test]
fn lists_slots_and_cells_agree() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let bits = rng.u32(1..53);
        let start = rng.u64(..1 << bits);
        let mut wheel = Wheel::new(start);
        let mut handles = Vec::new();
        let far = rng.u32(1..40);
        for step in 0..600 {
            let bits = rng.u32(0..far);
            let deadline = wheel.now() + rng.u64(..1 << bits);
            match rng.u32(..12) {
                0..5 => handles.push(wheel.insert(deadline, step)),
                5..7 if !handles.is_empty() => {
                    let handle = handles.swap_remove(rng.usize(..handles.len()));
                    _ = wheel.cancel(handle);
                }
                7..9 if !handles.is_empty() => {
                    _ = wheel.reschedule(handles[rng.usize(..handles.len())], deadline);
                }
                9 => _ = wheel.advance(deadline, rng.usize(..10), |_, _| ()),
                10 => _ = wheel.pop_due(deadline),
                11 => match rng.u32(..100) {
                    0 => wheel.clear(),
                    1 => handles.extend((0..200).map(|_| wheel.insert(deadline, step))),
                    _ => {}
                },
                _ => {}
            }
            wheel.check();
        }
    }
}

/// Slots of any number of timers are filed anew, and given out.
#[test]
fn long_lists_agree() {
    let mut wheel = Wheel::new(0);
    for count in (0..200).chain([FEW, 2 * FEW + 1]) {
        let begin = (wheel.now() | 0xffff) + 1;
        let mut handles: Vec<_> = (0..count)
            .map(|key| wheel.insert(begin + (key % 300) as u64, key))
            .collect();
        wheel.check();
        assert!(!wheel.advance(begin - 1, usize::MAX, |_, _| panic!("too early")));
        let (mut fired, kept) = (vec![], handles.split_off(count / 3));
        for handle in handles {
            assert!(wheel.cancel(handle).is_some());
        }
        for now in [begin, begin + 255, begin + 299] {
            assert!(!wheel.advance(now, usize::MAX, |deadline, key| {
                assert_eq!(deadline, begin + (key % 300) as u64);
                fired.push(key);
            }));
            wheel.check();
        }
        fired.sort_unstable();
        assert_eq!(fired, Vec::from_iter(count - kept.len()..count));
    }
}

/// A wheel that has many timers, whenever it has them, uses further lists; one that has few does
/// not, also if one of them stays where it was.
#[test]
fn further_lists_come_and_go_with_the_number_of_timers() {
    let fill = |wheel: &mut Wheel<u64>| -> Vec<_> {
        (0..300)
            .map(|key| wheel.insert(wheel.now() + 300 + key * 7, key))
            .collect()
    };
    let mut wheel = Wheel::new(0);
    assert!(!wheel.levels.has_further());
    for round in 0..4 {
        let handles = fill(&mut wheel);
        assert!(wheel.levels.has_further(), "round {round}");
        wheel.check();
        match round {
            0 => wheel.clear(),
            1 => _ = wheel.drain(),
            2 => _ = wheel.advance(wheel.now() + 10_000, usize::MAX, |_, _| ()),
            _ => {
                for &handle in &handles[1..] {
                    assert!(wheel.cancel(handle).is_some());
                }
                assert!(wheel.levels.has_further(), "one is there");
                let near = wheel.insert(wheel.now() + 3, 0);
                assert!(!wheel.levels.has_further());
                wheel.check();
                let deadlines = [near, handles[0]].map(|handle| wheel.deadline(handle));
                let mut due = Vec::new();
                wheel.advance(u64::MAX, usize::MAX, |deadline, _| due.push(Some(deadline)));
                assert_eq!(due, deadlines);
            }
        }
        wheel.check();
        assert!(wheel.is_empty());
    }
}

/// The further lists of a slot have as many timers each, about: however these come to it.
#[test]
fn further_lists_share_a_slot() {
    let shares = |wheel: &Wheel<u64>, deadline| {
        let (slot, _) = SlotNumber::of(deadline, wheel.levels.time());
        let counts = lists(slot).map(|list| wheel.levels.cells_of(list).count());
        let counts = Vec::from_iter(counts);
        let (own, further) = counts.split_first().expect("a slot has a list");
        let (least, all) = (further.iter().min(), further.iter().sum::<usize>());
        assert!(all >= 100 && least >= Some(&(all / 8)), "{counts:?}");
        assert_eq!(*own, 0, "the slot's own list");
    };
    let mut wheel = Wheel::new(0);
    let mut rng = Rng::with_seed(1);
    // (The first ones, while they are few, are in the slots' own lists.)
    let mut handles = Vec::from_iter((0..6_000).map(|key| wheel.insert(1_000_000 + key, key)));
    // Their cells are used again in no order.
    rng.shuffle(&mut handles);
    for handle in handles.drain(..4_500) {
        assert!(wheel.cancel(handle).is_some());
    }
    // One after the other.
    (0..1_500).for_each(|key| _ = wheel.insert(40_000 + key % 256, key));
    (0..1_500).for_each(|key| _ = wheel.insert(70_000 + key % 256, key));
    shares(&wheel, 40_000);
    // Moved to an earlier deadline, while time stands still.
    for (&handle, key) in handles.iter().zip(0..) {
        assert!(wheel.reschedule(handle, 45_000 + key % 256));
    }
    shares(&wheel, 45_000);
    // One armed for each that was cancelled, and for each that fires.
    for key in 0..1_500 {
        assert!(wheel.cancel(handles[key as usize]).is_some());
        wheel.insert(50_000 + key % 256, key);
    }
    shares(&wheel, 50_000);
    (0..1_000).for_each(|key| _ = wheel.insert(100, key));
    while let Some((_, key)) = wheel.pop_due(100) {
        wheel.insert(55_000 + key % 256, key);
    }
    shares(&wheel, 55_000);
    // From a higher level.
    wheel.advance(65_536, usize::MAX, |_, _| ());
    shares(&wheel, 70_000);
    // Over time.
    for now in 65_536..130_000 {
        while let Some((_, key)) = wheel.pop_due(now) {
            wheel.insert(now + 1 + rng.u64(..5_000), key);
        }
    }
    shares(&wheel, 131_000);
    // In a wheel that grows again before further lists are empty.
    let mut wheel = Wheel::new(0);
    let mut handles = Vec::from_iter((0..300).map(|key| wheel.insert(100_000, key)));
    for handle in handles.drain(..260) {
        assert!(wheel.cancel(handle).is_some());
    }
    wheel.insert(300, 0);
    wheel.advance(299, usize::MAX, |_, _| ());
    assert_eq!((wheel.len(), wheel.levels.has_further()), (41, true));
    (0..30).for_each(|key| _ = wheel.insert(100_000, key));
    (0..1_500).for_each(|key| _ = wheel.insert(140_000 + key % 256, key));
    shares(&wheel, 140_000);
}

/// Nothing is fetched before a slot was entered whose timers lie scattered in memory.
#[test]
fn nothing_is_fetched_that_lies_side_by_side() {
    let mut wheel = Wheel::new(0);
    (0..200).for_each(|key| _ = wheel.insert(key % 8, key));
    assert!(!wheel.levels.gains());
    (0..3_000).for_each(|key| _ = wheel.insert(1_000 + key / 8, key));
    wheel.advance(1_100, usize::MAX, |_, _| ());
    assert!(!wheel.levels.gains(), "side by side");
    wheel.advance(1_900, usize::MAX, |_, _| ());
    // Cells are used again in the order in which they became free.
    let mut handles: Vec<_> = (0..3_000).map(|key| wheel.insert(5_000, key)).collect();
    Rng::with_seed(1).shuffle(&mut handles);
    handles
        .into_iter()
        .for_each(|handle| _ = wheel.cancel(handle));
    (0..3_000).for_each(|key| _ = wheel.insert(2_000 + key / 5, key));
    wheel.advance(2_400, 1_000, |_, _| ());
    assert!(wheel.levels.gains(), "scattered");
}

/// Cells are used again, the last one first, and nothing is left of what was cancelled.
#[test]
fn a_storm_of_cancels_leaves_nothing_behind() {
    let mut wheel = Wheel::new(0);
    let far = wheel.insert(1_000_000, 0);
    for round in 0..100 {
        let handles: Vec<_> = (0..1_000)
            .map(|key| wheel.insert(30_000 + round + key % 200, key))
            .collect();
        for handle in handles {
            assert!(wheel.cancel(handle).is_some());
        }
        assert_eq!(wheel.next_deadline(), Some(1_000_000));
    }
    assert!(wheel.capacity() < 4_096, "{} cells", wheel.capacity());
    assert_eq!(wheel.cancel(far), Some(0));
    assert_eq!(wheel.next_deadline(), None);
}

/// A timer that is put off again and again stays where it is, and goes on once.
#[test]
fn a_later_deadline_moves_no_cell() {
    let mut wheel = Wheel::new(0);
    let handle = wheel.insert(600, ());
    for deadline in 601..10_000 {
        let before = wheel.levels.links_of(handle.cell());
        assert!(wheel.reschedule(handle, deadline));
        assert_eq!(wheel.levels.links_of(handle.cell()), before);
    }
    assert_eq!(
        wheel.next_deadline(),
        Some(600),
        "the old one, which is earlier"
    );
    assert_eq!(wheel.pop_due(600), None);
    assert_eq!(wheel.next_deadline(), Some(9_999));
    assert_eq!(wheel.pop_due(9_999), Some((9_999, ())));
}

/// Who puts off timers of a tick that is being given out does not pay for all others of it.
#[test]
fn a_timer_that_was_put_off_goes_on_alone() {
    let mut wheel = Wheel::new(0);
    let due: Vec<_> = (0..50).map(|key| wheel.insert(100, key)).collect();
    assert!(wheel.advance(100, 0, |_, _| ()));
    for key in 50..70 {
        let before = wheel.levels.links_of(due[0].cell());
        let head = wheel.insert(100, key);
        assert!(wheel.reschedule(head, 1_000));
        assert!(wheel.pop_due(100).is_some());
        assert_eq!(wheel.levels.links_of(due[0].cell()), before);
        wheel.check();
    }
    assert!(!wheel.advance(100, 30, |deadline, _| assert_eq!(deadline, 100)));
    assert_eq!((wheel.len(), wheel.next_deadline()), (20, Some(1_000)));
}
