//! Promise: a calendar that is armed with another payload keeps a run that was missed, and makes
//! none twice, whatever becomes of the run meanwhile.
//!
//! The stores' part is compared by random histories (`../common/histories/`).

use crate::all_may_go::AllMayGo;
use crate::over_memory::{Over, OverMemory};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork::calendar::{Calendar, Missed};
use wheelwork_durable::contract::{Amendment, Outcome, Store, Target, Write};
use wheelwork_durable::{
    Delivery, Durable, DurableClient, DurableId, Memory, OpenError, RetryPolicy, Row, StoreError,
    StoreTime,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A store whose next look at a key finds a row as it was before.
struct Late {
    memory: Memory,
    seen: Arc<Mutex<Option<Row>>>,
}

impl OverMemory for Late {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        match self.seen.lock().unwrap().take() {
            Some(row) => Ok(Some(row)),
            None => self.memory.get(target),
        }
    }
}

/// A program that starts when a run is overdue. It runs on a manual clock.
struct Program {
    clock: ManualClock,
    store: Memory,
    seen: Arc<Mutex<Option<Row>>>,
    timers: Durable,
    runs: Arc<Mutex<Vec<String>>>,
}

fn nightly() -> Calendar {
    let daily = Calendar::daily(9, 0).unwrap().zone("UTC").unwrap();
    daily.missed(Missed::Once)
}

fn arm(client: &DurableClient, payload: &str) -> DurableId {
    let key = client.key("nightly");
    key.schedule_calendar("report", nightly(), payload).unwrap()
}

impl Program {
    /// `during` is called within the first run.
    fn start(
        during: impl Fn(&DurableClient) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at(ManualClock::new(), during)
    }

    fn start_at(
        clock: ManualClock,
        during: impl Fn(&DurableClient) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        let store = Memory::new();
        clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY + 8 * HOUR);
        let first = Durable::builder(store.clone()).clock(clock.clone());
        arm(&first.start().unwrap(), "a");
        clock.advance(4 * HOUR);
        let (seen, runs) = (Arc::default(), Arc::<Mutex<Vec<String>>>::default());
        let late = Late {
            memory: store.clone(),
            seen: Arc::clone(&seen),
        };
        let (own, ran) = (Arc::<OnceLock<DurableClient>>::default(), runs.clone());
        let (handler_own, has_run) = (own.clone(), AtomicBool::new(false));
        let timers = Durable::builder(Over(late))
            .clock(clock.clone())
            .retry_policy(RetryPolicy::new().first(10 * SECOND))
            .on("report", move |run: &Delivery| {
                ran.lock().unwrap().push(run.payload_text().into());
                let is_first = !has_run.swap(true, SeqCst);
                match handler_own.get().filter(|_| is_first) {
                    Some(client) => Ok(during(client)?),
                    None => Ok(()),
                }
            })
            .start()
            .unwrap();
        assert!(own.set(timers.client()).is_ok());
        Self {
            clock,
            store,
            seen,
            timers,
            runs,
        }
    }

    fn row(&mut self) -> Row {
        let key = Target::Key("nightly".into());
        self.store.get(&key).unwrap().unwrap()
    }

    /// Time passes. Returns the payloads of the runs since the last call.
    fn pass(&self, time: Duration) -> Vec<String> {
        self.clock.advance(time);
        std::mem::take(&mut self.runs.lock().unwrap())
    }
}

/// A call has read the timer, and then its missed run was made.
#[test]
fn a_run_that_is_made_meanwhile_is_not_made_again() {
    let mut program = Program::start(|_| Ok(()));
    let overdue = program.row();
    let first = program.pass(SECOND);
    assert_eq!(first, ["a"], "the run that was missed");
    *program.seen.lock().unwrap() = Some(overdue);
    arm(&program.timers, "b");
    assert_eq!(program.pass(HOUR), [""; 0]);
    assert_eq!(program.pass(DAY), ["b"]);
}

/// The handler of the run arms the timer anew, and fails. The run is tried again with the new
/// payload. A run that comes due meanwhile is made too.
#[test]
fn a_run_that_is_under_way_is_not_made_again() {
    for fails in [false, true] {
        let program = Program::start(move |client| {
            arm(client, "b");
            if fails { Err("not yet") } else { Ok(()) }
        });
        let runs: &[&str] = if fails { &["a", "b"] } else { &["a"] };
        assert_eq!(program.pass(HOUR), runs);
        assert_eq!(program.pass(DAY), ["b"]);
    }
}

/// The handler of the first run arms the timer anew, and takes two days: the runs of both are
/// missed, and one is made for them.
#[test]
fn runs_that_come_due_during_a_run_are_kept() {
    let clock = ManualClock::new();
    let passing = clock.clone();
    let program = Program::start_at(clock, move |client| {
        arm(client, "b");
        passing.set_system_time(SystemTime::UNIX_EPOCH + 102 * DAY + 12 * HOUR);
        Ok(())
    });
    assert_eq!(program.pass(SECOND), ["a", "b"]);
    assert_eq!(program.pass(DAY), ["b"]);
}

/// Two threads have read the timer at once. The payload is the last one's.
#[test]
fn two_calls_at_once_lose_no_run() {
    let mut program = Program::start(|_| Ok(()));
    let overdue = program.row();
    let second = arm(&program.timers, "b");
    *program.seen.lock().unwrap() = Some(overdue.clone());
    let third = arm(&program.timers, "c");
    assert_eq!([second, third], [overdue.id; 2]);
    assert_eq!(program.row().due, overdue.due, "it is as overdue as before");
    assert_eq!(program.pass(SECOND), ["c"]);
    assert_eq!(program.pass(DAY), ["c"]);
}

/// Two programs arm the key at once. Both have seen that it has another timer.
fn two_calls_take_the_key() -> [DurableId; 2] {
    let mut program = Program::start(|_| Ok(()));
    let mut former = program.row();
    program.timers.cancel(former.id).unwrap();
    former.kind = "another".into();
    let first = arm(&program.timers, "b");
    *program.seen.lock().unwrap() = Some(former);
    [first, arm(&program.timers, "b")]
}

#[test]
fn a_timer_that_another_call_has_armed_counts() {
    let [first, second] = two_calls_take_the_key();
    assert_eq!(first, second);
}

/// A timer waits for a run that is not the next one. A call has read it, and another one has moved
/// it since.
fn a_row_is_moved_meanwhile() -> Outcome {
    let mut program = Program::start(|_| Ok(()));
    let row = program.row();
    assert!(program.timers.reschedule(row.id, DAY).unwrap());
    let amendment = Amendment {
        id: row.id,
        calendar: row.calendar.clone().unwrap(),
        payload: (*b"b").into(),
        trace: None,
        former_due: row.due,
        due: StoreTime::from_millis(row.due.as_millis() + 1),
    };
    drop(program.timers);
    program.store.acquire().unwrap();
    let write = Write::Amend(Box::new(amendment));
    let mut outcomes = program.store.commit(vec![write], &mut AllMayGo).unwrap();
    outcomes.remove(0)
}

#[test]
fn a_row_is_moved_from_where_it_was_read() {
    assert_eq!(a_row_is_moved_meanwhile(), Outcome::Amended(false, None));
}

#[cfg(feature = "__faults")]
#[test]
fn without_a_second_look_both_go_wrong() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::ReplacedUnseen));
    let [first, second] = two_calls_take_the_key();
    set_durable_fault(Some(DurableFault::AmendedUnseen));
    let moved = a_row_is_moved_meanwhile();
    set_durable_fault(None);
    assert_ne!(first, second);
    assert!(
        matches!(moved, Outcome::Amended(true, Some(_))),
        "{moved:?}"
    );
}

/// It is tried again with the new payload.
#[test]
fn a_run_that_has_failed_is_kept() {
    let mut program = Program::start(|_| Err("not yet"));
    assert_eq!(program.pass(SECOND), ["a"]);
    let failed = program.row();
    assert_eq!(failed.attempts, 1);
    arm(&program.timers, "b");
    assert_eq!(program.row().due, failed.due);
    assert_eq!(program.pass(HOUR), ["b"]);
    assert_eq!(program.pass(DAY), ["b"]);
}

/// After its last run a calendar has none, and can be armed anew until then.
#[test]
fn the_last_run_is_kept() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY + 8 * HOUR);
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .start()
        .unwrap();
    let key = timers.key("once");
    let arm = |payload| {
        let once = Calendar::cron("0 0 9 11 4 * 1970").unwrap();
        let once = once.zone("UTC").unwrap();
        key.schedule_calendar("report", once, payload).unwrap()
    };
    assert_eq!(arm("a"), arm("b"));
    let row = key.get().unwrap().unwrap();
    assert_eq!(&*row.payload, b"b");
    let due = SystemTime::UNIX_EPOCH + 100 * DAY + 9 * HOUR;
    assert_eq!(row.due.system_time(), due);
}

/// A timer that waits for its handler is held, and its deadline is another one in the store. The
/// same holds for one that is paused, or that a rate does not let through, while it is armed anew.
#[test]
fn a_run_that_waits_for_its_handler_is_kept() -> Result<(), OpenError> {
    let (clock, store) = (ManualClock::new(), Memory::new());
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY + 8 * HOUR);
    let without = Durable::builder(store.clone())
        .clock(clock.clone())
        .on("other", |_| Ok(()))
        .start()?;
    let id = arm(&without, "a");
    clock.advance(4 * HOUR);
    let held = without.get(id).unwrap().unwrap();
    assert!(held.held().is_some());
    assert_eq!(arm(&without, "b"), id);
    let again = without.get(id).unwrap().unwrap();
    assert_eq!((again.held(), again.due), (held.held(), held.due));
    drop(without);
    let runs = Arc::<Mutex<Vec<String>>>::default();
    let ran = runs.clone();
    let _with = Durable::builder(store)
        .clock(clock.clone())
        .on("report", move |run: &Delivery| {
            ran.lock().unwrap().push(run.payload_text().into());
            Ok(())
        })
        .start()?;
    clock.advance(SECOND);
    assert_eq!(*runs.lock().unwrap(), ["b"]);
    Ok(())
}
