//! Promise: every timer does what an entry of a `BTreeMap` would do. It fires at the first tick at
//! or after its deadline, ticks in order; `cancel`, `take`, `reschedule`, their kin for many, and
//! the looks tell the truth, for ids of any age; `stop` hands back exactly the rest.
//!
//! Arbitrary sequences of calls under a manual clock, on one and on three shards, begun around
//! every edge between two levels of the wheel and at ages up to a hundred years, always with a far
//! timer. The calls come one after the other, some of them on threads of their own, which spreads
//! them over the shards. How to repeat a failure: `common/mod.rs`.

use crate::spans::{Span, Start, end_ns, from_every_start, nanos, span};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, ManualClock, ServiceHandle, TimerId, TimerService};

#[derive(Clone, Copy, Debug)]
enum Call {
    Schedule(Span),
    At(Span),
    Past(Span),
    /// Some time between the first delay, and a number of ticks later.
    Within(Span, u64),
    Burst(u16, Span),
    Many(u16, Span),
    Cancel(usize),
    /// A number of timers in a row.
    CancelMany(usize, u16),
    RescheduleMany(usize, u16, Span),
    Take(usize),
    Reschedule(usize, Span),
    RescheduleAt(usize, Span),
    Look(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call { call: Call, elsewhere: bool },
    Advance(Span),
    ToNext,
}

fn step() -> impl Strategy<Value = Step> {
    let call = prop_oneof![
        60 => span().prop_map(Call::Schedule),
        12 => span().prop_map(Call::At),
        4 => span().prop_map(Call::Past),
        1 => (1u16..300, span()).prop_map(|(timers, span)| Call::Burst(timers, span)),
        24 => any::<usize>().prop_map(Call::Cancel),
        8 => any::<usize>().prop_map(Call::Take),
        24 => (any::<usize>(), span()).prop_map(|(which, span)| Call::Reschedule(which, span)),
        8 => (any::<usize>(), span()).prop_map(|(which, span)| Call::RescheduleAt(which, span)),
        4 => (span(), prop_oneof![0u64..3, 0u64..100_000]).prop_map(|(span, slack)| Call::Within(span, slack)),
        1 => (0u16..150, span()).prop_map(|(timers, span)| Call::Many(timers, span)),
        1 => (any::<usize>(), 0u16..150).prop_map(|(which, timers)| Call::CancelMany(which, timers)),
        1 => (any::<usize>(), 0u16..150, span()).prop_map(|(which, timers, span)| Call::RescheduleMany(which, timers, span)),
        12 => any::<usize>().prop_map(Call::Look),
    ];
    prop_oneof![
        12 => (call, prop::bool::weighted(0.2)).prop_map(|(call, elsewhere)| Step::Call { call, elsewhere }),
        3 => span().prop_map(Step::Advance),
        2 => Just(Step::ToNext),
    ]
}

/// An armed timer as the model sees it.
struct Armed {
    deadline_ns: u64,
    /// When it fires: at its deadline, or at once if time has ended.
    fires_ns: u64,
}

struct Model {
    clock: ManualClock,
    origin: Instant,
    service: TimerService<u32>,
    tick_ns: u64,
    /// When and what the handler was given.
    log: Arc<Mutex<Vec<(u64, u32)>>>,
    live: BTreeMap<u32, Armed>,
    order: BTreeMap<(u64, u32), ()>,
    /// Every id ever given out, by payload.
    ids: Vec<TimerId>,
    /// When timers that were cancelled or moved would have fired.
    cancelled: BTreeMap<u64, ()>,
}

impl Model {
    fn new(start: Start, early: bool) -> Self {
        let clock = ManualClock::new();
        let origin = clock.now();
        if !early {
            clock.advance(Duration::from_nanos(start.at_ns));
        }
        let log = Arc::new(Mutex::new(Vec::new()));
        let (sink, time) = (log.clone(), clock.clone());
        let service = TimerService::builder()
            .tick(start.tick)
            .shards(start.shards)
            .clock(clock.clone())
            .on_expire(move |batch: &mut Batch<'_, u32>| {
                sink.lock()
                    .unwrap()
                    .extend(batch.map(|payload| (nanos(time.elapsed()), payload)))
            })
            .start()
            .unwrap();
        let tick_ns = nanos(start.tick);
        let (live, order, cancelled) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut model = Self {
            clock,
            origin,
            service,
            tick_ns,
            log,
            live,
            order,
            ids: Vec::new(),
            cancelled,
        };
        // The far timer, always there.
        model.call(Call::Schedule(Span::Max)).unwrap();
        if early {
            model.clock.advance(Duration::from_nanos(start.at_ns));
        }
        model
    }

    fn now_ns(&self) -> u64 {
        nanos(self.clock.elapsed())
    }

    fn duration(&self, span: Span) -> Duration {
        span.at(self.now_ns(), self.tick_ns)
    }

    /// Notes a timer that was armed for a point in time.
    fn armed(&mut self, id: TimerId, at_ns: u128) {
        let payload = self.ids.len() as u32;
        self.ids.push(id);
        self.waits(payload, at_ns);
    }

    fn waits(&mut self, payload: u32, at_ns: u128) {
        // What is due now or before fires at the next tick.
        let at_ns = at_ns.max(u128::from(self.now_ns()) + 1);
        let deadline_ns = at_ns
            .next_multiple_of(u128::from(self.tick_ns))
            .min(u128::from(end_ns(self.tick_ns))) as u64;
        let fires_ns = deadline_ns.max(self.now_ns());
        self.live.insert(
            payload,
            Armed {
                deadline_ns,
                fires_ns,
            },
        );
        self.order.insert((fires_ns, payload), ());
    }

    fn disarmed(&mut self, payload: u32) -> bool {
        let Some(armed) = self.live.remove(&payload) else {
            return false;
        };
        self.order.remove(&(armed.fires_ns, payload)).unwrap();
        self.cancelled.insert(armed.fires_ns, ());
        true
    }

    /// What is left until a deadline.
    fn left(&self, armed: &Armed) -> Duration {
        Duration::from_nanos(armed.deadline_ns.saturating_sub(self.now_ns()))
    }

    /// This number of payloads in a row, none of them the far timer's.
    fn some(&self, which: usize, timers: u16) -> Vec<u32> {
        let others = self.ids.len() - 1;
        (0..usize::from(timers).min(others))
            .map(|off| 1 + (which % others + off) as u32 % others as u32)
            .collect()
    }

    fn call(&mut self, call: Call) -> TestCaseResult {
        let now_ns = u128::from(self.now_ns());
        let next = self.ids.len() as u32;
        match call {
            Call::Schedule(span) => {
                let delay = self.duration(span);
                let id = self.service.schedule(delay, next).unwrap();
                self.armed(id, now_ns + delay.as_nanos());
            }
            Call::At(span) => {
                let delay = self.duration(span);
                if let Some(at) = self.clock.now().checked_add(delay) {
                    let id = self.service.schedule_at(at, next).unwrap();
                    self.armed(id, now_ns + delay.as_nanos());
                }
            }
            Call::Past(span) => {
                let ago = self.duration(span);
                if let Some(at) = self.clock.now().checked_sub(ago) {
                    let id = self.service.schedule_at(at, next).unwrap();
                    self.armed(id, now_ns.saturating_sub(ago.as_nanos()));
                }
            }
            Call::Burst(timers, span) => {
                for _ in 0..timers {
                    self.call(Call::Schedule(span))?;
                }
            }
            // The far timer, number 0, stays. The rest may be alive or dead.
            Call::Cancel(which) if self.ids.len() > 1 => {
                let payload = 1 + which % (self.ids.len() - 1);
                prop_assert_eq!(
                    self.service.cancel(self.ids[payload]),
                    self.disarmed(payload as u32),
                    "cancel of {}",
                    payload
                );
            }
            Call::Take(which) if self.ids.len() > 1 => {
                let payload = 1 + which % (self.ids.len() - 1);
                let taken = self.disarmed(payload as u32).then_some(payload as u32);
                prop_assert_eq!(self.service.take(self.ids[payload]), taken);
            }
            Call::Reschedule(which, span) if self.ids.len() > 1 => {
                let (payload, delay) = (1 + which % (self.ids.len() - 1), self.duration(span));
                let moved = self.service.reschedule(self.ids[payload], delay);
                prop_assert_eq!(
                    moved,
                    self.disarmed(payload as u32),
                    "reschedule of {}",
                    payload
                );
                if moved {
                    self.waits(payload as u32, now_ns + delay.as_nanos());
                }
            }
            Call::RescheduleAt(which, span) if self.ids.len() > 1 => {
                let (payload, delay) = (1 + which % (self.ids.len() - 1), self.duration(span));
                if let Some(at) = self.clock.now().checked_add(delay) {
                    let moved = self.service.reschedule_at(self.ids[payload], at);
                    prop_assert_eq!(
                        moved,
                        self.disarmed(payload as u32),
                        "reschedule_at of {}",
                        payload
                    );
                    if moved {
                        self.waits(payload as u32, now_ns + delay.as_nanos());
                    }
                }
            }
            Call::Within(span, slack) => {
                let first = self.duration(span);
                let last = first.saturating_add(Duration::from_nanos(slack * self.tick_ns));
                let id = self.service.schedule_within(first..=last, next).unwrap();
                // Which tick it is, is the service's choice: a whole one, not before the first
                // delay nor after the last, if there is one between them.
                let deadline_ns =
                    u128::from(nanos(self.service.deadline(id).unwrap() - self.origin));
                let tick_ns = u128::from(self.tick_ns);
                let [first_ns, last_ns] =
                    [first, last].map(|delay| now_ns + delay.as_nanos().max(1));
                let first_ns = first_ns
                    .next_multiple_of(tick_ns)
                    .min(end_ns(self.tick_ns).into());
                prop_assert!(
                    first_ns <= deadline_ns
                        && deadline_ns <= last_ns.max(first_ns)
                        && deadline_ns % tick_ns == 0,
                    "{}",
                    deadline_ns
                );
                self.armed(id, deadline_ns);
            }
            Call::Many(timers, span) => {
                let delay = self.duration(span);
                let armed = self
                    .service
                    .schedule_many((next..).take(timers.into()).map(|payload| (delay, payload)));
                prop_assert_eq!(armed.len(), usize::from(timers));
                armed
                    .into_iter()
                    .for_each(|id| self.armed(id.unwrap(), now_ns + delay.as_nanos()));
            }
            Call::CancelMany(which, timers) if self.ids.len() > 1 => {
                let payloads = self.some(which, timers);
                let cancelled = self
                    .service
                    .cancel_many(payloads.iter().map(|&payload| self.ids[payload as usize]));
                prop_assert_eq!(
                    cancelled,
                    payloads
                        .into_iter()
                        .filter(|&payload| self.disarmed(payload))
                        .count()
                );
            }
            Call::RescheduleMany(which, timers, span) if self.ids.len() > 1 => {
                let (payloads, delay) = (self.some(which, timers), self.duration(span));
                let moved = self.service.reschedule_many(
                    payloads.iter().map(|&payload| self.ids[payload as usize]),
                    delay,
                );
                let alive: Vec<_> = payloads
                    .into_iter()
                    .filter(|&payload| self.disarmed(payload))
                    .collect();
                prop_assert_eq!(moved, alive.len());
                alive
                    .into_iter()
                    .for_each(|payload| self.waits(payload, now_ns + delay.as_nanos()));
            }
            Call::Look(which) => {
                let payload = which % self.ids.len();
                let (id, armed) = (self.ids[payload], self.live.get(&(payload as u32)));
                prop_assert_eq!(
                    self.service.is_pending(id),
                    armed.is_some(),
                    "is_pending of {}",
                    payload
                );
                let left = armed.map(|armed| self.left(armed));
                prop_assert_eq!(self.service.remaining(id), left, "remaining of {}", payload);
                let deadline =
                    armed.map(|armed| self.origin + Duration::from_nanos(armed.deadline_ns));
                prop_assert_eq!(
                    self.service.deadline(id),
                    deadline,
                    "deadline of {}",
                    payload
                );
            }
            Call::CancelMany(..) | Call::RescheduleMany(..) => {}
            Call::Cancel(_) | Call::Take(_) | Call::Reschedule(..) | Call::RescheduleAt(..) => {}
        }
        Ok(())
    }

    /// Takes from the model what has to have fired by now, and compares.
    fn check_fired(&mut self) -> TestCaseResult {
        let mut fired = std::mem::take(&mut *self.log.lock().unwrap());
        prop_assert!(
            fired.is_sorted_by_key(|&(at_ns, _)| at_ns),
            "not in order of ticks: {:?}",
            fired
        );
        fired.sort_unstable();
        let mut expected = Vec::new();
        while let Some((&(fires_ns, payload), ())) = self.order.first_key_value() {
            if fires_ns > self.now_ns() {
                break;
            }
            self.order.pop_first();
            self.live.remove(&payload).unwrap();
            expected.push((fires_ns, payload));
        }
        prop_assert_eq!(fired, expected);
        prop_assert_eq!(self.service.len(), self.live.len() as u64);
        Ok(())
    }

    fn step(&mut self, step: Step) -> TestCaseResult {
        let end_ns = end_ns(self.tick_ns) - 1;
        match step {
            Step::Call {
                call,
                elsewhere: false,
            } => self.call(call)?,
            Step::Call {
                call,
                elsewhere: true,
            } => {
                thread::scope(|scope| {
                    scope
                        .spawn(|| self.call(call))
                        .join()
                        .unwrap_or_else(|_| Err(TestCaseError::fail("panicked")))
                })?;
            }
            Step::Advance(span) => {
                // Not as far as the far timer.
                let by = self
                    .duration(span)
                    .min(Duration::from_nanos(end_ns - self.now_ns()));
                self.clock.advance(by);
                self.check_fired()?;
            }
            Step::ToNext => {
                // What is due already fires first.
                let now_ns = self.now_ns();
                let (&(next_ns, _), ()) = self.order.range((now_ns + 1, 0)..).next().unwrap();
                if next_ns <= end_ns {
                    let by = self.clock.advance_to_next();
                    prop_assert_eq!(
                        by,
                        Some(Duration::from_nanos(self.now_ns() - now_ns)),
                        "it says how far it went"
                    );
                    let at_cancelled =
                        self.now_ns() < next_ns && self.cancelled.contains_key(&self.now_ns());
                    prop_assert!(
                        self.now_ns() == next_ns || at_cancelled,
                        "at {}, not {}",
                        self.now_ns(),
                        next_ns
                    );
                    self.check_fired()?;
                }
            }
        }
        Ok(())
    }

    fn stop(self) -> TestCaseResult {
        let unfired = self.service.stop();
        let mut rest: Vec<_> = unfired
            .into_iter()
            .map(|unfired| (unfired.payload, unfired.remaining))
            .collect();
        rest.sort_unstable();
        let expected: Vec<_> = self
            .live
            .iter()
            .map(|(&payload, armed)| (payload, self.left(armed)))
            .collect();
        prop_assert_eq!(rest, expected);
        prop_assert_eq!(self.service.stop().len(), 0);
        prop_assert!(
            self.ids
                .iter()
                .all(|&id| !self.service.cancel(id) && !self.service.is_pending(id))
        );
        self.clock.advance(Duration::MAX);
        prop_assert!(
            self.log.lock().unwrap().is_empty(),
            "something fired after stop"
        );
        Ok(())
    }
}

fn does_what_a_map_does(tick: Duration, cases: u32) {
    let sequences = (any::<bool>(), prop::collection::vec(step(), 1..120));
    from_every_start(tick, cases, &sequences, |start, (early, steps)| {
        let mut model = Model::new(start, early);
        steps.into_iter().try_for_each(|step| model.step(step))?;
        model.stop()
    });
}

#[test]
fn with_a_tick_of_a_microsecond() {
    does_what_a_map_does(Duration::from_micros(1), 16);
}

#[test]
fn with_a_tick_of_a_millisecond() {
    does_what_a_map_does(Duration::from_millis(1), 16);
}

#[test]
fn with_a_tick_of_a_second() {
    does_what_a_map_does(Duration::from_secs(1), 16);
}

#[test]
fn with_an_odd_tick() {
    does_what_a_map_does(Duration::from_micros(333), 16);
}

/// More timers than a slot cascades lazily, a turn dispatches and a page of cells holds.
#[test]
fn with_many_timers_in_one_slot() {
    let start = Start {
        tick: Duration::from_millis(1),
        shards: 3,
        at_ns: 0,
    };
    for delay_ms in [0, 1, 255, 256, 300, 70_000, 1 << 24] {
        let mut model = Model::new(start, true);
        for timer in 0..10_000u64 {
            model
                .call(Call::Schedule(Span::Ticks(delay_ms + timer % 7, 0)))
                .unwrap();
        }
        let far = Step::Advance(Span::Ticks(delay_ms + 2, 0));
        (0..10_000)
            .step_by(3)
            .for_each(|which| model.call(Call::Cancel(which)).unwrap());
        model.step(far).unwrap();
        (0..10_000)
            .step_by(5)
            .for_each(|which| model.call(Call::Take(which)).unwrap());
        (0..10_000).for_each(|which| model.call(Call::Look(which)).unwrap());
        model.step(Step::Advance(Span::Ticks(4, 0))).unwrap();
        model.stop().unwrap();
    }
}

/// `advance_to_next` moves to a tick on which a timer is or was due, however many timers wait.
#[test]
fn the_next_tick_is_one_with_a_timer() {
    for timers in [1, 1_000, 4_096, 4_097, 20_000] {
        let mut model = Model::new(
            Start {
                tick: Duration::from_millis(1),
                shards: 1,
                at_ns: 0,
            },
            true,
        );
        (0..timers).for_each(|_| model.call(Call::Schedule(Span::Ticks(300, 0))).unwrap());
        model.step(Step::ToNext).unwrap();
    }
}

/// Calls need only a handle, from any number of threads at once.
#[test]
fn handles_are_shared_freely() {
    fn shared<S: Send + Sync + Clone + 'static>() {}
    shared::<ServiceHandle<Mutex<u32>>>();
    shared::<ServiceHandle<std::cell::Cell<u32>>>();
}
