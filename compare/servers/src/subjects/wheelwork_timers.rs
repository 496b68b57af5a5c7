//! All limits on wheelwork, as `examples/axum_server.rs` has them.

use super::Subject;
use crate::limits::Limits;
use crate::routes::routes;
use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::map_request;
use axum::{BoxError, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use wheelwork::future::Timers;
use wheelwork::io::{Limits as IoLimits, TimeoutIo};
use wheelwork::tower::{Graceful, IdleService, TimeoutLayer};

#[derive(Clone)]
pub(super) struct WheelworkTimers(Timers);

impl WheelworkTimers {
    /// On the service that the whole program shares, as it comes.
    pub(super) fn new() -> Self {
        Self(Timers::current())
    }
}

/// A body whose chunks come in time, or which ends with an error.
fn limit_body(timers: &Timers, limit: Duration, body: Body) -> Body {
    let chunks = timers.stream_timeout(limit, body.into_data_stream());
    Body::from_stream(chunks.map(|chunk| -> Result<Bytes, BoxError> { Ok(chunk??) }))
}

impl Subject for WheelworkTimers {
    fn app(&self, limits: &Limits) -> Router {
        let (timers, limit) = (self.0.clone(), limits.body);
        let limit_bodies = map_request(move |request: Request| {
            let timers = timers.clone();
            async move { request.map(|body| limit_body(&timers, limit, body)) }
        });
        routes().layer(limit_bodies).layer((
            HandleErrorLayer::new(|_: BoxError| async { StatusCode::GATEWAY_TIMEOUT }),
            TimeoutLayer::on(&self.0, limits.request),
        ))
    }

    async fn serve(&self, stream: TcpStream, app: Router, limits: &Limits) {
        let timers = &self.0;
        let stream = TimeoutIo::on(timers, stream, IoLimits::new().write(limits.write));
        let (service, idle) = IdleService::on(timers, app, limits.idle);
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder
            .http1()
            .timer(timers.clone())
            .header_read_timeout(limits.header);
        let service = TowerToHyperService::new(service);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let served = Graceful::on(timers, connection, limits.grace, |connection| {
            connection.graceful_shutdown();
        });
        // Why it has ended is all the same.
        let _ = served.max_age(limits.age, limits.jitter()).when(idle).await;
    }

    fn armed(&self) -> Option<u64> {
        Some(self.0.handle().stats().timers.armed)
    }
}
