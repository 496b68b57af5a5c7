//! The tables for people: one for each group, timers as rows.

use crate::job::Job;
use crate::line::{Line, Summary};
use crate::timers::Name;
use crate::workload::{Beside, Column};
use std::fmt::Write;

/// A group's table. Beside some figures stands their quotient by tokio's, beside some of these what
/// they have on top of those without timers.
pub(crate) fn group(job: &Job, lines: &[Line]) -> String {
    let columns = job.workload.columns();
    let mut text = format!("\n{}\n  {:<13}", job.about(), "");
    for Column { title, beside, .. } in columns {
        let _ = write!(text, " {title:>13}");
        if *beside != Beside::Nothing {
            let _ = write!(text, " {:>8}", "/ tokio");
        }
        if *beside == Beside::TokioAndNone {
            let _ = write!(text, " {:>8}", "- none");
        }
    }
    text.push_str("  min - max\n");
    let of = |name: Name, column: &Column| lines.iter().find(|line| line.subject == name.text())?.median(column.figure);
    for line in lines {
        let _ = write!(text, "  {:<13}", line.subject);
        if line.figures.is_empty() {
            let _ = writeln!(text, " {:>13}  {}", "-", line.skipped.as_deref().unwrap_or("no figures"));
            continue;
        }
        for column in columns {
            let figure = line.median(column.figure);
            let _ = write!(text, " {:>13}", shown(figure, column.digits));
            if column.beside != Beside::Nothing {
                let quotient =
                    figure.zip(of(Name::Tokio, column)).map(|(figure, tokio)| figure / tokio).filter(|quotient| quotient.is_finite());
                let _ = write!(text, " {:>8}", shown(quotient, 2));
            }
            if column.beside == Beside::TokioAndNone {
                let more = figure.zip(of(Name::None, column)).map(|(figure, none)| figure - none);
                let _ = write!(text, " {:>8}", shown(more, column.digits));
            }
        }
        if let Some(Summary { min, max, .. }) = line.figures.get(columns[0].figure) {
            let _ = write!(text, "  {} - {}", shown(Some(*min), columns[0].digits), shown(Some(*max), columns[0].digits));
        }
        if let Some(why) = &line.skipped {
            let _ = write!(text, "  ({why})");
        }
        text.push('\n');
    }
    text
}

fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_string(), |figure| format!("{figure:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;
    use crate::workload::Workload;

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
            let mut line = job(timers).blank();
            line.summarize(&[Figures::from([("ns_per_reset", ns), ("bytes_per_deadline", ns * 2.0)])]);
            line
        };
        let failed = Line { skipped: Some("given up after 3s".to_string()), ..job(Name::Pingora).blank() };
        let text = group(&job(Name::None), &[line(Name::None, 10.0), line(Name::Tokio, 50.0), failed, line(Name::Wheelwork, 25.0)]);
        let words = |name: &str| -> Vec<&str> {
            text.lines().find_map(|line| line.strip_prefix(&format!("  {name} "))).unwrap_or(&text).split_whitespace().collect()
        };
        assert!(text.contains("resets: messages as fast as they go; 1000 deadlines of 60 s; 2 worker threads\n"), "{text}");
        assert_eq!(words("wheelwork"), ["25.0", "0.50", "15.0", "-", "-", "-", "50", "0.50", "25.0", "-", "25.0"]);
        assert_eq!(words("tokio"), ["50.0", "1.00", "40.0", "-", "-", "-", "100", "1.00", "50.0", "-", "50.0"]);
        assert_eq!(words("pingora"), ["-", "given", "up", "after", "3s"]);
    }
}
