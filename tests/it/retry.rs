//! Promise: a retry runs attempts one after the other, with the policy's waits between them, until
//! one succeeds, none is left, or an error is not worth it. Dropped, it leaves nothing behind.

use crate::tasks::{MS, Task, armed, manual};
use std::cell::Cell;
use std::future::{pending, ready};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wheelwork::future::{retry, retry_if, sleep, timeout};
use wheelwork::{RetryPolicy, testing};

#[test]
fn attempts_come_after_the_policy_s_waits() {
    for key in 0..20 {
        let policy = RetryPolicy::new().attempts(4).key(key);
        testing::block_on(async {
            let clock = testing::clock();
            let mut begun = Vec::new();
            let outcome: Result<(), usize> = retry(policy, || {
                begun.push(clock.elapsed());
                let attempt = begun.len();
                async move {
                    sleep(7 * MS).await;
                    Err(attempt)
                }
            })
            .await;
            assert_eq!(outcome, Err(4), "the last error");
            // Each wait counts from the end of an attempt, and rounds up to a tick.
            for attempt in 1..4 {
                let wait = begun[attempt] - begun[attempt - 1] - 7 * MS;
                let told = policy.wait_after(attempt as u32).unwrap();
                assert!((told..=told + MS).contains(&wait), "{told:?}: {wait:?}");
            }
            assert_eq!(
                clock.elapsed(),
                begun[3] + 7 * MS,
                "it does not wait after the last"
            );
        });
    }
}

#[test]
fn the_first_success_ends_it() {
    testing::block_on(async {
        let mut attempts = 0;
        let outcome: Result<u32, ()> = retry(RetryPolicy::new(), || {
            attempts += 1;
            ready(if attempts == 3 { Ok(attempts) } else { Err(()) })
        })
        .await;
        assert_eq!((outcome, attempts), (Ok(3), 3));
    });
}

#[test]
fn a_success_at_once_costs_no_timer() {
    let (timers, _clock) = manual();
    let task = Task::new();
    let mut done = Box::pin(timers.retry(RetryPolicy::new(), || ready(Ok::<_, ()>(5))));
    assert_eq!(task.poll(&mut done), Poll::Ready(Ok(5)));
    let never = RetryPolicy::never();
    let mut failed = Box::pin(timers.retry(never, || ready(Err::<(), _>(5))));
    assert_eq!(task.poll(&mut failed), Poll::Ready(Err(5)));
    assert_eq!(armed(&timers), 0);
}

#[test]
fn an_error_that_is_not_worth_it_ends_it() {
    testing::block_on(async {
        let mut attempts = 0;
        let ask = || {
            attempts += 1;
            ready(Err::<(), _>(if attempts < 3 {
                "busy"
            } else {
                "forbidden"
            }))
        };
        let outcome = retry_if(RetryPolicy::new(), ask, |&error| error == "busy").await;
        assert_eq!((outcome, attempts), (Err("forbidden"), 3));
        let begun = testing::clock().elapsed();
        let forbidden = || ready(Err::<(), _>("forbidden"));
        let outcome = retry_if(RetryPolicy::new(), forbidden, |_| false).await;
        assert!(outcome.is_err() && testing::clock().elapsed() == begun);
    });
}

#[test]
fn the_error_is_dropped_before_the_wait() {
    let (timers, clock) = manual();
    let (task, held) = (Task::new(), Rc::new(()));
    let policy = RetryPolicy::new().attempts(2);
    let mut failing = Box::pin(timers.retry(policy, || ready(Err::<(), _>(held.clone()))));
    assert!(task.poll(&mut failing).is_pending());
    assert_eq!(Rc::strong_count(&held), 1);
    clock.advance(100 * MS);
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut failing).is_ready());
}

#[test]
fn one_that_is_dropped_leaves_no_timer() {
    let (timers, _clock) = manual();
    let task = Task::new();
    let mut failing = Box::pin(timers.retry(RetryPolicy::new(), || ready(Err::<(), _>(()))));
    assert!(task.poll(&mut failing).is_pending());
    assert_eq!(timers.handle().len(), 1);
    drop(failing);
    assert!(timers.handle().is_empty());
}

#[test]
fn an_attempt_that_hangs_is_ended_by_its_time_limit() {
    testing::block_on(async {
        let dropped = Rc::new(Cell::new(0));
        struct Attempt(Rc<Cell<u32>>);
        impl Drop for Attempt {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let policy = RetryPolicy::new().attempts(3);
        let outcome = retry(policy, || {
            let attempt = Attempt(dropped.clone());
            timeout(Duration::from_secs(1), async move {
                let _attempt = attempt;
                pending::<()>().await;
            })
        });
        assert!(outcome.await.is_err());
        assert_eq!(dropped.get(), 3);
        let elapsed = testing::clock().elapsed();
        assert!(elapsed >= Duration::from_millis(3_150) && elapsed <= Duration::from_millis(3_302));
    });
}

/// The future may go to another thread, if the attempts may.
#[test]
fn it_runs_under_a_runtime_of_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let policy = RetryPolicy::new().first(MS).attempts(3);
    let mut attempts = 0;
    let outcome = runtime.block_on(async {
        let task = tokio::spawn(retry(policy, move || {
            attempts += 1;
            async move {
                tokio::task::yield_now().await;
                if attempts == 3 { Ok(attempts) } else { Err(()) }
            }
        }));
        task.await.unwrap()
    });
    assert_eq!(outcome, Ok(3));
}
