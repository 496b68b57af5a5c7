//! Tables for people: subjects as rows.

use crate::line::{Line, Summary};
use std::fmt::Write;

/// A figure, as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name among the figures.
    pub figure: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// Digits after the point.
    pub digits: usize,
    /// It is shown in multiples of this.
    pub unit: f64,
    /// More is better.
    pub higher_is_better: bool,
}

/// One of which less is better.
pub const fn column(figure: &'static str, title: &'static str, digits: usize) -> Column {
    Column {
        figure,
        title,
        digits,
        unit: 1.0,
        higher_is_better: false,
    }
}

/// One of which more is better, with a digit after the point.
pub const fn rate(figure: &'static str, title: &'static str) -> Column {
    Column {
        higher_is_better: true,
        ..column(figure, title, 1)
    }
}

/// Thousands of operations a second.
pub const KOPS: Column = rate("kops", "k/s");
/// Thousands of timers a second that are stored before it is measured.
pub const LOAD: Column = rate("load_kops", "load k/s");
/// How long a call takes: the median,
pub const CALL_P50: Column = column("call_us_p50", "p50 us", 0);
/// 99 of 100,
pub const CALL_P99: Column = column("call_us_p99", "p99 us", 0);
/// and the longest one.
pub const CALL_MAX: Column = column("call_us_max", "max us", 0);
/// Timers that fired before they were due.
pub const EARLY: Column = column("early", "early", 0);
/// Timers that did not fire.
pub const LOST: Column = column("lost", "lost", 0);

impl Column {
    /// A subject's median, or `-`.
    pub fn median(&self, line: &Line) -> String {
        self.shown(line.median(self.figure))
    }

    /// A figure, or `-`.
    pub fn shown(&self, figure: Option<f64>) -> String {
        shown(figure.map(|figure| figure / self.unit), self.digits)
    }
}

/// A number, or `-` if there is none.
pub fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or("-".to_string(), |number| format!("{number:.digits$}"))
}

/// A quotient, or `-` if it is none.
pub fn times(quotient: Option<f64>) -> String {
    let quotient = quotient.filter(|quotient| quotient.is_finite());
    quotient.map_or("-".to_string(), |quotient| format!("{quotient:.2} x"))
}

/// A group's table: `cells` makes what stands below the titles. The first column's least and most
/// come after them, and what there is to say of a subject.
pub fn table(
    head: &str,
    titles: &[&str],
    first: &Column,
    lines: &[Line],
    cells: impl Fn(&Line) -> Vec<String>,
) -> String {
    let row = |subject: &str, cells: &[String]| {
        let mut text = format!("  {subject:<17}");
        for (cell, title) in cells.iter().zip(titles) {
            let width = title.chars().count().max(10);
            let _ = write!(text, " {cell:>width$}");
        }
        text
    };
    let titles_text: Vec<String> = titles.iter().map(ToString::to_string).collect();
    let mut text = format!("\n{head}\n{}  min - max\n", row("", &titles_text));
    for line in lines {
        if line.figures.is_empty() {
            let why = line.skipped.as_deref().unwrap_or("no figures");
            let _ = writeln!(text, "{} {why}", row(&line.subject, &[]));
            continue;
        }
        text += &row(&line.subject, &cells(line));
        if let Some(Summary { min, max, .. }) = line.figures.get(first.figure) {
            let _ = write!(
                text,
                "  {} - {}",
                first.shown(Some(*min)),
                first.shown(Some(*max))
            );
        }
        let remarks = [&line.remark, &line.skipped].into_iter().flatten();
        remarks.for_each(|remark| _ = write!(text, "  ({remark})"));
        text.push('\n');
    }
    text
}

/// What the cost of an operation on one thread does as the number of timers grows: nothing if only
/// one size was measured.
pub fn growth(workload: &str, lines: &[Line]) -> Option<String> {
    let lines: Vec<&Line> = lines
        .iter()
        .filter(|line| line.workload == workload && line.threads == 1)
        .collect();
    let mut sizes: Vec<usize> = lines.iter().map(|line| line.timers).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let head = format!("growth of {workload}: ns/op on one thread, by the number of timers");
    let mut text = format!("\n{head}\n  {:<17}", "");
    sizes
        .iter()
        .for_each(|size| _ = write!(text, " {size:>10}"));
    let mut subjects: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| !line.figures.is_empty()) {
        if !subjects.contains(&line.subject.as_str()) {
            subjects.push(&line.subject);
        }
    }
    for subject in subjects {
        let _ = write!(text, "\n  {subject:<17}");
        for &size in &sizes {
            let mut own = lines.iter().filter(|line| line.subject == subject);
            let line = own.find(|line| line.timers == size);
            let ns = line.and_then(|line| line.median("ns_per_op"));
            let _ = write!(text, " {:>10}", shown(ns, 1));
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;

    fn line(subject: &str, timers: usize, ns: f64) -> Line {
        let mut line = Line::new(subject, "w3", 1, timers);
        line.summarize(&[Figures::from([("ns_per_op", ns)])]);
        line
    }

    #[test]
    fn growth_needs_two_sizes() {
        let lines = [line("heap", 1_000, 500.0), line("heap", 2_000, 1000.0)];
        assert_eq!(growth("w3", &lines[..1]), None);
        let text = growth("w3", &lines).expect("there are two");
        assert!(text.contains("500.0     1000.0"), "{text}");
    }

    #[test]
    fn a_group_has_a_row_for_each_subject() {
        let mut skipped = Line::new("btree", "w3", 1, 1_000);
        skipped.skipped = Some("one owner".to_string());
        let lines = [line("heap", 1_000, 500.0), skipped];
        let ns = column("ns_per_op", "ns/op", 1);
        let cells = |line: &Line| vec![ns.median(line), times(Some(3.0)), times(Some(f64::NAN))];
        let text = table("w3", &["ns/op", "ratio", "other"], &ns, &lines, cells);
        let head = "\nw3\n                         ns/op      ratio      other  min - max\n";
        let heap = "  heap                   500.0     3.00 x          -  500.0 - 500.0\n";
        assert_eq!(text, format!("{head}{heap}  btree             one owner\n"));
    }
}
