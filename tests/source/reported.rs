//! Promise: the figures against other timers that README.md and the comparison have are the
//! report's.
//!
//! - The tables that compare wheelwork with the best of all others, and its wheel with those that
//!   belong to one thread, are made of the report. What others do better comes first in them.
//! - The comparison has tables of all rates, and of all other figures, in which others are ahead.
//! - The page of goals has the verdicts that are at the end of the report.
//! - The tables of the whole report are those that are made of it.
//!
//! `scripts/tables` writes them. In a package that was downloaded only a part of this is there:
//! what is not is not looked at.

use crate::ahead;
use crate::in_flight;
use crate::rates::{Best, OWNED, Rate, rates, ratio};
use crate::report::{Line, grouped, lines, three, two, value, written};
use crate::text::{read, root};
use crate::verdicts::{absolute, against_others, at_rates, cpu_of_goals, goals, lateness, within};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The documents with tables of the report, and what makes these.
const DOCUMENTS: [(&str, MakesTables); 3] = [
    ("README.md", |_, lines| {
        let rows = IN_SHORT.iter().filter(|row| row.is_in_readme());
        vec![
            ("speed", in_short(rows, lines)),
            ("speed in each thread", in_each_thread(lines)),
        ]
    }),
    ("docs/measurements.md", |report, lines| {
        let goals = goals(report);
        vec![
            ("goals", absolute(&goals)),
            ("goals against others", against_others(&goals)),
            ("lateness against others", lateness(&goals, lines)),
            ("goals within wheelwork", within(&goals)),
            ("CPU of goals", cpu_of_goals(&goals, lines)),
            ("goals at rates", at_rates(&goals)),
        ]
    }),
    ("docs/comparison.md", |_, lines| {
        let mut tables = vec![
            ("in short", in_short(&IN_SHORT, lines)),
            ("in each thread", in_each_thread(lines)),
            ("others ahead", ahead::rates(lines)),
            ("others ahead in other figures", ahead::other_figures(lines)),
        ];
        let whole = columns().into_iter();
        tables.extend(whole.map(|(name, columns)| (name, table(&columns, lines))));
        tables.extend(in_flight::tables(lines));
        tables
    }),
];

/// What all tables are made of.
const REPORT: &str = "compare/report/timers.json";

type MakesTables = fn(&str, &[Line<'_>]) -> Vec<(&'static str, String)>;

/// A row that holds wheelwork against the best of the others: what it says, the workload,
/// wheelwork's subject, and which others count. All rows are of two threads and a million timers.
struct Row(&'static str, &'static str, &'static str, fn(&str) -> bool);

impl Row {
    /// README.md has wheelwork as it comes, with numbers and with closures, and memory that was
    /// used before.
    fn is_in_readme(&self) -> bool {
        self.1 != "w1-cold" && ["wheelwork", "wheelwork-closure"].contains(&self.2)
    }
}

/// A cancel of a heap sets a flag, and leaves the timer where it is until it is due.
const KEEPS_NONE: fn(&str) -> bool = |subject| !subject.starts_with("heap");
const ANY: fn(&str) -> bool = |_| true;

const IN_SHORT: [Row; 15] = [
    Row("arm", "w1", "wheelwork", ANY),
    Row(
        "arm, into memory that was never used",
        "w1-cold",
        "wheelwork",
        ANY,
    ),
    Row("arm, cancel at once", "w2", "wheelwork", ANY),
    Row("arm, cancel 1,000 inserts later", "w2b", "wheelwork", ANY),
    Row("cancel a random one, arm another", "w3", "wheelwork", ANY),
    Row(
        "cancel all in random order, against those that keep none until due",
        "w4",
        "wheelwork",
        KEEPS_NONE,
    ),
    Row(
        "cancel all in random order, against one that sets flags",
        "w4",
        "wheelwork",
        |subject| !KEEPS_NONE(subject),
    ),
    Row("re-arm random ones", "w8", "wheelwork", ANY),
    Row(
        "re-arm random ones, in one call",
        "w8",
        "wheelwork-batch",
        ANY,
    ),
    Row("arm a closure", "w1", "wheelwork-closure", ANY),
    Row(
        "arm a closure, cancel at once",
        "w2",
        "wheelwork-closure",
        ANY,
    ),
    Row(
        "cancel all closures in random order, against those that keep none until due",
        "w4",
        "wheelwork-closure",
        KEEPS_NONE,
    ),
    Row(
        "run a million tasks due at one instant",
        "w5b",
        "wheelwork",
        ANY,
    ),
    Row(
        "run a million closures due at one instant",
        "w5b",
        "wheelwork-closure",
        ANY,
    ),
    Row(
        "run them inline, with a shard for each core",
        "w5b",
        "wheelwork-cores",
        ANY,
    ),
];

/// Each thread has timers of its own, and a loop that drives them.
const IN_EACH_THREAD: [Row; 9] = {
    const WHEEL: &str = "wheelwork-wheel";
    [
        Row("arm", "w1", WHEEL, OWNED),
        Row(
            "arm, into memory that was never used",
            "w1-cold",
            WHEEL,
            OWNED,
        ),
        Row("arm, cancel at once", "w2", WHEEL, OWNED),
        Row("arm, cancel 1,000 inserts later", "w2b", WHEEL, OWNED),
        Row("cancel a random one, arm another", "w3", WHEEL, OWNED),
        Row(
            "cancel all in random order, against those that keep none until due",
            "w4",
            WHEEL,
            |subject| OWNED(subject) && KEEPS_NONE(subject),
        ),
        Row(
            "cancel all in random order, against one that sets flags",
            "w4",
            WHEEL,
            |subject| OWNED(subject) && !KEEPS_NONE(subject),
        ),
        Row("re-arm random ones", "w8", WHEEL, OWNED),
        Row(
            "run a million tasks due at one instant",
            "w5b",
            WHEEL,
            OWNED,
        ),
    ]
};

/// The rate of the row's own subject, and what the row is about.
fn own<'r>(rates: &[Rate<'_>], row: &'r Row) -> Option<(f64, [&'r str; 3])> {
    let what = [row.1, "2", "1000000"];
    let mut of_it = rates.iter().filter(|rate| rate.what == what);
    Some((of_it.find(|rate| rate.subject == row.2)?.mops, what))
}

/// A table of the best of all others, each beside wheelwork's own: of those that all threads share,
/// and of those of which each thread has some of its own. What others do better comes first.
fn in_short<'r>(rows: impl IntoIterator<Item = &'r Row>, lines: &[Line<'_>]) -> String {
    let rates = rates(lines);
    let row = |row: &Row| {
        let (own, what) = own(&rates, row)?;
        let best = |owned| {
            let counts = |subject: &str| row.3(subject) && OWNED(subject) == owned;
            Best::find(&rates, what, counts, lines)
        };
        let both = [best(false), best(true)];
        both.iter().flatten().next()?;
        let is_behind = both.iter().flatten().any(|best| best.mops > own);
        let cells = both.map(|best| {
            best.map_or(
                ["-".to_string(), "-".to_string()],
                |Best { mops, which }| [format!("{which} {}", written(mops)), ratio(own, mops)],
            )
        });
        let cells = cells.as_flattened().join(" | ");
        Some((
            is_behind,
            format!("| {} | {} | {cells} |\n", row.0, written(own)),
        ))
    };
    let mut found: Vec<_> = rows.into_iter().filter_map(row).collect();
    found.sort_by_key(|(is_behind, _)| Reverse(*is_behind));
    let head = "| | wheelwork | the best that threads share | ratio | the best in each thread \
        | ratio |\n|---|--:|---|--:|---|--:|\n";
    let rows = found.into_iter().map(|(_, row)| row);
    head.to_string() + &rows.collect::<String>()
}

/// A table of wheelwork's wheel beside the best of those others of which each thread has its own.
/// What others do better comes first.
fn in_each_thread(lines: &[Line<'_>]) -> String {
    let rates = rates(lines);
    let row = |row: &Row| {
        let (own, what) = own(&rates, row)?;
        let Best { mops, which } = Best::find(&rates, what, row.3, lines)?;
        let (name, ratio) = (row.0, ratio(own, mops));
        let text = format!(
            "| {name} | {} | {which} {} | {ratio} |\n",
            written(own),
            written(mops)
        );
        Some((mops > own, text))
    };
    let mut found: Vec<_> = IN_EACH_THREAD.iter().filter_map(row).collect();
    found.sort_by_key(|(is_behind, _)| Reverse(*is_behind));
    let head = "| | `wheel::Wheel` | the best other in each thread | ratio |\n|---|--:|---|--:|\n";
    let rows = found.into_iter().map(|(_, row)| row);
    head.to_string() + &rows.collect::<String>()
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
    const EACH_SECOND: [(&str, &str); 5] = [
        ("100", "100"),
        ("1,000", "1000"),
        ("10,000", "10000"),
        ("100,000", "100000"),
        ("1,000,000", MILLION),
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
    let by = |numbers: &[(&'static str, &'static str)], workload, threads, figure, written| {
        let of = |&(head, number): &_| column(head, workload, [threads, number], figure, written);
        numbers.iter().map(of).collect()
    };
    let sizes = |workload, figure, written| by(&SIZES, workload, "1", figure, written);
    let answered = |threads| by(&EACH_SECOND[1..], "w10", threads, "cpu_percent", three);
    let fired = |figure| by(&EACH_SECOND[..4], "w9", "1", figure, three);
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
            "idle",
            vec![
                column("wake-ups a second", "w7", one, "wakeups_per_s", two),
                column("CPU, s", "w7", one, "cpu_s", three),
            ],
        ),
        ("answered, one thread", answered("1")),
        ("answered, two threads", answered("2")),
        ("fired, CPU", fired("cpu_us_per_fire")),
        ("fired, lateness", fired("late_ms_p99")),
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

#[test]
fn the_tables_of_documents_are_made_of_the_report() {
    let Some(report) = read(REPORT) else {
        return;
    };
    let lines = lines(&report);
    assert!(
        ahead::rates(&lines).lines().count() > 2,
        "it has all the rates"
    );
    for (name, tables) in DOCUMENTS {
        let document = read(name).unwrap();
        let (anew, left) = made_anew(&document, &tables(&report, &lines));
        assert_eq!(left, [""; 0], "the tables that {name} has not");
        if std::env::var_os("WHEELWORK_WRITE_TABLES").is_some() {
            std::fs::write(root().join(name), &anew).unwrap();
            continue;
        }
        let differs: Vec<_> = anew
            .lines()
            .filter(|line| !document.lines().any(|old| old == *line))
            .collect();
        assert_eq!(differs, [""; 0], "scripts/tables writes these rows");
        assert!(anew == document, "scripts/tables writes the tables anew");
    }
}

#[test]
fn tables_are_made_as_they_should_be() {
    let line = |subject, workload, threads, timers, mops| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"{workload}\",\"threads\":{threads},\"n\":{timers},\"reps\":4,\"mops\":{mops},\"x\":1}}\n"
        )
    };
    let of_a_million = |subject, workload, mops| line(subject, workload, 2, 1_000_000, mops);
    let report = of_a_million("wheelwork", "w2", 68.76)
        + &of_a_million("wheelwork-batch", "w2", 90.0)
        + &of_a_million("wheelwork-wheel", "w2", 140.2)
        + &of_a_million("pingora", "w2", 15.33)
        + &of_a_million("dpdk", "w2", 27.5)
        + &of_a_million("asio", "w2", 27.46)
        + &of_a_million("wheelwork", "w4", 13.71)
        + &of_a_million("heap", "w4", 150.4)
        + &of_a_million("netty", "w4", 9.3)
        + &line("wheelwork", "w4", 1, 10_000, 11.8)
        + &line("delayqueue", "w4", 1, 10_000, 17.29)
        + "{\"subject\":\"btree\",\"workload\":\"w4\",\"threads\":2,\"n\":1000000,\"reps\":0,\
           \"skipped\":\"of 3 near: 0; 1 were far, 2 changed\"}\n";
    let rows = [
        Row("pairs", "w2", "wheelwork", ANY),
        Row("cancels", "w4", "wheelwork", KEEPS_NONE),
        Row("flags", "w4", "wheelwork", |subject| !KEEPS_NONE(subject)),
        Row("not measured", "w8", "wheelwork", ANY),
    ];
    assert_eq!(
        in_short(&rows, &lines(&report))
            .lines()
            .skip(2)
            .collect::<Vec<_>>(),
        [
            "| flags | 13.7 | a heap 150 | 0.09 | - | - |",
            "| pairs | 68.8 | pingora 15.3 | 4.5 | DPDK, Boost.Asio 27.5 | 2.5 |",
            "| cancels | 13.7 | Netty (not all runs of a B-tree) 9.3 | 1.5 | - | - |",
        ]
    );
    assert_eq!(
        in_each_thread(&lines(&report))
            .lines()
            .skip(2)
            .collect::<Vec<_>>(),
        ["| arm, cancel at once | 140 | DPDK, Boost.Asio 27.5 | 5.1 |"]
    );
    let report = line("heap", "w4", 2, 10_000, 1.0)
        + &line("netty", "w4", 2, 10_000, 1_234.5)
        + "{\"subject\":\"heap\",\"workload\":\"w9\",\"threads\":1,\"n\":1,\"late\":0.0316}\n"
        + &line("hhwt", "w4", 1, 1, 3.0);
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
