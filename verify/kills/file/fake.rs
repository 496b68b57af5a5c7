//! Fake: a store without a disk, and a child without a process. What is killed has done nothing
//! from then on. It can break each promise, so that the judge can be seen to see it.

use super::child::{self, Arm, Delivered, Handler, Timers};
use super::parent::{Run, moments};
use super::plan::Plan;
use crate::clock::system_us;
use crate::process::{Child, tell_of};
use crate::verdict::{Offence, Verdict};
use crate::wire::Id;
use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wheelwork_kit::lock::lock;

/// A promise that the store breaks now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// An arm is answered, and nothing is stored.
    Forgets,
    FiresEarly,
    FiresTwice,
    /// A cancel says `true`, and the timer fires.
    FiresCancelled,
    /// A cancel says `true`, and the row stays to the end.
    LeavesCancelled,
    /// A payload has another byte than was stored.
    Alters,
    /// A dead letter is left when it stops.
    Buries,
    /// The child ends by itself.
    Fails,
}

struct Row {
    due_ms: i64,
    key: Option<String>,
    payload: Vec<u8>,
    /// The life in which it was handed out.
    handed_out: u32,
    /// Handed out once more.
    again: bool,
    is_left: bool,
}

/// Where timers are lost, nothing more comes. Other tests do not depend on it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where rows stay, they are waited for this long.
const SETTLED: Duration = Duration::from_millis(500);

/// What is on the disk that is none.
struct World {
    fault: Fault,
    rows: Mutex<BTreeMap<Id, Row>>,
    number: AtomicU64,
    /// The life that may do something. Changed while `rows` is locked.
    alive: AtomicU32,
}

impl World {
    /// The rows, if this life is not over.
    fn rows(&self, life: u32) -> Result<MutexGuard<'_, BTreeMap<Id, Row>>, String> {
        let rows = lock(&self.rows);
        if self.alive.load(SeqCst) == life {
            Ok(rows)
        } else {
            Err("killed".to_string())
        }
    }

    /// Whether the fault hits this timer: one timer in `one_in`.
    fn breaks(&self, fault: Fault, id: Id, one_in: u128) -> bool {
        self.fault == fault && id.is_multiple_of(one_in)
    }
}

struct FakeTimers {
    world: Arc<World>,
    life: u32,
}

impl FakeTimers {
    fn open(world: &Arc<World>, life: u32, handler: Handler) -> Box<dyn Timers> {
        let own = world.clone();
        thread::spawn(move || fire(&own, life, &handler));
        let world = world.clone();
        Box::new(Self { world, life })
    }
}

/// Hands out what is due until the life is over.
fn fire(world: &World, life: u32, handler: &Handler) -> Option<()> {
    loop {
        let mut due = Vec::new();
        let ahead_ms = if world.fault == Fault::FiresEarly {
            50
        } else {
            0
        };
        let now_ms = system_us() / 1_000 + ahead_ms;
        for (id, row) in world.rows(life).ok()?.iter_mut() {
            if row.due_ms <= now_ms && row.handed_out != life && !row.is_left {
                row.handed_out = life;
                due.push((*id, row.payload.clone()));
            }
        }
        // In small batches, so that a kill comes between.
        for batch in due.chunks(16) {
            let of = |(id, payload): &(Id, Vec<u8>)| (*id, payload.clone());
            let owned: Vec<_> = batch.iter().map(of).collect();
            let delivered = owned
                .iter()
                .map(|(id, payload)| Delivered { id: *id, payload });
            let delivered: Vec<_> = delivered.collect();
            handler(&delivered).ok()?;
            // Time for a kill between what is done and its ack.
            thread::sleep(Duration::from_micros(100));
            let mut rows = world.rows(life).ok()?;
            for (id, _) in batch {
                let row = rows.get_mut(id);
                let again = row.is_some_and(|row| {
                    let again = !row.again && world.breaks(Fault::FiresTwice, *id, 64);
                    row.again = true;
                    row.handed_out = 0;
                    again
                });
                if !again {
                    rows.remove(id);
                }
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

impl Timers for FakeTimers {
    fn arm(&self, timers: Vec<Arm>) -> Result<Vec<Id>, String> {
        let (mut ids, number) = (Vec::new(), &self.world.number);
        {
            let mut rows = self.world.rows(self.life)?;
            for mut timer in timers {
                let id = Id::from(number.fetch_add(1, SeqCst));
                ids.push(id);
                if self.world.breaks(Fault::Fails, id, 999) {
                    return Err("the disk is full".to_string());
                }
                if self.world.breaks(Fault::Forgets, id, 100) {
                    continue;
                }
                if self.world.breaks(Fault::Alters, id, 100) {
                    timer.payload[20] ^= 1;
                }
                let row = Row {
                    due_ms: timer.due_ms,
                    key: timer.key,
                    payload: timer.payload,
                    handed_out: 0,
                    again: false,
                    is_left: false,
                };
                rows.insert(id, row);
            }
        }
        // Time for a kill between what is done and its answer.
        thread::sleep(Duration::from_micros(200));
        Ok(ids)
    }

    fn cancel(&self, ids: &[Id]) -> Result<Vec<bool>, String> {
        let mut rows = self.world.rows(self.life)?;
        let mut cancel = |id: &Id| {
            let row = rows.get_mut(id).filter(|row| row.handed_out != self.life);
            let Some(row) = row else { return false };
            if self.world.breaks(Fault::FiresCancelled, *id, 20) {
                row.due_ms = 0;
                return true;
            }
            if self.world.breaks(Fault::LeavesCancelled, *id, 100) {
                let is_again = row.is_left;
                row.is_left = true;
                return !is_again;
            }
            rows.remove(id).is_some()
        };
        let answers = ids.iter().map(&mut cancel).collect();
        drop(rows);
        thread::sleep(Duration::from_micros(200));
        Ok(answers)
    }

    fn id_of(&self, key: &str) -> Result<Option<Id>, String> {
        let rows = self.world.rows(self.life)?;
        let found = rows.iter().find(|(_, row)| row.key.as_deref() == Some(key));
        Ok(found.map(|(id, _)| *id))
    }

    fn rows(&self, limit: usize) -> Result<Vec<(Id, Vec<u8>)>, String> {
        let rows = self.world.rows(self.life)?;
        let some = rows.iter().take(limit);
        Ok(some.map(|(id, row)| (*id, row.payload.clone())).collect())
    }

    fn dead(&self, _limit: usize) -> Result<usize, String> {
        Ok(usize::from(self.world.fault == Fault::Buries))
    }

    fn stop(&self) -> Result<(), String> {
        self.world.rows(self.life).map(drop)
    }
}

/// A pipe's end that a kill closes.
#[derive(Clone)]
struct Records {
    pipe: Arc<Mutex<Option<PipeWriter>>>,
    is_killed: Arc<AtomicBool>,
}

impl Records {
    fn close(&self) {
        *lock(&self.pipe) = None;
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *lock(&self.pipe) {
            Some(pipe) if !self.is_killed.load(SeqCst) => pipe.write(bytes),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct FakeChild {
    world: Arc<World>,
    thread: Option<JoinHandle<Result<(), String>>>,
    records: Records,
    pipes: Option<(PipeWriter, PipeReader)>,
}

impl FakeChild {
    fn start(plan: &Plan, world: &Arc<World>, number: u32) -> Self {
        let life = world.alive.fetch_add(1, SeqCst) + 1;
        let (orders_read, orders) = io::pipe().expect("there are pipes");
        let (read, records) = io::pipe().expect("there are pipes");
        let records = Records {
            pipe: Arc::new(Mutex::new(Some(records))),
            is_killed: Arc::default(),
        };
        let (plan, own_world, own) = (plan.clone(), world.clone(), records.clone());
        let thread = thread::spawn(move || {
            let open = |handler| Ok(FakeTimers::open(&own_world, life, handler));
            let result = tell_of(own.clone(), |teller| {
                child::run((&plan, number), 3, SETTLED, open, orders_read, teller)
            });
            own.close();
            result
        });
        Self {
            world: world.clone(),
            thread: Some(thread),
            records,
            pipes: Some((orders, read)),
        }
    }
}

impl Child for FakeChild {
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
        let (orders, records) = self.pipes.take().expect("they are taken once");
        (Box::new(orders), Box::new(records))
    }

    fn kill(&mut self) {
        let _rows = lock(&self.world.rows);
        self.world.alive.fetch_add(1, SeqCst);
        self.records.is_killed.store(true, SeqCst);
        // A write may wait for the parent, who is here.
        let records = self.records.clone();
        thread::spawn(move || records.close());
    }

    fn wait(&mut self) -> String {
        let thread = self.thread.take().expect("it is waited for once");
        format!("{:?}", thread.join().expect("it does not panic"))
    }
}

/// A job with that fault, and its verdict.
fn job(fault: Fault, timers: u32, kills: u32) -> (Run, Verdict, Vec<String>) {
    let plan = Plan::new(timers, 5, 90, 300_000, 40);
    let world = Arc::new(World {
        fault,
        rows: Mutex::default(),
        number: AtomicU64::new(1),
        alive: AtomicU32::new(0),
    });
    let mut run = Run::new(plan.clone());
    let moments = moments(kills, 5, run.progress.all());
    let start = |life| Ok(FakeChild::start(&plan, &world, life));
    assert_eq!(run.all(moments, PATIENCE, start, |_| {}), Ok(()));
    let (verdict, broken) = run.verdict();
    (run, verdict, broken)
}

#[test]
fn a_job_without_faults_is_clean() {
    for kills in [0, 12] {
        let (run, _, broken) = job(Fault::None, 20_000, kills);
        assert_eq!(broken, [""; 0]);
        let sums = &run.ledger.sums;
        assert_eq!(run.kills(), u64::from(kills));
        let [arms_in_doubt, done] = run.progress.in_doubt(&run.ledger);
        assert!(done <= arms_in_doubt);
        assert!(sums.handled > 1_500 && sums.cancelled > 10_000, "{sums:?}");
        assert_eq!(arms_in_doubt > 0, kills > 0, "{sums:?}");
    }
}

#[test]
fn each_broken_promise_is_seen_and_its_first_offenders_are_named() {
    for (fault, offence) in [
        (Fault::Forgets, Offence::Lost),
        (Fault::FiresEarly, Offence::Early),
        (Fault::FiresTwice, Offence::Doubled),
        (Fault::FiresCancelled, Offence::HandledCancelled),
        (Fault::LeavesCancelled, Offence::LeftCancelled),
        (Fault::Alters, Offence::Altered),
    ] {
        let (_, verdict, broken) = job(fault, 4_000, 2);
        assert!(verdict.count(offence) > 0, "{fault:?}: {broken:?}");
        let names = |what: &String| what.contains("\ntimer ") || what.contains("\nrow ");
        assert!(broken.iter().any(names), "{fault:?}: {broken:?}");
    }
}

#[test]
fn what_is_left_and_a_child_that_ends_by_itself_are_seen() {
    let (_, _, broken) = job(Fault::Buries, 1_000, 1);
    assert_eq!(broken, ["0 rows and 1 dead letters are left in the store"]);
    let (_, _, broken) = job(Fault::Fails, 4_000, 0);
    let why = "the process ended by itself";
    let is_told = |what: &String| what.starts_with(why) && what.ends_with("the disk is full");
    assert!(broken.iter().any(is_told), "{broken:?}");
    let is_unarmed = |what: &String| what.ends_with("never armed");
    assert!(broken.iter().any(is_unarmed), "{broken:?}");
}

/// A child that tells nothing.
struct Mute(Option<PipeWriter>);

impl Child for Mute {
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
        let (read, write) = io::pipe().expect("there are pipes");
        self.0 = Some(write);
        (Box::new(io::sink()), Box::new(read))
    }

    fn kill(&mut self) {
        self.0 = None;
    }

    fn wait(&mut self) -> String {
        "it was killed".to_string()
    }
}

#[test]
fn a_child_that_hangs_is_killed() {
    let mut run = Run::new(Plan::new(1_000, 5, 90, 0, 40));
    run.silence_max = Duration::from_millis(300);
    let ended = run.all([].into(), PATIENCE, |_| Ok(Mute(None)), |_| {});
    assert_eq!(ended, Ok(()));
    let (_, broken) = run.verdict();
    let is_told = |what: &String| what.contains("it was silent for 0.3 s");
    assert!(broken.iter().any(is_told), "{broken:?}");
}
