//! One list without order: an insert or a cancel touches one place, each tick looks at all timers.

use super::Subject;
use super::lists::Lists;

pub(crate) struct UnorderedList(Lists);

impl Subject for UnorderedList {
    type Handle = u32;

    fn new() -> Self {
        Self(Lists::new(1))
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        self.0.insert(0, deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.0.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        self.0.fire_due(0, now, &mut fire);
    }
}
