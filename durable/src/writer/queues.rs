//! Queues: rows that are held by a limit, in the order in which they are let go on.
//!
//! The writer owns them. The store alone knows all of these rows; a queue has the first ones of a
//! rule. `limits.rs` has what the writer does with them.
//!
//! # Ground rules
//!  - A row that meets several rules stands in one queue: of a rule that lets nothing through now,
//!    if there is one. So it is in nobody's way.
//!  - A rule knows its rows up to a position, `upto`. Each row of it that is held there stands in
//!    its queue, or in that of another rule which it meets, or lies behind the `upto` of such a
//!    rule. Rows behind are read when the queue is empty (ThrottleFill).
//!  - A row that somebody's transaction holds up is tried again, before the rows of the queues. If
//!    it is still held up, it has kept those of its rules waiting, and used none of the room. So
//!    they go first the next time.
//!  - What is here is a hint. A row that was moved, or that has ended, is noticed when it is
//!    released.

use crate::queue::throttle::{Met, RuleNumber};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{HeldWhy, Partition, Position, Row};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most rows of a rule, and of all rules.
const RULE_MAX: usize = 1_000;
const ALL_MAX: usize = 64_000;

/// The most rows that are let go on at once.
const RELEASED_MAX: usize = 1_024;

/// How long a row waits that somebody's transaction holds up.
const AGAIN: Duration = Duration::from_millis(100);

/// Those whose time comes so soon after that of the first one come along with it. A commit that
/// something holds up takes long, so there are few of them.
const TOGETHER: Duration = Duration::from_millis(50);

/// A row that is held by a limit.
#[derive(Clone)]
pub(super) struct Queued {
    pub(super) met: Met,
    pub(super) attempts: u32,
    pub(super) crashes: u32,
}

/// The rows of a rule.
struct RuleQueue {
    first: BTreeMap<Position, Queued>,
    /// The rows up to here are known.
    upto: Position,
    /// Threads were told that timers wait.
    is_told: bool,
    /// The last row of the rule that was let go on had been held up. So now the queue goes before
    /// such rows.
    goes_first: bool,
}

/// A row that could not be released, since somebody's transaction holds it up.
struct HeldUp {
    position: Position,
    row: Queued,
    /// When it is tried again, by the node's clock.
    again_at: Duration,
}

/// Rows that are held by limits.
#[derive(Default)]
pub(super) struct Queues {
    rules: BTreeMap<RuleNumber, RuleQueue>,
    /// Rows that could not be released yet.
    blocked: Vec<HeldUp>,
    /// How many rows are held by limits, as far as it is known.
    pub(super) rows: u64,
}

impl RuleQueue {
    /// Of a rule of which nothing is known.
    const NEW: Self = Self {
        first: BTreeMap::new(),
        upto: Position::BEFORE_HELD,
        is_told: false,
        goes_first: false,
    };

    /// Adds a row that lies where the rows are known. If there are too many, the last one is
    /// forgotten, and read again.
    fn add(&mut self, position: Position, row: Queued, most: usize) {
        self.first.insert(position, row);
        while self.first.len() > most
            && let Some((last, _)) = self.first.pop_last()
        {
            self.upto = last.before();
        }
    }

    /// Whether rows wait, as far as it is known.
    fn waits(&self) -> bool {
        !self.knows_all() || !self.first.is_empty()
    }

    fn knows_all(&self) -> bool {
        self.upto == Position::MAX
    }

    /// Whether the queue goes before rows that were held up. (Also if its rows are not known yet:
    /// they are read only while there is room for them.)
    fn is_before_held_up(&self) -> bool {
        self.goes_first && self.waits()
    }
}

impl Queues {
    /// These are the rules with limits now. Nothing is known of what new ones hold; nor of any, if
    /// one is gone, since rows of others may have stood in its queue. (A row of another queue may
    /// meet a new rule, too. That refuses it then.)
    pub(super) fn begin(&mut self, rules: impl IntoIterator<Item = RuleNumber>) {
        let mut former = std::mem::take(&mut self.rules);
        for number in rules {
            let rule = former.remove(&number).unwrap_or(RuleQueue::NEW);
            self.rules.insert(number, rule);
        }
        if !former.is_empty() {
            self.forget();
        }
    }

    /// Nothing is known of what is held.
    pub(super) fn forget(&mut self) {
        for rule in self.rules.values_mut() {
            rule.first.clear();
            rule.upto = Position::BEFORE_HELD;
        }
        self.blocked.clear();
    }

    /// Partitions are others' from now on.
    pub(super) fn lose(&mut self, lost: &[Partition]) {
        let stays = |position: &Position| !lost.contains(&position.id.partition());
        for rule in self.rules.values_mut() {
            rule.first.retain(|position, _| stays(position));
        }
        self.blocked.retain(|held_up| stays(&held_up.position));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many rows of a rule there may be.
    fn most(&self) -> usize {
        (ALL_MAX / self.rules.len().max(1)).clamp(16, RULE_MAX)
    }

    /// Whether timers of a rule wait, as far as it is known.
    fn waits(&self, number: RuleNumber) -> bool {
        self.rules.get(&number).is_some_and(RuleQueue::waits)
            || (self.blocked.iter()).any(|held_up| held_up.row.met.contains(&number))
    }

    /// The rules of which threads are to be told that timers wait, or wait no more.
    pub(super) fn news(&mut self) -> Vec<(RuleNumber, bool)> {
        let rules = self.rules.iter();
        let news = rules.map(|(&number, rule)| (number, self.waits(number), rule.is_told));
        let news = news.filter(|(_, waits, is_told)| waits != is_told);
        let news: Vec<_> = news.map(|(number, waits, _)| (number, waits)).collect();
        for (number, waits) in &news {
            if let Some(rule) = self.rules.get_mut(number) {
                rule.is_told = *waits;
            }
        }
        news
    }

    /// How many timers of a rule wait, as far as it is known.
    pub(super) fn count(&self, number: RuleNumber) -> u32 {
        let rule = self.rules.get(&number);
        let count = |rule: &RuleQueue| rule.first.len().max(usize::from(!rule.knows_all()));
        let is_of = |held_up: &&HeldUp| held_up.row.met.contains(&number);
        let blocked = match is_broken(DurableFault::BlockedUncounted) {
            false => self.blocked.iter().filter(is_of).count(),
            true => 0,
        };
        u32::try_from(rule.map_or(0, count) + blocked).unwrap_or(u32::MAX)
    }

    /// Whether timers of any rule wait.
    pub(super) fn any_waits(&self) -> bool {
        self.queued().next().is_some() || !self.blocked.is_empty()
    }

    /// The rules whose timers wait, but for those that are tried again.
    pub(super) fn queued(&self) -> impl Iterator<Item = RuleNumber> {
        let queued = self.rules.iter().filter(|(_, rule)| rule.waits());
        queued.map(|(&number, _)| number)
    }

    /// Whether a row that meets these rules is here.
    fn has(&self, position: Position, met: &Met) -> bool {
        let mut rules = met.iter().filter_map(|number| self.rules.get(number));
        rules.any(|rule| rule.first.contains_key(&position))
            || (self.blocked.iter()).any(|held_up| held_up.position == position)
    }

    /// A row is held by a limit, and may be new here.
    pub(super) fn add(&mut self, row: &Row, met: Met) {
        if is_broken(DurableFault::QueueForgotten) {
            return;
        }
        let position = row.position();
        let mut rules = met.iter().filter_map(|number| self.rules.get(number));
        let is_read_later = rules.any(|rule| position > rule.upto);
        if is_read_later || self.has(position, &met) {
            return;
        }
        let Some(&number) = met.iter().find(|number| self.rules.contains_key(number)) else {
            return;
        };
        let (attempts, crashes) = (row.attempts, row.crashes);
        let row = Queued {
            met,
            attempts,
            crashes,
        };
        self.put(number, position, row);
    }

    /// Puts a row into the queue of a rule, unless it is read there later.
    fn put(&mut self, number: RuleNumber, position: Position, row: Queued) {
        let most = self.most();
        if let Some(rule) = self.rules.get_mut(&number)
            && position <= rule.upto
        {
            rule.add(position, row, most);
        }
    }

    /// ThrottleRelease: takes out the rows that may go on, the first ones of each rule first.
    /// `left`: how many timers of each rule may go on.
    pub(super) fn take(
        &mut self,
        left: &mut BTreeMap<RuleNumber, u32>,
        now: Duration,
    ) -> Vec<(Position, Queued)> {
        let mut taken = self.take_held_up(left, now);
        let numbers: Vec<_> = self.rules.keys().copied().collect();
        let mut goes_on = true;
        while goes_on && taken.len() < RELEASED_MAX {
            goes_on = false;
            for &number in &numbers {
                if left.get(&number) == Some(&0) || taken.len() >= RELEASED_MAX {
                    continue;
                }
                let first = self.rules.get_mut(&number);
                let Some((position, row)) = first.and_then(|rule| rule.first.pop_first()) else {
                    continue;
                };
                goes_on = true;
                match lacks(&row, left) {
                    Some(other) => self.put(other, position, row),
                    None => {
                        take_one(&row, left);
                        self.set_first(&row.met, false);
                        taken.push((position, row));
                    }
                }
            }
        }
        taken
    }

    /// Takes out the rows that are tried again, unless others of their rules go first this time.
    fn take_held_up(
        &mut self,
        left: &mut BTreeMap<RuleNumber, u32>,
        now: Duration,
    ) -> Vec<(Position, Queued)> {
        let is_due = |held_up: &HeldUp| held_up.again_at <= now;
        let until = (self.blocked.iter().any(is_due)).then_some(now + TOGETHER);
        let rules = &self.rules;
        let comes_first = |number: &RuleNumber| {
            let rule = rules.get(number);
            rule.is_some_and(RuleQueue::is_before_held_up)
        };
        let goes_on = |held_up: &mut HeldUp| {
            let goes_on = Some(held_up.again_at) <= until
                && lacks(&held_up.row, left).is_none()
                && !held_up.row.met.iter().any(comes_first);
            if goes_on {
                take_one(&held_up.row, left);
            }
            goes_on
        };
        let taken = self.blocked.extract_if(.., goes_on);
        let taken: Vec<_> = taken
            .map(|held_up| (held_up.position, held_up.row))
            .collect();
        for (_, row) in &taken {
            self.set_first(&row.met, true);
        }
        taken
    }

    /// Whether the queues of these rules go before rows that were held up.
    fn set_first(&mut self, met: &[RuleNumber], goes_first: bool) {
        for number in met {
            if let Some(rule) = self.rules.get_mut(number) {
                rule.goes_first = goes_first;
            }
        }
    }

    /// Somebody's transaction holds a row up that was to be released.
    pub(super) fn try_again(&mut self, position: Position, row: Queued, now: Duration) {
        let again_at = now + AGAIN;
        let held_up = HeldUp {
            position,
            row,
            again_at,
        };
        self.blocked.push(held_up);
    }

    /// When rows that were held up are tried again. `left`: how many timers of each rule may go
    /// on. `wait`: how long it takes until one more of a rule may, if that is known.
    pub(super) fn again(
        &self,
        left: impl FnOnce() -> BTreeMap<RuleNumber, u32>,
        now: Duration,
        wait: impl Fn(RuleNumber) -> Option<Duration>,
    ) -> Option<Duration> {
        if self.blocked.is_empty() {
            return None;
        }
        let left = left();
        let wait = |held_up: &HeldUp| {
            let again = held_up.again_at.saturating_sub(now);
            match lacks(&held_up.row, &left) {
                None => Some(again),
                Some(other) => Some(wait(other)?.max(again)),
            }
        };
        self.blocked.iter().filter_map(wait).min()
    }

    /// ThrottleFill: behind which position rows are to be read. `None`: nothing is to be read.
    pub(super) fn to_fill(&self, left: &BTreeMap<RuleNumber, u32>) -> Option<Position> {
        let needy = self.rules.iter().filter(|(number, rule)| {
            let may_go_on = left.get(number).is_some_and(|&left| left > 0);
            let knows_none = rule.upto == Position::BEFORE_HELD;
            rule.first.is_empty() && !rule.knows_all() && (may_go_on || knows_none)
        });
        needy.map(|(_, rule)| rule.upto).min()
    }

    /// ThrottleFill: these are the rows that are held after a position. `next`: there are more
    /// after this one. `met`: which rules a row meets.
    pub(super) fn fill(
        &mut self,
        after: Position,
        rows: &[Row],
        next: Option<Position>,
        left: &BTreeMap<RuleNumber, u32>,
        met: impl Fn(&Row) -> Met,
    ) {
        let (most, end) = (self.most(), next.unwrap_or(Position::MAX));
        // Rules that have known the rows up to a place from `after` on, and learn of more.
        let at = |rule: &RuleQueue| rule.upto >= after && rule.upto < end;
        let filled = self.rules.iter().filter(|(_, rule)| at(rule));
        let mut filled: Vec<_> = filled.map(|(&number, _)| number).collect();
        let is_limited = |row: &&Row| row.held().is_some_and(|held| held.why == HeldWhy::Limited);
        for row in rows.iter().filter(is_limited) {
            let (position, met) = (row.position(), met(row));
            let (attempts, crashes) = (row.attempts, row.crashes);
            let row = Queued {
                met,
                attempts,
                crashes,
            };
            let number = lacks(&row, left).or(row.met.first().copied());
            if self.has(position, &row.met) {
                continue;
            }
            let rule = number.and_then(|number| Some((number, self.rules.get_mut(&number)?)));
            let Some((number, rule)) = rule else { continue };
            if position <= rule.upto {
                rule.add(position, row, most);
            } else if filled.contains(&number) {
                if rule.first.len() < most {
                    rule.first.insert(position, row);
                } else {
                    // The next look begins here.
                    rule.upto = position.before();
                    filled.retain(|&other| other != number);
                }
            }
        }
        for number in filled {
            if let Some(rule) = self.rules.get_mut(&number) {
                rule.upto = rule.upto.max(end);
            }
        }
    }
}

/// A rule that the row meets, and that lets nothing more through.
fn lacks(row: &Queued, left: &BTreeMap<RuleNumber, u32>) -> Option<RuleNumber> {
    let is_over = |number: &&RuleNumber| left.get(number) == Some(&0);
    row.met.iter().find(is_over).copied()
}

fn take_one(row: &Queued, left: &mut BTreeMap<RuleNumber, u32>) {
    for number in &row.met {
        if let Some(left) = left.get_mut(number) {
            *left -= 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AGAIN, Queued, Queues};
    use crate::queue::throttle::Met;
    #[cfg(feature = "__faults")]
    use crate::store::fault::{DurableFault, set_durable_fault};
    use crate::store::row::{DurableId, Position, StoreTime};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn a_row_that_was_held_up_waits_for_its_limit_as_others_do() {
        let mut queues = Queues::default();
        queues.begin([1, 2]);
        let none = |_: &_| Met::new();
        queues.fill(Position::BEFORE_HELD, &[], None, &BTreeMap::new(), none);
        let (now, second) = (Duration::from_secs(9), Duration::from_secs(1));
        let met = vec![1];
        let (attempts, crashes) = (0, 0);
        let row = Queued {
            met,
            attempts,
            crashes,
        };
        queues.try_again(Position::MIN, row, now);
        assert_eq!((queues.count(1), queues.count(2)), (1, 0));
        #[cfg(feature = "__faults")]
        {
            set_durable_fault(Some(DurableFault::BlockedUncounted));
            assert_eq!(queues.count(1), 0, "nothing is asked for it");
            set_durable_fault(None);
        }
        let again = |left, wait, now| queues.again(|| BTreeMap::from([(1, left)]), now, |_| wait);
        assert_eq!(again(1, None, now), Some(AGAIN));
        assert_eq!(again(1, None, now + second), Some(Duration::ZERO));
        // A call that ends wakes the writer, or a token comes.
        assert_eq!(again(0, None, now + second), None);
        assert_eq!(again(0, Some(second), now + second), Some(second));
    }

    /// The queue of rule 1, of which all is known: it is empty.
    fn of_one_rule() -> Queues {
        let mut queues = Queues::default();
        queues.begin([1]);
        let none = |_: &_| Met::new();
        queues.fill(Position::BEFORE_HELD, &[], None, &BTreeMap::new(), none);
        queues
    }

    fn at(number: u64) -> Position {
        Position {
            id: DurableId::new(0, StoreTime::MIN, number),
            ..Position::MIN
        }
    }

    /// A row that meets rule 1.
    fn row() -> Queued {
        Queued {
            met: vec![1],
            attempts: 0,
            crashes: 0,
        }
    }

    #[test]
    fn each_row_that_was_held_up_waits_for_itself() {
        let (mut queues, mut now) = (of_one_rule(), Duration::from_secs(9));
        queues.try_again(at(0), row(), now);
        for number in 1..=3 {
            // Another one is held up just before this one is tried.
            queues.try_again(at(number), row(), now + AGAIN / 4 * 3);
            now += AGAIN;
            let wait = queues.again(|| BTreeMap::from([(1, 9)]), now, |_| None);
            assert_eq!(wait, Some(Duration::ZERO));
            let mut left = BTreeMap::from([(1, 9)]);
            let taken = queues.take(&mut left, now);
            let taken: Vec<_> = taken.into_iter().map(|(position, _)| position).collect();
            let expected: Vec<_> = match number {
                1 => vec![at(0)],
                _ => vec![at(number - 1), at(0)],
            };
            assert_eq!(taken, expected);
            queues.try_again(at(0), row(), now);
        }
    }

    #[test]
    fn rows_that_are_held_up_and_others_of_their_limit_go_first_by_turns() {
        let (mut queues, mut now) = (of_one_rule(), Duration::from_secs(9));
        (0..100).for_each(|number| queues.put(1, at(number), row()));
        let (mut tries, mut others) = (BTreeMap::<Position, u32>::new(), 0);
        for _ in 0..40 {
            // (Calls are limited to two, and none has begun.)
            let mut left = BTreeMap::from([(1, 2)]);
            for (position, row) in queues.take(&mut left, now) {
                // A transaction that stays open has locked the first four.
                if position < at(4) {
                    *tries.entry(position).or_default() += 1;
                    queues.try_again(position, row, now);
                } else {
                    others += 1;
                }
            }
            now += AGAIN / 2;
        }
        assert_eq!(others, 38, "two each second time, once all four were tried");
        assert_eq!(tries.len(), 4);
        assert!(tries.values().all(|&tries| tries >= 9), "{tries:?}");
    }

    #[test]
    fn rows_that_are_held_up_leave_room_for_those_that_are_not_known_yet() {
        let (mut queues, now) = (Queues::default(), Duration::from_secs(9));
        queues.begin([1]);
        let take = |queues: &mut Queues| {
            let mut left = BTreeMap::from([(1, 1)]);
            let taken = queues.take(&mut left, now);
            for (position, row) in taken {
                queues.try_again(position, row, Duration::ZERO);
            }
            queues.to_fill(&left)
        };
        // It is held up, and the rows behind it were not read yet.
        queues.rules.get_mut(&1).unwrap().upto = at(1);
        queues.try_again(at(1), row(), Duration::ZERO);
        assert_eq!(take(&mut queues), None);
        assert_eq!(take(&mut queues), Some(at(1)));
    }

    #[test]
    fn what_is_known_of_a_rule_stays_when_another_one_comes() {
        let mut queues = Queues::default();
        let waits = |queues: &Queues| queues.queued().collect::<Vec<_>>();
        queues.begin([1, 2]);
        assert_eq!(waits(&queues), [1, 2]);
        let none = |_: &_| Met::new();
        queues.fill(Position::BEFORE_HELD, &[], None, &BTreeMap::new(), none);
        assert!(waits(&queues).is_empty());
        queues.begin([1, 2, 3]);
        assert_eq!(waits(&queues), [3]);
        // What stood in the queue of one that is gone may be others'.
        queues.begin([1, 3]);
        assert_eq!(waits(&queues), [1, 3]);
    }
}
