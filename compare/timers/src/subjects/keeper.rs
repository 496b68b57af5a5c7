//! Keeper: a collection in a mutex with a thread that fires what is due, as one would write it in
//! an afternoon. The heap and the tree are kept so.

use super::{Producer, Subject, runtime};
use crate::ledger;
use crate::name::Name;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wheelwork_kit::lock::lock;

pub(crate) trait Pending: Default + Send + 'static {
    type Handle: Send;

    /// When the earliest timer is due.
    fn first_ns(&self) -> Option<u64>;

    /// Takes the earliest one. Its payload, unless it was cancelled.
    fn pop(&mut self) -> Option<u64>;

    /// Adds one that comes again.
    fn push_periodic(&mut self, due_ns: u64);

    fn arm(keeper: &Keeper<Self>, due_ns: u64, payload: u64) -> Self::Handle;

    fn cancel(keeper: &Keeper<Self>, handle: &Self::Handle);

    fn rearm(keeper: &Keeper<Self>, handle: &mut Self::Handle, due_ns: u64);
}

#[derive(Default)]
pub(crate) struct Keeper<P> {
    pending: Mutex<P>,
    earlier: Condvar,
}

impl<P: Pending> Keeper<P> {
    pub(super) fn lock(&self) -> MutexGuard<'_, P> {
        lock(&self.pending)
    }

    /// Changes what is pending, and wakes the thread if something is due earlier than before.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut P) -> R) -> R {
        let mut pending = self.lock();
        let before_ns = pending.first_ns().unwrap_or(u64::MAX);
        let result = change(&mut pending);
        let wake = pending
            .first_ns()
            .is_some_and(|first_ns| first_ns < before_ns);
        drop(pending);
        if wake {
            self.earlier.notify_one();
        }
        result
    }

    fn run(&self) {
        let mut pending = self.lock();
        let (mut due, mut again) = (Vec::new(), Vec::new());
        loop {
            let now_ns = ledger::now_ns();
            let is_due = |first_ns: u64| first_ns <= now_ns;
            while pending.first_ns().is_some_and(is_due) {
                due.extend(pending.pop());
            }
            if !due.is_empty() {
                // Tasks run without the lock.
                drop(pending);
                again.extend(due.drain(..).filter_map(ledger::ran));
                pending = self.lock();
                let again = again.drain(..);
                again.for_each(|due_ns| pending.push_periodic(due_ns));
                continue;
            }
            let time = pending.first_ns().map_or(Duration::MAX, |first_ns| {
                Duration::from_nanos(first_ns - now_ns)
            });
            pending = self
                .earlier
                .wait_timeout(pending, time)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// A subject, and its producers alike.
pub(crate) struct Kept<P>(Arc<Keeper<P>>);

impl<P: Pending> Subject for Kept<P> {
    type Producer = Self;

    fn start(_: Name) -> Self {
        let keeper = Arc::<Keeper<P>>::default();
        let thread = keeper.clone();
        runtime::spawn("keeper", move || thread.run());
        Self(keeper)
    }

    fn within(&self, work: impl FnOnce(&mut Self)) {
        work(&mut Self(self.0.clone()));
    }
}

/// That time from now.
fn after_ns(delay: Duration) -> u64 {
    ledger::now_ns() + delay.as_nanos() as u64
}

impl<P: Pending> Producer for Kept<P> {
    type Handle = P::Handle;

    fn arm(&mut self, delay: Duration, payload: u64) -> P::Handle {
        P::arm(&self.0, after_ns(delay), payload)
    }

    fn cancel(&mut self, handle: P::Handle) {
        P::cancel(&self.0, &handle);
    }

    fn rearm(&mut self, handle: &mut P::Handle, delay: Duration) {
        P::rearm(&self.0, handle, after_ns(delay));
    }

    fn every(&mut self, due_ns: u64) -> Result<(), String> {
        self.0.change(|pending| pending.push_periodic(due_ns));
        Ok(())
    }
}
