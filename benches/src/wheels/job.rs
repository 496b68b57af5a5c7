//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::workload::Workload;
use clap::Args;

#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
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
    /// The same for the command line of a child.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let text = format!("--workload {} --timers {} --seed {}", self.workload.text(), self.timers, self.seed);
        let quick = self.quick.then_some("--quick");
        text.split(' ').chain(quick).map(ToString::to_string).collect()
    }

    /// Operations that are enough to measure: small sizes are done in so many rounds.
    pub(crate) fn operations(&self) -> usize {
        if self.quick { 20_000 } else { 200_000 }
    }

    /// Steps of a churn.
    pub(crate) fn steps(&self) -> usize {
        let most = if self.quick { 200_000 } else { 2_000_000 };
        (2 * self.timers).clamp(self.operations() / 10, most)
    }
}
