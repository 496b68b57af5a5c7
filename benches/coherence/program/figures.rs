//! Figures: what the replays of a setting have counted, for one operation.

use crate::args::Name;
use crate::run::Setting;
use clap::ValueEnum;
use std::str::FromStr;
use wheelwork_coherence::{Counts, Mix};

/// Which of the counts.
pub(crate) type Which = fn(&Counts) -> u64;

/// What is shown of counts: a name, and which it is.
pub(crate) const SHOWN: [(&str, Which); 6] = [
    ("transfers", |counts| counts.transfers),
    ("invalidated", |counts| counts.invalidated),
    ("locked_away", |counts| counts.locked_away),
    ("locked", |counts| counts.locked),
    ("from_memory", |counts| counts.from_memory),
    ("accesses", |counts| counts.accesses),
];

/// How many of them are held against recorded numbers.
const GATED: usize = 3;

/// A setting with its counts.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) name: Name,
    pub(crate) setting: Setting,
    /// For each seed.
    pub(crate) whole: Vec<Counts>,
    /// The same, finely mixed.
    pub(crate) fine: Vec<Counts>,
}

/// The name of a value on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_string())
}

impl Figures {
    /// Of the lines that [`written`] makes.
    pub(crate) fn read(name: Name, setting: Setting, text: &str) -> Option<Self> {
        let mut figures = Self {
            name,
            setting,
            whole: Vec::new(),
            fine: Vec::new(),
        };
        for line in text.lines() {
            let (mix, numbers) = line.split_once(' ')?;
            let numbers: Vec<_> = numbers.split(' ').map(u64::from_str).collect();
            let [
                transfers,
                invalidated,
                locked_away,
                locked,
                from_memory,
                accesses,
            ] = numbers
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
                .ok()?
                .try_into()
                .ok()?;
            let counts = Counts {
                transfers,
                invalidated,
                locked_away,
                locked,
                from_memory,
                accesses,
            };
            match mix {
                "whole" => figures.whole.push(counts),
                "fine" => figures.fine.push(counts),
                _ => return None,
            }
        }
        (!figures.whole.is_empty()).then_some(figures)
    }

    /// One of the counts for an operation: the mean of all seeds, the least and the most.
    pub(crate) fn of(&self, counts: &[Counts], which: Which) -> Option<[f64; 3]> {
        let operations = self.setting.operations() as f64;
        let all: Vec<_> = counts
            .iter()
            .map(|counts| which(counts) as f64 / operations)
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let least = all.iter().copied().reduce(f64::min)?;
        let most = all.iter().copied().reduce(f64::max)?;
        Some([mean, least, most])
    }

    /// What is held against recorded numbers, by name.
    pub(crate) fn gated(&self) -> impl Iterator<Item = (String, f64)> {
        SHOWN[..GATED].iter().filter_map(|&(shown, which)| {
            let [mean, ..] = self.of(&self.whole, which)?;
            let Setting { call, threads, .. } = self.setting;
            let call = name(&call)
                + match self.name {
                    Name::WheelworkExecutor => "_executor",
                    _ => "",
                };
            Some((format!("{call}_{threads}_{shown}"), mean))
        })
    }
}

/// A line for each seed.
pub(crate) fn written(counts: &[(Mix, Counts)]) -> String {
    let line = |(mix, counts): &(Mix, Counts)| {
        let mix = match mix {
            Mix::Whole => "whole",
            Mix::Fine => "fine",
        };
        let numbers = SHOWN.map(|(_, which)| which(counts).to_string());
        format!("{mix} {}\n", numbers.join(" "))
    };
    counts.iter().map(line).collect()
}
