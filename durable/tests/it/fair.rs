//! Promise: slow handlers of some kinds do not keep the timers of other kinds.
//!
//! - While handlers of some kinds block all workers of the pool, each other kind still has one call
//!   at a time.
//! - A timer that waits meanwhile can be cancelled, and a stop leaves it stored.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use wheelwork::Dispatch;
use wheelwork_durable::{Delivery, Durable, DurableBuilder, DurableId, Memory};

/// Timers of a slow kind.
const SLOW: usize = 60;

/// Timers of a fast kind.
const FAST: usize = 100;

/// Handlers wait here until they are let go. It counts what happens.
#[derive(Clone, Default)]
struct Gate {
    inner: Arc<(Mutex<bool>, Condvar)>,
    slow: Arc<AtomicUsize>,
    fast: Arc<AtomicUsize>,
    /// Calls of slow handlers that run, and the most of them at one time.
    running: Arc<AtomicUsize>,
    running_max: Arc<AtomicUsize>,
}

impl Gate {
    /// A slow handler has these timers.
    fn block(&self, timers: usize) {
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.running_max.fetch_max(running, SeqCst);
        let (is_open, opened) = &*self.inner;
        let is_shut = |is_open: &mut bool| !*is_open;
        drop(opened.wait_while(is_open.lock().unwrap(), is_shut).unwrap());
        self.slow.fetch_add(timers, SeqCst);
        self.running.fetch_sub(1, SeqCst);
    }

    fn open(&self) {
        *self.inner.0.lock().unwrap() = true;
        self.inner.1.notify_all();
    }

    /// Adds a slow kind.
    fn slow(&self, to: DurableBuilder<Memory>, kind: &str) -> DurableBuilder<Memory> {
        let gate = self.clone();
        to.on(kind, move |_: &Delivery| {
            gate.block(1);
            Ok(())
        })
    }

    /// Adds a fast kind.
    fn fast(&self, to: DurableBuilder<Memory>, kind: &str) -> DurableBuilder<Memory> {
        let fast = self.fast.clone();
        to.on(kind, move |_| {
            fast.fetch_add(1, SeqCst);
            Ok(())
        })
    }
}

/// Opens the gate when it goes, so that a test that fails ends.
struct Opened<'a>(&'a Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Waits until it is so. Only something that hangs makes it fail.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}: not within a minute");
}

fn open(workers: usize) -> DurableBuilder<Memory> {
    Durable::builder(Memory::new()).dispatch(Dispatch::RayonThreads(workers))
}

/// Arms this number of timers of a kind, which are due at once.
fn arm(timers: &Durable, kind: &str, count: usize) -> Vec<DurableId> {
    let some = (0..count).map(|_| (kind, Duration::ZERO, ""));
    timers.schedule_many(some).unwrap()
}

/// All timers of a fast kind run while the slow ones block. Then all the others do.
fn fast_ones_run(timers: &Durable, gate: &Gate, slow: &[&str], fast: &str) {
    let opened = Opened(gate);
    for kind in slow {
        arm(timers, kind, SLOW);
    }
    until("a slow handler begins", || {
        gate.running.load(SeqCst) > 0 || gate.slow.load(SeqCst) > 0
    });
    arm(timers, fast, FAST);
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    assert_eq!(gate.slow.load(SeqCst), 0, "the slow ones block");
    drop(opened);
    let all = slow.len() * SLOW;
    until("the slow ones", || gate.slow.load(SeqCst) == all);
    timers.stop().unwrap();
    assert_eq!(timers.stats().done as usize, all + FAST);
}

#[test]
fn a_fast_kind_runs_beside_a_slow_one() {
    let gate = Gate::default();
    let timers = gate.fast(gate.slow(open(2), "slow"), "fast");
    fast_ones_run(&timers.start().unwrap(), &gate, &["slow"], "fast");
    // As many as the pool has workers, and one.
    assert!(gate.running_max.load(SeqCst) <= 3);
}

#[test]
fn a_fast_kind_runs_beside_three_slow_ones() {
    let gate = Gate::default();
    let slow = ["one", "two", "three"];
    let timers = slow.iter().fold(open(2), |to, kind| gate.slow(to, kind));
    let timers = gate.fast(timers, "fast").start().unwrap();
    fast_ones_run(&timers, &gate, &slow, "fast");
}

#[test]
fn one_worker_is_enough() {
    let gate = Gate::default();
    let timers = gate.fast(gate.slow(open(1), "slow"), "fast");
    fast_ones_run(&timers.start().unwrap(), &gate, &["slow"], "fast");
}

/// The shard is pinned to a core, and what it starts is not.
#[test]
fn a_thread_beside_the_pool_may_use_all_cores() {
    let gate = Gate::default();
    let cores = || std::thread::available_parallelism().unwrap().get();
    let (all, fewest) = (cores(), Arc::new(AtomicUsize::new(usize::MAX)));
    let (noted, fast) = (fewest.clone(), gate.fast.clone());
    let timers = gate.slow(open(2), "slow").on("fast", move |_| {
        noted.fetch_min(cores(), SeqCst);
        fast.fetch_add(1, SeqCst);
        Ok(())
    });
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let some = (0..2 * FAST).map(|at| (["slow", "fast"][at % 2], Duration::ZERO, ""));
    timers.schedule_many(some).unwrap();
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    assert_eq!(fewest.load(SeqCst), all);
    drop(opened);
    timers.stop().unwrap();
}

#[test]
fn timers_that_are_due_together_are_told_apart() {
    let gate = Gate::default();
    let timers = gate.fast(gate.slow(open(2), "slow"), "fast");
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let some = (0..2 * FAST).map(|at| (["slow", "fast"][at % 2], Duration::ZERO, ""));
    timers.schedule_many(some).unwrap();
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    assert_eq!(gate.slow.load(SeqCst), 0, "the slow ones block");
    drop(opened);
    timers.stop().unwrap();
}

#[test]
fn a_fast_kind_runs_beside_slow_batches() {
    let gate = Gate::default();
    let slow = gate.clone();
    let timers = gate.fast(open(2), "fast").on_batch("slow", move |all| {
        slow.block(all.len());
        all.iter().map(|_| Ok(())).collect()
    });
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let some = (0..2 * FAST).map(|at| (["slow", "fast"][at % 2], Duration::ZERO, ""));
    timers.schedule_many(some).unwrap();
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    assert_eq!(gate.slow.load(SeqCst), 0, "the slow ones block");
    drop(opened);
    until("the slow ones", || gate.slow.load(SeqCst) == FAST);
    timers.stop().unwrap();
}

#[test]
fn a_fast_batch_runs_beside_a_slow_kind() {
    let gate = Gate::default();
    let fast = gate.fast.clone();
    let timers = gate.slow(open(2), "slow").on_batch("fast", move |all| {
        fast.fetch_add(all.len(), SeqCst);
        all.iter().map(|_| Ok(())).collect()
    });
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let some = (0..2 * FAST).map(|at| (["fast", "slow"][at % 2], Duration::ZERO, ""));
    timers.schedule_many(some).unwrap();
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    assert_eq!(gate.slow.load(SeqCst), 0, "the slow ones block");
    drop(opened);
    timers.stop().unwrap();
}

#[test]
fn async_kinds_run_beside_a_slow_one() {
    let gate = Gate::default();
    let fast = gate.fast.clone();
    let timers = gate
        .slow(open(2), "slow")
        .spawner(|future| {
            std::thread::spawn(move || futures_lite::future::block_on(future));
        })
        .on_async("fast", move |_| {
            fast.fetch_add(1, SeqCst);
            async { Ok(()) }
        })
        .max_calls("fast", NonZeroUsize::MIN);
    fast_ones_run(&timers.start().unwrap(), &gate, &["slow"], "fast");
}

#[test]
fn a_limit_holds_beside_a_slow_kind() {
    let (gate, inside) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (fast, is_exceeded) = (gate.fast.clone(), Arc::new(AtomicBool::new(false)));
    let exceeded = is_exceeded.clone();
    let timers = gate
        .slow(open(2), "slow")
        .on("fast", move |_| {
            if inside.fetch_add(1, SeqCst) > 0 {
                exceeded.store(true, SeqCst);
            }
            std::thread::yield_now();
            inside.fetch_sub(1, SeqCst);
            fast.fetch_add(1, SeqCst);
            Ok(())
        })
        .max_calls("fast", NonZeroUsize::MIN);
    fast_ones_run(&timers.start().unwrap(), &gate, &["slow"], "fast");
    assert!(!is_exceeded.load(SeqCst));
}

#[test]
fn a_timer_that_waits_can_be_cancelled() {
    let gate = Gate::default();
    let timers = gate.fast(gate.slow(open(2), "slow"), "fast");
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let ids = arm(&timers, "slow", SLOW);
    // Both workers, and a thread beside them.
    until("all are blocked", || gate.running.load(SeqCst) == 3);
    // (The fast ones lie behind the slow ones, which wait for a call by then.)
    arm(&timers, "fast", FAST);
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    let cancelled = ids.iter().filter(|&&id| timers.cancel(id).unwrap()).count();
    assert_eq!(cancelled, SLOW - 3, "what waits can be cancelled");
    drop(opened);
    timers.stop().unwrap();
    assert_eq!(gate.slow.load(SeqCst), 3, "a cancel that was true");
    assert_eq!(timers.stats().done as usize, 3 + FAST);
}

#[test]
fn a_timer_that_waits_for_a_limit_can_be_cancelled() {
    let gate = Gate::default();
    let timers = gate
        .slow(open(2), "slow")
        .max_calls("slow", NonZeroUsize::MIN);
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    let ids = arm(&timers, "slow", SLOW);
    until("one begins", || gate.running.load(SeqCst) == 1);
    // The other worker takes what has come due, and leaves it to wait.
    let cancelled = AtomicUsize::new(0);
    until("all the others are cancelled", || {
        let now = ids.iter().filter(|&&id| timers.cancel(id).unwrap()).count();
        cancelled.fetch_add(now, SeqCst) + now == SLOW - 1
    });
    drop(opened);
    timers.stop().unwrap();
    assert_eq!(gate.slow.load(SeqCst), 1, "a cancel that was true");
}

#[test]
fn a_stop_leaves_what_waits() {
    let (gate, store) = (Gate::default(), Memory::new());
    let timers = Durable::builder(store.clone()).dispatch(Dispatch::RayonThreads(2));
    let timers = gate.fast(gate.slow(timers, "slow"), "fast");
    let timers = timers.start().unwrap();
    let opened = Opened(&gate);
    arm(&timers, "slow", SLOW);
    until("all are blocked", || gate.running.load(SeqCst) == 3);
    arm(&timers, "fast", FAST);
    until("the fast ones", || gate.fast.load(SeqCst) == FAST);
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| timers.stop());
        // It waits for the handlers that run, and has let go of what waits.
        until("the stop", || timers.stats().window_rows <= 3);
        drop(opened);
        stop.join().unwrap().unwrap();
    });
    let begun = gate.slow.load(SeqCst);
    assert_eq!(timers.stats().done as usize, begun + FAST);
    drop(timers);
    // A later service handles all the others.
    let gate = Gate::default();
    gate.open();
    let timers = gate.fast(gate.slow(Durable::builder(store), "slow"), "fast");
    let timers = timers.start().unwrap();
    until("the others", || gate.slow.load(SeqCst) == SLOW - begun);
    timers.stop().unwrap();
}
