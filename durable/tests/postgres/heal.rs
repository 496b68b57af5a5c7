//! Promise: a node whose database is away for longer than it is patient, or refuses a statement,
//! comes back by itself, and each timer is accounted for.
//!
//! - What was acknowledged is handled. What was refused as not stored never is.
//! - If its leases have not run out it goes on under them, and what its handlers have said
//!   meanwhile is stored. If they have, others take over, and what its handlers say is refused.
//! - A commit that has failed is not taken for a later one, and one that others have forgotten is
//!   not made again. Partitions that were being given back are not handed out.
//!
//! Each test has a schema of its own on a server (`common/server.rs`), and one has a server of its
//! own. Without one the tests are left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::server::OwnServer;
use crate::own_schema::{Schema, next, until};
use crate::proxy;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork_durable::contract::{Outcome, Store, Target, Write};
use wheelwork_durable::{
    Delivery, Durable, DurableBuilder, DurableError, HandlerResult, Postgres, Row, StoreTime,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What callers were told, by payload; and what was handled.
#[derive(Default)]
struct Accounts {
    acknowledged: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// They may be stored.
    unknown: BTreeSet<String>,
    next: u32,
    handled: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Accounts {
    /// A node that notes what it handles.
    fn node(&self, store: Postgres) -> Durable {
        let handled = self.handled.clone();
        let handle = move |mail: &Delivery| -> HandlerResult {
            let mut handled = handled.lock().unwrap();
            *handled.entry(mail.payload_text().into_owned()).or_default() += 1;
            Ok(())
        };
        Durable::builder(store).on("mail", handle).start().unwrap()
    }

    /// Arms a timer.
    fn schedule(&mut self, node: &Durable, delay: Duration) {
        self.next += 1;
        let name = self.next.to_string();
        let told = node.schedule("mail", delay, name.as_str());
        let names = match told {
            Ok(_) => &mut self.acknowledged,
            Err(DurableError::Unavailable { .. }) => &mut self.refused,
            Err(DurableError::Store(_)) => &mut self.unknown,
            Err(error) => panic!("{error:?}"),
        };
        names.insert(name);
    }

    /// Waits until all that was acknowledged is handled. Nothing is handled that was refused, and
    /// what was handled more often than `often` is a mistake.
    fn settle(&self, often: u32) {
        until("all are handled", || {
            let handled = self.handled.lock().unwrap();
            self.acknowledged
                .iter()
                .all(|name| handled.contains_key(name))
        });
        let handled = self.handled.lock().unwrap();
        for (name, count) in &*handled {
            assert!(*count <= often, "{name} was handled {count} times");
            assert!(
                !self.refused.contains(name),
                "{name} was refused, and stored"
            );
        }
    }
}

fn is_away(node: &Durable) -> bool {
    !node.health().is_ready()
}

/// A node whose handlers say that they have begun, with their fences, and end when they are told
/// to.
struct Slow {
    begun: Receiver<(String, u64)>,
    end: Sender<()>,
}

fn slow(store: Postgres) -> (DurableBuilder<Postgres>, Slow) {
    let (begins, begun) = channel();
    let (end, ended) = channel();
    let ended = Mutex::new(ended);
    let handle = move |mail: &Delivery| -> HandlerResult {
        begins.send((mail.payload_text().into_owned(), mail.fence()))?;
        ended.lock().unwrap().recv()?;
        Ok(())
    };
    let builder = Durable::builder(store).on("mail", handle);
    (builder, Slow { begun, end })
}

#[test]
fn a_database_is_away_for_longer_than_the_node_is_patient() {
    let Some(schema) = Schema::new("away") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let store = schema.builder(&database).patience(SECOND);
    let mut accounts = Accounts::default();
    let node = accounts.node(store.connect().unwrap());
    for number in 0..50 {
        accounts.schedule(&node, MS * 40 * number);
    }
    until("it listens", || seen.listening() == 1);
    seen.set_away(true);
    accounts.schedule(&node, MS);
    until("the node has noticed it", || is_away(&node));
    assert!(node.failure().is_some() && node.stats().down);
    accounts.schedule(&node, MS);
    let (unknown, refused) = (accounts.unknown.len(), accounts.refused.len());
    assert!(unknown + refused == 2 && refused >= 1, "{unknown}");
    until("it was tried in vain", || {
        let health = node.health();
        health.outage.is_some_and(|outage| outage.tries > 1)
    });
    seen.set_away(false);
    until("it is back", || !is_away(&node));
    let (_, lasted) = node.health().last_outage.unwrap();
    assert!(lasted > MS * 100, "{lasted:?}");
    assert!(seen.listening() >= 2, "it listens again");
    for number in 0..50 {
        accounts.schedule(&node, MS * 5 * number);
    }
    assert_eq!(accounts.acknowledged.len(), 100);
    accounts.settle(1);
    assert_eq!(node.stats().outages, 1);
    node.stop().unwrap();
}

/// Its leases last for longer than the table is away.
#[test]
fn a_table_is_renamed_and_comes_back() {
    let Some(schema) = Schema::new("renamed") else {
        return;
    };
    let store = schema.builder(&schema.database).lease(SECOND * 60);
    let (builder, slow) = slow(store.connect().unwrap());
    let (told, back) = channel();
    let node = builder
        .on_store_back(move |lasted| told.send(lasted).unwrap())
        .start()
        .unwrap();
    node.key("a").schedule("mail", Duration::ZERO, "a").unwrap();
    let (name, fence) = next(&slow.begun);
    assert_eq!(name, "a");
    let rename = |from: &str, to: &str| {
        let rename = schema.sql(&format!("ALTER TABLE {{s}}.{from} RENAME TO {to}"));
        schema.client().batch_execute(&rename).unwrap();
    };
    rename("timer", "timer_that_was");
    until("the node has noticed it", || is_away(&node));
    let outage = node.health().outage.unwrap();
    assert!(outage.why.to_string().contains("does not exist"));
    // Its handler ends meanwhile.
    slow.end.send(()).unwrap();
    thread::sleep(MS * 300);
    assert!(is_away(&node));
    rename("timer_that_was", "timer");
    next(&back);
    until("what it has said is stored", || node.stats().done == 1);
    // (The partition of a key: the same lease.)
    node.key("a").schedule("mail", Duration::ZERO, "b").unwrap();
    assert_eq!(next(&slow.begun), ("b".to_owned(), fence));
    slow.end.send(()).unwrap();
    until("all is stored", || node.stats().done == 2);
    let stats = node.stats();
    assert_eq!((stats.stale, stats.outages), (0, 1), "{stats:?}");
    assert_eq!(node.list(.., 10).unwrap(), []);
    let nodes = schema.sql("SELECT count(*) FROM {s}.node");
    let nodes: i64 = schema.client().query_one(&nodes, &[]).unwrap().get(0);
    assert_eq!(nodes, 1, "it is the same node");
    node.stop().unwrap();
}

#[test]
fn what_a_handler_says_under_a_lease_that_another_node_has_is_refused() {
    let Some(schema) = Schema::new("taken_over") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let store = schema.builder(&database).patience(MS * 500);
    let (builder, slow) = slow(store.connect().unwrap());
    let node = builder.start().unwrap();
    let id = node.schedule("mail", Duration::ZERO, "both").unwrap();
    assert_eq!(next(&slow.begun).0, "both");
    seen.set_away(true);
    until("the node has noticed it", || is_away(&node));
    let mut accounts = Accounts::default();
    let other = accounts.node(schema.store());
    until("the other one takes over", || {
        accounts.handled.lock().unwrap().contains_key("both")
    });
    until("that is stored", || other.stats().done == 1);
    slow.end.send(()).unwrap();
    for number in 0..20 {
        accounts.schedule(&other, MS * 20 * number);
    }
    assert!(is_away(&node));
    seen.set_away(false);
    until("it is back", || !is_away(&node));
    until("its handler is refused", || node.stats().stale == 1);
    assert_eq!(node.stats().done, 0);
    assert_eq!(node.get(id).unwrap(), None);
    accounts.settle(1);
    until("they share", || {
        let fleet = node.fleet().unwrap();
        let shares: Vec<_> = fleet.nodes.iter().map(|node| node.partitions).collect();
        shares == [128, 128]
    });
    other.stop().unwrap();
    // What is left is the first one's.
    node.schedule("mail", Duration::ZERO, "alone").unwrap();
    assert_eq!(next(&slow.begun).0, "alone");
    slow.end.send(()).unwrap();
    node.stop().unwrap();
}

/// With no patience at all a cut in a transaction is a failure.
#[test]
fn connections_are_cut_again_and_again() {
    let Some(schema) = Schema::new("cut") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let store = schema.builder(&database).patience(Duration::ZERO);
    let mut accounts = Accounts::default();
    let node = accounts.node(store.connect().unwrap());
    let mut outages = 0;
    for number in 1..=60 {
        accounts.schedule(&node, MS * (number % 7));
        if number % 15 == 0 {
            // (Between two transactions a node makes its connection anew, and nothing fails.)
            until("the node has noticed it", || {
                seen.cut_all();
                accounts.schedule(&node, MS * 3);
                node.stats().outages > outages
            });
            outages = node.stats().outages;
            until("it is back", || !is_away(&node));
        }
    }
    assert!(outages >= 4, "{outages}");
    until("it is back", || !is_away(&node));
    // (A lease that lasts a second may run out, on a busy machine.)
    accounts.settle(10);
    node.stop().unwrap();
}

/// Two nodes, and timers are armed meanwhile.
#[test]
fn a_server_is_killed_and_started_again() {
    let Some(mut server) = OwnServer::start() else {
        return;
    };
    let store = || {
        Postgres::builder(&server.database)
            .lease(SECOND)
            .patience(MS * 700)
            .connect()
            .unwrap()
    };
    let mut accounts = Accounts::default();
    let nodes = [accounts.node(store()), accounts.node(store())];
    for _ in 0..2 {
        for number in 0..60 {
            accounts.schedule(&nodes[number % 2], MS * 50);
        }
        let outages = nodes.each_ref().map(|node| node.stats().outages);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(MS * 50);
                server.kill();
            });
            until("both have noticed it", || {
                for node in &nodes {
                    accounts.schedule(node, MS * 30);
                }
                let mut all = nodes.iter().zip(outages);
                all.all(|(node, before)| node.stats().outages > before)
            });
        });
        // (On a busy machine an outage may have been over before the server's end.)
        until("both are away", || nodes.iter().all(is_away));
        for node in &nodes {
            accounts.schedule(node, MS);
        }
        server.start_again();
        until("both are back", || !nodes.iter().any(is_away));
    }
    assert!(accounts.acknowledged.len() > 100);
    assert!(accounts.refused.len() >= 4);
    // (Its lease may have ended while it was handled: twice.)
    accounts.settle(3);
    for node in nodes {
        node.stop().unwrap();
    }
}

/// The answer to the commit is lost, and nobody asks again.
#[test]
fn a_commit_that_has_failed_is_not_taken_for_the_next_one() {
    let Some(schema) = Schema::new("number") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let builder = schema.builder(&database).patience(Duration::ZERO);
    let mut store = builder.lease(SECOND * 60).connect().unwrap();
    let leases = store.acquire().unwrap();
    let due = StoreTime::from_millis(1_900_000_000_000);
    let row = |store: &mut Postgres| {
        let id = store.new_id(None, due);
        Row::new(id, due, "mail".into(), b"".as_slice().into())
    };
    seen.lose_answer_to("COMMIT");
    let lost = row(&mut store);
    let arm = vec![Write::Arm(lost.clone())];
    store.commit(arm, &mut AllMayGo).unwrap_err();
    assert!(store.get(&Target::Id(lost.id)).is_err(), "it has failed");
    assert_eq!(store.reopen().unwrap(), leases, "it goes on");
    // It was made.
    until("the server has made it", || {
        store.get(&Target::Id(lost.id)).unwrap().is_some()
    });
    for _ in 0..3 {
        let next = row(&mut store);
        let arm = vec![Write::Arm(next.clone())];
        let outcomes = store.commit(arm, &mut AllMayGo).unwrap();
        assert!(matches!(outcomes[..], [Outcome::Armed(_)]), "{outcomes:?}");
        assert!(store.get(&Target::Id(next.id)).unwrap().is_some());
    }
}

/// Its machine was suspended between the commit and the answer, for more than an hour. Others have
/// found the node dead, and have forgotten it and the numbers of its commits.
#[test]
fn a_commit_that_others_have_forgotten_is_not_made_again() {
    let Some(schema) = Schema::new("forgotten") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let builder = schema.builder(&database).lease(SECOND * 60);
    let mut store = builder.connect().unwrap();
    store.acquire().unwrap();
    let due = StoreTime::from_millis(1_900_000_000_000);
    let id = store.new_id(None, due);
    let row = Row::new(id, due, "mail".into(), b"".as_slice().into());
    let arm = vec![Write::Arm(row)];
    let mut other = schema.store();
    seen.lose_answer_to("COMMIT");
    seen.set_slow(true);
    let told = thread::scope(|scope| {
        let commit = scope.spawn(|| store.commit(arm, &mut AllMayGo));
        until("it connects anew", || seen.waited() > 0);
        until("the server has made it", || {
            other.get(&Target::Id(id)).unwrap().is_some()
        });
        let dead = "UPDATE {s}.node SET dead = true, until = now() - interval '2 hours'";
        schema.client().batch_execute(&schema.sql(dead)).unwrap();
        // (The first renewal of a node forgets such nodes.)
        assert_eq!(other.acquire().unwrap().len(), 256);
        let cancel = vec![Write::Cancel(Target::Id(id))];
        let outcomes = other.commit(cancel, &mut AllMayGo).unwrap();
        assert_eq!(outcomes, [Outcome::Cancelled(Some(id))]);
        seen.set_slow(false);
        commit.join().unwrap()
    });
    assert!(told.is_err(), "{told:?}");
    let row = other.get(&Target::Id(id)).unwrap();
    assert_eq!(row, None, "it stays cancelled");
    store.reopen().unwrap();
}

/// The database may give them back at any time from then on.
#[test]
fn a_node_that_was_giving_partitions_back_comes_under_a_new_name() {
    let Some(schema) = Schema::new("giving") else {
        return;
    };
    let builder = schema.builder(&schema.database).lease(SECOND * 60);
    let mut store = builder.connect().unwrap();
    let leases = store.acquire().unwrap();
    assert_eq!(store.reopen().unwrap(), leases, "nothing has happened");
    let mut client = schema.client();
    let mut rename = |from: &str, to: &str| {
        let rename = schema.sql(&format!("ALTER TABLE {{s}}.{from} RENAME TO {to}"));
        client.batch_execute(&rename).unwrap();
    };
    rename("lease", "lease_that_was");
    let shared = store.shared().unwrap();
    shared.give_back(&leases[..1]).unwrap_err();
    store.reopen().unwrap_err();
    rename("lease_that_was", "lease");
    assert_eq!(
        store.reopen().unwrap(),
        [],
        "its former leases have not ended"
    );
    let nodes = schema.sql("SELECT count(*) FROM {s}.node");
    let nodes: i64 = schema.client().query_one(&nodes, &[]).unwrap().get(0);
    assert_eq!(nodes, 2);
}

/// It works on a connection of its own, which works on.
#[test]
fn a_handler_in_a_transaction_ends_while_the_store_is_away() {
    let Some(schema) = Schema::new("in_transaction") else {
        return;
    };
    let store = schema.builder(&schema.database).lease(SECOND * 60);
    let store = store.connect().unwrap();
    let work = "CREATE TABLE {s}.work (name text)";
    schema.client().batch_execute(&schema.sql(work)).unwrap();
    let (begins, begun) = channel();
    let (end, ended) = channel::<()>();
    let (insert, ended) = (
        schema.sql("INSERT INTO {s}.work VALUES ($1)"),
        Mutex::new(ended),
    );
    let node = Durable::builder(store)
        .on_in_transaction("work", move |work, transaction| {
            let name = work.payload_text().into_owned();
            transaction.execute(&insert, &[&name])?;
            begins.send(name)?;
            ended.lock().unwrap().recv()?;
            Ok(())
        })
        .start()
        .unwrap();
    node.schedule("work", Duration::ZERO, "before").unwrap();
    assert_eq!(next(&begun), "before");
    let mut client = schema.client();
    let mut rename = |from: &str, to: &str| {
        let rename = schema.sql(&format!("ALTER TABLE {{s}}.{from} RENAME TO {to}"));
        client.batch_execute(&rename).unwrap();
    };
    rename("watermark", "watermark_that_was");
    // It is armed, and then cannot be claimed.
    node.schedule("work", MS * 100, "after").unwrap();
    until("the node has noticed it", || is_away(&node));
    end.send(()).unwrap();
    let done = schema.sql("SELECT name FROM {s}.work ORDER BY name");
    let mut others = schema.client();
    let mut done = || -> Vec<String> {
        let done = others.query(&done, &[]).unwrap();
        done.iter().map(|row| row.get(0)).collect()
    };
    until("its transaction is committed", || !done().is_empty());
    assert!(is_away(&node) && begun.try_recv().is_err());
    rename("watermark_that_was", "watermark");
    assert_eq!(next(&begun), "after");
    end.send(()).unwrap();
    until("both are counted", || node.stats().done == 2);
    assert_eq!(done(), ["after", "before"], "each once");
    assert_eq!(node.stats().stale, 0);
    node.stop().unwrap();
}

#[test]
fn a_store_that_is_not_to_heal_stays_away() {
    let Some(schema) = Schema::new("stays") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let store = schema.builder(&database).patience(MS * 100).connect();
    let node = Durable::builder(store.unwrap())
        .heals(false)
        .start()
        .unwrap();
    seen.set_away(true);
    until("the node has noticed it", || is_away(&node));
    seen.set_away(false);
    thread::sleep(MS * 500);
    let outage = node.health().outage.unwrap();
    assert_eq!((outage.next_try, outage.tries), (None, 0));
    let error = node.schedule("mail", MS, "").unwrap_err();
    assert!(matches!(error, DurableError::Store(_)), "{error:?}");
}

/// The first host accepts connections and says nothing, as one does whose disk hangs.
#[test]
fn a_host_that_says_nothing_is_passed_over_by_all_connections_of_a_node() {
    let Some(schema) = Schema::new("silent") else {
        return;
    };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let (database, seen) = proxy::to(&schema.database);
    let config: postgres::Config = database.parse().unwrap();
    let port = config.get_ports()[0];
    // (The server has much longer than it needs.)
    let database = database
        .replace("host=127.0.0.1", "host=127.0.0.1,127.0.0.1")
        .replace(
            &format!("port={port}"),
            &format!("port={silent_port},{port}"),
        );
    let store = schema
        .builder(&format!("{database} connect_timeout=4"))
        .connect()
        .unwrap();
    let node = Durable::builder(store)
        .on_in_transaction("mail", |_, _| Ok(()))
        .start()
        .unwrap();
    node.schedule("mail", MS, "").unwrap();
    until("it is handled", || node.stats().done == 1);
    until("it listens", || seen.listening() == 1);
    node.stop().unwrap();
}
