//! Promise: a timer that is cancelled by the thread that armed it, before the shard has seen it,
//! costs the shard nothing; and that loses, doubles or leaves behind no timer.

use fastrand::Rng;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ManualClock, ShardStats, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(30);

type Fired = Arc<Mutex<Vec<u32>>>;

fn manual() -> (TimerService<u32>, ManualClock, Fired) {
    let (clock, fired) = (ManualClock::new(), Fired::default());
    let log = fired.clone();
    let expire =
        move |batch: &mut Batch<'_, u32>| batch.for_each(|timer| log.lock().unwrap().push(timer));
    (
        TimerService::builder()
            .shards(1)
            .clock(clock.clone())
            .on_expire(expire)
            .start()
            .unwrap(),
        clock,
        fired,
    )
}

fn shard<T: Send + 'static>(service: &TimerService<T>) -> ShardStats {
    service.stats().shards[0]
}

#[test]
fn pairs_that_meet_in_their_lane_send_no_tombstones() {
    let (service, clock, fired) = manual();
    let pairs = |pairs: u32| {
        (0..pairs)
            .for_each(|timer| assert!(service.cancel(service.schedule(TIMEOUT, timer).unwrap())));
        let waiting = shard(&service).machinery.lane_depth();
        let before = shard(&service);
        clock.advance(Duration::ZERO);
        let after = shard(&service);
        assert_eq!(
            (
                after.machinery.lane_depth(),
                after.machinery.figure("holes").unwrap(),
                after.machinery.entries()
            ),
            (0, 0, 0)
        );
        assert_eq!(
            (
                after.machinery.drained() - before.machinery.drained(),
                after.machinery.eliminated() - before.machinery.eliminated()
            ),
            (waiting, u64::from(pairs))
        );
        waiting
    };
    // A shard that has seen many of them has those that come after it wait in their lane.
    assert_eq!(
        [10, 10, 1_000, 1_000, 1_000].map(&pairs),
        [20, 20, 2_000, 1_000, 1_000]
    );
    assert_eq!([10; 10].map(&pairs), [10; 10]);
    // Until none has come for a while.
    clock.advance(64 * MS);
    clock.advance(Duration::ZERO);
    assert_eq!([10; 2].map(&pairs), [20; 2]);
    assert!(fired.lock().unwrap().is_empty() && service.is_empty());
}

/// However many timers are in flight: once the shard has seen that they are cancelled, it takes
/// each message in once, and files none.
fn files_none(window: usize, round: usize) {
    let (service, clock, fired) = manual();
    let mut pending = std::collections::VecDeque::new();
    let mut pass_round = || {
        for timer in 0..round {
            pending.push_back(service.schedule(TIMEOUT, timer as u32).unwrap());
            if pending.len() > window {
                assert!(service.cancel(pending.pop_front().unwrap()));
            }
        }
        clock.advance(MS);
        shard(&service)
    };
    // The first ones are filed, and cancelled in the wheel.
    let begun = 2 * window / round + 12;
    let before = (0..begun).map(|_| pass_round()).last().unwrap();
    for rounds in 1..=50 {
        let after = pass_round();
        let messages = (rounds * round) as u64;
        assert_eq!(after.machinery.lane_depth(), window as u64);
        assert_eq!(
            after.machinery.drained() - before.machinery.drained(),
            messages
        );
        assert_eq!(
            after.machinery.eliminated() - before.machinery.eliminated(),
            messages
        );
        assert!(after.machinery.entries() <= 32, "dead ones");
        assert_eq!(
            after.machinery.figure("compactions").unwrap(),
            before.machinery.figure("compactions").unwrap()
        );
    }
    assert!(fired.lock().unwrap().is_empty());
}

#[test]
fn a_window_of_timers_is_not_filed() {
    files_none(20_000, 5_000);
}

/// The first ones lie in slots that are compacted in steps: the shard knows how many tombstones
/// belong to these.
#[test]
fn nor_is_a_large_window() {
    files_none(300_000, 15_000);
}

/// A timer that waits in its lane is among those that `next_deadline` tells of, and fires in time.
#[test]
fn a_timer_that_waits_in_its_lane_is_told_of() {
    let (service, clock, fired) = manual();
    for _ in 0..2 {
        for timer in 0..1_000 {
            assert!(service.cancel(service.schedule(TIMEOUT, timer).unwrap()));
        }
        clock.advance(MS);
    }
    let in_lane = || {
        let machinery = shard(&service).machinery;
        let waiting = machinery.figure("lane_waiting").unwrap();
        (machinery.lane_depth(), waiting)
    };
    _ = service.schedule(50 * MS, 7).unwrap();
    assert_eq!(in_lane(), (1, 0), "the shard has not looked at it");
    clock.advance(MS);
    assert_eq!(in_lane(), (1, 1), "it waits");
    let next = service.next_deadline(0).expect("one timer is pending") - clock.now();
    assert!((10 * MS..=49 * MS).contains(&next), "{next:?}");
    clock.advance(48 * MS);
    assert!(fired.lock().unwrap().is_empty());
    clock.advance(MS);
    assert_eq!(*fired.lock().unwrap(), [7]);
    assert_eq!(in_lane(), (0, 0));
}

/// The insert of a timer that is moved goes to the wheel at once: its cancel could not recall it.
#[test]
fn a_timer_that_is_moved_does_not_wait_in_its_lane() {
    let (service, clock, fired) = manual();
    let moved = service.schedule(2 * TIMEOUT, 7).unwrap();
    for _ in 0..2 {
        for timer in 0..1_000 {
            assert!(service.cancel(service.schedule(TIMEOUT, timer).unwrap()));
        }
        clock.advance(MS);
    }
    assert!(service.reschedule(moved, 50 * MS));
    clock.advance(MS);
    assert_eq!(shard(&service).machinery.lane_depth(), 0);
    clock.advance(48 * MS);
    assert!(fired.lock().unwrap().is_empty());
    clock.advance(MS);
    assert_eq!(*fired.lock().unwrap(), [7]);
}

/// What the test knows of a timer.
#[derive(Clone, Copy)]
struct Timer {
    id: TimerId,
    due_ms: u64,
    cancelled: bool,
}

/// Most timers are cancelled in their lanes, in any order, others later or never, and some are
/// moved before.
#[test]
fn what_was_not_cancelled_fires_when_it_is_due() {
    for seed in 0..4 {
        let mut random = Rng::with_seed(seed);
        let (service, clock, fired) = manual();
        let (mut timers, mut now_ms): (Vec<Timer>, u64) = (Vec::new(), 0);
        for round in 0..40 {
            for _ in 0..random.usize(3_000..5_000) {
                let delay_ms = random.u64(1..60);
                let id = service
                    .schedule(MS * delay_ms as u32, timers.len() as u32)
                    .unwrap();
                timers.push(Timer {
                    id,
                    due_ms: now_ms + delay_ms,
                    cancelled: false,
                });
                if random.u8(..) < 220 {
                    let newest = timers.len();
                    let chosen = random.usize(newest.saturating_sub(1_500)..newest);
                    let timer = &mut timers[chosen];
                    let pends = !timer.cancelled && timer.due_ms > now_ms;
                    if random.u8(..) < 30 {
                        let delay_ms = random.u64(1..60);
                        assert_eq!(service.reschedule(timer.id, MS * delay_ms as u32), pends);
                        timer.due_ms = if pends {
                            now_ms + delay_ms
                        } else {
                            timer.due_ms
                        };
                    } else {
                        assert_eq!(service.cancel(timer.id), pends);
                        timer.cancelled |= pends;
                    }
                }
            }
            let passed_ms = if round == 39 { 100 } else { random.u64(0..4) };
            clock.advance(MS * passed_ms as u32);
            now_ms += passed_ms;
            let due = timers
                .iter()
                .filter(|timer| !timer.cancelled && timer.due_ms <= now_ms)
                .count();
            assert_eq!(
                fired.lock().unwrap().len(),
                due,
                "seed {seed}, at {now_ms} ms"
            );
        }
        let mut fired = std::mem::take(&mut *fired.lock().unwrap());
        fired.sort_unstable();
        assert!(
            (0..timers.len() as u32)
                .filter(|&timer| !timers[timer as usize].cancelled)
                .eq(fired),
            "each once"
        );
        let stats = shard(&service);
        assert_eq!(
            (
                service.len(),
                stats.machinery.lane_depth(),
                stats.machinery.entries()
            ),
            (0, 0, 0)
        );
        assert!(
            stats.machinery.drained()
                < stats.timers.armed + stats.timers.rearmed + stats.timers.cancelled / 2,
            "half were recalled: {stats:?}"
        );
    }
}

/// Threads recall while the shard drains: what is left in its wheel waits for a tombstone that it
/// counts, or lives.
#[test]
fn nothing_dead_is_left_behind_uncounted() {
    const WINDOW: usize = 300;
    let service = TimerService::builder()
        .shards(1)
        .on_expire(|_: &mut Batch<'_, u64>| {})
        .start()
        .unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut window = std::collections::VecDeque::with_capacity(WINDOW);
                while !stop.load(Relaxed) {
                    window.push_back(service.schedule(TIMEOUT * 100, 7).unwrap());
                    if window.len() == WINDOW {
                        assert!(service.cancel(window.pop_front().unwrap()));
                    }
                }
            });
        }
        // Until this number of pairs met in a lane, whatever time that takes.
        while shard(&service).machinery.eliminated() < 400_000 {
            thread::sleep(MS);
        }
        stop.store(true, Relaxed);
    });
    while shard(&service).machinery.lane_depth() > 0 {
        thread::sleep(MS);
    }
    // The turn that took the last of them has ended when two more have.
    let turns = shard(&service).machinery.turns();
    while shard(&service).machinery.turns() < turns + 2 {
        thread::sleep(MS);
    }
    let stats = shard(&service);
    let entries: u64 = stats.machinery.entries();
    assert_eq!(stats.timers.pending, 2 * (WINDOW as u64 - 1));
    assert!(
        entries <= stats.timers.pending + stats.machinery.figure("holes").unwrap(),
        "{entries} entries: {stats:?}"
    );
    assert_eq!(service.stop().len(), 2 * (WINDOW - 1));
}
