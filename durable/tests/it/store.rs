//! Promise: all stores of durable timers do what the trait `Store` says, and do it alike.
//!
//! - Each store meets a list of demands.
//! - Each does in random histories what `Memory` does: `WHEELWORK_SEEDS` histories, from
//!   `WHEELWORK_SEED` on.
//! - Stores that are broken on purpose are found, by both.

use crate::all_may_go::AllMayGo;
use crate::histories::hold_against;
use crate::over_memory::{Over, OverMemory};
use crate::stores::{DEMANDS, Place, at, hold_to_all_demands};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use std::{env, fs, panic, process};
use wheelwork_durable::contract::{
    Gate, Held, HeldWhy, Lease, Outcome, Position, SliceLimit, Store, Target, Write,
};
use wheelwork_durable::{DurableId, Memory, Partition, Redb, Row, StoreError, StoreTime};

impl Place for Memory {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.clone())
    }
}

fn memory() -> Box<dyn Place> {
    Box::new(Memory::new())
}

/// A folder for a file, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, SeqCst);
        let name = format!("wheelwork-store-{}-{number}", process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place for Folder {
    fn open(&self) -> Box<dyn Store> {
        Box::new(Redb::open(self.0.join("timers.redb")).unwrap())
    }
}

fn redb() -> Box<dyn Place> {
    Box::new(Folder::new())
}

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Holds stores against `Memory`, in as many histories as the environment says.
fn hold_against_memory(histories: u64, place: fn() -> Box<dyn Place>) {
    let first = number("WHEELWORK_SEED", 0);
    for seed in first..first + number("WHEELWORK_SEEDS", histories) {
        if let Err(why) = hold_against(seed, memory(), place()) {
            panic!("{why}");
        }
    }
}

#[test]
fn memory_meets_all_demands() {
    hold_to_all_demands(&memory);
}

#[test]
fn memory_does_what_memory_does() {
    hold_against_memory(100, memory);
}

#[test]
fn redb_meets_all_demands() {
    hold_to_all_demands(&redb);
}

#[test]
fn redb_does_what_memory_does() {
    hold_against_memory(15, redb);
}

#[test]
fn the_former_holder_is_refused() {
    let place = Memory::new();
    let mut former = place.clone();
    former.acquire().unwrap();
    let row = Row::new(
        former.new_id(None, at(10)),
        at(10),
        "kind".into(),
        (*b"").into(),
    );
    let mut gate = crate::stores::HandedOut::default();
    let arm = vec![Write::Arm(row)];
    former.commit(arm.clone(), &mut gate).unwrap();
    let mut holder = place.clone();
    holder.acquire().unwrap();
    let is_refused = |error: StoreError| matches!(error, StoreError::InUse(_));
    assert!(former.commit(arm, &mut gate).is_err_and(is_refused));
    let rows = former.load(0, Position::MIN, StoreTime::MAX, SliceLimit::rows(1));
    assert!(rows.is_err_and(is_refused));
    assert!(former.hand_out(at(10)).is_err_and(is_refused));
    assert!(former.release().is_err_and(is_refused));
    assert_eq!(holder.size().unwrap().rows, 1);
    let mut nobody = place;
    assert!(nobody.commit(Vec::new(), &mut gate).is_err_and(is_refused));
}

/// A way in which a store can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// A slice of rows begins after all rows of the last one's deadline.
    LoadSkipsEqualDeadlines,
    /// `load` has one row more than the limit.
    LoadIgnoresLimit,
    /// `load` has as many rows as are wanted, however large they are.
    BytesIgnored,
    /// A slice in which a kind is cancelled begins too late.
    KindSliceLate,
    /// What an earlier epoch may have handed out is not suspect.
    NoneSuspect,
    /// It is not, once it was loaded.
    SuspectOnce,
    /// A suspect that begins is not noted.
    NothingNoted,
    /// The watermark is where `hand_out` was called last.
    WatermarkFalls,
    /// The watermark survives a release.
    WatermarkNotReleased,
    /// The gate is not asked.
    GateNotAsked,
    /// The gate is not asked about a row whose key another one takes.
    ReplacedUnasked,
    /// The epoch of a delivery is not compared.
    EpochIgnored,
    /// The deadline of a delivery is not compared.
    DeadlineIgnored,
    /// The last write of a commit is made first.
    CommitsBackwards,
    /// A row that is last in a commit is lost.
    LastRowLost,
    /// Ids begin anew when the store is opened.
    IdsAgain,
    /// A row that is revived has an attempt.
    RevivedWithAttempts,
    /// What few rows have is lost.
    PartsLost,
    /// A row that is held has another deadline, and no mark.
    HeldWithoutMark,
    /// To be held is an attempt.
    HeldWithAttempts,
    /// A row that is moved keeps the mark.
    ReleasedWithMark,
    /// A store that is opened again begins an epoch.
    ReopenRaisesEpoch,
    /// It forgets its watermark.
    ReopenForgets,
}

const BREAKS: [Break; 23] = [
    Break::LoadSkipsEqualDeadlines,
    Break::LoadIgnoresLimit,
    Break::BytesIgnored,
    Break::KindSliceLate,
    Break::NoneSuspect,
    Break::SuspectOnce,
    Break::NothingNoted,
    Break::WatermarkFalls,
    Break::WatermarkNotReleased,
    Break::GateNotAsked,
    Break::ReplacedUnasked,
    Break::EpochIgnored,
    Break::DeadlineIgnored,
    Break::CommitsBackwards,
    Break::LastRowLost,
    Break::IdsAgain,
    Break::RevivedWithAttempts,
    Break::PartsLost,
    Break::HeldWithoutMark,
    Break::HeldWithAttempts,
    Break::ReleasedWithMark,
    Break::ReopenRaisesEpoch,
    Break::ReopenForgets,
];

/// Where a broken store lies.
struct BrokenPlace(Memory, Break);

impl Place for BrokenPlace {
    fn open(&self) -> Box<dyn Store> {
        Box::new(Over(Broken {
            inner: self.0.clone(),
            how: self.1,
            epoch: 0,
            ids: 0,
            watermark: None,
            loaded: BTreeSet::new(),
        }))
    }
}

/// A store in memory that is broken in one way.
struct Broken {
    inner: Memory,
    how: Break,
    epoch: u64,
    ids: u64,
    watermark: Option<StoreTime>,
    loaded: BTreeSet<DurableId>,
}

impl Broken {
    fn is(&self, how: Break) -> bool {
        self.how == how
    }

    /// A delivery as the broken store takes it.
    fn spoil(&mut self, write: &mut Write) {
        let (Write::Begin { of, .. }
        | Write::Ack { of, .. }
        | Write::Retry { of, .. }
        | Write::Hold { of, .. }
        | Write::Bury { of, .. }) = write
        else {
            if let (Write::Arm(row), Break::PartsLost) = (write, self.how) {
                row.set_expires(None);
                row.set_time_limit(None);
                row.set_traceparent(None);
            }
            return;
        };
        if self.is(Break::EpochIgnored) {
            of.epoch = self.epoch;
        }
        if self.is(Break::DeadlineIgnored)
            && let Ok(Some(row)) = self.inner.get(&Target::Id(of.id))
        {
            of.due = row.due;
        }
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        if let Some(watermark) = self.watermark {
            // Refused after a release.
            let _ = self.inner.hand_out(watermark);
        }
    }
}

impl OverMemory for Broken {
    fn memory(&mut self) -> &mut Memory {
        &mut self.inner
    }

    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        let leases = self.inner.acquire()?;
        self.epoch = leases[0].epoch;
        Ok(leases)
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        if self.is(Break::ReopenRaisesEpoch) {
            return self.acquire();
        }
        if self.is(Break::ReopenForgets) {
            self.inner.release()?;
            return self.acquire().map(|mut leases| {
                leases[0].epoch -= 1;
                leases
            });
        }
        self.inner.reopen()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        if self.is(Break::WatermarkNotReleased) {
            return Ok(());
        }
        self.inner.release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        if self.is(Break::IdsAgain) {
            self.ids += 1;
            return DurableId::new(0, due, self.ids);
        }
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        mut writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        writes.iter_mut().for_each(|write| self.spoil(write));
        let is_backwards = self.is(Break::CommitsBackwards);
        if is_backwards {
            writes.reverse();
        }
        let is_lost = self.is(Break::LastRowLost)
            && writes.len() > 1
            && matches!(writes.last(), Some(Write::Arm(row)) if row.key.is_none());
        if is_lost {
            writes.pop();
        }
        let mut outcomes = Vec::new();
        for write in writes {
            let is_unasked = match self.how {
                Break::GateNotAsked => true,
                Break::ReplacedUnasked => matches!(write, Write::Arm(_)),
                _ => false,
            };
            let gate: &mut dyn Gate = if is_unasked { &mut AllMayGo } else { gate };
            let mut write = write;
            if let Write::Begin { crashes, .. } = &mut write {
                *crashes *= u32::from(self.how != Break::NothingNoted);
            }
            let is_hold = matches!(write, Write::Hold { .. });
            if let (Write::Hold { of, .. }, Break::HeldWithoutMark) = (&write, self.how)
                && let Some(row) = self.inner.get(&Target::Id(of.id))?
            {
                write = Write::Retry {
                    of: of.clone(),
                    at: at((1 << 47) + of.due.as_millis()),
                    attempts: row.attempts,
                    crashes: row.crashes,
                };
            }
            let mut outcome = self.inner.commit(vec![write], gate)?.remove(0);
            if let (Outcome::Settled(_, Some(row)), true) = (&mut outcome, is_hold) {
                row.attempts += u32::from(self.how == Break::HeldWithAttempts);
            }
            if let (Outcome::Moved(Some(row)), Break::ReleasedWithMark) = (&mut outcome, self.how) {
                row.set_held(Some(Held {
                    why: HeldWhy::Paused,
                    since: at(1),
                }));
            }
            if let Outcome::Revived(Some(row)) = &mut outcome {
                row.attempts += u32::from(self.how == Break::RevivedWithAttempts);
            }
            if let Outcome::CancelledMany(_, Some(last)) = &mut outcome
                && self.how == Break::KindSliceLate
            {
                *last = Position::end_of(last.due.after(Duration::from_millis(1)));
            }
            outcomes.push(outcome);
        }
        if is_lost {
            outcomes.push(Outcome::Armed(None));
        }
        if is_backwards {
            outcomes.reverse();
        }
        Ok(outcomes)
    }

    fn load(
        &mut self,
        partition: Partition,
        mut after: Position,
        until: StoreTime,
        mut limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        if self.is(Break::LoadSkipsEqualDeadlines) && after != Position::MIN {
            after = Position::end_of(after.due);
        }
        if self.is(Break::LoadIgnoresLimit) {
            limit.rows = limit.rows.saturating_add(1);
        }
        if self.is(Break::BytesIgnored) {
            limit.bytes = usize::MAX;
        }
        let mut rows = self.inner.load(partition, after, until, limit)?;
        for row in &mut rows {
            let is_first = self.loaded.insert(row.id);
            row.suspect &= is_first || !self.is(Break::SuspectOnce);
        }
        Ok(rows)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        match self.how {
            Break::NoneSuspect => return Ok(()),
            Break::WatermarkFalls => {
                self.watermark = Some(upto);
                return Ok(());
            }
            _ => {}
        }
        self.inner.hand_out(upto)
    }
}

/// Whether a test fails.
fn fails(test: impl FnOnce()) -> bool {
    panic::catch_unwind(panic::AssertUnwindSafe(test)).is_err()
}

#[test]
fn a_broken_store_does_not_meet_the_demands() {
    for how in BREAKS {
        let place = || -> Box<dyn Place> { Box::new(BrokenPlace(Memory::new(), how)) };
        let failing = DEMANDS
            .iter()
            .filter(|(_, demand)| fails(|| demand(&*place())));
        assert!(failing.count() > 0, "{how:?} is not noticed");
    }
}

#[test]
fn a_broken_store_does_otherwise_in_some_history() {
    for how in BREAKS {
        let broken = || Box::new(BrokenPlace(Memory::new(), how));
        // A panic within a history is a difference, too.
        let differs = |seed| {
            let mut is_alike = false;
            fails(|| is_alike = hold_against(seed, memory(), broken()).is_ok()) || !is_alike
        };
        assert!((0..100).any(differs), "{how:?} is not noticed");
    }
}
