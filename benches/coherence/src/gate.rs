//! Gate: what was counted against what is recorded.
//!
//! The numbers belong to a compiler. Another version of it lays some data out otherwise, so it is
//! held to a wider margin, which a counter that all threads share is still beyond.

use crate::numbers::Numbers;

/// How much a number may rise: a share of it, and a rest.
#[derive(Clone, Copy)]
struct Margin {
    percent: f64,
    rest: f64,
}

const SAME: Margin = Margin {
    percent: 3.0,
    rest: 0.005,
};

/// With another version of the compiler.
const OTHER: Margin = Margin {
    percent: 25.0,
    rest: 0.05,
};

/// What begins a line of a number that is not as it should be.
pub const FAILED: &str = "FAILED ";

const RECORD: &str = "scripts/bench coherence --record";

impl Margin {
    fn is_beyond(self, before: f64, now: f64) -> bool {
        now > before * (1.0 + self.percent / 100.0) + self.rest
    }
}

/// A line for each number, and for all that is to be said of them.
#[must_use]
pub fn compare(recorded: &Numbers, counted: &Numbers) -> Vec<String> {
    let (then, now) = (&recorded.toolchain, &counted.toolchain);
    let margin = if now == then { SAME } else { OTHER };
    let Margin { percent, rest } = margin;
    let (mut lines, mut said) = (Vec::new(), Vec::new());
    for (name, number) in &counted.numbers {
        let Some(before) = recorded.get(name) else {
            lines.push(format!("{name:<32} {number:>8.4}"));
            said.push(format!("{FAILED}{name} has no number ({RECORD})"));
            continue;
        };
        // What rounding makes is no change.
        let change = number - before;
        let change = match change.abs() {
            0.0001.. => format!("{change:+9.4}"),
            _ => String::new(),
        };
        lines.push(format!("{name:<32} {number:>8.4}{change}"));
        let line = format!("{name}: {before:.4} -> {number:.4} an operation");
        if margin.is_beyond(before, *number) {
            let most = format!("at most {percent} % + {rest} pass");
            said.push(format!(
                "{FAILED}{line}, {most} (if it is worth it: {RECORD})"
            ));
        } else if now == then && margin.is_beyond(*number, before) {
            said.push(format!("LOWER  {line}: let the number follow ({RECORD})"));
        }
    }
    if now != then {
        let rise = format!("a rise up to {percent} % + {rest} passes");
        lines.push(format!("the numbers are for {then}, this is {now}: {rise}"));
    }
    lines.extend(said);
    let names = recorded.numbers.iter().map(|(name, _)| name);
    let lost = names.filter(|name| counted.get(name).is_none());
    lines.extend(lost.map(|name| format!("{FAILED}{name} is not counted any more ({RECORD})")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(toolchain: &str, numbers: &[(&str, f64)]) -> Numbers {
        let numbers = numbers.iter();
        Numbers {
            toolchain: toolchain.to_string(),
            numbers: numbers
                .map(|&(name, number)| (name.to_string(), number))
                .collect(),
        }
    }

    /// What is said beside the numbers begins so.
    fn assert_said(recorded: &Numbers, counted: &Numbers, expected: &[&str]) {
        let said = compare(recorded, counted).split_off(counted.numbers.len());
        let as_expected = said
            .iter()
            .zip(expected)
            .all(|(said, begin)| said.starts_with(begin));
        assert!(as_expected && said.len() == expected.len(), "{said:?}");
    }

    #[test]
    fn a_rise_fails_and_a_fall_is_said() {
        let of = |arm, rearm| numbers("rustc 1 x", &[("arm", arm), ("rearm", rearm)]);
        let recorded = of(1.0, 0.0);
        assert_said(&recorded, &of(1.034, 0.004), &[]);
        let rises = [
            "FAILED arm: 1.0000 -> 1.0400 an",
            "FAILED rearm: 0.0000 -> 0.0060 an",
        ];
        assert_said(&recorded, &of(1.04, 0.006), &rises);
        assert_said(
            &recorded,
            &of(0.9, 0.0),
            &["LOWER  arm: 1.0000 -> 0.9000 an"],
        );
    }

    /// On two threads such a counter costs half a transfer more.
    #[test]
    fn a_shared_counter_is_beyond_the_margin_of_another_compiler_too() {
        let recorded = numbers("rustc 1 x", &[("window", 0.53)]);
        let other = "the numbers are for rustc 1 x, this is rustc 2 x: a rise";
        let counted = |number| numbers("rustc 2 x", &[("window", number)]);
        assert_said(&recorded, &counted(0.7), &[other]);
        assert_said(&recorded, &counted(1.03), &[other, "FAILED window"]);
    }

    #[test]
    fn every_count_has_a_number_and_every_number_a_count() {
        let one = numbers("rustc 1 x", &[("arm", 1.0)]);
        let both = numbers("rustc 1 x", &[("arm", 1.0), ("fire", 1.0)]);
        assert_said(&one, &both, &["FAILED fire has no number"]);
        assert_said(&both, &one, &["FAILED fire is not counted any more"]);
    }
}
