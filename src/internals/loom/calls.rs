//! Calls: a closure that many calls run once.

use crate::calls::due;

/// The run that is called for, and whether it has an owner.
pub struct DueRun(due::DueRun);

impl DueRun {
    /// No run is called for, and there is no owner.
    #[expect(clippy::new_without_default, reason = "a model's")]
    pub fn new() -> Self {
        Self(due::DueRun::new())
    }

    /// CallSince to CallOwn. `Some(true)`: the caller is the owner now. `None`: the call is
    /// refused.
    pub fn call(&self, now_ns: u64, due_ns: u64) -> Option<bool> {
        match self.0.call(now_ns, due_ns) {
            due::Called::Own => Some(true),
            due::Called::Seen => Some(false),
            due::Called::Late => None,
        }
    }

    /// When the first call came of those for which a run is called for.
    pub fn since_ns(&self) -> u64 {
        self.0.since_ns()
    }

    /// RunLast.
    pub fn begin_last(&self) {
        self.0.begin_last();
    }

    /// RunLeave, without RunLook.
    pub fn give_up(&self) {
        self.0.give_up();
    }

    /// What is called for.
    pub fn due_ns(&self) -> Option<u64> {
        self.0.due_ns()
    }

    /// RunTake.
    pub fn take(&self, due_ns: u64) -> bool {
        self.0.take(due_ns)
    }

    /// RunTake, of any mark.
    pub fn take_any(&self) -> bool {
        self.0.take_any()
    }

    /// Calls the run off.
    pub fn call_off(&self) -> bool {
        self.0.call_off()
    }

    /// RunLeave, RunLook. `Some`: the caller is the owner again.
    pub fn leave(&self) -> Option<u64> {
        self.0.leave()
    }
}
