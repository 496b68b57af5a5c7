//! The tables for people: one for each group, timers as rows. Beside some figures stands their
//! quotient by tokio's, beside some of these what they have on top of those without timers.

use crate::job::Job;
use crate::workload::Beside;
use wheelwork_kit::line::Line;
use wheelwork_kit::table::{Column, shown, table};

pub(crate) fn group(job: &Job, lines: &[Line]) -> String {
    let columns = job.workload.columns();
    let mut titles = Vec::new();
    for (column, beside) in columns {
        titles.push(column.title);
        titles.extend((*beside != Beside::Nothing).then_some("/ tokio"));
        titles.extend((*beside == Beside::TokioAndNone).then_some("- none"));
    }
    let of = |timers: &str, column: &Column| {
        let mut lines = lines.iter();
        lines
            .find(|line| line.subject == timers)?
            .median(column.figure)
    };
    table(&job.about(), &titles, &columns[0].0, lines, |line| {
        let mut cells = Vec::new();
        for (column, beside) in columns {
            let figure = line.median(column.figure);
            cells.push(column.shown(figure));
            if *beside != Beside::Nothing {
                let both = figure.zip(of("tokio", column));
                let quotient = both.map(|(figure, tokio)| figure / tokio);
                cells.push(shown(quotient.filter(|quotient| quotient.is_finite()), 2));
            }
            if *beside == Beside::TokioAndNone {
                let both = figure.zip(of("none", column));
                cells.push(shown(
                    both.map(|(figure, none)| figure - none),
                    column.digits,
                ));
            }
        }
        cells
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::Name;
    use crate::workload::Workload;
    use wheelwork_kit::line::Figures;

    #[test]
    fn a_group_has_a_row_for_each() {
        let job = |timers| Job {
            workload: Workload::Resets,
            timers,
            threads: 2,
            connections: 1_000,
            rate: 100,
            seconds: 1,
            seed: 1,
            quick: true,
        };
        let line = |timers, ns| {
            let mut line = job(timers).measurement().line;
            let figures = [("ns_per_reset", ns), ("bytes_per_deadline", ns * 2.0)];
            line.summarize(&[Figures::from(figures)]);
            line
        };
        let lines = [
            line(Name::None, 10.0),
            line(Name::Tokio, 50.0),
            line(Name::Wheelwork, 25.0),
        ];
        let text = group(&job(Name::None), &lines);
        let head = "resets: messages as fast as they go; 1000 deadlines of 60 s; 2 worker threads";
        assert!(text.contains(head), "{text}");
        let words = |name: &str| {
            let row = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let words = row.unwrap_or(&text).split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words("wheelwork"),
            "25.0 0.50 15.0 - - - 50 0.50 25.0 - 25.0"
        );
        assert_eq!(words("tokio"), "50.0 1.00 40.0 - - - 100 1.00 50.0 - 50.0");
    }
}
