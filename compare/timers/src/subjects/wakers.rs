//! Wakers for timers that are futures: what they wake tells the ledger. They carry the due time in
//! place of a pointer, so none costs its timer an allocation, a reference count or a cache line.

use crate::ledger;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

const _: () = assert!(
    size_of::<usize>() == size_of::<u64>(),
    "a due time fits into a waker"
);

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, |_| ());

fn clone(due_ns: *const ()) -> RawWaker {
    RawWaker::new(due_ns, &VTABLE)
}

fn wake(due_ns: *const ()) {
    ledger::fired(due_ns.addr() as u64);
}

/// A waker for a timer that is due at `due_ns`. For 0, where nobody asks for the lateness, the one
/// that does nothing.
pub(crate) fn waker(due_ns: u64) -> Waker {
    if due_ns == 0 {
        return Waker::noop().clone();
    }
    let due_ns = ptr::without_provenance(due_ns as usize);
    // SAFETY: the functions take the pointer for a number. Any thread may call them, any number of
    // times.
    unsafe { Waker::new(due_ns, &VTABLE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_tells_the_book() {
        let before = ledger::fired_so_far();
        waker(0).wake();
        let due = waker(ledger::now_ns());
        let copy = due.clone();
        due.wake_by_ref();
        copy.wake();
        assert_eq!(ledger::fired_so_far(), before + 2);
    }
}
