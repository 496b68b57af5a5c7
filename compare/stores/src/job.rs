//! A job: one measurement, of one subject in one workload, that has a process for itself.

use crate::name::Name;
use crate::workload::Workload;
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
        let Self { subject, count, .. } = *self;
        let workload = self.workload;
        let line = Line::new(
            &program::name(&subject),
            &program::name(&workload),
            2,
            count,
        );
        let (seconds, dir) = (self.seconds, self.dir.display());
        let more = format!("--count {count} --seconds {seconds} --dir {dir}");
        Measurement::own(line, &more).told(subject.refuses(workload), subject.remark(workload))
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
            Column::median,
        )
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
