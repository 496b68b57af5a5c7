//! Granted: tokens and calls of a rule that the store has granted to this node.

use crate::store::grant::Grant;
use crate::store::rule::Rate;
use std::collections::VecDeque;
use std::time::Duration;

/// A token that was not used for so long has lapsed. It counts from before the store was asked.
const LAPSE: Duration = Duration::from_secs(1);

/// So much of a second a node asks for at once.
const SHARE_OF_A_SECOND: f64 = 0.25;

/// How often the store is asked for calls, while some are wanted or there are some.
const CALLS_EVERY: Duration = Duration::from_millis(250);

/// Tokens that the store has granted.
pub(super) struct GrantedTokens {
    pub(super) rate: Rate,
    /// How many of each grant are left, and until when.
    left: VecDeque<(u32, Duration)>,
    /// The store is not asked before.
    pub(super) ask_at: Duration,
}

impl GrantedTokens {
    /// None.
    pub(super) const fn new(rate: Rate) -> Self {
        Self {
            rate,
            left: VecDeque::new(),
            ask_at: Duration::ZERO,
        }
    }

    /// How many have not lapsed.
    pub(super) fn tokens(&self, now: Duration) -> u32 {
        let left = self.left.iter().filter(|(_, until)| *until > now);
        left.fold(0, |sum, (left, _)| sum.saturating_add(*left))
    }

    /// Takes one, which is there.
    pub(super) fn take(&mut self, now: Duration) {
        self.left.retain(|(left, until)| *until > now && *left > 0);
        if let Some((left, _)) = self.left.front_mut() {
            *left -= 1;
        }
    }

    /// How many are asked for at most.
    pub(super) fn most(&self) -> u32 {
        (self.rate.per_second() * SHARE_OF_A_SECOND).ceil().max(1.0) as u32
    }

    pub(super) fn may_ask(&self, now: Duration) -> bool {
        self.ask_at <= now
    }

    /// The store was asked at a time, and has granted some.
    pub(super) fn grant(&mut self, wanted: u32, grant: &Grant, asked: Duration) {
        if wanted == 0 {
            return;
        }
        self.left
            .retain(|(left, until)| *until > asked && *left > 0);
        if grant.tokens > 0 {
            self.left.push_back((grant.tokens, asked + LAPSE));
        }
        let is_all = grant.tokens >= wanted;
        self.ask_at = if is_all { asked } else { asked + grant.next };
    }
}

/// Calls that the store has granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrantedCalls {
    /// How many.
    pub(super) has: u32,
    /// The store is not asked before.
    pub(super) ask_at: Duration,
}

impl GrantedCalls {
    /// The store was asked at a time, and has granted these in all.
    pub(super) fn new(has: u32, asked: Duration) -> Self {
        Self {
            has,
            ask_at: asked + CALLS_EVERY,
        }
    }

    pub(super) fn may_ask(self, now: Duration) -> bool {
        self.ask_at <= now
    }
}
