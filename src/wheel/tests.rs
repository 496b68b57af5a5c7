//! How many entries a wheel holds, which the public calls do not show. What the calls promise is in
//! `tests/wheel.rs`.

use super::*;

impl<K> Wheel<K> {
    /// All entries, live and dead.
    fn entry_count(&self) -> usize {
        self.entries.len() + self.due.len()
    }
}

#[test]
fn a_storm_of_cancels_leaves_little_behind() {
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (0..100_000)
        .map(|key| wheel.insert(30_000 + key % 200, key))
        .collect();
    for handle in handles {
        assert!(wheel.cancel(handle).is_some());
    }
    // One slot.
    assert!(wheel.entry_count() < 100, "{} entries", wheel.entry_count());
    // A small window of live timers moves through many.
    let mut window = VecDeque::new();
    for key in 0..100_000 {
        window.push_back(wheel.insert(30_000, key));
        if window.len() > 100 {
            assert!(
                window
                    .pop_front()
                    .and_then(|oldest| wheel.cancel(oldest))
                    .is_some()
            );
        }
    }
    assert!(
        wheel.entry_count() < 500 && wheel.keys.iter().count() == 100,
        "{} entries",
        wheel.entry_count()
    );
}

#[test]
fn timers_cancelled_when_due_leave_little_behind() {
    let mut wheel = Wheel::new(10);
    let old: Vec<_> = (0..1_000).map(|key| wheel.insert(0, key)).collect();
    for key in 0..10_000 {
        let due = wheel.insert(0, key);
        assert_eq!(wheel.cancel(due), Some(key));
        assert!(
            wheel.entry_count() <= 2 * 1_000 + DEAD_MIN + 1,
            "{} entries",
            wheel.entry_count()
        );
    }
    // Some entries have left their slots, and time has moved on.
    assert!(wheel.advance(20, 1, |deadline, key| assert_eq!((deadline, key), (10, 0))));
    wheel.insert(15, 7);
    for handle in old {
        wheel.cancel(handle);
        assert!(
            wheel.entry_count() <= 2 * wheel.len() + DEAD_MIN + 1,
            "{} entries for {}",
            wheel.entry_count(),
            wheel.len()
        );
    }
    assert_eq!(wheel.pop_due(0), Some((20, 7)));
}

#[test]
fn moving_a_timer_again_and_again_leaves_little_behind() {
    let mut wheel = Wheel::new(0);
    let handle = wheel.insert(60_000, ());
    for now in 1..10_000 {
        assert!(wheel.reschedule(handle, now + 60_000));
        assert!(!wheel.advance(now, 1, |_, ()| unreachable!("it was put off")));
        assert_eq!(wheel.entry_count(), 1);
    }
    assert!(wheel.reschedule(handle, 60_000));
    assert_eq!(wheel.entry_count(), 1, "back to the deadline of its entry");
    for deadline in (50_001..60_000).rev() {
        assert!(wheel.reschedule(handle, deadline));
    }
    // About forty slots, each with fewer dead entries than a compaction is worth.
    assert!(
        wheel.entry_count() < 40 * 70,
        "{} entries",
        wheel.entry_count()
    );
    assert_eq!(wheel.pop_due(50_001), Some((50_001, ())));
}

#[test]
fn a_sweep_keeps_the_order_of_what_was_moved() {
    let mut wheel = Wheel::new(0);
    let doomed: Vec<_> = (0..500).map(|key| wheel.insert(5, key)).collect();
    wheel.insert(5, 1_000);
    let moved = wheel.insert(5, 1_007);
    (8..12).for_each(|deadline| _ = wheel.insert(deadline, 1_000 + deadline));
    assert!(wheel.reschedule(moved, 7));
    assert!(wheel.advance(10, 1, |deadline, key| assert_eq!((deadline, key), (5, 0))));
    doomed
        .into_iter()
        .skip(1)
        .for_each(|handle| assert!(wheel.cancel(handle).is_some()));
    assert!(wheel.entry_count() < 100, "{} entries", wheel.entry_count());
    let mut due = Vec::new();
    assert!(!wheel.advance(20, 100, |deadline, key| due.push((deadline, key))));
    assert_eq!(
        due,
        [
            (5, 1_000),
            (7, 1_007),
            (8, 1_008),
            (9, 1_009),
            (10, 1_010),
            (11, 1_011)
        ]
    );
}

#[test]
fn a_sweep_lets_no_time_pass_what_was_moved() {
    let mut wheel = Wheel::new(0);
    wheel.insert(5, 5);
    wheel.insert(5, 6);
    let moved = wheel.insert(5, 7);
    wheel.insert(8, 8);
    let doomed: Vec<_> = (0..500).map(|_| wheel.insert(9, 9)).collect();
    assert!(wheel.reschedule(moved, 7));
    assert!(wheel.advance(10, 1, |_, key| assert_eq!(key, 5)));
    doomed
        .into_iter()
        .for_each(|handle| assert!(wheel.cancel(handle).is_some()));
    let mut due = Vec::new();
    assert!(!wheel.advance(10, 100, |deadline, key| due.push((deadline, key))));
    assert_eq!(due, [(5, 6), (7, 7), (8, 8)]);
}

/// The wheel of entries may give out dead entries.
#[test]
fn an_entry_that_was_left_behind_is_dead() {
    let mut wheel = Wheel::new(0);
    let moved = wheel.insert(20, 'm');
    assert!(wheel.reschedule(moved, 10));
    let gone = wheel.insert(5, 'g');
    wheel.cancel(gone);
    wheel.due.extend([gone.entry(5), moved.entry(20)]);
    assert_eq!(
        (wheel.pop_due(9), wheel.pop_due(10), wheel.pop_due(20)),
        (None, Some((10, 'm')), None)
    );
}

/// The memory goes back without further calls.
#[test]
fn entries_give_their_memory_back() {
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (0..200_000)
        .map(|key| wheel.insert(1_000 + key % 50_000, key))
        .collect();
    assert!(wheel.entries.slabs() > 5);
    handles
        .into_iter()
        .for_each(|handle| assert!(wheel.cancel(handle).is_some()));
    assert!(
        wheel.is_empty() && wheel.entries.slabs() <= 2,
        "{} slabs left",
        wheel.entries.slabs()
    );
    let mut wheel = Wheel::new(0);
    (0..200_000).for_each(|key| _ = wheel.insert(1_000, key));
    assert!(wheel.entries.slabs() > 5);
    while wheel.pop_due(1_000).is_some() {}
    assert!(
        wheel.entries.slabs() <= 1,
        "{} slabs left",
        wheel.entries.slabs()
    );
}
