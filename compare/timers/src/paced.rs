//! W9 and W10: rates that programs have. They measure the CPU time that timers take, and how late
//! timers fire.
//!
//! A producer takes a step each millisecond and sleeps in between. CPU time is that of the steps,
//! and of all threads but the producers; without what the same steps take when they arm nothing. A
//! producer's sleeps are left out: their cost changes by half a per cent of a core from run to run,
//! which is more than some timers take at all.
//!
//! Timers that come again need no producer once they have begun, nor do tasks that wait again and
//! again. There all CPU time of the process counts.

use crate::job::Job;
use crate::ledger::{self, Lateness};
use crate::producers::{self, start};
use crate::subjects::{Producer, Subject};
use crate::usage::Usage;
use fastrand::Rng;
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;
use wheelwork_kit::lock::lock;
use wheelwork_kit::system::thread_cpu_time;

/// What a producer waits for between two steps.
const STEP: Duration = Duration::from_millis(1);
const STEPS_PER_S: usize = 1_000;

/// The time-out of a request that is answered.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One request in this number is not answered, once there are such: its time-out is short, and
/// fires.
const UNANSWERED: usize = 100;

/// What fires is due after this time, uniformly in the time after it.
const LEAD_NS: u64 = 50_000_000;
const SPREAD_NS: u64 = 500_000_000;

/// Steps after which the handle of a timer that fires is dropped: 250 ms after the last of its step
/// is due. So a subject does not become slower by memory that its handles keep.
const DROPPED_AFTER: usize = 800;

/// All timers that come again are armed in this time, and [`ARMING_NS_EACH`] more for each: then
/// the first is due.
const ARMING_NS: u64 = 200_000_000;
const ARMING_NS_EACH: u64 = 10_000;

/// How long to wait for timers that have not fired though they are due.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long before a timer fires.
fn delay(rng: &mut Rng) -> Duration {
    Duration::from_nanos(LEAD_NS + rng.u64(..SPREAD_NS))
}

/// Which timers are cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// None: all fire.
    None,
    /// Those that are answered: all, or all but one in a hundred.
    All,
    Most,
}

/// What a producer owns.
struct Own<H> {
    number: usize,
    /// Steps so far.
    steps: usize,
    rng: Rng,
    /// Of each step, until its requests are answered.
    requests: Vec<Vec<H>>,
    /// Of each step, those that fire. A future is dropped when it has.
    due: Vec<Vec<H>>,
    /// Timers so far, and those of them that fire.
    armed: u64,
    armed_due: u64,
}

impl<H> Own<H> {
    fn new(job: &Job, number: usize, answer_steps: usize) -> Self {
        let steps = |number| (0..number).map(|_| Vec::new()).collect();
        Self {
            number,
            steps: 0,
            rng: Rng::with_seed(job.seed.wrapping_mul(7919).wrapping_add(number as u64)),
            requests: steps(answer_steps),
            due: steps(DROPPED_AFTER),
            armed: 0,
            armed_due: 0,
        }
    }

    fn step(&mut self, job: &Job, answers: Answers, producer: &mut impl Producer<Handle = H>) {
        let step = self.steps;
        self.steps += 1;
        self.due[step % DROPPED_AFTER].clear();
        let answered = step % self.requests.len().max(1);
        if let Some(requests) = self.requests.get_mut(answered) {
            let requests = requests.drain(..);
            requests.for_each(|request| producer.cancel(request));
        }
        let timers = in_step(job, self.number, step);
        for _ in 0..timers {
            let is_answered = match answers {
                Answers::None => false,
                Answers::All => true,
                Answers::Most => self.rng.usize(..UNANSWERED) > 0,
            };
            if is_answered {
                self.requests[answered].push(producer.arm(TIMEOUT, 0));
                continue;
            }
            let delay = delay(&mut self.rng);
            let due_ns = ledger::now_ns() + delay.as_nanos() as u64;
            self.due[step % DROPPED_AFTER].push(producer.arm(delay, due_ns));
            self.armed_due += 1;
        }
        self.armed += timers as u64;
    }
}

/// Timers of a producer in a step.
fn in_step(job: &Job, number: usize, step: usize) -> usize {
    let until =
        |step: usize| (job.timers * step + number * STEPS_PER_S) / (STEPS_PER_S * job.threads);
    until(step + 1) - until(step)
}

/// A producer without timers: what the loop takes by itself.
struct Nothing;

impl Producer for Nothing {
    type Handle = u64;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> u64 {
        black_box(delay);
        black_box(due_ns)
    }

    fn cancel(&mut self, handle: u64) {
        black_box(handle);
    }

    fn rearm(&mut self, _: &mut u64, _: Duration) {}
}

/// What was measured.
#[derive(Clone, Copy, Default)]
struct Measured {
    elapsed_s: f64,
    /// Of other threads than producers, and of the producers' steps.
    cpu_s: f64,
    /// Of other threads than producers.
    wakeups: f64,
    rings: Option<f64>,
    /// Timers that were armed, or have fired.
    timers: f64,
}

impl Measured {
    fn add_thread(&mut self, used: Usage, in_steps: Duration, timers: u64) {
        self.cpu_s += in_steps.as_secs_f64() - used.cpu.as_secs_f64();
        self.wakeups -= used.wakeups as f64;
        self.timers += timers as f64;
    }

    fn cpu_per_s(&self) -> f64 {
        self.cpu_s / self.elapsed_s
    }

    /// What takes more of a core than this besides is not the timers'.
    fn figures(&self, per_timer: &str, besides: f64) -> Figures {
        let per_s = |number: f64| number / self.elapsed_s;
        let cpu = self.cpu_per_s() - besides;
        let mut figures = Figures::from([
            (per_timer, cpu * 1e6 * self.elapsed_s / self.timers.max(1.0)),
            ("cpu_percent", cpu * 100.0),
            ("wakeups_per_s", per_s(self.wakeups)),
            ("timers_per_s", per_s(self.timers)),
        ]);
        figures.extend(self.rings.map(|rings| ("rings_per_s", per_s(rings))));
        figures
    }
}

/// The process at an instant.
struct Reading {
    at: Instant,
    usage: Usage,
    rings: Option<u64>,
}

impl Reading {
    fn take<S: Subject>(subject: &S) -> Self {
        let rings = subject.rings();
        Self {
            at: Instant::now(),
            usage: Usage::of_process(),
            rings,
        }
    }

    /// Adds what has been used since then.
    fn add_to<S: Subject>(&self, subject: &S, measured: &mut Measured) {
        let used = Usage::of_process() - self.usage;
        measured.elapsed_s = self.at.elapsed().as_secs_f64();
        measured.cpu_s += used.cpu.as_secs_f64();
        measured.wakeups += used.wakeups as f64;
        let rings = subject.rings().zip(self.rings);
        measured.rings = rings.map(|(rings, before)| (rings - before) as f64);
    }
}

/// A loop's steps: those that pass before a measurement, and those that are measured.
struct Steps {
    before: usize,
    measured: usize,
    /// Where all producers meet before and after the measured ones.
    gate: Barrier,
    sum: Mutex<Measured>,
}

impl Steps {
    fn new(job: &Job, before: usize, measured: usize) -> Self {
        Self {
            before,
            measured,
            gate: Barrier::new(job.threads),
            sum: Mutex::default(),
        }
    }

    /// The calling producer takes all steps. The first one reads what the process has used.
    fn take<S: Subject, H>(
        &self,
        subject: &S,
        own: &mut Own<H>,
        mut step: impl FnMut(&mut Own<H>),
    ) {
        let start = Instant::now();
        let mut run = |own: &mut Own<H>, steps: Range<usize>| {
            let mut in_steps = Duration::ZERO;
            for number in steps {
                let before = thread_cpu_time();
                step(own);
                in_steps += thread_cpu_time() - before;
                let next = start + STEP * (number as u32 + 1);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            in_steps
        };
        run(own, 0..self.before);
        self.gate.wait();
        let reading = (own.number == 0).then(|| Reading::take(subject));
        self.gate.wait();
        let (before, armed) = (Usage::of_thread(), own.armed);
        let in_steps = run(own, self.before..self.before + self.measured);
        let used = Usage::of_thread() - before;
        self.gate.wait();
        let mut sum = lock(&self.sum);
        if let Some(reading) = reading {
            reading.add_to(subject, &mut sum);
        }
        sum.add_thread(used, in_steps, own.armed - armed);
    }

    fn measured(&self) -> Measured {
        *lock(&self.sum)
    }
}

/// Measures the loop of a workload, without timers and with them. The loads come one after the
/// other, each with the steps before the measured ones, and those; a request is answered after so
/// many steps. Returns the figures of each load, and how late the timers were that fired.
fn loops<S: Subject>(
    job: &Job,
    answer_steps: usize,
    per_timer: &str,
    loads: &[(Answers, usize, usize)],
) -> (Vec<Figures>, Figures) {
    let alone_steps = if job.quick { 100 } else { 600 };
    let steps = |&(_, before, measured): &(Answers, usize, usize)| {
        let alone = Steps::new(job, before.min(answer_steps + 50), alone_steps);
        (alone, Steps::new(job, before, measured))
    };
    let (alone, with): (Vec<_>, Vec<_>) = loads.iter().map(steps).unzip();
    let subject = start::<S>(job);
    let own = |number| Own::new(job, number, answer_steps);
    let mut owns: Vec<_> = (0..job.threads).map(own).collect();
    let loop_alone = |_: &mut S::Producer, own: &mut Own<_>| {
        let mut own = Own::new(job, own.number, answer_steps);
        for (steps, &(answers, ..)) in alone.iter().zip(loads) {
            steps.take(subject, &mut own, |own| {
                own.step(job, answers, &mut Nothing)
            });
        }
    };
    let loop_with = |producer: &mut S::Producer, own: &mut Own<_>| {
        for (steps, &(answers, ..)) in with.iter().zip(loads) {
            steps.take(subject, own, |own| own.step(job, answers, producer));
        }
        // What was armed last is due by then.
        thread::sleep(Duration::from_nanos(LEAD_NS + SPREAD_NS));
    };
    producers::run(subject, &mut owns, &[&loop_alone, &loop_with], |_| ());
    let armed = owns.iter().map(|own| own.armed_due).sum();
    let lateness = wait_for_fires(armed);
    std::mem::forget(owns);
    let mut late = lateness.figures();
    late.extend([("lost", armed.saturating_sub(lateness.count()) as f64)]);
    let of_loads = with.iter().zip(&alone).map(|(with, alone)| {
        let besides = alone.measured().cpu_per_s();
        with.measured().figures(per_timer, besides)
    });
    (of_loads.collect(), late)
}

/// The ledger, when this number of timers has fired, or when it has taken too long.
fn wait_for_fires(timers: u64) -> Lateness {
    let start = Instant::now();
    loop {
        let lateness = ledger::lateness();
        if lateness.count() >= timers || start.elapsed() > PATIENCE {
            return lateness;
        }
        thread::sleep(PATIENCE / 100);
    }
}

/// Starts timers that come again, and measures when all have begun to. `begin` starts the number
/// that it gets.
fn again<S: Subject>(
    job: &Job,
    first_ns: u64,
    begin: impl Fn(&mut S::Producer, &mut Rng) -> Result<(), String> + Sync,
) -> Result<Figures, String> {
    let subject = start::<S>(job);
    let mut owns = [(Rng::with_seed(job.seed.wrapping_mul(7919)), Ok(()))];
    let (settled, time) = if job.quick {
        (first_ns / 4, 500)
    } else {
        (first_ns, 3_000)
    };
    let mut measured = Measured::default();
    let begin = |producer: &mut S::Producer, own: &mut (Rng, Result<(), String>)| {
        own.1 = begin(producer, &mut own.0)
    };
    producers::run(subject, &mut owns, &[&begin], |_| {
        thread::sleep(Duration::from_nanos(settled));
        let (reading, own) = (Reading::take(subject), Usage::of_thread());
        let fired = ledger::fired_so_far();
        thread::sleep(Duration::from_millis(time));
        let fired = ledger::fired_so_far() - fired;
        reading.add_to(subject, &mut measured);
        measured.add_thread(Usage::of_thread() - own, Duration::ZERO, fired);
    });
    let [(_, begun)] = owns;
    begun?;
    let mut figures = measured.figures("cpu_us_per_fire", 0.0);
    figures.0.extend(ledger::lateness().figures().0);
    Ok(figures)
}

/// W9: `rate` timers fire in a second, at random instants.
pub(crate) fn fires<S: Subject>(job: &Job) -> Result<Figures, String> {
    if !S::TASKS {
        let (before, measured) = if job.quick {
            (200, 200)
        } else {
            (1_000, 3_000)
        };
        let load = [(Answers::None, before, measured)];
        let (mut of_load, late) = loops::<S>(job, 0, "cpu_us_per_fire", &load);
        let mut figures = of_load.remove(0);
        figures.0.extend(late.0);
        return Ok(figures);
    }
    // Each task fires once in the mean delay.
    let tasks = (job.timers as u64 * (LEAD_NS + SPREAD_NS / 2)).div_ceil(1_000_000_000);
    again::<S>(job, LEAD_NS + SPREAD_NS, |producer, rng| {
        (0..tasks).try_for_each(|_| producer.wander(rng.fork(), delay))
    })
}

/// W9, periodic: `rate` timers come again each second, each at a random instant of it.
pub(crate) fn periodic<S: Subject>(job: &Job) -> Result<Figures, String> {
    let period_ns = ledger::PERIOD.as_nanos() as u64;
    let lead_ns = ARMING_NS + ARMING_NS_EACH * job.timers as u64;
    again::<S>(job, lead_ns + period_ns, |producer, rng| {
        let first_ns = ledger::now_ns() + lead_ns;
        (0..job.timers).try_for_each(|_| producer.every(first_ns + rng.u64(..period_ns)))
    })
}

/// W9, periodic, all at one instant of the second. It measures from the middle of a second on, so
/// that each burst is inside or outside.
pub(crate) fn periodic_at_once<S: Subject>(job: &Job) -> Result<Figures, String> {
    let lead_ns = ARMING_NS + ARMING_NS_EACH * job.timers as u64;
    let half_ns = ledger::PERIOD.as_nanos() as u64 / 2;
    again::<S>(job, lead_ns + half_ns, |producer, _| {
        let first_ns = ledger::now_ns() + lead_ns;
        (0..job.timers).try_for_each(|_| producer.every(first_ns))
    })
}

/// W10: `rate` requests in a second have a time-out each, and are answered after a time: first all
/// of them, then all but one in a hundred.
pub(crate) fn server<S: Subject>(job: &Job, answer_ms: usize) -> Figures {
    // Within the steps before the second load its first timers are due.
    let [all, most] = if job.quick {
        [(answer_ms + 50, 200), (100, 200)]
    } else {
        [(answer_ms + 1_000, 2_000), (600, 1_500)]
    };
    let loads = [
        (Answers::All, all.0, all.1),
        (Answers::Most, most.0, most.1),
    ];
    let (mut of_loads, late) = loops::<S>(job, answer_ms, "cpu_us_per_request", &loads);
    let most = of_loads.remove(1);
    let mut figures = of_loads.remove(0);
    for name in ["cpu_percent", "wakeups_per_s", "rings_per_s"] {
        let of_fires = format!("fires_{name}");
        figures
            .0
            .extend(most.0.get(name).map(|figure| (of_fires, *figure)));
    }
    figures.0.extend(late.0);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::workload::Workload;

    fn job(per_s: usize, producers: usize) -> Job {
        Job {
            subject: Name::Heap,
            workload: Workload::W10,
            timers: per_s,
            threads: producers,
            seed: 1,
            quick: true,
        }
    }

    #[test]
    fn producers_share_a_second() {
        for (per_s, producers) in [(100, 1), (100, 3), (1_000, 2), (1_000_000, 2)] {
            let job = job(per_s, producers);
            let of = |step| {
                (0..producers)
                    .map(|number| in_step(&job, number, step))
                    .sum()
            };
            let all: Vec<usize> = (0..2 * STEPS_PER_S).map(of).collect();
            assert_eq!(all.iter().sum::<usize>(), 2 * per_s);
            let most = per_s / STEPS_PER_S + producers;
            assert!(all.iter().all(|&step| step <= most));
        }
    }

    /// Counts what is armed and cancelled.
    #[derive(Default)]
    struct Counts {
        timeouts: usize,
        due: usize,
        cancelled: usize,
    }

    impl Producer for Counts {
        type Handle = bool;

        fn arm(&mut self, delay: Duration, due_ns: u64) -> bool {
            let is_due = due_ns > 0;
            assert_eq!(is_due, delay < TIMEOUT);
            self.due += usize::from(is_due);
            self.timeouts += usize::from(!is_due);
            is_due
        }

        fn cancel(&mut self, is_due: bool) {
            assert!(!is_due, "nobody answers it");
            self.cancelled += 1;
        }

        fn rearm(&mut self, _: &mut bool, _: Duration) {}
    }

    #[test]
    fn requests_are_answered_in_time() {
        let (job, mut counts) = (job(10_000, 1), Counts::default());
        let mut own = Own::new(&job, 0, 5);
        (0..5).for_each(|_| own.step(&job, Answers::All, &mut counts));
        assert_eq!((counts.timeouts, counts.cancelled), (50, 0));
        (0..995).for_each(|_| own.step(&job, Answers::All, &mut counts));
        let Counts {
            timeouts,
            cancelled,
            due,
        } = counts;
        assert_eq!((timeouts, cancelled, due), (10_000, 9_950, 0));
        (0..1_000).for_each(|_| own.step(&job, Answers::Most, &mut counts));
        let Counts {
            timeouts,
            cancelled,
            due,
        } = counts;
        assert!((50..200).contains(&due), "one in a hundred: {due}");
        assert_eq!((own.armed_due, timeouts + due), (due as u64, 20_000));
        let waiting: usize = own.requests.iter().map(Vec::len).sum();
        assert_eq!(timeouts - cancelled, waiting);
    }

    #[test]
    fn all_timers_of_w9_fire() {
        let (job, mut counts) = (job(10_000, 1), Counts::default());
        let mut own = Own::new(&job, 0, 0);
        (0..2 * DROPPED_AFTER).for_each(|_| own.step(&job, Answers::None, &mut counts));
        assert_eq!((counts.due, counts.timeouts), (20 * DROPPED_AFTER, 0));
        let kept: usize = own.due.iter().map(Vec::len).sum();
        assert_eq!(kept, 10 * DROPPED_AFTER);
    }
}
