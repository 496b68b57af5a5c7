//! Retries of backon.

use super::{MS, SECOND};
use backon::{ExponentialBuilder, Retryable};
use std::cell::RefCell;
use wheelwork::future::Timers;
use wheelwork::testing;

#[test]
fn attempts_come_at_their_times() {
    testing::block_on(async {
        let times = RefCell::new(Vec::new());
        let ask = || async {
            times.borrow_mut().push(testing::clock().elapsed());
            Err::<(), _>("busy")
        };
        let twice_as_long = ExponentialBuilder::new()
            .with_min_delay(SECOND)
            .with_max_delay(60 * SECOND)
            .with_max_times(4);
        let timers = Timers::current();
        let outcome = ask.retry(twice_as_long).sleep(timers.clone()).await;
        assert_eq!(outcome, Err("busy"));
        let expected = [0, 1, 3, 7, 15].map(|seconds| seconds * SECOND);
        assert_eq!(*times.borrow(), expected);
        assert_eq!(timers.handle().stats().timers.fired, 4);
    });
}

#[test]
fn a_retry_that_is_dropped_leaves_no_timer() {
    testing::block_on(async {
        let timers = Timers::current();
        let busy = || async { Err::<(), _>("busy") };
        let retry = busy
            .retry(ExponentialBuilder::new().with_min_delay(SECOND))
            .sleep(timers.clone());
        let limit = SECOND / 2;
        assert!(timers.timeout(limit, retry).await.is_err());
        assert!(timers.handle().is_empty());
        assert!(testing::clock().elapsed() - limit < MS);
    });
}
