//! A proxy between nodes and their database that can let a connection die silently: it stays open,
//! and nothing goes through it any more. It can also end connections as a process does that is
//! killed, take no others, lose the answer to a statement, with the connection or without it, and
//! have a statement wait.

#![allow(dead_code, reason = "each test uses a part")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What has gone through it.
#[derive(Default)]
pub struct Seen {
    /// Of each connection that has said `LISTEN`: whether it is dead.
    listening: Mutex<Vec<Arc<AtomicBool>>>,
    /// How often the clock was asked for on those.
    pub readings: AtomicUsize,
    /// The server's ends of all connections so far.
    servers: Mutex<Vec<TcpStream>>,
    /// It takes no connection.
    is_away: AtomicBool,
    /// New connections wait.
    is_slow: AtomicBool,
    /// How many have waited so far.
    waited: AtomicUsize,
    /// The next message with these words goes through, and its answer does not.
    unanswered: Mutex<Option<&'static str>>,
    /// The next message with these words goes through, on a connection that has said the first ones
    /// before. From then on nothing comes back on it, and it stays open.
    stuck: Mutex<Option<(&'static str, &'static str)>>,
    /// The next message with these words waits.
    to_hold: Mutex<Option<&'static str>>,
    /// Whether one waits.
    holds: AtomicBool,
}

impl Seen {
    /// Connections that have said `LISTEN` so far.
    pub fn listening(&self) -> usize {
        let listening = self.listening.lock();
        listening.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Closes all connections to the server.
    pub fn cut_all(&self) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        for server in servers.drain(..) {
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections to the server, and takes no others until it is back.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
        self.cut_all();
    }

    /// New connections wait until they may go on.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::SeqCst);
    }

    /// How many connections have had to wait so far.
    pub fn waited(&self) -> usize {
        self.waited.load(Ordering::SeqCst)
    }

    /// The next message with these words goes through. Then its connection ends, without an answer.
    pub fn lose_answer_to(&self, words: &'static str) {
        let mut unanswered = self.unanswered.lock();
        **unanswered.as_mut().unwrap() = Some(words);
    }

    /// The next message with these words goes through, on a connection that says `first` before.
    /// From then on nothing goes through this connection any more, and it stays open.
    pub fn stand_still_after(&self, first: &'static str, words: &'static str) {
        let mut stuck = self.stuck.lock();
        **stuck.as_mut().unwrap() = Some((first, words));
    }

    /// Whether a connection has come to stand still so.
    pub fn stands_still(&self) -> bool {
        let stuck = self.stuck.lock();
        stuck.unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The next message with these words waits until it is let go.
    pub fn hold(&self, words: &'static str) {
        *self.to_hold.lock().unwrap() = Some(words);
    }

    /// Whether a message waits so.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    /// The message that waits goes through.
    pub fn let_go(&self) {
        self.holds.store(false, Ordering::SeqCst);
    }

    /// Has this message wait, if it is to.
    fn wait_with(&self, message: &[u8]) {
        let mut to_hold = self.to_hold.lock().unwrap();
        let is_held = to_hold.take_if(|words| has(message, words)).is_some();
        drop(to_hold);
        if is_held {
            self.holds.store(true, Ordering::SeqCst);
            while self.holds() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Whether a connection stands still from this message on. `begun`: it has said what comes
    /// before.
    fn stands_still_after(&self, message: &[u8], begun: &mut bool) -> bool {
        let mut stuck = self.stuck.lock();
        let stuck = stuck.as_mut().unwrap();
        let is_last = |(first, words): &mut (&str, &str)| {
            *begun |= has(message, first);
            *begun && has(message, words)
        };
        stuck.take_if(is_last).is_some()
    }

    /// Whether this message is to have no answer.
    fn is_unanswered(&self, message: &[u8]) -> bool {
        let mut unanswered = self.unanswered.lock();
        let unanswered = unanswered.as_mut().unwrap();
        unanswered.take_if(|words| has(message, words)).is_some()
    }

    /// From now on nothing goes through those any more.
    pub fn let_listening_die(&self) {
        let listening = self.listening.lock();
        for is_dead in listening.unwrap_or_else(PoisonError::into_inner).iter() {
            is_dead.store(true, Ordering::SeqCst);
        }
    }
}

/// Starts one for the server of this connection string. Returns the string for it.
pub fn to(database: &str) -> (String, Arc<Seen>) {
    let config: postgres::Config = database.parse().unwrap();
    let port = config.get_ports()[0];
    let (own_port, seen) = start(port);
    let (port, own_port) = (format!("port={port}"), format!("port={own_port}"));
    (database.replace(&port, &own_port), seen)
}

/// Starts one for a server on this port of this machine. Returns its own port. Its threads go with
/// their connections, and the last one with the process.
fn start(to_port: u16) -> (u16, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    let all = seen.clone();
    thread::spawn(move || {
        for client in here.incoming().map_while(Result::ok) {
            if all.is_away.load(Ordering::SeqCst) {
                continue;
            }
            if all.is_slow.load(Ordering::SeqCst) {
                all.waited.fetch_add(1, Ordering::SeqCst);
            }
            while all.is_slow.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if let Ok(server) = TcpStream::connect(("127.0.0.1", to_port)) {
                pass(client, server, &all);
            }
        }
    });
    (port, seen)
}

/// Whether a message has these words.
fn has(message: &[u8], words: &str) -> bool {
    message
        .windows(words.len())
        .any(|part| part == words.as_bytes())
}

fn pass(client: TcpStream, server: TcpStream, seen: &Arc<Seen>) {
    let is_dead = Arc::new(AtomicBool::new(false));
    let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let servers = seen.servers.lock();
    servers
        .unwrap_or_else(PoisonError::into_inner)
        .push(server.try_clone().unwrap());
    let (seen, flag) = (seen.clone(), is_dead.clone());
    let (mut is_listening, mut has_begun) = (false, false);
    thread::spawn(move || {
        copy(client, to_server, &flag.clone(), |message| {
            if has(message, "LISTEN ") && !is_listening {
                is_listening = true;
                let listening = seen.listening.lock();
                listening
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(flag.clone());
            }
            if is_listening && has(message, "extract(epoch FROM now())") {
                seen.readings.fetch_add(1, Ordering::SeqCst);
            }
            seen.wait_with(message);
            let is_unanswered = seen.is_unanswered(message);
            let stands_still = seen.stands_still_after(message, &mut has_begun);
            flag.fetch_or(is_unanswered || stands_still, Ordering::SeqCst);
            is_unanswered
        });
    });
    thread::spawn(move || copy(server, to_client, &is_dead, |_| false));
}

/// `look`: whether a message is the last one.
fn copy(
    mut from: TcpStream,
    mut to: TcpStream,
    is_dead: &AtomicBool,
    mut look: impl FnMut(&[u8]) -> bool,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = from.read(&mut buffer) {
        let is_dead = is_dead.load(Ordering::SeqCst);
        let is_last = count == 0 || !is_dead && look(&buffer[..count]);
        let is_written = is_dead || to.write_all(&buffer[..count]).is_ok();
        if is_last || !is_written {
            // (The other end hears of it, too.)
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
