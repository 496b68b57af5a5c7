//! Time limits for services of `tower`: [`TimeoutLayer`] for each call, [`IdleService`] for a
//! connection on which nothing happens, [`Graceful`] for the age of a connection and for its end.
//!
//! Services of axum, tonic and others are services of tower. hyper takes such a service for a
//! connection, by hyper-util's `TowerToHyperService`. All three work under any runtime.
//!
//! A call that ends in time costs a [`schedule`](crate::ServiceHandle::schedule) and a
//! [`cancel`](crate::ServiceHandle::cancel), or nothing if it is ready at once. An idle limit costs
//! one timer for each connection, and no timer for a call. The age of a connection costs one more.
//!
//! # Example
//! ```
//! use std::task::{Context, Poll};
//! use std::time::Duration;
//! use tower_layer::Layer;
//! use tower_service::Service;
//! use wheelwork::future::{Elapsed, Sleep, sleep};
//! use wheelwork::testing;
//! use wheelwork::tower::TimeoutLayer;
//!
//! /// Answers after as many seconds as it is asked for.
//! struct Slow;
//!
//! impl Service<u64> for Slow {
//!     type Response = ();
//!     type Error = std::io::Error;
//!     type Future = std::pin::Pin<Box<dyn Future<Output = std::io::Result<()>>>>;
//!
//!     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
//!         Poll::Ready(Ok(()))
//!     }
//!
//!     fn call(&mut self, seconds: u64) -> Self::Future {
//!         Box::pin(async move { Ok(sleep(Duration::from_secs(seconds)).await) })
//!     }
//! }
//!
//! testing::block_on(async {
//!     let mut service = TimeoutLayer::new(Duration::from_secs(30)).layer(Slow);
//!     assert!(service.call(29).await.is_ok());
//!     let error = service.call(31).await.unwrap_err();
//!     assert!(error.is::<Elapsed>());
//! });
//! ```

mod graceful;
mod idle;
mod timeout;

pub use graceful::{Either, Graceful};
pub use idle::{Busy, Idle, IdleCall, IdleService};
pub use timeout::{TimeoutCall, TimeoutLayer, TimeoutService};
