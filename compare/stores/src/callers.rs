//! Callers: each has one call under way, and makes the next one when that is durable.
//!
//! A caller is a ticket, not a thread: two threads have half of them each, wait for the oldest
//! ticket, and make that caller's next call. What is under way is resolved in order.

use crate::disk;
use crate::random::Timers;
use crate::subjects::Subject;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::line::Figures;

/// Threads that all callers share.
const THREADS: usize = 2;

/// How long a call took is not told apart above this.
const CALL_NS_MAX: u64 = 600_000_000_000;

/// Arms between a timer's arm and its cancel, of all callers together.
const CANCEL_AFTER: usize = 20_000;
const CANCEL_PERCENT: u8 = 90;

/// How long calls took, by all threads.
pub(crate) struct Calls {
    ns: Histogram<u64>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        let ns = Histogram::new_with_bounds(1, CALL_NS_MAX, 3);
        Self {
            ns: ns.expect("the bounds are right"),
        }
    }

    pub(crate) fn took(&mut self, time: Duration) {
        self.ns.saturating_record(time.as_nanos() as u64);
    }

    fn add(&mut self, other: &Self) {
        let added = self.ns.add(&other.ns);
        added.expect("the bounds are the same");
    }

    pub(crate) fn count(&self) -> u64 {
        self.ns.len()
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.ns.max() as f64 / 1e6
    }

    /// The figures that all workloads with calls have.
    pub(crate) fn figures(&self, elapsed: Duration) -> Figures {
        let us = |part| self.ns.value_at_quantile(part) as f64 / 1e3;
        Figures::from([
            ("kops", self.count() as f64 / 1e3 / elapsed.as_secs_f64()),
            ("call_us_p50", us(0.5)),
            ("call_us_p99", us(0.99)),
            ("call_us_max", us(1.0)),
        ])
    }
}

/// What callers do.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) callers: usize,
    /// They begin no call after it.
    pub(crate) time: Duration,
    /// Whether they cancel most of what they have armed.
    pub(crate) cancels: bool,
}

/// Runs the callers; `timers` makes those of a thread. Returns how long their calls took, and how
/// long it took until the last was over.
pub(crate) fn run<S: Subject>(
    subject: &S,
    load: Load,
    timers: impl Fn(u64) -> Timers + Sync,
) -> Result<(Calls, Duration), String> {
    let threads = THREADS.min(load.callers);
    let start = Instant::now();
    let thread = |number: usize| {
        let callers = load.callers / threads + usize::from(number < load.callers % threads);
        let after = load.cancels.then_some(CANCEL_AFTER / threads);
        let thread = Thread {
            subject,
            under_way: VecDeque::with_capacity(callers),
            to_cancel: VecDeque::new(),
            cancel_next: None,
            cancel_after: after,
            timers: timers(number as u64),
            calls: Calls::new(),
        };
        thread.run(callers, start + load.time)
    };
    let all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| scope.spawn(move || thread(number)))
            .collect();
        let mut all = thread(0)?;
        for other in others {
            all.add(&other.join().expect("it does not panic")?);
        }
        Ok::<_, String>(all)
    })?;
    Ok((all, start.elapsed()))
}

enum Ticket<S: Subject> {
    Armed(S::Armed),
    Cancelled(S::Cancelled),
}

/// Half of the callers.
struct Thread<'a, S: Subject> {
    subject: &'a S,
    under_way: VecDeque<(Instant, Ticket<S>)>,
    to_cancel: VecDeque<S::Id>,
    cancel_next: Option<S::Id>,
    cancel_after: Option<usize>,
    timers: Timers,
    calls: Calls,
}

impl<S: Subject> Thread<'_, S> {
    fn run(mut self, callers: usize, end: Instant) -> Result<Calls, String> {
        let mut now = Instant::now();
        loop {
            while self.under_way.len() < callers && now < end {
                let ticket = self.call()?;
                self.under_way.push_back((now, ticket));
                if self.under_way.len() < callers {
                    // They begin one after the other.
                    now = Instant::now();
                }
            }
            let Some((begun, ticket)) = self.under_way.pop_front() else {
                return Ok(self.calls);
            };
            self.wait_for(ticket)?;
            now = Instant::now();
            self.calls.took(now - begun);
        }
    }

    fn call(&mut self) -> Result<Ticket<S>, String> {
        if let Some(id) = self.cancel_next.take() {
            return self.subject.cancel(id).map(Ticket::Cancelled);
        }
        let (due, payload) = (self.timers.due(), self.timers.payload());
        self.subject.arm(due, &payload).map(Ticket::Armed)
    }

    fn wait_for(&mut self, ticket: Ticket<S>) -> Result<(), String> {
        match ticket {
            Ticket::Cancelled(ticket) => self.subject.cancelled(ticket),
            Ticket::Armed(ticket) => {
                let id = self.subject.armed(ticket)?;
                let Some(after) = self.cancel_after else {
                    return Ok(());
                };
                self.to_cancel.push_back(id);
                if self.to_cancel.len() > after {
                    let old = self.to_cancel.pop_front();
                    self.cancel_next = old.filter(|_| self.timers.percent(CANCEL_PERCENT));
                }
                Ok(())
            }
        }
    }
}

/// What was written and used since this was made.
pub(crate) struct Spent {
    server: Option<u32>,
    written: u64,
    files: u64,
    cpu: Duration,
}

impl Spent {
    pub(crate) fn start(server: Option<u32>, folder: &Path) -> Self {
        Self {
            server,
            written: disk::written_bytes(server),
            files: disk::file_bytes(folder),
            cpu: disk::cpu_time(server),
        }
    }

    /// For each of these operations: bytes written to storage, bytes that the files have grown by,
    /// CPU time of this process and of the one that keeps the timers.
    pub(crate) fn each(&self, operations: u64, folder: &Path) -> Figures {
        let each = |total: f64| total / operations.max(1) as f64;
        let written = disk::written_bytes(self.server).saturating_sub(self.written);
        let files = disk::file_bytes(folder).saturating_sub(self.files);
        let cpu = disk::cpu_time(self.server).saturating_sub(self.cpu);
        Figures::from([
            ("written_bytes", each(written as f64)),
            ("file_bytes", each(files as f64)),
            ("cpu_us", each(cpu.as_secs_f64() * 1e6)),
        ])
    }
}
