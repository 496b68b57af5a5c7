//! apalis, a job queue, on PostgreSQL, as its documents have it where they differ from its
//! defaults: a worker that polls (`poll_with_interval`, 100 ms), 1,000 tasks a fetch
//! (`batch_size`), no second lock for each task (`lock_tasks`: a fetch marks them already). Several
//! are armed by `push_tasks`, in one statement. Deadlines are whole seconds: they are rounded up.

use super::subject::{Opening, Subject};
use crate::ledger::Ledger;
use crate::timers::{Timer, now_ns};
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use sqlx::postgres::PgPoolOptions;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

const QUEUE: &str = "timers";
const POLL: Duration = Duration::from_millis(100);

/// If a fetch takes longer than [`POLL`], the worker of apalis-core 1.0 sleeps until this is over.
const HEARTBEAT: Duration = Duration::from_secs(1);

const FETCHED: usize = 1_000;
const CONNECTIONS: u32 = 24;

pub(crate) struct Apalis {
    runtime: Runtime,
    pool: PgPool,
    poll: Duration,
    ledger: Arc<Ledger>,
}

pub(crate) struct Caller {
    handle: Handle,
    pool: PgPool,
}

/// Number and deadline.
type Args = (u64, u64, String);

fn failed(error: impl Display) -> String {
    format!("apalis: {error}")
}

async fn fire(timer: Args, ledger: Data<Arc<Ledger>>) -> Result<(), BoxDynError> {
    ledger.fired(timer.0, timer.1);
    if ledger.hangs {
        std::future::pending::<()>().await;
    }
    Ok(())
}

impl Subject for Apalis {
    type Caller = Caller;

    const BATCH: usize = 5_000;
    const BATCHES: usize = 4;

    fn open(opening: &Opening, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let pool = runtime.block_on(async {
            let options = PgPoolOptions::new().max_connections(CONNECTIONS);
            let pool = options.connect(&opening.url).await.map_err(failed)?;
            PostgresStorage::setup(&pool).await.map_err(failed)?;
            Ok::<_, String>(pool)
        })?;
        Ok(Self {
            runtime,
            pool,
            poll: opening.poll.unwrap_or(POLL),
            ledger: ledger.clone(),
        })
    }

    fn caller(&self) -> Result<Caller, String> {
        Ok(Caller {
            handle: self.runtime.handle().clone(),
            pool: self.pool.clone(),
        })
    }

    fn arm(caller: &mut Caller, timers: &[Timer]) -> Result<(), String> {
        let tasks = timers.iter().map(|timer| {
            let args: Args = (timer.number, timer.due_ms, timer.body.clone());
            let args = serde_json::to_vec(&args).map_err(failed)?;
            let due_s = timer.due_ms.div_ceil(1_000);
            Ok(TaskBuilder::new(args).run_at_timestamp(due_s).build())
        });
        let tasks = tasks.collect::<Result<Vec<_>, String>>()?;
        let pool = &caller.pool;
        caller.handle.block_on(async {
            let mut connection = pool.acquire().await.map_err(failed)?;
            apalis_postgres::queries::push_tasks(&mut *connection, QUEUE, tasks)
                .await
                .map_err(failed)
        })
    }

    fn work(&mut self) -> Result<(), String> {
        let config = Config::default()
            .queue(QUEUE)
            .batch_size(FETCHED)
            .heartbeat_interval(HEARTBEAT)
            .lock_tasks(false);
        let storage = PostgresStorage::<Args>::new(&self.pool).with_config(config);
        let worker = WorkerBuilder::new(format!("worker-{}", now_ns()))
            .backend(storage.poll_with_interval(self.poll))
            .data(self.ledger.clone())
            .build(fire);
        self.runtime.spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("apalis: {error}");
            }
        });
        Ok(())
    }

    fn left(&mut self) -> Result<bool, String> {
        let left = "SELECT EXISTS (SELECT FROM apalis.jobs WHERE status <> 'Done')";
        let left = sqlx::query_scalar::<_, bool>(left).fetch_one(&self.pool);
        self.runtime.block_on(left).map_err(failed)
    }

    fn close(self) -> Result<(), String> {
        // Its worker goes with the process.
        self.runtime.shutdown_background();
        Ok(())
    }
}
