//! Coalesced: a closure that many calls run once.

use super::due::{Called, DueRun};
use crate::engine::task::Task;
use crate::error::ScheduleError;
use crate::service::ServiceHandle;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::time::{NANOS_MAX, nanos};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// When a run comes that is called for.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// When no call has come for `quiet_ns`, and `longest_ns` after the first call at the latest.
    Debounce { quiet_ns: u64, longest_ns: u64 },
    /// At once, but no sooner than `gap_ns` after the run before it has begun.
    Throttle { gap_ns: u64 },
}

/// What the clones share.
struct Closure {
    service: ServiceHandle,
    pace: Pace,
    due: DueRun,
    /// The owner's. Throttle: the run comes no sooner than this.
    next_ns: AtomicU64,
    /// The owner's. The service has refused the timer that is about to be dropped.
    is_refused: AtomicBool,
    run: Box<dyn Fn() + Send + Sync>,
}

/// A closure that many calls run once. [`debounce`](ServiceHandle::debounce),
/// [`debounce_within`](ServiceHandle::debounce_within) and [`throttle`](ServiceHandle::throttle)
/// make one. Clones share the closure.
///
/// [`call`](Self::call) calls for a run, on any thread. The closure runs where the tasks of its
/// service run, never inside the call. Two runs are never in progress at once. Each call is
/// followed by a run that begins after it, so what was written before the call is seen by the run.
/// (An executor that drops its job drops the run that is due with it.)
///
/// Dropping it, and all its clones, does not call a run off; [`cancel`](Self::cancel) does.
///
/// # Panics and shutdown
/// A run that panics is counted and reported, like any task. Later calls lead to further runs.
///
/// When the service stops, a run that waits is treated as the pending timer that it is: a stop
/// hands it back, drops it, or fires it. A run that cannot wait any longer, because the service has
/// been stopped or is full, comes at once. This may happen to a run for which more calls have come
/// since its timer was armed, and to one that was called for during a run.
///
/// # Example
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let (send, saved) = mpsc::channel();
/// let save = service.debounce(Duration::from_millis(5), move || {
///     let _ = send.send("saved");
/// });
/// for _letter in "typed in a hurry".chars() {
///     save.call()?;
/// }
/// assert_eq!(saved.recv()?, "saved");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Coalesced(Arc<Closure>);

impl ServiceHandle {
    /// A closure that runs when it has not been called for `quiet`: to save what is typed, to read
    /// a folder that changes. As long as calls come, it does not run:
    /// [`debounce_within`](Self::debounce_within) has a limit to that.
    ///
    /// Only services of closures have this call and the two below.
    ///
    /// Cost: an allocation, or two if the closure has captures. See [`Coalesced::call`].
    ///
    /// # Example
    /// See [`Coalesced`].
    pub fn debounce(&self, quiet: Duration, run: impl Fn() + Send + Sync + 'static) -> Coalesced {
        self.debounce_within(quiet, Duration::MAX, run)
    }

    /// A closure that runs when it has not been called for `quiet`, but at the latest when
    /// `longest` has passed since the first call that no run has followed. If calls come during a
    /// run, that time counts from the end of the run. Otherwise like [`debounce`](Self::debounce).
    ///
    /// # Example
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// const MS: Duration = Duration::from_millis(1);
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let counter = runs.clone();
    /// let index = service.debounce_within(300 * MS, 2_000 * MS, move || {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// // Calls without a pause: it runs every two seconds.
    /// for _ in 0..41 {
    ///     index.call()?;
    ///     clock.advance(100 * MS);
    /// }
    /// assert_eq!(runs.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn debounce_within(
        &self,
        quiet: Duration,
        longest: Duration,
        run: impl Fn() + Send + Sync + 'static,
    ) -> Coalesced {
        let pace = Pace::Debounce {
            quiet_ns: nanos(quiet),
            longest_ns: nanos(longest),
        };
        Coalesced::new(self, pace, run)
    }

    /// A closure that runs at most once in `gap`: to report progress, to draw. The first call runs
    /// it at the next tick. Calls that come within `gap` after the beginning of a run are followed
    /// by one run when `gap` is over. So the last call is always followed by a run.
    ///
    /// A stream has a pace of its own: `StreamExt::throttle`, of the feature `stream`, which loses
    /// no item.
    ///
    /// Cost: as [`debounce`](Self::debounce).
    ///
    /// # Example
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use std::time::Duration;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// const MS: Duration = Duration::from_millis(1);
    /// let clock = ManualClock::new();
    /// let service = TimerService::builder().clock(clock.clone()).start()?;
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let counter = runs.clone();
    /// let progress = service.throttle(100 * MS, move || {
    ///     counter.fetch_add(1, Ordering::Relaxed);
    /// });
    /// progress.call()?;
    /// clock.advance(MS);
    /// assert_eq!(runs.load(Ordering::Relaxed), 1);
    /// for _ in 0..50 {
    ///     progress.call()?;
    ///     clock.advance(MS);
    /// }
    /// assert_eq!(runs.load(Ordering::Relaxed), 1);
    /// clock.advance(50 * MS);
    /// assert_eq!(runs.load(Ordering::Relaxed), 2, "the last call is not lost");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn throttle(&self, gap: Duration, run: impl Fn() + Send + Sync + 'static) -> Coalesced {
        let gap_ns = nanos(gap);
        Coalesced::new(self, Pace::Throttle { gap_ns }, run)
    }
}

impl Coalesced {
    fn new(service: &ServiceHandle, pace: Pace, run: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Closure {
            service: service.clone(),
            pace,
            due: DueRun::new(),
            next_ns: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            run: Box::new(run),
        }))
    }

    /// Calls for a run.
    ///
    /// Any thread may call this, also during a run. It takes no lock, with the exceptions that
    /// [`cancel`](ServiceHandle::cancel) names. Cost: a reading of the clock and two atomic
    /// exchanges. If no timer is armed for a run, a [`schedule`](ServiceHandle::schedule) too.
    /// Calls that come while one is armed do not move it: it looks how long ago the last call was
    /// when it is due, and arms the next timer.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) and [`Full`](ScheduleError::Full), as for
    /// [`schedule`](ServiceHandle::schedule). So is a call during a run that comes at once because
    /// the service is stopped or full. After `Full`, the next call that succeeds leads to the run
    /// for this one too. The same holds for a call that another thread makes while the service
    /// refuses this one, and that returns `Ok`.
    ///
    /// While the timer of an earlier call is there, a call returns `Ok`. No run follows if a stop
    /// has handed that timer back, unless you run the task that was handed back. None follows in a
    /// process that was forked off.
    pub fn call(&self) -> Result<(), ScheduleError<()>> {
        let closure = &self.0;
        let now_ns = closure.service.soon_ns();
        let due_ns = match closure.pace {
            Pace::Debounce { quiet_ns, .. } => now_ns.saturating_add(quiet_ns),
            Pace::Throttle { .. } => now_ns,
        };
        match closure.due.call(now_ns, due_ns) {
            Called::Own => {}
            Called::Seen => return Ok(()),
            Called::Late if closure.service.is_stopped() => return Err(ScheduleError::Stopped(())),
            Called::Late => return Err(ScheduleError::Full(())),
        }
        closure.due.begin_wait(now_ns);
        let armed = closure.arm(closure.at_ns(due_ns));
        armed.inspect_err(|_| closure.due.give_up())
    }

    /// Calls the run off that is called for. Returns whether there was one. A run in progress goes
    /// on. What the closure has captured may stay until the time of the run.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let save = service.debounce(Duration::from_secs(5), || unreachable!());
    /// save.call()?;
    /// assert!(save.cancel());
    /// assert!(!save.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.0.due.call_off()
    }
}

impl fmt::Debug for Coalesced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalesced")
            .field("pace", &self.0.pace)
            .finish_non_exhaustive()
    }
}

/// The owner is a timer. If the timer ends without a run, its calls have been called off with it.
struct Owned(Option<Arc<Closure>>);

impl Owned {
    fn fire(mut self) {
        if let Some(closure) = self.0.take() {
            closure.fire();
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(closure) = self.0.take() {
            closure.due.call_off();
            closure.leave_to_next_call();
        }
    }
}

/// Gives the closure up, if a run panics.
struct Unwinding<'a>(&'a Arc<Closure>);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.0.leave_to_next_call();
    }
}

impl Closure {
    /// When the run comes that is called for. The owner's.
    fn at_ns(&self, due_ns: u64) -> u64 {
        match self.pace {
            Pace::Debounce { longest_ns, .. } => {
                due_ns.min(self.due.since_ns().saturating_add(longest_ns))
            }
            // Ordering: Relaxed. The owner's: what makes another one the owner publishes it.
            Pace::Throttle { .. } => due_ns.max(self.next_ns.load(Ordering::Relaxed)),
        }
        .min(NANOS_MAX)
    }

    /// Arms a timer, which is the owner then. If the service refuses it, the caller still is.
    fn arm(self: &Arc<Self>, at_ns: u64) -> Result<(), ScheduleError<()>> {
        let owned = Owned(Some(self.clone()));
        let task = Task::new(move || owned.fire());
        let Err(refused) = self.service.schedule_at_ns(at_ns, task) else {
            return Ok(());
        };
        // There is no timer, so the caller alone reads this.
        // Ordering: Relaxed. This thread reads it.
        self.is_refused.store(true, Ordering::Relaxed);
        Err(refused.map(Task::run))
    }

    /// The timer is due.
    fn fire(self: Arc<Self>) {
        // Ordering: Relaxed. The owner's.
        if self.is_refused.load(Ordering::Relaxed) {
            self.is_refused.store(false, Ordering::Relaxed);
            return;
        }
        while let Some(due_ns) = self.due.due_ns() {
            let at_ns = self.at_ns(due_ns);
            if self.service.now_ns() < at_ns && self.arm(at_ns).is_ok() {
                return;
            }
            if self.due.take(due_ns) {
                self.run();
                break;
            }
        }
        if self.leave().is_err() {
            self.run_last();
        }
    }

    fn run(self: &Arc<Self>) {
        if let Pace::Throttle { gap_ns } = self.pace {
            let next_ns = self.service.now_ns().saturating_add(gap_ns);
            // Ordering: Relaxed. The owner's.
            self.next_ns.store(next_ns, Ordering::Relaxed);
        }
        let unwinding = Unwinding(self);
        (self.run)();
        std::mem::forget(unwinding);
    }

    /// Gives the closure up after a run. If calls have come meanwhile, it arms a timer for the next
    /// run. If the service refuses that, the caller owns the closure still.
    fn leave(self: &Arc<Self>) -> Result<(), ScheduleError<()>> {
        let Some(due_ns) = self.due.leave() else {
            return Ok(());
        };
        self.due.begin_wait(self.service.now_ns());
        self.arm(self.at_ns(due_ns))
    }

    /// As `leave`. If the service refuses the timer, the next call arms one.
    fn leave_to_next_call(self: &Arc<Self>) {
        if self.leave().is_err() {
            self.due.give_up();
        }
    }

    /// The service takes no timer for the next run: it comes at once. Calls during this run are
    /// refused.
    fn run_last(self: &Arc<Self>) {
        self.due.begin_last();
        if self.due.take_any() {
            self.run();
        }
        self.due.give_up();
    }
}
