//! wheelwork's own wheel, as it comes.

use super::Subject;
use wheelwork::wheel::{Handle, Wheel};

pub(crate) struct Wheelwork(Wheel<u64>);

impl Subject for Wheelwork {
    type Handle = Handle;

    fn new() -> Self {
        Self(Wheel::new(0))
    }

    fn insert(&mut self, deadline: u64, key: u64) -> Handle {
        self.0.insert(deadline, key)
    }

    fn cancel(&mut self, handle: Handle) {
        self.0.cancel(handle);
    }

    fn rearm(&mut self, handle: Handle, deadline: u64, _: u64) -> Handle {
        self.0.reschedule(handle, deadline);
        handle
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        self.0.advance(now, usize::MAX, |_, key| fire(key));
    }
}
