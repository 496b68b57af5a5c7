//! Lateness of what has fired: how late, how much too early, when first and last. What the ledgers
//! of `million` and of `rivals` are made of.

use crate::line::Figures;
use crate::lock::lock;
use hdrhistogram::Histogram;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Later than this is not told apart.
const LATE_NS_MAX: u64 = 600_000_000_000;

/// What one or several have seen fire.
pub struct Lateness {
    /// `None`: nobody asked how late. Making one takes as long as some 20,000 timers do.
    late_ns: Option<Histogram<u64>>,
    /// Fired before it was due.
    pub early: u64,
    /// The clock when the first one fired; `u64::MAX` if none has.
    pub first_ns: u64,
    /// The clock when the last one fired.
    pub last_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            late_ns: None,
            early: 0,
            first_ns: u64::MAX,
            last_ns: 0,
        }
    }
}

impl Lateness {
    /// Nothing has fired, and the first one will not have to wait.
    pub fn ready() -> Self {
        let mut ready = Self::default();
        ready.late_ns();
        ready
    }

    fn late_ns(&mut self) -> &mut Histogram<u64> {
        self.late_ns.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, LATE_NS_MAX, 3).expect("the bounds are right")
        })
    }

    /// One has fired that was due then.
    #[inline]
    pub fn fired(&mut self, due_ns: u64, now_ns: u64) {
        self.early += u64::from(now_ns < due_ns);
        self.late(due_ns, now_ns);
    }

    /// The same where somebody else has looked whether it was early.
    #[inline]
    pub fn late(&mut self, due_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        self.late_ns().saturating_record(late_ns);
        self.stamp(now_ns);
    }

    /// One has fired, and nobody asks how late.
    #[inline]
    pub fn stamp(&mut self, now_ns: u64) {
        self.first_ns = self.first_ns.min(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// Takes in what another has seen.
    pub fn add(&mut self, other: &Self) {
        if let Some(late_ns) = &other.late_ns {
            let added = self.late_ns().add(late_ns);
            added.expect("the bounds are the same");
        }
        self.early += other.early;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Those of which it was asked how late they are.
    pub fn count(&self) -> u64 {
        self.late_ns.as_ref().map_or(0, Histogram::len)
    }

    /// How late that part of them is at the most; 0 if there are none.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let late_ns = self.late_ns.as_ref();
        late_ns.map_or(0, |late_ns| late_ns.value_at_quantile(part))
    }

    /// The figures that all workloads with lateness have.
    pub fn figures(&self) -> Figures {
        let ms = |part| self.quantile_ns(part) as f64 / 1e6;
        Figures::from([
            ("late_ms_p50", ms(0.5)),
            ("late_ms_p99", ms(0.99)),
            ("late_ms_max", ms(1.0)),
            ("early", self.early as f64),
        ])
    }
}

/// What some threads have seen fire. Each has its own, on cache lines of its own, so that counting
/// costs little.
#[derive(Default)]
#[repr(align(128))]
pub struct Stripe {
    /// How many.
    pub fired: AtomicU64,
    /// How late.
    pub lateness: Mutex<Lateness>,
}

/// How many have fired so far.
pub fn fired_so_far<'a>(stripes: impl Iterator<Item = &'a Stripe>) -> u64 {
    // Ordering: Relaxed. A count to look at.
    stripes.map(|stripe| stripe.fired.load(Relaxed)).sum()
}

/// All stripes together.
pub fn sum<'a>(stripes: impl Iterator<Item = &'a Stripe>) -> Lateness {
    let mut sum = Lateness::default();
    stripes.for_each(|stripe| sum.add(&lock(&stripe.lateness)));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_added_up() {
        let (mut one, mut other) = (Lateness::default(), Lateness::default());
        one.fired(1_000, 3_000);
        other.fired(5_000, 4_000);
        one.add(&other);
        assert_eq!((one.early, one.first_ns, one.last_ns), (1, 3_000, 4_000));
        one.add(&Lateness::default());
        let [median, most] = [0.5, 1.0].map(|part| one.quantile_ns(part));
        assert_eq!((one.count(), median, most), (2, 0, 2_000));
        assert_eq!(Lateness::default().quantile_ns(0.5), 0);
    }
}
