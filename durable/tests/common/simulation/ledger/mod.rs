//! Ledger: what the store has, what callers were told, and what handlers got on which node. It
//! stands outside of what it watches, and notes each broken promise.
//!
//! `writes.rs` follows what the store writes, `runs.rs` what handlers get, `leases.rs` who may hand
//! out what, `records.rs` what is kept of runs that are done.

mod leases;
mod limits;
mod records;
mod rules;
mod runs;
mod writes;

pub use leases::{FOR_EVER, recovery};
pub use limits::{RATES, Since};
pub use records::FORGOTTEN_WITHIN;
pub use writes::Made;

use super::scene::Scene;
use fastrand::Rng;
use leases::Leases;
use limits::Limits;
use records::Records;
use rules::KnownRules;
use runs::Start;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, Target, Write};
use wheelwork_durable::{DurableId, Row, StoreTime};

/// What has become of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is to fire, or it is being handled.
    Stored,
    /// It is a dead letter.
    Dead,
    Cancelled,
    Replaced,
    Done,
    Discarded,
}

/// What a handler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Done,
    Failed,
    Later,
    GaveUp,
    /// It has not ended.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Timer {
    /// What its payload begins with. No other timer has it, but for copies of recurring ones.
    pub token: u64,
    pub row: Row,
    pub state: State,
    /// The number of the write that ended it.
    ended: usize,
    /// The number of the write that cancelled it while it was handled: it has a calendar.
    struck: Option<usize>,
    /// When it was armed or moved, by the time that has passed.
    placed: SystemTime,
    /// Handlers that have begun since the row has this deadline.
    starts: Vec<Start>,
    /// Leases that have ended while it was handled alone, or was just about to be.
    deaths: u32,
    /// The epoch in which it was charged with a crash, and no handler has begun since.
    charged: Option<u64>,
    /// When another took its key, by the store's clock.
    superseded: Option<SystemTime>,
    /// What it was before it was amended, since it has this deadline and counts as handed out.
    former: Vec<Row>,
}

/// How nodes are set up, as far as the ledger looks at it.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub attempts_max: u32,
    pub crashes_max: u32,
    /// The kinds that have a handler. In a process without any, nothing is handed out.
    pub kinds: BTreeSet<&'static str>,
    /// A timer that waits for a handler for so long becomes a dead letter.
    pub bury_after: Duration,
}

/// What the stats of a process have to say, of this life.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    armed: u64,
    cancelled: u64,
    moved: u64,
    done: u64,
    failed: u64,
    snoozed: u64,
    given_up: u64,
    expired: u64,
    died: u64,
    /// Those of them that had waited for a handler.
    died_held: u64,
    /// Settlements of another epoch.
    stale: u64,
}

pub struct Ledger {
    scene: Scene,
    pub setup: Setup,
    /// The kinds that each node hands out.
    pub kinds_of: BTreeMap<usize, BTreeSet<&'static str>>,
    pub timers: BTreeMap<DurableId, Timer>,
    pub keys: BTreeMap<String, DurableId>,
    /// Each write that the store has made, with its outcome.
    pub made: Vec<(Write, Outcome)>,
    pub wrongs: Vec<String>,
    pub leases: Leases,
    pub limits: Limits,
    pub records: Records,
    /// Rows that users' transactions have locked.
    pub held: BTreeSet<DurableId>,
    story: String,
    tally: Tally,
    /// Rows that were let go, while the outcome of the commit is not known.
    let_go: BTreeSet<DurableId>,
    /// The last token that each node has armed with each key.
    last: BTreeMap<(usize, Arc<str>), u64>,
    handled: u64,
    repeated: u64,
    /// Timers that were held for want of a handler, and those that were released.
    waited: u64,
    released: u64,
    /// Pauses.
    paused: u64,
    rules: KnownRules,
    /// Settlements that the store has refused.
    stale: u64,
    /// Changes that users' transactions have held up.
    held_up: u64,
    /// What handlers said in commits whose answers were lost, and that was not stored once more
    /// yet.
    lost: Tally,
    /// How often a store has failed that might come back.
    pub outages: u64,
}

/// What a seed came to.
#[derive(Debug, Default)]
pub struct Report {
    pub counts: BTreeMap<&'static str, u64>,
    pub story: String,
}

impl Report {
    /// Adds another one's counts.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }
}

/// The token of a payload.
pub fn token(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let number = text.split(' ').next().unwrap_or_default();
    number.parse().unwrap_or(u64::MAX)
}

impl Ledger {
    pub fn new(scene: Scene) -> Self {
        Self {
            scene,
            setup: Setup::default(),
            kinds_of: BTreeMap::new(),
            timers: BTreeMap::new(),
            keys: BTreeMap::new(),
            made: Vec::new(),
            wrongs: Vec::new(),
            leases: Leases::default(),
            limits: Limits::default(),
            records: Records::default(),
            held: BTreeSet::new(),
            story: String::new(),
            tally: Tally::default(),
            let_go: BTreeSet::new(),
            last: BTreeMap::new(),
            handled: 0,
            repeated: 0,
            waited: 0,
            released: 0,
            paused: 0,
            rules: KnownRules::default(),
            stale: 0,
            held_up: 0,
            lost: Tally::default(),
            outages: 0,
        }
    }

    pub fn note(&mut self, what: impl Display) {
        writeln!(self.story, "{what}").unwrap();
    }

    /// A promise is broken.
    pub fn wrong(&mut self, what: impl Display) {
        self.note(format_args!("WRONG: {what}"));
        self.wrongs.push(what.to_string());
    }

    pub fn demand(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right {
            self.wrong(what());
        }
    }

    pub fn find(&self, target: &Target) -> Option<&Timer> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(&**key)?,
        };
        let timer = self.timers.get(id)?;
        (timer.state == State::Stored).then_some(timer)
    }

    pub fn stored(&self) -> impl Iterator<Item = &Timer> {
        self.in_state(State::Stored)
    }

    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Timer> {
        let timers = self.timers.values();
        timers.filter(move |timer| timer.state == state)
    }

    /// How many letters of a kind are dead.
    pub fn dead_of(&self, kind: &str) -> usize {
        let dead = self.in_state(State::Dead);
        dead.filter(|timer| *timer.row.kind == *kind).count()
    }

    pub fn is_dead(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.state == State::Dead)
    }

    /// Ids of what is dead.
    pub fn dead_ids(&self) -> Vec<DurableId> {
        let dead = self.in_state(State::Dead);
        dead.map(|timer| timer.row.id).collect()
    }

    /// Ids of what has a calendar and is stored.
    pub fn recurring(&self) -> Vec<DurableId> {
        let recurring = self.stored().filter(|timer| timer.row.calendar.is_some());
        recurring.map(|timer| timer.row.id).collect()
    }

    /// The tokens of what is still to be handled.
    pub fn tokens_left(&self) -> Vec<u64> {
        let rows = self.stored().filter(|timer| !timer.row.superseded);
        rows.map(|timer| timer.token).collect()
    }

    /// Timers that have ended so by the writes from a number on.
    pub fn ended_since(&self, first: usize, state: State) -> BTreeSet<DurableId> {
        let ended = self.in_state(state).filter(|timer| timer.ended >= first);
        let timers = self.timers.values();
        let struck = timers.filter(|timer| timer.struck.is_some_and(|at| at >= first));
        let struck = struck.filter(|_| state == State::Cancelled);
        ended.chain(struck).map(|timer| timer.row.id).collect()
    }

    /// Some timer that ever was.
    pub fn any_row(&self, rng: &mut Rng) -> Option<Row> {
        let number = rng.usize(..self.timers.len().max(1));
        let timer = self.timers.values().nth(number)?;
        Some(timer.row.clone())
    }

    /// A timer that is stored, mostly one of the first by position that are due `from` then on.
    pub fn stored_row(&self, rng: &mut Rng, from: StoreTime) -> Option<Row> {
        let mut rows: Vec<_> = self.stored().map(|timer| &timer.row).collect();
        rows.sort_unstable_by_key(|row| row.position());
        let rows = &rows[rows.partition_point(|row| row.due < from)..];
        if rows.is_empty() {
            return None;
        }
        let number = (0..3).map(|_| rng.usize(..rows.len())).min()?;
        Some(rows[number].clone())
    }

    /// What the seed came to. `Err`: the story of a broken promise.
    pub fn report(&mut self, more: &[(&'static str, u64)]) -> Result<Report, String> {
        let count = |state| self.in_state(state).count() as u64;
        let mut counts = BTreeMap::from([
            ("armed", self.timers.len() as u64),
            ("handled", self.handled),
            ("repeated", self.repeated),
            ("cancelled", count(State::Cancelled)),
            ("dead", count(State::Dead)),
            ("waited", self.waited),
            ("released", self.released),
            ("pauses", self.paused),
            ("stale", self.stale),
            ("leases", self.leases.taken),
            ("held up", self.held_up),
            ("limited", self.limits.held),
            ("outages", self.outages),
            ("records", self.records.count()),
            ("forgotten", self.records.forgotten),
        ]);
        counts.extend(more.iter().copied());
        counts.retain(|_, count| *count > 0);
        let story = std::mem::take(&mut self.story);
        match self.wrongs.is_empty() {
            true => Ok(Report { counts, story }),
            false => Err(story),
        }
    }

    /// Whether timers of this kind are handed out.
    pub fn is_handled(&self, kind: &str) -> bool {
        self.setup.kinds.contains(kind)
    }

    /// Whether this node hands out timers of this kind.
    pub fn is_of(&self, node: usize, kind: &str) -> bool {
        let kinds = self.kinds_of.get(&node);
        kinds.is_some_and(|kinds| kinds.contains(kind))
    }

    /// What callers were told so far.
    pub fn told(&self) -> Tally {
        self.tally
    }

    /// A commit is made, and its callers are not told. (What handlers have said is stored once
    /// more, and told then.)
    pub fn is_untold(&mut self, told: Tally) {
        let Self { tally, lost, .. } = self;
        (tally.armed, tally.cancelled) = (told.armed, told.cancelled);
        (tally.moved, tally.stale) = (told.moved, told.stale);
        // (The writer counts those that it has buried itself when it is told so, and only then.)
        tally.died -= tally.died_held - told.died_held;
        tally.died_held = told.died_held;
        lost.done += tally.done - told.done;
        lost.failed += tally.failed - told.failed;
        lost.snoozed += tally.snoozed - told.snoozed;
        lost.given_up += tally.given_up - told.given_up;
        lost.expired += tally.expired - told.expired;
        lost.died += tally.died - told.died;
    }

    /// Another process has had the store: what was said in a commit whose answer was lost is
    /// refused.
    pub fn lost_is_refused(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        self.tally.done -= lost.done;
        self.tally.failed -= lost.failed;
        self.tally.snoozed -= lost.snoozed;
        self.tally.given_up -= lost.given_up;
        self.tally.expired -= lost.expired;
        self.tally.died -= lost.died;
    }

    /// The stats of a process have what has happened in this life.
    pub fn compare(&mut self, stats: &wheelwork_durable::DurableStats) {
        let tally = &self.tally;
        let is_right = [
            (tally.armed, stats.armed),
            (tally.cancelled, stats.cancelled),
            (tally.moved, stats.moved),
            (tally.done, stats.done),
            (tally.failed, stats.failed),
            (tally.snoozed, stats.snoozed),
            (tally.given_up, stats.given_up),
            (tally.expired, stats.expired),
            (tally.died, stats.died),
            (tally.stale, stats.stale),
        ]
        .iter()
        .all(|(own, stats)| own == stats);
        let what = format!("{stats:?} is not {tally:?}");
        self.demand(is_right, || what);
    }
}
