//! Acknowledge: the end of a handler's timer, as the last change of the handler's transaction.
//!
//! Another transaction may be in the way: one of the user's that has the timer's row locked, or
//! one of a node that has the lease. Then only the acknowledgement is made again, so that the
//! handler is not called twice. The steps are in the room's README.

use super::migrations::PARTITIONS;
use super::session::{Asking, OneTrouble, STATEMENT_TIMEOUT, Texts, idle_setting, trouble_of_one};
use super::statements::commit;
use crate::store::write::{Outcome, Write};
use crate::time::Clock;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::slice;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, SimpleQueryMessage, Transaction};

/// Constraints that were to be checked at the end are checked before the acknowledgement. The check
/// may wait for locks, in the time that the handler allows.
const CHECK_CONSTRAINTS: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// The acknowledgement has the lease locked. So it waits for the timer's row no longer than a
/// node's commit does: a transaction of the user's may have it, and may last.
const ACK_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 20";

/// AckSave. A handler may have a savepoint of this name: the last one of a name counts.
const SAVE: &str = "SAVEPOINT wheelwork_ack";

/// AckUndo, and the question of AckYield.
const UNDO: &str = "ROLLBACK TO SAVEPOINT wheelwork_ack;
SELECT 1 FROM pg_catalog.pg_locks
    WHERE NOT granted AND pg_catalog.pg_backend_pid() = ANY (pg_catalog.pg_blocking_pids(pid))
    LIMIT 1";

/// AckPause: the first wait, which is doubled each time, and the longest one.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// So long is a row waited for at most. The handler's transaction, its place and its thread wait as
/// long.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// AckSave has this many times as long as another answer, 10 min: the handler may have left very
/// many constraints to check.
const CHECK_TIMES: u32 = 20;

/// What acknowledgements need.
pub(super) struct AckSettings {
    /// What is sent before one. From there on the transaction has the lease locked at times, and
    /// other nodes want the lease if this node stands still. So a setting limits for how long the
    /// transaction may stand still, and another one for how long it waits for locks. A handler may
    /// have set limits of its own, which were for its own statements.
    begin: String,
    wait_max: Duration,
    /// An answer that takes longer is not waited for.
    pub(super) answer_max: Duration,
}

impl AckSettings {
    /// `lasts`: how long a lease lasts.
    pub(super) fn new(lasts: Duration, answer_max: Duration) -> Self {
        let local = |setting: &str| setting.replace("SET ", "SET LOCAL ");
        let (statement, idle) = (local(STATEMENT_TIMEOUT), local(&idle_setting(lasts / 2)));
        Self {
            begin: format!("{CHECK_CONSTRAINTS}; {statement}; {idle}; {ACK_LOCK_TIMEOUT}; {SAVE}"),
            wait_max: WAIT_MAX.min(lasts / 2),
            answer_max,
        }
    }
}

/// Makes this change in the transaction. Returns `false` if the row no longer belongs to the
/// delivery. `has_right`: whether the node still has the row's lease, as far as it knows.
pub(super) async fn acknowledge(
    transaction: &Transaction<'_>,
    texts: &Texts,
    settings: &AckSettings,
    write: &Write,
    has_right: &(dyn Fn() -> bool + Sync),
) -> Result<bool, AckError> {
    // AckSave.
    let begin = transaction.batch_execute(&settings.begin);
    answered(settings.answer_max * CHECK_TIMES, begin)
        .await?
        .map_err(AckError::of_begin)?;
    let ticking = Clock::monotonic();
    let mut pause = PAUSE;
    loop {
        let asking = Asking::of_texts(transaction.client(), texts);
        // AckMake.
        // (The change names its row by id, so the number of partitions does not matter.)
        let (writes, none) = (slice::from_ref(write), BTreeMap::new());
        let make = commit::make(asking, writes, &none, PARTITIONS);
        let error = match answered(settings.answer_max, make).await? {
            Ok(outcomes) => return Ok(matches!(outcomes[..], [Outcome::Settled(true, _)])),
            Err(error) => error,
        };
        if trouble_of_one(&error) != Some(OneTrouble::Blocked) {
            return Err(AckError::Failed(error));
        }
        // AckUndo, AckYield.
        let undo = transaction.simple_query(UNDO);
        let undone = answered(settings.answer_max, undo).await??;
        let is_row = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
        if undone.iter().any(is_row) {
            return Err(AckError::Yielded(error));
        }
        let waited = Duration::from_nanos(ticking.now_ns());
        if waited >= settings.wait_max || !has_right() {
            return Err(AckError::Blocked(error));
        }
        // AckPause.
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What the database answers. A server may stand still, while its system keeps the connection
/// alive; and a commit may wait for a standby that is gone. A stop waits for this.
pub(super) async fn answered<T>(
    max: Duration,
    asked: impl Future<Output = T>,
) -> Result<T, AckError> {
    timeout(max, asked).await.map_err(|_| AckError::Silent(max))
}

/// Why a handler's transaction was not committed.
#[derive(Debug)]
pub(crate) enum AckError {
    /// Somebody's transaction had the timer locked, or its key, for too long.
    Blocked(Error),
    /// The same. Another transaction was waiting for the handler's.
    Yielded(Error),
    /// The handler has ended the transaction by SQL.
    Ended(Error),
    /// The database did not answer for so long. If that was the commit, it may have been made.
    Silent(Duration),
    Failed(Error),
}

impl AckError {
    fn of_begin(error: Error) -> Self {
        if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) {
            return Self::Ended(error);
        }
        Self::Failed(error)
    }
}

impl From<Error> for AckError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for AckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent(max) => return write!(f, "PostgreSQL did not answer within {max:?}"),
            Self::Blocked(_) | Self::Yielded(_) => {
                "another transaction has the timer locked, or its key"
            }
            Self::Ended(_) => "the handler has ended its transaction, by COMMIT or ROLLBACK",
            Self::Failed(_) => "the handler's transaction was not committed",
        })
    }
}

impl StdError for AckError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Blocked(error)
            | Self::Yielded(error)
            | Self::Ended(error)
            | Self::Failed(error) => Some(error),
            Self::Silent(_) => None,
        }
    }
}
