//! The report of `scripts/bench rivals --json`, and how documents write its figures and subjects.

/// A line of the report: a subject's figures for a workload, a number of threads and one of timers.
pub(crate) struct Line<'a> {
    pub(crate) subject: &'a str,
    pub(crate) what: [&'a str; 3],
    pub(crate) text: &'a str,
}

/// The value of a name in a line of the report.
pub(crate) fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}'])
        .next()
        .map(|value| value.trim_matches('"'))
}

pub(crate) fn lines(report: &str) -> Vec<Line<'_>> {
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
pub(crate) fn written(mops: f64) -> String {
    if mops < 100.0 {
        format!("{mops:.1}")
    } else {
        format!("{mops:.0}")
    }
}

/// A subject's name in a sentence.
pub(crate) fn called(subject: &str) -> &str {
    match subject {
        "asio" => "Boost.Asio",
        "btree" => "a B-tree",
        "delayqueue" => "a `DelayQueue` in each thread",
        "dpdk" => "DPDK",
        "go" => "Go",
        "heap" => "a heap",
        "heap-each" => "a heap in each thread",
        "jdk25" => "JDK 25",
        "mutex-delayqueue" => "a `DelayQueue` in a mutex",
        "netty" => "Netty",
        "tokio-alt" => "tokio's alternative timer",
        "tokio-each" => "tokio in each thread",
        other => other,
    }
}

/// With a comma before each three digits.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let parts: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    let parts = parts
        .iter()
        .map(|part| std::str::from_utf8(part).unwrap())
        .collect::<Vec<_>>();
    parts.join(",")
}

/// Three digits that count, and no more than three behind the point.
pub(crate) fn three(number: f64) -> String {
    match number.abs() {
        size if size < 0.9995 => format!("{number:.3}"),
        size if size < 9.995 => format!("{number:.2}"),
        size if size < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Two digits that count, for figures below ten.
pub(crate) fn two(number: f64) -> String {
    if number < 9.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}
