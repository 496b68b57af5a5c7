//! Log: what a thread touches while it acts as a core.
//!
//! Each log belongs to one thread at a time, which writes to it through a thread-local pointer. A
//! thread that acts as no core logs nothing.

use crate::access::{Access, Kind, LINE};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;

/// Most cores that a run has: threads and shards.
pub const CORES_MAX: usize = 128;

thread_local! {
    static OWN: Cell<*mut Log> = const { Cell::new(ptr::null_mut()) };
}

/// The accesses of one core.
#[derive(Debug, Default)]
pub struct Log {
    core: usize,
    accesses: Vec<Access>,
}

impl Log {
    /// An empty log.
    #[must_use]
    pub const fn new(core: usize) -> Self {
        Self {
            core,
            accesses: Vec::new(),
        }
    }

    /// The calling thread acts as this core while `work` runs.
    pub fn record(&mut self, work: &mut dyn FnMut()) {
        let own: *mut Self = self;
        let before = OWN.replace(own);
        work();
        OWN.set(before);
    }

    /// The calling thread acts as this core from now on, until [`Recording::end`].
    #[must_use]
    pub fn begin(self) -> Recording {
        let own = Box::into_raw(Box::new(self));
        let before = OWN.replace(own);
        Recording { own, before }
    }

    /// The core that it is of.
    #[must_use]
    pub const fn core(&self) -> usize {
        self.core
    }

    /// What was logged.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Forgets what was logged.
    pub fn clear(&mut self) {
        self.accesses.clear();
    }
}

/// A log that its thread writes to. If it is dropped, what was logged is lost.
#[derive(Debug)]
pub struct Recording {
    own: *mut Log,
    before: *mut Log,
}

impl Recording {
    /// The thread acts as this core no longer.
    #[must_use]
    pub fn end(self) -> Log {
        ManuallyDrop::new(self).take()
    }

    fn take(&self) -> Log {
        OWN.set(self.before);
        // SAFETY: `begin` made it of a box. `end` and `drop` take it, and only one of them runs.
        *unsafe { Box::from_raw(self.own) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The core as which the calling thread acts.
#[must_use]
pub fn core() -> Option<usize> {
    let own = OWN.get();
    // SAFETY: `record` holds the log exclusively for this thread while the pointer is set.
    (!own.is_null()).then(|| unsafe { (*own).core })
}

/// The calling thread has ended an operation.
#[inline(never)]
pub fn end_operation() {
    push(Access::END);
}

/// Notes an access of `bytes` bytes: one for each line that they touch.
#[cfg_attr(not(feature = "runtime"), allow(dead_code))]
#[inline]
pub(crate) fn note(address: usize, bytes: usize, kind: Kind, site: usize) {
    if OWN.get().is_null() || bytes == 0 {
        return;
    }
    push(Access::new(address, kind, site));
    let last = address + bytes - 1;
    let mut next = (address | (LINE - 1)) + 1;
    while next <= last {
        push(Access::new(next, kind, site));
        next += LINE;
    }
}

#[inline]
fn push(access: Access) {
    // The allocator asks for the core: it must see none, so that the log's memory is the system's.
    let own = OWN.replace(ptr::null_mut());
    if !own.is_null() {
        // SAFETY: `record` holds the log exclusively for this thread while the pointer is set.
        let log = unsafe { &mut *own };
        log.accesses.push(access);
        OWN.set(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_lasts_until_it_ends() {
        let recording = Log::new(5).begin();
        note(64, 8, Kind::Read, 1);
        assert_eq!(core(), Some(5));
        let log = recording.end();
        note(64, 8, Kind::Read, 1);
        assert_eq!((log.accesses().len(), core()), (1, None));
        drop(log.begin());
        assert_eq!(core(), None);
    }

    #[test]
    fn a_core_logs_each_line_it_touches() {
        let mut log = Log::new(3);
        note(0, 8, Kind::Read, 1);
        log.record(&mut || {
            note(60, 8, Kind::Write, 1);
            note(128, 200, Kind::Read, 2);
            note(0, 0, Kind::Read, 2);
            end_operation();
            assert_eq!(core(), Some(3));
        });
        let addresses = log.accesses().iter().map(|access| access.what());
        let addresses: Vec<_> = addresses.map(|what| what.map(|(at, _)| at)).collect();
        let expected = [60, 64, 128, 192, 256, 320].map(Some);
        assert_eq!(addresses[..6], expected);
        assert_eq!((addresses[6], core()), (None, None));
    }
}
