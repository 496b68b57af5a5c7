//! Stop against schedules in flight and against jobs: src/engine/README.md. The upper models use
//! the protocol's parts, the lower ones the service itself.

use loom::sync::Notify;
use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wheelwork::internals::loom::{Cells, Entry, Fault, drop_job, run_job, share_job};
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, TimerService};
use wheelwork_loom_tests::{
    Held, Ledger, explore, explore_service, must_fail, service_must_fail, spawn,
};

const DUE: u64 = 1;

/// Each of the threads schedules a timer while the service stops: StopMark, StopFence and StopClaim
/// of stop, all of schedule.
fn schedule_against_stop(schedulers: usize) {
    let (cells, shard) = Cells::new();
    let (cells, shard) = (Held::new(Arc::new(cells)), Held::new(shard));
    let outcomes = Arc::new(Ledger::<2>::new());
    let others: Vec<_> = (0..schedulers)
        .map(|number| {
            let (cells, outcomes) = (cells.clone(), outcomes.clone());
            thread::spawn(move || {
                let mut local = Held::new(cells.local());
                match cells.admit(&mut local, DUE, number) {
                    Ok(_) => {}
                    Err(ScheduleError::Stopped(payload)) => {
                        outcomes.add(payload);
                    }
                    Err(_) => panic!("there are enough cells"),
                }
                local
            })
        })
        .collect();
    let mut local = Held::new(cells.local());
    assert!(cells.stop());
    cells.claim_all(&mut local, |_, payload| {
        outcomes.add(payload);
    });
    let locals: Vec<_> = others
        .into_iter()
        .map(|other| other.join().unwrap())
        .collect();
    assert_eq!(
        outcomes.counts()[..schedulers],
        [1, 1][..schedulers],
        "every timer has one outcome"
    );
    drop((locals, local, shard));
}

fn one_schedule() {
    schedule_against_stop(1);
}

fn two_schedules() {
    schedule_against_stop(2);
}

/// A service on a manual clock, whose timers are numbers. The handler notes them.
fn service<const N: usize>(
    clock: &ManualClock,
    fired: &Arc<Ledger<N>>,
) -> Held<Arc<TimerService<usize>>> {
    let fired = fired.clone();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_micros(1))
        .shards(1);
    let service = service.on_expire(move |batch: &mut Batch<'_, usize>| {
        batch.for_each(|payload| {
            fired.add(payload);
        });
    });
    Held::new(Arc::new(service.start().expect("a manual service starts")))
}

/// A job (FireBegin to FireEnd) against the service's own stop (StopMark to StopWait): when stop
/// returns, what a task did is done, and no task begins.
fn job_against_stop() {
    let clock = ManualClock::new();
    let fired = Arc::new(Ledger::<1>::new());
    let service = service(&clock, &fired);
    let id = service
        .schedule(Duration::from_micros(1), 0usize)
        .expect("not stopped");
    let handle = service.handle();
    let job = spawn(move || run_job(&handle, Entry::of(id, 1)));
    let unfired = service.stop();
    // A causality violation, if a task may still run.
    let counts = fired.counts();
    job.join().unwrap();
    assert_eq!(fired.counts(), counts, "a task ran after stop");
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained inside the handler"
    );
    assert_eq!(
        counts[0] + unfired.len() as u32,
        1,
        "every timer has one outcome"
    );
}

/// A job of two timers, which an idle worker helps with. The worker that began with it is done, and
/// stops the service.
fn shared_job_against_stop() {
    let clock = ManualClock::new();
    let fired = Arc::new(Ledger::<2>::new());
    let service = service(&clock, &fired);
    let ids = [0, 1].map(|payload: usize| {
        service
            .schedule(Duration::from_micros(1), payload)
            .expect("not stopped")
    });
    let handle = service.handle();
    // Nobody else is idle: there is no taker for a second offer. (No part of the model.)
    let offers = Arc::new(AtomicUsize::new(0));
    let take_first = move |work| {
        if offers.fetch_add(1, Ordering::Relaxed) == 0 {
            drop(spawn(work));
        } else {
            std::mem::forget(work);
        }
    };
    share_job(&handle, &ids.map(|id| Entry::of(id, 1)), take_first);
    let unfired = service.stop();
    // A causality violation, if a task may still run.
    let counts = fired.counts();
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained inside the handler"
    );
    assert_eq!(
        counts.iter().sum::<u32>() + unfired.len() as u32,
        2,
        "every timer has one outcome"
    );
}

/// A job against two stops: when either returns, what the task did is done, and no task begins.
fn job_against_two_stops() {
    let clock = ManualClock::new();
    let fired = Arc::new(Ledger::<1>::new());
    let service = service(&clock, &fired);
    let id = service
        .schedule(Duration::from_micros(1), 0usize)
        .expect("not stopped");
    let (handle, other) = (service.handle(), service.clone());
    let job = spawn(move || run_job(&handle, Entry::of(id, 1)));
    let first = spawn(move || other.stop().len());
    let unfired = service.stop();
    // A causality violation, if a task may still run.
    let counts = fired.counts();
    let unfired = first.join().unwrap() + unfired.len();
    job.join().unwrap();
    assert_eq!(fired.counts(), counts, "a task ran after stop");
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained inside the handler"
    );
    assert_eq!(
        counts[0] as usize + unfired,
        1,
        "every timer has one outcome"
    );
}

/// A task that waits until it is woken.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Polls a future until it is ready, and waits for its waker between.
fn await_here<F: Future + Unpin>(mut future: F) -> F::Output {
    let task = Arc::new(Task(Notify::new()));
    let waker = Waker::from(task.clone());
    loop {
        let mut context = Context::from_waker(&waker);
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return output;
        }
        task.0.wait();
    }
}

/// A job against a stop that does not block (StopAsync, StopPoll, StopTell): when its future is
/// ready, what a task did is done, and no task begins.
fn job_against_stop_async() {
    let clock = ManualClock::new();
    let fired = Arc::new(Ledger::<1>::new());
    let service = service(&clock, &fired);
    let id = service
        .schedule(Duration::from_micros(1), 0usize)
        .expect("not stopped");
    let handle = service.handle();
    let job = spawn(move || run_job(&handle, Entry::of(id, 1)));
    let unfired = await_here(service.stop_async());
    // A causality violation, if a task may still run.
    let counts = fired.counts();
    job.join().unwrap();
    assert_eq!(fired.counts(), counts, "a task ran after stop");
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained inside the handler"
    );
    assert_eq!(
        counts[0] + unfired.len() as u32,
        1,
        "every timer has one outcome"
    );
}

/// A stop that does not block against one that does: the timer comes back once, from one of them,
/// and neither loses the other.
fn stop_async_against_stop() {
    let clock = ManualClock::new();
    let service = service(&clock, &Arc::new(Ledger::<1>::new()));
    let id = service
        .schedule(Duration::from_micros(1), 0usize)
        .expect("not stopped");
    let other = service.clone();
    let blocking = spawn(move || other.stop().len());
    let unfired = await_here(service.stop_async()).len();
    assert!(
        !service.is_pending(id),
        "it waits for the claims of the first stop"
    );
    assert_eq!(
        blocking.join().unwrap() + unfired,
        1,
        "every timer has one outcome"
    );
}

/// A job against `cancel_and_wait`, after another one that may have seen the job begin: when it
/// returns, what the task did is done, and no task begins.
fn job_against_cancel_and_wait() {
    // Not on the model's own thread, whose stack is small.
    let model = spawn(|| {
        let clock = ManualClock::new();
        let fired = Arc::new(Ledger::<2>::new());
        let service = service(&clock, &fired);
        let gone = service
            .schedule(Duration::from_micros(1), 1usize)
            .expect("not stopped");
        assert!(service.cancel(gone));
        let id = service
            .schedule(Duration::from_micros(1), 0usize)
            .expect("not stopped");
        let handle = service.handle();
        let job = spawn(move || run_job(&handle, Entry::of(id, 1)));
        assert_eq!(service.cancel_and_wait(gone), Ok(false));
        let cancelled = service.cancel_and_wait(id).expect("this is no task");
        // A causality violation, if a task may still run.
        let counts = fired.counts();
        job.join().unwrap();
        assert_eq!(fired.counts(), counts, "a task ran after the wait");
        assert_eq!(
            service.stats().panics,
            0,
            "loom complained inside the handler"
        );
        assert_eq!(
            counts[0] + u32::from(cancelled),
            1,
            "every timer has one outcome"
        );
    });
    model.join().unwrap();
}

/// A payload that is noted when it is dropped.
struct Noted(Arc<Ledger<1>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.add(0);
    }
}

/// A job that is dropped unrun against the service's own stop: when stop returns, what has not been
/// handed back is dropped.
fn dropped_job_against_stop() {
    let clock = ManualClock::new();
    let dropped = Arc::new(Ledger::<1>::new());
    let builder = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_micros(1))
        .shards(1);
    let service = Held::new(
        builder
            .on_expire(|_: &mut Batch<'_, Noted>| unreachable!("the job is dropped"))
            .start()
            .expect("a manual service starts"),
    );
    let id = service
        .schedule(Duration::from_micros(1), Noted(dropped.clone()))
        .expect("not stopped");
    let handle = service.handle();
    let job = spawn(move || drop_job(&handle, Entry::of(id, 1)));
    let unfired = service.stop();
    // A causality violation, if a payload may still be dropped.
    let counts = dropped.counts();
    job.join().unwrap();
    assert_eq!(dropped.counts(), counts, "a payload was dropped after stop");
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained in the payload's drop"
    );
    assert_eq!(
        counts[0] + unfired.len() as u32,
        1,
        "every timer has one outcome"
    );
    std::mem::forget(unfired);
}

/// A schedule, a turn of the manual clock that may fire it, and a stop.
fn schedule_against_turn_and_stop() {
    let clock = ManualClock::new();
    let fired = Arc::new(Ledger::<1>::new());
    let service = service(&clock, &fired);
    let (job_clock, scheduler) = (clock.clone(), service.clone());
    let job = spawn(move || job_clock.advance(Duration::from_micros(1)));
    let schedule = spawn(move || scheduler.schedule(Duration::ZERO, 0usize).is_err());
    let unfired = service.stop();
    let counts = fired.counts();
    job.join().unwrap();
    let refused = schedule.join().unwrap();
    assert_eq!(fired.counts(), counts, "a task ran after stop");
    assert_eq!(
        service.stats().panics,
        0,
        "loom complained inside the handler"
    );
    assert_eq!(
        counts[0] + unfired.len() as u32 + u32::from(refused),
        1,
        "every timer has one outcome"
    );
}

/// A periodic timer whose run stops the service, maybe before the call that started it has come
/// back.
fn start_against_a_run_that_stops() {
    let clock = ManualClock::new();
    let service = service(&clock, &Arc::new(Ledger::<1>::new()));
    let (job_clock, stopper) = (clock.clone(), service.clone());
    let job = spawn(move || job_clock.advance(Duration::from_micros(1)));
    let started = service
        .every(Duration::from_micros(1))
        .times(1)
        .start(move || _ = stopper.stop());
    assert!(started.is_ok());
    job.join().unwrap();
    service.stop();
    let stats = service.stats();
    assert_eq!(stats.panics, 0, "loom complained inside the run");
    assert_eq!(
        (stats.timers.ended, stats.timers.pending),
        (1, 0),
        "every timer is counted once"
    );
}

/// A service with its shard's thread, which sleeps in its doorbell. Ticks of a day, so that the
/// clock stands still.
fn service_with_a_thread() {
    let builder = TimerService::builder()
        .tick(Duration::from_secs(24 * 3600))
        .shards(1)
        .pinning(wheelwork::Pinning::Off)
        .dispatch(Dispatch::Inline);
    let service = builder
        .on_expire(|_: &mut Batch<'_, usize>| unreachable!("due tomorrow"))
        .start()
        .expect("one thread");
    let service = Held::new(service);
    service
        .schedule(Duration::from_secs(3600), 7usize)
        .expect("not stopped");
    let unfired = service.stop();
    assert_eq!(unfired.len(), 1);
    assert_eq!(unfired[0].payload, 7);
}

#[test]
fn a_schedule_in_flight_has_one_outcome() {
    explore(None, one_schedule);
}

#[test]
fn two_schedules_in_flight_have_one_outcome_each() {
    explore(Some(3), two_schedules);
}

#[test]
fn stop_waits_for_jobs() {
    explore_service(Some(5), job_against_stop);
}

#[test]
fn stop_waits_for_those_who_help() {
    explore_service(Some(2), shared_job_against_stop);
}

#[test]
fn each_of_two_stops_waits() {
    explore_service(Some(2), job_against_two_stops);
}

#[test]
fn broken_wait_of_a_further_stop() {
    service_must_fail(
        Fault::FurtherStopWaitsForNobody,
        "writing to cell",
        Some(2),
        job_against_two_stops,
    );
}

#[test]
fn stop_waits_for_a_job_that_is_dropped() {
    explore_service(Some(5), dropped_job_against_stop);
}

#[test]
fn broken_count_of_a_job_that_is_dropped() {
    service_must_fail(
        Fault::AbandonNotCounted,
        "Causality violation",
        Some(5),
        dropped_job_against_stop,
    );
}

#[test]
fn broken_count_of_those_who_help() {
    service_must_fail(
        Fault::HelperNotCounted,
        "Causality violation",
        Some(2),
        shared_job_against_stop,
    );
}

#[test]
fn a_schedule_that_may_fire_has_one_outcome() {
    explore_service(Some(2), schedule_against_turn_and_stop);
}

#[test]
fn a_run_that_stops_the_service_is_counted_once() {
    explore_service(Some(3), start_against_a_run_that_stops);
}

#[test]
fn broken_count_of_a_run_that_is_taken_back() {
    service_must_fail(
        Fault::RunTakenBackNotCounted,
        "every timer is counted once",
        Some(3),
        start_against_a_run_that_stops,
    );
}

#[test]
fn stop_ends_a_sleeping_shard() {
    explore_service(Some(2), service_with_a_thread);
}

#[test]
fn broken_fence() {
    must_fail(
        Fault::StopNoFence,
        "every timer has one outcome",
        None,
        one_schedule,
    );
}

#[test]
fn broken_second_look() {
    must_fail(
        Fault::StopNotSeenAfterArm,
        "every timer has one outcome",
        None,
        one_schedule,
    );
}

#[test]
fn broken_ring_fence() {
    must_fail(
        Fault::DoorbellNoRingFence,
        "every timer has one outcome",
        None,
        one_schedule,
    );
}

#[test]
fn broken_count_of_jobs() {
    service_must_fail(
        Fault::JobNotCounted,
        "Causality violation",
        Some(5),
        job_against_stop,
    );
}

#[test]
fn broken_end_of_jobs() {
    service_must_fail(
        Fault::JobEndRelaxed,
        "Causality violation",
        Some(5),
        job_against_stop,
    );
}

#[test]
fn broken_wait_for_the_turn() {
    service_must_fail(
        Fault::StopTurnNotAwaited,
        "writing to cell",
        Some(2),
        schedule_against_turn_and_stop,
    );
}

#[test]
fn broken_claim_that_publishes_nothing() {
    must_fail(
        Fault::ClaimRelaxed,
        "Causality violation",
        Some(3),
        job_against_cancel_and_wait,
    );
}

#[test]
fn broken_claim_whose_loser_learns_nothing() {
    must_fail(
        Fault::ClaimLostRelaxed,
        "Causality violation",
        Some(3),
        job_against_cancel_and_wait,
    );
}

#[test]
fn cancel_and_wait_waits_for_the_task() {
    explore(Some(3), job_against_cancel_and_wait);
}

#[test]
fn broken_half_of_a_wait() {
    must_fail(
        Fault::WaitForOneHalf,
        "Causality violation",
        Some(3),
        job_against_cancel_and_wait,
    );
}

#[test]
fn broken_count_of_a_wait() {
    must_fail(
        Fault::JobNotCounted,
        "Causality violation",
        Some(3),
        job_against_cancel_and_wait,
    );
}

#[test]
fn broken_end_of_a_job_that_is_awaited() {
    must_fail(
        Fault::JobEndRelaxed,
        "Causality violation",
        Some(3),
        job_against_cancel_and_wait,
    );
}

#[test]
fn a_stop_that_does_not_block_waits_for_jobs() {
    explore_service(Some(2), job_against_stop_async);
}

#[test]
fn broken_wait_of_a_stop_that_does_not_block() {
    service_must_fail(
        Fault::StopAsyncWaitsForNobody,
        "Causality violation",
        Some(2),
        job_against_stop_async,
    );
}

#[test]
fn broken_end_of_a_stop_that_does_not_block() {
    service_must_fail(
        Fault::StopToldTooEarly,
        "deadlock",
        Some(2),
        job_against_stop_async,
    );
}

#[test]
fn a_stop_that_does_not_block_and_one_that_does_hand_back_once() {
    explore_service(Some(2), stop_async_against_stop);
}

#[test]
fn broken_wait_for_the_claims_of_the_other_stop() {
    service_must_fail(
        Fault::FurtherStopWaitsForNobody,
        "it waits for the claims",
        Some(2),
        stop_async_against_stop,
    );
}
