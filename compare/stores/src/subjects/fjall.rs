//! fjall alone: one keyspace, by deadline and number, with the library's defaults. Each batch is
//! synced (`PersistMode::SyncAll`).

use super::engine::{Change, Engine, Key, Reader, Row, Span, failed, payload};
use crate::ledger::Ledger;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Fjall {
    database: Database,
    timers: Keyspace,
}

pub(crate) struct Rows(Keyspace);

impl Engine for Fjall {
    type Reader = Rows;

    fn open(folder: &Path, _: &Arc<Ledger>) -> Result<Self, String> {
        let open = || -> fjall::Result<_> {
            let database = Database::builder(folder.join("fjall")).open()?;
            let timers = database.keyspace("timers", KeyspaceCreateOptions::default)?;
            Ok(Self { database, timers })
        };
        open().map_err(|error| failed("fjall")(&error))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for change in changes {
            match change {
                Change::Arm(key, payload) => {
                    batch.insert(&self.timers, key.bits().to_be_bytes(), *payload);
                }
                Change::Delete(key) => batch.remove(&self.timers, key.bits().to_be_bytes()),
            }
        }
        batch.commit().map_err(|error| failed("fjall")(&error))
    }

    fn reader(&self) -> Result<Option<Rows>, String> {
        Ok(Some(Rows(self.timers.clone())))
    }

    fn close(self) -> Result<(), String> {
        let closed = self.database.persist(PersistMode::SyncAll);
        closed.map_err(|error| failed("fjall")(&error))
    }
}

impl Reader for Rows {
    fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let keys = Key::span(&span);
        let range = keys.start.to_be_bytes()..keys.end.to_be_bytes();
        for row in self.0.range(range).take(limit) {
            let (key, value) = row.into_inner().map_err(|error| failed("fjall")(&error))?;
            let bits = <[u8; 16]>::try_from(&*key).map_err(|error| failed("a key")(&error))?;
            rows.push((Key::from_bits(u128::from_be_bytes(bits)), payload(&value)?));
        }
        Ok(())
    }
}
