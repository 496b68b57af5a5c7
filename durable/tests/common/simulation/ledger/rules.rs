//! Rules: which timers are paused, as the store has it, and since when.

use super::Ledger;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, RuleChange, Rules, Write};
use wheelwork_durable::{Row, RuleFor, StoreTime};

/// A node that works knows of a rule after this time.
const KNOWN: Duration = Duration::from_secs(3);

/// What the ledger knows of rules.
#[derive(Default)]
pub struct KnownRules {
    rules: Rules,
    /// Those that pause: since when, by the time that has passed, and up to where rows of any
    /// partition might be handed out then.
    pauses: Vec<(RuleFor, SystemTime, Option<StoreTime>)>,
    /// Those that have paused something, ever.
    ever: Vec<RuleFor>,
    /// When a rule was changed last.
    changed: Option<SystemTime>,
}

impl Ledger {
    /// The store has changed a rule, or not.
    pub fn ruled(&mut self, of: &RuleFor, change: RuleChange, is_changed: bool, now: SystemTime) {
        let is_right = self.rules.rules.change(of, change) == Ok(is_changed);
        self.demand(is_right, || format!("{of} is changed: {is_changed}"));
        if !is_changed {
            return;
        }
        self.rules.changed = Some(now);
        let claimed = self.leases.claimed_max();
        let pauses = &mut self.rules.pauses;
        match change {
            RuleChange::Pause(_) => {
                pauses.push((of.clone(), now, claimed));
                self.rules.ever.push(of.clone());
                self.paused += 1;
            }
            RuleChange::Resume => pauses.retain(|(other, ..)| other != of),
            // (`limits.rs` has these.)
            _ => {}
        }
    }

    /// The rules that pause something.
    pub fn rules_that_pause(&self) -> Vec<RuleFor> {
        let pauses = self.rules.pauses.iter();
        pauses.map(|(of, ..)| of.clone()).collect()
    }

    /// Whether one of the writes since `first` has come to what was told.
    pub fn has_ruled(&self, first: usize, of: &RuleFor, is_changed: bool) -> bool {
        let mut made = self.made[first..].iter();
        made.any(|(write, outcome)| {
            matches!(write, Write::Rule(other, _) if other == of)
                && *outcome == Outcome::Ruled(is_changed)
        })
    }

    /// Whether a row is paused now.
    pub fn is_paused(&self, row: &Row) -> bool {
        let takes = |of: &RuleFor| of.takes(&row.kind, row.key.as_deref());
        self.rules.pauses.iter().any(|(of, ..)| takes(of))
    }

    /// Whether a row ever was.
    pub fn was_paused(&self, row: &Row) -> bool {
        let takes = |of: &RuleFor| of.takes(&row.kind, row.key.as_deref());
        self.rules.ever.iter().any(takes)
    }

    /// Whether rules were changed after this time.
    pub fn has_new_rules(&self, since: SystemTime) -> bool {
        self.rules.changed.is_some_and(|changed| changed > since)
    }

    /// A handler begins with a row: no rule pauses it of which its node has to know. A row that no
    /// node might hand out when it was paused is handed out by none. `trouble`: until then nodes
    /// were slow, stood still or were cut off.
    pub fn demand_not_paused(&mut self, row: &Row, now: SystemTime, trouble: SystemTime) {
        let takes = |of: &RuleFor| of.takes(&row.kind, row.key.as_deref());
        let ignored = self.rules.pauses.iter().find(|(of, since, claimed)| {
            let is_old = now > (*since).max(trouble) + KNOWN;
            takes(of) && (Some(row.due) > *claimed || is_old)
        });
        if let Some((of, since, claimed)) = ignored.cloned() {
            let what = format!("{row:?} is handled, and {of} is paused since {since:?}");
            self.wrong(format_args!("{what}, when {claimed:?} was claimed"));
        }
    }
}
