//! Census: for each line, which cores touched it, and where in the program it was fetched from
//! another core.

use crate::lines::Touch;
use crate::mesi::Counts;
use std::collections::BTreeMap;

/// What is known of one line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// A bit for each core that touched it.
    pub cores: u128,
    /// Fetches from another core and ended copies, by the site of the access.
    pub sites: BTreeMap<u64, Counts>,
}

/// The lines of a run.
#[derive(Debug, Default)]
pub struct Census {
    lines: Vec<Line>,
}

impl Census {
    pub(crate) fn note(&mut self, core: usize, touch: Touch, site: u64, counts: Counts) {
        let line = touch.line() as usize;
        if self.lines.len() <= line {
            self.lines.resize(line + 1, Line::default());
        }
        let line = &mut self.lines[line];
        line.cores |= 1 << core;
        if counts.transfers + counts.invalidated > 0 {
            *line.sites.entry(site).or_default() += counts;
        }
    }

    /// The lines that more than `cores` cores touched, and that were not read only.
    pub fn shared(&self, cores: u32) -> impl Iterator<Item = &Line> {
        let is_shared =
            move |line: &&Line| line.cores.count_ones() > cores && !line.sites.is_empty();
        self.lines.iter().filter(is_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;

    #[test]
    fn lines_that_many_touch_are_found_with_their_sites() {
        let mut census = Census::default();
        let fetched = Counts {
            transfers: 1,
            ..Counts::default()
        };
        for core in 0..3 {
            census.note(core, Touch::new(5, Kind::Write), 77, fetched);
            census.note(core, Touch::new(6, Kind::Read), 78, Counts::default());
            census.note(0, Touch::new(7, Kind::Write), 79, fetched);
        }
        let shared: Vec<_> = census.shared(2).collect();
        assert_eq!((shared.len(), shared[0].cores), (1, 0b111));
        assert_eq!(shared[0].sites[&77].transfers, 3);
        assert_eq!(census.shared(0).count(), 2);
    }
}
