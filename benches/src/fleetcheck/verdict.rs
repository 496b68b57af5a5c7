//! Verdict: which promises were broken, by the ledger and by what is in the database at the end.
//!
//! Only what can be proved counts. Moments of all processes are on one clock, so the order of an
//! answer and of a start in another process is known. Where two calls overlap, it is not: then a
//! timer may have been replaced, or may not.

use crate::ledger::{Arming, Call, Ledger, Moment, Start, Timer};
use crate::trouble::{Happened, Trouble};
use crate::wire::{Due, Kind};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use wheelwork_bench::lateness::Lateness;

const MS: u64 = 1_000_000;

/// What two readings of one clock may differ by, in milliseconds.
const CLOCK_MS: i64 = 2;

/// A watermark is up to 75 ms ahead of the clock. With a margin, in milliseconds.
const CLAIM_MS: i64 = 200;

/// What a killed node's timers have beyond the lease, in milliseconds.
const TAKE_OVER_MS: u64 = 1_000;

/// Whatever happens, a timer is handled within two leases and this, in milliseconds: no server is
/// down for longer than two leases, or 6 s.
const FORGOTTEN_MS: u64 = 14_000;

/// Promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Offence {
    Lost,
    Left,
    Buried,
    Early,
    Doubled,
    HandledCancelled,
    HandledReplaced,
    HandledRolledBack,
    OnceInTransaction,
    SlowTakeOver,
    Forgotten,
}

impl Offence {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Left => "never handled, and still stored",
            Self::Buried => "buried with attempts left",
            Self::Early => "early",
            Self::Doubled => "doubled without a reason",
            Self::HandledCancelled => "handled though cancelled",
            Self::HandledReplaced => "handled though replaced",
            Self::HandledRolledBack => "handled though rolled back",
            Self::OnceInTransaction => "not once in its transaction",
            Self::SlowTakeOver => "late after a kill or a pause",
            Self::Forgotten => "forgotten for long",
        }
    }
}

/// What is in the database at the end.
#[derive(Default)]
pub(crate) struct Facts {
    /// How often a handler in a transaction has committed, by the timer's number.
    pub(crate) done: HashMap<u64, u64>,
    /// Timers whose own transaction has committed.
    pub(crate) orders: HashSet<u64>,
    /// Dead letters: why.
    pub(crate) dead: HashMap<u128, String>,
    /// Rows that are left.
    pub(crate) left: HashMap<u128, String>,
    /// From the common clock to the server's, at some moments.
    pub(crate) offsets: Vec<(Moment, i64)>,
}

#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) broken: Vec<(Offence, u64, String)>,
    /// Handled again, after a kill, a pause, a trouble of the server or a stall.
    pub(crate) again: u64,
    /// Of these: on a node that was paused, after another one has cancelled or handled the timer.
    pub(crate) after_pause: u64,
    /// Of timers that a node has armed for itself.
    pub(crate) calm: Lateness,
    /// Of those of keys, transactions and SQL, which their node has to find.
    pub(crate) calm_found: Lateness,
    pub(crate) troubled: Lateness,
    /// Of timers of killed nodes, from the kill or the deadline on.
    pub(crate) take_over: Lateness,
    /// The same of nodes that were paused past their lease.
    pub(crate) paused_over: Lateness,
    /// Of timers of the other nodes meanwhile.
    pub(crate) others: Lateness,
    pub(crate) measured_alone: u64,
    /// Timers that may have been replaced.
    pub(crate) unknown: u64,
    pub(crate) dead: u64,
    pub(crate) in_transaction: u64,
}

pub(crate) struct Judge<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) facts: &'a Facts,
    pub(crate) happened: &'a [Happened],
    pub(crate) ttl_ms: u64,
    pub(crate) begun: Moment,
    /// Timers by their keys, in the order in which they were asked for.
    pub(crate) by_key: HashMap<&'a str, Vec<u64>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        facts: &'a Facts,
        happened: &'a [Happened],
        ttl_ms: u64,
        begun: Moment,
    ) -> Self {
        let mut by_key: HashMap<&str, Vec<u64>> = HashMap::new();
        for (&number, timer) in &ledger.timers {
            if let Some(key) = &timer.key {
                by_key.entry(key).or_default().push(number);
            }
        }
        Self {
            ledger,
            facts,
            happened,
            ttl_ms,
            begun,
            by_key,
        }
    }

    /// A moment on the server's clock, in milliseconds.
    fn ms(&self, at: Moment) -> i64 {
        let offsets = &self.facts.offsets;
        let nth = offsets.partition_point(|&(when, _)| when <= at);
        let offset = offsets
            .get(nth.saturating_sub(1))
            .map_or(0, |&(_, offset)| offset);
        (at as i64 + offset) / 1_000_000
    }

    fn due_ms(&self, due: Due, asked: Moment) -> i64 {
        match due {
            Due::After(ms) => self.ms(asked) + ms,
            Due::At(ms) => ms,
        }
    }

    /// Until when a trouble shows, at the longest.
    fn shows_until(&self, trouble: &Happened) -> Moment {
        let after = match trouble.what {
            Trouble::Kill | Trouble::PauseLong | Trouble::PauseShort => self.ttl_ms + 2_000,
            Trouble::ServerKilled | Trouble::ServerEnded | Trouble::Promote => self.ttl_ms + 3_000,
            Trouble::Add | Trouble::Stop => 2_000,
            Trouble::Stall => 1_000,
            Trouble::Snapshot => 0,
        };
        trouble.to + after * MS
    }

    /// Whether there was trouble that shows within these moments.
    fn is_troubled(&self, from: Moment, to: Moment, but: Option<&Happened>) -> bool {
        self.happened.iter().any(|trouble| {
            but.is_none_or(|but| !std::ptr::eq(but, trouble))
                && trouble.what != Trouble::Snapshot
                && trouble.from <= to
                && self.shows_until(trouble) >= from
        })
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let cancelled_by_key = self.cancelled_by_key();
        for (&number, timer) in &self.ledger.timers {
            let by_key = cancelled_by_key.get(&number).copied();
            self.judge(number, timer, by_key, &mut verdict);
        }
        self.take_overs(&mut verdict);
        verdict.broken.sort();
        verdict.dead = self.facts.dead.len() as u64;
        verdict
    }

    fn judge(&self, number: u64, timer: &Timer, by_key: Option<Moment>, verdict: &mut Verdict) {
        let mut broken = |offence: Offence, why: String| {
            verdict.broken.push((offence, number, why));
        };
        let done = self.facts.done.get(&number).copied().unwrap_or(0);
        let is_inside = timer.kind == Kind::InTransaction;
        let is_order = self.facts.orders.contains(&number);
        let was_handled = !timer.starts.is_empty();
        // Its own transaction.
        if timer.arming == Arming::RolledBack && was_handled {
            broken(Offence::HandledRolledBack, String::new());
        }
        let is_undone = timer.is_outbox && timer.arming == Arming::Asked && !is_order;
        if is_undone && was_handled {
            let why = "its transaction was not committed".to_owned();
            broken(Offence::HandledRolledBack, why);
        }
        if done > 1 {
            broken(
                Offence::OnceInTransaction,
                format!("{done} commits of its handler"),
            );
        }
        // Cancels.
        let cancels = timer.calls.iter().filter(|call| call.due.is_none());
        let by_id = cancels
            .clone()
            .filter_map(|call| call.answer.filter(|answer| answer.1));
        let cancelled = by_id.map(|(at, _)| at).chain(by_key).min();
        let is_maybe_cancelled = cancels.clone().any(|call| call.answer.is_none());
        if let Some(at) = cancelled {
            if let Some(call) = timer
                .calls
                .iter()
                .find(|call| call.asked > at && call.answer.is_some_and(|(_, is_done)| is_done))
            {
                let why = format!(
                    "another call said true, asked at {}",
                    self.since(call.asked)
                );
                broken(Offence::HandledCancelled, why);
            }
            if done > 0 {
                let why = "cancelled, and its handler has committed".to_owned();
                broken(Offence::HandledCancelled, why);
            }
            for start in timer.starts.iter().filter(|start| start.at > at) {
                if self.was_paused_before(start) {
                    verdict.after_pause += 1;
                } else {
                    let why = format!("cancelled at {}", self.since(at));
                    verdict
                        .broken
                        .push((Offence::HandledCancelled, number, why));
                }
            }
            let before = timer.starts.iter().filter(|start| start.at < at);
            let last = before.max_by_key(|start| (start.fence, start.at));
            let has_failed = |start: &Start| {
                is_inside || start.end.is_some_and(|(ended, is_ok)| !is_ok && ended < at)
            };
            if last.is_some_and(|start| !has_failed(start)) {
                let why = format!("cancelled at {}, while it was handled", self.since(at));
                verdict
                    .broken
                    .push((Offence::HandledCancelled, number, why));
            }
        }
        self.judge_starts(number, timer, verdict);
        // Handled, or kept.
        let is_armed = matches!(timer.arming, Arming::Armed(_)) || timer.is_outbox && is_order;
        let is_dead = self.facts.dead.get(&timer.id).filter(|_| timer.id != 0);
        if let Some(why) = is_dead.filter(|_| !timer.kind.dies()) {
            verdict.broken.push((Offence::Buried, number, why.clone()));
        }
        if let Some(row) = self.facts.left.get(&timer.id).filter(|_| timer.id != 0) {
            verdict.broken.push((Offence::Left, number, row.clone()));
            return;
        }
        let is_handled = if is_inside {
            done > 0
        } else {
            timer
                .starts
                .iter()
                .any(|start| start.end.is_some_and(|(_, is_ok)| is_ok))
        };
        verdict.in_transaction += done;
        if !is_armed || is_handled || is_dead.is_some() || cancelled.is_some() {
            return;
        }
        if is_maybe_cancelled || self.may_be_replaced(timer) {
            verdict.unknown += 1;
            return;
        }
        let offence = if is_inside && was_handled {
            Offence::OnceInTransaction
        } else {
            Offence::Lost
        };
        verdict
            .broken
            .push((offence, number, "no handler has said Ok".to_owned()));
    }

    /// Early, doubled, replaced; and how late.
    fn judge_starts(&self, number: u64, timer: &Timer, verdict: &mut Verdict) {
        let mut starts: Vec<&Start> = timer.starts.iter().collect();
        starts.sort_by_key(|start| start.at);
        let replaced = self.replaced(timer);
        for start in &starts {
            let (at_ms, bound) = (self.ms(start.at), self.bound(timer, start.at));
            if at_ms + CLOCK_MS < bound || start.due_ms + CLOCK_MS < bound {
                let why = format!("handled at {at_ms}, due at {bound} ({})", start.due_ms);
                verdict.broken.push((Offence::Early, number, why));
            }
            if start.clock_us.is_some_and(|us| us < start.due_ms * 1_000) {
                let us = start.clock_us.unwrap_or_default();
                let why = format!("the server's clock was {us} us, due at {} ms", start.due_ms);
                verdict.broken.push((Offence::Early, number, why));
            }
            if let Some(at) = replaced
                && start.due_ms > self.ms(at) + CLAIM_MS
                && start.at > at
            {
                let why = format!("replaced at {}", self.since(at));
                verdict.broken.push((Offence::HandledReplaced, number, why));
            }
            let from = self.could_begin(timer, start);
            if timer.kind == Kind::Slow {
                // (It waits for others of its kind.)
                continue;
            }
            let is_found = timer.key.is_some() || timer.is_outbox || number >> 32 == 0;
            let lateness = match self.is_troubled(from, start.at, None) {
                true => &mut verdict.troubled,
                false if is_found => &mut verdict.calm_found,
                false => &mut verdict.calm,
            };
            lateness.late(from, start.at);
            let late_ms = (start.at - from) / MS;
            if late_ms > 2 * self.ttl_ms + FORGOTTEN_MS {
                let why = format!("{late_ms} ms late at {}", self.since(start.at));
                verdict.broken.push((Offence::Forgotten, number, why));
            }
        }
        if timer.kind == Kind::InTransaction {
            // (What its table has, counts.)
            return;
        }
        for pair in starts.windows(2) {
            let (one, other) = (pair[0], pair[1]);
            let is_failed = one.end.is_some_and(|(at, is_ok)| !is_ok && at < other.at);
            if is_failed {
                continue;
            }
            if one.node == other.node && one.fence == other.fence {
                let why = format!("twice by node {} under the lease {}", one.node, one.fence);
                verdict.broken.push((Offence::Doubled, number, why));
            } else if self.has_reason(one, other) {
                verdict.again += 1;
            } else {
                let why = format!(
                    "by the nodes {} and {}, leases {} and {}",
                    one.node, other.node, one.fence, other.fence
                );
                verdict.broken.push((Offence::Doubled, number, why));
            }
        }
    }

    /// Whether something has ended the first node, or its lease.
    fn has_reason(&self, one: &Start, other: &Start) -> bool {
        let (from, to) = (one.at, other.at);
        let lease = (self.ttl_ms + 1_000) * MS;
        self.happened.iter().any(|trouble| {
            let is_of = trouble.node == Some(one.node) || trouble.node == Some(other.node);
            match trouble.what {
                Trouble::Kill => is_of && (from.saturating_sub(MS)..=to).contains(&trouble.from),
                Trouble::PauseLong | Trouble::PauseShort => {
                    is_of && trouble.from <= to && trouble.to + MS >= from.saturating_sub(lease)
                }
                Trouble::ServerKilled | Trouble::ServerEnded | Trouble::Promote => {
                    trouble.from <= to && trouble.to + 2_000 * MS >= from.saturating_sub(lease)
                }
                Trouble::Stall => trouble.from <= to && trouble.to >= from.saturating_sub(lease),
                _ => false,
            }
        })
    }

    /// A node that was stopped between its look at its lease and its handler's first instruction
    /// calls the handler when it goes on. No node can prevent that: the fence tells.
    fn was_paused_before(&self, start: &Start) -> bool {
        self.happened.iter().any(|trouble| {
            let is_pause = trouble.what.is_pause() && trouble.node == Some(start.node);
            let just = (trouble.from..=trouble.to + 1_000 * MS).contains(&start.at);
            is_pause && just
        })
    }

    fn calls_of_key(&self, timer: &Timer) -> impl Iterator<Item = &'a Call> {
        let calls = timer.key.as_ref().and_then(|key| self.ledger.keys.get(key));
        calls.into_iter().flatten()
    }

    /// Not before this time of the server's may a timer be handled, as seen at this moment.
    fn bound(&self, timer: &Timer, at: Moment) -> i64 {
        let mut bound = self.due_ms(timer.due, timer.asked);
        for call in &timer.calls {
            let Some(due) = call.due.filter(|_| call.asked < at) else {
                continue;
            };
            let due = self.due_ms(due, call.asked);
            match call.answer {
                Some((_, false)) => {}
                Some((answered, true)) if answered < at => bound = due,
                _ => bound = bound.min(due),
            }
        }
        for call in self.calls_of_key(timer) {
            let is_made = call.answer.is_none_or(|(_, is_done)| is_done);
            if let Some(due) = call.due.filter(|_| is_made && call.asked < at) {
                bound = bound.min(self.due_ms(due, call.asked));
            }
        }
        bound
    }

    fn others<'b>(&'b self, timer: &'b Timer) -> impl Iterator<Item = &'a Timer> + 'b {
        let key = timer.key.as_deref();
        let numbers = key
            .and_then(|key| self.by_key.get(key))
            .into_iter()
            .flatten();
        let others = numbers.filter_map(|number| self.ledger.timers.get(number));
        let is_other = |other: &&Timer| !std::ptr::eq(*other, timer);
        others
            .filter(is_other)
            .filter(|other| other.arming != Arming::RolledBack)
    }

    /// When another timer had surely taken its key.
    fn replaced(&self, timer: &Timer) -> Option<Moment> {
        let Arming::Armed(armed) = timer.arming else {
            return None;
        };
        let after = self.others(timer).filter(|other| other.asked > armed);
        let answered = after.filter_map(|other| match other.arming {
            Arming::Armed(at) => Some(at),
            _ => None,
        });
        answered.min()
    }

    /// Whether another timer may have taken its key, or its key may have been cancelled.
    fn may_be_replaced(&self, timer: &Timer) -> bool {
        let is_after = |answered: Option<Moment>| answered.is_none_or(|at| at > timer.asked);
        let by_other = self.others(timer).any(|other| match other.arming {
            Arming::Armed(at) => is_after(Some(at)),
            _ => true,
        });
        by_other
            || self.calls_of_key(timer).any(|call| {
                let is_cancel = call.due.is_none();
                is_cancel
                    && call
                        .answer
                        .is_none_or(|(at, is_done)| is_done && is_after(Some(at)))
            })
    }

    /// Timers that a cancel by key has surely ended, and when.
    fn cancelled_by_key(&self) -> HashMap<u64, Moment> {
        let mut cancelled = HashMap::new();
        for (key, calls) in &self.ledger.keys {
            let Some(numbers) = self.by_key.get(key.as_str()) else {
                continue;
            };
            for call in calls {
                let Some((answered, true)) = call.answer.filter(|_| call.due.is_none()) else {
                    continue;
                };
                let timers: Vec<_> = numbers
                    .iter()
                    .map(|&it| (it, &self.ledger.timers[&it]))
                    .collect();
                let end = |timer: &Timer| match timer.arming {
                    Arming::Armed(at) => at,
                    _ => Moment::MAX,
                };
                let was_replaced = |timer: &Timer| {
                    let is_between =
                        |other: &Timer| other.asked > end(timer) && end(other) < call.asked;
                    timers.iter().any(|(_, other)| is_between(other))
                };
                let may_have_it = timers.iter().filter(|(_, timer)| {
                    timer.asked < answered
                        && timer.arming != Arming::RolledBack
                        && !was_replaced(timer)
                });
                let may_have_it: Vec<_> = may_have_it.collect();
                if let [(number, timer)] = may_have_it[..]
                    && end(timer) < call.asked
                {
                    cancelled.insert(*number, answered);
                }
            }
        }
        cancelled
    }

    /// A time of the server's as a moment.
    fn moment(&self, ms: i64) -> Moment {
        let offset = self.facts.offsets.first().map_or(0, |&(_, offset)| offset);
        (ms * 1_000_000 - offset).max(0) as Moment
    }

    /// How long timers had to wait whose node was killed, or paused past its lease.
    fn take_overs(&self, verdict: &mut Verdict) {
        for trouble in self.happened {
            let limit_ms = self.ttl_ms + TAKE_OVER_MS;
            let to = trouble.from + limit_ms * MS;
            let is_one = matches!(trouble.what, Trouble::Kill | Trouble::PauseLong);
            let is_alone = !self.is_troubled(trouble.from, to.max(trouble.to), Some(trouble));
            if is_one && is_alone && !trouble.partitions.is_empty() {
                verdict.measured_alone += 1;
                for (&number, timer) in &self.ledger.timers {
                    self.take_over(trouble, number, timer, limit_ms, verdict);
                }
            }
        }
    }

    fn take_over(
        &self,
        trouble: &Happened,
        number: u64,
        timer: &Timer,
        limit_ms: u64,
        verdict: &mut Verdict,
    ) {
        let from = trouble.from;
        let due = self.ms(from) - 1_000..=self.ms(from) + self.ttl_ms as i64;
        let after = timer.starts.iter().filter(|start| start.at > from);
        let Some(start) = after.min_by_key(|start| start.at) else {
            return;
        };
        if !due.contains(&start.due_ms) {
            return;
        }
        let begin = self.could_begin(timer, start).max(from).min(start.at);
        let is_its = trouble.partitions.contains(&((timer.id >> 112) as u16));
        let lateness = match (is_its, trouble.what) {
            (false, Trouble::Kill) => return,
            (false, _) => &mut verdict.others,
            (true, Trouble::Kill) => &mut verdict.take_over,
            (true, _) => &mut verdict.paused_over,
        };
        lateness.late(begin, start.at);
        let late_ms = (start.at - begin) / MS;
        // (A slow one waits for others of its kind, of which few are handled at one time.)
        if is_its && late_ms > limit_ms && timer.kind != Kind::Slow {
            let why = format!(
                "{late_ms} ms after: {}, node {:?} at {}",
                trouble.what.name(),
                trouble.node.unwrap_or_default(),
                self.since(from)
            );
            verdict.broken.push((Offence::SlowTakeOver, number, why));
        }
    }

    /// From when on a timer could be handled, as it was when it was.
    fn could_begin(&self, timer: &Timer, start: &Start) -> Moment {
        let armed = match timer.arming {
            Arming::Armed(at) if at < start.at => at,
            _ => timer.asked,
        };
        let calls = timer.calls.iter().chain(self.calls_of_key(timer));
        let moves = calls.filter(|call| call.due.is_some() && call.asked < start.at);
        let moved = moves.filter_map(|call| call.answer).map(|(at, _)| at);
        let from = moved.max().unwrap_or(0).max(armed);
        from.max(self.moment(start.due_ms)).min(start.at)
    }

    /// Seconds since the run began.
    pub(crate) fn since(&self, at: Moment) -> String {
        format!("{:.3} s", (at as i64 - self.begun as i64) as f64 / 1e9)
    }

    /// All that is known of a timer, in order.
    pub(crate) fn story(&self, number: u64) -> String {
        let Some(timer) = self.ledger.timers.get(&number) else {
            return String::new();
        };
        let mut lines: Vec<(Moment, String)> = Vec::new();
        let mut tell = |at: Moment, what: String| lines.push((at, what));
        let of = if timer.is_outbox {
            ", in a transaction"
        } else {
            ""
        };
        let due = self.due_ms(timer.due, timer.asked);
        tell(
            timer.asked,
            format!("asked for{of}: {:?}, due {due}", timer.due),
        );
        if let Arming::Armed(at) = timer.arming {
            tell(at, "armed".to_owned());
        }
        for (by, call) in timer
            .calls
            .iter()
            .map(|call| ("id", call))
            .chain(self.calls_of_key(timer).map(|call| ("key", call)))
        {
            let what = match call.due {
                None => format!("cancel by {by}"),
                Some(due) => format!("move by {by} to {:?}", self.due_ms(due, call.asked)),
            };
            match call.answer {
                None => tell(call.asked, format!("{what}: no answer")),
                Some((at, is_done)) => {
                    tell(call.asked, format!("{what} is asked for"));
                    tell(at, format!("{what}: {is_done}"));
                }
            }
        }
        for other in self.others(timer) {
            tell(
                other.asked,
                "its key is asked for by another timer".to_owned(),
            );
            if let Arming::Armed(at) = other.arming {
                tell(at, "its key was given to that".to_owned());
            }
        }
        for start in &timer.starts {
            tell(
                start.at,
                format!(
                    "handled by node {}: lease {}, attempt {}, due {}, clock {:?}",
                    start.node, start.fence, start.attempt, start.due_ms, start.clock_us
                ),
            );
            if let Some((at, is_ok)) = start.end {
                tell(
                    at,
                    format!(
                        "node {}'s handler says {}",
                        start.node,
                        if is_ok { "Ok" } else { "Err" }
                    ),
                );
            }
        }
        lines.sort();
        let (from, to) = (
            lines.first().map_or(0, |line| line.0),
            lines.last().map_or(0, |line| line.0),
        );
        for trouble in self.happened {
            if trouble.from <= to && trouble.to >= from {
                let node = trouble
                    .node
                    .map_or(String::new(), |node| format!(" (node {node})"));
                lines.push((trouble.from, format!("-- {}{node}", trouble.what.name())));
                lines.push((
                    trouble.to,
                    format!("-- {}{node}: over", trouble.what.name()),
                ));
            }
        }
        lines.sort();
        let key = timer.key.as_deref().unwrap_or("none");
        let mut story = format!(
            "timer {number}: {}, id {:032x}, partition {}, key {key}\n",
            timer.kind.name(),
            timer.id,
            timer.id >> 112
        );
        for (at, what) in lines {
            let _ = writeln!(story, "  {:>12} {} {what}", self.since(at), self.ms(at));
        }
        story
    }
}
