//! Promise: in a fleet a timer whose kind its node does not know waits for a node that does.
//!
//! - A rolling update, and one that is taken back, make no dead letter, under load.
//! - A node without any handler owns nothing, and the others share all.

use crate::own_schema::{Schema, until};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_durable::{Cause, Delivery, Durable, HeldWhy};

const MS: Duration = Duration::from_millis(1);

/// How often each payload was handled. (Twice, where a lease has run out on a busy machine.)
type Handled = Arc<Mutex<BTreeMap<String, u32>>>;

/// A node that has these kinds.
fn node(schema: &Schema, kinds: &[&str], handled: &Handled) -> Durable {
    let mut builder = Durable::builder(schema.store());
    for kind in kinds {
        let handled = handled.clone();
        builder = builder.on(kind, move |timer: &Delivery| {
            let payload = timer.payload_text().into_owned();
            *handled.lock().unwrap().entry(payload).or_default() += 1;
            Ok(())
        });
    }
    builder.start().unwrap()
}

#[test]
fn a_deploy_and_a_rollback_bury_nothing() {
    let Some(schema) = Schema::new("deploys") else {
        return;
    };
    let (old, new) = (&["mail"][..], &["mail", "report"][..]);
    let handled = Handled::default();
    let mut nodes = vec![node(&schema, old, &handled), node(&schema, old, &handled)];
    // Programs that only arm, all the time.
    let (armed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let arms = Durable::builder(schema.store()).start().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                for kind in ["mail", "mail", "mail", "report"] {
                    let number = armed.fetch_add(1, SeqCst);
                    let delay = MS * (number % 500) as u32;
                    arms.schedule(kind, delay, format!("{number}")).unwrap();
                }
                thread::sleep(2 * MS);
            }
        });
        thread::sleep(500 * MS);
        // Updated one after the other; taken back; and updated again.
        for kinds in [new, old, new] {
            for place in &mut nodes {
                place.stop().unwrap();
                *place = node(&schema, kinds, &handled);
                thread::sleep(400 * MS);
            }
        }
        is_over.store(true, SeqCst);
    });
    let armed = armed.load(SeqCst);
    assert!(armed > 20, "{armed}");
    until("all are handled", || {
        let all = handled.lock().unwrap().len() as u64;
        let letters = arms.dead_letters(None, 9).unwrap();
        assert_eq!(letters, []);
        all == armed
    });
    assert_eq!(arms.unhandled().unwrap(), []);
    for node in &nodes {
        node.stop().unwrap();
    }
}

#[test]
fn it_waits_and_is_listed_and_dies_in_the_end() {
    let Some(schema) = Schema::new("waits") else {
        return;
    };
    let handled = Handled::default();
    let other = handled.clone();
    let timers = Durable::builder(schema.store())
        .on("mail", move |mail| {
            *other
                .lock()
                .unwrap()
                .entry(mail.payload_text().into_owned())
                .or_default() += 1;
            Ok(())
        })
        .bury_unhandled_after(Duration::from_secs(2))
        .start()
        .unwrap();
    let ids = ["a", "b", "c"].map(|name| timers.schedule("report", MS, name).unwrap());
    let key = timers.key("key");
    key.schedule("report", MS, "keyed").unwrap();
    until("all are held", || {
        timers
            .unhandled()
            .unwrap()
            .iter()
            .any(|kind| kind.rows == 4)
    });
    let row = timers.get(ids[0]).unwrap().unwrap();
    assert_eq!(row.held().unwrap().why, HeldWhy::Unhandled);
    assert_eq!(row.due, ids[0].first_due(), "its own deadline");
    let list = timers.list(.., 9).unwrap();
    assert_eq!(list.len(), 4);
    assert!(list.is_sorted_by_key(|row| row.due));
    assert!(timers.cancel(ids[0]).unwrap());
    key.schedule("mail", MS, "mail").unwrap();
    until("they are buried", || timers.stats().died == 2);
    let letters = timers.dead_letters(None, 9).unwrap();
    let causes: Vec<_> = letters.iter().map(|letter| &letter.cause).collect();
    assert_eq!(causes, [&Cause::UnknownKind, &Cause::UnknownKind]);
    assert!(
        letters
            .iter()
            .all(|letter| letter.row.due == letter.row.id.first_due())
    );
    until("the mail is sent", || handled.lock().unwrap().len() == 1);
    timers.stop().unwrap();
}

#[test]
fn a_node_that_looks_owns_nothing() {
    let Some(schema) = Schema::new("looks") else {
        return;
    };
    let handled = Handled::default();
    let looks = Durable::builder(schema.store()).start().unwrap();
    let id = looks.schedule("mail", MS, "mail").unwrap();
    thread::sleep(500 * MS);
    assert_eq!(looks.get(id).unwrap().unwrap().held(), None);
    let works = node(&schema, &["mail"], &handled);
    until("it owns all", || {
        let fleet = works.fleet().unwrap();
        let mut shares: Vec<_> = fleet.nodes.iter().map(|node| node.partitions).collect();
        shares.sort_unstable();
        shares == [0, 256]
    });
    until("the mail is sent", || handled.lock().unwrap().len() == 1);
    for timers in [looks, works] {
        timers.stop().unwrap();
    }
}

#[test]
fn the_node_that_has_the_kind_takes_it() {
    let Some(schema) = Schema::new("takes") else {
        return;
    };
    let handled = Handled::default();
    let mails = node(&schema, &["mail"], &handled);
    let both = node(&schema, &["mail", "report"], &handled);
    until("both own their share", || {
        let fleet = mails.fleet().unwrap();
        fleet.nodes.iter().all(|node| node.partitions == 128)
    });
    for number in 0..40 {
        let key = format!("report-{number}");
        mails
            .key(&key)
            .schedule("report", MS, key.as_str())
            .unwrap();
    }
    until("some wait", || {
        !mails.unhandled().unwrap().is_empty() || handled.lock().unwrap().len() == 40
    });
    let waiting = mails.unhandled().unwrap();
    let named = waiting.iter().all(|kind| kind.nodes.len() == 1);
    assert!(named, "the node that has it: {waiting:?}");
    // Other timers of these partitions are handled meanwhile.
    let begun = Instant::now();
    let mut mail = 0;
    until("all are handled", || {
        mail += 1;
        let key = format!("mail-{mail}");
        mails.key(&key).schedule("mail", MS, key.as_str()).unwrap();
        let handled = handled.lock().unwrap();
        handled
            .keys()
            .filter(|key| key.starts_with("report"))
            .count()
            == 40
    });
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    until("all mails are sent", || {
        handled.lock().unwrap().len() == 40 + mail
    });
    for timers in [mails, both] {
        timers.stop().unwrap();
    }
}

#[test]
fn kinds_of_two_nodes_alternate() {
    let Some(schema) = Schema::new("alternate") else {
        return;
    };
    let handled = Handled::default();
    let nodes = [
        node(&schema, &["mail"], &handled),
        node(&schema, &["report"], &handled),
    ];
    for number in 0..20 {
        for kind in ["mail", "report"] {
            let key = format!("{kind}-{number}");
            let delay = MS * 100 * number;
            nodes[0]
                .key(&key)
                .schedule(kind, delay, key.as_str())
                .unwrap();
        }
    }
    until("all are handled", || handled.lock().unwrap().len() == 40);
    assert_eq!(nodes[0].dead_letters(None, 9).unwrap(), []);
    for timers in nodes {
        timers.stop().unwrap();
    }
}
