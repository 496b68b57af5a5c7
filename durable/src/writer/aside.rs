//! Aside: changes that a transaction of somebody else holds up.
//!
//! The writer owns it. A change whose outcome was
//! [`Outcome::Blocked`](crate::contract::Outcome::Blocked) is tried again in later turns, in the
//! order in which the changes came. Its caller waits; nobody else does. A later change of the same
//! row or key waits behind it.

use super::plan::Planned;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DurableId, Partition};
use crate::store::write::{Settled, Write};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The first wait before a change is tried again, and the longest one.
const AGAIN_MIN: Duration = Duration::from_millis(5);
const AGAIN_MAX: Duration = Duration::from_millis(100);

/// The most calls whose changes are tried again in one turn.
const AGAIN_COUNT: usize = 1_024;

/// A caller waits no longer for somebody else's transaction.
const BLOCKED_MAX: Duration = Duration::from_secs(300);

/// What names the row of a change.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Held {
    Row(DurableId),
    Key(Arc<str>),
    /// All rules.
    Rules,
}

/// What a change has in common with others that must not overtake it.
fn token_of(write: &Write) -> Option<Held> {
    if let Write::Rule(..) = write {
        return Some(Held::Rules);
    }
    let key = write.names_key().cloned().map(Held::Key);
    key.or_else(|| write.names_row().or(write.names_dead()).map(Held::Row))
}

/// The changes of a call that wait, and what is done with their outcomes.
pub(super) struct HeldUp {
    pub(super) writes: Vec<Write>,
    pub(super) planned: Planned,
}

impl HeldUp {
    /// Whether the caller has waited long enough, and is told so. What a handler has said waits for
    /// ever: it has to be stored.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        !self.planned.plan.is_settlement() && now.saturating_sub(self.planned.since) > BLOCKED_MAX
    }
}

/// The changes that wait.
#[derive(Default)]
pub(super) struct Aside {
    waiting: VecDeque<HeldUp>,
    /// Those that were tried in this turn, and wait again.
    tried: Vec<HeldUp>,
    /// How many changes have each token.
    tokens: HashMap<Held, usize>,
    wait: Duration,
    /// When they are tried again, by the node's clock.
    again_at: Duration,
}

impl Aside {
    /// How long until they are tried again.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.again_at.saturating_sub(now))
    }

    /// Whether a change of one of these rows or keys waits.
    pub(super) fn is_before(&self, writes: &[Write]) -> bool {
        let waits = |token: Held| self.tokens.contains_key(&token);
        !self.tokens.is_empty() && writes.iter().filter_map(token_of).any(waits)
    }

    /// Whether a handler has answered for this row, and that is not stored: it is not to be handed
    /// out again meanwhile.
    pub(super) fn has_answer(&self, id: DurableId) -> bool {
        self.tokens.contains_key(&Held::Row(id))
            && !is_broken(DurableFault::AsideHandedOut)
            && self.answers().any(|of| of == id)
    }

    /// The same for some row of a partition: it is not to be given back meanwhile.
    pub(super) fn has_answer_of(&self, partition: Partition) -> bool {
        self.answers().any(|id| id.partition() == partition)
    }

    /// The rows for which handlers have answered.
    fn answers(&self) -> impl Iterator<Item = DurableId> {
        let waiting = self.waiting.iter().chain(&self.tried);
        let answers = waiting.filter(|waiting| waiting.planned.plan.is_settlement());
        let writes = answers.flat_map(|waiting| &waiting.writes);
        writes.filter_map(|write| match token_of(write) {
            Some(Held::Row(id)) => Some(id),
            _ => None,
        })
    }

    /// Whether the counts are those of the changes that wait, and no change is left that was tried.
    pub(super) fn is_counted_right(&self) -> bool {
        let mut tokens = HashMap::new();
        for waiting in &self.waiting {
            Self::count(&mut tokens, waiting);
        }
        tokens == self.tokens && self.tried.is_empty()
    }

    fn count(tokens: &mut HashMap<Held, usize>, waiting: &HeldUp) {
        for token in waiting.writes.iter().filter_map(token_of) {
            *tokens.entry(token).or_default() += 1;
        }
    }

    /// Sets the changes of a call aside: behind all others, or, if they have waited before, at
    /// their former place.
    pub(super) fn push(&mut self, waiting: HeldUp, now: Duration) {
        if self.waiting.is_empty() && self.tried.is_empty() {
            self.wait = self.wait.clamp(AGAIN_MIN, AGAIN_MAX);
            self.again_at = now.saturating_add(self.wait);
        }
        Self::count(&mut self.tokens, &waiting);
        if waiting.planned.since < now {
            self.tried.push(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// Those that are tried now, the first ones first.
    pub(super) fn take_due(&mut self, now: Duration) -> Vec<HeldUp> {
        if self.waiting.is_empty() || now < self.again_at {
            return Vec::new();
        }
        self.wait = (self.wait * 2).clamp(AGAIN_MIN, AGAIN_MAX);
        self.again_at = now.saturating_add(self.wait);
        let count = self.waiting.len().min(AGAIN_COUNT);
        let due: Vec<HeldUp> = self.waiting.drain(..count).collect();
        let writes = due.iter().flat_map(|waiting| &waiting.writes);
        for token in writes.filter_map(token_of) {
            if let Some(left) = self.tokens.get_mut(&token) {
                *left -= 1;
                if *left == 0 {
                    self.tokens.remove(&token);
                }
            }
        }
        due
    }

    /// Changes were made that had waited: perhaps the transaction has ended that was in the way.
    pub(super) fn got_through(&mut self) {
        self.wait = AGAIN_MIN;
    }

    /// What handlers have said was in a commit whose outcome is not known. It comes first when the
    /// store is back.
    pub(super) fn keep(&mut self, kept: Vec<HeldUp>) {
        for waiting in kept.into_iter().rev() {
            Self::count(&mut self.tokens, &waiting);
            self.waiting.push_front(waiting);
        }
    }

    /// The next turn tries all of them.
    pub(super) fn try_soon(&mut self) {
        self.again_at = Duration::ZERO;
    }

    /// What was in the commit whose outcome is not known is refused now, if its lease is over.
    pub(super) fn are_refused(&mut self, is_over: impl Fn(&Settled) -> bool) {
        for waiting in &mut self.waiting {
            let mut settled = waiting.writes.iter().filter_map(Write::settles);
            if settled.any(&is_over) {
                waiting.planned.plan.is_refused();
            }
        }
    }

    /// The turn has ended: those that were tried are the first ones again.
    pub(super) fn end_turn(&mut self) {
        for waiting in self.tried.drain(..).rev() {
            self.waiting.push_front(waiting);
        }
    }

    /// The calls that wait: nobody is to wait any more. What handlers have said stays.
    pub(super) fn take_calls(&mut self) -> Vec<Planned> {
        let is_call = |waiting: &HeldUp| !waiting.planned.plan.is_settlement();
        if !self.waiting.iter().any(is_call) {
            return Vec::new();
        }
        let (calls, settlements): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| is_call(waiting));
        self.tokens.clear();
        for waiting in &settlements {
            Self::count(&mut self.tokens, waiting);
        }
        self.waiting = settlements.into();
        calls.into_iter().map(|waiting| waiting.planned).collect()
    }

    /// All of them: the store has failed.
    pub(super) fn take_all(&mut self) -> Vec<HeldUp> {
        self.tokens.clear();
        self.end_turn();
        std::mem::take(&mut self.waiting).into()
    }
}
