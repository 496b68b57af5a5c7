//! The measurements: rounds of a workload, first all calls together, then each by itself. Deadlines
//! and choices are made before the clock starts.

use crate::job::Job;
use crate::subjects::Subject;
use crate::watch::{Each, Watch, Whole};
use crate::workload::Workload;
use fastrand::Rng;
use std::hint;
use std::mem;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// In ticks.
const DELAYS: RangeInclusive<u64> = 1_000..=60_000;

/// Rounds are repeated until there are operations enough, or for this time; there is one at least.
const ROUNDS_TIME_MAX: Duration = Duration::from_millis(250);

/// Of fewer timers the memory is not told: the system counts in pages.
const WEIGHED_MIN: usize = 100_000;

/// What the rounds do.
struct Plan {
    job: Job,
    delays: Vec<u64>,
    /// Which ones of those that stand are cancelled in a churn, and the deadlines of those that
    /// come instead.
    churn: Vec<(usize, u64)>,
    rng: Rng,
}

impl Plan {
    fn new(job: &Job) -> Self {
        let mut rng = Rng::with_seed(job.seed);
        let delays = (0..job.timers).map(|_| rng.u64(DELAYS)).collect();
        let is_churn = job.workload == Workload::Churn;
        let steps = 0..if is_churn { job.steps() } else { 0 };
        let churn = steps.map(|_| (rng.usize(..job.timers), rng.u64(DELAYS)));
        let churn = churn.collect();
        Self {
            job: *job,
            delays,
            churn,
            rng,
        }
    }

    /// Rounds. Returns how many operations they had.
    fn rounds<S: Subject>(
        &mut self,
        handles: &mut Vec<S::Handle>,
        watch: &mut impl Watch,
    ) -> Result<usize, String> {
        let (start, mut operations) = (Instant::now(), 0);
        while operations == 0
            || operations < self.job.operations() && start.elapsed() < ROUNDS_TIME_MAX
        {
            operations += self.round::<S>(handles, watch)?;
            handles.clear();
        }
        Ok(operations)
    }

    fn round<S: Subject>(
        &mut self,
        handles: &mut Vec<S::Handle>,
        watch: &mut impl Watch,
    ) -> Result<usize, String> {
        let mut subject = S::new();
        match self.job.workload {
            Workload::Insert => {
                let now = self.use_memory(&mut subject, handles);
                watch.phase(|watch| self.insert(&mut subject, now, handles, watch));
            }
            Workload::InsertCold => {
                watch.phase(|watch| self.insert(&mut subject, 0, handles, watch))
            }
            Workload::Cancel => {
                self.stand(&mut subject, handles);
                self.rng.shuffle(handles);
                watch.phase(|watch| {
                    handles
                        .drain(..)
                        .for_each(|handle| watch.call(|| subject.cancel(handle)))
                });
            }
            Workload::Rearm => {
                self.stand(&mut subject, handles);
                self.rng.shuffle(handles);
                let mut moved = Vec::with_capacity(handles.len());
                watch.phase(|watch| self.rearm(&mut subject, handles, &mut moved, watch));
            }
            Workload::Churn => {
                self.stand(&mut subject, handles);
                watch.phase(|watch| self.churn(&mut subject, handles, watch));
                return Ok(self.churn.len());
            }
            Workload::Fire => {
                self.stand(&mut subject, handles);
                let mut fired = 0;
                watch.phase(|watch| fired = fire(&mut subject, watch));
                if fired != self.job.timers {
                    return Err(format!("{fired} of {} timers have fired", self.job.timers));
                }
            }
        }
        Ok(self.job.timers)
    }

    /// Timers at tick 0, unwatched.
    fn stand<S: Subject>(&self, subject: &mut S, handles: &mut Vec<S::Handle>) {
        self.insert(subject, 0, handles, &mut Whole::default());
    }

    /// Timers come and go, and time passes them, so that nothing of them is left but memory.
    /// Returns the time.
    fn use_memory<S: Subject>(&self, subject: &mut S, handles: &mut Vec<S::Handle>) -> u64 {
        self.stand(subject, handles);
        handles.drain(..).for_each(|handle| subject.cancel(handle));
        subject.advance(*DELAYS.end(), |key| panic!("{key} was cancelled"));
        *DELAYS.end()
    }

    fn insert<S: Subject>(
        &self,
        subject: &mut S,
        now: u64,
        handles: &mut Vec<S::Handle>,
        watch: &mut impl Watch,
    ) {
        for (key, &delay) in self.delays.iter().enumerate() {
            handles.push(watch.call(|| subject.insert(now + delay, key as u64)));
        }
    }

    /// Each is moved to the deadline that another one had.
    fn rearm<S: Subject>(
        &self,
        subject: &mut S,
        handles: &mut Vec<S::Handle>,
        moved: &mut Vec<S::Handle>,
        watch: &mut impl Watch,
    ) {
        let keys = self.job.timers as u64..;
        for ((handle, &deadline), key) in handles.drain(..).zip(&self.delays).zip(keys) {
            moved.push(watch.call(|| subject.rearm(handle, deadline, key)));
        }
    }

    fn churn<S: Subject>(
        &self,
        subject: &mut S,
        handles: &mut Vec<S::Handle>,
        watch: &mut impl Watch,
    ) {
        for (key, &(place, deadline)) in (self.job.timers..).zip(&self.churn) {
            let handle = watch.call(|| {
                subject.cancel(handles.swap_remove(place));
                subject.insert(deadline, key as u64)
            });
            handles.push(handle);
        }
    }

    /// Resident bytes of a timer, without its handle, which is written to memory for the first
    /// time.
    fn bytes_per_timer<S: Subject>(&self, handles: &mut Vec<S::Handle>) -> f64 {
        let before = system::resident_bytes();
        let mut subject = S::new();
        self.stand(&mut subject, handles);
        let bytes = system::resident_bytes().saturating_sub(before) as f64;
        handles.clear();
        bytes / self.job.timers as f64 - mem::size_of::<S::Handle>() as f64
    }
}

/// Moves time on until the last deadline, a tick a call. Returns how many timers have fired.
fn fire<S: Subject>(subject: &mut S, watch: &mut impl Watch) -> usize {
    let (mut fired, mut keys) = (0, 0);
    for now in 1..=*DELAYS.end() {
        watch.call(|| {
            subject.advance(now, |key| {
                fired += 1;
                keys ^= key;
            });
        });
    }
    hint::black_box(keys);
    fired
}

/// One measurement.
pub(crate) fn measure<S: Subject>(job: &Job) -> Result<Figures, String> {
    let mut plan = Plan::new(job);
    let mut handles = Vec::with_capacity(job.timers);
    let mut figures = Figures::default();
    if job.workload == Workload::InsertCold && job.timers >= WEIGHED_MIN {
        figures.extend([("bytes_per_timer", plan.bytes_per_timer::<S>(&mut handles))]);
    }
    let (mut whole, mut each) = (Whole::default(), Each::new());
    let (start, cpu) = (Instant::now(), system::cpu_time());
    let operations = plan.rounds::<S>(&mut handles, &mut whole)?;
    let cpu_share = (system::cpu_time() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
    plan.rounds::<S>(&mut handles, &mut each)?;

    let elapsed_ns = whole.elapsed_ns as f64;
    let call_ns = |quantile| each.calls_ns.value_at_quantile(quantile) as f64;
    figures.extend([
        ("ns_per_op", elapsed_ns / operations as f64),
        ("call_ns_p50", call_ns(0.5)),
        ("call_ns_p99", call_ns(0.99)),
        ("call_ns_p999", call_ns(0.999)),
        ("call_ns_max", call_ns(1.0)),
        ("clock_ns", each.clock_ns as f64),
        ("cpu_share", cpu_share),
    ]);
    if job.workload == Workload::Fire {
        let ticks = operations / job.timers * *DELAYS.end() as usize;
        figures.extend([("ns_per_tick", elapsed_ns / ticks as f64)]);
    }
    Ok(figures)
}
