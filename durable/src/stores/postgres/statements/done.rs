//! Done: records of runs that are done. They are stored beside the acknowledgement of their timer,
//! listed, removed and counted.

use super::commit::Making;
use super::rows::{durable_id, millis, part, time, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::done::{DoneEnding, DoneRange, DoneTimer};
use crate::store::write::{Outcome, Write};
use std::time::Duration;
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    Keep::SQL,
    LookDone::SQL,
    LookDoneBack::SQL,
    ForgetDone::SQL,
    CountDone::SQL,
    EstimateDone::SQL,
];

statement! {
    /// Puts records in. (One that somebody has put there stays.)
    Keep<'a> {
        part: &'a [i16],
        ended: &'a [i64],
        id: &'a [Uuid],
        due: &'a [i64],
        began: &'a [Option<i64>],
        took_us: &'a [i64],
        kind: &'a [&'a str],
        key: &'a [Option<&'a str>],
        attempts: &'a [i64],
        crashes: &'a [i64],
        node: &'a [&'a str],
        ending: &'a [i16],
    }
    -> () = |_| ();
    "
INSERT INTO {s}.done (part, ended, id, due, began, took_us, kind, key, attempts, crashes, node,
    ending)
SELECT u.part, u.ended, u.id, u.due, u.began, u.took_us, u.kind, u.key, u.attempts, u.crashes,
    u.node, u.ending
FROM unnest(:part::smallint[], :ended::bigint[], :id::uuid[], :due::bigint[], :began::bigint[],
        :took_us::bigint[], :kind::text[], :key::text[], :attempts::bigint[], :crashes::bigint[],
        :node::text[], :ending::smallint[])
    u (part, ended, id, due, began, took_us, kind, key, attempts, crashes, node, ending)
ON CONFLICT (part, ended, id, due) DO NOTHING"
}

/// Records of each partition between two places. The two statements differ in their order alone.
/// (`tests.rs` counts statements by their braces, and so the two of this macro.)
macro_rules! look_statement {
    { $(#[$meta:meta])* $name:ident, $order:literal } => {
        statement!(
            $(#[$meta])*
            $name<'a> {
                part: &'a [i16],
                ended: i64,
                id: Uuid,
                due: i64,
                before: i64,
                before_id: Uuid,
                before_due: i64,
                limit: i64,
            }
            -> DoneTimer = done_of;
            concat!("
SELECT d.ended, d.id, d.due, d.began, d.took_us, d.kind, d.key, d.attempts, d.crashes, d.node,
    d.ending
FROM unnest(:part::smallint[]) p (part) CROSS JOIN LATERAL (
    SELECT * FROM {s}.done r WHERE r.part = p.part AND (r.ended, r.id, r.due) > (:ended, :id, :due)
    AND (r.ended, r.id, r.due) < (:before, :before_id, :before_due)
    ORDER BY r.ended", $order, ", r.id", $order, ", r.due", $order, " LIMIT :limit) d
ORDER BY d.ended", $order, ", d.id", $order, ", d.due", $order)
        );

        impl<'a> $name<'a> {
            /// Up to `limit` records of each partition.
            pub(crate) fn of(part: &'a [i16], range: &DoneRange, limit: i64) -> Self {
                let DoneRange { above, below, .. } = range;
                Self {
                    part,
                    ended: millis(above.ended),
                    id: uuid(above.id),
                    due: millis(above.due),
                    before: millis(below.ended),
                    before_id: uuid(below.id),
                    before_due: millis(below.due),
                    limit,
                }
            }
        }
    };
}

look_statement! {
    /// The first records of each partition, in order.
    LookDone, ""
}

look_statement! {
    /// The last records of each partition, the last one first.
    LookDoneBack, " DESC"
}

statement! {
    /// DoneForget: removes records that have ended before a time, in each partition the oldest
    /// first. What a transaction of somebody's has locked is left to another time.
    ForgetDone<'a> { part: &'a [i16], before: i64, limit: i64 }
    -> () = |_| ();
    "
DELETE FROM {s}.done d USING (
    SELECT o.part, o.ended, o.id, o.due
    FROM unnest(:part::smallint[]) p (part) CROSS JOIN LATERAL (
        SELECT r.part, r.ended, r.id, r.due FROM {s}.done r
        WHERE r.part = p.part AND r.ended < :before
        ORDER BY r.ended, r.id, r.due LIMIT :limit FOR UPDATE SKIP LOCKED) o
    LIMIT :limit) g
WHERE d.part = g.part AND d.ended = g.ended AND d.id = g.id AND d.due = g.due RETURNING d.part"
}

statement! {
    /// Counts up to a number of records.
    CountDone { limit: i64 }
    -> u64 = |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
    "SELECT count(*) FROM (SELECT 1 FROM {s}.done LIMIT :limit) d"
}

statement! {
    /// How many records the last `ANALYZE` or `VACUUM` has found. -1: there was none.
    EstimateDone {}
    -> Option<u64> = |row| u64::try_from(row.get::<_, i64>(0)).ok();
    "
SELECT COALESCE((SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('{s}.done')), -1)"
}

/// A record from its columns.
fn done_of(columns: &tokio_postgres::Row) -> DoneTimer {
    let [ended, due] = [0, 2].map(|at| time(columns.get(at)));
    let id = durable_id(columns.get(1));
    let kind: &str = columns.get(5);
    let mut done = DoneTimer::new(id, due, kind.into(), ended);
    done.began = columns.get::<_, Option<i64>>(3).map(time);
    let took: Option<i64> = columns.get(4);
    let took = took.and_then(|took| u64::try_from(took).ok());
    done.took = Duration::from_micros(took.unwrap_or_default());
    done.key = columns.get::<_, Option<&str>>(6).map(Into::into);
    let [attempts, crashes] = [7, 8].map(|at| columns.get::<_, i64>(at));
    done.attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    done.crashes = u32::try_from(crashes).unwrap_or(u32::MAX);
    done.node = columns.get::<_, &str>(9).into();
    let ending = u64::try_from(columns.get::<_, i16>(10));
    done.ending = ending.map_or(DoneEnding::Other, DoneEnding::of_number);
    done
}

/// Columns of records.
#[derive(Default)]
struct Records<'a> {
    parts: Vec<i16>,
    endeds: Vec<i64>,
    ids: Vec<Uuid>,
    dues: Vec<i64>,
    begans: Vec<Option<i64>>,
    tooks: Vec<i64>,
    kinds: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    attempts: Vec<i64>,
    crashes: Vec<i64>,
    nodes: Vec<&'a str>,
    endings: Vec<i16>,
}

impl<'a> Records<'a> {
    fn push(&mut self, done: &'a DoneTimer) {
        self.parts.push(part(done.id.partition()));
        self.endeds.push(millis(done.ended));
        self.ids.push(uuid(done.id));
        self.dues.push(millis(done.due));
        self.begans.push(done.began.map(millis));
        let took = i64::try_from(done.took.as_micros());
        self.tooks.push(took.unwrap_or(i64::MAX));
        self.kinds.push(&done.kind);
        self.keys.push(done.key.as_deref());
        self.attempts.push(done.attempts.into());
        self.crashes.push(done.crashes.into());
        self.nodes.push(&done.node);
        self.endings.push(done.ending.number().into());
    }

    fn keep(&self) -> Keep<'_> {
        Keep {
            part: &self.parts,
            ended: &self.endeds,
            id: &self.ids,
            due: &self.dues,
            began: &self.begans,
            took_us: &self.tooks,
            kind: &self.kinds,
            key: &self.keys,
            attempts: &self.attempts,
            crashes: &self.crashes,
            node: &self.nodes,
            ending: &self.endings,
        }
    }
}

impl Making<'_> {
    /// Keeps records of those of these changes that have acknowledged a timer, in the transaction
    /// in which they have. The lease of each is locked by now.
    pub(super) async fn keep_done(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut records = Records::default();
        for &number in numbers {
            if let Write::AckKept { kept, .. } = &self.writes[number]
                && let Some(Outcome::Settled(true, _)) = self.outcomes[number]
            {
                records.push(kept);
            }
        }
        if !records.ids.is_empty() {
            self.live.ask(&records.keep()).await?;
        }
        Ok(())
    }
}
