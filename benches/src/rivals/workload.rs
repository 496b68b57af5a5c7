//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Arm N timers, in memory that was used before
    W1,
    /// The same in memory that was never touched
    W1Cold,
    /// Arm for 30 s, cancel at once
    W2,
    /// The same, the cancel 1,000 inserts later
    W2b,
    /// N standing; cancel a random own one, arm another
    W3,
    /// Cancel N in random order; and when the memory is back
    W4,
    /// N due uniformly over 2 s: how late, and what it costs
    W5,
    /// N due at one instant: when the first and the last task has run
    W5b,
    /// Resident bytes of a timer, and of an empty service
    W6,
    /// N timers an hour away: 10 s of nothing
    W7,
    /// N standing; random re-arm to now + 30 s
    W8,
    /// N timers fire in a second, at random instants: CPU beyond that of the loop that arms them
    W9,
    /// N timers with a period of a second, each at an instant of its own: CPU of the process
    W9Periodic,
    /// N requests in a second, each with a time-out of 30 s, answered after 50 ms; then one in a
    /// hundred is not, and fires
    W10,
    /// The same, answered after 5 ms
    W10Fast,
    /// The same, answered after 500 ms
    W10Slow,
}

/// A figure of a workload, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    /// Figures are shown as so many of it.
    pub(crate) unit: f64,
    pub(crate) digits: usize,
    pub(crate) higher_is_better: bool,
}

const fn column(figure: &'static str, title: &'static str, digits: usize) -> Column {
    Column { figure, title, unit: 1.0, digits, higher_is_better: false }
}

const MOPS: Column = Column { higher_is_better: true, ..column("mops", "M op/s", 2) };
const NS: Column = column("ns_per_op", "ns/op", 1);
const CPU: Column = column("cpu_s_per_mop", "CPU s/M", 3);
const CPU_ALL: Column = column("cpu_s", "CPU s", 3);
const SETTLE: Column = column("settle_ms", "settle ms", 1);
const BACK: Column = column("back_ms", "back ms", 0);
const KEPT: Column = column("kept_bytes", "kept B", 1);
const EMPTY: Column = Column { unit: 1024.0, ..column("empty_bytes", "empty KiB", 0) };

impl Workload {
    pub(crate) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// Whether producers are what is measured, or only what comes before it.
    pub(crate) fn has_threads(self) -> bool {
        !matches!(self, Self::W6 | Self::W7 | Self::W9 | Self::W9Periodic)
    }

    /// What is measured at some rates, in timers a second.
    pub(crate) fn rates(self) -> Option<&'static [usize]> {
        match self {
            Self::W9 | Self::W9Periodic => Some(&[100, 1_000, 10_000, 100_000]),
            Self::W10 => Some(&[1_000, 10_000, 100_000, 1_000_000]),
            Self::W10Fast | Self::W10Slow => Some(&[10_000, 100_000]),
            _ => None,
        }
    }

    pub(crate) fn about(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }

    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> &'static [Column] {
        const W4: &[Column] = &[MOPS, NS, CPU, SETTLE, BACK, KEPT];
        const W5: &[Column] = &[
            column("late_ms_p99", "p99 ms", 3),
            column("late_ms_p50", "p50 ms", 3),
            column("late_ms_p999", "p99.9 ms", 3),
            column("late_ms_max", "max ms", 3),
            CPU_ALL,
            column("early", "early", 0),
        ];
        const W5B: &[Column] = &[MOPS, column("first_ms", "first ms", 2), column("last_ms", "last ms", 1), CPU_ALL];
        const W6: &[Column] = &[column("bytes_per_timer", "B/timer", 1), EMPTY];
        const W7: &[Column] = &[column("wakeups", "wake-ups", 0), column("wakeups_per_s", "a second", 1), CPU_ALL];
        const W9: &[Column] = &[
            column("cpu_us_per_fire", "us a fire", 2),
            column("cpu_percent", "CPU %", 2),
            column("wakeups_per_s", "wake-ups/s", 0),
            column("late_ms_p50", "p50 ms", 3),
            column("late_ms_p99", "p99 ms", 3),
            column("late_ms_max", "max ms", 3),
            column("early", "early", 0),
            column("lost", "lost", 0),
        ];
        const W10: &[Column] = &[
            column("cpu_percent", "CPU %", 2),
            column("cpu_us_per_request", "us each", 3),
            column("wakeups_per_s", "wake-ups/s", 0),
            column("rings_per_s", "rings/s", 1),
            column("fires_cpu_percent", "1 %: CPU %", 2),
            column("late_ms_p50", "p50 ms", 3),
            column("late_ms_p99", "p99 ms", 3),
            column("late_ms_max", "max ms", 3),
            column("early", "early", 0),
            column("lost", "lost", 0),
        ];
        match self {
            Self::W4 => W4,
            Self::W5 => W5,
            Self::W5b => W5B,
            Self::W6 => W6,
            Self::W7 => W7,
            Self::W9 | Self::W9Periodic => W9,
            Self::W10 | Self::W10Fast | Self::W10Slow => W10,
            _ => &[MOPS, NS, CPU, SETTLE],
        }
    }
}
