//! All limits on timers of tokio: those of requests and bodies by the layers of tower-http, the
//! others as `tokio_timers` has them.
//!
//! Both layers ask their timer before what they limit. So each request has a timer, and each piece
//! of a body, whether it waits or not.

use super::{Subject, tokio_timers};
use crate::limits::Limits;
use crate::routes::routes;
use axum::Router;
use axum::http::StatusCode;
use tokio::net::TcpStream;
use tower_http::timeout::{RequestBodyTimeoutLayer, TimeoutLayer};

#[derive(Clone)]
pub(super) struct TowerHttpLayers;

impl Subject for TowerHttpLayers {
    fn app(&self, limits: &Limits) -> Router {
        let of_requests =
            TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, limits.request);
        routes()
            .layer(RequestBodyTimeoutLayer::new(limits.body))
            .layer(of_requests)
    }

    async fn serve(&self, stream: TcpStream, app: Router, limits: &Limits) {
        tokio_timers::serve(stream, app, limits).await;
    }
}
