//! Open file: what a store has of a file while it is open, and what its calls do there.

use super::codec::{self, Names};
use super::load::Loading;
use super::recent::RecentIndex;
use super::room::{Room, RoomFor, Tries};
use super::row_changes::{RowChanges, Scratch};
use super::rules::{FileRules, RULES_SINCE};
use super::state::StoreState;
use super::sweep::Sweeper;
use super::tables::{self, BY_DUE, DEAD, KEYS, WriteTables};
use super::tombstones::EndedLog;
use crate::store::contract::Gate;
use crate::store::row::{DeadLetter, DurableId, Row, StoreTime};
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use redb::{Database, Error, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::vec;

/// All of a store but its end.
pub(super) struct OpenFile {
    pub(super) database: Database,
    /// The lowest format that a program has to know to work with the file.
    pub(super) floor: u64,
    pub(super) state: StoreState,
    pub(super) index: RecentIndex,
    pub(super) tombstones: EndedLog,
    pub(super) rules: FileRules,
    pub(super) sweeper: Sweeper,
    pub(super) names: Names,
    pub(super) scratch: Scratch,
    /// The number of the next row.
    pub(super) next: u64,
    /// The clock, as it was read last.
    pub(super) now: Option<StoreTime>,
    /// The reserve of room on the disk, and the tries to make it whole.
    pub(super) room: Option<Arc<Room>>,
    pub(super) tries: Tries,
    /// Rows that handlers have had, and whose settlements wait for room.
    pub(super) waits_for_room: HashSet<DurableId>,
}

/// The writer's gate, and rows whose settlements wait for room: nobody ends those.
struct SettledGate<'a>(&'a mut dyn Gate, &'a HashSet<DurableId>);

impl Gate for SettledGate<'_> {
    fn let_go(&mut self, id: DurableId) -> bool {
        !self.1.contains(&id) && self.0.let_go(id)
    }
}

impl OpenFile {
    pub(super) fn put_state(&mut self) -> Result<(), Error> {
        let transaction = self.database.begin_write()?;
        let mut tables = WriteTables::open(&transaction)?;
        tables.put_state(&self.state)?;
        drop(tables);
        transaction.commit()?;
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(writes.len());
        if let Some(now) = self.now {
            self.sweeper.mark(now, self.next);
        }
        let mut writes = writes.into_iter().peekable();
        loop {
            self.transact(&mut writes, &mut outcomes, gate)?;
            if writes.peek().is_none() {
                return Ok(outcomes);
            }
        }
    }

    /// Makes these changes in one transaction, up to the first one that has no room in it.
    fn transact(
        &mut self,
        writes: &mut Peekable<vec::IntoIter<Write>>,
        outcomes: &mut Vec<Outcome>,
        gate: &mut dyn Gate,
    ) -> Result<(), Error> {
        let room = self.room.as_ref();
        let bound = room.map(|room| room.rewrite_bound(&self.tries));
        let transaction = self.database.begin_write()?;
        let mut changes = RowChanges::begin(
            &transaction,
            bound.unwrap_or_default(),
            &mut self.index,
            &mut self.tombstones,
            &mut self.state,
            &mut self.names,
            &mut self.scratch,
        )?;
        while let Some(write) = writes.peek() {
            let room = changes.room_for(write)?;
            if room == RoomFor::NextTransaction {
                break;
            }
            let Some(write) = writes.next() else {
                break;
            };
            if let Some(of) = write.settles() {
                self.waits_for_room.remove(&of.id);
            }
            outcomes.push(match write {
                Write::Rule(of, change) => {
                    let outcome = self.rules.change(&transaction, &of, change)?;
                    if outcome.is_made() {
                        changes.note_format(RULES_SINCE);
                    }
                    outcome
                }
                write if room == RoomFor::None => {
                    self.waits_for_room.extend(write.settles().map(|of| of.id));
                    Outcome::Blocked(Box::new(write))
                }
                write => changes.make(write, &mut SettledGate(gate, &self.waits_for_room))?,
            });
        }
        if changes.end(&mut self.floor)? {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(())
    }

    pub(super) fn loading(&mut self) -> Loading<'_> {
        Loading {
            database: &self.database,
            index: &mut self.index,
            state: &self.state,
            names: &mut self.names,
        }
    }

    pub(super) fn get(&mut self, target: &Target) -> Result<Option<Row>, Error> {
        let transaction = self.database.begin_read()?;
        let (id, key) = match target {
            Target::Id(id) => (*id, None),
            Target::Key(key) => {
                let keys = transaction.open_table(KEYS)?;
                let Some(id) = ReadableTable::get(&keys, key.as_bytes())? else {
                    return Ok(None);
                };
                (DurableId::from_bits(id.value()), Some(key))
            }
        };
        let row = tables::read(&transaction, &self.index, &self.state, &mut self.names, id)?;
        // A key names a row that has it.
        if key.is_some() && row.as_ref().and_then(|row| row.key.as_ref()) != key {
            return Err(tables::damaged(
                "keys",
                id.number(),
                "its row has not this key",
            ));
        }
        Ok(row)
    }

    pub(super) fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, Error> {
        let dead = self.database.begin_read()?.open_table(DEAD)?;
        let begin = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.to_bits()));
        let mut entries = ReadableTable::range(&dead, (begin, Bound::Unbounded))?;
        let (mut letters, mut bytes) = (Vec::new(), 0);
        while !limit.is_reached(letters.len(), bytes)
            && let Some(entry) = entries.next()
        {
            let (id, value) = entry?;
            let letter = codec::decode_dead(id.value(), value.value(), &mut self.names);
            let number = DurableId::from_bits(id.value()).number();
            let letter = letter.map_err(|flaw| tables::damaged("dead", number, flaw))?;
            bytes += letter.row.bytes();
            letters.push(letter);
        }
        Ok(letters)
    }

    pub(super) fn size(&self) -> Result<(u64, u64), Error> {
        let transaction = self.database.begin_read()?;
        let rows = self.index.len() as u64 + transaction.open_table(BY_DUE)?.len()?;
        Ok((rows, transaction.open_table(DEAD)?.len()?))
    }
}
