//! Ledger: what the store has, what callers were told, and what handlers got. It stands outside of
//! what it watches, and notes each broken promise.

use super::super::simulated::{Records, Said, State, Timer, token};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, Settled, TrialBegun, Write};
use wheelwork_durable::{Cause, Delivery, DurableId, DurableStats, Row, StoreTime};

/// What the ledger notes of a timer beside its row.
#[derive(Clone, Debug)]
pub struct More {
    /// Handlers that have begun since it was armed, or began anew.
    starts: u32,
    /// Lives that have ended since then while it was handled alone, or was just about to be.
    deaths: u32,
    /// Lives that have ended just before, after it was charged.
    gaps: u32,
    /// It is charged with a crash, and no handler has begun since.
    is_charged: bool,
    /// When it was armed or moved, by the time that has passed.
    placed: Duration,
    /// When another took its key, by the system's clock.
    superseded: Option<SystemTime>,
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
    pub crashes_max: u32,
    pub kinds: BTreeSet<&'static str>,
}

#[derive(Default)]
pub struct Ledger {
    records: Records<More>,
    setup: Setup,
    tally: Tally,
    flights: BTreeMap<DurableId, Flight>,
    /// Rows that were let go, while the outcome of the commit is not known.
    let_go: BTreeSet<DurableId>,
    /// The watermark of this life.
    watermark: Option<StoreTime>,
}

/// A ledger is records, and more.
impl Deref for Ledger {
    type Target = Records<More>;

    fn deref(&self) -> &Records<More> {
        &self.records
    }
}

impl DerefMut for Ledger {
    fn deref_mut(&mut self) -> &mut Records<More> {
        &mut self.records
    }
}

impl Ledger {
    pub fn is_in_flight(&self, id: DurableId) -> bool {
        self.flights.contains_key(&id)
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

    /// The store has made a write. Some rows were `struck`: they are cancelled, and still there.
    pub fn wrote(
        &mut self,
        write: &Write,
        outcome: &Outcome,
        struck: &[DurableId],
        now: SystemTime,
        passed: Duration,
    ) {
        match (write, outcome) {
            (Write::Arm(row), Outcome::Armed(gone)) => self.armed(row, *gone, now, passed),
            (Write::Cancel(_), Outcome::Cancelled(gone)) => {
                self.cancelled(gone.as_slice(), struck, now);
            }
            (Write::CancelKind(_), Outcome::CancelledMany(gone, _)) => {
                self.cancelled(gone, struck, now);
            }
            (Write::Move(..), Outcome::Moved(row)) => {
                if let Some(row) = row {
                    self.tally.moved += 1;
                    let is_in_flight = self.is_in_flight(row.id);
                    self.demand(!is_in_flight, || {
                        format!("{} is moved while it is handled", row.id)
                    });
                    let mut former = self.timers[&row.id].row.clone();
                    former.due = row.due;
                    self.demand(*row == former, || format!("{row:?} is moved"));
                    self.place(row, passed);
                }
            }
            (Write::Begin { of, crashes }, Outcome::Begun(begun)) => {
                self.begun(of, *crashes, *begun);
            }
            (Write::Ack { of, next }, Outcome::Settled(is_done, row)) => {
                let is_later = next.is_none_or(|next| next > of.due);
                self.demand(is_later, || format!("{} runs again at {next:?}", of.id));
                // A run that was missed may be left out, and a row that is superseded goes.
                let timer = &self.timers[&of.id].row;
                let may_end = timer.calendar.is_some() || timer.superseded;
                if !may_end || self.is_in_flight(of.id) {
                    self.settled(of, *is_done, Said::Done);
                    self.tally.done += u64::from(*is_done);
                }
                match row {
                    _ if !is_done => {}
                    Some(row) => self.begin_anew(row, passed),
                    None => self.end(of.id, State::Done),
                }
            }
            (Write::Retry { of, at, .. }, Outcome::Settled(is_done, row)) => {
                self.retried(of, write, *is_done, row.as_ref(), passed);
                self.demand(*at >= of.due, || {
                    format!("{} is tried again before it was due", of.id)
                });
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
                    self.bury_copy(of.id, *copy);
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
                self.demand_revived(*id, row.is_some());
                if let Some(row) = row {
                    self.begin_anew(row, passed);
                }
            }
            (Write::Discard(id), Outcome::Discarded(is_gone)) => self.discarded(*id, *is_gone),
            (write, outcome) => self.wrong(format_args!("{outcome:?} of {write:?}")),
        }
        self.note_made(write, outcome);
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
            self.supersede(former).more.superseded = Some(now);
        }
        let more = More {
            starts: 0,
            deaths: 0,
            gaps: 0,
            is_charged: false,
            placed: passed,
            superseded: None,
        };
        self.insert(row, more);
    }

    fn cancelled(&mut self, gone: &[DurableId], struck: &[DurableId], now: SystemTime) {
        self.tally.cancelled += gone.len() as u64;
        for &id in gone {
            if struck.contains(&id) {
                self.strike(id).more.superseded = Some(now);
                continue;
            }
            let is_in_flight = self.is_in_flight(id);
            self.demand(!is_in_flight, || {
                format!("{id} is cancelled while it is handled")
            });
            self.end(id, State::Cancelled);
        }
    }

    fn place(&mut self, row: &Row, passed: Duration) -> &mut Timer<More> {
        let timer = self.put(row);
        timer.more.placed = passed;
        timer
    }

    fn begin_anew(&mut self, row: &Row, passed: Duration) {
        let timer = self.place(row, passed);
        timer.state = State::Stored;
        (timer.more.starts, timer.more.deaths, timer.more.gaps) = (0, 0, 0);
        timer.more.is_charged = false;
    }

    /// A suspect begins, or did not after all.
    fn begun(&mut self, of: &Settled, crashes: u32, begun: TrialBegun) {
        let Some(timer) = self.timers.get_mut(&of.id) else {
            return self.wrong(format_args!("{} begins, and was never armed", of.id));
        };
        match begun {
            TrialBegun::Refused => {}
            TrialBegun::Superseded => self.end(of.id, State::Replaced),
            TrialBegun::Noted => {
                let former = timer.row.crashes;
                let is_charged_twice = timer.more.is_charged && crashes > former;
                timer.more.is_charged = crashes > former;
                (timer.row.crashes, timer.row.suspect) = (crashes, true);
                let max = self.setup.crashes_max;
                // (One that goes back keeps the crashes of lives that allowed more.)
                let is_charged_right = crashes == former + 1 && crashes <= max + 1;
                self.demand(crashes <= former || is_charged_right, || {
                    format!("{} has {crashes} crashes after {former}, of {max}", of.id)
                });
                self.demand(!is_charged_twice, || {
                    format!(
                        "{} has {crashes} crashes, and was not called between",
                        of.id
                    )
                });
            }
        }
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
        write: &Write,
        is_done: bool,
        row: Option<&Row>,
        passed: Duration,
    ) {
        let &Write::Retry {
            at,
            attempts,
            crashes,
            ..
        } = write
        else {
            return;
        };
        let stored = self.timers[&of.id].row.clone();
        let former = stored.attempts;
        // It was not handed out after all.
        let is_back = at == of.due && attempts == former && !self.is_in_flight(of.id);
        if is_back {
            self.demand(!stored.suspect && crashes == stored.crashes, || {
                format!("{stored:?} goes back as if it were none")
            });
            match row {
                Some(row) => drop(self.place(row, passed)),
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
        // This trial has not ended the process.
        let before = stored.crashes.saturating_sub(stored.suspect.into());
        self.demand(crashes == before, || {
            format!("{stored:?} has failed, with {crashes} crashes")
        });
        match row {
            Some(row) => {
                let is_right = (row.due, row.suspect, row.crashes) == (at, false, crashes);
                self.demand(is_right, || format!("{row:?} is to be tried again"));
                self.place(row, passed);
            }
            None if is_done => self.end(of.id, State::Replaced),
            None => {}
        }
    }

    fn buried(&mut self, of: &Settled, cause: &Cause, attempts: u32, is_done: bool) {
        self.tally.died += u64::from(is_done);
        let Timer { row, more, .. } = self.timers[&of.id].clone();
        let max = self.setup.attempts_max;
        let is_right = match cause {
            Cause::Failed(_) => {
                self.settled(of, is_done, Said::Failed);
                self.tally.failed += u64::from(is_done);
                attempts >= max
            }
            // (In the first trial it was in a group.)
            Cause::Crashed => {
                let has_called = more.starts > 0 || more.gaps > 0;
                row.crashes > self.setup.crashes_max
                    && more.deaths + 1 >= row.crashes
                    && has_called
                    && attempts == row.attempts
            }
            Cause::UnknownKind => !self.setup.kinds.contains(&*row.kind),
            _ => false,
        };
        self.demand(is_right, || {
            format!(
                "{} dies after {attempts} attempts: {cause}, {more:?}",
                of.id
            )
        });
    }

    /// The store has returned rows.
    pub fn loaded(&mut self, rows: &[Row]) {
        for row in rows {
            let Some(timer) = self.timers.get(&row.id).cloned() else {
                self.wrong(format_args!("{} was never armed", row.id));
                continue;
            };
            let is_right = timer.state == State::Stored && timer.row == *row;
            self.demand(is_right, || format!("the store has {row:?} of {timer:?}"));
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
        timer.more.starts += 1;
        timer.more.is_charged = false;
        let timer = timer.clone();
        let (token, row) = (timer.token, timer.row.clone());
        let More {
            starts, superseded, ..
        } = timer.more;
        self.repeated += u64::from(starts > 1);
        self.demand_as_stored(&timer, delivery, now);
        // It may be on its way to the handler when another takes its key.
        let was_due = superseded.is_none_or(|at| delivery.due() <= at);
        self.demand(was_due, || {
            format!("{token} is handled, and another has its key")
        });
        let is_trial = row.suspect || delivery.crashes() > 0;
        let crashes = delivery.crashes() + u32::from(is_trial);
        let is_right = delivery.attempt() == row.attempts + 1 && row.crashes == crashes;
        self.demand(is_right, || format!("{delivery:?} is not charged: {row:?}"));
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
        let timers = self.records.timers.values_mut();
        for timer in timers.filter(|timer| timer.state == State::Stored) {
            let is_alone = timer.row.crashes > 1;
            let is_handled = self.flights.contains_key(&timer.row.id);
            timer.more.deaths += u32::from(is_alone && (is_handled || timer.more.is_charged));
            timer.more.gaps += u32::from(is_alone && timer.more.is_charged);
            timer.more.is_charged = false;
            timer.row.suspect |= Some(timer.row.due) <= upto;
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
        let charged = self.stored().filter(|timer| timer.more.is_charged);
        let charged: Vec<_> = charged.map(|timer| timer.token).collect();
        self.demand(charged.is_empty(), || {
            format!("released, and {charged:?} are charged, and were not called")
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
        let late = self.stored().find(|timer| {
            let has_waited = timer.row.due <= due && timer.more.placed <= since;
            // (Suspects take their time.)
            let is_trial = timer.row.suspect || timer.row.crashes > 0;
            has_waited && !timer.row.superseded && !is_trial
        });
        if let Some(late) = late {
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            self.wrong(what);
        }
    }
}
