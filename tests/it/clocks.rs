//! Promise: a service with a spin margin, one that never sleeps, and one that counts suspended time
//! fire as any other: not early, nothing lost.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use wheelwork::{Builder, Dispatch, Stats, TimerService};

const MS: Duration = Duration::from_millis(1);

/// How often shards have slept. Not counted are naps of a shard that holds what is due since its
/// workers are behind, as they are on a busy machine: it takes these whatever its margin.
fn sleeps(stats: &Stats) -> u64 {
    stats.sum(|shard| shard.machinery.wakeups() - shard.machinery.held())
}

/// Timers of 0 to 40 ms, some cancelled, some moved: none is early, all others come. Returns how
/// often shards slept from when there was a deadline.
fn fires(builder: Builder) -> u64 {
    let service = builder.tick(Duration::from_micros(50)).start().unwrap();
    let (send, receive) = mpsc::channel();
    let arm = |delay: Duration| {
        let (send, due) = (send.clone(), Instant::now() + delay);
        service
            .schedule(delay, move || {
                send.send(Instant::now().checked_duration_since(due))
                    .unwrap()
            })
            .unwrap()
    };
    let far = [arm(MS * 100_000), arm(MS * 100_000)];
    // Before it has taken these in the shard may sleep for ever.
    while service.stats().sum(|shard| shard.machinery.drained()) < 2 {
        std::thread::sleep(MS);
    }
    let before = sleeps(&service.stats());
    let ids: Vec<_> = (0..400u32).map(|timer| arm(MS / 10 * timer)).collect();
    let moved = (0..400)
        .filter(|timer| timer % 5 == 4)
        .filter(|&timer| service.reschedule(ids[timer], MS * 45))
        .count();
    assert!(service.cancel(far[0]));
    let at = service
        .schedule_at(Instant::now() + MS * 50, || ())
        .unwrap();
    for _ in 0..400 {
        let lateness = receive.recv_timeout(Duration::from_secs(60)).expect("lost");
        assert!(lateness.is_some(), "early");
    }
    assert!(moved > 0 && service.is_pending(far[1]));
    while service.is_pending(at) {
        std::thread::sleep(MS);
    }
    assert_eq!(service.stop().len(), 1);
    assert!(receive.try_recv().is_err(), "twice");
    sleeps(&service.stats()) - before
}

#[test]
fn with_a_spin_margin() {
    fires(TimerService::builder().spin(MS / 10));
    fires(TimerService::builder().spin(MS * 3));
}

/// Neither a tick nor a deadline is further off than the margin.
#[test]
fn within_its_margin_a_shard_does_not_sleep() {
    assert_eq!(
        fires(
            TimerService::builder()
                .shards(1)
                .spin(Duration::from_secs(3600))
        ),
        0,
        "it has slept"
    );
}

#[test]
fn without_any_sleep() {
    assert_eq!(
        fires(TimerService::builder().shards(1).spin(Duration::MAX)),
        0,
        "it has slept"
    );
}

/// A busy machine: for a while the only worker does not run.
#[test]
fn a_shard_that_waits_for_workers_naps_within_its_margin() {
    let builder = TimerService::builder()
        .shards(1)
        .spin(Duration::MAX)
        .tick(Duration::from_micros(50));
    let service = builder.dispatch(Dispatch::RayonThreads(1)).start().unwrap();
    let (go, may_go) = mpsc::channel::<()>();
    service
        .schedule(Duration::ZERO, move || may_go.recv().unwrap())
        .unwrap();
    let mut timers = 0;
    while service.stats().sum(|shard| shard.machinery.held()) < 3 {
        service.schedule(Duration::ZERO, || ()).unwrap();
        timers += 1;
        std::thread::sleep(MS / 10);
    }
    go.send(()).unwrap();
    while service.stats().timers.fired < timers + 1 {
        std::thread::sleep(MS);
    }
    service.stop();
    let stats = service.stats();
    assert!(stats.sum(|shard| shard.machinery.wakeups()) > 2);
    assert_eq!(
        (sleeps(&stats), stats.sum(|shard| shard.machinery.rings())),
        (0, 0),
        "it has slept"
    );
}

/// Else a watchdog would take it for one that stalls.
#[test]
fn a_shard_that_spins_with_nothing_to_do_takes_turns() {
    let service = TimerService::builder()
        .shards(1)
        .spin(Duration::MAX)
        .start()
        .unwrap();
    let (turns, patience) = (
        || service.stats().sum(|shard| shard.machinery.turns()),
        Instant::now() + Duration::from_secs(60),
    );
    let before = turns();
    while turns() < before + 5 {
        assert!(Instant::now() < patience, "no turns");
        std::thread::sleep(MS);
    }
}

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
#[test]
fn with_suspended_time() {
    fires(TimerService::builder().boot_time(true));
}

#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
#[test]
fn without_a_clock_that_counts_suspended_time() {
    let error = TimerService::builder().boot_time(true).start().unwrap_err();
    assert!(matches!(error, wheelwork::StartError::BootTime));
}
