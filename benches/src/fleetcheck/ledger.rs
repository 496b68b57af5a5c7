//! Ledger: what nodes have told, by timer. The parent keeps it, which nobody kills.

use crate::wire::{Aim, Due, Event, Kind};
use std::collections::HashMap;

/// A moment on the clock that all processes have in common, in nanoseconds.
pub(crate) type Moment = u64;

/// What became of a call that arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arming {
    /// It had no answer: the timer is there, or it is not.
    Asked,
    Armed(Moment),
    RolledBack,
}

/// A call that cancels a timer, or moves it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asked: Moment,
    /// The new deadline. `None`: it cancels.
    pub(crate) due: Option<Due>,
    pub(crate) answer: Option<(Moment, bool)>,
}

/// A handler was called.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) at: Moment,
    pub(crate) node: u32,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    /// When the timer was due, as the handler was told, by the server's clock.
    pub(crate) due_ms: i64,
    /// The server's clock, in the handler's first statement.
    pub(crate) clock_us: Option<i64>,
    pub(crate) end: Option<(Moment, bool)>,
}

/// A timer.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) kind: Kind,
    pub(crate) key: Option<String>,
    pub(crate) asked: Moment,
    pub(crate) due: Due,
    pub(crate) is_outbox: bool,
    pub(crate) arming: Arming,
    pub(crate) id: u128,
    pub(crate) calls: Vec<Call>,
    pub(crate) starts: Vec<Start>,
}

/// Sums, for the lines of progress and the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) armed: u64,
    pub(crate) cancelled: u64,
    pub(crate) moved: u64,
    pub(crate) rolled_back: u64,
    pub(crate) in_doubt: u64,
    pub(crate) handled: u64,
    pub(crate) failed: u64,
}

/// What a call was about.
enum Called {
    Timer(u64, usize),
    Key(String, usize),
}

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) timers: HashMap<u64, Timer>,
    /// Calls by key.
    pub(crate) keys: HashMap<String, Vec<Call>>,
    pub(crate) sums: Sums,
    /// Answers that the store has refused, by node.
    pub(crate) stale: HashMap<u32, u64>,
    /// What must not be, as it was told.
    pub(crate) complaints: Vec<String>,
    calls: HashMap<u64, Called>,
    handlings: HashMap<u64, (u64, usize)>,
}

impl Ledger {
    /// Notes what a node has told.
    pub(crate) fn note(&mut self, node: u32, at: Moment, event: Event) {
        match event {
            Event::Ready | Event::Quiet | Event::Stopped => {}
            Event::Failed(why) => self.complaints.push(format!("node {node}: {why}")),
            Event::Stale(count) => _ = self.stale.insert(node, count),
            Event::Ask {
                number,
                kind,
                key,
                due,
                is_outbox,
            } => {
                let timer = Timer {
                    kind,
                    key,
                    asked: at,
                    due,
                    is_outbox,
                    arming: Arming::Asked,
                    id: 0,
                    calls: Vec::new(),
                    starts: Vec::new(),
                };
                self.timers.insert(number, timer);
            }
            Event::Armed { number, id } => {
                self.sums.armed += 1;
                if let Some(timer) = self.timers.get_mut(&number) {
                    (timer.arming, timer.id) = (Arming::Armed(at), id);
                }
            }
            Event::Doubt(_) => self.sums.in_doubt += 1,
            Event::RolledBack(number) => {
                self.sums.rolled_back += 1;
                if let Some(timer) = self.timers.get_mut(&number) {
                    timer.arming = Arming::RolledBack;
                }
            }
            Event::AskCancel { call, aim } => self.ask(call, aim, at, None),
            Event::AskMove { call, aim, due } => self.ask(call, aim, at, Some(due)),
            Event::Answer { call, is_done } => self.answer(call, at, is_done),
            Event::Start {
                handling,
                number,
                id,
                fence,
                attempt,
                due_ms,
            } => {
                let Some(timer) = self.timers.get_mut(&number) else {
                    let why = format!("timer {number} ({id:x}) was handled, and never armed");
                    self.complaints.push(why);
                    return;
                };
                if timer.id == 0 {
                    timer.id = id;
                } else if timer.id != id {
                    let why = format!("timer {number} has the ids {:x} and {id:x}", timer.id);
                    self.complaints.push(why);
                }
                self.handlings
                    .insert(handling, (number, timer.starts.len()));
                timer.starts.push(Start {
                    at,
                    node,
                    fence,
                    attempt,
                    due_ms,
                    clock_us: None,
                    end: None,
                });
            }
            Event::Clock { handling, us } => {
                if let Some(start) = self.start(handling) {
                    start.clock_us = Some(us);
                }
            }
            Event::End { handling, is_ok } => {
                if let Some(start) = self.start(handling) {
                    start.end = Some((at, is_ok));
                }
                self.handlings.remove(&handling);
                if is_ok {
                    self.sums.handled += 1;
                } else {
                    self.sums.failed += 1;
                }
            }
        }
    }

    fn start(&mut self, handling: u64) -> Option<&mut Start> {
        let (number, at) = *self.handlings.get(&handling)?;
        self.timers.get_mut(&number)?.starts.get_mut(at)
    }

    fn ask(&mut self, call: u64, aim: Aim, asked: Moment, due: Option<Due>) {
        let new = Call {
            asked,
            due,
            answer: None,
        };
        let called = match aim {
            Aim::Number(number) => {
                let Some(timer) = self.timers.get_mut(&number) else {
                    return;
                };
                timer.calls.push(new);
                Called::Timer(number, timer.calls.len() - 1)
            }
            Aim::Key(key) => {
                let calls = self.keys.entry(key.clone()).or_default();
                calls.push(new);
                Called::Key(key, calls.len() - 1)
            }
        };
        self.calls.insert(call, called);
    }

    fn answer(&mut self, call: u64, at: Moment, is_done: bool) {
        let called = match self.calls.remove(&call) {
            None => return,
            Some(Called::Timer(number, nth)) => {
                let timer = self.timers.get_mut(&number);
                timer.and_then(|timer| timer.calls.get_mut(nth))
            }
            Some(Called::Key(key, nth)) => {
                let calls = self.keys.get_mut(&key);
                calls.and_then(|calls| calls.get_mut(nth))
            }
        };
        if let Some(called) = called {
            called.answer = Some((at, is_done));
            let sum = if called.due.is_some() {
                &mut self.sums.moved
            } else {
                &mut self.sums.cancelled
            };
            *sum += u64::from(is_done);
        }
    }
}
