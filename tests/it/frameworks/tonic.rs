//! Servers and clients of tonic, on hyper's connections: a call has the shorter of the client's and
//! the server's time, a stream keeps its connection, and connecting has a limit.

use super::{SECOND, setup, until};
use bytes::{Buf, BufMut};
use futures_lite::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::http::uri::PathAndQuery;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::server::{self, NamedService, ServerStreamingService};
use tonic::service::Routes;
use tonic::{Code, Response, Status};
use tower_layer::Layer;
use tower_service::Service;
use wheelwork::ManualClock;
use wheelwork::future::{Elapsed, Timers};
use wheelwork::tower::{Graceful, IdleService, TimeoutLayer};

/// Messages are numbers.
#[derive(Default)]
struct Number;

impl Codec for Number {
    type Encode = u64;
    type Decode = u64;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Number {
    type Item = u64;
    type Error = Status;

    fn encode(&mut self, number: u64, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_u64(number);
        Ok(())
    }
}

impl Decoder for Number {
    type Item = u64;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<u64>, Status> {
        Ok(Some(buffer.get_u64()))
    }
}

/// A call begins its answer after so many seconds as it asks for. Then come five numbers, one each
/// 40 s.
#[derive(Clone)]
struct Numbers(Timers);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answers = Pin<Box<dyn Stream<Item = Result<u64, Status>> + Send>>;

impl ServerStreamingService<u64> for Numbers {
    type Response = u64;
    type ResponseStream = Answers;
    type Future = Boxed<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: tonic::Request<u64>) -> Self::Future {
        let timers = self.0.clone();
        Box::pin(async move {
            let wait = Duration::from_secs(request.into_inner());
            if wait > Duration::ZERO {
                timers.sleep(wait).await;
            }
            let answers = stream::iter(0..5).then(move |number| {
                let sleep = timers.sleep(40 * SECOND);
                async move {
                    sleep.await;
                    Ok(number)
                }
            });
            Ok(Response::new(answers.boxed()))
        })
    }
}

impl NamedService for Numbers {
    const NAME: &'static str = "test.Numbers";
}

impl Service<Request<Body>> for Numbers {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let numbers = self.clone();
        Box::pin(async move {
            Ok(server::Grpc::new(Number)
                .server_streaming(numbers, request)
                .await)
        })
    }
}

/// The time that a client gives a call. A test's are in seconds, or shorter.
fn client_limit(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let micros = value.strip_suffix('u')?.parse().ok()?;
    Some(Duration::from_micros(micros))
}

/// A connection of a server whose calls may take 30 s. It closes when it is idle for 60 s.
async fn serve(stream: TcpStream, timers: Timers) -> Result<hyper::Result<()>, Elapsed> {
    let routes = Routes::new(Numbers(timers.clone())).prepare();
    let (calls, idle) = IdleService::on(&timers, routes, 60 * SECOND);
    let call_timers = timers.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let limit = client_limit(request.headers()).map_or(30 * SECOND, |l| l.min(30 * SECOND));
        let busy = calls.keep_busy();
        let call = call_timers.timeout(limit, calls.clone().call(request));
        async move {
            let response = match call.await {
                Ok(response) => response?,
                Err(elapsed) => Status::deadline_exceeded(elapsed.to_string()).into_http(),
            };
            Ok::<_, Infallible>(response.map(|body| {
                body.map_frame(move |frame| {
                    let _ = &busy;
                    frame
                })
            }))
        }
    });
    let connection =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
    let served = Graceful::on(&timers, connection, 10 * SECOND, |connection| {
        connection.graceful_shutdown();
    });
    served.when(idle).await
}

type Server = JoinHandle<Result<hyper::Result<()>, Elapsed>>;

/// A server of one connection, and a client.
async fn connect() -> (
    ManualClock,
    Timers,
    Grpc<Client<HttpConnector, Body>>,
    Server,
) {
    let (clock, timers) = setup();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server_timers = timers.clone();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, server_timers).await
    });
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    (
        clock,
        timers,
        Grpc::with_origin(client, origin.parse().unwrap()),
        server,
    )
}

/// A call. Its answer is begun after `seconds`.
async fn call<T: tonic::client::GrpcService<Body>>(
    mut client: Grpc<T>,
    seconds: u64,
    limit: Option<Duration>,
) -> Result<Streaming<u64>, Status>
where
    T::ResponseBody: hyper::body::Body<Data = bytes::Bytes> + Send + 'static,
    <T::ResponseBody as hyper::body::Body>::Error: Into<Box<dyn Error + Send + Sync>>,
    T::Error: std::fmt::Debug,
{
    let mut request = tonic::Request::new(seconds);
    if let Some(limit) = limit {
        request.set_timeout(limit);
    }
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Numbers/Count");
    let response = client.server_streaming(request, path, Number).await?;
    Ok(response.into_inner())
}

#[tokio::test]
async fn a_call_has_the_shorter_of_two_times() {
    let (clock, timers, client, _server) = connect().await;
    for (seconds, limit, ends_after, expected) in [
        (29, None, 29, Ok(())),
        (31, None, 30, Err(Code::DeadlineExceeded)),
        (31, Some(100 * SECOND), 30, Err(Code::DeadlineExceeded)),
        (10, Some(5 * SECOND), 5, Err(Code::DeadlineExceeded)),
        (10, Some(11 * SECOND), 10, Ok(())),
    ] {
        let answer = tokio::spawn(call(client.clone(), seconds, limit));
        // Of the connection, the call and its handler.
        until(|| timers.handle().len() == 3).await;
        clock.advance(ends_after * SECOND);
        let answer = answer.await.unwrap();
        assert_eq!(answer.map(drop).map_err(|status| status.code()), expected);
        until(|| timers.handle().len() == 1).await;
    }
}

#[tokio::test]
async fn a_stream_keeps_its_connection() {
    let (clock, timers, client, server) = connect().await;
    let mut answers = call(client, 0, None).await.unwrap();
    // The limit for idle time is over after 60 s, and the service is busy: one timer is the item's.
    for (number, timers_left) in [2, 2, 1, 1, 1].into_iter().enumerate() {
        until(|| timers.handle().len() == timers_left).await;
        clock.advance(40 * SECOND);
        assert_eq!(answers.message().await.unwrap(), Some(number as u64));
    }
    assert_eq!(answers.message().await.unwrap(), None);
    until(|| timers.handle().len() == 1).await;
    clock.advance(59 * SECOND);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished());
    clock.advance(SECOND);
    server.await.unwrap().unwrap().unwrap();
    until(|| timers.handle().is_empty()).await;
}

/// A connector whose connections never come.
#[derive(Clone)]
struct Never;

impl Service<Uri> for Never {
    type Response = TokioIo<TcpStream>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn connecting_has_a_limit() {
    let (clock, timers) = setup();
    let connector = TimeoutLayer::on(&timers, 5 * SECOND).layer(Never);
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build(connector);
    let client = Grpc::with_origin(client, Uri::from_static("http://localhost"));
    let answer = tokio::spawn(call(client, 0, None));
    until(|| timers.handle().len() == 1).await;
    clock.advance(5 * SECOND);
    let status = answer.await.unwrap().unwrap_err();
    let mut cause: &dyn Error = &status;
    while let Some(source) = cause.source() {
        cause = source;
    }
    assert!(cause.is::<Elapsed>(), "{status:?}");
}
