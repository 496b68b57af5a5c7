//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{Column, column};

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
    /// The same, all at one instant of the second
    W9Instant,
    /// N requests in a second, each with a time-out of 30 s, answered after 50 ms; then one in a
    /// hundred is not, and fires
    W10,
    /// The same, answered after 5 ms
    W10Fast,
    /// The same, answered after 500 ms
    W10Slow,
    /// Arm timers of 30 s at full speed, cancel what the thread armed N inserts ago; beside it a
    /// timer of 5 ms each millisecond
    W11,
    /// The same, cancelled by another thread for each that arms
    W11Other,
    /// The same, a random one of the window cancelled with each insert
    W11Random,
    /// W1 and W3 at 10 k to 10 M timers on one thread
    Growth,
}

/// Timers in flight, by who cancels.
pub(crate) const IN_FLIGHT: [Workload; 3] =
    [Workload::W11, Workload::W11Other, Workload::W11Random];

/// How many each producer leaves pending.
pub(crate) const WINDOWS: [usize; 5] = [1, 1_000, 8_000, 64_000, 1_000_000];

const MOPS: Column = Column {
    higher_is_better: true,
    ..column("mops", "M op/s", 2)
};

/// Bytes, as MB.
const fn megabytes(figure: &'static str, title: &'static str) -> Column {
    Column {
        unit: 1e6,
        ..column(figure, title, 1)
    }
}

const CPU_ALL: Column = column("cpu_s", "CPU s", 3);
const EARLY: Column = column("early", "early", 0);
const WAKEUPS: Column = column("wakeups_per_s", "wake-ups/s", 0);
const P50: Column = column("late_ms_p50", "p50 ms", 3);
const P99: Column = column("late_ms_p99", "p99 ms", 3);
const MAX: Column = column("late_ms_max", "max ms", 3);

const RATES: [Column; 4] = [
    MOPS,
    column("ns_per_op", "ns/op", 1),
    column("cpu_s_per_mop", "CPU s/M", 3),
    column("settle_ms", "settle ms", 1),
];

impl Workload {
    /// Whether producers are what is measured, or only what comes before it.
    pub(crate) fn has_threads(self) -> bool {
        !matches!(
            self,
            Self::W6 | Self::W7 | Self::W9 | Self::W9Periodic | Self::W9Instant | Self::Growth
        )
    }

    /// Whether its timers come again, without a producer.
    pub(crate) fn is_periodic(self) -> bool {
        matches!(self, Self::W9Periodic | Self::W9Instant)
    }

    pub(crate) fn is_server(self) -> bool {
        matches!(self, Self::W10 | Self::W10Fast | Self::W10Slow)
    }

    /// Whether N is how many timers each producer leaves pending.
    pub(crate) fn has_windows(self) -> bool {
        IN_FLIGHT.contains(&self)
    }

    /// What is measured at some rates, in timers a second.
    pub(crate) fn rates(self) -> Option<&'static [usize]> {
        match self {
            Self::W9 | Self::W9Periodic => Some(&[100, 1_000, 10_000, 100_000]),
            Self::W9Instant => Some(&[10_000, 100_000]),
            Self::W10 => Some(&[1_000, 10_000, 100_000, 1_000_000]),
            Self::W10Fast | Self::W10Slow => Some(&[10_000, 100_000]),
            _ => None,
        }
    }

    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> Vec<Column> {
        let p999 = column("late_ms_p999", "p99.9 ms", 3);
        let empty = Column {
            unit: 1024.0,
            ..column("empty_bytes", "empty KiB", 0)
        };
        let mut columns = match self {
            Self::W5 => vec![P99, P50, p999, MAX, CPU_ALL, EARLY],
            Self::W5b => vec![
                MOPS,
                column("first_ms", "first ms", 2),
                column("last_ms", "last ms", 1),
                CPU_ALL,
            ],
            Self::W6 => vec![column("bytes_per_timer", "B/timer", 1), empty],
            Self::W7 => vec![
                column("wakeups", "wake-ups", 0),
                column("wakeups_per_s", "a second", 1),
                CPU_ALL,
            ],
            Self::W9 | Self::W9Periodic | Self::W9Instant => vec![
                column("cpu_us_per_fire", "us a fire", 2),
                column("cpu_percent", "CPU %", 2),
                WAKEUPS,
            ],
            Self::W10 | Self::W10Fast | Self::W10Slow => vec![
                column("cpu_percent", "CPU %", 2),
                column("cpu_us_per_request", "us each", 3),
                WAKEUPS,
                column("rings_per_s", "rings/s", 1),
                column("fires_cpu_percent", "1 %: CPU %", 2),
            ],
            _ if self.has_windows() => vec![
                MOPS,
                column("cpu_s_per_mop", "CPU s/M", 3),
                column("settle_ms", "settle ms", 1),
                megabytes("resident_bytes_max", "RSS MB"),
                megabytes("left_bytes", "left MB"),
            ],
            _ => RATES.to_vec(),
        };
        if self.rates().is_some() || self.has_windows() {
            columns.extend([P50, P99, MAX, EARLY, column("lost", "lost", 0)]);
        }
        if self == Self::W4 {
            let back = column("back_ms", "back ms", 0);
            columns.extend([back, column("kept_bytes", "kept B", 1)]);
        }
        columns
    }
}
