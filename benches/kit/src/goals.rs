//! Goals: what should hold, and whether it does by what was measured.

use crate::beside::ratio;
use serde_json::{Value, json};
use std::fmt::Write;

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
            by if by < 1.005 => format!("{verdict} by less than 0.01 x: {measured}"),
            by => format!("{verdict} by {by:.2} x: {measured}"),
        }
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
        let close = "misses by less than 0.01 x: 49.99";
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
