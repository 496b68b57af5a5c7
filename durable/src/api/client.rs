//! Client: the calls.

use crate::handler::caught::caught;
use crate::handler::error::DurableError;
use crate::queue::fired::Fired;
use crate::queue::link::DurableShared;
use crate::queue::request::{NewTimer, Request};
use crate::queue::stats::DurableStats;
use crate::queue::ticket::{Ticket, ticket};
use crate::store::contract::StoreError;
use crate::store::fleet::Fleet;
use crate::store::row::{DeadLetter, DurableId, Row, RowMore, StoreTime};
use crate::store::trace::is_traceparent;
use crate::store::when::{PayloadBytes, When};
use crate::store::write::{Target, Write};
use crate::sync::{JoinHandle, ThreadBuilder};
use crossbeam_channel::bounded;
use std::fmt;
use std::io;
use std::ops::{Bound, Deref, RangeBounds, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::TimerService;
use wheelwork::is_inside_task;

/// Durable timers that run. They survive their process. Dropping the `Durable` stops them.
///
/// A drop waits as [`stop`](Self::stop) does, but it does not wait for futures of handlers. If some
/// still run, a thread of the library waits for them after the drop, stores what they answer, and
/// closes the store. A drop inside a handler does not wait. After an awaited
/// [`stop_async`](Self::stop_async) there is nothing left to wait for.
///
/// The calls are those of [`DurableClient`].
///
/// # Example
/// See [`builder`](Self::builder).
pub struct Durable {
    client: DurableClient,
    running: Arc<DurableRuntime>,
}

/// What a stop ends.
struct DurableRuntime {
    service: TimerService<Fired>,
    shared: Arc<DurableShared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The calls to durable timers. Any thread may have a client, which is cheap to clone. It does not
/// keep the timers running.
///
/// # Example
/// See [`Durable::builder`].
#[derive(Clone)]
pub struct DurableClient {
    pub(super) shared: Arc<DurableShared>,
}

impl Durable {
    pub(super) fn new(
        service: TimerService<Fired>,
        shared: Arc<DurableShared>,
        writer: Option<JoinHandle<()>>,
    ) -> Self {
        Self {
            client: DurableClient {
                shared: shared.clone(),
            },
            running: Arc::new(DurableRuntime {
                service,
                shared,
                writer: Mutex::new(writer),
            }),
        }
    }

    /// The calls, for another thread.
    #[must_use]
    pub fn client(&self) -> DurableClient {
        self.client.clone()
    }

    /// Stops: no handler is called any more. Waits for the handlers that run, and until their
    /// answers are stored. (If a transaction or a full disk holds up an answer for 5 s, the stop
    /// ends without it, and that timer fires again.) All other timers stay stored: those that are
    /// not due, those that wait for a handler, and those whose handler's future was not polled yet.
    /// The store is closed when this returns.
    ///
    /// It blocks its thread. In async code call [`stop_async`](Self::stop_async).
    ///
    /// # Errors
    /// [`DurableError::Store`] if the store does not work, and this call could not open it again;
    /// [`DurableError::InsideHandler`] if a handler, or a hook but `trace_context`, calls it: it
    /// would wait for itself; [`DurableError::PollsHandler`] if a handler's future has not ended,
    /// and the calling thread is the one that has polled it last. The call would wait for ever, so
    /// it stops nothing.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, DurableError, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// timers.stop()?;
    /// let error = timers.schedule("mail", Duration::ZERO, "late").unwrap_err();
    /// assert!(matches!(error, DurableError::Stopped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Result<(), DurableError> {
        if is_inside_task() {
            return Err(DurableError::InsideHandler);
        }
        if self.running.shared.futures.has_polled() {
            return Err(DurableError::PollsHandler);
        }
        self.running.stop()
    }

    /// Stops without blocking: the future is ready when [`stop`](Self::stop) would return, or after
    /// `limit`, by the system's monotonic clock. The stop goes on after the limit, and also if the
    /// future is dropped, because threads of the library do it.
    ///
    /// A handler may call it, but must not wait for it.
    ///
    /// # Errors
    /// The future returns [`DurableError::Store`] where [`stop`](Self::stop) does. It returns
    /// [`DurableError::StopGoesOn`] after the limit, and if the system has no thread for the stop.
    /// In that case drop the `Durable`, which stops the timers.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// smol::block_on(timers.stop_async(Duration::from_secs(10)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_async(&self, limit: Duration) -> Ticket<()> {
        let (send, stopped) = bounded(1);
        let stop = self.running.clone().spawn_stop(move |result| {
            let _ = send.send(result);
        });
        let (teller, stopping) = ticket();
        let wait = ThreadBuilder::new().name("wheelwork-stop".to_owned());
        let wait = wait.spawn(move || {
            let result = stopped.recv_timeout(limit);
            teller.tell(result.unwrap_or(Err(DurableError::StopGoesOn)));
        });
        if stop.is_ok() && wait.is_ok() {
            return stopping;
        }
        let (teller, stopping) = ticket();
        teller.tell(Err(DurableError::StopGoesOn));
        stopping
    }
}

impl DurableRuntime {
    /// Stops on a thread of its own, which then tells how that went.
    fn spawn_stop(
        self: Arc<Self>,
        tell: impl FnOnce(Result<(), DurableError>) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let thread = ThreadBuilder::new().name("wheelwork-stop".to_owned());
        thread.spawn(move || tell(self.stop()))
    }

    fn stop(&self) -> Result<(), DurableError> {
        self.stop_service()?;
        self.end_stop()
    }

    /// Waits for the handlers that run, but not for their futures.
    fn stop_service(&self) -> Result<(), DurableError> {
        let shared = &self.shared;
        if shared.is_forked() {
            return Err(DurableError::Stopped);
        }
        // StopDeliver.
        shared.begin_stop();
        let _ = shared.steer(Request::empty);
        // StopService: waits for the handlers that run.
        drop(self.service.stop());
        Ok(())
    }

    /// Waits for the futures of handlers that have begun, then for the writer.
    fn end_stop(&self) -> Result<(), DurableError> {
        let shared = &self.shared;
        shared.futures.wait();
        shared.set_alarms(None);
        shared.kinds.forget_waiting();
        // StopRelease: their answers are in the queue before this request.
        let stopped = shared.steer(Request::stop);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = writer.take() {
            let _ = thread.join();
        }
        match (stopped, shared.failure()) {
            (_, Some(error)) => Err(DurableError::Store(error)),
            // It was stopped before.
            (Err(DurableError::Stopped), None) => Ok(()),
            (stopped, None) => stopped,
        }
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        // A handler that drops this must not wait for itself. Nor must a thread that runs a
        // handler's future. If the system has no thread for the stop, the process's end stops the
        // timers.
        let running = &self.running;
        if is_inside_task() || running.stop_service().is_ok() && running.shared.futures.is_any() {
            let _ = running.clone().spawn_stop(drop);
        } else if !running.shared.is_forked() {
            let _ = running.end_stop();
        }
    }
}

impl Deref for Durable {
    type Target = DurableClient;

    fn deref(&self) -> &DurableClient {
        &self.client
    }
}

impl DurableClient {
    /// Arms a timer: its kind's handler gets the payload when the timer is due. The timer is
    /// durable when this returns.
    ///
    /// A handler may call this, too.
    ///
    /// # Errors
    /// See [`DurableError`]. Cost: a commit, which is shared by all callers that wait at this time.
    ///
    /// # Example
    /// See [`Durable::builder`].
    pub fn schedule(
        &self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, DurableError> {
        let timer = self.new_timer(kind, None, when.into(), payload.into(), None)?;
        self.shared
            .ask_and_wait(|teller| Request::arm(timer, teller))
    }

    /// Arms a timer, and returns at once, unless 65,536 calls or 64 MiB of payloads wait. The timer
    /// is durable when the ticket is ready.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// See [`Ticket`].
    pub fn schedule_ticket(
        &self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<Ticket<DurableId>, DurableError> {
        let timer = self.new_timer(kind, None, when.into(), payload.into(), None)?;
        self.shared.ask(|teller| Request::arm(timer, teller))
    }

    /// Arms many timers, in their order, in one commit or in several. In a file a commit has up to
    /// 4,096 timers, with 8 MiB. In a fleet it has as many as the database stores in some 12 ms.
    /// Calls that come at the same time share these bounds, and have their turn between two
    /// commits.
    ///
    /// The timers of one commit are all stored, or after an error none of them. If there are
    /// several commits, then after an error, or an end of the process, the first timers may be
    /// stored, and fire.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let hour = Duration::from_secs(3_600);
    /// let ids = timers.schedule_many((0..100).map(|number| ("mail", hour, format!("{number}"))))?;
    /// assert_eq!(timers.cancel_many(ids)?, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_many<K, W, P>(
        &self,
        timers: impl IntoIterator<Item = (K, W, P)>,
    ) -> Result<Vec<DurableId>, DurableError>
    where
        K: AsRef<str>,
        W: Into<When>,
        P: Into<PayloadBytes>,
    {
        let timers = timers
            .into_iter()
            .map(|(kind, when, payload)| {
                self.new_timer(kind.as_ref(), None, when.into(), payload.into(), None)
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.shared
            .ask_and_wait(|teller| Request::arm_many(timers, teller))
    }

    /// Cancels a timer. Returns `true` if no handler is given the timer any more. Returns `false`
    /// if it was handed out already, or has ended. (It is handed out when a thread takes it to call
    /// its handler; where nodes share the store, 25 to 75 ms before its deadline, or earlier if the
    /// database's clock was set back, and from then on also while it waits for a place among the
    /// calls of its kind.)
    ///
    /// A timer whose handler has failed waits for its next attempt, and can be cancelled. A timer
    /// with a calendar can also be cancelled while it runs, or is about to. Then this returns
    /// `true`, and that run is the last one
    /// ([the guide](crate::guide::file#a-cancel-that-comes-late) says more).
    ///
    /// # Errors
    /// [`DurableError::Stopped`]; [`DurableError::Unavailable`] while the store is away and is
    /// opened again: nothing was stored, so try again later; [`DurableError::Store`] if the store
    /// failed during the call, and then it is not known whether the change was stored, or if it has
    /// failed for good. Where nodes share the store also [`DurableError::Blocked`], if another
    /// transaction has the timer locked for minutes, and [`DurableError::Refused`], if the database
    /// cannot have such a key.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// assert!(timers.cancel(id)?);
    /// assert!(!timers.cancel(id)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self, id: DurableId) -> Result<bool, DurableError> {
        self.cancel_target(Target::Id(id))
    }

    /// Cancels a timer, and returns at once, unless 65,536 calls wait. The cancel is durable when
    /// the ticket is ready.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// assert!(timers.cancel_ticket(id)?.wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_ticket(&self, id: DurableId) -> Result<Ticket<bool>, DurableError> {
        self.shared
            .ask(|teller| Request::one(Write::Cancel(Target::Id(id)), teller))
    }

    /// Cancels many timers, up to 4,096 of them in one commit; in a fleet as many as the database
    /// ends in some 12 ms. Returns how many are cancelled.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// See [`schedule_many`](Self::schedule_many).
    pub fn cancel_many(
        &self,
        ids: impl IntoIterator<Item = DurableId>,
    ) -> Result<usize, DurableError> {
        let ids: Vec<_> = ids.into_iter().collect();
        self.shared
            .ask_and_wait(|teller| Request::cancel_many(ids, teller))
    }

    /// Cancels all timers of a kind that [`cancel`](Self::cancel) would cancel. Returns how many.
    ///
    /// It reads all timers of the store, in slices as large as those of
    /// [`cancel_many`](Self::cancel_many). Other calls have their turn between the slices, so the
    /// timers are not cancelled at one instant. A timer that is armed meanwhile may be cancelled,
    /// or not. A timer that another node moves meanwhile may stay, and so may one that has waited
    /// for a handler and is released by another node, and one that a transaction has locked. If the
    /// service stops meanwhile, a part of the timers is cancelled.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel). Cost: all rows of the store are read.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// timers.schedule("report", Duration::from_secs(60), "hello")?;
    /// assert_eq!(timers.cancel_kind("mail")?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_kind(&self, kind: &str) -> Result<usize, DurableError> {
        let kind = self.shared.kinds.name(kind);
        self.shared
            .ask_and_wait(|teller| Request::cancel_kind(kind, teller))
    }

    /// Gives a timer another deadline. Its id stays. Returns `false` if the timer was handed out
    /// already (see [`cancel`](Self::cancel)), or has ended.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// assert!(timers.reschedule(id, Duration::from_secs(120))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule(&self, id: DurableId, when: impl Into<When>) -> Result<bool, DurableError> {
        self.move_target(Target::Id(id), when.into())
    }

    /// Gives a timer another deadline, and returns at once, unless 65,536 calls wait. The move is
    /// durable when the ticket is ready.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// assert!(timers.reschedule_ticket(id, Duration::from_secs(120))?.wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule_ticket(
        &self,
        id: DurableId,
        when: impl Into<When>,
    ) -> Result<Ticket<bool>, DurableError> {
        self.move_ticket(Target::Id(id), when.into())
    }

    /// Returns a timer as it is stored, or `None` if it has ended or there was none. A timer that
    /// is being handled stays stored until its handler has said `Ok`.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let id = timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// let row = timers.get(id)?.expect("is armed");
    /// assert_eq!((&*row.kind, row.attempts), ("mail", 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, id: DurableId) -> Result<Option<Row>, DurableError> {
        self.get_target(Target::Id(id))
    }

    /// Returns the nodes that share the store, and which node owns which partition. A store for one
    /// process has one node and one partition.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let fleet = timers.fleet()?;
    /// assert_eq!((fleet.nodes.len(), fleet.partitions.len()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fleet(&self) -> Result<Fleet, DurableError> {
        self.shared.ask_and_wait(Request::fleet)
    }

    /// Returns up to `limit` dead letters whose ids come after `after`, in the order of their ids.
    /// They are read in slices, as the timers of [`list`](Self::list) are.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let mut letters = timers.dead_letters(None, 100)?;
    /// while let Some(last) = letters.last() {
    ///     letters = timers.dead_letters(Some(last.row.id), 100)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dead_letters(
        &self,
        after: Option<DurableId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, DurableError> {
        let slices = self
            .shared
            .ask_and_wait(|teller| Request::dead(after, limit, teller))?;
        Ok(slices.into_iter().flatten().collect())
    }

    /// Makes a dead letter a timer again, which is due at once, and has no attempts and no key.
    /// Returns `false` if there is no such dead letter.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// for letter in timers.dead_letters(None, 100)? {
    ///     timers.revive(letter.row.id)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn revive(&self, id: DurableId) -> Result<bool, DurableError> {
        let due = StoreTime::due_at(self.shared.now());
        self.shared
            .ask_and_wait(|teller| Request::one(Write::Revive(id, due), teller))
    }

    /// Deletes a dead letter. Returns `false` if there is no such dead letter.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel).
    ///
    /// # Example
    /// See [`revive`](Self::revive).
    pub fn discard_dead(&self, id: DurableId) -> Result<bool, DurableError> {
        self.shared
            .ask_and_wait(|teller| Request::one(Write::Discard(id), teller))
    }

    /// Returns figures: what has happened so far, and how many timers and dead letters there are.
    ///
    /// # Example
    /// See [`DurableStats`].
    #[must_use]
    pub fn stats(&self) -> DurableStats {
        let now = StoreTime::reading(self.shared.now());
        self.shared.counts.read(now, self.shared.elapsed())
    }

    /// Why the store has failed, if it does not work. Nothing fires then, and nothing is taken,
    /// until it comes back. [`health`](Self::health) says more.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// assert!(timers.failure().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<StoreError> {
        self.shared.failure()
    }

    pub(super) fn new_timer(
        &self,
        kind: &str,
        key: Option<&str>,
        when: When,
        payload: PayloadBytes,
        calendar: Option<Arc<str>>,
    ) -> Result<NewTimer, DurableError> {
        self.shared.check(kind, key, &payload)?;
        Ok(NewTimer {
            kind: self.shared.kinds.name(kind),
            key: key.map(Arc::from),
            due: self.shared.due(when),
            payload: payload.0,
            calendar,
            more: self.trace_of_call(),
        })
    }

    /// The trace of the call that arms a timer, if the program tells it.
    fn trace_of_call(&self) -> Option<Box<RowMore>> {
        let hook = self.shared.hooks.trace_context.as_ref()?;
        let trace = caught(hook).flatten();
        let trace = trace.filter(|trace| is_traceparent(trace))?;
        let more = RowMore {
            trace: Some(trace.into()),
            ..RowMore::default()
        };
        Some(Box::new(more))
    }

    pub(super) fn cancel_target(&self, target: Target) -> Result<bool, DurableError> {
        self.shared
            .ask_and_wait(|teller| Request::one(Write::Cancel(target), teller))
    }

    pub(super) fn move_target(&self, target: Target, when: When) -> Result<bool, DurableError> {
        let due = self.shared.due(when);
        self.shared
            .ask_and_wait(|teller| Request::one(Write::Move(target, due), teller))
    }

    pub(super) fn move_ticket(
        &self,
        target: Target,
        when: When,
    ) -> Result<Ticket<bool>, DurableError> {
        let due = self.shared.due(when);
        self.shared
            .ask(|teller| Request::one(Write::Move(target, due), teller))
    }

    pub(super) fn get_target(&self, target: Target) -> Result<Option<Row>, DurableError> {
        self.shared
            .ask_and_wait(|teller| Request::get(target, teller))
    }
}

/// The milliseconds of a range. `None`: there are none.
pub(super) fn millis(range: &impl RangeBounds<SystemTime>) -> Option<RangeInclusive<StoreTime>> {
    let first = match range.start_bound() {
        Bound::Unbounded => StoreTime::MIN,
        Bound::Included(&time) => StoreTime::due_at(time),
        Bound::Excluded(&time) if time < SystemTime::UNIX_EPOCH => StoreTime::MIN,
        Bound::Excluded(&time) => StoreTime::from_millis(StoreTime::reading(time).as_millis() + 1),
    };
    let last = match range.end_bound() {
        Bound::Unbounded => StoreTime::MAX,
        Bound::Included(&time) if time < SystemTime::UNIX_EPOCH => return None,
        Bound::Included(&time) => StoreTime::reading(time),
        Bound::Excluded(&time) => {
            StoreTime::from_millis(StoreTime::due_at(time).as_millis().checked_sub(1)?)
        }
    };
    (first <= last).then_some(first..=last)
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").finish_non_exhaustive()
    }
}

impl fmt::Debug for DurableClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableClient").finish_non_exhaustive()
    }
}
