//! The distance to the goals: what wheelwork should reach on the machine where the goals were set,
//! and against the best rival of the same run on any.

use crate::compare::{best_rival, fair};
use crate::workload::{IN_FLIGHT, WINDOWS, Workload};
use wheelwork_kit::goals::{self, Claim, OURS, at_least, at_most, median, number, verdicts};
use wheelwork_kit::line::Line;
use wheelwork_kit::program;

/// The number of timers that the goals are for.
const TIMERS: usize = 1_000_000;

/// "Two producers" of the goals.
const TWO: usize = 2;

const BATCH: &str = "wheelwork-batch";
const CLOSURE: &str = "wheelwork-closure";
const FINE: &str = "wheelwork-fine";
const SPIN: &str = "wheelwork-spin";
const INLINE: &str = "wheelwork-inline";
const CORES: &str = "wheelwork-cores";
const FUTURE: &str = "wheelwork-future";
const WHEEL: &str = "wheelwork-wheel";
const TOKIO_FUTURE: &str = "tokio-future";

/// Workload, subject, threads, figure, and what it should be on a quiet 2-core virtual machine: ns
/// of an operation on one thread, millions of operations a second on two, CPU seconds for a million
/// on two; then the rest.
const GOALS: &[(&str, &str, usize, &str, f64)] = &[
    ("w1", OURS, 1, "ns_per_op", 25.0),
    ("w1", OURS, TWO, "mops", 60.0),
    ("w1", OURS, TWO, "cpu_s_per_mop", 0.035),
    ("w2", OURS, 1, "ns_per_op", 30.0),
    ("w2", OURS, TWO, "mops", 60.0),
    ("w2", OURS, TWO, "cpu_s_per_mop", 0.033),
    ("w2b", OURS, 1, "ns_per_op", 30.0),
    ("w2b", OURS, TWO, "mops", 50.0),
    ("w2b", OURS, TWO, "cpu_s_per_mop", 0.040),
    ("w3", OURS, 1, "ns_per_op", 240.0),
    ("w3", OURS, TWO, "mops", 8.0),
    ("w3", OURS, TWO, "cpu_s_per_mop", 0.24),
    ("w4", OURS, 1, "ns_per_op", 30.0),
    ("w4", OURS, TWO, "mops", 40.0),
    ("w4", OURS, TWO, "cpu_s_per_mop", 0.050),
    ("w8", OURS, 1, "ns_per_op", 240.0),
    ("w8", OURS, TWO, "mops", 8.0),
    ("w8", OURS, TWO, "cpu_s_per_mop", 0.24),
    ("w1", BATCH, 1, "ns_per_op", 15.0),
    ("w1", BATCH, TWO, "mops", 100.0),
    ("w4", BATCH, 1, "ns_per_op", 20.0),
    ("w4", BATCH, TWO, "mops", 60.0),
    ("w8", BATCH, 1, "ns_per_op", 40.0),
    ("w8", BATCH, TWO, "mops", 40.0),
    ("w5", OURS, 1, "late_ms_p50", 0.6),
    ("w5", OURS, 1, "late_ms_p99", 1.2),
    ("w5", OURS, 1, "late_ms_p999", 2.0),
    ("w5", OURS, 1, "late_ms_max", 3.0),
    ("w5", OURS, 1, "cpu_s", 0.25),
    ("w5", FINE, 1, "late_ms_p50", 0.05),
    ("w5", FINE, 1, "late_ms_p99", 0.13),
    ("w5", FINE, 1, "late_ms_p999", 0.25),
    ("w5", FINE, 1, "late_ms_max", 0.5),
    ("w5", FINE, 1, "cpu_s", 0.8),
    ("w5b", OURS, 1, "first_ms", 0.6),
    ("w5b", OURS, 1, "last_ms", 12.0),
    ("w6", OURS, 1, "bytes_per_timer", 40.0),
];

/// Subject, workload, and how many times as fast as the best rival it should be, on two threads.
const AGAINST_RIVALS: [(&str, &str, f64); 18] = [
    (OURS, "w1", 2.5),
    (OURS, "w2", 2.5),
    (OURS, "w2b", 3.5),
    (OURS, "w3", 2.0),
    (OURS, "w4", 2.0),
    (OURS, "w5b", 2.0),
    (OURS, "w8", 2.5),
    (CLOSURE, "w1", 1.6),
    (CLOSURE, "w2", 1.7),
    (CLOSURE, "w4", 1.5),
    (CORES, "w5b", 3.0),
    (WHEEL, "w1", 2.5),
    (WHEEL, "w2", 2.5),
    (WHEEL, "w2b", 3.5),
    (WHEEL, "w3", 2.0),
    (WHEEL, "w4", 2.0),
    (WHEEL, "w5b", 2.0),
    (WHEEL, "w8", 2.5),
];

/// Growth of W3: ns of a step on one thread.
const GROWTH: [(usize, f64); 4] = [
    (10_000, 60.0),
    (100_000, 110.0),
    (TIMERS, 240.0),
    (10_000_000, 360.0),
];

/// CPU of a timer that fires on a pool, as a multiple of that on the shard's thread.
const OVER_INLINE: f64 = 1.5;

/// From this number of fires a second on it is below that of tokio's timers.
const BELOW_TOKIO_FROM: usize = 10_000;

/// p99 of the lateness, up to this number of fires a second.
const LATE_MS_P99: f64 = 0.3;
const LATE_UP_TO: usize = 1_000;

/// Per cent of a core that time-outs take which are answered, up to this number of requests a
/// second.
const SERVER_PERCENT: f64 = 0.3;
const SERVER_UP_TO: usize = 10_000;

/// Pairs a second with timers in flight: against the best rival, and with this window against those
/// with the other one.
const IN_FLIGHT_TIMES: f64 = 3.5;
const IN_FLIGHT_PART: f64 = 0.8;
const IN_FLIGHT_WINDOWS: [usize; 2] = [64_000, 1_000];

fn in_brackets(limit: Option<f64>) -> String {
    limit.map_or(String::new(), |limit| format!(" ({})", number(limit)))
}

/// A subject's name in a claim, if it is not the usual one.
fn unless_usual(ours: &str) -> String {
    if ours == OURS {
        String::new()
    } else {
        format!(" {ours}")
    }
}

/// The lines of a workload with this number of timers.
fn group<'a>(lines: &'a [Line], workload: &str, threads: usize, timers: usize) -> Vec<&'a Line> {
    let fits = |line: &&Line| {
        line.workload == workload && line.threads == threads && line.timers == timers
    };
    lines.iter().filter(fits).collect()
}

/// Those with the size that the goals are for; or the largest, if it was not measured.
fn usual<'a>(lines: &'a [Line], workload: &str, threads: usize) -> Vec<&'a Line> {
    let sizes = lines
        .iter()
        .filter(|line| line.workload == workload && line.threads == threads)
        .map(|line| line.timers);
    let is_usual = sizes.clone().any(|size| size == TIMERS);
    let size = if is_usual { Some(TIMERS) } else { sizes.max() };
    group(lines, workload, threads, size.unwrap_or(0))
}

/// One figure over another.
fn over(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one / other)
}

/// All that should hold, looked at by what was measured.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let mut claims = goals(lines);
    claims.extend(against_rivals(lines));
    claims.extend(within_ourselves(lines));
    claims.extend(fires_at_rates(lines));
    claims.extend(servers_at_rates(lines));
    claims.extend(in_flight(lines));
    claims
}

/// The block at the end of the output.
pub(crate) fn distance(claims: &[Claim]) -> String {
    let head = "distance to goals (set on a quiet 2-core virtual machine, for 1,000,000 timers, or at the rates they name)";
    verdicts(head, claims)
}

fn goals(lines: &[Line]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &(workload, subject, threads, figure, limit) in GOALS {
        let (claim, sign): (fn(_, _, _) -> _, _) = match figure {
            "mops" => (at_least, ">="),
            _ => (at_most, "<="),
        };
        let measured = median(&usual(lines, workload, threads), subject, figure);
        let what = format!("{workload} {subject} T={threads} {figure} {sign} {limit}");
        claims.push(claim(what, measured, limit));
    }
    for (timers, limit) in GROWTH {
        let what = format!("w3 {OURS} T=1 ns_per_op at {timers} timers <= {limit}");
        claims.push(at_most(what, ns_at(lines, timers), limit));
    }
    claims
}

/// Of a step of W3.
fn ns_at(lines: &[Line], timers: usize) -> Option<f64> {
    median(&group(lines, "w3", 1, timers), OURS, "ns_per_op")
}

/// What must hold against the best rival of the same run.
fn against_rivals(lines: &[Line]) -> Vec<Claim> {
    let times = |ours: &str, workload, threads, figure, limit| {
        let what = format!("{workload}{} T={threads} {figure}", unless_usual(ours));
        let group = fair(usual(lines, workload, threads));
        goals::against_rivals(&what, &group, ours, (figure, figure == "mops"), limit)
    };
    let mut claims: Vec<Claim> = AGAINST_RIVALS
        .map(|(ours, workload, limit)| times(ours, workload, TWO, "mops", limit))
        .into();
    claims.extend(["w1", "w4"].map(|workload| times(OURS, workload, 1, "mops", 1.0)));
    for (ours, threads) in [
        (OURS, 1),
        (OURS, TWO),
        (INLINE, 1),
        (INLINE, TWO),
        (CORES, TWO),
        (FINE, 1),
        (FINE, TWO),
        (SPIN, 1),
        (SPIN, TWO),
    ] {
        let figures = ["late_ms_p99", "late_ms_p999", "late_ms_max", "cpu_s"];
        claims.extend(figures.map(|figure| times(ours, "w5", threads, figure, 1.0)));
    }
    claims.push(times(OURS, "w6", 1, "bytes_per_timer", 1.0));
    claims
}

/// What must hold of wheelwork, whatever the machine.
fn within_ourselves(lines: &[Line]) -> Vec<Claim> {
    let usual = |workload, threads| usual(lines, workload, threads);
    let rate = |subject| median(&usual("w8", 1), subject, "mops");
    let wakeups = median(&usual("w7", 1), OURS, "wakeups");
    let mut claims = vec![
        at_least(
            "w8 T=1: batch 3 x single".to_string(),
            over(rate(BATCH), rate(OURS)),
            3.0,
        ),
        at_most("w7: no wake-ups".to_string(), wakeups, 0.0),
    ];
    for workload in ["w1", "w2", "w2b", "w4"] {
        let cpu = |threads| median(&usual(workload, threads), OURS, "cpu_s_per_mop");
        let what = format!("{workload}: CPU of an operation with two producers <= 1.15 x one");
        claims.push(at_most(what, over(cpu(TWO), cpu(1)), 1.15));
    }
    let growth = over(ns_at(lines, 10_000_000), ns_at(lines, TIMERS));
    claims.push(at_most(
        "w3 T=1: 10 M timers <= 1.5 x 1 M".to_string(),
        growth,
        1.5,
    ));
    claims
}

/// W9: what a timer costs that fires, and how late it is.
fn fires_at_rates(lines: &[Line]) -> Vec<Claim> {
    const CPU: &str = "cpu_us_per_fire";
    const LATE: &str = "late_ms_p50";
    let mut claims = Vec::new();
    for workload in [Workload::W9, Workload::W9Periodic, Workload::W9Instant] {
        let name = program::name(&workload);
        for &rate in workload.rates().unwrap_or_default() {
            let group = group(lines, &name, 1, rate);
            let mut below = |times: f64, other: &str| {
                let limit = median(&group, other, CPU).map(|cpu| times * cpu);
                let beside = in_brackets(limit);
                let what = format!("{name} at {rate}: {CPU} <= {times} x {other}{beside}");
                let measured = limit.and(median(&group, OURS, CPU));
                claims.push(at_most(what, measured, limit.unwrap_or(0.0)));
            };
            below(OVER_INLINE, INLINE);
            if rate >= BELOW_TOKIO_FROM {
                below(1.0, TOKIO_FUTURE);
            }
            if workload == Workload::W9Instant {
                let limit = median(&group, TOKIO_FUTURE, LATE);
                let beside = in_brackets(limit);
                let what = format!("{name} at {rate}: {LATE} <= {TOKIO_FUTURE}{beside}");
                let measured = limit.and(median(&group, OURS, LATE));
                claims.push(at_most(what, measured, limit.unwrap_or(0.0)));
            }
            if rate <= LATE_UP_TO {
                let what = format!("{name} at {rate}: late_ms_p99 <= {LATE_MS_P99}");
                claims.push(at_most(
                    what,
                    median(&group, OURS, "late_ms_p99"),
                    LATE_MS_P99,
                ));
            }
        }
    }
    claims
}

/// W10: what time-outs cost that are answered.
fn servers_at_rates(lines: &[Line]) -> Vec<Claim> {
    const CPU: &str = "cpu_percent";
    const OF_FIRES: &str = "fires_cpu_percent";
    let mut claims = Vec::new();
    for workload in [Workload::W10, Workload::W10Fast, Workload::W10Slow] {
        let name = program::name(&workload);
        let rates = workload.rates().unwrap_or_default().iter();
        for (&rate, threads) in rates.flat_map(|rate| [1, TWO].map(|threads| (rate, threads))) {
            let group = group(lines, &name, threads, rate);
            let mut below = |ours: &str, figure, rival: Option<(&str, f64)>| {
                let by = rival.map_or(String::new(), |(rival, cpu)| {
                    format!(" {rival}{}", in_brackets(Some(cpu)))
                });
                let subject = unless_usual(ours);
                let fires = if figure == OF_FIRES { ", 1 % fire" } else { "" };
                claims.push(at_most(
                    format!("{name}{subject} T={threads} at {rate}{fires}: CPU % <={by}"),
                    rival.and(median(&group, ours, figure)),
                    rival.map_or(0.0, |(_, cpu)| cpu),
                ));
            };
            for figure in [CPU, OF_FIRES] {
                // What is not above the loop's own CPU was not measured well enough.
                let seen = group.iter().copied();
                let seen = seen.filter(|line| line.median(figure).is_some_and(|cpu| cpu > 0.0));
                below(OURS, figure, best_rival(seen, figure, false));
            }
            let tokio = median(&group, TOKIO_FUTURE, CPU);
            below(FUTURE, CPU, tokio.map(|cpu| (TOKIO_FUTURE, cpu)));
            if rate <= SERVER_UP_TO {
                let what = format!("{name} T={threads} at {rate}: CPU % <= {SERVER_PERCENT}");
                claims.push(at_most(what, median(&group, OURS, CPU), SERVER_PERCENT));
            }
        }
    }
    claims
}

/// W11: how many timers a second are armed and cancelled, whatever the window.
fn in_flight(lines: &[Line]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for workload in IN_FLIGHT {
        let name = program::name(&workload);
        let at = |window| group(lines, &name, TWO, window);
        let ours: &[&str] = match workload {
            Workload::W11 => &[OURS, WHEEL],
            _ => &[OURS],
        };
        let subjects = ours.iter().flat_map(|&ours| WINDOWS.map(|at| (ours, at)));
        for (ours, window) in subjects {
            let what = format!("{name}{} T={TWO} at {window} mops", unless_usual(ours));
            let group = fair(at(window));
            let figure = ("mops", true);
            let claim = goals::against_rivals(&what, &group, ours, figure, IN_FLIGHT_TIMES);
            claims.push(claim);
        }
        let [wide, narrow] = IN_FLIGHT_WINDOWS;
        claims.push(at_least(
            format!("{name} T={TWO} mops at {wide} >= {IN_FLIGHT_PART} x at {narrow}"),
            over(
                median(&at(wide), OURS, "mops"),
                median(&at(narrow), OURS, "mops"),
            ),
            IN_FLIGHT_PART,
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    fn line(
        workload: &str,
        subject: &str,
        threads: usize,
        timers: usize,
        figures: &[(&str, f64)],
    ) -> Line {
        let mut line = Line::new(subject, workload, threads, timers);
        let mut all = Figures::default();
        all.extend(figures.iter().copied());
        line.summarize(&[all]);
        line
    }

    fn assert_verdicts(lines: &[Line], expected: &[(&str, &str)]) {
        let text = distance(&claims(lines));
        for (what, verdict) in expected {
            let line = text.lines().find(|line| line.contains(what));
            let line = line.unwrap_or_else(|| panic!("{what} in {text}"));
            assert!(
                line.ends_with(&format!(" {verdict}")),
                "{verdict} in {line}"
            );
        }
    }

    #[test]
    fn nothing_measured_is_said() {
        let text = distance(&claims(&[]));
        let is_said = text
            .lines()
            .skip(2)
            .all(|line| line.ends_with("not measured"));
        assert!(is_said, "{text}");
    }

    #[test]
    fn claims_hold_or_do_not() {
        let lines = [
            line("w2", OURS, TWO, TIMERS, &[("mops", 40.0)]),
            line("w2b", OURS, TWO, TIMERS, &[("mops", 49.99)]),
            line("w2", "pingora", TWO, TIMERS, &[("mops", 16.0)]),
            line("w2", "tokio", TWO, TIMERS, &[("mops", 2.0)]),
            line("w2", "tokio", TWO, 10 * TIMERS, &[("mops", 99.0)]),
            line("w7", OURS, 1, TIMERS, &[("wakeups", 0.0)]),
            line("w3", OURS, 1, TIMERS, &[("ns_per_op", 200.0)]),
            line("w3", OURS, 1, 10_000_000, &[("ns_per_op", 400.0)]),
        ];
        let best = "w2 T=2 mops: 2.5 x the best rival (pingora)";
        let expected = [
            (best, "holds: 2.50"),
            ("w2 wheelwork T=2 mops >= 60", "misses by 1.50 x: 40.00"),
            (
                "w2b wheelwork T=2 mops >= 50",
                "misses by less than 1 %: 49.99",
            ),
            ("w7: no wake-ups", "holds: 0"),
            ("10 M timers <= 1.5 x 1 M", "misses by 1.33 x: 2.00"),
            ("ns_per_op at 1000000 timers", "holds by 1.20 x: 200"),
        ];
        assert_verdicts(&lines, &expected);
    }

    #[test]
    fn who_keeps_the_memory_is_no_rival_in_w4() {
        let lines = [
            line("w4", OURS, 1, TIMERS, &[("mops", 20.0), ("back_ms", 300.0)]),
            line("w4", "heap", 1, TIMERS, &[("mops", 80.0)]),
            line("w4", "btree", 1, TIMERS, &[("mops", 5.0), ("back_ms", 1.0)]),
        ];
        let what = "w4 T=1 mops: 1 x the best rival (btree)";
        assert_verdicts(&lines, &[(what, "holds by 4.00 x: 4.00")]);
    }

    #[test]
    fn each_rate_is_judged() {
        let fires = |subject, rate, cpu| {
            let figures = [("cpu_us_per_fire", cpu), ("late_ms_p99", 1.5)];
            line("w9", subject, 1, rate, &figures)
        };
        let lines = [
            fires(OURS, 1_000, 30.0),
            fires(INLINE, 1_000, 10.0),
            fires(OURS, 10_000, 3.0),
            fires(INLINE, 10_000, 2.5),
            fires(TOKIO_FUTURE, 10_000, 3.5),
        ];
        let few = "w9 at 1000: cpu_us_per_fire <= 1.5 x wheelwork-inline (15.00)";
        let many = "w9 at 10000: cpu_us_per_fire <= 1.5 x wheelwork-inline (3.75)";
        let tokio = "w9 at 10000: cpu_us_per_fire <= 1 x tokio-future (3.50)";
        let expected = [
            (few, "misses by 2.00 x: 30.00"),
            (many, "holds by 1.25 x: 3.00"),
            (tokio, "holds by 1.17 x: 3.00"),
            ("w9 at 1000: late_ms_p99 <= 0.3", "misses by 5.00 x: 1.50"),
            ("w9 at 100: late_ms_p99", "not measured"),
        ];
        assert_verdicts(&lines, &expected);
    }

    #[test]
    fn each_window_is_judged() {
        let at = |subject, window, mops| line("w11-other", subject, TWO, window, &[("mops", mops)]);
        let lines = [
            at(OURS, 1_000, 20.0),
            at("pingora", 1_000, 5.0),
            at(OURS, 64_000, 12.0),
            at("pingora", 64_000, 6.0),
        ];
        let expected = [
            (
                "w11-other T=2 at 1000 mops: 3.5 x the best rival (pingora)",
                "holds by 1.14 x: 4.00",
            ),
            (
                "w11-other T=2 at 64000 mops: 3.5 x the best rival (pingora)",
                "misses by 1.75 x: 2.00",
            ),
            (
                "w11-other T=2 mops at 64000 >= 0.8 x at 1000",
                "misses by 1.33 x: 0.600",
            ),
            ("w11 T=2 mops at 64000 >= 0.8 x at 1000", "not measured"),
        ];
        assert_verdicts(&lines, &expected);
    }

    #[test]
    fn servers_are_held_against_the_best_rival_of_their_rate() {
        let cpu = |subject, rate, threads, figures: &[f64]| {
            let names = ["cpu_percent", "fires_cpu_percent"].into_iter();
            let figures: Vec<_> = names.zip(figures.iter().copied()).collect();
            line("w10", subject, threads, rate, &figures)
        };
        let lines = [
            cpu(OURS, 1_000, 1, &[0.45, 0.9]),
            cpu("tokio", 1_000, 1, &[0.15]),
            cpu("btree", 1_000, 1, &[0.2, 0.3]),
            cpu("btree", 100_000, 1, &[0.1]),
            cpu(OURS, 1_000, TWO, &[0.2]),
            cpu("heap", 1_000, TWO, &[-0.01]),
            cpu(FUTURE, 100_000, TWO, &[1.0]),
            cpu(TOKIO_FUTURE, 100_000, TWO, &[2.0]),
        ];
        let fires = "w10 T=1 at 1000, 1 % fire: CPU % <= btree (0.300)";
        let future = "w10 wheelwork-future T=2 at 100000: CPU % <= tokio-future (2.00)";
        let expected = [
            (fires, "misses by 3.00 x: 0.900"),
            (
                "w10 T=1 at 1000: CPU % <= tokio (0.150)",
                "misses by 3.00 x: 0.450",
            ),
            ("w10 T=1 at 1000: CPU % <= 0.3", "misses by 1.50 x: 0.450"),
            ("w10 T=2 at 1000: CPU % <=", "not measured"),
            ("w10 T=2 at 1000: CPU % <= 0.3", "holds by 1.50 x: 0.200"),
            (future, "holds by 2.00 x: 1.00"),
            ("w10-slow T=1 at 10000: CPU % <= 0.3", "not measured"),
        ];
        assert_verdicts(&lines, &expected);
    }
}
