//! The workloads by name, and their figures.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// An HTTP server, as fast as 64 connections go
    Requests,
    /// The same at a fixed rate, answers after 5 ms
    RequestsPaced,
    /// Deadlines that move at each message, as fast as it goes
    Resets,
    /// The same at a fixed rate
    ResetsPaced,
}

/// A figure, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    pub(crate) digits: usize,
    pub(crate) beside: Beside,
}

/// What is shown beside a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    Nothing,
    /// Its quotient by tokio's.
    Tokio,
    /// The same, and how much it is more than without timers.
    TokioAndNone,
}

const fn column(figure: &'static str, title: &'static str, digits: usize, beside: Beside) -> Column {
    Column { figure, title, digits, beside }
}

const RATE: Column = column("requests_per_s", "requests/s", 0, Beside::Tokio);
const P50: Column = column("us_p50", "p50 us", 0, Beside::Nothing);
const P99: Column = column("us_p99", "p99 us", 0, Beside::Nothing);
const P999: Column = column("us_p999", "p99.9 us", 0, Beside::Nothing);
const CPU_OF_REQUEST: Column = column("cpu_us_per_request", "CPU us/req", 2, Beside::TokioAndNone);
const NS: Column = column("ns_per_reset", "ns/reset", 1, Beside::TokioAndNone);
const CPU_OF_RESET: Column = column("cpu_us_per_reset", "CPU us/reset", 3, Beside::TokioAndNone);
const CPU: Column = column("cpu_percent", "CPU %", 1, Beside::Nothing);
const MESSAGES: Column = column("messages_per_s", "messages/s", 0, Beside::Nothing);
const BYTES: Column = column("bytes_per_deadline", "bytes", 0, Beside::Tokio);

impl Workload {
    pub(crate) fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    pub(crate) fn has_server(self) -> bool {
        matches!(self, Self::Requests | Self::RequestsPaced)
    }

    /// The first one has its least and its most shown too.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Requests => &[RATE, P50, P99, P999, CPU_OF_REQUEST],
            Self::RequestsPaced => &[CPU_OF_REQUEST, P50, P99, P999, Column { beside: Beside::Nothing, ..RATE }],
            Self::Resets => &[NS, CPU_OF_RESET, BYTES],
            Self::ResetsPaced => &[CPU_OF_RESET, CPU, BYTES, MESSAGES],
        }
    }
}
