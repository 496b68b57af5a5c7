//! Wire: what a node tells the parent, a line each. A line begins with the time on the clock that
//! all processes have in common.
//!
//! An ask is told before the call, its answer after it. A handler tells that it starts before it
//! does anything, and how it ends before it says so.

use crate::clock::now_ns;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::mpsc::SyncSender;
use wheelwork_kit::lock::lock;

/// What becomes of a timer when it is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// Fails up to twice, or panics.
    Flaky,
    Batch,
    /// Takes some 100 ms.
    Slow,
    /// Works in the transaction in which its timer is acknowledged.
    InTransaction,
    /// Always fails: a dead letter after three attempts.
    Doomed,
    /// Has no handler.
    Unknown,
}

pub(crate) const KINDS: [(Kind, &str); 7] = [
    (Kind::Plain, "plain"),
    (Kind::Flaky, "flaky"),
    (Kind::Batch, "batch"),
    (Kind::Slow, "slow"),
    (Kind::InTransaction, "transaction"),
    (Kind::Doomed, "doomed"),
    (Kind::Unknown, "unknown"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        let named = KINDS.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    fn of(name: &str) -> Option<Self> {
        let named = KINDS.iter().find(|(_, other)| *other == name);
        named.map(|(kind, _)| *kind)
    }

    /// Whether such a timer ends among the dead letters.
    pub(crate) fn dies(self) -> bool {
        matches!(self, Self::Doomed | Self::Unknown)
    }
}

/// When a timer is to be due, in milliseconds: from now, or by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    After(i64),
    At(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Number(u64),
    Key(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The node runs.
    Ready,
    /// Its threads arm no more.
    Quiet,
    Stopped,
    /// Its store has failed, or something else that must not be.
    Failed(String),
    /// Answers that the store has refused, so far.
    Stale(u64),
    Ask {
        number: u64,
        kind: Kind,
        key: Option<String>,
        due: Due,
        is_outbox: bool,
    },
    Armed {
        number: u64,
        id: u128,
    },
    /// Whether it was armed is not known.
    Doubt(u64),
    /// Its transaction was rolled back.
    RolledBack(u64),
    AskCancel {
        call: u64,
        aim: Aim,
    },
    AskMove {
        call: u64,
        aim: Aim,
        due: Due,
    },
    Answer {
        call: u64,
        is_done: bool,
    },
    Start {
        handling: u64,
        number: u64,
        id: u128,
        fence: u64,
        attempt: u32,
        due_ms: i64,
    },
    /// The server's clock, read by the handler: in microseconds.
    Clock {
        handling: u64,
        us: i64,
    },
    End {
        handling: u64,
        is_ok: bool,
    },
}

impl Event {
    /// As a line.
    pub(crate) fn line(&self, at_ns: u64) -> String {
        let mut line = format!("{at_ns} ");
        let text = |due: &Due| match due {
            Due::After(ms) => format!("+{ms}"),
            Due::At(ms) => format!("@{ms}"),
        };
        let aimed = |aim: &Aim| match aim {
            Aim::Number(number) => number.to_string(),
            Aim::Key(key) => key.clone(),
        };
        let _ = match self {
            Self::Ready => write!(line, "ready"),
            Self::Quiet => write!(line, "quiet"),
            Self::Stopped => write!(line, "stopped"),
            Self::Failed(why) => write!(line, "failed {}", why.replace('\n', " ")),
            Self::Stale(count) => write!(line, "stale {count}"),
            Self::Ask {
                number,
                kind,
                key,
                due,
                is_outbox,
            } => {
                let key = key.as_deref().unwrap_or("-");
                let outbox = u8::from(*is_outbox);
                write!(
                    line,
                    "ask {number} {} {key} {} {outbox}",
                    kind.name(),
                    text(due)
                )
            }
            Self::Armed { number, id } => write!(line, "armed {number} {id:x}"),
            Self::Doubt(number) => write!(line, "doubt {number}"),
            Self::RolledBack(number) => write!(line, "back {number}"),
            Self::AskCancel { call, aim } => write!(line, "cancel {call} {}", aimed(aim)),
            Self::AskMove { call, aim, due } => {
                write!(line, "move {call} {} {}", aimed(aim), text(due))
            }
            Self::Answer { call, is_done } => write!(line, "answer {call} {}", u8::from(*is_done)),
            Self::Start {
                handling,
                number,
                id,
                fence,
                attempt,
                due_ms,
            } => write!(
                line,
                "start {handling} {number} {id:x} {fence} {attempt} {due_ms}"
            ),
            Self::Clock { handling, us } => write!(line, "clock {handling} {us}"),
            Self::End { handling, is_ok } => write!(line, "end {handling} {}", u8::from(*is_ok)),
        };
        line.push('\n');
        line
    }

    /// From a line, with its time. `None`: it is none, or was cut off by a kill.
    pub(crate) fn read(line: &str) -> Option<(u64, Self)> {
        let mut words = line.split(' ');
        let at_ns = words.next()?.parse().ok()?;
        let name = words.next()?;
        let rest: Vec<&str> = words.collect();
        let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
        let bits = |at: usize| u128::from_str_radix(rest.get(at)?, 16).ok();
        let truth = |at: usize| Some(number(at)? == 1);
        let due = |at: usize| {
            let text = rest.get(at)?;
            let ms = text.get(1..)?.parse().ok()?;
            Some(if text.starts_with('+') {
                Due::After(ms)
            } else {
                Due::At(ms)
            })
        };
        let aim = |at: usize| {
            let word = rest.get(at)?;
            Some(
                word.parse()
                    .map_or_else(|_| Aim::Key((*word).to_owned()), Aim::Number),
            )
        };
        let event = match name {
            "ready" => Self::Ready,
            "quiet" => Self::Quiet,
            "stopped" => Self::Stopped,
            "failed" => Self::Failed(rest.join(" ")),
            "stale" => Self::Stale(number(0)?),
            "ask" => Self::Ask {
                number: number(0)?,
                kind: Kind::of(rest.get(1)?)?,
                key: rest
                    .get(2)
                    .filter(|key| **key != "-")
                    .map(|key| (*key).to_owned()),
                due: due(3)?,
                is_outbox: truth(4)?,
            },
            "armed" => Self::Armed {
                number: number(0)?,
                id: bits(1)?,
            },
            "doubt" => Self::Doubt(number(0)?),
            "back" => Self::RolledBack(number(0)?),
            "cancel" => Self::AskCancel {
                call: number(0)?,
                aim: aim(1)?,
            },
            "move" => Self::AskMove {
                call: number(0)?,
                aim: aim(1)?,
                due: due(2)?,
            },
            "answer" => Self::Answer {
                call: number(0)?,
                is_done: truth(1)?,
            },
            "start" => Self::Start {
                handling: number(0)?,
                number: number(1)?,
                id: bits(2)?,
                fence: number(3)?,
                attempt: rest.get(4)?.parse().ok()?,
                due_ms: rest.get(5)?.parse().ok()?,
            },
            "clock" => Self::Clock {
                handling: number(0)?,
                us: rest.get(1)?.parse().ok()?,
            },
            "end" => Self::End {
                handling: number(0)?,
                is_ok: truth(1)?,
            },
            _ => return None,
        };
        Some((at_ns, event))
    }
}

/// Lines of a node: which one, and its lines.
pub(crate) type Lines = (u32, String);

/// Tells events.
pub(crate) enum Teller {
    /// Of a node: a pipe. What was written survives the process.
    Pipe(Mutex<io::Stdout>),
    /// Of the parent itself.
    Here(SyncSender<Lines>),
}

impl Teller {
    pub(crate) fn tell(&self, event: &Event) {
        self.tell_all(std::slice::from_ref(event));
    }

    /// Events of one time, in one piece.
    pub(crate) fn tell_all(&self, events: &[Event]) {
        let at_ns = now_ns();
        let lines: String = events.iter().map(|event| event.line(at_ns)).collect();
        match self {
            Self::Pipe(pipe) => {
                let mut pipe = lock(pipe);
                let told = pipe.write_all(lines.as_bytes()).and_then(|()| pipe.flush());
                if told.is_err() {
                    // Nobody would know what this node does.
                    std::process::exit(3);
                }
            }
            Self::Here(sender) => {
                let _ = sender.send((0, lines));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let key = Some("k7".to_owned());
        let events = [
            Event::Ready,
            Event::Failed("the store has failed".to_owned()),
            Event::Stale(3),
            Event::Ask {
                number: 1 << 40,
                kind: Kind::InTransaction,
                key,
                due: Due::After(20),
                is_outbox: true,
            },
            Event::Armed {
                number: 7,
                id: u128::MAX,
            },
            Event::AskCancel {
                call: 8,
                aim: Aim::Key("k7".to_owned()),
            },
            Event::AskMove {
                call: 9,
                aim: Aim::Number(7),
                due: Due::At(-5),
            },
            Event::Answer {
                call: 9,
                is_done: true,
            },
            Event::Start {
                handling: 3,
                number: 7,
                id: 1,
                fence: 2,
                attempt: 1,
                due_ms: 5,
            },
            Event::End {
                handling: 3,
                is_ok: false,
            },
        ];
        for event in events {
            let line = event.line(17);
            let line = line.strip_suffix('\n').expect("it is a line");
            assert_eq!(Event::read(line), Some((17, event)), "{line}");
        }
        assert_eq!(Event::read("17 star"), None);
    }
}
