//! Book: what became of every timer, in as much memory as timers may be pending at a time. The
//! other ledgers of the harness have a line for each timer there ever was, and would grow for days.
//!
//! A timer has a place while it is pending. Its owner, who is one thread at a time, arms the next
//! one there once this one has an outcome. A payload is the number of its place and of the timer in
//! it, so one that comes a second time, or after it was cancelled, is known.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wheelwork_bench::lateness::Lateness;

/// Faults that are printed; the others are counted.
const PRINTED_MAX: u64 = 20;

/// What is known of the timer that has a place; 0 if none had it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending = 1,
    Fired,
    Cancelled,
    HandedBack,
}

const STATE_BITS: u32 = 3;

/// The number of the timer, and its state below it.
fn word(number: u32, state: State) -> u64 {
    u64::from(number) << STATE_BITS | state as u64
}

#[derive(Default)]
struct Place {
    word: AtomicU64,
    /// Nanoseconds since the book was opened; the earlier time while a timer is moved.
    due_ns: AtomicU64,
}

pub(crate) struct Book {
    origin: Instant,
    places: Box<[Place]>,
    faults: AtomicU64,
}

impl Book {
    /// A book with this number of places, whose memory has been touched.
    pub(crate) fn new(places: usize) -> Self {
        Self {
            origin: Instant::now(),
            places: (0..places).map(|_| Place::default()).collect(),
            faults: AtomicU64::new(0),
        }
    }

    pub(crate) fn ns(&self, time: Instant) -> u64 {
        time.saturating_duration_since(self.origin).as_nanos() as u64
    }

    /// Whether the place may have another timer.
    pub(crate) fn is_over(&self, place: usize) -> bool {
        self.places[place].word.load(SeqCst) & ((1 << STATE_BITS) - 1) != State::Pending as u64
    }

    /// A timer is about to be armed in a place whose last one is over. Returns its payload.
    pub(crate) fn open(&self, place: usize, due: Instant) -> u64 {
        let Place { word: of, due_ns } = &self.places[place];
        let number = ((of.load(SeqCst) >> STATE_BITS) as u32).wrapping_add(1);
        due_ns.store(self.ns(due), SeqCst);
        of.store(word(number, State::Pending), SeqCst);
        (place as u64) << 32 | u64::from(number)
    }

    pub(crate) fn due(&self, place: usize) -> Instant {
        self.origin + Duration::from_nanos(self.places[place].due_ns.load(SeqCst))
    }

    /// A timer was moved to a later time.
    pub(crate) fn moved(&self, place: usize, due: Instant) {
        self.places[place].due_ns.store(self.ns(due), SeqCst);
    }

    /// The timer that has the place was cancelled.
    pub(crate) fn cancelled(&self, place: usize) {
        let number = self.places[place].word.load(SeqCst) >> STATE_BITS;
        self.close((place as u64) << 32 | number, State::Cancelled);
    }

    /// Notes the one outcome of a timer. Returns whether it is the first one.
    pub(crate) fn close(&self, payload: u64, outcome: State) -> bool {
        let (place, number) = ((payload >> 32) as usize, payload as u32);
        let (pending, over) = (word(number, State::Pending), word(number, outcome));
        let of = &self.places[place].word;
        let closed = of.compare_exchange(pending, over, SeqCst, SeqCst);
        if let Err(found) = closed {
            let found = (found >> STATE_BITS, found & ((1 << STATE_BITS) - 1));
            let what =
                format_args!("timer {number} of place {place}: {outcome:?}, though the place");
            self.fault(format_args!(
                "{what} is at timer {}, state {}",
                found.0, found.1
            ));
        }
        closed.is_ok()
    }

    /// A timer fires now.
    pub(crate) fn fires(&self, payload: u64, now_ns: u64, lateness: &mut Lateness) {
        // Before the place may have another timer.
        let due_ns = self.places[(payload >> 32) as usize].due_ns.load(SeqCst);
        if self.close(payload, State::Fired) {
            lateness.fired(due_ns, now_ns);
            if now_ns < due_ns {
                let early_ns = due_ns - now_ns;
                self.fault(format_args!("payload {payload:#x} early by {early_ns} ns"));
            }
        }
    }

    /// Timers that were due so long ago and have not come.
    pub(crate) fn overdue(&self, by: Duration) -> usize {
        let before_ns = self.ns(Instant::now()).saturating_sub(by.as_nanos() as u64);
        let is_overdue = |&place: &usize| {
            !self.is_over(place) && self.places[place].due_ns.load(SeqCst) < before_ns
        };
        (0..self.places.len()).filter(is_overdue).count()
    }

    /// Timers that have no outcome.
    pub(crate) fn pending(&self) -> usize {
        let is_pending = |&place: &usize| !self.is_over(place);
        (0..self.places.len()).filter(is_pending).count()
    }

    pub(crate) fn fault(&self, what: fmt::Arguments<'_>) {
        if self.faults.fetch_add(1, Relaxed) < PRINTED_MAX {
            eprintln!("FAULT: {what}");
        }
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn every_kind_of_fault_is_seen() {
        let (book, now) = (Book::new(3), Instant::now());
        let fires = |payload| {
            let mut lateness = Lateness::default();
            book.fires(payload, book.ns(Instant::now()), &mut lateness);
            lateness.count()
        };
        let first = book.open(0, now);
        assert_eq!((fires(first), book.faults(), book.pending()), (1, 0, 0));
        assert_eq!((fires(first), book.faults()), (0, 1), "fired twice");
        let second = book.open(0, now);
        assert_eq!((fires(first), book.faults()), (0, 2), "of the timer before");
        book.cancelled(0);
        assert_eq!((book.is_over(0), book.faults()), (true, 2));
        assert_eq!((fires(second), book.faults()), (0, 3), "fired after that");
        book.cancelled(0);
        assert_eq!(book.faults(), 4, "cancelled twice");
        let early = book.open(1, now + MINUTE);
        assert_eq!((fires(early), book.faults()), (1, 5), "early");
        book.open(2, now);
        book.moved(2, now + MINUTE);
        assert_eq!((book.pending(), book.overdue(Duration::ZERO)), (1, 0));
        assert!(book.due(2) > now);
        book.moved(2, now);
        std::thread::sleep(Duration::from_millis(1));
        let overdue = [Duration::ZERO, MINUTE].map(|by| book.overdue(by));
        assert_eq!(overdue, [1, 0], "lost");
    }
}
