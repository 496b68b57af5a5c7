//! Rules: they are read and changed.
//!
//! `setting` has a number of all rules. Each change of a rule raises it in the same transaction, so
//! a node that knows the number knows whether its rules are those of the store. Who changes a rule
//! locks the number first: so changes come one after the other, and each sees those before it.

use super::commit::Making;
use super::rows::{millis, time};
use super::statement::{Sql, Statement, statement};
use crate::store::rule::{Rate, Rule, RuleFor, Rules};
use crate::store::write::{Outcome, Write};
use std::num::NonZeroU32;
use tokio_postgres::Error;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    LockRules::SQL,
    ReadRules::SQL,
    PutRule::SQL,
    DropRule::SQL,
    RaiseRules::SQL,
];

statement! {
    /// RulesLock: no other transaction changes a rule before this one has ended.
    LockRules {}
    -> () = |_| ();
    "SELECT value FROM {s}.setting WHERE name = 'rules' FOR UPDATE"
}

statement! {
    /// All rules, each with the number of all of them. Without any rule: the number alone.
    ReadRules {}
    -> (i64, Option<Rule>) = |row| (row.get(0), rule_of(row));
    "
SELECT s.value, r.name, r.paused, r.paused_since, r.per_second, r.burst, r.calls
FROM {s}.setting s LEFT JOIN {s}.rule r ON true WHERE s.name = 'rules'"
}

statement! {
    /// Writes the parts of a rule. What its rate has counted stays, but the bucket of another rate
    /// begins empty.
    PutRule<'a> {
        name: &'a str,
        paused: bool,
        paused_since: Option<i64>,
        per_second: Option<f64>,
        burst: Option<i64>,
        calls: Option<i64>,
    }
    -> () = |_| ();
    "
INSERT INTO {s}.rule AS r (name, paused, paused_since, per_second, burst, calls)
    VALUES (:name, :paused, :paused_since, :per_second, :burst, :calls)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, paused_since = excluded.paused_since,
    per_second = excluded.per_second, burst = excluded.burst, calls = excluded.calls,
    full_at_us = CASE WHEN (r.per_second, r.burst) IS NOT DISTINCT FROM
        (excluded.per_second, excluded.burst) THEN r.full_at_us END"
}

statement! {
    /// Deletes a rule that has no part any more.
    DropRule<'a> { name: &'a str }
    -> () = |_| ();
    "DELETE FROM {s}.rule WHERE name = :name"
}

statement! {
    /// RulesRaise: nodes read the rules again.
    RaiseRules {}
    -> () = |_| ();
    "UPDATE {s}.setting SET value = value + 1 WHERE name = 'rules'"
}

/// A rule from its columns. Others may have written them: what is no part of a rule is left out.
fn rule_of(row: &tokio_postgres::Row) -> Option<Rule> {
    let name: Option<&str> = row.get(1);
    let mut rule = Rule::none(RuleFor::from_name(name?)?);
    let since: Option<i64> = row.get(3);
    let is_paused = row.get::<_, Option<bool>>(2) == Some(true);
    rule.paused_since = is_paused.then(|| since.map(time).unwrap_or_default());
    let [burst, calls] = [5, 6].map(|at| row.get::<_, Option<i64>>(at).and_then(count_of));
    let rate = row.get::<_, Option<f64>>(4).zip(burst);
    rule.rate = rate.and_then(|(per_second, burst)| Rate::new(per_second, burst));
    rule.calls = calls;
    Some(rule).filter(Rule::is_some)
}

fn count_of(count: i64) -> Option<NonZeroU32> {
    u32::try_from(count).ok().and_then(NonZeroU32::new)
}

/// What a node has read: the number, and the rules.
pub(in crate::stores::postgres) fn rules_of(
    read: Vec<(i64, Option<Rule>)>,
) -> (Option<i64>, Rules) {
    let number = read.first().map(|&(number, _)| number);
    (
        number,
        Rules::of(read.into_iter().filter_map(|(_, rule)| rule)),
    )
}

fn put(rule: &Rule, name: &str) -> impl Statement<Answer = ()> {
    let count = |count: NonZeroU32| i64::from(count.get());
    PutRule {
        name,
        paused: rule.paused_since.is_some(),
        paused_since: rule.paused_since.map(millis),
        per_second: rule.rate.map(Rate::per_second),
        burst: rule.rate.map(|rate| count(rate.burst())),
        calls: rule.calls.map(count),
    }
}

impl Making<'_> {
    /// Makes the changes of rules.
    pub(super) async fn rules(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| matches!(write, Write::Rule(..)));
        if own.is_empty() {
            return Ok(());
        }
        self.live.ask(&LockRules {}).await?;
        let (_, mut rules) = rules_of(self.live.ask(&ReadRules {}).await?);
        let mut is_changed = false;
        for number in own {
            let Write::Rule(of, change) = &self.writes[number] else {
                continue;
            };
            let outcome = match rules.change(of, *change) {
                Err(why) => Outcome::Refused(why.into()),
                Ok(false) => Outcome::Ruled(false),
                Ok(true) => {
                    let name = of.name();
                    match rules.get(of) {
                        Some(rule) => self.live.ask(&put(rule, &name)).await?,
                        None => self.live.ask(&DropRule { name: &name }).await?,
                    };
                    is_changed = true;
                    Outcome::Ruled(true)
                }
            };
            self.outcomes[number] = Some(outcome);
        }
        if is_changed {
            self.live.ask(&RaiseRules {}).await?;
        }
        Ok(())
    }
}
