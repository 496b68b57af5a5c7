//! Timers that share a reading of the real clock are not early, though the thread that arms them is
//! held up among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, TimerService};

const ROUNDS: u64 = 100;
const TIMERS: u64 = 200;

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Arms timers in quick succession, and is held up among them for up to two milliseconds, or not
/// for long.
fn arm(service: &TimerService<Instant>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..ROUNDS {
        let pause_at = random.u64(TIMERS / 2..TIMERS);
        let pause = Duration::from_micros(1 << random.u32(..12));
        for timer in 0..TIMERS {
            if timer == pause_at {
                spin(pause);
            }
            let delay = Duration::from_micros(random.u64(..4_000));
            service.schedule(delay, Instant::now() + delay).unwrap();
        }
    }
}

/// The payload is the time before which its timer must not fire. It is taken before the call, so it
/// is sooner than the timer's own.
#[test]
fn timers_that_share_a_reading_are_not_early() {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counter = counts.clone();
    let on_expire = move |batch: &mut Batch<'_, Instant>| {
        for deadline in batch {
            let is_early = Instant::now() < deadline;
            counter[usize::from(is_early)].fetch_add(1, Ordering::Relaxed);
        }
    };
    let service = TimerService::builder()
        .shards(1)
        .on_expire(on_expire)
        .start()
        .unwrap();
    thread::scope(|scope| {
        for seed in [1, 2] {
            let service = &service;
            scope.spawn(move || arm(service, seed));
        }
    });
    let armed = 2 * ROUNDS * TIMERS;
    let count = |which: usize| counts[which].load(Ordering::Relaxed);
    while service.stats().timers.fired < armed || count(0) + count(1) < armed {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((count(0), count(1)), (armed, 0), "in time, and early");
}
