//! A job: the load on one server, in one workload, from a process of its own.

use crate::limits::Limits;
use crate::load::Mix;
use crate::name::Name;
use crate::workload::Workload;
use clap::Args;
use std::ops::Deref;
use std::time::Duration;
use wheelwork_kit::campaign::Measurement;
use wheelwork_kit::job;

#[derive(Args, Clone, PartialEq, Debug)]
pub(crate) struct Job {
    #[command(flatten)]
    pub(crate) of: job::Job<Name, Workload>,
    /// Worker threads of the server
    #[arg(long)]
    pub(crate) threads: usize,
    /// Requests a second
    #[arg(long)]
    pub(crate) rate: usize,
    #[arg(long)]
    pub(crate) posts: usize,
    #[arg(long)]
    pub(crate) rude: usize,
    #[arg(long)]
    pub(crate) idle_ms: u64,
}

impl Deref for Job {
    type Target = job::Job<Name, Workload>;

    fn deref(&self) -> &Self::Target {
        &self.of
    }
}

impl Job {
    pub(crate) fn measurement(&self) -> Measurement {
        let Self {
            threads,
            rate,
            posts,
            rude,
            idle_ms,
            ..
        } = self;
        let mut measurement = self.of.measurement(&format!(
            "--threads {threads} --rate {rate} --posts {posts} --rude {rude} --idle-ms {idle_ms}"
        ));
        measurement.line.threads = *threads;
        measurement
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        self.of.time(Duration::from_millis(500))
    }

    /// For how long it runs before: connections and their buffers are as they stay.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 100 } else { 2_000 })
    }

    /// Connections that are rude: a part of all.
    pub(crate) fn rude_clients(&self) -> usize {
        self.count * self.rude / 100
    }

    /// Connections that behave.
    pub(crate) fn clients(&self) -> usize {
        self.count - self.rude_clients()
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits::of_idle(Duration::from_millis(self.idle_ms))
    }

    pub(crate) fn mix(&self) -> Mix {
        Mix {
            rate: (self.workload == Workload::Paced).then_some(self.rate),
            posts: self.posts,
            rude_ns: 2 * self.idle_ms * 1_000_000,
        }
    }
}
