//! Records: what a ledger knows of rows. Which are stored, by whom their keys are held, how they
//! ended; what the store has written; the story, and each broken promise in it.

use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};
use std::time::SystemTime;
use wheelwork_durable::contract::{Outcome, Target, Write};
use wheelwork_durable::{Delivery, DurableId, Row};

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
    /// It has not ended.
    Nothing,
}

/// A timer, and `more` that one of the ledgers notes of it.
#[derive(Clone, Debug)]
pub struct Timer<M> {
    /// What its payload begins with. No other timer has it, but for copies of recurring ones.
    pub token: u64,
    pub row: Row,
    pub state: State,
    /// The number of the write that ended it.
    ended: usize,
    /// The number of the write that cancelled it while it was handled: it has a calendar.
    struck: Option<usize>,
    pub more: M,
}

pub struct Records<M> {
    pub timers: BTreeMap<DurableId, Timer<M>>,
    pub keys: BTreeMap<String, DurableId>,
    /// Each write that the store has made, with its outcome.
    pub made: Vec<(Write, Outcome)>,
    pub wrongs: Vec<String>,
    pub story: String,
    pub handled: u64,
    pub repeated: u64,
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

impl<M> Default for Records<M> {
    fn default() -> Self {
        Self {
            timers: BTreeMap::new(),
            keys: BTreeMap::new(),
            made: Vec::new(),
            wrongs: Vec::new(),
            story: String::new(),
            handled: 0,
            repeated: 0,
        }
    }
}

impl<M> Records<M> {
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

    pub fn find(&self, target: &Target) -> Option<&Timer<M>> {
        let id = match target {
            Target::Id(id) => id,
            Target::Key(key) => self.keys.get(&**key)?,
        };
        let timer = self.timers.get(id)?;
        (timer.state == State::Stored).then_some(timer)
    }

    pub fn stored(&self) -> impl Iterator<Item = &Timer<M>> {
        self.in_state(State::Stored)
    }

    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Timer<M>> {
        let timers = self.timers.values();
        timers.filter(move |timer| timer.state == state)
    }

    pub fn is_dead(&self, id: DurableId) -> bool {
        let timer = self.timers.get(&id);
        timer.is_some_and(|timer| timer.state == State::Dead)
    }

    /// Ids of what has a calendar and is stored.
    pub fn recurring(&self) -> Vec<DurableId> {
        let recurring = self.stored().filter(|timer| timer.row.calendar.is_some());
        recurring.map(|timer| timer.row.id).collect()
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

    /// A timer that is stored, mostly one of the first by position. `from` says how many are left
    /// out, the first ones.
    pub fn stored_row(
        &self,
        rng: &mut Rng,
        from: impl FnOnce(&mut Rng, &[&Row]) -> usize,
    ) -> Option<Row> {
        let mut rows: Vec<_> = self.stored().map(|timer| &timer.row).collect();
        rows.sort_unstable_by_key(|row| row.position());
        let rows = &rows[from(rng, &rows)..];
        if rows.is_empty() {
            return None;
        }
        let number = (0..3).map(|_| rng.usize(..rows.len())).min()?;
        Some(rows[number].clone())
    }

    /// What the seed came to: counts of these records, and `more`. `Err`: the story of a broken
    /// promise.
    pub fn report(&mut self, more: &[(&'static str, u64)]) -> Result<Report, String> {
        let count = |state| self.in_state(state).count() as u64;
        let mut counts = BTreeMap::from([
            ("armed", self.timers.len() as u64),
            ("handled", self.handled),
            ("repeated", self.repeated),
            ("cancelled", count(State::Cancelled)),
            ("dead", count(State::Dead)),
        ]);
        counts.extend(more.iter().copied());
        let story = std::mem::take(&mut self.story);
        match self.wrongs.is_empty() {
            true => Ok(Report { counts, story }),
            false => Err(story),
        }
    }

    /// A row is armed. Another that had its key has been replaced or superseded before.
    pub fn insert(&mut self, row: &Row, more: M) {
        if let Some(key) = &row.key {
            self.keys.insert(key.to_string(), row.id);
        }
        let timer = Timer {
            token: token(&row.payload),
            row: row.clone(),
            state: State::Stored,
            ended: 0,
            struck: None,
            more,
        };
        let former = self.timers.insert(row.id, timer);
        self.demand(former.is_none(), || format!("{} is armed twice", row.id));
    }

    /// Another row takes the key of one that goes on.
    pub fn supersede(&mut self, id: DurableId) -> &mut Timer<M> {
        let timer = self.timers.get_mut(&id).unwrap();
        (timer.row.superseded, timer.row.key) = (true, None);
        timer
    }

    /// A recurring timer is cancelled while it is handled. Returns it.
    pub fn strike(&mut self, id: DurableId) -> &mut Timer<M> {
        let at = self.made.len();
        let is_right = self.timers.get(&id).is_some_and(|timer| {
            let is_free = !timer.row.superseded && timer.struck.is_none();
            timer.state == State::Stored && timer.row.calendar.is_some() && is_free
        });
        self.demand(is_right, || format!("{id} is struck"));
        if let Some(key) = &self.timers[&id].row.key {
            self.keys.remove(&**key);
        }
        let timer = self.supersede(id);
        timer.struck = Some(at);
        timer
    }

    pub fn end(&mut self, id: DurableId, state: State) {
        let at = self.made.len();
        let Some(timer) = self.timers.get_mut(&id) else {
            return self.wrong(format_args!("{id} has ended, and was never armed"));
        };
        if timer.state != State::Stored {
            let what = format!("{} is {state:?}, and was {:?}", timer.token, timer.state);
            self.wrong(what);
            return;
        }
        (timer.state, timer.ended) = (state, at);
        if let Some(key) = timer.row.key.take() {
            self.keys.remove(&*key);
        }
    }

    /// The row is stored as it is here.
    pub fn put(&mut self, row: &Row) -> &mut Timer<M> {
        let timer = self.timers.get_mut(&row.id).unwrap();
        timer.row = row.clone();
        timer
    }

    /// A recurring timer dies once, as this copy, and goes on.
    pub fn bury_copy(&mut self, id: DurableId, copy: DurableId)
    where
        M: Clone,
    {
        let mut letter = self.timers[&id].clone();
        (letter.row.id, letter.state) = (copy, State::Dead);
        self.timers.insert(copy, letter);
    }

    /// The store has revived a letter, or says that there is none.
    pub fn demand_revived(&mut self, id: DurableId, is_revived: bool) {
        let is_dead = self.is_dead(id);
        self.demand(is_dead == is_revived, || format!("{id} is revived"));
    }

    /// The store has discarded a letter, or says that there is none.
    pub fn discarded(&mut self, id: DurableId, is_gone: bool) {
        let is_dead = self.is_dead(id);
        self.demand(is_dead == is_gone, || format!("{id} is discarded"));
        if let Some(timer) = self.timers.get_mut(&id).filter(|_| is_gone) {
            timer.state = State::Discarded;
        }
    }

    pub fn note_made(&mut self, write: &Write, outcome: &Outcome) {
        self.made.push((write.clone(), outcome.clone()));
    }

    /// What a handler gets is what is stored, and not early.
    pub fn demand_as_stored(&mut self, timer: &Timer<M>, delivery: &Delivery, now: SystemTime) {
        let Timer {
            token, row, state, ..
        } = timer;
        self.demand(*state == State::Stored, || {
            format!("{token} is handled, and is {state:?}")
        });
        let is_same = delivery.payload() == &*row.payload
            && delivery.kind() == &*row.kind
            && (row.superseded || delivery.key() == row.key.as_deref())
            && delivery.due() == row.due.system_time();
        self.demand(is_same, || format!("{delivery:?} is not {row:?}"));
        self.demand(delivery.due() <= now, || {
            format!("{token} is handled early")
        });
    }
}
