//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::name::Name;
use crate::workload::Workload;
use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) subject: Name,
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) threads: usize,
    #[arg(long)]
    pub(crate) entries: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Less time before entries expire
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// Gets of a thread: each entry of its own is chosen twice, with a bound.
    pub(crate) fn gets(&self) -> usize {
        (2 * self.entries).min(2_000_000) / self.threads
    }
}
