//! Promise: a handler may answer that its timer is to come later, and that it is to come never
//! again, in each form that a handler may have.
//!
//! - What comes later has no attempt more, and comes when it was said, through a restart.
//! - What is given up is a dead letter at once, with the reason, whatever the retry policy is.
//!
//! `../durable_in_transaction.rs` and `../postgres/answers.rs` have this for handlers in a
//! transaction of the database.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::{
    Cause, Delivery, Durable, DurableBuilder, GiveUp, HandlerResult, Later, Memory, RetryPolicy,
    StoreTime,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// The forms of a handler, but for the one that needs a database.
#[derive(Clone, Copy, Debug)]
enum Form {
    One,
    Typed,
    Batch,
    Async,
}

const FORMS: [Form; 4] = [Form::One, Form::Typed, Form::Batch, Form::Async];

/// Failures and deaths that hooks were told of.
type Told = Arc<[AtomicU32; 2]>;

/// A builder whose kind `work` has a handler of this form, which answers so.
fn builder(
    form: Form,
    clock: &ManualClock,
    store: &Memory,
    answer: impl Fn(&Delivery) -> HandlerResult + Send + Sync + 'static,
) -> (DurableBuilder<Memory>, Told) {
    let told = Told::default();
    let (failed, dead) = (told.clone(), told.clone());
    let builder = Durable::builder(store.clone())
        .clock(clock.clone())
        .on_failed(move |_, _| _ = failed[0].fetch_add(1, SeqCst))
        .on_dead(move |_| _ = dead[1].fetch_add(1, SeqCst));
    let builder = match form {
        Form::One => builder.on("work", answer),
        Form::Typed => builder.on_typed("work", move |delivery, _: u32| answer(delivery)),
        Form::Batch => builder.on_batch("work", move |all| all.iter().map(&answer).collect()),
        Form::Async => {
            let answer = Arc::new(answer);
            builder
                .spawner(futures_lite::future::block_on)
                .on_async("work", move |delivery| {
                    let answer = answer.clone();
                    async move { answer(&delivery) }
                })
        }
    };
    (builder, told)
}

fn read(told: &Told) -> [u32; 2] {
    [told[0].load(SeqCst), told[1].load(SeqCst)]
}

#[test]
fn what_comes_later_is_no_attempt_in_each_form() {
    for form in FORMS {
        let (clock, store) = (ManualClock::new(), Memory::new());
        let start = clock.system_time();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (log, time) = (calls.clone(), clock.clone());
        let answer = move |work: &Delivery| {
            let mut log = log.lock().unwrap();
            log.push((time.system_time(), work.due(), work.attempt()));
            match log.len() {
                1 => Err(Later::after(10 * SECOND).into()),
                2 => Err(Later::at(start + HOUR).into()),
                _ => Ok(()),
            }
        };
        let (builder, told) = builder(form, &clock, &store, answer);
        let timers = builder.retry_policy(RetryPolicy::never()).start().unwrap();
        let id = timers.schedule("work", SECOND, "7").unwrap();
        clock.advance(SECOND);
        let row = timers.get(id).unwrap().expect("it comes later");
        let due = StoreTime::due_at(start + 11 * SECOND);
        assert_eq!((row.attempts, row.due), (0, due), "{form:?}");
        assert_eq!(timers.stats().snoozed, 1);
        clock.advance(HOUR);
        let times = [SECOND, 11 * SECOND, HOUR].map(|time| (start + time, start + time, 1));
        assert_eq!(*calls.lock().unwrap(), times, "{form:?}");
        let stats = timers.stats();
        let counts = (stats.snoozed, stats.done, stats.failed, stats.died);
        assert_eq!(counts, (2, 1, 0, 0), "{form:?}");
        assert_eq!(read(&told), [0, 0], "{form:?}");
        assert_eq!(timers.get(id).unwrap(), None);
    }
}

#[test]
fn what_is_given_up_is_dead_at_once_in_each_form() {
    for form in FORMS {
        let (clock, store) = (ManualClock::new(), Memory::new());
        let calls = Arc::new(AtomicU32::new(0));
        let count = calls.clone();
        let answer = move |_: &Delivery| match count.fetch_add(1, SeqCst) {
            0 => Err(GiveUp::because("no such order").into()),
            _ => Ok(()),
        };
        let (builder, told) = builder(form, &clock, &store, answer);
        let timers = builder.start().unwrap();
        let id = timers.schedule("work", SECOND, "7").unwrap();
        clock.advance(SECOND);
        let dead = timers.dead_letters(None, 9).unwrap();
        assert_eq!(dead.len(), 1, "{form:?}");
        let reason = Cause::GivenUp("no such order".into());
        assert_eq!((&dead[0].cause, dead[0].row.attempts), (&reason, 1));
        let stats = timers.stats();
        let counts = (stats.given_up, stats.died, stats.failed, stats.snoozed);
        assert_eq!(counts, (1, 1, 0, 0), "{form:?}");
        clock.advance(24 * HOUR);
        assert_eq!(read(&told), [0, 1], "{form:?}");
        assert_eq!(calls.load(SeqCst), 1, "it does not come again");
        assert!(timers.revive(id).unwrap());
        clock.advance(SECOND);
        assert_eq!((calls.load(SeqCst), timers.stats().done), (2, 1));
    }
}

#[test]
fn each_result_of_a_batch_is_its_own() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let answer = |work: &Delivery| match &*work.payload_text() {
        "later" => Err(Later::after(HOUR).into()),
        "never" => Err(GiveUp::because("no").into()),
        "failed" => Err("failed".into()),
        _ => Ok(()),
    };
    let (builder, _) = builder(Form::Batch, &clock, &store, answer);
    let timers = builder.start().unwrap();
    let payloads = ["later", "done", "never", "failed", "done"];
    let all = payloads.map(|payload| ("work", SECOND, payload));
    timers.schedule_many(all).unwrap();
    clock.advance(SECOND);
    let stats = timers.stats();
    let counts = [stats.snoozed, stats.done, stats.given_up, stats.failed];
    assert_eq!(counts, [1, 2, 1, 1]);
    let left = timers.list(.., 9).unwrap();
    let left = left.iter().map(|row| (&*row.payload, row.attempts));
    let left: Vec<_> = left.collect();
    assert_eq!(left, [(&b"failed"[..], 1), (&b"later"[..], 0)]);
}

/// Has a timer handled that is put off so. Returns when it is due then, and the time of the answer.
fn put_off(later: Later) -> (StoreTime, SystemTime) {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, _) = builder(Form::One, &clock, &store, move |_| Err(later.into()));
    let timers = builder.start().unwrap();
    let id = timers.schedule("work", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(timers.stats().snoozed, 1);
    let row = timers.get(id).unwrap().expect("it comes later");
    (row.due, clock.system_time())
}

#[test]
fn it_comes_a_millisecond_later_at_least() {
    let times = [
        Later::after(Duration::ZERO),
        Later::after(Duration::from_nanos(1)),
        Later::at(SystemTime::UNIX_EPOCH),
    ];
    for later in times {
        let (due, answered) = put_off(later);
        assert_eq!(due, StoreTime::due_at(answered + MS), "{later:?}");
    }
    assert_eq!(put_off(Later::after(Duration::MAX)).0, StoreTime::MAX);
}

#[test]
fn attempts_before_stay_and_the_process_may_end_between() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let log = calls.clone();
        let answer = move |work: &Delivery| {
            let mut log = log.lock().unwrap();
            log.push(work.attempt());
            match log.len() {
                2 | 3 => Err(Later::after(HOUR).into()),
                5 => Err(GiveUp::because("enough").into()),
                _ => Err("failed".into()),
            }
        };
        let (builder, _) = builder(Form::One, &clock, &store, answer);
        builder.start().unwrap()
    };
    let timers = open();
    let id = timers.schedule("work", SECOND, "").unwrap();
    clock.advance(10 * SECOND);
    assert_eq!(*calls.lock().unwrap(), [1, 2]);
    drop(timers);
    clock.advance(10 * HOUR);
    let timers = open();
    clock.advance(2 * HOUR);
    assert_eq!(*calls.lock().unwrap(), [1, 2, 2, 2, 3]);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!((dead[0].row.id, dead[0].row.attempts), (id, 3));
}

#[test]
fn what_comes_later_is_cancelled_and_moved_as_others() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let answer = |_: &Delivery| Err(Later::after(HOUR).into());
    let (builder, _) = builder(Form::One, &clock, &store, answer);
    let timers = builder.start().unwrap();
    let [first, second] = ["a", "b"].map(|key| {
        let keyed = timers.key(key);
        keyed.schedule("work", SECOND, "").unwrap()
    });
    clock.advance(SECOND);
    assert!(timers.cancel(first).unwrap());
    assert!(timers.reschedule(second, SECOND).unwrap());
    clock.advance(SECOND);
    assert_eq!(timers.stats().snoozed, 3);
    assert!(timers.key("b").cancel().unwrap(), "it has its key");
}

#[test]
fn a_timer_whose_key_is_taken_meanwhile_ends() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let client = Arc::new(std::sync::OnceLock::<wheelwork_durable::DurableClient>::new());
    let own = client.clone();
    let answer = move |work: &Delivery| {
        if work.payload() == b"first" {
            let client = own.get().unwrap();
            client.key("key").schedule("work", HOUR, "second")?;
            return Err(Later::after(MS).into());
        }
        Ok(())
    };
    let (builder, _) = builder(Form::One, &clock, &store, answer);
    let timers = builder.start().unwrap();
    let _ = client.set(timers.client());
    timers.key("key").schedule("work", SECOND, "first").unwrap();
    clock.advance(2 * SECOND);
    let stats = timers.stats();
    assert_eq!((stats.snoozed, stats.superseded, stats.done), (1, 1, 0));
    assert_eq!(timers.list(.., 9).unwrap().len(), 1);
    clock.advance(HOUR);
    assert_eq!(timers.stats().done, 1);
}

#[test]
fn a_calendar_goes_on_after_both() {
    use wheelwork::calendar::Calendar;
    let (clock, store) = (ManualClock::new(), Memory::new());
    clock.set_system_time(SystemTime::UNIX_EPOCH + 24 * HOUR);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (log, time) = (calls.clone(), clock.clone());
    let answer = move |_: &Delivery| {
        let mut log = log.lock().unwrap();
        let since = time.system_time().duration_since(SystemTime::UNIX_EPOCH)?;
        log.push(since.as_secs() - 86_400);
        match log.len() {
            1 => Err(Later::after(90 * SECOND).into()),
            3 => Err(GiveUp::because("not today").into()),
            _ => Ok(()),
        }
    };
    let (builder, _) = builder(Form::One, &clock, &store, answer);
    let timers = builder.start().unwrap();
    let minutely = Calendar::cron("* * * * *").unwrap().zone("UTC").unwrap();
    let id = timers.schedule_calendar("work", minutely, "").unwrap();
    clock.advance(300 * SECOND);
    // The second run was left out, as the first one was made at its time.
    assert_eq!(*calls.lock().unwrap(), [60, 150, 180, 240, 300]);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!(dead[0].cause, Cause::GivenUp("not today".into()));
    assert!(dead[0].row.id != id && dead.len() == 1);
    assert!(timers.get(id).unwrap().is_some());
}

/// An error with a cause, whose text may be missing.
#[derive(Debug)]
struct Caused(Option<Later>);

impl fmt::Display for Caused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0.is_some(), "it has no text");
        f.write_str("it was called too early")
    }
}

impl Error for Caused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_ref().map(|later| later as _)
    }
}

#[test]
fn an_error_that_only_was_caused_by_an_answer_is_an_error() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let answer = |_: &Delivery| Err(Caused(Some(Later::after(HOUR))).into());
    let (builder, told) = builder(Form::One, &clock, &store, answer);
    let timers = builder.retry_policy(RetryPolicy::never()).start().unwrap();
    timers.schedule("work", SECOND, "").unwrap();
    clock.advance(2 * SECOND);
    assert_eq!(read(&told), [1, 1]);
    let dead = timers.dead_letters(None, 9).unwrap();
    let why = "it was called too early: the handler has put the timer off";
    assert_eq!(dead[0].cause, Cause::Failed(why.into()));
}

#[test]
fn a_reason_is_kept_with_its_causes_and_may_have_no_text() {
    type Reason = (&'static str, fn() -> GiveUp, &'static str);
    let reasons: [Reason; 3] = [
        (
            "causes",
            || GiveUp::because(Caused(Some(Later::after(MS)))),
            "it was called too early: the handler has put the timer off",
        ),
        (
            "panic",
            || GiveUp::because(Caused(None)),
            "its error panicked when it was shown",
        ),
        ("long", || GiveUp::because("x".repeat(5_000)), ""),
    ];
    for (name, reason, text) in reasons {
        let (clock, store) = (ManualClock::new(), Memory::new());
        let answer = move |_: &Delivery| Err(reason().into());
        let (builder, _) = builder(Form::One, &clock, &store, answer);
        let timers = builder.start().unwrap();
        timers.schedule("work", SECOND, "").unwrap();
        clock.advance(SECOND);
        let dead = timers.dead_letters(None, 9).unwrap();
        let Cause::GivenUp(why) = &dead[0].cause else {
            panic!("{name}: {:?}", dead[0].cause);
        };
        match text {
            "" => assert!(
                why.len() < 4_200 && why.ends_with("(904 bytes more)"),
                "{why}"
            ),
            text => assert_eq!(&**why, text, "{name}"),
        }
    }
}
