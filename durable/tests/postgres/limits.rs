//! Promise: a rate and a limit of calls hold over all nodes of a fleet.
//!
//! - Nodes share the tokens of a rate, and the calls of a limit. In any time `T`, in seconds, at
//!   most `burst + per_second * (T + 1)` timers begin.
//! - What a node had is free when it is gone.

use crate::all_may_go::AllMayGo;
use crate::own_schema::{Schema, until};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use wheelwork::Dispatch;
use wheelwork_durable::contract::{SharedStore, Store, Write};
use wheelwork_durable::{Durable, HeldWhy, Rate, Row, StoreTime};

const MS: Duration = Duration::from_millis(1);

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

#[test]
fn two_nodes_keep_to_a_rate() {
    let Some(schema) = Schema::new("rates") else {
        return;
    };
    let begun = Arc::new(Mutex::new(Vec::new()));
    let node = || {
        let begun = begun.clone();
        // (Threads of its own: handlers that wait here must not have those of other tests.)
        let threads = Dispatch::RayonThreads(4);
        let builder = Durable::builder(schema.store()).dispatch(threads);
        let builder = builder.on("mail", move |_| {
            begun.lock().unwrap().push(Instant::now());
            Ok(())
        });
        builder.start().unwrap()
    };
    let nodes = [node(), node()];
    until("both hand out", || {
        let fleet = nodes[0].fleet().unwrap();
        fleet.nodes.len() == 2 && fleet.nodes.iter().all(|node| node.partitions > 0)
    });
    let rate = Rate::new(40.0, count(5)).unwrap();
    assert!(nodes[0].kind("mail").set_rate(rate).unwrap());
    // (The other node knows it a moment later.)
    std::thread::sleep(Duration::from_secs(2));
    let timers = (0..200).map(|_| ("mail", 50 * MS, ""));
    nodes[0].schedule_many(timers.collect::<Vec<_>>()).unwrap();
    until("all have begun", || begun.lock().unwrap().len() == 200);
    let mut begun = begun.lock().unwrap().clone();
    begun.sort_unstable();
    for (first, from) in begun.iter().enumerate() {
        for (last, to) in begun.iter().enumerate().skip(first) {
            let seconds = (*to - *from).as_secs_f64();
            // (A thread may be held up before its handler's first instruction.)
            let most = 5.0 + 40.0 * (seconds + 1.5);
            let number = last - first + 1;
            assert!(number as f64 <= most, "{number} in {seconds} s");
        }
    }
    until("none is held", || {
        nodes.iter().all(|node| node.stats().limited == 0)
    });
    for node in &nodes {
        node.stop().unwrap();
    }
}

/// Handlers that wait, and how many do.
#[derive(Default)]
struct Open {
    now: AtomicU32,
    most: AtomicU32,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Open {
    fn call(&self) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        let is_over = self.is_over.lock().unwrap();
        let waited = self.over.wait_while(is_over, |is_over| !*is_over);
        drop(waited);
        self.now.fetch_sub(1, SeqCst);
    }

    fn end(&self) {
        *self.is_over.lock().unwrap() = true;
        self.over.notify_all();
    }
}

#[test]
fn two_nodes_share_calls_and_one_gets_those_of_the_other() {
    let Some(schema) = Schema::new("calls") else {
        return;
    };
    let opens = [Arc::new(Open::default()), Arc::new(Open::default())];
    let node = |open: &Arc<Open>| {
        let open = open.clone();
        // (Threads of its own: handlers that wait here must not have those of other tests.)
        let threads = Dispatch::RayonThreads(4);
        let builder = Durable::builder(schema.store()).dispatch(threads);
        let builder = builder.on("mail", move |_| {
            open.call();
            Ok(())
        });
        builder.start().unwrap()
    };
    let nodes = [node(&opens[0]), node(&opens[1])];
    until("both hand out", || {
        let fleet = nodes[0].fleet().unwrap();
        fleet.nodes.len() == 2 && fleet.nodes.iter().all(|node| node.partitions > 0)
    });
    assert!(nodes[0].kind("mail").set_calls(count(2)).unwrap());
    std::thread::sleep(Duration::from_secs(2));
    let timers = (0..40).map(|_| ("mail", 10 * MS, ""));
    let ids = nodes[0].schedule_many(timers.collect::<Vec<_>>()).unwrap();
    let now = |open: &Open| open.now.load(SeqCst);
    let sum = || now(&opens[0]) + now(&opens[1]);
    until("two are handled", || sum() == 2);
    let is_held = |&id: &wheelwork_durable::DurableId| {
        let row = nodes[0].get(id).unwrap();
        row.and_then(|row| row.held())
            .is_some_and(|held| held.why == HeldWhy::Limited)
    };
    until("the others are held", || {
        ids.iter().filter(|id| is_held(id)).count() == 38
    });
    assert_eq!(sum(), 2);
    // The handlers of one node end, and the node goes. The other one gets its calls, and its rows.
    opens[0].end();
    nodes[0].stop().unwrap();
    until("the other node has all calls", || now(&opens[1]) == 2);
    opens[1].end();
    until("all are handled", || {
        nodes[1].list(.., 1).unwrap().is_empty()
    });
    assert!(opens[1].most.load(SeqCst) <= 2);
    nodes[1].stop().unwrap();
}

/// Nodes on threads of their own, which note what they handle.
fn noting_nodes(schema: &Schema, handled: &[Arc<AtomicU32>], takes: Duration) -> Vec<Durable> {
    let node = |handled: &Arc<AtomicU32>| {
        let handled = handled.clone();
        let builder = Durable::builder(schema.store()).dispatch(Dispatch::RayonThreads(4));
        let builder = builder.on("other", |_| Ok(()));
        let builder = builder.on("mail", move |_| {
            std::thread::sleep(takes);
            handled.fetch_add(1, SeqCst);
            Ok(())
        });
        builder.start().unwrap()
    };
    let nodes: Vec<_> = handled.iter().map(node).collect();
    until("all hand out", || {
        let fleet = nodes[0].fleet().unwrap();
        fleet.nodes.len() == nodes.len() && fleet.nodes.iter().all(|node| node.partitions > 0)
    });
    nodes
}

#[test]
fn a_node_whose_calls_all_run_leaves_some_to_another_one() {
    let Some(schema) = Schema::new("calls_fair") else {
        return;
    };
    let handled = [Arc::default(), Arc::default()];
    let nodes = noting_nodes(&schema, &handled, 700 * MS);
    assert!(nodes[0].kind("mail").set_calls(NonZeroU32::MIN).unwrap());
    std::thread::sleep(Duration::from_secs(2));
    // (Timers without a key come into partitions of the node that arms them.)
    for node in &nodes {
        let timers = (0..100).map(|_| ("mail", 10 * MS, ""));
        node.schedule_many(timers.collect::<Vec<_>>()).unwrap();
    }
    let begun = Instant::now();
    until("both have handled three", || {
        handled.iter().all(|handled| handled.load(SeqCst) >= 3)
    });
    assert!(begun.elapsed() < Duration::from_secs(20));
    let sum: u32 = handled.iter().map(|handled| handled.load(SeqCst)).sum();
    assert!(sum <= 14, "neither has waited for the other: {sum}");
    for node in &nodes {
        node.cancel_kind("mail").unwrap();
        node.stop().unwrap();
    }
}

#[test]
fn a_user_who_changes_a_rule_keeps_no_other_timers_waiting() {
    let Some(schema) = Schema::new("calls_user") else {
        return;
    };
    let handled = [Arc::default()];
    let nodes = noting_nodes(&schema, &handled, Duration::ZERO);
    let rate = Rate::new(100.0, count(5)).unwrap();
    assert!(nodes[0].kind("mail").set_rate(rate).unwrap());
    assert!(nodes[0].kind("mail").set_calls(count(2)).unwrap());
    let mut client = schema.client();
    let mut users = client.transaction().unwrap();
    for call in [
        "pause('mail')",
        "set_rate('mail', 90, 5)",
        "set_calls('mail', 3)",
    ] {
        let call = schema.sql(&format!("SELECT {{s}}.wheelwork_{call}"));
        users.execute(&call, &[]).unwrap();
    }
    let timers = (0..20).map(|_| ("mail", 10 * MS, ""));
    nodes[0].schedule_many(timers.collect::<Vec<_>>()).unwrap();
    for _ in 0..20 {
        let begun = Instant::now();
        let id = nodes[0].schedule("other", 50 * MS, "").unwrap();
        until("it is handled", || nodes[0].get(id).unwrap().is_none());
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    users.rollback().unwrap();
    until("mail goes on", || handled[0].load(SeqCst) == 20);
    nodes[0].stop().unwrap();
}

#[test]
fn a_timer_that_a_user_has_locked_when_its_turn_comes_begins_later() {
    let Some(schema) = Schema::new("limits_locked") else {
        return;
    };
    let handled = [Arc::default()];
    let nodes = noting_nodes(&schema, &handled, 300 * MS);
    let mail = nodes[0].kind("mail");
    for is_rate in [true, false] {
        let begun = handled[0].load(SeqCst);
        if is_rate {
            mail.set_rate(Rate::new(1.0, NonZeroU32::MIN).unwrap())
                .unwrap();
        } else {
            mail.clear_rate().unwrap();
            mail.set_calls(NonZeroU32::MIN).unwrap();
        }
        let arm = |due: Duration| nodes[0].schedule("mail", due, "").unwrap();
        let _first = arm(Duration::ZERO);
        let second = arm(10 * MS);
        let is_held = || nodes[0].get(second).unwrap().unwrap().held().is_some();
        until("the second one waits", is_held);
        let mut client = schema.client();
        let mut users = client.transaction().unwrap();
        let lock = schema.sql("SELECT FROM {s}.timer FOR UPDATE");
        users.execute(&lock, &[]).unwrap();
        // (Its turn comes, and what it had of its limit is given back.)
        std::thread::sleep(Duration::from_secs(3));
        users.rollback().unwrap();
        until("both are handled", || handled[0].load(SeqCst) == begun + 2);
    }
    nodes[0].stop().unwrap();
}

#[test]
fn suspects_that_wait_for_a_limit_begin() {
    for is_rate in [true, false] {
        let Some(schema) = Schema::new("limits_suspects") else {
            return;
        };
        let node = &noting_nodes(&schema, &[Arc::default()], 300 * MS)[0];
        let mail = node.kind("mail");
        let rate = Rate::new(3.0, NonZeroU32::MIN).unwrap();
        let _ = match is_rate {
            true => mail.set_rate(rate).unwrap(),
            false => mail.set_calls(NonZeroU32::MIN).unwrap(),
        };
        node.stop().unwrap();
        let mut dies = schema.store();
        assert_eq!(dies.acquire().unwrap().len(), 256);
        let now = StoreTime::reading(SharedStore::clock(&dies).at_least());
        let mut row = || Row::new(dies.new_id(None, now), now, "mail".into(), [].into());
        let rows = (0..5).map(|_| Write::Arm(row())).collect();
        dies.commit(rows, &mut AllMayGo).unwrap();
        dies.hand_out(now.after(MS * 20)).unwrap();
        drop(dies);
        let handled = [Arc::default()];
        let node = &noting_nodes(&schema, &handled, 300 * MS)[0];
        until("all are handled", || handled[0].load(SeqCst) == 5);
        node.stop().unwrap();
    }
}
