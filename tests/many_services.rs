//! Promise: many services of one shard cost a thread each, and are spread over the cores.
//!
//! - Services share the default pool, and the cores.
//! - The pool loses no work when services come and go.
//! - Nobody waits for another service's tasks, but for a free worker of the pool.
//!
//! Threads are counted by their names, so the tests of this file run one after the other. What
//! memory a thousand services take is printed (`--nocapture`), and is no gate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Dispatch, InsideTaskError, ManualClock, Pinning, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> TimerService {
    TimerService::builder().start().unwrap()
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Waits until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANGS, "{what}");
        thread::sleep(MS * 10);
    }
}

/// The system's names of the threads of services.
///
/// A thread is joined as soon as the kernel has let go of its memory, and is listed until the
/// kernel has taken down the rest. So a thread that ends does not count (`PF_EXITING`, which is set
/// before). While threads end, others may be missing in the list.
#[cfg(target_os = "linux")]
fn names() -> Vec<String> {
    const PF_EXITING: u64 = 4;
    let name = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let flags: u64 = rest.split_whitespace().nth(6)?.parse().ok()?;
        (flags & PF_EXITING == 0).then(|| name.to_string())
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| name(task.ok()?))
        .filter(|name| name.contains("-shard-") || name.contains("-pool-"))
        .collect()
}

#[cfg(target_os = "linux")]
fn pool_threads() -> usize {
    names()
        .iter()
        .filter(|name| name.contains("-pool-"))
        .count()
}

/// Has each service fire a timer, and waits for all of them.
fn each_fires(services: &[TimerService]) {
    let (send, receive) = mpsc::channel();
    for (number, service) in services.iter().enumerate() {
        let send = send.clone();
        service
            .schedule(MS, move || send.send(number).unwrap())
            .unwrap();
    }
    let mut fired: Vec<_> = (0..services.len())
        .map(|_| receive.recv_timeout(HANGS).expect("each fires"))
        .collect();
    fired.sort_unstable();
    assert!(fired.into_iter().eq(0..services.len()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_services_cost_a_thread_each() {
    const SERVICES: usize = 1_000;
    let _alone = alone();
    until("threads of the test before end", || names().is_empty());
    let figures = |when: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let figure = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.map_or("?", |line| line[name.len()..].trim())
        };
        let maps =
            std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let [addresses, resident, threads] = ["VmSize:", "VmRSS:", "Threads:"].map(figure);
        println!(
            "{when}: {threads} threads, {addresses} of addresses, {resident} resident, {maps} \
             mappings, {files} open files"
        );
    };
    figures("before");
    let services: Vec<_> = (0..SERVICES)
        .map(|_| TimerService::builder().shards(1).start().unwrap())
        .collect();
    until("all threads have their names", || {
        names().len() >= SERVICES + cores()
    });
    figures("a thousand services");
    each_fires(&services);
    figures("each has fired a timer");
    assert_eq!(pool_threads(), cores(), "they share a pool");
    let threads = names().len();
    assert_eq!(threads, SERVICES + cores());
    assert!(threads <= 1_100 || cores() > 100, "{threads} threads");
    // Several at a time: each stop waits until its shard's thread has had a processor.
    thread::scope(|scope| {
        for some in services.chunks(SERVICES / 20) {
            let stop = || {
                some.iter()
                    .for_each(|service| assert!(service.stop().is_empty()))
            };
            scope.spawn(stop);
        }
    });
    let left = names();
    assert!(
        !left.iter().any(|name| name.contains("-shard-")),
        "`stop` has joined them: {left:?}"
    );
    drop(services);
    until("the pool ends with the last service", || names().is_empty());
    figures("all have stopped");
}

/// The core of each shard of a service. Empty if one has let go of its core, because others keep it
/// busy.
#[cfg(target_os = "linux")]
fn cores_of(service: &TimerService) -> Vec<usize> {
    let (send, receive) = mpsc::channel();
    for shard in 0..service.shards() {
        let send = send.clone();
        let tell = move || send.send((shard, core_affinity::get_core_ids())).unwrap();
        service.schedule_on(shard, MS, tell).unwrap();
    }
    let mut told: Vec<_> = (0..service.shards())
        .map(|_| receive.recv_timeout(HANGS).unwrap())
        .collect();
    told.sort_unstable();
    let one = |(_, cores): (usize, Option<Vec<core_affinity::CoreId>>)| {
        let cores = cores.expect("Linux tells");
        let has_let_go = service.stats().unpinned_shards > 0;
        assert!(cores.len() == 1 || has_let_go, "pinned to one core");
        (!has_let_go).then(|| cores[0].id)
    };
    told.into_iter()
        .map(one)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// Whether shards can be pinned here. In some containers they cannot.
#[cfg(target_os = "linux")]
fn can_pin() -> bool {
    let service = start();
    each_fires(std::slice::from_ref(&service));
    service.stats().unpinned_shards == 0
}

#[cfg(target_os = "linux")]
#[test]
fn shards_of_all_services_are_spread_over_the_cores() {
    let _alone = alone();
    if !can_pin() {
        return eprintln!("threads cannot be pinned here");
    }
    // A service of an earlier test may be about to end.
    until("threads of the test before end", || names().is_empty());
    let inline = |shards| {
        let builder = TimerService::builder().dispatch(Dispatch::Inline);
        builder.shards(shards).start().unwrap()
    };
    let all: Vec<_> = core_affinity::get_core_ids().unwrap();
    let mut services: Vec<_> = (0..3 * all.len()).map(|_| inline(1)).collect();
    let on: Vec<_> = services.iter().flat_map(cores_of).collect();
    if on.len() < services.len() {
        return eprintln!("others keep the cores busy here");
    }
    let ids: Vec<_> = all.iter().map(|core| core.id).collect();
    let begins_at = ids.iter().position(|&core| core == on[0]).unwrap();
    let in_turn = ids.iter().copied().cycle().skip(begins_at);
    assert_eq!(on, in_turn.take(on.len()).collect::<Vec<_>>());
    // Its place is free when `stop` has returned.
    let last = services.remove(all.len() - 1);
    let core = cores_of(&last);
    last.stop();
    let next = inline(1);
    let on = cores_of(&next);
    assert!(on == core || on.is_empty() || core.is_empty(), "{on:?}");
    // Also with several shards, and beside cores that were chosen.
    let several = inline(2 * all.len());
    let chosen = TimerService::builder()
        .dispatch(Dispatch::Inline)
        .pinning(Pinning::Cores(vec![all[0].id]))
        .start()
        .unwrap();
    let beside = (all.len() > 1).then(|| inline(all.len() - 1));
    let mut loads: BTreeMap<_, usize> = BTreeMap::new();
    let others = [&next, &several, &chosen].into_iter().chain(&beside);
    for service in services.iter().chain(others) {
        let on = cores_of(service);
        if on.len() < service.shards() {
            return eprintln!("others keep the cores busy here");
        }
        on.into_iter()
            .for_each(|core| *loads.entry(core).or_default() += 1);
    }
    assert!(loads.values().all(|&load| load == 6), "{loads:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_system_shows_a_shards_number() {
    let _alone = alone();
    for (name, shown) in [("request-timeouts", "request"), ("db", "db")] {
        let service = TimerService::builder()
            .name(name)
            .shards(3)
            .dispatch(Dispatch::RayonThreads(2))
            .start()
            .unwrap();
        let expected = [
            format!("{shown}-shard-0"),
            format!("{shown}-shard-2"),
            format!("{}-pool-1", &name[..name.len().min(8)]),
        ];
        until("the names are those of the service", || {
            let names = names();
            expected.iter().all(|name| names.contains(name))
        });
        drop(service);
    }
}

/// Has a service's task block, until what is returned is dropped.
fn block(service: &TimerService, tasks: usize) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let (gate, (has_begun, begun)) = (Arc::new(Mutex::new(gate)), mpsc::channel());
    for _ in 0..tasks {
        let (gate, has_begun) = (gate.clone(), has_begun.clone());
        let task = move || {
            has_begun.send(()).unwrap();
            // The one that has the lock waits in `recv`, the others for the lock.
            _ = gate.lock().unwrap().recv();
        };
        service.schedule(MS, task).unwrap();
    }
    (0..tasks).for_each(|_| begun.recv_timeout(HANGS).expect("a worker is idle"));
    open
}

#[test]
fn stop_waits_for_no_task_of_another_service() {
    let _alone = alone();
    let (blocked, other) = (start(), start());
    let open = block(&blocked, 1);
    let id = other.schedule(HANGS, || ()).unwrap();
    assert_eq!(other.cancel_and_wait(id), Ok(true));
    other.schedule(HANGS, || ()).unwrap();
    assert_eq!(other.stop().len(), 1);
    drop(open);
    assert!(blocked.stop().is_empty());
}

/// All workers are blocked. A service with a pool of its own goes on, and so does one on a manual
/// clock.
#[test]
fn a_pool_of_its_own_is_not_held_up() {
    let _alone = alone();
    let (blocked, waits) = (start(), start());
    let open = block(&blocked, cores());
    let (send, receive) = mpsc::channel();
    waits.schedule(MS, move || send.send(()).unwrap()).unwrap();
    let own = TimerService::builder().dispatch(Dispatch::RayonThreads(1));
    each_fires(&[own.start().unwrap()]);
    let clock = ManualClock::new();
    let manual = TimerService::builder().clock(clock.clone());
    let manual = manual.dispatch(Dispatch::Rayon).start().unwrap();
    let (tell, told) = mpsc::channel();
    manual.schedule(MS, move || tell.send(()).unwrap()).unwrap();
    clock.advance(MS);
    told.recv_timeout(HANGS).unwrap();
    assert!(receive.try_recv().is_err(), "no worker is free");
    drop(open);
    receive.recv_timeout(HANGS).unwrap();
}

/// A task waits for a task of another service.
#[test]
fn a_slow_task_delays_no_other_service_while_a_worker_is_idle() {
    let _alone = alone();
    if cores() == 1 {
        return;
    }
    let services = [start(), start()];
    for round in 0..50 {
        let ((send, receive), (done, all)) = (mpsc::channel(), mpsc::channel());
        let slow = move || done.send(receive.recv_timeout(HANGS)).unwrap();
        services[round % 2].schedule(MS, slow).unwrap();
        services[1 - round % 2]
            .schedule(MS, move || send.send(()).unwrap())
            .unwrap();
        assert_eq!(all.recv().unwrap(), Ok(()), "it waits behind the slow one");
    }
}

#[test]
fn a_task_may_stop_another_service() {
    let _alone = alone();
    let (first, second) = (start(), Arc::new(start()));
    let open = block(&second, 1);
    let id = second.schedule(HANGS, || ()).unwrap();
    let (send, receive) = mpsc::channel();
    let other = second.clone();
    // It may run on any worker but the blocked one; where there is none, beside it.
    let task = move || {
        let waited = other.cancel_and_wait(id);
        send.send((waited, other.stop().len())).unwrap();
    };
    let builder = TimerService::builder().dispatch(Dispatch::RayonThreads(1));
    let beside = builder.start().unwrap();
    let runs_it = if cores() > 1 { &first } else { &beside };
    runs_it.schedule(MS, task).unwrap();
    let told = receive.recv_timeout(HANGS);
    assert_eq!(told, Ok((Err(InsideTaskError), 1)), "it waits for nobody");
    drop(open);
    assert!(second.stop().is_empty(), "handed back before");
}

/// Each thread starts services, one after the other, and stops them while others fire.
#[test]
fn services_come_and_go_and_nothing_is_lost() {
    const THREADS: usize = 4;
    let _alone = alone();
    let here = AtomicUsize::new(0);
    let come_and_go = || {
        for round in 0..40 {
            // No `Barrier`: the others would wait for ever for one that has failed.
            here.fetch_add(1, Ordering::SeqCst);
            let start_of_wait = Instant::now();
            while here.load(Ordering::SeqCst) < (round + 1) * THREADS {
                assert!(
                    start_of_wait.elapsed() < HANGS * 2,
                    "another one has failed"
                );
                thread::yield_now();
            }
            let service = start();
            let (send, receive) = mpsc::channel();
            let timers = [1, 2, 65, 3_000][round % 4];
            for timer in 0..timers {
                let send = send.clone();
                let delay = MS * (timer % 3);
                service
                    .schedule(delay, move || send.send(timer).unwrap())
                    .unwrap();
            }
            let mut fired: Vec<_> = (0..timers)
                .map(|_| receive.recv_timeout(HANGS).expect("it fires"))
                .collect();
            fired.sort_unstable();
            assert!(fired.into_iter().eq(0..timers));
            // These are in the pool, or in the wheel.
            service.schedule_many((0..timers).map(|_| (MS, || ())));
            if round % 2 == 0 {
                thread::sleep(MS);
            }
            let handed_back = service.stop().len() as u64;
            let counts = service.stats().timers;
            assert_eq!(counts.fired + handed_back, counts.armed);
        }
    };
    thread::scope(|scope| {
        (0..THREADS).for_each(|_| drop(scope.spawn(come_and_go)));
    });
}

/// Batches of many shards come at one time, and are slow enough that the shards look after them
/// while others submit. A piece of work that nobody is told of would wait for the next round, which
/// does not come.
#[test]
fn work_of_many_services_at_once_waits_for_no_further_work() {
    const SERVICES: usize = 64;
    let _alone = alone();
    let services: Vec<_> = (0..SERVICES)
        .map(|_| TimerService::builder().shards(1).start().unwrap())
        .collect();
    for round in 0..1_000 {
        let (send, receive) = mpsc::channel();
        for (number, service) in services.iter().enumerate() {
            let send = send.clone();
            let steps = (number * 7_919 + round * 104_729) % 4_000;
            let task = move || {
                (0..steps).for_each(|_| std::hint::spin_loop());
                send.send(()).unwrap();
            };
            service.schedule(MS, task).unwrap();
        }
        for _ in 0..SERVICES {
            receive.recv_timeout(HANGS).expect("each fires");
        }
    }
}

/// Each service counts whom it has woken itself.
#[test]
fn a_services_counts_of_the_pool_are_its_own() {
    let _alone = alone();
    let (busy, idle) = (start(), start());
    for _ in 0..20 {
        each_fires(std::slice::from_ref(&busy));
    }
    let told = |service: &TimerService| {
        let pool = service.stats().pool;
        pool.calls + pool.announcements
    };
    assert!(told(&busy) > 0);
    assert_eq!(told(&idle), 0);
}

/// The child has none of its parent's threads, and starts a pool of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_was_forked_off_can_start_services() {
    let _alone = alone();
    let service = start();
    each_fires(std::slice::from_ref(&service));
    let later = service.schedule(HANGS * 60, || ()).unwrap();
    // SAFETY: the child runs what is below alone, and ends without a return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child if it hangs.
        unsafe { libc::alarm(2 * HANGS.as_secs() as u32) };
        let (send, receive) = mpsc::channel();
        let fires = || {
            let service = TimerService::builder().start().ok()?;
            service.schedule(MS, move || _ = send.send(())).ok()?;
            receive.recv_timeout(HANGS).ok()
        };
        // The parent's service has no threads here: its end waits for nobody.
        let hands_back = || service.stop().len() == 1 && service.stop().is_empty();
        let code = i32::from(fires().is_none()) + 2 * i32::from(!hands_back());
        // SAFETY: ends the process, without what the test harness does at its end.
        unsafe { libc::_exit(code) };
    }
    assert!(child > 0, "no process");
    let mut status = 0;
    // SAFETY: the child is this thread's, and the status is a place for it.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(
        (ended, status),
        (child, 0),
        "its timer has fired, the parent's came back"
    );
    each_fires(std::slice::from_ref(&service));
    assert!(service.cancel(later), "the child has stopped its own copy");
}
