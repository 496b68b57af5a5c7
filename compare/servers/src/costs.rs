//! Costs: what the limits cost beyond the floor, and the tables.

use crate::job::Job;
use crate::name::{FLOOR, RIVAL};
use crate::workload::{COLUMNS, CPU, Workload};
use serde_json::{Value, json};
use wheelwork_kit::beside;
use wheelwork_kit::line::{Line, Summary};
use wheelwork_kit::table::{table, times};

/// CPU seconds for a million requests, beyond those of the subject without limits in the same
/// repetition. Nothing if that was not measured.
fn beyond(lines: &[Line], line: &Line) -> Option<Summary> {
    let floor = lines.iter().find(|other| other.subject == FLOOR)?;
    (line.subject != FLOOR)
        .then(|| line.beyond(floor, CPU.figure))
        .flatten()
}

/// The median as a part of what tokio's timers cost. Nothing where these are within the noise: in
/// one repetition at least they cost nothing.
fn of_rival(lines: &[Line], line: &Line) -> Option<f64> {
    let rival = lines.iter().find(|other| other.subject == RIVAL)?;
    let rival = beyond(lines, rival).filter(|cost| cost.min > 0.0)?;
    Some(beyond(lines, line)?.median / rival.median)
}

/// The table of a group, whose lines these are.
pub(crate) fn group_table(jobs: &[Job], lines: &[Line]) -> String {
    let job = &jobs[0];
    let (count, threads) = (job.count, job.threads);
    let pace = match job.workload {
        Workload::Paced => format!(", {} requests/s", job.rate),
        Workload::Full => String::new(),
    };
    let plural = if threads == 1 { "" } else { "s" };
    let how_much = format!("{count} connections{pace}; {threads} worker thread{plural}");
    let head = beside::head(&job.workload, &how_much);
    let mut titles = vec![CPU.title, "beyond none (min to max)", "of tokio's"];
    titles.extend(COLUMNS.iter().map(|column| column.title));
    table(&head, &titles, &CPU, lines, |line| {
        let cost = beyond(lines, line).map_or("-".to_string(), |Summary { median, min, max }| {
            format!("{median:.2} ({min:.2} to {max:.2})")
        });
        let first = [CPU.median(line), cost, times(of_rival(lines, line))];
        let others = COLUMNS.iter().map(|column| column.median(line));
        first.into_iter().chain(others).collect()
    })
}

/// The costs of a group's subjects, as further lines of `--json`.
pub(crate) fn to_json(lines: &[Line]) -> Vec<Value> {
    let cost = |line: &Line| {
        let Summary { median, min, max } = beyond(lines, line)?;
        Some(json!({
            "limits_of": line.subject,
            "workload": line.workload,
            "threads": line.threads,
            "n": line.timers,
            "beyond_none_cpu_s_per_million_requests": median,
            "beyond_none_cpu_s_per_million_requests_min": min,
            "beyond_none_cpu_s_per_million_requests_max": max,
            "times_tokio": of_rival(lines, line),
        }))
    };
    lines.iter().filter_map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    fn line(subject: &str, cpu_s: [f64; 3]) -> Line {
        let mut line = Line::new(subject, "paced", 2, 1_000);
        line.summarize(&cpu_s.map(|cpu_s| Figures::from([(CPU.figure, cpu_s)])));
        line
    }

    fn medians(lines: &[Line]) -> Vec<Option<f64>> {
        let costs = lines.iter().map(|line| beyond(lines, line));
        costs.map(|cost| cost.map(|cost| cost.median)).collect()
    }

    #[test]
    fn costs_are_beyond_the_floor_of_their_repetition() {
        let lines = [
            line("none", [20.0, 30.0, 40.0]),
            line("tokio", [24.0, 35.0, 41.0]),
            line("wheelwork", [23.0, 33.0, 43.0]),
        ];
        assert_eq!(medians(&lines), [None, Some(4.0), Some(3.0)]);
        let ratios: Vec<_> = lines.iter().map(|line| of_rival(&lines, line)).collect();
        assert_eq!(ratios, [None, Some(1.0), Some(0.75)]);
        let json = to_json(&lines);
        let expected = json!({
            "limits_of": "tokio",
            "workload": "paced",
            "threads": 2,
            "n": 1_000,
            "beyond_none_cpu_s_per_million_requests": 4.0,
            "beyond_none_cpu_s_per_million_requests_min": 1.0,
            "beyond_none_cpu_s_per_million_requests_max": 5.0,
            "times_tokio": 1.0,
        });
        assert_eq!((json.len(), &json[0]), (2, &expected));
    }

    #[test]
    fn without_a_floor_there_are_no_costs() {
        let lines = [line("tokio", [24.0; 3]), line("wheelwork", [23.0; 3])];
        assert_eq!(medians(&lines), [None, None]);
        assert_eq!(to_json(&lines), [] as [Value; 0]);
    }

    #[test]
    fn nothing_is_compared_with_a_cost_within_the_noise() {
        let lines = [
            line("none", [20.0, 20.0, 20.0]),
            line("tokio", [21.0, 19.0, 22.0]),
            line("wheelwork", [23.0, 23.0, 23.0]),
        ];
        assert_eq!(medians(&lines), [None, Some(1.0), Some(3.0)]);
        assert_eq!(of_rival(&lines, &lines[2]), None);
    }
}
