//! Promise: a retry policy is the program's, and not the timer's. A timer that is stored goes by
//! the policy of the program that handles it now.
//!
//! What has happened by then stays: attempts are counted on, and a wait that has begun lasts.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::{Cause, Delivery, Durable, Memory, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A store, the clock, and the calls of its handlers: which attempt, and when.
#[derive(Default)]
struct Shop {
    clock: ManualClock,
    store: Memory,
    calls: Arc<Mutex<Vec<(u32, SystemTime)>>>,
}

impl Shop {
    /// A program with this policy, whose handler always fails.
    fn open(&self, policy: RetryPolicy) -> Durable {
        let (calls, clock) = (self.calls.clone(), self.clock.clone());
        Durable::builder(self.store.clone())
            .clock(self.clock.clone())
            .on("mail", move |mail: &Delivery| {
                let call = (mail.attempt(), clock.system_time());
                calls.lock().unwrap().push(call);
                Err("no server".into())
            })
            .retry_policy_for("mail", policy)
            .start()
            .unwrap()
    }

    fn attempts(&self) -> Vec<u32> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|(attempt, _)| *attempt).collect()
    }
}

/// A policy of this many attempts, with waits of between a half and the whole of `wait`.
fn policy(attempts: u32, wait: Duration) -> RetryPolicy {
    RetryPolicy::new().attempts(attempts).first(wait).cap(wait)
}

#[test]
fn more_attempts_are_those_of_the_program_that_runs() {
    let shop = Shop::default();
    let timers = shop.open(policy(3, HOUR));
    timers.schedule("mail", SECOND, "").unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    shop.clock.advance(SECOND + HOUR);
    assert_eq!(shop.attempts(), [1, 1, 2, 2]);
    drop(timers);
    let timers = shop.open(policy(5, HOUR));
    shop.clock.advance(10 * HOUR);
    assert_eq!(shop.attempts()[4..], [3, 3, 4, 4, 5, 5]);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!((dead.len(), dead[0].row.attempts), (2, 5));
}

#[test]
fn with_fewer_attempts_a_timer_that_has_had_them_gets_one_more() {
    let shop = Shop::default();
    let timers = shop.open(policy(9, HOUR));
    timers.schedule("mail", SECOND, "").unwrap();
    shop.clock.advance(SECOND + 3 * HOUR);
    let had = shop.attempts().len();
    assert!(had >= 4, "{had}");
    drop(timers);
    let timers = shop.open(policy(2, HOUR));
    shop.clock.advance(10 * HOUR);
    // It is not buried by a start: its handler may be another one by now.
    assert_eq!(shop.attempts().len(), had + 1);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!(dead[0].cause, Cause::Failed("no server".into()));
}

#[test]
fn a_wait_that_has_begun_lasts_and_the_next_one_is_new() {
    let shop = Shop::default();
    let timers = shop.open(policy(9, 24 * HOUR));
    let id = timers.schedule("mail", SECOND, "").unwrap();
    shop.clock.advance(SECOND);
    let next = timers.get(id).unwrap().unwrap().due;
    drop(timers);
    let timers = shop.open(policy(9, SECOND));
    assert_eq!(timers.get(id).unwrap().unwrap().due, next);
    shop.clock.advance(HOUR);
    assert_eq!(shop.attempts(), [1]);
    shop.clock.advance(24 * HOUR);
    // Eight of them were made within seconds.
    assert_eq!(shop.attempts(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let calls = shop.calls.lock().unwrap();
    assert_eq!(calls[1].1, next.system_time());
    let took = calls[8].1.duration_since(calls[1].1).unwrap();
    assert!(took <= 7 * SECOND, "{took:?}");
}

#[test]
fn what_is_dead_stays_dead() {
    let shop = Shop::default();
    let timers = shop.open(RetryPolicy::never());
    let id = timers.schedule("mail", SECOND, "").unwrap();
    shop.clock.advance(SECOND);
    drop(timers);
    let timers = shop.open(policy(3, SECOND));
    shop.clock.advance(HOUR);
    assert_eq!(shop.attempts(), [1]);
    assert!(timers.revive(id).unwrap());
    shop.clock.advance(HOUR);
    assert_eq!(shop.attempts(), [1, 1, 2, 3], "its attempts begin anew");
}
