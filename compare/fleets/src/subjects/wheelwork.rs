//! `wheelwork_durable` on `Postgres`, as it comes: handlers run on the pool that all services
//! share. Several are armed by `schedule_many`.

use super::subject::{Opening, Subject};
use crate::ledger::Ledger;
use crate::timers::Timer;
use postgres::config::Host;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork_durable::{Delivery, Durable, Postgres};

const KIND: &str = "timer";

pub(crate) struct Wheelwork {
    durable: Arc<Durable>,
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("wheelwork: {error}")
}

/// The connection string of an address: `host=.. port=.. user=.. dbname=..`.
fn words_of(url: &str) -> Result<String, String> {
    let config: postgres::Config = url.parse().map_err(failed)?;
    let Some(Host::Tcp(host)) = config.get_hosts().first() else {
        return Err("wheelwork: a host that is reached by TCP is needed".to_string());
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("postgres");
    let name = config.get_dbname().unwrap_or(user);
    Ok(format!("host={host} port={port} user={user} dbname={name}"))
}

fn due(timer: &Timer) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(timer.due_ms)
}

impl Subject for Wheelwork {
    type Caller = Arc<Durable>;

    const BATCH: usize = 5_000;
    const BATCHES: usize = 4;

    fn open(opening: &Opening, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let store = Postgres::connect(&words_of(&opening.url)?).map_err(failed)?;
        let ledger = ledger.clone();
        let durable = Durable::builder(store).on(KIND, move |timer: &Delivery| {
            if let Some((number, due_ms)) = Timer::from_bytes(timer.payload()) {
                ledger.fired(number, due_ms);
            }
            if ledger.hangs {
                loop {
                    thread::park();
                }
            }
            Ok(())
        });
        // A node that arms hands out too: it works from its start on.
        let durable = Arc::new(durable.start().map_err(failed)?);
        Ok(Self { durable })
    }

    fn caller(&self) -> Result<Arc<Durable>, String> {
        Ok(self.durable.clone())
    }

    fn arm(caller: &mut Arc<Durable>, timers: &[Timer]) -> Result<(), String> {
        if let [timer] = timers {
            let ticket = caller.schedule_ticket(KIND, due(timer), timer.to_bytes().as_slice());
            return ticket.map_err(failed)?.wait().map(drop).map_err(failed);
        }
        let payloads: Vec<_> = timers.iter().map(Timer::to_bytes).collect();
        let many = timers.iter().zip(&payloads);
        let many = many.map(|(timer, payload)| (KIND, due(timer), payload.as_slice()));
        caller.schedule_many(many).map(drop).map_err(failed)
    }

    fn work(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn left(&mut self) -> Result<bool, String> {
        let stats = self.durable.stats();
        Ok(stats.done < stats.armed)
    }

    fn close(self) -> Result<(), String> {
        // All callers are gone.
        let durable = Arc::into_inner(self.durable).ok_or("wheelwork: a caller is left")?;
        durable.stop().map_err(failed)
    }
}
