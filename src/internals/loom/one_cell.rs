//! One cell: a cell by itself, and what becomes of its timer.

use crate::cell;
use crate::internals::Entry;
use crate::repeat::RunClosure;

/// One cell by itself.
pub struct Cell<T> {
    cell: cell::Cell<T>,
    side: cell::Side,
    pause_side: cell::PauseSide,
}

/// What a worker finds for a due entry.
#[derive(Debug)]
pub enum Due<T> {
    /// No timer.
    Dead,
    /// A timer that fires.
    Fires(T),
    /// A periodic timer, which is to run now.
    Runs(Run),
    /// A timer that was moved: this is its entry now.
    Later(Entry),
}

/// A run of a periodic timer that may begin.
#[derive(Debug)]
pub struct Run(Entry);

/// What became of a run.
#[derive(Debug)]
pub enum Ran {
    /// It has run, and has this entry now.
    Again(Entry),
    /// It has run, and was cancelled meanwhile: the caller holds the cell.
    Ended(Repeat),
    /// It has run, and was paused meanwhile.
    Paused,
    /// It was cancelled, or filed elsewhere, before it began.
    Cancelled,
    /// It was moved before it began, and has this entry now.
    Moved(Entry),
}

/// A periodic timer that was cancelled, or whose run has ended.
#[derive(Debug)]
pub struct Repeat(#[expect(dead_code, reason = "to be dropped")] Box<crate::repeat::Repeat>);

/// What a re-arm did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearmed {
    /// There is no such timer.
    Gone,
    /// It is paused: what is left is to be set.
    Paused,
    /// It is moved. The shard need not know.
    Done,
    /// It is moved, and this is its entry now.
    Refiled(Entry),
    /// It was cancelled meanwhile. Whether the caller holds the cell, to free it.
    Cancelled(bool),
}

/// What a pause did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Nothing: there is no such timer, or it is paused.
    Unchanged,
    /// Its run is in progress.
    InRun,
    /// It waits.
    Waits,
    /// It was cancelled meanwhile. Whether the caller holds the cell, to free it.
    Cancelled(bool),
}

/// What a resume did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// Nothing: there is no such timer, or it is not paused.
    Unchanged,
    /// Its run is in progress.
    InRun,
    /// It goes on, and has this entry.
    Filed(Entry),
    /// It was cancelled meanwhile. Whether the caller holds the cell, to free it.
    Cancelled(bool),
}

/// What is left of a timer that is paused in its run.
pub const LEFT_AFTER_RUN_NS: u64 = 9;

/// By how much a deadline is rounded up by a resume, or by a run.
pub const ROUNDED_NS: u64 = 1;

/// What a cancel did.
#[derive(Debug)]
pub struct Claimed<T> {
    /// The payload; `None` for a periodic timer.
    pub payload: Option<T>,
    /// Whether a run has the content now.
    pub runs: bool,
    /// What is left, if it was paused.
    pub left: Option<u64>,
    /// The entry that is dead now, if the caller has to send its tombstone.
    pub entry: Option<Entry>,
    /// Whether the caller holds the cell now.
    pub mine: bool,
}

impl<T> Cell<T> {
    /// A vacant cell of this generation.
    #[must_use]
    pub fn starting_at(generation: u64) -> Self {
        let cell: cell::Cell<T> = crate::mem::Zeroable::zeroed();
        cell.start_at(generation);
        Self {
            cell,
            side: crate::mem::Zeroable::zeroed(),
            pause_side: crate::mem::Zeroable::zeroed(),
        }
    }

    /// The cell as the room sees it.
    fn cell_ref(&self) -> cell::CellRef<'_, T> {
        cell::CellRef::alone(&self.cell, &self.side, &self.pause_side)
    }

    /// Stores a payload and makes it claimable. Returns its birth.
    ///
    /// # Safety
    /// As in the room: the caller holds the cell.
    pub unsafe fn arm(&self, deadline: u64, payload: T) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            self.cell_ref()
                .fill(cell::DueAt::new(deadline, 0), cell::Payload(payload))
        }
    }

    /// Arms a periodic timer. Returns its birth.
    ///
    /// # Safety
    /// As in the room: the caller holds the cell.
    pub unsafe fn arm_repeat(&self, deadline: u64, run: impl FnMut() + Send + 'static) -> u64 {
        let repeat =
            crate::repeat::Repeat::every_after(1, 0, u64::MAX, RunClosure::Plain(Box::new(run)));
        // SAFETY: the caller's promise.
        unsafe {
            self.cell_ref()
                .fill(cell::DueAt::new(deadline, 0), Box::new(repeat))
        }
    }

    /// A worker's claim.
    pub fn claim_due(&self, entry: Entry) -> Due<T> {
        if let Some(payload) = self.cell_ref().claim_due_plain(entry.0) {
            return Due::Fires(payload);
        }
        match self.cell_ref().claim_due(entry.0) {
            cell::DueClaim::Dead => Due::Dead,
            cell::DueClaim::Payload(payload) => Due::Fires(payload),
            cell::DueClaim::Run => Due::Runs(Run(entry)),
            cell::DueClaim::Later(filed) => Due::Later(Entry(filed.entry)),
        }
    }

    /// Runs a periodic timer, unless it was cancelled, and files it for another deadline.
    pub fn run(&self, run: Run, deadline: u64) -> Ran {
        let (mut repeat, due_at) = match self.cell_ref().begin(run.0.0) {
            cell::RunBegun::Run { repeat, due_at, .. } => (repeat, due_at),
            cell::RunBegun::Dead => return Ran::Cancelled,
            cell::RunBegun::Later(filed) => return Ran::Moved(Entry(filed.entry)),
        };
        _ = repeat.run(0, 0, 0);
        let due_at = cell::DueAt::new(deadline, due_at.shard());
        // SAFETY: it has begun, above.
        match unsafe {
            self.cell_ref()
                .file_again(repeat, due_at, LEFT_AFTER_RUN_NS, Some(ROUNDED_NS))
        } {
            Ok(filed) => Ran::Again(Entry(filed.entry)),
            Err(cell::NotFiled::Paused) => Ran::Paused,
            Err(cell::NotFiled::Ended(repeat, _)) => Ran::Ended(Repeat(repeat)),
        }
    }

    /// Moves the timer.
    pub fn rearm(&self, birth: u64, deadline: u64) -> Rearmed {
        match self.cell_ref().rearm(birth, deadline) {
            cell::Rearmed::Gone => Rearmed::Gone,
            cell::Rearmed::Paused => Rearmed::Paused,
            cell::Rearmed::Done { .. } => Rearmed::Done,
            cell::Rearmed::Refiled { new, .. } => Rearmed::Refiled(Entry(new.entry)),
            cell::Rearmed::Cancelled { index, .. } => Rearmed::Cancelled(index.is_some()),
        }
    }

    /// Pauses the timer. A tick is a nanosecond here, and `now` the present.
    pub fn pause(&self, birth: u64, now: u64) -> Paused {
        match self
            .cell_ref()
            .halt(birth, |deadline| (deadline, now), true)
        {
            cell::Paused::Unchanged => Paused::Unchanged,
            cell::Paused::InRun => Paused::InRun,
            cell::Paused::Waits { .. } => Paused::Waits,
            cell::Paused::Cancelled { index, .. } => Paused::Cancelled(index.is_some()),
        }
    }

    /// Lets the timer go on.
    pub fn resume(&self, birth: u64, now: u64) -> Resumed {
        match self
            .cell_ref()
            .resume(birth, |left| (now + left.left_ns, ROUNDED_NS), true)
        {
            cell::Resumed::Unchanged => Resumed::Unchanged,
            cell::Resumed::InRun => Resumed::InRun,
            cell::Resumed::Filed(filed) => Resumed::Filed(Entry(filed.entry)),
            cell::Resumed::Cancelled { index } => Resumed::Cancelled(index.is_some()),
        }
    }

    /// Sets what is left of a paused timer. `None`: it is not paused. Otherwise whether there is
    /// one.
    pub fn set_left(&self, birth: u64, left: u64) -> Option<bool> {
        match self.cell_ref().set_left(birth, left, true) {
            cell::LeftSet::NotPaused => None,
            cell::LeftSet::Gone | cell::LeftSet::Cancelled { .. } => Some(false),
            cell::LeftSet::Set { .. } => Some(true),
        }
    }

    /// What is left of the timer, if it is paused.
    pub fn left(&self) -> Option<u64> {
        self.cell_ref().look(false)?.left_ns
    }

    /// The claim of `stop`.
    pub fn claim_any(&self) -> Option<Claimed<T>> {
        self.cell_ref().claim_any().map(claimed)
    }

    /// The claim of an id's holder.
    pub fn claim_id(&self, birth: u64) -> Option<Claimed<T>> {
        self.cell_ref().claim_id(birth).map(claimed)
    }

    /// Whether the timer is pending.
    pub fn is_pending(&self, birth: u64) -> bool {
        self.cell_ref().is_pending(birth)
    }
}

fn claimed<T>(claimed: cell::Claimed<T>) -> Claimed<T> {
    let runs = claimed.content.is_none();
    let payload = match claimed.content {
        Some(cell::Content::Payload(payload)) => Some(payload),
        _ => None,
    };
    Claimed {
        payload,
        runs,
        left: claimed.due_at.left_ns(),
        entry: claimed.filed.map(|filed| Entry(filed.entry)),
        mine: claimed.index.is_some(),
    }
}
