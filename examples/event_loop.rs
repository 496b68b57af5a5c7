//! An event loop of one thread that closes idle connections and pings the others:
//! `cargo run --example event_loop`.
//!
//! Packets come through a channel here; in a server they would come from `epoll` or the like, whose
//! wait takes the same timeout.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::wheel::{Handle, Wheel};

/// Ticks are milliseconds since the start.
const IDLE_MAX: u64 = 100;
const PING_EVERY: u64 = 40;

/// Timers that one round of the loop serves before it looks at packets again.
const ROUND_MAX: usize = 64;

/// What to do, for the connection of this number.
enum Timer {
    Close(u32),
    Ping(u32),
}

struct Connection {
    close: Handle,
    ping: Handle,
}

fn main() {
    let (network, packets) = channel();
    // Connection 1 is silent at once, 2 after 60 ms, 3 after 180 ms.
    for (number, sends) in [(1, 1), (2, 3), (3, 7)] {
        connect(network.clone(), number, sends);
    }

    let start = Instant::now();
    let mut wheel = Wheel::new(0);
    let mut connections = HashMap::new();
    let mut closed = 0;
    while closed < 3 {
        // Wait for a packet, until the next deadline at the latest.
        let wait = wheel.next_deadline().map_or(Duration::MAX, |deadline| {
            Duration::from_millis(deadline).saturating_sub(start.elapsed())
        });
        let packet = packets.recv_timeout(wait).ok();
        // Rounded down, so that no timer is early; what is armed now gets a tick more, so that it
        // is not early either.
        let now = start.elapsed().as_millis() as u64;

        if let Some(number) = packet {
            let connection = connections.entry(number).or_insert_with(|| {
                println!("{now:4} ms: connection {number} opens");
                let close = wheel.insert(now + 1 + IDLE_MAX, Timer::Close(number));
                Connection {
                    close,
                    ping: wheel.insert(now + 1 + PING_EVERY, Timer::Ping(number)),
                }
            });
            // Each packet puts the timeout off: a store.
            wheel.reschedule(connection.close, now + 1 + IDLE_MAX);
        }

        // The wheel is free inside this loop, so timers can be armed and cancelled.
        for _ in 0..ROUND_MAX {
            match wheel.pop_due(now) {
                None => break,
                Some((_, Timer::Ping(number))) => {
                    println!("{now:4} ms: ping {number}");
                    if let Some(connection) = connections.get_mut(&number) {
                        connection.ping = wheel.insert(now + 1 + PING_EVERY, Timer::Ping(number));
                    }
                }
                Some((deadline, Timer::Close(number))) => {
                    println!(
                        "{now:4} ms: connection {number} was idle for {IDLE_MAX} ms, {} ms ago",
                        now - deadline
                    );
                    if let Some(connection) = connections.remove(&number) {
                        wheel.cancel(connection.ping);
                        closed += 1;
                    }
                }
            }
        }
    }
    assert!(wheel.is_empty());
}

/// A peer that sends a packet every 30 ms, `sends` times.
fn connect(network: Sender<u32>, number: u32, sends: u32) {
    thread::spawn(move || {
        for _ in 0..sends {
            if network.send(number).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(30));
        }
    });
}
