//! Aside: changes that a transaction of somebody else holds up.
//!
//! The writer owns it. A change whose outcome was
//! [`Outcome::Blocked`](crate::contract::Outcome::Blocked) is tried again in later turns. Its
//! caller waits; nobody else does. A later change of the same row or key waits behind it, and these
//! are tried in the order in which they came.
//!
//! In a *round* some of them are tried, in a commit of their own, so that they hold up no other
//! change. A round has a bounded number. First come one of each row and key, and of these the ones
//! that were tried the longest ago. So however many wait for one transaction, all others are tried.
//! The store tries as many of them by themselves as it has time for, and puts off those that come
//! after these ([`Outcome::PutOff`](crate::contract::Outcome::PutOff)). They come first in the next
//! round. Callers that wait count as callers whose requests are in the queue, so that there is a
//! bound for them, too.
//!
//! When a store that was away is back, only answers of handlers wait. The first round has all of
//! them, and comes before any call is taken.

use super::plan::{KindCancelled, Planned};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DurableId, Partition};
use crate::store::write::{Settled, Write};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The first wait before a change is tried again, and the longest one.
const AGAIN_MIN: Duration = Duration::from_millis(5);
const AGAIN_MAX: Duration = Duration::from_millis(100);

/// The most calls whose changes are tried again in one round.
const AGAIN_COUNT: usize = 1_024;

/// After a round there is none for this many times as long as it has taken, but for a second at
/// most: it may have waited for the database.
const REST_SHARE: u32 = 3;
const REST_MAX: Duration = Duration::from_secs(1);

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

/// Why changes are set aside.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Why {
    /// The store has tried one of them by itself, and something was in its way.
    Blocked,
    /// The store had no time to try any of them by itself.
    #[default]
    PutOff,
    /// Earlier changes of the same row or key wait.
    Behind,
}

/// Changes of a call that have to wait.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) writes: Vec<Write>,
    pub(super) why: Why,
}

impl Waits {
    /// Others of the same call have to wait, too.
    pub(super) fn add(&mut self, others: Self) {
        self.writes.extend(others.writes);
        if others.why == Why::Blocked {
            self.why = Why::Blocked;
        }
    }
}

/// The changes of a call that wait, and what is done with their outcomes.
pub(super) struct HeldUp {
    pub(super) writes: Vec<Write>,
    pub(super) planned: Planned,
}

impl HeldUp {
    /// What it has in common with others.
    fn tokens(&self) -> impl Iterator<Item = Held> {
        self.writes.iter().filter_map(token_of)
    }

    /// What its caller has left in memory. Nothing, if a handler has said it.
    fn load(&self) -> AsideLoad {
        if self.planned.plan.is_settlement() {
            return AsideLoad::default();
        }
        let bytes = |write: &Write| match write {
            Write::Arm(row) => row.bytes(),
            Write::Replace(of) => of.row.bytes(),
            Write::Amend(of) => of.bytes(),
            _ => 0,
        };
        AsideLoad {
            calls: 1,
            bytes: self.writes.iter().map(bytes).sum(),
        }
    }

    /// Whether the caller has waited long enough, and is told so. What a handler has said waits for
    /// ever: it has to be stored.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        !self.planned.plan.is_settlement() && now.saturating_sub(self.planned.since) > BLOCKED_MAX
    }
}

/// The calls whose changes wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AsideLoad {
    pub(super) calls: usize,
    /// Of their timers.
    pub(super) bytes: usize,
}

/// The changes that wait.
#[derive(Default)]
pub(super) struct Aside {
    waiting: VecDeque<HeldUp>,
    /// Those that the turn under way has set aside behind others. They get their places when its
    /// commit is made, because what that leaves out came before them.
    behind: Vec<HeldUp>,
    /// Those of the round that is under way that wait again.
    tried: Vec<HeldUp>,
    is_in_round: bool,
    /// Some have never been tried by themselves, since the store had no time for it.
    is_hurried: bool,
    /// The store is back: a round of all of them comes before any call is taken.
    comes_first: bool,
    /// How many changes have each token.
    tokens: HashMap<Held, usize>,
    load: AsideLoad,
    /// How many of them are slices of calls for all timers of a kind.
    kinds: usize,
    /// The number of rounds.
    round: u64,
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

    /// Whether the counts are those of the changes that wait, and no change has yet to come to its
    /// place among them.
    pub(super) fn is_counted_right(&self) -> bool {
        let mut counted = Self::default();
        for waiting in &self.waiting {
            counted.count(waiting);
        }
        (counted.tokens, counted.load) == (self.tokens.clone(), self.load)
            && counted.kinds == self.kinds
            && self.tried.is_empty()
            && self.behind.is_empty()
    }

    /// Whether a slice of a call for all timers of a kind waits.
    pub(super) const fn has_kinds(&self) -> bool {
        self.kinds > 0
    }

    /// The calls whose slices these are. (Not those of the round that is under way.)
    pub(super) fn kinds_mut(&mut self) -> impl Iterator<Item = &mut KindCancelled> {
        let waiting = self.waiting.iter_mut();
        let kinds = waiting.filter_map(|waiting| waiting.planned.plan.kind_mut());
        kinds.take(self.kinds)
    }

    /// The calls that wait.
    pub(super) const fn load(&self) -> AsideLoad {
        self.load
    }

    /// The same changes wait now.
    fn count(&mut self, waiting: &HeldUp) {
        for token in waiting.tokens() {
            *self.tokens.entry(token).or_default() += 1;
        }
        let AsideLoad { calls, bytes } = waiting.load();
        self.load.calls += calls;
        self.load.bytes += bytes;
        self.kinds += usize::from(waiting.planned.plan.is_kind());
    }

    /// They do not wait any more.
    fn uncount(&mut self, waiting: &HeldUp) {
        for token in waiting.tokens() {
            if let Some(left) = self.tokens.get_mut(&token) {
                *left -= 1;
                if *left == 0 {
                    self.tokens.remove(&token);
                }
            }
        }
        let AsideLoad { calls, bytes } = waiting.load();
        self.load.calls -= calls;
        self.load.bytes -= bytes;
        self.kinds -= usize::from(waiting.planned.plan.is_kind());
    }

    /// Sets the changes of a call aside: behind all others, or, if they were in the round, before
    /// those that were not. If they were not in a commit, they come behind those of this turn's.
    pub(super) fn push(&mut self, mut waiting: HeldUp, why: Why, now: Duration) {
        if self.waiting.is_empty() && self.tried.is_empty() {
            self.wait = self.wait.clamp(AGAIN_MIN, AGAIN_MAX);
            self.again_at = now.saturating_add(self.wait);
        }
        self.count(&waiting);
        match why {
            Why::Blocked => waiting.planned.tried_in = Some(self.round),
            Why::PutOff if waiting.planned.tried_in.is_none() => {
                self.is_hurried = true;
                self.again_at = self.again_at.min(now.saturating_add(AGAIN_MIN));
            }
            Why::PutOff | Why::Behind => {}
        }
        if why == Why::Behind {
            self.behind.push(waiting);
        } else if self.is_in_round {
            self.tried.push(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// A round begins, if it is time for one. Returns those that are tried now, in the order in
    /// which they are tried.
    pub(super) fn take_due(&mut self, now: Duration) -> Vec<HeldUp> {
        let are_all = std::mem::take(&mut self.comes_first);
        if self.waiting.is_empty() || now < self.again_at {
            return Vec::new();
        }
        self.wait = (self.wait * 2).clamp(AGAIN_MIN, AGAIN_MAX);
        self.again_at = now.saturating_add(self.wait);
        self.round += 1;
        (self.is_in_round, self.is_hurried) = (true, false);
        let chosen: Vec<usize> = match are_all {
            true => (0..self.waiting.len()).collect(),
            false => self.choose(now),
        };
        let mut all: Vec<_> = self.waiting.drain(..).map(Some).collect();
        let due = chosen.into_iter().filter_map(|at| all[at].take());
        let due: Vec<_> = due.collect();
        self.waiting.extend(all.into_iter().flatten());
        due.iter().for_each(|waiting| self.uncount(waiting));
        due
    }

    /// Whether what is made now has waited.
    pub(super) const fn is_in_round(&self) -> bool {
        self.is_in_round
    }

    /// A round has ended. The next one is so late that the other changes of the node have most of
    /// the time, or half of it as long as some were never tried by themselves.
    pub(super) fn end_round(&mut self, begun: Duration, ended: Duration) {
        let took = ended.saturating_sub(begun).min(REST_MAX);
        let rest = if self.is_hurried {
            took
        } else {
            took * REST_SHARE
        };
        let rest = rest.min(REST_MAX);
        self.again_at = self.again_at.max(ended.saturating_add(rest));
    }

    /// Which ones are tried now, in this order. None is without those that are before it at its row
    /// or key.
    fn choose(&self, now: Duration) -> Vec<usize> {
        // (A caller that has waited long enough is only told so.)
        let mut is_due: Vec<bool> = self.waiting.iter().map(|of| of.is_over(now)).collect();
        let mut chosen: Vec<usize> = (0..is_due.len()).filter(|&at| is_due[at]).collect();
        let mut before = HashSet::new();
        let mut firsts = Vec::new();
        for (at, waiting) in self
            .waiting
            .iter()
            .enumerate()
            .filter(|&(at, _)| !is_due[at])
        {
            if !waiting.tokens().any(|token| before.contains(&token)) {
                firsts.push(at);
            }
            before.extend(waiting.tokens());
        }
        // (The sort is stable, and those come first that were never tried by themselves.)
        firsts.sort_by_key(|&at| self.waiting[at].planned.tried_in);
        firsts.truncate(AGAIN_COUNT);
        firsts.iter().for_each(|&at| is_due[at] = true);
        // If there is room, those behind them come along: perhaps nothing is in the way any more.
        let mut room = AGAIN_COUNT - firsts.len();
        chosen.append(&mut firsts);
        let mut stay = HashSet::new();
        for (at, waiting) in self.waiting.iter().enumerate() {
            if is_due[at] {
                continue;
            }
            if room > 0 && !waiting.tokens().any(|token| stay.contains(&token)) {
                room -= 1;
                chosen.push(at);
            } else {
                stay.extend(waiting.tokens());
            }
        }
        chosen
    }

    /// Changes were made that had waited: perhaps the transaction has ended that was in the way.
    pub(super) fn got_through(&mut self) {
        self.wait = AGAIN_MIN;
    }

    /// What handlers have said was in a commit whose outcome is not known. It comes first when the
    /// store is back.
    pub(super) fn keep(&mut self, kept: Vec<HeldUp>) {
        for waiting in kept.into_iter().rev() {
            self.count(&waiting);
            self.waiting.push_front(waiting);
        }
    }

    /// The store is back: the next turn tries all of them before it takes a call. A call by key, or
    /// for a kind, has no token in common with an answer of a handler, and would overtake it.
    pub(super) fn try_first(&mut self) {
        self.again_at = Duration::ZERO;
        self.comes_first = true;
    }

    /// Whether a round comes before any call is taken. If nothing waits, none does.
    pub(super) fn comes_first(&mut self) -> bool {
        self.comes_first &= !self.waiting.is_empty();
        self.comes_first
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

    /// What has become of a commit is known: those of a round that wait again are the first ones
    /// again, and those that are behind others are the last ones.
    pub(super) fn end_turn(&mut self) {
        self.is_in_round = false;
        for waiting in self.tried.drain(..).rev() {
            self.waiting.push_front(waiting);
        }
        self.waiting.extend(self.behind.drain(..));
    }

    /// The calls that wait: nobody is to wait any more. What handlers have said stays.
    pub(super) fn take_calls(&mut self) -> Vec<Planned> {
        let is_call = |waiting: &HeldUp| !waiting.planned.plan.is_settlement();
        if !self.waiting.iter().any(is_call) {
            return Vec::new();
        }
        let (calls, settlements): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|waiting| is_call(waiting));
        calls.iter().for_each(|waiting| self.uncount(waiting));
        self.waiting = settlements.into();
        calls.into_iter().map(|waiting| waiting.planned).collect()
    }

    /// All of them: the store has failed.
    pub(super) fn take_all(&mut self) -> Vec<HeldUp> {
        self.tokens.clear();
        self.load = AsideLoad::default();
        self.kinds = 0;
        self.end_turn();
        std::mem::take(&mut self.waiting).into()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::request::Reply;
    use crate::store::row::{Row, StoreTime};
    use crate::writer::plan::{Ended, Plan};

    /// The row with this number, and a payload of 10 bytes.
    fn arm(number: u128, key: &str) -> Write {
        let (kind, payload) = ("".into(), [0; 10].into());
        let mut row = Row::new(DurableId::from_bits(number), StoreTime::MIN, kind, payload);
        row.key = (!key.is_empty()).then(|| key.into());
        Write::Arm(row)
    }

    fn of_call(writes: Vec<Write>, since: Duration) -> HeldUp {
        let planned = Planned {
            plan: Plan::One,
            reply: Reply::Nobody,
            since,
            tried_in: None,
        };
        HeldUp { writes, planned }
    }

    /// The numbers of the rows of a round. All of them are held up again: the first `tried` calls
    /// by themselves, and the others are put off.
    fn round_of(aside: &mut Aside, tried: usize, now: &mut Duration) -> Vec<u128> {
        *now += AGAIN_MAX;
        let due = aside.take_due(*now);
        let puts = |write: &Write| write.puts().unwrap().to_bits();
        let rows = due
            .iter()
            .flat_map(|waiting| waiting.writes.iter().map(puts));
        let rows = rows.collect();
        for (at, waiting) in due.into_iter().enumerate() {
            let why = if at < tried {
                Why::Blocked
            } else {
                Why::PutOff
            };
            aside.push(waiting, why, *now);
        }
        aside.end_turn();
        aside.end_round(*now, *now);
        assert!(aside.is_counted_right());
        rows
    }

    /// The same, and all are tried by themselves.
    fn round(aside: &mut Aside, now: &mut Duration) -> Vec<u128> {
        round_of(aside, usize::MAX, now)
    }

    #[test]
    fn changes_of_one_key_do_not_keep_others_from_being_tried() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let many = 2 * AGAIN_COUNT as u128;
        for number in 0..many {
            aside.push(of_call(vec![arm(number, "K")], now), Why::Blocked, now);
        }
        aside.push(of_call(vec![arm(many, "L")], now), Why::Blocked, now);
        // (One that has neither row nor key in common with others.)
        aside.push(of_call(vec![arm(many + 1, "")], now), Why::Blocked, now);
        for _ in 0..3 {
            let tried = round(&mut aside, &mut now);
            // (The first one of the key, the others, and then those that come along.)
            let behind = 1..AGAIN_COUNT as u128 - 2;
            let expected: Vec<u128> = [0, many, many + 1].into_iter().chain(behind).collect();
            assert_eq!(tried, expected);
        }
    }

    #[test]
    fn all_of_very_many_keys_are_tried() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let many = 3 * AGAIN_COUNT as u128 - 1;
        for number in 0..many {
            let key = format!("{number}");
            aside.push(of_call(vec![arm(number, &key)], now), Why::Blocked, now);
        }
        for _ in 0..2 {
            let mut tried: Vec<u128> = (0..3).flat_map(|_| round(&mut aside, &mut now)).collect();
            assert!(tried.len() <= 3 * AGAIN_COUNT);
            tried.sort_unstable();
            tried.dedup();
            assert_eq!(tried.len() as u128, many);
        }
    }

    #[test]
    fn none_overtakes_those_before_it_at_any_of_its_keys() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let many = AGAIN_COUNT as u128;
        // Of each key there are two, and the last call has all keys.
        for number in 0..2 * many {
            let key = format!("{}", number % many);
            aside.push(of_call(vec![arm(number, &key)], now), Why::Blocked, now);
        }
        let all = (0..many).map(|number| arm(2 * many + number, &format!("{number}")));
        aside.push(of_call(all.collect(), now), Why::Blocked, now);
        let firsts: Vec<u128> = (0..many).collect();
        assert_eq!(round(&mut aside, &mut now), firsts);
        // (One call may have one key twice.)
        let mut aside = Aside::default();
        let twice = vec![arm(0, "K"), arm(1, "K")];
        aside.push(of_call(twice, now), Why::Blocked, now);
        assert_eq!(round(&mut aside, &mut now), [0, 1]);
    }

    /// Of two calls of one turn the first one is in the commit, which leaves it out. The second one
    /// shares a key with it, and another key with a change that waits already.
    #[test]
    fn none_overtakes_what_came_before_it_in_its_turn() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        aside.push(of_call(vec![arm(0, "A")], now), Why::Blocked, now);
        aside.end_turn();
        let both = vec![arm(2, "A"), arm(3, "B")];
        assert!(aside.is_before(&both));
        aside.push(of_call(both, now), Why::Behind, now);
        assert!(aside.is_before(&[arm(4, "B")]), "that waits from now on");
        aside.push(of_call(vec![arm(1, "B")], now), Why::Blocked, now);
        aside.end_turn();
        for _ in 0..2 {
            assert_eq!(round(&mut aside, &mut now), [0, 1, 2, 3]);
        }
    }

    /// One that the store has never tried by itself comes first, and soon.
    #[test]
    fn what_was_put_off_is_tried_before_what_was_tried() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let (many, by_themselves) = (200, 24);
        for number in 0..many {
            let key = format!("{number}");
            aside.push(of_call(vec![arm(number, &key)], now), Why::PutOff, now);
        }
        let mut seen = HashSet::new();
        for tries in 1..=9 {
            assert!(aside.next(now) <= Some(AGAIN_MIN), "some were never tried");
            let rows = round_of(&mut aside, by_themselves, &mut now);
            assert_eq!(rows.len() as u128, many);
            seen.extend(rows.into_iter().take(by_themselves));
            assert_eq!(seen.len(), (tries * by_themselves).min(many as usize));
        }
        // From now on they take turns.
        assert!(aside.next(now) > Some(AGAIN_MIN));
        let mut next = || round_of(&mut aside, by_themselves, &mut now)[..by_themselves].to_vec();
        let rows: HashSet<u128> = (0..8).flat_map(|_| next()).collect();
        assert_eq!(rows.len(), 8 * by_themselves, "none twice");
    }

    /// A call for many timers may take all the time of a round by itself.
    #[test]
    fn two_large_calls_keep_none_from_being_tried() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        for number in 0..3 {
            let key = format!("{number}");
            aside.push(of_call(vec![arm(number, &key)], now), Why::PutOff, now);
        }
        let mut first = || round_of(&mut aside, 1, &mut now)[0];
        let firsts: Vec<u128> = (0..6).map(|_| first()).collect();
        assert_eq!(firsts, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_round_that_takes_long_comes_seldom() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        aside.push(of_call(vec![arm(1, "K")], now), Why::Blocked, now);
        round(&mut aside, &mut now);
        assert!(aside.next(now) <= Some(AGAIN_MAX));
        let took = AGAIN_MAX * 2;
        aside.end_round(now, now + took);
        assert_eq!(aside.next(now + took), Some(took * REST_SHARE));
        // (The database was away.)
        let took = REST_MAX * 30;
        aside.end_round(now, now + took);
        assert_eq!(aside.next(now + took), Some(REST_MAX));
    }

    /// Behind a change that is held up for ever a caller is told all the same.
    #[test]
    fn a_caller_that_has_waited_long_enough_is_told() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let id = DurableId::from_bits(1);
        let of = Settled {
            id,
            due: StoreTime::MIN,
            epoch: 1,
        };
        let mut answer = of_call(vec![Write::ack(of, None, None)], now);
        answer.planned.plan = Plan::Settle(Ended::Done);
        aside.push(answer, Why::Blocked, now);
        for _ in 0..2 * AGAIN_COUNT {
            let cancel = Write::Cancel(crate::store::write::Target::Id(id));
            aside.push(of_call(vec![cancel], now), Why::Blocked, now);
        }
        now += BLOCKED_MAX + AGAIN_MIN;
        let due = aside.take_due(now);
        let over = due.iter().filter(|waiting| waiting.is_over(now)).count();
        assert_eq!((due.len(), over), (2 * AGAIN_COUNT + 1, 2 * AGAIN_COUNT));
    }

    #[test]
    fn all_answers_of_handlers_come_first_when_the_store_is_back() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let many = 2 * AGAIN_COUNT as u128;
        let answer = |number| {
            let mut answer = of_call(vec![arm(number, "")], Duration::ZERO);
            answer.planned.plan = Plan::SettleAgain(Ended::Done);
            answer
        };
        aside.keep((0..many).map(answer).collect());
        assert!(!aside.comes_first(), "the store is away");
        aside.try_first();
        assert!(aside.comes_first());
        let all: Vec<u128> = (0..many).collect();
        assert_eq!(round(&mut aside, &mut now), all);
        // From now on a round has a bound, and no call waits for it.
        assert!(!aside.comes_first());
        assert_eq!(round(&mut aside, &mut now).len(), AGAIN_COUNT);
        // If nothing waits, nothing comes first.
        assert_eq!(aside.take_all().len() as u128, many);
        aside.try_first();
        assert!(!aside.comes_first());
        // What comes aside in this turn is no answer from before the outage.
        aside.keep((0..many).map(answer).collect());
        assert!(!aside.comes_first());
        assert_eq!(round(&mut aside, &mut now).len(), AGAIN_COUNT);
    }

    #[test]
    fn calls_that_wait_are_counted_and_answers_of_handlers_are_not() {
        let (mut aside, mut now) = (Aside::default(), Duration::ZERO);
        let two = vec![arm(1, "K"), arm(2, "L")];
        aside.push(of_call(two, now), Why::Blocked, now);
        aside.push(of_call(vec![arm(3, "K")], now), Why::Blocked, now);
        let mut answer = of_call(vec![arm(4, "")], now);
        answer.planned.plan = Plan::Settle(Ended::Failed);
        aside.push(answer, Why::Blocked, now);
        let bytes = 3 * 10 + 3;
        let load = AsideLoad { calls: 2, bytes };
        assert_eq!(aside.load(), load);
        assert_eq!(round(&mut aside, &mut now).len(), 4);
        assert_eq!(aside.load(), load);
        assert_eq!(aside.take_calls().len(), 2);
        assert_eq!(aside.load(), AsideLoad::default());
        assert!(aside.is_counted_right());
        now += AGAIN_MAX;
        aside.push(of_call(vec![arm(5, "K")], now), Why::Blocked, now);
        assert_eq!(aside.take_all().len(), 2);
        assert_eq!(aside.load(), AsideLoad::default());
    }
}
