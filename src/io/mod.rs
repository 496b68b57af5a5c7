//! Time limits for streams of bytes, renewed by bytes: [`TimeoutIo`] wraps a connection, and limits
//! its reads, its writes, the time in which no bytes go either way, and its age.
//!
//! With the feature `tokio` a `TimeoutIo` has tokio's `AsyncRead` and `AsyncWrite`, and with the
//! feature `futures-io` those of `futures`, for streams that have them. An operation whose time is
//! over fails with [`TimedOut`](std::io::ErrorKind::TimedOut). [`ElapsedLimit`] says which limit it
//! was.
//!
//! # Example
//! An echo server that closes a connection on which nothing came for a minute, whose client does
//! not read for ten seconds, or that is an hour old:
//! ```
//! use std::io;
//! use std::time::Duration;
//! use tokio::io::{AsyncRead, AsyncWrite, copy, duplex, split};
//! use wheelwork::io::{ElapsedLimit, Limits, TimeoutIo};
//! use wheelwork::testing;
//!
//! async fn echo(stream: impl AsyncRead + AsyncWrite) -> io::Result<u64> {
//!     let limits = Limits::new()
//!         .read(Duration::from_secs(60))
//!         .write(Duration::from_secs(10))
//!         .max_age(Duration::from_secs(3_600));
//!     let (mut reader, mut writer) = split(TimeoutIo::new(stream, limits));
//!     copy(&mut reader, &mut writer).await
//! }
//!
//! testing::block_on(async {
//!     let (_client, server) = duplex(64);
//!     let error = echo(server).await.unwrap_err();
//!     assert_eq!(error.kind(), io::ErrorKind::TimedOut);
//!     assert_eq!(ElapsedLimit::of(&error), Some(ElapsedLimit::Read));
//!     assert_eq!(testing::clock().elapsed(), Duration::from_secs(60));
//! });
//! ```

#[cfg(feature = "futures-io")]
mod futures_io;
mod limits;
mod stream;
#[cfg(feature = "tokio")]
mod tokio;
mod wakers;
mod watch;

pub use limits::{ElapsedLimit, Limits};
pub use stream::TimeoutIo;
