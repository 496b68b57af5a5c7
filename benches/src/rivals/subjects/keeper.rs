//! Keeper: a collection in a mutex with a thread that fires what is due, as one would write it in an afternoon. The heap and the tree are kept so.

use crate::book;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) trait Pending: Default + Send + 'static {
    /// When the earliest timer is due.
    fn first_ns(&self) -> Option<u64>;

    /// Takes the earliest one. Its payload, unless it was cancelled.
    fn pop(&mut self) -> Option<u64>;

    /// Adds one that comes again.
    fn push_periodic(&mut self, due_ns: u64);
}

#[derive(Default)]
pub(crate) struct Keeper<P> {
    pending: Mutex<P>,
    earlier: Condvar,
}

impl<P: Pending> Keeper<P> {
    pub(crate) fn start() -> Arc<Self> {
        let keeper = Arc::new(Self::default());
        let thread = keeper.clone();
        thread::Builder::new().name("keeper".to_string()).spawn(move || thread.run()).expect("a thread can be spawned");
        keeper
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, P> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is pending, and wakes the thread if something is due earlier than before.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut P) -> R) -> R {
        let mut pending = self.lock();
        let before_ns = pending.first_ns().unwrap_or(u64::MAX);
        let result = change(&mut pending);
        let wake = pending.first_ns().is_some_and(|first_ns| first_ns < before_ns);
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
            let now_ns = book::now_ns();
            while pending.first_ns().is_some_and(|first_ns| first_ns <= now_ns) {
                due.extend(pending.pop());
            }
            if !due.is_empty() {
                // Tasks run without the lock.
                drop(pending);
                again.extend(due.drain(..).filter_map(book::ran));
                pending = self.lock();
                again.drain(..).for_each(|due_ns| pending.push_periodic(due_ns));
                continue;
            }
            pending = match pending.first_ns() {
                None => self.earlier.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(first_ns) => {
                    let time = Duration::from_nanos(first_ns - now_ns);
                    self.earlier.wait_timeout(pending, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
