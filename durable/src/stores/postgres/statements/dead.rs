//! Dead: dead letters become timers again, are discarded, and are listed.

use super::commit::Making;
use super::rows::{ROW_COLUMNS, cause_of, millis, part, row_of, time, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{DeadLetter, DurableId, Row, StoreTime};
use crate::store::write::{Outcome, Write};
use std::collections::HashMap;
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[FindDead::SQL, Revive::SQL, Discard::SQL, Dead::SQL];

statement! {
    /// Of several nodes one finds a dead letter that goes.
    FindDead<'a> { id: &'a [Uuid] }
    -> Uuid = |row| row.get(0);
    "
SELECT id FROM {s}.dead WHERE id = ANY(:id::uuid[]) ORDER BY id FOR UPDATE"
}

statement! {
    /// Makes timers of dead letters again. Returns them.
    Revive<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        moved: &'a [bool],
        epoch: &'a [i64],
    }
    -> Row = row_of;
    "
INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes, calendar, superseded,
    moved, epoch, expires, limit_ms, trace)
SELECT u.part, u.due, d.id, d.kind, NULL, d.payload, 0, 0, d.calendar, false, u.moved, u.epoch,
    d.expires, d.limit_ms, d.trace
FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :moved::boolean[], :epoch::bigint[])
        u (part, due, id, moved, epoch)
    JOIN {s}.dead d ON d.id = u.id
RETURNING due, id, kind, key, payload, attempts, calendar, superseded, crashes, held, held_since,
    expires, limit_ms, trace"
}

statement! {
    /// Deletes dead letters.
    Discard<'a> { id: &'a [Uuid] }
    -> () = |_| ();
    "DELETE FROM {s}.dead WHERE id = ANY(:id::uuid[]) RETURNING id"
}

statement! {
    /// The dead letters after an id, in order.
    Dead { after: Uuid, limit: i64 }
    -> DeadLetter = letter_of;
    "
SELECT due, id, kind, key, payload, attempts, calendar, false, crashes, 0::smallint,
    NULL::bigint, expires, limit_ms, trace, cause, why, since
    FROM {s}.dead
    WHERE id > :after ORDER BY id LIMIT :limit"
}

/// A dead letter from its columns: those of a row, cause, why, since.
fn letter_of(columns: &tokio_postgres::Row) -> DeadLetter {
    let [cause, why, since] = [ROW_COLUMNS, ROW_COLUMNS + 1, ROW_COLUMNS + 2];
    let cause = cause_of(columns.get(cause), columns.get(why));
    DeadLetter::new(row_of(columns), cause, time(columns.get(since)))
}

/// Columns of dead letters that become timers again.
#[derive(Default)]
struct Revived {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    moved: Vec<bool>,
    epochs: Vec<i64>,
}

impl Revived {
    fn push(&mut self, id: DurableId, due: StoreTime, epoch: i64) {
        self.parts.push(part(id.partition()));
        self.dues.push(millis(due));
        self.ids.push(uuid(id));
        self.moved.push(due != id.first_due());
        self.epochs.push(epoch);
    }

    fn revive(&self) -> Revive<'_> {
        Revive {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            moved: &self.moved,
            epoch: &self.epochs,
        }
    }
}

impl Making<'_> {
    /// Makes the changes of dead letters.
    pub(super) async fn dead_letters(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| write.names_dead().is_some());
        let mut at = HashMap::new();
        for number in own {
            if let Write::Revive(id, _) | Write::Discard(id) = &self.writes[number] {
                at.insert(uuid(*id), number);
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        let all: Vec<Uuid> = at.keys().copied().collect();
        let found = self.live.ask(&FindDead { id: &all }).await?;
        let mut revived = Revived::default();
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
            for row in self.live.ask(&revived.revive()).await? {
                if let Some(&number) = at.get(&uuid(row.id)) {
                    self.outcomes[number] = Some(Outcome::Revived(Some(row)));
                }
            }
        }
        if !found.is_empty() {
            self.live.ask(&Discard { id: &found }).await?;
        }
        Ok(())
    }
}
