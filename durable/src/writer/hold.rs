//! Hold: rows that this process does not hand out, because it has no handler of their kind, or
//! because a rule pauses them. They leave the order of deadlines, and come back when there is a
//! handler, and no such rule.
//!
//! This file has what the writer knows of them; `release.rs` has what it does. A row that comes
//! where the window begins, and is not handed out, does not enter (HoldPlan). The next commit holds
//! it (HoldCommit). A scan reads the rows that are held: it counts them, releases those that can be
//! handed out (HeldRelease), and buries those that have waited for too long.
//!
//! # Ground rules
//!  - A row that is to be held lies before `loaded` and is not in the window, so no load finds it
//!    again. It stays here until the store has held it, or has said that it is gone.
//!  - What is counted is a hint. The store alone knows which rows are held.

use crate::queue::throttle::Refused;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Held, HeldWhy, Partition, Position, Row, StoreTime};
use crate::store::write::{Settled, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a change waits that somebody's transaction, or a full disk, holds up.
const AGAIN: Duration = Duration::from_millis(100);

/// Those whose time comes so soon after that of the first one come along with it. A commit that
/// something holds up takes long, so there are few of them.
const TOGETHER: Duration = Duration::from_millis(50);

/// Which share of the time scans may take while a change waits.
const AGAIN_SHARE: u32 = 10;

/// How often held rows are counted, if there are any; and which share of the time that may take.
const COUNT_EVERY: Duration = Duration::from_secs(60);
const COUNT_SHARE: u32 = 100;

/// How often the hook is told of a kind.
const TELL_EVERY: Duration = Duration::from_secs(3_600);

/// The most kinds that are told apart.
const KINDS_MAX: usize = 1_000;

/// The longest wait for rows that have waited for too long: the clock may be set.
const BURY_WAIT_MAX: Duration = Duration::from_secs(86_400);

/// A row that is to be held.
pub(super) struct ToHold {
    pub(super) of: Settled,
    pub(super) kind: Arc<str>,
    pub(super) why: HeldWhy,
    /// A limit has refused it.
    pub(super) refused: Option<Refused>,
}

impl ToHold {
    pub(super) fn position(&self) -> Position {
        let Settled { id, due, .. } = self.of;
        Position { due, id }
    }

    /// HoldCommit: the change of the store.
    pub(super) fn write(&self, now: StoreTime) -> Write {
        Write::Hold {
            of: self.of.clone(),
            why: self.why,
            since: now,
        }
    }
}

/// How many rows of a kind wait for a handler, and since when the first of them does.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) rows: u64,
    pub(super) since: StoreTime,
}

/// Rows that wait for a handler, by kind.
#[derive(Default)]
pub(super) struct WaitingKinds {
    pub(super) kinds: BTreeMap<Arc<str>, Waiting>,
    /// Of all kinds.
    rows: u64,
}

impl WaitingKinds {
    /// One more row of a kind waits.
    pub(super) fn add(&mut self, kind: &Arc<str>, since: StoreTime) {
        self.rows += 1;
        if let Some(waiting) = self.kinds.get_mut(kind) {
            waiting.rows += 1;
            waiting.since = waiting.since.min(since);
        } else if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind.clone(), Waiting { rows: 1, since });
        }
    }
}

/// A scan of the rows that are held.
pub(super) struct HeldScan {
    pub(super) after: Position,
    pub(super) found: WaitingKinds,
    /// How many rows are paused.
    pub(super) paused: u64,
    /// Since when the row has waited that has waited the longest.
    pub(super) oldest: Option<StoreTime>,
    /// How many are held by limits.
    pub(super) limited: u64,
    /// A change of a row was held up.
    pub(super) is_held_up: bool,
    /// Which kinds wait in which partition.
    pub(super) of: KindsOf,
    /// How long its slices have taken.
    pub(super) took: Duration,
}

impl HeldScan {
    /// A row is held, and stays so.
    pub(super) fn note(&mut self, row: &Row, held: Held) {
        match held.why {
            HeldWhy::Paused => self.paused += 1,
            HeldWhy::Limited => self.limited += 1,
            HeldWhy::Unhandled => {
                note_kind(&mut self.of, row.id.partition(), &row.kind);
                self.found.add(&row.kind, held.since);
                self.oldest = self.oldest.into_iter().chain([held.since]).min();
            }
        }
    }
}

/// Kinds that wait for a handler, by partition.
pub(super) type KindsOf = BTreeMap<Partition, BTreeSet<Arc<str>>>;

/// The most kinds of a partition for which other nodes are asked.
const KINDS_OF_MAX: usize = 64;

/// Notes that rows of a kind wait in a partition. Returns whether that is new.
fn note_kind(of: &mut KindsOf, partition: Partition, kind: &Arc<str>) -> bool {
    let kinds = of.entry(partition).or_default();
    kinds.len() < KINDS_OF_MAX && kinds.insert(kind.clone())
}

/// What the writer knows of rows that are held.
pub(super) struct HeldRows {
    /// Those that are to be held.
    to_hold: BTreeMap<Position, ToHold>,
    /// Those of them that the store could not hold, as somebody's transaction has them. They have
    /// places of their own in a commit, so neither they nor the others wait for a place.
    blocked: BTreeMap<Position, ToHold>,
    /// When the store is asked again to hold each of those, by the node's clock, the first ones
    /// first. (Some may be gone.)
    again: VecDeque<(Duration, Position)>,
    /// Those that wait for a handler.
    waiting: WaitingKinds,
    /// How many are paused.
    paused: u64,
    /// When the hook was told of a kind.
    told: BTreeMap<Arc<str>, Duration>,
    /// Which kinds wait in which partition.
    pub(super) of: KindsOf,
    /// Kinds wait where none had waited before.
    has_news: bool,
    pub(super) scan: Option<HeldScan>,
    /// The next scan begins as soon as the one that is under way has ended.
    scans_again: bool,
    /// When the next scan begins, by the node's clock. `None`: nothing is held, as far as it is
    /// known.
    scan_at: Option<Duration>,
    /// Since when the row has waited that was held first since the last scan began.
    oldest: Option<StoreTime>,
    /// When the first row has waited for too long, by the store's clock.
    bury_at: Option<StoreTime>,
}

impl HeldRows {
    /// Nobody knows yet what the store has.
    pub(super) const fn new() -> Self {
        Self {
            to_hold: BTreeMap::new(),
            blocked: BTreeMap::new(),
            again: VecDeque::new(),
            waiting: WaitingKinds {
                kinds: BTreeMap::new(),
                rows: 0,
            },
            paused: 0,
            told: BTreeMap::new(),
            of: KindsOf::new(),
            has_news: false,
            scan: None,
            scans_again: false,
            scan_at: Some(Duration::ZERO),
            oldest: None,
            bury_at: None,
        }
    }

    /// Whether this row is to be held.
    pub(super) fn has(&self, position: Position) -> bool {
        self.to_hold.contains_key(&position) || self.blocked.contains_key(&position)
    }

    /// HoldPlan: this row is to be held.
    pub(super) fn push(&mut self, row: ToHold) {
        if !is_broken(DurableFault::HoldForgotten) {
            self.to_hold.insert(row.position(), row);
        }
    }

    /// The store could not hold it: it is asked again a moment later. Meanwhile later rows of its
    /// rules need not wait for it.
    pub(super) fn push_again(&mut self, mut row: ToHold, now: Duration) {
        row.refused = None;
        self.again.push_back((now + AGAIN, row.position()));
        self.blocked.insert(row.position(), row);
    }

    /// Whether rows are to be held now.
    pub(super) fn has_due(&self, now: Duration) -> bool {
        let is_due = |&(at, _): &(Duration, Position)| at <= now;
        !self.to_hold.is_empty() || self.again.front().is_some_and(is_due)
    }

    /// Rows that are to be held now, at most this number: the first ones first. Then come those
    /// that the store could not hold before, at most as many.
    pub(super) fn take_due(&mut self, now: Duration, most: usize) -> Vec<ToHold> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some((_, row)) = self.to_hold.pop_first()
        {
            due.push(row);
        }
        let all = due.len() + most;
        let is_due = |&(at, _): &(Duration, Position)| at <= now;
        let until = (self.again.front().is_some_and(is_due)).then_some(now + TOGETHER);
        while due.len() < all
            && let Some(&(at, position)) = self.again.front()
            && Some(at) <= until
        {
            self.again.pop_front();
            due.extend(self.blocked.remove(&position));
        }
        due
    }

    /// Partitions are this node's from now on, or kinds are handed out: what is held there is read
    /// soon, from the beginning. A scan that is under way goes on to its end before that: however
    /// often this comes, each row has its turn.
    pub(super) fn scan_soon(&mut self) {
        self.scans_again = self.scan.is_some();
        self.scan_at = Some(Duration::ZERO);
    }

    /// Partitions are others' from now on.
    pub(super) fn lose(&mut self, lost: &[Partition]) {
        let stays = |position: &Position| !lost.contains(&position.id.partition());
        self.to_hold.retain(|position, _| stays(position));
        self.blocked.retain(|position, _| stays(position));
        self.again.retain(|(_, position)| stays(position));
        self.of.retain(|partition, _| !lost.contains(partition));
    }

    /// Whether kinds wait where none had waited before, since this was asked last.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Forgets those that are to be held: they are loaded anew.
    pub(super) fn forget(&mut self) {
        self.forget_to_hold();
        self.scan = None;
        self.scan_soon();
    }

    /// The same, while those that are held stay as they are.
    pub(super) fn forget_to_hold(&mut self) {
        self.to_hold.clear();
        self.blocked.clear();
        self.again.clear();
    }

    /// Whether some are to be held.
    pub(super) fn is_holding(&self) -> bool {
        !self.to_hold.is_empty() || !self.blocked.is_empty()
    }

    /// The store has held a row that a rule pauses.
    pub(super) fn held_paused(&mut self, now: Duration) {
        self.paused += 1;
        self.scan_later(now);
    }

    /// The store has held a row. Returns whether the hook is to be told, and of how many.
    pub(super) fn held(
        &mut self,
        (partition, kind): (Partition, &Arc<str>),
        since: StoreTime,
        bury_after: Duration,
        now: Duration,
    ) -> Option<u64> {
        self.waiting.add(kind, since);
        self.has_news |= note_kind(&mut self.of, partition, kind);
        if let Some(scan) = &mut self.scan {
            note_kind(&mut scan.of, partition, kind);
        }
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
        let over = since.after(bury_after);
        self.bury_at = Some(self.bury_at.map_or(over, |at| at.min(over)));
        self.scan_at.get_or_insert(now + COUNT_EVERY);
        self.tell_now(kind, now)
    }

    /// Whether the hook is to be told of a kind, and of how many rows.
    fn tell_now(&mut self, kind: &Arc<str>, now: Duration) -> Option<u64> {
        let is_recent = |told: &Duration| now.saturating_sub(*told) < TELL_EVERY;
        if self.told.get(kind).is_some_and(is_recent) {
            return None;
        }
        let rows = self.waiting.kinds.get(kind)?.rows;
        if self.told.len() >= KINDS_MAX {
            self.told.clear();
        }
        self.told.insert(kind.clone(), now);
        Some(rows)
    }

    /// A row is held now. A scan that has come beyond it has not seen it.
    pub(super) fn note_in_scan(&mut self, row: &Row, held: Held) {
        let position = row.position();
        if let Some(scan) = self.scan.as_mut().filter(|scan| position <= scan.after) {
            scan.note(row, held);
        }
    }

    /// A row is not held by a limit any more. A scan that has come beyond it has counted it.
    pub(super) fn note_released(&mut self, position: Position) {
        if let Some(scan) = self.scan.as_mut().filter(|scan| position <= scan.after) {
            scan.limited = scan.limited.saturating_sub(1);
        }
    }

    /// Begins a scan, if it is time for one.
    pub(super) fn begin_scan(&mut self, now: Duration, time: StoreTime) {
        let is_time = self.scan_at.is_some_and(|at| at <= now);
        let is_over = self.bury_at.is_some_and(|at| at <= time);
        if self.scan.is_none() && (is_time || is_over) {
            // (What is held from now on sets them anew: the scan may not see it.)
            (self.oldest, self.scan_at) = (None, None);
            self.scan = Some(HeldScan {
                after: Position::BEFORE_HELD,
                found: WaitingKinds::default(),
                paused: 0,
                oldest: None,
                of: KindsOf::new(),
                limited: 0,
                is_held_up: false,
                took: Duration::ZERO,
            });
        }
    }

    /// Rows may be held of which nothing is known here.
    pub(super) fn scan_later(&mut self, now: Duration) {
        self.scan_at.get_or_insert(now + COUNT_EVERY);
    }

    /// A scan has come to its end. Returns the kinds that the hook is to be told of.
    pub(super) fn end_scan(
        &mut self,
        scan: HeldScan,
        bury_after: Duration,
        now: Duration,
        time: StoreTime,
    ) -> Vec<(Arc<str>, u64)> {
        self.waiting = scan.found;
        self.paused = scan.paused;
        self.has_news |= scan.of.keys().any(|part| !self.of.contains_key(part));
        self.of = scan.of;
        let oldest = self.oldest.into_iter().chain(scan.oldest).min();
        // (Those that are over, and were not buried, are looked at again, but not at once.)
        let soon = time.after(COUNT_EVERY);
        let over = oldest.map(|since| since.after(bury_after));
        self.bury_at = over.map(|at| if at > time { at } else { soon });
        let every = COUNT_EVERY.max(scan.took * COUNT_SHARE);
        let is_held = self.scan_at.is_some() || oldest.is_some();
        self.scan_at = match scan.is_held_up {
            true => Some(now + AGAIN.max(scan.took * AGAIN_SHARE)),
            false if is_held || self.paused > 0 || scan.limited > 0 => Some(now + every),
            false => None,
        };
        if std::mem::take(&mut self.scans_again) {
            self.scan_at = Some(Duration::ZERO);
        }
        let kinds: Vec<_> = self.waiting.kinds.keys().cloned().collect();
        let told = kinds.into_iter().filter_map(|kind| {
            let rows = self.tell_now(&kind, now)?;
            Some((kind, rows))
        });
        told.collect()
    }

    /// How many rows wait for a handler.
    pub(super) const fn waiting(&self) -> u64 {
        self.waiting.rows
    }

    /// How many rows are paused.
    pub(super) const fn paused(&self) -> u64 {
        self.paused
    }

    /// How long the writer may wait before it holds, releases or buries rows. (It counts them when
    /// it takes a turn anyway.)
    pub(super) fn next(&self, now: Duration, time: StoreTime) -> Option<Duration> {
        let again = self.again.front().map(|&(at, _)| at);
        let hold = match self.to_hold.is_empty() {
            true => again,
            false => Some(now),
        };
        let soon = self.scan_at.filter(|&at| at <= now + AGAIN);
        let soon = hold.into_iter().chain(soon).min();
        let soon = soon.map(|at| at.saturating_sub(now));
        let bury = self.bury_at.map(|at| at.since(time).min(BURY_WAIT_MAX));
        soon.into_iter().chain(bury).min()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{AGAIN, COUNT_EVERY, HeldRows, ToHold};
    use crate::store::row::{DurableId, Held, HeldWhy, Position, Row, StoreTime};
    use crate::store::write::Settled;
    use std::time::Duration;

    /// A row that is to be held, which is due in this second.
    fn to_hold(number: u64) -> ToHold {
        ToHold {
            of: Settled {
                id: DurableId::new(0, StoreTime::MIN, number),
                due: StoreTime::MIN.after(Duration::from_secs(number)),
                epoch: 0,
            },
            kind: "kind".into(),
            why: HeldWhy::Paused,
            refused: None,
        }
    }

    /// The seconds of the rows that are to be held now.
    fn due(held: &mut HeldRows, now: Duration, most: usize) -> Vec<u64> {
        let second = |row: ToHold| row.of.due.since(StoreTime::MIN).as_secs();
        held.take_due(now, most).into_iter().map(second).collect()
    }

    #[test]
    fn a_row_that_somebody_has_locked_does_not_take_the_place_of_others() {
        let (mut held, now) = (HeldRows::new(), Duration::ZERO);
        (1..=3).for_each(|number| held.push(to_hold(number)));
        assert_eq!(due(&mut held, now, 1), [1]);
        held.push_again(to_hold(1), now);
        assert!(held.has(to_hold(1).position()), "it is still to be held");
        assert_eq!(due(&mut held, now, 1), [2], "not before its time");
        held.scan_at = None;
        assert!(held.has_due(now));
        assert_eq!(due(&mut held, now + AGAIN, 1), [3, 1]);
        held.push_again(to_hold(1), now);
        assert!(!held.has_due(now));
        assert_eq!(held.next(now, StoreTime::MIN), Some(AGAIN));
        assert_eq!(due(&mut held, now + AGAIN, 1), [1]);
        assert!(!held.is_holding());
    }

    #[test]
    fn a_row_that_could_not_be_held_does_not_wait_until_no_others_come() {
        let (mut held, mut now) = (HeldRows::new(), Duration::ZERO);
        held.push_again(to_hold(0), now);
        for number in 1..=100 {
            // There are always others, and in each turn one of them is held up a moment before.
            (0..20).for_each(|other| held.push(to_hold(20 * number + other)));
            held.push_again(to_hold(10_000 + number), now + AGAIN / 2);
            now += AGAIN;
            assert!(due(&mut held, now, 16).contains(&0), "turn {number}");
            held.push_again(to_hold(0), now);
        }
    }

    /// A row that is held for this reason since the beginning of the time.
    fn held_row(number: u64, why: HeldWhy) -> (Row, Held) {
        let id = DurableId::new(0, StoreTime::MIN, number);
        // (Held rows lie behind all others.)
        let row = Row::new(id, StoreTime::MAX, "kind".into(), [].into());
        let since = StoreTime::MIN;
        (row, Held { why, since })
    }

    #[test]
    fn a_row_that_is_held_behind_a_scan_is_counted_and_looked_at_again() {
        let (mut held, now, time) = (HeldRows::new(), Duration::ZERO, StoreTime::MIN);
        held.begin_scan(now, time);
        let (paused, why) = held_row(1, HeldWhy::Paused);
        held.scan.as_mut().unwrap().after = paused.position();
        held.note_in_scan(&paused, why);
        held.held_paused(now);
        let scan = held.scan.take().unwrap();
        held.end_scan(scan, Duration::MAX, now, time);
        assert_eq!(held.paused(), 1);
        // One that comes before the scan is found by it.
        held.scan_soon();
        held.begin_scan(now, time);
        held.note_in_scan(&paused, why);
        let scan = held.scan.take().unwrap();
        held.end_scan(scan, Duration::MAX, now, time);
        assert_eq!(held.paused(), 0, "it was not found");
    }

    #[test]
    fn rows_of_limits_behind_a_scan_are_counted() {
        let (mut held, now, time) = (HeldRows::new(), Duration::ZERO, StoreTime::MIN);
        held.begin_scan(now, time);
        let rows = [1, 2, 3].map(|number| held_row(number, HeldWhy::Limited));
        held.scan.as_mut().unwrap().after = rows[1].0.position();
        for (row, why) in &rows {
            held.note_in_scan(row, *why);
        }
        held.note_released(rows[0].0.position());
        held.note_released(rows[2].0.position());
        assert_eq!(held.scan.as_ref().unwrap().limited, 1);
    }

    /// Rows may be held of which the scan has seen nothing, so another scan is to come.
    #[test]
    fn a_scan_that_finds_nothing_does_not_forget_what_came_meanwhile() {
        let (mut held, now, time) = (HeldRows::new(), Duration::ZERO, StoreTime::MIN);
        let mut scan = |comes: bool| {
            held.scan_soon();
            held.begin_scan(now, time);
            if comes {
                held.scan_later(now);
            }
            let scan = held.scan.take().unwrap();
            held.end_scan(scan, Duration::MAX, now, time);
            held.scan_at
        };
        assert_eq!(scan(false), None);
        assert_eq!(scan(true), Some(now + COUNT_EVERY));
    }

    #[test]
    fn a_scan_comes_to_its_end_however_often_another_one_is_wanted() {
        let (mut held, now, time) = (HeldRows::new(), Duration::ZERO, StoreTime::MIN);
        held.begin_scan(now, time);
        for scan in 0..3 {
            held.scan.as_mut().unwrap().after = Position::MAX;
            held.scan_soon();
            held.begin_scan(now, time);
            let read = held.scan.take().unwrap();
            assert_eq!(read.after, Position::MAX, "scan {scan} goes on");
            held.end_scan(read, Duration::MAX, now, time);
            assert!(held.scan.is_none());
            held.begin_scan(now, time);
            assert_eq!(held.scan.as_ref().unwrap().after, Position::BEFORE_HELD);
        }
    }
}
