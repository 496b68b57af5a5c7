//! Promise: a timer that waits for its kind is handed out as one that has just come due.
//!
//! - It is not early, and its calendar and its lease are looked at again.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};
use wheelwork::{Dispatch, ManualClock};
use wheelwork_durable::{Delivery, Durable, Memory, SpawnedFuture};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A clock on day 100.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY);
    clock
}

#[test]
fn a_timer_that_waits_for_a_limit_is_not_early_when_the_clock_is_set_back() {
    let (clock, calls) = (clock(), Arc::new(AtomicU32::new(0)));
    let (marks, ends) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(2)));
    let mark = marks.clone();
    let handler = {
        let (calls, ends) = (calls.clone(), ends.clone());
        move |_: &Delivery| {
            if calls.fetch_add(1, SeqCst) == 0 {
                ends.wait();
            }
            Ok(())
        }
    };
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(2))
        .on("report", handler)
        .max_calls("report", NonZeroUsize::MIN)
        .on("marker", move |_| {
            mark.fetch_add(1, SeqCst);
            Ok(())
        })
        .start()
        .unwrap();
    let [one, other] = [("a", HOUR), ("b", HOUR + MS)]
        .map(|(payload, after)| timers.schedule("report", after, payload).unwrap());
    timers.schedule("marker", HOUR + 2 * MS, "").unwrap();
    clock.advance(HOUR - SECOND);
    // (The pool's threads take the writer's turns, so the clock waits for them.)
    while marks.load(SeqCst) == 0 {
        clock.advance(MS);
        std::thread::yield_now();
    }
    // One thread handles one of them: the first, or the second if its thread was faster. The other
    // thread has left the other timer to it.
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY);
    ends.wait();
    while !timers.cancel(one).unwrap() && !timers.cancel(other).unwrap() {
        assert_eq!(calls.load(SeqCst), 1, "it is handled an hour early");
        std::thread::yield_now();
    }
    timers.stop().unwrap();
    assert_eq!((calls.load(SeqCst), timers.stats().done), (1, 2));
}

/// Futures of the kind `report`, of which `limit` may be under way, and how many have begun.
fn futures(
    clock: &ManualClock,
    limit: usize,
) -> (
    Durable,
    crossbeam_channel::Receiver<SpawnedFuture>,
    Arc<AtomicU32>,
) {
    let (sender, futures) = crossbeam_channel::unbounded();
    let begun = Arc::new(AtomicU32::new(0));
    let count = begun.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("report", move |_| {
            count.fetch_add(1, SeqCst);
            async { Ok(()) }
        })
        .max_calls("report", NonZeroUsize::new(limit).unwrap())
        .start()
        .unwrap();
    (timers, futures, begun)
}

#[test]
fn a_future_that_waits_for_a_limit_is_not_early_either() {
    let clock = clock();
    let (timers, futures, begun) = futures(&clock, 1);
    let ids = ["a", "b", "c"].map(|name| timers.schedule("report", HOUR, name).unwrap());
    clock.advance(HOUR);
    let first = futures.recv().unwrap();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY + HOUR);
    futures_lite::future::block_on(first);
    let second = futures.recv().unwrap();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY);
    futures_lite::future::block_on(second);
    // The second one had waited for its executor, the third one for its place.
    assert_eq!((futures.len(), begun.load(SeqCst)), (0, 1));
    assert_eq!((timers.stats().done, timers.stats().failed), (1, 0));
    assert!(timers.cancel(ids[2]).unwrap(), "nobody has it");
    clock.advance(HOUR);
    futures_lite::future::block_on(futures.recv().unwrap());
    assert_eq!((timers.stats().done, begun.load(SeqCst)), (2, 2));
    assert_eq!(timers.list(.., 9).unwrap(), []);
}
