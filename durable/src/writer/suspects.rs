//! Suspects: timers that may have ended the process, and how they are handed out.
//!
//! The window has them, and the writer asks which are next. A suspect waits here, without a timer
//! of the service, while others are due. It is handed out on trial:
//!
//! - Suspects without crashes go in groups. One commit notes a crash of each row of a group. Then
//!   the group is handed out. Groups grow as long as none of them ends the process.
//! - Suspects with crashes go alone, when no group waits. A crash is stored by `TrialBegin`, for
//!   the handler's thread, just before the call. So only a timer that is called is charged.
//!
//! A trial is over when the row is settled, or after a time that doubles with each crash, so that a
//! slow handler does not keep the others waiting. The wait before a row is handed out alone doubles
//! with each crash, too.
//!
//! A row that is handed out alone may wait for its call for longer than its trial lasts. Then the
//! next one is handed out, which may wait as long. So a row that was only handed out keeps no other
//! from beginning, or none of them might ever begin. The first one that asks begins, and those that
//! ask while it is on trial come back.
//!
//! Suspects for which there is no room are read again when there is room. Their range is kept here.

use crate::handler::delivery::Delivery;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::{DurableId, Position, Row, StoreTime};
use crate::store::write::{Settled, Write};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The most suspects that wait in memory.
const WAITING_MAX: usize = 1_024;

/// Rows of the first group, and of the largest.
const GROUP_MIN: usize = 16;
const GROUP_MAX: usize = 256;

/// How long a row of a group is on trial, and how long one with a crash waits before it.
const TRIAL: Duration = Duration::from_secs(1);

/// The longest trial, and the longest wait before one.
const TRIAL_MAX: Duration = Duration::from_secs(60);

/// How long a suspect without crashes waits. After that time the other rows that were loaded with
/// it are on their way to their handlers.
const GRACE: Duration = Duration::from_millis(100);

/// The shortest time between two looks for a suspect that may be handed out.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// `TRIAL`, doubled this number of times, and at most `TRIAL_MAX`.
fn doubled(times: u32) -> Duration {
    TRIAL
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(TRIAL_MAX)
}

/// A suspect that waits.
struct WaitingSuspect {
    delivery: Delivery,
    /// It is not handed out before this time.
    from: Instant,
}

/// A suspect that is handed out.
struct Trial {
    until: Instant,
    is_alone: bool,
    /// Its handler may be called: it was noted with its group, or has begun alone.
    has_begun: bool,
}

/// A suspect that was charged with a crash, and was not called after all.
struct Uncalled {
    of: Settled,
    /// The crashes that it had before the charge, and has again.
    crashes: u32,
}

/// A range of rows. Its suspects were not taken in, because too many waited.
#[derive(Clone, Copy)]
struct PassedOver {
    after: Position,
    last: Position,
}

/// The suspects of a window.
pub(super) struct Suspects {
    /// By crashes, then by position.
    waiting: BTreeMap<(u32, Position), WaitingSuspect>,
    /// Bytes of the suspects that wait, and the most that may wait.
    bytes: usize,
    bytes_max: usize,
    passed_over: Option<PassedOver>,
    /// The suspects that are handed out.
    trials: IdMap<DurableId, Trial>,
    /// The suspects that were noted in a group, and are not settled.
    noted: IdMap<DurableId, Settled>,
    /// The suspects that were charged, and were not called after all. The store has to be told.
    uncalled: IdMap<DurableId, Uncalled>,
    /// How many may be on trial together.
    group: usize,
    /// How many trials the process has survived since `group` has grown.
    survived: usize,
}

/// What is handed out next.
pub(super) enum NextTrial {
    /// These, after their crashes are noted in the store.
    Group(Vec<Delivery>),
    Alone(Delivery),
    Nothing,
}

impl Suspects {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            passed_over: None,
            trials: IdMap::default(),
            noted: IdMap::default(),
            uncalled: IdMap::default(),
            group: GROUP_MIN,
            survived: 0,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the bytes are those of the rows that wait.
    pub(super) fn is_counted_right(&self) -> bool {
        let waiting = self.waiting.values();
        let bytes = waiting.map(|waiting| waiting.delivery.row.bytes());
        bytes.sum::<usize>() == self.bytes
    }

    /// Lets a row wait here. Returns `false` if there is no room: then the row is read again later.
    pub(super) fn hold(&mut self, delivery: Delivery, now: Instant) -> bool {
        let (position, crashes) = (delivery.row.position(), delivery.row.crashes);
        let is_full = self.len() >= WAITING_MAX || self.bytes >= self.bytes_max;
        if is_full && !self.waiting.is_empty() {
            let range = self.passed_over.get_or_insert(PassedOver {
                after: position.before(),
                last: position,
            });
            range.after = range.after.min(position.before());
            range.last = range.last.max(position);
            return false;
        }
        let wait = match crashes {
            0 => GRACE,
            crashes => doubled(crashes - 1),
        };
        let from = now.checked_add(wait).unwrap_or(now);
        self.bytes += delivery.row.bytes();
        let waiting = WaitingSuspect { delivery, from };
        let former = self.waiting.insert((crashes, position), waiting);
        debug_assert!(former.is_none(), "a row waits once");
        true
    }

    /// Forgets a row that waits here, because it leaves the window.
    pub(super) fn let_go(&mut self, position: Position, bytes: usize) {
        let key = self.waiting.keys().find(|(_, other)| *other == position);
        if let Some(&key) = key {
            self.waiting.remove(&key);
            self.bytes -= bytes;
        }
    }

    /// Ends the trial of a row that was handed out, or was about to be, because it leaves the
    /// window.
    pub(super) fn end_trial(&mut self, id: DurableId, was_called: bool) {
        if self.trials.remove(&id).is_some() && was_called {
            self.survive(1);
        }
        if let Some(of) = self.noted.remove(&id).filter(|_| !was_called) {
            self.take_back_later(of, 0);
        }
    }

    /// Notes that a row's charge has to be taken back, so that the row has `crashes` crashes.
    pub(super) fn take_back_later(&mut self, of: Settled, crashes: u32) {
        self.uncalled.insert(of.id, Uncalled { of, crashes });
    }

    /// Corrects a row of the store that comes into the window, or has got another deadline. If its
    /// charge has still to be taken back, the row gets the crashes that it will have after that.
    pub(super) fn correct(&mut self, row: &mut Row, epoch: u64) {
        let uncalled = self.uncalled.get_mut(&row.id);
        let Some(uncalled) = uncalled.filter(|uncalled| uncalled.of.epoch == epoch) else {
            return;
        };
        if !is_broken(DurableFault::MovedCharged) {
            uncalled.of.due = row.due;
            row.crashes = uncalled.crashes;
        }
    }

    /// Notes that the process has survived this number of trials. The next groups may be larger.
    fn survive(&mut self, count: usize) {
        self.survived += count;
        if self.survived >= self.group {
            self.group = (self.group * 2).min(GROUP_MAX);
            self.survived = 0;
        }
    }

    /// The range that is to be read again, if there is room: after a position, up to a deadline.
    pub(super) fn to_read_again(&self) -> Option<(Position, StoreTime)> {
        let range = self.passed_over?;
        let has_room = self.len() < WAITING_MAX / 2 && self.bytes <= self.bytes_max / 2;
        has_room.then_some((range.after, range.last.due))
    }

    /// Notes that the range was read again up to this position. Rows that are passed over anew come
    /// after it. `None`: all of the range was read.
    pub(super) fn read_again(&mut self, upto: Option<Position>) {
        let rest = self.passed_over.zip(upto);
        let rest = rest.map(|(range, upto)| PassedOver {
            after: range.after.max(upto),
            last: range.last,
        });
        self.passed_over = rest.filter(|range| range.after < range.last);
    }

    /// Takes out the suspects that may be handed out now. They are due at `due` and at `claimed` at
    /// the latest, and no limit is in their way.
    pub(super) fn next(
        &mut self,
        now: Instant,
        claimed: StoreTime,
        due: StoreTime,
        mut is_let_through: impl FnMut(&Row) -> bool,
    ) -> NextTrial {
        // (One that has yet to begin has shown nothing.)
        let over = self.trials.extract_if(|_, trial| trial.until <= now);
        let survived = over.filter(|(_, trial)| trial.has_begun).count();
        self.survive(survived);
        let (active, is_alone) = match is_broken(DurableFault::TrialsTogether) {
            true => (0, false),
            false => {
                let is_alone = self.trials.values().any(|trial| trial.is_alone);
                (self.trials.len(), is_alone)
            }
        };
        if self.waiting.is_empty() || is_alone {
            return NextTrial::Nothing;
        }
        let mut may_begin = |waiting: &WaitingSuspect| {
            let row = &waiting.delivery.row;
            row.due <= due && row.due <= claimed && waiting.from <= now && is_let_through(row)
        };
        let first_alone = (1, Position::MIN);
        let group: Vec<_> = self
            .waiting
            .range(..first_alone)
            .filter(|(_, waiting)| may_begin(waiting))
            .map(|(&key, _)| key)
            .take(self.group.saturating_sub(active))
            .collect();
        if !group.is_empty() {
            return NextTrial::Group(group.into_iter().filter_map(|key| self.take(key)).collect());
        }
        if active > 0 {
            return NextTrial::Nothing;
        }
        let alone = self.waiting.range(first_alone..);
        let alone = alone
            .filter(|(_, waiting)| may_begin(waiting))
            .map(|(&key, _)| key)
            .next();
        match alone.and_then(|key| self.take(key)) {
            Some(delivery) => NextTrial::Alone(delivery),
            None => NextTrial::Nothing,
        }
    }

    fn take(&mut self, key: (u32, Position)) -> Option<Delivery> {
        let waiting = self.waiting.remove(&key)?;
        self.bytes -= waiting.delivery.row.bytes();
        Some(waiting.delivery)
    }

    /// A row is handed out. `crashes`: those that it had before this trial. `noted`: with its
    /// group. Otherwise it begins later, by itself.
    pub(super) fn begin_trial(
        &mut self,
        id: DurableId,
        crashes: u32,
        noted: Option<Settled>,
        now: Instant,
    ) {
        let has_begun = noted.is_some();
        if let Some(of) = noted {
            self.uncalled.remove(&id);
            self.noted.insert(id, of);
        }
        self.put_on_trial(id, crashes, has_begun, now);
    }

    /// A row that was handed out alone is about to be charged. Until its trial is over no other one
    /// begins. `crashes`: those that it had before.
    pub(super) fn begin_alone(&mut self, id: DurableId, crashes: u32, now: Instant) {
        self.put_on_trial(id, crashes, true, now);
    }

    fn put_on_trial(&mut self, id: DurableId, crashes: u32, has_begun: bool, now: Instant) {
        let trial = Trial {
            until: now.checked_add(doubled(crashes)).unwrap_or(now),
            is_alone: crashes > 0,
            has_begun,
        };
        self.trials.insert(id, trial);
    }

    /// A row's trial begins now: it was charged. `crashes`: those that it had before.
    pub(super) fn renew_trial(&mut self, id: DurableId, crashes: u32, now: Instant) {
        self.uncalled.remove(&id);
        if let Some(trial) = self.trials.get_mut(&id) {
            trial.until = now.checked_add(doubled(crashes)).unwrap_or(now);
        }
    }

    /// Whether this row may begin alone: no other one is on trial that has begun.
    pub(super) fn may_begin(&self, id: DurableId, now: Instant) -> bool {
        let mut others = self.trials.iter().filter(|(other, _)| **other != id);
        !others.any(|(_, trial)| trial.has_begun && trial.until > now)
    }

    /// Returns the changes that take back the charges of rows which were not handed out after all.
    /// With `all`, also those of noted rows that were not settled: no handler runs any more.
    pub(super) fn taken_back(&mut self, all: bool) -> Vec<Write> {
        if all {
            for (_, of) in std::mem::take(&mut self.noted) {
                self.take_back_later(of, 0);
            }
        }
        let uncalled = self.uncalled.drain();
        if is_broken(DurableFault::NoteKept) {
            return Vec::new();
        }
        let writes = uncalled.map(|(_, Uncalled { of, crashes })| Write::Begin { of, crashes });
        writes.collect()
    }

    /// The first deadline after this one of a suspect that waits.
    pub(super) fn first_after(&self, due: Option<StoreTime>) -> Option<StoreTime> {
        let dues = self
            .waiting
            .values()
            .map(|waiting| waiting.delivery.row.due);
        dues.filter(|&other| Some(other) > due).min()
    }

    /// How long it takes until a suspect may be handed out. `None`: none waits.
    /// `limit`: for how long a limit is in the way of a row.
    pub(super) fn wait(
        &self,
        now: Instant,
        due: StoreTime,
        limit: impl Fn(&Row) -> Duration,
    ) -> Option<Duration> {
        let waits = self.waiting.values().map(|waiting| {
            let from = waiting.from.saturating_duration_since(now);
            let row = &waiting.delivery.row;
            from.max(row.due.since(due)).max(limit(row))
        });
        let first = waits.min()?;
        let trial = self.trials.values().map(|trial| trial.until).min();
        let trial = trial.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        // (A turn has just found nothing to hand out.)
        Some(first.max(trial).max(WAIT_MIN))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{GROUP_MIN, NextTrial, Suspects, TRIAL, doubled};
    use crate::handler::delivery::Delivery;
    use crate::store::row::{DurableId, Row, StoreTime};
    use std::time::Instant;

    fn id(number: u64) -> DurableId {
        DurableId::new(0, StoreTime::MIN, number)
    }

    /// A suspect that is due, and that had one crash.
    fn suspect(number: u64) -> Delivery {
        let mut row = Row::new(id(number), StoreTime::MIN, "kind".into(), [].into());
        (row.suspect, row.crashes) = (true, 1);
        Delivery {
            row,
            fence: 0,
            made_up: 0,
            limit: None,
        }
    }

    /// Hands out what is next, which goes alone, if there is something. Returns its id.
    fn hand_out(suspects: &mut Suspects, now: Instant) -> Option<DurableId> {
        let due = StoreTime::MIN;
        match suspects.next(now, due, due, |_| true) {
            NextTrial::Alone(delivery) => {
                let (id, crashes) = (delivery.row.id, delivery.row.crashes);
                suspects.begin_trial(id, crashes, None, now);
                Some(id)
            }
            NextTrial::Nothing => None,
            NextTrial::Group(_) => unreachable!("all have crashes"),
        }
    }

    /// So it is if they wait for a call of `on_batch` that takes longer than their trials.
    #[test]
    fn a_suspect_that_was_only_handed_out_keeps_no_other_from_beginning() {
        let (mut suspects, start) = (Suspects::new(usize::MAX), Instant::now());
        for number in 1..=3 {
            assert!(suspects.hold(suspect(number), start));
        }
        let trial = doubled(1);
        let mut now = start + TRIAL;
        assert_eq!(hand_out(&mut suspects, now), Some(id(1)));
        assert_eq!(hand_out(&mut suspects, now), None, "one goes alone");
        now += trial;
        assert_eq!(hand_out(&mut suspects, now), Some(id(2)));
        now += trial / 4;
        assert!(suspects.may_begin(id(1), now));
        suspects.begin_alone(id(1), 1, now);
        // It has begun: until its trial is over, or it has ended, no other one does.
        assert!(!suspects.may_begin(id(2), now));
        assert_eq!(hand_out(&mut suspects, now), None);
        suspects.end_trial(id(1), true);
        assert!(suspects.may_begin(id(2), now));
        suspects.begin_alone(id(2), 1, now);
        now += trial;
        assert!(suspects.may_begin(id(3), now));
        assert_eq!(hand_out(&mut suspects, now), Some(id(3)));
    }

    /// They wait for calls, and nothing is known of them.
    #[test]
    fn trials_that_have_not_begun_let_no_group_grow() {
        let (mut suspects, mut now) = (Suspects::new(usize::MAX), Instant::now());
        let many = GROUP_MIN as u64;
        for has_begun in [false, true] {
            for number in 0..many {
                assert!(suspects.hold(suspect(number), now));
            }
            now += TRIAL;
            while hand_out(&mut suspects, now).is_some_and(|id| {
                if has_begun {
                    suspects.begin_alone(id, 1, now);
                }
                true
            }) {
                now += doubled(1);
            }
            assert_eq!(suspects.group > GROUP_MIN, has_begun);
        }
    }

    #[test]
    fn a_suspect_of_a_group_has_begun_when_it_is_handed_out() {
        let (mut suspects, now) = (Suspects::new(usize::MAX), Instant::now());
        let noted = suspect(1).settled();
        suspects.begin_trial(id(1), 0, Some(noted), now);
        assert!(!suspects.may_begin(id(2), now));
        assert!(suspects.may_begin(id(2), now + TRIAL));
    }
}
