//! The comparison's tables of timers in flight (`w11`), made of the report: for each window and
//! number of threads wheelwork beside the best of the others.

use crate::rates::{OWNED, Rate, others, rates, without};
use crate::report::{Line, called, grouped, two, value, written};

/// The tables by the names that the comparison has for them.
pub(crate) fn tables(lines: &[Line<'_>]) -> [(&'static str, String); 3] {
    [
        ("in flight", shared("w11", lines)),
        (
            "in flight, cancelled by another thread",
            shared("w11-other", lines),
        ),
        ("in flight, in each thread", in_each_thread(lines)),
    ]
}

/// Beside the best of those that the threads share: rates, the lateness of the probe, and memory.
fn shared(workload: &str, lines: &[Line<'_>]) -> String {
    let head = "| window | threads | wheelwork | best that threads share | which | ratio \
        | p99, ms | its p99, ms | MB | its MB |\n\
        |--:|--:|--:|--:|---|--:|--:|--:|--:|--:|\n";
    let found = found(workload, "wheelwork", |subject| !OWNED(subject), lines);
    let row = |Found {
                   window,
                   own,
                   best,
                   which,
               }: Found<'_>| {
        [
            window,
            own.what[1].to_string(),
            written(own.mops),
            written(best.mops),
            which,
            two(own.mops / best.mops),
            late(&own, lines),
            late(&best, lines),
            memory(&own, lines),
            memory(&best, lines),
        ]
        .join(" | ")
    };
    table(head, found.into_iter().map(row))
}

/// The wheel, and the service, beside the best of those of which each thread has its own.
fn in_each_thread(lines: &[Line<'_>]) -> String {
    let head = "| window | threads | `wheel::Wheel` | wheelwork | best other in each thread \
        | which | ratio of the wheel | ratio of wheelwork | MB of the wheel | its MB |\n\
        |--:|--:|--:|--:|--:|---|--:|--:|--:|--:|\n";
    let rates = rates(lines);
    let row = |Found {
                   window,
                   own,
                   best,
                   which,
               }: Found<'_>| {
        let mut services = rates.iter().filter(|rate| rate.subject == "wheelwork");
        let service = services.find(|rate| rate.what == own.what);
        let of_service = |figure: fn(f64, f64) -> String| {
            service.map_or("-".to_string(), |service| figure(service.mops, best.mops))
        };
        [
            window,
            own.what[1].to_string(),
            written(own.mops),
            of_service(|service, _| written(service)),
            written(best.mops),
            which,
            two(own.mops / best.mops),
            of_service(|service, best| two(service / best)),
            memory(&own, lines),
            memory(&best, lines),
        ]
        .join(" | ")
    };
    let found = found("w11", "wheelwork-wheel", OWNED, lines);
    table(head, found.into_iter().map(row))
}

/// A row: the window, the rate of wheelwork's subject, that of the best other, and which that is.
struct Found<'a> {
    window: String,
    own: Rate<'a>,
    best: Rate<'a>,
    which: String,
}

/// For each window and number of threads, in this order.
fn found<'a>(
    workload: &str,
    subject: &str,
    counts: fn(&str) -> bool,
    lines: &[Line<'a>],
) -> Vec<Found<'a>> {
    let rates = rates(lines);
    let own = rates.iter().copied();
    let own = own.filter(|rate| rate.subject == subject && rate.what[0] == workload);
    let row = |own: Rate<'a>| {
        let best = others(&rates, own.what).filter(|other| counts(other.subject));
        let best = *best.max_by(|a, b| a.mops.total_cmp(&b.mops))?;
        let window = own.what[2].parse().ok()?;
        let (threads, window) = (own.what[1].parse::<u32>().ok()?, grouped(window));
        let which = called(best.subject).trim_end_matches(" in each thread");
        let row = Found {
            window,
            own,
            best,
            which: which.to_string() + &without(lines, own.what, counts),
        };
        Some(((own.what[2].parse::<u64>().ok()?, threads), row))
    };
    let mut found: Vec<_> = own.filter_map(row).collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, row)| row).collect()
}

/// A figure of the line that a rate stands in; `-` if the subject does not have it.
fn figure(rate: &Rate<'_>, name: &str, lines: &[Line<'_>], written: fn(f64) -> String) -> String {
    let mut of_it = lines.iter();
    let line = of_it.find(|line| line.subject == rate.subject && line.what == rate.what);
    let figure = line.and_then(|line| value(line.text, name)?.parse().ok());
    figure.map_or("-".to_string(), written)
}

fn late(rate: &Rate<'_>, lines: &[Line<'_>]) -> String {
    let written = |ms| if ms < 99.5 { two(ms) } else { grouped(ms) };
    figure(rate, "late_ms_p99", lines, written)
}

fn memory(rate: &Rate<'_>, lines: &[Line<'_>]) -> String {
    let written = |bytes| grouped(bytes / 1e6);
    figure(rate, "resident_bytes_max", lines, written)
}

fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    let rows = rows.map(|row| format!("| {row} |\n"));
    head.to_string() + &rows.collect::<String>()
}

#[test]
fn tables_are_made_as_they_should_be() {
    let flown = |subject, window, threads, mops, figures| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w11\",\"threads\":{threads},\"n\":{window},\"mops\":{mops},{figures}}}\n"
        )
    };
    let (bytes, late) = ("\"resident_bytes_max\":", "\"late_ms_p99\":");
    let report = [
        (
            "wheelwork",
            8_000,
            2,
            55.0,
            format!("{late}0.5,{bytes}8000000"),
        ),
        (
            "wheelwork",
            1_000,
            16,
            60.0,
            format!("{late}1.25,{bytes}9400000"),
        ),
        (
            "wheelwork",
            1_000,
            2,
            50.0,
            format!("{late}1.0,{bytes}7000000"),
        ),
        (
            "wheelwork-wheel",
            1_000,
            2,
            150.0,
            format!("{bytes}1000000"),
        ),
        (
            "wheelwork-wheel",
            8_000,
            16,
            150.0,
            format!("{bytes}1000000"),
        ),
        ("dpdk", 1_000, 2, 20.0, format!("{bytes}1000000000")),
        ("delayqueue", 1_000, 2, 75.0, "\"x\":1".to_string()),
        ("delayqueue", 8_000, 16, 75.0, "\"x\":1".to_string()),
        (
            "netty",
            1_000,
            2,
            10.0,
            format!("{late}27.3,{bytes}2000000000"),
        ),
        (
            "netty",
            1_000,
            16,
            12.0,
            format!("{late}9012.0,{bytes}2000400000"),
        ),
    ]
    .map(|(subject, window, threads, mops, figures)| flown(subject, window, threads, mops, figures))
    .concat();
    let [(_, shared), (_, by_another), (_, each)] = tables(&crate::report::lines(&report));
    let rows = |table: &str| {
        table
            .lines()
            .skip(2)
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&shared),
        [
            "| 1,000 | 2 | 50.0 | 10.0 | Netty | 5.0 | 1.0 | 27 | 7 | 2,000 |",
            "| 1,000 | 16 | 60.0 | 12.0 | Netty | 5.0 | 1.2 | 9,012 | 9 | 2,000 |",
        ]
    );
    assert_eq!(rows(&by_another), [""; 0]);
    assert_eq!(
        rows(&each),
        [
            "| 1,000 | 2 | 150 | 50.0 | 75.0 | a `DelayQueue` | 2.0 | 0.7 | 1 | - |",
            "| 8,000 | 16 | 150 | - | 75.0 | a `DelayQueue` | 2.0 | - | 1 | - |",
        ]
    );
}
