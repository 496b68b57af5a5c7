//! Calls: what each thread does, operation by operation.
//!
//! A step of a thread is [`STEP`] operations. After every [`STEPS_PER_TURN`] steps of all threads
//! each shard takes a turn.

use crate::subjects::Subject;
use clap::ValueEnum;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wheelwork_coherence::{Random, Start, end_operation};

/// Operations of a step.
pub(crate) const STEP: usize = 64;

/// Steps of each thread from turn to turn of the shards.
pub(crate) const STEPS_PER_TURN: usize = 8;

/// Timers of a thread that are in flight, or armed.
const TIMERS: usize = 1_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Call {
    /// Arm timers; their cells were used before
    Arm,
    /// Cancel timers that are in the wheel, in random order
    Cancel,
    /// Arm a timer and cancel it at once
    Pair,
    /// Arm a timer and cancel the one armed 1,000 timers before
    Window,
    /// Cancel a random timer of 1,000 and arm another
    Churn,
    /// Move a random timer of 1,000 later
    Rearm,
    /// Arm a timer; it fires on the shard
    Fire,
}

/// The delay of a request's timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// It is over before the next turn.
const SHORT: Duration = Duration::from_millis(1);

impl Call {
    /// Whether what is done in this step is counted: not what only prepares for it.
    pub(crate) const fn is_counted(self, step: usize) -> bool {
        let is_odd = step / STEPS_PER_TURN % 2 == 1;
        match self {
            Self::Arm => !is_odd,
            Self::Cancel => is_odd,
            _ => true,
        }
    }
}

/// A counter that all threads share, for the test of the gate.
static PLANTED: AtomicU64 = AtomicU64::new(0);

/// A thread that makes these calls.
pub(crate) fn caller<S: Subject>(
    subject: &'static S,
    call: Call,
    number: usize,
    is_planted: bool,
) -> Start {
    Box::new(move || {
        let entered = subject.enter();
        let mut caller = Caller {
            subject,
            random: Random::new(number as u64),
            timers: Vec::with_capacity(TIMERS + STEP),
            next: 0,
        };
        Box::new(move |step| {
            let _entered = &entered;
            caller.begin(call, step);
            for _ in 0..STEP {
                caller.operate(call, step);
                if is_planted {
                    // Ordering: Relaxed. Nobody reads it.
                    PLANTED.fetch_add(1, Ordering::Relaxed);
                }
                end_operation();
            }
        })
    })
}

struct Caller<S: Subject> {
    subject: &'static S,
    random: Random,
    timers: Vec<S::Timer>,
    next: usize,
}

impl<S: Subject> Caller<S> {
    /// Prepares for a step.
    fn begin(&mut self, call: Call, step: usize) {
        if matches!(call, Call::Arm | Call::Cancel) && step % (2 * STEPS_PER_TURN) == STEPS_PER_TURN
        {
            self.random.shuffle(&mut self.timers);
        }
        // After a turn all have fired.
        if call == Call::Fire && (!S::DROP_CANCELS || step.is_multiple_of(STEPS_PER_TURN)) {
            self.timers.clear();
        }
    }

    fn operate(&mut self, call: Call, step: usize) {
        match call {
            Call::Arm | Call::Cancel if step / STEPS_PER_TURN % 2 == 1 => {
                let timer = self.timers.pop().expect("as many were armed");
                self.subject.cancel(timer);
            }
            Call::Arm | Call::Cancel => self.add(TIMEOUT),
            Call::Pair => self.subject.cancel(self.subject.arm(TIMEOUT)),
            Call::Fire => self.add(SHORT),
            _ if self.timers.len() < TIMERS => self.add(TIMEOUT),
            Call::Window => {
                self.next = (self.next + 1) % TIMERS;
                self.replace(self.next);
            }
            Call::Churn => {
                let at = self.random.below(TIMERS);
                self.replace(at);
            }
            Call::Rearm => {
                let at = self.random.below(TIMERS);
                self.subject.rearm(&mut self.timers[at], TIMEOUT);
            }
        }
    }

    fn add(&mut self, delay: Duration) {
        self.timers.push(self.subject.arm(delay));
    }

    /// Arms a timer, and cancels the one in whose place it comes.
    fn replace(&mut self, at: usize) {
        let timer = self.subject.arm(TIMEOUT);
        let timer = std::mem::replace(&mut self.timers[at], timer);
        self.subject.cancel(timer);
    }
}
