//! A job: one measurement, of one subject in one workload, that has a process and a database for
//! itself.

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
    #[arg(long)]
    pub(crate) patience_ms: u64,
    /// 0: each subject's own
    #[arg(long)]
    pub(crate) poll_ms: u64,
    /// Its name, while it is measured
    #[arg(long)]
    pub(crate) database: String,
    #[arg(long)]
    pub(crate) node_packages: Option<PathBuf>,
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
            patience_ms,
            poll_ms,
            ..
        } = *self;
        let (subject_name, workload_name) = (program::name(&subject), program::name(&workload));
        let mut line = Line::new(&subject_name, &workload_name, 2, count);
        line.skipped = self.refused();
        line.remark = subject.remark(workload).map(ToString::to_string);
        let mut arguments = format!(
            "measure --subject {subject_name} --workload {workload_name} --count {count} \
             --seconds {seconds} --patience-ms {patience_ms} --poll-ms {poll_ms} --database {}",
            self.database
        );
        if let Some(folder) = &self.node_packages {
            arguments += &format!(" --node-packages {}", folder.display());
        }
        Measurement {
            line,
            arguments,
            program: None,
        }
    }

    /// Why it is not measured, if it is not.
    fn refused(&self) -> Option<String> {
        if self.subject.script().is_some() && self.node_packages.is_none() {
            return Some("no --node-packages: scripts/bench fleets installs them".to_string());
        }
        self.subject.refuses(self.workload).map(str::to_string)
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        if self.quick {
            Duration::from_millis(500)
        } else {
            Duration::from_secs(self.seconds)
        }
    }

    /// How long the timers of a killed worker are waited for.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// What this subject gets of the timers.
    pub(crate) fn timers(&self) -> u64 {
        (self.count / self.subject.part(self.workload)) as u64
    }
}
