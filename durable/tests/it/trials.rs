//! Promise: a suspect, which a process may have died of, comes after the other timers, is charged
//! for its own calls alone, and begins however long others take.
//!
//! Most tests run on the store for tests and on a file.

use crate::lives::{World, at_call, note, on_each_store};
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wheelwork_durable::{
    Delivery, DurableClient, HandlerResult, Memory, RetryPolicy, SpawnedFuture, Ticket,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn suspects_come_after_the_others() {
    on_each_store("suspects-last", |world| {
        world.arm(20);
        let life = world.live().on("x", RetryPolicy::new(), at_call(5));
        let life = life.start();
        let late = life.timers().schedule("x", MINUTE, "late").unwrap();
        life.clock.advance(SECOND);
        world.end(life);
        *world.now.lock().unwrap() += 2 * MINUTE;
        world.calls.lock().unwrap().clear();
        assert!(!world.row(late).unwrap().suspect, "it was not due");
        // It is due later than the suspects, and is called before them.
        let life = world.live().on("x", RetryPolicy::new(), at_call(1)).start();
        life.clock.advance(SECOND);
        assert_eq!(world.calls("late"), 1);
        assert_eq!(world.calls.lock().unwrap().len(), 1);
        world.end(life);
        // What was not called then is still suspect, and not charged with that.
        world.live_on(RetryPolicy::new(), |delivery| {
            assert!(delivery.crashes() <= 1);
            false
        });
        assert_eq!(world.dead(), []);
    });
}

#[test]
fn a_second_crash_leaves_suspects_what_they_are() {
    on_each_store("second-crash", |world| {
        let ids = world.arm(3);
        let life = world.live().on("x", RetryPolicy::new(), at_call(1)).start();
        life.clock.advance(SECOND);
        world.end(life);
        // A life without time for any timer, and one that ends well.
        world.end(world.live().start());
        let life = world.live().start();
        life.timers().stop().unwrap();
        world.end(life);
        for &id in &ids {
            let row = world.row(id).unwrap();
            assert_eq!((row.suspect, row.crashes, row.attempts), (true, 0, 0));
        }
        // One that is moved stays one.
        let life = world.live().start();
        assert!(life.timers().reschedule(ids[0], MINUTE).unwrap());
        assert!(life.timers().cancel(ids[1]).unwrap(), "nobody has it");
        world.end(life);
        let row = world.row(ids[0]).unwrap();
        assert_eq!((row.suspect, row.crashes), (true, 0));
        assert_eq!(world.row(ids[1]), None);
        // A failure says that it has not ended the process.
        let life = world.live().with(|builder| {
            builder
                .on("x", |_| Err("no".into()))
                .retry_policy(RetryPolicy::new().first(MINUTE * 10).cap(MINUTE * 10))
        });
        let life = life.start();
        life.clock.advance(2 * MINUTE);
        world.end(life);
        let row = world.row(ids[0]).unwrap();
        assert_eq!((row.suspect, row.crashes, row.attempts), (false, 0, 1));
    });
}

#[test]
fn a_stop_takes_back_what_was_not_called() {
    on_each_store("taken-back", |world| {
        let ids = world.arm(10);
        let life = world.live().on("x", RetryPolicy::new(), at_call(1)).start();
        life.clock.advance(SECOND);
        world.end(life);
        // They are noted together; one has the only place, and fails when all stops.
        let futures: Arc<Mutex<Vec<SpawnedFuture>>> = Arc::default();
        let spawned = futures.clone();
        let life = world.live().with(move |builder| {
            builder
                .on_async("x", |_| Late(false))
                .retry_policy(RetryPolicy::new().first(MINUTE))
                .max_calls("x", NonZeroUsize::MIN)
                .spawner(move |future| {
                    // (On a thread of its own: one that polls futures may not stop.)
                    let polled = std::thread::spawn(move || poll(future)).join();
                    spawned.lock().unwrap().push(polled.unwrap());
                })
        });
        let life = life.start();
        let handle = life.timers().client();
        handle.schedule("x", 3 * MINUTE, "later").unwrap();
        life.clock.advance(SECOND);
        let future = futures.lock().unwrap().pop().unwrap();
        assert!(futures.lock().unwrap().is_empty());
        let noted = |id| handle.get(id).unwrap().unwrap().crashes;
        assert!(ids.iter().all(|&id| noted(id) == 1));
        assert_eq!(handle.stats().window_rows, 11);
        std::thread::scope(|scope| {
            let handle = handle.clone();
            let id = ids[0];
            scope.spawn(move || {
                // The stop has begun when the window has let go of the other one.
                while handle.stats().window_rows == 11 && handle.get(id).is_ok() {}
                end(future);
            });
            life.timers().stop().unwrap();
        });
        world.end(life);
        let rows = ids.iter().map(|&id| world.row(id).unwrap());
        let mut rows: Vec<_> = rows
            .map(|row| (row.suspect, row.crashes, row.attempts))
            .collect();
        rows.sort_unstable();
        assert_eq!(rows[0], (false, 0, 1));
        assert!(rows[1..].iter().all(|&row| row == (true, 0, 0)), "{rows:?}");
    });
}

/// A future that fails when it is polled again.
struct Late(bool);

impl Future for Late {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(Err("late".into())),
            false => Poll::Pending,
        }
    }
}

/// Polls a future that is ready then.
fn end(mut future: SpawnedFuture) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_crash_while_one_waits_for_its_kinds_limit_is_not_its_own() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    let ids = world.arm_charged(1);
    for _ in 0..10 {
        let calls = world.calls.clone();
        let life = world.live().with(move |builder| {
            builder
                .on_async("x", move |delivery| {
                    note(&calls, &delivery);
                    Endless
                })
                .max_calls("x", NonZeroUsize::MIN)
                .spawner(|future| std::mem::forget(poll(future)))
        });
        let life = life.start();
        life.timers()
            .schedule("x", Duration::ZERO, "other")
            .unwrap();
        for _ in 0..30 {
            life.clock.advance(SECOND);
        }
        assert_eq!(world.calls("0"), 2);
        world.forget(life);
    }
    assert_eq!(world.row(ids[0]).unwrap().crashes, 1);
}

/// A future that never ends, and that is counted.
struct Endless;

impl Future for Endless {
    type Output = HandlerResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        Poll::Pending
    }
}

#[test]
fn handlers_that_last_do_not_keep_suspects_waiting() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    world.arm(5_000);
    let life = world.live().on("x", RetryPolicy::new(), at_call(1));
    let life = life.start();
    life.clock.advance(SECOND);
    world.end(life);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let life = world.live().with(move |builder| {
        builder
            .on_async("x", move |_| {
                count.fetch_add(1, SeqCst);
                Endless
            })
            .spawner(|future| std::mem::forget(poll(future)))
    });
    let life = life.start();
    for _ in 0..40 {
        life.clock.advance(SECOND);
    }
    world.forget(life);
    assert_eq!(begun.load(SeqCst), 5_000, "and none has ended");
}

/// What `docs/limits.md` says of a trial: 1 s, doubled with each crash.
#[test]
fn a_trial_with_a_crash_lasts_for_two_seconds() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    world.arm_charged(2);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let begins = begun.clone();
    let life = world.live();
    let clock = life.clock.clone();
    let life = life.with(move |builder| {
        builder
            .on_async("x", move |_| {
                begins.lock().unwrap().push(clock.elapsed());
                Endless
            })
            .spawner(|future| std::mem::forget(poll(future)))
    });
    let life = life.start();
    let step = SECOND / 20;
    for _ in 0..200 {
        life.clock.advance(step);
    }
    let begun = begun.lock().unwrap().clone();
    // (The other one may not begin at the first call: TrialBegin has an answer a poll later.)
    world.forget(life);
    assert_eq!(begun.len(), 2, "{begun:?}");
    let lasted = begun[1] - begun[0];
    assert!(lasted >= 2 * SECOND && lasted < 3 * SECOND, "{begun:?}");
}

/// Each waits for its executor for longer than its trial lasts. Meanwhile another one is handed
/// out, and waits as long.
#[test]
fn suspects_that_wait_for_longer_than_their_trials_begin() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    world.arm_charged(2);
    world.calls.lock().unwrap().clear();
    let futures = Arc::<Mutex<Vec<(Duration, SpawnedFuture)>>>::default();
    let (spawned, calls) = (futures.clone(), world.calls.clone());
    let life = world.live();
    let clock = life.clock.clone();
    let life = life.with(move |builder| {
        builder
            .on_async("x", move |delivery| {
                note(&calls, &delivery);
                async { Ok(()) }
            })
            .spawner(move |future| {
                let polled_from = clock.elapsed() + 5 * SECOND / 2;
                spawned.lock().unwrap().push((polled_from, future));
            })
    });
    let life = life.start();
    for _ in 0..400 {
        life.clock.advance(SECOND / 20);
        let now = life.clock.elapsed();
        let is_polled = |(from, _): &mut (Duration, SpawnedFuture)| *from <= now;
        let polled: Vec<_> = futures.lock().unwrap().extract_if(.., is_polled).collect();
        for (from, mut future) in polled {
            let mut context = Context::from_waker(Waker::noop());
            // (If it goes on, it waits for TrialBegin.)
            if future.as_mut().poll(&mut context).is_pending() {
                futures.lock().unwrap().push((from, future));
            }
        }
    }
    // (One that waits would keep the service from stopping.)
    let rest = std::mem::take(&mut *futures.lock().unwrap());
    drop(rest);
    assert_eq!((world.calls("0"), world.calls("1")), (1, 1));
    world.end(life);
}

/// Polls a future until it waits for something that does not come.
fn poll(mut future: SpawnedFuture) -> SpawnedFuture {
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    future
}

#[test]
fn a_suspect_that_is_moved_before_its_call_is_not_charged() {
    for wait in [Duration::ZERO, SECOND, 10 * MINUTE] {
        on_each_store("moved-noted", |world| {
            let ids = world.arm(2);
            let life = world.live().on("x", RetryPolicy::new(), at_call(1));
            let life = life.start();
            life.clock.advance(SECOND);
            world.end(life);
            // The suspects are noted in a turn that another timer's handler takes. Before they are
            // called it moves them.
            let handle: Arc<Mutex<Option<DurableClient>>> = Arc::default();
            let moved: Arc<Mutex<Vec<(u32, bool)>>> = Arc::default();
            let (mover, noted, suspects) = (handle.clone(), moved.clone(), ids.clone());
            let life = world.live().on("x", RetryPolicy::new(), |_| false);
            let life = life.with(|builder| {
                builder.on("mover", move |_| {
                    let handle = mover.lock().unwrap().take().unwrap();
                    handle.list(.., 1)?;
                    for &id in &suspects {
                        let crashes = handle.get(id)?.map_or(0, |row| row.crashes);
                        let is_moved = handle.reschedule(id, wait)?;
                        noted.lock().unwrap().push((crashes, is_moved));
                    }
                    Ok(())
                })
            });
            let life = life.start();
            *handle.lock().unwrap() = Some(life.timers().client());
            // (Suspects are handed out 100 ms after they were loaded.)
            life.timers().schedule("mover", SECOND / 10, "").unwrap();
            life.clock.advance(SECOND / 10);
            assert_eq!(*moved.lock().unwrap(), [(1, true); 2]);
            let rows = ids.iter().filter_map(|&id| life.timers().get(id).unwrap());
            let crashes: Vec<_> = rows.map(|row| (row.suspect, row.crashes)).collect();
            assert_eq!(crashes, [(true, 0); 2], "{wait:?}");
            // A crash is charged to none but those that were called.
            let calls = world.calls.lock().unwrap().len();
            world.end(life);
            world.live_on(RetryPolicy::never().crash_attempts(1), |delivery| {
                assert_eq!(delivery.crashes(), 0);
                false
            });
            assert_eq!((calls, world.dead().len()), (1, 0));
        });
    }
}

/// The other timers of a batch do not wait for the commit that charges a suspect: a pause may
/// return meanwhile.
#[test]
fn a_suspect_that_goes_alone_is_no_part_of_a_batch() {
    on_each_store("alone-of-batch", |world| {
        let id = world.arm_charged(1)[0];
        let pause = Arc::<Mutex<Option<Ticket<bool>>>>::default();
        let batches = Arc::<Mutex<Vec<(Vec<String>, bool)>>>::default();
        let (paused, called) = (pause.clone(), batches.clone());
        let handler = move |timers: &[Delivery]| {
            let is_paused = paused.lock().unwrap().as_mut().is_some_and(|pause| {
                let context = &mut Context::from_waker(Waker::noop());
                Pin::new(pause).poll(context).is_ready()
            });
            let payloads = timers.iter().map(|timer| timer.payload_text().into_owned());
            called.lock().unwrap().push((payloads.collect(), is_paused));
            timers.iter().map(|_| Ok(())).collect()
        };
        let life = world.live().with(|builder| builder.on_batch("x", handler));
        let life = life.start();
        let timers = life.timers();
        // The turn that arms the others finds that the suspect has waited for long enough.
        life.clock.jump(2 * SECOND);
        let others = [("x", Duration::ZERO, "other"); 2];
        timers.schedule_many(others).unwrap();
        let (asks, client) = (pause.clone(), timers.client());
        *life.at_charge.lock().unwrap() = Some(Box::new(move || {
            *asks.lock().unwrap() = Some(client.kind("x").pause_ticket().unwrap());
        }));
        life.clock.advance(SECOND / 10);
        assert!(
            life.at_charge.lock().unwrap().is_none(),
            "it was to go alone"
        );
        let batch = |payloads: &[&str]| (payloads.iter().map(|&of| of.to_owned()).collect(), false);
        assert_eq!(*batches.lock().unwrap(), [batch(&["other", "other"])]);
        assert_eq!(timers.get(id).unwrap().unwrap().crashes, 1);
        *pause.lock().unwrap() = None;
        timers.kind("x").resume().unwrap();
        life.clock.advance(3 * SECOND);
        assert_eq!(*batches.lock().unwrap().last().unwrap(), batch(&["0"]));
        world.end(life);
    });
}
