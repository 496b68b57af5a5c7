//! Ledger: what the store of a fleet has, what callers were told, and what handlers got on which
//! node. It stands outside of what it watches, and notes each broken promise.

use super::super::simulated::{Records, Said, State, token};
use super::leases::{Leases, Over};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime};
use wheelwork::durable::{Cause, Delivery, DurableId, Outcome, Row, Settled, StoreTime, Write};

/// What was overdue for less when it came is found at the next scan.
const LOW: Duration = Duration::from_secs(8);

/// A handler that has begun, and whose answer is not stored.
#[derive(Clone, Copy, Debug)]
struct Start {
    node: usize,
    epoch: u64,
    said: Said,
}

/// What the ledger notes of a timer beside its row.
#[derive(Clone, Debug)]
pub struct More {
    /// When it was armed or moved, by the store's clock.
    pub placed: SystemTime,
    /// Handlers that have begun since the row has this deadline.
    starts: Vec<Start>,
    /// Handlers that have begun since it had no attempts.
    begun: u32,
}

#[derive(Default)]
pub struct Ledger {
    records: Records<More>,
    pub leases: Leases,
    pub attempts_max: u32,
    /// Settlements that the store has refused.
    pub stale: u64,
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
    /// Whether the watermark has reached a row.
    pub fn is_claimed(&self, row: &Row) -> bool {
        let of = self.leases.of(row.id.partition());
        of.claimed >= Some(row.due)
    }

    /// Rows that are stored, and that a handler has begun with.
    pub fn handed_out(&self) -> impl Iterator<Item = &Row> {
        let begun = self.stored().filter(|timer| !timer.more.starts.is_empty());
        begun.map(|timer| &timer.row)
    }

    /// Nobody has handed the row out.
    fn demand_free(&mut self, id: DurableId, what: &str) {
        let Some(timer) = self.timers.get(&id) else {
            return;
        };
        let (token, starts) = (timer.token, timer.more.starts.clone());
        self.demand(starts.is_empty(), || {
            format!("{token} is {what}, and was handed out: {starts:?}")
        });
    }

    /// The store has made a write. Some rows were `struck`: they are cancelled, and still there.
    pub fn wrote(
        &mut self,
        node: usize,
        write: &Write,
        outcome: &Outcome,
        struck: &[DurableId],
        now: SystemTime,
    ) {
        match (write, outcome) {
            (Write::Arm(row), Outcome::Armed(gone)) => self.armed(row, *gone, now),
            (Write::Cancel(_), Outcome::Cancelled(gone)) => self.cancelled(gone.as_slice(), struck),
            (Write::CancelKind(_), Outcome::CancelledMany(gone, _)) => {
                self.cancelled(gone, struck);
            }
            (Write::Move(..), Outcome::Moved(row)) => {
                if let Some(row) = row {
                    self.demand_free(row.id, "moved");
                    self.place(row, now);
                }
            }
            (Write::Ack { of, next }, Outcome::Settled(is_done, row)) => {
                let is_superseded = self.is_superseded(of.id);
                let said = self.settled(node, of, *is_done);
                if !is_done {
                    return self.note_made(write, outcome);
                }
                // A run that was missed may be left out; a superseded row may be dropped.
                let is_recurring = self.timers[&of.id].row.calendar.is_some();
                self.demand(
                    said == Some(Said::Done) || is_recurring || is_superseded,
                    || format!("{} is done, and its handler said {said:?}", of.id),
                );
                match row {
                    Some(row) => {
                        let is_later = next.is_none_or(|next| next > of.due);
                        self.demand(is_later, || format!("{} runs again at {next:?}", of.id));
                        self.begin_anew(row, now);
                    }
                    None => self.end(of.id, State::Done),
                }
            }
            (Write::Retry { of, at, attempts }, Outcome::Settled(is_done, row)) => {
                self.retried(node, of, *at, *attempts, *is_done, row.as_ref(), now);
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
                let is_superseded = self.is_superseded(of.id);
                let said = self.settled(node, of, *is_done);
                if !is_done {
                    return self.note_made(write, outcome);
                }
                self.buried(of, cause, *attempts, said);
                if let (Some((_, copy)), Some(row)) = (next, row) {
                    self.bury_copy(of.id, *copy);
                    self.begin_anew(row, now);
                } else if is_superseded {
                    self.end(of.id, State::Replaced);
                } else {
                    self.end(of.id, State::Dead);
                }
            }
            (Write::Revive(id, _), Outcome::Revived(row)) => {
                self.demand_revived(*id, row.is_some());
                if let Some(row) = row {
                    self.begin_anew(row, now);
                }
            }
            (Write::Discard(id), Outcome::Discarded(is_gone)) => self.discarded(*id, *is_gone),
            (write, outcome) => self.wrong(format_args!("{outcome:?} of {write:?}")),
        }
        self.note_made(write, outcome);
    }

    fn is_superseded(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.row.superseded)
    }

    fn armed(&mut self, row: &Row, gone: Option<DurableId>, now: SystemTime) {
        let holder = row.key.as_ref().and_then(|key| self.keys.remove(&**key));
        if let Some(id) = gone {
            self.demand(holder == gone, || format!("{id} goes for {row:?}"));
            self.demand_free(id, "replaced");
            self.end(id, State::Replaced);
        }
        if let Some(former) = holder.filter(|_| gone.is_none()) {
            let former = self.supersede(former).row.clone();
            let is_claimed = self.is_claimed(&former);
            self.demand(is_claimed, || {
                format!("{former:?} is superseded, and not replaced")
            });
        }
        let more = More {
            placed: now,
            starts: Vec::new(),
            begun: 0,
        };
        self.insert(row, more);
    }

    fn cancelled(&mut self, gone: &[DurableId], struck: &[DurableId]) {
        for &id in gone {
            if struck.contains(&id) {
                let row = self.strike(id).row.clone();
                let is_claimed = self.is_claimed(&row);
                self.demand(is_claimed, || format!("{row:?} is struck, and not deleted"));
                continue;
            }
            self.demand_free(id, "cancelled");
            self.end(id, State::Cancelled);
        }
    }

    fn place(&mut self, row: &Row, now: SystemTime) {
        let more = &mut self.put(row).more;
        more.placed = now;
        more.starts.clear();
    }

    fn begin_anew(&mut self, row: &Row, now: SystemTime) {
        self.place(row, now);
        let timer = self.put(row);
        (timer.more.begun, timer.state) = (0, State::Stored);
    }

    /// What a node hands in of a delivery. Returns what the handler had said.
    fn settled(&mut self, node: usize, of: &Settled, is_done: bool) -> Option<Said> {
        let number = of.id.partition();
        let epoch = self.leases.of(number).epoch;
        let is_current = epoch == of.epoch;
        self.demand(is_current || !is_done, || {
            format!(
                "{} is settled under epoch {}, and it is {epoch}",
                of.id, of.epoch
            )
        });
        let timer = self.timers.get_mut(&of.id)?;
        let is_there = timer.state == State::Stored && timer.row.due == of.due;
        let own = |start: &&Start| start.epoch == of.epoch && start.node == node;
        let said = timer.more.starts.iter().find(own).map(|start| start.said);
        let token = timer.token;
        if is_done {
            self.demand(said != Some(Said::Nothing), || {
                format!("{token} is settled while it is handled")
            });
        } else {
            self.stale += 1;
            self.note(format_args!("  {token} of node {node}: stale"));
            self.demand(!(is_current && is_there), || {
                format!("the store refuses what became of {token}")
            });
        }
        said
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a write")]
    fn retried(
        &mut self,
        node: usize,
        of: &Settled,
        at: StoreTime,
        attempts: u32,
        is_done: bool,
        row: Option<&Row>,
        now: SystemTime,
    ) {
        let said = self.settled(node, of, is_done);
        if !is_done {
            return;
        }
        let former = self.timers[&of.id].row.attempts;
        // It was not handed out after all.
        let is_back = at == of.due && attempts == former && said.is_none();
        let is_right = is_back
            || said == Some(Said::Failed)
                && attempts == former + 1
                && attempts < self.attempts_max
                && at >= of.due;
        self.demand(is_right, || {
            format!(
                "{} is to be tried again: {said:?}, {attempts} attempts after {former}",
                of.id
            )
        });
        match row {
            Some(row) => {
                self.demand(row.due == at && row.attempts == attempts, || {
                    format!("{row:?} is to be tried again at {at:?}")
                });
                let placed = self.timers[&of.id].more.placed;
                self.place(row, if is_back { placed } else { now });
            }
            None => self.end(of.id, State::Replaced),
        }
    }

    fn buried(&mut self, of: &Settled, cause: &Cause, attempts: u32, said: Option<Said>) {
        let row = self.timers[&of.id].row.clone();
        let max = self.attempts_max;
        let is_right = match cause {
            Cause::Failed(_) => said == Some(Said::Failed) && attempts >= max,
            Cause::Crashed => row.attempts >= max,
            Cause::UnknownKind => &*row.kind == "unknown",
            _ => false,
        };
        self.demand(is_right, || {
            format!(
                "{} dies after {attempts} attempts: {cause}, {said:?}",
                of.id
            )
        });
    }

    /// The store has returned rows.
    pub fn loaded(&mut self, rows: &[Row]) {
        for row in rows {
            let Some(timer) = self.timers.get_mut(&row.id) else {
                self.wrong(format_args!("{} was never armed", row.id));
                continue;
            };
            // (Who takes a partition over raises the attempts.)
            let has_risen = row.attempts >= timer.row.attempts;
            timer.row.attempts = row.attempts;
            let is_right = timer.state == State::Stored && timer.row == *row && has_risen;
            let timer = timer.clone();
            self.demand(is_right, || format!("the store has {row:?} of {timer:?}"));
        }
    }

    /// A handler begins.
    pub fn began(&mut self, node: usize, delivery: &Delivery, now: SystemTime) {
        let id = delivery.id();
        let (number, epoch) = (id.partition(), delivery.fence());
        self.handled += 1;
        self.note(format_args!(
            "  node {node} handles {} of {number}, attempt {}",
            token(delivery.payload()),
            delivery.attempt(),
        ));
        let of = self.leases.of(number);
        let max = self.attempts_max;
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} is handled, and was never armed"));
        };
        let former = timer.clone();
        timer.more.begun += 1;
        timer.more.starts.push(Start {
            node,
            epoch,
            said: Said::Nothing,
        });
        let (token, due) = (former.token, former.row.due);
        let former_starts = &former.more.starts;
        self.repeated += u64::from(!former_starts.is_empty());
        self.demand_as_stored(&former, delivery, now);
        let has_lease =
            of.owner == Some(node) && of.epoch == epoch && of.until.is_some_and(|t| now < t);
        self.demand(has_lease, || {
            format!("{token} is handled without the lease of {number}: epoch {epoch}, {of:?}")
        });
        self.demand(of.claimed >= Some(due), || {
            format!("{token} is handled before the watermark says so")
        });
        for start in former_starts {
            // Twice only if a lease has ended between, or a process.
            let is_allowed =
                start.epoch < epoch && of.over.get(&start.epoch) == Some(&Over::RunOut);
            self.demand(is_allowed, || {
                format!("{token} is handled again, after {start:?}: {:?}", of.over)
            });
        }
        let (attempt, begun) = (delivery.attempt(), former.more.begun + 1);
        self.demand(attempt >= begun && attempt <= max, || {
            format!("{token}: attempt {attempt} is {begun}, of {max}")
        });
    }

    /// A handler has ended.
    pub fn said(&mut self, node: usize, delivery: &Delivery, said: Said) {
        let Some(timer) = self.timers.get_mut(&delivery.id()) else {
            return;
        };
        let epoch = delivery.fence();
        let own = |start: &&mut Start| start.epoch == epoch && start.node == node;
        if let Some(start) = timer.more.starts.iter_mut().rfind(own) {
            start.said = said;
        }
    }

    /// Nothing is overdue that has been there, and not moved, since `since`. For a row that was
    /// overdue by more than `LOW` when it came, `all` counts in place of `since`: a node reads a
    /// whole partition only once in that time.
    pub fn punctual(&mut self, due: StoreTime, since: SystemTime, all: SystemTime) {
        let late = self.stored().find(|timer| {
            let was_due = timer.row.due.system_time() + LOW;
            let is_deep = was_due < timer.more.placed;
            let since = if is_deep { all } else { since };
            timer.row.due <= due && timer.more.placed <= since && !timer.row.superseded
        });
        if let Some(late) = late {
            let number = late.row.id.partition();
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            let of = self.leases.of(number);
            self.wrong(format_args!("{what}; partition {number}: {of:?}"));
        }
    }

    /// The tokens of what is still to be handled.
    pub fn late_tokens(&self) -> Vec<u64> {
        let rows = self.stored().filter(|timer| !timer.row.superseded);
        rows.map(|timer| timer.token).collect()
    }
}
