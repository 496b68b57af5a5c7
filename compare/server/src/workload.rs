//! The workloads by name, and their figures.

use clap::ValueEnum;
use wheelwork_kit::table::{Column, column};

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

/// What is shown beside a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    Nothing,
    /// Its quotient by tokio's.
    Tokio,
    /// The same, and how much it is more than without timers.
    TokioAndNone,
}

use Beside::{Nothing, Tokio, TokioAndNone};

const RATE: Column = column("requests_per_s", "requests/s", 0);
const P50: Column = column("us_p50", "p50 us", 0);
const P99: Column = column("us_p99", "p99 us", 0);
const P999: Column = column("us_p999", "p99.9 us", 0);
const CPU_OF_REQUEST: Column = column("cpu_us_per_request", "CPU us/req", 2);
const NS: Column = column("ns_per_reset", "ns/reset", 1);
const CPU_OF_RESET: Column = column("cpu_us_per_reset", "CPU us/reset", 3);
const CPU: Column = column("cpu_percent", "CPU %", 1);
const MESSAGES: Column = column("messages_per_s", "messages/s", 0);
const BYTES: Column = column("bytes_per_deadline", "bytes", 0);

impl Workload {
    pub(crate) fn has_server(self) -> bool {
        matches!(self, Self::Requests | Self::RequestsPaced)
    }

    /// The first one has its least and its most shown too.
    pub(crate) fn columns(self) -> &'static [(Column, Beside)] {
        match self {
            Self::Requests => &[
                (RATE, Tokio),
                (P50, Nothing),
                (P99, Nothing),
                (P999, Nothing),
                (CPU_OF_REQUEST, TokioAndNone),
            ],
            Self::RequestsPaced => &[
                (CPU_OF_REQUEST, TokioAndNone),
                (P50, Nothing),
                (P99, Nothing),
                (P999, Nothing),
                (RATE, Nothing),
            ],
            Self::Resets => &[
                (NS, TokioAndNone),
                (CPU_OF_RESET, TokioAndNone),
                (BYTES, Tokio),
            ],
            Self::ResetsPaced => &[
                (CPU_OF_RESET, TokioAndNone),
                (CPU, Nothing),
                (BYTES, Tokio),
                (MESSAGES, Nothing),
            ],
        }
    }
}
