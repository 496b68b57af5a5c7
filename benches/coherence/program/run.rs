//! Run: one subject and call, with a number of threads and shards: the logs, and what their replays
//! count.
//!
//! Threads take their steps one after the other, so a run is the same each time. A turn of the
//! shards is replayed together with the next step of the threads, as if both were at one time.

use crate::calls::{Call, STEP, STEPS_PER_TURN, caller};
use crate::subjects::Subject;
use wheelwork_coherence::{CORES_MAX, Census, Counts, Crew, Lines, Log, Mix, Part, Replay};

/// Steps of each thread before what is counted.
const WARM: usize = 4 * STEPS_PER_TURN;

/// Steps of each thread.
const STEPS: usize = WARM + 8 * STEPS_PER_TURN;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) call: Call,
    pub(crate) threads: usize,
    pub(crate) shards: usize,
    pub(crate) is_planted: bool,
}

impl Setting {
    /// The operations that are counted.
    pub(crate) fn operations(self) -> usize {
        let steps = (WARM..STEPS).filter(|&step| self.call.is_counted(step));
        steps.count() * STEP * self.threads
    }
}

/// A run that goes on step by step.
struct Run<S: Subject> {
    setting: Setting,
    subject: &'static S,
    crew: Crew,
    lines: Lines,
    logs: Vec<Log>,
}

/// Runs a subject. Gives the counts of each random order: one for each mix and seed. The census is
/// that of the first order.
pub(crate) fn run<S: Subject>(
    setting: Setting,
    (mixes, seeds): (&[Mix], u64),
    mut census: Option<&mut Census>,
) -> Vec<(Mix, Counts)> {
    let mut run = Run::<S>::start(setting);
    let cores = run.crew.len();
    let replays = mixes.iter().flat_map(|&mix| {
        let of = move |seed| (mix, Replay::new(cores, mix, seed));
        (1..=seeds).map(of)
    });
    let mut replays: Vec<_> = replays.collect();
    for step in 0..=STEPS {
        let parts = run.step(step);
        let mut census = census.as_deref_mut();
        for (_, replay) in &mut replays {
            replay.round(&parts, run.lines.len(), census.take());
        }
    }
    let counts = replays.into_iter();
    counts.map(|(mix, replay)| (mix, replay.counts())).collect()
}

impl<S: Subject> Run<S> {
    fn start(setting: Setting) -> Self {
        let (mut started, mut own) = (None, Log::new(CORES_MAX - 1));
        // What the start allocates lies alike in each run.
        own.record(&mut || started = Some(S::start(setting.threads, setting.shards)));
        let (subject, turns) = started.expect("it was started just now");
        let Setting { call, threads, .. } = setting;
        let callers = 0..threads;
        let callers = callers.map(|number| caller(subject, call, number, setting.is_planted));
        let crew = Crew::start(callers.chain(turns).collect(), |member, seat| {
            if member < threads {
                subject.seat(member, seat);
            } else {
                seat.on_a_thread();
            }
        });
        let logs = (0..crew.len()).map(Log::new).collect();
        Self {
            setting,
            subject,
            crew,
            lines: Lines::default(),
            logs,
        }
    }

    /// A step of all threads, but after the last one; before it, if it is time, a turn of all
    /// shards, for the steps before.
    fn step(&mut self, step: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        if step > 0 && step.is_multiple_of(STEPS_PER_TURN) {
            self.subject.pass();
            for member in self.setting.threads..self.crew.len() {
                let part = self.part(member, step, step - 1);
                parts.push(Part {
                    is_open: S::IS_OPEN,
                    ..part
                });
            }
        }
        if step < STEPS {
            (0..self.setting.threads).for_each(|member| parts.push(self.part(member, step, step)));
        }
        parts
    }

    /// What a member does in a step, as part of what is done for `counted`.
    fn part(&mut self, member: usize, step: usize, counted: usize) -> Part {
        self.crew.step(member, step);
        let empty = std::mem::take(&mut self.logs[member]);
        let mut log = self.crew.exchange(member, empty);
        let part = self.lines.number(member, log.accesses());
        log.clear();
        self.logs[member] = log;
        Part {
            is_counted: counted >= WARM && self.setting.call.is_counted(counted),
            ..part
        }
    }
}
