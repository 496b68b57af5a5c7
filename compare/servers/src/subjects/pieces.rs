//! Pieces: a limit for the pieces of a request's body, on a timer of tokio.
//!
//! The body is asked first. Only one that waits has a timer: the first wait makes it, and each
//! further one moves it.

use axum::BoxError;
use axum::body::{Body, BodyDataStream, Bytes};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::Stream;

struct Pieces {
    body: BodyDataStream,
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

/// A body whose pieces come in time, or which ends with an error.
pub(super) fn limit_body(limit: Duration, body: Body) -> Body {
    Body::from_stream(Pieces {
        body: body.into_data_stream(),
        limit,
        sleep: None,
        waits: false,
    })
}

impl Stream for Pieces {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Poll::Ready(piece) = Pin::new(&mut this.body).poll_next(context) {
            this.waits = false;
            return Poll::Ready(piece.map(|piece| Ok(piece?)));
        }
        let limit = this.limit;
        let sleep = match &mut this.sleep {
            Some(sleep) => {
                if !this.waits {
                    sleep.as_mut().reset(Instant::now() + limit);
                }
                sleep
            }
            none => none.insert(Box::pin(sleep(limit))),
        };
        this.waits = true;
        sleep
            .as_mut()
            .poll(context)
            .map(|()| Some(Err("a piece of the body took too long".into())))
    }
}
