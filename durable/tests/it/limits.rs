//! Promise: a rate and a limit of calls hold, for a kind and for keys that begin alike.
//!
//! - In any time `T` at most `burst + per_second * T` timers begin. No more than the limit are
//!   handled at one time.
//! - Those that have to wait are held in the store: they can be cancelled, moved and listed, come
//!   in the order of their deadlines, and keep no other timer waiting.
//! - Below a limit a timer costs no change of its row.
//! - A crash or a stop gives no timer more than its rate.

use crate::over_memory::{Over, OverMemory};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, Store, Write};
use wheelwork_durable::{
    Delivery, Durable, DurableBuilder, HeldWhy, Memory, Rate, SpawnedFuture, StoreError,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY);
    clock
}

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn rate(per_second: f64, burst: u32) -> Rate {
    Rate::new(per_second, count(burst)).unwrap()
}

/// When a handler was called, by the clock, and for which timer.
type Begun = Arc<Mutex<Vec<(Duration, String)>>>;

fn program<S: Store>(
    store: S,
    clock: &ManualClock,
    kinds: &[&str],
    begun: &Begun,
) -> DurableBuilder<S> {
    let mut builder = Durable::builder(store).clock(clock.clone());
    for kind in kinds {
        let (begun, clock) = (begun.clone(), clock.clone());
        builder = builder.on(kind, move |timer| {
            let text = timer.payload_text().into_owned();
            begun.lock().unwrap().push((clock.elapsed(), text));
            Ok(())
        });
    }
    builder
}

fn taken(begun: &Begun) -> Vec<String> {
    let begun = std::mem::take(&mut *begun.lock().unwrap());
    begun.into_iter().map(|(_, text)| text).collect()
}

/// Whether in any time `T` at most `burst + per_second * T` timers have begun.
#[track_caller]
fn is_within(rate: Rate, begun: &[Duration]) {
    for (first, from) in begun.iter().enumerate() {
        for (last, to) in begun.iter().enumerate().skip(first) {
            let most = f64::from(rate.burst().get())
                + rate.per_second() * (*to - *from).as_secs_f64()
                + 1e-6;
            let number = last - first + 1;
            assert!(number as f64 <= most, "{number} from {from:?} to {to:?}");
        }
    }
}

#[test]
fn timers_keep_to_a_rate_and_to_their_order() {
    for (per_second, burst) in [(10.0, 3), (2.5, 1), (500.0, 40), (0.1, 2)] {
        let (clock, begun) = (clock(), Begun::default());
        let timers = program(Memory::new(), &clock, &["mail", "other"], &begun);
        let timers = timers.start().unwrap();
        let rate = rate(per_second, burst);
        assert!(timers.kind("mail").set_rate(rate).unwrap());
        assert!(!timers.kind("mail").set_rate(rate).unwrap());
        // The burst is there after a while.
        clock.advance(Duration::from_secs_f64(f64::from(burst) / per_second));
        let mut names = Vec::new();
        for number in 0..50 {
            let name = format!("{number:02}");
            let due = SECOND + (49 - number) * MS;
            timers.schedule("mail", due, name.clone()).unwrap();
            names.insert(0, name);
        }
        timers.schedule("other", SECOND + 30 * MS, "other").unwrap();
        clock.advance(SECOND + 60 * MS);
        let others = begun
            .lock()
            .unwrap()
            .iter()
            .filter(|one| one.1 == "other")
            .count();
        assert_eq!(others, 1, "no other kind waits");
        clock.advance(Duration::from_secs_f64(50.0 / per_second) + 2 * SECOND);
        let all = std::mem::take(&mut *begun.lock().unwrap());
        let all: Vec<_> = all.into_iter().filter(|one| one.1 != "other").collect();
        let times: Vec<_> = all.iter().map(|one| one.0).collect();
        is_within(rate, &times);
        let order: Vec<_> = all.into_iter().map(|one| one.1).collect();
        assert_eq!(order, names, "rate {per_second}");
        let stats = timers.stats();
        assert_eq!((stats.done, stats.rows, stats.limited), (51, 0, 0));
    }
}

#[test]
fn below_its_limit_a_timer_costs_no_change() {
    let mut writes = Vec::new();
    for is_limited in [false, true] {
        let (clock, begun) = (clock(), Begun::default());
        let timers = program(Memory::new(), &clock, &["mail"], &begun);
        let timers = timers.start().unwrap();
        if is_limited {
            timers.kind("mail").set_rate(rate(100.0, 10)).unwrap();
            timers.kind("mail").set_calls(count(3)).unwrap();
            timers.keys_with("a").set_calls(count(3)).unwrap();
        }
        clock.advance(SECOND);
        let before = timers.stats().writes;
        for number in 0..100_u32 {
            let key = format!("a{number}");
            let key = timers.key(&key);
            key.schedule("mail", number * 20 * MS, "").unwrap();
        }
        clock.advance(3 * SECOND);
        assert_eq!(taken(&begun).len(), 100);
        writes.push(timers.stats().writes - before);
    }
    assert_eq!(writes[0], writes[1]);
}

#[test]
fn timers_that_wait_are_seen_cancelled_and_moved() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(0.1, 1)).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let ids: Vec<_> = (names.iter())
        .map(|name| timers.schedule("mail", SECOND, *name).unwrap())
        .collect();
    clock.advance(2 * SECOND);
    for &id in &ids {
        let row = timers.get(id).unwrap().unwrap();
        assert_eq!(row.held().unwrap().why, HeldWhy::Limited);
    }
    assert_eq!((timers.stats().limited, timers.stats().window_rows), (5, 0));
    assert!(timers.unhandled().unwrap().is_empty());
    assert!(timers.cancel(ids[0]).unwrap());
    assert!(timers.reschedule(ids[1], 200 * SECOND).unwrap());
    // (The first token comes after 10 s.)
    clock.advance(8 * SECOND + 5 * MS);
    assert_eq!(taken(&begun), ["c"]);
    clock.advance(20 * SECOND);
    assert_eq!(taken(&begun), ["d", "e"]);
    clock.advance(200 * SECOND);
    assert_eq!(taken(&begun), ["b"]);
    assert_eq!((timers.stats().rows, timers.stats().limited), (0, 0));
}

#[test]
fn what_waits_is_handed_out_when_the_limit_is_removed() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(0.001, 1)).unwrap();
    for number in 0..3_000 {
        timers
            .schedule("mail", number * MS, format!("{number:04}"))
            .unwrap();
    }
    clock.advance(10 * SECOND);
    assert_eq!(taken(&begun), [""; 0]);
    assert_eq!(timers.stats().limited, 3_000);
    assert!(timers.kind("mail").clear_rate().unwrap());
    assert!(!timers.kind("mail").clear_rate().unwrap());
    clock.advance(SECOND);
    let all = taken(&begun);
    assert_eq!(all.len(), 3_000);
    assert_eq!(timers.stats().limited, 0);
}

#[test]
fn more_timers_wait_than_are_known() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail", "report"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(1_000.0, 1)).unwrap();
    timers.kind("report").set_rate(rate(0.000_1, 1)).unwrap();
    for number in (0..5_000_u32).rev() {
        let name = format!("{number:04}");
        timers.schedule("mail", number / 10 * MS, name).unwrap();
        timers.schedule("report", number / 10 * MS, "").unwrap();
    }
    clock.advance(Duration::from_millis(5_600));
    let all = taken(&begun);
    assert_eq!(all.len(), 5_000);
    assert_eq!(timers.stats().limited, 5_000);
}

#[test]
fn a_timer_meets_several_rules() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail", "call"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(100.0, 10)).unwrap();
    timers
        .keys_with("tenant-7/")
        .set_rate(rate(1.0, 1))
        .unwrap();
    clock.advance(SECOND);
    for number in 0..1_500 {
        let key = format!("tenant-7/{number}");
        timers.key(&key).schedule("mail", SECOND, "seven").unwrap();
    }
    timers
        .key("tenant-7/call")
        .schedule("call", SECOND, "call")
        .unwrap();
    for number in 0..100 {
        let key = format!("tenant-8/{number}");
        timers
            .key(&key)
            .schedule("mail", SECOND + MS, "eight")
            .unwrap();
    }
    // Many of one tenant keep no other one waiting.
    clock.advance(3 * SECOND + 5 * MS);
    let all = taken(&begun);
    let of = |name: &str| all.iter().filter(|one| *one == name).count();
    assert_eq!((of("eight"), of("seven") + of("call")), (100, 3));
    clock.advance(10 * SECOND);
    assert_eq!(taken(&begun).len(), 10);
}

#[test]
fn a_start_gives_no_timer_more_than_its_rate() {
    for is_crash in [false, true] {
        let (clock, begun, store) = (clock(), Begun::default(), Memory::new());
        let rate = rate(2.0, 5);
        for life in 0..20_u32 {
            let timers = program(store.clone(), &clock, &["mail"], &begun);
            let timers = timers.start().unwrap();
            if life == 0 {
                timers.kind("mail").set_rate(rate).unwrap();
                let all = (0..100)
                    .map(|_| ("mail", Duration::ZERO, ""))
                    .collect::<Vec<_>>();
                timers.schedule_many(all).unwrap();
            }
            for _ in 0..10 {
                clock.advance(Duration::from_millis(u64::from(61 * (life % 7 + 1))));
            }
            match is_crash {
                true => std::mem::forget(timers),
                false => timers.stop().unwrap(),
            }
        }
        let times: Vec<_> = begun.lock().unwrap().iter().map(|one| one.0).collect();
        assert!(times.len() > 20);
        is_within(rate, &times);
    }
}

/// Futures that a program has spawned, and polls when the test says so.
type Spawned = Arc<Mutex<Vec<SpawnedFuture>>>;

/// Polls all of them once.
fn poll_all(spawned: &Spawned) {
    let futures = std::mem::take(&mut *spawned.lock().unwrap());
    let mut context = Context::from_waker(Waker::noop());
    for mut future in futures {
        if future.as_mut().poll(&mut context).is_pending() {
            spawned.lock().unwrap().push(future);
        }
    }
}

/// How many handlers are under way, and how many were at most.
#[derive(Default)]
struct Open {
    now: AtomicU32,
    most: AtomicU32,
}

/// A handler that is under way.
struct Call(Arc<Open>);

impl Call {
    fn begin(open: &Arc<Open>) -> Self {
        let now = open.now.fetch_add(1, SeqCst) + 1;
        open.most.fetch_max(now, SeqCst);
        Self(open.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

#[test]
fn no_more_futures_are_under_way_than_may_be() {
    let (clock, spawned, open) = (clock(), Spawned::default(), Arc::new(Open::default()));
    let (into, opened) = (spawned.clone(), open.clone());
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| into.lock().unwrap().push(future))
        .on_async("mail", move |timer: Delivery| {
            let call = Call::begin(&opened);
            let (text, mut polls) = (timer.payload_text().into_owned(), 0);
            async move {
                std::future::poll_fn(|_| {
                    polls += 1;
                    if polls > 3 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                drop(call);
                assert_ne!(
                    (&*text, timer.attempt()),
                    ("panics", 1),
                    "the first attempt"
                );
                Ok(())
            }
        })
        .start()
        .unwrap();
    timers.kind("mail").set_calls(count(4)).unwrap();
    for number in 0..40 {
        let text = if number % 5 == 0 { "panics" } else { "" };
        timers.schedule("mail", number % 3 * MS, text).unwrap();
    }
    for round in 0..200 {
        clock.advance(SECOND);
        poll_all(&spawned);
        if round % 7 == 3 {
            // A future that is dropped gives its call back too.
            let dropped = spawned.lock().unwrap().pop();
            drop(dropped);
        }
    }
    assert_eq!(open.most.load(SeqCst), 4);
    let stats = timers.stats();
    assert_eq!((stats.rows, stats.limited, stats.done), (0, 0, 40));
}

#[test]
fn a_batch_takes_as_many_as_are_let_through() {
    let (clock, sizes) = (clock(), Arc::new(Mutex::new(Vec::new())));
    let told = sizes.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on_batch("mail", move |timers| {
            told.lock().unwrap().push(timers.len());
            timers.iter().map(|_| Ok(())).collect()
        })
        .start()
        .unwrap();
    timers.kind("mail").set_calls(count(5)).unwrap();
    for _ in 0..23 {
        timers.schedule("mail", SECOND, "").unwrap();
    }
    clock.advance(2 * SECOND);
    let sizes = sizes.lock().unwrap();
    assert!(sizes.iter().all(|&size| size <= 5), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), 23);
}

#[test]
fn handlers_on_threads_keep_to_their_number() {
    let open = Arc::new(Open::default());
    let mut builder = Durable::builder(Memory::new());
    for kind in ["a", "b", "c"] {
        let opened = open.clone();
        builder = builder.on(kind, move |_| {
            let _call = Call::begin(&opened);
            thread::yield_now();
            Ok(())
        });
    }
    let timers = builder.start().unwrap();
    timers.keys_with("t/").set_calls(count(2)).unwrap();
    timers.kind("a").set_calls(count(1)).unwrap();
    for number in 0..300 {
        let kind = ["a", "b", "c"][number % 3];
        let key = format!("t/{number}");
        timers.key(&key).schedule(kind, Duration::ZERO, "").unwrap();
    }
    while timers.stats().done < 300 {
        thread::sleep(MS);
    }
    assert!(open.most.load(SeqCst) <= 2);
}

#[test]
fn a_suspect_that_has_to_wait_is_charged_with_nothing() {
    let (clock, begun, store) = (clock(), Begun::default(), Memory::new());
    let timers = program(store.clone(), &clock, &["mail"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(0.5, 1)).unwrap();
    let ids: Vec<_> = (0..20)
        .map(|_| timers.schedule("mail", 300 * MS, "").unwrap())
        .collect();
    // They may have been handed out when the process ends.
    clock.advance(100 * MS);
    std::mem::forget(timers);
    let timers = program(store, &clock, &["mail"], &begun).start().unwrap();
    for _ in 0..45 {
        clock.advance(SECOND);
        let rows = ids.iter().filter_map(|&id| timers.get(id).unwrap());
        let rows: Vec<_> = rows.collect();
        assert!(rows.iter().all(|row| row.suspect));
        // (The one that is about to be handed out.)
        assert!(rows.iter().filter(|row| row.crashes > 0).count() <= 1);
    }
    let times: Vec<_> = begun.lock().unwrap().iter().map(|one| one.0).collect();
    is_within(rate(0.5, 1), &times);
    assert_eq!(times.len(), 20, "each of them has begun");
    assert_eq!(timers.stats().died, 0);
}

#[test]
fn a_timer_that_expires_while_it_waits_uses_no_token() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(0.1, 1)).unwrap();
    for name in ["a", "b"] {
        let timer = timers.timer("mail", SECOND, name);
        timer.not_after(5 * SECOND).schedule().unwrap();
    }
    timers.schedule("mail", 2 * SECOND, "c").unwrap();
    clock.advance(10 * SECOND + 300 * MS);
    assert_eq!(taken(&begun), ["c"]);
    assert_eq!(timers.stats().expired, 2);
}

#[test]
fn a_timer_that_was_about_to_begin_and_is_put_off_leaves_its_room_to_others() {
    for is_rate in [true, false] {
        let (clock, begun) = (clock(), Begun::default());
        let timers = program(Memory::new(), &clock, &["mail"], &begun);
        let timers = timers.start().unwrap();
        let mail = timers.kind("mail");
        mail.set_rate(rate(1.0, 1)).unwrap();
        if !is_rate {
            mail.set_calls(count(1)).unwrap();
        }
        let arm = |name: &str| timers.schedule("mail", Duration::ZERO, name).unwrap();
        let ids = ["a", "b", "c"].map(arm);
        clock.advance(970 * MS);
        assert_eq!(timers.get(ids[0]).unwrap().unwrap().held(), None);
        assert!(timers.reschedule(ids[0], 100 * SECOND).unwrap());
        clock.advance(3 * SECOND);
        assert_eq!(taken(&begun), ["b", "c"]);
        clock.advance(100 * SECOND);
        assert_eq!(taken(&begun), ["a"]);
    }
}

#[test]
fn timers_that_a_clock_puts_off_keep_no_others_waiting() {
    let (clock, begun) = (clock(), Begun::default());
    let timers = program(Memory::new(), &clock, &["mail"], &begun);
    let timers = timers.start().unwrap();
    timers.kind("mail").set_rate(rate(1.0, 1)).unwrap();
    let arm = |name: &str| timers.schedule("mail", Duration::ZERO, name).unwrap();
    let _ = ["a", "b", "c", "d"].map(arm);
    clock.advance(SECOND);
    assert_eq!(taken(&begun), ["a"]);
    let minute = Duration::from_secs(60);
    clock.set_system_time(clock.system_time() - minute);
    clock.advance(3 * SECOND);
    let _ = ["e", "f"].map(arm);
    clock.advance(3 * SECOND);
    assert_eq!(taken(&begun), ["e", "f"]);
    clock.advance(minute);
    assert_eq!(taken(&begun), ["b", "c", "d"]);
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    use std::panic::catch_unwind;
    use wheelwork_durable::{DurableFault, set_durable_fault};
    for fault in [
        DurableFault::ThrottleIgnored,
        DurableFault::QueueForgotten,
        DurableFault::ReleasedNewcomer,
        DurableFault::HoldForgotten,
    ] {
        set_durable_fault(Some(fault));
        let ended = catch_unwind(timers_keep_to_a_rate_and_to_their_order);
        set_durable_fault(None);
        assert!(ended.is_err(), "{fault:?} is not noticed");
    }
    for test in [
        a_timer_that_was_about_to_begin_and_is_put_off_leaves_its_room_to_others as fn(),
        timers_that_a_clock_puts_off_keep_no_others_waiting,
    ] {
        set_durable_fault(Some(DurableFault::ReleaseKept));
        let ended = catch_unwind(test);
        set_durable_fault(None);
        assert!(ended.is_err(), "it is not noticed");
    }
}

/// Somebody else has the rows that are to be held.
struct Locked {
    memory: Memory,
    is_locked: Arc<AtomicBool>,
}

impl OverMemory for Locked {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::new();
        for write in writes {
            if self.is_locked.load(SeqCst) && matches!(write, Write::Hold { .. }) {
                outcomes.push(Outcome::Blocked(Box::new(write)));
            } else {
                outcomes.extend(self.memory.commit(vec![write], gate)?);
            }
        }
        Ok(outcomes)
    }
}

#[test]
fn a_limit_that_goes_while_a_row_is_locked_keeps_the_timer_waiting_no_more() {
    let clock = clock();
    let is_locked = Arc::new(AtomicBool::new(true));
    let store = Over(Locked {
        memory: Memory::new(),
        is_locked: is_locked.clone(),
    });
    let begun: Begun = Arc::default();
    let (notes, own_clock) = (begun.clone(), clock.clone());
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .on("mail", move |delivery| {
            let name = delivery.payload_text().to_string();
            notes.lock().unwrap().push((own_clock.elapsed(), name));
            Ok(())
        })
        .start()
        .unwrap();
    timers.kind("mail").set_rate(rate(1e-4, 1)).unwrap();
    timers.schedule("mail", SECOND, "a").unwrap();
    clock.advance(2 * SECOND);
    assert!(begun.lock().unwrap().is_empty(), "the rate holds it");
    assert!(timers.kind("mail").clear_rate().unwrap());
    clock.advance(SECOND);
    is_locked.store(false, SeqCst);
    let free = clock.elapsed();
    (0..40).for_each(|_| clock.advance(50 * MS));
    let begun = begun.lock().unwrap();
    assert!(
        matches!(&begun[..], [(at, _)] if *at <= free + SECOND),
        "{begun:?}, free since {free:?}"
    );
}
