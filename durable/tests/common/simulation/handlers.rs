//! Handlers: those that end at once, by chance well or not, and those that last.

use super::acts::Place;
use super::ledger::{Said, token};
use super::world::{MS, Shared};
use fastrand::Rng;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wheelwork_durable::{Delivery, GiveUp, HandlerResult, Later, SpawnedFuture};

/// How a handler ends.
#[derive(Clone, Copy)]
enum End {
    Done,
    Failed,
    Later,
    GivesUp,
    Panics,
    Dies,
}

/// How a handler of this kind ends.
fn end_by_chance(kind: &str, rng: &mut Rng, has_trouble: bool) -> End {
    match (kind, rng.u8(..10)) {
        ("poison", _) => End::Dies,
        ("shaky", 0..3) | ("batch" | "limited", 0) => End::Failed,
        ("shaky", 3) => End::Panics,
        ("shaky", 5) | ("batch", 1) => End::Later,
        ("shaky", 6) => End::GivesUp,
        ("shaky", 4) if has_trouble && rng.u8(..10) == 0 => End::Dies,
        _ => End::Done,
    }
}

/// How long a timer is put off.
fn wait_by_chance(rng: &mut Rng) -> Duration {
    MS * [0, 1, 40, 700, 9_000][rng.usize(..5)]
}

/// What a handler returns.
fn answer(said: Said, wait: Duration) -> HandlerResult {
    match said {
        Said::Done => Ok(()),
        Said::Later => Err(Later::after(wait).into()),
        Said::GaveUp => Err(GiveUp::because("simulated").into()),
        Said::Failed | Said::Nothing => Err("simulated".into()),
    }
}

/// A handler that lasts. It ends when it is polled.
pub struct Lasting {
    shared: Shared,
    delivery: Delivery,
    node: usize,
    /// It has said something.
    has_ended: bool,
}

impl Future for Lasting {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        let shared = self.shared.clone();
        let mut world = shared.lock();
        let left = self.delivery.time_left();
        let is_over = left.is_none_or(|left| left.is_zero());
        if is_over && !world.nodes[self.node].is_dead {
            let what = format!("{:?} goes on after its limit: {left:?}", self.delivery);
            world.ledger.wrong(what);
        }
        if world.rng.u8(..4) == 0 {
            // It goes on when it is polled again.
            return Poll::Pending;
        }
        self.has_ended = true;
        let said = match world.rng.u8(..12) {
            0 => Said::Later,
            1 => Said::GaveUp,
            2..4 => Said::Failed,
            _ => Said::Done,
        };
        let wait = wait_by_chance(&mut world.rng);
        world.note(format_args!(
            "  node {} has handled {}: {said:?}",
            self.node,
            token(self.delivery.payload())
        ));
        world.ledger.said(self.node, &self.delivery, said);
        Poll::Ready(answer(said, wait))
    }
}

/// Its time limit is over. (Or its node dies.)
impl Drop for Lasting {
    fn drop(&mut self) {
        let mut world = self.shared.lock();
        if self.has_ended || world.nodes[self.node].is_dead {
            return;
        }
        let left = self.delivery.time_left();
        world.note(format_args!(
            "  node {} drops {}, {left:?} before its limit",
            self.node,
            token(self.delivery.payload())
        ));
        if left != Some(Duration::ZERO) {
            let what = format!("{:?} is dropped {left:?} before its limit", self.delivery);
            world.ledger.wrong(what);
        }
        world.ledger.said(self.node, &self.delivery, Said::Failed);
    }
}

/// Polls a future once. Returns it if it goes on.
fn poll(mut future: SpawnedFuture) -> Option<SpawnedFuture> {
    let mut context = Context::from_waker(Waker::noop());
    let poll = future.as_mut().poll(&mut context);
    poll.is_pending().then_some(future)
}

impl Shared {
    /// A handler begins.
    fn begin(&self, delivery: &Delivery, node: usize) {
        let mut world = self.lock();
        if !world.nodes[node].is_dead {
            let now = world.shows(node);
            if world.nodes[node].is_down {
                let what = format!("{} begins while the store is away", delivery.id());
                world.ledger.wrong(what);
            }
            world.ledger.began(node, delivery, now);
            world.check_not_paused(delivery);
            let passed = world.now();
            world.ledger.is_let_through(node, delivery, passed);
        }
    }

    /// A handler for one timer.
    pub fn deliver(&self, delivery: &Delivery, node: usize) -> HandlerResult {
        self.begin(delivery, node);
        self.handle(delivery, node)
    }

    fn handle(&self, delivery: &Delivery, node: usize) -> HandlerResult {
        let (end, acts, slow) = {
            let mut world = self.lock();
            if world.nodes[node].is_dead {
                return Ok(());
            }
            let (has_trouble, is_fleet) = (world.has_trouble, world.scene.is_fleet());
            let end = end_by_chance(delivery.kind(), &mut world.rng, has_trouble);
            let acts = world.rng.u8(..if is_fleet { 3 } else { 4 }) * world.rng.u8(..2);
            let may_be_slow = is_fleet && has_trouble && world.depth() < 2;
            let is_slow = may_be_slow && world.rng.u8(..25) == 0;
            let slow = is_slow.then(|| match world.rng.u8(..3) {
                0 => world.lease.mul_f64(0.3 + world.rng.f64() * 1.2),
                _ => MS * world.rng.u32(1..300),
            });
            if let Some(slow) = slow {
                world.note(format_args!("  it takes {slow:?}"));
                world.trouble(slow);
            }
            (end, if has_trouble { acts } else { 0 }, slow)
        };
        for _ in 0..acts {
            self.act(node, Place::Handler);
        }
        if let Some(slow) = slow {
            self.pass(slow);
            self.act(node, Place::Handler);
        }
        if self.lock().nodes[node].is_dead {
            return Ok(());
        }
        self.finish(node, delivery, end)
    }

    fn finish(&self, node: usize, delivery: &Delivery, end: End) -> HandlerResult {
        let mut world = self.lock();
        let said = match end {
            End::Done => Said::Done,
            End::Later => Said::Later,
            End::GivesUp => Said::GaveUp,
            End::Failed | End::Panics | End::Dies => Said::Failed,
        };
        match end {
            End::Done | End::Failed | End::Later | End::GivesUp => {
                let wait = wait_by_chance(&mut world.rng);
                world.ledger.said(node, delivery, said);
                answer(said, wait)
            }
            End::Panics => {
                world.ledger.said(node, delivery, said);
                drop(world);
                // (Without a word from the panic hook.)
                resume_unwind(Box::new("simulated"))
            }
            End::Dies => {
                world.dies(node, delivery);
                Ok(())
            }
        }
    }

    /// A handler that lasts.
    pub fn deliver_lasting(&self, delivery: Delivery, node: usize) -> Lasting {
        self.begin(&delivery, node);
        Lasting {
            shared: self.clone(),
            delivery,
            node,
            has_ended: false,
        }
    }

    /// A handler for several. It may answer for some of them only, and the others have failed.
    pub fn deliver_all(&self, timers: &[Delivery], node: usize) -> Vec<HandlerResult> {
        let is_fleet = self.lock().scene.is_fleet();
        let cut = |one_in| {
            let mut world = self.lock();
            let is_cut = world.rng.u8(..one_in) == 0;
            is_cut.then(|| world.rng.usize(..=timers.len()))
        };
        timers.iter().for_each(|timer| self.begin(timer, node));
        let mut count = timers.len();
        if !is_fleet {
            count = cut(20).unwrap_or(count);
        }
        let results = timers[..count].iter().map(|timer| self.handle(timer, node));
        let mut results: Vec<_> = results.collect();
        if is_fleet {
            count = cut(8).unwrap_or(count);
        }
        results.truncate(count);
        let mut world = self.lock();
        for timer in &timers[count..] {
            if !world.nodes[node].is_dead {
                world.ledger.said(node, timer, Said::Failed);
            }
        }
        results
    }

    /// A node has a future to run. A process runs it now, or when the executor has time for it.
    pub fn spawn(&self, node: usize, future: SpawnedFuture) {
        let mut world = self.lock();
        if world.scene.is_fleet() || world.is_executor_busy {
            return world.nodes[node].futures.push(future);
        }
        drop(world);
        self.poll_once(node, future);
    }

    /// Polls a future. If it goes on, it is polled again later.
    fn poll_once(&self, node: usize, future: SpawnedFuture) {
        if let Some(future) = poll(future) {
            self.lock().nodes[node].futures.push(future);
        }
    }

    /// The executor of a process runs what has waited longest. `false`: nothing waits.
    pub fn run_first(&self, node: usize) -> bool {
        let mut world = self.lock();
        let futures = &mut world.nodes[node].futures;
        let future = (!futures.is_empty()).then(|| futures.remove(0));
        drop(world);
        future.map(|future| self.poll_once(node, future)).is_some()
    }

    /// Whether handlers last on some node.
    pub fn has_futures(&self) -> bool {
        let world = self.lock();
        world.nodes.iter().any(|node| !node.futures.is_empty())
    }

    /// Handlers that last end on all nodes, and soon.
    pub fn end_all_futures(&self, are_short: bool) {
        let awake = self.lock().awake();
        for node in awake {
            let trouble_at = self.lock().trouble_at;
            self.end_futures(node, true);
            let mut world = self.lock();
            if are_short && !world.nodes[node].has_failed {
                world.trouble_at = trouble_at;
            }
        }
    }

    /// A handler that lasts ends on this node, or all of them.
    pub fn end_futures(&self, node: usize, all: bool) {
        loop {
            let future = {
                let mut world = self.lock();
                let count = world.nodes[node].futures.len();
                if count == 0 {
                    return;
                }
                // (It has taken a place in the window.)
                world.trouble(Duration::ZERO);
                let number = world.rng.usize(..count);
                world.nodes[node].futures.swap_remove(number)
            };
            self.run(node, || self.poll_once(node, future));
            if !all {
                return;
            }
        }
    }

    /// A node dies, and its handlers with it.
    pub fn drop_futures(&self, node: usize) {
        loop {
            let futures = std::mem::take(&mut self.lock().nodes[node].futures);
            if futures.is_empty() {
                return;
            }
            self.run(node, || drop(futures));
        }
    }
}
