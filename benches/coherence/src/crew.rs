//! Crew: the threads of a run, which take steps one at a time.
//!
//! Each member is a thread of its own, so that it has its own thread-locals, and acts as one core.
//! A member works only between `step`'s message to it and its answer.

use crate::log::{CORES_MAX, Log};
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
    /// Starts a thread for each; the first one acts as core 0.
    #[must_use]
    pub fn start(starts: Vec<Start>) -> Self {
        assert!(starts.len() < CORES_MAX, "more threads than cores");
        let members = starts.into_iter().enumerate();
        Self(
            members
                .map(|(core, start)| Member::start(core, start))
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
    fn start(core: usize, start: Start) -> Self {
        let (orders, to_do) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let name = format!("core-{core}");
        let work = move || serve(Log::new(core), start, &to_do, &answer);
        let spawned = thread::Builder::new().name(name).spawn(work);
        spawned.expect("a thread can be spawned");
        let member = Self { orders, answers };
        member.answers.recv().expect("the thread starts");
        member
    }

    fn order(&self, order: Order) -> Option<Log> {
        self.orders.send(order).expect("the thread lives");
        self.answers.recv().expect("the thread did not panic")
    }
}

fn serve(mut log: Log, start: Start, to_do: &Receiver<Order>, answer: &SyncSender<Option<Log>>) {
    let (mut start, mut work) = (Some(start), None);
    log.record(&mut || work = start.take().map(|start| start()));
    let mut work = work.expect("it was made just now");
    // Who is not there any more needs no answer.
    let mut is_heard = answer.send(None).is_ok();
    while is_heard && let Ok(order) = to_do.recv() {
        let handed = match order {
            Order::Step(number) => {
                log.record(&mut || work(number));
                None
            }
            Order::Hand(empty) => Some(std::mem::replace(&mut log, empty)),
        };
        is_heard = answer.send(handed).is_ok();
    }
}
