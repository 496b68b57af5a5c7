//! All limits on timers of tokio, each in the cheapest form that we found.
//!
//! | limit | of |
//! |---|---|
//! | header | hyper, by `TokioTimer` |
//! | body | `Sleep`, made when a body waits |
//! | request | `tower::timeout` |
//! | write | `tokio_io_timeout` |
//! | idle | `Sleep`, moved when it fires and there were calls |
//! | age, grace | `Sleep`, which counts the one and then the other |

use super::Subject;
use super::calls::CountCalls;
use super::pieces::limit_body;
use crate::limits::Limits;
use crate::routes::routes;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::map_request;
use axum::{BoxError, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_io_timeout::TimeoutWriter;
use tower::timeout::TimeoutLayer;

#[derive(Clone)]
pub(super) struct TokioTimers;

impl Subject for TokioTimers {
    fn app(&self, limits: &Limits) -> Router {
        let limit = limits.body;
        let limit_bodies = map_request(move |request: Request| async move {
            request.map(|body| limit_body(limit, body))
        });
        routes().layer(limit_bodies).layer((
            HandleErrorLayer::new(|_: BoxError| async { StatusCode::GATEWAY_TIMEOUT }),
            TimeoutLayer::new(limits.request),
        ))
    }

    async fn serve(&self, stream: TcpStream, app: Router, limits: &Limits) {
        serve(stream, app, limits).await;
    }
}

/// Serves a connection, with all limits but those of the routes.
pub(super) async fn serve(stream: TcpStream, app: Router, limits: &Limits) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(limits.write));
    let (service, calls) = CountCalls::new(app);
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header);
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let age = limits.age - limits.jitter().mul_f64(fastrand::f64());
    let mut end = pin!(sleep(age));
    let mut idle = pin!(sleep(limits.idle));
    loop {
        tokio::select! {
            biased;
            // Why it has ended is all the same.
            _ = &mut connection => return,
            () = &mut end => break,
            () = &mut idle => {
                let idle_at = calls.idle_at(limits.idle);
                if idle_at <= Instant::now() {
                    break;
                }
                idle.as_mut().reset(idle_at);
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    end.as_mut().reset(Instant::now() + limits.grace);
    tokio::select! {
        biased;
        _ = &mut connection => {}
        () = &mut end => {}
    }
}
