//! Bucket: the tokens of a rate, in a process that has its store for itself.
//!
//! One word says all: when the bucket is full. Each token that is taken puts that off by the time
//! in which one comes. (The field calls this GCRA, the generic cell rate algorithm.)
//!
//! The bucket is empty when it is made. So however often a process starts again, and forgets its
//! bucket, it has no more tokens than if it had gone on. In any time `T` at most
//! `burst + per_second * T` tokens are taken.

use crate::store::rule::Rate;
use std::time::Duration;

/// The tokens of a rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// In which time a token comes, in nanoseconds.
    every_ns: u128,
    /// When the bucket is full, in nanoseconds on the node's clock.
    full_at_ns: u128,
    /// The token that was taken last.
    last: Token,
}

/// A token, by the bucket that it is from and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    bucket: u64,
    number: u64,
}

impl Bucket {
    /// An empty bucket, with a number of its own.
    pub(crate) fn new(rate: Rate, bucket: u64, now: Duration) -> Self {
        // (Rounded up, so no rate is exceeded. A rate has a millionth in a second at least.)
        let every_ns = (1e9 / rate.per_second()).ceil().max(1.0) as u128;
        Self {
            rate,
            every_ns,
            full_at_ns: now.as_nanos() + every_ns * u128::from(rate.burst().get()),
            last: Token { bucket, number: 0 },
        }
    }

    /// The rate of which it has the tokens.
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many tokens there are.
    pub(crate) fn tokens(&self, now: Duration) -> u32 {
        let missing = self.full_at_ns.saturating_sub(now.as_nanos());
        let missing = missing.div_ceil(self.every_ns);
        let burst = self.rate.burst().get();
        burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Takes a token, which is there.
    pub(crate) fn take(&mut self, now: Duration) -> Token {
        debug_assert!(self.tokens(now) > 0, "a token is taken that is there");
        self.full_at_ns = self.full_at_ns.max(now.as_nanos()) + self.every_ns;
        self.last.number += 1;
        self.last
    }

    /// Gives a token back that was not used. It is lost if another one was taken since: the bucket
    /// may have been full meanwhile, and had no room for it.
    pub(crate) fn give_back(&mut self, token: Token) {
        if token == self.last {
            self.full_at_ns = self.full_at_ns.saturating_sub(self.every_ns);
            self.last.number -= 1;
        }
    }

    /// How many tokens can be taken until so long after now, each as soon as it is there.
    pub(crate) fn tokens_within(&self, ahead: Duration, now: Duration) -> u32 {
        let burst = self.rate.burst().get();
        let (from, until) = (
            self.full_at_ns.max(now.as_nanos()),
            (now + ahead).as_nanos(),
        );
        let tokens = match until.checked_sub(from) {
            Some(more) => u128::from(burst) + more / self.every_ns,
            None => u128::from(burst).saturating_sub((from - until).div_ceil(self.every_ns)),
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// How long it takes until this many tokens can have been taken, each as soon as it is there.
    pub(crate) fn wait_for(&self, tokens: u32, now: Duration) -> Duration {
        let now = now.as_nanos();
        let last = self.full_at_ns.max(now) + self.every_ns * u128::from(tokens);
        let full = self.every_ns * u128::from(self.rate.burst().get());
        let wait = last.saturating_sub(full).saturating_sub(now);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}
