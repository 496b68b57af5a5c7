//! Loom: the internals for the models in `loom-tests/`, and the parts of
//! [`internals`](crate::internals). Built only under `--cfg loom`.
//!
//! Ground rule: a function here calls one function of the room that it opens. No step of a protocol
//! is written here.

mod calls;
mod dispatch;
mod one_cell;
mod pins;

use crate::dispatch::Dispatcher;
use crate::dispatch::buffers::Buffers;
use crate::dispatch::inline::Inline;
use crate::dispatch::job::{Job, Spawn};
use crate::dispatch::pool_dispatcher::{Executor, PoolDispatcher};
use crate::doorbell::SecondLook;
use crate::engine::life::arm::Moved;
use crate::engine::local::thread_local;
use crate::engine::manual::ManualShards;
use crate::engine::{cells, local, shared};
use crate::entry;
#[cfg(feature = "async")]
use crate::future::wait::{self, Wait};
use crate::shard::Count;
#[cfg(feature = "async")]
use crate::sync::{AtomicU64, Ordering};
use crate::time::Driven;
use crate::{
    ManualClock, ScheduleError, ServiceHandle, TimerId, TimerService, cell, lane, sync, time,
};
#[cfg(feature = "async")]
use std::cell::RefCell;
use std::num::NonZeroU32;
use std::sync::Arc;
#[cfg(feature = "async")]
use std::task::{Poll, Waker};
use std::time::Duration;

pub use self::calls::DueRun;
pub use self::dispatch::{Announcements, Grain, Grains, InFlight, Post, Term};
pub use self::one_cell::{
    Cell, Claimed, Due, LEFT_AFTER_RUN_NS, Paused, ROUNDED_NS, Ran, Rearmed, Repeat, Resumed, Run,
};
pub use self::pins::{Limbo, Pinner, Pins};
pub use crate::internals::{Arena, Doorbell, Drain, Entry, FOREVER, Inbox, Magazines, Sender};
pub use crate::sync::{
    Fault, forbid_membarrier, interrupt, set_fault, set_kernel, set_pins, switch_out,
};

/// A service without its threads.
pub struct Cells<T>(cells::Cells<T>);

/// What a shard's thread has of a service: its lanes and its doorbell.
pub struct Shard {
    lanes: lane::Drain<entry::Entry>,
    shared: Arc<shared::Shared>,
}

/// What a thread has of a service.
pub struct Local(local::Local);

impl<T: Send + 'static> Cells<T> {
    /// A service with one shard.
    pub fn new() -> (Self, Shard) {
        let (shared, mut drains) = shared::Shared::new(NonZeroU32::MIN, 1, usize::MAX, false);
        let (clock, tick) = (time::Clock::monotonic(), time::TickLength::new(1_000_000));
        let cells = cells::Cells::new(shared, clock, tick);
        let shard = Shard {
            lanes: drains.remove(0),
            shared: cells.shared.clone(),
        };
        (Self(cells), shard)
    }

    /// A local for the calling thread.
    pub fn local(&self) -> Local {
        Local(local::Local::attach(&self.0.shared))
    }

    /// Arms a timer (ScheduleCheck to ScheduleRecheck).
    ///
    /// # Errors
    /// As in the room.
    pub fn admit(
        &self,
        local: &mut Local,
        deadline: u64,
        payload: T,
    ) -> Result<TimerId, ScheduleError<T>> {
        let (due_at, content) = (cell::DueAt::new(deadline, 0), cell::Payload(payload));
        self.0.admit(
            &mut local.0,
            due_at,
            content,
            crate::engine::life::arm::Dating::Exact,
        )
    }

    /// Takes a timer away before it fires.
    pub fn take(&self, local: &mut Local, id: TimerId) -> Option<T> {
        self.0.take(&mut local.0, id)
    }

    /// Moves a timer.
    pub fn rearm(&self, local: &mut Local, id: TimerId, deadline: u64) -> bool {
        self.0.rearm(&mut local.0, id, deadline) == Moved::Yes
    }

    /// Claims what the entry names.
    pub fn claim_due(&self, local: &mut Local, entry: Entry) -> Option<T> {
        let mut claimed = None;
        self.0.claim_due(
            &mut local.0,
            &[entry.0],
            |_, _, payload| claimed = Some(payload),
            |_| unreachable!("no timer is periodic"),
        );
        claimed
    }

    /// A step of upkeep of the arena.
    pub fn maintain(&self, now_ns: u64) {
        self.0.maintain(now_ns);
    }

    /// StopMark, StopFence.
    pub fn stop(&self) -> bool {
        self.0.shared.stop(false)
    }

    /// StopClaim.
    pub fn claim_all(&self, local: &mut Local, mut f: impl FnMut(u64, T)) {
        self.0.hand_back_all(&mut local.0, |deadline, content| {
            f(deadline, <cell::Payload<T> as cell::Fill<T>>::of(content))
        });
    }
}

impl Shard {
    /// Names the calling thread as the shard's.
    ///
    /// # Safety
    /// As in the doorbell's room: once, before the first `wait`.
    pub unsafe fn attach(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.shared.bell(0).attach() };
    }

    /// Gives `f` each message that is published. Returns how many.
    pub fn drain(&mut self, mut f: impl FnMut(Entry)) -> u64 {
        self.lanes
            .drain(&mut super::Taken {
                now: 0,
                take: |message, _| f(Entry(message)),
            })
            .messages
    }

    /// Sleeps until rung, as a worker does: unless there are messages, or the service has stopped.
    ///
    /// # Safety
    /// Only the thread that attached.
    pub unsafe fn wait(&self, wake_at: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            self.shared.bell(0).wait(wake_at, || {
                SecondLook::work_or_park(self.lanes.has_messages() || self.shared.is_stopped())
            })
        };
    }
}

/// A clock of ticks, which a model moves.
#[cfg(feature = "async")]
#[derive(Clone)]
pub struct Clock(Arc<AtomicU64>);

/// A sleep without a service: its wait alone.
#[cfg(feature = "async")]
pub struct Sleep {
    wait: Wait,
    deadline: u64,
    clock: Clock,
}

/// A service as the sleep of one thread sees it.
#[cfg(feature = "async")]
struct Alarm<'a> {
    cells: &'a Cells<Waker>,
    local: RefCell<&'a mut Local>,
    deadline: u64,
    clock: &'a Clock,
}

#[cfg(feature = "async")]
impl wait::Alarm for Alarm<'_> {
    fn is_over(&self) -> bool {
        // Ordering: Relaxed. A clock publishes nothing.
        self.clock.0.load(Ordering::Relaxed) >= self.deadline
    }

    fn arm(&self, waker: Waker) -> Result<TimerId, Waker> {
        self.cells
            .admit(&mut self.local.borrow_mut(), self.deadline, waker)
            .map_err(ScheduleError::into_payload)
    }

    fn is_pending(&self, id: TimerId) -> bool {
        self.cells.0.is_pending(&mut self.local.borrow_mut().0, id)
    }

    fn rearm(&self, id: TimerId) -> bool {
        self.cells
            .rearm(&mut self.local.borrow_mut(), id, self.deadline)
    }

    fn take(&self, id: TimerId) -> Option<Waker> {
        self.cells.take(&mut self.local.borrow_mut(), id)
    }
}

#[cfg(feature = "async")]
impl Clock {
    /// One at tick 0.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    /// Moves it.
    pub fn set(&self, tick: u64) {
        // Ordering: Relaxed. A clock publishes nothing.
        self.0.store(tick, Ordering::Relaxed);
    }
}

#[cfg(feature = "async")]
impl Sleep {
    /// One that waits until a tick.
    #[must_use]
    pub fn new(deadline: u64, clock: Clock) -> Self {
        Self {
            wait: Wait::Idle,
            deadline,
            clock,
        }
    }

    /// Polls it.
    pub fn poll(&mut self, cells: &Cells<Waker>, local: &mut Local, waker: &Waker) -> Poll<()> {
        let Self {
            wait,
            deadline,
            clock,
        } = self;
        wait.poll(
            &Alarm {
                cells,
                local: RefCell::new(local),
                deadline: *deadline,
                clock,
            },
            waker,
        )
    }

    /// Moves it to another tick.
    pub fn move_to(&mut self, cells: &Cells<Waker>, local: &mut Local, deadline: u64) {
        self.deadline = deadline;
        let Self {
            wait,
            deadline,
            clock,
        } = self;
        wait.follow(
            &Alarm {
                cells,
                local: RefCell::new(local),
                deadline: *deadline,
                clock,
            },
            true,
        );
    }

    /// Drops the sleep. Returns whether its timer was pending.
    pub fn cancel(self, cells: &Cells<Waker>, local: &mut Local) -> bool {
        matches!(self.wait, Wait::Armed(id, _) if cells.take(local, id).is_some())
    }
}

/// The frequent side of the pair of fences.
pub fn light_fence() {
    sync::light_fence();
}

/// The rare side of the pair of fences.
pub fn heavy_fence() {
    sync::heavy_fence();
}

/// Moves time for all who read this clock. Nobody takes a turn.
pub fn pass_time(clock: &ManualClock, by: Duration) {
    clock.pass(time::nanos(by));
}

/// A local of a service, for the calling thread.
pub fn local_of<T: Send + 'static>(handle: &ServiceHandle<T>) -> Local {
    Local(local::Local::attach(&handle.engine.cells.shared))
}

/// Arms a timer with this local, as `schedule` does. Its reading of the clock may be shared
/// (ShareCheck to ShareVouch).
///
/// # Errors
/// As `schedule`.
pub fn schedule_by<T: Send + 'static>(
    handle: &ServiceHandle<T>,
    local: &mut Local,
    delay: Duration,
    payload: T,
) -> Result<TimerId, ScheduleError<T>> {
    let arm = || {
        handle
            .engine
            .arm(payload, crate::engine::life::arm::HOME, |now| {
                now + time::nanos(delay)
            })
    };
    thread_local::lend(&mut local.0, arm)
}

/// A step of upkeep of the arena, as a shard's thread does it.
pub fn look_after<T: Send + 'static>(handle: &ServiceHandle<T>, now_ns: u64) {
    handle.engine.cells.maintain(now_ns);
}

/// Takes a timer's payload with this local, as `take` does.
pub fn take_by<T: Send + 'static>(
    handle: &ServiceHandle<T>,
    local: &mut Local,
    id: TimerId,
) -> Option<T> {
    thread_local::lend(&mut local.0, || handle.take(id))
}

/// Moves a timer to now + `delay` with this local, as `reschedule` does.
pub fn move_by<T: Send + 'static>(
    handle: &ServiceHandle<T>,
    local: &mut Local,
    id: TimerId,
    delay: Duration,
) -> bool {
    thread_local::lend(&mut local.0, || handle.reschedule(id, delay))
}

/// The shards of a service on a manual clock. Models move that clock by [`pass_time`].
fn manual<T: Send + 'static>(service: &TimerService<T>) -> &ManualShards<T> {
    service
        .started
        .manual
        .as_deref()
        .expect("it is on a manual clock")
}

/// Arms a timer for a time of day that does not come: each look calls `looks`, and says that it is
/// a day away. The first look is at the next tick.
///
/// # Errors
/// As `schedule_at_system_time`.
pub fn arm_look<T: Send + 'static>(
    handle: &ServiceHandle<T>,
    mut looks: impl FnMut() + Send + 'static,
    run: impl FnMut() + Send + 'static,
) -> Result<TimerId, ScheduleError<()>> {
    let look = move |_, _| {
        looks();
        Some(Duration::from_secs(24 * 3600))
    };
    handle.by_wall_clock(handle.wall_clock(), Duration::ZERO, Box::new(look), 1, run)
}

/// One turn of each shard of a service on a manual clock.
pub fn take_turn<T: Send + 'static>(service: &TimerService<T>) -> bool {
    let pass = manual(service).turn();
    pass.dispatched > 0 || pass.is_more
}

/// How many messages the first shard has drained.
pub fn drained<T: Send + 'static>(service: &TimerService<T>) -> u64 {
    service.engine.counters[0].get(Count::Drained)
}

/// Names the calling thread as that of a service's first shard.
///
/// # Safety
/// As in the doorbell's room: once, before the first `sleep_until`.
pub unsafe fn attach_to<T: Send + 'static>(handle: &ServiceHandle<T>) {
    // SAFETY: the caller's promise.
    unsafe { handle.engine.cells.shared.bell(0).attach() };
}

/// Sleeps until rung, as a shard does that has nothing to do before this tick: unless there are
/// messages.
///
/// # Safety
/// Only the thread that attached.
pub unsafe fn sleep_until<T: Send + 'static>(service: &TimerService<T>, wake_at: u64) {
    let shards = manual(service).shards.lock().unwrap();
    // SAFETY: the caller's promise.
    unsafe {
        service.engine.cells.shared.bell(0).wait(wake_at, || {
            SecondLook::work_or_park(shards[0].has_messages())
        })
    };
}

/// The same for a shard that takes messages in before it sleeps (SleepLook): unless there is
/// something to do before this tick.
///
/// # Safety
/// As above.
pub unsafe fn nap_until<T: Send + 'static>(service: &TimerService<T>, wake_at: u64) {
    let mut shards = manual(service).shards.lock().unwrap();
    let shard = &mut shards[0];
    // SAFETY: the caller's promise.
    unsafe {
        service.engine.cells.shared.bell(0).wait(wake_at, || {
            shard.drain(|| service.engine.clock.now_ns());
            SecondLook::work_or_park(shard.next_event().is_some_and(|event| event < wake_at))
        })
    };
}

/// The next tick at which the first shard has something to do, as far as it knows.
pub fn next_event<T: Send + 'static>(service: &TimerService<T>) -> Option<u64> {
    manual(service).shards.lock().unwrap()[0].next_event()
}

/// Prepares the first shard for a long sleep, as its thread does.
pub fn settle<T: Send + 'static>(service: &TimerService<T>) {
    while manual(service).shards.lock().unwrap()[0].settle() {}
}

/// How many lanes the first shard has.
pub fn lanes_of<T: Send + 'static>(handle: &ServiceHandle<T>) -> usize {
    handle.engine.cells.shared.inbox(0).lane_count()
}

/// Fires an entry as inline dispatch does (FireBegin to FireEnd).
pub fn run_job<T: Send + 'static>(handle: &ServiceHandle<T>, entry: Entry) {
    Inline::new(handle.engine.host(0)).submit(&mut vec![entry.0]);
}

/// Tells a service that the time of day was set (SetTell).
pub fn tell_wall<T: Send + 'static>(handle: &ServiceHandle<T>) {
    handle.engine.wall_was_set();
}

/// Submits an entry to a pool that drops the job.
pub fn drop_job<T: Send + 'static>(handle: &ServiceHandle<T>, entry: Entry) {
    let pool = Executor::new(drop);
    PoolDispatcher::new(handle.engine.host(0), pool, Arc::default(), 1).submit(&mut vec![entry.0]);
}

/// A job that a worker of its pool and a thread that relieves the pool may both begin. Each call of
/// the first function begins it, or joins it, and returns whether the caller was its first worker.
/// Offers to others get lost. The second one is LeftLook.
#[allow(clippy::type_complexity)]
pub fn relieved_job<T: Send + 'static>(
    handle: &ServiceHandle<T>,
    entries: &[Entry],
) -> (
    impl Fn() -> bool + Clone + Send + use<T>,
    impl Fn() -> usize + Send + use<T>,
) {
    #[derive(Clone)]
    struct Nowhere;
    impl Spawn for Nowhere {
        fn spawn(&self, _: impl FnOnce() + Send + 'static) {}
    }
    let entries = entries.iter().map(|entry| entry.0).collect();
    let job = Job::new(
        handle.engine.host(0),
        Buffers::new(entries),
        Arc::new(crossbeam_queue::ArrayQueue::new(1)),
    );
    let looked_at = job.clone();
    let begin = move || {
        let is_first = job.begin();
        if is_first {
            job.work(&Nowhere);
        } else {
            job.step_in(&Nowhere);
        }
        is_first
    };
    (begin, move || looked_at.left())
}

/// Fires entries as a job in a pool does. `spawn` gets its offers to other workers.
pub fn share_job<T, S>(handle: &ServiceHandle<T>, entries: &[Entry], spawn: S)
where
    T: Send + 'static,
    S: Fn(Box<dyn FnOnce() + Send>) + Clone + Send + 'static,
{
    #[derive(Clone)]
    struct By<S>(S);
    impl<S: Fn(Box<dyn FnOnce() + Send>) + Clone + Send + 'static> Spawn for By<S> {
        fn spawn(&self, work: impl FnOnce() + Send + 'static) {
            self.0(Box::new(work));
        }
    }
    let entries = entries.iter().map(|entry| entry.0).collect();
    Job::new(
        handle.engine.host(0),
        Buffers::new(entries),
        Arc::new(crossbeam_queue::ArrayQueue::new(1)),
    )
    .work(&By(spawn));
}
