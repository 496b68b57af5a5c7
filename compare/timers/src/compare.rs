//! Subjects beside each other: the best rival, and a group's table.

use crate::args::Group;
use wheelwork_kit::beside;
use wheelwork_kit::line::Line;
use wheelwork_kit::table::Column;

/// Memory that is left after W11 is kept if it is more than this, and more than half of the most.
const LEFT_BYTES: f64 = 24e6;

/// Whether the memory of what was cancelled is back in time, where that is measured.
fn gives_back(line: &Line) -> bool {
    if line.workload == "w4" {
        return line.figures.contains_key("back_ms");
    }
    let [left, most] = ["left_bytes", "resident_bytes_max"].map(|figure| line.median(figure));
    left.zip(most)
        .is_none_or(|(left, most)| left <= LEFT_BYTES || left <= most / 2.0)
}

/// Without the rivals that keep the memory: these have not cancelled anything.
pub(crate) fn fair<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Vec<&'a Line> {
    let is_fair = |line: &&Line| !beside::is_rival(line) || gives_back(line);
    lines.into_iter().filter(is_fair).collect()
}

/// The best rival's median of a figure.
pub(crate) fn best_rival<'a>(
    lines: impl IntoIterator<Item = &'a Line>,
    figure: &str,
    higher_is_better: bool,
) -> Option<(&'a str, f64)> {
    beside::best_rival(fair(lines), figure, higher_is_better)
}

/// A group's table; the last column says how many times better than the best rival a subject is.
pub(crate) fn table(group: &Group, lines: &[Line]) -> String {
    let Group {
        workload,
        timers,
        threads,
    } = *group;
    let columns = workload.columns();
    let best = best_rival(lines, columns[0].figure, columns[0].higher_is_better);
    let timers = if workload.has_windows() {
        format!("a window of {timers}")
    } else {
        format!("{timers} timers")
    };
    let how_much = format!(
        "{timers}{}, {threads} thread{}",
        workload.rates().map_or("", |_| " a second"),
        if threads == 1 { "" } else { "s" },
    );
    let head = beside::head(&workload, &how_much);
    beside::table(
        &head,
        &columns,
        lines,
        best.map(|(_, best)| best),
        Column::median,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use wheelwork_kit::line::Figures;

    fn line(subject: &str, mops: f64) -> Line {
        let mut line = Line::new(subject, "w3", 1, 1_000);
        line.summarize(&[Figures::from([("mops", mops), ("ns_per_op", 1e3 / mops)])]);
        line
    }

    #[test]
    fn nor_is_one_that_keeps_the_memory() {
        let line = |subject: &str, mops, left| {
            let mut line = Line::new(subject, "w11", 2, 1_000);
            let bytes = [("resident_bytes_max", 100e6), ("left_bytes", left)];
            let mut figures = Figures::from([("mops", mops)]);
            figures.extend(bytes);
            line.summarize(&[figures]);
            line
        };
        let lines = [line("heap", 9.0, 90e6), line("pingora", 8.0, 30e6)];
        assert_eq!(best_rival(&lines, "mops", true), Some(("pingora", 8.0)));
    }

    #[test]
    fn a_group_has_a_table() {
        let lines = [line("wheelwork", 9.0), line("btree", 3.0)];
        let (workload, timers, threads) = (Workload::W3, 1_000, 1);
        let text = table(
            &Group {
                workload,
                timers,
                threads,
            },
            &lines,
        );
        assert!(text.starts_with("\nw3 1000 timers, 1 thread\n"), "{text}");
        assert!(text.contains("3.00 x  9.00 - 9.00"), "{text}");
    }
}
