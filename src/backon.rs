//! Sleeps of backon: its trait, for the futures of this crate.

use crate::future::{Sleep, Timers};
use backon::Sleeper;
use std::time::Duration;

/// Sleeps between the attempts of backon's retries, with the feature `backon`.
///
/// # Example
/// ```
/// use backon::{ExponentialBuilder, Retryable};
/// use std::time::Duration;
/// use wheelwork::future::Timers;
/// use wheelwork::testing;
///
/// testing::block_on(async {
///     let mut answers = [Err("busy"), Err("busy"), Ok("done")].into_iter();
///     let ask = || std::future::ready(answers.next().unwrap());
///     let waits = ExponentialBuilder::new().with_min_delay(Duration::from_secs(20));
///     let answer = ask.retry(waits).sleep(Timers::current()).await;
///     assert_eq!(answer, Ok("done"));
///     assert_eq!(testing::clock().elapsed(), Duration::from_secs(20 + 40));
/// });
/// ```
impl Sleeper for Timers {
    type Sleep = Sleep;

    fn sleep(&self, delay: Duration) -> Sleep {
        self.sleep(delay)
    }
}
