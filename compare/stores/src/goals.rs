//! The goals for wheelwork's store on disk, and a verdict on each.

use crate::workload::Workload;
use wheelwork_kit::beside::{best_rival, ratio};
use wheelwork_kit::goals::{self, Claim, at_most, number};
use wheelwork_kit::line::Line;
use wheelwork_kit::program;

const OURS: &str = "wheelwork";

/// What it stands on: its floor is that engine's own commit.
const ENGINE: &str = "redb";

/// An arm by one caller, as a multiple of the engine's own commit.
const OVER_FLOOR: f64 = 1.3;

const MANY: usize = 10_000_000;

/// Workload, its number, figure, whether it is a least or a most, limit, and what it is.
type Goal = (Workload, usize, &'static str, bool, f64, &'static str);

const GOALS: [Goal; 12] = [
    (
        Workload::Arm,
        1_024,
        "kops",
        true,
        500.0,
        "durable arm, 1,024 callers, k/s",
    ),
    (
        Workload::Arm,
        1_024,
        "call_us_p99",
        false,
        5_000.0,
        "durable arm, 1,024 callers, p99 us",
    ),
    (
        Workload::Pipelined,
        65_536,
        "kops",
        true,
        900.0,
        "durable arm, pipelined, k/s",
    ),
    (
        Workload::ArmCancel,
        1_024,
        "kops",
        true,
        650.0,
        "arm + cancel, 90 % cancelled, k ops/s",
    ),
    (
        Workload::ArmCancel,
        1_024,
        "written_bytes",
        false,
        200.0,
        "arm + cancel, bytes written each",
    ),
    (
        Workload::FireAck,
        1_000_000,
        "kops",
        true,
        500.0,
        "fire + ack, k/s",
    ),
    (
        Workload::Lateness,
        50_000,
        "late_ms_p99",
        false,
        2.0,
        "lateness at 50 k/s, p99 ms",
    ),
    (
        Workload::Stored,
        MANY,
        "reopen_ms",
        false,
        1_000.0,
        "10 M timers, reopened, first fired, ms",
    ),
    (
        Workload::Stored,
        MANY,
        "killed_ms",
        false,
        1_000.0,
        "10 M timers, killed, first fired, ms",
    ),
    (
        Workload::Sweep,
        1_000_000,
        "over_ms",
        false,
        20.0,
        "longest commit while sweeping, ms over",
    ),
    (
        Workload::Stored,
        MANY,
        "rss_mb",
        false,
        100.0,
        "10 M timers, memory after opening, MB",
    ),
    (
        Workload::Stored,
        MANY,
        "used_rss_mb",
        false,
        100.0,
        "10 M timers, memory in use, MB",
    ),
];

/// The lines of a workload with this number.
fn group(lines: &[Line], workload: Workload, count: usize) -> Vec<&Line> {
    let name = program::name(&workload);
    let fits = |line: &&Line| line.workload == name && line.timers == count;
    lines.iter().filter(fits).collect()
}

fn median(group: &[&Line], subject: &str, figure: &str) -> Option<f64> {
    let mut lines = group.iter();
    lines.find(|line| line.subject == subject)?.median(figure)
}

/// All goals, looked at by what was measured.
pub(crate) fn claims(lines: &[Line]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = GOALS
        .iter()
        .map(|&(workload, count, figure, at_least, limit, what)| {
            let sign = if at_least { ">=" } else { "<=" };
            let claim = if at_least { goals::at_least } else { at_most };
            claim(
                format!("{what} {sign} {}", number(limit)),
                median(&group(lines, workload, count), OURS, figure),
                limit,
            )
        })
        .collect();
    claims.push(over_floor(lines));
    claims.extend(against_rivals(lines));
    claims
}

/// One caller's arm, by the engine's own commit.
fn over_floor(lines: &[Line]) -> Claim {
    let floor = median(&group(lines, Workload::Floor, 1), ENGINE, "call_us_p50");
    let own = median(&group(lines, Workload::Arm, 1), OURS, "call_us_p50");
    let both = own.zip(floor);
    let beside = floor.map_or(String::new(), |floor| format!(" ({} us)", number(floor)));
    at_most(
        format!("durable arm, one caller, p50 <= {OVER_FLOOR} x {ENGINE}'s commit{beside}"),
        both.map(|(own, floor)| own / floor),
        OVER_FLOOR,
    )
}

/// The rates, by the best rival's of the same run.
fn against_rivals(lines: &[Line]) -> Vec<Claim> {
    let rates = GOALS.iter().filter(|(_, _, figure, ..)| *figure == "kops");
    rates
        .map(|&(workload, count, ..)| {
            let group = group(lines, workload, count);
            let column = &workload.columns()[0];
            let best = best_rival(group.iter().copied(), column.figure, true);
            let lead = median(&group, OURS, column.figure).zip(best);
            let rival = lead.map_or(String::new(), |(_, (rival, _))| format!(" ({rival})"));
            goals::at_least(
                format!("{}: 1 x the best rival{rival}", program::name(&workload)),
                lead.map(|(own, (_, best))| ratio(own, best, true)),
                1.0,
            )
        })
        .collect()
}

/// The block at the end of the output.
pub(crate) fn verdicts(claims: &[Claim]) -> String {
    let head = "goals of the store on disk, for a quiet 2-core virtual machine";
    goals::verdicts(head, claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wheelwork_kit::line::Figures;

    fn line(workload: &str, subject: &str, count: usize, figure: (&str, f64)) -> Line {
        let mut line = Line::new(subject, workload, 2, count);
        line.summarize(&[Figures::from([figure])]);
        line
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
            line("stored", OURS, MANY, ("rss_mb", 50.0)),
            line("stored", OURS, 1_000_000, ("reopen_ms", 50.0)),
            line("sweep", OURS, 1_000_000, ("over_ms", -1.0)),
        ];
        let text = verdicts(&claims(&lines));
        for expected in [
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
            let line = text.lines().find(|line| line.contains(expected.0));
            let line = line.unwrap_or_else(|| panic!("{expected:?} in {text}"));
            assert!(line.ends_with(&format!(" {}", expected.1)), "{line}");
        }
    }
}
