//! Promise: a calendar that is armed with another payload keeps a run that was missed, and makes
//! none twice, whatever becomes of the run meanwhile.
//!
//! The stores' part is compared by random histories (`../common/histories.rs`).

use crate::over_memory::{Over, OverMemory};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork::calendar::{Calendar, Missed};
use wheelwork_durable::contract::{Store, Target};
use wheelwork_durable::{
    Delivery, Durable, DurableClient, DurableId, Memory, OpenError, RetryPolicy, Row, StoreError,
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
        let (clock, store) = (ManualClock::new(), Memory::new());
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
fn a_run_is_made_meanwhile() -> (Vec<String>, Vec<String>) {
    let mut program = Program::start(|_| Ok(()));
    let overdue = program.row();
    let first = program.pass(SECOND);
    assert_eq!(first, ["a"], "the run that was missed");
    *program.seen.lock().unwrap() = Some(overdue);
    arm(&program.timers, "b");
    (program.pass(HOUR), program.pass(DAY))
}

#[test]
fn a_run_that_is_made_meanwhile_is_not_made_again() {
    let (again, next) = a_run_is_made_meanwhile();
    assert_eq!(again, [""; 0]);
    assert_eq!(next, ["b"]);
}

#[cfg(feature = "__faults")]
#[test]
fn without_a_second_look_it_is() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::ReplacedUnseen));
    let (again, _) = a_run_is_made_meanwhile();
    set_durable_fault(None);
    assert_eq!(again, ["b"]);
}

/// The handler of the run arms the timer anew.
fn a_run_is_under_way() -> (Vec<String>, Vec<String>) {
    let program = Program::start(|client| {
        arm(client, "b");
        Ok(())
    });
    (program.pass(HOUR), program.pass(DAY))
}

#[test]
fn a_run_that_is_under_way_is_not_made_again() {
    let (runs, next) = a_run_is_under_way();
    assert_eq!(runs, ["a"]);
    assert_eq!(next, ["b"]);
}

#[cfg(feature = "__faults")]
#[test]
fn a_row_that_takes_its_run_too_makes_it_twice() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::ReplacedAgain));
    let (runs, _) = a_run_is_under_way();
    set_durable_fault(None);
    assert_eq!(runs, ["a", "b"]);
}

/// Two threads have read the timer at once. The run is the last one's.
#[test]
fn two_calls_at_once_lose_no_run() {
    let mut program = Program::start(|_| Ok(()));
    let overdue = program.row();
    let second = arm(&program.timers, "b");
    *program.seen.lock().unwrap() = Some(overdue.clone());
    let third = arm(&program.timers, "c");
    assert!(overdue.id != second && second != third);
    assert_eq!(program.row().due, overdue.due, "it is as overdue as before");
    assert_eq!(program.pass(SECOND), ["c"]);
    assert_eq!(program.pass(DAY), ["c"]);
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
        let once = Calendar::cron("0 0 9 11 4 * 1970")
            .unwrap()
            .zone("UTC")
            .unwrap();
        key.schedule_calendar("report", once, payload).unwrap()
    };
    let (first, second) = (arm("a"), arm("b"));
    assert_ne!(first, second);
    let due = timers.get(second).unwrap().unwrap().due;
    assert_eq!(
        due.system_time(),
        SystemTime::UNIX_EPOCH + 100 * DAY + 9 * HOUR
    );
}

/// A timer that waits for its handler is held, and its deadline is another one in the store.
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
    assert!(without.get(id).unwrap().unwrap().held().is_some());
    let due = without.get(id).unwrap().unwrap().due;
    let again = arm(&without, "b");
    assert_eq!(without.get(id).unwrap(), None);
    assert_eq!(without.get(again).unwrap().unwrap().due, due);
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
