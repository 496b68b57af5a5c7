//! A schema of a test's own on the server of the tests, and nodes that use it.

#![allow(dead_code, reason = "each test uses a part")]

#[path = "server.rs"]
pub mod server;

use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_durable::{Delivery, Durable, HandlerResult, Postgres, PostgresBuilder};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

/// A schema of a test's own, which goes with it.
pub struct Schema {
    pub database: String,
    pub name: String,
}

impl Schema {
    /// `None`: there is no database.
    pub fn new(name: &str) -> Option<Self> {
        let database = server::database()?.to_string();
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let number = SCHEMAS.fetch_add(1, SeqCst);
        let name = format!("nodes_{name}_{}_{number}", std::process::id());
        Some(Self { database, name })
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.database, NoTls).unwrap()
    }

    /// The builder of a store with leases that last a second.
    pub fn builder(&self, database: &str) -> PostgresBuilder {
        Postgres::builder(database)
            .schema(&self.name)
            .lease(Duration::from_secs(1))
    }

    /// A store with leases that last a second.
    pub fn store(&self) -> Postgres {
        self.builder(&self.database).connect().unwrap()
    }

    /// A node that sends what it handles.
    pub fn node(&self, handled: &Sender<(String, u32)>) -> Durable {
        Self::node_of(self.store(), handled)
    }

    /// The same, with this store.
    pub fn node_of(store: Postgres, handled: &Sender<(String, u32)>) -> Durable {
        let handled = handled.clone();
        Durable::builder(store)
            .on("mail", move |mail: &Delivery| -> HandlerResult {
                handled.send((mail.payload_text().into_owned(), mail.attempt()))?;
                Ok(())
            })
            .start()
            .unwrap()
    }

    pub fn sql(&self, text: &str) -> String {
        text.replace("{s}", &self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Ok(mut client) = Client::connect(&self.database, NoTls) {
            let _ = client.batch_execute(&self.sql("DROP SCHEMA {s} CASCADE"));
        }
    }
}

pub fn next<T>(handled: &Receiver<T>) -> T {
    handled.recv_timeout(HANGS).expect("each is handled")
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGS, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}
