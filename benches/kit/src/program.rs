//! Program: its beginning and its end; counts, times and names on its command line.

use crate::command_line::{parse, wrong};
use clap::{Parser, ValueEnum};
use indicatif::HumanCount;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::process::{self, ExitCode};
use std::time::Duration;
use std::{env, fmt};

/// Reads the arguments and works. What `work` says is wrong is one line, and exit code 2.
pub fn run<A: Parser>(work: impl FnOnce(&A) -> Result<ExitCode, String>) -> ExitCode {
    match parse::<A>() {
        Ok(args) => work(&args).unwrap_or_else(|why| wrong::<A>(&why)),
        Err(code) => code,
    }
}

/// Prints a line. If nobody reads it (`million | head`, say) the process ends, with exit code 2.
pub fn say(line: fmt::Arguments<'_>) {
    say_text(&format!("{line}\n"));
}

/// Prints lines, as `say` prints one.
pub fn say_text(lines: &str) {
    let Err(error) = io::stdout().write_all(lines.as_bytes()) else {
        return;
    };
    if error.kind() != io::ErrorKind::BrokenPipe {
        let program = env::current_exe().unwrap_or_default();
        let name = program.file_stem().unwrap_or_default().display();
        eprintln!("{name}: standard output: {error}");
    }
    process::exit(2);
}

/// Reads a count within these bounds; k and M are thousands and millions.
pub fn count(
    allowed: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| {
        let (digits, unit) = match text.strip_suffix(['k', 'M']) {
            Some(digits) if text.ends_with('k') => (digits, 1_000),
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        };
        let digits = digits.replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("not a whole number, nor one with k or M".to_string());
        }
        // What does not fit is above every bound.
        let number = digits.parse().unwrap_or(usize::MAX);
        let count = number.saturating_mul(unit);
        if allowed.contains(&count) {
            return Ok(count);
        }
        let [least, most] = [allowed.start(), allowed.end()].map(|&end| HumanCount(end as u64));
        Err(format!("not between {least} and {most}"))
    }
}

/// Reads a time within these bounds.
pub fn duration(
    allowed: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{error} (say 500us, 1ms or 5s)"))?;
        if allowed.contains(&duration) {
            return Ok(duration);
        }
        let [least, most] =
            [allowed.start(), allowed.end()].map(|&end| humantime::format_duration(end));
        Err(format!("not between {least} and {most}"))
    }
}

/// The name of a value on the command line.
pub fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_string())
}

/// What `--help` says of a value.
pub fn about(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value
        .and_then(|value| value.get_help().map(ToString::to_string))
        .unwrap_or_default()
}

/// What was chosen, each value once; all if nothing was.
pub fn chosen<V: ValueEnum + PartialEq>(values: &[V]) -> Vec<V> {
    let values = if values.is_empty() {
        V::value_variants()
    } else {
        values
    };
    each_once(values.iter().cloned())
}

/// Each value once, where it comes first.
pub fn each_once<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for value in values {
        if !once.contains(&value) {
            once.push(value);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let count = count(1_000..=100_000_000);
        assert_eq!(count("20_000"), Ok(20_000));
        assert_eq!((count("10k"), count("2M")), (Ok(10_000), Ok(2_000_000)));
        assert_eq!(
            count("5"),
            Err("not between 1,000 and 100,000,000".to_string())
        );
        for wrong in [
            "",
            "k",
            "1",
            "999",
            "many",
            "101M",
            "99999999999999999999M",
            "-5k",
        ] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
