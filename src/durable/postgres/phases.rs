//! Phases: in which order the changes of a commit are made.
//!
//! Changes of one commit come in an order. Those that have no row and no key in common may be made
//! in any order, so each goes into the first *phase* after all that it depends on.

use crate::durable::{DurableId, Target, Write};
use std::collections::HashMap;
use std::sync::Arc;

/// What a change depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Token {
    Row(DurableId),
    Key(Arc<str>),
}

/// Puts changes into phases.
#[derive(Default)]
pub(super) struct Phases {
    last: HashMap<Token, usize>,
    /// The last phase with a change that names a row by its key, and by its id.
    by_key: Option<usize>,
    by_id: Option<usize>,
    /// No change goes before this phase.
    begin: usize,
}

impl Phases {
    /// The phase of a change.
    pub(super) fn of(&mut self, write: &Write) -> usize {
        let mut tokens = Vec::new();
        let (mut by_key, mut by_id) = (false, false);
        match write {
            Write::Arm(row) => {
                tokens.push(Token::Row(row.id));
                if let Some(key) = &row.key {
                    tokens.push(Token::Key(key.clone()));
                    by_key = true;
                }
            }
            Write::Cancel(Target::Id(id)) | Write::Move(Target::Id(id), _) => {
                tokens.push(Token::Row(*id));
                by_id = true;
            }
            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => {
                tokens.push(Token::Key(key.clone()));
                by_key = true;
            }
            Write::CancelKind(_) => {
                // Any row may be of this kind.
                let all = [self.by_key, self.by_id];
                let last = self.last.values().copied().chain(all.into_iter().flatten());
                let phase = last.map(|phase| phase + 1).max().unwrap_or(self.begin);
                let phase = phase.max(self.begin);
                self.begin = phase + 1;
                return phase;
            }
            Write::Ack { of, .. } | Write::Retry { of, .. } => {
                tokens.push(Token::Row(of.id));
                by_id = true;
            }
            Write::Bury { of, next, .. } => {
                tokens.push(Token::Row(of.id));
                tokens.extend(next.map(|(_, copy)| Token::Row(copy)));
                by_id = true;
            }
            Write::Revive(id, _) | Write::Discard(id) => tokens.push(Token::Row(*id)),
        }
        let after = |phase: Option<usize>| phase.map_or(0, |phase| phase + 1);
        let mut phase = self.begin;
        for token in &tokens {
            phase = phase.max(after(self.last.get(token).copied()));
        }
        // A row that is named by its key and by its id: nobody knows before.
        if by_id {
            phase = phase.max(after(self.by_key));
            self.by_id = self.by_id.max(Some(phase));
        }
        if by_key {
            phase = phase.max(after(self.by_id));
            self.by_key = self.by_key.max(Some(phase));
        }
        for token in tokens {
            self.last.insert(token, phase);
        }
        phase
    }
}
