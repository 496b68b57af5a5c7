//! Promise: a paused `block_on` moves time to each deadline, and past none, whenever nothing is
//! ready, and hides no panic. `paused_threads.rs` has what other threads do meanwhile.

use futures_lite::future::{or, yield_now, zip};
use futures_lite::{StreamExt, stream};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use wheelwork::future::{DelayQueue, Timers, interval, sleep, sleep_until, timeout};
use wheelwork::testing::{self, Paused, block_on, spawn};
use wheelwork::{Batch, Dispatch, ManualClock, Missed, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn elapsed() -> Duration {
    testing::clock().elapsed()
}

/// What a closure panics with.
fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().unwrap().to_string(),
    }
}

#[test]
fn sleeps_of_days_take_no_time_and_end_exactly() {
    block_on(async {
        let start = testing::clock().now();
        for days in 1..=1_000 {
            sleep(DAY).await;
            assert_eq!(elapsed(), days * DAY);
        }
        sleep_until(start + 2_000 * DAY).await;
        assert_eq!(testing::clock().now(), start + 2_000 * DAY);
        // The past.
        sleep_until(start).await;
        sleep(Duration::ZERO).await;
        assert_eq!(elapsed(), 2_000 * DAY);
        // Up to a tick, and no further.
        sleep(Duration::from_nanos(1)).await;
        assert_eq!(elapsed(), 2_000 * DAY + MS);
    });
}

#[test]
fn what_is_ready_takes_no_time() {
    assert_eq!(block_on(ready(7)), 7);
    let paused = Paused::new();
    paused.block_on(async {
        for _ in 0..100 {
            yield_now().await;
            assert_eq!(timeout(SECOND, yield_now()).await, Ok(()));
        }
        let value = spawn(async { 5 });
        assert_eq!(value.await, 5);
    });
    assert_eq!(paused.clock().elapsed(), Duration::ZERO);
    // The timers of the timeouts are gone.
    assert!(paused.timers().handle().is_empty());
}

#[test]
fn timeouts_end_on_the_dot() {
    block_on(async {
        assert!(timeout(DAY, pending::<()>()).await.is_err());
        assert_eq!(elapsed(), DAY);
        assert_eq!(timeout(DAY, sleep(SECOND)).await, Ok(()));
        assert_eq!(elapsed(), DAY + SECOND);
        // Both at once: the future wins.
        assert_eq!(timeout(SECOND, sleep(SECOND)).await, Ok(()));
        assert_eq!(elapsed(), DAY + 2 * SECOND);
    });
}

#[test]
fn intervals_tick_at_exact_instants() {
    block_on(async {
        let start = testing::clock().now();
        let mut hourly = interval(3_600 * SECOND);
        for hour in 0..100 {
            assert_eq!(hourly.tick().await, start + hour * 3_600 * SECOND);
            assert_eq!(elapsed(), hour * 3_600 * SECOND);
        }
        let start = testing::clock().now();
        let mut late = interval(10 * MS).missed(Missed::Delay);
        late.tick().await;
        sleep(35 * MS).await;
        assert_eq!(late.tick().await, start + 10 * MS);
        assert_eq!(late.tick().await, start + 45 * MS);
        assert_eq!(testing::clock().now(), start + 45 * MS);
    });
}

#[test]
fn a_queue_s_values_come_at_their_times() {
    block_on(async {
        let mut queue = DelayQueue::new();
        for value in [5u32, 1, 4, 2, 3] {
            queue.insert(value, value * DAY);
        }
        let mut came = Vec::new();
        while let Some(value) = queue.next().await {
            came.push((value.into_inner(), elapsed()));
        }
        assert_eq!(came, [1, 2, 3, 4, 5].map(|value| (value, value * DAY)));
    });
}

#[test]
fn of_several_futures_the_first_one_wins() {
    block_on(async {
        let race = or(
            async {
                sleep(3 * SECOND).await;
                "slow"
            },
            async {
                sleep(2 * SECOND).await;
                "fast"
            },
        );
        assert_eq!((race.await, elapsed()), ("fast", 2 * SECOND));
        // The loser's timer does not hold time up, nor does it fire.
        sleep(5 * SECOND).await;
        assert_eq!(elapsed(), 7 * SECOND);
        let both = zip(sleep(SECOND), sleep(3 * SECOND));
        both.await;
        assert_eq!(elapsed(), 10 * SECOND);
        let many = stream::iter(1..=10u32).then(|number| async move {
            sleep(number * SECOND).await;
            number
        });
        assert_eq!(many.fold(0, |sum, number| sum + number).await, 55);
        assert_eq!(elapsed(), 65 * SECOND);
    });
}

/// The seconds of each task are a permutation; some are equal.
#[test]
fn many_tasks_wake_in_the_order_of_their_deadlines() {
    const TASKS: u32 = 5_000;
    let order = || {
        block_on(async {
            let log = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (log, seconds) = (log.clone(), task * 7_919 % TASKS / 2);
                    spawn(async move {
                        sleep(seconds * SECOND).await;
                        assert_eq!(elapsed(), seconds * SECOND);
                        log.borrow_mut().push((seconds, task));
                        seconds
                    })
                })
                .collect();
            for (task, handle) in (0..TASKS).zip(tasks) {
                assert_eq!(handle.await, task * 7_919 % TASKS / 2);
            }
            assert_eq!(elapsed(), (TASKS / 2 - 1) * SECOND);
            log.take()
        })
    };
    let first = order();
    assert_eq!(first.len(), TASKS as usize);
    assert!(first.is_sorted_by_key(|&(seconds, _)| seconds));
    assert_eq!(order(), first, "each run is alike");
}

#[test]
fn tasks_are_polled_in_the_order_of_their_wakes_and_time_stands_still() {
    block_on(async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let alarm = spawn(sleep(MS));
        for task in 0..3 {
            let log = log.clone();
            drop(spawn(async move {
                for round in 0..1_000 {
                    log.borrow_mut().push((round, task));
                    yield_now().await;
                }
            }));
        }
        while log.borrow().len() < 3_000 {
            assert!(!alarm.is_finished());
            yield_now().await;
        }
        assert!(log.borrow().is_sorted(), "each has its turn");
        assert_eq!(elapsed(), Duration::ZERO);
        alarm.await;
        assert_eq!(elapsed(), MS);
    });
}

#[test]
fn those_who_only_yield_do_not_hold_time_up_for_ever() {
    let paused = Paused::new();
    let flag = Rc::new(Cell::new(false));
    paused.block_on(async {
        let set = flag.clone();
        drop(spawn(async move {
            sleep(DAY).await;
            set.set(true);
        }));
        while !flag.get() {
            yield_now().await;
        }
    });
    assert_eq!(paused.clock().elapsed(), DAY);
    // A sleep of a service that is full yields, too.
    let paused = Paused::start(TimerService::builder().max_pending(1)).unwrap();
    paused.block_on(async {
        let sleeps: Vec<_> = (1..=3).map(|_| spawn(sleep(SECOND))).collect();
        for sleep in sleeps {
            sleep.await;
        }
    });
    assert_eq!(paused.clock().elapsed(), SECOND);
}

#[test]
fn all_services_on_the_clock_move() {
    let paused = Paused::start(TimerService::builder().tick(7 * MS)).unwrap();
    let (clock, log) = (paused.clock().clone(), Arc::new(Mutex::new(Vec::new())));
    let (handler_clock, handler_log) = (clock.clone(), log.clone());
    let payloads = TimerService::builder()
        .clock(clock.clone())
        .tick(10 * MS)
        .on_expire(move |batch: &mut Batch<'_, u32>| {
            for payload in batch {
                let entry = (handler_clock.elapsed(), payload);
                handler_log.lock().unwrap().push(entry);
            }
        })
        .start()
        .unwrap();
    payloads.schedule(95 * MS, 1).unwrap();
    payloads.schedule(DAY, 2).unwrap();
    let closures = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let (send, receive) = smol::channel::unbounded();
    closures
        .every(SECOND)
        .times(3)
        .start(move || send.try_send(()).unwrap())
        .unwrap();
    paused.block_on(async {
        sleep(20 * MS).await;
        assert_eq!(elapsed(), 21 * MS, "its own tick");
        for second in 1..=3 {
            receive.recv().await.unwrap();
            assert_eq!(elapsed(), second * SECOND);
        }
        assert!(receive.recv().await.is_err(), "its closure is dropped");
        sleep(2 * DAY).await;
    });
    assert_eq!(*log.lock().unwrap(), [(100 * MS, 1), (DAY, 2)]);
}

#[test]
fn a_task_moves_the_clock_itself() {
    block_on(async {
        let alarm = spawn(sleep(SECOND));
        testing::clock().advance(999 * MS);
        yield_now().await;
        assert!(!alarm.is_finished());
        testing::clock().advance(MS);
        yield_now().await;
        assert!(alarm.is_finished());
        assert_eq!(elapsed(), SECOND);
    });
}

/// What is due already comes before what is due later, at the next tick at the latest.
#[test]
fn what_is_due_already_comes_first() {
    let paused = Paused::new();
    let service = TimerService::builder()
        .clock(paused.clock().clone())
        .start()
        .unwrap();
    paused.block_on(async {
        for _ in 0..3 {
            sleep(10 * MS).await;
            let (send, receive) = smol::channel::bounded(1);
            let past = testing::clock().now() - 5 * MS;
            service
                .schedule_at(past, move || send.try_send(()).unwrap())
                .unwrap();
            drop(spawn(sleep(2 * MS)));
            let before = elapsed();
            receive.recv().await.unwrap();
            assert!(elapsed() <= before + MS);
        }
    });
}

#[test]
fn the_functions_are_those_of_the_thread_s_own_clock() {
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for days in 1..=4 {
            let barrier = &barrier;
            scope.spawn(move || {
                block_on(async {
                    barrier.wait();
                    for day in 1..=100 {
                        sleep(days * DAY).await;
                        assert_eq!(elapsed(), day * days * DAY);
                    }
                });
            });
        }
    });
    // Outside the functions are as before.
    assert_eq!(
        Timers::current().handle().shards(),
        Timers::global().unwrap().handle().shards()
    );
    let other = Timers::start(TimerService::builder().clock(ManualClock::new())).unwrap();
    let entered = other.enter();
    let before = other.handle().now();
    block_on(async { sleep(DAY).await });
    assert_eq!(Timers::current().handle().now(), before);
    drop(entered);
}

#[test]
fn guards_of_entered_services_go_in_any_order() {
    let timers = |tick| {
        let builder = TimerService::builder().clock(ManualClock::new());
        Timers::start(builder.tick(tick)).unwrap()
    };
    let (first, second) = (timers(MS), timers(MS));
    let is = |timers: &Timers| timers.handle().now() == Timers::current().handle().now();
    let first_entered = first.enter();
    assert!(is(&first));
    let second_entered = second.enter();
    let again = first.enter();
    assert!(is(&first) && !is(&second));
    drop(first_entered);
    drop(again);
    assert!(is(&second));
    drop(second_entered);
    assert!(!is(&first) && !is(&second));
    // The last reference goes with the guard.
    let entered = timers(MS).enter();
    drop(sleep(SECOND));
    drop(entered);
}

#[test]
fn a_panic_goes_on_and_the_tasks_are_dropped_first() {
    struct Tell(Rc<RefCell<Vec<u32>>>, u32);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    for in_task in [false, true] {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let paused = Paused::new();
        let text = panic_of(|| {
            paused.block_on(async {
                for number in 0..3 {
                    let tell = Tell(dropped.clone(), number);
                    drop(spawn(async move {
                        let _tell = tell;
                        pending::<()>().await;
                    }));
                }
                let fails = async {
                    sleep(DAY).await;
                    panic!("after a day");
                };
                if in_task {
                    drop(spawn(fails));
                    sleep(2 * DAY).await;
                } else {
                    fails.await;
                }
            });
        });
        assert_eq!(
            (text.as_str(), paused.clock().elapsed()),
            ("after a day", DAY)
        );
        assert_eq!(*dropped.borrow(), [0, 1, 2]);
        // All is as before.
        assert_eq!(paused.block_on(async { spawn(ready(5)).await }), 5);
        assert!(paused.timers().handle().is_empty());
    }
}

/// Two panics at a time would abort.
#[test]
fn panics_of_drops_are_one_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let bombs = || {
        for _ in 0..3 {
            let bomb = Bomb;
            drop(spawn(async move {
                let _bomb = bomb;
                pending::<()>().await;
            }));
        }
    };
    assert_eq!(panic_of(|| block_on(async { bombs() })), "dropped");
    let text = panic_of(|| {
        block_on(async {
            bombs();
            panic!("before");
        });
    });
    assert_eq!(text, "before");
}

#[test]
fn tasks_end_with_block_on() {
    let alive = Rc::new(());
    let (held, paused) = (alive.clone(), Paused::new());
    let mut handle = None;
    paused.block_on(async {
        let inner = held.clone();
        // What is spawned while tasks are dropped is dropped, too.
        struct Respawn(Rc<()>);
        impl Drop for Respawn {
            fn drop(&mut self) {
                let held = self.0.clone();
                drop(spawn(async move { drop(held) }));
            }
        }
        let respawn = Respawn(held);
        handle = Some(spawn(async move {
            let _respawn = respawn;
            sleep(DAY).await;
            drop(inner);
        }));
    });
    let handle = handle.unwrap();
    assert_eq!(Rc::strong_count(&alive), 1);
    assert!(paused.timers().handle().is_empty() && handle.is_finished());
    let text = panic_of(|| block_on(handle));
    assert_eq!(
        text,
        "the task was dropped at the end of `wheelwork::testing::block_on`"
    );
}

#[test]
fn what_waits_for_ever_is_told() {
    let waits = |tasks: &str| {
        format!("{tasks} for ever: no timer is pending on the clock, and nobody else has a waker")
    };
    assert_eq!(panic_of(|| block_on(pending())), waits("the future waits"));
    let text = panic_of(|| {
        block_on(async {
            sleep(DAY).await;
            // For a task that waits for a task that waits for ever.
            let never = spawn(pending::<()>());
            spawn(never).await;
        });
    });
    assert_eq!(text, waits("the future and its tasks (2) wait"));
    // Wakers that are gone.
    let text = panic_of(|| {
        block_on(async {
            let mut wakers = vec![];
            let _ = timeout(DAY, pending::<()>()).await;
            poll_fn(|context| {
                wakers.push(context.waker().clone());
                wakers.clear();
                Poll::<()>::Pending
            })
            .await;
        });
    });
    assert_eq!(text, waits("the future waits"));
}

#[test]
fn one_inside_another_panics() {
    let text = panic_of(|| block_on(async { block_on(ready(())) }));
    assert_eq!(
        text,
        "`wheelwork::testing::block_on` was called inside another one"
    );
    for call in [
        || _ = testing::clock(),
        || drop(testing::hold()),
        || drop(spawn(ready(()))),
    ] {
        assert_eq!(
            panic_of(call),
            "called outside of `wheelwork::testing::block_on`"
        );
    }
    // By a timer of its clock, which would have to move for it.
    let paused = Paused::new();
    let (send, receive) = mpsc::channel();
    let service = TimerService::builder()
        .clock(paused.clock().clone())
        .on_panic(move |panic| {
            send.send(panic.downcast_ref::<String>().cloned()).unwrap();
        })
        .start()
        .unwrap();
    let inner = paused.clone();
    service
        .schedule(SECOND, move || {
            inner.block_on(async { sleep(SECOND).await })
        })
        .unwrap();
    paused.clock().advance(SECOND);
    assert_eq!(
        receive.recv().unwrap().as_deref(),
        Some(
            "`wheelwork::testing::block_on` was called by a timer of the clock that it has to move"
        )
    );
}

/// By a timer's closure, on the thread that moves the clock; with wakers that outlive all.
#[test]
fn timers_spawn_and_wake() {
    let paused = Paused::new();
    let service = TimerService::builder()
        .clock(paused.clock().clone())
        .start()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let entry = log.clone();
    service
        .schedule(SECOND, move || {
            drop(spawn(async move {
                sleep(SECOND).await;
                entry.lock().unwrap().push(elapsed());
            }));
        })
        .unwrap();
    let mut kept: Option<Waker> = None;
    paused.block_on(async {
        poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::Ready(())
        })
        .await;
        sleep(3 * SECOND).await;
    });
    assert_eq!(*log.lock().unwrap(), [2 * SECOND]);
    kept.unwrap().wake();
}

/// On a pool a task is woken a while after its time: what the documents say of it.
#[test]
fn on_a_pool_nothing_is_early() {
    let paused = Paused::new();
    let service = TimerService::builder()
        .clock(paused.clock().clone())
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (send, receive) = smol::channel::unbounded();
    for number in 0..100u32 {
        let send = send.clone();
        service
            .schedule(number * MS, move || send.send_blocking(number).unwrap())
            .unwrap();
    }
    drop(send);
    paused.block_on(async {
        for _ in 0..100 {
            let number = receive.recv().await.unwrap();
            assert!(elapsed() >= number * MS);
        }
    });
}

/// More tasks than any number of polls: none is late because others are many.
#[test]
fn many_tasks_are_polled_before_time_moves() {
    block_on(async {
        let tasks: Vec<_> = (0..12_000)
            .map(|_| {
                spawn(timeout(3 * MS, async {
                    sleep(2 * MS).await;
                    yield_now().await;
                }))
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await, Ok(()));
        }
        assert_eq!(elapsed(), 2 * MS);
    });
}

/// A second panic while the first one unwinds would abort.
#[test]
fn drops_that_panic_besides_are_no_abort() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    impl Future for PanicsInDrop {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            panic!("polled");
        }
    }
    let text = panic_of(|| {
        let output = block_on(async {
            let task = spawn(async {
                let _task = PanicsInDrop;
                pending::<()>().await;
            });
            yield_now().await;
            drop(task);
            [PanicsInDrop]
        });
        std::mem::forget(output);
    });
    assert_eq!(text, "dropped");
    let text = panic_of(|| block_on(PanicsInDrop));
    assert_eq!(text, "polled", "the future given to it");
    let text = panic_of(|| block_on(async { spawn(PanicsInDrop).await }));
    assert_eq!(text, "polled", "a task");
}
