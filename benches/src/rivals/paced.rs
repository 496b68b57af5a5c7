//! W9 and W10: rates that programs have. A producer does some work each millisecond and sleeps in between; what counts is the CPU time that the timers take,
//! beyond that of such a loop alone, and how late those are that fire.

use crate::job::Job;
use crate::line::Figures;
use crate::rest::other_threads_wakeups;
use crate::subjects::{Producer, Subject};
use crate::{book, crew, system, throughput};
use fastrand::Rng;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// What a producer waits for between two steps.
const STEP: Duration = Duration::from_millis(1);
const STEPS_PER_S: usize = 1_000;

/// The time-out of a request that is answered.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One request in so many is not answered: its time-out is short, and fires.
const UNANSWERED: usize = 100;

/// What fires is due after this time, uniformly in the next second. On a grid, for the sake of futures' wakers: see `fires.rs`.
const LEAD_NS: u64 = 100_000_000;
const SPREAD_NS: u64 = 1_000_000_000;
const GRID_NS: u64 = 10_000;

/// What a producer owns.
struct Own<H> {
    rng: Rng,
    /// Of each step, until its requests are answered.
    requests: Vec<Vec<H>>,
    /// What nobody cancels: dropping a future would.
    kept: Vec<H>,
    number: usize,
}

/// The process at an instant.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    cpu: Duration,
    wakeups: u64,
}

impl Reading {
    fn take() -> Self {
        Self { at: Instant::now(), cpu: system::cpu_time(), wakeups: other_threads_wakeups() }
    }

    /// CPU time and wake-ups in a second, from then until now.
    fn until_now(self) -> (f64, f64) {
        let now = Self::take();
        let elapsed_s = (now.at - self.at).as_secs_f64();
        ((now.cpu - self.cpu).as_secs_f64() / elapsed_s, now.wakeups.saturating_sub(self.wakeups) as f64 / elapsed_s)
    }
}

/// Steps that pass before a measurement, and those that are measured.
struct Steps {
    before: usize,
    measured: usize,
}

impl Steps {
    fn of(job: &Job, before_ms: usize) -> Self {
        if job.quick { Self { before: before_ms / 4, measured: 300 } } else { Self { before: before_ms, measured: 4 * STEPS_PER_S } }
    }

    /// Has the calling producer take all steps. The first one notes what the measured ones took, in a second.
    fn take(&self, number: usize, measured: &Mutex<(f64, f64)>, mut step: impl FnMut(usize)) {
        let (start, mut from) = (Instant::now(), None);
        for number_of_step in 0..self.before + self.measured {
            if number_of_step == self.before && number == 0 {
                from = Some(Reading::take());
            }
            step(number_of_step);
            thread::sleep((start + STEP * (number_of_step as u32 + 1)).saturating_duration_since(Instant::now()));
        }
        if let Some(from) = from {
            *measured.lock().expect("nobody panics with it") = from.until_now();
        }
    }
}

/// How many of `per_s` come in a step, for one of so many producers.
fn in_step(per_s: usize, job: &Job, number: usize, step: usize) -> usize {
    let until = |step: usize| (per_s * step + number * STEPS_PER_S) / (STEPS_PER_S * job.threads);
    until(step + 1) - until(step)
}

/// Arms a timer that fires.
fn arm_due<P: Producer>(producer: &mut P, own: &mut Own<P::Handle>) {
    let delay_ns = LEAD_NS + own.rng.u64(..SPREAD_NS);
    let due_ns = (book::now_ns() + delay_ns).next_multiple_of(GRID_NS);
    let delay = Duration::from_nanos(due_ns.saturating_sub(book::now_ns()));
    own.kept.push(producer.arm(delay, due_ns));
}

/// Runs the loop alone, and with its timers.
fn measure<S: Subject>(
    job: &Job,
    answer_steps: usize,
    steps: &Steps,
    step: impl Fn(&mut S::Producer, &mut Own<<S::Producer as Producer>::Handle>, usize) + Sync,
) -> (f64, f64) {
    let mut owns: Vec<Own<<S::Producer as Producer>::Handle>> = (0..job.threads)
        .map(|number| Own {
            rng: Rng::with_seed(job.seed.wrapping_mul(7919).wrapping_add(number as u64)),
            requests: (0..answer_steps).map(|_| Vec::new()).collect(),
            kept: Vec::new(),
            number,
        })
        .collect();
    let (alone, with) = (Mutex::default(), Mutex::default());
    let loop_alone = |_: &mut S::Producer, own: &mut Own<_>| steps.take(own.number, &alone, |_| ());
    let loop_with = |producer: &mut S::Producer, own: &mut Own<_>| {
        let number = own.number;
        steps.take(number, &with, |number_of_step| step(producer, own, number_of_step));
        // What was armed last is due by then.
        thread::sleep(Duration::from_nanos(LEAD_NS + SPREAD_NS + 100_000_000));
    };
    crew::run(throughput::start::<S>(), &mut owns, &[&loop_alone, &loop_with], |_, _| ());
    std::mem::forget(owns);
    let ((cpu_alone, wakeups_alone), (cpu, wakeups)) = (alone.into_inner().expect("as above"), with.into_inner().expect("as above"));
    (cpu - cpu_alone, wakeups - wakeups_alone)
}

fn lateness_figures(figures: &mut Figures) {
    let lateness = book::lateness();
    let ms = |part| lateness.quantile_ns(part) as f64 / 1e6;
    figures.extend([("late_ms_p50", ms(0.5)), ("late_ms_p99", ms(0.99)), ("late_ms_max", ms(1.0)), ("early", lateness.early as f64)]);
}

/// W9: so many timers fire in a second, at random instants.
pub(crate) fn fires<S: Subject>(job: &Job) -> Figures {
    let steps = Steps::of(job, 2 * STEPS_PER_S);
    let (cpu, wakeups) = measure::<S>(job, 0, &steps, |producer, own, step| {
        (0..in_step(job.timers, job, own.number, step)).for_each(|_| arm_due(producer, own));
    });
    let mut figures =
        Figures::from([("cpu_us_per_fire", cpu * 1e6 / job.timers as f64), ("cpu_percent", cpu * 100.0), ("wakeups_per_s", wakeups)]);
    lateness_figures(&mut figures);
    figures
}

/// W10: so many requests in a second have a time-out each, and are answered after a time; one in a hundred is not.
pub(crate) fn server<S: Subject>(job: &Job, answer_ms: usize) -> Figures {
    let steps = Steps::of(job, answer_ms + 2 * STEPS_PER_S);
    let (cpu, wakeups) = measure::<S>(job, answer_ms, &steps, |producer, own, step| {
        let place = step % answer_ms;
        let mut requests = std::mem::take(&mut own.requests[place]);
        requests.drain(..).for_each(|request| producer.cancel(request));
        for _ in 0..in_step(job.timers, job, own.number, step) {
            if own.rng.usize(..UNANSWERED) == 0 {
                arm_due(producer, own);
            } else {
                requests.push(producer.arm(TIMEOUT, 0));
            }
        }
        own.requests[place] = requests;
    });
    let mut figures =
        Figures::from([("cpu_percent", cpu * 100.0), ("cpu_us_per_request", cpu * 1e6 / job.timers as f64), ("wakeups_per_s", wakeups)]);
    lateness_figures(&mut figures);
    figures
}
