//! Ring: handles on their way from the thread that armed to the one that cancels. One thread
//! pushes, another one pops; each keeps what it last saw of the other's count, so that the counts'
//! cache lines move once for many handles.

use super::touched::touched;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// Handles beyond the window that fit: a canceller that lost its core for a moment stops no one.
const SLACK: usize = 4_096;

/// Slots of a ring that holds this window.
pub(super) const fn slots_for(window: usize) -> usize {
    window + SLACK
}

/// A count on a cache line of its own, and its neighbour.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicUsize);

struct Ring<H> {
    slots: Box<[UnsafeCell<Option<H>>]>,
    /// Handles that were pushed so far, by the sender alone.
    pushed: Count,
    /// Handles that were popped so far, by the receiver alone.
    popped: Count,
    /// Nothing will be pushed any more.
    is_closed: AtomicBool,
}

// SAFETY: the counts give each slot to one thread at a time: to the sender from the pop of its
// handle on, to the receiver from the push on. Handles may be sent.
unsafe impl<H: Send> Sync for Ring<H> {}

/// The end that pushes.
pub(super) struct Sender<H> {
    ring: Arc<Ring<H>>,
    pushed: usize,
    place: usize,
    /// How many were popped when this end last looked.
    popped_seen: usize,
}

/// The end that pops.
pub(super) struct Receiver<H> {
    ring: Arc<Ring<H>>,
    popped: usize,
    place: usize,
    /// How many were pushed when this end last looked.
    pushed_seen: usize,
}

/// A ring for this window. Its memory has been touched.
pub(super) fn ring<H: Send>(window: usize) -> (Sender<H>, Receiver<H>) {
    let slots = touched(slots_for(window));
    let slots: Vec<_> = slots.into_iter().map(UnsafeCell::new).collect();
    let ring = Arc::new(Ring {
        slots: black_box(slots.into_boxed_slice()),
        pushed: Count::default(),
        popped: Count::default(),
        is_closed: AtomicBool::new(false),
    });
    let sender = Sender {
        ring: ring.clone(),
        pushed: 0,
        place: 0,
        popped_seen: 0,
    };
    let receiver = Receiver {
        ring,
        popped: 0,
        place: 0,
        pushed_seen: 0,
    };
    (sender, receiver)
}

/// The place after this one.
fn after(place: usize, slots: usize) -> usize {
    if place + 1 == slots { 0 } else { place + 1 }
}

impl<H> Sender<H> {
    /// Gives the handle back if the ring is full.
    pub(super) fn push(&mut self, handle: H) -> Result<(), H> {
        let slots = self.ring.slots.len();
        if self.pushed - self.popped_seen == slots {
            // Ordering: Acquire. Pairs with the Release store in `pop_beyond`: the handle that was
            // in the slot has been taken out.
            self.popped_seen = self.ring.popped.0.load(Acquire);
            if self.pushed - self.popped_seen == slots {
                return Err(handle);
            }
        }
        // SAFETY: fewer handles than slots are in the ring, so this slot is the sender's until the
        // store below.
        unsafe { *self.ring.slots[self.place].get() = Some(handle) };
        self.place = after(self.place, slots);
        self.pushed += 1;
        // Ordering: Release. Pairs with the Acquire load in `pop_beyond`; publishes the handle.
        self.ring.pushed.0.store(self.pushed, Release);
        Ok(())
    }

    /// Nothing will be pushed any more. (The memory stays: it is subtracted from what is measured.)
    pub(super) fn close(&mut self) {
        // Ordering: Release. Pairs with the Acquire load in `is_over`: all handles are seen first.
        self.ring.is_closed.store(true, Release);
    }
}

impl<H> Receiver<H> {
    /// The oldest handle, if more than `held` are in the ring.
    pub(super) fn pop_beyond(&mut self, held: usize) -> Option<H> {
        if self.pushed_seen - self.popped <= held {
            // Ordering: Acquire. Pairs with the Release store in `push`: the handles are there.
            self.pushed_seen = self.ring.pushed.0.load(Acquire);
            if self.pushed_seen - self.popped <= held {
                return None;
            }
        }
        // SAFETY: a handle is in the ring, so the oldest one's slot is the receiver's until the
        // store below.
        let handle = unsafe { (*self.ring.slots[self.place].get()).take() };
        self.place = after(self.place, self.ring.slots.len());
        self.popped += 1;
        // Ordering: Release. Pairs with the Acquire load in `push`: the slot is empty.
        self.ring.popped.0.store(self.popped, Release);
        handle
    }

    /// Whether no handle is left, and none will come.
    pub(super) fn is_over(&self) -> bool {
        // Ordering: Acquire. Pairs with the Release store in `close`, after the last push.
        let is_closed = self.ring.is_closed.load(Acquire);
        // Ordering: Relaxed. If the ring is closed the load above has made the last push visible.
        is_closed && self.ring.pushed.0.load(Relaxed) == self.popped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn holds_back_a_window_and_no_more_than_fits() {
        let (mut sender, mut receiver) = ring(3);
        for number in 0..3 + SLACK {
            assert_eq!(sender.push(number), Ok(()));
        }
        assert_eq!(sender.push(9), Err(9), "it is full");
        for number in 0..SLACK {
            assert_eq!(receiver.pop_beyond(3), Some(number));
        }
        assert_eq!(receiver.pop_beyond(3), None, "a window is left");
        assert_eq!(sender.push(9), Ok(()));
        sender.close();
        let rest: Vec<_> = std::iter::from_fn(|| receiver.pop_beyond(0)).collect();
        assert_eq!(rest, [SLACK, SLACK + 1, SLACK + 2, 9]);
        assert!(receiver.is_over());
    }

    #[test]
    fn threads_pass_all_in_order() {
        let (mut sender, mut receiver) = ring(1);
        let last = 5 * SLACK;
        let pushes = thread::spawn(move || {
            for number in 0..last {
                let mut number = Box::new(number);
                while let Err(back) = sender.push(number) {
                    number = back;
                    thread::yield_now();
                }
            }
            sender.close();
        });
        let mut next = 0;
        while !receiver.is_over() {
            match receiver.pop_beyond(0) {
                Some(number) => {
                    assert_eq!(*number, next);
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
        pushes.join().unwrap();
        assert_eq!(next, last);
    }
}
