//! A client that behaves: its connection, and the requests that wait for their responses.

use crate::requests::Request;
use crate::response::Response;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// When the last bytes of each request went that has no response yet.
    sent_ns: VecDeque<u64>,
    /// Of the last request, what has not been sent.
    rest: &'static [u8],
    /// The beginning of a response.
    input: Vec<u8>,
    is_open: bool,
}

/// What reads have brought.
#[derive(Default)]
pub(crate) struct Answers {
    /// When each was sent whose answer has come.
    pub(crate) sent_ns: Vec<u64>,
    /// Requests with another answer than they should have, or without one.
    pub(crate) failed: u64,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        // The rest of a request does not wait until its beginning has arrived.
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            sent_ns: VecDeque::new(),
            rest: &[],
            input: Vec::new(),
            is_open: true,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Requests without a response.
    pub(crate) fn waiting(&self) -> usize {
        self.sent_ns.len()
    }

    /// Sends a request, or its beginning. Returns whether there is a rest to send.
    pub(crate) fn send(&mut self, request: Request, now_ns: u64) -> bool {
        self.send_rest(now_ns);
        let (first, rest) = request.pieces();
        self.sent_ns.push_back(now_ns);
        self.write(first);
        self.rest = rest;
        !rest.is_empty()
    }

    pub(crate) fn send_rest(&mut self, now_ns: u64) {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return;
        }
        if let Some(last) = self.sent_ns.back_mut() {
            *last = now_ns;
        }
        self.write(rest);
    }

    /// A server that leaves so many requests unread is as good as gone.
    fn write(&mut self, bytes: &[u8]) {
        let written = self.stream.write(bytes);
        self.is_open &= written.is_ok_and(|count| count == bytes.len());
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self, buffer: &mut [u8], answers: &mut Answers) {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => break self.is_open = false,
                Ok(count) => {
                    self.take(&buffer[..count], answers);
                    // What comes later is another event.
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break self.is_open = false,
            }
        }
        if !self.is_open {
            answers.failed += self.sent_ns.len() as u64;
            self.sent_ns.clear();
        }
    }

    /// Takes in bytes of responses.
    fn take(&mut self, bytes: &[u8], answers: &mut Answers) {
        // Most often the bytes are one response, and there is nothing to keep.
        let mut kept = std::mem::take(&mut self.input);
        let mut left = match kept.is_empty() {
            true => bytes,
            false => {
                kept.extend_from_slice(bytes);
                &kept[..]
            }
        };
        while !left.is_empty() {
            match Response::first(left) {
                Ok(Some(response)) => {
                    left = &left[response.length..];
                    match (self.sent_ns.pop_front(), response.status) {
                        (Some(sent_ns), 200) => answers.sent_ns.push(sent_ns),
                        _ => answers.failed += 1,
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    self.is_open = false;
                    return;
                }
            }
        }
        self.input = left.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const LATE: &[u8] = b"HTTP/1.1 504 Gateway Timeout\r\n\r\n";

    /// A client, and what it is connected to.
    fn client() -> (Client, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has one");
        let client = Client::connect(address).expect("it listens");
        let (server, _) = listener.accept().expect("it has connected");
        (client, server)
    }

    fn taken(client: &mut Client, bytes: &[u8]) -> (Vec<u64>, u64) {
        let mut answers = Answers::default();
        client.take(bytes, &mut answers);
        (answers.sent_ns, answers.failed)
    }

    #[test]
    fn answers_may_come_in_pieces_and_together() {
        let (mut client, _server) = client();
        for now_ns in 1..=3 {
            assert!(!client.send(Request::Get, now_ns));
        }
        assert_eq!(taken(&mut client, &OK[..9]), (vec![], 0));
        let rest = [&OK[9..], OK, &OK[..1]].concat();
        assert_eq!(taken(&mut client, &rest), (vec![1, 2], 0));
        assert_eq!(taken(&mut client, &OK[1..]), (vec![3], 0));
        assert_eq!((client.waiting(), client.is_open()), (0, true));
    }

    #[test]
    fn a_request_in_two_pieces_counts_from_its_last_one() {
        let (mut client, mut server) = client();
        assert!(client.send(Request::PostInTwo, 1));
        // The rest goes first.
        assert!(!client.send(Request::Get, 5));
        let (first, rest) = Request::PostInTwo.pieces();
        let expected = [first, rest, Request::Get.pieces().0].concat();
        let mut received = vec![0; expected.len()];
        server.read_exact(&mut received).expect("all has come");
        assert_eq!(received, expected);
        assert_eq!(taken(&mut client, &[OK, OK].concat()), (vec![5, 5], 0));
    }

    #[test]
    fn other_answers_are_failures() {
        let (mut client, _server) = client();
        client.send(Request::Get, 1);
        client.send(Request::Get, 2);
        assert_eq!(taken(&mut client, &[LATE, OK].concat()), (vec![2], 1));
        assert_eq!(taken(&mut client, b"no response\r\n\r\n"), (vec![], 0));
        assert!(!client.is_open());
    }
}
