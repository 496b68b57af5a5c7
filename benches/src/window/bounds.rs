//! Bounds: what must hold at any rate.

use crate::args::Row;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// Resident bytes of a pending timer, at the most.
pub(crate) const BYTES_PER_TIMER: u64 = 45;

/// And beside the timers; and after the end.
pub(crate) const BYTES_BESIDE: u64 = 24_000_000;

/// In the last third of the time memory may be more than in the middle third by this part of it,
/// and by these bytes.
const RISE_PART: f64 = 0.05;
const RISE_BYTES: f64 = 4_000_000.0;

/// The probe's 99th percentile, in ms: with a core for each producer, and without.
const LATE_MS: f64 = 3.0;
const LATE_MS_CROWDED: f64 = 10.0;

/// The bounds of a row.
pub(crate) struct Bounds {
    pub(crate) resident_bytes: f64,
    pub(crate) late_ms_p99: f64,
}

impl Bounds {
    pub(crate) fn of(row: &Row) -> Self {
        let plan = row.plan();
        let has_cores = plan.producers() <= system::cores();
        Self {
            resident_bytes: (plan.pending() as u64 * BYTES_PER_TIMER + BYTES_BESIDE) as f64,
            late_ms_p99: if has_cores { LATE_MS } else { LATE_MS_CROWDED },
        }
    }

    /// A line for each one that does not hold.
    pub(crate) fn failed(&self, figures: &Figures) -> Vec<String> {
        let figure = |name: &str| figures.0.get(name).copied().unwrap_or(0.0);
        let [most, middle, last, left] = [
            "resident_bytes_max",
            "resident_bytes_middle",
            "resident_bytes_last",
            "left_bytes",
        ]
        .map(figure);
        let mut failed = Vec::new();
        let mut check = |what: &str, is: f64, bound: f64, unit: &str| {
            if is > bound {
                failed.push(format!("{what} {is:.1} {unit}, at most {bound:.1}"));
            }
        };
        let mb = |bytes: f64| bytes / 1e6;
        check("resident memory", mb(most), mb(self.resident_bytes), "MB");
        let flat = middle * (1.0 + RISE_PART) + RISE_BYTES;
        check("not flat: in the last third", mb(last), mb(flat), "MB");
        check(
            "the probe's p99",
            figure("late_ms_p99"),
            self.late_ms_p99,
            "ms",
        );
        check(
            "a second after the end",
            mb(left),
            mb(BYTES_BESIDE as f64),
            "MB",
        );
        let lost = figure("lost");
        if lost > 0.0 {
            failed.push(format!("timers of the probe that never fired: {lost}"));
        }
        if let Some(seconds) = figures.0.get("cut_short_s") {
            failed.push(format!(
                "stopped after {seconds:.1} s to spare the machine's memory"
            ));
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::in_flight::CancelledBy;

    fn bounds(window: usize, threads: usize) -> Bounds {
        Bounds::of(&Row {
            window,
            threads,
            cancel: CancelledBy::Same,
            seconds: 1.0,
        })
    }

    #[test]
    fn bounds_follow_the_timers_and_the_cores() {
        let one = bounds(1_000_000, 1);
        assert!((one.resident_bytes - 69e6).abs() < 1.0);
        assert!((one.late_ms_p99 - 3.0).abs() < 1e-9);
        let many = bounds(1, 256);
        assert!((many.late_ms_p99 - 10.0).abs() < 1e-9);
    }

    #[test]
    fn each_has_a_line() {
        let good = [
            ("resident_bytes_max", 68e6),
            ("resident_bytes_middle", 60e6),
            ("resident_bytes_last", 66e6),
            ("left_bytes", 23e6),
            ("late_ms_p99", 2.9),
            ("lost", 0.0),
        ];
        let bounds = bounds(1_000_000, 1);
        assert_eq!(bounds.failed(&Figures::from(good)), [""; 0]);
        for (name, figure, line) in [
            (
                "resident_bytes_max",
                70e6,
                "resident memory 70.0 MB, at most 69.0",
            ),
            (
                "resident_bytes_last",
                68e6,
                "not flat: in the last third 68.0 MB, at most 67.0",
            ),
            (
                "left_bytes",
                25e6,
                "a second after the end 25.0 MB, at most 24.0",
            ),
            ("late_ms_p99", 3.1, "the probe's p99 3.1 ms, at most 3.0"),
            ("lost", 2.0, "timers of the probe that never fired: 2"),
            (
                "cut_short_s",
                2.0,
                "stopped after 2.0 s to spare the machine's memory",
            ),
        ] {
            let mut figures = Figures::from(good);
            figures.extend([(name, figure)]);
            assert_eq!(bounds.failed(&figures), [line]);
        }
    }
}
