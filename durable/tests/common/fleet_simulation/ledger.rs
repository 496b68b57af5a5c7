//! Ledger: what the store of a fleet has, what callers were told, and what handlers got on which
//! node. It stands outside of what it watches, and notes each broken promise.

use super::super::simulated::{Records, Said, State, Timer, token};
use super::leases::{Leases, Over};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, Settled, TrialBegun, Write};
use wheelwork_durable::{Cause, Delivery, DurableId, Partition, Row, StoreTime};

/// What was overdue for less when it came is found at the next scan.
const LOW: Duration = Duration::from_secs(8);

/// A row that began alone is on trial for longer.
const TRIAL: Duration = Duration::from_secs(1);

/// A handler that has begun, and whose answer is not stored.
#[derive(Clone, Copy, Debug)]
struct Start {
    node: usize,
    epoch: u64,
    said: Said,
    /// When it has begun, if that was alone.
    alone: Option<SystemTime>,
}

/// What the ledger notes of a timer beside its row.
#[derive(Clone, Debug)]
pub struct More {
    /// When it was armed or moved, by the store's clock.
    pub placed: SystemTime,
    /// Handlers that have begun since the row has this deadline.
    starts: Vec<Start>,
    /// Handlers that have begun since it was armed, or began anew; and those that were alone.
    begun: u32,
    alone: u32,
    /// It was charged with a crash, and no handler has begun since: so often, and just now.
    gaps: u32,
    is_charged: bool,
}

#[derive(Default)]
pub struct Ledger {
    records: Records<More>,
    pub leases: Leases,
    pub attempts_max: u32,
    pub crashes_max: u32,
    /// Settlements that the store has refused.
    pub stale: u64,
    /// Changes that users' transactions have held up.
    pub held_up: u64,
    /// Rows that users' transactions have locked.
    pub held: BTreeSet<DurableId>,
    /// The last token that each node has armed with each key.
    last: BTreeMap<(usize, Arc<str>), u64>,
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
            (_, Outcome::Blocked(_)) => {
                self.held_up += 1;
                return self.note(format_args!("  held up: {write:?}"));
            }
            (Write::Arm(row), Outcome::Armed(gone)) => {
                self.demand_in_order(node, row);
                self.armed(row, *gone, now);
            }
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
            (Write::Begin { of, crashes }, Outcome::Begun(begun)) => {
                self.begun(of, *crashes, *begun);
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
            (Write::Retry { of, .. }, Outcome::Settled(is_done, row)) => {
                self.retried(node, of, write, *is_done, row.as_ref(), now);
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

    /// A user's transaction has ended: these rows are found again.
    pub fn released(&mut self, ids: impl IntoIterator<Item = DurableId>, now: SystemTime) {
        for id in ids {
            self.held.remove(&id);
            if let Some(timer) = self.timers.get_mut(&id) {
                timer.more.placed = timer.more.placed.max(now);
            }
        }
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
            alone: 0,
            gaps: 0,
            is_charged: false,
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
        timer.state = State::Stored;
        let more = &mut timer.more;
        (more.begun, more.alone, more.gaps, more.is_charged) = (0, 0, 0, false);
    }

    /// A suspect begins, or did not after all.
    fn begun(&mut self, of: &Settled, crashes: u32, begun: TrialBegun) {
        let epoch = self.leases.of(of.id.partition()).epoch;
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
                timer.more.gaps += u32::from(timer.more.is_charged && crashes > former);
                timer.more.is_charged = crashes > former;
                timer.row.crashes = crashes;
                let max = self.crashes_max;
                let is_right = crashes <= former || crashes == former + 1;
                self.demand(is_right && crashes <= max + 1, || {
                    format!("{} has {crashes} crashes after {former}, of {max}", of.id)
                });
            }
        }
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

    fn retried(
        &mut self,
        node: usize,
        of: &Settled,
        write: &Write,
        is_done: bool,
        row: Option<&Row>,
        now: SystemTime,
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
                let counts = (row.attempts, row.crashes, row.suspect);
                self.demand(
                    row.due == at && counts == (attempts, crashes, false),
                    || format!("{row:?} is to be tried again at {at:?}"),
                );
                let placed = self.timers[&of.id].more.placed;
                self.place(row, if is_back { placed } else { now });
            }
            None => self.end(of.id, State::Replaced),
        }
    }

    fn buried(&mut self, of: &Settled, cause: &Cause, attempts: u32, said: Option<Said>) {
        let Timer { row, more, .. } = self.timers[&of.id].clone();
        let max = self.attempts_max;
        let is_right = match cause {
            Cause::Failed(_) => said == Some(Said::Failed) && attempts >= max,
            // (The first crash was that of a group; just after one is charged a node may die.)
            Cause::Crashed => {
                let gaps = more.gaps + u32::from(more.is_charged);
                row.crashes > self.crashes_max
                    && more.alone + gaps + 1 >= row.crashes
                    && (more.begun > 0 || gaps >= row.crashes)
                    && attempts == row.attempts
            }
            Cause::UnknownKind => &*row.kind == "unknown",
            _ => false,
        };
        self.demand(is_right, || {
            format!(
                "{} dies after {attempts} attempts: {cause}, {said:?}, {more:?}",
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
            // (After a take-over its owner sees that it is one.)
            timer.row.suspect |= row.suspect;
            let mut row = row.clone();
            row.suspect = timer.row.suspect;
            let is_right = timer.state == State::Stored && timer.row == row;
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
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} is handled, and was never armed"));
        };
        let former = timer.clone();
        timer.more.begun += 1;
        timer.more.is_charged = false;
        let is_alone = delivery.crashes() > 0;
        timer.more.alone += u32::from(is_alone);
        timer.more.starts.push(Start {
            node,
            epoch,
            said: Said::Nothing,
            alone: is_alone.then_some(now),
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
        let row = &former.row;
        let is_trial = row.suspect || is_alone || !former_starts.is_empty();
        let crashes = delivery.crashes() + u32::from(is_trial);
        let is_right = delivery.attempt() == row.attempts + 1 && row.crashes == crashes;
        self.demand(is_right, || format!("{delivery:?} is not charged: {row:?}"));
        if is_alone {
            self.demand_alone(node, id, now);
        }
    }

    /// No handler of this node has a timer of this partition, which is given back.
    pub fn demand_idle(&mut self, node: usize, number: Partition) {
        let is_handled = |start: &Start| start.node == node && start.said == Said::Nothing;
        let mut timers = self.timers.iter();
        let handled = timers.find(|(id, timer)| {
            id.partition() == number && timer.more.starts.iter().any(is_handled)
        });
        let token = handled.map(|(_, timer)| timer.token);
        self.demand(token.is_none(), || {
            format!("partition {number} is given back while {token:?} is handled")
        });
    }

    /// No other suspect is on trial on this node that began alone.
    fn demand_alone(&mut self, node: usize, id: DurableId, now: SystemTime) {
        let is_on_trial = |start: &Start| {
            let begun = start.alone.filter(|_| start.node == node);
            let passed = begun.and_then(|begun| now.duration_since(begun).ok());
            start.said == Said::Nothing && passed.is_some_and(|passed| passed < TRIAL)
        };
        let others = self.stored().filter(|timer| timer.row.id != id);
        let mut others = others.filter(|timer| timer.more.starts.iter().any(is_on_trial));
        let other = others.next().map(|timer| timer.token);
        drop(others);
        if let Some(token) = other {
            self.wrong(format_args!("{id} begins while {token} is on trial"));
        }
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
            let has_waited = timer.row.due <= due && timer.more.placed <= since;
            // (Suspects take their time.)
            let is_trial = timer.row.suspect || timer.row.crashes > 0;
            let is_held = self.held.contains(&timer.row.id);
            has_waited && !timer.row.superseded && !is_trial && !is_held
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
