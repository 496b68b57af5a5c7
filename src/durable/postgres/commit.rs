//! Commit: many changes in one transaction, those of a kind in one statement.
//!
//! Changes of one commit come in an order. Those that have no row and no key in common may be made
//! in any order, so each goes into the first *phase* after all that it depends on. A phase has a
//! statement or two for each kind of change.

use super::leases::{PARTITIONS, epoch, part};
use super::rows::{cause_parts, durable_id, millis, partition_of_key, row_of, uuid};
use super::session::Live;
use super::sql;
use crate::durable::{DurableId, Outcome, Partition, Row, Settled, StoreTime, Target, Write};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Error;
use uuid::Uuid;

/// What a change depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Token {
    Row(DurableId),
    Key(std::sync::Arc<str>),
}

/// Puts changes into phases.
#[derive(Default)]
struct Phases {
    last: HashMap<Token, usize>,
    /// The last phase with a change that names a row by its key, and by its id.
    by_key: Option<usize>,
    by_id: Option<usize>,
    /// No change goes before this phase.
    begin: usize,
}

impl Phases {
    /// The phase of a change.
    fn of(&mut self, write: &Write) -> usize {
        let mut tokens = Vec::new();
        let (mut by_key, mut by_id) = (false, false);
        match write {
            Write::Arm(row) => {
                tokens.push(Token::Row(row.id));
                if let Some(key) = &row.key {
                    tokens.push(Token::Key(key.clone()));
                    by_key = true;
                }
            }
            Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => {
                tokens.push(Token::Row(*id));
                by_id = true;
            }
            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => {
                tokens.push(Token::Key(key.clone()));
                by_key = true;
            }
            Write::CancelKind(_) => {
                // Any row may be of this kind.
                let all = [self.by_key, self.by_id];
                let last = self.last.values().copied().chain(all.into_iter().flatten());
                let phase = last.map(|phase| phase + 1).max().unwrap_or(self.begin);
                let phase = phase.max(self.begin);
                self.begin = phase + 1;
                return phase;
            }
            Write::Ack { of, .. } | Write::Retry { of, .. } => {
                tokens.push(Token::Row(of.id));
                by_id = true;
            }
            Write::Bury { of, next, .. } => {
                tokens.push(Token::Row(of.id));
                tokens.extend(next.map(|(_, copy)| Token::Row(copy)));
                by_id = true;
            }
            Write::Revive(id, _) | Write::Discard(id) => tokens.push(Token::Row(*id)),
        }
        let after = |phase: Option<usize>| phase.map_or(0, |phase| phase + 1);
        let mut phase = self.begin;
        for token in &tokens {
            phase = phase.max(after(self.last.get(token).copied()));
        }
        // A row that is named by its key and by its id: nobody knows before.
        if by_id {
            phase = phase.max(after(self.by_key));
            self.by_id = self.by_id.max(Some(phase));
        }
        if by_key {
            phase = phase.max(after(self.by_id));
            self.by_key = self.by_key.max(Some(phase));
        }
        for token in tokens {
            self.last.insert(token, phase);
        }
        phase
    }
}

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
    let mut outcomes: Vec<Option<Outcome>> = vec![None; writes.len()];
    for numbers in by_phase {
        make_phase(live, writes, &numbers, own, &mut outcomes).await?;
    }
    let none = |number: usize| match writes[number] {
        Write::Arm(_) => Outcome::Armed(None),
        Write::Cancel(_) => Outcome::Cancelled(None),
        Write::Move(..) => Outcome::Moved(None),
        Write::CancelKind(_) => Outcome::CancelledMany(Vec::new()),
        Write::Ack { .. } | Write::Retry { .. } | Write::Bury { .. } => {
            Outcome::Settled(false, None)
        }
        Write::Revive(..) => Outcome::Revived(None),
        Write::Discard(_) => Outcome::Discarded(false),
    };
    let outcomes = outcomes.into_iter().enumerate();
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
    // (Rows that were moved have a statement of their own.)
    if kinds.len() < 2 && !kinds.iter().any(|kind| [1, 2, 3, 5].contains(kind)) {
        return Vec::new();
    }
    partitions.into_iter().map(part).collect()
}

/// The epoch of a row that this node writes, and that nobody has handed out: it is not owed an
/// attempt, if it is this node's.
fn own_epoch(own: &BTreeMap<Partition, u64>, partition: Partition) -> i64 {
    own.get(&partition).map_or(0, |&own| epoch(own))
}

/// The changes of a phase: no two of them have a row or a key in common.
async fn make_phase(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    own: &BTreeMap<Partition, u64>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let mut of_kind: [Vec<usize>; 10] = Default::default();
    for &number in numbers {
        of_kind[kind_of(&writes[number])].push(number);
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
    ack(live, writes, &acks, outcomes).await?;
    retry(live, writes, &retries, outcomes).await?;
    bury(live, writes, &burials, outcomes).await?;
    cancel(live, writes, &cancels, outcomes).await?;
    cancel_keys(live, writes, &key_cancels, outcomes).await?;
    change_due(live, writes, &moves, own, outcomes).await?;
    change_due_of_keys(live, writes, &key_moves, own, outcomes).await?;
    arm(live, writes, &arms, own, outcomes).await?;
    for number in kinds {
        if let Write::CancelKind(kind) = &writes[number] {
            let gone = live.rows(sql::CANCEL_KIND, &[&&**kind]).await?;
            let mut gone: Vec<_> = gone.iter().map(|row| durable_id(row.get(0))).collect();
            gone.sort_unstable();
            outcomes[number] = Some(Outcome::CancelledMany(gone));
        }
    }
    dead_letters(live, writes, &dead, own, outcomes).await
}

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

async fn ack(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let mut rows = Deliveries::default();
    for &number in numbers {
        if let Write::Ack { of, .. } = &writes[number] {
            rows.push(of, number);
        }
    }
    settled(live, sql::ACK, &rows, outcomes).await
}

/// Deletes rows that were handed out.
async fn settled(
    live: &Live,
    sql: &'static str,
    rows: &Deliveries,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    if rows.ids.is_empty() {
        return Ok(());
    }
    let gone = live
        .rows(sql, &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs])
        .await?;
    for row in gone {
        if let Some(&number) = rows.at.get(&row.get(0)) {
            outcomes[number] = Some(Outcome::Settled(true, None));
        }
    }
    Ok(())
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

async fn retry(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let mut again = Again::default();
    for &number in numbers {
        match &writes[number] {
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
    settled(live, sql::ACK_SUPERSEDED, &again.rows, outcomes).await?;
    for (number, row) in again.make(live).await? {
        outcomes[number] = Some(Outcome::Settled(true, Some(row)));
    }
    Ok(())
}

async fn bury(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
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
        } = &writes[number]
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
    settled(live, sql::ACK_SUPERSEDED, &rows, outcomes).await?;
    live.rows(
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
    settled(live, sql::ACK, &gone, outcomes).await?;
    if !again.nexts.is_empty() {
        for (number, row) in again.make(live).await? {
            outcomes[number] = Some(Outcome::Settled(true, Some(row)));
        }
    }
    Ok(())
}

async fn cancel(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = HashMap::new();
    for &number in numbers {
        if let Write::Cancel(Target::Id(id)) = &writes[number] {
            at.insert(uuid(*id), number);
            parts.push(part(id.partition()));
            dues.push(millis(id.first_due()));
            ids.push(uuid(*id));
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let gone = live.rows(sql::CANCEL, &[&parts, &dues, &ids]).await?;
    let mut note = |id: Uuid| {
        if let Some(number) = at.remove(&id) {
            outcomes[number] = Some(Outcome::Cancelled(Some(durable_id(id))));
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
    let gone = live.rows(sql::CANCEL_MOVED, &[&parts, &ids]).await?;
    for row in gone {
        let id: Uuid = row.get(0);
        if let Some(&number) = at.get(&id) {
            outcomes[number] = Some(Outcome::Cancelled(Some(durable_id(id))));
        }
    }
    Ok(())
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

async fn cancel_keys(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let mut keys = KeyedWrites::default();
    for &number in numbers {
        if let Write::Cancel(Target::Key(key)) = &writes[number] {
            keys.push(key, number);
        }
    }
    if keys.keys.is_empty() {
        return Ok(());
    }
    for (number, id) in keys.delete(live).await? {
        outcomes[number] = Some(Outcome::Cancelled(Some(id)));
    }
    Ok(())
}

async fn change_due(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    own: &BTreeMap<Partition, u64>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut nexts, mut moved, mut epochs) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = HashMap::new();
    for &number in numbers {
        if let Write::Move(Target::Id(id), next) = &writes[number] {
            at.insert(uuid(*id), number);
            parts.push(part(id.partition()));
            dues.push(millis(id.first_due()));
            ids.push(uuid(*id));
            nexts.push(millis(*next));
            moved.push(*next != id.first_due());
            epochs.push(own_epoch(own, id.partition()));
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let by_first = live
        .rows(sql::MOVE, &[&parts, &dues, &ids, &nexts, &moved, &epochs])
        .await?;
    let mut left: HashMap<Uuid, usize> = at.clone();
    for row in by_first.iter().map(row_of) {
        if let Some(number) = left.remove(&uuid(row.id)) {
            outcomes[number] = Some(Outcome::Moved(Some(row)));
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let (mut parts, mut ids, mut nexts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut moved, mut epochs) = (Vec::new(), Vec::new());
    for (&id, &number) in &left {
        if let Write::Move(_, next) = &writes[number] {
            let of = durable_id(id);
            parts.push(part(of.partition()));
            ids.push(id);
            nexts.push(millis(*next));
            moved.push(*next != of.first_due());
            epochs.push(own_epoch(own, of.partition()));
        }
    }
    let rest = live
        .rows(sql::MOVE_MOVED, &[&parts, &ids, &nexts, &moved, &epochs])
        .await?;
    for row in rest.iter().map(row_of) {
        if let Some(&number) = left.get(&uuid(row.id)) {
            outcomes[number] = Some(Outcome::Moved(Some(row)));
        }
    }
    Ok(())
}

async fn change_due_of_keys(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    own: &BTreeMap<Partition, u64>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let (mut keys, mut nexts, mut epochs) = (KeyedWrites::default(), Vec::new(), Vec::new());
    for &number in numbers {
        if let Write::Move(Target::Key(key), next) = &writes[number] {
            keys.push(key, number);
            nexts.push(millis(*next));
            epochs.push(own_epoch(own, partition_of_key(key)));
        }
    }
    if nexts.is_empty() {
        return Ok(());
    }
    let moved = live
        .rows(sql::MOVE_KEY, &[&keys.parts, &keys.keys, &nexts, &epochs])
        .await?;
    for row in moved.iter().map(row_of) {
        let number = row.key.as_ref().and_then(|key| keys.at.get(&**key));
        if let Some(&number) = number {
            outcomes[number] = Some(Outcome::Moved(Some(row)));
        }
    }
    Ok(())
}

async fn arm(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    own: &BTreeMap<Partition, u64>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let mut keys = KeyedWrites::default();
    let (mut parts, mut dues, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut row_keys, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
    let (mut attempts, mut calendars, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    let mut epochs = Vec::new();
    for &number in numbers {
        let Write::Arm(row) = &writes[number] else {
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
        epochs.push(own_epoch(own, row.id.partition()));
    }
    if ids.is_empty() {
        return Ok(());
    }
    if !keys.keys.is_empty() {
        for (number, id) in keys.delete(live).await? {
            outcomes[number] = Some(Outcome::Armed(Some(id)));
        }
        live.rows(sql::SUPERSEDE, &[&keys.parts, &keys.keys])
            .await?;
    }
    live.rows(
        sql::ARM,
        &[
            &parts, &dues, &ids, &kinds, &row_keys, &payloads, &attempts, &calendars, &moved,
            &epochs,
        ],
    )
    .await?;
    Ok(())
}

async fn dead_letters(
    live: &Live,
    writes: &[Write],
    numbers: &[usize],
    own: &BTreeMap<Partition, u64>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let (mut parts, mut dues, mut ids, mut moved) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut all, mut at, mut epochs) = (Vec::new(), HashMap::new(), Vec::new());
    for &number in numbers {
        let id = match &writes[number] {
            Write::Revive(id, due) => {
                parts.push(part(id.partition()));
                dues.push(millis(*due));
                ids.push(uuid(*id));
                moved.push(*due != id.first_due());
                epochs.push(own_epoch(own, id.partition()));
                *id
            }
            Write::Discard(id) => *id,
            _ => continue,
        };
        all.push(uuid(id));
        at.insert(uuid(id), number);
    }
    if all.is_empty() {
        return Ok(());
    }
    if !ids.is_empty() {
        let revived = live
            .rows(sql::REVIVE, &[&parts, &dues, &ids, &moved, &epochs])
            .await?;
        for row in revived.iter().map(row_of) {
            if let Some(&number) = at.get(&uuid(row.id)) {
                outcomes[number] = Some(Outcome::Revived(Some(row)));
            }
        }
    }
    for row in live.rows(sql::DISCARD, &[&all]).await? {
        if let Some(&number) = at.get(&row.get(0))
            && matches!(writes[number], Write::Discard(_))
        {
            outcomes[number] = Some(Outcome::Discarded(true));
        }
    }
    Ok(())
}
