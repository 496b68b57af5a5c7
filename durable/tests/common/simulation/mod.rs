//! Simulation: durable timers on a store that fails, in a process that dies, under a clock that is
//! set. All that happens follows from a seed.
//!
//! A seed is a story: lives one after the other on one store, and in each some calls, some time,
//! some trouble. The ledger watches the store, the callers and the handlers. In the end the trouble
//! ceases, and all that is left has to be handled.

mod acts;
mod handlers;
mod ledger;
mod store;
mod world;

use super::simulated::{Answers, Fate, Plan, Report, Scene, State};
use acts::Place;
use fastrand::Rng;
use ledger::Setup;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};
use store::LifeStore;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Store, Target};
use wheelwork_durable::{Durable, Memory, OpenError, RetryPolicy, StoreTime, WindowLimits};
use world::{KEYS, KINDS, MS, Shared};

/// What is overdue for longer was forgotten. The system's clock is looked at once a second.
const LATE: Duration = Duration::from_secs(3);

/// In the year 2023.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

const YEAR: u64 = 31_536_000;

/// What is due so soon is waited for.
const SOON: Duration = Duration::from_secs(30);

/// A clock that is slewed is set by a little after each such time.
const SLEW_STEP: Duration = Duration::from_millis(10);

/// Opens a store, the same one each time.
pub type Open = Box<dyn Fn() -> Box<dyn Store>>;

struct Simulation {
    shared: Shared,
    open: Open,
    timers: Option<Durable>,
}

/// Lives through a seed with a store in memory. `Err`: its story, and which promise was broken.
pub fn simulate(seed: u64) -> Result<Report, String> {
    let memory = Memory::new();
    simulate_on(Box::new(move || Box::new(memory.clone())), seed)
}

/// Lives through a seed with any store.
pub fn simulate_on(open: Open, seed: u64) -> Result<Report, String> {
    let shared = Shared::new(seed);
    let mut simulation = Simulation {
        shared: shared.clone(),
        open,
        timers: None,
    };
    let steps = shared.lock().rng.u32(20..120);
    simulation.open(SystemTime::UNIX_EPOCH + BEGIN);
    let is_right = (0..steps).all(|_| simulation.step());
    if is_right {
        simulation.drain();
    }
    simulation.die();
    let mut world = shared.lock();
    let lives = u64::from(world.life);
    world.ledger.report(&[("lives", lives)])
}

impl Simulation {
    /// Begins a life at this time of the system's clock.
    fn open(&mut self, time: SystemTime) {
        let durable = loop {
            match self.try_open(time) {
                Ok(durable) => break durable,
                Err(OpenError::Store(_)) if self.shared.lock().has_failed => {}
                Err(error) => return self.wrong(format_args!("start: {error}")),
            }
        };
        self.shared.lock().handle = Some(durable.client());
        self.timers = Some(durable);
    }

    fn wrong(&self, what: impl std::fmt::Display) {
        self.shared.lock().ledger.wrong(what);
    }

    fn try_open(&mut self, time: SystemTime) -> Result<Durable, OpenError> {
        let (life, clock, mut rng) = {
            let mut world = self.shared.lock();
            world.clock = ManualClock::new();
            world.clock.set_system_time(time);
            world.life += 1;
            (world.is_dead, world.has_failed, world.is_stopping) = (false, false, false);
            world.calm_since = Duration::ZERO;
            world.calls = 0;
            let rng = Rng::with_seed(world.rng.u64(..));
            (world.life, world.clock.clone(), rng)
        };
        let store = LifeStore {
            inner: (self.open)(),
            world: self.shared.clone(),
            life,
        };
        let has_trouble = self.shared.lock().has_trouble;
        let mut kinds: BTreeSet<_> = KINDS.into();
        if has_trouble && rng.u8(..10) == 0 {
            kinds.remove("batch");
        }
        let attempts_max = rng.u32(1..5);
        let crashes_max = rng.u32(1..4);
        let retry = RetryPolicy::new()
            .attempts(attempts_max)
            .crash_attempts(crashes_max)
            .first(MS * rng.u32(..500))
            .cap(2_000 * MS);
        let ahead = MS * [500, 2_000, 10_000, 60_000, 300_000][rng.usize(..5)];
        let rows = [1, 2, 5, 16, 64, 10_000][rng.usize(..6)];
        let bytes = [100, 1_000, 10_000, 1 << 20][rng.usize(..4)];
        let slice = SliceLimit {
            rows: [1, 2, 7, 4_096][rng.usize(..4)],
            bytes: [1, 200, 1_000, 8 << 20][rng.usize(..4)],
        };
        let places = NonZeroUsize::new(rng.usize(1..4)).unwrap();
        {
            let mut world = self.shared.lock();
            world.note(format_args!(
                "life {life}: window {ahead:?}, {rows} rows, {bytes} bytes; {retry:?}; {kinds:?}"
            ));
            world.note(format_args!("slices: {slice:?}"));
            world.slice = slice;
            world.setup = Setup {
                attempts_max,
                crashes_max,
                kinds: kinds.clone(),
            };
        }
        let (is_async, executor) = (rng.bool(), self.shared.clone());
        let mut builder = Durable::builder(store)
            .clock(clock)
            .spawner(move |future| executor.spawn(future))
            .window(WindowLimits::new().ahead(ahead).rows(rows).bytes(bytes))
            .slices(slice)
            .retry_policy(retry);
        for kind in kinds {
            let shared = self.shared.clone();
            builder = match kind {
                "batch" => builder.on_batch(kind, move |timers| shared.deliver_all(timers, life)),
                "limited" if is_async => builder.on_async(kind, move |timer| {
                    let shared = shared.clone();
                    async move { shared.deliver(&timer, life) }
                }),
                _ => builder.on(kind, move |timer| shared.deliver(timer, life)),
            };
        }
        builder.max_calls("limited", places).start()
    }

    /// The process dies, if it lives.
    fn die(&mut self) {
        let mut world = self.shared.lock();
        (world.is_dead, world.has_failed, world.is_stopping) = (true, true, true);
        world.handle = None;
        drop(world);
        self.timers = None;
        // Whoever waited has an answer, or died.
        self.shared.lock().check_tickets(());
    }

    /// Another life, after some time.
    fn reopen(&mut self) {
        let time = {
            let mut world = self.shared.lock();
            world.handle = None;
            let away = match world.rng.u8(..8) {
                0 => Duration::from_secs(world.rng.u64(..3_600)),
                1 => world.delay(),
                _ => MS * world.rng.u32(..2_000),
            };
            let now = world.now();
            if world.rng.u8(..10) == 0 {
                now - away
            } else {
                now + away
            }
        };
        self.open(time);
    }

    fn crash(&mut self) {
        self.shared.lock().note("dies");
        self.die();
        self.reopen();
    }

    /// Ends a life well, if nothing goes wrong just then.
    fn stop(&mut self) {
        self.shared.lock().note("stops");
        let Some(timers) = self.timers.take() else {
            return;
        };
        self.shared.lock().is_stopping = true;
        let stopped = timers.stop();
        let has_failed = self.shared.lock().has_failed;
        if stopped.is_err() != has_failed {
            self.wrong(format_args!("stop: {stopped:?}"));
        }
        drop(timers);
        self.shared.lock().check_tickets(());
        self.die();
    }

    fn advance(&mut self, by: Duration) {
        let clock = {
            let mut world = self.shared.lock();
            world.note(format_args!("{by:?} pass"));
            world.clock.clone()
        };
        let slew_ppm = self.shared.lock().slew_ppm;
        if slew_ppm == 0 {
            return clock.advance(by);
        }
        let mut left = by;
        while !left.is_zero() {
            let step = SLEW_STEP.max(by / 1_000).min(left);
            clock.advance(step);
            left -= step;
            let (by, now) = (
                step * slew_ppm.unsigned_abs() / 1_000_000,
                clock.system_time(),
            );
            clock.set_system_time(if slew_ppm > 0 { now + by } else { now - by });
        }
    }

    /// How late a timer may be, if no clock is set and nothing is slow. In a slew less: a second's
    /// part of it, and what is not noticed, twice.
    fn late(&self) -> Duration {
        match self.shared.lock().slew_ppm.unsigned_abs() {
            0 => LATE,
            ppm => 2 * (10 * MS + Duration::from_micros(ppm.into())),
        }
    }

    /// The system's clock is slewed, or no more; or the store hangs in one of its next calls.
    fn slew_or_hang(&mut self) {
        let mut guard = self.shared.lock();
        let world = &mut *guard;
        let act = world.rare.u8(..16);
        match act {
            _ if !world.has_rare => {}
            0 | 1 => {
                world.slew_ppm = [0, 500, 4_900, 80_000, -4_900, -80_000][world.rare.usize(..6)];
                world.calm_since = world.passed();
                let slew_ppm = world.slew_ppm;
                world.note(format_args!("the clock is slewed by {slew_ppm} ppm"));
            }
            2 => {
                let after = MS * world.rare.u32(1_000..20_000);
                world.note("the store is to hang");
                world.plan = Some(Plan {
                    left: world.rare.u32(..6),
                    only: None,
                    fate: Fate::Slow {
                        before: Duration::ZERO,
                        after,
                        stands: false,
                    },
                });
            }
            3 | 4 if world.slew_ppm != 0 => {
                drop(guard);
                let next = self.to_next(Duration::from_secs(300));
                self.advance(next.unwrap_or_default() + 2 * self.late());
            }
            _ => {}
        }
    }

    fn set_clock(&mut self) {
        let mut world = self.shared.lock();
        let by = match world.rng.u8(..6) {
            0 => Duration::from_secs(world.rng.u64(..YEAR)),
            1 => Duration::from_secs(world.rng.u64(..100_000)),
            2 => Duration::from_micros(world.rng.u64(..8_000)),
            _ => world.delay().min(Duration::from_secs(30)),
        };
        let is_back = world.rng.bool();
        let now = world.now();
        let to = if is_back { now - by } else { now + by };
        world.clock.set_system_time(to);
        world.calm_since = world.passed();
        let how = if is_back { "back" } else { "forward" };
        world.note(format_args!("the clock is set {how} by {by:?}"));
    }

    /// The executor has no time for what comes due. Timers wait for it, and others for their
    /// places, while the clock is set.
    fn wait_for_executor(&mut self) {
        let by = self.to_next(SOON).unwrap_or(MS);
        let more = {
            let mut world = self.shared.lock();
            world.note("the executor is busy");
            world.is_executor_busy = true;
            MS * world.rng.u32(..8_000)
        };
        self.advance(by + more);
        loop {
            let mut world = self.shared.lock();
            let chance = world.rng.u8(..8);
            if chance < 3 {
                let by = MS * world.rng.u32(..10_000);
                let to = world.now() - by;
                world.clock.set_system_time(to);
                world.calm_since = world.passed();
                world.note(format_args!("the clock is set back by {by:?}"));
            }
            world.is_executor_busy = chance < 6;
            let future = world.futures.pop_front();
            drop(world);
            match (future, chance) {
                (Some(mut future), _) => {
                    let _ = future
                        .as_mut()
                        .poll(&mut Context::from_waker(Waker::noop()));
                }
                (None, 6..) => break,
                (None, 5) => self.shared.act(Place::Handler),
                (None, _) => self.advance(MS * u32::from(chance)),
            }
        }
        // (What waited may have filled the window.)
        let mut world = self.shared.lock();
        world.calm_since = world.passed();
    }

    /// Time until something is due, if that is sooner than this.
    fn to_next(&self, soon: Duration) -> Option<Duration> {
        let world = self.shared.lock();
        let now = StoreTime::reading(world.now());
        let dues = world.ledger.stored().map(|timer| timer.row.due);
        let next = dues.filter(|&due| due > now).min()?;
        Some(next.since(now)).filter(|&wait| wait < soon)
    }

    /// A call for a key while its timer comes due: by the wheel, or by the system's clock too.
    fn race(&mut self) {
        let (key, wait) = {
            let world = self.shared.lock();
            let now = StoreTime::reading(world.now());
            let soon = now.after(Duration::from_secs(30));
            let holder = KEYS.iter().find_map(|&key| {
                let timer = world.ledger.find(&Target::Key(key.into()))?;
                let due = timer.row.due;
                (due > now && due < soon).then(|| (key, due.since(now)))
            });
            let Some(holder) = holder else { return };
            holder
        };
        self.advance(wait - MS);
        {
            let mut world = self.shared.lock();
            world.note(format_args!("a race for {key}"));
            if world.rng.bool() {
                let to = world.now() - MS * 4;
                world.clock.set_system_time(to);
            }
            let (before, after) = (MS * world.rng.u32(..4), MS * world.rng.u32(..4));
            world.plan = Some(Plan {
                left: 0,
                only: None,
                fate: Fate::Slow {
                    before,
                    after,
                    stands: false,
                },
            });
        }
        self.shared.act_on(key);
    }

    /// One step. Returns whether all is right so far.
    fn step(&mut self) -> bool {
        self.slew_or_hang();
        if !self.look() {
            return false;
        }
        let step = {
            let mut world = self.shared.lock();
            world.calls = 0;
            if world.rng.u8(..12) == 0 {
                world.plan_trouble();
            }
            world.rng.u8(..103)
        };
        match step {
            0..50 => self.shared.act(Place::Outside),
            50..70 => {
                let by = {
                    let mut world = self.shared.lock();
                    let max = [2, 20, 500, 3_000, 12_000][world.rng.usize(..5)];
                    MS * world.rng.u32(..max)
                };
                self.advance(by);
            }
            70..86 => {
                let by = self.to_next(SOON).unwrap_or(MS);
                // By the system's clock it may be too early then, and nobody has noticed.
                let mut world = self.shared.lock();
                if world.rng.u8(..4) == 0 {
                    let slip = MS * world.rng.u32(1..6);
                    let to = world.now() - slip;
                    world.clock.set_system_time(to);
                    world.note(format_args!("the clock slips by {slip:?}"));
                }
                drop(world);
                self.advance(by);
            }
            86..88 => self.race(),
            88..91 => self.set_clock(),
            91..95 => self.crash(),
            95..98 => {
                self.stop();
                self.reopen();
            }
            98..100 => self.advance(Duration::from_secs(20)),
            _ => self.wait_for_executor(),
        }
        self.look()
    }

    /// Looks whether all is right. If the store has failed, or the process has died, another life
    /// begins.
    fn look(&mut self) -> bool {
        // (It may die again while it starts.)
        while self.has_failed() {
            self.die();
            if !self.is_right() {
                return false;
            }
            self.reopen();
        }
        let late = self.late();
        if let Some(timers) = &self.timers {
            let stats = timers.stats();
            let mut world = self.shared.lock();
            world.check_tickets(());
            world.ledger.at_rest();
            world.ledger.compare(&stats);
            let passed = world.passed();
            if let Some(since) = passed.checked_sub(LATE).filter(|&t| t >= world.calm_since) {
                let due = StoreTime::reading(world.now() - late);
                world.ledger.punctual(due, since);
            }
        }
        self.is_right()
    }

    fn has_failed(&self) -> bool {
        let world = self.shared.lock();
        world.has_failed || world.is_dead
    }

    fn is_right(&self) -> bool {
        self.shared.lock().ledger.wrongs.is_empty()
    }

    /// The trouble ceases. All that is stored is handled, or dies.
    fn drain(&mut self) {
        {
            let mut world = self.shared.lock();
            world.note("the trouble ceases");
            (world.has_trouble, world.plan) = (false, None);
            world.has_rare = false;
            if std::mem::take(&mut world.slew_ppm) != 0 {
                world.calm_since = world.passed();
            }
        }
        if self.shared.lock().rng.bool() {
            self.stop();
            self.reopen();
        }
        for _ in 0..200 {
            self.end_recurring();
            if !self.look() {
                return;
            }
            let last = {
                let world = self.shared.lock();
                world.ledger.stored().map(|timer| timer.row.due).max()
            };
            let Some(last) = last else {
                return self.end();
            };
            let mut world = self.shared.lock();
            if last.system_time() > world.now() + Duration::from_secs(20) {
                world.clock.set_system_time(last.system_time());
                world.calm_since = world.passed();
                world.calls = 0;
            }
            drop(world);
            self.advance(2 * LATE);
        }
        self.wrong("something is left, and never handled");
    }

    /// Cancels what would run for ever.
    fn end_recurring(&self) {
        let ids = self.shared.lock().ledger.recurring();
        for id in ids {
            let handle = self.shared.lock().handle.clone();
            if let Some(handle) = handle {
                let target = Target::Id(id);
                self.shared.end((), &handle, &target, true, false);
            }
        }
    }

    /// Nothing is left: the store says so too.
    fn end(&mut self) {
        self.stop();
        let mut store = (self.open)();
        store.acquire().unwrap();
        let size = store.size().unwrap();
        let mut world = self.shared.lock();
        let dead = world.ledger.in_state(State::Dead).count() as u64;
        if (size.rows, size.dead) != (0, dead) {
            world
                .ledger
                .wrong(format_args!("{size:?}, and {dead} are dead"));
        }
    }
}
