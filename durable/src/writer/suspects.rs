//! Suspects: timers that may have ended the process, and how they are handed out.
//!
//! The window has them, and the writer asks which are next. A suspect waits here, without a timer
//! of the service, while others are due. It is handed out on trial:
//!
//! - Suspects without crashes go in groups. A group is noted in the store, in one commit: each of
//!   its rows has a crash. Then they are handed out. Groups grow as long as none ends the process.
//! - Suspects with crashes go alone, when no group waits. A crash is stored by `TrialBegin`, on the
//!   handler's thread, just before the call: so what is charged is what was called.
//!
//! A trial is over when the row is settled, or after a time that doubles with each crash: a slow
//! handler does not keep the others waiting. So does the time before a row is handed out alone.
//!
//! Rows that are not here for lack of room are read again when there is some: their range is kept.

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

/// What was loaded with them and is no suspect is on its way to its handlers then.
const GRACE: Duration = Duration::from_millis(100);

/// Between two looks for one that may be handed out.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// `TRIAL`, doubled so often.
fn doubled(times: u32) -> Duration {
    TRIAL
        .saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
        .min(TRIAL_MAX)
}

/// A suspect that waits.
struct WaitingSuspect {
    delivery: Delivery,
    /// It is not handed out before.
    from: Instant,
}

/// A suspect that is handed out.
struct Trial {
    until: Instant,
    is_alone: bool,
}

/// A suspect that was charged with a crash, and was not called after all.
struct Uncalled {
    of: Settled,
    /// The crashes that it had before, and has.
    crashes: u32,
}

/// Rows that were not taken in, since too many waited: those of this range that are suspects.
#[derive(Clone, Copy)]
struct PassedOver {
    after: Position,
    last: Position,
}

/// The suspects of a window.
pub(super) struct Suspects {
    /// By crashes, then by position.
    waiting: BTreeMap<(u32, Position), WaitingSuspect>,
    /// Bytes of those that wait, and the most.
    bytes: usize,
    bytes_max: usize,
    passed_over: Option<PassedOver>,
    /// Those that are handed out.
    trials: IdMap<DurableId, Trial>,
    /// Those that were noted in a group, and are not settled.
    noted: IdMap<DurableId, Settled>,
    /// Those that were charged, and were not called after all. The store is to be told.
    uncalled: IdMap<DurableId, Uncalled>,
    /// How many may be on trial together, and how many have been since that number has grown.
    group: usize,
    survived: usize,
}

/// What is handed out next.
pub(super) enum NextTrial {
    /// These, when they are noted.
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

    /// Has a row wait, which was not here. `false`: there is no room, and it is read again later.
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

    /// A row leaves the window that waits here.
    pub(super) fn let_go(&mut self, position: Position, bytes: usize) {
        let key = self.waiting.keys().find(|(_, other)| *other == position);
        if let Some(&key) = key {
            self.waiting.remove(&key);
            self.bytes -= bytes;
        }
    }

    /// A row leaves the window that was handed out, or was about to be.
    pub(super) fn end_trial(&mut self, id: DurableId, was_called: bool) {
        if self.trials.remove(&id).is_some() && was_called {
            self.survive(1);
        }
        if let Some(of) = self.noted.remove(&id).filter(|_| !was_called) {
            self.take_back_later(of, 0);
        }
    }

    /// What this row was charged with is to be taken back, so that it has `crashes` crashes.
    pub(super) fn take_back_later(&mut self, of: Settled, crashes: u32) {
        self.uncalled.insert(of.id, Uncalled { of, crashes });
    }

    /// A row of the store comes into the window, or has got another deadline. If what it was
    /// charged with is still to be taken back, it is the row that it will be then.
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

    /// The process goes on after this number of trials. The next groups may be larger.
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

    /// The range is read again up to here; what is passed over anew comes after. `None`: all of it.
    pub(super) fn read_again(&mut self, upto: Option<Position>) {
        let rest = self.passed_over.zip(upto);
        let rest = rest.map(|(range, upto)| PassedOver {
            after: range.after.max(upto),
            last: range.last,
        });
        self.passed_over = rest.filter(|range| range.after < range.last);
    }

    /// Takes out what may be handed out now. `claimed`: rows due by then may be.
    pub(super) fn next(&mut self, now: Instant, claimed: StoreTime, due: StoreTime) -> NextTrial {
        let before = self.trials.len();
        self.trials.retain(|_, trial| trial.until > now);
        self.survive(before - self.trials.len());
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
        let may_begin = |waiting: &WaitingSuspect| {
            let row = &waiting.delivery.row;
            row.due <= due && row.due <= claimed && waiting.from <= now
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

    /// A row is handed out. `noted`: with its group.
    pub(super) fn begin_trial(
        &mut self,
        id: DurableId,
        crashes: u32,
        noted: Option<Settled>,
        now: Instant,
    ) {
        if let Some(of) = noted {
            self.uncalled.remove(&id);
            self.noted.insert(id, of);
        }
        let until = now.checked_add(doubled(crashes)).unwrap_or(now);
        let is_alone = crashes > 0;
        self.trials.insert(id, Trial { until, is_alone });
    }

    /// A row's trial begins now: it was charged.
    pub(super) fn renew_trial(&mut self, id: DurableId, crashes: u32, now: Instant) {
        self.uncalled.remove(&id);
        if let Some(trial) = self.trials.get_mut(&id) {
            trial.until = now.checked_add(doubled(crashes)).unwrap_or(now);
        }
    }

    /// Whether this row may begin alone: no other one is on trial.
    pub(super) fn may_begin(&self, id: DurableId, now: Instant) -> bool {
        let mut others = self.trials.iter().filter(|(other, _)| **other != id);
        !others.any(|(_, trial)| trial.until > now)
    }

    /// Writes that take back what was noted of rows that were not handed out after all. `all`: of
    /// those, too, of which nobody has heard: no handler runs any more.
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

    /// The first deadline of those that wait, after this one.
    pub(super) fn first_after(&self, due: Option<StoreTime>) -> Option<StoreTime> {
        let dues = self
            .waiting
            .values()
            .map(|waiting| waiting.delivery.row.due);
        dues.filter(|&other| Some(other) > due).min()
    }

    /// How long it takes until one may be handed out. `None`: none waits.
    pub(super) fn wait(&self, now: Instant, due: StoreTime) -> Option<Duration> {
        let waits = self.waiting.values().map(|waiting| {
            let from = waiting.from.saturating_duration_since(now);
            from.max(waiting.delivery.row.due.since(due))
        });
        let first = waits.min()?;
        let trial = self.trials.values().map(|trial| trial.until).min();
        let trial = trial.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        // (A turn has just found nothing to hand out.)
        Some(first.max(trial).max(WAIT_MIN))
    }
}
