//! Global: callbacks without a service of one's own, and the service that all of them share.

use super::handle::{ServiceHandle, TimerService};
use super::start_once::StartOnce;
use crate::engine::id::TimerId;
use crate::engine::task::Task;
use crate::error::{ScheduleError, StartError};
use std::mem::ManuallyDrop;
use std::time::Duration;

/// It never ends: so what ends a service is compiled for those that have one of their own.
static GLOBAL: StartOnce<ManuallyDrop<TimerService>> = StartOnce::new();

/// Runs a closure after `delay`, on the service for callbacks that the whole process shares.
///
/// It is [`schedule`](ServiceHandle::schedule) on [`global`], and all that is said there holds, and
/// a panic is caught. [`global`] has the calls for the id that is returned:
/// [`cancel`](ServiceHandle::cancel), [`reschedule`](ServiceHandle::reschedule) and others. A
/// closure that has not run when the process ends does not run.
///
/// Cost: that of [`schedule`](ServiceHandle::schedule). The first call starts the service.
///
/// # Errors
/// [`NotStarted`](ScheduleError::NotStarted) if the service could not be started, which the next
/// call tries again. [`Full`](ScheduleError::Full) if no more timers may be pending.
/// [`Stopped`](ScheduleError::Stopped) in a process that was forked off, as
/// [`schedule`](ServiceHandle::schedule) says. The error has the closure.
///
/// # Example
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let (send, receive) = mpsc::channel();
/// wheelwork::after(Duration::from_millis(5), move || send.send("due").unwrap())?;
/// assert_eq!(receive.recv()?, "due");
///
/// let id = wheelwork::after(Duration::from_secs(30), || println!("no answer in 30 s"))?;
/// assert!(wheelwork::global()?.cancel(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(not(debug_assertions), inline)]
pub fn after(
    delay: Duration,
    task: impl FnOnce() + Send + 'static,
) -> Result<TimerId, ScheduleError<Task>> {
    after_on(global(), delay, Task::new(task))
}

#[cfg_attr(not(debug_assertions), inline)]
fn after_on(
    service: Result<&ServiceHandle, StartError>,
    delay: Duration,
    task: Task,
) -> Result<TimerId, ScheduleError<Task>> {
    match service {
        Ok(service) => service.schedule(delay, task),
        Err(_) => Err(ScheduleError::NotStarted(task)),
    }
}

/// The service for callbacks that the whole process shares, which [`after`] uses. The first call
/// starts it. It never ends.
///
/// It has the default tick and one shard, and runs closures on the pool of
/// [`Dispatch::Rayon`](crate::Dispatch::Rayon). With the feature `async`, futures have another
/// service that all share: it wakes tasks on its own thread.
///
/// Cost: a thread, which sleeps while nothing is due; and the pool's, unless another service has
/// started it. They have the cores of the thread that calls first.
///
/// # Errors
/// The error of its start: too many threads, say. Nothing is kept of it, and the next call tries to
/// start the service again.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::global()?;
/// let id = service.every(Duration::from_secs(60)).start(|| println!("a minute"))?;
/// assert!(service.cancel(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(not(debug_assertions), inline)]
pub fn global() -> Result<&'static ServiceHandle, StartError> {
    let start = || {
        let builder = TimerService::builder().name("wheelwork-after");
        builder.shards(1).untold().start().map(ManuallyDrop::new)
    };
    // Told when it is there: the subscriber may call `after`.
    let service = GLOBAL.get_or_start(start, |service| service.engine.tell_start())?;
    Ok(service)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_did_not_start_gives_the_closure_back() {
        let (send, receive) = std::sync::mpsc::channel();
        let task = Task::new(move || send.send("run by the caller").unwrap());
        let refused = after_on(Err(StartError::Shards(0)), Duration::ZERO, task).unwrap_err();
        assert!(matches!(refused, ScheduleError::NotStarted(_)));
        assert!(receive.try_recv().is_err());
        refused.into_payload().run();
        assert_eq!(receive.try_recv(), Ok("run by the caller"));
    }
}
