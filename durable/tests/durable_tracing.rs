//! Promise: durable timers tell the crate `tracing` of handlers that fail, of dead letters, and of
//! a store that fails; and a subscriber that panics harms nothing.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use wheelwork::ManualClock;
use wheelwork_durable::contract::Store;
use wheelwork_durable::{Durable, DurableError, Memory, RetryPolicy};

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
        let is_ours = event
            .metadata()
            .module_path()
            .is_some_and(|path| path.contains("durable"));
        if is_ours {
            std::panic::resume_unwind(Box::new("a subscriber"));
        }
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
