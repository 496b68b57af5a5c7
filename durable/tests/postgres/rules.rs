//! Promise: a rule of a schema holds for all nodes. A node knows of it from its next claim on, and
//! from its next scan. Users' transactions pause and resume, too.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::nodes::AllMayGo;
use crate::own_schema::Schema;
use crate::versions::{NUMBER, OldNode, numbers, of_3};
use postgres::Client;
use postgres::error::SqlState;
use std::num::NonZeroU32;
use wheelwork_durable::contract::{Outcome, RuleChange, SharedStore, Store, Write};
use wheelwork_durable::{Postgres, Rate, Row, Rule, RuleFor, StoreTime};

/// The year 2100.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

fn mail() -> RuleFor {
    RuleFor::Kind("mail".into())
}

fn node(schema: &Schema) -> Postgres {
    let mut store = schema.store();
    store.acquire().unwrap();
    store.rules().unwrap();
    assert!(!store.has_news_of_rules());
    store
}

fn change(store: &mut Postgres, of: &RuleFor, change: RuleChange) -> Outcome {
    let write = vec![Write::Rule(of.clone(), change)];
    store.commit(write, &mut AllMayGo).unwrap().remove(0)
}

fn pause(store: &mut Postgres, of: &RuleFor) -> Outcome {
    change(store, of, RuleChange::Pause(FAR))
}

/// Calls a function of the schema with a text.
fn call(client: &mut Client, schema: &Schema, name: &str, text: &str) -> Result<bool, SqlState> {
    let sql = schema.sql(&format!("SELECT {{s}}.wheelwork_{name}($1)"));
    let answer = client.query_one(&sql, &[&text]);
    let answer = answer.map(|row| row.get(0));
    answer.map_err(|error| error.code().unwrap().clone())
}

fn paused(rules: &[Rule]) -> Vec<&RuleFor> {
    let paused = rules.iter().filter(|rule| rule.paused_since.is_some());
    paused.map(|rule| &rule.of).collect()
}

#[test]
fn a_node_knows_of_it_from_its_next_claim_or_scan() {
    let Some(schema) = Schema::new("rules_news") else {
        return;
    };
    let mut first = node(&schema);
    let mut second = schema.store();
    let leases = second.renew().unwrap().taken;
    second.rules().unwrap();
    assert_eq!(pause(&mut first, &mail()), Outcome::Ruled(true));
    assert!(!second.has_news_of_rules(), "it has not looked");
    second.claim(&leases, FAR).unwrap();
    assert!(second.has_news_of_rules());
    assert_eq!(paused(&second.rules().unwrap()), [&mail()]);
    second.claim(&leases, FAR).unwrap();
    assert!(!second.has_news_of_rules());
    assert_eq!(
        change(&mut first, &mail(), RuleChange::Resume),
        Outcome::Ruled(true)
    );
    let all: Vec<u16> = (0..=255).collect();
    second.next_due(&all, FAR).unwrap();
    assert!(second.has_news_of_rules());
    assert_eq!(second.rules().unwrap(), []);
    // What changes nothing is no news.
    assert_eq!(
        change(&mut first, &mail(), RuleChange::Resume),
        Outcome::Ruled(false)
    );
    second.claim(&leases, FAR).unwrap();
    assert!(!second.has_news_of_rules());
}

#[test]
fn sql_pauses_and_resumes() {
    let Some(schema) = Schema::new("rules_sql") else {
        return;
    };
    let mut store = node(&schema);
    let mut client = schema.client();
    let mut call = |name: &str, text: &str| call(&mut client, &schema, name, text);
    // Programs may come that know no rules.
    let closed = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    assert_eq!(call("pause", "mail"), Err(closed));
    assert_eq!(call("resume", "mail"), Ok(false));
    assert_eq!(numbers(&schema), (3, NUMBER));
    let calls = RuleChange::Calls(NonZeroU32::new(3));
    assert_eq!(change(&mut store, &mail(), calls), Outcome::Ruled(true));
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    assert_eq!(call("pause", "mail"), Ok(true));
    assert_eq!(call("pause", "mail"), Ok(false));
    assert_eq!(call("pause_keys", "tenant-7/"), Ok(true));
    let rules = store.rules().unwrap();
    let tenant = RuleFor::Keys("tenant-7/".into());
    assert_eq!(paused(&rules), [&mail(), &tenant]);
    assert_eq!(rules[0].calls, NonZeroU32::new(3));
    assert_eq!(pause(&mut store, &tenant), Outcome::Ruled(false));
    assert_eq!(call("resume", "mail"), Ok(true));
    assert_eq!(call("resume_keys", "tenant-7/"), Ok(true));
    assert_eq!(call("resume_keys", "tenant-7/"), Ok(false));
    // The part that a node has made stays.
    let rules = store.rules().unwrap();
    assert_eq!((rules.len(), rules[0].calls), (1, NonZeroU32::new(3)));
    let bad = Err(SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(call("pause_keys", ""), bad);
    assert_eq!(call("pause", &"k".repeat(1_025)), bad);
    assert_eq!(call("pause", ""), Ok(true));
    assert_eq!(call("pause", &"k".repeat(1_024)), Ok(true));
    let many = "INSERT INTO {s}.kind (name, paused) SELECT '=kind-' || n, true
        FROM generate_series(1, 997) g (n)";
    schema.client().batch_execute(&schema.sql(many)).unwrap();
    let full = Err(SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(call("pause", "one more"), full);
    assert_eq!(call("pause", "mail"), Ok(true));
    let refused = pause(&mut store, &RuleFor::Kind("one more".into()));
    assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
}

/// What a program of another kind has left there is passed over.
#[test]
fn what_is_no_rule_is_passed_over() {
    let Some(schema) = Schema::new("rules_others") else {
        return;
    };
    let mut store = node(&schema);
    let others = "INSERT INTO {s}.kind (name, paused, since, per_second, burst, calls) VALUES
        ('mail', true, 5, NULL, NULL, NULL), ('*', true, 5, NULL, NULL, NULL),
        ('=nothing', false, NULL, NULL, NULL, NULL), ('=mail', true, NULL, 'NaN', 1, 0),
        ('=order', false, 7, 2.5, NULL, -1), ('*tenant', false, NULL, 2.5, 9, 4294967296)";
    schema.client().batch_execute(&schema.sql(others)).unwrap();
    let rules = store.rules().unwrap();
    let [mail_rule, tenant] = &rules[..] else {
        panic!("{rules:?}");
    };
    let parts = |rule: &Rule| (rule.paused_since, rule.rate, rule.calls);
    assert_eq!(mail_rule.of, mail());
    assert_eq!(parts(mail_rule), (Some(StoreTime::MIN), None, None));
    let rate = Rate::new(2.5, NonZeroU32::new(9).unwrap());
    assert_eq!(parts(tenant), (None, rate, None));
}

#[test]
fn what_a_rate_has_counted_stays() {
    let Some(schema) = Schema::new("rules_slot") else {
        return;
    };
    let mut store = node(&schema);
    let rate = Rate::new(5.0, NonZeroU32::MIN);
    change(&mut store, &mail(), RuleChange::Rate(rate));
    let counts = schema.sql("UPDATE {s}.kind SET slot = 77");
    schema.client().batch_execute(&counts).unwrap();
    pause(&mut store, &mail());
    change(&mut store, &mail(), RuleChange::Resume);
    let slot = schema.sql("SELECT slot FROM {s}.kind WHERE per_second = 5");
    let slot = schema.client().query_one(&slot, &[]).unwrap();
    assert_eq!(slot.get::<_, i64>(0), 77);
    // The bucket of another rate begins empty: it counts in other times.
    let rate = Rate::new(0.5, NonZeroU32::MAX);
    change(&mut store, &mail(), RuleChange::Rate(rate));
    let slot = schema.sql("SELECT slot FROM {s}.kind WHERE per_second = 0.5");
    let slot = schema.client().query_one(&slot, &[]).unwrap();
    assert_eq!(slot.get::<_, Option<i64>>(0), None);
}

#[test]
fn a_rule_is_refused_while_an_older_node_is_alive() {
    let Some(schema) = of_3("rules_older") else {
        return;
    };
    let mut store = node(&schema);
    let old = OldNode::join(&schema).unwrap();
    let Outcome::Refused(why) = pause(&mut store, &mail()) else {
        panic!("the older node hands it out");
    };
    assert_eq!(
        &*why,
        "node old is alive, whose program knows no expiry, limit or rule"
    );
    assert_eq!(store.rules().unwrap(), []);
    // What ends a rule needs no floor.
    assert_eq!(
        change(&mut store, &mail(), RuleChange::Resume),
        Outcome::Ruled(false)
    );
    assert_eq!(numbers(&schema), (3, NUMBER));
    drop(old);
    let over = schema.sql("UPDATE {s}.node SET until = now() WHERE name = 'old'");
    schema.client().batch_execute(&over).unwrap();
    assert_eq!(pause(&mut store, &mail()), Outcome::Ruled(true));
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    let refused = OldNode::join(&schema).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
}

/// A user's transaction that has paused a kind holds up changes of rules, and nothing else.
#[test]
fn a_transaction_that_pauses_holds_up_changes_of_rules_alone() {
    let Some(schema) = Schema::new("rules_held_up") else {
        return;
    };
    let mut store = node(&schema);
    pause(&mut store, &mail());
    let mut user = schema.client();
    let mut user = user.transaction().unwrap();
    let pauses = schema.sql("SELECT {s}.wheelwork_pause('order')");
    user.query_one(&pauses, &[]).unwrap();
    let id = store.new_id(None, FAR);
    let row = Row::new(id, FAR, "mail".into(), (*b"x").into());
    let resume = Write::Rule(mail(), RuleChange::Resume);
    let other = Write::Rule(
        RuleFor::Kind("other".into()),
        RuleChange::Calls(NonZeroU32::new(1)),
    );
    let writes = vec![resume.clone(), Write::Arm(row), other.clone()];
    let outcomes = store.commit(writes, &mut AllMayGo).unwrap();
    let expected = [
        Outcome::Blocked(Box::new(resume.clone())),
        Outcome::Armed(None),
        Outcome::Blocked(Box::new(other.clone())),
    ];
    assert_eq!(outcomes, expected);
    user.commit().unwrap();
    let outcomes = store.commit(vec![resume, other], &mut AllMayGo).unwrap();
    assert_eq!(outcomes, [Outcome::Ruled(true), Outcome::Ruled(true)]);
    let rules = store.rules().unwrap();
    assert_eq!(paused(&rules), [&RuleFor::Kind("order".into())]);
    assert_eq!(rules.len(), 2);
}
