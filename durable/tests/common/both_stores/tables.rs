//! Tables: those of a test, on a server.

use super::HOUR;
use crate::own_schema::server;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use wheelwork_durable::Postgres;

/// The tables of a test, on the server.
pub struct Tables {
    config: String,
    schema: String,
    client: postgres::Client,
}

impl Tables {
    /// `None`: there is no server.
    pub fn new() -> Option<Self> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let config = server::database()?.to_string();
        let number = SCHEMAS.fetch_add(1, SeqCst);
        let schema = format!("test_{}_{number}", std::process::id());
        let client = postgres::Client::connect(&config, postgres::NoTls).unwrap();
        let tables = Self {
            config,
            schema,
            client,
        };
        // (It makes the tables.)
        drop(tables.node("first"));
        Some(tables)
    }

    pub fn node(&self, name: &str) -> Postgres {
        Postgres::builder(&self.config)
            .schema(&self.schema)
            .node_name(name)
            .lease(HOUR)
            .patience(Duration::from_secs(5))
            .connect()
            .unwrap()
    }

    fn run(&mut self, statements: &str) {
        let statements = statements.replace("{s}", &self.schema);
        self.client.batch_execute(&statements).unwrap();
    }

    /// As they were when they were made.
    pub fn clear(&mut self) {
        self.run(
            "TRUNCATE {s}.timer, {s}.dead, {s}.done, {s}.node, {s}.watermark, {s}.seq;
            DELETE FROM {s}.rule;
            UPDATE {s}.lease SET owner = NULL, epoch = 0, claimed_upto = -1, raise_upto = -1,
                clean = true",
        );
    }

    /// The leases of a node run out, and it counts as dead.
    pub fn expire(&mut self, name: &str) {
        self.run(&format!(
            "UPDATE {{s}}.node SET until = now() WHERE name = '{name}'"
        ));
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let _ = self
            .client
            .batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
    }
}
