//! Grants: a node asks for tokens and calls of rules. Each rule is a transaction of its own, so no
//! two nodes wait for each other's rules.

use super::session::{Live, OneTrouble, trouble_of_one};
use super::statements::grant::{CallsOf, LockRule, LockedRule, PutCalls, ReadCalls, SetFullAt};
use crate::store::grant::{Grant, NodeCalls, Want, WantedCalls, share_calls, take_tokens};
use crate::store::rule::{Rate, RuleFor};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use tokio_postgres::Error;
use uuid::Uuid;

/// While a rule is held up, one in this number of tries waits for it.
const TRIES_FOR_A_WAIT: u32 = 10;

/// The begin of a transaction that waits for a rule as long as a session waits for each lock.
const PATIENT: &str = "BEGIN";

/// The begin of one that hardly waits. (Zero would be a wait without an end.)
const IMPATIENT: &str = "BEGIN; SET LOCAL lock_timeout = 1";

/// GrantWait: rules that were held up when this node asked last.
///
/// A transaction of a user may have the row of a rule for any time, and each wait for it takes time
/// of the writer. So after a wait in vain the next tries do not wait. But one of ten does: where
/// many nodes ask for one rule, a node that never waits might never find its row free.
#[derive(Default)]
pub(super) struct HeldUpRules {
    /// For each of them, the number of tries since one has waited, with that one.
    tries: BTreeMap<RuleFor, u32>,
}

impl HeldUpRules {
    /// How the next transaction begins that asks for grants of this rule.
    pub(super) fn begin(&self, of: &RuleFor) -> &'static str {
        match self.tries.contains_key(of) {
            true => IMPATIENT,
            false => PATIENT,
        }
    }

    /// What has become of it.
    pub(super) fn note(&mut self, of: &RuleFor, is_held_up: bool) {
        let tries = self.tries.remove(of).unwrap_or_default() + 1;
        if is_held_up && tries < TRIES_FOR_A_WAIT {
            self.tries.insert(of.clone(), tries);
        }
    }
}

fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn rate_of(rule: &LockedRule) -> Option<Rate> {
    let burst = NonZeroU32::new(count(rule.burst?))?;
    Rate::new(rule.per_second?, burst)
}

/// ThrottleGrant: what a node wants of a rule, as far as it can have it.
pub(super) async fn grant(
    live: &Live,
    node: Uuid,
    want: &Want,
    begin: &str,
) -> Result<Grant, Error> {
    live.client.batch_execute(begin).await?;
    let granted = grant_within(live, node, want).await;
    let end = if granted.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    live.client.batch_execute(end).await?;
    // (A transaction of a user that has changed the rule has its row, for as long as it lasts.)
    let is_held_up = |error: &Error| trouble_of_one(error) == Some(OneTrouble::Blocked);
    match granted {
        Err(error) if is_held_up(&error) => Ok(Grant {
            is_held_up: true,
            ..Grant::default()
        }),
        granted => granted,
    }
}

async fn grant_within(live: &Live, node: Uuid, want: &Want) -> Result<Grant, Error> {
    let name = want.of.name();
    let mut grant = Grant::default();
    let name = &*name;
    // (It may have been removed meanwhile.)
    let Some(rule) = live.ask(&LockRule { name }).await?.pop() else {
        return Ok(grant);
    };
    if let Some(rate) = rate_of(&rule).filter(|_| want.tokens > 0) {
        let full_at = rule.full_at_us.and_then(|at| u64::try_from(at).ok());
        let now = u64::try_from(rule.now).unwrap_or_default();
        let (tokens, full_at, next) = take_tokens(rate, full_at, now, want.tokens);
        (grant.tokens, grant.next) = (tokens, next);
        let full_at_us = i64::try_from(full_at).unwrap_or(i64::MAX);
        live.ask(&SetFullAt { name, full_at_us }).await?;
    }
    if let (Some(wanted), Some(calls)) = (want.calls, rule.calls) {
        let all = live.ask(&ReadCalls { name }).await?;
        let (may_make, put) = calls_of(name, node, wanted, count(calls), &all, rule.now);
        grant.calls = may_make;
        live.ask(&put).await?;
    }
    Ok(grant)
}

/// The calls that a node may make from now on, and what the store has of them.
fn calls_of<'a>(
    name: &'a str,
    node: Uuid,
    wanted: WantedCalls,
    calls: u32,
    all: &[CallsOf],
    now: i64,
) -> (u32, PutCalls<'a>) {
    let node_calls = |of: &CallsOf| NodeCalls {
        has: count(of.calls),
        wants: count(of.wants),
        since: u64::try_from(of.since_us).unwrap_or_default(),
    };
    let own = all.iter().find(|of| of.node == node).map(node_calls);
    let others = all.iter().filter(|of| of.node != node).map(node_calls);
    let others: Vec<_> = others.collect();
    let own = own.unwrap_or(NodeCalls {
        since: u64::try_from(now).unwrap_or_default(),
        ..NodeCalls::default()
    });
    let (has, may_make) = share_calls(calls, wanted, own, &others);
    let since_us = match has > own.has {
        true => now,
        false => i64::try_from(own.since).unwrap_or(now),
    };
    let put = PutCalls {
        name,
        node,
        calls: has.into(),
        wanted: wanted.most.into(),
        since_us,
    };
    (may_make, put)
}
