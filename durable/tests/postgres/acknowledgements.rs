//! Promise: a handler of `on_in_transaction` is not called twice because another transaction is in
//! the way of its timer's end. Where only a new transaction helps, it is called again, and nobody
//! waits for it meanwhile.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, next, until};
use postgres::Client;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_durable::{Durable, DurableId, HandlerResult, PostgresTransaction, RetryPolicy};

const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

/// With these leases an acknowledgement is repeated for a second.
const LEASE: Duration = Duration::from_secs(4);

/// What a handler does after its insert. It gets the name of the schema.
type Work = fn(&mut PostgresTransaction<'_>, &str) -> HandlerResult;

/// A node whose handler notes its timer's payload in the table `work`. It stays in its first call
/// for each timer until the test lets it go.
struct Meeting {
    node: Durable,
    begun: Receiver<i32>,
    go: Sender<()>,
    calls: Arc<Mutex<HashMap<String, u32>>>,
    told: Arc<Mutex<Vec<String>>>,
    schema: Schema,
}

impl Meeting {
    fn new(name: &str, work: Work) -> Option<Self> {
        Self::with(name, "", "", work)
    }

    /// `options`: further words of the connection string. `first`: what a handler does before its
    /// insert.
    fn with(name: &str, options: &str, first: &'static str, work: Work) -> Option<Self> {
        let schema = Schema::new(name)?;
        drop(schema.store());
        let make = "CREATE TABLE {s}.work (payload text, n int DEFAULT 0)";
        schema.client().batch_execute(&schema.sql(make)).unwrap();
        let database = format!("{} {options}", schema.database);
        let store = schema.builder(&database).lease(LEASE).connect().unwrap();
        let (begins, begun) = channel();
        let (go, goes) = channel::<()>();
        let goes = Mutex::new(goes);
        let calls: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let (counted, tells) = (calls.clone(), told.clone());
        let name = schema.name.clone();
        let insert = schema.sql("INSERT INTO {s}.work (payload) VALUES ($1)");
        let node = Durable::builder(store)
            .on_in_transaction("work", move |timer, transaction| {
                let payload = timer.payload_text().into_owned();
                transaction.batch_execute(first)?;
                transaction.execute(&insert, &[&payload])?;
                let mut calls = counted.lock().unwrap();
                let call: &mut u32 = calls.entry(payload).or_default();
                *call += 1;
                let call = *call;
                drop(calls);
                work(transaction, &name)?;
                if call == 1 {
                    let pid = transaction.query_one("SELECT pg_backend_pid()", &[]);
                    begins.send(pid.map_or(0, |row| row.get(0)))?;
                    goes.lock().unwrap().recv()?;
                }
                Ok(())
            })
            .on_failed(move |_, why| tells.lock().unwrap().push(why.to_owned()))
            .retry_policy(RetryPolicy::new().first(MS))
            .start()
            .unwrap();
        Some(Self {
            node,
            begun,
            go,
            calls,
            told,
            schema,
        })
    }

    /// Arms a timer, and waits until its handler is called. Returns the pid of the handler's
    /// session.
    fn begin(&self, key: &str) -> (DurableId, i32) {
        let id = self.node.key(key).schedule("work", MS, key).unwrap();
        (id, next(&self.begun))
    }

    /// Takes the key in a transaction of the user's, which stays open: it has the timer locked.
    fn lock(&self, key: &str) -> Client {
        let mut user = self.schema.client();
        user.batch_execute("BEGIN").unwrap();
        let arm = "SELECT {s}.wheelwork_schedule('work', now() + interval '1 hour', '', $1)";
        let arm = self.schema.sql(arm);
        user.query_one(&arm, &[&key]).unwrap();
        user
    }

    /// Lets the handler go, and waits until its acknowledgement has met the user's transaction.
    fn meet(&self, pid: i32) {
        self.go.send(()).unwrap();
        let mut watch = self.schema.client();
        let is_in_the_way = "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1
            AND (wait_event_type = 'Lock' OR query LIKE 'ROLLBACK TO SAVEPOINT wheelwork_ack%')";
        until("it is in the way", || {
            watch.query_one(is_in_the_way, &[&pid]).unwrap().get(0)
        });
    }

    fn make_counter(&self) {
        let counter = "INSERT INTO {s}.work VALUES ('counter')";
        let counter = self.schema.sql(counter);
        self.schema.client().batch_execute(&counter).unwrap();
    }

    fn calls(&self, key: &str) -> u32 {
        self.calls.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    /// How often the handler's work is there.
    fn done(&self, key: &str) -> i64 {
        let count = self
            .schema
            .sql("SELECT count(*) FROM {s}.work WHERE payload = $1");
        let count = self.schema.client().query_one(&count, &[&key]);
        count.unwrap().get(0)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// Waits until the timer that was handed out is gone. The user's is there, or not.
    fn until_gone(&self, id: DurableId) {
        until("it is gone", || self.node.get(id).unwrap().is_none());
    }
}

/// Tries a test a few times: a machine that stands still for a second may spoil it.
fn once_at_least(mut test: impl FnMut(&str) -> Result<(), String>) {
    let mut said = Vec::new();
    for number in 0..5 {
        match test(&format!("K{number}")) {
            Ok(()) => return,
            Err(why) => said.push(why),
        }
    }
    panic!("{said:#?}");
}

/// What a meeting has to come to: calls, and how often the work is done. There is no failure.
fn comes_to(meeting: &Meeting, key: &str, calls: u32, done: i64) -> Result<(), String> {
    let is = (meeting.calls(key), meeting.done(key), meeting.told());
    if is == (calls, done, Vec::new()) {
        return Ok(());
    }
    Err(format!("calls, done, failures: {is:?}"))
}

#[test]
fn a_transaction_in_the_way_does_not_have_the_handler_called_twice() {
    let Some(meeting) = Meeting::new("once", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        thread::sleep(MS * 150);
        user.batch_execute("COMMIT").unwrap();
        meeting.until_gone(id);
        comes_to(&meeting, key, 1, 1)
    });
    meeting.node.stop().unwrap();
}

/// The lease is not locked between two tries. Else no other node could take it.
#[test]
fn a_lease_is_free_while_an_acknowledgement_waits() {
    let Some(meeting) = Meeting::new("free", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        let lock = meeting
            .schema
            .sql("SELECT part FROM {s}.lease FOR UPDATE SKIP LOCKED");
        let mut other = meeting.schema.client();
        let begun = Instant::now();
        let is_free = loop {
            if other.query(&lock, &[]).unwrap().len() == 256 {
                break true;
            }
            if begun.elapsed() > MS * 700 {
                break false;
            }
        };
        user.batch_execute("COMMIT").unwrap();
        meeting.until_gone(id);
        comes_to(&meeting, key, 1, 1)?;
        is_free.then_some(()).ok_or("the lease stays locked".into())
    });
    meeting.node.stop().unwrap();
}

/// The bound: then the attempt has failed, and nothing of it stays.
#[test]
fn a_transaction_that_stays_in_the_way_is_a_failure() {
    let Some(meeting) = Meeting::new("stays", |_, _| Ok(())) else {
        return;
    };
    let (id, pid) = meeting.begin("K");
    let mut user = meeting.lock("K");
    meeting.meet(pid);
    until("it fails", || !meeting.told.lock().unwrap().is_empty());
    let told = meeting.told();
    assert!(
        told.len() == 1 && told[0].starts_with("another transaction has the timer"),
        "{told:?}"
    );
    assert_eq!((meeting.calls("K"), meeting.done("K")), (1, 0));
    user.batch_execute("ROLLBACK").unwrap();
    until("it is tried again", || meeting.node.stats().done == 1);
    assert_eq!((meeting.calls("K"), meeting.done("K")), (2, 1));
    meeting.until_gone(id);
    meeting.node.stop().unwrap();
}

/// Raises a counter that all handlers have.
fn raise(transaction: &mut PostgresTransaction<'_>, schema: &str) -> HandlerResult {
    transaction.batch_execute(&raise_in(schema))?;
    Ok(())
}

fn raise_in(schema: &str) -> String {
    format!("UPDATE {schema}.work SET n = n + 1 WHERE payload = 'counter'")
}

/// The user's transaction has the timer locked, and waits for the counter, which the handler has
/// raised. Lets the handler go then. Returns whether the user's transaction got the counter.
fn meet_crosswise(meeting: &Meeting, key: &str) -> Result<(), String> {
    let (id, pid) = meeting.begin(key);
    let mut user = meeting.lock(key);
    let user_pid = user.query_one("SELECT pg_backend_pid()", &[]).unwrap();
    let user_pid: i32 = user_pid.get(0);
    let mut watch = meeting.schema.client();
    let raised = thread::scope(|scope| {
        let raise = raise_in(&meeting.schema.name);
        let user = &mut user;
        let raised = scope.spawn(move || user.batch_execute(&raise));
        until("it waits for the handler's", || {
            let waits = "SELECT $1 = ANY (pg_blocking_pids($2))";
            watch.query_one(waits, &[&pid, &user_pid]).unwrap().get(0)
        });
        meeting.go.send(()).unwrap();
        raised.join().unwrap()
    });
    raised.map_err(|error| error.to_string())?;
    user.batch_execute("COMMIT").unwrap();
    meeting.until_gone(id);
    let calls = meeting.calls(key);
    comes_to(meeting, key, calls.max(2), 1)
}

/// Each transaction waits for the other, and the database does not see it, because the handler's
/// waits for 20 ms at a time.
#[test]
fn a_transaction_in_the_way_that_waits_for_the_handlers_goes_first() {
    let Some(meeting) = Meeting::new("yields", raise) else {
        return;
    };
    meeting.make_counter();
    once_at_least(|key| meet_crosswise(&meeting, key));
    meeting.node.stop().unwrap();
}

/// The same, where the database sees it (40P01).
#[test]
fn a_deadlock_of_an_acknowledgement_is_no_attempt() {
    let options = "options='-c deadlock_timeout=1ms'";
    let Some(meeting) = Meeting::with("deadlock", options, "", raise) else {
        return;
    };
    meeting.make_counter();
    let mut watch = meeting.schema.client();
    let mut deadlocks = || {
        let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        watch.query_one(count, &[]).unwrap().get::<_, i64>(0)
    };
    let before = deadlocks();
    once_at_least(|key| meet_crosswise(&meeting, key));
    // (A session tells of it when it is idle, or ends.)
    until("the database has seen it", || deadlocks() > before);
    meeting.node.stop().unwrap();
}

/// At this level the transaction has one snapshot, in which the acknowledgement never succeeds.
#[test]
fn a_serialization_failure_of_an_acknowledgement_calls_the_handler_again() {
    let level = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    let Some(meeting) = Meeting::with("snapshot", "", level, |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        user.batch_execute("COMMIT").unwrap();
        let committed = Instant::now();
        meeting.until_gone(id);
        comes_to(&meeting, key, 2, 1)?;
        let took = committed.elapsed();
        // (Else it is repeated for a second.)
        (took < MS * 600).then_some(()).ok_or(format!("{took:?}"))
    });
    // A transaction that changes nothing leaves the snapshot as it is.
    once_at_least(|key| {
        let key = format!("{key} again");
        let (_, pid) = meeting.begin(&key);
        let mut user = meeting.lock(&key);
        meeting.meet(pid);
        user.batch_execute("ROLLBACK").unwrap();
        until("it is done", || {
            meeting.node.key(&key).get().unwrap().is_none()
        });
        comes_to(&meeting, &key, 1, 1)
    });
    meeting.node.stop().unwrap();
}

/// What a handler has set for its own statements, and its savepoints, are not in the way.
#[test]
fn a_handlers_limits_and_savepoints_do_not_touch_the_acknowledgement() {
    let Some(meeting) = Meeting::new("limits", |transaction, schema| {
        let insert = format!("INSERT INTO {schema}.work SELECT max(payload) FROM {schema}.work");
        transaction.batch_execute(&format!(
            "SAVEPOINT wheelwork_ack; {insert}; SAVEPOINT mine; {insert};
            SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
            SET LOCAL statement_timeout = 10"
        ))?;
        Ok(())
    }) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        thread::sleep(MS * 100);
        user.batch_execute("COMMIT").unwrap();
        meeting.until_gone(id);
        comes_to(&meeting, key, 1, 3)
    });
    meeting.node.stop().unwrap();
}

/// A cancel and a move come too late, and say so, while the timer's end is held up.
#[test]
fn others_cancel_and_move_in_vain_while_an_acknowledgement_waits() {
    let Some(meeting) = Meeting::new("others", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        let cancels = meeting.node.cancel_ticket(id).unwrap();
        let moves = meeting.node.reschedule_ticket(id, HOUR).unwrap();
        let by_sql = |call: &str| {
            let call = format!("SELECT {{s}}.{call}");
            let answer = meeting
                .schema
                .client()
                .query_one(&meeting.schema.sql(&call), &[]);
            answer.unwrap().get::<_, bool>(0)
        };
        let answers = thread::scope(|scope| {
            let calls = [
                format!("wheelwork_cancel('{id}')"),
                format!("wheelwork_reschedule('{id}', now() + interval '1 hour')"),
            ];
            let calls = calls.map(|call| scope.spawn(move || by_sql(&call)));
            thread::sleep(MS * 50);
            user.batch_execute("COMMIT").unwrap();
            calls.map(|call| call.join().unwrap())
        });
        assert_eq!(answers, [false; 2]);
        assert!(!cancels.wait().unwrap() && !moves.wait().unwrap());
        meeting.until_gone(id);
        comes_to(&meeting, key, 1, 1)
    });
    meeting.node.stop().unwrap();
}

/// The lease goes to another node while an acknowledgement waits.
#[test]
fn an_acknowledgement_that_waits_is_refused_when_the_lease_is_lost() {
    let Some(meeting) = Meeting::new("lost", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        let lose = meeting.schema.sql(
            "UPDATE {s}.lease l SET owner = NULL, epoch = l.epoch + 1 FROM {s}.timer t
            WHERE t.part = l.part AND t.due < extract(epoch FROM now()) * 1000",
        );
        assert_eq!(meeting.schema.client().execute(&lose, &[]).unwrap(), 1);
        until("it is refused", || !meeting.told.lock().unwrap().is_empty());
        let told = meeting.told();
        let (calls, done) = (meeting.calls(key), meeting.done(key));
        user.batch_execute("COMMIT").unwrap();
        // (The user's transaction has taken its key, so it is gone when it is loaded.)
        meeting.until_gone(id);
        assert_eq!((done, meeting.done(key)), (0, 0));
        // (On a busy machine the lease may have ended before, and it was called again.)
        let is_lost = told == ["the timer was handed to another node meanwhile"];
        let is_so = is_lost && calls == 1;
        is_so
            .then_some(())
            .ok_or(format!("{calls} calls: {told:?}"))
    });
    assert!(meeting.node.stats().stale > 0);
    meeting.node.stop().unwrap();
}

/// A node that cannot renew its leases lets go of the timer as soon as they have ended.
#[test]
fn an_acknowledgement_does_not_wait_without_a_lease() {
    let Some(meeting) = Meeting::new("without", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let (id, _) = meeting.begin(key);
        let mut user = meeting.lock(key);
        let mut other = meeting.schema.client();
        let lock = "BEGIN; SELECT FROM {s}.node FOR UPDATE";
        other.batch_execute(&meeting.schema.sql(lock)).unwrap();
        thread::sleep(LEASE + MS * 300);
        let went = Instant::now();
        meeting.go.send(()).unwrap();
        until("it fails", || !meeting.told.lock().unwrap().is_empty());
        let took = went.elapsed();
        let told = meeting.told();
        other.batch_execute("ROLLBACK").unwrap();
        user.batch_execute("COMMIT").unwrap();
        meeting.until_gone(id);
        let is_blocked =
            told.len() == 1 && told[0].starts_with("another transaction has the timer");
        // (With a lease it waits for a second.)
        let is_so = is_blocked && took < MS * 600;
        is_so.then_some(()).ok_or(format!("{took:?}: {told:?}"))
    });
    meeting.node.stop().unwrap();
}

/// RightsLook before each call of a handler: what it does elsewhere must not overlap with what
/// another node's does.
#[test]
fn a_node_whose_lease_has_ended_does_not_call_a_handler_again() {
    let Some(schema) = Schema::new("ended") else {
        return;
    };
    let (begins, begun) = channel();
    let (go, goes) = channel::<()>();
    let goes = Mutex::new(goes);
    let (tells, told) = channel();
    let has_begun = AtomicBool::new(false);
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            if has_begun.swap(true, Ordering::SeqCst) {
                tells.send(work.attempt())?;
                return Ok(());
            }
            begins.send(())?;
            goes.lock().unwrap().recv()?;
            // It has met another transaction.
            transaction.batch_execute("DO $$BEGIN RAISE SQLSTATE '40001'; END$$")?;
            Ok(())
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    next(&begun);
    let mut other = schema.client();
    let lock = schema.sql("BEGIN; SELECT FROM {s}.node FOR UPDATE");
    other.batch_execute(&lock).unwrap();
    // It cannot renew its leases, which last for a second.
    thread::sleep(MS * 1_500);
    go.send(()).unwrap();
    thread::sleep(MS * 300);
    assert!(told.try_recv().is_err(), "it has no lease");
    other.batch_execute("ROLLBACK").unwrap();
    assert_eq!(next(&told), 1, "that was no attempt");
    until("it is done", || node.stats().done == 1);
    node.stop().unwrap();
}

/// A stop waits for an acknowledgement, and the handler is not called again.
#[test]
fn a_stop_lets_an_acknowledgement_wait() {
    once_at_least(|key| {
        let Some(meeting) = Meeting::new("stop", |_, _| Ok(())) else {
            return Ok(());
        };
        let (id, pid) = meeting.begin(key);
        let mut user = meeting.lock(key);
        meeting.meet(pid);
        thread::scope(|scope| {
            let stop = scope.spawn(|| meeting.node.stop());
            thread::sleep(MS * 100);
            assert!(!stop.is_finished(), "it waits");
            user.batch_execute("COMMIT").unwrap();
            stop.join().unwrap().unwrap();
        });
        let left = meeting
            .schema
            .sql("SELECT count(*) FROM {s}.timer WHERE id = $1::text::uuid");
        let left = user.query_one(&left, &[&id.to_string()]).unwrap();
        assert_eq!(left.get::<_, i64>(0), 0, "its end is stored");
        comes_to(&meeting, key, 1, 1)
    });
}

/// A connection that is lost while an acknowledgement waits: the attempt has failed, and nothing of
/// it stays.
#[test]
fn a_connection_that_is_lost_while_an_acknowledgement_waits_is_a_failure() {
    let Some(meeting) = Meeting::new("cut", |_, _| Ok(())) else {
        return;
    };
    let (_, pid) = meeting.begin("K");
    let mut user = meeting.lock("K");
    meeting.meet(pid);
    let end = "SELECT pg_terminate_backend($1)";
    user.query_one(end, &[&pid]).unwrap();
    until("it fails", || !meeting.told.lock().unwrap().is_empty());
    let told = meeting.told();
    assert!(told.len() == 1 && !told[0].contains("locked"), "{told:?}");
    assert_eq!((meeting.calls("K"), meeting.done("K")), (1, 0));
    user.batch_execute("ROLLBACK").unwrap();
    until("it is done", || meeting.node.stats().done == 1);
    assert_eq!(comes_to(&meeting, "K", 2, 1), Ok(()));
    meeting.node.stop().unwrap();
}

/// A handler that ends its transaction by itself is told so, and its timer does not end.
#[test]
fn a_handler_that_ends_its_transaction_has_failed() {
    for end in ["COMMIT", "ROLLBACK"] {
        let Some(schema) = Schema::new("by_hand") else {
            return;
        };
        let (tells, told) = channel();
        let node = Durable::builder(schema.store())
            .on_in_transaction("work", move |_, transaction| {
                transaction.batch_execute(end)?;
                Ok(())
            })
            .on_failed(move |_, why| _ = tells.send(why.to_owned()))
            .retry_policy(RetryPolicy::never())
            .start()
            .unwrap();
        node.schedule("work", MS, "").unwrap();
        let told = next(&told);
        assert!(
            told.starts_with("the handler has ended its transaction"),
            "{told}"
        );
        until("it is dead", || {
            node.dead_letters(None, 9).unwrap().len() == 1
        });
        node.stop().unwrap();
    }
}

/// A run of a calendar that is cancelled while its acknowledgement waits is the last one. What it
/// has done stays.
#[cfg(feature = "calendar")]
#[test]
fn a_run_whose_timer_is_cancelled_meanwhile_stays() {
    use wheelwork::calendar::Calendar;
    let Some(meeting) = Meeting::new("struck", |_, _| Ok(())) else {
        return;
    };
    once_at_least(|key| {
        let seconds = Calendar::cron("* * * * * *").unwrap();
        let timer = meeting.node.key(key);
        timer.schedule_calendar("work", seconds, key).unwrap();
        let pid = next(&meeting.begun);
        let mut user = meeting.schema.client();
        user.batch_execute("BEGIN").unwrap();
        let cancel = meeting.schema.sql("SELECT {s}.wheelwork_cancel_key($1)");
        assert!(user.query_one(&cancel, &[&key]).unwrap().get::<_, bool>(0));
        meeting.meet(pid);
        user.batch_execute("COMMIT").unwrap();
        let left = meeting.schema.sql("SELECT count(*) FROM {s}.timer");
        until("it is gone", || {
            user.query_one(&left, &[]).unwrap().get::<_, i64>(0) == 0
        });
        comes_to(&meeting, key, 1, 1)
    });
    meeting.node.stop().unwrap();
}
