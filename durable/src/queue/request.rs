//! Request: what callers and handlers want of the writer.

use super::ticket::Teller;
use crate::handler::delivery::{Delivery, Done, Settlement};
use crate::handler::error::DurableError;
use crate::store::contract::{Settled, Target, TrialBegun};
use crate::store::fleet::Fleet;
use crate::store::row::{DeadLetter, DurableId, Row, StoreTime};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A timer that is to be armed.
pub(crate) struct NewTimer {
    pub(crate) kind: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) due: StoreTime,
    pub(crate) payload: Arc<[u8]>,
    pub(crate) calendar: Option<Arc<str>>,
}

impl NewTimer {
    /// Bytes of its payload, kind, key and calendar.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [Some(&self.kind), self.key.as_ref(), self.calendar.as_ref()];
        let texts = texts.into_iter().flatten().map(|text| text.len());
        self.payload.len() + texts.sum::<usize>()
    }
}

/// What the writer is asked for. Each request but `Look` and the last ones has a teller for its
/// answer.
pub(crate) enum Request {
    Arm(NewTimer, Teller<DurableId>),
    ArmMany(Vec<NewTimer>, Teller<Vec<DurableId>>),
    Cancel(Target, Teller<bool>),
    CancelMany(Vec<DurableId>, Teller<usize>),
    CancelKind(Arc<str>, Teller<usize>),
    Move(Target, StoreTime, Teller<bool>),
    Revive(DurableId, StoreTime, Teller<bool>),
    Discard(DurableId, Teller<bool>),
    Get(Target, Teller<Option<Row>>),
    List(RangeInclusive<StoreTime>, usize, Teller<Vec<Vec<Row>>>),
    Dead(Option<DurableId>, usize, Teller<Vec<Vec<DeadLetter>>>),
    /// Nothing is handed out any more: the window lets go of its rows.
    Empty(Teller<()>),
    /// Gives the leases back, and ends.
    Stop(Teller<()>),
    /// Who owns what.
    Fleet(Teller<Fleet>),
    /// A suspect is about to be handled alone: its crashes then. The answer says whether that is
    /// stored, and it may begin.
    Begin(Settled, u32, Teller<TrialBegun>),
    /// Another node may have done something.
    Look,
    /// A delivery is done.
    Done(Done),
    /// A delivery is done, and that is stored already. The runs in a row that were made up for.
    #[cfg(feature = "postgres")]
    Acked(Done, u32),
    /// A delivery has ended otherwise.
    Settle(Box<Settlement>),
    /// The wheel fired before the timer could be handed out: by the store's clock it was too early,
    /// or the watermark was not there yet.
    Back(Box<Delivery>),
}

impl Request {
    /// Bytes that wait in the queue, while nobody waits for the answer. (A call for many timers
    /// does.)
    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::Arm(timer, _) => timer.bytes(),
            _ => 0,
        }
    }

    /// Answers that the writer could not do it.
    pub(crate) fn refuse(self, error: &DurableError) {
        let error = error.clone();
        match self {
            Self::Arm(_, teller) => teller.tell(Err(error)),
            Self::ArmMany(_, teller) => teller.tell(Err(error)),
            Self::Cancel(_, teller) | Self::Move(_, _, teller) => teller.tell(Err(error)),
            Self::Revive(_, _, teller) | Self::Discard(_, teller) => teller.tell(Err(error)),
            Self::CancelMany(_, teller) | Self::CancelKind(_, teller) => teller.tell(Err(error)),
            Self::Get(_, teller) => teller.tell(Err(error)),
            Self::List(_, _, teller) => teller.tell(Err(error)),
            Self::Dead(_, _, teller) => teller.tell(Err(error)),
            Self::Empty(teller) | Self::Stop(teller) => teller.tell(Err(error)),
            Self::Fleet(teller) => teller.tell(Err(error)),
            Self::Begin(_, _, teller) => teller.tell(Err(error)),
            Self::Done(_) | Self::Settle(_) | Self::Back(_) | Self::Look => {}
            #[cfg(feature = "postgres")]
            Self::Acked(..) => {}
        }
    }
}
