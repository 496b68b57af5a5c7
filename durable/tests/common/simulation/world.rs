//! World: what a simulation's driver, its handlers and its store have in common: the clock, the
//! chances, the trouble that is planned, and the ledger.

use super::super::simulated::{
    self, Answers, Call, Counts, Fate, Pending, Plan, Records, Said, Scene, token,
};
use super::acts::Place;
use super::ledger::{Ledger, More, Setup};
use fastrand::Rng;
use std::collections::VecDeque;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Write};
use wheelwork_durable::{
    Delivery, DurableClient, DurableError, Row, SpawnedFuture, StoreTime, When,
};

pub const KINDS: [&str; 5] = ["steady", "shaky", "batch", "limited", "poison"];
pub const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Turns of a service that does not come to rest.
const CALLS_MAX: u32 = 100_000;

pub const MS: Duration = Duration::from_millis(1);

/// A turn that lasts so long counts as lag.
const STALL_MIN: Duration = Duration::from_secs(1);

pub struct World {
    pub rng: Rng,
    /// The chances of slews and of stores that hang: with them the other chances stay as they are,
    /// and most seeds have neither.
    pub rare: Rng,
    pub has_rare: bool,
    /// How much faster the system's clock is than the other one, in millionths.
    pub slew_ppm: i32,
    pub clock: ManualClock,
    pub ledger: Ledger,
    pub setup: Setup,
    /// What a turn takes at once.
    pub slice: SliceLimit,
    pub handle: Option<DurableClient>,
    pub life: u32,
    /// The process has died.
    pub is_dead: bool,
    /// A call of the store has failed in this life.
    pub has_failed: bool,
    pub is_stopping: bool,
    /// Things go wrong, and handlers make calls.
    pub has_trouble: bool,
    /// Trouble that comes.
    pub plan: Option<Plan>,
    /// Since when nothing was slow, and no clock was set.
    pub calm_since: Duration,
    pub calls: u32,
    pub is_in_store: bool,
    /// The executor of futures is busy: what it gets waits.
    pub is_executor_busy: bool,
    /// Futures that wait for the executor.
    pub futures: VecDeque<SpawnedFuture>,
    counts: Counts,
    tickets: Vec<Pending>,
}

/// The world, for all who live in it.
pub type Shared = simulated::Shared<World>;

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
        let Some(fate) = self.plan.as_mut().and_then(|plan| plan.next(call)) else {
            return Fate::Good;
        };
        self.plan = None;
        self.note(format_args!("{call:?} is fated: {fate:?}"));
        fate
    }

    /// The rows that a commit arms have no more bytes than a slice may have, and the last row.
    pub fn check_bytes(&mut self, writes: &[Write]) {
        let arms = writes.iter().filter_map(|write| match write {
            Write::Arm(row) => Some(row.bytes()),
            _ => None,
        });
        let (sum, largest) = arms.fold((0, 0), |(sum, largest), bytes| {
            (sum + bytes, bytes.max(largest))
        });
        let max = self.slice.bytes;
        if sum >= max.saturating_add(largest) && sum > 0 {
            self.ledger
                .wrong(format_args!("a commit of {sum} bytes, and {max} is much"));
        }
    }

    /// All rows of a kind were cancelled that nobody had.
    pub fn check_kind_is_gone(&mut self, kind: &str) {
        let left = self.ledger.stored().find(|timer| {
            let row = &timer.row;
            *row.kind == *kind && !row.superseded
        });
        if let Some(row) = left.map(|timer| timer.row.clone()) {
            self.ledger
                .wrong(format_args!("{kind} is cancelled, and there is {row:?}"));
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
                stands: false,
            },
        };
        self.plan = Some(Plan {
            left: after,
            only: None,
            fate,
        });
    }

    pub fn delay(&mut self) -> Duration {
        let max = [1, 5, 50, 1_000, 3_000, 20_000, 120_000, 31_536_000_000];
        let max = max[self.rng.usize(..max.len()).min(self.rng.usize(..9))];
        MS * u32::try_from(self.rng.u64(..max) % 4_000_000_000).unwrap()
    }
}

impl Scene for World {
    /// There is one process.
    type Node = ();
    type More = More;

    const KEYS: &'static [&'static str] = &KEYS;
    const PATTERNS: &'static [&'static str] =
        &["* * * * *", "*/3 * * * * *", "0 4 * * *", "0 0 1 1 *"];
    const OTHERS_REVIVE: bool = false;

    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    fn records(&mut self) -> &mut Records<More> {
        &mut self.ledger
    }

    fn tickets(&mut self, (): ()) -> &mut Vec<Pending> {
        &mut self.tickets
    }

    fn who((): ()) -> String {
        String::new()
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64();
        let passed = self.passed();
        self.ledger
            .note(format_args!("{passed:.3?} ({now:.3}) {what}"));
    }

    fn set_running(&mut self, (): (), _: bool) -> bool {
        false
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

    fn recurring_kind(kind: &'static str) -> &'static str {
        kind
    }

    fn some_row(&mut self, is_stored: bool) -> Option<Row> {
        if !is_stored && self.rng.u8(..5) == 0 {
            return self.ledger.any_row(&mut self.rng);
        }
        let now = StoreTime::reading(self.now());
        self.ledger.stored_row(&mut self.rng, |rng, rows| {
            if rng.bool() {
                0
            } else {
                // Those that are due from now on.
                rows.partition_point(|row| row.due < now)
            }
        })
    }

    fn check_error(&mut self, (): (), call: &str, error: &DurableError) {
        let is_right = match error {
            DurableError::Store(_) => self.has_failed || self.is_dead,
            DurableError::Stopped => self.is_stopping,
            _ => false,
        };
        if !is_right {
            self.wrong(format_args!("{call}: {error}"));
        }
    }

    fn check_refused(&mut self, token: u64, error: &DurableError) {
        let is_refused = matches!(error, DurableError::Stopped);
        let mut timers = self.ledger.timers.values();
        if is_refused && timers.any(|timer| timer.token == token) {
            self.wrong(format_args!("{token} is refused, and stored"));
        }
    }

    fn may_be_gone(&mut self, _: &Row) -> bool {
        false
    }

    fn said(&mut self, (): (), delivery: &Delivery, said: Said) {
        self.ledger.said(delivery.id(), said);
    }

    fn dies(&mut self, (): (), delivery: &Delivery) {
        let token = token(delivery.payload());
        self.note(format_args!("dies of {token}"));
        (self.is_dead, self.has_failed) = (true, true);
    }
}

impl Shared {
    pub fn new(seed: u64) -> Self {
        let mut rare = Rng::with_seed(!seed);
        Self::of(World {
            rng: Rng::with_seed(seed),
            has_rare: rare.u8(..4) == 0,
            rare,
            slew_ppm: 0,
            clock: ManualClock::new(),
            ledger: Ledger::default(),
            setup: Setup::default(),
            slice: SliceLimit::rows(usize::MAX),
            handle: None,
            life: 0,
            is_dead: false,
            has_failed: false,
            is_stopping: false,
            has_trouble: true,
            plan: None,
            calm_since: Duration::ZERO,
            calls: 0,
            is_in_store: false,
            is_executor_busy: false,
            futures: VecDeque::new(),
            counts: Counts::default(),
            tickets: Vec::new(),
        })
    }

    /// Runs a handler's future, now or when the executor has time for it.
    pub fn spawn(&self, mut future: SpawnedFuture) {
        let mut world = self.lock();
        if world.is_executor_busy {
            return world.futures.push_back(future);
        }
        drop(world);
        // (None waits for anything.)
        let _ = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }

    /// A call of the store fails.
    pub fn fail(&self, dies: bool) {
        let mut world = self.lock();
        world.has_failed = true;
        world.is_dead |= dies;
    }

    /// A call of the store has lasted for this time by now, and so has the writer's turn.
    fn see_turn(&self, time: Duration) {
        let Some(handle) = self.lock().handle.clone() else {
            return;
        };
        let stats = handle.stats();
        let is_lag = stats.turn < STALL_MIN || stats.lag >= stats.turn;
        if stats.turn < time || !is_lag {
            let (turn, lag) = (stats.turn, stats.lag);
            let what = format!("a call lasts {time:?}, and the turn {turn:?}, the lag {lag:?}");
            self.lock().ledger.wrong(what);
        }
    }

    /// Time passes while the store is at a call. Other threads go on meanwhile.
    pub fn pass_in_store(&self, time: Duration) {
        let (clock, acts) = {
            let mut world = self.lock();
            if world.is_in_store {
                return;
            }
            world.is_in_store = true;
            world.counts().nested += 1;
            world.calm_since = world.passed() + time;
            (world.clock.clone(), world.rng.u8(..4))
        };
        for _ in 0..acts {
            self.act(Place::Store);
        }
        // (Inside a handler it passes later.)
        let before = clock.elapsed();
        clock.advance(time);
        self.see_turn(clock.elapsed() - before);
        let mut world = self.lock();
        world.is_in_store = false;
    }
}
