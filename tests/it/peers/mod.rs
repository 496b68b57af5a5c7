//! Promise: whoever comes from another timer finds what its documentation promises, or the
//! difference in `docs/coming-from.md`.
//!
//! A module for each peer, a test for each thing that its users rely on. The tests are written from
//! the peers' public documentation. They run on a manual clock. What only the real clock has (the
//! service of `wheelwork::after`) is waited for, however long it takes.

mod go_time;
mod javascript;
mod jdk;
mod netty;
mod tokio_paused;
mod tokio_stream;
mod tokio_time;
mod tokio_util;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wheelwork::future::Timers;
use wheelwork::{ManualClock, TimerService};

const MS: Duration = Duration::from_millis(1);

/// A service with one shard that fires inside `advance`.
fn service() -> (TimerService, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_millis(1))
        .shards(1);
    (builder.start().unwrap(), clock)
}

/// The same for futures.
fn timers() -> (Timers, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_millis(1))
        .shards(1);
    (Timers::start(builder).unwrap(), clock)
}

/// What tasks have noted.
struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static> Log<T> {
    fn note(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    /// A task that notes something.
    fn task(&self, what: T) -> impl FnOnce() + Send + 'static {
        let log = self.clone();
        move || log.note(what)
    }

    /// What was noted since the last call.
    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<T> Log<T> {
    fn new() -> Self {
        Self(Arc::default())
    }
}

/// A task of the test's own: polls, and counts how often it is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Calls a poll function.
    fn with<R>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let waker = Waker::from(self.clone());
        poll(&mut Context::from_waker(&waker))
    }

    fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        self.with(|context| Pin::new(future).poll(context))
    }
}
