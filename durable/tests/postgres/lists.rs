//! Promise: a list has the timers of all nodes, and a call for all timers of a query reaches them.

use crate::own_schema::{Schema, next, until};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};
use wheelwork_durable::{Durable, ListQuery, Row, Shift};

const HOUR: Duration = Duration::from_secs(3_600);

fn rows(node: &Durable, mut query: ListQuery) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        let page = node.list_page(&query).unwrap();
        rows.extend(page.rows);
        match page.next {
            Some(next) => query = query.after(next),
            None => return rows,
        }
    }
}

#[test]
fn a_list_has_the_timers_of_all_nodes() {
    let Some(schema) = Schema::new("lists") else {
        return;
    };
    let (send, handled) = channel();
    let nodes = [schema.node(&send), schema.node(&send)];
    let due = SystemTime::now() + HOUR;
    for number in 0..300 {
        let node = &nodes[number % 2];
        let key = format!("{}/{number}", ["shop", "shö"][number % 3 % 2]);
        let timer = node.key(&key);
        timer.schedule("mail", due, format!("{number}")).unwrap();
    }
    nodes[0].schedule("other", due, "").unwrap();
    for node in &nodes {
        // (All are due in one millisecond, and go by partition.)
        for limit in [7, 299, 1_000] {
            let all = rows(node, ListQuery::new().limit(limit));
            let ids: BTreeSet<_> = all.iter().map(|row| row.id).collect();
            assert_eq!((all.len(), ids.len()), (301, 301), "pages of {limit}");
        }
        let of = |query: ListQuery| rows(node, query.limit(10)).len();
        assert_eq!(of(ListQuery::new().kind("mail")), 300);
        assert_eq!(of(ListQuery::new().key_prefix("shö/")), 100);
        assert_eq!(of(ListQuery::new().key_prefix("shö/").kind("other")), 0);
        assert_eq!(of(ListQuery::new().recurring()), 0);
    }
    let some = ListQuery::new().key_prefix("shö/");
    let moves = nodes[1].move_all(&some, Shift::Later(HOUR)).unwrap();
    assert_eq!(moves.wait().unwrap(), 100);
    assert_eq!(
        rows(&nodes[0], some.clone().due(due + HOUR / 2..)).len(),
        100
    );
    // They are due at once, on whichever node.
    let moves = nodes[0].move_all(&some, Shift::Sooner(3 * HOUR)).unwrap();
    assert_eq!(moves.wait().unwrap(), 100);
    let got: BTreeSet<_> = (0..100).map(|_| next(&handled).0).collect();
    assert_eq!(got.len(), 100, "each once");
    until("their ends are stored", || {
        rows(&nodes[0], ListQuery::new()).len() == 201
    });
    for node in nodes {
        node.stop().unwrap();
    }
}
