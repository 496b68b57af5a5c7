//! A job: one measurement, which has a process for itself.

use crate::timers::Name;
use crate::workload::Workload;
use clap::Args;
use std::time::Duration;
use wheelwork_kit::campaign::Measurement;
use wheelwork_kit::line::Line;
use wheelwork_kit::program::name;

#[derive(Args, Clone, PartialEq, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) timers: Name,
    #[arg(long)]
    pub(crate) threads: usize,
    /// Idle connections, or simulated ones
    #[arg(long)]
    pub(crate) connections: usize,
    /// Requests or messages a second, where it is a fixed rate
    #[arg(long)]
    pub(crate) rate: usize,
    #[arg(long)]
    pub(crate) seconds: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// In a process of its own.
    pub(crate) fn measurement(&self) -> Measurement {
        let Self {
            threads,
            connections,
            rate,
            seconds,
            ..
        } = *self;
        let (workload, timers) = (name(&self.workload), name(&self.timers));
        let arguments = format!(
            "measure --workload {workload} --timers {timers} --threads {threads} --connections {connections} --rate {rate} --seconds {seconds}"
        );
        Measurement {
            line: Line::new(&timers, &workload, threads, connections),
            arguments,
            program: None,
        }
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        if self.quick {
            Duration::from_millis(300)
        } else {
            Duration::from_secs(self.seconds)
        }
    }

    /// In a line.
    pub(crate) fn about(&self) -> String {
        let Self {
            threads,
            connections,
            rate,
            ..
        } = self;
        let load = match self.workload {
            Workload::Requests => "requests as fast as they go".to_string(),
            Workload::RequestsPaced => format!("{rate} requests a second, answers after 5 ms"),
            Workload::Resets => "messages as fast as they go".to_string(),
            Workload::ResetsPaced => format!("{rate} messages a second"),
        };
        let held = if self.workload.has_server() {
            "idle connections"
        } else {
            "deadlines of 60 s"
        };
        let plural = if *threads == 1 { "" } else { "s" };
        let workload = name(&self.workload);
        format!("{workload}: {load}; {connections} {held}; {threads} worker thread{plural}")
    }
}
