//! Pool: a rayon pool, and how its threads learn of work.
//!
//! Shards and the pool's threads push work into the [`Queues`], and then call or announce:
//!
//! - In a pool of the service's own one thread attends (see [`attendant`](super::attendant)): it is
//!   called. Work that is left to an attendant that is awake is announced only when that has been
//!   at work for [`LATE_NS`](super::queues::LATE_NS). So work for one thread costs one wake-up.
//! - In a user's pool each piece of work is announced, by a job of rayon's that takes whatever
//!   comes first from the queues.

use super::attendant::{Called, Post, Term};
use super::job::{Notice, Spawn};
use super::queues::{Queues, Woken};
use crate::sync::{Ordering, Thread};
use rayon::ThreadPool;
use std::sync::Arc;

/// A pool. A copy names the same pool.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Threads>);

struct Threads {
    rayon: Arc<ThreadPool>,
    queues: Arc<Queues>,
}

impl Pool {
    /// A user's pool: each piece of work is announced.
    pub(crate) fn of(rayon: Arc<ThreadPool>) -> Self {
        Self::new(rayon, None)
    }

    /// A pool of the service's own, with its threads in the order of their numbers. One of them
    /// attends.
    pub(crate) fn attended(
        rayon: Arc<ThreadPool>,
        threads: impl IntoIterator<Item = Thread>,
    ) -> Self {
        Self::new(rayon, Some(Post::new(threads)))
    }

    fn new(rayon: Arc<ThreadPool>, post: Option<Post>) -> Self {
        Self(Arc::new(Threads {
            rayon,
            queues: Arc::new(Queues::new(post)),
        }))
    }

    pub(crate) fn woken(&self) -> Arc<Woken> {
        self.0.queues.woken.clone()
    }

    /// Has a thread take the work that comes first.
    fn announce(&self) {
        let queues = self.0.queues.clone();
        queues.note_announcement();
        self.0.rayon.spawn(move || queues.hear());
    }

    /// Has threads take all work for which no announcement is on its way.
    fn announce_all(&self) {
        (0..self.0.queues.unannounced()).for_each(|_| self.announce());
    }

    /// Work has been pushed, by one of the pool's threads or a user's thread. `is_last`: the thread
    /// looks for work next. Other work that waits was announced, or a shard looks after it. If the
    /// thread takes some of that work, there are announcements for as much as still waits.
    fn pushed(&self, is_last: bool) {
        let Some(post) = &self.0.queues.post else {
            return self.announce();
        };
        match self.0.queues.term() {
            Some(term) if post.may_leave(term, is_last) && !self.0.queues.is_late() => {}
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
            let queues = &self.0.queues;
            // Until this store work may be announced too soon.
            queues.note_work();
            // Ordering: Relaxed. A counter.
            queues.woken.attendant.fetch_add(1, Ordering::Relaxed);
        }
        called
    }

    /// Has other threads than the attendant take all that waits.
    fn call_others(&self) {
        if let Some(term) = self.0.queues.post.as_ref().and_then(Post::awake) {
            self.depose(term);
        } else {
            self.announce_all();
        }
    }

    /// Ends the attendant's term, and announces all that waits.
    fn depose(&self, term: Term) {
        if self
            .0
            .queues
            .post
            .as_ref()
            .is_some_and(|post| post.depose(term))
        {
            self.announce_all();
        }
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

    fn submit(&self, is_urgent: bool, begin: impl FnOnce() + Send + 'static) -> Notice {
        let queues = &self.0.queues;
        queues.jobs.push(Box::new(begin));
        match queues.post.as_ref().map(|post| self.call(post)) {
            Some(Called::Woken) => Notice::Called,
            Some(Called::Awake) if !is_urgent && !queues.is_late() => Notice::Left,
            Some(Called::Awake) => {
                self.call_others();
                Notice::Announced
            }
            Some(Called::Vacant) | None => {
                self.announce();
                Notice::Announced
            }
        }
    }

    fn offer(&self, take_up: impl FnOnce() -> bool + Send + 'static) {
        self.0.queues.offers.push(Box::new(take_up));
        self.pushed(false);
    }

    fn pulse(&self) {
        if self.0.queues.term().is_some() && self.0.queues.is_late() {
            self.announce_all();
        }
    }

    fn look(&self) -> bool {
        let queues = &self.0.queues;
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
        if let Some(post) = &self.0.queues.post {
            post.watch();
        }
    }

    /// From now on the attendant announces what it pushes, unless another shard watches.
    fn unwatch(&self) {
        let Some(post) = &self.0.queues.post else {
            return;
        };
        post.unwatch();
        if let Some(term) = post.awake()
            && !self.0.queues.is_empty()
        {
            self.depose(term);
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
