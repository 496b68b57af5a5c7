//! Promise: the window has a bound, also while callers arm timers without waiting, as fast as the
//! writer takes them. What does not fit is loaded later.

use crate::over_memory::{Over, OverMemory};
use std::future::{pending, ready};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, Position, SliceLimit, Store, Write};
use wheelwork_durable::{
    Durable, DurableClient, Memory, Partition, Row, SpawnedFuture, StoreError, StoreTime,
    WindowLimits,
};

/// What the writer takes in at most in a turn.
const TURN: usize = 16_384;

const ROWS: usize = 20_000;
const TURNS: usize = 12;

/// A store in memory. During each commit callers arm as many timers as the next turn takes, and
/// wait for none.
struct Flooded {
    memory: Memory,
    client: Arc<OnceLock<DurableClient>>,
    /// How many rows the window had, in each turn.
    had: Arc<Mutex<Vec<usize>>>,
}

impl OverMemory for Flooded {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut had = self.had.lock().unwrap();
        if let Some(client) = self.client.get().filter(|_| had.len() < TURNS) {
            had.push(client.stats().window_rows as usize);
            for number in 0..TURN {
                // (Some come behind all others, and some before.)
                let seconds = (number * 7_919 + had.len() * 31) % 3_000 + 1;
                drop(client.schedule_ticket("mail", Duration::from_secs(seconds as u64), ""));
            }
        }
        drop(had);
        self.memory.commit(writes, gate)
    }
}

#[test]
fn the_window_gives_back_what_comes() {
    let (client, had) = (
        Arc::<OnceLock<_>>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let clock = ManualClock::new();
    let store = Flooded {
        memory: Memory::new(),
        client: client.clone(),
        had: had.clone(),
    };
    let limits = WindowLimits::default()
        .ahead(Duration::from_secs(3_600))
        .rows(ROWS);
    let timers = Durable::builder(Over(store))
        .clock(clock)
        .window(limits)
        .on("mail", |_| Ok(()))
        .start()
        .unwrap();
    assert!(client.set(timers.client()).is_ok());
    timers.schedule("mail", Duration::from_secs(1), "").unwrap();
    let had = had.lock().unwrap();
    let most = had.iter().max().copied().unwrap_or_default();
    assert_eq!(had.len(), TURNS);
    assert_eq!(timers.stats().armed as usize, TURN * TURNS + 1);
    assert!(most > ROWS / 2, "{had:?}");
    assert!(most <= ROWS + ROWS / 4 + 2 * TURN, "{had:?}");
}

/// A store in memory that counts what is loaded, and fails if there is no end to it.
struct Counted {
    memory: Memory,
    loads: usize,
}

impl OverMemory for Counted {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.loads += 1;
        if self.loads > 1_000 {
            return Err(StoreError::Io("it loads without end".into()));
        }
        self.memory.load(partition, after, until, limit)
    }
}

/// Less than half of the window is full, its row waits for its handler's future, and the next rows
/// do not fit. They are loaded when that one has left, and not over and over.
#[test]
fn a_row_that_does_not_fit_is_loaded_later() {
    let clock = ManualClock::new();
    let store = Counted {
        memory: Memory::new(),
        loads: 0,
    };
    let limits = WindowLimits::default().bytes(1_000).rows(50);
    let futures = Arc::<Mutex<Vec<SpawnedFuture>>>::default();
    let spawned = futures.clone();
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .window(limits)
        .spawner(move |future| spawned.lock().unwrap().push(future))
        .on_async("mail", |_| ready(Ok(())))
        .max_calls("mail", NonZeroUsize::MIN)
        .start()
        .unwrap();
    let second = Duration::from_secs(1);
    for (seconds, bytes) in [(1, 336), (2, 556), (3, 446), (4, 676)] {
        let when = second * seconds;
        timers.schedule("mail", when, vec![0; bytes]).unwrap();
    }
    clock.advance(second * 10);
    assert!(timers.failure().is_none(), "{:?}", timers.failure());
    let mut context = Context::from_waker(Waker::noop());
    for done in 0..4 {
        assert_eq!(timers.stats().done, done);
        let mut future = futures.lock().unwrap().pop().unwrap();
        assert!(future.as_mut().poll(&mut context).is_ready());
        clock.advance(second);
    }
    assert!(timers.failure().is_none(), "{:?}", timers.failure());
    assert_eq!(timers.stats().done, 4);
}

/// A store in memory. While it does the commit that a test has marked, a caller cancels a timer.
struct Cancelling {
    memory: Memory,
    client: Arc<OnceLock<DurableClient>>,
    is_marked: Arc<AtomicBool>,
    /// How many rows were loaded.
    loaded: Arc<AtomicUsize>,
}

impl OverMemory for Cancelling {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        if self.is_marked.swap(false, SeqCst) {
            drop(self.client.get().unwrap().key("first").cancel_ticket());
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
        let rows = self.memory.load(partition, after, until, limit)?;
        self.loaded.fetch_add(rows.len(), SeqCst);
        Ok(rows)
    }
}

/// Many rows are given back, a slice in each turn. Meanwhile all that was to stay leaves, but for a
/// row whose handler hangs, if there is one. The next row comes into the window all the same: it
/// fits beside that one, or is larger than what may be kept and has the window for itself.
#[test]
fn rows_come_when_those_that_stayed_have_left() {
    const SMALL: usize = 8_000;
    for (hangs, bytes) in [(false, 800_000), (true, 720_000)] {
        let clock = ManualClock::new();
        let client = Arc::<OnceLock<_>>::default();
        let (is_marked, loaded) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let store = Cancelling {
            memory: Memory::new(),
            client: client.clone(),
            is_marked: is_marked.clone(),
            loaded: loaded.clone(),
        };
        let limits = WindowLimits::default()
            .ahead(Duration::from_secs(3_600))
            .bytes(1_000_000);
        let futures = Arc::<Mutex<Vec<SpawnedFuture>>>::default();
        let spawned = futures.clone();
        let timers = Durable::builder(Over(store))
            .clock(clock.clone())
            .window(limits)
            .spawner(move |future| spawned.lock().unwrap().push(future))
            .on("mail", |_| Ok(()))
            .on_async("hang", |_| pending())
            .start()
            .unwrap();
        assert!(client.set(timers.client()).is_ok());
        let second = Duration::from_secs(1);
        let mut armed = 0;
        let mut arm = |seconds, bytes| {
            armed += 1;
            timers
                .schedule("mail", second * seconds, vec![0; bytes])
                .unwrap();
        };
        // What came before is given back in one slice. Then few rows come, and many leave.
        (0..SMALL).for_each(|_| arm(100, 36));
        (0..3).for_each(|_| arm(1_000, 400_000));
        if hangs {
            timers.schedule("hang", second, vec![0; 1_000]).unwrap();
            clock.advance(second * 2);
            assert_eq!(futures.lock().unwrap().len(), 1);
        }
        let first = timers.key("first");
        first.schedule("mail", second * 3, vec![0; 40_000]).unwrap();
        is_marked.store(true, SeqCst);
        arm(4, bytes);
        clock.advance(second * 1_000);
        // (The last ones are loaded when there is room, after they were due.)
        clock.advance(second);
        let stats = timers.stats();
        assert_eq!((stats.done, stats.cancelled), (armed, 1), "hangs: {hangs}");
        assert!(
            loaded.load(SeqCst) > SMALL,
            "what was given back is loaded again"
        );
    }
}
