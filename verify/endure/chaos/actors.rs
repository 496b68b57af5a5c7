//! Actors: threads that arm timers, and do to each other's whatever can be done to a timer.

use super::payload::{Cargo, World};
use crate::ledger::{Line, Outcome};
use crate::periodic::Runs;
use fastrand::Rng;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Missed, ScheduleError, TimerId};
use wheelwork_kit::lock::lock;

/// Guards that are forgotten, in all episodes: each keeps the memory of a service for ever, and
/// the resident bytes must stay flat.
const FORGOTTEN_MAX: usize = 20;

static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

/// Places on the board where actors leave timers for each other.
const PLACES: usize = 512;

/// A timer that somebody may do something to.
#[derive(Clone)]
struct Token {
    id: TimerId,
    line: Arc<Line>,
    /// Nobody else has it: a move tells exactly when it fires.
    is_only_one: bool,
}

pub(crate) struct Stage<C: Cargo> {
    pub(crate) world: Arc<World<C>>,
    board: Vec<Mutex<Option<Token>>>,
    pub(crate) is_over: AtomicBool,
    /// No actor opens a line beyond this many.
    pub(crate) lines_max: u64,
}

/// Delays as they are: most short, some for seconds, some for ever.
pub(crate) fn delay(rng: &mut Rng) -> Duration {
    match rng.u32(..100) {
        0..5 => Duration::ZERO,
        5..75 => Duration::from_micros(rng.u64(..30_000)),
        75..90 => Duration::from_micros(rng.u64(..1_000_000)),
        90..99 => Duration::from_secs(rng.u64(3_600..1_000_000)),
        _ => Duration::MAX,
    }
}

impl<C: Cargo> Stage<C> {
    pub(crate) fn new(world: Arc<World<C>>, lines_max: u64) -> Self {
        Self {
            world,
            board: (0..PLACES).map(|_| Mutex::new(None)).collect(),
            is_over: AtomicBool::new(false),
            lines_max,
        }
    }

    /// Puts a token into a random place; who was there is returned.
    fn swap(&self, token: Option<Token>, rng: &mut Rng) -> Option<Token> {
        std::mem::replace(&mut *lock(&self.board[rng.usize(..PLACES)]), token)
    }

    /// Takes a token from a random place.
    fn with_some(&self, rng: &mut Rng, act: impl FnOnce(Token, &mut Rng)) {
        if let Some(token) = self.swap(None, rng) {
            act(token, rng);
        }
    }

    fn place(&self, id: TimerId, line: Arc<Line>, rng: &mut Rng) {
        let token = Token {
            id,
            line,
            is_only_one: true,
        };
        if let Some(other) = self.swap(Some(token), rng)
            && rng.bool()
        {
            self.cancel(&other);
        }
    }

    fn cancel(&self, token: &Token) {
        if self.world.handle.cancel(token.id) {
            self.world.ledger.note(&token.line, Outcome::Cancelled);
        }
    }

    /// One thing that an actor does.
    fn act(&self, rng: &mut Rng) {
        let world = &self.world;
        let room = world.ledger.opened() < self.lines_max;
        match rng.u32(..100) {
            0..40 if room => match world.arm(delay(rng), 0, Duration::ZERO) {
                Some((id, line)) => self.place(id, line, rng),
                // Full, or stopped.
                None => thread::sleep(Duration::from_micros(100)),
            },
            40..44 if room => self.arm_many(rng),
            44..46 if room => {
                if let Some((id, line)) = self.start_periodic(rng) {
                    self.place(id, line, rng);
                }
            }
            46..48 if room => {
                if let Some((id, _)) = world.arm(delay(rng), 0, Duration::ZERO) {
                    let guard = world.handle.guard(id);
                    match rng.u32(..3) {
                        0 if FORGOTTEN.fetch_add(1, SeqCst) < FORGOTTEN_MAX => {
                            std::mem::forget(guard);
                        }
                        1 => _ = guard.keep(),
                        _ => {}
                    }
                }
            }
            48..65 => self.with_some(rng, |token, _| self.cancel(&token)),
            65..70 => self.with_some(rng, |token, _| self.take(&token)),
            70..85 => self.with_some(rng, |token, rng| self.reschedule(token, rng)),
            85..90 => self.with_some(rng, |mut token, rng| {
                // Two who have it from now on.
                token.is_only_one = false;
                self.swap(Some(token.clone()), rng);
                self.swap(Some(token), rng);
            }),
            90..91 => self.with_some(rng, |token, _| self.cancel_and_wait(&token)),
            91..93 => self.cancel_many(rng),
            93..98 => self.with_some(rng, |token, rng| {
                black_box(world.handle.is_pending(token.id));
                black_box(world.handle.remaining(token.id));
                black_box(world.handle.deadline(token.id));
                self.swap(Some(token), rng);
            }),
            98 if rng.u32(..100) == 0 => _ = world.handle.pending(rng.usize(..4)).count(),
            _ => {}
        }
    }

    /// Starts a periodic timer. `None` if the service refused it.
    fn start_periodic(&self, rng: &mut Rng) -> Option<(TimerId, Arc<Line>)> {
        let world = &self.world;
        let (first, period) = (
            Duration::from_micros(rng.u64(..20_000)),
            Duration::from_micros(rng.u64(100..20_000)),
        );
        let line = world.ledger.open(world.ledger.after_ns(first), true);
        let is_rate = rng.bool();
        let mut runs = Runs::new(&world.ledger, &line, period, is_rate);
        let panics_at = rng.u32(1..30);
        let periodic = if is_rate {
            world.handle.every(period)
        } else {
            world.handle.every_after(period)
        };
        let missed = [Missed::Skip, Missed::Delay, Missed::Burst(3)][rng.usize(..3)];
        let periodic = periodic.missed(missed).first(first);
        let periodic = if rng.bool() {
            periodic.times(rng.u64(1..50))
        } else {
            periodic
        };
        let run = move || assert!(runs.run() != panics_at, "chaos: a run panics");
        match periodic.start(run) {
            Ok(id) => Some((id, line)),
            Err(_) => {
                world.ledger.note(&line, Outcome::Refused);
                None
            }
        }
    }

    fn take(&self, token: &Token) {
        // Whatever it is: a task that is taken does not run, and a periodic timer is not taken.
        let taken = self.world.handle.take(token.id);
        if let Some(cargo) = taken {
            self.world.ledger.note(&token.line, Outcome::Cancelled);
            drop(cargo);
        }
    }

    fn reschedule(&self, token: Token, rng: &mut Rng) {
        let delay = delay(rng);
        let at_ns = self.world.ledger.after_ns(delay);
        token.line.may_fire_from(at_ns);
        if self.world.handle.reschedule(token.id, delay) {
            if token.is_only_one && !token.line.is_periodic {
                token.line.fires_from(at_ns);
            }
            self.swap(Some(token), rng);
        }
    }

    fn cancel_and_wait(&self, token: &Token) {
        match self.world.handle.cancel_and_wait(token.id) {
            Ok(cancelled) => {
                token.line.ends();
                if cancelled {
                    self.world.ledger.note(&token.line, Outcome::Cancelled);
                }
            }
            Err(inside) => self.world.ledger.fault(format_args!(
                "cancel_and_wait from a thread of its own: {inside}"
            )),
        }
    }

    fn arm_many(&self, rng: &mut Rng) {
        let mut lines = Vec::new();
        let mut timers = Vec::new();
        for _ in 0..rng.usize(..20) {
            let delay = delay(rng);
            let (line, cargo) = self.world.payload(delay, 0, Duration::ZERO);
            lines.push(line);
            timers.push((delay, cargo));
        }
        let results = self.world.handle.schedule_many(timers);
        let (given, asked) = (results.len(), lines.len());
        if given != asked {
            let what = format_args!("schedule_many gave {given} results for {asked}");
            self.world.ledger.fault(what);
        }
        for (result, line) in results.into_iter().zip(lines) {
            match result.map_err(ScheduleError::into_payload) {
                Ok(id) => self.place(id, line, rng),
                Err(cargo) => {
                    self.world.ledger.note(&line, Outcome::Refused);
                    drop(cargo);
                }
            }
        }
    }

    fn cancel_many(&self, rng: &mut Rng) {
        let tokens: Vec<_> = (0..rng.usize(..20))
            .filter_map(|_| self.swap(None, rng))
            .collect();
        let handle = &self.world.handle;
        if rng.bool() {
            handle.cancel_many(tokens.iter().map(|token| token.id));
        } else {
            let delay = delay(rng);
            let at_ns = self.world.ledger.after_ns(delay);
            tokens
                .iter()
                .for_each(|token| token.line.may_fire_from(at_ns));
            handle.reschedule_many(tokens.iter().map(|token| token.id), delay);
        }
    }

    /// An actor that goes on until the stage is closed.
    pub(crate) fn act_until_over(&self, mut rng: Rng) {
        while !self.is_over.load(SeqCst) {
            for _ in 0..rng.u32(1..300) {
                self.act(&mut rng);
            }
            thread::sleep(Duration::from_micros(rng.u64(..2_000)));
        }
    }

    /// A short life: some acts, and a last wish that a thread-local's destructor fulfils, before or
    /// after the service's own.
    pub(crate) fn live_shortly(self: &Arc<Self>, mut rng: Rng) {
        let end = Instant::now() + Duration::from_millis(1);
        let stage: Arc<dyn Wish> = self.clone();
        let acts_first = rng.bool();
        if acts_first {
            self.act(&mut rng);
        }
        LAST_WISHES.with_borrow_mut(|wishes| wishes.0.push((stage, rng.u64(..))));
        self.act(&mut rng);
        while Instant::now() < end && !self.is_over.load(SeqCst) {
            self.act(&mut rng);
        }
    }
}

/// What a thread-local's destructor does.
trait Wish {
    fn fulfil(&self, seed: u64);
}

impl<C: Cargo> Wish for Stage<C> {
    fn fulfil(&self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        for _ in 0..5 {
            self.act(&mut rng);
        }
    }
}

#[derive(Default)]
struct LastWishes(Vec<(Arc<dyn Wish>, u64)>);

impl Drop for LastWishes {
    fn drop(&mut self) {
        self.0
            .drain(..)
            .for_each(|(stage, seed)| stage.fulfil(seed));
    }
}

thread_local! {
    static LAST_WISHES: RefCell<LastWishes> = RefCell::default();
}
