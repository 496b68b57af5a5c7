//! Writes: what the store makes of each change, held against what it has and what handlers said.

use super::{Ledger, Said, State, Tally, Timer, token};
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Amendment, Outcome, Replacement, Settled, TrialBegun, Write};
use wheelwork_durable::{Cause, DurableId, Held, HeldWhy, Row, StoreTime};

/// A timer waits for less than this until its next attempt, or until it comes later.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A node knows the store's clock to this. (A clock may also have been set back.)
const SLACK: Duration = Duration::from_secs(1);

/// A commit is made: by this node, at this time.
#[derive(Clone, Copy)]
pub struct Made<'a> {
    pub node: usize,
    /// By the time that has passed.
    pub now: SystemTime,
    /// By the store's clock.
    pub shows: SystemTime,
    /// Rows that it has cancelled, and that are still there: they run for the last time.
    pub struck: &'a [DurableId],
}

impl Ledger {
    /// The store has made a write.
    pub fn wrote(&mut self, write: &Write, outcome: &Outcome, made: Made) {
        let now = made.now;
        match (write, outcome) {
            (_, Outcome::Blocked(_) | Outcome::PutOff(_)) if self.scene.is_fleet() => {
                self.held_up += 1;
                return self.note(format_args!("  held up: {write:?}"));
            }
            (Write::Arm(row), Outcome::Armed(gone)) => {
                self.demand_in_order(made.node, row);
                self.armed(row, *gone, made);
            }
            (Write::Replace(of), Outcome::Replaced(row, gone)) => {
                self.replaced(of, *row, *gone, made)
            }
            (Write::Amend(of), Outcome::Amended(is_made, row)) => {
                self.amended(of, *is_made, row.as_ref(), now);
            }
            (Write::Cancel(_), Outcome::Cancelled(gone)) => self.cancelled(gone.as_slice(), made),
            (Write::CancelKind(_), Outcome::CancelledMany(gone, _)) => self.cancelled(gone, made),
            (Write::Move(..), Outcome::Moved(None)) => {}
            (Write::Move(..), Outcome::Moved(Some(row))) => self.moved(row, now),
            (Write::Begin { of, crashes }, Outcome::Begun(begun)) => {
                self.begun(of, *crashes, *begun);
            }
            (
                Write::Ack { of, next } | Write::AckKept { of, next, .. },
                Outcome::Settled(is_done, row),
            ) => {
                let said = self.settled(made.node, of, *is_done);
                let is_later = next.is_none_or(|next| next > of.due);
                self.demand(is_later, || format!("{} runs again at {next:?}", of.id));
                if *is_done {
                    let kept = match write {
                        Write::AckKept { kept, .. } => Some(&**kept),
                        _ => None,
                    };
                    self.recorded(of, said, kept);
                    self.acknowledged(of, row.as_ref(), said, now);
                }
            }
            // (A row that a limit holds was moved, or has ended, before it could go on.)
            (Write::Retry { of, .. }, Outcome::Settled(false, _)) if self.was_limited(of) => {}
            (Write::Retry { of, .. }, Outcome::Settled(is_done, row)) => {
                let said = self.settled(made.node, of, *is_done);
                if *is_done {
                    self.retried(write, row.as_ref(), said, made);
                }
            }
            (Write::Hold { of, .. }, Outcome::Settled(is_done, row)) => {
                self.held_back(of, *is_done, row.as_ref(), made);
            }
            (Write::Bury { of, .. }, Outcome::Settled(is_done, row)) => {
                let said = self.settled(made.node, of, *is_done);
                if *is_done {
                    self.buried(write, row.as_ref(), said, made);
                }
            }
            (Write::Revive(id, _), Outcome::Revived(row)) => {
                let (is_dead, is_revived) = (self.is_dead(*id), row.is_some());
                self.demand(is_dead == is_revived, || format!("{id} is revived"));
                if let Some(row) = row {
                    self.begin_anew(row, now);
                }
            }
            (Write::Discard(id), Outcome::Discarded(is_gone)) => {
                let is_dead = self.is_dead(*id);
                self.demand(is_dead == *is_gone, || format!("{id} is discarded"));
                if let Some(timer) = self.timers.get_mut(id).filter(|_| *is_gone) {
                    timer.state = State::Discarded;
                }
            }
            (Write::Rule(of, change), Outcome::Ruled(is_changed)) => {
                self.ruled(of, *change, *is_changed, now);
            }
            (write, outcome) => self.wrong(format_args!("{outcome:?} of {write:?}")),
        }
        self.made.push((write.clone(), outcome.clone()));
    }

    /// No handler has the row.
    fn demand_free(&mut self, id: DurableId, what: &str) {
        let Some(timer) = self.timers.get(&id) else {
            return;
        };
        let (token, out) = (timer.token, self.out(timer).copied().collect::<Vec<_>>());
        self.demand(out.is_empty(), || {
            format!("{token} is {what}, and was handed out: {out:?}")
        });
    }

    /// The watermark says that the row may have been handed out. (In a process the gate says it.)
    fn demand_claimed(&mut self, row: &Row, what: &str) {
        let is_claimed = self.is_claimed(row) || !self.scene.is_fleet();
        self.demand(is_claimed, || format!("{row:?} is {what}"));
    }

    /// What a node was asked for first it does first. (A calendar is looked up before.)
    fn demand_in_order(&mut self, node: usize, row: &Row) {
        let Some(key) = row.key.clone().filter(|_| row.calendar.is_none()) else {
            return;
        };
        let token = token(&row.payload);
        let last = self.last.insert((node, key), token).unwrap_or_default();
        self.demand(token > last, || {
            format!("{token} is armed after {last}, which has its key")
        });
    }

    /// A row is armed. Another that had its key is replaced, or superseded.
    fn armed(&mut self, row: &Row, gone: Option<DurableId>, made: Made) {
        self.tally.armed += 1;
        let holder = row.key.as_ref().and_then(|key| self.keys.remove(&**key));
        if let Some(id) = gone {
            self.demand(holder == gone, || format!("{id} goes for {row:?}"));
            self.demand_free(id, "replaced");
            self.end(id, State::Replaced);
        }
        if let Some(former) = holder.filter(|_| gone.is_none()) {
            let row = self.supersede(former, made.shows).row.clone();
            self.demand_claimed(&row, "superseded, and not replaced");
        }
        if let Some(key) = &row.key {
            self.keys.insert(key.to_string(), row.id);
        }
        let timer = Timer {
            token: token(&row.payload),
            row: row.clone(),
            state: State::Stored,
            ended: 0,
            struck: None,
            placed: made.now,
            starts: Vec::new(),
            deaths: 0,
            charged: None,
            superseded: None,
            former: Vec::new(),
        };
        let former = self.timers.insert(row.id, timer);
        self.demand(former.is_none(), || format!("{} is armed twice", row.id));
    }

    /// A row takes its key, if that has the row that the caller has read.
    fn replaced(&mut self, of: &Replacement, is_made: bool, gone: Option<DurableId>, made: Made) {
        let key = of.row.key.as_deref().unwrap();
        let holder = self.keys.get(key).copied();
        let is_right = (holder == of.former) == is_made;
        self.demand(is_right, || {
            format!("{of:?} is made: {is_made}, and {holder:?} has the key")
        });
        if is_made {
            self.armed(&of.row, gone, made);
        }
    }

    /// A row has another payload. A run that was handed out, or may have been, keeps its own.
    fn amended(&mut self, of: &Amendment, is_made: bool, row: Option<&Row>, now: SystemTime) {
        let former = self.timers[&of.id].clone();
        let is_there = former.state == State::Stored && !former.row.superseded;
        let due = former.row.clone().shown().due;
        let moves = of.due != of.former_due;
        let may_move = due == of.former_due;
        let is_right = is_there || !is_made;
        let is_right =
            is_right && (is_made || moves || !is_there) && (may_move || !is_made || !moves);
        self.demand(is_right, || {
            format!("{of:?} is made: {is_made}, of {former:?}")
        });
        if !is_made {
            return;
        }
        let is_free = row.is_some();
        if is_free {
            self.demand_free(of.id, "amended, and returned");
        }
        let timer = self.timers.get_mut(&of.id).unwrap();
        timer.token = token(&of.payload);
        if !is_free {
            timer.former.push(former.row.clone());
        }
        timer.row.payload = of.payload.clone();
        timer.row.calendar = Some(of.calendar.clone());
        timer.row.set_traceparent(of.trace.clone());
        if let Some(row) = row.filter(|_| moves) {
            self.moved(row, now);
            // (No call has asked for that.)
            self.tally.moved -= 1;
        }
    }

    /// Another row takes the key of one that goes on, or nobody has it any more.
    fn supersede(&mut self, id: DurableId, shows: SystemTime) -> &mut Timer {
        let timer = self.timers.get_mut(&id).unwrap();
        (timer.row.superseded, timer.row.key) = (true, None);
        timer.superseded = Some(shows);
        timer
    }

    fn cancelled(&mut self, gone: &[DurableId], made: Made) {
        self.tally.cancelled += gone.len() as u64;
        for &id in gone {
            if made.struck.contains(&id) {
                self.strike(id, made.shows);
                continue;
            }
            self.demand_free(id, "cancelled");
            self.end(id, State::Cancelled);
        }
    }

    /// A recurring timer is cancelled while it is handled.
    fn strike(&mut self, id: DurableId, shows: SystemTime) {
        let at = self.made.len();
        let is_right = self.timers.get(&id).is_some_and(|timer| {
            let is_free = !timer.row.superseded && timer.struck.is_none();
            timer.state == State::Stored && timer.row.calendar.is_some() && is_free
        });
        self.demand(is_right, || format!("{id} is struck"));
        if let Some(key) = &self.timers[&id].row.key {
            self.keys.remove(&**key);
        }
        let timer = self.supersede(id, shows);
        timer.struck = Some(at);
        let row = timer.row.clone();
        self.demand_claimed(&row, "struck, and not deleted");
    }

    fn end(&mut self, id: DurableId, state: State) {
        let at = self.made.len();
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} has ended, and was never armed"));
        };
        if timer.state != State::Stored {
            let what = format!("{} is {state:?}, and was {:?}", timer.token, timer.state);
            return self.wrong(what);
        }
        (timer.state, timer.ended) = (state, at);
        if let Some(key) = timer.row.key.take() {
            self.keys.remove(&*key);
        }
    }

    fn moved(&mut self, row: &Row, now: SystemTime) {
        self.tally.moved += 1;
        self.demand_free(row.id, "moved");
        let mut former = self.timers[&row.id].row.clone();
        former.due = row.due;
        former.set_held(None);
        if self.scene.is_fleet() {
            // (Its owner alone sees that it is a suspect.)
            former.suspect = row.suspect;
        }
        self.demand(*row == former, || format!("{row:?} is moved"));
        self.place(row, now);
    }

    /// The row is stored as it is here, to be handed out anew.
    fn place(&mut self, row: &Row, now: SystemTime) -> &mut Timer {
        let timer = self.timers.get_mut(&row.id).unwrap();
        timer.row = row.clone();
        timer.placed = now;
        timer.starts.clear();
        timer.former.clear();
        timer
    }

    fn begin_anew(&mut self, row: &Row, now: SystemTime) {
        let timer = self.place(row, now);
        timer.state = State::Stored;
        (timer.deaths, timer.charged) = (0, None);
    }

    /// A user's transaction has ended: these rows are found again.
    pub fn released(&mut self, ids: impl IntoIterator<Item = DurableId>, now: SystemTime) {
        for id in ids {
            self.held.remove(&id);
            if let Some(timer) = self.timers.get_mut(&id) {
                timer.placed = timer.placed.max(now);
            }
        }
    }

    /// A suspect begins, or did not after all.
    fn begun(&mut self, of: &Settled, crashes: u32, begun: TrialBegun) {
        let epoch = self.leases.epoch(of.id.partition());
        self.demand(begun == TrialBegun::Refused || epoch == of.epoch, || {
            format!(
                "{} begins under epoch {}, and it is {epoch}",
                of.id, of.epoch
            )
        });
        let Some(timer) = self.timers.get_mut(&of.id) else {
            return self.wrong(format_args!("{} begins, and was never armed", of.id));
        };
        match begun {
            TrialBegun::Refused => {}
            TrialBegun::Superseded => self.end(of.id, State::Replaced),
            TrialBegun::Noted => {
                let former = timer.row.crashes;
                let is_charged = crashes > former;
                let is_charged_twice = is_charged && timer.charged.is_some();
                timer.charged = is_charged.then_some(epoch);
                (timer.row.crashes, timer.row.suspect) = (crashes, true);
                let max = self.setup.crashes_max;
                // (One that goes back keeps the crashes of lives that allowed more.)
                let is_right = crashes == former + 1 && crashes <= max + 1;
                self.demand(!is_charged || is_right, || {
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

    /// What a node hands in of a delivery. Returns what the handler had said.
    fn settled(&mut self, node: usize, of: &Settled, is_done: bool) -> Option<Said> {
        let epoch = self.leases.epoch(of.id.partition());
        let is_current = epoch == of.epoch;
        self.demand(is_current || !is_done, || {
            format!(
                "{} is settled under epoch {}, and it is {epoch}",
                of.id, of.epoch
            )
        });
        if is_current {
            self.lost = Tally::default();
        }
        let timer = self.timers.get_mut(&of.id)?;
        let is_there = timer.state == State::Stored && timer.row.due == of.due;
        let own = |start: &&super::Start| start.epoch == of.epoch && start.node == node;
        let said = timer.starts.iter().find(own).map(|start| start.said);
        let token = timer.token;
        if is_done {
            self.demand(said != Some(Said::Nothing), || {
                format!("{token} is settled while it is handled")
            });
        } else {
            self.stale += 1;
            self.note(format_args!("  {token} of node {node}: stale"));
            // (A process has its lease as long as it lives.)
            // (What was said may be stored already, by a commit whose answer was lost.)
            let was_lost = self.scene.is_fleet() || self.outages > 0;
            let may_be = was_lost && !(is_current && is_there);
            self.tally.stale += u64::from(!is_current);
            self.demand(may_be, || {
                format!("the store refuses what became of {token}")
            });
        }
        said
    }

    fn acknowledged(
        &mut self,
        of: &Settled,
        row: Option<&Row>,
        said: Option<Said>,
        now: SystemTime,
    ) {
        // A run that was missed may be left out, and a row that is superseded goes.
        let timer = &self.timers[&of.id].row;
        let may_be_left_out = timer.calendar.is_some() || timer.superseded;
        let is_right = said == Some(Said::Done) || said.is_none() && may_be_left_out;
        self.demand(is_right, || {
            format!("{} is done, and its handler said {said:?}", of.id)
        });
        self.tally.done += u64::from(said.is_some());
        match row {
            Some(row) => self.begin_anew(row, now),
            None => self.end(of.id, State::Done),
        }
    }

    /// Whether a limit may hold a row that was named so: by the deadline of a row that is held.
    fn was_limited(&self, of: &Settled) -> bool {
        !self.limits.touched.is_empty() && of.due.as_millis() >= 1 << 47
    }

    /// A row is held, because its kind has no handler, is paused, or because of a limit.
    fn held_back(&mut self, of: &Settled, is_done: bool, row: Option<&Row>, made: Made) {
        let Some(timer) = self.timers.get(&of.id).cloned() else {
            return self.wrong(format_args!("{} is held, and was never armed", of.id));
        };
        let (epoch, stored) = (self.leases.epoch(of.id.partition()), &timer.row);
        let is_there = timer.state == State::Stored && stored.due == of.due;
        let is_refused = is_there && epoch == of.epoch;
        self.demand(is_done == is_refused, || {
            format!("{timer:?} is held: {is_done}")
        });
        if !is_done {
            return;
        }
        // (Another node may have begun with it, and have lost its lease.)
        let is_out = self.out(&timer).any(|start| start.epoch == epoch);
        self.demand(!is_out, || format!("{timer:?} is held, and was handed out"));
        let Some(row) = row else {
            let is_superseded = stored.superseded;
            self.demand(is_superseded, || format!("{timer:?} ends, as it is held"));
            return self.end(of.id, State::Replaced);
        };
        let is_handled = self.is_of(made.node, &row.kind);
        let is_limited = row.held().is_some_and(|held| held.why == HeldWhy::Limited);
        let is_right = match row.held().map(|held| held.why) {
            Some(HeldWhy::Paused) => is_handled && self.was_paused(row),
            Some(HeldWhy::Limited) => is_handled && self.limits.may_hold(row),
            _ => !is_handled,
        };
        self.demand(is_right, || {
            format!("{row:?} is held, and has a handler: {is_handled}")
        });
        self.limits.held += u64::from(is_limited);
        let mut expected = stored.clone();
        (expected.due, expected.suspect) = (row.due, false);
        expected.set_held(row.held());
        let wanted = row.clone().shown().due;
        let is_held = row.held().is_some() && *row == expected;
        let is_right = is_held && wanted == stored.clone().shown().due;
        self.demand(is_right, || format!("{row:?} is held, and was {stored:?}"));
        self.waited += 1;
        self.place(row, made.now);
    }

    /// A row that was held is to be handed out: there is a handler, and a limit lets it through.
    fn release(&mut self, write: &Write, row: Option<&Row>, made: Made) {
        let (Write::Retry { of, at, .. }, Some(row)) = (write, row) else {
            return self.wrong(format_args!("{write:?} comes to {row:?}"));
        };
        let stored = self.timers[&of.id].row.clone();
        let mut expected = stored.clone();
        expected.set_held(None);
        expected.due = stored.shown().due;
        let is_handled = self.is_of(made.node, &row.kind);
        // (In a fleet another node may have paused it just now.)
        let is_free = self.scene.is_fleet() || !self.is_paused(row);
        let is_right = *row == expected && *at == expected.due && is_handled && is_free;
        self.demand(is_right, || {
            format!("{row:?} is released, and wants {expected:?}")
        });
        self.released += 1;
        self.place(row, made.now);
    }

    fn retried(&mut self, write: &Write, row: Option<&Row>, said: Option<Said>, made: Made) {
        let now = made.now;
        let &Write::Retry {
            ref of,
            at,
            attempts,
            crashes,
        } = write
        else {
            return;
        };
        let stored = self.timers[&of.id].row.clone();
        if stored.held().is_some() {
            return self.release(write, row, made);
        }
        let former = stored.attempts;
        // It was not handed out after all.
        let is_back = at == of.due && attempts == former && said.is_none();
        let is_right = match is_back {
            true => !stored.suspect && crashes == stored.crashes,
            false => {
                // This trial has not ended the process.
                let before = stored.crashes.saturating_sub(stored.suspect.into());
                let max = self.setup.attempts_max;
                let is_counted = match said {
                    Some(Said::Failed) => attempts == former + 1 && attempts < max,
                    Some(Said::Later) => attempts == former && at > of.due,
                    _ => false,
                };
                let is_in_time = stored.expires().is_none_or(|expires| at <= expires);
                is_counted && crashes == before && at >= of.due && is_in_time
            }
        };
        self.demand(is_right, || {
            format!("{stored:?} said {said:?}, and is to be tried again: {write:?}")
        });
        self.tally.failed += u64::from(said == Some(Said::Failed));
        self.tally.snoozed += u64::from(said == Some(Said::Later));
        match row {
            Some(row) => {
                let counts = (row.due, row.attempts, row.crashes, row.suspect);
                self.demand(counts == (at, attempts, crashes, false), || {
                    format!("{row:?} is to be tried again: {write:?}")
                });
                let placed = self.timers[&of.id].placed;
                self.place(row, if is_back { placed } else { now });
            }
            None => self.end(of.id, State::Replaced),
        }
    }

    fn buried(&mut self, write: &Write, row: Option<&Row>, said: Option<Said>, made: Made) {
        let Write::Bury {
            of,
            cause,
            since,
            attempts,
            next,
            ..
        } = write
        else {
            return;
        };
        let timer = self.timers[&of.id].clone();
        let (stored, setup) = (&timer.row, &self.setup);
        let is_over_by = |time: SystemTime| {
            let expires = stored.expires().map(StoreTime::system_time);
            expires.is_some_and(|expires| expires < time)
        };
        let is_right = match cause {
            // (Its next attempt may have been one too many, or too late.)
            Cause::Failed(_) => {
                let is_last = *attempts >= setup.attempts_max || is_over_by(made.shows + WAIT_MAX);
                said == Some(Said::Failed) && is_last
            }
            Cause::Expired => {
                let is_over = match said {
                    None => is_over_by(made.shows + SLACK),
                    Some(Said::Later) => is_over_by(made.shows + WAIT_MAX),
                    _ => false,
                };
                is_over && *attempts == stored.attempts
            }
            Cause::GivenUp(_) => said == Some(Said::GaveUp) && *attempts == stored.attempts + 1,
            // (The first crash was that of a group.)
            Cause::Crashed => {
                stored.crashes > setup.crashes_max
                    && timer.deaths + 1 >= stored.crashes
                    && *attempts == stored.attempts
            }
            Cause::UnknownKind => {
                let is_over = |held: Held| held.since.after(setup.bury_after) <= *since;
                let has_waited = stored.held().is_some_and(is_over);
                let is_right = has_waited && *attempts == stored.attempts;
                let own = self.kinds_of.get(&made.node);
                let is_other =
                    own.is_some_and(|own| !own.is_empty() && !own.contains(&*stored.kind));
                let is_free = self.scene.is_fleet() || !self.is_paused(stored);
                is_right && is_other && is_free
            }
            _ => false,
        };
        self.demand(is_right, || {
            format!("{timer:?} dies, said {said:?}: {write:?}")
        });
        self.tally.died += 1;
        let was_held = stored.held().is_some();
        self.tally.died_held += u64::from(was_held);
        self.tally.failed += u64::from(matches!(cause, Cause::Failed(_)));
        self.tally.expired += u64::from(*cause == Cause::Expired);
        self.tally.given_up += u64::from(matches!(cause, Cause::GivenUp(_)));
        match (next, row) {
            (Some((_, copy)), Some(row)) => {
                // A recurring timer dies once, as this copy, and goes on.
                let mut letter = timer;
                (letter.row.id, letter.state) = (*copy, State::Dead);
                self.timers.insert(*copy, letter);
                self.begin_anew(row, made.now);
            }
            _ if stored.superseded => self.end(of.id, State::Replaced),
            _ => self.end(of.id, State::Dead),
        }
    }
}
