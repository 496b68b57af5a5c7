//! The page: which charts there are, and what is in them.

use crate::chart::{Curve, Places, bars, curves};
use crate::row::{Figure, Figures, Row};
use std::fmt::Write;

/// A workload's title, and the figure its bars show.
const WORKLOADS: [(&str, &str, &str, &str); 17] = [
    ("w1", "W1: arm, warm memory", "mops", "M op/s"),
    ("w1-cold", "W1: arm, cold memory", "mops", "M op/s"),
    ("w2", "W2: arm, cancel at once", "mops", "M op/s"),
    ("w2b", "W2b: arm, cancel 1,000 inserts later", "mops", "M op/s"),
    ("w3", "W3: cancel a random one, arm another", "mops", "M op/s"),
    ("w4", "W4: cancel all in random order", "mops", "M op/s"),
    ("w5", "W5: lateness, p99", "late_ms_p99", "ms, less is better"),
    ("w5b", "W5b: all due at one instant", "mops", "M tasks/s"),
    ("w6", "W6: memory of a timer", "bytes_per_timer", "bytes, less is better"),
    ("w7", "W7: idle", "wakeups_per_s", "wake-ups a second, less is better"),
    ("w8", "W8: re-arm", "mops", "M op/s"),
    ("w8", "W8: re-arm, cost", "cpu_s_per_mop", "CPU seconds a million, less is better"),
    ("w9", "W9: firing at random instants, each second", "cpu_us_per_fire", "us of CPU a timer, less is better"),
    ("w9-periodic", "W9: a period of a second", "cpu_us_per_fire", "us of CPU a run, less is better"),
    ("w10", "W10: time-outs answered after 50 ms, each second", "cpu_percent", "% of a core, less is better"),
    ("w10-fast", "W10: answered after 5 ms, each second", "cpu_percent", "% of a core, less is better"),
    ("w10-slow", "W10: answered after 500 ms, each second", "cpu_percent", "% of a core, less is better"),
];

/// Whose cost is drawn by the number of timers: two of rivals, all of wheels.
const GROWTH: [(&str, &str); 7] = [
    ("w1", "W1"),
    ("w3", "W3"),
    ("insert", "The wheel alone, insert, used before"),
    ("insert-cold", "The wheel alone, insert, new"),
    ("cancel", "The wheel alone, cancel in random order"),
    ("fire", "The wheel alone, fire"),
    ("churn", "The wheel alone, cancel a random one and insert another"),
];

const QUANTILES: [(&str, &str); 4] = [("late_ms_p50", "p50"), ("late_ms_p99", "p99"), ("late_ms_p999", "p99.9"), ("late_ms_max", "max")];

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>wheelwork and its rivals</title>\n\
<style>body{font:15px sans-serif;max-width:880px;margin:2em auto;color:#222}svg{max-width:100%;height:auto}h2{margin:1.6em 0 .2em;font-size:1.1em}</style>\n\
<h1>wheelwork and its rivals</h1>\n<p>Bars are medians, the lines in them go from the least to the most. Green is wheelwork.</p>\n";

/// A chart, and what stands above it.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) svg: String,
}

impl Chart {
    /// Its title as a file's name.
    pub(crate) fn file(&self) -> String {
        let words = self.title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase() + ".svg"
    }
}

/// The page: the machine, the charts, the goals.
pub(crate) fn page(figures: &Figures, charts: &[Chart]) -> String {
    let mut page = HEAD.to_string();
    let _ = writeln!(page, "<p>{}</p>", escape(&figures.machine).replace('\n', "<br>"));
    charts.iter().for_each(|Chart { title, svg }| _ = writeln!(page, "<h2>{title}</h2>\n{svg}"));
    if !figures.goals.is_empty() {
        page += "<h2>Distance to the goals</h2>\n<table>\n";
        for (goal, verdict) in &figures.goals {
            let _ = writeln!(page, "<tr><td>{}<td>{}", escape(goal), escape(verdict));
        }
        page += "</table>\n";
    }
    page + "</html>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// All charts that can be drawn of what was measured.
pub(crate) fn charts(rows: &[Row]) -> Result<Vec<Chart>, String> {
    let mut charts = Vec::new();
    let mut add = |title: String, chart: Result<String, Box<dyn std::error::Error>>| {
        let svg = chart.map_err(|error| format!("{title}: {error}"))?;
        charts.push(Chart { title, svg });
        Ok::<(), String>(())
    };
    for (workload, title, figure, unit) in WORKLOADS {
        for (timers, threads) in groups(rows, workload) {
            let of = |row: &&Row| row.workload == workload && (row.timers, row.threads) == (timers, threads);
            let bar = |row: &'_ Row| row.figures.get(figure).copied();
            let all: Vec<(&str, Figure)> = rows.iter().filter(of).filter_map(|row| Some((row.subject.as_str(), bar(row)?))).collect();
            if !all.is_empty() {
                add(format!("{title}: {timers} timers, {}", producers(threads)), bars(unit, &all))?;
            }
        }
    }
    for (workload, title) in GROWTH {
        if let Some((sizes, all)) = growth(rows, workload) {
            add(format!("{title}: cost by the number of timers, one thread"), curves("ns/op", &sizes, &all))?;
        }
    }
    for (timers, threads) in groups(rows, "w5") {
        let all = lateness(rows, timers, threads);
        let places = Places::Named(QUANTILES.iter().map(|(_, name)| name.to_string()).collect());
        add(format!("W5: lateness, {timers} timers, {}", producers(threads)), curves("ms", &places, &all))?;
    }
    Ok(charts)
}

fn producers(threads: u64) -> String {
    if threads == 1 { "1 producer".to_string() } else { format!("{threads} producers") }
}

/// The sizes and threads that a workload was measured with.
fn groups(rows: &[Row], workload: &str) -> Vec<(u64, u64)> {
    let mut groups: Vec<_> = rows.iter().filter(|row| row.workload == workload).map(|row| (row.timers, row.threads)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A workload's cost on one thread at each size, if there are two or more.
fn growth(rows: &[Row], workload: &str) -> Option<(Places, Vec<Curve>)> {
    let sizes: Vec<u64> = groups(rows, workload).into_iter().filter(|group| group.1 == 1).map(|group| group.0).collect();
    let &[least, .., most] = sizes.as_slice() else { return None };
    let place = |size: u64| (size as f64).log10();
    let mut all: Vec<Curve> = Vec::new();
    for row in rows.iter().filter(|row| row.workload == workload && row.threads == 1) {
        let Some(ns) = row.figures.get("ns_per_op") else { continue };
        let point = (place(row.timers), ns.median);
        match all.iter_mut().find(|curve| curve.name == row.subject) {
            Some(curve) => curve.points.push(point),
            None => all.push(Curve { name: row.subject.clone(), points: vec![point] }),
        }
    }
    all.iter_mut().for_each(|curve| curve.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    Some((Places::Decades(place(least), place(most)), all))
}

fn lateness(rows: &[Row], timers: u64, threads: u64) -> Vec<Curve> {
    let of = |row: &&Row| row.workload == "w5" && (row.timers, row.threads) == (timers, threads);
    let curve = |row: &Row| {
        let points = QUANTILES.iter().enumerate().filter_map(|(place, (figure, _))| Some((place as f64, row.figures.get(*figure)?.median)));
        Curve { name: row.subject.clone(), points: points.collect() }
    };
    rows.iter().filter(of).map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    fn line(subject: &str, workload: &str, timers: u64, figures: &[(&str, f64)]) -> String {
        let figures: String =
            figures.iter().map(|(name, figure)| format!(r#","{name}":{figure},"{name}_min":{figure},"{name}_max":{figure}"#)).collect();
        format!(r#"{{"subject":"{subject}","workload":"{workload}","threads":1,"n":{timers},"reps":1{figures}}}"#)
    }

    #[test]
    fn a_page_has_a_chart_for_each_group() {
        let late = [("late_ms_p50", 0.1), ("late_ms_p99", 1.0), ("late_ms_p999", 2.0), ("late_ms_max", 3.0)];
        let lines = [
            line("wheelwork", "w3", 10_000, &[("mops", 5.0), ("ns_per_op", 200.0)]),
            line("wheelwork", "w3", 20_000, &[("mops", 4.0), ("ns_per_op", 250.0)]),
            line("heap", "w3", 20_000, &[("mops", 2.0), ("ns_per_op", 500.0)]),
            line("heap", "w5", 20_000, &late),
            r#"{"machine":"1 < 2 cores\nversions"}"#.to_string(),
            r#"{"goal":"w3 <= 9","verdict":"holds: 7"}"#.to_string(),
        ];
        let rows = row::read(&lines.join("\n")).expect("they are right");
        let charts = charts(&rows.rows).expect("it can be drawn");
        assert_eq!(charts[0].file(), "w3-cancel-a-random-one-arm-another-10000-timers-1-producer.svg");
        let page = page(&rows, &charts);
        // Bars for W3 at two sizes and for W5, growth of W3, the curve of W5.
        assert_eq!(page.matches("<svg").count(), 5, "{page}");
        assert!(page.contains("W3: cost by the number of timers") && page.contains("p99.9"), "{page}");
        assert!(page.contains("1 &lt; 2 cores<br>versions") && page.contains("<tr><td>w3 &lt;= 9<td>holds: 7"), "{page}");
    }
}
