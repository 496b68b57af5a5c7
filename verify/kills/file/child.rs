//! Child: arms, cancels and handles, and writes of each what was asked and what was answered. It
//! may be killed at any instant.
//!
//! # Ground rules
//!  - A record of an ask is written before the ask, that of an answer after it.
//!  - A handler writes its record before it says that it is done.
//!  - Nothing that the next child would need is kept here.

use super::clock::now_us;
use super::plan::{Fate, Plan};
use super::wire::{Commits, Decoder, Handled, Id, Message, Order, Record};
use fastrand::Rng;
use std::collections::{HashSet, VecDeque};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::lock::lock;

/// Blocks of a thread that are armed before the timers of one that are to go soon are cancelled.
const LAG: usize = 16;

/// Rows that are looked at together at the end.
const ROWS: usize = 4_096;

const REPORT: Duration = Duration::from_millis(100);

/// A timer that is to be armed.
pub(crate) struct Arm {
    pub(crate) due_us: u64,
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

    fn commits(&self) -> Commits;

    fn stop(&self) -> Result<(), String>;
}

/// Called with what is due. After an error a timer is not handled.
pub(crate) type Handler = Arc<dyn Fn(&[Delivered<'_>]) -> Result<(), String> + Send + Sync>;

/// Writes records, each in one piece.
pub(crate) struct Teller(Mutex<Box<dyn Write + Send>>);

impl Teller {
    fn tell(&self, record: &Record) -> Result<(), String> {
        let written = lock(&self.0).write_all(&record.frame());
        written.map_err(|error| format!("the parent has gone: {error}"))
    }
}

/// What is to be done.
#[derive(Default)]
struct Todo {
    unresolved: Vec<u32>,
    blocks: Vec<u32>,
    from: u32,
    cancels: Vec<(u32, Id)>,
}

/// Works until it is told to stop. At the end acks may be on their way for as long as `settled`.
pub(crate) fn run(
    plan: &Plan,
    threads: usize,
    settled: Duration,
    open: impl FnOnce(Handler) -> Result<Box<dyn Timers>, String>,
    orders: impl Read,
    records: Box<dyn Write + Send>,
) -> Result<(), String> {
    let teller = Arc::new(Teller(Mutex::new(records)));
    let result = work(plan, threads, settled, open, orders, &teller);
    if let Err(why) = &result {
        // If nobody reads, nobody asks why.
        let _ = teller.tell(&Record::Fault(why.clone()));
    }
    result
}

fn work(
    plan: &Plan,
    threads: usize,
    settled: Duration,
    open: impl FnOnce(Handler) -> Result<Box<dyn Timers>, String>,
    mut orders: impl Read,
    teller: &Arc<Teller>,
) -> Result<(), String> {
    let start = Instant::now();
    let timers = open(handler(plan.clone(), teller.clone()))?;
    let open_us = start.elapsed().as_micros() as u64;
    let at_us = now_us();
    teller.tell(&Record::Ready { at_us, open_us })?;
    let mut orders = Orders::new(&mut orders);
    let todo = orders.todo()?;
    let timers = &*timers;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reports = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                teller.tell(&Record::Commits(timers.commits()))?;
                thread::park_timeout(REPORT);
            }
            teller.tell(&Record::Commits(timers.commits()))
        });
        let job = Job {
            plan,
            timers,
            teller,
        };
        let done = job.all(threads, todo).and_then(|()| orders.finish());
        let done = done.and_then(|()| job.clear(settled));
        is_over.store(true, Relaxed);
        reports.thread().unpark();
        let reported = reports.join().expect("it does not panic");
        done.and(reported)
    })?;
    let rows = timers.rows(ROWS)?.len() as u64;
    let dead = timers.dead(ROWS)? as u64;
    timers.stop()?;
    teller.tell(&Record::Done { rows, dead })
}

fn handler(plan: Plan, teller: Arc<Teller>) -> Handler {
    Arc::new(move |delivered| {
        let at_us = now_us();
        let mut timers = Vec::with_capacity(delivered.len());
        for timer in delivered {
            match plan.read(timer.payload) {
                Some((number, due_us)) => timers.push(Handled { number, due_us }),
                None => teller.tell(&Record::Altered { id: timer.id })?,
            }
        }
        teller.tell(&Record::Handled { at_us, timers })
    })
}

/// Reads orders as they come.
struct Orders<'a> {
    pipe: &'a mut dyn Read,
    decoder: Decoder,
}

impl<'a> Orders<'a> {
    fn new(pipe: &'a mut dyn Read) -> Self {
        Self {
            pipe,
            decoder: Decoder::default(),
        }
    }

    fn next(&mut self) -> Result<Order, String> {
        let mut chunk = [0; 1 << 16];
        loop {
            if let Some(order) = self.decoder.next()? {
                return Ok(order);
            }
            let length = self.pipe.read(&mut chunk);
            match length.map_err(|error| format!("orders: {error}"))? {
                0 => return Err("the parent has gone".to_string()),
                length => self.decoder.push(&chunk[..length]),
            }
        }
    }

    fn todo(&mut self) -> Result<Todo, String> {
        let mut todo = Todo::default();
        loop {
            match self.next()? {
                Order::Resolve(numbers) => todo.unresolved = numbers,
                Order::Arm { blocks, from } => (todo.blocks, todo.from) = (blocks, from),
                Order::Cancel(timers) => todo.cancels.extend(timers),
                Order::Begin => return Ok(todo),
                Order::Finish => return Err("an order too early".to_string()),
            }
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        match self.next()? {
            Order::Finish => Ok(()),
            _ => Err("an order too late".to_string()),
        }
    }
}

struct Job<'a> {
    plan: &'a Plan,
    timers: &'a dyn Timers,
    teller: &'a Teller,
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
                    if armed.wait().is_leader() && arming.is_ok() {
                        let at_us = now_us();
                        self.teller.tell(&Record::ArmingEnded { at_us })?;
                    }
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
        results.into_iter().collect::<Result<(), _>>()?;
        let at_us = now_us();
        self.teller.tell(&Record::CancellingEnded { at_us })
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
        let at_us = now_us();
        self.teller.tell(&Record::Asked { block, at_us })?;
        let arm = |number| {
            let due_us = at_us + self.plan.delay_us(number);
            Arm {
                due_us,
                key: self.plan.key(number),
                payload: self.plan.payload(number, due_us),
            }
        };
        let timers = self.plan.numbers(block).map(arm).collect();
        let start = Instant::now();
        let ids = self.timers.arm(timers)?;
        let us = start.elapsed().as_micros() as u32;
        let armed = Record::Armed { block, us, ids };
        self.teller.tell(&armed)?;
        match armed {
            Record::Armed { ids, .. } => Ok(ids),
            _ => unreachable!(),
        }
    }

    fn cancel(&self, timers: &[(u32, Id)]) -> Result<(), String> {
        if timers.is_empty() {
            return Ok(());
        }
        let (numbers, ids): (Vec<u32>, Vec<Id>) = timers.iter().copied().unzip();
        self.teller.tell(&Record::CancelAsked(numbers.clone()))?;
        let start = Instant::now();
        let answers = self.timers.cancel(&ids)?;
        let us = start.elapsed().as_micros() as u32;
        let answers = numbers.into_iter().zip(answers).collect();
        self.teller.tell(&Record::Cancelled { us, answers })
    }

    /// Asks the store for timers by their keys. Returns those of them that are to be cancelled.
    fn resolve(&self, numbers: &[u32]) -> Result<Vec<(u32, Id)>, String> {
        let mut found = Vec::new();
        for &number in numbers {
            let key = self.plan.key(number).ok_or("a timer without key")?;
            let id = self.timers.id_of(&key)?;
            self.teller.tell(&Record::Resolved { number, id })?;
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
                        self.teller.tell(&Record::Left { number, id })?;
                        left.push((number, id));
                    }
                    None => self.teller.tell(&Record::Altered { id })?,
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
