//! Wire: what a process that is killed tells its parent, and what it is told.
//!
//! A frame is the length of the rest (4 bytes), the time on the clock that all processes have in
//! common (8 bytes), and a message. It is written by `write(2)` before what it tells of goes on: so
//! what the process did before it was killed can be read, and a frame that breaks off tells of
//! nothing that was answered.
//!
//! An ask is told before the call, its answer after it. A handler tells that it starts before it
//! does anything, and how it ends before it says so.

use crate::clock::now_ns;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::Mutex;
use wheelwork_kit::lock::lock;

/// A timer's name in the store, as a number.
pub(crate) type Id = u128;

/// What becomes of a timer when it is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Has no handler: it waits for one for two seconds, and is a dead letter then. A node of an
    /// earlier version does not let it wait.
    Unknown,
    /// In a file: its payload is sealed, and its handler says `Ok`.
    Sealed,
}

/// All of them, and what the store calls them.
pub(crate) const KINDS: [(Kind, &str); 8] = [
    (Kind::Plain, "plain"),
    (Kind::Flaky, "flaky"),
    (Kind::Batch, "batch"),
    (Kind::Slow, "slow"),
    (Kind::InTransaction, "transaction"),
    (Kind::Doomed, "doomed"),
    (Kind::Unknown, "unknown"),
    (Kind::Sealed, "sealed"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        let named = KINDS.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether such a timer ends among the dead letters.
    pub(crate) fn dies(self) -> bool {
        matches!(self, Self::Doomed | Self::Unknown)
    }
}

/// When a timer is to be due, in milliseconds: from now, or by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Due {
    After(i64),
    At(i64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Aim {
    Number(u64),
    Key(String),
}

/// A timer that is about to be armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) kind: Kind,
    pub(crate) key: Option<String>,
    pub(crate) due: Due,
    /// In a transaction of its node's own.
    pub(crate) is_outbox: bool,
}

/// A handler was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) handling: u64,
    pub(crate) number: u64,
    pub(crate) id: Id,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) due_ms: i64,
    /// It has read the clock, in microseconds, and will say `Ok`: nothing more is told of it.
    pub(crate) done_us: Option<i64>,
}

/// What a process tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It runs: its store is open.
    Ready,
    /// It still runs. Told from time to time.
    Alive,
    /// Its threads arm no more.
    Quiet,
    /// It has stopped, and its store has these left.
    Stopped {
        rows: u64,
        dead: u64,
    },
    /// Its store has failed, or something else that must not be.
    Failed(String),
    /// Answers that the store has refused, so far.
    Stale(u64),
    /// The timer of this number is about to be armed.
    Ask(u64, Ask),
    /// The answer of that, or what a store says later of a timer with a key: that it is there.
    Armed {
        number: u64,
        id: Id,
    },
    /// Whether it was armed is not known.
    Doubt(u64),
    /// Its transaction was rolled back.
    RolledBack(u64),
    /// The store says of a timer with a key that it is not there.
    Absent(u64),
    /// The call of this number cancels; or moves, if there is a new deadline.
    Call(u64, Aim, Option<Due>),
    Answer(u64, bool),
    Start(Begun),
    /// The server's clock, read by the handler: in microseconds.
    Clock {
        handling: u64,
        us: i64,
    },
    End {
        handling: u64,
        is_ok: bool,
    },
    /// A row that is left at the end. It is cancelled afterwards.
    Row {
        number: u64,
        id: Id,
    },
    /// A payload that is none of the job's, or was altered.
    Altered(Id),
}

/// What a parent wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Say what the store has of these. They have keys.
    Resolve(Vec<u32>),
    /// Arm these blocks, and all from there on.
    Arm { blocks: Vec<u32>, from: u32 },
    /// Timers to cancel; in a fleet, to cancel or to move.
    Take(Vec<(u64, Id)>),
    /// That is all: begin.
    Begin,
    /// Arm no more.
    Quiet,
    /// See what is left, and stop.
    Stop,
}

/// More in a frame than this is no frame.
const FRAME_BYTES_MAX: usize = 64 << 20;

const LENGTH_BYTES: usize = 4;
const TIME_BYTES: usize = 8;

/// Adds a frame.
fn put(bytes: &mut Vec<u8>, at_ns: u64, message: &impl Serialize) {
    let start = bytes.len();
    bytes.extend([0; LENGTH_BYTES]);
    bytes.extend(at_ns.to_le_bytes());
    let all = postcard::to_extend(message, std::mem::take(bytes));
    *bytes = all.expect("memory grows");
    let length = (bytes.len() - start - LENGTH_BYTES) as u32;
    bytes[start..][..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Messages of one time, as frames.
pub(crate) fn frames<M: Serialize>(at_ns: u64, messages: &[M]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 * messages.len());
    messages
        .iter()
        .for_each(|message| put(&mut bytes, at_ns, message));
    bytes
}

/// Makes messages of bytes as they come.
#[derive(Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    at: usize,
}

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next one, with its time; `None`: its frame is not complete. An error: these bytes are no
    /// frames.
    pub(crate) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<(u64, M)>, String> {
        let rest = &self.bytes[self.at..];
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if !(TIME_BYTES + 1..=FRAME_BYTES_MAX).contains(&length) {
            return Err(format!("a frame of {length} bytes"));
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let (time, message) = frame.split_at(TIME_BYTES);
        let at_ns = u64::from_le_bytes(*time.first_chunk().expect("it is as long"));
        let message = match postcard::take_from_bytes(message) {
            Ok((message, [])) => message,
            Ok((_, rest)) => return Err(format!("a frame with {} bytes more", rest.len())),
            Err(error) => return Err(format!("a frame that is no message: {error}")),
        };
        self.at += LENGTH_BYTES + length;
        Ok(Some((at_ns, message)))
    }
}

/// Tells events, each call in one piece.
pub(crate) struct Teller(Mutex<Box<dyn Write + Send>>);

impl Teller {
    /// Where they go: without a buffer, so that what was written survives this process.
    pub(crate) fn new(pipe: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(pipe)))
    }

    pub(crate) fn tell(&self, event: &Event) -> Result<(), String> {
        self.tell_all(std::slice::from_ref(event))
    }

    /// Events of one time. (They are told in the order of their times.)
    pub(crate) fn tell_all(&self, events: &[Event]) -> Result<(), String> {
        let mut pipe = lock(&self.0);
        let told = pipe.write_all(&frames(now_ns(), events));
        told.map_err(|error| format!("the parent has gone: {error}"))
    }

    /// Tells events. Where nobody hears them nobody would know what this process does: it ends.
    pub(crate) fn tell_or_end(&self, events: &[Event]) {
        if self.tell_all(events).is_err() {
            std::process::exit(3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Puts messages through the wire in pieces of each size.
    fn assert_pass<M>(messages: &[M])
    where
        M: Serialize + DeserializeOwned + Clone + PartialEq + Debug,
    {
        let bytes = frames(17, messages);
        for size in [1, 7, bytes.len()] {
            let (mut decoder, mut read) = (Decoder::default(), Vec::new());
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(message) = decoder.next::<M>().expect("these are frames") {
                    read.push(message);
                }
            }
            let expected: Vec<_> = messages.iter().map(|one| (17, one.clone())).collect();
            assert_eq!(read, expected);
        }
        // What breaks off is not there.
        let mut decoder = Decoder::default();
        decoder.push(&bytes[..bytes.len() - 1]);
        let count = std::iter::from_fn(|| decoder.next::<M>().expect("these are frames")).count();
        assert_eq!(count, messages.len() - 1);
    }

    #[test]
    fn events_pass() {
        assert_pass(&[
            Event::Ready,
            Event::Failed("the store has failed".to_owned()),
            Event::Ask(
                1 << 40,
                Ask {
                    kind: Kind::InTransaction,
                    key: Some("k7".to_owned()),
                    due: Due::At(-5),
                    is_outbox: true,
                },
            ),
            Event::Call(9, Aim::Key("k7".to_owned()), Some(Due::After(20))),
            Event::Start(Begun {
                handling: 3,
                number: 7,
                id: u128::MAX,
                fence: 2,
                attempt: 1,
                due_ms: 1 << 41,
                done_us: Some(-1),
            }),
            Event::Stopped { rows: 0, dead: 1 },
        ]);
    }

    #[test]
    fn orders_pass() {
        assert_pass(&[
            Order::Resolve(vec![16, 32]),
            Order::Arm {
                blocks: vec![3, 5],
                from: 8,
            },
            Order::Take(vec![(1, 1 << 100), (2, 2)]),
            Order::Stop,
        ]);
    }

    #[test]
    fn other_bytes_are_no_frames() {
        let mut unknown = frames(1, &[Order::Begin]);
        *unknown.last_mut().expect("it has a message") = 99;
        let mut longer = frames(1, &[Order::Begin]);
        longer.push(7);
        longer[0] += 1;
        for bytes in [vec![0; 16], vec![255; 16], unknown, longer] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert!(decoder.next::<Order>().is_err(), "{bytes:?}");
        }
    }
}
