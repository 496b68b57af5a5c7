//! Gate: what was counted against what is recorded.
//!
//! The numbers belong to a compiler. Another version of it moves some of them by itself, so it is held to a wider margin, which only a mistake is beyond; and on another
//! processor or system nothing is compared.

use crate::numbers::Numbers;

/// Percent that a count may rise.
const RISE_MAX: f64 = 3.0;

/// The same with another version of the compiler.
const RISE_MAX_OTHER: f64 = 25.0;

pub(crate) struct Verdict {
    pub(crate) lines: Vec<String>,
    pub(crate) passed: bool,
}

/// A line for each count, and for all that is to be said of them.
pub(crate) fn compare(recorded: &Numbers, counted: &Numbers) -> Verdict {
    let mut verdict = Verdict { lines: Vec::new(), passed: true };
    let (then, now) = (&recorded.toolchain, &counted.toolchain);
    let rise_max = match () {
        () if now == then => RISE_MAX,
        () if now.host == then.host => RISE_MAX_OTHER,
        () => f64::INFINITY,
    };
    for (name, count) in &counted.counts {
        let before = recorded.get(name);
        // Half a tenth is what rounding makes.
        let change = before.map(|before| percent(before, *count)).filter(|change| change.abs() >= 0.05);
        verdict.lines.push(format!("{name:<24} {count:>9.2}{}", change.map_or(String::new(), |change| format!("{change:+8.1} %"))));
    }
    if now != then {
        let margin = if rise_max.is_finite() { format!("a rise up to {rise_max} % passes") } else { "any rise passes".to_string() };
        verdict.lines.push(format!("the numbers are for {then}, this is {now}: {margin}"));
    }
    for (name, count) in &counted.counts {
        let Some(before) = recorded.get(name) else {
            verdict.fail(format!("FAILED {name} has no number (scripts/instructions --record)"));
            continue;
        };
        let change = percent(before, *count);
        let line = format!("{name}: {before:.2} -> {count:.2} instructions, {change:+.1} %");
        if change > rise_max {
            verdict.fail(format!("FAILED {line}, at most {rise_max} % pass (if it is worth it: scripts/instructions --record)"));
        } else if change < -RISE_MAX && now == then {
            verdict.lines.push(format!("LOWER  {line}: let the number follow (scripts/instructions --record)"));
        }
    }
    for (name, _) in recorded.counts.iter().filter(|(name, _)| counted.get(name).is_none()) {
        verdict.fail(format!("FAILED {name} is not counted any more (scripts/instructions --record)"));
    }
    verdict
}

impl Verdict {
    fn fail(&mut self, line: String) {
        self.lines.push(line);
        self.passed = false;
    }
}

/// How much more it is.
fn percent(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(toolchain: &str, counts: &[(&str, f64)]) -> Numbers {
        let toolchain = toolchain.parse().unwrap();
        Numbers { toolchain, counts: counts.iter().map(|&(name, count)| (name.to_string(), count)).collect() }
    }

    /// What is said beside the counts, and whether it passes.
    fn said(recorded: &Numbers, counted: &Numbers) -> (Vec<String>, bool) {
        let mut verdict = compare(recorded, counted);
        (verdict.lines.split_off(counted.counts.len()), verdict.passed)
    }

    #[test]
    fn a_rise_fails_and_a_fall_is_said() {
        let recorded = numbers("rustc 1.95.0 x86_64", &[("arm", 100.0), ("cancel", 200.0)]);
        let of = |arm, cancel| numbers("rustc 1.95.0 x86_64", &[("arm", arm), ("cancel", cancel)]);
        assert_eq!(said(&recorded, &of(102.9, 194.1)), (vec![], true));
        let (lines, passed) = said(&recorded, &of(103.1, 200.0));
        assert!(!passed && lines.len() == 1);
        assert!(lines[0].starts_with("FAILED arm: 100.00 -> 103.10 instructions, +3.1 %"), "{}", lines[0]);
        let (lines, passed) = said(&recorded, &of(100.0, 190.0));
        assert!(passed && lines.len() == 1);
        assert!(lines[0].starts_with("LOWER  cancel: 200.00 -> 190.00 instructions, -5.0 %"), "{}", lines[0]);
    }

    #[test]
    fn another_compiler_has_a_wider_margin_and_another_processor_none() {
        let recorded = numbers("rustc 1.95.0 x86_64", &[("arm", 100.0)]);
        let newer = |arm| numbers("rustc 1.96.0 x86_64", &[("arm", arm)]);
        let (lines, passed) = said(&recorded, &newer(120.0));
        assert_eq!(lines, ["the numbers are for rustc 1.95.0 x86_64, this is rustc 1.96.0 x86_64: a rise up to 25 % passes"]);
        assert!(passed && !said(&recorded, &newer(130.0)).1);
        assert!(said(&recorded, &numbers("rustc 1.95.0 aarch64", &[("arm", 300.0)])).1);
    }

    #[test]
    fn every_count_has_a_number_and_every_number_a_count() {
        let (one, both) = (numbers("rustc 1 x", &[("arm", 1.0)]), numbers("rustc 1 x", &[("arm", 1.0), ("take", 1.0)]));
        assert_eq!(said(&one, &both), (vec!["FAILED take has no number (scripts/instructions --record)".to_string()], false));
        assert_eq!(said(&both, &one), (vec!["FAILED take is not counted any more (scripts/instructions --record)".to_string()], false));
    }
}
