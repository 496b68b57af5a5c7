//! Random histories against a model: polls with any waker, at any time and for nothing, operations
//! that are dropped, bytes, and limits that change. A task that waits is woken at its limit, and
//! its poll gives the limit that is over first.

use super::MS;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wheelwork::future::Timers;
use wheelwork::io::{ElapsedLimit, Limits, TimeoutIo};
use wheelwork::{ManualClock, TimerService};

/// The limits in milliseconds. `u64::MAX`: for ever.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    ways: [Option<u64>; 2],
    idle: Option<u64>,
    max_age: Option<u64>,
}

impl Set {
    fn random(random: &mut fastrand::Rng) -> Self {
        let mut limit = |most| match random.u8(..10) {
            0..4 => None,
            4 => Some(0),
            5 => Some(u64::MAX),
            _ => Some(random.u64(1..most)),
        };
        Self {
            ways: [limit(30), limit(30)],
            idle: limit(40),
            max_age: limit(400),
        }
    }

    fn limits(self) -> Limits {
        let time = |limit| match limit {
            u64::MAX => Duration::MAX,
            limit => Duration::from_millis(limit),
        };
        let set = |limits, limit: Option<u64>, with: fn(Limits, Duration) -> Limits| match limit {
            Some(limit) => with(limits, time(limit)),
            None => limits,
        };
        let limits = set(Limits::new(), self.ways[0], Limits::read);
        let limits = set(limits, self.ways[1], Limits::write);
        let limits = set(limits, self.idle, Limits::idle);
        set(limits, self.max_age, Limits::max_age)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Read,
    Write,
    Flush,
    Shutdown,
}

impl Act {
    fn way(self) -> usize {
        usize::from(self != Self::Read)
    }
}

/// A stream that wakes nobody: a wake is one of its limits'.
#[derive(Default)]
struct Silent {
    readable: usize,
    room: usize,
    flushes: bool,
}

impl Silent {
    /// The bytes that an operation would give or take now. `None`: it would wait.
    fn ready(&self, act: Act, bytes: usize) -> Option<usize> {
        let some = |there: usize| (there > 0).then_some(there.min(bytes));
        match act {
            Act::Read => some(self.readable),
            Act::Write => some(self.room),
            Act::Flush | Act::Shutdown => self.flushes.then_some(0),
        }
    }

    fn poll(&self, act: Act, bytes: usize) -> Poll<io::Result<usize>> {
        self.ready(act, bytes)
            .map_or(Poll::Pending, |bytes| Poll::Ready(Ok(bytes)))
    }
}

impl AsyncRead for Silent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(Act::Read, buffer.remaining()).map_ok(|bytes| {
            self.readable -= bytes;
            buffer.put_slice(&vec![0; bytes]);
        })
    }
}

impl AsyncWrite for Silent {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(Act::Write, bytes.len()).map_ok(|bytes| {
            self.room -= bytes;
            bytes
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Act::Flush, 0).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Act::Shutdown, 0).map_ok(|_| ())
    }
}

/// What the documents say.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    set: Set,
    moved: u64,
    since: [Option<u64>; 2],
}

impl Model {
    fn over(&self, way: usize) -> Option<(u64, ElapsedLimit)> {
        let name = [ElapsedLimit::Read, ElapsedLimit::Write][way];
        let of_way = self.since[way].zip(self.set.ways[way]);
        let idle = self.set.idle.map(|limit| (self.moved, limit));
        let age = self.set.max_age.map(|limit| (0, limit));
        [
            (of_way, name),
            (idle, ElapsedLimit::Idle),
            (age, ElapsedLimit::Age),
        ]
        .into_iter()
        .filter_map(|(since, which)| since.map(|(at, limit)| (at.saturating_add(limit), which)))
        .min_by_key(|(at, _)| *at)
    }

    /// `ready`: the bytes that the stream gives or takes.
    fn poll(&mut self, act: Act, ready: Option<usize>) -> Poll<Result<usize, ElapsedLimit>> {
        let way = act.way();
        let begins = matches!(act, Act::Read | Act::Write);
        if begins && self.set.max_age.is_some_and(|limit| self.now >= limit) {
            return Poll::Ready(Err(ElapsedLimit::Age));
        }
        if let Some(bytes) = ready {
            self.since[way] = None;
            if bytes > 0 {
                self.moved = self.now;
            }
            return Poll::Ready(Ok(bytes));
        }
        if self.set.ways[way].is_some() {
            self.since[way].get_or_insert(self.now);
        }
        match self.over(way) {
            Some((at, which)) if at <= self.now => Poll::Ready(Err(which)),
            _ => Poll::Pending,
        }
    }

    fn set(&mut self, set: Set) {
        if self.set.idle.is_none() {
            self.moved = self.now;
        }
        for (since, limit) in self.since.iter_mut().zip(set.ways) {
            *since = since.filter(|_| limit.is_some());
        }
        self.set = set;
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll(
    stream: &mut TimeoutIo<Silent>,
    act: Act,
    bytes: usize,
    waker: &Waker,
) -> Poll<Result<usize, ElapsedLimit>> {
    let context = &mut Context::from_waker(waker);
    let mut buffer = [0; 4];
    let stream = Pin::new(stream);
    let outcome = match act {
        Act::Read => {
            let mut buffer = ReadBuf::new(&mut buffer[..bytes]);
            AsyncRead::poll_read(stream, context, &mut buffer).map_ok(|()| buffer.filled().len())
        }
        Act::Write => AsyncWrite::poll_write(stream, context, &buffer[..bytes]),
        Act::Flush => AsyncWrite::poll_flush(stream, context).map_ok(|()| 0),
        Act::Shutdown => AsyncWrite::poll_shutdown(stream, context).map_ok(|()| 0),
    };
    outcome.map_err(|error| ElapsedLimit::of(&error).expect("a limit"))
}

/// A stream on a clock, its model, and the tasks that use it.
struct History {
    random: fastrand::Rng,
    clock: ManualClock,
    stream: TimeoutIo<Silent>,
    model: Model,
    wakes: [Arc<Wakes>; 3],
    /// For each way that waits: the task, and how often it had been woken before its poll.
    waits: [Option<(usize, usize)>; 2],
}

impl History {
    fn is_woken(&self, way: usize) -> bool {
        self.waits[way].is_none_or(|(task, before)| self.wakes[task].0.load(SeqCst) > before)
    }

    fn poll(&mut self) {
        let acts = [Act::Read, Act::Write, Act::Flush, Act::Shutdown];
        let (act, bytes) = (acts[self.random.usize(..4)], self.random.usize(1..4));
        let task = self.random.usize(..3);
        let before = self.wakes[task].0.load(SeqCst);
        let ready = self.stream.get_ref().ready(act, bytes);
        let expected = self.model.poll(act, ready);
        let waker = self.wakes[task].clone().into();
        let found = poll(&mut self.stream, act, bytes, &waker);
        assert_eq!(found, expected, "{act:?}");
        self.waits[act.way()] = found.is_pending().then_some((task, before));
    }

    fn advance(&mut self) {
        let most = if self.random.u8(..10) == 0 { 300 } else { 20 };
        for _ in 0..self.random.u64(..most) {
            self.clock.advance(MS);
            self.model.now += 1;
            for way in 0..2 {
                let is_over = |(at, _)| at <= self.model.now;
                let is_over = self.model.over(way).is_some_and(is_over);
                assert!(!is_over || self.is_woken(way), "not woken");
            }
        }
    }

    fn set(&mut self) {
        let set = Set::random(&mut self.random);
        self.stream.set_limits(set.limits());
        self.model.set(set);
        assert!(self.is_woken(0) && self.is_woken(1), "not woken");
    }

    fn step(&mut self) {
        match self.random.u8(..20) {
            0..10 => self.poll(),
            10..16 => self.advance(),
            16 => self.stream.get_mut().readable += self.random.usize(1..5),
            17 => self.stream.get_mut().room += self.random.usize(1..5),
            18 => self.stream.get_mut().flushes = self.random.bool(),
            _ => self.set(),
        }
    }
}

#[test]
fn each_poll_gives_what_the_documents_say() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let clock = ManualClock::new();
        let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
        let set = Set::random(&mut random);
        let mut history = History {
            stream: TimeoutIo::on(&timers, Silent::default(), set.limits()),
            model: Model {
                set,
                ..Model::default()
            },
            random,
            clock,
            wakes: Default::default(),
            waits: [None; 2],
        };
        for _ in 0..100 {
            history.step();
            assert!(timers.handle().len() <= 1, "one timer, seed {seed}");
        }
        drop(history);
        assert!(timers.handle().is_empty());
    }
}
