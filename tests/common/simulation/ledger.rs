//! Ledger: what the store has, what callers were told, and what handlers got. It stands outside of
//! what it watches, and notes each broken promise.

use super::super::simulated::{Records, Said, State, token};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime};
use wheelwork::durable::{
    Cause, Delivery, DurableId, DurableStats, Outcome, Row, Settled, StoreTime, Write,
};

/// What the ledger notes of a timer beside its row.
#[derive(Clone, Debug)]
pub struct More {
    /// Handlers that have begun since it had no attempts.
    starts: u32,
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
    /// Rows that were due by the watermark of an earlier life, and were not loaded since.
    suspects: BTreeSet<DurableId>,
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
            // (A row that was superseded when its life ended is there until it is loaded.)
            if let Some(timer) = self.timers.get_mut(&id)
                && timer.state == State::Replaced
                && timer.row.superseded
            {
                timer.state = State::Stored;
            }
            self.end(id, State::Cancelled);
        }
    }

    fn place(&mut self, row: &Row, passed: Duration) {
        self.put(row).more.placed = passed;
    }

    fn begin_anew(&mut self, row: &Row, passed: Duration) {
        self.place(row, passed);
        let timer = self.put(row);
        (timer.more.starts, timer.state) = (0, State::Stored);
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
        timer.more.starts += 1;
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
        let timers = self.records.timers.values_mut();
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
        let late = self.stored().find(|timer| {
            timer.row.due <= due && timer.more.placed <= since && !timer.row.superseded
        });
        if let Some(late) = late {
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            self.wrong(what);
        }
    }
}
