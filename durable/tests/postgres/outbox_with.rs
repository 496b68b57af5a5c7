//! Promise: a transaction of a user's arms a timer with all that few timers have, by a function of
//! the schema, unless a program may come that would get it wrong.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::Schema;
use crate::versions::{NUMBER, Role, numbers};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::time::Duration;
use uuid::Uuid;
use wheelwork_durable::contract::{HeldWhy, Outcome, Settled, Store, Target, Write};
use wheelwork_durable::{DurableId, Row, StoreTime};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The year 2100.
const FAR: i64 = 4_102_444_800_000;

/// What the function is given besides kind, deadline and payload.
#[derive(Clone, Copy, Default)]
struct With<'a> {
    key: Option<&'a str>,
    expires: Option<i64>,
    limit_ms: Option<i64>,
    trace: Option<&'a str>,
}

fn arm(client: &mut Client, schema: &Schema, with: With<'_>) -> Result<DurableId, postgres::Error> {
    let call = "SELECT {s}.wheelwork_schedule_with_at('mail', $1, 'x', $2, $3, $4, $5)";
    let With {
        key,
        expires,
        limit_ms,
        trace,
    } = with;
    let row = client.query_one(
        &schema.sql(call),
        &[&FAR, &key, &expires, &limit_ms, &trace],
    )?;
    Ok(DurableId::from_bits(row.get::<_, Uuid>(0).as_u128()))
}

fn get(store: &mut impl Store, id: DurableId) -> Row {
    store.get(&Target::Id(id)).unwrap().expect("it is there")
}

#[test]
fn it_arms_what_a_node_reads() {
    let Some(schema) = Schema::new("with") else {
        return;
    };
    let mut store = schema.store();
    store.acquire().unwrap();
    // A role without rights on the tables.
    let shop = Role::new(&schema, "shop", "");
    let mut client = Client::connect(&shop.database(), NoTls).unwrap();
    let plain = arm(&mut client, &schema, With::default()).unwrap();
    let traced = With {
        key: Some("order"),
        trace: Some(TRACE),
        ..With::default()
    };
    let traced = arm(&mut client, &schema, traced).unwrap();
    assert_eq!(numbers(&schema), (3, NUMBER), "a trace does no harm");
    let row = get(&mut store, plain);
    let expected = Row::new(
        plain,
        StoreTime::from_millis(FAR as u64),
        "mail".into(),
        (*b"x").into(),
    );
    assert_eq!(row, expected);
    let row = get(&mut store, traced);
    assert_eq!(
        (row.traceparent(), row.key.as_deref()),
        (Some(TRACE), Some("order"))
    );
    let mut row = row;
    row.set_expires(Some(StoreTime::MAX));
    row.id = store.new_id(None, row.due);
    row.key = None;
    store.commit(vec![Write::Arm(row)], &mut AllMayGo).unwrap();
    let all = With {
        key: Some("order"),
        expires: Some(FAR + 5),
        limit_ms: Some(250),
        trace: Some(TRACE),
    };
    let id = arm(&mut client, &schema, all).unwrap();
    assert_eq!(store.get(&Target::Id(traced)).unwrap(), None, "replaced");
    let row = get(&mut store, id);
    assert_eq!(row.expires(), Some(StoreTime::from_millis(FAR as u64 + 5)));
    assert_eq!(row.time_limit(), Some(Duration::from_millis(250)));
    assert_eq!(row.traceparent(), Some(TRACE));
    // What is no trace is left out, and what is no limit is refused.
    for trace in ["", "a b", "\u{e9}", &"x".repeat(129)] {
        let with = With {
            trace: Some(trace),
            ..With::default()
        };
        let id = arm(&mut client, &schema, with).unwrap();
        assert_eq!(get(&mut store, id).traceparent(), None, "{trace}");
    }
    for (expires, limit_ms) in [
        (Some(FAR - 1), None),
        (None, Some(0)),
        (None, Some(-1)),
        (None, Some(1 << 48)),
    ] {
        let with = With {
            expires,
            limit_ms,
            ..With::default()
        };
        let error = arm(&mut client, &schema, with).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));
    }
    let last = With {
        expires: Some(i64::MAX),
        ..With::default()
    };
    let id = arm(&mut client, &schema, last).unwrap();
    assert_eq!(get(&mut store, id).expires(), Some(StoreTime::MAX));
}

#[test]
fn it_refuses_what_an_older_program_would_get_wrong() {
    let Some(schema) = Schema::new("refuses") else {
        return;
    };
    let mut store = schema.store();
    let leases = store.acquire().unwrap();
    let mut client = schema.client();
    let expires = With {
        expires: Some(FAR),
        ..With::default()
    };
    let limit = With {
        limit_ms: Some(1),
        ..With::default()
    };
    let mut refused = |with| {
        let error = arm(&mut client, &schema, with).unwrap_err();
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        assert_eq!(error.code(), Some(&state));
    };
    refused(expires);
    refused(limit);
    // A floor that rows which are held have raised may fall again.
    let due = StoreTime::from_millis(FAR as u64);
    let id = store.new_id(None, due);
    let lease = leases
        .iter()
        .find(|lease| lease.partition == id.partition());
    let epoch = lease.unwrap().epoch;
    let hold = Write::Hold {
        of: Settled { id, due, epoch },
        why: HeldWhy::Paused,
        since: due,
    };
    let row = Row::new(id, due, "mail".into(), (*b"x").into());
    let outcomes = store.commit(vec![Write::Arm(row), hold], &mut AllMayGo);
    assert!(matches!(outcomes.unwrap()[1], Outcome::Settled(true, _)));
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    refused(expires);
    refused(limit);
    let close = schema.sql("SELECT {s}.wheelwork_close(5, 'shop')");
    client.batch_execute(&close).unwrap();
    arm(&mut client, &schema, expires).unwrap();
    arm(&mut client, &schema, limit).unwrap();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

/// A deadline in the past means now, and so does none. A timer that has expired by then would
/// become a dead letter in any case.
#[test]
fn it_refuses_what_has_expired_already() {
    let Some(schema) = Schema::new("expired") else {
        return;
    };
    drop(schema.store());
    let mut client = schema.client();
    let close = schema.sql("SELECT {s}.wheelwork_close(5, 'shop')");
    client.batch_execute(&close).unwrap();
    let now = schema.sql("SELECT {s}.wheelwork_clock()");
    let now: i64 = client.query_one(&now, &[]).unwrap().get(0);
    let call = "SELECT {s}.wheelwork_schedule_with_at('mail', $1, 'x', NULL, $2, NULL, NULL)";
    let call = schema.sql(call);
    let mut arm = |due: Option<i64>, expires: i64| {
        let armed = client.execute(&call, &[&due, &expires]);
        armed.map_err(|error| error.code().cloned())
    };
    for due in [None, Some(i64::MIN), Some(0), Some(now - 1_000), Some(now)] {
        let refused = Some(SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(arm(due, now - 1), Err(refused), "{due:?}");
        assert_eq!(arm(due, FAR), Ok(1), "{due:?}");
    }
    // A deadline after the last one means the last one.
    assert_eq!(
        arm(Some(i64::MAX), StoreTime::MAX.as_millis() as i64),
        Ok(1)
    );
    let count = schema.sql("SELECT count(*) FROM {s}.timer");
    let count: i64 = schema.client().query_one(&count, &[]).unwrap().get(0);
    assert_eq!(count, 6);
}
