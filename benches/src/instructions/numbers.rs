//! Numbers: instructions for one operation, by name, and the toolchain that they belong to; as they
//! lie in the repository.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

const HEADER: &str = "\
# Instructions for one operation, by callgrind. Written by scripts/bench instructions --record.
";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// `rustc`, its version, and the processor and system that it compiles for.
    pub(crate) toolchain: String,
    pub(crate) counts: Vec<(String, f64)>,
}

impl Numbers {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        let mut counts = self.counts.iter();
        counts.find(|(of, _)| of == name).map(|&(_, count)| count)
    }

    /// The processor and system.
    pub(crate) fn host(&self) -> Option<&str> {
        self.toolchain.split(' ').nth(2)
    }
}

/// The toolchain that cargo uses here.
pub(crate) fn toolchain() -> Result<String, String> {
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

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}{}", self.toolchain)?;
        let mut counts = self.counts.iter();
        counts.try_for_each(|(name, count)| writeln!(f, "{name:<24} {count:>9.2}"))
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let toolchain = lines.next().unwrap_or_default().to_string();
        let count = |line: &str| {
            let count = line
                .split_once(' ')
                .and_then(|(name, count)| Some((name.to_string(), count.trim().parse().ok()?)));
            count.ok_or(format!("no count: '{line}'"))
        };
        let numbers = Self {
            toolchain,
            counts: lines.map(count).collect::<Result<_, _>>()?,
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
        assert_eq!(numbers.to_string().parse(), Ok(numbers));
        for wrong in ["", "rustc 1", "rustc 1 x\narm", "rustc 1 x\narm y"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }
}
