//! Promise: durable timers tell the crate `tracing` of handlers that fail, of dead letters, and of
//! a store that fails; and a subscriber that panics harms nothing. A handler runs in a span, and in
//! the trace in which its timer was armed.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Metadata, Subscriber, info};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use wheelwork::ManualClock;
use wheelwork_durable::contract::Store;
use wheelwork_durable::{Durable, DurableBuilder, DurableError, Memory, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);

/// A layer that writes down what is worth a warning.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<String>>>);

impl Book {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}"),
            "id" => Ok(()),
            name => write!(self.0, " {name}={value:?}"),
        }
        .unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Book {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut fields = Fields(format!("{}:", event.metadata().level()));
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
    }
}

#[test]
fn what_fails_is_told() {
    let (clock, book, store) = (ManualClock::new(), Book::default(), Memory::new());
    with_default(Registry::default().with(book.clone()), || {
        let timers = Durable::builder(store.clone())
            .clock(clock.clone())
            .retry_policy(RetryPolicy::new().attempts(2))
            .on("mail", |_| Err("no server".into()))
            .start()
            .unwrap();
        assert_eq!(book.lines(), [""; 0]);
        timers.schedule("mail", SECOND, "hello").unwrap();
        clock.advance(SECOND);
        let failed = "a durable timer has failed kind=\"mail\"";
        let first = format!("WARN: {failed} attempt=1 why=\"no server\"");
        assert_eq!(book.lines(), [first]);
        clock.advance(2 * SECOND);
        let second = format!("WARN: {failed} attempt=2 why=\"no server\"");
        let dead = "ERROR: a durable timer is given up kind=\"mail\" attempts=2 \
                    cause=its handler failed: no server";
        assert_eq!(book.lines(), [second, dead.to_string()]);

        // Another one takes the store over.
        store.clone().acquire().unwrap();
        let error = timers.schedule("mail", SECOND, "hello").unwrap_err();
        assert!(matches!(error, DurableError::Store(_)), "{error}");
        let lines = book.lines();
        let store = "ERROR: the store of durable timers has failed: nothing fires until it is \
                     opened again error=this store in memory: it is open already, here or in another process";
        assert_eq!(lines, [store]);
    });
}

/// A layer that panics.
struct Panics;

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        panic_for(event.metadata());
    }

    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        panic_for(span.metadata());
    }
}

/// Panics if it is told of durable timers.
fn panic_for(metadata: &Metadata<'_>) {
    if metadata
        .module_path()
        .is_some_and(|path| path.contains("durable"))
    {
        std::panic::resume_unwind(Box::new("a subscriber"));
    }
}

/// A layer that panics when a span of ours is entered or left.
struct PanicsInside;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for PanicsInside {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        panic_for(context.metadata(id).unwrap());
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        panic_for(context.metadata(id).unwrap());
    }
}

#[test]
fn a_subscriber_that_panics_harms_nothing() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    with_default(Registry::default().with(Panics), || {
        let timers = Durable::builder(store.clone())
            .clock(clock.clone())
            .retry_policy(RetryPolicy::never())
            .on("mail", |_| Err("no server".into()))
            .start()
            .unwrap();
        timers.schedule("mail", SECOND, "hello").unwrap();
        clock.advance(10 * SECOND);
        assert_eq!(timers.dead_letters(None, 10).unwrap().len(), 1);
        store.clone().acquire().unwrap();
        assert!(timers.schedule("mail", SECOND, "hello").is_err());
        assert!(timers.failure().is_some());
    });
}

#[test]
fn a_subscriber_that_panics_inside_a_span_harms_nothing() {
    let clock = ManualClock::new();
    with_default(Registry::default().with(PanicsInside), || {
        let timers = Durable::builder(Memory::new())
            .clock(clock.clone())
            .on("mail", |_| Ok(()))
            .on_batch("batch", |all| all.iter().map(|_| Ok(())).collect())
            .start()
            .unwrap();
        timers.schedule("mail", SECOND, "hello").unwrap();
        timers.schedule("batch", SECOND, "hello").unwrap();
        clock.advance(10 * SECOND);
        assert_eq!(timers.stats().done, 2);
    });
}

/// A layer that writes down in which spans events are, and which spans there are.
#[derive(Clone, Default)]
struct Spans(Book);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if span.metadata().target() == "wheelwork" {
            let mut fields = Fields(span.metadata().name().to_owned());
            span.record(&mut fields);
            let trace = TRACE.with_borrow(Clone::clone);
            self.note(format!("{} in {trace:?}", fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() == "test" {
            let span = context.lookup_current().map(|span| span.name());
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            let trace = TRACE.with_borrow(Clone::clone);
            self.note(format!("{} in {span:?} in {trace:?}", fields.0.trim()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let metadata = context.metadata(&id).unwrap();
        if metadata.target() == "wheelwork" {
            self.note(format!("{} ends", metadata.name()));
        }
    }
}

impl Spans {
    fn note(&self, line: String) {
        self.0.0.lock().unwrap().push(line);
    }
}

thread_local! {
    /// The trace in which this thread is: the last two digits of a header.
    static TRACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Leaves the trace.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        TRACE.set(None);
    }
}

fn header(span: &str) -> String {
    format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{span}f067aa0ba902b7-01")
}

/// A program whose calls are in the trace of their thread, and whose handlers are in that of their
/// timer.
fn traced(clock: &ManualClock) -> DurableBuilder<Memory> {
    Durable::builder(Memory::new())
        .clock(clock.clone())
        .trace_context(|| TRACE.with_borrow(|trace| Some(header(trace.as_deref()?))))
        .restore_trace(|trace| {
            assert_eq!(trace.len(), 55);
            TRACE.set(Some(trace[36..38].to_owned()));
            Restored
        })
}

/// A future that is polled twice.
struct Twice(bool);

impl Future for Twice {
    type Output = wheelwork_durable::HandlerResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> task::Poll<Self::Output> {
        info!(target: "test", "polled");
        if std::mem::replace(&mut self.0, true) {
            return task::Poll::Ready(Ok(()));
        }
        task::Poll::Pending
    }
}

#[test]
fn a_handler_runs_in_a_span_and_in_the_trace_of_its_timer() {
    let (clock, spans) = (ManualClock::new(), Spans::default());
    let lines = spans.0.clone();
    with_default(Registry::default().with(spans), || {
        let timers = traced(&clock)
            .on("mail", |mail| {
                info!(target: "test", "handled");
                match mail.attempt() {
                    1 => Err("no server".into()),
                    _ => Ok(()),
                }
            })
            .start()
            .unwrap();
        TRACE.set(Some("aa".into()));
        timers.schedule("mail", SECOND, "").unwrap();
        TRACE.set(None);
        clock.advance(10 * SECOND);
        timers.schedule("mail", SECOND, "").unwrap();
        clock.advance(SECOND);
    });
    let span = |attempt| {
        let trace = header("aa");
        format!("timer kind=\"mail\" attempt={attempt} traceparent=\"{trace}\" in Some(\"aa\")")
    };
    let handled = "handled in Some(\"timer\") in Some(\"aa\")";
    let (first, second) = (span(1), span(2));
    let expected = [
        &*first,
        handled,
        "timer ends",
        &*second,
        handled,
        "timer ends",
        "timer kind=\"mail\" attempt=1 in None",
        "handled in Some(\"timer\") in None",
        "timer ends",
    ];
    assert_eq!(lines.lines(), expected);
}

#[test]
fn a_future_is_in_its_span_whenever_it_is_polled() {
    let (clock, spans) = (ManualClock::new(), Spans::default());
    let lines = spans.0.clone();
    let (sender, futures) = crossbeam_channel::unbounded();
    with_default(Registry::default().with(spans), || {
        let timers = traced(&clock)
            .spawner(move |future| sender.send(future).unwrap())
            .on_async("mail", |_| {
                info!(target: "test", "called");
                Twice(false)
            })
            .start()
            .unwrap();
        let timer = timers.timer("mail", SECOND, "").not_after(10 * SECOND);
        // What is said for the timer comes first.
        TRACE.set(Some("cc".into()));
        timer.clone().traceparent(&header("bb")).schedule().unwrap();
        timer.schedule().unwrap();
        TRACE.set(None);
        clock.advance(SECOND);
        let mut all: Vec<_> = futures.try_iter().collect();
        let mut context = task::Context::from_waker(task::Waker::noop());
        for _ in 0..2 {
            all.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
        }
        assert!(all.is_empty());
        clock.advance(SECOND);
        assert_eq!(timers.stats().done, 2);
    });
    let lines = lines.lines();
    for trace in ["bb", "cc"] {
        let is_in_trace = |line: &&String| line.ends_with(&format!("in Some(\"{trace}\")"));
        let in_trace: Vec<_> = lines.iter().filter(is_in_trace).collect();
        assert_eq!(in_trace.len(), 4, "{lines:?}");
        for (line, what) in in_trace.iter().zip(["timer", "called", "polled", "polled"]) {
            assert!(line.starts_with(what), "{line}");
            assert!(what == "timer" || line.contains("in Some(\"timer\")"));
        }
    }
    assert_eq!(lines.iter().filter(|line| *line == "timer ends").count(), 2);
}

#[test]
fn a_batch_has_one_span_and_each_timer_its_trace() {
    let (clock, spans) = (ManualClock::new(), Spans::default());
    let lines = spans.0.clone();
    with_default(Registry::default().with(spans), || {
        let timers = traced(&clock)
            .on_batch("mail", |all| {
                info!(target: "test", "handled");
                let traces = all
                    .iter()
                    .map(|mail| mail.traceparent().unwrap().to_owned());
                assert_eq!(traces.collect::<Vec<_>>(), ["aa", "bb"].map(header));
                all.iter().map(|_| Ok(())).collect()
            })
            .start()
            .unwrap();
        for trace in ["aa", "bb"] {
            TRACE.set(Some(trace.into()));
            timers.schedule_many([("mail", SECOND, "")]).unwrap();
        }
        TRACE.set(None);
        clock.advance(SECOND);
        assert_eq!(timers.stats().done, 2);
    });
    let handled = "handled in Some(\"timers\") in None";
    let expected = [
        "timers kind=\"mail\" count=2 in None",
        handled,
        "timers ends",
    ];
    assert_eq!(lines.lines(), expected);
}

#[test]
fn hooks_that_panic_or_say_nonsense_harm_nothing() {
    let hooks: [fn() -> Option<String>; 2] = [|| panic!("a hook"), || Some("no header".into())];
    for hook in hooks {
        let clock = ManualClock::new();
        let timers = Durable::builder(Memory::new())
            .clock(clock.clone())
            .trace_context(hook)
            .restore_trace(|_| -> () { panic!("another one") })
            .on("mail", |_| Ok(()))
            .start()
            .unwrap();
        let id = timers.key("key").schedule("mail", SECOND, "").unwrap();
        assert_eq!(timers.get(id).unwrap().unwrap().traceparent(), None);
        let timer = timers.timer("mail", SECOND, "").traceparent(&header("aa"));
        timer.schedule().unwrap();
        clock.advance(SECOND);
        assert_eq!(timers.stats().done, 2);
    }
}
