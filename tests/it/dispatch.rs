//! Promise: wherever timers fire, each has one outcome, which is counted: with executors that run
//! jobs late, at once or never, and with channels that are full or have no receivers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvError, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, Dispatch, ManualClock, Receiver, Stats, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

type Job = Box<dyn FnOnce() + Send>;

/// A payload that counts how often it was dropped, and may panic in it.
struct Payload {
    dropped: Arc<AtomicU64>,
    panics: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if self.panics {
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

struct Fixture {
    clock: ManualClock,
    service: TimerService<Payload>,
    handled: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

impl Fixture {
    fn new(execute: impl Fn(Job) + Send + Sync + 'static) -> Self {
        let (clock, handled) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
        let count = handled.clone();
        let handler = move |batch: &mut Batch<'_, Payload>| {
            batch.for_each(|_payload| _ = count.fetch_add(1, Ordering::Relaxed))
        };
        let builder = TimerService::builder()
            .clock(clock.clone())
            .dispatch(Dispatch::executor(execute));
        Self {
            clock,
            service: builder.on_expire(handler).start().unwrap(),
            handled,
            dropped: Arc::default(),
        }
    }

    /// Arms this number of timers for the next millisecond.
    fn arm(&self, timers: u64, panics: bool) {
        for _ in 0..timers {
            self.service
                .schedule(
                    MS,
                    Payload {
                        dropped: self.dropped.clone(),
                        panics,
                    },
                )
                .unwrap();
        }
    }

    fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn dropped(stats: &Stats) -> u64 {
    stats.timers.dropped
}

#[test]
fn an_executor_may_run_jobs_whenever_it_likes() {
    let jobs: Arc<Mutex<VecDeque<Job>>> = Arc::default();
    let queue = jobs.clone();
    let fixture = Fixture::new(move |job| queue.lock().unwrap().push_back(job));
    fixture.arm(5_000, false);
    fixture.clock.advance(HOUR);
    assert_eq!((fixture.handled(), fixture.service.len()), (0, 5_000));
    // The last one first; jobs leave others.
    while let Some(job) = { jobs.lock().unwrap().pop_back() } {
        job();
    }
    assert_eq!((fixture.handled(), fixture.dropped()), (5_000, 5_000));
    assert_eq!(fixture.service.stats().lateness.max(), HOUR - MS);
    assert!(fixture.service.stop().is_empty());
}

#[test]
fn an_executor_may_run_jobs_at_once() {
    let fixture = Fixture::new(|job| job());
    for timers in [1, 2, 64, 65, 1_024, 100_000] {
        let before = fixture.handled();
        fixture.arm(timers, false);
        fixture.clock.advance(MS);
        assert_eq!(fixture.handled(), before + timers);
    }
    assert!(fixture.service.stop().is_empty());
}

#[test]
fn jobs_that_are_dropped_have_their_payloads_dropped() {
    for panics in [false, true] {
        let fixture = Fixture::new(drop);
        fixture.arm(3_000, panics);
        fixture.clock.advance(MS);
        let stats = fixture.service.stats();
        assert_eq!((fixture.handled(), fixture.dropped()), (0, 3_000));
        assert_eq!(
            (stats.timers.fired, dropped(&stats), fixture.service.len()),
            (3_000, 3_000, 0)
        );
        assert_eq!(
            (
                stats.panics,
                stats.sum(|shard| shard.machinery.pool_backlog())
            ),
            (if panics { 3_000 } else { 0 }, 0)
        );
        assert!(fixture.service.stop().is_empty());
    }
}

#[test]
fn an_executor_that_panics_harms_nothing() {
    for panics in [false, true] {
        let calls = AtomicUsize::new(0);
        let fixture = Fixture::new(move |job: Job| {
            if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                std::panic::resume_unwind(Box::new(()));
            }
            job();
        });
        for _ in 0..10 {
            fixture.arm(10, panics);
            fixture.clock.advance(MS);
        }
        let stats = fixture.service.stats();
        assert_eq!(
            (stats.timers.fired, fixture.dropped(), fixture.service.len()),
            (100, 100, 0)
        );
        assert_eq!(fixture.handled() + dropped(&stats), 100);
        assert!(stats.hook_panics > 0 && dropped(&stats) > 0, "{stats:?}");
        assert!(fixture.service.stop().is_empty());
    }
}

#[test]
fn jobs_that_are_dropped_now_and_then_lose_nothing() {
    let jobs: Arc<Mutex<VecDeque<Job>>> = Arc::default();
    let queue = jobs.clone();
    let fixture = Fixture::new(move |job| queue.lock().unwrap().push_back(job));
    for _ in 0..20 {
        fixture.arm(3_000, false);
        fixture.clock.advance(MS);
    }
    for number in 0.. {
        let Some(job) = ({ jobs.lock().unwrap().pop_front() }) else {
            break;
        };
        if number % 3 > 0 {
            job();
        }
    }
    let stats = fixture.service.stats();
    assert!(dropped(&stats) > 0 && fixture.handled() > 0);
    assert_eq!(
        (
            fixture.handled() + dropped(&stats),
            fixture.dropped(),
            stats.timers.fired
        ),
        (60_000, 60_000, 60_000)
    );
}

#[test]
fn what_an_executor_has_not_begun_is_handed_back() {
    let jobs: Arc<Mutex<Vec<Job>>> = Arc::default();
    let queue = jobs.clone();
    let fixture = Fixture::new(move |job| queue.lock().unwrap().push(job));
    fixture.arm(3_000, false);
    fixture.clock.advance(MS);
    assert_eq!(fixture.service.stop().len(), 3_000);
    // They find nothing.
    let begun_late = std::mem::take(&mut *jobs.lock().unwrap());
    begun_late.into_iter().for_each(|job| job());
    assert_eq!(
        (fixture.handled(), fixture.service.stats().timers.fired),
        (0, 0)
    );
}

/// Two threads that run jobs, and a slow task that waits for all others.
#[test]
fn on_an_executor_a_slow_task_delays_nobody_while_a_worker_is_idle() {
    let (jobs, run) = mpsc::channel::<Job>();
    let run = Arc::new(Mutex::new(run));
    for _ in 0..2 {
        let run = run.clone();
        thread::spawn(move || {
            while let Ok(job) = { run.lock().unwrap().recv() } {
                job();
            }
        });
    }
    let service = TimerService::builder()
        .dispatch(Dispatch::executor(move |job| jobs.send(job).unwrap()))
        .start()
        .unwrap();
    let left = Arc::new(AtomicUsize::new(199));
    let (send, receive) = mpsc::channel();
    for timer in 0..200 {
        let (left, send) = (left.clone(), send.clone());
        let task = move || {
            if timer == 5 {
                while left.load(Ordering::Relaxed) > 0 {
                    thread::sleep(MS);
                }
                send.send(()).unwrap();
            } else {
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        service.schedule(MS * 5, task).unwrap();
    }
    assert_eq!(receive.recv_timeout(HANGS), Ok(()));
    assert!(service.stop().is_empty());
}

fn to_channel(capacity: Option<usize>) -> (TimerService<u32>, Receiver<u32>, ManualClock) {
    let clock = ManualClock::new();
    let (builder, receiver) = TimerService::builder()
        .clock(clock.clone())
        .on_expire_channel(capacity);
    (builder.start().unwrap(), receiver, clock)
}

#[test]
fn a_channel_gets_everything_in_order_of_deadlines() {
    let (service, receiver, clock) = to_channel(None);
    (0..10_000u32)
        .rev()
        .for_each(|timer| _ = service.schedule(MS * (1 + timer / 100), timer).unwrap());
    clock.advance(MS * 100);
    let batches: Vec<_> = receiver.try_iter().collect();
    assert!(batches.iter().all(|batch| (1..=64).contains(&batch.len())));
    let mut payloads: Vec<_> = batches.into_iter().flatten().collect();
    assert!(payloads.is_sorted_by_key(|timer| timer / 100));
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..10_000));
    assert_eq!(
        (
            service.stats().timers.fired,
            service.stats().sum(|shard| shard.machinery.held())
        ),
        (10_000, 0)
    );
    drop(service);
    assert!(receiver.recv().is_err(), "disconnected");
}

#[test]
fn receivers_share_a_channel_and_tell_empty_from_disconnected() {
    let (service, receiver, clock) = to_channel(None);
    let other = receiver.clone();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.recv_timeout(MS), Err(RecvTimeoutError::Timeout));
    let now = Instant::now();
    assert_eq!(other.recv_deadline(now), Err(RecvTimeoutError::Timeout));
    (0..2).for_each(|timer| {
        service.schedule(MS, timer).unwrap();
        clock.advance(MS);
    });
    assert_eq!((receiver.len(), other.is_empty()), (2, false));
    assert_eq!(receiver.recv(), Ok(vec![0]));
    assert_eq!(other.iter().next(), Some(vec![1]));
    drop((service, clock));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    let disconnected = Err(RecvTimeoutError::Disconnected);
    assert_eq!(receiver.recv_timeout(HANGS), disconnected);
    assert_eq!(other.recv(), Err(RecvError));
}

#[test]
fn what_a_full_channel_has_no_place_for_stays_in_the_wheel() {
    for capacity in [0, 1, 2, 7] {
        let places = capacity.max(1) as u64;
        let (service, receiver, clock) = to_channel(Some(capacity));
        let ids: Vec<_> = (0..1_000)
            .map(|timer| service.schedule(MS, timer).unwrap())
            .collect();
        // Time goes on.
        clock.advance(HOUR);
        assert_eq!(clock.elapsed(), HOUR);
        assert_eq!(
            (service.stats().timers.fired, service.len()),
            (64 * places, 1_000 - 64 * places)
        );
        assert!(service.stats().sum(|shard| shard.machinery.held()) > 0);
        // The first have fired, the last are cancelled.
        assert!(
            ids[64 * places as usize..]
                .iter()
                .rev()
                .take(300)
                .all(|&id| service.cancel(id))
        );
        let received = receiver
            .try_iter()
            .map(|batch| batch.len() as u64)
            .sum::<u64>();
        assert_eq!(received, 64 * places);
        clock.advance(Duration::ZERO);
        assert!((64 * places..=700.min(128 * places)).contains(&service.stats().timers.fired));
        assert!(service.stats().timers.fired > 64 * places);
        let left = service.len();
        assert_eq!(service.stop().len() as u64, left);
        assert_eq!(
            receiver.try_iter().flatten().count() as u64 + received,
            service.stats().timers.fired
        );
    }
}

#[test]
fn without_receivers_payloads_are_dropped() {
    let clock = ManualClock::new();
    let (builder, receiver) = TimerService::builder()
        .clock(clock.clone())
        .on_expire_channel::<Payload>(Some(2));
    let service = builder.start().unwrap();
    let drops = Arc::new(AtomicU64::new(0));
    let arm = |panics| {
        (0..1_000).for_each(|_| {
            _ = service
                .schedule(
                    MS,
                    Payload {
                        dropped: drops.clone(),
                        panics,
                    },
                )
                .unwrap()
        })
    };
    arm(false);
    clock.advance(MS);
    assert_eq!(
        (service.stats().timers.fired, dropped(&service.stats())),
        (128, 0)
    );
    drop(receiver);
    assert_eq!(drops.load(Ordering::Relaxed), 128, "by the receiver");
    clock.advance(Duration::ZERO);
    arm(true);
    clock.advance(MS);
    let stats = service.stats();
    assert_eq!(
        (
            stats.timers.fired,
            dropped(&stats),
            drops.load(Ordering::Relaxed),
            stats.panics
        ),
        (2_000, 1_872, 2_000, 1_000)
    );
    assert!(service.stop().is_empty());
}

#[test]
fn shards_that_share_a_full_channel_lose_nothing() {
    const TIMERS: u32 = 40_000;
    let (builder, receiver) = TimerService::builder()
        .shards(4)
        .pinning(wheelwork::Pinning::Off)
        .on_expire_channel(Some(1));
    let service = builder.start().unwrap();
    thread::scope(|scope| {
        for part in 0..4 {
            let handle = service.handle();
            scope.spawn(move || {
                (part..TIMERS)
                    .step_by(4)
                    .for_each(|timer| _ = handle.schedule(MS * (timer % 7), timer).unwrap())
            });
        }
    });
    let mut payloads = Vec::new();
    while payloads.len() < TIMERS as usize {
        payloads.extend(receiver.recv_timeout(HANGS).unwrap());
        if payloads.len() % 1_000 < 64 {
            thread::sleep(MS);
        }
    }
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..TIMERS));
    assert!(service.stop().is_empty());
    let stats = service.stats();
    drop(service);
    assert!(receiver.recv().is_err(), "disconnected");
    assert_eq!(
        (stats.timers.fired, dropped(&stats)),
        (u64::from(TIMERS), 0)
    );
}

#[test]
fn a_stop_that_fires_all_sends_to_the_channel() {
    let (service, receiver, _clock) = to_channel(Some(1));
    (0..1_000).for_each(|timer| _ = service.schedule(HOUR, timer).unwrap());
    assert!(service.stop_with(StopPolicy::FireAll).is_empty());
    let mut payloads: Vec<_> = receiver.try_iter().flatten().collect();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..1_000));
    assert_eq!((service.stats().timers.fired, service.len()), (1_000, 0));
}

/// Periodic timers, which are no payloads: on a channel they run on the shard, and a run that an
/// executor drops ends its timer.
#[test]
fn periodic_timers_have_an_outcome_too() {
    let (service, receiver, clock) = to_channel(Some(1));
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let id = service
        .every(MS)
        .start(move || _ = count.fetch_add(1, Ordering::Relaxed))
        .unwrap();
    clock.advance(MS * 10);
    assert_eq!(
        (runs.load(Ordering::Relaxed), receiver.len(), service.len()),
        (10, 0, 1)
    );
    assert!(service.cancel(id));
    assert_eq!((service.len(), service.stats().timers.runs), (0, 10));

    let fixture = Fixture::new(drop);
    fixture
        .service
        .every(MS)
        .start(|| unreachable!("the job is dropped"))
        .unwrap();
    assert_eq!(fixture.service.len(), 1);
    fixture.clock.advance(MS * 3);
    assert_eq!(
        (fixture.service.len(), fixture.service.stats().timers.ended),
        (0, 1)
    );
}

/// A burst of runs costs as many jobs as its batches do, not one each.
#[test]
fn runs_that_are_due_together_share_jobs() {
    let (jobs, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let executed = jobs.clone();
    let fixture = Fixture::new(move |job| {
        executed.fetch_add(1, Ordering::Relaxed);
        job();
    });
    const TIMERS: usize = 4_096;
    for _ in 0..TIMERS {
        let count = count.clone();
        let run = move || _ = count.fetch_add(1, Ordering::Relaxed);
        fixture.service.every(MS).start(run).unwrap();
    }
    fixture.clock.advance(MS);
    assert_eq!(count.load(Ordering::Relaxed), TIMERS);
    // A job for each batch, and an offer for each grain of up to 64.
    let jobs = jobs.load(Ordering::Relaxed);
    assert!(jobs <= TIMERS / 32, "{jobs} jobs");
}

/// A pool that joins its threads when it is dropped, and notes that it has.
struct Joining {
    jobs: Option<mpsc::Sender<Job>>,
    threads: Vec<thread::JoinHandle<()>>,
    joined: mpsc::Sender<bool>,
}

impl Joining {
    /// A pool, and where it tells of its end: whether another thread than its own dropped it.
    fn new(threads: usize) -> (Self, mpsc::Receiver<bool>) {
        let ((jobs, run), (joined, end)) = (mpsc::channel::<Job>(), mpsc::channel());
        let run = Arc::new(Mutex::new(run));
        let work = move || {
            let next = || run.lock().unwrap().recv();
            while let Ok(job) = next() {
                job();
            }
        };
        let threads = (0..threads).map(|_| thread::spawn(work.clone())).collect();
        let jobs = Some(jobs);
        let pool = Self {
            jobs,
            threads,
            joined,
        };
        (pool, end)
    }

    fn run(&self, job: Job) {
        self.jobs.as_ref().unwrap().send(job).unwrap();
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        self.jobs = None;
        let own = thread::current().id();
        let is_own = self.threads.iter().any(|one| one.thread().id() == own);
        if !is_own {
            let joins = self.threads.drain(..);
            joins.for_each(|one| one.join().unwrap());
        }
        let _ = self.joined.send(!is_own);
    }
}

/// The last to have it is the job of a task that drops its own service.
#[test]
fn an_executor_that_owns_its_pool_is_not_dropped_by_the_pools_threads() {
    for threads in [1, 3] {
        let (pool, end) = Joining::new(threads);
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(Dispatch::executor(move |job| pool.run(job)))
            .start()
            .unwrap();
        let service = Arc::new(service);
        let ((given, own), (dropped, gone)) = (mpsc::channel(), mpsc::channel());
        let task = move || {
            let own: Arc<TimerService> = own.recv_timeout(HANGS).unwrap();
            drop(Arc::into_inner(own).expect("the test has given it away"));
            dropped.send(()).unwrap();
        };
        service.schedule(MS, task).unwrap();
        clock.advance(MS);
        given.send(service).unwrap();
        gone.recv_timeout(HANGS).unwrap();
        assert_eq!(end.recv_timeout(HANGS), Ok(true), "another thread has it");
    }
}
