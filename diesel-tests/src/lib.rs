//! Promise: the outbox takes connections of diesel. What it does to timers is committed and rolled
//! back with what the program does to its rows.
//!
//! A connection is taken by diesel's traits, so the tests have three: one of PostgreSQL's C
//! library, one of a pool, and one that has no C library below it. Each test has a schema of its
//! own on a server (`durable/tests/common/server.rs`). Without one the tests are left out, which is
//! said.

#![cfg(test)]

#[path = "../../durable/tests/common/left_behind.rs"]
mod left_behind;
#[path = "../../durable/tests/common/own_schema.rs"]
mod own_schema;

use diesel::connection::LoadConnection;
use diesel::pg::{Pg, PgConnection};
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::{Connection, RunQueryDsl, result::Error, sql_query};
use diesel_async::AsyncPgConnection;
use diesel_async::async_connection_wrapper::AsyncConnectionWrapper;
use left_behind::{HOUR, check, far, url};
use own_schema::Schema;
use wheelwork_durable::{DurableId, OutboxWithin, PostgresOutbox};

fn commits(client: &mut impl LoadConnection<Backend = Pg>, outbox: &PostgresOutbox) -> DurableId {
    let kept = client.transaction(|client| {
        let mut timers = outbox.within_diesel(client);
        let kept = timers.schedule("mail", HOUR, "kept")?;
        assert!(timers.reschedule(kept, far())?);
        let gone = timers.schedule("mail", HOUR, "gone")?;
        assert!(timers.cancel(gone)?);
        assert!(!timers.cancel(gone)?);
        for payload in ["older", "newer"] {
            timers.key("kept").schedule("mail", HOUR, payload)?;
        }
        timers.key("cancelled").schedule("mail", far(), "x")?;
        assert!(timers.key("kept").reschedule(HOUR * 2)?);
        assert!(timers.key("cancelled").cancel()?);
        assert!(!timers.key("cancelled").reschedule(HOUR)?);
        sql_query("SELECT 1").execute(client)?;
        Ok::<_, Error>(kept)
    });
    kept.unwrap()
}

/// Arms a timer, and cancels the other one, in vain. Returns the timer that is lost.
fn rolls_back(
    client: &mut impl LoadConnection<Backend = Pg>,
    outbox: &PostgresOutbox,
    kept: DurableId,
) -> DurableId {
    let mut lost = None;
    let answer: Result<(), Error> = client.transaction(|client| {
        let mut timers = outbox.within_diesel(client);
        lost = Some(timers.schedule("mail", far(), "lost")?);
        assert!(timers.cancel(kept)?);
        assert!(timers.key("kept").cancel()?);
        Err(Error::RollbackTransaction)
    });
    assert_eq!(answer, Err(Error::RollbackTransaction));
    lost.unwrap()
}

fn has_the_calls<C>(name: &str, connect: impl FnOnce(&str) -> C)
where
    C: LoadConnection<Backend = Pg>,
{
    let Some(schema) = Schema::new(name) else {
        return;
    };
    let mut store = schema.store();
    let outbox = store.outbox();
    let mut client = connect(&url(&schema));
    let kept = commits(&mut client, &outbox);
    let lost = rolls_back(&mut client, &outbox, kept);
    check(&mut store, kept, lost);

    // A transaction within another one is a savepoint.
    let outer = client.transaction(|client| {
        let lost = rolls_back(client, &outbox, kept);
        Ok::<_, Error>(lost)
    });
    check(&mut store, kept, outer.unwrap());

    // Outside a transaction a call is one of its own.
    let mut timers = outbox.within_diesel(&mut client);
    let alone = timers.schedule("mail", far(), "alone").unwrap();
    assert!(timers.cancel(alone).unwrap());
    let no_timer = DurableId::from_bits(lost.to_bits() ^ 1);
    assert!(!timers.cancel(no_timer).unwrap());
    assert!(format!("{timers:?}").starts_with("OutboxWithin"));

    // An error of the database is diesel's, and the transaction is no more than that.
    let other = Schema::new("diesel_other").unwrap();
    let gone = other.store().outbox();
    other
        .client()
        .batch_execute(&other.sql("DROP SCHEMA {s} CASCADE"))
        .unwrap();
    let answer = client.transaction(|client| {
        assert!(outbox.within_diesel(client).cancel(kept)?);
        gone.within_diesel(client).cancel(kept)
    });
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::DatabaseError(..)), "{error:?}");
    check(&mut store, kept, lost);
}

#[test]
fn a_connection_of_libpq_has_the_calls() {
    has_the_calls("libpq", |url| PgConnection::establish(url).unwrap());
}

#[test]
fn a_connection_of_a_pool_has_the_calls() {
    has_the_calls("pool", |url| {
        let connections = ConnectionManager::<PgConnection>::new(url);
        Pool::builder()
            .max_size(1)
            .build(connections)
            .unwrap()
            .get()
            .unwrap()
    });
}

#[test]
fn a_connection_without_libpq_has_the_calls() {
    type Wrapper = AsyncConnectionWrapper<AsyncPgConnection>;
    has_the_calls("wrapper", |url| Wrapper::establish(url).unwrap());
}

/// A function of the program that any client can call.
#[test]
fn code_for_all_clients_takes_diesel_too() {
    fn cancel_both<T: wheelwork_durable::OutboxClient>(
        timers: &mut OutboxWithin<'_, T>,
        [one, other]: [DurableId; 2],
    ) -> Result<bool, T::Error> {
        Ok(timers.cancel(one)? & timers.cancel(other)?)
    }
    let Some(schema) = Schema::new("both") else {
        return;
    };
    let outbox = schema.store().outbox();
    let mut client = PgConnection::establish(&url(&schema)).unwrap();
    let mut timers = outbox.within_diesel(&mut client);
    let ids = ["a", "b"].map(|text| timers.schedule("mail", far(), text).unwrap());
    assert_eq!(cancel_both(&mut timers, ids), Ok(true));
    assert_eq!(cancel_both(&mut timers, ids), Ok(false));
}
