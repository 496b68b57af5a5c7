//! A job: one measurement, which has a process for itself.

use crate::line::Line;
use crate::timers::Name;
use crate::workload::Workload;
use clap::Args;
use std::time::Duration;

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
    /// For the command line of a child.
    pub(crate) fn arguments(&self, repetition: usize) -> Vec<String> {
        let Self { workload, timers, threads, connections, rate, seconds, seed, quick } = self;
        let seed = seed.wrapping_add(repetition as u64);
        let text = format!(
            "--workload {} --timers {} --threads {threads} --connections {connections} --rate {rate} --seconds {seconds} --seed {seed}",
            workload.text(),
            timers.text()
        );
        text.split(' ').chain(quick.then_some("--quick")).map(ToString::to_string).collect()
    }

    /// What is known before anything was measured.
    pub(crate) fn blank(&self) -> Line {
        Line {
            subject: self.timers.text(),
            workload: self.workload.text(),
            threads: self.threads,
            timers: self.connections,
            ..Line::default()
        }
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        if self.quick { Duration::from_millis(300) } else { Duration::from_secs(self.seconds) }
    }

    /// In a line.
    pub(crate) fn about(&self) -> String {
        let Self { threads, connections, rate, .. } = self;
        let what = match self.workload {
            Workload::Requests => format!("requests as fast as they go; {connections} idle connections"),
            Workload::RequestsPaced => format!("{rate} requests a second, answers after 5 ms; {connections} idle connections"),
            Workload::Resets => format!("messages as fast as they go; {connections} deadlines of 60 s"),
            Workload::ResetsPaced => format!("{rate} messages a second; {connections} deadlines of 60 s"),
        };
        format!("{}: {what}; {threads} worker thread{}", self.workload.text(), if *threads == 1 { "" } else { "s" })
    }
}
