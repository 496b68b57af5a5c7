//! Passing: how time passes in a simulated fleet. Each node's clock follows the store's, but for
//! those that stand still.

use super::super::simulated::Scene;
use super::world::Shared;
use std::time::Duration;

impl Shared {
    /// Moves a node's clock to that of the store. `leaps`: past all that is due on the way.
    fn follow(&self, node: usize, leaps: bool) {
        let (clock, behind, is_driven) = {
            let world = self.lock();
            let state = &world.nodes[node];
            let behind = state.time.behind(world.now);
            (state.clock.clone(), behind, state.is_driven)
        };
        if leaps || is_driven {
            clock.jump(behind);
        }
        if is_driven {
            return;
        }
        self.lock().nodes[node].is_driven = true;
        self.run(node, || {
            clock.advance(if leaps { Duration::ZERO } else { behind })
        });
        self.lock().nodes[node].is_driven = false;
    }

    /// Time passes for all.
    pub fn pass(&self, by: Duration) {
        self.pass_but(by, None);
    }

    /// Time passes. The process of one node may stand still.
    fn pass_but(&self, by: Duration, stands: Option<usize>) {
        let end = self.lock().now + by;
        loop {
            let mut nodes = {
                let mut world = self.lock();
                let left = end.duration_since(world.now).unwrap_or_default();
                if left.is_zero() {
                    break;
                }
                let quantum = world.quantum;
                world.now += left.min(quantum);
                let mut nodes: Vec<_> = (0..world.nodes.len())
                    .filter(|&node| world.is_up(node) && Some(node) != stands)
                    .collect();
                world.rng.shuffle(&mut nodes);
                nodes
            };
            nodes.retain(|&node| self.is_awake(node));
            for node in nodes {
                if self.lock().is_up(node) {
                    self.follow(node, false);
                }
            }
        }
        // (What stood still finds that time has passed.)
        if let Some(node) = stands {
            let (clock, behind) = {
                let world = self.lock();
                let state = &world.nodes[node];
                (state.clock.clone(), state.time.behind(world.now))
            };
            clock.jump(behind);
        }
    }

    /// Whether a node's clock goes. One that has stood still for long enough goes on.
    fn is_awake(&self, node: usize) -> bool {
        let mut world = self.lock();
        match world.nodes[node].paused {
            None => return true,
            Some(until) if until > world.now => return false,
            Some(_) => {}
        }
        world.nodes[node].paused = None;
        world.trouble();
        world.note(format_args!("node {node} goes on"));
        drop(world);
        self.follow(node, true);
        true
    }

    /// Time passes while a node's store is at a call. Callers act on all nodes meanwhile.
    pub fn pass_in_store(&self, node: usize, time: Duration, stands: bool) {
        if time.is_zero() {
            return;
        }
        let (acts, others) = {
            let mut world = self.lock();
            world.nodes[node].is_in_store = true;
            world.counts().nested += 1;
            let until = world.now + time;
            world.trouble_at = world.trouble_at.max(until);
            (world.rng.u8(..3), world.others(node))
        };
        if !stands {
            for _ in 0..acts {
                self.act_in_store(node);
            }
        }
        for other in others {
            self.act(other, false);
        }
        self.pass_but(time, stands.then_some(node));
        let mut world = self.lock();
        world.nodes[node].is_in_store = false;
    }
}
