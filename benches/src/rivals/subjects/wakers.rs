//! Wakers for timers that are futures: what they wake tells the book.

use crate::book;
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Wake, Waker};

struct Due(u64);

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        book::fired(self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        book::fired(self.0);
    }
}

/// A waker for each due time, so that as good as none costs its timer a cache line of its own. Where nobody asks for the lateness, the one that does
/// nothing: no count of references is shared then.
#[derive(Default)]
pub(crate) struct Wakers(HashMap<u64, Waker>);

impl Wakers {
    pub(crate) fn of(&mut self, due_ns: u64) -> &Waker {
        if due_ns == 0 {
            return Waker::noop();
        }
        self.0.entry(due_ns).or_insert_with(|| Arc::new(Due(due_ns)).into())
    }
}
