//! Promise: a crash loop buries no timer that no handler was given, and a timer that ends its
//! process each time ends among the dead, alone.
//!
//! On a manual clock. A process dies when its store takes nothing more, and its handlers do nothing
//! more. Then it is started again. Each test runs on the store for tests and on a file.

use crate::durable_model::Folder;
use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{
    Gate, Lease, Outcome, Position, SliceLimit, Store, StoreSize, Target, Write,
};
use wheelwork_durable::{
    Cause, DeadLetter, Delivery, Durable, DurableBuilder, DurableClient, DurableId, HandlerResult,
    Memory, Partition, Redb, RetryPolicy, Row, Rule, SpawnedFuture, StoreError, StoreTime, Ticket,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What happens while the store charges a suspect that goes alone.
type AtCharge = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// The store of a process that may die.
struct Mortal {
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
type Place = Box<dyn Fn() -> Box<dyn Store>>;

/// Runs a test on each store.
fn on_each_store(name: &str, test: impl Fn(&World)) {
    let memory = Memory::new();
    test(&World::new(Box::new(move || Box::new(memory.clone()))));
    let folder = Folder::new(name);
    let file = folder.file();
    test(&World::new(Box::new(move || {
        Box::new(Redb::open(&file).unwrap())
    })));
}

/// What outlives processes: the store, the time, and the notes of a test.
struct World {
    place: Place,
    now: Mutex<SystemTime>,
    lives: AtomicUsize,
    /// Calls by payload, in all lives.
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A process.
struct Life {
    clock: ManualClock,
    is_dead: Arc<AtomicBool>,
    at_charge: AtCharge,
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
    builder: Option<DurableBuilder<Mortal>>,
    timers: Option<Durable>,
}

impl World {
    fn new(place: Place) -> Self {
        Self {
            place,
            now: Mutex::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            lives: AtomicUsize::new(0),
            calls: Arc::default(),
        }
    }

    /// A process begins.
    fn live(&self) -> Life {
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
    fn live_on(
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
    fn end(&self, life: Life) {
        life.is_dead.store(true, SeqCst);
        *self.now.lock().unwrap() = life.clock.system_time() + SECOND;
        drop(life);
    }

    /// The same for one whose handlers never end.
    fn forget(&self, life: Life) {
        life.is_dead.store(true, SeqCst);
        *self.now.lock().unwrap() = life.clock.system_time() + SECOND;
        std::mem::forget(life.timers);
    }

    fn calls(&self, payload: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .get(payload)
            .copied()
            .unwrap_or(0)
    }

    /// What is among the dead.
    fn dead(&self) -> Vec<DeadLetter> {
        (self.place)()
            .dead(None, SliceLimit::rows(usize::MAX))
            .unwrap()
    }

    fn row(&self, id: DurableId) -> Option<Row> {
        let mut store = (self.place)();
        store.acquire().unwrap();
        store.get(&Target::Id(id)).unwrap()
    }

    /// Timers that are due now, with their numbers as payloads.
    fn arm(&self, count: usize) -> Vec<DurableId> {
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
    fn on(
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

    fn with(mut self, set: impl FnOnce(DurableBuilder<Mortal>) -> DurableBuilder<Mortal>) -> Self {
        self.builder = self.builder.take().map(set);
        self
    }

    fn start(mut self) -> Self {
        self.timers = Some(self.builder.take().unwrap().start().unwrap());
        self
    }

    fn timers(&self) -> &Durable {
        self.timers.as_ref().unwrap()
    }

    fn is_over(&self) -> bool {
        self.is_dead.load(SeqCst)
    }
}

fn note(calls: &Mutex<BTreeMap<String, usize>>, delivery: &Delivery) {
    let payload = delivery.payload_text().into_owned();
    *calls.lock().unwrap().entry(payload).or_default() += 1;
}

/// Dies at the call with this number.
fn at_call(number: usize) -> impl Fn(&Delivery) -> bool + Send + Sync + 'static {
    let calls = AtomicUsize::new(0);
    move |_| calls.fetch_add(1, SeqCst) + 1 == number
}

#[test]
fn a_crash_loop_buries_nothing() {
    on_each_store("crash-loop", |world| {
        world.arm(5_000);
        for _ in 0..25 {
            let life = world.live().on("x", RetryPolicy::new(), at_call(2));
            let life = life.start();
            life.clock.advance(SECOND * 3);
            assert!(
                life.is_over(),
                "a handler is called, however often it has died"
            );
            world.end(life);
            assert_eq!(world.dead(), []);
        }
        world.live_on(RetryPolicy::new(), |_| false);
        assert_eq!(world.dead(), []);
        let calls = world.calls.lock().unwrap();
        assert_eq!(calls.len(), 5_000, "all are handled");
        assert!(calls.values().all(|&calls| calls <= 3));
    });
}

#[test]
fn so_it_is_with_one_attempt() {
    on_each_store("crash-loop-never", |world| {
        world.arm(100);
        for _ in 0..5 {
            let life = world.live().on("x", RetryPolicy::never(), at_call(2));
            let life = life.start();
            life.clock.advance(SECOND * 3);
            world.end(life);
        }
        world.live_on(RetryPolicy::never(), |_| false);
        assert_eq!(world.dead(), []);
    });
}

#[test]
fn a_timer_that_ends_its_process_is_the_only_one_among_the_dead() {
    on_each_store("poison", |world| {
        world.arm(64);
        let retry = RetryPolicy::never().crash_attempts(3);
        world.live_on(retry, |delivery| delivery.payload() == b"33");
        let dead = world.dead();
        assert_eq!(dead.len(), 1, "{dead:?}");
        assert_eq!(&*dead[0].row.payload, b"33");
        assert_eq!(dead[0].cause, Cause::Crashed);
        assert_eq!((dead[0].row.attempts, dead[0].row.crashes), (0, 4));
        // Freely, in a group, and alone as often as it may be.
        assert_eq!(world.calls("33"), 5);
        for number in 0..64 {
            assert!(world.calls(&number.to_string()) > 0, "{number} was handled");
        }
        // One to arm them, those that it has ended, and the last one.
        assert_eq!(world.lives.load(SeqCst), 1 + 5 + 1);
    });
}

#[test]
fn two_of_them_are_told_apart() {
    on_each_store("poisons", |world| {
        world.arm(40);
        let retry = RetryPolicy::new().crash_attempts(2);
        world.live_on(retry, |delivery| {
            delivery.payload() == b"7" || delivery.payload() == b"8"
        });
        let dead = world.dead();
        let mut payloads: Vec<_> = dead.iter().map(|letter| &*letter.row.payload).collect();
        payloads.sort_unstable();
        assert_eq!(payloads, [b"7", b"8"]);
    });
}

#[test]
fn suspects_come_after_the_others() {
    on_each_store("suspects-last", |world| {
        world.arm(20);
        let life = world.live().on("x", RetryPolicy::new(), at_call(5));
        let life = life.start();
        let late = life.timers().schedule("x", MINUTE, "late").unwrap();
        life.clock.advance(SECOND);
        world.end(life);
        *world.now.lock().unwrap() += 2 * MINUTE;
        world.calls.lock().unwrap().clear();
        assert!(!world.row(late).unwrap().suspect, "it was not due");
        // It is due later than the suspects, and is called before them.
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(SECOND);
        assert_eq!(world.calls("late"), 1);
        assert_eq!(world.calls.lock().unwrap().len(), 1);
        world.end(life);
        // What was not called then is still suspect, and not charged with that.
        world.live_on(RetryPolicy::new(), |delivery| {
            assert!(delivery.crashes() <= 1);
            false
        });
        assert_eq!(world.dead(), []);
    });
}

#[test]
fn a_second_crash_leaves_suspects_what_they_are() {
    on_each_store("second-crash", |world| {
        let ids = world.arm(3);
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(SECOND);
        world.end(life);
        // A life without time for any timer, and one that ends well.
        world.end(world.live().start());
        let life = world.live().start();
        life.timers().stop().unwrap();
        world.end(life);
        for &id in &ids {
            let row = world.row(id).unwrap();
            assert_eq!((row.suspect, row.crashes, row.attempts), (true, 0, 0));
        }
        // One that is moved stays one.
        let life = world.live().start();
        assert!(life.timers().reschedule(ids[0], MINUTE).unwrap());
        assert!(life.timers().cancel(ids[1]).unwrap(), "nobody has it");
        world.end(life);
        let row = world.row(ids[0]).unwrap();
        assert_eq!((row.suspect, row.crashes), (true, 0));
        assert_eq!(world.row(ids[1]), None);
        // A failure says that it has not ended the process.
        let life = world.live().with(|builder| {
            builder
                .on("x", |_| Err("no".into()))
                .retry_policy(RetryPolicy::new().first(MINUTE * 10).cap(MINUTE * 10))
        });
        let life = life.start();
        life.clock.advance(2 * MINUTE);
        world.end(life);
        let row = world.row(ids[0]).unwrap();
        assert_eq!((row.suspect, row.crashes, row.attempts), (false, 0, 1));
    });
}

#[test]
fn a_stop_takes_back_what_was_not_called() {
    on_each_store("taken-back", |world| {
        let ids = world.arm(10);
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(SECOND);
        world.end(life);
        // They are noted together; one has the only place, and fails when all stops.
        let futures: Arc<Mutex<Vec<SpawnedFuture>>> = Arc::default();
        let spawned = futures.clone();
        let life = world.live().with(move |builder| {
            builder
                .on_async("x", |_| Late(false))
                .retry_policy(RetryPolicy::new().first(MINUTE))
                .max_calls("x", NonZeroUsize::MIN)
                .spawner(move |mut future| {
                    // (On a thread of its own: one that polls futures may not stop.)
                    let poll = std::thread::spawn(move || {
                        let mut context = Context::from_waker(Waker::noop());
                        assert!(future.as_mut().poll(&mut context).is_pending());
                        future
                    });
                    spawned.lock().unwrap().push(poll.join().unwrap());
                })
        });
        let life = life.start();
        let handle = life.timers().client();
        handle.schedule("x", 3 * MINUTE, "later").unwrap();
        life.clock.advance(SECOND);
        let future = futures.lock().unwrap().pop().unwrap();
        assert!(futures.lock().unwrap().is_empty());
        let noted = |id| handle.get(id).unwrap().unwrap().crashes;
        assert!(ids.iter().all(|&id| noted(id) == 1));
        assert_eq!(handle.stats().window_rows, 11);
        std::thread::scope(|scope| {
            let handle = handle.clone();
            let id = ids[0];
            scope.spawn(move || {
                // The stop has begun when the window has let go of the other one.
                while handle.stats().window_rows == 11 && handle.get(id).is_ok() {}
                end(future);
            });
            life.timers().stop().unwrap();
        });
        world.end(life);
        let rows = ids.iter().map(|&id| world.row(id).unwrap());
        let mut rows: Vec<_> = rows
            .map(|row| (row.suspect, row.crashes, row.attempts))
            .collect();
        rows.sort_unstable();
        assert_eq!(rows[0], (false, 0, 1));
        assert!(rows[1..].iter().all(|&row| row == (true, 0, 0)), "{rows:?}");
    });
}

/// A future that fails when it is polled again.
struct Late(bool);

impl Future for Late {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(Err("late".into())),
            false => Poll::Pending,
        }
    }
}

/// Polls a future that is ready then.
fn end(mut future: SpawnedFuture) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_crash_while_one_waits_for_its_kinds_limit_is_not_its_own() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    let ids = world.arm(1);
    // Once freely, and once in a group.
    for _ in 0..2 {
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(2 * SECOND);
        world.end(life);
    }
    assert_eq!(world.row(ids[0]).unwrap().crashes, 1);
    for _ in 0..10 {
        let calls = world.calls.clone();
        let life = world.live().with(move |builder| {
            builder
                .on_async("x", move |delivery| {
                    note(&calls, &delivery);
                    Endless
                })
                .max_calls("x", NonZeroUsize::MIN)
                .spawner(|mut future| {
                    let mut context = Context::from_waker(Waker::noop());
                    assert!(future.as_mut().poll(&mut context).is_pending());
                    std::mem::forget(future);
                })
        });
        let life = life.start();
        life.timers()
            .schedule("x", Duration::ZERO, "other")
            .unwrap();
        for _ in 0..30 {
            life.clock.advance(SECOND);
        }
        assert_eq!(world.calls("0"), 2);
        world.forget(life);
    }
    assert_eq!(world.row(ids[0]).unwrap().crashes, 1);
}

/// A future that never ends, and that is counted.
struct Endless;

impl Future for Endless {
    type Output = HandlerResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        Poll::Pending
    }
}

#[test]
fn handlers_that_last_do_not_keep_suspects_waiting() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    world.arm(5_000);
    let life = world.live().on("x", RetryPolicy::new(), at_call(1));
    let life = life.start();
    life.clock.advance(SECOND);
    world.end(life);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let life = world.live().with(move |builder| {
        builder
            .on_async("x", move |_| {
                count.fetch_add(1, SeqCst);
                Endless
            })
            .spawner(|mut future| {
                let mut context = Context::from_waker(Waker::noop());
                assert!(future.as_mut().poll(&mut context).is_pending());
                std::mem::forget(future);
            })
    });
    let life = life.start();
    for _ in 0..40 {
        life.clock.advance(SECOND);
    }
    world.forget(life);
    assert_eq!(begun.load(SeqCst), 5_000, "and none has ended");
}

/// What `docs/limits.md` says of a trial: 1 s, doubled with each crash.
#[test]
fn a_trial_with_a_crash_lasts_for_two_seconds() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    let ids = world.arm(2);
    // Once freely, and once in a group, which is charged.
    for _ in 0..2 {
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(2 * SECOND);
        world.end(life);
    }
    assert_eq!([0, 1].map(|at| world.row(ids[at]).unwrap().crashes), [1, 1]);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let begins = begun.clone();
    let life = world.live();
    let clock = life.clock.clone();
    let life = life.with(move |builder| {
        builder
            .on_async("x", move |_| {
                begins.lock().unwrap().push(clock.elapsed());
                Endless
            })
            .spawner(|future| std::mem::forget(poll(future)))
    });
    let life = life.start();
    let step = SECOND / 20;
    for _ in 0..200 {
        life.clock.advance(step);
    }
    let begun = begun.lock().unwrap().clone();
    // (The other one may not begin at the first call: TrialBegin has an answer a poll later.)
    world.forget(life);
    assert_eq!(begun.len(), 2, "{begun:?}");
    let lasted = begun[1] - begun[0];
    assert!(lasted >= 2 * SECOND && lasted < 3 * SECOND, "{begun:?}");
}

/// Each waits for its executor for longer than its trial lasts. Meanwhile another one is handed
/// out, and waits as long.
#[test]
fn suspects_that_wait_for_longer_than_their_trials_begin() {
    let memory = Memory::new();
    let world = World::new(Box::new(move || Box::new(memory.clone())));
    let ids = world.arm(2);
    // Once freely, and once in a group, which is charged.
    for _ in 0..2 {
        let life = world.live().on("x", RetryPolicy::new(), at_call(1));
        let life = life.start();
        life.clock.advance(2 * SECOND);
        world.end(life);
    }
    assert_eq!([0, 1].map(|at| world.row(ids[at]).unwrap().crashes), [1, 1]);
    world.calls.lock().unwrap().clear();
    let futures = Arc::<Mutex<Vec<(Duration, SpawnedFuture)>>>::default();
    let (spawned, calls) = (futures.clone(), world.calls.clone());
    let life = world.live();
    let clock = life.clock.clone();
    let life = life.with(move |builder| {
        builder
            .on_async("x", move |delivery| {
                note(&calls, &delivery);
                async { Ok(()) }
            })
            .spawner(move |future| {
                let polled_from = clock.elapsed() + 5 * SECOND / 2;
                spawned.lock().unwrap().push((polled_from, future));
            })
    });
    let life = life.start();
    for _ in 0..400 {
        life.clock.advance(SECOND / 20);
        let now = life.clock.elapsed();
        let is_polled = |(from, _): &mut (Duration, SpawnedFuture)| *from <= now;
        let polled: Vec<_> = futures.lock().unwrap().extract_if(.., is_polled).collect();
        for (from, mut future) in polled {
            let mut context = Context::from_waker(Waker::noop());
            // (If it goes on, it waits for TrialBegin.)
            if future.as_mut().poll(&mut context).is_pending() {
                futures.lock().unwrap().push((from, future));
            }
        }
    }
    // (One that waits would keep the service from stopping.)
    let rest = std::mem::take(&mut *futures.lock().unwrap());
    drop(rest);
    assert_eq!((world.calls("0"), world.calls("1")), (1, 1));
    world.end(life);
}

/// Polls a future until it waits for something that does not come.
fn poll(mut future: SpawnedFuture) -> SpawnedFuture {
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    future
}

#[test]
fn fewer_attempts_after_a_restart_bury_nothing_without_a_call() {
    on_each_store("fewer-attempts", |world| {
        let ids = world.arm(2);
        let first = world.live().with(|builder| {
            builder
                .on("x", |_| Err("no".into()))
                .retry_policy(RetryPolicy::new().first(SECOND).cap(SECOND))
        });
        let first = first.start();
        first.clock.advance(SECOND * 4);
        first.timers().stop().unwrap();
        world.end(first);
        assert!(world.row(ids[0]).unwrap().attempts >= 3);
        // One of them does its work now.
        let life = world.live();
        let calls = life.calls.clone();
        let life = life.with(move |builder| {
            builder
                .on("x", move |delivery| {
                    note(&calls, delivery);
                    match delivery.payload() {
                        b"0" => Ok(()),
                        _ => Err("never".into()),
                    }
                })
                .retry_policy(RetryPolicy::never())
        });
        let life = life.start();
        life.clock.advance(SECOND * 4);
        world.end(life);
        assert_eq!((world.calls("0"), world.calls("1")), (1, 1));
        let dead = world.dead();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].cause, Cause::Failed("never".into()));
    });
}

#[test]
fn one_that_is_moved_at_each_start_ends_among_the_dead_too() {
    on_each_store("moved-poison", |world| {
        let ids = world.arm(1);
        let mut lives = 0;
        while world.dead().is_empty() {
            let retry = RetryPolicy::new().crash_attempts(2);
            let life = world.live().on("x", retry, |_| true).start();
            // (As a program does that arms what it needs when it starts.)
            life.timers().reschedule(ids[0], SECOND).unwrap();
            for _ in 0..10 {
                life.clock.advance(SECOND);
            }
            world.end(life);
            lives += 1;
            assert!(lives < 20);
        }
        assert_eq!(world.calls("0"), 4);
    });
}

#[test]
fn a_suspect_that_is_moved_before_its_call_is_not_charged() {
    for wait in [Duration::ZERO, SECOND, 10 * MINUTE] {
        on_each_store("moved-noted", |world| {
            let ids = world.arm(2);
            let life = world.live().on("x", RetryPolicy::new(), at_call(1));
            let life = life.start();
            life.clock.advance(SECOND);
            world.end(life);
            // The suspects are noted in a turn that another timer's handler takes. Before they are
            // called it moves them.
            let handle: Arc<Mutex<Option<DurableClient>>> = Arc::default();
            let moved: Arc<Mutex<Vec<(u32, bool)>>> = Arc::default();
            let (mover, noted, suspects) = (handle.clone(), moved.clone(), ids.clone());
            let life = world.live().on("x", RetryPolicy::new(), |_| false);
            let life = life.with(|builder| {
                builder.on("mover", move |_| {
                    let handle = mover.lock().unwrap().take().unwrap();
                    handle.list(.., 1)?;
                    for &id in &suspects {
                        let crashes = handle.get(id)?.map_or(0, |row| row.crashes);
                        let is_moved = handle.reschedule(id, wait)?;
                        noted.lock().unwrap().push((crashes, is_moved));
                    }
                    Ok(())
                })
            });
            let life = life.start();
            *handle.lock().unwrap() = Some(life.timers().client());
            // (Suspects are handed out 100 ms after they were loaded.)
            life.timers().schedule("mover", SECOND / 10, "").unwrap();
            life.clock.advance(SECOND / 10);
            assert_eq!(*moved.lock().unwrap(), [(1, true); 2]);
            let rows = ids.iter().filter_map(|&id| life.timers().get(id).unwrap());
            let crashes: Vec<_> = rows.map(|row| (row.suspect, row.crashes)).collect();
            assert_eq!(crashes, [(true, 0); 2], "{wait:?}");
            // A crash is charged to none but those that were called.
            let calls = world.calls.lock().unwrap().len();
            world.end(life);
            world.live_on(RetryPolicy::never().crash_attempts(1), |delivery| {
                assert_eq!(delivery.crashes(), 0);
                false
            });
            assert_eq!((calls, world.dead().len()), (1, 0));
        });
    }
}

/// The other timers of a batch do not wait for the commit that charges a suspect: a pause may
/// return meanwhile.
#[test]
fn a_suspect_that_goes_alone_is_no_part_of_a_batch() {
    on_each_store("alone-of-batch", |world| {
        let id = world.arm(1)[0];
        for _ in 0..2 {
            let life = world.live().on("x", RetryPolicy::new(), at_call(1)).start();
            life.clock.advance(3 * SECOND);
            assert!(life.is_over());
            world.end(life);
        }
        assert_eq!(world.row(id).unwrap().crashes, 1, "it goes alone");
        let pause = Arc::<Mutex<Option<Ticket<bool>>>>::default();
        let batches = Arc::<Mutex<Vec<(Vec<String>, bool)>>>::default();
        let (paused, called) = (pause.clone(), batches.clone());
        let handler = move |timers: &[Delivery]| {
            let is_paused = paused.lock().unwrap().as_mut().is_some_and(|pause| {
                let context = &mut Context::from_waker(Waker::noop());
                Pin::new(pause).poll(context).is_ready()
            });
            let payloads = timers.iter().map(|timer| timer.payload_text().into_owned());
            called.lock().unwrap().push((payloads.collect(), is_paused));
            timers.iter().map(|_| Ok(())).collect()
        };
        let life = world.live().with(|builder| builder.on_batch("x", handler));
        let life = life.start();
        let timers = life.timers();
        // The turn that arms the others finds that the suspect has waited for long enough.
        life.clock.jump(2 * SECOND);
        let others = [("x", Duration::ZERO, "other"); 2];
        timers.schedule_many(others).unwrap();
        let (asks, client) = (pause.clone(), timers.client());
        *life.at_charge.lock().unwrap() = Some(Box::new(move || {
            *asks.lock().unwrap() = Some(client.kind("x").pause_ticket().unwrap());
        }));
        life.clock.advance(SECOND / 10);
        assert!(
            life.at_charge.lock().unwrap().is_none(),
            "it was to go alone"
        );
        let batch = |payloads: &[&str]| (payloads.iter().map(|&of| of.to_owned()).collect(), false);
        assert_eq!(*batches.lock().unwrap(), [batch(&["other", "other"])]);
        assert_eq!(timers.get(id).unwrap().unwrap().crashes, 1);
        *pause.lock().unwrap() = None;
        timers.kind("x").resume().unwrap();
        life.clock.advance(3 * SECOND);
        assert_eq!(*batches.lock().unwrap().last().unwrap(), batch(&["0"]));
        world.end(life);
    });
}
