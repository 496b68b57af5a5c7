//! Child: arms, cancels and handles, and tells of each what was asked and what was answered. It may
//! be killed at any instant.
//!
//! # Ground rules
//!  - An ask is told before it is made, and an answer after it has come.
//!  - A handler tells what it has before it says that it is done.
//!  - Nothing that the next child would need is kept here.

use super::plan::{Fate, Plan};
use crate::clock::system_us;
use crate::process::OrderReader;
use crate::wire::{Aim, Ask, Begun, Due, Event, Id, Kind, Order, Teller};
use fastrand::Rng;
use std::collections::{HashSet, VecDeque};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// Blocks of a thread that are armed before the timers of one that are to go soon are cancelled.
const LAG: usize = 16;

/// Rows that are looked at together at the end.
const ROWS: usize = 4_096;

/// Between two words that it is still there.
const ALIVE: Duration = Duration::from_millis(100);

/// A timer that is to be armed.
pub(crate) struct Arm {
    pub(crate) due_ms: i64,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
}

/// A timer that is handed out.
pub(crate) struct Delivered<'a> {
    pub(crate) id: Id,
    pub(crate) payload: &'a [u8],
}

/// Durable timers, or what stands for them. What it does is durable when it returns.
pub(crate) trait Timers: Send + Sync {
    /// In their order.
    fn arm(&self, timers: Vec<Arm>) -> Result<Vec<Id>, String>;

    /// In their order.
    fn cancel(&self, ids: &[Id]) -> Result<Vec<bool>, String>;

    fn id_of(&self, key: &str) -> Result<Option<Id>, String>;

    /// Some that are left, with their payloads.
    fn rows(&self, limit: usize) -> Result<Vec<(Id, Vec<u8>)>, String>;

    /// How many dead letters there are, up to this number.
    fn dead(&self, limit: usize) -> Result<usize, String>;

    fn stop(&self) -> Result<(), String>;
}

/// Called with what is due. After an error a timer is not handled.
pub(crate) type Handler = Arc<dyn Fn(&[Delivered<'_>]) -> Result<(), String> + Send + Sync>;

/// What is to be done.
#[derive(Default)]
struct Todo {
    unresolved: Vec<u32>,
    blocks: Vec<u32>,
    from: u32,
    cancels: Vec<(u32, Id)>,
}

/// Works until it is told to stop, in this life. At the end acks may be on their way for as long as
/// `settled`.
pub(crate) fn run(
    (plan, life): (&Plan, u32),
    threads: usize,
    settled: Duration,
    open: impl FnOnce(Handler) -> Result<Box<dyn Timers>, String>,
    orders: impl Read,
    teller: &Arc<Teller>,
) -> Result<(), String> {
    let timers = open(handler(plan.clone(), life, teller.clone()))?;
    teller.tell(&Event::Ready)?;
    let mut orders = OrderReader::new(orders);
    let todo = Todo::read(&mut orders)?;
    let timers = &*timers;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let alive = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                teller.tell(&Event::Alive)?;
                thread::park_timeout(ALIVE);
            }
            Ok(())
        });
        let job = Job {
            plan,
            timers,
            teller,
            // Numbers of calls: no other life has them.
            next: AtomicU64::new(u64::from(life) << 32),
        };
        let done = job.all(threads, todo);
        let done = done.and_then(|()| match orders.next()? {
            Order::Stop => job.clear(settled),
            _ => Err("an order too late".to_string()),
        });
        is_over.store(true, Relaxed);
        alive.thread().unpark();
        done.and(alive.join().expect("it does not panic"))
    })?;
    let rows = timers.rows(ROWS)?.len() as u64;
    let dead = timers.dead(ROWS)? as u64;
    timers.stop()?;
    teller.tell(&Event::Stopped { rows, dead })
}

fn handler(plan: Plan, life: u32, teller: Arc<Teller>) -> Handler {
    Arc::new(move |delivered| {
        let us = system_us();
        let event = |timer: &Delivered<'_>| match plan.read(timer.payload) {
            Some((number, due_ms)) => Event::Start(Begun {
                handling: 0,
                number: number.into(),
                id: timer.id,
                fence: life.into(),
                attempt: 1,
                due_ms,
                done_us: Some(us),
            }),
            None => Event::Altered(timer.id),
        };
        teller.tell_all(&delivered.iter().map(event).collect::<Vec<_>>())
    })
}

impl Todo {
    fn read(orders: &mut OrderReader<impl Read>) -> Result<Self, String> {
        let mut todo = Self::default();
        loop {
            match orders.next()? {
                Order::Resolve(numbers) => todo.unresolved = numbers,
                Order::Arm { blocks, from } => (todo.blocks, todo.from) = (blocks, from),
                Order::Take(timers) => {
                    let own = |(number, id)| (number as u32, id);
                    todo.cancels.extend(timers.into_iter().map(own));
                }
                Order::Begin => return Ok(todo),
                Order::Quiet | Order::Stop => return Err("an order too early".to_string()),
            }
        }
    }
}

struct Job<'a> {
    plan: &'a Plan,
    timers: &'a dyn Timers,
    teller: &'a Teller,
    next: AtomicU64,
}

impl Job<'_> {
    fn all(&self, threads: usize, mut todo: Todo) -> Result<(), String> {
        let found = self.resolve(&todo.unresolved)?;
        todo.cancels.extend(found);
        let todo = todo;
        let (next, armed) = (AtomicU32::new(0), Barrier::new(threads));
        let block = || {
            let nth = next.fetch_add(1, Relaxed);
            let hole = todo.blocks.get(nth as usize).copied();
            let rest = || todo.from + (nth - todo.blocks.len() as u32);
            let block = hole.unwrap_or_else(rest);
            (block < self.plan.blocks()).then_some(block)
        };
        let share = todo.cancels.len().div_ceil(threads).max(1);
        let mut shares = todo.cancels.chunks(share);
        let (block, armed) = (&block, &armed);
        let results: Vec<Result<(), String>> = thread::scope(|scope| {
            let threads = (0..threads).map(|thread| {
                let mut late = shares.next().unwrap_or_default().to_vec();
                scope.spawn(move || {
                    let arming = self.arm_blocks(block, &mut late);
                    // All come here, whatever has happened to them.
                    armed.wait();
                    arming?;
                    let seed = self.plan.seed.wrapping_add(thread as u64);
                    Rng::with_seed(seed).shuffle(&mut late);
                    late.chunks(self.plan.block_size())
                        .try_for_each(|some| self.cancel(some))
                })
            });
            let threads: Vec<_> = threads.collect();
            let join = thread::ScopedJoinHandle::join;
            let joined = threads.into_iter().map(join);
            joined
                .map(|result| result.expect("it does not panic"))
                .collect()
        });
        results.into_iter().collect()
    }

    /// Arms blocks as long as there are some, and cancels those that are to go soon.
    fn arm_blocks(
        &self,
        next: impl Fn() -> Option<u32>,
        late: &mut Vec<(u32, Id)>,
    ) -> Result<(), String> {
        let mut soon = VecDeque::new();
        while let Some(block) = next() {
            let ids = self.arm(block)?;
            let mut own = Vec::new();
            for (number, id) in self.plan.numbers(block).zip(ids) {
                match self.plan.fate(number) {
                    Fate::Fires => {}
                    Fate::CancelledSoon => own.push((number, id)),
                    Fate::CancelledLate => late.push((number, id)),
                }
            }
            soon.push_back(own);
            if soon.len() > LAG {
                self.cancel(&soon.pop_front().unwrap_or_default())?;
            }
        }
        soon.into_iter().try_for_each(|own| self.cancel(&own))
    }

    fn arm(&self, block: u32) -> Result<Vec<Id>, String> {
        let now_us = system_us();
        let (mut asks, mut timers) = (Vec::new(), Vec::new());
        for number in self.plan.numbers(block) {
            let (due_ms, key) = (self.plan.due_ms(number, now_us), self.plan.key(number));
            let ask = Ask {
                kind: Kind::Sealed,
                key: key.clone(),
                due: Due::At(due_ms),
                is_outbox: false,
            };
            asks.push(Event::Ask(number.into(), ask));
            let payload = self.plan.payload(number, due_ms);
            timers.push(Arm {
                due_ms,
                key,
                payload,
            });
        }
        self.teller.tell_all(&asks)?;
        let ids = self.timers.arm(timers)?;
        let armed = self.plan.numbers(block).zip(&ids);
        let armed = armed.map(|(number, &id)| {
            let number = number.into();
            Event::Armed { number, id }
        });
        self.teller.tell_all(&armed.collect::<Vec<_>>())?;
        Ok(ids)
    }

    fn cancel(&self, timers: &[(u32, Id)]) -> Result<(), String> {
        if timers.is_empty() {
            return Ok(());
        }
        let first = self.next.fetch_add(timers.len() as u64, Relaxed);
        let ask = |(call, (number, _)): (u64, &(u32, Id))| {
            Event::Call(call, Aim::Number(u64::from(*number)), None)
        };
        let asks: Vec<_> = (first..).zip(timers).map(ask).collect();
        self.teller.tell_all(&asks)?;
        let ids: Vec<Id> = timers.iter().map(|(_, id)| *id).collect();
        let answers = self.timers.cancel(&ids)?;
        let answer = |(call, is_done)| Event::Answer(call, is_done);
        let answers = (first..).zip(answers).map(answer);
        self.teller.tell_all(&answers.collect::<Vec<_>>())
    }

    /// Asks the store for timers by their keys. Returns those of them that are to be cancelled.
    fn resolve(&self, numbers: &[u32]) -> Result<Vec<(u32, Id)>, String> {
        let mut found = Vec::new();
        for &number in numbers {
            let key = self.plan.key(number).ok_or("a timer without key")?;
            let id = self.timers.id_of(&key)?;
            self.teller.tell(&match id {
                Some(id) => {
                    let number = number.into();
                    Event::Armed { number, id }
                }
                None => Event::Absent(number.into()),
            })?;
            let is_to_go = self.plan.fate(number) != Fate::Fires;
            found.extend(id.filter(|_| is_to_go).map(|id| (number, id)));
        }
        Ok(found)
    }

    /// Cancels what is left, until nothing is: armings of which no child had an answer.
    fn clear(&self, settled: Duration) -> Result<(), String> {
        let (start, mut seen) = (Instant::now(), HashSet::new());
        loop {
            let rows = self.timers.rows(ROWS)?;
            if rows.is_empty() || start.elapsed() > settled {
                return Ok(());
            }
            let mut left = Vec::new();
            for (id, payload) in rows {
                if !seen.insert(id) {
                    continue;
                }
                match self.plan.read(&payload) {
                    Some((number, _)) => {
                        left.push((number, id));
                        let number = number.into();
                        self.teller.tell(&Event::Row { number, id })?;
                    }
                    None => self.teller.tell(&Event::Altered(id))?,
                }
            }
            if left.is_empty() {
                // Acks that are not stored yet.
                thread::sleep(Duration::from_millis(10));
            }
            self.cancel(&left)?;
        }
    }
}
