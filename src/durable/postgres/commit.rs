//! Commit: many changes in one transaction, those of a kind in one statement.
//!
//! A phase (`phases.rs`) has changes that may be made in any order, by a statement or two for each
//! kind of change.

use super::leases::{PARTITIONS, epoch, part};
use super::phases::{Phases, Token, tokens_of};
use super::rows::{cause_parts, durable_id, millis, partition_of_key, row_of, time, uuid};
use super::session::{Live, OneTrouble, Params, trouble_of_one};
use super::sql;
use crate::durable::{
    DurableId, KindSlice, Outcome, Partition, Position, Row, Settled, StoreTime, Target,
    TrialBegun, Write,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use tokio_postgres::Error;
use tokio_postgres::error::DbError;
use uuid::Uuid;

/// Parts of a commit that are halved. What is in trouble then is tried in another commit.
const TRIES_MAX: usize = 32;

/// Rows that are looked at by one statement, whether they are of a kind.
const KIND_SLICE: usize = 2_000;

/// To look at a partition costs as much as so many rows, also if it has none of the kind.
const PARTITION_ROWS: usize = 16;

/// Why a change is refused.
const NO_TEXT: &str = "PostgreSQL stores no text with a zero byte";

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

/// Makes the changes in the transaction that is open. An error ends the transaction.
pub(super) async fn make(
    live: &Live,
    writes: &[Write],
    own: &BTreeMap<Partition, u64>,
) -> Result<Vec<Outcome>, Error> {
    let mut making = Making::new(live, writes, own);
    making.range(0..writes.len()).await?;
    Ok(making.outcomes())
}

/// The same, where a change has been in trouble that is no other's: parts of the changes are made
/// behind a savepoint each, and halved until the one is found.
pub(super) async fn make_split(
    live: &Live,
    writes: &[Write],
    own: &BTreeMap<Partition, u64>,
) -> Result<Vec<Outcome>, Error> {
    live.client
        .batch_execute("SET LOCAL lock_timeout = 3")
        .await?;
    let mut making = Making::new(live, writes, own);
    let mut tries = TRIES_MAX;
    let all = 0..writes.len();
    let mut parts = vec![all];
    while let Some(part) = parts.pop() {
        live.client.batch_execute("SAVEPOINT part").await?;
        let Err(error) = making.range(part.clone()).await else {
            live.client.batch_execute("RELEASE part").await?;
            continue;
        };
        let Some(trouble) = trouble_of_one(&error) else {
            return Err(error);
        };
        live.client.batch_execute("ROLLBACK TO part").await?;
        making.outcomes[part.clone()].fill(None);
        if part.len() == 1 && trouble == OneTrouble::Refused {
            let why = error.as_db_error().map_or("", DbError::message);
            let why = why.replace(char::is_control, " ");
            making.outcomes[part.start] = Some(Outcome::Refused(why.into()));
        } else if part.len() == 1 || tries == 0 {
            part.for_each(|number| making.block(number));
        } else {
            tries -= 1;
            let middle = part.start + part.len() / 2;
            parts.push(middle..part.end);
            parts.push(part.start..middle);
        }
    }
    Ok(making.outcomes())
}

/// The partitions whose lease rows several statements of the transaction lock. None, if one does.
fn locked_parts(writes: &[&Write]) -> Vec<i16> {
    let mut kinds = BTreeSet::new();
    let mut partitions = BTreeSet::new();
    for write in writes {
        let (Write::Begin { of, .. }
        | Write::Ack { of, .. }
        | Write::Retry { of, .. }
        | Write::Bury { of, .. }) = write
        else {
            continue;
        };
        partitions.insert(of.id.partition());
        kinds.insert(kind_of(write));
    }
    let is_one = kinds.len() < 2 && kinds.first().is_none_or(|&kind| kind == 0);
    if is_one {
        return Vec::new();
    }
    partitions.into_iter().map(part).collect()
}

/// The partitions in which rows are ended, moved or replaced that were not handed out.
fn gated_parts(writes: &[&Write]) -> Vec<i16> {
    let mut partitions = BTreeSet::new();
    for write in writes {
        match write {
            Write::Arm(row) if row.key.is_some() => {
                partitions.insert(row.id.partition());
            }
            Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => {
                partitions.insert(id.partition());
            }
            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => {
                partitions.insert(partition_of_key(key));
            }
            _ => {}
        }
    }
    let partitions = partitions.into_iter().filter(|&number| number < PARTITIONS);
    partitions.map(part).collect()
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
        Write::Begin { .. } => 10,
    }
}

/// A row that this transaction has locked.
struct LockedRow {
    part: i16,
    due: i64,
    id: Uuid,
    /// It has a calendar, and does not end with its handler anyway.
    recurs: bool,
}

/// Rows that are locked, as columns.
#[derive(Default)]
struct LockedRows {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
}

impl LockedRows {
    fn push(&mut self, found: &LockedRow) {
        self.parts.push(found.part);
        self.dues.push(found.due);
        self.ids.push(found.id);
    }

    /// Deletes them.
    async fn end(&self, live: &Live) -> Result<(), Error> {
        if !self.ids.is_empty() {
            live.rows(sql::END, &[&self.parts, &self.dues, &self.ids])
                .await?;
        }
        Ok(())
    }

    /// They end with their handlers.
    async fn supersede(&self, live: &Live) -> Result<(), Error> {
        if !self.ids.is_empty() {
            live.rows(sql::SUPERSEDE, &[&self.parts, &self.dues, &self.ids])
                .await?;
        }
        Ok(())
    }
}

/// A commit that is being made.
struct Making<'a> {
    live: &'a Live,
    writes: &'a [Write],
    /// The epochs of this node's partitions.
    own: &'a BTreeMap<Partition, u64>,
    outcomes: Vec<Option<Outcome>>,
    /// What changes depend on that are blocked: later ones of these wait, too.
    blocked: HashSet<Token>,
}

impl<'a> Making<'a> {
    fn new(live: &'a Live, writes: &'a [Write], own: &'a BTreeMap<Partition, u64>) -> Self {
        Self {
            live,
            writes,
            own,
            outcomes: vec![None; writes.len()],
            blocked: HashSet::new(),
        }
    }

    /// What has become of all changes.
    fn outcomes(self) -> Vec<Outcome> {
        let none = |number: usize| match self.writes[number] {
            Write::Arm(_) => Outcome::Armed(None),
            Write::Cancel(_) => Outcome::Cancelled(None),
            Write::Move(..) => Outcome::Moved(None),
            Write::CancelKind(_) => Outcome::CancelledMany(Vec::new(), None),
            Write::Begin { .. } => Outcome::Begun(TrialBegun::Refused),
            Write::Ack { .. } | Write::Retry { .. } | Write::Bury { .. } => {
                Outcome::Settled(false, None)
            }
            Write::Revive(..) => Outcome::Revived(None),
            Write::Discard(_) => Outcome::Discarded(false),
        };
        let outcomes = self.outcomes.into_iter().enumerate();
        outcomes
            .map(|(number, outcome)| outcome.unwrap_or_else(|| none(number)))
            .collect()
    }

    /// Somebody's transaction is in the way of this change.
    fn block(&mut self, number: usize) {
        let write = &self.writes[number];
        self.blocked.extend(tokens_of(write));
        self.outcomes[number] = Some(Outcome::Blocked(Box::new(write.clone())));
    }

    /// Makes these changes, in their order.
    async fn range(&mut self, range: Range<usize>) -> Result<(), Error> {
        let mut phases = Phases::default();
        let mut by_phase: Vec<Vec<usize>> = Vec::new();
        for number in range.clone() {
            let phase = phases.of(&self.writes[number]);
            if by_phase.len() <= phase {
                by_phase.resize_with(phase + 1, Vec::new);
            }
            by_phase[phase].push(number);
        }
        let writes: Vec<&Write> = self.writes[range].iter().collect();
        for (sql, parts) in [
            (sql::LOCK, locked_parts(&writes)),
            (sql::GATE, gated_parts(&writes)),
        ] {
            if !parts.is_empty() {
                self.live.rows(sql, &[&parts]).await?;
            }
        }
        for numbers in by_phase {
            self.phase(numbers).await?;
        }
        Ok(())
    }

    /// The changes of a phase: no two of them have a row or a key in common.
    async fn phase(&mut self, mut numbers: Vec<usize>) -> Result<(), Error> {
        numbers.retain(|&number| {
            let write = &self.writes[number];
            if !is_text(write) {
                self.outcomes[number] = Some(Outcome::Refused(NO_TEXT.into()));
                return false;
            }
            let waits = tokens_of(write)
                .iter()
                .any(|token| self.blocked.contains(token));
            if waits {
                self.block(number);
            }
            !waits
        });
        let mut of_kind: [Vec<usize>; 11] = Default::default();
        for number in numbers {
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
            begins,
        ] = of_kind;
        self.begin(&begins).await?;
        self.ack(&acks).await?;
        self.retry(&retries).await?;
        self.bury(&burials).await?;
        self.cancel(&cancels, &key_cancels).await?;
        self.change_due(&moves, &key_moves).await?;
        self.arm(&arms).await?;
        for number in kinds {
            if let Write::CancelKind(slice) = &self.writes[number] {
                let (gone, after) = self.cancel_kind(slice).await?;
                self.outcomes[number] = Some(Outcome::CancelledMany(gone, after));
            }
        }
        self.dead_letters(&dead).await
    }

    /// RowLock: locks the rows of these changes, which name them by id. Those are blocked whose
    /// rows others have locked.
    async fn find(&mut self, numbers: &[usize]) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left = HashMap::new();
        for &number in numbers {
            let id = match &self.writes[number] {
                Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => *id,
                _ => continue,
            };
            left.insert(uuid(id), number);
        }
        let mut all = Vec::with_capacity(left.len());
        for sql in [sql::FIND, sql::FIND_MOVED] {
            if left.is_empty() {
                return Ok(all);
            }
            let (parts, firsts, ids) = columns_of(left.keys());
            let params: Params = match sql {
                sql::FIND => &[&parts, &firsts, &ids],
                _ => &[&parts, &ids],
            };
            for row in self.live.rows(sql, params).await? {
                let found = found_of(&row);
                if let Some(number) = left.remove(&found.id) {
                    all.push((number, found));
                }
            }
        }
        if !left.is_empty() {
            let (parts, firsts, ids) = columns_of(left.keys());
            for row in self.live.rows(sql::SEE, &[&parts, &firsts, &ids]).await? {
                if let Some(number) = left.remove(&row.get(0)) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// RowLock: the same for changes that name them by key, or take it.
    async fn find_keys(&mut self, numbers: &[usize]) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for &number in numbers {
            match &self.writes[number] {
                Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => {
                    left.insert(key, number);
                }
                Write::Arm(row) => {
                    left.extend(row.key.as_deref().map(|key| (key, number)));
                }
                _ => {}
            }
        }
        let mut all = Vec::with_capacity(left.len());
        for sql in [sql::FIND_KEYS, sql::SEE_KEYS] {
            if left.is_empty() {
                break;
            }
            let keys: Vec<&str> = left.keys().copied().collect();
            let of_key = |&key: &&str| part(partition_of_key(key));
            let parts: Vec<i16> = keys.iter().map(of_key).collect();
            for row in self.live.rows(sql, &[&parts, &keys]).await? {
                if sql == sql::FIND_KEYS {
                    if let Some(number) = left.remove(row.get::<_, &str>(4)) {
                        all.push((number, found_of(&row)));
                    }
                } else if let Some(number) = left.remove(row.get::<_, &str>(0)) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// WatermarkLook: whether rows that are locked were handed out. In a statement after that which
    /// has locked them, so its snapshot has the watermark that their owner may have read them by.
    async fn look(&self, found: &[(usize, LockedRow)]) -> Result<HashMap<i16, i64>, Error> {
        let parts: BTreeSet<i16> = found.iter().map(|(_, found)| found.part).collect();
        let parts: Vec<i16> = parts.into_iter().collect();
        if parts.is_empty() {
            return Ok(HashMap::new());
        }
        let uptos = self.live.rows(sql::UPTO, &[&parts]).await?;
        Ok(uptos.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// The epoch of a row that this node writes, and that nobody has handed out: it is not suspect,
    /// if it is this node's.
    fn own_epoch(&self, partition: Partition) -> i64 {
        self.own.get(&partition).map_or(0, |&own| epoch(own))
    }

    /// Notes the crashes of suspects. Those go whose key another row has taken.
    async fn begin(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut all) = (Deliveries::default(), Vec::new());
        for &number in numbers {
            if let Write::Begin { of, crashes } = &self.writes[number] {
                rows.push(of, number);
                all.push(i64::from(*crashes));
            }
        }
        if all.is_empty() {
            return Ok(());
        }
        let params: Params = &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs];
        let gone = self.live.rows(sql::ACK_SUPERSEDED, params).await?;
        let params: Params = &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs, &all];
        let noted = self.live.rows(sql::BEGIN, params).await?;
        for (columns, begun) in [(gone, TrialBegun::Superseded), (noted, TrialBegun::Noted)] {
            for row in columns {
                if let Some(&number) = rows.at.get(&row.get(0)) {
                    self.outcomes[number] = Some(Outcome::Begun(begun));
                }
            }
        }
        Ok(())
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
                Write::Retry {
                    of,
                    at,
                    attempts,
                    crashes,
                } => again.push(of, *at, (*attempts, *crashes), number),
                Write::Ack {
                    of,
                    next: Some(next),
                } => again.push(of, *next, (0, 0), number),
                _ => {}
            }
        }
        if again.nexts.is_empty() {
            return Ok(());
        }
        for (number, row) in again.make(self.live).await? {
            self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
        }
        // (After that: a row may be replaced until it is locked, but is never what it was again.)
        self.settled(sql::ACK_SUPERSEDED, &again.rows).await
    }

    async fn bury(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut gone, mut again) = (
            Deliveries::default(),
            Deliveries::default(),
            Again::default(),
        );
        let (mut copies, mut causes) = (Vec::new(), Vec::new());
        let (mut attempts_of, mut crashes_of) = (Vec::new(), Vec::new());
        let (mut whys, mut sinces) = (Vec::new(), Vec::new());
        for &number in numbers {
            let Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } = &self.writes[number]
            else {
                continue;
            };
            rows.push(of, number);
            match next {
                None => gone.push(of, number),
                Some((next, _)) => again.push(of, *next, (0, 0), number),
            }
            copies.push(next.map(|(_, copy)| uuid(copy)));
            attempts_of.push(i64::from(*attempts));
            crashes_of.push(i64::from(*crashes));
            let (tag, why) = cause_parts(cause);
            causes.push(tag);
            whys.push(why);
            sinces.push(millis(*since));
        }
        if rows.ids.is_empty() {
            return Ok(());
        }
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
                    &crashes_of,
                    &causes,
                    &whys,
                    &sinces,
                ],
            )
            .await?;
        // (After that, which has locked the rows that are not.)
        self.settled(sql::ACK_SUPERSEDED, &rows).await?;
        self.settled(sql::ACK, &gone).await?;
        if !again.nexts.is_empty() {
            for (number, row) in again.make(self.live).await? {
                self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, by_id: &[usize], by_key: &[usize]) -> Result<(), Error> {
        let mut found = self.find(by_id).await?;
        found.extend(self.find_keys(by_key).await?);
        let upto = self.look(&found).await?;
        let (mut gone, mut struck) = (LockedRows::default(), LockedRows::default());
        for (number, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
            } else if found.recurs {
                struck.push(found);
            } else {
                continue;
            }
            self.outcomes[*number] = Some(Outcome::Cancelled(Some(durable_id(found.id))));
        }
        gone.end(self.live).await?;
        struck.supersede(self.live).await
    }

    /// Cancels rows of a kind, by partition. Those that others have locked are left alone. Returns
    /// them, and where to go on.
    async fn cancel_kind(
        &mut self,
        slice: &KindSlice,
    ) -> Result<(Vec<DurableId>, Option<Position>), Error> {
        let mut all = Vec::new();
        let mut left = slice.limit.rows;
        let mut after = slice.after;
        while after.id.partition() < PARTITIONS {
            if left == 0 {
                return Ok((all, Some(after)));
            }
            let number = after.id.partition();
            let limit = left.min(KIND_SLICE);
            let (due, id, rows) = (millis(after.due), uuid(after.id), limit as i64);
            let params: Params = &[&part(number), &due, &id, &&*slice.kind, &rows];
            let seen = self.live.rows(sql::SEE_KIND, params).await?;
            left = left.saturating_sub(seen.len().max(PARTITION_ROWS));
            let of_kind = seen.iter().filter(|row| row.get(2));
            let ids: Vec<DurableId> = of_kind.map(|row| durable_id(row.get(1))).collect();
            all.extend(self.cancel_free(number, &ids).await?);
            after = match seen.last() {
                Some(last) if seen.len() == limit => Position {
                    due: time(last.get(0)),
                    id: durable_id(last.get(1)),
                },
                // The next partition.
                _ => Position {
                    due: StoreTime::MIN,
                    id: DurableId::new(number + 1, StoreTime::MIN, 0),
                },
            };
        }
        all.sort_unstable();
        Ok((all, None))
    }

    /// Cancels those of these rows of a partition that were not handed out, and that nobody has
    /// locked.
    async fn cancel_free(
        &mut self,
        number: Partition,
        ids: &[DurableId],
    ) -> Result<Vec<DurableId>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.live.rows(sql::GATE, &[&vec![part(number)]]).await?;
        let ids: Vec<Uuid> = ids.iter().copied().map(uuid).collect();
        let (parts, firsts, ids) = columns_of(ids.iter());
        let first = self.live.rows(sql::FIND, &[&parts, &firsts, &ids]).await?;
        let moved = self.live.rows(sql::FIND_MOVED, &[&parts, &ids]).await?;
        let mut known = HashSet::new();
        let found = first.iter().chain(&moved).map(|row| (0, found_of(row)));
        // (One that was moved to its first deadline is in both.)
        let found = found.filter(|(_, found)| known.insert(found.id));
        let found: Vec<(usize, LockedRow)> = found.collect();
        let upto = self.look(&found).await?;
        let (mut gone, mut struck) = (LockedRows::default(), LockedRows::default());
        for (_, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
            } else if found.recurs {
                struck.push(found);
            }
        }
        gone.end(self.live).await?;
        struck.supersede(self.live).await?;
        let all = gone.ids.iter().chain(&struck.ids);
        Ok(all.copied().map(durable_id).collect())
    }

    async fn change_due(&mut self, by_id: &[usize], by_key: &[usize]) -> Result<(), Error> {
        let mut found = self.find(by_id).await?;
        found.extend(self.find_keys(by_key).await?);
        let upto = self.look(&found).await?;
        let (mut rows, mut all) = (LockedRows::default(), Moves::default());
        let mut at = HashMap::new();
        for (number, found) in found.iter().filter(|(_, found)| is_free(found, &upto)) {
            if let Write::Move(_, next) = &self.writes[*number] {
                let id = durable_id(found.id);
                rows.push(found);
                all.push(id, *next, self.own_epoch(id.partition()));
                at.insert(id, *number);
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        let params: Params = &[
            &rows.parts,
            &rows.dues,
            &rows.ids,
            &all.nexts,
            &all.moved,
            &all.epochs,
        ];
        for row in self.live.rows(sql::MOVE, params).await?.iter().map(row_of) {
            if let Some(&number) = at.get(&row.id) {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        Ok(())
    }

    /// Rows that have the keys of these changes go, or lose them if they were handed out.
    async fn replace(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let found = self.find_keys(numbers).await?;
        let upto = self.look(&found).await?;
        let (mut gone, mut superseded) = (LockedRows::default(), LockedRows::default());
        for (number, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
                self.outcomes[*number] = Some(Outcome::Armed(Some(durable_id(found.id))));
            } else {
                superseded.push(found);
            }
        }
        gone.end(self.live).await?;
        superseded.supersede(self.live).await
    }

    async fn arm(&mut self, numbers: &[usize]) -> Result<(), Error> {
        self.replace(numbers).await?;
        let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kinds, mut row_keys, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        let (mut attempts, mut crashes) = (Vec::new(), Vec::new());
        let (mut calendars, mut moved, mut epochs) = (Vec::new(), Vec::new(), Vec::new());
        for &number in numbers {
            let Write::Arm(row) = &self.writes[number] else {
                continue;
            };
            if matches!(self.outcomes[number], Some(Outcome::Blocked(_))) {
                continue;
            }
            parts.push(part(row.id.partition()));
            dues.push(millis(row.due));
            ids.push(uuid(row.id));
            kinds.push(&*row.kind);
            row_keys.push(row.key.as_deref());
            payloads.push(&*row.payload);
            attempts.push(i64::from(row.attempts));
            crashes.push(i64::from(row.crashes));
            calendars.push(row.calendar.as_deref());
            moved.push(row.due != row.id.first_due());
            epochs.push(self.own_epoch(row.id.partition()));
        }
        if ids.is_empty() {
            return Ok(());
        }
        self.live
            .rows(
                sql::ARM,
                &[
                    &parts, &dues, &ids, &kinds, &row_keys, &payloads, &attempts, &crashes,
                    &calendars, &moved, &epochs,
                ],
            )
            .await?;
        Ok(())
    }

    async fn dead_letters(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut at = HashMap::new();
        for &number in numbers {
            if let Write::Revive(id, _) | Write::Discard(id) = &self.writes[number] {
                at.insert(uuid(*id), number);
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        let all: Vec<Uuid> = at.keys().copied().collect();
        let found = self.live.rows(sql::FIND_DEAD, &[&all]).await?;
        let found: Vec<Uuid> = found.iter().map(|row| row.get(0)).collect();
        let mut revived = Moves::default();
        for id in &found {
            match at.get(id).map(|&number| (number, &self.writes[number])) {
                Some((_, Write::Revive(id, due))) => {
                    revived.push(*id, *due, self.own_epoch(id.partition()));
                }
                Some((number, _)) => self.outcomes[number] = Some(Outcome::Discarded(true)),
                None => {}
            }
        }
        if !revived.ids.is_empty() {
            for row in revived.revive(self.live).await? {
                if let Some(&number) = at.get(&uuid(row.id)) {
                    self.outcomes[number] = Some(Outcome::Revived(Some(row)));
                }
            }
        }
        if !found.is_empty() {
            self.live.rows(sql::DISCARD, &[&found]).await?;
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
    crashes: Vec<i64>,
}

impl Again {
    /// `counts`: attempts and crashes.
    fn push(&mut self, of: &Settled, next: StoreTime, counts: (u32, u32), number: usize) {
        self.rows.push(of, number);
        self.nexts.push(millis(next));
        self.moved.push(next != of.id.first_due());
        self.attempts.push(counts.0.into());
        self.crashes.push(counts.1.into());
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
                    &self.crashes,
                ],
            )
            .await?;
        let number = |row: Row| Some((*rows.at.get(&uuid(row.id))?, row));
        Ok(moved.iter().map(row_of).filter_map(number).collect())
    }
}

/// A row from the columns of one that was locked.
fn found_of(row: &tokio_postgres::Row) -> LockedRow {
    LockedRow {
        part: row.get(0),
        due: row.get(1),
        id: row.get(2),
        recurs: row.get(3),
    }
}

/// Whether a row that is locked was not handed out.
fn is_free(found: &LockedRow, upto: &HashMap<i16, i64>) -> bool {
    upto.get(&found.part).is_some_and(|&upto| found.due > upto)
}

/// Partitions, first deadlines and ids.
fn columns_of<'a>(ids: impl Iterator<Item = &'a Uuid>) -> (Vec<i16>, Vec<i64>, Vec<Uuid>) {
    let (mut parts, mut firsts, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for &id in ids {
        let row = durable_id(id);
        parts.push(part(row.partition()));
        firsts.push(millis(row.first_due()));
        all.push(id);
    }
    (parts, firsts, all)
}

/// Whether the database can store the texts of a change: they have no zero byte.
fn is_text(write: &Write) -> bool {
    let has_zero = |text: &str| text.contains('\0');
    let of_target = |target: &Target| match target {
        Target::Key(key) => has_zero(key),
        Target::Id(_) => false,
    };
    !match write {
        Write::Arm(row) => {
            has_zero(&row.kind)
                || row.key.as_deref().is_some_and(has_zero)
                || row.calendar.as_deref().is_some_and(has_zero)
        }
        Write::Cancel(target) | Write::Move(target, _) => of_target(target),
        Write::CancelKind(slice) => has_zero(&slice.kind),
        _ => false,
    }
}
