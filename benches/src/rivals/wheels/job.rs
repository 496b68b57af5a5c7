//! A job: one measurement, of one subject in one workload, that has a process for itself.

use super::name::Name;
use super::workload::Workload;
use clap::Args;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(super) subject: Name,
    #[arg(long)]
    pub(super) workload: Workload,
    #[arg(long)]
    pub(super) timers: usize,
    #[arg(long)]
    pub(super) seed: u64,
    /// Fewer operations
    #[arg(long)]
    pub(super) quick: bool,
}

impl Job {
    /// Operations that are enough to measure: a small size takes many rounds.
    pub(super) fn operations(&self) -> usize {
        if self.quick { 20_000 } else { 1_000_000 }
    }

    /// Steps of a round of churn: each timer is replaced twice, with bounds.
    pub(super) fn steps(&self) -> usize {
        let most = if self.quick { 200_000 } else { 2_000_000 };
        (2 * self.timers).clamp(self.operations() / 50, most)
    }
}
