//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::line::Figures;
use crate::subjects::Subject;
use crate::workload::Workload;
use crate::{fires, paced, rest, throughput};
use clap::Args;

#[derive(Args, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Job {
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
    pub(crate) fn run<S: Subject>(&self) -> Result<Figures, String> {
        match self.workload {
            Workload::W1 | Workload::W1Cold => Ok(throughput::insert::<S>(self)),
            Workload::W2 => Ok(throughput::window::<S>(self, 0)),
            Workload::W2b => Ok(throughput::window::<S>(self, throughput::WINDOW)),
            Workload::W3 => Ok(throughput::churn::<S>(self)),
            Workload::W4 => Ok(throughput::cancel_all::<S>(self)),
            Workload::W5 => fires::spread::<S>(self),
            Workload::W5b => fires::burst::<S>(self),
            Workload::W6 => Ok(rest::memory::<S>(self)),
            Workload::W7 => Ok(rest::idle::<S>(self)),
            Workload::W8 => Ok(throughput::rearm::<S>(self)),
            Workload::W9 => paced::fires::<S>(self),
            Workload::W9Periodic => paced::periodic::<S>(self),
            Workload::W10 => Ok(paced::server::<S>(self, 50)),
            Workload::W10Fast => Ok(paced::server::<S>(self, 5)),
            Workload::W10Slow => Ok(paced::server::<S>(self, 500)),
        }
    }

    /// The same for the command line of a child.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let text = format!("--workload {} --timers {} --threads {} --seed {}", self.workload.text(), self.timers, self.threads, self.seed);
        let quick = self.quick.then_some("--quick");
        text.split(' ').chain(quick).map(ToString::to_string).collect()
    }

    /// Operations of the workloads that are not done with each timer once: enough to measure, no more than tells something.
    pub(crate) fn operations(&self) -> usize {
        let most = if self.quick { 200_000 } else { 2_000_000 };
        (2 * self.timers).clamp(100_000, most)
    }
}
