//! Commit: many changes in one transaction, those of a kind in one statement.
//!
//! A phase (`phases.rs`) has changes that may be made in any order, by a statement or two for each
//! kind of change.

use super::leases::{PARTITIONS, epoch, part};
use super::phases::Phases;
use super::rows::{cause_parts, durable_id, millis, partition_of_key, row_of, uuid};
use super::session::{Live, Params};
use super::sql;
use crate::durable::{DurableId, Outcome, Partition, Row, Settled, StoreTime, Target, Write};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Error;
use uuid::Uuid;

/// Columns of rows that were handed out.
#[derive(Default)]
struct Deliveries {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    epochs: Vec<i64>,
    at: HashMap<Uuid, usize>,
}

impl Deliveries {
    fn push(&mut self, of: &Settled, number: usize) {
        self.parts.push(part(of.id.partition()));
        self.dues.push(millis(of.due));
        self.ids.push(uuid(of.id));
        self.epochs.push(epoch(of.epoch));
        self.at.insert(uuid(of.id), number);
    }
}

/// Makes the changes in the transaction that is open.
pub(super) async fn make(
    live: &Live,
    writes: &[Write],
    own: &BTreeMap<Partition, u64>,
) -> Result<Vec<Outcome>, Error> {
    let mut phases = Phases::default();
    let mut by_phase: Vec<Vec<usize>> = Vec::new();
    for (number, write) in writes.iter().enumerate() {
        let phase = phases.of(write);
        if by_phase.len() <= phase {
            by_phase.resize_with(phase + 1, Vec::new);
        }
        by_phase[phase].push(number);
    }
    let parts = locked_parts(writes);
    if !parts.is_empty() {
        live.rows(sql::LOCK, &[&parts]).await?;
    }
    let mut making = Making {
        live,
        writes,
        own,
        outcomes: vec![None; writes.len()],
    };
    for numbers in by_phase {
        making.phase(&numbers).await?;
    }
    let none = |number: usize| match writes[number] {
        Write::Arm(_) => Outcome::Armed(None),
        Write::Cancel(_) => Outcome::Cancelled(None),
        Write::Move(..) => Outcome::Moved(None),
        Write::CancelKind(_) => Outcome::CancelledMany(Vec::new(), None),
        Write::Ack { .. } | Write::Retry { .. } | Write::Bury { .. } => {
            Outcome::Settled(false, None)
        }
        Write::Revive(..) => Outcome::Revived(None),
        Write::Discard(_) => Outcome::Discarded(false),
    };
    let outcomes = making.outcomes.into_iter().enumerate();
    Ok(outcomes
        .map(|(number, outcome)| outcome.unwrap_or_else(|| none(number)))
        .collect())
}

/// The partitions whose lease rows several statements of the transaction lock. None, if one does.
fn locked_parts(writes: &[Write]) -> Vec<i16> {
    let mut kinds = BTreeSet::new();
    let mut partitions = BTreeSet::new();
    for write in writes {
        let partition = match write {
            Write::Arm(row) if row.key.is_some() => row.id.partition(),
            Write::Arm(_) | Write::Revive(..) | Write::Discard(_) => continue,
            Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => id.partition(),
            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => {
                partition_of_key(key)
            }
            Write::CancelKind(_) => {
                partitions.extend(0..PARTITIONS);
                0
            }
            Write::Ack { of, .. } | Write::Retry { of, .. } | Write::Bury { of, .. } => {
                of.id.partition()
            }
        };
        partitions.insert(partition);
        kinds.insert(kind_of(write));
    }
    if kinds.len() < 2 && !writes.iter().any(has_two_statements) {
        return Vec::new();
    }
    partitions.into_iter().map(part).collect()
}

/// Whether changes of this kind take two statements. (Rows that were moved, or superseded, have one
/// of their own.)
fn has_two_statements(write: &Write) -> bool {
    match write {
        Write::Ack { next, .. } => next.is_some(),
        Write::Retry { .. } | Write::Bury { .. } => true,
        Write::Cancel(target) | Write::Move(target, _) => matches!(target, Target::Id(_)),
        Write::Arm(_) | Write::CancelKind(_) | Write::Revive(..) | Write::Discard(_) => false,
    }
}

/// The place of a change among those of its phase: see `Making::phase`.
fn kind_of(write: &Write) -> usize {
    match write {
        Write::Ack { next: None, .. } => 0,
        Write::Ack { .. } | Write::Retry { .. } => 1,
        Write::Bury { .. } => 2,
        Write::Cancel(Target::Id(_)) => 3,
        Write::Cancel(Target::Key(_)) => 4,
        Write::Move(Target::Id(_), _) => 5,
        Write::Move(Target::Key(_), _) => 6,
        Write::Arm(_) => 7,
        Write::CancelKind(_) => 8,
        Write::Revive(..) | Write::Discard(_) => 9,
    }
}

/// A commit that is being made.
struct Making<'a> {
    live: &'a Live,
    writes: &'a [Write],
    /// The epochs of this node's partitions.
    own: &'a BTreeMap<Partition, u64>,
    outcomes: Vec<Option<Outcome>>,
}

impl Making<'_> {
    /// The changes of a phase: no two of them have a row or a key in common.
    async fn phase(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut of_kind: [Vec<usize>; 10] = Default::default();
        for &number in numbers {
            of_kind[kind_of(&self.writes[number])].push(number);
        }
        let [
            acks,
            retries,
            burials,
            cancels,
            key_cancels,
            moves,
            key_moves,
            arms,
            kinds,
            dead,
        ] = of_kind;
        self.ack(&acks).await?;
        self.retry(&retries).await?;
        self.bury(&burials).await?;
        self.cancel(&cancels).await?;
        self.cancel_keys(&key_cancels).await?;
        self.change_due(&moves).await?;
        self.change_due_of_keys(&key_moves).await?;
        self.arm(&arms).await?;
        for number in kinds {
            if let Write::CancelKind(slice) = &self.writes[number] {
                let gone = self.live.rows(sql::CANCEL_KIND, &[&&*slice.kind]).await?;
                let mut gone: Vec<_> = gone.iter().map(|row| durable_id(row.get(0))).collect();
                gone.sort_unstable();
                self.outcomes[number] = Some(Outcome::CancelledMany(gone, None));
            }
        }
        self.dead_letters(&dead).await
    }

    /// The epoch of a row that this node writes, and that nobody has handed out: it is not owed an
    /// attempt, if it is this node's.
    fn own_epoch(&self, partition: Partition) -> i64 {
        self.own.get(&partition).map_or(0, |&own| epoch(own))
    }

    async fn ack(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut rows = Deliveries::default();
        for &number in numbers {
            if let Write::Ack { of, .. } = &self.writes[number] {
                rows.push(of, number);
            }
        }
        self.settled(sql::ACK, &rows).await
    }

    /// Deletes rows that were handed out.
    async fn settled(&mut self, sql: &'static str, rows: &Deliveries) -> Result<(), Error> {
        if rows.ids.is_empty() {
            return Ok(());
        }
        let gone = self
            .live
            .rows(sql, &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs])
            .await?;
        for row in gone {
            if let Some(&number) = rows.at.get(&row.get(0)) {
                self.outcomes[number] = Some(Outcome::Settled(true, None));
            }
        }
        Ok(())
    }

    async fn retry(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut again = Again::default();
        for &number in numbers {
            match &self.writes[number] {
                Write::Retry { of, at, attempts } => again.push(of, *at, *attempts, number),
                Write::Ack {
                    of,
                    next: Some(next),
                } => again.push(of, *next, 0, number),
                _ => {}
            }
        }
        if again.nexts.is_empty() {
            return Ok(());
        }
        self.settled(sql::ACK_SUPERSEDED, &again.rows).await?;
        for (number, row) in again.make(self.live).await? {
            self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
        }
        Ok(())
    }

    async fn bury(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut gone, mut again) = (
            Deliveries::default(),
            Deliveries::default(),
            Again::default(),
        );
        let (mut copies, mut attempts_of, mut causes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut whys, mut sinces) = (Vec::new(), Vec::new());
        for &number in numbers {
            let Write::Bury {
                of,
                cause,
                since,
                attempts,
                next,
            } = &self.writes[number]
            else {
                continue;
            };
            rows.push(of, number);
            match next {
                None => gone.push(of, number),
                Some((next, _)) => again.push(of, *next, 0, number),
            }
            copies.push(next.map(|(_, copy)| uuid(copy)));
            attempts_of.push(i64::from(*attempts));
            let (tag, why) = cause_parts(cause);
            causes.push(tag);
            whys.push(why);
            sinces.push(millis(*since));
        }
        if rows.ids.is_empty() {
            return Ok(());
        }
        self.settled(sql::ACK_SUPERSEDED, &rows).await?;
        self.live
            .rows(
                sql::BURY,
                &[
                    &rows.parts,
                    &rows.dues,
                    &rows.ids,
                    &rows.epochs,
                    &copies,
                    &attempts_of,
                    &causes,
                    &whys,
                    &sinces,
                ],
            )
            .await?;
        self.settled(sql::ACK, &gone).await?;
        if !again.nexts.is_empty() {
            for (number, row) in again.make(self.live).await? {
                self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = HashMap::new();
        for &number in numbers {
            if let Write::Cancel(Target::Id(id)) = &self.writes[number] {
                at.insert(uuid(*id), number);
                parts.push(part(id.partition()));
                dues.push(millis(id.first_due()));
                ids.push(uuid(*id));
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let gone = self.live.rows(sql::CANCEL, &[&parts, &dues, &ids]).await?;
        let mut note = |id: Uuid| {
            if let Some(number) = at.remove(&id) {
                self.outcomes[number] = Some(Outcome::Cancelled(Some(durable_id(id))));
            }
        };
        gone.iter().for_each(|row| note(row.get(0)));
        if at.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = at.keys().copied().collect();
        let parts: Vec<i16> = ids
            .iter()
            .map(|&id| part(durable_id(id).partition()))
            .collect();
        let gone = self.live.rows(sql::CANCEL_MOVED, &[&parts, &ids]).await?;
        for row in gone {
            let id: Uuid = row.get(0);
            if let Some(&number) = at.get(&id) {
                self.outcomes[number] = Some(Outcome::Cancelled(Some(durable_id(id))));
            }
        }
        Ok(())
    }

    async fn cancel_keys(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut keys = KeyedWrites::default();
        for &number in numbers {
            if let Write::Cancel(Target::Key(key)) = &self.writes[number] {
                keys.push(key, number);
            }
        }
        if keys.keys.is_empty() {
            return Ok(());
        }
        for (number, id) in keys.delete(self.live).await? {
            self.outcomes[number] = Some(Outcome::Cancelled(Some(id)));
        }
        Ok(())
    }

    async fn change_due(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut all = Moves::default();
        let mut left = HashMap::new();
        for &number in numbers {
            if let Write::Move(Target::Id(id), next) = &self.writes[number] {
                all.push(*id, *next, self.own_epoch(id.partition()));
                left.insert(*id, number);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        for row in all.make_at_first(self.live).await? {
            if let Some(number) = left.remove(&row.id) {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let mut rest = Moves::default();
        for (&id, &number) in &left {
            if let Write::Move(_, next) = &self.writes[number] {
                rest.push(id, *next, self.own_epoch(id.partition()));
            }
        }
        for row in rest.make_moved(self.live).await? {
            if let Some(&number) = left.get(&row.id) {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        Ok(())
    }

    async fn change_due_of_keys(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut keys, mut nexts, mut epochs) = (KeyedWrites::default(), Vec::new(), Vec::new());
        for &number in numbers {
            if let Write::Move(Target::Key(key), next) = &self.writes[number] {
                keys.push(key, number);
                nexts.push(millis(*next));
                epochs.push(self.own_epoch(partition_of_key(key)));
            }
        }
        if nexts.is_empty() {
            return Ok(());
        }
        let moved = self
            .live
            .rows(sql::MOVE_KEY, &[&keys.parts, &keys.keys, &nexts, &epochs])
            .await?;
        for row in moved.iter().map(row_of) {
            let number = row.key.as_ref().and_then(|key| keys.at.get(&**key));
            if let Some(&number) = number {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        Ok(())
    }

    async fn arm(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut keys = KeyedWrites::default();
        let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kinds, mut row_keys, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        let (mut attempts, mut calendars, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        let mut epochs = Vec::new();
        for &number in numbers {
            let Write::Arm(row) = &self.writes[number] else {
                continue;
            };
            if let Some(key) = &row.key {
                keys.push(key, number);
            }
            parts.push(part(row.id.partition()));
            dues.push(millis(row.due));
            ids.push(uuid(row.id));
            kinds.push(&*row.kind);
            row_keys.push(row.key.as_deref());
            payloads.push(&*row.payload);
            attempts.push(i64::from(row.attempts));
            calendars.push(row.calendar.as_deref());
            moved.push(row.due != row.id.first_due());
            epochs.push(self.own_epoch(row.id.partition()));
        }
        if ids.is_empty() {
            return Ok(());
        }
        if !keys.keys.is_empty() {
            for (number, id) in keys.delete(self.live).await? {
                self.outcomes[number] = Some(Outcome::Armed(Some(id)));
            }
            self.live
                .rows(sql::SUPERSEDE, &[&keys.parts, &keys.keys])
                .await?;
        }
        self.live
            .rows(
                sql::ARM,
                &[
                    &parts, &dues, &ids, &kinds, &row_keys, &payloads, &attempts, &calendars,
                    &moved, &epochs,
                ],
            )
            .await?;
        Ok(())
    }

    async fn dead_letters(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut revived = Moves::default();
        let mut all = Vec::new();
        let mut at = HashMap::new();
        for &number in numbers {
            let id = match &self.writes[number] {
                Write::Revive(id, due) => {
                    revived.push(*id, *due, self.own_epoch(id.partition()));
                    *id
                }
                Write::Discard(id) => *id,
                _ => continue,
            };
            all.push(uuid(id));
            at.insert(id, number);
        }
        if all.is_empty() {
            return Ok(());
        }
        if !revived.ids.is_empty() {
            for row in revived.revive(self.live).await? {
                if let Some(&number) = at.get(&row.id) {
                    self.outcomes[number] = Some(Outcome::Revived(Some(row)));
                }
            }
        }
        for row in self.live.rows(sql::DISCARD, &[&all]).await? {
            if let Some(&number) = at.get(&durable_id(row.get(0)))
                && matches!(self.writes[number], Write::Discard(_))
            {
                self.outcomes[number] = Some(Outcome::Discarded(true));
            }
        }
        Ok(())
    }
}

/// Columns of rows that get a new deadline.
#[derive(Default)]
struct Moves {
    parts: Vec<i16>,
    firsts: Vec<i64>,
    ids: Vec<Uuid>,
    nexts: Vec<i64>,
    moved: Vec<bool>,
    epochs: Vec<i64>,
}

impl Moves {
    fn push(&mut self, id: DurableId, next: StoreTime, epoch: i64) {
        self.parts.push(part(id.partition()));
        self.firsts.push(millis(id.first_due()));
        self.ids.push(uuid(id));
        self.nexts.push(millis(next));
        self.moved.push(next != id.first_due());
        self.epochs.push(epoch);
    }

    /// Moves those that are at their first deadlines. Returns them.
    async fn make_at_first(&self, live: &Live) -> Result<Vec<Row>, Error> {
        let (ids, nexts) = (&self.ids, &self.nexts);
        let params: Params = &[
            &self.parts,
            &self.firsts,
            ids,
            nexts,
            &self.moved,
            &self.epochs,
        ];
        Ok(live
            .rows(sql::MOVE, params)
            .await?
            .iter()
            .map(row_of)
            .collect())
    }

    /// Moves those that were moved before. Returns them.
    async fn make_moved(&self, live: &Live) -> Result<Vec<Row>, Error> {
        let params: Params = &[
            &self.parts,
            &self.ids,
            &self.nexts,
            &self.moved,
            &self.epochs,
        ];
        let moved = live.rows(sql::MOVE_MOVED, params).await?;
        Ok(moved.iter().map(row_of).collect())
    }

    /// Makes timers of dead letters again. Returns them.
    async fn revive(&self, live: &Live) -> Result<Vec<Row>, Error> {
        let params: Params = &[
            &self.parts,
            &self.nexts,
            &self.ids,
            &self.moved,
            &self.epochs,
        ];
        let revived = live.rows(sql::REVIVE, params).await?;
        Ok(revived.iter().map(row_of).collect())
    }
}

/// Rows that were handed out and are to fire again.
#[derive(Default)]
struct Again {
    rows: Deliveries,
    nexts: Vec<i64>,
    moved: Vec<bool>,
    attempts: Vec<i64>,
}

impl Again {
    fn push(&mut self, of: &Settled, next: StoreTime, attempts: u32, number: usize) {
        self.rows.push(of, number);
        self.nexts.push(millis(next));
        self.moved.push(next != of.id.first_due());
        self.attempts.push(attempts.into());
    }

    /// Moves them. Returns the rows as they are then.
    async fn make(&self, live: &Live) -> Result<Vec<(usize, Row)>, Error> {
        let rows = &self.rows;
        let moved = live
            .rows(
                sql::RETRY,
                &[
                    &rows.parts,
                    &rows.dues,
                    &rows.ids,
                    &rows.epochs,
                    &self.nexts,
                    &self.moved,
                    &self.attempts,
                ],
            )
            .await?;
        let number = |row: Row| Some((*rows.at.get(&uuid(row.id))?, row));
        Ok(moved.iter().map(row_of).filter_map(number).collect())
    }
}

/// Keys with their partitions, and the numbers of their changes.
#[derive(Default)]
struct KeyedWrites {
    parts: Vec<i16>,
    keys: Vec<String>,
    at: HashMap<String, usize>,
}

impl KeyedWrites {
    fn push(&mut self, key: &str, number: usize) {
        self.parts.push(part(partition_of_key(key)));
        self.keys.push(key.to_owned());
        self.at.insert(key.to_owned(), number);
    }

    /// Deletes the rows that have them and were not handed out.
    async fn delete(&self, live: &Live) -> Result<Vec<(usize, DurableId)>, Error> {
        let gone = live.rows(sql::REPLACE, &[&self.parts, &self.keys]).await?;
        let gone = gone.iter().filter_map(|row| {
            let number = self.at.get(row.get::<_, &str>(0))?;
            Some((*number, durable_id(row.get(1))))
        });
        Ok(gone.collect())
    }
}
