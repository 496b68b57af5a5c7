//! Runs: what handlers get, on which node, and whether they may have it.

use super::leases::Over;
use super::{Ledger, Said, State, Timer, token};
use std::time::{Duration, SystemTime};
use wheelwork_durable::{Delivery, DurableId, HeldWhy, Row, StoreTime};

/// What was overdue for less when it came is found at the next scan.
const LOW: Duration = Duration::from_secs(8);

/// A row that waits for a handler, and has waited for long enough, is looked at once a minute.
const BURIED: Duration = Duration::from_secs(61);

/// A row that began alone is on trial for longer.
const TRIAL: Duration = Duration::from_secs(1);

/// A handler that has begun, and whose answer is not stored.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub node: usize,
    pub epoch: u64,
    pub said: Said,
    /// When it has begun, if that was alone.
    pub alone: Option<SystemTime>,
}

impl Ledger {
    /// Rows that are stored, and that a handler has begun with.
    pub fn handed_out(&self) -> impl Iterator<Item = &Row> {
        let begun = self.stored().filter(|timer| !timer.starts.is_empty());
        begun.map(|timer| &timer.row)
    }

    /// Whether the watermark has reached a row.
    pub fn is_claimed(&self, row: &Row) -> bool {
        self.leases.claimed(row.id.partition()) >= Some(row.due)
    }

    /// Handlers that keep a timer from being ended, moved or replaced. In a process those of former
    /// lives do not; in a fleet the watermark stays when a lease ends.
    pub fn out<'a>(&self, timer: &'a Timer) -> impl Iterator<Item = &'a Start> {
        let is_fleet = self.scene.is_fleet();
        let epoch = self.leases.epoch(timer.row.id.partition());
        let starts = timer.starts.iter();
        starts.filter(move |start| is_fleet || start.epoch == epoch)
    }

    /// The gate was asked.
    pub fn asked(&mut self, id: DurableId, is_ours: bool) {
        if is_ours {
            self.let_go.insert(id);
        }
        // (What a handler has said may be stored just before, in this commit.)
        let is_handled = self.timers.get(&id).is_some_and(|timer| {
            let mut out = self.out(timer);
            out.any(|start| start.said == Said::Nothing)
        });
        self.demand(!(is_ours && is_handled), || {
            format!("{id} is let go while it is handled")
        });
    }

    /// The outcome of a commit is known.
    pub fn committed(&mut self) {
        self.let_go.clear();
    }

    /// The store has returned rows.
    pub fn loaded(&mut self, rows: &[Row]) {
        let is_fleet = self.scene.is_fleet();
        for row in rows {
            let Some(timer) = self.timers.get_mut(&row.id) else {
                self.wrong(format_args!("{} was never armed", row.id));
                continue;
            };
            let mut row = row.clone();
            if is_fleet {
                // (After a take-over its owner sees that it is one.)
                timer.row.suspect |= row.suspect;
                row.suspect = timer.row.suspect;
            }
            let is_right = timer.state == State::Stored && timer.row == row;
            let timer = timer.clone();
            self.demand(is_right, || format!("the store has {row:?} of {timer:?}"));
        }
    }

    /// A handler begins, at this time of the store's clock.
    pub fn began(&mut self, node: usize, delivery: &Delivery, now: SystemTime) {
        let id = delivery.id();
        let (number, epoch) = (id.partition(), delivery.fence());
        self.handled += 1;
        self.note(format_args!(
            "  node {node} handles {} of {number}, attempt {}",
            token(delivery.payload()),
            delivery.attempt(),
        ));
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} is handled, and was never armed"));
        };
        let former = timer.clone();
        timer.charged = None;
        let is_alone = delivery.crashes() > 0;
        timer.starts.push(Start {
            node,
            epoch,
            said: Said::Nothing,
            alone: is_alone.then_some(now),
        });
        self.repeated += u64::from(!former.starts.is_empty());
        self.demand_as_stored(&former, delivery, now);
        self.demand_right(node, &former, epoch, now);
        let row = &former.row;
        let is_trial = row.suspect || is_alone || !former.starts.is_empty();
        let crashes = delivery.crashes() + u32::from(is_trial);
        let is_right = delivery.attempt() == row.attempts + 1 && row.crashes == crashes;
        self.demand(is_right, || format!("{delivery:?} is not charged: {row:?}"));
        if is_alone {
            self.demand_alone(node, id, now);
        }
    }

    /// What a handler gets is what is stored, and not early.
    fn demand_as_stored(&mut self, timer: &Timer, delivery: &Delivery, now: SystemTime) {
        let (token, row, state) = (timer.token, &timer.row, timer.state);
        self.demand(state == State::Stored, || {
            format!("{token} is handled, and is {state:?}")
        });
        let mut rows = timer.former.iter().chain([row]);
        let is_brought = rows.any(|row| {
            delivery.payload() == &*row.payload && delivery.traceparent() == row.traceparent()
        });
        let is_same = is_brought
            && delivery.kind() == &*row.kind
            && (row.superseded || delivery.key() == row.key.as_deref())
            && delivery.due() == row.due.system_time();
        self.demand(is_same, || format!("{delivery:?} is not {row:?}"));
        self.demand(delivery.due() <= now, || {
            format!("{token} is handled early")
        });
        let expires = row.expires().map(StoreTime::system_time);
        self.demand(expires.is_none_or(|expires| now <= expires), || {
            format!("{token} is handled after it has expired: {row:?}")
        });
    }

    /// The node may hand the row out: by its lease, by the watermark, and by what was before.
    fn demand_right(&mut self, node: usize, timer: &Timer, epoch: u64, now: SystemTime) {
        let (token, row) = (timer.token, &timer.row);
        let number = row.id.partition();
        let of = self.leases.of(number);
        let is_lasting = of.until.is_some_and(|until| now < until);
        let has_lease = of.owner == Some(node) && of.epoch == epoch && is_lasting;
        self.demand(has_lease, || {
            format!("{token} is handled without the lease of {number}: epoch {epoch}, {of:?}")
        });
        self.demand(of.claimed >= Some(row.due), || {
            format!("{token} is handled before the watermark says so")
        });
        let is_let_go = self.let_go.contains(&row.id);
        self.demand(!is_let_go, || format!("{token} is handled, and was let go"));
        // In a process it may be on its way to the handler when another takes its key.
        let superseded = timer.superseded.filter(|_| !self.scene.is_fleet());
        let was_due = superseded.is_none_or(|at| row.due.system_time() <= at);
        self.demand(was_due, || {
            format!("{token} is handled, and another has its key")
        });
        for start in &timer.starts {
            // Twice only if a lease has ended between, or a process.
            let is_allowed =
                start.epoch < epoch && of.over.get(&start.epoch) == Some(&Over::RunOut);
            self.demand(is_allowed, || {
                format!("{token} is handled again, after {start:?}: {:?}", of.over)
            });
        }
    }

    /// No other suspect is on trial on this node that began alone.
    fn demand_alone(&mut self, node: usize, id: DurableId, now: SystemTime) {
        let is_on_trial = |start: &Start| {
            let begun = start.alone.filter(|_| start.node == node);
            let passed = begun.and_then(|begun| now.duration_since(begun).ok());
            start.said == Said::Nothing && passed.is_some_and(|passed| passed < TRIAL)
        };
        let is_other = |timer: &&Timer| timer.row.id != id && timer.starts.iter().any(is_on_trial);
        let token = self.stored().find(is_other).map(|timer| timer.token);
        self.demand(token.is_none(), || {
            format!("{id} begins while {token:?} is on trial")
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
        self.is_through(delivery.id());
    }

    /// Nothing is under way: what handlers said is stored.
    pub fn at_rest(&mut self) {
        let open: Vec<_> = self
            .stored()
            .flat_map(|timer| self.out(timer).map(|start| (timer.token, start.said)))
            .collect();
        self.demand(open.is_empty(), || format!("not settled: {open:?}"));
    }

    /// Whether a row that is held should have been released, or buried, by this time.
    fn is_held_for_long(&self, row: &Row, time: StoreTime) -> bool {
        let held = row.held().unwrap();
        if held.why == HeldWhy::Limited {
            // (In the end all are handled.)
            return false;
        }
        if self.scene.is_fleet() {
            // (Its partition goes to another node when it can: in the end all are handled.)
            return false;
        }
        if self.is_paused(row) {
            return false;
        }
        if self.is_handled(&row.kind) {
            return row.clone().shown().due <= time;
        }
        let over = held.since.after(self.setup.bury_after);
        !self.setup.kinds.is_empty() && over.after(BURIED) <= time
    }

    /// Nothing is overdue that has been there, and not moved, since `since`. For a row that was
    /// overdue by more than `LOW` when it came, `all` counts in place of `since`: a node of a fleet
    /// reads a whole partition only once in that time.
    pub fn punctual(&mut self, due: StoreTime, since: SystemTime, all: SystemTime) {
        let late = self.stored().find(|timer| {
            // (It is loaded anew, or released.)
            if self.was_paused(&timer.row) && self.has_new_rules(since) {
                return false;
            }
            if timer.row.held().is_some() {
                return timer.placed <= since && self.is_held_for_long(&timer.row, due);
            }
            // (A process without handlers leaves all as it is.)
            let is_looked_at = self.scene.is_fleet() || !self.setup.kinds.is_empty();
            let is_deep = timer.row.due.system_time() + LOW < timer.placed;
            let since = if is_deep { all } else { since };
            let has_waited = timer.row.due <= due && timer.placed <= since;
            // (Suspects take their time.)
            let is_trial = timer.row.suspect || timer.row.crashes > 0;
            let is_held = self.held.contains(&timer.row.id);
            is_looked_at && has_waited && !timer.row.superseded && !is_trial && !is_held
        });
        if let Some(late) = late {
            let number = late.row.id.partition();
            let what = format!("{} is overdue: {:?}", late.token, late.row);
            let of = self.leases.of(number);
            self.wrong(format_args!("{what}; partition {number}: {of:?}"));
        }
    }
}
