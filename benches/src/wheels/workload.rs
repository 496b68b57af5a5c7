//! The workloads by name: what they are, and which figures they have.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Insert N timers where N were inserted and cancelled before
    Insert,
    /// Insert N timers into a new one, which has no memory yet
    InsertCold,
    /// Cancel N in random order
    Cancel,
    /// Advance over N, tick by tick, until all have fired
    Fire,
    /// N standing; cancel a random one, insert another; time stands still
    Churn,
}

/// A figure, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    pub(crate) digits: usize,
}

const fn column(figure: &'static str, title: &'static str, digits: usize) -> Column {
    Column { figure, title, digits }
}

const CALLS: [Column; 6] = [
    column("ns_per_op", "ns/op", 1),
    column("call_ns_p50", "p50 ns", 0),
    column("call_ns_p99", "p99 ns", 0),
    column("call_ns_p999", "p99.9 ns", 0),
    column("call_ns_max", "max ns", 0),
    column("cpu_share", "on CPU", 2),
];
const BYTES: [Column; 1] = [column("bytes_per_timer", "B/timer", 1)];
const TICKS: [Column; 1] = [column("ns_per_tick", "ns/tick", 1)];

impl Workload {
    pub(crate) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    pub(crate) fn about(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
    }

    /// Its figures; the first one is what subjects are compared by.
    pub(crate) fn columns(self) -> impl Iterator<Item = &'static Column> + Clone {
        let more: &[Column] = match self {
            Self::InsertCold => &BYTES,
            Self::Fire => &TICKS,
            Self::Insert | Self::Cancel | Self::Churn => &[],
        };
        CALLS.iter().chain(more)
    }
}
