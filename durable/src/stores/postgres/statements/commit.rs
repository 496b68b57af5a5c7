//! Commit: many changes in one transaction, those of a kind in one statement.
//!
//! A phase (`phases.rs`) has changes that may be made in any order, by a statement or two for each
//! kind of change.

use super::phases::{Phases, Token, tokens_of};
use super::rows::{epoch, gate, part, partition_of_key};
use super::statement::{Sql, Statement, statement};
use crate::store::row::Partition;
use crate::store::write::{Outcome, Write};
use crate::stores::postgres::session::{Asking, OneTrouble, trouble_of_one};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio_postgres::Error;
use tokio_postgres::error::DbError;
use uuid::Uuid;

/// The statements of this file that a session prepares.
pub(super) const ALL: &[&Sql] = &[
    Seq::SQL,
    SeqAgain::SQL,
    OldSeq::SQL,
    LockLeases::SQL,
    EnterGates::SQL,
];

statement! {
    /// Takes the number of a commit. No other transaction has that number. If a transaction that
    /// has taken it is under way, this waits for that transaction.
    Seq { node: Uuid, seq: i64 }
    -> () = |_| ();
    "
INSERT INTO {s}.seq (node, seq) VALUES (:node, :seq) ON CONFLICT (node,
        seq) DO NOTHING RETURNING seq"
}

statement! {
    /// Writes the number of a commit once more, as it is: so the transaction has a change, and its
    /// own commit waits for standbys. Returns nothing if the number is not there.
    SeqAgain { node: Uuid, seq: i64 }
    -> () = |_| ();
    "
UPDATE {s}.seq SET seq = seq WHERE node = :node AND seq = :seq RETURNING seq"
}

statement! {
    /// Deletes the number of the commit before.
    OldSeq { node: Uuid, seq: i64 }
    -> () = |_| ();
    "DELETE FROM {s}.seq WHERE node = :node AND seq = :seq"
}

statement! {
    /// Locks lease rows. A transaction with several statements that lock lease rows begins with
    /// this, for all of these rows.
    LockLeases<'a> { part: &'a [i16] }
    -> () = |_| ();
    "
SELECT part FROM {s}.lease WHERE part = ANY(:part::smallint[]) ORDER BY part FOR SHARE"
}

statement! {
    /// GateEnter: locks the gates of partitions, before rows of these that were not handed out are
    /// ended, moved or replaced.
    EnterGates<'a> { part: &'a [i16] }
    -> () = |_| ();
    "
SELECT part FROM {s}.gate WHERE part = ANY(:part::smallint[]) ORDER BY part FOR SHARE"
}

/// How many parts of a commit may be in trouble. What comes after that is left to another commit.
const TRIES_MAX: usize = 24;

/// A part that is in trouble is followed by one with this share of its changes.
const PART_SHARE: usize = 4;

/// Why a change is refused.
const NO_TEXT: &str = "PostgreSQL stores no text with a zero byte";

/// Makes the changes in the transaction that is open. An error ends the transaction.
pub(in crate::stores::postgres) async fn make(
    live: Asking<'_>,
    writes: &[Write],
    own: &BTreeMap<Partition, u64>,
    partitions: u32,
) -> Result<Vec<Outcome>, Error> {
    let mut making = Making::new(live, writes, own, partitions);
    let all: Vec<usize> = (0..writes.len()).collect();
    making.part(&all).await?;
    Ok(making.outcomes())
}

/// Does the same, after one of the changes was in trouble of its own. The changes are made in
/// parts, each behind a savepoint, until those are found that are in trouble.
pub(in crate::stores::postgres) async fn make_split(
    live: Asking<'_>,
    writes: &[Write],
    own: &BTreeMap<Partition, u64>,
    partitions: u32,
) -> Result<Vec<Outcome>, Error> {
    live.client
        .batch_execute("SET LOCAL lock_timeout = 3")
        .await?;
    let mut making = Making::new(live, writes, own, partitions);
    making.lock_settled().await?;
    let mut tries = TRIES_MAX;
    for numbers in groups(writes) {
        making.split(&numbers, &mut tries).await?;
    }
    Ok(making.outcomes())
}

/// The changes in the order in which they are tried, when some are in trouble. Those come last that
/// may have to wait for a row that nobody sees yet: another transaction may have put in a key that
/// had no row. The changes that depend on these come behind them. So however many of them wait, no
/// other change does. Rules are a group of their own, since the first of them may wait.
fn groups(writes: &[Write]) -> [Vec<usize>; 3] {
    let [mut others, mut rules, mut keys] = [Vec::new(), Vec::new(), Vec::new()];
    let (mut behind, mut are_all_behind) = (HashSet::new(), false);
    for (number, write) in writes.iter().enumerate() {
        let puts_key = write.puts().is_some() && write.names_key().is_some();
        // (It is of all rows of its kind that were put in before.)
        are_all_behind |= matches!(write, Write::CancelKind(_)) && !keys.is_empty();
        let depends = || tokens_of(write).any(|token| behind.contains(&token));
        if matches!(write, Write::Rule(..)) {
            rules.push(number);
        } else if puts_key || are_all_behind || depends() {
            behind.extend(tokens_of(write));
            keys.push(number);
        } else {
            others.push(number);
        }
    }
    [others, rules, keys]
}

/// The partitions whose lease rows the transaction has to lock first, because several of its
/// statements lock such rows. Empty if only one statement does, or if they all lock the same row.
fn locked_parts(writes: &[&Write]) -> Vec<i16> {
    let mut are_all_acks = true;
    let mut partitions = BTreeSet::new();
    for write in writes {
        if let Some(of) = write.settles() {
            partitions.insert(of.id.partition());
            are_all_acks &= matches!(
                write,
                Write::Ack { next: None, .. } | Write::AckKept { next: None, .. }
            );
        }
    }
    if are_all_acks || partitions.len() < 2 {
        return Vec::new();
    }
    partitions.into_iter().map(part).collect()
}

/// The gates of partitions in which rows are ended, moved or replaced that were not handed out.
fn gates_of(writes: &[&Write], partitions: u32) -> Vec<i16> {
    let names = |write: &&&Write| {
        write.settles().is_none() && (write.names_row().is_some() || write.names_key().is_some())
    };
    let named = writes.iter().filter(names);
    let of_key = |key: &str| partition_of_key(key, partitions);
    let numbers = named.filter_map(|write| write.partition(of_key));
    let numbers = numbers.filter(|&number| u32::from(number) < partitions);
    let gates: BTreeSet<i16> = numbers.map(|number| gate(number, partitions)).collect();
    gates.into_iter().collect()
}

/// A commit that is being made.
pub(super) struct Making<'a> {
    pub(super) live: Asking<'a>,
    pub(super) writes: &'a [Write],
    /// The epochs of this node's partitions.
    own: &'a BTreeMap<Partition, u64>,
    /// How many partitions the schema has.
    pub(super) partitions: u32,
    pub(super) outcomes: Vec<Option<Outcome>>,
    /// The rows and keys of changes that are blocked. Later changes of these wait, too.
    blocked: HashSet<Token>,
}

impl<'a> Making<'a> {
    fn new(
        live: Asking<'a>,
        writes: &'a [Write],
        own: &'a BTreeMap<Partition, u64>,
        partitions: u32,
    ) -> Self {
        Self {
            live,
            writes,
            own,
            partitions,
            outcomes: vec![None; writes.len()],
            blocked: HashSet::new(),
        }
    }

    /// What has become of all changes.
    fn outcomes(self) -> Vec<Outcome> {
        let outcomes = self.outcomes.into_iter().enumerate();
        outcomes
            .map(|(number, outcome)| outcome.unwrap_or_else(|| self.writes[number].unchanged()))
            .collect()
    }

    /// Notes that another transaction is in the way of this change.
    pub(super) fn block(&mut self, number: usize) {
        let write = &self.writes[number];
        self.blocked.extend(tokens_of(write));
        self.outcomes[number] = Some(Outcome::Blocked(Box::new(write.clone())));
    }

    /// Leaves this change to another commit: there is no time to try it by itself.
    fn put_off(&mut self, number: usize) {
        if self.is_behind(number) {
            return self.block(number);
        }
        let write = self.writes[number].clone();
        self.outcomes[number] = Some(Outcome::PutOff(Box::new(write)));
    }

    /// Whether a change that is blocked has a row or key in common with this one.
    fn is_behind(&self, number: usize) -> bool {
        let mut tokens = tokens_of(&self.writes[number]);
        !self.blocked.is_empty() && tokens.any(|token| self.blocked.contains(&token))
    }

    /// Makes these changes, in parts. A part that is in trouble is not made, and the next one has a
    /// quarter of its changes. If it has only one, that is blocked or refused. A part that is made
    /// is followed by one that is four times as large. `tries`: how many may be in trouble.
    async fn split(&mut self, numbers: &[usize], tries: &mut usize) -> Result<(), Error> {
        let (mut rest, mut size) = (numbers, numbers.len());
        while !rest.is_empty() && *tries > 0 {
            let (part, others) = rest.split_at(size.min(rest.len()));
            self.live.client.batch_execute("SAVEPOINT part").await?;
            let Err(error) = self.part(part).await else {
                self.live.client.batch_execute("RELEASE part").await?;
                (rest, size) = (others, size.saturating_mul(PART_SHARE));
                continue;
            };
            let Some(trouble) = trouble_of_one(&error) else {
                return Err(error);
            };
            self.live.client.batch_execute("ROLLBACK TO part").await?;
            part.iter().for_each(|&number| self.outcomes[number] = None);
            *tries -= 1;
            size = (part.len() / PART_SHARE).max(1);
            if let &[number] = part {
                rest = others;
                match trouble {
                    OneTrouble::Blocked => self.block(number),
                    OneTrouble::Refused => {
                        let why = error.as_db_error().map_or("", DbError::message);
                        let why = why.replace(char::is_control, " ");
                        self.outcomes[number] = Some(Outcome::Refused(why.into()));
                    }
                }
            }
        }
        rest.iter().for_each(|&number| self.put_off(number));
        Ok(())
    }

    /// Makes these changes, in their order.
    async fn part(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut phases = Phases::default();
        let mut by_phase: Vec<Vec<usize>> = Vec::new();
        for &number in numbers {
            let phase = phases.of(&self.writes[number]);
            if by_phase.len() <= phase {
                by_phase.resize_with(phase + 1, Vec::new);
            }
            by_phase[phase].push(number);
        }
        let writes: Vec<&Write> = numbers.iter().map(|&number| &self.writes[number]).collect();
        let locked = locked_parts(&writes);
        if !locked.is_empty() {
            self.live.ask(&LockLeases { part: &locked }).await?;
        }
        let gates = gates_of(&writes, self.partitions);
        if !gates.is_empty() {
            self.live.ask(&EnterGates { part: &gates }).await?;
        }
        for numbers in by_phase {
            self.phase(numbers).await?;
        }
        Ok(())
    }

    /// The changes of a phase: no two of them have a row or a key in common.
    async fn phase(&mut self, mut numbers: Vec<usize>) -> Result<(), Error> {
        numbers.retain(|&number| {
            let write = &self.writes[number];
            if !is_text(write) {
                self.outcomes[number] = Some(Outcome::Refused(NO_TEXT.into()));
                return false;
            }
            let waits = self.is_behind(number);
            if waits {
                self.block(number);
            }
            !waits
        });
        // Each file takes out of `numbers` what it makes.
        self.settle(&mut numbers).await?;
        self.cancel(&mut numbers).await?;
        self.reschedule(&mut numbers).await?;
        self.amend(&mut numbers).await?;
        self.arm(&mut numbers).await?;
        self.dead_letters(&mut numbers).await?;
        self.rules(&mut numbers).await?;
        debug_assert!(numbers.is_empty(), "one of the files makes each change");
        Ok(())
    }

    /// Takes the changes for which `is_such` is true out of `numbers`, and returns their numbers.
    pub(super) fn take(
        &self,
        numbers: &mut Vec<usize>,
        is_such: impl Fn(&Write) -> bool,
    ) -> Vec<usize> {
        let is_such = |number: &mut usize| is_such(&self.writes[*number]);
        numbers.extract_if(.., is_such).collect()
    }

    /// The epoch for a row that this node writes and that was not handed out. In a partition of
    /// this node it is the epoch of the lease, so the row is no suspect. Elsewhere it is 0.
    pub(super) fn own_epoch(&self, partition: Partition) -> i64 {
        self.own.get(&partition).map_or(0, |&own| epoch(own))
    }
}

/// Whether the database can store the texts of a change: they have no zero byte.
fn is_text(write: &Write) -> bool {
    !write.texts().any(|text| text.contains('\0'))
}
