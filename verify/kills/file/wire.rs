//! Wire: the records that a child writes to its parent, and the orders that it reads.
//!
//! A frame is its length without itself (4 bytes), a tag (1 byte), and numbers, all little-endian.
//! A record is written by `write(2)` before what it tells of goes on: so what the child did before
//! it was killed can be read, and a frame that breaks off tells of nothing that was answered.

/// A timer's name in the store, as a number.
pub(crate) type Id = u128;

/// A timer that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handled {
    pub(crate) number: u32,
    /// By its payload.
    pub(crate) due_us: u64,
}

/// What a child has measured of its commits so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commits {
    pub(crate) commits: u64,
    /// Upper bounds in microseconds, and how many took that long, in ascending order.
    pub(crate) histogram: Vec<(u64, u64)>,
    /// Bytes that the process has had written to disk.
    pub(crate) written_bytes: u64,
}

/// What a child tells. All times are of the system's clock, in microseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The store is open, and timers fire.
    Ready { at_us: u64, open_us: u64 },
    /// A block is about to be armed, relative to this time.
    Asked { block: u32, at_us: u64 },
    /// The block is armed for good: how long the answers took, and the timers' ids.
    Armed { block: u32, us: u32, ids: Vec<Id> },
    /// These are about to be cancelled.
    CancelAsked(Vec<u32>),
    /// What the cancels have said, in the order in which they were asked.
    Cancelled { us: u32, answers: Vec<(u32, bool)> },
    /// A handler has these before it, since this time. Written before it says that it is done.
    Handled { at_us: u64, timers: Vec<Handled> },
    /// A payload that is none of the job's, or was altered.
    Altered { id: Id },
    /// What the store says of a timer with a key: its id if it is there.
    Resolved { number: u32, id: Option<Id> },
    /// All are armed.
    ArmingEnded { at_us: u64 },
    /// All cancels are answered.
    CancellingEnded { at_us: u64 },
    /// A row that is left at the end. It is cancelled afterwards.
    Left { number: u32, id: Id },
    /// From time to time.
    Commits(Commits),
    /// The service has stopped, and the store has these left.
    Done { rows: u64, dead: u64 },
    /// The child cannot go on.
    Fault(String),
}

/// What a parent wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Say what the store has of these. They have keys.
    Resolve(Vec<u32>),
    /// Arm these blocks, and all from there on.
    Arm { blocks: Vec<u32>, from: u32 },
    /// Cancel these.
    Cancel(Vec<(u32, Id)>),
    /// That is all: begin.
    Begin,
    /// Look for what is left, cancel it, stop.
    Finish,
}

/// More in a frame than this is no frame.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Makes a frame.
struct Frame(Vec<u8>);

impl Frame {
    fn new(tag: u8) -> Self {
        Self(vec![0, 0, 0, 0, tag])
    }

    fn u8(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn id(mut self, id: Id) -> Self {
        self.0.extend(id.to_le_bytes());
        self
    }

    fn each<T>(self, items: &[T], put: impl Fn(Self, &T) -> Self) -> Self {
        items.iter().fold(self, put)
    }

    fn end(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Reads what a frame holds. `None`: it ends too soon.
pub(crate) struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Option<Id> {
        self.take().map(Id::from_le_bytes)
    }

    /// All that is left.
    fn each<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.0.is_empty() {
            items.push(item(self)?);
        }
        Some(items)
    }
}

/// What goes over the wire.
pub(crate) trait Message: Sized {
    /// Its frame.
    fn frame(&self) -> Vec<u8>;

    /// What a frame holds. `None`: no such message.
    fn get(tag: u8, fields: &mut Fields<'_>) -> Option<Self>;
}

impl Message for Record {
    fn frame(&self) -> Vec<u8> {
        let tagged = match self {
            Self::Ready { at_us, open_us } => Frame::new(1).u64(*at_us).u64(*open_us),
            Self::Asked { block, at_us } => Frame::new(2).u32(*block).u64(*at_us),
            Self::Armed { block, us, ids } => {
                let head = Frame::new(3).u32(*block).u32(*us);
                head.each(ids, |frame, id| frame.id(*id))
            }
            Self::CancelAsked(numbers) => {
                Frame::new(4).each(numbers, |frame, number| frame.u32(*number))
            }
            Self::Cancelled { us, answers } => {
                let head = Frame::new(5).u32(*us);
                head.each(answers, |frame, (number, answer)| {
                    frame.u32(*number).u8(u8::from(*answer))
                })
            }
            Self::Handled { at_us, timers } => {
                let head = Frame::new(6).u64(*at_us);
                head.each(timers, |frame, timer| {
                    frame.u32(timer.number).u64(timer.due_us)
                })
            }
            Self::Altered { id } => Frame::new(7).id(*id),
            Self::Resolved { number, id } => {
                let head = Frame::new(8).u32(*number);
                head.each(id.as_slice(), |frame, id| frame.id(*id))
            }
            Self::ArmingEnded { at_us } => Frame::new(9).u64(*at_us),
            Self::CancellingEnded { at_us } => Frame::new(10).u64(*at_us),
            Self::Left { number, id } => Frame::new(11).u32(*number).id(*id),
            Self::Commits(of) => {
                let head = Frame::new(12).u64(of.commits).u64(of.written_bytes);
                head.each(&of.histogram, |frame, (us, count)| {
                    frame.u64(*us).u64(*count)
                })
            }
            Self::Done { rows, dead } => Frame::new(13).u64(*rows).u64(*dead),
            Self::Fault(why) => Frame::new(14).each(why.as_bytes(), |frame, byte| frame.u8(*byte)),
        };
        tagged.end()
    }

    fn get(tag: u8, fields: &mut Fields<'_>) -> Option<Self> {
        Some(match tag {
            1 => Self::Ready {
                at_us: fields.u64()?,
                open_us: fields.u64()?,
            },
            2 => Self::Asked {
                block: fields.u32()?,
                at_us: fields.u64()?,
            },
            3 => Self::Armed {
                block: fields.u32()?,
                us: fields.u32()?,
                ids: fields.each(Fields::id)?,
            },
            4 => Self::CancelAsked(fields.each(Fields::u32)?),
            5 => Self::Cancelled {
                us: fields.u32()?,
                answers: fields.each(|fields| Some((fields.u32()?, fields.u8()? != 0)))?,
            },
            6 => Self::Handled {
                at_us: fields.u64()?,
                timers: fields.each(|fields| {
                    Some(Handled {
                        number: fields.u32()?,
                        due_us: fields.u64()?,
                    })
                })?,
            },
            7 => Self::Altered { id: fields.id()? },
            8 => Self::Resolved {
                number: fields.u32()?,
                id: fields.id(),
            },
            9 => Self::ArmingEnded {
                at_us: fields.u64()?,
            },
            10 => Self::CancellingEnded {
                at_us: fields.u64()?,
            },
            11 => Self::Left {
                number: fields.u32()?,
                id: fields.id()?,
            },
            12 => Self::Commits(Commits {
                commits: fields.u64()?,
                written_bytes: fields.u64()?,
                histogram: fields.each(|fields| Some((fields.u64()?, fields.u64()?)))?,
            }),
            13 => Self::Done {
                rows: fields.u64()?,
                dead: fields.u64()?,
            },
            14 => {
                let text = fields.each(Fields::u8)?;
                Self::Fault(String::from_utf8_lossy(&text).into_owned())
            }
            _ => return None,
        })
    }
}

impl Message for Order {
    fn frame(&self) -> Vec<u8> {
        let tagged = match self {
            Self::Resolve(numbers) => {
                Frame::new(1).each(numbers, |frame, number| frame.u32(*number))
            }
            Self::Arm { blocks, from } => {
                let head = Frame::new(2).u32(*from);
                head.each(blocks, |frame, block| frame.u32(*block))
            }
            Self::Cancel(timers) => {
                Frame::new(3).each(timers, |frame, (number, id)| frame.u32(*number).id(*id))
            }
            Self::Begin => Frame::new(4),
            Self::Finish => Frame::new(5),
        };
        tagged.end()
    }

    fn get(tag: u8, fields: &mut Fields<'_>) -> Option<Self> {
        Some(match tag {
            1 => Self::Resolve(fields.each(Fields::u32)?),
            2 => Self::Arm {
                from: fields.u32()?,
                blocks: fields.each(Fields::u32)?,
            },
            3 => Self::Cancel(fields.each(|fields| Some((fields.u32()?, fields.id()?)))?),
            4 => Self::Begin,
            5 => Self::Finish,
            _ => return None,
        })
    }
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

    /// The next one; `None`: its frame is not complete. An error: these bytes are no frames.
    pub(crate) fn next<M: Message>(&mut self) -> Result<Option<M>, String> {
        let rest = &self.bytes[self.at..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if !(1..=FRAME_BYTES_MAX).contains(&length) {
            return Err(format!("a frame of {length} bytes"));
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let mut fields = Fields(&frame[1..]);
        let message = M::get(frame[0], &mut fields);
        let message = message.ok_or_else(|| format!("no message has tag {}", frame[0]))?;
        self.at += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Puts messages through the wire in pieces of each size.
    fn assert_pass<M: Message + PartialEq + Debug>(messages: &[M]) {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::frame).collect();
        for size in [1, 7, bytes.len()] {
            let (mut decoder, mut read) = (Decoder::default(), Vec::<M>::new());
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(message) = decoder.next().expect("these are frames") {
                    read.push(message);
                }
            }
            assert_eq!(read, messages);
        }
        // What breaks off is not there.
        let mut decoder = Decoder::default();
        decoder.push(&bytes[..bytes.len() - 1]);
        let count = std::iter::from_fn(|| decoder.next::<M>().expect("these are frames")).count();
        assert_eq!(count, messages.len() - 1);
    }

    #[test]
    fn records_pass() {
        let handled = Handled {
            number: 5,
            due_us: 1 << 50,
        };
        assert_pass(&[
            Record::Ready {
                at_us: 1 << 50,
                open_us: 2,
            },
            Record::Asked {
                block: 7,
                at_us: 1 << 51,
            },
            Record::Armed {
                block: 7,
                us: 250,
                ids: vec![1 << 100, 3],
            },
            Record::CancelAsked(vec![1, u32::MAX]),
            Record::Cancelled {
                us: 9,
                answers: vec![(1, true), (u32::MAX, false)],
            },
            Record::Handled {
                at_us: 12,
                timers: vec![handled; 3],
            },
            Record::Altered { id: 1 << 127 },
            Record::Resolved {
                number: 16,
                id: Some(4),
            },
            Record::Resolved {
                number: 32,
                id: None,
            },
            Record::ArmingEnded { at_us: 1 },
            Record::CancellingEnded { at_us: 2 },
            Record::Left { number: 1, id: 2 },
            Record::Commits(Commits {
                commits: 3,
                histogram: vec![(100, 1), (200, 2)],
                written_bytes: 4096,
            }),
            Record::Done { rows: 0, dead: 1 },
            Record::Fault("the disk is full".to_string()),
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
            Order::Cancel(vec![(1, 1 << 100), (2, 2)]),
            Order::Begin,
            Order::Finish,
        ]);
    }

    #[test]
    fn other_bytes_are_no_frames() {
        for bytes in [[0; 5], [255; 5], [1, 0, 0, 0, 99]] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert!(decoder.next::<Record>().is_err(), "{bytes:?}");
        }
    }
}
