//! Builder: which handlers durable timers have, and how they run.

use super::client::Durable;
use super::window_limits::WindowLimits;
use crate::handler::delivery::{Delivery, HandlerResult};
use crate::handler::error::OpenError;
use crate::handler::kinds::{HandlerFuture, KindHandler, Kinds, Said, SpawnedFuture};
use crate::handler::places::Places;
use crate::handler::retry::RetryPolicy;
use crate::queue::fired::Fired;
use crate::queue::lanes::queue;
use crate::queue::link::{DurableHooks, DurableShared};
use crate::runner::run::run;
use crate::store::contract::{Store, StoreError};
use crate::store::row::{DeadLetter, limit_ms};
use crate::store::write::SliceLimit;
use crate::sync::ThreadBuilder;
use crate::writer::manual::on_manual_clock;
use crate::writer::stall::StallWatch;
use crate::writer::turn::Writer;
use crate::writer::window::Bounds;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::Dispatch;
use wheelwork::ManualClock;
use wheelwork::TimerService;

/// Settings of durable timers. Made by [`Durable::builder`].
///
/// # Example
/// See [`Durable::builder`].
#[must_use = "nothing runs before `start`"]
pub struct DurableBuilder<S> {
    pub(super) store: S,
    pub(super) kinds: Kinds,
    pub(super) hooks: DurableHooks,
    window: WindowLimits,
    slice: SliceLimit,
    payload_max: usize,
    dispatch: Option<Dispatch>,
    clock: Option<ManualClock>,
}

impl Durable {
    /// Durable timers on a store, with settings to be made. The store is a [`Redb`](crate::Redb), a
    /// `Postgres` (feature `postgres`) or a [`Memory`](crate::Memory).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Redb};
    ///
    /// # let process = std::process::id();
    /// # let directory = std::env::temp_dir().join(format!("wheelwork-open-{process}"));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("timers.redb");
    /// let timers = Durable::builder(Redb::open(path)?)
    ///     .on("order.unpaid", |order| {
    ///         println!("order {} was not paid", order.payload_text());
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// let half_an_hour = Duration::from_secs(1_800);
    /// timers.key("order-4711").schedule("order.unpaid", half_an_hour, "4711")?;
    /// // It was paid:
    /// assert!(timers.key("order-4711").cancel()?);
    /// # drop(timers);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder<S: Store>(store: S) -> DurableBuilder<S> {
        DurableBuilder::new(store)
    }
}

impl<S: Store> DurableBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            kinds: Kinds::default(),
            hooks: DurableHooks::default(),
            window: WindowLimits::new(),
            slice: SliceLimit {
                rows: 4_096,
                bytes: 8 << 20,
            },
            payload_max: 1 << 20,
            dispatch: None,
            clock: None,
        }
    }

    /// Sets the handler of a kind. If it returns `Ok`, the timer is done. If it returns `Err` or
    /// panics, the timer is tried again, by the [retry policy](Self::retry_policy). A kind has one
    /// handler: the last one set, by this call or by another one of its family: `on_typed`,
    /// `on_batch`, `on_async`, `on_in_transaction`.
    ///
    /// Handlers run on the pool that all services share, unless [`dispatch`](Self::dispatch) was
    /// called. They may call everything but `stop`. While all threads of the pool are blocked, each
    /// kind has one call at a time on a thread beside the pool, if there are several kinds.
    ///
    /// # Example
    /// See [`Durable::builder`].
    pub fn on(
        mut self,
        kind: &str,
        handler: impl Fn(&Delivery) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        let handler = move |delivery: &Delivery| Said::Result(handler(delivery));
        self.kinds.entry(kind).handler = Some(KindHandler::One(Box::new(handler)));
        self
    }

    /// Sets a handler that gets up to 64 timers of its kind at once: those that are due together.
    /// Of timers that have waited, for a place ([`max_calls`](Self::max_calls)) or because all
    /// threads of the pool were blocked, it gets up to 256. It returns a result for each, in their
    /// order. A timer without a result has failed.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Delivery, Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_batch("mail", |mails: &[Delivery]| {
    ///         println!("{} mails", mails.len());
    ///         mails.iter().map(|_| Ok(())).collect()
    ///     })
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_batch(
        mut self,
        kind: &str,
        handler: impl Fn(&[Delivery]) -> Vec<HandlerResult> + Send + Sync + 'static,
    ) -> Self {
        self.kinds.entry(kind).handler = Some(KindHandler::Batch(Box::new(handler)));
        self
    }

    /// Sets a handler that makes a future. The [`spawner`](Self::spawner) runs it, and calls the
    /// handler in the future's first poll. A future that is dropped before it has ended has failed.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Delivery, Durable, Memory};
    ///
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let handle = runtime.handle().clone();
    /// let timers = Durable::builder(Memory::new())
    ///     .spawner(move |future| {
    ///         handle.spawn(future);
    ///     })
    ///     .on_async("mail", |mail: Delivery| async move {
    ///         println!("{}", mail.payload_text());
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_async<F>(
        mut self,
        kind: &str,
        handler: impl Fn(Delivery) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let handler = move |delivery| Box::pin(handler(delivery)) as HandlerFuture;
        self.kinds.entry(kind).handler = Some(KindHandler::Async(Box::new(handler)));
        self
    }

    /// Sets the function that runs the futures of [`on_async`](Self::on_async), as `tokio::spawn`
    /// does. It is called on the threads that dispatch timers, which need not belong to a runtime.
    /// So it needs the runtime's handle.
    ///
    /// # Example
    /// See [`on_async`](Self::on_async).
    pub fn spawner(mut self, spawn: impl Fn(SpawnedFuture) + Send + Sync + 'static) -> Self {
        self.hooks.spawner = Some(Box::new(spawn));
        self
    }

    /// Sets when timers whose handler failed are tried again.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory, RetryPolicy};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .retry_policy(RetryPolicy::new().attempts(5))
    ///     .retry_policy_for("mail", RetryPolicy::never())
    ///     .on("mail", |mail| Err("no server".into()))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.kinds.retry = policy;
        self
    }

    /// Sets the retry policy of one kind. If the kind has no handler, that is an error of
    /// [`start`](Self::start).
    ///
    /// # Example
    /// See [`retry_policy`](Self::retry_policy).
    pub fn retry_policy_for(mut self, kind: &str, policy: RetryPolicy) -> Self {
        self.kinds.entry(kind).retry = Some(policy);
        self
    }

    /// Sets how many calls of a kind's handler run at once. Timers that are due meanwhile wait in
    /// order, and can still be cancelled. (Where nodes share the store they cannot, because they
    /// are handed out before they are due.) Without a limit there are as many calls as the pool has
    /// threads, and one more while all of these are blocked; and any number of futures. If the kind
    /// has no handler, that is an error of [`start`](Self::start).
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroUsize;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on("report", |report| Ok(()))
    ///     .max_calls("report", NonZeroUsize::MIN)
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_calls(mut self, kind: &str, calls: NonZeroUsize) -> Self {
        self.kinds.entry(kind).places = Places::new(calls);
        self
    }

    /// Sets how long one attempt of a kind may take, in milliseconds, rounded up, and at least one.
    /// A timer may have a limit of its own ([`TimerBuilder::time_limit`](crate::TimerBuilder)). No
    /// kind has one unless set. The time counts from the call of the handler, by the node's
    /// monotonic clock. If the kind has no handler, that is an error of [`start`](Self::start).
    ///
    /// - A future ([`on_async`](Self::on_async)) is dropped when the limit is over, in a poll of
    ///   its own, and the attempt has failed: "it took longer than 5s". A future that blocks its
    ///   thread cannot be dropped before it returns.
    /// - Every other handler is not ended. It is told by
    ///   [`Delivery::time_left`](crate::Delivery::time_left), and its answer counts, however late
    ///   it is.
    /// - Statements of a handler in a transaction are cancelled by the database after the time
    ///   that was left when the transaction began (`statement_timeout`).
    ///
    /// Each attempt that was over its limit is counted
    /// ([`over_time`](crate::DurableStats::over_time)). A stop waits for no future longer than for
    /// its limit, if the executor goes on.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .spawner(|future| smol::spawn(future).detach())
    ///     .on_async("webhook", |_| std::future::pending()) // There is no answer.
    ///     .time_limit("webhook", Duration::from_millis(5))
    ///     .start()?;
    /// timers.schedule("webhook", Duration::ZERO, "hello")?;
    /// while timers.stats().failed == 0 {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    /// assert_eq!(timers.stats().over_time, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn time_limit(mut self, kind: &str, limit: Duration) -> Self {
        self.kinds.entry(kind).time_limit = Some(Duration::from_millis(limit_ms(limit)));
        self
    }

    /// Sets the window: which timers are in memory. For a short time there may be up to a quarter
    /// more of them, and as many as two turns of the writer take in, until the window has given
    /// them back.
    ///
    /// # Example
    /// See [`WindowLimits`].
    pub fn window(mut self, limits: WindowLimits) -> Self {
        self.window = limits;
        self
    }

    /// Sets how much a turn of the writer takes at once. For tests.
    #[doc(hidden)]
    pub fn slices(mut self, slice: SliceLimit) -> Self {
        self.slice = slice;
        self
    }

    /// Sets the largest payload, in bytes. 1 MiB unless set. No more is taken than the store can
    /// keep: 1 GiB in a [`Redb`](crate::Redb), 64 MiB in a PostgreSQL.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, DurableError, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).max_payload(100).start()?;
    /// let error = timers.schedule("mail", Duration::ZERO, vec![0; 101]).unwrap_err();
    /// assert!(matches!(error, DurableError::PayloadTooLarge { bytes: 101, max: 100 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.payload_max = bytes;
        self
    }

    /// Sets where handlers run, as [`Builder::dispatch`](wheelwork::Builder::dispatch) does.
    ///
    /// # Example
    /// ```
    /// use wheelwork::Dispatch;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers =
    ///     Durable::builder(Memory::new()).dispatch(Dispatch::RayonThreads(4)).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = Some(dispatch);
        self
    }

    /// Sets a clock that is moved by hand, for tests. There are no threads then: each call does the
    /// writer's work, and handlers run inside [`ManualClock::advance`], unless
    /// [`dispatch`](Self::dispatch) says otherwise. Futures run where the spawner runs them.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .on("mail", |mail| Ok(()))
    ///     .start()?;
    /// timers.schedule("mail", Duration::from_secs(3_600), "hello")?;
    /// clock.advance(Duration::from_secs(3_599));
    /// assert_eq!(timers.stats().done, 0);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timers.stats().done, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets a hook that is told of each delivery whose handler has failed, and why: what the error
    /// says, and what its causes say. It runs where the handler ran. (Where a connection ends while
    /// the transaction of an `on_in_transaction` handler is committed, nobody knows whether it was.
    /// The hook is told; if it was, the handler is not called again, and `stats().stale` rises.)
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_failed(|timer, why| eprintln!("{}: {why}", timer.id()))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failed(mut self, hook: impl Fn(&Delivery, &str) + Send + Sync + 'static) -> Self {
        self.hooks.failed = Some(Box::new(hook));
        self
    }

    /// Sets a hook that is told of each new dead letter, when that is stored. Its row has only the
    /// id, the deadline, the kind, the attempts and the crashes:
    /// [`dead_letters`](crate::DurableClient::dead_letters) has the rest. The hook is not called
    /// for timers that die during a stop. A call may also be missed if a stop, or the end of the
    /// process, comes right after. The hook is told, too, of a timer whose key another one has
    /// taken, or whose calendar was cancelled, while it was handled; that letter is not kept.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_dead(|letter| eprintln!("{}: {}", letter.row.id, letter.cause))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_dead(mut self, hook: impl Fn(&DeadLetter) + Send + Sync + 'static) -> Self {
        self.hooks.dead = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that is told that the store has failed: nothing fires until it
    /// [comes back](Self::on_store_back). It runs on the thread that stores changes, once for each
    /// outage.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_store_failed(|error| eprintln!("no timer fires: {error}"))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_store_failed(mut self, hook: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        self.hooks.store_failed = Some(Box::new(hook));
        self
    }

    /// Sets a hook that is told that the store works again, and how long it did not.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_store_back(|lasted| eprintln!("timers fire again, after {lasted:?}"))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_store_back(mut self, hook: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.hooks.store_back = Some(Arc::new(hook));
        self
    }

    /// Sets whether a store that has failed is opened again. Yes, unless set: first after 0.1 s,
    /// then after waits that double up to 10 s, for as long as the service runs. A store in a file
    /// (on Linux) and a store in PostgreSQL can be opened again. A store of yours that has no
    /// [`reopen`](crate::contract::Store::reopen) stays failed, until the program opens it anew.
    ///
    /// While the store is away no timer fires, and calls return
    /// [`DurableError::Unavailable`](crate::DurableError::Unavailable). Handlers that run go on,
    /// and what they say is stored when the store is back.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// // The program ends when its store fails, and something starts it again.
    /// let timers = Durable::builder(Memory::new())
    ///     .heals(false)
    ///     .on_store_failed(|_| std::process::abort())
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn heals(mut self, heals: bool) -> Self {
        self.hooks.healing.heals = heals;
        self
    }

    /// Sets how long calls wait for a store that is away, before they return
    /// [`DurableError::Unavailable`](crate::DurableError::Unavailable). They do not wait, unless
    /// set. A call that was made before the store failed has its answer at once in any case. On a
    /// clock that is moved by hand no call waits.
    ///
    /// It holds for calls that return a ticket, too: these block their thread meanwhile.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .wait_while_unavailable(Duration::from_secs(2))
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_while_unavailable(mut self, limit: Duration) -> Self {
        self.hooks.healing.wait_max = limit;
        self
    }

    /// Sets a hook that is told if the thread that stores changes stands still: a turn of it has
    /// lasted for `threshold`, because a call of the store hangs. A disk that does not answer is an
    /// example. The hook gets how long the turn has lasted so far, once for each such turn. Calls
    /// wait meanwhile. Timers that are due more than 1.5 s after the last commit (75 ms in a fleet)
    /// do not fire. Those that were due by then, and wait for a thread or a place of their kind,
    /// still do. A try to open a failed store again is such a turn too: then no timer fires, and
    /// calls return `Unavailable`.
    ///
    /// It runs on a thread of its own, which sleeps while nothing is stored. Calls that wait for
    /// the store wait inside the hook too. [`DurableStats::turn`](crate::DurableStats::turn) tells
    /// how long the turn lasts, when asked.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new())
    ///     .on_store_stalled(Duration::from_secs(5), |lasted| {
    ///         eprintln!("the store has not answered for {lasted:?}");
    ///     })
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_store_stalled(
        mut self,
        threshold: Duration,
        hook: impl Fn(Duration) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.store_stalled = Some((threshold, Box::new(hook)));
        self
    }

    /// Opens the store, and starts: what is overdue fires at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Example
    /// See [`Durable::builder`].
    pub fn start(self) -> Result<Durable, OpenError> {
        if let Some(kind) = self.kinds.without_handler() {
            return Err(OpenError::Setting(format!(
                "the kind {kind:?} has a setting, and no handler"
            )));
        }
        if let Some(kind) = self.kinds.first_async()
            && self.hooks.spawner.is_none()
        {
            let why = format!("the handler of the kind {kind:?} is async, and no `spawner` is set");
            return Err(OpenError::Setting(why));
        }
        let WindowLimits { ahead, rows, bytes } = self.window;
        if rows == 0 || bytes == 0 || ahead.is_zero() {
            return Err(OpenError::Setting("the window is empty".to_owned()));
        }
        let is_manual = self.clock.is_some();
        let mut store = self.store;
        if is_manual && store.shared().is_some_and(|store| !store.takes_clock()) {
            let why = "the store has a clock of its own, and cannot be given one";
            return Err(OpenError::Setting(why.to_owned()));
        }
        if self.hooks.keep_done.is_some() && store.done().is_none() {
            let why = "this store keeps no records of runs that are done (`keep_done`)";
            return Err(OpenError::Setting(why.to_owned()));
        }
        let payload_max = self.payload_max.min(store.payload_max());
        let (senders, requests) = queue();
        let shared = Arc::new(DurableShared::new(
            senders,
            self.kinds,
            self.hooks,
            payload_max,
            self.clock.clone(),
            &mut store,
        ));
        let watch = StallWatch::start(&shared, self.clock.clone())?;
        let service = start_service(&shared, self.dispatch, self.clock.clone())?;
        let writer = Writer::new(
            Box::new(store),
            shared.clone(),
            requests,
            service.handle(),
            Bounds {
                ahead,
                rows,
                bytes,
                slice: self.slice,
            },
            watch,
        )?;
        shared.set_alarms(Some(service.handle()));
        let thread = if let Some(clock) = &self.clock {
            shared.set_writer(on_manual_clock(writer, clock, &shared));
            shared.take_turns();
            None
        } else {
            let thread = ThreadBuilder::new()
                .name("wheelwork-store".to_owned())
                .spawn(move || writer.run())
                .map_err(|error| {
                    shared.set_alarms(None);
                    OpenError::Thread(error)
                })?;
            Some(thread)
        };
        Ok(Durable::new(service, shared, thread))
    }
}

/// Starts the service whose timers are the window.
fn start_service(
    shared: &Arc<DurableShared>,
    dispatch: Option<Dispatch>,
    clock: Option<ManualClock>,
) -> Result<TimerService<Fired>, OpenError> {
    let runner = shared.clone();
    let mut builder = TimerService::builder()
        .shards(1)
        .name("durable")
        .max_relief_threads(shared.kinds.relief_threads())
        .on_expire(move |batch| run(&runner, batch));
    if let Some(dispatch) = dispatch {
        builder = builder.dispatch(dispatch);
    }
    if let Some(clock) = clock {
        builder = builder.clock(clock);
    }
    builder.start().map_err(OpenError::Service)
}

impl<S> fmt::Debug for DurableBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableBuilder").finish_non_exhaustive()
    }
}
