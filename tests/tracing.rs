//! Promise: a timer that was asked to carries the span in which it was armed, and lets go of it
//! when it is over; a service tells of what goes wrong without being asked.

#[path = "common/blocked.rs"]
mod blocked;

use blocked::block_a_worker;
use std::fmt::{Debug, Write};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::Id;
use tracing::subscriber::{set_global_default, with_default};
use tracing::{Event, Span, Subscriber, info, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use wheelwork::trace::{Traced, in_current_span};
use wheelwork::{Batch, Builder, Dispatch, ManualClock, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A layer that writes down events, with the spans in which they come, and the ends of spans.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<String>>>);

impl Book {
    /// What was written since the last time.
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn subscriber(&self) -> impl Subscriber + use<> {
        Registry::default().with(self.clone())
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        }
        .unwrap();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Book {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let spans: Vec<_> = context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
            .map(|span| span.name())
            .collect();
        let mut fields = Fields(format!(
            "{} {}:{}",
            spans.join(">"),
            event.metadata().level(),
            event.metadata().target()
        ));
        event.record(&mut fields);
        self.0
            .lock()
            .unwrap()
            .push(fields.0.trim_start().to_string());
    }

    fn on_close(&self, span: Id, context: Context<'_, S>) {
        self.0
            .lock()
            .unwrap()
            .push(format!("closed {}", context.span(&span).unwrap().name()));
    }
}

/// What threads of services write, too: all tests share it.
fn global() -> &'static Book {
    static GLOBAL: OnceLock<Book> = OnceLock::new();
    GLOBAL.get_or_init(|| {
        let book = Book::default();
        set_global_default(book.subscriber()).unwrap();
        book
    })
}

/// What the service of this name has told everywhere, and leaves the rest.
fn told_by(service: &str) -> Vec<String> {
    let service = format!(" service={service:?}");
    global()
        .0
        .lock()
        .unwrap()
        .extract_if(.., |line| line.contains(&service))
        .map(|line| line.replace(&service, ""))
        .collect()
}

fn manual(builder: Builder) -> (TimerService, ManualClock) {
    let clock = ManualClock::new();
    (builder.clock(clock.clone()).start().unwrap(), clock)
}

#[test]
fn a_closure_runs_in_the_span_in_which_it_was_armed() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let (service, clock) = manual(TimerService::builder());
        book.lines();
        info_span!("outer").in_scope(|| {
            let _request = info_span!("request").entered();
            service
                .schedule(MS, in_current_span(|| info!("wrapped")))
                .unwrap();
            service.schedule(MS * 2, || info!("not wrapped")).unwrap();
        });
        assert!(book.lines().is_empty(), "the timer keeps the spans open");
        info_span!("of who moves the time").in_scope(|| clock.advance(MS));
        let closed = [
            "closed fire",
            "closed request",
            "closed outer",
            "closed of who moves the time",
        ];
        assert_eq!(
            book.lines().split_first().unwrap(),
            (
                &"outer>request>fire INFO:tracing wrapped".to_string(),
                &closed.map(String::from)[..]
            )
        );
        clock.advance(MS);
        assert_eq!(book.lines(), ["INFO:tracing not wrapped"]);
    });
}

#[test]
fn a_timer_that_ends_unfired_lets_go_of_its_span() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let builder = TimerService::builder().clock(ManualClock::new());
        let service = builder
            .on_expire(|_: &mut Batch<'_, Traced<u32>>| unreachable!())
            .start()
            .unwrap();
        let arm = |payload| {
            info_span!("request").in_scope(|| service.schedule(HOUR, Traced::new(payload)).unwrap())
        };
        let (cancelled, taken) = (arm(1), arm(2));
        arm(3);
        book.lines();
        assert!(service.cancel(cancelled));
        assert_eq!(book.lines(), ["closed request"]);
        let taken = service.take(taken).unwrap();
        assert_eq!(
            (taken.span().metadata().unwrap().name(), book.lines().len()),
            ("request", 0)
        );
        assert_eq!(taken.into_inner(), 2);
        assert_eq!(book.lines(), ["closed request"]);
        let unfired = service.stop();
        assert!(
            !book.lines().contains(&"closed request".to_string()),
            "it is handed back with the payload"
        );
        drop(unfired);
        assert_eq!(book.lines(), ["closed request"]);
    });
}

#[test]
fn payloads_carry_spans_to_their_handler() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let clock = ManualClock::new();
        let handler = |batch: &mut Batch<'_, Traced<u32>>| {
            batch.for_each(|traced| traced.in_scope(|payload| info!(payload)))
        };
        let service = TimerService::builder()
            .clock(clock.clone())
            .on_expire(handler)
            .start()
            .unwrap();
        info_span!("one").in_scope(|| service.schedule(MS, Traced::new(1)).unwrap());
        info_span!("other").in_scope(|| service.schedule(MS * 2, Traced::new(2)).unwrap());
        service.schedule(MS * 3, Traced::new(3)).unwrap();
        book.lines();
        clock.advance(MS * 3);
        let one = [
            "one>fire INFO:tracing payload=1",
            "closed fire",
            "closed one",
        ];
        let other = [
            "other>fire INFO:tracing payload=2",
            "closed fire",
            "closed other",
        ];
        // Without a span there is none to tell of the run either.
        assert_eq!(
            book.lines(),
            [&one[..], &other, &["INFO:tracing payload=3"]].concat()
        );
    });
}

#[test]
fn a_panic_inside_lets_go_of_the_span() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let (service, clock) = manual(TimerService::builder());
        info_span!("request")
            .in_scope(|| service.schedule(MS, in_current_span(|| resume_unwind(Box::new("a bug")))))
            .unwrap();
        book.lines();
        clock.advance(MS);
        let panicked =
            r#"ERROR:wheelwork a handler or task panicked service="wheelwork" panic="a bug""#;
        assert_eq!(book.lines(), ["closed fire", "closed request", panicked]);
        assert!(Span::current().is_none());
    });
}

#[test]
fn who_hears_no_debug_hears_of_no_fire() {
    let book = Book::default();
    with_default(
        Registry::default()
            .with(LevelFilter::INFO)
            .with(book.clone()),
        || {
            let (service, clock) = manual(TimerService::builder());
            info_span!("request").in_scope(|| {
                service
                    .schedule(MS, in_current_span(|| info!("ran")))
                    .unwrap()
            });
            clock.advance(MS);
            service.stop();
            assert_eq!(book.lines(), ["request INFO:tracing ran", "closed request"]);
        },
    );
}

#[test]
fn without_a_span_it_just_runs() {
    let ran = in_current_span(|| Span::current().is_none());
    assert!(ran());
    assert!(Traced::new(7).in_scope(|payload| payload == 7 && Span::current().is_none()));
}

#[test]
fn spans_go_along_to_the_threads_of_the_pool() {
    const TIMERS: usize = 1_000;
    global();
    let service = TimerService::builder()
        .name("pool")
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (send, current) = mpsc::channel();
    let spans: Vec<_> = (0..TIMERS)
        .map(|timer| {
            let (span, send) = (info_span!("of a thread"), send.clone());
            let task = move || {
                send.send((
                    timer,
                    Span::current().metadata().unwrap().name(),
                    thread::current().id(),
                ))
                .unwrap()
            };
            span.in_scope(|| {
                service
                    .schedule(MS * (timer % 4) as u32, in_current_span(task))
                    .unwrap()
            });
            span
        })
        .collect();
    let mut fired: Vec<_> = (0..TIMERS)
        .map(|_| current.recv_timeout(HANGS).unwrap())
        .collect();
    fired.sort_unstable_by_key(|&(timer, ..)| timer);
    let here = thread::current().id();
    assert!(
        fired
            .iter()
            .enumerate()
            .all(|(number, &(timer, name, thread))| timer == number
                && name == "fire"
                && thread != here)
    );
    // Stop waits for the tasks: now nobody but us has the spans.
    service.stop();
    let open = || {
        global()
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|&line| line == "closed of a thread")
            .count()
    };
    assert_eq!(open(), 0);
    drop(spans);
    assert_eq!(open(), TIMERS);
}

#[test]
fn panics_are_told_with_their_messages() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let (service, clock) = manual(TimerService::builder().name("buggy"));
        book.lines();
        service
            .schedule(MS, || resume_unwind(Box::new("a bug")))
            .unwrap();
        service
            .schedule(MS * 2, || resume_unwind(Box::new(format!("bug {}", 2))))
            .unwrap();
        service
            .schedule(MS * 3, || resume_unwind(Box::new(3)))
            .unwrap();
        service
            .every(MS * 4)
            .times(1)
            .start(|| resume_unwind(Box::new("in a run")))
            .unwrap();
        clock.advance(MS * 4);
        let told = "ERROR:wheelwork a handler or task panicked service=\"buggy\"";
        let panics = [
            r#" panic="a bug""#,
            r#" panic="bug 2""#,
            "",
            r#" panic="in a run""#,
        ];
        assert_eq!(book.lines(), panics.map(|panic| format!("{told}{panic}")));
        assert_eq!(service.stats().panics, 4);
    });
}

#[test]
fn start_and_stop_are_told() {
    let book = Book::default();
    with_default(book.subscriber(), || {
        let (service, clock) = manual(
            TimerService::builder()
                .name("brief")
                .shards(3)
                .tick(MS * 10),
        );
        assert_eq!(
            book.lines(),
            [r#"DEBUG:wheelwork the timer service starts service="brief" shards=3 tick=10ms"#]
        );
        (0..5).for_each(|timer| _ = service.schedule(MS * 10 * (1 + timer), || ()).unwrap());
        clock.advance(MS * 20);
        assert_eq!(service.stop_with(StopPolicy::HandBack).len(), 3);
        assert!(service.stop().is_empty());
        drop(service);
        let told = r#"DEBUG:wheelwork the timer service has stopped service="brief" policy=HandBack fired=2 handed_back=3"#;
        assert_eq!(book.lines(), [told], "once");
    });
}

#[test]
fn late_timers_are_told_if_a_hook_asks_for_them() {
    global();
    for (name, ask) in [("late", true), ("late, unasked", false)] {
        let mut builder = TimerService::builder()
            .name(name)
            .shards(1)
            .dispatch(Dispatch::RayonThreads(1));
        if ask {
            builder = builder.on_late(MS * 20, |_| ());
        }
        let (service, clock) = manual(builder);
        let release = block_a_worker(&service, &clock);
        // Due 30 and 20 ms before a worker is there: the second just not late.
        (0..7).for_each(|_| _ = service.schedule(MS, || ()).unwrap());
        service.schedule(MS * 11, || ()).unwrap();
        clock.advance(MS * 31);
        release.send(()).unwrap();
        while service.stats().timers.fired < 9 {
            thread::sleep(MS);
        }
        service.stop();
        let told = told_by(name);
        let warnings: Vec<_> = told
            .iter()
            .filter(|line| line.starts_with("WARN"))
            .collect();
        assert_eq!(
            warnings,
            ["WARN:wheelwork timers fire late lateness=30ms timers=7"]
                .iter()
                .take(usize::from(ask))
                .collect::<Vec<_>>()
        );
        assert_eq!(told.len(), 2 + warnings.len(), "{told:?}");
    }
}

#[test]
fn stalls_and_shards_that_are_not_pinned_are_told() {
    global();
    let (send, stalled) = mpsc::channel();
    // There is no such core.
    let builder = TimerService::builder()
        .name("stalls")
        .shards(2)
        .pinning(wheelwork::Pinning::Cores(vec![100_000]))
        .dispatch(Dispatch::Inline);
    let service = builder
        .on_stall(MS * 200, move |stall| {
            send.send((stall.shard, stall.overdue)).unwrap()
        })
        .start()
        .unwrap();
    let (release, released) = mpsc::channel::<()>();
    service
        .schedule_on(1, MS, move || released.recv_timeout(HANGS).unwrap())
        .unwrap();
    // By another shard only if the machine stalls.
    let overdue = loop {
        if let (1, overdue) = stalled.recv_timeout(HANGS).unwrap() {
            break overdue;
        }
    };
    release.send(()).unwrap();
    service.stop();
    let told = told_by("stalls");
    let count = |line: &str| told.iter().filter(|&told| told == line).count();
    assert_eq!(
        count(&format!(
            "WARN:wheelwork a shard stalls shard=1 overdue={overdue:?}"
        )),
        1,
        "{told:?}"
    );
    assert_eq!(
        [0, 1].map(|shard| count(&format!(
            "WARN:wheelwork a shard's thread could not be pinned shard={shard}"
        ))),
        [1, 1],
        "{told:?}"
    );
}

/// A subscriber that panics at each event.
struct Grenade;

impl<S: Subscriber> Layer<S> for Grenade {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        // Without a word from the panic hook.
        resume_unwind(Box::new("a subscriber"));
    }
}

#[test]
fn a_subscriber_that_panics_is_counted_and_harms_nothing() {
    with_default(Registry::default().with(Grenade), || {
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        let (service, clock) =
            manual(TimerService::builder().on_panic(move |_| *count.lock().unwrap() += 1));
        service
            .schedule(MS, || resume_unwind(Box::new("a bug")))
            .unwrap();
        service.schedule(HOUR, || ()).unwrap();
        clock.advance(MS);
        assert_eq!(service.stop().len(), 1);
        // Start, panic, stop.
        assert_eq!(
            (
                service.stats().panics,
                service.stats().hook_panics,
                *told.lock().unwrap()
            ),
            (1, 3, 1)
        );
    });
}

/// A subscriber that arms timers of the services that all share, when it is told that they start.
struct ArmsMore;

impl<S: Subscriber> Layer<S> for ArmsMore {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "wheelwork" {
            let _ = wheelwork::after(HOUR, || ());
            drop(wheelwork::future::sleep(HOUR));
        }
    }
}

#[test]
fn a_subscriber_may_use_the_service_whose_start_it_is_told() {
    with_default(Registry::default().with(ArmsMore), || {
        let id = wheelwork::after(HOUR, || ()).unwrap();
        assert!(wheelwork::global().unwrap().cancel(id));
        drop(wheelwork::future::sleep(HOUR));
    });
}
