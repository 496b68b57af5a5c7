//! Pool: a rayon pool, and what waits for its threads.
//!
//! Jobs come before help with others, most of the time: rayon alone would have a thread that has ended
//! a job share its neighbour's, and the two would pull the lines of one job from core to core, while
//! others wait.
//!
//! Threads are *told* of work by a job of rayon's, an announcement: it takes what comes first. In a
//! pool of the service's own one thread attends (see [`attendant`](super::attendant)), and is called
//! instead. Work that is left to an attendant that is awake is told to nobody until that has been at
//! work for [`LATE_NS`]: one wake-up for what one thread can do.

use super::attendant::{Called, Post, Slept, Term};
use super::job::{Spawn, Taken};
use crate::sync::{AtomicU64, AtomicUsize, CountU64, Ordering, Queue, Thread, per_thread, run_rayon_job};
use crate::time::Clock;
use rayon::ThreadPool;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// One time in so many help comes first, so that what lies behind a slow task does not wait as long as
/// jobs keep coming.
const HELP_EVERY: usize = 16;

/// A thread that is at work for longer is helped. It is what the wake-up of another one takes.
const LATE_NS: u64 = 50_000;

/// An attendant for which there is no work goes back to rayon after two times this.
const IDLE_HALF: Duration = Duration::from_millis(100);

/// Nobody has attended yet.
const IDLE: u64 = u64::MAX;

per_thread! {
    /// The queues for which this thread attends, by address, and its term.
    static ATTENDS: Cell<Option<(usize, Term)>> = const { Cell::new(None) };
}

per_thread! {
    /// Where the stack of this thread begins, if it may attend.
    static STACK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread is to be one of a pool's that may attend: said just before it begins with that.
pub(crate) fn may_attend() {
    STACK.with(|stack| stack.set(Some(stack_address())));
}

#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Whom a pool has woken.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    /// Calls that woke the attendant.
    pub(crate) attendant: CountU64,
    /// Announcements to rayon, which wakes some of its threads if they sleep.
    pub(crate) told: CountU64,
}

/// A pool. Its copies share it.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Threads>);

struct Threads {
    rayon: Arc<ThreadPool>,
    queues: Arc<Queues>,
}

/// Work that waits.
struct Queues {
    jobs: Queue<Box<dyn FnOnce() + Send>>,
    offers: Queue<Box<dyn FnOnce() -> bool + Send>>,
    /// Work taken so far, to have help come first now and then.
    taken: AtomicUsize,
    /// Announcements that no thread has heard.
    told: AtomicUsize,
    post: Option<Post>,
    /// How deep the stack is, at the least, of a thread that hears an announcement.
    outermost: AtomicUsize,
    /// Since when the attendant has been at work, if it is awake. Never later than now.
    since_ns: AtomicU64,
    clock: Clock,
    woken: Arc<Woken>,
}

impl Queues {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.offers.is_empty()
    }

    /// Does what comes first. Whether there was something.
    fn work(&self) -> bool {
        // Ordering: Relaxed. Only the number matters.
        let help_first = self.taken.fetch_add(1, Ordering::Relaxed) % HELP_EVERY == HELP_EVERY - 1;
        if help_first && self.help() {
            return true;
        }
        match self.jobs.pop() {
            Some(begin) => {
                begin();
                true
            }
            None => self.help(),
        }
    }

    /// Takes offers, until one of them had something to do. Whether one had.
    fn help(&self) -> bool {
        std::iter::from_fn(|| self.offers.pop()).any(|take_up| take_up())
    }

    /// What an announcement is for. The thread attends afterwards, if nobody does, and it has nothing
    /// else to go back to.
    fn hear(&self) {
        let is_outermost = self.is_outermost();
        // Ordering: Release. Before the work is taken from its queue: see `tell_all`.
        self.told.fetch_sub(1, Ordering::Release);
        self.work();
        if is_outermost {
            self.attend();
        }
    }

    /// Whether this announcement is heard by rayon's own loop, not by a task (or another job) that waits
    /// in a `join`, say: that must go on when what it waits for is there. rayon does not tell, but the
    /// stack is deeper. The first announcement of all is heard before any task runs.
    #[inline(never)]
    fn is_outermost(&self) -> bool {
        let Some(stack) = self.post.as_ref().and_then(|_| STACK.with(Cell::get)) else { return false };
        let depth = stack.abs_diff(stack_address());
        // Ordering: Relaxed. The first one says it before it runs what might hear another.
        depth <= self.outermost.fetch_min(depth, Ordering::Relaxed)
    }

    fn attend(&self) {
        let (Some(post), Some(number), None) = (&self.post, rayon::current_thread_index(), ATTENDS.with(Cell::get)) else { return };
        while self.is_empty()
            && let Some(term) = post.begin(number)
        {
            ATTENDS.with(|attends| attends.set(Some((self.address(), term))));
            let is_deposed = self.serve(post, term);
            ATTENDS.with(|attends| attends.set(None));
            if !is_deposed {
                break;
            }
        }
    }

    /// Works for the term. Whether it was deposed.
    fn serve(&self, post: &Post, term: Term) -> bool {
        loop {
            // Ordering: Relaxed. A hint, here and where it is read.
            self.since_ns.store(self.clock.now_ns(), Ordering::Relaxed);
            while !self.is_empty() {
                self.work();
                if post.awake() != Some(term) {
                    return true;
                }
            }
            // What tasks have left to rayon, and announcements of what is done.
            while run_rayon_job() {}
            // Not `IDLE`: if the term is over this is another attendant's, who would not be late then for
            // as long as it is held up.
            // Ordering: Relaxed. As above.
            self.since_ns.store(self.clock.now_ns(), Ordering::Relaxed);
            match post.sleep(term, IDLE_HALF, || !self.is_empty()) {
                Slept::Called => {}
                slept => return slept == Slept::Deposed,
            }
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The term of the calling thread, if it attends.
    fn term(&self) -> Option<Term> {
        ATTENDS.with(Cell::get).filter(|&(address, _)| address == self.address()).map(|(_, term)| term)
    }

    /// Whether the attendant has been at work for so long that it should be helped.
    fn is_late(&self) -> bool {
        // Ordering: Relaxed. As in `serve`.
        self.clock.now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed)) > LATE_NS
    }
}

impl Pool {
    /// A pool of somebody else's, to be told of each job.
    pub(crate) fn of(rayon: Arc<ThreadPool>) -> Self {
        Self::new(rayon, None)
    }

    /// A pool of the service's own, with its threads in the order of their numbers: one of them
    /// attends.
    pub(crate) fn attended(rayon: Arc<ThreadPool>, threads: impl IntoIterator<Item = Thread>) -> Self {
        Self::new(rayon, Some(Post::new(threads)))
    }

    fn new(rayon: Arc<ThreadPool>, post: Option<Post>) -> Self {
        let queues = Queues {
            jobs: Queue::new(),
            offers: Queue::new(),
            taken: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
            post,
            outermost: AtomicUsize::new(usize::MAX),
            since_ns: AtomicU64::new(IDLE),
            clock: Clock::monotonic(),
            woken: Arc::default(),
        };
        Self(Arc::new(Threads { rayon, queues: Arc::new(queues) }))
    }

    pub(crate) fn woken(&self) -> Arc<Woken> {
        self.0.queues.woken.clone()
    }

    /// Has a thread take what comes first.
    fn tell(&self) {
        let queues = self.0.queues.clone();
        // Ordering: Relaxed. The announcement itself is handed over by rayon.
        queues.told.fetch_add(1, Ordering::Relaxed);
        queues.woken.told.fetch_add(1, Ordering::Relaxed);
        self.0.rayon.spawn(move || queues.hear());
    }

    /// Has threads take all that waits and that no announcement is on its way for.
    fn tell_all(&self) {
        let queues = &self.0.queues;
        let work = queues.jobs.len() + queues.offers.len();
        // Ordering: Acquire. After the look at the queues: who has taken something from them by then
        // has counted its announcement off before, and a queue hands that over.
        let told = queues.told.load(Ordering::Acquire);
        (told..work).for_each(|_| self.tell());
    }

    /// Work has been pushed by one of the pool's threads, or a user's. `is_last`: then it looks for work
    /// itself. All else that waits was told, or is looked after: should it take that, others have been
    /// told of as much as waits.
    fn pushed(&self, is_last: bool) {
        let Some(post) = &self.0.queues.post else { return self.tell() };
        match self.0.queues.term() {
            Some(term) if post.may_leave(term, is_last) && !self.0.queues.is_late() => {}
            Some(_) => self.tell_all(),
            None => match self.call(post) {
                Called::Woken => {}
                Called::Awake | Called::Vacant => self.tell(),
            },
        }
    }

    fn call(&self, post: &Post) -> Called {
        let called = post.call();
        if called == Called::Woken {
            let queues = &self.0.queues;
            // Ordering: Relaxed. As in `serve`: until then it may be told too soon.
            queues.since_ns.store(queues.clock.now_ns(), Ordering::Relaxed);
            queues.woken.attendant.fetch_add(1, Ordering::Relaxed);
        }
        called
    }
}

impl Spawn for Pool {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.0.queues.jobs.push(Box::new(work));
        self.pushed(false);
    }

    fn spawn_last(&self, work: impl FnOnce() + Send + 'static) {
        self.0.queues.jobs.push(Box::new(work));
        self.pushed(true);
    }

    fn submit(&self, is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Taken {
        let queues = &self.0.queues;
        queues.jobs.push(Box::new(begin));
        match queues.post.as_ref().map(|post| self.call(post)) {
            Some(Called::Woken) => Taken::Called,
            Some(Called::Awake) if !is_urgent && !queues.is_late() => Taken::Left,
            Some(Called::Awake) => {
                self.tell_others();
                Taken::Told
            }
            Some(Called::Vacant) | None => {
                self.tell();
                Taken::Told
            }
        }
    }

    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.0.queues.offers.push(Box::new(take_up));
        self.pushed(false);
    }

    fn pulse(&self) {
        if self.0.queues.term().is_some() && self.0.queues.is_late() {
            self.tell_all();
        }
    }

    fn look(&self) -> bool {
        let queues = &self.0.queues;
        let Some(post) = &queues.post else { return false };
        if post.awake().is_some() && !queues.is_late() {
            return true;
        }
        self.unwatch();
        false
    }

    fn watch(&self) {
        if let Some(post) = &self.0.queues.post {
            post.watch();
        }
    }

    /// What an attendant pushes from now on it tells, unless others look.
    fn unwatch(&self) {
        let Some(post) = &self.0.queues.post else { return };
        post.unwatch();
        if let Some(term) = post.awake()
            && !self.0.queues.is_empty()
        {
            self.end(term);
        }
    }
}

impl Pool {
    fn tell_others(&self) {
        if let Some(term) = self.0.queues.post.as_ref().and_then(Post::awake) {
            self.end(term);
        } else {
            self.tell_all();
        }
    }

    /// The attendant's term ends, and all that waits is told.
    fn end(&self, term: Term) {
        if self.0.queues.post.as_ref().is_some_and(|post| post.depose(term)) {
            self.tell_all();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(post) = &self.queues.post {
            post.close();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{ThreadBuilder, pause};
    use std::sync::mpsc;

    /// What the one thread of a pool does, in order, when so many jobs, offers without use and one offer with some wait for it.
    fn order(jobs: usize, vain_offers: usize) -> Vec<&'static str> {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("there is a thread");
        let pool = Pool::of(Arc::new(threads));
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
            pool.submit(false, move || _ = begin());
        }
        drop((done, open));
        all.into_iter().collect()
    }

    /// A pool of so many threads, one of which attends and sleeps.
    fn attended(threads: usize) -> Pool {
        let (send, started) = mpsc::channel();
        let spawn = move |thread: rayon::ThreadBuilder| {
            let index = thread.index();
            let run = || {
                may_attend();
                thread.run();
            };
            send.send((index, ThreadBuilder::new().spawn(run)?.thread().clone())).unwrap();
            Ok(())
        };
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).spawn_handler(spawn).build().unwrap();
        let mut started: Vec<_> = started.into_iter().collect();
        started.sort_unstable_by_key(|&(index, _)| index);
        let pool = Pool::attended(Arc::new(rayon), started.into_iter().map(|(_, thread)| thread));
        assert_eq!(pool.submit(false, || ()), Taken::Told, "nobody attends");
        pool
    }

    /// Submits a job when the attendant sleeps, which is called.
    fn call(pool: &Pool, job: impl FnOnce() + Send + 'static) {
        while !pool.0.queues.post.as_ref().unwrap().is_asleep() {
            pause();
        }
        assert_eq!(pool.submit(false, job), Taken::Called);
    }

    #[test]
    fn what_is_left_to_a_thread_that_is_held_up_is_told() {
        let pool = attended(2);
        for _ in 0..3 {
            let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
            call(&pool, move || _ = gate.recv());
            let others = [1, 2, 3].map(|number| {
                let done = done.clone();
                pool.submit(false, move || done.send(number).unwrap())
            });
            assert!(!others.contains(&Taken::Called), "it is at work");
            pool.watch();
            while pool.look() {}
            // The gate is opened when the others have run, beside it.
            let mut ran: Vec<i32> = all.iter().take(3).collect();
            ran.sort_unstable();
            assert_eq!(ran, [1, 2, 3]);
            drop(open);
        }
    }

    #[test]
    fn so_is_what_it_leaves_to_itself() {
        let pool = attended(2);
        for _ in 0..3 {
            let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
            let own = pool.clone();
            pool.watch();
            call(&pool, move || {
                own.offer(move || done.send(()).is_ok());
                _ = gate.recv();
            });
            while pool.look() {}
            assert_eq!(all.recv(), Ok(()));
            drop(open);
        }
    }

    /// What the attendant is woken for by another thread than a shard's, nobody looks after.
    #[test]
    fn what_nobody_looks_after_is_told() {
        let pool = attended(3);
        let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
        let own = pool.clone();
        while !pool.0.queues.post.as_ref().unwrap().is_asleep() {
            pause();
        }
        pool.offer(move || {
            own.offer(move || done.send(()).is_ok());
            gate.recv().is_ok()
        });
        assert_eq!(all.recv(), Ok(()));
        drop(open);
    }

    /// It waits for half of a join, and must go on when that is done.
    #[test]
    fn a_thread_that_waits_in_a_task_does_not_attend() {
        let pool = attended(2);
        while !pool.0.queues.post.as_ref().unwrap().is_asleep() {
            pause();
        }
        // The attendant has one half, the other thread waits for it, and hears an announcement there.
        let ((has_begun, begun), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
        let ((done, all), (has_stolen, stolen)) = (mpsc::channel(), mpsc::channel());
        let told = pool.clone();
        pool.0.rayon.spawn(move || {
            let waits = rayon::current_thread_index();
            rayon::join(
                move || {
                    told.submit(false, || ());
                    begun.recv().unwrap();
                },
                move || {
                    has_begun.send(()).unwrap();
                    has_stolen.send(waits).unwrap();
                    _ = gate.recv();
                },
            );
            done.send(()).unwrap();
        });
        let waits = stolen.recv().unwrap().expect("it is one of the pool's");
        while !pool.0.queues.is_late() {
            pause();
        }
        pool.tell_others();
        pool.tell();
        let queues = &pool.0.queues;
        for _ in 0..200 {
            pause();
            let attends = queues.post.as_ref().unwrap().attendant();
            assert_ne!(attends, Some(waits), "it would not see that the other half is done");
        }
        drop(open);
        assert_eq!(all.recv(), Ok(()));
    }

    /// One whose term is over says nothing of the next one's.
    #[test]
    fn an_attendant_is_late_though_the_last_one_ends_meanwhile() {
        let pool = attended(2);
        let ((open, gate), (has_begun, begun)) = (mpsc::channel::<()>(), mpsc::channel());
        let gate = std::sync::Mutex::new(Some(gate));
        call(&pool, move || {
            let this = rayon::current_thread_index();
            rayon::spawn_broadcast(move |_| {
                if rayon::current_thread_index() == this
                    && let Some(gate) = gate.lock().unwrap().take()
                {
                    has_begun.send(()).unwrap();
                    _ = gate.recv();
                }
            });
        });
        begun.recv().unwrap();
        while !pool.0.queues.is_late() {
            pause();
        }
        // It is deposed, and the other one attends.
        assert_eq!(pool.submit(false, || ()), Taken::Told);
        let (open_next, gate_next) = mpsc::channel::<()>();
        call(&pool, move || _ = gate_next.recv());
        drop(open);
        // Also when the old one has noticed that its term is over.
        for _ in 0..200 {
            pause();
        }
        while !pool.0.queues.is_late() {
            pause();
        }
        drop(open_next);
    }

    #[test]
    fn one_thread_does_all_of_a_pool_of_one() {
        let pool = attended(1);
        let (done, all) = mpsc::channel();
        for number in 0..100 {
            let done = done.clone();
            pool.submit(number % 10 == 0, move || {
                let inner = done.clone();
                rayon::spawn(move || inner.send(number).unwrap());
                done.send(number).unwrap();
            });
            if number % 7 == 0 {
                pool.watch();
                while pool.look() {}
            }
        }
        drop(done);
        assert_eq!(all.into_iter().count(), 200);
    }

    /// Its thread is free for rayon again, and ends with it.
    #[test]
    fn an_attendant_leaves_with_the_last_of_its_pool() {
        let pool = attended(1);
        call(&pool, || ());
        let queues = Arc::downgrade(&pool.0.queues);
        drop(pool);
        while queues.strong_count() > 0 {
            pause();
        }
    }

    #[test]
    fn jobs_come_before_help() {
        assert_eq!(order(5, 2), ["job", "job", "job", "job", "job", "nothing", "nothing", "help"]);
    }

    #[test]
    fn help_comes_though_jobs_keep_coming() {
        let order = order(10 * HELP_EVERY, 100);
        let help = order.iter().position(|&what| what == "help").expect("it came");
        assert_eq!(order[..help].iter().filter(|&&what| what == "job").count(), HELP_EVERY - 2, "the gate was one");
        assert_eq!(order.len(), 10 * HELP_EVERY + 101, "nothing is lost");
    }
}
