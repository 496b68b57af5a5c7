//! Which charts there are, and what is in them.

use crate::bars::{bars, hide_each_other};
use crate::curves::{Curve, curves};
use crate::row::{Figure, Row};
use crate::scale::commas;

/// A figure of a workload that is drawn as bars.
struct Shown {
    workload: &'static str,
    title: &'static str,
    figure: &'static str,
    unit: &'static str,
    more_is_better: bool,
}

impl Shown {
    const fn less(
        workload: &'static str,
        title: &'static str,
        figure: &'static str,
        unit: &'static str,
    ) -> Self {
        Self {
            workload,
            title,
            figure,
            unit,
            more_is_better: false,
        }
    }

    /// Thousands of durable operations a second.
    const fn durable(workload: &'static str, title: &'static str) -> Self {
        Self {
            figure: "kops",
            ..Self::more(workload, title, "thousand a second")
        }
    }

    /// A rate.
    const fn more(workload: &'static str, title: &'static str, unit: &'static str) -> Self {
        Self {
            workload,
            title,
            figure: "mops",
            unit,
            more_is_better: true,
        }
    }
}

const MOPS: &str = "million operations a second";
const PAIRS: &str = "million pairs a second";
const WRITTEN: &str = "bytes written for each";
const CPU: &str = "cpu_percent";
const CPU_UNIT: &str = "CPU, per cent of a core";

/// The bars of timers and of stores, workload by workload.
const SHOWN: [Shown; 37] = [
    Shown::more("w1", "W1: arm, warm memory", MOPS),
    Shown::more("w1-cold", "W1: arm, cold memory", MOPS),
    Shown::more("w2", "W2: arm, cancel at once", PAIRS),
    Shown::more("w2b", "W2b: arm, cancel 1,000 inserts later", PAIRS),
    Shown::more(
        "w3",
        "W3: cancel a random one, arm another",
        "million steps a second",
    ),
    Shown::more("w4", "W4: cancel all in random order", MOPS),
    Shown::less("w5", "W5: lateness, p99", "late_ms_p99", "ms"),
    Shown::more(
        "w5b",
        "W5b: all due at one instant",
        "million tasks a second",
    ),
    Shown::less("w6", "W6: memory of a timer", "bytes_per_timer", "bytes"),
    Shown::less("w7", "W7: idle", "wakeups_per_s", "wake-ups a second"),
    Shown::more("w8", "W8: re-arm", MOPS),
    Shown::less(
        "w8",
        "W8: re-arm, cost",
        "cpu_s_per_mop",
        "CPU seconds for a million",
    ),
    Shown::less(
        "w9",
        "W9: firing at random instants, each second",
        "cpu_us_per_fire",
        "us of CPU for a timer",
    ),
    Shown::less(
        "w9-periodic",
        "W9: a period of a second",
        "cpu_us_per_fire",
        "us of CPU for a run",
    ),
    Shown::less(
        "w9-instant",
        "W9: a period of a second, all at one instant",
        "cpu_us_per_fire",
        "us of CPU for a run",
    ),
    Shown::less(
        "w10",
        "W10: time-outs answered after 50 ms, each second",
        CPU,
        CPU_UNIT,
    ),
    Shown::less(
        "w10-fast",
        "W10: answered after 5 ms, each second",
        CPU,
        CPU_UNIT,
    ),
    Shown::less(
        "w10-slow",
        "W10: answered after 500 ms, each second",
        CPU,
        CPU_UNIT,
    ),
    Shown::more("w11", "W11: in flight, cancelled N inserts later", PAIRS),
    Shown::more(
        "w11-other",
        "W11: in flight, cancelled by another thread",
        PAIRS,
    ),
    Shown::more(
        "w11-random",
        "W11: in flight, a random one cancelled",
        PAIRS,
    ),
    Shown::less(
        "floor",
        "Durable: the engine's own commit of one row, p50",
        "call_us_p50",
        "us",
    ),
    Shown::durable("arm", "Durable: arm"),
    Shown::less("arm", "Durable: arm, p50", "call_us_p50", "us"),
    Shown::less("arm", "Durable: arm, p99", "call_us_p99", "us"),
    Shown::less("arm", "Durable: arm, written", "written_bytes", WRITTEN),
    Shown::durable("pipelined", "Durable: arm, pipelined"),
    Shown::durable(
        "arm-cancel",
        "Durable: arm, 90 % cancelled 20,000 arms later",
    ),
    Shown::less(
        "arm-cancel",
        "Durable: arm and cancel, written",
        "written_bytes",
        WRITTEN,
    ),
    Shown::durable("fire-ack", "Durable: fire and acknowledge"),
    Shown::less("lateness", "Durable: lateness, p50", "late_ms_p50", "ms"),
    Shown::less("lateness", "Durable: lateness, p99", "late_ms_p99", "ms"),
    Shown::less(
        "sweep",
        "Durable: longest call while sweeping, loading, firing",
        "with_ms_max",
        "ms",
    ),
    Shown::less(
        "stored",
        "Durable: reopened, until the first overdue timer fires",
        "reopen_ms",
        "ms",
    ),
    Shown::less(
        "stored",
        "Durable: killed and reopened, until the first overdue timer fires",
        "killed_ms",
        "ms",
    ),
    Shown::less("stored", "Durable: memory after opening", "rss_mb", "MB"),
    Shown::less("stored", "Durable: memory in use", "used_rss_mb", "MB"),
];

/// What the number of a durable workload counts.
const COUNTED: [(&str, &str); 8] = [
    ("floor", "caller"),
    ("arm", "callers"),
    ("pipelined", "timers under way"),
    ("arm-cancel", "callers"),
    ("fire-ack", "timers"),
    ("lateness", "timers a second"),
    ("sweep", "timers"),
    ("stored", "timers"),
];

/// Whose cost is drawn by the number of timers: two of timers, all of wheels.
const GROWTH: [(&str, &str); 7] = [
    ("w1", "W1"),
    ("w3", "W3"),
    ("insert", "The wheel alone, insert, used before"),
    ("insert-cold", "The wheel alone, insert, new"),
    ("cancel", "The wheel alone, cancel in random order"),
    ("fire", "The wheel alone, fire"),
    (
        "churn",
        "The wheel alone, cancel a random one and insert another",
    ),
];

const QUANTILES: [(&str, &str); 4] = [
    ("late_ms_p50", "p50"),
    ("late_ms_p99", "p99"),
    ("late_ms_p999", "p99.9"),
    ("late_ms_max", "max"),
];

/// A chart, and what stands above it.
pub(crate) struct Chart {
    /// Several charts have one section.
    pub(crate) section: String,
    pub(crate) title: String,
    pub(crate) svg: String,
    /// What some subjects did otherwise, by name.
    pub(crate) remarks: Vec<(String, String)>,
}

impl Chart {
    /// Its title as a file's name.
    pub(crate) fn file(&self) -> String {
        slug(&self.title) + ".svg"
    }
}

/// Words with lines between them.
pub(crate) fn slug(text: &str) -> String {
    let text = text.replace(',', "").to_lowercase();
    let words = text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// All charts that can be drawn of what was measured.
pub(crate) fn charts(rows: &[Row]) -> Vec<Chart> {
    let bars = SHOWN.iter().flat_map(|shown| bar_charts(rows, shown));
    let growth = GROWTH
        .iter()
        .filter_map(|(workload, title)| growth_chart(rows, workload, title));
    let lateness = groups(rows, "w5")
        .into_iter()
        .filter_map(|group| lateness_chart(rows, group));
    bars.chain(growth).chain(lateness).collect()
}

/// The charts of a figure, one for each size and number of producers. All have the same kind of
/// scale.
fn bar_charts(rows: &[Row], shown: &Shown) -> Vec<Chart> {
    type Bars<'a> = Vec<(&'a str, Figure)>;
    let of_group = |(timers, threads): (u64, u64)| {
        let of = rows
            .iter()
            .filter(move |row| is_of(row, shown.workload, (timers, threads)));
        let mut bars: Bars = of
            .filter_map(|row| Some((row.subject.as_str(), *row.figures.get(shown.figure)?)))
            .collect();
        bars.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
        if shown.more_is_better {
            bars.reverse();
        }
        ((timers, threads), bars)
    };
    let groups: Vec<((u64, u64), Bars)> = groups(rows, shown.workload)
        .into_iter()
        .map(of_group)
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let is_log = groups.iter().any(|(_, bars)| hide_each_other(bars));
    let better = if shown.more_is_better { "more" } else { "less" };
    let unit = format!("{}: {better} is better", shown.unit);
    let chart = |(group, all): ((u64, u64), Bars)| {
        let title = format!("{}: {}", shown.title, size(shown.workload, group));
        let remarks = rows
            .iter()
            .filter(|row| is_of(row, shown.workload, group))
            .filter_map(|row| Some((row.subject.clone(), row.remark.clone()?)));
        Chart {
            section: shown.title.to_string(),
            svg: bars(&title, &unit, &all, is_log),
            title,
            remarks: remarks.collect(),
        }
    };
    groups.into_iter().map(chart).collect()
}

fn size(workload: &str, (timers, threads): (u64, u64)) -> String {
    let mut counted = COUNTED.iter();
    if let Some((_, what)) = counted.find(|(of, _)| *of == workload) {
        return format!("{} {what}", commas(&timers.to_string()));
    }
    let producers = if threads == 1 {
        "producer"
    } else {
        "producers"
    };
    let timers = commas(&timers.to_string());
    format!("{timers} timers, {threads} {producers}")
}

fn is_of(row: &Row, workload: &str, group: (u64, u64)) -> bool {
    row.workload == workload && (row.timers, row.threads) == group
}

/// The sizes and threads that a workload was measured with.
fn groups(rows: &[Row], workload: &str) -> Vec<(u64, u64)> {
    let mut groups: Vec<_> = rows
        .iter()
        .filter(|row| row.workload == workload)
        .map(|row| (row.timers, row.threads))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A workload's cost on one thread at each size, if there are two or more.
fn growth_chart(rows: &[Row], workload: &str, title: &str) -> Option<Chart> {
    let sizes: Vec<u64> = groups(rows, workload)
        .into_iter()
        .filter(|group| group.1 == 1)
        .map(|group| group.0)
        .collect();
    let &[least, .., most] = sizes.as_slice() else {
        return None;
    };
    let from_least = |size: u64| (size as f64 / least as f64).log10();
    let place = |size: u64| from_least(size) / from_least(most);
    let mut all: Vec<Curve> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.workload == workload && row.threads == 1)
    {
        let Some(ns) = row.figures.get("ns_per_op") else {
            continue;
        };
        let point = (place(row.timers), ns.median);
        match all.iter_mut().find(|curve| curve.name == row.subject) {
            Some(curve) => curve.points.push(point),
            None => all.push(Curve {
                name: row.subject.clone(),
                points: vec![point],
            }),
        }
    }
    all.iter_mut()
        .for_each(|curve| curve.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    let places: Vec<_> = sizes
        .iter()
        .map(|&size| (place(size), commas(&size.to_string())))
        .collect();
    let section = format!("{title}: cost by the number of timers");
    let title = format!("{section}, one thread");
    let unit = "ns for an operation: less is better";
    Some(Chart {
        svg: curves(&title, unit, &places, &all)?,
        section,
        title,
        remarks: Vec::new(),
    })
}

fn lateness_chart(rows: &[Row], group: (u64, u64)) -> Option<Chart> {
    let places = || (0..).map(|number| f64::from(number) / (QUANTILES.len() - 1) as f64);
    let curve = |row: &Row| {
        let points = places()
            .zip(QUANTILES)
            .filter_map(|(place, (figure, _))| Some((place, row.figures.get(figure)?.median)));
        Curve {
            name: row.subject.clone(),
            points: points.collect(),
        }
    };
    let all: Vec<Curve> = rows
        .iter()
        .filter(|row| is_of(row, "w5", group))
        .map(curve)
        .collect();
    let names = QUANTILES.iter().map(|(_, name)| name.to_string());
    let section = "W5: lateness, quantiles".to_string();
    let title = format!("{section}: {}", size("w5", group));
    let unit = "ms: less is better";
    Some(Chart {
        svg: curves(&title, unit, &places().zip(names).collect::<Vec<_>>(), &all)?,
        section,
        title,
        remarks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    fn line(subject: &str, workload: &str, timers: u64, figures: &[(&str, f64)]) -> String {
        let figures: String = figures
            .iter()
            .map(|(name, figure)| {
                format!(r#","{name}":{figure},"{name}_min":{figure},"{name}_max":{figure}"#)
            })
            .collect();
        format!(
            r#"{{"subject":"{subject}","workload":"{workload}","threads":1,"n":{timers},"reps":1,"remark":"as {subject}"{figures}}}"#
        )
    }

    fn charts_of(lines: &[String]) -> Vec<Chart> {
        charts(&row::read(&lines.join("\n")).expect("they are right").rows)
    }

    #[test]
    fn each_group_has_a_chart() {
        let late = [
            ("late_ms_p50", 0.1),
            ("late_ms_p99", 1.0),
            ("late_ms_p999", 2.0),
            ("late_ms_max", 3.0),
        ];
        let rate = |mops: f64| [("mops", mops), ("ns_per_op", 1_000.0 / mops)];
        let charts = charts_of(&[
            line("heap", "w3", 10_000, &rate(2.0)),
            line("wheelwork", "w3", 10_000, &rate(5.0)),
            line("wheelwork", "w3", 20_000, &rate(4.0)),
            line("heap", "w5", 20_000, &late),
        ]);
        let titles: Vec<_> = charts.iter().map(|chart| chart.title.as_str()).collect();
        let expected = [
            "W3: cancel a random one, arm another: 10,000 timers, 1 producer",
            "W3: cancel a random one, arm another: 20,000 timers, 1 producer",
            "W5: lateness, p99: 20,000 timers, 1 producer",
            "W3: cost by the number of timers, one thread",
            "W5: lateness, quantiles: 20,000 timers, 1 producer",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            charts[0].file(),
            "w3-cancel-a-random-one-arm-another-10000-timers-1-producer.svg"
        );
        assert_eq!(charts[0].section, charts[1].section);
        assert_eq!(
            charts[1].remarks,
            [("wheelwork".to_string(), "as wheelwork".to_string())]
        );
        assert!(
            charts[0].svg.contains("more is better"),
            "{}",
            charts[0].svg
        );
        assert!(
            charts[2].svg.contains("less is better"),
            "{}",
            charts[2].svg
        );
        let is_first = |name: &str, other: &str| {
            let place = |name: &str| charts[0].svg.find(&format!(">{name}<"));
            place(name).expect("it is drawn") < place(other).expect("it is drawn")
        };
        assert!(is_first("wheelwork", "heap"), "the best is first");
    }

    #[test]
    fn durable_workloads_say_what_they_count() {
        let figures = [("kops", 5.0), ("call_us_p50", 2.0)];
        let charts = charts_of(&[
            line("redb", "arm", 1_024, &figures),
            line("redb", "lateness", 50_000, &[("late_ms_p99", 1.0)]),
        ]);
        let titles: Vec<_> = charts.iter().map(|chart| chart.title.as_str()).collect();
        let expected = [
            "Durable: arm: 1,024 callers",
            "Durable: arm, p50: 1,024 callers",
            "Durable: lateness, p99: 50,000 timers a second",
        ];
        assert_eq!(titles, expected);
    }

    #[test]
    fn a_figure_has_one_kind_of_scale() {
        let mops = |figure| [("mops", figure)];
        let charts = charts_of(&[
            line("heap", "w4", 1_000, &mops(2.0)),
            line("btree", "w4", 1_000, &mops(1.0)),
            line("heap", "w4", 2_000, &mops(200.0)),
            line("btree", "w4", 2_000, &mops(1.0)),
        ]);
        assert_eq!(charts.len(), 2);
        assert!(charts.iter().all(|chart| chart.svg.contains("logarithmic")));
    }
}
