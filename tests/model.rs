//! Promise: every timer does what an entry of a `BTreeMap` would do. It fires at the first tick at or after its deadline, ticks in
//! order; `cancel`, `take`, `reschedule` and `is_pending` tell the truth, for ids of any age; `stop` hands back exactly the rest.
//!
//! Arbitrary sequences of calls under a manual clock, on one and on three shards, begun around every edge between two levels of the wheel.
//! The calls come one after the other, some of them on threads of their own, which spreads them over the shards.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult, TestRunner};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ManualClock, TimerHandle, TimerId, TimerService};

/// The last nanosecond and the last tick that a service counts.
const NANOS_MAX: u64 = i64::MAX as u64;
const TICKS_MAX: u64 = (1 << 52) - 1;

#[derive(Clone, Copy, Debug)]
enum Span {
    Zero,
    Max,
    /// So many ticks, and nanoseconds more or less.
    Ticks(u64, i64),
    /// `256^level` ticks, and ticks and nanoseconds more or less.
    Level(u32, i64, i64),
    /// To the next multiple of `256^level` ticks, and ticks and nanoseconds more or less.
    ToEdge(u32, i64, i64),
    Nanos(u64),
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Schedule(Span),
    At(Span),
    Past(Span),
    Burst(u16, Span),
    Cancel(usize),
    Take(usize),
    Reschedule(usize, Span),
    RescheduleAt(usize, Span),
    IsPending(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call { call: Call, elsewhere: bool },
    Advance(Span),
    ToNext,
}

/// Where a sequence begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    tick: Duration,
    shards: usize,
    at_ns: u64,
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        1 => Just(Span::Zero),
        1 => Just(Span::Max),
        5 => (0u64..600, -1i64..=1).prop_map(|(ticks, off_ns)| Span::Ticks(ticks, off_ns)),
        3 => (1u32..7, -1i64..=1, -1i64..=1).prop_map(|(level, off, off_ns)| Span::Level(level, off, off_ns)),
        3 => (1u32..7, -1i64..=1, -1i64..=1).prop_map(|(level, off, off_ns)| Span::ToEdge(level, off, off_ns)),
        2 => (0u32..64, any::<u64>()).prop_map(|(bits, low)| Span::Nanos(low & ((1 << bits) - 1))),
    ]
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
        12 => any::<usize>().prop_map(Call::IsPending),
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
        if !early {
            clock.advance(Duration::from_nanos(start.at_ns));
        }
        let log = Arc::new(Mutex::new(Vec::new()));
        let (sink, time) = (log.clone(), clock.clone());
        let service = TimerService::builder()
            .tick(start.tick)
            .shards(start.shards)
            .clock(clock.clone())
            .on_expire(move |batch: &mut Batch<'_, u32>| sink.lock().unwrap().extend(batch.map(|payload| (nanos(time.elapsed()), payload))))
            .start()
            .unwrap();
        let tick_ns = nanos(start.tick);
        let (live, order, cancelled) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut model = Self { clock, service, tick_ns, log, live, order, ids: Vec::new(), cancelled };
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

    /// The last deadline there is.
    fn end_ns(&self) -> u64 {
        (NANOS_MAX / self.tick_ns).min(TICKS_MAX) * self.tick_ns
    }

    fn duration(&self, span: Span) -> Duration {
        let off = |nanos: u64, ticks: i64, off_ns: i64| {
            let nanos = i128::from(nanos) + i128::from(ticks) * i128::from(self.tick_ns) + i128::from(off_ns);
            Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
        };
        let level_ns = |level: u32| self.tick_ns.saturating_mul(1 << (8 * level));
        match span {
            Span::Zero => Duration::ZERO,
            Span::Max => Duration::MAX,
            Span::Ticks(ticks, off_ns) => off(ticks * self.tick_ns, 0, off_ns),
            Span::Level(level, ticks, off_ns) => off(level_ns(level), ticks, off_ns),
            Span::ToEdge(level, ticks, off_ns) => {
                let to_edge = (self.now_ns() + 1).checked_next_multiple_of(level_ns(level)).map_or(u64::MAX, |edge| edge - self.now_ns());
                off(to_edge, ticks, off_ns)
            }
            Span::Nanos(nanos) => Duration::from_nanos(nanos),
        }
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
        let deadline_ns = at_ns.next_multiple_of(u128::from(self.tick_ns)).min(u128::from(self.end_ns())) as u64;
        let fires_ns = deadline_ns.max(self.now_ns());
        self.live.insert(payload, Armed { deadline_ns, fires_ns });
        self.order.insert((fires_ns, payload), ());
    }

    fn disarmed(&mut self, payload: u32) -> bool {
        let Some(armed) = self.live.remove(&payload) else { return false };
        self.order.remove(&(armed.fires_ns, payload)).unwrap();
        self.cancelled.insert(armed.fires_ns, ());
        true
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
                prop_assert_eq!(self.service.cancel(self.ids[payload]), self.disarmed(payload as u32), "cancel of {}", payload);
            }
            Call::Take(which) if self.ids.len() > 1 => {
                let payload = 1 + which % (self.ids.len() - 1);
                let taken = self.disarmed(payload as u32).then_some(payload as u32);
                prop_assert_eq!(self.service.take(self.ids[payload]), taken);
            }
            Call::Reschedule(which, span) if self.ids.len() > 1 => {
                let (payload, delay) = (1 + which % (self.ids.len() - 1), self.duration(span));
                let moved = self.service.reschedule(self.ids[payload], delay);
                prop_assert_eq!(moved, self.disarmed(payload as u32), "reschedule of {}", payload);
                if moved {
                    self.waits(payload as u32, now_ns + delay.as_nanos());
                }
            }
            Call::RescheduleAt(which, span) if self.ids.len() > 1 => {
                let (payload, delay) = (1 + which % (self.ids.len() - 1), self.duration(span));
                if let Some(at) = self.clock.now().checked_add(delay) {
                    let moved = self.service.reschedule_at(self.ids[payload], at);
                    prop_assert_eq!(moved, self.disarmed(payload as u32), "reschedule_at of {}", payload);
                    if moved {
                        self.waits(payload as u32, now_ns + delay.as_nanos());
                    }
                }
            }
            Call::IsPending(which) => {
                let payload = which % self.ids.len();
                let pending = self.live.contains_key(&(payload as u32));
                prop_assert_eq!(self.service.is_pending(self.ids[payload]), pending, "is_pending of {}", payload);
            }
            Call::Cancel(_) | Call::Take(_) | Call::Reschedule(..) | Call::RescheduleAt(..) => {}
        }
        Ok(())
    }

    /// Takes from the model what has to have fired by now, and compares.
    fn check_fired(&mut self) -> TestCaseResult {
        let mut fired = std::mem::take(&mut *self.log.lock().unwrap());
        prop_assert!(fired.is_sorted_by_key(|&(at_ns, _)| at_ns), "not in order of ticks: {:?}", fired);
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
        Ok(())
    }

    fn step(&mut self, step: Step) -> TestCaseResult {
        let end_ns = self.end_ns() - 1;
        match step {
            Step::Call { call, elsewhere: false } => self.call(call)?,
            Step::Call { call, elsewhere: true } => {
                thread::scope(|scope| scope.spawn(|| self.call(call)).join().unwrap_or_else(|_| Err(TestCaseError::fail("panicked"))))?;
            }
            Step::Advance(span) => {
                // Not as far as the far timer.
                let by = self.duration(span).min(Duration::from_nanos(end_ns - self.now_ns()));
                self.clock.advance(by);
                self.check_fired()?;
            }
            Step::ToNext => {
                // What is due already fires first.
                let now_ns = self.now_ns();
                let (&(next_ns, _), ()) = self.order.range((now_ns + 1, 0)..).next().unwrap();
                if next_ns <= end_ns {
                    let by = self.clock.advance_to_next();
                    prop_assert_eq!(by, Some(Duration::from_nanos(self.now_ns() - now_ns)), "it says how far it went");
                    let at_cancelled = self.now_ns() < next_ns && self.cancelled.contains_key(&self.now_ns());
                    prop_assert!(self.now_ns() == next_ns || at_cancelled, "at {}, not {}", self.now_ns(), next_ns);
                    self.check_fired()?;
                }
            }
        }
        Ok(())
    }

    fn stop(self) -> TestCaseResult {
        let now_ns = self.now_ns();
        let unfired = self.service.stop();
        let mut rest: Vec<_> = unfired.into_iter().map(|unfired| (unfired.payload, unfired.remaining)).collect();
        rest.sort_unstable();
        let left = |armed: &Armed| Duration::from_nanos(armed.deadline_ns.saturating_sub(now_ns));
        let expected: Vec<_> = self.live.iter().map(|(&payload, armed)| (payload, left(armed))).collect();
        prop_assert_eq!(rest, expected);
        prop_assert_eq!(self.service.stop().len(), 0);
        prop_assert!(self.ids.iter().all(|&id| !self.service.cancel(id) && !self.service.is_pending(id)));
        self.clock.advance(Duration::MAX);
        prop_assert!(self.log.lock().unwrap().is_empty(), "something fired after stop");
        Ok(())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// All starts with this tick: zero, and one tick before, at and after `256^k` ticks and a multiple of it.
fn starts(tick: Duration) -> Vec<Start> {
    let tick_ns = nanos(tick);
    let end_ns = (NANOS_MAX / tick_ns).min(TICKS_MAX) * tick_ns;
    let edges = (1..=6).flat_map(|level| [1u64 << (8 * level), 3 << (8 * level)]);
    let ticks = edges.flat_map(|edge| [edge - 1, edge, edge + 1]);
    // On the edge of a tick, and within one.
    let times = ticks.filter_map(|ticks| ticks.checked_mul(tick_ns)).flat_map(|nanos| [nanos, nanos + tick_ns / 3]);
    let times = [0, 1].into_iter().chain(times.filter(|&at_ns| at_ns < end_ns / 2));
    times.flat_map(|at_ns| [1, 3].map(|shards| Start { tick, shards, at_ns })).collect()
}

fn does_what_a_map_does(tick: Duration, cases: u32) {
    let starts = starts(tick);
    assert!(starts.len() > 80, "levels 1 to 4 are there at least");
    for start in starts {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let sequences = (any::<bool>(), prop::collection::vec(step(), 1..120));
        let outcome = TestRunner::new(config).run(&sequences, |(early, steps)| {
            let mut model = Model::new(start, early);
            steps.into_iter().try_for_each(|step| model.step(step))?;
            model.stop()
        });
        if let Err(why) = outcome {
            panic!("{start:?}: {why}");
        }
    }
}

#[test]
fn with_a_tick_of_a_microsecond() {
    does_what_a_map_does(Duration::from_micros(1), 24);
}

#[test]
fn with_a_tick_of_a_millisecond() {
    does_what_a_map_does(Duration::from_millis(1), 24);
}

#[test]
fn with_a_tick_of_a_second() {
    does_what_a_map_does(Duration::from_secs(1), 24);
}

#[test]
fn with_an_odd_tick() {
    does_what_a_map_does(Duration::from_micros(333), 24);
}

/// More timers than a slot cascades lazily, a turn dispatches and a page of cells holds.
#[test]
fn with_many_timers_in_one_slot() {
    let start = Start { tick: Duration::from_millis(1), shards: 3, at_ns: 0 };
    for delay_ms in [0, 1, 255, 256, 300, 70_000, 1 << 24] {
        let mut model = Model::new(start, true);
        for timer in 0..10_000u64 {
            model.call(Call::Schedule(Span::Ticks(delay_ms + timer % 7, 0))).unwrap();
        }
        let far = Step::Advance(Span::Ticks(delay_ms + 2, 0));
        (0..10_000).step_by(3).for_each(|which| model.call(Call::Cancel(which)).unwrap());
        model.step(far).unwrap();
        (0..10_000).step_by(5).for_each(|which| model.call(Call::Take(which)).unwrap());
        (0..10_000).for_each(|which| model.call(Call::IsPending(which)).unwrap());
        model.step(Step::Advance(Span::Ticks(4, 0))).unwrap();
        model.stop().unwrap();
    }
}

/// `advance_to_next` moves to a tick on which a timer is or was due, however many timers wait.
#[test]
fn the_next_tick_is_one_with_a_timer() {
    for timers in [1, 1_000, 4_096, 4_097, 20_000] {
        let mut model = Model::new(Start { tick: Duration::from_millis(1), shards: 1, at_ns: 0 }, true);
        (0..timers).for_each(|_| model.call(Call::Schedule(Span::Ticks(300, 0))).unwrap());
        model.step(Step::ToNext).unwrap();
    }
}

/// Calls need only a handle, from any number of threads at once.
#[test]
fn handles_are_shared_freely() {
    fn shared<S: Send + Sync + Clone + 'static>() {}
    shared::<TimerHandle<Mutex<u32>>>();
    shared::<TimerHandle<std::cell::Cell<u32>>>();
}
