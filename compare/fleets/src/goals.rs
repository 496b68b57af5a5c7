//! The goals for wheelwork's store on PostgreSQL, and a verdict on each.

use crate::workload::Workload;
use wheelwork_kit::beside::{best_rival, ratio};
use wheelwork_kit::goals::{self, Claim, at_most};
use wheelwork_kit::line::Line;
use wheelwork_kit::program;

const OURS: &str = "wheelwork";

/// Workload, figure, limit, and what it is.
type Goal = (Workload, &'static str, f64, &'static str);

/// Of workloads beside clients, goals are for this number of them.
const CLIENTS: usize = 48;

/// More is better where the figure is a rate, and less where it is a time.
const GOALS: [Goal; 7] = [
    (Workload::ArmBulk, "kops", 250.0, "durable arm, bulk, k/s"),
    (Workload::FireAck, "kops", 300.0, "fire + ack, k/s"),
    (
        Workload::Killed,
        "recovered_s",
        // The lease of a node, and a second.
        11.0,
        "timers of a killed node fired, s",
    ),
    (
        Workload::BesideRandom,
        "late_ms_p50",
        3.0,
        "p50 beside 48 clients, random keys, ms",
    ),
    (
        Workload::BesideRandom,
        "late_ms_p99",
        25.0,
        "p99 beside 48 clients, random keys, ms",
    ),
    (
        Workload::BesideHot,
        "late_ms_p50",
        3.0,
        "p50 beside 48 clients, one key, ms",
    ),
    (
        Workload::BesideHot,
        "late_ms_p99",
        25.0,
        "p99 beside 48 clients, one key, ms",
    ),
];

/// The lines of a workload, and wheelwork's figure in it.
fn group<'a>(lines: &'a [Line], workload: Workload, figure: &str) -> (Vec<&'a Line>, Option<f64>) {
    let name = program::name(&workload);
    let group: Vec<_> = lines.iter().filter(|line| line.workload == name).collect();
    let is_meant = |line: &&&Line| !workload.is_beside() || line.timers == CLIENTS;
    let own = group.iter().filter(is_meant);
    let own = own.into_iter().find(|line| line.subject == OURS);
    let own = own.and_then(|line| line.median(figure));
    (group, own)
}

/// All goals, and wheelwork against the best rival in each workload.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let goals = GOALS.iter().map(|&(workload, figure, limit, what)| {
        let at_least = figure == "kops";
        let sign = if at_least { ">=" } else { "<=" };
        let claim = if at_least { goals::at_least } else { at_most };
        let measured = group(lines, workload, figure).1;
        claim(format!("{what} {sign} {limit}"), measured, limit)
    });
    let with_rivals = GOALS.iter().filter(|goal| !goal.0.is_beside());
    let rivals = with_rivals.map(|&(workload, ..)| {
        let column = &workload.columns()[0];
        let (group, own) = group(lines, workload, column.figure);
        let higher_is_better = column.higher_is_better;
        let both = own.zip(best_rival(group, column.figure, higher_is_better));
        let rival = both.map_or(String::new(), |(_, (rival, _))| format!(" ({rival})"));
        goals::at_least(
            format!("{}: 1 x the best rival{rival}", program::name(&workload)),
            both.map(|(own, (_, best))| ratio(own, best, higher_is_better)),
            1.0,
        )
    });
    goals.chain(rivals).collect()
}

/// The block at the end of the output.
pub(crate) fn verdicts(claims: &[Claim]) -> String {
    let head = "goals of the store on PostgreSQL, for a quiet 2-core machine";
    goals::verdicts(head, claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    fn line(workload: &str, subject: &str, figure: (&str, f64)) -> Line {
        let mut line = Line::new(subject, workload, 2, 1);
        line.summarize(&[Figures::from([figure])]);
        line
    }

    #[test]
    fn goals_hold_or_are_missed_or_were_not_measured() {
        let lines = [
            line("arm-bulk", OURS, ("kops", 500.0)),
            line("arm-bulk", "poller", ("kops", 100.0)),
            line("killed", OURS, ("recovered_s", 22.0)),
        ];
        let text = verdicts(&claims(&lines));
        for (what, verdict) in [
            ("durable arm, bulk, k/s >= 250:", "holds by 2.00 x: 500"),
            ("fire + ack, k/s >= 300:", "not measured"),
            ("killed node fired, s <= 11:", "misses by 2.00 x: 22.00"),
            ("the best rival (poller):", "holds by 5.00 x: 5.00"),
        ] {
            let line = text.lines().find(|line| line.contains(what));
            let line = line.unwrap_or_else(|| panic!("{what} in {text}"));
            assert!(line.ends_with(&format!(" {verdict}")), "{line}");
        }
    }
}
