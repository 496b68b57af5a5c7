//! Numbers: what was recorded, by name, and the toolchain that it belongs to; as it lies in the
//! repository.

use std::fmt::Write;
use std::process::Command;
use std::str::FromStr;

/// Numbers by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// `rustc`, its version, and the processor and system that it compiles for.
    pub toolchain: String,
    /// Their names, in order.
    pub numbers: Vec<(String, f64)>,
}

impl Numbers {
    /// The number of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        let mut numbers = self.numbers.iter();
        numbers
            .find(|(of, _)| of == name)
            .map(|&(_, number)| number)
    }

    /// The processor and system.
    pub(crate) fn host(&self) -> Option<&str> {
        self.toolchain.split(' ').nth(2)
    }

    /// The file's text, after its header.
    pub(crate) fn text(&self, digits: usize) -> String {
        let mut text = format!("{}\n", self.toolchain);
        for (name, number) in &self.numbers {
            writeln!(text, "{}", line(name, *number, digits)).expect("a string takes all");
        }
        text
    }
}

/// A name and its number, in columns.
pub(crate) fn line(name: &str, number: f64, digits: usize) -> String {
    format!("{name:<32} {number:>9.digits$}")
}

/// The toolchain that cargo uses here.
///
/// # Errors
/// If there is no `rustc`, or it does not tell.
pub fn toolchain() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output();
    let output = output.map_err(|error| format!("rustc -vV: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let of = |what: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(what));
        value.ok_or(format!("rustc -vV tells no {what}"))
    };
    Ok(format!("rustc {} {}", of("release: ")?, of("host: ")?))
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let toolchain = lines.next().unwrap_or_default().to_string();
        let number = |line: &str| {
            let number = line
                .split_once(' ')
                .and_then(|(name, number)| Some((name.to_string(), number.trim().parse().ok()?)));
            number.ok_or(format!("no number: '{line}'"))
        };
        let numbers = Self {
            toolchain,
            numbers: lines.map(number).collect::<Result<_, _>>()?,
        };
        match (numbers.toolchain.starts_with("rustc "), numbers.host()) {
            (true, Some(_)) => Ok(numbers),
            _ => Err(format!("no toolchain: '{}'", numbers.toolchain)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "rustc 1.95.0 x86_64-unknown-linux-gnu\narm 171.50\ndoorbell_ring 4\n";
        let numbers: Numbers = text.parse().expect("it is right");
        let of = ["arm", "doorbell_ring", "take"].map(|name| numbers.get(name));
        assert_eq!(of, [Some(171.5), Some(4.0), None]);
        assert_eq!(numbers.text(2).parse(), Ok(numbers));
        for wrong in [
            "",
            "gcc 1\narm 1",
            "rustc 1",
            "rustc 1 x\narm",
            "rustc 1 x\narm y",
        ] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }
}
