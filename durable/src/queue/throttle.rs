//! Throttle: how many timers may go to their handlers now, where rules limit that.
//!
//! All threads share it. A thread that is about to call a handler asks it (`ThrottleAsk`), and
//! gives back what it got when the handler has answered (`ThrottleGive`). The writer sets the
//! rules, and says which timers it has let go on (`ThrottleRelease`).
//!
//! # Ground rules
//!  - One lock guards all: a timer that meets several rules takes of each of them, or of none. A
//!    service without such rules reads one word, and takes no lock.
//!  - What a thread got is a `Pass`. Its drop gives the call back, once, whatever becomes of the
//!    handler. A token stays taken if the handler was called.
//!  - A timer that was refused is a `Refused` until the writer has put it behind those that wait,
//!    or has forgotten it. Meanwhile, and as long as any timer of the rule waits (`set_waiting`),
//!    later timers of the rule are refused too. So no newcomer overtakes. Timers that the writer
//!    has let go on are no newcomers, and neither are suspects, which come last anyway.
//!  - The writer is woken by a `Pass` that ends while timers wait. It says that they do before the
//!    `Refused` ends, so no such end is missed.

use super::bucket::{Bucket, Token};
use super::counted::{Calls, LOOK_AGAIN, Limit, Tokens};
use super::granted::{GrantedCalls, GrantedTokens};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::grant::{Grant, Want};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, Position, Row, StoreTime};
use crate::store::rule::{Rule, RuleFor};
use crate::sync::{AtomicBool, Fault, Mutex, MutexGuard, Ordering, broken};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A rule with a rate or a limit of calls, by the number that the throttle has given it.
pub(crate) type RuleNumber = u64;

/// What rules a timer meets, by their numbers.
pub(crate) type Met = Vec<RuleNumber>;

/// How many timers may go to their handlers now.
pub(crate) struct Throttle {
    /// Whether there are rules.
    is_used: AtomicBool,
    limits: Mutex<Limits>,
    /// Nodes share the store, which grants what they use.
    is_shared: bool,
    /// Wakes the writer.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Limits {
    rules: BTreeMap<RuleNumber, Limit>,
    kinds: HashMap<Arc<str>, RuleNumber>,
    prefixes: HashMap<Arc<str>, RuleNumber>,
    /// The lengths of the prefixes.
    lengths: Vec<usize>,
    /// Timers that the writer has let go on, and that have not begun.
    released: IdMap<DurableId, Released>,
    last: RuleNumber,
    /// How many buckets were made.
    buckets: u64,
    /// The service stops.
    is_ending: bool,
}

/// A timer that may go on.
struct Released {
    met: Met,
    /// Its deadline. With another one it is a newcomer.
    due: StoreTime,
}

impl Limits {
    /// The rules that a timer meets.
    fn met(&self, row: &Row) -> Met {
        let mut met = Met::new();
        met.extend(self.kinds.get(&row.kind));
        let Some(key) = &row.key else {
            return met;
        };
        for &length in &self.lengths {
            if let Some(prefix) = key.get(..length) {
                met.extend(self.prefixes.get(prefix));
            }
        }
        met
    }

    fn each(&mut self, met: &[RuleNumber], mut change: impl FnMut(&mut Limit)) {
        for number in met {
            if let Some(limit) = self.rules.get_mut(number) {
                change(limit);
            }
        }
    }

    /// A timer that may go on has begun, or will not.
    fn end_release(&mut self, id: DurableId) -> bool {
        let Some(released) = self.released.remove(&id) else {
            return false;
        };
        self.each(&released.met, |limit| limit.released -= 1);
        true
    }

    /// A timer may go on. Returns how long it waits for its token.
    fn release(&mut self, at: Position, met: &[RuleNumber], now: Duration) -> Duration {
        let Position { due, id } = at;
        self.end_release(id);
        let mut wait = Duration::ZERO;
        self.each(met, |limit| {
            wait = wait.max(limit.token_wait(now).unwrap_or_default());
            limit.released += 1;
        });
        let met = met.to_vec();
        self.released.insert(id, Released { met, due });
        wait
    }

    /// The number of the rule for these timers.
    fn number(&mut self, of: &RuleFor) -> RuleNumber {
        let known = self.rules.iter().find(|(_, limit)| limit.of == *of);
        if let Some((&number, _)) = known {
            return number;
        }
        self.last += 1;
        let mut limit = Limit::new(of.clone());
        limit.is_ending = self.is_ending;
        self.rules.insert(self.last, limit);
        self.last
    }
}

/// The most rules for which the store is asked at once.
const WANTS_MAX: usize = 32;

/// What a thread is told that asks.
pub(crate) enum Asked {
    /// No rule limits the timer.
    Free,
    /// It may go.
    Pass(Pass),
    /// It may not.
    Refused(Refused),
}

impl Throttle {
    /// Without a rule. `is_shared`: nodes share the store. `wake`: wakes the writer.
    pub(crate) fn new(is_shared: bool, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            is_used: AtomicBool::new(false),
            limits: Mutex::default(),
            is_shared,
            wake,
        }
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are rules.
    pub(crate) fn is_used(&self) -> bool {
        // Ordering: Relaxed. A hint: the rules are under the lock. A thread that does not see a
        // rule yet calls its handler as one that came before the rule.
        self.is_used.load(Ordering::Relaxed)
    }

    /// The writer has read the rules of the store. Returns whether those with limits are others
    /// now. What runs is counted on; a rate that has changed begins with no token.
    pub(crate) fn set(&self, rules: &[Rule], now: Duration) -> bool {
        let limited = rules
            .iter()
            .filter(|rule| rule.rate.is_some() || rule.calls.is_some());
        let limited: Vec<&Rule> = limited.collect();
        if limited.is_empty() && !self.is_used() {
            return false;
        }
        let mut limits = self.limits();
        let (mut has_changed, mut numbers) = (false, Vec::new());
        for rule in limited {
            let number = limits.number(&rule.of);
            numbers.push(number);
            let bucket = limits.buckets + 1;
            limits.buckets = bucket;
            limits.each(&[number], |limit| {
                let calls = rule.calls.map(|calls| calls.get());
                let rate = limit.tokens.as_ref().map(Tokens::rate);
                let former = limit.calls.map(|calls| calls.most);
                has_changed |= calls != former || rate != rule.rate;
                let granted = limit.calls.and_then(|calls| calls.granted);
                limit.calls = calls.map(|most| Calls {
                    most,
                    granted: self
                        .is_shared
                        .then(|| granted.unwrap_or(GrantedCalls::UNKNOWN)),
                });
                if rate != rule.rate {
                    limit.tokens = rule.rate.map(|rate| match self.is_shared {
                        true => Tokens::Granted(GrantedTokens::new(rate)),
                        false => Tokens::Own(Bucket::new(rate, bucket, now)),
                    });
                }
            });
        }
        let ended = |number: &RuleNumber| !numbers.contains(number);
        for (number, limit) in &mut limits.rules {
            if ended(number) {
                has_changed |= limit.tokens.is_some() || limit.calls.is_some();
                (limit.tokens, limit.calls, limit.waiting) = (None, None, false);
            }
        }
        let is_known = |limit: &Limit| limit.running > 0 || limit.refused > 0 || limit.released > 0;
        (limits.rules).retain(|number, limit| !ended(number) || is_known(limit));
        limits.file(&numbers);
        // Ordering: Relaxed. As in `is_used`.
        self.is_used.store(!numbers.is_empty(), Ordering::Relaxed);
        has_changed
    }

    /// The limits that a timer meets.
    pub(crate) fn met(&self, row: &Row) -> Met {
        match self.is_used() {
            true => self.limits().met(row),
            false => Met::new(),
        }
    }

    /// ThrottleAsk: whether a timer may go to its handler now.
    pub(crate) fn ask(self: &Arc<Self>, row: &Row, now: Duration) -> Asked {
        if !self.is_used() {
            return Asked::Free;
        }
        let mut limits = self.limits();
        let met = limits.met(row);
        let was_released = limits.end_release(row.id);
        limits.each(&met, |limit| limit.coming = limit.coming.saturating_sub(1));
        let goes_on = was_released || row.is_on_trial();
        if met.is_empty() {
            return Asked::Free;
        }
        let is_free = met.iter().all(|number| {
            let limit = limits.rules.get(number);
            limit.is_none_or(|limit| limit.free(now) > 0 && (goes_on || !limit.is_before()))
        });
        let throttle = self.clone();
        if !is_free {
            limits.each(&met, |limit| limit.refused += 1);
            return Asked::Refused(Refused {
                throttle,
                met,
                was_released,
            });
        }
        let mut tokens = Vec::new();
        limits.each(&met, |limit| {
            limit.running += 1;
            tokens.push(limit.tokens.as_mut().and_then(|tokens| tokens.take(now)));
        });
        Asked::Pass(Pass {
            throttle,
            met,
            tokens,
            has_begun: false,
        })
    }

    /// How long it takes until a suspect may be handed out, or until it is looked at again.
    pub(crate) fn wait_of(&self, row: &Row, now: Duration) -> Duration {
        if !self.is_used() {
            return Duration::ZERO;
        }
        let limits = self.limits();
        let met = limits.met(row);
        let waits = met.iter().filter_map(|number| limits.rules.get(number));
        let waits = waits.map(
            |limit| match limit.free(now).saturating_sub(limit.released) {
                0 => limit.token_wait(now).unwrap_or(LOOK_AGAIN).max(LOOK_AGAIN),
                _ => Duration::ZERO,
            },
        );
        waits.max().unwrap_or_default()
    }

    /// How many timers of each rule may begin now.
    pub(crate) fn room(&self, now: Duration) -> Room {
        if !self.is_used() {
            return Room::default();
        }
        let limits = self.limits();
        let rules = limits.rules.iter();
        let room = |limit: &Limit| limit.free(now).saturating_sub(limit.released);
        Room {
            left: rules
                .map(|(&number, limit)| (number, room(limit)))
                .collect(),
            refused: BTreeMap::new(),
        }
    }

    /// ThrottleWant: the writer has handed out the suspects for which there was room.
    pub(crate) fn set_suspects(&self, room: &Room) {
        if !self.is_shared || !self.is_used() || is_broken(DurableFault::SuspectsUncounted) {
            return;
        }
        for (number, limit) in &mut self.limits().rules {
            limit.suspects = room.refused.get(number).copied().unwrap_or_default();
        }
    }

    /// Which rules there are, and how many timers of each the writer may let go on now.
    pub(crate) fn left(&self, now: Duration) -> BTreeMap<RuleNumber, u32> {
        let limits = self.limits();
        let has_limit = |limit: &Limit| limit.tokens.is_some() || limit.calls.is_some();
        let rules = limits.rules.iter().filter(|(_, limit)| has_limit(limit));
        rules
            .map(|(&number, limit)| (number, limit.left(now)))
            .collect()
    }

    /// When the writer is to look again whether a timer of a rule may go on. `None`: it is woken.
    pub(crate) fn wait(&self, number: RuleNumber, now: Duration) -> Option<Duration> {
        let limits = self.limits();
        limits.rules.get(&number)?.wait(now)
    }

    /// ThrottleRelease: the writer lets a timer go on, which comes before newcomers. Returns how
    /// long it waits for its token.
    pub(crate) fn release(&self, at: Position, met: &[RuleNumber], now: Duration) -> Duration {
        self.limits().release(at, met, now)
    }

    /// ThrottleRelease: lets a timer go on that was refused just now, if none waits before it and
    /// there is room. Returns how long it waits for its token.
    pub(crate) fn release_at_once(
        &self,
        refused: &Refused,
        at: Position,
        now: Duration,
    ) -> Option<Duration> {
        let mut limits = self.limits();
        let is_free = refused.met.iter().all(|number| {
            let limit = limits.rules.get(number);
            limit.is_none_or(|limit| match refused.was_released {
                true => limit.may_go_back(now),
                false => limit.left(now) > 0 && !limit.waiting,
            })
        });
        is_free.then(|| limits.release(at, &refused.met, now))
    }

    /// Forgets timers that may go on, and are not about to: their room is for others.
    pub(crate) fn keep_released(&self, mut is_about_to: impl FnMut(Position) -> bool) {
        if !self.is_used() {
            return;
        }
        let mut limits = self.limits();
        if limits.released.is_empty() {
            return;
        }
        let released = limits.released.iter();
        let gone =
            released.filter(|&(&id, &Released { due, .. })| !is_about_to(Position { due, id }));
        for id in gone.map(|(&id, _)| id).collect::<Vec<_>>() {
            limits.end_release(id);
        }
    }

    /// ThrottleWant: a timer has come into the window, and is due in a moment.
    pub(crate) fn expect(&self, row: &Row) {
        if self.is_shared && self.is_used() {
            let mut limits = self.limits();
            let met = limits.met(row);
            limits.each(&met, |limit| limit.coming = limit.coming.saturating_add(1));
        }
    }

    /// ThrottleWant: what the store is asked for, by rule. `queued`: how many timers of a rule
    /// wait.
    pub(crate) fn wants(
        &self,
        now: Duration,
        queued: impl Fn(RuleNumber) -> u32,
    ) -> Vec<(RuleNumber, Want)> {
        if !self.is_shared || !self.is_used() {
            return Vec::new();
        }
        let limits = self.limits();
        let wants = limits.rules.iter().filter_map(|(&number, limit)| {
            let want = limit.want(now, queued(number))?;
            Some((limit.asked, number, want))
        });
        let mut wants: Vec<_> = wants.collect();
        // (There may be more than are asked for at once, each time. So all have their turn.)
        wants.sort_by_key(|&(asked, ..)| asked);
        wants.truncate(WANTS_MAX);
        let wants = wants.into_iter().map(|(_, number, want)| (number, want));
        wants.collect()
    }

    /// ThrottleWant: when the store is to be asked, if that is known.
    pub(crate) fn next_want(
        &self,
        now: Duration,
        queued: impl Fn(RuleNumber) -> u32,
    ) -> Option<Duration> {
        if !self.is_shared || !self.is_used() {
            return None;
        }
        let limits = self.limits();
        let rules = limits.rules.iter();
        let waits = rules.filter_map(|(&number, limit)| limit.next_want(now, queued(number)));
        waits.min()
    }

    /// ThrottleGrant: the store has granted this, which was asked for at a time.
    pub(crate) fn grant(&self, number: RuleNumber, want: &Want, grant: &Grant, asked: Duration) {
        self.limits().each(&[number], |limit| {
            limit.asked = asked;
            if grant.is_held_up {
                return limit.held_up(asked);
            }
            limit.coming = 0;
            if let Some(Tokens::Granted(tokens)) = &mut limit.tokens {
                tokens.grant(want.tokens, grant, asked);
            }
            if let (Some(wanted), Some(calls)) = (want.calls, &mut limit.calls) {
                calls.granted = Some(GrantedCalls::new(grant.calls, wanted, asked));
            }
        });
    }

    /// StopDeliver: no more timers begin. The store is asked for nothing more, and told so: it
    /// would keep calls for this node as long as a handler runs here.
    pub(crate) fn end(&self) {
        if !self.is_shared || is_broken(DurableFault::StopKeepsWants) {
            return;
        }
        let mut limits = self.limits();
        limits.is_ending = true;
        for limit in limits.rules.values_mut() {
            limit.is_ending = true;
        }
    }

    /// Nothing is granted any more.
    pub(crate) fn forget_grants(&self) {
        if !self.is_shared || !self.is_used() {
            return;
        }
        for limit in self.limits().rules.values_mut() {
            if let Some(Tokens::Granted(tokens)) = &mut limit.tokens {
                *tokens = GrantedTokens::new(tokens.rate);
            }
            if let Some(calls) = &mut limit.calls {
                calls.granted = Some(GrantedCalls::UNKNOWN);
            }
        }
    }

    /// The writer says of which rules timers wait, or wait no more.
    pub(crate) fn set_waiting(&self, news: &[(RuleNumber, bool)]) {
        if news.is_empty() {
            return;
        }
        let mut limits = self.limits();
        for &(number, waits) in news {
            limits.each(&[number], |limit| limit.waiting = waits);
        }
    }
}

impl Limits {
    /// The rules by what they are for.
    fn file(&mut self, numbers: &[RuleNumber]) {
        (self.kinds, self.prefixes) = Default::default();
        self.lengths.clear();
        for number in numbers {
            match self.rules.get(number).map(|limit| &limit.of) {
                Some(RuleFor::Kind(kind)) => {
                    self.kinds.insert(kind.clone(), *number);
                }
                Some(RuleFor::Keys(prefix)) => {
                    self.lengths.push(prefix.len());
                    self.prefixes.insert(prefix.clone(), *number);
                }
                None => {}
            }
        }
        self.lengths.sort_unstable();
        self.lengths.dedup();
    }
}

/// How many suspects of each rule may begin.
#[derive(Default)]
pub(crate) struct Room {
    left: BTreeMap<RuleNumber, u32>,
    /// How many had no room.
    refused: BTreeMap<RuleNumber, u32>,
}

impl Room {
    /// Takes room for a timer that meets these rules, if there is.
    pub(crate) fn take(&mut self, met: Met) -> bool {
        let has_room = met.iter().all(|number| self.left.get(number) != Some(&0));
        for number in met {
            if !has_room {
                *self.refused.entry(number).or_default() += 1;
            } else if let Some(left) = self.left.get_mut(&number) {
                *left -= 1;
            }
        }
        has_room
    }
}

/// That a timer may go to its handler. Its end is that of the call.
pub(crate) struct Pass {
    throttle: Arc<Throttle>,
    met: Met,
    /// The tokens that were taken, by the rules.
    tokens: Vec<Option<Token>>,
    has_begun: bool,
}

impl Pass {
    /// The handler is called.
    pub(crate) const fn begin(&mut self) {
        self.has_begun = true;
    }
}

/// ThrottleGive.
impl Drop for Pass {
    fn drop(&mut self) {
        if broken(Fault::ThrottleKept) {
            return;
        }
        let mut limits = self.throttle.limits();
        let (has_begun, mut tokens) = (self.has_begun, self.tokens.drain(..));
        let mut others_wait = false;
        limits.each(&self.met, |limit| {
            debug_assert!(limit.running > 0, "a call ends once");
            limit.running -= 1;
            if broken(Fault::ThrottleGivenTwice) {
                limit.running = limit.running.saturating_sub(1);
            }
            let token = tokens.next().flatten().filter(|_| !has_begun);
            if let (Some(Tokens::Own(bucket)), Some(token)) = (&mut limit.tokens, token) {
                bucket.give_back(token);
            }
            others_wait |= limit.waiting || limit.refused > 0;
        });
        drop(limits);
        if others_wait && !broken(Fault::ThrottleUntold) {
            (self.throttle.wake)();
        }
    }
}

/// That a timer was refused. It ends when the writer has put the timer in its place.
pub(crate) struct Refused {
    throttle: Arc<Throttle>,
    met: Met,
    /// It was let go on, and has come too early.
    was_released: bool,
}

impl Drop for Refused {
    fn drop(&mut self) {
        let mut limits = self.throttle.limits();
        limits.each(&self.met, |limit| limit.refused -= 1);
    }
}
