//! The PostgreSQL of a run: a database for each measurement, and what the server has done.

use crate::process;
use postgres::config::Host;
use postgres::{Client, Config, NoTls};
use std::time::Duration;

/// A connection string: set by scripts/with-postgres.
const VARIABLE: &str = "WHEELWORK_POSTGRES";

/// What the report says of the server.
const SETTINGS: [&str; 5] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "shared_buffers",
    "max_connections",
];

fn failed(error: &postgres::Error) -> String {
    // What the server says is in the cause.
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("PostgreSQL: {}", cause.unwrap_or_else(|| error.to_string()))
}

pub(crate) struct Server {
    config: Config,
}

/// What a database has done so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) transactions: u64,
    pub(crate) rows_read: u64,
}

impl Server {
    pub(crate) fn of_environment() -> Result<Self, String> {
        let text = std::env::var(VARIABLE)
            .map_err(|_| format!("{VARIABLE} is not set: scripts/with-postgres sets it"))?;
        let config = text.parse::<Config>();
        let config = config.map_err(|error| format!("{VARIABLE}: {}", failed(&error)))?;
        Ok(Self { config })
    }

    fn connect(&self) -> Result<Client, String> {
        self.config.connect(NoTls).map_err(|error| failed(&error))
    }

    /// Version and settings, in one line.
    pub(crate) fn describe(&self) -> Result<String, String> {
        let mut client = self.connect()?;
        let mut settings = Vec::new();
        for name in SETTINGS {
            let row = client.query_one("SELECT current_setting($1)", &[&name]);
            let value: String = row.map_err(|error| failed(&error))?.get(0);
            settings.push(format!("{name} {value}"));
        }
        Ok(format!("PostgreSQL with {}", settings.join(", ")))
    }

    /// Makes a database of this name, in place of one that is there.
    pub(crate) fn create(self, name: &str) -> Result<Database, String> {
        let mut client = self.connect()?;
        drop_database(&mut client, name)?;
        let created = client.batch_execute(&format!("CREATE DATABASE {name}"));
        created.map_err(|error| failed(&error))?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]);
        let pid: i32 = pid.map_err(|error| failed(&error))?.get(0);
        Ok(Database {
            server: self,
            client,
            postmaster: process::parent(pid as u32),
            name: name.to_string(),
        })
    }

    /// Drops a database in the end, if there is one.
    pub(crate) fn clears(&self, name: &str) -> Clears {
        Clears {
            config: self.config.clone(),
            name: name.to_string(),
        }
    }
}

fn drop_database(client: &mut Client, name: &str) -> Result<(), String> {
    let dropped = client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
    dropped.map_err(|error| failed(&error))
}

pub(crate) struct Clears {
    config: Config,
    name: String,
}

impl Drop for Clears {
    fn drop(&mut self) {
        let client = self.config.connect(NoTls);
        // What is left goes with the server.
        let _ = client.map(|mut client| drop_database(&mut client, &self.name));
    }
}

/// The database of a measurement.
pub(crate) struct Database {
    server: Server,
    /// Of another database: its statements are not counted.
    client: Client,
    postmaster: Option<u32>,
    name: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        // The run does it again in the end.
        let _ = drop_database(&mut self.client, &self.name);
    }
}

impl Database {
    /// Its address, which every client understands.
    pub(crate) fn url(&self) -> Result<String, String> {
        let config = &self.server.config;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            _ => {
                return Err(format!(
                    "{VARIABLE}: a host that is reached by TCP is needed"
                ));
            }
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let user = config.get_user().unwrap_or("postgres");
        Ok(format!("postgres://{user}@{host}:{port}/{}", self.name))
    }

    /// Another client of it.
    pub(crate) fn connect(&self) -> Result<Client, String> {
        let mut config = self.server.config.clone();
        let client = config.dbname(&self.name).connect(NoTls);
        client.map_err(|error| failed(&error))
    }

    /// Clears up after many arms, so that the server does not do it while it is measured.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            let done = client.batch_execute(statement);
            done.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        self.postmaster
            .map_or(Duration::ZERO, process::family_cpu_time)
    }

    /// By `pg_stat_database`. A session tells of what it has done once in a second.
    pub(crate) fn done(&mut self) -> Result<Done, String> {
        let counts = "SELECT xact_commit + xact_rollback, tup_returned + tup_fetched \
                      FROM pg_stat_database WHERE datname = $1";
        let row = self.client.query_one(counts, &[&self.name]);
        let row = row.map_err(|error| failed(&error))?;
        let count = |column| row.get::<_, i64>(column) as u64;
        Ok(Done {
            transactions: count(0),
            rows_read: count(1),
        })
    }
}
