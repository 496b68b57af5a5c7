//! Shared: the service that the functions of this room use. It is the one that the calling thread
//! has entered, or else the global one, which the program may set before its first use.
//!
//! Ground rule: the global service is set once, through its `StartOnce`. A thread's own list of
//! entered services is touched by that thread alone.

use super::timers::{Home, Timers};
use crate::error::StartError;
use crate::service::start_once::StartOnce;
use crate::service::{Builder, TimerService};
use crate::sync::per_thread;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

static GLOBAL: StartOnce<Timers> = StartOnce::new();

per_thread! {
    /// How many services this thread has entered. Apart from the list: it needs no destructor, so
    /// the look at it is cheap, and allowed at any time.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Services, each with the number of its guard.
type Guarded = Vec<(u64, Timers)>;

per_thread! {
    /// The services that this thread has entered. The last one counts. Without a destructor: the
    /// destructors of other thread-locals may enter a service too.
    static ENTERED: RefCell<ManuallyDrop<Guarded>> = const {
        RefCell::new(ManuallyDrop::new(Vec::new()))
    };
}

/// Leaves the services that the thread has entered, when the thread ends: those of guards that were
/// forgotten, or are dropped later.
struct LeaveAll;

impl Drop for LeaveAll {
    fn drop(&mut self) {
        let left = ENTERED.with(|entered| std::mem::take(&mut **entered.borrow_mut()));
        drop(left);
    }
}

per_thread! {
    static LEAVE_ALL: LeaveAll = const { LeaveAll };
}

per_thread! {
    /// The next guard's number.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Why [`Timers::set_global`] has not set the shared service.
///
/// # Example
/// ```
/// use wheelwork::TimerService;
/// use wheelwork::future::{SetGlobalError, Timers};
///
/// # futures_lite::future::block_on(wheelwork::future::sleep(std::time::Duration::ZERO));
/// let error = Timers::set_global(TimerService::builder()).unwrap_err();
/// assert!(matches!(error, SetGlobalError::TooLate));
/// assert_eq!(error.to_string(), "the shared service has been started or set already");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SetGlobalError {
    /// The shared service has been set, or its first use has started it.
    TooLate,
    /// The service did not start. Nothing is set.
    Start(StartError),
}

impl fmt::Display for SetGlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate => f.write_str("the shared service has been started or set already"),
            Self::Start(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for SetGlobalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLate => None,
            Self::Start(why) => why.source(),
        }
    }
}

/// The calling thread uses a service for as long as this value lives. [`Timers::enter`] makes one.
///
/// It stays on its thread: it is not `Send`. Guards may be dropped in any order.
///
/// # Example
/// See [`Timers::enter`].
#[derive(Debug)]
#[must_use = "the service is left when this is dropped"]
pub struct Entered {
    number: u64,
    /// Not `Send`: its drop takes the service from the list of its own thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // At the thread's end `LeaveAll` may have taken it.
        let left = ENTERED.with(|entered| {
            let mut entered = entered.borrow_mut();
            let at = entered
                .iter()
                .position(|&(number, _)| number == self.number)?;
            let left = entered.remove(at);
            if entered.is_empty() {
                // Nobody frees its memory later.
                **entered = Vec::new();
            }
            Some(left)
        });
        DEPTH.with(|depth| depth.set(depth.get() - 1));
        // The last reference stops the service, which drops wakers: they may look at the list.
        drop(left);
    }
}

impl Timers {
    /// The service that the functions of this module use, on threads that have not
    /// [entered](Self::enter) another one. The first call starts it, unless
    /// [`set_global`](Self::set_global) did. It never ends.
    ///
    /// # Errors
    /// The error of its start: too many threads, say. Nothing is kept of it. The next call tries to
    /// start the service again, or [`set_global`](Self::set_global) sets another one.
    ///
    /// # Example
    /// ```
    /// let timers = wheelwork::future::Timers::global().expect("there are threads");
    /// assert!(timers.handle().shards() > 0);
    /// ```
    pub fn global() -> Result<&'static Self, StartError> {
        let start = || Self::start(TimerService::builder().name("wheelwork-async").untold());
        // Told when it is there: the subscriber may use it.
        GLOBAL.get_or_start(start, |timers| timers.handle().engine.tell_start())
    }

    /// Starts the service that the functions of this module use, with settings of yours: its tick,
    /// clock, dispatch and shards. To be called once, by the program, before the first use.
    ///
    /// If several threads set or use the shared service at the same time, one of them decides which
    /// service it is. Each of the others that sets one gets [`TooLate`](SetGlobalError::TooLate),
    /// and the service that it has started is stopped.
    ///
    /// On a [`ManualClock`](crate::ManualClock) all threads of the program wait for whoever moves
    /// the clock. For a test among others in one process [`enter`](Self::enter) is better, or
    /// [`testing::block_on`](crate::testing::block_on).
    ///
    /// # Errors
    /// [`TooLate`](SetGlobalError::TooLate), or the error of the start. After the latter nothing is
    /// set, and a further call may set it.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    /// use wheelwork::future::{Timers, sleep};
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     Timers::set_global(TimerService::builder().tick(Duration::from_micros(100)))?;
    ///     futures_lite::future::block_on(sleep(Duration::from_micros(300)));
    ///     assert_eq!(Timers::global().unwrap().handle().stats().timers.fired, 1);
    ///     Ok(())
    /// }
    /// ```
    pub fn set_global(builder: Builder) -> Result<&'static Self, SetGlobalError> {
        if GLOBAL.get().is_some() {
            return Err(SetGlobalError::TooLate);
        }
        let own = Self::start(builder.untold()).map_err(SetGlobalError::Start)?;
        // Drops, and so stops, the own one if there is another one by now.
        let timers = GLOBAL.set(own).ok_or(SetGlobalError::TooLate)?;
        timers.handle().engine.tell_start();
        Ok(timers)
    }

    /// Makes this service the one that the functions of this module use on this thread, until the
    /// value that is returned is dropped. Other threads do not notice.
    ///
    /// It is for tests: code that calls [`sleep`](super::sleep()) runs on the test's own clock,
    /// also beside other tests in the same process. The function decides which service a future
    /// has; where the future is polled does not matter. So this works with a runtime of one thread,
    /// such as that of `#[tokio::test]`.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::future::{Timers, sleep};
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let entered = timers.enter();
    /// let an_hour = sleep(Duration::from_secs(3_600));
    /// drop(entered);
    /// clock.advance(Duration::from_secs(3_600));
    /// assert!(an_hour.is_elapsed());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn enter(&self) -> Entered {
        let number = NEXT.with(|next| next.replace(next.get() + 1));
        // In the destructor of a thread-local it may be gone: then only the guard leaves.
        let _ = LEAVE_ALL.try_with(|_| ());
        ENTERED.with(|entered| entered.borrow_mut().push((number, self.clone())));
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Entered {
            number,
            thread: PhantomData,
        }
    }

    /// The service that the functions of this module use on this thread: the one that was
    /// [entered](Self::enter) last, or the shared one. Its clock has the time that a test moves.
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// use wheelwork::future::Timers;
    ///
    /// /// Runs in a test without real time.
    /// fn is_over(deadline: Instant) -> bool {
    ///     Timers::current().handle().now() >= deadline
    /// }
    /// assert!(!is_over(Instant::now() + Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn current() -> Self {
        match Self::shared() {
            Home::Global(timers) => timers.clone(),
            Home::Own(timers) => timers,
        }
    }

    pub(super) fn shared() -> Home {
        if DEPTH.with(Cell::get) > 0
            && let Some(timers) = entered()
        {
            return Home::Own(timers);
        }
        match Self::global() {
            Ok(timers) => Home::Global(timers),
            Err(error) => panic!("wheelwork's service for futures could not be started: {error}"),
        }
    }
}

/// The service that this thread has entered last.
#[cold]
fn entered() -> Option<Timers> {
    ENTERED.with(|entered| Some(entered.borrow().last()?.1.clone()))
}
