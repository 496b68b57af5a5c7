//! Rude clients: what each limit is good for.

use crate::limits::Limit;
use crate::requests::{HALF_A_BODY, HALF_A_HEAD, LARGE, Request, SLOW};
use crate::response::Response;
use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// Of a client that does not read, so that buffers on the way are full soon.
const SMALL_BUFFER: usize = 4_096;

/// The limits whose clients a load has, in turn.
const KINDS: [Limit; 5] = [
    Limit::Header,
    Limit::Body,
    Limit::Request,
    Limit::Write,
    Limit::Idle,
];

/// What a client sends at first that this limit is good for. Then it stays, and sends no more.
pub(crate) fn opening(limit: Limit) -> &'static [u8] {
    match limit {
        Limit::Header | Limit::Grace => HALF_A_HEAD,
        Limit::Body => HALF_A_BODY,
        Limit::Request => SLOW,
        Limit::Write => LARGE,
        Limit::Idle | Limit::Age => Request::Get.pieces().0,
    }
}

/// Connects a client that this limit is good for.
pub(crate) fn connect(address: SocketAddr, limit: Limit) -> io::Result<std::net::TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if limit == Limit::Write {
        socket.set_recv_buffer_size(SMALL_BUFFER)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.connect(&address.into())?;
    let mut stream: std::net::TcpStream = socket.into();
    stream.write_all(opening(limit))?;
    Ok(stream)
}

/// One that waits among the clients of a load.
pub(crate) struct Rude {
    pub(crate) stream: TcpStream,
    kind: usize,
    since_ns: u64,
    input: Vec<u8>,
}

impl Rude {
    /// The kinds come in turn.
    pub(crate) fn connect(address: SocketAddr, number: usize, now_ns: u64) -> io::Result<Self> {
        let kind = number % KINDS.len();
        let stream = connect(address, KINDS[kind])?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream),
            kind,
            since_ns: now_ns,
            input: Vec::new(),
        })
    }

    /// Another one in its place, of the next kind.
    pub(crate) fn next(&self, address: SocketAddr, now_ns: u64) -> io::Result<Self> {
        Self::connect(address, self.kind + 1, now_ns)
    }

    /// Whether it reads. One that does not cannot see that it is cut off.
    pub(crate) fn reads(&self) -> bool {
        KINDS[self.kind] != Limit::Write
    }

    /// Since when it is there.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Reads what is there. Returns whether it has been cut off.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return true,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return true,
            }
        }
        is_refused(&self.input)
    }
}

/// Whether a response says that something took too long.
pub(crate) fn is_refused(input: &[u8]) -> bool {
    matches!(Response::first_head(input), Ok(Some(response)) if response.status >= 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_no_refusal() {
        assert!(!is_refused(
            b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n"
        ));
        assert!(!is_refused(b"HTTP/1.1 504 Gat"));
        assert!(is_refused(b"HTTP/1.1 504 Gateway Timeout\r\n\r\n"));
        assert!(is_refused(
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\n\r\nno"
        ));
    }
}
