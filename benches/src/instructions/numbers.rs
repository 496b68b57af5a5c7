//! Numbers: instructions for one operation, by name, and the toolchain that they belong to; as they lie in the repository.

use crate::toolchain::Toolchain;
use std::fmt;
use std::str::FromStr;

const HEADER: &str = "\
# Instructions for one operation, by callgrind. Written by scripts/instructions --record.
";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) toolchain: Toolchain,
    pub(crate) counts: Vec<(String, f64)>,
}

impl Numbers {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.counts.iter().find(|(of, _)| of == name).map(|&(_, count)| count)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}{}", self.toolchain)?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{name:<24} {count:>9.2}"))
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let toolchain = lines.next().unwrap_or_default().parse()?;
        let count = |line: &str| {
            let count = line.split_once(' ').and_then(|(name, count)| Some((name.to_string(), count.trim().parse().ok()?)));
            count.ok_or(format!("no count: '{line}'"))
        };
        Ok(Self { toolchain, counts: lines.map(count).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let toolchain = Toolchain { rustc: "1.95.0".into(), host: "x86_64-unknown-linux-gnu".into() };
        let numbers = Numbers { toolchain, counts: vec![("arm".into(), 171.5), ("doorbell_ring".into(), 4.0)] };
        assert_eq!(numbers.to_string().parse(), Ok(numbers));
        assert_eq!("".parse::<Numbers>(), Err("no toolchain: ''".to_string()));
        assert_eq!("rustc 1 x\narm".parse::<Numbers>(), Err("no count: 'arm'".to_string()));
        assert_eq!("rustc 1 x\narm y".parse::<Numbers>(), Err("no count: 'arm y'".to_string()));
    }
}
