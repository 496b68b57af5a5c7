//! No limits: the floor.

use super::Subject;
use crate::limits::Limits;
use crate::routes::routes;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

#[derive(Clone)]
pub(super) struct NoLimits;

impl Subject for NoLimits {
    fn app(&self, _: &Limits) -> Router {
        routes()
    }

    async fn serve(&self, stream: TcpStream, app: Router, _: &Limits) {
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().header_read_timeout(None);
        let service = TowerToHyperService::new(app);
        // Why it has ended is all the same.
        let _ = builder
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }
}
