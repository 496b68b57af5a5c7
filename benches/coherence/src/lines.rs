//! Lines: numbers for the cache lines of a run, in the order of their first use.

use crate::access::{Access, Kind, LINE};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An access, as it is replayed: the number of its line and its kind, in 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch(u32);

impl Touch {
    /// A touch of the line with this number.
    #[must_use]
    pub const fn new(line: u32, kind: Kind) -> Self {
        Self(line << 2 | kind as u32)
    }

    /// The number of its line.
    #[must_use]
    pub const fn line(self) -> u32 {
        self.0 >> 2
    }

    /// What it does.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Read,
            1 => Kind::Write,
            _ => Kind::Locked,
        }
    }
}

/// One core's part of a round.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The core.
    pub core: usize,
    /// Its accesses.
    pub touches: Vec<Touch>,
    /// For each access, its site.
    pub sites: Vec<u64>,
    /// Where its operations end.
    pub ends: Vec<u32>,
    /// Whether it is counted.
    pub is_counted: bool,
    /// Whether nothing keeps others out while it is at work, so that others may come in between
    /// any two accesses.
    pub is_open: bool,
}

/// The numbers of lines.
#[derive(Debug, Default)]
pub struct Lines(HashMap<u64, u32, BuildHasherDefault<Mixed>>);

impl Lines {
    /// How many lines have a number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no line has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Numbers the lines of a log.
    #[must_use]
    pub fn number(&mut self, core: usize, log: &[Access]) -> Part {
        let mut part = Part {
            core,
            ..Part::default()
        };
        for access in log {
            let Some((address, kind)) = access.what() else {
                part.ends.push(part.touches.len() as u32);
                continue;
            };
            let next = self.0.len() as u32;
            let line = *self.0.entry(address / LINE as u64).or_insert(next);
            part.touches.push(Touch::new(line, kind));
            part.sites.push(access.site);
        }
        part
    }
}

/// A hash of one number, alike in each run.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("lines are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_in_the_order_of_their_first_use() {
        let mut lines = Lines::default();
        let access = |address| Access::new(address, Kind::Write, 9);
        let log = [access(640), access(0), Access::END, access(703), access(64)];
        let part = lines.number(2, &log);
        let numbers: Vec<_> = part.touches.iter().map(|touch| touch.line()).collect();
        assert_eq!(
            (numbers, part.ends, part.core),
            (vec![0, 1, 0, 2], vec![2], 2)
        );
        assert_eq!((lines.len(), part.sites), (3, vec![9; 4]));
        assert_eq!(part.touches[0].kind(), Kind::Write);
    }
}
