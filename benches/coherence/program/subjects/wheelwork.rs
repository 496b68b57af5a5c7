//! wheelwork with a `u64` for each timer, on a manual clock. Its handler does nothing. It runs
//! inline, or on the workers of an executor, one for each shard.

use super::{Subject, TURN};
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wheelwork::internals::{self, Shard};
use wheelwork::{Dispatch, ManualClock, TimerId, TimerService};
use wheelwork_coherence::Start;

pub(crate) struct Wheelwork {
    service: TimerService<u64>,
    clock: ManualClock,
}

/// A service with this number of shards, and what takes their turns.
fn start(shards: usize, dispatch: Dispatch) -> (&'static Wheelwork, Vec<Start>) {
    let clock = ManualClock::new();
    let builder = TimerService::builder().shards(shards).clock(clock.clone());
    let builder = internals::shared_readings(builder.dispatch(dispatch), true);
    let service = builder
        .on_expire(|batch| batch.for_each(|payload| _ = black_box(payload)))
        .start()
        .expect("the settings are right");
    let shards = internals::take_shards(&service);
    let turns = shards.into_iter().map(turns).collect();
    (Box::leak(Box::new(Wheelwork { service, clock })), turns)
}

impl Subject for Wheelwork {
    type Timer = TimerId;
    type Entered = ();

    const IS_OPEN: bool = true;
    const DROP_CANCELS: bool = false;

    fn start(_: usize, shards: usize) -> (&'static Self, Vec<Start>) {
        start(shards, Dispatch::Inline)
    }

    fn enter(&'static self) {}

    fn pass(&self) {
        self.clock.jump(TURN);
    }

    #[inline]
    fn arm(&self, delay: Duration) -> TimerId {
        self.service.schedule(delay, 0u64).expect("there is room")
    }

    #[inline]
    fn cancel(&self, timer: TimerId) {
        assert!(self.service.cancel(timer));
    }

    #[inline]
    fn rearm(&self, timer: &mut TimerId, delay: Duration) {
        assert!(self.service.reschedule(*timer, delay));
    }
}

/// A shard lies where its thread has its memory.
fn turns(shard: Shard<u64>) -> Start {
    Box::new(move || {
        let mut shard = shard;
        Box::new(move |_| while shard.turn() {})
    })
}

/// The same with an executor. The workers take their steps after the shards.
pub(crate) struct Executed(&'static Wheelwork);

type Job = Box<dyn FnOnce() + Send>;

static JOBS: Mutex<Vec<Job>> = Mutex::new(Vec::new());

fn jobs() -> MutexGuard<'static, Vec<Job>> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subject for Executed {
    type Timer = TimerId;
    type Entered = ();

    const IS_OPEN: bool = true;
    const DROP_CANCELS: bool = false;

    fn start(_: usize, shards: usize) -> (&'static Self, Vec<Start>) {
        let (service, mut turns) = start(shards, Dispatch::executor(|job| jobs().push(job)));
        turns.extend((1..=shards).rev().map(work));
        (Box::leak(Box::new(Self(service))), turns)
    }

    fn enter(&'static self) {}

    fn pass(&self) {
        self.0.pass();
    }

    #[inline]
    fn arm(&self, delay: Duration) -> TimerId {
        self.0.arm(delay)
    }

    #[inline]
    fn cancel(&self, timer: TimerId) {
        self.0.cancel(timer);
    }

    #[inline]
    fn rearm(&self, timer: &mut TimerId, delay: Duration) {
        self.0.rearm(timer, delay);
    }
}

/// A worker. It and the workers that come after it are `workers`: it leaves the others their share.
fn work(workers: usize) -> Start {
    Box::new(move || {
        Box::new(move |_| {
            let mut share = jobs().len().div_ceil(workers);
            while share > 0
                && let Some(job) = { jobs().pop() }
            {
                job();
                share -= 1;
            }
        })
    })
}
