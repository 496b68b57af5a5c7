//! Transaction: a commit, until it is known what became of it.

use super::session::{self, Live, Patience};
use super::statements::commit::{self, OldSeq, Seq};
use super::statements::rows::partition_of_key;
use super::store::Postgres;
use crate::store::contract::{StoreClock, StoreError};
use crate::store::row::{Partition, StoreTime};
use crate::store::write::{Outcome, Write};
use std::time::Duration;
use tokio_postgres::Error;
use uuid::Uuid;

/// A row that is armed into another node's partition is told of, if it is due so soon.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// Whether the commit with this number was made. Afterwards it is not made any more: its number is
/// taken, or was never given.
async fn is_made(live: &Live, node: Uuid, seq: i64) -> Result<bool, Error> {
    live.client.batch_execute("BEGIN").await?;
    let given = live.ask(&Seq { node, seq }).await;
    live.client.batch_execute("ROLLBACK").await?;
    Ok(given?.is_empty())
}

impl Postgres {
    /// The transaction of a commit, until it is known what became of it.
    pub(super) fn transact(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
        let (node, seq) = (self.leases.node, self.seq + 1);
        let (own, partitions) = (&self.leases.own, self.leases.partitions);
        let mut patience = Patience::new(self.session.patience);
        // What was answered before a COMMIT whose answer was lost.
        let mut unknown: Option<Vec<Outcome>> = None;
        // The same, after a look that found that it was not made. The server may make it late.
        let mut late: Option<Vec<Outcome>> = None;
        let mut is_split = false;
        loop {
            self.session.ensure(true, &mut patience)?;
            if let Some(outcomes) = unknown.take() {
                let settled = self
                    .session
                    .once(async |live| is_made(live, node, seq).await);
                match settled {
                    Some(Ok(true)) => {
                        self.seq = seq;
                        return Ok(outcomes);
                    }
                    Some(Ok(false)) => late = Some(outcomes),
                    other => {
                        unknown = Some(outcomes);
                        let error = other.and_then(Result::err);
                        self.session.after(error, &mut patience)?;
                        continue;
                    }
                }
            }
            let mut answered = None;
            let mut is_late = false;
            let done = self.session.once(async |live| {
                live.client.batch_execute("BEGIN").await?;
                if live.ask(&Seq { node, seq }).await?.is_empty() {
                    is_late = true;
                    return live.client.batch_execute("ROLLBACK").await;
                }
                let former = seq - 1;
                live.ask(&OldSeq { node, seq: former }).await?;
                let outcomes = if is_split {
                    commit::make_split(live.asking(), writes, own, partitions).await?
                } else {
                    commit::make(live.asking(), writes, own, partitions).await?
                };
                answered = Some(outcomes);
                live.client.batch_execute("COMMIT").await
            });
            let error = match done {
                Some(Ok(())) => {
                    self.seq = seq;
                    let outcomes = if is_late { late } else { answered };
                    let what = &self.session.what;
                    let unheard = || format!("{what}: a commit was made that was not heard of");
                    return outcomes.ok_or_else(|| StoreError::Damaged(unheard().into()));
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            let is_lost = error
                .as_ref()
                .is_none_or(|error| session::trouble(error) == session::Trouble::Lost);
            if is_lost {
                // (If COMMIT was not sent, the row with its number is not there.)
                unknown = answered;
            } else {
                let _ = self
                    .session
                    .once(async |live| live.client.batch_execute("ROLLBACK").await);
                let is_of_one = error
                    .as_ref()
                    .is_some_and(|error| session::trouble_of_one(error).is_some());
                if is_of_one && !is_split {
                    // One change is in trouble, and only that one is to wait.
                    is_split = true;
                    continue;
                }
            }
            self.session.after(error, &mut patience)?;
        }
    }

    /// Whether a row was put where its owner does not see it, and is due soon; or a rule, which is
    /// for all nodes.
    pub(super) fn is_news(&self, writes: &[Write]) -> bool {
        let soon = StoreTime::reading(self.clock.at_most()).after(TELL_WITHIN);
        let is_other = |number: Partition| !self.leases.own.contains_key(&number);
        writes.iter().any(|write| {
            if let Write::Rule(..) = write {
                return true;
            }
            let is_soon = write.sets_due().is_some_and(|due| due <= soon);
            let of_key = |key: &str| partition_of_key(key, self.leases.partitions);
            is_soon && write.partition(of_key).is_some_and(is_other)
        })
    }
}
