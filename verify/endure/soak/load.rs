//! Load: what a server does to its timers. Most are time-outs that never come: they are cancelled
//! and armed anew, or moved on by a heartbeat. Some fire; some are for hours, and a few for a day.
//! Threads live for a second, and others go on in their place. One that is late is left alone: what
//! the service has lost must not be cancelled before it is missed.

use crate::ledger::{Ledger, Line, OUTCOME, Outcome};
use crate::wait::EndsAll;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{ServiceHandle, TimerId};

/// Of a thread.
const LIFE: Duration = Duration::from_secs(1);

/// A thread that is behind by more makes it up to this, and leaves out the rest.
const BEHIND_MAX: Duration = Duration::from_millis(100);

/// Between two looks at what a thread owes.
const PAUSE: Duration = Duration::from_millis(1);

/// A timer that is later by more is left alone.
const LATE: Duration = Duration::from_millis(50);

/// What a timer is armed with: its place among the lines, and its number.
pub(super) fn payload_of(place: usize, number: u32) -> u64 {
    (place as u64) << 32 | u64::from(number)
}

/// The place and the number in a payload.
pub(super) fn read(payload: u64) -> (usize, u32) {
    ((payload >> 32) as usize, payload as u32)
}

/// Ticks from now to a deadline.
fn delay(rng: &mut Rng) -> u32 {
    match rng.u32(..100) {
        0..10 => rng.u32(1..1_000),
        10..90 => rng.u32(5_000..60_000),
        90..99 => rng.u32(60_000..3_600_000),
        _ => rng.u32(3_600_000..86_400_000),
    }
}

/// What the threads have done.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) steps: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) threads: AtomicU64,
}

/// One service and what is done to it.
pub(crate) struct Load<'a> {
    pub(crate) ledger: &'a Ledger,
    /// Each has one timer after the other.
    pub(crate) lines: &'a [Arc<Line>],
    pub(crate) handle: ServiceHandle<u64>,
    pub(crate) done: &'a Done,
    pub(crate) tick: Duration,
    /// Steps of one thread in a second.
    pub(crate) rate: f64,
    pub(crate) is_over: &'a AtomicBool,
}

/// Places of one thread at a time, and their timers.
pub(crate) struct Region {
    first: usize,
    ids: Vec<Option<TimerId>>,
    rng: Rng,
}

impl Region {
    pub(crate) fn new(first: usize, places: usize, rng: Rng) -> Self {
        let ids = vec![None; places];
        Self { first, ids, rng }
    }
}

impl Load<'_> {
    /// One thread after the other, until it is over. It is over, too, if one of them panics.
    pub(crate) fn go_on(&self, mut region: Region) {
        let _end = EndsAll(self.is_over);
        for number in 0..region.ids.len() {
            region.ids[number] = self.arm(region.first + number, &mut region.rng);
        }
        while !self.is_over.load(SeqCst) {
            thread::scope(|scope| _ = scope.spawn(|| self.live(&mut region)));
            self.done.threads.fetch_add(1, Relaxed);
        }
    }

    /// A thread's life.
    fn live(&self, region: &mut Region) {
        let start = Instant::now();
        let mut made = 0.0;
        while start.elapsed() < LIFE && !self.is_over.load(SeqCst) {
            let owed = self.rate * start.elapsed().as_secs_f64();
            made = f64::max(made, owed - self.rate * BEHIND_MAX.as_secs_f64());
            let steps = (owed - made) as u64;
            (0..steps).for_each(|_| self.step(region));
            self.done.steps.fetch_add(steps, Relaxed);
            made += steps as f64;
            thread::sleep(PAUSE);
        }
    }

    fn step(&self, region: &mut Region) {
        let number = region.rng.usize(..region.ids.len());
        let place = region.first + number;
        let line = &*self.lines[place];
        let pending = region.ids[number].filter(|_| !line.has(OUTCOME));
        let Some(id) = pending else {
            region.ids[number] = self.arm(place, &mut region.rng);
            return;
        };
        // One that is about to fire keeps its place until it has.
        if line.due_ns() < self.ledger.ago_ns(LATE) {
            return;
        }
        match region.rng.u32(..20) {
            0..12 if self.handle.cancel(id) => self.arm_anew(region, number),
            12 => {
                let payload = self.handle.take(id);
                if payload.is_some_and(|payload| payload != payload_of(place, line.number())) {
                    self.ledger
                        .fault(format_args!("took {payload:x?} of place {place}: {line:?}"));
                }
                if payload.is_some() {
                    self.arm_anew(region, number);
                }
            }
            13..18 => {
                let later = self.due(line) + self.tick * region.rng.u32(1..60_000);
                if self.handle.reschedule_at(id, later) {
                    line.fires_from(self.ledger.ns(later));
                    self.done.moved.fetch_add(1, Relaxed);
                }
            }
            18 => {
                let soon = Instant::now() + self.tick * region.rng.u32(1..1_000);
                let earlier = self.due(line).min(soon);
                line.fires_from(self.ledger.ns(earlier));
                if self.handle.reschedule_at(id, earlier) {
                    self.done.moved.fetch_add(1, Relaxed);
                }
            }
            _ => {}
        }
    }

    /// The timer of a place was cancelled.
    fn arm_anew(&self, region: &mut Region, number: usize) {
        let place = region.first + number;
        self.end(place, Outcome::Cancelled);
        region.ids[number] = self.arm(place, &mut region.rng);
    }

    /// The timer that has the line is due then.
    fn due(&self, line: &Line) -> Instant {
        self.ledger.instant(line.due_ns())
    }

    fn end(&self, place: usize, outcome: Outcome) {
        let line = &self.lines[place];
        self.ledger.end(line, line.number(), outcome);
    }

    fn arm(&self, place: usize, rng: &mut Rng) -> Option<TimerId> {
        let due = Instant::now() + self.tick * delay(rng);
        let due_ns = self.ledger.ns(due);
        let number = self.ledger.open_again(&self.lines[place], due_ns);
        let armed = self.handle.schedule_at(due, payload_of(place, number));
        if let Err(refused) = &armed {
            self.ledger.fault(format_args!("refused: {refused}"));
            self.end(place, Outcome::Refused);
        }
        armed.ok()
    }
}
