//! Handler: one that works in a transaction of the database, in which its timer is acknowledged.

use super::leases::{epoch, part};
use super::rows::{millis, uuid};
use super::session::idle_setting;
use super::sql;
use crate::durable::kinds::{KindHandler, Said};
use crate::durable::recurrence::next_run;
use crate::durable::{Delivery, HandlerResult};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connects, for the transactions of handlers.
pub(super) type ConnectClient =
    Arc<dyn Fn() -> Result<postgres::Client, postgres::Error> + Send + Sync>;

/// Connections that no handler has just now.
struct Clients {
    connect: ConnectClient,
    free: Mutex<Vec<postgres::Client>>,
}

/// Why an acknowledgement was not made.
const STALE: &str = "the timer was handed to another node meanwhile";

impl Clients {
    fn take(&self) -> Result<postgres::Client, postgres::Error> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match free.filter(|client| !client.is_closed()) {
            Some(client) => Ok(client),
            None => (self.connect)(),
        }
    }

    fn give_back(&self, client: postgres::Client) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(client);
    }
}

/// What runs for a kind whose handler works in a transaction.
pub(super) fn in_transaction(
    connect: ConnectClient,
    schema: Arc<str>,
    idle: Duration,
    handler: impl Fn(&Delivery, &mut postgres::Transaction<'_>) -> HandlerResult + Send + Sync + 'static,
) -> KindHandler {
    let clients = Clients {
        connect,
        free: Mutex::default(),
    };
    let run = move |delivery: &Delivery| {
        let done = run_in(&clients, &schema, idle, delivery, |transaction| {
            handler(delivery, transaction)
        });
        match done {
            Ok(()) => Said::Acked,
            Err(error) => Said::Result(Err(error)),
        }
    };
    KindHandler::One(Box::new(run))
}

fn run_in(
    clients: &Clients,
    schema: &str,
    idle: Duration,
    delivery: &Delivery,
    handler: impl FnOnce(&mut postgres::Transaction<'_>) -> HandlerResult,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut client = clients.take()?;
    let mut transaction = client.transaction()?;
    handler(&mut transaction)?;
    // From here on the lease is locked, which other nodes want if this one stands still.
    let idle = idle_setting(idle).replace("SET ", "SET LOCAL ");
    transaction.batch_execute(&idle)?;
    let settled = delivery.settled();
    let (parts, dues) = ([part(settled.id.partition())], [millis(settled.due)]);
    let (ids, epochs) = ([uuid(settled.id)], [epoch(settled.epoch)]);
    let next = match &delivery.row.calendar {
        None => None,
        Some(calendar) => {
            // (What was missed since is left out, or made up for, when it is due.)
            next_run(calendar, settled.due, settled.due, &mut 0)?
        }
    };
    let text = |sql: &str| sql.replace("{s}", schema);
    let gone = match next {
        None => {
            let params: [&(dyn postgres::types::ToSql + Sync); 4] =
                [&&parts[..], &&dues[..], &&ids[..], &&epochs[..]];
            transaction.query(&text(sql::ACK), &params)?
        }
        Some(next) => {
            let (nexts, moved) = ([millis(next)], [next != settled.id.first_due()]);
            let params: [&(dyn postgres::types::ToSql + Sync); 7] = [
                &&parts[..],
                &&dues[..],
                &&ids[..],
                &&epochs[..],
                &&nexts[..],
                &&moved[..],
                &&[0_i64][..],
            ];
            transaction.query(&text(sql::RETRY), &params)?
        }
    };
    if gone.is_empty() {
        return Err(STALE.into());
    }
    transaction.commit()?;
    clients.give_back(client);
    Ok(())
}
