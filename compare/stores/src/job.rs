//! A job of the comparison: with a folder for its files.

use crate::name::Name;
use crate::workload::Workload;
use clap::Args;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::beside::table_by_best_rival;
use wheelwork_kit::campaign::Measurement;
use wheelwork_kit::job;
use wheelwork_kit::line::Line;
use wheelwork_kit::table::Column;

#[derive(Args, Clone, PartialEq, Debug)]
pub(crate) struct Job {
    #[command(flatten)]
    pub(crate) of: job::Job<Name, Workload>,
    /// Where the files are
    #[arg(long)]
    pub(crate) dir: PathBuf,
}

impl Deref for Job {
    type Target = job::Job<Name, Workload>;

    fn deref(&self) -> &Self::Target {
        &self.of
    }
}

impl Job {
    /// In a process of its own.
    pub(crate) fn measurement(&self) -> Measurement {
        let (subject, workload) = (self.subject, self.workload);
        let measurement = self
            .of
            .measurement(&format!("--dir {}", self.dir.display()));
        measurement.told(subject.refuses(workload), subject.remark(workload))
    }

    /// The table of its group, whose lines these are.
    pub(crate) fn table(&self, lines: &[Line]) -> String {
        let how_much = format!("{} {}", self.count, self.workload.unit());
        let columns = self.workload.columns();
        table_by_best_rival(&self.workload, &how_much, columns, lines, Column::median)
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        self.of.time(Duration::from_millis(200))
    }

    /// What this subject gets of the timers.
    pub(crate) fn timers(&self) -> usize {
        (self.count / self.subject.part(self.workload)).max(10)
    }
}
