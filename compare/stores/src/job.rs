//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::name::Name;
use crate::workload::Workload;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::campaign::Measurement;
use wheelwork_kit::line::Line;
use wheelwork_kit::program;

#[derive(Args, Clone, PartialEq, Debug)]
pub(crate) struct Job {
    #[arg(long)]
    pub(crate) subject: Name,
    #[arg(long)]
    pub(crate) workload: Workload,
    /// Callers, timers, or timers a second
    #[arg(long)]
    pub(crate) count: usize,
    #[arg(long)]
    pub(crate) seconds: u64,
    /// Where the files are
    #[arg(long)]
    pub(crate) dir: PathBuf,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Job {
    /// In a process of its own.
    pub(crate) fn measurement(&self) -> Measurement {
        let Self {
            subject,
            workload,
            count,
            seconds,
            ..
        } = *self;
        let (subject_name, workload_name) = (program::name(&subject), program::name(&workload));
        let mut line = Line::new(&subject_name, &workload_name, 2, count);
        line.skipped = subject.refuses(workload).map(ToString::to_string);
        line.remark = subject.remark(workload).map(ToString::to_string);
        let arguments = format!(
            "measure --subject {subject_name} --workload {workload_name} --count {count} \
             --seconds {seconds} --dir {}",
            self.dir.display()
        );
        Measurement {
            line,
            arguments,
            program: None,
        }
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        if self.quick {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(self.seconds)
        }
    }

    /// What this subject gets of the timers.
    pub(crate) fn timers(&self) -> usize {
        (self.count / self.subject.part(self.workload)).max(10)
    }
}
