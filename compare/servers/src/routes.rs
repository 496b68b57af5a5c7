//! Routes: what all servers do, with limits or without.

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::task::yield_now;

/// Bytes of a response that a client which does not read holds up.
const LARGE: usize = 1 << 24;

/// Each handler waits once, as one does that asks a database: a limit of requests then needs a
/// timer. It waits for its scheduler, so that this costs little, and the same in each server.
pub(crate) fn routes() -> Router {
    Router::new()
        .route("/", get(hello))
        .route("/echo", post(echo))
        .route("/slow", get(std::future::pending::<()>))
        .route(
            "/large",
            get(|| async { Bytes::from_static(&[b'x'; LARGE]) }),
        )
}

async fn hello() -> &'static str {
    yield_now().await;
    "hello\n"
}

async fn echo(body: Bytes) -> Bytes {
    yield_now().await;
    body
}
