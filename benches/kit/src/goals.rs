//! Goals: what should hold, and whether it does by what was measured.

use crate::beside::{best_rival, ratio};
use crate::line::Line;
use serde_json::{Value, json};
use std::fmt::Write;

/// wheelwork's usual subject.
pub const OURS: &str = "wheelwork";

/// A claim, what was measured of it, and what it takes.
#[derive(Clone, Debug)]
pub struct Claim {
    what: String,
    measured: Option<f64>,
    limit: f64,
    at_least: bool,
}

/// What was measured must not be more than the limit.
pub fn at_most(what: String, measured: Option<f64>, limit: f64) -> Claim {
    Claim {
        what,
        measured,
        limit,
        at_least: false,
    }
}

/// What was measured must not be less than the limit.
pub fn at_least(what: String, measured: Option<f64>, limit: f64) -> Claim {
    Claim {
        at_least: true,
        ..at_most(what, measured, limit)
    }
}

impl Claim {
    /// The line of `--json`.
    pub fn to_json(&self) -> Value {
        json!({ "goal": self.what, "verdict": self.verdict() })
    }

    fn verdict(&self) -> String {
        let Some(measured) = self.measured else {
            return "not measured".to_string();
        };
        let (verdict, by) = match self.at_least == (measured >= self.limit) {
            _ if measured == self.limit => ("holds", 1.0),
            true => ("holds", ratio(measured, self.limit, self.at_least)),
            false => ("misses", ratio(measured, self.limit, !self.at_least)),
        };
        let measured = number(measured);
        match by {
            by if !by.is_finite() || by <= 0.0 || by == 1.0 => format!("{verdict}: {measured}"),
            by if by < 1.005 => format!("{verdict} by less than 1 %: {measured}"),
            by => format!("{verdict} by {by:.2} x: {measured}"),
        }
    }
}

/// A subject's median of a figure.
pub fn median(group: &[&Line], subject: &str, figure: &str) -> Option<f64> {
    let mut lines = group.iter();
    lines.find(|line| line.subject == subject)?.median(figure)
}

/// The goal that the subject's figure is a given number of times as good as the best rival's.
pub fn against_rivals(
    what: &str,
    group: &[&Line],
    subject: &str,
    (figure, higher_is_better): (&str, bool),
    limit: f64,
) -> Claim {
    let best = best_rival(group.iter().copied(), figure, higher_is_better);
    let lead = median(group, subject, figure).zip(best);
    let rival = lead.map_or(String::new(), |(_, (rival, _))| format!(" ({rival})"));
    at_least(
        format!("{what}: {limit} x the best rival{rival}"),
        lead.map(|(own, (_, best))| ratio(own, best, higher_is_better)),
        limit,
    )
}

/// What a figure of wheelwork's should be in a workload.
#[derive(Clone, Debug)]
pub struct Goal<'a> {
    /// By its name.
    pub workload: &'a str,
    /// The workload's number, if the goal is for one.
    pub count: Option<usize>,
    /// Which figure.
    pub figure: &'a str,
    /// More is better.
    pub at_least: bool,
    limit: &'a str,
    what: &'a str,
}

/// Goals as a table, one a line: workload, its number or `-`, figure, `>=` or `<=`, limit, and what
/// it is.
pub fn table(text: &str) -> Vec<Goal<'_>> {
    let goal = |line| {
        let mut rest: &str = line;
        let mut word = || {
            let (word, after) = rest.trim_start().split_once(' ').expect("a word more");
            rest = after;
            word
        };
        Goal {
            workload: word(),
            count: word().parse().ok(),
            figure: word(),
            at_least: word() == ">=",
            limit: word(),
            what: rest.trim(),
        }
    };
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(goal).collect()
}

impl Goal<'_> {
    fn group<'l>(&self, lines: &'l [Line]) -> Vec<&'l Line> {
        let fits = |line: &&Line| {
            line.workload == self.workload && self.count.is_none_or(|count| line.timers == count)
        };
        lines.iter().filter(fits).collect()
    }

    /// Whether it is reached.
    pub fn claim(&self, lines: &[Line]) -> Claim {
        let (claim, sign): (fn(_, _, _) -> _, _) = match self.at_least {
            true => (at_least, ">="),
            false => (at_most, "<="),
        };
        let measured = median(&self.group(lines), OURS, self.figure);
        let limit = self.limit.parse().expect("a limit is a number");
        claim(
            format!("{} {sign} {}", self.what, self.limit),
            measured,
            limit,
        )
    }

    /// Its figure should be as good as the best rival's.
    pub fn against_rivals(&self, lines: &[Line]) -> Claim {
        let figure = (self.figure, self.at_least);
        against_rivals(self.workload, &self.group(lines), OURS, figure, 1.0)
    }
}

/// Three digits or more.
pub fn number(number: f64) -> String {
    let digits = match number.abs() {
        0.0 | 100.0.. => 0,
        1.0.. => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

/// The block at the end of the output.
pub fn verdicts(head: &str, claims: &[Claim]) -> String {
    let mut text = format!("\n{head}\n");
    for claim in claims {
        let what = format!("{}:", claim.what);
        let _ = writeln!(text, "  goal {what:<66} {}", claim.verdict());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_or_are_missed_or_were_not_measured() {
        let goal = |claim: fn(_, _, _) -> _, measured, limit| {
            let claim: Claim = claim("it".to_string(), measured, limit);
            claim.verdict()
        };
        assert_eq!(goal(at_least, None, 1.0), "not measured");
        assert_eq!(goal(at_least, Some(611.0), 500.0), "holds by 1.22 x: 611");
        assert_eq!(goal(at_least, Some(450.0), 900.0), "misses by 2.00 x: 450");
        let close = "misses by less than 1 %: 49.99";
        assert_eq!(goal(at_least, Some(49.99), 50.0), close);
        assert_eq!(goal(at_most, Some(2.0), 1.5), "misses by 1.33 x: 2.00");
        assert_eq!(goal(at_most, Some(50.0), 100.0), "holds by 2.00 x: 50.00");
        assert_eq!(goal(at_most, Some(0.0), 0.0), "holds: 0");
        assert_eq!(goal(at_most, Some(-1.0), 20.0), "holds: -1.00");
        assert_eq!(goal(at_most, Some(0.2), -0.01), "misses: 0.200");
        let text = verdicts("goals", &[at_most("it".to_string(), None, 1.0)]);
        assert!(text.starts_with("\ngoals\n  goal it:  "), "{text}");
    }
}
