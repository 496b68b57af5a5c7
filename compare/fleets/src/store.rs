//! The store of a measurement: a database of PostgreSQL, or a Redis.

use crate::database::{Database, Done, Server};
use crate::job::Job;
use crate::{process, redis};
use std::time::Duration;

pub(crate) enum Store {
    Postgres(Box<Database>),
    Redis(redis::Server),
}

impl Store {
    pub(crate) fn new(job: &Job) -> Result<Self, String> {
        if job.subject.is_on_redis() {
            return redis::Server::start().map(Self::Redis);
        }
        let server = Server::of_environment()?;
        let database = server.create(&job.database)?;
        Ok(Self::Postgres(Box::new(database)))
    }

    pub(crate) fn url(&self) -> Result<String, String> {
        match self {
            Self::Postgres(database) => database.url(),
            Self::Redis(server) => Ok(server.url()),
        }
    }

    /// Clears up after many arms.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        match self {
            Self::Postgres(database) => database.settle(),
            Self::Redis(_) => Ok(()),
        }
    }

    /// CPU time of the server so far, with all its processes.
    pub(crate) fn cpu_time(&self) -> Duration {
        match self {
            Self::Postgres(database) => database.cpu_time(),
            Self::Redis(server) => process::cpu_time(server.id()),
        }
    }

    /// What it has done so far. Redis has commands, and no rows.
    pub(crate) fn done(&mut self) -> Result<Done, String> {
        match self {
            Self::Postgres(database) => database.done(),
            Self::Redis(server) => Ok(Done {
                transactions: server.commands()?,
                rows_read: 0,
            }),
        }
    }
}
