//! Promise: the rates that README.md and the comparison have are the report's.
//!
//! - The comparison has the best rate of all others in each row, and tells where wheelwork is
//!   behind. So does README.md.
//! - The tables of the whole report in the comparison are those that are made of it.
//!
//! In a package that was downloaded only a part of this is there: what is not is not looked at.

use crate::text::{read, root, rows};
use std::collections::BTreeSet;

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
    let mut rates = Vec::new();
    for line in lines(report) {
        if let Some(mops) = value(line.text, "mops").and_then(|mops| mops.parse().ok()) {
            rates.push(Rate {
                subject: line.subject,
                what: line.what,
                mops,
            });
        }
    }
    rates
}

/// The value of a name in a line of the report.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}'])
        .next()
        .map(|value| value.trim_matches('"'))
}

fn lines(report: &str) -> Vec<Line<'_>> {
    let line = |text| {
        Some(Line {
            subject: value(text, "subject")?,
            what: [
                value(text, "workload")?,
                value(text, "threads")?,
                value(text, "n")?,
            ],
            text,
        })
    };
    report.lines().filter_map(line).collect()
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
        ("w1", "| arm |"),
        ("w1-cold", "| arm, into"),
        ("w2", "| arm, cancel at once"),
        ("w2b", "| arm, cancel 1,000"),
        ("w3", "| cancel a random one"),
        ("w4", "| cancel all in random order, freeing nothing"),
        ("w8", "| re-arm random ones |"),
        ("w5b", "| run a million"),
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

/// A line of the report: a subject's figures for a workload, a number of threads and one of timers.
struct Line<'a> {
    subject: &'a str,
    what: [&'a str; 3],
    text: &'a str,
}

/// A column of a table: its head, the lines that it is about, the figure, and how that is written.
struct Column {
    head: String,
    what: [&'static str; 3],
    figure: &'static str,
    written: fn(f64) -> String,
}

fn column(
    head: &str,
    workload: &'static str,
    of: [&'static str; 2],
    figure: &'static str,
    written: fn(f64) -> String,
) -> Column {
    Column {
        head: head.to_string(),
        what: [workload, of[0], of[1]],
        figure,
        written,
    }
}

/// With a comma before each three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let parts: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    let parts = parts
        .iter()
        .map(|part| std::str::from_utf8(part).unwrap())
        .collect::<Vec<_>>();
    parts.join(",")
}

/// Three digits that count, and no more than three behind the point.
fn three(number: f64) -> String {
    match number.abs() {
        size if size < 0.9995 => format!("{number:.3}"),
        size if size < 9.995 => format!("{number:.2}"),
        size if size < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Two digits that count, for figures below ten.
fn two(number: f64) -> String {
    if number < 9.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

/// The tables of the comparison that are made of the report, with their columns.
fn columns() -> Vec<(&'static str, Vec<Column>)> {
    const MILLION: &str = "1000000";
    const RATES: [&str; 8] = ["w1", "w1-cold", "w2", "w2b", "w3", "w4", "w8", "w5b"];
    const SIZES: [(&str, &str); 4] = [
        ("10,000", "10000"),
        ("100,000", "100000"),
        ("1,000,000", MILLION),
        ("10,000,000", "10000000"),
    ];
    let rates = |threads| {
        let of = |workload| {
            column(
                &format!("`{workload}`"),
                workload,
                [threads, MILLION],
                "mops",
                written,
            )
        };
        RATES.map(of).into_iter().collect()
    };
    let cpu = |threads| {
        let decimals = |seconds| format!("{seconds:.3}");
        let of = |workload| {
            let of = [threads, MILLION];
            column(
                &format!("`{workload}`"),
                workload,
                of,
                "cpu_s_per_mop",
                decimals,
            )
        };
        RATES[..7].iter().copied().map(of).collect()
    };
    let late = |threads| {
        let of = [threads, MILLION];
        vec![
            column("p50", "w5", of, "late_ms_p50", three),
            column("p99", "w5", of, "late_ms_p99", three),
            column("p99.9", "w5", of, "late_ms_p999", three),
            column("the latest", "w5", of, "late_ms_max", three),
            column("early", "w5", of, "early", grouped),
            column("CPU, s", "w5", of, "cpu_s", three),
        ]
    };
    let sizes = |workload, figure, written| {
        let of = |(head, timers)| column(head, workload, ["1", timers], figure, written);
        SIZES.map(of).into_iter().collect()
    };
    let (one, two_threads) = (["1", MILLION], ["2", MILLION]);
    let ms = |seconds: f64| format!("{:.0}", seconds * 1e3);
    vec![
        ("rates, one thread", rates("1")),
        ("rates, two threads", rates("2")),
        ("CPU, one thread", cpu("1")),
        ("CPU, two threads", cpu("2")),
        ("w1 by timers", sizes("w1", "mops", written)),
        ("w3 by timers", sizes("w3", "ns_per_op", grouped)),
        ("lateness, one thread", late("1")),
        ("lateness, two threads", late("2")),
        (
            "one instant",
            vec![
                column("first, one thread", "w5b", one, "first_ms", three),
                column("last", "w5b", one, "last_ms", three),
                column("CPU, ms", "w5b", one, "cpu_s", ms),
                column("first, two threads", "w5b", two_threads, "first_ms", three),
                column("last", "w5b", two_threads, "last_ms", three),
                column("CPU, ms", "w5b", two_threads, "cpu_s", ms),
            ],
        ),
        (
            "memory",
            vec![
                column("1,000,000", "w6", one, "bytes_per_timer", written),
                column(
                    "10,000,000",
                    "w6",
                    ["1", "10000000"],
                    "bytes_per_timer",
                    written,
                ),
                column("an empty one, in all", "w6", one, "empty_bytes", grouped),
            ],
        ),
        (
            "memory that goes back",
            vec![
                column("back, ms, one thread", "w4", one, "back_ms", two),
                column("stays, bytes", "w4", one, "kept_bytes", two),
                column("back, ms, two threads", "w4", two_threads, "back_ms", two),
                column("stays, bytes", "w4", two_threads, "kept_bytes", two),
            ],
        ),
    ]
}

/// A table of the report: a row for each subject that has a figure, in the report's order.
fn table(columns: &[Column], lines: &[Line<'_>]) -> String {
    let heads: Vec<_> = columns.iter().map(|column| &*column.head).collect();
    let mut text = format!("| subject | {} |\n", heads.join(" | "));
    text += &format!("|---|{}\n", "--:|".repeat(columns.len()));
    let mut subjects: Vec<_> = lines.iter().map(|line| line.subject).collect();
    let mut seen = BTreeSet::new();
    subjects.retain(|subject| seen.insert(*subject));
    for subject in subjects {
        let cells: Vec<_> = columns
            .iter()
            .map(|column| {
                let line = lines
                    .iter()
                    .find(|line| line.subject == subject && line.what == column.what);
                let figure = line.and_then(|line| value(line.text, column.figure)?.parse().ok());
                figure.map_or("-".to_string(), column.written)
            })
            .collect();
        if cells.iter().any(|cell| cell != "-") {
            text += &format!("| `{subject}` | {} |\n", cells.join(" | "));
        }
    }
    text
}

/// The document with its tables made anew: each stands below a line that names it. And the tables
/// that it has not.
fn made_anew(document: &str, tables: &[(&str, String)]) -> (String, Vec<String>) {
    let (mut text, mut left) = (document.to_string(), Vec::new());
    for (name, table) in tables {
        let mark = format!("<!-- of the report: {name} -->\n");
        let Some((before, rest)) = text.split_once(&mark) else {
            left.push((*name).to_string());
            continue;
        };
        let old: usize = rest
            .split_inclusive('\n')
            .take_while(|line| line.starts_with('|'))
            .map(str::len)
            .sum();
        text = format!("{before}{mark}{table}{}", &rest[old..]);
    }
    (text, left)
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
}

/// `scripts/tables` writes them.
#[test]
fn the_tables_of_the_whole_report_are_made_of_it() {
    let Some(report) = read("compare/report/timers.json") else {
        return;
    };
    let name = "docs/comparison.md";
    let comparison = read(name).unwrap();
    let lines = lines(&report);
    let tables: Vec<_> = columns()
        .into_iter()
        .map(|(name, columns)| (name, table(&columns, &lines)))
        .collect();
    let (anew, left) = made_anew(&comparison, &tables);
    assert_eq!(left, [""; 0], "the tables that {name} has not");
    if std::env::var_os("WHEELWORK_WRITE_TABLES").is_some() {
        std::fs::write(root().join(name), &anew).unwrap();
    } else {
        let differs: Vec<_> = anew
            .lines()
            .filter(|line| !comparison.lines().any(|old| old == *line))
            .collect();
        assert_eq!(differs, [""; 0], "scripts/tables writes these rows");
        assert!(anew == comparison, "scripts/tables writes the tables anew");
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
        left_out(
            "| cancel all in random order, freeing nothing | 13.7 | 9.3; 150 (heap) |\n",
            losses,
            &report
        ),
        [""; 0]
    );
    let faults = left_out(
        "| cancel all in random order, freeing nothing | 13.7 | 9.3 |\n",
        "The heap: 150.\n",
        &report,
    );
    assert_eq!(
        faults,
        [
            "[\"w4\", \"2\", \"1000000\"]: 150 of another",
            "[\"w4\", \"1\", \"10000\"]: 17.3 of another"
        ]
    );
    let faults = left_out(
        "| cancel all in random order, freeing nothing | 13.7 | 9.3; 150 (heap) |\n",
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
    let report = line("heap", 2, 10_000, 1.0)
        + &line("netty", 2, 10_000, 1_234.5)
        + "{\"subject\":\"heap\",\"workload\":\"w9\",\"threads\":1,\"n\":1,\"late\":0.0316}\n"
        + &line("hhwt", 1, 1, 3.0);
    let columns = [
        column("rate", "w4", ["2", "10000"], "mops", grouped),
        column("late", "w9", ["1", "1"], "late", three),
    ];
    let made = table(&columns, &lines(&report));
    let rows = "| `heap` | 1 | 0.032 |\n| `netty` | 1,234 | - |\n";
    assert_eq!(
        made,
        format!("| subject | rate | late |\n|---|--:|--:|\n{rows}")
    );
    let document = "A\n<!-- of the report: a -->\n| old |\n|---|\n\nB | C\n";
    let (anew, left) = made_anew(
        document,
        &[("a", "| new |\n".to_string()), ("b", String::new())],
    );
    assert_eq!(anew, "A\n<!-- of the report: a -->\n| new |\n\nB | C\n");
    assert_eq!(left, ["b"]);
    assert_eq!([0.0, 9.95, 12.3].map(two), ["0.0", "10", "12"]);
}
