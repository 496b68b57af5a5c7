//! Numbers: what was recorded, by name, and the toolchain that it belongs to; as it lies in the
//! repository.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

const HEADER: &str = "\
# For one operation, by call and threads: cache lines fetched from another core, copies in other
# cores' caches ended, locked instructions on a line that another core had.
# Written by scripts/bench coherence --record.
";

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
}

/// The toolchain that cargo uses here.
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

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}{}", self.toolchain)?;
        let mut numbers = self.numbers.iter();
        numbers.try_for_each(|(name, number)| writeln!(f, "{name:<32} {number:>8.4}"))
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let toolchain = lines.next().unwrap_or_default().to_string();
        if !toolchain.starts_with("rustc ") {
            return Err(format!("no toolchain: '{toolchain}'"));
        }
        let number = |line: &str| {
            let number = line
                .split_once(' ')
                .and_then(|(name, number)| Some((name.to_string(), number.trim().parse().ok()?)));
            number.ok_or(format!("no number: '{line}'"))
        };
        let numbers = lines.map(number).collect::<Result<_, _>>()?;
        Ok(Self { toolchain, numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "rustc 1.95.0 x86_64-unknown-linux-gnu\narm_2_transfers 0.2957\nrearm_16 0\n";
        let numbers: Numbers = text.parse().expect("it is right");
        let of = ["arm_2_transfers", "rearm_16", "take"].map(|name| numbers.get(name));
        assert_eq!(of, [Some(0.2957), Some(0.0), None]);
        assert_eq!(numbers.to_string().parse(), Ok(numbers));
        for wrong in ["", "gcc 1\narm 1", "rustc 1 x\narm", "rustc 1 x\narm y"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }
}
