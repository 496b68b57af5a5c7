//! Webhooks that are sent until the receiver takes them, or given up, though the sender is killed
//! meanwhile: `cargo run -p wheelwork-durable --example webhooks --features serde`.
//!
//! The receiver is an HTTP server on loopback, in this process. The sender is this program once
//! more, which is killed and started again.

#[path = "common/process.rs"]
mod process;

use process::{Folder, Process};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write, stdin};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wheelwork_durable::{Delivery, Durable, HandlerResult, Kind, Redb, RetryPolicy};

/// A message for somebody's server.
#[derive(Serialize, Deserialize)]
struct Hook {
    path: String,
    body: String,
}

const HOOK: Kind<Hook> = Kind::new("hook");

/// Sends a hook. The timer's id is the same at each attempt, so the receiver knows a hook again
/// that it has had.
fn send(receiver: SocketAddr, delivery: &Delivery, hook: &Hook) -> HandlerResult {
    let mut stream = TcpStream::connect(receiver)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "POST {} HTTP/1.1\r\nHost: {receiver}\r\nIdempotency-Key: {}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{}",
        hook.path,
        delivery.id(),
        hook.body.len(),
        hook.body,
    )?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    match status.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(()),
        _ => Err(format!("the receiver said {:?}", status.trim()).into()),
    }
}

/// The sender: lines such as `send /orders paid`, `dead` and `retry ID`.
fn serve(path: &Path, receiver: SocketAddr, attempts: u32) -> Result<(), Box<dyn Error>> {
    let timers = Durable::builder(Redb::open(path)?)
        .retry_policy(
            RetryPolicy::new()
                .first(Duration::from_millis(2))
                .attempts(attempts),
        )
        .on_typed(HOOK, move |delivery, hook| send(receiver, delivery, &hook))
        .on_dead(|letter| println!("given up {}", letter.row.id))
        .start()?;
    println!("\nopen");
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["send", path, body] => {
                let (path, body) = (path.to_string(), body.to_string());
                timers.schedule_typed(HOOK, Duration::ZERO, &Hook { path, body })?;
                // It is stored: the receiver will have it, or it will be among the dead.
                println!("accepted {}", words[2]);
            }
            ["dead"] => {
                for letter in timers.dead_letters(None, 100)? {
                    println!("dead {} {}", letter.row.id, letter.cause);
                }
                println!("these are all");
            }
            ["retry", id] => println!("retried {}", timers.revive(id.parse()?)?),
            _ => println!("what?"),
        }
    }
    Ok(timers.stop()?)
}

/// What a receiver has had: the bodies of the hooks that it took, by their keys, and how often each
/// came.
#[derive(Default)]
struct Inbox {
    had: HashMap<String, (String, u32)>,
    is_down: bool,
}

/// A server that takes hooks, each once. It says 503 while it is down, and to `/gone` always.
#[derive(Clone)]
struct Receiver {
    address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
}

impl Receiver {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let receiver = Self {
            address: listener.local_addr()?,
            inbox: Arc::default(),
        };
        let server = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A sender that is killed leaves half a request: nothing to answer.
                let _ = server.answer(&stream);
            }
        });
        Ok(receiver)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut request = BufReader::new(stream.take(65_536));
        let (mut key, mut length, mut path) = (String::new(), 0, String::new());
        loop {
            let mut line = String::new();
            request.read_line(&mut line)?;
            if !line.ends_with('\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end().split_once(' ') {
                Some(("POST", rest)) => path = rest.split(' ').take(1).collect(),
                Some(("Idempotency-Key:", value)) => key = value.to_string(),
                Some(("Content-Length:", value)) => length = value.parse().unwrap_or(0),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        request.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let mut inbox = self.inbox();
        let status = if inbox.is_down || path == "/gone" {
            "503 Service Unavailable"
        } else {
            inbox.had.entry(key).or_insert((body, 0)).1 += 1;
            "204 No Content"
        };
        drop(inbox);
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n")
    }

    /// The bodies of the hooks that it took.
    fn bodies(&self) -> Vec<String> {
        let mut bodies: Vec<_> = self
            .inbox()
            .had
            .values()
            .map(|(body, _)| body.clone())
            .collect();
        bodies.sort();
        bodies
    }

    /// Waits until it has taken this number of hooks.
    fn wait_for(&self, count: usize) -> Vec<String> {
        while self.inbox().had.len() < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.bodies()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, sender, path, receiver, attempts] = &arguments[..]
        && sender == "sender"
    {
        return serve(Path::new(path), receiver.parse()?, attempts.parse()?);
    }
    let (folder, receiver) = (Folder::new("webhooks")?, Receiver::start()?);
    let program = std::env::current_exe()?;
    let start = || {
        let mut command = Command::new(&program);
        command
            .arg("sender")
            .arg(folder.file("timers.redb"))
            .arg(receiver.address.to_string())
            .arg("5");
        Process::start(command)
    };

    let mut sender = start()?;
    sender.say("send /orders paid")?;
    sender.hear("accepted paid")?;
    sender.kill()?;
    println!("a hook was accepted, and the sender was killed");

    let mut sender = start()?;
    println!("it runs again; the receiver has {:?}", receiver.wait_for(1));

    sender.say("send /gone lost")?;
    while !sender.next()?.starts_with("given up") {}
    sender.say("dead")?;
    for line in sender.hear("these are all")? {
        println!("{line}");
    }
    sender.end()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which file a process of these tests has its timers; where its receiver is; how often it
    /// tries.
    const FILE: &str = "WHEELWORK_WEBHOOKS";
    const RECEIVER: &str = "WHEELWORK_WEBHOOKS_RECEIVER";
    const ATTEMPTS: &str = "WHEELWORK_WEBHOOKS_ATTEMPTS";

    fn start(folder: &Folder, receiver: &Receiver, attempts: u32) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["tests::a_sender_of_its_own", "--exact", "--nocapture"])
            .env(FILE, folder.file("timers.redb"))
            .env(RECEIVER, receiver.address.to_string())
            .env(ATTEMPTS, attempts.to_string());
        Process::start(command).unwrap()
    }

    /// The sender that the other tests start as a process.
    #[test]
    fn a_sender_of_its_own() {
        let [path, receiver, attempts] = [FILE, RECEIVER, ATTEMPTS].map(std::env::var);
        if let (Ok(path), Ok(receiver), Ok(attempts)) = (path, receiver, attempts) {
            let attempts = attempts.parse().unwrap();
            serve(Path::new(&path), receiver.parse().unwrap(), attempts).unwrap();
        }
    }

    #[test]
    fn each_hook_arrives_though_the_sender_is_killed() {
        let folder = Folder::new("webhooks-kill").unwrap();
        let receiver = Receiver::start().unwrap();
        let mut expected = Vec::new();
        for round in 0..6 {
            let mut sender = start(&folder, &receiver, 1_000);
            for number in 0..10 {
                let body = format!("{}", 100 + round * 10 + number);
                sender.say(&format!("send /orders {body}")).unwrap();
                sender.hear(&format!("accepted {body}")).unwrap();
                expected.push(body);
            }
            sender.kill().unwrap();
        }
        let sender = start(&folder, &receiver, 1_000);
        assert_eq!(receiver.wait_for(expected.len()), expected, "each once");
        sender.end().unwrap();
        assert_eq!(receiver.bodies(), expected);
    }

    /// The lines that `dead` gives.
    fn dead(sender: &mut Process) -> Vec<String> {
        sender.say("dead").unwrap();
        let mut lines = sender.hear("these are all").unwrap();
        lines.retain(|line| line.starts_with("dead "));
        lines
    }

    #[test]
    fn what_is_given_up_is_kept_and_can_be_sent_again() {
        let folder = Folder::new("webhooks-dead").unwrap();
        let receiver = Receiver::start().unwrap();
        receiver.inbox().is_down = true;
        let mut sender = start(&folder, &receiver, 5);
        sender.say("send /orders paid").unwrap();
        while !sender.next().unwrap().starts_with("given up ") {}
        sender.kill().unwrap();

        let mut sender = start(&folder, &receiver, 5);
        let letters = dead(&mut sender);
        let why = "its handler failed: the receiver said \"HTTP/1.1 503 Service Unavailable\"";
        assert!(
            letters.len() == 1 && letters[0].ends_with(why),
            "{letters:?}"
        );
        assert_eq!(receiver.bodies(), [""; 0]);

        receiver.inbox().is_down = false;
        let id = letters[0].split(' ').nth(1).unwrap();
        sender.say(&format!("retry {id}")).unwrap();
        sender.hear("retried true").unwrap();
        assert_eq!(receiver.wait_for(1), ["paid"]);
        assert_eq!(dead(&mut sender), [""; 0]);
        sender.end().unwrap();
    }
}
