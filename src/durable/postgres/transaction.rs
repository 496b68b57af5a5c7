//! Transaction: a commit, until it is known what became of it.

use super::rows::partition_of_key;
use super::session::{self, Patience};
use super::store::Postgres;
use super::{commit, sql};
use crate::durable::{Outcome, StoreClock, StoreError, StoreTime, Target, Write};
use std::time::Duration;

/// A row that is armed into another node's partition is told of, if it is due so soon.
const TELL_WITHIN: Duration = Duration::from_secs(2);

impl Postgres {
    /// The transaction of a commit, until it is known what became of it.
    pub(super) fn transact(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
        let (node, seq) = (self.leases.node, self.seq + 1);
        let begin = format!(
            "BEGIN; UPDATE {}.node SET seq = {seq} WHERE node = '{node}'",
            self.schema
        );
        let own = &self.leases.own;
        let mut patience = Patience::new(self.session.patience);
        // What was answered before a COMMIT whose answer was lost.
        let mut unknown: Option<Vec<Outcome>> = None;
        loop {
            self.session.ensure(true, &mut patience)?;
            if let Some(outcomes) = unknown.take() {
                let settled = self
                    .session
                    .once(async |live| live.rows(sql::SETTLED_SEQ, &[&node]).await);
                match settled {
                    Some(Ok(rows)) => {
                        let stored = rows.first().map(|row| row.get::<_, i64>(0));
                        if stored == Some(seq) {
                            self.seq = seq;
                            return Ok(outcomes);
                        }
                    }
                    other => {
                        unknown = Some(outcomes);
                        let error = other.and_then(Result::err);
                        self.session.after(error.as_ref(), &mut patience)?;
                        continue;
                    }
                }
            }
            let mut answered = None;
            let done = self.session.once(async |live| {
                live.client.batch_execute(&begin).await?;
                let outcomes = commit::make(live, writes, own).await?;
                answered = Some(outcomes);
                live.client.batch_execute("COMMIT").await
            });
            let error = match done {
                Some(Ok(())) => {
                    self.seq = seq;
                    return Ok(answered.unwrap_or_default());
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            let is_lost = error
                .as_ref()
                .is_none_or(|error| session::trouble(error) == session::Trouble::Lost);
            if is_lost {
                // (If COMMIT was not sent, the row of this node says so, too.)
                unknown = answered;
            } else {
                let _ = self
                    .session
                    .once(async |live| live.client.batch_execute("ROLLBACK").await);
            }
            self.session.after(error.as_ref(), &mut patience)?;
        }
    }

    /// Whether a row was put where its owner does not see it, and is due soon.
    pub(super) fn is_news(&self, writes: &[Write]) -> bool {
        let soon = StoreTime::reading(self.clock.at_most()).after(TELL_WITHIN);
        writes.iter().any(|write| match write {
            Write::Arm(row) => {
                row.due <= soon && !self.leases.own.contains_key(&row.id.partition())
            }
            Write::Move(Target::Id(id), due) => {
                *due <= soon && !self.leases.own.contains_key(&id.partition())
            }
            Write::Move(Target::Key(key), due) => {
                *due <= soon && !self.leases.own.contains_key(&partition_of_key(key))
            }
            Write::Revive(id, due) => {
                *due <= soon && !self.leases.own.contains_key(&id.partition())
            }
            _ => false,
        })
    }
}
