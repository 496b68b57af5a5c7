//! Time limits of servers of hyper.

use super::{MS, SECOND, setup, until};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::rt::{self, Timer as _};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use wheelwork::future::{Sleep, Timers};

async fn answer(_: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}

fn poll(sleep: &mut Pin<Box<dyn rt::Sleep>>) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_sleep_is_moved_and_not_made_anew() {
    let (clock, timers) = setup();
    let timer: &dyn rt::Timer = &timers;
    assert_eq!(timer.now(), clock.now());
    let start = clock.now();
    let mut sleep = timer.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending());
    for seconds in 1..=100 {
        clock.advance(SECOND / 2);
        timer.reset(&mut sleep, clock.now() + SECOND);
        assert!(poll(&mut sleep).is_pending(), "after {seconds} moves");
    }
    let counts = timers.handle().stats().timers;
    assert_eq!((counts.armed, counts.rearmed, counts.fired), (1, 100, 0));
    assert!(sleep.is::<Sleep>());
    // Into the past, and to an earlier time.
    timer.reset(&mut sleep, start);
    assert!(poll(&mut sleep).is_ready());
    timer.reset(&mut sleep, clock.now() + SECOND);
    assert!(poll(&mut sleep).is_pending());
    timer.reset(&mut sleep, clock.now() + SECOND / 2);
    clock.advance(SECOND / 2 - MS);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(MS);
    assert!(poll(&mut sleep).is_ready());
    assert!(timers.handle().is_empty());
}

/// A sleep of another library.
struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl rt::Sleep for Never {}

#[test]
fn a_sleep_of_another_library_is_replaced() {
    let (clock, timers) = setup();
    let mut sleep: Pin<Box<dyn rt::Sleep>> = Box::pin(Never);
    timers.reset(&mut sleep, clock.now() + SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn hypers_sleeps_go_to_any_thread() {
    fn goes<T: Send + Sync + Unpin + 'static>() {}
    goes::<Sleep>();
    goes::<Timers>();
    let (_, timers) = setup();
    let _: Instant = timers.now();
}

/// Reads the head of an answer.
async fn read_head(client: &mut DuplexStream) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        assert_ne!(client.read_buf(&mut read).await.unwrap(), 0, "{read:?}");
    }
    read
}

#[tokio::test]
async fn a_head_that_comes_slowly_has_its_time_and_no_more() {
    let (clock, timers) = setup();
    let (mut client, server) = duplex(1 << 16);
    let mut builder = http1::Builder::new();
    builder
        .timer(timers.clone())
        .header_read_timeout(10 * SECOND);
    let server = tokio::spawn(builder.serve_connection(TokioIo::new(server), service_fn(answer)));

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // A moment before the limit is in time, whatever the client sent before.
    for _ in 0..3 {
        until(|| timers.handle().len() == 1).await;
        client.write_all(&HEAD[..20]).await.unwrap();
        clock.advance(10 * SECOND - MS);
        client.write_all(&HEAD[20..]).await.unwrap();
        let answer = read_head(&mut client).await;
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{answer:?}");
    }
    // Bytes that drip in do not give it more time.
    until(|| timers.handle().len() == 1).await;
    for byte in HEAD.chunks(1).take(10) {
        client.write_all(byte).await.unwrap();
        clock.advance(SECOND - MS / 10);
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished());
    clock.advance(MS);
    let error = server.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(timers.handle().is_empty());
}

/// The bytes of a frame of HTTP/2 without flags, on stream 0.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 0];
    frame.extend_from_slice(payload);
    frame
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;

/// Reads frames until one of this kind comes which is no acknowledgement. Its payload.
async fn read_frame(client: &mut DuplexStream, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        client.read_exact(&mut payload).await.unwrap();
        if head[3] == kind && head[4] & ACK == 0 {
            return payload;
        }
    }
}

#[tokio::test]
async fn an_http2_client_that_does_not_answer_pings_is_closed() {
    let (clock, timers) = setup();
    let (mut client, server) = duplex(1 << 16);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(timers.clone());
    builder
        .keep_alive_interval(20 * SECOND)
        .keep_alive_timeout(5 * SECOND);
    let server = tokio::spawn(builder.serve_connection(TokioIo::new(server), service_fn(answer)));

    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    client.write_all(&frame(SETTINGS, &[])).await.unwrap();
    read_frame(&mut client, SETTINGS).await;
    // It answers three times, and then no more.
    for _ in 0..3 {
        until(|| timers.handle().len() == 1).await;
        clock.advance(20 * SECOND);
        let ping = read_frame(&mut client, PING).await;
        let mut pong = frame(PING, &ping);
        pong[4] = ACK;
        clock.advance(5 * SECOND - MS);
        let before = timers.handle().stats().timers;
        client.write_all(&pong).await.unwrap();
        // The limit for the answer becomes one for the next ping: its timer is moved.
        until(|| timers.handle().stats().timers.rearmed > before.rearmed).await;
        assert_eq!(timers.handle().stats().timers.armed, before.armed);
    }
    until(|| timers.handle().len() == 1).await;
    clock.advance(20 * SECOND);
    read_frame(&mut client, PING).await;
    until(|| timers.handle().len() == 1).await;
    clock.advance(5 * SECOND - MS);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished());
    clock.advance(MS);
    let error = server.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(timers.handle().is_empty());
}
