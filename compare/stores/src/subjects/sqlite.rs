//! SQLite alone: one table without row ids, by deadline and number. WAL with `synchronous=FULL`,
//! 64 MB of cache for each connection, a checkpoint each 16,384 pages in place of 1,000, prepared
//! statements.

use super::engine::{Change, Engine, Key, Reader, Row, Span, failed};
use crate::ledger::Ledger;
use crate::random::Payload;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SETTINGS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -65536;
    PRAGMA wal_autocheckpoint = 16384;
    PRAGMA busy_timeout = 10000;
    CREATE TABLE IF NOT EXISTS timers (
        due INTEGER NOT NULL, number INTEGER NOT NULL, payload BLOB NOT NULL,
        PRIMARY KEY (due, number)
    ) WITHOUT ROWID;";

const ARM: &str = "INSERT INTO timers (due, number, payload) VALUES (?1, ?2, ?3)";
const DELETE: &str = "DELETE FROM timers WHERE due = ?1 AND number = ?2";
const DUE: &str = "SELECT due, number, payload FROM timers WHERE due BETWEEN ?1 AND ?2
    ORDER BY due, number LIMIT ?3";

pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

pub(crate) struct Rows(Connection);

fn connect(path: &Path) -> Result<Connection, String> {
    let connect = || {
        let connection = Connection::open(path)?;
        connection.execute_batch(SETTINGS)?;
        Ok(connection)
    };
    connect().map_err(|error: rusqlite::Error| failed("sqlite")(&error))
}

impl Engine for Sqlite {
    type Reader = Rows;

    fn open(folder: &Path, _: &Arc<Ledger>) -> Result<Self, String> {
        let path = folder.join("timers.sqlite");
        let connection = connect(&path)?;
        Ok(Self { connection, path })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
        let mut commit = || -> rusqlite::Result<()> {
            let transaction = self.connection.transaction()?;
            let mut arm = transaction.prepare_cached(ARM)?;
            let mut delete = transaction.prepare_cached(DELETE)?;
            for change in changes {
                match change {
                    Change::Arm(key, payload) => {
                        arm.execute(params![key.due as i64, key.number as i64, payload])?
                    }
                    Change::Delete(key) => {
                        delete.execute(params![key.due as i64, key.number as i64])?
                    }
                };
            }
            drop((arm, delete));
            transaction.commit()
        };
        commit().map_err(|error| failed("sqlite")(&error))
    }

    fn reader(&self) -> Result<Option<Rows>, String> {
        connect(&self.path).map(Rows).map(Some)
    }

    fn close(self) -> Result<(), String> {
        let closed = self.connection.close();
        closed.map_err(|(_, error)| failed("sqlite")(&error))
    }
}

impl Reader for Rows {
    fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut due = self.0.prepare_cached(DUE)?;
            let found = due.query_map(
                params![*span.start() as i64, *span.end() as i64, limit as i64],
                |row| {
                    let (due, number) =
                        (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
                    Ok((Key { due, number }, row.get::<_, Payload>(2)?))
                },
            )?;
            found.collect()
        };
        rows.extend(read().map_err(|error| failed("sqlite")(&error))?);
        Ok(())
    }
}
