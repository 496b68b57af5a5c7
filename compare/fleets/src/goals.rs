//! The goals for wheelwork's store on PostgreSQL, and a verdict on each.

use wheelwork_kit::goals::{self, Claim};
use wheelwork_kit::line::Line;

/// A killed node's timers are fired within its lease and a second. Goals beside clients are for 48
/// of them.
const GOALS: &str = "
    arm-bulk      -  kops        >= 250 durable arm, bulk, k/s
    fire-ack      -  kops        >= 300 fire + ack, k/s
    killed        -  recovered_s <= 11  timers of a killed node fired, s
    beside-random 48 late_ms_p50 <= 3   p50 beside 48 clients, random keys, ms
    beside-random 48 late_ms_p99 <= 25  p99 beside 48 clients, random keys, ms
    beside-hot    48 late_ms_p50 <= 3   p50 beside 48 clients, one key, ms
    beside-hot    48 late_ms_p99 <= 25  p99 beside 48 clients, one key, ms
";

/// All goals, and wheelwork against the best rival in each workload that has rivals.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let goals = goals::table(GOALS);
    let with_rivals = goals.iter().filter(|goal| goal.count.is_none());
    let rivals = with_rivals.map(|goal| goal.against_rivals(lines));
    goals
        .iter()
        .map(|goal| goal.claim(lines))
        .chain(rivals)
        .collect()
}

/// The block at the end of the output.
pub(crate) fn verdicts(claims: &[Claim]) -> String {
    let head = "goals of the store on PostgreSQL, for a quiet 2-core machine";
    goals::verdicts(head, claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use clap::ValueEnum;
    use wheelwork_kit::goals::OURS;
    use wheelwork_kit::line::Figures;

    fn line(workload: &str, subject: &str, figure: (&str, f64)) -> Line {
        let mut line = Line::new(subject, workload, 2, 1);
        line.summarize(&[Figures::from([figure])]);
        line
    }

    #[test]
    fn goals_name_what_is_measured() {
        for goal in goals::table(GOALS) {
            let workload = Workload::from_str(goal.workload, false).expect("there is one");
            let mut figures = workload.columns().iter().map(|column| column.figure);
            assert!(figures.any(|figure| figure == goal.figure), "{goal:?}");
        }
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
