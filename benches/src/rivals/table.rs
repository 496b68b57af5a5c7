//! The tables for people: one for each group, subjects as rows.

use crate::args::Group;
use crate::line::{Line, Summary};
use crate::subjects::Name;
use crate::workload::Column;
use clap::ValueEnum;
use std::fmt::Write;

pub(crate) fn is_rival(line: &Line) -> bool {
    // Other programs' subjects are rivals too.
    Name::from_str(&line.subject, false).map_or(true, Name::is_rival)
}

/// The best rival's median of a figure. One that keeps the memory has not cancelled anything.
pub(crate) fn best_rival<'a>(lines: impl IntoIterator<Item = &'a Line>, figure: &str, higher_is_better: bool) -> Option<(&'a str, f64)> {
    let frees = |line: &Line| line.workload != "w4" || line.figures.contains_key("back_ms");
    let rivals = lines.into_iter().filter(|line| is_rival(line) && frees(line));
    let figures = rivals.filter_map(|line| Some((line.subject.as_str(), line.median(figure)?)));
    let sign = if higher_is_better { -1.0 } else { 1.0 };
    figures.min_by(|one, other| (one.1 * sign).total_cmp(&(other.1 * sign)))
}

pub(crate) fn group(group: Group, lines: &[Line]) -> String {
    let columns = group.workload.columns();
    let first = &columns[0];
    let best = best_rival(lines, first.figure, first.higher_is_better);
    let Group { workload, timers, threads } = group;
    let plural = if threads == 1 { "" } else { "s" };
    let per_second = if workload.rates().is_some() { " a second" } else { "" };
    let mut text = format!("\n{} {timers} timers{per_second}, {threads} thread{plural}\n  {}\n", workload.text(), workload.about());
    let _ = write!(text, "  {:<17}", "");
    for column in columns {
        let _ = write!(text, " {:>10}", column.title);
    }
    let _ = writeln!(text, " {:>8}  min - max", "ratio");
    for line in lines {
        let _ = write!(text, "  {:<17}", line.subject);
        if line.figures.is_empty() {
            let _ = writeln!(text, " {}", line.skipped.as_deref().unwrap_or("no figures"));
            continue;
        }
        for column in columns {
            let _ = write!(text, " {:>10}", line.median(column.figure).map_or("-".to_string(), |figure| shown(figure, column)));
        }
        let ratio = line.median(first.figure).zip(best).map(|(figure, (_, best))| ratio(figure, best, first.higher_is_better));
        let _ = write!(text, " {:>8}", ratio.filter(|ratio| ratio.is_finite()).map_or("-".to_string(), |ratio| format!("{ratio:.2} x")));
        if let Some(Summary { min, max, .. }) = line.figures.get(first.figure) {
            let _ = write!(text, "  {} - {}", shown(*min, first), shown(*max, first));
        }
        let remarks = [&line.remark, &line.skipped].into_iter().flatten();
        remarks.for_each(|remark| _ = write!(text, "  ({remark})"));
        text.push('\n');
    }
    text
}

fn shown(figure: f64, column: &Column) -> String {
    format!("{:.*}", column.digits, figure / column.unit)
}

/// How many times better than the other; above 1 is ahead.
pub(crate) fn ratio(figure: f64, other: f64, higher_is_better: bool) -> f64 {
    if higher_is_better { figure / other } else { other / figure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;
    use crate::workload::Workload;

    fn line(subject: &str, timers: usize, mops: f64) -> Line {
        let mut line = Line { subject: subject.to_string(), workload: "w3".to_string(), threads: 1, timers, ..Line::default() };
        line.summarize(&[Figures::from([("mops", mops), ("ns_per_op", 1e3 / mops)])]);
        line
    }

    #[test]
    fn the_best_rival_is_none_of_ours() {
        let lines = [line("wheelwork", 1_000, 9.0), line("heap", 1_000, 2.0), line("btree", 1_000, 3.0)];
        assert_eq!(best_rival(&lines, "mops", true), Some(("btree", 3.0)));
        assert_eq!(best_rival(&lines, "mops", false), Some(("heap", 2.0)));
        assert_eq!(best_rival(&lines[..1], "mops", true), None);
    }

    #[test]
    fn a_group_has_a_row_for_each_subject() {
        let skipped = Line { skipped: Some("one owner".to_string()), ..line("heap", 1_000, 0.0) };
        let skipped = Line { figures: Default::default(), ..skipped };
        let lines = [line("wheelwork", 1_000, 9.0), line("btree", 1_000, 3.0), skipped];
        let text = group(Group { workload: Workload::W3, timers: 1_000, threads: 1 }, &lines);
        assert!(text.contains("3.00 x") && text.contains("heap              one owner"), "{text}");
    }
}
