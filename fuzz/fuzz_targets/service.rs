//! A service under `ManualClock` against a ledger: each timer fires at its tick and never before,
//! has one outcome, and its payload is dropped once; ids of any age tell the truth.
//!
//! One thread, inline dispatch: the same input always does the same.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wheelwork::{
    Batch, ManualClock, Missed, ScheduleError, ServiceHandle, StopPolicy, TimerId, TimerService,
};
use wheelwork_fuzz::Span;
use wheelwork_fuzz::ledger::{Kind, Ledger};

/// Timers of one input: more than a turn dispatches and a page of cells holds, few enough for many
/// inputs a second.
const TIMERS_MAX: usize = 10_000;

#[derive(Arbitrary, Debug)]
struct Input {
    tick: Tick,
    shards: u8,
    max_pending: Option<u8>,
    /// Where time stands when the service starts, in nanoseconds.
    start_ns: u64,
    steps: Vec<Step>,
    stop: Stop,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Tick {
    Micro,
    Odd,
    Milli,
    Day,
}

/// A point in time: a tick, and nanoseconds more or less.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Time(Span, i8);

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Schedule(Time),
    At(Time),
    Within(Time, Time),
    On(u8, Time),
    /// `2^n` timers of one deadline.
    Many(u8, Time),
    /// Arms itself again from its handler, so often, so much later.
    Chain(u8, Time, Time),
    /// With this delay between its runs, and so many of them.
    Periodic(Rhythm, u8, Time, Time),
    /// The timer that was armed so many ago, dead or alive. So below.
    Cancel(u16),
    Take(u16),
    Reschedule(u16, Time),
    RescheduleAt(u16, Time),
    /// Of the last so many timers, each at this distance.
    CancelMany(u16, u8),
    RescheduleMany(u16, u8, Time),
    CancelAll,
    Look(u16),
    List,
    Advance(Time),
    ToNext,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Rhythm {
    Skip,
    Delay,
    Burst(u8),
    FixedDelay,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Stop {
    HandBack,
    FireAll,
    /// For as long as nothing is due: nobody else moves the clock.
    Drain,
}

const ONCE: Kind = Kind::Payload {
    again: 0,
    delay_ns: 0,
};

struct Payload {
    number: usize,
    /// So many are there as timers are alive.
    #[expect(dead_code, reason = "it is counted")]
    token: Arc<()>,
    again: Option<Again>,
}

/// What the handler does with a payload that arms itself again.
struct Again {
    service: ServiceHandle<Payload>,
    times: u8,
    delay: Duration,
}

/// When a timer fired, its number, and its next id if it has armed itself again.
type Fired = (u64, usize, Option<TimerId>);

struct World {
    clock: ManualClock,
    service: TimerService<Payload>,
    log: Arc<Mutex<Vec<Fired>>>,
    /// Every timer's present id, by number.
    ids: Vec<TimerId>,
    ledger: Ledger,
    origin: Instant,
    max_pending: usize,
    token: Arc<()>,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl World {
    fn new(input: &Input) -> Self {
        let tick = Duration::from_nanos(match input.tick {
            Tick::Micro => 1_000,
            Tick::Odd => 333_333,
            Tick::Milli => 1_000_000,
            Tick::Day => 86_400_000_000_000,
        });
        let clock = ManualClock::new();
        clock.advance(Duration::from_nanos(input.start_ns));
        let log = Arc::<Mutex<Vec<Fired>>>::default();
        let (sink, time) = (log.clone(), clock.clone());
        let fire = move |batch: &mut Batch<'_, Payload>| {
            for mut payload in batch {
                let number = payload.number;
                let again = payload
                    .again
                    .as_mut()
                    .filter(|again| again.times > 0)
                    .map(|again| {
                        again.times -= 1;
                        (again.service.clone(), again.delay)
                    });
                let next =
                    again.and_then(|(service, delay)| match service.schedule(delay, payload) {
                        Err(ScheduleError::Full(_)) => panic!("there is room for what fired"),
                        armed => armed.ok(),
                    });
                sink.lock()
                    .unwrap()
                    .push((nanos(time.elapsed()), number, next));
            }
        };
        let max_pending = input.max_pending.map_or(usize::MAX, usize::from);
        let builder = TimerService::builder()
            .tick(tick)
            .shards(usize::from(input.shards % 3) + 1)
            .clock(clock.clone());
        let service = builder
            .max_pending(max_pending)
            .on_expire(fire)
            .start()
            .unwrap();
        let (origin, ledger) = (clock.now() - clock.elapsed(), Ledger::new(nanos(tick)));
        Self {
            clock,
            service,
            log,
            ids: Vec::new(),
            ledger,
            origin,
            max_pending,
            token: Arc::new(()),
        }
    }

    fn now_ns(&self) -> u64 {
        nanos(self.clock.elapsed())
    }

    fn at_ns(&self, Time(span, off_ns): Time) -> u64 {
        match span.tick(self.now_ns() / self.ledger.tick_ns) {
            u64::MAX => u64::MAX,
            tick => tick
                .saturating_mul(self.ledger.tick_ns)
                .saturating_add_signed(off_ns.into()),
        }
    }

    fn instant(&self, at_ns: u64) -> Instant {
        self.origin + Duration::from_nanos(at_ns)
    }

    fn delay(&self, at_ns: u64) -> Duration {
        if at_ns == u64::MAX {
            Duration::MAX
        } else {
            Duration::from_nanos(at_ns.saturating_sub(self.now_ns()))
        }
    }

    fn payload(&self, again: Option<Again>) -> Payload {
        Payload {
            number: self.ids.len(),
            token: self.token.clone(),
            again,
        }
    }

    /// Notes what an attempt to arm a timer has come to.
    fn armed<P>(&mut self, result: Result<TimerId, ScheduleError<P>>, at_ns: u64, kind: Kind) {
        let full = self.ledger.waiting() >= self.max_pending;
        match result {
            Ok(id) => {
                assert!(!full, "more are pending than may be");
                self.ids.push(id);
                self.ledger.arm(self.now_ns(), at_ns, kind);
            }
            Err(error) => assert!(full && matches!(error, ScheduleError::Full(_)), "{error:?}"),
        }
    }

    fn schedule_within(&mut self, first_ns: u64, last_ns: u64) {
        let result = self.service.schedule_within(
            self.delay(first_ns)..=self.delay(last_ns),
            self.payload(None),
        );
        let mut at_ns = first_ns;
        if let Ok(id) = result {
            // The service has the choice.
            at_ns = self.now_ns() + nanos(self.service.remaining(id).unwrap());
            let earliest_ns = self
                .ledger
                .deadline_ns(self.now_ns(), first_ns)
                .max(self.now_ns());
            assert!(
                at_ns == earliest_ns || (earliest_ns..=last_ns).contains(&at_ns),
                "{at_ns} is not from {earliest_ns} to {last_ns}"
            );
        }
        self.armed(result, at_ns, ONCE);
    }

    fn schedule_many(&mut self, log: u8, at_ns: u64) {
        let timers = (1 << (log % 13)).min(TIMERS_MAX.saturating_sub(self.ids.len()));
        // Those that come after one that is refused are refused too.
        let numbers = self.ids.len()..self.ids.len() + timers;
        let payloads = numbers.map(|number| {
            (
                self.delay(at_ns),
                Payload {
                    number,
                    ..self.payload(None)
                },
            )
        });
        let results = self.service.schedule_many(payloads);
        assert_eq!(results.len(), timers);
        results
            .into_iter()
            .for_each(|result| self.armed(result, at_ns, ONCE));
    }

    fn schedule_chain(&mut self, times: u8, at_ns: u64, again_ns: u64) {
        let delay = self.delay(again_ns);
        let again = Again {
            service: self.service.handle(),
            times,
            delay,
        };
        let result = self
            .service
            .schedule_at(self.instant(at_ns), self.payload(Some(again)));
        self.armed(
            result,
            at_ns,
            Kind::Payload {
                again: times,
                delay_ns: nanos(delay).max(1),
            },
        );
    }

    fn schedule_periodic(&mut self, rhythm: Rhythm, runs: u8, first_ns: u64, again_ns: u64) {
        let (first, period, number) = (self.delay(first_ns), self.delay(again_ns), self.ids.len());
        let missed = match rhythm {
            Rhythm::Skip => Some(Missed::Skip),
            Rhythm::Delay => Some(Missed::Delay),
            Rhythm::Burst(limit) => Some(Missed::Burst(limit.into())),
            Rhythm::FixedDelay => None,
        };
        let periodic = missed.map_or_else(
            || self.service.every_after(period),
            |missed| self.service.every(period).missed(missed),
        );
        let (log, clock, token) = (self.log.clone(), self.clock.clone(), self.token.clone());
        let run = move || {
            let _alive = &token;
            log.lock()
                .unwrap()
                .push((nanos(clock.elapsed()), number, None));
        };
        let result = periodic.first(first).times(runs.into()).start(run);
        self.armed(
            result,
            first_ns,
            Kind::Periodic {
                runs,
                period_ns: nanos(period),
                missed,
                at_ns: 0,
                filed_ns: 0,
            },
        );
    }

    fn pick(&self, ago: u16) -> Option<usize> {
        (self.ids.len().checked_sub(1)?).checked_sub(usize::from(ago) % self.ids.len())
    }

    fn many(&self, last: u16, each: u8) -> impl Iterator<Item = usize> + use<> {
        (self.ids.len().saturating_sub(last.into())..self.ids.len()).step_by(usize::from(each) + 1)
    }

    fn take(&mut self, number: usize) {
        // Only what has a payload can be taken.
        let taken =
            self.ledger.get(number).is_some_and(|(payload, _)| payload) && self.ledger.end(number);
        assert_eq!(
            self.service
                .take(self.ids[number])
                .map(|payload| payload.number),
            taken.then_some(number)
        );
    }

    fn reschedule(&mut self, number: usize, at_ns: u64, moved: bool) {
        assert_eq!(
            moved,
            self.ledger.reschedule(number, self.now_ns(), at_ns),
            "reschedule of {number}"
        );
    }

    fn look(&self, number: usize) {
        let (id, deadline_ns) = (
            self.ids[number],
            self.ledger.get(number).map(|(_, deadline_ns)| deadline_ns),
        );
        let left = deadline_ns
            .map(|deadline_ns| Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns())));
        assert_eq!(
            (self.service.is_pending(id), self.service.remaining(id)),
            (left.is_some(), left)
        );
        assert_eq!(
            self.service.deadline(id),
            deadline_ns.map(|deadline_ns| self.instant(deadline_ns))
        );
    }

    fn list(&self) {
        let pending: HashMap<_, _> = (0..self.service.shards())
            .flat_map(|shard| self.service.pending(shard))
            .collect();
        assert_eq!(pending.len(), self.ledger.waiting());
        for (number, _, deadline_ns) in self.ledger.iter() {
            assert_eq!(
                pending[&self.ids[number]],
                Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns()))
            );
        }
    }

    /// What has fired is what had to, each at its tick.
    fn check_fired(&mut self) {
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        assert!(
            log.is_sorted_by_key(|&(at_ns, ..)| at_ns),
            "ticks are not in order"
        );
        let mut fired: Vec<_> = log
            .iter()
            .map(|&(at_ns, number, _)| (at_ns, number))
            .collect();
        fired.sort_unstable();
        assert_eq!(fired, self.ledger.fire(self.now_ns()));
        log.into_iter()
            .filter_map(|(_, number, next)| Some((number, next?)))
            .for_each(|(number, next)| self.ids[number] = next);
    }

    fn advance_to_next(&mut self) {
        // What is due already fires first.
        self.clock.advance(Duration::ZERO);
        self.check_fired();
        let (before_ns, first_ns) = (self.now_ns(), self.ledger.first_ns());
        let by = self.clock.advance_to_next();
        assert_eq!(by.map_or(0, nanos), self.now_ns() - before_ns);
        // It may stop where a timer was due that is gone, but passes none.
        assert!(
            first_ns.is_none_or(|first_ns| by.is_some() && self.now_ns() <= first_ns),
            "{by:?}, but one fires at {first_ns:?}"
        );
        self.check_fired();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Schedule(time) => {
                let result = self
                    .service
                    .schedule(self.delay(self.at_ns(time)), self.payload(None));
                self.armed(result, self.at_ns(time), ONCE);
            }
            Step::At(time) => {
                let result = self
                    .service
                    .schedule_at(self.instant(self.at_ns(time)), self.payload(None));
                self.armed(result, self.at_ns(time), ONCE);
            }
            Step::Within(first, last) => self.schedule_within(self.at_ns(first), self.at_ns(last)),
            Step::On(shard, time) => {
                let result = self.service.schedule_on(
                    shard.into(),
                    self.delay(self.at_ns(time)),
                    self.payload(None),
                );
                self.armed(result, self.at_ns(time), ONCE);
            }
            Step::Many(log, time) => self.schedule_many(log, self.at_ns(time)),
            Step::Chain(times, time, again) => {
                self.schedule_chain(times, self.at_ns(time), self.at_ns(again))
            }
            Step::Periodic(rhythm, runs, first, again) => {
                self.schedule_periodic(rhythm, runs.max(1), self.at_ns(first), self.at_ns(again))
            }
            Step::Cancel(ago) => {
                if let Some(number) = self.pick(ago) {
                    assert_eq!(
                        self.service.cancel(self.ids[number]),
                        self.ledger.end(number),
                        "cancel of {number}"
                    );
                }
            }
            Step::Take(ago) => _ = self.pick(ago).map(|number| self.take(number)),
            Step::Reschedule(ago, time) => {
                if let Some(number) = self.pick(ago) {
                    let moved = self
                        .service
                        .reschedule(self.ids[number], self.delay(self.at_ns(time)));
                    self.reschedule(number, self.at_ns(time), moved);
                }
            }
            Step::RescheduleAt(ago, time) => {
                if let Some(number) = self.pick(ago) {
                    let moved = self
                        .service
                        .reschedule_at(self.ids[number], self.instant(self.at_ns(time)));
                    self.reschedule(number, self.at_ns(time), moved);
                }
            }
            Step::CancelMany(last, each) => {
                let cancelled = self
                    .service
                    .cancel_many(self.many(last, each).map(|number| self.ids[number]));
                assert_eq!(
                    cancelled,
                    self.many(last, each)
                        .filter(|&number| self.ledger.end(number))
                        .count()
                );
            }
            Step::RescheduleMany(last, each, time) => {
                let (now_ns, at_ns) = (self.now_ns(), self.at_ns(time));
                let moved = self.service.reschedule_many(
                    self.many(last, each).map(|number| self.ids[number]),
                    self.delay(at_ns),
                );
                assert_eq!(
                    moved,
                    self.many(last, each)
                        .filter(|&number| self.ledger.reschedule(number, now_ns, at_ns))
                        .count()
                );
            }
            Step::CancelAll => {
                assert_eq!(self.service.cancel_all(), self.ledger.waiting());
                (0..self.ids.len()).for_each(|number| _ = self.ledger.end(number));
            }
            Step::Look(ago) => _ = self.pick(ago).map(|number| self.look(number)),
            Step::List => self.list(),
            Step::Advance(time) => {
                self.clock.advance(self.delay(self.at_ns(time)));
                self.check_fired();
            }
            Step::ToNext => self.advance_to_next(),
        }
    }

    fn check(&self) {
        let waiting = self.ledger.waiting();
        assert_eq!(self.service.len(), waiting as u64);
        assert_eq!(
            Arc::strong_count(&self.token),
            1 + waiting,
            "a payload was dropped twice, or not at all"
        );
    }

    fn stop(mut self, stop: Stop) {
        let now_ns = self.now_ns();
        let mut rest: Vec<_> = self
            .ledger
            .iter()
            .filter(|&(_, payload, _)| payload)
            .map(|(number, _, deadline_ns)| (number, deadline_ns))
            .collect();
        let first_ns = rest
            .iter()
            .map(|&(_, deadline_ns)| deadline_ns)
            .min()
            .unwrap_or(u64::MAX);
        let policy = match stop {
            Stop::FireAll => StopPolicy::FireAll,
            Stop::Drain if first_ns > now_ns => StopPolicy::Drain(self.delay(first_ns - 1)),
            Stop::HandBack | Stop::Drain => StopPolicy::HandBack,
        };
        rest.sort_unstable();
        let left = rest.iter().map(|&(number, deadline_ns)| {
            (
                number,
                Duration::from_nanos(deadline_ns.saturating_sub(now_ns)),
            )
        });
        let unfired = self.service.stop_with(policy);
        let mut came: Vec<_> = unfired
            .iter()
            .map(|unfired| (unfired.payload.number, unfired.remaining))
            .collect();
        came.sort_unstable();
        let mut fired: Vec<_> = self.log.lock().unwrap().drain(..).collect();
        fired.sort_unstable_by_key(|&(_, number, _)| number);
        if policy == StopPolicy::FireAll {
            assert!(
                came.is_empty()
                    && fired
                        .into_iter()
                        .eq(rest.iter().map(|&(number, _)| (now_ns, number, None)))
            );
        } else {
            assert!(fired.is_empty() && came.into_iter().eq(left));
        }
        drop(unfired);
        assert!(
            self.ids
                .iter()
                .rev()
                .take(100)
                .all(|&id| !self.service.cancel(id) && !self.service.is_pending(id))
        );
        assert!(matches!(
            self.service.schedule(Duration::ZERO, self.payload(None)),
            Err(ScheduleError::Stopped(_))
        ));
        self.clock.advance(Duration::MAX);
        assert!(
            self.log.lock().unwrap().is_empty(),
            "something fired after stop"
        );
        self.ledger = Ledger::new(self.ledger.tick_ns);
        self.check();
    }
}

fuzz_target!(|input: Input| {
    let mut world = World::new(&input);
    for step in input.steps {
        if world.ids.len() < TIMERS_MAX {
            world.step(step);
            world.check();
        }
    }
    world.stop(input.stop);
});
