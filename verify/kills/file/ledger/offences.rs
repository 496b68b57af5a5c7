//! Offences: promises that were broken, how often, and by which timers.

use std::collections::BTreeMap;

/// Offenders of one kind that a verdict names.
const NAMED_MAX: usize = 5;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Offence {
    /// Armed, and neither handled nor cancelled in time.
    Lost,
    Early,
    Doubled,
    /// Handled, though a cancel has said `true`.
    HandledCancelled,
    /// Cancelled, and still in the store.
    LeftCancelled,
    /// A second cancel has said `true`.
    CancelledTwice,
    /// Not cancelled, long before it was due.
    Refused,
    /// Handled, though the store had said that it was not there.
    HandledAbsent,
    /// Handled or found, though nobody had armed it.
    Invented,
    /// Its payload is another one.
    Altered,
}

impl Offence {
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Early => "early",
            Self::Doubled => "handled twice without a kill between",
            Self::HandledCancelled => "handled though cancelled",
            Self::LeftCancelled => "cancelled and still in the store",
            Self::CancelledTwice => "cancelled twice",
            Self::Refused => "not cancelled, long before they were due",
            Self::HandledAbsent => "handled though the store did not have them",
            Self::Invented => "handled or found though never armed",
            Self::Altered => "with another payload",
        }
    }
}

#[derive(Default)]
struct Offenders {
    count: u64,
    first: Vec<String>,
}

/// What is wrong, and with which timers.
#[derive(Default)]
pub(super) struct Offences {
    offenders: BTreeMap<Offence, Offenders>,
    others: Vec<String>,
}

impl Offences {
    pub(super) fn add(&mut self, offence: Offence, who: String) {
        let offenders = self.offenders.entry(offence).or_default();
        offenders.count += 1;
        if offenders.first.len() < NAMED_MAX {
            offenders.first.push(who);
        }
    }

    /// Whether the next one of a kind is named.
    pub(super) fn names(&self, offence: Offence) -> bool {
        let named = self.offenders.get(&offence).map_or(0, |of| of.first.len());
        named < NAMED_MAX
    }

    /// Something else is wrong.
    pub(super) fn complain(&mut self, what: String) {
        self.others.push(what);
    }

    pub(super) fn count(&self, offence: Offence) -> u64 {
        self.offenders.get(&offence).map_or(0, |of| of.count)
    }

    /// All of it, in words.
    pub(super) fn lines(&self) -> Vec<String> {
        let offences = self.offenders.iter().map(|(offence, offenders)| {
            let (count, what) = (offenders.count, offence.what());
            format!("{count} {what}: {}", offenders.first.join("; "))
        });
        offences.chain(self.others.iter().cloned()).collect()
    }
}
