//! apalis, a job queue, on SQLite, as its documents have it where they differ from its defaults:
//! a worker that polls (`poll_with_interval`, 100 ms), 1,000 tasks a fetch (`batch_size`), no locks
//! (`lock_tasks`), since there is one worker, and one connection, so that none finds the database
//! locked. Tasks that queue together are pushed in one transaction.
//!
//! Its `setup` switches syncs off; here each connection has WAL and `synchronous=FULL`, as the
//! other subjects are durable too. Deadlines are whole seconds: they are rounded up.

use super::engine::{Change, Engine, Reader, Row, Span, failed};
use crate::ledger::Ledger;
use crate::random::{Payload, now_ns};
use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const POLL: Duration = Duration::from_millis(100);

/// If a fetch takes longer than [`POLL`], the worker of apalis-core 1.0 sleeps until this is over.
const HEARTBEAT: Duration = Duration::from_secs(1);

const BATCH: usize = 1_000;
const CONNECTIONS: u32 = 1;
const BUSY: Duration = Duration::from_secs(30);

/// A deadline in milliseconds, and a payload of 64 letters.
type Args = (u64, String);

pub(crate) struct Apalis {
    runtime: Runtime,
    pool: SqlitePool,
    storage: SqliteStorage<Args>,
}

/// There is none.
pub(crate) enum NoReader {}

async fn fire(timer: Args, ledger: Data<Arc<Ledger>>) -> Result<(), BoxDynError> {
    ledger.fired(timer.0);
    Ok(())
}

async fn connect(path: &Path) -> Result<SqlitePool, apalis_sqlite::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY)
        .synchronous(SqliteSynchronous::Full);
    let setup = SqlitePoolOptions::new().max_connections(1);
    let setup = setup.connect_with(options.clone()).await?;
    SqliteStorage::setup(&setup).await?;
    setup.close().await;
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
    Ok(pool.connect_with(options).await?)
}

impl Engine for Apalis {
    type Reader = NoReader;

    fn open(folder: &Path, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| failed("no runtime")(&error))?;
        let pool = runtime.block_on(connect(&folder.join("apalis.sqlite")));
        let pool = pool.map_err(|error| failed("apalis")(&error))?;
        let config = Config::default()
            .queue("timers")
            .batch_size(BATCH)
            .heartbeat_interval(HEARTBEAT)
            .lock_tasks(false);
        let storage = SqliteStorage::<Args>::new(&pool).with_config(config);
        let worker = WorkerBuilder::new(format!("worker-{}", now_ns()))
            .backend(storage.clone().poll_with_interval(POLL))
            .data(ledger.clone())
            .build(fire);
        runtime.spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("apalis: {error}");
            }
        });
        Ok(Self {
            runtime,
            pool,
            storage,
        })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            let Change::Arm(key, payload) = change else {
                return Err("apalis: no call that cancels a task".to_string());
            };
            let task = TaskBuilder::new((key.due, letters(payload)))
                .run_at_timestamp(key.due.div_ceil(1_000))
                .build();
            let sent = TaskSink::start_send(Pin::new(&mut self.storage), task);
            sent.map_err(|error| failed("apalis")(&error))?;
        }
        let flush = poll_fn(|context| TaskSink::poll_flush(Pin::new(&mut self.storage), context));
        let flushed = self.runtime.block_on(flush);
        flushed.map_err(|error| failed("apalis")(&error))
    }

    fn reader(&self) -> Result<Option<NoReader>, String> {
        Ok(None)
    }

    fn own_acks(&self) -> Option<Box<dyn Fn() -> u64 + Send + Sync>> {
        let (pool, handle) = (self.pool.clone(), self.runtime.handle().clone());
        Some(Box::new(move || {
            let count = "SELECT count(*) FROM Jobs WHERE status = 'Done'";
            let count = handle.block_on(sqlx::query_scalar::<_, i64>(count).fetch_one(&pool));
            // It is asked again.
            count.unwrap_or(0) as u64
        }))
    }

    fn close(self) -> Result<(), String> {
        self.runtime.block_on(self.pool.close());
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }
}

impl Reader for NoReader {
    fn due(&mut self, _: Span, _: usize, _: &mut Vec<Row>) -> Result<(), String> {
        match *self {}
    }
}

/// As many as the payload has bytes.
fn letters(payload: &Payload) -> String {
    payload
        .iter()
        .map(|byte| char::from(b'a' + byte % 26))
        .collect()
}
