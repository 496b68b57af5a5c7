//! The distance to the goals: what wheelwork should reach on the machine where the goals were set, and against the best rival of the same run on any.

use crate::line::Line;
use crate::table::{best_rival, ratio};
use crate::workload::Workload;
use serde_json::{Value, json};
use std::fmt::Write;

/// The goals are for so many timers.
const TIMERS: usize = 1_000_000;

/// "Two producers" of the goals.
const TWO: usize = 2;

/// A figure that wheelwork should reach, on a quiet 2-core virtual machine.
struct Goal {
    workload: &'static str,
    subject: &'static str,
    threads: usize,
    figure: &'static str,
    limit: f64,
}

const fn goal(workload: &'static str, subject: &'static str, threads: usize, figure: &'static str, limit: f64) -> Goal {
    Goal { workload, subject, threads, figure, limit }
}

const OURS: &str = "wheelwork";
const BATCH: &str = "wheelwork-batch";
const FINE: &str = "wheelwork-fine";
const SPIN: &str = "wheelwork-spin";
const INLINE: &str = "wheelwork-inline";
const CORES: &str = "wheelwork-cores";

/// ns of an operation on one thread, millions of operations a second on two, CPU seconds for a million on two; then the rest.
const GOALS: &[Goal] = &[
    goal("w1", OURS, 1, "ns_per_op", 25.0),
    goal("w1", OURS, TWO, "mops", 60.0),
    goal("w1", OURS, TWO, "cpu_s_per_mop", 0.035),
    goal("w2", OURS, 1, "ns_per_op", 30.0),
    goal("w2", OURS, TWO, "mops", 60.0),
    goal("w2", OURS, TWO, "cpu_s_per_mop", 0.033),
    goal("w2b", OURS, 1, "ns_per_op", 30.0),
    goal("w2b", OURS, TWO, "mops", 50.0),
    goal("w2b", OURS, TWO, "cpu_s_per_mop", 0.040),
    goal("w3", OURS, 1, "ns_per_op", 240.0),
    goal("w3", OURS, TWO, "mops", 8.0),
    goal("w3", OURS, TWO, "cpu_s_per_mop", 0.24),
    goal("w4", OURS, 1, "ns_per_op", 30.0),
    goal("w4", OURS, TWO, "mops", 40.0),
    goal("w4", OURS, TWO, "cpu_s_per_mop", 0.050),
    goal("w8", OURS, 1, "ns_per_op", 240.0),
    goal("w8", OURS, TWO, "mops", 8.0),
    goal("w8", OURS, TWO, "cpu_s_per_mop", 0.24),
    goal("w1", BATCH, 1, "ns_per_op", 15.0),
    goal("w1", BATCH, TWO, "mops", 100.0),
    goal("w4", BATCH, 1, "ns_per_op", 20.0),
    goal("w4", BATCH, TWO, "mops", 60.0),
    goal("w8", BATCH, 1, "ns_per_op", 40.0),
    goal("w8", BATCH, TWO, "mops", 40.0),
    goal("w5", OURS, 1, "late_ms_p50", 0.6),
    goal("w5", OURS, 1, "late_ms_p99", 1.2),
    goal("w5", OURS, 1, "late_ms_p999", 2.0),
    goal("w5", OURS, 1, "late_ms_max", 3.0),
    goal("w5", OURS, 1, "cpu_s", 0.25),
    goal("w5", FINE, 1, "late_ms_p50", 0.05),
    goal("w5", FINE, 1, "late_ms_p99", 0.13),
    goal("w5", FINE, 1, "late_ms_p999", 0.25),
    goal("w5", FINE, 1, "late_ms_max", 0.5),
    goal("w5", FINE, 1, "cpu_s", 0.8),
    goal("w5b", OURS, 1, "first_ms", 0.6),
    goal("w5b", OURS, 1, "last_ms", 12.0),
    goal("w6", OURS, 1, "bytes_per_timer", 40.0),
];

const FUTURE: &str = "wheelwork-future";
const TOKIO_FUTURE: &str = "tokio-future";

/// CPU of a timer that fires, on a pool: so many times as much as on the shard's thread.
const OVER_INLINE: f64 = 1.5;

/// From so many fires a second on it is below that of tokio's timers.
const BELOW_TOKIO_FROM: usize = 10_000;

/// p99 of the lateness at a tick of 1 ms, up to so many fires a second.
const LATE_MS_P99: f64 = 1.2;
const LATE_UP_TO: usize = 1_000;

/// Per cent of a core that time-outs take which are answered, up to so many requests a second.
const SERVER_PERCENT: f64 = 0.3;
const SERVER_UP_TO: usize = 10_000;

/// Growth of W3: ns of a step on one thread.
const GROWTH: [(usize, f64); 4] = [(10_000, 60.0), (100_000, 110.0), (TIMERS, 240.0), (10_000_000, 360.0)];

/// A claim, what was measured of it, and what it takes.
pub(crate) struct Claim {
    what: String,
    measured: Option<f64>,
    limit: f64,
    at_least: bool,
}

impl Claim {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "goal": self.what, "verdict": self.verdict() })
    }

    fn verdict(&self) -> String {
        let Self { measured, limit, at_least, .. } = *self;
        let Some(measured) = measured else { return "not measured".to_string() };
        if if at_least { measured >= limit } else { measured <= limit } {
            return format!("holds: {}", number(measured));
        }
        let by = ratio(measured, limit, !at_least);
        let by = match by {
            by if !by.is_finite() || by < 0.0 => String::new(),
            by if by < 1.005 => ", by less than 0.01 x".to_string(),
            by => format!(", by {by:.2} x"),
        };
        format!("does not hold: {}{by}", number(measured))
    }
}

/// Three digits or more.
fn number(number: f64) -> String {
    let digits = if number.abs() >= 100.0 || number == 0.0 {
        0
    } else if number.abs() >= 1.0 {
        2
    } else {
        3
    };
    format!("{number:.digits$}")
}

/// All lines, looked at.
struct Lines<'a>(&'a [Line]);

impl<'a> Lines<'a> {
    /// Those of a workload on so many threads, with the size that the goals are for; or the largest, if it was not measured.
    fn of(&self, workload: &'a str, threads: usize) -> impl Iterator<Item = &'a Line> + Clone {
        let fits = move |line: &&Line| line.workload == workload && line.threads == threads;
        let sizes = self.0.iter().filter(fits).map(|line| line.timers);
        let size = if sizes.clone().any(|size| size == TIMERS) { TIMERS } else { sizes.max().unwrap_or(0) };
        self.0.iter().filter(fits).filter(move |line| line.timers == size)
    }

    fn median(&self, workload: &'a str, subject: &str, threads: usize, figure: &str) -> Option<f64> {
        self.of(workload, threads).find(|line| line.subject == subject)?.median(figure)
    }

    /// Those of a workload at a rate.
    fn at_rate(&self, workload: &'a str, rate: usize, threads: usize) -> impl Iterator<Item = &'a Line> {
        self.0.iter().filter(move |line| line.workload == workload && line.timers == rate && line.threads == threads)
    }

    fn figure_at_rate(&self, workload: &'a str, rate: usize, threads: usize, subject: &str, figure: &str) -> Option<f64> {
        self.at_rate(workload, rate, threads).find(|line| line.subject == subject)?.median(figure)
    }

    fn ns_at(&self, timers: usize) -> Option<f64> {
        let mut lines = self.0.iter().filter(|line| line.workload == "w3" && line.threads == 1 && line.timers == timers);
        lines.find(|line| line.subject == OURS)?.median("ns_per_op")
    }

    /// How many times better than the best rival one of ours is.
    fn lead(&self, ours: &str, workload: &'a str, threads: usize, figure: &str, higher_is_better: bool) -> Option<(f64, &'a str)> {
        let ours = self.median(workload, ours, threads, figure)?;
        let (rival, best) = best_rival(self.of(workload, threads), figure, higher_is_better)?;
        Some((ratio(ours, best, higher_is_better), rival))
    }
}

/// All that should hold, looked at by what was measured.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let lines = Lines(lines);
    let all = goals(&lines).into_iter().chain(against_rivals(&lines)).chain(within_ourselves(&lines));
    all.chain(fires_at_rates(&lines)).chain(servers_at_rates(&lines)).collect()
}

/// The block at the end of the output.
pub(crate) fn distance(claims: &[Claim]) -> String {
    let mut text =
        String::from("\ndistance to goals (set on a quiet 2-core virtual machine, for 1,000,000 timers, or at the rates they name)\n");
    claims.iter().for_each(|claim| _ = writeln!(text, "  {:<66} {}", claim.what, claim.verdict()));
    text
}

fn goals(lines: &Lines<'_>) -> Vec<Claim> {
    let of = |goal: &Goal| {
        let Goal { workload, subject, threads, figure, limit } = *goal;
        let at_least = figure == "mops";
        let sign = if at_least { ">=" } else { "<=" };
        let what = format!("{workload} {subject} T={threads} {figure} {sign} {limit}");
        Claim { what, measured: lines.median(workload, subject, threads, figure), limit, at_least }
    };
    let growth = GROWTH.iter().map(|&(timers, limit)| Claim {
        what: format!("w3 {OURS} T=1 ns_per_op at {timers} timers <= {limit}"),
        measured: lines.ns_at(timers),
        limit,
        at_least: false,
    });
    GOALS.iter().map(of).chain(growth).collect()
}

/// What must hold against the best rival of the same run.
fn against_rivals(lines: &Lines<'_>) -> Vec<Claim> {
    let times = |ours, workload, limit, threads, figure, higher_is_better| {
        let lead = lines.lead(ours, workload, threads, figure, higher_is_better);
        let rival = lead.map_or(String::new(), |(_, rival)| format!(" ({rival})"));
        let ours = if ours == OURS { String::new() } else { format!(" {ours}") };
        let what = format!("{workload}{ours} T={threads} {figure}: {limit} x the best rival{rival}");
        Claim { what, measured: lead.map(|(times, _)| times), limit, at_least: true }
    };
    let rate = |workload, limit, threads| times(OURS, workload, limit, threads, "mops", true);
    let mut claims: Vec<Claim> = ["w2", "w2b", "w3", "w5b"].map(|workload| rate(workload, 3.0, TWO)).into();
    claims.push(times(CORES, "w5b", 3.0, TWO, "mops", true));
    claims.push(rate("w8", 2.0, TWO));
    claims.extend(["w1", "w4"].into_iter().flat_map(|workload| [1, TWO].map(|threads| rate(workload, 1.0, threads))));
    for (ours, threads) in
        [(OURS, 1), (OURS, TWO), (INLINE, 1), (INLINE, TWO), (CORES, TWO), (FINE, 1), (FINE, TWO), (SPIN, 1), (SPIN, TWO)]
    {
        claims.extend(["late_ms_p99", "late_ms_p999", "late_ms_max", "cpu_s"].map(|figure| times(ours, "w5", 1.0, threads, figure, false)));
    }
    claims.push(times(OURS, "w6", 1.0, 1, "bytes_per_timer", false));
    claims
}

/// What must hold of wheelwork, whatever the machine.
fn within_ourselves(lines: &Lines<'_>) -> Vec<Claim> {
    let over = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one / other);
    let rate = |subject| lines.median("w8", subject, 1, "mops");
    let mut claims = vec![
        Claim { what: "w8 T=1: batch 3 x single".to_string(), measured: over(rate(BATCH), rate(OURS)), limit: 3.0, at_least: true },
        Claim { what: "w7: no wake-ups".to_string(), measured: lines.median("w7", OURS, 1, "wakeups"), limit: 0.0, at_least: false },
    ];
    claims.extend(["w1", "w2", "w2b", "w4"].map(|workload| {
        let cpu = |threads| lines.median(workload, OURS, threads, "cpu_s_per_mop");
        let what = format!("{workload}: CPU of an operation with two producers <= 1.15 x one");
        Claim { what, measured: over(cpu(TWO), cpu(1)), limit: 1.15, at_least: false }
    }));
    claims.push(Claim {
        what: "w3 T=1: 10 M timers <= 1.5 x 1 M".to_string(),
        measured: over(lines.ns_at(10_000_000), lines.ns_at(TIMERS)),
        limit: 1.5,
        at_least: false,
    });
    claims
}

/// W9: what a timer costs that fires, and how late it is.
fn fires_at_rates(lines: &Lines<'_>) -> Vec<Claim> {
    const CPU: &str = "cpu_us_per_fire";
    let mut claims = Vec::new();
    for (workload, name) in [(Workload::W9, "w9"), (Workload::W9Periodic, "w9-periodic")] {
        let of = |rate, subject: &str, figure| lines.figure_at_rate(name, rate, 1, subject, figure);
        for &rate in workload.rates().unwrap_or_default() {
            let mut below = |times: f64, other: &str| {
                let limit = of(rate, other, CPU).map(|cpu| times * cpu);
                let what = format!("{name} at {rate}: {CPU} <= {times} x {other}{}", in_brackets(limit));
                claims.push(Claim { what, measured: limit.and(of(rate, OURS, CPU)), limit: limit.unwrap_or(0.0), at_least: false });
            };
            below(OVER_INLINE, INLINE);
            if rate >= BELOW_TOKIO_FROM {
                below(1.0, TOKIO_FUTURE);
            }
            if rate <= LATE_UP_TO {
                let what = format!("{name} at {rate}: late_ms_p99 <= {LATE_MS_P99}");
                claims.push(Claim { what, measured: of(rate, OURS, "late_ms_p99"), limit: LATE_MS_P99, at_least: false });
            }
        }
    }
    claims
}

/// W10: what time-outs cost that are answered.
fn servers_at_rates(lines: &Lines<'_>) -> Vec<Claim> {
    const CPU: &str = "cpu_percent";
    const OF_FIRES: &str = "fires_cpu_percent";
    let mut claims = Vec::new();
    for (workload, name) in [(Workload::W10, "w10"), (Workload::W10Fast, "w10-fast"), (Workload::W10Slow, "w10-slow")] {
        for (&rate, threads) in workload.rates().unwrap_or_default().iter().flat_map(|rate| [1, TWO].map(|threads| (rate, threads))) {
            let of = |subject: &str, figure| lines.figure_at_rate(name, rate, threads, subject, figure);
            let mut below = |ours: &str, figure, rival: Option<(&str, f64)>| {
                let by = rival.map_or(String::new(), |(rival, cpu)| format!(" {rival}{}", in_brackets(Some(cpu))));
                let ours_text = if ours == OURS { String::new() } else { format!(" {ours}") };
                let fires = if figure == OF_FIRES { ", 1 % fire" } else { "" };
                let what = format!("{name}{ours_text} T={threads} at {rate}{fires}: CPU % <={by}");
                let limit = rival.map_or(0.0, |(_, cpu)| cpu);
                claims.push(Claim { what, measured: rival.and(of(ours, figure)), limit, at_least: false });
            };
            for figure in [CPU, OF_FIRES] {
                below(OURS, figure, best_rival(lines.at_rate(name, rate, threads), figure, false));
            }
            below(FUTURE, CPU, of(TOKIO_FUTURE, CPU).map(|cpu| (TOKIO_FUTURE, cpu)));
            if rate <= SERVER_UP_TO {
                let what = format!("{name} T={threads} at {rate}: CPU % <= {SERVER_PERCENT}");
                claims.push(Claim { what, measured: of(OURS, CPU), limit: SERVER_PERCENT, at_least: false });
            }
        }
    }
    claims
}

fn in_brackets(limit: Option<f64>) -> String {
    limit.map_or(String::new(), |limit| format!(" ({})", number(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Figures;

    fn line(workload: &str, subject: &str, threads: usize, timers: usize, figures: Figures) -> Line {
        let mut line = Line { subject: subject.to_string(), workload: workload.to_string(), threads, timers, ..Line::default() };
        line.summarize(&[figures]);
        line
    }

    fn verdict_of(text: &str, what: &str) -> String {
        let line = text.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in {text}"));
        line[68..].trim().to_string()
    }

    #[test]
    fn nothing_measured_is_said() {
        let text = distance(&claims(&[]));
        assert!(text.lines().skip(2).all(|line| line.ends_with("not measured")), "{text}");
    }

    #[test]
    fn claims_hold_or_do_not() {
        let mops = |mops| Figures::from([("mops", mops)]);
        let lines = [
            line("w2", OURS, TWO, TIMERS, mops(40.0)),
            line("w2b", OURS, TWO, TIMERS, mops(49.99)),
            line("w2", "pingora", TWO, TIMERS, mops(16.0)),
            line("w2", "tokio", TWO, TIMERS, mops(2.0)),
            line("w2", "tokio", TWO, 10 * TIMERS, mops(99.0)),
            line("w7", OURS, 1, TIMERS, Figures::from([("wakeups", 0.0)])),
        ];
        let text = distance(&claims(&lines));
        assert_eq!(verdict_of(&text, "w2 T=2 mops: 3 x the best rival (pingora)"), "does not hold: 2.50, by 1.20 x");
        assert_eq!(verdict_of(&text, "w2 wheelwork T=2 mops >= 60"), "does not hold: 40.00, by 1.50 x");
        assert_eq!(verdict_of(&text, "w2b wheelwork T=2 mops >= 50"), "does not hold: 49.99, by less than 0.01 x");
        assert_eq!(verdict_of(&text, "w7: no wake-ups"), "holds: 0");
    }

    #[test]
    fn who_keeps_the_memory_is_no_rival_in_w4() {
        let lines = [
            line("w4", OURS, 1, TIMERS, Figures::from([("mops", 20.0), ("back_ms", 300.0)])),
            line("w4", "heap", 1, TIMERS, Figures::from([("mops", 80.0)])),
            line("w4", "btree", 1, TIMERS, Figures::from([("mops", 5.0), ("back_ms", 1.0)])),
        ];
        assert_eq!(verdict_of(&distance(&claims(&lines)), "w4 T=1 mops: 1 x the best rival (btree)"), "holds: 4.00");
    }

    #[test]
    fn each_rate_is_judged() {
        let fires = |subject, rate, cpu| line("w9", subject, 1, rate, Figures::from([("cpu_us_per_fire", cpu), ("late_ms_p99", 1.5)]));
        let lines = [
            fires(OURS, 1_000, 30.0),
            fires(INLINE, 1_000, 10.0),
            fires(OURS, 10_000, 3.0),
            fires(INLINE, 10_000, 2.5),
            fires(TOKIO_FUTURE, 10_000, 3.5),
        ];
        let text = distance(&claims(&lines));
        assert_eq!(verdict_of(&text, "w9 at 1000: cpu_us_per_fire <= 1.5 x wheelwork-inline (15.00)"), "does not hold: 30.00, by 2.00 x");
        assert_eq!(verdict_of(&text, "w9 at 10000: cpu_us_per_fire <= 1.5 x wheelwork-inline (3.75)"), "holds: 3.00");
        assert_eq!(verdict_of(&text, "w9 at 10000: cpu_us_per_fire <= 1 x tokio-future (3.50)"), "holds: 3.00");
        assert_eq!(verdict_of(&text, "w9 at 1000: late_ms_p99 <= 1.2"), "does not hold: 1.50, by 1.25 x");
        assert_eq!(verdict_of(&text, "w9 at 100: late_ms_p99"), "not measured");
    }

    #[test]
    fn servers_are_held_against_the_best_rival_of_their_rate() {
        let cpu = |subject, rate, threads, cpu| line("w10", subject, threads, rate, Figures::from([("cpu_percent", cpu)]));
        let lines = [
            cpu(OURS, 1_000, 1, 0.45),
            cpu("tokio", 1_000, 1, 0.15),
            cpu("btree", 1_000, 1, 0.2),
            cpu("btree", 100_000, 1, 0.1),
            cpu(OURS, 1_000, TWO, 0.2),
            cpu("heap", 1_000, TWO, -0.01),
            cpu(FUTURE, 100_000, TWO, 1.0),
            cpu(TOKIO_FUTURE, 100_000, TWO, 2.0),
        ];
        let mut lines = lines;
        lines[0].summarize(&[Figures::from([("cpu_percent", 0.45), ("fires_cpu_percent", 0.9)])]);
        lines[2].summarize(&[Figures::from([("cpu_percent", 0.2), ("fires_cpu_percent", 0.3)])]);
        let text = distance(&claims(&lines));
        assert_eq!(verdict_of(&text, "w10 T=1 at 1000, 1 % fire: CPU % <= btree (0.300)"), "does not hold: 0.900, by 3.00 x");
        assert_eq!(verdict_of(&text, "w10 T=1 at 1000: CPU % <= tokio (0.150)"), "does not hold: 0.450, by 3.00 x");
        assert_eq!(verdict_of(&text, "w10 T=1 at 1000: CPU % <= 0.3"), "does not hold: 0.450, by 1.50 x");
        assert_eq!(verdict_of(&text, "w10 T=2 at 1000: CPU % <= heap (-0.010)"), "does not hold: 0.200");
        assert_eq!(verdict_of(&text, "w10 T=2 at 1000: CPU % <= 0.3"), "holds: 0.200");
        assert_eq!(verdict_of(&text, "w10 wheelwork-future T=2 at 100000: CPU % <= tokio-future (2.00)"), "holds: 1.00");
        assert_eq!(verdict_of(&text, "w10-slow T=1 at 10000: CPU % <= 0.3"), "not measured");
    }

    #[test]
    fn growth_is_judged_at_its_sizes() {
        let ns = |timers, ns| line("w3", OURS, 1, timers, Figures::from([("ns_per_op", ns)]));
        let text = distance(&claims(&[ns(TIMERS, 200.0), ns(10_000_000, 400.0)]));
        assert_eq!(verdict_of(&text, "10 M timers <= 1.5 x 1 M"), "does not hold: 2.00, by 1.33 x");
        assert_eq!(verdict_of(&text, "ns_per_op at 1000000 timers"), "holds: 200");
    }
}
