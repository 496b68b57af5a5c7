//! What a subject can do.

use crate::limits::Limits;
use axum::Router;
use std::future::Future;
use tokio::net::TcpStream;

/// A server of axum: its routes with the limits of requests and bodies, and its connections with
/// all others.
pub(crate) trait Subject: Clone + Send + Sync + 'static {
    fn app(&self, limits: &Limits) -> Router;

    /// Serves a connection, to its end.
    fn serve(
        &self,
        stream: TcpStream,
        app: Router,
        limits: &Limits,
    ) -> impl Future<Output = ()> + Send;

    /// Timers that were armed so far, if it counts them.
    fn armed(&self) -> Option<u64> {
        None
    }
}

/// What is done by any subject.
pub(crate) trait Work {
    fn by<S: Subject>(self, subject: S) -> Result<(), String>;
}
