//! Ledger: what processes have told, by timer. The parent keeps it, which nobody kills.
//!
//! A process is a *node*: of a fleet one of several, of a file one after the other.

use crate::timers::Timers;
use crate::wire::{Aim, Ask, Due, Event, Id};
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
    /// Its process was killed before it had an answer, and later the store did not have it.
    Absent(Moment),
}

/// A call that cancels a timer, or moves it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) node: u32,
    pub(crate) asked: Moment,
    /// The new deadline. `None`: it cancels.
    pub(crate) due: Option<Due>,
    pub(crate) answer: Option<(Moment, bool)>,
}

/// A handler was called.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) at: Moment,
    /// The timer's, as the handler was told.
    pub(crate) id: Id,
    pub(crate) node: u32,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    /// When the timer was due, as the handler was told, by the server's clock.
    pub(crate) due_ms: i64,
    /// The server's clock, in the handler's first statement.
    pub(crate) clock_us: Option<i64>,
    pub(crate) end: Option<(Moment, bool)>,
}

impl Start {
    /// Whether the handler has said `Ok`.
    pub(crate) fn is_ok(&self) -> bool {
        self.end.is_some_and(|(_, is_ok)| is_ok)
    }

    /// Whether the handler had said `Err` before this moment.
    pub(crate) fn has_failed_before(&self, at: Moment) -> bool {
        self.end.is_some_and(|(ended, is_ok)| !is_ok && ended < at)
    }
}

/// A timer.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    /// Who has armed it.
    pub(crate) node: u32,
    pub(crate) asked: Moment,
    pub(crate) ask: Ask,
    pub(crate) arming: Arming,
    pub(crate) id: Id,
    /// When it was found in the store, at the end.
    pub(crate) found: Option<Moment>,
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
    /// Calls that said `false`.
    pub(crate) refused: u64,
    pub(crate) handled: u64,
    pub(crate) failed: u64,
}

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) timers: Timers<Timer>,
    /// Calls by key.
    pub(crate) keys: HashMap<String, Vec<Call>>,
    pub(crate) sums: Sums,
    /// Answers that the store has refused, by node.
    pub(crate) stale: HashMap<u32, u64>,
    /// Rows with another payload than was stored.
    pub(crate) altered: Vec<Id>,
    /// What must not be, as it was told.
    complaints: Vec<String>,
    /// Handlers that were called of timers that nobody has asked for yet. A line of one node may be
    /// read before an earlier line of another.
    unasked: HashMap<u64, Vec<Start>>,
    /// Where the calls are that have no answer, and the handlers that have not ended.
    calls: HashMap<u64, (Aim, usize)>,
    handlings: HashMap<u64, (u64, usize)>,
}

impl Ledger {
    /// Notes what a node has told. Returns the timer that it is about, if it is about one.
    pub(crate) fn note(&mut self, node: u32, at: Moment, event: Event) -> Option<u64> {
        match event {
            Event::Ready | Event::Alive | Event::Quiet | Event::Stopped { .. } => {}
            Event::Altered(id) => self.altered.push(id),
            Event::Failed(why) => self.complaints.push(format!("node {node}: {why}")),
            Event::Stale(count) => _ = self.stale.insert(node, count),
            Event::Ask(number, ask) => {
                let timer = Timer {
                    node,
                    asked: at,
                    ask,
                    arming: Arming::Asked,
                    id: 0,
                    found: None,
                    calls: Vec::new(),
                    starts: Vec::new(),
                };
                self.timers.insert(number, timer);
                for start in self.unasked.remove(&number).unwrap_or_default() {
                    self.note_id(number, start.id);
                    self.starts(number).push(start);
                }
                return Some(number);
            }
            Event::Armed { number, id } => {
                self.sums.armed += 1;
                self.note_id(number, id);
                self.arming(number, Arming::Armed(at));
                return Some(number);
            }
            Event::Absent(number) => {
                self.arming(number, Arming::Absent(at));
                return Some(number);
            }
            Event::Doubt(_) => self.sums.in_doubt += 1,
            Event::RolledBack(number) => {
                self.sums.rolled_back += 1;
                self.arming(number, Arming::RolledBack);
            }
            Event::Call(call, aim, due) => self.call(node, call, aim, at, due),
            Event::Answer(call, is_done) => return self.answer(call, at, is_done),
            Event::Row { number, id } => {
                self.note_id(number, id);
                match self.timers.get_mut(number) {
                    Some(timer) => timer.found = Some(at),
                    None => self.complain(format!("timer {number} was found, and never asked for")),
                }
                return Some(number);
            }
            Event::Start(begun) => {
                let number = begun.number;
                self.note_id(number, begun.id);
                let starts = self.starts(number);
                let start = Start {
                    at,
                    id: begun.id,
                    node,
                    fence: begun.fence,
                    attempt: begun.attempt,
                    due_ms: begun.due_ms,
                    clock_us: begun.done_us,
                    end: begun.done_us.map(|_| (at, true)),
                };
                push(starts, start);
                let nth = starts.len() - 1;
                match begun.done_us {
                    Some(_) => self.sums.handled += 1,
                    None => _ = self.handlings.insert(begun.handling, (number, nth)),
                }
                return Some(number);
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
        None
    }

    /// Something else must not be.
    pub(crate) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    fn arming(&mut self, number: u64, arming: Arming) {
        match self.timers.get_mut(number) {
            Some(timer) => timer.arming = arming,
            None => self.complain(format!(
                "timer {number} has an answer, and was not asked for"
            )),
        }
    }

    /// What must not be, when no more is told.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let unasked = self
            .unasked
            .keys()
            .map(|number| format!("timer {number} was handled, and never asked for"));
        self.complaints.iter().cloned().chain(unasked).collect()
    }

    /// A timer has one id.
    fn note_id(&mut self, number: u64, id: u128) {
        let Some(timer) = self.timers.get_mut(number) else {
            return;
        };
        if timer.id == 0 {
            timer.id = id;
        } else if timer.id != id {
            let why = format!("timer {number} has the ids {:x} and {id:x}", timer.id);
            self.complaints.push(why);
        }
    }

    fn starts(&mut self, number: u64) -> &mut Vec<Start> {
        match self.timers.get_mut(number) {
            Some(timer) => &mut timer.starts,
            None => self.unasked.entry(number).or_default(),
        }
    }

    fn start(&mut self, handling: u64) -> Option<&mut Start> {
        let (number, nth) = *self.handlings.get(&handling)?;
        self.starts(number).get_mut(nth)
    }

    fn calls_of(&mut self, aim: &Aim) -> Option<&mut Vec<Call>> {
        match aim {
            Aim::Number(number) => Some(&mut self.timers.get_mut(*number)?.calls),
            Aim::Key(key) => Some(self.keys.entry(key.clone()).or_default()),
        }
    }

    fn call(&mut self, node: u32, call: u64, aim: Aim, asked: Moment, due: Option<Due>) {
        let Some(calls) = self.calls_of(&aim) else {
            return self.complain(format!("a call for {aim:?}, which nobody has"));
        };
        let new = Call {
            node,
            asked,
            due,
            answer: None,
        };
        push(calls, new);
        let nth = calls.len() - 1;
        self.calls.insert(call, (aim, nth));
    }

    fn answer(&mut self, call: u64, at: Moment, is_done: bool) -> Option<u64> {
        let Some((aim, nth)) = self.calls.remove(&call) else {
            self.complain(format!("an answer to call {call}, which was not asked for"));
            return None;
        };
        let called = self.calls_of(&aim)?.get_mut(nth)?;
        called.answer = Some((at, is_done));
        let sum = match called.due {
            _ if !is_done => &mut self.sums.refused,
            Some(_) => &mut self.sums.moved,
            None => &mut self.sums.cancelled,
        };
        *sum += 1;
        match aim {
            Aim::Number(number) => Some(number),
            Aim::Key(_) => None,
        }
    }
}

/// Adds one. Most vectors have one only, and there are millions of them.
fn push<T>(all: &mut Vec<T>, one: T) {
    if all.is_empty() {
        all.reserve_exact(1);
    }
    all.push(one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Begun, Kind};

    const ASK: Event = Event::Ask(
        7,
        Ask {
            kind: Kind::Plain,
            key: None,
            due: Due::At(5),
            is_outbox: false,
        },
    );

    fn begun(handling: u64, number: u64, id: u128) -> Event {
        Event::Start(Begun {
            handling,
            number,
            id,
            fence: 1,
            attempt: 1,
            due_ms: 5,
            done_us: None,
        })
    }

    fn start(handling: u64, id: u128) -> Event {
        begun(handling, 7, id)
    }

    #[test]
    fn lines_of_two_nodes_come_in_any_order() {
        let [early, late] = [true, false].map(|is_early| {
            let mut ledger = Ledger::default();
            let ask = |ledger: &mut Ledger| ledger.note(1, 1, ASK);
            if !is_early {
                ask(&mut ledger);
            }
            ledger.note(2, 3, start(1, 70));
            let (handling, us, is_ok) = (1, 9, false);
            ledger.note(2, 4, Event::Clock { handling, us });
            if is_early {
                assert_eq!(
                    ledger.complaints(),
                    ["timer 7 was handled, and never asked for"]
                );
                ask(&mut ledger);
            }
            ledger.note(2, 5, Event::End { handling, is_ok });
            ledger.note(2, 6, start(2, 70));
            ledger.note(1, 2, Event::Armed { number: 7, id: 70 });
            assert_eq!(ledger.complaints(), [""; 0]);
            format!("{:?}", ledger.timers)
        });
        assert_eq!(early, late);
        assert!(early.contains("clock_us: Some(9), end: Some((5, false))"));
        assert!(early.contains("arming: Armed(2), id: 70"));
    }

    #[test]
    fn what_nobody_has_asked_for_is_told() {
        let (number, id, call) = (9, 1, 1);
        let aim = Aim::Number(number);
        let is_done = true;
        for event in [
            Event::Armed { number, id },
            Event::Absent(number),
            Event::Row { number, id },
            Event::Call(call, aim, None),
            Event::Answer(call, is_done),
            begun(1, number, id),
        ] {
            let mut ledger = Ledger::default();
            ledger.note(1, 1, ASK);
            ledger.note(1, 2, event.clone());
            assert_eq!(ledger.complaints().len(), 1, "{event:?}");
        }
    }

    #[test]
    fn a_timer_has_one_id() {
        let two = ["timer 7 has the ids 46 and 47"];
        let armed = |id| Event::Armed { number: 7, id };
        let orders = [
            ([ASK, armed(70), start(1, 71)], true),
            ([ASK, start(1, 70), armed(71)], true),
            ([ASK, start(1, 70), start(2, 71)], true),
            ([start(1, 70), ASK, armed(71)], true),
            ([start(1, 70), start(2, 71), ASK], true),
            ([ASK, armed(70), start(1, 70)], false),
        ];
        for (events, is_broken) in orders {
            let mut ledger = Ledger::default();
            for event in events {
                ledger.note(1, 1, event);
            }
            let expected: &[_] = if is_broken { &two } else { &[] };
            assert_eq!(ledger.complaints(), expected);
        }
    }
}
