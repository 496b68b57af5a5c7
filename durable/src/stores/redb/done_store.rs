//! Done store: the calls for records of runs. `done.rs` has what they do to the table.

use super::Redb;
use super::done::{forget, look, read};
use crate::store::contract::{DoneStore, StoreError};
use crate::store::done::{DoneForgotten, DoneListed, DoneRange};
use crate::store::row::StoreTime;
use redb::{ReadableDatabase, ReadableTableMetadata};
use std::sync::Arc;

#[doc(hidden)]
impl DoneStore for Redb {
    fn node(&self) -> Arc<str> {
        "".into()
    }

    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError> {
        self.with(|file| look(&file.database, &mut file.names, range, limit))
    }

    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError> {
        self.with(|file| {
            // (As for a sweep: what can wait leaves the room to what cannot.)
            if let Some(room) = &file.room
                && !room.is_whole(&mut file.tries, file.now)?
            {
                return Ok(DoneForgotten::default());
            }
            forget(&file.database, before, limit)
        })
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        self.with(|file| match read(&file.database.begin_read()?)? {
            Some(table) => Ok(table.len()?),
            None => Ok(0),
        })
    }
}
