//! Mesi: the private caches of all cores, and who has which line in which state.
//!
//! A line that one core alone has is exclusive or modified: that core reads and writes it for
//! nothing. A line that several cores have is shared: they read it for nothing. What counts is an
//! access to a line that the core does not have, and a write to a line that others have too. The
//! caches are those of AMD's Zen 4: 32 KiB of 8 ways, and 1 MiB of 8 ways that contains it. Nothing
//! is fetched ahead.
//!
//! Limit: a line's set follows from its number, not from its address, so that the counts do not
//! depend on where the system puts memory.

use crate::access::Kind;
use crate::cache::{Cache, Size};
use crate::log::CORES_MAX;
use std::ops::AddAssign;

const L1: Size = Size {
    lines: 512,
    ways: 8,
};
const L2: Size = Size {
    lines: 16_384,
    ways: 8,
};

/// What accesses cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines fetched from another core's caches.
    pub transfers: u64,
    /// Copies in other cores' caches that a write has ended.
    pub invalidated: u64,
    /// Locked instructions on lines that another core had.
    pub locked_away: u64,
    /// Locked instructions.
    pub locked: u64,
    /// Lines that no core had: from a cache that all cores share, or from memory.
    pub from_memory: u64,
    /// Accesses to lines.
    pub accesses: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.invalidated += other.invalidated;
        self.locked_away += other.locked_away;
        self.locked += other.locked;
        self.from_memory += other.from_memory;
        self.accesses += other.accesses;
    }
}

/// Who has a line: a bit for each core.
type Holders = u128;

const _: () = assert!(CORES_MAX == u128::BITS as usize);

#[derive(Clone, Debug)]
struct Core {
    l1: Cache,
    l2: Cache,
}

/// The caches of a machine.
#[derive(Clone, Debug)]
pub struct Mesi {
    cores: Vec<Core>,
    lines: Vec<Holders>,
}

impl Mesi {
    /// Empty caches.
    #[must_use]
    pub fn new(cores: usize) -> Self {
        Self::of(cores, L1, L2)
    }

    fn of(cores: usize, l1: Size, l2: Size) -> Self {
        let core = Core {
            l1: Cache::new(l1),
            l2: Cache::new(l2),
        };
        Self {
            cores: vec![core; cores],
            lines: Vec::new(),
        }
    }

    /// Makes room for lines with numbers below this.
    pub fn grow(&mut self, lines: usize) {
        let lines = lines.max(self.lines.len());
        self.lines.resize(lines, 0);
    }

    /// A core touches a line.
    #[inline]
    pub fn access(&mut self, core: usize, line: u32, kind: Kind) -> Counts {
        let bit = 1 << core;
        let holders = self.lines[line as usize];
        let (has, others) = (holders & bit != 0, holders & !bit);
        let is_write = kind != Kind::Read;
        let mut counts = Counts {
            locked: u64::from(kind == Kind::Locked),
            accesses: 1,
            ..Counts::default()
        };
        if !has {
            counts.transfers = u64::from(others != 0);
            counts.from_memory = u64::from(others == 0);
            self.fetch(core, line);
        } else if !self.cores[core].l1.touch(line) {
            self.cores[core].l2.touch(line);
            self.cores[core].fill_l1(line);
        }
        if is_write {
            counts.invalidated = u64::from(others.count_ones());
            counts.locked_away = u64::from(kind == Kind::Locked && others != 0);
        }
        self.lines[line as usize] = if is_write { bit } else { holders | bit };
        counts
    }

    fn fetch(&mut self, core: usize, line: u32) {
        let bit = 1 << core;
        let lines = &self.lines;
        let is_gone = |other: u32| lines[other as usize] & bit == 0;
        let victim = self.cores[core].l2.insert(line, is_gone);
        self.cores[core].fill_l1(line);
        if let Some(victim) = victim {
            self.lines[victim as usize] &= !bit;
        }
    }
}

impl Core {
    fn fill_l1(&mut self, line: u32) {
        self.l1.insert(line, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Locked, Read, Write};

    /// Replays accesses by core, line and kind. What the last one costs.
    fn last(mesi: &mut Mesi, accesses: &[(usize, u32, Kind)]) -> Counts {
        mesi.grow(10_000);
        let accesses = accesses.iter();
        let counts = accesses.map(|&(core, line, kind)| mesi.access(core, line, kind));
        counts.last().expect("there is one")
    }

    fn costs(transfers: u64, invalidated: u64, locked_away: u64, from_memory: u64) -> Counts {
        Counts {
            transfers,
            invalidated,
            locked_away,
            from_memory,
            locked: locked_away,
            accesses: 1,
        }
    }

    #[test]
    fn a_line_of_its_own_costs_a_core_nothing() {
        let mut mesi = Mesi::new(2);
        assert_eq!(last(&mut mesi, &[(0, 1, Read)]), costs(0, 0, 0, 1));
        assert_eq!(last(&mut mesi, &[(0, 1, Write)]), costs(0, 0, 0, 0));
        assert_eq!(last(&mut mesi, &[(0, 1, Locked)]).locked_away, 0);
    }

    #[test]
    fn a_line_that_several_read_costs_each_one_fetch() {
        let mut mesi = Mesi::new(3);
        let fetched = last(&mut mesi, &[(0, 1, Write), (1, 1, Read)]);
        assert_eq!(fetched, costs(1, 0, 0, 0));
        assert_eq!(last(&mut mesi, &[(0, 1, Read)]), costs(0, 0, 0, 0));
        assert_eq!(last(&mut mesi, &[(2, 1, Read)]), costs(1, 0, 0, 0));
        // The one that writes has the line already, and ends two copies.
        assert_eq!(last(&mut mesi, &[(0, 1, Write)]), costs(0, 2, 0, 0));
        assert_eq!(last(&mut mesi, &[(1, 1, Read)]), costs(1, 0, 0, 0));
    }

    #[test]
    fn a_shared_counter_is_fetched_each_time() {
        let mut mesi = Mesi::new(2);
        let turns = [(0, 1, Locked), (1, 1, Locked), (0, 1, Locked)];
        assert_eq!(last(&mut mesi, &turns), costs(1, 1, 1, 0));
    }

    #[test]
    fn what_does_not_fit_goes_and_is_not_taken_for_shared() {
        let small = Size { lines: 4, ways: 2 };
        let mut mesi = Mesi::of(2, Size { lines: 2, ways: 2 }, small);
        // Lines 0, 2 and 4 have one set of two ways.
        let gone = [(0, 0, Write), (0, 2, Read), (0, 4, Read), (0, 0, Read)];
        assert_eq!(last(&mut mesi, &gone), costs(0, 0, 0, 1));
        // Line 2 went for it, so nobody has it.
        assert_eq!(last(&mut mesi, &[(1, 2, Write)]), costs(0, 0, 0, 1));
        // A line that another core has ended is fetched anew, and counted once.
        let again = [(0, 2, Write), (1, 2, Write), (0, 2, Write), (0, 2, Read)];
        assert_eq!(last(&mut mesi, &again), costs(0, 0, 0, 0));
    }
}
