//! Promise: the rates that README.md and the comparison have are the report's.
//!
//! - The comparison has the best rate of all others in each row, tells where wheelwork is behind,
//!   and has the report's rates in its tables. So has README.md's table.
//!
//! In a package that was downloaded only a part of this is there: what is not is not looked at.

#[path = "common/text.rs"]
mod text;

use std::collections::BTreeSet;
use text::{read, rows};

/// The rows of README.md's table, with the workload of each. All are of two threads and a million
/// timers.
const COMPARED: [(&str, &str); 6] = [
    ("arm", "w1"),
    ("arm, and cancel at once", "w2"),
    ("arm, and cancel 1,000 inserts later", "w2b"),
    ("cancel a random one, arm another", "w3"),
    ("re-arm a random one", "w8"),
    ("run a million tasks due at one instant", "w5b"),
];

/// Rates of the report that README.md has otherwise: a row of its table that has not wheelwork's
/// own rate, the best one of all others and its subject; and a rate of another that is better than
/// wheelwork's, if the text beside the table does not tell both.
fn not_compared(readme: &str, rates: &[Rate<'_>]) -> Vec<String> {
    let speed = titled(readme, "## Speed");
    let is_row = |name: &str, own: f64, best: f64, subject: &str| {
        rows(readme, "## Speed", "\n## ").any(|(first, rest)| {
            let cells = cells(rest);
            first == name
                && cells[..2] == [written(own), written(best)]
                && cells[2].eq_ignore_ascii_case(subject)
        })
    };
    let text: String = speed
        .lines()
        .filter(|line| !line.starts_with('|'))
        .map(|line| line.to_string() + "\n")
        .collect();
    let is_told = |mops| numbers(&text).any(|number| number == written(mops));
    let faults = best_others(rates).into_iter().filter(|&(what, own, best)| {
        let row = COMPARED
            .iter()
            .find(|(_, workload)| what == [workload, "2", "1000000"]);
        let subject = rates
            .iter()
            .find(|rate| rate.what == what && rate.mops == best)
            .map_or("", |rate| rate.subject);
        let is_right = row.is_none_or(|(name, _)| is_row(name, own, best, subject));
        !is_right || best > own && !(is_told(own) && is_told(best))
    });
    faults
        .map(|(what, own, best)| {
            format!("{what:?}: {}, {} of another", written(own), written(best))
        })
        .collect()
}

/// A rate of the report: million operations a second.
struct Rate<'a> {
    subject: &'a str,
    /// Workload, threads and number of timers.
    what: [&'a str; 3],
    mops: f64,
}

/// The rates of a report, which has one flat object in each line.
fn rates(report: &str) -> Vec<Rate<'_>> {
    fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}'])
            .next()
            .map(|value| value.trim_matches('"'))
    }
    let rate = |line| {
        let what = [
            value(line, "workload")?,
            value(line, "threads")?,
            value(line, "n")?,
        ];
        Some(Rate {
            subject: value(line, "subject")?,
            what,
            mops: value(line, "mops")?.parse().ok()?,
        })
    };
    report.lines().filter_map(rate).collect()
}

/// As the comparison writes it.
fn written(mops: f64) -> String {
    if mops < 100.0 {
        format!("{mops:.1}")
    } else {
        format!("{mops:.0}")
    }
}

/// The best rate of those that are not wheelwork's, each with wheelwork's own.
fn best_others<'a>(rates: &'a [Rate<'a>]) -> Vec<([&'a str; 3], f64, f64)> {
    let ours = rates.iter().filter(|rate| rate.subject == "wheelwork");
    let others = |what| {
        rates
            .iter()
            .filter(move |rate| rate.what == what && !rate.subject.starts_with("wheelwork"))
    };
    ours.map(|own| {
        (
            own.what,
            own.mops,
            others(own.what).map(|rate| rate.mops).fold(0.0, f64::max),
        )
    })
    .collect()
}

/// What a comparison leaves out of the report, though it is better than what it has: its table says
/// the best rate of all others, and the losses are told where others are ahead.
fn left_out(table: &str, losses: &str, report: &str) -> Vec<String> {
    const ROWS: [(&str, &str); 8] = [
        ("w1", "| arm; into"),
        ("w1-cold", "| arm; into"),
        ("w2", "| arm, cancel at once"),
        ("w2b", "| the same, 1,000"),
        ("w3", "| cancel a random one"),
        ("w4", "| cancel all"),
        ("w8", "| re-arm random ones"),
        ("w5b", "| a million due"),
    ];
    let rates = rates(report);
    let row = |workload| {
        let (_, begin) = ROWS.iter().find(|(name, _)| *name == workload)?;
        table.lines().find(|line| line.starts_with(begin))
    };
    let is_told = |place: Option<&str>, mops| {
        place.is_some_and(|text| numbers(text).any(|number| number == written(mops)))
    };
    let faults =
        best_others(&rates)
            .into_iter()
            .filter(|&([workload, threads, timers], own, best)| {
                let is_row = threads == "2" && timers == "1000000";
                is_row && !is_told(row(workload), best)
                    || best > own && !is_told(Some(losses), best)
            });
    faults
        .map(|(what, _, best)| format!("{what:?}: {} of another", written(best)))
        .collect()
}

/// The cells of a table's row.
fn cells(row: &str) -> Vec<&str> {
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().trim_matches('`')).collect()
}

/// Rates of a million timers that a table (a row for each subject, a column for each workload) has
/// otherwise than the report, and subjects that it leaves out.
fn other_rates(table: &str, threads: &str, rates: &[Rate<'_>]) -> Vec<String> {
    let mut rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(cells);
    let workloads = rows.next().unwrap_or_default();
    // Below the line between head and body.
    let rows: Vec<_> = rows.skip(1).collect();
    let rate = |subject: &str, workload: &str| {
        let what = [workload, threads, "1000000"];
        let rate = rates
            .iter()
            .find(|rate| rate.subject == subject && rate.what == what);
        rate.map_or("-".to_string(), |rate| written(rate.mops))
    };
    let mut faults = Vec::new();
    for row in &rows {
        for (&cell, &workload) in row.iter().zip(&workloads).skip(1) {
            let right = rate(row[0], workload);
            if cell != right {
                faults.push(format!("{} in {workload}: {cell}, not {right}", row[0]));
            }
        }
    }
    let subjects: BTreeSet<_> = rates
        .iter()
        .filter(|rate| rate.what[1] == threads && workloads.contains(&rate.what[0]))
        .map(|rate| rate.subject)
        .collect();
    let missing = subjects
        .into_iter()
        .filter(|subject| !rows.iter().any(|row| row[0] == *subject));
    faults.extend(missing.map(|subject| format!("{subject} is left out")));
    faults
}

/// A part of a document, from its heading to the next one of this kind.
fn titled<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no {heading:?}"));
    let kind = heading.split(' ').next().unwrap_or_default();
    rest.split(&format!("\n{kind} ")).next().unwrap_or_default()
}

/// The numbers of a text, with their points.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'))
        .map(|number| number.trim_end_matches('.'))
}

#[test]
fn the_comparison_leaves_no_better_rate_out() {
    let Some(report) = read("compare/report/timers.json") else {
        return;
    };
    let comparison = read("docs/comparison.md").unwrap();
    let rates = rates(&report);
    assert!(best_others(&rates).len() > 15, "it has all the rates");
    let faults = left_out(
        titled(&comparison, "## In short"),
        titled(&comparison, "## Where others are ahead"),
        &report,
    );
    assert_eq!(faults, [""; 0]);
    for (threads, heading) in [
        ("1", "### Rates, one thread"),
        ("2", "### Rates, two threads"),
    ] {
        let table = titled(&comparison, heading);
        assert_eq!(other_rates(table, threads, &rates), [""; 0], "{heading}");
    }
}

#[test]
fn the_readmes_table_has_the_reports_rates() {
    let Some(report) = read("compare/report/timers.json") else {
        return;
    };
    let rates = rates(&report);
    for (name, workload) in COMPARED {
        let what = [workload, "2", "1000000"];
        assert!(rates.iter().any(|rate| rate.what == what), "{name}");
    }
    assert_eq!(not_compared(&read("README.md").unwrap(), &rates), [""; 0]);
}

#[test]
fn this_test_sees_what_it_looks_for() {
    let rate = |subject, workload, mops| Rate {
        subject,
        what: [workload, "2", "1000000"],
        mops,
    };
    let measured = [
        rate("wheelwork", "w2", 68.76),
        rate("pingora", "w2", 15.33),
        rate("wheelwork", "w9", 2.0),
        rate("heap", "w9", 3.0),
    ];
    let readme = "\n## Speed\n| arm, and cancel at once | 68.8 | 15.3 | Pingora |\nA heap: 3.0.\n";
    let better = "[\"w9\", \"2\", \"1000000\"]: 2.0, 3.0 of another";
    assert_eq!(not_compared(readme, &measured), [better]);
    let told = readme.replace("3.0.", "3.0, wheelwork 2.0.");
    assert_eq!(not_compared(&told, &measured), [""; 0]);
    let wrong = "[\"w2\", \"2\", \"1000000\"]: 68.8, 15.3 of another";
    for (right, other) in [
        ("68.8", "69.8"),
        ("15.3", "15"),
        ("| arm,", "| are,"),
        ("Pingora", "Netty"),
    ] {
        let readme = told.replace(right, other);
        assert_eq!(not_compared(&readme, &measured), [wrong]);
    }
    let line = |subject, threads, timers, mops| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w4\",\"threads\":{threads},\"n\":{timers},\"reps\":4,\"mops\":{mops},\"x\":1}}\n"
        )
    };
    let report = ["wheelwork", "heap", "netty"]
        .into_iter()
        .zip([13.71, 150.4, 9.3])
        .map(|(subject, mops)| line(subject, 2, 1_000_000, mops));
    let report = report.collect::<String>()
        + &line("wheelwork", 1, 10_000, 11.8)
        + &line("delayqueue", 1, 10_000, 17.29);
    let losses = "The heap: 150. At 10,000: 17.3.\n";
    assert_eq!(
        left_out("| cancel all | 13.7 | 9.3; 150 (heap) |\n", losses, &report),
        [""; 0]
    );
    let faults = left_out("| cancel all | 13.7 | 9.3 |\n", "The heap: 150.\n", &report);
    assert_eq!(
        faults,
        [
            "[\"w4\", \"2\", \"1000000\"]: 150 of another",
            "[\"w4\", \"1\", \"10000\"]: 17.3 of another"
        ]
    );
    let faults = left_out(
        "| cancel all | 13.7 | 9.3; 150 (heap) |\n",
        "At 10,000: 17.3.\n",
        &report,
    );
    assert_eq!(
        faults,
        ["[\"w4\", \"2\", \"1000000\"]: 150 of another"],
        "it is a loss, too"
    );
    let document = "# D\n\n## Rates\nA\n### More\n\n## Next\n";
    assert_eq!(titled(document, "## Rates"), "A\n### More\n");
    let table = "| subject | `w2` | `w4` |\n|---|--:|--:|\n| `wheelwork` | - | 13.7 |\n| `heap` | - | 151 |\n";
    assert_eq!(
        other_rates(table, "2", &rates(&report)),
        ["heap in w4: 151, not 150", "netty is left out"]
    );
}
