//! What is demanded of each store of durable timers, wherever it keeps them.

mod done;
mod extras;
mod lists;
mod rows;
mod rules;
mod settlements;

use done::{a_refused_answer_leaves_no_record, records_are_forgotten, records_come_back};
pub use extras::with_parts;
use extras::{causes, holds, holds_again, parts_come_back};
use lists::lists_are_filtered;
use rows::{
    cancels, cancels_by_key, cancels_kinds, cancels_kinds_in_slices, edges, gate_is_asked,
    gate_keeps, ids_are_new, ids_have_parts, keys_are_taken, moves, recurring_is_struck,
    rows_come_back, rows_survive, slices, slices_are_bounded_in_bytes, superseded, superseded_ends,
};
use rules::{rules_are_bounded, rules_are_news, rules_have_parts, rules_stay};
use settlements::{
    acks, acks_recurring, begins, buries, buries_recurring, commits_in_order, dead_letters,
    releases, reopens, retries, stale_settlements, suspects, suspects_stay,
};
use std::collections::BTreeSet;
use wheelwork_durable::contract::{
    Gate, Outcome, Position, Settled, SliceLimit, Store, Target, Write,
};
use wheelwork_durable::{Cause, DeadLetter, DurableId, Row, StoreTime};

/// Where a store lies. It can be opened again and again.
pub trait Place {
    /// Opens the store. What was opened before has been dropped: after a `release`, or without one,
    /// as in a crash.
    fn open(&self) -> Box<dyn Store>;
}

/// Has some rows handed out, and lets all others go. Notes what it is asked for.
#[derive(Default)]
pub struct HandedOut {
    pub rows: BTreeSet<DurableId>,
    pub asked: BTreeSet<DurableId>,
}

impl Gate for HandedOut {
    fn let_go(&mut self, id: DurableId) -> bool {
        self.asked.insert(id);
        !self.rows.contains(&id)
    }
}

pub fn at(millis: u64) -> StoreTime {
    StoreTime::from_millis(millis)
}

/// A row that differs from another one.
pub fn with(row: &Row, change: impl FnOnce(&mut Row)) -> Row {
    let mut row = row.clone();
    change(&mut row);
    row
}

/// An open store with its lease.
pub struct Opened {
    pub store: Box<dyn Store>,
    pub epoch: u64,
    pub gate: HandedOut,
}

impl Opened {
    pub fn new(place: &dyn Place) -> Self {
        let mut store = place.open();
        let leases = store.acquire().unwrap();
        assert_eq!(leases.len(), 1, "a store for one process has one partition");
        assert_eq!(leases[0].partition, 0);
        Self {
            store,
            epoch: leases[0].epoch,
            gate: HandedOut::default(),
        }
    }

    /// Ends as a crash does, and opens the store again.
    fn crash(self, place: &dyn Place) -> Self {
        drop(self);
        Self::new(place)
    }

    /// Gives the lease back, and opens the store again.
    fn restart(mut self, place: &dyn Place) -> Self {
        self.store.release().unwrap();
        self.crash(place)
    }

    /// A row that is not in the store yet.
    fn row(&mut self, due_ms: u64) -> Row {
        let id = self.store.new_id(None, at(due_ms));
        Row::new(id, at(due_ms), "kind".into(), (*b"payload").into())
    }

    fn keyed(&mut self, due_ms: u64, key: &str) -> Row {
        let mut row = self.row(due_ms);
        row.id = self.store.new_id(Some(key), at(due_ms));
        row.key = Some(key.into());
        row
    }

    fn write(&mut self, writes: impl IntoIterator<Item = Write>) -> Vec<Outcome> {
        let writes: Vec<_> = writes.into_iter().collect();
        let count = writes.len();
        let outcomes = self.store.commit(writes, &mut self.gate).unwrap();
        assert_eq!(outcomes.len(), count, "each write has its outcome");
        outcomes
    }

    fn one(&mut self, write: Write) -> Outcome {
        self.write([write]).remove(0)
    }

    fn arm(&mut self, row: &Row) {
        assert_eq!(self.one(Write::Arm(row.clone())), Outcome::Armed(None));
    }

    /// Rows with these deadlines, in the order of their positions.
    fn arm_at(&mut self, dues_ms: impl IntoIterator<Item = u64>) -> Vec<Row> {
        let mut rows: Vec<_> = dues_ms.into_iter().map(|due_ms| self.row(due_ms)).collect();
        self.write(rows.iter().cloned().map(Write::Arm));
        rows.sort_by_key(Row::position);
        rows
    }

    fn load(&mut self, after: Position, until: StoreTime, limit: usize) -> Vec<Row> {
        let limit = SliceLimit::rows(limit);
        self.store.load(0, after, until, limit).unwrap()
    }

    /// All rows, in slices of two.
    fn all(&mut self) -> Vec<Row> {
        let (mut rows, mut after) = (Vec::new(), Position::MIN);
        loop {
            let slice = self.load(after, StoreTime::MAX, 2);
            assert!(slice.len() <= 2);
            let is_last = slice.len() < 2;
            after = slice.last().map_or(after, Row::position);
            rows.extend(slice);
            if is_last {
                return rows;
            }
        }
    }

    /// Hands rows out, as the writer does: the watermark first.
    fn hand_out(&mut self, rows: &[&Row]) {
        let upto = rows.iter().map(|row| row.due).max().unwrap();
        self.store.hand_out(upto).unwrap();
        self.gate.rows.extend(rows.iter().map(|row| row.id));
    }

    fn settled(&self, row: &Row) -> Settled {
        Settled {
            id: row.id,
            due: row.due,
            epoch: self.epoch,
        }
    }

    fn ack(&mut self, row: &Row, next: Option<StoreTime>) -> Outcome {
        let of = self.settled(row);
        let outcome = self.one(Write::Ack { of, next });
        self.gate.rows.remove(&row.id);
        outcome
    }

    fn retry(&mut self, row: &Row, at: StoreTime, attempts: u32) -> Outcome {
        let of = self.settled(row);
        let outcome = self.one(Write::Retry {
            of,
            at,
            attempts,
            crashes: 1,
        });
        self.gate.rows.remove(&row.id);
        outcome
    }

    fn bury(&mut self, row: &Row, next: Option<(StoreTime, DurableId)>) -> Outcome {
        let write = bury(self.settled(row), next);
        let outcome = self.one(write);
        self.gate.rows.remove(&row.id);
        outcome
    }

    fn get(&mut self, id: DurableId) -> Option<Row> {
        self.store.get(&Target::Id(id)).unwrap()
    }

    fn get_key(&mut self, key: &str) -> Option<Row> {
        self.store.get(&Target::Key(key.into())).unwrap()
    }

    fn dead(&mut self) -> Vec<DeadLetter> {
        let limit = SliceLimit::rows(usize::MAX);
        self.store.dead(None, limit).unwrap()
    }

    fn size(&mut self) -> (u64, u64) {
        let size = self.store.size().unwrap();
        (size.rows, size.dead)
    }

    fn cancel(&mut self, id: DurableId) -> Option<DurableId> {
        match self.one(Write::Cancel(Target::Id(id))) {
            Outcome::Cancelled(id) => id,
            other => panic!("{other:?}"),
        }
    }
}

fn bury(of: Settled, next: Option<(StoreTime, DurableId)>) -> Write {
    Write::Bury {
        of,
        cause: Cause::Failed("no answer".into()),
        since: at(777),
        attempts: 25,
        crashes: 3,
        next,
    }
}

/// A demand, and how it is tested on an empty store.
pub type Demand = (&'static str, fn(&dyn Place));

pub const DEMANDS: [Demand; 43] = [
    ("rows come back as they were put in", rows_come_back),
    ("rows survive a crash", rows_survive),
    ("load returns rows in order, in slices", slices),
    (
        "load begins after a position, and ends with a deadline",
        edges,
    ),
    (
        "a look goes on inside a deadline, by kind and key",
        lists_are_filtered,
    ),
    ("ids are new after a crash and a restart", ids_are_new),
    ("the first deadline of a row is in its id", ids_have_parts),
    ("cancel deletes what was not handed out", cancels),
    ("cancel by key", cancels_by_key),
    ("a row that was handed out is not cancelled", gate_keeps),
    (
        "a recurring row is struck while it is handled",
        recurring_is_struck,
    ),
    ("the gate is asked for rows that are there", gate_is_asked),
    ("move gives a row another deadline", moves),
    ("a row takes the key of another", keys_are_taken),
    ("a row is superseded while it is handled", superseded),
    ("a superseded row ends when it is settled", superseded_ends),
    ("cancel of a kind", cancels_kinds),
    ("cancel of a kind, in slices", cancels_kinds_in_slices),
    ("slices are bounded in bytes", slices_are_bounded_in_bytes),
    ("ack deletes the row", acks),
    ("ack moves a recurring row", acks_recurring),
    ("retry moves the row", retries),
    ("bury makes a dead letter", buries),
    ("bury copies a recurring row", buries_recurring),
    ("dead letters are revived, or discarded", dead_letters),
    (
        "a settlement of another delivery does nothing",
        stale_settlements,
    ),
    ("the writes of a commit see each other", commits_in_order),
    ("what may have been handed out is suspect", suspects),
    ("it is so until it is settled", suspects_stay),
    ("a suspect begins", begins),
    ("nothing has, after a release", releases),
    ("what few rows have comes back", parts_come_back),
    ("a row is held until it is moved", holds),
    ("a held row is held again, or buried", holds_again),
    ("a dead letter says why it is one", causes),
    ("a store that is opened again goes on", reopens),
    ("a rule stays until it is changed", rules_stay),
    ("each part of a rule is changed by itself", rules_have_parts),
    ("rules are bounded", rules_are_bounded),
    ("a store says that rules have changed", rules_are_news),
    ("a run that is done leaves a record", records_come_back),
    (
        "an answer that is refused leaves none",
        a_refused_answer_leaves_no_record,
    ),
    (
        "records are removed, the oldest first",
        records_are_forgotten,
    ),
];

/// Holds stores to all demands, each in a new place.
pub fn hold_to_all_demands(place: &dyn Fn() -> Box<dyn Place>) {
    for (name, demand) in DEMANDS {
        println!("{name}");
        demand(&*place());
    }
}
