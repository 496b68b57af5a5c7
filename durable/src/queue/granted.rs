//! Granted: tokens and calls of a rule that the store has granted to this node.

use crate::store::fault::{DurableFault, is_broken};
use crate::store::grant::{Grant, WantedCalls};
use crate::store::rule::Rate;
use std::collections::VecDeque;
use std::time::Duration;

/// A token that was not used for so long has lapsed. It counts from before the store was asked.
const LAPSE: Duration = Duration::from_secs(1);

/// A node asks at once for the tokens of this part of a second.
const SHARE_OF_A_SECOND: f64 = 0.25;

/// The store is asked again so long after somebody's transaction was in the way.
pub(super) const HELD_UP: Duration = Duration::from_millis(100);

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
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedCalls {
    /// How many.
    pub(super) has: u32,
    /// The store may have some for this node, or keep some for it, whether it knows them or not:
    /// they have to be given back when they are not wanted.
    pub(super) may_have: bool,
    /// The store is not asked before.
    pub(super) ask_at: Duration,
}

impl GrantedCalls {
    /// Nothing is known of what the store has.
    pub(super) const UNKNOWN: Self = Self {
        has: 0,
        may_have: true,
        ask_at: Duration::ZERO,
    };

    /// The store was asked for some at a time, and has granted these in all.
    pub(super) fn new(has: u32, wanted: WantedCalls, asked: Duration) -> Self {
        // (It keeps calls for a node that wants some, so it is told when none are wanted.)
        let may_want = wanted.most > 0 && !is_broken(DurableFault::WantKept);
        Self {
            has,
            may_have: has > 0 || wanted.running > 0 || may_want,
            ask_at: asked + CALLS_EVERY,
        }
    }

    pub(super) fn may_ask(self, now: Duration) -> bool {
        self.ask_at <= now
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::queue::throttle::{RuleNumber, Throttle};
    use crate::store::grant::{Grant, Want, WantedCalls};
    use crate::store::rule::{Rate, Rule, RuleChange, RuleFor, Rules};
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;
    use std::time::Duration;

    const NONE: Duration = Duration::ZERO;
    const SECOND: Duration = Duration::from_secs(1);

    fn rules(kinds: usize, change: RuleChange) -> Vec<Rule> {
        let mut rules = Rules::default();
        for number in 0..kinds {
            let of = RuleFor::Kind(format!("kind-{number}").into());
            rules.change(&of, change).unwrap();
        }
        rules.all()
    }

    fn throttle(rules: &[Rule]) -> Throttle {
        let throttle = Throttle::new(true, Box::new(|| {}));
        throttle.set(rules, NONE);
        throttle
    }

    fn answer(throttle: &Throttle, wants: &[(RuleNumber, Want)], grant: Grant, asked: Duration) {
        for (number, want) in wants {
            throttle.grant(*number, want, &grant, asked);
        }
    }

    #[test]
    fn more_rules_than_are_asked_for_at_once_have_their_turn() {
        let rate = Rate::new(1e3, NonZeroU32::MIN);
        let throttle = throttle(&rules(100, RuleChange::Rate(rate)));
        let mut asked = BTreeSet::new();
        for turn in 1..=4 {
            let now = SECOND * turn;
            let wants = throttle.wants(now, |_| 5);
            asked.extend(wants.iter().map(|(number, _)| *number));
            answer(&throttle, &wants, Grant::default(), now);
        }
        assert_eq!(asked.len(), 100);
    }

    #[test]
    fn calls_that_are_not_wanted_any_more_are_given_back() {
        let throttle = throttle(&rules(1, RuleChange::Calls(NonZeroU32::new(4))));
        let four = Grant {
            calls: 4,
            ..Grant::default()
        };
        let asks = |now: Duration| {
            let wants = throttle.wants(now, |_| 0);
            wants.first().and_then(|(_, want)| want.calls)
        };
        for turn in 0..2 {
            // Some wait, and it has calls for them; then none wait.
            let now = SECOND * (turn * 10);
            let wants = throttle.wants(now, |_| 9);
            assert_eq!(wants.len(), 1);
            answer(&throttle, &wants, four, now);
            if turn == 1 {
                // It knows no more what it has. (The store does.)
                throttle.forget_grants();
            }
            let mut uses = Vec::new();
            for second in 1..5 {
                let now = now + SECOND * second;
                let wants = throttle.wants(now, |_| 0);
                uses.extend(asks(now).map(|calls| (calls.most, calls.running)));
                answer(&throttle, &wants, Grant::default(), now);
            }
            let given_back: &[_] = match turn {
                0 => &[(0, 4), (0, 0)],
                _ => &[(0, 0)],
            };
            assert_eq!(uses, given_back);
        }
    }

    #[test]
    fn the_store_is_told_that_no_calls_are_wanted_any_more() {
        let asks = || {
            let throttle = throttle(&rules(1, RuleChange::Calls(NonZeroU32::new(1))));
            // Another node has the call.
            let wants = throttle.wants(SECOND, |_| 9);
            answer(&throttle, &wants, Grant::default(), SECOND);
            let wants = throttle.wants(SECOND * 2, |_| 9);
            answer(&throttle, &wants, Grant::default(), SECOND * 2);
            // What has waited is cancelled.
            let wants = throttle.wants(SECOND * 3, |_| 0);
            answer(&throttle, &wants, Grant::default(), SECOND * 3);
            let most = wants
                .iter()
                .filter_map(|(_, want)| want.calls)
                .map(|calls| calls.most);
            (
                most.collect::<Vec<_>>(),
                throttle.wants(SECOND * 4, |_| 0).len(),
            )
        };
        assert_eq!(asks(), (vec![0], 0));
        #[cfg(feature = "__faults")]
        {
            use crate::store::fault::{DurableFault, set_durable_fault};
            set_durable_fault(Some(DurableFault::WantKept));
            assert_eq!(asks(), (vec![], 0), "the store keeps a call for it");
            set_durable_fault(None);
        }
    }

    #[test]
    fn a_node_that_stops_wants_no_calls_beyond_those_that_run() {
        let asks = || {
            let throttle = throttle(&rules(1, RuleChange::Calls(NonZeroU32::new(4))));
            let wants = throttle.wants(SECOND, |_| 9);
            let one = Grant {
                calls: 1,
                ..Grant::default()
            };
            answer(&throttle, &wants, one, SECOND);
            throttle.end();
            let wants = throttle.wants(SECOND * 2, |_| 9);
            wants.first().and_then(|(_, want)| want.calls)
        };
        // (Until it has the answer, it may still make the one that it has.)
        let (most, running) = (0, 1);
        assert_eq!(asks(), Some(WantedCalls { most, running }));
        #[cfg(feature = "__faults")]
        {
            use crate::store::fault::{DurableFault, set_durable_fault};
            set_durable_fault(Some(DurableFault::StopKeepsWants));
            let most = 4;
            assert_eq!(asks(), Some(WantedCalls { most, running }));
            set_durable_fault(None);
        }
    }

    #[test]
    fn tokens_are_asked_for_as_long_as_suspects_wait() {
        let rate = Rate::new(1.0, NonZeroU32::MIN);
        let throttle = throttle(&rules(1, RuleChange::Rate(rate)));
        let asks = |now| throttle.wants(now, |_| 0).len();
        let number = throttle.left(NONE).into_keys().next().unwrap();
        let refuse = || {
            let mut room = throttle.room(NONE);
            assert!(!room.take(vec![number]));
            throttle.set_suspects(&room);
        };
        for second in 1..4 {
            let now = SECOND * second;
            refuse();
            let wants = throttle.wants(now, |_| 0);
            assert_eq!(wants.len(), 1);
            answer(&throttle, &wants, Grant::default(), now);
        }
        throttle.set_suspects(&throttle.room(NONE));
        assert_eq!(asks(SECOND * 9), 0);
        #[cfg(feature = "__faults")]
        {
            use crate::store::fault::{DurableFault, set_durable_fault};
            set_durable_fault(Some(DurableFault::SuspectsUncounted));
            refuse();
            assert_eq!(asks(SECOND * 9), 0, "nothing is asked for them");
            set_durable_fault(None);
        }
    }

    #[test]
    fn a_rule_that_is_held_up_keeps_its_calls_and_is_asked_again_later() {
        let throttle = throttle(&rules(1, RuleChange::Calls(NonZeroU32::new(4))));
        let wants = throttle.wants(NONE, |_| 9);
        let four = Grant {
            calls: 4,
            ..Grant::default()
        };
        answer(&throttle, &wants, four, NONE);
        let wants = throttle.wants(SECOND, |_| 9);
        let held_up = Grant {
            is_held_up: true,
            ..Grant::default()
        };
        answer(&throttle, &wants, held_up, SECOND);
        assert_eq!(throttle.left(SECOND).values().copied().max(), Some(4));
        assert!(throttle.wants(SECOND, |_| 9).is_empty());
        assert_eq!(throttle.wants(SECOND * 2, |_| 9).len(), 1);
    }
}
