//! Phases: in which order the changes of a commit are made.
//!
//! Changes of one commit come in an order. Those that have no row and no key in common may be made
//! in any order, so each goes into the first *phase* after all that it depends on.

use crate::store::row::DurableId;
use crate::store::write::Write;
use std::collections::HashMap;
use std::sync::Arc;

/// What a change depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Token {
    Row(DurableId),
    Key(Arc<str>),
    /// All rules.
    Rules,
}

/// What a change depends on, but for one of a whole kind, which depends on all.
pub(super) fn tokens_of(write: &Write) -> impl Iterator<Item = Token> {
    let named = write.names_row().or(write.names_dead());
    let key = write.names_key().cloned();
    let rows = named.into_iter().chain(write.puts());
    let keys = key.map(Token::Key);
    let rules = matches!(write, Write::Rule(..)).then_some(Token::Rules);
    rows.map(Token::Row).chain(keys).chain(rules)
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
        let by_key = write.names_key().is_some();
        let by_id = write.names_row().is_some();
        let after = |phase: Option<usize>| phase.map_or(0, |phase| phase + 1);
        let mut phase = self.begin;
        for token in tokens_of(write) {
            phase = phase.max(after(self.last.get(&token).copied()));
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
        for token in tokens_of(write) {
            self.last.insert(token, phase);
        }
        phase
    }
}
