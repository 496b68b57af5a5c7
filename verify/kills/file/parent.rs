//! Parent: starts a process, kills it, starts it again, and keeps the ledger of what it tells.

use super::plan::{Fate, Plan};
use super::progress::Progress;
use crate::clock::{now_ns, offset_ns, system_us};
use crate::ledger::Ledger;
use crate::process::{Child, Listener, Orders, read_from};
use crate::trouble::{Happened, Trouble};
use crate::verdict::{Facts, Judge, Verdict};
use crate::wire::{Due, Event, Order};
use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use wheelwork_kit::mix::mix;

/// The parent looks at what is to be done this often, if nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Between two looks at how the system's clock goes.
const CLOCK: Duration = Duration::from_millis(100);

/// A process tells something ten times a second.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One kill in 5 hits a process that has just been started.
const OPENING: u64 = 5;

/// From the start of such a process to its kill, at the most.
const OPENING_US_MAX: u64 = 40_000;

/// From the progress at which a process is to be killed to its kill, at the most.
const JITTER_US_MAX: u64 = 10_000;

/// Pieces of what was told that may wait: a parent that falls behind lets the process wait.
const TOLD_MAX: usize = 16;

/// When a process is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long after this number of steps.
    Progress(u64, Duration),
    /// So long after it was started.
    Opening(Duration),
}

/// The moments of this number of kills, spread over the job's steps.
pub(crate) fn moments(kills: u32, seed: u64, steps: u64) -> VecDeque<Moment> {
    let random = |kill: u32, part: u64| mix(mix(seed ^ part << 40) ^ u64::from(kill));
    let moment = |kill: u32| {
        if random(kill, 1).is_multiple_of(OPENING) {
            return Moment::Opening(Duration::from_micros(random(kill, 2) % OPENING_US_MAX));
        }
        // Somewhere in the kill's share of the steps. The last 3 % are nobody's.
        let part = (f64::from(kill) + (random(kill, 3) >> 11) as f64 / (1_u64 << 53) as f64)
            / f64::from(kills);
        let jitter = Duration::from_micros(random(kill, 4) % JITTER_US_MAX);
        Moment::Progress((steps as f64 * part * 0.97) as u64, jitter)
    };
    (0..kills).map(moment).collect()
}

/// A job, as the parent knows it.
pub(crate) struct Run {
    plan: Plan,
    pub(crate) ledger: Ledger,
    pub(crate) progress: Progress,
    happened: Vec<Happened>,
    facts: Facts,
    begun: u64,
    /// The process's, from 1.
    life: u32,
    is_ready: bool,
    is_done: bool,
    /// Why the process cannot go on.
    why: Option<String>,
    /// By the system's clock, the last deadline of those that fire.
    due_last_ms: i64,
    /// Timers that waited when a process was started, at the most.
    pub(crate) waiting_max: u64,
    /// A process that is silent for longer has hung.
    pub(crate) silence_max: Duration,
}

impl Run {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            progress: Progress::new(plan.clone()),
            ledger: Ledger::default(),
            happened: Vec::new(),
            facts: Facts::default(),
            begun: now_ns(),
            life: 0,
            is_ready: false,
            is_done: false,
            why: None,
            due_last_ms: 0,
            waiting_max: 0,
            silence_max: SILENCE_MAX,
            plan,
        }
    }

    pub(crate) fn kills(&self) -> u64 {
        self.happened.len() as u64
    }

    /// Takes the job to its end, and notes all in the ledger. When all is due, and nothing has
    /// become of any timer for as long as the patience lasts, nothing will. An error: a process
    /// could not be started, or tells what no process of this program does.
    pub(crate) fn all<C: Child>(
        &mut self,
        mut moments: VecDeque<Moment>,
        patience: Duration,
        mut start: impl FnMut(u32) -> Result<C, String>,
        mut show: impl FnMut(&Self),
    ) -> Result<(), String> {
        loop {
            self.begin_life();
            let mut child = start(self.life)?;
            let watched = self.watch(&mut moments, patience, &mut child, &mut show);
            if watched.is_err() {
                child.kill();
            }
            let how = child.wait();
            let killed = watched?;
            self.end_life();
            if let Some(at) = killed {
                let kill = Happened::since(at, Trouble::Kill, Some(self.life));
                self.happened.push(kill);
            }
            show(self);
            if killed.is_none() {
                if !self.is_done {
                    let why = self.why.as_deref().unwrap_or("it did not say why");
                    let what = format!("the process ended by itself ({how}): {why}");
                    self.ledger.complain(what);
                }
                return Ok(());
            }
        }
    }

    fn begin_life(&mut self) {
        self.life += 1;
        self.is_ready = false;
        self.look_at_clock();
        let sums = &self.ledger.sums;
        let waiting = sums.armed.saturating_sub(sums.cancelled + sums.handled);
        self.waiting_max = self.waiting_max.max(waiting);
    }

    fn end_life(&mut self) {
        self.progress.end_life(&mut self.ledger, self.life);
    }

    fn look_at_clock(&mut self) {
        self.facts.offsets.push((now_ns(), offset_ns()));
    }

    /// A process has told something.
    fn hear(&mut self, at: u64, event: Event) -> Result<(), String> {
        match &event {
            Event::Failed(why) => {
                self.why = Some(why.clone());
                return Ok(());
            }
            Event::Ready => self.is_ready = true,
            Event::Stopped { rows, dead } => {
                self.is_done = true;
                if rows + dead > 0 {
                    let left = format!("{rows} rows and {dead} dead letters");
                    self.ledger
                        .complain(format!("{left} are left in the store"));
                }
            }
            Event::Ask(number, ask) => {
                self.progress.ask(*number, &self.ledger)?;
                if let Due::At(ms) = ask.due
                    && self.plan.fate(*number as u32) == Fate::Fires
                {
                    self.due_last_ms = self.due_last_ms.max(ms);
                }
            }
            _ => {}
        }
        if let Some(number) = self.ledger.note(self.life, at, event) {
            self.progress.look(number, &self.ledger, self.life);
        }
        Ok(())
    }

    /// Notes what a process tells until it ends. Returns when it was killed, if one of the moments
    /// was for that.
    fn watch(
        &mut self,
        moments: &mut VecDeque<Moment>,
        patience: Duration,
        child: &mut impl Child,
        show: &mut impl FnMut(&Self),
    ) -> Result<Option<u64>, String> {
        let (orders, events) = child.pipes();
        let (sender, told) = mpsc::sync_channel(TOLD_MAX);
        let (orders, mut listener) = (Orders::new(orders), Listener::default());
        read_from(self.life, events, sender);
        let started = Instant::now();
        let (mut heard, mut moved) = (started, (started, self.progress.steps()));
        let (mut looked, mut was_ready) = (started, false);
        let mut kill_at = match moments.front() {
            Some(Moment::Opening(after)) => Some(started + *after),
            _ => None,
        };
        let (mut killed, mut is_silent, mut is_finishing) = (None, false, false);
        loop {
            let wait = kill_at.map_or(LOOK_AGAIN, |at| {
                at.saturating_duration_since(Instant::now()).min(LOOK_AGAIN)
            });
            match told.recv_timeout(wait) {
                Ok(told) => {
                    heard = Instant::now();
                    listener.hear(&told, |at, event| self.hear(at, event))?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(killed),
            }
            let now = Instant::now();
            if now - looked > CLOCK {
                self.look_at_clock();
                looked = now;
            }
            show(self);
            if self.is_ready && !was_ready {
                was_ready = true;
                orders.give(&self.progress.orders(&self.ledger, self.life));
            }
            if killed.is_some() || is_silent {
                continue;
            }
            let steps = self.progress.steps();
            if moved.1 != steps {
                moved = (now, steps);
            }
            let is_complete = self.progress.is_complete();
            if let (None, Some(Moment::Progress(at, jitter))) = (kill_at, moments.front())
                && self.is_ready
                && (steps >= *at || is_complete)
            {
                kill_at = Some(now + *jitter);
            }
            if kill_at.is_some_and(|at| at <= now) {
                moments.pop_front();
                (killed, kill_at) = (Some(now_ns()), None);
                child.kill();
            } else if now - heard > self.silence_max {
                let seconds = self.silence_max.as_secs_f64();
                self.why = Some(format!("it was silent for {seconds} s, and was killed"));
                child.kill();
                (is_silent, self.is_done) = (true, false);
            } else if self.is_ready && !is_finishing {
                let is_stuck = now - moved.0 > patience
                    && system_us() > self.due_last_ms * 1_000 + patience.as_micros() as i64;
                if is_stuck || is_complete && moments.is_empty() {
                    is_finishing = true;
                    if !is_complete {
                        let left = self.progress.all() - steps;
                        let seconds = patience.as_secs_f64();
                        self.ledger.complain(format!(
                            "nothing came of the last {left} steps for {seconds} s"
                        ));
                    }
                    orders.give(&[Order::Stop]);
                }
            }
        }
    }

    /// Judges. Returns the verdict, and which promises were broken, in words.
    pub(crate) fn verdict(&mut self) -> (Verdict, Vec<String>) {
        // A job that broke off has timers that are still to come.
        self.facts.is_cut_off = !self.is_done;
        let judge = Judge::new(&self.ledger, &self.facts, &self.happened, 0, self.begun);
        let verdict = judge.verdict();
        let mut complaints = self.ledger.complaints();
        complaints.extend(self.progress.complaint());
        let broken = judge.broken(&verdict, complaints);
        (verdict, broken)
    }
}
