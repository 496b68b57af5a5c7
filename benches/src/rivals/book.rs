//! The book of what has fired: a stripe for each thread that fires, so that counting costs all subjects the same, and little.

use hdrhistogram::Histogram;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Later than this is not told apart.
const LATE_NS_MAX: u64 = 600_000_000_000;

/// With a due time: the timer comes again a period later, and whoever runs it arms it anew.
pub(crate) const PERIODIC: u64 = 1 << 63;

/// The period of timers that come again.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// In place of a due time: the time of the first of these is kept for each thread that fires, and of every 64th, since a reading of the clock takes as long as
/// some subjects need for a timer.
pub(crate) const BURST: u64 = PERIODIC - 1;
const STAMP_EVERY: u64 = 64;

/// What fired, of the timers whose due time was asked for.
pub(crate) struct Lateness {
    /// `None`: of bursts alone. Making one takes as long as some 20,000 timers do.
    late_ns: Option<Histogram<u64>>,
    /// Fired before it was due.
    pub(crate) early: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

impl Lateness {
    fn new() -> Self {
        Self { late_ns: None, early: 0, first_ns: u64::MAX, last_ns: 0 }
    }

    fn late_ns(&mut self) -> &mut Histogram<u64> {
        self.late_ns.get_or_insert_with(|| Histogram::new_with_bounds(1, LATE_NS_MAX, 3).expect("the bounds are right"))
    }

    /// Timers whose due time was asked for.
    pub(crate) fn count(&self) -> u64 {
        self.late_ns.as_ref().map_or(0, Histogram::len)
    }

    /// How late that part of the timers is at the most; 0 if there are none.
    pub(crate) fn quantile_ns(&self, part: f64) -> u64 {
        self.late_ns.as_ref().map_or(0, |late_ns| late_ns.value_at_quantile(part))
    }

    fn fired(&mut self, due_ns: u64, now_ns: u64) {
        self.late_ns().saturating_record(now_ns.saturating_sub(due_ns));
        self.early += u64::from(now_ns < due_ns);
        self.stamp(now_ns);
    }

    fn stamp(&mut self, now_ns: u64) {
        self.first_ns = self.first_ns.min(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn add(&mut self, other: &Self) {
        if let Some(late_ns) = &other.late_ns {
            self.late_ns().add(late_ns).expect("the bounds are the same");
        }
        self.early += other.early;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

struct Stripe {
    fired: AtomicU64,
    lateness: Mutex<Lateness>,
}

static STRIPES: Mutex<Vec<Arc<Stripe>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Arc<Stripe>> = const { OnceCell::new() };
}

/// Nanoseconds since the first call. 0 is no time that a timer may be due.
pub(crate) fn now_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A timer has fired, that was due then; 0 if nobody asks when.
pub(crate) fn fired(due_ns: u64) {
    OWN.with(|own| {
        let stripe = own.get_or_init(new_stripe);
        // Ordering: Relaxed. One writer; the figures behind the lock are read under it.
        let before = stripe.fired.load(Relaxed);
        // This thread's own lock, but for the end.
        match due_ns {
            0 => (),
            BURST if before % STAMP_EVERY > 0 => (),
            BURST => lock(&stripe.lateness).stamp(now_ns()),
            _ => lock(&stripe.lateness).fired(due_ns, now_ns()),
        }
        stripe.fired.store(before + 1, Relaxed);
    });
}

/// The same for a timer that perhaps comes again: when it does.
pub(crate) fn ran(payload: u64) -> Option<u64> {
    fired(payload & !PERIODIC);
    (payload & PERIODIC != 0).then(|| next_ns(payload & !PERIODIC))
}

/// When a timer that comes again is due after it was due then.
pub(crate) fn next_ns(due_ns: u64) -> u64 {
    due_ns + PERIOD.as_nanos() as u64
}

/// How long it is until then.
pub(crate) fn delay_until(due_ns: u64) -> Duration {
    Duration::from_nanos(due_ns.saturating_sub(now_ns()))
}

fn new_stripe() -> Arc<Stripe> {
    let stripe = Arc::new(Stripe { fired: AtomicU64::new(0), lateness: Mutex::new(Lateness::new()) });
    lock(&STRIPES).push(stripe.clone());
    stripe
}

pub(crate) fn fired_so_far() -> u64 {
    // Ordering: Relaxed. A count to look at.
    lock(&STRIPES).iter().map(|stripe| stripe.fired.load(Relaxed)).sum()
}

/// All stripes together.
pub(crate) fn lateness() -> Lateness {
    let mut sum = Lateness::new();
    lock(&STRIPES).iter().for_each(|stripe| sum.add(&lock(&stripe.lateness)));
    sum
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_added_up() {
        let (mut one, mut other) = (Lateness::new(), Lateness::new());
        one.fired(1_000, 3_000);
        other.fired(5_000, 4_000);
        one.add(&other);
        assert_eq!((one.early, one.first_ns, one.last_ns), (1, 3_000, 4_000));
        one.add(&Lateness::new());
        assert_eq!((one.count(), one.late_ns().max(), one.quantile_ns(1.0)), (2, 2_000, 2_000));
        assert_eq!(Lateness::new().quantile_ns(0.5), 0);
    }
}
