//! Watches: one for what many calls take together, one for what each takes.

use hdrhistogram::Histogram;
use quanta::Clock;

/// Longer calls are not told apart.
const CALL_NS_MAX: u64 = 600_000_000_000;

/// Readings that tell what a reading takes.
const READINGS: usize = 1_000;

pub(crate) trait Watch {
    /// Watches a run of calls.
    fn phase(&mut self, work: impl FnOnce(&mut Self));

    /// Watches one of them.
    fn call<T>(&mut self, work: impl FnOnce() -> T) -> T;
}

/// What phases take, without a reading between the calls.
#[derive(Default)]
pub(crate) struct Whole {
    clock: Clock,
    pub(crate) elapsed_ns: u64,
}

impl Watch for Whole {
    fn phase(&mut self, work: impl FnOnce(&mut Self)) {
        let start = self.clock.raw();
        work(self);
        self.elapsed_ns += self.clock.delta_as_nanos(start, self.clock.raw());
    }

    /// (Inlined for each subject alike, so that all are called from the loop itself.)
    #[inline(always)]
    fn call<T>(&mut self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// What each call takes, less what the clock's own readings take.
pub(crate) struct Each {
    clock: Clock,
    pub(crate) clock_ns: u64,
    pub(crate) calls_ns: Histogram<u64>,
}

impl Each {
    pub(crate) fn new() -> Self {
        let calls_ns = Histogram::new_with_bounds(1, CALL_NS_MAX, 3).expect("the bounds are right");
        let mut each = Self {
            clock: Clock::new(),
            clock_ns: 0,
            calls_ns,
        };
        (0..READINGS).for_each(|_| each.call(|| ()));
        each.clock_ns = each.calls_ns.value_at_quantile(0.5);
        each.calls_ns.reset();
        each
    }
}

impl Watch for Each {
    fn phase(&mut self, work: impl FnOnce(&mut Self)) {
        work(self);
    }

    fn call<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = self.clock.raw();
        let result = work();
        let call_ns = self.clock.delta_as_nanos(start, self.clock.raw());
        self.calls_ns
            .saturating_record(call_ns.saturating_sub(self.clock_ns));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint;

    #[test]
    fn calls_are_counted_and_readings_are_not() {
        let mut each = Each::new();
        // All that a call of nothing takes is readings.
        each.clock_ns = CALL_NS_MAX;
        (0..100).for_each(|_| each.call(|| hint::black_box(())));
        assert_eq!((each.calls_ns.len(), each.calls_ns.max()), (100, 0));
        each.clock_ns = 0;
        (0..100).for_each(|_| each.call(|| hint::black_box(())));
        assert!(each.calls_ns.max() > 0);
    }
}
