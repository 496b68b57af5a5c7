//! Gate: what was counted against what is recorded.
//!
//! The numbers belong to a compiler. Another version of it moves some of them by itself, so it is
//! held to a wider margin, which only a mistake is beyond; and on another processor or system
//! nothing is compared.

use crate::numbers::Numbers;

/// Percent that a count may rise.
const RISE_MAX: f64 = 3.0;

/// The same with another version of the compiler.
const RISE_MAX_OTHER: f64 = 25.0;

/// What begins a line of a count that is not as it should be.
pub(crate) const FAILED: &str = "FAILED ";

const RECORD: &str = "scripts/bench instructions --record";

/// A line for each count, and for all that is to be said of them.
pub(crate) fn compare(recorded: &Numbers, counted: &Numbers) -> Vec<String> {
    let (then, now) = (&recorded.toolchain, &counted.toolchain);
    let (rise_max, margin) = match () {
        () if now == then => (RISE_MAX, String::new()),
        () if recorded.host() == counted.host() => (
            RISE_MAX_OTHER,
            format!("a rise up to {RISE_MAX_OTHER} % passes"),
        ),
        () => (f64::INFINITY, "any rise passes".to_string()),
    };
    let (mut lines, mut said) = (Vec::new(), Vec::new());
    for (name, count) in &counted.counts {
        let Some(before) = recorded.get(name) else {
            lines.push(format!("{name:<24} {count:>9.2}"));
            said.push(format!("{FAILED}{name} has no number ({RECORD})"));
            continue;
        };
        let percent = (count / before - 1.0) * 100.0;
        // Half a tenth is what rounding makes.
        let change = match percent.abs() {
            0.05.. => format!("{percent:+8.1} %"),
            _ => String::new(),
        };
        lines.push(format!("{name:<24} {count:>9.2}{change}"));
        let line = format!("{name}: {before:.2} -> {count:.2} instructions, {percent:+.1} %");
        if percent > rise_max {
            let most = format!("at most {rise_max} % pass (if it is worth it: {RECORD})");
            said.push(format!("{FAILED}{line}, {most}"));
        } else if percent < -RISE_MAX && now == then {
            said.push(format!("LOWER  {line}: let the number follow ({RECORD})"));
        }
    }
    if now != then {
        lines.push(format!(
            "the numbers are for {then}, this is {now}: {margin}"
        ));
    }
    lines.extend(said);
    let names = recorded.counts.iter().map(|(name, _)| name);
    let lost = names.filter(|name| counted.get(name).is_none());
    lines.extend(lost.map(|name| format!("{FAILED}{name} is not counted any more ({RECORD})")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(toolchain: &str, counts: &[(&str, f64)]) -> Numbers {
        let counts = counts.iter();
        Numbers {
            toolchain: toolchain.to_string(),
            counts: counts
                .map(|&(name, count)| (name.to_string(), count))
                .collect(),
        }
    }

    /// What is said beside the counts begins so.
    fn assert_said(recorded: &Numbers, counted: &Numbers, expected: &[&str]) {
        let said = compare(recorded, counted).split_off(counted.counts.len());
        let as_expected = said
            .iter()
            .zip(expected)
            .all(|(said, begin)| said.starts_with(begin));
        assert!(as_expected && said.len() == expected.len(), "{said:?}");
    }

    #[test]
    fn a_rise_fails_and_a_fall_is_said() {
        let of = |arm, cancel| numbers("rustc 1.95.0 x86_64", &[("arm", arm), ("cancel", cancel)]);
        let recorded = of(100.0, 200.0);
        assert_said(&recorded, &of(102.9, 194.1), &[]);
        let rise = "FAILED arm: 100.00 -> 103.10 instructions, +3.1 %, at most 3 % pass";
        assert_said(&recorded, &of(103.1, 200.0), &[rise]);
        let fall = "LOWER  cancel: 200.00 -> 190.00 instructions, -5.0 %";
        assert_said(&recorded, &of(100.0, 190.0), &[fall]);
    }

    #[test]
    fn another_compiler_has_a_wider_margin_and_another_processor_none() {
        let recorded = numbers("rustc 1.95.0 x86_64", &[("arm", 100.0)]);
        let of = |toolchain, arm| numbers(toolchain, &[("arm", arm)]);
        let wider = "the numbers are for rustc 1.95.0 x86_64, this is rustc 1.96.0 x86_64: a rise up to 25 % passes";
        assert_said(&recorded, &of("rustc 1.96.0 x86_64", 120.0), &[wider]);
        let fails = [wider, "FAILED arm"];
        assert_said(&recorded, &of("rustc 1.96.0 x86_64", 130.0), &fails);
        let none = "the numbers are for rustc 1.95.0 x86_64, this is rustc 1.95.0 aarch64: any";
        assert_said(&recorded, &of("rustc 1.95.0 aarch64", 300.0), &[none]);
    }

    #[test]
    fn every_count_has_a_number_and_every_number_a_count() {
        let one = numbers("rustc 1 x", &[("arm", 1.0)]);
        let both = numbers("rustc 1 x", &[("arm", 1.0), ("take", 1.0)]);
        assert_said(&one, &both, &["FAILED take has no number"]);
        assert_said(&both, &one, &["FAILED take is not counted any more"]);
    }
}
