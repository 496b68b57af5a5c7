//! Grants: the tokens and calls of rules that nodes get.

use super::kept::Kept;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Grant, NodeCalls, Want, share_calls, take_tokens};
use wheelwork_durable::{Rate, RuleFor};

/// What was granted.
#[derive(Default)]
pub struct Granted {
    /// When the bucket of a rule is full, in microseconds.
    full_at: BTreeMap<RuleFor, (Rate, u64)>,
    /// The calls that each node has.
    calls: BTreeMap<(RuleFor, u64), NodeCalls>,
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since: Duration = since.unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap()
}

impl Kept {
    /// What a node wants of a rule, as far as it can have it.
    pub fn grant(&mut self, node: u64, time: SystemTime, want: &Want) -> Grant {
        let (mut grant, now) = (Grant::default(), micros(time));
        let Some(rule) = self.rules.get(&want.of).cloned() else {
            return grant;
        };
        let granted = &mut self.granted;
        if let Some(rate) = rule.rate.filter(|_| want.tokens > 0) {
            let of_rate = granted.full_at.get(&want.of).filter(|(of, _)| *of == rate);
            let full_at = of_rate.map(|(_, full_at)| *full_at);
            let (tokens, full_at, next) = take_tokens(rate, full_at, now, want.tokens);
            (grant.tokens, grant.next) = (tokens, next);
            granted.full_at.insert(want.of.clone(), (rate, full_at));
        }
        if let Some((wanted, calls)) = want.calls.zip(rule.calls) {
            let is_alive = |other: &u64| self.nodes.get(other).is_some_and(|row| row.until > time);
            let of_rule = granted.calls.iter().filter(|((of, _), _)| *of == want.of);
            let others = of_rule.filter(|((_, other), _)| *other != node && is_alive(other));
            let others: Vec<NodeCalls> = others.map(|(_, calls)| *calls).collect();
            let own = (granted.calls)
                .entry((want.of.clone(), node))
                .or_insert(NodeCalls {
                    since: now,
                    ..NodeCalls::default()
                });
            let (has, may_make) = share_calls(calls.get(), wanted, *own, &others);
            if has > own.has {
                own.since = now;
            }
            (own.has, own.wants, grant.calls) = (has, wanted.most, may_make);
        }
        grant
    }
}
