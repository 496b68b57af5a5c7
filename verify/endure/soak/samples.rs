//! Samples: the figures of a service as time goes by, and whether they are flat.

use super::load::Done;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wheelwork::Stats;
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::system;

/// Memory may be more than in the quarter before by this part of it ...
const RISE_PART_MAX: f64 = 0.02;

/// ... or by this: the allocator's arenas.
const RISE_BYTES_MAX: f64 = 1_000_000.0;

/// The figures of a period, as [`FIGURES`] names them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample([f64; FIGURES.len()]);

/// The place of the resident bytes among them.
const RESIDENT: usize = 7;

/// Each figure: the title of its column, with its width; its decimals; what it is divided by to be
/// shown; and its name in the summary, if it should be flat.
const FIGURES: [(&str, usize, f64, &str); 12] = [
    ("    minutes", 2, 1.0, ""),
    ("  M ticks", 2, 1e6, ""),
    ("  M steps", 2, 1e6, ""),
    ("  M armed", 2, 1e6, ""),
    ("  M fired", 2, 1e6, ""),
    ("  pending", 0, 1.0, "pending"),
    // Those of cancelled timers too.
    ("  entries", 0, 1.0, "entries in the wheels"),
    ("  resident MB", 1, 1e6, "resident, MB"),
    ("  CPU a step, ns", 0, 1.0, "CPU, ns a step"),
    ("  late p50, ms", 2, 1.0, "late p50, ms"),
    ("    p99", 2, 1.0, "late p99, ms"),
    ("     most", 2, 1.0, ""),
];

/// The titles of the columns.
pub(crate) fn titles() -> String {
    FIGURES.map(|(title, ..)| title).concat()
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut figures = FIGURES.iter().zip(self.0);
        figures.try_for_each(|(&(title, digits, unit, _), figure)| {
            write!(f, "{:width$.digits$}", figure / unit, width = title.len())
        })
    }
}

/// Takes samples of one service.
pub(crate) struct Sampler {
    start: Instant,
    tick: Duration,
    cpu: Duration,
    steps: u64,
}

impl Sampler {
    pub(crate) fn new(tick: Duration) -> Self {
        Self {
            start: Instant::now(),
            tick,
            cpu: system::cpu_time(),
            steps: 0,
        }
    }

    /// The figures since the sample before.
    pub(crate) fn sample(&mut self, stats: &Stats, done: &Done, lateness: &Lateness) -> Sample {
        let (time, cpu) = (self.start.elapsed(), system::cpu_time());
        let steps = done.steps.load(Relaxed);
        let new_steps = (steps - self.steps).max(1) as f64;
        let new_cpu_ns = (cpu - self.cpu).as_nanos() as f64;
        (self.cpu, self.steps) = (cpu, steps);
        let late_ms = |part| lateness.quantile_ns(part) as f64 / 1e6;
        let seconds = time.as_secs_f64();
        Sample([
            seconds / 60.0,
            seconds / self.tick.as_secs_f64(),
            steps as f64,
            stats.timers.armed as f64,
            stats.timers.fired as f64,
            stats.timers.pending as f64,
            stats.sum(|shard| shard.machinery.entries()) as f64,
            system::resident_bytes() as f64,
            new_cpu_ns / new_steps,
            late_ms(0.5),
            late_ms(0.99),
            late_ms(1.0),
        ])
    }
}

/// The median of a figure in each quarter of the samples but the first one, in which the allocator
/// and the service become warm.
fn quarters(samples: &[Sample], figure: usize) -> [f64; 3] {
    let quarter = samples.len() / 4;
    [1, 2, 3].map(|number| {
        let part = samples.iter().skip(number * quarter).take(quarter.max(1));
        let mut figures: Vec<f64> = part.map(|sample| sample.0[figure]).collect();
        figures.sort_unstable_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    })
}

/// How memory has risen, in one line: `None` if it has not. What leaks rises in each quarter. Once
/// it may rise: when the machine stalls messages wait, and the allocator keeps their memory.
pub(crate) fn risen(samples: &[Sample]) -> Option<String> {
    let bytes = quarters(samples, RESIDENT);
    let is_more = bytes.windows(2).all(|pair| {
        let [before, after] = [pair[0], pair[1]];
        after - before > f64::max(RISE_PART_MAX * before, RISE_BYTES_MAX)
    });
    is_more.then(|| {
        let [second, third, last] = bytes.map(|bytes| bytes / 1e6);
        format!("memory rises: {second:.1} MB in the second quarter, {third:.1}, then {last:.1}")
    })
}

/// The figures that should be flat, in three quarters.
pub(crate) fn summary(samples: &[Sample]) -> String {
    let mut text = format!("{:<24}", "");
    for title in ["second quarter", "third quarter", "last quarter"] {
        let _ = write!(text, " {title:>16}");
    }
    for (number, (_, _, unit, name)) in FIGURES.into_iter().enumerate() {
        if !name.is_empty() {
            let _ = write!(text, "\n{name:<24}");
            for median in quarters(samples, number) {
                let _ = write!(text, " {:>16.2}", median / unit);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bytes: impl Fn(u32) -> f64) -> Vec<Sample> {
        let sample = |number| {
            let mut sample = Sample::default();
            sample.0[RESIDENT] = bytes(number);
            sample
        };
        (0..40).map(sample).collect()
    }

    #[test]
    fn a_rise_is_seen() {
        let warm = samples(|number| if number < 8 { 1e6 } else { 50e6 });
        assert_eq!(risen(&[]), None);
        assert_eq!(risen(&warm), None, "it becomes warm in the first quarter");
        let noisy = samples(|number| 50e6 + f64::from(number % 5) * 1e6);
        assert_eq!(risen(&noisy), None);
        let stalls = samples(|number| if number < 22 { 50e6 } else { 60e6 });
        assert_eq!(risen(&stalls), None, "it rises once");
        let leaks = samples(|number| 50e6 + f64::from(number) * 120e3);
        let text = risen(&leaks).expect("1.2 MB in each quarter");
        assert!(text.contains("51.8 MB in the second"), "{text}");
        let shown = summary(&leaks);
        assert!(
            shown.contains("51.80            53.00            54.20"),
            "{shown}"
        );
    }
}
