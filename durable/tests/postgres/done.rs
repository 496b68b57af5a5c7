//! Promise: with `keep_done` the runs of all nodes are listed for a time, each once, also those of
//! handlers in a transaction. A node that has lost its lease leaves no record. Without it the table
//! is not touched.

use crate::all_may_go::AllMayGo;
use crate::own_schema::{Schema, until};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{DoneRange, Outcome, Settled, SharedStore, Store, Write};
use wheelwork_durable::{
    Delivery, DoneEnding, DoneQuery, DoneTimer, Durable, DurableBuilder, DurableId, Postgres,
    RetryPolicy, Row, StoreTime,
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn builder(schema: &Schema, name: &str) -> DurableBuilder<Postgres> {
    let store = schema.builder(&schema.database).node_name(name);
    Durable::builder(store.connect().unwrap())
        .retry_policy(RetryPolicy::new().attempts(2))
        .on("mail", |mail: &Delivery| match mail.payload() {
            b"fails" => Err("no".into()),
            _ => Ok(()),
        })
}

fn runs(node: &Durable, mut query: DoneQuery) -> Vec<DoneTimer> {
    let mut runs = Vec::new();
    loop {
        let page = node.done_page(&query).unwrap();
        runs.extend(page.done);
        match page.next {
            Some(next) => query = query.after(next),
            None => return runs,
        }
    }
}

#[test]
fn the_runs_of_all_nodes_are_listed() {
    let Some(schema) = Schema::new("done") else {
        return;
    };
    let nodes = ["one", "two"].map(|name| builder(&schema, name).keep_done(HOUR).start().unwrap());
    let begun = SystemTime::now() - HOUR;
    let mut ids = BTreeSet::new();
    for number in 0..300 {
        let key = format!("{}/{number}", ["shop", "shö"][number % 3 % 2]);
        let timer = nodes[number % 2].key(&key);
        ids.insert(timer.schedule("mail", MS * 50, "").unwrap());
    }
    nodes[0].schedule("mail", MS, "fails").unwrap();
    until("all have run, or are dead", || {
        let sum = |of: fn(&Durable) -> u64| nodes.iter().map(of).sum::<u64>();
        sum(|node| node.stats().done) == 300 && sum(|node| node.stats().died) == 1
    });
    for node in &nodes {
        for limit in [7, 299, 1_000] {
            for oldest_first in [false, true] {
                let mut query = DoneQuery::new().limit(limit).ended(begun..);
                if oldest_first {
                    query = query.oldest_first();
                }
                let done = runs(node, query);
                let found: BTreeSet<DurableId> = done.iter().map(|done| done.id).collect();
                assert_eq!((done.len(), &found), (300, &ids), "pages of {limit}");
                let places = done.iter().map(DoneTimer::place);
                assert!(places.is_sorted_by(|one, other| (one < other) == oldest_first));
            }
        }
        let of = |query: DoneQuery| runs(node, query.limit(10));
        assert_eq!(of(DoneQuery::new().kind("mail")).len(), 300);
        assert_eq!(of(DoneQuery::new().key_prefix("shö/")).len(), 100);
        assert_eq!(of(DoneQuery::new().kind("other")), []);
        let first = *ids.first().unwrap();
        let [done] = &of(DoneQuery::new().id(first))[..] else {
            panic!("one has run")
        };
        assert!(["one", "two"].contains(&&*done.node), "{done:?}");
        assert_eq!((done.attempts, done.ending), (1, DoneEnding::Done));
        assert!(done.began.is_some_and(|began| began >= done.due));
        assert!(done.key.as_deref().is_some_and(|key| key.starts_with("sh")));
    }
    // A later program may have stored an ending that this one does not know.
    let mut client = schema.client();
    for ending in [1_i16, 2, 255, -1, 0] {
        let set = schema.sql("UPDATE {s}.done SET ending = $1");
        client.execute(&set, &[&ending]).unwrap();
        let shown = match ending {
            0 => DoneEnding::Done,
            1 => DoneEnding::LeftOut,
            _ => DoneEnding::Other,
        };
        let page = nodes[0].done_page(&DoneQuery::new()).unwrap();
        assert_eq!((page.done.len(), page.unreadable), (100, 0));
        assert!(
            page.done.iter().all(|done| done.ending == shown),
            "{ending}"
        );
    }
    for node in nodes {
        node.stop().unwrap();
    }
    // Some have ended two hours ago: they go. Others are kept for two hours more.
    for (by, key) in [(-7_200_000_i64, "shop/%"), (7_200_000, "shö/%")] {
        let moved = schema.sql("UPDATE {s}.done SET ended = ended + $1 WHERE key LIKE $2");
        client.execute(&moved, &[&by, &key]).unwrap();
    }
    let third = builder(&schema, "three");
    let third = third.keep_done(MS * 10_000).start().unwrap();
    assert_eq!(third.stats().done_kept, 300, "as it was at the start");
    let left = || runs(&third, DoneQuery::new().limit(1_000)).len();
    until("what is over is removed", || left() == 100);
    assert_eq!(runs(&third, DoneQuery::new().key_prefix("shö/")).len(), 100);
    third.stop().unwrap();
}

#[test]
fn without_it_the_table_is_not_touched() {
    let Some(schema) = Schema::new("undone") else {
        return;
    };
    let node = builder(&schema, "one").start().unwrap();
    node.schedule("mail", MS, "").unwrap();
    until("it has run", || node.stats().done == 1);
    node.stop().unwrap();
    drop(node);
    // (Its index was made by a scan.)
    let touched = "SELECT greatest(seq_scan, 1) - 1 + coalesce(idx_scan, 0) + n_tup_ins + n_tup_del
        FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2";
    let touched = |table: &str| -> i64 {
        let mut client = schema.client();
        let found = client.query_one(touched, &[&schema.name, &table]).unwrap();
        found.get(0)
    };
    until("the server has counted", || touched("timer") > 0);
    assert_eq!(touched("done"), 0);
}

#[test]
fn a_transaction_has_its_record_with_the_timer() {
    let Some(schema) = Schema::new("done_in") else {
        return;
    };
    drop(schema.store());
    let make = schema.sql("CREATE TABLE {s}.work (n int)");
    schema.client().batch_execute(&make).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work SELECT count(*) FROM {s}.done");
    let has_failed = Arc::new(AtomicBool::new(false));
    let fails = has_failed.clone();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |_, transaction| {
            transaction.execute(&insert, &[])?;
            match fails.swap(true, SeqCst) {
                true => Ok(()),
                false => Err("the first time".into()),
            }
        })
        .retry_policy(RetryPolicy::new())
        .keep_done(HOUR)
        .start()
        .unwrap();
    let id = node.key("key").schedule("work", MS, "").unwrap();
    until("it is done", || node.stats().done == 1);
    let [done] = &runs(&node, DoneQuery::new())[..] else {
        panic!("one has run")
    };
    assert_eq!((done.id, done.attempts), (id, 2));
    assert_eq!(done.key.as_deref(), Some("key"));
    let sql = schema.sql("SELECT count(*), max(n) FROM {s}.work");
    let row = schema.client().query_one(&sql, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (1, 0));
    node.stop().unwrap();
}

#[test]
fn a_stale_node_leaves_no_record() {
    let Some(schema) = Schema::new("done_stale") else {
        return;
    };
    let mut stale = schema.store();
    let leases = stale.acquire().unwrap();
    let now = StoreTime::reading(SharedStore::clock(&stale).at_least());
    let row = Row::new(stale.new_id(None, now), now, "mail".into(), [][..].into());
    let lease = leases[usize::from(row.id.partition())];
    let writes = vec![Write::Arm(row.clone())];
    stale.commit(writes, &mut AllMayGo).unwrap();
    stale.hand_out(now.after(MS)).unwrap();
    // Its leases run out, and another node takes them.
    let mut other = schema.store();
    other.acquire().unwrap();
    let mut taken = Vec::new();
    until("the leases are taken", || {
        taken.extend(SharedStore::renew(&mut other).unwrap().taken);
        let number = row.id.partition();
        taken.iter().any(|taken| taken.partition == number)
    });
    let done = DoneTimer::new(row.id, row.due, row.kind.clone(), now);
    let ack = |epoch| Write::AckKept {
        of: Settled {
            id: row.id,
            due: row.due,
            epoch,
        },
        next: None,
        kept: Box::new(done.clone()),
    };
    let kept = |store: &mut Postgres, epoch| {
        let outcomes = store.commit(vec![ack(epoch)], &mut AllMayGo).unwrap();
        let records = store.done().unwrap().look(&DoneRange::ALL, 9).unwrap();
        (outcomes, records.done)
    };
    let refused = vec![Outcome::Settled(false, None)];
    assert_eq!(kept(&mut stale, lease.epoch), (refused.clone(), vec![]));
    let own = taken.iter().find(|own| own.partition == lease.partition);
    let epoch = own.unwrap().epoch;
    let made = vec![Outcome::Settled(true, None)];
    assert_eq!(kept(&mut other, epoch), (made, vec![done.clone()]));
    assert_eq!(kept(&mut other, epoch), (refused, vec![done.clone()]));
}
