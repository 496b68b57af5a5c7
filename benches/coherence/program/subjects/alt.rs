//! The sleeps of tokio's alternative timer, for which tokio is built with `--cfg tokio_unstable`. A
//! worker of a runtime has a wheel of its own, and takes timers in or out between its tasks. So
//! each caller is a task that has a worker for itself: the worker's thread acts as the core.
//!
//! There are two ways: one runtime with a worker for each caller, and a runtime with one worker for
//! each caller. A caller cancels only what it has armed itself.
//!
//! How workers are driven one at a time:
//!
//! - A task takes its seat in the crew and keeps its worker: while it waits for a step it blocks
//!   the thread. So no worker is idle, and no task is taken from the worker that runs it.
//! - After as many steps as there are between two turns of a shard it yields. The worker finds no
//!   other task, does what it does for its timers, and goes on with this one. That is a part of the
//!   step: it is logged, and replayed as one operation.
//! - Time is real. What is due is due before the yield.

use super::polled::polled;
use super::{Subject, TURN};
use crate::calls::STEPS_PER_TURN;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime, worker_index};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep};
use wheelwork_coherence::{Seat, Start};

/// One runtime for all callers, or a runtime for each. It holds, for each caller, where its worker
/// waits for the seat.
pub(crate) struct Alt<const IS_EACH: bool>(Vec<Sender<Seat>>);

/// A runtime that lives as long as the process. Each of its workers runs a task that waits for a
/// seat; they are in the order of the workers.
fn occupied(workers: usize) -> Vec<Sender<Seat>> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).enable_alt_timer().build();
    let runtime: &'static Runtime = Box::leak(Box::new(runtime.expect("a runtime starts")));
    let (seats, waiting): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
    let waiting: Vec<_> = waiting.into_iter().map(Some).collect();
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..workers {
        let (begun, begins) = channel();
        let task = OneWorker(Box::pin(work(waiting.clone(), begun)));
        runtime.spawn(unconstrained(task));
        begins.recv().expect("a worker takes the task");
    }
    seats
}

type Waiting = Arc<Mutex<Vec<Option<Receiver<Seat>>>>>;

/// The task of a worker.
async fn work(waiting: Waiting, begun: Sender<()>) {
    let worker = worker_index().expect("a worker runs this");
    let seat = waiting.lock().unwrap_or_else(PoisonError::into_inner)[worker].take();
    let seat = seat.expect("no other task is on this worker");
    begun.send(()).expect("it is waited for");
    // Blocks the worker, so that it takes no other task.
    let mut seated = seat.recv().expect("a caller comes").take();
    while let Some(step) = seated.next_step() {
        let recording = seated.step(step);
        if (step + 1).is_multiple_of(STEPS_PER_TURN) {
            thread::sleep(TURN);
            yield_now().await;
        }
        seated.end(recording);
    }
}

/// A future that is polled by one worker, from first to last.
struct OneWorker(Pin<Box<dyn Future<Output = ()>>>);

// SAFETY: before it is polled for the first time it holds what is `Send`. From then on one thread
// polls it: no worker is idle, and so none steals it.
unsafe impl Send for OneWorker {}

impl Future for OneWorker {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl<const IS_EACH: bool> Subject for Alt<IS_EACH> {
    type Timer = Pin<Box<Sleep>>;
    type Entered = ();

    const IS_OPEN: bool = false;
    const DROP_CANCELS: bool = true;

    fn start(threads: usize, _: usize) -> (&'static Self, Vec<Start>) {
        let (runtimes, workers) = if IS_EACH { (threads, 1) } else { (1, threads) };
        let seats = (0..runtimes).flat_map(|_| occupied(workers));
        (Box::leak(Box::new(Self(seats.collect()))), Vec::new())
    }

    fn seat(&'static self, number: usize, seat: Seat) {
        self.0[number].send(seat).expect("the worker waits for it");
    }

    fn enter(&'static self) {}

    /// Callers wait before they yield.
    fn pass(&self) {}

    fn arm(&self, delay: Duration) -> Self::Timer {
        polled(Box::pin(sleep(delay)))
    }

    fn cancel(&self, timer: Self::Timer) {
        drop(timer);
    }

    fn rearm(&self, timer: &mut Self::Timer, delay: Duration) {
        timer.as_mut().reset(Instant::now() + delay);
    }
}
