//! Promise: no data race, under ThreadSanitizer, AddressSanitizer and memcheck
//! (`scripts/check race`).
//!
//! Threads arm timers and cancel those of others across shards, which fire inline; threads come and
//! go; the service stops among them; pages of cells are made. Without test harness, `Mutex` and
//! rayon: all synchronization that a sanitizer sees is this crate's. What the program does with a
//! timer it counts, so that it fails without a sanitizer too.

use fastrand::Rng;
use std::cell::{RefCell, UnsafeCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, Dispatch, ServiceHandle, TimerId, TimerService};

const THREADS: u64 = 4;

/// What became of the timers.
#[derive(Default)]
struct Ledger {
    armed: AtomicUsize,
    fired: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Written by the thread that arms, read and freed by the one that fires or cancels, with no
/// synchronization of its own: a claim that does not order them is a race.
struct Payload(Box<[u64; 3]>);

impl Payload {
    fn new(number: u64) -> Self {
        Self(Box::new([number, !number, number ^ 0x5555]))
    }

    fn check(self) {
        let [number, inverse, mixed] = *self.0;
        assert!(
            inverse == !number && mixed == number ^ 0x5555,
            "torn: {number:x} {inverse:x} {mixed:x}"
        );
    }
}

/// Places where threads leave timers for others to cancel. An id is 16 bytes: its place is taken by
/// whoever wins `state`.
struct Board(Vec<Place>);

struct Place {
    state: AtomicU64,
    id: UnsafeCell<Option<TimerId>>,
}

const FREE: u64 = 0;
const TAKEN: u64 = 1;

// SAFETY: `id` is touched by whoever has moved `state` from FREE to TAKEN only.
unsafe impl Sync for Place {}

impl Board {
    fn new() -> Self {
        Self(
            (0..512)
                .map(|_| Place {
                    state: AtomicU64::new(FREE),
                    id: None.into(),
                })
                .collect(),
        )
    }

    /// Leaves an id in some place for the one that is there. If somebody else is at it, the id
    /// comes back.
    fn swap(&self, place: u64, id: Option<TimerId>) -> Option<TimerId> {
        let place = &self.0[place as usize % self.0.len()];
        // Ordering: Acquire, with the Release below: one after the other.
        if place
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return id;
        }
        // SAFETY: we have it.
        let before = unsafe { place.id.get().replace(id) };
        place.state.store(FREE, Ordering::Release);
        before
    }
}

/// What the threads of a race share.
#[derive(Clone)]
struct World {
    handle: ServiceHandle<Payload>,
    ledger: Arc<Ledger>,
    board: Arc<Board>,
}

/// Arms one timer and cancels another. Whether the service is running.
fn arm_and_cancel(
    World {
        handle,
        ledger,
        board,
    }: &World,
    random: &mut Rng,
    delay_us_max: u64,
) -> bool {
    let delay = Duration::from_micros(random.u64(..delay_us_max));
    let number = random.u64(..1 << 40);
    let payload = Payload::new(number);
    let armed = if random.u64(..4) == 0 {
        handle.schedule_at(Instant::now() + delay, payload)
    } else {
        handle.schedule(delay, payload)
    };
    let id = match armed {
        Ok(id) => Some(id),
        Err(error) => {
            error.into_payload().check();
            None
        }
    };
    ledger
        .armed
        .fetch_add(usize::from(id.is_some()), Ordering::Relaxed);
    if let Some(other) = board.swap(random.u64(..1 << 20), id) {
        let pending = handle.is_pending(other);
        // The others fire, or are handed back.
        if random.u64(..3) == 0
            && let Some(payload) = handle.take(other)
        {
            assert!(pending, "it does not become pending again");
            payload.check();
            ledger.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
    id.is_some()
}

fn start(shards: usize, ledger: &Arc<Ledger>) -> TimerService<Payload> {
    let count = ledger.clone();
    let handler = move |batch: &mut Batch<'_, Payload>| {
        for payload in batch {
            payload.check();
            count.fired.fetch_add(1, Ordering::Relaxed);
        }
    };
    TimerService::builder()
        .shards(shards)
        .pinning(wheelwork::Pinning::Off)
        .dispatch(Dispatch::Inline)
        .on_expire(handler)
        .start()
        .unwrap()
}

/// Runs `work` on some threads, stops the service when `stop_at` timers are armed or all is done,
/// and looks for the outcome of each timer.
fn race(name: &str, shards: usize, work: fn(&World, u64), stop_at: usize) {
    let ledger = Arc::new(Ledger::default());
    let service = start(shards, &ledger);
    let world = World {
        handle: service.handle(),
        ledger,
        board: Arc::new(Board::new()),
    };
    let threads: Vec<_> = (1..=THREADS)
        .map(|seed| {
            let world = world.clone();
            thread::spawn(move || work(&world, seed))
        })
        .collect();
    while world.ledger.armed.load(Ordering::Relaxed) < stop_at
        && threads.iter().any(|thread| !thread.is_finished())
    {
        thread::sleep(Duration::from_millis(1));
    }
    let unfired = service.stop();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let handed_back = unfired.len();
    unfired
        .into_iter()
        .for_each(|unfired| unfired.payload.check());
    let [armed, fired, cancelled] = [
        &world.ledger.armed,
        &world.ledger.fired,
        &world.ledger.cancelled,
    ]
    .map(|counter| counter.load(Ordering::Relaxed));
    assert_eq!(
        armed,
        fired + cancelled + handed_back,
        "{name}: {fired} + {cancelled} + {handed_back}"
    );
    let stats = service.stats();
    let counted = [
        stats.timers.armed,
        stats.timers.fired,
        stats.timers.cancelled,
        stats.timers.handed_back,
    ];
    assert_eq!(
        counted.map(|count| count as usize),
        [armed, fired, cancelled, handed_back],
        "{name}: counted by the service"
    );
    assert_eq!(
        (stats.lateness.count(), service.len()),
        (stats.timers.fired, 0),
        "{name}"
    );
    println!(
        "{name}: {armed} armed, {fired} fired, {cancelled} cancelled, {handed_back} handed back"
    );
}

fn until_all_is_done(world: &World, seed: u64) {
    let mut random = Rng::with_seed(seed);
    for round in 0..40 {
        (0..500).for_each(|_| _ = arm_and_cancel(world, &mut random, 20_000));
        if round % 8 == seed % 8 {
            // The shards sleep now and then, and are rung.
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn until_stopped(world: &World, seed: u64) {
    let mut random = Rng::with_seed(seed);
    while arm_and_cancel(world, &mut random, 3_000) {}
}

/// Many timers at once, so that pages are made by several threads; and most of them fire on a
/// shard, whose cells go back through the depot.
fn in_bursts(world: &World, seed: u64) {
    let mut random = Rng::with_seed(seed);
    for _ in 0..4 {
        for _ in 0..6_000 {
            let armed = world.handle.schedule(
                Duration::from_micros(random.u64(..4_000)),
                Payload::new(seed),
            );
            world
                .ledger
                .armed
                .fetch_add(usize::from(armed.is_ok()), Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Threads that leave lanes and cells to those that come later, and call in the destructors of
/// their thread-locals.
fn short_lived(world: &World, seed: u64) {
    thread_local! {
        static LAST_WILL: RefCell<Option<Will>> = const { RefCell::new(None) };
    }
    struct Will(World, TimerId);
    impl Drop for Will {
        fn drop(&mut self) {
            let Self(world, id) = self;
            if let Some(payload) = world.handle.take(*id) {
                payload.check();
                world.ledger.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            arm_and_cancel(world, &mut Rng::with_seed(77), 3_000);
        }
    }
    for life in 0..40 {
        let (world, mut random) = (world.clone(), Rng::with_seed(1 + life * 16 + seed));
        let thread = thread::spawn(move || {
            (0..50).for_each(|_| _ = arm_and_cancel(&world, &mut random, 3_000));
            if let Ok(id) = world
                .handle
                .schedule(Duration::from_secs(3600), Payload::new(life))
            {
                world.ledger.armed.fetch_add(1, Ordering::Relaxed);
                LAST_WILL.set(Some(Will(world, id)));
            }
        });
        thread.join().unwrap();
    }
}

fn main() {
    for shards in [1, 3] {
        race("all is done", shards, until_all_is_done, usize::MAX);
        race("in bursts", shards, in_bursts, usize::MAX);
        race("short-lived threads", shards, short_lived, usize::MAX);
        for armed in [1, 1_000, 20_000] {
            race("stopped meanwhile", shards, until_stopped, armed);
        }
    }
}
