//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::campaign::{Measurement, Named, Options};
use crate::line::Line;
use clap::Args;
use std::time::Duration;

/// What such a process is told, whatever it measures.
#[derive(Args, Clone, PartialEq, Debug)]
#[group(skip)]
pub struct Job<S: Named, W: Named> {
    /// Who.
    #[arg(long)]
    pub subject: S,
    /// In what.
    #[arg(long)]
    pub workload: W,
    /// Callers, timers, or timers a second
    #[arg(long)]
    pub count: usize,
    /// How long it takes, if it is not quick.
    #[arg(long)]
    pub seconds: u64,
    /// Of the random times and choices.
    #[arg(long)]
    pub seed: u64,
    /// Whether the figures need to mean nothing.
    #[arg(long)]
    pub quick: bool,
}

impl<S: Named, W: Named> Job<S, W> {
    /// With the seed of a campaign.
    pub fn new(subject: S, workload: W, count: usize, seconds: u64, options: &Options) -> Self {
        Self {
            subject,
            workload,
            count,
            seconds,
            seed: options.seed,
            quick: options.quick,
        }
    }

    /// In a process of its own, on two cores, which is told `more`.
    pub fn measurement(&self, more: &str) -> Measurement {
        let line = Line::of(&self.subject, &self.workload, 2, self.count);
        let (count, seconds) = (self.count, self.seconds);
        Measurement::own(line, &format!("--count {count} --seconds {seconds} {more}"))
    }

    /// For how long it is measured.
    pub fn time(&self, quick: Duration) -> Duration {
        match self.quick {
            true => quick,
            false => Duration::from_secs(self.seconds),
        }
    }
}
