//! Plan: the changes of a turn's commit, and what the writer does with their outcomes.

use super::hold::ToHold;
use crate::handler::delivery::Delivery;
use crate::handler::error::DurableError;
use crate::queue::bulk::{BulkCounts, BulkTask};
use crate::queue::request::{NewTimer, Reply};
use crate::store::row::{DeadLetter, DurableId};
use crate::store::write::{KindSlice, Write};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use std::vec;

/// The changes of a commit, in their order, and the plans for their outcomes, in the same order.
pub(super) struct Changes {
    pub(super) writes: Vec<Write>,
    pub(super) plans: Vec<Planned>,
    /// When they were planned, by the node's clock.
    pub(super) elapsed: Duration,
}

/// What is done with the outcomes of one request's changes.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) reply: Reply,
    /// Since when the request is being served, by the node's clock.
    pub(super) since: Duration,
    /// The round in which the store has last tried its changes, and something was in their way.
    pub(super) tried_in: Option<u64>,
}

/// What becomes of the outcomes. One of a call for many timers has several, all others have one.
pub(super) enum Plan {
    /// What comes into the window, if the row is due there.
    Arm(DurableId, Option<Box<Delivery>>),
    /// The same, if the outcome says that the row is stored.
    Replace(DurableId, Option<Box<Delivery>>),
    /// The outcome says all.
    One,
    /// (Boxed: it is large, and a commit has few of them.)
    Many(Box<Many>),
    /// A row of a kind that this process does not hand out is held.
    Hold(Box<ToHold>),
    Settle(Ended),
    /// The same once more: it was in a commit whose outcome is not known.
    SettleAgain(Ended),
    /// A suspect begins alone, with these crashes.
    Begin(DurableId, u32),
    /// What was noted of a suspect is taken back. It comes back, if it is named here.
    TakeBack(Option<Box<Delivery>>),
}

/// A call for many timers: what is to be done, and what was done.
pub(super) enum Many {
    Arm(ManyArmed),
    Cancel(ManyCancelled),
    Kind(KindCancelled),
    Bulk(ManyBulk),
}

/// What a call for many timers has armed.
pub(super) struct ManyArmed {
    /// Those whose slice is still to come.
    pub(super) rest: vec::IntoIter<NewTimer>,
    /// Of all timers of the slices so far.
    pub(super) ids: Vec<DurableId>,
    /// Those whose outcome is not known yet, and what comes into the window, if they are due there.
    pub(super) rows: Vec<(DurableId, Option<Box<Delivery>>)>,
    /// Why one of them was refused.
    pub(super) refused: Option<DurableError>,
}

/// What a call for many timers has cancelled.
pub(super) struct ManyCancelled {
    /// Those whose slice is still to come.
    pub(super) rest: vec::IntoIter<DurableId>,
    /// Those whose outcome is not known yet.
    pub(super) left: usize,
    /// How many this call has cancelled so far.
    pub(super) gone: usize,
    /// Why one of them was refused.
    pub(super) refused: Option<DurableError>,
}

/// What a call for all timers of a kind has cancelled.
pub(super) struct KindCancelled {
    /// The next slice.
    pub(super) slice: KindSlice,
    /// Those of the kind that got another deadline meanwhile. They may lie behind it by now.
    pub(super) moved: BTreeSet<DurableId>,
    /// How many this call has cancelled so far.
    pub(super) gone: usize,
}

/// What a call has done that changes all timers, or all dead letters, of a query.
pub(super) struct ManyBulk {
    /// What is to be done, and where it goes on.
    pub(super) task: BulkTask,
    /// There may be another slice.
    pub(super) has_more: bool,
    /// Changes whose outcome is not known yet.
    pub(super) left: usize,
    /// How many this call has changed so far.
    pub(super) changed: usize,
    /// Those that it has moved to where it has yet to come.
    pub(super) moved: HashSet<DurableId>,
    /// Why one of the changes was refused.
    pub(super) refused: Option<DurableError>,
    pub(super) counts: Arc<BulkCounts>,
}

/// What a delivery has come to.
pub(super) enum Ended {
    Done,
    Failed,
    Snoozed,
    Died(Box<DeadLetter>),
    /// A run of a calendar was too late.
    LeftOut,
    /// It was too early, and has not begun.
    Back,
}

impl Changes {
    /// With room for this many changes, which are large: a turn of many moves none to make room.
    pub(super) fn with_room(changes: usize, elapsed: Duration) -> Self {
        Self {
            writes: Vec::with_capacity(changes),
            plans: Vec::with_capacity(changes),
            elapsed,
        }
    }

    /// One more change.
    pub(super) fn add(&mut self, write: Write, plan: Plan, reply: Reply) {
        self.writes.push(write);
        self.add_plan(plan, reply);
    }

    /// The plan for changes that were added last.
    pub(super) fn add_plan(&mut self, plan: Plan, reply: Reply) {
        self.plans.push(Planned {
            plan,
            reply,
            since: self.elapsed,
            tried_in: None,
        });
    }
}

impl Plan {
    /// Whether a handler has said something, which has to be stored.
    pub(super) const fn is_settlement(&self) -> bool {
        matches!(self, Self::Settle(_) | Self::SettleAgain(_))
    }

    /// Whether its change is made once more if the commit fails.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_settlement() || matches!(self, Self::TakeBack(_))
    }

    /// Whether it is a slice of a call for all timers of a kind.
    pub(super) fn is_kind(&self) -> bool {
        matches!(self, Self::Many(many) if many.is_kind())
    }

    /// The call for all timers of a kind of which it is a slice, if it is one.
    pub(super) fn kind_mut(&mut self) -> Option<&mut KindCancelled> {
        match self {
            Self::Many(many) => many.kind_mut(),
            _ => None,
        }
    }

    /// How many changes of the commit are its own.
    pub(super) fn writes(&self) -> usize {
        match self {
            Self::Many(many) => many.writes(),
            _ => 1,
        }
    }

    /// The commit has failed: whether this was stored is not known.
    pub(super) fn again(self) -> Self {
        match self {
            Self::Settle(ended) => Self::SettleAgain(ended),
            other => other,
        }
    }

    /// That it finds nothing says that it came too late.
    pub(super) fn is_refused(&mut self) {
        if let Self::SettleAgain(ended) = self {
            *self = Self::Settle(std::mem::replace(ended, Ended::Back));
        }
    }

    /// The plan of changes that wait, in a fleet. A timer may be due later when it is armed at
    /// last, in a partition that another node has had meanwhile: so ScanBelow finds it.
    pub(super) fn without_rows(mut self) -> Self {
        match &mut self {
            Self::Arm(_, near) | Self::Replace(_, near) => *near = None,
            Self::Many(many) => many.without_rows(),
            _ => {}
        }
        self
    }
}

impl Many {
    pub(super) fn arm(timers: Vec<NewTimer>) -> Box<Self> {
        Box::new(Self::Arm(ManyArmed {
            ids: Vec::with_capacity(timers.len()),
            rest: timers.into_iter(),
            rows: Vec::new(),
            refused: None,
        }))
    }

    /// Cancels the timers with these ids. The call has cancelled `gone` others before.
    pub(super) fn cancel(ids: Vec<DurableId>, gone: usize) -> Box<Self> {
        Box::new(Self::Cancel(ManyCancelled {
            rest: ids.into_iter(),
            left: 0,
            gone,
            refused: None,
        }))
    }

    pub(super) fn kind(kind: &str) -> Box<Self> {
        Box::new(Self::Kind(KindCancelled {
            slice: KindSlice::all(kind),
            moved: BTreeSet::new(),
            gone: 0,
        }))
    }

    pub(super) fn bulk(task: BulkTask, counts: Arc<BulkCounts>) -> Box<Self> {
        Box::new(Self::Bulk(ManyBulk::new(task, counts)))
    }

    pub(super) const fn is_kind(&self) -> bool {
        matches!(self, Self::Kind(_))
    }

    pub(super) fn kind_mut(&mut self) -> Option<&mut KindCancelled> {
        match self {
            Self::Kind(kind) => Some(kind),
            _ => None,
        }
    }

    fn writes(&self) -> usize {
        match self {
            Self::Arm(many) => many.rows.len(),
            Self::Cancel(many) => many.left,
            Self::Kind(_) => 1,
            Self::Bulk(bulk) => bulk.left,
        }
    }

    fn without_rows(&mut self) {
        if let Self::Arm(many) = self {
            many.rows.iter_mut().for_each(|(_, near)| *near = None);
        }
    }

    /// Whether slices of it are still to come, after the present one. (Of a kind its outcome says
    /// that.)
    pub(super) fn goes_on(&self) -> bool {
        match self {
            Self::Arm(many) => many.refused.is_none() && many.rest.len() > 0,
            Self::Cancel(many) => many.refused.is_none() && many.rest.len() > 0,
            Self::Kind(_) => false,
            Self::Bulk(bulk) => bulk.refused.is_none() && bulk.has_more,
        }
    }
}
