//! A job of the comparison: with a database for itself.

use crate::name::Name;
use crate::workload::{RECOVERED, Workload};
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
        let mut more = format!(
            "--patience-ms {} --poll-ms {} --database {}",
            self.patience_ms, self.poll_ms, self.database
        );
        if let Some(folder) = &self.node_packages {
            more += &format!(" --node-packages {}", folder.display());
        }
        let measurement = self.of.measurement(&more);
        measurement.told(self.refused(), self.subject.remark(self.workload))
    }

    /// The table of its group, whose lines these are.
    pub(crate) fn table(&self, lines: &[Line]) -> String {
        let how_much = format!("{} {}", self.count, self.workload.unit());
        let cell = |column: &Column, line: &Line| self.cell(column, line);
        let columns = self.workload.columns();
        table_by_best_rival(&self.workload, &how_much, columns, lines, cell)
    }

    /// A cell. A worker's timers that nobody has fired by the end of patience took longer.
    fn cell(&self, column: &Column, line: &Line) -> String {
        let is_time = self.workload == Workload::Killed && column.figure == RECOVERED.figure;
        match line.median("waited_s").filter(|_| is_time) {
            Some(waited) => format!("> {waited:.0} s"),
            None => column.median(line),
        }
    }

    /// Why it is not measured, if it is not.
    fn refused(&self) -> Option<&'static str> {
        if self.subject.script().is_some() && self.node_packages.is_none() {
            return Some("no --node-packages: scripts/bench fleets installs them");
        }
        self.subject.refuses(self.workload)
    }

    /// For how long it is measured.
    pub(crate) fn time(&self) -> Duration {
        self.of.time(Duration::from_millis(500))
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
