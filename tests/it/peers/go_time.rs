//! What users of Go's `time` and of `context.WithTimeout` rely on.

use super::{Log, MS, Task, service, timers};
use std::future::pending;
use std::ops::ControlFlow::{Break, Continue};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use wheelwork::{ManualClock, Missed, PeriodicRun, TimerService};

#[test]
fn after_func_runs_its_function_once() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(10 * MS, log.task(())).unwrap();
    clock.advance(10 * MS);
    assert_eq!(log.take().len(), 1);
    clock.advance(100 * MS);
    assert_eq!(log.take().len(), 0);
}

#[test]
fn stop_says_whether_it_stopped_the_timer() {
    let (service, clock) = service();
    let log = Log::new();
    let id = service.schedule(10 * MS, log.task(1)).unwrap();
    assert!(service.cancel(id), "it was active");
    assert!(!service.cancel(id), "it was stopped before");
    let id = service.schedule(10 * MS, log.task(2)).unwrap();
    clock.advance(10 * MS);
    assert!(!service.cancel(id), "it has fired");
    assert_eq!(log.take(), [2]);
}

#[test]
fn a_reset_of_an_active_timer_moves_it() {
    let (service, clock) = service();
    let log = Log::new();
    let id = service.schedule(10 * MS, log.task(())).unwrap();
    assert!(service.reschedule(id, 30 * MS));
    clock.advance(29 * MS);
    assert_eq!(log.take().len(), 0);
    clock.advance(MS);
    assert_eq!(log.take().len(), 1);
}

/// A difference: in Go a `Reset` that returns false has armed the timer again all the same. Here
/// the closure is used up.
#[test]
fn a_reset_of_a_timer_that_fired_says_so_and_arms_nothing() {
    let (service, clock) = service();
    let log = Log::new();
    let id = service.schedule(MS, log.task(())).unwrap();
    clock.advance(MS);
    assert!(!service.reschedule(id, MS));
    clock.advance(10 * MS);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn a_timer_of_no_time_fires_as_soon_as_it_can() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(Duration::ZERO, log.task("zero")).unwrap();
    clock.advance(MS * 20);
    service
        .schedule_at(clock.now() - 10 * MS, log.task("past"))
        .unwrap();
    clock.advance(MS);
    assert_eq!(log.take(), ["zero", "past"]);
}

/// Since Go 1.23: after a `Stop` or `Reset` no stale value is received.
#[test]
fn nothing_comes_through_a_channel_after_a_cancel() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone()).shards(1);
    let (builder, due) = builder.on_expire_channel::<&str>(None);
    let service = builder.start().unwrap();
    let (stopped, moved) = (
        service.schedule(10 * MS, "stopped").unwrap(),
        service.schedule(10 * MS, "moved").unwrap(),
    );
    assert!(service.cancel(stopped) && service.reschedule(moved, 20 * MS));
    clock.advance(19 * MS);
    assert!(due.try_recv().is_err());
    clock.advance(MS);
    assert_eq!(due.try_recv().unwrap(), ["moved"]);
}

/// The ticker of a receiver that was away: ticks are dropped to make up for it.
#[test]
fn a_ticker_drops_ticks_for_a_slow_receiver() {
    let (timers, clock) = timers();
    let task = Task::new();
    let mut ticker = timers.interval(10 * MS).first(10 * MS);
    assert!(task.with(|context| ticker.poll_tick(context)).is_pending());
    clock.advance(45 * MS);
    let mut ready = 0;
    while task.with(|context| ticker.poll_tick(context)).is_ready() {
        ready += 1;
    }
    assert_eq!(ready, 1, "four were due");
    clock.advance(5 * MS);
    let at = task.with(|context| ticker.poll_tick(context));
    assert_eq!(at, Poll::Ready(clock.now()), "and it is in step again");
}

#[test]
fn a_ticker_that_was_stopped_ticks_no_more() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    let ticker = service
        .every(10 * MS)
        .start(move || noted.note(()))
        .unwrap();
    clock.advance(35 * MS);
    assert_eq!(log.take().len(), 3);
    assert!(service.cancel(ticker));
    clock.advance(100 * MS);
    assert_eq!(log.take().len(), 0);
}

/// `ticker.Stop()` inside its own loop.
#[test]
fn a_ticker_may_be_stopped_from_inside() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    let mut left = 3;
    let tick = move |_: &mut PeriodicRun<'_>| {
        noted.note(());
        left -= 1;
        if left == 0 { Break(()) } else { Continue(()) }
    };
    let ticker = service.every(10 * MS).start_while(tick).unwrap();
    clock.advance(100 * MS);
    assert_eq!((log.take().len(), service.is_pending(ticker)), (3, false));
}

/// `ticker.Reset(d)` inside its own loop: the next tick comes after the new period.
#[test]
fn a_reset_of_a_ticker_from_inside_gives_it_a_new_period() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, at) = (log.clone(), clock.clone());
    let tick = move |run: &mut PeriodicRun<'_>| {
        noted.note(at.elapsed());
        if at.elapsed() == 20 * MS {
            run.set_period(3 * MS);
        }
        Continue(())
    };
    service.every(10 * MS).start_while(tick).unwrap();
    clock.advance(30 * MS);
    assert_eq!(log.take(), [10, 20, 23, 26, 29].map(|ms| MS * ms));
}

/// The same for the ticker of a receiver. Between two ticks the new period counts from the reset.
#[test]
fn a_reset_of_a_receivers_ticker_stops_it_and_starts_a_new_period() {
    let (timers, clock) = timers();
    let (task, start) = (Task::new(), clock.now());
    let mut ticker = timers.interval(10 * MS).first(10 * MS);
    assert!(task.with(|context| ticker.poll_tick(context)).is_pending());
    clock.advance(7 * MS);
    ticker.set_period(20 * MS);
    ticker.reset();
    for at in [27, 47] {
        clock.advance(19 * MS);
        assert!(task.with(|context| ticker.poll_tick(context)).is_pending());
        clock.advance(MS);
        let tick = task.with(|context| ticker.poll_tick(context));
        assert_eq!(tick, Poll::Ready(start + MS * at));
    }
}

/// `AfterFunc` without a service of one's own. It runs elsewhere than its caller, as a goroutine
/// does.
#[test]
fn after_runs_its_function_elsewhere() {
    let (send, receive) = mpsc::channel();
    let run = move || send.send(thread::current().id()).unwrap();
    wheelwork::after(MS, run).unwrap();
    assert_ne!(receive.recv().unwrap(), thread::current().id());
    assert!(receive.recv().is_err(), "once: the function is gone");
}

/// `Stop` and `Reset` of what `AfterFunc` returns.
#[test]
fn what_after_has_armed_can_be_stopped_and_reset() {
    let (service, hour) = (wheelwork::global().unwrap(), Duration::from_secs(3_600));
    let (send, receive) = mpsc::channel();
    let stopped = send.clone();
    let stopped = wheelwork::after(hour, move || stopped.send("stopped").unwrap()).unwrap();
    let reset = wheelwork::after(hour, move || send.send("reset").unwrap()).unwrap();
    assert!(service.cancel(stopped) && !service.cancel(stopped));
    assert!(service.reschedule(reset, MS));
    assert_eq!(receive.iter().collect::<Vec<_>>(), ["reset"]);
    assert!(!service.cancel(reset), "it has run");
}

/// A difference: `NewTicker` panics.
#[test]
fn a_ticker_without_a_period_runs_each_tick() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    service
        .every(Duration::ZERO)
        .missed(Missed::Skip)
        .start(move || noted.note(()))
        .unwrap();
    clock.advance(5 * MS);
    assert_eq!(log.take().len(), 5);
}

/// A context: what is cancelled when its time is over, by whoever comes first.
#[derive(Default)]
struct Context(Mutex<Option<&'static str>>);

impl Context {
    fn end(&self, why: &'static str) {
        self.0.lock().unwrap().get_or_insert(why);
    }

    fn error(&self) -> Option<&'static str> {
        *self.0.lock().unwrap()
    }
}

fn with_timeout(service: &TimerService, delay: Duration) -> (Arc<Context>, wheelwork::TimerId) {
    let context = Arc::new(Context::default());
    let ended = context.clone();
    let timer = service.schedule(delay, move || ended.end("deadline exceeded"));
    (context, timer.unwrap())
}

#[test]
fn a_context_ends_at_its_deadline_or_by_its_cancel() {
    let (service, clock) = service();
    let (first, _) = with_timeout(&service, 10 * MS);
    let (second, timer) = with_timeout(&service, 10 * MS);
    if service.cancel(timer) {
        second.end("canceled");
    }
    assert_eq!((first.error(), second.error()), (None, Some("canceled")));
    clock.advance(10 * MS);
    assert_eq!(first.error(), Some("deadline exceeded"));
    assert_eq!(second.error(), Some("canceled"));
}

/// Why Go asks for `defer cancel()`: it releases what belongs to the context at once. Here a guard
/// does.
#[test]
fn a_context_that_is_done_early_leaves_nothing_behind() {
    let (service, clock) = service();
    let (context, timer) = with_timeout(&service, 1_000 * MS);
    {
        let _cancel = service.guard(timer);
        clock.advance(10 * MS);
    }
    assert!(service.is_empty() && Arc::strong_count(&context) == 1);
}

/// The deadline of a parent holds for its child, whatever the child's own.
#[test]
fn the_earlier_of_two_deadlines_counts() {
    let (timers, clock) = timers();
    let task = Task::new();
    let child = timers.timeout(50 * MS, pending::<()>());
    let mut parent = pin!(timers.timeout(10 * MS, child));
    assert!(task.poll(&mut parent).is_pending());
    clock.advance(10 * MS);
    assert!(matches!(task.poll(&mut parent), Poll::Ready(Err(_))));
    assert!(
        timers.handle().len() <= 1,
        "the child's, until it is dropped"
    );
}
