//! Rules: kinds and beginnings of keys are paused and resumed, by callers on any node.

use super::Simulation;
use super::scene::KEYS;
use super::world::Shared;
use wheelwork_durable::{DurableClient, DurableError, RuleFor};

/// The most rules of a story.
const RULES_MAX: usize = 3;

impl Shared {
    /// By chance somebody pauses or resumes something.
    pub fn change_some_rule(&self, node: usize) {
        let (of, pauses) = {
            let mut world = self.lock();
            if !world.has_rules || world.rules.u8(..10) > 0 {
                return;
            }
            let paused = world.ledger.rules_that_pause();
            let resumes = world.rules.u8(..5) > 1 || paused.len() >= RULES_MAX;
            match world.rules.choice(paused).filter(|_| resumes) {
                Some(of) => (of, false),
                None => {
                    let of = match world.rules.u8(..4) {
                        0 => RuleFor::Keys(KEYS[world.rules.usize(..3)].into()),
                        1 => RuleFor::Kind("steady".into()),
                        2 => RuleFor::Kind("limited".into()),
                        _ => RuleFor::Kind(["shaky", "batch"][world.rules.usize(..2)].into()),
                    };
                    (of, true)
                }
            }
        };
        self.change_rule(node, &of, pauses);
    }

    /// A rule is changed, and the answer is true.
    pub fn change_rule(&self, node: usize, of: &RuleFor, pauses: bool) {
        let handle = self.lock().nodes[node].handle.clone();
        let Some(handle) = handle else { return };
        let first = {
            let mut world = self.lock();
            let what = if pauses { "pauses" } else { "resumes" };
            world.note(format_args!("node {node} {what} {of}"));
            world.ledger.made.len()
        };
        let answer = self.run(node, || call(&handle, of, pauses));
        let mut world = self.lock();
        match answer {
            Ok(is_changed) => {
                let is_true = world.ledger.has_ruled(first, of, is_changed);
                world.ledger.demand(is_true, || {
                    format!("a caller is told {is_changed} of {of}, which is not so")
                });
            }
            Err(error) => world.check_error(node, "pause", &error),
        }
    }
}

fn call(handle: &DurableClient, of: &RuleFor, pauses: bool) -> Result<bool, DurableError> {
    let timers = match of {
        RuleFor::Kind(kind) => handle.kind(kind),
        RuleFor::Keys(prefix) => handle.keys_with(prefix),
        other => panic!("{other:?}"),
    };
    match pauses {
        true => timers.pause(),
        false => timers.resume(),
    }
}

impl Simulation {
    /// The trouble has ceased: nothing is to be paused any more.
    pub(super) fn end_rules(&self) {
        let paused = self.shared.lock().ledger.rules_that_pause();
        for of in paused {
            if let Some(node) = self.some_node() {
                self.shared.change_rule(node, &of, false);
            }
        }
    }
}
