//! The workloads by name, and which figures they have.

use clap::ValueEnum;
use wheelwork_kit::table::{Column, column, rate};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Connections that take turns to send requests, at a fixed rate of all together
    Paced,
    /// Connections that each send a request when they have the answer to the last one
    Full,
}

/// What subjects are compared by.
pub(crate) const CPU: Column = column("cpu_s_per_million_requests", "CPU s/M", 2);

/// The others.
pub(crate) const COLUMNS: [Column; 9] = [
    column("cpu_percent", "CPU %", 1),
    column("response_us_p50", "p50 us", 0),
    column("response_us_p99", "p99 us", 0),
    Column {
        unit: 1e6,
        ..column("resident_bytes", "RSS MB", 1)
    },
    column("bytes_per_connection", "bytes/conn", 0),
    column("armed_per_s", "armed/s", 0),
    Column {
        digits: 0,
        ..rate("requests_per_s", "requests/s")
    },
    column("cut_off_per_s", "cut off/s", 1),
    column("failed", "failed", 0),
];
