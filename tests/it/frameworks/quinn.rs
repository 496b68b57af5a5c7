//! Connections of quinn.

use super::{MS, SECOND, setup};
use quinn::{
    ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig,
};
use std::net::UdpSocket;
use std::sync::Arc;
use wheelwork::future::Timers;
use wheelwork::quinn::Runtime;

/// The ends of a connection, which closes when nothing has come for 10 s; and their endpoints.
async fn connect(timers: &Timers) -> ([quinn::Connection; 2], [Endpoint; 2]) {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(10 * SECOND).unwrap()));
    let transport = Arc::new(transport);
    let mut of_server = quinn_plaintext::server_config();
    of_server.transport_config(transport.clone());
    let mut of_client = quinn_plaintext::client_config();
    of_client.transport_config(transport);
    let endpoint = |server| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let runtime = Arc::new(Runtime::new(timers, TokioRuntime));
        Endpoint::new(EndpointConfig::default(), server, socket, runtime).unwrap()
    };
    let (server, client) = (endpoint(Some(of_server)), endpoint(None));
    let address = server.local_addr().unwrap();
    let connect = async {
        let connecting = client.connect_with(of_client, address, "localhost");
        connecting.unwrap().await.unwrap()
    };
    let accept = async { server.accept().await.unwrap().await.unwrap() };
    let (at_client, at_server) = tokio::join!(connect, accept);
    ([at_client, at_server], [client, server])
}

/// Sends a message to the other side and back, on a stream of its own.
async fn exchange([client, server]: &[quinn::Connection; 2]) {
    let ask = async {
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(64).await.unwrap(), b"hello");
    };
    let answer = async {
        let (mut send, mut receive) = server.accept_bi().await.unwrap();
        let message = receive.read_to_end(64).await.unwrap();
        send.write_all(&message).await.unwrap();
        send.finish().unwrap();
    };
    tokio::join!(ask, answer);
}

#[tokio::test]
async fn a_connection_is_made_and_ends_when_it_is_idle() {
    let (clock, timers) = setup();
    let (ends, _endpoints) = connect(&timers).await;
    exchange(&ends).await;
    // Not while something comes now and then.
    for _ in 0..5 {
        clock.advance(9 * SECOND);
        exchange(&ends).await;
    }
    let [client, server] = ends;
    assert_eq!((client.close_reason(), server.close_reason()), (None, None));
    let start = clock.elapsed();
    let closed = tokio::spawn(async move { (client.closed().await, server.closed().await) });
    while !closed.is_finished() {
        clock.advance(100 * MS);
        tokio::task::yield_now().await;
    }
    let expected = (ConnectionError::TimedOut, ConnectionError::TimedOut);
    assert_eq!(closed.await.unwrap(), expected);
    assert!(clock.elapsed() - start >= 9 * SECOND);
}

#[test]
fn quinn_reads_the_time_of_the_clock() {
    let (clock, timers) = setup();
    let runtime = Runtime::new(&timers, TokioRuntime);
    for _ in 0..3 {
        assert_eq!(quinn::Runtime::now(&runtime), clock.now());
        clock.advance(SECOND);
    }
}

#[tokio::test]
async fn a_connection_moves_its_timer_and_makes_no_new_one() {
    let (_clock, timers) = setup();
    let (ends, endpoints) = connect(&timers).await;
    for _ in 0..100 {
        exchange(&ends).await;
    }
    let counts = timers.handle().stats().timers;
    assert!(timers.handle().len() <= 2, "one for each end");
    assert!(counts.rearmed > 100, "{counts:?}");
    assert!(counts.armed < counts.rearmed / 4, "{counts:?}");
    drop(ends);
    for endpoint in endpoints {
        endpoint.close(0_u32.into(), b"");
    }
}
