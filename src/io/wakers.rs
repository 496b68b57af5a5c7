//! Wakers: the tasks that wait for a stream, one for each way. The timer wakes both.
//!
//! A stream may be split: one task reads and another one writes. Its timer has one waker, which is
//! made of this. So the timer's waker stays the same, whichever task polls.
//!
//! Ground rule: a task registers before it polls the timer. The timer fires first, and then wakes.
//! So a task that the wake does not find registered polls a timer that has fired.

use atomic_waker::AtomicWaker;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Wake;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    /// A flush and a shutdown too.
    Write,
}

impl Way {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Wakers {
    read: AtomicWaker,
    write: AtomicWaker,
}

impl Wakers {
    /// The task that waits for this way.
    pub(super) fn of(&self, way: Way) -> &AtomicWaker {
        match way {
            Way::Read => &self.read,
            Way::Write => &self.write,
        }
    }

    /// Wakers are the user's code, and may panic. The other task is woken all the same.
    pub(super) fn wake_all(&self) {
        let read = catch_unwind(AssertUnwindSafe(|| self.read.wake()));
        self.write.wake();
        if let Err(panic) = read {
            resume_unwind(panic);
        }
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}
