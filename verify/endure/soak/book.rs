//! Book: what became of every timer, in as much memory as timers may be pending at a time. The
//! other ledgers of the harness have a line for each timer there ever was, and would grow for days.
//!
//! A timer has a place while it is pending. Its owner, who is one thread at a time, arms the next
//! one there once this one has an outcome. A payload is the number of its place and of the timer in
//! it, so one that comes a second time, or after it was cancelled, is known.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

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
    fired: AtomicU64,
    handed_back: AtomicU64,
    faults: AtomicU64,
}

impl Book {
    /// A book with this number of places, whose memory has been touched.
    pub(crate) fn new(places: usize) -> Self {
        Self {
            origin: Instant::now(),
            places: (0..places).map(|_| Place::default()).collect(),
            fired: AtomicU64::new(0),
            handed_back: AtomicU64::new(0),
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

    /// A timer was moved to a later time, or is about to be moved to an earlier one.
    pub(crate) fn moved(&self, place: usize, due: Instant) {
        self.places[place].due_ns.store(self.ns(due), SeqCst);
    }

    /// The payload of the timer that has the place.
    pub(crate) fn payload(&self, place: usize) -> u64 {
        (place as u64) << 32 | self.places[place].word.load(SeqCst) >> STATE_BITS
    }

    /// The timer that has the place was cancelled.
    pub(crate) fn cancelled(&self, place: usize) {
        self.close(self.payload(place), State::Cancelled);
    }

    /// A timer was handed back by a stop.
    pub(crate) fn handed_back(&self, payload: u64) {
        self.handed_back.fetch_add(1, Relaxed);
        self.close(payload, State::HandedBack);
    }

    /// Notes the one outcome of a timer. Returns whether it is the first one.
    fn close(&self, payload: u64, outcome: State) -> bool {
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

    /// A timer fires now. Returns when it was due, if this is its first outcome.
    pub(crate) fn fires(&self, payload: u64, now_ns: u64) -> Option<u64> {
        self.fired.fetch_add(1, Relaxed);
        // Before the place may have another timer.
        let due_ns = self.places[(payload >> 32) as usize].due_ns.load(SeqCst);
        if !self.close(payload, State::Fired) {
            return None;
        }
        if now_ns < due_ns {
            let early_ns = due_ns - now_ns;
            self.fault(format_args!("payload {payload:#x} early by {early_ns} ns"));
        }
        Some(due_ns)
    }

    /// How many have fired, and how many were handed back.
    pub(crate) fn outcomes(&self) -> [u64; 2] {
        [&self.fired, &self.handed_back].map(|count| count.load(Relaxed))
    }

    /// Whether the timer that has the place was due so long ago.
    pub(crate) fn is_late(&self, place: usize, by: Duration) -> bool {
        self.due(place) + by < Instant::now()
    }

    /// Nanoseconds from the book's opening to a time so long ago.
    pub(crate) fn ago_ns(&self, time: Duration) -> u64 {
        self.ns(Instant::now())
            .saturating_sub(time.as_nanos() as u64)
    }

    /// Timers that were due before a time and have not come.
    pub(crate) fn overdue(&self, before_ns: u64) -> usize {
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
        let fires = |payload| book.fires(payload, book.ns(Instant::now())).is_some();
        let first = book.open(0, now);
        assert_eq!(first, book.payload(0));
        assert_eq!((fires(first), book.faults(), book.pending()), (true, 0, 0));
        assert_eq!((fires(first), book.faults()), (false, 1), "fired twice");
        let second = book.open(0, now);
        assert_eq!(
            (fires(first), book.faults()),
            (false, 2),
            "of the timer before"
        );
        book.cancelled(0);
        assert_eq!((book.is_over(0), book.faults()), (true, 2));
        assert_eq!(
            (fires(second), book.faults()),
            (false, 3),
            "fired after that"
        );
        book.cancelled(0);
        assert_eq!(book.faults(), 4, "cancelled twice");
        book.handed_back(second);
        assert_eq!((book.faults(), book.outcomes()), (5, [4, 1]));
        let early = book.open(1, now + MINUTE);
        assert_eq!((fires(early), book.faults()), (true, 6), "early");
        book.open(2, now);
        book.moved(2, now + MINUTE);
        assert_eq!(
            (book.pending(), book.overdue(book.ago_ns(Duration::ZERO))),
            (1, 0)
        );
        assert!(!book.is_late(2, Duration::ZERO) && book.due(2) > now);
        book.moved(2, now);
        std::thread::sleep(Duration::from_millis(1));
        let overdue = [Duration::ZERO, MINUTE].map(|ago| book.overdue(book.ago_ns(ago)));
        assert_eq!(overdue, [1, 0], "lost");
        assert!(book.is_late(2, Duration::ZERO) && !book.is_late(2, MINUTE));
    }
}
