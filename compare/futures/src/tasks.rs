//! Tasks that reset a deadline at each message: one for each worker, which has its share of the
//! deadlines. A message comes for a random one.

use crate::deadline::{Deadline, Name, Never, PingoraDeadline, WheelworkId};
use crate::resets::{Job, Workload};
use fastrand::Rng;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{Barrier, Notify};
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

const DEADLINE: Duration = Duration::from_secs(60);

/// Where deadlines are armed before they are moved for the first time: as those of a server that
/// has run for a while.
const FIRST_MS: std::ops::Range<u64> = 1_000..60_000;

/// Messages after which the runtime has a turn.
const BLOCK: usize = 256;

/// Services have taken in what was armed.
const SETTLED: Duration = Duration::from_millis(300);

/// Messages of a fixed rate come so often.
const STEP: Duration = Duration::from_millis(1);

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    match job.subject {
        Name::None => measure_with::<Never>(job),
        Name::Tokio => measure_with::<tokio::time::Sleep>(job),
        Name::Pingora => measure_with::<PingoraDeadline>(job),
        Name::Wheelwork => measure_with::<wheelwork::future::Sleep>(job),
        Name::WheelworkIds => measure_with::<WheelworkId>(job),
    }
}

/// Deadlines, each in its place for good.
struct Deadlines<D> {
    all: Vec<D>,
    /// There are never more, so that the vector never grows.
    room: usize,
}

impl<D: Deadline> Deadlines<D> {
    fn with_room(room: usize) -> Self {
        Self {
            all: Vec::with_capacity(room),
            room,
        }
    }

    /// For how many there is room.
    fn left(&self) -> usize {
        self.room - self.all.len()
    }

    /// Returns its place.
    fn add(&mut self, time: Duration) -> usize {
        assert!(self.left() > 0, "a deadline does not move");
        self.all.push(D::after(time));
        self.all.len() - 1
    }

    fn at(&mut self, place: usize) -> Pin<&mut D> {
        // SAFETY: nobody takes an element out, and `add` never makes the vector grow: each stays
        // where it is until it is dropped.
        unsafe { Pin::new_unchecked(&mut self.all[place]) }
    }

    /// What a task does when a message has come: it moves the deadline, and waits again.
    fn message(&mut self, place: usize, context: &mut Context<'_>) {
        self.at(place).reset(DEADLINE);
        self.at(place).wait(context);
    }
}

/// What the tasks and their observer share.
struct Shared {
    /// A task holds up its worker there until each of them has one, so that no two have the same.
    workers: std::sync::Barrier,
    /// Tasks that have passed it.
    passed: AtomicUsize,
    /// All deadlines are armed; all tasks begin.
    gate: Barrier,
    /// Wakes all tasks, each step.
    step: Notify,
}

fn measure_with<D: Deadline>(job: &Job) -> Result<Figures, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(job.threads)
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let shared = Arc::new(Shared {
        workers: std::sync::Barrier::new(job.threads),
        passed: AtomicUsize::new(0),
        gate: Barrier::new(job.threads + 1),
        step: Notify::new(),
    });
    let resident = system::resident_bytes();
    let tasks: Vec<_> = (0..job.threads)
        .map(|number| runtime.spawn(task::<D>(job.clone(), number, Arc::clone(&shared))))
        .collect();
    // A worker may take two tasks and wait at the barrier with the first one. Another worker finds
    // the second one if it is woken after that.
    while shared.passed.load(SeqCst) < job.threads {
        drop(runtime.spawn(async {}));
        thread::sleep(STEP);
    }
    runtime.block_on(shared.gate.wait());
    thread::sleep(SETTLED);
    let resident = system::resident_bytes().saturating_sub(resident);
    let cpu = system::cpu_time();
    runtime.block_on(shared.gate.wait());
    if job.workload == Workload::ResetsPaced {
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            thread::sleep(STEP);
            shared.step.notify_waiters();
        }
    }
    let (mut messages, mut elapsed) = (0, Duration::ZERO);
    for task in tasks {
        let (own, took) = runtime.block_on(task).map_err(|error| error.to_string())?;
        messages += own;
        elapsed = elapsed.max(took);
    }
    let cpu = system::cpu_time() - cpu;
    let each = |time: Duration| time.as_nanos() as f64 / messages as f64;
    Ok(Figures::from([
        ("messages", messages as f64),
        ("messages_per_s", messages as f64 / elapsed.as_secs_f64()),
        ("ns_per_reset", each(elapsed) * job.threads as f64),
        ("cpu_us_per_reset", each(cpu) / 1e3),
        (
            "cpu_percent",
            cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0,
        ),
        ("bytes_per_deadline", resident as f64 / job.deadlines as f64),
    ]))
}

/// Arms its share of the deadlines, and takes messages. Returns how many, and for how long.
async fn task<D: Deadline>(job: Job, number: usize, shared: Arc<Shared>) -> (usize, Duration) {
    shared.workers.wait();
    shared.passed.fetch_add(1, SeqCst);
    let mut rng = Rng::with_seed(job.seed.wrapping_mul(7919).wrapping_add(number as u64));
    let mut deadlines = Deadlines::<D>::with_room(job.deadlines / job.threads);
    while deadlines.left() > 0 {
        in_turn(deadlines.left().min(BLOCK), |context| {
            let place = deadlines.add(Duration::from_millis(rng.u64(FIRST_MS)));
            deadlines.at(place).wait(context);
            deadlines.message(place, context);
        })
        .await;
    }
    shared.gate.wait().await;
    shared.gate.wait().await;

    let (start, mut messages) = (Instant::now(), 0);
    while messages == 0 || start.elapsed() < job.time() {
        let until = if job.workload == Workload::ResetsPaced {
            shared.step.notified().await;
            (start.elapsed().as_secs_f64() * job.rate as f64) as usize / job.threads
        } else {
            messages + BLOCK
        };
        while messages < until {
            let block = BLOCK.min(until - messages);
            in_turn(block, |context| {
                deadlines.message(rng.usize(..deadlines.all.len()), context)
            })
            .await;
            messages += block;
        }
    }
    let elapsed = start.elapsed();
    // The process ends without them.
    std::mem::forget(deadlines);
    (messages, elapsed)
}

/// Repeats a step; then the runtime has a turn.
async fn in_turn(times: usize, mut step: impl FnMut(&mut Context<'_>)) {
    poll_fn(|context| {
        (0..times).for_each(|_| step(context));
        Poll::Ready(())
    })
    .await;
    tokio::task::yield_now().await;
}
