//! Demands: what each store that nodes share has to meet.

use super::{Both, Unasked, at};
use std::collections::BTreeMap;
use std::sync::Arc;
use wheelwork_durable::contract::{
    KindSlice, Lease, Outcome, Position, RowFilter, Settled, SharedStore, SliceLimit, Target, Write,
};
use wheelwork_durable::{Cause, DurableId, Partition, Row, StoreTime};

/// A store that one node has for itself.
pub struct Opened<S> {
    pub store: S,
    epochs: BTreeMap<Partition, u64>,
}

impl<S: Both> Opened<S> {
    pub fn new(mut store: S) -> Self {
        let leases = store.acquire().unwrap();
        let epochs = leases.iter().map(|lease| (lease.partition, lease.epoch));
        Self {
            epochs: epochs.collect(),
            store,
        }
    }

    pub(super) fn row(&mut self, due_ms: u64, key: Option<&str>) -> Row {
        let id = self.store.new_id(key, at(due_ms));
        let mut row = Row::new(id, at(due_ms), "kind".into(), (*b"payload").into());
        row.key = key.map(Into::into);
        row
    }

    pub(super) fn one(&mut self, write: Write) -> Outcome {
        self.store
            .commit(vec![write], &mut Unasked)
            .unwrap()
            .remove(0)
    }

    pub(super) fn arm(&mut self, row: &Row) {
        assert_eq!(self.one(Write::Arm(row.clone())), Outcome::Armed(None));
    }

    pub(super) fn of(&self, row: &Row) -> Settled {
        Settled {
            id: row.id,
            due: row.due,
            epoch: self.epochs[&row.id.partition()],
        }
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        let leases = self.epochs.iter();
        leases
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect()
    }

    pub(super) fn claim(&mut self, upto_ms: u64) {
        let lost = self.store.claim(&self.leases(), at(upto_ms)).unwrap();
        assert_eq!(lost, []);
    }

    /// All of them.
    fn partitions(&self) -> Vec<Partition> {
        let last = SharedStore::partitions(&self.store) - 1;
        (0..=last as Partition).collect()
    }

    pub(super) fn load(&mut self, after: Position, until: StoreTime, limit: usize) -> Vec<Row> {
        let all = self.partitions();
        let limit = SliceLimit::rows(limit);
        self.store.load_many(&all, after, until, limit).unwrap()
    }

    pub(super) fn all(&mut self) -> Vec<Row> {
        self.load(Position::MIN, StoreTime::MAX, 100_000)
    }
}

fn rows_come_back<S: Both>(open: &mut Opened<S>) {
    let mut row = open.row(5_000, Some("key"));
    row.attempts = 3;
    row.calendar = Some("0 4 * * * Europe/Berlin".into());
    row.payload = Arc::from(&[0_u8, 255, 7][..]);
    let mut plain = open.row(6_000, None);
    (plain.kind, plain.payload) = ("".into(), Arc::from(&[][..]));
    let mut large = open.row(7_000, None);
    large.payload = (0..1_u32 << 20).map(|at| (at % 251) as u8).collect();
    for row in [&row, &plain, &large] {
        assert_eq!(open.store.get(&Target::Id(row.id)).unwrap(), None);
        open.arm(row);
        let found = open.store.get(&Target::Id(row.id)).unwrap();
        assert_eq!(found.as_ref(), Some(row));
    }
    let by_key =
        |open: &mut Opened<S>, key: &str| open.store.get(&Target::Key(key.into())).unwrap();
    assert_eq!(by_key(open, "key").as_ref(), Some(&row));
    assert_eq!(by_key(open, "other"), None);
    assert_eq!(open.all(), [row, plain, large]);
}

pub fn texts_may_have_anything<S: Both>(open: &mut Opened<S>) {
    let texts = ["", "\u{10ffff}", "'; --", "\\", "%s {s} $1"];
    let mut rows = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut row = open.row(number as u64, Some(text));
        row.kind = (*text).into();
        open.arm(&row);
        rows.push(row);
    }
    assert_eq!(open.all(), rows);
    open.claim(100);
    for (row, text) in rows.iter().zip(texts) {
        let key = Target::Key(text.into());
        assert_eq!(open.store.get(&key).unwrap().as_ref(), Some(row));
        let of = open.of(row);
        let cause = Cause::Failed(text.into());
        let outcome = open.one(Write::Bury {
            of,
            cause: cause.clone(),
            since: at(1),
            attempts: 1,
            crashes: 0,
            next: None,
        });
        assert_eq!(outcome, Outcome::Settled(true, None));
        let letters = open.store.dead(None, SliceLimit::rows(100)).unwrap();
        let letter = letters.iter().find(|letter| letter.row.id == row.id);
        assert_eq!(letter.map(|letter| &letter.cause), Some(&cause));
    }
}

fn slices<S: Both>(open: &mut Opened<S>) {
    let dues = (0..60_u64).map(|row| [100, 200, 300, 50 + row * 7 % 400][row as usize % 4]);
    let mut rows: Vec<_> = dues.map(|due| open.row(due, None)).collect();
    let arms = rows.iter().cloned().map(Write::Arm).collect();
    open.store.commit(arms, &mut Unasked).unwrap();
    rows.sort_unstable_by_key(Row::position);
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

/// All that a filter takes, in slices of this many rows.
fn listed<S: Both>(open: &mut Opened<S>, filter: &RowFilter, slice: usize) -> Vec<Row> {
    let all = open.partitions();
    let (mut rows, mut after, mut looked_at) = (Vec::new(), Position::MIN, 0);
    let limit = SliceLimit::rows(slice);
    loop {
        let store = &mut open.store;
        let found = store.list_many(&all, after, StoreTime::MAX, filter, limit);
        let found = found.unwrap();
        assert!(found.looked_at.0 <= slice);
        looked_at += found.looked_at.0;
        let last = found.rows.last().map(Row::position);
        rows.extend(found.rows);
        let Some(next) = found.next else {
            // (A row with a zero byte is none.)
            assert!([0, 91].contains(&looked_at), "{looked_at} were looked at");
            return rows;
        };
        assert!(after < next && last <= Some(next), "it goes on");
        after = next;
    }
}

fn lists_are_filtered<S: Both>(open: &mut Opened<S>) {
    let mut rows = Vec::new();
    for number in 0..90_u64 {
        // (Most are due at one time, in few partitions.)
        let due = [100, 100, 100, 50 + number][number as usize % 4];
        let key = format!("{}/{number}", ["a", "aé", "ab"][number as usize % 3]);
        let mut row = open.row(due, Some(&key));
        if number % 2 == 0 {
            row.id = DurableId::new(7, at(due), number + 1);
        }
        row.kind = ["mail", "report"][number as usize % 5 % 2].into();
        row.calendar = (number % 7 == 0).then(|| "0 4 * * * UTC".into());
        rows.push(row);
    }
    let mut plain = open.row(100, None);
    plain.kind = "mail".into();
    rows.push(plain);
    let arms = rows.iter().cloned().map(Write::Arm).collect();
    open.store.commit(arms, &mut Unasked).unwrap();
    rows.sort_unstable_by_key(Row::position);
    let text = |text: &str| Some(text.into());
    for (kind, key_prefix, recurring) in [
        (None, None, false),
        (text("mail"), None, false),
        (text("other"), None, false),
        (None, text(""), false),
        (None, text("a"), false),
        (None, text("a/1"), false),
        (None, text("aé/"), false),
        (None, text("a%"), false),
        (None, text("\0"), false),
        (text("report"), text("ab"), false),
        (None, None, true),
        (text("mail"), text("ab"), true),
    ] {
        let filter = RowFilter {
            kind,
            key_prefix,
            recurring,
        };
        let takes = |row: &&Row| filter.takes(row);
        let expected: Vec<Row> = rows.iter().filter(takes).cloned().collect();
        for slice in [1, 7, 90, 91, 92, 100_000] {
            let found = listed(open, &filter, slice);
            assert_eq!(found, expected, "{filter:?} in slices of {slice}");
        }
    }
    let limit = SliceLimit {
        rows: 1_000,
        bytes: 1,
    };
    let (all, until) = (RowFilter::ALL, StoreTime::MAX);
    let parts = open.partitions();
    let found = open
        .store
        .list_many(&parts, Position::MIN, until, &all, limit);
    let found = found.unwrap();
    assert_eq!(
        (found.rows.len(), found.next),
        (1, Some(rows[0].position()))
    );
}

fn edges<S: Both>(open: &mut Opened<S>) {
    let dues = [0, 10, 10, 20, u64::MAX];
    let mut rows = dues.map(|due| open.row(due, None)).to_vec();
    rows.iter().for_each(|row| open.arm(row));
    rows.sort_unstable_by_key(Row::position);
    let mut load = |after, until| open.load(after, until, 10);
    assert_eq!(load(Position::MIN, StoreTime::MAX), rows);
    assert_eq!(load(Position::MIN, StoreTime::MIN), rows[..1]);
    assert_eq!(load(Position::MIN, at(9)), rows[..1]);
    assert_eq!(load(rows[1].position(), at(10)), rows[2..3]);
    assert_eq!(load(Position::end_of(at(9)), at(19)), rows[1..3]);
    assert_eq!(load(Position::end_of(at(10)), at(5)), []);
    assert_eq!(load(Position::MAX, StoreTime::MAX), []);
}

fn the_watermark_decides<S: Both>(open: &mut Opened<S>) {
    for (due, may_go) in [(10, false), (11, true)] {
        let row = open.row(due, Some("key"));
        open.arm(&row);
        open.claim(10);
        for target in [Target::Id(row.id), Target::Key("key".into())] {
            let Outcome::Moved(moved) = open.one(Write::Move(target.clone(), at(due))) else {
                panic!("another outcome");
            };
            assert_eq!(moved.is_some(), may_go);
        }
        let next = open.row(50, Some("key"));
        let replaced = open.one(Write::Arm(next.clone()));
        assert_eq!(replaced, Outcome::Armed(may_go.then_some(row.id)));
        let left = open.store.get(&Target::Id(row.id)).unwrap();
        assert_eq!(
            left.map(|row| (row.superseded, row.key)),
            (!may_go).then_some((true, None))
        );
        // (A row that is superseded was handed out.)
        let cancelled = open.one(Write::Cancel(Target::Id(row.id)));
        assert_eq!(cancelled, Outcome::Cancelled(None));
        let cancelled = open.one(Write::Cancel(Target::Key("key".into())));
        assert_eq!(cancelled, Outcome::Cancelled(Some(next.id)));
    }
    // The watermark does not fall.
    open.claim(5);
    let row = open.row(10, None);
    open.arm(&row);
    assert_eq!(
        open.one(Write::Cancel(Target::Id(row.id))),
        Outcome::Cancelled(None)
    );
    let of_kind = open.one(Write::CancelKind(KindSlice::all("kind")));
    assert_eq!(of_kind, Outcome::CancelledMany(Vec::new(), None));
}

fn a_stale_settlement_does_nothing<S: Both>(open: &mut Opened<S>) {
    let row = open.row(10, None);
    open.arm(&row);
    open.claim(10);
    let right = open.of(&row);
    for wrong in [
        Settled {
            epoch: right.epoch - 1,
            ..right.clone()
        },
        Settled {
            epoch: right.epoch + 1,
            ..right.clone()
        },
        Settled {
            due: at(11),
            ..right.clone()
        },
    ] {
        let of = wrong.clone();
        let done = open.one(Write::Ack { of, next: None });
        assert_eq!(done, Outcome::Settled(false, None));
        let of = wrong.clone();
        let again = Write::Retry {
            of,
            at: at(20),
            attempts: 1,
            crashes: 0,
        };
        assert_eq!(open.one(again), Outcome::Settled(false, None));
        let dead = Write::Bury {
            of: wrong,
            cause: Cause::Crashed,
            since: at(3),
            attempts: 1,
            crashes: 0,
            next: Some((at(30), DurableId::from_bits(7))),
        };
        assert_eq!(open.one(dead), Outcome::Settled(false, None));
    }
    assert_eq!(open.store.dead(None, SliceLimit::rows(9)).unwrap(), []);
    assert_eq!(open.all(), [row]);
    let done = open.one(Write::Ack {
        of: right,
        next: None,
    });
    assert_eq!(done, Outcome::Settled(true, None));
}

/// A demand.
pub type Demand<S> = fn(&mut Opened<S>);

/// All of them, by name, but for that of texts and those of held rows.
pub fn demands<S: Both>() -> [(&'static str, Demand<S>); 6] {
    [
        ("rows come back", rows_come_back),
        ("slices", slices),
        ("lists are filtered", lists_are_filtered),
        ("edges", edges),
        ("the watermark decides", the_watermark_decides),
        (
            "a stale settlement does nothing",
            a_stale_settlement_does_nothing,
        ),
    ]
}
