//! Pooled: batches become jobs of a pool's: rayon's, or whatever the user's executor is.

use super::job::{Buffers, Job, Spawn, Taken};
use super::{BATCH, Batch, Dispatcher, Fire, WAITING_MAX};
use crate::sync::{AtomicUsize, Ordering};
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;

/// Buffers kept for the next batches: in a burst the same ones go round, warm.
const BUFFERS_KEPT: usize = WAITING_MAX;

/// With so many batches that wait for a thread, another one is worth its wake-up.
const WAITING_FOR_ONE: usize = 2;

/// A user's way to run a job.
pub(crate) type Execute = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

/// Fires on a pool.
pub(crate) struct Pooled<F: Fire, S: Spawn> {
    fire: Arc<F>,
    pool: S,
    buffers: Arc<ArrayQueue<Buffers<F::Payload>>>,
    /// Batches that were submitted and have not begun.
    waiting: Arc<AtomicUsize>,
    /// So many of them may.
    waiting_max: usize,
    /// Whether something was left to a thread that may be held up.
    watches: bool,
}

impl<F: Fire, S: Spawn> Pooled<F, S> {
    /// On this pool, in which so many batches may wait. How many do is in `waiting`.
    pub(crate) fn new(fire: Arc<F>, pool: S, waiting: Arc<AtomicUsize>, waiting_max: usize) -> Self {
        Self { fire, pool, buffers: Arc::new(ArrayQueue::new(BUFFERS_KEPT)), waiting, waiting_max, watches: false }
    }

    fn watch(&mut self) {
        if !std::mem::replace(&mut self.watches, true) {
            self.pool.watch();
        }
    }
}

impl<F: Fire, S: Spawn> Dispatcher for Pooled<F, S> {
    fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: the shard alone adds, so a stale count is too high at worst.
        self.waiting_max.saturating_sub(self.waiting.load(Ordering::Relaxed)).saturating_mul(BATCH)
    }

    fn submit(&mut self, batch: &mut Batch) {
        let mut buffers = self.buffers.pop().unwrap_or_else(|| Buffers::new(Batch::with_capacity(BATCH)));
        let entries = batch.len();
        std::mem::swap(batch, &mut buffers.entries);
        let job = Job::new(self.fire.clone(), buffers, self.buffers.clone());
        // Ordering: Relaxed. A count for `room`; the batch itself is handed over by the pool.
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let (submitted, pool) = (Submitted { job: Some(job), waiting: self.waiting.clone() }, self.pool.clone());
        // Before it is there: who begins it leaves nothing to itself that nobody looks after. Behind a task
        // that is alone nothing waits.
        if entries > 1 {
            self.watch();
        }
        if self.pool.submit(waiting >= WAITING_FOR_ONE, move || submitted.begin(&pool)) == Taken::Left {
            self.watch();
        }
    }

    fn look(&mut self) -> bool {
        self.watches = self.watches && self.pool.look();
        self.watches
    }
}

impl<F: Fire, S: Spawn> Drop for Pooled<F, S> {
    fn drop(&mut self) {
        if self.watches {
            self.pool.unwatch();
        }
    }
}

/// A job that waits in the pool. If the pool drops it, its timers' payloads are dropped.
struct Submitted<F: Fire> {
    job: Option<Arc<Job<F>>>,
    waiting: Arc<AtomicUsize>,
}

impl<F: Fire> Submitted<F> {
    fn begin(mut self, pool: &impl Spawn) {
        if let Some(job) = self.leave() {
            job.work(pool);
        }
    }

    /// It waits no more.
    fn leave(&mut self) -> Option<Arc<Job<F>>> {
        // Ordering: Relaxed. As in `submit`.
        self.job.take().inspect(|_| _ = self.waiting.fetch_sub(1, Ordering::Relaxed))
    }
}

impl<F: Fire> Drop for Submitted<F> {
    fn drop(&mut self) {
        if let Some(job) = self.leave() {
            job.abandon();
        }
    }
}

/// A user's executor, behind a function that does not unwind.
#[derive(Clone)]
pub(crate) struct Executor(pub(crate) Arc<Execute>);

impl Spawn for Executor {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        (self.0)(Box::new(work));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::dispatch::Half;
    use crate::dispatch::leaf::Leaf;
    use crate::entry::Entry;
    use std::marker::PhantomData;
    use std::sync::Mutex;

    /// Fires by noting the cells. A timer's payload is a `P`.
    struct Note<P>(Mutex<Vec<u32>>, PhantomData<fn() -> P>);

    impl<P: From<u32> + Into<u32> + Send + 'static> Fire for Note<P> {
        type Payload = P;
        type Run = ();

        fn begin(&self) -> Half {
            Half(0)
        }

        fn begin_in(&self, _: Half) {}

        fn claim(&self, entries: &[Entry], add: impl FnMut(P), _: impl FnMut(())) {
            entries.iter().map(|entry| entry.cell().into()).for_each(add);
        }

        fn run(&self, leaf: &Leaf<'_, P>) {
            while let Some(payload) = (leaf.left() > 0).then(|| leaf.take()).flatten() {
                self.0.lock().unwrap().push(payload.into());
            }
        }

        fn repeat(&self, (): ()) {}

        fn give_up(&self, (): ()) {}

        fn discard(&self, _: impl Iterator<Item = P>) {}

        fn end(&self, _: Half) {}
    }

    /// Fires batches of all sizes one after the other. Returns for how many bytes of payloads there is room in the end.
    fn bytes_kept<P: From<u32> + Into<u32> + Send + 'static>() -> usize {
        let fire = Arc::new(Note::<P>(Mutex::default(), PhantomData));
        let mut pooled = Pooled::new(fire.clone(), Executor(Arc::new(|work: Box<dyn FnOnce() + Send>| work())), Arc::default(), 1);
        for entries in [10, 1_000, 1, 200, 64, 65, 1_000, 3] {
            let mut batch: Batch = (0..entries).map(|cell| Entry::new(1, cell, 0)).collect();
            pooled.submit(&mut batch);
            assert!(batch.is_empty());
            assert!(std::mem::take(&mut *fire.0.lock().unwrap()).into_iter().eq(0..entries), "{entries}");
        }
        let kept: Vec<_> = std::iter::from_fn(|| pooled.buffers.pop()).map(|buffers| buffers.leaves.payload_bytes()).collect();
        assert_eq!(kept.len(), 1, "they go round");
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
    fn batches_of_all_sizes_use_the_same_buffers() {
        assert_eq!(bytes_kept::<u32>(), 1_000 * size_of::<u32>());
        assert_eq!(bytes_kept::<Large>(), 3 * size_of::<Large>(), "not those of a thousand");
    }
}
