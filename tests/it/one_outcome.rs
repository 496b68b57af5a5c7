//! Promise: exactly one outcome. Every timer that was accepted is fired once, or cancelled once, or
//! handed back by `stop`; none is lost, none doubled, none early, whoever races whom. On the real
//! clock.

use fastrand::Rng;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, Dispatch, ScheduleError, ServiceHandle, Task, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What became of the timers of a test.
#[derive(Default)]
struct Ledger {
    tried: AtomicUsize,
    rejected: AtomicUsize,
    fired: AtomicUsize,
    cancelled: AtomicUsize,
    dropped: AtomicUsize,
    early: AtomicUsize,
}

/// One timer's payload: tells the ledger when it fires and when it is dropped.
struct Token {
    ledger: Arc<Ledger>,
    due: Instant,
}

impl Token {
    fn new(ledger: &Arc<Ledger>, delay: Duration) -> Self {
        ledger.tried.fetch_add(1, Relaxed);
        Self {
            ledger: ledger.clone(),
            due: Instant::now() + delay,
        }
    }

    fn fire(self) {
        if Instant::now() < self.due {
            self.ledger.early.fetch_add(1, Relaxed);
        }
        self.ledger.fired.fetch_add(1, Relaxed);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.ledger.dropped.fetch_add(1, Relaxed);
    }
}

impl Ledger {
    /// After everything has come to an end.
    fn balance(&self, handed_back: usize, what: &str) {
        let [tried, rejected, fired, cancelled, dropped] = [
            &self.tried,
            &self.rejected,
            &self.fired,
            &self.cancelled,
            &self.dropped,
        ]
        .map(|counter| counter.load(Relaxed));
        assert_eq!(
            tried,
            rejected + fired + cancelled + handed_back,
            "{what}: {rejected} + {fired} + {cancelled} + {handed_back}"
        );
        assert_eq!(dropped, tried, "{what}: each payload is dropped once");
        assert_eq!(self.early.load(Relaxed), 0, "{what}: early");
    }
}

/// Where threads leave ids for others to cancel.
struct Board(Vec<Mutex<Option<TimerId>>>);

impl Board {
    fn new() -> Self {
        Self((0..256).map(|_| Mutex::new(None)).collect())
    }

    fn swap(&self, place: u64, id: Option<TimerId>) -> Option<TimerId> {
        std::mem::replace(
            &mut self.0[place as usize % self.0.len()].lock().unwrap(),
            id,
        )
    }
}

/// Arms a timer for up to 30 ms, and cancels one that some thread has armed.
fn arm_and_cancel<T: Send>(
    handle: &ServiceHandle<T>,
    ledger: &Arc<Ledger>,
    board: &Board,
    random: &mut Rng,
    make: impl Fn(Token) -> T,
) {
    let delay = Duration::from_micros(random.u64(..30_000));
    let token = make(Token::new(ledger, delay));
    let at = Instant::now() + delay;
    let armed = if random.u64(..4) == 0 {
        handle.schedule_at(at, token)
    } else {
        handle.schedule(delay, token)
    };
    let id = armed
        .map_err(|_| ledger.rejected.fetch_add(1, Relaxed))
        .ok();
    let other = board.swap(random.u64(..1 << 20), id);
    if let Some(other) = other
        && random.u64(..8) > 0
    {
        let cancelled = if random.u64(..2) == 0 {
            handle.cancel(other)
        } else {
            handle.take(other).is_some()
        };
        ledger.cancelled.fetch_add(usize::from(cancelled), Relaxed);
        assert!(!handle.is_pending(other), "cancelled or gone");
    }
}

/// Threads arm and cancel each other's timers; then, or meanwhile, the service is stopped.
fn race<T: Send + 'static>(
    service: &TimerService<T>,
    ledger: &Arc<Ledger>,
    what: &str,
    make: impl Fn(Token) -> T + Sync,
) {
    const THREADS: u64 = 4;
    const TIMERS: usize = 4_000;
    let (board, handle) = (Board::new(), service.handle());
    let stop_meanwhile = what.contains("stopped meanwhile");
    let unfired = thread::scope(|scope| {
        for thread in 0..THREADS {
            let (handle, ledger, board, make) = (&handle, ledger, &board, &make);
            scope.spawn(move || {
                let mut random = Rng::with_seed(0x9E37_79B9 + thread);
                (0..TIMERS).for_each(|_| arm_and_cancel(handle, ledger, board, &mut random, make));
            });
        }
        if stop_meanwhile {
            while ledger.tried.load(Relaxed) < TIMERS {
                thread::yield_now();
            }
            return Some(service.stop());
        }
        None
    });
    if !stop_meanwhile {
        // Half of what is left may fire.
        let tried = ledger.tried.load(Relaxed);
        let over = |ledger: &Ledger| ledger.fired.load(Relaxed) + ledger.cancelled.load(Relaxed);
        let left = tried - over(ledger);
        while over(ledger) < tried - left / 2 {
            thread::sleep(MS);
        }
    }
    let unfired = unfired.unwrap_or_else(|| service.stop());
    let handed_back = unfired.len();
    drop(unfired);
    ledger.balance(handed_back, what);
    let stats = service.stats();
    let counted = [
        stats.timers.fired,
        stats.timers.cancelled,
        stats.timers.handed_back,
        stats.timers.pending,
    ];
    let expected = [
        ledger.fired.load(Relaxed),
        ledger.cancelled.load(Relaxed),
        handed_back,
        0,
    ];
    assert_eq!(counted.map(|count| count as usize), expected, "{what}");
    assert_eq!(stats.panics, 0, "{what}");
}

fn dispatches() -> Vec<Dispatch> {
    let pool = rayon_pool();
    vec![
        Dispatch::Inline,
        Dispatch::Rayon,
        Dispatch::RayonThreads(1),
        Dispatch::Pool(pool),
        executor(),
    ]
}

/// Two threads that run jobs as they come.
fn executor() -> Dispatch {
    let (jobs, run) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let run = Arc::new(Mutex::new(run));
    for _ in 0..2 {
        let run = run.clone();
        thread::spawn(move || {
            while let Ok(job) = { run.lock().unwrap().recv() } {
                job();
            }
        });
    }
    Dispatch::executor(move |job| jobs.send(job).unwrap())
}

fn rayon_pool() -> Arc<rayon::ThreadPool> {
    Arc::new(
        rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap(),
    )
}

fn typed(dispatch: Dispatch, shards: usize) -> TimerService<Token> {
    let handler = |batch: &mut Batch<'_, Token>| batch.for_each(Token::fire);
    TimerService::builder()
        .dispatch(dispatch)
        .shards(shards)
        .on_expire(handler)
        .start()
        .unwrap()
}

fn everywhere(what: &str, test: impl Fn(Dispatch, usize, &str)) {
    for dispatch in dispatches() {
        for shards in [1, 3] {
            let what = format!("{what}, {dispatch:?}, {shards} shards");
            test(dispatch.clone(), shards, &what);
        }
    }
}

#[test]
fn with_typed_payloads() {
    everywhere("typed", |dispatch, shards, what| {
        race(&typed(dispatch, shards), &Arc::default(), what, |token| {
            token
        })
    });
}

#[test]
fn with_typed_payloads_while_the_service_stops() {
    everywhere("stopped meanwhile", |dispatch, shards, what| {
        race(&typed(dispatch, shards), &Arc::default(), what, |token| {
            token
        })
    });
}

#[test]
fn with_small_closures() {
    everywhere("small closures", |dispatch, shards, what| {
        let service = TimerService::builder()
            .dispatch(dispatch)
            .shards(shards)
            .start()
            .unwrap();
        race(&service, &Arc::default(), what, |token| {
            Task::new(move || token.fire())
        });
    });
}

#[test]
fn with_boxed_closures() {
    everywhere("boxed closures", |dispatch, shards, what| {
        let service = TimerService::builder()
            .dispatch(dispatch)
            .shards(shards)
            .start()
            .unwrap();
        race(&service, &Arc::default(), what, |token| {
            let room = [7u64; 20];
            Task::new(move || {
                assert_eq!(room, [7; 20]);
                token.fire();
            })
        });
    });
}

#[test]
fn with_closures_while_the_service_stops() {
    everywhere("closures, stopped meanwhile", |dispatch, shards, what| {
        let service = TimerService::builder()
            .dispatch(dispatch)
            .shards(shards)
            .start()
            .unwrap();
        race(&service, &Arc::default(), what, |token| {
            Task::new(move || token.fire())
        });
    });
}

#[test]
fn with_a_pool_that_two_services_share() {
    let pool = rayon_pool();
    let (one, other) = (
        typed(Dispatch::Pool(pool.clone()), 1),
        typed(Dispatch::Pool(pool.clone()), 2),
    );
    thread::scope(|scope| {
        scope.spawn(|| race(&one, &Arc::default(), "one", |token| token));
        scope.spawn(|| {
            race(
                &other,
                &Arc::default(),
                "other, stopped meanwhile",
                |token| token,
            )
        });
    });
    assert_eq!(pool.install(|| 7), 7, "the pool lives on");
}

#[test]
fn when_the_ids_of_two_services_are_mixed_up() {
    let ledgers: [Arc<Ledger>; 2] = Default::default();
    let services = [typed(Dispatch::Inline, 1), typed(Dispatch::Rayon, 2)];
    let boards = [Board::new(), Board::new()];
    thread::scope(|scope| {
        for seed in 1..4 {
            let (services, boards, ledgers) = (&services, &boards, &ledgers);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                for _ in 0..2_000 {
                    for own in 0..2 {
                        arm_and_cancel(
                            &services[own],
                            &ledgers[own],
                            &boards[own],
                            &mut random,
                            |token| token,
                        );
                        let place = random.u64(..256);
                        if let Some(foreign) = boards[1 - own].swap(place, None) {
                            assert!(
                                !services[own].cancel(foreign)
                                    && !services[own].is_pending(foreign)
                            );
                            boards[1 - own].swap(place, Some(foreign));
                        }
                    }
                }
            });
        }
    });
    for (service, ledger) in services.iter().zip(&ledgers) {
        let handed_back = service.stop().len();
        ledger.balance(handed_back, "mixed up");
    }
}

#[test]
fn when_threads_live_for_a_few_timers_only() {
    for dispatch in dispatches() {
        let (service, ledger, board) = (typed(dispatch, 2), Arc::default(), Board::new());
        for wave in 0..60 {
            thread::scope(|scope| {
                for thread in 0..6 {
                    let (service, ledger, board) = (&service, &ledger, &board);
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(1 + wave * 6 + thread);
                        (0..40).for_each(|_| {
                            arm_and_cancel(service, ledger, board, &mut random, |token| token)
                        });
                    });
                }
            });
        }
        let handed_back = service.stop().len();
        ledger.balance(handed_back, "short-lived threads");
    }
}

#[test]
fn when_one_cancel_of_many_succeeds() {
    const THREADS: usize = 3;
    let (service, ledger) = (typed(Dispatch::Rayon, 2), Arc::<Ledger>::default());
    let (barrier, ids) = (Barrier::new(THREADS), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (service, ledger, barrier, ids) = (&service, &ledger, &barrier, &ids);
            scope.spawn(move || {
                for round in 0..60 {
                    if barrier.wait().is_leader() {
                        // Due at about the time at which they are cancelled.
                        let delay = MS * (round % 3);
                        *ids.lock().unwrap() = (0..100)
                            .map(|_| service.schedule(delay, Token::new(ledger, delay)).unwrap())
                            .collect::<Vec<_>>();
                    }
                    barrier.wait();
                    let ids = ids.lock().unwrap().clone();
                    if thread == 0 && round % 2 == 0 {
                        thread::sleep(MS);
                    }
                    let cancelled = ids.iter().filter(|&&id| service.cancel(id)).count();
                    ledger.cancelled.fetch_add(cancelled, Relaxed);
                    barrier.wait();
                }
            });
        }
    });
    let handed_back = service.stop().len();
    assert_eq!(handed_back, 0, "all were cancelled, or fired");
    ledger.balance(handed_back, "one of many");
}

#[test]
fn when_tasks_arm_and_cancel() {
    everywhere("from tasks", |dispatch, shards, what| {
        let ledger = Arc::<Ledger>::default();
        let service = TimerService::builder()
            .dispatch(dispatch)
            .shards(shards)
            .start()
            .unwrap();
        // Each task arms two: one that goes on, and one that the next task cancels, or that fires
        // before.
        fn step(
            handle: ServiceHandle,
            ledger: Arc<Ledger>,
            steps: u32,
            victim: Option<TimerId>,
        ) -> impl FnOnce() + Send {
            let token = Token::new(&ledger, Duration::ZERO);
            move || {
                token.fire();
                let cancelled = victim.is_some_and(|id| handle.cancel(id));
                ledger.cancelled.fetch_add(usize::from(cancelled), Relaxed);
                if steps > 0 {
                    let delay = MS * (steps % 3);
                    let token = Token::new(&ledger, delay);
                    let victim = handle
                        .schedule(delay, move || token.fire())
                        .map_err(|_| ledger.rejected.fetch_add(1, Relaxed));
                    let next = step(handle.clone(), ledger.clone(), steps - 1, victim.ok());
                    let _ = handle
                        .schedule(MS, next)
                        .map_err(|_| ledger.rejected.fetch_add(1, Relaxed));
                }
            }
        }
        for _ in 0..40 {
            service
                .schedule(MS, step(service.handle(), ledger.clone(), 20, None))
                .unwrap();
        }
        // 40 chains of 21 tasks, and 20 victims each.
        let over = || ledger.fired.load(Relaxed) + ledger.cancelled.load(Relaxed);
        while over() < 40 * (21 + 20) / 2 {
            thread::sleep(MS);
        }
        let unfired = service.stop();
        let handed_back = unfired.len();
        drop(unfired);
        ledger.balance(handed_back, what);
    });
}

/// Arms its successor when it is dropped.
struct Heir {
    handle: ServiceHandle<Heir>,
    ledger: Arc<Ledger>,
    lives: u32,
}

impl Drop for Heir {
    fn drop(&mut self) {
        self.ledger.dropped.fetch_add(1, Relaxed);
        if self.lives > 0 {
            self.ledger.tried.fetch_add(1, Relaxed);
            let heir = Heir {
                handle: self.handle.clone(),
                ledger: self.ledger.clone(),
                lives: self.lives - 1,
            };
            match self.handle.schedule(MS, heir) {
                Ok(id) if self.lives.is_multiple_of(2) => {
                    // The heir dies here, in its turn, unless it has fired.
                    let cancelled = self.handle.cancel(id);
                    self.ledger
                        .cancelled
                        .fetch_add(usize::from(cancelled), Relaxed);
                }
                Ok(_) => {}
                Err(error) => {
                    self.ledger.rejected.fetch_add(1, Relaxed);
                    drop(error);
                }
            }
        }
    }
}

#[test]
fn when_payloads_arm_and_cancel_in_their_drop() {
    everywhere("from drops", |dispatch, shards, what| {
        let ledger = Arc::<Ledger>::default();
        let count = ledger.clone();
        let handler = move |batch: &mut Batch<'_, Heir>| {
            for heir in batch {
                count.fired.fetch_add(1, Relaxed);
                drop(heir);
            }
        };
        let service = TimerService::builder()
            .dispatch(dispatch)
            .shards(shards)
            .on_expire(handler)
            .start()
            .unwrap();
        let ids: Vec<_> = (0..200)
            .map(|number| {
                ledger.tried.fetch_add(1, Relaxed);
                let heir = Heir {
                    handle: service.handle(),
                    ledger: ledger.clone(),
                    lives: 10,
                };
                service
                    .schedule(if number % 2 == 0 { MS } else { HOUR }, heir)
                    .unwrap()
            })
            .collect();
        for &id in ids.iter().skip(1).step_by(4) {
            assert!(service.cancel(id));
            ledger.cancelled.fetch_add(1, Relaxed);
        }
        while ledger.fired.load(Relaxed) < 100 {
            thread::sleep(MS);
        }
        let unfired = service.stop();
        let handed_back = unfired.len();
        // Here the rest dies, and its heirs are rejected.
        drop(unfired);
        ledger.balance(handed_back, what);
    });
}

/// Calls a service when its thread's locals are destroyed.
struct LastWill {
    handle: ServiceHandle<Token>,
    ledger: Arc<Ledger>,
    victim: TimerId,
}

impl Drop for LastWill {
    fn drop(&mut self) {
        let Self {
            handle,
            ledger,
            victim,
        } = self;
        for number in 0..100 {
            let delay = MS * (number % 3);
            let id = handle.schedule(delay, Token::new(ledger, delay)).unwrap();
            if number % 2 == 0 {
                ledger
                    .cancelled
                    .fetch_add(usize::from(handle.cancel(id)), Relaxed);
                assert!(!handle.is_pending(id));
            }
        }
        assert!(handle.is_pending(*victim) && handle.cancel(*victim));
        ledger.cancelled.fetch_add(1, Relaxed);
    }
}

#[test]
fn when_thread_locals_arm_and_cancel_in_their_destructors() {
    thread_local! {
        static FIRST: RefCell<Option<LastWill>> = const { RefCell::new(None) };
        static SECOND: RefCell<Option<LastWill>> = const { RefCell::new(None) };
    }
    for dispatch in dispatches() {
        let (service, ledger) = (typed(dispatch, 2), Arc::<Ledger>::default());
        for calls_before in [false, true] {
            for _ in 0..4 {
                let armed = |_| service.schedule(HOUR, Token::new(&ledger, HOUR)).unwrap();
                let [first, second] = [0, 1].map(armed);
                let will = |victim| {
                    Some(LastWill {
                        handle: service.handle(),
                        ledger: ledger.clone(),
                        victim,
                    })
                };
                let (first, second) = (will(first), will(second));
                let (handle, ledger) = (service.handle(), ledger.clone());
                // One destructor is registered before those of the service, one after.
                let thread = thread::spawn(move || {
                    FIRST.set(first);
                    if calls_before {
                        handle.schedule(MS, Token::new(&ledger, MS)).unwrap();
                    }
                    SECOND.set(second);
                });
                thread.join().unwrap();
            }
        }
        let handed_back = service.stop().len();
        ledger.balance(handed_back, "from thread-locals");
    }
}

/// The `Instant` before the call and the delay bound the time of firing from below, for threads
/// that call often, seldom and after a sleep.
#[test]
fn never_early_by_the_clock_of_the_caller() {
    for tick in [
        Duration::from_micros(1),
        Duration::from_micros(333),
        MS,
        MS * 7,
    ] {
        static EARLY: OnceLock<Mutex<Vec<Duration>>> = OnceLock::new();
        let early = EARLY.get_or_init(Mutex::default);
        let (fired, done) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        let count = fired.clone();
        let handler = move |batch: &mut Batch<'_, Instant>| {
            for due in batch {
                let now = Instant::now();
                if now < due {
                    early.lock().unwrap().push(due - now);
                }
                count.fetch_add(1, Relaxed);
            }
        };
        let service = TimerService::builder()
            .tick(tick)
            .shards(2)
            .dispatch(Dispatch::Inline)
            .on_expire(handler)
            .start()
            .unwrap();
        let mut armed = 0;
        thread::scope(|scope| {
            // Keeps the cores busy, so that clocks are read on changing ones.
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    thread::yield_now();
                }
            });
            let mut random = Rng::with_seed(7);
            for round in 0..60 {
                for _ in 0..round {
                    let delay = Duration::from_nanos(random.u64(..20_000_000));
                    service.schedule(delay, Instant::now() + delay).unwrap();
                    let at = Instant::now() + delay / 3;
                    service.schedule_at(at, at).unwrap();
                    armed += 2;
                }
                thread::sleep(Duration::from_micros(random.u64(..2_500)));
            }
            while fired.load(Relaxed) < armed {
                thread::sleep(MS);
            }
            done.store(true, Relaxed);
        });
        assert_eq!(
            early.lock().unwrap().as_slice(),
            &[] as &[Duration],
            "early, with a tick of {tick:?}"
        );
        assert!(service.stop().is_empty());
    }
}

#[test]
fn a_rejected_payload_is_the_one_that_was_given() {
    let service = TimerService::builder()
        .on_expire(|_: &mut Batch<'_, Box<u32>>| {})
        .start()
        .unwrap();
    service.stop();
    let payload = Box::new(7);
    let address = &raw const *payload;
    match service.schedule(MS, payload) {
        Err(ScheduleError::Stopped(payload)) => {
            assert_eq!((&raw const *payload, *payload), (address, 7))
        }
        other => panic!("{other:?}"),
    }
}
