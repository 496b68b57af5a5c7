//! The verdicts at the end of the report, as tables of the page of goals.

use crate::report::{Line, called, grouped, value, written};

/// A goal of which the report has a verdict: the goal's words before a colon, what is behind it,
/// what was reached, and whether it holds.
pub(crate) struct Goal<'a> {
    words: Vec<&'a str>,
    of_others: Option<&'a str>,
    reached: &'a str,
    verdict: &'a str,
}

/// The goals of what was measured.
pub(crate) fn goals(report: &str) -> Vec<Goal<'_>> {
    let goal = |line| {
        let [goal, verdict] = ["goal", "verdict"].map(|name| text_of(line, name));
        let (verdict, reached) = verdict?.split_once(": ")?;
        let (words, behind) = match goal?.split_once(": ") {
            Some((words, behind)) => (words, Some(behind)),
            None => (goal?, None),
        };
        Some(Goal {
            words: words.split(' ').collect(),
            of_others: behind,
            reached,
            verdict,
        })
    };
    report.lines().filter_map(goal).collect()
}

/// The text of a name in a line of the report.
fn text_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}

/// A table of the goals for one figure each.
pub(crate) fn absolute(goals: &[Goal<'_>]) -> String {
    let mut text = "| workload | timers | subject | threads | figure | goal | reached | |\n\
        |---|--:|---|--:|---|---|--:|---|\n"
        .to_string();
    for goal in goals {
        let (row, timers) = match goal.words[..] {
            [workload, subject, threads, figure, sign, limit] => {
                ([workload, subject, threads, figure, sign, limit], "1000000")
            }
            [
                workload,
                subject,
                threads,
                figure,
                "at",
                timers,
                "timers",
                sign,
                limit,
            ] => ([workload, subject, threads, figure, sign, limit], timers),
            _ => continue,
        };
        let [workload, subject, threads, figure, sign, limit] = row;
        let threads = threads.trim_start_matches("T=");
        let sign = match sign {
            "<=" => "at most",
            ">=" => "at least",
            _ => continue,
        };
        let timers = grouped(timers.parse().unwrap_or(0.0));
        let (reached, verdict) = (goal.reached, goal.verdict);
        text += &format!(
            "| `{workload}` | {timers} | `{subject}` | {threads} | `{figure}` \
            | {sign} {limit} | {reached} | {verdict} |\n"
        );
    }
    text
}

/// Workload, subject, threads and figure of a goal against the best rival; how many times as good
/// it should be, and the rival.
fn against<'a>(goal: &Goal<'a>) -> Option<([&'a str; 4], &'a str, &'a str)> {
    let (times, rival) = goal.of_others?.split_once(" x the best rival (")?;
    let what = match goal.words[..] {
        [workload, subject, threads, figure] => [workload, subject, threads, figure],
        [workload, threads, figure] => [workload, "wheelwork", threads, figure],
        _ => return None,
    };
    let [workload, subject, threads, figure] = what;
    let threads = threads.trim_start_matches("T=");
    Some((
        [workload, subject, threads, figure],
        times,
        rival.trim_end_matches(')'),
    ))
}

/// A table of the goals against the best rival, but for lateness.
pub(crate) fn against_others(goals: &[Goal<'_>]) -> String {
    let mut text = "| workload | subject | threads | figure | goal, times the best \
        | reached | the best | |\n|---|---|--:|---|--:|--:|---|---|\n"
        .to_string();
    for goal in goals {
        let Some(([workload, subject, threads, figure], times, rival)) = against(goal) else {
            continue;
        };
        if workload != "w5" {
            let (rival, reached, verdict) = (called(rival), goal.reached, goal.verdict);
            text += &format!(
                "| `{workload}` | `{subject}` | {threads} | `{figure}` | {times} \
                | {reached} | {rival} | {verdict} |\n"
            );
        }
    }
    text
}

/// A table of the rates that the goals ask for where they are missed, each with the CPU time that
/// two cores have for an operation then, and that which it takes.
pub(crate) fn cpu_of_goals(goals: &[Goal<'_>], lines: &[Line<'_>]) -> String {
    let mut text = "| workload | subject | goal, M/s | CPU there is for one, ns \
        | CPU it takes, ns |\n|---|---|--:|--:|--:|\n"
        .to_string();
    let rows = goals.iter().filter_map(|goal| {
        let ([workload, subject, threads, figure], times, rival) = against(goal)?;
        let is_missed = goal.verdict.starts_with("misses");
        ([threads, figure] == ["2", "mops"] && is_missed).then_some(())?;
        let of = |subject: &str, figure| -> Option<f64> {
            let mut found = lines.iter().filter(|line| line.subject == subject);
            let line = found.find(|line| line.what == [workload, "2", "1000000"])?;
            value(line.text, figure)?.parse().ok()
        };
        let wanted = times.parse::<f64>().ok()? * of(rival, "mops")?;
        // What fires once counts as CPU seconds for all, which are a million.
        let takes = of(subject, "cpu_s_per_mop").or_else(|| of(subject, "cpu_s"))?;
        let [there_is, takes] = [2e3 / wanted, takes * 1e3].map(grouped);
        let wanted = written(wanted);
        Some(format!(
            "| `{workload}` | `{subject}` | {wanted} | {there_is} | {takes} |\n"
        ))
    });
    rows.for_each(|row| text += &row);
    text
}

/// A table of how many times as good as the best rival's the figures of lateness are, each with the
/// rival.
pub(crate) fn lateness(goals: &[Goal<'_>], lines: &[Line<'_>]) -> String {
    const FIGURES: [&str; 4] = ["late_ms_p99", "late_ms_p999", "late_ms_max", "cpu_s"];
    let mut text = "| subject | threads | p99 | p99.9 | the latest | CPU |\n\
        |---|--:|---|---|---|---|\n"
        .to_string();
    let of_w5 = lines.iter().filter(|line| line.what[0] == "w5");
    for line in of_w5 {
        let cells = FIGURES.map(|figure| {
            let what = ["w5", line.subject, line.what[1], figure];
            let mut found = goals.iter().filter_map(|goal| Some((goal, against(goal)?)));
            let (goal, (_, _, rival)) = found.find(|(_, (of, ..))| *of == what)?;
            Some(format!("{} ({})", goal.reached, called(rival)))
        });
        if let [Some(p99), Some(p999), Some(max), Some(cpu)] = cells {
            let (subject, threads) = (line.subject, line.what[1]);
            text += &format!("| `{subject}` | {threads} | {p99} | {p999} | {max} | {cpu} |\n");
        }
    }
    text
}

/// A table of the goals that compare wheelwork's figures with each other.
pub(crate) fn within(goals: &[Goal<'_>]) -> String {
    let mut text = "| workload | goal | reached | |\n|---|---|--:|---|\n".to_string();
    for goal in goals {
        let is_other = against(goal).is_some() || at_rate(goal).is_some();
        if let Some(of_itself) = goal.of_others.filter(|_| !is_other) {
            let (workload, reached, verdict) = (goal.words[0], goal.reached, goal.verdict);
            text += &format!("| `{workload}` | {of_itself} | {reached} | {verdict} |\n");
        }
    }
    text
}

/// Workload, subject, threads, rate and text of a goal at a rate, or at a window of timers
/// in flight.
fn at_rate<'a>(goal: &Goal<'a>) -> Option<([&'a str; 4], String)> {
    let (&workload, words) = goal.words.split_first()?;
    let is_rate = ["w9", "w10", "w11"].contains(&workload.split('-').next()?);
    let at = words.iter().position(|&word| word == "at");
    let (before, after) = words.split_at(at.filter(|_| is_rate)?);
    let threads = before.iter().find_map(|word| word.strip_prefix("T="));
    let subject = before
        .first()
        .filter(|word| !word.contains('=') && **word != "mops");
    let (rate, rest) = after[1..].split_first()?;
    // A figure that the words name, and what is behind the rate.
    let figure = before.iter().filter(|word| **word == "mops");
    let said: Vec<_> = figure.chain(rest).copied().collect();
    let text = [Some(said.join(" ")), goal.of_others.map(str::to_string)];
    let text: Vec<_> = text
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    let of = [
        workload,
        subject.unwrap_or(&"wheelwork"),
        threads.unwrap_or("1"),
        rate.trim_end_matches(','),
    ];
    Some((of, text.join(": ")))
}

/// A table of the goals at rates, and at windows of timers in flight.
pub(crate) fn at_rates(goals: &[Goal<'_>]) -> String {
    let mut text =
        "| workload | subject | threads | at | goal | reached | |\n|---|---|--:|--:|---|--:|---|\n"
            .to_string();
    for goal in goals {
        let Some(([workload, subject, threads, rate], of)) = at_rate(goal) else {
            continue;
        };
        let rate = grouped(rate.parse().unwrap_or(0.0));
        let (reached, verdict) = (goal.reached, goal.verdict);
        text += &format!(
            "| `{workload}` | `{subject}` | {threads} | {rate} | {of} | {reached} | {verdict} |\n"
        );
    }
    text
}

#[test]
fn goals_are_told_as_they_should_be() {
    let goal =
        |goal: &str, verdict: &str| format!("{{\"goal\":\"{goal}\",\"verdict\":\"{verdict}\"}}\n");
    let report = goal(
        "w1 wheelwork T=1 ns_per_op <= 25",
        "misses by 1.20 x: 30.00",
    ) + &goal(
        "w3 wheelwork T=1 ns_per_op at 10000 timers <= 60",
        "holds: 60.00",
    ) + &goal(
        "w2 T=2 mops: 2.5 x the best rival (dpdk)",
        "misses by 1.45 x: 1.72",
    ) + &goal(
        "w5 wheelwork-fine T=1 cpu_s: 1 x the best rival (heap)",
        "holds: 1.00",
    ) + &goal("w4 T=1 mops: 1 x the best rival", "not measured")
        + &goal("w7: no wake-ups", "holds: 0")
        + &goal("w9 at 100: late_ms_p99 <= 1.2", "holds by 1.20 x: 1.00")
        + &goal(
            "w10 wheelwork-future T=2 at 10000: CPU % <= tokio-future (0.27)",
            "misses by 2.00 x: 0.540",
        )
        + &goal(
            "w10 T=2 at 1000, 1 % fire: CPU % <= heap (0.05)",
            "holds: 0.05",
        )
        + &goal(
            "w11-other T=2 at 8000 mops: 3.5 x the best rival (go)",
            "misses by 2.00 x: 1.75",
        )
        + &goal("w11 T=2 mops at 64000 >= 0.8 x at 1000", "holds: 0.800");
    let goals = goals(&report);
    assert_eq!(
        absolute(&goals).lines().skip(2).collect::<Vec<_>>(),
        [
            "| `w1` | 1,000,000 | `wheelwork` | 1 | `ns_per_op` | at most 25 | 30.00 | misses by 1.20 x |",
            "| `w3` | 10,000 | `wheelwork` | 1 | `ns_per_op` | at most 60 | 60.00 | holds |",
        ]
    );
    assert_eq!(
        against_others(&goals).lines().skip(2).collect::<Vec<_>>(),
        ["| `w2` | `wheelwork` | 2 | `mops` | 2.5 | 1.72 | DPDK | misses by 1.45 x |"]
    );
    let line = |subject, figures| {
        format!(
            "{{\"subject\":\"{subject}\",\"workload\":\"w2\",\"threads\":2,\"n\":1000000,{figures}}}\n"
        )
    };
    let lines = line("wheelwork", "\"mops\":70,\"cpu_s_per_mop\":0.0262")
        + &line("dpdk", "\"mops\":41.5,\"cpu_s_per_mop\":0.1");
    assert_eq!(
        cpu_of_goals(&goals, &crate::report::lines(&lines))
            .lines()
            .skip(2)
            .collect::<Vec<_>>(),
        ["| `w2` | `wheelwork` | 104 | 19 | 26 |"]
    );
    assert_eq!(
        within(&goals).lines().skip(2).collect::<Vec<_>>(),
        ["| `w7` | no wake-ups | 0 | holds |"]
    );
    assert_eq!(
        at_rates(&goals).lines().skip(2).collect::<Vec<_>>(),
        [
            "| `w9` | `wheelwork` | 1 | 100 | late_ms_p99 <= 1.2 | 1.00 | holds by 1.20 x |",
            "| `w10` | `wheelwork-future` | 2 | 10,000 | CPU % <= tokio-future (0.27) | 0.540 | misses by 2.00 x |",
            "| `w10` | `wheelwork` | 2 | 1,000 | 1 % fire: CPU % <= heap (0.05) | 0.05 | holds |",
            "| `w11-other` | `wheelwork` | 2 | 8,000 | mops: 3.5 x the best rival (go) | 1.75 | misses by 2.00 x |",
            "| `w11` | `wheelwork` | 2 | 64,000 | mops >= 0.8 x at 1000 | 0.800 | holds |",
        ]
    );
}
