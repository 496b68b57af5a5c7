//! Plan: which trouble there is when.

use super::args::Args;
use crate::trouble::Trouble;
use fastrand::Rng;

/// All kinds, each as often as it is to come up.
const ROUND: [Trouble; 13] = [
    Trouble::Kill,
    Trouble::Kill,
    Trouble::Kill,
    Trouble::PauseLong,
    Trouble::PauseLong,
    Trouble::PauseShort,
    Trouble::Add,
    Trouble::Stop,
    Trouble::ServerKilled,
    Trouble::ServerEnded,
    Trouble::Snapshot,
    Trouble::Deploy,
    Trouble::KindPaused,
];

/// Troubles in random order, each of a round before the next round.
pub(crate) struct Plan {
    pub(crate) random: Rng,
    round: Vec<Trouble>,
    left: Vec<Trouble>,
}

impl Plan {
    pub(crate) fn new(options: &Args) -> Self {
        let (seed, only) = (options.seed, &options.only);
        let is_wanted = |trouble: &Trouble| match trouble {
            Trouble::Deploy => options.has_deploys(),
            _ => only.is_empty() || only.contains(trouble),
        };
        Self {
            random: Rng::with_seed(seed),
            round: ROUND.into_iter().filter(is_wanted).collect(),
            left: Vec::new(),
        }
    }

    pub(crate) fn next(&mut self) -> Trouble {
        if self.left.is_empty() {
            self.left = self.round.clone();
            self.random.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(Trouble::Kill)
    }
}
