//! Counted: what is counted of a rule, and how many timers it lets through.
//!
//! The throttle has it under its lock.

use super::bucket::{Bucket, Token};
use super::granted::{GrantedCalls, GrantedTokens, HELD_UP};
use crate::store::grant::{Want, WantedCalls};
use crate::store::rule::{Rate, RuleFor};
use crate::sync::{Fault, broken};
use std::time::Duration;

/// How often it is looked again whether timers that may go on have begun.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Timers are let go on so long before there is a token for them. They wait for it in the window.
pub(crate) const AHEAD: Duration = Duration::from_millis(100);

/// Tokens of a rate.
pub(super) enum Tokens {
    /// Of a process that has its store for itself.
    Own(Bucket),
    /// Those that the store has granted.
    Granted(GrantedTokens),
}

impl Tokens {
    pub(super) const fn rate(&self) -> Rate {
        match self {
            Self::Own(bucket) => bucket.rate(),
            Self::Granted(granted) => granted.rate,
        }
    }

    /// How many there are.
    pub(super) fn tokens(&self, now: Duration) -> u32 {
        match self {
            Self::Own(bucket) => bucket.tokens(now),
            Self::Granted(granted) => granted.tokens(now),
        }
    }

    /// How many timers may be let go on for them.
    pub(super) fn ahead(&self, now: Duration) -> u32 {
        match self {
            Self::Own(bucket) => bucket.tokens_within(AHEAD, now),
            Self::Granted(granted) => granted.tokens(now),
        }
    }

    pub(super) fn take(&mut self, now: Duration) -> Option<Token> {
        match self {
            Self::Own(bucket) => Some(bucket.take(now)),
            Self::Granted(granted) => {
                granted.take(now);
                None
            }
        }
    }
}

/// How many calls may be under way.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    /// In the whole fleet.
    pub(super) most: u32,
    /// Those that the store has granted, where nodes share it.
    pub(super) granted: Option<GrantedCalls>,
}

impl Calls {
    pub(super) fn here(&self) -> u32 {
        self.granted
            .map_or(self.most, |granted| granted.has.min(self.most))
    }
}

/// What is known of a rule.
pub(super) struct Limit {
    pub(super) of: RuleFor,
    /// `None`: it has no rate.
    pub(super) tokens: Option<Tokens>,
    /// `None`: any number of calls.
    pub(super) calls: Option<Calls>,
    /// Calls that are under way.
    pub(super) running: u32,
    /// Timers that may go on, and have not begun.
    pub(super) released: u32,
    /// Timers that were refused, and that the writer has not put in their place yet.
    pub(super) refused: u32,
    /// Timers that have come into the window since the store was asked, where nodes share it.
    pub(super) coming: u32,
    /// Suspects that could begin if there was room, where nodes share the store.
    pub(super) suspects: u32,
    /// When the store was asked last, where nodes share it.
    pub(super) asked: Duration,
    /// The service stops: no more timers begin.
    pub(super) is_ending: bool,
    /// The writer says that timers wait.
    pub(super) waiting: bool,
}

impl Limit {
    pub(super) const fn new(of: RuleFor) -> Self {
        Self {
            of,
            tokens: None,
            calls: None,
            running: 0,
            released: 0,
            refused: 0,
            coming: 0,
            suspects: 0,
            asked: Duration::ZERO,
            is_ending: false,
            waiting: false,
        }
    }

    /// How many timers may begin now.
    pub(super) fn free(&self, now: Duration) -> u32 {
        let tokens = (self.tokens.as_ref()).map_or(u32::MAX, |tokens| tokens.tokens(now));
        tokens.min(self.calls_left())
    }

    /// How many more calls may begin.
    pub(super) fn calls_left(&self) -> u32 {
        let calls = self.calls.as_ref().map_or(u32::MAX, Calls::here);
        calls.saturating_sub(self.running)
    }

    /// How many more timers the writer may let go on now. They may have to wait for a token.
    pub(super) fn left(&self, now: Duration) -> u32 {
        let tokens = self.tokens.as_ref();
        let tokens = tokens.map_or(u32::MAX, |tokens| tokens.ahead(now));
        tokens.min(self.calls_left()).saturating_sub(self.released)
    }

    /// Whether a timer that was let go on, and has come too early for its token, may wait for the
    /// next one. (What others have taken too late is lost. So more may wait than are left.)
    pub(super) fn may_go_back(&self, now: Duration) -> bool {
        match self.tokens {
            Some(Tokens::Own(_)) => {
                let wait = self.token_wait(now).unwrap_or_default();
                self.calls_left() > self.released && wait <= AHEAD * 2
            }
            _ => self.left(now) > 0,
        }
    }

    /// How long it takes until there is a token for one more timer that goes on.
    pub(super) fn token_wait(&self, now: Duration) -> Option<Duration> {
        match self.tokens.as_ref()? {
            Tokens::Own(bucket) => Some(bucket.wait_for(self.released.saturating_add(1), now)),
            // (The store is asked for it.)
            Tokens::Granted(_) => None,
        }
    }

    /// Whether a newcomer comes behind others.
    pub(super) fn is_before(&self) -> bool {
        let is_overtaken = broken(Fault::ThrottleOvertakes);
        (self.refused > 0 || self.waiting || self.released > 0) && !is_overtaken
    }

    /// When the writer is to look whether one more timer may go on, if it need not be told.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        if self.calls.is_some() && self.calls_left() <= self.released {
            // (The end of a call wakes the writer. What may go on may also be gone.)
            return (self.released > 0).then_some(LOOK_AGAIN);
        }
        let wait = match &self.tokens {
            Some(Tokens::Own(_)) => self.token_wait(now)?,
            // (The answer of the store is a turn. There may be nothing more to do for it.)
            Some(Tokens::Granted(_)) if self.left(now) == 0 => {
                return (self.released > 0).then_some(LOOK_AGAIN);
            }
            // A call has ended since the writer has looked, and nobody was known to wait for it.
            _ => return Some(Duration::ZERO),
        };
        // (Several go on at once.)
        Some(wait.saturating_sub(AHEAD / 2))
    }
}

impl Limit {
    /// How many timers could begin, if the store granted it. `queued`: those that wait.
    pub(super) fn demand(&self, queued: u32) -> u32 {
        if self.is_ending {
            return 0;
        }
        let newcomers = self.refused.saturating_add(self.coming);
        let others = queued.saturating_add(self.suspects);
        newcomers.saturating_add(others)
    }

    /// How many calls could be under way. Until the answer comes no more are than those that there
    /// were, or that may be made.
    pub(super) fn calls_wanted(&self, calls: &Calls, queued: u32) -> WantedCalls {
        let released = if self.is_ending { 0 } else { self.released };
        let begun = self.running.saturating_add(released);
        WantedCalls {
            most: begun.saturating_add(self.demand(queued)).min(calls.most),
            running: self.running.max(calls.here()),
        }
    }

    /// How many tokens are to be asked for now.
    pub(super) fn tokens_wanted(&self, now: Duration, queued: u32) -> u32 {
        let Some(Tokens::Granted(tokens)) = &self.tokens else {
            return 0;
        };
        let there = tokens.tokens(now).saturating_sub(self.released);
        // (None that lapse for want of a call.)
        let usable = self.calls_left().saturating_sub(self.released);
        let wanted = self.demand(queued).min(usable).min(tokens.most());
        wanted.saturating_sub(there)
    }

    /// What the store is asked for now.
    pub(super) fn want(&self, now: Duration, queued: u32) -> Option<Want> {
        let tokens = match &self.tokens {
            Some(Tokens::Granted(tokens)) if tokens.may_ask(now) => self.tokens_wanted(now, queued),
            _ => 0,
        };
        let calls = self.calls.filter(|calls| {
            let granted = calls.granted.unwrap_or(GrantedCalls::UNKNOWN);
            let wanted = self.calls_wanted(calls, queued);
            (wanted.most > 0 || granted.may_have) && granted.may_ask(now)
        });
        let calls = calls.map(|calls| self.calls_wanted(&calls, queued));
        let of = self.of.clone();
        (tokens > 0 || calls.is_some()).then_some(Want { of, tokens, calls })
    }

    /// How long it takes until the store is to be asked.
    pub(super) fn next_want(&self, now: Duration, queued: u32) -> Option<Duration> {
        let tokens = match &self.tokens {
            Some(Tokens::Granted(tokens)) if self.tokens_wanted(now, queued) > 0 => {
                Some(tokens.ask_at)
            }
            _ => None,
        };
        let calls = self.calls.and_then(|calls| {
            let granted = calls.granted?;
            let wanted = self.calls_wanted(&calls, queued);
            (wanted.most > 0 || granted.may_have).then_some(granted.ask_at)
        });
        let at = tokens.into_iter().chain(calls).min()?;
        Some(at.saturating_sub(now))
    }

    /// Somebody's transaction was in the way when the store was asked: it is asked again later.
    pub(super) fn held_up(&mut self, asked: Duration) {
        let again = asked + HELD_UP;
        if let Some(Tokens::Granted(tokens)) = &mut self.tokens {
            tokens.ask_at = again;
        }
        if let Some(granted) = self.calls.as_mut().and_then(|calls| calls.granted.as_mut()) {
            granted.ask_at = again;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Calls, Limit, Tokens};
    use crate::queue::bucket::Bucket;
    use crate::store::rule::{Rate, RuleFor};
    use std::num::NonZeroU32;
    use std::time::Duration;

    #[test]
    fn a_timer_that_comes_before_its_token_waits_for_a_later_one() {
        let mut limit = Limit::new(RuleFor::Kind("mail".into()));
        let rate = Rate::new(10.0, NonZeroU32::MIN).unwrap();
        let bucket = Bucket::new(rate, 1, Duration::ZERO);
        limit.tokens = Some(Tokens::Own(bucket));
        // The others have their tokens at 150 and 250 ms, since one was taken late.
        let now = Duration::from_millis(150);
        limit.released = 2;
        assert_eq!((limit.left(now), limit.may_go_back(now)), (0, true));
        limit.released = 3;
        assert!(!limit.may_go_back(now), "it would wait for too long");
    }

    #[test]
    fn the_writer_looks_at_once_while_there_is_room_for_one_that_waits() {
        let mut limit = Limit::new(RuleFor::Kind("mail".into()));
        limit.calls = Some(Calls {
            most: 2,
            granted: None,
        });
        let mut wait = |running, released| {
            (limit.running, limit.released) = (running, released);
            limit.wait(Duration::ZERO)
        };
        // (A call may end just before the writer says that one waits: nobody wakes it for that.)
        assert_eq!(wait(1, 0), Some(Duration::ZERO));
        assert_eq!(wait(2, 0), None);
        assert!(wait(1, 1) > Some(Duration::ZERO));
    }
}
