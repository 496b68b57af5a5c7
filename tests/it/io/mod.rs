//! Promise: the limits of a stream end at their times, are renewed by bytes and by nothing else,
//! and share one timer, which bytes do not move.

mod histories;
mod limits;
mod model;
mod scripted;
mod split;

use scripted::Scripted;
use std::io;
use std::time::Duration;
use wheelwork::io::{ElapsedLimit, Limits, TimeoutIo};
use wheelwork::testing;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The time of the test's clock.
fn elapsed() -> Duration {
    testing::clock().elapsed()
}

/// A stream whose other end the test plays.
fn scripted(limits: Limits) -> (TimeoutIo<Scripted>, Scripted) {
    let stream = Scripted::default();
    (TimeoutIo::new(stream.clone(), limits), stream)
}

/// The limit that an outcome is about, and when.
#[track_caller]
fn over<T: std::fmt::Debug>(outcome: io::Result<T>) -> (ElapsedLimit, Duration) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    assert!(!error.to_string().contains('\n'));
    (ElapsedLimit::of(&error).expect("a limit"), elapsed())
}
