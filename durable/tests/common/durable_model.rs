//! What a store of durable timers should hold: a reference that is plain and slow. Beside it, a
//! random history of calls, and folders for files.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use wheelwork_durable::contract::{
    DonePlace, DoneRange, Gate, Held, HeldWhy, KindSlice, Outcome, Position, RuleChange, Settled,
    SliceLimit, Store, Target, TrialBegun, Write,
};
use wheelwork_durable::{
    Cause, DeadLetter, DoneEnding, DoneTimer, DurableId, Rate, Redb, Row, RuleFor, StoreError,
    StoreTime,
};

/// A held row is due at its deadline after this.
const HELD_BASE_MS: u64 = 1 << 47;

/// A folder that is removed with its files.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, SeqCst);
        let folder = format!("wheelwork-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("timers.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Rows that were handed out. All others may go.
#[derive(Clone, Debug, Default)]
pub struct HandedOut(pub BTreeSet<DurableId>);

impl Gate for HandedOut {
    fn let_go(&mut self, id: DurableId) -> bool {
        !self.0.contains(&id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    row: Row,
    /// The epoch in which it was written last.
    epoch: u64,
}

/// Of each rule: since when it pauses, its rate, its calls.
pub type Rules = BTreeMap<RuleFor, (Option<StoreTime>, Option<Rate>, Option<NonZeroU32>)>;

/// The reference.
#[derive(Clone, Debug, Default)]
pub struct Model {
    rows: BTreeMap<DurableId, Kept>,
    dead: BTreeMap<DurableId, DeadLetter>,
    pub rules: Rules,
    done: BTreeMap<DonePlace, DoneTimer>,
    pub epoch: u64,
    claimed_upto: Option<StoreTime>,
    /// Epochs that ended without a release, with their watermarks.
    earlier: Vec<(u64, StoreTime)>,
}

impl Model {
    pub fn acquire(&mut self) {
        self.earlier
            .extend(self.claimed_upto.take().map(|upto| (self.epoch, upto)));
        self.epoch += 1;
    }

    pub fn release(&mut self) {
        self.claimed_upto = None;
    }

    pub fn hand_out(&mut self, upto: StoreTime) {
        self.claimed_upto = self.claimed_upto.max(Some(upto));
    }

    pub fn load(&self, after: Position, until: StoreTime, limit: usize) -> Vec<Row> {
        let mut positions: Vec<_> = self.rows.values().map(|kept| kept.row.position()).collect();
        positions.retain(|position| *position > after && position.due <= until);
        positions.sort_unstable();
        let positions = positions.into_iter().take(limit);
        positions.map(|at| self.seen(&self.rows[&at.id])).collect()
    }

    /// A row as it is read.
    fn seen(&self, kept: &Kept) -> Row {
        let mut row = kept.row.clone();
        let was_handed_out = |&(epoch, upto)| kept.epoch <= epoch && row.due <= upto;
        let was_handed_out = self.earlier.iter().any(was_handed_out);
        row.suspect |= was_handed_out;
        row
    }

    /// Ends a row, or strikes it: one that was handed out, and recurs, ends with its handler.
    fn cancel(&mut self, id: DurableId, gate: &mut dyn Gate) -> bool {
        if gate.let_go(id) {
            self.rows.remove(&id);
            return true;
        }
        let row = &mut self.rows.get_mut(&id).unwrap().row;
        if row.superseded || row.calendar.is_none() {
            return false;
        }
        (row.key, row.superseded) = (None, true);
        true
    }

    pub fn dead(&self) -> Vec<DeadLetter> {
        self.dead.values().cloned().collect()
    }

    /// Records of runs, from the first to the last.
    pub fn done(&self) -> Vec<DoneTimer> {
        self.done.values().cloned().collect()
    }

    pub fn dead_ids(&self) -> Vec<DurableId> {
        self.dead.keys().copied().collect()
    }

    pub fn ids(&self) -> Vec<DurableId> {
        self.rows.keys().copied().collect()
    }

    pub fn row(&self, id: DurableId) -> Option<Row> {
        self.rows.get(&id).map(|kept| self.seen(kept))
    }

    pub fn of_key(&self, key: &str) -> Option<DurableId> {
        let has = |kept: &&Kept| kept.row.key.as_deref() == Some(key);
        self.rows.values().find(has).map(|kept| kept.row.id)
    }

    fn target(&self, target: &Target) -> Option<DurableId> {
        match target {
            Target::Id(id) => self.rows.contains_key(id).then_some(*id),
            Target::Key(key) => self.of_key(key),
        }
    }

    /// Attempts and crashes are as given.
    fn put_again(&mut self, id: DurableId, due: StoreTime, counts: (u32, u32)) -> Row {
        let kept = self.rows.get_mut(&id).unwrap();
        (kept.row.due, kept.epoch) = (due, self.epoch);
        kept.row.set_held(None);
        (kept.row.attempts, kept.row.crashes) = counts;
        kept.row.suspect = false;
        kept.row.clone()
    }

    /// The row that was handed out so. `None`: nothing is to be done.
    fn settled(&self, of: &Settled) -> Option<&Kept> {
        let kept = self.rows.get(&of.id)?;
        (of.epoch == self.epoch && kept.row.due == of.due).then_some(kept)
    }

    pub fn make(&mut self, write: Write, gate: &mut HandedOut) -> Outcome {
        match write {
            Write::Arm(row) => {
                let old = row.key.as_deref().and_then(|key| self.of_key(key));
                let gone = old.filter(|old| gate.let_go(*old));
                if let Some(gone) = gone {
                    self.rows.remove(&gone);
                } else if let Some(old) = old {
                    let kept = self.rows.get_mut(&old).unwrap();
                    (kept.row.key, kept.row.superseded) = (None, true);
                }
                let epoch = self.epoch;
                self.rows.insert(row.id, Kept { row, epoch });
                Outcome::Armed(gone)
            }
            Write::Cancel(target) => {
                let id = self.target(&target);
                Outcome::Cancelled(id.filter(|&id| self.cancel(id, gate)))
            }
            Write::Move(target, due) => {
                let id = self.target(&target);
                let id = id.filter(|id| !self.rows[id].row.superseded && gate.let_go(*id));
                Outcome::Moved(id.map(|id| {
                    let mut row = self.seen(&self.rows[&id]);
                    row.due = due;
                    row.set_held(None);
                    let (kept, epoch) = (row.clone(), self.epoch);
                    self.rows.insert(id, Kept { row: kept, epoch });
                    row
                }))
            }
            Write::CancelKind(slice) => {
                let ids = self
                    .rows
                    .values()
                    .filter(|kept| kept.row.kind == slice.kind);
                let mut ids: Vec<_> = ids.map(|kept| kept.row.id).collect();
                ids.retain(|&id| self.cancel(id, gate));
                Outcome::CancelledMany(ids, None)
            }
            Write::Begin { of, crashes } => {
                let Some(kept) = self.settled(&of) else {
                    return Outcome::Begun(TrialBegun::Refused);
                };
                if kept.row.superseded {
                    self.rows.remove(&of.id);
                    return Outcome::Begun(TrialBegun::Superseded);
                }
                let epoch = self.epoch;
                let kept = self.rows.get_mut(&of.id).unwrap();
                (kept.row.crashes, kept.row.suspect, kept.epoch) = (crashes, true, epoch);
                Outcome::Begun(TrialBegun::Noted)
            }
            Write::Ack { of, next } => {
                let Some(kept) = self.settled(&of) else {
                    return Outcome::Settled(false, None);
                };
                let next = next.filter(|_| !kept.row.superseded);
                let Some(next) = next else {
                    self.rows.remove(&of.id);
                    return Outcome::Settled(true, None);
                };
                Outcome::Settled(true, Some(self.put_again(of.id, next, (0, 0))))
            }
            Write::AckKept { of, next, kept } => {
                let outcome = self.make(Write::Ack { of, next }, gate);
                if let Outcome::Settled(true, _) = outcome {
                    self.done.insert(kept.place(), *kept);
                }
                outcome
            }
            Write::Retry {
                of,
                at,
                attempts,
                crashes,
            } => {
                let Some(kept) = self.settled(&of) else {
                    return Outcome::Settled(false, None);
                };
                if kept.row.superseded {
                    self.rows.remove(&of.id);
                    return Outcome::Settled(true, None);
                }
                Outcome::Settled(true, Some(self.put_again(of.id, at, (attempts, crashes))))
            }
            Write::Hold { of, why, since } => {
                let Some(kept) = self.settled(&of) else {
                    return Outcome::Settled(false, None);
                };
                if kept.row.superseded {
                    self.rows.remove(&of.id);
                    return Outcome::Settled(true, None);
                }
                let epoch = self.epoch;
                let kept = self.rows.get_mut(&of.id).unwrap();
                if kept.row.held().is_none() {
                    kept.row.due = time(HELD_BASE_MS + kept.row.due.as_millis());
                }
                kept.row.set_held(Some(Held { why, since }));
                (kept.row.suspect, kept.epoch) = (false, epoch);
                Outcome::Settled(true, Some(kept.row.clone()))
            }
            Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } => {
                let Some(kept) = self.settled(&of) else {
                    return Outcome::Settled(false, None);
                };
                let mut row = kept.row.clone();
                (row.attempts, row.crashes, row.suspect) = (attempts, crashes, false);
                if row.held().is_some() {
                    row.due = time(row.due.as_millis() - HELD_BASE_MS);
                    row.set_held(None);
                }
                let mut stays = None;
                if row.superseded {
                    self.rows.remove(&of.id);
                    return Outcome::Settled(true, None);
                }
                if let Some((next, copy)) = next {
                    (row.id, row.key, row.calendar) = (copy, None, None);
                    stays = Some(self.put_again(of.id, next, (0, 0)));
                } else {
                    self.rows.remove(&of.id);
                }
                let letter = DeadLetter::new(row, cause, since);
                self.dead.insert(letter.row.id, letter);
                Outcome::Settled(true, stays)
            }
            Write::Revive(id, due) => Outcome::Revived(self.dead.remove(&id).map(|letter| {
                let mut row = letter.row;
                (row.due, row.attempts, row.crashes, row.key) = (due, 0, 0, None);
                let epoch = self.epoch;
                self.rows.insert(
                    id,
                    Kept {
                        row: row.clone(),
                        epoch,
                    },
                );
                row
            })),
            Write::Discard(id) => Outcome::Discarded(self.dead.remove(&id).is_some()),
            Write::Rule(of, change) => {
                let former = self.rules.get(&of).copied();
                let mut parts = former.unwrap_or_default();
                match change {
                    RuleChange::Pause(now) => parts.0 = parts.0.or(Some(now)),
                    RuleChange::Resume => parts.0 = None,
                    RuleChange::Rate(rate) => parts.1 = rate,
                    RuleChange::Calls(calls) => parts.2 = calls,
                    other => panic!("{other:?}"),
                }
                if parts == (None, None, None) {
                    self.rules.remove(&of);
                } else {
                    self.rules.insert(of, parts);
                }
                Outcome::Ruled(parts != former.unwrap_or_default())
            }
            other => panic!("{other:?}"),
        }
    }
}

pub fn time(millis: u64) -> StoreTime {
    StoreTime::from_millis(millis)
}

/// A row of the kind "kind", as a store would be given it.
pub fn row(store: &mut impl Store, due: u64, payload: &[u8]) -> Row {
    let id = store.new_id(None, time(due));
    Row::new(id, time(due), "kind".into(), payload.into())
}

/// What a store has, from the first to the last, and its dead letters.
pub fn contents(store: &mut impl Store) -> Result<(Vec<Row>, Vec<DeadLetter>), StoreError> {
    let rows = store.load(
        0,
        Position::MIN,
        StoreTime::MAX,
        SliceLimit::rows(usize::MAX),
    )?;
    Ok((rows, store.dead(None, SliceLimit::rows(usize::MAX))?))
}

/// The rules of a store.
pub fn rules(store: &mut impl Store) -> Result<Rules, StoreError> {
    let rules = store.rules()?.into_iter();
    let parts = rules.map(|rule| (rule.of, (rule.paused_since, rule.rate, rule.calls)));
    Ok(parts.collect())
}

/// The records of runs that a store has, from the first to the last.
pub fn done(store: &mut impl Store) -> Vec<DoneTimer> {
    let done = store.done().unwrap();
    done.look(&DoneRange::ALL, usize::MAX).unwrap().done
}

/// A call of a history.
#[derive(Clone, Debug)]
pub enum Call {
    Acquire,
    Release,
    HandOut(StoreTime),
    Load(Position, StoreTime, usize),
    Commit(Vec<Write>),
    Rules,
    Upkeep,
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Rows(Vec<Row>),
    Outcomes(Vec<Outcome>),
    Rules(Rules),
}

/// A random history of calls, and what they should come to.
pub struct History {
    pub rng: fastrand::Rng,
    pub model: Model,
    pub gate: HandedOut,
    /// Deadlines are below, in milliseconds.
    pub span: u64,
    now: u64,
}

impl History {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            model: Model::default(),
            gate: HandedOut::default(),
            span: 1_000,
            now: 0,
        }
    }

    fn due(&mut self) -> StoreTime {
        time(self.now + self.rng.u64(0..self.span))
    }

    fn some(&mut self, ids: &[DurableId]) -> Option<DurableId> {
        (!ids.is_empty()).then(|| ids[self.rng.usize(0..ids.len())])
    }

    fn target(&mut self, ids: &[DurableId]) -> Target {
        if self.rng.u8(0..4) == 0 {
            return Target::Key(self.key());
        }
        let made_up = DurableId::new(0, self.due(), self.rng.u64(0..1_000));
        Target::Id(self.some(ids).unwrap_or(made_up))
    }

    fn key(&mut self) -> Arc<str> {
        format!("key-{}", self.rng.u8(0..10)).into()
    }

    fn arm(&mut self, store: &mut impl Store) -> Write {
        let due = self.due();
        let key = (self.rng.u8(0..3) == 0).then(|| self.key());
        let id = store.new_id(key.as_deref(), due);
        let kind = ["order.unpaid", "mail", ""][self.rng.usize(0..3)];
        let len = if self.rng.u8(0..50) == 0 { 9_000 } else { 60 };
        let payload: Vec<_> = (0..self.rng.usize(0..len))
            .map(|_| self.rng.u8(..))
            .collect();
        let mut row = Row::new(id, due, kind.into(), payload.into());
        row.key = key;
        row.calendar = (self.rng.u8(0..5) == 0).then(|| "@daily".into());
        if self.rng.u8(0..8) == 0 {
            row.set_expires(self.rng.bool().then(|| time(9_000)));
            row.set_time_limit(self.rng.bool().then(|| Duration::from_millis(1_500)));
            let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            row.set_traceparent(self.rng.bool().then(|| trace.into()));
        }
        Write::Arm(row)
    }

    fn settle(&mut self, store: &mut impl Store, id: DurableId) -> Option<Write> {
        self.gate.0.remove(&id);
        let row = self.model.row(id)?;
        let of = Settled {
            id,
            due: row.due,
            epoch: self.model.epoch - u64::from(self.rng.u8(0..20) == 0),
        };
        let next = row.calendar.is_some().then(|| self.due());
        let attempts = row.attempts + 1;
        let crashes = self.rng.u32(0..3);
        Some(match self.rng.u8(0..6) {
            4 => Write::Begin { of, crashes },
            5 => Write::Hold {
                of,
                why: [HeldWhy::Unhandled, HeldWhy::Paused][self.rng.usize(0..2)],
                since: time(self.now),
            },
            0 => Write::Retry {
                of,
                at: self.due(),
                attempts,
                crashes,
            },
            1 => Write::Bury {
                of,
                cause: [
                    Cause::Crashed,
                    Cause::UnknownKind,
                    Cause::Failed("why".into()),
                    Cause::Undecodable("".into()),
                    Cause::GivenUp("no such order".into()),
                    Cause::Expired,
                ][self.rng.usize(0..6)]
                .clone(),
                since: time(self.now),
                attempts,
                crashes,
                next: next.map(|next| (next, store.new_id(None, next))),
            },
            // (The chances stay as they are.)
            _ if self.rng.clone().bool() => Write::Ack { of, next },
            _ => {
                let mut kept = DoneTimer::new(id, row.due, row.kind, time(self.now));
                (kept.key, kept.crashes) = (row.key, crashes);
                if self.now.is_multiple_of(3) {
                    (kept.began, kept.ending) = (None, DoneEnding::LeftOut);
                }
                let kept = Box::new(kept);
                Write::AckKept { of, next, kept }
            }
        })
    }

    fn write(&mut self, store: &mut impl Store, armed: &[DurableId]) -> Option<Write> {
        let mut ids = self.model.ids();
        ids.extend(armed);
        let dead = self.model.dead_ids();
        Some(match self.rng.u8(0..20) {
            0..8 => self.arm(store),
            8..12 => Write::Cancel(self.target(&ids)),
            12..14 => Write::Move(self.target(&ids), self.due()),
            14..17 => {
                let out: Vec<_> = self.gate.0.iter().copied().collect();
                let id = self.some(&out)?;
                self.settle(store, id)?
            }
            17 => Write::Revive(self.some(&dead)?, self.due()),
            18 => Write::Discard(self.some(&dead)?),
            _ if self.rng.u8(0..20) == 0 => Write::CancelKind(KindSlice::all("mail")),
            _ if self.rng.bool() => Write::Rule(self.rule_for(), self.rule_change()),
            _ => return None,
        })
    }

    fn rule_for(&mut self) -> RuleFor {
        match self.rng.u8(0..4) {
            0 => RuleFor::Kind("".into()),
            1 => RuleFor::Kind("key-".into()),
            2 => RuleFor::Keys("key-".into()),
            _ => RuleFor::Keys(format!("key-{}", self.rng.u8(0..3)).into()),
        }
    }

    fn rule_change(&mut self) -> RuleChange {
        let is_some = self.rng.bool();
        let count = NonZeroU32::new(self.rng.u32(1..4)).unwrap();
        match self.rng.u8(0..6) {
            0..2 => RuleChange::Pause(time(self.now)),
            2..4 => RuleChange::Resume,
            4 => RuleChange::Rate(Rate::new(0.5, count).filter(|_| is_some)),
            _ => RuleChange::Calls(Some(count).filter(|_| is_some)),
        }
    }

    /// The next call. The model has not made it yet.
    pub fn next_call(&mut self, store: &mut impl Store) -> Call {
        self.now += self.rng.u64(0..self.span / 20 + 1);
        match self.rng.u8(0..20) {
            0..2 => {
                let upto = self.now + self.rng.u64(0..20);
                Call::HandOut(time(upto))
            }
            2..5 => {
                let after = match self.rng.bool() {
                    true => Position::MIN,
                    false => Position::end_of(time(self.rng.u64(0..self.now + 1))),
                };
                let until = time(self.now + self.rng.u64(0..self.span));
                Call::Load(after, until, self.rng.usize(0..30))
            }
            5 => Call::Rules,
            6..8 => Call::Upkeep,
            _ => {
                let (mut writes, mut armed) = (Vec::new(), Vec::new());
                for _ in 0..self.rng.usize(1..20) {
                    let write = self.write(store, &armed);
                    if let Some(Write::Arm(row)) = &write {
                        armed.push(row.id);
                    }
                    writes.extend(write);
                }
                Call::Commit(writes)
            }
        }
    }

    /// What the call should come to.
    pub fn expect(&mut self, call: &Call) -> Answer {
        match call.clone() {
            Call::Acquire => {
                self.gate.0.clear();
                self.model.acquire();
                Answer::Done
            }
            Call::Release => {
                self.model.release();
                Answer::Done
            }
            Call::HandOut(upto) => {
                self.model.hand_out(upto);
                // What is due is handed out, and a part of it is settled later.
                let due = self.model.rows.values().map(|kept| &kept.row);
                let due = due.filter(|row| row.due <= upto).map(|row| row.id);
                self.gate.0.extend(due);
                Answer::Done
            }
            Call::Load(after, until, limit) => Answer::Rows(self.model.load(after, until, limit)),
            Call::Commit(writes) => {
                let make = |write| self.model.make(write, &mut self.gate);
                Answer::Outcomes(writes.into_iter().map(make).collect())
            }
            Call::Rules => Answer::Rules(self.model.rules.clone()),
            Call::Upkeep => Answer::Done,
        }
    }
}

/// Makes a call.
pub fn make(
    store: &mut impl Store,
    call: &Call,
    gate: &mut HandedOut,
) -> Result<Answer, StoreError> {
    Ok(match call.clone() {
        Call::Acquire => {
            store.acquire()?;
            Answer::Done
        }
        Call::Release => {
            store.release()?;
            Answer::Done
        }
        Call::HandOut(upto) => {
            store.hand_out(upto)?;
            Answer::Done
        }
        Call::Load(after, until, limit) => {
            Answer::Rows(store.load(0, after, until, SliceLimit::rows(limit))?)
        }
        Call::Commit(writes) => Answer::Outcomes(store.commit(writes, gate)?),
        Call::Rules => Answer::Rules(rules(store)?),
        Call::Upkeep => {
            store.upkeep()?;
            Answer::Done
        }
    })
}

/// The store in the file of a folder.
pub fn open(folder: &Folder) -> Redb {
    Redb::open(folder.file()).unwrap()
}

/// Commits changes. Nothing was handed out.
pub fn commit(store: &mut Redb, writes: Vec<Write>) -> Vec<Outcome> {
    store.commit(writes, &mut HandedOut::default()).unwrap()
}

/// Names a delivery of a row.
pub fn settled(row: &Row, epoch: u64) -> Settled {
    Settled {
        id: row.id,
        due: row.due,
        epoch,
    }
}

/// All rows of a store.
pub fn all(store: &mut Redb) -> Vec<Row> {
    contents(store).unwrap().0
}
