//! Pooled: batches become jobs of a pool's: rayon's, or whatever the user's executor is.

use super::job::{Buffers, Job, Spawn};
use super::{BATCH, Batch, Dispatcher, Fire, WAITING_MAX};
use crate::sync::{AtomicUsize, Ordering, Queue};
use crossbeam_queue::ArrayQueue;
use rayon::ThreadPool;
use std::sync::Arc;

/// Buffers kept for the next batches: in a burst the same ones go round, warm.
const BUFFERS_KEPT: usize = WAITING_MAX;

/// A user's way to run a job.
pub(crate) type Execute = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

/// Fires on a pool.
pub(crate) struct Pooled<F: Fire, S> {
    fire: Arc<F>,
    pool: S,
    buffers: Arc<ArrayQueue<Buffers<F::Payload>>>,
    /// Batches that were submitted and have not begun.
    waiting: Arc<AtomicUsize>,
    /// So many of them may.
    waiting_max: usize,
}

impl<F: Fire, S: Spawn> Pooled<F, S> {
    /// On this pool, in which so many batches may wait. How many do is in `waiting`.
    pub(crate) fn new(fire: Arc<F>, pool: S, waiting: Arc<AtomicUsize>, waiting_max: usize) -> Self {
        Self { fire, pool, buffers: Arc::new(ArrayQueue::new(BUFFERS_KEPT)), waiting, waiting_max }
    }
}

impl<F: Fire, S: Spawn> Dispatcher for Pooled<F, S> {
    fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: the shard alone adds, so a stale count is too high at worst.
        self.waiting_max.saturating_sub(self.waiting.load(Ordering::Relaxed)).saturating_mul(BATCH)
    }

    fn submit(&mut self, batch: &mut Batch) {
        let mut buffers = self.buffers.pop().unwrap_or_else(|| Buffers::new(Batch::with_capacity(BATCH)));
        std::mem::swap(batch, &mut buffers.entries);
        let job = Job::new(self.fire.clone(), buffers, self.buffers.clone());
        // Ordering: Relaxed. A count for `room`; the batch itself is handed over by the pool.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let (submitted, pool) = (Submitted { job: Some(job), waiting: self.waiting.clone() }, self.pool.clone());
        self.pool.submit(move || submitted.begin(&pool));
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

/// A rayon pool, whose threads begin jobs before they help with others, most of the time. Rayon alone would have a thread that has ended a job share its
/// neighbour's, and the two would pull the lines of one job from core to core, while others wait.
#[derive(Clone)]
pub(crate) struct Pool {
    threads: Arc<ThreadPool>,
    queues: Arc<Queues>,
}

/// One time in so many help comes first, so that what lies behind a slow task does not wait as long as jobs keep coming.
const HELP_EVERY: usize = 16;

/// Works that wait, each announced to the threads: an announcement is for whatever comes first.
struct Queues {
    jobs: Queue<Box<dyn FnOnce() + Send>>,
    offers: Queue<Box<dyn FnOnce() -> bool + Send>>,
    /// Announcements so far.
    heard: AtomicUsize,
}

impl Queues {
    /// What an announcement is for.
    fn work(&self) {
        // Ordering: Relaxed. Only the number matters.
        let help_first = self.heard.fetch_add(1, Ordering::Relaxed) % HELP_EVERY == HELP_EVERY - 1;
        if help_first && self.help() {
            return;
        }
        match self.jobs.pop() {
            Some(begin) => begin(),
            None => _ = self.help(),
        }
    }

    /// Takes offers, until one of them had something to do. Whether one had.
    fn help(&self) -> bool {
        std::iter::from_fn(|| self.offers.pop()).any(|take_up| take_up())
    }
}

impl Pool {
    pub(crate) fn new(threads: Arc<ThreadPool>) -> Self {
        Self { threads, queues: Arc::new(Queues { jobs: Queue::new(), offers: Queue::new(), heard: AtomicUsize::new(0) }) }
    }

    fn announce(&self) {
        let queues = self.queues.clone();
        self.threads.spawn(move || queues.work());
    }
}

impl Spawn for Pool {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn(work);
    }

    fn submit(&self, begin: impl FnOnce() + Send + 'static) {
        self.queues.jobs.push(Box::new(begin));
        self.announce();
    }

    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.queues.offers.push(Box::new(take_up));
        self.announce();
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
    use std::sync::{Mutex, mpsc};

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

    /// What the one thread of a pool does, in order, when so many jobs, offers without use and one offer with some wait for it.
    fn order(jobs: usize, vain_offers: usize) -> Vec<&'static str> {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("there is a thread");
        let pool = Pool::new(Arc::new(threads));
        let (open, gate) = mpsc::channel::<()>();
        pool.spawn(move || _ = gate.recv());
        let (done, all) = mpsc::channel();
        let tell = |what: &'static str, helps: bool| {
            let done = done.clone();
            move || done.send(what).is_ok() && helps
        };
        (0..vain_offers).for_each(|_| pool.offer(tell("nothing", false)));
        pool.offer(tell("help", true));
        for _ in 0..jobs {
            let begin = tell("job", true);
            pool.submit(move || _ = begin());
        }
        drop((done, open));
        all.into_iter().collect()
    }

    #[test]
    fn jobs_come_before_help() {
        assert_eq!(order(5, 2), ["job", "job", "job", "job", "job", "nothing", "nothing", "help"]);
    }

    #[test]
    fn help_comes_though_jobs_keep_coming() {
        let order = order(10 * HELP_EVERY, 100);
        let help = order.iter().position(|&what| what == "help").expect("it came");
        assert_eq!(order[..help].iter().filter(|&&what| what == "job").count(), HELP_EVERY - 1);
        assert_eq!(order.len(), 10 * HELP_EVERY + 101, "nothing is lost");
    }
}
