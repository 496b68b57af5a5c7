//! One list ordered by deadline: an insert goes along it from its head, a tick looks at the head only.

use super::Subject;
use super::lists::Lists;

pub(crate) struct OrderedList(Lists);

impl Subject for OrderedList {
    type Handle = u32;

    fn new() -> Self {
        Self(Lists::new(1))
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        let mut before = None;
        let mut next = self.0.first(0);
        while let Some(node) = next.filter(|&node| self.0.deadline(node) < deadline) {
            (before, next) = (next, self.0.next(node));
        }
        self.0.insert_after(before, 0, deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.0.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while let Some(node) = self.0.first(0).filter(|&node| self.0.deadline(node) <= now) {
            fire(self.0.remove(node));
        }
    }
}
