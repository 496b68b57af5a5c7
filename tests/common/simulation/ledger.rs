//! Ledger: what the store has, what callers were told, and what handlers got. It stands outside of
//! what it watches, and notes each broken promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};
use wheelwork::durable::{
    Cause, Delivery, DurableId, DurableStats, Outcome, Row, Settled, StoreTime, Target, Write,
};

/// What has become of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is to fire, or it is being handled.
    Stored,
    /// It is a dead letter.
    Dead,
    Cancelled,
    Replaced,
    Done,
    Discarded,
}

#[derive(Clone, Debug)]
pub struct Timer {
    /// What its payload begins with. No other timer has it, but for copies of recurring ones.
    pub token: u64,
    pub row: Row,
    pub state: State,
    /// Handlers that have begun since it had no attempts.
    starts: u32,
    /// When it was armed or moved, by the time that has passed.
    placed: Duration,
    /// The number of the write that ended it.
    ended: usize,
    /// When another took its key, by the system's clock.
    superseded: Option<SystemTime>,
}

/// What a handler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Done,
    Failed,
    /// It has not ended.
    Nothing,
}

struct Flight {
    row: Row,
    said: Said,
}

/// What the stats have to say, of this life.
#[derive(Default, Debug)]
struct Tally {
    armed: u64,
    cancelled: u64,
    moved: u64,
    done: u64,
    failed: u64,
    died: u64,
}

/// How a life is set up, as far as the ledger looks at it.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub attempts_max: u32,
    pub kinds: BTreeSet<&'static str>,
}

#[derive(Default)]
pub struct Ledger {
    pub timers: BTreeMap<DurableId, Timer>,
    pub keys: BTreeMap<String, DurableId>,
    /// Each write that the store has made, with its outcome.
    pub made: Vec<(Write, Outcome)>,
    pub wrongs: Vec<String>,
    pub story: String,
    setup: Setup,
    tally: Tally,
    flights: BTreeMap<DurableId, Flight>,
    /// Rows that were let go, while the outcome of the commit is not known.
    let_go: BTreeSet<DurableId>,
    /// The watermark of this life.
    watermark: Option<StoreTime>,
    /// Rows that were due by the watermark of an earlier life, and were not loaded since.
    suspects: BTreeSet<DurableId>,
    pub handled: u64,
    pub repeated: u64,
}

/// The token of a payload.
pub fn token(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let number = text.split(' ').next().unwrap_or_default();
    number.parse().unwrap_or(u64::MAX)
}

impl Ledger {
    pub fn note(&mut self, what: impl std::fmt::Display) {
        writeln!(self.story, "{what}").unwrap();
    }

    /// A promise is broken.
    pub fn wrong(&mut self, what: impl std::fmt::Display) {
        self.note(format_args!("WRONG: {what}"));
        self.wrongs.push(what.to_string());
    }

    fn demand(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right {
            self.wrong(what());
        }
    }

    pub fn find(&self, target: &Target) -> Option<&Timer> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(&**key)?,
        };
        let timer = self.timers.get(id)?;
        (timer.state == State::Stored).then_some(timer)
    }

    pub fn stored(&self) -> impl Iterator<Item = &Timer> {
        let timers = self.timers.values();
        timers.filter(|timer| timer.state == State::Stored)
    }

    pub fn is_in_flight(&self, id: DurableId) -> bool {
        self.flights.contains_key(&id)
    }

    fn end(&mut self, id: DurableId, state: State) {
        let at = self.made.len();
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} has ended, and was never armed"));
        };
        // (A row that was superseded when its life ended is there until it is loaded.)
        let lingers = timer.state == State::Replaced && timer.row.superseded;
        if timer.state != State::Stored && !(lingers && state == State::Cancelled) {
            let what = format!("{} is {state:?}, and was {:?}", timer.token, timer.state);
            self.wrong(what);
            return;
        }
        (timer.state, timer.ended) = (state, at);
        if let Some(key) = timer.row.key.take() {
            self.keys.remove(&*key);
        }
    }

    /// The gate was asked.
    pub fn asked(&mut self, id: DurableId, is_ours: bool) {
        if is_ours {
            self.let_go.insert(id);
        }
        // (What a handler has said may be stored just before, in this commit.)
        let flight = self.flights.get(&id);
        let is_handled = flight.is_some_and(|flight| flight.said == Said::Nothing);
        self.demand(!(is_ours && is_handled), || {
            format!("{id} is let go while it is handled")
        });
    }

    /// The outcome of a commit is known.
    pub fn committed(&mut self) {
        self.let_go.clear();
    }

    /// The store has made a write.
    pub fn wrote(&mut self, write: &Write, outcome: &Outcome, now: SystemTime, passed: Duration) {
        match (write, outcome) {
            (Write::Arm(row), Outcome::Armed(gone)) => self.armed(row, *gone, now, passed),
            (Write::Cancel(_), Outcome::Cancelled(gone)) => self.cancelled(gone.as_slice()),
            (Write::CancelKind(_), Outcome::CancelledMany(gone)) => self.cancelled(gone),
            (Write::Move(..), Outcome::Moved(row)) => {
                if let Some(row) = row {
                    self.tally.moved += 1;
                    let is_in_flight = self.is_in_flight(row.id);
                    self.demand(!is_in_flight, || {
                        format!("{} is moved while it is handled", row.id)
                    });
                    let is_suspect = self.suspects.remove(&row.id);
                    let attempts = self.timers[&row.id].row.attempts + u32::from(is_suspect);
                    self.demand(row.attempts == attempts, || {
                        format!("{row:?} is moved, suspect: {is_suspect}")
                    });
                    self.place(row, passed);
                }
            }
            (Write::Ack { of, next }, Outcome::Settled(is_done, row)) => {
                let is_later = next.is_none_or(|next| next > of.due);
                self.demand(is_later, || format!("{} runs again at {next:?}", of.id));
                // A run that was missed may be left out.
                let is_recurring = self.timers[&of.id].row.calendar.is_some();
                if !is_recurring || self.is_in_flight(of.id) {
                    self.settled(of, *is_done, Said::Done);
                    self.tally.done += u64::from(*is_done);
                }
                match row {
                    _ if !is_done => {}
                    Some(row) => self.begin_anew(row, passed),
                    None => self.end(of.id, State::Done),
                }
            }
            (Write::Retry { of, at, attempts }, Outcome::Settled(is_done, row)) => {
                self.retried(of, *at, *attempts, *is_done, row.as_ref(), passed);
            }
            (
                Write::Bury {
                    of,
                    cause,
                    attempts,
                    next,
                    ..
                },
                Outcome::Settled(is_done, row),
            ) => {
                self.buried(of, cause, *attempts, *is_done);
                if let (Some((_, copy)), Some(row)) = (next, row) {
                    let mut letter = self.timers[&of.id].clone();
                    (letter.row.id, letter.state) = (*copy, State::Dead);
                    self.timers.insert(*copy, letter);
                    self.begin_anew(row, passed);
                } else if *is_done {
                    let is_superseded = self.timers[&of.id].row.superseded;
                    let state = if is_superseded {
                        State::Replaced
                    } else {
                        State::Dead
                    };
                    self.end(of.id, state);
                }
            }
            (Write::Revive(id, _), Outcome::Revived(row)) => {
                let is_dead = self.is_dead(*id);
                self.demand(is_dead == row.is_some(), || format!("{id} is revived"));
                if let Some(row) = row {
                    self.begin_anew(row, passed);
                }
            }
            (Write::Discard(id), Outcome::Discarded(is_gone)) => {
                let is_dead = self.is_dead(*id);
                self.demand(is_dead == *is_gone, || format!("{id} is discarded"));
                if let Some(timer) = self.timers.get_mut(id).filter(|_| *is_gone) {
                    timer.state = State::Discarded;
                }
            }
            (write, outcome) => self.wrong(format_args!("{outcome:?} of {write:?}")),
        }
        self.made.push((write.clone(), outcome.clone()));
    }

    pub fn is_dead(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.state == State::Dead)
    }

    fn armed(&mut self, row: &Row, gone: Option<DurableId>, now: SystemTime, passed: Duration) {
        self.tally.armed += 1;
        let holder = row.key.as_ref().and_then(|key| self.keys.remove(&**key));
        if let Some(id) = gone {
            let is_in_flight = self.is_in_flight(id);
            self.demand(!is_in_flight, || {
                format!("{id} is replaced while it is handled")
            });
            self.end(id, State::Replaced);
        }
        if let Some(former) = holder.filter(|_| gone.is_none()) {
            let former = self.timers.get_mut(&former).unwrap();
            (former.row.superseded, former.row.key) = (true, None);
            former.superseded = Some(now);
        }
        if let Some(key) = &row.key {
            self.keys.insert(key.to_string(), row.id);
        }
        let timer = Timer {
            token: token(&row.payload),
            row: row.clone(),
            state: State::Stored,
            starts: 0,
            placed: passed,
            ended: 0,
            superseded: None,
        };
        let former = self.timers.insert(row.id, timer);
        self.demand(former.is_none(), || format!("{} is armed twice", row.id));
    }

    fn cancelled(&mut self, gone: &[DurableId]) {
        self.tally.cancelled += gone.len() as u64;
        for &id in gone {
            let is_in_flight = self.is_in_flight(id);
            self.demand(!is_in_flight, || {
                format!("{id} is cancelled while it is handled")
            });
            self.end(id, State::Cancelled);
        }
    }

    fn place(&mut self, row: &Row, passed: Duration) {
        let timer = self.timers.get_mut(&row.id).unwrap();
        (timer.row, timer.placed) = (row.clone(), passed);
    }

    fn begin_anew(&mut self, row: &Row, passed: Duration) {
        self.place(row, passed);
        let timer = self.timers.get_mut(&row.id).unwrap();
        (timer.starts, timer.state) = (0, State::Stored);
    }

    /// A delivery has ended: the handler said so, in this life, and only once.
    fn settled(&mut self, of: &Settled, is_done: bool, said: Said) {
        self.demand(is_done, || {
            format!("the store refuses what became of {}", of.id)
        });
        let Some(flight) = self.flights.remove(&of.id) else {
            self.wrong(format_args!("{} is settled, and was not handled", of.id));
            return;
        };
        self.demand(flight.said == said, || {
            format!("{} said {:?}, not {said:?}", of.id, flight.said)
        });
    }

    fn retried(
        &mut self,
        of: &Settled,
        at: StoreTime,
        attempts: u32,
        is_done: bool,
        row: Option<&Row>,
        passed: Duration,
    ) {
        let former = self.timers[&of.id].row.attempts;
        // It was not handed out after all.
        let is_back = at == of.due && attempts == former && !self.is_in_flight(of.id);
        if is_back {
            match row {
                Some(row) => self.place(row, passed),
                None => self.end(of.id, State::Replaced),
            }
            return self.demand(is_done, || format!("{} cannot go back", of.id));
        }
        self.settled(of, is_done, Said::Failed);
        self.tally.failed += u64::from(is_done);
        let max = self.setup.attempts_max;
        self.demand(attempts == former + 1 && attempts < max, || {
            format!("{attempts} attempts of {} after {former}", of.id)
        });
        match row {
            Some(row) => {
                self.demand(row.due == at && at >= of.due, || {
                    format!("{} is tried again before it was due", of.id)
                });
                self.place(row, passed);
            }
            None if is_done => self.end(of.id, State::Replaced),
            None => {}
        }
    }

    fn buried(&mut self, of: &Settled, cause: &Cause, attempts: u32, is_done: bool) {
        self.tally.died += u64::from(is_done);
        let row = self.timers[&of.id].row.clone();
        let max = self.setup.attempts_max;
        let is_right = match cause {
            Cause::Failed(_) => {
                self.settled(of, is_done, Said::Failed);
                self.tally.failed += u64::from(is_done);
                attempts >= max
            }
            Cause::Crashed => row.attempts >= max,
            Cause::UnknownKind => !self.setup.kinds.contains(&*row.kind),
            _ => false,
        };
        self.demand(is_right, || {
            format!("{} dies after {attempts} attempts: {cause}", of.id)
        });
    }

    /// The store has returned rows.
    pub fn loaded(&mut self, rows: &[Row]) {
        for row in rows {
            let is_suspect = self.suspects.remove(&row.id);
            let Some(timer) = self.timers.get_mut(&row.id) else {
                self.wrong(format_args!("{} was never armed", row.id));
                continue;
            };
            let attempts = timer.row.attempts + u32::from(is_suspect);
            timer.row.attempts = row.attempts;
            let is_right = timer.state == State::Stored && row.attempts == attempts;
            let timer = timer.clone();
            self.demand(is_right && timer.row == *row, || {
                format!("the store has {row:?} of {timer:?}, suspect: {is_suspect}")
            });
        }
    }

    pub fn claimed(&mut self, upto: StoreTime) {
        self.watermark = self.watermark.max(Some(upto));
    }

    /// A handler begins.
    pub fn began(&mut self, delivery: &Delivery, now: SystemTime) {
        let id = delivery.id();
        self.handled += 1;
        self.note(format_args!(
            "  {} is handled, attempt {}",
            token(delivery.payload()),
            delivery.attempt()
        ));
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} is handled, and was never armed"));
        };
        self.repeated += u64::from(timer.starts > 0);
        timer.starts += 1;
        let Timer {
            token,
            row,
            starts,
            superseded,
            ..
        } = timer.clone();
        let state = timer.state;
        let is_same = delivery.payload() == &*row.payload
            && delivery.kind() == &*row.kind
            && (row.superseded || delivery.key() == row.key.as_deref())
            && delivery.due() == row.due.system_time();
        self.demand(state == State::Stored, || {
            format!("{token} is handled, and is {state:?}")
        });
        // It may be on its way to the handler when another takes its key.
        let was_due = superseded.is_none_or(|at| delivery.due() <= at);
        self.demand(was_due, || {
            format!("{token} is handled, and another has its key")
        });
        self.demand(is_same, || format!("{delivery:?} is not {row:?}"));
        self.demand(delivery.due() <= now, || {
            format!("{token} is handled early")
        });
        let attempt = delivery.attempt();
        self.demand(attempt == row.attempts + 1 && attempt >= starts, || {
            format!(
                "{token}: attempt {attempt} is {starts}, stored {}",
                row.attempts
            )
        });
        let max = self.setup.attempts_max;
        self.demand(attempt <= max, || format!("{token}: {attempt} attempts"));
        let watermark = self.watermark;
        self.demand(watermark >= Some(row.due), || {
            format!("{token} is handled before the watermark says so")
        });
        let is_let_go = self.let_go.contains(&id);
        self.demand(!is_let_go, || format!("{token} is handled, and was let go"));
        let said = Said::Nothing;
        let former = self.flights.insert(id, Flight { row, said });
        self.demand(former.is_none(), || format!("{token} is handled twice"));
    }

    /// A handler has ended.
    pub fn said(&mut self, id: DurableId, said: Said) {
        if let Some(flight) = self.flights.get_mut(&id) {
            flight.said = said;
        }
    }

    /// A life begins: leases are taken.
    pub fn opened(&mut self, setup: Setup) {
        let upto = self.watermark.take();
        let timers = self.timers.values_mut();
        for timer in timers.filter(|timer| timer.state == State::Stored) {
            if Some(timer.row.due) <= upto {
                self.suspects.insert(timer.row.id);
                if timer.row.superseded {
                    timer.state = State::Replaced;
                }
            }
        }
        self.setup = setup;
        self.tally = Tally::default();
        self.flights.clear();
        self.let_go.clear();
    }

    /// A life has ended well.
    pub fn released(&mut self) {
        self.watermark = None;
        let open: Vec<_> = self.flights.keys().copied().collect();
        self.demand(open.is_empty(), || {
            format!("released, and {open:?} are handled")
        });
    }

    /// Nothing is under way: what handlers said is stored.
    pub fn at_rest(&mut self) {
        let open: Vec<_> = self
            .flights
            .values()
            .map(|flight| (token(&flight.row.payload), flight.said))
            .collect();
        self.demand(open.is_empty(), || format!("not settled: {open:?}"));
    }

    /// The stats have what has happened.
    pub fn compare(&mut self, stats: &DurableStats) {
        let tally = &self.tally;
        let is_right = [
            (tally.armed, stats.armed),
            (tally.cancelled, stats.cancelled),
            (tally.moved, stats.moved),
            (tally.done, stats.done),
            (tally.failed, stats.failed),
            (tally.died, stats.died),
            (0, stats.stale),
        ]
        .iter()
        .all(|(own, stats)| own == stats);
        let what = format!("{stats:?} is not {tally:?}");
        self.demand(is_right, || what);
    }

    /// Nothing is overdue that has been there, and not moved, since `since`.
    pub fn punctual(&mut self, due: StoreTime, since: Duration) {
        let late = self
            .stored()
            .find(|timer| timer.row.due <= due && timer.placed <= since && !timer.row.superseded);
        if let Some(late) = late {
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            self.wrong(what);
        }
    }

    /// Timers that have ended so by the writes from a number on.
    pub fn ended_since(&self, first: usize, state: State) -> Vec<DurableId> {
        let timers = self.timers.values();
        timers
            .filter(|timer| timer.state == state && timer.ended >= first)
            .map(|timer| timer.row.id)
            .collect()
    }
}
