//! Round trip: how long a cache line takes from one core to another and back, which some virtual
//! machines change while they run.
//!
//! On such a machine the two cores are *near* for some time, and then *far* for some time: the
//! round trip takes several times as long, and so do locks and queues that threads share. Figures
//! of the two states say nothing about each other. So the line is bounced before and after a run.

use crate::system;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips up to this time are near. On the machines that change they take some 90 ns or some
/// 410 ns.
const NEAR_NS_MAX: f64 = 200.0;

/// Round trips of a batch. The fastest batch counts: a thread that loses its core makes one slow.
const BATCH: usize = 500;
const BATCHES: usize = 20;

/// No batch begins after this time.
const PATIENCE: Duration = Duration::from_millis(200);

/// Spins after which a thread lets others have its core.
const SPINS: usize = 10_000;

/// How far the cores are from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distance {
    /// A round trip takes 200 ns at the most.
    Near,
    /// It takes longer.
    Far,
}

impl Distance {
    /// Of a round trip.
    pub fn of(round_trip_ns: f64) -> Self {
        if round_trip_ns <= NEAR_NS_MAX {
            Self::Near
        } else {
            Self::Far
        }
    }
}

/// In place of a number: it is over.
const OVER: usize = usize::MAX;

/// The line that goes to and fro, and no other data on it or beside it.
#[repr(align(128))]
struct Bounced(AtomicUsize);

impl Bounced {
    /// Waits until the other thread has written this. Returns whether it has: it may be over.
    fn wait_for(&self, number: usize) -> bool {
        for spins in 1.. {
            // Ordering: Acquire. Pairs with the Release store in `write`.
            match self.0.load(Acquire) {
                OVER => return false,
                seen if seen == number => return true,
                _ if spins % SPINS == 0 => thread::yield_now(),
                _ => spin_loop(),
            }
        }
        false
    }

    fn write(&self, number: usize) {
        // Ordering: Release. Pairs with the Acquire load in `wait_for`: a hand-over, as others are.
        self.0.store(number, Release);
    }
}

/// Bounces a line between the cores of the first two producers: the nanoseconds of a round trip,
/// unless there is one core. Takes some 10 ms on a machine that does nothing else.
pub fn round_trip_ns() -> Option<f64> {
    if system::cores() < 2 {
        return None;
    }
    let line = Bounced(AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            system::pin(1);
            let odd = (1..).step_by(2);
            let told = odd.take_while(|&number| line.wait_for(number));
            told.for_each(|number| line.write(number + 1));
        });
        let bounces = scope.spawn(|| {
            system::pin(0);
            let (start, mut sent, mut best_ns) = (Instant::now(), 0, f64::INFINITY);
            for batch in 0..BATCHES {
                if batch > 0 && start.elapsed() > PATIENCE {
                    break;
                }
                let begin = Instant::now();
                for _ in 0..BATCH {
                    line.write(sent + 1);
                    line.wait_for(sent + 2);
                    sent += 2;
                }
                best_ns = best_ns.min(begin.elapsed().as_nanos() as f64 / BATCH as f64);
            }
            line.write(OVER);
            best_ns
        });
        bounces.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_nanoseconds_are_near() {
        let [near, far] = [90.0, 410.0].map(Distance::of);
        assert_eq!((near, far), (Distance::Near, Distance::Far));
    }

    #[test]
    fn a_line_goes_to_and_fro() {
        let measured = round_trip_ns();
        assert_eq!(measured.is_some(), system::cores() > 1);
        assert!(measured.is_none_or(|ns| ns > 0.0 && ns.is_finite()));
    }
}
