//! Processes that die and begin again, one after the other, on one store and a manual clock.
//!
//! A process dies when its store takes nothing more, and its handlers do nothing more. Then the
//! next one is started.

use crate::durable_model::Folder;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{
    Gate, Lease, Outcome, Position, SliceLimit, Store, StoreSize, Target, Write,
};
use wheelwork_durable::{
    DeadLetter, Delivery, Durable, DurableBuilder, DurableId, HandlerResult, Memory, Partition,
    Redb, RetryPolicy, Row, Rule, StoreError, StoreTime,
};

const SECOND: Duration = Duration::from_secs(1);

/// What happens while the store charges a suspect that goes alone.
pub type AtCharge = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// The store of a process that may die.
pub struct Mortal {
    inner: Box<dyn Store>,
    is_dead: Arc<AtomicBool>,
    at_charge: AtCharge,
}

impl Mortal {
    fn living(&mut self) -> Result<&mut dyn Store, StoreError> {
        match self.is_dead.load(SeqCst) {
            true => Err(StoreError::Io("the process is dead".into())),
            false => Ok(&mut *self.inner),
        }
    }
}

impl Store for Mortal {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.living()?.acquire()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.living()?.release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let is_charge = |write: &Write| matches!(write, Write::Begin { crashes: 2.., .. });
        if writes.iter().any(is_charge)
            && let Some(happens) = self.at_charge.lock().unwrap().take()
        {
            happens();
        }
        self.living()?.commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.living()?.load(partition, after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.living()?.hand_out(upto)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.living()?.get(target)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.living()?.dead(after, limit)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.living()?.size()
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.living()?.rules()
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.inner.has_news_of_rules()
    }
}

/// Where a store lies. It can be opened again and again.
pub type Place = Box<dyn Fn() -> Box<dyn Store>>;

/// Runs a test on each store.
pub fn on_each_store(name: &str, test: impl Fn(&World)) {
    let memory = Memory::new();
    test(&World::new(Box::new(move || Box::new(memory.clone()))));
    let folder = Folder::new(name);
    let file = folder.file();
    test(&World::new(Box::new(move || {
        Box::new(Redb::open(&file).unwrap())
    })));
}

/// What outlives processes: the store, the time, and the notes of a test.
pub struct World {
    place: Place,
    pub now: Mutex<SystemTime>,
    pub lives: AtomicUsize,
    /// Calls by payload, in all lives.
    pub calls: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A process.
pub struct Life {
    pub clock: ManualClock,
    is_dead: Arc<AtomicBool>,
    pub at_charge: AtCharge,
    pub calls: Arc<Mutex<BTreeMap<String, usize>>>,
    builder: Option<DurableBuilder<Mortal>>,
    timers: Option<Durable>,
}

impl World {
    pub fn new(place: Place) -> Self {
        Self {
            place,
            now: Mutex::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            lives: AtomicUsize::new(0),
            calls: Arc::default(),
        }
    }

    /// A process begins.
    pub fn live(&self) -> Life {
        self.lives.fetch_add(1, SeqCst);
        let clock = ManualClock::new();
        clock.set_system_time(*self.now.lock().unwrap());
        let is_dead = Arc::new(AtomicBool::new(false));
        let at_charge = AtCharge::default();
        let store = Mortal {
            inner: (self.place)(),
            is_dead: is_dead.clone(),
            at_charge: at_charge.clone(),
        };
        Life {
            builder: Some(Durable::builder(store).clock(clock.clone())),
            clock,
            is_dead,
            at_charge,
            calls: self.calls.clone(),
            timers: None,
        }
    }

    /// Lives with this handler of the kind "x" until nothing is left to fire. The process dies
    /// where the handler says `true`.
    pub fn live_on(
        &self,
        retry: RetryPolicy,
        dies: impl Fn(&Delivery) -> bool + Send + Sync + 'static,
    ) {
        let dies = Arc::new(dies);
        for _ in 0..100 {
            let dies = dies.clone();
            let life = self
                .live()
                .on("x", retry, move |delivery| dies(delivery))
                .start();
            for _ in 0..200 {
                life.clock.advance(SECOND);
                if life.is_over() {
                    break;
                }
            }
            let is_done = !life.is_over() && life.timers().stats().rows == 0;
            self.end(life);
            if is_done {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    /// The process is no more. Another one begins a second later.
    pub fn end(&self, life: Life) {
        life.is_dead.store(true, SeqCst);
        *self.now.lock().unwrap() = life.clock.system_time() + SECOND;
        drop(life);
    }

    /// The same for one whose handlers never end.
    pub fn forget(&self, life: Life) {
        life.is_dead.store(true, SeqCst);
        *self.now.lock().unwrap() = life.clock.system_time() + SECOND;
        std::mem::forget(life.timers);
    }

    pub fn calls(&self, payload: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .get(payload)
            .copied()
            .unwrap_or(0)
    }

    /// What is among the dead.
    pub fn dead(&self) -> Vec<DeadLetter> {
        (self.place)()
            .dead(None, SliceLimit::rows(usize::MAX))
            .unwrap()
    }

    pub fn row(&self, id: DurableId) -> Option<Row> {
        let mut store = (self.place)();
        store.acquire().unwrap();
        store.get(&Target::Id(id)).unwrap()
    }

    /// Timers that are charged with a crash, so each of them goes alone from now on.
    pub fn arm_charged(&self, count: usize) -> Vec<DurableId> {
        let ids = self.arm(count);
        // Once freely, and once in a group, which is charged.
        for _ in 0..2 {
            let life = self.live().on("x", RetryPolicy::new(), at_call(1)).start();
            life.clock.advance(2 * SECOND);
            assert!(life.is_over());
            self.end(life);
        }
        let crashes = |&id: &DurableId| self.row(id).map(|row| row.crashes);
        assert!(ids.iter().all(|id| crashes(id) == Some(1)));
        ids
    }

    /// Timers that are due now, with their numbers as payloads.
    pub fn arm(&self, count: usize) -> Vec<DurableId> {
        let life = self.live().start();
        let timers = (0..count).map(|number| ("x", SECOND, number.to_string()));
        let ids = life.timers().schedule_many(timers).unwrap();
        life.timers().stop().unwrap();
        *self.now.lock().unwrap() += 2 * SECOND;
        ids
    }
}

impl Life {
    /// A handler that dies where `dies` says `true`.
    pub fn on(
        mut self,
        kind: &str,
        retry: RetryPolicy,
        dies: impl Fn(&Delivery) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (is_dead, calls) = (self.is_dead.clone(), self.calls.clone());
        let handler = move |delivery: &Delivery| -> HandlerResult {
            if is_dead.load(SeqCst) {
                return Ok(());
            }
            note(&calls, delivery);
            is_dead.store(dies(delivery), SeqCst);
            Ok(())
        };
        let builder = self.builder.take().unwrap();
        self.builder = Some(builder.on(kind, handler).retry_policy_for(kind, retry));
        self
    }

    pub fn with(
        mut self,
        set: impl FnOnce(DurableBuilder<Mortal>) -> DurableBuilder<Mortal>,
    ) -> Self {
        self.builder = self.builder.take().map(set);
        self
    }

    pub fn start(mut self) -> Self {
        self.timers = Some(self.builder.take().unwrap().start().unwrap());
        self
    }

    pub fn timers(&self) -> &Durable {
        self.timers.as_ref().unwrap()
    }

    pub fn is_over(&self) -> bool {
        self.is_dead.load(SeqCst)
    }
}

pub fn note(calls: &Mutex<BTreeMap<String, usize>>, delivery: &Delivery) {
    let payload = delivery.payload_text().into_owned();
    *calls.lock().unwrap().entry(payload).or_default() += 1;
}

/// Dies at the call with this number.
pub fn at_call(number: usize) -> impl Fn(&Delivery) -> bool + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move |_| calls.fetch_add(1, SeqCst) + 1 == number
}
