//! Whatever a call asks of durable timers, others have their turn: a commit and a read have a bound
//! in rows and in bytes, and calls that are made meanwhile are served in between.

use crate::over_memory::{Over, OverMemory};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{Gate, Outcome, Position, SliceLimit, Store, Write};
use wheelwork_durable::{
    DeadLetter, Durable, DurableClient, DurableError, DurableId, Memory, Partition, RetryPolicy,
    Row, StoreError, StoreTime,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// The bounds of a turn: rows of large calls, and bytes.
const ROWS: usize = 4_096;
const BYTES: usize = 8 << 20;

/// What the store was asked for.
#[derive(Default)]
struct Asked {
    /// Of each commit: its changes, the rows in which a kind was cancelled, and the bytes armed.
    commits: Vec<(usize, usize, usize)>,
    /// Of each load and each look at the dead: rows, and their bytes.
    reads: Vec<(usize, usize)>,
    /// The commits before a timer of another caller was armed.
    others: Vec<usize>,
}

/// A store in memory that notes what it is asked for. In each commit another caller arms a timer.
struct Watched {
    memory: Memory,
    asked: Arc<Mutex<Asked>>,
    handle: Arc<OnceLock<DurableClient>>,
    /// Is told when a kind is being cancelled, which takes its time then.
    begins: Option<mpsc::Sender<()>>,
}

impl Watched {
    fn read(&self, rows: usize, bytes: usize) {
        self.asked.lock().unwrap().reads.push((rows, bytes));
    }
}

impl OverMemory for Watched {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut asked = self.asked.lock().unwrap();
        let (mut bytes, mut slices) = (0, 0);
        for write in &writes {
            match write {
                Write::Arm(row) => bytes += row.bytes(),
                Write::CancelKind(slice) => slices += slice.limit.rows,
                _ => {}
            }
        }
        let is_others = |write: &Write| matches!(write, Write::Arm(row) if &*row.kind == "other");
        let before = asked.commits.len();
        if writes.iter().any(is_others) {
            asked.others.push(before);
        }
        asked.commits.push((writes.len(), slices, bytes));
        drop(asked);
        if let Some(handle) = self.handle.get().filter(|_| writes.len() > 1 || slices > 0) {
            drop(handle.schedule_ticket("other", HOUR, ""));
        }
        let outcomes = self.memory.commit(writes, gate);
        if let Some(begins) = self.begins.as_ref().filter(|_| slices > 0) {
            let _ = begins.send(());
            thread::sleep(Duration::from_millis(5));
        }
        outcomes
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.memory.load(partition, after, until, limit)?;
        self.read(rows.len(), rows.iter().map(Row::bytes).sum());
        Ok(rows)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let letters = self.memory.dead(after, limit)?;
        let bytes = letters.iter().map(|letter| letter.row.bytes()).sum();
        self.read(letters.len(), bytes);
        Ok(letters)
    }

    fn payload_max(&self) -> usize {
        BYTES
    }
}

/// Timers on a manual clock, and what their store is asked for.
struct Scene {
    timers: Durable,
    clock: ManualClock,
    asked: Arc<Mutex<Asked>>,
    handle: Arc<OnceLock<DurableClient>>,
}

fn scene() -> Scene {
    let (asked, handle) = (Arc::<Mutex<Asked>>::default(), Arc::default());
    let clock = ManualClock::new();
    let store = Watched {
        memory: Memory::new(),
        asked: Arc::clone(&asked),
        handle: Arc::clone(&handle),
        begins: None,
    };
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .max_payload(usize::MAX)
        .on("fails", |_| Err("it does".into()))
        .retry_policy(RetryPolicy::new().attempts(1))
        .start()
        .unwrap();
    Scene {
        timers,
        clock,
        asked,
        handle,
    }
}

impl Scene {
    /// Another caller arms timers from now on.
    fn let_others_in(&self) {
        assert!(self.handle.set(self.timers.client()).is_ok());
        *self.asked.lock().unwrap() = Asked::default();
    }

    /// All bounds were kept, and others were served before the last slice.
    fn demand_bounded(&self, commits_min: usize) {
        let asked = self.asked.lock().unwrap();
        // (One row of another caller may be in each.)
        for &(writes, slices, bytes) in &asked.commits {
            assert!(
                writes + slices <= ROWS + 2,
                "{writes} changes, {slices} rows"
            );
            assert!(bytes < 2 * BYTES, "{bytes} bytes");
        }
        let commits = asked.commits.len();
        assert!(commits >= commits_min, "{commits} commits");
        let first = asked.others.first().copied();
        assert!(first.is_some_and(|first| first <= 2), "{:?}", asked.others);
    }
}

#[test]
fn many_timers_are_armed_in_slices() {
    let scene = scene();
    scene.let_others_in();
    let timers = (0..20_000).map(|number| ("mail", HOUR, format!("{number}")));
    let ids = scene.timers.schedule_many(timers).unwrap();
    assert_eq!(ids.len(), 20_000);
    let row = scene.timers.get(ids[19_999]).unwrap().unwrap();
    assert_eq!(&*row.payload, b"19999");
    scene.demand_bounded(5);
    assert_eq!(scene.timers.cancel_many(ids).unwrap(), 20_000);
    scene.demand_bounded(10);
}

/// A store may end with an error at a value that it cannot keep: it is never asked to.
#[test]
fn no_payload_is_larger_than_the_store_can_keep() {
    let scene = scene();
    let error = scene.timers.schedule("mail", HOUR, vec![0; BYTES + 1]);
    assert!(matches!(
        error,
        Err(DurableError::PayloadTooLarge { max: BYTES, .. })
    ));
    let largest = vec![0; BYTES];
    scene.timers.schedule("mail", HOUR, largest).unwrap();
    assert!(scene.timers.failure().is_none());
}

#[test]
fn many_bytes_are_armed_in_slices() {
    let scene = scene();
    scene.let_others_in();
    let timers = (0..40).map(|_| ("mail", HOUR, vec![0; 1 << 20]));
    assert_eq!(scene.timers.schedule_many(timers).unwrap().len(), 40);
    scene.demand_bounded(5);
    let most = scene
        .asked
        .lock()
        .unwrap()
        .commits
        .iter()
        .map(|commit| commit.2)
        .max();
    assert!(most <= Some(BYTES + (1 << 20)), "{most:?}");
}

#[test]
fn a_kind_is_cancelled_in_slices() {
    let scene = scene();
    let kinds = ["mail", "report"];
    let timers = (0..20_000).map(|number| (kinds[number % 2], HOUR, ""));
    scene.timers.schedule_many(timers).unwrap();
    scene.let_others_in();
    assert_eq!(scene.timers.cancel_kind("mail").unwrap(), 10_000);
    scene.demand_bounded(5);
    assert_eq!(scene.timers.cancel_kind("mail").unwrap(), 0);
    assert_eq!(scene.timers.cancel_kind("report").unwrap(), 10_000);
}

#[test]
fn lists_are_read_in_slices() {
    let scene = scene();
    let timers = (0..10_000).map(|number| ("mail", HOUR, format!("{number:04}")));
    let ids = scene.timers.schedule_many(timers).unwrap();
    scene.let_others_in();
    let rows = scene.timers.list(.., 9_999).unwrap();
    assert!(
        rows.iter()
            .map(|row| row.id)
            .eq(ids[..9_999].iter().copied())
    );
    let reads = std::mem::take(&mut scene.asked.lock().unwrap().reads);
    assert!(reads.len() >= 3 && reads.iter().all(|&(rows, _)| rows <= ROWS));
    // The same of large ones, and of dead letters.
    scene.timers.cancel_many(ids).unwrap();
    let large = (0..40).map(|_| ("fails", Duration::ZERO, vec![0; 1 << 20]));
    scene.timers.schedule_many(large).unwrap();
    scene.clock.advance(Duration::from_secs(1));
    scene.asked.lock().unwrap().reads.clear();
    assert_eq!(scene.timers.dead_letters(None, 100).unwrap().len(), 40);
    let asked = scene.asked.lock().unwrap();
    let of_dead: Vec<_> = asked.reads.iter().filter(|&&(rows, _)| rows > 0).collect();
    assert!(of_dead.len() >= 5, "{of_dead:?}");
    assert!(of_dead.iter().all(|&&(_, bytes)| bytes < BYTES + (2 << 20)));
}

#[test]
fn what_is_overdue_is_loaded_in_slices_of_bytes() {
    let memory = Memory::new();
    let clock = ManualClock::new();
    {
        let timers = Durable::builder(memory.clone())
            .clock(clock.clone())
            .start()
            .unwrap();
        let large = (0..40).map(|_| ("mail", HOUR, vec![0; 1 << 20]));
        timers.schedule_many(large).unwrap();
    }
    clock.advance(2 * HOUR);
    let asked = Arc::<Mutex<Asked>>::default();
    let store = Watched {
        memory,
        asked: asked.clone(),
        handle: Arc::default(),
        begins: None,
    };
    let timers = Durable::builder(Over(store))
        .clock(clock.clone())
        .on("mail", |_| Ok(()));
    let timers = timers.start().unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(timers.stats().done, 40);
    let asked = asked.lock().unwrap();
    let most = asked.reads.iter().map(|&(_, bytes)| bytes).max();
    assert!(most < Some(BYTES + (2 << 20)), "{most:?}");
}

/// It is moved to where the call has been already. (If the call is over by then, it is gone just as
/// well.)
#[test]
fn a_timer_that_is_moved_meanwhile_is_cancelled_with_its_kind() {
    let (begins, has_begun) = mpsc::channel();
    let store = Watched {
        memory: Memory::new(),
        asked: Arc::default(),
        handle: Arc::default(),
        begins: Some(begins),
    };
    let slice = SliceLimit { rows: 1, bytes: 1 };
    let timers = Durable::builder(Over(store)).slices(slice).start().unwrap();
    let ids: Vec<_> = (1..=40)
        .map(|day| timers.schedule("mail", 24 * day * HOUR, "").unwrap())
        .collect();
    let (handle, last) = (timers.client(), ids[39]);
    let gone = thread::scope(|scope| {
        scope.spawn(move || {
            has_begun.recv().unwrap();
            handle.reschedule(last, HOUR).unwrap()
        });
        timers.cancel_kind("mail").unwrap()
    });
    assert_eq!(timers.list(.., 9).unwrap(), []);
    assert_eq!(gone, 40);
}
