//! Named: the lines that more than two cores share, by the file whose code fetches them most.

use crate::census::{Census, Line};
use crate::mesi::Counts;
use crate::sites::{Place, places};
use std::collections::{BTreeMap, BTreeSet};

/// Cores that may share a line without being named.
const CORES: u32 = 2;

/// Places of a group that are shown.
const SHOWN: usize = 6;

/// Transfers an operation below which a group is not shown.
const LEAST: f64 = 0.000_05;

/// Lines that are used alike.
#[derive(Default)]
struct Group {
    lines: usize,
    cores_max: u32,
    counts: Counts,
    places: BTreeMap<Place, Counts>,
}

/// A text with a group of lines in each paragraph, the one with most transfers first.
pub fn named(census: &Census, operations: usize) -> Result<String, String> {
    let sites = census
        .shared(CORES)
        .flat_map(|line| line.sites.keys().copied());
    let places = places(&sites.collect::<BTreeSet<u64>>())?;
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for line in census.shared(CORES) {
        let most = line.sites.iter().max_by_key(|(_, counts)| counts.transfers);
        if let Some((site, _)) = most {
            let group = groups.entry(places[site].file()).or_default();
            group.add(line, &places);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.counts.transfers));
    let of = |count: u64| count as f64 / operations as f64;
    let mut text = String::new();
    for group in groups
        .iter()
        .filter(|group| of(group.counts.transfers) >= LEAST)
    {
        text += &format!(
            "  {} lines, up to {} cores: {:.4} transfers an operation, {:.4} copies ended\n",
            group.lines,
            group.cores_max,
            of(group.counts.transfers),
            of(group.counts.invalidated)
        );
        let mut places: Vec<_> = group.places.iter().collect();
        places.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.transfers));
        for (place, counts) in places.into_iter().take(SHOWN) {
            let transfers = of(counts.transfers);
            text += &format!("    {transfers:.4}  {} ({})\n", place.function, place.line);
        }
    }
    Ok(text)
}

impl Group {
    fn add(&mut self, line: &Line, places: &BTreeMap<u64, Place>) {
        self.lines += 1;
        self.cores_max = self.cores_max.max(line.cores.count_ones());
        for (site, &counts) in &line.sites {
            self.counts += counts;
            *self.places.entry(places[site].clone()).or_default() += counts;
        }
    }
}
