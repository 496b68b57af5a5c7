//! World: what a simulation's driver, its handlers and its store have in common: the clock, the
//! chances, the trouble that is planned, and the ledger.

use super::ledger::{Ledger, Said, Setup, State, token};
use fastrand::Rng;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork::durable::{
    Delivery, DurableError, DurableHandle, DurableId, HandlerResult, Outcome, Row, StoreTime,
    Target, Ticket, When, Write,
};

pub const KINDS: [&str; 5] = ["steady", "shaky", "batch", "limited", "poison"];
pub const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Turns of a service that does not come to rest.
const CALLS_MAX: u32 = 100_000;

pub const MS: Duration = Duration::from_millis(1);

/// What is called of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Release,
    Commit,
    Load,
    HandOut,
    Clock,
    Look,
}

/// How a call of a store ends.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Good,
    /// The process has died, or the store has failed before.
    Refused,
    /// It is not made. The process dies, or the disk is full.
    Before {
        dies: bool,
    },
    /// It is made, and the answer is lost. The process may die of it.
    After {
        dies: bool,
    },
    /// Time passes before and after it.
    Slow {
        before: Duration,
        after: Duration,
    },
}

/// An answer that is awaited.
enum Pending {
    Arm(u64, Ticket<DurableId>),
    Cancel(DurableId, usize, Ticket<bool>),
}

/// Where an act is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing else is under way.
    Outside,
    Handler,
    /// The store is at a call of another thread.
    Store,
}

pub struct World {
    pub rng: Rng,
    pub clock: ManualClock,
    pub ledger: Ledger,
    pub setup: Setup,
    pub handle: Option<DurableHandle>,
    pub life: u32,
    /// The process has died.
    pub is_dead: bool,
    /// A call of the store has failed in this life.
    pub has_failed: bool,
    pub is_stopping: bool,
    /// Things go wrong, and handlers make calls.
    pub has_trouble: bool,
    /// Trouble that comes after this number of calls of the store.
    pub plan: Option<(u32, Fate)>,
    /// Since when nothing was slow, and no clock was set.
    pub calm_since: Duration,
    pub calls: u32,
    /// Acts that were done in handlers and in the store, and times that the store was slow.
    nested: u64,
    is_in_store: bool,
    tickets: Vec<Pending>,
    tokens: u64,
}

/// The world, for all who live in it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl World {
    pub fn passed(&self) -> Duration {
        self.clock.elapsed()
    }

    pub fn now(&self) -> SystemTime {
        self.clock.system_time()
    }

    /// Whether a life is over, by death or by a new one.
    pub fn is_over(&self, life: u32) -> bool {
        self.is_dead || life != self.life
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64();
        let passed = self.passed();
        self.ledger
            .note(format_args!("{passed:.3?} ({now:.3}) {what}"));
    }

    /// How a call of the store ends.
    pub fn fate(&mut self, call: Call, life: u32) -> Fate {
        if self.is_over(life) || self.has_failed {
            return Fate::Refused;
        }
        self.calls += 1;
        if self.calls > CALLS_MAX {
            self.ledger.wrong("it takes turns without end");
            self.is_dead = true;
            return Fate::Refused;
        }
        if !self.has_trouble || matches!(call, Call::Clock | Call::Look) && self.rng.u8(..8) > 0 {
            return Fate::Good;
        }
        match &mut self.plan {
            Some((0, fate)) => {
                let fate = *fate;
                self.plan = None;
                self.note(format_args!("{call:?} is fated: {fate:?}"));
                fate
            }
            Some((left, _)) => {
                *left -= 1;
                Fate::Good
            }
            None => Fate::Good,
        }
    }

    /// Plans trouble for one of the next calls of the store.
    pub fn plan_trouble(&mut self) {
        let after = self.rng.u32(..6);
        let dies = self.rng.bool();
        let fate = match self.rng.u8(..8) {
            0 => Fate::Before { dies },
            1 | 2 => Fate::After { dies },
            _ => Fate::Slow {
                before: MS * self.rng.u32(..40) * self.rng.u32(..2),
                after: MS * self.rng.u32(..40) * self.rng.u32(..2),
            },
        };
        self.plan = Some((after, fate));
    }

    pub fn delay(&mut self) -> Duration {
        let max = [1, 5, 50, 1_000, 3_000, 20_000, 120_000, 31_536_000_000];
        let max = max[self.rng.usize(..max.len()).min(self.rng.usize(..9))];
        MS * u32::try_from(self.rng.u64(..max) % 4_000_000_000).unwrap()
    }

    fn when(&mut self) -> When {
        match self.rng.u8(..10) {
            0 => When::At(self.now() - self.delay()),
            // Many are due at one time.
            1..4 => match self.some_row(true) {
                Some(row) => When::At(row.due.system_time()),
                None => When::After(MS),
            },
            4 => When::At(self.now() + self.delay()),
            _ => When::After(self.delay()),
        }
    }

    fn kind(&mut self) -> &'static str {
        match self.rng.u8(..100) {
            0..40 => "steady",
            40..60 => "shaky",
            60..80 => "batch",
            80..96 => "limited",
            96..98 => "poison",
            _ => "unknown",
        }
    }

    /// A timer: mostly one that is stored, mostly one that is due soon.
    fn some_row(&mut self, is_stored: bool) -> Option<Row> {
        if !is_stored && self.rng.u8(..5) == 0 {
            let number = self.rng.usize(..self.ledger.timers.len().max(1));
            let timer = self.ledger.timers.values().nth(number)?;
            return Some(timer.row.clone());
        }
        let mut rows: Vec<_> = self.ledger.stored().map(|timer| &timer.row).collect();
        rows.sort_unstable_by_key(|row| row.position());
        let from = if self.rng.bool() {
            0
        } else {
            // Those that are due from now on.
            let now = StoreTime::reading(self.clock.system_time());
            rows.partition_point(|row| row.due < now)
        };
        let rows = &rows[from..];
        if rows.is_empty() {
            return None;
        }
        let number = (0..3).map(|_| self.rng.usize(..rows.len())).min()?;
        Some(rows[number].clone())
    }

    fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// An error of a call is one that the call may have.
    fn check_error(&mut self, call: &str, error: &DurableError) {
        let is_right = match error {
            DurableError::Store(_) => self.has_failed || self.is_dead,
            DurableError::Stopped => self.is_stopping,
            _ => false,
        };
        if !is_right {
            self.ledger.wrong(format_args!("{call}: {error}"));
        }
    }

    fn check_arm(&mut self, token: u64, answer: &Result<DurableId, DurableError>) {
        match answer {
            Ok(id) => {
                let timer = self.ledger.timers.get(id);
                if timer.is_none_or(|timer| timer.token != token) {
                    let what = format!("{token} is acknowledged, and was not stored");
                    self.ledger.wrong(what);
                }
            }
            Err(error) => {
                self.check_error("schedule", error);
                let is_refused = matches!(error, DurableError::Stopped);
                let mut timers = self.ledger.timers.values();
                if is_refused && timers.any(|timer| timer.token == token) {
                    self.ledger
                        .wrong(format_args!("{token} is refused, and stored"));
                }
            }
        }
    }

    fn check_cancelled(
        &mut self,
        id: DurableId,
        first: usize,
        answer: &Result<bool, DurableError>,
    ) {
        match answer {
            Ok(true) => {
                let ended = self.ledger.ended_since(first, State::Cancelled);
                if !ended.contains(&id) {
                    self.ledger
                        .wrong(format_args!("{id} is told as cancelled, and is not"));
                }
            }
            Ok(false) => {}
            Err(error) => self.check_error("cancel", error),
        }
    }

    /// Looks at the answers that have come. All have, if `is_at_rest`.
    pub fn check_tickets(&mut self, is_at_rest: bool) {
        let mut context = Context::from_waker(Waker::noop());
        for pending in std::mem::take(&mut self.tickets) {
            let pending = match pending {
                Pending::Arm(token, mut ticket) => match Pin::new(&mut ticket).poll(&mut context) {
                    Poll::Ready(answer) => {
                        self.check_arm(token, &answer);
                        continue;
                    }
                    Poll::Pending => Pending::Arm(token, ticket),
                },
                Pending::Cancel(id, first, mut ticket) => {
                    match Pin::new(&mut ticket).poll(&mut context) {
                        Poll::Ready(answer) => {
                            self.check_cancelled(id, first, &answer);
                            continue;
                        }
                        Poll::Pending => Pending::Cancel(id, first, ticket),
                    }
                }
            };
            if is_at_rest {
                self.ledger.wrong("a ticket has no answer");
            }
            self.tickets.push(pending);
        }
    }
}

/// Whether a write was one of this target, and came to something.
fn came_to(write: &Write, outcome: &Outcome, target: &Target) -> Option<bool> {
    match (write, outcome) {
        (Write::Cancel(of), Outcome::Cancelled(gone)) if of == target => Some(gone.is_some()),
        (Write::Move(of, _), Outcome::Moved(row)) if of == target => Some(row.is_some()),
        _ => None,
    }
}

/// How a handler ends.
enum End {
    Done,
    Failed,
    Panics,
    Dies,
}

impl Shared {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(World {
            rng: Rng::with_seed(seed),
            clock: ManualClock::new(),
            ledger: Ledger::default(),
            setup: Setup::default(),
            handle: None,
            life: 0,
            is_dead: false,
            has_failed: false,
            is_stopping: false,
            has_trouble: true,
            plan: None,
            calm_since: Duration::ZERO,
            calls: 0,
            nested: 0,
            is_in_store: false,
            tickets: Vec::new(),
            tokens: 0,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the store fails.
    pub fn fail(&self, dies: bool) {
        let mut world = self.lock();
        world.has_failed = true;
        world.is_dead |= dies;
    }

    /// Time passes while the store is at a call. Other threads go on meanwhile.
    pub fn pass_in_store(&self, time: Duration) {
        let (clock, acts) = {
            let mut world = self.lock();
            if world.is_in_store {
                return;
            }
            world.is_in_store = true;
            world.nested += 1;
            world.calm_since = world.passed() + time;
            (world.clock.clone(), world.rng.u8(..4))
        };
        for _ in 0..acts {
            self.act(Place::Store);
        }
        clock.advance(time);
        let mut world = self.lock();
        world.is_in_store = false;
    }

    /// A handler for one timer.
    pub fn deliver(&self, delivery: &Delivery, life: u32) -> HandlerResult {
        let (end, acts) = {
            let mut world = self.lock();
            if world.is_over(life) {
                return Ok(());
            }
            let now = world.now();
            world.ledger.began(delivery, now);
            let end = match (delivery.kind(), world.rng.u8(..10)) {
                ("poison", _) => End::Dies,
                ("shaky", 0..3) | ("batch" | "limited", 0) => End::Failed,
                ("shaky", 3) => End::Panics,
                ("shaky", 4) if world.has_trouble && world.rng.u8(..10) == 0 => End::Dies,
                _ => End::Done,
            };
            let acts = world.rng.u8(..4) * world.rng.u8(..2);
            (end, if world.has_trouble { acts } else { 0 })
        };
        for _ in 0..acts {
            self.act(Place::Handler);
        }
        let mut world = self.lock();
        if world.is_over(life) {
            return Ok(());
        }
        let id = delivery.id();
        match end {
            End::Done => {
                world.ledger.said(id, Said::Done);
                Ok(())
            }
            End::Failed => {
                world.ledger.said(id, Said::Failed);
                Err("simulated".into())
            }
            End::Panics => {
                world.ledger.said(id, Said::Failed);
                drop(world);
                // (Without a word from the panic hook.)
                resume_unwind(Box::new("simulated"))
            }
            End::Dies => {
                let token = token(delivery.payload());
                world.note(format_args!("dies of {token}"));
                (world.is_dead, world.has_failed) = (true, true);
                Ok(())
            }
        }
    }

    /// A handler for several. It may answer for some of them only.
    pub fn deliver_all(&self, deliveries: &[Delivery], life: u32) -> Vec<HandlerResult> {
        let answered = {
            let mut world = self.lock();
            match world.rng.u8(..20) {
                0 => world.rng.usize(..=deliveries.len()),
                _ => deliveries.len(),
            }
        };
        let results = deliveries
            .iter()
            .map(|delivery| self.deliver(delivery, life))
            .take(answered)
            .collect();
        let mut world = self.lock();
        let now = world.now();
        for delivery in &deliveries[answered..] {
            if !world.is_over(life) {
                world.ledger.began(delivery, now);
                world.ledger.said(delivery.id(), Said::Failed);
            }
        }
        results
    }

    /// Makes a call, and looks whether the answer is true.
    pub fn act(&self, place: Place) {
        let mut world = self.lock();
        let Some(handle) = world.handle.clone() else {
            return;
        };
        if world.is_over(world.life) {
            return;
        }
        // A call that waits for its answer would wait for the store.
        let place = match world.is_in_store {
            true => Place::Store,
            false => place,
        };
        world.nested += u64::from(place != Place::Outside);
        let act = world.rng.u8(..100);
        drop(world);
        match (place, act) {
            (Place::Store, 0..70) => self.schedule_ticket(&handle),
            (Place::Store, _) => self.cancel_ticket(&handle),
            (_, 0..30) => self.schedule(&handle, None),
            (_, 30..35) => self.schedule_recurring(&handle),
            (_, 35..40) => self.schedule_many(&handle),
            (_, 40..45) => self.schedule_ticket(&handle),
            (_, 45..78) => {
                let target = {
                    let mut world = self.lock();
                    match world.rng.u8(..3) {
                        0 => Some(Target::Key(KEYS[world.rng.usize(..4)].into())),
                        _ => world.some_row(false).map(|row| Target::Id(row.id)),
                    }
                };
                if let Some(target) = target {
                    self.end(target, place, act >= 65);
                }
            }
            (_, 78..82) => self.cancel_many(&handle),
            (_, 82..83) => self.cancel_where(&handle),
            (_, 83..90) => self.look(&handle),
            (Place::Handler, 90..92) => self.stop_inside(),
            (_, _) => self.dead(&handle),
        }
    }

    /// Arms, cancels or moves the timer with this key.
    pub fn act_on(&self, key: &'static str) {
        let Some(handle) = self.lock().handle.clone() else {
            return;
        };
        let act = self.lock().rng.u8(..4);
        if act < 2 {
            return self.schedule(&handle, Some(key));
        }
        self.end(Target::Key(key.into()), Place::Outside, act == 2);
    }

    fn new_timer(&self) -> (&'static str, When, Option<&'static str>, u64, String) {
        let mut world = self.lock();
        let (kind, when) = (world.kind(), world.when());
        let key = (world.rng.u8(..3) == 0).then(|| KEYS[world.rng.usize(..4)]);
        let token = world.next_token();
        let bytes = world.rng.usize(..60);
        let payload = format!("{token} {}", "x".repeat(bytes));
        world.note(format_args!("arms {token}: {kind}, {key:?}, {when:?}"));
        (kind, when, key, token, payload)
    }

    fn schedule(&self, handle: &DurableHandle, key: Option<&'static str>) {
        let (kind, when, own_key, token, payload) = self.new_timer();
        let key = key.or(own_key);
        let answer = match key {
            Some(key) => handle.key(key).schedule(kind, when, payload),
            None => handle.schedule(kind, when, payload),
        };
        self.lock().check_arm(token, &answer);
    }

    #[cfg(not(feature = "calendar"))]
    fn schedule_recurring(&self, handle: &DurableHandle) {
        self.schedule(handle, None);
    }

    #[cfg(feature = "calendar")]
    fn schedule_recurring(&self, handle: &DurableHandle) {
        use wheelwork::calendar::{Calendar, MissedRuns};
        let (kind, _, key, token, payload) = self.new_timer();
        let (pattern, missed) = {
            let mut world = self.lock();
            // (The clock may be set forward by a year.)
            let missed = match world.rng.u8(..3) {
                0 => MissedRuns::Once,
                1 => MissedRuns::Burst(3),
                _ => MissedRuns::SkipAfter(Duration::from_secs(2)),
            };
            let patterns = ["* * * * *", "*/3 * * * * *", "0 4 * * *", "0 0 1 1 *"];
            let pattern = patterns[world.rng.usize(..4)];
            world.note(format_args!("at {pattern}, missed: {missed:?}"));
            (pattern, missed)
        };
        let calendar = Calendar::cron(pattern).unwrap().zone("UTC").unwrap();
        let calendar = calendar.missed(missed);
        let answer = match key {
            Some(key) => handle.key(key).schedule_calendar(kind, calendar, payload),
            None => handle.schedule_calendar(kind, calendar, payload),
        };
        self.lock().check_arm(token, &answer);
    }

    fn schedule_ticket(&self, handle: &DurableHandle) {
        let (kind, when, key, token, payload) = self.new_timer();
        let ticket = match key {
            Some(key) => handle.key(key).schedule_ticket(kind, when, payload),
            None => handle.schedule_ticket(kind, when, payload),
        };
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => world.tickets.push(Pending::Arm(token, ticket)),
            Err(error) => world.check_arm(token, &Err(error)),
        }
    }

    fn schedule_many(&self, handle: &DurableHandle) {
        let count = self.lock().rng.usize(..12);
        let timers: Vec<_> = (0..count).map(|_| self.new_timer()).collect();
        let answer = handle.schedule_many(
            timers
                .iter()
                .map(|(kind, when, _, _, payload)| (*kind, *when, payload.as_str())),
        );
        let mut world = self.lock();
        match answer {
            Ok(ids) => {
                for ((.., token, _), id) in timers.iter().zip(&ids) {
                    world.check_arm(*token, &Ok(*id));
                }
                if ids.len() != count {
                    world.ledger.wrong("schedule_many: not an id for each");
                }
            }
            Err(error) => world.check_error("schedule_many", &error),
        }
    }

    fn cancel_ticket(&self, handle: &DurableHandle) {
        let Some((id, first)) = ({
            let mut world = self.lock();
            let row = world.some_row(false);
            if let Some(row) = &row {
                let token = token(&row.payload);
                world.note(format_args!("cancels {token}, without waiting"));
            }
            row.map(|row| (row.id, world.ledger.made.len()))
        }) else {
            return;
        };
        let ticket = handle.cancel_ticket(id);
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => world.tickets.push(Pending::Cancel(id, first, ticket)),
            Err(error) => world.check_error("cancel", &error),
        }
    }

    /// Cancels a timer, or moves it.
    pub fn end(&self, target: Target, place: Place, moves: bool) {
        let Some(handle) = self.lock().handle.clone() else {
            return;
        };
        let (when, first, nested, stood) = {
            let mut world = self.lock();
            let when = world.when();
            let stood = world
                .ledger
                .find(&target)
                .filter(|timer| !timer.row.superseded)
                .map(|timer| timer.row.clone());
            let token = stood.as_ref().map(|row| token(&row.payload));
            let what = match moves {
                true => format!("moves {target:?} ({token:?}) to {when:?}"),
                false => format!("cancels {target:?} ({token:?})"),
            };
            world.note(what);
            (when, world.ledger.made.len(), world.nested, stood)
        };
        let answer = match (&target, moves) {
            (Target::Id(id), false) => handle.cancel(*id),
            (Target::Id(id), true) => handle.reschedule(*id, when),
            (Target::Key(key), false) => handle.key(key).cancel(),
            (Target::Key(key), true) => handle.key(key).reschedule(when),
        };
        let mut world = self.lock();
        let is_done = match answer {
            Ok(is_done) => is_done,
            Err(error) => return world.check_error("cancel", &error),
        };
        let made = &world.ledger.made[first..];
        let mut outcomes = made
            .iter()
            .filter_map(|(write, outcome)| came_to(write, outcome, &target));
        let is_true = outcomes.any(|outcome| outcome == is_done);
        if !is_true {
            world
                .ledger
                .wrong(format_args!("{target:?}: {is_done} is not what was done"));
        }
        // A `false` outside says that nobody stood there.
        let is_alone = place == Place::Outside && world.nested == nested;
        if let Some(row) = stood.filter(|_| !is_done && is_alone) {
            world
                .ledger
                .wrong(format_args!("{target:?}: false, and it was {row:?}"));
        }
    }

    fn cancel_many(&self, handle: &DurableHandle) {
        let (ids, first, nested) = {
            let mut world = self.lock();
            let count = world.rng.usize(..6);
            let mut ids: Vec<_> = (0..count)
                .filter_map(|_| Some(world.some_row(false)?.id))
                .collect();
            ids.sort_unstable();
            ids.dedup();
            world.note(format_args!("cancels {ids:?}"));
            (ids, world.ledger.made.len(), world.nested)
        };
        let answer = handle.cancel_many(ids.iter().copied());
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let ended = world.ledger.ended_since(first, State::Cancelled);
                let found = ended.iter().filter(|id| ids.contains(id)).count();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_many: {count} is {found}"));
                }
            }
            Err(error) => world.check_error("cancel_many", &error),
        }
    }

    fn cancel_where(&self, handle: &DurableHandle) {
        let (kind, first, nested) = {
            let mut world = self.lock();
            let kind = world.kind();
            world.note(format_args!("cancels all of {kind}"));
            (kind, world.ledger.made.len(), world.nested)
        };
        let answer = handle.cancel_where(kind);
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let ended = world.ledger.ended_since(first, State::Cancelled);
                let found = ended.len();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_where: {count} is {found}"));
                }
            }
            Err(error) => world.check_error("cancel_where", &error),
        }
    }

    /// Asks what is there.
    fn look(&self, handle: &DurableHandle) {
        let (row, first, limit) = {
            let mut world = self.lock();
            let row = world.some_row(false);
            (row, world.ledger.made.len(), world.rng.usize(..20))
        };
        if let Some(Row { id, .. }) = row {
            let answer = handle.get(id);
            let mut world = self.lock();
            let is_same = world.ledger.made.len() == first;
            match answer {
                Ok(found) if is_same => {
                    let expected = world.ledger.find(&Target::Id(id)).map(|timer| &timer.row);
                    // (What an earlier life has begun is counted when the row is loaded, which may
                    // come after this look.)
                    let differs = match (&found, expected) {
                        (None, None) => false,
                        (Some(found), Some(row)) => {
                            let mut found = found.clone();
                            found.attempts = row.attempts;
                            found != *row
                        }
                        (Some(found), None) => !found.superseded,
                        (None, Some(_)) => true,
                    };
                    if differs {
                        let what = format!("get: {found:?} is {expected:?}");
                        world.ledger.wrong(what);
                    }
                }
                Ok(_) => {}
                Err(error) => world.check_error("get", &error),
            }
        }
        let first = self.lock().ledger.made.len();
        let answer = handle.list(.., limit);
        let mut world = self.lock();
        match answer {
            Ok(rows) if world.ledger.made.len() == first => {
                let stored = world.ledger.stored().map(|timer| timer.row.clone());
                let mut expected: Vec<_> = stored.collect();
                expected.sort_unstable_by_key(Row::position);
                expected.truncate(limit);
                if rows != expected {
                    let what = format!("list: {rows:?} is {expected:?}");
                    world.ledger.wrong(what);
                }
            }
            Ok(_) => {}
            Err(error) => world.check_error("list", &error),
        }
    }

    /// Looks at the dead, revives or discards one of them.
    fn dead(&self, handle: &DurableHandle) {
        let first = self.lock().ledger.made.len();
        let answer = handle.dead(None, usize::MAX);
        let letters = {
            let mut world = self.lock();
            let letters = match answer {
                Ok(letters) => letters,
                Err(error) => return world.check_error("dead", &error),
            };
            let timers = world.ledger.timers.values();
            let dead = timers.filter(|timer| timer.state == State::Dead);
            let expected: Vec<_> = dead.map(|timer| timer.row.id).collect();
            let found: Vec<_> = letters.iter().map(|letter| letter.row.id).collect();
            if found != expected && world.ledger.made.len() == first {
                world
                    .ledger
                    .wrong(format_args!("dead: {found:?} is {expected:?}"));
            }
            letters
        };
        let Some((id, revives)) = ({
            let mut world = self.lock();
            let letter = world.rng.choice(&letters).map(|letter| letter.row.id);
            let revives = world.rng.u8(..3) > 0;
            letter.map(|id| (id, revives))
        }) else {
            return;
        };
        self.lock().note(format_args!("revives {revives}: {id}"));
        let was_dead = self.lock().ledger.is_dead(id);
        let answer = match revives {
            true => handle.retry(id),
            false => handle.discard(id),
        };
        let mut world = self.lock();
        match answer {
            Ok(is_done) => {
                if is_done != was_dead {
                    world
                        .ledger
                        .wrong(format_args!("{id} was dead: {was_dead}"));
                }
            }
            Err(error) => world.check_error("retry", &error),
        }
    }

    /// A handler cannot stop the service it runs in; a clone of the handle has no such call.
    fn stop_inside(&self) {
        let mut world = self.lock();
        world.plan_trouble();
    }
}
