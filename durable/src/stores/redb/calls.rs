//! Calls: the trait `Store`, for a file. `open_file.rs` has what they do there.

use super::Redb;
use super::copy::FileSnapshot;
use super::disk::DROPS_PAGES;
use super::file::OpenPath;
use super::reopen::Known;
use super::rights::Rights;
use super::sweep::Sweep;
use crate::store::contract::{DoneStore, Gate, Lease, Snapshot, Store, StoreError, StoreSize};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{DeadLetter, DurableId, Partition, Position, Row, StoreTime};
use crate::store::rule::Rule;
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use std::time::SystemTime;

/// The largest payload, in bytes. redb takes no value above 3 GiB, and a value has a row, or a dead
/// letter, beside its payload.
const PAYLOAD_MAX: usize = 1 << 30;

#[doc(hidden)]
impl Store for Redb {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        let epoch = self.with(|file| {
            file.state.begin_epoch();
            file.put_state()?;
            Ok(file.state.epoch)
        })?;
        let file = self.file.as_ref();
        self.known = file.map(|file| Known::of(&file.state, file.next));
        Ok(Self::lease(epoch))
    }

    /// (Where the system keeps what it has cached of a file, a file that is opened again may look
    /// sound and not be on the disk.)
    fn can_reopen(&self) -> bool {
        self.again.is_some() && (DROPS_PAGES || self.id.is_none())
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.open_again()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        if let Some(known) = &mut self.known {
            known.release();
        }
        self.with(|file| {
            file.state.claimed_upto = None;
            file.put_state()
        })
    }

    fn new_id(&mut self, _key: Option<&str>, due: StoreTime) -> DurableId {
        let Some(file) = &mut self.file else {
            return DurableId::from_bits(0);
        };
        file.next += 1;
        DurableId::new(0, due, file.next - 1)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.with(|file| file.commit(writes, gate))
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        if partition != 0 {
            return Ok(Vec::new());
        }
        self.with(|file| file.loading().load(after, until, limit))
    }

    fn list(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        if partition != 0 {
            return Ok(Listed::default());
        }
        self.with(|file| file.loading().list(after, until, filter, limit))
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.with(|file| {
            if file.state.claimed_upto.is_none_or(|claimed| claimed < upto) {
                file.state.claimed_upto = Some(upto);
                file.put_state()?;
            }
            Ok(())
        })
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        let now = StoreTime::reading(node);
        if let Some(file) = &mut self.file {
            file.now = Some(now);
        }
        Ok(now)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.with(|file| file.get(target))
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|file| file.dead(after, limit))
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.with(|file| {
            file.rules.has_news = false;
            Ok(file.rules.rules.all())
        })
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.file.as_ref().is_some_and(|file| file.rules.has_news)
    }

    fn payload_max(&self) -> usize {
        PAYLOAD_MAX
    }

    fn snapshot(&mut self) -> Result<Option<Box<dyn Snapshot>>, StoreError> {
        let what = self.what.clone();
        let rights = self
            .opened
            .as_ref()
            .map_or(Rights::PRIVATE, OpenPath::rights);
        let snapshot = self.with(|file| FileSnapshot::of(&what, &file.database, rights))?;
        Ok(Some(Box::new(snapshot)))
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let (rows, dead) = self.with(|file| file.size())?;
        let opened = self.opened.as_ref();
        let disk_bytes = opened.and_then(|opened| opened.bytes().ok());
        Ok(StoreSize::new(rows, dead, disk_bytes))
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.with(|file| {
            if let Some(now) = file.now {
                file.sweeper.mark(now, file.next);
            }
            if let Some(room) = &file.room
                && !room.is_whole(&mut file.tries, file.now)?
            {
                return Ok(false);
            }
            file.sweeper.step(Sweep {
                database: &file.database,
                index: &mut file.index,
                tombstones: &mut file.tombstones,
                now: file.now,
                next: file.next,
            })
        })
    }
}
