//! A store that hangs is seen from outside: how long the writer's turn lasts is in `stats` and in
//! `lag`, and a hook is told. On a manual clock, and with a thread that stands in the store.

use crate::over_memory::{Over, OverMemory};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;
use wheelwork::{Dispatch, ManualClock};
use wheelwork_durable::contract::{Gate, Outcome, Position, SliceLimit, Store, Write};
use wheelwork_durable::{Durable, DurableClient, Memory, Partition, Row, StoreError, StoreTime};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What a store does in its next call.
type Hang = Box<dyn FnOnce() + Send>;

/// Makes the next call of a store hang.
#[derive(Clone, Default)]
struct Hangs(Arc<Mutex<Option<Hang>>>);

impl Hangs {
    fn next(&self, hang: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(hang));
    }

    fn hang(&self) {
        let hang = self.0.lock().unwrap().take();
        if let Some(hang) = hang {
            hang();
        }
    }
}

/// A store in memory of which commits and loads hang.
#[derive(Default)]
struct Hanging {
    memory: Memory,
    commits: Hangs,
    loads: Hangs,
}

impl OverMemory for Hanging {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        if !writes.is_empty() {
            self.commits.hang();
        }
        self.memory.commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.loads.hang();
        self.memory.load(partition, after, until, limit)
    }
}

/// The turn and the lag, in seconds.
fn seconds(timers: &DurableClient) -> (u64, u64) {
    let stats = timers.stats();
    (stats.turn.as_secs(), stats.lag.as_secs())
}

#[test]
fn a_turn_that_lasts_is_seen_and_told_once() {
    let (clock, commits) = (ManualClock::new(), Hangs::default());
    let told = Arc::<Mutex<Vec<u64>>>::default();
    let hook = told.clone();
    let store = Hanging {
        commits: commits.clone(),
        ..Hanging::default()
    };
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .on_store_stalled(5 * SECOND, move |lasted| {
            hook.lock().unwrap().push(lasted.as_secs());
        })
        .start()
        .unwrap();
    let seen = Arc::<Mutex<Vec<(u64, u64)>>>::default();
    // A call of the store lasts for `last` seconds, and after each the figures are read.
    let hang = |last: u64| {
        let (clock, notes, handle) = (clock.clone(), seen.clone(), timers.client());
        commits.next(move || {
            for _ in 0..last {
                clock.advance(SECOND);
                notes.lock().unwrap().push(seconds(&handle));
            }
        });
        timers.schedule("mail", 10 * HOUR, "").unwrap();
        std::mem::take(&mut *seen.lock().unwrap())
    };

    assert_eq!(hang(4), [(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert!(told.lock().unwrap().is_empty(), "4 s are less than 5 s");
    for stalls in 1..=2 {
        assert_eq!(hang(12).last(), Some(&(12, 12)));
        assert_eq!(*told.lock().unwrap(), vec![5; stalls]);
        let stats = timers.stats();
        assert_eq!((stats.turn, stats.lag), (Duration::ZERO, Duration::ZERO));
    }

    clock.advance(HOUR);
    assert_eq!(
        told.lock().unwrap().len(),
        2,
        "the turns of an hour are short"
    );
}

#[test]
fn a_turn_below_a_second_is_no_lag() {
    let (clock, commits) = (ManualClock::new(), Hangs::default());
    let store = Hanging {
        commits: commits.clone(),
        ..Hanging::default()
    };
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .start()
        .unwrap();
    let (send, seen) = mpsc::channel();
    let handle = timers.client();
    commits.next(move || {
        clock.advance(SECOND / 2);
        let stats = handle.stats();
        let _ = send.send((stats.turn, stats.lag));
    });
    timers.schedule("mail", HOUR, "").unwrap();
    assert_eq!(seen.recv().unwrap(), (SECOND / 2, Duration::ZERO));
}

#[test]
fn the_hook_is_told_while_all_handlers_wait_for_the_store() {
    let commits = Hangs::default();
    let store = Hanging {
        commits: commits.clone(),
        ..Hanging::default()
    };
    let (open_gate, gate) = mpsc::channel::<()>();
    let (send, told) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let gate = Mutex::new(Some(gate));
    let handle = Arc::<OnceLock<DurableClient>>::default();
    let arms = handle.clone();
    let timers = Durable::builder(Over(store))
        // One thread has all handlers, and this one waits for the store.
        .dispatch(Dispatch::RayonThreads(1))
        .on("mail", move |_| {
            if let Some(gate) = gate.lock().unwrap().take() {
                commits.next(move || {
                    let _ = gate.recv();
                });
                let _ = begin.send(());
                arms.get().unwrap().schedule("mail", HOUR, "")?;
            }
            Ok(())
        })
        .on_store_stalled(Duration::from_millis(20), move |lasted| {
            let _ = send.send(lasted);
        })
        .start()
        .unwrap();
    // (A test that fails drops this before the timers.)
    let open_gate = open_gate;
    assert!(handle.set(timers.client()).is_ok());
    timers.schedule("mail", Duration::ZERO, "").unwrap();
    begun.recv().unwrap();
    assert!(told.recv().unwrap() >= Duration::from_millis(20));
    assert!(timers.stats().turn >= Duration::from_millis(20));
    assert!(timers.failure().is_none());
    drop(open_gate);
    timers.stop().unwrap();
}

#[test]
fn the_figures_are_there_when_the_service_has_started() {
    let memory = Memory::new();
    let timers = Durable::builder(memory.clone()).start().unwrap();
    for _ in 0..3 {
        timers.schedule("mail", HOUR, "").unwrap();
    }
    timers.stop().unwrap();
    let loads = Hangs::default();
    let (open_gate, gate) = mpsc::channel::<()>();
    loads.next(move || {
        let _ = gate.recv();
    });
    let store = Hanging {
        memory,
        loads,
        ..Hanging::default()
    };
    let timers = Durable::builder(Over(store)).start().unwrap();
    // (A test that fails drops this before the timers.)
    let open_gate = open_gate;
    // The first turn is not over.
    assert_eq!(timers.stats().rows, 3);
    drop(open_gate);
    timers.stop().unwrap();
}
