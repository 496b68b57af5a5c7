//! Floor: no program below a number works with the schema any more.

use super::statement::{Sql, Statement, statement};

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[Close::SQL, CloseForHeld::SQL];

statement! {
    /// FloorRaise: to this number. If a node below it is alive, nothing is done: its name.
    Close<'a> { number: i64, program: &'a str }
    -> Option<String> = |row| row.get(0);
    "SELECT {s}.wheelwork_close(:number, :program)"
}

statement! {
    /// The same because a row is held. The floor falls again if no row is held any more.
    CloseForHeld<'a> { program: &'a str }
    -> Option<String> = |row| row.get(0);
    "SELECT {s}.wheelwork_close_for_held(:program)"
}
