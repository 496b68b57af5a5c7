//! Phases: in which order the changes of a commit are made.
//!
//! Changes of one commit come in an order. Those that have no row and no key in common may be made
//! in any order, so each goes into the first *phase* after all that it depends on.

use crate::store::contract::{Target, Write};
use crate::store::row::DurableId;
use std::collections::HashMap;
use std::sync::Arc;

/// What a change depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Token {
    Row(DurableId),
    Key(Arc<str>),
}

/// What a change depends on, but for one of a whole kind, which depends on all.
pub(super) fn tokens_of(write: &Write) -> Vec<Token> {
    match write {
        Write::Arm(row) => {
            let key = row.key.clone().map(Token::Key);
            [Token::Row(row.id)].into_iter().chain(key).collect()
        }
        Write::Cancel(target) | Write::Move(target, _) => match target {
            Target::Id(id) => vec![Token::Row(*id)],
            Target::Key(key) => vec![Token::Key(key.clone())],
        },
        Write::CancelKind(_) => Vec::new(),
        Write::Begin { of, .. } | Write::Ack { of, .. } | Write::Retry { of, .. } => {
            vec![Token::Row(of.id)]
        }
        Write::Bury { of, next, .. } => {
            let copy = next.map(|(_, copy)| Token::Row(copy));
            [Token::Row(of.id)].into_iter().chain(copy).collect()
        }
        Write::Revive(id, _) | Write::Discard(id) => vec![Token::Row(*id)],
    }
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
        if let Write::CancelKind(_) = write {
            // Any row may be of this kind.
            let all = [self.by_key, self.by_id];
            let last = self.last.values().copied().chain(all.into_iter().flatten());
            let phase = last.map(|phase| phase + 1).max().unwrap_or(self.begin);
            let phase = phase.max(self.begin);
            self.begin = phase + 1;
            return phase;
        }
        let tokens = tokens_of(write);
        let by_key = tokens.iter().any(|token| matches!(token, Token::Key(_)));
        let by_id = match write {
            Write::Arm(_) | Write::Revive(..) | Write::Discard(_) => false,
            Write::Cancel(target) | Write::Move(target, _) => matches!(target, Target::Id(_)),
            _ => true,
        };
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
