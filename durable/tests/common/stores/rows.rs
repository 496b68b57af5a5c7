//! Demands of rows: they are put in, found, loaded, moved and cancelled.

use super::{HandedOut, Opened, Place, at, with};
use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use wheelwork_durable::contract::{KindSlice, Outcome, Position, SliceLimit, Target, Write};
use wheelwork_durable::{DurableId, Row, StoreTime};

pub fn rows_come_back(place: &dyn Place) {
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

pub fn rows_survive(place: &dyn Place) {
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

pub fn slices(place: &dyn Place) {
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

pub fn edges(place: &dyn Place) {
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

pub fn ids_are_new(place: &dyn Place) {
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

pub fn ids_have_parts(place: &dyn Place) {
    let mut open = Opened::new(place);
    let first = open.row(123);
    let second = open.keyed(123, "key");
    for row in [&first, &second] {
        assert_eq!((row.id.partition(), row.id.first_due()), (0, at(123)));
    }
    assert!(first.id < second.id, "rows of one deadline stay in order");
}

pub fn cancels(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    assert_eq!(open.cancel(rows[1].id), Some(rows[1].id));
    assert_eq!(open.cancel(rows[1].id), None);
    assert_eq!(open.get(rows[1].id), None);
    assert_eq!(open.all(), [rows[0].clone(), rows[2].clone()]);
    assert_eq!(open.cancel(DurableId::from_bits(12_345)), None);
    assert_eq!(open.size(), (2, 0));
}

pub fn cancels_by_key(place: &dyn Place) {
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

pub fn gate_keeps(place: &dyn Place) {
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
        open.one(Write::CancelKind(KindSlice::all("kind"))),
        Outcome::CancelledMany(Vec::new(), None)
    );
    assert_eq!(open.all(), slice::from_ref(&row));
    assert_eq!(open.ack(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

/// A recurring row with a key that was handed out.
fn recurring(open: &mut Opened) -> Row {
    let mut row = open.keyed(10, "key");
    (row.calendar, row.attempts) = (Some("* * * * *".into()), 2);
    open.arm(&row);
    open.hand_out(&[&row]);
    row
}

pub fn recurring_is_struck(place: &dyn Place) {
    let by_id = |row: &Row| Write::Cancel(Target::Id(row.id));
    let by_key = |_: &Row| Write::Cancel(Target::Key("key".into()));
    let of_kind = |_: &Row| Write::CancelKind(KindSlice::all("kind"));
    let cancels: [&dyn Fn(&Row) -> Write; 3] = [&by_id, &by_key, &of_kind];
    for (number, cancel) in cancels.into_iter().enumerate() {
        let mut open = Opened::new(place);
        let row = recurring(&mut open);
        let outcome = open.one(cancel(&row));
        let expected = match number {
            2 => Outcome::CancelledMany(vec![row.id], None),
            _ => Outcome::Cancelled(Some(row.id)),
        };
        assert_eq!(outcome, expected);
        let struck = with(&row, |row| (row.superseded, row.key) = (true, None));
        assert_eq!(open.get(row.id), Some(struck));
        assert_eq!(open.get_key("key"), None);
        // Only once; and nobody moves it.
        assert_eq!(open.one(by_id(&row)), Outcome::Cancelled(None));
        let moves = Write::Move(Target::Id(row.id), at(50));
        assert_eq!(open.one(moves), Outcome::Moved(None));
        let outcome = match number {
            0 => open.ack(&row, Some(at(70))),
            1 => open.retry(&row, at(20), 3),
            _ => {
                let copy = open.row(10).id;
                open.bury(&row, Some((at(70), copy)))
            }
        };
        assert_eq!(outcome, Outcome::Settled(true, None));
        assert_eq!(open.size(), (0, 0), "it was the last run");
    }
    // Nor is there another one after a crash.
    let mut open = Opened::new(place);
    let row = recurring(&mut open);
    assert_eq!(open.cancel(row.id), Some(row.id));
    let mut open = open.crash(place);
    let left = open.all();
    assert_eq!((left.len(), left[0].superseded), (1, true));
    assert_eq!(open.ack(&left[0], None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

pub fn gate_is_asked(place: &dyn Place) {
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
    assert_eq!(
        asked(&mut open, Write::CancelKind(KindSlice::all("kind"))),
        left
    );
    assert_eq!(
        asked(&mut open, Write::CancelKind(KindSlice::all("kind"))),
        []
    );
}

pub fn moves(place: &dyn Place) {
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

pub fn keys_are_taken(place: &dyn Place) {
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
pub fn supersede(open: &mut Opened) -> (Row, Row) {
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

pub fn superseded(place: &dyn Place) {
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
        open.one(Write::CancelKind(KindSlice::all("kind"))),
        Outcome::CancelledMany(vec![second.id], None)
    );
    assert_eq!(open.get_key("key"), None);
    assert_eq!(open.size(), (1, 0));
    // Nobody is given it again.
    let mut open = open.crash(place);
    let left = with(&first, |row| row.suspect = true);
    assert_eq!(open.all(), slice::from_ref(&left));
    assert_eq!(open.ack(&left, None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

pub fn superseded_ends(place: &dyn Place) {
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

pub fn cancels_kinds(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..8).map(|due_ms| open.row(due_ms)).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row.kind = ["order", "order.unpaid"][at % 2].into();
    }
    rows[4].key = Some("key".into());
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&[&rows[0]]);
    let Outcome::CancelledMany(mut gone, None) =
        open.one(Write::CancelKind(KindSlice::all("order")))
    else {
        panic!("it has an outcome of its own");
    };
    gone.sort_unstable();
    assert_eq!(gone, [2, 4, 6].map(|at: usize| rows[at].id));
    let left = [0, 1, 3, 5, 7].map(|at: usize| rows[at].clone());
    assert_eq!(open.all(), left);
    assert_eq!(open.get_key("key"), None);
    assert_eq!(
        open.one(Write::CancelKind(KindSlice::all("ord"))),
        Outcome::CancelledMany(Vec::new(), None)
    );
}

pub fn cancels_kinds_in_slices(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..20).map(|due_ms| open.row(100 - due_ms)).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row.kind = ["order", "mail"][at % 2].into();
    }
    rows.iter().for_each(|row| open.arm(row));
    // Some lie elsewhere by now: they were moved.
    for row in [&rows[2], &rows[3]] {
        open.one(Write::Move(Target::Id(row.id), at(50)));
    }
    open.hand_out(&[&rows[0]]);
    let (mut after, mut gone, mut slices) = (Position::MIN, Vec::new(), 0);
    loop {
        let slice = KindSlice {
            kind: "order".into(),
            after,
            limit: SliceLimit::rows(3),
        };
        let outcome = open.one(Write::CancelKind(slice));
        let Outcome::CancelledMany(more, last) = outcome else {
            panic!("it has an outcome of its own");
        };
        assert!(more.len() <= 3, "{more:?}");
        gone.extend(more);
        slices += 1;
        match last {
            Some(last) => after = last,
            None => break,
        }
    }
    assert_eq!(
        slices, 7,
        "three of twenty rows are looked at, and then three more"
    );
    gone.sort_unstable();
    let mut expected: Vec<_> = rows.iter().step_by(2).skip(1).map(|row| row.id).collect();
    expected.sort_unstable();
    assert_eq!(gone, expected);
    assert_eq!(open.size(), (11, 0));
}

pub fn slices_are_bounded_in_bytes(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..6).map(|due_ms| open.row(due_ms)).collect();
    for row in &mut rows {
        row.payload = vec![7; 1_000].into();
        open.arm(row);
    }
    let limit = SliceLimit {
        rows: 100,
        bytes: 2_000,
    };
    let each = rows[0].bytes();
    assert!(each > 1_000, "a kind counts, too");
    let load = |open: &mut Opened, after| open.store.load(0, after, StoreTime::MAX, limit).unwrap();
    let first = load(&mut open, Position::MIN);
    assert_eq!(first, rows[..2], "the second reaches the bytes");
    assert_eq!(load(&mut open, rows[3].position()), rows[4..]);
    let kind = KindSlice {
        kind: rows[0].kind.clone(),
        after: Position::MIN,
        limit,
    };
    let outcome = open.one(Write::CancelKind(kind));
    let ids = rows[..2].iter().map(|row| row.id).collect();
    let last = Some(rows[1].position());
    assert_eq!(outcome, Outcome::CancelledMany(ids, last));
    open.hand_out(&[&rows[2], &rows[3], &rows[4]]);
    for row in &rows[2..5] {
        open.bury(row, None);
    }
    let letters = open.store.dead(None, limit).unwrap();
    assert_eq!(letters.len(), 2);
    let rest = open.store.dead(Some(letters[1].row.id), limit).unwrap();
    assert_eq!(rest.len(), 1);
}
