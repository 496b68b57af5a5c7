//! Subjects beside each other: the best rival, and a group's table.

use crate::args::Group;
use crate::name::Name;
use clap::ValueEnum;
use wheelwork_bench::line::Line;
use wheelwork_bench::program;
use wheelwork_bench::table::{self, Column, times};

fn is_rival(line: &Line) -> bool {
    // Other programs' subjects are rivals too.
    Name::from_str(&line.subject, false).map_or(true, Name::is_rival)
}

/// The best rival's median of a figure. One that keeps the memory has not cancelled anything.
pub(crate) fn best_rival<'a>(
    lines: impl IntoIterator<Item = &'a Line>,
    figure: &str,
    higher_is_better: bool,
) -> Option<(&'a str, f64)> {
    let frees = |line: &Line| line.workload != "w4" || line.figures.contains_key("back_ms");
    let rivals = lines
        .into_iter()
        .filter(|line| is_rival(line) && frees(line));
    let figures = rivals.filter_map(|line| Some((line.subject.as_str(), line.median(figure)?)));
    let sign = if higher_is_better { -1.0 } else { 1.0 };
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
pub(crate) fn table(group: &Group, lines: &[Line]) -> String {
    let Group {
        workload,
        timers,
        threads,
    } = *group;
    let columns = workload.columns();
    let &Column {
        figure,
        higher_is_better,
        ..
    } = &columns[0];
    let best = best_rival(lines, figure, higher_is_better);
    let head = format!(
        "{} {timers} timers{}, {threads} thread{}\n  {}",
        program::name(&workload),
        workload.rates().map_or("", |_| " a second"),
        if threads == 1 { "" } else { "s" },
        program::about(&workload)
    );
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    table::table(
        &head,
        &[&titles[..], &["ratio"]].concat(),
        &columns[0],
        lines,
        |line| {
            let own = line.median(figure).zip(best);
            let ratio = own.map(|(own, (_, best))| ratio(own, best, higher_is_better));
            let cells = columns.iter().map(|column| column.median(line));
            cells.chain([times(ratio)]).collect()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use wheelwork_bench::line::Figures;

    fn line(subject: &str, mops: f64) -> Line {
        let mut line = Line::new(subject, "w3", 1, 1_000);
        line.summarize(&[Figures::from([("mops", mops), ("ns_per_op", 1e3 / mops)])]);
        line
    }

    #[test]
    fn the_best_rival_is_none_of_ours() {
        let lines = [
            line("wheelwork", 9.0),
            line("heap", 2.0),
            line("btree", 3.0),
        ];
        assert_eq!(best_rival(&lines, "mops", true), Some(("btree", 3.0)));
        assert_eq!(best_rival(&lines, "mops", false), Some(("heap", 2.0)));
        assert_eq!(best_rival(&lines[..1], "mops", true), None);
        let (workload, timers, threads) = (Workload::W3, 1_000, 1);
        let text = table(
            &Group {
                workload,
                timers,
                threads,
            },
            &lines,
        );
        assert!(text.contains("3.00 x  9.00 - 9.00"), "{text}");
    }
}
