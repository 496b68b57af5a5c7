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

/// The figures of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    minutes: f64,
    ticks: f64,
    steps: f64,
    armed: f64,
    fired: f64,
    pending: f64,
    /// In the wheels, those of cancelled timers too.
    entries: f64,
    bytes: f64,
    cpu_ns_per_step: f64,
    late_ms: [f64; 3],
}

pub(crate) const TITLES: &str = "    minutes  M ticks  M steps  M armed  M fired  pending  entries  \
                                 resident  CPU a step    late p50, p99, most";

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, most] = self.late_ms;
        let Self {
            minutes, pending, ..
        } = self;
        let millions = [self.ticks, self.steps, self.armed, self.fired].map(|count| count / 1e6);
        write!(f, "{minutes:11.2}")?;
        millions
            .iter()
            .try_for_each(|count| write!(f, " {count:8.2}"))?;
        write!(
            f,
            " {pending:8} {:8} {:6.1} MB",
            self.entries,
            self.bytes / 1e6
        )?;
        write!(f, " {:8.0} ns", self.cpu_ns_per_step)?;
        write!(f, " {p50:6.2} {p99:6.2} {most:8.2} ms")
    }
}

/// A figure and its name.
type Figure = (&'static str, fn(&Sample) -> f64);

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
        Sample {
            minutes: time.as_secs_f64() / 60.0,
            ticks: time.as_secs_f64() / self.tick.as_secs_f64(),
            steps: steps as f64,
            armed: stats.timers.armed as f64,
            fired: stats.timers.fired as f64,
            pending: stats.timers.pending as f64,
            entries: stats.sum(|shard| shard.machinery.entries()) as f64,
            bytes: system::resident_bytes() as f64,
            cpu_ns_per_step: new_cpu_ns / new_steps,
            late_ms: [0.5, 0.99, 1.0].map(late_ms),
        }
    }
}

/// The median of a figure in each quarter of the samples but the first one, in which the allocator
/// and the service become warm.
fn quarters(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> [f64; 3] {
    let quarter = samples.len() / 4;
    [1, 2, 3].map(|number| {
        let part = samples.iter().skip(number * quarter).take(quarter.max(1));
        let mut figures: Vec<f64> = part.map(&figure).collect();
        figures.sort_unstable_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    })
}

/// How memory has risen, in one line: `None` if it has not. What leaks rises in each quarter. Once
/// it may rise: when the machine stalls messages wait, and the allocator keeps their memory.
pub(crate) fn risen(samples: &[Sample]) -> Option<String> {
    let bytes = quarters(samples, |sample| sample.bytes);
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
    let figures: [Figure; 6] = [
        ("resident, MB", |sample| sample.bytes / 1e6),
        ("entries in the wheels", |sample| sample.entries),
        ("pending", |sample| sample.pending),
        ("CPU, ns a step", |sample| sample.cpu_ns_per_step),
        ("late p50, ms", |sample| sample.late_ms[0]),
        ("late p99, ms", |sample| sample.late_ms[1]),
    ];
    let mut text = format!("{:<24}", "");
    for title in ["second quarter", "third quarter", "last quarter"] {
        let _ = write!(text, " {title:>16}");
    }
    for (name, figure) in figures {
        let _ = write!(text, "\n{name:<24}");
        for median in quarters(samples, figure) {
            let _ = write!(text, " {median:>16.2}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bytes: impl Fn(u32) -> f64) -> Vec<Sample> {
        let sample = |number| Sample {
            bytes: bytes(number),
            ..Sample::default()
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
