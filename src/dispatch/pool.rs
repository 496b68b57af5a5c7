//! Pool: a rayon pool, and how its threads learn of work.
//!
//! Shards and the pool's threads push work into the [`Queues`], and then call or announce:
//!
//! - In a pool of ours one thread attends (see [`attendant`](super::attendant)), and is called.
//!   Work that a shard leaves to an attendant that is awake is announced only if the attendant is
//!   late: at work for more than [`LATE_NS`](super::queues::LATE_NS). So work for one thread costs
//!   one wake-up.
//! - In a user's pool each piece of work is announced, by a job of rayon's that takes whatever
//!   comes first from the queues.
//!
//! [`Threads`] is the pool, which several services may share; [`Pool`] is one service's share in
//! it. The work of all services lies in the same queues. Each service counts the threads that it
//! wakes.

use super::attendant::{Called, Post, Term};
use super::job::{Notice, Spawn};
use super::queues::{Queues, Woken};
use crate::sync::{Ordering, Thread};
use rayon::ThreadPool;
use std::sync::Arc;

/// A service's share in a pool. A copy names the same share.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Share>);

struct Share {
    threads: Arc<Threads>,
    woken: Arc<Woken>,
}

/// The threads of a pool, and the work that waits for them. The last share ends the pool.
pub(crate) struct Threads {
    rayon: Arc<ThreadPool>,
    queues: Arc<Queues>,
}

impl Threads {
    /// A user's pool: each piece of work is announced.
    pub(crate) fn of(rayon: Arc<ThreadPool>) -> Arc<Self> {
        Self::new(rayon, None)
    }

    /// A pool of ours, with its threads in the order of their numbers. One of them attends.
    pub(crate) fn attended(rayon: Arc<ThreadPool>, threads: Vec<Thread>) -> Arc<Self> {
        Self::new(rayon, Some(Post::new(threads)))
    }

    fn new(rayon: Arc<ThreadPool>, post: Option<Post>) -> Arc<Self> {
        let queues = Arc::new(Queues::new(post));
        Arc::new(Self { rayon, queues })
    }
}

impl Pool {
    /// A share in a pool.
    pub(crate) fn on(threads: Arc<Threads>) -> Self {
        let woken = Arc::default();
        Self(Arc::new(Share { threads, woken }))
    }

    pub(crate) fn woken(&self) -> Arc<Woken> {
        self.0.woken.clone()
    }

    fn queues(&self) -> &Arc<Queues> {
        &self.0.threads.queues
    }

    /// Leaves a job for the next thread that looks for one.
    fn push(&self, job: Box<dyn FnOnce() + Send>) {
        self.queues().jobs.push(job);
    }

    /// Has a thread take the work that comes first.
    fn announce(&self) {
        let queues = self.queues().clone();
        queues.announcements.note();
        // Ordering: Relaxed. A counter.
        self.0.woken.announcements.fetch_add(1, Ordering::Relaxed);
        self.0.threads.rayon.spawn(move || queues.hear());
    }

    /// Has threads take all work for which no announcement is on its way.
    fn announce_all(&self) {
        (0..self.queues().unannounced()).for_each(|_| self.announce());
    }

    /// Calls or announces, for work that one of the pool's threads or a user's thread has pushed.
    fn pushed(&self) {
        let Some(post) = &self.queues().post else {
            return self.announce();
        };
        // A thread whose term is over is like any other: another thread may attend, and sleep.
        let attends = |term: &Term| post.awake() == Some(*term);
        match self.queues().term().filter(attends) {
            Some(term) if post.may_leave(term) && !self.queues().is_late() => {}
            Some(_) => self.announce_all(),
            None => match self.call(post) {
                Called::Woken => {}
                Called::Awake | Called::Vacant => self.announce(),
            },
        }
    }

    fn call(&self, post: &Post) -> Called {
        let called = post.call();
        if called == Called::Woken {
            // Until this store work may be announced too soon.
            self.queues().note_work();
            // Ordering: Relaxed. A counter.
            self.0.woken.attendant.fetch_add(1, Ordering::Relaxed);
        }
        called
    }

    /// Ends the term of the attendant, if it is awake, and announces all that waits. Returns
    /// whether it did.
    fn depose(&self, post: &Post) -> bool {
        let is_done = post.awake().is_some_and(|term| post.depose(term));
        if is_done {
            self.announce_all();
        }
        is_done
    }
}

impl Spawn for Pool {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.push(Box::new(work));
        self.pushed();
    }

    fn submit(&self, is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Notice {
        self.push(Box::new(begin));
        let queues = self.queues();
        if let Some(post) = &queues.post {
            match self.call(post) {
                Called::Woken => return Notice::Called,
                Called::Awake => {
                    // If `depose` finds that the attendant has just gone to sleep, or was deposed,
                    // then the attendant has seen the job, or the thread that deposed it has. The
                    // attendant may be held up again by then.
                    let calls_others = is_urgent || queues.is_late();
                    return if calls_others && self.depose(post) {
                        Notice::Announced
                    } else {
                        Notice::Left
                    };
                }
                Called::Vacant => {}
            }
        }
        self.announce();
        Notice::Announced
    }

    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.queues().offers.push(Box::new(take_up));
        self.pushed();
    }

    fn pulse(&self) {
        if self.queues().term().is_some() && self.queues().is_late() {
            self.announce_all();
        }
    }

    fn look(&self) -> bool {
        let queues = self.queues();
        let Some(post) = &queues.post else {
            return false;
        };
        if post.awake().is_some() && !queues.is_late() {
            return true;
        }
        self.unwatch();
        false
    }

    fn watch(&self) {
        if let Some(post) = &self.queues().post {
            post.watch();
        }
    }

    /// From now on the attendant announces what it pushes, unless another shard watches.
    fn unwatch(&self) {
        let Some(post) = &self.queues().post else {
            return;
        };
        post.unwatch();
        if !self.queues().is_empty() {
            self.depose(post);
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
#[path = "tests/pool.rs"]
mod tests;
