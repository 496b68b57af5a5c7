//! Replay: the parts of a round, put in one order at random and run through the caches.
//!
//! What each core does, and in which order, is fixed by its log. The order between the cores is the
//! replay's. There are two:
//!
//! - *Whole*: operations come one after the other, in random order between the cores. No two run at
//!   one time. A shard's turn, which nobody waits for, is open to others between any two accesses.
//! - *Fine*: random cores in turn do some accesses each. This ignores that a mutex keeps others
//!   out, so for timers with a mutex it is an upper bound.

use crate::census::Census;
use crate::lines::Part;
use crate::mesi::{Counts, Mesi};
use crate::random::Random;

/// Accesses of one core in a row where others may come in between, on average.
const RUN_MEAN: usize = 8;

/// How finely a replay mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// By operations.
    Whole,
    /// By accesses.
    Fine,
}

/// A machine that replays rounds in one random order.
#[derive(Debug)]
pub struct Replay {
    mix: Mix,
    random: Random,
    mesi: Mesi,
    counts: Counts,
}

impl Replay {
    /// A machine of that many cores, with empty caches.
    #[must_use]
    pub fn new(cores: usize, mix: Mix, seed: u64) -> Self {
        Self {
            mix,
            random: Random::new(seed),
            mesi: Mesi::new(cores),
            counts: Counts::default(),
        }
    }

    /// What the rounds have cost so far, of the parts that are counted.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Replays a round. `lines` have a number by now. The census gets what is counted.
    pub fn round(&mut self, parts: &[Part], lines: usize, mut census: Option<&mut Census>) {
        self.mesi.grow(lines);
        let pieces: Vec<_> = parts.iter().map(|part| self.cut(part)).collect();
        let mut order: Vec<_> = pieces
            .iter()
            .enumerate()
            .flat_map(|(part, pieces)| vec![part; pieces.len()])
            .collect();
        self.random.shuffle(&mut order);
        let mut next = vec![(0, 0); parts.len()];
        for at in order {
            let (part, (piece, start)) = (&parts[at], next[at]);
            let end = pieces[at][piece];
            next[at] = (piece + 1, end);
            for touched in start..end {
                let touch = part.touches[touched];
                let counts = self.mesi.access(part.core, touch.line(), touch.kind());
                if part.is_counted {
                    self.counts += counts;
                    if let Some(census) = &mut census {
                        census.note(part.core, touch, part.sites[touched], counts);
                    }
                }
            }
        }
    }

    /// The ends of the pieces that a part is done in.
    fn cut(&mut self, part: &Part) -> Vec<usize> {
        let all = part.touches.len();
        let mut ends: Vec<_> = if self.mix == Mix::Whole && !part.is_open {
            part.ends.iter().map(|&end| end as usize).collect()
        } else {
            let mut end = 0;
            let runs = std::iter::from_fn(|| {
                end += self.random.run(RUN_MEAN);
                (end < all).then_some(end)
            });
            runs.collect()
        };
        if ends.last().is_none_or(|&end| end < all) {
            ends.push(all);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Kind;
    use crate::lines::Touch;

    /// Operations of some locked instructions on one line.
    fn part(core: usize, line: u32, operations: u32, locked: u32) -> Part {
        let touches = operations * locked;
        Part {
            core,
            touches: vec![Touch::new(line, Kind::Locked); touches as usize],
            sites: vec![0; touches as usize],
            ends: (1..=operations).map(|end| end * locked).collect(),
            is_counted: true,
            is_open: false,
        }
    }

    fn transfers(mix: Mix, parts: &[Part]) -> u64 {
        let mut replay = Replay::new(parts.len(), mix, 1);
        replay.round(parts, 100, None);
        assert!(replay.counts().locked > 0);
        replay.counts().transfers
    }

    #[test]
    fn what_is_apart_costs_nothing_in_any_order() {
        let parts: Vec<_> = (0..4).map(|core| part(core, core as u32, 50, 4)).collect();
        assert_eq!(transfers(Mix::Whole, &parts), 0);
        assert_eq!(transfers(Mix::Fine, &parts), 0);
    }

    #[test]
    fn a_whole_operation_fetches_a_line_once_at_most() {
        let parts: Vec<_> = (0..4).map(|core| part(core, 7, 50, 100)).collect();
        let whole = transfers(Mix::Whole, &parts);
        // Three of four operations follow one of another core.
        assert!((120..=180).contains(&whole), "{whole}");
        assert!(transfers(Mix::Fine, &parts) > 5 * whole);
    }

    #[test]
    fn an_open_part_is_cut_and_the_order_is_the_seeds() {
        let mut parts: Vec<_> = (0..2).map(|core| part(core, 7, 1, 1_000)).collect();
        assert_eq!(transfers(Mix::Whole, &parts), 1);
        parts[1].is_open = true;
        assert_eq!(transfers(Mix::Whole, &parts), 2);
        parts[0].is_open = true;
        let open = transfers(Mix::Whole, &parts);
        assert!(open > 50, "{open}");
        assert_eq!(transfers(Mix::Whole, &parts), open);
    }
}
