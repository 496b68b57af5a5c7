//! Promise: in a fleet no other timer is more than 50 ms late because of a call for many timers,
//! however many these are, or how large.
//!
//! The store takes time for what it does, on a manual clock.

#![cfg(feature = "durable")]

#[path = "common/shared_memory/mod.rs"]
mod shared_memory;

use shared_memory::{Making, MemoryClock, SharedMemory, SharedPlace};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork::durable::{
    DeadLetter, Durable, DurableId, Fleet, Gate, Lease, LeaseNews, Outcome, Partition, Position,
    Row, SharedStore, SliceLimit, Store, StoreClock, StoreError, StoreSize, StoreTime, Target,
    Write,
};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3_600);

/// Between two timers that are watched.
const EVERY: Duration = MS.saturating_mul(10);

/// The promise.
const LATE_MAX: Duration = MS.saturating_mul(50);

/// How long a commit or a read takes, and how much longer for each row and each KiB.
#[derive(Clone, Copy, Debug)]
struct Speed {
    call: Duration,
    row: Duration,
    kib: Duration,
}

const FAST: Speed = Speed {
    call: Duration::from_millis(2),
    row: Duration::from_micros(5),
    kib: Duration::from_micros(12),
};

/// Ten times as slow, but for its answers.
const SLOW: Speed = Speed {
    call: Duration::from_millis(2),
    row: Duration::from_micros(50),
    kib: Duration::from_micros(120),
};

struct Exact(ManualClock);

impl StoreClock for Exact {
    fn at_least(&self) -> SystemTime {
        self.0.system_time()
    }

    fn at_most(&self) -> SystemTime {
        self.0.system_time()
    }
}

impl MemoryClock for Exact {
    fn now(&self) -> SystemTime {
        self.0.system_time()
    }
}

/// A node's store that takes time.
struct Slow {
    inner: SharedMemory,
    clock: ManualClock,
    speed: Speed,
}

impl Slow {
    fn pass(&self, rows: usize, bytes: usize) {
        let rows = u32::try_from(rows).unwrap();
        let kib = u32::try_from(bytes >> 10).unwrap();
        self.clock
            .advance(self.speed.call + self.speed.row * rows + self.speed.kib * kib);
    }

    fn read<R>(
        &mut self,
        read: impl FnOnce(&mut SharedMemory) -> Result<R, StoreError>,
        size: impl FnOnce(&R) -> (usize, usize),
    ) -> Result<R, StoreError> {
        let found = read(&mut self.inner)?;
        let (rows, bytes) = size(&found);
        self.pass(rows, bytes);
        Ok(found)
    }
}

fn size_of(rows: &[Row]) -> (usize, usize) {
    (rows.len(), rows.iter().map(Row::bytes).sum())
}

impl Store for Slow {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.inner.acquire()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.inner.release()
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.inner.new_id(key, due)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (mut rows, mut bytes) = (writes.len(), 0);
        for write in &writes {
            match write {
                Write::Arm(row) => bytes += row.bytes(),
                Write::CancelKind(slice) => rows += slice.limit.rows,
                _ => {}
            }
        }
        self.pass(rows, bytes);
        self.inner.commit(writes, gate)
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.inner.load(partition, after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.inner.hand_out(upto)
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        Store::clock(&mut self.inner, node)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.inner.get(target)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let size = |letters: &Vec<DeadLetter>| {
            let bytes = letters.iter().map(|letter| letter.row.bytes());
            (letters.len(), bytes.sum())
        };
        self.read(|store| store.dead(after, limit), size)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        self.inner.size()
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for Slow {
    fn partitions(&self) -> Partition {
        self.inner.partitions()
    }

    fn claim_ahead(&self) -> Duration {
        self.inner.claim_ahead()
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        self.inner.renew()
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.inner.give_back(leases)
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.pass(0, 0);
        self.inner.claim(leases, upto)
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.read(
            |store| store.load_many(partitions, after, until, limit),
            |rows| size_of(rows),
        )
    }

    fn look_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.read(
            |store| store.look_many(partitions, after, until, limit),
            |rows| size_of(rows),
        )
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.inner.next_due(partitions, from)
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        SharedStore::clock(&self.inner)
    }

    fn takes_clock(&self) -> bool {
        true
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.inner.on_news(wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.inner.fleet()
    }
}

/// A node whose timers are watched while it does something else.
struct Scene {
    timers: Durable,
    clock: ManualClock,
    /// How late each was.
    late: Arc<Mutex<Vec<Duration>>>,
}

fn scene(speed: Speed) -> Scene {
    let clock = ManualClock::new();
    let making = Making {
        partitions: 16,
        partition_of_key: |key| Partition::from(key.as_bytes()[0] % 16),
        lease: Duration::from_secs(10),
        claim_ahead: MS * 25,
        has_news: false,
        strikes: true,
        broken: None,
    };
    let place = SharedPlace::new(making, clock.system_time());
    let store = Slow {
        inner: place.node("node", Arc::new(Exact(clock.clone()))),
        clock: clock.clone(),
        speed,
    };
    let late = Arc::<Mutex<Vec<_>>>::default();
    let (noted, shows) = (Arc::clone(&late), clock.clone());
    let timers = Durable::open(store)
        .clock(clock.clone())
        .handle("watched", move |timer| {
            let late = shows.system_time().duration_since(timer.due()).unwrap();
            noted.lock().unwrap().push(late);
            Ok(())
        })
        .handle("bulk", |_| Ok(()))
        .start()
        .unwrap();
    Scene {
        timers,
        clock,
        late,
    }
}

impl Scene {
    /// How late the timers are at most that fall due while this is called.
    fn beside<R>(&self, call: impl FnOnce(&Durable) -> R) -> (R, Duration) {
        let from = self.clock.system_time() + HOUR / 60;
        let dues = (0..1_000).map(|number| ("watched", from + EVERY * number, ""));
        self.timers.schedule_many(dues).unwrap();
        let wait = from.duration_since(self.clock.system_time()).unwrap();
        self.clock.advance(wait + EVERY * 10);
        self.late.lock().unwrap().clear();
        let answer = call(&self.timers);
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        assert!(late.len() >= 10, "{} have fired", late.len());
        self.timers.cancel_where("watched").unwrap();
        (answer, late.into_iter().max().unwrap())
    }
}

fn bulk(rows: usize, bytes: usize) -> impl Iterator<Item = (&'static str, Duration, Vec<u8>)> {
    (0..rows).map(move |_| ("bulk", HOUR, vec![0; bytes]))
}

/// Makes each large call. Returns how late other timers were at most.
fn lateness_beside_all(speed: Speed) -> Vec<(&'static str, Duration)> {
    let scene = scene(speed);
    let (ids, many) = scene.beside(|timers| timers.schedule_many(bulk(20_000, 16)).unwrap());
    assert_eq!(ids.len(), 20_000);
    let (rows, list) = scene.beside(|timers| timers.list(.., 20_000).unwrap());
    assert_eq!(rows.len(), 20_000);
    let (gone, ended) = scene.beside(|timers| timers.cancel_many(ids).unwrap());
    assert_eq!(gone, 20_000);
    let (_, large) = scene.beside(|timers| timers.schedule_many(bulk(40, 256 << 10)).unwrap());
    scene.timers.schedule_many(bulk(20_000, 16)).unwrap();
    let (gone, kind) = scene.beside(|timers| timers.cancel_where("bulk").unwrap());
    assert_eq!(gone, 20_040);
    vec![
        ("schedule_many", many),
        ("list", list),
        ("cancel_many", ended),
        ("schedule_many of large ones", large),
        ("cancel_where", kind),
    ]
}

#[test]
fn no_other_timer_is_late() {
    for speed in [FAST, SLOW] {
        for (call, late) in lateness_beside_all(speed) {
            assert!(late <= LATE_MAX, "{call}: {late:?} late, at {speed:?}");
        }
    }
}

#[cfg(feature = "__faults")]
#[test]
fn slices_that_do_not_follow_the_time_make_others_late() {
    use wheelwork::durable::{DurableFault, set_durable_fault};
    set_durable_fault(Some(DurableFault::PaceIgnored));
    let late = lateness_beside_all(SLOW);
    set_durable_fault(None);
    for (call, late) in late {
        assert!(late > LATE_MAX, "{call}: {late:?} late");
    }
}

/// A database that is so far away that no commit is fast gets no more commits than need be.
#[test]
fn a_store_that_answers_late_is_given_many_rows_at_once() {
    let speed = Speed {
        call: MS * 60,
        ..FAST
    };
    let scene = scene(speed);
    scene.timers.schedule_many(bulk(10_000, 16)).unwrap();
    let before = scene.timers.stats().commits;
    scene.timers.schedule_many(bulk(20_000, 16)).unwrap();
    let commits = scene.timers.stats().commits - before;
    assert!(commits <= 10, "{commits} commits");
}
