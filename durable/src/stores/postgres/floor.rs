//! Floor: it rises before the first write that a program of an earlier number would get wrong.
//!
//! Such a program does not know when a row expires, how long an attempt may take, and which rules
//! there are, and cannot read a calendar with an offset. So a row with an expiry, a limit or such a
//! calendar, and a rule, is refused while a node of such a program is alive. A row that is held is
//! no row that it would get wrong, but one that it never hands out. So a row is held in any case,
//! and the floor rises as soon as it can: then no such program begins to work beside rows that it
//! forgets.

use super::leases::Closed;
use super::migrations::PROGRAM;
use super::session::{Patience, Trouble, trouble};
use super::statements::floor::{Close, CloseForHeld};
use super::statements::statement::Statement;
use super::store::Postgres;
use crate::store::contract::StoreError;
use crate::store::row::{Row, RowMore, has_offset};
use crate::store::write::{Outcome, Write};
use std::sync::Arc;
use tokio_postgres::Error;
use tokio_postgres::error::DbError;

/// The first number whose programs know what few rows have.
const NUMBER: i64 = 5;

/// How often a change that needs the floor tries to raise it, some milliseconds apart.
const TRIES: u32 = 8;

/// Whether the floor does not rise now.
fn is_final(error: &Error, conflicts: &mut u32, tries: u32) -> bool {
    match trouble(error) {
        Trouble::Refused => true,
        Trouble::Conflict => {
            *conflicts += 1;
            *conflicts >= tries
        }
        _ => false,
    }
}

/// Whether an earlier program would get wrong what this change puts in.
fn is_of_later(write: &Write) -> bool {
    let is_later = |row: &Row| {
        let is_set = |more: &RowMore| more.expires.is_some() || more.limit_ms.is_some();
        row.more().is_some_and(is_set) || row.calendar.as_deref().is_some_and(has_offset)
    };
    match write {
        Write::Arm(row) => is_later(row),
        Write::Replace(of) => is_later(&of.row),
        Write::Amend(of) => has_offset(&of.calendar),
        Write::Rule(_, change) => change.makes_part(),
        _ => false,
    }
}

impl Postgres {
    /// Makes changes, when the floor has risen for those that need that. They are refused if it
    /// cannot rise.
    pub(super) fn transact_above_floor(
        &mut self,
        writes: &[Write],
    ) -> Result<Vec<Outcome>, StoreError> {
        let closed = self.leases.closed;
        let holds = |write: &Write| matches!(write, Write::Hold { .. });
        if closed == Closed::No && writes.iter().any(holds) {
            self.leases.closed = Closed::Wanted;
            self.close_for_held()?;
        }
        if closed == Closed::ForEver || !writes.iter().any(is_of_later) {
            return self.transact(writes);
        }
        let close = Close {
            number: NUMBER,
            program: PROGRAM,
        };
        let Some(why) = self.close(&close, TRIES)? else {
            self.leases.closed = Closed::ForEver;
            return self.transact(writes);
        };
        let others = writes.iter().filter(|write| !is_of_later(write));
        let others: Vec<Write> = others.cloned().collect();
        let mut made = self.transact(&others)?.into_iter();
        let outcomes = writes.iter().map(|write| match is_of_later(write) {
            true => Some(Outcome::Refused(why.clone())),
            false => made.next(),
        });
        Ok(outcomes.flatten().collect())
    }

    /// A row is held, or was: the floor rises, unless a node is in the way. It is asked again with
    /// each renewal.
    pub(super) fn close_for_held(&mut self) -> Result<(), StoreError> {
        if self.leases.closed == Closed::Wanted {
            let close = CloseForHeld { program: PROGRAM };
            if self.close(&close, 1)?.is_none() {
                self.leases.closed = Closed::ForHeld;
            }
        }
        Ok(())
    }

    /// Raises the floor. Returns why it cannot. Where somebody else has the table of nodes, it is
    /// tried this often: a backup has the table for as long as it lasts.
    fn close(
        &mut self,
        close: &impl Statement<Answer = Option<String>>,
        tries: u32,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let mut patience = Patience::new(self.session.patience);
        let mut conflicts = 0;
        loop {
            self.session.ensure(true, &mut patience)?;
            let error = match self.session.once(async |live| live.ask(close).await) {
                Some(Ok(older)) => {
                    let older = older.into_iter().flatten().next();
                    let why = |name: String| {
                        let name = name.replace(char::is_control, " ");
                        format!(
                            "node {name} is alive, whose program knows no expiry, limit, offset \
                             or rule"
                        )
                    };
                    return Ok(older.map(|name| why(name).into()));
                }
                Some(Err(error)) if is_final(&error, &mut conflicts, tries) => {
                    let why = error.as_db_error().map_or("", DbError::message);
                    let why = why.replace(char::is_control, " ");
                    return Ok(Some(format!("the floor cannot rise: {why}").into()));
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            self.session.after(error, &mut patience)?;
        }
    }
}
