//! The pool of hyper-util's client.

use super::{MS, SECOND, setup, until};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

async fn answer(_: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}

/// Serves the next connection that comes, in a task that is kept in `server`.
async fn accept(listener: &TcpListener, server: &mut Option<JoinHandle<hyper::Result<()>>>) {
    let io = TokioIo::new(listener.accept().await.unwrap().0);
    let connection = http1::Builder::new().serve_connection(io, service_fn(answer));
    *server = Some(tokio::spawn(connection));
}

#[tokio::test]
async fn the_pool_closes_a_connection_when_it_was_idle_for_its_time() {
    let (clock, timers) = setup();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .timer(timers.clone())
        .pool_timer(timers.clone())
        .pool_idle_timeout(60 * SECOND)
        .build_http();
    let get = || {
        let response = client.get(format!("http://{address}/").parse().unwrap());
        async { response.await.unwrap().into_body().collect().await.unwrap() }
    };
    let mut server = None;
    tokio::join!(get(), accept(&listener, &mut server));
    let server = server.unwrap();
    // The connection is used again: nobody accepts another one.
    for _ in 0..3 {
        until(|| timers.handle().len() == 1).await;
        clock.advance(60 * SECOND - MS);
        get().await;
    }
    assert!(!server.is_finished());
    // The pool looks once in each such time.
    while !server.is_finished() {
        clock.advance(SECOND);
        tokio::task::yield_now().await;
    }
    server.await.unwrap().unwrap();
    let mut server = None;
    tokio::join!(get(), accept(&listener, &mut server));
    assert!(!server.unwrap().is_finished());
}
