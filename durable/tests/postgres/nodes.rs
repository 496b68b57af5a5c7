//! Promise: durable timers keep their word where nodes share a PostgreSQL.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::{Schema, next, until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{
    Lease, Outcome, Position, Settled, SharedStore, SliceLimit, Store, Target, TrialBegun, Write,
};
use wheelwork_durable::{
    Delivery, Durable, DurableError, HandlerResult, Postgres, RetryPolicy, Row, StoreError,
    StoreTime,
};

const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

/// A row of the store's, due at this time.
fn row(store: &mut Postgres, due: StoreTime, payload: &str) -> Row {
    let id = store.new_id(None, due);
    Row::new(id, due, "mail".into(), payload.as_bytes().into())
}

#[test]
fn twenty_nodes_start_at_once_and_share() {
    let Some(schema) = Schema::new("twenty") else {
        return;
    };
    let (send, handled) = channel();
    let nodes: Vec<Durable> = thread::scope(|scope| {
        let start = || scope.spawn(|| schema.node(&send));
        let threads: Vec<_> = (0..20).map(|_| start()).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for (number, node) in nodes.iter().enumerate() {
        node.schedule("mail", MS * 100, format!("{number}"))
            .unwrap();
        let key = format!("key-{number}");
        node.key(&key)
            .schedule("mail", MS * 100, key.as_str())
            .unwrap();
    }
    let mut got: Vec<_> = (0..40).map(|_| next(&handled)).collect();
    got.sort();
    got.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(got.len(), 40, "each once");
    until("all own their share", || {
        let fleet = nodes[0].fleet().unwrap();
        let shares: Vec<_> = fleet.nodes.iter().map(|node| node.partitions).collect();
        shares.len() == 20 && shares.iter().all(|&share| share <= 13) && {
            fleet.partitions.iter().all(|part| part.owner.is_some())
        }
    });
    assert_eq!(
        nodes[3]
            .fleet()
            .unwrap()
            .nodes
            .iter()
            .filter(|node| node.is_this)
            .count(),
        1
    );
    for node in &nodes {
        node.stop().unwrap();
    }
}

#[test]
fn timers_of_a_node_that_stops_fire_elsewhere() {
    let Some(schema) = Schema::new("stops") else {
        return;
    };
    let (send, handled) = channel();
    let (one, other) = (schema.node(&send), schema.node(&send));
    for number in 0..200 {
        let timers = if number % 2 == 0 { &one } else { &other };
        let delay = MS * (500 + number * 5);
        timers.schedule("mail", delay, format!("{number}")).unwrap();
    }
    one.stop().unwrap();
    assert!(matches!(
        one.schedule("mail", MS, ""),
        Err(DurableError::Stopped)
    ));
    let mut seen = BTreeMap::new();
    for _ in 0..200 {
        let (payload, attempt) = next(&handled);
        *seen.entry(payload).or_insert(0) += attempt;
    }
    assert!(
        seen.len() == 200 && seen.values().all(|&attempts| attempts == 1),
        "{seen:?}"
    );
    other.stop().unwrap();
    assert!(handled.try_recv().is_err(), "nothing is handled twice");
}

#[test]
fn a_node_that_leaves_is_counted_no_more() {
    let Some(schema) = Schema::new("leaves") else {
        return;
    };
    let (mut leaves, mut stays) = (schema.store(), schema.store());
    leaves.handles(&["mail".into()]);
    assert_eq!(leaves.acquire().unwrap().len(), 256);
    stays.handles(&["other".into()]);
    assert_eq!(stays.acquire().unwrap(), []);
    let kinds = |store: &mut Postgres| store.node_kinds().unwrap().len();
    assert_eq!(kinds(&mut stays), 2);
    leaves.handles(&[]);
    let news = SharedStore::renew(&mut leaves).unwrap();
    assert_eq!((news.surplus, news.lost.len()), (256, 0));
    assert_eq!(kinds(&mut stays), 1, "nothing is given away to it");
    let own: Vec<_> = (0..256).collect();
    let epoch = 1;
    let lease = |partition| Lease { partition, epoch };
    let own: Vec<_> = own.into_iter().map(lease).collect();
    leaves.give_back(&own).unwrap();
    assert_eq!(SharedStore::renew(&mut stays).unwrap().taken.len(), 256);
    let again = SharedStore::renew(&mut leaves).unwrap();
    assert_eq!((again.taken.len(), again.surplus), (0, 0));
}

/// Each in a partition of its own.
#[test]
fn timers_of_a_node_that_stops_do_not_wait_for_its_handlers() {
    let Some(schema) = Schema::new("stops_slowly") else {
        return;
    };
    let (send, handled) = channel();
    let (begins, begun) = channel();
    let (end, ends) = channel::<()>();
    let ends = Mutex::new(ends);
    let mails = send.clone();
    let one = Durable::builder(schema.store())
        .on("slow", move |_| {
            begins.send(()).unwrap();
            // It ends when nobody has the other end any more.
            _ = ends.lock().unwrap().recv();
            Ok(())
        })
        .on("mail", move |mail| {
            let payload = mail.payload_text().into_owned();
            Ok(mails.send((payload, mail.attempt()))?)
        })
        .start()
        .unwrap();
    let other = schema.node(&send);
    until("they share", || {
        let fleet = other.fleet().unwrap();
        fleet.nodes.len() == 2 && fleet.nodes.iter().all(|node| node.partitions == 128)
    });
    one.schedule("slow", Duration::ZERO, "").unwrap();
    begun.recv().unwrap();
    for number in 0..100 {
        one.schedule("mail", MS * 1_500, format!("{number}"))
            .unwrap();
    }
    thread::scope(|scope| {
        let stop = scope.spawn(|| one.stop());
        let seen: BTreeSet<_> = (0..100).map(|_| next(&handled)).collect();
        assert_eq!(seen.len(), 100);
        assert!(!stop.is_finished(), "the handler runs");
        drop(end);
        stop.join().unwrap().unwrap();
    });
    other.stop().unwrap();
}

#[test]
fn what_a_node_that_died_may_have_handed_out_is_suspect() {
    let Some(schema) = Schema::new("died") else {
        return;
    };
    let mut dies = schema.store();
    assert_eq!(dies.acquire().unwrap().len(), 256);
    let now = StoreTime::reading(SharedStore::clock(&dies).at_least());
    let soon = row(&mut dies, now.after(MS * 10), "claimed");
    let later = row(&mut dies, now.after(MS * 2_000), "not claimed");
    let writes = [&soon, &later].map(|row| Write::Arm(row.clone()));
    dies.commit(writes.into(), &mut AllMayGo).unwrap();
    dies.hand_out(now.after(MS * 20)).unwrap();
    // No node may cancel it any more, and any node the other one.
    let mut other = schema.store();
    assert_eq!(other.acquire().unwrap(), []);
    let refused = Write::Cancel(Target::Id(soon.id));
    let outcomes = other.commit(vec![refused], &mut AllMayGo).unwrap();
    assert_eq!(outcomes, [Outcome::Cancelled(None)]);
    drop(dies);
    // Another node takes the partitions over.
    let mut epochs = BTreeMap::new();
    while epochs.len() < 256 {
        let taken = SharedStore::renew(&mut other).unwrap().taken;
        epochs.extend(taken.iter().map(|lease| (lease.partition, lease.epoch)));
        thread::sleep(MS * 20);
    }
    let all: Vec<_> = (0..256).collect();
    let seen = |store: &mut Postgres| -> Vec<_> {
        let limit = SliceLimit::rows(10);
        let rows = store.load_many(&all, Position::MIN, StoreTime::MAX, limit);
        let rows = rows.unwrap().into_iter();
        rows.map(|row| (row.suspect, row.crashes, row.attempts))
            .collect()
    };
    assert_eq!(seen(&mut other), [(true, 0, 0), (false, 0, 0)]);
    let begin = |row: &Row, epoch| Write::Begin {
        of: Settled {
            id: row.id,
            due: row.due,
            epoch,
        },
        crashes: 1,
    };
    let epoch = epochs[&soon.id.partition()];
    let writes = vec![begin(&soon, epoch - 1), begin(&soon, epoch)];
    let outcomes = other.commit(writes, &mut AllMayGo).unwrap();
    let begun = [TrialBegun::Refused, TrialBegun::Noted].map(Outcome::Begun);
    assert_eq!(outcomes, begun);
    assert_eq!(seen(&mut other), [(true, 1, 0), (false, 0, 0)]);
    // What was suspect is so on the next node, too, though it was given back.
    other.release().unwrap();
    drop(other);
    let mut next_node = schema.store();
    assert_eq!(next_node.acquire().unwrap().len(), 256);
    assert_eq!(seen(&mut next_node), [(true, 1, 0), (false, 0, 0)]);
    next_node.release().unwrap();
    drop(next_node);
    let (send, handled) = channel();
    let node = schema.node(&send);
    // (The suspect goes alone, a second later.)
    let mut both = [next(&handled), next(&handled)];
    both.sort();
    assert_eq!(both[0], ("claimed".to_owned(), 1));
    assert_eq!(both[1], ("not claimed".to_owned(), 1));
    node.stop().unwrap();
}

/// What two nodes say to these changes of one dead letter, at once.
fn at_once(nodes: &mut [Postgres; 2], writes: [Write; 2]) -> Vec<Outcome> {
    let both = Barrier::new(2);
    thread::scope(|scope| {
        let calls: Vec<_> = nodes
            .iter_mut()
            .zip(writes)
            .map(|(node, write)| {
                let both = &both;
                scope.spawn(move || {
                    both.wait();
                    node.commit(vec![write], &mut AllMayGo).unwrap()
                })
            })
            .collect();
        let said = calls.into_iter().flat_map(|call| call.join().unwrap());
        said.collect()
    })
}

#[test]
fn a_dead_letter_is_revived_or_discarded_by_one_of_several_nodes() {
    let Some(schema) = Schema::new("revived") else {
        return;
    };
    let mut nodes = [schema.store(), schema.store()];
    let mut user = schema.client();
    let insert = schema.sql(
        "INSERT INTO {s}.dead (id, due, kind, payload, attempts, crashes, cause, why, since)
            VALUES ($1::text::uuid, 0, 'mail', '', 1, 0, 1, 'no', 0)",
    );
    for number in 0..200 {
        let id = nodes[0].new_id(None, StoreTime::MIN);
        user.execute(&insert, &[&id.to_string()]).unwrap();
        let revive = Write::Revive(id, StoreTime::MAX);
        let other = match number % 2 {
            0 => revive.clone(),
            _ => Write::Discard(id),
        };
        let said = at_once(&mut nodes, [revive, other]);
        let made = |outcome: &&Outcome| {
            matches!(
                outcome,
                Outcome::Revived(Some(_)) | Outcome::Discarded(true)
            )
        };
        assert_eq!(said.iter().filter(made).count(), 1, "{said:?}");
        let row = Store::get(&mut nodes[0], &Target::Id(id)).unwrap();
        let is_revived = said
            .iter()
            .any(|of| matches!(of, Outcome::Revived(Some(_))));
        assert_eq!(row.is_some(), is_revived);
    }
}

/// A transaction that ends late may leave a timer behind that has been overdue for long, and a
/// rollback tells nobody.
#[test]
fn what_has_been_overdue_for_long_is_found_before_what_comes_later() {
    let Some(schema) = Schema::new("overdue") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut ids = schema.store();
    let mut user = schema.client();
    let insert = schema.sql(
        "INSERT INTO {s}.timer (part, due, id, kind, payload, attempts, crashes, superseded, moved,
                epoch)
            SELECT $1, (extract(epoch FROM now()) * 1000)::bigint - $2, $3::text::uuid, 'mail',
                convert_to($4, 'UTF8'), 0, 0, false, true, 0",
    );
    let mut put_in = |overdue_ms: i64, text: &str| {
        let id = ids.new_id(None, StoreTime::MIN);
        let part = i16::try_from(id.partition()).unwrap();
        user.execute(&insert, &[&part, &overdue_ms, &id.to_string(), &text])
            .unwrap();
    };
    for _ in 0..3 {
        put_in(60_000, "overdue");
        // (However the node is scheduled: if it finds both at once, this one is older.)
        thread::sleep(MS * 2_500);
        put_in(1_000, "later");
        let order = [next(&handled).0, next(&handled).0];
        assert_eq!(order, ["overdue", "later"]);
    }
    node.stop().unwrap();
}

#[test]
fn a_timer_dies_though_there_is_a_dead_letter_of_its_id() {
    let Some(schema) = Schema::new("dead_twice") else {
        return;
    };
    let (send, told) = channel();
    let node = Durable::builder(schema.store())
        .on("mail", |_: &Delivery| -> HandlerResult { Err("no".into()) })
        .retry_policy(RetryPolicy::new().attempts(1))
        .on_dead(move |letter| _ = send.send(letter.row.id))
        .start()
        .unwrap();
    let id = node.schedule("mail", MS * 2_000, "").unwrap();
    let insert = schema.sql(
        "INSERT INTO {s}.dead (id, due, kind, payload, attempts, crashes, cause, why, since)
            VALUES ($1::text::uuid, 0, 'mail', '', 1, 0, 1, 'no', 0)",
    );
    schema
        .client()
        .execute(&insert, &[&id.to_string()])
        .unwrap();
    assert_eq!(next(&told), id);
    assert_eq!(node.get(id).unwrap(), None);
    node.stop().unwrap();
}

#[test]
fn a_stale_node_is_refused() {
    let Some(schema) = Schema::new("stale") else {
        return;
    };
    let mut stale = schema.store();
    let leases = stale.acquire().unwrap();
    let now = StoreTime::reading(SharedStore::clock(&stale).at_least());
    let row = row(&mut stale, now, "mail");
    let lease = leases[usize::from(row.id.partition())];
    let writes = vec![Write::Arm(row.clone())];
    stale.commit(writes, &mut AllMayGo).unwrap();
    stale.hand_out(now.after(MS)).unwrap();
    let of = Settled {
        id: row.id,
        due: row.due,
        epoch: lease.epoch,
    };
    // Its leases run out, and another node takes them.
    let mut other = schema.store();
    other.acquire().unwrap();
    let mut taken = Vec::new();
    until("the leases are taken", || {
        taken.extend(SharedStore::renew(&mut other).unwrap().taken);
        taken
            .iter()
            .any(|taken| taken.partition == row.id.partition())
    });
    let ack = Write::Ack {
        of: of.clone(),
        next: None,
    };
    let retry = Write::Retry {
        of,
        at: now,
        attempts: 3,
        crashes: 0,
    };
    for write in [ack, retry] {
        let outcomes = stale.commit(vec![write], &mut AllMayGo).unwrap();
        assert_eq!(outcomes, [Outcome::Settled(false, None)]);
    }
    let lost = SharedStore::renew(&mut stale).unwrap().lost;
    assert!(lost.contains(&lease.partition), "{lost:?}");
    let loaded = Store::get(&mut other, &Target::Id(row.id))
        .unwrap()
        .unwrap();
    assert_eq!((loaded.due, loaded.attempts), (row.due, 0));
}

#[test]
fn what_cannot_be_opened_says_why_in_a_line() {
    let wrong = [
        (
            "host=127.0.0.1 port=1 user=shop",
            "PostgreSQL at 127.0.0.1, port 1: ",
        ),
        ("user=shop", "the connection string has no host"),
        ("host", "the connection string makes no sense"),
        ("hots=localhost", "unknown option `hots`"),
        ("host=localhost port=abc", "`port`"),
    ];
    for (config, says) in wrong {
        let error = Postgres::connect(config).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
    }
    for name in ["", "Shop", "1shop", "shop;"] {
        let error = Postgres::builder("host=127.0.0.1")
            .schema(name)
            .connect()
            .unwrap_err();
        assert!(
            error.to_string().contains("a schema has up to 50"),
            "{error}"
        );
    }
    let nul = Postgres::builder("host=127.0.0.1").node_name("a\0b");
    let nul = nul.connect().unwrap_err().to_string();
    assert!(nul.contains("the name of a node has a NUL"), "{nul}");
    let short = Postgres::builder("host=127.0.0.1")
        .lease(MS)
        .connect()
        .unwrap_err();
    assert!(
        short.to_string().contains("a lease lasts 1 s to 1 h"),
        "{short}"
    );
    let Some(schema) = Schema::new("version") else {
        return;
    };
    drop(schema.store());
    let newer = schema.sql("UPDATE {s}.meta SET version = 9");
    schema.client().batch_execute(&newer).unwrap();
    let builder = Postgres::builder(&schema.database).schema(&schema.name);
    // (A program that only uses the outbox goes on.)
    let mut store = builder.connect().unwrap();
    assert!(matches!(store.acquire(), Err(StoreError::Version(_, 9))));
}

#[test]
fn a_key_with_a_nul_is_refused() {
    let Some(schema) = Schema::new("nul") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let refused = node.key("a\0b").schedule("mail", MS, "");
    assert!(
        matches!(refused, Err(DurableError::Invalid(_))),
        "{refused:?}"
    );
    node.schedule("mail", MS, "zero: \0").unwrap();
    assert_eq!(next(&handled).0, "zero: \0");
    node.stop().unwrap();
}

#[test]
fn it_may_be_opened_and_dropped_in_async_code() {
    let Some(schema) = Schema::new("inside") else {
        return;
    };
    for runtime in [
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
        tokio::runtime::Runtime::new(),
    ] {
        let (send, handled) = channel();
        runtime.unwrap().block_on(async {
            drop(schema.store());
            let node = schema.node(&send);
            let ticket = node.schedule_ticket("mail", MS * 20, "async").unwrap();
            ticket.await.unwrap();
            assert_eq!(next(&handled).0, "async");
            drop(node);
        });
    }
}

#[test]
fn a_node_that_is_found_dead_while_it_comes_has_another_name_and_the_time() {
    let Some(schema) = Schema::new("stillborn") else {
        return;
    };
    drop(schema.store());
    // As if others had found it dead right after it has come.
    let first_is_dead = "
        CREATE TABLE {s}.died (one boolean PRIMARY KEY);
        CREATE FUNCTION {s}.die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO {s}.died VALUES (true) ON CONFLICT DO NOTHING;
            NEW.dead := FOUND;
            RETURN NEW;
        END $$;
        CREATE TRIGGER die BEFORE INSERT ON {s}.node FOR EACH ROW EXECUTE FUNCTION {s}.die()";
    let mut client = schema.client();
    client.batch_execute(&schema.sql(first_is_dead)).unwrap();
    let (send, _handled) = channel();
    let node = schema.node(&send);
    let of_the_dead = "SELECT count(*) FROM {s}.lease l JOIN {s}.node n ON n.node = l.owner
        WHERE n.dead";
    let count = client.query_one(&schema.sql(of_the_dead), &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 0, "the dead own nothing");
    let id = node.schedule("mail", HOUR, "in an hour").unwrap();
    let row = node.get(id).unwrap().expect("it is not due yet");
    assert!(row.due.system_time() > SystemTime::now() + HOUR / 2);
    node.stop().unwrap();
}
