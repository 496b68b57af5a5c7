//! Load: clients that behave, at a pace or as fast as it goes, and a few that are rude. All of one
//! thread.

use crate::client::{Answers, Client};
use crate::requests::Request;
use crate::rude::Rude;
use fastrand::Rng;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wheelwork_kit::lateness::Lateness;

/// The rest of a request in two pieces is sent so long after its beginning, or at the next step.
const REST_AFTER_NS: u64 = 200_000;

/// Between two steps of a pace.
const STEP: Duration = Duration::from_millis(1);

/// Between two looks at rude clients that do not read.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// Requests that are sent before answers are read, if the load is behind its pace.
const BURST: usize = 64;

/// Events that are taken at a time.
const EVENTS: usize = 1_024;

/// For answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// What clients send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Requests a second of all clients; none: each sends its next one when it has its answer.
    pub(crate) rate: Option<usize>,
    /// Of a hundred requests. Every other one comes in two pieces.
    pub(crate) posts: usize,
    /// A rude client that does not read is given up after this time, by itself.
    pub(crate) rude_ns: u64,
}

/// What a time of load has brought.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    /// Requests with another answer than they should have, or without one.
    pub(crate) failed: u64,
    /// Rude clients that were cut off.
    pub(crate) cut_off: u64,
    /// From the last byte of a request to its answer.
    pub(crate) response_times: Lateness,
}

pub(crate) struct Load {
    poll: Poll,
    clients: Vec<Client>,
    rude: Vec<Rude>,
    addresses: Vec<SocketAddr>,
    mix: Mix,
    rng: Rng,
    start: Instant,
    /// Whose turn it is.
    next: usize,
    /// Clients with the rest of a request to send, and when.
    rests: VecDeque<(u64, usize)>,
    /// When rude clients are looked at again.
    look_ns: u64,
    buffer: Vec<u8>,
    tally: Tally,
}

fn failed(error: io::Error) -> String {
    format!("the load: {error}")
}

impl Load {
    /// Without clients so far. The addresses are all of one server.
    pub(crate) fn new(addresses: &[SocketAddr], mix: Mix, seed: u64) -> Result<Self, String> {
        Ok(Self {
            poll: Poll::new().map_err(failed)?,
            clients: Vec::new(),
            rude: Vec::new(),
            addresses: addresses.to_vec(),
            mix,
            rng: Rng::with_seed(seed),
            start: Instant::now(),
            next: 0,
            rests: VecDeque::new(),
            look_ns: 0,
            buffer: vec![0; 1 << 14],
            tally: Tally::default(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Connects more that behave. After that no rude one has come yet.
    pub(crate) fn connect(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let number = self.clients.len();
            let address = self.addresses[number % self.addresses.len()];
            let mut client = Client::connect(address).map_err(failed)?;
            let (source, token) = (&mut client.stream, Token(number));
            self.poll
                .registry()
                .register(source, token, Interest::READABLE)
                .map_err(failed)?;
            self.clients.push(client);
        }
        Ok(())
    }

    /// Connects those that are rude.
    pub(crate) fn connect_rude(&mut self, count: usize) -> Result<(), String> {
        let now_ns = self.now_ns();
        for number in 0..count {
            let address = self.addresses[number % self.addresses.len()];
            let rude = Rude::connect(address, number, now_ns).map_err(failed)?;
            self.rude.push(rude);
            self.watch_rude(number)?;
        }
        Ok(())
    }

    fn watch_rude(&mut self, number: usize) -> Result<(), String> {
        let token = Token(self.clients.len() + number);
        let rude = &mut self.rude[number];
        if !rude.reads() {
            return Ok(());
        }
        let registry = self.poll.registry();
        let registered = registry.register(&mut rude.stream, token, Interest::READABLE);
        registered.map_err(failed)
    }

    /// Another one comes in its place.
    fn replace_rude(&mut self, number: usize) -> Result<(), String> {
        let address = self.addresses[number % self.addresses.len()];
        let next = self.rude[number].next(address, self.now_ns());
        self.rude[number] = next.map_err(failed)?;
        self.watch_rude(number)
    }

    /// Goes on for that time, and until a request is answered. Returns what it has brought.
    pub(crate) fn run(&mut self, time: Duration) -> Result<Tally, String> {
        self.tally = Tally {
            response_times: Lateness::ready(),
            ..Tally::default()
        };
        let mut events = Events::with_capacity(EVENTS);
        let begin = Instant::now();
        let mut sent = 0;
        if self.mix.rate.is_none() {
            (0..self.clients.len()).for_each(|client| self.go_on(client));
        }
        let is_enough = |tally: &Tally| match begin.elapsed() {
            elapsed if tally.answered == 0 => elapsed >= time + PATIENCE,
            elapsed => elapsed >= time,
        };
        while !is_enough(&self.tally) {
            let due = self.mix.rate.map_or(0, |rate| {
                (begin.elapsed().as_secs_f64() * rate as f64) as u64
            });
            for _ in 0..BURST.min((due - sent) as usize) {
                self.send_next()?;
                sent += 1;
            }
            self.step(&mut events, sent < due, true)?;
            self.give_up_rude()?;
        }
        Ok(std::mem::take(&mut self.tally))
    }

    /// Waits for the answers to what was sent. Returns how many requests have failed.
    pub(crate) fn finish(&mut self) -> Result<u64, String> {
        self.tally = Tally::default();
        let mut events = Events::with_capacity(EVENTS);
        let begin = Instant::now();
        let waiting = |clients: &[Client]| clients.iter().map(Client::waiting).sum::<usize>();
        while waiting(&self.clients) > 0 && begin.elapsed() < PATIENCE {
            self.step(&mut events, false, false)?;
        }
        Ok(self.tally.failed + waiting(&self.clients) as u64)
    }

    /// Sends what is left of requests, and takes what comes. With `more` it does not wait, and with
    /// `goes_on` a client that has its answer asks again if there is no pace.
    fn step(&mut self, events: &mut Events, more: bool, goes_on: bool) -> Result<(), String> {
        let now_ns = self.now_ns();
        while let Some((_, client)) = self.rests.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.clients[client].send_rest(now_ns);
        }
        let rests_wait = self.mix.rate.is_none() && !self.rests.is_empty();
        let wait = if more || rests_wait {
            Duration::ZERO
        } else {
            STEP
        };
        if let Err(error) = self.poll.poll(events, Some(wait))
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(failed(error));
        }
        for event in &*events {
            self.take(event, goes_on)?;
        }
        Ok(())
    }

    fn take(&mut self, event: &Event, goes_on: bool) -> Result<(), String> {
        let number = event.token().0;
        let Some(client) = self.clients.get_mut(number) else {
            let number = number - self.clients.len();
            if self.rude[number].read(&mut self.buffer) {
                self.tally.cut_off += 1;
                self.replace_rude(number)?;
            }
            return Ok(());
        };
        let mut answers = Answers::default();
        client.read(&mut self.buffer, &mut answers);
        let now_ns = self.now_ns();
        for &sent_ns in &answers.sent_ns {
            self.tally.response_times.late(sent_ns, now_ns);
        }
        self.tally.answered += answers.sent_ns.len() as u64;
        self.tally.failed += answers.failed;
        if goes_on && self.mix.rate.is_none() && self.clients[number].waiting() == 0 {
            self.go_on(number);
        }
        Ok(())
    }

    /// The next client in turn that is there sends a request.
    fn send_next(&mut self) -> Result<(), String> {
        for _ in 0..self.clients.len() {
            let client = self.next;
            self.next = (client + 1) % self.clients.len();
            if self.clients[client].is_open() {
                self.go_on(client);
                return Ok(());
            }
        }
        Err("the load: the server has closed all connections".to_string())
    }

    /// The client sends a request, if it is there.
    fn go_on(&mut self, client: usize) {
        let request = match self.rng.usize(..100) < self.mix.posts {
            true if self.rng.bool() => Request::PostInTwo,
            true => Request::Post,
            false => Request::Get,
        };
        let now_ns = self.now_ns();
        if self.clients[client].is_open() && self.clients[client].send(request, now_ns) {
            self.rests.push_back((now_ns + REST_AFTER_NS, client));
        }
    }

    /// Rude clients that cannot see that they are cut off go after some time.
    fn give_up_rude(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        if now_ns < self.look_ns {
            return Ok(());
        }
        self.look_ns = now_ns + LOOK_AGAIN_NS;
        for number in 0..self.rude.len() {
            let rude = &self.rude[number];
            if !rude.reads() && rude.since_ns() + self.mix.rude_ns < now_ns {
                self.replace_rude(number)?;
            }
        }
        Ok(())
    }
}
