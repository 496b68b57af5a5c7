//! Crew: the threads of a run, which take steps one at a time.
//!
//! Each member is a thread of its own, so that it has its own thread-locals, and acts as one core.
//! A member works only between `step`'s message to it and its answer. Its thread is one that the
//! crew starts, or another one that takes its [`Seat`], such as a runtime's worker.

use crate::log::{CORES_MAX, Log, Recording};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// What a member does in each step, which has a number.
pub type Work = Box<dyn FnMut(usize)>;

/// Makes a member's work, on its thread.
pub type Start = Box<dyn FnOnce() -> Work + Send>;

enum Order {
    Step(usize),
    Hand(Log),
}

struct Member {
    orders: SyncSender<Order>,
    answers: Receiver<Option<Log>>,
}

/// The threads of a run. They live as long as the process.
pub struct Crew(Vec<Member>);

impl Crew {
    /// Seats a member for each; the first one acts as core 0. `seat` has a thread take the seat
    /// with this number, and the next one is offered when it is taken.
    #[must_use]
    pub fn start(starts: Vec<Start>, seat: impl Fn(usize, Seat)) -> Self {
        assert!(starts.len() < CORES_MAX, "more threads than cores");
        let members = starts.into_iter().enumerate();
        Self(
            members
                .map(|(core, start)| Member::start(core, start, &seat))
                .collect(),
        )
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A member takes a step.
    pub fn step(&self, member: usize, number: usize) {
        self.0[member].order(Order::Step(number));
    }

    /// What a member has logged since the last time. Takes an empty log for it.
    #[must_use]
    pub fn exchange(&self, member: usize, log: Log) -> Log {
        let log = self.0[member].order(Order::Hand(log));
        log.expect("a member hands out its log")
    }
}

impl Member {
    fn start(core: usize, start: Start, seat: impl Fn(usize, Seat)) -> Self {
        let (orders, to_do) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let offered = Seat {
            log: Log::new(core),
            start,
            to_do,
            answer,
        };
        seat(core, offered);
        let member = Self { orders, answers };
        member.answers.recv().expect("the thread starts");
        member
    }

    fn order(&self, order: Order) -> Option<Log> {
        self.orders.send(order).expect("the thread lives");
        self.answers.recv().expect("the thread did not panic")
    }
}

/// A place in the crew, for a thread to take.
pub struct Seat {
    log: Log,
    start: Start,
    to_do: Receiver<Order>,
    answer: SyncSender<Option<Log>>,
}

impl Seat {
    /// A thread of its own takes it, and does nothing else.
    pub fn on_a_thread(self) {
        let name = format!("core-{}", self.log.core());
        let work = move || {
            let mut seated = self.take();
            while let Some(number) = seated.next_step() {
                let recording = seated.step(number);
                seated.end(recording);
            }
        };
        let spawned = thread::Builder::new().name(name).spawn(work);
        spawned.expect("a thread can be spawned");
    }

    /// The calling thread takes it.
    #[must_use]
    pub fn take(mut self) -> Seated {
        let (mut start, mut work) = (Some(self.start), None);
        self.log
            .record(&mut || work = start.take().map(|start| start()));
        let seated = Seated {
            log: self.log,
            work: work.expect("it was made just now"),
            to_do: self.to_do,
            answer: self.answer,
        };
        seated.tell(None);
        seated
    }
}

/// A member on its thread. It asks for the next step, takes it and ends it.
pub struct Seated {
    log: Log,
    work: Work,
    to_do: Receiver<Order>,
    answer: SyncSender<Option<Log>>,
}

impl Seated {
    /// Waits for the next step, which has this number. None: the run is over.
    pub fn next_step(&mut self) -> Option<usize> {
        loop {
            match self.to_do.recv().ok()? {
                Order::Step(number) => return Some(number),
                Order::Hand(empty) => {
                    let log = std::mem::replace(&mut self.log, empty);
                    self.tell(Some(log));
                }
            }
        }
    }

    /// Does its work of a step. What this thread does until the end is logged as well.
    #[must_use]
    pub fn step(&mut self, number: usize) -> Recording {
        let recording = std::mem::take(&mut self.log).begin();
        (self.work)(number);
        recording
    }

    /// The step has ended.
    pub fn end(&mut self, recording: Recording) {
        self.log = recording.end();
        self.tell(None);
    }

    fn tell(&self, handed: Option<Log>) {
        // Who is not there any more needs no answer. Then there is no other step either.
        let _ = self.answer.send(handed);
    }
}
