//! Transaction: a commit, until it is known what became of it.

use super::session::{self, Commit, Live, Patience};
use super::statements::commit::{self, OldSeq, Seq, SeqAgain};
use super::statements::lease::IsKept;
use super::statements::rows::partition_of_key;
use super::store::Postgres;
use crate::store::contract::{StoreClock, StoreError};
use crate::store::row::{Partition, StoreTime};
use crate::store::write::{Outcome, Write};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Error;
use uuid::Uuid;

/// A row that is armed into another node's partition is told of, if it is due so soon.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// What became of a commit whose answer was lost.
enum Fate {
    /// It was made, and is as safe as the database's settings want it.
    Made,
    /// It was made, and may be on the primary alone.
    OnPrimary,
    /// It was not made, and is not made any more: its number was never given.
    Unmade,
}

/// What became of the commit with this number. If it was made, its wait for a standby may have been
/// ended before the standby had it. So the number is written once more: the commit of that waits
/// until the standby has all that was written before.
async fn fate_of(live: &Live, node: Uuid, seq: i64) -> Result<Fate, Error> {
    live.client.batch_execute("BEGIN").await?;
    let found = async {
        let is_given = !live.ask(&Seq { node, seq }).await?.is_empty();
        let is_there = !is_given && !live.ask(&SeqAgain { node, seq }).await?.is_empty();
        Ok::<_, Error>(is_there)
    };
    let found = found.await;
    if let Ok(true) = found {
        return Ok(match live.commit().await? {
            Commit::Made => Fate::Made,
            Commit::Warned => Fate::OnPrimary,
        });
    }
    live.client.batch_execute("ROLLBACK").await?;
    found.map(|_| Fate::Unmade)
}

/// What is known of a commit so far. An answer is what a try was told before its COMMIT.
enum SoFar {
    /// It was not made.
    Unmade,
    /// The answer to a COMMIT was lost, or did not say that a standby has it.
    Unknown(Vec<Outcome>),
    /// The same, and a look found that it was not made. The server may make it late.
    Late(Vec<Outcome>),
}

/// A try to make a commit.
struct Try<'a> {
    node: Uuid,
    seq: i64,
    writes: &'a [Write],
    own: &'a BTreeMap<Partition, u64>,
    partitions: u32,
    /// An earlier try may be made late.
    is_repeated: bool,
    /// One change is in trouble, and only that one is to wait.
    is_split: bool,
}

/// How a try has ended.
enum Tried {
    Committed(Commit),
    /// Its number is taken: an earlier try was made late.
    Taken,
    /// Its number is free, and others have forgotten the node. So an earlier try may have been
    /// made, and its number may be forgotten, too.
    Forgotten,
}

impl Try<'_> {
    /// Makes the commit. Sets `answered` when all is answered but COMMIT.
    async fn make(&self, live: &Live, answered: &mut Option<Vec<Outcome>>) -> Result<Tried, Error> {
        let (node, seq) = (self.node, self.seq);
        live.client.batch_execute("BEGIN").await?;
        if live.ask(&Seq { node, seq }).await?.is_empty() {
            live.client.batch_execute("ROLLBACK").await?;
            return Ok(Tried::Taken);
        }
        // (The number is this transaction's from here on, so an earlier try that was not made
        // before is not made any more.)
        if self.is_repeated && live.ask(&IsKept { node }).await?.is_empty() {
            live.client.batch_execute("ROLLBACK").await?;
            return Ok(Tried::Forgotten);
        }
        let former = seq - 1;
        live.ask(&OldSeq { node, seq: former }).await?;
        let (asking, writes) = (live.asking(), self.writes);
        let outcomes = if self.is_split {
            commit::make_split(asking, writes, self.own, self.partitions).await?
        } else {
            commit::make(asking, writes, self.own, self.partitions).await?
        };
        *answered = Some(outcomes);
        live.commit().await.map(Tried::Committed)
    }
}

impl Postgres {
    /// The transaction of a commit, until it is known what became of it.
    pub(super) fn transact(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
        let (node, seq) = (self.leases.node, self.seq + 1);
        let mut patience = Patience::new(self.session.patience);
        let mut so_far = SoFar::Unmade;
        let mut is_split = false;
        loop {
            self.session.ensure(true, &mut patience)?;
            if let SoFar::Unknown(outcomes) = so_far {
                let fate = async |live: &Live| fate_of(live, node, seq).await;
                match self.session.once(fate) {
                    Some(Ok(Fate::Made)) => {
                        self.seq = seq;
                        return Ok(outcomes);
                    }
                    Some(Ok(Fate::Unmade)) => so_far = SoFar::Late(outcomes),
                    other => {
                        so_far = SoFar::Unknown(outcomes);
                        let error = other.and_then(Result::err);
                        self.session.after(error, &mut patience)?;
                        continue;
                    }
                }
            }
            let attempt = Try {
                node,
                seq,
                writes,
                own: &self.leases.own,
                partitions: self.leases.partitions,
                is_repeated: matches!(so_far, SoFar::Late(_)),
                is_split,
            };
            let mut answered = None;
            let make = async |live: &Live| attempt.make(live, &mut answered).await;
            let tried = self.session.once(make);
            let what = &self.session.what;
            let unheard = || {
                let why = format!("{what}: a commit was made that was not heard of");
                StoreError::Damaged(why.into())
            };
            let error = match tried {
                Some(Ok(Tried::Committed(Commit::Made))) => {
                    self.seq = seq;
                    return answered.ok_or_else(unheard);
                }
                Some(Ok(Tried::Taken)) => {
                    let SoFar::Late(outcomes) = so_far else {
                        return Err(unheard());
                    };
                    so_far = SoFar::Unknown(outcomes);
                    continue;
                }
                Some(Ok(Tried::Forgotten)) => {
                    let why = "a commit may have been made, and other nodes have forgotten it";
                    return Err(StoreError::Io(format!("{what}: {why}").into()));
                }
                Some(Err(error)) => Some(error),
                // (It may be on the primary alone.)
                Some(Ok(Tried::Committed(Commit::Warned))) | None => None,
            };
            let is_lost = |error| session::trouble(error) == session::Trouble::Lost;
            if error.as_ref().is_none_or(is_lost) {
                // (Without an answer COMMIT was not sent, so this try was not made.)
                so_far = answered.map_or(so_far, SoFar::Unknown);
            } else {
                let rollback = async |live: &Live| live.client.batch_execute("ROLLBACK").await;
                let _ = self.session.once(rollback);
                let of_one = error.as_ref().and_then(session::trouble_of_one);
                if of_one.is_some() && !is_split {
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
