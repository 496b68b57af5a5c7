//! Promise: a store that fails comes back by itself, and keeps all promises.
//!
//! - Callers are told at once, or when they have waited as long as they want.
//! - What handlers say while the store is away is stored when it is back, and their timers are not
//!   handed out twice.
//! - Nothing fires meanwhile. What came due fires afterwards.
//! - A stop does not wait for a store that stays away.
//!
//! The simulation has all this by chance (`../durable_simulation.rs`); here are the single steps.

use crate::over_memory::{Over, OverMemory};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Lease, Outcome, Store, Write};
use wheelwork_durable::{
    Durable, DurableBuilder, DurableClient, DurableError, Memory, RetryPolicy, StoreError,
    StoreTime, Ticket,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

type Act = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// What a store does next.
#[derive(Clone, Default)]
struct Trouble {
    /// Commits that fail, from the next one on, and whether these are made.
    commits: Arc<AtomicU32>,
    are_made: Arc<AtomicU32>,
    /// How often it cannot be opened again.
    opens: Arc<AtomicU32>,
    /// Whether another process has had it when it can be.
    new_lives: Arc<AtomicU32>,
    /// What is done in the first turn after it was opened again, before calls are taken.
    when_back: Act,
    was_opened: Arc<AtomicBool>,
}

impl Trouble {
    fn is_next(left: &AtomicU32) -> bool {
        left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .is_ok()
    }
}

/// A store in memory that fails, and can be opened again.
#[derive(Clone, Default)]
struct Failing {
    memory: Memory,
    trouble: Trouble,
}

fn error() -> StoreError {
    StoreError::Io("the test's".into())
}

impl OverMemory for Failing {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        if !Trouble::is_next(&self.trouble.commits) {
            return self.memory.commit(writes, gate);
        }
        if self.trouble.are_made.load(SeqCst) > 0 {
            self.memory.commit(writes, gate)?;
        }
        Err(error())
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        if self.trouble.was_opened.swap(false, SeqCst) {
            let act = self.trouble.when_back.lock().unwrap().take();
            if let Some(act) = act {
                act();
            }
        }
        self.memory.clock(node)
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.trouble.was_opened.store(true, SeqCst);
        match Trouble::is_next(&self.trouble.opens) {
            true => Err(error()),
            false if Trouble::is_next(&self.trouble.new_lives) => self.memory.acquire(),
            false => self.memory.reopen(),
        }
    }
}

fn failing() -> (Over<Failing>, Trouble, Memory) {
    let (memory, trouble) = (Memory::new(), Trouble::default());
    let store = Failing {
        memory: memory.clone(),
        trouble: trouble.clone(),
    };
    (Over(store), trouble, memory)
}

fn manual(store: Over<Failing>, clock: &ManualClock) -> DurableBuilder<Over<Failing>> {
    Durable::builder(store).clock(clock.clone())
}

/// What a store in memory has, when nobody else has it.
fn rows(memory: &Memory) -> u64 {
    memory.clone().size().unwrap().rows
}

#[test]
fn callers_are_told_and_timers_fire_when_the_store_is_back() {
    let (store, trouble, _) = failing();
    let clock = ManualClock::new();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (failed, back) = (told.clone(), told.clone());
    let timers = manual(store, &clock)
        .on("mail", |_| Ok(()))
        .on_store_failed(move |error| failed.lock().unwrap().push(error.to_string()))
        .on_store_back(move |lasted| back.lock().unwrap().push(format!("{lasted:?}")))
        .start()
        .unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    assert!(timers.health().is_ready() && timers.health().last_outage.is_none());

    trouble.commits.store(1, SeqCst);
    trouble.opens.store(3, SeqCst);
    let in_commit = timers.schedule("mail", HOUR, "");
    assert!(
        matches!(in_commit, Err(DurableError::Store(_))),
        "{in_commit:?}"
    );
    let refused = timers.schedule("mail", HOUR, "");
    assert!(
        matches!(refused, Err(DurableError::Unavailable { .. })),
        "{refused:?}"
    );
    assert!(timers.schedule_ticket("mail", HOUR, "").is_err());
    assert!(timers.list(.., 10).is_err());
    let outage = timers.health().outage.unwrap();
    assert_eq!(
        (outage.tries, outage.why.to_string().as_str()),
        (0, "the test's")
    );
    assert!(outage.next_try.unwrap() > outage.since);
    assert_eq!(timers.failure().unwrap().to_string(), "the test's");
    let stats = timers.stats();
    assert_eq!((stats.outages, stats.down), (1, true));

    // It is opened after 0.1, 0.2, 0.4 and 0.8 s. What came due meanwhile fires then.
    clock.advance(Duration::from_millis(1_400));
    assert_eq!(timers.health().outage.unwrap().tries, 3);
    assert_eq!((timers.stats().done, timers.stats().down), (0, true));
    clock.advance(Duration::from_millis(200));
    assert!(timers.health().is_ready());
    let (_, lasted) = timers.health().last_outage.unwrap();
    assert_eq!(lasted, Duration::from_millis(1_500));
    let stats = timers.stats();
    assert_eq!((stats.done, stats.outages, stats.down), (1, 1, false));
    assert_eq!(*told.lock().unwrap(), ["the test's", "1.5s"]);
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(timers.stats().done, 2);
    timers.stop().unwrap();
}

/// A handler has its store fail, and says something then.
fn a_handler_answers_while_it_is_away(says: Result<(), &'static str>, is_made: bool) {
    let (store, trouble, memory) = failing();
    let clock = ManualClock::new();
    let own: Arc<OnceLock<DurableClient>> = Arc::default();
    let (handle, troubles, calls) = (own.clone(), trouble.clone(), Arc::new(AtomicU32::new(0)));
    let called = calls.clone();
    let timers = manual(store, &clock)
        .retry_policy(RetryPolicy::new().attempts(2).first(HOUR))
        .on("mail", move |_| {
            if called.fetch_add(1, SeqCst) == 0 {
                troubles.are_made.store(u32::from(is_made), SeqCst);
                troubles.commits.store(1, SeqCst);
                let handle = handle.get().unwrap();
                assert!(matches!(
                    handle.cancel_kind("none"),
                    Err(DurableError::Store(_))
                ));
                let refused = handle.schedule("mail", HOUR, "");
                assert!(matches!(refused, Err(DurableError::Unavailable { .. })));
            }
            says.map_err(Into::into)
        })
        .start()
        .unwrap();
    own.set(timers.client()).unwrap_or_else(|_| panic!("once"));
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(
        (calls.load(SeqCst), timers.stats().done, timers.stats().down),
        (1, 0, true)
    );
    clock.advance(SECOND);
    let stats = timers.stats();
    assert_eq!((stats.down, stats.stale), (false, 0));
    match says {
        Ok(()) => assert_eq!((stats.done, rows(&memory)), (1, 0)),
        Err(_) => {
            assert_eq!((stats.failed, rows(&memory)), (1, 1));
            let row = &timers.list(.., 10).unwrap()[0];
            assert_eq!((row.attempts, row.crashes, row.suspect), (1, 0, false));
        }
    }
    assert_eq!(calls.load(SeqCst), 1, "it is not called again");
}

#[test]
fn what_a_handler_says_while_the_store_is_away_is_stored() {
    a_handler_answers_while_it_is_away(Ok(()), false);
    a_handler_answers_while_it_is_away(Err("no server"), false);
}

/// The answer of a handler is in the commit that fails.
fn an_answer_is_in_the_commit_that_fails(says: Result<(), &'static str>, is_made: bool) {
    let (store, trouble, memory) = failing();
    let clock = ManualClock::new();
    let calls = Arc::new(AtomicU32::new(0));
    let (called, troubles) = (calls.clone(), trouble);
    let timers = manual(store, &clock)
        .retry_policy(RetryPolicy::new().attempts(2).first(HOUR))
        .on("mail", move |_| {
            called.fetch_add(1, SeqCst);
            troubles.are_made.store(u32::from(is_made), SeqCst);
            troubles.commits.store(1, SeqCst);
            says.map_err(Into::into)
        })
        .start()
        .unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert!(timers.stats().down);
    clock.advance(10 * SECOND);
    let stats = timers.stats();
    let place = format!("{says:?}, made: {is_made}: {stats:?}");
    assert_eq!(
        (stats.down, stats.stale, calls.load(SeqCst)),
        (false, 0, 1),
        "{place}"
    );
    match says {
        Ok(()) => assert_eq!((stats.done, rows(&memory)), (1, 0), "{place}"),
        Err(_) => {
            assert_eq!(
                (stats.failed, stats.superseded, rows(&memory)),
                (1, 0, 1),
                "{place}"
            );
            clock.advance(2 * HOUR);
            assert_eq!(calls.load(SeqCst), 2, "the second attempt: {place}");
        }
    }
}

#[test]
fn an_answer_of_a_commit_that_fails_is_stored_once() {
    for is_made in [false, true] {
        an_answer_is_in_the_commit_that_fails(Ok(()), is_made);
        an_answer_is_in_the_commit_that_fails(Err("no server"), is_made);
    }
}

/// The answer of a handler is in the commit that fails. In the first turn after the outage a caller
/// has asked for something already, which `asks` says. Returns what it is told.
fn told_after_an_outage(
    asks: impl FnOnce(&DurableClient) -> Ticket<bool> + Send + 'static,
) -> bool {
    let (store, trouble, memory) = failing();
    let clock = ManualClock::new();
    let (calls, troubles) = (Arc::new(AtomicU32::new(0)), trouble.clone());
    let called = calls.clone();
    let timers = manual(store, &clock)
        .on("mail", move |_| {
            called.fetch_add(1, SeqCst);
            troubles.commits.store(1, SeqCst);
            Ok(())
        })
        .start()
        .unwrap();
    timers.key("K").schedule("mail", SECOND, "").unwrap();
    let asked = Arc::new(Mutex::new(None));
    let (client, left) = (timers.client(), asked.clone());
    *trouble.when_back.lock().unwrap() = Some(Box::new(move || {
        *left.lock().unwrap() = Some(asks(&client));
    }));
    clock.advance(SECOND);
    assert!(timers.stats().down);
    clock.advance(SECOND);
    let asked = asked.lock().unwrap().take().unwrap();
    let told = asked.wait().unwrap();
    clock.advance(2 * HOUR);
    let stats = timers.stats();
    assert_eq!((stats.down, stats.stale, stats.done), (false, 0, 1));
    assert_eq!((stats.cancelled, stats.moved), (0, 0));
    assert_eq!((calls.load(SeqCst), rows(&memory)), (1, 0));
    timers.stop().unwrap();
    told
}

#[test]
fn a_call_after_an_outage_comes_behind_what_a_handler_has_said() {
    let cancel = |client: &DurableClient| client.key("K").cancel_ticket().unwrap();
    assert!(!told_after_an_outage(cancel));
    let reschedule = |client: &DurableClient| client.key("K").reschedule_ticket(HOUR).unwrap();
    assert!(!told_after_an_outage(reschedule));
}

/// A timer's future waits for its executor while the store is away, and another process has the
/// store meanwhile. Returns the fences of the calls of its handler, and the last epoch.
fn a_future_waits_through_a_new_life() -> (Vec<u64>, u64) {
    let (store, trouble, memory) = failing();
    let clock = ManualClock::new();
    let (waiting, fences) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (spawned, called) = (waiting.clone(), fences.clone());
    let timers = manual(store, &clock)
        .spawner(move |future| spawned.lock().unwrap().push(future))
        .on_async("mail", move |mail| {
            called.lock().unwrap().push(mail.fence());
            async { Ok(()) }
        })
        .start()
        .unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(SECOND);
    trouble.new_lives.store(1, SeqCst);
    trouble.commits.store(1, SeqCst);
    timers.schedule("mail", HOUR, "").unwrap_err();
    clock.advance(SECOND);
    assert!(timers.health().is_ready());
    for _ in 0..10 {
        let futures = std::mem::take(&mut *waiting.lock().unwrap());
        for mut future in futures {
            let mut context = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_ready());
        }
        clock.advance(SECOND);
    }
    assert_eq!(rows(&memory), 0, "it is handled, and that is stored");
    timers.stop().unwrap();
    let epoch = memory.clone().acquire().unwrap()[0].epoch - 1;
    let fences = fences.lock().unwrap().clone();
    (fences, epoch)
}

#[test]
fn a_delivery_of_an_epoch_that_is_over_is_not_handed_out() {
    let (fences, epoch) = a_future_waits_through_a_new_life();
    assert_eq!(fences, [epoch]);
}

/// If the fence is not raised, the handler is called for a timer that is another process's by then.
#[cfg(feature = "__faults")]
#[test]
fn it_is_if_the_fence_is_not_raised() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::HealKeepsFence));
    let (fences, epoch) = a_future_waits_through_a_new_life();
    set_durable_fault(None);
    assert_eq!(fences, [epoch - 1, epoch]);
}

/// Another process has the store while a handler runs: what the handler says is refused, and the
/// timer fires again.
#[test]
fn an_answer_of_an_epoch_that_is_over_is_refused() {
    let (store, trouble, memory) = failing();
    let clock = ManualClock::new();
    let fences: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (called, troubles) = (fences.clone(), trouble.clone());
    let timers = manual(store, &clock)
        .on("mail", move |mail| {
            let mut fences = called.lock().unwrap();
            if fences.is_empty() {
                troubles.new_lives.store(1, SeqCst);
                troubles.commits.store(1, SeqCst);
            }
            fences.push(mail.fence());
            Ok(())
        })
        .start()
        .unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(10 * SECOND);
    let stats = timers.stats();
    assert_eq!((stats.outages, stats.stale, stats.done), (1, 1, 1));
    assert_eq!(rows(&memory), 0);
    let fences = fences.lock().unwrap();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{fences:?}");
    timers.stop().unwrap();
}

#[test]
fn a_store_that_is_not_to_heal_stays_away() {
    let (store, trouble, _) = failing();
    let clock = ManualClock::new();
    let timers = manual(store, &clock).heals(false).start().unwrap();
    trouble.commits.store(1, SeqCst);
    for _ in 0..2 {
        let refused = timers.schedule("mail", SECOND, "");
        assert!(
            matches!(refused, Err(DurableError::Store(_))),
            "{refused:?}"
        );
        clock.advance(HOUR);
    }
    assert!(timers.health().outage.unwrap().next_try.is_none());
    assert!(timers.stats().down);
    assert!(matches!(timers.stop(), Err(DurableError::Store(_))));
}

#[test]
fn a_stop_opens_the_store_once_more() {
    for opens in [0, 1] {
        let (store, trouble, memory) = failing();
        let clock = ManualClock::new();
        let troubles = trouble.clone();
        let timers = manual(store, &clock)
            .on("mail", move |_| {
                troubles.commits.store(1, SeqCst);
                Ok(())
            })
            .start()
            .unwrap();
        timers.schedule("mail", SECOND, "").unwrap();
        trouble.opens.store(opens, SeqCst);
        clock.advance(SECOND);
        assert!(timers.stats().down);
        let stopped = timers.stop();
        match opens {
            0 => assert_eq!((stopped.is_ok(), rows(&memory)), (true, 0)),
            _ => {
                assert!(
                    matches!(stopped, Err(DurableError::Store(_))),
                    "{stopped:?}"
                );
                assert_eq!(rows(&memory), 1, "it fires again at the next start");
            }
        }
    }
}

#[test]
fn calls_wait_as_long_as_they_are_to() {
    let (store, trouble, _) = failing();
    let timers = Durable::builder(store)
        .wait_while_unavailable(60 * SECOND)
        .on("mail", |_| Ok(()))
        .start()
        .unwrap();
    trouble.opens.store(2, SeqCst);
    trouble.commits.store(1, SeqCst);
    timers.schedule("mail", HOUR, "").unwrap_err();
    // (After 0.7 s it is back.)
    timers.schedule("mail", HOUR, "").unwrap();
    assert!(timers.health().is_ready());
    timers.stop().unwrap();

    let (store, trouble, _) = failing();
    let builder = Durable::builder(store).wait_while_unavailable(SECOND / 10);
    let timers = builder.start().unwrap();
    trouble.opens.store(u32::MAX, SeqCst);
    trouble.commits.store(1, SeqCst);
    timers.schedule("mail", HOUR, "").unwrap_err();
    let begun = Instant::now();
    let refused = timers.schedule("mail", HOUR, "");
    assert!(
        matches!(refused, Err(DurableError::Unavailable { .. })),
        "{refused:?}"
    );
    assert!(begun.elapsed() >= SECOND / 10);
    trouble.opens.store(0, SeqCst);
}

fn wait_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + 60 * SECOND;
    while !is_so() {
        assert!(Instant::now() < until, "it takes too long");
        thread::sleep(SECOND / 100);
    }
}

#[test]
fn threads_that_call_all_the_time_lose_nothing() {
    let (store, trouble, memory) = failing();
    let timers = Durable::builder(store).start().unwrap();
    let is_over = AtomicBool::new(false);
    let stored = thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut stored, mut unsure) = (Vec::new(), 0);
                    while !is_over.load(SeqCst) {
                        match timers.schedule("mail", HOUR, "") {
                            Ok(id) if stored.len() < 10_000 => stored.push(id),
                            Ok(_) => unsure += 1,
                            Err(DurableError::Store(_)) => unsure += 1,
                            Err(DurableError::Unavailable { .. }) => thread::sleep(SECOND / 100),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (stored, unsure)
                })
            })
            .collect();
        for round in 0..3 {
            trouble.are_made.store(round % 2, SeqCst);
            trouble.commits.store(1, SeqCst);
            let has_failed = || timers.stats().outages > u64::from(round);
            wait_until(|| has_failed() && timers.health().is_ready());
        }
        is_over.store(true, SeqCst);
        let callers = callers.into_iter().map(|caller| caller.join().unwrap());
        callers.collect::<Vec<_>>()
    });
    let unsure: u64 = stored.iter().map(|(_, unsure)| unsure).sum();
    let ids: Vec<_> = stored.into_iter().flat_map(|(ids, _)| ids).collect();
    for id in &ids {
        assert!(timers.get(*id).unwrap().is_some(), "{id} is acknowledged");
    }
    let rows = rows(&memory);
    let most = ids.len() as u64 + unsure;
    assert!(
        (ids.len() as u64..=most).contains(&rows),
        "{rows} of {} to {most}",
        ids.len()
    );
    assert_eq!(timers.stats().outages, 3);
    timers.stop().unwrap();
}
