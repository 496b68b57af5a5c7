//! Check: whether each limit cuts off the clients that it is good for, and no other does.

use crate::limits::{Limit, Limits};
use crate::name::Name;
use crate::requests::Request;
use crate::response::Response;
use crate::rude::{connect, is_refused};
use crate::server::Server;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::program;

/// The limit that is looked at. The others are an hour.
const SHORT: Duration = Duration::from_millis(100);

/// Clients of each kind.
const CLIENTS: usize = 3;

/// Between two requests of a client that never goes.
const PAUSE: Duration = Duration::from_millis(5);

/// What is to be made sure of.
pub(crate) struct Wanted {
    pub(crate) subjects: Vec<Name>,
    pub(crate) limits: Vec<Limit>,
    /// A client that is still there then was not cut off.
    pub(crate) patience: Duration,
    /// A subject without limits must keep all clients. With this it must cut them off too, which
    /// shows that the check can fail.
    pub(crate) strict: bool,
}

/// Whether these limits of these subjects are in force. An error says which is not.
pub(crate) fn check(wanted: &Wanted) -> Result<(), String> {
    let Wanted {
        limits, patience, ..
    } = wanted;
    for &subject in &wanted.subjects {
        let name = program::name(&subject);
        let failed = |why| format!("{name}: {why}");
        let short = limits.iter().map(|&limit| Limits::only(limit, SHORT));
        let mut server = Server::start(subject, 1, short)?;
        if !subject.has_limits() && !wanted.strict {
            nobody_is_cut_off(&mut server, limits, *patience).map_err(failed)?;
            continue;
        }
        for (&limit, &address) in limits.iter().zip(&server.addresses.clone()) {
            let cuts = cuts_off(&mut server, address, limit, *patience);
            cuts.map_err(|why| failed(format!("the limit {}: {why}", program::name(&limit))))?;
        }
    }
    Ok(())
}

/// Clients of all kinds are still there when all limits would be over several times.
fn nobody_is_cut_off(
    server: &mut Server,
    limits: &[Limit],
    patience: Duration,
) -> Result<(), String> {
    let clients: Result<Vec<_>, _> = limits
        .iter()
        .zip(&server.addresses)
        .map(|(&limit, &address)| connect(address, limit))
        .collect();
    let clients = clients.map_err(|error| error.to_string())?;
    // All are there before the time counts.
    server.wait_until_open(clients.len(), clients.len(), patience)?;
    thread::sleep(SHORT * 3);
    match server.ask()?.open {
        open if open == clients.len() => Ok(()),
        open => Err(format!(
            "{open} of {} clients are left without limits",
            clients.len()
        )),
    }
}

/// Some clients that this limit is good for: each is cut off when its time is over.
fn cuts_off(
    server: &mut Server,
    address: SocketAddr,
    limit: Limit,
    patience: Duration,
) -> Result<(), String> {
    let taken = server.ask()?.taken + CLIENTS;
    let start = Instant::now();
    let clients: Result<Vec<_>, _> = (0..CLIENTS).map(|_| connect(address, limit)).collect();
    let mut clients = clients.map_err(|error| error.to_string())?;
    for client in &mut clients {
        let read_time = client.set_read_timeout(Some(patience));
        read_time.map_err(|error| error.to_string())?;
        match limit {
            // It sees nothing, for it does not read.
            Limit::Write => {}
            Limit::Age => asks_until_the_end(client, start, patience)?,
            _ => waits_for_the_end(client)?,
        }
        // The age is shortened by chance.
        if limit != Limit::Write && start.elapsed() < SHORT * 9 / 10 {
            return Err(format!("a client is cut off after {:?}", start.elapsed()));
        }
    }
    if limit == Limit::Write && !server.wait_until_open(0, taken, patience)? {
        return Err(NOT_CUT_OFF.to_string());
    }
    drop(clients);
    match server.wait_until_open(0, taken, patience)? {
        true => Ok(()),
        false => Err("a connection stays open without its client".to_string()),
    }
}

const NOT_CUT_OFF: &str = "a client is not cut off";

/// Reads until the connection ends, or a response says that something took too long.
fn waits_for_the_end(client: &mut TcpStream) -> Result<(), String> {
    let (mut input, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) => return ended(&error),
        }
        if is_refused(&input) {
            return Ok(());
        }
    }
}

/// Of an error of the stream: nothing came in time, or it was the end.
fn ended(error: &std::io::Error) -> Result<(), String> {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => Err(NOT_CUT_OFF.to_string()),
        _ => Ok(()),
    }
}

/// Asks again and again, until the connection ends.
fn asks_until_the_end(
    client: &mut TcpStream,
    start: Instant,
    patience: Duration,
) -> Result<(), String> {
    let (mut input, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        // Its opening was the first request.
        while Response::first(&input)?.is_none() {
            match client.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => input.extend_from_slice(&buffer[..count]),
                Err(error) => return ended(&error),
            }
        }
        input.clear();
        if start.elapsed() > patience {
            return Err(NOT_CUT_OFF.to_string());
        }
        thread::sleep(PAUSE);
        if client.write_all(Request::Get.pieces().0).is_err() {
            return Ok(());
        }
    }
}
