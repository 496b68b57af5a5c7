//! Limits: rates and limits of calls, and whether those that begin keep to them.

use super::Ledger;
use std::collections::BTreeMap;
use std::time::SystemTime;
use wheelwork_durable::{Delivery, DurableId, Rate, Row, RuleFor};

/// A limit, from the time on at which its caller had the answer.
#[derive(Clone, Debug)]
struct Limit {
    rate: Option<Allowance>,
    calls: Option<u32>,
    /// In a fleet all nodes know it from then on.
    from: SystemTime,
    /// Those that have begun since.
    running: Vec<Running>,
}

/// A handler that is under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    id: DurableId,
    node: usize,
    epoch: u64,
}

/// How many may begin at once: `burst` in the beginning.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    rate: Rate,
    most: f64,
    tokens: f64,
    at: SystemTime,
}

/// Since when a limit holds.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    pub from: SystemTime,
    /// For how many seconds more a rate lets timers through: a node of a fleet uses tokens for a
    /// second.
    pub more: f64,
}

/// The limits that are known, and all rules for which there may be one.
#[derive(Debug, Default)]
pub struct Limits {
    known: BTreeMap<RuleFor, Limit>,
    pub touched: Vec<RuleFor>,
    /// Those that are to be removed in the end.
    pub to_end: Vec<RuleFor>,
    /// Timers that were held by a limit.
    pub held: u64,
}

impl Limits {
    /// A caller changes a limit: which one holds is not known until it has its answer.
    pub fn change(&mut self, of: &RuleFor) {
        self.known.remove(of);
        if !self.touched.contains(of) {
            self.touched.push(of.clone());
            self.to_end.push(of.clone());
        }
    }

    /// A limit is removed.
    pub fn forget(&mut self, of: &RuleFor) {
        self.known.remove(of);
    }

    /// A caller has its answer: this holds.
    pub fn hold(&mut self, of: RuleFor, rate: Option<Rate>, calls: Option<u32>, at: Since) {
        let Since { from, more } = at;
        let rate = rate.map(|rate| {
            let most = f64::from(rate.burst().get()) + rate.per_second() * more;
            Allowance {
                rate,
                most,
                tokens: most,
                at: from,
            }
        });
        let running = Vec::new();
        let limit = Limit {
            rate,
            calls,
            from,
            running,
        };
        self.known.insert(of, limit);
    }

    /// Whether a row may be held by a limit.
    pub fn may_hold(&self, row: &Row) -> bool {
        let takes = |of: &RuleFor| of.takes(&row.kind, row.key.as_deref());
        self.touched.iter().any(takes)
    }

    /// The process has ended, and all that it did.
    pub fn end_life(&mut self) {
        let limits = self.known.values_mut();
        limits.for_each(|limit| limit.running.clear());
    }
}

impl Ledger {
    /// A handler begins, by the time that has passed.
    pub fn is_let_through(&mut self, node: usize, delivery: &Delivery, now: SystemTime) {
        let mut wrongs = Vec::new();
        let leases = &self.leases;
        // (Handlers of a node that is as good as dead do not count.)
        let is_alive = |running: &Running| {
            let of = leases.of(running.id.partition());
            let is_owner = of.owner == Some(running.node) && of.epoch == running.epoch;
            is_owner && of.until.is_some_and(|until| now < until)
        };
        for (of, limit) in &mut self.limits.known {
            if !of.takes(delivery.kind(), delivery.key()) || now < limit.from {
                continue;
            }
            if let Some(allowance) = &mut limit.rate {
                let passed = now.duration_since(allowance.at).unwrap_or_default();
                let more = passed.as_secs_f64() * allowance.rate.per_second();
                let most = allowance.most;
                (allowance.tokens, allowance.at) = ((allowance.tokens + more).min(most), now);
                allowance.tokens -= 1.0;
                if allowance.tokens < -1e-6 {
                    wrongs.push(format!("{of} exceeds its rate: {allowance:?}"));
                }
            }
            limit.running.push(Running {
                id: delivery.id(),
                node,
                epoch: delivery.fence(),
            });
            let running = limit.running.iter().filter(|one| is_alive(one)).count();
            if limit.calls.is_some_and(|calls| running > calls as usize) {
                wrongs.push(format!("{of} has more calls than it may: {limit:?}"));
            }
        }
        wrongs.iter().for_each(|wrong| self.wrong(wrong));
    }

    /// A handler has ended.
    pub fn is_through(&mut self, id: DurableId) {
        for limit in self.limits.known.values_mut() {
            limit.running.retain(|running| running.id != id);
        }
    }
}

/// Rates that are tried: from one in 20 seconds to 100 in a second.
pub const RATES: [(f64, u32); 5] = [(0.05, 1), (0.5, 3), (2.0, 1), (10.0, 2), (100.0, 5)];
