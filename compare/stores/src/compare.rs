//! Subjects beside each other: the best rival, and a group's table.

use crate::job::Job;
use crate::name::Name;
use clap::ValueEnum;
use wheelwork_kit::line::Line;
use wheelwork_kit::program;
use wheelwork_kit::table::{self, Column, times};

fn is_rival(line: &Line) -> bool {
    Name::from_str(&line.subject, false).map_or(true, Name::is_rival)
}

/// The best rival's median of a figure.
pub(crate) fn best_rival<'a>(
    lines: impl IntoIterator<Item = &'a Line>,
    column: &Column,
) -> Option<(&'a str, f64)> {
    let rivals = lines.into_iter().filter(|line| is_rival(line));
    let figures =
        rivals.filter_map(|line| Some((line.subject.as_str(), line.median(column.figure)?)));
    let sign = if column.higher_is_better { -1.0 } else { 1.0 };
    figures.min_by(|one, other| (one.1 * sign).total_cmp(&(other.1 * sign)))
}

/// How many times better than the other; above 1 is ahead.
pub(crate) fn ratio(figure: f64, other: f64, higher_is_better: bool) -> f64 {
    if higher_is_better {
        figure / other
    } else {
        other / figure
    }
}

/// A group's table; the last column says how many times better than the best rival a subject is.
pub(crate) fn table(job: &Job, lines: &[Line]) -> String {
    let columns = job.workload.columns();
    let first = &columns[0];
    let best = best_rival(lines, first);
    let head = format!(
        "{} {} {}\n  {}",
        program::name(&job.workload),
        job.count,
        job.workload.unit(),
        program::about(&job.workload)
    );
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    table::table(
        &head,
        &[&titles[..], &["ratio"]].concat(),
        first,
        lines,
        |line| {
            let own = line.median(first.figure).zip(best);
            let ratio = own.map(|(own, (_, best))| ratio(own, best, first.higher_is_better));
            let cells = columns.iter().map(|column| column.median(line));
            cells.chain([times(ratio)]).collect()
        },
    )
}
