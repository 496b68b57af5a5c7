//! Story: what was broken, and all that is known of some of the timers, for the reader of a report.

use super::{Judge, Offence, Verdict};
use crate::ledger::{Arming, Moment};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Stories that are told of each promise that was broken.
const STORIES: usize = 8;

impl Judge<'_> {
    /// What was broken, each with the stories of some timers.
    pub(crate) fn broken(&self, verdict: &Verdict, complaints: Vec<String>) -> Vec<String> {
        let mut broken = complaints;
        let mut by_offence: BTreeMap<Offence, Vec<(u64, &str)>> = BTreeMap::new();
        for (offence, number, why) in &verdict.broken {
            by_offence.entry(*offence).or_default().push((*number, why));
        }
        for (offence, timers) in by_offence {
            let mut text = format!("{} times: {}", timers.len(), offence.name());
            for (number, why) in timers.iter().take(STORIES) {
                let _ = write!(text, "\n{why}\n{}", self.story(*number));
            }
            broken.push(text);
        }
        broken
    }

    /// All that is known of a timer, in order.
    pub(crate) fn story(&self, number: u64) -> String {
        let Some(timer) = self.ledger.timers.get(number) else {
            return String::new();
        };
        let mut lines: Vec<(Moment, String)> = Vec::new();
        let mut tell = |at: Moment, what: String| lines.push((at, what));
        let (ask, asked) = (&timer.ask, timer.asked);
        let of = if ask.is_outbox {
            ", in a transaction"
        } else {
            ""
        };
        let due = self.due_ms(ask.due, asked);
        tell(asked, format!("asked for{of}: {:?}, due {due}", ask.due));
        match timer.arming {
            Arming::Armed(at) => tell(at, "armed".to_owned()),
            Arming::Absent(at) => tell(at, "the store does not have it".to_owned()),
            Arming::Asked | Arming::RolledBack => {}
        }
        if let Some(at) = timer.found {
            tell(at, "found in the store".to_owned());
        }
        let by_id = timer.calls.iter().map(|call| ("id", call));
        let by_key = self.keys.calls_of_key(timer).map(|call| ("key", call));
        for (by, call) in by_id.chain(by_key) {
            let what = match call.due {
                None => format!("cancel by {by}"),
                Some(due) => format!("move by {by} to {}", self.due_ms(due, call.asked)),
            };
            tell(call.asked, format!("{what} is asked for"));
            if let Some((at, is_done)) = call.answer {
                tell(at, format!("{what}: {is_done}"));
            }
        }
        for other in self.keys.others(timer) {
            tell(
                other.asked,
                "its key is asked for by another timer".to_owned(),
            );
            if let Arming::Armed(at) = other.arming {
                tell(at, "its key was given to that".to_owned());
            }
        }
        for start in &timer.starts {
            let node = start.node;
            let told = format!(
                "lease {}, attempt {}, due {}",
                start.fence, start.attempt, start.due_ms
            );
            let what = format!("handled by node {node}: {told}, clock {:?}", start.clock_us);
            tell(start.at, what);
            if let Some((at, is_ok)) = start.end {
                let end = if is_ok { "Ok" } else { "Err" };
                tell(at, format!("node {node}'s handler says {end}"));
            }
        }
        let moments = || lines.iter().map(|line| line.0);
        let (from, to) = (moments().min().unwrap_or(0), moments().max().unwrap_or(0));
        for trouble in self.happened {
            if trouble.from <= to && trouble.to >= from {
                let node = trouble.node.map(|node| format!(" (node {node})"));
                let what = format!("-- {}{}", trouble.what.name(), node.unwrap_or_default());
                lines.push((trouble.to, format!("{what}: over")));
                lines.push((trouble.from, what));
            }
        }
        lines.sort();
        let (kind, key) = (ask.kind.name(), ask.key.as_deref().unwrap_or("none"));
        let (id, partition) = (timer.id, timer.id >> 112);
        let head =
            format!("timer {number}: {kind}, id {id:032x}, partition {partition}, key {key}");
        let line = |(at, what): (Moment, String)| {
            format!("\n  {:>12} {} {what}", self.since(at), self.ms(at))
        };
        head + &lines.into_iter().map(line).collect::<String>()
    }
}
