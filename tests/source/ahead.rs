//! The comparison's tables of what others do better, made of the report: whoever is ahead of
//! wheelwork, in which case, and with which figure.

use crate::rates::without;
use crate::report::{Line, called, grouped, three, two, value, written};

/// A figure in which others may be ahead.
struct Figure {
    /// What the table says of it, with its unit.
    called: &'static str,
    name: &'static str,
    more_is_better: bool,
    written: fn(f64) -> String,
}

const RATE: Figure = Figure {
    called: "million a second",
    name: "mops",
    more_is_better: true,
    written,
};

const OTHER_FIGURES: [Figure; 9] = [
    less("CPU, s for a million", "cpu_s_per_mop", three),
    less("CPU, s in all", "cpu_s", three),
    less("CPU, us for each that fires", "cpu_us_per_fire", three),
    less("CPU, % of a core", "cpu_percent", three),
    less(
        "the same, of which one in a hundred fires",
        "fires_cpu_percent",
        three,
    ),
    less("p99, ms late", "late_ms_p99", three),
    less("the first, ms", "first_ms", three),
    less("an empty service, bytes", "empty_bytes", grouped),
    less(
        "at most, MB",
        "resident_bytes_max",
        |bytes| two(bytes / 1e6),
    ),
];

const fn less(called: &'static str, name: &'static str, written: fn(f64) -> String) -> Figure {
    Figure {
        called,
        name,
        more_is_better: false,
        written,
    }
}

/// All rates in which another timer is ahead of one of wheelwork's subjects.
pub(crate) fn rates(lines: &[Line<'_>]) -> String {
    let head = "| workload | threads | timers | | its rate | ahead of it |\n\
        |---|--:|--:|---|--:|---|\n";
    let subjects = ["wheelwork", "wheelwork-closure", "wheelwork-wheel"];
    let rows = subjects
        .iter()
        .flat_map(|subject| rows(&RATE, subject, lines));
    let row = |row: Row<'_>| {
        let Row {
            workload,
            threads,
            timers,
            subject,
            own,
            ahead,
        } = row;
        format!("| `{workload}` | {threads} | {timers} | `{subject}` | {own} | {ahead} |\n")
    };
    head.to_string() + &rows.map(row).collect::<String>()
}

/// All other figures in which another timer is ahead of wheelwork as it comes.
pub(crate) fn other_figures(lines: &[Line<'_>]) -> String {
    let head = "| | workload | threads | timers | wheelwork | ahead of it |\n\
        |---|---|--:|--:|--:|---|\n";
    let rows = OTHER_FIGURES.iter().flat_map(|figure| {
        rows(figure, "wheelwork", lines)
            .into_iter()
            .map(|row| (figure.called, row))
    });
    let row = |(called, row): (&str, Row<'_>)| {
        let Row {
            workload,
            threads,
            timers,
            own,
            ahead,
            ..
        } = row;
        format!("| {called} | `{workload}` | {threads} | {timers} | {own} | {ahead} |\n")
    };
    head.to_string() + &rows.map(row).collect::<String>()
}

struct Row<'a> {
    workload: &'a str,
    threads: &'a str,
    timers: String,
    subject: &'a str,
    own: String,
    ahead: String,
}

/// The cases of a figure in which others are ahead of a subject, in the report's order, with those
/// who are, the best first.
fn rows<'a>(figure: &Figure, subject: &'a str, lines: &[Line<'a>]) -> Vec<Row<'a>> {
    let of = |line: &Line<'_>| value(line.text, figure.name)?.parse::<f64>().ok();
    // What is written as zero, or is less, is below what can be measured.
    let is_measured = |other: &f64| (figure.written)(*other).parse() != Ok(0.0) && *other > 0.0;
    let mut rows = Vec::new();
    for line in lines.iter().filter(|line| line.subject == subject) {
        let [workload, threads, timers] = line.what;
        let is_told_already = figure.name == "cpu_percent" && workload == "w9";
        let Some(own) = of(line).filter(|_| !is_told_already) else {
            continue;
        };
        let is_ahead = |other: f64| (other > own) == figure.more_is_better && other != own;
        let others = lines
            .iter()
            .filter(|other| other.what == line.what && !other.subject.starts_with("wheelwork"));
        let mut ahead: Vec<_> = others
            .filter_map(|other| Some((of(other).filter(is_measured)?, other.subject)))
            .filter(|&(other, _)| is_ahead(other))
            .collect();
        if ahead.is_empty() {
            continue;
        }
        ahead.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        if figure.more_is_better {
            ahead.reverse();
        }
        let ahead: Vec<_> = ahead
            .iter()
            .map(|&(other, subject)| format!("{} {}", called(subject), (figure.written)(other)))
            .collect();
        rows.push(Row {
            workload,
            threads,
            timers: grouped(timers.parse().unwrap_or(0.0)),
            subject,
            own: (figure.written)(own),
            ahead: ahead.join("; ") + &without(lines, line.what, |_| true),
        });
    }
    rows
}

#[test]
fn whoever_is_ahead_is_named() {
    let line = |subject, figure, value| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w4\",\"threads\":1,\"n\":10000,\"{figure}\":{value},\"x\":1}}\n"
        )
    };
    let report = line("wheelwork", "mops", 11.8)
        + &line("wheelwork-batch", "mops", 90.0)
        + &line("heap", "mops", 150.4)
        + &line("delayqueue", "mops", 17.29)
        + &line("netty", "mops", 11.7)
        + &line("wheelwork", "cpu_s_per_mop", 0.5)
        + &line("heap", "cpu_s_per_mop", 0.6)
        + &line("netty", "cpu_s_per_mop", 0.25)
        + &line("go", "cpu_s_per_mop", 0.125)
        + &line("jdk25", "cpu_s_per_mop", 0.0002);
    let made = [rates, other_figures].map(|table| {
        let text = table(&crate::report::lines(&report));
        text.lines().skip(2).map(str::to_string).collect::<Vec<_>>()
    });
    assert_eq!(
        made,
        [
            ["| `w4` | 1 | 10,000 | `wheelwork` | 11.8 | a heap 150; \
              a `DelayQueue` in each thread 17.3 |"],
            ["| CPU, s for a million | `w4` | 1 | 10,000 | 0.500 | Go 0.125; Netty 0.250 |"],
        ]
    );
}
