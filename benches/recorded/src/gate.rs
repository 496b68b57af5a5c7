//! Gate: what was counted against what is recorded.
//!
//! The numbers belong to a compiler. Another version of it moves some of them by itself, so it is
//! held to a wider margin, which only a mistake is beyond. On another processor or system nothing
//! is compared.

use crate::numbers::{Numbers, line};
use std::fmt;
use std::fs;
use std::path::Path;

/// How much a number may rise: a share of it, and a rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The share.
    pub percent: f64,
    /// The rest, in the number's unit.
    pub rest: f64,
}

/// How counts of a kind are written, and held against recorded ones.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What the file begins with.
    pub header: &'static str,
    /// What a number is: `instructions`.
    pub unit: &'static str,
    /// Digits after the point.
    pub digits: usize,
    /// The command that records.
    pub command: &'static str,
    /// By the compiler of the recorded numbers.
    pub margin: Margin,
    /// By another version of it.
    pub other: Margin,
}

/// What begins a line of a number that is not as it should be.
const FAILED: &str = "FAILED ";

impl Margin {
    const NONE: Self = Self {
        percent: f64::INFINITY,
        rest: 0.0,
    };

    fn is_beyond(self, before: f64, now: f64) -> bool {
        now > before * (1.0 + self.percent / 100.0) + self.rest
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => write!(f, "any rise passes"),
            Self { percent, rest: 0.0 } => write!(f, "a rise up to {percent} % passes"),
            Self { percent, rest } => write!(f, "a rise up to {percent} % + {rest} passes"),
        }
    }
}

impl Record {
    /// Writes what was counted to the file, or compares and prints a line for each number. Whether
    /// all is as it was, or better. Of the recorded numbers those that `only` names are compared.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is no record.
    pub fn judge(
        &self,
        file: &Path,
        counted: &Numbers,
        records: bool,
        only: impl Fn(&str) -> bool,
    ) -> Result<bool, String> {
        let error = |error| format!("{}: {error}", file.display());
        if records {
            let text = format!("{}{}", self.header, counted.text(self.digits));
            fs::write(file, &text).map_err(error)?;
            print!("{text}");
            return Ok(true);
        }
        let mut recorded: Numbers = fs::read_to_string(file).map_err(error)?.parse()?;
        recorded.numbers.retain(|(name, _)| only(name));
        let lines = self.compare(&recorded, counted);
        lines.iter().for_each(|line| println!("{line}"));
        Ok(!lines.iter().any(|line| line.starts_with(FAILED)))
    }

    /// A line for each number, and for all that is to be said of them.
    fn compare(&self, recorded: &Numbers, counted: &Numbers) -> Vec<String> {
        let (then, now) = (&recorded.toolchain, &counted.toolchain);
        let margin = match () {
            () if now == then => self.margin,
            () if recorded.host() == counted.host() => self.other,
            () => Margin::NONE,
        };
        let &Self {
            digits, command, ..
        } = self;
        let (mut lines, mut said) = (Vec::new(), Vec::new());
        for (name, number) in &counted.numbers {
            let shown = line(name, *number, digits);
            let Some(before) = recorded.get(name) else {
                lines.push(shown);
                said.push(format!("{FAILED}{name} has no number ({command})"));
                continue;
            };
            let change = change(before, *number, digits);
            lines.push(
                format!("{shown}{:>10}", change.as_deref().unwrap_or(""))
                    .trim_end()
                    .to_string(),
            );
            let line = format!(
                "{name}: {before:.digits$} -> {number:.digits$} {}, {}",
                self.unit,
                change.as_deref().unwrap_or("0 %")
            );
            if margin.is_beyond(before, *number) {
                said.push(format!(
                    "{FAILED}{line}: {margin} (if it is worth it: {command})"
                ));
            } else if now == then && margin.is_beyond(*number, before) {
                said.push(format!("LOWER  {line}: let the number follow ({command})"));
            }
        }
        if now != then {
            lines.push(format!(
                "the numbers are for {then}, this is {now}: {margin}"
            ));
        }
        lines.extend(said);
        let names = recorded.numbers.iter().map(|(name, _)| name);
        let lost = names.filter(|name| counted.get(name).is_none());
        lines
            .extend(lost.map(|name| format!("{FAILED}{name} is not counted any more ({command})")));
        lines
    }
}

/// The change of a number, if it is more than what rounding makes: in percent, or from nothing.
fn change(before: f64, now: f64, digits: usize) -> Option<String> {
    let least = 0.5 * 0.1_f64.powi(digits as i32);
    let percent = (now / before - 1.0) * 100.0;
    match (now - before).abs() > least {
        true if percent.is_infinite() => Some("new".to_string()),
        true if percent.abs() >= 0.05 => Some(format!("{percent:+.1} %")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record = Record {
        header: "# instructions\n",
        unit: "instructions",
        digits: 2,
        command: "record",
        margin: Margin {
            percent: 3.0,
            rest: 0.0,
        },
        other: Margin {
            percent: 25.0,
            rest: 0.0,
        },
    };

    /// Of lines between cores, which may be none.
    const LINES: Record = Record {
        digits: 4,
        unit: "an operation",
        margin: Margin {
            percent: 3.0,
            rest: 0.005,
        },
        other: Margin {
            percent: 25.0,
            rest: 0.05,
        },
        ..RECORD
    };

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
    fn assert_said(record: &Record, recorded: &Numbers, counted: &Numbers, expected: &[&str]) {
        let said = record
            .compare(recorded, counted)
            .split_off(counted.numbers.len());
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
        assert_said(&RECORD, &recorded, &of(102.9, 194.2), &[]);
        let rise = "FAILED arm: 100.00 -> 103.10 instructions, +3.1 %: a rise up to 3 % passes";
        assert_said(&RECORD, &recorded, &of(103.1, 200.0), &[rise]);
        let fall = "LOWER  cancel: 200.00 -> 190.00 instructions, -5.0 %";
        assert_said(&RECORD, &recorded, &of(100.0, 190.0), &[fall]);
    }

    #[test]
    fn what_was_none_may_be_next_to_none() {
        let of = |arm, rearm| numbers("rustc 1 x", &[("arm", arm), ("rearm", rearm)]);
        let recorded = of(1.0, 0.0);
        assert_said(&LINES, &recorded, &of(1.034, 0.004), &[]);
        let rises = [
            "FAILED arm: 1.0000 -> 1.0400 an operation, +4.0 %: a rise up to 3 % + 0.005 passes",
            "FAILED rearm: 0.0000 -> 0.0060 an operation, new",
        ];
        assert_said(&LINES, &recorded, &of(1.04, 0.006), &rises);
        let fall = "LOWER  arm: 1.0000 -> 0.9000 an operation, -10.0 %";
        assert_said(&LINES, &recorded, &of(0.9, 0.0), &[fall]);
    }

    #[test]
    fn another_compiler_has_a_wider_margin_and_another_processor_none() {
        let recorded = numbers("rustc 1.95.0 x86_64", &[("arm", 100.0)]);
        let of = |toolchain, arm| numbers(toolchain, &[("arm", arm)]);
        let wider = "the numbers are for rustc 1.95.0 x86_64, this is rustc 1.96.0 x86_64: a rise up to 25 % passes";
        assert_said(
            &RECORD,
            &recorded,
            &of("rustc 1.96.0 x86_64", 120.0),
            &[wider],
        );
        let fails = [wider, "FAILED arm"];
        assert_said(
            &RECORD,
            &recorded,
            &of("rustc 1.96.0 x86_64", 130.0),
            &fails,
        );
        let none = "the numbers are for rustc 1.95.0 x86_64, this is rustc 1.95.0 aarch64: any";
        assert_said(
            &RECORD,
            &recorded,
            &of("rustc 1.95.0 aarch64", 300.0),
            &[none],
        );
    }

    /// On two threads a counter that all share costs half a line more.
    #[test]
    fn a_shared_counter_is_beyond_the_margin_of_another_compiler_too() {
        let recorded = numbers("rustc 1 x", &[("window", 0.53)]);
        let other = "the numbers are for rustc 1 x, this is rustc 2 x: a rise";
        let counted = |number| numbers("rustc 2 x", &[("window", number)]);
        assert_said(&LINES, &recorded, &counted(0.7), &[other]);
        assert_said(&LINES, &recorded, &counted(1.03), &[other, "FAILED window"]);
    }

    #[test]
    fn every_count_has_a_number_and_every_number_a_count() {
        let one = numbers("rustc 1 x", &[("arm", 1.0)]);
        let both = numbers("rustc 1 x", &[("arm", 1.0), ("take", 1.0)]);
        assert_said(&RECORD, &one, &both, &["FAILED take has no number"]);
        assert_said(
            &RECORD,
            &both,
            &one,
            &["FAILED take is not counted any more"],
        );
    }

    #[test]
    fn what_is_recorded_is_compared() {
        let file = std::env::temp_dir().join(format!("recorded-{}", std::process::id()));
        let of = |arm| numbers("rustc 1 x", &[("arm", arm), ("take", 7.0)]);
        assert_eq!(RECORD.judge(&file, &of(100.0), true, |_| true), Ok(true));
        let only_arm = numbers("rustc 1 x", &[("arm", 102.0)]);
        assert_eq!(
            RECORD.judge(&file, &only_arm, false, |name| name == "arm"),
            Ok(true)
        );
        assert_eq!(RECORD.judge(&file, &only_arm, false, |_| true), Ok(false));
        assert_eq!(RECORD.judge(&file, &of(104.0), false, |_| true), Ok(false));
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(
            text.starts_with("# instructions\nrustc 1 x\narm "),
            "{text}"
        );
        fs::remove_file(&file).expect("it is there");
        assert!(RECORD.judge(&file, &of(1.0), false, |_| true).is_err());
    }
}
