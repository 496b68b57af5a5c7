//! A job: one measurement, of one subject in one workload, that has a process and a database for
//! itself.

use crate::name::Name;
use crate::workload::{RECOVERED, Workload};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use wheelwork_kit::beside::{best_rival, head, table};
use wheelwork_kit::campaign::Measurement;
use wheelwork_kit::line::Line;
use wheelwork_kit::program;
use wheelwork_kit::table::Column;

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
        let Self { subject, count, .. } = *self;
        let workload = self.workload;
        let line = Line::new(
            &program::name(&subject),
            &program::name(&workload),
            2,
            count,
        );
        let mut more = format!(
            "--count {count} --seconds {} --patience-ms {} --poll-ms {} --database {}",
            self.seconds, self.patience_ms, self.poll_ms, self.database
        );
        if let Some(folder) = &self.node_packages {
            more += &format!(" --node-packages {}", folder.display());
        }
        Measurement::own(line, &more).told(self.refused(), subject.remark(workload))
    }

    /// The table of its group, whose lines these are.
    pub(crate) fn table(&self, lines: &[Line]) -> String {
        let columns = self.workload.columns();
        let how_much = format!("{} {}", self.count, self.workload.unit());
        let best = best_rival(lines, columns[0].figure, columns[0].higher_is_better);
        table(
            &head(&self.workload, &how_much),
            columns,
            lines,
            best.map(|(_, best)| best),
            |column, line| self.cell(column, line),
        )
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
