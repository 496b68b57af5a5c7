//! Toolchain: what made the program whose instructions are counted.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// The version of rustc.
    pub(crate) rustc: String,
    /// The processor and system that it compiles for.
    pub(crate) host: String,
}

impl Toolchain {
    /// The one that cargo uses here.
    pub(crate) fn installed() -> Result<Self, String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc -vV: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let of = |what: &str| text.lines().find_map(|line| line.strip_prefix(what)).map(str::to_string).ok_or("rustc -vV says nothing");
        Ok(Self { rustc: of("release: ")?, host: of("host: ")? })
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} {}", self.rustc, self.host)
    }
}

impl FromStr for Toolchain {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let parts = line.strip_prefix("rustc ").and_then(|parts| parts.split_once(' '));
        let (rustc, host) = parts.ok_or(format!("no toolchain: '{line}'"))?;
        Ok(Self { rustc: rustc.to_string(), host: host.to_string() })
    }
}
