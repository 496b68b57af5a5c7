//! Pools: the pools of threads that are ours. One is shared by all services of the process that
//! ask for it; others belong to one service.
//!
//! The shared pool is made by the first service that uses it, and ends with the last one. Each
//! service's shards and jobs own the pool together; the process has only a weak reference. Whoever
//! starts a service takes the lock of that reference; nobody else does.
//!
//! The last owner ends a pool without waiting for its threads, and may be one of them.

use super::thread_name::thread_name;
use crate::dispatch::pool::Threads;
use crate::dispatch::queues::may_attend;
use crate::engine::notices::hooks::discard;
use crate::error::StartError;
use crate::sync::{Process, start_thread};
use rayon::ThreadPoolBuilder;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// The most threads of a pool of ours.
const THREADS_MAX: usize = 4096;

static SHARED: Mutex<Common> = Mutex::new(Common::new());

/// The shared pool, while a service uses it.
struct Common {
    /// The process that made it. A process that was forked off has none of its threads.
    made_in: Option<Process>,
    threads: Weak<Threads>,
}

impl Common {
    const fn new() -> Self {
        Self {
            made_in: None,
            threads: Weak::new(),
        }
    }

    /// The pool of this process. If there is none, it is made.
    fn get(
        &mut self,
        process: Process,
        make: impl FnOnce() -> Result<Arc<Threads>, StartError>,
    ) -> Result<Arc<Threads>, StartError> {
        if self.made_in == Some(process)
            && let Some(threads) = self.threads.upgrade()
        {
            return Ok(threads);
        }
        let threads = make()?;
        (self.made_in, self.threads) = (Some(process), Arc::downgrade(&threads));
        Ok(threads)
    }
}

/// The threads of the pool that services share.
pub(super) fn shared() -> Result<Arc<Threads>, StartError> {
    let mut common = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    common.get(Process::current(), || own(cores(), "wheelwork", true))
}

/// One thread for each core that the calling thread may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX))
}

/// A new pool. `attended`: one of its threads attends.
pub(super) fn own(threads: usize, name: &str, attended: bool) -> Result<Arc<Threads>, StartError> {
    if !(1..=THREADS_MAX).contains(&threads) {
        return Err(StartError::Pool(format!(
            "a pool has 1 to {THREADS_MAX} threads, not {threads}"
        )));
    }
    let mut started: Vec<_> = (0..threads).map(|_| None).collect();
    let spawn = |thread: rayon::ThreadBuilder| {
        let number = thread.index();
        let name = thread_name(name, &format!("pool-{number}"));
        let run = || {
            may_attend();
            thread.run();
        };
        started[number] = Some(start_thread(name, Box::new(run))?.thread().clone());
        Ok(())
    };
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .spawn_handler(spawn)
        // A closure that a task gave to `rayon::spawn`. Without a handler rayon would abort.
        .panic_handler(discard)
        .build();
    let pool = Arc::new(pool.map_err(|error| StartError::Pool(error.to_string()))?);
    if !attended {
        return Ok(Threads::of(pool));
    }
    let started = started.into_iter().flatten().collect();
    Ok(Threads::attended(pool, started))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn one_thread() -> Result<Arc<Threads>, StartError> {
        own(1, "test", true)
    }

    #[test]
    fn services_share_the_pool_until_the_last_one_ends() {
        let mut common = Common::new();
        let first = common.get(Process::current(), one_thread).unwrap();
        let second = common
            .get(Process::current(), || unreachable!("there is one"))
            .unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        drop(first);
        assert!(common.threads.upgrade().is_some());
        drop(second);
        assert!(common.threads.upgrade().is_none(), "nobody else has it");
        assert!(common.get(Process::current(), one_thread).is_ok());
    }

    #[test]
    fn a_process_that_was_forked_off_has_a_pool_of_its_own() {
        let mut common = Common::new();
        let parents = common.get(Process::parent(), one_thread).unwrap();
        let childs = common.get(Process::current(), one_thread).unwrap();
        assert!(!Arc::ptr_eq(&parents, &childs));
        assert!(Arc::ptr_eq(
            &childs,
            &common.get(Process::current(), one_thread).unwrap()
        ));
    }

    #[test]
    fn a_pool_that_cannot_be_made_is_tried_again() {
        let mut common = Common::new();
        assert!(
            common
                .get(Process::current(), || own(0, "test", true))
                .is_err()
        );
        assert!(common.get(Process::current(), one_thread).is_ok());
    }
}
