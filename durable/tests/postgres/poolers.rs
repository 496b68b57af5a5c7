//! Promise: a pooler that gives a session for a transaction is refused, with one line; behind one
//! that gives a session for a connection nodes and handlers work in transactions.
//!
//! Each test has a schema of its own on a server (`common/server.rs`), and a PgBouncer before it,
//! from Debian's package. Without one of them the tests are left out, which is said.

use crate::own_schema::{Schema, next, until};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork_durable::{Durable, RetryPolicy};

const PROGRAM: &str = "/usr/sbin/pgbouncer";
const MS: Duration = Duration::from_millis(1);

/// A pooler, which goes with the test.
struct Pooler {
    process: Child,
    settings: PathBuf,
    /// What connects to the database through it.
    database: String,
}

impl Pooler {
    /// `None`: it is not installed.
    fn new(schema: &Schema, mode: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            let line = "\nLEFT OUT: the tests that need PgBouncer (Debian's package pgbouncer).\n";
            // What the macros print is captured, and this is not.
            io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        }
        let config: Config = schema.database.parse().unwrap();
        let (port, user) = (config.get_ports()[0], config.get_user().unwrap());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let own_port = free.local_addr().unwrap().port();
        drop(free);
        let settings = std::env::temp_dir().join(format!("{}.ini", schema.name));
        let text = format!(
            "[databases]
            * = host=127.0.0.1 port={port} user={user}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {own_port}
            unix_socket_dir =
            auth_type = any
            pool_mode = {mode}
            default_pool_size = 20
            "
        );
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        fs::write(&settings, lines.join("\n")).unwrap();
        let mut command = Command::new(PROGRAM);
        // It refuses to run as root.
        let user_id = Command::new("id").arg("-u").output().unwrap();
        if user_id.stdout == b"0\n" {
            command.args(["-u", "postgres"]);
        }
        let quiet = command.arg("-q").arg(&settings).stderr(Stdio::null());
        let process = quiet.spawn().unwrap();
        let before = format!("port={port}");
        let database = schema
            .database
            .replace(&before, &format!("port={own_port}"));
        let pooler = Self {
            process,
            settings,
            database,
        };
        until("the pooler answers", || {
            Client::connect(&pooler.database, NoTls).is_ok()
        });
        Some(pooler)
    }

    fn client(&self) -> Client {
        Client::connect(&self.database, NoTls).unwrap()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.settings);
    }
}

/// The first column of the last row.
fn text(client: &mut Client, sql: &str) -> String {
    let mut answer = client.simple_query(sql).unwrap().into_iter().rev();
    let row = answer.find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap()
}

#[test]
fn a_pooler_of_transactions_is_refused() {
    let Some(schema) = Schema::new("pooled") else {
        return;
    };
    let Some(pooler) = Pooler::new(&schema, "transaction") else {
        return;
    };
    // As the first node, and with tables that are there already.
    for has_tables in [false, true] {
        if has_tables {
            drop(schema.store());
        }
        let error = schema.builder(&pooler.database).connect().unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("transaction pooling") && error.lines().count() == 1,
            "{error}"
        );
    }
    // The session that others get has no settings of a node's.
    let mut client = pooler.client();
    assert_eq!(text(&mut client, "SHOW statement_timeout"), "0");
    assert_eq!(text(&mut client, "SHOW enable_seqscan"), "on");
}

#[test]
fn the_functions_of_the_schema_work_behind_a_pooler_of_transactions() {
    let Some(schema) = Schema::new("functions") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let Some(pooler) = Pooler::new(&schema, "transaction") else {
        return;
    };
    let mut clients = [pooler.client(), pooler.client(), pooler.client()];
    for (number, client) in clients.iter_mut().enumerate() {
        let arm = format!(
            "BEGIN; SELECT {{s}}.wheelwork_schedule('mail', now(), 'm{number}'::bytea, 'k{number}');
            SELECT {{s}}.wheelwork_schedule('mail', now() + interval '1 hour', '', 'gone');
            SELECT {{s}}.wheelwork_cancel_key('gone'); COMMIT"
        );
        assert_eq!(text(client, &schema.sql(&arm)), "t");
    }
    let mut all: Vec<_> = (0..3).map(|_| next(&handled).0).collect();
    all.sort();
    assert_eq!(all, ["m0", "m1", "m2"]);
    node.stop().unwrap();
}

#[test]
fn handlers_work_in_transactions_behind_a_pooler_of_sessions() {
    let Some(schema) = Schema::new("sessions") else {
        return;
    };
    drop(schema.store());
    let make = schema.sql("CREATE TABLE {s}.work (payload text)");
    schema.client().batch_execute(&make).unwrap();
    let Some(pooler) = Pooler::new(&schema, "session") else {
        return;
    };
    let nodes: Vec<Durable> = (0..2)
        .map(|_| {
            let insert = schema.sql("INSERT INTO {s}.work VALUES ($1)");
            let store = schema.builder(&pooler.database).connect().unwrap();
            Durable::builder(store)
                .on_in_transaction("work", move |work, transaction| {
                    transaction.execute(&insert, &[&work.payload_text()])?;
                    match work.attempt() {
                        1 => Err("it fails".into()),
                        _ => Ok(()),
                    }
                })
                .retry_policy(RetryPolicy::new().first(MS))
                .start()
                .unwrap()
        })
        .collect();
    for number in 0..40 {
        let node = &nodes[number % 2];
        node.schedule("work", MS * 10, format!("{number}")).unwrap();
    }
    until("all are done", || {
        nodes.iter().map(|node| node.stats().done).sum::<u64>() == 40
    });
    let count = schema.sql("SELECT count(*) FROM {s}.work");
    assert_eq!(text(&mut schema.client(), &count), "40");
    for node in nodes {
        node.stop().unwrap();
    }
}
