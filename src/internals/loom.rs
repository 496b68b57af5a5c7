//! Loom: the internals for the models in `loom-tests/`, and the parts of
//! [`internals`](crate::internals). Built only under `--cfg loom`.
//!
//! Ground rule: a function here calls one function of the room that it opens. No step of a protocol
//! is written here.

use crate::dispatch::attendant::{self, Called, Slept};
use crate::dispatch::grain;
use crate::dispatch::inline::Inline;
use crate::dispatch::job::{Buffers, Job, Spawn};
use crate::dispatch::pool_dispatcher::{Executor, PoolDispatcher};
use crate::dispatch::{Dispatcher, Half};
use crate::doorbell::SecondLook;
use crate::engine::manual::ManualShards;
use crate::engine::{cells, in_flight, local, shared, thread_local};
use crate::entry;
#[cfg(feature = "async")]
use crate::future::wait::{self, Wait};
use crate::repeat::RunClosure;
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

pub use crate::internals::{Arena, Doorbell, Drain, Entry, FOREVER, Inbox, Magazines, Sender};
pub use crate::sync::{
    Fault, forbid_membarrier, interrupt, set_fault, set_kernel, set_pins, switch_out,
};

/// The threads that may pin.
pub struct Pins(cell::Pins);

/// With it a thread pins itself.
pub struct Pinner(cell::Pinner);

/// Pages that are unlinked.
pub struct Limbo<P>(cell::Limbo<P>);

impl Pins {
    /// No threads. They count: see [`set_pins`].
    #[expect(clippy::new_without_default, reason = "a model's")]
    pub fn new() -> Self {
        Self(cell::Pins::new())
    }

    /// PinRegister.
    pub fn register(&self) -> Pinner {
        Pinner(self.0.register())
    }

    /// No pages.
    pub fn limbo<P>(&self) -> Limbo<P> {
        Limbo(cell::Limbo::new(self.0.clone()))
    }
}

impl Pinner {
    /// PinStore, PinFence; at the end Unpin.
    pub fn pinned<R>(&self, f: impl FnOnce() -> R) -> R {
        let _pinned = self.0.pin();
        f()
    }
}

impl<P> Limbo<P> {
    /// Takes a page that was unlinked.
    pub fn add(&mut self, page: P) {
        self.0.add(page);
    }

    /// RetireFence, RetireLook.
    pub fn look(&mut self) {
        self.0.look();
    }

    /// A page that no thread looks at any more.
    pub fn take(&mut self) -> Option<P> {
        self.0.take()
    }
}

/// One cell by itself.
pub struct Cell<T> {
    cell: cell::Cell<T>,
    side: cell::Side,
}

/// What a worker finds for a due entry.
#[derive(Debug)]
pub enum Due<T> {
    /// No timer.
    Dead,
    /// A timer that fires.
    Fires(T),
    /// A periodic timer, which is to run now.
    Runs(Run),
    /// A timer that was moved: this is its entry now.
    Later(Entry),
}

/// A run of a periodic timer that may begin.
#[derive(Debug)]
pub struct Run {
    generation: u64,
    due_at: cell::DueAt,
}

/// What became of a run.
#[derive(Debug)]
pub enum Ran {
    /// It has run, and has this entry now.
    Again(Entry),
    /// It has run, and was cancelled meanwhile: the caller holds the cell.
    Ended(Repeat),
    /// It was cancelled before it began.
    Cancelled,
}

/// A periodic timer that was cancelled, or whose run has ended.
#[derive(Debug)]
pub struct Repeat(#[expect(dead_code, reason = "to be dropped")] Box<crate::repeat::Repeat>);

/// What a re-arm did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearmed {
    /// There is no such timer.
    Gone,
    /// It is moved. The shard need not know.
    Done,
    /// It is moved, and this is its entry now.
    Refiled(Entry),
    /// It was cancelled meanwhile. Whether the caller holds the cell, to free it.
    Cancelled(bool),
}

/// What a cancel did.
#[derive(Debug)]
pub struct Claimed<T> {
    /// The payload; `None` for a periodic timer.
    pub payload: Option<T>,
    /// Whether a run has the content now.
    pub runs: bool,
    /// The entry that is dead now, if the caller has to send its tombstone.
    pub entry: Option<Entry>,
    /// Whether the caller holds the cell now.
    pub mine: bool,
}

impl<T> Cell<T> {
    /// A vacant cell of this generation.
    #[must_use]
    pub fn starting_at(generation: u64) -> Self {
        let cell: cell::Cell<T> = crate::mem::Zeroable::zeroed();
        cell.start_at(generation);
        Self {
            cell,
            side: crate::mem::Zeroable::zeroed(),
        }
    }

    /// The cell as the room sees it.
    fn cell_ref(&self) -> cell::CellRef<'_, T> {
        cell::CellRef::alone(&self.cell, &self.side)
    }

    /// Stores a payload and makes it claimable. Returns its birth.
    ///
    /// # Safety
    /// As in the room: the caller holds the cell.
    pub unsafe fn arm(&self, deadline: u64, payload: T) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            self.cell_ref()
                .arm(cell::DueAt::new(deadline, 0), cell::Payload(payload))
        }
    }

    /// Arms a periodic timer. Returns its birth.
    ///
    /// # Safety
    /// As in the room: the caller holds the cell.
    pub unsafe fn arm_repeat(&self, deadline: u64, run: impl FnMut() + Send + 'static) -> u64 {
        let repeat =
            crate::repeat::Repeat::every_after(1, 0, u64::MAX, RunClosure::Plain(Box::new(run)));
        // SAFETY: the caller's promise.
        unsafe {
            self.cell_ref()
                .arm(cell::DueAt::new(deadline, 0), Box::new(repeat))
        }
    }

    /// A worker's claim.
    pub fn claim_due(&self, entry: Entry) -> Due<T> {
        if let Some((payload, _)) = self.cell_ref().claim_due_plain(entry.0) {
            return Due::Fires(payload);
        }
        match self.cell_ref().claim_due(entry.0) {
            cell::DueClaim::Dead => Due::Dead,
            cell::DueClaim::Payload(payload, _) => Due::Fires(payload),
            cell::DueClaim::Run(due_at) => Due::Runs(Run {
                generation: entry.0.generation(),
                due_at,
            }),
            cell::DueClaim::Later(filed) => Due::Later(Entry(filed.entry)),
        }
    }

    /// Runs a periodic timer, unless it was cancelled, and files it for another deadline.
    pub fn run(&self, run: Run, deadline: u64) -> Ran {
        let Some(mut repeat) = self.cell_ref().begin(run.generation) else {
            return Ran::Cancelled;
        };
        _ = repeat.run(0, 0, 0);
        let due_at = cell::DueAt::new(deadline, run.due_at.shard());
        // SAFETY: it has begun, above.
        match unsafe { self.cell_ref().file_again(repeat, due_at) } {
            Ok(filed) => Ran::Again(Entry(filed.entry)),
            Err((repeat, _)) => Ran::Ended(Repeat(repeat)),
        }
    }

    /// Moves the timer.
    pub fn rearm(&self, birth: u64, deadline: u64) -> Rearmed {
        match self.cell_ref().rearm(birth, deadline) {
            cell::Rearmed::Gone => Rearmed::Gone,
            cell::Rearmed::Done { .. } => Rearmed::Done,
            cell::Rearmed::Refiled { new, .. } => Rearmed::Refiled(Entry(new.entry)),
            cell::Rearmed::Cancelled { index, .. } => Rearmed::Cancelled(index.is_some()),
        }
    }

    /// The claim of `stop`.
    pub fn claim_any(&self) -> Option<Claimed<T>> {
        self.cell_ref().claim_any().map(claimed)
    }

    /// The claim of an id's holder.
    pub fn claim_id(&self, birth: u64) -> Option<Claimed<T>> {
        self.cell_ref().claim_id(birth).map(claimed)
    }

    /// Whether the timer is pending.
    pub fn is_pending(&self, birth: u64) -> bool {
        self.cell_ref().is_pending(birth)
    }
}

fn claimed<T>(claimed: cell::Claimed<T>) -> Claimed<T> {
    let runs = claimed.content.is_none();
    let payload = match claimed.content {
        Some(cell::Content::Payload(payload)) => Some(payload),
        _ => None,
    };
    Claimed {
        payload,
        runs,
        entry: claimed.filed.map(|filed| Entry(filed.entry)),
        mine: claimed.index.is_some(),
    }
}

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
        let (shared, mut drains) = shared::Shared::new(NonZeroU32::MIN, 1, usize::MAX);
        let cells = cells::Cells::new(shared);
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
    pub fn schedule(
        &self,
        local: &mut Local,
        deadline: u64,
        payload: T,
    ) -> Result<TimerId, ScheduleError<T>> {
        let (due_at, content) = (cell::DueAt::new(deadline, 0), cell::Payload(payload));
        self.0.schedule(
            &mut local.0,
            due_at,
            content,
            crate::engine::arm::Date::Read,
        )
    }

    /// Takes a timer away before it fires.
    pub fn take(&self, local: &mut Local, id: TimerId) -> Option<T> {
        self.0.take(&mut local.0, id)
    }

    /// Moves a timer.
    pub fn rearm(&self, local: &mut Local, id: TimerId, deadline: u64) -> bool {
        self.0.rearm(&mut local.0, id, deadline)
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
            .drain(|| (), |message, _| f(Entry(message)))
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
            .schedule(&mut self.local.borrow_mut(), self.deadline, waker)
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
            .arm(payload, None, |now_ns| now_ns + time::nanos(delay))
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

/// One turn of each shard of a service on a manual clock.
pub fn take_turn<T: Send + 'static>(service: &TimerService<T>) -> bool {
    manual(service).turn()
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

/// Fires an entry as inline dispatch does (FireBegin to FireEnd).
pub fn run_job<T: Send + 'static>(handle: &ServiceHandle<T>, entry: Entry) {
    Inline::new(handle.engine.host(0)).submit(&mut vec![entry.0]);
}

/// Submits an entry to a pool that drops the job.
pub fn drop_job<T: Send + 'static>(handle: &ServiceHandle<T>, entry: Entry) {
    let pool = Executor::new(drop);
    PoolDispatcher::new(handle.engine.host(0), pool, Arc::default(), 1).submit(&mut vec![entry.0]);
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

/// Where an attendant is called.
pub struct Post(attendant::Post);

/// A thread's time as attendant.
#[derive(Clone, Copy)]
pub struct Term(attendant::Term);

impl Post {
    /// For the calling thread, whose number is 0.
    #[expect(clippy::new_without_default, reason = "made in models only")]
    pub fn new() -> Self {
        Self(attendant::Post::new([sync::current()]))
    }

    /// CallFence to CallWake. Returns whether others have to be told.
    pub fn call(&self) -> bool {
        self.0.call() == Called::Vacant
    }

    /// The calling thread becomes the attendant.
    pub fn begin(&self) -> Option<Term> {
        self.0.begin(0).map(Term)
    }

    /// KeepFence, KeepLook.
    pub fn may_leave(&self, term: Term) -> bool {
        self.0.may_leave(term.0, false)
    }

    /// WatchBegin.
    pub fn watch(&self) {
        self.0.watch();
    }

    /// WatchEnd.
    pub fn unwatch(&self) {
        self.0.unwatch();
    }

    /// Depose, of an attendant that is awake. Returns whether it was deposed.
    pub fn depose(&self) -> bool {
        self.0.awake().is_some_and(|term| self.0.depose(term))
    }

    /// AttendAnnounce to AttendPark. Returns whether the calling thread is still the attendant.
    pub fn sleep(
        &self,
        term: Term,
        half_limit: Duration,
        work_waits: impl FnOnce() -> bool,
    ) -> bool {
        self.0.sleep(term.0, half_limit, work_waits) == Slept::Called
    }
}

/// The jobs in flight.
#[derive(Debug, Default)]
pub struct InFlight(in_flight::InFlight);

impl InFlight {
    /// A job begins. Returns its half.
    pub fn begin(&self) -> usize {
        self.0.begin().0
    }

    /// A further thread begins with the job.
    pub fn begin_in(&self, half: usize) {
        self.0.begin_in(Half(half));
    }

    /// A thread has ended with the job.
    pub fn end(&self, half: usize) {
        self.0.end(Half(half));
    }

    /// StopWait.
    pub fn wait_for_all(&self) {
        self.0.wait_for_all();
    }

    /// New jobs go to the other half, as when another thread waits.
    pub fn turn_over(&self) {
        self.0.turn_over();
    }

    /// AwaitJobs.
    pub fn wait_for_present(&self) {
        self.0.wait_for_present();
    }
}

/// The grains of a job, by themselves.
pub struct Grains<P>(grain::Grains<P>);

/// One grain, as its owner or a helper sees it.
pub struct Grain<'a, P>(grain::Grain<'a, P>);

impl<P> Grains<P> {
    /// Grains for this number of entries.
    pub fn new(entries: usize) -> Self {
        Self(grain::Grains::new(entries))
    }

    /// Fills the first grain, and owns it.
    ///
    /// # Safety
    /// Once.
    pub unsafe fn fill(&self, payloads: impl Iterator<Item = P>) -> Grain<'_, P> {
        let mut grain = self.0.grain(0).expect("there are entries");
        // SAFETY: the caller's promise.
        unsafe { grain.fill(|filling| payloads.for_each(|payload| filling.add(payload))) };
        Grain(grain)
    }

    /// The first grain, to help with.
    pub fn help(&self) -> Grain<'_, P> {
        Grain(self.0.grain(0).expect("there are entries"))
    }
}

impl<P> Grain<'_, P> {
    /// The number of payloads that nobody has taken.
    pub fn left(&self) -> usize {
        self.0.left()
    }

    /// Takes a payload.
    pub fn take(&self) -> Option<P> {
        self.0.take()
    }
}

/// The writer's end of a durable ticket.
#[cfg(feature = "durable")]
pub struct Teller(crate::durable::Teller<u32>);

#[cfg(feature = "durable")]
impl Teller {
    /// TicketTell.
    pub fn tell(self, answer: u32) {
        self.0.tell(Ok(answer));
    }
}

/// A durable ticket.
#[cfg(feature = "durable")]
pub fn ticket() -> (Teller, crate::durable::Ticket<u32>) {
    let (teller, ticket) = crate::durable::ticket();
    (Teller(teller), ticket)
}

/// The leases of a node, as its handlers' threads see them.
#[cfg(feature = "durable")]
pub struct LeaseRights(crate::durable::LeaseRights);

#[cfg(feature = "durable")]
impl LeaseRights {
    /// One partition, without a lease.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(crate::durable::LeaseRights::new(1))
    }

    /// Whether a row that was loaded under this epoch may be handed out now.
    pub fn allow(&self, epoch: u64, now_ns: u64) -> bool {
        self.0.allow(0, epoch, now_ns)
    }

    /// The lease is taken, or with 0 withdrawn.
    pub fn set(&self, epoch: u64) {
        self.0.set(0, epoch);
    }

    /// Leases last until then.
    pub fn extend(&self, until_ns: u64) {
        self.0.extend(until_ns);
    }
}
