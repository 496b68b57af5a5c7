//! The tables for people: one for each workload and size, subjects as rows.

use crate::line::{Line, Summary};
use crate::name::Name;
use crate::workload::{Column, Workload};
use std::fmt::Write;

pub(crate) fn group(workload: Workload, timers: usize, lines: &[Line]) -> String {
    let mut text = format!("\n{} {timers} timers\n  {}\n  {:<15}", workload.text(), workload.about(), "");
    workload.columns().for_each(|column| _ = write!(text, " {:>10}", column.title));
    text.push_str("    ratio  min - max\n");
    let first = workload.columns().next();
    let median = |line: &Line| first.and_then(|column| line.median(column.figure));
    let ours = lines.iter().find(|line| line.subject == Name::Wheelwork.text()).and_then(median);
    for line in lines {
        let _ = write!(text, "  {:<15}", line.subject);
        if line.figures.is_empty() {
            let _ = writeln!(text, " {:>10}  {}", "-", line.skipped.as_deref().unwrap_or("no figures"));
            continue;
        }
        for column in workload.columns() {
            let _ = write!(text, " {:>10}", shown(line.median(column.figure), column));
        }
        let ratio = median(line).zip(ours).map_or("-".to_string(), |(figure, ours)| format!("{:.2} x", figure / ours));
        let _ = write!(text, " {ratio:>8}");
        if let Some((column, Summary { min, max, .. })) = first.and_then(|column| Some((column, line.figures.get(column.figure)?))) {
            let _ = write!(text, "  {} - {}", shown(Some(*min), column), shown(Some(*max), column));
        }
        let remarks = [&line.remark, &line.skipped].into_iter().flatten();
        remarks.for_each(|remark| _ = write!(text, "  ({remark})"));
        text.push('\n');
    }
    text
}

fn shown(figure: Option<f64>, column: &Column) -> String {
    figure.map_or("-".to_string(), |figure| format!("{figure:.*}", column.digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;

    #[test]
    fn a_group_has_a_row_for_each_subject() {
        let line = |name: Name, ns| {
            let mut line = name.blank(Workload::Cancel, 100_000);
            line.summarize(&[Figures::from([("ns_per_op", ns), ("call_ns_p50", 7.0)])]);
            line
        };
        let skipped = Name::OrderedList.blank(Workload::Cancel, 100_000);
        let text = group(Workload::Cancel, 100_000, &[line(Name::Wheelwork, 20.0), line(Name::Btree, 50.0), skipped]);
        assert!(text.contains("1.00 x  20.0 - 20.0") && text.contains("2.50 x  50.0 - 50.0"), "{text}");
        assert!(text.contains("ordered-list             -  not above 10,000 timers"), "{text}");
    }
}
