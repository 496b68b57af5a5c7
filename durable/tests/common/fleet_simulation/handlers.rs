//! Handlers of a simulated fleet: those that end at once, and those that last.

use super::super::simulated::{Said, Scene, end_by_chance, token};
use super::world::{MS, Shared};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use wheelwork_durable::{Delivery, HandlerResult, SpawnedFuture};

/// A handler that lasts. It ends when it is polled.
pub struct Lasting {
    shared: Shared,
    delivery: Delivery,
    node: usize,
}

impl Future for Lasting {
    type Output = HandlerResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        let mut world = self.shared.lock();
        let is_done = world.rng.u8(..4) > 0;
        let said = if is_done { Said::Done } else { Said::Failed };
        world.note(format_args!(
            "  node {} has handled {}: {said:?}",
            self.node,
            token(self.delivery.payload())
        ));
        world.ledger.said(self.node, &self.delivery, said);
        Poll::Ready(if is_done {
            Ok(())
        } else {
            Err("simulated".into())
        })
    }
}

impl Shared {
    /// A handler begins.
    fn begin(&self, delivery: &Delivery, node: usize) {
        let mut world = self.lock();
        if !world.nodes[node].has_failed {
            let now = world.nodes[node].time.now_exactly();
            world.ledger.began(node, delivery, now);
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
            if world.nodes[node].has_failed {
                return Ok(());
            }
            let has_trouble = world.has_trouble;
            let end = end_by_chance(delivery.kind(), &mut world.rng, has_trouble);
            let acts = world.rng.u8(..3) * world.rng.u8(..2);
            let is_slow = has_trouble && world.depth() < 2 && world.rng.u8(..25) == 0;
            let slow = is_slow.then(|| match world.rng.u8(..3) {
                0 => world.lease.mul_f64(0.3 + world.rng.f64() * 1.2),
                _ => MS * world.rng.u32(1..300),
            });
            if let Some(slow) = slow {
                world.note(format_args!("  it takes {slow:?}"));
                let until = world.now + slow;
                world.trouble_at = world.trouble_at.max(until);
            }
            (end, if has_trouble { acts } else { 0 }, slow)
        };
        for _ in 0..acts {
            self.act(node, false);
        }
        if let Some(slow) = slow {
            self.pass(slow);
            self.act(node, false);
        }
        if self.lock().nodes[node].has_failed {
            return Ok(());
        }
        self.finish(node, delivery, end)
    }

    /// A handler that lasts.
    pub fn deliver_lasting(&self, delivery: Delivery, node: usize) -> Lasting {
        self.begin(&delivery, node);
        Lasting {
            shared: self.clone(),
            delivery,
            node,
        }
    }

    /// A node has a future to run.
    pub fn spawn(&self, node: usize, future: SpawnedFuture) {
        self.lock().nodes[node].futures.push(future);
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
                world.trouble();
                let number = world.rng.usize(..count);
                world.nodes[node].futures.swap_remove(number)
            };
            self.run(node, || {
                let mut future = future;
                let mut context = Context::from_waker(Waker::noop());
                let _ = future.as_mut().poll(&mut context);
            });
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

    /// A handler for many.
    pub fn deliver_all(&self, timers: &[Delivery], node: usize) -> Vec<HandlerResult> {
        timers.iter().for_each(|timer| self.begin(timer, node));
        let results = timers.iter().map(|timer| self.handle(timer, node));
        let mut results: Vec<_> = results.collect();
        let mut world = self.lock();
        // Some have no result, and have failed.
        if world.rng.u8(..8) == 0 && !world.nodes[node].has_failed {
            let count = world.rng.usize(..=timers.len());
            for timer in &timers[count..] {
                world.ledger.said(node, timer, Said::Failed);
            }
            results.truncate(count);
        }
        results
    }
}
