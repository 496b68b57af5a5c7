//! Promise: arming and cancelling allocate nothing in their steady state, on no thread of the
//! process: not the caller's, not the shard's, not the pool's.
//!
//! The steady state of a lane is as many segments as ever waited in it at once. How long the
//! shard's thread gets no processor, and so how much it finds, is the machine's affair. So the
//! warm-up holds the shard up while it sends as much as the measured part does, and has it compact
//! a large slot: whatever happens then has happened before.
//!
//! A program of its own, without the test harness, whose threads allocate when they like.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, ServiceHandle, TimerId, TimerService};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const MS: Duration = Duration::from_millis(1);
const DELAY: Duration = Duration::from_secs(30);
const PAIRS: usize = 200_000;

fn main() {
    let tests: &[(&str, fn())] = &[
        ("pairs of one thread", pairs_of_one_thread_allocate_nothing),
        (
            "pairs of one thread, 1,000 outstanding",
            pairs_of_one_thread_with_a_thousand_outstanding_allocate_nothing,
        ),
        (
            "pairs of two threads",
            pairs_of_two_threads_allocate_nothing,
        ),
        (
            "pairs of two threads, 1,000 outstanding each",
            pairs_of_two_threads_with_a_thousand_outstanding_each_allocate_nothing,
        ),
        (
            "cells that change threads",
            cells_that_change_threads_allocate_a_block_for_two_thousand,
        ),
        (
            "threads that come and go",
            threads_that_come_and_go_leave_nothing,
        ),
        ("firing inline", firing_inline_allocates_nothing),
        ("periodic runs", periodic_runs_allocate_nothing),
        #[cfg(feature = "async")]
        ("sleeps", sleeps_allocate_nothing),
    ];
    for &(name, test) in tests {
        let _profiler = dhat::Profiler::builder().testing().build();
        test();
        assert!(blocks() > 0, "the profiler counts");
        println!("{name}: ok");
    }
}

/// Made, armed by a poll, and cancelled by the drop: a sleep allocates no more than a timer that is
/// armed and cancelled. (On a manual clock lanes are trimmed after each turn.)
#[cfg(feature = "async")]
fn sleeps_allocate_nothing() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    let clock = ManualClock::new();
    let timers =
        wheelwork::future::Timers::start(TimerService::builder().shards(1).clock(clock.clone()))
            .unwrap();
    let blocks_of = |work: &dyn Fn()| {
        let before = blocks();
        for _ in 0..100 {
            (0..1_000).for_each(|_| work());
            clock.advance(Duration::ZERO);
        }
        blocks() - before
    };
    let pair = || {
        assert!(
            timers.handle().cancel(
                timers
                    .handle()
                    .schedule(DELAY, Waker::noop().clone())
                    .unwrap()
            )
        )
    };
    let sleep = || {
        assert!(
            pin!(timers.sleep(DELAY))
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        )
    };
    blocks_of(&pair);
    let (of_pairs, of_sleeps) = (blocks_of(&pair), blocks_of(&sleep));
    assert_eq!(of_sleeps, of_pairs, "blocks in 100,000");
    assert_eq!(timers.handle().stats().timers.cancelled, 300_000);
}

fn blocks() -> u64 {
    dhat::HeapStats::get().total_blocks
}

/// A service on the real clock whose handler waits for `release` with each payload that is true.
struct Fixture {
    service: TimerService<bool>,
    held_up: mpsc::Receiver<()>,
    release: mpsc::SyncSender<()>,
}

impl Fixture {
    fn new() -> Self {
        let (held_up_send, held_up) = mpsc::channel();
        let (release, released) = mpsc::sync_channel(1);
        let released = Mutex::new(released);
        let handler = move |batch: &mut Batch<'_, bool>| {
            for _ in batch.filter(|&holds_up| holds_up) {
                held_up_send.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
            }
        };
        // Inline: the handler holds up the shard.
        let service = TimerService::builder()
            .shards(1)
            .dispatch(Dispatch::Inline)
            .on_expire(handler)
            .start()
            .unwrap();
        Self {
            service,
            held_up,
            release,
        }
    }

    fn drained(&self) -> u64 {
        self.service.stats().sum(|shard| shard.machinery.drained())
    }

    /// Waits until the shard has drained this number of messages.
    fn wait_drained(&self, messages: u64) {
        while self.drained() < messages {
            thread::sleep(MS);
        }
    }

    /// More timers in one slot than the tests have outstanding, and then none.
    fn compact_a_large_slot(&self) {
        let ids: Vec<_> = (0..3_000)
            .map(|_| self.service.schedule(DELAY, false).unwrap())
            .collect();
        // In two drains, so that they do not meet in one.
        self.wait_pending_drained();
        assert!(ids.into_iter().all(|id| self.service.cancel(id)));
        self.wait_pending_drained();
    }

    /// Waits until the shard has drained all that this thread has sent.
    fn wait_pending_drained(&self) {
        let fired = self.service.stats().timers.fired;
        self.service.schedule(Duration::ZERO, false).unwrap();
        while self.service.stats().timers.fired == fired {
            thread::sleep(MS);
        }
    }

    /// Runs `work` held up and then freely; returns the blocks that the second run allocated.
    fn blocks_of(&self, mut work: impl FnMut()) -> u64 {
        // One run that is not held up: locals, lanes, cells.
        work();
        self.compact_a_large_slot();
        self.service.schedule(Duration::ZERO, true).unwrap();
        self.held_up.recv().unwrap();
        let before = self.drained();
        work();
        assert_eq!(self.drained(), before, "the shard is held up");
        let messages = self
            .service
            .stats()
            .sum(|shard| shard.machinery.lane_depth());
        self.release.send(()).unwrap();
        // What the first run left in the lanes comes to it.
        self.wait_drained(before + messages);
        // A shard that is held up itself, by other programs, brings new segments again. If a run
        // needed any of itself, each run would.
        let runs = (0..10).map(|_| {
            let before = blocks();
            work();
            blocks() - before
        });
        runs.min_by_key(|&blocks| blocks).unwrap_or(0)
    }
}

fn pairs(handle: &ServiceHandle<bool>) {
    for _ in 0..PAIRS {
        let id = handle.schedule(DELAY, false).unwrap();
        assert!(handle.cancel(black_box(id)));
    }
}

/// Pairs with this number of timers outstanding.
fn window(handle: &ServiceHandle<bool>, window: &mut [Option<TimerId>]) {
    for pair in 0..PAIRS {
        let place = pair % window.len();
        let id = handle.schedule(DELAY, false).unwrap();
        if let Some(old) = window[place].replace(id) {
            assert!(handle.cancel(old));
        }
    }
}

fn pairs_of_one_thread_allocate_nothing() {
    let fixture = Fixture::new();
    let allocated = fixture.blocks_of(|| pairs(&fixture.service));
    assert_eq!(allocated, 0, "blocks in {PAIRS} pairs");
}

fn pairs_of_one_thread_with_a_thousand_outstanding_allocate_nothing() {
    let fixture = Fixture::new();
    let mut outstanding = vec![None; 1_000];
    let allocated = fixture.blocks_of(|| window(&fixture.service, &mut outstanding));
    assert_eq!(allocated, 0, "blocks in {PAIRS} pairs");
    assert_eq!(fixture.service.stop().len(), 1_000);
}

/// Threads that work when they are told to and are there all the time, so that nothing but their
/// work is counted.
struct Turns {
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Turns {
    const fn new() -> Self {
        Self {
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }

    /// Has each of the threads work once, and waits for them.
    fn ask(&self, threads: u64) {
        let turn = self.asked.fetch_add(1, Ordering::Release) + 1;
        while self.answered.load(Ordering::Acquire) < turn * threads {
            thread::yield_now();
        }
    }

    /// Works in each turn, until `self` is over.
    fn work(&self, mut work: impl FnMut()) {
        for turn in 1.. {
            while self.asked.load(Ordering::Acquire) < turn {
                thread::yield_now();
            }
            if self.asked.load(Ordering::Acquire) >= OVER {
                return;
            }
            work();
            self.answered.fetch_add(1, Ordering::Release);
        }
    }
}

const OVER: u64 = 1 << 60;

/// Ends the turns, also if a test fails.
struct End<'a>(&'a Turns);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_add(OVER, Ordering::Release);
    }
}

fn on_two_threads(
    fixture: &Fixture,
    work: impl Fn(&ServiceHandle<bool>, &mut [Option<TimerId>]) + Sync,
) -> u64 {
    const THREADS: usize = 2;
    let (turns, handle) = (Turns::new(), fixture.service.handle());
    thread::scope(|scope| {
        let _end = End(&turns);
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut outstanding = vec![None; 1_000];
                turns.work(|| work(&handle, &mut outstanding));
            });
        }
        fixture.blocks_of(|| turns.ask(THREADS as u64))
    })
}

fn pairs_of_two_threads_allocate_nothing() {
    let allocated = on_two_threads(&Fixture::new(), |handle, _| pairs(handle));
    assert_eq!(allocated, 0, "blocks in twice {PAIRS} pairs");
}

fn pairs_of_two_threads_with_a_thousand_outstanding_each_allocate_nothing() {
    let allocated = on_two_threads(&Fixture::new(), window);
    assert_eq!(allocated, 0, "blocks in twice {PAIRS} pairs");
}

/// One thread arms, the other cancels: cells travel through the depot, 64 at a time.
fn cells_that_change_threads_allocate_a_block_for_two_thousand() {
    const TIMERS: usize = 1_000;
    const ROUNDS: usize = 50;
    let fixture = Fixture::new();
    let (ids, turns, handle) = (
        Mutex::new(Vec::with_capacity(TIMERS)),
        Turns::new(),
        fixture.service.handle(),
    );
    let allocated = thread::scope(|scope| {
        let _end = End(&turns);
        scope.spawn(|| {
            turns.work(|| {
                ids.lock()
                    .unwrap()
                    .drain(..)
                    .for_each(|id| assert!(handle.cancel(id)))
            })
        });
        fixture.blocks_of(|| {
            for _ in 0..ROUNDS {
                ids.lock()
                    .unwrap()
                    .extend((0..TIMERS).map(|_| fixture.service.schedule(DELAY, false).unwrap()));
                turns.ask(1);
            }
        })
    });
    println!("  {allocated} blocks for {} timers", TIMERS * ROUNDS);
    // A block of the depot's queues holds 31 magazines of 64 cells: one for the full ones, one for
    // the empty ones.
    let blocks_max = 2 * (TIMERS * ROUNDS).div_ceil(31 * 64) + 2;
    assert!(
        allocated <= blocks_max as u64,
        "{allocated} blocks for {} timers",
        TIMERS * ROUNDS
    );
}

/// What a thread had of the service is there for the next one.
fn threads_that_come_and_go_leave_nothing() {
    const THREADS: usize = 2_000;
    let fixture = Fixture::new();
    let in_use = || dhat::HeapStats::get().curr_blocks as i64;
    let come_and_go = |threads| {
        for _ in 0..threads {
            let handle = fixture.service.handle();
            let each = move || assert!(handle.cancel(handle.schedule(DELAY, false).unwrap()));
            thread::spawn(each).join().unwrap();
        }
        fixture.wait_pending_drained();
    };
    come_and_go(100);
    let before = in_use();
    come_and_go(THREADS);
    let kept = in_use() - before;
    println!("  {kept} blocks more after {THREADS} threads");
    // The shard's sizes change with what it finds in one turn; epoch handles wait for a later
    // epoch.
    assert!(
        kept < THREADS as i64 / 10,
        "{kept} blocks kept of {THREADS} threads"
    );
}

/// Inline, firing allocates nothing. (In a pool it allocates the jobs.)
fn firing_inline_allocates_nothing() {
    const TIMERS: u32 = 10_000;
    let clock = ManualClock::new();
    let sum = Arc::new(AtomicU64::new(0));
    let count = sum.clone();
    let handler = move |batch: &mut Batch<'_, u32>| {
        batch.for_each(|payload| _ = count.fetch_add(u64::from(payload), Ordering::Relaxed))
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(handler)
        .start()
        .unwrap();
    for (ticks, what) in [
        (1, "a burst"),
        (10, "a thousand a tick"),
        (2_000, "five a tick"),
    ] {
        let round = || {
            (0..TIMERS)
                .for_each(|timer| _ = service.schedule(MS * (1 + timer % ticks), timer).unwrap());
            let before = blocks();
            clock.advance(MS * ticks);
            blocks() - before
        };
        (0..3).for_each(|_| _ = round());
        let allocated = round();
        println!("  {what}: {allocated} blocks for {TIMERS} timers");
        // The list of services of an `advance`, and the depot's queue.
        assert!(
            allocated <= 16,
            "{what}: {allocated} blocks for {TIMERS} timers"
        );
    }
    assert_eq!(
        sum.load(Ordering::Relaxed),
        12 * (0..u64::from(TIMERS)).sum::<u64>()
    );
}

/// On a manual clock lanes are trimmed after each turn, so the messages for the next runs take
/// segments: one for 255 of them, in two allocations.
fn periodic_runs_allocate_nothing() {
    const TIMERS: u64 = 10_000;
    for dispatch in [Dispatch::Inline, Dispatch::executor(|job| job())] {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(dispatch)
            .start()
            .unwrap();
        let runs = Arc::new(AtomicU64::new(0));
        for _ in 0..TIMERS {
            let runs = runs.clone();
            let run = move || _ = runs.fetch_add(1, Ordering::Relaxed);
            service.every(DELAY).start(run).unwrap();
        }
        let round = || {
            let before = blocks();
            clock.advance(DELAY);
            blocks() - before
        };
        (0..3).for_each(|_| _ = round());
        let allocated = round();
        println!("  {allocated} blocks for {TIMERS} runs");
        // A job's own are some for each batch of 1,024, and an offer for each grain of 64.
        let most = 2 * TIMERS / 255 + 8 * TIMERS / 1_024 + 3 * TIMERS / 64;
        assert!(allocated <= most, "{allocated} blocks for {TIMERS} runs");
        assert_eq!(runs.load(Ordering::Relaxed), 4 * TIMERS);
    }
}
