//! Promise: in a process that was forked off, each call on a service of its parent returns with a
//! documented result, whatever the parent's threads did at that instant.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ScheduleError, ServiceHandle, StopPolicy, TimerId, TimerService, Unfired};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Long enough to mean that something hangs.
const HANGS_S: u32 = 60;

/// A fork copies what the threads of all tests are about: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` in a process that is forked off, and returns what it wrote. Empty: it said that all was
/// well. A process that hangs is ended by a signal.
fn in_a_child(f: impl FnOnce() -> Result<(), String>) -> String {
    let (mut read, mut write) = std::io::pipe().unwrap();
    // SAFETY: the child runs what is below alone, and ends without a return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(HANGS_S) };
        let panicked = |_| Err("a panic".to_string());
        let said =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(panicked);
        let _ = said.map_err(|why| write.write_all(why.as_bytes()));
        // SAFETY: ends the process, without what the test harness does at its end.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "no process");
    drop(write);
    let mut said = std::io::read_to_string(&mut read).unwrap();
    let mut status = 0;
    // SAFETY: the child is this thread's, and the status is a place for it.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    if (ended, status) != (child, 0) {
        said += &format!("it ended with status {status:#x}");
    }
    said
}

/// Waits until each other thread of this process sleeps. A thread that begins or ends holds a lock
/// of Rust's standard library at times, and the lock would stay locked in a child
/// (docs/platforms.md): threads of the child would never begin.
fn until_others_sleep() {
    // SAFETY: the call has no arguments.
    let own = unsafe { libc::gettid() }.to_string();
    let sleeps = |task: std::fs::DirEntry| {
        // `number (name) state ...`; nothing of a thread that has ended.
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("S", |(_, state)| state);
        task.file_name() == own.as_str() || state.starts_with('S')
    };
    let tasks = || std::fs::read_dir("/proc/self/task").unwrap();
    while !tasks().all(|task| task.is_ok_and(sleeps)) {
        thread::sleep(MS);
    }
}

fn check(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_string()) }
}

/// All calls that look at timers or at the service, on one that was inherited with some timers.
fn looks(service: &ServiceHandle<u64>, ids: &[TimerId]) -> Result<(), String> {
    for &id in ids {
        let waits = service.is_pending(id);
        let looks = [
            service.remaining(id).is_some(),
            service.deadline(id).is_some(),
        ];
        check(looks == [waits; 2], "a look and its kin disagree")?;
    }
    let pending: usize = (0..service.shards())
        .map(|shard| service.pending(shard).count())
        .sum();
    check(pending >= ids.len(), "not all timers are pending")?;
    let _ = (service.stats(), service.len(), service.is_empty());
    let _ = (
        service.next_deadline(0),
        service.now(),
        service.is_stopped(),
    );
    Ok(())
}

fn storm(policy: Option<StopPolicy>, forks: usize) {
    let _alone = alone();
    let ends = Arc::new(AtomicBool::new(false));
    let handler = |batch: &mut Batch<'_, u64>| batch.for_each(drop);
    let service = TimerService::builder()
        .shards(2)
        .on_expire(handler)
        .start()
        .unwrap();
    let stay: Vec<_> = (0..100)
        .map(|n| service.schedule(HOUR, n).unwrap())
        .collect();
    let busy = |seed: u64| {
        let (handle, ends) = (service.handle(), ends.clone());
        thread::spawn(move || {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut ids: Vec<_> = (0..2_000)
                .map(|n| handle.schedule(HOUR, n).unwrap())
                .collect();
            while !ends.load(Relaxed) {
                let at = rng.usize(..ids.len());
                match rng.u8(..4) {
                    0 => _ = handle.reschedule(ids[at], HOUR - MS * rng.u32(..1_000)),
                    1 => _ = handle.schedule(MS * rng.u32(..3), 0),
                    _ => {
                        // In bulk, so that cells go through the depot.
                        let ids = &mut ids[at..];
                        handle.cancel_many(ids.iter().copied());
                        ids.iter_mut()
                            .for_each(|id| *id = handle.schedule(HOUR, 1).unwrap());
                    }
                }
            }
        })
    };
    // Threads that come and go, beside those that stay.
    let brief = {
        let (handle, ends) = (service.handle(), ends.clone());
        thread::spawn(move || {
            while !ends.load(Relaxed) {
                let handle = handle.clone();
                let one = thread::spawn(move || handle.cancel(handle.schedule(HOUR, 2).unwrap()));
                assert!(one.join().unwrap());
            }
        })
    };
    let threads: Vec<_> = (0..2).map(busy).collect();
    let mut said = Ok(());
    for round in 0..forks {
        let in_child = in_a_child(|| {
            looks(&service, &stay)?;
            check(service.cancel(stay[0]), "a timer that waits is cancelled")?;
            check(
                service.cancel_and_wait(stay[1]) == Ok(true),
                "and so is this one",
            )?;
            check(service.cancel_and_wait(stay[1]) == Ok(false), "once")?;
            check(service.take(stay[2]) == Some(2), "one is taken")?;
            check(
                service.cancel_many(stay[3..80].iter().copied()) == 77,
                "many are cancelled",
            )?;
            for delay in 0..200 {
                let refused = service.schedule(MS * delay, 9);
                check(
                    matches!(refused, Err(ScheduleError::Stopped(9))),
                    "it takes a timer",
                )?;
            }
            match policy {
                Some(policy) => {
                    let unfired: Vec<Unfired<u64>> = service.stop_with(policy);
                    check(unfired.len() >= 20, "what waits comes back")?;
                    check(service.stop().is_empty(), "once")
                }
                None => check(service.cancel_all() >= 20, "all are cancelled"),
            }
        });
        if !in_child.is_empty() {
            said = Err(format!("fork {round} of {forks}: {in_child}"));
            break;
        }
    }
    ends.store(true, Relaxed);
    brief.join().unwrap();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(said, Ok(()));
    assert!(
        stay.iter().all(|&id| service.cancel(id)),
        "the children have copies"
    );
}

#[test]
fn a_child_of_busy_threads_cancels_all() {
    storm(None, 100);
}

#[test]
fn a_child_of_busy_threads_stops() {
    storm(Some(StopPolicy::HandBack), 50);
    storm(Some(StopPolicy::FireAll), 25);
    storm(Some(StopPolicy::Drain(HOUR)), 25);
}

/// No shard of the child takes the messages of these cancels. A thread that waited for one now and
/// then, as it does in the parent, would take some 97 s.
#[test]
fn a_child_cancels_a_million_at_full_speed() {
    const TIMERS: u64 = 1_000_000;
    let _alone = alone();
    let service = TimerService::builder()
        .shards(1)
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    // By another thread: the one that forks has a lane of its own in the child.
    thread::scope(|scope| {
        scope.spawn(|| {
            let timers = service.schedule_many((0..TIMERS).map(|n| (HOUR, n)));
            assert!(timers.iter().all(Result::is_ok));
        });
    });
    until_others_sleep();
    let said = in_a_child(|| {
        check(
            service.cancel_all() as u64 == TIMERS,
            "not all are cancelled",
        )?;
        check(service.is_empty(), "some are left")
    });
    assert_eq!(said, "");
}

/// Another thread may have the lock of a group at the fork.
#[test]
fn groups_end_in_a_child() {
    const TIMERS: u64 = 2_000;
    let _alone = alone();
    let handler = |batch: &mut Batch<'_, u64>| batch.for_each(drop);
    let service = TimerService::builder().on_expire(handler).start().unwrap();
    let group = service.group();
    let ids: Vec<_> = (0..TIMERS)
        .map(|n| group.schedule(HOUR, n).unwrap())
        .collect();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                group.pause();
                group.resume();
            }
        });
        let said: Vec<_> = (0..50)
            .map(|_| {
                in_a_child(|| {
                    let refused = group.schedule(MS, 9);
                    check(
                        matches!(refused, Err(ScheduleError::Stopped(9))),
                        "it takes a timer",
                    )?;
                    let is_there = group.add(ids[0]);
                    let _ = (group.is_paused(), group.pause(), group.resume());
                    let cancelled = group.cancel_all();
                    check(
                        is_there == (cancelled > 0),
                        "all calls have the lock, or none",
                    )?;
                    for &id in &ids {
                        let waits = service.is_pending(id);
                        check(waits || cancelled > 0, "it is lost")?;
                        check(
                            !service.pause(id) || service.is_paused(id),
                            "it is not paused",
                        )?;
                        let _ = service.resume(id);
                    }
                    Ok(())
                })
            })
            .collect();
        ends.store(true, Relaxed);
        assert!(said.iter().all(String::is_empty), "{said:?}");
    });
    assert_eq!(
        group.cancel_all() as u64,
        TIMERS,
        "the children have copies"
    );
}

/// The task is never over there: nobody is waited for.
#[test]
fn a_task_that_ran_at_the_fork_is_not_waited_for() {
    let _alone = alone();
    let service = TimerService::builder().start().unwrap();
    let (send, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let task = move || {
        send.send(()).unwrap();
        released.recv().unwrap();
    };
    let id = service.schedule(MS, task).unwrap();
    begun.recv().unwrap();
    let said = in_a_child(|| {
        check(!service.is_pending(id), "it has fired")?;
        check(
            service.cancel_and_wait(id) == Ok(false),
            "it cannot be cancelled",
        )
    });
    release.send(()).unwrap();
    assert_eq!(said, "");
}

/// The threads of the child's own services may have what threads of the parent had.
#[test]
fn the_end_of_an_inherited_service_harms_no_thread_of_the_childs_own() {
    let _alone = alone();
    for _ in 0..10 {
        let inherited: Vec<_> = (0..4)
            .map(|_| TimerService::builder().shards(2).start().unwrap())
            .collect();
        until_others_sleep();
        let said = in_a_child(move || {
            let own: Vec<_> = (0..4)
                .map(|_| TimerService::builder().shards(2).start().unwrap())
                .collect();
            drop(inherited);
            let (send, fired) = mpsc::channel();
            for service in &own {
                let send = send.clone();
                service
                    .schedule(MS, move || send.send(()).unwrap())
                    .unwrap();
            }
            drop(send);
            check(fired.iter().count() == 4, "each fires")?;
            check(
                own.iter().all(|service| service.stop().is_empty()),
                "and stops",
            )
        });
        assert_eq!(said, "");
    }
}

/// So does a thread of the child that ends: it has locals of an inherited service.
#[test]
fn threads_of_a_child_end() {
    let _alone = alone();
    let service = TimerService::builder().start().unwrap();
    let id = service.schedule(HOUR, || ()).unwrap();
    until_others_sleep();
    let said = in_a_child(|| {
        let is_cancelled = thread::scope(|scope| {
            let first = scope.spawn(|| service.is_pending(id) && service.cancel(id));
            let first = first.join().unwrap();
            scope.spawn(|| !service.is_pending(id)).join().unwrap() && first
        });
        check(is_cancelled, "cancelled once")
    });
    assert_eq!(said, "");
}

/// Nobody wakes them there, so they look by themselves.
#[cfg(feature = "async")]
#[test]
fn futures_of_a_parents_service_end() {
    let _alone = alone();
    let timers = wheelwork::future::Timers::start(TimerService::builder()).unwrap();
    let service = TimerService::builder().start().unwrap();
    service.schedule(HOUR, || ()).unwrap();
    let said = in_a_child(|| {
        let unfired = futures_lite::future::block_on(async {
            timers.sleep(MS * 3).await;
            service.stop_async().await
        });
        check(unfired.len() == 1, "what waits comes back")
    });
    assert_eq!(said, "");
}
