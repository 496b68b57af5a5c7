//! Keys: which timer had a key when, and which calls were about which timer.
//!
//! A key is that of the last timer that was armed with it. A call by key tells no timer, so the
//! order of the answers has to tell: a call was surely about a timer if no other one can have had
//! the key, from when the call was asked for until it was answered.

use crate::ledger::{Arming, Call, Ledger, Moment, Timer};
use std::collections::HashMap;

/// A call that may have changed a timer. It was not refused.
pub(super) struct About<'a> {
    pub(super) call: &'a Call,
    /// Whether it was answered, and can have been about no other timer.
    pub(super) is_sure: bool,
}

impl About<'_> {
    /// When it was answered, if it has surely changed the timer.
    pub(super) fn made(&self) -> Option<Moment> {
        let answer = self.call.answer.filter(|_| self.is_sure);
        answer.map(|(at, _)| at)
    }

    /// When it had surely an effect, if it had one.
    pub(super) fn end(&self) -> Moment {
        self.call.answer.map_or(Moment::MAX, |(at, _)| at)
    }
}

/// A call by key: who can have had the key.
struct Held {
    /// Timers that were armed before this moment were surely replaced before the call.
    replaced_before: Moment,
    /// The only timer that can have had the key. It was surely armed before the call.
    only: Option<u64>,
}

/// Timers and calls by key.
pub(super) struct Keys<'a> {
    ledger: &'a Ledger,
    timers: HashMap<&'a str, Vec<(u64, &'a Timer)>>,
    /// For each call by key of the ledger.
    held: HashMap<&'a str, Vec<Held>>,
}

/// When a timer was surely armed. `Moment::MAX`: it may not be.
fn armed(timer: &Timer) -> Moment {
    match timer.arming {
        Arming::Armed(at) => at,
        _ => Moment::MAX,
    }
}

/// Whether it was surely never armed.
fn is_undone(timer: &Timer) -> bool {
    matches!(timer.arming, Arming::RolledBack | Arming::Absent(_))
}

impl Held {
    fn new(call: &Call, timers: &[(u64, &Timer)]) -> Self {
        let before = timers.iter().filter(|(_, timer)| armed(timer) < call.asked);
        let replaced_before = before.map(|(_, timer)| timer.asked).max().unwrap_or(0);
        let mut held = Self {
            replaced_before,
            only: None,
        };
        let mut can_have_it = timers.iter().filter(|(_, timer)| held.may_be(call, timer));
        if let (Some((number, timer)), None) = (can_have_it.next(), can_have_it.next())
            && armed(timer) < call.asked
        {
            held.only = Some(*number);
        }
        held
    }

    /// Whether a timer can have had the key.
    fn may_be(&self, call: &Call, timer: &Timer) -> bool {
        timer.asked < call.answer.map_or(Moment::MAX, |(at, _)| at)
            && !is_undone(timer)
            && armed(timer) >= self.replaced_before
    }
}

impl<'a> Keys<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        let mut timers: HashMap<&str, Vec<(u64, &Timer)>> = HashMap::new();
        for (number, timer) in ledger.timers.iter() {
            if let Some(key) = &timer.ask.key {
                timers.entry(key).or_default().push((number, timer));
            }
        }
        let held = ledger.keys.iter().map(|(key, calls)| {
            let timers = timers.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            let held = calls.iter().map(|call| Held::new(call, timers)).collect();
            (key.as_str(), held)
        });
        let held = held.collect();
        Self {
            ledger,
            timers,
            held,
        }
    }

    /// All calls by the key of a timer, whomever they were about.
    pub(super) fn calls_of_key(&self, timer: &Timer) -> impl Iterator<Item = &'a Call> {
        let calls = timer
            .ask
            .key
            .as_ref()
            .and_then(|key| self.ledger.keys.get(key));
        calls.into_iter().flatten()
    }

    /// The calls that may have changed a timer.
    pub(super) fn about(&self, number: u64, timer: &'a Timer) -> Vec<About<'a>> {
        let was_refused = |call: &&Call| matches!(call.answer, Some((_, false)));
        let by_id = timer.calls.iter().map(|call| About {
            call,
            is_sure: call.answer.is_some(),
        });
        let key = timer.ask.key.as_deref().unwrap_or_default();
        let held = self.held.get(key).into_iter().flatten();
        let by_key = self.calls_of_key(timer).zip(held);
        let by_key = by_key.filter(|(call, held)| held.may_be(call, timer));
        let by_key = by_key.map(|(call, held)| About {
            call,
            is_sure: call.answer.is_some() && held.only == Some(number),
        });
        let all = by_id.chain(by_key);
        all.filter(|about| !was_refused(&about.call)).collect()
    }

    /// The other timers that have the key of `timer`, without timers that were rolled back.
    pub(super) fn others(&self, timer: &'a Timer) -> impl Iterator<Item = &'a Timer> {
        let key = timer.ask.key.as_deref();
        let timers = key.and_then(|key| self.timers.get(key));
        let others = timers.into_iter().flatten().map(|&(_, other)| other);
        others.filter(move |other| !std::ptr::eq(*other, timer) && !is_undone(other))
    }

    /// When another timer had surely taken its key. `Moment::MAX`: it may have, at any moment.
    pub(super) fn replaced(&self, timer: &'a Timer) -> Option<Moment> {
        let after = self.others(timer);
        let after = after.filter(|other| other.asked > armed(timer));
        after.map(armed).min()
    }

    /// Whether another timer may have taken its key.
    pub(super) fn may_be_replaced(&self, timer: &'a Timer) -> bool {
        self.others(timer).any(|other| armed(other) > timer.asked)
    }
}
