//! `wheelwork_durable` on `Redb`, as it comes: handlers run on the pool that all services share.

use super::subject::Subject;
use crate::ledger::Ledger;
use crate::random::Payload;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::{Delivery, Durable, DurableBuilder, DurableId, Redb, Ticket, WindowLimits};

const KIND: &str = "timer";

/// A window of a number of timers, whenever they are due.
const AHEAD: Duration = Duration::from_secs(100 * 3600);
const WINDOW_ROW_BYTES: usize = 640;

pub(crate) struct Wheelwork(Durable);

/// Milliseconds since the epoch.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn builder(folder: &Path, ledger: &Arc<Ledger>) -> Result<DurableBuilder<Redb>, String> {
    let store = Redb::open(folder.join("timers.redb"));
    let store = store.map_err(|error| error.to_string())?;
    let ledger = ledger.clone();
    Ok(Durable::builder(store).on(KIND, move |timer: &Delivery| {
        ledger.fired(millis(timer.due()));
        Ok(())
    }))
}

fn start(builder: DurableBuilder<Redb>) -> Result<Wheelwork, String> {
    let started = builder.start().map(Wheelwork);
    started.map_err(|error| error.to_string())
}

impl Subject for Wheelwork {
    type Id = DurableId;
    type Armed = Ticket<DurableId>;
    type Cancelled = Ticket<bool>;

    fn open(folder: &Path, ledger: &Arc<Ledger>) -> Result<Self, String> {
        start(builder(folder, ledger)?)
    }

    fn open_window(folder: &Path, ledger: &Arc<Ledger>, rows: usize) -> Result<Self, String> {
        let limits = WindowLimits::new().ahead(AHEAD).rows(rows);
        let limits = limits.bytes(rows * WINDOW_ROW_BYTES);
        start(builder(folder, ledger)?.window(limits))
    }

    fn arm(&self, due_ms: u64, payload: &Payload) -> Result<Ticket<DurableId>, String> {
        let due = SystemTime::UNIX_EPOCH + Duration::from_millis(due_ms);
        let ticket = self.0.schedule_ticket(KIND, due, payload);
        ticket.map_err(|error| error.to_string())
    }

    fn armed(&self, ticket: Ticket<DurableId>) -> Result<DurableId, String> {
        ticket.wait().map_err(|error| error.to_string())
    }

    fn cancel(&self, id: DurableId) -> Result<Ticket<bool>, String> {
        self.0.cancel_ticket(id).map_err(|error| error.to_string())
    }

    fn cancelled(&self, ticket: Ticket<bool>) -> Result<(), String> {
        match ticket.wait() {
            Ok(true) => Ok(()),
            Ok(false) => Err("a timer was gone before its cancel".to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn acked(&self) -> u64 {
        self.0.stats().done
    }

    fn in_memory(&self) -> Option<u64> {
        Some(self.0.stats().window_rows)
    }

    fn close(self) -> Result<(), String> {
        self.0.stop().map_err(|error| error.to_string())
    }
}
