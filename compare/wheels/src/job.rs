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
    pub(crate) seed: u64,
    /// Fewer operations
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// Operations that are enough to measure: a small size takes many rounds.
    pub(crate) fn operations(&self) -> usize {
        if self.quick { 20_000 } else { 1_000_000 }
    }

    /// Steps of a round of churn: each timer is replaced twice, with bounds.
    pub(crate) fn steps(&self) -> usize {
        let most = if self.quick { 200_000 } else { 2_000_000 };
        (2 * self.timers).clamp(self.operations() / 50, most)
    }
}
