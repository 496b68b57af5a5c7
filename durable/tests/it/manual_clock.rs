//! Promise: on a manual clock a durable store takes turns for what happens, and none for time that
//! passes. A turn comes when the time of day is set.

use crate::over_memory::{Over, OverMemory};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::{Durable, Memory, StoreError, StoreTime};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A store that counts turns: each asks for its clock once.
struct Counts {
    memory: Memory,
    turns: Arc<AtomicUsize>,
}

impl OverMemory for Counts {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        self.turns.fetch_add(1, SeqCst);
        Ok(StoreTime::reading(node))
    }
}

struct Scene {
    timers: Durable,
    clock: ManualClock,
    turns: Arc<AtomicUsize>,
    /// When handlers were called, by the monotonic clock.
    fired: Arc<Mutex<Vec<Duration>>>,
}

fn scene() -> Scene {
    let (clock, turns) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    clock.set_system_time(SystemTime::UNIX_EPOCH + 10_000 * DAY);
    let fired = Arc::<Mutex<Vec<_>>>::default();
    let (calls, reading) = (fired.clone(), clock.clone());
    let store = Counts {
        memory: Memory::new(),
        turns: turns.clone(),
    };
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .on("mail", move |_| {
            calls.lock().unwrap().push(reading.elapsed());
            Ok(())
        })
        .start()
        .unwrap();
    Scene {
        timers,
        clock,
        turns,
        fired,
    }
}

impl Scene {
    /// The turns that this takes.
    fn turns(&self, act: impl FnOnce()) -> usize {
        let before = self.turns.load(SeqCst);
        act();
        self.turns.load(SeqCst) - before
    }

    fn fired(&self) -> Vec<Duration> {
        std::mem::take(&mut self.fired.lock().unwrap())
    }
}

#[test]
fn time_that_passes_costs_no_turns() {
    let scene = scene();
    scene.timers.schedule("mail", 29 * DAY, "").unwrap();
    let turns = scene.turns(|| scene.clock.advance(30 * DAY));
    assert_eq!(scene.fired(), [29 * DAY]);
    assert!(turns <= 100, "{turns} turns in 30 days");
    // Nothing is left, and nothing comes.
    let turns = scene.turns(|| scene.clock.advance(3_650 * DAY));
    assert!(turns <= 100, "{turns} turns in ten years");
}

#[test]
fn timers_of_many_days_fire_at_their_times() {
    let scene = scene();
    let mut due: Vec<Duration> = (1..=60).map(|day| day * DAY + day * SECOND).collect();
    for &due in due.iter().rev() {
        scene.timers.schedule("mail", due, "").unwrap();
    }
    let turns = scene.turns(|| scene.clock.advance(30 * DAY));
    let rest = due.split_off(29);
    assert_eq!(scene.fired(), due);
    assert!(turns <= 100 * 30, "{turns} turns of 29 timers");
    scene.clock.advance(100 * DAY);
    assert_eq!(scene.fired(), rest);
}

#[test]
fn a_set_of_the_clock_is_followed_at_once() {
    let scene = scene();
    scene.timers.schedule("mail", 20 * DAY, "loaded").unwrap();
    scene.clock.advance(20 * DAY - 100 * SECOND);
    scene.timers.schedule("mail", 20 * DAY, "stored").unwrap();
    // Looks are rare by now: no turn is to come soon.
    let turns = scene.turns(|| scene.clock.advance(20 * SECOND));
    assert!(turns <= 20, "{turns} turns in 20 s");
    // The first one is in the window, and the other one in the store alone.
    for by in [80 * SECOND, 20 * DAY] {
        let set_to = scene.clock.system_time() + by;
        scene.clock.set_system_time(set_to);
        scene.clock.advance(SECOND);
        assert_eq!(scene.fired().len(), 1, "after {by:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_delays_what_is_due() {
    let scene = scene();
    scene.timers.schedule("mail", 100 * SECOND, "").unwrap();
    scene.clock.advance(50 * SECOND);
    let back = scene.clock.system_time() - 10 * DAY;
    scene.clock.set_system_time(back);
    let turns = scene.turns(|| scene.clock.advance(11 * DAY));
    assert_eq!(scene.fired(), [10 * DAY + 100 * SECOND]);
    assert!(turns <= 100, "{turns} turns");
}

#[test]
fn counts_are_those_of_a_second_ago() {
    let scene = scene();
    scene.clock.advance(10 * DAY);
    for rows in 1..10 {
        scene.timers.schedule("mail", 100 * DAY, "").unwrap();
        scene.clock.advance(SECOND);
        assert_eq!(scene.timers.stats().rows, rows);
    }
}
