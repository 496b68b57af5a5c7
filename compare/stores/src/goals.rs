//! The goals for wheelwork's store on disk, and a verdict on each.

use wheelwork_kit::goals::{self, Claim, OURS, at_most, median, number};
use wheelwork_kit::line::Line;

/// What it stands on: its floor is that engine's own commit.
const ENGINE: &str = "redb";

/// An arm by one caller, as a multiple of the engine's own commit.
const OVER_FLOOR: f64 = 1.3;

const GOALS: &str = "
    arm        1024     kops          >= 500   durable arm, 1,024 callers, k/s
    arm        1024     call_us_p99   <= 5000  durable arm, 1,024 callers, p99 us
    pipelined  65536    kops          >= 900   durable arm, pipelined, k/s
    arm-cancel 1024     kops          >= 650   arm + cancel, 90 % cancelled, k ops/s
    arm-cancel 1024     written_bytes <= 200   arm + cancel, bytes written each
    fire-ack   1000000  kops          >= 500   fire + ack, k/s
    lateness   50000    late_ms_p99   <= 2.00  lateness at 50 k/s, p99 ms
    stored     10000000 reopen_ms     <= 1000  10 M timers, reopened, first fired, ms
    stored     10000000 killed_ms     <= 1000  10 M timers, killed, first fired, ms
    sweep      1000000  over_ms       <= 20.00 longest commit while sweeping, ms over
    stored     10000000 rss_mb        <= 100   10 M timers, memory after opening, MB
    stored     10000000 used_rss_mb   <= 100   10 M timers, memory in use, MB
";

/// All goals, looked at by what was measured; and the rates, by the best rival's.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let goals = goals::table(GOALS);
    let mut claims: Vec<_> = goals.iter().map(|goal| goal.claim(lines)).collect();
    claims.push(over_floor(lines));
    let rates = goals.iter().filter(|goal| goal.figure == "kops");
    claims.extend(rates.map(|goal| goal.against_rivals(lines)));
    claims
}

/// One caller's arm, by the engine's own commit.
fn over_floor(lines: &[Line]) -> Claim {
    let p50 = |workload: &str, subject| {
        let fits = |line: &&Line| line.workload == workload && line.timers == 1;
        let group: Vec<_> = lines.iter().filter(fits).collect();
        median(&group, subject, "call_us_p50")
    };
    let floor = p50("floor", ENGINE);
    let both = p50("arm", OURS).zip(floor);
    let beside = floor.map_or(String::new(), |floor| format!(" ({} us)", number(floor)));
    at_most(
        format!("durable arm, one caller, p50 <= {OVER_FLOOR} x {ENGINE}'s commit{beside}"),
        both.map(|(own, floor)| own / floor),
        OVER_FLOOR,
    )
}

/// The block at the end of the output.
pub(crate) fn verdicts(claims: &[Claim]) -> String {
    let head = "goals of the store on disk, for a quiet 2-core virtual machine";
    goals::verdicts(head, claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use clap::ValueEnum;
    use wheelwork_kit::line::Figures;

    fn line(workload: &str, subject: &str, count: usize, figure: (&str, f64)) -> Line {
        let mut line = Line::new(subject, workload, 2, count);
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
    fn nothing_measured_is_said() {
        let text = verdicts(&claims(&[]));
        let is_said = |line: &str| line.ends_with("not measured");
        assert!(text.lines().skip(2).all(is_said), "{text}");
    }

    #[test]
    fn goals_hold_or_are_missed() {
        let lines = [
            line("arm", OURS, 1_024, ("kops", 611.0)),
            line("arm", "fjall", 1_024, ("kops", 305.5)),
            line("arm", "redb", 1_024, ("kops", 110.0)),
            line("arm", OURS, 1, ("call_us_p50", 300.0)),
            line("floor", "redb", 1, ("call_us_p50", 200.0)),
            line("pipelined", OURS, 65_536, ("kops", 450.0)),
            line("stored", OURS, 10_000_000, ("rss_mb", 50.0)),
            line("stored", OURS, 1_000_000, ("reopen_ms", 50.0)),
            line("sweep", OURS, 1_000_000, ("over_ms", -1.0)),
        ];
        let text = verdicts(&claims(&lines));
        for (what, verdict) in [
            (
                "durable arm, 1,024 callers, k/s >= 500:",
                "holds by 1.22 x: 611",
            ),
            (
                "durable arm, pipelined, k/s >= 900:",
                "misses by 2.00 x: 450",
            ),
            ("arm: 1 x the best rival (fjall):", "holds by 2.00 x: 2.00"),
            ("1.3 x redb's commit (200 us):", "misses by 1.15 x: 1.50"),
            ("memory after opening, MB <= 100:", "holds by 2.00 x: 50.00"),
            ("reopened, first fired, ms <= 1000:", "not measured"),
            (
                "longest commit while sweeping, ms over <= 20.00:",
                "holds: -1.00",
            ),
        ] {
            let line = text.lines().find(|line| line.contains(what));
            let line = line.unwrap_or_else(|| panic!("{what} in {text}"));
            assert!(line.ends_with(&format!(" {verdict}")), "{line}");
        }
    }
}
