//! Verdict: which promises were broken, by the ledger and by what is in the database at the end.
//!
//! Only what can be proved counts. Moments of all processes are on one clock, so the order of an
//! answer and of a start in another process is known. Where two calls overlap, it is not: then a
//! timer may have been replaced, or may not.

mod keys;
mod story;
#[cfg(test)]
pub(crate) mod tests;

use crate::ledger::{Arming, Call, Ledger, Moment, Start, Timer};
use crate::trouble::{Happened, PAUSED, Trouble};
use crate::wire::{Due, Id, Kind};
use clap::ValueEnum;
use keys::{About, Keys};
use std::collections::{HashMap, HashSet};
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::program::about;

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

/// How much longer a timer may wait whose handler no node had for a while, in milliseconds: nodes
/// ask for it each minute.
const UNHANDLED_MS: u64 = 62_000;

/// A cancel may be refused this long before its timer is due, in milliseconds: it was handed out
/// ahead.
const AHEAD_MS: i64 = 2_000;

/// A row that is due and is still there after so long was not handled, in milliseconds.
const OVERDUE_MS: i64 = 10_000;

/// Promises, as they are broken. Reports have these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Offence {
    /// lost
    Lost,
    /// never handled, and still stored
    Left,
    /// cancelled, and still stored
    LeftCancelled,
    /// buried with attempts left
    Buried,
    /// early
    Early,
    /// with another payload
    Altered,
    /// doubled without a reason
    Doubled,
    /// handled though cancelled
    HandledCancelled,
    /// handled though replaced
    HandledReplaced,
    /// handled though rolled back
    HandledRolledBack,
    /// handled or found though the store did not have it
    HandledAbsent,
    /// handled though its kind was paused
    HandledPaused,
    /// not cancelled, long before it was due
    Refused,
    /// not once in its transaction
    OnceInTransaction,
    /// late after a kill or a pause
    SlowTakeOver,
    /// forgotten for long
    Forgotten,
}

impl Offence {
    pub(crate) fn name(self) -> String {
        about(&self)
    }
}

/// What is in the database at the end.
#[derive(Default)]
pub(crate) struct Facts {
    /// How often a handler in a transaction has committed, by the timer's number.
    pub(crate) done: HashMap<u64, u64>,
    /// Timers whose own transaction has committed.
    pub(crate) orders: HashSet<u64>,
    /// Dead letters: why, by the timer's number. (Of a timer whose arming had no answer nobody else
    /// knows the id.)
    pub(crate) dead: HashMap<u64, String>,
    /// Rows that are left, by the timer's number.
    pub(crate) left: HashMap<u64, String>,
    /// From the common clock to the server's, at some moments.
    pub(crate) offsets: Vec<(Moment, i64)>,
    /// Some nodes were of an earlier version.
    pub(crate) has_old: bool,
    /// The run broke off: there are timers that are still to come.
    pub(crate) is_cut_off: bool,
}

#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) broken: Vec<(Offence, u64, String)>,
    /// Handled again, after a kill, a pause, a trouble of the server or a stall.
    pub(crate) again: u64,
    /// Of these: on a node that was paused, after another one has cancelled or handled the timer.
    pub(crate) after_pause: u64,
    /// Cancelled after a kill that cut off the ack of a handler.
    pub(crate) after_kill: u64,
    /// Of timers that a node has armed for itself.
    pub(crate) calm: Lateness,
    /// Of timers of keys, transactions and SQL, which their node has to find.
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
    keys: Keys<'a>,
}

/// A timer that is judged.
struct Case<'a> {
    number: u64,
    timer: &'a Timer,
    /// Calls that may have changed it.
    about: Vec<About<'a>>,
    /// How often its handler in a transaction has committed.
    done: u64,
    /// Whether its own transaction has committed.
    is_order: bool,
    /// When it was surely cancelled.
    cancelled: Option<Moment>,
}

impl Verdict {
    /// How many offended so.
    pub(crate) fn count(&self, offence: Offence) -> u64 {
        self.broken.iter().filter(|one| one.0 == offence).count() as u64
    }

    fn broke(&mut self, offence: Offence, case: &Case<'_>, why: String) {
        self.broken.push((offence, case.number, why));
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        facts: &'a Facts,
        happened: &'a [Happened],
        ttl_ms: u64,
        begun: Moment,
    ) -> Self {
        Self {
            ledger,
            facts,
            happened,
            ttl_ms,
            begun,
            keys: Keys::new(ledger),
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
            Trouble::Add | Trouble::Stop | Trouble::Deploy => 2_000,
            Trouble::Stall => 1_000,
            Trouble::KindPaused => 3_000,
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
        for (number, timer) in self.ledger.timers.iter() {
            let case = self.case(number, timer);
            self.judge_store(&case, &mut verdict);
            self.judge_transactions(&case, &mut verdict);
            self.judge_cancel(&case, &mut verdict);
            self.judge_starts(&case, &mut verdict);
            self.judge_leases(&case, &mut verdict);
            self.judge_end(&case, &mut verdict);
        }
        self.take_overs(&mut verdict);
        let row = |id: &Id| (Offence::Altered, 0, format!("row {id:032x}"));
        verdict.broken.extend(self.ledger.altered.iter().map(row));
        verdict.broken.sort();
        verdict.dead = self.facts.dead.len() as u64;
        verdict
    }

    fn case(&self, number: u64, timer: &'a Timer) -> Case<'a> {
        let about = self.keys.about(number, timer);
        let cancels = about.iter().filter(|about| about.call.due.is_none());
        let cancelled = cancels.filter_map(About::made).min();
        Case {
            number,
            timer,
            about,
            done: self.facts.done.get(&number).copied().unwrap_or(0),
            is_order: self.facts.orders.contains(&number),
            cancelled,
        }
    }

    /// What the store has said of it, and what it has given out.
    fn judge_store(&self, case: &Case<'_>, verdict: &mut Verdict) {
        let timer = case.timer;
        if let Some(at) = timer.found {
            let due = self.due_ms(timer.ask.due, timer.asked);
            let is_overdue = due + OVERDUE_MS < self.ms(at) && timer.starts.is_empty();
            let offence = match case.cancelled {
                Some(cancelled) if cancelled < at => Some(Offence::LeftCancelled),
                _ => is_overdue.then_some(Offence::Left),
            };
            if let Some(offence) = offence {
                verdict.broke(offence, case, format!("found at {}", self.since(at)));
            }
        }
        if let Arming::Absent(absent) = timer.arming {
            let starts = timer.starts.iter().map(|start| start.at);
            if let Some(at) = starts.chain(timer.found).find(|&at| at > absent) {
                let [absent, at] = [absent, at].map(|at| self.since(at));
                let why = format!("not there at {absent}, and there at {at}");
                verdict.broke(Offence::HandledAbsent, case, why);
            }
        }
        if timer.ask.kind == Kind::Sealed {
            self.judge_sealed(case, verdict);
        }
    }

    /// Nobody but its own process calls for it, its deadline is never changed, and its handler
    /// never fails.
    fn judge_sealed(&self, case: &Case<'_>, verdict: &mut Verdict) {
        let timer = case.timer;
        let due = self.due_ms(timer.ask.due, timer.asked);
        if let Some(start) = timer.starts.iter().find(|start| start.due_ms != due) {
            let why = format!("due at {due} ms, by its payload at {}", start.due_ms);
            verdict.broke(Offence::Altered, case, why);
        }
        for call in &timer.calls {
            let Some((at, false)) = call.answer else {
                continue;
            };
            // An earlier call may have cancelled it, though its answer was cut off.
            let may_have_ended = |other: &Call| {
                other.asked < call.asked && !matches!(other.answer, Some((_, false)))
            };
            let was_handled = timer.starts.iter().any(|start| start.at < at);
            let may_be_gone = timer.calls.iter().any(may_have_ended);
            if !may_be_gone && !was_handled && self.ms(at) + AHEAD_MS < due {
                let why = format!("refused at {} ms, due at {due} ms", self.ms(at));
                verdict.broke(Offence::Refused, case, why);
            }
        }
    }

    /// Its own transaction, and that of its handler.
    fn judge_transactions(&self, case: &Case<'_>, verdict: &mut Verdict) {
        let timer = case.timer;
        let was_handled = !timer.starts.is_empty();
        if timer.arming == Arming::RolledBack && was_handled {
            verdict.broke(Offence::HandledRolledBack, case, String::new());
        }
        let is_undone = timer.ask.is_outbox && timer.arming == Arming::Asked && !case.is_order;
        if is_undone && was_handled {
            let why = "its transaction was not committed".to_owned();
            verdict.broke(Offence::HandledRolledBack, case, why);
        }
        if case.done > 1 {
            let why = format!("{} commits of its handler", case.done);
            verdict.broke(Offence::OnceInTransaction, case, why);
        } else if case.done == 1 && !timer.starts.iter().any(Start::is_ok) {
            let why = "its handler has committed, and never said Ok".to_owned();
            verdict.broke(Offence::OnceInTransaction, case, why);
        }
    }

    /// What was surely cancelled is not handled then, nor was it before.
    fn judge_cancel(&self, case: &Case<'_>, verdict: &mut Verdict) {
        let (timer, Some(cancelled)) = (case.timer, case.cancelled) else {
            return;
        };
        let mut after = case.about.iter().filter(|about| about.is_sure);
        if let Some(about) = after.find(|about| about.call.asked > cancelled) {
            let asked = self.since(about.call.asked);
            let why = format!("another call said true, asked at {asked}");
            verdict.broke(Offence::HandledCancelled, case, why);
        }
        if case.done > 0 {
            let why = "cancelled, and its handler has committed".to_owned();
            verdict.broke(Offence::HandledCancelled, case, why);
        }
        if self.facts.dead.contains_key(&case.number) {
            let why = "cancelled, and among the dead letters".to_owned();
            verdict.broke(Offence::HandledCancelled, case, why);
        }
        let since = self.since(cancelled);
        for start in timer.starts.iter().filter(|start| start.at > cancelled) {
            if self.pauses_before(start).next().is_some() {
                verdict.after_pause += 1;
            } else {
                let why = format!("cancelled at {since}");
                verdict.broke(Offence::HandledCancelled, case, why);
            }
        }
        let before = timer.starts.iter().filter(|start| start.at < cancelled);
        let last = before.max_by_key(|start| (start.fence, start.at));
        // (Whether a handler's transaction was committed is not known here.)
        let has_failed = |start: &Start| {
            timer.ask.kind == Kind::InTransaction || start.has_failed_before(cancelled)
        };
        // A sealed one was handled in an earlier life: the kill may have cut off its ack.
        let mut calls = timer.calls.iter();
        let cancel = calls.find(|call| call.answer == Some((cancelled, true)));
        let is_earlier = |start: &Start| {
            let is_later = cancel.is_some_and(|cancel| cancel.node > start.node);
            timer.ask.kind == Kind::Sealed && is_later
        };
        if last.is_some_and(is_earlier) {
            verdict.after_kill += 1;
        } else if last.is_some_and(|start| !has_failed(start)) {
            let why = format!("cancelled at {since}, while it was handled");
            verdict.broke(Offence::HandledCancelled, case, why);
        }
    }

    /// Handled, or kept.
    fn judge_end(&self, case: &Case<'a>, verdict: &mut Verdict) {
        let timer = case.timer;
        let is_inside = timer.ask.kind == Kind::InTransaction;
        let is_dead = self.facts.dead.get(&case.number);
        if let Some(why) = is_dead.filter(|_| !timer.ask.kind.dies()) {
            verdict.broke(Offence::Buried, case, why.clone());
        }
        if let Some(row) = self.facts.left.get(&case.number) {
            verdict.broke(Offence::Left, case, row.clone());
            return;
        }
        // What was surely moved was not handled before, and is handled then.
        let moves = case.about.iter().filter(|about| about.is_sure);
        let moved = moves.map(|about| about.call.asked).max().unwrap_or(0);
        let is_handled = if is_inside {
            case.done > 0
        } else {
            let mut starts = timer.starts.iter();
            starts.any(|start| start.is_ok() && start.at > moved)
        };
        verdict.in_transaction += case.done;
        let is_armed =
            matches!(timer.arming, Arming::Armed(_)) || timer.ask.is_outbox && case.is_order;
        if self.facts.is_cut_off
            || !is_armed
            || is_handled
            || is_dead.is_some()
            || case.cancelled.is_some()
        {
            return;
        }
        let mut cancels = case.about.iter().filter(|about| about.call.due.is_none());
        if cancels.next().is_some() || self.keys.may_be_replaced(timer) {
            verdict.unknown += 1;
            return;
        }
        let offence = if is_inside && !timer.starts.is_empty() {
            Offence::OnceInTransaction
        } else {
            Offence::Lost
        };
        verdict.broke(offence, case, "no handler has said Ok".to_owned());
    }

    /// Early, replaced; and how late.
    fn judge_starts(&self, case: &Case<'a>, verdict: &mut Verdict) {
        let timer = case.timer;
        let replaced = self.keys.replaced(timer);
        for start in &timer.starts {
            let at_ms = self.ms(start.at);
            // A node that is paused before its handler knows what was so before the pause.
            let looked = self.pauses_before(start).map(|pause| pause.from);
            let bounds = looked.chain([start.at]).map(|at| self.bound(case, at));
            let bound = bounds.min().unwrap_or(i64::MIN);
            if at_ms.min(start.due_ms) + CLOCK_MS < bound || at_ms + CLOCK_MS < start.due_ms {
                let why = format!("handled at {at_ms}, due at {bound} ({})", start.due_ms);
                verdict.broke(Offence::Early, case, why);
            }
            if let Some(us) = start.clock_us.filter(|&us| us < start.due_ms * 1_000) {
                let why = format!("the server's clock was {us} us, due at {} ms", start.due_ms);
                verdict.broke(Offence::Early, case, why);
            }
            if let Some(at) = replaced
                && start.at > at
                && start.due_ms > self.ms(at) + CLAIM_MS
            {
                let why = format!("replaced at {}", self.since(at));
                verdict.broke(Offence::HandledReplaced, case, why);
            }
            self.judge_pause(case, start, verdict);
            if !matches!(timer.ask.kind, Kind::Slow | Kind::Sealed) {
                // (A slow one waits for others of its kind, a sealed one until its file is opened.)
                self.judge_lateness(case, start, verdict);
            }
        }
    }

    /// Paused: what no node might hand out when its kind was paused is handed out by none.
    fn judge_pause(&self, case: &Case<'_>, start: &Start, verdict: &mut Verdict) {
        if case.timer.ask.kind != PAUSED {
            return;
        }
        let pause = self.happened.iter().find(|trouble| {
            let is_during = trouble.from <= start.at && start.at < trouble.to;
            let is_later = start.due_ms > self.ms(trouble.from) + CLAIM_MS;
            trouble.what == Trouble::KindPaused && is_during && is_later
        });
        if let Some(pause) = pause {
            let why = format!("paused at {}", self.since(pause.from));
            verdict.broke(Offence::HandledPaused, case, why);
        }
    }

    fn judge_lateness(&self, case: &Case<'_>, start: &Start, verdict: &mut Verdict) {
        let (timer, from) = (case.timer, self.could_begin(case, start));
        let is_found = timer.ask.key.is_some() || timer.ask.is_outbox || case.number >> 32 == 0;
        let lateness = match self.is_troubled(from, start.at, None) {
            true => &mut verdict.troubled,
            false if is_found => &mut verdict.calm_found,
            false => &mut verdict.calm,
        };
        lateness.late(from, start.at);
        let late_ms = (start.at - from) / MS;
        let waited_ms = match self.may_have_waited(case, from, start.at) {
            true if self.facts.has_old => return,
            true => UNHANDLED_MS,
            false => 0,
        };
        if late_ms > 2 * self.ttl_ms + FORGOTTEN_MS + waited_ms {
            let why = format!("{late_ms} ms late at {}", self.since(start.at));
            verdict.broke(Offence::Forgotten, case, why);
        }
    }

    /// Whether a timer may have waited for its handler in this time: in a deploy of a program
    /// without it. (It waits for longer where nodes of the earlier version own partitions: they
    /// leave it alone.)
    fn may_have_waited(&self, case: &Case<'_>, from: Moment, to: Moment) -> bool {
        let mut happened = self.happened.iter();
        let is_met = |trouble: &Happened| trouble.from <= to && trouble.to >= from;
        case.timer.ask.kind == Kind::Batch
            && happened.any(|trouble| trouble.what == Trouble::Deploy && is_met(trouble))
    }

    /// Doubled: under one lease a timer is handled again only if its handler has failed, and under
    /// the next one also if something has ended the lease before.
    fn judge_leases(&self, case: &Case<'_>, verdict: &mut Verdict) {
        let timer = case.timer;
        if timer.ask.kind == Kind::InTransaction {
            // (What its table has, counts.)
            return;
        }
        let mut starts: Vec<&Start> = timer.starts.iter().collect();
        starts.sort_by_key(|start| (start.fence, start.at));
        for pair in starts.windows(2) {
            let (one, other) = (pair[0], pair[1]);
            if one.has_failed_before(other.at) {
                continue;
            }
            if one.fence == other.fence {
                let why = format!(
                    "by the nodes {} and {} under the lease {}",
                    one.node, other.node, one.fence
                );
                verdict.broke(Offence::Doubled, case, why);
            } else if self.has_reason(one, other) {
                verdict.again += 1;
            } else {
                let why = format!(
                    "by the nodes {} and {}, leases {} and {}",
                    one.node, other.node, one.fence, other.fence
                );
                verdict.broke(Offence::Doubled, case, why);
            }
        }
    }

    /// Whether something has ended the first node, or its lease. (If a node stood still before its
    /// handler, the other node's handler may have been the first one.)
    fn has_reason(&self, one: &Start, other: &Start) -> bool {
        let (from, to) = (one.at, other.at);
        let lease = (self.ttl_ms + 1_000) * MS;
        let shows_from = from.saturating_sub(lease);
        self.happened.iter().any(|trouble| {
            let is_of = trouble.node == Some(one.node) || trouble.node == Some(other.node);
            match trouble.what {
                // (It was killed at some moment from the one to the other.)
                Trouble::Kill => {
                    trouble.node == Some(one.node) && trouble.from <= to && trouble.to >= from
                }
                Trouble::PauseLong | Trouble::PauseShort => {
                    is_of && trouble.from <= to && trouble.to + MS >= shows_from
                }
                Trouble::ServerKilled | Trouble::ServerEnded | Trouble::Promote => {
                    trouble.from <= to && trouble.to + 2_000 * MS >= shows_from
                }
                Trouble::Stall => trouble.from <= to && trouble.to >= shows_from,
                _ => false,
            }
        })
    }

    /// A node that was stopped between its look at its lease and its handler's first instruction
    /// calls the handler when it goes on. No node can prevent that: the fence tells.
    fn pauses_before(&self, start: &Start) -> impl Iterator<Item = &'a Happened> {
        let (node, at) = (start.node, start.at);
        self.happened.iter().filter(move |trouble| {
            let is_pause = trouble.what.is_pause() && trouble.node == Some(node);
            is_pause && (trouble.from..=trouble.to + 1_000 * MS).contains(&at)
        })
    }

    /// Not before this time of the server's may a timer be handled, as seen at this moment.
    fn bound(&self, case: &Case<'_>, at: Moment) -> i64 {
        let timer = case.timer;
        let calls = case.about.iter().filter(|about| about.call.asked < at);
        let moves: Vec<_> = calls
            .filter_map(|about| Some((about, about.call.due?)))
            .collect();
        // A move has replaced what had ended before it was asked for.
        let made = moves
            .iter()
            .filter(|(about, _)| about.made().is_some_and(|made| made < at));
        let last = made.map(|(about, _)| about.call.asked).max();
        let may_count = moves
            .iter()
            .filter(|(about, _)| last.is_none_or(|last| about.end() >= last));
        let dues = may_count.map(|&(about, due)| self.due_ms(due, about.call.asked));
        let first = self.due_ms(timer.ask.due, timer.asked);
        let first = last.is_none().then_some(first);
        dues.chain(first).min().unwrap_or(i64::MIN)
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
                for (number, timer) in self.ledger.timers.iter() {
                    self.take_over(trouble, number, timer, limit_ms, verdict);
                }
            }
        }
    }

    fn take_over(
        &self,
        trouble: &Happened,
        number: u64,
        timer: &'a Timer,
        limit_ms: u64,
        verdict: &mut Verdict,
    ) {
        let from = trouble.from;
        let due = self.ms(from) - 1_000..=self.ms(from) + self.ttl_ms as i64;
        let after = timer.starts.iter().filter(|start| start.at > from);
        let Some(start) = after.min_by_key(|start| start.at) else {
            return;
        };
        // (Before its call was answered a timer may not have been there: its node stood still.)
        let is_there = matches!(timer.arming, Arming::Armed(at) if at < start.at);
        if !is_there || !due.contains(&start.due_ms) {
            return;
        }
        let case = self.case(number, timer);
        let begin = self.could_begin(&case, start).max(from).min(start.at);
        // (One that came later waits beyond the time that was looked at for other trouble.)
        let in_time = start.at.min(begin + limit_ms * MS);
        if begin > from && self.is_troubled(begin, in_time, Some(trouble))
            || self.may_have_waited(&case, self.moment(start.due_ms), start.at)
        {
            return;
        }
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
        if is_its && late_ms > limit_ms && timer.ask.kind != Kind::Slow {
            let why = format!(
                "{late_ms} ms after: {}, node {:?} at {}",
                trouble.what.name(),
                trouble.node.unwrap_or_default(),
                self.since(from)
            );
            verdict.broke(Offence::SlowTakeOver, &case, why);
        }
    }

    /// From when on a timer could be handled, as it was when it was.
    fn could_begin(&self, case: &Case<'_>, start: &Start) -> Moment {
        let timer = case.timer;
        let armed = match timer.arming {
            Arming::Armed(at) if at < start.at => at,
            _ => timer.asked,
        };
        // A move without an answer may have been made at any moment.
        let calls = case.about.iter().filter(|about| {
            let asked = timer.asked..start.at;
            about.call.due.is_some() && asked.contains(&about.call.asked)
        });
        let moved = calls.map(About::end).max().unwrap_or(0);
        let from = armed.max(moved).max(self.moment(start.due_ms));
        from.min(start.at)
    }

    /// Seconds since the run began.
    pub(crate) fn since(&self, at: Moment) -> String {
        format!("{:.3} s", (at as i64 - self.begun as i64) as f64 / 1e9)
    }
}
