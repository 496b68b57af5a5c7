//! Promise: a user's transaction holds up the calls for its own timers, and no others, however many
//! it holds up.

use crate::all_may_go::AllMayGo;
use crate::own_schema::Schema;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use wheelwork_durable::contract::{
    Outcome, RuleChange, Settled, SharedStore, Store, Target, Write,
};
use wheelwork_durable::{DurableId, Partition, Postgres, Row, RuleFor, StoreTime};

const HOUR: Duration = Duration::from_secs(3_600);

/// Long enough to mean that a call waits for the transaction. (After 300 s it waits no longer.)
const WAITS: Duration = Duration::from_secs(100);

/// Keys that have no timers before the transaction.
const KEYS: usize = 200;

/// The year 2100.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

/// Arms timers by some of the keys, which may have timers already.
fn take_keys(schema: &Schema, transaction: &mut postgres::Transaction<'_>, step: usize) {
    let arm = format!(
        "SELECT {{s}}.wheelwork_schedule_at('mail', 4102444800000, 'the user''s', 'key ' || n)
            FROM generate_series(0, {KEYS} - 1, {step}) g (n)"
    );
    transaction.batch_execute(&schema.sql(&arm)).unwrap();
}

fn key(number: usize) -> String {
    format!("key {number}")
}

#[test]
fn calls_for_many_new_keys_hold_up_no_others() {
    let Some(schema) = Schema::new("new_keys") else {
        return;
    };
    let (send, _handled) = channel();
    let node = schema.node(&send);
    let ids: Vec<_> = (0..10).map(|_| node.schedule("mail", HOUR, "")).collect();
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    take_keys(&schema, &mut user, 1);
    let wait = |number| {
        node.key(&key(number))
            .schedule_ticket("mail", HOUR, "waits")
    };
    let tickets: Vec<_> = (0..KEYS).map(|number| wait(number).unwrap()).collect();
    let (send, done) = channel();
    thread::scope(|scope| {
        // The first ones come together with those that wait, the others when those have waited.
        scope.spawn(|| {
            for (round, id) in ids.into_iter().enumerate() {
                node.schedule("mail", HOUR, "other").unwrap();
                node.key("other").schedule("mail", HOUR, "other").unwrap();
                assert!(node.cancel(id.unwrap()).unwrap());
                assert!(node.kind("another").pause().unwrap(), "round {round}");
                assert!(node.kind("another").resume().unwrap());
            }
            send.send(()).unwrap();
        });
        let are_done = done.recv_timeout(WAITS).is_ok();
        let armed = node.stats().armed;
        user.commit().unwrap();
        assert!(are_done, "another call waits for the transaction");
        assert_eq!(armed, 30, "those wait that are for its keys");
    });
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(node.stats().armed, 30 + KEYS as u64);
    node.stop().unwrap();
}

fn store_of(schema: &Schema) -> Postgres {
    let mut store = schema.store();
    store.acquire().unwrap();
    store
}

fn arm(store: &mut Postgres, key: Option<&str>) -> Write {
    let id = store.new_id(key, FAR);
    let mut row = Row::new(id, FAR, "mail".into(), (*b"node's").into());
    row.key = key.map(Into::into);
    Write::Arm(row)
}

/// What the store has not tried by itself.
fn put_off(outcomes: Vec<Outcome>) -> Vec<Write> {
    let put_off = |outcome| match outcome {
        Outcome::PutOff(write) => Some(*write),
        _ => None,
    };
    outcomes.into_iter().filter_map(put_off).collect()
}

#[test]
fn a_commit_makes_what_the_transaction_has_nothing_to_do_with() {
    let Some(schema) = Schema::new("others") else {
        return;
    };
    let mut store = store_of(&schema);
    let former = ["former", "latter"].map(|key| arm(&mut store, Some(key)));
    store.commit(former.to_vec(), &mut AllMayGo).unwrap();
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    take_keys(&schema, &mut user, 1);
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let mut writes: Vec<_> = keys.iter().map(|key| arm(&mut store, Some(key))).collect();
    let Write::Arm(row) = &former[1] else {
        unreachable!("it is armed");
    };
    let kind = RuleFor::Kind("another kind".into());
    let others = [
        arm(&mut store, None),
        Write::Cancel(Target::Key("former".into())),
        Write::Cancel(Target::Id(row.id)),
        Write::Rule(kind, RuleChange::Pause(FAR)),
    ];
    writes.extend(others);
    // One that might wait, as far as anybody knows before.
    writes.push(arm(&mut store, Some("fresh")));
    let mut outcomes = store.commit(writes, &mut AllMayGo).unwrap();
    let last = outcomes.split_off(KEYS);
    assert_eq!(last[0], Outcome::Armed(None));
    assert!(matches!(last[1], Outcome::Cancelled(Some(_))), "{last:?}");
    assert!(matches!(last[2], Outcome::Cancelled(Some(_))), "{last:?}");
    assert_eq!(last[3], Outcome::Ruled(true));
    outcomes.extend(last.into_iter().skip(4));
    // It is tried after a bounded number of commits, if those come first that were put off.
    let mut commits = 1;
    let mut left = put_off(outcomes);
    assert!(!left.is_empty(), "a commit has no time to try all of them");
    while !left.is_empty() {
        let outcomes = store.commit(left, &mut AllMayGo).unwrap();
        let is_known = |outcome: &Outcome| !matches!(outcome, Outcome::Armed(_));
        let (others, fresh) = outcomes.split_at(outcomes.len() - 1);
        assert!(others.iter().all(is_known), "{others:?}");
        left = put_off(outcomes.clone());
        assert_eq!(left.is_empty(), fresh == [Outcome::Armed(None)]);
        commits += 1;
    }
    assert!(commits <= KEYS / 16, "it took {commits} commits");
}

#[test]
fn a_commit_finds_those_that_wait_among_many() {
    let Some(schema) = Schema::new("among_many") else {
        return;
    };
    let mut store = store_of(&schema);
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    take_keys(&schema, &mut user, 10);
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let mut left: Vec<_> = keys.iter().map(|key| arm(&mut store, Some(key))).collect();
    let (mut armed, mut blocked) = (0, 0);
    while !left.is_empty() {
        let outcomes = store.commit(left, &mut AllMayGo).unwrap();
        for outcome in &outcomes {
            armed += usize::from(matches!(outcome, Outcome::Armed(None)));
            blocked += usize::from(matches!(outcome, Outcome::Blocked(_)));
        }
        left = put_off(outcomes);
    }
    assert_eq!((armed, blocked), (KEYS - KEYS / 10, KEYS / 10));
}

/// What handlers have said of all of these rows: a commit needs to try none of them by itself.
#[test]
fn all_answers_are_stored_but_those_for_rows_that_it_has_replaced() {
    let Some(schema) = Schema::new("replaced") else {
        return;
    };
    let mut store = store_of(&schema);
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let arms: Vec<_> = keys.iter().map(|key| arm(&mut store, Some(key))).collect();
    store.commit(arms.clone(), &mut AllMayGo).unwrap();
    let fleet = store.fleet().unwrap();
    let epochs = fleet.partitions.iter();
    let epochs: BTreeMap<Partition, u64> = epochs.map(|of| (of.number, of.epoch)).collect();
    let settled = |id: DurableId| Settled {
        id,
        due: FAR,
        epoch: epochs[&id.partition()],
    };
    // (Two changes of a row, the second of which waits with the first.)
    let answer = |number: usize, write: &Write| {
        let Write::Arm(row) = write else {
            unreachable!("it is armed");
        };
        let of = settled(row.id);
        let ack = Write::Ack {
            of: of.clone(),
            next: None,
        };
        let again = Write::Retry {
            of,
            at: FAR,
            attempts: 1,
            crashes: 0,
        };
        match number % 4 {
            0 => vec![again, ack],
            1 => vec![again],
            _ => vec![ack],
        }
    };
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    take_keys(&schema, &mut user, 2);
    let answers = arms.iter().enumerate();
    let answers = answers.flat_map(|(number, write)| answer(number, write));
    let answers: Vec<_> = answers.collect();
    let is_locked = |write: &Write| {
        let at = arms.iter().position(|arm| match (arm, write) {
            (Write::Arm(row), Write::Ack { of, .. } | Write::Retry { of, .. }) => row.id == of.id,
            _ => false,
        });
        at.unwrap() % 2 == 0
    };
    let outcomes = store.commit(answers.clone(), &mut AllMayGo).unwrap();
    for (write, outcome) in answers.iter().zip(&outcomes) {
        let is_blocked = matches!(outcome, Outcome::Blocked(_));
        assert_eq!(is_blocked, is_locked(write), "{write:?}: {outcome:?}");
        let is_made = matches!(outcome, Outcome::Settled(true, _));
        assert_eq!(is_made, !is_blocked, "{write:?}: {outcome:?}");
    }
    // A row that is gone, or is due at another time, is not locked by anybody.
    user.rollback().unwrap();
    let outcomes = store.commit(answers, &mut AllMayGo).unwrap();
    let is_blocked = |outcome: &Outcome| matches!(outcome, Outcome::Blocked(_));
    assert!(!outcomes.iter().any(is_blocked));
}
