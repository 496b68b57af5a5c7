//! Promise: the outbox takes transactions of sqlx. What it does to timers is committed and rolled
//! back with what the program does to its rows.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::Schema;
use sqlx::Connection as _;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Store, Target};
use wheelwork_durable::{DurableId, PostgresOutbox, Row, StoreTime};

const HOUR: Duration = Duration::from_secs(3_600);

/// The year 2100, when nothing is due in a test.
fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(4_102_444_800_000)
}

/// The address of the server, as a URL.
fn url(schema: &Schema) -> String {
    let part = |name: &str| {
        let parts = schema.database.split(' ');
        let mut values = parts.filter_map(|part| part.strip_prefix(name));
        values.next().unwrap_or_default().to_owned()
    };
    let [host, port, user, dbname] = ["host=", "port=", "user=", "dbname="].map(part);
    format!("postgres://{user}@{host}:{port}/{dbname}?sslmode=disable")
}

fn get(store: &mut impl Store, id: DurableId) -> Option<Row> {
    store.get(&Target::Id(id)).unwrap()
}

fn key(store: &mut impl Store, key: &str) -> Option<Row> {
    store.get(&Target::Key(key.into())).unwrap()
}

/// What the client has left behind: of each pair of timers the committed one.
fn check(store: &mut impl Store, kept: DurableId, lost: DurableId) {
    let row = get(store, kept).expect("it is there");
    assert_eq!((&*row.kind, &row.payload[..]), ("mail", &b"kept"[..]));
    assert_eq!(row.due, StoreTime::from_millis(4_102_444_800_000));
    assert_eq!(get(store, lost), None);
    let row = key(store, "kept").expect("it is there");
    assert_eq!(&row.payload[..], b"newer", "a key has one timer");
    let in_two_hours = StoreTime::due_at(SystemTime::now() + HOUR * 2 - HOUR / 2);
    assert!(row.due > in_two_hours, "it was moved by its key");
    assert_eq!(key(store, "cancelled"), None);
}

async fn with_sqlx(
    url: &str,
    outbox: &PostgresOutbox,
) -> Result<(DurableId, DurableId), sqlx::Error> {
    let mut client = sqlx::PgConnection::connect(url).await?;
    let mut transaction = client.begin().await?;
    let mut timers = outbox.within_sqlx(&mut transaction);
    let kept = timers.schedule("mail", HOUR, "kept").await?;
    assert!(timers.reschedule(kept, far()).await?);
    let gone = timers.schedule("mail", HOUR, "gone").await?;
    assert!(timers.cancel(gone).await?);
    assert!(!timers.cancel(gone).await?);
    for payload in ["older", "newer"] {
        let keyed = timers.key("kept");
        keyed.schedule("mail", HOUR, payload).await?;
    }
    timers.key("cancelled").schedule("mail", far(), "x").await?;
    assert!(timers.key("kept").reschedule(HOUR * 2).await?);
    assert!(timers.key("cancelled").cancel().await?);
    sqlx::query("SELECT 1").execute(&mut *transaction).await?;
    transaction.commit().await?;
    let mut transaction = client.begin().await?;
    let mut timers = outbox.within_sqlx(&mut transaction);
    let lost = timers.schedule("mail", far(), "lost").await?;
    assert!(timers.cancel(kept).await?);
    transaction.rollback().await?;
    // Outside a transaction a call is one of its own.
    let mut timers = outbox.within_sqlx(&mut client);
    let no_timer = DurableId::from_bits(lost.to_bits() ^ 1);
    assert!(!timers.cancel(no_timer).await?);
    Ok((kept, lost))
}

#[test]
fn sqlx_has_the_calls() {
    let Some(schema) = Schema::new("sqlx") else {
        return;
    };
    let mut store = schema.store();
    let (outbox, url) = (store.outbox(), url(&schema));
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    // The future goes from thread to thread.
    let ids = std::thread::scope(|scope| {
        let work = with_sqlx(&url, &outbox);
        scope.spawn(|| runtime.block_on(work)).join().unwrap()
    });
    let (kept, lost) = ids.unwrap();
    check(&mut store, kept, lost);
    // An error of the database is sqlx's.
    let other = Schema::new("sqlx_other").unwrap();
    let gone = other.store().outbox();
    other
        .client()
        .batch_execute(&other.sql("DROP SCHEMA {s} CASCADE"))
        .unwrap();
    let error = runtime.block_on(async {
        let mut client = sqlx::PgConnection::connect(&url).await.unwrap();
        gone.within_sqlx(&mut client)
            .cancel(kept)
            .await
            .unwrap_err()
    });
    assert!(matches!(error, sqlx::Error::Database(_)), "{error:?}");
}
