//! Shared: what callers, handlers and the writer have in common.

use super::claims::Claims;
use super::fired::Fired;
use super::futures::RunningFutures;
use super::lanes::QueueSenders;
use super::outage::{Health, StoreStanding};
use super::pauses::Pauses;
use super::request::{Request, Told};
use super::rights::LeaseRights;
use super::stats::WriterCounts;
use super::throttle::Throttle;
use super::ticket::{Teller, Ticket, ticket};
use crate::handler::delivery::Delivery;
use crate::handler::error::{DurableError, KEY_BYTES_MAX, KIND_BYTES_MAX};
use crate::handler::kinds::{Kinds, SpawnedFuture};
use crate::handler::limit::LimitClock;
use crate::store::contract::{Store, StoreClock, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DeadLetter, Partition, StoreTime};
use crate::store::when::{PayloadBytes, When};
use crate::store::write::TrialBegun;
use crate::sync::{AtomicUsize, Ordering, Process, ThreadId};
use crate::time::{Clock, system_time};
use crossbeam_channel::Sender;
use std::any::Any;
use std::cell::Cell;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::{ManualClock, ServiceHandle, TimerId};

thread_local! {
    /// The `DurableShared` whose writer's turns this thread takes, by its address. 0: none.
    static TAKES_TURNS_OF: Cell<usize> = const { Cell::new(0) };
}

/// Takes the writer's turns, where it has no thread.
pub(crate) trait Turns: Send {
    /// Takes turns until nothing is left to do. Returns whether the writer goes on.
    fn take_turns(&mut self) -> bool;
}

/// A hook that is told of a delivery that failed, and why.
pub(super) type FailedHook = Box<dyn Fn(&Delivery, &str) + Send + Sync>;

/// A hook that is told of a dead letter.
pub(super) type DeadHook = Arc<dyn Fn(&DeadLetter) + Send + Sync>;

/// A hook that is told why the store has failed.
pub(super) type StoreFailedHook = Box<dyn Fn(&StoreError) + Send + Sync>;

/// A hook that is told how long the store was away.
pub(super) type StoreBackHook = Arc<dyn Fn(Duration) + Send + Sync>;

/// A hook that is told how long a turn of the writer has lasted so far.
pub(super) type StoreStalledHook = Box<dyn Fn(Duration) + Send + Sync>;

/// A hook that is told of a kind whose timers wait for a handler, and of how many they are.
pub(super) type UnhandledHook = Arc<dyn Fn(&str, u64) + Send + Sync>;

/// What the builder has set about timers without a handler.
pub(crate) struct Unhandled {
    pub(crate) hook: Option<UnhandledHook>,
    /// They become dead letters when they have waited for so long.
    pub(crate) bury_after: Duration,
}

impl Default for Unhandled {
    fn default() -> Self {
        Self {
            hook: None,
            bury_after: Duration::from_secs(7 * 86_400),
        }
    }
}

/// What the builder has set about a store that fails.
#[derive(Clone, Copy)]
pub(crate) struct Healing {
    /// It is opened again.
    pub(crate) heals: bool,
    /// How long a call waits for it.
    pub(crate) wait_max: Duration,
}

impl Default for Healing {
    fn default() -> Self {
        Self {
            heals: true,
            wait_max: Duration::ZERO,
        }
    }
}

/// A hook that tells in which trace its thread is.
pub(super) type TraceHook = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// A hook that has its thread be in a trace, until what it returns is dropped.
pub(super) type RestoreHook = Box<dyn Fn(&str) -> Box<dyn Any> + Send + Sync>;

/// What the builder has set.
#[derive(Default)]
pub(crate) struct DurableHooks {
    pub(crate) failed: Option<FailedHook>,
    pub(crate) dead: Option<DeadHook>,
    pub(crate) store_failed: Option<StoreFailedHook>,
    pub(crate) store_back: Option<StoreBackHook>,
    pub(crate) healing: Healing,
    pub(crate) unhandled: Unhandled,
    /// With the time after which it is told.
    pub(crate) store_stalled: Option<(Duration, StoreStalledHook)>,
    pub(crate) spawner: Option<Box<dyn Fn(SpawnedFuture) + Send + Sync>>,
    pub(crate) trace_context: Option<TraceHook>,
    pub(crate) restore_trace: Option<RestoreHook>,
    /// How long records of runs that are done are kept, if they are.
    pub(crate) keep_done: Option<Duration>,
}

/// Requests that may wait, for the writer or for transactions that are in their way. If a caller
/// leaves one more, it waits for its answer.
const QUEUE_MAX: usize = 65_536;

/// Bytes of timers that may wait to be armed. A caller that leaves more waits for its answer, too.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// A value of `state`, which only rises. Deliveries may begin.
const OPEN: usize = 0;

/// A value of `state`. No delivery begins any more.
const STOPPING: usize = 1;

/// What callers, handlers and the writer have in common.
pub(crate) struct DurableShared {
    queue: QueueSenders,
    pub(crate) kinds: Kinds,
    pub(crate) hooks: DurableHooks,
    pub(crate) counts: WriterCounts,
    /// Which timers are paused.
    pub(crate) pauses: Pauses,
    pub(super) payload_max: usize,
    clock: Option<ManualClock>,
    /// The clock of a store that has one.
    store_clock: Option<Arc<dyn StoreClock>>,
    /// The leases, if other nodes may have some.
    pub(crate) rights: Option<LeaseRights>,
    /// Records are kept of runs that are done, under this name of the node.
    keeps_done: Option<Arc<str>>,
    ticking: Clock,
    /// The process in which the writer is.
    made_in: Process,
    claims: Claims,
    /// What rules let through.
    pub(crate) throttle: Arc<Throttle>,
    state: AtomicUsize,
    /// Bytes in the queue.
    queued: AtomicUsize,
    /// Calls that TurnAside has set aside, and bytes of their timers.
    aside: AtomicUsize,
    aside_bytes: AtomicUsize,
    standing: StoreStanding,
    /// The writer, on a manual clock.
    manual: Mutex<Option<Box<dyn Turns>>>,
    pub(crate) futures: RunningFutures,
    /// Sets alarms, from the start to the end of the stop. (The service has this, too.)
    alarms: Mutex<Option<ServiceHandle<Fired>>>,
}

impl DurableShared {
    pub(crate) fn new(
        queue: QueueSenders,
        kinds: Kinds,
        hooks: DurableHooks,
        payload_max: usize,
        clock: Option<ManualClock>,
        store: &mut dyn Store,
    ) -> Self {
        let is_kept = hooks.keep_done.is_some_and(|keep| !keep.is_zero());
        let keeps_done = store.done().filter(|_| is_kept).map(|done| done.node());
        let shared = store.shared();
        let store_clock = shared.as_ref().map(|store| store.clock());
        let rights = shared.map(|store| LeaseRights::new(store.partitions()));
        let is_shared = rights.is_some();
        let words = queue.words.clone();
        let freed = Box::new(move || {
            let _ = words.send(Request::Told(Told::Freed));
        });
        Self {
            queue,
            kinds,
            hooks,
            counts: WriterCounts::default(),
            pauses: Pauses::default(),
            payload_max,
            clock,
            store_clock,
            rights,
            keeps_done,
            ticking: Clock::boot().unwrap_or_else(Clock::monotonic),
            made_in: Process::current(),
            claims: Claims::new(),
            throttle: Arc::new(Throttle::new(is_shared, freed)),
            state: AtomicUsize::new(OPEN),
            queued: AtomicUsize::new(0),
            aside: AtomicUsize::new(0),
            aside_bytes: AtomicUsize::new(0),
            standing: StoreStanding::new(),
            manual: Mutex::new(None),
            futures: RunningFutures::default(),
            alarms: Mutex::new(None),
        }
    }

    /// The time by the store's clock, or a little less. The store's clock is the node's, unless the
    /// store has one of its own.
    pub(crate) fn now(&self) -> SystemTime {
        match &self.store_clock {
            Some(clock) => clock.at_least(),
            None => system_time(self.clock.as_ref()),
        }
    }

    /// The time by the store's clock, or a little more. Delays begin then.
    pub(crate) fn now_at_most(&self) -> SystemTime {
        match &self.store_clock {
            Some(clock) => clock.at_most(),
            None => self.now(),
        }
    }

    /// The time that has passed on this node, also while it was suspended.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.clock {
            Some(clock) => clock.elapsed(),
            None => Duration::from_nanos(self.ticking.now_ns()),
        }
    }

    /// Whether this node's lease of a partition allows it to hand out the partition's rows now.
    pub(crate) fn has_right(&self, partition: Partition, epoch: u64) -> bool {
        let Some(rights) = &self.rights else {
            return self.claims.allow(epoch) || is_broken(DurableFault::HealKeepsFence);
        };
        let now_ns = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        rights.allow(partition, epoch, now_ns)
    }

    /// The name of this node in the records that it keeps of runs that are done, if it keeps any.
    pub(crate) fn keeps_done(&self) -> Option<&Arc<str>> {
        self.keeps_done.as_ref()
    }

    /// Whether the clock is moved by hand, so that the writer has no thread.
    pub(crate) fn is_manual(&self) -> bool {
        self.clock.is_some()
    }

    /// The deadline of a timer, from what its caller has said.
    pub(crate) fn due(&self, when: When) -> StoreTime {
        Self::due_from(|| self.now_at_most(), when)
    }

    /// The same, where a delay counts from what `now` says.
    pub(crate) fn due_from(now: impl FnOnce() -> SystemTime, when: When) -> StoreTime {
        match when {
            When::At(time) => StoreTime::due_at(time),
            When::After(delay) => now()
                .checked_add(delay)
                .map_or(StoreTime::MAX, StoreTime::due_at),
        }
    }

    /// Checks whether a timer with this kind, key and payload may be stored.
    pub(crate) fn check(
        &self,
        kind: &str,
        key: Option<&str>,
        payload: &PayloadBytes,
    ) -> Result<(), DurableError> {
        let bytes = payload.len();
        if bytes > self.payload_max {
            let max = self.payload_max;
            return Err(DurableError::PayloadTooLarge { bytes, max });
        }
        if let Some(bytes) = key.map(str::len).filter(|&bytes| bytes > KEY_BYTES_MAX) {
            let max = KEY_BYTES_MAX;
            return Err(DurableError::KeyTooLong { bytes, max });
        }
        let has_nul = [Some(kind), key]
            .into_iter()
            .flatten()
            .any(|text| text.contains('\0'));
        if has_nul && self.rights.is_some() {
            let why = "a kind or a key has a NUL, which this store's database does not take";
            return Err(DurableError::Invalid(why.to_owned()));
        }
        if kind.len() > KIND_BYTES_MAX {
            let (bytes, max) = (kind.len(), KIND_BYTES_MAX);
            return Err(DurableError::KindTooLong { bytes, max });
        }
        Ok(())
    }

    /// Whether this is a copy in a process that was forked off: the writer is in the other one.
    pub(crate) fn is_forked(&self) -> bool {
        self.made_in.is_forked()
    }

    /// Asks the writer for something. On a manual clock the writer has done it when this returns,
    /// unless this thread is in a turn of the writer.
    pub(crate) fn ask<T>(
        &self,
        request: impl FnOnce(Teller<T>) -> Request,
    ) -> Result<Ticket<T>, DurableError> {
        self.wait_for_store();
        self.refuse_if_away()?;
        self.ask_by(&self.queue.calls, request)
    }

    /// Waits for a store that is away, as long as calls are to. (On a manual clock it would not
    /// come back meanwhile. A thread that takes the writer's turns would wait for itself.)
    fn wait_for_store(&self) {
        let wait_max = self.hooks.healing.wait_max;
        if !self.standing.works() && !wait_max.is_zero() && !self.is_manual() && !self.takes_turns()
        {
            self.standing.wait(wait_max);
        }
    }

    fn refuse_if_away(&self) -> Result<(), DurableError> {
        if self.standing.works() {
            return Ok(());
        }
        self.standing.refusal().map_or(Ok(()), Err)
    }

    fn ask_by<T>(
        &self,
        lane: &Sender<Request>,
        request: impl FnOnce(Teller<T>) -> Request,
    ) -> Result<Ticket<T>, DurableError> {
        if self.is_forked() {
            return Err(DurableError::Stopped);
        }
        let (teller, ticket) = ticket();
        let request = request(teller);
        let bytes = request.queued_bytes();
        // Ordering: Relaxed. A count that decides who waits; the queue itself publishes requests.
        let queued = self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes;
        lane.send(request).map_err(|_| self.end())?;
        self.take_turns();
        // Ordering: Relaxed. As above; the writer alone sets them. (They are callers' alone.)
        let aside = match ptr::eq(lane, &raw const self.queue.calls) {
            true => self.aside.load(Ordering::Relaxed),
            false => 0,
        };
        let aside_bytes = self.aside_bytes.load(Ordering::Relaxed);
        let is_full =
            lane.len() + aside > QUEUE_MAX || bytes > 0 && queued + aside_bytes > QUEUE_BYTES_MAX;
        // (A thread that takes the writer's turns would wait for itself. On a manual clock the
        // queue is empty here, and what was set aside waits until a thread moves the clock.)
        if is_full && !self.is_manual() && !self.takes_turns() {
            ticket.wait_for_answer();
        }
        Ok(ticket)
    }

    /// The writer has taken a request of this number of bytes.
    pub(crate) fn take_out(&self, bytes: usize) {
        // Ordering: Relaxed. As in `ask_by`.
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// TurnAside: notes how many calls are set aside, and the bytes of their timers. For the writer
    /// only.
    pub(crate) fn set_aside(&self, calls: usize, bytes: usize) {
        // Ordering: Relaxed. As in `ask_by`.
        self.aside.store(calls, Ordering::Relaxed);
        self.aside_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether this thread is in a turn of the writer.
    fn takes_turns(&self) -> bool {
        TAKES_TURNS_OF.get() == ptr::from_ref(self) as usize
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask_and_wait<T>(
        &self,
        request: impl FnOnce(Teller<T>) -> Request,
    ) -> Result<T, DurableError> {
        self.answer(self.ask(request)?)
    }

    /// The same for what steers the writer, which it takes while the store is away.
    pub(crate) fn steer(
        &self,
        request: impl FnOnce(Teller<()>) -> Request,
    ) -> Result<(), DurableError> {
        self.answer(self.ask_by(&self.queue.calls, request)?)
    }

    fn answer<T>(&self, ticket: Ticket<T>) -> Result<T, DurableError> {
        ticket.wait().map_err(|error| match error {
            DurableError::Stopped => self.end(),
            other => other,
        })
    }

    /// What to call when another node has done something: the writer looks.
    pub(crate) fn news(&self) -> Arc<dyn Fn() + Send + Sync> {
        let words = self.queue.words.clone();
        Arc::new(move || {
            let _ = words.send(Request::Told(Told::News));
        })
    }

    /// Tells the writer something. If the writer has ended, it does not get to know. The rows that
    /// this was about are still stored.
    pub(crate) fn tell(&self, told: Told) {
        let _ = self.queue.words.send(Request::Told(told));
    }

    /// Why the writer takes nothing more.
    fn end(&self) -> DurableError {
        match self.standing.failure() {
            Some(error) => DurableError::Store(error),
            None => DurableError::Stopped,
        }
    }

    /// On a manual clock: takes the writer's turns. If another thread takes them, waits for that
    /// thread. If this thread is in a turn already, returns at once. This happens if a call of the
    /// store moves the clock: then handlers run inside that call. The turn serves their requests
    /// when the call has returned.
    pub(crate) fn take_turns(&self) {
        let own = ptr::from_ref(self) as usize;
        if !self.is_manual() || self.takes_turns() {
            return;
        }
        let mut writer = self.manual();
        let former = TAKES_TURNS_OF.replace(own);
        if writer.as_mut().is_some_and(|writer| !writer.take_turns()) {
            *writer = None;
        }
        TAKES_TURNS_OF.set(former);
    }

    /// Notes that this thread takes the writer's turns, so it must not wait for the writer.
    pub(crate) fn take_turns_here(&self) {
        TAKES_TURNS_OF.set(ptr::from_ref(self) as usize);
    }

    /// TrialBegin: asks whether a suspect may be handled now, alone. The store has its crash when
    /// the answer is there. `None`: this thread takes the writer's turns, or the writer has ended.
    pub(crate) fn begin_alone(&self, delivery: &Delivery) -> Option<Ticket<TrialBegun>> {
        // The writer would wait for itself.
        if self.takes_turns() {
            return None;
        }
        let crashes = delivery.row.crashes.saturating_add(1);
        self.refuse_if_away().ok()?;
        let begin = |teller| Request::begin(delivery.settled(), crashes, teller);
        self.ask_by(&self.queue.words, begin).ok()
    }

    fn manual(&self) -> MutexGuard<'_, Option<Box<dyn Turns>>> {
        self.manual.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the writer whose turns callers take.
    pub(crate) fn set_writer(&self, writer: Box<dyn Turns>) {
        *self.manual() = Some(writer);
    }

    /// Whether rows that are due then may be handed out.
    pub(crate) fn is_claimed(&self, due: StoreTime) -> bool {
        self.claims.has(due)
    }

    /// Publishes a watermark that the store has. Only the writer calls this.
    pub(crate) fn claim(&self, upto: StoreTime) {
        self.claims.publish(upto);
    }

    /// TurnFail: nothing is claimed. The writer only.
    pub(crate) fn unclaim(&self) {
        self.claims.drop_all();
    }

    /// TurnBack: deliveries of earlier epochs are not handed out. The writer only.
    pub(crate) fn raise_fence(&self, epoch: u64) {
        self.claims.raise_fence(epoch);
    }

    /// Whether deliveries may begin.
    pub(crate) fn delivers(&self) -> bool {
        // Ordering: Relaxed. A hint: a delivery that begins meanwhile is waited for by `stop`.
        self.state.load(Ordering::Relaxed) == OPEN && self.standing.works()
    }

    /// No delivery begins any more.
    pub(crate) fn begin_stop(&self) {
        // Ordering: Relaxed. As in `delivers`.
        self.state.store(STOPPING, Ordering::Relaxed);
    }

    /// The store has failed. `again`: after how long it is opened again, if it is. The writer only.
    pub(crate) fn fail(&self, error: StoreError, again: Option<Duration>) {
        let now = system_time(self.clock.as_ref());
        self.standing
            .fail(error, now, again.map(|wait| now + wait), false);
    }

    /// It could not be opened. It is tried after this time once more. The writer only.
    pub(crate) fn tried(&self, error: StoreError, again: Duration) {
        let now = system_time(self.clock.as_ref());
        self.standing.fail(error, now, Some(now + again), true);
    }

    /// What a caller is told whose request was not taken, because the store is away.
    pub(crate) fn refusal(&self) -> DurableError {
        self.standing.refusal().unwrap_or(DurableError::Stopped)
    }

    /// The store works again, after this time. The writer only.
    pub(crate) fn come_back(&self, lasted: Duration) {
        self.standing.come_back(lasted);
    }

    /// Why the store has failed, if it does not work.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        match self.standing.works() {
            true => None,
            false => self.standing.failure(),
        }
    }

    /// Whether the store works.
    pub(crate) fn health(&self) -> Health {
        self.standing.health(self.counts.turn(self.elapsed()))
    }

    /// A handler's future is polled for the first time, by this thread. `None`: the service stops,
    /// and does not wait for a future that has not begun.
    pub(crate) fn future_begins(&self) -> Option<ThreadId> {
        self.futures.begin(|| self.delivers())
    }

    /// The window's service, for alarms. `None`: it stops.
    pub(crate) fn set_alarms(&self, service: Option<ServiceHandle<Fired>>) {
        let former = std::mem::replace(&mut *self.alarms(), service);
        drop(former);
    }

    fn alarms(&self) -> MutexGuard<'_, Option<ServiceHandle<Fired>>> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an alarm. `None`: the service stops.
    pub(crate) fn schedule(&self, delay: Duration, fired: Fired) -> Option<TimerId> {
        let service = self.alarms().clone()?;
        service.schedule(delay, fired).ok()
    }

    /// Ends an alarm, if it has not rung.
    pub(crate) fn unschedule(&self, alarm: TimerId) {
        let service = self.alarms().clone();
        if let Some(service) = service {
            service.cancel(alarm);
        }
    }

    /// By which the limits of attempts are.
    pub(crate) fn limit_clock(&self) -> LimitClock {
        LimitClock {
            manual: self.clock.clone(),
            ticking: self.ticking.clone(),
        }
    }
}
