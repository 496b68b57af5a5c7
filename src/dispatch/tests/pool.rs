//! Pool: jobs, offers, and who is called for them.

use super::*;
use crate::dispatch::queues::{HELP_EVERY, may_attend};
use crate::sync::{ThreadBuilder, pause};
use std::sync::mpsc;

/// What the one thread of a pool does, in order, when these jobs and offers wait for it: jobs,
/// offers that have nothing to do, and one offer that has.
fn order(jobs: usize, vain_offers: usize) -> Vec<&'static str> {
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("there is a thread");
    let pool = Pool::on(Threads::of(Arc::new(threads)));
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

/// A pool with this number of threads. One of them attends and sleeps.
fn attended(threads: usize) -> Pool {
    let (send, started) = mpsc::channel();
    let spawn = move |thread: rayon::ThreadBuilder| {
        let index = thread.index();
        let run = || {
            may_attend();
            thread.run();
        };
        send.send((index, ThreadBuilder::new().spawn(run)?.thread().clone()))
            .unwrap();
        Ok(())
    };
    let rayon = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .spawn_handler(spawn)
        .build()
        .unwrap();
    let mut started: Vec<_> = started.into_iter().collect();
    started.sort_unstable_by_key(|&(index, _)| index);
    let started = started.into_iter().map(|(_, thread)| thread).collect();
    let pool = Pool::on(Threads::attended(Arc::new(rayon), started));
    assert_eq!(
        pool.submit(false, || ()),
        Notice::Announced,
        "nobody attends"
    );
    pool
}

/// Waits until the attendant sleeps. It does not leave by itself.
fn wait_until_it_sleeps(pool: &Pool) {
    while !pool.queues().post.as_ref().unwrap().is_asleep() {
        pause();
    }
}

/// Submits a job when the attendant sleeps, which is called.
fn call(pool: &Pool, job: impl FnOnce() + Send + 'static) {
    wait_until_it_sleeps(pool);
    assert_eq!(pool.submit(false, job), Notice::Called);
}

#[test]
fn work_left_to_a_thread_that_is_held_up_is_announced() {
    let pool = attended(2);
    for _ in 0..3 {
        let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
        call(&pool, move || _ = gate.recv());
        let others = [1, 2, 3].map(|number| {
            let done = done.clone();
            pool.submit(false, move || done.send(number).unwrap())
        });
        assert!(!others.contains(&Notice::Called), "it is at work");
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
fn work_that_nobody_looks_after_is_announced() {
    let pool = attended(3);
    let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
    let own = pool.clone();
    wait_until_it_sleeps(&pool);
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
    wait_until_it_sleeps(&pool);
    // The attendant has one half, the other thread waits for it, and hears an announcement
    // there.
    let ((has_begun, begun), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let ((done, all), (has_stolen, stolen)) = (mpsc::channel(), mpsc::channel());
    let announcing = pool.clone();
    pool.0.threads.rayon.spawn(move || {
        let waits = rayon::current_thread_index();
        rayon::join(
            move || {
                announcing.submit(false, || ());
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
    while !pool.queues().is_late() {
        pause();
    }
    let queues = pool.queues();
    assert!(pool.depose(queues.post.as_ref().unwrap()));
    pool.announce();
    for _ in 0..200 {
        pause();
        let attends = queues.post.as_ref().unwrap().attendant();
        assert_ne!(
            attends,
            Some(waits),
            "it would not see that the other half is done"
        );
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
    while !pool.queues().is_late() {
        pause();
    }
    // It is deposed, and the other one attends.
    assert_eq!(pool.submit(false, || ()), Notice::Announced);
    let (open_next, gate_next) = mpsc::channel::<()>();
    call(&pool, move || _ = gate_next.recv());
    drop(open);
    // Also when the old one has noticed that its term is over.
    for _ in 0..200 {
        pause();
    }
    while !pool.queues().is_late() {
        pause();
    }
    drop(open_next);
}

/// To rayon one that sleeps in its post is at work.
#[test]
fn one_whose_term_is_over_calls_the_next_one() {
    let pool = attended(2);
    let ((open, gate), (done, all)) = (mpsc::channel::<()>(), mpsc::channel());
    let own = pool.clone();
    call(&pool, move || {
        done.send(u64::from(own.queues().term().is_some())).unwrap();
        _ = gate.recv();
        // Ordering: Relaxed. This thread alone calls.
        let calls = || own.woken().attendant.load(Ordering::Relaxed);
        own.announce();
        wait_until_it_sleeps(&own);
        let before = calls();
        own.spawn(|| ());
        done.send(calls() - before).unwrap();
    });
    assert_eq!(all.recv(), Ok(1), "it attends");
    assert!(pool.depose(pool.queues().post.as_ref().unwrap()));
    drop(open);
    assert_eq!(all.recv(), Ok(1), "it calls");
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
    let queues = Arc::downgrade(pool.queues());
    drop(pool);
    while queues.strong_count() > 0 {
        pause();
    }
}

#[test]
fn jobs_come_before_help() {
    assert_eq!(
        order(5, 2),
        [
            "job", "job", "job", "job", "job", "nothing", "nothing", "help"
        ]
    );
}

#[test]
fn help_comes_though_jobs_keep_coming() {
    let order = order(10 * HELP_EVERY, 100);
    let help = order
        .iter()
        .position(|&what| what == "help")
        .expect("it came");
    assert_eq!(
        order[..help].iter().filter(|&&what| what == "job").count(),
        HELP_EVERY - 2,
        "the gate was one"
    );
    assert_eq!(order.len(), 10 * HELP_EVERY + 101, "nothing is lost");
}
