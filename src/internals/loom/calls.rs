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

    /// CallMark, CallOwn. `true`: the caller is the owner now.
    pub fn call(&self, due_ns: u64) -> bool {
        self.0.call(due_ns)
    }

    /// What is called for.
    pub fn due_ns(&self) -> Option<u64> {
        self.0.due_ns()
    }

    /// RunTake.
    pub fn take(&self, due_ns: u64) -> bool {
        self.0.take(due_ns)
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
