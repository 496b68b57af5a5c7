//! Idlers: connections that have asked once, and are held open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The number that ask at a time: the server's queue of connections has room for them.
const AT_A_TIME: usize = 100;

/// Opens them all. Each has been answered, so that its idle time-out is armed.
pub(crate) fn open(port: u16, count: usize) -> Result<Vec<TcpStream>, String> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let first = all.len();
        for _ in first..count.min(first + AT_A_TIME) {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .and_then(|mut stream| stream.write_all(REQUEST).map(|()| stream));
            all.push(stream.map_err(|error| format!("connection {}: {error}", all.len()))?);
        }
        all[first..].iter().try_for_each(answered)?;
    }
    Ok(all)
}

/// Asks once more.
#[cfg(test)]
pub(crate) fn ask(mut stream: &TcpStream) -> Result<(), String> {
    stream
        .write_all(REQUEST)
        .map_err(|error| error.to_string())?;
    answered(stream)
}

/// Reads an answer.
fn answered(stream: &TcpStream) -> Result<(), String> {
    let status =
        read_answer(stream).map_err(|error| format!("a connection was not answered: {error}"))?;
    if status.contains(" 200 ") {
        Ok(())
    } else {
        Err(format!("a connection was answered {status:?}"))
    }
}

/// Reads an answer, and gives its first line.
fn read_answer(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut status, mut length) = (String::new(), 0);
    reader.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(status)
}
