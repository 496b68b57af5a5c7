//! Promise: in a fleet no other timer is more than 50 ms late because of a call for many timers,
//! however many these are, or how large; nor because of many calls that wait.
//!
//! The store takes time for what it does, on a manual clock.

use crate::shared_memory::{Making, MemoryClock, SharedPlace};
use crate::slow_store::{Slow, Speed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::StoreClock;
use wheelwork_durable::{Durable, DurableClient, Partition};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3_600);

/// Between two timers that are watched.
const EVERY: Duration = MS.saturating_mul(10);

/// How many requests wait in the queue at one time.
const QUEUED: usize = 20_000;

/// The promise.
const LATE_MAX: Duration = MS.saturating_mul(50);

const FAST: Speed = Speed {
    call: Duration::from_millis(2),
    row: Duration::from_micros(5),
    kib: Duration::from_micros(12),
};

/// Ten times as slow, but for its answers.
const SLOW: Speed = Speed {
    call: Duration::from_millis(2),
    row: Duration::from_micros(50),
    kib: Duration::from_micros(120),
};

/// The store's clock, as a node knows it: at times only to within this duration.
struct Nearly(ManualClock, Duration);

impl StoreClock for Nearly {
    fn at_least(&self) -> SystemTime {
        let is_known = (self.0.elapsed().as_millis() / 25).is_multiple_of(2);
        self.0.system_time() - if is_known { Duration::ZERO } else { self.1 }
    }

    fn at_most(&self) -> SystemTime {
        self.0.system_time()
    }
}

impl MemoryClock for Nearly {
    fn now(&self) -> SystemTime {
        self.0.system_time()
    }
}

/// A node whose timers are watched while it does something else.
struct Scene {
    timers: Durable,
    clock: ManualClock,
    /// How late each was.
    late: Arc<Mutex<Vec<Duration>>>,
}

fn scene(speed: Speed, unknown: Duration) -> Scene {
    let clock = ManualClock::new();
    let making = Making {
        partitions: 16,
        partition_of_key: |key| Partition::from(key.as_bytes()[0] % 16),
        lease: Duration::from_secs(10),
        claim_ahead: MS * 25,
        has_news: false,
        strikes: true,
        broken: None,
    };
    let place = SharedPlace::new(making, clock.system_time());
    let node = place.node("node", Arc::new(Nearly(clock.clone(), unknown)));
    let store = Slow::new(node, clock.clone(), speed);
    let late = Arc::<Mutex<Vec<_>>>::default();
    let (noted, shows) = (Arc::clone(&late), clock.clone());
    let flooded = Arc::<OnceLock<DurableClient>>::default();
    let floods = Arc::clone(&flooded);
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .on("watched", move |timer| {
            let late = shows.system_time().duration_since(timer.due()).unwrap();
            noted.lock().unwrap().push(late);
            Ok(())
        })
        .on("bulk", |_| Ok(()))
        .on("flood", move |_| {
            // (Nobody waits for the tickets.)
            for number in 0..QUEUED {
                let key = format!("{number}");
                let timers = floods.get().unwrap();
                drop(timers.key(&key).schedule_ticket("bulk", HOUR, "")?);
            }
            Ok(())
        })
        .start()
        .unwrap();
    flooded.set(timers.client()).unwrap();
    Scene {
        timers,
        clock,
        late,
    }
}

impl Scene {
    /// How late the timers are at most that fall due while this is called.
    fn beside<R>(&self, call: impl FnOnce(&Durable) -> R) -> (R, Duration) {
        let from = self.clock.system_time() + HOUR / 60;
        let dues = (0..1_000).map(|number| ("watched", from + EVERY * number, ""));
        self.timers.schedule_many(dues).unwrap();
        let wait = from.duration_since(self.clock.system_time()).unwrap();
        self.clock.advance(wait + EVERY * 10);
        self.late.lock().unwrap().clear();
        let answer = call(&self.timers);
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        assert!(late.len() >= 10, "{} have fired", late.len());
        self.timers.cancel_kind("watched").unwrap();
        (answer, late.into_iter().max().unwrap())
    }
}

fn bulk(rows: usize, bytes: usize) -> impl Iterator<Item = (&'static str, Duration, Vec<u8>)> {
    (0..rows).map(move |_| ("bulk", HOUR, vec![0; bytes]))
}

/// Makes each large call. Returns how late other timers were at most.
fn lateness_beside_all(speed: Speed) -> Vec<(&'static str, Duration)> {
    let scene = scene(speed, Duration::ZERO);
    let (ids, many) = scene.beside(|timers| timers.schedule_many(bulk(20_000, 16)).unwrap());
    assert_eq!(ids.len(), 20_000);
    let (rows, list) = scene.beside(|timers| timers.list(.., 20_000).unwrap());
    assert_eq!(rows.len(), 20_000);
    let (gone, ended) = scene.beside(|timers| timers.cancel_many(ids).unwrap());
    assert_eq!(gone, 20_000);
    let (_, large) = scene.beside(|timers| timers.schedule_many(bulk(40, 256 << 10)).unwrap());
    scene.timers.schedule_many(bulk(20_000, 16)).unwrap();
    let (gone, kind) = scene.beside(|timers| timers.cancel_kind("bulk").unwrap());
    assert_eq!(gone, 20_040);
    vec![
        ("schedule_many", many),
        ("list", list),
        ("cancel_many", ended),
        ("schedule_many of large ones", large),
        ("cancel_kind", kind),
    ]
}

#[test]
fn no_other_timer_is_late() {
    for speed in [FAST, SLOW] {
        for (call, late) in lateness_beside_all(speed) {
            assert!(late <= LATE_MAX, "{call}: {late:?} late, at {speed:?}");
        }
    }
}

/// How late other timers are at most while the queue of requests is long. Some of them are sent
/// back, because the node does not know the store's clock well enough just then.
fn lateness_beside_a_queue(speed: Speed) -> Duration {
    let scene = scene(speed, MS * 3);
    let clock = scene.clock.clone();
    let ((), late) = scene.beside(|timers| {
        timers.schedule("flood", MS * 90, "").unwrap();
        while timers.stats().armed < QUEUED as u64 {
            timers.schedule("bulk", HOUR, "").unwrap();
        }
        // (What has come back fires.)
        clock.advance(EVERY);
    });
    late
}

#[test]
fn no_other_timer_is_late_beside_a_long_queue() {
    for speed in [FAST, SLOW] {
        let late = lateness_beside_a_queue(speed);
        assert!(late <= LATE_MAX, "{late:?} late, at {speed:?}");
    }
}

#[cfg(feature = "__faults")]
#[test]
fn what_handlers_say_behind_a_long_queue_makes_others_late() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::WordsBehindCalls));
    let late = [FAST, SLOW].map(lateness_beside_a_queue);
    set_durable_fault(None);
    assert!(late.iter().all(|&late| late > LATE_MAX), "{late:?} late");
}

#[cfg(feature = "__faults")]
#[test]
fn slices_that_do_not_follow_the_time_make_others_late() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::PaceIgnored));
    let late = lateness_beside_all(SLOW);
    set_durable_fault(None);
    for (call, late) in late {
        assert!(late > LATE_MAX, "{call}: {late:?} late");
    }
}

/// A database that is so far away that no commit is fast gets no more commits than need be.
#[test]
fn a_store_that_answers_late_is_given_many_rows_at_once() {
    let speed = Speed {
        call: MS * 60,
        ..FAST
    };
    let scene = scene(speed, Duration::ZERO);
    scene.timers.schedule_many(bulk(10_000, 16)).unwrap();
    let before = scene.timers.stats().commits;
    scene.timers.schedule_many(bulk(20_000, 16)).unwrap();
    let commits = scene.timers.stats().commits - before;
    assert!(commits <= 10, "{commits} commits");
}
