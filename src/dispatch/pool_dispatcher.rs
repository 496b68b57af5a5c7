//! `PoolDispatcher`: turns a shard's batches into jobs of a pool: rayon's, or a user's executor.
//!
//! Owned by the shard, and touched by its thread alone. Its counter of waiting batches and its
//! spare buffers are shared with the jobs.

use super::buffers::Buffers;
use super::dispatcher::{Dispatcher, LookAgain};
use super::fire::Fire;
use super::job::{Job, Notice, Spawn};
use super::relief::{Begin, Relief};
use super::sizes::{BATCH, EntryBatch, WAITING_MAX};
use super::target::Execute;
use crate::sync::{AtomicUsize, Ordering, per_thread, start_thread};
use crossbeam_queue::ArrayQueue;
use std::cell::Cell;
use std::sync::Arc;

/// Buffers kept for later batches. In a burst they are used again while they are in the cache.
const BUFFERS_KEPT: usize = WAITING_MAX;

/// A batch is announced at once if this many batches already wait for a thread.
const WAITING_URGENT: usize = 2;

/// Fires on a pool.
pub(crate) struct PoolDispatcher<F: Fire, S: Spawn> {
    fire: Arc<F>,
    pool: S,
    spare: Arc<ArrayQueue<Buffers<F>>>,
    /// Batches that were submitted and have not begun. Jobs share it.
    waiting: Arc<AtomicUsize>,
    /// How many batches may wait.
    waiting_max: usize,
    /// Whether this shard watches: work may be left to an attendant that is held up.
    watches: bool,
    /// Threads for when all workers are blocked, if the service has some.
    relief: Option<Relief<F>>,
}

impl<F: Fire, S: Spawn> PoolDispatcher<F, S> {
    /// A dispatcher on this pool. `waiting` counts the batches that wait. While they are
    /// `waiting_max` or more, there is no room.
    pub(crate) fn new(
        fire: Arc<F>,
        pool: S,
        waiting: Arc<AtomicUsize>,
        waiting_max: usize,
    ) -> Self {
        Self {
            fire,
            pool,
            spare: Arc::new(ArrayQueue::new(BUFFERS_KEPT)),
            waiting,
            waiting_max,
            watches: false,
            relief: None,
        }
    }

    /// The same, with up to this number of threads for when all workers are blocked.
    pub(crate) fn relieved(mut self, threads_max: usize, begin: Begin) -> Self {
        self.relief =
            (threads_max > 0).then(|| Relief::new(self.waiting.clone(), threads_max, begin));
        self
    }

    fn watch(&mut self) {
        if !std::mem::replace(&mut self.watches, true) {
            self.pool.watch();
        }
    }
}

impl<F: Fire, S: Spawn> Dispatcher for PoolDispatcher<F, S> {
    fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: only the shard adds, so a stale value is too high at worst.
        self.waiting_max
            .saturating_sub(self.waiting.load(Ordering::Relaxed))
            .saturating_mul(BATCH)
    }

    fn submit(&mut self, batch: &mut EntryBatch) {
        let mut buffers = self
            .spare
            .pop()
            .unwrap_or_else(|| Buffers::new(EntryBatch::with_capacity(BATCH)));
        let entries = batch.len();
        std::mem::swap(batch, &mut buffers.entries);
        let job = Job::new(self.fire.clone(), buffers, self.spare.clone());
        if let Some(relief) = &mut self.relief {
            relief.add(&job);
        }
        // Ordering: Relaxed. A counter for `room`. The pool hands the batch itself over.
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let (waiting_job, pool) = (
            WaitingJob {
                job: Some(job),
                waiting: self.waiting.clone(),
            },
            self.pool.clone(),
        );
        // Watch before the job can begin: its worker leaves nothing to itself unless a shard
        // watches. A batch of one entry has nothing that could wait behind its task.
        if entries > 1 {
            self.watch();
        }
        if self
            .pool
            .submit(waiting >= WAITING_URGENT, move || waiting_job.begin(&pool))
            == Notice::Left
        {
            self.watch();
        }
    }

    fn look(&mut self) -> LookAgain {
        self.watches = self.watches && self.pool.look();
        let relief = self.relief.as_mut();
        let relieves = relief.is_some_and(|relief| relief.look(&self.pool));
        match (self.watches, relieves) {
            (true, _) => LookAgain::Soon,
            (false, true) => LookAgain::Later,
            (false, false) => LookAgain::No,
        }
    }
}

impl<F: Fire, S: Spawn> Drop for PoolDispatcher<F, S> {
    fn drop(&mut self) {
        if self.watches {
            self.pool.unwatch();
        }
    }
}

/// A job that waits in the pool. If the pool drops it, it drops the payloads of its timers.
struct WaitingJob<F: Fire> {
    job: Option<Arc<Job<F>>>,
    waiting: Arc<AtomicUsize>,
}

impl<F: Fire> WaitingJob<F> {
    fn begin(mut self, pool: &impl Spawn) {
        if let Some(job) = self.leave() {
            job.work(pool);
        }
    }

    /// Takes the job, which then waits no more. `None`: it has a first worker.
    fn leave(&mut self) -> Option<Arc<Job<F>>> {
        // Ordering: Relaxed. As in `submit`.
        self.job
            .take()
            .filter(|job| job.begin())
            .inspect(|_| _ = self.waiting.fetch_sub(1, Ordering::Relaxed))
    }
}

impl<F: Fire> Drop for WaitingJob<F> {
    fn drop(&mut self) {
        if let Some(job) = self.leave() {
            job.abandon();
        }
    }
}

per_thread! {
    /// How many jobs of executors this thread is inside of.
    static EXECUTED: Cell<u32> = const { Cell::new(0) };
}

/// A user's executor. A copy names the same one.
#[derive(Clone)]
pub(crate) struct Executor(Arc<OwnedExecute>);

/// The function of an executor. Its last owner may be a job that it was given, on a thread of a
/// pool that the function owns, and its drop may wait for the threads of that pool. So a thread
/// that runs a job leaves the drop to another thread.
struct OwnedExecute(Option<Box<Execute>>);

impl Executor {
    /// An executor of a function that does not unwind.
    pub(crate) fn new(execute: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(OwnedExecute(Some(Box::new(execute)))))
    }
}

impl Spawn for Executor {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        // What `work` owns is dropped before the job counts as left.
        let job = move || {
            EXECUTED.with(|executed| executed.set(executed.get() + 1));
            work();
            EXECUTED.with(|executed| executed.set(executed.get() - 1));
        };
        if let Some(execute) = &self.0.0 {
            execute(Box::new(job));
        }
    }
}

impl Drop for OwnedExecute {
    fn drop(&mut self) {
        let execute = self.0.take();
        if EXECUTED.with(Cell::get) > 0 {
            // If the system has no thread to give, it is dropped here.
            _ = start_thread("wheelwork-drop".to_string(), Box::new(|| drop(execute)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatch::Half;
    use crate::dispatch::grain::Grain;
    use crate::entry::Entry;
    use std::marker::PhantomData;
    use std::sync::Mutex;

    /// Fires by noting the cells. The payload of a timer is a `P`.
    struct Note<P>(Mutex<Vec<u32>>, PhantomData<fn() -> P>);

    impl<P: From<u32> + Into<u32> + Send + 'static> Fire for Note<P> {
        type Payload = P;
        type Run = ();

        fn begin(&self) -> Half {
            Half(0)
        }

        fn begin_in(&self, _: Half) {}

        fn claim(&self, entries: &[Entry], add: impl FnMut(P), _: impl FnMut(())) {
            entries
                .iter()
                .map(|entry| entry.cell().into())
                .for_each(add);
        }

        fn run(&self, grain: &Grain<'_, P>) {
            while let Some(payload) = (grain.left() > 0).then(|| grain.take()).flatten() {
                self.0.lock().unwrap().push(payload.into());
            }
        }

        fn repeats(&self) -> bool {
            false
        }

        fn repeat(&self, _: &Grain<'_, ()>) {}

        fn give_up(&self, (): ()) {}

        fn discard(&self, _: impl Iterator<Item = P>) {}

        fn is_stopped(&self) -> bool {
            false
        }

        fn end(&self, _: Half) {}
    }

    /// Fires batches of several sizes, one after the other. Returns how many bytes of payloads the
    /// buffers have room for in the end.
    fn bytes_kept<P: From<u32> + Into<u32> + Send + 'static>() -> usize {
        let fire = Arc::new(Note::<P>(Mutex::default(), PhantomData));
        let mut dispatcher = PoolDispatcher::new(
            fire.clone(),
            Executor::new(|work| work()),
            Arc::default(),
            1,
        );
        for entries in [10, 1_000, 1, 200, 64, 65, 1_000, 3] {
            let mut batch: EntryBatch = (0..entries).map(|cell| Entry::new(1, cell, 0)).collect();
            dispatcher.submit(&mut batch);
            assert!(batch.is_empty());
            assert!(
                std::mem::take(&mut *fire.0.lock().unwrap())
                    .into_iter()
                    .eq(0..entries),
                "{entries}"
            );
        }
        let kept: Vec<_> = std::iter::from_fn(|| dispatcher.spare.pop())
            .map(|buffers| buffers.payload_bytes())
            .collect();
        assert_eq!(kept.len(), 1, "one buffer is used again");
        kept[0]
    }

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Large(u32);

    impl From<u32> for Large {
        fn from(cell: u32) -> Self {
            Self(cell)
        }
    }

    impl From<Large> for u32 {
        fn from(large: Large) -> Self {
            large.0
        }
    }

    #[test]
    fn batches_of_all_sizes_share_one_buffer() {
        assert_eq!(bytes_kept::<u32>(), 1_000 * size_of::<u32>());
        assert_eq!(
            bytes_kept::<Large>(),
            3 * size_of::<Large>(),
            "a buffer for a thousand is not kept"
        );
    }
}
