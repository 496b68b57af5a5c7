//! Subjects beside each other: the best of the others, and a group's table. wheelwork's subjects
//! have names that begin so.

use crate::line::Line;
use crate::program;
use crate::table::{self, Column, times};
use clap::ValueEnum;

/// Whether it is none of wheelwork's own.
pub fn is_rival(line: &Line) -> bool {
    !line.subject.starts_with("wheelwork")
}

/// The best rival's median of a figure.
pub fn best_rival<'a>(
    lines: impl IntoIterator<Item = &'a Line>,
    figure: &str,
    higher_is_better: bool,
) -> Option<(&'a str, f64)> {
    let rivals = lines.into_iter().filter(|line| is_rival(line));
    let figures = rivals.filter_map(|line| Some((line.subject.as_str(), line.median(figure)?)));
    let sign = if higher_is_better { -1.0 } else { 1.0 };
    figures.min_by(|one, other| (one.1 * sign).total_cmp(&(other.1 * sign)))
}

/// How many times better than the other; above 1 is ahead.
pub fn ratio(figure: f64, other: f64, higher_is_better: bool) -> f64 {
    if higher_is_better {
        figure / other
    } else {
        other / figure
    }
}

/// What stands above a table: the workload, how much of it, and what it is.
pub fn head(workload: &impl ValueEnum, how_much: &str) -> String {
    let (name, about) = (program::name(workload), program::about(workload));
    format!("{name} {how_much}\n  {about}")
}

/// A group's table. Subjects are compared by the first column; the last one says how many times
/// better than `best` a subject is.
pub fn table(
    head: &str,
    columns: &[Column],
    lines: &[Line],
    best: Option<f64>,
    cell: impl Fn(&Column, &Line) -> String,
) -> String {
    let first = &columns[0];
    let mut titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    titles.push("ratio");
    table::table(head, &titles, first, lines, |line| {
        let own = line.median(first.figure).zip(best);
        let ratio = own.map(|(own, best)| ratio(own, best, first.higher_is_better));
        let cells = columns.iter().map(|column| cell(column, line));
        cells.chain([times(ratio)]).collect()
    })
}

/// The same by the best rival, with a head of the workload.
pub fn table_by_best_rival(
    workload: &impl ValueEnum,
    how_much: &str,
    columns: &[Column],
    lines: &[Line],
    cell: impl Fn(&Column, &Line) -> String,
) -> String {
    let best = best_rival(lines, columns[0].figure, columns[0].higher_is_better);
    let best = best.map(|(_, best)| best);
    table(&head(workload, how_much), columns, lines, best, cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;
    use crate::table::column;

    fn line(subject: &str, mops: f64) -> Line {
        let mut line = Line::new(subject, "w3", 1, 1_000);
        line.summarize(&[Figures::from([("mops", mops)])]);
        line
    }

    #[test]
    fn the_best_rival_is_none_of_ours() {
        let lines = [
            line("wheelwork", 9.0),
            line("wheelwork-inline", 1.0),
            line("heap", 2.0),
            line("btree", 3.0),
        ];
        assert_eq!(best_rival(&lines, "mops", true), Some(("btree", 3.0)));
        assert_eq!(best_rival(&lines, "mops", false), Some(("heap", 2.0)));
        assert_eq!(best_rival(&lines[..2], "mops", true), None);
        let rate = Column {
            higher_is_better: true,
            ..column("mops", "M op/s", 2)
        };
        let cell = |column: &Column, line: &Line| column.median(line);
        let text = table("w3", &[rate], &lines, Some(3.0), cell);
        assert!(text.contains("9.00     3.00 x  9.00 - 9.00"), "{text}");
    }
}
