//! Jobs that several workers share: src/dispatch/job.rs and grain.rs. A grain has three entries
//! here. The pool is a queue of the model's.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, Thread};
use std::sync::Arc;
use std::time::Duration;
use wheelwork::internals::loom::{Entry, Fault, relieved_job, share_job};
use wheelwork::{Batch, ManualClock, TimerService};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail, spawn};

type Work = Box<dyn FnOnce() + Send>;

/// A pool: offers that wait, and how many timers have not been run. Who takes an offer comes after
/// those that were left before; it orders little else.
struct Pool {
    offers: std::sync::Mutex<Vec<Work>>,
    waiting: AtomicUsize,
    left: AtomicUsize,
    parked: std::sync::Mutex<Vec<Thread>>,
}

impl Pool {
    fn new(timers: usize) -> Arc<Self> {
        let (offers, parked) = Default::default();
        Arc::new(Self {
            offers,
            waiting: AtomicUsize::new(0),
            left: AtomicUsize::new(timers),
            parked,
        })
    }

    fn push(&self, work: Work) {
        self.offers.lock().unwrap().push(work);
        self.waiting.fetch_add(1, Ordering::Release);
        self.changed();
    }

    fn pop(&self) -> Option<Work> {
        let some_wait = self.waiting.fetch_add(0, Ordering::Acquire) > 0;
        let work = if some_wait {
            self.offers.lock().unwrap().pop()
        } else {
            None
        };
        work.inspect(|_| _ = self.waiting.fetch_sub(1, Ordering::Relaxed))
    }

    fn left(&self) -> usize {
        self.left.fetch_add(0, Ordering::Relaxed)
    }

    fn has_run(&self) {
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.changed();
    }

    fn changed(&self) {
        let parked = std::mem::take(&mut *self.parked.lock().unwrap());
        parked.iter().for_each(Thread::unpark);
    }

    /// Sleeps until there is what is looked for.
    fn wait_for<R>(&self, mut look: impl FnMut() -> Option<R>) -> R {
        loop {
            self.parked.lock().unwrap().push(thread::current());
            match look() {
                Some(found) => return found,
                None => thread::park(),
            }
        }
    }

    /// A worker, until all timers have been run.
    fn work(&self) {
        let look = || {
            self.pop()
                .map(Some)
                .or_else(|| (self.left() == 0).then_some(None))
        };
        while let Some(work) = self.wait_for(look) {
            work();
        }
    }

    /// Waits until at most `left` are left.
    fn wait_until_left(&self, left: usize) {
        self.wait_for(|| (self.left() <= left).then_some(()));
    }
}

/// What the timers of a job are.
#[derive(Clone, Copy)]
enum Kind {
    Payloads,
    /// Periodic timers, for one run.
    Runs,
}

/// The workers share a job of `N` timers, of which those that are `slow` wait until only slow
/// ones are left.
fn share<const N: usize>(kind: Kind, workers: usize, slow: &'static [usize]) {
    const TICK: Duration = Duration::from_micros(1);
    let (fired, pool) = (Arc::new(Ledger::<N>::new()), Pool::new(N));
    let (noted, gate) = (fired.clone(), pool.clone());
    let fire = Arc::new(move |timer| {
        assert_eq!(noted.add(timer), 1, "fired twice");
        if slow.contains(&timer) {
            gate.wait_until_left(slow.len());
        }
        gate.has_run();
    });
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock).tick(TICK).shards(1);
    let of_payloads = fire.clone();
    let service = builder.on_expire(move |batch: &mut Batch<'_, usize>| {
        batch.for_each(|payload| of_payloads(payload));
    });
    let service = Held::new(service.start().expect("a manual service starts"));
    let arm = |timer| match kind {
        Kind::Payloads => service.schedule(TICK, timer).expect("not stopped"),
        Kind::Runs => {
            let (fire, once) = (fire.clone(), service.every(TICK).times(1));
            once.start(move || fire(timer)).expect("not stopped")
        }
    };
    let ids: Vec<_> = (0..N).map(arm).collect();
    let entries: Vec<_> = ids.into_iter().map(|id| Entry::of(id, 1)).collect();
    // loom does not like a thread to be unparked while it joins another: so this one does nothing
    // else.
    let (job_pool, handle) = (pool.clone(), service.handle());
    let first = spawn(move || {
        let offers = job_pool.clone();
        share_job(&handle, &entries, move |work| offers.push(work));
        job_pool.work();
    });
    let others: Vec<_> = (1..workers)
        .map(|_| {
            let pool = pool.clone();
            spawn(move || pool.work())
        })
        .collect();
    first.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(service.stats().panics, 0, "a handler has panicked");
    assert_eq!(fired.counts(), [1; N], "each is fired once");
}

fn two_workers() {
    spawn(|| share::<2>(Kind::Payloads, 2, &[])).join().unwrap();
}

/// The fourth timer is slow: the fifth one, of the same grain, is the other worker's.
fn a_slow_one() {
    spawn(|| share::<5>(Kind::Payloads, 2, &[3]))
        .join()
        .unwrap();
}

/// Two of a grain are slow, and one of them is taken by one that helps.
fn two_slow_ones() {
    spawn(|| share::<3>(Kind::Payloads, 3, &[0, 1]))
        .join()
        .unwrap();
}

fn runs_of_two_workers() {
    spawn(|| share::<2>(Kind::Runs, 2, &[])).join().unwrap();
}

/// The first run is slow: the second one, of the same grain, is the other worker's.
fn a_slow_run() {
    spawn(|| share::<2>(Kind::Runs, 2, &[0])).join().unwrap();
}

/// A worker of the pool begins a job, and a thread that relieves the pool begins or joins it.
fn relieved() {
    let fired = Arc::new(Ledger::<2>::new());
    let noted = fired.clone();
    let builder = TimerService::builder()
        .clock(ManualClock::new())
        .tick(Duration::from_micros(1))
        .shards(1);
    let service = builder.on_expire(move |batch: &mut Batch<'_, usize>| {
        for payload in batch {
            assert_eq!(noted.add(payload), 1, "fired twice");
        }
    });
    let service = Held::new(service.start().expect("a manual service starts"));
    let entries: Vec<_> = (0..2)
        .map(|payload| {
            let id = service.schedule(Duration::from_micros(1), payload);
            Entry::of(id.expect("not stopped"), 1)
        })
        .collect();
    let (job, left) = relieved_job(&service.handle(), &entries);
    drop(left);
    let threads: Vec<_> = (0..2).map(|_| spawn(job.clone())).collect();
    let begun = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(
        begun.filter(|&is_first| is_first).count(),
        1,
        "first workers"
    );
    drop(job);
    assert_eq!(service.stats().panics, 0, "a handler has panicked");
    assert_eq!(fired.counts(), [1; 2], "each is fired once");
}

/// A worker begins a job of one timer while its shard looks whether something is left.
fn looked_at() {
    let is_forgotten = Arc::new(AtomicUsize::new(0));
    let forgotten = is_forgotten.clone();
    let builder = TimerService::builder()
        .clock(ManualClock::new())
        .tick(Duration::from_micros(1))
        .shards(1);
    let service = builder.on_expire(move |batch: &mut Batch<'_, usize>| {
        let before = forgotten.load(Ordering::Acquire);
        if batch.next().is_some() {
            assert_eq!(before, 0, "the shard has forgotten it");
        }
    });
    let service = Held::new(service.start().expect("a manual service starts"));
    let id = service.schedule(Duration::from_micros(1), 0);
    let entry = Entry::of(id.expect("not stopped"), 1);
    let (job, left) = relieved_job(&service.handle(), &[entry]);
    let worker = spawn(job);
    let shard = spawn(move || {
        if left() == 0 {
            is_forgotten.store(1, Ordering::Release);
        }
    });
    worker.join().unwrap();
    shard.join().unwrap();
    assert_eq!(service.stats().panics, 0, "a handler has panicked");
}

#[test]
fn no_shard_forgets_a_job_of_which_something_is_left() {
    explore(Some(2), || spawn(looked_at).join().unwrap());
}

#[test]
fn broken_left() {
    must_fail(
        Fault::LeftByClaims,
        "a handler has panicked",
        Some(2),
        || spawn(looked_at).join().unwrap(),
    );
}

#[test]
fn a_job_has_one_first_worker() {
    explore(Some(2), || spawn(relieved).join().unwrap());
}

#[test]
fn broken_begin() {
    must_fail(Fault::JobBegunTwice, "first workers", Some(2), || {
        spawn(relieved).join().unwrap()
    });
}

#[test]
fn each_payload_is_taken_once() {
    explore(Some(2), two_workers);
}

#[test]
fn a_slow_task_delays_nobody_while_a_worker_is_idle() {
    explore(Some(1), a_slow_one);
}

#[test]
fn two_slow_tasks_delay_nobody_while_a_worker_is_idle() {
    explore(Some(0), two_slow_ones);
}

#[test]
fn each_run_is_taken_once() {
    explore(Some(2), runs_of_two_workers);
}

#[test]
fn a_slow_run_delays_nobody_while_a_worker_is_idle() {
    explore(Some(1), a_slow_run);
}

#[test]
fn broken_look_for_runs() {
    must_fail(Fault::LeftWithoutRuns, "deadlock", Some(1), a_slow_run);
}

/// loom complains inside the handler, the service counts a panic, and its timer is never done.
#[test]
fn broken_fill() {
    must_fail(Fault::GrainFillRelaxed, "deadlock", Some(1), a_slow_one);
}

#[test]
fn broken_take() {
    must_fail(
        Fault::GrainTakeNotAtomic,
        "a handler has panicked",
        Some(2),
        two_workers,
    );
}

#[test]
fn broken_offer() {
    must_fail(Fault::OfferRelaxed, "deadlock", Some(1), a_slow_one);
}

#[test]
fn broken_renewal() {
    must_fail(Fault::OfferNotRenewed, "deadlock", Some(0), two_slow_ones);
}
