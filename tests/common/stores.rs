//! What is demanded of each store of durable timers, wherever it keeps them.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use wheelwork::durable::{
    Cause, DeadLetter, DurableId, Gate, Outcome, Position, Row, Settled, Store, StoreTime, Target,
    Write,
};

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
        let outcome = self.one(Write::Retry { of, at, attempts });
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
        self.store.dead(None, usize::MAX).unwrap()
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
        next,
    }
}

/// A demand, and how it is tested on an empty store.
pub type Demand = (&'static str, fn(&dyn Place));

pub const DEMANDS: [Demand; 26] = [
    ("rows come back as they were put in", rows_come_back),
    ("rows survive a crash", rows_survive),
    ("load returns rows in order, in slices", slices),
    (
        "load begins after a position, and ends with a deadline",
        edges,
    ),
    ("ids are new after a crash and a restart", ids_are_new),
    ("the first deadline of a row is in its id", ids_have_parts),
    ("cancel deletes what was not handed out", cancels),
    ("cancel by key", cancels_by_key),
    ("a row that was handed out is not cancelled", gate_keeps),
    ("the gate is asked for rows that are there", gate_is_asked),
    ("move gives a row another deadline", moves),
    ("a row takes the key of another", keys_are_taken),
    ("a row is superseded while it is handled", superseded),
    ("a superseded row ends when it is settled", superseded_ends),
    ("cancel of a kind", cancels_kinds),
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
    (
        "what may have been handed out has one more attempt",
        raises_attempts,
    ),
    ("that is so when it was loaded late", raises_late),
    ("nothing has, after a release", releases),
];

/// Holds stores to all demands, each in a new place.
pub fn hold_to_all_demands(place: &dyn Fn() -> Box<dyn Place>) {
    for (name, demand) in DEMANDS {
        println!("{name}");
        demand(&*place());
    }
}

fn rows_come_back(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(5_000, "key");
    row.attempts = 3;
    row.calendar = Some("0 4 * * * Europe/Berlin".into());
    row.payload = Arc::from(&[0_u8, 255, 7][..]);
    let mut plain = open.row(6_000);
    (plain.kind, plain.payload) = ("".into(), Arc::from(&[][..]));
    let mut large = open.row(7_000);
    large.payload = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    for row in [&row, &plain, &large] {
        assert_eq!(open.get(row.id), None);
        open.arm(row);
        assert_eq!(open.get(row.id).as_ref(), Some(row));
    }
    assert_eq!(open.get_key("key").as_ref(), Some(&row));
    assert_eq!(open.get_key("other"), None);
    assert_eq!(open.size(), (3, 0));
    assert_eq!(open.all(), [row, plain, large]);
    assert_eq!(open.dead(), []);
}

fn rows_survive(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([3, 1, 2, 2, 9_000_000]);
    let row = open.keyed(4, "key");
    open.arm(&row);
    open.cancel(rows[1].id).unwrap();
    let mut open = open.crash(place);
    let left = [&rows[0], &rows[2], &rows[3], &row, &rows[4]].map(Row::clone);
    assert_eq!(open.all(), left);
    assert_eq!(open.get_key("key"), Some(row));
    assert_eq!(open.size(), (5, 0));
    // What is put off is not lost either.
    while open.store.upkeep().unwrap() {}
    assert_eq!(open.all(), left);
    let mut open = open.restart(place);
    assert_eq!(open.all(), left);
}

fn slices(place: &dyn Place) {
    let mut open = Opened::new(place);
    // Two thirds are due at one of three times.
    let dues = (0..60).map(|row| [100, 200, 300, 50 + row * 7 % 400][row as usize % 4]);
    let rows = open.arm_at(dues);
    for slice in [1, 2, 3, 7, 59, 60, 61] {
        let (mut found, mut after) = (Vec::new(), Position::MIN);
        loop {
            let rows = open.load(after, StoreTime::MAX, slice);
            found.extend(rows.iter().cloned());
            let Some(last) = rows.last().filter(|_| rows.len() == slice) else {
                break;
            };
            after = last.position();
        }
        assert_eq!(found, rows, "slices of {slice}");
    }
    assert_eq!(open.load(Position::MIN, StoreTime::MAX, 0), []);
}

fn edges(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([StoreTime::MIN.as_millis(), 10, 10, 20, u64::MAX]);
    let mut load = |after, until| open.load(after, until, 10);
    assert_eq!(load(Position::MIN, StoreTime::MAX), rows);
    assert_eq!(load(Position::MIN, StoreTime::MIN), rows[..1]);
    assert_eq!(load(Position::MIN, at(9)), rows[..1]);
    assert_eq!(load(Position::MIN, at(10)), rows[..3]);
    assert_eq!(load(rows[1].position(), at(10)), rows[2..3]);
    assert_eq!(load(Position::end_of(at(9)), at(19)), rows[1..3]);
    assert_eq!(load(Position::end_of(at(10)), StoreTime::MAX), rows[3..]);
    assert_eq!(load(Position::end_of(at(10)), at(10)), []);
    assert_eq!(load(Position::end_of(at(10)), at(5)), []);
    assert_eq!(load(Position::MAX, StoreTime::MAX), []);
}

fn ids_are_new(place: &dyn Place) {
    let mut ids = BTreeSet::new();
    let mut epochs = BTreeSet::new();
    let mut open = Opened::new(place);
    for round in 0..12 {
        assert!(epochs.insert(open.epoch), "each lease has a new epoch");
        assert_eq!(epochs.last(), Some(&open.epoch), "epochs rise");
        let rows = open.arm_at([1_000; 5]);
        for row in &rows {
            assert!(ids.insert(row.id), "{:?} twice", row.id);
        }
        // Nor is an id given again of a row that is gone.
        for row in rows.iter().skip(round % 3) {
            open.cancel(row.id).unwrap();
        }
        open = if round % 2 == 0 {
            open.crash(place)
        } else {
            open.restart(place)
        };
    }
}

fn ids_have_parts(place: &dyn Place) {
    let mut open = Opened::new(place);
    let first = open.row(123);
    let second = open.keyed(123, "key");
    for row in [&first, &second] {
        assert_eq!((row.id.partition(), row.id.first_due()), (0, at(123)));
    }
    assert!(first.id < second.id, "rows of one deadline stay in order");
}

fn cancels(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    assert_eq!(open.cancel(rows[1].id), Some(rows[1].id));
    assert_eq!(open.cancel(rows[1].id), None);
    assert_eq!(open.get(rows[1].id), None);
    assert_eq!(open.all(), [rows[0].clone(), rows[2].clone()]);
    assert_eq!(open.cancel(DurableId::from_bits(12_345)), None);
    assert_eq!(open.size(), (2, 0));
}

fn cancels_by_key(place: &dyn Place) {
    let mut open = Opened::new(place);
    let row = open.keyed(10, "key");
    open.arm(&row);
    let by_key = |key: &str| Write::Cancel(Target::Key(key.into()));
    assert_eq!(open.one(by_key("other")), Outcome::Cancelled(None));
    assert_eq!(open.one(by_key("key")), Outcome::Cancelled(Some(row.id)));
    assert_eq!(open.one(by_key("key")), Outcome::Cancelled(None));
    let again = open.keyed(20, "key");
    open.arm(&again);
    assert_eq!(open.all(), [again]);
}

fn gate_keeps(place: &dyn Place) {
    let mut open = Opened::new(place);
    let row = open.keyed(10, "key");
    open.arm(&row);
    open.hand_out(&[&row]);
    let (id, key) = (Target::Id(row.id), Target::Key("key".into()));
    for target in [id, key] {
        let cancelled = open.one(Write::Cancel(target.clone()));
        assert_eq!(cancelled, Outcome::Cancelled(None));
        let moved = open.one(Write::Move(target, at(20)));
        assert_eq!(moved, Outcome::Moved(None));
    }
    assert_eq!(
        open.one(Write::CancelKind("kind".into())),
        Outcome::CancelledMany(Vec::new())
    );
    assert_eq!(open.all(), slice::from_ref(&row));
    assert_eq!(open.ack(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

fn gate_is_asked(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    let keyed = open.keyed(40, "key");
    open.arm(&keyed);
    assert!(open.gate.asked.is_empty(), "nothing was ended");
    let asked = |open: &mut Opened, write| {
        open.one(write);
        std::mem::take(&mut open.gate.asked)
            .into_iter()
            .collect::<Vec<_>>()
    };
    let by_id = |row: &Row| Target::Id(row.id);
    assert_eq!(
        asked(&mut open, Write::Cancel(by_id(&rows[0]))),
        [rows[0].id]
    );
    assert_eq!(asked(&mut open, Write::Cancel(by_id(&rows[0]))), []);
    let later = Write::Move(by_id(&rows[1]), at(25));
    assert_eq!(asked(&mut open, later), [rows[1].id]);
    let replacement = open.keyed(50, "key");
    assert_eq!(
        asked(&mut open, Write::Arm(replacement.clone())),
        [keyed.id]
    );
    let mut left = [rows[1].id, rows[2].id, replacement.id];
    left.sort_unstable();
    assert_eq!(asked(&mut open, Write::CancelKind("kind".into())), left);
    assert_eq!(asked(&mut open, Write::CancelKind("kind".into())), []);
}

fn moves(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(1_000, "key");
    row.attempts = 2;
    open.arm(&row);
    let others = open.arm_at([500, 1_500]);
    for (target, due_ms) in [
        (Target::Id(row.id), 2_000),
        (Target::Key("key".into()), 100),
        (Target::Id(row.id), 1_500),
        (Target::Id(row.id), 1_500),
    ] {
        row.due = at(due_ms);
        let moved = open.one(Write::Move(target, row.due));
        assert_eq!(moved, Outcome::Moved(Some(row.clone())));
        assert_eq!(open.get(row.id), Some(row.clone()));
        let mut all = [&others[..], &[row.clone()]].concat();
        all.sort_by_key(Row::position);
        assert_eq!(open.all(), all);
    }
    let nobody = Write::Move(Target::Key("other".into()), at(1));
    assert_eq!(open.one(nobody), Outcome::Moved(None));
    let mut open = open.crash(place);
    assert_eq!(open.get_key("key"), Some(row));
    assert_eq!(open.size(), (3, 0));
}

fn keys_are_taken(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (first, other) = (open.keyed(10, "key"), open.keyed(10, "other"));
    open.arm(&first);
    open.arm(&other);
    let second = open.keyed(5, "key");
    assert_eq!(
        open.one(Write::Arm(second.clone())),
        Outcome::Armed(Some(first.id))
    );
    assert_eq!(open.get(first.id), None);
    assert_eq!(open.get_key("key"), Some(second.clone()));
    assert_eq!(open.all(), [second.clone(), other]);
    assert_eq!(open.cancel(second.id), Some(second.id));
    assert_eq!(open.get_key("key"), None);
}

/// A row that was handed out, and the one that took its key then.
fn supersede(open: &mut Opened) -> (Row, Row) {
    let mut first = open.keyed(10, "key");
    first.calendar = Some("* * * * *".into());
    open.arm(&first);
    open.hand_out(&[&first]);
    let second = open.keyed(20, "key");
    assert_eq!(open.one(Write::Arm(second.clone())), Outcome::Armed(None));
    first.key = None;
    first.superseded = true;
    (first, second)
}

fn superseded(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (first, second) = supersede(&mut open);
    assert_eq!(open.get_key("key"), Some(second.clone()));
    assert_eq!(open.get(first.id), Some(first.clone()));
    assert_eq!(open.size(), (2, 0));
    assert_eq!(open.cancel(first.id), None);
    // It was handed out, whatever the gate says.
    let mut all_may_go = HandedOut::default();
    let write = vec![Write::Move(Target::Id(first.id), at(9))];
    let moved = open.store.commit(write, &mut all_may_go).unwrap();
    assert_eq!(moved, [Outcome::Moved(None)]);
    assert_eq!(
        open.one(Write::CancelKind("kind".into())),
        Outcome::CancelledMany(vec![second.id])
    );
    assert_eq!(open.get_key("key"), None);
    assert_eq!(open.size(), (1, 0));
    // Nobody is given it again.
    let mut open = open.crash(place);
    assert_eq!(open.all(), []);
    assert_eq!(open.size(), (0, 0));
}

fn superseded_ends(place: &dyn Place) {
    let mut open = Opened::new(place);
    for end in 0..5 {
        let (first, second) = supersede(&mut open);
        let copy = open.row(50).id;
        let outcome = match end {
            0 => open.ack(&first, None),
            1 => open.ack(&first, Some(at(50))),
            2 => open.retry(&first, at(50), 1),
            3 => open.bury(&first, None),
            _ => open.bury(&first, Some((at(50), copy))),
        };
        assert_eq!(outcome, Outcome::Settled(true, None), "end {end}");
        assert_eq!(open.all(), slice::from_ref(&second));
        assert_eq!(open.dead(), []);
        assert_eq!(open.ack(&first, None), Outcome::Settled(false, None));
        assert_eq!(open.get_key("key"), Some(second.clone()));
        assert_eq!(open.cancel(second.id), Some(second.id));
    }
}

fn cancels_kinds(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..8).map(|due_ms| open.row(due_ms)).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row.kind = ["order", "order.unpaid"][at % 2].into();
    }
    rows[4].key = Some("key".into());
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&[&rows[0]]);
    let Outcome::CancelledMany(mut gone) = open.one(Write::CancelKind("order".into())) else {
        panic!("it has an outcome of its own");
    };
    gone.sort_unstable();
    assert_eq!(gone, [2, 4, 6].map(|at: usize| rows[at].id));
    let left = [0, 1, 3, 5, 7].map(|at: usize| rows[at].clone());
    assert_eq!(open.all(), left);
    assert_eq!(open.get_key("key"), None);
    assert_eq!(
        open.one(Write::CancelKind("ord".into())),
        Outcome::CancelledMany(Vec::new())
    );
}

fn acks(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (row, other) = (open.keyed(10, "key"), open.row(10));
    open.arm(&row);
    open.arm(&other);
    open.hand_out(&[&row, &other]);
    assert_eq!(open.ack(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.get(row.id), None);
    assert_eq!(open.get_key("key"), None);
    assert_eq!(open.all(), [other]);
    assert_eq!(open.ack(&row, None), Outcome::Settled(false, None));
    let again = open.keyed(11, "key");
    open.arm(&again);
    let mut open = open.crash(place);
    assert_eq!(open.size(), (2, 0));
    assert_eq!(open.get_key("key").unwrap().id, again.id);
}

fn acks_recurring(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(10, "key");
    row.attempts = 7;
    row.calendar = Some("* * * * *".into());
    open.arm(&row);
    open.hand_out(&[&row]);
    let next = with(&row, |row| {
        row.due = at(60_000);
        row.attempts = 0;
    });
    assert_eq!(
        open.ack(&row, Some(next.due)),
        Outcome::Settled(true, Some(next.clone()))
    );
    assert_eq!(open.ack(&row, None), Outcome::Settled(false, None));
    assert_eq!(open.get_key("key"), Some(next.clone()));
    assert_eq!(open.all(), slice::from_ref(&next));
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&next));
    // Its last run.
    assert_eq!(open.ack(&next, None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

fn retries(place: &dyn Place) {
    let mut open = Opened::new(place);
    let row = open.keyed(10, "key");
    open.arm(&row);
    open.hand_out(&[&row]);
    let again = with(&row, |row| {
        row.due = at(2_000);
        row.attempts = 1;
    });
    assert_eq!(
        open.retry(&row, again.due, 1),
        Outcome::Settled(true, Some(again.clone()))
    );
    assert_eq!(open.retry(&row, at(1), 9), Outcome::Settled(false, None));
    assert_eq!(open.get_key("key"), Some(again.clone()));
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&again));
    assert_eq!(open.cancel(again.id), Some(again.id));
    assert_eq!(open.size(), (0, 0));
}

fn buries(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (row, other) = (open.keyed(10, "key"), open.row(10));
    open.arm(&row);
    open.arm(&other);
    open.hand_out(&[&row]);
    assert_eq!(open.bury(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.bury(&row, None), Outcome::Settled(false, None));
    assert_eq!((open.get(row.id), open.get_key("key")), (None, None));
    assert_eq!(open.cancel(row.id), None);
    assert_eq!(open.size(), (1, 1));
    let again = open.keyed(30, "key");
    open.arm(&again);
    let mut open = open.crash(place);
    assert_eq!(open.all().len(), 2);
    let cause = Cause::Failed("no answer".into());
    // The letter says which key it had.
    let buried = with(&row, |row| {
        row.attempts = 25;
    });
    assert_eq!(open.dead(), [DeadLetter::new(buried, cause, at(777))]);
    assert_eq!(open.get_key("key").unwrap().id, again.id);
}

fn buries_recurring(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(10, "key");
    row.calendar = Some("* * * * *".into());
    open.arm(&row);
    open.hand_out(&[&row]);
    let copy = open.store.new_id(None, row.due);
    let next = with(&row, |row| {
        row.due = at(60_000);
    });
    assert_eq!(
        open.bury(&row, Some((next.due, copy))),
        Outcome::Settled(true, Some(next.clone()))
    );
    let letter = with(&row, |row| {
        row.id = copy;
        row.key = None;
        row.calendar = None;
        row.attempts = 25;
    });
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&next));
    assert_eq!(open.get_key("key"), Some(next));
    let cause = Cause::Failed("no answer".into());
    assert_eq!(open.dead(), [DeadLetter::new(letter, cause, at(777))]);
    assert_eq!(open.size(), (1, 1));
}

fn dead_letters(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..5).map(|at| open.row(10 + at)).collect();
    rows[2].key = Some("key".into());
    rows[2].attempts = 3;
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let causes = [
        Cause::UnknownKind,
        Cause::Undecodable("no JSON".into()),
        Cause::Failed("".into()),
        Cause::Crashed,
        Cause::UnknownKind,
    ];
    for (row, cause) in rows.iter().zip(&causes) {
        let write = Write::Bury {
            of: open.settled(row),
            cause: cause.clone(),
            since: at(50),
            attempts: row.attempts,
            next: None,
        };
        assert_eq!(open.one(write), Outcome::Settled(true, None));
    }
    let mut open = open.crash(place);
    let mut letters = rows.iter().zip(causes);
    let letters: Vec<_> = letters
        .by_ref()
        .map(|(row, cause)| DeadLetter::new(row.clone(), cause, at(50)))
        .collect();
    assert_eq!(open.dead(), letters);
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let mut page = |after, limit| open.store.dead(after, limit).unwrap();
    assert_eq!(page(None, 2), letters[..2]);
    assert_eq!(page(Some(ids[1]), 2), letters[2..4]);
    assert_eq!(page(Some(ids[3]), 2), letters[4..]);
    assert_eq!(page(Some(ids[4]), 2), []);
    assert_eq!(page(None, 0), []);

    assert_eq!(open.one(Write::Discard(ids[0])), Outcome::Discarded(true));
    assert_eq!(open.one(Write::Discard(ids[0])), Outcome::Discarded(false));
    let none = Outcome::Revived(None);
    assert_eq!(open.one(Write::Revive(ids[0], at(1))), none);
    // Somebody else has the key by now.
    let other = open.keyed(90, "key");
    open.arm(&other);
    let alive = with(&rows[2], |row| {
        row.due = at(80);
        row.key = None;
        row.attempts = 0;
    });
    assert_eq!(
        open.one(Write::Revive(ids[2], alive.due)),
        Outcome::Revived(Some(alive.clone()))
    );
    assert_eq!(open.one(Write::Revive(ids[2], at(1))), none);
    assert_eq!(open.one(Write::Discard(ids[2])), Outcome::Discarded(false));
    let mut open = open.crash(place);
    assert_eq!(open.all(), [alive, other.clone()]);
    assert_eq!(open.get_key("key"), Some(other));
    assert_eq!(open.size(), (2, 3));
}

fn stale_settlements(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20]);
    let earlier = open.epoch;
    open.hand_out(&[&rows[0]]);
    let mut open = open.crash(place);
    let before = open.all();
    let settled = open.settled(&rows[0]);
    let stale = [
        Settled {
            epoch: earlier,
            ..settled.clone()
        },
        Settled {
            epoch: open.epoch + 1,
            ..settled.clone()
        },
        Settled {
            due: at(11),
            ..settled.clone()
        },
        Settled {
            id: DurableId::from_bits(99),
            ..settled.clone()
        },
    ];
    let copy = open.row(10).id;
    for of in stale {
        let again = Write::Retry {
            of: of.clone(),
            at: at(30),
            attempts: 1,
        };
        let ack = |next| Write::Ack {
            of: of.clone(),
            next,
        };
        let writes = [
            again,
            ack(None),
            ack(Some(at(30))),
            bury(of.clone(), None),
            bury(of.clone(), Some((at(30), copy))),
        ];
        for outcome in open.write(writes) {
            assert_eq!(outcome, Outcome::Settled(false, None), "{of:?}");
        }
    }
    assert_eq!(open.all(), before);
    assert_eq!(open.dead(), []);
    assert_eq!(open.ack(&rows[0], None), Outcome::Settled(true, None));
}

fn commits_in_order(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = [10, 20, 30].map(|due_ms| open.keyed(due_ms, "key"));
    let (gone, moved) = (open.row(40), open.row(50));
    let at_key = || Target::Key("key".into());
    let outcomes = open.write([
        Write::Arm(rows[0].clone()),
        Write::Arm(rows[1].clone()),
        Write::Cancel(at_key()),
        Write::Cancel(at_key()),
        Write::Arm(rows[2].clone()),
        Write::Move(at_key(), at(35)),
        Write::Arm(gone.clone()),
        Write::Cancel(Target::Id(gone.id)),
        Write::Arm(moved.clone()),
        Write::Move(Target::Id(moved.id), at(5)),
        Write::Move(Target::Id(moved.id), at(7)),
    ]);
    let last = with(&rows[2], |row| {
        row.due = at(35);
    });
    let to = |due_ms| {
        with(&moved, |row| {
            row.due = at(due_ms);
        })
    };
    assert_eq!(
        outcomes,
        [
            Outcome::Armed(None),
            Outcome::Armed(Some(rows[0].id)),
            Outcome::Cancelled(Some(rows[1].id)),
            Outcome::Cancelled(None),
            Outcome::Armed(None),
            Outcome::Moved(Some(last.clone())),
            Outcome::Armed(None),
            Outcome::Cancelled(Some(gone.id)),
            Outcome::Armed(None),
            Outcome::Moved(Some(to(5))),
            Outcome::Moved(Some(to(7))),
        ]
    );
    assert_eq!(open.all(), [to(7), last.clone()]);
    assert_eq!(open.write([]), []);
    // A delivery ends, and its key goes to the next row, in one commit.
    open.hand_out(&[&last]);
    let next = open.keyed(60, "key");
    let of = open.settled(&last);
    open.gate.rows.clear();
    let outcomes = open.write([Write::Ack { of, next: None }, Write::Arm(next.clone())]);
    assert_eq!(
        outcomes,
        [Outcome::Settled(true, None), Outcome::Armed(None)]
    );
    let mut open = open.crash(place);
    let ids: Vec<_> = open.all().iter().map(|row| row.id).collect();
    assert_eq!(ids, [moved.id, next.id]);
}

fn raises_attempts(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows = open.arm_at([10, 20, 20, 21, 30]);
    open.store.hand_out(at(20)).unwrap();
    // It does not fall.
    open.store.hand_out(at(15)).unwrap();
    let late = open.arm_at([5, 18]);
    let mut open = open.crash(place);
    // These are armed under the new epoch.
    let fresh = open.arm_at([1, 19]);
    rows.extend(late);
    for row in rows.iter_mut().filter(|row| row.due <= at(20)) {
        row.attempts = 1;
    }
    rows.extend(fresh);
    rows.sort_by_key(Row::position);
    assert_eq!(open.all(), rows);
    assert_eq!(open.all(), rows, "once");
    for row in &rows {
        assert_eq!(open.get(row.id).as_ref(), Some(row), "it is stored");
    }
    // Nothing was handed out under that epoch.
    let mut open = open.crash(place);
    assert_eq!(open.all(), rows);
    open.store.hand_out(at(10)).unwrap();
    let mut open = open.crash(place);
    for row in rows.iter_mut().filter(|row| row.due <= at(10)) {
        row.attempts += 1;
    }
    assert_eq!(open.all(), rows);
}

fn raises_late(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30, 40, 50]);
    let (superseded, second) = supersede(&mut open);
    open.store.hand_out(at(45)).unwrap();
    // Two lives that load a part, the second one ends well.
    let mut open = open.crash(place);
    let first = open.load(Position::MIN, StoreTime::MAX, 1);
    assert_eq!((first[0].id, first[0].attempts), (rows[0].id, 1));
    let mut open = open.crash(place);
    let slice = open.load(Position::MIN, StoreTime::MAX, 2);
    let attempts: Vec<_> = slice.iter().map(|row| (row.id, row.attempts)).collect();
    let expected = [(rows[0].id, 1), (rows[1].id, 1)];
    assert_eq!(attempts, expected, "a full slice, without {superseded:?}");
    let mut open = open.restart(place);
    let attempts: Vec<_> = open
        .all()
        .iter()
        .map(|row| (row.id, row.attempts))
        .collect();
    let expected = [
        (rows[0].id, 1),
        (rows[1].id, 1),
        (second.id, 1),
        (rows[2].id, 1),
        (rows[3].id, 1),
        (rows[4].id, 0),
    ];
    assert_eq!(attempts, expected);
    assert_eq!(open.size(), (6, 0));
    // So it is when the row is moved before.
    open.store.hand_out(at(10)).unwrap();
    let mut open = open.crash(place);
    let to = with(&rows[0], |row| (row.due, row.attempts) = (at(60), 2));
    assert_eq!(
        open.one(Write::Move(Target::Id(to.id), to.due)),
        Outcome::Moved(Some(to.clone()))
    );
    assert_eq!(open.all().last(), Some(&to));
}

fn releases(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    open.hand_out(&[&rows[0]]);
    open.ack(&rows[0], None);
    open.store.hand_out(at(25)).unwrap();
    let mut open = open.restart(place);
    assert_eq!(open.all(), rows[1..]);
    open.store.hand_out(at(15)).unwrap();
    let mut open = open.crash(place);
    assert_eq!(open.all(), rows[1..], "the watermark was 15");
}
