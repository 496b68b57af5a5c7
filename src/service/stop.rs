//! Stop: how a service ends. The protocol is in `src/engine/README.md`.

use super::handle::TimerService;
use crate::cell::Content;
use crate::dispatch::inside::inside_job;
use crate::dispatch::job::during;
use crate::engine::drops::Drops;
use crate::engine::figures::tally::Event;
use crate::engine::start::threads::Started;
use crate::sync::{Fault, JoinHandle, Mutex, broken, pause};
use crate::time::Tick;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

/// A full millisecond.
const FULL_NS: u64 = 1_000_000;

/// What becomes of the pending timers when a service stops.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::StopPolicy;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// service.schedule(Duration::from_millis(5), || println!("still in time"))?;
/// service.schedule(Duration::from_secs(3_600), || unreachable!())?;
/// let unfired = service.stop_with(StopPolicy::Drain(Duration::from_secs(1)));
/// assert_eq!(unfired.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopPolicy {
    /// Timers are handed back. The default.
    #[default]
    HandBack,
    /// The service accepts no more timers. Timers that are due within this time fire, if a worker
    /// takes them by two milliseconds after it, or by a millisecond and a tick if that is longer;
    /// the others are handed back. Periodic timers, and timers for a time of day, end at once.
    ///
    /// The call returns as soon as no further timer is due within the time. Inside a task it acts
    /// as `HandBack`, since other timers may have to wait for that task. On a manual clock another
    /// thread has to move the time, until the timers that are due within the limit have fired;
    /// otherwise the call never returns.
    Drain(Duration),
    /// As [`Drain`](Self::Drain), but periodic timers, timers for a time of day and those of
    /// calendars go on until the drain is over: a heartbeat that goes on while requests end. A
    /// second stop with `Drain` ends them sooner. The drain does not wait for them, however soon
    /// they are due.
    DrainWithPeriodic(Duration),
    /// Timers fire at once on the calling thread, whatever their deadlines. Nothing is handed back.
    ///
    /// A service with a channel sends the payloads to it, even if it is full. Timers for a time of
    /// day run. Periodic timers, and those of calendars, end without a run. Payloads that nobody
    /// takes count in the first shard's [`dropped`](crate::TimerCounts::dropped).
    FireAll,
}

/// A timer that `stop` handed back.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Batch, TimerService};
///
/// let service = TimerService::builder()
///     .on_expire(|batch: &mut Batch<'_, &str>| batch.for_each(drop))
///     .start()?;
/// service.schedule(Duration::from_secs(5), "not yet")?;
/// let unfired = service.stop();
/// assert_eq!(unfired[0].payload, "not yet");
/// assert!(unfired[0].remaining <= Duration::from_millis(5_001));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfired<T> {
    /// The payload with which the timer was armed.
    pub payload: T,
    /// The time that was left until its deadline, which is a whole tick. Zero if it was due. If it
    /// was paused, what was left of it.
    pub remaining: Duration,
}

impl<T> fmt::Debug for Unfired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired")
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Drop for TimerService<T> {
    fn drop(&mut self) {
        Drops::all(self.stop().into_iter());
        if self.engine.cells.shared.is_forked() {
            // What the parent's threads were about is half done here, and its threads may have left
            // their names to threads of this process.
            std::mem::forget(self.started.clone());
        }
    }
}

impl<T: Send + 'static> TimerService<T> {
    /// Stops the service and hands back every timer that has not fired.
    ///
    /// **Outside a task** the call waits for the handlers that run, each with up to 64 timers that
    /// it has claimed, and blocks its thread meanwhile: see [`stop_async`](Self::stop_async) for
    /// async code. It does not wait for timers that are due and not claimed. When it returns:
    ///
    ///  - No timer fires any more, and no handler runs.
    ///  - The shards' threads have ended. The threads of a pool of its own end soon after (on a
    ///    manual clock when the service is dropped), those of the shared pool after the last
    ///    service that uses it.
    ///  - Every timer that was accepted has fired, was cancelled, or is in what is returned:
    ///    exactly one of these. A timer that is due at the same time may be handed back.
    ///  - Periodic timers have ended. They are not handed back; what their closures captured is
    ///    dropped.
    ///
    /// A second call waits for the first and returns nothing. A stop that does not drain ends a
    /// drain at once, and hands back what has not fired, or fires it. Of several drains the first
    /// one that is over ends the others, and hands back. The other calls return nothing then.
    ///
    /// **Inside a task** the call waits for nobody, since others may wait for this task. No further
    /// timer is claimed, but tasks of timers that were claimed before may still run. A later call
    /// outside a task, or the drop of the service there, waits for them. "Inside a task" means code
    /// that a service calls when it fires or ends timers: handlers, hooks (but for `on_panic` of
    /// async code), an executor's function, the drop of a payload that fires or of a closure that
    /// `stop` ends; of this service or another. It goes by threads. A task that lets another thread
    /// call `stop`, and waits for that thread (by `rayon::join`, for example), waits for itself for
    /// ever.
    ///
    /// **In a process that was forked off** the call waits for nobody, and hands copies of the
    /// timers back, whatever the policy: those of the parent go on.
    ///
    /// What the handler captured is dropped soon after, with the last handle or job. Cost: some
    /// nanoseconds for each cell that was ever in use.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let service = TimerService::builder()
    ///     .on_expire(|sessions: &mut Batch<'_, u64>| sessions.for_each(drop))
    ///     .start()?;
    /// service.schedule(Duration::from_secs(3600), 4711)?;
    /// let unfired = service.stop();
    /// assert_eq!(unfired[0].payload, 4711);
    /// let refused = service.schedule(Duration::from_secs(1), 1);
    /// assert_eq!(refused.unwrap_err().into_payload(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Vec<Unfired<T>> {
        self.stop_with(StopPolicy::HandBack)
    }

    /// Stops the service, and does with its timers what the policy says. Otherwise like
    /// [`stop`](Self::stop).
    ///
    /// # Example
    /// See [`StopPolicy`].
    pub fn stop_with(&self, policy: StopPolicy) -> Vec<Unfired<T>> {
        let begun = self.started.begin_stop(policy, !inside_job());
        self.started.end_stop(begun)
    }
}

/// A stop that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    policy: StopPolicy,
    /// Whether it waits for threads and jobs.
    pub(super) waits: bool,
    /// Whether it is the first stop. `None`: it drains first.
    first: Option<bool>,
}

impl StopPolicy {
    /// The limit of a drain, and whether periodic timers run on.
    fn drain(self) -> Option<(Duration, bool)> {
        match self {
            Self::Drain(limit) => Some((limit, false)),
            Self::DrainWithPeriodic(limit) => Some((limit, true)),
            Self::HandBack | Self::FireAll => None,
        }
    }
}

/// Wakes the threads of the shards. Naps are not announced to the doorbell: the token of `unpark`
/// ends them.
fn wake(threads: &Mutex<Vec<JoinHandle<()>>>) {
    // If the lock is taken, its owner wakes them.
    if let Ok(threads) = threads.try_lock() {
        wake_all(&threads);
    }
}

fn wake_all(threads: &[JoinHandle<()>]) {
    for thread in threads {
        thread.thread().unpark();
    }
}

/// Wakes the threads, and waits for them. The lock is held until they have ended: so every stop
/// waits for them.
fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    wake_all(&threads);
    // A shard does not panic: it catches the panics of handlers.
    for thread in std::mem::take(&mut *threads) {
        _ = thread.join();
    }
}

impl<T: Send + 'static> Started<T> {
    /// StopMark, StopFence: from now on no timer is accepted. Waits for nobody.
    pub(super) fn begin_stop(&self, policy: StopPolicy, waits: bool) -> Begun {
        let shared = &self.engine.cells.shared;
        // In a process that was forked off nobody fires, and nobody is to be waited for. Its parent
        // fires what it has copies of.
        let (policy, waits) = if shared.is_forked() {
            (StopPolicy::HandBack, false)
        } else {
            (policy, waits)
        };
        let first = match policy.drain() {
            Some((_, runs_on)) if waits => {
                shared.close(runs_on);
                None
            }
            _ => Some(shared.stop(policy == StopPolicy::FireAll)),
        };
        Begun {
            policy,
            waits,
            first,
        }
    }

    /// The further steps of a stop. Returns what the first stop hands back.
    pub(super) fn end_stop(&self, begun: Begun) -> Vec<Unfired<T>> {
        let Begun {
            policy,
            waits,
            first,
        } = begun;
        let engine = &*self.engine;
        let shared = &engine.cells.shared;
        let first = first.unwrap_or_else(|| {
            if waits && let Some((limit, runs_on)) = policy.drain() {
                self.drain(limit, runs_on);
            }
            shared.stop(false) // StopMark, StopFence
        });
        self.end_threads(waits); // StopJoin
        let mut unfired = Vec::new();
        if first {
            // It begins as a job before it claims. So a `cancel_and_wait` that finds a timer
            // claimed waits for this job.
            during(&*self.engine.host(0), |_| unfired = self.claim_all(policy));
        } else if waits {
            shared.wait_for_claims(); // StopClaim
        }
        if waits {
            engine.in_flight.wait_for_all(); // StopWait
        }
        #[cfg(feature = "tracing")]
        if first {
            engine.hooks.tell(|events| {
                let timers = engine.stats().timers;
                events.stopped(policy, timers.fired, timers.handed_back);
            });
        }
        unfired
    }

    /// StopJoin. Ends the shards' threads; on a manual clock, waits for the turn that runs. Without
    /// `waits` it only wakes the threads.
    fn end_threads(&self, waits: bool) {
        let shared = &self.engine.cells.shared;
        for shard in 0..shared.shards() {
            shared.bell(shard).ring(0);
        }
        if shared.is_forked() {
            return;
        }
        if !waits {
            return wake(&self.threads);
        }
        join(&self.threads);
        if let Some(manual) = &self.manual
            && !broken(Fault::StopTurnNotAwaited)
        {
            // A turn holds the lock. A turn that begins later sees `stopped`.
            drop(manual.shards.lock());
        }
    }

    /// StopClaim. Claims every timer that is armed. Fires or returns it; ends periodic timers. Runs
    /// within a job.
    fn claim_all(&self, policy: StopPolicy) -> Vec<Unfired<T>> {
        let engine = &self.engine;
        let how = if policy == StopPolicy::FireAll {
            Event::Fired
        } else {
            Event::HandedBack
        };
        let (mut unfired, mut periodic) = (Vec::new(), Vec::new());
        engine.cells.with_local(|local| {
            engine
                .cells
                .claim_all(local, how, |due_at, content| match content {
                    Content::Payload(payload) => unfired.push(Unfired {
                        payload,
                        remaining: engine.remaining(due_at, due_at.left_ns()),
                    }),
                    Content::Repeat(repeat) => periodic.push(repeat),
                });
        });
        engine.cells.shared.note_claims();
        if policy == StopPolicy::FireAll {
            let unfired = std::mem::take(&mut unfired).into_iter();
            engine.fire_here(unfired.map(|unfired| unfired.payload).collect());
            for repeat in &mut periodic {
                if repeat.is_for_time_of_day() {
                    engine.run_for_time_of_day(repeat);
                }
            }
        }
        for repeat in periodic {
            engine.drop_repeat(repeat);
        }
        unfired
    }

    /// Ends the periodic timers, unless they run on, and waits for the others that are due within
    /// the limit. The service accepts no timer any more.
    fn drain(&self, limit: Duration, runs_on: bool) {
        let engine = &*self.engine;
        let (cells, shared) = (&engine.cells, &engine.cells.shared);
        let end_ns = engine
            .clock
            .now_ns()
            .saturating_add(crate::time::nanos(limit));
        // After the last deadline: what is beyond the budget of wake-ups fires at the next full
        // millisecond, and the workers need some time.
        let grace_ns = FULL_NS + FULL_NS.max(engine.tick.nanos());
        // What another stop has begun to fire is not this one's to end.
        if !runs_on && (!shared.fires_all() || broken(Fault::DrainEndsWhatFires)) {
            self.end_periodic();
        }
        // A cell that is armed from now on belongs to a schedule that takes it back. So one look at
        // each cell is enough for what is armed. (A timer that is moved to sooner, or resumed,
        // after the look is not waited for: docs/limits.md.)
        for cell in cells.indices() {
            let waits = || {
                let due_at = cells.with_local(|local| cells.payload_due_at(local, cell))?;
                Some(engine.tick.start(Tick(due_at.deadline())).0)
            };
            while waits().is_some_and(|at_ns| at_ns <= end_ns) && !shared.is_stopped() {
                if engine.clock.now_ns() > end_ns.saturating_add(grace_ns) {
                    return;
                }
                pause();
            }
        }
    }

    /// Ends all periodic timers, and drops their closures. In a job, so that another stop waits
    /// until that is done.
    fn end_periodic(&self) {
        let (engine, cells) = (&*self.engine, &self.engine.cells);
        during(&*self.engine.host(0), |_| {
            for cell in cells.indices() {
                if let Some(Some(Content::Repeat(repeat))) =
                    cells.with_local(|local| cells.end_periodic_at(local, cell))
                {
                    engine.drop_repeat(repeat);
                }
            }
        });
    }
}
