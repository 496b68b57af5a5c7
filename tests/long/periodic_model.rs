//! Promise: every periodic timer runs when its rhythm says: at a fixed rate without drift, whatever
//! runs it missed; so long after its last run; or when a function says. As often as was asked for,
//! from where it was moved to, and no more once it was cancelled; then its closure is dropped.
//!
//! Arbitrary sequences of calls under a manual clock against a model that is written from the
//! documentation, begun around every edge between two levels of the wheel and at ages up to a
//! hundred years. Workers that are held up make runs late: then runs are missed. How to repeat a
//! failure: `common/mod.rs`.

use crate::spans::{NANOS_MAX, Span, Start, end_ns, from_every_start, nanos, span};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{thread, vec};
use wheelwork::{Dispatch, ManualClock, Missed, TimerId, TimerService};

/// A timer whose runs would be more than this in one advance is cancelled before.
const RUNS_MAX: u64 = 100;

#[derive(Clone, Debug)]
enum Kind {
    Once(Span),
    Every(Span, Missed),
    WithDelay(Span),
    /// The next run comes so long after the last one was meant to be, or before it; then there is
    /// none.
    By(Vec<(Span, bool)>),
}

#[derive(Clone, Debug)]
enum Call {
    Start {
        kind: Kind,
        first: Option<Span>,
        times: Option<u64>,
    },
    Cancel(usize),
    Take(usize),
    Reschedule(usize, Span),
    Look(usize),
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        call: Call,
        elsewhere: bool,
    },
    Advance(Span),
    /// To the next deadline, and nanoseconds more or less.
    ToNext(i64),
    /// The workers are busy for a while, at the end of which there is a call.
    HoldUp(Span, Call),
}

fn call() -> impl Strategy<Value = Call> {
    let missed = prop_oneof![
        Just(Missed::Skip),
        Just(Missed::Delay),
        (0u32..5).prop_map(Missed::Burst)
    ];
    let kind = prop_oneof![
        1 => span().prop_map(Kind::Once),
        6 => (span(), missed).prop_map(|(period, missed)| Kind::Every(period, missed)),
        3 => span().prop_map(Kind::WithDelay),
        3 => prop::collection::vec((span(), prop::bool::weighted(0.2)), 0..8).prop_map(Kind::By),
    ];
    let first = || prop::option::of(span());
    let times = || prop::option::of(prop_oneof![1u64..4, 1u64..40]);
    prop_oneof![
        6 => (kind, first(), times()).prop_map(|(kind, first, times)| Call::Start { kind, first, times }),
        2 => any::<usize>().prop_map(Call::Cancel),
        1 => any::<usize>().prop_map(Call::Take),
        4 => (any::<usize>(), span()).prop_map(|(which, span)| Call::Reschedule(which, span)),
        1 => any::<usize>().prop_map(Call::Look),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (call(), prop::bool::weighted(0.2)).prop_map(|(call, elsewhere)| Step::Call { call, elsewhere }),
        3 => span().prop_map(Step::Advance),
        3 => (-1i64..=1).prop_map(Step::ToNext),
        2 => (span(), call()).prop_map(|(span, call)| Step::HoldUp(span, call)),
    ]
}

type Job = Box<dyn FnOnce() + Send>;

/// Workers that run a job at once, or hold it until they are let go.
#[derive(Clone, Default)]
struct Workers(Arc<Mutex<Option<Vec<Job>>>>);

impl Workers {
    fn dispatch(&self) -> Dispatch {
        let held = self.0.clone();
        Dispatch::executor(move |job| {
            let mut held = held.lock().unwrap();
            if let Some(jobs) = &mut *held {
                return jobs.push(job);
            }
            drop(held);
            job();
        })
    }

    fn hold(&self) {
        *self.0.lock().unwrap() = Some(Vec::new());
    }

    fn let_go(&self) {
        let jobs = self.0.lock().unwrap().take();
        jobs.into_iter().flatten().for_each(|job| job());
    }
}

enum Rhythm {
    Once,
    Rate(u64, Missed),
    Delay(u64),
    By(vec::IntoIter<(Duration, bool)>),
}

/// A timer as the model sees it.
struct Timer {
    rhythm: Rhythm,
    /// When the next run is meant to be.
    at_ns: u64,
    /// The tick of that, or the one to which it was moved.
    deadline_ns: u64,
    /// It was moved to another tick, and perhaps back.
    was_moved: bool,
    runs_left: u64,
}

impl Timer {
    /// After a run: when the next one is meant to be.
    fn next_ns(&mut self, now_ns: u64, tick_ns: u64) -> Option<u64> {
        self.runs_left -= 1;
        if self.runs_left == 0 {
            return None;
        }
        match &mut self.rhythm {
            Rhythm::Once => None,
            Rhythm::Rate(period_ns, missed) => {
                // The run that was missed last, counted from this one: its tick has come.
                let last = (now_ns / tick_ns * tick_ns).saturating_sub(self.at_ns) / *period_ns;
                let next = match *missed {
                    Missed::Delay if last > 0 => return Some(now_ns.saturating_add(*period_ns)),
                    Missed::Burst(limit) => last.saturating_sub(u64::from(limit)) + 1,
                    _ => last + 1,
                };
                Some(self.at_ns.saturating_add(next.saturating_mul(*period_ns)))
            }
            Rhythm::Delay(delay_ns) => Some(now_ns.saturating_add(*delay_ns)),
            Rhythm::By(script) => say(script, self.at_ns),
        }
    }

    /// Whether it would run too often until then.
    fn runs_away(&self, by_ns: u64, tick_ns: u64) -> bool {
        match self.rhythm {
            Rhythm::Rate(period_ns, _) | Rhythm::Delay(period_ns) => {
                self.runs_left.min(by_ns / period_ns.max(tick_ns)) > RUNS_MAX
            }
            Rhythm::Once | Rhythm::By(_) => false,
        }
    }
}

/// Held at the last nanosecond that a service counts.
fn held_ns(duration: Duration) -> u64 {
    duration.as_nanos().min(u128::from(NANOS_MAX)) as u64
}

/// What the function of a timer says: in nanoseconds since the clock's origin.
fn say(script: &mut vec::IntoIter<(Duration, bool)>, last_ns: u64) -> Option<u64> {
    let (delay, back) = script.next().filter(|&(delay, _)| delay != Duration::MAX)?;
    Some(if back {
        last_ns.saturating_sub(nanos(delay))
    } else {
        last_ns.saturating_add(nanos(delay))
    })
}

/// A run, and what the function of the timer is given after it.
type Event = (u64, u32, Option<u64>);

struct Model {
    clock: ManualClock,
    origin: Instant,
    service: TimerService,
    workers: Workers,
    /// Whether runs are on the thread that advances the clock, and so never late.
    inline: bool,
    tick_ns: u64,
    log: Arc<Mutex<Vec<Event>>>,
    expected: Vec<Event>,
    /// As many as there are closures.
    alive: Arc<()>,
    timers: BTreeMap<u32, Timer>,
    order: BTreeSet<(u64, u32)>,
    /// Every id ever given out; the far timer's is the first.
    ids: Vec<TimerId>,
}

impl Model {
    fn new(start: Start, inline: bool) -> Self {
        let (clock, workers) = (ManualClock::new(), Workers::default());
        let origin = clock.now();
        clock.advance(Duration::from_nanos(start.at_ns));
        let builder = TimerService::builder()
            .tick(start.tick)
            .shards(start.shards)
            .clock(clock.clone());
        let service = if inline {
            builder
        } else {
            builder.dispatch(workers.dispatch())
        }
        .start()
        .unwrap();
        let (tick_ns, ids) = (
            nanos(start.tick),
            vec![
                service
                    .schedule(Duration::MAX, || unreachable!("far"))
                    .unwrap(),
            ],
        );
        let (log, expected, alive, timers, order) = Default::default();
        Self {
            clock,
            origin,
            service,
            workers,
            inline,
            tick_ns,
            log,
            expected,
            alive,
            timers,
            order,
            ids,
        }
    }

    fn now_ns(&self) -> u64 {
        nanos(self.clock.elapsed())
    }

    fn duration(&self, span: Span) -> Duration {
        span.at(self.now_ns(), self.tick_ns)
    }

    /// The tick for a time: what is due now or before is due at the next.
    fn tick_for(&self, at_ns: u64, now_ns: u64) -> u64 {
        let at_ns = u128::from(at_ns).max(u128::from(now_ns) + 1);
        at_ns
            .next_multiple_of(u128::from(self.tick_ns))
            .min(u128::from(end_ns(self.tick_ns))) as u64
    }

    fn start(&mut self, kind: Kind, first: Option<Span>, times: Option<u64>) {
        let (number, now_ns) = (self.ids.len() as u32, self.now_ns());
        let (log, time, alive) = (self.log.clone(), self.clock.clone(), self.alive.clone());
        let run = move || {
            let _ = &alive;
            log.lock()
                .unwrap()
                .push((nanos(time.elapsed()), number, None));
        };
        let (service, origin, tick_ns) = (&self.service, self.origin, self.tick_ns);
        let (periodic, rhythm, delay) = match kind {
            Kind::Once(span) => {
                let delay = span.at(now_ns, tick_ns);
                let id = service.schedule(delay, run).unwrap();
                return self.started(id, Rhythm::Once, delay, 1);
            }
            Kind::Every(span, missed) => {
                let period = span.at(now_ns, tick_ns);
                (
                    service.every(period).missed(missed),
                    Rhythm::Rate(held_ns(period).max(tick_ns), missed),
                    period,
                )
            }
            Kind::WithDelay(span) => {
                let delay = span.at(now_ns, tick_ns);
                (
                    service.every_after(delay),
                    Rhythm::Delay(held_ns(delay)),
                    delay,
                )
            }
            Kind::By(spans) => {
                let script: Vec<_> = spans
                    .into_iter()
                    .map(|(span, back)| (span.at(now_ns, tick_ns), back))
                    .collect();
                let (mut says, log, time) = (
                    script.clone().into_iter(),
                    self.log.clone(),
                    self.clock.clone(),
                );
                let next = move |last: Instant| {
                    let last_ns = nanos(last - origin);
                    log.lock()
                        .unwrap()
                        .push((nanos(time.elapsed()), number, Some(last_ns)));
                    say(&mut says, last_ns).map(|next_ns| origin + Duration::from_nanos(next_ns))
                };
                (
                    service.every_by(next),
                    Rhythm::By(script.into_iter()),
                    Duration::ZERO,
                )
            }
        };
        let first = first.map(|span| span.at(now_ns, tick_ns));
        let periodic = if let Some(first) = first {
            periodic.first(first)
        } else {
            periodic
        };
        let periodic = if let Some(times) = times {
            periodic.times(times)
        } else {
            periodic
        };
        let id = periodic.start(run).unwrap();
        self.started(
            id,
            rhythm,
            first.unwrap_or(delay),
            times.unwrap_or(u64::MAX),
        );
    }

    fn started(&mut self, id: TimerId, rhythm: Rhythm, first: Duration, runs_left: u64) {
        let (number, now_ns) = (self.ids.len() as u32, self.now_ns());
        let at_ns = now_ns.saturating_add(held_ns(first).max(1));
        let deadline_ns = self.tick_for(at_ns, now_ns);
        self.ids.push(id);
        self.order.insert((deadline_ns, number));
        self.timers.insert(
            number,
            Timer {
                rhythm,
                at_ns,
                deadline_ns,
                was_moved: false,
                runs_left,
            },
        );
    }

    fn ended(&mut self, number: u32) -> bool {
        let timer = self.timers.remove(&number);
        timer.is_some_and(|timer| self.order.remove(&(timer.deadline_ns, number)))
    }

    fn call(&mut self, call: Call) -> TestCaseResult {
        let now_ns = self.now_ns();
        let (which, call) = match call {
            Call::Start { kind, first, times } => {
                self.start(kind, first, times);
                return Ok(());
            }
            Call::Cancel(which)
            | Call::Take(which)
            | Call::Reschedule(which, _)
            | Call::Look(which) => (which, call),
        };
        // The far timer, number 0, stays. The rest may be alive or dead.
        let Some(others) = self.ids.len().checked_sub(1).filter(|&others| others > 0) else {
            return Ok(());
        };
        let number = 1 + (which % others) as u32;
        let id = self.ids[number as usize];
        match call {
            Call::Start { .. } => unreachable!(),
            Call::Cancel(_) => prop_assert_eq!(
                self.service.cancel(id),
                self.ended(number),
                "cancel of {}",
                number
            ),
            Call::Take(_) => {
                // A periodic timer has no payload.
                let is_once = self
                    .timers
                    .get(&number)
                    .is_some_and(|timer| matches!(timer.rhythm, Rhythm::Once));
                prop_assert_eq!(
                    self.service.take(id).is_some(),
                    is_once && self.ended(number),
                    "take of {}",
                    number
                );
            }
            Call::Reschedule(_, span) => {
                let delay = self.duration(span);
                let moved = self.service.reschedule(id, delay);
                prop_assert_eq!(
                    moved,
                    self.timers.contains_key(&number),
                    "reschedule of {}",
                    number
                );
                let deadline_ns = self.tick_for(now_ns.saturating_add(held_ns(delay)), now_ns);
                if let Some(timer) = self.timers.get_mut(&number) {
                    self.order.remove(&(timer.deadline_ns, number));
                    timer.was_moved |= timer.deadline_ns != deadline_ns;
                    timer.deadline_ns = deadline_ns;
                    self.order.insert((deadline_ns, number));
                }
            }
            Call::Look(_) => {
                let deadline_ns = self.timers.get(&number).map(|timer| timer.deadline_ns);
                prop_assert_eq!(
                    self.service.is_pending(id),
                    deadline_ns.is_some(),
                    "is_pending of {}",
                    number
                );
                let left = deadline_ns
                    .map(|deadline_ns| Duration::from_nanos(deadline_ns.saturating_sub(now_ns)));
                prop_assert_eq!(self.service.remaining(id), left, "remaining of {}", number);
                let deadline =
                    deadline_ns.map(|deadline_ns| self.origin + Duration::from_nanos(deadline_ns));
                prop_assert_eq!(
                    self.service.deadline(id),
                    deadline,
                    "deadline of {}",
                    number
                );
            }
        }
        Ok(())
    }

    /// Moves both to a later time, but not as far as the far timer.
    fn advance(&mut self, by: Duration) -> TestCaseResult {
        let by = by.min(Duration::from_nanos(
            end_ns(self.tick_ns) - 1 - self.now_ns(),
        ));
        let runs_away = |(&number, timer): (&u32, &Timer)| {
            timer
                .runs_away(nanos(by), self.tick_ns)
                .then_some(number as usize - 1)
        };
        let too_many: Vec<_> = self.timers.iter().filter_map(runs_away).collect();
        too_many
            .into_iter()
            .try_for_each(|which| self.call(Call::Cancel(which)))?;
        self.clock.advance(by);
        Ok(())
    }

    /// Runs in the model what is due by now, at its tick or later, and compares.
    fn check_runs(&mut self, from_ns: u64) -> TestCaseResult {
        while let Some(&(deadline_ns, number)) = self
            .order
            .first()
            .filter(|&&(deadline_ns, _)| deadline_ns <= self.now_ns())
        {
            self.order.pop_first();
            let mut timer = self.timers.remove(&number).unwrap();
            let run_ns = deadline_ns.max(from_ns);
            self.expected.push((run_ns, number, None));
            if std::mem::take(&mut timer.was_moved) {
                timer.at_ns = timer.deadline_ns;
            }
            if matches!(timer.rhythm, Rhythm::By(_)) && timer.runs_left > 1 {
                self.expected.push((run_ns, number, Some(timer.at_ns)));
            }
            if let Some(next_ns) = timer.next_ns(run_ns, self.tick_ns) {
                timer.at_ns = next_ns.min(NANOS_MAX);
                timer.deadline_ns = self.tick_for(timer.at_ns, run_ns);
                self.order.insert((timer.deadline_ns, number));
                self.timers.insert(number, timer);
            }
        }
        let mut runs = std::mem::take(&mut *self.log.lock().unwrap());
        prop_assert!(
            runs.is_sorted_by_key(|&(at_ns, ..)| at_ns),
            "not in order of ticks: {:?}",
            runs
        );
        runs.sort_unstable();
        self.expected.sort_unstable();
        prop_assert_eq!(runs, std::mem::take(&mut self.expected));
        prop_assert_eq!(
            Arc::strong_count(&self.alive),
            1 + self.timers.len(),
            "closures"
        );
        prop_assert_eq!(
            (self.service.len(), self.service.stats().panics),
            (1 + self.timers.len() as u64, 0)
        );
        Ok(())
    }

    fn step(&mut self, step: Step) -> TestCaseResult {
        match step {
            Step::Call {
                call,
                elsewhere: false,
            } => self.call(call),
            Step::Call {
                call,
                elsewhere: true,
            } => thread::scope(|scope| {
                scope
                    .spawn(|| self.call(call))
                    .join()
                    .unwrap_or_else(|_| Err(TestCaseError::fail("panicked")))
            }),
            Step::Advance(span) => {
                self.advance(self.duration(span))?;
                self.check_runs(0)
            }
            Step::ToNext(off_ns) => {
                let Some(&(next_ns, _)) = self.order.first() else {
                    return Ok(());
                };
                let by_ns = next_ns
                    .saturating_add_signed(off_ns)
                    .saturating_sub(self.now_ns());
                self.advance(Duration::from_nanos(by_ns))?;
                self.check_runs(0)
            }
            Step::HoldUp(span, call) => {
                self.workers.hold();
                self.advance(self.duration(span))?;
                if self.inline {
                    self.check_runs(0)?;
                }
                self.call(call)?;
                self.workers.let_go();
                self.clock.advance(Duration::ZERO);
                self.check_runs(self.now_ns())
            }
        }
    }

    fn stop(self) -> TestCaseResult {
        let once = self
            .timers
            .values()
            .filter(|timer| matches!(timer.rhythm, Rhythm::Once))
            .count();
        prop_assert_eq!(
            self.service.stop().len(),
            1 + once,
            "periodic timers are not handed back"
        );
        prop_assert_eq!(Arc::strong_count(&self.alive), 1, "closures");
        prop_assert!(
            self.ids
                .iter()
                .all(|&id| !self.service.cancel(id) && !self.service.is_pending(id))
        );
        self.clock.advance(Duration::MAX);
        prop_assert!(
            self.log.lock().unwrap().is_empty(),
            "something ran after stop"
        );
        Ok(())
    }
}

fn runs_when_its_rhythm_says(tick: Duration, cases: u32) {
    let sequences = (any::<bool>(), prop::collection::vec(step(), 1..60));
    from_every_start(tick, cases, &sequences, |start, (inline, steps)| {
        let mut model = Model::new(start, inline);
        steps.into_iter().try_for_each(|step| model.step(step))?;
        model.stop()
    });
}

#[test]
fn with_a_tick_of_a_microsecond() {
    runs_when_its_rhythm_says(Duration::from_micros(1), 8);
}

#[test]
fn with_a_tick_of_a_millisecond() {
    runs_when_its_rhythm_says(Duration::from_millis(1), 8);
}

#[test]
fn with_a_tick_of_a_second() {
    runs_when_its_rhythm_says(Duration::from_secs(1), 8);
}

#[test]
fn with_an_odd_tick() {
    runs_when_its_rhythm_says(Duration::from_micros(333), 8);
}
