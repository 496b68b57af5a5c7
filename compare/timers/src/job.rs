//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::name::Name;
use crate::workload::Workload;
use clap::Args;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) subject: Name,
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) timers: usize,
    #[arg(long)]
    pub(crate) threads: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Shorter waits
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// Operations of the workloads that are not done with each timer once: enough to measure, no
    /// more than tells something.
    pub(crate) fn operations(&self) -> usize {
        let most = if self.quick { 200_000 } else { 2_000_000 };
        (2 * self.timers).clamp(100_000, most)
    }
}
