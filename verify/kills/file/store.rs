//! Store: `wheelwork_durable` in a file, as the child uses it.

use super::child::{Arm, Delivered, Handler, Timers};
use super::limits::{KEPT, Limits};
use crate::wire::Id;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::{
    Delivery, Durable, DurableError, DurableId, HandlerResult, Redb, RetryPolicy, Row, Ticket,
    WindowLimits,
};

const KIND: &str = "kills";

/// Opens the store in this file. What is due is handled from then on.
pub(crate) fn open(
    file: &Path,
    window_rows: Option<usize>,
    limits: Option<Limits>,
    handler: Handler,
) -> Result<Box<dyn Timers>, String> {
    let store = Redb::open(file).map_err(|error| error.to_string())?;
    let limits = limits.map(Arc::new);
    let own = limits.clone();
    let mut builder = Durable::builder(store)
        // A kill is an attempt, and there are many.
        .retry_policy(RetryPolicy::new().attempts(u32::MAX))
        .on_batch(KIND, move |batch: &[Delivery]| {
            let handle = |batch: &[&Delivery]| {
                let delivered = batch.iter().map(|timer| Delivered {
                    id: timer.id().to_bits(),
                    payload: timer.payload(),
                });
                handler(&delivered.collect::<Vec<_>>())
            };
            match &own {
                Some(limits) => limits.handle(batch, handle),
                None => {
                    let done = handle(&batch.iter().collect::<Vec<_>>());
                    let each = batch.iter().map(|_| -> HandlerResult { Ok(done.clone()?) });
                    each.collect()
                }
            }
        });
    if limits.is_some() {
        builder = builder.keep_done(KEPT);
    }
    if let Some(rows) = window_rows {
        builder = builder.window(WindowLimits::new().rows(rows));
    }
    let timers = builder.start().map_err(|error| error.to_string())?;
    if let Some(limits) = &limits {
        limits.set(&timers.kind(KIND))?;
    }
    Ok(Box::new(Stored { timers, limits }))
}

/// Timers in a file.
struct Stored {
    timers: Durable,
    limits: Option<Arc<Limits>>,
}

impl Timers for Stored {
    fn arm(&self, timers: Vec<Arm>) -> Result<Vec<Id>, String> {
        let tickets = timers.into_iter().map(|timer| {
            let due = SystemTime::UNIX_EPOCH + Duration::from_millis(timer.due_ms.max(0) as u64);
            match timer.key {
                Some(key) => (self.timers.key(&key)).schedule_ticket(KIND, due, timer.payload),
                None => self.timers.schedule_ticket(KIND, due, timer.payload),
            }
        });
        let ids: Result<Vec<DurableId>, _> = answers(tickets);
        let ids = ids.map_err(|error| format!("arming: {error}"))?;
        Ok(ids.into_iter().map(DurableId::to_bits).collect())
    }

    fn cancel(&self, ids: &[Id]) -> Result<Vec<bool>, String> {
        let tickets = ids
            .iter()
            .map(|&id| self.timers.cancel_ticket(DurableId::from_bits(id)));
        answers(tickets).map_err(|error| format!("cancelling: {error}"))
    }

    fn id_of(&self, key: &str) -> Result<Option<Id>, String> {
        let row = self.timers.key(key).get();
        let row = row.map_err(|error| format!("looking for a key: {error}"))?;
        Ok(row.map(|row| row.id.to_bits()))
    }

    fn rows(&self, limit: usize) -> Result<Vec<(Id, Vec<u8>)>, String> {
        let rows = self.timers.list(.., limit);
        let rows = rows.map_err(|error| format!("looking for rows: {error}"))?;
        let of = |row: Row| (row.id.to_bits(), row.payload.to_vec());
        Ok(rows.into_iter().map(of).collect())
    }

    fn dead(&self, limit: usize) -> Result<usize, String> {
        let dead = self.timers.dead_letters(None, limit);
        let dead = dead.map_err(|error| format!("looking for dead letters: {error}"))?;
        Ok(dead.len())
    }

    fn stop(&self) -> Result<(), String> {
        if let Some(limits) = &self.limits {
            limits.check_records(&self.timers)?;
        }
        self.timers
            .stop()
            .map_err(|error| format!("stopping: {error}"))
    }
}

/// Asks for all, then waits for each.
fn answers<T>(
    tickets: impl Iterator<Item = Result<Ticket<T>, DurableError>>,
) -> Result<Vec<T>, DurableError> {
    let tickets = tickets.collect::<Result<Vec<_>, _>>()?;
    tickets.into_iter().map(Ticket::wait).collect()
}
