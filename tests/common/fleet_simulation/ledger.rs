//! Ledger: what the store of a fleet has, what callers were told, and what handlers got on which
//! node. It stands outside of what it watches, and notes each broken promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};
use wheelwork::durable::{
    Cause, Delivery, DurableId, Lease, Outcome, Partition, Row, Settled, StoreTime, Target, Write,
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

/// What a handler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Done,
    Failed,
    /// It has not ended.
    Nothing,
}

/// A handler that has begun, and whose answer is not stored.
#[derive(Clone, Copy, Debug)]
struct Start {
    node: usize,
    epoch: u64,
    said: Said,
}

#[derive(Clone, Debug)]
pub struct Timer {
    /// What its payload begins with. No other timer has it, but for copies of recurring ones.
    pub token: u64,
    pub row: Row,
    pub state: State,
    /// When it was armed or moved, by the store's clock.
    pub placed: SystemTime,
    /// The number of the write that ended it.
    ended: usize,
    /// Handlers that have begun since the row has this deadline.
    starts: Vec<Start>,
    /// Handlers that have begun since it had no attempts.
    begun: u32,
}

/// How the lease of an epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// It ran out.
    RunOut,
    /// It was given back.
    GivenBack,
}

#[derive(Clone, Debug, Default)]
struct PartitionLedger {
    epoch: u64,
    owner: Option<usize>,
    until: Option<SystemTime>,
    claimed: Option<StoreTime>,
    over: BTreeMap<u64, Over>,
}

#[derive(Default)]
pub struct Ledger {
    pub timers: BTreeMap<DurableId, Timer>,
    pub keys: BTreeMap<String, DurableId>,
    /// Each write that the store has made, with its outcome.
    pub made: Vec<(Write, Outcome)>,
    pub wrongs: Vec<String>,
    pub story: String,
    pub attempts_max: u32,
    partitions: BTreeMap<Partition, PartitionLedger>,
    pub handled: u64,
    pub repeated: u64,
    pub stale: u64,
    pub taken: u64,
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

    /// Whether the watermark has reached a row.
    pub fn is_claimed(&self, row: &Row) -> bool {
        let of = self.partitions.get(&row.id.partition());
        of.is_some_and(|of| of.claimed >= Some(row.due))
    }

    /// A node has renewed its leases, or taken some.
    pub fn renewed(
        &mut self,
        node: usize,
        taken: &[Lease],
        lost: &[Partition],
        until: SystemTime,
        now: SystemTime,
    ) {
        for lease in taken {
            self.take(node, *lease, now);
        }
        if !taken.is_empty() || !lost.is_empty() {
            let taken: Vec<_> = taken.iter().map(|lease| lease.partition).collect();
            self.note(format_args!(
                "  node {node} takes {taken:?}, has lost {lost:?}"
            ));
        }
        for (number, of) in &mut self.partitions {
            if of.owner == Some(node) && !lost.contains(number) {
                of.until = Some(until);
            }
        }
        for lease in taken {
            self.partitions.entry(lease.partition).or_default().until = Some(until);
        }
    }

    fn take(&mut self, node: usize, lease: Lease, now: SystemTime) {
        let number = lease.partition;
        let of = self.partitions.entry(number).or_default();
        let former = of.clone();
        self.taken += 1;
        if former.epoch > 0 {
            of.over.entry(former.epoch).or_insert(Over::RunOut);
        }
        (of.owner, of.epoch) = (Some(node), lease.epoch);
        let is_over = former.over.contains_key(&former.epoch)
            || former.until.is_none_or(|until| until <= now);
        self.demand(is_over && lease.epoch > former.epoch, || {
            format!("partition {number} is taken from an owner that has it: {former:?}")
        });
    }

    /// A node has given partitions back.
    pub fn given_back(&mut self, node: usize, leases: &[Lease]) {
        for lease in leases {
            let of = self.partitions.entry(lease.partition).or_default();
            if of.owner != Some(node) || of.epoch != lease.epoch {
                continue;
            }
            of.over.insert(lease.epoch, Over::GivenBack);
            (of.owner, of.until) = (None, None);
            let number = lease.partition;
            self.note(format_args!("  node {node} gives {number} back"));
        }
    }

    /// What this node has.
    pub fn leases_of(&self, node: usize) -> Vec<Lease> {
        let own = self.partitions.iter();
        own.filter(|(_, of)| of.owner == Some(node))
            .map(|(&partition, of)| Lease {
                partition,
                epoch: of.epoch,
            })
            .collect()
    }

    pub fn claimed(&mut self, leases: &[Lease], lost: &[Lease], upto: StoreTime) {
        for lease in leases.iter().filter(|lease| !lost.contains(lease)) {
            let of = self.partitions.entry(lease.partition).or_default();
            of.claimed = of.claimed.max(Some(upto));
        }
    }

    fn end(&mut self, id: DurableId, state: State) {
        let at = self.made.len();
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} has ended, and was never armed"));
        };
        if timer.state != State::Stored {
            let what = format!("{} is {state:?}, and was {:?}", timer.token, timer.state);
            self.wrong(what);
            return;
        }
        (timer.state, timer.ended) = (state, at);
        if let Some(key) = timer.row.key.take() {
            self.keys.remove(&*key);
        }
    }

    /// Nobody has handed the row out.
    fn demand_free(&mut self, id: DurableId, what: &str) {
        let Some(timer) = self.timers.get(&id) else {
            return;
        };
        let (token, starts) = (timer.token, timer.starts.clone());
        self.demand(starts.is_empty(), || {
            format!("{token} is {what}, and was handed out: {starts:?}")
        });
    }

    /// The store has made a write.
    pub fn wrote(&mut self, node: usize, write: &Write, outcome: &Outcome, now: SystemTime) {
        match (write, outcome) {
            (Write::Arm(row), Outcome::Armed(gone)) => self.armed(row, *gone, now),
            (Write::Cancel(_), Outcome::Cancelled(gone)) => self.cancelled(gone.as_slice()),
            (Write::CancelKind(_), Outcome::CancelledMany(gone)) => self.cancelled(gone),
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
                    let mut letter = self.timers[&of.id].clone();
                    (letter.row.id, letter.state) = (*copy, State::Dead);
                    self.timers.insert(*copy, letter);
                    self.begin_anew(row, now);
                } else if is_superseded {
                    self.end(of.id, State::Replaced);
                } else {
                    self.end(of.id, State::Dead);
                }
            }
            (Write::Revive(id, _), Outcome::Revived(row)) => {
                let is_dead = self.is_dead(*id);
                self.demand(is_dead == row.is_some(), || format!("{id} is revived"));
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
            (write, outcome) => self.wrong(format_args!("{outcome:?} of {write:?}")),
        }
        self.note_made(write, outcome);
    }

    fn note_made(&mut self, write: &Write, outcome: &Outcome) {
        self.made.push((write.clone(), outcome.clone()));
    }

    fn is_superseded(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.row.superseded)
    }

    pub fn is_dead(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.state == State::Dead)
    }

    fn armed(&mut self, row: &Row, gone: Option<DurableId>, now: SystemTime) {
        let holder = row.key.as_ref().and_then(|key| self.keys.remove(&**key));
        if let Some(id) = gone {
            self.demand(holder == gone, || format!("{id} goes for {row:?}"));
            self.demand_free(id, "replaced");
            self.end(id, State::Replaced);
        }
        if let Some(former) = holder.filter(|_| gone.is_none()) {
            let former = self.timers.get_mut(&former).unwrap();
            (former.row.superseded, former.row.key) = (true, None);
            let former = former.row.clone();
            let is_claimed = self.is_claimed(&former);
            self.demand(is_claimed, || {
                format!("{former:?} is superseded, and not replaced")
            });
        }
        if let Some(key) = &row.key {
            self.keys.insert(key.to_string(), row.id);
        }
        let timer = Timer {
            token: token(&row.payload),
            row: row.clone(),
            state: State::Stored,
            placed: now,
            ended: 0,
            starts: Vec::new(),
            begun: 0,
        };
        let former = self.timers.insert(row.id, timer);
        self.demand(former.is_none(), || format!("{} is armed twice", row.id));
    }

    fn cancelled(&mut self, gone: &[DurableId]) {
        for &id in gone {
            self.demand_free(id, "cancelled");
            self.end(id, State::Cancelled);
        }
    }

    fn place(&mut self, row: &Row, now: SystemTime) {
        let timer = self.timers.get_mut(&row.id).unwrap();
        (timer.row, timer.placed) = (row.clone(), now);
        timer.starts.clear();
    }

    fn begin_anew(&mut self, row: &Row, now: SystemTime) {
        self.place(row, now);
        let timer = self.timers.get_mut(&row.id).unwrap();
        (timer.begun, timer.state) = (0, State::Stored);
    }

    /// What a node hands in of a delivery. Returns what the handler had said.
    fn settled(&mut self, node: usize, of: &Settled, is_done: bool) -> Option<Said> {
        let number = of.id.partition();
        let epoch = self.partitions.get(&number).map_or(0, |of| of.epoch);
        let is_current = epoch == of.epoch;
        self.demand(is_current || !is_done, || {
            format!(
                "{} is settled under epoch {}, and it is {epoch}",
                of.id, of.epoch
            )
        });
        let timer = self.timers.get_mut(&of.id)?;
        let is_there = timer.state == State::Stored && timer.row.due == of.due;
        let own = |start: &&mut Start| start.epoch == of.epoch && start.node == node;
        let said = timer.starts.iter_mut().find(own).map(|start| start.said);
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
                let placed = self.timers[&of.id].placed;
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
        let of = self.partitions.get(&number).cloned().unwrap_or_default();
        let max = self.attempts_max;
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} is handled, and was never armed"));
        };
        timer.begun += 1;
        let former = timer.clone();
        timer.starts.push(Start {
            node,
            epoch,
            said: Said::Nothing,
        });
        let Timer {
            token, row, state, ..
        } = former;
        self.repeated += u64::from(!former.starts.is_empty());
        self.demand(state == State::Stored, || {
            format!("{token} is handled, and is {state:?}")
        });
        let is_same = delivery.payload() == &*row.payload
            && delivery.kind() == &*row.kind
            && (row.superseded || delivery.key() == row.key.as_deref())
            && delivery.due() == row.due.system_time();
        self.demand(is_same, || format!("{delivery:?} is not {row:?}"));
        self.demand(delivery.due() <= now, || {
            format!("{token} is handled early")
        });
        let has_lease =
            of.owner == Some(node) && of.epoch == epoch && of.until.is_some_and(|t| now < t);
        self.demand(has_lease, || {
            format!("{token} is handled without the lease of {number}: epoch {epoch}, {of:?}")
        });
        self.demand(of.claimed >= Some(row.due), || {
            format!("{token} is handled before the watermark says so")
        });
        for start in &former.starts {
            // Twice only if a lease has ended between, or a process.
            let is_allowed =
                start.epoch < epoch && of.over.get(&start.epoch) == Some(&Over::RunOut);
            self.demand(is_allowed, || {
                format!("{token} is handled again, after {start:?}: {:?}", of.over)
            });
        }
        let (attempt, begun) = (delivery.attempt(), former.begun);
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
        if let Some(start) = timer.starts.iter_mut().rfind(own) {
            start.said = said;
        }
    }

    /// Nothing is overdue that has been there, and not moved, since `since`. What was overdue for
    /// long when it came has until `all`: so often a node looks at all of a partition.
    pub fn punctual(&mut self, due: StoreTime, since: SystemTime, all: SystemTime) {
        let is_late = |timer: &&Timer| {
            let was_due = timer.row.due.system_time() + LOW;
            let is_deep = was_due < timer.placed;
            let since = if is_deep { all } else { since };
            timer.row.due <= due && timer.placed <= since && !timer.row.superseded
        };
        let late = self.stored().find(is_late);
        if let Some(late) = late {
            let number = late.row.id.partition();
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            let of = self.partitions.get(&number).cloned();
            self.wrong(format_args!("{what}; partition {number}: {of:?}"));
        }
    }

    /// Timers that have ended so by the writes from a number on.
    pub fn ended_since(&self, first: usize, state: State) -> BTreeSet<DurableId> {
        let timers = self.timers.values();
        timers
            .filter(|timer| timer.state == state && timer.ended >= first)
            .map(|timer| timer.row.id)
            .collect()
    }

    /// At or after what was placed last.
    pub fn late_rows(&self) -> Vec<u64> {
        let rows = self.stored().filter(|timer| !timer.row.superseded);
        rows.map(|timer| timer.token).collect()
    }
}

/// What was overdue for less when it came is found at the next scan.
const LOW: Duration = Duration::from_secs(8);

/// The longest wait until a partition has another owner, after an end of a node.
pub fn recovery(lease: Duration) -> Duration {
    lease + lease / 3 + Duration::from_secs(1)
}
