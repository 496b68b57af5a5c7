//! Request: what callers and handlers want of the writer.
//!
//! Requests arrive sorted by what the writer does with them: what it is told becomes changes, or is
//! noted; changes are made in the turn's commit; looks come after the commit; the few that steer
//! the writer itself change no row. The calls make them by the functions of [`Request`], which say
//! what each is answered with.

use super::bulk::{BulkCounts, BulkTask};
use super::paging::{DoneFound, DonePaged, DonePaging, Found, Paged, Paging};
use super::throttle::Refused;
use super::ticket::Teller;
use crate::handler::delivery::{Delivery, Done, Settlement};
use crate::handler::error::DurableError;
use crate::store::contract::Snapshot;
use crate::store::fleet::Fleet;
use crate::store::row::{DeadLetter, DurableId, Position, Row, RowMore, StoreTime};
use crate::store::rule::Rule;
use crate::store::unhandled::UnhandledKind;
use crate::store::write::{Settled, Target, TrialBegun, Write};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A timer that is to be armed.
pub(crate) struct NewTimer {
    pub(crate) kind: Arc<str>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) due: StoreTime,
    pub(crate) payload: Arc<[u8]>,
    pub(crate) calendar: Option<Arc<str>>,
    /// What few timers have.
    pub(crate) more: Option<Box<RowMore>>,
}

impl NewTimer {
    /// Bytes of its payload, kind, key, calendar and trace.
    pub(crate) fn bytes(&self) -> usize {
        let trace = self.more.as_ref().and_then(|more| more.trace.as_ref());
        let texts = [
            Some(&self.kind),
            self.key.as_ref(),
            self.calendar.as_ref(),
            trace,
        ];
        let texts = texts.into_iter().flatten().map(|text| text.len());
        self.payload.len() + texts.sum::<usize>()
    }
}

/// What the writer is asked for, or told.
pub(crate) enum Request {
    Told(Told),
    Change(Change, Reply),
    Look(Look),
    Control(Control),
}

/// What handlers' threads have to say. No thread waits for an answer.
pub(crate) enum Told {
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
    /// The same for a timer that a limit lets through later.
    Refused(Box<Delivery>, Refused),
    /// A limit may let another timer through.
    Freed,
    /// There may be something new in the store, or the clock was set.
    News,
}

/// What is to be changed in the store.
pub(crate) enum Change {
    Arm(NewTimer),
    /// If its key has this row, or none.
    Replace(NewTimer, Option<DurableId>),
    ArmMany(Vec<NewTimer>),
    /// One row or dead letter is changed. The outcome says whether it was.
    One(Write),
    CancelMany(Vec<DurableId>),
    CancelKind(Arc<str>),
    /// All timers or dead letters of a query are changed.
    Bulk(BulkTask, Arc<BulkCounts>),
    /// A suspect is about to be handled alone: its crashes then.
    Begin(Settled, u32),
}

/// The thread that waits for the answer to a change, by what it is answered with.
pub(crate) enum Reply {
    Id(Teller<DurableId>),
    /// If it is armed.
    IdIf(Teller<Option<DurableId>>),
    Ids(Teller<Vec<DurableId>>),
    /// Whether there was something to change.
    Yes(Teller<bool>),
    /// How many rows are gone, or were changed.
    Count(Teller<usize>),
    Begun(Teller<TrialBegun>),
    /// No thread waits.
    Nobody,
}

/// What is to be read. It is read after the commit of the turn.
pub(crate) enum Look {
    Get(Target, Teller<Option<Row>>),
    /// Who owns what.
    Fleet(Teller<Fleet>),
    /// What the store holds, for a copy.
    Snapshot(Teller<Option<Box<dyn Snapshot>>>),
    /// A page of rows. (Boxed: it is large.)
    Page(Box<Paging>),
    /// A page of records of runs.
    Done(Box<DonePaging>),
    /// Dead letters behind this one.
    Dead(Option<DurableId>, Listing<DeadLetter>),
    /// Which kinds wait for a handler.
    Unhandled(CountingHeld),
    Rules(Teller<Vec<Rule>>),
}

/// What a call has counted so far of the rows that are held, slice by slice.
pub(crate) struct CountingHeld {
    /// The rows up to here are counted.
    pub(crate) after: Position,
    /// Of each kind: how many wait for a handler, and since when the first of them does.
    pub(crate) kinds: BTreeMap<Arc<str>, (u64, StoreTime)>,
    pub(crate) teller: Teller<Vec<UnhandledKind>>,
}

/// What a call has read so far, slice by slice.
pub(crate) struct Listing<T> {
    pub(crate) found: Vec<Vec<T>>,
    /// How many more are wanted.
    pub(crate) left: usize,
    pub(crate) teller: Teller<Vec<Vec<T>>>,
}

/// What steers the writer.
pub(crate) enum Control {
    /// Nothing is handed out any more: the window lets go of its rows.
    Empty(Teller<()>),
    /// Gives the leases back, and ends.
    Stop(Teller<()>),
}

/// The requests, each with what it is answered with.
impl Request {
    pub(crate) fn arm(timer: NewTimer, teller: Teller<DurableId>) -> Self {
        Self::Change(Change::Arm(timer), Reply::Id(teller))
    }

    /// The answer is `None` if the key has another row by now.
    #[cfg_attr(
        not(feature = "calendar"),
        expect(dead_code, reason = "calendars alone ask so")
    )]
    pub(crate) fn replace(
        timer: NewTimer,
        former: Option<DurableId>,
        teller: Teller<Option<DurableId>>,
    ) -> Self {
        Self::Change(Change::Replace(timer, former), Reply::IdIf(teller))
    }

    pub(crate) fn arm_many(timers: Vec<NewTimer>, teller: Teller<Vec<DurableId>>) -> Self {
        Self::Change(Change::ArmMany(timers), Reply::Ids(teller))
    }

    pub(crate) fn cancel_many(ids: Vec<DurableId>, teller: Teller<usize>) -> Self {
        Self::Change(Change::CancelMany(ids), Reply::Count(teller))
    }

    pub(crate) fn cancel_kind(kind: Arc<str>, teller: Teller<usize>) -> Self {
        Self::Change(Change::CancelKind(kind), Reply::Count(teller))
    }

    /// The answer says how many were changed.
    pub(crate) fn bulk(task: BulkTask, counts: Arc<BulkCounts>, teller: Teller<usize>) -> Self {
        Self::Change(Change::Bulk(task, counts), Reply::Count(teller))
    }

    /// One row or dead letter is changed. The answer says whether it was.
    pub(crate) fn one(write: Write, teller: Teller<bool>) -> Self {
        Self::Change(Change::One(write), Reply::Yes(teller))
    }

    /// Whether a suspect may begin alone: the store has its crashes then.
    pub(crate) fn begin(of: Settled, crashes: u32, teller: Teller<TrialBegun>) -> Self {
        Self::Change(Change::Begin(of, crashes), Reply::Begun(teller))
    }

    pub(crate) fn get(target: Target, teller: Teller<Option<Row>>) -> Self {
        Self::Look(Look::Get(target, teller))
    }

    pub(crate) fn fleet(teller: Teller<Fleet>) -> Self {
        Self::Look(Look::Fleet(teller))
    }

    pub(crate) fn snapshot(teller: Teller<Option<Box<dyn Snapshot>>>) -> Self {
        Self::Look(Look::Snapshot(teller))
    }

    /// A page of rows, at most `limit` of them.
    pub(crate) fn page(paged: Paged, limit: usize, teller: Teller<Found>) -> Self {
        Self::Look(Look::Page(Box::new(Paging::new(paged, limit, teller))))
    }

    /// A page of records of runs, at most `limit` of them.
    pub(crate) fn done(rest: DonePaged, limit: usize, teller: Teller<DoneFound>) -> Self {
        Self::Look(Look::Done(Box::new(DonePaging {
            rest,
            found: DoneFound::default(),
            left: limit,
            teller,
        })))
    }

    pub(crate) fn dead(
        after: Option<DurableId>,
        limit: usize,
        teller: Teller<Vec<Vec<DeadLetter>>>,
    ) -> Self {
        Self::Look(Look::Dead(after, Listing::new(limit, teller)))
    }

    pub(crate) fn unhandled(teller: Teller<Vec<UnhandledKind>>) -> Self {
        Self::Look(Look::Unhandled(CountingHeld {
            after: Position::BEFORE_HELD,
            kinds: BTreeMap::new(),
            teller,
        }))
    }

    pub(crate) fn rules(teller: Teller<Vec<Rule>>) -> Self {
        Self::Look(Look::Rules(teller))
    }

    pub(crate) fn empty(teller: Teller<()>) -> Self {
        Self::Control(Control::Empty(teller))
    }

    pub(crate) fn stop(teller: Teller<()>) -> Self {
        Self::Control(Control::Stop(teller))
    }

    /// Bytes that wait in the queue, while no thread waits for the answer. (A call for many timers
    /// does.)
    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::Change(Change::Arm(timer), _) => timer.bytes(),
            _ => 0,
        }
    }

    /// Answers that the writer could not do it.
    pub(crate) fn refuse(self, error: &DurableError) {
        match self {
            Self::Told(_) => {}
            Self::Change(_, reply) => reply.refuse(error),
            Self::Look(look) => look.refuse(error),
            Self::Control(Control::Empty(teller) | Control::Stop(teller)) => {
                teller.tell(Err(error.clone()));
            }
        }
    }
}

impl<T> Listing<T> {
    fn new(left: usize, teller: Teller<Vec<Vec<T>>>) -> Self {
        Self {
            found: Vec::new(),
            left,
            teller,
        }
    }
}

impl Reply {
    /// Answers that the change could not be made.
    pub(crate) fn refuse(self, error: &DurableError) {
        let error = error.clone();
        match self {
            Self::Id(teller) => teller.tell(Err(error)),
            Self::IdIf(teller) => teller.tell(Err(error)),
            Self::Ids(teller) => teller.tell(Err(error)),
            Self::Yes(teller) => teller.tell(Err(error)),
            Self::Count(teller) => teller.tell(Err(error)),
            Self::Begun(teller) => teller.tell(Err(error)),
            Self::Nobody => {}
        }
    }

    pub(crate) fn id(self, id: DurableId) {
        match self {
            Self::Id(teller) => teller.tell(Ok(id)),
            other => other.mismatched("an id"),
        }
    }

    pub(crate) fn id_if(self, id: Option<DurableId>) {
        match self {
            Self::IdIf(teller) => teller.tell(Ok(id)),
            other => other.mismatched("an id, or none"),
        }
    }

    pub(crate) fn ids(self, ids: Vec<DurableId>) {
        match self {
            Self::Ids(teller) => teller.tell(Ok(ids)),
            other => other.mismatched("ids"),
        }
    }

    pub(crate) fn yes(self, is_so: bool) {
        match self {
            Self::Yes(teller) => teller.tell(Ok(is_so)),
            other => other.mismatched("yes or no"),
        }
    }

    pub(crate) fn count(self, count: usize) {
        match self {
            Self::Count(teller) => teller.tell(Ok(count)),
            other => other.mismatched("a count"),
        }
    }

    pub(crate) fn begun(self, begun: TrialBegun) {
        match self {
            Self::Begun(teller) => teller.tell(Ok(begun)),
            other => other.mismatched("what became of a trial"),
        }
    }

    /// The functions of [`Request`] pair each change with its reply. (A teller that is dropped
    /// answers, too.)
    fn mismatched(self, answer: &str) {
        debug_assert!(false, "a caller waits for something else than {answer}");
    }
}

impl Look {
    /// Answers that the writer could not read it.
    pub(crate) fn refuse(self, error: &DurableError) {
        let error = error.clone();
        match self {
            Self::Get(_, teller) => teller.tell(Err(error)),
            Self::Fleet(teller) => teller.tell(Err(error)),
            Self::Snapshot(teller) => teller.tell(Err(error)),
            Self::Page(paging) => paging.teller.tell(Err(error)),
            Self::Done(paging) => paging.teller.tell(Err(error)),
            Self::Dead(_, listing) => listing.teller.tell(Err(error)),
            Self::Unhandled(counting) => counting.teller.tell(Err(error)),
            Self::Rules(teller) => teller.tell(Err(error)),
        }
    }
}
