//! Promise: the outbox takes transactions of sqlx. What it does to timers is committed and rolled
//! back with what the program does to its rows.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::left_behind::{HOUR, check, far, url};
use crate::own_schema::Schema;
use sqlx::Connection as _;
use wheelwork_durable::{DurableId, PostgresOutbox};

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
