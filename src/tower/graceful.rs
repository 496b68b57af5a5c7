//! Graceful: ends a connection after some time: first politely, then for good.
//!
//! Owned by the task that serves the connection. One timer counts the age, and later the grace
//! time.

use crate::future::{Elapsed, Sleep, Timers};
use crate::spread::random;
use crate::time::{later, nanos};
use pin_project_lite::pin_project;
use std::fmt;
use std::future::{Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pin_project! {
    /// Serves a connection until it is too old, or until another event asks for its end. Then it is
    /// shut down gracefully, and dropped when a grace time is over.
    ///
    /// Connections live as long as their clients want. If each gets a maximum age, clients come to
    /// new servers of a fleet, and servers can be taken away. The grace time is what makes the age
    /// a limit: a graceful shutdown waits for the rest of what has begun, and so for clients that
    /// send half a head, a body byte by byte, or that never read.
    ///
    /// It gives what the connection gives, or [`Elapsed`] if the grace time is over. The connection
    /// is then dropped with it. There is one timer, which counts the age and then the grace time.
    ///
    /// # Example
    /// A connection of any kind, which needs a second to end:
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll};
    /// use std::time::Duration;
    /// use wheelwork::future::{Sleep, sleep};
    /// use wheelwork::testing;
    /// use wheelwork::tower::Graceful;
    ///
    /// struct Connection(Sleep);
    ///
    /// impl Future for Connection {
    ///     type Output = &'static str;
    ///
    ///     fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<&'static str> {
    ///         Pin::new(&mut self.0).poll(context).map(|()| "the end")
    ///     }
    /// }
    ///
    /// testing::block_on(async {
    ///     let hour = Duration::from_secs(3_600);
    ///     let shut_down = |mut connection: Pin<&mut Connection>| {
    ///         connection.0.reset(Duration::from_secs(1));
    ///     };
    ///     let connection = Connection(sleep(Duration::MAX));
    ///     let served = Graceful::new(connection, Duration::from_secs(10), shut_down)
    ///         .max_age(hour, Duration::ZERO);
    ///     assert_eq!(served.await, Ok("the end"));
    ///     assert_eq!(testing::clock().elapsed(), hour + Duration::from_secs(1));
    ///
    ///     let stubborn = Connection(sleep(Duration::MAX));
    ///     let served = Graceful::new(stubborn, Duration::from_secs(10), |_| ())
    ///         .max_age(hour, Duration::ZERO);
    ///     assert!(served.await.is_err());
    /// });
    /// ```
    #[must_use = "a future does nothing until it is polled"]
    pub struct Graceful<C, F, U = Pending<()>> {
        #[pin]
        connection: C,
        #[pin]
        until: U,
        // `None`: it has been called, and the sleep counts the grace time.
        shut_down: Option<F>,
        grace: Duration,
        timers: Timers,
        sleep: Option<Sleep>,
    }
}

impl<C: Future, F: FnOnce(Pin<&mut C>)> Graceful<C, F> {
    /// Serves `connection`. `shut_down` is called once, when it is time to end: for a connection of
    /// hyper it calls `graceful_shutdown`. From then on the connection has the time `grace`.
    ///
    /// The time is that of the shared service of [`future`](crate::future), or of the one that the
    /// thread has entered.
    ///
    /// # Panics
    /// As [`sleep`](crate::future::sleep()).
    pub fn new(connection: C, grace: Duration, shut_down: F) -> Self {
        Self::on(&Timers::current(), connection, grace, shut_down)
    }

    /// The same, with a service for timers of your own.
    pub fn on(timers: &Timers, connection: C, grace: Duration, shut_down: F) -> Self {
        Self {
            connection,
            until: pending(),
            shut_down: Some(shut_down),
            grace,
            timers: timers.clone(),
            sleep: None,
        }
    }
}

impl<C: Future, F: FnOnce(Pin<&mut C>), U> Graceful<C, F, U> {
    /// Shuts the connection down when it is that old, counted from this call.
    ///
    /// `jitter` spreads the ends of connections that began together: each gets a random age between
    /// `age` and that much less. A jitter longer than `age` counts as `age`.
    pub fn max_age(mut self, age: Duration, jitter: Duration) -> Self {
        let age = age.saturating_sub(part(jitter.min(age), random()));
        let now = self.timers.handle().now();
        self.sleep = Some(self.timers.sleep_until(later(now, age)));
        self
    }

    /// Shuts the connection down also when a future is ready: an [`Idle`](super::Idle), or the
    /// signal that the server ends. With several calls, the first of their futures that is ready
    /// counts.
    ///
    /// # Example
    /// A connection that ends when it is idle, and when the server ends. The guide has
    /// [one of hyper](crate::guide::futures#services-of-tower).
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::future::sleep;
    /// use wheelwork::testing;
    /// use wheelwork::tower::{Graceful, IdleService};
    ///
    /// testing::block_on(async {
    ///     let (_service, idle) = IdleService::new("any service", Duration::from_secs(60));
    ///     let end_of_server = sleep(Duration::from_secs(20));
    ///     let connection = sleep(Duration::MAX);
    ///     let served = Graceful::new(connection, Duration::ZERO, |mut connection| {
    ///         connection.reset(Duration::ZERO);
    ///     });
    ///     assert_eq!(served.when(idle).when(end_of_server).await, Ok(()));
    ///     assert_eq!(testing::clock().elapsed(), Duration::from_secs(20));
    /// });
    /// ```
    pub fn when<V: Future<Output = ()>>(self, until: V) -> Graceful<C, F, Either<U, V>> {
        Graceful {
            connection: self.connection,
            until: Either {
                first: self.until,
                second: until,
            },
            shut_down: self.shut_down,
            grace: self.grace,
            timers: self.timers,
            sleep: self.sleep,
        }
    }
}

pin_project! {
    /// Is ready when one of two futures is. [`Graceful::when`] makes one, of the events that it
    /// waits for.
    ///
    /// # Example
    /// See [`Graceful::when`].
    #[must_use = "a future does nothing until it is polled"]
    #[derive(Debug)]
    pub struct Either<U, V> {
        #[pin]
        first: U,
        #[pin]
        second: V,
    }
}

impl<U: Future<Output = ()>, V: Future<Output = ()>> Future for Either<U, V> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        match this.first.poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => this.second.poll(context),
        }
    }
}

/// The part of a time that `random` is of 2^64.
fn part(time: Duration, random: u64) -> Duration {
    let part = (u128::from(nanos(time)) * u128::from(random)) >> 64;
    Duration::from_nanos(part as u64)
}

impl<C, F, U> Future for Graceful<C, F, U>
where
    C: Future,
    F: FnOnce(Pin<&mut C>),
    U: Future<Output = ()>,
{
    type Output = Result<C::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Poll::Ready(output) = this.connection.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let is_time = match this.sleep {
                Some(sleep) => Pin::new(sleep).poll(context).is_ready(),
                None => false,
            };
            if this.shut_down.is_none() {
                return match is_time {
                    true => Poll::Ready(Err(Elapsed)),
                    false => Poll::Pending,
                };
            }
            if !is_time && this.until.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            match this.sleep {
                Some(sleep) => sleep.reset(*this.grace),
                None => *this.sleep = Some(this.timers.sleep(*this.grace)),
            }
            if let Some(shut_down) = this.shut_down.take() {
                shut_down(this.connection.as_mut());
            }
        }
    }
}

impl<C, F, U> fmt::Debug for Graceful<C, F, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graceful")
            .field("is_shut_down", &self.shut_down.is_none())
            .field("grace", &self.grace)
            .field("sleep", &self.sleep)
            .finish_non_exhaustive()
    }
}
