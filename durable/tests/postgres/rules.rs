//! Promise: a rule of a schema holds for all nodes. A node knows of it from its next claim on, and
//! from its next scan. Users' transactions change rules, too.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::Schema;
use crate::versions::{NUMBER, OldNode, Role, numbers, of_3};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::num::NonZeroU32;
use wheelwork_durable::contract::{
    Outcome, RuleChange, SharedStore, Store, Want, WantedCalls, Write,
};
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
    let many = "INSERT INTO {s}.rule (name, paused) SELECT '=kind-' || n, true
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
    let others =
        "INSERT INTO {s}.rule (name, paused, paused_since, per_second, burst, calls) VALUES
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
    let counts = schema.sql("UPDATE {s}.rule SET full_at_us = 77");
    schema.client().batch_execute(&counts).unwrap();
    pause(&mut store, &mail());
    change(&mut store, &mail(), RuleChange::Resume);
    let slot = schema.sql("SELECT full_at_us FROM {s}.rule WHERE per_second = 5");
    let slot = schema.client().query_one(&slot, &[]).unwrap();
    assert_eq!(slot.get::<_, i64>(0), 77);
    // The bucket of another rate begins empty: it counts in other times.
    let rate = Rate::new(0.5, NonZeroU32::MAX);
    change(&mut store, &mail(), RuleChange::Rate(rate));
    let slot = schema.sql("SELECT full_at_us FROM {s}.rule WHERE per_second = 0.5");
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
        "node old is alive, whose program knows no expiry, limit, offset or rule"
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

/// Whether a rule was changed by SQL, which calls a function of the schema.
fn sql(client: &mut Client, schema: &Schema, call: &str) -> Result<bool, (SqlState, String)> {
    let answer = client.query_one(&schema.sql(&format!("SELECT {{s}}.wheelwork_{call}")), &[]);
    let answer = answer.map(|row| row.get(0));
    answer.map_err(|error| {
        let error = error.as_db_error().unwrap();
        (error.code().clone(), error.message().to_owned())
    })
}

/// The number of all rules, and what the bucket of the only one has counted.
fn counted(schema: &Schema) -> (i64, Option<i64>) {
    let counted = "SELECT s.value, (SELECT k.full_at_us FROM {s}.rule k) FROM {s}.setting s
        WHERE s.name = 'rules'";
    let row = schema.client().query_one(&schema.sql(counted), &[]);
    let row = row.unwrap();
    (row.get(0), row.get(1))
}

/// A rule holds for the whole fleet, so not everybody changes it who may use the schema.
#[test]
fn sql_changes_rules_for_roles_that_may_update_them() {
    let Some(schema) = Schema::new("rules_rights") else {
        return;
    };
    drop(schema.store());
    let close = schema.sql("SELECT {s}.wheelwork_close(5, 'a test')");
    schema.client().execute(&close, &[]).unwrap();
    let calls = [
        "pause('mail')",
        "resume('mail')",
        "pause_keys('a')",
        "resume_keys('a')",
        "set_rate('mail', 1, 1)",
        "clear_rate('mail')",
        "set_rate_keys('a', 1, 1)",
        "clear_rate_keys('a')",
        "set_calls('mail', 1)",
        "clear_calls('mail')",
        "set_calls_keys('a', 1)",
        "clear_calls_keys('a')",
    ];
    let shop = Role::new(&schema, "shop", "");
    let mut client = Client::connect(&shop.database(), NoTls).unwrap();
    for call in calls {
        let (code, says) = sql(&mut client, &schema, call).unwrap_err();
        assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
        assert!(
            says.contains(".rule may not change rules"),
            "{call}: {says}"
        );
    }
    let operator = Role::new(&schema, "operator", "GRANT UPDATE ON {s}.rule TO {r}");
    let mut client = Client::connect(&operator.database(), NoTls).unwrap();
    for call in calls {
        assert_eq!(sql(&mut client, &schema, call), Ok(true), "{call}");
    }
    // What these functions call is nobody's, nor does its owner call it with half of a change.
    let inner = "change_rule('=mail', 'rate', NULL, 1, 1)";
    let (code, _) = sql(&mut client, &schema, inner).unwrap_err();
    assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE);
    let (code, _) = sql(&mut schema.client(), &schema, inner).unwrap_err();
    assert_eq!(code, SqlState::NULL_VALUE_NOT_ALLOWED);
}

/// What a function of SQL has done is what a node's call does.
#[test]
fn sql_sets_rates_and_limits_of_calls() {
    let Some(schema) = Schema::new("rules_limits") else {
        return;
    };
    let mut store = node(&schema);
    let mut client = schema.client();
    client
        .execute(&schema.sql("SELECT {s}.wheelwork_close(5, 'a test')"), &[])
        .unwrap();
    let mut sql = |call: &str| sql(&mut client, &schema, call).unwrap();
    let parts = |rule: &Rule| (rule.of.clone(), rule.rate, rule.calls);
    let rate = |per_second, burst| Rate::new(per_second, NonZeroU32::new(burst).unwrap());
    let tenant = || RuleFor::Keys("tenant-7/".into());
    assert!(sql("set_rate('mail', 2.5, 9)"));
    assert_eq!(
        store.rules().unwrap().iter().map(parts).collect::<Vec<_>>(),
        [(mail(), rate(2.5, 9), None)]
    );
    let set = "UPDATE {s}.rule SET full_at_us = 77";
    schema.client().batch_execute(&schema.sql(set)).unwrap();
    // It is so already, also for a node: nothing changes, and no node has news.
    let before = counted(&schema);
    assert!(!sql("set_rate('mail', 2.5, 9)"));
    assert!(!sql("clear_calls('mail')"));
    assert!(!sql("clear_rate('other')"));
    let same = RuleChange::Rate(rate(2.5, 9));
    assert_eq!(change(&mut store, &mail(), same), Outcome::Ruled(false));
    assert_eq!(counted(&schema), before);
    // A limit leaves alone what the rate has counted, and a new burst does not.
    assert!(sql("set_calls('mail', 3)"));
    assert!(!sql("set_calls(kind => 'mail', calls => 3)"));
    assert_eq!(counted(&schema), (before.0 + 1, Some(77)));
    assert!(sql(
        "set_rate(kind => 'mail', per_second => 2.5, burst => 10)"
    ));
    assert_eq!(counted(&schema), (before.0 + 2, None));
    assert!(sql("set_rate_keys('tenant-7/', 1e9, 4294967295)"));
    assert!(sql("set_calls_keys('tenant-7/', 4294967295)"));
    let most = NonZeroU32::new(u32::MAX);
    let expected = [
        (mail(), rate(2.5, 10), NonZeroU32::new(3)),
        (tenant(), rate(1e9, u32::MAX), most),
    ];
    assert_eq!(
        store.rules().unwrap().iter().map(parts).collect::<Vec<_>>(),
        expected
    );
    // Each call names one part, and the rule goes with its last one.
    assert!(sql("pause('mail')"));
    assert!(sql("clear_rate('mail')"));
    assert!(sql("resume('mail')"));
    assert!(sql("clear_rate_keys('tenant-7/')"));
    assert!(!sql("clear_rate_keys('tenant-7/')"));
    let expected = [(mail(), None, NonZeroU32::new(3)), (tenant(), None, most)];
    assert_eq!(
        store.rules().unwrap().iter().map(parts).collect::<Vec<_>>(),
        expected
    );
    assert!(sql("clear_calls('mail')"));
    assert!(sql("clear_calls_keys('tenant-7/')"));
    assert_eq!(store.rules().unwrap(), []);
    let left = schema
        .client()
        .query(&schema.sql("SELECT 1 FROM {s}.rule"), &[])
        .unwrap();
    assert!(left.is_empty());
    // The least that there is.
    assert!(sql("set_rate('mail', 0.000001, 1)"));
    assert_eq!(
        store.rules().unwrap()[0].rate,
        Rate::new(1e-6, NonZeroU32::MIN)
    );
}

#[test]
fn sql_refuses_what_is_no_rate_or_limit_of_calls() {
    let Some(schema) = Schema::new("rules_bad") else {
        return;
    };
    let mut store = node(&schema);
    let mut client = schema.client();
    let mut sql = |call: &str| sql(&mut client, &schema, call);
    // What removes a part needs no floor.
    let closed = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    let limits = ["set_rate('mail', 1, 1)", "set_calls_keys('t/', 1)"];
    for call in limits {
        assert_eq!(
            sql(call).map_err(|why| why.0),
            Err(closed.clone()),
            "{call}"
        );
    }
    assert_eq!(sql("clear_rate('mail')"), Ok(false));
    assert_eq!(numbers(&schema), (3, NUMBER));
    pause(&mut store, &mail());
    let before = counted(&schema);
    let bad = |why: &str| Err((SqlState::INVALID_PARAMETER_VALUE, why.to_owned()));
    let rate = bad("a rate is between 0.000001 and 1,000,000,000 timers in a second");
    for per_second in [
        "0",
        "-1",
        "0.0000009",
        "1000000001",
        "'NaN'",
        "'Infinity'",
        "NULL",
    ] {
        assert_eq!(
            sql(&format!("set_rate('mail', {per_second}, 1)")),
            rate,
            "{per_second}"
        );
        assert_eq!(
            sql(&format!("set_rate_keys('t/', {per_second}, 1)")),
            rate,
            "{per_second}"
        );
    }
    let burst = bad("the burst of a rate is between 1 and 4,294,967,295 timers");
    let calls = bad("a limit is between 1 and 4,294,967,295 calls");
    for count in ["0", "-1", "4294967296", "NULL"] {
        assert_eq!(
            sql(&format!("set_rate('mail', 1, {count})")),
            burst,
            "{count}"
        );
        assert_eq!(
            sql(&format!("set_rate_keys('t/', 1, {count})")),
            burst,
            "{count}"
        );
        assert_eq!(
            sql(&format!("set_calls('mail', {count})")),
            calls,
            "{count}"
        );
        assert_eq!(
            sql(&format!("set_calls_keys('t/', {count})")),
            calls,
            "{count}"
        );
    }
    let name = bad("a rule is for a kind or for the beginning of keys, of 1,024 bytes at most");
    for text in ["NULL", "''", "repeat('k', 1025)"] {
        for call in [
            format!("set_rate_keys({text}, 1, 1)"),
            format!("clear_rate_keys({text})"),
            format!("set_calls_keys({text}, 1)"),
            format!("clear_calls_keys({text})"),
        ] {
            assert_eq!(sql(&call), name, "{call}");
        }
        if text == "''" {
            continue;
        }
        for call in [
            format!("set_rate({text}, 1, 1)"),
            format!("clear_rate({text})"),
            format!("set_calls({text}, 1)"),
            format!("clear_calls({text})"),
        ] {
            assert_eq!(sql(&call), name, "{call}");
        }
    }
    assert_eq!(counted(&schema), before);
    let many = "INSERT INTO {s}.rule (name, paused) SELECT '=kind-' || n, true
        FROM generate_series(1, 999) g (n)";
    schema.client().batch_execute(&schema.sql(many)).unwrap();
    let full = "there are 1,000 rules already, and no store has more";
    let full = Err((SqlState::PROGRAM_LIMIT_EXCEEDED, full.to_owned()));
    for call in [
        "set_rate('one more', 1, 1)",
        "set_calls_keys('one more', 1)",
    ] {
        assert_eq!(sql(call), full, "{call}");
    }
    // A rule that is there has room for another part.
    assert_eq!(sql("set_calls('mail', 1)"), Ok(true));
}

/// What a transaction has changed is there for nodes when it is committed, and not before.
#[test]
fn a_limit_of_sql_is_known_from_the_next_claim_or_scan() {
    let Some(schema) = Schema::new("rules_limit_news") else {
        return;
    };
    let mut first = node(&schema);
    change(&mut first, &mail(), RuleChange::Calls(NonZeroU32::new(1)));
    let mut store = schema.store();
    let leases = store.renew().unwrap().taken;
    store.rules().unwrap();
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    user.execute(
        &schema.sql("SELECT {s}.wheelwork_set_rate('order', 5, 2)"),
        &[],
    )
    .unwrap();
    store.claim(&leases, FAR).unwrap();
    assert!(!store.has_news_of_rules(), "it may be rolled back");
    user.rollback().unwrap();
    store.claim(&leases, FAR).unwrap();
    assert!(!store.has_news_of_rules(), "it was rolled back");
    for (call, rules) in [
        ("set_rate('order', 5, 2)", 2),
        ("set_calls_keys('t/', 2)", 3),
        ("clear_rate('order')", 2),
        ("clear_calls_keys('t/')", 1),
    ] {
        assert_eq!(sql(&mut client, &schema, call), Ok(true));
        match rules % 2 == 0 {
            true => drop(store.claim(&leases, FAR).unwrap()),
            false => drop(store.next_due(&[0], FAR).unwrap()),
        }
        assert!(store.has_news_of_rules(), "{call}");
        assert_eq!(store.rules().unwrap().len(), rules, "{call}");
    }
}

/// A transaction that has set a limit holds up grants of that rule, and no others; one that has
/// changed nothing holds up none.
#[test]
fn a_transaction_that_sets_a_limit_holds_up_grants_of_that_rule_alone() {
    let Some(schema) = Schema::new("rules_grants") else {
        return;
    };
    let mut store = node(&schema);
    let order = || RuleFor::Kind("order".into());
    for of in [mail(), order()] {
        let calls = RuleChange::Calls(NonZeroU32::new(4));
        change(&mut store, &of, calls);
    }
    let all = WantedCalls {
        most: 9,
        running: 0,
    };
    let wants = [mail(), order()].map(|of| Want {
        of,
        tokens: 0,
        calls: Some(all),
    });
    let mut grants = || {
        let grants = store.grant(&wants).unwrap();
        [0, 1].map(|of| (grants[of].calls, grants[of].is_held_up))
    };
    let mut client = schema.client();
    let mut user = client.transaction().unwrap();
    let mut call = |call: &str| {
        let call = schema.sql(&format!("SELECT {{s}}.wheelwork_{call}"));
        user.query_one(&call, &[]).unwrap().get::<_, bool>(0)
    };
    assert!(!call("set_calls('mail', 4)"));
    assert_eq!(grants(), [(4, false), (4, false)]);
    assert!(call("set_calls('mail', 3)"));
    assert_eq!(grants(), [(0, true), (4, false)]);
    user.commit().unwrap();
    assert_eq!(grants(), [(3, false), (4, false)]);
}

/// A rule that a transaction has removed is there for grants until the transaction has ended,
/// however often a node asks.
#[test]
fn a_rule_that_a_transaction_removes_is_held_up_until_it_is_gone() {
    let Some(schema) = Schema::new("rules_removed") else {
        return;
    };
    let mut store = node(&schema);
    change(&mut store, &mail(), RuleChange::Calls(NonZeroU32::new(4)));
    let all = WantedCalls {
        most: 9,
        running: 0,
    };
    let want = Want {
        of: mail(),
        tokens: 0,
        calls: Some(all),
    };
    let mut grant = || {
        let grant = store.grant(std::slice::from_ref(&want)).unwrap().remove(0);
        (grant.calls, grant.is_held_up)
    };
    let mut client = schema.client();
    let clear = schema.sql("SELECT {s}.wheelwork_clear_calls('mail')");
    for (end, calls) in [("ROLLBACK", 4), ("COMMIT", 0)] {
        client.batch_execute("BEGIN").unwrap();
        let cleared: bool = client.query_one(&clear, &[]).unwrap().get(0);
        assert!(cleared);
        for number in 1..=12 {
            assert_eq!(grant(), (0, true), "try {number} before {end}");
        }
        client.batch_execute(end).unwrap();
        assert_eq!(grant(), (calls, false), "after {end}");
    }
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
