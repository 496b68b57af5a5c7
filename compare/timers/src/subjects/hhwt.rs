//! The thread timer of hierarchical_hash_wheel_timer: producers send messages, its thread keeps the
//! wheel.

use super::{Producer, Subject};
use crate::ledger::{self, PERIOD};
use crate::name::Name;
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicState, Timer, TimerReturn};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use wheelwork_kit::lock::lock;

/// Of each producer's ids.
const IDS: u64 = 1 << 40;

/// What a timer does.
#[derive(Debug)]
pub(crate) enum Task {
    /// Nothing but a word to the ledger.
    Payload { id: u64, due_ns: u64 },
    /// All that was sent before has been taken in.
    Settled { id: u64, tell: Sender<()> },
}

impl OneshotState for Task {
    type Id = u64;

    fn id(&self) -> &u64 {
        let (Self::Payload { id, .. } | Self::Settled { id, .. }) = self;
        id
    }

    fn trigger(self) {
        match self {
            Self::Payload { due_ns, .. } => ledger::fired(due_ns),
            // Nobody listens any more: all the same.
            Self::Settled { tell, .. } => _ = tell.send(()),
        }
    }
}

/// One that comes again.
#[derive(Debug)]
pub(crate) struct Periodic {
    id: u64,
    due_ns: u64,
}

impl PeriodicState for Periodic {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }

    fn trigger(self) -> TimerReturn<Self> {
        let due_ns = ledger::fired_again(self.due_ns);
        TimerReturn::Reschedule(Self { due_ns, ..self })
    }
}

type Ref = TimerRef<u64, Task, Periodic>;

pub(crate) struct Hhwt {
    /// Its thread stops with it.
    _timer: TimerWithThread<u64, Task, Periodic>,
    /// For a new producer, with the first of its ids.
    next: Mutex<(Ref, u64)>,
}

pub(crate) struct HhwtProducer {
    timer: Ref,
    id: u64,
}

impl HhwtProducer {
    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }
}

impl Hhwt {
    fn new_producer(&self) -> HhwtProducer {
        let mut next = lock(&self.next);
        next.1 += IDS;
        HhwtProducer {
            timer: next.0.clone(),
            id: next.1,
        }
    }
}

impl Subject for Hhwt {
    type Producer = HhwtProducer;

    fn start(_: Name) -> Self {
        let timer = TimerWithThread::new().expect("a thread can be spawned");
        Self {
            next: Mutex::new((timer.timer_ref(), 0)),
            _timer: timer,
        }
    }

    fn within(&self, work: impl FnOnce(&mut HhwtProducer)) {
        work(&mut self.new_producer());
    }

    fn settle(&self) {
        // Messages are handled in order, and a timer without a delay fires as it is handled.
        let (tell, told) = mpsc::channel();
        let HhwtProducer { mut timer, id } = self.new_producer();
        timer.schedule_once(Duration::ZERO, Task::Settled { id, tell });
        let _ = told.recv();
    }
}

impl Producer for HhwtProducer {
    type Handle = u64;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> u64 {
        let id = self.next_id();
        self.timer
            .schedule_once(delay, Task::Payload { id, due_ns });
        id
    }

    fn cancel(&mut self, handle: u64) {
        self.timer.cancel(&handle);
    }

    fn rearm(&mut self, handle: &mut u64, delay: Duration) {
        self.timer.cancel(handle);
        *handle = self.arm(delay, 0);
    }

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        let (id, first) = (self.next_id(), ledger::delay_until(due_ns));
        self.timer
            .schedule_periodic(first, PERIOD, Periodic { id, due_ns });
        Ok(())
    }
}
