//! Handler: one that works in a transaction of the database, in which its timer is acknowledged.

use super::builder::DurableBuilder;
use crate::handler::delivery::{Delivery, HandlerResult};
use crate::handler::kinds::KindHandler;
use crate::store::contract::Write;
use crate::stores::postgres::session::{ConnectClient, apart, idle_setting};
use crate::stores::postgres::statements::settle::{Again, Deliveries};
use crate::stores::postgres::statements::statement::Statement;
use crate::stores::postgres::store::Postgres;
use crate::sync::ThreadBuilder;
use crossbeam_channel::never;
use postgres::IsolationLevel;
use postgres::error::SqlState;
use std::error::Error;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections that no handler has just now.
struct Clients {
    connect: ConnectClient,
    free: Mutex<Vec<postgres::Client>>,
}

/// Why an acknowledgement was not made.
const STALE: &str = "the timer was handed to another node meanwhile";

/// The waits, in milliseconds, before a handler is called again whose transaction met others.
const CONFLICT_WAITS_MS: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

/// A connection waits for its end when it goes, which must not be done in async code: a thread of
/// its own does it. Without a thread the connections stay open.
impl Drop for Clients {
    fn drop(&mut self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let clients = ManuallyDrop::new(std::mem::take(&mut *free));
        if clients.is_empty() {
            return;
        }
        let thread = ThreadBuilder::new().name("wheelwork-close".to_owned());
        let _ = thread.spawn(move || drop(ManuallyDrop::into_inner(clients)));
    }
}

impl Clients {
    /// A connection that a handler had before.
    fn take(&self) -> Option<postgres::Client> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop()
    }

    fn give_back(&self, client: postgres::Client) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(client);
    }
}

impl DurableBuilder<Postgres> {
    /// Sets a handler that works in a transaction: what it does there and the end of its timer are
    /// committed together. So that work is done exactly once, however often a node ends meanwhile.
    /// If it says `Err`, or panics, the transaction is rolled back, and the timer is tried again.
    ///
    /// Each call that runs at one time has a connection of its own, which is kept for later ones.
    /// Handlers block. In a task of tokio each call has a thread of its own.
    ///
    /// The transaction begins at `READ COMMITTED`, whatever the role's default is. The handler may
    /// set another level first. If the transaction fails with 40001 or 40P01 (it met another one),
    /// the handler is called again in a new one, up to 8 times within 0.4 s: that is no attempt.
    ///
    /// # Example
    /// ```
    /// use std::error::Error;
    /// use wheelwork_durable::{Durable, Postgres};
    ///
    /// fn run(database: &str) -> Result<(), Box<dyn Error>> {
    ///     let timers = Durable::builder(Postgres::connect(database)?)
    ///         .on_in_transaction("order.unpaid", |order, transaction| {
    ///             let id: i64 = order.payload_text().parse()?;
    ///             let cancel = "UPDATE orders SET cancelled = true WHERE id = $1 AND NOT paid";
    ///             transaction.execute(cancel, &[&id])?;
    ///             Ok(())
    ///         })
    ///         .start()?;
    ///     timers.stop()?;
    ///     Ok(())
    /// }
    ///
    /// assert!(run("host=127.0.0.1 port=1 user=shop").is_err()); // there is no database here
    /// ```
    pub fn on_in_transaction(
        mut self,
        kind: &str,
        handler: impl Fn(&Delivery, &mut postgres::Transaction<'_>) -> HandlerResult
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let (connect, schema) = (self.store.connect_client.clone(), self.store.schema.clone());
        let idle = self.store.leases.lasts / 2;
        let handler = in_transaction(connect, schema, idle, handler);
        self.kinds.entry(kind).handler = Some(handler);
        self
    }
}

/// What runs for a kind whose handler works in a transaction.
fn in_transaction(
    connect: ConnectClient,
    schema: Arc<str>,
    idle: Duration,
    handler: impl Fn(&Delivery, &mut postgres::Transaction<'_>) -> HandlerResult + Send + Sync + 'static,
) -> KindHandler {
    let clients = Clients {
        connect,
        free: Mutex::default(),
    };
    let run = move |delivery: &Delivery, ack: &Write| {
        // (In a task of tokio the crate `postgres` would panic.)
        apart(|| {
            run_in(&clients, &schema, idle, ack, |transaction| {
                handler(delivery, transaction)
            })
        })
    };
    KindHandler::InTransaction(Box::new(run))
}

fn run_in(
    clients: &Clients,
    schema: &str,
    idle: Duration,
    ack: &Write,
    handler: impl Fn(&mut postgres::Transaction<'_>) -> HandlerResult,
) -> HandlerResult {
    let mut client = match clients.take() {
        Some(client) => client,
        None => (clients.connect)()?,
    };
    let work =
        |transaction: postgres::Transaction<'_>| work_in(transaction, schema, idle, ack, &handler);
    let mut done = begin(&mut client).map(work);
    if done.is_err() {
        // The server was restarted while no handler had this connection, say.
        client = (clients.connect)()?;
        done = begin(&mut client).map(work);
    }
    // What others were in the way of was rolled back: it is no attempt yet.
    for wait_ms in CONFLICT_WAITS_MS {
        let met_others = matches!(&done, Ok(Err(error)) if is_conflict(error.as_ref()));
        if !met_others {
            break;
        }
        let _ = never::<()>().recv_timeout(Duration::from_millis(wait_ms));
        done = begin(&mut client).map(work);
    }
    clients.give_back(client);
    done?
}

/// Begins a transaction. The acknowledgement is made for this level, whatever the role's default
/// is. The handler may set another one.
fn begin(client: &mut postgres::Client) -> Result<postgres::Transaction<'_>, postgres::Error> {
    let builder = client.build_transaction();
    builder
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
}

/// Whether an error, or what has caused it, is a conflict with another transaction: 40001 or 40P01.
fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    let conflicts = [
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
    ];
    let mut cause = Some(error);
    while let Some(error) = cause {
        let code = error
            .downcast_ref::<postgres::Error>()
            .and_then(postgres::Error::code);
        if code.is_some_and(|code| conflicts.contains(&code)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Calls the handler, acknowledges its timer, and commits both.
fn work_in(
    mut transaction: postgres::Transaction<'_>,
    schema: &str,
    idle: Duration,
    ack: &Write,
    handler: impl Fn(&mut postgres::Transaction<'_>) -> HandlerResult,
) -> HandlerResult {
    handler(&mut transaction)?;
    // From here on the lease is locked, which other nodes want if this one stands still.
    let idle = idle_setting(idle).replace("SET ", "SET LOCAL ");
    transaction.batch_execute(&idle)?;
    let gone = match ack {
        Write::Ack { of, next: None } => {
            let mut rows = Deliveries::default();
            rows.push(of, 0);
            run(&mut transaction, schema, &rows.ack())?
        }
        Write::Ack {
            of,
            next: Some(next),
        } => {
            let mut again = Again::default();
            again.push(of, *next, (0, 0), 0);
            match run(&mut transaction, schema, &again.retry())? {
                // One that was cancelled meanwhile has no further run.
                0 => run(&mut transaction, schema, &again.rows.ack_superseded())?,
                moved => moved,
            }
        }
        _ => 0,
    };
    if gone == 0 {
        return Err(STALE.into());
    }
    transaction.commit()?;
    Ok(())
}

/// Runs a statement of nodes in this transaction. Returns how many rows it has answered.
fn run<S: Statement>(
    transaction: &mut postgres::Transaction<'_>,
    schema: &str,
    statement: &S,
) -> Result<usize, postgres::Error> {
    let rows = transaction.query(&S::SQL.in_schema(schema), &statement.values())?;
    Ok(rows.len())
}
