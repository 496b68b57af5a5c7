//! Lateness: how long after their deadlines timers fire. Each thread that claims timers has a
//! histogram of its own, which only this thread writes.
//!
//! Four buckets an octave, from 1 us to 18 min. A smaller or greater lateness goes to a bucket at
//! the end.

use crate::counters::{Counter, CounterSet};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The first bucket ends at 2^10 ns. The clock that measures lateness is up to 2 us ahead.
const OCTAVE_MIN: u32 = 10;

/// The last bucket begins at 2^40 ns.
const OCTAVE_END: u32 = 40;

const PER_OCTAVE_BITS: u32 = 2;
const PER_OCTAVE: usize = 1 << PER_OCTAVE_BITS;
const BUCKETS: usize = 2 + (OCTAVE_END - OCTAVE_MIN) as usize * PER_OCTAVE;

/// The bucket of a lateness.
#[inline]
fn bucket(lateness_ns: u64) -> usize {
    let Some(octave) = lateness_ns
        .checked_ilog2()
        .filter(|&octave| octave >= OCTAVE_MIN)
    else {
        return 0;
    };
    let part = (lateness_ns >> (octave - PER_OCTAVE_BITS)) as usize % PER_OCTAVE;
    (1 + (octave - OCTAVE_MIN) as usize * PER_OCTAVE + part).min(BUCKETS - 1)
}

/// Where a bucket begins, in nanoseconds. It ends where the next one begins.
fn start_ns(bucket: usize) -> u64 {
    let Some(number) = bucket.checked_sub(1) else {
        return 0;
    };
    ((PER_OCTAVE + number % PER_OCTAVE) as u64)
        << (number / PER_OCTAVE)
        << (OCTAVE_MIN - PER_OCTAVE_BITS)
}

/// The counts of one thread.
pub(crate) struct Histogram {
    buckets: [Counter; BUCKETS],
    max_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            max_ns: Counter::default(),
        }
    }
}

impl Histogram {
    /// Adds `timers` timers of one lateness. The owner only.
    #[inline]
    pub(crate) fn add(&self, lateness_ns: u64, timers: u64) {
        self.buckets[bucket(lateness_ns)].add(timers);
        self.max_ns.raise(lateness_ns);
    }
}

impl CounterSet for Histogram {
    fn add_all(&self, other: &Self) {
        let buckets = self.buckets.iter().zip(&other.buckets);
        buckets.for_each(|(bucket, other)| bucket.add(other.get()));
        self.max_ns.raise(other.max_ns.get());
    }
}

/// Counts how late things were, for what is built on top of a service: timers by the time of day,
/// deliveries, commits. [`snapshot`](Self::snapshot) gives the histogram.
///
/// One thread records, any thread may take a snapshot. Two threads that record at one time lose
/// counts, and nothing else goes wrong. So threads that record have a recorder each. A recorder has
/// 1 KiB.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::LatenessRecorder;
///
/// let commits = LatenessRecorder::new();
/// commits.record(Duration::from_millis(3), 1);
/// commits.record(Duration::from_millis(9), 2);
/// let times = commits.snapshot();
/// assert_eq!((times.count(), times.max()), (3, Duration::from_millis(9)));
/// ```
#[derive(Default)]
pub struct LatenessRecorder(Histogram);

impl LatenessRecorder {
    /// A recorder that has counted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `count` things that were so late. Lateness beyond 584 years counts as that. Costs
    /// some nanoseconds: two loads and two stores.
    pub fn record(&self, lateness: Duration, count: u64) {
        let lateness_ns = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.0.add(lateness_ns, count);
    }

    /// What was counted so far. The owner may go on counting meanwhile. Costs an allocation of
    /// 1 KiB.
    #[must_use]
    pub fn snapshot(&self) -> LatenessHistogram {
        let mut snapshot = LatenessHistogram::default();
        snapshot.merge(&self.0);
        snapshot
    }
}

impl fmt::Debug for LatenessRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LatenessRecorder")
            .field(&self.snapshot())
            .finish()
    }
}

/// How late timers fired: the time from their deadlines until a worker claimed them, before it ran
/// them.
///
/// Four buckets for each doubling, from 1 us to 18 min. So a quantile between these is at most a
/// quarter above the lateness that was measured; below 1 us it is 1 us, and beyond 18 min the
/// greatest lateness. What is measured may be up to 2 us above the truth. If a timer is later
/// because it shared a reading of the clock (see [`schedule`](crate::ServiceHandle::schedule)), the
/// time that this adds is not measured. A snapshot, as all of [`Stats`](crate::Stats).
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{ManualClock, TimerService};
///
/// let clock = ManualClock::new();
/// let service = TimerService::builder().clock(clock.clone()).start()?;
/// service.schedule(Duration::from_millis(3), || ())?;
/// clock.advance(Duration::from_millis(3));
/// let lateness = service.stats().lateness;
/// // A manual clock is never late.
/// assert_eq!((lateness.count(), lateness.max()), (1, Duration::ZERO));
/// assert_eq!(lateness.quantile(0.99), Duration::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LatenessHistogram {
    counts: Box<[u64; BUCKETS]>,
    max_ns: u64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            max_ns: 0,
        }
    }
}

impl LatenessHistogram {
    pub(super) fn merge(&mut self, histogram: &Histogram) {
        for (count, bucket) in self.counts.iter_mut().zip(&histogram.buckets) {
            *count += bucket.get();
        }
        self.max_ns = self.max_ns.max(histogram.max_ns.get());
    }

    /// The number of timers that were measured: timers that fired at their time, and runs of
    /// periodic timers. Timers that [`FireAll`](crate::StopPolicy::FireAll) fires are not measured.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The greatest lateness that was measured, not rounded to a bucket.
    #[must_use]
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// A lateness that this part of all timers did not exceed: the end of its bucket, or the
    /// greatest lateness if that is less. Zero if no timer was measured.
    ///
    /// A `part` below 0 counts as 0, a `part` above 1 as 1, and NaN as 0.
    #[must_use]
    #[inline]
    pub fn quantile(&self, part: f64) -> Duration {
        // In units of 2^-32, so that no count is rounded. The cast saturates, and takes NaN to 0.
        let part = u128::from((part * (1u64 << 32) as f64) as u64).min(1 << 32);
        let rank = (u128::from(self.count()) * part).div_ceil(1 << 32).max(1);
        let mut below = 0;
        let reaches = |&count: &u64| {
            below += u128::from(count);
            below >= rank
        };
        let Some(bucket) = self.counts.iter().position(reaches) else {
            return Duration::ZERO;
        };
        let end_ns = if bucket == BUCKETS - 1 {
            u64::MAX
        } else {
            start_ns(bucket + 1)
        };
        Duration::from_nanos(end_ns.min(self.max_ns))
    }

    /// The buckets that are not empty, in order: the range of lateness (its end excluded), and the
    /// number of timers. The last bucket ends with [`Duration::MAX`].
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// for (range, timers) in service.stats().lateness.buckets() {
    ///     println!("{timers} timers were {range:?} late");
    /// }
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| {
                let end = if bucket == BUCKETS - 1 {
                    Duration::MAX
                } else {
                    Duration::from_nanos(start_ns(bucket + 1))
                };
                (Duration::from_nanos(start_ns(bucket))..end, count)
            })
    }
}

impl fmt::Debug for LatenessHistogram {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("LatenessHistogram");
        f.field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99));
        f.field("max", &self.max()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(measured: &[(u64, u64)]) -> LatenessHistogram {
        let (mut all, one) = (LatenessHistogram::default(), Histogram::default());
        measured
            .iter()
            .for_each(|&(lateness_ns, timers)| one.add(lateness_ns, timers));
        all.merge(&one);
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn a_bucket_holds_its_lateness(bits in 0u32..64, low in any::<u64>()) {
            let lateness_ns = 1 << bits | low & ((1 << bits) - 1);
            let bucket = bucket(lateness_ns);
            prop_assert!(start_ns(bucket) <= lateness_ns);
            prop_assert!(bucket == BUCKETS - 1 || lateness_ns < start_ns(bucket + 1));
            // At most a quarter of the octave, except at the ends.
            prop_assert!(
                bucket == 0
                    || bucket == BUCKETS - 1
                    || 4 * (start_ns(bucket + 1) - start_ns(bucket)) <= lateness_ns
            );
        }

        #[test]
        fn quantiles_are_a_quarter_above_the_truth_at_most(
            mut all in proptest::collection::vec(1_024u64..1 << 40, 1..50),
            part in 0.0f64..=1.0,
        ) {
            let measured: Vec<_> = all.iter().map(|&lateness_ns| (lateness_ns, 1)).collect();
            let told_ns = histogram(&measured).quantile(part).as_nanos() as u64;
            all.sort_unstable();
            let rank = ((all.len() as f64 * part).ceil() as usize).saturating_sub(1);
            let truth_ns = all[rank.min(all.len() - 1)];
            // A part at an edge may round to either side.
            let is_near = |&one_ns: &u64| one_ns <= told_ns && told_ns <= one_ns + one_ns / 4;
            prop_assert!(all.iter().any(is_near));
            prop_assert!(told_ns >= truth_ns, "{told_ns} < {truth_ns}");
        }
    }

    #[test]
    fn the_ends() {
        let empty = LatenessHistogram::default();
        assert_eq!(
            (
                empty.count(),
                empty.max(),
                empty.quantile(0.5),
                empty.buckets().count()
            ),
            (0, Duration::ZERO, Duration::ZERO, 0)
        );
        let ends = histogram(&[(0, 3), (u64::MAX, 1)]);
        assert_eq!(
            (ends.count(), ends.max()),
            (4, Duration::from_nanos(u64::MAX))
        );
        for (part, lateness_ns) in [
            (f64::NAN, 1_024),
            (-7.0, 1_024),
            (0.0, 1_024),
            (0.75, 1_024),
            (0.76, u64::MAX),
            (1.0, u64::MAX),
            (7.0, u64::MAX),
        ] {
            assert_eq!(
                ends.quantile(part),
                Duration::from_nanos(lateness_ns),
                "{part}"
            );
        }
        let buckets: Vec<_> = ends.buckets().collect();
        assert_eq!(buckets[0], (Duration::ZERO..Duration::from_nanos(1_024), 3));
        assert_eq!(
            buckets[1],
            (Duration::from_nanos(1 << 40)..Duration::MAX, 1)
        );
        assert_eq!(
            (buckets.len(), histogram(&[(500, 9)]).quantile(0.5)),
            (2, Duration::from_nanos(500)),
            "not above the maximum"
        );
    }
}
