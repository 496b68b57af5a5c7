//! The attendant of a pool, and what is announced to other threads: src/dispatch/attendant.rs,
//! src/dispatch/announcements.rs. The queues are a count here, which orders nothing: what is in
//! them must be seen by the fences.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::internals::loom::{Announcements, Fault, Post, Term};
use wheelwork_loom_tests::{Held, explore, must_fail};

/// A pool: work in its queues, and what others were told.
struct Pool {
    post: Post,
    waiting: AtomicUsize,
    told: Announcements,
}

impl Pool {
    fn new() -> Held<Arc<Self>> {
        Held::new(Arc::new(Self {
            post: Post::new(),
            waiting: AtomicUsize::new(0),
            told: Announcements::new(),
        }))
    }

    fn push(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// What a thread does that looks for no attendant.
    fn announce(&self) {
        self.push();
        self.told.note();
    }

    /// What a shard does with a job.
    fn submit(&self) {
        self.push();
        self.call();
    }

    fn call(&self) {
        if self.post.call() {
            self.told.note();
        }
    }

    /// What the attendant does that has pushed work.
    fn keep(&self, term: Term) {
        self.push();
        if !self.post.attends(term) {
            self.call();
        } else if !self.post.may_leave(term) {
            self.announce_all();
        }
    }

    /// What a shard does that looks after what it has submitted, if it is late.
    fn look(&self) {
        if self.post.depose() {
            self.announce_all();
        }
    }

    fn announce_all(&self) {
        (0..self.unannounced()).for_each(|_| self.told.note());
    }

    /// What a thread does that hears an announcement. There is work.
    fn hear(&self) {
        self.told.hear(
            || self.waiting.fetch_sub(1, Ordering::Relaxed) > 0,
            || self.waiting.load(Ordering::Relaxed),
        );
    }

    fn unannounced(&self) -> u64 {
        self.told.missing(|| self.waiting.load(Ordering::Relaxed))
    }

    /// All threads have ended, and so has the attendant's term.
    fn nothing_is_left(&self) {
        assert_eq!(self.unannounced(), 0, "work is left to nobody");
    }

    /// What a shard does that looks no more.
    fn look_for_the_last_time(&self) {
        self.post.unwatch();
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.look();
        }
    }

    fn take_all(&self) -> usize {
        self.waiting.swap(0, Ordering::Relaxed)
    }
}

/// Takes a piece of work, if there is one.
fn take_one(waiting: &AtomicUsize) -> bool {
    let less = |waiting: usize| waiting.checked_sub(1);
    waiting
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}

/// An attendant that sleeps until it has all, while each of the threads submits a job.
fn call_against_sleep(shards: usize) {
    let attendant = thread::spawn(move || {
        let pool = Pool::new();
        let term = pool.post.begin().expect("nobody attends");
        let submit = |_| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit())
        };
        let others: Vec<_> = (0..shards).map(submit).collect();
        let mut got = 0;
        while got < shards
            && pool.post.sleep(term, Duration::MAX, || {
                pool.waiting.load(Ordering::Relaxed) > 0
            })
        {
            got += pool.take_all();
        }
        (pool, others)
    });
    let (pool, others) = attendant.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    pool.nothing_is_left();
}

fn one_call() {
    call_against_sleep(1);
}

fn two_calls() {
    call_against_sleep(2);
}

/// Its time is over just when it is called.
fn call_against_leave() {
    let attendant = thread::spawn(|| {
        let pool = Pool::new();
        let term = pool.post.begin().expect("nobody attends");
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.submit())
        };
        let is_called = pool.post.sleep(term, Duration::ZERO, || {
            pool.waiting.load(Ordering::Relaxed) > 0
        });
        if is_called {
            pool.take_all();
        }
        (pool, other)
    });
    let (pool, other) = attendant.join().unwrap();
    other.join().unwrap();
    pool.nothing_is_left();
}

/// An attendant that is held up once it has begun, and has left itself something or not, while one
/// shard submits a job and another one looks.
fn call_and_depose(leaves: bool, submits: bool) {
    let attendant = thread::spawn(move || {
        let pool = Pool::new();
        pool.post.watch();
        let term = pool.post.begin().expect("nobody attends");
        let shard = |act: fn(&Pool)| {
            let pool = pool.clone();
            thread::spawn(move || act(&pool))
        };
        let mut others = vec![shard(Pool::look)];
        if submits {
            others.push(shard(Pool::submit));
        }
        if leaves {
            pool.keep(term);
        }
        (pool, others)
    });
    let (pool, others) = attendant.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    // Who left something looks again.
    pool.look();
    pool.nothing_is_left();
}

fn leave_against_depose() {
    call_and_depose(true, false);
}

/// An attendant that is held up once it has left itself something, while the only shard that looks
/// does so for the last time.
fn leave_against_unwatch() {
    let attendant = thread::spawn(|| {
        let pool = Pool::new();
        pool.post.watch();
        let term = pool.post.begin().expect("nobody attends");
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.look_for_the_last_time())
        };
        pool.keep(term);
        (pool, other)
    });
    let (pool, other) = attendant.join().unwrap();
    other.join().unwrap();
    pool.nothing_is_left();
}

/// Two services share the pool. Both end, each with a look for the last time, while an attendant is
/// held up once it has left itself something.
fn leave_against_two_ends() {
    let attendant = thread::spawn(|| {
        let pool = Pool::new();
        let shard = |_| {
            pool.post.watch();
            let pool = pool.clone();
            thread::spawn(move || pool.look_for_the_last_time())
        };
        let term = pool.post.begin().expect("nobody attends");
        let others: Vec<_> = (0..2).map(shard).collect();
        pool.keep(term);
        (pool, others)
    });
    let (pool, others) = attendant.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    pool.nothing_is_left();
}

/// Two services share the pool. One has left the attendant a job and ends, while the other one
/// submits a job, and ends too.
fn end_against_call() {
    let attendant = thread::spawn(|| {
        let pool = Pool::new();
        let _term = pool.post.begin().expect("nobody attends");
        let submit_and_end = |_| {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.post.watch();
                pool.submit();
                pool.look_for_the_last_time();
            })
        };
        let others: Vec<_> = (0..2).map(submit_and_end).collect();
        (pool, others)
    });
    let (pool, others) = attendant.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    pool.nothing_is_left();
}

/// An attendant that is held up: something is left to it, and something else is announced. A shard
/// counts what is to be announced, while others act.
fn count_against(acts: &'static [fn(&Pool)]) {
    let attendant = thread::spawn(move || {
        let pool = Pool::new();
        pool.announce();
        pool.post.begin().expect("nobody attends");
        pool.push();
        let other = |act: fn(&Pool)| {
            let pool = pool.clone();
            thread::spawn(move || act(&pool))
        };
        let mut others = vec![other(Pool::look)];
        others.extend(acts.iter().map(|&act| other(act)));
        (pool, others)
    });
    let (pool, others) = attendant.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
    pool.nothing_is_left();
}

/// A user's pool, with jobs and offers. There is an offer, which was announced. Two threads hear
/// announcements: one looks for jobs first, the other for offers; meanwhile a job comes.
fn hear_in_vain() {
    struct Two {
        jobs: AtomicUsize,
        offers: AtomicUsize,
        told: Announcements,
    }

    impl Two {
        fn waiting(&self) -> usize {
            self.jobs.load(Ordering::Relaxed) + self.offers.load(Ordering::Relaxed)
        }

        fn hear(&self, first: &AtomicUsize, then: &AtomicUsize) {
            self.told
                .hear(|| take_one(first) || take_one(then), || self.waiting());
        }
    }

    let pool = Held::new(Arc::new(Two {
        jobs: AtomicUsize::new(0),
        offers: AtomicUsize::new(1),
        told: Announcements::new(),
    }));
    pool.told.note();
    let jobs_first = {
        let pool = pool.clone();
        thread::spawn(move || pool.hear(&pool.jobs, &pool.offers))
    };
    let offers_first = {
        let pool = pool.clone();
        thread::spawn(move || {
            pool.jobs.fetch_add(1, Ordering::Relaxed);
            pool.told.note();
            pool.hear(&pool.offers, &pool.jobs);
        })
    };
    jobs_first.join().unwrap();
    offers_first.join().unwrap();
    let left = pool.told.missing(|| pool.waiting());
    assert_eq!(left, 0, "work is left to nobody");
}

fn count_against_hear() {
    count_against(&[Pool::hear]);
}

fn count_against_announce() {
    count_against(&[Pool::announce]);
}

fn count_against_hear_and_submit() {
    count_against(&[Pool::hear, Pool::submit]);
}

fn call_against_depose() {
    call_and_depose(false, true);
}

fn leave_and_call_against_depose() {
    call_and_depose(true, true);
}

#[test]
fn no_call_is_lost() {
    explore(None, one_call);
}

#[test]
fn no_call_of_two_is_lost() {
    explore(Some(3), two_calls);
}

#[test]
fn a_call_comes_before_its_end_or_finds_it_gone() {
    explore(None, call_against_leave);
}

#[test]
fn what_it_leaves_to_itself_is_told_when_it_is_deposed() {
    explore(None, leave_against_depose);
}

#[test]
fn or_when_nobody_looks_any_more() {
    explore(None, leave_against_unwatch);
}

#[test]
fn or_when_both_of_two_services_have_ended() {
    explore(Some(3), leave_against_two_ends);
}

#[test]
fn a_service_that_ends_leaves_nothing_to_it() {
    explore(Some(3), end_against_call);
}

#[test]
fn and_so_is_what_a_shard_left_to_it() {
    explore(None, call_against_depose);
}

#[test]
fn and_both() {
    explore(Some(3), leave_and_call_against_depose);
}

#[test]
fn what_is_heard_meanwhile_is_not_counted_on() {
    explore(None, count_against_hear);
}

#[test]
fn what_is_announced_meanwhile_is_not_counted_on() {
    explore(None, count_against_announce);
}

#[test]
fn and_neither_is_counted_on_with_a_job_that_is_submitted() {
    explore(Some(3), count_against_hear_and_submit);
}

#[test]
fn what_comes_where_a_thread_has_looked_is_taken() {
    explore(None, hear_in_vain);
}

#[test]
fn broken_fence_of_a_call() {
    must_fail(
        Fault::AttendantCalledWithoutFence,
        "deadlock",
        None,
        one_call,
    );
}

#[test]
fn broken_fence_before_a_sleep() {
    must_fail(
        Fault::AttendantSleepsWithoutFence,
        "deadlock",
        None,
        one_call,
    );
}

#[test]
fn broken_look_before_a_sleep() {
    must_fail(Fault::AttendantSleepsBlindly, "deadlock", None, one_call);
}

#[test]
fn broken_end_of_a_term() {
    must_fail(
        Fault::AttendantLeavesBlindly,
        "left to nobody",
        None,
        call_against_leave,
    );
}

#[test]
fn broken_fence_of_what_leaves_to_itself() {
    must_fail(
        Fault::AttendantLeavesWithoutFence,
        "left to nobody",
        None,
        leave_against_depose,
    );
}

#[test]
fn broken_fence_of_whoever_deposes() {
    must_fail(
        Fault::DeposedWithoutFence,
        "left to nobody",
        None,
        call_against_depose,
    );
}

#[test]
fn broken_fence_of_whoever_looks_no_more() {
    must_fail(
        Fault::UnwatchedWithoutFence,
        "left to nobody",
        None,
        leave_against_unwatch,
    );
}

#[test]
fn broken_fence_of_the_last_of_two_services() {
    must_fail(
        Fault::UnwatchedWithoutFence,
        "left to nobody",
        Some(3),
        leave_against_two_ends,
    );
}

#[test]
fn broken_fence_of_whoever_deposes_for_two_services() {
    must_fail(
        Fault::DeposedWithoutFence,
        "left to nobody",
        Some(3),
        end_against_call,
    );
}

#[test]
fn broken_order_of_an_announcement() {
    must_fail(
        Fault::AnnouncedRelaxed,
        "left to nobody",
        None,
        count_against_announce,
    );
}

#[test]
fn broken_place_of_the_first_count() {
    must_fail(
        Fault::MadeCountedLate,
        "left to nobody",
        None,
        count_against_announce,
    );
}

#[test]
fn broken_place_of_the_last_count() {
    must_fail(
        Fault::HeardCountedEarly,
        "left to nobody",
        None,
        count_against_hear,
    );
}

#[test]
fn broken_place_where_it_is_heard() {
    must_fail(Fault::HeardLate, "left to nobody", None, count_against_hear);
}

#[test]
fn broken_fence_of_whoever_hears() {
    must_fail(
        Fault::HeardUnfenced,
        "left to nobody",
        None,
        count_against_hear,
    );
}

#[test]
fn broken_fence_of_whoever_counts() {
    must_fail(
        Fault::CountedUnfenced,
        "left to nobody",
        None,
        count_against_hear,
    );
}

#[test]
fn broken_look_of_whoever_hears_in_vain() {
    must_fail(Fault::HeardInVain, "left to nobody", None, hear_in_vain);
}

#[test]
fn broken_fence_of_whoever_hears_in_vain() {
    must_fail(
        Fault::HeardInVainUnfenced,
        "left to nobody",
        None,
        hear_in_vain,
    );
}
