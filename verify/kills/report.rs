//! Report: what was broken, with the stories of some timers.

use crate::verdict::{Judge, Offence, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Stories that are told of each promise that was broken.
const STORIES: usize = 8;

/// What was broken, each with the stories of some timers.
pub(crate) fn broken(judge: &Judge<'_>, verdict: &Verdict, complaints: &[String]) -> Vec<String> {
    let mut broken = complaints.to_vec();
    let mut by_offence: BTreeMap<Offence, Vec<(u64, &str)>> = BTreeMap::new();
    for (offence, number, why) in &verdict.broken {
        by_offence.entry(*offence).or_default().push((*number, why));
    }
    for (offence, timers) in by_offence {
        let mut text = format!("{} times: {}", timers.len(), offence.name());
        for (number, why) in timers.iter().take(STORIES) {
            let _ = write!(text, "\n{why}\n{}", judge.story(*number));
        }
        broken.push(text);
    }
    broken
}
