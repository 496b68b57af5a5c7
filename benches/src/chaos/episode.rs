//! Episode: a service of some make, the actors on it, trouble, its end, and the audit of its book.

use super::actors::Stage;
use super::ledger::{Book, Totals};
use super::parcel::{Cargo, Typed, World};
use super::trouble;
use fastrand::Rng;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Builder, Dispatch, StopPolicy, Task, TimerService, Unfired};

/// Whatever is due, and whatever a service has to give up, has come after so long, or is stuck: a machine that is shared stalls for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timers of a longer delay are not waited for.
const FAR_NS: u64 = 1_800_000_000_000;

/// How a service ends.
#[derive(Clone, Copy, Debug)]
enum End {
    HandBack,
    Drain,
    FireAll,
    Dropped,
    CancelAll,
    FromTask,
}

/// What is drawn for an episode.
#[derive(Clone, Copy, Debug)]
struct Draw {
    is_typed: bool,
    dispatch: usize,
    shards: usize,
    tick: Duration,
    max_pending: Option<usize>,
    spin: Duration,
    actors: usize,
    time: Duration,
    hogs: bool,
    suspend: bool,
    blocked_pool: bool,
    /// The actors go on while it ends.
    is_busy_at_end: bool,
    end: End,
}

/// How large an episode may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    /// With everything.
    Full,
    /// A service that lives for a moment, beside others.
    Small,
}

impl Draw {
    fn new(rng: &mut Rng, size: Size) -> Self {
        let full = matches!(size, Size::Full);
        let ends = [End::HandBack, End::Drain, End::FireAll, End::Dropped, End::CancelAll, End::FromTask];
        Self {
            is_typed: rng.bool(),
            dispatch: rng.usize(..5),
            shards: rng.usize(1..=3),
            tick: Duration::from_micros([50, 1_000, 1_000, 10_000][rng.usize(..4)]),
            max_pending: (rng.u32(..5) == 0).then(|| rng.usize(1..2_000)),
            spin: Duration::from_micros(if rng.u32(..5) == 0 { 100 } else { 0 }),
            actors: if full { rng.usize(2..8) } else { rng.usize(..2) },
            time: Duration::from_millis(if full { rng.u64(300..2_500) } else { rng.u64(..20) }),
            hogs: full && rng.u32(..4) == 0,
            suspend: full && rng.u32(..8) == 0,
            blocked_pool: full && rng.u32(..5) == 0,
            is_busy_at_end: rng.bool(),
            end: ends[rng.usize(..ends.len())],
        }
    }

    fn is_channel(self) -> bool {
        self.dispatch == 4 && self.is_typed
    }

    fn settings<C: Cargo>(self, builder: Builder<C>) -> Builder<C> {
        let builder = builder.tick(self.tick).shards(self.shards).spin(self.spin).name("chaos");
        let builder = builder.on_panic(|_| ()).on_late(Duration::from_millis(50), |_, _| ()).on_stall(Duration::from_millis(10), |_, _| ());
        let builder = match self.max_pending {
            Some(timers) => builder.max_pending(timers),
            None => builder,
        };
        builder.dispatch(match self.dispatch {
            0 | 4 => Dispatch::Rayon,
            1 => Dispatch::RayonThreads(3),
            2 => Dispatch::Inline,
            _ => threads_of_ours(),
        })
    }
}

/// An executor with two threads, which end with it.
fn threads_of_ours() -> Dispatch {
    let (jobs, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..2 {
        let queue = queue.clone();
        thread::spawn(move || {
            while let Ok(job) = { queue.lock().unwrap_or_else(PoisonError::into_inner).recv() } {
                job();
            }
        });
    }
    let jobs: Mutex<Sender<_>> = Mutex::new(jobs);
    Dispatch::executor(move |job| _ = jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job))
}

/// What an episode came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) totals: Totals,
    pub(crate) runs: u64,
    pub(crate) rearmed: u64,
    pub(crate) panics: u64,
    pub(crate) faults: u64,
}

/// Runs an episode. The seed says all about it, but not what the threads make of it.
pub(crate) fn run(seed: u64, size: Size) -> Result<Summary, String> {
    let mut rng = Rng::with_seed(seed);
    let draw = Draw::new(&mut rng, size);
    let book = Book::new(draw.is_channel());
    let started = |error: wheelwork::StartError| format!("no service: {error}");
    let play = Play { draw, book, seed, size };
    if !draw.is_typed {
        let service = draw.settings::<Task>(TimerService::builder()).start().map_err(started)?;
        return play.perform(service, rng);
    }
    if !draw.is_channel() {
        let service = draw.settings(TimerService::builder().on_expire(Typed::fire_all)).start().map_err(started)?;
        return play.perform(service, rng);
    }
    let (builder, expired) = TimerService::builder().on_expire_channel::<Typed>(rng.bool().then(|| rng.usize(1..100)));
    let service = draw.settings(builder).start().map_err(started)?;
    // Not until it is disconnected: guards that are forgotten have handles.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let expired = expired;
            while !is_over.load(SeqCst) {
                for cargo in expired.recv_timeout(Duration::from_millis(5)).into_iter().flatten() {
                    let _ = catch_unwind(AssertUnwindSafe(|| cargo.fire()));
                }
            }
        });
        let summary = play.perform(service, rng);
        is_over.store(true, SeqCst);
        summary
    })
}

struct Play {
    draw: Draw,
    book: Arc<Book>,
    seed: u64,
    size: Size,
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} episode of seed {}: {:?}", self.size, self.seed, self.draw)
    }
}

impl Play {
    fn perform<C: Cargo>(&self, service: TimerService<C>, mut rng: Rng) -> Result<Summary, String> {
        let draw = self.draw;
        let handle = service.handle();
        let world = Arc::new(World { book: self.book.clone(), handle: handle.clone(), seed: self.seed });
        let lines_max = if matches!(self.size, Size::Full) { 300_000 } else { 500 };
        let stage = Arc::new(Stage::new(world.clone(), lines_max));
        let mut service = Some(service);
        let trouble = thread::scope(|scope| {
            let actors: Vec<_> = (0..draw.actors)
                .map(|_| {
                    let (stage, rng) = (stage.clone(), rng.fork());
                    scope.spawn(move || stage.act_until_over(rng))
                })
                .collect();
            let mortals = {
                let (stage, mut rng) = (stage.clone(), rng.fork());
                scope.spawn(move || {
                    while !stage.is_over.load(SeqCst) {
                        let (stage, rng) = (stage.clone(), rng.fork());
                        thread::spawn(move || stage.live_shortly(rng)).join().expect("an actor does not panic");
                    }
                })
            };
            if draw.hogs {
                trouble::hog(scope, draw.time);
            }
            if draw.blocked_pool {
                (0..4).for_each(|_| _ = world.arm(Duration::from_millis(50), u32::MAX, Duration::from_secs(1)));
            }
            thread::sleep(draw.time);
            let trouble = if draw.suspend { trouble::suspend() } else { Ok(()) };
            let close = || stage.is_over.store(true, SeqCst);
            if draw.is_busy_at_end {
                self.end(&mut service, &world);
                close();
            } else {
                close();
                actors.into_iter().for_each(|actor| actor.join().expect("an actor does not panic"));
                mortals.join().expect("an actor does not panic");
                self.wait_for_due();
                self.end(&mut service, &world);
            }
            trouble
        });
        trouble?;
        drop(service);
        drop((stage, world));
        self.wait_until(|| self.book.alive() == 0, || format!("{} payloads exist after the end", self.book.alive()));
        // The run that stopped the service ends after that, and has no line.
        let pending = || handle.stats().sum(|shard| shard.pending);
        self.wait_until(|| pending() == 0, || format!("{} timers pending after the end", pending()));
        Ok(self.audit(&handle.stats()))
    }

    /// What is due fires, whatever happened meanwhile.
    fn wait_for_due(&self) {
        let missing = || self.book.missing(self.book.now_ns().saturating_add(FAR_NS));
        self.wait_until(|| missing().0 == 0, || format!("timers did not fire: {:?}", missing()));
    }

    fn wait_until(&self, is_done: impl Fn() -> bool, what: impl Fn() -> String) {
        let end = Instant::now() + PATIENCE;
        while !is_done() {
            if Instant::now() > end {
                return self.book.fault(format_args!("stuck for {PATIENCE:?}: {}: {self:?}", what()));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn end<C: Cargo>(&self, service: &mut Option<TimerService<C>>, world: &World<C>) {
        let Some(running) = service.as_ref() else { return };
        match self.draw.end {
            End::HandBack => self.take_back(running.stop()),
            End::Drain => self.take_back(running.stop_with(StopPolicy::Drain(Duration::from_millis(100)))),
            End::FireAll => {
                self.book.fires_all.store(true, SeqCst);
                self.take_back(running.stop_with(StopPolicy::FireAll));
            }
            End::Dropped => drop(service.take()),
            End::CancelAll => {
                running.cancel_all();
                self.take_back(running.stop());
            }
            End::FromTask => {
                let (Some(running), (send, stopped)) = (service.take(), mpsc::channel()) else { return };
                let stop = move || _ = send.send(running.stop().len());
                // A run of a periodic timer, of whatever kind of service; one that is refused stops it as it is dropped.
                let mut stop = Some(stop);
                let started = world.handle.every(Duration::from_millis(1)).times(1).start(move || _ = stop.take().map(|stop| stop()));
                if started.is_ok() && stopped.recv_timeout(PATIENCE).is_err() {
                    self.book.fault(format_args!("a stop from inside a task did not return: {self:?}"));
                }
            }
        }
        if let Some(running) = service
            && !running.stop().is_empty()
        {
            self.book.fault(format_args!("a second stop handed something back: {self:?}"));
        }
    }

    fn take_back<C: Cargo>(&self, unfired: Vec<Unfired<C>>) {
        // What it was is in the stats; that it is dropped once, in its line.
        drop(unfired);
    }

    /// Compares the lines with what the service has counted.
    fn audit(&self, stats: &wheelwork::Stats) -> Summary {
        let totals = self.book.check();
        let sum = |f: fn(&wheelwork::ShardStats) -> u64| stats.sum(f);
        let [armed, fired, cancelled] = [sum(|shard| shard.armed), sum(|shard| shard.fired), sum(|shard| shard.cancelled)];
        let [back, ended, pending] = [sum(|shard| shard.handed_back), sum(|shard| shard.ended), sum(|shard| shard.pending)];
        let own = u64::from(matches!(self.draw.end, End::FromTask));
        let accepted = totals.lines - totals.refused;
        if !(accepted..=accepted + own).contains(&armed) {
            self.book.fault(format_args!("{armed} timers armed, {accepted} (and {own}) in the book: {self:?}"));
        }
        if fired != totals.fired || cancelled < totals.cancelled {
            self.book.fault(format_args!("{fired} fired, {cancelled} cancelled, against {totals:?}: {self:?}"));
        }
        if pending != 0 || armed != fired + cancelled + back + ended {
            let all =
                format_args!("{armed} armed, {fired} fired, {cancelled} cancelled, {back} handed back, {ended} ended, {pending} pending");
            self.book.fault(format_args!("does not add up: {all}: {self:?}"));
        }
        if self.book.faults() > 0 {
            eprintln!("in {self:?}");
        }
        let (runs, rearmed) = (sum(|shard| shard.runs), sum(|shard| shard.rearmed));
        Summary { totals, runs, rearmed, panics: stats.panics, faults: self.book.faults() }
    }
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        let (totals, others) = (&mut self.totals, other.totals);
        totals.fired += others.fired;
        totals.cancelled += others.cancelled;
        totals.refused += others.refused;
        totals.periodic += others.periodic;
        totals.lines += others.lines;
        self.runs += other.runs;
        self.rearmed += other.rearmed;
        self.panics += other.panics;
        self.faults += other.faults;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { fired, cancelled, refused, periodic, lines, .. } = self.totals;
        write!(f, "{lines} timers, {periodic} of them periodic: {fired} fired, {cancelled} cancelled, {refused} refused; ")?;
        write!(f, "{} moves, {} runs, {} panics, {} faults", self.rearmed, self.runs, self.panics, self.faults)
    }
}
