//! Grant: what a node of a fleet asks of a rule, and what it gets.
//!
//! The store has one bucket of a rule for the whole fleet, and the calls that each node may make. A
//! store counts by the functions of this file, in a transaction of its own.

use super::rule::{Rate, RuleFor};
use std::time::Duration;

/// A node asks again so long after it has asked for tokens of a rate that there is not.
const AGAIN: Duration = Duration::from_millis(100);

/// What a node asks of a rule.
///
/// # Example
/// See [`SharedStore::grant`](crate::contract::SharedStore::grant).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The rule.
    pub of: RuleFor,
    /// Tokens that it is to get, for its next moments.
    pub tokens: u32,
    /// Calls that it is to have in all. `None`: this does not change.
    pub calls: Option<WantedCalls>,
}

/// Calls that a node asks for.
///
/// # Example
/// See [`SharedStore::grant`](crate::contract::SharedStore::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedCalls {
    /// How many it can use.
    pub most: u32,
    /// It uses no more than these until it has the answer.
    pub running: u32,
}

/// What a node gets of a rule.
///
/// # Example
/// See [`SharedStore::grant`](crate::contract::SharedStore::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Tokens, for its next moments.
    pub tokens: u32,
    /// How long it takes until there is another token.
    pub next: Duration,
    /// Calls that it may make now, in all.
    pub calls: u32,
    /// Somebody's transaction is in the way: nothing was granted, and its calls are what they were.
    pub is_held_up: bool,
}

/// Nothing. If it asked for tokens, it asks again in a moment: there may be no such rate any more,
/// and the node will know that by then.
impl Default for Grant {
    fn default() -> Self {
        Self {
            tokens: 0,
            next: AGAIN,
            calls: 0,
            is_held_up: false,
        }
    }
}

/// Calls of a rule that a node has, as the store keeps them.
///
/// # Example
/// See [`share_calls`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCalls {
    /// How many it has.
    pub has: u32,
    /// How many it could use when it asked last.
    pub wants: u32,
    /// When it got one last, or came, by a number that rises.
    pub since: u64,
}

/// Takes up to `tokens` tokens of a bucket. `full_at`: when it is full, in microseconds on the
/// store's clock, as it was stored. Returns how many were taken, when the bucket is full then, and
/// how long it takes until there is another one.
///
/// # Example
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use wheelwork_durable::Rate;
/// use wheelwork_durable::contract::take_tokens;
///
/// let rate = Rate::new(2.0, NonZeroU32::MIN).unwrap();
/// // A bucket of which nothing is stored is empty.
/// let (taken, full_at, next) = take_tokens(rate, None, 1_000_000, 5);
/// assert_eq!((taken, full_at, next), (0, 1_500_000, Duration::from_millis(500)));
/// let (taken, full_at, _) = take_tokens(rate, Some(full_at), 1_700_000, 5);
/// assert_eq!((taken, full_at), (1, 2_200_000));
/// ```
pub fn take_tokens(
    rate: Rate,
    full_at: Option<u64>,
    now: u64,
    tokens: u32,
) -> (u32, u64, Duration) {
    // (Rounded up, so no rate is exceeded.)
    let time_of = |tokens: u32| (f64::from(tokens) * 1e6 / rate.per_second()).ceil() as u64;
    let burst = rate.burst().get();
    let empty = now.saturating_add(time_of(burst));
    let full_at = full_at.unwrap_or(empty).clamp(now, empty);
    let missing = (full_at - now) as f64 * rate.per_second() / 1e6;
    // (A little more than a token is missing where a number was rounded.)
    let there = burst.saturating_sub((missing - 1e-9).ceil().max(0.0) as u32);
    let taken = there.min(tokens);
    let full_then = match taken {
        0 => full_at,
        taken => full_at.saturating_add(time_of(taken)),
    };
    let left = there - taken;
    let first = now.saturating_add(time_of(burst.saturating_sub(left + 1)));
    // (At least the next moment: by rounding, one may seem to be there that is not.)
    let next = Duration::from_micros(full_then.saturating_sub(first).max(1));
    (taken, full_then, next)
}

/// How many calls of a rule a node has from now on, which had `own` so far and wants others; and
/// how many of these it may make. `others`: the calls of all other nodes that are alive.
///
/// It has more than it may make while it uses more: what runs, runs. What it has is nobody else's.
///
/// Nodes that want more than they have share what there is: those that want few get them, and the
/// others get equally many. The rest of the division goes to those that have waited for longest,
/// and so does what is free.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::{NodeCalls, WantedCalls, share_calls};
///
/// let wants = |most, running| WantedCalls { most, running };
/// // It is alone, and gets what it wants.
/// assert_eq!(share_calls(3, wants(9, 0), NodeCalls::default(), &[]), (3, 3));
/// // Another node has all, and does not need them all. When it asks, it gives back.
/// let other = NodeCalls { has: 3, wants: 3, since: 1 };
/// let own = NodeCalls { has: 0, wants: 2, since: 2 };
/// assert_eq!(share_calls(3, wants(2, 0), own, &[other]), (0, 0));
/// assert_eq!(share_calls(3, wants(3, 1), other, &[own]), (1, 1));
/// // It uses all of them, and makes no more than its share when they end.
/// assert_eq!(share_calls(3, wants(3, 3), other, &[own]), (3, 1));
/// ```
pub fn share_calls(
    calls: u32,
    want: WantedCalls,
    own: NodeCalls,
    others: &[NodeCalls],
) -> (u32, u32) {
    let taken: u32 = others
        .iter()
        .fold(0, |sum, other| sum.saturating_add(other.has));
    let free = calls.saturating_sub(taken);
    let has_less = |other: &&NodeCalls| other.wants > other.has;
    let hungry = others.iter().filter(has_less).count();
    let mut most = want.most.min(free);
    if hungry > 0 {
        // All nodes have as many as this, as far as they want them, and some have one more.
        let (mut each, mut rest) = (0, calls);
        let wants = || others.iter().map(|other| other.wants).chain([want.most]);
        loop {
            let more = wants().filter(|&wants| wants > each).count() as u32;
            if more == 0 || rest < more {
                break;
            }
            each += rest / more;
            rest = calls - wants().map(|wants| wants.min(each)).sum::<u32>();
        }
        let before = others.iter().filter(|other| {
            other.wants > 0 && (other.has > 0, other.since) < (own.has > 0, own.since)
        });
        let with_none = before.clone().filter(|other| other.has == 0).count();
        let before = before.filter(|other| other.wants > each).count();
        let is_first = (before as u32) < rest;
        most = most.min(each.saturating_add(u32::from(is_first)));
        // (What is free is first for those that have none, and have waited for longer.)
        most = most.min(own.has.max(free.saturating_sub(with_none as u32)));
    }
    (most.max(want.running.min(own.has)), most)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{NodeCalls, WantedCalls, share_calls, take_tokens};
    use crate::store::rule::Rate;
    use std::num::NonZeroU32;

    /// Nodes with these calls to make, which make them whenever they may. Returns how many each has
    /// made after a while.
    fn shared(calls: u32, demand: &[u32]) -> Vec<u32> {
        let mut made = vec![0; demand.len()];
        let (mut nodes, mut may) = (vec![NodeCalls::default(); made.len()], vec![0; made.len()]);
        for turn in 1..200 {
            for node in 0..demand.len() {
                // (What it began at its last turn has ended by this one.)
                made[node] += may[node];
                let own = nodes[node];
                let others = [&nodes[..node], &nodes[node + 1..]].concat();
                let want = WantedCalls {
                    most: demand[node].min(calls),
                    running: may[node],
                };
                let (has, may_make) = share_calls(calls, want, own, &others);
                may[node] = may_make;
                nodes[node] = NodeCalls {
                    has,
                    wants: want.most,
                    since: if has > own.has { turn } else { own.since },
                };
                assert!(nodes.iter().map(|node| node.has).sum::<u32>() <= calls);
            }
        }
        made
    }

    #[test]
    fn each_node_that_wants_calls_has_its_share() {
        // One that wants few has them, however many the others want.
        let made = shared(6, &[1, 6, 6]);
        assert!(made[0] > 180 && made[1] > 400 && made[2] > 400, "{made:?}");
        // Nodes that want none leave all to the others, however many they are.
        let made = shared(4, &[9, 9, 0, 0, 0, 0, 0, 0]);
        assert!(made[0] > 380 && made[1] > 380, "{made:?}");
        // What nobody wants is for the others, and there are fewer calls than nodes.
        assert!(shared(7, &[2, 0, 9])[2] > 900);
        for demand in [&[9, 9, 9][..], &[1, 9, 1, 1]] {
            let made = shared(1, demand);
            assert!(made.iter().all(|&made| made > 8), "{made:?}");
        }
    }

    const fn node(has: u32, wants: u32, since: u64) -> NodeCalls {
        NodeCalls { has, wants, since }
    }

    #[test]
    fn a_node_that_wants_none_has_no_share_to_leave_to_others() {
        let want = WantedCalls {
            most: 4,
            running: 4,
        };
        let (hungry, idle) = (node(0, 4, 1), node(0, 0, 2));
        let shared = share_calls(4, want, node(4, 4, 0), &[hungry, idle]);
        assert_eq!(shared, (4, 2));
    }

    #[test]
    fn what_is_free_is_for_the_node_that_has_waited_for_longest() {
        let want = WantedCalls {
            most: 2,
            running: 0,
        };
        let (first, second, has_one) = (node(0, 2, 0), node(0, 2, 2), node(1, 2, 1));
        assert_eq!(share_calls(2, want, second, &[first, has_one]), (0, 0));
        assert_eq!(share_calls(2, want, first, &[second, has_one]), (1, 1));
        // One that has some keeps its share meanwhile.
        assert_eq!(
            share_calls(2, want, has_one, &[first, node(1, 2, 2)]),
            (1, 1)
        );
    }

    #[test]
    fn who_waits_as_long_as_it_is_told_finds_a_token_soon() {
        for rate in [0.05, 0.3, 1.0, 3.0, 7.0, 1e3, 333_333.3, 1e6] {
            for burst in [1, 2, 3, 7, 1_000, 1 << 20] {
                let rate = Rate::new(rate, NonZeroU32::new(burst).unwrap()).unwrap();
                let (mut now, mut full_at) = (1_000_000, None);
                let (mut asked, mut taken) = (0, 0);
                while taken < 1_000 && asked < 4_000 {
                    let (tokens, full_then, next) = take_tokens(rate, full_at, now, 1);
                    (asked, taken, full_at) = (asked + 1, taken + tokens, Some(full_then));
                    now += next.as_micros() as u64;
                }
                assert!(asked <= 2 * taken + 8, "{asked} of {rate:?}, burst {burst}");
            }
        }
    }
}
