//! tokio-cron-scheduler, with its rows on PostgreSQL and its notifications in memory. It stores
//! when a job is due, in whole seconds, and not what it does: a closure stays in the process that
//! has added it. A row is marked before its closure has run, and is never deleted. Every process
//! that has opened the table looks at all rows that are due, each half second.
//!
//! Deadlines are rounded down by it and compared with `<`, in seconds, so that none is early. Its
//! channels have room for all timers that are due at once (`channel_size`); with its default of 200
//! it loses what does not fit.

use super::subject::{Opening, Subject};
use crate::ledger::Ledger;
use crate::timers::{Timer, now_ms};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio_cron_scheduler::{
    Job, JobScheduler, PostgresMetadataStore, PostgresStore, SimpleJobCode, SimpleNotificationCode,
    SimpleNotificationStore,
};
use tokio_postgres::NoTls;

const CHANNEL: usize = 1 << 18;

/// So that what is left of a second is not cut off.
const SLACK: Duration = Duration::from_millis(50);

pub(crate) struct TokioCron {
    runtime: Runtime,
    url: String,
    scheduler: JobScheduler,
    ledger: Arc<Ledger>,
}

pub(crate) struct Caller {
    handle: Handle,
    scheduler: JobScheduler,
    ledger: Arc<Ledger>,
}

fn failed(error: impl Display) -> String {
    format!("tokio-cron-scheduler: {error}")
}

impl Subject for TokioCron {
    type Caller = Caller;

    const BATCH: usize = 1;
    const BATCHES: usize = 1;

    fn open(opening: &Opening, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let rows = PostgresMetadataStore {
            store: Arc::new(tokio::sync::RwLock::new(PostgresStore::Created(
                opening.url.clone(),
            ))),
            init_tables: true,
            table: "job".to_string(),
        };
        let scheduler = runtime.block_on(async {
            let scheduler = JobScheduler::new_with_storage_and_code(
                Box::new(rows),
                Box::<SimpleNotificationStore>::default(),
                Box::<SimpleJobCode>::default(),
                Box::<SimpleNotificationCode>::default(),
                CHANNEL,
            );
            let mut scheduler = scheduler.await.map_err(failed)?;
            scheduler.init().await.map_err(failed)?;
            Ok::<_, String>(scheduler)
        })?;
        Ok(Self {
            runtime,
            url: opening.url.clone(),
            scheduler,
            ledger: ledger.clone(),
        })
    }

    fn caller(&self) -> Result<Caller, String> {
        Ok(Caller {
            handle: self.runtime.handle().clone(),
            scheduler: self.scheduler.clone(),
            ledger: self.ledger.clone(),
        })
    }

    fn arm(caller: &mut Caller, timers: &[Timer]) -> Result<(), String> {
        for timer in timers {
            let (number, due_ms) = (timer.number, timer.due_ms);
            let left_ms = due_ms.saturating_sub(now_ms());
            let left = Duration::from_secs(left_ms.div_ceil(1_000)) + SLACK;
            let ledger = caller.ledger.clone();
            let job = Job::new_one_shot(left, move |_, _| ledger.fired(number, due_ms));
            let added = caller.scheduler.add(job.map_err(failed)?);
            caller.handle.block_on(added).map_err(failed)?;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<(), String> {
        let scheduler = &mut self.scheduler;
        self.runtime
            .block_on(async { scheduler.start().await })
            .map_err(failed)
    }

    fn left(&mut self) -> Result<bool, String> {
        let left = "SELECT EXISTS (SELECT FROM job WHERE next_tick > 0)";
        self.runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.url, NoTls).await;
            let (client, connection) = connected.map_err(failed)?;
            tokio::spawn(connection);
            let row = client.query_one(left, &[]).await.map_err(failed)?;
            Ok(row.get(0))
        })
    }

    fn close(self) -> Result<(), String> {
        self.runtime.shutdown_background();
        Ok(())
    }
}
