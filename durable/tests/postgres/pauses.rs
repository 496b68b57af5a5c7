//! Promise: a pause holds on each node of a fleet, whoever has made it, and nothing is lost.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, until};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork_durable::{Delivery, Durable, HeldWhy, RuleFor};

const MS: Duration = Duration::from_millis(1);

/// The payloads that were handled, in their order, by node.
type Handled = Arc<Mutex<Vec<(u32, String)>>>;

fn node(schema: &Schema, number: u32, handled: &Handled) -> Durable {
    let handled = handled.clone();
    let builder = Durable::builder(schema.store());
    let builder = builder.on("mail", move |timer: &Delivery| {
        let payload = timer.payload_text().into_owned();
        handled.lock().unwrap().push((number, payload));
        Ok(())
    });
    builder.start().unwrap()
}

/// All partitions are owned, and each of this number of nodes has some.
fn shared_by(timers: &Durable, nodes: usize) {
    until("the nodes share the partitions", || {
        let fleet = timers.fleet().unwrap();
        let owners = fleet.nodes.iter().filter(|node| node.partitions > 0);
        let owned = fleet.partitions.iter().all(|part| part.owner.is_some());
        owned && owners.count() == nodes
    });
}

/// How many timers are paused, as the store has it.
fn paused(timers: &Durable) -> usize {
    let rows = timers.list(.., 10_000).unwrap();
    let held = rows.iter().filter_map(|row| row.held());
    held.filter(|held| held.why == HeldWhy::Paused).count()
}

fn count(handled: &Handled) -> usize {
    handled.lock().unwrap().len()
}

#[test]
fn a_pause_on_one_node_holds_on_all() {
    let Some(schema) = Schema::new("pauses") else {
        return;
    };
    let handled = Handled::default();
    let mut nodes = vec![node(&schema, 0, &handled), node(&schema, 1, &handled)];
    shared_by(&nodes[0], 2);
    assert!(nodes[0].kind("mail").pause().unwrap());
    // What falls due from now on is handed out by no node, however late it reads the rule.
    let due = 500 * MS;
    let arm = |timers: &Durable, from: u32| {
        let all = (from..from + 100).map(|number| ("mail", due + number * MS, format!("{number}")));
        timers.schedule_many(all).unwrap();
    };
    arm(&nodes[0], 0);
    arm(&nodes[1], 100);
    until("all are held", || paused(&nodes[0]) == 200);
    assert_eq!(count(&handled), 0);
    assert_eq!(nodes[1].unhandled().unwrap(), []);
    let rules = nodes[1].rules().unwrap();
    assert_eq!(rules[0].of, RuleFor::Kind("mail".into()));
    // A node that comes obeys it, and so do those that are left when one has gone.
    nodes.push(node(&schema, 2, &handled));
    shared_by(&nodes[2], 3);
    nodes.remove(0).stop().unwrap();
    shared_by(&nodes[0], 2);
    arm(&nodes[0], 200);
    until("these are held, too", || paused(&nodes[0]) == 300);
    assert_eq!(count(&handled), 0);
    until("the nodes count them", || {
        nodes.iter().map(|node| node.stats().paused).sum::<u64>() == 300
    });
    // The other node ends it.
    assert!(nodes[1].kind("mail").resume().unwrap());
    until("all are handled", || count(&handled) >= 300);
    let handled = handled.lock().unwrap();
    let mut times = BTreeMap::<&str, u32>::new();
    for (_, payload) in handled.iter() {
        *times.entry(payload).or_default() += 1;
    }
    assert_eq!(times.len(), 300);
    assert!(handled.iter().any(|(node, _)| *node == 1));
    assert!(handled.iter().any(|(node, _)| *node == 2));
    drop(handled);
    assert_eq!(paused(&nodes[0]), 0);
    for node in &nodes {
        node.stop().unwrap();
    }
}

/// One node hands out what has waited in the order of deadlines, of all its partitions.
#[test]
fn what_has_waited_goes_in_order() {
    let Some(schema) = Schema::new("pauses_order") else {
        return;
    };
    let (order, handled) = (Arc::<Mutex<Vec<SystemTime>>>::default(), Handled::default());
    let calls = order.clone();
    let timers = Durable::builder(schema.store())
        .on("mail", move |timer: &Delivery| {
            calls.lock().unwrap().push(timer.due());
            Ok(())
        })
        .max_calls("mail", std::num::NonZeroUsize::MIN)
        .start()
        .unwrap();
    timers.kind("mail").pause().unwrap();
    let all = (0..300_u32).rev().map(|number| ("mail", number * MS, ""));
    timers.schedule_many(all).unwrap();
    until("all are held", || paused(&timers) == 300);
    timers.kind("mail").resume().unwrap();
    until("all are handled", || order.lock().unwrap().len() == 300);
    let order = order.lock().unwrap();
    // (What is released together is found at once, and the first call has any of it.)
    let back = order.windows(2).filter(|two| two[0] > two[1]).count();
    assert!(back < 30, "{back} times a later one came before: {order:?}");
    assert_eq!(count(&handled), 0);
    drop(order);
    timers.stop().unwrap();
}

/// A program in another language, or an operator.
#[test]
fn a_statement_of_sql_pauses_a_fleet() {
    let Some(schema) = Schema::new("pauses_sql") else {
        return;
    };
    let handled = Handled::default();
    let timers = node(&schema, 0, &handled);
    // (The first rule is a node's.)
    assert!(timers.kind("x").pause().unwrap() && timers.kind("x").resume().unwrap());
    let mut client = schema.client();
    let mut call = |name: &str, text: &str| -> bool {
        let sql = schema.sql(&format!("SELECT {{s}}.wheelwork_{name}($1)"));
        client.query_one(&sql, &[&text]).unwrap().get(0)
    };
    assert!(call("pause_keys", "tenant-7/"));
    let due = 500 * MS;
    for tenant in [7, 8] {
        let key = format!("tenant-{tenant}/a");
        timers
            .key(&key)
            .schedule("mail", due, key.as_str())
            .unwrap();
    }
    until("the other one is handled", || count(&handled) == 1);
    until("it is held", || paused(&timers) == 1);
    assert!(call("resume_keys", "tenant-7/"));
    until("it is handled", || count(&handled) == 2);
    let handled = handled.lock().unwrap();
    let handled: Vec<_> = handled.iter().map(|(_, payload)| &**payload).collect();
    assert_eq!(handled, ["tenant-8/a", "tenant-7/a"]);
    timers.stop().unwrap();
}
