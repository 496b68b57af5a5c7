//! redb alone: one table, by deadline and number. Each commit is synced (`Durability::Immediate`),
//! its cache is the library's default of 1 GiB.

use super::engine::{Change, Engine, Key, Reader, Row, Span, failed};
use crate::ledger::Ledger;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;
use std::sync::Arc;

const TIMERS: TableDefinition<u128, &[u8; 64]> = TableDefinition::new("timers");

pub(crate) struct Redb(Arc<Database>);

pub(crate) struct Rows(Arc<Database>);

impl Engine for Redb {
    type Reader = Rows;

    fn open(folder: &Path, _: &Arc<Ledger>) -> Result<Self, String> {
        let open = || -> Result<_, redb::Error> {
            let database = Database::create(folder.join("timers.redb"))?;
            let write = database.begin_write()?;
            write.open_table(TIMERS)?;
            write.commit()?;
            Ok(Self(Arc::new(database)))
        };
        open().map_err(|error| failed("redb")(&error))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
        let commit = || -> Result<_, redb::Error> {
            let write = self.0.begin_write()?;
            let mut table = write.open_table(TIMERS)?;
            for change in changes {
                match change {
                    Change::Arm(key, payload) => _ = table.insert(key.bits(), payload)?,
                    Change::Delete(key) => _ = table.remove(key.bits())?,
                }
            }
            drop(table);
            write.commit()?;
            Ok(())
        };
        commit().map_err(|error| failed("redb")(&error))
    }

    fn reader(&self) -> Result<Option<Rows>, String> {
        Ok(Some(Rows(self.0.clone())))
    }

    fn close(self) -> Result<(), String> {
        // The last one who has it closes it.
        drop(self.0);
        Ok(())
    }
}

impl Reader for Rows {
    fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let range = Key::span(&span);
        let read = || -> Result<_, redb::Error> {
            let table = self.0.begin_read()?.open_table(TIMERS)?;
            for row in table.range(range)?.take(limit) {
                let (key, payload) = row?;
                rows.push((Key::from_bits(key.value()), *payload.value()));
            }
            Ok(())
        };
        read().map_err(|error| failed("redb")(&error))
    }
}
