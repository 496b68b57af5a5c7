//! Faults: how the calls of a store end. A call is good, refused, slow, or its store fails before
//! or after it is made.

use std::time::Duration;
use wheelwork_durable::contract::{Outcome, Store, Target};
use wheelwork_durable::{DurableId, StoreError};

/// What is called of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Release,
    Renew,
    GiveBack,
    Commit,
    Load,
    Claim,
    HandOut,
    Clock,
    Look,
}

/// How a call of a store ends.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Good,
    /// The process is dead, or its store has failed before.
    Refused,
    /// The call is not made. The process dies, or its store has failed.
    Before {
        dies: bool,
    },
    /// The call is made, and its answer is lost. The process dies, or its store has failed.
    After {
        dies: bool,
    },
    /// Time passes before and after the call is made.
    Slow {
        before: Duration,
        after: Duration,
        /// The whole process stands still meanwhile.
        stands: bool,
    },
}

/// Trouble to come.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Calls that end well before.
    pub left: u32,
    /// Calls of this kind alone count.
    pub only: Option<Call>,
    pub fate: Fate,
}

impl Plan {
    /// A call is made. `Some`: trouble comes with it.
    pub fn next(&mut self, call: Call) -> Option<Fate> {
        if self.only.is_some_and(|only| only != call) {
            return None;
        }
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        Some(self.fate)
    }
}

fn io_error() -> StoreError {
    StoreError::Io("simulated".into())
}

/// A store whose calls end as they are fated.
pub trait Faulty: Sized {
    fn fate(&self, call: Call) -> Fate;

    /// The store fails. The process may die of it.
    fn fail(&self, dies: bool);

    /// Time passes, and others go on.
    fn pass(&self, time: Duration, stands: bool);

    /// After time has passed, whether the call is lost: before it was made, or after.
    fn is_lost(&self, is_made: bool) -> bool;

    /// Makes a call, as it is fated.
    fn call<T>(
        &mut self,
        call: Call,
        make: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.fate(call) {
            Fate::Good => make(self),
            Fate::Refused => Err(io_error()),
            Fate::Before { dies } => {
                self.fail(dies);
                Err(io_error())
            }
            Fate::After { dies } => {
                make(self)?;
                self.fail(dies);
                Err(io_error())
            }
            Fate::Slow {
                before,
                after,
                stands,
            } => {
                self.pass(before, stands);
                if self.is_lost(false) {
                    return Err(io_error());
                }
                let made = make(self);
                self.pass(after, stands);
                if self.is_lost(true) {
                    return Err(io_error());
                }
                made
            }
        }
    }
}

/// Rows that a commit has cancelled, and that are still there: a handler has them, and their
/// calendars are at an end.
pub fn struck(
    store: &mut (impl Store + ?Sized),
    outcomes: &[Outcome],
) -> Result<Vec<DurableId>, StoreError> {
    let mut struck = Vec::new();
    for outcome in outcomes {
        let gone = match outcome {
            Outcome::Cancelled(gone) => gone.as_slice(),
            Outcome::CancelledMany(gone, _) => gone,
            _ => &[],
        };
        for &id in gone {
            let row = store.get(&Target::Id(id))?;
            struck.extend(row.map(|row| row.id));
        }
    }
    Ok(struck)
}
