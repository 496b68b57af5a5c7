//! Users: their transactions, which have rows and keys locked until they end.
//!
//! A user cancels, moves and arms timers, as the functions of the schema do for `Postgres`. Others
//! see it after the commit. Until then nobody else ends, moves, replaces or hands out these rows. A
//! transaction touches a row or a key once.

use super::kept::Kept;
use super::{SharedPlace, StoreBreak, lock};
use std::collections::BTreeMap;
use std::sync::Arc;
use wheelwork_durable::contract::{Outcome, Target, Write};
use wheelwork_durable::{DurableId, Row, StoreTime};

/// What a user's transaction has locked.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    user: u64,
    /// The row was not handed out. Otherwise it stays as long as its handler runs.
    pub is_free: bool,
}

/// What a transaction above `READ COMMITTED` sees.
struct Snapshot {
    rows: BTreeMap<DurableId, Row>,
    keys: BTreeMap<Arc<str>, DurableId>,
    /// Epoch and watermark of each partition.
    claimed: Vec<(u64, Option<StoreTime>)>,
}

/// A transaction that is open.
pub struct User {
    writes: Vec<Write>,
    snapshot: Option<Snapshot>,
}

/// What a user is told of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is not made.
    No,
    /// It is made, if the transaction commits. The row and the key that are locked now.
    Yes(Vec<Target>),
    /// It would wait for another transaction: it was not tried.
    Waits,
    /// 40001: the transaction is rolled back.
    Conflict,
}

impl SharedPlace {
    /// A transaction begins, at `READ COMMITTED` or above it.
    pub fn begin(&self, user: u64, has_snapshot: bool) {
        let mut kept = lock(&self.0);
        let claimed = |number| (kept.lease(number).epoch, kept.claimed(number));
        let snapshot = has_snapshot.then(|| Snapshot {
            rows: kept.rows.clone(),
            keys: kept.keys.clone(),
            claimed: (0..kept.making.partitions).map(claimed).collect(),
        });
        let writes = Vec::new();
        kept.users.insert(user, User { writes, snapshot });
    }

    /// The id of a row that a user arms.
    pub fn user_id(&self, key: Option<&str>, due: StoreTime) -> DurableId {
        let mut kept = lock(&self.0);
        kept.ids += 1;
        let any = |ids: u64| ids % u64::from(kept.making.partitions);
        let partition = match key {
            Some(key) => (kept.making.partition_of_key)(key),
            None => any(kept.ids).try_into().unwrap(),
        };
        DurableId::new(partition, due, kept.ids)
    }

    /// A user's transaction cancels, moves or arms a timer.
    pub fn change(&self, user: u64, write: Write) -> Told {
        lock(&self.0).change(user, write)
    }

    /// A user's transaction ends. Returns what it has changed.
    pub fn end(&self, user: u64, commits: bool) -> Vec<(Write, Outcome)> {
        lock(&self.0).end_user(user, commits)
    }

    /// Whether the store has this row.
    pub fn has(&self, id: DurableId) -> bool {
        lock(&self.0).rows.contains_key(&id)
    }
}

impl Kept {
    fn change(&mut self, user: u64, write: Write) -> Told {
        let target = match &write {
            Write::Cancel(target) | Write::Move(target, _) => Some(target.clone()),
            Write::Arm(row) => row.key.clone().map(Target::Key),
            other => panic!("{other:?}"),
        };
        let mut names = Vec::new();
        let mut write = write;
        if let Some(target) = target {
            let now = self.find(&target).cloned();
            let is_locked = now.as_ref().is_some_and(|row| self.is_locked(row.id));
            if is_locked || matches!(&target, Target::Key(key) if self.key_locks.contains_key(key))
            {
                return Told::Waits;
            }
            let snapshot = self.users[&user].snapshot.as_ref();
            let seen = snapshot.map_or(now.clone(), |old| old.find(&target).cloned());
            let arms = matches!(write, Write::Arm(_));
            let Some(row) = seen else {
                return match (arms, now) {
                    // (By an old snapshot nobody has the key.)
                    (true, Some(_)) => Told::Conflict,
                    (true, None) => self.note_change(user, write, vec![target]),
                    (false, _) => Told::No,
                };
            };
            if self.rows.get(&row.id) != Some(&row) {
                return Told::Conflict;
            }
            // WatermarkLook.
            let number = row.id.partition();
            let current = (self.lease(number).epoch, self.claimed(number));
            let seen = snapshot.map_or(current, |old| old.claimed[usize::from(number)]);
            if seen != current && !self.is(StoreBreak::OldWatermark) {
                return Told::Conflict;
            }
            let is_free = Some(row.due) > seen.1 || self.is(StoreBreak::WatermarkIgnored);
            let is_done = match &write {
                Write::Arm(_) => true,
                Write::Move(..) => is_free && !row.superseded,
                _ => is_free || self.making.strikes && row.calendar.is_some() && !row.superseded,
            };
            if !is_done {
                return Told::No;
            }
            self.locks.insert(row.id, Lock { user, is_free });
            let by_id = Target::Id(row.id);
            names.extend(row.key.map(Target::Key).into_iter().chain([by_id.clone()]));
            write = match write {
                Write::Cancel(_) => Write::Cancel(by_id),
                Write::Move(_, due) => Write::Move(by_id, due),
                write => write,
            };
        }
        self.note_change(user, write, names)
    }

    fn note_change(&mut self, user: u64, write: Write, names: Vec<Target>) -> Told {
        if let Write::Arm(row) = &write
            && let Some(key) = &row.key
        {
            self.key_locks.insert(key.clone(), user);
        }
        if let Some(open) = self.users.get_mut(&user) {
            open.writes.push(write);
        }
        Told::Yes(names)
    }

    fn end_user(&mut self, user: u64, commits: bool) -> Vec<(Write, Outcome)> {
        let Some(ended) = self.users.remove(&user) else {
            return Vec::new();
        };
        let mut made = Vec::new();
        if commits || self.is(StoreBreak::RollbackStays) {
            for write in ended.writes {
                let outcome = self.apply(write.clone(), &BTreeMap::new());
                made.push((write, outcome));
            }
        }
        self.locks.retain(|_, lock| lock.user != user);
        self.key_locks.retain(|_, of| *of != user);
        made.retain(|_| commits);
        made
    }

    pub fn is_locked(&self, id: DurableId) -> bool {
        self.locks.contains_key(&id)
    }

    /// Whether a user's transaction is in the way of a node's change.
    pub fn is_blocked(&self, write: &Write) -> bool {
        let holder = |key: &Arc<str>| self.keys.get(key).is_some_and(|&id| self.is_locked(id));
        let takes = |key: &Arc<str>| holder(key) || self.key_locks.contains_key(key);
        match write {
            Write::Arm(row) => row.key.as_ref().is_some_and(takes),
            Write::Replace(of) => of.row.key.as_ref().is_some_and(takes),

            Write::Cancel(Target::Key(key)) | Write::Move(Target::Key(key), _) => holder(key),
            _ => matches!(name_of(write), Some(Target::Id(id)) if self.is_locked(id)),
        }
    }

    /// Whether a user is ending or moving this row, so that it is not handed out.
    pub fn is_passed_over(&self, id: DurableId) -> bool {
        let lock = self.locks.get(&id);
        lock.is_some_and(|lock| lock.is_free) && !self.is(StoreBreak::LockIgnored)
    }
}

impl Snapshot {
    fn find(&self, target: &Target) -> Option<&Row> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(key)?,
        };
        self.rows.get(id)
    }
}

/// What names the row of a node's change: a later one of the same name does not overtake it.
pub fn name_of(write: &Write) -> Option<Target> {
    match write {
        Write::Arm(row) => row.key.clone().map(Target::Key),
        Write::Replace(of) => of.row.key.clone().map(Target::Key),
        Write::Cancel(target) | Write::Move(target, _) => Some(target.clone()),
        Write::Amend(of) => Some(Target::Id(of.id)),
        Write::Begin { of, .. }
        | Write::Ack { of, .. }
        | Write::AckKept { of, .. }
        | Write::Retry { of, .. }
        | Write::Hold { of, .. }
        | Write::Bury { of, .. } => Some(Target::Id(of.id)),
        _ => None,
    }
}
