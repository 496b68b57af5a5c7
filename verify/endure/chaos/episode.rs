//! Episode: a service of some make, the actors on it, trouble, its end, and the audit of its
//! ledger.

use super::actors::Stage;
use super::payload::{Cargo, Typed, World};
use super::trouble;
use crate::ledger::Ledger;
use crate::wait::Patience;
use fastrand::Rng;
use std::fmt;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork::{Builder, Dispatch, StopPolicy, Task, TimerService};
use wheelwork_kit::lock::lock;

/// Whatever is due, and whatever a service has to give up, comes within a minute; or later: a
/// machine that stalls or is busy holds up who looks, too.
const PATIENCE: Patience = Patience {
    look: Duration::from_millis(2),
    looks: 30_000,
};

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

impl End {
    const ALL: [Self; 6] = {
        use End::{CancelAll, Drain, Dropped, FireAll, FromTask, HandBack};
        [HandBack, Drain, FireAll, Dropped, CancelAll, FromTask]
    };
}

/// What is drawn for an episode.
#[derive(Clone, Copy, Debug)]
struct Draw {
    is_typed: bool,
    dispatch: usize,
    shards: usize,
    /// `None`: the library's, with its budget of wake-ups.
    tick: Option<Duration>,
    /// A budget of wake-ups a second.
    budget: Option<NonZeroU32>,
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
        Self {
            is_typed: rng.bool(),
            dispatch: rng.usize(..5),
            shards: rng.usize(1..=3),
            tick: [Some(50), Some(1_000), None, Some(10_000)][rng.usize(..4)]
                .map(Duration::from_micros),
            budget: NonZeroU32::new([0, 0, 100, 1_000][rng.usize(..4)]),
            max_pending: (rng.u32(..5) == 0).then(|| rng.usize(1..2_000)),
            spin: Duration::from_micros(if rng.u32(..5) == 0 { 100 } else { 0 }),
            actors: rng.usize(if full { 2..8 } else { 0..2 }),
            time: Duration::from_millis(rng.u64(if full { 300..2_500 } else { 0..20 })),
            hogs: full && rng.u32(..4) == 0,
            suspend: full && rng.u32(..8) == 0,
            blocked_pool: full && rng.u32(..5) == 0,
            is_busy_at_end: rng.bool(),
            end: End::ALL[rng.usize(..End::ALL.len())],
        }
    }

    fn is_channel(self) -> bool {
        self.dispatch == 4 && self.is_typed
    }

    fn settings<C: Cargo>(self, builder: Builder<C>) -> Builder<C> {
        let builder = match self.tick {
            Some(tick) => builder.tick(tick),
            None => builder,
        };
        let builder = match self.budget {
            Some(per_s) => builder.max_wakeups_per_s(per_s),
            None => builder,
        };
        let builder = builder.shards(self.shards).spin(self.spin).name("chaos");
        let builder = builder
            .on_panic(|_| ())
            .on_late(Duration::from_millis(50), |_| ())
            .on_stall(Duration::from_millis(10), |_| ());
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
            while let Ok(job) = { lock(&queue).recv() } {
                job();
            }
        });
    }
    let jobs: Mutex<Sender<_>> = Mutex::new(jobs);
    Dispatch::executor(move |job| _ = lock(&jobs).send(job))
}

/// What an episode came to: timers, periodic ones among them, fired, cancelled, refused; moves,
/// runs, panics and faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary([u64; 9]);

/// Runs an episode. The seed says all about it, but not what the threads make of it.
pub(crate) fn run(seed: u64, size: Size) -> Result<Summary, String> {
    let mut rng = Rng::with_seed(seed);
    let draw = Draw::new(&mut rng, size);
    let ledger = Ledger::new(draw.is_channel());
    let started = |error: wheelwork::StartError| format!("no service: {error}");
    let play = Play {
        draw,
        ledger,
        seed,
        size,
    };
    let builder = TimerService::builder();
    if !draw.is_typed {
        let service = draw.settings::<Task>(builder).start();
        return play.perform(service.map_err(started)?, rng);
    }
    if !draw.is_channel() {
        let service = draw.settings(builder.on_expire(Typed::fire_all)).start();
        return play.perform(service.map_err(started)?, rng);
    }
    let room = rng.bool().then(|| rng.usize(1..100));
    let (builder, expired) = builder.on_expire_channel::<Typed>(room);
    let service = draw.settings(builder).start().map_err(started)?;
    // Not until it is disconnected: guards that are forgotten have handles.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let expired = expired;
            while !is_over.load(SeqCst) {
                let batch = expired.recv_timeout(Duration::from_millis(5));
                for cargo in batch.into_iter().flatten() {
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
    ledger: Arc<Ledger>,
    seed: u64,
    size: Size,
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, seed) = (self.size, self.seed);
        write!(f, "{size:?} episode of seed {seed}: {:?}", self.draw)
    }
}

impl Play {
    fn perform<C: Cargo>(&self, service: TimerService<C>, mut rng: Rng) -> Result<Summary, String> {
        let draw = self.draw;
        let handle = service.handle();
        let world = Arc::new(World {
            ledger: self.ledger.clone(),
            handle: handle.clone(),
            seed: self.seed,
        });
        let lines_max = match self.size {
            Size::Full => 300_000,
            Size::Small => 500,
        };
        let stage = Arc::new(Stage::new(world.clone(), lines_max));
        let mut service = Some(service);
        thread::scope(|scope| {
            let mut actors = Vec::new();
            for _ in 0..draw.actors {
                let (stage, rng) = (stage.clone(), rng.fork());
                actors.push(scope.spawn(move || stage.act_until_over(rng)));
            }
            let (mortals, mut rng) = (stage.clone(), rng.fork());
            actors.push(scope.spawn(move || {
                while !mortals.is_over.load(SeqCst) {
                    let (stage, rng) = (mortals.clone(), rng.fork());
                    let mortal = thread::spawn(move || stage.live_shortly(rng));
                    mortal.join().expect("an actor does not panic");
                }
            }));
            if draw.hogs {
                trouble::hog(scope, draw.time);
            }
            if draw.blocked_pool {
                let (soon, long) = (Duration::from_millis(50), Duration::from_secs(1));
                (0..4).for_each(|_| _ = world.arm(soon, u32::MAX, long));
            }
            thread::sleep(draw.time);
            let trouble = if draw.suspend {
                trouble::suspend()
            } else {
                Ok(())
            };
            if draw.is_busy_at_end {
                self.end(&mut service, &world);
                stage.is_over.store(true, SeqCst);
            } else {
                stage.is_over.store(true, SeqCst);
                for actor in actors {
                    actor.join().expect("an actor does not panic");
                }
                self.wait_for_due();
                self.end(&mut service, &world);
            }
            trouble
        })?;
        drop(service);
        drop((stage, world));
        self.wait_while(|| match self.ledger.alive() {
            0 => None,
            alive => Some((alive, format!("{alive} payloads exist after the end"))),
        });
        // The run that stopped the service ends after that, and has no line.
        self.wait_while(|| match handle.stats().timers.pending {
            0 => None,
            pending => Some((pending, format!("{pending} timers pending after the end"))),
        });
        Ok(self.audit(&handle.stats()))
    }

    /// What is due fires, whatever happened meanwhile.
    fn wait_for_due(&self) {
        self.wait_while(|| {
            let far_ns = self.ledger.now_ns().saturating_add(FAR_NS);
            match self.ledger.missing(far_ns) {
                (0, _) => None,
                missing => Some((missing.0, format!("timers did not fire: {missing:?}"))),
            }
        });
    }

    /// Waits as long as something is left: `left` says how much, and what.
    fn wait_while(&self, left: impl Fn() -> Option<(u64, String)>) {
        if let Some((_, what)) = PATIENCE.wait_while(left) {
            let what = format_args!("stuck for {:?}: {what}: {self:?}", PATIENCE.time());
            self.ledger.fault(what);
        }
    }

    fn end<C: Cargo>(&self, service: &mut Option<TimerService<C>>, world: &World<C>) {
        let Some(running) = service.as_ref() else {
            return;
        };
        // What was handed back is in the stats; that it is dropped once, in its line.
        match self.draw.end {
            End::HandBack => drop(running.stop()),
            End::Drain => {
                let policy = StopPolicy::Drain(Duration::from_millis(100));
                drop(running.stop_with(policy));
            }
            End::FireAll => {
                self.ledger.fires_all.store(true, SeqCst);
                drop(running.stop_with(StopPolicy::FireAll));
            }
            End::Dropped => drop(service.take()),
            End::CancelAll => {
                running.cancel_all();
                drop(running.stop());
            }
            End::FromTask => {
                let (Some(running), (send, stopped)) = (service.take(), mpsc::channel()) else {
                    return;
                };
                let stop = move || _ = send.send(running.stop().len());
                // A run of a periodic timer, of whatever kind of service; one that is refused stops
                // it as it is dropped.
                let mut stop = Some(stop);
                let started = world
                    .handle
                    .every(Duration::from_millis(1))
                    .times(1)
                    .start(move || _ = stop.take().map(|stop| stop()));
                if started.is_ok() {
                    let still = || (1, "a stop from inside a task did not return".into());
                    self.wait_while(|| stopped.try_recv().is_err().then(still));
                }
            }
        }
        if service
            .as_ref()
            .is_some_and(|running| !running.stop().is_empty())
        {
            let what = format_args!("a second stop handed something back: {self:?}");
            self.ledger.fault(what);
        }
    }

    /// Compares the lines with what the service has counted.
    fn audit(&self, stats: &wheelwork::Stats) -> Summary {
        let fault = |what: fmt::Arguments<'_>| self.ledger.fault(format_args!("{what}: {self:?}"));
        let totals = self.ledger.check();
        let timers = &stats.timers;
        let (armed, fired, cancelled) = (timers.armed, timers.fired, timers.cancelled);
        let (back, ended, pending) = (timers.handed_back, timers.ended, timers.pending);
        let own = u64::from(matches!(self.draw.end, End::FromTask));
        let accepted = totals.lines - totals.refused;
        if !(accepted..=accepted + own).contains(&armed) {
            let noted = format_args!("{accepted} (and {own}) in the ledger");
            fault(format_args!("{armed} timers armed, {noted}"));
        }
        if fired != totals.fired || cancelled < totals.cancelled {
            let counted = format_args!("{fired} fired, {cancelled} cancelled");
            fault(format_args!("{counted}, against {totals:?}"));
        }
        if pending != 0 || armed != fired + cancelled + back + ended {
            fault(format_args!(
                "does not add up: {armed} armed, {fired} fired, {cancelled} cancelled, {back} handed back, {ended} ended, {pending} pending"
            ));
        }
        if self.ledger.faults() > 0 {
            eprintln!("in {self:?}");
        }
        Summary([
            totals.lines,
            totals.periodic,
            totals.fired,
            totals.cancelled,
            totals.refused,
            stats.timers.rearmed,
            stats.timers.runs,
            stats.panics,
            self.ledger.faults(),
        ])
    }
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        let both = self.0.iter_mut().zip(other.0);
        both.for_each(|(own, other)| *own += other);
    }

    pub(crate) fn faults(&self) -> u64 {
        self.0[8]
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [
            timers,
            periodic,
            fired,
            cancelled,
            refused,
            moves,
            runs,
            panics,
            faults,
        ] = self.0;
        write!(
            f,
            "{timers} timers, {periodic} of them periodic: {fired} fired, "
        )?;
        write!(f, "{cancelled} cancelled, {refused} refused; ")?;
        write!(
            f,
            "{moves} moves, {runs} runs, {panics} panics, {faults} faults"
        )
    }
}
