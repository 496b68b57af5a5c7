//! Promise: a user's transaction holds up the timers that it has touched, and no others; and what
//! the SQL functions say is true, in transactions of any isolation level.
//!
//! Each test has a schema of its own in the database of WHEELWORK_POSTGRES
//! (`scripts/with-postgres`). Without it they say that they are left out, and pass.

#[path = "common/own_schema.rs"]
mod own_schema;

use own_schema::{Schema, next, until};
use postgres::Client;
use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use wheelwork_durable::{Delivery, Durable, DurableError, HandlerResult, RetryPolicy};

const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

/// Calls a function of the schema that says yes or no.
fn ask(client: &mut Client, schema: &Schema, call: &str) -> bool {
    let row = client.query_one(&schema.sql(&format!("SELECT {{s}}.{call}")), &[]);
    row.unwrap().get(0)
}

fn begin(client: &mut Client) {
    client.batch_execute("BEGIN").unwrap();
}

/// Arms a timer of a key, far away, by SQL.
fn arm(client: &mut Client, schema: &Schema, key: &str) {
    let call = "SELECT {s}.wheelwork_schedule('mail', now() + interval '1 hour', 'later', $1)";
    client.execute(&schema.sql(call), &[&key]).unwrap();
}

fn count(client: &mut Client, schema: &Schema) -> i64 {
    let sql = schema.sql("SELECT count(*) FROM {s}.timer");
    client.query_one(&sql, &[]).unwrap().get(0)
}

/// A transaction has replaced the key's timer, and commits while others ask for it.
fn replaced_meanwhile(
    schema: &Schema,
    call: impl FnOnce(&Schema) -> bool + Send,
) -> (bool, Client) {
    let mut user = schema.client();
    arm(&mut user, schema, "K");
    begin(&mut user);
    arm(&mut user, schema, "K");
    let answer = thread::scope(|scope| {
        let caller = scope.spawn(|| call(schema));
        // It waits for the transaction, in the database or on its node.
        thread::sleep(MS * 100);
        assert!(!caller.is_finished(), "nobody knows the answer yet");
        user.batch_execute("COMMIT").unwrap();
        caller.join().unwrap()
    });
    (answer, user)
}

#[test]
fn a_key_that_has_a_timer_throughout_is_cancelled_by_sql() {
    let Some(schema) = Schema::new("key_sql") else {
        return;
    };
    drop(schema.store());
    let (answer, mut client) = replaced_meanwhile(&schema, |schema| {
        ask(&mut schema.client(), schema, "wheelwork_cancel_key('K')")
    });
    assert!(answer, "the timer that replaced it is cancelled");
    assert_eq!(count(&mut client, &schema), 0);
}

#[test]
fn a_key_that_has_a_timer_throughout_is_moved_by_sql() {
    let Some(schema) = Schema::new("key_move") else {
        return;
    };
    drop(schema.store());
    let (answer, mut client) = replaced_meanwhile(&schema, |schema| {
        let call = "wheelwork_reschedule_key('K', now() + interval '2 hours')";
        ask(&mut schema.client(), schema, call)
    });
    assert!(answer);
    assert_eq!(count(&mut client, &schema), 1);
}

#[test]
fn a_key_that_has_a_timer_throughout_is_cancelled_by_a_node() {
    let Some(schema) = Schema::new("key_node") else {
        return;
    };
    let (send, _handled) = channel();
    let node = schema.node(&send);
    let (answer, mut client) = replaced_meanwhile(&schema, |_| node.key("K").cancel().unwrap());
    assert!(answer);
    assert_eq!(count(&mut client, &schema), 0);
    node.stop().unwrap();
}

#[test]
fn a_key_that_has_a_timer_throughout_is_replaced() {
    let Some(schema) = Schema::new("key_arm") else {
        return;
    };
    let (send, _handled) = channel();
    let node = schema.node(&send);
    let (_, mut client) = replaced_meanwhile(&schema, |_| {
        node.key("K").schedule("mail", HOUR, "newest").is_ok()
    });
    assert_eq!(count(&mut client, &schema), 1, "none is left behind");
    let (_, mut client) = replaced_meanwhile(&schema, |schema| {
        arm(&mut schema.client(), schema, "K");
        true
    });
    assert_eq!(count(&mut client, &schema), 1);
    node.stop().unwrap();
}

/// A new key that a transaction has taken and not committed.
#[test]
fn a_key_that_is_just_being_taken_holds_up_its_callers_alone() {
    let Some(schema) = Schema::new("key_new") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut user = schema.client();
    begin(&mut user);
    arm(&mut user, &schema, "K");
    let blocked = node
        .key("K")
        .schedule_ticket("mail", MS, "by the node")
        .unwrap();
    node.schedule("mail", MS, "another").unwrap();
    assert_eq!(next(&handled).0, "another");
    user.batch_execute("COMMIT").unwrap();
    blocked.wait().unwrap();
    assert_eq!(next(&handled).0, "by the node");
    until("it has replaced the other", || {
        count(&mut user, &schema) == 0
    });
    node.stop().unwrap();
}

#[test]
fn an_idle_transaction_holds_up_what_it_has_touched() {
    let Some(schema) = Schema::new("idle") else {
        return;
    };
    let (send, handled) = channel();
    let nodes = [schema.node(&send), schema.node(&send), schema.node(&send)];
    let mut user = schema.client();
    for key in ["hot", "due"] {
        arm(&mut user, &schema, key);
    }
    let soon = Duration::from_millis(600);
    assert!(nodes[0].key("due").reschedule(soon).unwrap());
    begin(&mut user);
    assert!(ask(&mut user, &schema, "wheelwork_cancel_key('hot')"));
    assert!(ask(&mut user, &schema, "wheelwork_cancel_key('due')"));
    // Each node has a caller that has to wait, and more leases than one to renew.
    let callers: Vec<_> = nodes
        .iter()
        .map(|node| {
            let node = node.client();
            thread::spawn(move || node.key("hot").cancel().unwrap())
        })
        .collect();
    for number in 0..60 {
        let node = &nodes[number % 3];
        node.schedule("mail", MS * 20, format!("{number}")).unwrap();
        let key = format!("key-{number}");
        node.key(&key)
            .schedule("mail", MS * 20, key.as_str())
            .unwrap();
    }
    for _ in 0..120 {
        assert_ne!(next(&handled).0, "later");
    }
    // Leases last a second: they are renewed meanwhile.
    thread::sleep(Duration::from_millis(1_500));
    assert!(handled.try_recv().is_err(), "\"due\" may be cancelled yet");
    assert!(nodes.iter().all(|node| node.failure().is_none()));
    user.batch_execute("ROLLBACK").unwrap();
    assert_eq!(next(&handled).0, "later", "what was held up fires");
    let gone = callers.into_iter().map(|caller| caller.join().unwrap());
    assert_eq!(gone.filter(|&is_gone| is_gone).count(), 1, "one of them");
    for node in nodes {
        node.stop().unwrap();
    }
}

#[test]
fn short_transactions_one_after_the_other_stop_nobody() {
    let Some(schema) = Schema::new("short") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut user = schema.client();
                while !ends.load(SeqCst) {
                    begin(&mut user);
                    ask(&mut user, &schema, "wheelwork_cancel_key('hot')");
                    thread::sleep(MS * 50);
                    user.batch_execute("COMMIT").unwrap();
                }
            });
        }
        for number in 0..200 {
            node.schedule("mail", MS * 5, format!("{number}")).unwrap();
            next(&handled);
        }
        ends.store(true, SeqCst);
    });
    node.stop().unwrap();
}

#[test]
fn a_false_answer_locks_nothing() {
    let Some(schema) = Schema::new("false") else {
        return;
    };
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let node = Durable::builder(schema.store())
        .on("slow", move |delivery| {
            begun.send(delivery.id())?;
            goes_on.lock().unwrap().recv()?;
            Ok(())
        })
        .start()
        .unwrap();
    node.key("K").schedule("slow", MS, "").unwrap();
    let id = next(&begins);
    let mut user = schema.client();
    begin(&mut user);
    assert!(!ask(&mut user, &schema, "wheelwork_cancel_key('K')"));
    let by_id = format!("wheelwork_cancel('{}')", uuid_text(&id.to_string()));
    assert!(!ask(&mut user, &schema, &by_id));
    go_on.send(()).unwrap();
    // The transaction is still open.
    let mut watch = schema.client();
    until("it is acknowledged", || count(&mut watch, &schema) == 0);
    user.batch_execute("COMMIT").unwrap();
    node.stop().unwrap();
}

fn uuid_text(hex: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| &hex[part]).join("-")
}

/// A transaction with an old snapshot cannot see that a timer was handed out meanwhile.
#[test]
fn an_old_snapshot_says_no_wrong_yes() {
    let Some(schema) = Schema::new("snapshot") else {
        return;
    };
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let (begun, begins) = channel();
        let (go_on, goes_on) = channel::<()>();
        let goes_on = std::sync::Mutex::new(goes_on);
        let node = Durable::builder(schema.store())
            .on("slow", move |_| {
                begun.send(())?;
                goes_on.lock().unwrap().recv()?;
                Ok(())
            })
            .start()
            .unwrap();
        let mut user = schema.client();
        node.key("far").schedule("slow", HOUR, "").unwrap();
        node.key("K").schedule("slow", MS * 500, "").unwrap();
        user.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))
            .unwrap();
        let seen: i64 = count(&mut user, &schema);
        assert_eq!(seen, 2, "the snapshot is taken");
        next(&begins);
        let call = schema.sql("SELECT {s}.wheelwork_cancel_key('K')");
        match user.query_one(&call, &[]) {
            Ok(row) => assert!(!row.get::<_, bool>(0), "{level}: it was handed out"),
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
            }
        }
        user.batch_execute("ROLLBACK").unwrap();
        // A young one works.
        until("a young transaction cancels", || {
            user.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))
                .unwrap();
            let call = schema.sql("SELECT {s}.wheelwork_cancel_key('far')");
            let answer = user.query_one(&call, &[]).map(|row| row.get::<_, bool>(0));
            let end = if answer.is_ok() { "COMMIT" } else { "ROLLBACK" };
            user.batch_execute(end).unwrap();
            answer.is_ok_and(|is_gone| is_gone)
        });
        go_on.send(()).unwrap();
        node.stop().unwrap();
    }
}

/// What `docs/limits.md` says of old snapshots: which calls fail, and which do not.
#[test]
fn in_an_old_snapshot_a_timer_without_a_key_can_be_armed() {
    let Some(schema) = Schema::new("old") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let arm = "SELECT {s}.wheelwork_schedule('mail', now() + interval '1 hour', 'later'";
    let calls = [
        ("wheelwork_cancel_key('far')", true),
        ("wheelwork_reschedule_key('far', now())", true),
        ("wheelwork_schedule('mail', now(), '', 'far')", true),
        (
            "wheelwork_schedule('mail', now() + interval '1 hour', '')",
            false,
        ),
    ];
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut user = schema.client();
        for (call, fails) in calls {
            let far = schema.sql(&format!("{arm}, 'far')"));
            user.execute(&far, &[]).unwrap();
            let begin = format!("BEGIN ISOLATION LEVEL {level}");
            user.batch_execute(&begin).unwrap();
            assert!(count(&mut user, &schema) > 0, "the snapshot is taken");
            // All partitions are this node's, and it raises its watermark for this timer. (The one
            // before is up to 75 ms ahead.)
            thread::sleep(MS * 200);
            node.schedule("mail", MS, "one").unwrap();
            next(&handled);
            let answer = user.execute(&schema.sql(&format!("SELECT {{s}}.{call}")), &[]);
            let code = answer.err().and_then(|error| error.code().cloned());
            let failure = fails.then_some(SqlState::T_R_SERIALIZATION_FAILURE);
            assert_eq!(code, failure, "{level}: {call}");
            let end = if fails { "ROLLBACK" } else { "COMMIT" };
            user.batch_execute(end).unwrap();
        }
    }
    node.stop().unwrap();
}

/// A transaction arms a timer whose deadline passes before the transaction ends, and its node hands
/// out another timer meanwhile.
#[test]
fn a_timer_whose_deadline_passes_in_its_transaction_is_too_late_to_cancel() {
    let Some(schema) = Schema::new("passes") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut user = schema.client();
    begin(&mut user);
    let arm = "SELECT {s}.wheelwork_schedule('mail', now(), 'own', 'K')";
    user.execute(&schema.sql(arm), &[]).unwrap();
    node.schedule("mail", MS, "another").unwrap();
    assert_eq!(next(&handled).0, "another");
    let is_cancelled = ask(&mut user, &schema, "wheelwork_cancel_key('K')");
    user.batch_execute("COMMIT").unwrap();
    assert!(!is_cancelled);
    assert_eq!(next(&handled).0, "own");
    node.stop().unwrap();
}

#[test]
fn of_two_transactions_that_arm_one_key_the_second_one_waits_and_replaces() {
    let Some(schema) = Schema::new("second") else {
        return;
    };
    drop(schema.store());
    let (mut first, mut second) = (schema.client(), schema.client());
    begin(&mut first);
    arm(&mut first, &schema, "K");
    thread::scope(|scope| {
        let arms = scope.spawn(|| {
            let arm = "SELECT {s}.wheelwork_schedule('mail', now(), 'second', 'K')";
            second.execute(&schema.sql(arm), &[]).unwrap();
        });
        thread::sleep(MS * 100);
        assert!(!arms.is_finished(), "it waits");
        first.batch_execute("COMMIT").unwrap();
        arms.join().unwrap();
    });
    let left = schema.sql("SELECT convert_from(payload, 'UTF8') FROM {s}.timer");
    let left = first.query(&left, &[]).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].get::<_, String>(0), "second");
}

#[test]
fn a_null_is_a_deadline_and_nothing_else() {
    let Some(schema) = Schema::new("null") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut user = schema.client();
    let mut arm = |values: &str| {
        let arm = format!("SELECT {{s}}.wheelwork_schedule({values})");
        let armed = user.execute(&schema.sql(&arm), &[]);
        armed.map_err(|error| error.code().cloned().unwrap())
    };
    assert_eq!(arm("'mail', NULL, 'now'"), Ok(1));
    assert_eq!(next(&handled).0, "now");
    for values in ["NULL, now(), ''", "'mail', now(), NULL"] {
        assert_eq!(arm(values), Err(SqlState::NOT_NULL_VIOLATION), "{values}");
    }
    node.stop().unwrap();
}

#[test]
fn a_bad_text_is_refused_and_ends_nothing() {
    let Some(schema) = Schema::new("texts") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    assert!(node.key("order-\0").get().unwrap().is_none());
    let refused = [
        node.key("order-\0").cancel().map(drop),
        node.key("order-\0").reschedule(HOUR).map(drop),
        node.key("order-\0").schedule("mail", HOUR, "").map(drop),
        node.schedule("mail\0", HOUR, "").map(drop),
        node.cancel_kind("\0").map(drop),
    ];
    for answer in refused {
        let error = answer.unwrap_err();
        let is_of_the_call = matches!(error, DurableError::Refused(_) | DurableError::Invalid(_));
        assert!(is_of_the_call, "{error}");
        assert!(!error.to_string().contains('\n'));
    }
    node.schedule("mail", MS, "still here").unwrap();
    assert_eq!(next(&handled).0, "still here");
    node.stop().unwrap();
}

#[test]
fn a_role_that_may_call_the_functions_may_do_nothing_else() {
    let Some(schema) = Schema::new("rights") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut owner = schema.client();
    let role = format!("{}_role", schema.name);
    owner
        .batch_execute(&schema.sql(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {{s}} TO {role}"
        )))
        .unwrap();
    let mut user = schema.client();
    user.batch_execute(&format!("SET ROLE {role}")).unwrap();
    arm(&mut user, &schema, "K");
    assert!(ask(&mut user, &schema, "wheelwork_cancel_key('K')"));
    let call = "SELECT {s}.wheelwork_schedule('mail', '-infinity', 'from a role')";
    user.execute(&schema.sql(call), &[]).unwrap();
    assert_eq!(next(&handled).0, "from a role");
    for refused in [
        "SELECT payload FROM {s}.timer",
        "UPDATE {s}.lease SET owner = NULL",
        "UPDATE {s}.node SET until = 'infinity'",
        "DELETE FROM {s}.dead",
        "SELECT {s}.wheelwork_arm('mail', NULL, 1, 'x', 1::smallint, gen_random_uuid())",
    ] {
        let error = user.batch_execute(&schema.sql(refused)).unwrap_err();
        let code = error.code();
        assert_eq!(code, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}");
    }
    node.stop().unwrap();
    owner
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .unwrap();
}

#[test]
fn any_uuid_and_any_time_have_an_answer() {
    let Some(schema) = Schema::new("any") else {
        return;
    };
    drop(schema.store());
    let mut user = schema.client();
    for call in [
        "wheelwork_cancel('ffffffff-ffff-ffff-ffff-ffffffffffff')",
        "wheelwork_cancel('8000ffff-ffff-ffff-ffff-ffffffffffff')",
        "wheelwork_cancel('00000000-0000-0000-0000-000000000000')",
        "wheelwork_reschedule('ffffffff-ffff-ffff-ffff-ffffffffffff', 'infinity')",
        "wheelwork_reschedule('0000ffff-ffff-ffff-ffff-ffffffffffff', '-infinity')",
        "wheelwork_reschedule_key('none', '-infinity')",
    ] {
        assert!(!ask(&mut user, &schema, call), "{call}");
    }
    for time in ["-infinity", "0001-01-01", "290000-01-01", "infinity"] {
        let call = format!("SELECT {{s}}.wheelwork_schedule('mail', '{time}', '')");
        user.execute(&schema.sql(&call), &[]).unwrap();
    }
    assert_eq!(count(&mut user, &schema), 4);
}

/// Clients that send the types of what they bind (sqlx, diesel) prepare the guide's statements.
#[test]
fn the_functions_take_the_types_that_other_clients_send() {
    let Some(schema) = Schema::new("types") else {
        return;
    };
    drop(schema.store());
    let mut client = schema.client();
    let schedule =
        "SELECT {s}.wheelwork_schedule($1, now() + $2 * interval '1 second', $3, $4)::text";
    let types = [Type::TEXT, Type::FLOAT8, Type::BYTEA, Type::TEXT];
    let schedule = client.prepare_typed(&schema.sql(schedule), &types).unwrap();
    let cancel = "SELECT {s}.wheelwork_cancel_key($1) AS done";
    let cancel = client
        .prepare_typed(&schema.sql(cancel), &[Type::TEXT])
        .unwrap();
    let mut transaction = client.transaction().unwrap();
    let payload: &[u8] = b"4711";
    let values: [&(dyn ToSql + Sync); 4] = [&"order.unpaid", &1_800.0, &payload, &"order-4711"];
    let id: String = transaction.query_one(&schedule, &values).unwrap().get(0);
    assert_eq!(id.len(), 36, "{id}");
    transaction.commit().unwrap();
    let done = client.query_one(&cancel, &[&"order-4711"]).unwrap();
    assert!(done.get::<_, bool>("done"));
}

#[test]
fn a_timer_that_was_moved_to_its_own_deadline_is_cancelled_once() {
    let Some(schema) = Schema::new("in_place") else {
        return;
    };
    let (send, _handled) = channel();
    let node = schema.node(&send);
    let mut client = schema.client();
    for call in [
        "schedule_at('mail', 4000000000000, 'x', 'K')",
        "reschedule_key_at('K', 4000000000000)",
    ] {
        let call = schema.sql(&format!("SELECT {{s}}.wheelwork_{call}"));
        client.execute(&call, &[]).unwrap();
    }
    assert_eq!(node.cancel_kind("mail").unwrap(), 1);
    node.stop().unwrap();
}

#[cfg(feature = "calendar")]
#[test]
fn a_run_that_has_ended_well_stays_though_its_timer_is_just_being_cancelled() {
    use std::sync::Mutex;
    use wheelwork::calendar::Calendar;
    let Some(schema) = Schema::new("last_run") else {
        return;
    };
    let mut user = schema.client();
    let make = schema.sql("CREATE SCHEMA {s}; CREATE TABLE {s}.work (payload text)");
    user.batch_execute(&make).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work (payload) VALUES ('run')");
    let (begun, runs) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    // (With a lease of a second it would wait for half of one.)
    let store = schema.builder(&schema.database).lease(MS * 4_000);
    let node = Durable::builder(store.connect().unwrap())
        .on_in_transaction("work", move |_, transaction| {
            transaction.execute(&insert, &[])?;
            begun.send(())?;
            Ok(may_go.lock().unwrap().recv()?)
        })
        .start()
        .unwrap();
    let seconds = Calendar::cron("* * * * * *").unwrap();
    node.key("K")
        .schedule_calendar("work", seconds, "")
        .unwrap();
    next(&runs);
    begin(&mut user);
    assert!(ask(&mut user, &schema, "wheelwork_cancel_key('K')"));
    go.send(()).unwrap();
    // Its acknowledgement waits for this transaction.
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '.timer%'";
    let mut other = schema.client();
    until("it waits", || {
        other.query_one(waits, &[&schema.name]).unwrap().get(0)
    });
    user.batch_execute("COMMIT").unwrap();
    until("the run has ended", || {
        let stats = node.stats();
        stats.done + stats.failed > 0
    });
    assert_eq!((node.stats().done, node.stats().failed), (1, 0));
    let work = user.query_one(&schema.sql("SELECT count(*) FROM {s}.work"), &[]);
    assert_eq!(work.unwrap().get::<_, i64>(0), 1, "what it did is there");
    assert_eq!(count(&mut user, &schema), 0, "no row stays behind");
    node.stop().unwrap();
}

#[test]
fn a_timer_that_is_replaced_while_its_handler_fails_is_no_dead_letter() {
    use std::sync::Mutex;
    let Some(schema) = Schema::new("no_letter") else {
        return;
    };
    let (begun, runs) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    let node = Durable::builder(schema.store())
        .on("mail", move |_: &Delivery| -> HandlerResult {
            begun.send(())?;
            may_go.lock().unwrap().recv()?;
            Err("it fails".into())
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    let mut user = schema.client();
    for number in 0..10 {
        let key = format!("K{number}");
        node.key(&key).schedule("mail", MS, "now").unwrap();
        next(&runs);
        begin(&mut user);
        arm(&mut user, &schema, &key);
        go.send(()).unwrap();
        // What the handler has said may wait for this transaction just now.
        thread::sleep(MS * (2 + number));
        user.batch_execute("COMMIT").unwrap();
        let of_key = i64::from(number) + 1;
        until("the row is gone", || count(&mut user, &schema) == of_key);
    }
    assert!(node.dead_letters(None, 10).unwrap().is_empty());
    node.stop().unwrap();
}
