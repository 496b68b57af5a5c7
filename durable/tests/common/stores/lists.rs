//! Demands of looks at many rows.

use super::{Opened, Place, at};
use wheelwork_durable::contract::{Position, RowFilter, SliceLimit, Write};
use wheelwork_durable::{Row, StoreTime};

/// All that a filter takes, in slices of this many rows.
fn listed(open: &mut Opened, filter: &RowFilter, slice: usize) -> Vec<Row> {
    let (mut rows, mut after, mut looked_at) = (Vec::new(), Position::MIN, 0);
    let limit = SliceLimit::rows(slice);
    loop {
        let found = open.store.list(0, after, StoreTime::MAX, filter, limit);
        let found = found.unwrap();
        assert!(found.looked_at.0 <= slice);
        assert!(found.rows.len() <= found.looked_at.0);
        looked_at += found.looked_at.0;
        let last = found.rows.last().map(Row::position);
        rows.extend(found.rows);
        let Some(next) = found.next else {
            assert_eq!(looked_at, 61, "each row is looked at once");
            return rows;
        };
        assert!(after < next && last <= Some(next), "it goes on");
        after = next;
    }
}

pub fn lists_are_filtered(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows = Vec::new();
    for number in 0..60_u64 {
        // (Most are due at one time.)
        let due = [100, 100, 100, 50 + number][number as usize % 4];
        let key = format!("{}/{number}", ["a", "aé", "ab"][number as usize % 3]);
        let mut row = open.keyed(due, &key);
        row.kind = ["mail", "report"][number as usize % 2].into();
        row.calendar = (number % 7 == 0).then(|| "0 4 * * * UTC".into());
        rows.push(row);
    }
    let mut plain = open.row(100);
    plain.kind = "mail".into();
    rows.push(plain);
    open.write(rows.iter().cloned().map(Write::Arm));
    rows.sort_by_key(Row::position);
    let text = |text: &str| Some(text.into());
    for (kind, key_prefix, recurring) in [
        (None, None, false),
        (text("mail"), None, false),
        (text("other"), None, false),
        (text(""), None, false),
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
        for slice in [1, 2, 7, 60, 61, 62, 1_000] {
            let found = listed(&mut open, &filter, slice);
            assert_eq!(found, expected, "{filter:?} in slices of {slice}");
        }
    }
    // From a position, and up to a deadline.
    let (all, limit) = (RowFilter::ALL, SliceLimit::rows(1_000));
    let mut list = |after, until| open.store.list(0, after, until, &all, limit).unwrap().rows;
    let until_100 = rows.iter().filter(|row| row.due <= at(100)).count();
    assert_eq!(list(Position::MIN, at(100)), rows[..until_100]);
    assert_eq!(list(rows[20].position(), at(100)), rows[21..until_100]);
    assert_eq!(list(Position::end_of(at(100)), at(100)), []);
    assert_eq!(list(Position::MAX, StoreTime::MAX), []);
    // By bytes: the row that reaches the bound is the last one.
    let limit = SliceLimit {
        rows: 1_000,
        bytes: 1,
    };
    let found = open
        .store
        .list(0, Position::MIN, StoreTime::MAX, &all, limit);
    let found = found.unwrap();
    assert_eq!(
        (found.rows.len(), found.next),
        (1, Some(rows[0].position()))
    );
}
