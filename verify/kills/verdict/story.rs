//! Story: all that is known of one timer, in order, for who reads a report.

use super::Judge;
use crate::ledger::{Arming, Moment};
use std::fmt::Write;

impl Judge<'_> {
    /// All that is known of a timer, in order.
    pub(crate) fn story(&self, number: u64) -> String {
        let Some(timer) = self.ledger.timers.get(number) else {
            return String::new();
        };
        let mut lines: Vec<(Moment, String)> = Vec::new();
        let mut tell = |at: Moment, what: String| lines.push((at, what));
        let of = if timer.ask.is_outbox {
            ", in a transaction"
        } else {
            ""
        };
        let due = self.due_ms(timer.ask.due, timer.asked);
        tell(
            timer.asked,
            format!("asked for{of}: {:?}, due {due}", timer.ask.due),
        );
        match timer.arming {
            Arming::Armed(at) => tell(at, "armed".to_owned()),
            Arming::Absent(at) => tell(at, "the store does not have it".to_owned()),
            Arming::Asked | Arming::RolledBack => {}
        }
        if let Some(at) = timer.found {
            tell(at, "found in the store".to_owned());
        }
        for (by, call) in timer
            .calls
            .iter()
            .map(|call| ("id", call))
            .chain(self.keys.calls_of_key(timer).map(|call| ("key", call)))
        {
            let what = match call.due {
                None => format!("cancel by {by}"),
                Some(due) => format!("move by {by} to {:?}", self.due_ms(due, call.asked)),
            };
            match call.answer {
                None => tell(call.asked, format!("{what}: no answer")),
                Some((at, is_done)) => {
                    tell(call.asked, format!("{what} is asked for"));
                    tell(at, format!("{what}: {is_done}"));
                }
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
            tell(
                start.at,
                format!(
                    "handled by node {}: lease {}, attempt {}, due {}, clock {:?}",
                    start.node, start.fence, start.attempt, start.due_ms, start.clock_us
                ),
            );
            if let Some((at, is_ok)) = start.end {
                tell(
                    at,
                    format!(
                        "node {}'s handler says {}",
                        start.node,
                        if is_ok { "Ok" } else { "Err" }
                    ),
                );
            }
        }
        lines.sort();
        let (from, to) = (
            lines.first().map_or(0, |line| line.0),
            lines.last().map_or(0, |line| line.0),
        );
        for trouble in self.happened {
            if trouble.from <= to && trouble.to >= from {
                let node = trouble
                    .node
                    .map_or(String::new(), |node| format!(" (node {node})"));
                lines.push((trouble.from, format!("-- {}{node}", trouble.what.name())));
                lines.push((
                    trouble.to,
                    format!("-- {}{node}: over", trouble.what.name()),
                ));
            }
        }
        lines.sort();
        let key = timer.ask.key.as_deref().unwrap_or("none");
        let mut story = format!(
            "timer {number}: {}, id {:032x}, partition {}, key {key}\n",
            timer.ask.kind.name(),
            timer.id,
            timer.id >> 112
        );
        for (at, what) in lines {
            let _ = writeln!(story, "  {:>12} {} {what}", self.since(at), self.ms(at));
        }
        story
    }
}
