//! Ledger: what the parent knows of each timer, by the child's records alone. No process that was
//! killed held any of it.
//!
//! # What counts as broken
//!  - A timer whose arming was answered is lost if it was neither handled nor cancelled.
//!  - A timer whose cancel said `true` must not be handled afterwards, nor before in the same life
//!    of the child. In an earlier life it may have been: the kill cut its ack off.
//!  - A timer is handled once in a life: handlers say `Ok`. In a later life it may be handled
//!    again.
//!  - No timer is handled early, and none with another payload.
//!  - What had no answer when the child was killed is in doubt. It may have been done or not. It
//!    must stay as it is: what the store says it does not have never fires, and what it has is
//!    handled or cancelled in the end.
//!  - A cancel says `true` once, and `false` only of what was handled, cancelled, or handed out
//!    ahead. What it said `true` of is not in the store.
//!  - Nothing is handled or found that nobody has armed.
//!
//! A timer takes 19 bytes.

mod flag;
mod offences;
mod tally;

pub(crate) use offences::Offence;
pub(crate) use tally::{Pace, Tally};

use super::plan::{Fate, Plan};
use super::wire::{Commits, Id, Message, Order, Record};
use flag::{ABSENT, ARMED, CANCEL_ASKED, CANCEL_IN_DOUBT, CANCELLED, ENDED, IN_DOUBT, REFUSED};
use offences::Offences;
use std::collections::BTreeMap;
use wheelwork_kit::lateness::Lateness;

/// Cancels in one order.
const CANCELS: usize = 65_536;

/// A cancel may be refused this long before the timer is due: it was handed out ahead.
const AHEAD_US: u64 = 2_000_000;

/// A row that is due and is still there after so long was not fired. (If it is not fired later
/// either, it counts as lost twice.)
const OVERDUE_US: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Now,
    /// It is answered, or never will be.
    Over,
}

#[derive(Clone, Copy)]
struct Block {
    asked: Asked,
    /// When it was asked for: deadlines are relative to it.
    at_us: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Opening,
    Arming,
    Cancelling,
    Firing,
}

pub(crate) struct Ledger {
    plan: Plan,
    blocks: Vec<Block>,
    flags: Vec<u8>,
    /// The life in which it was handled last; 0: it was not.
    handled_in: Vec<u16>,
    ids: Vec<Id>,
    /// In doubt, with keys: the store will say what became of them.
    unresolved: Vec<u32>,
    /// The child's, from 1.
    life: u16,
    phase: Phase,
    phase_since_us: u64,
    ready_us: u64,
    open_us: u64,
    /// When the first overdue timer of this life was handled; 0: none was.
    first_overdue_us: u64,
    life_commits: Commits,
    progress: u64,
    due_last_us: u64,
    per_second: (u64, u64),
    is_done: bool,
    fault: Option<String>,
    offences: Offences,
    pub(crate) tally: Tally,
    pub(crate) commit_us: BTreeMap<u64, u64>,
    /// Of blocks, from ask to answer.
    pub(crate) arm_answers: Lateness,
    pub(crate) cancel_answers: Lateness,
    /// How long a child took to open what an earlier one has left.
    pub(crate) reopens: Lateness,
    /// From the start of that until the first timer was handled that was overdue.
    pub(crate) first_overdue: Lateness,
    /// Of timers that fell due while the child was ready for them.
    pub(crate) lateness: Lateness,
    /// Of those that fell due before that, in an earlier life or between two.
    pub(crate) lateness_across: Lateness,
}

impl Ledger {
    pub(crate) fn new(plan: Plan) -> Self {
        let (timers, blocks) = (plan.timers as usize, plan.blocks() as usize);
        let unasked = Block {
            asked: Asked::No,
            at_us: 0,
        };
        Self {
            blocks: vec![unasked; blocks],
            flags: vec![0; timers],
            handled_in: vec![0; timers],
            ids: vec![0; timers],
            unresolved: Vec::new(),
            life: 0,
            phase: Phase::Opening,
            phase_since_us: 0,
            ready_us: 0,
            open_us: 0,
            first_overdue_us: 0,
            life_commits: Commits::default(),
            progress: 0,
            due_last_us: 0,
            per_second: (0, 0),
            is_done: false,
            fault: None,
            offences: Offences::default(),
            tally: Tally::default(),
            commit_us: BTreeMap::new(),
            arm_answers: Lateness::ready(),
            cancel_answers: Lateness::ready(),
            reopens: Lateness::ready(),
            first_overdue: Lateness::ready(),
            lateness: Lateness::ready(),
            lateness_across: Lateness::ready(),
            plan,
        }
    }

    /// Steps that the job has: each timer is armed, and ends.
    pub(crate) fn steps(&self) -> u64 {
        2 * u64::from(self.plan.timers)
    }

    /// Steps that are over.
    pub(crate) fn progress(&self) -> u64 {
        self.progress
    }

    /// Whether nothing more has to become of any timer.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress == self.steps()
    }

    /// Whether the child has stopped as it should.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Why the child cannot go on.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether a child is at work.
    pub(crate) fn is_ready(&self) -> bool {
        self.phase != Phase::Opening
    }

    /// The last deadline of those that fire, of what was asked for so far.
    pub(crate) fn due_last_us(&self) -> u64 {
        self.due_last_us
    }

    /// A child begins.
    pub(crate) fn begin_life(&mut self) {
        self.life += 1;
        self.phase = Phase::Opening;
        // What is handled before it is ready was due before.
        self.ready_us = u64::MAX;
        self.first_overdue_us = 0;
        self.life_commits = Commits::default();
        let tally = &mut self.tally;
        let ended = tally.cancelled + tally.handled;
        tally.waiting_max = tally.waiting_max.max(tally.armed.saturating_sub(ended));
    }

    /// The child has ended, and all that it wrote is noted.
    pub(crate) fn end_life(&mut self, now_us: u64, was_killed: bool) {
        if self.is_ready() && self.first_overdue_us > 0 {
            let start_us = self.ready_us - self.open_us;
            let first_us = self.first_overdue_us;
            self.first_overdue.late(start_us * 1_000, first_us * 1_000);
        }
        self.end_phase(now_us, Phase::Opening);
        let commits = std::mem::take(&mut self.life_commits);
        self.tally.commits += commits.commits;
        self.tally.written_bytes += commits.written_bytes;
        for (us, count) in commits.histogram {
            *self.commit_us.entry(us).or_default() += count;
        }
        self.tally.kills += u64::from(was_killed);
        for block in 0..self.plan.blocks() {
            if self.blocks[block as usize].asked != Asked::Now {
                continue;
            }
            self.blocks[block as usize].asked = Asked::Over;
            for number in self.plan.numbers(block) {
                let line = number as usize;
                self.flags[line] |= IN_DOUBT;
                self.tally.arms_in_doubt += 1;
                let was_handled = self.handled_in[line] != 0;
                self.tally.in_doubt_done += u64::from(was_handled);
                if self.plan.key(number).is_some() && !was_handled {
                    self.unresolved.push(number);
                } else {
                    self.progress += 1;
                    self.end(line);
                }
            }
        }
        for flags in &mut self.flags {
            if *flags & CANCEL_ASKED != 0 {
                *flags = *flags & !CANCEL_ASKED | CANCEL_IN_DOUBT;
                self.tally.cancels_in_doubt += 1;
            }
        }
    }

    /// What a child is told when it is ready, as frames.
    pub(crate) fn orders(&self) -> Vec<u8> {
        let is_unasked = |block: &u32| self.blocks[*block as usize].asked == Asked::No;
        let all = 0..self.plan.blocks();
        let from = all.clone().rev().find(|block| !is_unasked(block));
        let from = from.map_or(0, |last| last + 1);
        let blocks = (0..from).filter(is_unasked).collect();
        let mut bytes = Order::Resolve(self.unresolved.clone()).frame();
        bytes.extend(Order::Arm { blocks, from }.frame());
        let to_cancel = |number: &u32| {
            let line = *number as usize;
            self.flags[line] & (ARMED | CANCELLED | REFUSED) == ARMED
                && self.handled_in[line] == 0
                && self.plan.fate(*number) != Fate::Fires
        };
        let mut cancels = Vec::new();
        for number in (0..self.plan.timers).filter(to_cancel) {
            cancels.push((number, self.ids[number as usize]));
            if cancels.len() == CANCELS {
                bytes.extend(Order::Cancel(std::mem::take(&mut cancels)).frame());
            }
        }
        bytes.extend(Order::Cancel(cancels).frame());
        bytes.extend(Order::Begin.frame());
        bytes
    }

    /// Notes a record. `now_us` is no earlier than when it was written. An error: no child of this
    /// program writes it.
    pub(crate) fn note(&mut self, record: Record, now_us: u64) -> Result<(), String> {
        match record {
            Record::Ready { at_us, open_us } => {
                self.ready_us = at_us;
                self.end_phase(at_us, Phase::Arming);
                self.open_us = open_us;
                if self.life > 1 {
                    self.reopens.late(0, open_us * 1_000);
                }
            }
            Record::Asked { block, at_us } => {
                let known = self.blocks.get_mut(block as usize);
                let block_asked = known.filter(|block| block.asked == Asked::No);
                *block_asked.ok_or("a block that is not to be armed")? = Block {
                    asked: Asked::Now,
                    at_us,
                };
                let latest = at_us + self.plan.delay_of_fires_max_us();
                self.due_last_us = self.due_last_us.max(latest);
            }
            Record::Armed { block, us, ids } => {
                let known = self.blocks.get_mut(block as usize);
                let block_asked = known.filter(|block| block.asked == Asked::Now);
                block_asked.ok_or("a block that was not asked for")?.asked = Asked::Over;
                let numbers = self.plan.numbers(block);
                if ids.len() != numbers.len() {
                    return Err(format!("{} ids of a block", ids.len()));
                }
                self.arm_answers.late(0, u64::from(us) * 1_000);
                self.did(ids.len());
                for (number, id) in numbers.zip(ids) {
                    self.arm(number as usize, id);
                }
            }
            Record::CancelAsked(numbers) => {
                for number in numbers {
                    *self.line(number)? |= CANCEL_ASKED;
                }
            }
            Record::Cancelled { us, answers } => {
                self.cancel_answers.late(0, u64::from(us) * 1_000);
                self.did(answers.len());
                for (number, answer) in answers {
                    if *self.line(number)? & CANCEL_ASKED == 0 {
                        return Err(format!("an answer for {number}, which was not asked for"));
                    }
                    self.cancelled(number, answer, now_us);
                }
            }
            Record::Handled { at_us, timers } => {
                for timer in timers {
                    self.handled(timer.number, timer.due_us, at_us);
                }
            }
            Record::Altered { id } => self
                .offences
                .add(Offence::Altered, format!("row {id:032x}")),
            Record::Resolved { number, id } => self.resolved(number, id)?,
            Record::ArmingEnded { at_us } => self.end_phase(at_us, Phase::Cancelling),
            Record::CancellingEnded { at_us } => self.end_phase(at_us, Phase::Firing),
            Record::Left { number, id } => self.left(number, id, now_us),
            Record::Commits(commits) => self.life_commits = commits,
            Record::Done { rows, dead } => {
                self.is_done = true;
                if rows + dead > 0 {
                    let left = format!("{rows} rows and {dead} dead letters");
                    self.complain(format!("{left} are left in the store"));
                }
            }
            Record::Fault(why) => self.fault = Some(why),
        }
        Ok(())
    }

    fn line(&mut self, number: u32) -> Result<&mut u8, String> {
        let line = self.flags.get_mut(number as usize);
        line.ok_or_else(|| format!("there is no timer {number}"))
    }

    fn end_phase(&mut self, at_us: u64, next: Phase) {
        let pace = match self.phase {
            Phase::Arming => Some(&mut self.tally.arming),
            Phase::Cancelling => Some(&mut self.tally.cancelling),
            Phase::Opening | Phase::Firing => None,
        };
        if let Some(pace) = pace {
            pace.us += at_us.saturating_sub(self.phase_since_us);
        }
        (self.phase, self.phase_since_us) = (next, at_us);
    }

    fn did(&mut self, operations: usize) {
        match self.phase {
            Phase::Arming => self.tally.arming.operations += operations as u64,
            Phase::Cancelling => self.tally.cancelling.operations += operations as u64,
            Phase::Opening | Phase::Firing => {}
        }
    }

    fn arm(&mut self, line: usize, id: Id) {
        self.flags[line] |= ARMED;
        self.ids[line] = id;
        self.tally.armed += 1;
        self.progress += 1;
    }

    fn end(&mut self, line: usize) {
        self.progress += u64::from(self.flags[line] & ENDED == 0);
        self.flags[line] |= ENDED;
    }

    fn cancelled(&mut self, number: u32, answer: bool, now_us: u64) {
        let line = number as usize;
        self.flags[line] &= !CANCEL_ASKED;
        let (flags, handled_in) = (self.flags[line], self.handled_in[line]);
        if answer {
            if handled_in == self.life {
                self.offend_timer(Offence::HandledCancelled, number);
            }
            if flags & CANCELLED != 0 {
                self.offend_timer(Offence::CancelledTwice, number);
            }
            self.tally.cancelled += 1;
            self.tally.cancelled_after += u64::from(handled_in != 0);
            self.flags[line] |= CANCELLED;
        } else {
            self.tally.refused += 1;
            self.flags[line] |= REFUSED;
            let is_gone = flags & (CANCEL_IN_DOUBT | CANCELLED) != 0 || handled_in != 0;
            if !is_gone && now_us + AHEAD_US < self.due_us(number) {
                self.offend_timer(Offence::Refused, number);
            }
        }
        // A refused one ends when it is handled, unless an earlier cancel may have ended it.
        if answer || flags & CANCEL_IN_DOUBT != 0 {
            self.end(line);
        }
    }

    fn handled(&mut self, number: u32, due_us: u64, at_us: u64) {
        let line = number as usize;
        let is_known = number < self.plan.timers
            && self.blocks[self.plan.block_of(number) as usize].asked != Asked::No;
        if !is_known {
            return self
                .offences
                .add(Offence::Invented, format!("timer {number}"));
        }
        let (flags, handled_in) = (self.flags[line], self.handled_in[line]);
        self.handled_in[line] = self.life;
        for (is_so, offence) in [
            (due_us != self.due_us(number), Offence::Altered),
            (at_us < due_us, Offence::Early),
            (flags & CANCELLED != 0, Offence::HandledCancelled),
            (flags & ABSENT != 0, Offence::HandledAbsent),
            (handled_in == self.life, Offence::Doubled),
        ] {
            if is_so {
                self.offend_timer(offence, number);
            }
        }
        self.end(line);
        if handled_in != 0 {
            self.tally.handled_again += u64::from(handled_in != self.life);
            return;
        }
        self.tally.handled += 1;
        self.tally.in_doubt_done += u64::from(flags & (IN_DOUBT | ARMED) == IN_DOUBT);
        let second = at_us / 1_000_000;
        if self.per_second.0 != second {
            self.per_second = (second, 0);
        }
        self.per_second.1 += 1;
        self.tally.handled_per_s_max = self.tally.handled_per_s_max.max(self.per_second.1);
        let lateness = if due_us < self.ready_us {
            if self.life > 1 && self.first_overdue_us == 0 {
                self.first_overdue_us = at_us;
            }
            &mut self.lateness_across
        } else {
            &mut self.lateness
        };
        lateness.late(due_us * 1_000, at_us * 1_000);
    }

    fn resolved(&mut self, number: u32, id: Option<Id>) -> Result<(), String> {
        let asked = self.unresolved.iter().position(|&asked| asked == number);
        let asked = asked.ok_or_else(|| format!("nobody asked for {number}"))?;
        self.unresolved.swap_remove(asked);
        let line = number as usize;
        let was_handled = self.handled_in[line] != 0;
        match id {
            Some(id) => {
                self.tally.in_doubt_done += u64::from(!was_handled);
                self.arm(line, id);
            }
            None => {
                self.flags[line] |= if was_handled { 0 } else { ABSENT };
                self.progress += 1;
                self.end(line);
            }
        }
        Ok(())
    }

    fn left(&mut self, number: u32, id: Id, now_us: u64) {
        let line = number as usize;
        let flags = self.flags.get(line).copied().unwrap_or(ABSENT);
        if flags & (ARMED | IN_DOUBT) == 0 {
            return self
                .offences
                .add(Offence::Invented, format!("timer {number}"));
        }
        let is_overdue = self.due_us(number) + OVERDUE_US < now_us;
        // What was handled a moment ago is there until its ack is stored.
        let is_unhandled = self.handled_in[line] == 0;
        for (is_so, offence) in [
            (flags & CANCELLED != 0, Offence::LeftCancelled),
            (flags & ABSENT != 0, Offence::Invented),
            (is_overdue && is_unhandled, Offence::Lost),
        ] {
            if is_so {
                self.offend_timer(offence, number);
            }
        }
        if flags & ARMED == 0 {
            // Its steps were over when it came in doubt.
            self.flags[line] |= ARMED;
            self.ids[line] = id;
            self.tally.armed += 1;
            self.tally.in_doubt_done += u64::from(is_unhandled);
        }
    }

    fn due_us(&self, number: u32) -> u64 {
        let block = self.blocks[self.plan.block_of(number) as usize];
        block.at_us + self.plan.delay_us(number)
    }

    fn offend_timer(&mut self, offence: Offence, number: u32) {
        let names = self.offences.names(offence);
        let who = if names {
            self.story(number)
        } else {
            String::new()
        };
        self.offences.add(offence, who);
    }

    /// A timer in words.
    fn story(&self, number: u32) -> String {
        let line = number as usize;
        let mut story = format!("timer {number} (id {:032x}", self.ids[line]);
        story += &format!(", due at {} us", self.due_us(number));
        for (flag, what) in [
            (ARMED, "armed"),
            (IN_DOUBT, "arming in doubt"),
            (ABSENT, "absent"),
            (CANCEL_ASKED, "cancel asked"),
            (CANCEL_IN_DOUBT, "cancel in doubt"),
            (CANCELLED, "cancel said true"),
            (REFUSED, "cancel said false"),
        ] {
            if self.flags[line] & flag != 0 {
                story = story + ", " + what;
            }
        }
        if self.handled_in[line] != 0 {
            story += &format!(", handled in life {}", self.handled_in[line]);
        }
        format!("{story}; now life {})", self.life)
    }

    /// Something else is wrong.
    pub(crate) fn complain(&mut self, what: String) {
        self.offences.complain(what);
    }

    /// How many offended so, by name: for those that are counted in the report.
    pub(crate) fn count(&self, offence: Offence) -> u64 {
        self.offences.count(offence)
    }

    /// Ends the ledger. If the job was done, what was armed and neither handled nor cancelled is
    /// lost (a cancel in doubt excuses it). Returns the promises that were broken, in words.
    pub(crate) fn verdict(&mut self) -> Vec<String> {
        let is_lost = |flags: u8, handled_in: u16| {
            flags & (ARMED | CANCELLED | CANCEL_IN_DOUBT) == ARMED && handled_in == 0
        };
        // A job that broke off has timers that are still to come.
        let judged = if self.is_done { self.plan.timers } else { 0 };
        for number in 0..judged {
            if is_lost(
                self.flags[number as usize],
                self.handled_in[number as usize],
            ) {
                self.offend_timer(Offence::Lost, number);
            }
        }
        let unasked = self.blocks.iter().filter(|block| block.asked == Asked::No);
        let unasked = unasked.count();
        if unasked > 0 {
            let all = self.blocks.len();
            let what = format!("{unasked} of {all} blocks were never armed");
            self.complain(what);
        }
        self.offences.lines()
    }
}

#[cfg(test)]
mod tests;
